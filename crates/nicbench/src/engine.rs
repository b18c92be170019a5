//! What carries rules out: a port's device, or the classifier in software.

use rules::Rule;

/// Rules that were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The numbers of those before it, which are there.
    pub taken: Vec<u64>,
    /// Why the next one is not, in the driver's words.
    pub words: String,
}

/// A classifier whose rules are changed while it is used. The numbers of rules are its own.
pub trait Engine: Sync {
    /// A rule in the form that it takes: making that does not count.
    type Rule: Clone + Send + Sync;

    /// A rule in that form.
    fn make(&self, rule: Rule) -> Self::Rule;

    /// Adds rules, one after the other.
    ///
    /// # Errors
    /// One was refused.
    fn add(&self, rules: &[Self::Rule]) -> Result<Vec<u64>, Refusal>;

    /// Adds rules in as few steps as it has calls for.
    ///
    /// # Errors
    /// One was refused.
    fn add_together(&self, rules: &[Self::Rule]) -> Result<Vec<u64>, Refusal> {
        self.add(rules)
    }

    /// Removes rules, one after the other.
    ///
    /// # Errors
    /// What it says.
    fn remove(&self, numbers: &[u64]) -> Result<(), String>;

    /// Puts rules in the place of others, so that a packet meets either. None: it has no way to do so.
    fn replace(&self, numbers: &[u64], rules: &[Self::Rule]) -> Option<Result<(), String>>;

    /// Removes rules and adds others in one step, or one after the other where there is no such step.
    ///
    /// # Errors
    /// One was refused.
    fn change(&self, gone: &[u64], new: &[Self::Rule]) -> Result<Vec<u64>, Refusal>;

    /// How many rules there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
