//! An exact-match table whose entries age: neighbors, flows, translations.
//!
//! It never grows past its capacity: when it is full, a new entry replaces the least recently used one.
//! Memory for up to 65,536 entries is allocated when the table is made; a larger table grows as it fills, and
//! keeps its size if there is no memory. Hashing is keyed with random numbers from the operating system, so
//! that an attacker cannot choose keys that collide. The caller passes the time, in any unit; it should not
//! run backwards.
//!
//! ```
//! let mut table = tables::ExactMap::new(2);
//! table.insert("a", 1, 100);
//! table.insert("b", 2, 101);
//! table.touch("a", 102);
//! assert_eq!(table.insert("c", 3, 103), tables::Displaced::Evicted("b", 2));
//! assert_eq!(table.pop_older(103), Some(("a", 1)));
//! assert_eq!(table.pop_older(103), None);
//! ```

use std::borrow::Borrow;
use std::hash::Hash;

use hashbrown::HashTable;

const NONE: u32 = u32::MAX;
/// The number of entries for which memory is allocated when a table is made.
const SET_ASIDE: usize = 1 << 16;

/// An entry in the list from the one unused for longest to the one used last.
struct Node<K, V> {
    /// `None` on the list of free nodes, which uses `next` alone.
    entry: Option<(K, V)>,
    used: u64,
    older: u32,
    newer: u32,
}

/// The entry that a new entry has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displaced<K, V> {
    /// Nothing.
    Nothing,
    /// The key's own former value.
    Replaced(V),
    /// The least recently used entry: the table was full.
    Evicted(K, V),
}

/// A bounded hash table with least-recently-used eviction and expiry.
pub struct ExactMap<K, V> {
    index: HashTable<u32>,
    nodes: Vec<Node<K, V>>,
    free: u32,
    oldest: u32,
    newest: u32,
    capacity: usize,
    hasher: ahash::RandomState,
}

/// A hasher keyed by the operating system's random numbers.
fn random_hasher() -> ahash::RandomState {
    let [a, b, c, d] = crate::seed::seeds();
    ahash::RandomState::with_seeds(a, b, c, d)
}

impl<K: Hash + Eq, V> ExactMap<K, V> {
    /// An empty table for at most `capacity` entries (1 to 2^31).
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, 1 << 31);
        Self {
            index: HashTable::with_capacity(2 * capacity.min(SET_ASIDE)), // half full at most: it then cleans up in place
            nodes: Vec::with_capacity(capacity.min(SET_ASIDE)),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            capacity,
            hasher: random_hasher(),
        }
    }

    fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
    {
        let nodes = &self.nodes;
        let same = |&at: &u32| nodes[at as usize].entry.as_ref().is_some_and(|(k, _)| k.borrow() == key);
        self.index.find(self.hasher.hash_one(key), same).copied()
    }

    fn unlink(&mut self, at: u32) {
        let Node { older, newer, .. } = self.nodes[at as usize];
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, at: u32, now: u64) {
        let newest = self.newest;
        let node = &mut self.nodes[at as usize];
        (node.older, node.newer, node.used) = (newest, NONE, now);
        match self.nodes.get_mut(newest as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    /// Takes a linked node's entry out of list and index; the node itself becomes free.
    fn release(&mut self, at: u32) -> Option<(K, V)> {
        self.unlink(at);
        let (key, value) = self.nodes[at as usize].entry.take()?;
        if let Ok(found) = self.index.find_entry(self.hasher.hash_one(&key), |&i| i == at) {
            found.remove();
        }
        self.nodes[at as usize].newer = self.free;
        self.free = at;
        Some((key, value))
    }

    /// The value of `key`; its age does not change.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        self.nodes[at as usize].entry.as_ref().map(|(_, v)| v)
    }

    /// The value of `key`, to be changed; its age does not change.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        self.nodes[at as usize].entry.as_mut().map(|(_, v)| v)
    }

    /// The value of `key`, used `now`: it becomes the newest.
    pub fn touch<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, now: u64) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        if self.newest == at {
            self.nodes[at as usize].used = now;
        } else {
            self.unlink(at);
            self.link_newest(at, now);
        }
        self.nodes[at as usize].entry.as_mut().map(|(_, v)| v)
    }

    /// When `key` was inserted or last touched.
    pub fn last_used<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<u64>
    where
        K: Borrow<Q>,
    {
        self.find(key).map(|at| self.nodes[at as usize].used)
    }

    /// Allocates memory for up to `entries` entries; `false` if there is none.
    fn set_aside(&mut self, entries: usize) -> bool {
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        let hash = |&i: &u32| {
            nodes.get(i as usize).and_then(|n| n.entry.as_ref()).map_or(0, |(k, _)| hasher.hash_one(k))
        };
        self.index.try_reserve((2 * entries).saturating_sub(self.index.len()), hash).is_ok()
            && self.nodes.try_reserve_exact(entries.saturating_sub(self.nodes.len())).is_ok()
    }

    /// Whether there is memory for one more entry.
    fn has_room(&mut self) -> bool {
        if self.len() >= self.capacity {
            return false;
        }
        let full = self.free == NONE && self.nodes.len() == self.nodes.capacity();
        !full || self.set_aside((2 * self.nodes.len()).clamp(1, self.capacity))
    }

    /// Sets the value of `key`, used `now`, and returns the entry that it replaces.
    pub fn insert(&mut self, key: K, value: V, now: u64) -> Displaced<K, V> {
        if let Some(old) = self.touch(&key, now) {
            return Displaced::Replaced(std::mem::replace(old, value));
        }
        let displaced = if self.has_room() { None } else { self.pop_oldest() };
        let hash = self.hasher.hash_one(&key);
        let node = Node { entry: Some((key, value)), used: now, older: NONE, newer: NONE };
        let at = match self.nodes.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.newer;
                *free = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.link_newest(at, now);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.index.insert_unique(hash, at, |&i| {
            nodes[i as usize].entry.as_ref().map_or(0, |(k, _)| hasher.hash_one(k))
        });
        match displaced {
            Some((key, value)) => Displaced::Evicted(key, value),
            None => Displaced::Nothing,
        }
    }

    /// Removes `key`.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?;
        self.release(at).map(|(_, v)| v)
    }

    /// Removes the least recently used entry.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        if self.oldest == NONE { None } else { self.release(self.oldest) }
    }

    /// Removes the least recently used entry if its last use was before `time`. Repeated calls until `None`
    /// remove all expired entries.
    pub fn pop_older(&mut self, time: u64) -> Option<(K, V)> {
        let node = self.nodes.get(self.oldest as usize)?;
        if node.used < time { self.pop_oldest() } else { None }
    }

    /// Key, value, and time of last use, the longest unused first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V, u64)> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.newer;
            node.entry.as_ref().map(|(k, v)| (k, v, node.used))
        })
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.index.clear();
        self.nodes.clear();
        (self.free, self.oldest, self.newest) = (NONE, NONE, NONE);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// There are no entries.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Most entries that the table holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Changes the capacity (1 to 2^31). When there are more entries, [`pop_oldest`](Self::pop_oldest) until
    /// [`len`](Self::len) fits; otherwise the surplus entries stay until they expire.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.clamp(1, 1 << 31);
        // Without memory for it, the table keeps its size.
        self.set_aside(self.capacity.min(SET_ASIDE));
    }
}

impl<K: std::fmt::Debug + Hash + Eq, V: std::fmt::Debug> std::fmt::Debug for ExactMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter().map(|(k, v, _)| (k, v))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u8, u32),
        Touch(u8),
        Get(u8),
        Remove(u8),
        PopOlder(u64),
        PopOldest,
        Clear,
        Capacity(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0..12u8;
        prop_oneof![
            10 => (key.clone(), any::<u32>()).prop_map(|(k, v)| Op::Insert(k, v)),
            5 => key.clone().prop_map(Op::Touch),
            2 => key.clone().prop_map(Op::Get),
            4 => key.prop_map(Op::Remove),
            2 => (0..60u64).prop_map(Op::PopOlder),
            1 => Just(Op::PopOldest),
            1 => (1..10usize).prop_map(Op::Capacity),
            1 => Just(Op::Clear),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 512 }, failure_persistence: None, ..ProptestConfig::default()
        })]

        /// Against a list kept in order of use.
        #[test]
        fn same_as_a_list(capacity in 1usize..9, ops in prop::collection::vec(op(), 0..if cfg!(miri) { 20 } else { 80 })) {
            let mut map = ExactMap::new(capacity);
            let mut list: Vec<(u8, u32, u64)> = Vec::new();
            for (now, op) in ops.into_iter().enumerate() {
                let now = now as u64;
                match op {
                    Op::Insert(k, v) => {
                        let want = if let Some(at) = list.iter().position(|e| e.0 == k) {
                            Displaced::Replaced(list.remove(at).1)
                        } else if list.len() >= map.capacity() {
                            let (k, v, _) = list.remove(0);
                            Displaced::Evicted(k, v)
                        } else {
                            Displaced::Nothing
                        };
                        list.push((k, v, now));
                        prop_assert_eq!(map.insert(k, v, now), want);
                    }
                    Op::Touch(k) => {
                        let want = list.iter().position(|e| e.0 == k).map(|at| {
                            let (k, v, _) = list.remove(at);
                            list.push((k, v, now));
                            v
                        });
                        prop_assert_eq!(map.touch(&k, now).copied(), want);
                    }
                    Op::Get(k) => {
                        let found = list.iter().find(|e| e.0 == k);
                        prop_assert_eq!(map.get(&k).copied(), found.map(|e| e.1));
                        prop_assert_eq!(map.get_mut(&k).copied(), found.map(|e| e.1));
                        prop_assert_eq!(map.last_used(&k), found.map(|e| e.2));
                    }
                    Op::Remove(k) => {
                        let want = list.iter().position(|e| e.0 == k).map(|at| list.remove(at).1);
                        prop_assert_eq!(map.remove(&k), want);
                    }
                    Op::PopOlder(t) => {
                        let old = list.first().is_some_and(|e| e.2 < t);
                        let want = old.then(|| list.remove(0)).map(|e| (e.0, e.1));
                        prop_assert_eq!(map.pop_older(t), want);
                    }
                    Op::PopOldest => {
                        let want = (!list.is_empty()).then(|| list.remove(0)).map(|e| (e.0, e.1));
                        prop_assert_eq!(map.pop_oldest(), want);
                    }
                    Op::Clear => {
                        map.clear();
                        list.clear();
                    }
                    Op::Capacity(n) => {
                        map.set_capacity(n);
                        while map.len() > n {
                            map.pop_oldest();
                            list.remove(0);
                        }
                    }
                }
                let all: Vec<_> = map.iter().map(|(k, v, t)| (*k, *v, t)).collect();
                prop_assert_eq!(&all, &list);
                prop_assert_eq!(map.len(), list.len());
            }
        }
    }

    #[test]
    fn memory_stays_where_it_is() {
        let mut map = ExactMap::new(100);
        let before = (map.nodes.capacity(), map.index.allocation_size());
        for i in 0..if cfg!(miri) { 150 } else { 100_000u64 } {
            map.insert(i, (), i);
            if i % 3 == 0 {
                map.remove(&(i / 2));
            }
        }
        assert!(map.len() <= 100 && map.nodes.len() <= 100);
        assert_eq!((map.nodes.capacity(), map.index.allocation_size()), before);
    }

    #[test]
    fn a_large_table_takes_memory_as_it_fills() {
        let mut map = ExactMap::new(usize::MAX);
        assert_eq!((map.capacity(), map.nodes.capacity()), (1 << 31, SET_ASIDE));
        let n = if cfg!(miri) { 100 } else { 3 * SET_ASIDE as u64 };
        for i in 0..n {
            assert_eq!(map.insert(i, (), i), Displaced::Nothing);
        }
        assert!((0..n).all(|i| map.get(&i).is_some()));
        assert!(map.nodes.capacity() <= 4 * SET_ASIDE);
        map.set_capacity(1 << 31);
        assert!(map.nodes.capacity() <= 4 * SET_ASIDE);
        let mut small = ExactMap::new(2);
        small.set_capacity(1 << 20);
        let n = if cfg!(miri) { 30 } else { 1000 };
        (0..n).for_each(|i| assert_eq!(small.insert(i, (), i), Displaced::Nothing));
        assert_eq!(small.len(), n as usize);
    }
}
