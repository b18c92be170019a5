//! The atomics and locks that the ring and grace periods use: under `--cfg loom` they are
//! loom's, which explores every interleaving.

use locks::IgnorePoison;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, fence},
    },
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, AtomicUsize, fence},
};

/// `std`'s cell with the interface of loom's, which notices when two threads are inside at once.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Locks, also after a panic of another holder: the data that the locks protect is consistent at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> + '_ {
    mutex.lock().ignore_poison()
}

/// Keeps what one thread writes off the cache lines that another one uses (two lines: the adjacent-line
/// prefetcher).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
