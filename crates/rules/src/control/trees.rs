//! Rules that stay come into trees ([`crate::tree`]).

use super::{Control, Place};
use crate::bits::Few;
use crate::kept::Hash;
use crate::key::Key;
use crate::reader::Shared;
use crate::tree::{self, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Rules of which trees are to be made, by store, and the version of the table that they are of.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) version: u64,
    pub(crate) stores: Vec<Planned>,
}

/// The rules of a store that are to come into trees.
#[derive(Debug)]
pub(crate) struct Planned {
    store: u64,
    keep_tables: bool,
    rules: Vec<Few>,
}

impl Planned {
    pub(crate) fn grow(self) -> Planted {
        let (tree, others) = tree::build(self.rules);
        Planted { store: self.store, keep_tables: self.keep_tables, tree, others }
    }
}

/// The trees of a store, and the rules that are in none.
#[derive(Debug)]
pub(crate) struct Planted {
    pub(crate) store: u64,
    keep_tables: bool,
    pub(crate) tree: Option<Tree>,
    pub(crate) others: Vec<Few>,
}

/// The rules of a store that are in no tree.
#[derive(Clone, Copy, Debug, Default)]
struct Loose {
    few: usize,
    tables: usize,
    hashed: usize,
}

impl Loose {
    /// Whether hash tables stay as they are, as they are few and large: flows with the same mask, which come
    /// and go. They are as quick as trees.
    fn keeps_tables(self) -> bool {
        self.tables <= 4 && self.hashed >= self.tables * 1024
    }

    /// Whether look-ups become quicker if the rules come into trees, where so many are already.
    fn want_trees(self, in_tree: usize) -> bool {
        let (hashed, tables) = if self.keeps_tables() { (0, 0) } else { (self.hashed, self.tables) };
        // One hash table, and bits of a few, are as quick.
        let slow = tables > 1 || self.few > 8;
        slow && (self.few + hashed) * 256 >= in_tree
    }
}

impl Control {
    /// The rules of stores of which trees make look-ups quicker ([`crate::tree`]), and the version that they
    /// are of. None while readers may be at rules that have ended.
    pub(crate) fn for_trees(&mut self, shared: &Shared) -> Option<Plan> {
        // What has ended is first made impossible to find, and then free.
        self.reclaim(&shared.epochs);
        self.reclaim(&shared.epochs);
        if !self.ended.is_empty() || !self.unlinked.is_empty() {
            return None;
        }
        let mut loose: BTreeMap<u64, Loose> = BTreeMap::new();
        for own in self.owns.iter() {
            loose.entry(own.store).or_default().few += own.live;
        }
        for table in self.tables.iter() {
            let of = loose.entry(table.store).or_default();
            (of.tables, of.hashed) = (of.tables + 1, of.hashed + table.linked);
        }
        let trees = &self.trees;
        loose.retain(|store, loose| loose.want_trees(trees.get(store).map_or(0, |(_, live)| *live)));
        let planned = |(store, loose): (u64, Loose)| {
            let keep_tables = loose.keeps_tables();
            Planned { store, keep_tables, rules: self.rules_of(store, keep_tables) }
        };
        let stores = loose.into_iter().map(planned).collect();
        Some(Plan { version: shared.version.load(Acquire), stores })
    }

    /// The entries of a store, without or with those of its hash tables.
    fn rules_of(&self, store: u64, keep_tables: bool) -> Vec<Few> {
        let owns = self.owns.iter().filter(|own| own.store == store);
        let mut all: Vec<Few> = owns.flat_map(|own| own.few.iter().flatten().copied()).collect();
        let tables = self.tables.iter().filter(|table| table.store == store && !keep_tables);
        let hashed = tables.flat_map(|table| table.entries());
        let in_tree = self.trees.get(&store).into_iter().flat_map(|(tree, _)| tree.entries());
        all.extend(hashed.chain(in_tree).map(|(_, mask, entry)| Few::new(mask, entry)));
        all
    }

    /// Puts the rules of a plan into their trees, unless something has changed since. Returns whether it was
    /// done.
    pub(crate) fn plant(&mut self, shared: &Shared, version: u64, planted: Vec<Planted>) -> bool {
        // A version has no other rules, wherever they are.
        if shared.version.load(Acquire) != version || !self.ended.is_empty() || !self.unlinked.is_empty() {
            return false;
        }
        for Planted { store, keep_tables, tree, others } in planted {
            self.clear(store, keep_tables);
            let numbers =
                tree.iter().flat_map(Tree::numbers).chain(others.iter().map(|few| few.entry.found.number));
            for number in numbers {
                let held = self.rules.get_mut(&number);
                let stays = |place: &Place| keep_tables && matches!(place, Place::Hashed { .. });
                held.into_iter().for_each(|held| held.places.retain(stays));
            }
            if let Some(tree) = tree {
                for (entry, number) in (0..).zip(tree.numbers()) {
                    let held = self.rules.get_mut(&number);
                    held.into_iter().for_each(|held| held.places.push(Place::Tree { store, entry }));
                }
                let live = tree.len();
                self.trees.insert(store, (Arc::new(tree), live));
            }
            for few in others {
                self.put(store, &few.mask, few.entry);
            }
            self.stale = true;
        }
        self.publish(shared);
        true
    }

    /// Forgets where the entries of a store are, but for those of hash tables that stay.
    fn clear(&mut self, store: u64, keep_tables: bool) {
        self.trees.remove(&store);
        self.bits.remove(&store);
        self.stale_bits.remove(&store);
        let owns = self.owns.numbered().filter(|(_, own)| own.store == store);
        let owns: Vec<usize> = owns.map(|(at, _)| at).collect();
        for at in owns {
            let own = self.owns.get(at);
            (own.few, own.free, own.live) = (Vec::new(), Vec::new(), 0);
            own.hashed = if keep_tables { own.hashed } else { 0 };
            self.leave_own(at);
        }
        if keep_tables {
            return;
        }
        let of = |(at, table): (usize, &Hash)| (table.store == store).then_some((at, table.key));
        let tables: Vec<(usize, Key)> = self.tables.numbered().filter_map(of).collect();
        for (at, key) in tables {
            self.by_key.remove(&(store, key));
            self.tables.remove(at);
        }
    }
}
