//! A router as a process: the common part of commands that run routers or talk to running ones.
//!
//! # Layers
//!
//! 1. `report`, `library`, `signals`, `machine`, `client`: messages at start; libraries that a configuration
//!    names; signals; options of where and how workers run; the client of a control socket
//! 2. `crash`, `processors`, `service`: crash reports; which processors the workers run on; notifications to
//!    the service manager
//! 3. `options`: from a command's options to those of the runtime
//!
//! Read `options.rs` first. This crate knows no command and no element, and prints to standard error only.
#![forbid(unsafe_code)]

mod client;
pub mod crash;
mod library;
mod machine;
mod options;
mod processors;
mod report;
pub mod service;
mod signals;

pub use client::Client;
pub use library::library;
pub use machine::Machine;
pub use options::{Launch, WATCHDOG_SECONDS};
pub use processors::{cpu_list, warn_of_crowding};
pub use report::{describe_ports, reason, report};
pub use signals::StopSignals;
