//! A queue for each input node; the queues are served in turn by bytes: deficit round-robin (Shreedhar and
//! Varghese, SIGCOMM 1995).
//!
//! The input nodes are served in an order that is random for each line, and fixed. If the order were the same
//! everywhere, lines with the same load would all serve the same input at the same time, and its packets
//! would reach the output in bursts.
//!
//! All queues share one capacity. A queue may grow to [`OF_FREE`] times the free capacity (dynamic
//! thresholds: Choudhury and Hahne, 1998), so that one input does not take the capacity of another; an empty
//! queue accepts a packet as long as any capacity is free.

use cluster::Rng;
use runtime::Packet;

/// The greatest length of a queue, relative to the free capacity: a single queue can use four fifths of the
/// whole, and three full queues leave a 13th free.
const OF_FREE: usize = 4;
const NONE: u32 = u32::MAX;

/// A place for a packet.
struct Cell {
    packet: Option<Packet>,
    /// The next cell of the queue, or of the list of free cells.
    next: u32,
}

/// The queue of an input node, at its position in the order.
struct Input {
    node: u16,
    head: u32,
    tail: u32,
    length: u32,
    /// Bytes that it may still send in this round.
    deficit: u64,
}

/// The queues of a line.
pub(in crate::cluster) struct Shares {
    cells: Vec<Cell>,
    free: u32,
    /// The position of each node in the order.
    places: Box<[u16]>,
    inputs: Box<[Input]>,
    /// A bit for each position: whether that queue has packets.
    waiting: Box<[u64]>,
    /// The position that is served now.
    turn: usize,
    length: usize,
    capacity: usize,
    quantum: u64,
    #[cfg(test)]
    pub(in crate::cluster) steps: u64,
}

impl Shares {
    /// Queues for this many nodes and packets. In each round an input sends `quantum` bytes, or a little
    /// more. Lines with different seeds have different orders.
    pub(in crate::cluster) fn new(nodes: u16, capacity: usize, quantum: u32, seed: u64) -> Self {
        let mut order: Vec<u16> = (0..nodes).collect();
        let mut rng = Rng::new(seed);
        (1..order.len()).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
        let mut places = vec![0; order.len()];
        for (place, node) in order.iter().enumerate() {
            places[usize::from(*node)] = place as u16;
        }
        let input = |node| Input { node, head: NONE, tail: NONE, length: 0, deficit: 0 };
        Self {
            // Memory for the usual number of packets is allocated here; more is allocated when it is needed.
            cells: Vec::with_capacity(capacity.min(4096)),
            free: NONE,
            places: places.into(),
            waiting: vec![0; order.len().div_ceil(64)].into(),
            inputs: order.into_iter().map(input).collect(),
            turn: 0,
            length: 0,
            capacity,
            quantum: u64::from(quantum.max(1)),
            #[cfg(test)]
            steps: 0,
        }
    }
    pub(in crate::cluster) const fn len(&self) -> usize {
        self.length
    }
    pub(in crate::cluster) const fn capacity(&self) -> usize {
        self.capacity
    }
    /// The number of nodes that there are queues for.
    pub(in crate::cluster) fn nodes(&self) -> usize {
        self.places.len()
    }
    /// Sets the capacity. Packets above a smaller capacity stay until they are pulled.
    pub(in crate::cluster) const fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Puts a packet into the queue of its input node; returns it if the queue is full.
    #[inline]
    pub(in crate::cluster) fn push(&mut self, node: u16, packet: Packet) -> Result<(), Packet> {
        let place = self.places.get(usize::from(node)).map_or(0, |place| usize::from(*place));
        let room = self.capacity.saturating_sub(self.length);
        let Some(input) = self.inputs.get_mut(place) else { return Err(packet) };
        let longest = room.saturating_mul(OF_FREE);
        if room == 0 || input.length > 0 && input.length as usize >= longest {
            return Err(packet);
        }
        let cell = match self.cells.get_mut(self.free as usize) {
            Some(cell) => {
                let at = std::mem::replace(&mut self.free, cell.next);
                *cell = Cell { packet: Some(packet), next: NONE };
                at
            }
            None => {
                self.cells.push(Cell { packet: Some(packet), next: NONE });
                self.cells.len() as u32 - 1
            }
        };
        match self.cells.get_mut(input.tail as usize) {
            Some(last) => last.next = cell,
            None => {
                input.head = cell;
                self.waiting[place / 64] |= 1 << (place % 64);
            }
        }
        input.tail = cell;
        input.length += 1;
        self.length += 1;
        Ok(())
    }

    /// Takes the packet that is next, with its input node.
    #[inline]
    pub(in crate::cluster) fn pull(&mut self) -> Option<(u16, Packet)> {
        if self.length == 0 {
            return None;
        }
        loop {
            #[cfg(test)]
            {
                self.steps += 1;
            }
            let input = self.inputs.get_mut(self.turn)?;
            if let Some(cell) = self.cells.get_mut(input.head as usize) {
                let bytes = cell.packet.as_ref().map_or(0, |packet| packet.len() as u64);
                if bytes <= input.deficit {
                    input.deficit -= bytes;
                    let (packet, at) = (cell.packet.take(), input.head);
                    input.head = std::mem::replace(&mut cell.next, self.free);
                    self.free = at;
                    input.length -= 1;
                    self.length -= 1;
                    let node = input.node;
                    if input.length == 0 {
                        (input.tail, input.deficit) = (NONE, 0);
                        self.waiting[self.turn / 64] &= !(1 << (self.turn % 64));
                        // Its round is over; otherwise an input whose packets come one at a time would be
                        // served each time.
                        self.pass_on();
                    }
                    return packet.map(|packet| (node, packet));
                }
            }
            self.pass_on();
        }
    }

    /// Continues with the next position in the order that has packets; it may be the same one.
    #[inline]
    fn pass_on(&mut self) {
        if self.length == 0 {
            return;
        }
        let words = self.waiting.len().max(1);
        let from = self.turn + 1;
        let mut mask = u64::MAX << (from % 64);
        // The first word is read twice: first the positions after the current one, at the end those before
        // it.
        for step in 0..=words {
            let word = (from / 64 + step) % words;
            let there = self.waiting.get(word).copied().unwrap_or(0) & mask;
            mask = u64::MAX;
            if there != 0 {
                self.turn = word * 64 + there.trailing_zeros() as usize;
                break;
            }
        }
        if let Some(input) = self.inputs.get_mut(self.turn) {
            input.deficit = input.deficit.saturating_add(self.quantum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(bytes: usize) -> Packet {
        Packet::from_bytes(&vec![0; bytes]).unwrap()
    }

    #[test]
    fn inputs_are_served_in_turn_by_bytes() {
        let mut s = Shares::new(5, 100_000, 1538, 1);
        for _ in 0..300 {
            // One input sends long packets, one sends short ones, one sends a third of that rate.
            for (node, bytes, n) in [(1, 1500, 1), (2, 100, 15), (3, 500, 1)] {
                (0..n).for_each(|_| s.push(node, packet(bytes)).unwrap());
            }
        }
        let mut sent = [0; 5];
        while sent.iter().sum::<usize>() < 400_000 {
            let (node, packet) = s.pull().unwrap();
            sent[usize::from(node)] += packet.len();
        }
        assert!(sent[1].abs_diff(sent[2]) < 4000 && sent[1].abs_diff(sent[3]) < 4000, "{sent:?}");
        while s.pull().is_some() {}
        assert_eq!((s.len(), s.waiting.iter().sum::<u64>()), (0, 0));
        // All cells are free, and are used again.
        let cells = s.cells.len();
        (0..cells).for_each(|_| s.push(4, packet(60)).unwrap());
        assert_eq!(s.cells.len(), cells);
    }

    #[test]
    fn packets_of_an_input_stay_in_order() {
        let mut s = Shares::new(3, 1000, 300, 7);
        for n in 0..200_u16 {
            let mut packet = packet(60 + usize::from(n % 7) * 30);
            packet.data_mut()[..2].copy_from_slice(&n.to_be_bytes());
            s.push(n % 3, packet).unwrap();
        }
        let mut last = [None; 3];
        for _ in 0..200 {
            let (node, packet) = s.pull().unwrap();
            let n = u16::from_be_bytes([packet.data()[0], packet.data()[1]]);
            assert!(last[usize::from(node)] < Some(n) && n % 3 == node);
            last[usize::from(node)] = Some(n);
        }
        assert!(s.pull().is_none());
    }

    #[test]
    fn who_comes_again_and_again_is_served_once_a_round() {
        for nodes in [6, 64, 65, 200] {
            for often in [0, 1, nodes / 2, nodes - 1] {
                let mut s = Shares::new(nodes, 1 << 20, 1538, 3);
                let mut sent = vec![0_u32; nodes.into()];
                for _ in 0..100 {
                    (0..nodes).filter(|i| *i != often).for_each(|i| s.push(i, packet(1500)).unwrap());
                }
                s.push(often, packet(1500)).unwrap();
                for _ in 0..50 * u32::from(nodes) {
                    let (node, _) = s.pull().unwrap();
                    sent[usize::from(node)] += 1;
                    // Its queue is never long, but has a packet in every round.
                    if node == often {
                        s.push(often, packet(1500)).unwrap();
                    }
                }
                assert!(sent.iter().all(|n| n.abs_diff(50) <= 3), "{nodes} {often}: {sent:?}");
            }
        }
    }

    #[test]
    fn one_input_does_not_take_the_room_of_others_and_all_of_it_is_bounded() {
        let mut s = Shares::new(4, 1000, 1538, 2);
        let mut taken = [0; 3];
        for node in [0, 1, 2] {
            for _ in 0..3000 {
                taken[usize::from(node)] += usize::from(s.push(node, packet(60)).is_ok());
            }
        }
        assert!(s.len() <= 1000 && s.cells.len() <= 1000);
        assert!(taken[0] == 800 && taken[1] >= 160 && taken[2] >= 32, "{taken:?}");
        // An input that has no packets there can add some even now, but not without limit.
        assert!(s.push(3, packet(60)).is_ok());
        (0..3000).for_each(|_| drop(s.push(3, packet(60))));
        assert!(s.len() <= 1000);
        // In the long run each input has its share, in whatever order they began.
        let mut sent = [0; 3];
        for _ in 0..6000 {
            sent[usize::from(s.pull().unwrap().0) % 3] += 1;
            (0..3).for_each(|node| drop(s.push(node, packet(60))));
        }
        assert!(sent.iter().all(|n: &u32| n.abs_diff(2000) < 300), "{sent:?}");
        let mut none = Shares::new(4, 0, 1538, 2);
        assert!(none.push(0, packet(60)).is_err() && none.pull().is_none());
    }

    #[test]
    fn orders_differ_between_lines() {
        let orders: Vec<Vec<u16>> = (0..2)
            .map(|seed| {
                let mut s = Shares::new(64, 1000, 1538, seed);
                for _ in 0..3 {
                    (0..64).for_each(|node| s.push(node, packet(1500)).unwrap());
                }
                let order: Vec<u16> = std::iter::from_fn(|| s.pull().map(|(node, _)| node)).collect();
                assert_eq!(order[..64], order[64..128], "{seed}");
                let mut sorted = order[..64].to_vec();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..64).collect::<Vec<_>>());
                order
            })
            .collect();
        let after = |order: &[u16]| {
            let mut after = [0; 64];
            (0..64).for_each(|i| after[usize::from(order[i])] = order[i + 1]);
            after
        };
        let (one, other) = (after(&orders[0]), after(&orders[1]));
        assert!(one.iter().zip(&other).filter(|(a, b)| a == b).count() < 8, "{orders:?}");
    }

    #[test]
    fn a_packet_takes_a_few_steps_however_many_inputs_there_are() {
        for nodes in [2_u16, 4096] {
            let mut s = Shares::new(nodes, 100_000, 1538, 4);
            for _ in 0..4 {
                (0..nodes).for_each(|node| s.push(node, packet(1500)).unwrap());
            }
            while s.pull().is_some() {}
            assert!(s.steps <= u64::from(nodes) * 4 * 2 + 2, "{nodes}: {}", s.steps);
            // One input only, with the longest packets.
            s.steps = 0;
            (0..100).for_each(|_| s.push(nodes - 1, packet(9000)).unwrap());
            while s.pull().is_some() {}
            assert!(s.steps <= 100 * 7 + 2, "{nodes}: {}", s.steps);
        }
    }
}
