//! One worker's state and the door through which an element acts on it.

use crate::clock::Clock;
use crate::element::Node;
use crate::fuse::{Fused, LONGEST, Members, Reached};
use crate::graph::Graph;
use crate::handler::{Asked, Caller, Handler, HandlerError, Known, Reader, Writer, find};
use crate::hub::Hub;
use crate::sched::{RunQueue, Timers};
use crate::{ElementId, WorkerId};
use dpdk::{Batch, Packet};
use std::cell::RefMut;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// The longest vector that the runtime makes; longer ones are delivered in pieces.
pub const MAX_VECTOR: usize = 256;
/// Deliveries that one task run may cause before its packets are taken for a loop and dropped.
const MAX_DELIVERIES: u32 = 1 << 20;
const SPARES: usize = 64;
/// Entries of the journal of cycles that are kept allocated: more than a task run makes on a sensible path.
const JOURNAL: usize = 4096;
/// How many runs of a task are measured before only every so manieth is, as a power of two.
const ALWAYS_MEASURED: u8 = 200;
const SAMPLING_BITS: u32 = 4;

/// To what packets are delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// To the chain that the element begins, or to the element.
    Any,
    /// To the element by itself.
    Plain,
    /// To the element by itself, as the second part of a vector whose first part has left by output 0: what leaves by that
    /// output is delivered before the rest.
    Second,
}

/// Packets on their way to an element.
pub(crate) struct Staged {
    to: u32,
    port: u16,
    how: How,
    batch: Batch,
}

/// A handler call that an element made.
struct Call {
    from: u32,
    to: ElementId,
    handler: String,
    value: String,
}

/// What a task that finds nothing to do waits for.
#[derive(Clone, Debug, Default)]
struct Wakers {
    fds: Vec<RawFd>,
    valid: bool,
}

/// The mutable half of a worker; the other half is its [`Graph`].
pub struct Core {
    pub(crate) worker: WorkerId,
    pub(crate) clock: Clock,
    pub(crate) hub: Arc<Hub>,
    pub(crate) run: RunQueue,
    pub(crate) timers: Timers,
    /// One packet at a time, in Click's order.
    pub(crate) exact: bool,
    pub(crate) vector: usize,
    /// For each task the descriptors without whose being readable it has nothing to do, if its last run has said so.
    wakers: Vec<Wakers>,
    pub(crate) nonempty: Vec<bool>,
    pub(crate) full: Vec<bool>,
    staged: Vec<Staged>,
    deferred: Vec<Staged>,
    /// Whose task runs, and whether it wants to run again. It is put back into the run queue when its packets have
    /// been delivered, behind the tasks that these have woken, as in Click.
    running: Option<u32>,
    again: bool,
    /// Handler calls that wait until their element is free.
    later: VecDeque<Call>,
    spares: Vec<Batch>,
    rng: u64,
    /// Whether an element has set the seed.
    seeded: bool,
    deliveries: u32,
    current: u32,
    last_tsc: u64,
    journal: Vec<(u32, u64)>,
    /// Packets that the task which runs has emitted, and those of them that found no room further on.
    run_packets: u64,
    run_overflow: u64,
    /// Where they found none.
    overflowed_at: u32,
    /// The same since the start, by the task that emitted them.
    overflows: Vec<u64>,
    /// For how many task runs the cycles of this one stand; 0: it is not measured.
    weight: u64,
    /// The sampling's own random numbers, so that it does not disturb those of elements.
    dice: u32,
    /// Runs of each task that were measured before sampling begins.
    measured: Vec<u8>,
}

impl Core {
    pub(crate) fn new(worker: WorkerId, slots: usize, clock: Clock, hub: Arc<Hub>, vector: usize) -> Self {
        let rng = hub.seed().wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(worker.0 as u64 + 1)) | 1;
        Self {
            worker,
            clock,
            hub,
            run: RunQueue::new(slots),
            timers: Timers::default(),
            exact: vector <= 1,
            vector: vector.clamp(1, MAX_VECTOR),
            wakers: vec![Wakers::default(); slots],
            nonempty: vec![false; slots],
            full: vec![false; slots],
            staged: Vec::with_capacity(64),
            deferred: Vec::new(),
            running: None,
            again: false,
            later: VecDeque::new(),
            spares: Vec::new(),
            rng,
            seeded: false,
            deliveries: 0,
            current: 0,
            last_tsc: 0,
            journal: Vec::with_capacity(64),
            run_packets: 0,
            run_overflow: 0,
            overflowed_at: 0,
            overflows: vec![0; slots],
            weight: 1,
            dice: 0x9e37_79b9 ^ worker.0 as u32,
            measured: vec![0; slots],
        }
    }

    /// The descriptors that wake the tasks in the run queue, if all of these wait for some.
    pub(crate) fn wakers(&self) -> Option<impl Iterator<Item = RawFd> + '_> {
        let all = self.run.queued().all(|slot| self.wakers[slot as usize].valid);
        all.then(|| self.run.queued().flat_map(|slot| self.wakers[slot as usize].fds.iter().copied()))
    }

    /// Starts accounting for a run of `slot`'s task or timer.
    fn begin(&mut self, slot: u32) {
        self.deliveries = 0;
        (self.run_packets, self.run_overflow) = (0, 0);
        self.journal.clear();
        self.current = slot;
        // Reading the clock for each element of each vector costs about as much as a simple element does: after a while
        // only some runs, chosen at random, are measured and stand for the others.
        let before = self.weight;
        match self.measured.get_mut(slot as usize) {
            Some(n) if *n < ALWAYS_MEASURED => {
                *n += 1;
                self.weight = 1;
            }
            _ => {
                self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                self.weight = if self.dice >> (32 - SAMPLING_BITS) == 0 { 1 << SAMPLING_BITS } else { 0 };
            }
        }
        // What lies between two runs, the worker's own loop, belongs to the later one.
        if self.weight > 0 && (self.last_tsc == 0 || before == 0) {
            self.last_tsc = dpdk::cycles();
        }
    }
    /// The time since the last run is nobody's.
    pub(crate) fn rested(&mut self) {
        self.last_tsc = 0;
    }
    /// From here on, cycles belong to `slot`.
    #[inline]
    fn enter(&mut self, slot: u32) -> u32 {
        if self.weight > 0 {
            self.read_clock();
        }
        std::mem::replace(&mut self.current, slot)
    }
    #[cold]
    fn read_clock(&mut self) {
        let now = dpdk::cycles();
        self.journal.push((self.current, now.wrapping_sub(self.last_tsc)));
        self.last_tsc = now;
    }
    /// Shares the cycles since the last [`Core::enter`] out among the elements of a chain.
    #[cold]
    fn share_out(&mut self, members: &[u32]) {
        let now = dpdk::cycles();
        let share = now.wrapping_sub(self.last_tsc) / members.len().max(1) as u64;
        self.journal.extend(members.iter().map(|m| (*m, share)));
        self.last_tsc = now;
    }
    /// Books the cycles of the run that ends.
    fn end(&mut self, graph: &Graph, slot: u32, worked: bool) {
        self.enter(slot);
        if self.run_overflow > 0 {
            self.book_waste(graph, slot);
        }
        let weight = self.weight;
        if worked {
            for (slot, cycles) in self.journal.drain(..) {
                graph.slots[slot as usize].stats.add_cycles(cycles * weight);
            }
        } else {
            let cycles: u64 = self.journal.drain(..).map(|j| j.1).sum();
            graph.slots[slot as usize].stats.add_idle(cycles * weight);
        }
        self.trim();
    }
    /// Gives memory back that a forwarding loop has taken, with a million entries.
    fn trim(&mut self) {
        if self.journal.capacity() > JOURNAL {
            self.journal.shrink_to(JOURNAL);
        }
    }

    /// Books the work on packets that found no room further on: their share of the run's cycles.
    #[cold]
    fn book_waste(&mut self, graph: &Graph, slot: u32) {
        let lost = self.run_overflow;
        let cycles: u64 = self.journal.iter().map(|j| j.1).sum();
        let share =
            u128::from(cycles * self.weight) * u128::from(lost) / u128::from(self.run_packets.max(lost));
        graph.slots[self.overflowed_at as usize].stats.add_waste(lost, share as u64);
        self.overflows[slot as usize] += lost;
    }

    /// Runs an element's task. Returns whether it had work.
    pub(crate) fn run_task(&mut self, graph: &Graph, slot: u32) -> bool {
        self.begin(slot);
        self.wakers[slot as usize].valid = false;
        (self.running, self.again) = (Some(slot), false);
        let worked = match graph.slots[slot as usize].node.try_borrow_mut() {
            Ok(mut node) => node.run_task(&mut Cx { graph, core: self, me: slot, base: 0 }),
            Err(_) => false,
        };
        let worked = self.settle(graph) || worked;
        self.running = None;
        if std::mem::take(&mut self.again) {
            self.run.schedule(slot);
        }
        self.end(graph, slot, worked);
        worked
    }

    /// Delivers packets that came from another worker.
    pub(crate) fn inject(&mut self, graph: &Graph, slot: u32, port: usize, batch: Batch) {
        self.begin(slot);
        self.run_packets = batch.len() as u64;
        self.staged.push(Staged { to: slot, port: port as u16, how: How::Any, batch });
        self.settle(graph);
        self.end(graph, slot, true);
    }

    /// Runs an element's timer.
    pub(crate) fn run_timer(&mut self, graph: &Graph, slot: u32, id: u32) {
        self.begin(slot);
        if let Ok(mut node) = graph.slots[slot as usize].node.try_borrow_mut() {
            node.run_timer(id, &mut Cx { graph, core: self, me: slot, base: 0 });
        }
        self.settle(graph);
        self.end(graph, slot, true);
    }

    /// Runs `f` on an element as its task would run, and delivers what it emits.
    pub(crate) fn with_node<R>(
        &mut self,
        graph: &Graph,
        slot: u32,
        f: impl FnOnce(&mut dyn crate::Node, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.rested();
        self.begin(slot);
        let r = {
            let mut node = graph.slots[slot as usize].node.try_borrow_mut().ok()?;
            f(&mut **node, &mut Cx { graph, core: self, me: slot, base: 0 })
        };
        self.settle(graph);
        self.end(graph, slot, true);
        Some(r)
    }

    /// Delivers everything that waits. Returns whether there was anything.
    fn settle(&mut self, graph: &Graph) -> bool {
        let any = !self.staged.is_empty() || !self.deferred.is_empty();
        self.staged.reverse();
        self.drain(graph, 0);
        loop {
            if !self.deferred.is_empty() {
                let deferred = std::mem::take(&mut self.deferred);
                self.staged.extend(deferred.into_iter().rev());
            } else if let Some(call) = self.later.pop_front() {
                self.deliveries += 1;
                if self.deliveries > MAX_DELIVERIES {
                    let lost = self.later.len() as u64 + 1;
                    self.later.clear();
                    let from = &graph.slots[call.from as usize].name;
                    self.hub.lose_writes(from, &call.handler, lost);
                    continue;
                }
                let cx = &mut Cx { graph, core: self, me: call.from, base: 0 };
                if let Err(e) = cx.write_handler(call.to, &call.handler, &call.value) {
                    cx.chatter(&format!("{}: {e}", cx.name()));
                }
                self.staged.reverse();
            } else {
                return any;
            }
            self.drain(graph, 0);
        }
    }

    /// Delivers what is staged above `base`, last entry first, depth first.
    fn drain(&mut self, graph: &Graph, base: usize) {
        while self.staged.len() > base {
            let Some(mut s) = self.staged.pop() else { return };
            let mut rest = None;
            if s.batch.len() > self.vector {
                rest = Some(s.batch.split_off(self.vector));
            }
            if let Some(batch) = rest {
                self.staged.push(Staged { batch, ..s_target(&s) });
            }
            self.deliver(graph, s);
        }
    }

    fn deliver(&mut self, graph: &Graph, mut s: Staged) {
        if s.batch.is_empty() {
            return self.recycle(s.batch);
        }
        // Elements that map packets hand their vector on directly as long as nothing else is to be delivered before.
        loop {
            let slot = &graph.slots[s.to as usize];
            if let Some(fused) = &slot.fused
                && s.port == 0
                && s.how == How::Any
            {
                match self.run_chain(graph, fused, s) {
                    Ok(next) => {
                        s = next;
                        continue;
                    }
                    Err(None) => return,
                    Err(Some(same)) => s = same,
                }
            }
            let Ok(mut node) = slot.node.try_borrow_mut() else {
                // The element is in the middle of a pull that pushed back to it: it gets the packets afterwards.
                return self.deferred.push(s);
            };
            self.deliveries += 1;
            if self.deliveries > MAX_DELIVERIES {
                slot.stats.count_drop("forwarding loop", s.batch.len() as u64);
                return self.recycle(s.batch);
            }
            self.enter(s.to);
            slot.stats.count_in(s.batch.len());
            let mark = self.staged.len();
            let mut cx = Cx { graph, core: self, me: s.to, base: mark };
            if !slot.maps {
                node.push(usize::from(s.port), s.batch, &mut cx);
                if s.how == How::Second {
                    let first = slot.outputs.first().map(|o| (o.to, o.port));
                    self.staged[mark..].sort_by_key(|s| Some((s.to, s.port)) != first);
                }
                break self.in_order(mark);
            }
            node.map(&mut s.batch, &mut cx);
            drop(node);
            let port = if usize::from(s.port) < slot.outputs.len() { usize::from(s.port) } else { 0 };
            match slot.outputs.get(port).filter(|o| !o.pull && !s.batch.is_empty()) {
                Some(out) if self.staged.len() == mark => {
                    slot.stats.count_out(s.batch.len());
                    slot.stats.count_emission();
                    (s.to, s.port, s.how) = (out.to, out.port, How::Any);
                }
                _ => {
                    Cx { graph, core: self, me: s.to, base: mark }.output_batch(port, s.batch);
                    break self.in_order(mark);
                }
            }
        }
    }

    /// What was staged first is delivered first.
    #[inline]
    fn in_order(&mut self, mark: usize) {
        if self.staged.len() > mark + 1 {
            self.staged[mark..].reverse();
        }
    }

    /// Delivers a vector to a chain. `Ok`: all packets went through, and this is where they go next. `Err(None)`: what has
    /// come of them is staged. `Err(Some)`: nothing has happened, the chain's first element is to be run by itself.
    #[inline]
    fn run_chain(&mut self, graph: &Graph, chain: &Fused, mut s: Staged) -> Result<Staged, Option<Staged>> {
        let members = &*chain.members;
        let mut nodes: [Option<RefMut<'_, Box<dyn Node>>>; LONGEST] = [const { None }; LONGEST];
        for (node, member) in nodes.iter_mut().zip(members) {
            match graph.slots[*member as usize].node.try_borrow_mut() {
                Ok(free) => *node = Some(free),
                Err(_) => return Err(Some(s)),
            }
        }
        let Some(borrowed) = nodes.get_mut(..members.len()) else { return Err(Some(s)) };
        if self.deliveries > MAX_DELIVERIES {
            return Err(Some(s));
        }
        self.deliveries += members.len() as u32;
        self.enter(s.to);
        let mark = self.staged.len();
        let mut cx = Cx { graph, core: self, me: s.to, base: mark };
        let reached = (chain.run)(&mut Members(borrowed), &chain.outputs, &mut s.batch, &mut cx);
        if self.weight > 0 {
            self.share_out(members);
        }
        let last = members.last().map_or(s.to, |m| *m);
        let n = reached.packets;
        if n == s.batch.len() {
            for member in members {
                let stats = &graph.slots[*member as usize].stats;
                stats.count_in(n);
                stats.count_out(n);
                stats.count_emission();
            }
            let Some(out) = graph.slots[last as usize].outputs.first() else { return Err(None) };
            return Ok(Staged { to: out.to, port: out.port, how: How::Any, batch: s.batch });
        }
        if reached == Reached::NOWHERE {
            return Err(Some(s));
        }
        self.go_on(graph, chain, &mut nodes, reached, s);
        Err(None)
    }

    /// Takes the packets that a chain left through the general path of its elements, and stages everything in the order in
    /// which the elements one by one would.
    #[cold]
    fn go_on(
        &mut self,
        graph: &Graph,
        chain: &Fused,
        nodes: &mut [Option<RefMut<'_, Box<dyn Node>>>; LONGEST],
        reached: Reached,
        mut s: Staged,
    ) {
        let members = &*chain.members;
        let mark = self.staged.len();
        let n = reached.packets;
        let mut rest = self.spare();
        rest.extend(s.batch.drain(n..));
        // The first one has got further than those after it.
        let mut ahead = (reached.elements > 0).then(|| rest.remove(0));
        let mut stopped = None;
        // What classifiers send elsewhere and what came after packets of the chain.
        let mut later: Vec<Staged> = Vec::new();
        for (k, member) in members.iter().enumerate() {
            let slot = &graph.slots[*member as usize];
            let passed = n + usize::from(ahead.is_some() && k < reached.elements);
            slot.stats.count_passed(passed);
            if stopped.is_some() {
                continue;
            }
            if k == reached.elements
                && let Some(packet) = ahead.take()
            {
                rest.insert(0, packet);
            }
            if rest.is_empty() {
                continue;
            }
            // Each element's other emissions are vectors of their own, as they are outside a chain.
            let base = self.staged.len();
            if chain.choosing.get(k) == Some(&true) {
                self.enter(*member);
                slot.stats.count_in(rest.len());
                let mut others = self.spare();
                let output = chain.outputs.get(k).map_or(0, |o| *o);
                let first = rest.first().map(Packet::data_address);
                if let Some(borrowed) = nodes.get_mut(..members.len()) {
                    (chain.part)(&mut Members(borrowed), k, output, &mut rest, &mut others);
                }
                slot.stats.count_out(rest.len());
                let stayed = rest.first().map(Packet::data_address) == first;
                match nodes.get_mut(k) {
                    Some(Some(node)) if !others.is_empty() => {
                        node.push(0, others, &mut Cx { graph, core: self, me: *member, base });
                        if passed > 0 || stayed {
                            later.splice(0..0, self.staged.drain(base..));
                        }
                    }
                    _ => self.recycle(others),
                }
                continue;
            }
            match nodes.get_mut(k) {
                Some(Some(node)) if slot.maps => {
                    self.enter(*member);
                    slot.stats.count_in(rest.len());
                    node.map(&mut rest, &mut Cx { graph, core: self, me: *member, base });
                    slot.stats.count_out(rest.len());
                    slot.stats.count_emission();
                }
                _ => stopped = Some((*member, passed > 0)),
            }
        }
        let last = members.last().and_then(|m| graph.slots[*m as usize].outputs.first());
        if let Some(out) = last {
            if stopped.is_none() {
                s.batch.append(&mut rest);
            }
            self.staged.push(Staged { to: out.to, port: out.port, how: How::Any, batch: s.batch });
        }
        if let Some(packet) = ahead
            && let Some(&member) = members.get(reached.elements)
        {
            let mut batch = self.spare();
            batch.push(packet);
            self.staged.push(Staged { to: member, port: 0, how: How::Plain, batch });
        }
        if let Some((member, passed)) = stopped {
            let how = if passed { How::Second } else { How::Plain };
            self.staged.push(Staged { to: member, port: 0, how, batch: rest });
        } else {
            self.recycle(rest);
        }
        self.staged.append(&mut later);
        self.in_order(mark);
    }

    #[inline]
    fn set_nonempty(&mut self, graph: &Graph, slot: u32, nonempty: bool) {
        let flag = &mut self.nonempty[slot as usize];
        if *flag != nonempty {
            *flag = nonempty;
            if nonempty {
                let listeners = &graph.slots[slot as usize].listeners;
                listeners.empty.iter().for_each(|task| self.run.schedule(*task));
                // A gate that is open already ends the recursion, so cycles do too.
                listeners.gates.iter().for_each(|gate| self.set_nonempty(graph, *gate, true));
            }
        }
    }

    pub(crate) fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        // A vector that was handed to another worker has left its memory there; it is no use as a spare one.
        if self.spares.len() < SPARES && batch.capacity() > 0 {
            self.spares.push(batch);
        }
    }

    fn spare(&mut self) -> Batch {
        self.spares.pop().unwrap_or_else(|| Batch::with_capacity(MAX_VECTOR))
    }

    /// Goes on from the worker's state before a hot swap: random numbers do not repeat.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        if !self.seeded {
            (self.rng, self.seeded) = (before.rng, before.seeded);
        }
    }
}

fn s_target(s: &Staged) -> Staged {
    Staged { to: s.to, port: s.port, how: s.how, batch: Batch::new() }
}

/// What an element may do while it runs.
///
/// Packets that it emits are delivered when it returns, in the order of emission, depth first; so no element is
/// ever entered while it runs.
pub struct Cx<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) core: &'a mut Core,
    pub(crate) me: u32,
    /// Where this element's own emissions begin among the staged ones.
    pub(crate) base: usize,
}

impl Cx<'_> {
    #[inline]
    fn slot(&self) -> &crate::graph::Slot {
        &self.graph.slots[self.me as usize]
    }

    /// The element's name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot().name
    }
    /// The element's class name.
    #[must_use]
    pub fn class(&self) -> &'static str {
        self.slot().class
    }
    /// The element itself, to be found again from another element's context.
    #[must_use]
    pub fn id(&self) -> ElementId {
        ElementId(self.me)
    }
    /// How many inputs the element has.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.slot().inputs.len()
    }
    /// How many outputs the element has.
    #[inline]
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.slot().outputs.len()
    }
    /// Whether an input is pulled (rather than pushed to).
    #[must_use]
    pub fn input_is_pull(&self, port: usize) -> bool {
        self.slot().inputs.get(port).is_some_and(|i| i.pull)
    }
    /// Whether an output is pulled from (rather than pushes).
    #[must_use]
    pub fn output_is_pull(&self, port: usize) -> bool {
        self.slot().outputs.get(port).is_some_and(|o| o.pull)
    }
    /// The worker that runs this replica.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.core.worker
    }
    /// How many packets a vector holds at most: what a source should emit, or a consumer pull, at a time.
    #[inline]
    #[must_use]
    pub fn vector(&self) -> usize {
        self.core.vector
    }
    /// Whether packets travel one at a time, in Click's order.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.core.exact
    }

    // ---- emitting ----

    /// Emits a packet. An output that does not exist drops it.
    #[inline]
    pub fn output(&mut self, port: usize, packet: Packet) {
        let slot = &self.graph.slots[self.me as usize];
        let Some(out) = slot.outputs.get(port).filter(|o| !o.pull) else {
            return self.drop(packet, "output not connected");
        };
        slot.stats.count_out(1);
        if !self.core.exact {
            // The last few emissions are the likely ones to be joined; order within a port is kept.
            let start = self.core.staged.len().saturating_sub(8).max(self.base);
            for s in self.core.staged[start..].iter_mut().rev() {
                if s.to == out.to && s.port == out.port {
                    return s.batch.push(packet);
                }
            }
        }
        slot.stats.count_emission();
        let mut batch = self.core.spare();
        batch.push(packet);
        self.core.staged.push(Staged { to: out.to, port: out.port, how: How::Any, batch });
    }

    /// Emits a vector.
    #[inline]
    pub fn output_batch(&mut self, port: usize, batch: Batch) {
        if batch.is_empty() {
            return self.core.recycle(batch);
        }
        let slot = &self.graph.slots[self.me as usize];
        let Some(out) = slot.outputs.get(port).filter(|o| !o.pull) else {
            return self.drop_batch(batch, "output not connected");
        };
        slot.stats.count_out(batch.len());
        slot.stats.count_emission();
        if self.core.running == Some(self.me) {
            self.core.run_packets += batch.len() as u64;
        }
        self.core.staged.push(Staged { to: out.to, port: out.port, how: How::Any, batch });
    }

    /// A packet that the element rejects: to output 1 if there is one and it pushes, else dropped for `reason`.
    pub fn fail(&mut self, packet: Packet, reason: &'static str) {
        if self.slot().outputs.get(1).is_some_and(|o| !o.pull) {
            self.output(1, packet);
        } else {
            self.drop(packet, reason);
        }
    }

    /// Drops a packet for a reason, which is counted and can be sampled.
    pub fn drop(&mut self, packet: Packet, reason: &'static str) {
        let slot = &self.graph.slots[self.me as usize];
        slot.stats.count_drop(reason, 1);
        if self.core.hub.tapped() {
            self.core.hub.tap(&slot.name, reason, packet.data(), self.core.clock.now_ns());
        }
        drop(packet);
    }

    /// Drops a vector for a reason.
    pub fn drop_batch(&mut self, mut batch: Batch, reason: &'static str) {
        if self.core.hub.tapped() {
            for packet in batch.drain(..) {
                self.drop(packet, reason);
            }
        } else {
            self.slot().stats.count_drop(reason, batch.len() as u64);
        }
        self.core.recycle(batch);
    }

    /// Counts packets that were lost without being seen, by a device for instance.
    pub fn count_drops(&mut self, n: u64, reason: &'static str) {
        if n > 0 {
            self.slot().stats.count_drop(reason, n);
        }
    }

    /// Says that `n` packets that were pushed to the element are being dropped because there is no room for them: the
    /// work that they have cost is wasted. Beside dropping them.
    #[inline]
    pub fn count_overflow(&mut self, n: usize) {
        self.core.run_overflow += n as u64;
        self.core.overflowed_at = self.me;
    }

    /// How many packets that the element's own task has emitted found no room further on, since the start.
    #[inline]
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.core.overflows[self.me as usize]
    }

    /// Has another worker look for work that it got from this one over a ring of the element's own.
    #[inline]
    pub fn wake(&self, worker: WorkerId) {
        self.core.hub.nudge(worker.0);
    }

    /// An empty vector to fill; give it back with [`Cx::recycle`] or emit it.
    #[inline]
    pub fn spare_batch(&mut self) -> Batch {
        self.core.spare()
    }
    /// Takes a vector that is not needed any more; packets still in it are freed.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        self.core.recycle(batch);
    }

    /// Delivers what has been emitted so far now rather than on return. A task that moves several packets calls
    /// it to keep Click's order; packets that would come back to this very element wait until it returns.
    pub fn flush(&mut self) {
        let me = self.core.enter(self.me);
        self.core.staged[self.base..].reverse();
        self.core.drain(self.graph, self.base);
        self.core.enter(me);
    }

    // ---- pulling ----

    /// Pulls up to `max` packets from an input, appended to `out`. Returns how many came.
    pub fn pull(&mut self, port: usize, max: usize, out: &mut Batch) -> usize {
        let Some(input) = self.graph.slots[self.me as usize].inputs.get(port).filter(|i| i.pull) else {
            return 0;
        };
        let (from, from_port) = input.from;
        let upstream = &self.graph.slots[from as usize];
        let before = out.len();
        let previous = self.core.enter(from);
        let mark = self.core.staged.len();
        let mut cx = Cx { graph: self.graph, core: self.core, me: from, base: mark };
        match (upstream.node.try_borrow_mut(), upstream.pull_through) {
            (Ok(mut node), _) => node.pull(usize::from(from_port), max, out, &mut cx),
            (Err(_), Some((output, input))) if output == usize::from(from_port) => {
                cx.pull(input, max, out);
            }
            (Err(_), _) => {}
        }
        if self.core.staged.len() > mark {
            self.core.staged[mark..].reverse();
            self.core.drain(self.graph, mark);
        }
        let n = out.len() - before;
        if n > 0 {
            upstream.stats.count_out(n);
            upstream.stats.count_emission();
            self.slot().stats.count_in(n);
        }
        self.core.enter(previous);
        n
    }

    /// Pulls one packet.
    pub fn pull_one(&mut self, port: usize) -> Option<Packet> {
        let mut batch = self.core.spare();
        self.pull(port, 1, &mut batch);
        let packet = batch.pop();
        self.core.recycle(batch);
        packet
    }

    // ---- tasks and timers ----

    /// Puts the element's task into the run queue.
    #[inline]
    pub fn reschedule(&mut self) {
        if self.core.running == Some(self.me) || self.slot().runs_here {
            self.reschedule_here();
        }
    }
    /// The same also where the element is bound to another worker: for packets that wait here, as a hot swap can leave some.
    #[inline]
    pub fn reschedule_here(&mut self) {
        if self.core.running == Some(self.me) {
            self.core.again = true;
        } else {
            self.core.run.schedule(self.me);
        }
    }
    /// Whether the element's task belongs to this worker: it is bound to none, or to this one.
    #[must_use]
    pub fn runs_here(&self) -> bool {
        self.slot().runs_here
    }
    /// Says, in a run of the task that has found nothing to do, that the next one will not either before one of these
    /// descriptors is readable (and stays so until the task takes what is there), or another worker calls this one
    /// ([`Cx::wake`]). The task stays in the run queue, but need not keep the worker awake.
    pub fn idle_until_readable(&mut self, fds: &[RawFd]) {
        let wakers = &mut self.core.wakers[self.me as usize];
        wakers.fds.clear();
        wakers.fds.extend_from_slice(fds);
        wakers.valid = true;
    }
    /// Takes the element's task out of the run queue.
    pub fn unschedule(&mut self) {
        if self.core.running == Some(self.me) {
            self.core.again = false;
        }
        self.core.run.unschedule(self.me);
    }
    /// Whether the element's task is in the run queue.
    #[must_use]
    pub fn scheduled(&self) -> bool {
        self.core.run.scheduled(self.me) || (self.core.running == Some(self.me) && self.core.again)
    }
    /// The task's share in tickets.
    #[must_use]
    pub fn tickets(&self) -> u32 {
        self.core.run.tickets(self.me)
    }
    /// Sets the task's share.
    pub fn set_tickets(&mut self, tickets: u32) {
        self.core.run.set_tickets(self.me, tickets);
    }
    /// Sets the element's timer `id` to expire after a delay.
    pub fn timer_after(&mut self, id: u32, delay: Duration) {
        self.timer_at(id, self.now_ns().saturating_add(delay.as_nanos() as u64));
    }
    /// Sets the element's timer `id` to expire at a time in nanoseconds of [`Cx::now_ns`].
    pub fn timer_at(&mut self, id: u32, at_ns: u64) {
        if self.slot().runs_here {
            self.timer_here(id, at_ns);
        }
    }
    /// The same also where the element is bound to another worker, as [`Cx::reschedule_here`].
    pub fn timer_here(&mut self, id: u32, at_ns: u64) {
        self.core.timers.set(self.me, id, at_ns);
    }
    /// Forgets the element's timer `id`.
    pub fn cancel_timer(&mut self, id: u32) {
        self.core.timers.cancel(self.me, id);
    }
    /// When the element's timer `id` expires, if it is set.
    #[must_use]
    pub fn timer_expiry(&self, id: u32) -> Option<u64> {
        self.core.timers.expiry(self.me, id)
    }
    /// Now, in nanoseconds since the epoch; never steps back.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.core.clock.now_ns()
    }

    // ---- notification ----

    /// Tells the consumers downstream of the element's pull outputs whether it has packets. Waking is cheap when
    /// nothing changes. The element must declare it in [`crate::Element::NOTIFY`].
    #[inline]
    pub fn set_nonempty(&mut self, nonempty: bool) {
        self.core.set_nonempty(self.graph, self.me, nonempty);
    }
    /// Tells the sources upstream of the element's push inputs whether it is full.
    #[inline]
    pub fn set_full(&mut self, full: bool) {
        let flag = &mut self.core.full[self.me as usize];
        if *flag != full {
            *flag = full;
            if !full {
                for &task in &self.graph.slots[self.me as usize].listeners.room {
                    self.core.run.schedule(task);
                }
            }
        }
    }
    /// Whether pulling the input may bring packets now. A consumer whose pull came back empty sleeps when this is
    /// false; it is woken when it becomes true.
    #[must_use]
    pub fn upstream_active(&self, port: usize) -> bool {
        self.slot()
            .inputs
            .get(port)
            .is_none_or(|i| i.always_active || i.notifiers.iter().any(|s| self.core.nonempty[*s as usize]))
    }
    /// Whether pushing to the output finds room in some queue downstream. A source that sees false may sleep; it
    /// is woken when there is room.
    #[must_use]
    pub fn downstream_room(&self, port: usize) -> bool {
        self.slot().outputs.get(port).is_none_or(|o| {
            o.notifiers.is_empty() || o.notifiers.iter().any(|s| !self.core.full[*s as usize])
        })
    }

    // ---- the rest ----

    /// A pseudo-random number, uniform over all 64-bit values; not for secrets.
    pub fn random(&mut self) -> u64 {
        // xorshift64* (Vigna 2016).
        let x = &mut self.core.rng;
        *x ^= *x >> 12;
        *x ^= *x << 25;
        *x ^= *x >> 27;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Makes [`Cx::random`] repeat itself from here.
    pub fn seed_random(&mut self, seed: u64) {
        self.core.rng = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.core.seeded = true;
    }
    /// Asks the driver to stop, as a source at its limit does.
    pub fn request_stop(&mut self) {
        self.core.hub.request_stop();
    }
    /// Prints a line for the user on standard error, and to every `ChatterSocket`.
    pub fn chatter(&self, line: &str) {
        self.core.hub.chatter(line);
    }
    /// The router-wide state.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.core.hub
    }
    /// Finds an element of this worker by name, from the scope of the calling element outwards.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ElementId> {
        self.graph.find_from(&self.slot().name, name)
    }
    /// The name of an element.
    #[must_use]
    pub fn name_of(&self, id: ElementId) -> &str {
        self.graph.slots.get(id.0 as usize).map_or("", |s| &s.name)
    }

    /// Reads a handler of this worker's replica of an element, from the data path (`Script` elements do).
    ///
    /// # Errors
    /// No such handler, or the element is busy with the very packet that caused the call.
    pub fn read_handler(&mut self, id: ElementId, name: &str, arg: &str) -> Result<String, HandlerError> {
        let handler = self.handler(id, name)?;
        match handler.reader {
            Some(Reader::Worker(f, _)) => {
                self.on(id, |node, cx| f(node.element(), arg, cx))?.map_err(HandlerError::Failed)
            }
            Some(Reader::Counter(f)) => {
                let n = self.on(id, |node, _| f(&*node.element()).map(|c| c.get()))?;
                Ok(n.unwrap_or(0).to_string())
            }
            Some(Reader::Shared(kind, f)) => {
                let state = self
                    .graph
                    .shared
                    .get(self.name_of(id), kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, arg).map_err(HandlerError::Failed)
            }
            Some(Reader::Called(kind, f)) => {
                let state = self
                    .graph
                    .shared
                    .get(self.name_of(id), kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, self, &Asked { name, value: arg, write: false })
            }
            None => Err(HandlerError::NotReadable(name.into())),
        }
    }

    /// Writes a handler of this worker's replica of an element.
    ///
    /// # Errors
    /// As for [`Cx::read_handler`].
    pub fn write_handler(&mut self, id: ElementId, name: &str, value: &str) -> Result<(), HandlerError> {
        let handler = self.handler(id, name)?;
        match handler.writer {
            Some(Writer::Worker(f)) => {
                self.on(id, |node, cx| f(node.element(), value, cx))?.map_err(HandlerError::Failed)
            }
            Some(Writer::Shared(kind, f)) => {
                let state = self
                    .graph
                    .shared
                    .get(self.name_of(id), kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, value).map_err(HandlerError::Failed)
            }
            Some(Writer::Called(kind, f)) => {
                let state = self
                    .graph
                    .shared
                    .get(self.name_of(id), kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, self, &Asked { name, value, write: true }).map(drop)
            }
            None => Err(HandlerError::NotWritable(name.into())),
        }
    }

    /// Whose handler is meant: without an element the caller's own if it has such a one, else (`None`) a global one.
    fn whose(&self, element: Option<&str>, handler: &str) -> Result<Option<ElementId>, HandlerError> {
        match element {
            Some(name) => self.find(name).map(Some).ok_or_else(|| HandlerError::NoElement(name.into())),
            None => Ok(self.handler(self.id(), handler).ok().map(|_| self.id())),
        }
    }

    /// Whether [`Cx::call`] could call this handler.
    ///
    /// # Errors
    /// There is no such element or handler, or it cannot be written.
    pub fn can_write(&self, element: Option<&str>, handler: &str) -> Result<(), HandlerError> {
        match self.whose(element, handler)? {
            Some(id) if self.handler(id, handler)?.writable() => Ok(()),
            Some(id) => Err(HandlerError::NotWritable(format!("{}.{handler}", self.name_of(id)))),
            None => crate::builtin::check_global(handler, true),
        }
    }

    /// Writes a handler on behalf of the element, on all workers, as soon as that can be done: now if there is one
    /// worker and the other element is free, else when it has become free. What goes wrong is printed. Without an
    /// element the handler is the caller's own or else a global one.
    pub fn call(&mut self, element: Option<&str>, handler: &str, value: &str) {
        let done = match self.whose(element, handler) {
            Ok(None) if handler == "stop" => {
                self.request_stop();
                Ok(())
            }
            Ok(Some(id)) if self.core.hub.workers() < 2 => {
                if self.graph.slots[id.0 as usize].node.try_borrow_mut().is_ok() {
                    self.write_handler(id, handler, value)
                } else {
                    let (handler, value) = (handler.to_owned(), value.to_owned());
                    self.core.later.push_back(Call { from: self.me, to: id, handler, value });
                    Ok(())
                }
            }
            Ok(id) => {
                let of = id.map_or("", |id| self.name_of(id));
                self.core.hub.post_write(self.name(), &format!("{of}.{handler}"), value);
                Ok(())
            }
            Err(e) => Err(e),
        };
        if let Err(e) = done {
            self.chatter(&format!("{}: {e}", self.name()));
        }
    }

    fn handler(&self, id: ElementId, name: &str) -> Result<Handler, HandlerError> {
        let slot =
            self.graph.slots.get(id.0 as usize).ok_or_else(|| HandlerError::NoElement(String::new()))?;
        find(&slot.handlers, name, &self.graph.shared, &slot.name)
            .cloned()
            .ok_or_else(|| HandlerError::NoHandler(format!("{}.{name}", slot.name)))
    }

    fn on<R>(
        &mut self,
        id: ElementId,
        f: impl FnOnce(&mut dyn crate::Node, &mut Cx<'_>) -> R,
    ) -> Result<R, HandlerError> {
        let slot = &self.graph.slots[id.0 as usize];
        let mut node = slot.node.try_borrow_mut().map_err(|_| {
            HandlerError::Failed(format!("'{}' is busy with the packet that caused this call", slot.name))
        })?;
        let base = self.core.staged.len();
        Ok(f(&mut **node, &mut Cx { graph: self.graph, core: self.core, me: id.0, base }))
    }
}

impl Caller for Cx<'_> {
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        match self.target(from, spec)? {
            (Some(id), handler) => self.read_handler(id, handler, arg),
            (None, handler) => {
                crate::builtin::check_global(handler, false)?;
                Err(HandlerError::Failed(format!("'{handler}' cannot be read from the data path")))
            }
        }
    }
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        let (id, handler) = self.target(from, spec)?;
        let Some(id) = id else {
            crate::builtin::check_global(handler, true)?;
            if handler == "stop" {
                self.request_stop();
            } else {
                self.core.hub.post_write(self.name(), &format!(".{handler}"), value);
            }
            return Ok(());
        };
        let there =
            matches!(self.handler(id, handler)?.writer, Some(Writer::Shared(..) | Writer::Called(..)));
        let free = self.graph.slots[id.0 as usize].node.try_borrow_mut().is_ok();
        if there || (self.core.hub.workers() < 2 && free) {
            return self.write_handler(id, handler, value);
        }
        // Not here, or not now: what goes wrong is printed when it does.
        let name = self.name_of(id).to_owned();
        self.can_write(Some(&name), handler)?;
        self.call(Some(&name), handler, value);
        Ok(())
    }
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<Known, HandlerError> {
        let (id, handler) = self.target(from, spec)?;
        let Some(id) = id else {
            crate::builtin::check_global(handler, write)?;
            return Ok(Known {
                name: handler.to_owned(),
                takes_parameter: false,
                private: false,
                secret: false,
            });
        };
        let h = self.handler(id, handler)?;
        let name = format!("{}.{handler}", self.name_of(id));
        match write {
            true if !h.writable() => Err(HandlerError::NotWritable(name)),
            false if !h.readable() => Err(HandlerError::NotReadable(name)),
            _ => Ok(Known { name, takes_parameter: h.takes_parameter, private: h.private, secret: h.secret }),
        }
    }
    fn now_ns(&self) -> u64 {
        Cx::now_ns(self)
    }
    fn hub(&self) -> &Arc<Hub> {
        Cx::hub(self)
    }
}

impl Cx<'_> {
    /// Splits `element.handler` and finds the element from the scope of `from`; without one it is a global handler.
    fn target<'s>(&self, from: &str, spec: &'s str) -> Result<(Option<ElementId>, &'s str), HandlerError> {
        match spec.rsplit_once('.') {
            None | Some(("", _)) => Ok((None, spec.trim_start_matches('.'))),
            Some((element, handler)) => match self.graph.find_from(from, element) {
                Some(id) => Ok((Some(id), handler)),
                None => Err(HandlerError::NoElement(element.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core() -> Core {
        let (hub, _inboxes) = Hub::new(1);
        Core::new(WorkerId(0), 1, Clock::simulated(), Arc::new(hub), 32)
    }

    #[test]
    fn only_vectors_with_memory_are_kept_as_spare_ones() {
        let mut core = core();
        core.recycle(Batch::new());
        core.recycle(Batch::with_capacity(8));
        assert_eq!(core.spares.len(), 1);
        assert!(core.spare().capacity() > 0);
    }

    #[test]
    fn the_journal_of_a_forwarding_loop_is_not_kept() {
        let mut core = core();
        for slot in 0..1 << 20 {
            core.enter(slot);
        }
        core.journal.clear();
        core.trim();
        assert!(core.journal.capacity() <= JOURNAL, "{}", core.journal.capacity());
    }
}
