//! From a command's options to those of the runtime.

use crate::machine::Machine;
use crate::{crash, logging, processors};
use lang::Source;
use runtime::{Idle, Options, Placement, Registry};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The most packets of a batch, unless `--burst` sets it.
const DEFAULT_BATCH: usize = 64;
/// The time after which a worker counts as stuck.
pub const WATCHDOG_SECONDS: u32 = 5;

/// How to start a router.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How many workers.
    pub workers: usize,
    /// CPUs for the workers: a list, `auto`, or the default.
    pub cpus: Option<String>,
    /// How the work is distributed over workers.
    pub placement: Placement,
    /// Whether buffers, queues and elements are in memory of the NUMA node where they are used.
    pub numa: bool,
    /// The most packets of a batch, if not the default.
    pub batch_size: Option<usize>,
    /// What workers do without work.
    pub when_idle: Idle,
    /// Whether elements use their fast paths; none: unless batches have one packet.
    pub optimize: Option<bool>,
    /// The most memory for packet buffers, in MB.
    pub memory_mb: Option<usize>,
    /// Whether hugepages are used where they are.
    pub hugepages: bool,
    /// Further arguments for DPDK's EAL.
    pub eal: Option<String>,
    /// Whether time is simulated, so that waiting takes no real time.
    pub simulated_time: bool,
    /// Where simulated time starts, in nanoseconds since the epoch; Click's start if not given.
    pub simulation_start_ns: Option<u64>,
    /// Whether the configuration may be replaced.
    pub hotswap: bool,
    /// After how long a worker counts as stuck; 0: never.
    pub watchdog_s: u32,
    /// Whether the program acts as Click's driver.
    pub click: bool,
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            workers: 1,
            cpus: None,
            placement: Placement::default(),
            numa: true,
            batch_size: None,
            when_idle: Idle::default(),
            optimize: None,
            memory_mb: None,
            hugepages: true,
            eal: None,
            simulated_time: false,
            simulation_start_ns: None,
            hotswap: false,
            watchdog_s: WATCHDOG_SECONDS,
            click: false,
        }
    }
}

impl From<&Machine> for Launch {
    fn from(machine: &Machine) -> Self {
        Self {
            workers: machine.threads.unwrap_or(1).into(),
            cpus: machine.cpus.clone(),
            batch_size: machine.burst,
            memory_mb: machine.memory,
            hugepages: !machine.no_huge,
            eal: machine.eal.clone(),
            ..Self::default()
        }
    }
}

impl Launch {
    /// The processors that the workers of a configuration are bound to; none if the kernel is to choose.
    ///
    /// # Errors
    /// A message for the user.
    pub fn choose_cpus(
        &self,
        registry: &Registry,
        sources: &[Source],
        options: &lang::LoadOptions,
    ) -> Result<Vec<usize>, String> {
        if self.simulated_time && self.cpus.is_none() {
            return Ok(Vec::new());
        }
        processors::choose(registry, self.cpus.as_deref(), self.workers, sources, options)
    }

    /// The runtime's options. Sets the CPUs of this process's workers.
    #[must_use]
    pub fn options(&self, cpus: &[usize]) -> Options {
        // Under the name `click`, standard error has only the messages of Click.
        if !self.click {
            crash::install();
        }
        let nodes = processors::bind(cpus, self.numa);
        let eal = dpdk::EalOptions {
            numa_off: !self.numa,
            memory_mb: self.memory_mb,
            hugepages: if self.hugepages { dpdk::Hugepages::default() } else { dpdk::Hugepages::Never },
            log_levels: logging::dpdk_levels(),
            extra: self.eal.iter().flat_map(|e| e.split_whitespace()).map(str::to_owned).collect(),
            ..dpdk::EalOptions::default()
        };
        let batch_size = self.batch_size.unwrap_or(DEFAULT_BATCH);
        Options {
            workers: self.workers.max(1),
            threads: !self.simulated_time && (self.workers > 1 || !self.click),
            batch_size,
            idle: self.when_idle,
            // Batches of one packet keep exactly Click's order.
            optimize: self.optimize.unwrap_or(batch_size > 1),
            simulated_time: self.simulated_time,
            simulation_start_ns: self.simulation_start_ns.unwrap_or(runtime::SIMULATION_START_NS),
            // Simulations must be repeatable.
            seed: if self.simulated_time { 0 } else { RandomState::new().build_hasher().finish() },
            placement: self.placement,
            nodes,
            hotswap: self.hotswap,
            check_only: false,
            click: self.click,
            eal,
            limits: runtime::Limits::default(),
            watchdog: (!self.click && self.watchdog_s > 0)
                .then(|| Duration::from_secs(self.watchdog_s.into())),
            enter: Some(processors::enter),
        }
    }
}
