//! The engines of queues and shapers.
//!
//! Read first: `store.rs`, in which queues keep their packets.

pub(crate) mod store;
