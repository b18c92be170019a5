//! Counts of aggregates, in a binary trie: it is walked in the order of aggregates, and no choice of
//! aggregates makes a look-up longer than their 32 bits.

/// An aggregate, or a prefix that others have in common.
#[derive(Clone, Copy, Default)]
struct Node {
    aggregate: u32,
    count: u32,
    /// The nodes whose next bit is 0 and 1; both or none: 0, the root, is nobody's child.
    child: [u32; 2],
}

/// Counts of aggregates. Node 0 is the root.
///
/// The shape is that of Click's tree. It matters for [`Counts::reaggregate`], which also counts the nodes
/// without a count of their own.
pub(in crate::analysis) struct Counts {
    nodes: Vec<Node>,
    /// The most nodes.
    most: usize,
    nonzero: u32,
    total: u64,
}

/// What became of one packet's amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::analysis) enum Counted {
    Yes,
    /// The aggregate is not there, and none was to be added.
    Frozen,
    /// There is no room for one more aggregate.
    Full,
}

impl Counts {
    /// No counts, with room for so many aggregates.
    pub(in crate::analysis) fn new(capacity: usize) -> Self {
        // An aggregate needs two nodes at most.
        let most = capacity.saturating_mul(2).saturating_add(1).min(u32::MAX as usize);
        Self { nodes: vec![Node::default()], most, nonzero: 0, total: 0 }
    }

    /// How many aggregates have a count.
    pub(in crate::analysis) fn aggregates(&self) -> u32 {
        self.nonzero
    }

    /// The sum of all counts.
    pub(in crate::analysis) fn total(&self) -> u64 {
        self.total
    }

    pub(in crate::analysis) fn clear(&mut self) {
        self.nodes.clear();
        self.nodes.push(Node::default());
        (self.nonzero, self.total) = (0, 0);
    }

    /// The node where an aggregate is, or has to be put, and whether it is there.
    #[inline]
    fn find(&self, aggregate: u32) -> (usize, bool) {
        let mut at = 0;
        loop {
            let node = &self.nodes[at];
            let differs = node.aggregate ^ aggregate;
            if differs == 0 {
                return (at, true);
            }
            let [zero, one] = node.child.map(|n| n as usize);
            if zero == 0 {
                return (at, false);
            }
            // The bit that decides between the children.
            let fork = self.nodes[zero].aggregate ^ self.nodes[one].aggregate;
            if differs.leading_zeros() < fork.leading_zeros() {
                return (at, false);
            }
            at = if aggregate << fork.leading_zeros() >> 31 == 0 { zero } else { one };
        }
    }

    /// The node of an aggregate that [`Counts::find`] has not found, put beside the node there.
    fn put(&mut self, at: usize, aggregate: u32) -> Option<usize> {
        if self.nodes.len() + 2 > self.most || self.nodes.try_reserve(2).is_err() {
            return None;
        }
        let (mut old, first) = (self.nodes[at], self.nodes.len());
        let same = (old.aggregate ^ aggregate).leading_zeros();
        let bit = (aggregate << same >> 31) as usize;
        let prefix = aggregate & !(u32::MAX >> same);
        let mut parent = Node { aggregate: prefix, count: 0, child: [first as u32, first as u32 + 1] };
        if bit == 1 && old.aggregate == prefix {
            parent.count = std::mem::take(&mut old.count);
        }
        let new = Node { aggregate, ..Node::default() };
        self.nodes.extend(if bit == 0 { [new, old] } else { [old, new] });
        self.nodes[at] = parent;
        Some(if aggregate == prefix { at } else { first + bit })
    }

    /// The count of an aggregate, if it has one.
    pub(in crate::analysis) fn has(&self, aggregate: u32) -> bool {
        let (at, found) = self.find(aggregate);
        found && self.nodes[at].count > 0
    }

    /// Adds to the count of an aggregate, or of one that has a count already if `frozen`.
    #[inline]
    pub(in crate::analysis) fn add(&mut self, aggregate: u32, amount: u32, frozen: bool) -> Counted {
        let (mut at, found) = self.find(aggregate);
        if frozen && (!found || self.nodes[at].count == 0) {
            return Counted::Frozen;
        }
        if !found {
            match self.put(at, aggregate) {
                Some(new) => at = new,
                None => return Counted::Full,
            }
        }
        let count = &mut self.nodes[at].count;
        self.nonzero += u32::from(amount > 0 && *count == 0);
        *count = count.wrapping_add(amount);
        self.total += u64::from(amount);
        Counted::Yes
    }

    /// Aggregates with their counts, in the order of aggregates.
    pub(in crate::analysis) fn list(&self) -> Vec<(u32, u32)> {
        let mut list = Vec::with_capacity(self.nonzero as usize);
        self.walk(|aggregate, count| {
            if count > 0 {
                list.push((aggregate, count));
            }
        });
        list
    }

    /// All nodes, a parent before its children.
    fn walk(&self, mut visit: impl FnMut(u32, u32)) {
        let mut next = vec![0u32];
        while let Some(node) = next.pop().map(|at| self.nodes[at as usize]) {
            visit(node.aggregate, node.count);
            if node.child[0] != 0 {
                next.extend([node.child[1], node.child[0]]);
            }
        }
    }

    /// Moves the counts of others here.
    pub(in crate::analysis) fn take(&mut self, other: &mut Self) {
        other.walk(|aggregate, count| {
            if count > 0 {
                self.add(aggregate, count, false);
            }
        });
        other.clear();
    }

    /// The counts become aggregates, and how often each occurred becomes their count. As in Click, nodes of
    /// the tree that have no count are counted for aggregate 0.
    pub(in crate::analysis) fn reaggregate(&mut self) {
        let mut counts = Vec::with_capacity(self.nodes.len());
        self.walk(|_, count| counts.push(count));
        self.clear();
        for count in counts {
            self.add(count, 1, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn same_as_a_sorted_map() {
        let mut x = 1u32;
        let mut random = move || {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x >> 5
        };
        for round in 0..40u32 {
            let (mut counts, mut plain) = (Counts::new(1000), BTreeMap::new());
            for _ in 0..300 {
                let aggregate = match round % 4 {
                    0 => random() % 50,
                    1 => random() << 24,
                    2 => u32::MAX - random() % 1000,
                    _ => random().wrapping_mul(0x9e37_79b1),
                };
                let amount = random() % 3;
                assert_eq!(counts.has(aggregate), plain.get(&aggregate).is_some_and(|n| *n > 0));
                assert_eq!(counts.add(aggregate, amount, false), Counted::Yes);
                *plain.entry(aggregate).or_insert(0) += amount;
            }
            plain.retain(|_, n| *n > 0);
            assert_eq!(counts.list(), plain.clone().into_iter().collect::<Vec<_>>());
            assert_eq!(counts.aggregates() as usize, plain.len());
            assert_eq!(counts.total(), plain.values().map(|n| u64::from(*n)).sum::<u64>());
        }
    }

    #[test]
    fn frozen_counts_grow_and_do_not_become_more() {
        let mut counts = Counts::new(10);
        counts.add(5, 1, false);
        assert_eq!(counts.add(5, 1, true), Counted::Yes);
        for new in [4, 0, 6, u32::MAX] {
            assert_eq!(counts.add(new, 1, true), Counted::Frozen);
        }
        assert_eq!(counts.list(), [(5, 2)]);
    }

    #[test]
    fn there_is_a_limit() {
        let mut counts = Counts::new(4);
        let added = (1..100).filter(|a| counts.add(a * 77, 1, false) == Counted::Yes).count();
        assert_eq!((added, counts.aggregates()), (4, 4));
        assert_eq!(counts.add(77, 1, false), Counted::Yes);
    }

    #[test]
    fn counts_of_counts() {
        let mut counts = Counts::new(10);
        for aggregate in [1, 2, 2, 3, 3, 3, 3] {
            counts.add(aggregate, 1, false);
        }
        // Nodes: 0 (root), its copy, 1, then 2 beside both, then 3 beside 2. The root's copy and the node
        // with which 2 is shared have no counts of their own.
        counts.reaggregate();
        let list = counts.list();
        assert_eq!(list[1..], [(1, 1), (2, 1), (4, 1)]);
        assert_eq!(list[0].0, 0);
        assert_eq!(counts.total(), 3 + u64::from(list[0].1));
    }
}
