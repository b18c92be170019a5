//! A batch split by owner.

use crate::claims::{AS_IT_IS, NOBODY_ADDRESS, NOBODY_TAG, SEVERAL, Snapshot};
use crate::counts::Counts;
use crate::frame;
use crate::sorted::Sorted;
use crate::table::Reader;
use dpdk::{Batch, Packet};

impl Reader {
    /// Splits a batch of received frames, whose data begins at the Ethernet header, by owner; tags that are
    /// claimed are taken off. The batch is empty then. Packets that are still in `sorted` from before are
    /// freed.
    ///
    /// Annotations are not changed: marks of headers are where they were.
    #[inline]
    pub fn split(&mut self, batch: &mut Batch, sorted: &mut Sorted) {
        self.refresh();
        sorted.clear();
        if batch.is_empty() {
            return;
        }
        let claims = self.claims();
        sorted.reserve(claims.owners.len());
        if let Some(place) = claims.whole {
            std::mem::swap(sorted.batch(place, &claims.owners), batch);
            return;
        }
        let (first, mixed) = find(claims, batch, sorted);
        if first < SEVERAL && !mixed {
            std::mem::swap(sorted.batch(first & !AS_IT_IS, &claims.owners), batch);
            return;
        }
        let counts = distribute(claims, batch, sorted);
        if counts != Counts::default() {
            self.count(&counts);
        }
    }
}

/// Writes what is found for each frame to `sorted`; returns what was for the first, and whether another has
/// something else.
#[inline(never)]
fn find(claims: &Snapshot, batch: &mut Batch, sorted: &mut Sorted) -> (u32, bool) {
    sorted.found.clear();
    sorted.found.extend(batch.iter_mut().map(|packet| frame::owner(claims, packet)));
    let first = sorted.found.first().copied().unwrap_or(NOBODY_TAG);
    (first, sorted.found.iter().any(|&found| found != first))
}

/// Moves every packet to where it belongs.
#[inline(never)]
fn distribute(claims: &Snapshot, batch: &mut Batch, sorted: &mut Sorted) -> Counts {
    let mut counts = Counts::default();
    let mut copies_left = sorted.most_copies;
    let found = std::mem::take(&mut sorted.found);
    for (packet, &found) in batch.drain(..).zip(&found) {
        if found < SEVERAL {
            sorted.batch(found & !AS_IT_IS, &claims.owners).push(packet);
        } else {
            others(claims, packet, found, sorted, &mut counts, &mut copies_left);
        }
    }
    sorted.found = found;
    sorted.dropped.clear();
    counts
}

/// A packet that is not for one owner: for several, or for none.
#[inline(never)]
fn others(
    claims: &Snapshot,
    packet: Packet,
    found: u32,
    sorted: &mut Sorted,
    counts: &mut Counts,
    copies_left: &mut usize,
) {
    match found {
        NOBODY_TAG => counts.nobody_tag += 1,
        NOBODY_ADDRESS => counts.nobody_address += 1,
        crate::claims::MALFORMED => counts.malformed += 1,
        _ => return to_each(claims, packet, found - SEVERAL, sorted, counts, copies_left),
    }
    sorted.dropped.push(packet);
}

/// A packet for each owner of a shared tag. If there are not enough copies for all, the next frame begins
/// with those who got none.
fn to_each(
    claims: &Snapshot,
    packet: Packet,
    shared: u32,
    sorted: &mut Sorted,
    counts: &mut Counts,
    copies_left: &mut usize,
) {
    let members = claims.members(shared);
    let start = sorted.turn % members.len().max(1);
    let (before, from) = members.split_at(start);
    let mut turn = from.iter().chain(before);
    let wanted = members.len().saturating_sub(1);
    let mut made = 0;
    while made < wanted && *copies_left != 0 {
        let Some(copy) = packet.duplicate() else { break };
        let Some(&place) = turn.next() else { break };
        sorted.batch(place, &claims.owners).push(copy);
        (made, *copies_left) = (made + 1, *copies_left - 1);
    }
    if let Some(&place) = turn.next() {
        sorted.batch(place, &claims.owners).push(packet);
    }
    counts.copies += made as u64;
    counts.no_copy += (wanted - made) as u64;
    if made < wanted {
        sorted.turn = start + made + 1;
    }
}
