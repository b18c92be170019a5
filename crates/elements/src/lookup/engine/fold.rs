//! A hash of 64-bit keys for tables with a million entries: one multiplication.

use std::hash::{BuildHasher, RandomState};

/// Two secret numbers, other ones for each table, so that nobody can choose routes whose hashes are equal.
pub(super) struct Fold {
    secret: u64,
    factor: u64,
}

impl Default for Fold {
    fn default() -> Self {
        let system = RandomState::new();
        Self { secret: system.hash_one(0), factor: system.hash_one(1) | 1 }
    }
}

impl Fold {
    #[inline]
    pub(super) fn hash(&self, key: u64) -> u64 {
        let product = u128::from(key ^ self.secret) * u128::from(self.factor);
        let hash = product as u64 ^ (product >> 64) as u64;
        // The lowest bits of both halves depend on few bits of keys that are numbers in a row.
        hash ^ hash >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that differ in few bits, as routes do, fill all places about equally.
    #[test]
    fn similar_keys_are_spread() {
        for shift in [0, 6, 14, 38].repeat(16) {
            let fold = Fold::default();
            let mut places = [0; 256];
            (0..1u64 << 16).for_each(|key| places[(fold.hash(key << shift) & 255) as usize] += 1);
            assert!(places.iter().all(|n| (64..1024).contains(n)), "{shift} {places:?}");
        }
    }
}
