//! What readers have of a table: its rules in one version.

use crate::bits::Bits;
use crate::counters::Counters;
use crate::key::Key;
use crate::lists::Lists;
use crate::rule::Action;
use crate::tree::Tree;
use crate::tuple::{BLOCK, Found, KeyPart, Scope, Tuple, order_of};
use crate::verdict::Verdict;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, PoisonError};
use tables::epoch::{Entered, EpochReader, Epochs};

/// The hashes of so many parts of keys are kept for the next hash table.
const MOST_PARTS: usize = 16;

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit(Found);

impl Hit {
    /// No rule.
    pub const NOTHING: Self = Self(Found::NOTHING);

    /// The number of the rule.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        (!self.0.is_nothing()).then_some(self.0.number)
    }

    /// The group of the rule: that in which the packet was looked up, or a later one to which it came by
    /// default ([`View::find_many`]). Without a rule it says nothing.
    #[must_use]
    pub fn group(&self) -> u32 {
        self.0.group()
    }

    /// What it does.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::from_words(self.0.verdict, self.0.mark)
    }
}

/// Rules and lists of actions, in the versions that readers may look at.
#[derive(Debug, Default)]
pub(crate) struct Structure {
    /// In the order of groups, and of the versions from which on they count.
    pub(crate) ways: Vec<Way>,
    pub(crate) lists: Lists,
}

/// What a look-up that begins at a group sees ([`crate::chains`]).
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) group: u32,
    pub(crate) since: u64,
    pub(crate) store: Option<Arc<Store>>,
    /// What is found where no rule of the store decides.
    pub(crate) default: Found,
}

/// The rules of some groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    /// Those that have been there for a while.
    pub(crate) trees: Vec<Arc<Tree>>,
    /// Of the others those whose masks few rules have.
    pub(crate) bits: Arc<Bits>,
    /// And the rest: first those whose rules may go before the others.
    tuples: Vec<Placed>,
    /// The parts of their keys.
    parts: Vec<KeyPart>,
}

/// A hash table of a store, and the places of its key's parts among the store's.
#[derive(Clone, Debug)]
struct Placed {
    tuple: Arc<Tuple>,
    parts: Vec<usize>,
}

impl Structure {
    fn way(&self, group: u32, version: u64) -> Option<&Way> {
        let at = self.ways.partition_point(|way| (way.group, way.since) <= (group, version));
        self.ways.get(at.checked_sub(1)?).filter(|way| way.group == group)
    }
}

impl Store {
    pub(crate) fn add(&mut self, tuple: &Arc<Tuple>) {
        let place = |part: KeyPart| {
            self.parts.iter().position(|other| *other == part).unwrap_or_else(|| {
                self.parts.push(part);
                self.parts.len() - 1
            })
        };
        let parts = tuple.parts().map(place).collect();
        self.tuples.push(Placed { tuple: Arc::clone(tuple), parts });
    }

    /// What is likely to decide is looked at first.
    pub(crate) fn sort(&mut self) {
        self.tuples.sort_by_key(|placed| placed.tuple.best());
    }

    /// Finds the rules of at most [`BLOCK`] keys that go before what was found.
    fn find_many(&self, keys: &[Key], scope: Scope, found: &mut [Found]) {
        self.trees.iter().for_each(|tree| tree.find_many(keys, scope, found));
        self.bits.find_many(keys, scope, found);
        if self.tuples.is_empty() {
            return;
        }
        // The hashes of parts that are known.
        let (mut hashes, mut known) = ([[0; BLOCK]; MOST_PARTS], 0u64);
        for Placed { tuple, parts } in &self.tuples {
            let best = tuple.best();
            if found.iter().all(|found| found.order < best) {
                continue;
            }
            let mut sums = [0u64; BLOCK];
            let add = |sums: &mut [u64; BLOCK], hashes: &[u64; BLOCK]| {
                sums.iter_mut().zip(hashes).for_each(|(sum, hash)| *sum = sum.wrapping_add(*hash));
            };
            for part in parts {
                let compute = |hashes: &mut [u64; BLOCK]| {
                    let part = self.parts[*part];
                    hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = part.hash(key));
                };
                match hashes.get_mut(*part) {
                    Some(hashes) => {
                        if known & 1 << part == 0 {
                            compute(hashes);
                            known |= 1 << part;
                        }
                        add(&mut sums, hashes);
                    }
                    None => {
                        let mut hashes = [0; BLOCK];
                        compute(&mut hashes);
                        add(&mut sums, &hashes);
                    }
                }
            }
            tuple.find_many(keys, &sums, scope, found);
        }
    }
}

/// What all threads have of a table.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) version: AtomicU64,
    pub(crate) epochs: Epochs,
    pub(crate) counters: Counters,
    /// The newest structure, and how many there were before it.
    structure: Mutex<Arc<Structure>>,
    pub(crate) generation: AtomicU64,
}

impl Shared {
    pub(crate) fn structure(&self) -> std::sync::MutexGuard<'_, Arc<Structure>> {
        self.structure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's view of a [`Table`](crate::Table).
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    epoch: EpochReader,
    structure: Arc<Structure>,
    generation: u64,
}

/// A [`Reader`] at one version of the table.
#[derive(Debug)]
pub struct View<'a> {
    structure: &'a Structure,
    counters: &'a Counters,
    version: u64,
    _entered: Entered<'a>,
}

impl Reader {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let generation = shared.generation.load(Acquire);
        let structure = Arc::clone(&shared.structure());
        Self { shared: Arc::clone(shared), epoch: shared.epochs.register(), structure, generation }
    }

    /// The table as it is now, for as long as the view is used.
    pub fn now(&mut self) -> View<'_> {
        let entered = self.epoch.enter(&self.shared.epochs);
        // First the version: the structure that is found then has all its rules.
        let version = self.shared.version.load(Acquire);
        let generation = self.shared.generation.load(Acquire);
        if generation != self.generation {
            (self.structure, self.generation) = (Arc::clone(&self.shared.structure()), generation);
        }
        View { structure: &self.structure, counters: &self.shared.counters, version, _entered: entered }
    }
}

impl View<'_> {
    /// The rules that decide about packets with these fields that come to a group.
    ///
    /// Packets may come to a later group by default: by a rule of the group that matches all of them, is
    /// alone the last one by priority, and only jumps there. Then what is found may be the rule of the later
    /// group, as [`Hit::group`] says, or the one that jumps.
    ///
    /// # Panics
    /// The slices differ in length.
    pub fn find_many(&self, group: u32, keys: &[Key], hits: &mut [Hit]) {
        assert_eq!(keys.len(), hits.len());
        hits.fill(Hit::NOTHING);
        let Some(way) = self.structure.way(group, self.version) else { return };
        let scope = Scope { version: self.version, first: order_of(group, 0) };
        for (keys, hits) in keys.chunks(BLOCK).zip(hits.chunks_mut(BLOCK)) {
            let mut found = [way.default; BLOCK];
            let found = &mut found[..keys.len()];
            way.store.iter().for_each(|store| store.find_many(keys, scope, found));
            for (hit, found) in hits.iter_mut().zip(found) {
                *hit = if found.is_nothing() { Hit::NOTHING } else { Hit(*found) };
            }
        }
    }

    /// The rule that decides about a packet with these fields that comes to a group.
    #[must_use]
    pub fn find(&self, group: u32, key: &Key) -> Hit {
        let mut hit = [Hit::NOTHING];
        self.find_many(group, std::slice::from_ref(key), &mut hit);
        hit[0]
    }

    /// Counts packets of a rule that counts.
    pub fn count(&self, verdict: &Verdict, packets: u64) {
        verdict.counter.into_iter().for_each(|counter| self.counters.add(counter, packets));
    }

    /// The actions of a rule that has more than fit into a [`Verdict`].
    #[must_use]
    pub fn list(&self, verdict: &Verdict) -> &[Action] {
        self.structure.lists.get(verdict.list)
    }
}
