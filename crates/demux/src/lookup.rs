//! An exact-match table from numbers to numbers, made once and never changed.
//!
//! Open addressing with linear probing, at most a quarter full. The size and the multiplier of the hash are
//! chosen so that no key is further than [`PROBES`] slots from where its hash says: a lookup of anything,
//! whatever an attacker sends, ends after that many. A slot has 8 bytes, so that the slots of a thousand keys
//! fit the first-level cache.

/// The number of slots that a lookup looks at, at most.
const PROBES: usize = 8;
/// Multipliers that are tried before the table is made larger.
const TRIES: u64 = 16;
/// An odd number with an irregular pattern of bits: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// A free slot. No entry has both the largest key and the largest value.
const FREE: u64 = u64::MAX;

/// The table: values have `VALUE_BITS` bits, keys the others of 64.
#[derive(Debug)]
pub(crate) struct Lookup<const VALUE_BITS: u32> {
    /// Keys above values: a power of two of slots, then [`PROBES`] more for what finds no place before.
    slots: Box<[u64]>,
    multiplier: u64,
    shift: u32,
}

impl<const VALUE_BITS: u32> Lookup<VALUE_BITS> {
    /// A table of these entries, whose keys differ. Keys and values have the bits that they may have, and are
    /// not both the largest.
    pub(crate) fn new(entries: &[(u64, u32)]) -> Self {
        let mut bits = (4 * entries.len()).next_power_of_two().trailing_zeros().max(2);
        loop {
            let mut multiplier = MULTIPLIER;
            for _ in 0..TRIES {
                if let Some(table) = Self::with(entries, bits, multiplier) {
                    return table;
                }
                multiplier = multiplier.wrapping_mul(MULTIPLIER).wrapping_add(2) | 1;
            }
            bits += 1;
        }
    }

    /// The table of this size, if every entry has a place near enough.
    fn with(entries: &[(u64, u32)], bits: u32, multiplier: u64) -> Option<Self> {
        let slots = vec![FREE; (1 << bits) + PROBES].into_boxed_slice();
        let mut table = Self { slots, multiplier, shift: 64 - bits };
        for &(key, value) in entries {
            debug_assert!(key >> (64 - VALUE_BITS) == 0 && value >> VALUE_BITS == 0);
            let at = table.place(key);
            let free = table.slots.get_mut(at..at + PROBES)?.iter_mut().find(|slot| **slot == FREE)?;
            *free = key << VALUE_BITS | u64::from(value);
        }
        Some(table)
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        // The high bits of a product depend on all bits of the key; the fold gives the key's own high bits
        // the same weight.
        let mixed = (key ^ key >> 32).wrapping_mul(self.multiplier);
        (mixed >> self.shift) as usize
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let at = self.place(key);
        for &slot in self.slots.get(at..at + PROBES)? {
            if slot == FREE {
                return None;
            }
            if slot >> VALUE_BITS == key {
                return Some((slot & ((1 << VALUE_BITS) - 1)) as u32);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const VALUE_BITS: u32 = 17;

    #[test]
    fn an_empty_table_has_nothing() {
        let table = Lookup::<VALUE_BITS>::new(&[]);
        assert_eq!(
            (table.get(0), table.get(u64::MAX), table.get(u64::MAX >> VALUE_BITS)),
            (None, None, None)
        );
        assert!(table.slots.len() < 16);
    }

    #[test]
    fn regular_keys_need_no_more_room_than_random_ones() {
        for step in [1, 4096, 1 << 20, 1 << 32, 1 << 34, 0x0101_0101] {
            let entries: Vec<(u64, u32)> = (0..4096).map(|i| (u64::from(i) * step, i)).collect();
            let table = Lookup::<VALUE_BITS>::new(&entries);
            assert!(table.slots.len() <= (1 << 16) + PROBES, "step {step}: {}", table.slots.len());
            assert!(entries.iter().all(|&(key, value)| table.get(key) == Some(value)));
            assert_eq!(table.get(4096 * step), None);
        }
    }

    proptest! {
        #[test]
        fn finds_what_was_put_in_and_nothing_else(
            entries: BTreeMap<u64, u16>, near in 0u64..64, others: Vec<u64>
        ) {
            let mut entries: BTreeMap<u64, u32> =
                entries.into_iter().map(|(k, v)| (k >> VALUE_BITS, v.into())).collect();
            entries.extend((0..near).map(|k| (k, k as u32)));
            let list: Vec<(u64, u32)> = entries.iter().map(|(&k, &v)| (k, v)).collect();
            let table = Lookup::<VALUE_BITS>::new(&list);
            for key in entries.keys().copied().chain(others).chain(0..100) {
                prop_assert_eq!(table.get(key), entries.get(&key).copied());
            }
        }
    }
}
