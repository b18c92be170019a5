//! Random numbers that key a hash, so that nobody outside can choose keys that collide.

use std::hash::BuildHasher;
use std::hash::RandomState;

/// `N` numbers from the operating system's random ones.
pub(crate) fn seeds<const N: usize>() -> [u64; N] {
    // The standard library's own state is seeded by the system; what it makes of N numbers are N seeds.
    let system = RandomState::new();
    std::array::from_fn(|n| system.hash_one(n))
}
