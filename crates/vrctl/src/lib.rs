//! `valiant vr`: virtual routers, many routers on one host. The command as a library, for the program that
//! has the element classes.
//!
//! # Layers
//!
//! 1. `args`, `file`: the command line; the host file: its text, its meaning, its consistency
//! 2. `machine`, `program`, `token`: what of the file this machine does not have; the program of a router,
//!    and its check; the token of its owner
//! 3. `socket`, `setup`, `division`, `control`, `cgroup`, `confine`: requests to a running host; from the
//!    file to what runs; interfaces that the kernel divides; namespaces and TAPs of control planes; what the
//!    process of a router may have and do
//! 4. `cleaner`, `hybrid`, `child`, `direct`: processes of routers: what removes them if the host is killed,
//!    how packets pass to them, what runs in them, how the host sees them
//! 5. `view`, `check`, `run`, `commands`: what is shown of a host; the commands
//!
//! Read `file/model.rs` first. This crate forwards no packets and knows no element class.
#![forbid(unsafe_code)]

mod args;
mod cgroup;
mod check;
mod child;
mod cleaner;
mod commands;
mod confine;
mod control;
mod direct;
mod division;
mod file;
mod hybrid;
mod machine;
mod program;
mod run;
mod setup;
mod socket;
mod token;
mod view;

pub use args::{EXAMPLES, VrArgs};
pub use file::{
    Control, HostFile, HostPort, InterfaceId, Limits, Link, Owner, Scheme, Sharing, Tag, Tcp, TunnelEnds,
    VirtualInterface, VirtualRouter,
};
pub use machine::lacking;
pub use program::{CheckedProgram, check_program, load_options, source};

use args::VrCommand;
use launch::Failure;
use launch::progress::waiting;
use runtime::Registry;
use socket::Request;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `valiant vr`. Returns the exit status: 0 done, 1 it failed.
#[must_use]
pub fn vr(registry: &Arc<Registry>, vr: &VrArgs) -> ExitCode {
    match &vr.command {
        VrCommand::Check(args) => {
            let checked =
                waiting(false, "checking the programs", || check::Checked::new(registry, &args.file));
            checked.show(args.json)
        }
        VrCommand::Run(args) => ended(run::run(registry, args, &vr.log)),
        VrCommand::RunRouter => ended(child::run(registry)),
        VrCommand::CleanUp => cleaner::run(),
        VrCommand::Status(args) => ended(commands::status(args)),
        VrCommand::Up(args) => ended(commands::up(registry, args, &vr.log)),
        VrCommand::Top(args) => ended(commands::top(args)),
        VrCommand::Apply(args) => ended(commands::apply(args)),
        VrCommand::Add(args) => ended(commands::change(args, &Request::Add(args.router.clone()))),
        VrCommand::Remove(args) => ended(commands::change(args, &Request::Remove(args.router.clone()))),
        VrCommand::Console(args) => ended(commands::console(args)),
        VrCommand::Down(args) => ended(commands::down(args)),
    }
}

/// The exit status of a command.
fn ended(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        failure.report();
        ExitCode::FAILURE
    })
}
