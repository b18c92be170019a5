//! A batch split by owner.

use crate::claims::{MALFORMED, NOBODY_ADDRESS, NOBODY_TAG, SEVERAL, Snapshot};
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
        if let Some(place) = claims.whole {
            return sorted.take_whole(batch, place, &claims.owners);
        }
        let first = find(claims, batch, sorted);
        // Without branches: several at a time.
        let differ = sorted.found.iter().fold(0, |all, &found| all | (found ^ first));
        if differ == 0 && first < SEVERAL {
            return sorted.take_whole(batch, first, &claims.owners);
        }
        if (first | differ) >= SEVERAL {
            let counts = expand(claims, batch, sorted);
            self.count(counts);
        }
        sorted.take_each(batch, &self.claims().owners);
    }

    /// Frees frames that are nobody's, and counts them as such.
    pub fn drop_all(&mut self, batch: &mut Batch) {
        self.count(Counts { nobody_tag: batch.len() as u64, ..Counts::default() });
        batch.clear();
    }
}

/// Writes what is found for each frame to `sorted`; returns what was for the first.
#[inline(never)]
fn find(claims: &Snapshot, batch: &mut Batch, sorted: &mut Sorted) -> u32 {
    sorted.found.clear();
    sorted.found.extend(batch.iter_mut().map(|packet| frame::owner(claims, packet)));
    sorted.found.first().copied().unwrap_or(NOBODY_TAG)
}

/// Takes packets out that reach nobody, and puts copies in, so that every packet has one owner.
#[inline(never)]
fn expand(claims: &Snapshot, batch: &mut Batch, sorted: &mut Sorted) -> Counts {
    let mut counts = Counts::default();
    let mut out = Out { copies_left: sorted.most_copies, turn: sorted.turn, ..Out::default() };
    let found = std::mem::take(&mut sorted.found);
    std::mem::swap(&mut out.packets, &mut sorted.spare);
    std::mem::swap(&mut out.owners, &mut sorted.spare_found);
    for (packet, &found) in batch.drain(..).zip(&found) {
        match found {
            NOBODY_TAG => counts.nobody_tag += 1,
            NOBODY_ADDRESS => counts.nobody_address += 1,
            MALFORMED => counts.malformed += 1,
            SEVERAL.. => {
                out.each(claims.members(found - SEVERAL), packet, &mut counts);
                continue;
            }
            _ => {
                out.push(packet, found);
                continue;
            }
        }
        sorted.dropped.push(packet);
    }
    sorted.dropped.clear();
    std::mem::swap(&mut out.packets, batch);
    (sorted.spare, sorted.spare_found) = (out.packets, found);
    (sorted.found, sorted.turn) = (out.owners, out.turn);
    sorted.spare_found.clear();
    counts
}

/// Packets with one owner each.
#[derive(Default)]
struct Out {
    packets: Batch,
    owners: Vec<u32>,
    copies_left: usize,
    turn: usize,
}

impl Out {
    fn push(&mut self, packet: Packet, owner: u32) {
        self.packets.push(packet);
        self.owners.push(owner);
    }

    /// A packet for each of the owners of a shared tag. If there are not enough copies for all, the next
    /// frame begins with those who got none.
    fn each(&mut self, members: &[u32], packet: Packet, counts: &mut Counts) {
        let start = self.turn % members.len().max(1);
        let (before, from) = members.split_at(start);
        let mut turn = from.iter().chain(before);
        let wanted = members.len().saturating_sub(1);
        let most = wanted.min(self.copies_left);
        let mut made = 0;
        while made < most {
            let Some(copy) = packet.duplicate() else { break };
            let Some(&owner) = turn.next() else { break };
            self.push(copy, owner);
            made += 1;
        }
        self.copies_left -= made;
        if let Some(&owner) = turn.next() {
            self.push(packet, owner);
        }
        counts.copies += made as u64;
        let missing = (wanted - made) as u64;
        if made < most {
            counts.no_buffer += missing;
        } else {
            counts.too_many_copies += missing;
        }
        if made < wanted {
            self.turn = start + made + 1;
        }
    }
}
