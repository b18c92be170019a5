//! A table of very many rules that is changed while it is looked up: tuple-space search (Srinivasan, Suri and
//! Varghese, "Packet classification using tuple space search", SIGCOMM 1999).
//!
//! Rules that look at the same bits are in one hash table, a *tuple*, with others that look at more bits; a
//! packet is looked up in each tuple of its group that may have a rule that goes before what is already
//! found. What is added here:
//!
//! - **Changes are all or nothing.** A batch of changes makes one new *version*. Each rule knows the version
//!   from which and until which it counts, and a look-up of many packets, through several groups, sees one
//!   version: never a rule of a batch without the others, never neither the old nor the new rule.
//! - **Readers take no lock for rules that come and go in hash tables.** These are written beside those that
//!   are there. New tuples, larger ones, new lists of actions and new bits make a new *structure*; a reader
//!   that sees that there is one takes it under a lock, which is held as long as it takes to count one
//!   reference: once for a change, not for a packet.
//! - **Memory is used again** when no reader can have found what was in it before ([`tables::epoch`]).
//! - **Few rules cost little, whatever their masks are.** Where few rules look at the same bits, they are in
//!   no hash table: they are looked up together, as bits ([`Bits`]), which are made anew with each change.
//! - **Masks share hash tables** whose keys are a part of all of them ([`crate::coarse`]).

use crate::bits::{Bits, Few};
use crate::coarse;
use crate::counters::Counters;
use crate::expand::{Part, expand, without_ports};
use crate::key::Key;
use crate::lists::Lists;
use crate::ports::Ports;
use crate::rule::{Action, Rule};
use crate::slab::Slab;
use crate::tuple::{BLOCK, Entry, FOREVER, Found, KeyPart, MOST_MASKS, Tuple};
use crate::verdict::{COUNTERS, Fate, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};
use tables::epoch::{Entered, EpochReader, Epochs};

/// For so many entries there is room in a hash table at first.
const ROOM: usize = 64;

/// So many masks share a hash table with a key that is shorter than each of them.
const MOST_SHARED: usize = 1024;
const _: () = assert!(MOST_SHARED < MOST_MASKS, "one is left for the mask that is the key");

/// From which numbers on a table keeps rules in another way. A part of a rule that has ranges counts as one.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Rules that look at the same bits go to hash tables if they are more.
    pub few: usize,
    /// So many of a group are looked up as bits at most: the time of a look-up grows with them.
    pub bits: usize,
    /// So many rules have the same value of a hash table's key; further ones are in a table with a longer
    /// key.
    pub chain: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { few: 64, bits: 1024, chain: 8 }
    }
}

/// What cannot be done; then nothing of the batch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no rule with this number, or it is named twice.
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
    groups: BTreeMap<u32, Group>,
    lists: Lists,
}

/// The rules of a group.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Those whose masks few rules have.
    bits: Arc<Bits>,
    /// The others: first those whose rules may go before the others.
    tuples: Vec<Placed>,
    /// The parts of their keys.
    parts: Vec<KeyPart>,
}

/// A hash table of a group, and the places of its key's parts among the group's.
#[derive(Clone, Debug)]
struct Placed {
    tuple: Arc<Tuple>,
    parts: Vec<usize>,
}

impl Group {
    fn add(&mut self, tuple: &Arc<Tuple>) {
        let place = |part: KeyPart| {
            self.parts.iter().position(|other| *other == part).unwrap_or_else(|| {
                self.parts.push(part);
                self.parts.len() - 1
            })
        };
        let parts = tuple.parts().map(place).collect();
        self.tuples.push(Placed { tuple: Arc::clone(tuple), parts });
    }

    /// Finds the rules of at most [`BLOCK`] keys.
    fn find_many(&self, keys: &[Key], version: u64, found: &mut [Found]) {
        self.bits.find_many(keys, version, found);
        if self.tuples.is_empty() {
            return;
        }
        // The hashes of parts that are known.
        let (mut hashes, mut known) = ([[0; BLOCK]; MOST_PARTS], 0u64);
        for Placed { tuple, parts } in &self.tuples {
            let best = tuple.best();
            if found.iter().all(|found| found.priority < best) {
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
            tuple.find_many(keys, &sums, version, found);
        }
    }
}

/// The hashes of so many parts of keys are kept for the next hash table.
const MOST_PARTS: usize = 16;

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

/// The rules with a mask, for the writer.
#[derive(Debug)]
struct Own {
    group: u32,
    mask: Key,
    /// While they are few they are here, and in the bits of the group. So many are in use, and these places
    /// are used again.
    few: Vec<Option<Few>>,
    live: usize,
    free: Vec<u32>,
    /// They were too many: new ones go to hash tables, where these are.
    many: bool,
    hashed: usize,
}

/// A hash table, for the writer.
#[derive(Debug)]
struct Hash {
    group: u32,
    key: Key,
    tuple: Arc<Tuple>,
    masks: HashMap<Key, usize>,
    /// Entries that are used again, and the first that never was.
    free: Vec<u32>,
    fresh: u32,
    /// Entries that slots lead to, and slots that are not empty.
    linked: usize,
    taken: usize,
}

/// Where an entry is: its mask, its hash table if it is in one, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    own: usize,
    table: Option<usize>,
    entry: u32,
}

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
    owns: Slab<Own>,
    by_mask: HashMap<(u32, Key), usize>,
    tables: Slab<Hash>,
    by_key: HashMap<(u32, Key), usize>,
    rules: HashMap<u64, Held>,
    next: u64,
    /// Lists of actions, how many entries name each, and where each is.
    lists: Lists,
    names: Vec<usize>,
    by_list: HashMap<Arc<[Action]>, u32>,
    free_lists: Vec<u32>,
    /// Counters that are used again, and the first that never was.
    free_counters: Vec<u32>,
    fresh_counter: u32,
    /// What removed rules have left, and entries that no slot leads to either, by the stamp of that.
    ended: VecDeque<(u64, Left)>,
    unlinked: VecDeque<(u64, Place)>,
    /// The structure is no longer that of `tables` and `lists`; the bits of these groups are not those of
    /// `owns`.
    stale: bool,
    stale_bits: BTreeSet<u32>,
    /// Of each group, its bits, and how many entries they have.
    bits: BTreeMap<u32, (Arc<Bits>, usize)>,
    /// Structures that readers may still have. They end here, so that no reader has to free one.
    former: Vec<Arc<Structure>>,
    seed: u64,
    tuning: Tuning,
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
        Self::tuned(seed, Tuning::default())
    }

    /// The same with other numbers.
    #[must_use]
    pub fn tuned(seed: u64, tuning: Tuning) -> Self {
        let control = Control { seed, tuning, ..Control::default() };
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

    /// How many hash tables rules are in.
    #[must_use]
    pub fn tuples(&self) -> usize {
        self.control().tables.iter().filter(|table| table.linked > 0).count()
    }

    /// Removes the rules with these numbers and adds others, all at once. Returns the numbers of those that
    /// are added, in their order.
    ///
    /// # Errors
    /// What is wrong with one of them; then nothing is changed.
    pub fn change(&self, removed: &[u64], added: &[Rule]) -> Result<Vec<u64>, Refused> {
        let mut control = self.control();
        control.all_there(removed)?;
        let parts = parts(added)?;
        control.counters_for(added.iter().filter(|rule| rule.counts()).count())?;
        Ok(control.make_version(&self.shared, |control, version, counters| {
            let new = added.iter().zip(parts);
            let numbers = new.map(|(rule, parts)| control.add(rule, parts, version, counters)).collect();
            (numbers, control.end(removed, version))
        }))
    }

    /// Puts others in the place of the rules with these numbers, all at once. They have the numbers of those
    /// that were there, go before those of equal priority that they went before, and go on counting.
    ///
    /// # Errors
    /// What is wrong with one of them; then nothing is changed.
    pub fn replace(&self, numbers: &[u64], rules: &[Rule]) -> Result<(), Refused> {
        let mut control = self.control();
        control.all_there(numbers)?;
        let parts = parts(rules)?;
        let begin = |number: &u64, rule: &Rule| rule.counts() && control.rules[number].counter.is_none();
        let new = numbers.iter().zip(rules).filter(|(number, rule)| begin(number, rule)).count();
        control.counters_for(new)?;
        control.make_version(&self.shared, |control, version, counters| {
            let mut left = Vec::new();
            for ((number, rule), parts) in numbers.iter().zip(rules).zip(parts) {
                let counter = control.rules.get_mut(number).and_then(|held| held.counter.take());
                left.extend(control.end(&[*number], version));
                let kept = counter.filter(|_| rule.counts());
                left.extend(counter.filter(|_| kept.is_none()).map(Left::Counter));
                let counter = kept.or_else(|| control.counter_of(rule, counters));
                control.write(*number, rule, parts, version, counter);
            }
            ((), left)
        });
        Ok(())
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

/// What each rule comes to.
fn parts(rules: &[Rule]) -> Result<Vec<Vec<Part>>, Refused> {
    let parts = rules.iter().enumerate();
    parts.map(|(at, rule)| expand(&rule.pattern).ok_or(Refused::TooManyPrefixes(at))).collect()
}

impl Control {
    /// An error unless each of these numbers is that of a rule, and none is there twice.
    fn all_there(&self, numbers: &[u64]) -> Result<(), Refused> {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let missing = sorted.iter().find(|number| !self.rules.contains_key(number));
        let twice = || sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| &pair[0]);
        missing.or_else(twice).map_or(Ok(()), |number| Err(Refused::NoSuchRule(*number)))
    }

    /// An error unless there are so many counters.
    fn counters_for(&self, rules: usize) -> Result<(), Refused> {
        let there = self.free_counters.len() + (COUNTERS - self.fresh_counter) as usize;
        if rules <= there { Ok(()) } else { Err(Refused::TooManyCounters) }
    }

    /// Makes the next version: `change` gets its number, and returns what no longer counts in it.
    fn make_version<T>(
        &mut self,
        shared: &Shared,
        change: impl FnOnce(&mut Self, u64, &Counters) -> (T, Vec<Left>),
    ) -> T {
        // Only this thread changes it.
        let version = shared.version.load(Acquire) + 1;
        self.reclaim(&shared.epochs);
        let (done, left) = change(self, version, &shared.counters);
        self.publish(shared);
        shared.version.store(version, Release);
        let stamp = shared.epochs.stamp();
        self.ended.extend(left.into_iter().map(|left| (stamp, left)));
        self.reclaim(&shared.epochs);
        done
    }

    /// Writes a rule, which counts from a version on. Returns its number.
    fn add(&mut self, rule: &Rule, parts: Vec<Part>, version: u64, counters: &Counters) -> u64 {
        let number = self.next;
        self.next += 1;
        let counter = self.counter_of(rule, counters);
        self.write(number, rule, parts, version, counter);
        number
    }

    /// A counter that begins at 0, if the rule counts.
    fn counter_of(&mut self, rule: &Rule, counters: &Counters) -> Option<u32> {
        let counter = rule.counts().then(|| {
            self.free_counters.pop().unwrap_or_else(|| {
                self.fresh_counter += 1;
                self.fresh_counter - 1
            })
        });
        counter.into_iter().for_each(|counter| counters.begin(counter));
        counter
    }

    /// Writes the entries of a rule with this number.
    fn write(&mut self, number: u64, rule: &Rule, parts: Vec<Part>, version: u64, counter: Option<u32>) {
        self.rules.insert(number, Held { places: Vec::with_capacity(parts.len()), counter });
        for Part { value, mask, ports } in parts {
            let verdict = Verdict::of(&rule.actions, counter, || self.list(&rule.actions));
            let (verdict, mark) = verdict.words();
            let found = Found { priority: rule.priority, number, verdict, mark };
            self.put(rule.group, &mask, Entry { value, ports, found, born: version });
        }
    }

    /// The number of a list of actions; one entry more names it.
    fn list(&mut self, actions: &[Action]) -> u32 {
        if let Some(number) = self.by_list.get(actions) {
            self.names[*number as usize] += 1;
            return *number;
        }
        let list: Arc<[Action]> = actions.into();
        let number = self.free_lists.pop().unwrap_or(self.names.len() as u32);
        if number as usize == self.names.len() {
            self.names.push(0);
        }
        self.names[number as usize] = 1;
        self.lists.set(number, Arc::clone(&list));
        self.by_list.insert(list, number);
        self.stale = true;
        number
    }

    /// One entry less names a list.
    fn leave_list(&mut self, number: u32) {
        let names = &mut self.names[number as usize];
        *names -= 1;
        if *names == 0 {
            self.by_list.remove(self.lists.get(number));
            self.lists.set(number, Arc::default());
            self.free_lists.push(number);
            self.stale = true;
        }
    }

    /// Puts an entry with this mask where it belongs, and notes the place with its rule.
    fn put(&mut self, group: u32, mask: &Key, entry: Entry) {
        let at = match self.by_mask.get(&(group, *mask)) {
            Some(at) => *at,
            None => {
                let at = self.owns.add(Own::new(group, mask));
                self.by_mask.insert((group, *mask), at);
                at
            }
        };
        let (_, bits) = self.bits.entry(group).or_default();
        let own = self.owns.get(at);
        if !own.many && (own.live == self.tuning.few || *bits == self.tuning.bits) {
            own.many = true;
            self.move_to_tables(at);
        } else if !own.many {
            *bits += 1;
            self.stale_bits.insert(group);
            let place = Place { own: at, table: None, entry: own.put(entry) };
            return self.note(&entry, place);
        }
        self.put_into_table(at, &entry);
        self.leave_own(at);
    }

    /// A rule has an entry at a place.
    fn note(&mut self, entry: &Entry, place: Place) {
        self.rules.get_mut(&entry.found.number).into_iter().for_each(|held| held.places.push(place));
    }

    /// Puts the entries of a mask into hash tables, but for those that no longer count.
    fn move_to_tables(&mut self, at: usize) {
        let own = self.owns.get(at);
        let group = own.group;
        let counts = |few: &Few| few.died == FOREVER;
        let all: Vec<u32> =
            (0..).zip(&own.few).filter(|(_, few)| few.as_ref().is_some_and(counts)).map(|(n, _)| n).collect();
        for number in all {
            let own = self.owns.get(at);
            let Some(few) = own.few[number as usize].take() else { continue };
            own.free.push(number);
            own.live -= 1;
            self.bits.entry(group).and_modify(|(_, many)| *many -= 1);
            self.stale_bits.insert(group);
            let old = Place { own: at, table: None, entry: number };
            let held = self.rules.get_mut(&few.entry.found.number);
            held.into_iter().for_each(|held| held.places.retain(|place| *place != old));
            self.put_into_table(at, &few.entry);
        }
    }

    /// Puts an entry into the hash table with the coarsest key in which few have its value.
    fn put_into_table(&mut self, own: usize, entry: &Entry) {
        let (group, mask) = (self.owns.get(own).group, self.owns.get(own).mask);
        let keys = coarse::tables(&mask);
        let last = keys.len() - 1;
        for (level, key) in keys.iter().enumerate() {
            let at = match self.by_key.get(&(group, *key)) {
                Some(at) => *at,
                None => {
                    let at = self.tables.add(Hash::new(group, key, &mask, self.seed));
                    self.by_key.insert((group, *key), at);
                    at
                }
            };
            let table = self.tables.get(at);
            let room = table.masks.contains_key(&mask) || table.masks.len() < MOST_SHARED;
            let short = table.tuple.chain(&entry.value) < self.tuning.chain.max(1);
            if level == last && !short && entry.ports != Ports::ANY {
                // They differ in their ranges of ports alone: as prefixes these become a part of keys.
                let parts = without_ports(&Part { value: entry.value, mask, ports: entry.ports });
                let verdict = Verdict::from_words(entry.found.verdict, entry.found.mark);
                if verdict.fate == Fate::Listed {
                    // Each entry names it, and this one goes.
                    self.names[verdict.list as usize] += parts.len();
                    self.leave_list(verdict.list);
                }
                for Part { value, mask, ports } in parts {
                    self.put(group, &mask, Entry { value, ports, ..*entry });
                }
                return;
            }
            if level == last || room && short {
                let (number, stale) = table.put(&mask, entry);
                self.stale |= stale;
                self.owns.get(own).hashed += 1;
                return self.note(entry, Place { own, table: Some(at), entry: number });
            }
        }
    }

    /// Frees what an entry was in, if nothing is in that any longer.
    fn leave(&mut self, place: Place) {
        let own = self.owns.get(place.own);
        match place.table {
            None => own.free.push(place.entry),
            Some(at) => {
                own.hashed -= 1;
                let table = self.tables.get(at);
                table.free.push(place.entry);
                if table.free.len() == table.fresh as usize {
                    self.by_key.remove(&(table.group, table.key));
                    self.tables.remove(at);
                }
            }
        }
        self.leave_own(place.own);
    }

    /// Frees what is known of a mask, if no entry has it.
    fn leave_own(&mut self, at: usize) {
        let own = self.owns.get(at);
        if own.hashed == 0 && own.free.len() == own.few.len() {
            self.by_mask.remove(&(own.group, own.mask));
            self.owns.remove(at);
        }
    }

    /// These rules count until a version. Returns what they leave.
    fn end(&mut self, rules: &[u64], version: u64) -> Vec<Left> {
        let mut left = Vec::with_capacity(rules.len());
        for Held { places, counter } in rules.iter().filter_map(|number| self.rules.remove(number)) {
            for place in &places {
                match place.table {
                    Some(table) => self.tables.get(table).tuple.end(place.entry, version),
                    None => {
                        let own = self.owns.get(place.own);
                        own.few[place.entry as usize].iter_mut().for_each(|few| few.died = version);
                        self.stale_bits.insert(own.group);
                    }
                }
            }
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
            let Some((_, place)) = self.unlinked.pop_front() else { break };
            self.leave(place);
        }
        let mut unlinked = Vec::new();
        while self.ended.front().is_some_and(|(stamp, _)| *stamp < oldest) {
            let place = match self.ended.pop_front() {
                Some((_, Left::Entry(place))) => place,
                Some((_, Left::Counter(counter))) => {
                    self.free_counters.push(counter);
                    continue;
                }
                None => break,
            };
            let (word, mark) = self.unlink(place);
            let verdict = Verdict::from_words(word, mark);
            if verdict.fate == Fate::Listed {
                self.leave_list(verdict.list);
            }
            unlinked.push(place);
        }
        if !unlinked.is_empty() {
            let stamp = epochs.stamp();
            self.unlinked.extend(unlinked.into_iter().map(|place| (stamp, place)));
        }
    }

    /// Lets no reader find an entry any longer. Returns the words of its verdict.
    fn unlink(&mut self, place: Place) -> (u64, u32) {
        let own = self.owns.get(place.own);
        match place.table {
            Some(at) => {
                let table = self.tables.get(at);
                table.tuple.unlink(place.entry);
                table.linked -= 1;
                self.stale |= table.linked == 0;
                table.tuple.verdict(place.entry)
            }
            // The bits still have it, as one that does not count; that ends with the next change of them.
            None => {
                own.live -= 1;
                self.bits.entry(own.group).and_modify(|(_, many)| *many -= 1);
                let few = own.few[place.entry as usize].take();
                few.map_or((0, 0), |few| (few.entry.found.verdict, few.entry.found.mark))
            }
        }
    }

    /// Lets readers find what has become of the structure.
    fn publish(&mut self, shared: &Shared) {
        // Who took the last one's reference took it under the lock of the newest: nobody takes one more.
        self.former.retain(|structure| Arc::strong_count(structure) > 1);
        if !std::mem::take(&mut self.stale) & self.stale_bits.is_empty() {
            return;
        }
        let mut groups: BTreeMap<u32, Group> = BTreeMap::new();
        let mut few: BTreeMap<u32, Vec<Few>> =
            std::mem::take(&mut self.stale_bits).into_iter().map(|group| (group, Vec::new())).collect();
        for table in self.tables.iter().filter(|table| table.linked > 0) {
            groups.entry(table.group).or_default().add(&table.tuple);
        }
        if !few.is_empty() {
            for own in self.owns.iter() {
                few.get_mut(&own.group).into_iter().for_each(|few| few.extend(own.few.iter().flatten()));
            }
        }
        groups.values_mut().for_each(|group| group.tuples.sort_by_key(|placed| placed.tuple.best()));
        for (group, few) in few {
            let many = few.len();
            self.bits.insert(group, (Arc::new(Bits::new(few)), many));
        }
        self.bits.retain(|_, (_, many)| *many > 0);
        for (group, (bits, _)) in &self.bits {
            groups.entry(*group).or_default().bits = Arc::clone(bits);
        }
        let new = Arc::new(Structure { groups, lists: self.lists.clone() });
        let former = std::mem::replace(&mut *shared.structure(), new);
        // Only this thread changes it.
        shared.generation.store(shared.generation.load(Acquire) + 1, Release);
        if Arc::strong_count(&former) > 1 {
            self.former.push(former);
        }
    }
}

impl Own {
    fn new(group: u32, mask: &Key) -> Self {
        Self { group, mask: *mask, few: Vec::new(), live: 0, free: Vec::new(), many: false, hashed: 0 }
    }

    /// Keeps an entry. Returns its number.
    fn put(&mut self, entry: Entry) -> u32 {
        self.live += 1;
        let few = Some(Few::new(self.mask, entry));
        match self.free.pop() {
            Some(number) => {
                self.few[number as usize] = few;
                number
            }
            None => {
                self.few.push(few);
                self.few.len() as u32 - 1
            }
        }
    }
}

impl Hash {
    fn new(group: u32, key: &Key, mask: &Key, seed: u64) -> Self {
        let tuple = Arc::new(Tuple::new(key, mask, seed, ROOM));
        let masks = HashMap::new();
        Self { group, key: *key, tuple, masks, free: Vec::new(), fresh: 0, linked: 0, taken: 0 }
    }

    /// Writes an entry with this mask. Returns its number, and whether the structure is no longer right.
    fn put(&mut self, mask: &Key, entry: &Entry) -> (u32, bool) {
        let room = self.tuple.room();
        let full = self.free.is_empty() && self.fresh as usize == room;
        // A quarter of the slots stays empty, so that searches end.
        let grows = full || self.taken >= room + room / 2;
        if grows {
            self.grow(if full { room * 2 } else { room }, mask);
        }
        let known = self.masks.get(mask).copied();
        let mask_number = known.unwrap_or_else(|| {
            let new = self.tuple.with_mask(mask).unwrap_or_else(|| {
                self.grow(self.tuple.room(), mask);
                self.tuple.with_mask(mask).expect("it has the words of the mask")
            });
            self.tuple = Arc::new(new);
            self.masks.insert(*mask, self.masks.len());
            self.masks.len() - 1
        });
        // Readers do not look at tables in which nothing is.
        let stale = grows || known.is_none() || self.linked == 0;
        (self.linked, self.taken) = (self.linked + 1, self.taken + 1);
        let number = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.tuple.put(number, mask_number, entry);
        (number, stale)
    }

    /// Takes a table with this room, and with the words of a mask.
    fn grow(&mut self, room: usize, mask: &Key) {
        self.tuple = Arc::new(self.tuple.grown(room, mask));
        self.taken = self.linked;
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
        let Some(group) = self.structure.groups.get(&group) else { return };
        for (keys, hits) in keys.chunks(BLOCK).zip(hits.chunks_mut(BLOCK)) {
            let mut found = [Found::NOTHING; BLOCK];
            let found = &mut found[..keys.len()];
            group.find_many(keys, self.version, found);
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
        self.structure.lists.get(verdict.list)
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

    #[test]
    fn what_came_and_went_leaves_nothing() {
        let table = Table::new(7);
        let reader = table.reader();
        for bits in 1..5000 {
            let mut rule = Rule { actions: vec![Action::SetMeta { data: bits, mask: 1 }], ..Rule::default() };
            rule.pattern.demand(crate::Field::Meta, 0, bits.into());
            let number = table.change(&[], &[rule]).unwrap()[0];
            table.change(&[number], &[]).unwrap();
        }
        let control = table.control();
        assert!(control.owns.len() < 10 && control.by_mask.len() < 10, "{}", control.owns.len());
        assert!(control.names.len() < 10 && control.by_list.len() < 10, "{}", control.names.len());
        assert!(control.former.len() <= 1, "the reader has the first one");
        drop(reader);
    }
}
