//! A transmit queue with the packets that wait for it: a part of the sending side that one worker has, and
//! gives to another one as a whole.

use crate::prelude::*;
use dpdk::TxQueue;
use std::collections::VecDeque;
use tables::ring::Consumer;

/// The number of packets that a ring between workers can hold.
pub(in crate::devices) const RING: usize = 1024;
/// The bytes that a worker may send more than another before it has to wait: a full Ethernet frame.
const QUANTUM_BYTES: usize = 1518;

/// The unit in which workers that share a transmit queue get equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::devices) enum Fair {
    /// Packets: round robin.
    Packets,
    /// Bytes: deficit round robin (Shreedhar and Varghese 1995).
    Bytes,
}

/// Packets of one worker that wait for a queue that several workers use.
pub(super) struct Source {
    /// The worker.
    pub(super) from: usize,
    ring: Consumer<Packet>,
    /// Packets that were taken from the ring, so that their lengths are known before they are sent.
    held: VecDeque<Packet>,
    deficit: usize,
}

impl Source {
    pub(super) fn new(from: usize, ring: Consumer<Packet>) -> Self {
        Self { from, ring, held: VecDeque::new(), deficit: 0 }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.ring.is_empty()
    }
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.ring.len()
    }
    /// Moves its packets for one round to `out`; returns how many.
    pub(super) fn serve(&mut self, fair: Fair, burst: usize, out: &mut Batch) -> usize {
        let before = out.len();
        match fair {
            Fair::Packets => {
                let n = burst.min(self.held.len());
                out.packets_mut().extend(self.held.drain(..n));
                self.ring.pop_many(burst - n, out.packets_mut());
            }
            Fair::Bytes => {
                let mut more = Vec::new();
                self.ring.pop_many(burst.saturating_sub(self.held.len()), &mut more);
                self.held.extend(more);
                take_bytes(&mut self.held, &mut self.deficit, burst, out);
            }
        }
        out.len() - before
    }
    /// Moves all that is there to `out`.
    pub(super) fn empty(&mut self, out: &mut Batch) {
        out.packets_mut().extend(self.held.drain(..));
        while self.ring.pop_many(RING, out.packets_mut()) > 0 {}
    }
    /// Packets that were taken from it come first again.
    fn take_back(&mut self, packets: &mut Batch) {
        packets.drain(..).rev().for_each(|packet| self.held.push_front(packet));
    }
}

/// One round of deficit round-robin.
pub(super) fn take_bytes(from: &mut VecDeque<Packet>, deficit: &mut usize, burst: usize, out: &mut Batch) {
    *deficit += QUANTUM_BYTES * burst;
    while let Some(first) = from.front().filter(|p| p.len() <= *deficit) {
        *deficit -= first.len();
        out.packets_mut().extend(from.pop_front());
    }
    if from.is_empty() {
        *deficit = 0;
    }
}

/// Whether the other side takes what a queue sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// It does, or it is not up to the other side.
    #[default]
    Served,
    /// Nothing has been sent yet: packets are sent one by one.
    Unproven {
        /// Since when the queue has taken nothing although the other side is there; 0: that is not so.
        since_ns: u64,
    },
    /// It does not.
    Refused,
}

/// A transmit queue, the workers that it is shared with, and packets that are sent next.
#[derive(Default)]
pub(super) struct Line {
    pub(super) tx: Option<TxQueue>,
    /// The workers whose packets go by this queue, in turn: those of the worker that has the queue, which
    /// come first, are from before it had it.
    pub(super) sources: Vec<Source>,
    /// The next to be served: the index of a source, or after the sources the worker itself.
    pub(super) turn: usize,
    /// The packets to be sent next.
    pub(super) chosen: Batch,
    /// The worker that they are from, if it is one.
    pub(super) chosen_from: Option<usize>,
    /// The queue's counts of lost packets at the last check: too long, without a buffer for a copy, refused.
    pub(super) given_up: [u64; 3],
    pub(super) trust: Trust,
}

impl Line {
    pub(super) fn source(&mut self, from: usize) -> Option<&mut Source> {
        self.sources.iter_mut().find(|source| source.from == from)
    }
    /// Whether packets of other workers, or of `worker` from before it had the queue, may come here.
    pub(super) fn serves_others(&self, worker: usize) -> bool {
        self.sources.iter().any(|source| source.from != worker || !source.is_empty())
    }
    pub(super) fn is_empty(&self) -> bool {
        self.chosen.is_empty() && self.sources.iter().all(Source::is_empty)
    }
    /// Packets that wait here.
    pub(super) fn len(&self) -> usize {
        self.chosen.len() + self.sources.iter().map(Source::len).sum::<usize>()
    }
    /// Moves all packets to `out`, of each worker in order.
    pub(super) fn empty(&mut self, out: &mut Batch) {
        out.append(&mut self.chosen);
        self.sources.iter_mut().for_each(|source| source.empty(out));
    }
    /// Gives the packets that were chosen back to the worker that they are from: those of `worker`, which has
    /// the queue, to `waiting`.
    pub(super) fn choose_none(&mut self, worker: usize, waiting: &mut Batch) {
        let mut chosen = self.chosen.take();
        let from = self.chosen_from.take();
        match from.and_then(|from| self.source(from)) {
            Some(source) if source.from != worker || !source.is_empty() => source.take_back(&mut chosen),
            _ => {
                chosen.append(waiting);
                std::mem::swap(waiting, &mut chosen);
            }
        }
        self.chosen = chosen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: usize, len: usize) -> VecDeque<Packet> {
        (0..n).map(|_| Packet::from_bytes(&vec![0; len]).unwrap()).collect()
    }

    #[test]
    fn shares_by_bytes_are_equal_whatever_the_sizes() {
        let (mut long, mut short) = (packets(1000, 1500), packets(20_000, 60));
        let (mut a, mut b) = (0, 0);
        let (mut sent_long, mut sent_short) = (0, 0);
        for _ in 0..50 {
            let mut out = Batch::new();
            take_bytes(&mut long, &mut a, 8, &mut out);
            sent_long += out.iter().map(Packet::len).sum::<usize>();
            out.clear();
            take_bytes(&mut short, &mut b, 8, &mut out);
            sent_short += out.iter().map(Packet::len).sum::<usize>();
        }
        assert!(sent_long.abs_diff(sent_short) <= 1518, "{sent_long} {sent_short}");
        let mut last = packets(1, 60);
        take_bytes(&mut last, &mut a, 8, &mut Batch::new());
        assert_eq!(a, 0, "who has nothing to send saves nothing up");
    }

    #[test]
    fn packets_that_were_chosen_come_first_again() {
        let one = |byte| Packet::from_bytes(&[byte]).unwrap();
        let bytes = |batch: &Batch| batch.iter().map(|p| p.data()[0]).collect::<Vec<_>>();
        let (mut ring, out) = tables::ring::spsc(8);
        let mut line = Line { sources: vec![Source::new(3, out)], ..Line::default() };
        let mut waiting: Batch = [one(9)].into_iter().collect();
        (1..=4).for_each(|byte| assert!(ring.push(one(byte)).is_ok()));
        line.sources[0].serve(Fair::Packets, 2, &mut line.chosen);
        line.chosen_from = Some(3);
        line.choose_none(0, &mut waiting);
        let mut all = Batch::new();
        line.empty(&mut all);
        assert_eq!((bytes(&all), bytes(&waiting)), (vec![1, 2, 3, 4], vec![9]));
        line.chosen.push(one(8));
        line.choose_none(0, &mut waiting);
        assert_eq!((bytes(&waiting), line.len()), (vec![8, 9], 0));
    }
}
