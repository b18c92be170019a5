//! The state of one worker, and the account of the cycles that its elements use.

use super::trace::Trace;
use crate::clock::{Clock, ClockReader};
use crate::configure::StartAction;
use crate::hub::Hub;
use crate::sched::{RunQueue, Timers, Turns};
use crate::{ElementId, WorkerId};
use dpdk::Batch;
use dpdk::crash::Seat;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The longest batch that the runtime makes; longer ones are delivered in pieces.
pub const MAX_BATCH: usize = 256;
/// Batches that are kept for reuse.
const SPARES: usize = 64;
/// Entries of the journal of cycles before they are added up: more than one run of a task makes in a usual
/// configuration.
const JOURNAL: usize = 4096;
/// How many runs of a task are all timed; after them one run in 2^`SAMPLING_BITS` is.
const ALWAYS_MEASURED: u8 = 200;
const SAMPLING_BITS: u32 = 4;
/// A run of so many cycles, after which the next is timed too: some 15 us.
const LONG_RUN: u64 = 50_000;

/// The descriptors that a task without work waits for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wakers {
    pub(super) fds: Vec<RawFd>,
    pub(super) valid: bool,
}

/// Packets on their way to an element.
pub(super) struct Staged {
    pub(super) to: u32,
    pub(super) port: u16,
    pub(super) batch: Batch,
}

/// A handler call that an element made.
pub(super) struct Call {
    pub(super) from: u32,
    pub(super) to: ElementId,
    pub(super) handler: String,
    pub(super) value: String,
}

/// Memory that holds nothing between two runs of tasks, so that the workers of a thread can use it in turn:
/// it stays in the processor's cache.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(super) staged: Vec<Staged>,
    pub(super) deferred: Vec<Staged>,
    spares: Vec<Batch>,
    pub(super) journal: Vec<(u32, u64)>,
    pub(super) numbers: Option<Box<Numbers>>,
}

/// Two numbers for each packet of a batch, for an element to calculate with: [`super::Cx::take_numbers`].
pub type Numbers = [[u32; MAX_BATCH]; 2];

/// The mutable half of a worker; the other half is its [`super::Graph`]. What every run of a task uses is in
/// the first cache lines.
#[repr(C)]
pub struct Core {
    pub(crate) hub: Arc<Hub>,
    pub(crate) worker: WorkerId,
    /// Where the current element is recorded for observers of the worker.
    pub(crate) seat: &'static Seat,
    pub(crate) scratch: Box<Scratch>,
    pub(crate) run: RunQueue,
    pub(crate) batch_size: usize,
    /// For each task, the descriptors of which one must be readable before the task has work, if its last run
    /// has reported that.
    pub(super) wakers: Vec<Wakers>,
    last_tsc: u64,
    /// How many runs of the task the measured cycles stand for; 0: this run is not measured.
    pub(super) weight: u64,
    /// The sampling's own random numbers, so that it does not disturb those of elements.
    dice: u32,
    pub(super) deliveries: u32,
    pub(super) current: u32,
    /// Elements where packets of the running task were dropped because the elements were full.
    pub(super) overflowed_at: u32,
    /// Packets that the running task has emitted, and those of them that were dropped downstream because an
    /// element was full.
    pub(super) run_packets: u64,
    pub(super) run_overflow: u64,
    /// The time of this run; set when it is first read.
    pub(super) run_ns: Option<u64>,
    /// The element whose task runs, and whether it requests another run. The task is put back into the run
    /// queue when its packets have been delivered, after the tasks that these have woken, as in Click.
    pub(super) running: Option<u32>,
    pub(super) again: bool,
    /// The output behind which there must be room for that.
    pub(super) needs_room: Option<usize>,
    /// One packet at a time, in Click's order.
    pub(crate) exact: bool,
    /// Whether large segments were among the packets that have come in by sockets.
    pub(crate) expects: bool,
    /// Packets that have come in by sockets since the worker last slept.
    pub(super) arrived: u64,
    pub(crate) nonempty: Vec<bool>,
    pub(crate) full: Vec<bool>,
    /// For each element, who is first when it has room again.
    pub(crate) turns: Vec<Turns>,
    /// Runs of each task that were measured before sampling begins.
    measured: Vec<u8>,
    /// Packets that were dropped because an element was full, since the start, by the task that emitted them.
    pub(super) overflows: Vec<u64>,
    /// Elements that have a sum.
    pub(super) summed: Vec<u32>,
    /// Handler calls that wait until the element returns.
    pub(super) later: VecDeque<Call>,
    pub(crate) timers: Timers,
    reader: ClockReader,
    pub(crate) clock: Clock,
    /// Sums of entries that did not fit into the journal, by element.
    pub(super) sums: Vec<u64>,
    /// What it records of single packets, if that is wanted.
    pub(crate) trace: Option<Box<Trace>>,
    pub(super) rng: u64,
    /// Whether an element has set the seed.
    pub(super) seeded: bool,
    /// Actions that elements have registered, while they were initialized, for when the configuration takes
    /// over.
    pub(crate) acts: Vec<StartAction>,
    /// Whether elements are being initialized.
    pub(crate) initializing: bool,
}

impl Core {
    pub(crate) fn new(
        worker: WorkerId,
        slots: usize,
        clock: Clock,
        hub: Arc<Hub>,
        batch_size: usize,
    ) -> Self {
        let rng = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(worker.0 as u64 + 1) | 1;
        Self {
            worker,
            clock,
            reader: ClockReader::default(),
            hub,
            run: RunQueue::new(slots),
            timers: Timers::default(),
            exact: batch_size <= 1,
            batch_size: batch_size.clamp(1, MAX_BATCH),
            wakers: vec![Wakers::default(); slots],
            arrived: 0,
            expects: false,
            nonempty: vec![false; slots],
            full: vec![false; slots],
            turns: vec![Turns::default(); slots],
            scratch: Box::default(),
            running: None,
            again: false,
            needs_room: None,
            later: VecDeque::new(),
            rng,
            seeded: false,
            deliveries: 0,
            current: 0,
            seat: Seat::none(),
            last_tsc: 0,
            sums: vec![0; slots],
            trace: None,
            summed: Vec::new(),
            run_packets: 0,
            run_overflow: 0,
            overflowed_at: 0,
            overflows: vec![0; slots],
            weight: 1,
            dice: 0x9e37_79b9 ^ worker.0 as u32,
            measured: vec![0; slots],
            run_ns: None,
            acts: Vec::new(),
            initializing: false,
        }
    }

    /// Registers an action for when the configuration takes over.
    pub(super) fn leave(&mut self, act: StartAction) {
        if self.initializing {
            self.acts.push(act);
        }
    }

    /// The descriptors that wake the tasks in the run queue, if all of these wait for some.
    pub(crate) fn wakers(&self) -> Option<impl Iterator<Item = RawFd> + '_> {
        let all = self.run.queued().all(|slot| self.wakers[slot as usize].valid);
        all.then(|| self.run.queued().flat_map(|slot| self.wakers[slot as usize].fds.iter().copied()))
    }

    /// Asks the processor to fetch what a run of a task uses.
    pub(crate) fn prefetch(&self) {
        self.run.prefetch();
        dpdk::prefetch(self.wakers.as_slice(), 8);
        dpdk::prefetch(self.measured.as_slice(), 1);
        dpdk::prefetch(self.nonempty.as_slice(), 1);
        dpdk::prefetch(self.full.as_slice(), 1);
        dpdk::prefetch(self.overflows.as_slice(), 2);
        self.hub.prefetch(self.worker.0);
    }

    /// The packets that have come in by sockets since the last call.
    pub(crate) fn take_arrived(&mut self) -> u64 {
        std::mem::take(&mut self.arrived)
    }

    /// Now, in nanoseconds since the epoch, for what is done so often that reading the clock itself would
    /// cost too much: see [`ClockReader`].
    #[inline]
    pub(crate) fn roughly_now_ns(&mut self) -> u64 {
        self.reader.now_ns(&self.clock)
    }

    /// Starts accounting for a run of `slot`'s task or timer.
    pub(super) fn begin(&mut self, slot: u32) {
        self.deliveries = 0;
        self.run_ns = None;
        (self.run_packets, self.run_overflow) = (0, 0);
        self.scratch.journal.clear();
        self.current = slot;
        self.seat.enter(slot);
        // Reading the clock for each element of each batch costs about as much as a simple element does:
        // after a while only some runs, chosen at random, are measured and stand for the others.
        let before = self.weight;
        match self.measured.get_mut(slot as usize) {
            Some(n) if *n < ALWAYS_MEASURED => {
                *n += 1;
                self.weight = 1;
            }
            // To trace packets takes the time of each element.
            _ if self.trace.is_some() => self.weight = 1,
            _ => {
                self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                self.weight = if self.dice >> (32 - SAMPLING_BITS) == 0 { 1 << SAMPLING_BITS } else { 0 };
            }
        }
        // Time between two runs, in the worker's own loop, is counted for the later run.
        if self.weight > 0 && (self.last_tsc == 0 || before == 0) {
            self.last_tsc = dpdk::cycles();
        }
    }
    /// Has the next run of the task be timed if this one took long: the clock costs nothing beside it, and
    /// there are too few of them for a sample.
    #[cold]
    pub(super) fn time_next_too(&mut self, slot: u32) {
        let cycles: u64 = self.scratch.journal.iter().map(|entry| entry.1).sum();
        if cycles >= LONG_RUN
            && let Some(n) = self.measured.get_mut(slot as usize)
        {
            *n = (*n).min(ALWAYS_MEASURED - 1);
        }
    }
    /// The time since the last run is counted for no element.
    pub(crate) fn rested(&mut self) {
        self.last_tsc = 0;
    }
    /// Counts cycles for `slot` from here on.
    #[inline]
    pub(super) fn enter(&mut self, slot: u32) -> u32 {
        if self.weight > 0 {
            self.read_clock();
        }
        self.seat.enter(slot);
        std::mem::replace(&mut self.current, slot)
    }
    #[cold]
    fn read_clock(&mut self) {
        let now = dpdk::cycles();
        self.scratch.journal.push((self.current, now.wrapping_sub(self.last_tsc)));
        self.last_tsc = now;
        if self.scratch.journal.len() >= JOURNAL {
            self.sum_up();
        }
    }
    /// Empties the journal. The time that this takes is counted for no element.
    #[cold]
    pub(super) fn sum_up(&mut self) {
        for (slot, cycles) in self.scratch.journal.drain(..) {
            if let Some(sum) = self.sums.get_mut(slot as usize) {
                if *sum == 0 && cycles > 0 {
                    self.summed.push(slot);
                }
                *sum += cycles;
            }
        }
        self.last_tsc = dpdk::cycles();
    }
    pub(crate) fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        // The memory of a batch that was handed to another worker is there; the batch cannot be reused as a
        // spare one.
        if self.scratch.spares.len() < SPARES && batch.capacity() > 0 {
            self.scratch.spares.push(batch);
        }
    }

    /// Sets the seed of the random numbers, different for each worker.
    pub(crate) fn seed(&mut self, seed: u64) {
        self.rng = (self.rng ^ seed).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    }

    pub(super) fn spare(&mut self) -> Batch {
        self.scratch.spares.pop().unwrap_or_else(|| Batch::with_capacity(MAX_BATCH))
    }

    /// Continues with the worker's state before a hot swap: random numbers do not repeat.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        self.seat = before.seat;
        if !self.seeded {
            (self.rng, self.seeded) = (before.rng, before.seeded);
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
    fn only_batches_with_memory_are_kept_as_spare_ones() {
        let mut core = core();
        core.recycle(Batch::new());
        core.recycle(Batch::with_capacity(8));
        assert_eq!(core.scratch.spares.len(), 1);
        assert!(core.spare().capacity() > 0);
    }

    #[test]
    fn random_numbers_begin_where_the_seed_says_for_each_worker_elsewhere() {
        let first = |worker, seed| {
            let (hub, _inboxes) = Hub::new(2);
            let mut core = Core::new(WorkerId(worker), 1, Clock::simulated(), Arc::new(hub), 32);
            core.seed(seed);
            core.rng
        };
        let all = [first(0, 0), first(1, 0), first(0, 7), first(1, 7)];
        assert!((0..4).all(|i| !all[..i].contains(&all[i]) && all[i] != 0), "{all:x?}");
        assert_eq!(first(1, 7), all[3]);
    }

    #[test]
    fn the_journal_of_a_long_run_is_summed_up() {
        let (hub, _inboxes) = Hub::new(1);
        let mut core = Core::new(WorkerId(0), 7, Clock::simulated(), Arc::new(hub), 32);
        core.last_tsc = dpdk::cycles();
        let began = core.last_tsc;
        for n in 0..1 << 20 {
            core.enter(n % 7);
        }
        assert!(core.scratch.journal.capacity() <= 2 * JOURNAL, "{}", core.scratch.journal.capacity());
        assert_eq!((core.sums.len(), core.summed.len()), (7, 7));
        let sum: u64 = core.sums.iter().sum();
        assert!(sum > 0 && sum <= core.last_tsc - began, "{sum}");
    }
}
