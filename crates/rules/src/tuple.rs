//! The rules of a group that look at the same bits, and maybe at others: a hash table from the values of
//! these bits, its *key*, to the rules that have them.
//!
//! One writer changes it while readers look. An *entry* has the values, what the rule does, and the versions
//! from which and until which it counts. A *slot* of the hash table leads to an entry. An entry is written
//! before a slot leads to it, and written again only when no reader can have found it.

use crate::key::{Key, WORDS};
use crate::ports::Ports;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What an entry has beside its values: group and priority; verdict; number, and which mask; from which
/// version; until which; its ranges of ports; mark.
const META: usize = 7;
const ORDER: usize = 0;
const VERDICT: usize = 1;
const NUMBER: usize = 2;
const BORN: usize = 3;
const DIED: usize = 4;
const PORTS: usize = 5;
const MARK: usize = 6;

/// Where the number of a mask begins, in the word that has that of a rule.
const MASK: u32 = 48;
const NUMBERS: u64 = (1 << MASK) - 1;
/// The most masks of a table.
pub(crate) const MOST_MASKS: usize = 1 << (u64::BITS - MASK);

/// The version until which an entry counts that is not removed.
pub(crate) const FOREVER: u64 = u64::MAX;

/// A slot that never had an entry ends a search, one that had goes on.
const EMPTY: u64 = 0;
const LEFT: u64 = u32::MAX as u64;

/// Keys that are looked up together: so many loads are under way at once.
pub(crate) const BLOCK: usize = 32;

/// What was found for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The rule's group, and in the lower half its priority.
    pub(crate) order: u64,
    pub(crate) number: u64,
    pub(crate) verdict: u64,
    pub(crate) mark: u32,
}

/// What comes first in the order of rules: the group, then the priority.
pub(crate) fn order_of(group: u32, priority: u32) -> u64 {
    u64::from(group) << 32 | u64::from(priority)
}

impl Found {
    pub(crate) const NOTHING: Self = Self { order: u64::MAX, number: u64::MAX, verdict: 0, mark: 0 };

    /// Nothing yet, and nothing of later groups than this one.
    pub(crate) fn nothing_to(group: u32) -> Self {
        Self { order: order_of(group, u32::MAX), ..Self::NOTHING }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.number == u64::MAX
    }

    pub(crate) fn group(&self) -> u32 {
        (self.order >> 32) as u32
    }

    pub(crate) fn priority(&self) -> u32 {
        self.order as u32
    }

    /// The rule with the least rank goes before the others.
    pub(crate) fn rank(&self) -> (u64, u64) {
        (self.order, self.number)
    }
}

/// Which rules count in a look-up: those that are there in a version, of groups from one on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) version: u64,
    /// The order of the first rule that counts.
    pub(crate) first: u64,
}

/// An entry as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) value: Key,
    pub(crate) ports: Ports,
    pub(crate) found: Found,
    pub(crate) born: u64,
}

/// A word of the key: which it is, its bits, and its place among the words of an entry.
type KeyWord = (usize, u64, usize);

/// Bits of a word that tables have as a part of their keys. Several tables have the same parts, of which the
/// hash is computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPart {
    word: usize,
    bits: u64,
    seed: u64,
}

impl KeyPart {
    fn mix(self, value: u64) -> u64 {
        let of_word = self.seed ^ (self.word as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let product = u128::from(value ^ of_word) * 0x9e37_79b9_7f4a_7c15;
        (product as u64 ^ (product >> 64) as u64).rotate_left(self.word as u32)
    }

    pub(crate) fn hash(self, key: &Key) -> u64 {
        self.mix(key.0[self.word] & self.bits)
    }
}

#[derive(Debug)]
pub(crate) struct Tuple {
    key: Vec<KeyWord>,
    /// The words of which entries have values, and of each mask, its bits in them.
    words: Vec<usize>,
    masks: Vec<u64>,
    many_masks: usize,
    /// Mixed into the hash, so that nobody outside can choose keys that collide.
    seed: u64,
    /// No rule here goes before this order.
    best: AtomicU64,
    /// A power of two: the upper half of a hash, and the number of an entry plus 1.
    slots: Arc<[AtomicU64]>,
    /// Half as many entries as slots, one after the other.
    entries: Arc<[AtomicU64]>,
}

fn zeroed(count: usize) -> Arc<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// The words in which a mask has bits.
fn words_of(mask: &Key) -> Vec<usize> {
    (0..WORDS).filter(|word| mask.0[*word] != 0).collect()
}

impl Tuple {
    /// An empty one with this key, for rules with masks that have no bits in other words than this one, and
    /// room for so many entries, a power of two.
    pub(crate) fn new(key: &Key, mask: &Key, seed: u64, room: usize) -> Self {
        let words = words_of(mask);
        let place = |word| words.iter().position(|other| *other == word);
        let key = words_of(key).into_iter().filter_map(|word| Some((word, key.0[word], place(word)?)));
        Self {
            key: key.collect(),
            seed,
            best: AtomicU64::new(u64::MAX),
            slots: zeroed(room * 2),
            entries: zeroed(room * (words.len() + META)),
            masks: Vec::new(),
            many_masks: 0,
            words,
        }
    }

    /// The same with one more mask; nothing if that has bits in other words.
    pub(crate) fn with_mask(&self, mask: &Key) -> Option<Self> {
        let there = |word: &usize| self.words.contains(word);
        words_of(mask).iter().all(there).then(|| Self {
            key: self.key.clone(),
            words: self.words.clone(),
            masks: self.masks.iter().copied().chain(self.words.iter().map(|word| mask.0[*word])).collect(),
            many_masks: self.many_masks + 1,
            seed: self.seed,
            best: AtomicU64::new(self.best()),
            slots: Arc::clone(&self.slots),
            entries: Arc::clone(&self.entries),
        })
    }

    /// The same entries, with the same numbers, in a table with room for more, and with the words of one more
    /// mask.
    pub(crate) fn grown(&self, room: usize, mask: &Key) -> Self {
        let mut both = *mask;
        self.words.iter().for_each(|word| both.0[*word] = u64::MAX);
        let mut key = Key::default();
        self.key.iter().for_each(|(word, bits, _)| key.0[*word] = *bits);
        let mut new = Self::new(&key, &both, self.seed, room);
        new.best = AtomicU64::new(self.best());
        let place = |word: &usize| self.words.iter().position(|other| other == word);
        let places: Vec<Option<usize>> = new.words.iter().map(place).collect();
        for mask in 0..self.many_masks {
            let bits = |at: usize| self.masks[mask * self.words.len() + at];
            new.masks.extend(places.iter().map(|place| place.map_or(0, bits)));
        }
        new.many_masks = self.many_masks;
        for slot in self.slots.iter() {
            let slot = slot.load(Relaxed);
            if slot == EMPTY || slot as u32 == u32::MAX {
                continue;
            }
            let entry = slot as u32 - 1;
            let (from, to) = (entry as usize * self.stride(), entry as usize * new.stride());
            for (at, place) in places.iter().enumerate() {
                let value = place.map_or(0, |place| self.entries[from + place].load(Relaxed));
                new.entries[to + at].store(value, Relaxed);
            }
            for what in 0..META {
                new.meta(entry, what).store(self.meta(entry, what).load(Relaxed), Relaxed);
            }
            new.lead_to(entry, new.hash_of(entry));
        }
        new
    }

    /// For so many entries there is room.
    pub(crate) fn room(&self) -> usize {
        self.slots.len() / 2
    }

    /// No rule goes before this order.
    pub(crate) fn best(&self) -> u64 {
        self.best.load(Relaxed)
    }

    fn stride(&self) -> usize {
        self.words.len() + META
    }

    fn meta(&self, entry: u32, what: usize) -> &AtomicU64 {
        &self.entries[entry as usize * self.stride() + self.words.len() + what]
    }

    /// The parts of the key.
    pub(crate) fn parts(&self) -> impl Iterator<Item = KeyPart> {
        self.key.iter().map(|(word, bits, _)| KeyPart { word: *word, bits: *bits, seed: self.seed })
    }

    fn hash(&self, key: &Key) -> u64 {
        self.parts().fold(0, |hash, part| hash.wrapping_add(part.hash(key)))
    }

    fn hash_of(&self, entry: u32) -> u64 {
        let values = &self.entries[entry as usize * self.stride()..];
        let parts = self.parts().zip(&self.key);
        let hashes = parts.map(|(part, (_, bits, place))| part.mix(values[*place].load(Relaxed) & bits));
        hashes.fold(0, u64::wrapping_add)
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

    /// How many entries have the value of the key that a rule has.
    pub(crate) fn chain(&self, value: &Key) -> usize {
        let hash = self.hash(value);
        let slots = (0..self.slots.len()).map(|n| (hash as usize).wrapping_add(n) & (self.slots.len() - 1));
        let slots = slots.map(|at| self.slots[at].load(Relaxed)).take_while(|slot| *slot != EMPTY);
        let same = |slot: &u64| *slot & !u64::from(u32::MAX) == Self::tag(hash) && *slot as u32 != u32::MAX;
        slots.filter(same).count()
    }

    /// Writes an entry that no reader can find, and lets them find it. Its mask has this number.
    pub(crate) fn put(&self, number: u32, mask_number: usize, entry: &Entry) {
        let start = number as usize * self.stride();
        let bits = &self.masks[mask_number * self.words.len()..];
        for ((word, bits), place) in self.words.iter().zip(bits).zip(&self.entries[start..]) {
            place.store(entry.value.0[*word] & bits, Relaxed);
        }
        let Found { order, number: rule, verdict, mark } = entry.found;
        let rule = (mask_number as u64) << MASK | rule;
        let meta = [order, verdict, rule, entry.born, FOREVER, entry.ports.0, mark.into()];
        meta.iter().enumerate().for_each(|(what, value)| self.meta(number, what).store(*value, Relaxed));
        self.best.fetch_min(order, Relaxed);
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
        (self.meta(entry, VERDICT).load(Relaxed), self.meta(entry, MARK).load(Relaxed) as u32)
    }

    /// An entry that counts, and its mask.
    pub(crate) fn entry(&self, number: u32) -> Option<(Key, Entry)> {
        let of = |what| self.meta(number, what).load(Relaxed);
        if of(DIED) != FOREVER {
            return None;
        }
        let bits = &self.masks[(of(NUMBER) >> MASK) as usize * self.words.len()..];
        let values = &self.entries[number as usize * self.stride()..];
        let (mut mask, mut value) = (Key::default(), Key::default());
        for ((word, bits), of_word) in self.words.iter().zip(bits).zip(values) {
            (mask.0[*word], value.0[*word]) = (*bits, of_word.load(Relaxed));
        }
        let found = Found {
            order: of(ORDER),
            number: of(NUMBER) & NUMBERS,
            verdict: of(VERDICT),
            mark: of(MARK) as u32,
        };
        Some((mask, Entry { value, ports: Ports(of(PORTS)), found, born: of(BORN) }))
    }

    fn has(&self, entry: u32, key: &Key) -> bool {
        let mask = (self.meta(entry, NUMBER).load(Relaxed) >> MASK) as usize;
        // In memory that it shares with a newer one there may be masks that this reader's table has not.
        // Their entries are newer, or it finds them elsewhere.
        let start = mask * self.words.len();
        let Some(bits) = self.masks.get(start..start + self.words.len()) else { return false };
        let values = &self.entries[entry as usize * self.stride()..];
        let words = self.words.iter().zip(bits).zip(values);
        let differ =
            |((word, bits), value): ((&usize, &u64), &AtomicU64)| key.0[*word] & bits ^ value.load(Relaxed);
        // Without a branch for each word, which the processor could not foresee.
        words.fold(0, |all, word| all | differ(word)) == 0
            && Ports(self.meta(entry, PORTS).load(Relaxed)).suit(key)
    }

    /// Looks at the entries of a key from a slot on.
    fn search(&self, key: &Key, hash: u64, scope: Scope, found: &mut Found) {
        let mut at = hash as usize & (self.slots.len() - 1);
        loop {
            let slot = self.slots[at].load(Acquire);
            if slot == EMPTY {
                return;
            }
            if slot >> 32 == hash >> 32 && slot as u32 != u32::MAX {
                let entry = slot as u32 - 1;
                if self.has(entry, key) {
                    self.consider(entry, scope, found);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn consider(&self, entry: u32, scope: Scope, found: &mut Found) {
        let of = |what| self.meta(entry, what).load(Relaxed);
        let (order, number) = (of(ORDER), of(NUMBER) & NUMBERS);
        let better = (order, number) < found.rank() && order >= scope.first;
        if better && (of(BORN)..of(DIED)).contains(&scope.version) {
            *found = Found { order, number, verdict: of(VERDICT), mark: of(MARK) as u32 };
        }
    }

    /// Finds the best rule of each of at most [`BLOCK`] keys, if it goes before what was found. A hash is the
    /// sum of those of the key's parts.
    pub(crate) fn find_many(&self, keys: &[Key], hashes: &[u64; BLOCK], scope: Scope, found: &mut [Found]) {
        let best = self.best();
        // Those of which a rule here may decide. The first loads of all of them are under way before one is
        // needed.
        let (mut open, mut many) = ([0u8; BLOCK], 0);
        for (at, found) in found.iter().enumerate().take(BLOCK) {
            open[many % BLOCK] = at as u8;
            many += usize::from(best <= found.order);
        }
        let (mut there, mut slots, mut left) = ([0u8; BLOCK], [0u64; BLOCK], 0);
        for at in &open[..many] {
            let hash = hashes[usize::from(*at) % BLOCK];
            let slot = self.slots[hash as usize & (self.slots.len() - 1)].load(Acquire);
            (there[left % BLOCK], slots[left % BLOCK]) = (*at, slot);
            left += usize::from(slot != EMPTY);
        }
        // The same of their entries.
        let mut touched = 0;
        for slot in &slots[..left] {
            let start = (*slot as u32).wrapping_sub(1) as usize * self.stride();
            let load = |at: usize| self.entries.get(at).map_or(0, |word| word.load(Relaxed));
            touched ^= load(start) ^ load(start + self.stride() - 1);
        }
        std::hint::black_box(touched);
        for at in &there[..left] {
            let at = usize::from(*at) % BLOCK;
            self.search(&keys[at], hashes[at], scope, &mut found[at]);
        }
    }
}

const _: () = assert!(WORDS + META < 64, "an entry is small");
