//! The packets that wait for Ethernet addresses: a queue for each address, and the order in which all of them
//! arrived.
//!
//! Entries are numbered and linked twice, in the queue of their address and in the order of all. So the cost
//! to add or remove a packet does not depend on how many wait, and there are never more entries than packets
//! that waited at one time.

use dpdk::Packet;

const NONE: u32 = u32::MAX;

/// The packets that wait for one address, oldest first, as indexes into [`Waiting`].
#[derive(Debug)]
pub(in crate::ethernet) struct Line {
    first: u32,
    last: u32,
    len: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Line {
    pub(in crate::ethernet) fn len(&self) -> usize {
        self.len
    }
}

struct Place<A> {
    /// `None`: the entry is free.
    packet: Option<Packet>,
    ip: A,
    /// The entries before and after it in the order of all packets.
    older: u32,
    newer: u32,
    /// The next entry in its queue, or the next free one.
    next: u32,
}

/// All packets that wait.
pub(in crate::ethernet) struct Waiting<A> {
    places: Vec<Place<A>>,
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
}

impl<A> Default for Waiting<A> {
    fn default() -> Self {
        Self { places: Vec::new(), free: NONE, oldest: NONE, newest: NONE, len: 0 }
    }
}

impl<A: Copy> Waiting<A> {
    /// How many packets wait, for any address.
    pub(in crate::ethernet) fn len(&self) -> usize {
        self.len
    }

    /// The address that the packet which has waited longest waits for.
    pub(in crate::ethernet) fn oldest(&self) -> Option<A> {
        self.places.get(self.oldest as usize).map(|p| p.ip)
    }

    /// The addresses that packets wait for; one as often as there are packets.
    pub(in crate::ethernet) fn addresses(&self) -> impl Iterator<Item = A> + '_ {
        self.places.iter().filter(|place| place.packet.is_some()).map(|place| place.ip)
    }

    /// Adds a packet at the end of the queue for `ip`.
    pub(in crate::ethernet) fn push(&mut self, line: &mut Line, ip: A, packet: Packet) {
        let place = Place { packet: Some(packet), ip, older: self.newest, newer: NONE, next: NONE };
        let at = match self.places.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = place;
                at
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        };
        match self.places.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        match self.places.get_mut(line.last as usize) {
            Some(last) => last.next = at,
            None => line.first = at,
        }
        (line.last, line.len) = (at, line.len + 1);
        self.len += 1;
    }

    /// Takes the oldest packet out of a queue.
    pub(in crate::ethernet) fn pop(&mut self, line: &mut Line) -> Option<Packet> {
        let at = line.first;
        let place = self.places.get_mut(at as usize)?;
        let packet = place.packet.take()?;
        let (older, newer) = (place.older, place.newer);
        line.first = std::mem::replace(&mut place.next, self.free);
        if line.first == NONE {
            line.last = NONE;
        }
        self.free = at;
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        line.len -= 1;
        self.len -= 1;
        Some(packet)
    }

    /// Takes all packets out of a queue that is removed.
    pub(in crate::ethernet) fn take_all(&mut self, mut line: Line) -> Vec<Packet> {
        let mut packets = Vec::with_capacity(line.len());
        packets.extend(std::iter::from_fn(|| self.pop(&mut line)));
        packets
    }

    /// The number of entries that have been allocated.
    #[cfg(test)]
    pub(in crate::ethernet) fn places(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;

    /// Compared with plain lists, under random operations.
    #[test]
    fn same_as_a_list() {
        let mut waiting = Waiting::default();
        let mut lines: [Line; 5] = Default::default();
        let mut model: VecDeque<(usize, u8)> = VecDeque::new();
        let (mut x, mut most) = (1u32, 0);
        for step in 0..5000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let line = (x >> 24) as usize % 5;
            match (x >> 8) % 8 {
                0..=4 if model.len() < 40 => {
                    let packet = Packet::from_bytes(&[step as u8]).unwrap();
                    waiting.push(&mut lines[line], Ipv4Addr::from(line as u32), packet);
                    model.push_back((line, step as u8));
                }
                7 => {
                    let want: Vec<u8> = model.iter().filter(|m| m.0 == line).map(|m| m.1).collect();
                    let got = waiting.take_all(std::mem::take(&mut lines[line]));
                    assert_eq!(got.iter().map(|p| p.data()[0]).collect::<Vec<_>>(), want);
                    model.retain(|m| m.0 != line);
                }
                5 => {
                    let oldest = waiting.oldest().map(|ip| u32::from(ip) as usize);
                    assert_eq!(oldest, model.front().map(|m| m.0));
                    if let Some(line) = oldest {
                        let got = waiting.pop(&mut lines[line]).unwrap().data()[0];
                        assert_eq!(model.pop_front(), Some((line, got)));
                    }
                }
                _ => {
                    let at = model.iter().position(|m| m.0 == line);
                    let want = at.and_then(|at| model.remove(at)).map(|m| m.1);
                    assert_eq!(waiting.pop(&mut lines[line]).map(|p| p.data()[0]), want);
                }
            }
            most = most.max(model.len());
            assert_eq!((waiting.len(), waiting.places()), (model.len(), most));
            assert_eq!(lines.iter().map(Line::len).sum::<usize>(), model.len());
        }
    }
}
