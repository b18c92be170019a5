//! The element runtime: graph, replicas, scheduler, handlers, hot swap.
//!
//! A configuration ([`lang::Config`]) and a [`Registry`] of element classes become a [`Router`]: one replica
//! of the element graph for each worker. Start with [`Element`], which an element file implements, and
//! [`Cx`], through which it acts.
//!
//! Invariants:
//! 1. Vectors of packets are the only calling convention; dispatch is dynamic once per vector.
//! 2. An element never runs while it runs: packets are delivered when it has returned. No graph can break
//!    this.
//! 3. A worker touches nothing that another worker writes, except through types made for it.
//! 4. Every packet that is not forwarded is counted under a reason by [`Cx::drop`].
//!
//! # Layers
//!
//! From bottom to top; a module refers to its own layer and to those before it, and `make test` looks after
//! that.
//!
//! 1. `ids`, `clock`, `sched`, `facts`, `replacing`, `stats`, `placement`, `secrets`, `services`, `devices`:
//!    numbers, time, run queue and timers, what classes say of themselves, counters, which worker polls which
//!    queue, the names that the machine has for ports and addresses.
//! 2. `handler`, `builtin`, `hub`, `store`, `control`: what workers and the control side share: calls of
//!    handlers and why they fail, requests, samples, state under an element's name; a router as control tasks
//!    see it.
//! 3. `configure`, `options`: what an element may ask while it is configured; how a router runs.
//! 4. `cx`: the graph of one worker, and what an element does in it while it runs.
//! 5. `declare`, `element`, `chain`, `handoff`: what an element file implements.
//! 6. `class`, `ports`, `fuse`, `info`: classes, how their elements fit together, what is known of each.
//! 7. `build`, `worker`: from a configuration to replicas, and what runs one.
//! 8. `watchdog`, `router`: all workers, as the control side has them.
//! 9. `testing`: the bench for one element.
#![forbid(unsafe_code)]

mod build;
mod builtin;
mod chain;
mod class;
mod clock;
mod configure;
mod control;
mod cx;
mod declare;
mod devices;
mod element;
mod facts;
mod fuse;
mod handler;
mod handoff;
mod hub;
mod ids;
mod info;
mod options;
pub mod placement;
mod ports;
mod replacing;
mod router;
mod sched;
mod secrets;
mod services;
mod stats;
mod store;
pub mod testing;
mod watchdog;
mod worker;

pub use tracing::Level;

pub use chain::{Chain, Step};
pub use class::{Class, Registry, inert, simple, vector};
pub use clock::{Clock, SIMULATION_START_NS};
pub use configure::{ConfigCx, PortSlot, Scheduling, Side};
pub use control::{Control, ControlTask};
pub use cx::{Core, Cx, Graph, Handler, MAX_VECTOR, Members, Node, Reached};
pub use declare::Handlers;
pub use dpdk::{Anno, Batch, Packet};
pub use element::{Element, Notify, Phase, Sharing, Simple, Vector};
pub use facts::{DropReason, Facts, Fields, Role};
pub use handler::{Asked, Caller, Combine, Dynamic, HandlerError, Known};
pub use hub::{DropSample, Hub, STOP_SIGNALS, Stuck};
pub use ids::{ElementId, WorkerId};
pub use info::ElementInfo;
pub use lang::args::{ArgError, Args, FromArg, NameDb};
pub use options::{Enter, Options};
pub use placement::{Lane, Lanes, Placement, PortUse, Spread};
pub use replacing::is_replacing;
pub use router::Router;
pub use sched::{DEFAULT_TICKETS, MAX_TICKETS};
pub use stats::{Counter, MAX_REASONS, SlotStats, StatsSnapshot};
pub use store::SharedStore;
pub use worker::LONGEST_NAP;
