//! The command, as a library: a crate that adds elements of its own builds its own `valiant` with
//! [`main_with`].
//!
//! # Layers
//!
//! A module uses others of its own layer and those before it.
//!
//! 1. `source`, `chart`, `elapsed`, `dropfile`, `privileges`, `running`: code that several commands use:
//!    reading the configuration, curves as SVG, the time that a run took, the file of dropped packets,
//!    rights, running routers
//! 2. `handlers`, `experiments`, `prediction`, `predict`, `predicted`, `costs`: handlers that are read when a
//!    run is over; experiments, run and reported; a prediction as text and as JSON, how it is made, for
//!    `check` and `bench`, and how it is used, for `plan`; `bench elements`
//! 3. `run`, `check`, `graph`, `manual`, `host`, `papers`, `remote`, `traffic`, `cores`, `capacity`, `sim`:
//!    the commands, each with its arguments. `papers` is `bench papers`; `host` is `doctor` and `ports`;
//!    `remote` is `read`, `write`, `drops` and `stats`; `traffic` is `gen` and `sink`; `cores` is
//!    `plan-cores`; `capacity` is `plan`
//! 4. `serve`: `bench serve`
//! 5. `bench`, `why`, `trace`, `nic`: the commands that measure; those that ask routers as `remote` does
//! 6. `cli`, `click`: the command line as a whole, from which help, man pages and completions come; that of
//!    Click's driver
//!
//! The crate `clusterctl` is `valiant cluster`, and `vrctl` is `valiant vr`. Below all of them is the crate
//! `launch`, a router as a process, which the commands that run routers share. Read `run.rs` first.
#![forbid(unsafe_code)]

mod bench;
mod capacity;
mod chart;
mod check;
mod cli;
mod click;
mod cores;
mod costs;
mod dropfile;
mod elapsed;
mod experiments;
mod graph;
mod handlers;
mod host;
mod manual;
mod nic;
mod papers;
mod predict;
mod predicted;
mod prediction;
mod privileges;
mod remote;
mod run;
mod running;
mod serve;
mod sim;
mod source;
mod trace;
mod traffic;
mod why;

use clap::CommandFactory;
use cli::{Cli, Command};
use launch::logging::{self, LogArgs};
use launch::output;
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// What virtual routers use of this process's memory is counted.
#[global_allocator]
static MEMORY: accounts::Allocator = accounts::Allocator;

/// Runs the command over a registry of element classes. Returns the exit status: 0 success, 1 failure, 2
/// wrong use of the command line, 3 a measured value exceeds a limit such as `--max-loss`.
#[must_use]
pub fn main_with(registry: Registry) -> ExitCode {
    output::conclude(command(registry))
}

fn command(registry: Registry) -> ExitCode {
    let registry = Arc::new(registry);
    let name =
        std::env::args_os().next().and_then(|a| Some(std::path::Path::new(&a).file_name()?.to_owned()));
    if name.as_ref().is_some_and(|n| n == "click") {
        return click::click(&registry);
    }
    if name.is_some_and(|n| n == dpdk::helper::NAME) {
        return privileges::helper();
    }
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(e) => return cli::answer(&e),
    };
    let (log, limited) = match &cli.command {
        // In simulated time there are no attackers, and a run must be repeatable.
        Command::Run(args) => (args.log.clone(), args.simtime.is_none()),
        Command::Gen(args) => (args.log.clone(), true),
        Command::Sink(args) => (args.log.clone(), true),
        Command::Cluster(args) => (args.log.clone(), true),
        Command::Vr(args) => (args.log.clone(), true),
        _ => (LogArgs::default(), true),
    };
    let _logging = logging::start(&log, limited);
    match cli.command {
        Command::Run(args) => run::run(&registry, &args, "valiant"),
        Command::Gen(args) => traffic::generate(&registry, &args),
        Command::Sink(args) => traffic::receive(&registry, &args),
        Command::Check(args) => check::check(&registry, &args),
        Command::PlanCores(args) => cores::plan_cores(&registry, &args),
        Command::Cluster(args) => clusterctl::cluster(&registry, &args),
        Command::Vr(args) => vrctl::vr(&registry, &args),
        Command::Plan(args) => capacity::plan_cluster(&args),
        Command::Sim(args) => sim::simulate(&args),
        Command::Flatten(args) => check::flatten(&registry, &args),
        Command::Graph(args) => graph::graph(&registry, &args),
        Command::Element(args) => manual::element(&registry, &args),
        Command::Elements(args) => manual::elements(&registry, &args),
        Command::Read(args) => remote::read(&args),
        Command::Write(args) => remote::write(&args),
        Command::Drops(args) => remote::drops(&args),
        Command::Stats(args) => remote::stats(&args),
        Command::Why(args) => why::why(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Console(args) => remote::console(&args),
        Command::Bench(args) => bench::bench(&registry, &args),
        Command::Doctor(args) => host::doctor(&args),
        Command::Ports(args) => host::ports(&args),
        Command::Nic(args) => nic::nic(&args),
        Command::Chart => chart::draw(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "valiant", &mut script);
            output::print(&String::from_utf8_lossy(&script));
            ExitCode::SUCCESS
        }
        Command::Man { dir } => manual::man_pages(&registry, Cli::command(), dir.as_deref()),
    }
}
