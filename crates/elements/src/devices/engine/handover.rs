//! Buckets of the indirection table on their way from one worker to another: their packets wait at the worker
//! that polls until those before them have left the worker that had the bucket.

use crate::prelude::*;

/// Buckets that are on their way at the same time; others wait with the worker that has them. So few packets
/// wait while a worker that has much to do finishes those before them.
pub(super) const MOST_MOVES: usize = 16;
/// The same for buckets of a worker that is nearly finished: nothing waits for long.
pub(super) const MOST_QUICK: usize = 512;
/// Packets that may wait. If more come, the worker leaves packets in the device.
pub(super) const HOLD: usize = 1024;
/// For how long packets wait at most. A worker that was given more than it can do has work for 10 ms in its
/// ring, with programs of 10 us a packet; and the system may let others have its processor for a while.
const PATIENCE_NS: u64 = 100_000_000;
/// The same while there is no place for more, so that packets wait in the device.
const SHORT_PATIENCE_NS: u64 = 20_000_000;
/// How long after the packets have left the old worker's elements the new one begins: until they have also
/// left the transmit queue, or the ring to the worker that has it (ToDevice waits for 20 us by default).
const SETTLE_NS: u64 = 200_000;
/// ... and in how many runs of the task at least, the first of which sees that they have left: between two
/// the worker sends, if it has the transmit queue; time passes also while it does not run.
const SETTLE_RUNS: u8 = 2;
/// In place of a move: the bucket is not one of those that end now.
const STAYS: u16 = u16::MAX;

/// A bucket on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) bucket: u16,
    /// Where its packets went, and where they are to go.
    pub(super) from: u16,
    pub(super) to: u16,
    /// How many packets the worker that had it has to be finished with.
    pub(super) mark: u64,
    since_ns: u64,
    /// Since when they have left it; 0: they have not. And how often that has been looked at.
    left_ns: u64,
    looked: u8,
}

/// A bucket that has arrived.
struct Ended {
    moving: Move,
    /// Whether those before its packets had left.
    ordered: bool,
    /// Packets that have waited.
    went: u64,
}

/// What has become of buckets that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Buckets that have moved.
    pub(super) buckets: u64,
    /// Packets that have waited.
    pub(super) held: u64,
    /// Those for which the wait was too long: they may have overtaken packets of their flow.
    pub(super) unordered: u64,
}

/// The buckets that are on their way, and their packets.
#[derive(Default)]
pub(super) struct Handover {
    moves: Vec<Move>,
    held: Vec<(u16, Packet)>,
    /// Empty except while packets are let go: those that stay, the moves that end, and their indices by
    /// bucket.
    rest: Vec<(u16, Packet)>,
    ended: Vec<Ended>,
    index: Vec<u16>,
    pub(super) moved: Moved,
}

impl Handover {
    /// For a table of so many buckets.
    pub(super) fn new(buckets: usize, burst: usize) -> Self {
        let room = || Vec::with_capacity(HOLD + burst);
        Self {
            moves: Vec::with_capacity(MOST_QUICK),
            held: room(),
            rest: room(),
            ended: Vec::with_capacity(MOST_QUICK),
            index: vec![STAYS; buckets],
            moved: Moved::default(),
        }
    }
    /// Whether no bucket is on its way.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.moves.is_empty()
    }
    /// Whether a poll may bring packets for which there is no place.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > HOLD
    }
    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
    pub(super) fn moves(&self) -> usize {
        self.moves.len()
    }
    /// Where a bucket is going.
    pub(super) fn goes_to(&self, bucket: u16) -> Option<u16> {
        self.moves.iter().find(|m| m.bucket == bucket).map(|m| m.to)
    }
    /// A bucket leaves, if fewer than `most` are on their way; its packets are held from now on. False: it
    /// stays.
    pub(super) fn begin(&mut self, bucket: u16, way: (u16, u16), mark: u64, most: usize, now: u64) -> bool {
        let begins = self.moves.len() < most;
        if begins {
            let (from, to) = way;
            self.moves.push(Move { bucket, from, to, mark, since_ns: now, left_ns: 0, looked: 0 });
        }
        begins
    }
    /// A packet of such a bucket.
    #[inline]
    pub(super) fn hold(&mut self, bucket: u16, packet: Packet) {
        self.held.push((bucket, packet));
    }
    /// Packets for `from` after its first `n` have been dropped: nobody waits for them.
    pub(super) fn cut(&mut self, from: u16, n: u64) {
        self.moves.iter_mut().filter(|m| m.from == from).for_each(|m| m.mark = m.mark.min(n));
    }
    /// Lets buckets go whose packets have `left` the old worker, or have not for too long: `arrive` gets the
    /// bucket, `go` each of its packets with the place where it goes.
    pub(super) fn advance(
        &mut self,
        now: u64,
        mut left: impl FnMut(&Move) -> bool,
        mut arrive: impl FnMut(&Move),
        mut go: impl FnMut(u16, Packet),
    ) {
        let patience = if self.is_full() { SHORT_PATIENCE_NS } else { PATIENCE_NS };
        let mut at = 0;
        while let Some(moving) = self.moves.get_mut(at) {
            if moving.left_ns == 0 && left(moving) {
                moving.left_ns = now.max(1);
            }
            moving.looked = moving.looked.saturating_add(u8::from(moving.left_ns > 0));
            let settled = moving.looked >= SETTLE_RUNS && now.saturating_sub(moving.left_ns) >= SETTLE_NS;
            if settled || now.saturating_sub(moving.since_ns) >= patience {
                let moving = self.moves.swap_remove(at);
                arrive(&moving);
                self.ended.push(Ended { moving, ordered: settled, went: 0 });
            } else {
                at += 1;
            }
        }
        self.let_go(&mut go);
    }
    /// Continues with the buckets that are on their way in a configuration that is being replaced, if it
    /// knows where all of them go: `place` has its places in place of the old ones. Their packets wait until
    /// all that this worker has given away before has left.
    pub(super) fn take_over(&mut self, old: &mut Self, place: impl Fn(u16) -> Option<u16>) -> bool {
        let known = old.moves.iter().all(|m| place(m.from).is_some() && place(m.to).is_some());
        if known {
            self.moves.extend(old.moves.drain(..).filter_map(|m| {
                Some(Move { from: place(m.from)?, to: place(m.to)?, mark: 0, left_ns: 0, looked: 0, ..m })
            }));
            self.held.append(&mut old.held);
        }
        known
    }
    /// The buckets that are on their way.
    pub(super) fn on_the_way(&self) -> impl Iterator<Item = u16> + '_ {
        self.moves.iter().map(|m| m.bucket)
    }
    /// Lets all buckets go at once.
    pub(super) fn end(&mut self, mut go: impl FnMut(u16, Packet)) {
        let ended = |moving| Ended { moving, ordered: false, went: 0 };
        self.ended.extend(self.moves.drain(..).map(ended));
        self.let_go(&mut go);
    }
    /// Lets the packets of moves that have ended go.
    fn let_go(&mut self, go: &mut impl FnMut(u16, Packet)) {
        if self.ended.is_empty() {
            return;
        }
        for (n, ended) in self.ended.iter().enumerate() {
            self.index[usize::from(ended.moving.bucket)] = n as u16;
        }
        for (bucket, packet) in self.held.drain(..) {
            match self.ended.get_mut(usize::from(self.index[usize::from(bucket)])) {
                Some(ended) => {
                    ended.went += 1;
                    go(ended.moving.to, packet);
                }
                None => self.rest.push((bucket, packet)),
            }
        }
        std::mem::swap(&mut self.held, &mut self.rest);
        for ended in self.ended.drain(..) {
            self.index[usize::from(ended.moving.bucket)] = STAYS;
            self.moved.buckets += 1;
            self.moved.held += ended.went;
            // Also if none has waited, the next one may overtake others.
            self.moved.unordered += if ended.ordered { 0 } else { ended.went.max(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Lets go what may go; which buckets arrive, and which packets go where.
    fn advance(handover: &mut Handover, now: u64, left: u64) -> (Vec<u16>, Vec<(u16, u8)>) {
        let (mut arrived, mut gone) = (Vec::new(), Vec::new());
        handover.advance(
            now,
            |m| m.mark <= left,
            |m| arrived.push(m.bucket),
            |to, packet| gone.push((to, packet.data()[0])),
        );
        (arrived, gone)
    }

    fn hold(handover: &mut Handover, bucket: u16, number: u8) {
        handover.hold(bucket, Packet::from_bytes(&[number]).unwrap());
    }

    #[test]
    fn packets_wait_until_those_before_them_have_left() {
        let mut handover = Handover::new(512, 32);
        assert!(
            handover.begin(7, (1, 0), 10, MOST_MOVES, MS) && handover.begin(9, (1, 2), 20, MOST_MOVES, MS)
        );
        for (bucket, number) in [(7, 1), (9, 2), (7, 3), (9, 4)] {
            hold(&mut handover, bucket, number);
        }
        assert_eq!(advance(&mut handover, 2 * MS, 9), (vec![], vec![]));
        assert_eq!(advance(&mut handover, 3 * MS, 10), (vec![], vec![]), "they may be in the transmit queue");
        let later = 3 * MS + SETTLE_NS;
        assert_eq!(handover.goes_to(7), Some(0));
        assert_eq!(advance(&mut handover, later, 19), (vec![7], vec![(0, 1), (0, 3)]));
        assert_eq!((handover.len(), handover.goes_to(7)), (2, None));
        assert_eq!(advance(&mut handover, 4 * MS, 20), (vec![], vec![]));
        assert_eq!(advance(&mut handover, 5 * MS, 20), (vec![9], vec![(2, 2), (2, 4)]));
        assert!(handover.is_idle());
        assert_eq!(handover.moved, Moved { buckets: 2, held: 4, unordered: 0 });
    }

    #[test]
    fn what_has_waited_too_long_goes_and_is_counted() {
        let mut handover = Handover::new(512, 32);
        handover.begin(7, (1, 0), 10, MOST_MOVES, MS);
        hold(&mut handover, 7, 1);
        assert!(advance(&mut handover, MS + PATIENCE_NS - 1, 9).0.is_empty());
        assert_eq!(advance(&mut handover, MS + PATIENCE_NS, 9), (vec![7], vec![(0, 1)]));
        assert_eq!(handover.moved, Moved { buckets: 1, held: 1, unordered: 1 });
    }

    #[test]
    fn nobody_waits_for_packets_that_were_dropped() {
        let mut handover = Handover::new(512, 32);
        handover.begin(7, (1, 0), 10, MOST_MOVES, MS);
        handover.begin(8, (2, 0), 10, MOST_MOVES, MS);
        handover.cut(1, 4);
        advance(&mut handover, 2 * MS, 4);
        assert_eq!(advance(&mut handover, 3 * MS, 4).0, [7], "of another worker nothing was dropped");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut handover = Handover::new(512, 32);
        for bucket in 0..MOST_MOVES as u16 {
            assert!(handover.begin(bucket, (0, 1), 1, MOST_MOVES, MS));
        }
        assert!(!handover.begin(99, (0, 1), 1, MOST_MOVES, MS));
        assert!(handover.begin(99, (2, 1), 1, MOST_QUICK, MS), "of a worker that is nearly finished");
        (0..HOLD).for_each(|_| hold(&mut handover, 3, 1));
        assert!(!handover.is_full());
        hold(&mut handover, 3, 1);
        assert!(handover.is_full());
        assert!(advance(&mut handover, MS + SHORT_PATIENCE_NS - 1, 0).0.is_empty());
        assert_eq!(advance(&mut handover, MS + SHORT_PATIENCE_NS, 0).0.len(), MOST_MOVES + 1);
        // One more for each of the buckets of which no packet has waited.
        assert_eq!(handover.moved.unordered as usize, HOLD + 1 + MOST_MOVES);
        assert!(handover.begin(0, (0, 1), 1, MOST_MOVES, MS));
        hold(&mut handover, 0, 1);
        let mut gone = 0;
        handover.end(|_, _| gone += 1);
        assert_eq!((gone, handover.len(), handover.moves()), (1, 0, 0));
    }
}
