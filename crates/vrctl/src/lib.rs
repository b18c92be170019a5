//! `valiant vr`: virtual routers, many routers on one host. The command as a library, for the program that
//! has the element classes.
//!
//! # Layers
//!
//! 1. `args`, `file`: the command line; the host file: its text, its meaning, its consistency
//! 2. `machine`, `program`: what of the file this machine does not have; the program of a router, and its
//!    check
//! 3. `check`: the commands
//!
//! Read `file/model.rs` first. This crate forwards no packets and knows no element class.
#![forbid(unsafe_code)]

mod args;
mod check;
mod file;
mod machine;
mod program;

pub use args::{EXAMPLES, VrArgs};
pub use file::{
    HostFile, HostPort, InterfaceId, Limits, Link, Owner, Scheme, Sharing, Tag, VirtualInterface,
    VirtualRouter,
};
pub use machine::lacking;
pub use program::{CheckedProgram, check_program, load_options, source};

use args::VrCommand;
use launch::progress::waiting;
use runtime::Registry;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `valiant vr`. Returns the exit status: 0 done, 1 it failed.
#[must_use]
pub fn vr(registry: &Arc<Registry>, args: &VrArgs) -> ExitCode {
    match &args.command {
        VrCommand::Check(args) => {
            let checked =
                waiting(false, "checking the programs", || check::Checked::new(registry, &args.file));
            checked.show(args.json)
        }
    }
}
