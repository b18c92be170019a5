//! Options that say where and how workers run, for the commands that make their own configuration.

use crate::cli::RunArgs;
use clap::Args;

/// Where and how workers run.
#[derive(Args, Clone)]
pub(crate) struct Machine {
    /// How many workers [default: 1, or what a cluster file says].
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
    /// CPUs for the workers, as in 0-3,6, or `auto`: worker N runs on the N-th one.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// The longest vector of packets.
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<usize>,
    /// The most memory for packet buffers, in MB.
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<usize>,
    /// Do not use hugepages.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Further arguments for DPDK's environment.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
}

impl Machine {
    /// The same, as arguments.
    pub(crate) fn words(&self) -> Vec<String> {
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

impl From<&Machine> for RunArgs {
    fn from(machine: &Machine) -> Self {
        Self {
            threads: machine.threads.unwrap_or(1).into(),
            cpus: machine.cpus.clone(),
            burst: machine.burst,
            memory: machine.memory,
            no_huge: machine.no_huge,
            eal: machine.eal.clone(),
            watchdog: crate::cli::WATCHDOG_SECONDS,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Command};
    use crate::cluster::args::ClusterCommand;
    use clap::Parser;

    #[test]
    fn machine_arguments_survive_the_way_to_another_process() {
        let line = "valiant cluster run rb4.toml --node 1 -j 2 --cpus 0-1 --burst 32 --memory 64 --no-huge --eal=--log-level=7";
        let parse =
            |words: Vec<String>| match Cli::try_parse_from(words).map_err(|e| e.to_string()).unwrap().command
            {
                Command::Cluster(args) => match args.command {
                    ClusterCommand::Run(args) => *args,
                    _ => panic!("not run"),
                },
                _ => panic!("not cluster"),
            };
        let args = parse(line.split(' ').map(str::to_owned).collect());
        let mut again: Vec<String> =
            "valiant cluster run rb4.toml --node 1".split(' ').map(str::to_owned).collect();
        again.extend(args.machine.words());
        let again = parse(again);
        assert_eq!((again.of.node, again.machine.words()), (1, args.machine.words()));
        assert_eq!(args.machine.words().len(), 6);
    }
}
