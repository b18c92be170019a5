//! Connections whose data has become longer or shorter on the way: what that does to sequence numbers.

use locks::IgnorePoison;
use std::collections::HashMap;
use std::sync::Mutex;
use tables::flows::{Found, Key};
use wire::{Options, checksum, protocol, tcp};

use super::headers::header_of;
use crate::prelude::*;

/// So many connections are remembered.
const MOST_CONNECTIONS: usize = 1 << 16;
/// So many changes of a direction are told apart. Of what is older all data has long been acknowledged.
const MOST_CHANGES: usize = 16;
/// Data so far behind is not sent again: sequence numbers are a circle of four times that.
const BEHIND: u32 = 1 << 30;
/// Sequence numbers do not move further than that at once: a packet that says so is not of the connection.
const MOST_AT_ONCE: u32 = 1 << 26;
/// The longest options of a TCP header, and where the acknowledged number is.
const MOST_OPTIONS: usize = 40;
const ACKNOWLEDGED: usize = 8;

/// From a sequence number on, of the sender, they have grown by so much.
#[derive(Clone, Copy)]
struct Change {
    from: u32,
    by: u32,
}

/// The changes of one direction, in their order, and by how much numbers before the first one have grown.
#[derive(Default)]
struct Direction {
    before: u32,
    changes: Vec<Change>,
}

/// Whether a sequence number is not before another one.
fn reaches(number: u32, from: u32) -> bool {
    number.wrapping_sub(from).cast_signed() >= 0
}

/// A number, but not beyond where a change begins: data that was added there is acknowledged with the next.
fn until(number: u32, next: Option<&Change>) -> u32 {
    next.filter(|next| reaches(number, next.from)).map_or(number, |next| next.from)
}

impl Direction {
    /// By how much the newest numbers have grown.
    fn newest(&self) -> u32 {
        self.changes.last().map_or(self.before, |change| change.by)
    }
    /// The number that the receiver knows, for the sender's.
    fn sent(&self, number: u32) -> u32 {
        let change = self.changes.iter().rev().find(|change| reaches(number, change.from));
        number.wrapping_add(change.map_or(self.before, |change| change.by))
    }
    /// The sender's number, for one that the receiver acknowledges.
    fn acknowledged(&self, number: u32) -> u32 {
        let mut next: Option<&Change> = None;
        for change in self.changes.iter().rev() {
            let own = number.wrapping_sub(change.by);
            if reaches(own, change.from) {
                return until(own, next);
            }
            next = Some(change);
        }
        until(number.wrapping_sub(self.before), next)
    }
    /// From a number on, `more` bytes have been added. The newest data sent again replaces what was said of
    /// it. Whether that is remembered now: changes come in the order of the data.
    fn add(&mut self, from: u32, more: u32) -> bool {
        if let Some(last) = self.changes.last() {
            if last.from == from {
                self.changes.pop();
            } else if !reaches(from, last.from) {
                return self.has(from, more);
            }
        }
        let by = self.newest().wrapping_add(more);
        self.changes.push(Change { from, by });
        if self.changes.len() > MOST_CHANGES {
            self.forget_first();
        }
        true
    }
    /// Whether so many bytes have been added there.
    fn has(&self, from: u32, more: u32) -> bool {
        let before = [Change { from, by: self.before }];
        let all: Vec<Change> = before.iter().chain(&self.changes).copied().collect();
        all.windows(2).any(|two| matches!(two, [a, b] if b.from == from && b.by == a.by.wrapping_add(more)))
    }
    fn forget_first(&mut self) {
        if !self.changes.is_empty() {
            self.before = self.changes.remove(0).by;
        }
    }
    /// Forgets what lies so far behind that the circle of numbers would begin anew.
    fn forget(&mut self, number: u32) {
        while let Some(first) = self.changes.first()
            && number.wrapping_sub(first.from).wrapping_sub(BEHIND) < MOST_AT_ONCE
        {
            self.forget_first();
        }
    }
}

/// All connections with changes, by the forward entry's key.
#[derive(Default)]
pub(crate) struct Lengths(Mutex<HashMap<Key, [Direction; 2]>>);

/// The key of a flow, and which direction an entry is.
fn place(key: &Key, found: &Found) -> (Key, usize) {
    if found.is_reply() { (found.other_key(key), 1) } else { (*key, 0) }
}

impl Lengths {
    /// From a sequence number on, the packets of an entry have `more` bytes more. Whether that is remembered.
    pub(crate) fn add(&self, key: &Key, found: &Found, from: u32, more: u32) -> bool {
        let (flow, direction) = place(key, found);
        let mut all = self.0.lock().ignore_poison();
        if all.len() >= MOST_CONNECTIONS && !all.contains_key(&flow) {
            return false;
        }
        all.entry(flow).or_default().get_mut(direction).is_some_and(|one| one.add(from, more))
    }

    /// Forgets a flow, which has been found by a key.
    pub(crate) fn forget(&self, key: &Key, found: &Found) {
        self.0.lock().ignore_poison().remove(&place(key, found).0);
    }

    /// Continues with what another one has.
    pub(crate) fn adopt(&self, old: &Self) {
        let mut kept = std::mem::take(&mut *old.0.lock().ignore_poison());
        let mut all = self.0.lock().ignore_poison();
        std::mem::swap(&mut *all, &mut kept);
    }

    /// By how much an entry's numbers have grown by now.
    pub(crate) fn newest(&self, key: &Key, found: &Found) -> i32 {
        let (flow, direction) = place(key, found);
        let all = self.0.lock().ignore_poison();
        let one = all.get(&flow).and_then(|both| both.get(direction));
        one.map_or(0, |one| one.newest().cast_signed())
    }

    /// Changes the numbers of a TCP packet whose entry had this key before it was translated.
    pub(crate) fn apply(&self, packet: &mut Packet, key: &Key, found: &Found) -> Option<()> {
        let (flow, direction) = place(key, found);
        let mut all = self.0.lock().ignore_poison();
        let both = all.get_mut(&flow)?;
        let (number, header) = header_of(packet)?;
        let segment = packet.network_header_mut()?.get_mut(header..)?;
        let length = usize::from(*segment.get(12)? >> 4) * 4;
        if number != protocol::TCP || length < tcp::HEADER_LEN || length > segment.len() {
            return None;
        }
        let segment = segment.get_mut(..length)?;
        // A connection begins with numbers of its own, also one between the same ports as an earlier one.
        if segment.get(13)? & tcp::SYN != 0 {
            if segment.get(13)? & tcp::ACK == 0 {
                *both = Default::default();
            } else if let Some(own) = both.get_mut(direction) {
                *own = Direction::default();
            }
        }
        let (one, other) = both.split_at_mut(1);
        let (own, peer) = if direction == 0 {
            (one.first_mut()?, other.first()?)
        } else {
            (other.first_mut()?, one.first()?)
        };
        let before = checksum::sum(segment);
        let sequence = segment.get_mut(4..)?.first_chunk_mut::<4>()?;
        let sent = u32::from_be_bytes(*sequence);
        own.forget(sent);
        *sequence = own.sent(sent).to_be_bytes();
        // Also where the flag ACK is missing, as Click does.
        acknowledge(segment, peer);
        // The checksum covers itself: it is set to what makes the sum of all what it was before.
        let after = checksum::sum(segment);
        let check = segment.get_mut(16..)?.first_chunk_mut::<2>()?;
        let sum = u32::from(u16::from_be_bytes(*check)) + u32::from(before) + u32::from(!after);
        let sum = (sum & 0xffff) + (sum >> 16);
        *check = (((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes();
        Some(())
    }
}

/// The number that a segment acknowledges, and the blocks of selective acknowledgments (RFC 2018).
fn acknowledge(segment: &mut [u8], peer: &Direction) {
    let mut copy = [0; MOST_OPTIONS];
    let options = segment.get(tcp::HEADER_LEN..).unwrap_or_default();
    let length = options.len().min(MOST_OPTIONS);
    if let Some((to, from)) = copy.get_mut(..length).zip(options.get(..length)) {
        to.copy_from_slice(from);
    }
    let mut change = |at: usize| {
        if let Some(word) = segment.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
            *word = peer.acknowledged(u32::from_be_bytes(*word)).to_be_bytes();
        }
    };
    change(ACKNOWLEDGED);
    let options = copy.get(..length).unwrap_or_default();
    for option in Options::new(options, tcp::HEADER_LEN).map_while(Result::ok) {
        if option.kind == tcp::OPT_SACK && option.bytes.len() % 8 == 2 {
            let end = option.offset + option.bytes.len();
            (option.offset + 2..end).step_by(4).for_each(&mut change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_before_a_change_stay() {
        let mut d = Direction::default();
        assert!(d.add(100, 3));
        assert_eq!([99, 100, 200].map(|n| d.sent(n)), [99, 103, 203]);
        assert_eq!([99, 103, 203].map(|n| d.acknowledged(n)), [99, 100, 200]);
        // The sender does not know what was added.
        assert_eq!([100, 101, 102].map(|n| d.acknowledged(n)), [100; 3]);
        assert!(d.add(300, 2u32.wrapping_neg()));
        assert_eq!([99, 299, 300].map(|n| d.sent(n)), [99, 302, 301]);
        assert_eq!(d.newest(), 1);
        // Sent again, with another length; an older one sent again changes nothing.
        assert!(d.add(300, 5));
        assert_eq!((d.sent(300), d.newest()), (308, 8));
        assert!(d.add(100, 3) && !d.add(100, 4) && !d.add(200, 3));
        assert_eq!((d.newest(), d.changes.len()), (8, 2));
    }

    #[test]
    fn numbers_are_a_circle_and_old_changes_are_forgotten() {
        let mut d = Direction::default();
        let start = u32::MAX - 4;
        assert!(d.add(start, 10));
        assert_eq!((d.sent(start), d.sent(5), d.acknowledged(5)), (5, 15, start));
        // A number from nowhere changes nothing.
        d.forget(start.wrapping_add(BEHIND).wrapping_add(MOST_AT_ONCE));
        assert_eq!((d.sent(start), d.sent(5)), (5, 15));
        for step in 1..160u32 {
            let number = start.wrapping_add(step.wrapping_mul(MOST_AT_ONCE / 2));
            d.forget(number);
            assert_eq!(d.sent(number), number.wrapping_add(10));
        }
        assert!(d.changes.is_empty());
        for n in 0..100 {
            assert!(d.add(1000 + n, 1));
        }
        assert_eq!((d.changes.len(), d.newest(), d.sent(5000)), (MOST_CHANGES, 110, 5110));
    }
}
