//! How a router runs.

use crate::WorkerId;
use crate::limits::Limits;
use crate::placement::Placement;
use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a router runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many workers.
    pub workers: usize,
    /// Whether the workers have threads of their own; if not, the thread that calls [`crate::Router::drive`]
    /// runs them.
    pub threads: bool,
    /// The most packets of a batch; 1 gives exactly Click's order.
    pub batch_size: usize,
    /// What workers with threads of their own do without work.
    pub idle: Idle,
    /// Simulated time.
    pub simulated_time: bool,
    /// Where simulated time starts, in nanoseconds since the epoch.
    pub simulation_start_ns: u64,
    /// The seed of random numbers, unless there is a `RandomSeed`.
    pub seed: u64,
    /// How the work is distributed over the workers.
    pub placement: Placement,
    /// The NUMA node on which each worker's replica is allocated; empty: any node.
    pub nodes: Vec<Option<usize>>,
    /// Whether a new configuration may replace the running one.
    pub hotswap: bool,
    /// Whether elements use their fast paths ([`crate::Step`]).
    pub optimize: bool,
    /// Only check: nothing is opened, started or initialized.
    pub check_only: bool,
    /// Whether the router runs under the name `click`: additions to Click are off by default.
    pub click: bool,
    /// How to start the DPDK environment, when the configuration has a port.
    pub eal: dpdk::EalOptions,
    /// The time after which a worker thread that has not finished its batch is reported as stuck; `None`:
    /// never.
    pub watchdog: Option<Duration>,
    /// The most that the router may have, where there are many in a process.
    pub limits: Limits,
    /// Called by each worker thread when it starts; the returned value is dropped when the thread ends.
    pub enter: Option<ThreadSetup>,
}

/// What a worker does when there is no work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// It sleeps until there is some, as far as its ports can wake it, and otherwise for short times.
    #[default]
    Sleep,
    /// It looks for work all the time.
    Poll,
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Idle::Sleep => "sleep",
            Idle::Poll => "poll",
        })
    }
}

impl FromStr for Idle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = [Idle::Sleep, Idle::Poll].into_iter().find(|idle| idle.to_string() == text);
        named.ok_or_else(|| "an idle worker sleeps (`sleep`) or polls (`poll`)".to_owned())
    }
}

/// What a worker thread does first: pin itself to a CPU, register with DPDK.
pub type ThreadSetup = fn(WorkerId) -> Box<dyn Any>;

impl Options {
    /// A global handler that a router with these options has not: under Click's name, there is no `hotconfig`
    /// if the configuration may not be replaced.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        (self.click && !self.hotswap).then_some("hotconfig")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            threads: false,
            batch_size: 1,
            idle: Idle::default(),
            simulated_time: false,
            simulation_start_ns: crate::clock::SIMULATION_START_NS,
            seed: 0,
            placement: Placement::default(),
            nodes: Vec::new(),
            hotswap: false,
            optimize: false,
            check_only: false,
            click: false,
            eal: dpdk::EalOptions::default(),
            watchdog: None,
            limits: Limits::default(),
            enter: None,
        }
    }
}
