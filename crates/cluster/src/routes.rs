//! The routes of the whole cluster. Every node has a copy; a route that is entered at one node is distributed
//! to all.
//!
//! A map from prefixes to gateways. Each entry carries a version, which is greater than all versions
//! that its node knew (Lamport, CACM 1978), and the node that wrote it; the greater pair wins, so all nodes
//! agree whatever the order in which entries reach them. A removed route is kept as an entry that is marked
//! as removed.
//!
//! # How copies are synchronized
//!
//! A change is sent to the neighbors at once, and by these to nodes without a link to the first one. Lost
//! changes are found by digests: prefixes fall into 64 groups of 64 buckets by a hash, and each bucket has a
//! sum over its entries. Neighbors put the sum over everything into their hellos. While these differ, each
//! sends the other its 64 sums of groups, receives the sums of the buckets of groups that differ, and sends
//! its entries of the buckets that differ. Every message fits into a frame, no node waits for one, and each
//! may be lost, repeated or late: remaining differences are found in the next round.
//!
//! Removed routes do not count in the sums. They are kept while there is memory; the oldest are deleted
//! first, and each bucket keeps the greatest version of its deleted ones. A neighbor that was disconnected
//! for a long time may still have a route that was removed here and whose entry is deleted. So if an entry
//! arrives for which there is none here, and it is older than the version that its bucket keeps, and older
//! than the last time at which both nodes had the same routes, then the route was removed here. It is removed
//! at the neighbor again; routes that were entered there meanwhile stay.
//!
//! A node that has just started may be given a route before it knows the versions of other nodes. Its entry
//! is written again, once, if an entry from before its start would win.

use crate::frame::Bytes;
use crate::{Error, NodeId, in_range};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Bound::{Excluded, Unbounded};
use tables::Prefix;

/// The largest possible number of routes.
pub const MAX_ROUTES: usize = 1 << 20;

const GROUPS: usize = 64;
const BUCKETS: usize = GROUPS * GROUPS;
const ENTRY_BYTES: usize = 20;
/// Changes that wait to be sent to a neighbor; further ones are found by digests.
const MAX_UPDATES: usize = 4096;
/// Entries that a node may have to write again after its start.
const MAX_FRESH: usize = 1 << 16;
/// Greater versions are not accepted.
const MAX_VERSION: u64 = 1 << 62;
/// How often sums are sent while they differ.
const SUMS_NS: u64 = 20_000_000;
/// The shortest room in which a piece makes progress.
const MIN_ROOM: usize = 4 + ENTRY_BYTES;

const ENTRIES: u8 = 1;
const SUMS: u8 = 2;
/// In place of a group's number: the sums are those of the groups.
const OF_GROUPS: u8 = GROUPS as u8;

/// The prefix that a text names; other bits behind it than zeros are an error.
///
/// # Errors
/// The text is no prefix.
pub fn prefix(text: &str) -> Result<Prefix, RouteError> {
    let address = text.split('/').next().and_then(|address| address.parse().ok()).map(Ipv4Addr::to_bits);
    let prefix = text.parse().ok().filter(|prefix: &Prefix| Some(prefix.first()) == address);
    prefix.ok_or_else(|| RouteError::NotAPrefix(text.to_owned()))
}

fn bucket_of(prefix: Prefix) -> usize {
    (mix(u64::from(prefix.first()) << 8 | u64::from(prefix.len())) >> 52) as usize
}

/// Why a route cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A text that is no prefix.
    #[error("'{0}' is not a network: write ADDRESS/LENGTH, with no bits set behind the prefix length")]
    NotAPrefix(String),
    /// Another route for the prefix.
    #[error("there is already a route to {0} via {1}; 'set' replaces it")]
    There(Prefix, Ipv4Addr),
    /// None.
    #[error("there is no route to {0}")]
    NotThere(Prefix),
    /// No room.
    #[error("there are {0} routes already, the largest possible number")]
    Full(usize),
}

/// What is known of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    version: u64,
    origin: NodeId,
    /// `None`: removed.
    via: Option<Ipv4Addr>,
}

impl Entry {
    fn rank(&self) -> (u64, NodeId, u32) {
        (self.version, self.origin, self.via.map_or(0, Ipv4Addr::to_bits))
    }
    fn hash(&self, prefix: Prefix) -> u64 {
        let Some(via) = self.via else { return 0 };
        let words = [
            u64::from(prefix.first()) << 32 | u64::from(via.to_bits()),
            u64::from(prefix.len()) << 16 | u64::from(self.origin.0),
            self.version,
        ];
        words.into_iter().fold(0, |sum, word| mix(sum ^ word))
    }
}

/// Distributes the bits of a number over the whole word (Steele, Lea and Flood, OOPSLA 2014).
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The digest of a node's routes in a hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The same for nodes with the same routes.
    pub digest: u64,
    /// The greatest version that it knows.
    pub clock: u64,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    entries: BTreeMap<Prefix, Entry>,
    sum: u64,
    /// The greatest version of a removed route that was here and is not remembered any more.
    forgotten: u64,
}

/// Data that is to be sent to a neighbor.
#[derive(Clone, Debug)]
struct Peer {
    updates: BTreeSet<Prefix>,
    /// Groups whose sums are to be sent.
    groups: u64,
    /// Buckets whose entries are to be sent, one word for each group.
    buckets: [u64; GROUPS],
    /// The entry of the first of these buckets that was sent last.
    sent: Option<Prefix>,
    /// The position in the sums that are being sent: of the groups, and of the first group of `groups`.
    of_groups: Option<u8>,
    of_buckets: u8,
    sums_ns: Option<u64>,
    /// The greatest version that it knew when it last had the same routes.
    agreed: u64,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            updates: BTreeSet::new(),
            groups: 0,
            buckets: [0; GROUPS],
            sent: None,
            of_groups: None,
            of_buckets: 0,
            sums_ns: None,
            agreed: 0,
        }
    }
}

impl Peer {
    fn next_bucket(&self) -> Option<usize> {
        let group = self.buckets.iter().position(|g| *g != 0)?;
        Some(group * GROUPS + self.buckets.get(group)?.trailing_zeros() as usize)
    }
    fn done(&mut self, bucket: usize) {
        self.sent = None;
        if let Some(group) = self.buckets.get_mut(bucket / GROUPS) {
            *group &= !(1 << (bucket % GROUPS));
        }
    }
}

/// One node's copy of the routes, and the data to be sent to its neighbors.
#[derive(Clone, Debug)]
pub struct Replica {
    me: NodeId,
    capacity: usize,
    clock: u64,
    buckets: Vec<Bucket>,
    groups: [u64; GROUPS],
    digest: u64,
    live: usize,
    /// Removed routes, the oldest first.
    removed: BTreeSet<(u64, Prefix)>,
    /// Prefixes whose routes have changed since the last call of [`Replica::changes`].
    changed: BTreeSet<Prefix>,
    /// Entries that were written here before any neighbor had the same routes.
    fresh: BTreeMap<Prefix, Option<Ipv4Addr>>,
    agreed: bool,
    refused: u64,
    peers: BTreeMap<NodeId, Peer>,
}

impl Replica {
    /// Without routes, with memory for this many.
    pub fn new(me: NodeId, capacity: usize) -> Result<Self, Error> {
        in_range("room", capacity as u64, "routes", 1, MAX_ROUTES as u64)?;
        Ok(Self {
            me,
            capacity,
            clock: 0,
            buckets: vec![Bucket::default(); BUCKETS],
            groups: [0; GROUPS],
            digest: 0,
            live: 0,
            removed: BTreeSet::new(),
            changed: BTreeSet::new(),
            fresh: BTreeMap::new(),
            agreed: false,
            refused: 0,
            peers: BTreeMap::new(),
        })
    }
    /// A link to a neighbor is up; data that was to be sent before is discarded.
    pub fn link(&mut self, peer: NodeId) {
        self.peers.insert(peer, Peer::default());
    }
    /// The link is down.
    pub fn unlink(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }
    /// The digest, for hellos.
    #[must_use]
    pub const fn summary(&self) -> Summary {
        Summary { digest: self.digest, clock: self.clock }
    }
    /// How many routes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }
    /// Entries of other nodes for which there was no memory.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }
    /// The gateway of a prefix.
    #[must_use]
    pub fn get(&self, prefix: Prefix) -> Option<Ipv4Addr> {
        self.entry(prefix)?.via
    }
    /// All routes, by prefix: gateway, the node where it was entered, and the version.
    #[must_use]
    pub fn table(&self) -> BTreeMap<Prefix, (Ipv4Addr, NodeId, u64)> {
        let all = self.buckets.iter().flat_map(|b| &b.entries);
        all.filter_map(|(p, e)| Some((*p, (e.via?, e.origin, e.version)))).collect()
    }
    /// Up to `most` prefixes whose routes have changed since the last call, with their current routes.
    pub fn changes(&mut self, most: usize) -> Vec<(Prefix, Option<Ipv4Addr>)> {
        let mut some = Vec::new();
        while some.len() < most
            && let Some(prefix) = self.changed.pop_first()
        {
            some.push((prefix, self.get(prefix)));
        }
        some
    }
    /// Whether there are such prefixes.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }
    /// Makes all routes count as changed.
    pub fn change_all(&mut self) {
        let all = self.buckets.iter().flat_map(|b| b.entries.iter().filter(|(_, e)| e.via.is_some()));
        self.changed = all.map(|(p, _)| *p).collect();
    }

    fn entry(&self, prefix: Prefix) -> Option<&Entry> {
        self.buckets.get(bucket_of(prefix))?.entries.get(&prefix)
    }

    /// Stores an entry in place of the existing one, whatever their versions; returns whether there is memory
    /// for it.
    fn put(&mut self, prefix: Prefix, new: Entry) -> bool {
        let at = bucket_of(prefix);
        let Some(bucket) = self.buckets.get_mut(at) else { return false };
        let old = bucket.entries.get(&prefix).copied();
        let was = old.and_then(|e| e.via);
        if new.via.is_some() && was.is_none() && self.live >= self.capacity {
            return false;
        }
        bucket.entries.insert(prefix, new);
        let change = new.hash(prefix).wrapping_sub(old.map_or(0, |e| e.hash(prefix)));
        bucket.sum = bucket.sum.wrapping_add(change);
        if let Some(group) = self.groups.get_mut(at / GROUPS) {
            *group = group.wrapping_add(change);
        }
        self.digest = self.digest.wrapping_add(change);
        self.live = self.live + usize::from(new.via.is_some()) - usize::from(was.is_some());
        if let Some(old) = old.filter(|e| e.via.is_none()) {
            self.removed.remove(&(old.version, prefix));
        }
        if new.via.is_none() {
            self.removed.insert((new.version, prefix));
            if self.removed.len() > self.capacity / 4 + 1024
                && let Some((version, oldest)) = self.removed.pop_first()
                && let Some(bucket) = self.buckets.get_mut(bucket_of(oldest))
            {
                bucket.entries.remove(&oldest);
                bucket.forgotten = bucket.forgotten.max(version);
            }
        }
        if was != new.via {
            self.changed.insert(prefix);
        }
        true
    }

    /// Writes an entry of this node, and sends it to all neighbors.
    fn write(&mut self, prefix: Prefix, via: Option<Ipv4Addr>) -> Result<(), RouteError> {
        let version = self.clock + 1;
        if !self.put(prefix, Entry { version, origin: self.me, via }) {
            return Err(RouteError::Full(self.capacity));
        }
        self.clock = version;
        if !self.agreed && self.fresh.len() < MAX_FRESH {
            self.fresh.insert(prefix, via);
        }
        self.peers.values_mut().for_each(|peer| queue_update(peer, prefix));
        Ok(())
    }
    /// Enters a route that must not exist, unless it is the same.
    pub fn add(&mut self, prefix: Prefix, via: Ipv4Addr) -> Result<(), RouteError> {
        match self.get(prefix) {
            Some(there) if there != via => Err(RouteError::There(prefix, there)),
            _ => self.set(prefix, via),
        }
    }
    /// Enters a route or replaces the one for the same prefix.
    pub fn set(&mut self, prefix: Prefix, via: Ipv4Addr) -> Result<(), RouteError> {
        if self.get(prefix) == Some(via) { Ok(()) } else { self.write(prefix, Some(via)) }
    }
    /// Removes a route.
    pub fn remove(&mut self, prefix: Prefix) -> Result<(), RouteError> {
        match self.get(prefix) {
            Some(_) => self.write(prefix, None),
            None => Err(RouteError::NotThere(prefix)),
        }
    }

    /// Handles the digest in a neighbor's hello.
    pub fn heard(&mut self, from: NodeId, theirs: Summary) {
        if theirs.clock < MAX_VERSION {
            self.clock = self.clock.max(theirs.clock);
        }
        if theirs.digest == self.digest {
            self.agreed = true;
            self.fresh.clear();
            if let Some(peer) = self.peers.get_mut(&from) {
                peer.agreed = peer.agreed.max(theirs.clock);
            }
        }
    }

    /// Receives a piece of a neighbor's routes. `reaches` returns whether one node sends its entries directly
    /// to another. False: the piece is malformed; the part that could be read is used nevertheless.
    pub fn take(&mut self, from: NodeId, piece: &[u8], reaches: impl Fn(NodeId, NodeId) -> bool) -> bool {
        let mut bytes = Bytes(piece);
        match bytes.byte() {
            Some(ENTRIES) => {
                while !bytes.0.is_empty() {
                    let Some((prefix, entry)) = read(&mut bytes) else { return false };
                    self.merge(from, prefix, entry, &reaches);
                }
                true
            }
            Some(SUMS) => {
                let Some([of, first]) = bytes.array() else { return false };
                self.compare(from, of, first, bytes)
            }
            _ => false,
        }
    }

    fn merge(&mut self, from: NodeId, prefix: Prefix, new: Entry, reaches: impl Fn(NodeId, NodeId) -> bool) {
        if new.version >= MAX_VERSION || self.entry(prefix).is_some_and(|old| old.rank() >= new.rank()) {
            return;
        }
        self.clock = self.clock.max(new.version);
        if new.via.is_some() && self.was_removed(from, prefix, &new) {
            // There is always memory for the removal of a route, and a version that is greater than all.
            let _ = self.write(prefix, None);
            return;
        }
        if !self.put(prefix, new) {
            self.refused += 1;
            return;
        }
        if let Some(mine) = self.fresh.remove(&prefix)
            && mine != new.via
            && self.write(prefix, mine).is_ok()
        {
            self.fresh.remove(&prefix);
            return;
        }
        for (peer, state) in &mut self.peers {
            if *peer != from && *peer != new.origin && !reaches(new.origin, *peer) {
                queue_update(state, prefix);
            }
        }
    }

    /// Whether an entry that does not exist here once did, and was removed so long ago that this is not
    /// remembered.
    fn was_removed(&self, from: NodeId, prefix: Prefix, entry: &Entry) -> bool {
        self.peers.get(&from).is_some_and(|peer| entry.version <= peer.agreed)
            && self.buckets.get(bucket_of(prefix)).is_some_and(|bucket| {
                entry.version < bucket.forgotten && !bucket.entries.contains_key(&prefix)
            })
    }

    /// Compares sums with this node's own, and records what to send.
    fn compare(&mut self, from: NodeId, of: u8, first: u8, mut theirs: Bytes<'_>) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else { return true };
        let (of, mut at) = (usize::from(of), usize::from(first));
        while !theirs.0.is_empty() {
            let Some(sum) = theirs.long() else { return false };
            let (own, noted) = if of == GROUPS {
                (self.groups.get(at).copied(), Some(&mut peer.groups))
            } else {
                let bucket = self.buckets.get(of * GROUPS + at);
                (bucket.map(|b| b.sum), peer.buckets.get_mut(of))
            };
            let (Some(own), Some(noted), true) = (own, noted, at < GROUPS) else { return false };
            if own != sum {
                *noted |= 1 << at;
            }
            at += 1;
        }
        true
    }

    /// Writes the next piece for a neighbor into `out`, at most `room` bytes; nothing if there is nothing to
    /// send. `theirs` is the digest in its last hello.
    pub fn piece(
        &mut self,
        now_ns: u64,
        to: NodeId,
        theirs: Option<Summary>,
        room: usize,
        out: &mut Vec<u8>,
    ) {
        let Some(peer) = self.peers.get_mut(&to).filter(|_| room >= MIN_ROOM) else { return };
        if !peer.updates.is_empty() {
            out.push(ENTRIES);
            while out.len() + ENTRY_BYTES <= room
                && let Some(prefix) = peer.updates.pop_first()
            {
                if let Some(entry) = self.buckets.get(bucket_of(prefix)).and_then(|b| b.entries.get(&prefix))
                {
                    write(prefix, entry, out);
                }
            }
            return;
        }
        if theirs.is_none_or(|t| t.digest == self.digest) {
            // The routes have become equal meanwhile, or its hellos do not arrive: nothing that was requested
            // is needed.
            *peer = Peer { sums_ns: peer.sums_ns, agreed: peer.agreed, ..Peer::default() };
            return;
        }
        if peer.next_bucket().is_some() {
            out.push(ENTRIES);
            while let Some(at) = peer.next_bucket() {
                let entries = self.buckets.get(at).map(|b| &b.entries);
                let after = peer.sent.map_or(Unbounded, Excluded);
                for (prefix, entry) in entries.into_iter().flat_map(|e| e.range((after, Unbounded))) {
                    if out.len() + ENTRY_BYTES > room {
                        return;
                    }
                    write(*prefix, entry, out);
                    peer.sent = Some(*prefix);
                }
                peer.done(at);
            }
            if out.len() == 1 {
                out.clear();
            }
            return;
        }
        let sums = |of: usize, at: usize| {
            if of == GROUPS {
                self.groups.get(at).copied()
            } else {
                self.buckets.get(of * GROUPS + at).map(|b| b.sum)
            }
        };
        let mut send = |of: usize, first: u8| {
            out.extend([SUMS, of as u8, first]);
            let fits = (room - out.len()) / 8;
            let last = (usize::from(first) + fits).min(GROUPS);
            for at in usize::from(first)..last {
                out.extend(sums(of, at).unwrap_or(0).to_be_bytes());
            }
            last as u8
        };
        if peer.groups != 0 {
            let group = peer.groups.trailing_zeros() as usize;
            peer.of_buckets = send(group, peer.of_buckets);
            if usize::from(peer.of_buckets) == GROUPS {
                peer.groups &= peer.groups - 1;
                peer.of_buckets = 0;
            }
            return;
        }
        let again = peer.sums_ns.is_none_or(|at| now_ns.saturating_sub(at) >= SUMS_NS);
        if peer.of_groups.is_none() && again {
            (peer.of_groups, peer.sums_ns) = (Some(0), Some(now_ns));
        }
        if let Some(first) = peer.of_groups {
            let next = send(usize::from(OF_GROUPS), first);
            peer.of_groups = Some(next).filter(|n| usize::from(*n) < GROUPS);
        }
    }
}

fn queue_update(peer: &mut Peer, prefix: Prefix) {
    if peer.updates.len() < MAX_UPDATES {
        peer.updates.insert(prefix);
    }
}

fn write(prefix: Prefix, entry: &Entry, out: &mut Vec<u8>) {
    out.extend(prefix.first().to_be_bytes());
    out.extend([prefix.len(), u8::from(entry.via.is_some())]);
    out.extend(entry.origin.0.to_be_bytes());
    out.extend(entry.version.to_be_bytes());
    out.extend(entry.via.map_or(0, Ipv4Addr::to_bits).to_be_bytes());
}

fn read(b: &mut Bytes<'_>) -> Option<(Prefix, Entry)> {
    let address = b.word()?;
    let [length, there] = b.array()?;
    let (origin, version, via) = (NodeId(b.short()?), b.long()?, Ipv4Addr::from_bits(b.word()?));
    let prefix = Prefix::new(address, length).filter(|p| p.first() == address)?;
    let via = match there {
        0 if via.is_unspecified() => None,
        1 => Some(via),
        _ => return None,
    };
    Some((prefix, Entry { version, origin, via }))
}
