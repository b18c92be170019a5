//! Code that the measuring elements share. The calculations are in the crate `measure`.
//!
//! Read first: `report.rs`, how results are written; then `frames.rs`, where the frames of a source come from
//! (`replay.rs`: a capture file; `outputs.rs`: which go to which output of a device), and `pacing.rs`, how
//! many of them are due.
//! `number.rs` and `record.rs` are the numbers and times that NumberPacket and RecordTimestamp leave for
//! others, in `slots.rs`.

pub(super) mod frames;
pub(super) mod number;
pub(super) mod outputs;
pub(super) mod pacing;
pub(super) mod record;
pub(super) mod replay;
pub(super) mod report;
pub(super) mod slots;
