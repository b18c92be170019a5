//! A hash of 64-bit keys for tables with a million entries: two multiplications.

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
    /// After one multiplication, the lowest bits of keys in a row depend on few bits of the keys: one secret
    /// in a hundred leaves some of 256 places empty. After two, the places are as full as chance makes them,
    /// whatever the secrets.
    #[inline]
    pub(super) fn hash(&self, key: u64) -> u64 {
        let once = multiply_and_fold(key ^ self.secret, self.factor);
        multiply_and_fold(once, 0x9e37_79b9_7f4a_7c15)
    }
}

/// Both halves of the product, combined.
#[inline]
fn multiply_and_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that differ in few bits, as routes do, fill all places about equally.
    #[test]
    fn similar_keys_are_spread() {
        for shift in [0, 6, 14, 38].repeat(64) {
            let fold = Fold::default();
            let mut places = [0; 256];
            (0..1u64 << 16).for_each(|key| places[(fold.hash(key << shift) & 255) as usize] += 1);
            assert!(places.iter().all(|n| (128..512).contains(n)), "{shift} {places:?}");
        }
    }
}
