//! The engines of queues and shapers.
//!
//! Read first: `store.rs`, in which queues keep their packets; `rate.rs` is the token bucket of all elements
//! that limit a rate.

pub(crate) mod rate;
pub(crate) mod store;
