//! The engine of a cluster node: state that its elements share. Policy and protocols are in the crate
//! `cluster`; this engine supplies clock, locks, links and counters for them.
//!
//! Read first: `state.rs`, the state that the elements on all workers share (`counts.rs` has their counters,
//! `report.rs` the text of handlers); then `fabric.rs`, the protocol between neighbors; `linkview.rs` has the
//! handlers of a link.

pub(super) mod counts;
pub(super) mod fabric;
pub(super) mod identity;
pub(super) mod inputnode;
pub(super) mod linkview;
pub(super) mod network;
pub(super) mod numbering;
mod outages;
mod report;
pub(super) mod shares;
pub(super) mod spread;
pub(super) mod state;
pub(super) mod transit;
