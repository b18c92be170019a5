//! The compiled program: a flat array of steps, its text, and matching.

use crate::diag::Diagnostic;
use crate::graph::{Graph, Layout, NET, Node, TRANSP, Target};
use crate::path::{Path, Test, word};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// The answer of [`Program`] for a packet that no pattern matches.
pub const NO_MATCH: usize = usize::MAX;

/// The largest output number that a program can answer.
pub const MAX_OUTPUT: usize = 0x7ffd;

/// The most steps that a program can have.
pub(crate) const MAX_STEPS: usize = 0x7fff;

/// Values of a group are sorted in the text from this number on.
const SORTED_GROUP: usize = 7;

/// A run of tests of one field becomes a table look-up from this number on.
const TABLE_FROM: usize = 4;

const LEAVES: u16 = 0x8000;
const DROPS: u16 = 0xfffe;
const EMPTY: u16 = 0xffff;

const SHORT: u16 = 1;
const TABLE: u16 = 2;
const MAC: u16 = 4;
const REGION: u32 = 4;

/// One step of 16 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Step {
    mask: u32,
    /// The value to compare with; of a table step, where its cells begin.
    value: u32,
    /// Byte offset in its part of the packet.
    offset: u16,
    flags: u16,
    /// Where to go on "no" and on "yes"; of a table step, the default and the hash shift.
    next: [u16; 2],
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    value: u32,
    next: u16,
}

/// A compiled classifier. Cheap to share between threads; matching never allocates.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    cells: Vec<Cell>,
    /// The answer of a program without steps.
    everything: u16,
    safe_length: usize,
    text: String,
    used: Vec<bool>,
}

/// The parts of an IP packet that a program can read.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpParts<'a> {
    /// From the MAC header on; empty where there is none.
    pub mac: &'a [u8],
    /// From the network header to the end of the packet.
    pub network: &'a [u8],
    /// From the transport header to the end of the packet; empty where the packet ends before it.
    pub transport: &'a [u8],
}

impl<'a> IpParts<'a> {
    /// Splits a packet that starts with its IP header: the transport header begins where `ip_hl` says.
    pub fn from_network(network: &'a [u8]) -> Self {
        let header = network.first().map_or(0, |&first| usize::from(first & 0x0f) * 4);
        IpParts { mac: &[], network, transport: network.get(header..).unwrap_or(&[]) }
    }

    /// The parts by the number that a step has for them.
    #[inline(always)]
    pub fn regions(&self) -> [&'a [u8]; 4] {
        [self.mac, self.network, self.transport, &[]]
    }
}

fn encode(target: Target) -> u16 {
    match target {
        Target::Step(step) => step as u16,
        Target::Output(output) => LEAVES | output,
        Target::Drop | Target::Fail => DROPS,
    }
}

fn decode(next: u16) -> usize {
    if next == DROPS { NO_MATCH } else { usize::from(next & !LEAVES) }
}

impl Program {
    /// Flattens a finished graph, which has been [swept](crate::optimize::sweep). `None`: more steps than a
    /// program can have.
    pub(crate) fn new(graph: &Graph, layout: Layout, outputs: usize) -> Option<Program> {
        let listing = if layout == Layout::Ip { grouped(graph) } else { graph.nodes.clone() };
        if listing.len() > MAX_STEPS {
            return None;
        }
        let safe_length = listing.iter().map(|node| node.test.required_length()).max().unwrap_or(0) as usize;
        let mut used = vec![false; outputs];
        let leaves = listing.iter().flat_map(|node| node.next).chain([graph.entry]);
        for target in leaves {
            if let Target::Output(output) = target
                && let Some(used) = used.get_mut(usize::from(output))
            {
                *used = true;
            }
        }
        let text = text(&listing, graph.entry, safe_length);
        let mut program = Program {
            steps: Vec::new(),
            cells: Vec::new(),
            everything: encode(graph.entry),
            safe_length,
            text,
            used,
        };
        program.steps = listing.iter().map(|node| step(node, layout)).collect();
        program.build_tables(&listing);
        Some(program)
    }

    /// Turns runs of tests of one field into hash tables.
    fn build_tables(&mut self, listing: &[Node]) {
        let mut reached_from = vec![0u32; listing.len()];
        for target in listing.iter().flat_map(|node| node.next) {
            if let Target::Step(to) = target {
                reached_from[to as usize] += 1;
            }
        }
        let mut absorbed = vec![false; listing.len()];
        for head in 0..listing.len() {
            let first = &listing[head];
            if absorbed[head] || first.test.short {
                continue;
            }
            let mut run = vec![head];
            let mut end = first.next[0];
            while let Target::Step(to) = end {
                let next = &listing[to as usize];
                if reached_from[to as usize] != 1
                    || (next.test.offset, next.test.mask, next.test.short)
                        != (first.test.offset, first.test.mask, false)
                {
                    break;
                }
                run.push(to as usize);
                end = next.next[0];
            }
            if run.len() < TABLE_FROM {
                continue;
            }
            let bits = (run.len() * 2).next_power_of_two().trailing_zeros();
            let start = self.cells.len();
            self.cells.resize(start + (1 << bits), Cell { value: 0, next: EMPTY });
            let table = &mut self.cells[start..];
            for &at in &run {
                absorbed[at] = true;
                let (value, next) = (listing[at].test.value, encode(listing[at].next[1]));
                let mut slot = hash(value, 32 - bits);
                // Of two equal values, the first one is used.
                while table[slot].next != EMPTY && table[slot].value != value {
                    slot = (slot + 1) & (table.len() - 1);
                }
                if table[slot].next == EMPTY {
                    table[slot] = Cell { value, next };
                }
            }
            let step = &mut self.steps[head];
            step.flags |= TABLE;
            step.value = start as u32;
            step.next = [encode(end), (32 - bits) as u16];
        }
    }

    /// The shortest way to an output, if it has few tests, and each is of one word.
    pub fn path_to(&self, output: usize) -> Option<Path> {
        if self.steps.is_empty() {
            return (decode(self.everything) == output).then(|| Path::new(&[])).flatten();
        }
        // From where, and with which answer, each step was first reached.
        let mut reached: Vec<Option<(usize, bool)>> = vec![None; self.steps.len()];
        let mut waiting = VecDeque::from([0]);
        while let Some(at) = waiting.pop_front() {
            let step = self.steps[at];
            if step.flags & (TABLE | MAC) != 0 {
                continue;
            }
            for (next, equal) in step.next.into_iter().zip([false, true]) {
                if next & LEAVES != 0 {
                    if next != DROPS && decode(next) == output {
                        return Path::new(&self.tests_to(at, equal, &reached));
                    }
                    continue;
                }
                let to = usize::from(next);
                if to != 0 && reached[to].is_none() {
                    reached[to] = Some((at, equal));
                    waiting.push_back(to);
                }
            }
        }
        None
    }

    /// The tests on the way to the answer `equal` of step `last`, last one first.
    fn tests_to(&self, last: usize, equal: bool, reached: &[Option<(usize, bool)>]) -> Vec<Test> {
        std::iter::successors(Some((last, equal)), |(at, _)| reached[*at])
            .map(|(at, equal)| {
                let step = &self.steps[at];
                let region = (step.flags >> REGION & 3) as u8;
                Test { mask: step.mask, value: step.value, offset: step.offset, region, equal }
            })
            .collect()
    }

    /// Classifies packet data. Returns the output, or [`NO_MATCH`].
    ///
    /// For programs made by [`classifier`](crate::classifier).
    #[inline]
    pub fn match_bytes(&self, data: &[u8]) -> usize {
        if self.steps.is_empty() {
            return decode(self.everything);
        }
        let mut at = 0;
        loop {
            let step = &self.steps[at];
            let next = match word(data, usize::from(step.offset)) {
                Some(word) => self.follow(step, word),
                None => self.follow_short(step, data),
            };
            if next & LEAVES != 0 {
                return decode(next);
            }
            at = usize::from(next);
        }
    }

    /// Classifies an IP packet that starts with its network header. Returns the output, or [`NO_MATCH`].
    ///
    /// For programs made by [`ip_filter`](crate::ip_filter) and [`ip_classifier`](crate::ip_classifier).
    /// Tests of the Ethernet header find none.
    #[inline]
    pub fn match_ip(&self, network_header: &[u8]) -> usize {
        self.match_parts(&IpParts::from_network(network_header))
    }

    /// Classifies an IP packet whose parts are known.
    #[inline]
    pub fn match_parts(&self, parts: &IpParts<'_>) -> usize {
        if self.steps.is_empty() {
            return decode(self.everything);
        }
        let regions = parts.regions();
        let mut at = 0;
        loop {
            let step = &self.steps[at];
            let data = regions[usize::from(step.flags >> REGION & 3)];
            let next = match word(data, usize::from(step.offset)) {
                Some(word) if step.flags & MAC == 0 => self.follow(step, word),
                _ => self.follow_short(step, data),
            };
            if next & LEAVES != 0 {
                return decode(next);
            }
            at = usize::from(next);
        }
    }

    /// Classifies many packets at once; the answers are appended to `outputs`.
    pub fn match_many<'a>(&self, packets: impl IntoIterator<Item = &'a [u8]>, outputs: &mut Vec<usize>) {
        outputs.extend(packets.into_iter().map(|data| self.match_bytes(data)));
    }

    /// Classifies many IP packets at once, given from their network headers on; the answers are appended to
    /// `outputs`.
    pub fn match_ip_many<'a>(&self, packets: impl IntoIterator<Item = &'a [u8]>, outputs: &mut Vec<usize>) {
        outputs.extend(packets.into_iter().map(|data| self.match_ip(data)));
    }

    #[inline(always)]
    fn follow(&self, step: &Step, word: u32) -> u16 {
        let word = word & step.mask;
        if step.flags & TABLE != 0 {
            return self.look_up(step, word);
        }
        // A branch and not a conditional move: if the processor predicts it correctly, the next steps begin
        // before this one has ended.
        if word == step.value {
            std::hint::cold_path();
            return step.next[1];
        }
        step.next[0]
    }

    #[inline]
    fn look_up(&self, step: &Step, word: u32) -> u16 {
        let shift = u32::from(step.next[1]);
        let last = (1usize << (32 - shift)) - 1;
        let start = step.value as usize;
        let mut slot = hash(word, shift);
        loop {
            let cell = self.cells[start + slot];
            if cell.next == EMPTY {
                return step.next[0];
            }
            if cell.value == word {
                return cell.next;
            }
            slot = (slot + 1) & last;
        }
    }

    /// The word reaches beyond the packet, or into the two bytes before the MAC header: the test is made
    /// when all bytes under the mask are there.
    #[cold]
    fn follow_short(&self, step: &Step, data: &[u8]) -> u16 {
        let offset = usize::from(step.offset);
        let mut word = 0;
        for (place, mask) in step.mask.to_be_bytes().into_iter().enumerate() {
            let at = (offset + place).checked_sub(if step.flags & MAC != 0 { 2 } else { 0 });
            match at.and_then(|at| data.get(at)) {
                Some(&byte) => word |= u32::from(byte) << (24 - 8 * place),
                None if mask == 0 => {}
                // More of the mask may follow, and then the packet is too short for that as well.
                None if step.flags & TABLE != 0 => return step.next[0],
                None => return step.next[usize::from(step.flags & SHORT != 0)],
            }
        }
        self.follow(step, word)
    }

    /// The program as Click's `program` handler prints it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Number of steps in the text.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether every packet gets the same answer.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The output that every packet goes to ([`NO_MATCH`]: every packet is dropped), if there is one.
    pub fn output_everything(&self) -> Option<usize> {
        self.steps.is_empty().then(|| decode(self.everything))
    }

    /// The length, in the program's offset space, from which on no test can be too short.
    pub fn safe_length(&self) -> usize {
        self.safe_length
    }

    /// The outputs that no packet can reach.
    pub fn unused_outputs(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter().enumerate().filter(|(_, used)| !**used).map(|(output, _)| output)
    }

    /// Click's warnings about outputs that no packet can reach.
    pub(crate) fn warn_unused(&self, warnings: &mut Vec<Diagnostic>) {
        for output in self.unused_outputs() {
            warnings.push(Diagnostic::warning(None, format!("output {output} matches no packets")));
        }
    }
}

#[inline(always)]
fn hash(value: u32, shift: u32) -> usize {
    (value.wrapping_mul(0x9e37_79b1) >> shift) as usize
}

fn step(node: &Node, layout: Layout) -> Step {
    let region = layout.region(node.test.offset);
    let (base, mac) = match (layout, region) {
        (Layout::Bytes, _) => (0, 0),
        (Layout::Ip, 0) => (0, MAC),
        (Layout::Ip, 1) => (NET, 0),
        (Layout::Ip, _) => (TRANSP, 0),
    };
    Step {
        mask: node.test.mask,
        value: node.test.value,
        offset: node.test.offset - base,
        flags: (region as u16) << REGION | mac | if node.test.short { SHORT } else { 0 },
        next: node.next.map(encode),
    }
}

/// The order in which IP programs are printed: tests of one field with the same target are next to each
/// other.
fn grouped(graph: &Graph) -> Vec<Node> {
    let nodes = &graph.nodes;
    let mut wanted = vec![0u32; nodes.len()];
    if let Some(first) = wanted.first_mut() {
        *first = 1;
    }
    for (at, node) in nodes.iter().enumerate() {
        if wanted[at] > 0 {
            for target in node.next {
                if let Target::Step(to) = target {
                    wanted[to as usize] += 1;
                }
            }
        }
    }
    let mut listing: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut place = vec![0u32; nodes.len()];
    let mut group_ends = Vec::new();
    for at in 0..nodes.len() {
        if wanted[at] == 0 {
            continue;
        }
        place[at] = listing.len() as u32;
        let start = listing.len();
        listing.push(nodes[at]);
        let mut end = nodes[at].next[0];
        while let Target::Step(no) = end {
            let next = &nodes[no as usize];
            let like_first = (next.test.offset, next.test.mask, next.test.short, next.next[1])
                == (nodes[at].test.offset, nodes[at].test.mask, nodes[at].test.short, nodes[at].next[1]);
            if wanted[no as usize] != 1 || !like_first {
                break;
            }
            wanted[no as usize] = 0;
            listing.push(*next);
            end = next.next[0];
        }
        let group = &mut listing[start..];
        if group.len() >= SORTED_GROUP {
            // The byte order of the words in the memory of a little-endian machine.
            group.sort_by_key(|node| node.test.value.swap_bytes());
        }
        group_ends.push((start, listing.len(), end));
    }
    for (start, stop, end) in group_ends {
        for (at, node) in listing.iter_mut().enumerate().take(stop).skip(start) {
            let moved = |target| match target {
                Target::Step(to) => Target::Step(place[to as usize]),
                target => target,
            };
            let no = if at + 1 < stop { Target::Step(at as u32 + 1) } else { moved(end) };
            node.next = [no, moved(node.next[1])];
        }
    }
    listing
}

fn text(listing: &[Node], entry: Target, safe_length: usize) -> String {
    let jump = |target| match target {
        Target::Step(step) => format!("step {step}"),
        Target::Output(output) => format!("[{output}]"),
        Target::Drop | Target::Fail => "[X]".to_string(),
    };
    let mut text = String::new();
    for (at, node) in listing.iter().enumerate() {
        let test = &node.test;
        let _ = writeln!(
            text,
            "{at:2} {:3}/{:08x}%{:08x}  yes->{}  no->{}{}",
            test.offset,
            test.value,
            test.mask,
            jump(node.next[1]),
            jump(node.next[0]),
            if test.short { "  short->yes" } else { "" }
        );
    }
    if listing.is_empty() {
        let _ = writeln!(text, "all->{}", jump(entry));
    }
    let _ = writeln!(text, "safe length {safe_length}\nalignment offset 0");
    text
}
