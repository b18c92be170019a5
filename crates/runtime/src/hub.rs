//! State that all workers of a router and its control thread share.

use crate::access::{Access, Admit};
use crate::allow::{self, Allow, Outside, Refused, Socket};
use crate::limits::{Bounds, Limits};
use dpdk::{Batch, Bell};
use locks::IgnorePoison;
use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::thread::Thread;
use std::time::Duration;
use tracing::Level;

/// A sample of a dropped packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSample {
    /// The element that dropped it.
    pub element: String,
    /// Why.
    pub reason: &'static str,
    /// The packet from its first byte.
    pub data: Vec<u8>,
    /// When, in nanoseconds since the epoch.
    pub at_ns: u64,
}

/// A worker that does not finish its batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its number.
    pub worker: usize,
    /// The element that it runs, with its class.
    pub element: String,
    /// For how long.
    pub time: Duration,
}

/// Packets that one worker hands to an element that runs on another.
pub(crate) struct Handed {
    pub(crate) element: Arc<str>,
    pub(crate) port: usize,
    pub(crate) batch: Batch,
}

/// The inbox of a worker, which reads it in each round.
#[repr(align(128))]
struct Inbox {
    batches: SyncSender<Handed>,
    /// The worker's thread, if it has one.
    thread: OnceLock<Thread>,
    /// What wakes it when it waits for descriptors.
    bell: OnceLock<Arc<Bell>>,
    /// Whether it may contain something.
    filled: AtomicBool,
    /// Whether the worker is asleep, or about to be.
    asleep: AtomicBool,
    /// Tells the thread that runs many workers that this one's inbox has something.
    announce: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Inbox {
    /// Makes the worker check it; wakes the worker if it sleeps.
    fn call(&self) {
        if let Some(announce) = self.announce.get() {
            if !self.filled.swap(true, Ordering::AcqRel) {
                announce();
            }
            return;
        }
        self.filled.store(true, Ordering::Release);
        // Pairs with the fence in `falls_asleep`: either the worker sees the packets, or this sees that it
        // sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            self.asleep.store(false, Ordering::Relaxed);
            thread.unpark();
            if let Some(bell) = self.bell.get() {
                bell.ring();
            }
        }
    }
}

/// How many batches may wait between workers.
const HANDOFF_VECTORS: usize = 1024;

/// How many names of removed elements are remembered, with a reason each, for packets that were lost with
/// them; further ones are counted under `-`.
const REMOVED_NAMES: usize = 1024;

/// How many handler calls of elements may wait for the control thread.
const MAX_WRITES: usize = 1024;

/// The signals that end a router in order, unless an element claims them: HUP, INT and TERM.
pub const STOP_SIGNALS: [i32; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

thread_local! {
    /// The place in the program that is logging on this thread.
    static PLACE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// The place in the program that is logging on this thread with [`Hub::log`]: what distinguishes messages of
/// an element, all of which are events of one call site.
#[must_use]
pub fn log_place() -> Option<&'static Location<'static>> {
    PLACE.get()
}

type Listener = Box<dyn Fn(&str) -> bool + Send>;

/// The listeners of printed lines.
struct Channel {
    name: String,
    quiet: bool,
    listeners: Vec<Listener>,
}

/// Ends the sessions of clients; see [`Hub::on_revoke`].
pub type Sessions = Box<dyn Fn() -> bool + Send + Sync>;

/// The connection between data path and control thread: stop requests, printed lines, drop samples.
#[derive(Default)]
pub struct Hub {
    stops: AtomicI64,
    /// Whether nothing is printed when a handler refuses what an element has written.
    quiet_calls: AtomicBool,
    /// Arguments that workers have changed by handlers: element, position, keyword, value.
    changed: Mutex<BTreeMap<(String, usize, &'static str), String>>,
    /// Warnings of the handler that the control thread calls.
    warnings: Mutex<Vec<String>>,
    /// Hot swaps so far.
    generation: AtomicU64,
    /// Signals that elements handle, and how many of them do.
    claimed: Mutex<BTreeMap<i32, usize>>,
    /// The operation that the control thread waits for, if it takes long.
    waits_for: Mutex<String>,
    failed: AtomicBool,
    /// Why, if it has.
    failure: OnceLock<String>,
    tapped: AtomicBool,
    tap: Mutex<Option<SyncSender<DropSample>>>,
    /// Samples that were lost because the queue was full.
    pub tap_overruns: AtomicU64,
    channels: Mutex<Vec<Channel>>,
    /// Whether the default channel may have listeners.
    has_listeners: AtomicBool,
    bell: (Mutex<bool>, Condvar),
    /// Wakes a thread that drives several routers.
    outer_bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Packets that were in transit between workers when a hot swap removed their element.
    strays: AtomicU64,
    /// Packets that were in an element when a hot swap removed it, and those that it had dropped before, by
    /// its name and the reason.
    removed: Mutex<BTreeMap<(String, &'static str), u64>>,
    /// The workers that the watchdog has found stuck, and the names that it uses for the elements.
    pub(crate) stuck: Mutex<Vec<Stuck>>,
    pub(crate) names: Mutex<Vec<String>>,
    inboxes: Vec<Inbox>,
    bounds: OnceLock<Bounds>,
    allow: Mutex<Option<Arc<Allow>>>,
    sessions: Mutex<Vec<Sessions>>,
    /// Control sockets that can have other access, by their addresses.
    admits: Mutex<Vec<(Socket, Admit)>>,
    writes: Mutex<VecDeque<Write>>,
    lost_writes: AtomicU64,
    resources: Mutex<HashMap<String, Weak<dyn Any + Send + Sync>>>,
}

/// A request of an element on a worker to write a handler on all workers.
pub(crate) struct Write {
    /// The element that asks.
    pub(crate) from: String,
    /// `element.handler`, or `.handler` for a global one.
    pub(crate) handler: String,
    pub(crate) value: String,
}

impl Hub {
    /// A hub for a number of workers, and each one's inbox.
    pub(crate) fn new(workers: usize) -> (Self, Vec<Receiver<Handed>>) {
        let (inboxes, receivers) = (0..workers)
            .map(|_| sync_channel(HANDOFF_VECTORS))
            .map(|(batches, r)| {
                (
                    Inbox {
                        batches,
                        thread: OnceLock::new(),
                        bell: OnceLock::new(),
                        filled: AtomicBool::default(),
                        asleep: AtomicBool::default(),
                        announce: OnceLock::new(),
                    },
                    r,
                )
            })
            .unzip();
        (Self { inboxes, ..Self::default() }, receivers)
    }
    /// The most that the router may have, before it is made.
    pub(crate) fn limit(&self, limits: &Limits) {
        // A router is made once.
        let _ = self.bounds.set(Bounds::new(limits));
        self.set_allow(limits);
    }
    /// Has handlers refuse in silence what elements write, as Click's do.
    pub(crate) fn set_quiet_calls(&self) {
        self.quiet_calls.store(true, Ordering::Release);
    }
    /// Reports that a handler which an element has called has failed: an element has nobody to tell.
    #[track_caller]
    pub fn call_failed(&self, from: &str, reason: &dyn std::fmt::Display) {
        if !self.quiet_calls.load(Ordering::Acquire) {
            self.log(Level::WARN, from, &format!("{from}: {reason}"));
        }
    }
    /// Changes what the program may name; what is open stays.
    pub(crate) fn set_allow(&self, limits: &Limits) {
        self.allow.lock().ignore_poison().clone_from(&limits.allow);
    }
    fn allow(&self) -> Option<Arc<Allow>> {
        self.allow.lock().ignore_poison().clone()
    }
    /// Whether the program may name this outside the router.
    ///
    /// # Errors
    /// It may not.
    pub fn permits(&self, what: Outside<'_>) -> Result<(), Refused> {
        self.allow().map_or(Ok(()), |allow| allow.permits(what))
    }
    /// Has `end` called when those who could connect to the router may do so no more: it ends their sessions,
    /// and returns whether there can be others later.
    pub fn on_revoke(&self, end: Sessions) {
        let mut sessions = self.sessions.lock().ignore_poison();
        sessions.push(end);
    }
    /// Ends all sessions of clients; who may connects again.
    pub fn end_sessions(&self) {
        self.sessions.lock().ignore_poison().retain(|end| end());
    }
    /// Has `admit` called when the control socket at this address is to have access over TCP too, or no more.
    pub fn on_access(&self, socket: Socket, admit: Admit) {
        let mut admits = self.admits.lock().ignore_poison();
        admits.push((socket, admit));
    }
    /// Gives the control socket at this address access over TCP too, in place of what it had; sessions of the
    /// former one end. Returns whether there is such a socket.
    pub fn set_access(&self, socket: &Socket, access: Option<Access>) -> bool {
        let mut access = Some(access);
        let mut given = false;
        self.admits.lock().ignore_poison().retain(|(known, admit)| {
            if known != socket {
                return true;
            }
            let Some(access) = access.take() else { return false };
            given = admit(access);
            given
        });
        given
    }
    /// Opens a file that the program has named, with the flags of open(2).
    ///
    /// # Errors
    /// It cannot be opened, or the program may not name it.
    pub fn open(&self, path: &str, flags: nix::fcntl::OFlag) -> std::io::Result<std::fs::File> {
        allow::open_for(self.allow().as_deref(), path, flags)
    }
    /// What the router has used of what it may have.
    pub fn bounds(&self) -> &Bounds {
        self.bounds.get_or_init(Bounds::default)
    }
    /// Gives packets to another worker; those that do not fit into the ring stay in `batch`.
    pub(crate) fn hand_off(&self, worker: usize, element: &Arc<str>, port: usize, batch: &mut Batch) {
        let Some(inbox) = self.inboxes.get(worker) else { return };
        let handed = Handed { element: Arc::clone(element), port, batch: std::mem::take(batch) };
        if let Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) =
            inbox.batches.try_send(handed)
        {
            *batch = back.batch;
            return;
        }
        inbox.call();
    }
    /// Makes a worker check for work that was not sent over its inbox; wakes it if it sleeps.
    pub(crate) fn nudge(&self, worker: usize) {
        let Some(inbox) = self.inboxes.get(worker) else { return };
        inbox.call();
    }
    /// The same for work that can wait for a short sleep occasionally: costs one load while the worker is
    /// awake, but may miss that it is about to sleep.
    pub(crate) fn nudge_sleeper(&self, worker: usize) {
        if let Some(inbox) = self.inboxes.get(worker)
            && inbox.asleep.load(Ordering::Relaxed)
        {
            inbox.call();
        }
    }
    /// Declares that the calling thread runs this worker.
    pub(crate) fn runs(&self, worker: usize, bell: Option<Arc<Bell>>) {
        if let Some(inbox) = self.inboxes.get(worker) {
            // Set once: a worker has one thread.
            let _ = inbox.thread.set(std::thread::current());
            if let Some(bell) = bell {
                let _ = inbox.bell.set(bell);
            }
        }
    }
    /// Declares that a thread that runs many workers runs this one: `announce` is called when its inbox needs
    /// to be checked.
    pub(crate) fn announce(&self, worker: usize, announce: Box<dyn Fn() + Send + Sync>) {
        if let Some(inbox) = self.inboxes.get(worker) {
            inbox.asleep.store(true, Ordering::Relaxed);
            // A worker is taken in once.
            let _ = inbox.announce.set(announce);
        }
    }
    /// Whether a worker's inbox needs to be checked: something was put into it since the last call, or it was
    /// not emptied then ([`Hub::refilled`]). To check an empty inbox costs a memory fence, this costs a load.
    #[inline]
    pub(crate) fn filled(&self, worker: usize) -> bool {
        // Swapped, so that work that is put in from here on is seen.
        self.inboxes
            .get(worker)
            .is_some_and(|i| i.filled.load(Ordering::Relaxed) && i.filled.swap(false, Ordering::AcqRel))
    }
    /// Asks the processor to fetch what [`Hub::filled`] looks at.
    pub(crate) fn prefetch(&self, worker: usize) {
        self.inboxes.get(worker).into_iter().for_each(|inbox| dpdk::prefetch(&inbox.filled, 1));
    }
    /// Declares that there is more in a worker's inbox.
    pub(crate) fn refilled(&self, worker: usize) {
        if let Some(inbox) = self.inboxes.get(worker) {
            inbox.filled.store(true, Ordering::Relaxed);
        }
    }
    /// Declares that a worker is about to sleep. It must check its inbox once more before it does.
    pub(crate) fn falls_asleep(&self, worker: usize) {
        if let Some(inbox) = self.inboxes.get(worker) {
            inbox.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }
    /// Whether a worker has declared that it sleeps.
    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        self.inboxes.get(worker).is_some_and(|inbox| inbox.asleep.load(Ordering::Relaxed))
    }
    /// Declares that a worker is awake.
    pub(crate) fn wakes(&self, worker: usize) {
        if let Some(inbox) = self.inboxes.get(worker) {
            inbox.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Something that exists once in the process and outlives a hot swap, such as a listening socket: the one
    /// that is open under this key, or a new one. It is closed when its last user drops it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn resource<T: Send + Sync + 'static>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let mut resources = self.resources.lock().ignore_poison();
        if let Some(open) = resources.get(key).and_then(Weak::upgrade).and_then(|r| r.downcast().ok()) {
            return Ok(open);
        }
        let made = Arc::new(make()?);
        let any: Arc<dyn Any + Send + Sync> = made.clone();
        resources.retain(|_, r| r.strong_count() > 0);
        resources.insert(key.to_owned(), Arc::downgrade(&any));
        Ok(made)
    }

    /// Counts packets whose element a hot swap removed while they were on the way from another worker.
    pub(crate) fn count_strays(&self, packets: u64) {
        self.strays.fetch_add(packets, Ordering::Relaxed);
    }
    /// How many such packets there were.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    /// Counts packets that were in an element, or on the way to it, when a hot swap removed it, or that it
    /// had dropped before.
    pub(crate) fn count_removed(&self, element: &str, reason: &'static str, packets: u64) {
        if packets == 0 {
            return;
        }
        let mut removed = self.removed.lock().ignore_poison();
        // The number of names is limited, because they come from configurations and there could be any number
        // of them.
        let known = removed.len() < REMOVED_NAMES || removed.contains_key(&(element.to_owned(), reason));
        let name = if known { element } else { "-" };
        *removed.entry((name.to_owned(), reason)).or_default() += packets;
    }
    /// The packets lost with elements that hot swaps have removed: name, reason, packets; `-` for those in
    /// transit between workers.
    #[must_use]
    pub fn removed(&self) -> Vec<(String, &'static str, u64)> {
        let removed = self.removed.lock().ignore_poison();
        removed.iter().map(|((name, reason), n)| (name.clone(), *reason, *n)).collect()
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.inboxes.len()
    }
    /// Asks the control thread to write a handler. A worker that calls a handler for each packet is faster
    /// than the control thread; calls that do not fit into the queue are lost, which is counted and reported.
    pub(crate) fn post_write(&self, from: &str, handler: &str, value: &str) {
        let mut writes = self.writes.lock().ignore_poison();
        if writes.len() < MAX_WRITES {
            let write = Write { from: from.to_owned(), handler: handler.to_owned(), value: value.to_owned() };
            writes.push_back(write);
            drop(writes);
            return self.ring();
        }
        drop(writes);
        let lost = self.lost_writes.fetch_add(1, Ordering::Relaxed) + 1;
        // Reported at 1, 2, 4, 8...: often enough to be noticed, and never for each packet.
        if lost.is_power_of_two() {
            let message = format!(
                "{from}: '{handler}' is called faster than it can be written, calls lost so far: {lost}"
            );
            self.log(Level::WARN, from, &message);
        }
    }
    /// Counts handler calls that would never end, as each one causes the next.
    pub(crate) fn lose_writes(&self, from: &str, handler: &str, calls: u64) {
        self.lost_writes.fetch_add(calls, Ordering::Relaxed);
        let message = format!("{from}: '{handler}' is called without end, calls lost: {calls}");
        self.log(Level::WARN, from, &message);
    }
    /// Handler calls of elements that were lost because too many waited, or because they would never end.
    #[must_use]
    pub fn lost_writes(&self) -> u64 {
        self.lost_writes.load(Ordering::Relaxed)
    }
    /// Notes that a worker has changed an argument of an element by a handler.
    pub(crate) fn note_argument(&self, element: &str, argument: (usize, &'static str), value: &str) {
        let key = (element.to_owned(), argument.0, argument.1);
        self.changed.lock().ignore_poison().insert(key, value.to_owned());
    }
    /// Notes that a worker has given an element other arguments by a handler.
    pub(crate) fn note_arguments(&self, element: &str, arguments: &str) {
        let mut changed = self.changed.lock().ignore_poison();
        changed.retain(|(name, _, _), _| name != element);
        changed.insert((element.to_owned(), 0, ""), arguments.to_owned());
    }
    /// Leaves lines with warnings to whoever has called the handler that is running ([`Hub::take_warnings`]).
    pub(crate) fn warn_caller(&self, warnings: impl Iterator<Item = String>) {
        self.warnings.lock().ignore_poison().extend(warnings);
    }
    /// Takes the warnings of the handler that has just been called on the control thread.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().ignore_poison())
    }
    /// Takes what workers have noted. All arguments of an element, without a keyword, are before single ones.
    pub(crate) fn take_arguments(&self) -> BTreeMap<(String, usize, &'static str), String> {
        std::mem::take(&mut *self.changed.lock().ignore_poison())
    }
    /// Takes the next handler to be written.
    pub(crate) fn take_write(&self) -> Option<Write> {
        self.writes.lock().ignore_poison().pop_front()
    }

    /// Reports that a worker has failed, or that the router needs more than it may have: it cannot continue.
    pub fn fail(&self, what: &str) {
        self.log(Level::ERROR, "", what);
        // The first reason counts.
        let _ = self.failure.set(what.to_owned());
        self.failed.store(true, Ordering::Release);
        self.ring();
    }
    /// Whether a worker has failed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Why it has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// How often the configuration has been replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
    pub(crate) fn next_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
    /// Asks the driver to stop.
    pub fn request_stop(&self) {
        self.stops.fetch_add(1, Ordering::Release);
        self.ring();
    }
    /// How many stop requests are pending.
    #[must_use]
    pub fn stop_requests(&self) -> i64 {
        self.stops.load(Ordering::Acquire)
    }
    /// Takes one stop request; returns whether there was one.
    pub fn take_stop(&self) -> bool {
        self.stops.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n > 0).then_some(n - 1)).is_ok()
    }
    /// Declares that an element handles a signal: the driver ignores it until all such elements have released
    /// it.
    pub fn claim_signal(&self, signo: i32) {
        *self.claims().entry(signo).or_default() += 1;
    }
    /// Undoes [`Hub::claim_signal`].
    pub fn release_signal(&self, signo: i32) {
        if let Some(n) = self.claims().get_mut(&signo) {
            *n = n.saturating_sub(1);
        }
    }
    /// Whether an element handles a signal.
    #[must_use]
    pub fn signal_claimed(&self, signo: i32) -> bool {
        self.claims().get(&signo).is_some_and(|n| *n > 0)
    }
    fn claims(&self) -> MutexGuard<'_, BTreeMap<i32, usize>> {
        self.claimed.lock().ignore_poison()
    }
    /// Sets what the control thread waits for, to be shown if that takes long; empty: nothing.
    pub fn set_waits_for(&self, what: impl Into<String>) {
        *self.waits_for.lock().ignore_poison() = what.into();
    }
    /// What the control thread waits for, as text; empty: nothing in particular.
    #[must_use]
    pub fn waits_for(&self) -> String {
        self.waits_for.lock().ignore_poison().clone()
    }
    /// Wakes the control thread.
    pub fn ring(&self) {
        *self.bell.0.lock().ignore_poison() = true;
        self.bell.1.notify_all();
        if let Some(ring) = self.outer_bell.get() {
            ring();
        }
    }
    /// `ring` is also called whenever the control thread is to be woken: it drives several routers.
    pub fn also_ring(&self, ring: Box<dyn Fn() + Send + Sync>) {
        // A router is taken in once.
        let _ = self.outer_bell.set(ring);
    }
    /// Whether it was woken since the last call.
    pub(crate) fn rang(&self) -> bool {
        std::mem::take(&mut *self.bell.0.lock().ignore_poison())
    }
    /// Whether it was woken, without resetting that.
    pub(crate) fn is_rung(&self) -> bool {
        *self.bell.0.lock().ignore_poison()
    }
    /// Waits until it is woken, at most `limit`.
    pub fn wait(&self, limit: Duration) {
        let rung = self.bell.0.lock().ignore_poison();
        drop(self.bell.1.wait_timeout_while(rung, limit, |r| !*r).ignore_poison());
    }

    /// Logs a message of an element, or of the router itself if `element` is empty, for the user, and sends
    /// it to the listeners of the default channel. Output that is the purpose of an element, such as the
    /// lines of Print, is not a log: it belongs to [`Hub::chatter`].
    ///
    /// The rate of messages may be limited for each element and place in the program that calls this.
    #[track_caller]
    pub fn log(&self, level: Level, element: &str, message: &str) {
        macro_rules! event {
            ($level:ident) => {
                match element {
                    "" => tracing::event!(target: "router", Level::$level, "{message}"),
                    _ => tracing::event!(target: "element", Level::$level, element, "{message}"),
                }
            };
        }
        if !self.bounds().may_log() {
            return;
        }
        PLACE.set(Some(Location::caller()));
        match level {
            Level::ERROR => event!(ERROR),
            Level::WARN => event!(WARN),
            Level::INFO => event!(INFO),
            Level::DEBUG => event!(DEBUG),
            Level::TRACE => event!(TRACE),
        }
        PLACE.set(None);
        // Packets of an attacker may cause this: without a listener there is no lock.
        if !self.has_listeners.load(Ordering::Acquire) {
            return;
        }
        let mut channels = self.channels.lock().ignore_poison();
        if let Some(default) = channels.iter_mut().find(|c| c.name.is_empty()) {
            default.listeners.retain(|listener| listener(message));
            self.has_listeners.store(!default.listeners.is_empty(), Ordering::Release);
        }
    }
    /// Prints a line on standard error and sends it to the listeners of the default channel.
    pub fn chatter(&self, line: &str) {
        self.chatter_on("", line);
    }
    /// Sends a line to the listeners of a channel. For the default channel, whose name is empty, and for
    /// channels that are not quiet, the line is printed on standard error too.
    pub fn chatter_on(&self, channel: &str, line: &str) {
        if !self.bounds().may_log() {
            return;
        }
        let mut channels = self.channels.lock().ignore_poison();
        let Some(channel) = channels.iter_mut().find(|c| c.name == channel) else {
            if channel.is_empty() {
                print(line);
            }
            return;
        };
        if channel.name.is_empty() || !channel.quiet {
            print(line);
        }
        channel.listeners.retain(|listener| listener(line));
    }
    /// Adds a listener for [`Hub::chatter_on`]; it is removed when it returns false.
    pub fn listen_on(&self, channel: &str, listener: Listener) {
        self.channel(channel, |c| {
            c.listeners.push(listener);
            if c.name.is_empty() {
                self.has_listeners.store(true, Ordering::Release);
            }
        });
    }
    /// Whether a channel's lines are not printed on standard error; those of the default channel always are.
    pub fn set_channel_quiet(&self, channel: &str, quiet: bool) {
        self.channel(channel, |c| c.quiet = quiet);
    }
    fn channel<R>(&self, name: &str, f: impl FnOnce(&mut Channel) -> R) -> R {
        let mut channels = self.channels.lock().ignore_poison();
        let at = channels.iter().position(|c| c.name == name).unwrap_or_else(|| {
            channels.push(Channel { name: name.to_owned(), quiet: true, listeners: Vec::new() });
            channels.len() - 1
        });
        f(&mut channels[at])
    }
    /// Adds a listener for [`Hub::chatter`].
    pub fn listen(&self, listener: Box<dyn Fn(&str) + Send>) {
        self.listen_on(
            "",
            Box::new(move |line| {
                listener(line);
                true
            }),
        );
    }

    /// Sends a copy of every packet dropped from now on to `tap`, as long as `tap` is fast enough; `None`
    /// ends that.
    pub fn set_tap(&self, tap: Option<SyncSender<DropSample>>) {
        let mut place = self.tap.lock().ignore_poison();
        self.tapped.store(tap.is_some(), Ordering::Relaxed);
        *place = tap;
    }
    #[inline]
    pub(crate) fn tapped(&self) -> bool {
        self.tapped.load(Ordering::Relaxed)
    }
    pub(crate) fn tap(&self, element: &str, reason: &'static str, data: &[u8], at_ns: u64) {
        // A sampler must not hold up the data path: if the lock or the queue is not free, the sample is lost.
        let Ok(mut tap) = self.tap.try_lock() else {
            self.tap_overruns.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let Some(sender) = tap.as_ref() else { return };
        match sender.try_send(DropSample { element: element.to_owned(), reason, data: data.to_vec(), at_ns })
        {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.tap_overruns.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => {
                *tap = None;
                self.tapped.store(false, Ordering::Relaxed);
            }
        }
    }
}

/// Prints a line on standard error. If that is gone, as a pipe whose reader has ended, the line is lost, and
/// the router goes on.
fn print(line: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_listeners_takes_no_lock() {
        let hub = Hub::default();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let held = hub.channels.lock().ignore_poison();
        // If this took the lock, it would not return.
        hub.log(Level::WARN, "e", "unheard");
        drop(held);
        let all = Arc::clone(&heard);
        hub.listen_on(
            "",
            Box::new(move |line| {
                all.lock().ignore_poison().push(line.to_owned());
                line != "last"
            }),
        );
        for line in ["first", "last", "too late"] {
            hub.log(Level::WARN, "e", line);
        }
        assert_eq!(*heard.lock().ignore_poison(), ["first", "last"]);
        let _held = hub.channels.lock().ignore_poison();
        hub.log(Level::WARN, "e", "unheard again");
    }
}
