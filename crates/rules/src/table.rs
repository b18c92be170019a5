//! A table of very many rules that is changed while it is looked up: tuple-space search (Srinivasan, Suri and
//! Varghese, "Packet classification using tuple space search", SIGCOMM 1999).
//!
//! Rules that look at the same bits are in one hash table, a *tuple*; a packet is looked up in each tuple of
//! its group that may have a rule that goes before what is already found. What is added here:
//!
//! - **Changes are all or nothing.** A batch of changes makes one new *version*. Each rule knows the version
//!   from which and until which it counts, and a look-up of many packets, through several groups, sees one
//!   version: never a rule of a batch without the others, never neither the old nor the new rule.
//! - **Readers take no lock for rules that come and go.** These are written beside those that are there. New
//!   tuples and larger hash tables make a new *structure*; a reader that sees that there is one takes it
//!   under a lock, which is held as long as it takes to count one reference.
//! - **Memory is used again** when no reader can have found what was in it before ([`tables::epoch`]).

use crate::counters::Counters;
use crate::expand::expand;
use crate::key::Key;
use crate::rule::{Action, Rule};
use crate::tuple::{Entry, Found, Tuple};
use crate::verdict::{COUNTERS, Fate, Verdict};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};
use tables::epoch::{Entered, EpochReader, Epochs};

/// For so many entries there is room at first.
const ROOM: usize = 8;

/// What cannot be done; then nothing of the batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no rule with this number, or it is to be removed twice.
    NoSuchRule(u64),
    /// The ranges of the rule at this place, of those that are added, make up too many prefixes.
    TooManyPrefixes(usize),
    /// There are no more counters.
    TooManyCounters,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit(Found);

impl Hit {
    /// No rule.
    pub const NOTHING: Self = Self(Found::NOTHING);

    /// The number of the rule.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        (*self != Self::NOTHING).then_some(self.0.number)
    }

    /// What it does.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::from_words(self.0.verdict, self.0.mark)
    }
}

/// The tuples and lists of actions that there are.
#[derive(Debug, Default)]
struct Structure {
    /// Of each group, those whose rules may go first before the others.
    groups: BTreeMap<u32, Vec<Arc<Tuple>>>,
    lists: Vec<Arc<[Action]>>,
}

#[derive(Debug, Default)]
struct Shared {
    version: AtomicU64,
    epochs: Epochs,
    counters: Counters,
    /// The newest structure, and how many there were before it.
    structure: Mutex<Arc<Structure>>,
    generation: AtomicU64,
}

impl Shared {
    fn structure(&self) -> std::sync::MutexGuard<'_, Arc<Structure>> {
        self.structure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tuple, for the writer.
#[derive(Debug)]
struct Own {
    group: u32,
    tuple: Arc<Tuple>,
    /// Entries that are used again, and the first that never was.
    free: Vec<u32>,
    fresh: u32,
    /// Entries that slots lead to, and slots that are not empty.
    linked: usize,
    taken: usize,
}

/// An entry of a tuple.
type Place = (usize, u32);

/// A rule, for the writer.
#[derive(Debug)]
struct Held {
    places: Vec<Place>,
    counter: Option<u32>,
}

/// What a removed rule leaves.
#[derive(Clone, Copy, Debug)]
enum Left {
    Entry(Place),
    Counter(u32),
}

/// The writer's side.
#[derive(Debug, Default)]
struct Control {
    tuples: Vec<Own>,
    by_mask: HashMap<(u32, Key), usize>,
    rules: HashMap<u64, Held>,
    next: u64,
    /// Lists of actions, how many entries name each, and where each is.
    lists: Vec<(Arc<[Action]>, usize)>,
    by_list: HashMap<Arc<[Action]>, u32>,
    free_lists: Vec<u32>,
    /// Counters that are used again, and the first that never was.
    free_counters: Vec<u32>,
    fresh_counter: u32,
    /// What removed rules have left, and entries that no slot leads to either, by the stamp of that.
    ended: VecDeque<(u64, Left)>,
    unlinked: VecDeque<(u64, Place)>,
    /// The structure is no longer that of `tuples` and `lists`.
    stale: bool,
    seed: u64,
}

/// The table.
#[derive(Debug)]
pub struct Table {
    shared: Arc<Shared>,
    control: Mutex<Control>,
}

/// One thread's view of a [`Table`].
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

impl Table {
    /// An empty one. `seed` is mixed into hashes: a random number that nobody outside knows.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let control = Control { seed, ..Control::default() };
        Self { shared: Arc::new(Shared::default()), control: Mutex::new(control) }
    }

    /// A view for one more thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        let generation = self.shared.generation.load(Acquire);
        let structure = Arc::clone(&self.shared.structure());
        Reader {
            shared: Arc::clone(&self.shared),
            epoch: self.shared.epochs.register(),
            structure,
            generation,
        }
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.control().rules.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the rules with these numbers and adds others, all at once. Returns the numbers of those that
    /// are added, in their order.
    ///
    /// # Errors
    /// What is wrong with one of them; then nothing is changed.
    pub fn change(&self, removed: &[u64], added: &[Rule]) -> Result<Vec<u64>, Refused> {
        let mut control = self.control();
        if let Some(number) = removed.iter().find(|number| !control.rules.contains_key(number)) {
            return Err(Refused::NoSuchRule(*number));
        }
        let mut removed = removed.to_vec();
        removed.sort_unstable();
        if let Some(twice) = removed.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Refused::NoSuchRule(twice[0]));
        }
        let parts: Result<Vec<_>, Refused> = (added.iter().enumerate())
            .map(|(at, rule)| expand(&rule.pattern).ok_or(Refused::TooManyPrefixes(at)))
            .collect();
        let parts = parts?;
        let counted = added.iter().filter(|rule| rule.actions.contains(&Action::Count)).count();
        if counted > control.free_counters.len() + (COUNTERS - control.fresh_counter) as usize {
            return Err(Refused::TooManyCounters);
        }
        // Only this thread changes it.
        let version = self.shared.version.load(Acquire) + 1;
        control.reclaim(&self.shared.epochs);
        let counters = &self.shared.counters;
        let numbers = added
            .iter()
            .zip(parts)
            .map(|(rule, parts)| control.add(rule, parts, version, counters))
            .collect();
        let ended = control.end(&removed, version);
        control.publish(&self.shared);
        self.shared.version.store(version, Release);
        let stamp = self.shared.epochs.stamp();
        control.ended.extend(ended.into_iter().map(|left| (stamp, left)));
        control.reclaim(&self.shared.epochs);
        Ok(numbers)
    }

    /// How many packets a rule has counted. None: it is not there, or does not count.
    #[must_use]
    pub fn counted(&self, number: u64) -> Option<u64> {
        let counter = self.control().rules.get(&number)?.counter?;
        Some(self.shared.counters.read(counter))
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Writes a rule, which counts from a version on. Returns its number.
    fn add(&mut self, rule: &Rule, parts: Vec<(Key, Key)>, version: u64, counters: &Counters) -> u64 {
        let number = self.next;
        self.next += 1;
        let counter = rule.actions.contains(&Action::Count).then(|| {
            self.free_counters.pop().unwrap_or_else(|| {
                self.fresh_counter += 1;
                self.fresh_counter - 1
            })
        });
        counter.into_iter().for_each(|counter| counters.begin(counter));
        let mut places = Vec::with_capacity(parts.len());
        for (value, mask) in parts {
            let verdict = Verdict::of(&rule.actions, counter, || self.list(&rule.actions));
            let (verdict, mark) = verdict.words();
            let found = Found { priority: rule.priority, number, verdict, mark };
            let at = self.tuple(rule.group, &mask);
            let entry = self.entry(at);
            self.tuples[at].tuple.put(entry, &Entry { value, found, born: version });
            places.push((at, entry));
        }
        self.rules.insert(number, Held { places, counter });
        number
    }

    /// The number of a list of actions; one entry more names it.
    fn list(&mut self, actions: &[Action]) -> u32 {
        if let Some(number) = self.by_list.get(actions) {
            self.lists[*number as usize].1 += 1;
            return *number;
        }
        let list: Arc<[Action]> = actions.into();
        let number = self.free_lists.pop().unwrap_or(self.lists.len() as u32);
        if number as usize == self.lists.len() {
            self.lists.push((Arc::clone(&list), 1));
        } else {
            self.lists[number as usize] = (Arc::clone(&list), 1);
        }
        self.by_list.insert(list, number);
        self.stale = true;
        number
    }

    /// One entry less names a list.
    fn leave_list(&mut self, number: u32) {
        let (list, names) = &mut self.lists[number as usize];
        *names -= 1;
        if *names == 0 {
            self.by_list.remove(list);
            self.free_lists.push(number);
        }
    }

    /// The tuple of a group with this mask.
    fn tuple(&mut self, group: u32, mask: &Key) -> usize {
        if let Some(at) = self.by_mask.get(&(group, *mask)) {
            return *at;
        }
        let tuple = Arc::new(Tuple::new(mask, self.seed, ROOM));
        self.tuples.push(Own { group, tuple, free: Vec::new(), fresh: 0, linked: 0, taken: 0 });
        self.by_mask.insert((group, *mask), self.tuples.len() - 1);
        self.stale = true;
        self.tuples.len() - 1
    }

    /// An entry of a tuple that nothing is in.
    fn entry(&mut self, at: usize) -> u32 {
        let own = &mut self.tuples[at];
        let room = own.tuple.room();
        let full = own.free.is_empty() && own.fresh as usize == room;
        // A quarter of the slots stays empty, so that searches end.
        if full || own.taken >= room + room / 2 {
            own.tuple = Arc::new(own.tuple.grown(if full { room * 2 } else { room }));
            own.taken = own.linked;
            self.stale = true;
        }
        // Readers do not look at tuples in which nothing is.
        self.stale |= own.linked == 0;
        (own.linked, own.taken) = (own.linked + 1, own.taken + 1);
        own.free.pop().unwrap_or_else(|| {
            own.fresh += 1;
            own.fresh - 1
        })
    }

    /// These rules count until a version. Returns what they leave.
    fn end(&mut self, rules: &[u64], version: u64) -> Vec<Left> {
        let mut left = Vec::with_capacity(rules.len());
        for Held { places, counter } in rules.iter().filter_map(|number| self.rules.remove(number)) {
            places.iter().for_each(|(at, entry)| self.tuples[*at].tuple.end(*entry, version));
            left.extend(places.into_iter().map(Left::Entry));
            left.extend(counter.map(Left::Counter));
        }
        left
    }

    /// Makes what is no longer used free, as far as no reader can be at it.
    fn reclaim(&mut self, epochs: &Epochs) {
        if self.ended.is_empty() && self.unlinked.is_empty() {
            return;
        }
        let oldest = epochs.oldest();
        while self.unlinked.front().is_some_and(|(stamp, _)| *stamp < oldest) {
            let Some((_, (at, entry))) = self.unlinked.pop_front() else { break };
            self.tuples[at].free.push(entry);
        }
        let mut unlinked = Vec::new();
        while self.ended.front().is_some_and(|(stamp, _)| *stamp < oldest) {
            let (at, entry) = match self.ended.pop_front() {
                Some((_, Left::Entry(place))) => place,
                Some((_, Left::Counter(counter))) => {
                    self.free_counters.push(counter);
                    continue;
                }
                None => break,
            };
            let own = &mut self.tuples[at];
            own.tuple.unlink(entry);
            own.linked -= 1;
            self.stale |= own.linked == 0;
            let (word, mark) = own.tuple.verdict(entry);
            let verdict = Verdict::from_words(word, mark);
            if verdict.fate == Fate::Listed {
                self.leave_list(verdict.list);
            }
            unlinked.push((at, entry));
        }
        if !unlinked.is_empty() {
            let stamp = epochs.stamp();
            self.unlinked.extend(unlinked.into_iter().map(|place| (stamp, place)));
        }
    }

    /// Lets readers find what has become of the structure.
    fn publish(&mut self, shared: &Shared) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let mut groups: BTreeMap<u32, Vec<Arc<Tuple>>> = BTreeMap::new();
        for own in self.tuples.iter().filter(|own| own.linked > 0) {
            groups.entry(own.group).or_default().push(Arc::clone(&own.tuple));
        }
        groups.values_mut().for_each(|tuples| tuples.sort_by_key(|tuple| tuple.best()));
        let lists = self.lists.iter().map(|(list, _)| Arc::clone(list)).collect();
        *shared.structure() = Arc::new(Structure { groups, lists });
        // Only this thread changes it.
        shared.generation.store(shared.generation.load(Acquire) + 1, Release);
    }
}

impl Reader {
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
    /// The rules of a group that decide about packets with these fields.
    ///
    /// # Panics
    /// The slices differ in length.
    pub fn find_many(&self, group: u32, keys: &[Key], hits: &mut [Hit]) {
        assert_eq!(keys.len(), hits.len());
        hits.fill(Hit::NOTHING);
        let Some(tuples) = self.structure.groups.get(&group) else { return };
        for (keys, hits) in keys.chunks(crate::tuple::BLOCK).zip(hits.chunks_mut(crate::tuple::BLOCK)) {
            let mut found = [Found::NOTHING; crate::tuple::BLOCK];
            let found = &mut found[..keys.len()];
            tuples.iter().for_each(|tuple| tuple.find_many(keys, self.version, found));
            hits.iter_mut().zip(found).for_each(|(hit, found)| *hit = Hit(*found));
        }
    }

    /// The rule of a group that decides about a packet with these fields.
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
        self.structure.lists.get(verdict.list as usize).map_or(&[], |list| list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_does_not_look_keeps_no_later_structure() {
        let table = Table::new(7);
        let idle = table.reader();
        let add = |group| table.change(&[], &[Rule { group, ..Rule::default() }]).unwrap();
        add(1);
        let later = Arc::downgrade(&table.shared.structure());
        add(2);
        assert!(later.upgrade().is_none());
        drop(idle);
    }
}
