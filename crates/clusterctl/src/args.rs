//! The command line of `valiant cluster`.

use clap::{Args, Subcommand};
use launch::Machine;
use launch::live::time;
use launch::logging::LogArgs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Examples, for the end of the help.
pub const EXAMPLES: &str = "\
A cluster file lists the nodes, their external ports and the links between them, and names the program of the whole router, an ordinary configuration; conf/rb4.toml is an example. Each node runs its part of the program; to hosts, the cluster is one router.

Examples:
  valiant cluster key conf/rb4.key               make a key: nodes need it to join
  valiant cluster check conf/rb4.toml            all errors at once
  valiant cluster up conf/rb4.toml               start the nodes of this machine
  valiant cluster run conf/rb4.toml --node 2     or one of them, in the foreground
  valiant cluster status conf/rb4.toml           nodes, links, rates, drops
  valiant cluster matrix conf/rb4.toml --watch   traffic between nodes: direct, and via an intermediate node
  valiant cluster route conf/rb4.toml add 10.9.0.0/16 10.0.3.2
  valiant cluster apply conf/rb4.toml            after a change of the file
  valiant cluster down conf/rb4.toml

Exit status: 0 done (also by Ctrl-C), 1 failed, 2 wrong usage, 3 done, but some nodes did not answer.";

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
    /// Start the nodes of this machine that are not running yet.
    #[command(after_help = "\
The log of a node is in a file beside its control socket, /run/valiant/NAME-NODE.log.

Examples:
  valiant cluster up conf/rb4.toml
  valiant cluster up conf/rb4.toml --node 1 --node 3")]
    Up(Box<UpArgs>),
    /// Stop the nodes of this machine.
    Down(SomeNodes),
    /// Show nodes, links, rates, drops and the load that nodes carry for each other.
    #[command(after_help = "\
Columns: in counts packets received on this node's external ports for other nodes, out packets sent on them for other nodes, and transit packets forwarded between two other nodes. c is the work of a node (what it receives from outside, forwards for others and sends outside) divided by the traffic of its external ports: 2 if all traffic is direct, at most 3 for the cluster as a whole. work is the same divided by R, the rate of the external ports. Packets of a flow that follow each other closely are a flowlet and keep their path while it has capacity; else the flowlet moves to another path, or, where no path has capacity, single packets spill to others.

Example:
  valiant cluster status conf/rb4.toml --json")]
    Status(ShowArgs),
    /// Show the packets from each node to each other node: direct, and via an intermediate node.
    #[command(after_help = "\
Examples:
  valiant cluster matrix conf/rb4.toml           over one second
  valiant cluster matrix conf/rb4.toml --watch --interval 500ms
  valiant cluster matrix conf/rb4.toml --watch --json")]
    Matrix(ShowArgs),
    /// Add, replace, remove or list routes of the whole cluster.
    #[command(after_help = "\
A route is entered once and distributed to every node. Routes of the cluster file do not change. An added route stays until it is removed, as long as at least one node runs.

Examples:
  valiant cluster route conf/rb4.toml add 10.9.0.0/16 10.0.3.2
  valiant cluster route conf/rb4.toml set 10.9.0.0/16 10.0.2.9     replaces it
  valiant cluster route conf/rb4.toml remove 10.9.0.0/16
  valiant cluster route conf/rb4.toml list --json")]
    Route(RouteArgs),
    /// Apply the changed cluster file to the running nodes.
    #[command(after_help = "\
Every node's new configuration is checked first. Then the running nodes switch to it one after the other, by a hot swap; if one refuses, those before it return to their old configuration. Then new nodes of this machine are started, and finally removed ones stopped.

With several machines, run this command on each within 30 seconds: links tolerate mismatched configurations for that long.

To remove a node, set `removed = true`, which keeps the numbers of its ports reserved, so that the program need not change; or delete it from the file.

Example:
  valiant cluster apply conf/rb4.toml")]
    Apply(Box<UpArgs>),
    /// Write the cluster file and its program to etcd, from which running nodes take them.
    #[command(after_help = "\
The file names etcd in a section [etcd] with endpoints = [\"http://127.0.0.1:2379\"]. Every node's configuration is checked first. \
Changes that somebody else has pushed since your last push or pull are not overwritten.

If etcd uses TLS, the endpoints begin with https://, and [etcd] has ca_file = \"ca.pem\", and cert_file and key_file if etcd asks for a client certificate. If it has users, [etcd] has user and password_file. doc/etcd.md explains the error messages.

Example:
  valiant cluster push conf/rb4.toml")]
    Push(PushArgs),
    /// Read the cluster file and its program from etcd.
    Pull(PullArgs),
    /// Make a key for a cluster, 256 random bits.
    Key {
        /// The file to create; it must not exist. Without it, the key is printed.
        file: Option<PathBuf>,
    },
}

impl ClusterCommand {
    /// Whether JSON is requested.
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
    /// Overwrite changes that somebody else has pushed.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) of: JsonFile,
    /// Overwrite local changes that were not pushed.
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
    /// Repeat until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Interval over which rates are measured.
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
    /// Send packets for a network to a neighbor.
    Add {
        /// The network, as in 10.9.0.0/16.
        #[arg(value_parser = network)]
        prefix: String,
        /// The neighbor, in the network of some external port.
        via: Ipv4Addr,
    },
    /// Replace the route for a network, or add it.
    Set {
        /// The network, as in 10.9.0.0/16.
        #[arg(value_parser = network)]
        prefix: String,
        /// The neighbor, in the network of some external port.
        via: Ipv4Addr,
    },
    /// Remove a route that was added.
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
