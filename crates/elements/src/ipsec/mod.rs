//! IPsec: ESP in tunnel mode (RFC 4303) through DPDK's crypto devices.

mod association;
mod database;
mod espdecap;
mod espencap;
mod ipsecsad;
mod window;

use crate::prelude::*;
use database::Index;
use runtime::{Registry, inert, vector};

/// Registers the section's classes.
pub fn register(r: &mut Registry) {
    r.add(inert::<ipsecsad::IPsecSAD>());
    r.add(vector::<espencap::ESPEncap>());
    r.add(vector::<espdecap::ESPDecap>());
}

/// Takes a vector apart for several devices: `each` gets what belongs to one, with what is known of every packet, and leaves in the
/// vector what goes on.
fn by_lane<T: Copy>(
    index: &Index,
    known: &[T],
    place: impl Fn(&T) -> u32,
    batch: &mut Batch,
    cx: &mut Cx<'_>,
    mut each: impl FnMut(u32, &[T], &mut Batch, &mut Cx<'_>),
) {
    let mut whole = cx.spare_batch();
    whole.append(batch);
    let mut rest: Vec<(T, Packet)> = known.iter().copied().zip(whole.drain(..)).collect();
    cx.recycle(whole);
    for lane in 0..index.lanes.len() as u32 {
        let (mut part, mut theirs) = (cx.spare_batch(), Vec::with_capacity(rest.len()));
        for (one, packet) in rest.extract_if(.., |(one, _)| index.lane(place(one)) == lane) {
            theirs.push(one);
            part.push(packet);
        }
        if !part.is_empty() {
            each(lane, &theirs, &mut part, cx);
        }
        batch.append(&mut part);
        cx.recycle(part);
    }
}
