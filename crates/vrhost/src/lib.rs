//! Virtual routers in one process (the scheme `shared`): each is a [`runtime::Router`] of its own, with its
//! own graph, handlers and hot swap; physical ports and threads are common.
//!
//! A thread of the [`runtime::Crew`] polls its queue of every physical port, finds out to which virtual
//! interface each frame belongs ([`demux`]), and puts it into that interface's queue; routers with packets
//! then run, and what they send gets its tag and goes to the physical port.
//!
//! # Layers
//!
//! From bottom to top; a module uses its own layer and those before it.
//!
//! 1. `allot`, `access`: which routers have a receive queue of their own; how a router's clients reach it
//!    over TCP.
//! 2. `setup`, `outgoing`: what a router is to be, and what is seen of it; the queues of what routers send by
//!    a port that they share.
//! 3. `side`: one physical port on one thread, with the packets that wait to be sent.
//! 4. `board`: what the control thread tells a thread's front.
//! 5. `front`: what receives and sends for the routers of one thread.
//! 6. `ports`: the physical ports, opened and given to threads.
//! 7. `host`: the host with its ports and routers, as the control thread sees it.
#![forbid(unsafe_code)]

mod access;
mod allot;
mod board;
mod front;
mod host;
mod outgoing;
mod ports;
mod setup;
mod side;

pub use access::TcpAccess;
pub use host::{AROUND_TUNNELED, Host, LINK_MTU, Pauses};
pub use ports::PortSetup;
pub use setup::{
    Connection, InterfaceSetup, InterfaceStatus, RouterSetup, RouterStatus, at_interfaces, default_queue,
};
