//! The decision graph: word tests joined by yes and no edges, and how an expression becomes one.
//!
//! Every test reads one 32-bit word of the packet, big-endian, at an offset that is a multiple of four.
//! The target of an edge is always a test with a larger number, so the graph has no cycles.

/// Where the network header starts in the offset space of IP programs.
pub(crate) const NET: u16 = 256;
/// Where the transport header starts in the offset space of IP programs.
pub(crate) const TRANSP: u16 = 512;

/// One masked comparison of a packet word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Test {
    /// Byte offset of the word.
    pub(crate) offset: u16,
    /// The bits that are compared, as a big-endian word; never zero inside a graph.
    pub(crate) mask: u32,
    /// The value that those bits must have; zero outside the mask.
    pub(crate) value: u32,
    /// The answer when the packet ends before the last byte of the mask.
    pub(crate) short: bool,
}

impl Test {
    /// Number of bytes, from offset 0, that a packet must have so that the test can be made.
    pub(crate) fn required_length(&self) -> u32 {
        if self.mask == 0 { 0 } else { u32::from(self.offset) + 4 - self.mask.trailing_zeros() / 8 }
    }

    /// A test of a single bit has an opposite that is again a test.
    pub(crate) fn is_single_bit(&self) -> bool {
        self.mask.is_power_of_two()
    }
}

/// The target of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To another test.
    Step(u32),
    /// Out of the program, with an output number.
    Output(u16),
    /// Out of the program; the packet is dropped.
    Drop,
    /// The pattern does not match: the next pattern decides.
    Fail,
}

/// A test and its two edges: `next[0]` when it fails, `next[1]` when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) test: Test,
    pub(crate) next: [Target; 2],
}

impl Node {
    /// Replaces a single-bit test by its opposite.
    pub(crate) fn flip(&mut self) {
        self.test.value ^= self.test.mask;
        self.test.short = !self.test.short;
        self.next.swap(0, 1);
    }
}

/// A decision graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The first test, or the answer when there is nothing to test.
    pub(crate) entry: Target,
}

impl Graph {
    /// Replaces every `Fail` edge.
    pub(crate) fn set_fail(&mut self, to: Target) {
        let fix = |target: &mut Target| {
            if *target == Target::Fail {
                *target = to;
            }
        };
        fix(&mut self.entry);
        self.nodes.iter_mut().flat_map(|node| node.next.iter_mut()).for_each(fix);
    }

    /// Appends `other`, which is evaluated where this graph fails.
    pub(crate) fn append(&mut self, other: Graph) {
        let base = self.nodes.len() as u32;
        let moved = |target| match target {
            Target::Step(step) => Target::Step(step + base),
            target => target,
        };
        self.set_fail(moved(other.entry));
        self.nodes
            .extend(other.nodes.into_iter().map(|node| Node { test: node.test, next: node.next.map(moved) }));
    }
}

/// A pattern as written: tests under boolean connectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    True,
    Test(Test),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// `[c1, t1, c2, t2, ..., e]`: the first condition that holds selects its branch, `e` is the last resort.
    If(Vec<Expr>),
}

impl Expr {
    /// A comparison; one with an empty mask is always true.
    pub(crate) fn test(offset: u16, value: u32, mask: u32) -> Expr {
        match mask {
            0 => Expr::True,
            _ => Expr::Test(Test { offset, mask, value: value & mask, short: false }),
        }
    }

    /// Logical negation: what was false because the packet is too short becomes true.
    pub(crate) fn not(self) -> Expr {
        match self {
            Expr::Not(inner) => *inner,
            other => Expr::Not(Box::new(other)),
        }
    }

    /// The negation that relations like `!=` mean: a packet that is too short keeps its answer.
    pub(crate) fn differs(mut self) -> Expr {
        self.toggle_short();
        self.not()
    }

    fn toggle_short(&mut self) {
        match self {
            Expr::True => {}
            Expr::Test(test) => test.short = !test.short,
            Expr::Not(inner) => inner.toggle_short(),
            Expr::And(parts) | Expr::Or(parts) | Expr::If(parts) => {
                parts.iter_mut().for_each(Expr::toggle_short)
            }
        }
    }

    /// Number of tests.
    pub(crate) fn size(&self) -> usize {
        match self {
            Expr::True => 0,
            Expr::Test(_) => 1,
            Expr::Not(inner) => inner.size(),
            Expr::And(parts) | Expr::Or(parts) | Expr::If(parts) => parts.iter().map(Expr::size).sum(),
        }
    }

    /// The graph that ends at `yes` if the expression is true and at `no` if it is false.
    /// Tests keep the order in which they were written.
    pub(crate) fn graph(&self, yes: Target, no: Target) -> Graph {
        // Built from the last test to the first, so that the target of every edge exists already.
        let mut nodes = Vec::new();
        let entry = self.emit(&mut nodes, yes, no);
        let last = nodes.len().wrapping_sub(1) as u32;
        let turn = |target| match target {
            Target::Step(step) => Target::Step(last - step),
            target => target,
        };
        nodes.reverse();
        for node in &mut nodes {
            node.next = node.next.map(turn);
        }
        Graph { nodes, entry: turn(entry) }
    }

    fn emit(&self, nodes: &mut Vec<Node>, yes: Target, no: Target) -> Target {
        match self {
            Expr::True => yes,
            Expr::Test(test) => {
                nodes.push(Node { test: *test, next: [no, yes] });
                Target::Step(nodes.len() as u32 - 1)
            }
            Expr::Not(inner) => inner.emit(nodes, no, yes),
            Expr::And(parts) => parts.iter().rev().fold(yes, |yes, part| part.emit(nodes, yes, no)),
            Expr::Or(parts) => parts.iter().rev().fold(no, |no, part| part.emit(nodes, yes, no)),
            Expr::If(parts) => {
                let Some((last, pairs)) = parts.split_last() else { return yes };
                let otherwise = last.emit(nodes, yes, no);
                pairs.rchunks(2).fold(otherwise, |otherwise, pair| {
                    let then = pair[pair.len() - 1].emit(nodes, yes, no);
                    pair[0].emit(nodes, then, otherwise)
                })
            }
        }
    }

    /// Evaluates the tree; compiled programs are compared with it.
    #[cfg(test)]
    pub(crate) fn eval(&self, answer: &dyn Fn(&Test) -> bool) -> bool {
        match self {
            Expr::True => true,
            Expr::Test(test) => answer(test),
            Expr::Not(inner) => !inner.eval(answer),
            Expr::And(parts) => parts.iter().all(|part| part.eval(answer)),
            Expr::Or(parts) => parts.iter().any(|part| part.eval(answer)),
            Expr::If(parts) => {
                let (last, pairs) = parts.split_last().unwrap();
                for pair in pairs.chunks(2) {
                    if pair[0].eval(answer) {
                        return pair[1].eval(answer);
                    }
                }
                last.eval(answer)
            }
        }
    }
}

/// Which part of the packet an offset belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Offsets count from the start of the packet data.
    Bytes,
    /// Offsets below 256 lie in the MAC header (two bytes later), below 512 in the network header, then
    /// transport.
    Ip,
}

impl Layout {
    /// 0 to 2: MAC (or plain data), network, transport.
    pub(crate) fn region(self, offset: u16) -> usize {
        match self {
            Layout::Bytes => 0,
            Layout::Ip => usize::from(offset / 256).min(2),
        }
    }

    /// Sort key for the tests of a conjunction. The protocol test comes before the fragment test.
    pub(crate) fn order(self, offset: u16) -> u16 {
        if self == Layout::Ip && offset == NET + 8 { NET + 3 } else { offset }
    }
}
