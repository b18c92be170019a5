//! The engine of trace files: reading and writing them, in the formats pcap, pcapng and IP summary dump.
//!
//! Read first: `capture.rs`, which reads capture files by means of `input.rs`. For IP summary dumps:
//! `fields.rs`, the table of their fields; `fieldwriter.rs` and `fieldreader.rs` write and read the values,
//! `ipoptions.rs` those of IP options, `format.rs` reads lines. `reading.rs` has the code that all elements
//! that read files share. `output.rs` writes all files.

pub(super) mod capture;
mod draft;
pub(super) mod facts;
mod fieldreader;
pub(super) mod fields;
pub(super) mod fieldwriter;
pub(super) mod format;
pub(crate) mod frames;
pub(super) mod input;
mod ipoptions;
pub(super) mod link;
pub(super) mod opened;
pub(super) mod output;
pub(super) mod reading;
