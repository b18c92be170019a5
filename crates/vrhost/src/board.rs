//! What the control thread tells a thread's front: which virtual interfaces there are.

use crate::outgoing::Outlet;
use crate::side::Side;
use demux::Encap;
use dpdk::VirtualQueues;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A virtual interface as a front knows it.
pub(crate) struct Interface {
    /// The number of its router.
    pub(crate) router: u32,
    /// Its queues of the front's thread.
    pub(crate) queues: VirtualQueues,
    /// How it sends by a physical port.
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) below: Below,
    /// How many packets of the physical port wait for the router.
    pub(crate) waiting: usize,
}

/// Where the packets of a virtual interface come from and go to.
#[derive(Clone)]
pub(crate) enum Below {
    /// A physical port, by its number; and what puts the tag on what is sent.
    Port(usize, Encap),
    /// All of a physical port, by its number.
    Whole(usize),
    /// The interface at the other end of a virtual link: the link's number, and which end this one is.
    Link(u32, usize),
    /// Nowhere.
    Nothing,
}

/// In place of the owner of a receive queue whose interface is not there: others do not get its frames.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A change of the interfaces.
pub(crate) enum Change {
    /// The owner number of its frames, and the interface.
    Add(u32, Interface),
    /// A port's receive queue, by their numbers, is for a router alone from now on, or for none.
    Queue(usize, usize, Option<u32>),
    /// All frames of a receive queue, by the port's number and the queue's place on the thread, are an
    /// owner's from now on, by its number, or [`NOBODY`]'s.
    Frames(usize, usize, u32),
    /// All interfaces of a router.
    Remove(u32),
    /// A physical port, by its number, is open from now on.
    Open(usize, Box<Side>),
    /// It is closed.
    Close(usize),
}

/// Changes that a front has not seen yet.
#[derive(Default)]
pub(crate) struct Board {
    changes: Mutex<Vec<Change>>,
    pending: AtomicBool,
}

impl Board {
    pub(crate) fn post(&self, change: Change) {
        self.changes.lock().ignore_poison().push(change);
        self.pending.store(true, Ordering::Release);
    }

    /// The changes since the last call, in order.
    pub(crate) fn news(&self) -> Vec<Change> {
        if !self.pending.load(Ordering::Relaxed) || !self.pending.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.changes.lock().ignore_poison())
    }
}
