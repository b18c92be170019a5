//! A router as a process of its host: what the commands that run routers, or talk to routers that run, have
//! in common.
//!
//! # Layers
//!
//! 1. `progress`, `library`, `signals`, `machine`, `client`: how far something is that takes long; finding
//!    the libraries that a configuration names; what stops a router; options of where and how workers run;
//!    the client of a control socket
//! 2. `logging`: what is logged, and how
//! 3. `report`: what a starting router tells its user
//! 4. `crash`, `processors`, `service`: what a router that fails leaves behind; which processors the workers
//!    run on; what the service manager is told
//! 5. `options`: from what was asked for to what the runtime is started with
//!
//! Read `options.rs` first. This crate knows no command and no element, and prints to standard error only.
#![forbid(unsafe_code)]

mod client;
pub mod crash;
mod library;
pub mod logging;
mod machine;
mod options;
mod processors;
pub mod progress;
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
