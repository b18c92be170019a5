//! A node's part of the protocol between nodes, shared by its elements: its ends of the links and its copy of
//! the routes.
//!
//! Workers take the lock of the links for each control frame and each run of the timers, never for packets.
//! They never wait for the lock of the routes, which a long listing may hold: a message with routes that
//! arrives meanwhile is dropped and is sent again by the neighbor.

use super::identity::Identity;
use super::outages::Outages;
use cluster::control::{Control, Received};
use cluster::hello::{Neighbor, Settings};
use cluster::routes::{MAX_ROUTES, Replica, Summary};
use cluster::{Error, Key, NodeId};
use locks::IgnorePoison;
use runtime::Hub;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

/// The most pieces of the route table that one run of a link's timer sends.
const PIECES: usize = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().ignore_poison()
}

/// The state of a link that the data path reads, and the name by which its element can be called.
#[derive(Debug)]
pub(in crate::cluster) struct LinkState {
    ready: AtomicBool,
    up: AtomicBool,
    /// The element's name.
    name: String,
    /// Whether the element's timer has been asked to run now, and has not run yet.
    asked: AtomicBool,
}

impl LinkState {
    /// The state of a link that is down.
    pub(in crate::cluster) fn new(name: &str) -> Self {
        let no = || AtomicBool::new(false);
        Self { ready: no(), up: no(), name: name.to_owned(), asked: no() }
    }
    /// The name of the link's element.
    pub(in crate::cluster) fn name(&self) -> &str {
        &self.name
    }
    /// Whether packets from the neighbor are accepted.
    #[inline]
    pub(in crate::cluster) fn ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
    /// Whether packets may be sent to the neighbor.
    #[inline]
    pub(in crate::cluster) fn up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
    fn set(&self, ready: bool, up: bool) {
        self.ready.store(ready, Ordering::Relaxed);
        self.up.store(up, Ordering::Relaxed);
    }
    /// Continues with the state that the link had in the previous configuration.
    pub(in crate::cluster) fn take_over(&self, old: &Self) {
        self.set(old.ready(), old.up());
    }
}

/// The link end that is meant, and where changes are reported.
pub(in crate::cluster) struct End<'a> {
    pub(in crate::cluster) peer: NodeId,
    pub(in crate::cluster) link: &'a LinkState,
    pub(in crate::cluster) outages: &'a Outages,
    pub(in crate::cluster) hub: &'a Hub,
}

/// The links and routes of a node.
pub struct Fabric {
    key: Key,
    control: Mutex<Control>,
    routes: Mutex<Replica>,
    /// A copy of the routes' digest, for use while the routes are locked.
    digest: AtomicU64,
    clock: AtomicU64,
    /// Whether there are changes of routes that the routing table does not have yet.
    changed: AtomicBool,
    /// The links; an entry expires when no configuration has the link any more.
    links: Mutex<BTreeMap<NodeId, Weak<LinkState>>>,
    /// The generation of the failures that the node's state has received.
    published: AtomicU64,
    adopted: AtomicBool,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}

impl Fabric {
    /// Without links and routes.
    ///
    /// # Errors
    /// The node numbers do not exist, the key is too short, or the system provides no random numbers.
    pub(in crate::cluster) fn new(identity: &Identity) -> Result<Self, String> {
        let secret = identity.key.clone().unwrap_or_else(Key::nobodys);
        let key = secret.of_cluster(&identity.name);
        let mut seed = [0; 16];
        getrandom::fill(&mut seed).map_err(|e| format!("no random numbers: {e}"))?;
        let (me, nodes) = (identity.policy.me, identity.policy.nodes);
        let text = |e: Error| e.to_string();
        Ok(Self {
            control: Mutex::new(Control::new(me, nodes, key.clone(), seed).map_err(text)?),
            routes: Mutex::new(Replica::new(me, MAX_ROUTES).map_err(text)?),
            key,
            digest: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            links: Mutex::default(),
            published: AtomicU64::new(0),
            adopted: AtomicBool::new(false),
        })
    }

    /// Continues with the state of the previous configuration. Runs between two batches, when the old
    /// configuration no longer runs.
    pub(in crate::cluster) fn adopt(&self, old: &Self, nodes: u16) {
        if std::ptr::eq(self, old) || self.adopted.swap(true, Ordering::Relaxed) {
            return;
        }
        let (mut mine, mut theirs) = (lock(&self.control), lock(&old.control));
        if mine.me() != theirs.me() || theirs.resize(nodes).is_err() {
            return;
        }
        theirs.rekey(&self.key);
        std::mem::swap(&mut *mine, &mut *theirs);
        std::mem::swap(&mut *lock(&self.routes), &mut *lock(&old.routes));
        std::mem::swap(&mut *lock(&self.links), &mut *lock(&old.links));
        self.digest.store(old.digest.load(Ordering::Relaxed), Ordering::Relaxed);
        self.clock.store(old.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Checks whether a link can be watched with these settings.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub(in crate::cluster) fn check(&self, peer: NodeId, settings: Settings) -> Result<(), Error> {
        // On a copy without links, because the configuration is not in force yet.
        let control = lock(&self.control);
        let mut copy = Control::new(control.me(), control.nodes(), self.key.clone(), [0; 16])?;
        drop(control);
        copy.link(0, peer, settings)
    }

    /// Adds a link; removes links that are in no configuration any more.
    pub(in crate::cluster) fn join(
        &self,
        now_ns: u64,
        peer: NodeId,
        settings: Settings,
        link: &Arc<LinkState>,
    ) {
        let mut control = lock(&self.control);
        let mut links = lock(&self.links);
        links.insert(peer, Arc::downgrade(link));
        let mut routes = lock(&self.routes);
        // It was checked when the element was configured.
        if control.neighbor(peer).is_none() {
            routes.link(peer);
        }
        let _ = control.link(now_ns, peer, settings);
        let gone: Vec<NodeId> =
            control.neighbors().map(Neighbor::peer).filter(|p| !links.contains_key(p)).collect();
        for peer in gone {
            control.unlink(peer);
            routes.unlink(peer);
        }
    }

    /// Removes links whose elements no longer exist.
    fn sweep(&self, control: &mut Control) {
        let mut links = lock(&self.links);
        let gone: Vec<NodeId> =
            links.iter().filter(|(_, l)| l.strong_count() == 0).map(|(p, _)| *p).collect();
        for peer in gone {
            links.remove(&peer);
            control.unlink(peer);
            if let Some(mut routes) = self.try_routes() {
                routes.unlink(peer);
            }
        }
    }

    fn try_routes(&self) -> Option<MutexGuard<'_, Replica>> {
        match self.routes.try_lock() {
            Ok(routes) => Some(routes),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn noted(&self, routes: &Replica, hub: &Hub) {
        let Summary { digest, clock } = routes.summary();
        self.digest.store(digest, Ordering::Relaxed);
        self.clock.store(clock, Ordering::Relaxed);
        if routes.has_changes() && !self.changed.swap(true, Ordering::Release) {
            hub.ring();
        }
    }
    /// Whether routes have changed since the last call.
    pub(in crate::cluster) fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::Acquire)
    }

    /// Reads or changes the routes.
    pub(in crate::cluster) fn with_routes<R>(&self, hub: &Hub, f: impl FnOnce(&mut Replica) -> R) -> R {
        let mut routes = lock(&self.routes);
        let result = f(&mut routes);
        self.noted(&routes, hub);
        result
    }

    /// The node numbers that more than one node uses.
    pub(in crate::cluster) fn duplicates(&self, now_ns: u64) -> Vec<NodeId> {
        lock(&self.control).board().duplicates(now_ns).collect()
    }

    /// Reads the state of a link.
    pub(in crate::cluster) fn with_link<R>(&self, peer: NodeId, f: impl FnOnce(&Neighbor) -> R) -> Option<R> {
        lock(&self.control).neighbor(peer).map(f)
    }

    /// Handles a control frame that came over a link, without its Ethernet header. Returns the links over
    /// which a message is due at once; `None` if the frame has changed nothing. A forged frame is recognized
    /// quickly.
    pub(in crate::cluster) fn receive(
        &self,
        now_ns: u64,
        end: &End<'_>,
        frame: &[u8],
    ) -> Option<Vec<Arc<LinkState>>> {
        let peer = end.peer;
        let mut control = lock(&self.control);
        match control.receive(now_ns, peer, frame) {
            Received::Ignored => return None,
            Received::Routes(piece) => {
                if let Some(mut routes) = self.try_routes() {
                    let board = control.board();
                    routes.take(peer, piece, |a, b| board.joined(a, b));
                    self.noted(&routes, end.hub);
                }
            }
            Received::Nothing | Received::Hello => {}
        }
        self.publish(&control, end);
        Some(self.hurried(&mut control))
    }

    /// The links whose timer is to run now and not at its usual time. Each is returned only once until its
    /// timer has run.
    fn hurried(&self, control: &mut Control) -> Vec<Arc<LinkState>> {
        let mut some = Vec::new();
        for peer in control.hurried() {
            let link = lock(&self.links).get(&peer).and_then(Weak::upgrade);
            some.extend(link.filter(|l| !l.asked.swap(true, Ordering::Relaxed)));
        }
        some
    }

    /// Runs the timer of a link, and gives the frames that are due to `send`. Returns when the next one is
    /// due, and the other links over which a message is due at once.
    pub(in crate::cluster) fn tick(
        &self,
        now_ns: u64,
        end: &End<'_>,
        out: &mut Vec<u8>,
        mut send: impl FnMut(&[u8]),
    ) -> (Option<u64>, Vec<Arc<LinkState>>) {
        let peer = end.peer;
        let mut control = lock(&self.control);
        end.link.asked.store(false, Ordering::Relaxed);
        self.sweep(&mut control);
        control.tick(now_ns, peer);
        let summary = Summary {
            digest: self.digest.load(Ordering::Relaxed),
            clock: self.clock.load(Ordering::Relaxed),
        };
        if control.hello(now_ns, peer, summary, out) {
            send(out);
        }
        if let Some(mut routes) = self.try_routes() {
            let theirs = control.routes_of(peer);
            theirs.into_iter().for_each(|t| routes.heard(peer, t));
            for _ in 0..PIECES {
                let piece = |room, out: &mut Vec<u8>| routes.piece(now_ns, peer, theirs, room, out);
                if !control.routes(peer, out, piece) {
                    break;
                }
                send(out);
            }
            self.noted(&routes, end.hub);
        }
        self.publish(&control, end);
        let due = control.neighbor(peer).map(Neighbor::due_ns);
        (due, self.hurried(&mut control))
    }

    /// Passes the state of the link to the data path, and the dead nodes and links to the balancers.
    fn publish(&self, control: &Control, end: &End<'_>) {
        if let Some(neighbor) = control.neighbor(end.peer) {
            end.link.set(neighbor.is_ready(), neighbor.is_up());
        }
        // The lock of the links is held, so that the state that is passed last is the latest.
        if self.published.swap(control.generation(), Ordering::Relaxed) != control.generation() {
            let failures = control.failures();
            end.outages.observe(|seen| *seen = failures);
        }
    }
}
