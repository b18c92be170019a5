//! The elements that packets can reach in a configuration.

use lang::Config;
use std::collections::BTreeSet;

/// The connections between elements.
pub(super) struct Graph {
    next: Vec<Vec<usize>>,
    inputs: Vec<usize>,
}

impl Graph {
    pub(super) fn new(config: &Config) -> Self {
        let mut graph =
            Self { next: vec![Vec::new(); config.elements.len()], inputs: vec![0; config.elements.len()] };
        for c in &config.connections {
            graph.next[c.from.element].push(c.to.element);
            graph.inputs[c.to.element] += 1;
        }
        graph
    }
    /// Whether packets begin at an element.
    pub(super) fn is_source(&self, element: usize) -> bool {
        self.inputs[element] == 0 && !self.next[element].is_empty()
    }
    /// The elements that packets from some elements can reach, including these; `stop` returns whether an
    /// element passes no packets on.
    pub(super) fn reach(&self, from: &[usize], stop: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut todo: Vec<usize> = from.to_vec();
        while let Some(element) = todo.pop() {
            if reached.insert(element) && !stop(element) {
                todo.extend(&self.next[element]);
            }
        }
        reached
    }
}
