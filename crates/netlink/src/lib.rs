//! What the kernel of a network namespace knows, followed by netlink: IPv4 routes with their next hops,
//! neighbors, addresses, and the state of interfaces.
//!
//! **What it is.** A [`Follower`] is a thread. It reads everything once, then follows the kernel's
//! notifications, and reads everything again when notifications were lost, when the kernel has removed routes
//! without a notification (it does so when an interface goes down), and from time to time, to compare
//! (*reconciliation*). Changes go to a [`Consumer`], many at once; several changes of one route that come in
//! quick succession are one change. The state is kept once, so memory is bounded by what the kernel has.
//!
//! **What it must not know.** Routers, elements, DPDK. Whoever follows changes nothing in the kernel; only
//! `provide` and `pair`, which make namespaces and interfaces and set addresses, do.
//!
//! **Read first.** `follow.rs`, the thread; then `state.rs`, which route the kernel would use.
//!
//! # Layers
//!
//! From bottom to top; a module uses its own layer and those before it, which `make test` checks.
//!
//! 1. `model`, `error`: routes, next hops, links; errors with messages that state what to do.
//! 2. `message`, `state`: netlink messages as events, and requests; everything that is known, and what of it
//!    has changed.
//! 3. `socket`: network namespaces, and netlink sockets in them.
//! 4. `follow`, `provide`: the thread; namespaces and addresses that are set up.
//! 5. `pair`: pairs of interfaces that are set up.
#![forbid(unsafe_code)]

mod error;
mod follow;
mod message;
mod model;
mod pair;
mod provide;
mod socket;
mod state;

pub use error::Error;
pub use follow::{Changes, Consumer, Follower, Health, Options, Status};
pub use model::{Address, Gateway, Hop, Kind, Link, Neighbor, Resolved};
pub use pair::{make_pair, remove_pair, take_all_frames};
pub use socket::Namespace;
pub use state::State;
pub use tables::Prefix;
