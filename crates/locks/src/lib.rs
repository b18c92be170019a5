//! Locks that stay usable after a thread has panicked while it held them.
//!
//! The standard library *poisons* a lock whose holder panics: every later attempt to take it returns an
//! error. In this project a worker that panics stops the router, and what happens then (counters that are
//! read, ports that are closed, a report that is written) must not fail a second time. The data that a lock
//! protects here is consistent at every step, or is not used any more when its holder has failed. This crate
//! depends on no other crate, and every crate may use it. There is no other file.
#![forbid(unsafe_code)]

use std::sync::{LockResult, PoisonError};

/// What a lock or a condition variable returns, whether or not a holder has panicked.
pub trait IgnorePoison {
    /// The guard, or the contents of the lock.
    type Guard;

    /// The guard, also if the lock is poisoned.
    fn ignore_poison(self) -> Self::Guard;
}

impl<T> IgnorePoison for LockResult<T> {
    type Guard = T;

    #[inline]
    fn ignore_poison(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    #[test]
    fn a_lock_goes_on_after_a_panic() {
        let lock = Mutex::new(1);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock.lock().ignore_poison();
            *guard = 2;
            panic!("the holder fails");
        }));
        assert!(failed.is_err() && lock.is_poisoned());
        assert_eq!(*lock.lock().ignore_poison(), 2);
        assert_eq!(lock.into_inner().ignore_poison(), 2);
    }
}
