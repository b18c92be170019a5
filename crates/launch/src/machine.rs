//! Options of where and how workers run, for the commands that make their own configuration.

use clap::Args;

/// Where and how workers run.
#[derive(Args, Clone)]
pub struct Machine {
    /// Number of workers [default: 1; for a node of a cluster, as in the cluster file].
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// CPUs for the workers, as in 0-3,6, or `auto`: worker N runs on the N-th one.
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,
    /// The most packets that are processed together (a batch) [default: 64].
    #[arg(long, value_name = "N")]
    pub burst: Option<usize>,
    /// The most memory for packet buffers, in MB.
    #[arg(long, value_name = "MB")]
    pub memory: Option<usize>,
    /// Do not use hugepages.
    #[arg(long)]
    pub no_huge: bool,
    /// Further arguments for DPDK's EAL.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub eal: Option<String>,
}

impl Machine {
    /// The same, as arguments.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|v| format!("--{name}={v}")));
        };
        option("threads", self.threads.map(|n| n.to_string()));
        option("cpus", self.cpus.clone());
        option("burst", self.burst.map(|n| n.to_string()));
        option("memory", self.memory.map(|n| n.to_string()));
        option("eal", self.eal.clone());
        if self.no_huge {
            words.push("--no-huge".to_owned());
        }
        words
    }
}
