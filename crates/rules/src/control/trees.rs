//! Rules that stay come into trees ([`crate::tree`]), which are made while others come and go.

use super::{Control, Left, Place};
use crate::bits::Few;
use crate::key::Key;
use crate::reader::Shared;
use crate::tree::{self, Tree};
use crate::tuple::{Entry, FOREVER};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Trees are made again when beside them are more rules than one in so many of those in them, when of their
/// own fewer than one in so many have not ended, or when they are so many.
const BESIDE: usize = 256;
const ALIVE: usize = 4;
const MOST_TREES: usize = 4;
/// Hash tables stay as they are if they are so few, and have so many entries each on average.
const FEW_TABLES: usize = 4;
const LARGE_TABLE: usize = 1024;
/// Bits of so few rules are as quick as trees.
const FEW_RULES: usize = 8;

/// The rules of a store that are to come into trees, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    store: u64,
    rules: Vec<Few>,
    places: Vec<Place>,
}

impl Planned {
    fn add(&mut self, rule: Few, place: Place) {
        self.rules.push(rule);
        self.places.push(place);
    }

    /// Makes the trees.
    pub(crate) fn grow(self) -> Grown {
        Grown { tree: tree::build(&self.rules), planned: self }
    }
}

/// Trees, with the number that each of their rules has among those planned. The others stay where they are.
#[derive(Debug)]
pub(crate) struct Grown {
    tree: Option<(Tree, Vec<u32>)>,
    planned: Planned,
}

/// The rules of a store that are in no tree.
#[derive(Clone, Copy, Debug, Default)]
struct Loose {
    few: usize,
    tables: usize,
    hashed: usize,
}

impl Loose {
    /// Whether hash tables stay as they are: they have flows with the same mask, which come and go.
    fn keeps_tables(self) -> bool {
        self.tables <= FEW_TABLES && self.hashed >= self.tables * LARGE_TABLE
    }

    /// How many rules may come into trees.
    fn rules(self) -> usize {
        self.few + if self.keeps_tables() { 0 } else { self.hashed }
    }

    /// Whether look-ups become quicker if the rules come into trees, where so many are already.
    fn wants_trees(self, in_trees: usize) -> bool {
        let tables = if self.keeps_tables() { 0 } else { self.tables };
        (tables > 0 || self.few > FEW_RULES) && self.rules() * BESIDE >= in_trees
    }
}

impl Control {
    /// The rules of stores of which trees make look-ups quicker.
    pub(crate) fn for_trees(&self) -> Vec<Planned> {
        let mut loose: BTreeMap<u64, Loose> = BTreeMap::new();
        for own in self.owns.iter() {
            loose.entry(own.store).or_default().few += own.live;
        }
        for table in self.tables.iter().filter(|table| table.linked > 0) {
            let of = loose.entry(table.store).or_default();
            (of.tables, of.hashed) = (of.tables + 1, of.hashed + table.linked);
        }
        for (store, _) in self.trees.keys() {
            loose.entry(*store).or_default();
        }
        let wanted = loose.into_iter().filter(|(store, loose)| {
            let trees = || self.trees.range((*store, 0)..=(*store, u64::MAX)).map(|(_, tree)| tree);
            let (live, all) = trees().fold((0, 0), |(live, all), (tree, n)| (live + n, all + tree.len()));
            // With about the same rules the last time, these had no place.
            let tried = self.tried.get(store).copied().unwrap_or(0);
            let news = loose.rules().abs_diff(tried) > FEW_RULES.max(tried / BESIDE);
            loose.wants_trees(live) && news || live * ALIVE < all || trees().count() > MOST_TREES
        });
        wanted.map(|(store, loose)| self.plan(store, loose.keeps_tables())).collect()
    }

    /// The rules of a store, without or with those of its hash tables.
    fn plan(&self, store: u64, keeps_tables: bool) -> Planned {
        let mut planned = Planned { store, ..Planned::default() };
        for (own, kept) in self.owns.numbered().filter(|(_, own)| own.store == store) {
            for (entry, few) in (0..).zip(&kept.few) {
                if let Some(few) = few.filter(|few| few.died == FOREVER) {
                    planned.add(few, Place::Few { own, entry });
                }
            }
        }
        for (table, kept) in self.tables.numbered().filter(|(_, table)| table.store == store && !keeps_tables)
        {
            for (number, mask, entry) in kept.entries() {
                if let Some(own) = self.by_mask.get(&(store, mask)) {
                    planned.add(Few::new(mask, entry), Place::Hashed { own: *own, table, entry: number });
                }
            }
        }
        for ((_, tree), (of, _)) in self.trees.range((store, 0)..=(store, u64::MAX)) {
            for (number, mask, entry) in of.entries() {
                planned.add(Few::new(mask, entry), Place::Tree { store, tree: *tree, entry: number });
            }
        }
        planned
    }

    /// Lets rules be found in their trees, and no longer where they were, but for those that have changed
    /// since. Returns how many are in trees now that were not in these.
    pub(crate) fn plant(&mut self, shared: &Shared, all: Vec<Grown>) -> usize {
        self.make_version(shared, |control, version, _| {
            let (mut left, mut many) = (Vec::new(), 0);
            for Grown { tree, planned } in all {
                let (tree, members) = tree.unzip();
                let members = members.unwrap_or_default();
                control.tried.insert(planned.store, planned.rules.len() - members.len());
                control.leave_old_trees(&planned, &members, version, &mut left);
                if let Some(tree) = tree {
                    many += control.plant_one(tree, &members, &planned, version, &mut left);
                }
            }
            // Stores that are no more.
            let Self { tried, trees, owns, .. } = control;
            tried.retain(|store, _| {
                owns.iter().any(|own| own.store == *store)
                    || trees.range((*store, 0)..=(*store, u64::MAX)).next().is_some()
            });
            (many, left)
        })
    }

    /// Puts rules of earlier trees that have no place in the new ones beside these, so that the old ones go.
    fn leave_old_trees(&mut self, planned: &Planned, members: &[u32], version: u64, left: &mut Vec<Left>) {
        let mut placed = vec![false; planned.rules.len()];
        members.iter().for_each(|member| placed[*member as usize] = true);
        for ((few, place), _) in
            planned.rules.iter().zip(&planned.places).zip(placed).filter(|(_, placed)| !placed)
        {
            if !matches!(place, Place::Tree { .. }) || self.entry_at(*place).is_none() {
                continue;
            }
            self.name_again(&few.entry.found);
            let held = self.rules.get_mut(&few.entry.found.number);
            held.into_iter().for_each(|held| held.places.retain(|other| other != place));
            self.end_places(vec![*place], version, left);
            self.put(planned.store, &few.mask, Entry { born: version, ..few.entry });
        }
    }

    fn plant_one(
        &mut self,
        mut tree: Tree,
        members: &[u32],
        planned: &Planned,
        version: u64,
        left: &mut Vec<Left>,
    ) -> usize {
        let (number, store) = (self.next_tree, planned.store);
        self.next_tree += 1;
        let mut moved = Vec::new();
        for (entry, member) in (0..).zip(members) {
            let (few, place) = (&planned.rules[*member as usize], planned.places[*member as usize]);
            let found = few.entry.found;
            let same = |(mask, there): (Key, Entry)| {
                let of = |entry: &Entry| (entry.value, entry.ports, entry.born);
                mask == few.mask && of(&there) == of(&few.entry)
            };
            if !self.entry_at(place).is_some_and(same) {
                // It has ended, and another one may have its place.
                continue;
            }
            let Some(held) = self.rules.get_mut(&found.number) else { continue };
            let Some(at) = held.places.iter_mut().find(|other| **other == place) else { continue };
            *at = Place::Tree { store, tree: number, entry };
            tree.begin(entry, version);
            self.name_again(&found);
            moved.push(place);
        }
        let many = moved.len();
        if many > 0 {
            self.trees.insert((store, number), (Arc::new(tree), moved.len()));
            self.stale = true;
            self.end_places(moved, version, left);
        }
        many
    }

    /// What is at a place, if it has not ended, and its mask.
    fn entry_at(&self, place: Place) -> Option<(Key, Entry)> {
        match place {
            Place::Few { own, entry } => {
                let few = self.owns.at(own)?.few.get(entry as usize)?.as_ref()?;
                (few.died == FOREVER).then_some((few.mask, few.entry))
            }
            Place::Hashed { table, entry, .. } => {
                let table = self.tables.at(table).filter(|table| entry < table.fresh)?;
                table.tuple.entry(entry)
            }
            Place::Tree { store, tree, entry } => self.trees.get(&(store, tree))?.0.entry(entry),
        }
    }

    /// An entry of trees has ended, and no reader finds it any longer.
    pub(super) fn leave_tree(&mut self, store: u64, tree: u64) {
        if let Some((_, live)) = self.trees.get_mut(&(store, tree)) {
            *live -= 1;
            if *live == 0 {
                self.trees.remove(&(store, tree));
                self.stale = true;
            }
        }
    }
}
