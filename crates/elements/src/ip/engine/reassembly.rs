//! Incomplete datagrams: their fragments, by datagram, for all workers.

use super::header::{fill_checksum, header_mut};
use crate::prelude::*;
use dpdk::{Anno, DEFAULT_HEADROOM};
use locks::IgnorePoison;
use runtime::{Budget, Held};
use std::collections::hash_map::{HashMap, RandomState};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::hash::BuildHasher;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use wire::Ipv4;

/// The number of shards, each with a lock, so that workers seldom wait for each other.
pub(in crate::ip) const SHARDS: usize = 16;
/// The memory that is counted for a datagram or a fragment in addition to its bytes, as in Click.
pub(in crate::ip) const OVERHEAD: usize = 40;

/// The fields that fragments of one datagram have in common (RFC 791 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::ip) struct Key {
    pub(in crate::ip) src: Ipv4Addr,
    pub(in crate::ip) dst: Ipv4Addr,
    pub(in crate::ip) id: u16,
    pub(in crate::ip) protocol: u8,
}

/// An incomplete datagram.
pub(in crate::ip) struct Datagram {
    pub(in crate::ip) since_ns: u64,
    /// Distinguishes it, in the queue by age, from others with the same key.
    pub(in crate::ip) serial: u64,
    /// The bytes before the data, from the first fragment if that has arrived; how many of them precede the
    /// IP header.
    pub(in crate::ip) head: Vec<u8>,
    pub(in crate::ip) link_len: usize,
    pub(in crate::ip) anno: Option<Box<Anno>>,
    pub(in crate::ip) timestamp_ns: u64,
    /// Payloads by their offset.
    pub(in crate::ip) parts: BTreeMap<u32, Box<[u8]>>,
    pub(in crate::ip) have: usize,
    /// The length of all data, known once the last fragment has arrived.
    pub(in crate::ip) total: Option<usize>,
    pub(in crate::ip) longest: u16,
    pub(in crate::ip) charged: usize,
    pub(in crate::ip) spoilt: bool,
}

#[derive(Default)]
pub(in crate::ip) struct Shard {
    pub(in crate::ip) waiting: HashMap<Key, Datagram>,
    /// In the order of their first fragments.
    pub(in crate::ip) times: VecDeque<(u64, u64, Key)>,
    pub(in crate::ip) serial: u64,
    pub(in crate::ip) seen: u64,
    pub(in crate::ip) good: u64,
    pub(in crate::ip) failed: u64,
    pub(in crate::ip) bad: u64,
}

/// State that all workers share.
pub(in crate::ip) struct Shared {
    pub(in crate::ip) shards: [Mutex<Shard>; SHARDS],
    pub(in crate::ip) hash: RandomState,
    /// Bytes in all shards.
    pub(in crate::ip) used: AtomicUsize,
    /// Its datagrams, of the entries that all the router's tables may have.
    pub(in crate::ip) held: Held,
}

impl Shared {
    pub(in crate::ip) fn new(budget: &Arc<Budget>) -> Self {
        let (hash, used) = (RandomState::new(), AtomicUsize::new(0));
        Self { shards: Default::default(), hash, used, held: Held::new(budget) }
    }
    pub(in crate::ip) fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let at = self.hash.hash_one(key) as usize % SHARDS;
        lock(self.shards.get(at).unwrap_or(&self.shards[0]))
    }
    /// Takes over the datagrams of another one.
    pub(in crate::ip) fn adopt(&self, old: &Self) {
        let mut moved = Vec::new();
        for (from, to) in old.shards.iter().zip(&self.shards) {
            let from = std::mem::take(&mut *lock(from));
            moved.extend(from.waiting);
            let mut to = lock(to);
            to.seen += from.seen;
            to.good += from.good;
            to.failed += from.failed;
            to.bad += from.bad;
        }
        moved.sort_by_key(|(_, d)| (d.since_ns, d.serial));
        old.held.give(moved.len());
        for (key, mut datagram) in moved {
            old.used.fetch_sub(datagram.charged, Relaxed);
            let mut to = self.shard(&key);
            if self.held.take().is_err() {
                to.failed += 1;
                continue;
            }
            self.used.fetch_add(datagram.charged, Relaxed);
            to.serial += 1;
            datagram.serial = to.serial;
            to.times.push_back((datagram.since_ns, datagram.serial, key));
            to.waiting.insert(key, datagram);
        }
    }
    /// Counters and incomplete datagrams, in the format of Click's handler `dump`.
    pub(in crate::ip) fn dump(&self) -> String {
        let (mut seen, mut good, mut failed, mut bad) = (0, 0, 0, 0);
        let mut list = String::new();
        for shard in &self.shards {
            let shard = lock(shard);
            (seen, good, failed, bad) =
                (seen + shard.seen, good + shard.good, failed + shard.failed, bad + shard.bad);
            for (key, datagram) in &shard.waiting {
                let ports = datagram.parts.get(&0).and_then(|p| wire::Udp::new(p));
                let (sport, dport) = ports.map_or((0, 0), |u| (u.src_port(), u.dst_port()));
                let _ = write!(list, " ({}, {sport}, {}, {dport}) {}", key.src, key.dst, key.id);
                let mut run: Option<(usize, usize)> = None;
                for (at, part) in &datagram.parts {
                    let (start, end) = (*at as usize, *at as usize + part.len());
                    run = match run {
                        Some((from, upto)) if upto == start => Some((from, end)),
                        Some((from, upto)) => {
                            let _ = write!(list, " ({from},{upto})");
                            Some((start, end))
                        }
                        None => Some((start, end)),
                    };
                }
                if let Some((from, upto)) = run {
                    let _ = write!(list, " ({from},{upto})");
                }
                list.push('\n');
            }
        }
        format!(
            "frags seen total:    {seen}\ngood reassemblies:   {good}\nfailed reassemblies: {failed}\n\
             bad fragments seen:  {bad}\ncached chunk data:\n{list}"
        )
    }
}

pub(in crate::ip) fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().ignore_poison()
}

/// A fragment's offset, and its contents of the datagram.
pub(in crate::ip) struct Piece<'a> {
    pub(in crate::ip) start: usize,
    pub(in crate::ip) data: &'a [u8],
    pub(in crate::ip) last: bool,
}

/// The effect of a fragment.
pub(in crate::ip) enum Outcome {
    Waits,
    Complete,
    Duplicate,
    Spoils,
}

impl Datagram {
    pub(in crate::ip) fn new(since_ns: u64, serial: u64) -> Self {
        Self {
            since_ns,
            serial,
            head: Vec::new(),
            link_len: 0,
            anno: None,
            timestamp_ns: 0,
            parts: BTreeMap::new(),
            have: 0,
            total: None,
            longest: 0,
            charged: OVERHEAD,
            spoilt: false,
        }
    }
    pub(in crate::ip) fn end(&self) -> usize {
        self.parts.last_key_value().map_or(0, |(at, part)| *at as usize + part.len())
    }
    /// Whether the bytes from `start` to `end` are present already and equal.
    pub(in crate::ip) fn repeats(&self, start: usize, data: &[u8]) -> bool {
        let mut at = start;
        let end = start + data.len();
        while at < end {
            let Some((&from, part)) = self.parts.range(..=at as u32).next_back() else { return false };
            let from = from as usize;
            let upto = (from + part.len()).min(end);
            if upto <= at || part.get(at - from..upto - from) != data.get(at - start..upto - start) {
                return false;
            }
            at = upto;
        }
        true
    }
    pub(in crate::ip) fn overlaps(&self, start: usize, end: usize) -> bool {
        (self.parts.range(..end as u32).next_back())
            .is_some_and(|(at, part)| *at as usize + part.len() > start)
    }
    pub(in crate::ip) fn add(&mut self, piece: &Piece<'_>) -> Outcome {
        let end = piece.start + piece.data.len();
        if self.spoilt {
            return Outcome::Spoils;
        }
        let contradicts = match self.total {
            Some(total) => end > total || (piece.last && end != total),
            None => piece.last && end < self.end(),
        };
        if contradicts {
            return Outcome::Spoils;
        }
        if self.overlaps(piece.start, end) {
            return if self.repeats(piece.start, piece.data) { Outcome::Duplicate } else { Outcome::Spoils };
        }
        if piece.last {
            self.total = Some(end);
        }
        self.parts.insert(piece.start as u32, piece.data.into());
        self.have += piece.data.len();
        self.charged += OVERHEAD + piece.data.len();
        if self.total == Some(self.have) { Outcome::Complete } else { Outcome::Waits }
    }
    /// Discards the data, and remembers only that the datagram is invalid.
    pub(in crate::ip) fn spoil(&mut self) {
        *self = Self { spoilt: true, ..Self::new(self.since_ns, self.serial) };
    }
    /// The data that has arrived as one packet, with zeros for missing bytes.
    pub(in crate::ip) fn packet(&self, mtu_anno: Option<usize>) -> Result<Packet, DropReason> {
        let (head_len, data_len) = (self.head.len(), self.total.unwrap_or(0).max(self.end()));
        let header_len = head_len - self.link_len.min(head_len);
        let total_len = u16::try_from(header_len + data_len).map_err(|_| drops::PACKET_TOO_LONG)?;
        let mut packet = Packet::alloc(DEFAULT_HEADROOM, head_len + data_len).ok_or(drops::OUT_OF_MEMORY)?;
        if let Some((head, data)) = packet.data_mut().split_at_mut_checked(head_len) {
            head.copy_from_slice(&self.head);
            for (at, part) in &self.parts {
                let at = *at as usize;
                if let Some(place) = data.get_mut(at..at + part.len()) {
                    place.copy_from_slice(part);
                }
            }
        }
        if let Some(anno) = &self.anno {
            *packet.anno_mut() = **anno;
            packet.clear_headers();
        }
        packet.set_timestamp_ns(self.timestamp_ns);
        if let Some(at) = mtu_anno {
            packet.anno_mut().set_u16(at, self.longest);
        }
        if self.link_len > 0 {
            packet.set_mac_header(0);
        }
        packet.set_network_header(self.link_len, header_len);
        if let Some(mut h) = header_mut(&mut packet) {
            h.set_total_len(total_len);
            h.set_fragment_offset(0);
            h.set_more_fragments(self.total.is_none());
        }
        fill_checksum(&mut packet);
        Ok(packet)
    }
    /// Stores a fragment's header: all of it if it is the first fragment, otherwise the fixed part.
    pub(in crate::ip) fn keep_head(&mut self, packet: &Packet, first: bool, header_len: usize) {
        let Some(network) = packet.network_header() else { return };
        self.head.clear();
        self.link_len = 0;
        if first {
            let link = packet.network_header_offset().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            let link = packet.data().get(..link).unwrap_or(&[]);
            self.link_len = link.len();
            self.head.extend_from_slice(link);
            self.head.extend_from_slice(network.get(..header_len).unwrap_or(&[]));
            self.anno = Some(Box::new(*packet.anno()));
        } else if let Some(h) = Ipv4::new(network) {
            let mut fixed = h.to_owned();
            fixed.set_header_len(wire::ipv4::HEADER_LEN);
            self.head.extend_from_slice(fixed.bytes());
        }
    }
}

impl Shard {
    /// Removes the oldest datagram, if it is older than `before_ns`.
    pub(in crate::ip) fn oldest(&mut self, before_ns: u64) -> Option<Datagram> {
        while let Some(&(since, serial, key)) = self.times.front() {
            let there = self.waiting.get(&key).is_some_and(|d| d.serial == serial);
            if there && since >= before_ns {
                return None;
            }
            self.times.pop_front();
            if there {
                self.failed += 1;
                return self.waiting.remove(&key);
            }
        }
        None
    }
    pub(in crate::ip) fn since(&self) -> Option<u64> {
        self.times.front().map(|t| t.0)
    }
    /// Removes queue entries of datagrams that are complete, when they are the majority.
    pub(in crate::ip) fn tidy(&mut self) {
        if self.times.len() > 64 && self.times.len() > 2 * self.waiting.len() {
            let waiting = &self.waiting;
            self.times.retain(|(_, serial, key)| waiting.get(key).is_some_and(|d| d.serial == *serial));
        }
    }
}
