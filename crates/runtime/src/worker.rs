//! A worker: one replica of the graph, run by one thread.

use crate::WorkerId;
use crate::configure::StartAction;
use crate::cx::{Core, Counts, Graph, Moment, Node};
use crate::hub::Handed;
use crate::names::Names;
use crate::options::Idle;
use dpdk::Bell;
use dpdk::crash::{Seat, Seated};
use locks::IgnorePoison;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Tasks that run between two checks of timers and messages.
const TASKS_PER_ROUND: usize = 128;
/// How often tasks run between two such checks even if there are fewer of them, as long as they find work: a
/// worker with one port would otherwise check after each batch.
const RUNS_PER_ROUND: usize = 4;
/// Batches from other workers that are processed between two checks of timers and messages.
const HANDED_PER_ROUND: usize = 128;
/// How long a worker whose ports cannot wake it polls after the last packet before it begins to sleep.
const SPIN: Duration = Duration::from_micros(50);
/// The shortest and the longest sleep of a worker that has polling tasks: the longest is the bound within
/// which a packet that arrives at a quiet router is noticed.
const NAP: Duration = Duration::from_micros(20);
/// The bound within which a quiet worker that polls wakes up.
pub const LONGEST_NAP: Duration = Duration::from_micros(500);
/// The sleep of a worker whose ports can wake it, while packets come quickly. At 10 Gb/s of the smallest
/// packets a fifth of a receive ring of 2048 fills meanwhile.
const GATHER: Duration = Duration::from_micros(30);
/// How long a worker looks for the next packet after a large segment, whose sender waits for what becomes of
/// it. To forward a segment takes as long.
const AFTER_SEGMENT: Duration = Duration::from_micros(50);
/// How many elements, and how many lines of each, are fetched before the worker's turn at most.
const ELEMENTS: usize = 16;
const NODE_LINES: usize = 8;
/// The longest sleep of a worker without anything to poll; messages, and packets from other workers, wake it
/// at once.
const SLEEP: Duration = Duration::from_millis(100);

pub(crate) type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// A request of the control thread to a worker that it has stopped between two batches ([`Worker::held`]).
pub(crate) enum Order {
    /// Deliver what other workers have handed over.
    Deliver,
    /// Switch to another graph.
    Swap(Box<(Graph, Core)>),
    /// Initialize an element in the place where it will run, and give it back.
    Initialize(u32, Box<dyn Node>),
    /// Put an element in the place of another one.
    Replace(u32, Option<Box<dyn Node>>, Arc<Counts>),
    /// Give an element the state of another one, which another worker had, and give that back.
    TakeState(u32, Box<dyn Node>),
    /// Go on with an element that another worker had.
    GoOn(u32, Box<dyn Node>, Moment),
}

/// The answer of a stopped worker.
pub(crate) enum Report {
    /// It is between two batches, and waits for requests.
    Ready,
    /// Whether there was anything to deliver.
    Delivered(bool),
    /// The graph that it had.
    Swapped(Box<(Graph, Core)>),
    /// The element, the actions that it has registered, and what went wrong.
    Initialized(Box<dyn Node>, Vec<StartAction>, Result<(), String>),
    /// The element that was there.
    Replaced(Option<Box<dyn Node>>),
}

/// Work of the control thread that runs on the worker, between two batches.
#[derive(Default)]
// Aligned, because a worker writes into its own in each round.
#[repr(align(128))]
pub(crate) struct Mailbox {
    jobs: Mutex<VecDeque<Job>>,
    pending: AtomicBool,
    pub(crate) thread: OnceLock<std::thread::Thread>,
    /// Wakes the thread when it waits for descriptors; none if the process has no descriptor left.
    bell: OnceLock<Arc<Bell>>,
    /// Rounds that the worker has made; they show that it is alive.
    pub(crate) rounds: AtomicU64,
    /// Cycles for which it has looked for work again and again while there was no task.
    pub(crate) taskless_cycles: AtomicU64,
    /// The worker has ended.
    pub(crate) ended: AtomicBool,
    /// Where it records the element that it runs.
    pub(crate) seat: OnceLock<&'static Seat>,
    /// Tells the thread that runs many workers that this one has a message.
    announce: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Mailbox {
    pub(crate) fn post(&self, job: Job) {
        self.jobs.lock().ignore_poison().push_back(job);
        self.pending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
        if let Some(announce) = self.announce.get() {
            announce();
        }
    }

    /// `announce` is called for each message, in place of waking a thread of the worker's own.
    pub(crate) fn announce(&self, announce: Box<dyn Fn() + Send + Sync>) {
        // A worker is taken in once.
        let _ = self.announce.set(announce);
    }
}

/// How an idle worker finds out that there is work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It looks again from time to time.
    Look,
    /// A descriptor becomes readable.
    Readable,
    /// It looks again after [`GATHER`], when several packets will have come.
    Gather,
    /// It looks all the time, for [`AFTER_SEGMENT`], and then waits as with `Readable`.
    Soon,
}

/// One replica of the router.
// What every round uses comes first.
#[repr(C)]
pub struct Worker {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) running: bool,
    /// Whether the last round ended because no task found work any more.
    pub(crate) settled: bool,
    pub(crate) quit: bool,
    /// Whether a descriptor ended the last sleep, and there was no work since: the descriptor may stay
    /// readable for ever.
    in_vain: bool,
    pub(crate) graph: Graph,
    pub(crate) core: Core,
    inbox: Receiver<Handed>,
    /// What a thread of its own does without work.
    idle: Idle,
    /// When it last looked for work and had no task, by the time stamp counter; none: it has had work since.
    looked: Option<u64>,
    idle_since: Option<Instant>,
    nap: Duration,
    /// Runs of tasks.
    pub(crate) runs: u64,
    /// A simulated clock jumps over idle time; a real one does not.
    pub(crate) slept: Duration,
}

impl Worker {
    pub(crate) fn new(graph: Graph, core: Core, inbox: Receiver<Handed>) -> Self {
        Self {
            graph,
            core,
            mailbox: Arc::default(),
            running: false,
            quit: false,
            inbox,
            idle: Idle::default(),
            looked: None,
            idle_since: None,
            nap: NAP,
            in_vain: false,
            settled: false,
            runs: 0,
            slept: Duration::ZERO,
        }
    }

    /// The same, with what a thread of its own does without work.
    pub(crate) fn when_idle(self, idle: Idle) -> Self {
        Self { idle, ..self }
    }

    /// The worker's number.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.core.worker
    }

    /// A handler of an element is about to be called.
    pub(crate) fn names_of(&self, slot: u32) -> Option<Names> {
        let slot = self.graph.slots.get(slot as usize)?;
        Some(Names::of(&self.graph.texts, &slot.name))
    }

    /// Asks the processor to fetch what the worker's own fields lead to, which a round uses.
    pub(crate) fn prefetch(&self) {
        dpdk::prefetch(&*self.mailbox, 2);
        self.graph.slots.iter().take(ELEMENTS).for_each(|slot| dpdk::prefetch(slot, 1));
        self.core.prefetch();
    }

    /// The same for what that leads to in turn.
    pub(crate) fn prefetch_elements(&self) {
        for slot in self.graph.slots.iter().take(ELEMENTS) {
            dpdk::prefetch(&*slot.stats, 1);
            dpdk::prefetch(&*slot.outputs, 1);
            // It is borrowed while it runs only.
            if let Ok(node) = slot.node.try_borrow() {
                dpdk::prefetch(&**node, NODE_LINES);
            }
        }
    }

    /// The same for what elements lead to: see [`crate::Element::prefetch`].
    pub(crate) fn prefetch_behind_elements(&self, step: usize) {
        for slot in self.graph.slots.iter().take(ELEMENTS) {
            if let Ok(node) = slot.node.try_borrow() {
                node.prefetch(step);
            }
        }
    }

    /// Runs due timers and up to a round of tasks. Returns whether there was work.
    pub(crate) fn step(&mut self) -> bool {
        self.round(0)
    }

    /// The same; while tasks find work, all run again until there were `least` runs.
    pub(crate) fn round(&mut self, least: usize) -> bool {
        self.round_within(least, u64::MAX)
    }

    /// The same; after so many cycles of the processor, tasks do not run again.
    pub(crate) fn round_within(&mut self, least: usize, cycles: u64) -> bool {
        let mut worked = self.tasks(least, cycles);
        if self.core.exact && self.core.hub.stop_requests() > 0 {
            return true;
        }
        let timer = self.core.timers.next_expiry().map(|at| (at, self.core.roughly_now_ns()));
        if let Some((at, now)) = timer
            && at <= now
        {
            // A timer that is set for now while timers run waits for the next round, so that it cannot keep
            // other work from running.
            for _ in 0..self.core.timers.count() {
                if !self.timer(now) {
                    break;
                }
                worked = true;
            }
        }
        worked
    }

    /// Runs the earliest timer that has expired, if any.
    pub(crate) fn timer(&mut self, now_ns: u64) -> bool {
        let Some((slot, id)) = self.core.timers.pop_due(now_ns) else { return false };
        self.core.run_timer(&self.graph, slot, id);
        self.settled = false;
        true
    }

    /// The part of a round that is not timers. Returns whether there was work.
    pub(crate) fn tasks(&mut self, least: usize, cycles: u64) -> bool {
        let began = if cycles == u64::MAX { 0 } else { dpdk::cycles() };
        let mut worked = self.take_handed();
        let mut runs = 0;
        loop {
            let mut found = false;
            // Tasks that are scheduled meanwhile wait for the next pass. The number of runs is limited, so
            // timers cannot starve.
            let scheduled = self.core.run.len();
            let tasks = scheduled.min(TASKS_PER_ROUND);
            for _ in 0..tasks {
                let Some(slot) = self.core.run.next() else { break };
                found |= self.core.run_task(&self.graph, slot);
                if self.core.exact && self.core.hub.stop_requests() > 0 {
                    return true;
                }
            }
            worked |= found;
            runs += tasks;
            self.runs += tasks as u64;
            // A task may know after its work that there is no more.
            self.settled = !found || (tasks == scheduled && self.core.wakers().is_some());
            if self.settled || runs >= least {
                break;
            }
            if cycles != u64::MAX && dpdk::cycles().wrapping_sub(began) >= cycles {
                break;
            }
        }
        worked
    }

    /// The router has stopped: see [`crate::Element::finish`].
    pub(crate) fn finish(&mut self) {
        for slot in 0..self.graph.slots.len() as u32 {
            self.core.with_node(&self.graph, slot, |node, cx| node.finish(cx));
        }
    }

    /// Delivers what other workers handed over to the elements that run here.
    fn take_handed(&mut self) -> bool {
        let me = self.core.worker.0;
        if !self.core.hub.filled(me) {
            return false;
        }
        // The calling element may have left work elsewhere: the call counts as work.
        let mut any = true;
        // The number is limited, so that other workers cannot keep this one from its own tasks.
        for _ in 0..HANDED_PER_ROUND {
            let Ok(handed) = self.inbox.try_recv() else { return any };
            any = true;
            let known = self.graph.names.get(&*handed.element);
            match known.filter(|slot| handed.port < self.graph.slots[**slot as usize].inputs.len()) {
                Some(&slot) => {
                    let stats = &self.graph.slots[slot as usize].stats;
                    stats.count_changed_workers(handed.batch.len() as u64);
                    self.core.inject(&self.graph, slot, handed.port, handed.batch);
                }
                // A hot swap removed the element or its port while the packets were on the way.
                None => {
                    self.core.hub.count_strays(handed.batch.len() as u64);
                    self.core.recycle(handed.batch);
                }
            }
        }
        self.core.hub.refilled(me);
        any
    }

    /// Does what the control thread has asked for.
    pub(crate) fn read_pending_mail(&mut self) {
        if self.mailbox.pending.load(Ordering::Acquire) {
            self.read_mail();
        }
    }

    fn read_mail(&mut self) {
        self.mailbox.pending.store(false, Ordering::Relaxed);
        loop {
            let job = self.mailbox.jobs.lock().ignore_poison().pop_front();
            match job {
                Some(job) => job(self),
                None => return,
            }
        }
    }

    /// When there will be work, as far as that is known: now, at a time, or when a message arrives.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.core.timers.next_expiry()
    }

    /// The same with the timer's stamp.
    pub(crate) fn next_timer(&self) -> Option<(u64, u64)> {
        self.core.timers.first()
    }

    /// Whether a task polls: the worker must check for work by itself.
    pub(crate) fn polls(&self) -> bool {
        !self.core.run.is_empty()
    }

    /// How long an idle worker may sleep now. If it has to look for work, that is a time that grows from
    /// zero, over short sleeps, to [`LONGEST_NAP`].
    pub(crate) fn rest(&mut self, wait: Wait) -> Duration {
        let mut limit = if wait == Wait::Gather { GATHER } else { SLEEP };
        if wait == Wait::Look && self.polls() {
            let since = *self.idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < SPIN {
                return Duration::ZERO;
            }
            limit = self.nap;
            self.nap = (self.nap * 2).min(LONGEST_NAP);
        }
        if wait == Wait::Soon {
            let since = *self.idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < AFTER_SEGMENT {
                return Duration::ZERO;
            }
        }
        if let Some(at) = self.next_wake() {
            let idle = wait == Wait::Look && !self.polls();
            limit = limit.min(self.core.clock.wait_for(at, idle));
        }
        limit
    }
    pub(crate) fn busy(&mut self) {
        self.idle_since = None;
        self.nap = NAP;
        self.in_vain = false;
    }

    /// The loop of a worker thread.
    pub(crate) fn run(mut self) {
        let _ = self.mailbox.thread.set(std::thread::current());
        let seated = Seated::new(self.core.worker.0);
        self.core.seat = seated.seat();
        let _ = self.mailbox.seat.set(seated.seat());
        let (hub, me) = (Arc::clone(&self.core.hub), self.core.worker.0);
        let mailbox = Arc::clone(&self.mailbox);
        let bell = Bell::new().ok().map(Arc::new);
        if let Some(bell) = &bell {
            let _ = mailbox.bell.set(Arc::clone(bell));
        }
        hub.runs(me, bell.clone());
        let mut rounds = 0u64;
        // One by one, packets keep Click's order also with timers.
        let least = if self.core.exact { 0 } else { RUNS_PER_ROUND };
        loop {
            if mailbox.pending.load(Ordering::Acquire) {
                self.read_mail();
                if self.quit {
                    return;
                }
            }
            rounds += 1;
            mailbox.rounds.store(rounds, Ordering::Relaxed);
            if !self.running {
                hub.falls_asleep(me);
                std::thread::park_timeout(SLEEP);
                hub.wakes(me);
                self.core.rested();
            } else if self.round(least) {
                self.busy();
            } else if self.idle == Idle::Poll {
                self.poll_again();
                continue;
            } else {
                let waits = self.polls() && !self.in_vain && bell.is_some() && self.core.wakers().is_some();
                let wait = match (waits, self.core.expects, self.core.take_arrived()) {
                    (false, ..) => Wait::Look,
                    (true, true, _) => Wait::Soon,
                    (true, false, 0..=1) => Wait::Readable,
                    (true, false, _) => Wait::Gather,
                };
                let nap = self.rest(wait);
                self.in_vain = false;
                if nap.is_zero() && wait == Wait::Soon {
                    // Whoever sends the next segment may need this processor.
                    std::thread::yield_now();
                } else if nap.is_zero() {
                    self.poll_again();
                    continue;
                } else {
                    self.core.expects = false;
                    let bell = bell.as_deref().filter(|_| waits);
                    bell.into_iter().for_each(Bell::lie_down);
                    hub.falls_asleep(me);
                    if self.take_handed() {
                        self.busy();
                        bell.into_iter().for_each(Bell::get_up);
                    } else {
                        self.sleep(nap, bell, wait);
                        self.core.rested();
                        self.slept += nap;
                    }
                    hub.wakes(me);
                }
            }
            self.looked = None;
        }
    }

    /// There was nothing to do, and it looks again at once.
    fn poll_again(&mut self) {
        std::hint::spin_loop();
        if self.polls() {
            self.looked = None;
            return;
        }
        // No task runs meanwhile, to which the time would be counted.
        self.core.rested();
        let now = dpdk::cycles();
        if let Some(before) = self.looked.replace(now) {
            let counter = &self.mailbox.taskless_cycles;
            counter.store(
                counter.load(Ordering::Relaxed).wrapping_add(now.wrapping_sub(before)),
                Ordering::Relaxed,
            );
        }
    }

    /// Sleeps until a descriptor of a task is readable, if `bell` is given and `wait` says so, or until the
    /// worker is woken, at most `limit`.
    fn sleep(&mut self, limit: Duration, bell: Option<&Bell>, wait: Wait) {
        match (bell, self.core.wakers()) {
            (Some(bell), Some(_)) if self.mailbox.pending.load(Ordering::Acquire) => bell.get_up(),
            (Some(bell), Some(_)) if wait == Wait::Gather => bell.nap(limit),
            (Some(bell), Some(fds)) => self.in_vain = bell.sleep(fds, limit),
            // Messages or packets may have come between the check and the sleep; unpark then makes this
            // return at once.
            _ => std::thread::park_timeout(limit),
        }
    }

    /// Stops between two batches and serves requests, until the control thread releases it.
    pub(crate) fn held(&mut self, orders: &Receiver<Order>, reports: &SyncSender<Report>) {
        let mut report = Report::Ready;
        // The control thread drops its end when it has given up or is done.
        while reports.send(report).is_ok() {
            let Ok(order) = orders.recv() else { break };
            report = self.obey(order);
        }
        self.busy();
        self.core.rested();
    }

    /// Serves one request.
    pub(crate) fn obey(&mut self, order: Order) -> Report {
        match order {
            Order::Deliver => Report::Delivered(self.take_handed()),
            Order::Swap(new) => Report::Swapped(Box::new(self.swap(*new))),
            Order::Initialize(slot, node) => self.initialize(slot, node),
            Order::Replace(slot, node, counts) => Report::Replaced(self.replace(slot, node, counts)),
            Order::TakeState(slot, mut before) => {
                self.core.with_node(&self.graph, slot, |node, cx| node.take_state(&mut *before, cx));
                Report::Replaced(Some(before))
            }
            Order::GoOn(slot, node, moment) => {
                self.core.resume(slot, moment);
                Report::Replaced(Some(self.graph.slots[slot as usize].node.replace(node)))
            }
        }
    }

    /// Initializes an element that takes the place of another one later.
    fn initialize(&mut self, slot: u32, node: Box<dyn Node>) -> Report {
        let before = self.graph.slots[slot as usize].node.replace(node);
        self.core.initializing = true;
        let done = self.core.with_node(&self.graph, slot, |node, cx| node.initialize(cx));
        self.core.initializing = false;
        let node = self.graph.slots[slot as usize].node.replace(before);
        Report::Initialized(node, std::mem::take(&mut self.core.acts), done.unwrap_or(Ok(())))
    }

    /// Replaces an element, which takes the state of the one before. Returns that, to be dropped elsewhere.
    fn replace(
        &mut self,
        slot: u32,
        node: Option<Box<dyn Node>>,
        counts: Arc<Counts>,
    ) -> Option<Box<dyn Node>> {
        self.graph.slots[slot as usize].counts = Some(counts);
        let mut before = self.graph.slots[slot as usize].node.replace(node?);
        self.core.with_node(&self.graph, slot, |node, cx| node.reconfigured(&mut *before, cx));
        self.busy();
        Some(before)
    }

    /// Replaces the graph. Returns the old one, to be dropped elsewhere.
    fn swap(&mut self, (graph, core): (Graph, Core)) -> (Graph, Core) {
        let old = std::mem::replace(&mut self.graph, graph);
        let old_core = std::mem::replace(&mut self.core, core);
        self.core.go_on_from(&old_core);
        for (index, slot) in self.graph.slots.iter().enumerate() {
            let Some(&before) = old.names.get(&*slot.name) else { continue };
            let before = &old.slots[before as usize];
            if before.class != slot.class {
                continue;
            }
            let (slot_before, slot_now) = (old.names[&*slot.name], index as u32);
            if slot.kept {
                if !slot.single || (slot.runs_here && before.runs_here) {
                    slot.node.swap(&before.node);
                    if slot.runs_here && before.runs_here {
                        self.core.resume(slot_now, old_core.moment(&old, slot_before));
                    }
                }
            } else if let Ok(mut node_before) = before.node.try_borrow_mut() {
                self.core
                    .with_node(&self.graph, slot_now, |node, cx| node.take_state(&mut **node_before, cx));
            }
            let left = slot.kept && before.runs_here && !slot.runs_here;
            if left || (before.pulls_here && !slot.pulls_here) {
                self.core.with_node(&self.graph, slot_now, |node, cx| node.abandon(cx));
            }
        }
        self.busy();
        (old, old_core)
    }
}
