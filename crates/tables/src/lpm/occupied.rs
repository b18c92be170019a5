//! Which parts of the address space have routes, while few have: most addresses that a small table looks up
//! have only the default route, and for them the table's pages need not be touched. (The table is spread over
//! as many pages as a large one, so that each such look-up would cost a miss in the TLB.)

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::prefix::Prefix;

/// A part is the addresses with the same upper bits, so many.
const PART_BITS: u32 = 12;
const PARTS: usize = 1 << PART_BITS;
/// With more parts than this, looking here costs more than it saves.
const FEW: u32 = 1024;

/// The parts that have, or had, routes other than the default route. One thread at a time changes it.
pub(super) struct Occupied {
    parts: [AtomicU64; PARTS / 64],
    count: AtomicU32,
    many: AtomicBool,
}

impl Default for Occupied {
    fn default() -> Self {
        Self {
            parts: [const { AtomicU64::new(0) }; PARTS / 64],
            count: AtomicU32::new(0),
            many: AtomicBool::new(false),
        }
    }
}

impl Occupied {
    /// Whether so few parts have routes that it is worth asking [`Occupied::has`].
    #[inline(always)]
    pub(super) fn are_few(&self) -> bool {
        !self.many.load(Relaxed)
    }

    /// Whether the part of an address may have routes other than the default route.
    #[inline(always)]
    pub(super) fn has(&self, addr: u32) -> bool {
        let part = (addr >> (32 - PART_BITS)) as usize;
        self.parts[part / 64].load(Relaxed) >> (part % 64) & 1 != 0
    }

    /// A route of at least one bit is about to be written into the table.
    #[inline]
    pub(super) fn add(&self, prefix: Prefix) {
        if !self.are_few() {
            return;
        }
        let [first, last] = [prefix.first(), prefix.last()].map(|addr| (addr >> (32 - PART_BITS)) as usize);
        let mut count = self.count.load(Relaxed);
        for part in first..=last {
            let (word, bit) = (&self.parts[part / 64], 1 << (part % 64));
            let before = word.load(Relaxed);
            if before & bit == 0 {
                word.store(before | bit, Relaxed);
                count += 1;
            }
        }
        self.count.store(count, Relaxed);
        if count > FEW {
            self.many.store(true, Relaxed);
        }
    }

    /// The table has no routes any more.
    pub(super) fn clear(&self) {
        self.parts.iter().for_each(|word| word.store(0, Relaxed));
        self.count.store(0, Relaxed);
        self.many.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lpm, NO_ROUTE};

    #[test]
    fn parts_with_routes_are_known_until_they_are_many() {
        let occupied = Occupied::default();
        occupied.add("10.1.2.0/24".parse().unwrap());
        occupied.add("10.1.3.4/32".parse().unwrap());
        occupied.add("32.0.0.0/8".parse().unwrap());
        assert_eq!(occupied.count.load(Relaxed), 1 + 16);
        assert!(occupied.has(0x0a0f_ffff) && occupied.has(0x20ff_ffff));
        assert!(!occupied.has(0x0a10_0000) && !occupied.has(0x2100_0000));
        occupied.add("224.0.0.0/3".parse().unwrap());
        assert!(occupied.are_few(), "{}", occupied.count.load(Relaxed));
        occupied.add("128.0.0.0/2".parse().unwrap());
        assert!(!occupied.are_few());
        occupied.clear();
        assert!(occupied.are_few() && !occupied.has(0x0a01_0200));
    }

    #[test]
    #[cfg_attr(miri, ignore = "more than a thousand routes take Miri minutes")]
    fn a_table_answers_the_same_with_few_parts_and_with_many() {
        let table = Lpm::new().unwrap();
        let reader = table.reader();
        let addrs: Vec<u32> = (0..128u32).map(|i| i << 25 | 0x0001_0203).chain([0x0a01_0203]).collect();
        let look_up = || {
            let mut hops = vec![7; addrs.len()];
            reader.lookup_many(&addrs, &mut hops);
            hops
        };
        assert!(look_up().iter().all(|hop| *hop == NO_ROUTE));
        table.insert("10.0.0.0/10".parse().unwrap(), 3).unwrap();
        table.insert("0.0.0.0/0".parse().unwrap(), 1).unwrap();
        let few = look_up();
        assert_eq!(few.iter().filter(|hop| **hop == 3).count(), 2);
        // Routes that none of the addresses matches, in parts that are many.
        for part in (0..4096u32).filter(|part| part % 32 != 0).take(FEW as usize + 1) {
            table.insert(crate::Prefix::new(part << 20, 12).unwrap(), 9).unwrap();
        }
        assert!(!table.shared.occupied.are_few());
        assert_eq!(look_up(), few);
        table.clear();
        assert!(table.shared.occupied.are_few());
        assert!(look_up().iter().all(|hop| *hop == NO_ROUTE));
    }
}
