//! The element runtime: graph, replicas, scheduler, handlers, hot swap.
//!
//! A configuration ([`lang::Config`]) and a [`Registry`] of element classes become a [`Router`]: one replica of the
//! element graph for each worker. Start with [`Element`], which an element file implements, and [`Cx`], through
//! which it acts.
//!
//! Invariants:
//! 1. Vectors of packets are the only calling convention; dispatch is dynamic once per vector.
//! 2. An element never runs while it runs: packets are delivered when it has returned. No graph can break this.
//! 3. A worker touches nothing that another worker writes, except through types made for it.
//! 4. Every packet that is not forwarded is counted under a reason by [`Cx::drop`].
#![forbid(unsafe_code)]

mod build;
mod builtin;
mod class;
mod clock;
mod configure;
mod cx;
mod devices;
mod element;
mod facts;
mod fuse;
mod graph;
mod handler;
mod handoff;
mod hub;
pub mod placement;
mod ports;
mod router;
mod sched;
mod secrets;
mod services;
mod stats;
pub mod testing;
mod watchdog;
mod worker;

pub use class::{Class, Registry, inert, simple, vector};
pub use clock::{Clock, SIMULATION_START_NS};
pub use configure::{ConfigCx, ControlTask, Plan, PortSlot, Side};
pub use cx::{Core, Cx, MAX_VECTOR};
pub use dpdk::{Anno, Batch, Packet};
pub use element::{Element, Node, Notify, Phase, Sharing, Simple, Vector};
pub use facts::{DropReason, Fields, Role};
pub use fuse::{Chain, Members, Reached, Step};
pub use graph::{Graph, SharedStore};
pub use handler::{Asked, Caller, Combine, Dynamic, Handler, HandlerError, Handlers, Known};
pub use hub::{DropSample, Hub, STOP_SIGNALS};
pub use lang::args::{ArgError, Args, FromArg, NameDb};
pub use placement::{Lane, Lanes, Placement, PortUse, Spread};
pub use router::{ElementInfo, Enter, Options, Router};
pub use sched::{DEFAULT_TICKETS, MAX_TICKETS};
pub use stats::{Counter, MAX_REASONS, SlotStats, StatsSnapshot};
pub use watchdog::Stuck;
pub use worker::LONGEST_NAP;

/// A worker's number, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkerId(pub usize);

/// An element's number in its configuration, from 0 in the order of declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ElementId(pub u32);
