//! The engine of IPsec: the security associations, and what the two directions of ESP share.
//!
//! Read first: `spec.rs`, what a line of text says; `association.rs`, what it becomes; then `database.rs`,
//! how workers find it without a lock.

pub(super) mod association;
pub(super) mod database;
pub(super) mod hold;
pub(super) mod lanes;
mod selectors;
pub(super) mod spec;
pub(super) mod window;
