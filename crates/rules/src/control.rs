//! The writer's side of a table.

mod trees;

use crate::bits::{Bits, Few};
use crate::chains::{Chains, Move, Turn};
use crate::coarse;
use crate::counters::Counters;
use crate::expand::{Part, without_ports};
use crate::kept::{Hash, Own};
use crate::key::Key;
use crate::lists::Lists;
use crate::ports::Ports;
use crate::reader::{Shared, Store, Structure, Way};
use crate::rule::{Action, Rule};
use crate::slab::Slab;
use crate::tree::Tree;
use crate::tuple::{Entry, FOREVER, Found, MOST_MASKS, order_of};
use crate::verdict::{COUNTERS, Fate, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use tables::epoch::Epochs;

pub(crate) use trees::Planned;

/// So many masks share a hash table with a key that is shorter than each of them.
const MOST_SHARED: usize = 1024;
const _: () = assert!(MOST_SHARED < MOST_MASKS, "one is left for the mask that is the key");

/// From which numbers on a table keeps rules in another way. A part of a rule that has ranges counts as one.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Rules that look at the same bits go to hash tables if they are more.
    pub few: usize,
    /// So many rules of groups that are kept together are looked up as bits at most: the time of a look-up
    /// grows with them.
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

/// Where an entry is, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With the few of its mask.
    Few { own: usize, entry: u32 },
    /// In a hash table.
    Hashed { own: usize, table: usize, entry: u32 },
    /// In trees of a store, which have this number.
    Tree { store: u64, tree: u64, entry: u32 },
}

/// A rule, for the writer.
#[derive(Debug)]
pub(crate) struct Held {
    group: u32,
    priority: u32,
    places: Vec<Place>,
    pub(crate) counter: Option<u32>,
}

/// What a change leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Entry(Place),
    Counter(u32),
    /// An entry that was in no hash table named it.
    List(u32),
    /// A group has another way from a version on.
    Way(u32, u64),
}

/// The writer's side.
#[derive(Debug, Default)]
pub(crate) struct Control {
    chains: Chains,
    /// By store.
    pub(crate) owns: Slab<Own>,
    pub(crate) by_mask: HashMap<(u64, Key), usize>,
    pub(crate) tables: Slab<Hash>,
    by_key: HashMap<(u64, Key), usize>,
    pub(crate) rules: HashMap<u64, Held>,
    next: u64,
    /// Lists of actions, how many entries name each, and where each is.
    lists: Lists,
    pub(crate) names: Vec<usize>,
    pub(crate) by_list: HashMap<Arc<[Action]>, u32>,
    free_lists: Vec<u32>,
    /// Counters that are used again, and the first that never was.
    free_counters: Vec<u32>,
    fresh_counter: u32,
    /// What removed rules have left, and entries that no slot leads to either, by the stamp of that.
    pub(crate) ended: VecDeque<(u64, Left)>,
    unlinked: VecDeque<(u64, Place)>,
    /// The structure is no longer that of `chains`, `tables` and `lists`; the bits of these stores are not
    /// those of `owns`.
    stale: bool,
    stale_bits: BTreeSet<u64>,
    /// Of each store, its bits, and how many entries they have.
    bits: BTreeMap<u64, (Arc<Bits>, usize)>,
    /// By store and number, trees, and how many of their entries readers may find; the next number.
    trees: BTreeMap<(u64, u64), (Arc<Tree>, usize)>,
    next_tree: u64,
    /// By store, how many rules had no place in trees when these were made.
    tried: BTreeMap<u64, usize>,
    /// Structures that readers may still have. They end here, so that no reader has to free one.
    pub(crate) former: Vec<Arc<Structure>>,
    seed: u64,
    tuning: Tuning,
}

impl Control {
    pub(crate) fn new(seed: u64, tuning: Tuning) -> Self {
        Self { seed, tuning, ..Self::default() }
    }

    /// An error unless each of these numbers is that of a rule, and none is there twice.
    pub(crate) fn all_there(&self, numbers: &[u64]) -> Result<(), Refused> {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let missing = sorted.iter().find(|number| !self.rules.contains_key(number));
        let twice = || sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| &pair[0]);
        missing.or_else(twice).map_or(Ok(()), |number| Err(Refused::NoSuchRule(*number)))
    }

    /// An error unless there are so many counters.
    pub(crate) fn counters_for(&self, rules: usize) -> Result<(), Refused> {
        let there = self.free_counters.len() + (COUNTERS - self.fresh_counter) as usize;
        if rules <= there { Ok(()) } else { Err(Refused::TooManyCounters) }
    }

    /// Makes the next version: `change` gets its number, and returns what no longer counts in it.
    pub(crate) fn make_version<T>(
        &mut self,
        shared: &Shared,
        change: impl FnOnce(&mut Self, u64, &Counters) -> (T, Vec<Left>),
    ) -> T {
        // Only this thread changes it.
        let version = shared.version.load(Acquire) + 1;
        self.reclaim(&shared.epochs);
        let (done, mut left) = change(self, version, &shared.counters);
        self.follow_links(version, &mut left);
        self.publish(shared);
        shared.version.store(version, Release);
        let stamp = shared.epochs.stamp();
        self.ended.extend(left.into_iter().map(|left| (stamp, left)));
        self.reclaim(&shared.epochs);
        done
    }

    /// Writes a rule, which counts from a version on. Returns its number.
    pub(crate) fn add(&mut self, rule: &Rule, parts: Vec<Part>, version: u64, counters: &Counters) -> u64 {
        let number = self.next;
        self.next += 1;
        let counter = self.counter_of(rule, counters);
        self.write(number, rule, parts, version, counter);
        number
    }

    /// A counter that begins at 0, if the rule counts.
    pub(crate) fn counter_of(&mut self, rule: &Rule, counters: &Counters) -> Option<u32> {
        let counter = rule.counts().then(|| {
            self.free_counters.pop().unwrap_or_else(|| {
                self.fresh_counter += 1;
                self.fresh_counter - 1
            })
        });
        counter.into_iter().for_each(|counter| counters.begin(counter));
        counter
    }

    /// These rules are about to come: those of groups that they make neighbours come into one store.
    pub(crate) fn expect(&mut self, rules: &[Rule]) {
        for rule in rules.iter().filter(|rule| rule.pattern.is_any()) {
            if let [Action::Jump(_)] = rule.actions[..] {
                let (verdict, mark) = Verdict::of(&rule.actions, None, || 0).words();
                let order = order_of(rule.group, rule.priority);
                self.chains.expect(&Found { order, number: 0, verdict, mark });
            }
        }
    }

    /// Brings rules where the links between groups want them.
    fn follow_links(&mut self, version: u64, left: &mut Vec<Left>) {
        for turn in self.chains.settle() {
            match turn {
                Turn::In(found) => {
                    let store = self.chains.store(found.group());
                    let value = Key::default();
                    self.put(store, &value, Entry { value, ports: Ports::ANY, found, born: version });
                }
                Turn::Out(found) => {
                    self.name_again(&found);
                    let places =
                        self.rules.get_mut(&found.number).map(|held| std::mem::take(&mut held.places));
                    self.end_places(places.unwrap_or_default(), version, left);
                }
            }
        }
        for change in self.chains.arrange() {
            self.move_groups(&change, version, left);
        }
        let ways = self.chains.find_ways(version);
        self.stale |= !ways.is_empty();
        left.extend(ways.into_iter().map(|group| Left::Way(group, version)));
    }

    /// Moves the rules of groups to another store.
    fn move_groups(&mut self, change: &Move, version: u64, left: &mut Vec<Left>) {
        let moves = |found: &Found| change.groups.contains(&found.group());
        let mut all: Vec<(Place, Key, Entry)> = Vec::new();
        for (own, kept) in self.owns.numbered().filter(|(_, own)| own.store == change.from) {
            let few = (0..).zip(&kept.few).filter_map(|(entry, few)| Some((entry, few.as_ref()?)));
            let few = few.filter(|(_, few)| few.died == FOREVER && moves(&few.entry.found));
            all.extend(few.map(|(entry, few)| (Place::Few { own, entry }, few.mask, few.entry)));
        }
        for (table, kept) in self.tables.numbered().filter(|(_, table)| table.store == change.from) {
            for (number, mask, entry) in kept.entries().filter(|(_, _, entry)| moves(&entry.found)) {
                let Some(own) = self.by_mask.get(&(change.from, mask)) else { continue };
                all.push((Place::Hashed { own: *own, table, entry: number }, mask, entry));
            }
        }
        let store = change.from;
        for ((_, tree), (of, _)) in self.trees.range((store, 0)..=(store, u64::MAX)) {
            for (number, mask, entry) in of.entries().filter(|(_, _, entry)| moves(&entry.found)) {
                all.push((Place::Tree { store, tree: *tree, entry: number }, mask, entry));
            }
        }
        for (place, mask, entry) in all {
            self.name_again(&entry.found);
            let held = self.rules.get_mut(&entry.found.number);
            held.into_iter().for_each(|held| held.places.retain(|other| *other != place));
            self.end_places(vec![place], version, left);
            self.put(change.to, &mask, Entry { born: version, ..entry });
        }
    }

    /// One more entry names the list of a rule.
    fn name_again(&mut self, found: &Found) {
        let verdict = Verdict::from_words(found.verdict, found.mark);
        if verdict.fate == Fate::Listed {
            self.names[verdict.list as usize] += 1;
        }
    }

    /// Writes the entries of a rule with this number.
    pub(crate) fn write(
        &mut self,
        number: u64,
        rule: &Rule,
        parts: Vec<Part>,
        version: u64,
        counter: Option<u32>,
    ) {
        let (group, priority) = (rule.group, rule.priority);
        let places = Vec::with_capacity(parts.len());
        self.rules.insert(number, Held { group, priority, places, counter });
        self.chains.add(group, priority);
        let store = self.chains.store(group);
        for Part { value, mask, ports } in parts {
            let verdict = Verdict::of(&rule.actions, counter, || self.list(&rule.actions));
            let (verdict, mark) = verdict.words();
            let found = Found { order: order_of(group, priority), number, verdict, mark };
            if rule.pattern.is_any() {
                self.chains.add_catch_all(found);
            } else {
                self.put(store, &mask, Entry { value, ports, found, born: version });
            }
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
    fn put(&mut self, store: u64, mask: &Key, entry: Entry) {
        let at = match self.by_mask.get(&(store, *mask)) {
            Some(at) => *at,
            None => {
                let at = self.owns.add(Own::new(store, mask));
                self.by_mask.insert((store, *mask), at);
                at
            }
        };
        let (_, bits) = self.bits.entry(store).or_default();
        let own = self.owns.get(at);
        if !own.many && (own.live == self.tuning.few || *bits == self.tuning.bits) {
            own.many = true;
            self.move_to_tables(at);
        } else if !own.many {
            *bits += 1;
            self.stale_bits.insert(store);
            let place = Place::Few { own: at, entry: own.put(entry) };
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
        let store = own.store;
        let counts = |few: &Few| few.died == FOREVER;
        let all: Vec<u32> =
            (0..).zip(&own.few).filter(|(_, few)| few.as_ref().is_some_and(counts)).map(|(n, _)| n).collect();
        for number in all {
            let own = self.owns.get(at);
            let Some(few) = own.few[number as usize].take() else { continue };
            own.free.push(number);
            own.live -= 1;
            self.bits.entry(store).and_modify(|(_, many)| *many -= 1);
            self.stale_bits.insert(store);
            let old = Place::Few { own: at, entry: number };
            let held = self.rules.get_mut(&few.entry.found.number);
            held.into_iter().for_each(|held| held.places.retain(|place| *place != old));
            self.put_into_table(at, &few.entry);
        }
    }

    /// Puts an entry into the hash table with the coarsest key in which few have its value.
    fn put_into_table(&mut self, own: usize, entry: &Entry) {
        let (store, mask) = (self.owns.get(own).store, self.owns.get(own).mask);
        let keys = coarse::tables(&mask);
        let last = keys.len() - 1;
        for (level, key) in keys.iter().enumerate() {
            let at = match self.by_key.get(&(store, *key)) {
                Some(at) => *at,
                None => {
                    let at = self.tables.add(Hash::new(store, key, &mask, self.seed));
                    self.by_key.insert((store, *key), at);
                    at
                }
            };
            let table = self.tables.get(at);
            let room = table.masks.contains_key(&mask) || table.masks.len() < MOST_SHARED;
            // Each group may have its own.
            let most = self.tuning.chain.max(1)
                * if level == last { self.chains.groups_in(store).max(1) } else { 1 };
            let short = table.tuple.chain(&entry.value) < most;
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
                    self.put(store, &mask, Entry { value, ports, ..*entry });
                }
                return;
            }
            if level == last || room && short {
                let (number, stale) = table.put(&mask, entry);
                self.stale |= stale;
                self.owns.get(own).hashed += 1;
                return self.note(entry, Place::Hashed { own, table: at, entry: number });
            }
        }
    }

    /// Frees what an entry was in, if nothing is in that any longer.
    fn leave(&mut self, place: Place) {
        let own = match place {
            Place::Few { own, entry } => {
                self.owns.get(own).free.push(entry);
                own
            }
            Place::Hashed { own, table: at, entry } => {
                self.owns.get(own).hashed -= 1;
                let table = self.tables.get(at);
                table.free.push(entry);
                if table.free.len() == table.fresh as usize {
                    self.by_key.remove(&(table.store, table.key));
                    self.tables.remove(at);
                }
                own
            }
            Place::Tree { store, tree, .. } => return self.leave_tree(store, tree),
        };
        self.leave_own(own);
    }

    /// Frees what is known of a mask, if no entry has it.
    fn leave_own(&mut self, at: usize) {
        let own = self.owns.get(at);
        if own.hashed == 0 && own.free.len() == own.few.len() {
            self.by_mask.remove(&(own.store, own.mask));
            self.owns.remove(at);
        }
    }

    /// These rules count until a version. Returns what they leave.
    pub(crate) fn end(&mut self, rules: &[u64], version: u64) -> Vec<Left> {
        let mut left = Vec::with_capacity(rules.len());
        for number in rules {
            let Some(Held { group, priority, places, counter }) = self.rules.remove(number) else { continue };
            if let Some(found) = self.chains.remove(group, priority, *number) {
                let verdict = Verdict::from_words(found.verdict, found.mark);
                left.extend((verdict.fate == Fate::Listed).then_some(Left::List(verdict.list)));
            }
            self.end_places(places, version, &mut left);
            left.extend(counter.map(Left::Counter));
        }
        left
    }

    /// These entries count until a version.
    fn end_places(&mut self, places: Vec<Place>, version: u64, left: &mut Vec<Left>) {
        for place in &places {
            match *place {
                Place::Hashed { table, entry, .. } => self.tables.get(table).tuple.end(entry, version),
                Place::Few { own, entry } => {
                    let own = self.owns.get(own);
                    own.few[entry as usize].iter_mut().for_each(|few| few.died = version);
                    self.stale_bits.insert(own.store);
                }
                Place::Tree { store, tree, entry } => {
                    self.trees.get(&(store, tree)).into_iter().for_each(|(tree, _)| tree.end(entry, version));
                }
            }
        }
        left.extend(places.into_iter().map(Left::Entry));
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
                Some((_, Left::List(list))) => {
                    self.leave_list(list);
                    continue;
                }
                Some((_, Left::Way(group, version))) => {
                    self.chains.forget(group, version);
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

    /// Frees what has ended as far as no reader can be at it, and lets readers find no more of it. Returns
    /// whether nothing is left.
    pub(crate) fn sweep(&mut self, shared: &Shared) -> bool {
        self.reclaim(&shared.epochs);
        let done = self.ended.is_empty() && self.unlinked.is_empty();
        if done {
            let old = self.bits.iter().filter(|(_, (bits, many))| bits.len() > *many);
            self.stale_bits.extend(old.map(|(store, _)| *store));
        }
        self.publish(shared);
        done
    }

    /// Lets no reader find an entry any longer. Returns the words of its verdict.
    fn unlink(&mut self, place: Place) -> (u64, u32) {
        match place {
            Place::Hashed { table, entry, .. } => {
                let table = self.tables.get(table);
                table.tuple.unlink(entry);
                table.linked -= 1;
                self.stale |= table.linked == 0;
                table.tuple.verdict(entry)
            }
            // The bits still have it, as one that does not count; that ends with the next change of them.
            Place::Few { own, entry } => {
                let own = self.owns.get(own);
                own.live -= 1;
                self.bits.entry(own.store).and_modify(|(_, many)| *many -= 1);
                let few = own.few[entry as usize].take();
                few.map_or((0, 0), |few| (few.entry.found.verdict, few.entry.found.mark))
            }
            // The trees still have it likewise.
            Place::Tree { store, tree, entry } => {
                self.trees.get(&(store, tree)).map_or((0, 0), |(tree, _)| tree.verdict(entry))
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
        let mut stores: BTreeMap<u64, Store> = BTreeMap::new();
        let mut few: BTreeMap<u64, Vec<Few>> =
            std::mem::take(&mut self.stale_bits).into_iter().map(|store| (store, Vec::new())).collect();
        for table in self.tables.iter().filter(|table| table.linked > 0) {
            stores.entry(table.store).or_default().add(&table.tuple);
        }
        if !few.is_empty() {
            for own in self.owns.iter() {
                few.get_mut(&own.store).into_iter().for_each(|few| few.extend(own.few.iter().flatten()));
            }
        }
        stores.values_mut().for_each(Store::sort);
        for (store, few) in few {
            let many = few.len();
            self.bits.insert(store, (Arc::new(Bits::new(few)), many));
        }
        self.bits.retain(|_, (_, many)| *many > 0);
        for (store, (bits, _)) in &self.bits {
            stores.entry(*store).or_default().bits = Arc::clone(bits);
        }
        for ((store, _), (tree, _)) in &self.trees {
            stores.entry(*store).or_default().trees.push(Arc::clone(tree));
        }
        let stores: BTreeMap<u64, Arc<Store>> =
            stores.into_iter().map(|(number, store)| (number, Arc::new(store))).collect();
        let ways = self.chains.ways().map(|(group, since, way)| Way {
            group,
            since,
            store: way.store.and_then(|store| stores.get(&store)).cloned(),
            default: way.default.unwrap_or(Found::nothing_to(way.last)),
        });
        let new = Arc::new(Structure { ways: ways.collect(), lists: self.lists.clone() });
        let former = std::mem::replace(&mut *shared.structure(), new);
        // Only this thread changes it.
        shared.generation.store(shared.generation.load(Acquire) + 1, Release);
        if Arc::strong_count(&former) > 1 {
            self.former.push(former);
        }
    }
}
