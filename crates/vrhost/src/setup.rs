//! What virtual routers and their interfaces are to be, and what is seen of them.

use crate::access::TcpAccess;
use demux::Tag;
use dpdk::PortStats;
use lang::{LoadOptions, Source};
use runtime::{Limits, Registry, Stall};
use std::sync::Arc;

/// Packets that wait at a virtual interface for one worker of its router.
const ROOM: usize = 512;
/// The same where routers get their shares: whatever has gathered in a port, as its ring may have done while
/// the thread did not run, then finds room, so that a router that does not use its share loses none of it.
const ROOM_IN_FAIRNESS: usize = 2048;
/// A virtual interface of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSetup {
    /// Its name: the program's variable that has the device.
    pub name: String,
    /// Where its packets come from and go to.
    pub below: Connection,
    /// Its address.
    pub mac: [u8; 6],
    /// Whether frames that nobody claims are its.
    pub default: bool,
    /// The most that it sends by its physical port, in bytes a second; none: what the port takes.
    pub rate: Option<u64>,
}

/// Where the packets of a virtual interface come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A physical port, by its number, and what tells its frames there.
    Port(usize, Tag),
    /// All frames of a physical port, by its number.
    WholePort(usize),
    /// All frames of a receive queue of a physical port, by their numbers.
    Queue(usize, u16),
    /// One end (0 or 1) of the virtual link with this number.
    Link(u32, usize),
    /// Nothing.
    Nothing,
}

/// A virtual router.
#[derive(Clone)]
pub struct RouterSetup {
    /// Its name.
    pub name: String,
    /// Its program, and what is added to it.
    pub sources: Vec<Source>,
    /// The variables of the program; those of the interfaces are added.
    pub load: LoadOptions,
    /// The classes that it may use.
    pub registry: Arc<Registry>,
    /// Its share of the processors' time, in proportion to those of others.
    pub share: u32,
    /// How many packets wait at each of its interfaces for each worker; none: 512, or 2048 where routers get
    /// their shares.
    pub queue: Option<usize>,
    /// The most that it may have; its name and what waits at its interfaces are added.
    pub limits: Limits,
    /// How its clients reach it over TCP; none: they do not.
    pub access: Option<TcpAccess>,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceSetup>,
}

impl RouterSetup {
    /// Whether both have the same share, the same limits and the same rates.
    #[must_use]
    pub fn has_limits_of(&self, other: &Self) -> bool {
        let rates = |setup: &Self| setup.interfaces.iter().map(|one| one.rate).collect::<Vec<_>>();
        (self.share, self.queue, &self.limits) == (other.share, other.queue, &other.limits)
            && rates(self) == rates(other)
    }
}

/// A virtual interface as it is now.
#[derive(Clone, Debug)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// What it has received, sent and lost.
    pub stats: PortStats,
    /// Whether its packets have receive queues of their own on their port.
    pub own_queue: bool,
    /// Packets that wait for the router.
    pub waiting: usize,
}

/// A virtual router as it is now.
#[derive(Clone, Debug)]
pub struct RouterStatus {
    /// Its name.
    pub name: String,
    /// Whether it runs; if not, it has failed and starts again.
    pub running: bool,
    /// How often it has failed.
    pub failures: u32,
    /// Why it has the last time, until it runs again.
    pub failure: Option<String>,
    /// Its share.
    pub share: u32,
    /// Cycles of processors that it has used.
    pub cycles: u64,
    /// Bytes of memory that it uses, if it runs and they are counted.
    pub memory_bytes: Option<u64>,
    /// How often each of its limits was reached since it started, by name.
    pub refused: Vec<(&'static str, u64)>,
    /// What it has in its tables, by the names of the limits.
    pub used: Vec<(&'static str, u64)>,
    /// Runs of it that did not end in time.
    pub stall: Stall,
    /// Its interfaces.
    pub interfaces: Vec<InterfaceStatus>,
}

impl InterfaceSetup {
    /// Whether a router's interface can become the other while the router runs.
    pub(crate) fn can_become(&self, other: &Self) -> bool {
        *self == Self { rate: self.rate, ..other.clone() }
    }

    /// The number of its physical port.
    pub(crate) fn port(&self) -> Option<usize> {
        match self.below {
            Connection::Port(port, _) | Connection::WholePort(port) | Connection::Queue(port, _) => {
                Some(port)
            }
            Connection::Link(..) | Connection::Nothing => None,
        }
    }
}

/// How many packets wait at each interface of a router for each worker, if the router has no limit of its
/// own; `fair`: the routers get their shares.
#[must_use]
pub fn default_queue(fair: bool) -> usize {
    if fair { ROOM_IN_FAIRNESS } else { ROOM }
}

/// How many packets may wait at so many interfaces, in both directions, with queues of this length.
#[must_use]
pub fn at_interfaces(interfaces: usize, threads: usize, queue: usize) -> usize {
    queue.max(1).saturating_mul(2 * interfaces * threads)
}

/// The most that a router may have, with what waits at its interfaces.
pub(crate) fn limits_of(setup: &RouterSetup, threads: usize, room: usize) -> Limits {
    let at_interfaces = at_interfaces(setup.interfaces.len(), threads, setup.queue.unwrap_or(room));
    Limits { router: setup.name.clone(), at_interfaces, ..setup.limits.clone() }
}
