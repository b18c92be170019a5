//! An exact-match table from 64-bit keys to numbers, made once and never changed.
//!
//! Open addressing with linear probing, at most a quarter full. The size and the multiplier of the hash are
//! chosen so that no key is further than [`PROBES`] slots from where its hash says: a lookup of anything,
//! whatever an attacker sends, ends after that many.

/// The number of slots that a lookup looks at, at most.
const PROBES: usize = 8;
/// Multipliers that are tried before the table is made larger.
const TRIES: u64 = 16;
/// An odd number with an irregular pattern of bits: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The value of a free slot.
const FREE: u32 = u32::MAX;

/// The table.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// A power of two of slots, then [`PROBES`] more that are free or hold what did not fit before.
    slots: Box<[(u64, u32)]>,
    multiplier: u64,
    shift: u32,
}

impl Lookup {
    /// A table of these entries, whose keys differ and whose values are not `u32::MAX`.
    pub(crate) fn new(entries: &[(u64, u32)]) -> Lookup {
        let mut bits = (4 * entries.len()).next_power_of_two().trailing_zeros().max(2);
        loop {
            let mut multiplier = MULTIPLIER;
            for _ in 0..TRIES {
                if let Some(table) = Lookup::with(entries, bits, multiplier) {
                    return table;
                }
                multiplier = multiplier.wrapping_mul(MULTIPLIER).wrapping_add(2) | 1;
            }
            bits += 1;
        }
    }

    /// The table of this size, if every entry has a place near enough.
    fn with(entries: &[(u64, u32)], bits: u32, multiplier: u64) -> Option<Lookup> {
        let slots = vec![(0, FREE); (1 << bits) + PROBES].into_boxed_slice();
        let mut table = Lookup { slots, multiplier, shift: 64 - bits };
        for &(key, value) in entries {
            let at = table.place(key);
            *table.slots.get_mut(at..at + PROBES)?.iter_mut().find(|slot| slot.1 == FREE)? = (key, value);
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
        for &(k, value) in self.slots.get(at..at + PROBES)? {
            if value == FREE {
                return None;
            }
            if k == key {
                return Some(value);
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

    #[test]
    fn an_empty_table_has_nothing() {
        let table = Lookup::new(&[]);
        assert_eq!((table.get(0), table.get(u64::MAX)), (None, None));
        assert!(table.slots.len() < 16);
    }

    #[test]
    fn regular_keys_need_no_more_room_than_random_ones() {
        for step in [1, 4096, 1 << 20, 1 << 32, 1 << 48, 0x0101_0101] {
            let entries: Vec<(u64, u32)> = (0..4096).map(|i| (u64::from(i) * step, i)).collect();
            let table = Lookup::new(&entries);
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
            let mut entries: BTreeMap<u64, u32> = entries.into_iter().map(|(k, v)| (k, v.into())).collect();
            entries.extend((0..near).map(|k| (k, k as u32)));
            let list: Vec<(u64, u32)> = entries.iter().map(|(&k, &v)| (k, v)).collect();
            let table = Lookup::new(&list);
            for key in entries.keys().copied().chain(others).chain(0..100) {
                prop_assert_eq!(table.get(key), entries.get(&key).copied());
            }
        }
    }
}
