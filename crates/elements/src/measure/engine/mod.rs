//! What the measuring elements share. The arithmetic of measuring is the crate `measure`.
//!
//! Read first: `report.rs`, how results are written; `replay.rs` has the frames of a capture file that a
//! source sends.

pub(super) mod replay;
pub(super) mod report;
