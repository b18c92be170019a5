//! The dead nodes and links of a cluster.

use cluster::{Error, Failures, NodeId};
use locks::IgnorePoison;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
struct Known {
    seen: Failures,
    forced: Failures,
    /// Both together.
    all: Failures,
}

/// The dead nodes and links: as detected, and as set by handlers.
#[derive(Debug)]
pub(in crate::cluster) struct Outages {
    known: Mutex<Known>,
    generation: AtomicU64,
}

impl Outages {
    /// The state in which all nodes and links are alive.
    pub(super) fn new(none: Failures) -> Self {
        let known = Known { seen: none.clone(), forced: none.clone(), all: none };
        Self { known: Mutex::new(known), generation: AtomicU64::new(1) }
    }
    /// A number that changes with each failure and recovery; a relaxed load, for the data path.
    #[inline]
    pub(in crate::cluster) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }
    /// All dead nodes and links.
    pub(in crate::cluster) fn failures(&self) -> Failures {
        self.known.lock().ignore_poison().all.clone()
    }
    /// Sets the failures that were detected. Returns whether they have changed.
    pub(in crate::cluster) fn observe(&self, change: impl FnOnce(&mut Failures)) -> bool {
        self.change(|known| change(&mut known.seen))
    }
    /// Takes a node out of service, or back into service, in which it is used if it is alive.
    ///
    /// # Errors
    /// The node does not exist, or it is this one.
    pub(in crate::cluster) fn force_node(&self, node: NodeId, up: bool) -> Result<(), Error> {
        self.forced(|forced| forced.set_node(node, up))
    }
    /// Takes a link out of service, or back into service, in which it is used if it is alive.
    ///
    /// # Errors
    /// One of the nodes does not exist.
    pub(in crate::cluster) fn force_link(&self, from: NodeId, to: NodeId, up: bool) -> Result<(), Error> {
        self.forced(|forced| forced.set_link(from, to, up))
    }
    fn forced(&self, change: impl FnOnce(&mut Failures) -> Result<bool, Error>) -> Result<(), Error> {
        let mut result = Ok(false);
        self.change(|known| result = change(&mut known.forced));
        result.map(drop)
    }
    fn change(&self, change: impl FnOnce(&mut Known)) -> bool {
        let mut known = self.known.lock().ignore_poison();
        change(&mut known);
        let mut all = known.seen.clone();
        for node in known.forced.dead_nodes() {
            let _ = all.set_node(node, false);
        }
        for (from, to) in known.forced.dead_links() {
            let _ = all.set_link(from, to, false);
        }
        let news = all != known.all;
        if news {
            known.all = all;
            // Done while the lock is held: a reader that sees the new number finds the new set.
            self.generation.fetch_add(1, Ordering::Release);
        }
        news
    }
    /// The failures that were set by handlers, and all failures.
    pub(super) fn forced_and_all(&self) -> (Failures, Failures) {
        let known = self.known.lock().ignore_poison();
        (known.forced.clone(), known.all.clone())
    }
    /// Continues with the failures of the previous configuration.
    pub(super) fn take_over(&self, old: &Self) {
        let (seen, forced) = {
            let known = old.known.lock().ignore_poison();
            (known.seen.clone(), known.forced.clone())
        };
        self.change(|mine| {
            for (new, old) in [(&mut mine.seen, &seen), (&mut mine.forced, &forced)] {
                // Nodes that no longer exist are left out.
                old.dead_nodes().for_each(|node| drop(new.set_node(node, false)));
                old.dead_links().for_each(|(from, to)| drop(new.set_link(from, to, false)));
            }
        });
    }
}
