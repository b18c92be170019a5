//! The engine of trace files: reading and writing them, in the formats pcap, pcapng and IP summary dump.
//!
//! Read first: `capture.rs`, which reads capture files by means of `input.rs`. For IP summary dumps:
//! `fields.rs`, the table of their fields; `fieldvalue.rs` finds their values in packets, `fieldtext.rs`
//! writes them, `fieldreader.rs` reads them, `ipoptions.rs` those of IP options; `binary.rs` has binary
//! records, `format.rs` reads lines and records. `reading.rs` has the code that all elements that read files
//! share. `output.rs` writes all files.

pub(super) mod binary;
pub(super) mod capture;
mod draft;
pub(super) mod facts;
mod fieldreader;
pub(super) mod fields;
pub(super) mod fieldtext;
pub(super) mod fieldvalue;
pub(super) mod format;
pub(crate) mod frames;
pub(super) mod input;
mod ipoptions;
pub(crate) mod link;
pub(super) mod opened;
pub(crate) mod output;
pub(super) mod reading;
