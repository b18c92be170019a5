//! Rules of any kind in decision trees: an inner node looks at some bits of a packet's fields, and each of
//! their values leads to a node for the rules that have it; a leaf has a few rules, which are looked at one
//! after the other (Gupta and McKeown, "Packet classification using hierarchical intelligent cuttings", Hot
//! Interconnects 1999). Rules that say little of an address are in trees of their own, so that they need not
//! be in many leaves of the others (Vamanan, Voskuilen and Vijaykumar, "EffiCuts: optimizing packet
//! classification for memory and throughput", SIGCOMM 2010).
//!
//! Trees are made at once, of rules that are there, and not changed: a rule may only end.

mod build;

use crate::columns::{Columns, MOST};
use crate::key::Key;
use crate::ports::Ports;
use crate::tuple::{BLOCK, Entry, FOREVER, Found, Scope};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tables::Huge;

pub(crate) use build::build;

/// A node: a leaf has this bit, how many rules it has, and which is the first. An inner one has the place of
/// the node for the value 0 of its bits, the column that they are in, the lowest of them, and how many
/// they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node(u64);

const LEAF: u64 = 1 << 63;
const COUNT: u32 = 48;
const SHIFT: u32 = 32;
const BITS: u32 = 38;
const COLUMN: u32 = 42;

impl Node {
    const NOTHING: Self = Self(LEAF);

    fn leaf(first: usize, count: usize) -> Self {
        Self(LEAF | (count as u64) << COUNT | first as u64)
    }

    fn inner(first: usize, column: usize, shift: u32, bits: u32) -> Self {
        Self(first as u64 | u64::from(shift) << SHIFT | u64::from(bits) << BITS | (column as u64) << COLUMN)
    }

    #[inline]
    fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    /// The first rule of a leaf, and how many it has.
    #[inline]
    fn rules(self) -> (usize, usize) {
        ((self.0 & ((1 << COUNT) - 1)) as usize, (self.0 >> COUNT) as usize & 0x7fff)
    }

    /// The place of the node that a packet with these columns comes to.
    #[inline]
    fn next<const N: usize>(self, columns: &[u64; N]) -> usize {
        let column = (self.0 >> COLUMN) as usize & 15;
        let value = columns.get(column).copied().unwrap_or(0) >> (self.0 >> SHIFT & 63);
        (self.0 as u32 as u64 + (value & !(u64::MAX << (self.0 >> BITS & 15)))) as usize
    }
}

/// What a rule does, and from which version and until which it counts: one cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Known {
    found: Found,
    born: u64,
    died: AtomicU64,
}

/// The trees of some rules.
#[derive(Debug)]
pub(crate) struct Tree {
    columns: Columns,
    /// Of each tree its root, and the group and priority that none of its rules goes before.
    roots: Vec<(Node, u64)>,
    nodes: Huge<Node>,
    /// The rules of leaves, those of each leaf in the order in which they decide: values and masks of
    /// columns, ranges of ports, and the number of what is known of it.
    leaves: Huge<u64>,
    known: Huge<Known>,
    /// The rules, for the writer.
    patterns: Vec<u64>,
}

impl Tree {
    /// How many rules there are, whether they count or not.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// From this version on a rule counts. Before that it does not.
    pub(crate) fn begin(&mut self, rule: u32, version: u64) {
        let known = &mut self.known[rule as usize];
        (known.born, known.died) = (version, AtomicU64::new(FOREVER));
    }

    /// From this version on a rule does not count.
    pub(crate) fn end(&self, rule: u32, version: u64) {
        self.known[rule as usize].died.store(version, Relaxed);
    }

    /// What a rule does, if it counts, and its mask.
    pub(crate) fn entry(&self, rule: u32) -> Option<(Key, Entry)> {
        let known = &self.known[rule as usize];
        let k = self.columns.count();
        let pattern = &self.patterns[rule as usize * (2 * k + 1)..][..2 * k + 1];
        let (mask, value) = self.columns.unpack(&pattern[..k], &pattern[k..2 * k]);
        (known.died.load(Relaxed) == FOREVER).then(|| {
            (mask, Entry { value, ports: Ports(pattern[2 * k]), found: known.found, born: known.born })
        })
    }

    /// The rules that count, with their numbers and masks.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, Key, Entry)> {
        (0..self.len() as u32).filter_map(|rule| self.entry(rule).map(|(mask, entry)| (rule, mask, entry)))
    }

    /// The words of a rule's verdict.
    pub(crate) fn verdict(&self, rule: u32) -> (u64, u32) {
        let found = &self.known[rule as usize].found;
        (found.verdict, found.mark)
    }

    /// Finds the best rule of each of at most [`BLOCK`] keys, if it goes before what was found.
    pub(crate) fn find_many(&self, keys: &[Key], scope: Scope, found: &mut [Found]) {
        match self.columns.count() {
            0 | 1 => self.find::<1, 4>(keys, scope, found),
            2 => self.find::<2, 6>(keys, scope, found),
            3 => self.find::<3, 8>(keys, scope, found),
            4 => self.find::<4, 10>(keys, scope, found),
            5 => self.find::<5, 12>(keys, scope, found),
            6 => self.find::<6, 14>(keys, scope, found),
            7 => self.find::<7, 16>(keys, scope, found),
            _ => self.find::<MOST, 18>(keys, scope, found),
        }
    }

    /// The same for `K` columns, and `S` words of a rule in a leaf.
    fn find<const K: usize, const S: usize>(&self, keys: &[Key], scope: Scope, found: &mut [Found]) {
        const { assert!(S == stride(K)) };
        let ranges = self.columns.have_ranges();
        let mut columns = [[0u64; K]; BLOCK];
        self.columns.pack(keys, &mut columns);
        // Those that have what all rules demand.
        let (mut suit, mut many) = ([0u8; BLOCK], 0);
        for (at, key) in keys.iter().enumerate().take(BLOCK) {
            suit[many % BLOCK] = at as u8;
            many += usize::from(self.columns.suit(key));
        }
        let suit = &suit[..many];
        for (root, best) in &self.roots {
            let mut nodes = [*root; BLOCK];
            let (mut open, mut many) = ([0u8; BLOCK], 0);
            for at in suit {
                open[many % BLOCK] = *at;
                many += usize::from(*best <= found[usize::from(*at)].order);
            }
            let here = open;
            let here = &here[..many];
            if root.is_leaf() {
                many = 0;
            }
            // All packets go down together, so that many loads are under way at once.
            while many > 0 {
                let mut left = 0;
                for n in 0..many {
                    let at = open[n % BLOCK];
                    let node = &mut nodes[usize::from(at) % BLOCK];
                    let next = node.next(&columns[usize::from(at) % BLOCK]);
                    *node = self.nodes.get(next).copied().unwrap_or(Node::NOTHING);
                    open[left % BLOCK] = at;
                    left += usize::from(!node.is_leaf());
                }
                many = left;
            }
            let mut touched = 0;
            for at in here {
                let (first, _) = nodes[usize::from(*at) % BLOCK].rules();
                touched ^= self.leaves.get(first * S).copied().unwrap_or(0);
            }
            std::hint::black_box(touched);
            for at in here {
                let at = usize::from(*at) % BLOCK;
                let (first, count) = nodes[at].rules();
                let rules = self.leaves.get(first * S..(first + count) * S).unwrap_or(&[]);
                let rules = rules.as_chunks::<S>().0;
                let ports = ranges.then_some(&keys[at]);
                self.search(rules, &columns[at], ports, scope, &mut found[at]);
            }
        }
    }

    /// Looks at the rules of a leaf; at their ranges of ports if there are such, by a packet's key.
    #[inline]
    fn search<const K: usize, const S: usize>(
        &self,
        rules: &[[u64; S]],
        columns: &[u64; K],
        ports: Option<&Key>,
        scope: Scope,
        found: &mut Found,
    ) {
        for rule in rules {
            let differ = (0..K).fold(0, |differ, at| differ | columns[at] & rule[K + at] ^ rule[at]);
            if differ == 0 && ports.is_none_or(|key| Ports(rule[2 * K]).suit(key)) {
                let Some(known) = self.known.get(rule[2 * K + 1] as usize) else { continue };
                if known.found.rank() >= found.rank() {
                    return;
                }
                let counts = known.found.order >= scope.first
                    && (known.born..known.died.load(Relaxed)).contains(&scope.version);
                if counts {
                    *found = known.found;
                    return;
                }
            }
        }
    }
}

/// The words of a rule in a leaf, for so many columns.
const fn stride(columns: usize) -> usize {
    2 * columns + 2
}
