//! From what a command was asked for to what the runtime is started with.

use crate::machine::Machine;
use crate::{crash, logging, processors};
use lang::Source;
use runtime::{Options, Placement, Registry};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Vectors of a router that is not asked to be exactly Click.
const DEFAULT_VECTOR: usize = 64;
/// After how long a worker counts as stuck.
pub const WATCHDOG_SECONDS: u32 = 5;

/// How a router is to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How many workers.
    pub workers: usize,
    /// CPUs for the workers: a list, `auto`, or the default.
    pub cpus: Option<String>,
    /// How the work is laid out.
    pub placement: Placement,
    /// Whether buffers, queues and elements lie on the NUMA node where they are used.
    pub numa: bool,
    /// The longest vector of packets, if not the default.
    pub vector: Option<usize>,
    /// Whether runs of elements are executed as one; none: unless vectors have one packet.
    pub optimise: Option<bool>,
    /// The most memory for packet buffers, in MB.
    pub memory_mb: Option<usize>,
    /// Whether hugepages are used where they are.
    pub hugepages: bool,
    /// Further arguments for DPDK's environment.
    pub eal: Option<String>,
    /// Whether waiting takes no time.
    pub simulated_time: bool,
    /// Whether the configuration may be replaced.
    pub hotswap: bool,
    /// After how long a worker counts as stuck; 0: never.
    pub watchdog_s: u32,
    /// Whether it acts as Click's driver.
    pub click: bool,
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            workers: 1,
            cpus: None,
            placement: Placement::default(),
            numa: true,
            vector: None,
            optimise: None,
            memory_mb: None,
            hugepages: true,
            eal: None,
            simulated_time: false,
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
            vector: machine.burst,
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

    /// What the runtime is started with; from here on the workers of this process have their CPUs.
    #[must_use]
    pub fn options(&self, cpus: &[usize]) -> Options {
        // Under the name `click` standard error is Click's.
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
        let vector = self.vector.unwrap_or(DEFAULT_VECTOR);
        Options {
            workers: self.workers.max(1),
            threads: !self.simulated_time && (self.workers > 1 || !self.click),
            vector,
            // Vectors of one are for those who want exactly Click's order.
            optimise: self.optimise.unwrap_or(vector > 1),
            simulated_time: self.simulated_time,
            // Simulations repeat themselves.
            seed: if self.simulated_time { 0 } else { RandomState::new().build_hasher().finish() },
            placement: self.placement,
            nodes,
            hotswap: self.hotswap,
            check_only: false,
            click: self.click,
            eal,
            watchdog: (!self.click && self.watchdog_s > 0)
                .then(|| Duration::from_secs(self.watchdog_s.into())),
            enter: Some(processors::enter),
        }
    }
}
