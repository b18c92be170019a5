//! The work of a node: the c of cR (RouteBricks, §3.2). A node handles a packet once as its input node, once
//! as its intermediate node and once as its output node; a packet that leaves where it entered counts as both
//! input and output.

/// Bytes (or packets, but always the same unit) that a node handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Came in from outside.
    pub input: u64,
    /// Came from one node for another.
    pub transit: u64,
    /// Left the cluster.
    pub output: u64,
}

impl Work {
    /// The sum of all three.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.transit).saturating_add(self.output)
    }
    /// Relative to `line`: the number that the external line can carry in one direction in the same time, R.
    /// Without a line: 0.
    #[must_use]
    pub fn relative_to(&self, line: u64) -> f64 {
        if line == 0 { 0.0 } else { self.total() as f64 / line as f64 }
    }
    /// Effective c: relative to the number that the external line actually carried, the mean of both
    /// directions. From 2, if nothing is in transit; below 3 for a cluster as a whole. If nothing was
    /// carried: 0.
    #[must_use]
    pub fn effective_c(&self) -> f64 {
        let ends = self.input.saturating_add(self.output);
        if ends == 0 { 0.0 } else { 2.0 * self.total() as f64 / ends as f64 }
    }
}

impl std::iter::Sum for Work {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            input: a.input.saturating_add(b.input),
            transit: a.transit.saturating_add(b.transit),
            output: a.output.saturating_add(b.output),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_two_to_three() {
        assert!((Work { input: 5, transit: 0, output: 5 }.effective_c() - 2.0).abs() < 1e-9);
        assert!((Work { input: 5, transit: 5, output: 5 }.effective_c() - 3.0).abs() < 1e-9);
        assert!((Work { input: 5, transit: 5, output: 5 }.relative_to(10) - 1.5).abs() < 1e-9);
        assert!(Work::default().effective_c().abs() < 1e-9);
        let both: Work = [Work { input: 1, transit: 2, output: 3 }; 2].into_iter().sum();
        assert_eq!(both.total(), 12);
    }
}
