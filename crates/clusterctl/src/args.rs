//! The command line of `valiant cluster`.

use clap::{Args, Subcommand};
use launch::Machine;
use launch::logging::LogArgs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Examples, for the end of the help.
pub const EXAMPLES: &str = "\
A cluster file says which node has which external ports, what joins the nodes, and names the program of the whole router, an \
ordinary configuration; conf/rb4.toml is an example. Each node runs its part of the program; to hosts they are one router.

Examples:
  valiant cluster key conf/rb4.key               make a key: nodes without it cannot join
  valiant cluster check conf/rb4.toml            all errors at once
  valiant cluster up conf/rb4.toml               start this machine's nodes
  valiant cluster run conf/rb4.toml --node 2     or one of them, in the foreground
  valiant cluster status conf/rb4.toml           nodes, links, rates, drops
  valiant cluster matrix conf/rb4.toml --watch   who sends how much to whom, direct and balanced
  valiant cluster route conf/rb4.toml add 10.9.0.0/16 10.0.3.2
  valiant cluster apply conf/rb4.toml            after a change of the file: nodes come, go and change over
  valiant cluster down conf/rb4.toml

Exit status: 0 done (also by Ctrl-C), 1 it failed, 2 wrong call, 3 done, but some nodes do not answer.";

/// `valiant cluster`.
#[derive(Args)]
pub struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// Check a cluster file, its program and every node's configuration.
    Check(JsonFile),
    /// Print the configuration of a node.
    Config(NodeFile),
    /// Run one node until it is interrupted.
    #[command(after_help = "\
Examples:
  valiant cluster run conf/rb4.toml --node 2
  valiant cluster run conf/rb4.toml --node 2 -j 4 --cpus 0-3")]
    Run(Box<RunNode>),
    /// Start the nodes of this machine that do not run yet.
    #[command(after_help = "\
What a node says is in a file beside its control socket, /run/valiant/NAME-NODE.log.

Examples:
  valiant cluster up conf/rb4.toml
  valiant cluster up conf/rb4.toml --node 1 --node 3")]
    Up(Box<UpArgs>),
    /// Stop the nodes of this machine.
    Down(SomeNodes),
    /// Show nodes, links, rates, drops and the work that nodes do for each other.
    #[command(after_help = "\
in, out and transit are packets of external ports: received here for another node, sent here for another node, and carried \
between two others. c is the work of a node relative to what its external line carried, 2 if all traffic goes directly; \
that of all nodes together is 3 at most. work is the same relative to R, the rate of the line: no node works more than cR. Packets of a flow that follow each other closely are a \
flowlet and keep their path, unless it has no capacity: then the flowlet moves, or, where no path has capacity, packets spill.

Example:
  valiant cluster status conf/rb4.toml --json")]
    Status(ShowArgs),
    /// Show the packets from each node to each other: direct, and balanced over a third node.
    #[command(after_help = "\
Examples:
  valiant cluster matrix conf/rb4.toml           over one second
  valiant cluster matrix conf/rb4.toml --watch --interval 500ms
  valiant cluster matrix conf/rb4.toml --watch --json")]
    Matrix(ShowArgs),
    /// Add, replace, remove or list routes: entered once, they are on every node.
    #[command(after_help = "\
Routes of the cluster file do not change by this. A route that was added stays until it is removed, as long as one node runs.

Examples:
  valiant cluster route conf/rb4.toml add 10.9.0.0/16 10.0.3.2
  valiant cluster route conf/rb4.toml set 10.9.0.0/16 10.0.2.9     in place of that
  valiant cluster route conf/rb4.toml remove 10.9.0.0/16
  valiant cluster route conf/rb4.toml list --json")]
    Route(RouteArgs),
    /// Bring the running nodes to what the cluster file says now.
    #[command(after_help = "\
Every node's new configuration is checked first. Then running nodes change over one after the other, between two packets; if \
one refuses, those before it go back. New nodes of this machine are started after that, and removed ones stopped at last.

On several machines, give it on each, within 30 seconds: links tolerate mismatched configurations for that long.

A node is removed by `removed = true`, which leaves its ports' numbers to it, so that the program need not change; or by taking \
it out of the file.

Example:
  valiant cluster apply conf/rb4.toml")]
    Apply(Box<UpArgs>),
    /// Put the cluster file and its program into etcd: running nodes take them over.
    #[command(after_help = "\
The file names etcd in a section [etcd] with endpoints = [\"http://127.0.0.1:2379\"]. Every node's configuration is checked first. \
What somebody else has put there since your last push or pull is not overwritten.

Where etcd has certificates, endpoints begin with https://, and [etcd] has ca_file = \"ca.pem\", and cert_file and key_file if etcd \
asks for a client's certificate; where it has users, user and password_file. doc/etcd.md has what messages about them mean.

Example:
  valiant cluster push conf/rb4.toml")]
    Push(PushArgs),
    /// Bring the cluster file and its program from etcd.
    Pull(PullArgs),
    /// Make a key for a cluster, 256 random bits.
    Key {
        /// The file to make; it must not exist. Without, the key is printed.
        file: Option<PathBuf>,
    },
}

impl ClusterCommand {
    /// Whether JSON is asked for.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Check(args) => args.json,
            Self::Up(args) | Self::Apply(args) => args.nodes.of.json,
            Self::Down(args) => args.of.json,
            Self::Status(args) | Self::Matrix(args) => args.json,
            Self::Route(args) => matches!(args.what, RouteCommand::List { json: true }),
            Self::Push(args) => args.of.json,
            Self::Pull(args) => args.of.json,
            Self::Config(_) | Self::Run(_) | Self::Key { .. } => false,
        }
    }
}

#[derive(Args)]
pub(crate) struct JsonFile {
    /// The cluster file.
    pub(crate) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) of: JsonFile,
    /// Overwrite what somebody else has put there.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) of: JsonFile,
    /// Write over changes that were not pushed.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct NodeFile {
    /// The cluster file.
    pub(crate) file: PathBuf,
    /// The node.
    #[arg(short, long, value_name = "N")]
    pub(crate) node: u16,
}

#[derive(Args)]
pub(crate) struct SomeNodes {
    #[command(flatten)]
    pub(crate) of: JsonFile,
    /// Only this node; may be given several times.
    #[arg(short, long, value_name = "N")]
    pub(crate) node: Vec<u16>,
}

#[derive(Args)]
pub(crate) struct RunNode {
    #[command(flatten)]
    pub(crate) of: NodeFile,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

#[derive(Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) nodes: SomeNodes,
    /// How long a node may take to start.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub(crate) patience: Duration,
    #[command(flatten)]
    pub(crate) machine: Machine,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The cluster file.
    pub(crate) file: PathBuf,
    /// Go on until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Over how long rates are measured.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) interval: Duration,
    /// Print JSON; with --watch, an object on each line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RouteArgs {
    /// The cluster file.
    pub(crate) file: PathBuf,
    #[command(subcommand)]
    pub(crate) what: RouteCommand,
}

#[derive(Subcommand)]
pub(crate) enum RouteCommand {
    /// Send packets for a network to a neighbour.
    Add {
        /// The network, as in 10.9.0.0/16.
        #[arg(value_parser = network)]
        prefix: String,
        /// The neighbour, in the network of some external port.
        via: Ipv4Addr,
    },
    /// The same, in place of what was added before.
    Set {
        /// The network, as in 10.9.0.0/16.
        #[arg(value_parser = network)]
        prefix: String,
        /// The neighbour, in the network of some external port.
        via: Ipv4Addr,
    },
    /// Forget a route that was added.
    Remove {
        /// The network.
        #[arg(value_parser = network)]
        prefix: String,
    },
    /// Print the routes that were added.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

fn time(text: &str) -> Result<Duration, String> {
    lang::args::parse::<Duration>(text)
        .ok()
        .filter(|t| !t.is_zero())
        .ok_or_else(|| format!("'{text}' is not a time such as 1s or 500ms"))
}

fn network(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}' is not a network such as 10.9.0.0/16");
    let prefix = lang::args::parse::<lang::args::IpPrefix>(text).map_err(|_| wrong())?;
    match prefix.prefix_len() {
        Some(_) if prefix.network() != prefix.addr => {
            Err(format!("{} is not the first address of its network", prefix.addr))
        }
        Some(length) => Ok(format!("{}/{length}", prefix.addr)),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        assert_eq!(network("10.9.0.0/16").as_deref(), Ok("10.9.0.0/16"));
        assert_eq!(network("10.9.0.1").as_deref(), Ok("10.9.0.1/32"));
        assert!(
            network("10.9.0.1/16").is_err()
                && network("nine").is_err()
                && network("10.0.0.0/255.0.255.0").is_err()
        );
        assert!(time("0").is_err() && time("soon").is_err() && time("500ms").is_ok());
    }

    #[test]
    fn machine_arguments_survive_the_way_to_another_process() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(subcommand)]
            command: ClusterCommand,
        }
        let parse = |words: Vec<String>| match <Line as clap::Parser>::parse_from(words).command {
            ClusterCommand::Run(args) => *args,
            _ => panic!("not run"),
        };
        let line = "cluster run rb4.toml --node 1 -j 2 --cpus 0-1 --burst 32 --memory 64 --no-huge --eal=--log-level=7";
        let args = parse(line.split(' ').map(str::to_owned).collect());
        let mut again: Vec<String> = "cluster run rb4.toml --node 1".split(' ').map(str::to_owned).collect();
        again.extend(args.machine.words());
        let again = parse(again);
        assert_eq!((again.of.node, again.machine.words()), (1, args.machine.words()));
        assert_eq!(args.machine.words().len(), 6);
    }
}
