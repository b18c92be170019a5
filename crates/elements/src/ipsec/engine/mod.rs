//! The engine of IPsec: the security associations, and what the two directions of ESP share.
//!
//! Read first: `association.rs`, what an association is; then `database.rs`, how workers find it without a
//! lock.

pub(super) mod association;
pub(super) mod database;
pub(super) mod hold;
pub(super) mod lanes;
pub(super) mod secret;
mod selectors;
pub(super) mod window;
