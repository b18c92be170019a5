//! A router as a process: the common part of commands that run routers or talk to running ones.
//!
//! # Layers
//!
//! 1. `progress`, `limit`, `relay`, `library`, `signals`, `machine`, `client`, `contention`, `text`: progress
//!    of long work; the rate limit of messages; a thread that prints; libraries that a configuration names;
//!    signals; options of where and how workers run; the client of a control socket; threads that wait for a
//!    processor; text files
//! 2. `logging`: what is logged, and how
//! 3. `report`, `output`, `failure`, `settings`: messages at start; standard output; why a command failed;
//!    files in TOML, with the places of all errors
//! 4. `crash`, `processors`, `service`: crash reports; which processors the workers run on; notifications to
//!    the service manager
//! 5. `options`, `background`, `live`, `console`: from a command's options to those of the runtime; a process
//!    in the background; output that is renewed; handlers, line by line
//!
//! Read `options.rs` first. This crate knows no command and no element.
#![forbid(unsafe_code)]

mod background;
mod client;
pub mod console;
mod contention;
pub mod crash;
mod failure;
mod library;
mod limit;
pub mod live;
pub mod logging;
mod machine;
mod options;
pub mod output;
mod processors;
pub mod progress;
mod relay;
mod report;
pub mod service;
pub mod settings;
mod signals;
mod text;

pub use background::Background;
pub use client::Client;
pub use contention::{kept_waiting, processor_time};
pub use failure::{Failure, shortest};
pub use library::library;
pub use machine::Machine;
pub use options::{Launch, WATCHDOG_SECONDS};
pub use processors::{bind_here, cpu_list, enter_measured, warn_of_crowding};
pub use report::{describe_ports, report, report_as_click};
pub use runtime::reason;
pub use signals::StopSignals;
pub use text::read_text;
