//! The engine of IPsec: the security associations, and what the two directions of ESP share.
//!
//! Read first: `spec.rs`, what a line of text says; `association.rs`, what it becomes; then `database.rs`,
//! how workers find it without a lock, and `esp.rs`, the element of both directions.

pub(super) mod association;
pub(super) mod database;
pub(super) mod esp;
mod hold;
mod lanes;
mod selectors;
pub(super) mod spec;
pub(super) mod window;
