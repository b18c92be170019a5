//! Locks that stay usable after a thread has panicked while it held them; and how long threads have waited
//! for locks.
//!
//! The standard library *poisons* a lock whose holder panics: every later attempt to take it returns an
//! error. In this project a worker that panics stops the router, and what happens then (counters that are
//! read, ports that are closed, a report that is written) must not fail a second time. The data that a lock
//! protects here is consistent at every step, or is not used any more when its holder has failed. This crate
//! depends on no other crate, and every crate may use it. There is no other file.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LockResult, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

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

/// What a thread has waited for.
#[derive(Debug)]
struct Account {
    thread: ThreadId,
    times: AtomicU64,
    waited_ns: AtomicU64,
}

/// Those of all threads that have waited.
static ACCOUNTS: Mutex<Vec<Weak<Account>>> = Mutex::new(Vec::new());

thread_local! {
    static MINE: RefCell<Option<Arc<Account>>> = const { RefCell::new(None) };
}

/// Takes a lock of the data path. If another thread has it, the time until it is free is counted for the
/// calling thread: see [`waited`].
#[inline]
pub fn lock_counted<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(e)) => e.into_inner(),
        Err(TryLockError::WouldBlock) => wait(mutex),
    }
}

#[cold]
fn wait<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let began = Instant::now();
    let guard = mutex.lock().ignore_poison();
    let ns = began.elapsed().as_nanos() as u64;
    // A thread that ends has no account any more.
    let _ = MINE.try_with(|mine| {
        let mut mine = mine.borrow_mut();
        let account = mine.get_or_insert_with(open_account);
        // Only this thread adds.
        account.times.store(account.times.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        account.waited_ns.store(account.waited_ns.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
    });
    guard
}

fn open_account() -> Arc<Account> {
    let thread = std::thread::current().id();
    let account = Arc::new(Account { thread, times: AtomicU64::new(0), waited_ns: AtomicU64::new(0) });
    let mut all = ACCOUNTS.lock().ignore_poison();
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&account));
    account
}

/// How often, and how long in all, a running thread has waited for locks that it takes by [`lock_counted`].
#[must_use]
pub fn waited(thread: ThreadId) -> (u64, Duration) {
    let all = ACCOUNTS.lock().ignore_poison();
    let its = all.iter().filter_map(Weak::upgrade).find(|account| account.thread == thread);
    its.map_or((0, Duration::ZERO), |account| {
        let ns = account.waited_ns.load(Ordering::Relaxed);
        (account.times.load(Ordering::Relaxed), Duration::from_nanos(ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn only_a_thread_that_waits_is_charged() {
        let lock = Mutex::new(0);
        *lock_counted(&lock) += 1;
        assert_eq!(waited(std::thread::current().id()), (0, Duration::ZERO));
        // The other thread may come when the lock is free again: then it tries once more.
        let mut hold = Duration::from_millis(1);
        let (times, long) = loop {
            let held = lock_counted(&lock);
            let attempt = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    *lock_counted(&lock) += 1;
                    waited(std::thread::current().id())
                });
                std::thread::sleep(hold);
                drop(held);
                other.join().unwrap()
            });
            if attempt.0 > 0 {
                break attempt;
            }
            hold *= 2;
        };
        assert!(times == 1 && long > Duration::ZERO);
        assert_eq!(waited(std::thread::current().id()).0, 0);
    }

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
