//! A cluster in simulated time: the same policy code that the elements run, under traffic as it is offered,
//! for thousands of ports.
//!
//! It knows neither DPDK nor elements, opens no file, and never reads a clock. Read `sim.rs` first.
//!
//! # Layers
//!
//! 1. `error`, `wheel`, `fabric`: what cannot be simulated; what is to happen, in order; lines, the queues
//!    before them, packets
//! 2. `traffic`, `report`: matrices, flows, lengths; what is said in the end
//! 3. `config`: what is simulated
//! 4. `shape`: which line leads where
//! 5. `sim`: the simulation, from event to event; how it is set up, and from what was counted to the report
//!
//! # What is simulated
//!
//! Every packet, by itself. Each input line brings packets back to back at rate R, with exponential gaps
//! between them that make up the offered load; packets of a flow come in trains. A server takes some time for
//! a packet, and where that is asked for it has a rate and a queue. The input node asks its
//! [`cluster::Balancer`]; links and output lines send at their rates and share their buffers among inputs.
//! Nothing responds to loss: the load is what it is.
//!
//! What is not: TCP, interrupts and caches, the length of headers on tunnels.
//!
//! The same configuration and seed give the same run, and the traffic depends on the seed only, not on the
//! policy: two modes are compared on the same packets. Nothing here reads a clock.

#![forbid(unsafe_code)]

mod config;
mod error;
mod fabric;
mod report;
mod shape;
mod sim;
mod traffic;
mod wheel;

pub use config::{Config, Failure, Part};
pub use error::SimError;
pub use report::{Fair, Loss, Report, Spread};
pub use sim::Sim;
pub use traffic::{FlowSizes, Matrix, NAMES, Named};
