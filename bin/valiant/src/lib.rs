//! The command, as a library: a crate that adds elements of its own builds its own `valiant` with [`main_with`].
#![forbid(unsafe_code)]

mod chart;
mod check;
mod cli;
mod client;
mod cluster;
mod crash;
mod driver;
mod graph;
mod host;
mod load;
mod machine;
mod manual;
mod plan;
mod planner;
mod rights;
mod service;
mod sim;
mod traffic;

use clap::{CommandFactory, FromArgMatches};
use cli::{Cli, Command};
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the command over a registry of element classes. Returns the exit status: 0 done, 1 it failed, 2 it was called
/// wrongly, 3 it measured what was not to be.
#[must_use]
pub fn main_with(registry: Registry) -> ExitCode {
    let registry = Arc::new(registry);
    let name =
        std::env::args_os().next().and_then(|a| Some(std::path::Path::new(&a).file_name()?.to_owned()));
    if name.as_ref().is_some_and(|n| n == "click") {
        return driver::click(&registry);
    }
    if name.is_some_and(|n| n == dpdk::helper::NAME) {
        return rights::helper();
    }
    let matches = Cli::command().get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(e) => e.exit(),
    };
    match cli.command {
        Command::Run(args) => driver::run(&registry, &args, "valiant"),
        Command::Gen(args) => traffic::generate(&registry, &args),
        Command::Sink(args) => traffic::receive(&registry, &args),
        Command::Check(args) => check::check(&registry, &args),
        Command::PlanCores(args) => plan::plan_cores(&registry, &args),
        Command::Cluster(args) => cluster::cluster(&registry, &args),
        Command::Plan(args) => planner::plan_cluster(&args),
        Command::Sim(args) => sim::simulate(&args),
        Command::Flatten(args) => check::flatten(&registry, &args),
        Command::Graph(args) => graph::graph(&registry, &args),
        Command::Element(args) => manual::element(&registry, &args),
        Command::Elements(args) => manual::elements(&registry, &args),
        Command::Read(args) => client::read(&args),
        Command::Write(args) => client::write(&args),
        Command::Drops(args) => client::drops(&args),
        Command::Stats(args) => client::stats(&args),
        Command::Doctor(args) => host::doctor(&args),
        Command::Ports(args) => host::ports(&args),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "valiant", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
        Command::Man { dir } => manual::man_pages(&registry, dir.as_deref()),
    }
}
