//! Plumbing: sources, sinks, switches, tees, and elements that look at or mark packets.

mod counter;
mod discard;
mod infinitesource;
mod null;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<counter::CounterElement>());
    r.add(vector::<discard::Discard>());
    r.add(vector::<infinitesource::InfiniteSource>());
    r.add(simple::<null::Null>());
}
