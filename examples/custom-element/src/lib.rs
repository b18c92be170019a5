//! Elements outside Valiant's library; `doc/custom-elements.md` explains every part.
#![forbid(unsafe_code)]

pub mod countttl;
pub mod staticneighbors;

use runtime::{Registry, simple};

/// Adds this crate's element classes.
pub fn register(registry: &mut Registry) {
    registry.add(simple::<countttl::CountTtl>());
    registry.add(simple::<staticneighbors::StaticNeighbors>());
}
