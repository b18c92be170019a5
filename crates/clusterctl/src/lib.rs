//! `valiant cluster`: several servers that act as one router. The command as a library, for the program that
//! has the element classes.
//!
//! # Layers
//!
//! 1. `args`, `file`, `outcome`: the command line; the cluster file: its text, its meaning, its consistency;
//!    results of a command
//! 2. `split`, `key`, `process`: one configuration for each node, of the program of the whole router; the
//!    cluster's key; the processes of this machine's nodes
//! 3. `program`: the program of a cluster, and the check of its nodes' configurations
//! 4. `etcd`: the file, routes and members in etcd, which is optional
//! 5. `check`, `run`, `control`, `show`, `route`: the commands: `run` is one node in the foreground,
//!    `control` starts, stops and reconfigures those of this machine, `show` and `route` ask all nodes that
//!    answer
//!
//! Read `file/model.rs` and `split.rs` first. This crate forwards no packets and knows the classes that it
//! puts into configurations by their names only.
#![forbid(unsafe_code)]

mod args;
mod check;
mod control;
mod etcd;
mod file;
mod key;
mod outcome;
mod process;
mod program;
mod route;
mod run;
mod show;
mod split;
#[cfg(test)]
mod testing;

pub use args::{ClusterArgs, EXAMPLES};

use args::ClusterCommand;
use launch::output::print;
use launch::progress::waiting;
use program::configuration;
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `valiant cluster`. Returns the exit status: 0 done, 1 it failed, 3 done, but not by all nodes.
#[must_use]
pub fn cluster(registry: &Arc<Registry>, args: &ClusterArgs) -> ExitCode {
    let what = match &args.command {
        ClusterCommand::Check(_) | ClusterCommand::Config(_) => "checking every node's configuration",
        ClusterCommand::Up(_) | ClusterCommand::Down(_) | ClusterCommand::Apply(_) => "waiting for the nodes",
        ClusterCommand::Push(_) | ClusterCommand::Pull(_) => "waiting for etcd",
        // These commands run until they end, or print their own output.
        _ => "",
    };
    let done = waiting(what.is_empty(), what, || match &args.command {
        ClusterCommand::Check(args) => check::check(registry, args),
        ClusterCommand::Config(args) => program::load(registry, &args.file).and_then(|(cluster, program)| {
            print(&configuration(&cluster, &program, process::node(&cluster, args.node)?)?);
            Ok(ExitCode::SUCCESS)
        }),
        ClusterCommand::Run(args) => run::run(registry, args),
        ClusterCommand::Up(args) => control::up(registry, args),
        ClusterCommand::Down(args) => control::down(args),
        ClusterCommand::Status(args) => show::status(args),
        ClusterCommand::Matrix(args) => show::matrix(args),
        ClusterCommand::Route(args) => route::route(args),
        ClusterCommand::Apply(args) => control::apply(registry, args),
        ClusterCommand::Push(args) => etcd::push(registry, args),
        ClusterCommand::Pull(args) => etcd::pull(args),
        ClusterCommand::Key { file } => key::key(file.as_deref()),
    });
    done.unwrap_or_else(|failure| {
        if args.command.json() {
            print(&format!("{}\n", failure.json()));
        } else {
            failure.report();
        }
        ExitCode::FAILURE
    })
}
