//! Where the writer keeps rules: those with one mask while they are few, and the hash tables of the others.

use crate::bits::Few;
use crate::key::Key;
use crate::tuple::{Entry, Tuple};
use std::collections::HashMap;
use std::sync::Arc;

/// For so many entries there is room in a hash table at first.
const ROOM: usize = 64;

/// The rules with a mask, for the writer.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) store: u64,
    pub(crate) mask: Key,
    /// While they are few they are here, and in the bits of the store. So many are in use, and these places
    /// are used again.
    pub(crate) few: Vec<Option<Few>>,
    pub(crate) live: usize,
    pub(crate) free: Vec<u32>,
    /// They were too many: new ones go to hash tables, where these are.
    pub(crate) many: bool,
    pub(crate) hashed: usize,
}

/// A hash table, for the writer.
#[derive(Debug)]
pub(crate) struct Hash {
    pub(crate) store: u64,
    pub(crate) key: Key,
    pub(crate) tuple: Arc<Tuple>,
    pub(crate) masks: HashMap<Key, usize>,
    /// Entries that are used again, and the first that never was.
    pub(crate) free: Vec<u32>,
    pub(crate) fresh: u32,
    /// Entries that slots lead to, and slots that are not empty.
    pub(crate) linked: usize,
    taken: usize,
}

impl Own {
    pub(crate) fn new(store: u64, mask: &Key) -> Self {
        Self { store, mask: *mask, few: Vec::new(), live: 0, free: Vec::new(), many: false, hashed: 0 }
    }

    /// Keeps an entry. Returns its number.
    pub(crate) fn put(&mut self, entry: Entry) -> u32 {
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
    pub(crate) fn new(store: u64, key: &Key, mask: &Key, seed: u64) -> Self {
        let tuple = Arc::new(Tuple::new(key, mask, seed, ROOM));
        let masks = HashMap::new();
        Self { store, key: *key, tuple, masks, free: Vec::new(), fresh: 0, linked: 0, taken: 0 }
    }

    /// The entries that count, with their numbers and masks.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, Key, Entry)> {
        (0..self.fresh)
            .filter_map(|number| self.tuple.entry(number).map(|(mask, entry)| (number, mask, entry)))
    }

    /// Writes an entry with this mask. Returns its number, and whether the structure is no longer right.
    pub(crate) fn put(&mut self, mask: &Key, entry: &Entry) -> (u32, bool) {
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
