//! Trace files.

pub(crate) mod engine;
mod fromdump;
mod fromipsummarydump;
#[cfg(test)]
mod tests;
mod todump;
mod toipsummarydump;

use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<fromdump::FromDump>());
    r.add(vector::<fromipsummarydump::FromIpSummaryDump>());
    r.add(vector::<todump::ToDump>());
    r.add(vector::<toipsummarydump::ToIpSummaryDump>());
}
