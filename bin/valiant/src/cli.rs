//! The command line: help, man pages and completions come from here.

use crate::cluster::args::{ClusterArgs, EXAMPLES as CLUSTER_EXAMPLES};
use crate::planner;
use crate::sim::{self, SimArgs};
use crate::traffic::args::{GenArgs, SinkArgs};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// A parallel software router: runs Click configurations on every core and NIC queue of a server.
#[derive(Parser)]
#[command(name = "valiant", version, about, long_about = None, arg_required_else_help = true, after_help = "\
Examples:
  valiant doctor                                 what this machine offers, and what is missing
  valiant run conf/ip-router-3.click             run a configuration
  valiant run -e 'FromDevice(eth0) -> Print -> Discard'
  valiant check conf/ip-router-3.click           all errors at once, and what serialises
  valiant element Queue                          the manual of an element")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const GEN_EXAMPLES: &str = "\
Examples:
  valiant gen eth0 -r 1Mpps -s 60 -t 10          60-byte frames for ten seconds
  valiant gen eth0 -r 10Gbps-l1 -s imix --dst 10.0.0.0/8 --random -f 65536
  valiant gen --to eth0 --sink eth1 -r 100k -n 1M --max-loss 0     
                                                 through what lies between, and back
  valiant gen eth0 --pcap trace.pcap -r 50k -t 1min
  valiant gen eth0 -r 1k --print-config          what it would run

Exit status: 0 done (also by Ctrl-C), 1 it cannot run, 2 wrong call, 3 more lost or reordered than allowed.";

const SINK_EXAMPLES: &str = "\
Examples:
  valiant sink eth1                              until Ctrl-C
  valiant sink eth1 --idle 2s --max-loss 0.01% --json

Exit status: 0 done (also by Ctrl-C), 1 it cannot run, 2 wrong call, 3 not the frames that were expected.";

const PLAN_EXAMPLES: &str = "\
The rule (RouteBricks, section 3.3): a server gets as many external ports as it can process at cR each, where c is 3 whatever \
the traffic and 2 if it is uniform. If its other NIC ports reach all other servers, the servers are a full mesh; else each \
external server has n = log_k M more servers between inputs and outputs, M being the external servers and k the links of one.

Examples:
  valiant plan --ports 32                        32 ports of 10 Gbps, the paper's servers
  valiant plan --ports 1024 --server more-nics   with 20 NICs for each server instead of 5
  valiant plan --ports 64 --rate 100G --server-rate 600G --nic-slots 8 --nic-ports 2x100G,4x25G
  valiant plan --plot fig3.svg                   servers over ports: the paper's Fig. 3

Exit status: 0 done, 1 no such cluster can be built (the failing assumption is named), 2 wrong call.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a configuration until it stops itself or is interrupted.
    Run(Box<RunArgs>),
    /// Send frames to ports: a traffic generator; with --sink, measure what is between.
    #[command(after_help = GEN_EXAMPLES)]
    Gen(Box<GenArgs>),
    /// Receive the frames of `valiant gen`: rate, loss, order, latency.
    #[command(after_help = SINK_EXAMPLES)]
    Sink(Box<SinkArgs>),
    /// Check a configuration without running it.
    Check(CheckArgs),
    /// Show which worker polls what, on which processor, why, and what breaks the rules of parallel forwarding.
    PlanCores(PlanArgs),
    /// Plan a router out of many servers: how many, joined how, what binds, what it costs; and the same with switches.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(Box<ClusterPlanArgs>),
    /// Many servers, one router: start, show, change and stop a cluster.
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterArgs),
    /// Simulate such a router: throughput, loss, fairness, load of links and servers, queues, latency, order.
    #[command(after_help = sim::EXAMPLES)]
    Sim(Box<SimArgs>),
    /// Print a configuration with compound elements expanded.
    Flatten(FlattenArgs),
    /// Print the element graph as DOT, or draw it as SVG.
    Graph(GraphArgs),
    /// Print the manual of an element.
    Element(ElementArgs),
    /// List the element classes.
    Elements(ElementsArgs),
    /// Read a handler of a running router.
    Read(HandlerArgs),
    /// Write a handler of a running router.
    Write(HandlerArgs),
    /// Show what a running router has dropped, where and why.
    Drops(SocketArgs),
    /// Show packets and cycles per element of a running router.
    Stats(SocketArgs),
    /// Say what this machine offers to Valiant, and how to get what is missing.
    Doctor(JsonArgs),
    /// List the ports that a configuration can use.
    Ports(JsonArgs),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page, or write all man pages into a directory.
    Man {
        /// The directory.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// After how long a worker counts as stuck.
pub(crate) const WATCHDOG_SECONDS: u32 = 5;

/// Where the configuration comes from.
#[derive(Args, Default, Clone)]
pub(crate) struct FileArgs {
    /// Configuration file (`-`: standard input), and NAME=VALUE definitions for its variables.
    #[arg(value_name = "FILE | NAME=VALUE")]
    pub(crate) words: Vec<String>,
    /// Configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// The configuration itself.
    #[arg(short, long, value_name = "EXPR")]
    pub(crate) expression: Option<String>,
    /// Directories to search for libraries that `require(library ...)` names.
    #[arg(short = 'C', long, value_name = "PATH", env = "CLICKPATH")]
    pub(crate) clickpath: Option<String>,
}

#[derive(Args, Default, Clone)]
#[command(disable_help_flag = true, version, disable_version_flag = true)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Listen for control connections on a TCP port of the loopback interface.
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Vec<u16>,
    /// Listen for control connections on a Unix socket.
    #[arg(short, long, value_name = "PATH")]
    pub(crate) unix_socket: Vec<PathBuf>,
    /// Let the `hotconfig` handler replace the configuration.
    #[arg(short = 'R', long)]
    pub(crate) allow_reconfigure: bool,
    /// How many workers.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How the work is laid out: `parallel` (each worker receives, processes and sends), `pipeline` (half of the
    /// workers receive, the others process and send), `serial` (one receives, one sends, the others process), `single`.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) placement: runtime::Placement,
    /// Whether packet buffers, queues and each worker's elements lie on the NUMA node where they are used; `off` is for
    /// comparison.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    pub(crate) numa: String,
    /// The longest vector of packets, 64 if not given; 1 gives exactly Click's order.
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<usize>,
    /// Execute runs of elements as one where that is possible; the default unless `--burst 1`. `valiant check -O` shows which.
    #[arg(short = 'O', long, overrides_with = "no_optimise")]
    pub(crate) optimise: bool,
    /// Execute every element by itself.
    #[arg(long)]
    pub(crate) no_optimise: bool,
    /// CPUs for the workers, as in `0-3,6`: worker N runs on the N-th one. `auto`: the best ones, as `valiant plan-cores`
    /// shows them, which is the default if there are isolated ones.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// The most memory for packet buffers, in MB.
    #[arg(long, value_name = "MB")]
    pub(crate) memory: Option<usize>,
    /// Do not use hugepages.
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Further arguments for DPDK's environment, as in `--eal "--log-level=lib.eal:debug"`.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub(crate) eal: Option<String>,
    /// Print how long the driver ran.
    #[arg(short, long)]
    pub(crate) time: bool,
    /// Do not print warnings.
    #[arg(short = 'w', long)]
    pub(crate) no_warnings: bool,
    /// Do not run the driver.
    #[arg(short, long)]
    pub(crate) quit: bool,
    /// After the run, print a read handler, `ELEMENT.HANDLER`; ELEMENT may be a pattern or a class.
    #[arg(short = 'h', long = "handler", value_name = "ELEMENT.HANDLER")]
    pub(crate) handler: Vec<String>,
    /// Take the exit status from a read handler.
    #[arg(short = 'x', long, value_name = "ELEMENT.HANDLER")]
    pub(crate) exit_handler: Option<String>,
    /// Write the flat configuration to a file (`-`: standard output).
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Run in simulated time: waiting takes no time.
    #[arg(long)]
    pub(crate) simtime: bool,
    /// Say so when a worker does not come to the end of a vector for so long, and name the element that it is in; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = WATCHDOG_SECONDS)]
    pub(crate) watchdog: u32,
    /// Once the ports are open, run as this user, without any capability that they do not use. Without this, a router that the
    /// service manager has started as root stays root and gives up the same capabilities.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Keep these capabilities too, as in `net_raw,net_admin`, for ports that a hot swap adds; give up all others. `all`: keep
    /// everything.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) keep_capability: Vec<String>,
    /// Write dropped packets to a pcapng file, with element and reason as comment.
    #[arg(long, value_name = "FILE")]
    pub(crate) drop_pcap: Option<PathBuf>,
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    pub(crate) help: Option<bool>,
    /// Print the version.
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    pub(crate) version: Option<bool>,
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// How many workers to check for.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Show which runs of elements are executed as one.
    #[arg(short = 'O', long)]
    pub(crate) optimise: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct FlattenArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Add comments that say which runs of elements are executed as one.
    #[arg(short = 'O', long)]
    pub(crate) optimise: bool,
}

#[derive(Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// How many workers to plan for.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How the work is laid out; as for `valiant run`.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) placement: runtime::Placement,
    /// CPUs for the workers, as in `0-3,6`; without, the best ones are chosen, as `valiant run --cpus auto` does.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Plan for the machine that a copy of /sys in this directory describes.
    #[arg(long, value_name = "DIR")]
    pub(crate) sysfs: Option<PathBuf>,
    /// Print the plan as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `valiant plan`: a cluster.
#[derive(Args)]
pub(crate) struct ClusterPlanArgs {
    /// External ports, N.
    #[arg(short = 'n', long, value_name = "N", required_unless_present_any = ["figure3", "plot"])]
    pub(crate) ports: Option<u64>,
    /// The rate of an external port, R.
    #[arg(short, long, value_name = "RATE", default_value = "10G", value_parser = planner::bps)]
    pub(crate) rate: u64,
    /// The paper's servers, with NICs of 2x10G or 8x1G: `current` processes 30G (one port of 10G) and has 5 NICs, `more-nics`
    /// has 20, `faster` has 20 and processes 60G. The options below change them.
    #[arg(long, value_name = "NAME", default_value = "current", value_parser = ["current", "more-nics", "faster"])]
    pub(crate) server: String,
    /// What a server can process.
    #[arg(long, value_name = "RATE", value_parser = planner::bps)]
    pub(crate) server_rate: Option<u64>,
    /// NICs that a server has room for.
    #[arg(long, value_name = "N")]
    pub(crate) nic_slots: Option<u32>,
    /// The kinds of NIC, as PORTSxRATE: each slot takes any one of them.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = planner::nic)]
    pub(crate) nic_ports: Option<Vec<cluster::plan::Nic>>,
    /// The traffic that must be borne: `worst` (whatever overloads no output) or `uniform`.
    #[arg(long, value_name = "NAME", default_value = "worst", value_parser = ["worst", "uniform"])]
    pub(crate) matrix: String,
    /// How long a packet stays in a server, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 24.0, value_parser = planner::amount)]
    pub(crate) server_latency: f64,
    /// Rack units of a server.
    #[arg(long, value_name = "U", default_value_t = 1.0, value_parser = planner::amount)]
    pub(crate) server_units: f64,
    /// Power of a server, in watts.
    #[arg(long, value_name = "W", default_value_t = 650.0, value_parser = planner::amount)]
    pub(crate) server_watts: f64,
    /// Price of a server, in dollars.
    #[arg(long, value_name = "$", default_value_t = 2000.0, value_parser = planner::amount)]
    pub(crate) server_price: f64,
    /// Ports of a switch, for the cluster with switches.
    #[arg(long, value_name = "N", default_value_t = 48)]
    pub(crate) switch_ports: u32,
    /// The rate of a switch's port.
    #[arg(long, value_name = "RATE", default_value = "10G", value_parser = planner::bps)]
    pub(crate) switch_rate: u64,
    /// Price of a port of a switch, in dollars.
    #[arg(long, value_name = "$", default_value_t = 500.0, value_parser = planner::amount)]
    pub(crate) switch_port_price: f64,
    /// Rack units of a switch.
    #[arg(long, value_name = "U", default_value_t = 1.0, value_parser = planner::amount)]
    pub(crate) switch_units: f64,
    /// Power of a switch, in watts; the paper gives none.
    #[arg(long, value_name = "W", value_parser = planner::amount)]
    pub(crate) switch_watts: Option<f64>,
    /// Print the four curves of the paper's Fig. 3, servers over external ports of 10 Gbps.
    #[arg(long)]
    pub(crate) figure3: bool,
    /// Draw these curves as SVG into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// Draw SVG (needs Graphviz's `dot`).
    #[arg(long)]
    pub(crate) svg: bool,
}

#[derive(Args)]
pub(crate) struct ElementArgs {
    /// The element class.
    pub(crate) name: String,
}

#[derive(Args)]
pub(crate) struct ElementsArgs {
    /// Only classes whose name or summary contains this.
    pub(crate) filter: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct JsonArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which running router.
#[derive(Args)]
pub(crate) struct SocketArgs {
    /// The router's control socket: a path, a TCP port of this host, or HOST:PORT.
    #[arg(short, long, env = "VALIANT_SOCKET", default_value = "7777")]
    pub(crate) socket: String,
    /// The token that the socket asks for (`TOKEN` of ControlSocket); other users of this machine see the command line, but
    /// not the environment.
    #[arg(long, env = "VALIANT_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A file with the token.
    #[arg(long, value_name = "FILE", env = "VALIANT_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct HandlerArgs {
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
    /// The handler, `ELEMENT.HANDLER` or a global one.
    pub(crate) handler: String,
    /// The parameter, or the value to write (`-`: standard input).
    pub(crate) value: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_takes_what_the_driver_of_click_takes() {
        let line = "valiant run -f a.click -p 7777 -u /tmp/s -R -j 2 -t -w -q -h c.count -x c.count -o - -C /lib --simtime A=1";
        let Command::Run(args) =
            Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string()).unwrap().command
        else {
            panic!("not run");
        };
        assert_eq!((args.source.file.as_deref(), args.port, args.threads), (Some("a.click"), vec![7777], 2));
        assert_eq!((args.handler, args.source.words), (vec!["c.count".to_owned()], vec!["A=1".to_owned()]));
    }
}
