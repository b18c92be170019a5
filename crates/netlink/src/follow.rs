//! A thread that follows a namespace.

use crate::error::Error;
use crate::message::{Event, List, Message, messages};
use crate::socket::{Heard, Home, Namespace, Sockets, take_prepared, wait};
use crate::state::State;
use locks::IgnorePoison;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tables::Prefix;

/// What is followed, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Options {
    /// The namespace.
    pub namespace: Namespace,
    /// The routing tables; of routes to one network, those of an earlier table win.
    pub tables: Vec<u32>,
    /// How many bytes of notifications can wait in the kernel.
    pub buffer: usize,
    /// How often everything is read again and compared; 0: never.
    pub reconcile: Duration,
}

/// What a consumer is told to look at again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changes<'a> {
    /// All that the state has; what it does not have is gone.
    All,
    /// These.
    Some {
        /// The networks whose routes have changed, come or gone; each once.
        routes: &'a [Prefix],
        /// The neighbors that have, by interface and address.
        neighbors: &'a [(u32, Ipv4Addr)],
        /// Whether interfaces or addresses have.
        links: bool,
    },
}

/// Who gets the changes. Its methods are called on the follower's thread.
pub trait Consumer: Send {
    /// Brings itself into step with the state. Returns how many routes it had otherwise than the state.
    fn changed(&mut self, state: &State, changes: Changes<'_>) -> u64;
    /// A message for the user.
    fn warn(&mut self, message: &str);
}

/// How a follower does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// It reads everything, at the start or because notifications were lost.
    Reading,
    /// It knows what the kernel knows.
    InStep,
    /// There is no namespace of that name at present.
    Gone,
    /// The namespace cannot be entered, or the kernel does not answer; tried again every second.
    Failing,
}

impl Health {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::InStep => "in step",
            Self::Gone => "namespace gone",
            Self::Failing => "failing",
        }
    }
}

/// Counters of a follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// How it does.
    pub health: Health,
    /// Notifications received.
    pub notifications: u64,
    /// How often the kernel had to discard notifications.
    pub lost: u64,
    /// How often everything was read again, beside reconciliations.
    pub resyncs: u64,
    /// How often everything was read and compared without need.
    pub reconciliations: u64,
    /// What these found different.
    pub drift: u64,
    /// Messages that could not be understood.
    pub malformed: u64,
    /// The size of the buffer for notifications, in bytes.
    pub buffer: u64,
}

#[derive(Default)]
struct Shared {
    health: AtomicU8,
    stop: AtomicBool,
    repeat: AtomicBool,
    notifications: AtomicU64,
    lost: AtomicU64,
    resyncs: AtomicU64,
    reconciliations: AtomicU64,
    drift: AtomicU64,
    malformed: AtomicU64,
    buffer: AtomicU64,
}

impl Shared {
    fn set_health(&self, health: Health) {
        self.health.store(health as u8, Relaxed);
    }
    fn health(&self) -> Health {
        match self.health.load(Relaxed) {
            0 => Health::Reading,
            1 => Health::InStep,
            2 => Health::Gone,
            _ => Health::Failing,
        }
    }
}

/// A namespace that is followed until this is dropped.
pub struct Follower {
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
    bell: File,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Enters the namespace and starts to follow it.
    ///
    /// # Errors
    /// The namespace cannot be entered, or no socket can be opened in it.
    pub fn start(options: Options, consumer: Box<dyn Consumer>) -> Result<Self, Error> {
        // A pipe: a process that has given up its rights may make no further sockets.
        let ends = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).map_err(|e| Error::Socket(e.into()))?;
        let (heard, bell) = (File::from(ends.0), File::from(ends.1));
        let shared = Arc::new(Shared::default());
        let state = Arc::new(Mutex::new(State::new(&options.tables)));
        let (started, result) = sync_channel(1);
        let (its_shared, its_state) = (Arc::clone(&shared), Arc::clone(&state));
        let account = accounts::inherit();
        let thread = std::thread::Builder::new()
            .name("netlink".into())
            .spawn(move || {
                let _account = account.enter();
                run(options, consumer, its_shared, its_state, heard, &started);
            })
            .map_err(Error::Thread)?;
        let follower = Self { shared, state, bell, thread: Some(thread) };
        match result.recv() {
            Ok(Ok(())) => Ok(follower),
            Ok(Err(e)) => Err(e),
            Err(_) => Err(Error::Thread(io::Error::other("it ended at once"))),
        }
    }

    fn ring(&self) {
        // If its buffer is full, it is rung.
        let _ = (&self.bell).write(&[0]);
    }

    /// Has the consumer brought into step with everything once more.
    pub fn repeat(&self) {
        self.shared.repeat.store(true, Relaxed);
        self.ring();
    }

    /// How it does.
    #[must_use]
    pub fn status(&self) -> Status {
        let s = &self.shared;
        Status {
            health: s.health(),
            notifications: s.notifications.load(Relaxed),
            lost: s.lost.load(Relaxed),
            resyncs: s.resyncs.load(Relaxed),
            reconciliations: s.reconciliations.load(Relaxed),
            drift: s.drift.load(Relaxed),
            malformed: s.malformed.load(Relaxed),
            buffer: s.buffer.load(Relaxed),
        }
    }

    /// Looks at what is known. The follower waits meanwhile.
    pub fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().ignore_poison())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.ring();
        if let Some(thread) = self.thread.take() {
            // If it panicked, its report is printed already.
            let _ = thread.join();
        }
    }
}

/// How often it is checked whether a namespace still has its name; and how soon a name that has come back is
/// noticed.
const LOOK: Duration = Duration::from_millis(200);
/// The time between attempts to open sockets, or to read lists that the kernel refused.
const RETRY: Duration = Duration::from_secs(1);
/// How long after a change that the kernel makes without telling everything is read again: such changes come
/// in groups.
const SETTLE: Duration = Duration::from_millis(20);
/// How long after a comparison that has found a difference the next one confirms it.
const CONFIRM: Duration = Duration::from_millis(100);
/// The longest time for which notifications are taken in before they are passed on.
const GATHER: Duration = Duration::from_millis(10);
/// The most notifications during one reading of everything; if there are more, it is read again.
const MAX_QUEUE: usize = 1 << 17;
/// The most readings in a row for one reconciliation, if the lists change while they are read.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// At the start, after a loss, or because the kernel changes things without telling.
    Needed,
    Reconcile,
}

/// Everything being read.
struct Reading {
    reason: Reason,
    fresh: State,
    /// The lists that are still to be read, the next one last.
    lists: Vec<List>,
    now: Option<(List, u32)>,
    /// What was notified meanwhile.
    queue: Vec<Event>,
    /// Whether it is of no use: a list changed while it was written, or notifications were lost.
    spoiled: bool,
    started: Instant,
    attempt: u32,
}

/// What a comparison has found different, and the next one is to confirm.
struct Suspects {
    routes: HashSet<Prefix>,
    others: bool,
}

struct Thread {
    options: Options,
    consumer: Box<dyn Consumer>,
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
    bell: File,
    home: Home,
    sockets: Option<Sockets>,
    identity: Option<(u64, u64)>,
    reading: Option<Reading>,
    suspects: Option<Suspects>,
    /// When everything is to be read because that is needed.
    read_at: Option<Instant>,
    reconcile_at: Option<Instant>,
    look_at: Instant,
    open_at: Instant,
    /// Whether everything has been read since the sockets were opened.
    complete: bool,
    /// Whether notifications were lost and the socket has not been empty since: until then the kernel
    /// discards further ones without an error, so that nothing that is read now is of use.
    congested: bool,
    /// Whether the last look at the notifications has taken all of them.
    drained: bool,
    /// How long the last reading took.
    took: Duration,
    told_malformed: bool,
    told_buffer: bool,
    told_refused: bool,
}

fn run(
    options: Options,
    consumer: Box<dyn Consumer>,
    shared: Arc<Shared>,
    state: Arc<Mutex<State>>,
    bell: File,
    started: &SyncSender<Result<(), Error>>,
) {
    let now = Instant::now();
    let home = match Home::here() {
        Ok(home) => home,
        Err(e) => return drop(started.send(Err(e))),
    };
    let mut thread = Thread {
        options,
        consumer,
        shared,
        state,
        bell,
        home,
        sockets: None,
        identity: None,
        reading: None,
        suspects: None,
        read_at: None,
        reconcile_at: None,
        look_at: now,
        open_at: now,
        complete: false,
        congested: false,
        drained: false,
        took: Duration::ZERO,
        told_malformed: false,
        told_buffer: false,
        told_refused: false,
    };
    let opened = thread.open();
    let failed = opened.is_err();
    // Whoever started this has gone if nobody listens.
    if started.send(opened).is_err() || failed {
        return;
    }
    while !thread.shared.stop.load(Relaxed) {
        thread.turn();
    }
    thread.let_go();
}

impl Thread {
    fn open(&mut self) -> Result<(), Error> {
        // Asked before, so that a namespace that is replaced in between is noticed.
        self.identity = self.options.namespace.identity();
        let sockets = match take_prepared(&self.options.namespace) {
            Some(sockets) => sockets,
            None => {
                self.options.namespace.enter()?;
                Sockets::open(self.options.buffer).inspect_err(|_| self.home.return_to())?
            }
        };
        self.shared.buffer.store(sockets.buffer as u64, Relaxed);
        if sockets.buffer < self.options.buffer && !self.told_buffer {
            self.told_buffer = true;
            self.consumer.warn(&format!(
                "netlink: the buffer for notifications has {} bytes where {} are wanted: give the router the \
                 capability CAP_NET_ADMIN, or raise net.core.rmem_max",
                sockets.buffer, self.options.buffer
            ));
        }
        self.sockets = Some(sockets);
        self.complete = false;
        self.congested = false;
        self.read_at = Some(Instant::now());
        self.shared.set_health(Health::Reading);
        Ok(())
    }

    fn let_go(&mut self) {
        if let Some(sockets) = self.sockets.take() {
            sockets.put_back(self.options.namespace.clone());
        }
    }

    /// Leaves the namespace. `keep`: what is known of it stays until it can be read again.
    fn close(&mut self, keep: bool) {
        self.let_go();
        (self.reading, self.suspects) = (None, None);
        (self.read_at, self.reconcile_at) = (None, None);
        self.complete = false;
        self.open_at = Instant::now() + if keep { RETRY } else { Duration::ZERO };
        self.home.return_to();
        if !keep {
            let mut state = self.state.lock().ignore_poison();
            *state = State::new(&self.options.tables);
            self.consumer.changed(&state, Changes::All);
        }
    }

    fn turn(&mut self) {
        let now = Instant::now();
        let named = self.options.namespace != Namespace::Own;
        if named && now >= self.look_at {
            self.look_at = now + LOOK;
            let there = self.options.namespace.identity();
            if self.sockets.is_some() && there != self.identity {
                self.consumer
                    .warn(&format!("netlink: {} is gone; its routes are removed", self.options.namespace));
                self.close(false);
                self.shared.set_health(Health::Gone);
            }
        }
        if self.sockets.is_none() && now >= self.open_at {
            if named && self.options.namespace.identity().is_none() {
                self.shared.set_health(Health::Gone);
                self.open_at = now + LOOK;
            } else if let Err(e) = self.open() {
                self.open_at = now + RETRY;
                if self.shared.health() != Health::Failing {
                    self.shared.set_health(Health::Failing);
                    self.consumer.warn(&format!("netlink: {e}"));
                }
            }
        }
        if self.reading.is_none() && self.sockets.is_some() && !self.congested {
            if self.read_at.is_some_and(|at| now >= at) {
                self.read_at = None;
                self.begin(Reason::Needed, 1);
            } else if self.read_at.is_none() && self.reconcile_at.is_some_and(|at| now >= at) {
                self.begin(Reason::Reconcile, 1);
            }
        }
        self.rest();
        let mut rung = [0; 64];
        while matches!(self.bell.read(&mut rung), Ok(1..)) {}
        self.take_notifications();
        self.take_answers();
        self.deliver();
    }

    /// Waits until there is something to do.
    fn rest(&mut self) {
        let now = Instant::now();
        let mut next = now + Duration::from_secs(30);
        if self.sockets.is_none() {
            next = next.min(self.open_at);
        } else if self.reading.is_none() {
            let due = [self.read_at, self.reconcile_at];
            next = due.into_iter().flatten().fold(next, Instant::min);
        }
        if self.options.namespace != Namespace::Own {
            next = next.min(self.look_at);
        }
        let time = next.saturating_duration_since(now);
        match &self.sockets {
            Some(s) => wait(&[&self.bell as &dyn AsFd, &s.notifications, &s.requests], time),
            None => wait(&[&self.bell], time),
        }
    }

    fn malformed(&mut self) {
        self.shared.malformed.fetch_add(1, Relaxed);
        if !std::mem::replace(&mut self.told_malformed, true) {
            self.consumer.warn("netlink: a message of the kernel could not be understood and is left out");
        }
    }

    fn take_notifications(&mut self) {
        self.drained = false;
        let end = Instant::now() + GATHER;
        let state = Arc::clone(&self.state);
        let mut state = state.lock().ignore_poison();
        let mut malformed = 0;
        while let Some(sockets) = &mut self.sockets {
            match sockets.notification() {
                Heard::Datagram => {}
                Heard::Nothing => {
                    self.drained = true;
                    if std::mem::take(&mut self.congested) && self.reading.is_none() {
                        self.read_at = Some(Instant::now());
                    }
                    break;
                }
                Heard::Lost => {
                    self.shared.lost.fetch_add(1, Relaxed);
                    self.shared.set_health(Health::Reading);
                    self.congested = true;
                    if let Some(reading) = &mut self.reading {
                        // What it finds different is no surprise now.
                        (reading.spoiled, reading.reason) = (true, Reason::Needed);
                    }
                    continue;
                }
                Heard::Broken => {
                    drop(state);
                    self.close(true);
                    self.shared.set_health(Health::Failing);
                    return;
                }
            }
            for received in messages(&sockets.datagram) {
                match received.message {
                    Message::Event(event) => {
                        self.shared.notifications.fetch_add(1, Relaxed);
                        if let Some(reading) = &mut self.reading {
                            if reading.queue.len() < MAX_QUEUE {
                                reading.queue.push(event.clone());
                            } else {
                                reading.spoiled = true;
                            }
                        }
                        state.apply(event);
                    }
                    Message::Malformed => malformed += 1,
                    _ => {}
                }
            }
            if Instant::now() >= end {
                break;
            }
        }
        if state.take_silent() && self.complete {
            if let Some(reading) = &mut self.reading {
                // It may find routes missing that the kernel has just removed.
                reading.reason = Reason::Needed;
            }
            // Not too often where interfaces go up and down all the time.
            let soon = Instant::now() + SETTLE.max(self.took * 2);
            self.read_at = Some(self.read_at.map_or(soon, |at| at.min(soon)));
        }
        drop(state);
        (0..malformed).for_each(|_| self.malformed());
    }

    /// Starts to read everything.
    fn begin(&mut self, reason: Reason, attempt: u32) {
        let mut lists = vec![List::Links, List::Addresses, List::Objects];
        lists.extend(self.options.tables.iter().map(|t| List::Routes(*t)));
        lists.push(List::Neighbors);
        lists.reverse();
        self.reading = Some(Reading {
            reason,
            fresh: State::new(&self.options.tables),
            lists,
            now: None,
            queue: Vec::new(),
            spoiled: false,
            started: Instant::now(),
            attempt,
        });
        self.next_list();
    }

    fn next_list(&mut self) {
        let (Some(sockets), Some(reading)) = (&mut self.sockets, &mut self.reading) else { return };
        match reading.lists.pop() {
            Some(list) => match sockets.ask(list) {
                Ok(sequence) => reading.now = Some((list, sequence)),
                Err(cause) => self.refused(Error::Refused { what: list.what(), cause }),
            },
            None => self.finish(),
        }
    }

    /// The kernel does not give a list: everything is closed and tried again later.
    fn refused(&mut self, error: Error) {
        if !std::mem::replace(&mut self.told_refused, true) {
            self.consumer.warn(&format!("netlink: {error}"));
        }
        self.close(true);
        self.shared.set_health(Health::Failing);
    }

    fn take_answers(&mut self) {
        while let Some(sockets) = &mut self.sockets {
            match sockets.answer() {
                Heard::Datagram => {}
                Heard::Nothing | Heard::Lost => return,
                Heard::Broken => {
                    self.close(true);
                    return self.shared.set_health(Health::Failing);
                }
            }
            let Some(reading) = &mut self.reading else { continue };
            let Some((list, sequence)) = reading.now else { continue };
            let (mut ended, mut malformed) = (None, 0);
            for received in messages(&sockets.datagram) {
                if received.sequence != sequence {
                    continue;
                }
                reading.spoiled |= received.interrupted;
                match received.message {
                    Message::Event(event) => reading.fresh.apply(event),
                    Message::Done => ended = Some(0),
                    Message::Refused(code) => ended = Some(code),
                    Message::Malformed => malformed += 1,
                    Message::Other => {}
                }
            }
            (0..malformed).for_each(|_| self.malformed());
            match (ended, list) {
                (None, _) => {}
                // A table without routes may not exist; kernels before 5.3 have no next-hop objects.
                (Some(0), _) | (Some(_), List::Objects) | (Some(NO_ENTRY), List::Routes(_)) => {
                    self.next_list();
                }
                (Some(code), list) => {
                    let cause = io::Error::from_raw_os_error(code);
                    return self.refused(Error::Refused { what: list.what(), cause });
                }
            }
            // A long list must not delay notifications.
            self.take_notifications();
            self.deliver();
        }
    }

    /// Everything has been read.
    fn finish(&mut self) {
        // What is notified before the last answer is in the queue then. The kernel changes its table before
        // it notifies, so a comparison waits for the notifications of what the list has already.
        self.take_notifications();
        while !self.drained && self.sockets.is_some() && !self.shared.stop.load(Relaxed) {
            self.deliver();
            self.take_notifications();
        }
        if self.reading.as_ref().is_some_and(|r| r.reason == Reason::Reconcile) {
            let end = Instant::now() + SETTLE;
            while let (Some(sockets), left @ 1..) =
                (&self.sockets, end.saturating_duration_since(Instant::now()).as_millis())
            {
                wait(&[&sockets.notifications], Duration::from_millis(left as u64));
                self.take_notifications();
                self.deliver();
            }
        }
        let Some(Reading { reason, mut fresh, queue, spoiled, started, attempt, .. }) = self.reading.take()
        else {
            return;
        };
        self.took = started.elapsed();
        if self.congested {
            // It is read again when the socket has been empty.
            return;
        }
        if spoiled {
            let more = attempt < ATTEMPTS;
            match reason {
                Reason::Reconcile if !more => self.reconcile_at = self.next_reconciliation(),
                Reason::Needed if !more => self.read_at = Some(Instant::now() + self.took.max(SETTLE)),
                reason => self.begin(reason, attempt + 1),
            }
            return;
        }
        let touched: HashSet<Prefix> = queue.iter().filter_map(State::route_of).collect();
        let quiet = queue.is_empty();
        for event in queue {
            fresh.apply(event);
        }
        let again = fresh.take_silent() && !quiet;
        // So that the consumer differs from the state only where it is wrong.
        self.deliver();
        let mut state = self.state.lock().ignore_poison();
        let difference = state.difference(&fresh);
        let (mut drift, mut explained) = (0, None);
        let mut what = String::new();
        let suspects = self.suspects.take();
        if reason == Reason::Reconcile {
            // What changed meanwhile may be in one and not yet in the other, and routes that cannot be used
            // may be gone silently.
            let wrong = |p: &&Prefix| !touched.contains(p) && state.resolve(**p) != fresh.resolve(**p);
            let wrong: HashSet<Prefix> = difference.routes.iter().filter(wrong).copied().collect();
            let others = if quiet { difference.others } else { 0 };
            if let Some(suspects) = suspects {
                let mut still = wrong.intersection(&suspects.routes);
                drift = still.clone().count() as u64 + if suspects.others { others as u64 } else { 0 };
                let first = still.next().map_or_else(String::new, |first| format!("{first}; "));
                what = format!(" ({first}{})", difference.kinds);
            } else if !wrong.is_empty() || others > 0 {
                // The kernel changes its table before it notifies, and whoever has it changed may have to
                // wait for a processor in between. What differs the next time too is wrong.
                self.suspects = Some(Suspects { routes: wrong, others: others > 0 });
                self.reconcile_at = Some(Instant::now() + CONFIRM);
                return;
            }
            self.shared.reconciliations.fetch_add(1, Relaxed);
            explained = (quiet || difference.others == 0).then_some(difference.routes.len() as u64);
        } else if std::mem::replace(&mut self.complete, true) {
            self.shared.resyncs.fetch_add(1, Relaxed);
        }
        state.become_like(fresh, difference);
        // All of it goes to the consumer now, so there are no other changes.
        drop(state.take_dirt());
        let found = self.consumer.changed(&state, Changes::All);
        drop(state);
        if let Some(explained) = explained {
            drift += found.saturating_sub(explained);
        }
        if drift > 0 {
            self.shared.drift.fetch_add(drift, Relaxed);
            self.consumer.warn(&format!(
                "netlink: {drift} routes or interfaces of {} were not as the kernel has them, and are now{what}",
                self.options.namespace
            ));
        }
        self.told_refused = false;
        if again {
            self.read_at = Some(Instant::now() + SETTLE.max(self.took * 2));
        } else {
            // Other reasons to read again come from notifications.
            self.shared.set_health(Health::InStep);
        }
        self.reconcile_at = self.next_reconciliation();
    }

    fn next_reconciliation(&self) -> Option<Instant> {
        let every = self.options.reconcile;
        (!every.is_zero()).then(|| Instant::now() + every)
    }

    /// Passes changes on.
    fn deliver(&mut self) {
        if !self.complete {
            return;
        }
        let mut state = self.state.lock().ignore_poison();
        if self.shared.repeat.swap(false, Relaxed) {
            drop(state.take_dirt());
            self.consumer.changed(&state, Changes::All);
        }
        if state.is_dirty() {
            let dirt = state.take_dirt();
            let changes =
                Changes::Some { routes: &dirt.routes, neighbors: &dirt.neighbors, links: dirt.links };
            self.consumer.changed(&state, changes);
        }
    }
}

/// ENOENT.
const NO_ENTRY: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    struct Ear(std::sync::mpsc::Sender<String>);

    impl Consumer for Ear {
        fn changed(&mut self, state: &State, changes: Changes<'_>) -> u64 {
            let links: Vec<&str> = state.links().values().map(|l| l.name.as_str()).collect();
            let _ = self.0.send(format!("{} {}", matches!(changes, Changes::All), links.join(",")));
            0
        }
        fn warn(&mut self, _: &str) {}
    }

    fn start(namespace: Namespace) -> (Result<Follower, Error>, Receiver<String>) {
        let (ear, heard) = channel();
        let options = Options { namespace, tables: vec![254], buffer: 1 << 16, reconcile: Duration::ZERO };
        (Follower::start(options, Box::new(Ear(ear))), heard)
    }

    #[test]
    fn this_namespace_is_read_and_repeated() {
        let (follower, heard) = start(Namespace::Own);
        let follower = follower.unwrap();
        let first = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(first.starts_with("true ") && first.contains("lo"), "{first}");
        while follower.status().health != Health::InStep {
            std::thread::sleep(Duration::from_millis(1));
        }
        follower.repeat();
        let again = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(again.contains("lo"), "{again}");
        assert!(follower.with_state(|s| s.links().values().any(|l| l.name == "lo")));
        drop(follower);
        // The consumer is gone with its thread.
        while heard.recv().is_ok() {}
    }

    #[test]
    fn a_namespace_that_is_not_there_is_an_error() {
        let (follower, _) = start(Namespace::named("valiant-no-such-namespace").unwrap());
        assert!(matches!(follower.err(), Some(Error::NoNamespace(_))));
    }
}
