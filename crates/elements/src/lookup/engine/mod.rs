//! The engine of route lookup: one table behind every class. The search itself is [`tables::Lpm`].
//!
//! Read first: `routes.rs`; its next hops have numbers, which `hops.rs` gives out. `text.rs`
//! has how routes are written.

mod hops;
pub(super) mod routes;
pub(super) mod text;
