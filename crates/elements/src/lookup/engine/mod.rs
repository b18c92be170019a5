//! The engine of route lookup: one table for all classes. The search itself is [`tables::Lpm`].
//!
//! Read first: `routes.rs`; its next hops have numbers, which `hops.rs` allocates. `text.rs` reads and writes
//! routes; `fold.rs` is the hash of its tables. `kernel.rs` brings a table into step with the kernel's.

mod fold;
pub(super) mod hops;
pub(super) mod kernel;
pub(super) mod routes;
pub(super) mod text;
