//! The engine of trace files: reading and writing them, in the formats pcap, pcapng and IP summary dump.
//!
//! Read first: `capture.rs`, which reads capture files, over `input.rs`. For IP summary dumps `fields.rs`,
//! the table of their fields; `fieldwriter.rs` and `fieldreader.rs` write and read their values. Everything
//! is written by `output.rs`.

pub(super) mod capture;
pub(super) mod draft;
pub(super) mod facts;
pub(super) mod fieldreader;
pub(super) mod fields;
pub(super) mod fieldwriter;
pub(crate) mod frames;
pub(super) mod input;
pub(super) mod link;
pub(super) mod opened;
pub(super) mod output;
pub(super) mod reading;
