//! Measuring: a source of test frames, and a sink that measures their loss, order and latency; elements that
//! number packets and record their times.

mod checknumberpacket;
mod engine;
mod fault;
mod measurehop;
mod measuresink;
mod measuresource;
mod numberpacket;
mod recordtimestamp;
mod timestampaccum;
mod timestampdiff;
mod workpackage;

use runtime::{Registry, simple, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(simple::<checknumberpacket::CheckNumberPacket>());
    r.add(simple::<fault::Fault>());
    r.add(simple::<measurehop::MeasureHop>());
    r.add(vector::<measuresink::MeasureSink>());
    r.add(vector::<measuresource::MeasureSource>());
    r.add(vector::<numberpacket::NumberPacket>());
    r.add(simple::<recordtimestamp::RecordTimestamp>());
    r.add(simple::<timestampaccum::TimestampAccum>());
    r.add(simple::<timestampdiff::TimestampDiff>());
    r.add(simple::<workpackage::WorkPackage>());
}
