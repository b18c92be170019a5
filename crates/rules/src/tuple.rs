//! The rules of a group that look at the same bits: a hash table from the values of these bits to the rules
//! that have them.
//!
//! One writer changes it while readers look. An *entry* has the values, what the rule does, and the versions
//! from which and until which it counts. A *slot* of the hash table leads to an entry. An entry is written
//! before a slot leads to it, and written again only when no reader can have found it.

use crate::key::{Key, WORDS};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// What an entry has beside its values: priority and mark; verdict; number; from which version; until which.
const META: usize = 5;
const PRIORITY_AND_MARK: usize = 0;
const VERDICT: usize = 1;
const NUMBER: usize = 2;
const BORN: usize = 3;
const DIED: usize = 4;

/// The version until which an entry counts that is not removed.
const FOREVER: u64 = u64::MAX;

/// A slot that never had an entry ends a search, one that had goes on.
const EMPTY: u64 = 0;
const LEFT: u64 = u32::MAX as u64;

/// Keys that are looked up together: so many loads are under way at once.
pub(crate) const BLOCK: usize = 32;

/// What was found for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) priority: u32,
    pub(crate) number: u64,
    pub(crate) verdict: u64,
    pub(crate) mark: u32,
}

impl Found {
    pub(crate) const NOTHING: Self = Self { priority: u32::MAX, number: u64::MAX, verdict: 0, mark: 0 };

    /// Whether a rule with this priority and number goes before it.
    fn yields_to(&self, priority: u32, number: u64) -> bool {
        (priority, number) < (self.priority, self.number)
    }
}

/// An entry as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Key,
    pub(crate) found: Found,
    pub(crate) born: u64,
}

#[derive(Debug)]
pub(crate) struct Tuple {
    /// The words that count, and their bits.
    words: Vec<(usize, u64)>,
    /// Mixed into the hash, so that nobody outside can choose keys that collide.
    seed: u64,
    /// No rule here has a priority that goes before this one.
    best: AtomicU32,
    /// A power of two: the upper half of a hash, and the number of an entry plus 1.
    slots: Box<[AtomicU64]>,
    /// Half as many entries as slots, one after the other.
    entries: Box<[AtomicU64]>,
}

fn zeroed(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Tuple {
    /// An empty one with room for so many entries, a power of two.
    pub(crate) fn new(mask: &Key, seed: u64, room: usize) -> Self {
        let words: Vec<(usize, u64)> =
            mask.0.iter().copied().enumerate().filter(|(_, bits)| *bits != 0).collect();
        let entries = zeroed(room * (words.len() + META));
        Self { words, seed, best: AtomicU32::new(u32::MAX), slots: zeroed(room * 2), entries }
    }

    /// The same entries, with the same numbers, in a table with room for more.
    pub(crate) fn grown(&self, room: usize) -> Self {
        let new = Self {
            words: self.words.clone(),
            seed: self.seed,
            best: AtomicU32::new(self.best()),
            slots: zeroed(room * 2),
            entries: zeroed(room * self.stride()),
        };
        new.entries.iter().zip(&self.entries).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
        for slot in &self.slots {
            let slot = slot.load(Relaxed);
            if slot != EMPTY && slot as u32 != u32::MAX {
                let entry = slot as u32 - 1;
                new.lead_to(entry, new.hash_of(entry));
            }
        }
        new
    }

    /// For so many entries there is room.
    pub(crate) fn room(&self) -> usize {
        self.slots.len() / 2
    }

    /// No rule has a priority that goes before this one.
    pub(crate) fn best(&self) -> u32 {
        self.best.load(Relaxed)
    }

    fn stride(&self) -> usize {
        self.words.len() + META
    }

    fn meta(&self, entry: u32, what: usize) -> &AtomicU64 {
        &self.entries[entry as usize * self.stride() + self.words.len() + what]
    }

    fn mix(hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    }

    fn hash(&self, key: &Key) -> u64 {
        self.words.iter().fold(self.seed, |hash, (word, bits)| Self::mix(hash, key.0[*word] & bits))
    }

    fn hash_of(&self, entry: u32) -> u64 {
        let start = entry as usize * self.stride();
        let values = &self.entries[start..start + self.words.len()];
        values.iter().fold(self.seed, |hash, value| Self::mix(hash, value.load(Relaxed)))
    }

    fn tag(hash: u64) -> u64 {
        hash & !u64::from(u32::MAX)
    }

    /// Makes a slot lead to an entry.
    fn lead_to(&self, entry: u32, hash: u64) {
        let mut at = hash as usize & (self.slots.len() - 1);
        // There are twice as many slots as entries.
        while !matches!(self.slots[at].load(Relaxed) as u32, 0 | u32::MAX) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at].store(Self::tag(hash) | u64::from(entry + 1), Release);
    }

    /// Writes an entry that no reader can find, and lets them find it.
    pub(crate) fn put(&self, number: u32, entry: &Entry) {
        let start = number as usize * self.stride();
        for ((word, bits), place) in self.words.iter().zip(&self.entries[start..]) {
            place.store(entry.value.0[*word] & bits, Relaxed);
        }
        let Found { priority, number: rule, verdict, mark } = entry.found;
        let meta = [u64::from(priority) << 32 | u64::from(mark), verdict, rule, entry.born, FOREVER];
        meta.iter().enumerate().for_each(|(what, value)| self.meta(number, what).store(*value, Relaxed));
        self.best.fetch_min(priority, Relaxed);
        self.lead_to(number, self.hash(&entry.value));
    }

    /// From this version on an entry does not count.
    pub(crate) fn end(&self, entry: u32, version: u64) {
        self.meta(entry, DIED).store(version, Relaxed);
    }

    /// No slot leads to an entry any longer. Readers may still be at it.
    pub(crate) fn unlink(&self, entry: u32) {
        let mut at = self.hash_of(entry) as usize & (self.slots.len() - 1);
        loop {
            let slot = self.slots[at].load(Relaxed);
            if slot as u32 == entry + 1 {
                return self.slots[at].store(LEFT, Relaxed);
            }
            if slot == EMPTY {
                return;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The words of an entry's verdict.
    pub(crate) fn verdict(&self, entry: u32) -> (u64, u32) {
        (self.meta(entry, VERDICT).load(Relaxed), self.meta(entry, PRIORITY_AND_MARK).load(Relaxed) as u32)
    }

    fn has(&self, entry: usize, key: &Key) -> bool {
        let values = &self.entries[entry * self.stride()..];
        self.words.iter().zip(values).all(|((word, bits), value)| key.0[*word] & bits == value.load(Relaxed))
    }

    /// Looks at the entries of a key from a slot on.
    fn search(&self, key: &Key, hash: u64, version: u64, found: &mut Found) {
        let mut at = hash as usize & (self.slots.len() - 1);
        loop {
            let slot = self.slots[at].load(Acquire);
            if slot == EMPTY {
                return;
            }
            if slot & !u64::from(u32::MAX) == Self::tag(hash) && slot as u32 != u32::MAX {
                let entry = slot as u32 - 1;
                if self.has(entry as usize, key) {
                    self.consider(entry, version, found);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn consider(&self, entry: u32, version: u64, found: &mut Found) {
        let of = |what| self.meta(entry, what).load(Relaxed);
        let (first, number) = (of(PRIORITY_AND_MARK), of(NUMBER));
        let priority = (first >> 32) as u32;
        if found.yields_to(priority, number) && (of(BORN)..of(DIED)).contains(&version) {
            *found = Found { priority, number, verdict: of(VERDICT), mark: first as u32 };
        }
    }

    /// Finds the best rule of each key, if it goes before what was found.
    pub(crate) fn find_many(&self, keys: &[Key], version: u64, found: &mut [Found]) {
        let best = self.best();
        for (keys, found) in keys.chunks(BLOCK).zip(found.chunks_mut(BLOCK)) {
            // The first loads of all keys are under way before one of them is needed.
            let (mut hashes, mut first) = ([0; BLOCK], [0; BLOCK]);
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
            }
            for (slot, hash) in first.iter_mut().zip(&hashes).take(keys.len()) {
                *slot = self.slots[*hash as usize & (self.slots.len() - 1)].load(Acquire);
            }
            for (((key, found), hash), slot) in keys.iter().zip(found).zip(&hashes).zip(&first) {
                if *slot != EMPTY && best <= found.priority {
                    self.search(key, *hash, version, found);
                }
            }
        }
    }
}

const _: () = assert!(WORDS + META < 64, "an entry is small");
