//! The engine of route lookup: one table for all classes. The search itself is [`tables::Lpm`].
//!
//! Read first: `routes.rs`; its next hops have numbers, which `hops.rs` allocates. `text.rs` reads and writes
//! routes; `fold.rs` is the hash of its tables.

mod fold;
mod hops;
pub(super) mod routes;
pub(super) mod text;
