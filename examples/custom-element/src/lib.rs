//! Elements outside Valiant's library, and a command of their own.
//!
//! **What it is.** An example for a crate that adds element classes to Valiant; `doc/custom-elements.md`
//! explains every part.
//!
//! **What it must not know.** The inside of Valiant's crates: it uses what they export.
//!
//! **Read first.** `countttl.rs`, an element with its tests; then `main.rs`, the command.
#![forbid(unsafe_code)]

pub mod countttl;
pub mod staticneighbors;

use countttl::CountTtl;
use runtime::{Registry, simple};
use staticneighbors::StaticNeighbors;

/// Adds this crate's element classes.
pub fn register(registry: &mut Registry) {
    registry.add(simple::<CountTtl>());
    registry.add(simple::<StaticNeighbors>());
}
