//! The ports of an element.

/// Push, pull, or agnostic: as the neighbors require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Processing {
    Push,
    Pull,
    Agnostic,
}

impl Processing {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Agnostic => "agnostic",
        }
    }
}

/// The ports of an element, and whether they are push, pull or agnostic.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    pub(crate) inputs: Vec<Processing>,
    pub(crate) outputs: Vec<Processing>,
}

impl Sides {
    /// How many inputs the element has.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }
    /// How many outputs the element has.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.outputs.len()
    }
    /// Whether an input is pulled (rather than pushed to).
    #[must_use]
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.inputs.get(port) == Some(&Processing::Pull)
    }
    /// Whether an output is pulled from (rather than pushes).
    #[must_use]
    pub fn output_is_pull(&self, port: usize) -> bool {
        self.outputs.get(port) == Some(&Processing::Pull)
    }
}
