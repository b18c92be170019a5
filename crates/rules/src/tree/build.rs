//! How trees are made.

use super::{Known, Node, Tree, stride};
use crate::bits::Few;
use crate::columns::{Columns, Packed, Piece};
use crate::key::{FIELDS, Field};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

/// A leaf with so many rules is not divided further.
const FEW: usize = 3;
/// A leaf has more only where no bits tell its rules apart, and so many at most.
const MOST_IN_LEAF: usize = 256;
/// Of each rule there are so many copies in leaves at most, on average; and so many more. Where all rules are
/// in one tree there are fewer.
const COPIES: usize = 16;
const COPIES_IN_ONE: usize = 3;
const MORE_COPIES: usize = 1024;
/// So many nodes there are at most for each copy that there may be.
const NODES: usize = 8;
/// So many rules may be in one tree, whatever they say of addresses.
const ONE_TREE: usize = 2048;
/// What doubling the copies of rules costs, in bits by which they are told apart: of few rules, and of more,
/// where a look at one after the other would take longer. With the later values there are fewer copies.
const COPY: f64 = 1.5;
const COPY_OF_MANY: [f64; 3] = [0.5, 1.0, COPY];
const MANY: usize = 32;
/// The most bits that a node looks at.
const MOST_BITS: u32 = 8;
/// So many rules say which bits are best.
const SAMPLE: usize = 1024;
/// A prefix of an address with fewer bits is short.
const SHORT: u32 = 12;
/// Rules that say little of an address have a tree of their own if they are so many, and of all no less than
/// one in so many.
const OWN_TREE: usize = 24;
const OWN_TREE_PART: usize = 512;

/// Bits of a piece.
#[derive(Clone, Copy, Debug)]
struct Cut {
    piece: usize,
    /// The number of its lowest bit in the piece, and how many there are.
    shift: u32,
    bits: u32,
}

/// Of a piece, the values that packets can have that come to a node.
type Span = (u64, u64);

struct Making<'a> {
    columns: &'a Columns,
    rules: &'a [Packed],
    nodes: Vec<Node>,
    leaves: Vec<u64>,
    /// So many rules may still be added to leaves, and so many nodes be there.
    left: usize,
    most_nodes: usize,
    copy_of_many: f64,
}

/// Makes trees of rules, and says which of them each rule of the trees is: some may have no place in them, as
/// they look at what few others look at, or match the same packets as too many others. None counts as yet.
/// Nothing if none has a place.
pub(crate) fn build(all: &[Few]) -> Option<(Tree, Vec<u32>)> {
    let (columns, mut order) = fit(all)?;
    order.sort_unstable_by_key(|number| all[*number as usize].entry.found.rank());
    let packs: Vec<Packed> = order.iter().map(|number| columns.pack_rule(&all[*number as usize])).collect();
    let best = |rule: &u32| all[order[*rule as usize] as usize].entry.found.order;
    let mut making = Making {
        columns: &columns,
        rules: &packs,
        nodes: Vec::new(),
        leaves: Vec::new(),
        left: 0,
        most_nodes: 0,
        copy_of_many: COPY,
    };
    let every: Vec<u32> = (0..packs.len() as u32).collect();
    let one = if every.len() <= ONE_TREE { making.tree(&every, COPIES_IN_ONE) } else { None };
    let trees = match one {
        Some(root) => vec![(root, every)],
        None => {
            let parts = parts(&columns, &packs).into_iter();
            parts.filter_map(|part| making.tree(&part, COPIES).map(|root| (root, part))).collect()
        }
    };
    let (nodes, mut leaves) = (making.nodes, making.leaves);
    let mut roots: Vec<(Node, u64)> =
        trees.iter().filter_map(|(root, part)| Some((*root, best(part.first()?)))).collect();
    roots.sort_by_key(|(_, best)| *best);
    let mut placed: Vec<u32> = trees.into_iter().flat_map(|(_, part)| part).collect();
    placed.sort_unstable();
    if placed.is_empty() {
        return None;
    }
    // Their numbers without those that have no place.
    let mut numbers = vec![0u64; packs.len()];
    placed.iter().zip(0..).for_each(|(rule, number)| numbers[*rule as usize] = number);
    let k = columns.count();
    for rule in leaves.chunks_exact_mut(stride(k)) {
        if let [.., number] = rule {
            *number = numbers[*number as usize];
        }
    }
    let mut patterns = Vec::with_capacity(placed.len() * (2 * k + 1));
    for rule in &placed {
        let packed = &packs[*rule as usize];
        patterns.extend(packed.value[..k].iter().chain(&packed.mask[..k]).chain([&packed.ports.0]));
    }
    let members: Vec<u32> = placed.iter().map(|rule| order[*rule as usize]).collect();
    let known = |member: &u32| {
        let found = all[*member as usize].entry.found;
        Known { found, born: u64::MAX, died: AtomicU64::new(0) }
    };
    let known: Vec<Known> = members.iter().map(known).collect();
    let (nodes, leaves, known) = (nodes.into(), leaves.into(), known.into());
    Some((Tree { columns, roots, nodes, leaves, known, patterns }, members))
}

/// The columns of most rules, and which rules these are: those that look at what is looked at least often
/// are left out until the columns are few enough.
fn fit(all: &[Few]) -> Option<(Columns, Vec<u32>)> {
    let mut fitting: Vec<u32> = (0..all.len() as u32).collect();
    loop {
        let rules = || fitting.iter().map(|number| &all[*number as usize]);
        if let Some(columns) = Columns::new(rules) {
            return Some((columns, fitting));
        }
        let looks_at = |few: &Few, field: Field| few.mask.get(field) != 0;
        let fields =
            FIELDS.into_iter().map(|field| (rules().filter(|few| looks_at(few, field)).count(), field));
        let (_, rarest) = fields.filter(|(many, _)| *many > 0).min()?;
        fitting.retain(|number| !looks_at(&all[*number as usize], rarest));
    }
}

/// The rules of each tree, in their order.
fn parts(columns: &Columns, rules: &[Packed]) -> Vec<Vec<u32>> {
    let says_little = |rule: &Packed| -> usize {
        let mut bits = [(0u32, 0u32); 4];
        for piece in &columns.pieces {
            if let Some(side) = piece.side {
                bits[side].0 += piece.bits;
                bits[side].1 += piece.of(&rule.mask).count_ones();
            }
        }
        let short = |(of, has): (u32, u32)| of >= 2 * SHORT && has < SHORT;
        bits.iter().enumerate().map(|(side, bits)| usize::from(short(*bits)) << side).sum()
    };
    let mut parts: Vec<Vec<u32>> = vec![Vec::new(); 16];
    for (number, rule) in (0u32..).zip(rules) {
        parts[says_little(rule)].push(number);
    }
    // Few rules go with those that say the same and more.
    let enough = OWN_TREE.max(rules.len() / OWN_TREE_PART);
    for at in 0..parts.len() {
        if parts[at].len() < enough {
            let other = (0..parts.len()).filter(|other| *other != at && parts[*other].len() >= enough);
            // Where most sides are alike.
            if let Some(other) = other.min_by_key(|other| (*other ^ at).count_ones()) {
                let few = std::mem::take(&mut parts[at]);
                parts[other].extend(few);
                parts[other].sort_unstable();
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

impl Making<'_> {
    /// A tree of these rules, with so many copies of each on average. Returns its root; `None`: it would be
    /// too large, and nothing is left of it.
    fn tree(&mut self, rules: &[u32], copies: usize) -> Option<Node> {
        let spans = self.columns.pieces.iter().map(|piece| (0, u64::MAX >> (u64::BITS - piece.bits)));
        let spans: Vec<Span> = spans.collect();
        let (nodes, leaves) = (self.nodes.len(), self.leaves.len());
        let copies = rules.len() * copies + MORE_COPIES;
        COPY_OF_MANY.into_iter().find_map(|cost| {
            let most_nodes = (nodes + copies * NODES).min(u32::MAX as usize);
            (self.left, self.most_nodes, self.copy_of_many) = (copies, most_nodes, cost);
            let root = self.node(rules, &spans);
            if root.is_none() {
                self.nodes.truncate(nodes);
                self.leaves.truncate(leaves);
            }
            root
        })
    }

    /// A node for these rules. None: there would be too many copies, or too many rules in a leaf.
    fn node(&mut self, rules: &[u32], spans: &[Span]) -> Option<Node> {
        if rules.is_empty() {
            return Some(Node::NOTHING);
        }
        if rules.len() <= FEW {
            return self.leaf(rules);
        }
        let Some(cut) = self.best_cut(rules, spans) else { return self.leaf(rules) };
        let Cut { piece, shift, bits } = cut;
        let of = self.columns.pieces[piece];
        let first = self.nodes.len();
        if first + (1 << bits) > self.most_nodes {
            return None;
        }
        self.nodes.resize(first + (1 << bits), Node::NOTHING);
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); 1 << bits];
        for rule in rules {
            self.values(*rule, cut, spans[piece], |value| children[value].push(*rule));
        }
        let mut alike: HashMap<Vec<u32>, Node> = HashMap::new();
        let mut inner = spans.to_vec();
        // Ranges reach over the bits above, which are the same in all rules here; of each, only the part in
        // this span counts.
        let above = of.ports.map(|_| self.span_of(rules, piece, spans[piece]).0 >> (shift + bits));
        for (value, rules) in children.into_iter().enumerate() {
            if let Some(above) = above {
                let low = above << (shift + bits) | (value as u64) << shift;
                inner[piece] = (low, low | !(u64::MAX << shift));
            }
            // Nodes that cut ranges depend on the span.
            let may_be_alike = of.ports.is_none() || rules.len() <= FEW;
            let node = match alike.get(&rules).filter(|_| may_be_alike) {
                Some(node) => *node,
                None => {
                    let node = self.node(&rules, &inner)?;
                    if may_be_alike {
                        alike.insert(rules, node);
                    }
                    node
                }
            };
            self.nodes[first + value] = node;
        }
        Some(Node::inner(first, of.column, of.at + shift, bits))
    }

    fn leaf(&mut self, rules: &[u32]) -> Option<Node> {
        if rules.len() > MOST_IN_LEAF || rules.len() > self.left {
            return None;
        }
        self.left -= rules.len();
        let k = self.columns.count();
        let first = self.leaves.len() / stride(k);
        for rule in rules {
            let packed = &self.rules[*rule as usize];
            self.leaves.extend(&packed.value[..k]);
            self.leaves.extend(&packed.mask[..k]);
            self.leaves.extend([packed.ports.0, u64::from(*rule)]);
        }
        Some(Node::leaf(first, rules.len()))
    }

    /// The values of a piece that suit a rule, of those in a span.
    fn range(&self, rule: u32, ports: u32, span: Span) -> Span {
        let (first, last) = self.rules[rule as usize].ports.range(ports);
        (span.0.max(first.into()), span.1.min(last.into()))
    }

    /// The first and the last value that rules have of a piece with ranges.
    fn span_of(&self, rules: &[u32], piece: usize, span: Span) -> Span {
        let Some(ports) = self.columns.pieces[piece].ports else { return span };
        rules.iter().fold((u64::MAX, 0), |all, rule| {
            let range = self.range(*rule, ports, span);
            (all.0.min(range.0), all.1.max(range.1))
        })
    }

    /// Calls a function with each value of a cut's bits that suits a rule.
    fn values(&self, rule: u32, cut: Cut, span: Span, mut each: impl FnMut(usize)) {
        let (mask, value) = self.bits(rule, self.columns.pieces[cut.piece]);
        let all = (1 << cut.bits) - 1;
        let (mask, value) = (mask >> cut.shift & all, value >> cut.shift & all);
        let (low, high) = self.bounds(rule, cut, span);
        (low..=high).filter(|bits| bits & mask == value).for_each(|bits| each(bits as usize));
    }

    /// The first and the last of these values.
    fn bounds(&self, rule: u32, cut: Cut, span: Span) -> (u64, u64) {
        let piece = self.columns.pieces[cut.piece];
        let all = (1u64 << cut.bits) - 1;
        let (mask, value) = self.bits(rule, piece);
        let low = value >> cut.shift & all;
        let high = low | all & !(mask >> cut.shift);
        let Some(ports) = piece.ports else { return (low, high) };
        let (first, last) = self.range(rule, ports, span);
        (low.max(first >> cut.shift & all), high.min(last >> cut.shift & all))
    }

    /// The bits of a piece that a rule demands, and their values.
    fn bits(&self, rule: u32, piece: Piece) -> (u64, u64) {
        let packed = &self.rules[rule as usize];
        (piece.of(&packed.mask), piece.of(&packed.value))
    }

    /// The bits of a piece by which some rules differ from others. Of ranges: the highest one.
    fn differ(&self, rules: &[u32], at: usize, span: Span) -> u64 {
        let piece = self.columns.pieces[at];
        if piece.ports.is_some() {
            let (first, last) = self.span_of(rules, at, span);
            return (first ^ last).checked_ilog2().map_or(0, |highest| 1 << highest);
        }
        let (mut ones, mut zeros) = (0, 0);
        for rule in rules {
            let (mask, value) = self.bits(*rule, piece);
            ones |= mask & value;
            zeros |= mask & !value;
        }
        ones & zeros
    }

    /// The bits that divide rules best. None: they are better looked at one by one.
    fn best_cut(&self, rules: &[u32], spans: &[Span]) -> Option<Cut> {
        let sample: Vec<u32> = rules.iter().copied().step_by(rules.len().div_ceil(SAMPLE)).collect();
        let whole = (sample.len() as f64 + 1.0).log2();
        let copy = if rules.len() > MANY { self.copy_of_many } else { COPY };
        let mut best: Option<(f64, Cut)> = None;
        for (piece, span) in spans.iter().enumerate() {
            // Of all rules, not of the sample: a cut at bits by which none differs would be made for ever.
            let mut differ = self.differ(rules, piece, *span);
            let highest = differ.checked_ilog2();
            while let Some(top) = differ.checked_ilog2() {
                for bits in (1..=MOST_BITS.min(top + 1)).rev() {
                    // Lower ones are looked at where few rules differ above.
                    if Some(top) != highest && bits % 4 != 0 || 1 << bits > 4 * rules.len() {
                        continue;
                    }
                    let cut = Cut { piece, shift: top + 1 - bits, bits };
                    let Some(cost) = self.cost(&sample, cut, *span, copy) else { continue };
                    if best.as_ref().is_none_or(|(other, _)| cost < *other) {
                        best = Some((cost, cut));
                    }
                }
                differ &= (1 << top.saturating_sub(2)) - 1;
            }
        }
        let worth = if rules.len() > 4 * FEW { 0.05 } else { 0.25 };
        best.filter(|(cost, _)| *cost < whole - worth).map(|(_, cut)| cut)
    }

    /// How many bits are left by which rules are told apart after a cut, for a packet of any rule, and so
    /// many more for each doubling of copies.
    fn cost(&self, rules: &[u32], cut: Cut, span: Span, copy: f64) -> Option<f64> {
        // By how many more or fewer rules each value suits than the one before.
        let mut more = [0i32; (1 << MOST_BITS) + 1];
        for rule in rules {
            // If its mask has gaps, this is more than what suits.
            let (low, high) = self.bounds(*rule, cut, span);
            if low <= high {
                more[low as usize] += 1;
                more[high as usize + 1] -= 1;
            }
        }
        let (mut count, mut total, mut left) = (0, 0.0, 0.0);
        for more in &more[..1 << cut.bits] {
            count += more;
            let of = f64::from(count);
            total += of;
            left += of * (of + 1.0).log2();
        }
        (total > 0.0).then(|| left / total + copy * (total / rules.len() as f64).log2())
    }
}
