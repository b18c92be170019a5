//! The engines of queues and shapers.
//!
//! Read first: `store.rs`, where queues keep their packets; `rate.rs` is the token bucket of everything that
//! holds a rate.

pub(crate) mod rate;
pub(crate) mod store;
