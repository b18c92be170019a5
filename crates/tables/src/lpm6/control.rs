//! The writer's side: the routes in a tree of the same shape as the one that readers see, and how a change of
//! a route becomes a few stores.
//!
//! A node has the routes that end in it, those of 1 to 8 bits more than its depth, and what the longest route
//! around it says ([`Node::around`]), which its other places have. After a change, [`Control::publish`] goes
//! through the nodes that it concerns, from the root, and writes each behind its children. A node's entries
//! that come from around it and its own routes never are in one run, even where they are equal. So a change
//! around a node can be stored where the node is, and only a change of its own routes may need another one.

use std::collections::BTreeMap;

use super::memory::{BLOCK, Entries, FAR, Form, NODE, PLACES, ROOT, Run, Shared, Space, runs};
use super::runs::{FAR_RUNS, RUNS};
use crate::lpm::LpmError;
use crate::prefix6::Prefix6;

/// Bits of the root, and of each further step.
const ROOT_BITS: u8 = 16;
const STEP: u8 = 8;
/// A block with at most so many runs becomes a line again, and two lines one: a few less than have room, as
/// one that has changed once soon changes again.
const FEW_RUNS: usize = 8;
/// In an array of lengths: no route.
const NONE: u8 = u8::MAX;
/// A node with more children becomes no far node: each makes two runs, most of the time.
const FAR_CHILDREN: usize = FAR_RUNS / 2;
/// No route may need more lines, without those that are kept to remove routes: a node for each step, two
/// blocks, and the children of what was a far node, in pieces of each form.
const MOST_LINES: usize = 96;
/// What one node may need at most.
const NODE_LINES: usize = 17;
/// What the children of a far node may need that becomes a node for each step, beside those that have changed
/// themselves: of them, at most one is a block ([`Control::join`]).
const FAR_LINES: usize = FAR_CHILDREN + NODE_LINES;
/// The mark of entries that come from a node's own routes.
const OWN: u64 = 1 << 32;

/// A route in the node in which it ends: its first place, how many of the node's bits it has, and its next
/// hop.
#[derive(Clone, Copy)]
struct Own {
    bits: u8,
    place: u8,
    hop: u32,
}

impl Own {
    fn key(self) -> (u8, u8) {
        (self.bits, self.place)
    }
    fn places(self) -> std::ops::RangeInclusive<usize> {
        let first = usize::from(self.place);
        first..=first + (PLACES >> self.bits) - 1
    }
}

#[derive(Default)]
struct Node {
    /// Where readers find it; 0: nowhere so far, or within the far node that the node around it is.
    word: u32,
    /// The entry of the longest route around it.
    around: u32,
    /// By number of bits, then by place.
    own: Vec<Own>,
    /// By place.
    children: Vec<(u8, u32)>,
    /// Its routes, or what is around it, have changed, or it has a new child.
    changed: bool,
    /// Something has changed further down.
    below: bool,
}

impl Node {
    /// What it may need at most, by its routes and children.
    fn most_lines(&self) -> usize {
        // Each makes two runs at most.
        let runs = 1 + 2 * (self.own.len() + self.children.len());
        if runs > RUNS { NODE_LINES } else { Form::FarTwo.lines() }
    }
}

/// The writer's record.
pub(super) struct Control {
    /// The routes of at most 16 bits.
    short: BTreeMap<Prefix6, u32>,
    /// The length of the longest of them for each value of the first 16 bits; empty until there is one.
    lens: Vec<u8>,
    /// The nodes below the root.
    children: BTreeMap<u16, u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    len: usize,
    /// The root's entries below or at which something has changed, with repetitions.
    touched: Vec<u16>,
    /// The nodes that have changed.
    changes: usize,
    /// Far nodes that may have to become nodes for each step.
    fars: usize,
    pub(super) space: Space,
}

fn top(addr: u128) -> u16 {
    (addr >> 112) as u16
}

/// The bits of an address behind `depth`, a multiple of 8 below 128.
fn place(addr: u128, depth: u8) -> u8 {
    (addr >> (120 - u32::from(depth))) as u8
}

/// The entry of a next hop, and back.
fn entry(hop: u32) -> u32 {
    hop + 1
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            short: BTreeMap::new(),
            lens: Vec::new(),
            children: BTreeMap::new(),
            nodes: Vec::new(),
            free: Vec::new(),
            len: 0,
            touched: Vec::new(),
            changes: 0,
            fars: 0,
            space: Space::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    fn new_node(&mut self) -> u32 {
        let node = Node { changed: true, ..Node::default() };
        self.changes += 1;
        match self.free.pop() {
            Some(id) => {
                *self.node_mut(id) = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// A node's child; `None`: it has none there.
    fn child(&self, id: u32, place: u8) -> Option<u32> {
        let children = &self.node(id).children;
        let at = children.binary_search_by_key(&place, |c| c.0).ok()?;
        children.get(at).map(|c| c.1)
    }

    /// The node in which a prefix of more than 16 bits ends, with its depth.
    fn find(&self, prefix: Prefix6) -> Option<(u32, u8)> {
        let mut id = *self.children.get(&top(prefix.first()))?;
        let mut depth = ROOT_BITS;
        while prefix.len() > depth + STEP {
            id = self.child(id, place(prefix.first(), depth))?;
            depth += STEP;
        }
        Some((id, depth))
    }

    /// The same; nodes that are missing are made, and all on the way are marked.
    fn reach(&mut self, prefix: Prefix6) -> (u32, u8) {
        let at = top(prefix.first());
        self.touched.push(at);
        let mut id = match self.children.get(&at) {
            Some(id) => *id,
            None => {
                let id = self.new_node();
                self.children.insert(at, id);
                id
            }
        };
        let mut depth = ROOT_BITS;
        loop {
            // Once for each: its marks are set later.
            let node = self.node(id);
            self.fars += usize::from(node.word & FAR != 0 && !node.below && !node.changed);
            if prefix.len() <= depth + STEP {
                return (id, depth);
            }
            self.node_mut(id).below = true;
            let place = place(prefix.first(), depth);
            let at = self.node(id).children.binary_search_by_key(&place, |c| c.0);
            id = match at {
                Ok(at) => self.node(id).children[at].1,
                Err(at) => {
                    let child = self.new_node();
                    self.mark(id);
                    self.node_mut(id).children.insert(at, (place, child));
                    child
                }
            };
            depth += STEP;
        }
    }

    fn mark(&mut self, id: u32) {
        if !std::mem::replace(&mut self.node_mut(id).changed, true) {
            self.changes += 1;
        }
    }

    /// The entry of the longest route of at most 16 bits, if there is one.
    fn root_entry(&self, prefix: Option<Prefix6>) -> u32 {
        prefix.and_then(|p| self.short.get(&p)).map_or(0, |hop| entry(*hop))
    }

    fn own(prefix: Prefix6, depth: u8, hop: u32) -> Own {
        Own { bits: prefix.len() - depth, place: place(prefix.first(), depth), hop }
    }

    /// Adds a route or replaces its next hop, without letting readers know. Returns the next hop it had.
    pub(super) fn insert(&mut self, prefix: Prefix6, hop: u32) -> Option<u32> {
        let old = if prefix.len() <= ROOT_BITS {
            let old = self.short.insert(prefix, hop);
            self.lens.resize(ROOT, NONE);
            self.repaint(prefix, |len| len == NONE || len <= prefix.len(), prefix.len());
            old
        } else {
            let (id, depth) = self.reach(prefix);
            self.mark(id);
            let new = Self::own(prefix, depth, hop);
            let own = &mut self.node_mut(id).own;
            match own.binary_search_by_key(&new.key(), |own| own.key()) {
                Ok(at) => Some(std::mem::replace(&mut own[at], new).hop),
                Err(at) => {
                    own.insert(at, new);
                    None
                }
            }
        };
        self.len += usize::from(old.is_none());
        old
    }

    /// Removes a route, without letting readers know. Returns the next hop it had.
    pub(super) fn remove(&mut self, prefix: Prefix6) -> Option<u32> {
        let old = self.get(prefix)?;
        self.len -= 1;
        if prefix.len() <= ROOT_BITS {
            self.short.remove(&prefix);
            let shorter = (0..prefix.len()).rev().find(|len| {
                Prefix6::new(prefix.first(), *len).is_some_and(|around| self.short.contains_key(&around))
            });
            self.repaint(prefix, |len| len == prefix.len(), shorter.unwrap_or(NONE));
            return Some(old);
        }
        let (id, depth) = self.reach(prefix);
        self.mark(id);
        let key = Self::own(prefix, depth, 0).key();
        self.node_mut(id).own.retain(|own| own.key() != key);
        Some(old)
    }

    /// The root's places of a prefix whose length `which` chooses belong to a route of this length from here
    /// on.
    fn repaint(&mut self, prefix: Prefix6, which: impl Fn(u8) -> bool, len: u8) {
        let (first, last) = (top(prefix.first()), top(prefix.last()));
        for (at, place) in self.lens.iter_mut().enumerate().take(usize::from(last) + 1).skip(first.into()) {
            if which(*place) {
                *place = len;
                self.touched.push(at as u16);
            }
        }
    }

    /// The next hop of exactly this route.
    pub(super) fn get(&self, prefix: Prefix6) -> Option<u32> {
        if prefix.len() <= ROOT_BITS {
            return self.short.get(&prefix).copied();
        }
        let (id, depth) = self.find(prefix)?;
        let own = &self.node(id).own;
        let key = Self::own(prefix, depth, 0).key();
        own.binary_search_by_key(&key, |own| own.key()).ok().map(|at| own[at].hop)
    }

    /// The route that a packet to `addr` takes, with its next hop.
    pub(super) fn route(&self, addr: u128) -> Option<(Prefix6, u32)> {
        (0..=128).rev().find_map(|len| {
            let prefix = Prefix6::new(addr, len)?;
            Some((prefix, self.get(prefix)?))
        })
    }

    /// Every route, by address and then by length.
    pub(super) fn routes(&self) -> Vec<(Prefix6, u32)> {
        let mut all: Vec<_> = self.short.iter().map(|(p, h)| (*p, *h)).collect();
        let mut rest: Vec<(u32, u128, u8)> =
            self.children.iter().map(|(at, id)| (*id, u128::from(*at) << 112, ROOT_BITS)).collect();
        while let Some((id, base, depth)) = rest.pop() {
            let within = |place: u8| base | u128::from(place) << (120 - u32::from(depth));
            let node = self.node(id);
            all.extend(
                node.own.iter().filter_map(|o| Some((Prefix6::new(within(o.place), depth + o.bits)?, o.hop))),
            );
            rest.extend(node.children.iter().map(|(place, child)| (*child, within(*place), depth + STEP)));
        }
        all.sort_unstable_by_key(|route| route.0);
        all
    }

    /// Makes sure that one more route, or a new next hop of one, can be published.
    pub(super) fn ensure_one(&mut self, shared: &Shared) -> Result<(), LpmError> {
        self.space.ensure(shared, MOST_LINES)
    }

    /// Makes sure that all changes so far can be published.
    pub(super) fn ensure_changes(&mut self, shared: &Shared) -> Result<(), LpmError> {
        // Most tables have room for the most that so many nodes can need. If not, the nodes are looked at.
        if self.space.ensure(shared, self.changes * NODE_LINES + self.fars * FAR_LINES).is_ok() {
            return Ok(());
        }
        let changed = self.nodes.iter().filter(|node| node.changed || node.below);
        let lines = changed.map(|node| node.most_lines() + self.ended_lines(node)).sum();
        self.space.ensure(shared, lines)
    }

    /// What the children of a node may need in addition if it is a far node and ends.
    fn ended_lines(&self, node: &Node) -> usize {
        let parts = |node: &Node| node.own.len() + node.children.len();
        let within: usize = node.children.iter().map(|(_, child)| parts(self.node(*child))).sum();
        let ends = node.word & FAR != 0 && 1 + 2 * (parts(node) + within) > FAR_RUNS;
        if ends { node.children.len() + NODE_LINES } else { 0 }
    }

    /// Lets readers see all changes: each address flips by one store.
    pub(super) fn publish(&mut self, shared: &Shared) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        // The last route that was looked up: a short one has many entries in a row.
        let mut last = None;
        for at in touched.drain(..) {
            let len = self.lens.get(usize::from(at)).copied().unwrap_or(NONE);
            let prefix = Prefix6::new(u128::from(at) << 112, len);
            let around = match last {
                Some((of, entry)) if of == prefix => entry,
                _ => self.root_entry(prefix),
            };
            last = Some((prefix, around));
            let mut entry = around;
            if let Some(&id) = self.children.get(&at) {
                match self.refresh(shared, id, ROOT_BITS, around) {
                    Some(word) => entry = word,
                    None => drop(self.children.remove(&at)),
                }
            }
            shared.set_root(at, entry);
        }
        // One that was large for many routes at once is not kept.
        touched.shrink_to(ROOT);
        self.touched = touched;
        (self.changes, self.fars) = (0, 0);
        self.space.unlinked(shared);
    }

    /// Writes a node after its children, if anything of it has changed. Returns its word, or `None` if it has
    /// neither routes nor children and is gone.
    fn refresh(&mut self, shared: &Shared, id: u32, depth: u8, around: u32) -> Option<u32> {
        let node = self.node(id);
        if node.around == around && !node.changed && !node.below && node.word != 0 {
            return Some(node.word);
        }
        let (entries, changed, runs) = self.fill(shared, id, depth, around)?;
        let old = self.node(id).word;
        let new = match runs {
            Some(runs) => self.write_far(shared, old, &runs),
            None => self.write(shared, old, &entries, changed),
        };
        self.node_mut(id).word = new;
        Some(new)
    }

    /// The entries of a node, whether its own routes or its children have changed, and its runs if it becomes
    /// a far node; its children are written, as far as they are not within the far node. `None` if it has
    /// neither routes nor children and is gone.
    fn fill(
        &mut self,
        shared: &Shared,
        id: u32,
        depth: u8,
        around: u32,
    ) -> Option<(Box<Entries>, bool, Option<Vec<Run>>)> {
        let node = self.node_mut(id);
        node.around = around;
        node.below = false;
        let changed = std::mem::take(&mut node.changed);
        let mut entries: Box<Entries> = Box::new([u64::from(around); PLACES]);
        for own in &node.own {
            if let Some(places) = entries.get_mut(own.places()) {
                places.fill(OWN | u64::from(entry(own.hop)));
            }
        }
        let old = node.word;
        let mut children = std::mem::take(&mut node.children);
        let stay = children.iter().filter(|(_, child)| self.stays(*child)).count();
        let runs = if depth.is_multiple_of(2 * STEP) && (1..=FAR_CHILDREN).contains(&stay) {
            self.join(shared, old, &mut children, depth, &mut entries)
        } else {
            children.retain(|(place, child)| {
                let Some(entry) = entries.get_mut(usize::from(*place)) else { return false };
                let word = self.refresh(shared, *child, depth + STEP, *entry as u32);
                word.iter().for_each(|word| *entry = u64::from(*word));
                word.is_some()
            });
            None
        };
        let node = self.node_mut(id);
        let empty = children.is_empty() && node.own.is_empty();
        node.children = children;
        if empty {
            let old = std::mem::take(&mut node.word);
            self.free.push(id);
            if old != 0 {
                self.space.leave(old);
            }
            return None;
        }
        Some((entries, changed, runs))
    }

    /// Whether a node has routes, or one of those below it.
    fn stays(&self, id: u32) -> bool {
        let node = self.node(id);
        !node.own.is_empty() || node.children.iter().any(|(_, child)| self.stays(*child))
    }

    /// The runs of a node and its children, if these are few enough for a far node; else the children are
    /// written, and their entries stored in those of the node.
    ///
    /// Not of two children that would be blocks without the far node, although their runs may join those
    /// around them: then the end of a far node would need much memory at once.
    fn join(
        &mut self,
        shared: &Shared,
        old: u32,
        children: &mut Vec<(u8, u32)>,
        depth: u8,
        entries: &mut Entries,
    ) -> Option<Vec<Run>> {
        let mut within = Vec::with_capacity(children.len());
        children.retain(|(place, child)| {
            let around = entries.get(usize::from(*place)).map_or(0, |entry| *entry as u32);
            let filled = self.fill(shared, *child, depth + STEP, around);
            let stays = filled.is_some();
            within.extend(filled.map(|(entries, changed, _)| (*place, *child, entries, changed)));
            stays
        });
        let runs = joined(entries, within.iter().map(|(place, _, entries, _)| (*place, &**entries)))
            .filter(|_| within.iter().filter(|(_, _, entries, _)| runs(entries) > RUNS).count() <= 1)
            // One that is there may stay where it is also if there is no room for another one.
            .filter(|runs| (old & FAR != 0 && shared.overwrite_far(old, runs)) || self.space.has_far());
        for (place, child, own, changed) in within {
            let old = self.node(child).word;
            let new = if runs.is_some() { 0 } else { self.write(shared, old, &own, changed) };
            if new == 0 && old != 0 {
                self.space.leave(old);
            }
            self.node_mut(child).word = new;
            if let Some(entry) = entries.get_mut(usize::from(place)).filter(|_| new != 0) {
                *entry = u64::from(new);
            }
        }
        runs
    }

    /// Stores the entries of a node where it is, or in another place; returns its word.
    fn write(&mut self, shared: &Shared, old: u32, entries: &Entries, changed: bool) -> u32 {
        // As a line or a block it is new.
        let is_new = old & NODE == 0 || old & FAR != 0;
        if !is_new {
            let shrinks = old & BLOCK != 0 && changed && runs(entries) <= FEW_RUNS;
            if !shrinks && shared.overwrite(old, entries) {
                return old;
            }
        }
        let form = if runs(entries) > RUNS { Form::Block } else { Form::Line };
        self.replace(shared, old, form, |new| shared.fill(new, entries))
    }

    /// The same for a far node.
    fn write_far(&mut self, shared: &Shared, old: u32, runs: &[Run]) -> u32 {
        let shrinks = Form::of(old) == Form::FarTwo && runs.len() <= FEW_RUNS && self.space.has_spare();
        if old & FAR != 0 && !shrinks && shared.overwrite_far(old, runs) {
            return old;
        }
        self.replace(shared, old, Form::of_far(runs.len()), |new| shared.fill_far(new, runs))
    }

    /// Makes another node for one; returns its word.
    fn replace(&mut self, shared: &Shared, old: u32, form: Form, fill: impl FnOnce(u32)) -> u32 {
        let Some(new) = self.space.take(shared, form) else {
            // There was room when the change began.
            debug_assert!(false, "no room for a node");
            return old;
        };
        fill(new);
        if old & NODE != 0 {
            self.space.leave(old);
        }
        new
    }

    /// Removes every route.
    pub(super) fn clear(&mut self, shared: &Shared) {
        let places = 0..ROOT;
        places.for_each(|at| shared.set_root(at as u16, 0));
        for node in &self.nodes {
            if node.word != 0 && !(node.own.is_empty() && node.children.is_empty()) {
                self.space.leave(node.word);
            }
        }
        self.space.unlinked(shared);
        let space = std::mem::replace(&mut self.space, Space::new());
        *self = Self { space, ..Self::new() };
    }
}

/// The runs of a node's entries with those of its children in their places; `None` if they are too many for a
/// far node, or if there are no children.
fn joined<'a>(entries: &Entries, children: impl Iterator<Item = (u8, &'a Entries)>) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::with_capacity(FAR_RUNS + 1);
    // Adds entries for so many places each, from a place on; whether there are still few enough.
    let mut add = |from: usize, places: usize, entries: &[u64], mark: &dyn Fn(u64) -> u64| {
        let mut next = from;
        entries.chunk_by(|a, b| a == b).all(|run| {
            next += run.len() * places;
            let (last, entry) = ((next - 1) as u16, run.first().map_or(0, |entry| mark(*entry)));
            match runs.last_mut().filter(|run| run.entry == entry) {
                Some(run) => run.last = last,
                None => runs.push(Run { last, entry }),
            }
            runs.len() <= FAR_RUNS
        })
    };
    let mut done = 0;
    for (place, within) in children {
        let place = usize::from(place);
        // What comes from around the child is marked as it is there.
        let around = entries.get(place).copied().unwrap_or(0);
        let mark = |entry: u64| if entry & OWN != 0 || entry as u32 & NODE != 0 { entry } else { around };
        let before = entries.get(done..place).unwrap_or(&[]);
        if !(add(done * PLACES, PLACES, before, &|entry| entry) && add(place * PLACES, 1, within, &mark)) {
            return None;
        }
        done = place + 1;
    }
    let rest = entries.get(done..).unwrap_or(&[]);
    (done > 0 && add(done * PLACES, PLACES, rest, &|entry| entry)).then_some(runs)
}
