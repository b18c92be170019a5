//! Trace files.

mod capture;
mod fromdump;
mod input;
mod link;
mod output;
#[cfg(test)]
mod testfile;
mod todump;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<fromdump::FromDump>());
    r.add(vector::<todump::ToDump>());
}
