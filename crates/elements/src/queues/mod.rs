//! Queues, shapers and schedulers.

mod queue;
mod unqueue;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<queue::Queue>());
    r.add(vector::<unqueue::Unqueue>());
}
