//! Threads that run the workers of many routers: virtual routers that share processors and ports.
//!
//! Each thread has a [`Front`], which receives for all of its routers and sends for them. A round of a
//! thread: the front receives and gives packets to the routers' virtual ports; routers with packets,
//! messages, due timers or work that is left run, the one that has used the least of its share first; then
//! the front sends. The cycles that a router's run takes are charged to it.
//!
//! A router whose elements panic, or that uses more memory than it may have, is stopped and reported to its
//! own [`crate::Hub`]; the others go on.

mod desk;
mod guest;
mod ready;

use crate::WorkerId;
use crate::cx::Scratch;
use crate::options::ThreadSetup;
use crate::stall::{self, Watched};
use crate::worker::{LONGEST_NAP, Worker};
use desk::{Desk, Order};
use guest::Guest;
use ready::{LeastUsed, Ready};

use dpdk::crash::Seated;
use locks::IgnorePoison;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use desk::Lodging;
pub use guest::Usage;

/// How often a router's tasks run before it is another router's turn, as long as they find work.
const RUNS: usize = 8;
/// The same where routers get their shares.
const RUNS_IN_FAIRNESS: usize = 3;
/// After so many cycles (some 0.2 ms) its tasks do not run again there: it bounds for how long one has the
/// processor, to what one batch takes if that is longer.
const TURN_IN_FAIRNESS: u64 = 500_000;
/// Where nobody waits for the processor and the front has nothing to receive, a turn is so many times as
/// long, but not once it has taken so many cycles (some 40 us): what a turn costs is divided among more
/// packets.
const TIMES_ALONE: usize = 4;
const TURN_ALONE: u64 = 100_000;
/// How often a thread that gives routers their shares polls its ports between two routers' turns, as long as
/// packets come.
const POLLS: usize = 32;
/// Where routers run in turn, a thread polls its ports again before they run as long as bursts are about full
/// and each router has got fewer packets than this on average: what a router's turn costs is divided among
/// its packets. So a router waits no longer where packets are few.
const GATHERED: usize = 48;
/// The most packets of these polls. They do not stay in the processor's cache, but of 1,024 routers each then
/// has 32 for what its turn costs.
const MOST_GATHERED: usize = 32_768;
/// What is about a full burst.
const ABOUT_FULL: usize = 48;
/// Polls take at most one part in so many of the time that the routers take: packets that
/// come faster are lost in the port, where that costs nothing.
const RECEIVING: u64 = 4;
/// But a busy thread polls at least as often, in cycles (some 20 us).
const POLL_EVERY: u64 = 50_000;
/// The most cycles that are saved up for polls, or owed.
const MOST_CREDIT: i64 = 1 << 22;
/// Rounds of a busy thread after which routers that wait for descriptors of their own (a TAP device) are
/// looked at.
const LOOK_ROUNDS: u32 = 16;
/// What so many routers use is in the processor's cache from one of their turns to the next.
const CACHED: usize = 16;
/// The most lines of a router's own state that are fetched before its turn.
const GUEST_LINES: usize = 12;
/// How long a thread whose ports cannot wake it polls after the last packet before it begins to sleep.
const SPIN: Duration = Duration::from_micros(50);
const NAP: Duration = Duration::from_micros(20);
const SLEEP: Duration = Duration::from_millis(100);
/// Cycles of a share of one, so that shares divide without loss.
const PASS: u64 = 1 << 4;

/// What receives and sends for the routers of one thread of a crew.
pub trait Front: Send {
    /// Receives once, gives the packets to virtual ports, and appends the numbers of the routers that have
    /// got some to `woken`. Returns how many packets came.
    fn receive(&mut self, woken: &mut Vec<u32>) -> usize;
    /// Whether packets come by it; if not, routers have all ports and look for packets themselves.
    fn receives(&self) -> bool {
        true
    }
    /// How many packets wait for routers.
    fn waiting(&self) -> usize {
        0
    }
    /// The most packets that have waited for one router after a [`Front::receive`], since the last call.
    fn longest_queue(&mut self) -> usize {
        0
    }
    /// Takes what has come for a router alone, in receive queues of its own; it is the router's turn. Appends
    /// the numbers of other routers that have got some packets to `woken`.
    fn fetch(&mut self, _router: u32, _woken: &mut Vec<u32>) {}
    /// Asks the processor to fetch what the next turn of a router will use.
    fn prefetch(&self, _router: u32, _what: Soon) {}
    /// Takes what a router has sent; appends the numbers of other routers that have got some of it to
    /// `woken`.
    fn collect(&mut self, router: u32, woken: &mut Vec<u32>);
    /// Sends what was taken; the end of a round.
    fn flush(&mut self) -> Flushed;
    /// Descriptors that are readable when packets have come; `None`: the ports must be polled.
    fn descriptors(&self) -> Option<Vec<RawFd>>;
}

/// What a front fetches before a router's turn, each some time after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// The queues of its interfaces.
    Queues,
    /// The lists of packets in these.
    Lists,
    /// The packets.
    Packets,
}

/// What became of the packets that a front had to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// There were none.
    Nothing,
    /// Some were sent.
    Some,
    /// Ports took none; they are to be tried again soon.
    Blocked,
}

/// What the order of turns needs to know of a router: of many routers it is in few cache lines.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Cycles used by its share: the router with the least of it runs next.
    pass: u64,
    /// There is a router, and none of its elements has panicked.
    runs: bool,
    /// It is in the queue of those that run.
    ready: bool,
    /// It is there because something has happened, not only to look whether something has.
    called: bool,
}

/// Threads that run the workers of many routers.
pub struct Crew {
    threads: Vec<(Arc<Desk>, Option<JoinHandle<()>>)>,
    /// The routers by their numbers, for the watchdog.
    watched: Arc<Mutex<HashMap<u32, Watched>>>,
    watchdog: Option<stall::Watchdog>,
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("threads", &self.threads.len()).finish()
    }
}

impl Crew {
    /// Starts a thread for each front. `enter` is called by each thread first. If `fair`, of the routers that
    /// have work the one runs first that has used the least of its share; else they run in turn.
    ///
    /// # Errors
    /// A thread cannot be started; those that were started end again.
    pub fn start(
        fronts: Vec<Box<dyn Front>>,
        enter: Option<ThreadSetup>,
        fair: bool,
    ) -> Result<Self, String> {
        let mut this = Self { threads: Vec::new(), watched: Arc::default(), watchdog: None };
        for (number, front) in fronts.into_iter().enumerate() {
            let desk = Arc::new(Desk::new());
            let own = Arc::clone(&desk);
            let body = move || {
                let _guard = enter.map(|f| f(WorkerId(number)));
                let _ = own.thread.set(std::thread::current());
                CrewThread::new(number, own, front, fair).run();
            };
            match std::thread::Builder::new().name(format!("worker-{number}")).spawn(body) {
                Ok(handle) => this.threads.push((desk, Some(handle))),
                Err(e) => return Err(format!("cannot start a thread for worker {number}: {e}")),
            }
        }
        Ok(this)
    }

    /// How many rounds each thread has begun. A thread that has nothing to do begins several in a second; one
    /// whose number stays the same is stuck in an element.
    #[must_use]
    pub fn rounds(&self) -> Vec<u64> {
        self.threads.iter().map(|(desk, _)| desk.rounds.load(Ordering::Relaxed)).collect()
    }

    /// Cycles in which there was nothing to do, on all threads.
    #[must_use]
    pub fn idle_cycles(&self) -> u64 {
        self.threads.iter().map(|(desk, _)| desk.idle()).sum()
    }

    /// Reports routers that run for longer than `limit` at a time, and hold up the others of their thread.
    pub fn watch(&mut self, limit: Duration) {
        let desks: Vec<_> = self.threads.iter().map(|(desk, _)| Arc::clone(desk)).collect();
        let look = move |thread: usize| {
            let desk = desks.get(thread)?;
            Some((desk.rounds.load(Ordering::Relaxed), desk.runs.load(Ordering::Relaxed)))
        };
        self.watchdog = stall::Watchdog::start(self.threads.len(), look, Arc::clone(&self.watched), limit);
    }

    /// What has a router run on all threads: something has come for it from another thread.
    #[must_use]
    pub fn caller(&self, router: u32) -> Arc<dyn Fn() + Send + Sync> {
        let desks: Vec<_> = self.threads.iter().map(|(desk, _)| Arc::clone(desk)).collect();
        Arc::new(move || desks.iter().for_each(|desk| desk.call(router)))
    }

    /// Has all threads see what their fronts have been told.
    pub fn wake(&self) {
        self.threads.iter().for_each(|(desk, _)| desk.wake());
    }

    /// Gives a router another share of the time.
    pub fn set_share(&self, router: u32, share: u32) {
        self.threads.iter().for_each(|(desk, _)| desk.order(Order::Share(router, share_of(share))));
    }

    /// How many threads there are: each router has so many workers.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Takes a router's workers in, one on each thread.
    pub(crate) fn take_in(
        &self,
        router: u32,
        share: u32,
        workers: impl Iterator<Item = Worker>,
    ) -> (Vec<Lodging>, Arc<Usage>) {
        let usage = Usage::new(self.threads.len());
        let mut mailboxes = Vec::new();
        let mut hub = Weak::new();
        let lodgings = workers.zip(&self.threads).enumerate().map(|(number, (worker, (desk, _)))| {
            let (called, by_hub) = (Arc::clone(desk), Arc::clone(desk));
            worker.mailbox.announce(Box::new(move || called.call(router)));
            worker.core.hub.announce(number, Box::new(move || by_hub.call(router)));
            hub = Arc::downgrade(&worker.core.hub);
            mailboxes.push(Arc::downgrade(&worker.mailbox));
            let guest = Guest {
                worker,
                used: Arc::clone(&usage.threads[number]),
                share: share_of(share),
                polls: false,
                waits: false,
                timer: None,
                account: accounts::inherit(),
            };
            desk.order(Order::Enter(router, Box::new(guest)));
            Lodging { desk: Arc::clone(desk), router }
        });
        let lodgings = lodgings.collect();
        let watched = Watched { hub, mailboxes, stall: Arc::clone(&usage.stall) };
        self.watched.lock().ignore_poison().insert(router, watched);
        (lodgings, usage)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        self.threads.iter().for_each(|(desk, _)| desk.order(Order::Quit));
        for (_, handle) in &mut self.threads {
            // A thread that panicked has printed so on standard error.
            handle.take().into_iter().for_each(|handle| drop(handle.join()));
        }
    }
}

fn share_of(share: u32) -> u64 {
    u64::from(share.max(1))
}

/// One thread of a crew.
struct CrewThread {
    number: usize,
    desk: Arc<Desk>,
    front: Box<dyn Front>,
    /// By the number of the router.
    guests: Vec<Option<Box<Guest>>>,
    /// The same.
    places: Vec<Place>,
    /// What the routers use in their turns.
    scratch: Box<Scratch>,
    /// Routers that run next.
    ready: Ready,
    /// How many of these were called: see [`Place::called`].
    called: usize,
    /// Those of this round, and the packets' receivers, kept for their memory.
    turns: Vec<u32>,
    woken: Vec<u32>,
    /// When timers of routers are due, in nanoseconds.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    /// Those that wait for descriptors of their own.
    waiting: Vec<u32>,
    /// Those that poll.
    polling: Vec<u32>,
    /// The pass of the router that ran last: who becomes ready begins there.
    pass: u64,
    /// Cycles for polls, and when the last one was.
    credit: i64,
    polled: u64,
    quit: bool,
}

impl CrewThread {
    fn new(number: usize, desk: Arc<Desk>, front: Box<dyn Front>, fair: bool) -> Self {
        Self {
            number,
            desk,
            front,
            guests: Vec::new(),
            places: Vec::new(),
            scratch: Box::default(),
            ready: if fair { Ready::LeastUsed(LeastUsed::default()) } else { Ready::InTurn(Vec::new()) },
            called: 0,
            turns: Vec::new(),
            woken: Vec::new(),
            timers: BinaryHeap::new(),
            waiting: Vec::new(),
            polling: Vec::new(),
            pass: 0,
            credit: 0,
            polled: 0,
            quit: false,
        }
    }

    fn run(mut self) {
        let seated = Seated::new(self.number);
        let mut woken = Vec::new();
        let (mut idle_since, mut nap, mut rounds, mut looked) = (None, NAP, 0u64, 0);
        let fair = matches!(self.ready, Ready::LeastUsed(_));
        let (runs, turn) = if fair { (RUNS_IN_FAIRNESS, TURN_IN_FAIRNESS) } else { (RUNS, u64::MAX) };
        loop {
            if self.desk.pending.load(Ordering::Acquire) {
                self.obey(&seated);
                if self.quit {
                    return;
                }
            }
            rounds += 1;
            self.desk.rounds.store(rounds, Ordering::Relaxed);
            let mut worked = if fair { self.receive_fairly(&mut woken) } else { self.gather(&mut woken) };
            worked |= self.start_due();
            if !worked || rounds.is_multiple_of(u64::from(LOOK_ROUNDS)) {
                for at in 0..self.waiting.len() {
                    self.put(self.waiting[at], false);
                }
            }
            for at in 0..self.polling.len() {
                self.put(self.polling[at], false);
            }
            // Those that become ready meanwhile wait for the next round, so that the front is not starved.
            let mut turns = std::mem::take(&mut self.turns);
            self.ready.take(&mut turns);
            let many = turns.len() + self.ready.len() > CACHED;
            let alone = !fair && turns.len() == 1 && !self.front.receives();
            let times = if alone { TIMES_ALONE } else { 1 };
            for (at, &router) in turns.iter().enumerate() {
                if many {
                    self.prefetch(turns.get(at + 1..).unwrap_or_default());
                }
                worked |= self.serve(router, (runs, times), turn);
            }
            turns.clear();
            self.turns = turns;
            let flushed = self.front.flush();
            worked |= flushed == Flushed::Some;
            self.desk.note(worked || self.called > 0);
            if worked || self.called > 0 {
                (idle_since, nap, looked) = (None, NAP, 0);
                continue;
            }
            // Each that looks for packets itself has its turn between two naps.
            looked += 1;
            if looked <= self.ready.len() {
                continue;
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < SPIN {
                std::hint::spin_loop();
                continue;
            }
            self.sleep(&mut nap, flushed == Flushed::Blocked);
            looked = 0;
        }
    }

    /// Polls the ports, as long as packets come and routers have few or have left time for it: a
    /// router's turn may be long, and what comes meanwhile must not be lost in the ports, where nobody sees
    /// whose it is. Returns whether packets came.
    fn receive_fairly(&mut self, woken: &mut Vec<u32>) -> bool {
        // What a router's turn costs is divided among its packets, unless most are lost in its queue.
        let (mut any, mut gathers) = (false, true);
        for poll in 0..POLLS {
            let before = dpdk::cycles();
            let soon = poll > 0 || (self.called > 0 && before.wrapping_sub(self.polled) < POLL_EVERY);
            let waited = self.front.waiting();
            if soon && self.credit < 0 && !(gathers && waited < GATHERED * self.called) {
                break;
            }
            let received = self.front.receive(woken);
            gathers = 2 * self.front.waiting().saturating_sub(waited) >= received;
            self.polled = dpdk::cycles();
            self.credit -= self.polled.wrapping_sub(before) as i64;
            woken.drain(..).for_each(|router| self.wake(router));
            if received == 0 {
                break;
            }
            any = true;
        }
        any
    }

    /// Polls the ports; again, if what has come is spread over many routers. Returns whether packets came.
    fn gather(&mut self, woken: &mut Vec<u32>) -> bool {
        let mut sum = 0;
        loop {
            let received = self.front.receive(woken);
            woken.drain(..).for_each(|router| self.wake(router));
            sum += received;
            // Of one that gets most of the packets no more may come than its queue has room for.
            let longest = self.front.longest_queue();
            if received < ABOUT_FULL
                || sum >= MOST_GATHERED.min(GATHERED * self.called)
                || longest >= GATHERED
            {
                return sum > 0;
            }
        }
    }

    /// Asks the processor to fetch, while one router runs, what the next ones use: those of this round, and
    /// then those that wait. To find out where that is takes several steps, one in each router's turn, so
    /// that none has to wait for what the one before has asked for.
    fn prefetch(&self, next: &[u32]) {
        let router = |ahead: usize| next.get(ahead).copied().or_else(|| self.ready.after(ahead - next.len()));
        let guest = |ahead: usize| self.guests.get(router(ahead)? as usize)?.as_deref();
        if let Some(guest) = guest(4) {
            dpdk::prefetch(guest, GUEST_LINES);
        }
        if let Some(guest) = guest(3) {
            guest.worker.prefetch();
            dpdk::prefetch(&*guest.used, 1);
        }
        for (ahead, what) in [(2, Soon::Queues), (1, Soon::Lists), (0, Soon::Packets)] {
            router(ahead).into_iter().for_each(|router| self.front.prefetch(router, what));
        }
        if let Some(guest) = guest(2) {
            guest.worker.prefetch_elements();
        }
        for (ahead, step) in [(1, 0), (0, 1)] {
            guest(ahead).into_iter().for_each(|guest| guest.worker.prefetch_behind_elements(step));
        }
    }

    fn obey(&mut self, seated: &Seated) {
        self.desk.pending.store(false, Ordering::Relaxed);
        let orders = std::mem::take(&mut *self.desk.orders.lock().ignore_poison());
        for order in orders {
            match order {
                Order::Enter(router, mut guest) => {
                    guest.worker.core.seat = seated.seat();
                    let _ = guest.worker.mailbox.seat.set(seated.seat());
                    let at = router as usize;
                    if self.guests.len() <= at {
                        self.guests.resize_with(at + 1, || None);
                        self.places.resize_with(at + 1, Place::default);
                    }
                    self.guests[at] = Some(guest);
                    self.places[at] = Place { pass: self.pass, runs: true, ..Place::default() };
                    self.wake(router);
                }
                Order::Call(router) => {
                    self.attend(router);
                    self.wake(router);
                }
                Order::Share(router, share) => {
                    if let Some(guest) = self.guests.get_mut(router as usize).and_then(Option::as_mut) {
                        guest.share = share;
                    }
                }
                Order::Leave(router, back) => {
                    self.forget(router);
                    if let Some(guest) = self.guests.get_mut(router as usize).and_then(Option::take) {
                        let place = std::mem::take(&mut self.places[router as usize]);
                        self.called -= usize::from(place.called);
                        // Whoever wants it waits.
                        let _ = back.send(Box::new(guest.worker));
                    }
                }
                Order::Quit => self.quit = true,
            }
        }
    }

    /// It has work: it runs in this round or in the next.
    fn wake(&mut self, router: u32) {
        self.put(router, true);
    }

    /// Puts it among those that run; `called`: it has work.
    fn put(&mut self, router: u32, called: bool) {
        let Some(place) = self.places.get_mut(router as usize).filter(|place| place.runs) else { return };
        if called && !place.called {
            place.called = true;
            self.called += 1;
        }
        if place.ready {
            return;
        }
        place.ready = true;
        // Who has slept does not get the time that it has not used.
        place.pass = place.pass.max(self.pass);
        self.ready.push(place.pass, router);
    }

    /// Wakes the routers whose timers are due; whether there are any.
    fn start_due(&mut self) -> bool {
        let mut any = false;
        while let Some(&Reverse((at, router))) = self.timers.peek() {
            let guest = self.guests.get_mut(router as usize).and_then(Option::as_mut);
            let Some(guest) = guest.filter(|guest| guest.timer == Some(at)) else {
                // It has another time meanwhile, or has left.
                self.timers.pop();
                continue;
            };
            if at > guest.worker.core.clock.now_ns() {
                break;
            }
            self.timers.pop();
            guest.timer = None;
            any = true;
            self.wake(router);
        }
        any
    }

    /// Runs a router for a while: its tasks so often, and that so many times. Returns whether it had work.
    fn serve(&mut self, router: u32, (runs, times): (usize, usize), turn: u64) -> bool {
        let at = router as usize;
        let Some(place) = self.places.get_mut(at).filter(|place| place.runs) else { return false };
        place.ready = false;
        self.called -= usize::from(std::mem::take(&mut place.called));
        self.pass = self.pass.max(place.pass);
        let before = dpdk::cycles();
        self.front.fetch(router, &mut self.woken);
        let Some(worked) = self.run_charged(router, before, |worker| {
            worker.read_pending_mail();
            let worked = worker.running && worker.round_within(runs, turn);
            for _ in 1..times {
                if !worker.running || worker.settled || dpdk::cycles().wrapping_sub(before) > TURN_ALONE {
                    break;
                }
                worker.round_within(runs, turn);
            }
            worked
        }) else {
            return true;
        };
        let mut woken = std::mem::take(&mut self.woken);
        self.front.collect(router, &mut woken);
        woken.drain(..).for_each(|router| self.wake(router));
        self.woken = woken;
        let Some(guest) = self.guests.get_mut(router as usize).and_then(Option::as_mut) else {
            return worked;
        };
        let timer = guest.worker.next_wake();
        if timer != guest.timer {
            guest.timer = timer;
            self.timers.extend(timer.map(|at| Reverse((at, router))));
        }
        let (polls, waits) = match guest.worker.core.wakers() {
            _ if !guest.worker.running || !guest.worker.polls() => (false, false),
            None => (true, false),
            Some(mut descriptors) => (false, descriptors.next().is_some()),
        };
        // With work left it runs again in any case.
        let more = worked && !guest.worker.settled;
        if polls != guest.polls || waits != guest.waits {
            (guest.polls, guest.waits) = (polls, waits);
            set_in(&mut self.polling, router, polls);
            set_in(&mut self.waiting, router, waits);
        }
        if more {
            self.wake(router);
        }
        worked
    }

    /// Does what a router's control thread has asked for, before it is the router's turn: where many routers
    /// have work, that may be some time.
    fn attend(&mut self, router: u32) {
        if self.places.get(router as usize).is_some_and(|place| place.runs) {
            self.run_charged(router, dpdk::cycles(), |worker| {
                worker.read_pending_mail();
                true
            });
        }
    }

    /// Runs a router's worker, and charges the router with the cycles since `before`. Returns whether there
    /// was work; none: an element has panicked, or there is no such router.
    fn run_charged(
        &mut self,
        router: u32,
        before: u64,
        run: impl FnOnce(&mut Worker) -> bool,
    ) -> Option<bool> {
        let guest = self.guests.get_mut(router as usize)?.as_mut()?;
        self.desk.runs.store(router, Ordering::Relaxed);
        std::mem::swap(&mut self.scratch, &mut guest.worker.core.scratch);
        let entered = guest.account.enter();
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut guest.worker)));
        drop(entered);
        // What it has left there when an element panicked goes with it.
        if ran.is_ok() {
            std::mem::swap(&mut self.scratch, &mut guest.worker.core.scratch);
        }
        guest.worker.core.rested();
        self.desk.runs.store(stall::NOBODY, Ordering::Relaxed);
        let used = dpdk::cycles().wrapping_sub(before);
        // A router that polls a port itself has looked for packets only, as the front does for others.
        if !matches!((&self.ready, &ran), (Ready::InTurn(_), Ok(false))) {
            guest.used.charge(used);
        }
        self.credit = (self.credit + (used / RECEIVING) as i64).clamp(-MOST_CREDIT, MOST_CREDIT);
        let place = &mut self.places[router as usize];
        place.pass += (used * PASS / guest.share).max(1);
        let exceeded = guest.account.overdrawn();
        if ran.is_err() || exceeded.is_some() {
            place.runs = false;
            self.called -= usize::from(std::mem::take(&mut place.called));
            guest.worker.mailbox.ended.store(true, Ordering::Relaxed);
            guest.worker.core.hub.fail(&match exceeded {
                Some(exceeded) => exceeded.to_string(),
                None => format!("worker {} has failed", self.number),
            });
            self.forget(router);
        }
        ran.ok().filter(|_| exceeded.is_none())
    }

    fn forget(&mut self, router: u32) {
        set_in(&mut self.polling, router, false);
        set_in(&mut self.waiting, router, false);
    }

    /// Sleeps until there may be work; for a short time only, if a port has taken nothing.
    fn sleep(&mut self, nap: &mut Duration, blocked: bool) {
        let mut limit = SLEEP;
        let descriptors = self.front.descriptors().filter(|_| self.polling.is_empty() && !blocked);
        if descriptors.is_none() || self.desk.bell.is_none() {
            limit = *nap;
            *nap = (*nap * 2).min(LONGEST_NAP);
        }
        if let Some(Reverse((at, router))) = self.timers.peek()
            && let Some(Some(guest)) = self.guests.get(*router as usize)
        {
            // Others share the thread: it is never known to be idle.
            limit = limit.min(guest.worker.core.clock.wait_for(*at, false));
        }
        if limit.is_zero() {
            return;
        }
        let Some(bell) = self.desk.bell.as_deref() else {
            return std::thread::park_timeout(limit);
        };
        bell.lie_down();
        if self.desk.pending.load(Ordering::Acquire) {
            return bell.get_up();
        }
        let own = self.waiting.iter().filter_map(|router| self.guests.get(*router as usize)?.as_ref());
        let own = own.flat_map(|guest| guest.worker.core.wakers().into_iter().flatten());
        bell.sleep(descriptors.into_iter().flatten().chain(own), limit);
    }
}

/// Makes a number be in a list, or not.
fn set_in(list: &mut Vec<u32>, number: u32, there: bool) {
    match (list.iter().position(|n| *n == number), there) {
        (None, true) => list.push(number),
        (Some(at), false) => drop(list.swap_remove(at)),
        _ => {}
    }
}
