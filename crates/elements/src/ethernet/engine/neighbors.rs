//! The neighbor table: the Ethernet addresses of IP addresses, and the packets that wait for them.
//!
//! One table serves all workers. It is locked only on the slow path (a reply, a miss, a time-out). Each
//! worker keeps a copy of the entries that it uses, and checks a version number once for each batch to see
//! whether the copy is still valid.

use super::waiting::{Line, Waiting};
use dpdk::Packet;
use locks::lock_counted;
use runtime::{Budget, Held, Over};
use std::fmt::{self, Write};
use std::hash::Hash;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tables::{Displaced, ExactMap};
use wire::EtherAddr;

/// The time after which a querier sends another request for the same address: at first, and after
/// `PATIENCE` requests without a reply.
const REQUERY_NS: u64 = 100_000_000;
const SELDOM_NS: u64 = 2_000_000_000;
const PATIENCE: u8 = 10;
/// How long a worker's copy of an entry is valid while it is asked for.
const ANSWER_NS: u64 = 10_000_000;
/// The default limit of entries: an attacker who causes requests for a whole subnet must not fill the memory.
const DEFAULT_ENTRIES: usize = 65_536;
/// Default of `CAPACITY`: the most packets that wait, in all.
pub(crate) const DEFAULT_PACKETS: usize = 2048;
/// Default of `CAPACITY_SLIM_FACTOR`.
pub(crate) const DEFAULT_SLIM: u32 = 2;
/// What `CAPACITY 0` means.
const MOST_PACKETS: usize = 65_536;
/// Default of `TIMEOUT`, in nanoseconds.
pub(crate) const DEFAULT_TIMEOUT_NS: u64 = 300_000_000_000;

/// An IP address of either version.
pub(crate) trait Address: Copy + Ord + Hash + fmt::Display + Send + 'static {
    /// An address that no neighbor has.
    const NONE: Self;
    /// A number in which all bits of the address have a part.
    fn fold(self) -> u32;
}

impl Address for Ipv4Addr {
    const NONE: Self = Self::UNSPECIFIED;
    #[inline]
    fn fold(self) -> u32 {
        self.into()
    }
}

impl Address for Ipv6Addr {
    const NONE: Self = Self::UNSPECIFIED;
    #[inline]
    fn fold(self) -> u32 {
        let bits = self.to_bits();
        let half = bits as u64 ^ ((bits >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        half as u32 ^ ((half >> 32) as u32).rotate_left(16)
    }
}

/// Limits of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most packets that wait, in all.
    pub(crate) packets: usize,
    /// The most packets that wait for one address.
    pub(crate) per_entry: usize,
    /// The most entries; 0 means the default.
    pub(crate) entries: usize,
    /// How long a reply is valid, in nanoseconds; 0 means for ever.
    pub(crate) timeout_ns: u64,
    /// Whether an address that is not known is forgotten when no packet waits for it any more. So there are
    /// never more of them than packets may wait, and whoever sends to all addresses of a large network does
    /// not displace those that are known (RFC 6583).
    pub(crate) forgets: bool,
    /// When too many packets wait, this part of them is dropped at once (2: half of them), those for the
    /// entries first that have not been heard of for longest; 0: one, that which has waited longest.
    pub(crate) slim: u32,
    /// Whether a reply that nobody has asked for makes an entry.
    pub(crate) unrequested: bool,
    /// Whether a packet is dropped if too many wait for its address, rather than the oldest of them.
    pub(crate) keeps_oldest: bool,
}

impl Limits {
    fn most_entries(&self) -> usize {
        if self.entries == 0 { DEFAULT_ENTRIES } else { self.entries }
    }
}

/// The packets that may wait, of the `CAPACITY` argument.
pub(crate) fn capacity(packets: Option<u32>) -> usize {
    match packets {
        None => DEFAULT_PACKETS,
        Some(0) => MOST_PACKETS,
        Some(n) => n as usize,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packets: DEFAULT_PACKETS,
            per_entry: usize::MAX,
            entries: 0,
            timeout_ns: DEFAULT_TIMEOUT_NS,
            forgets: false,
            slim: DEFAULT_SLIM,
            unrequested: false,
            keeps_oldest: false,
        }
    }
}

#[derive(Default)]
struct Entry {
    address: Option<EtherAddr>,
    /// The address has not been confirmed for longer than the time-out.
    expired: bool,
    /// When the address was last confirmed.
    confirmed_ns: u64,
    /// When the last request for it was sent.
    asked_ns: u64,
    /// Requests since the last reply.
    asked: u8,
    /// Where it is among the entries of the same `live_ns`: behind the others if it was made or confirmed
    /// last, before them if its time was only put off.
    age: i64,
    /// When the entry was made or last confirmed; while packets are sent to the address, at most the time-out
    /// ago.
    live_ns: u64,
    /// The packets that wait for the address, oldest first, in [`State::waiting`].
    waiting: Line,
}

impl Entry {
    /// The address, if it is known and has not expired.
    fn known(&self) -> Option<EtherAddr> {
        self.address.filter(|_| !self.expired)
    }
    /// How long after a request there may be another one.
    fn patience_ns(&self) -> u64 {
        if self.asked >= PATIENCE { SELDOM_NS } else { REQUERY_NS }
    }
    /// Whether to send a request now; then it counts as sent.
    fn ask(&mut self, now_ns: u64) -> bool {
        let ask = self.asked_ns == 0 || now_ns.saturating_sub(self.asked_ns) >= self.patience_ns();
        if ask {
            self.asked_ns = now_ns.max(1);
            self.asked = self.asked.saturating_add(1);
        }
        ask
    }
    /// The address is no longer known.
    fn forget(&mut self, now_ns: u64, age: i64) {
        (self.address, self.expired) = (None, false);
        (self.live_ns, self.age) = (now_ns, age);
        (self.asked, self.asked_ns) = (0, 0);
    }
    /// A reply has come.
    fn confirm(&mut self, address: EtherAddr, now_ns: u64, age: i64) {
        (self.address, self.expired) = (Some(address), false);
        (self.confirmed_ns, self.live_ns, self.age) = (now_ns, now_ns, age);
        (self.asked, self.asked_ns) = (0, 0);
    }
}

struct State<A: Address> {
    entries: ExactMap<A, Entry>,
    limits: Limits,
    waiting: Waiting<A>,
    /// How many entries have been made or confirmed, or had their time put off.
    age: i64,
    /// What it has of the entries that all the router's tables may have.
    held: Option<Held>,
}

impl<A: Address> State<A> {
    /// Enters an address that is not in the table. If there may be no more entries, the one that was used
    /// longest ago makes room; if the table has none, it is not entered. Returns the packets that waited for
    /// the entry that made room, and whether it was the limit of all tables.
    fn enter(&mut self, ip: A, entry: Entry, now_ns: u64) -> (Vec<Packet>, Option<Over>) {
        let mut over = self.held.as_ref().and_then(|held| held.take().err());
        let removed = match over {
            None => None,
            Some(_) => match self.entries.pop_oldest() {
                Some((_, oldest)) => Some(oldest),
                None => return (self.waiting.take_all(entry.waiting), over.take()),
            },
        };
        self.age += 1;
        let entry = Entry { age: self.age, ..entry };
        let removed = match self.entries.insert(ip, entry, now_ns) {
            Displaced::Nothing => removed,
            Displaced::Replaced(lost) | Displaced::Evicted(_, lost) => {
                self.gone(1);
                Some(lost)
            }
        };
        (removed.map(|lost| self.waiting.take_all(lost.waiting)).unwrap_or_default(), over)
    }
    /// So many entries are no longer in the table.
    fn gone(&self, entries: usize) {
        self.held.iter().for_each(|held| held.give(entries));
    }
}

/// The table.
pub(crate) struct Neighbors<A: Address = Ipv4Addr> {
    state: Mutex<State<A>>,
    version: AtomicU64,
    /// Packets that were dropped while they waited: too many did, nobody replied, or a handler has removed
    /// all.
    drops: AtomicU64,
}

/// The result of a lookup: what the table knows, and what happens to the packet.
pub(crate) enum Answer {
    /// The packet is returned, to be sent to this address. The reply may be cached until the time given;
    /// `ask` requires a new request meanwhile.
    Known { packet: Packet, address: EtherAddr, until_ns: u64, ask: bool },
    /// The table keeps the packet until a reply comes; `ask` requires a request. Packets that were removed
    /// because too many wait are returned. `over`: there may be no more neighbors, and the owner is to be
    /// told.
    Waits { ask: bool, displaced: Vec<Packet>, over: Option<Over> },
}

impl<A: Address> Neighbors<A> {
    pub(crate) fn new(limits: Limits) -> Self {
        let (entries, waiting) = (ExactMap::new(limits.most_entries()), Waiting::default());
        Self {
            state: Mutex::new(State { entries, limits, waiting, age: 0, held: None }),
            version: AtomicU64::new(1),
            drops: AtomicU64::new(0),
        }
    }

    /// Has its entries count for a limit of all the router's tables.
    pub(crate) fn limited(self, budget: &Arc<Budget>) -> Self {
        self.lock().held = Some(Held::new(budget));
        self
    }

    fn lock(&self) -> MutexGuard<'_, State<A>> {
        lock_counted(&self.state)
    }

    /// Increases whenever a reply that may have been cached is no longer valid.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Looks up an address for a packet. `poll_ns` is the age at which a new request for an address is sent.
    pub(crate) fn find(&self, ip: A, packet: Packet, now_ns: u64, poll_ns: u64) -> Answer {
        let mut state = self.lock();
        let timeout = if state.limits.timeout_ns == 0 { u64::MAX } else { state.limits.timeout_ns };
        // By default the entry that makes room is the one that was used longest ago; with a limit of the
        // user's, as in Click, the one that was confirmed longest ago.
        let by_use = state.limits.entries == 0;
        let entry = if by_use { state.entries.touch(&ip, now_ns) } else { state.entries.get_mut(&ip) };
        if let Some(entry) = entry
            && let Some(address) = entry.known()
        {
            let age = now_ns.saturating_sub(entry.confirmed_ns);
            // Click's entries expire after their time, not when it is over.
            if age <= timeout {
                let old = age >= poll_ns;
                let ask = old && entry.ask(now_ns);
                let fresh = entry.confirmed_ns.saturating_add(poll_ns.min(timeout));
                let again = entry.asked_ns.saturating_add(entry.patience_ns());
                // A reply, which a worker's copy does not see, lets the next request be sent at once.
                let until_ns = if old { again.min(now_ns.saturating_add(ANSWER_NS)) } else { fresh };
                return Answer::Known { packet, address, until_ns, ask };
            }
            entry.expired = true;
        }
        let (mut displaced, mut over) = (Vec::new(), None);
        if state.entries.get(&ip).is_none() {
            (displaced, over) = state.enter(ip, Entry { live_ns: now_ns, ..Entry::default() }, now_ns);
            over = over.filter(|over| over.tell);
        }
        let State { entries, limits, waiting, held, age, .. } = &mut *state;
        let Some(entry) = entries.get_mut(&ip) else {
            displaced.push(packet);
            self.drops.fetch_add(displaced.len() as u64, Ordering::Relaxed);
            return Answer::Waits { ask: false, displaced, over };
        };
        // While packets are sent to it, it does not end; it is as old as it may be.
        let least_ns = now_ns.saturating_sub(timeout);
        if entry.live_ns < least_ns {
            *age += 1;
            (entry.live_ns, entry.age) = (least_ns, -*age);
        }
        if limits.keeps_oldest && entry.waiting.len() >= limits.per_entry.max(1) {
            displaced.push(packet);
            self.drops.fetch_add(displaced.len() as u64, Ordering::Relaxed);
            return Answer::Waits { ask: entry.ask(now_ns), displaced, over };
        }
        // The newest packet is kept rather than the oldest: its sender still waits for an answer.
        while entry.waiting.len() >= limits.per_entry.max(1)
            && let Some(lost) = waiting.pop(&mut entry.waiting)
        {
            displaced.push(lost);
        }
        let ask = entry.ask(now_ns);
        // A host that causes requests for many unused addresses must not make the packets of others wait for
        // ever.
        let capacity = limits.packets.max(1);
        if waiting.len() >= capacity && limits.slim > 0 {
            let keep = (capacity - capacity / limits.slim as usize).max(1);
            slim(entries, waiting, keep - 1, &mut displaced);
        }
        while waiting.len() >= capacity
            && let Some(oldest) = waiting.oldest()
            && let Some(entry) = entries.get_mut(&oldest)
            && let Some(lost) = waiting.pop(&mut entry.waiting)
        {
            displaced.push(lost);
            if limits.forgets && oldest != ip && entry.known().is_none() && entry.waiting.len() == 0 {
                entries.remove(&oldest);
                held.iter().for_each(|held| held.give(1));
            }
        }
        match entries.get_mut(&ip) {
            Some(entry) if waiting.len() < capacity => waiting.push(&mut entry.waiting, ip, packet),
            _ => displaced.push(packet),
        }
        self.drops.fetch_add(displaced.len() as u64, Ordering::Relaxed);
        Answer::Waits { ask, displaced, over }
    }

    /// The request that [`Neighbors::find`] asked for was not sent: the next packet causes it.
    pub(crate) fn not_asked(&self, ip: A) {
        if let Some(entry) = self.lock().entries.get_mut(&ip).filter(|entry| entry.known().is_none()) {
            entry.asked_ns = 0;
            entry.asked = entry.asked.saturating_sub(1);
        }
    }

    /// Stores a reply; returns the packets that waited for it, and those that waited for an entry that was
    /// removed because the table was full.
    pub(crate) fn learn(&self, ip: A, address: EtherAddr, now_ns: u64) -> (Vec<Packet>, Vec<Packet>) {
        let mut state = self.lock();
        let State { entries, waiting, age, limits, .. } = &mut *state;
        let Some(entry) = entries.touch(&ip, now_ns) else {
            let unrequested = limits.unrequested;
            drop(state);
            // A router that may have no more neighbors keeps those that it has asked for.
            let stored = unrequested.then(|| self.insert(ip, address, now_ns).ok()).flatten();
            return stored.unwrap_or_default();
        };
        let moved = entry.known() != Some(address);
        *age += 1;
        entry.confirm(address, now_ns, *age);
        let freed = waiting.take_all(std::mem::take(&mut entry.waiting));
        drop(state);
        if moved {
            self.changed();
        }
        (freed, Vec::new())
    }

    /// Enters an address by hand. Returns the packets that waited for it, and those that waited for an entry
    /// that was removed because the table was full.
    ///
    /// # Errors
    /// The router may have no more neighbors.
    pub(crate) fn insert(
        &self,
        ip: A,
        address: EtherAddr,
        now_ns: u64,
    ) -> Result<(Vec<Packet>, Vec<Packet>), Over> {
        let mut state = self.lock();
        let mut waited = Vec::new();
        let mut entry = state.entries.remove(&ip);
        match entry.take() {
            Some(old) => waited = state.waiting.take_all(old.waiting),
            None => state.held.as_ref().map_or(Ok(()), Held::take)?,
        }
        state.age += 1;
        let mut entry = Entry::default();
        entry.confirm(address, now_ns, state.age);
        let mut lost = Vec::new();
        if let Displaced::Replaced(old) | Displaced::Evicted(_, old) = state.entries.insert(ip, entry, now_ns)
        {
            state.gone(1);
            lost = state.waiting.take_all(old.waiting);
        }
        drop(state);
        self.changed();
        self.drops.fetch_add(lost.len() as u64, Ordering::Relaxed);
        Ok((waited, lost))
    }
    /// Enters an address by hand, or an entry without one. Packets that wait for it go on waiting: a reply
    /// will send them. Returns those that waited for an entry that was removed because the table was full.
    ///
    /// # Errors
    /// The router may have no more neighbors.
    pub(crate) fn set(&self, ip: A, address: Option<EtherAddr>, now_ns: u64) -> Result<Vec<Packet>, Over> {
        let mut state = self.lock();
        let mut lost = Vec::new();
        if state.entries.get(&ip).is_none() {
            state.held.as_ref().map_or(Ok(()), Held::take)?;
            if let Displaced::Replaced(old) | Displaced::Evicted(_, old) =
                state.entries.insert(ip, Entry::default(), now_ns)
            {
                state.gone(1);
                lost = state.waiting.take_all(old.waiting);
            }
        }
        state.age += 1;
        let State { entries, age, .. } = &mut *state;
        match (entries.touch(&ip, now_ns), address) {
            (Some(entry), Some(address)) => entry.confirm(address, now_ns, *age),
            (Some(entry), None) => entry.forget(now_ns, *age),
            (None, _) => {}
        }
        drop(state);
        self.changed();
        self.drops.fetch_add(lost.len() as u64, Ordering::Relaxed);
        Ok(lost)
    }
    /// Removes an address; returns the packets that waited.
    pub(crate) fn remove(&self, ip: A) -> Vec<Packet> {
        let mut state = self.lock();
        let entry = state.entries.remove(&ip);
        state.gone(usize::from(entry.is_some()));
        let waited = entry.map(|e| state.waiting.take_all(e.waiting)).unwrap_or_default();
        drop(state);
        self.changed();
        waited
    }
    /// Removes addresses that have not been confirmed, or for which no reply has come, within the time-out;
    /// returns the packets that waited.
    pub(crate) fn expire(&self, now_ns: u64) -> Vec<Packet> {
        let mut state = self.lock();
        let timeout = state.limits.timeout_ns;
        if timeout == 0 {
            return Vec::new();
        }
        let expired = |e: &Entry| now_ns.saturating_sub(e.live_ns) > timeout;
        let old: Vec<A> = state.entries.iter().filter(|(_, e, _)| expired(e)).map(|(ip, _, _)| *ip).collect();
        let mut waited = Vec::new();
        for ip in old {
            if let Some(entry) = state.entries.remove(&ip) {
                state.gone(1);
                waited.extend(state.waiting.take_all(entry.waiting));
            }
        }
        self.drops.fetch_add(waited.len() as u64, Ordering::Relaxed);
        waited
    }
    /// How long after one [`Neighbors::expire`] the next is due, in nanoseconds; `None`: nothing expires.
    pub(crate) fn expiry_interval(&self) -> Option<u64> {
        let timeout = self.timeout_ns();
        // As in Click: an entry that has just not expired now will have expired when the timer runs again.
        (timeout > 0).then(|| timeout.saturating_add(1_000_000_000))
    }
    /// Removes all entries; returns the packets that waited.
    pub(crate) fn clear(&self) -> Vec<Packet> {
        let mut state = self.lock();
        let mut waited = Vec::new();
        while let Some((_, entry)) = state.entries.pop_oldest() {
            state.gone(1);
            waited.extend(state.waiting.take_all(entry.waiting));
        }
        drop(state);
        self.changed();
        self.drops.fetch_add(waited.len() as u64, Ordering::Relaxed);
        waited
    }
    /// Takes over the entries of another table, and its waiting packets. Returns packets that exceed the
    /// limits here, and those whose address is known here already.
    pub(crate) fn adopt(&self, old: &Self, now_ns: u64) -> Vec<Packet> {
        let mut from = old.lock();
        let mut moved = Vec::new();
        while let Some((ip, mut entry)) = from.entries.pop_oldest() {
            let packets = from.waiting.take_all(std::mem::take(&mut entry.waiting));
            moved.push((ip, entry, packets));
        }
        from.gone(moved.len());
        drop(from);
        self.drops.fetch_add(old.drops.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        let mut state = self.lock();
        let mut lost = Vec::new();
        for (ip, entry, packets) in moved {
            if state.entries.get(&ip).is_none() {
                lost.extend(state.enter(ip, entry, now_ns).0);
            }
            let State { entries, limits, waiting, .. } = &mut *state;
            // A worker that already runs the new configuration may have learned it, or sent a request for it.
            let Some(entry) = entries.get_mut(&ip).filter(|e| e.known().is_none()) else {
                lost.extend(packets);
                continue;
            };
            for packet in packets {
                if entry.waiting.len() >= limits.per_entry.max(1) {
                    lost.extend(waiting.pop(&mut entry.waiting));
                }
                if waiting.len() < limits.packets {
                    waiting.push(&mut entry.waiting, ip, packet);
                } else {
                    lost.push(packet);
                }
            }
        }
        drop(state);
        self.changed();
        self.drops.fetch_add(lost.len() as u64, Ordering::Relaxed);
        lost
    }

    /// The number of entries, known or requested.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }
    /// The number of packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
    /// The number of packets that were dropped while they waited.
    pub(crate) fn drops(&self) -> u64 {
        self.drops.load(Ordering::Relaxed)
    }
    /// All entries by address, with the Ethernet address if it is known.
    pub(crate) fn rows(&self) -> Vec<(A, Option<EtherAddr>)> {
        let state = self.lock();
        let mut rows: Vec<_> = state.entries.iter().map(|(ip, e, _)| (*ip, e.known())).collect();
        drop(state);
        rows.sort();
        rows
    }
    /// One entry on a line, as Click's `table`, those first that have not been heard of for longest: IP
    /// address, 1 if the Ethernet address is valid, the Ethernet address, seconds since the entry was made or
    /// confirmed.
    pub(crate) fn list(&self, now_ns: u64) -> String {
        let state = self.lock();
        let timeout = if state.limits.timeout_ns == 0 { u64::MAX } else { state.limits.timeout_ns };
        let row = |ip: &A, e: &Entry| {
            let age = now_ns.saturating_sub(e.live_ns);
            let valid = e.known().is_some() && age <= timeout;
            ((e.live_ns, e.age), *ip, valid, e.address.unwrap_or(EtherAddr::BROADCAST), age / 1_000_000)
        };
        let mut rows: Vec<_> = state.entries.iter().map(|(ip, e, _)| row(ip, e)).collect();
        drop(state);
        rows.sort_unstable_by_key(|row| row.0);
        rows.iter().fold(String::new(), |mut text, (_, ip, valid, address, age_ms)| {
            let (seconds, ms) = (age_ms / 1000, age_ms % 1000);
            let _ = writeln!(text, "{ip} {} {address} {seconds}.{ms:03}000", u8::from(*valid));
            text
        })
    }
    /// The Ethernet address of an IP address, if it is known.
    pub(crate) fn get(&self, ip: A) -> Option<EtherAddr> {
        self.lock().entries.get(&ip).and_then(Entry::known)
    }
    /// The IP addresses that have an Ethernet address.
    pub(crate) fn reverse(&self, address: EtherAddr) -> Option<A> {
        self.lock().entries.iter().find(|(_, e, _)| e.known() == Some(address)).map(|(ip, _, _)| *ip)
    }
    /// How long a reply is valid, in nanoseconds.
    pub(crate) fn timeout_ns(&self) -> u64 {
        self.lock().limits.timeout_ns
    }
    /// Changes the limits. Returns the packets that waited for entries which are too many now.
    pub(crate) fn set_limits(&self, now_ns: u64, change: impl FnOnce(&mut Limits)) -> Vec<Packet> {
        let mut state = self.lock();
        let before = state.limits.most_entries();
        change(&mut state.limits);
        let (most, mut lost) = (state.limits.most_entries(), Vec::new());
        if most != before {
            let mut entries = ExactMap::new(most);
            while let Some((ip, entry)) = state.entries.pop_oldest() {
                if let Displaced::Replaced(old) | Displaced::Evicted(_, old) =
                    entries.insert(ip, entry, now_ns)
                {
                    state.gone(1);
                    lost.extend(state.waiting.take_all(old.waiting));
                }
            }
            state.entries = entries;
        }
        drop(state);
        self.changed();
        self.drops.fetch_add(lost.len() as u64, Ordering::Relaxed);
        lost
    }
}

/// Drops packets until so many wait, those for the entries first that have not been heard of for longest.
fn slim<A: Address>(
    entries: &mut ExactMap<A, Entry>,
    waiting: &mut Waiting<A>,
    keep: usize,
    displaced: &mut Vec<Packet>,
) {
    let mut lines: Vec<((u64, i64), A)> = (waiting.addresses())
        .filter_map(|ip| entries.get(&ip).map(|entry| ((entry.live_ns, entry.age), ip)))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    for (_, ip) in lines {
        while waiting.len() > keep
            && let Some(entry) = entries.get_mut(&ip)
            && let Some(lost) = waiting.pop(&mut entry.waiting)
        {
            displaced.push(lost);
        }
    }
}

/// One worker's copy of the entries that it uses. Each address has one position, computed by a
/// multiplication; another address with the same position replaces it.
pub(crate) struct Cache<A: Address = Ipv4Addr> {
    version: u64,
    places: Box<[Copied<A>; CACHE]>,
}

/// A copied entry; valid for one version of the table.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Copied<A> {
    version: u64,
    until_ns: u64,
    ip: A,
    address: EtherAddr,
}

const CACHE_BITS: u32 = 10;
/// The number of entries in a worker's copy: 32 KB, of IPv6 addresses 64 KB, less than a processor's
/// second-level cache.
const CACHE: usize = 1 << CACHE_BITS;

impl<A: Address> Default for Cache<A> {
    fn default() -> Self {
        let nothing = Copied { version: 0, until_ns: 0, ip: A::NONE, address: EtherAddr::ZERO };
        Self { version: 0, places: Box::new([nothing; CACHE]) }
    }
}

impl<A: Address> Cache<A> {
    /// Checks whether the table has changed: then the copy is no longer valid. Call once for each batch.
    #[inline]
    pub(crate) fn check(&mut self, table: &Neighbors<A>) {
        self.version = table.version();
    }
    #[inline]
    fn place(ip: A) -> usize {
        (ip.fold().wrapping_mul(0x9e37_79b1) >> (32 - CACHE_BITS)) as usize
    }
    #[inline]
    pub(crate) fn get(&self, ip: A, now_ns: u64) -> Option<EtherAddr> {
        let known = &self.places[Self::place(ip) % CACHE];
        (known.ip == ip && known.version == self.version && now_ns < known.until_ns).then_some(known.address)
    }
    pub(crate) fn put(&mut self, ip: A, address: EtherAddr, until_ns: u64) {
        self.places[Self::place(ip) % CACHE] = Copied { version: self.version, until_ns, ip, address };
    }
}

#[cfg(test)]
mod tests;
