//! The element runtime: graph, replicas, scheduler, handlers, hot swap.
//!
//! A configuration ([`lang::Config`]) and a [`Registry`] of element classes become a [`Router`]: one replica
//! of the element graph for each worker. Start with [`Element`], which an element file implements, and
//! [`Cx`], through which it acts.
//!
//! Invariants:
//! 1. Batches of packets are the only calling convention; dispatch is dynamic once per batch.
//! 2. An element is never re-entered: packets are delivered when it has returned. This holds in every graph.
//! 3. A worker reads and writes data of other workers only through types made for that.
//! 4. Every packet that is not forwarded is counted under a reason by [`Cx::drop`].
//!
//! # Layers
//!
//! From bottom to top; a module uses its own layer and those before it, which `make test` checks.
//!
//! 1. `ids`, `clock`, `sched`, `facts`, `replacing`, `stats`, `placement`, `secrets`, `services`, `devices`:
//!    numbers, time, run queue and timers, the facts of classes, counters, which worker polls which queue,
//!    the machine's names of ports and addresses.
//! 2. `access`, `allow`, `reason`, `handler`, `builtin`, `hub`, `store`, `control`, `inherited`, `limits`:
//!    errors of the operating system in words; what workers and the control thread share: calls of handlers
//!    and their errors, requests, samples, state under an element's name; a router as control tasks see it;
//!    sockets that were opened for this process, tokens for access to it; what a program may name.
//! 3. `configure`, `names`, `options`, `sides`: what an element may ask while it is configured; the names
//!    that values of handlers use; how a router runs; the ports of an element.
//! 4. `cx`: the graph of one worker, and what an element does in it while it runs.
//! 5. `declare`, `element`, `step`, `handoff`: what an element file implements.
//! 6. `class`, `ports`, `live`, `info`: classes, push and pull, which annotations are
//!    read downstream, information on each element.
//! 7. `build`, `worker`: from a configuration to replicas; the loop that runs one.
//! 8. `stall`, `crew`, `watchdog`, `router`: threads that run the workers of many routers; all workers of
//!    one, seen from the control thread.
//! 9. `testing`: the test bench for one element.
#![forbid(unsafe_code)]

mod access;
mod allow;
mod build;
mod builtin;
mod class;
mod clock;
mod configure;
mod control;
mod crew;
mod cx;
mod declare;
mod devices;
mod element;
mod facts;
mod handler;
mod handoff;
mod hub;
mod ids;
mod info;
mod inherited;
mod limits;
mod live;
mod names;
mod options;
pub mod placement;
mod ports;
mod reason;
mod replacing;
mod router;
mod sched;
mod secrets;
mod services;
mod sides;
mod stall;
mod stats;
mod step;
mod store;
pub mod testing;
mod watchdog;
mod worker;

pub use tracing::Level;

pub use access::{Access, Admit, Token};
pub use allow::{Allow, Outside, Refused, Socket, open_beneath, whole};
pub use class::{Class, Registry, inert, simple, vector};
pub use clock::{Clock, SIMULATION_START_NS};
pub use configure::{ConfigCx, PortSlot, Scheduling, Side};
pub use control::{Control, ControlTask};
pub use crew::{Crew, Flushed, Front, Soon, Usage};
pub use cx::{Core, Cx, Graph, Handler, MAX_BATCH, Node, Numbers, StepFacts};
pub use declare::Handlers;
pub use dpdk::{Anno, Batch, Packet};
pub use element::{Element, Notify, Phase, Sharing, Simple, Vector};
pub use facts::{DropCase, DropReason, Facts, Fields, Opens, Role};
pub use handler::{CallArgs, Caller, Combine, Dynamic, HandlerError, KnownHandler, Llrpc};
pub use hub::{DropSample, Hub, STOP_SIGNALS, Stuck, log_place};
pub use ids::{ElementId, WorkerId};
pub use info::ElementInfo;
pub use inherited::{Inherited, bequeath, inherited};
pub use lang::args::{ArgError, Args, FromArg, NameDb};
pub use limits::{Bounds, Budget, Held, Limits, Over, Rate};
pub use live::live_annotations;
pub use names::handler_names;
pub use options::{Idle, Options, ThreadSetup};
pub use placement::{Lane, Lanes, Placement, PortUse, Spread};
pub use reason::reason;
pub use replacing::is_replacing;
pub use router::Router;
pub use sched::{DEFAULT_TICKETS, MAX_TICKETS};
pub use sides::Sides;
pub use stall::Stall;
pub use stats::{Counter, MAX_REASONS, SlotStats, StatsSnapshot};
pub use step::Step;
pub use store::SharedStore;
pub use worker::LONGEST_NAP;
