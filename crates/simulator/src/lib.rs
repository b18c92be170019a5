//! A cluster in simulated time: the load-balancing code that the elements run, under any offered traffic,
//! with up to thousands of ports.
//!
//! It knows neither DPDK nor elements, opens no file, and never reads a clock. Read `sim.rs` first.
//!
//! # Layers
//!
//! 1. `error`, `wheel`, `fabric`: errors in the parameters; events in the order of time; lines, their queues,
//!    packets
//! 2. `traffic`, `report`: flows, frame sizes; the results
//! 3. `config`: the parameters
//! 4. `shape`: which servers each line connects
//! 5. `scheduler`: a central scheduler that gives flows their paths
//! 6. `sim`: the simulation, event by event; single paths; its setup; the report from its counters
//!
//! # What is simulated
//! Every packet is simulated separately. Each input line brings packets back to back at rate R, with exponential gaps
//! between them that make up the offered load; packets of a flow come in trains. A server takes some time for
//! a packet, and optionally has a rate and a queue. The path of a packet is chosen by the [`cluster::Balancer`] of its input node; links and output lines send at their rates and share their buffers among inputs.
//! Senders do not react to loss.
//! Not simulated: TCP, interrupts and caches, the length of headers on tunnels.
//!
//! The same configuration and seed give the same run, and the traffic depends on the seed only, not on the
//! policy: two policies are compared on the same packets. Nothing here reads a clock.

#![forbid(unsafe_code)]

mod config;
mod error;
mod fabric;
mod report;
mod scheduler;
mod shape;
mod sim;
mod traffic;
mod wheel;

pub use config::{Config, Failure, Part, SinglePath};
pub use error::SimError;
pub use report::{Fair, Loss, Report, Spread};
pub use sim::Sim;
pub use traffic::FlowSizes;
