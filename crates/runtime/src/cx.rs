//! The interface through which an element acts while it runs.

mod calls;
mod core;
mod delivery;
mod described;
mod follow;
mod graph;
mod lending;
mod moment;
mod run;
mod trace;

use self::core::Staged;
use crate::facts::DropReason;
use crate::hub::Hub;
use crate::{ElementId, WorkerId};
use dpdk::{Batch, Packet};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::Level;

pub(crate) use self::core::Scratch;
pub use self::core::{Core, MAX_BATCH, Numbers};
pub(crate) use self::described::{Described, Overview, summaries};
pub(crate) use self::graph::{
    CalledFn, Counts, Input, Listeners, Output, Passed, Reader, Slot, Writer, find,
};
pub use self::graph::{Cx, Graph, Handler, Node, StepFacts};
pub(crate) use self::moment::Moment;
pub(crate) use self::trace::{Event, Head, Trace, Wanted, What};

/// The most packets that one run of a task moves, which takes some milliseconds.
const RUN_PACKETS: usize = 1 << 16;
/// The most deliveries in one run of a task: half of the number that counts as a forwarding loop.
const RUN_DELIVERIES: u32 = delivery::MAX_DELIVERIES / 2;

impl Cx<'_> {
    #[inline]
    fn slot(&self) -> &Slot {
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
    /// A reference to the element, for finding it again from another element's context.
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
    /// The first output that leads to the same input as this one: their packets may go there in one batch.
    #[must_use]
    pub fn first_to_same(&self, port: usize) -> usize {
        let outputs = &self.slot().outputs;
        let Some(out) = outputs.get(port).filter(|out| !out.pull) else { return port };
        let same = |other: &Output| !other.pull && (other.to, other.port) == (out.to, out.port);
        outputs.iter().position(same).unwrap_or(port)
    }
    /// The worker that runs this replica.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.core.worker
    }
    /// How many packets a batch holds at most: what a source should emit, or a consumer pull, at a time.
    #[inline]
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.core.batch_size
    }
    /// Whether packets travel one at a time, in Click's order.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.core.exact
    }

    /// The same as [`crate::ConfigCx::at_change_over`], for elements that know only while they are
    /// initialized what the action is; at any other time it has no effect.
    pub fn at_change_over(&mut self, act: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.core.leave((self.me as usize, Box::new(act)));
    }

    // ---- emitting ----

    /// Emits a packet. An output that does not exist drops it.
    #[inline]
    pub fn output(&mut self, port: usize, packet: Packet) {
        let slot = &self.graph.slots[self.me as usize];
        let Some(out) = slot.outputs.get(port).filter(|o| !o.pull) else {
            return self.drop(packet, DropReason::NOT_CONNECTED);
        };
        slot.stats.count_out(1);
        if !self.core.exact {
            // The last few emissions are the most likely ones to be joined; order within a port is kept.
            let start = self.core.scratch.staged.len().saturating_sub(8).max(self.base);
            for s in self.core.scratch.staged[start..].iter_mut().rev() {
                if s.to == out.to && s.port == out.port {
                    return s.batch.push(packet);
                }
            }
        }
        slot.stats.count_emission();
        let mut batch = self.core.spare();
        batch.push(packet);
        self.core.scratch.staged.push(Staged { to: out.to, port: out.port, batch });
    }

    /// Emits a batch.
    #[inline]
    pub fn output_batch(&mut self, port: usize, batch: Batch) {
        if batch.is_empty() {
            return self.core.recycle(batch);
        }
        let slot = &self.graph.slots[self.me as usize];
        let Some(out) = slot.outputs.get(port).filter(|o| !o.pull) else {
            return self.drop_batch(batch, DropReason::NOT_CONNECTED);
        };
        slot.stats.count_out(batch.len());
        slot.stats.count_emission();
        if self.core.running == Some(self.me) {
            self.core.run_packets += batch.len() as u64;
        }
        self.core.scratch.staged.push(Staged { to: out.to, port: out.port, batch });
    }

    /// Rejects a packet: it goes to output 1 if there is one and it is push, and is otherwise dropped for
    /// `reason`.
    pub fn fail(&mut self, packet: Packet, reason: DropReason) {
        if self.slot().outputs.get(1).is_some_and(|o| !o.pull) {
            self.output(1, packet);
        } else {
            self.drop(packet, reason);
        }
    }

    /// [`Cx::fail`], counted also where it leaves by output 1: for a class whose handlers show how many
    /// packets it has rejected ([`StatsSnapshot::rejected`](crate::StatsSnapshot)).
    pub fn reject(&mut self, packet: Packet, reason: DropReason) {
        if self.slot().outputs.get(1).is_some_and(|o| !o.pull) {
            self.slot().stats.count_rejected(reason);
        }
        self.fail(packet, reason);
    }

    /// Drops a packet for a reason, which is counted and can be sampled.
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        let slot = &self.graph.slots[self.me as usize];
        slot.stats.count_drop(reason, 1);
        if self.core.trace.is_some() {
            self.core.dropped(self.me, &packet, reason.text());
        }
        if self.core.hub.tapped() {
            self.core.hub.tap(&slot.name, reason.text(), packet.data(), self.core.clock.now_ns());
        }
        drop(packet);
    }

    /// Drops a batch for a reason.
    pub fn drop_batch(&mut self, mut batch: Batch, reason: DropReason) {
        if self.core.hub.tapped() || self.core.trace.is_some() {
            for packet in batch.drain(..) {
                self.drop(packet, reason);
            }
        } else {
            self.slot().stats.count_drop(reason, batch.len() as u64);
        }
        self.core.recycle(batch);
    }

    /// Counts packets that were lost elsewhere, for instance in a device.
    pub fn count_drops(&mut self, n: u64, reason: DropReason) {
        if n > 0 {
            self.slot().stats.count_drop(reason, n);
        }
    }

    /// Counts `n` packets that were pushed to the element and are dropped because it is full: the work on
    /// them is wasted. Call it in addition to dropping them.
    #[inline]
    pub fn count_overflow(&mut self, n: usize) {
        self.core.run_overflow += n as u64;
        self.core.overflowed_at = self.me;
    }

    /// Counts `n` packets that the element has got from another worker, over a ring that it owns; those of
    /// elements with one instance are counted by the runtime.
    #[inline]
    pub fn count_changed_workers(&mut self, n: usize) {
        if n > 0 {
            self.slot().stats.count_changed_workers(n as u64);
        }
    }

    /// How many of the packets that the element's task has emitted were dropped downstream because an element
    /// was full, since the start.
    #[inline]
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.core.overflows[self.me as usize]
    }

    /// Makes another worker check for work from this one, which is in a ring that the element owns.
    #[inline]
    pub fn wake(&self, worker: WorkerId) {
        self.core.hub.nudge(worker.0);
    }

    /// The same for a worker that polls and would find the work after a short sleep anyway: only has an
    /// effect if the worker sleeps, and may miss that it is about to sleep.
    #[inline]
    pub fn wake_sleeper(&self, worker: WorkerId) {
        self.core.hub.nudge_sleeper(worker.0);
    }

    /// An empty batch to fill; give it back with [`Cx::recycle`] or emit it.
    #[inline]
    pub fn spare_batch(&mut self) -> Batch {
        self.core.spare()
    }
    /// Takes a batch that is not needed any more; packets still in it are freed.
    #[inline]
    pub fn recycle(&mut self, batch: Batch) {
        self.core.recycle(batch);
    }

    /// Memory to calculate with, which all elements of a thread use in turn; give it back with
    /// [`Cx::give_numbers`].
    #[inline]
    pub fn take_numbers(&mut self) -> Box<Numbers> {
        self.core.scratch.numbers.take().unwrap_or_else(|| Box::new([[0; MAX_BATCH]; 2]))
    }
    /// Gives back what [`Cx::take_numbers`] has returned.
    #[inline]
    pub fn give_numbers(&mut self, numbers: Box<Numbers>) {
        self.core.scratch.numbers = Some(numbers);
    }

    /// Delivers what has been emitted so far now rather than on return. A task that moves several packets
    /// calls it to keep Click's order; packets that would come back to this very element wait until it
    /// returns.
    pub fn flush(&mut self) {
        let me = self.core.enter(self.me);
        self.core.scratch.staged[self.base..].reverse();
        self.core.drain(self.graph, self.base, self.lent);
        self.core.enter(me);
    }

    /// Whether a task that has moved so many packets in this run may move more: no other task runs before it
    /// returns. If not, the task reschedules itself and continues in the next run.
    #[must_use]
    pub fn may_go_on(&self, moved: usize) -> bool {
        moved < RUN_PACKETS && self.core.deliveries < RUN_DELIVERIES
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
        let mark = self.core.scratch.staged.len();
        let mut cx = Cx { graph: self.graph, core: self.core, me: from, base: mark, lent: self.lent };
        match (upstream.node.try_borrow_mut(), upstream.pull_through) {
            (Ok(mut node), _) => node.pull(usize::from(from_port), max, out, &mut cx),
            (Err(_), Some((output, input))) if output == usize::from(from_port) => {
                cx.pull(input, max, out);
            }
            (Err(_), _) => {}
        }
        if self.core.scratch.staged.len() > mark {
            self.core.scratch.staged[mark..].reverse();
            self.core.drain(self.graph, mark, self.lent);
        }
        let n = out.len() - before;
        if n > 0 {
            upstream.stats.count_out(n);
            upstream.stats.count_emission();
            self.slot().stats.count_in(n);
            if self.core.trace.is_some() {
                self.core.pulled(self.graph, from, self.me, &mut out[before..]);
            }
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
    /// The same, even if the element is bound to another worker: for packets that wait here, which a hot swap
    /// can cause.
    #[inline]
    pub fn reschedule_here(&mut self) {
        if self.core.running == Some(self.me) {
            self.core.again = true;
        } else {
            self.core.run.schedule(self.me);
        }
    }
    /// For a task that leaves its packets where they are while there is no room for them
    /// ([`Cx::downstream_room`]): the same, unless those that it has just emitted have taken the last room
    /// behind this output. It is then woken with all others that wait for it; if it stayed in the run queue,
    /// it would always be before them.
    #[inline]
    pub fn reschedule_with_room(&mut self, output: usize) {
        self.core.needs_room = Some(output);
        self.reschedule();
    }
    /// Whether the element's task belongs to this worker: it is bound to none, or to this one.
    #[must_use]
    pub fn runs_here(&self) -> bool {
        self.slot().runs_here
    }
    /// Called in a run of the task that has found no work, or knows that there is no more: the next run will
    /// find none until one of these descriptors is readable (and stays so until the task reads from it), or
    /// another worker wakes this one ([`Cx::wake`]). The task stays in the run queue, but does not keep the
    /// worker awake.
    pub fn idle_until_readable(&mut self, fds: &[RawFd]) {
        let wakers = &mut self.core.wakers[self.me as usize];
        wakers.fds.clear();
        wakers.fds.extend_from_slice(fds);
        wakers.valid = true;
    }
    /// Counts packets that have come in by a descriptor of [`Cx::idle_until_readable`]. A worker that has got
    /// several since it last slept expects more: it then sleeps for a short fixed time, so that packets
    /// gather and not each of them has to wake it.
    #[inline]
    pub fn count_arrivals(&mut self, packets: usize) {
        self.core.arrived += packets as u64;
    }
    /// Declares that a large segment has come in by such a descriptor. The next one comes as soon as its
    /// sender hears of this one: the worker looks for it for a while before it sleeps, and does not let
    /// packets gather.
    #[inline]
    pub fn expect_segments(&mut self) {
        self.core.expects = true;
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
        let stamp = self.core.clock.stamp();
        self.core.timers.set(self.me, id, at_ns, stamp);
    }
    /// [`Cx::timer_at`] for the next expiry of the timer that has just expired: among timers that are due at
    /// the same simulated time, its place remains what it was (Click's `reschedule_after`).
    pub fn timer_again(&mut self, id: u32, at_ns: u64) {
        if self.slot().runs_here {
            let stamp = self.core.timers.stamp;
            self.core.timers.set(self.me, id, at_ns, stamp);
        }
    }
    /// Cancels the element's timer `id`.
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
    /// The same for all elements in one run of a task: the clock is read once, at the first call. If a batch
    /// is distributed over many outputs, reading it for each would cost more than the rest. It differs from
    /// [`Cx::now_ns`] by some tens of nanoseconds, and never steps back.
    #[inline]
    #[must_use]
    pub fn run_ns(&mut self) -> u64 {
        match self.core.run_ns {
            Some(ns) => ns,
            None => {
                let now = self.core.roughly_now_ns();
                *self.core.run_ns.insert(now)
            }
        }
    }

    // ---- notification ----

    /// Notifies the consumers downstream of the element's pull outputs whether it has packets. Waking is
    /// cheap when nothing changes. The element must declare it in [`crate::Element::NOTIFY`].
    #[inline]
    pub fn set_nonempty(&mut self, nonempty: bool) {
        self.core.set_nonempty(self.graph, self.me, nonempty);
    }
    /// Notifies the sources upstream of the element's push inputs whether it is full.
    #[inline]
    pub fn set_full(&mut self, full: bool) {
        let flag = &mut self.core.full[self.me as usize];
        if *flag != full {
            *flag = full;
            self.graph.slots[self.me as usize].stats.set_full(full);
            let turns = &mut self.core.turns[self.me as usize];
            let tasks = &self.graph.slots[self.me as usize].listeners.room;
            if full {
                turns.filler = self.core.running;
            } else if self.core.exact {
                tasks.iter().for_each(|task| self.core.run.schedule(*task));
            } else {
                self.core.run.wake(tasks, turns, self.core.running);
            }
        }
    }
    /// Whether pulling the input may bring packets now. A consumer whose pull came back empty sleeps when
    /// this is false; it is woken when it becomes true.
    #[must_use]
    pub fn upstream_active(&self, port: usize) -> bool {
        self.slot()
            .inputs
            .get(port)
            .is_none_or(|i| i.always_active || i.notifiers.iter().any(|s| self.core.nonempty[*s as usize]))
    }
    /// Whether some queue downstream of the output is not full. A source that gets false may sleep; it is
    /// woken when there is space.
    #[must_use]
    pub fn downstream_room(&self, port: usize) -> bool {
        self.slot().outputs.get(port).is_none_or(|o| {
            o.notifiers.is_empty() || o.notifiers.iter().any(|s| !self.core.full[*s as usize])
        })
    }
    /// Whether the nearest queues downstream of the output are empty: what was emitted in earlier runs of the
    /// task has left them.
    #[must_use]
    pub fn downstream_empty(&self, port: usize) -> bool {
        let empty = |o: &Output| !o.queues.iter().any(|s| self.core.nonempty[*s as usize]);
        self.slot().outputs.get(port).is_none_or(empty)
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
    /// Sets the seed of [`Cx::random`].
    pub fn seed_random(&mut self, seed: u64) {
        self.core.rng = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.core.seeded = true;
    }
    /// Asks the driver to stop, as a source at its limit does.
    pub fn request_stop(&mut self) {
        self.core.hub.request_stop();
    }
    /// Logs a message of this element for the user: see [`Hub::log`].
    #[track_caller]
    pub fn log(&self, level: Level, message: &str) {
        self.core.hub.log(level, self.name(), message);
    }
    /// Prints a line, the purpose of this element, on standard error and to every `ChatterSocket`.
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
}
