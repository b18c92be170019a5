//! Batches whose packets belong to several crypto devices.

use super::database::Index;
use crate::prelude::*;
use dpdk::crypto::MAX_JOBS;

/// Splits batches for several devices, in memory that is kept for the next batch.
pub(in crate::ipsec) struct Split<T> {
    rest: Vec<T>,
    theirs: Vec<T>,
}

impl<T> Default for Split<T> {
    fn default() -> Split<T> {
        Split { rest: Vec::new(), theirs: Vec::new() }
    }
}

impl<T: Copy> Split<T> {
    pub(in crate::ipsec) fn new() -> Split<T> {
        Split { rest: Vec::with_capacity(MAX_JOBS), theirs: Vec::with_capacity(MAX_JOBS) }
    }

    /// Calls `each` with the packets of one lane, and with what is known about every packet; the packets that
    /// it leaves in the batch go on.
    pub(in crate::ipsec) fn by_lane(
        &mut self,
        index: &Index,
        known: &[T],
        place: impl Fn(&T) -> u32,
        batch: &mut Batch,
        cx: &mut Cx<'_>,
        mut each: impl FnMut(u32, &[T], &mut Batch, &mut Cx<'_>),
    ) {
        let Some(lane) = known.first().map(|one| index.lane(place(one))) else { return };
        if index.lanes.len() == 1 || known.iter().all(|one| index.lane(place(one)) == lane) {
            return each(lane, known, batch, cx);
        }
        let Split { rest, theirs } = self;
        let mut whole = cx.spare_batch();
        whole.append(batch);
        rest.clear();
        rest.extend_from_slice(known);
        for lane in 0..index.lanes.len() as u32 {
            let its = |one: &T| index.lane(place(one)) == lane;
            let mut part = cx.spare_batch();
            let mut at = 0;
            whole.filter_map_in_place(|packet| {
                let taken = rest.get(at).is_some_and(its);
                at += 1;
                if taken {
                    part.push(packet);
                    return None;
                }
                Some(packet)
            });
            theirs.clear();
            theirs.extend(rest.iter().copied().filter(its));
            rest.retain(|one| !its(one));
            if !part.is_empty() {
                each(lane, theirs, &mut part, cx);
            }
            batch.append(&mut part);
            cx.recycle(part);
        }
        cx.recycle(whole);
    }
}
