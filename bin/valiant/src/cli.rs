//! The command line: help, man pages and completions come from here.

use crate::bench::{self, BenchArgs};
use crate::capacity::{self, CapacityArgs};
use crate::check::{CheckArgs, FlattenArgs};
use crate::cores::CoresArgs;
use crate::graph::GraphArgs;
use crate::host::JsonArgs;
use crate::manual::{ElementArgs, ElementsArgs};
use crate::nic::{self, NicArgs};
use crate::remote::{HandlerArgs, SocketArgs};
use crate::run::RunArgs;
use crate::sim::args::{self as sim, SimArgs};
use crate::traffic::args::{GEN_EXAMPLES, GenArgs, SINK_EXAMPLES, SinkArgs};
use clap::{Parser, Subcommand};
use clusterctl::{ClusterArgs, EXAMPLES as CLUSTER_EXAMPLES};
use launch::output;
use std::path::PathBuf;
use std::process::ExitCode;
use vrctl::{EXAMPLES as VR_EXAMPLES, VrArgs};

/// A parallel software router: runs Click configurations on every core and NIC queue of a server.
#[derive(Parser)]
#[command(name = "valiant", version, about, long_about = None, arg_required_else_help = true, after_help = "\
Examples:
  valiant doctor                                 what this machine offers, and what is missing
  valiant run conf/ip-router-3.click             run a configuration
  valiant run -e 'FromDevice(eth0) -> Print -> Discard'
  valiant check conf/ip-router-3.click           all errors at once, and what does not run in parallel
  valiant element Queue                          the manual of an element")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// `valiant vr` alone: to put the arguments of all commands together takes a millisecond, as long as a
/// running host takes to remove a router.
#[derive(Parser)]
#[command(name = "valiant")]
struct VrAlone {
    #[command(subcommand)]
    command: VrCommand,
}

#[derive(Subcommand)]
enum VrCommand {
    Vr(VrArgs),
}

impl Cli {
    /// Reads the command line.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        // Whatever is wrong is reported with help for all commands.
        if std::env::args_os().nth(1).is_some_and(|word| word == "vr")
            && let Ok(VrAlone { command: VrCommand::Vr(args) }) = VrAlone::try_parse()
        {
            return Ok(Self { command: Command::Vr(args) });
        }
        Self::try_parse()
    }
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a configuration until it stops itself or is interrupted.
    Run(Box<RunArgs>),
    /// Generate traffic: send frames to ports; with --sink, also measure the device under test.
    #[command(after_help = GEN_EXAMPLES)]
    Gen(Box<GenArgs>),
    /// Receive frames that `valiant gen` sends and measure rate, loss, order and latency.
    #[command(after_help = SINK_EXAMPLES)]
    Sink(Box<SinkArgs>),
    /// Check a configuration without running it; with --predict, say how fast it will run.
    Check(CheckArgs),
    /// Show which worker polls which queues on which processor, why, and what does not run in parallel.
    PlanCores(CoresArgs),
    /// Plan a cluster: number of servers, topology, bottleneck and cost, also compared with switches.
    #[command(after_help = capacity::EXAMPLES)]
    Plan(Box<CapacityArgs>),
    /// Start, show, change and stop a cluster: several servers that act as one router.
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterArgs),
    /// Virtual routers: many routers on one host, each with its own program and share.
    #[command(after_help = VR_EXAMPLES)]
    Vr(VrArgs),
    /// Simulate a cluster: throughput, loss, fairness, load of links and servers, queues, latency, order.
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
    /// Find what limits a running router, with the numbers that show it and what to change.
    #[command(after_help = crate::why::EXAMPLES)]
    Why(crate::why::WhyArgs),
    /// Follow single packets through the elements of a running router, with times and workers.
    #[command(after_help = crate::trace::EXAMPLES)]
    Trace(crate::trace::TraceArgs),
    /// Read and write the handlers of a running router line by line, with history and completion.
    #[command(after_help = "\
Lines come from the terminal, or from standard input if that is none: then the exit status is 1 if one of them failed. `help` lists what they can say.

Examples:
  valiant console --socket /run/valiant/edge/blue.sock
  echo 'c.count' | valiant console --socket 7777")]
    Console(SocketArgs),
    /// Measure: this machine, devices under test, elements, how fast a configuration will be.
    #[command(after_help = bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Report what this machine offers to Valiant, and how to get what is missing.
    Doctor(JsonArgs),
    /// List the ports that a configuration can use.
    Ports(JsonArgs),
    /// Network cards: what a port's device can do, found by trying.
    #[command(after_help = nic::EXAMPLES)]
    Nic(NicArgs),
    /// Draw curves, which standard input describes as JSON, as SVG: for the scripts that make figures.
    #[command(hide = true)]
    Chart,
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

/// Prints what the command line itself answers: help, the version, what is wrong with the arguments. Returns
/// the exit status.
pub(crate) fn answer(e: &clap::Error) -> ExitCode {
    let printed = e.print();
    if !e.use_stderr() {
        output::done(printed);
    }
    ExitCode::from(e.exit_code() as u8)
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
        let line = "valiant run -f a.click -p 7777 -u /tmp/s --socket 3 -R -j 2 -t -w -q -h c.count -x c.count -o - -C /lib --simtime A=1";
        let Command::Run(args) =
            Cli::try_parse_from(line.split(' ')).map_err(|e| e.to_string()).unwrap().command
        else {
            panic!("not run");
        };
        assert_eq!(
            (args.source.file.as_deref(), args.port, args.threads),
            (Some("a.click"), vec!["7777".to_owned()], 2)
        );
        assert_eq!((args.handler, args.source.words), (vec!["c.count".to_owned()], vec!["A=1".to_owned()]));
    }
}
