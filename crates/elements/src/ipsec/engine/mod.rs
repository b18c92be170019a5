//! The engine of IPsec: the security associations, and code that both directions of ESP share.
//!
//! Read first: `spec.rs`, an association as a line of text; `association.rs`, an association in use; then
//! `database.rs`, in which workers find it without a lock, and `esp.rs`, the element of both directions.

pub(super) mod association;
pub(super) mod database;
pub(super) mod esp;
mod hold;
mod lanes;
mod selectors;
pub(super) mod spec;
pub(super) mod window;
