//! The one door to atomics and locks: under `--cfg loom` they are loom's, which explores every interleaving.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, fence},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, fence},
};

/// Locks, also after a panic of another holder: the tables keep their invariants at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Keeps what one thread writes off the cache lines that another one uses (two lines: the adjacent-line prefetcher).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
