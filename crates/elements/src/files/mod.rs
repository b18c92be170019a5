//! Trace files.

mod capture;
mod draft;
mod facts;
mod fields;
mod frames;
mod fromdump;
mod fromipsummarydump;
mod input;
mod link;
mod opened;
mod output;
mod reading;
#[cfg(test)]
mod testfile;
mod todump;
mod toipsummarydump;

pub(crate) use frames::read_frames;
use runtime::{Registry, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(vector::<fromdump::FromDump>());
    r.add(vector::<fromipsummarydump::FromIpSummaryDump>());
    r.add(vector::<todump::ToDump>());
    r.add(vector::<toipsummarydump::ToIpSummaryDump>());
}
