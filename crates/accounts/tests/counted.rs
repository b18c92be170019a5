//! Accounts with the allocator that counts.

use accounts::{Account, Allocator, Exceeded, Mapped, inherit};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static MEMORY: Allocator = Allocator;

const MB: usize = 1 << 20;
/// The accounts are few enough for one test to use them all up.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_is_allocated_while_it_is_entered_is_in_the_account() {
    let _alone = alone();
    let (one, two) = (Account::open(None), Account::open(None));
    let mut of_one = {
        let _in = one.entry().enter();
        vec![1u8; MB]
    };
    let of_nobody = vec![1u8; MB];
    assert_eq!((one.used(), two.used()), (Some(MB as u64), Some(0)));
    {
        let _in = one.entry().enter();
        of_one.reserve_exact(MB);
        let zeroed = {
            let _inner = two.entry().enter();
            vec![0u8; 3 * MB]
        };
        assert_eq!((one.used(), two.used()), (Some(2 * MB as u64), Some(3 * MB as u64)));
        let _inner = two.entry().enter();
        drop(zeroed);
    }
    assert_eq!(two.used(), Some(0));
    let entry = one.entry();
    // Freed by another thread that works for the same one.
    std::thread::spawn(move || {
        let _in = entry.enter();
        assert_eq!(inherit(), entry);
        drop(of_one);
    })
    .join()
    .unwrap();
    assert_eq!(one.used(), Some(0));
    drop(of_nobody);
    assert_eq!(one.used(), Some(0));
}

#[test]
fn who_has_more_than_it_may_have_is_found_and_mapped_memory_is_refused() {
    let _alone = alone();
    let account = Account::open(Some(2 * MB as u64));
    let _in = account.entry().enter();
    let held = vec![1u8; MB];
    assert_eq!(account.entry().exceeded(), None);
    let mapped = Mapped::new();
    assert!(mapped.counts() && mapped.grow(MB / 2) && !mapped.grow(MB) && mapped.grow(MB / 2));
    assert_eq!(account.used(), Some(2 * MB as u64));
    let more = vec![1u8; 1000];
    let exceeded = Exceeded { used: 2 * MB as u64 + 1000, most: 2 * MB as u64 };
    assert_eq!(account.entry().exceeded(), Some(exceeded));
    drop(more);
    let entry = account.entry();
    assert!(entry.would_exceed(0).is_none() && entry.would_exceed(1000) == Some(exceeded));
    assert_eq!(exceeded.to_string(), "the limit memory is 2.1 MB, and 2.1 MB are needed");
    account.set_most(None);
    assert_eq!(account.entry().exceeded(), None);
    // Whoever drops it.
    std::thread::spawn(move || drop(mapped)).join().unwrap();
    drop(held);
    assert!(account.used() < Some(1000), "{:?}", account.used());
}

#[test]
fn what_is_built_and_taken_back_is_not_held_against_others_of_the_account() {
    let _alone = alone();
    let account = Account::open(Some(MB as u64));
    let entry = account.entry();
    let beside = || std::thread::spawn(move || (entry.exceeded(), entry.overdrawn())).join().unwrap();
    let _in = entry.enter();
    let building = entry.build();
    let too_much = vec![1u8; 2 * MB];
    assert!(entry.exceeded().is_some() && entry.overdrawn() == entry.exceeded());
    let (exceeded, overdrawn) = beside();
    assert!(exceeded.is_some() && overdrawn.is_none());
    drop(building);
    assert!(beside().1.is_some() && entry.overdrawn().is_some());
    drop(too_much);
    assert_eq!((beside().1, entry.overdrawn()), (None, None));
}

#[test]
fn a_number_is_used_again_late_and_begins_with_nothing() {
    let _alone = alone();
    let first = Account::open(Some(1));
    let entry = first.entry();
    drop(first);
    let _left_over = {
        let _in = entry.enter();
        vec![0u8; MB]
    };
    // Whoever has it next, and nobody was told of what a thread has done meanwhile.
    let others: Vec<_> = (0..5000).map(|_| Account::open(Some(7))).collect();
    assert!(others[0].entry() != entry && others.iter().all(|one| one.used().is_none_or(|used| used == 0)));
    // More than there can be: they have none, and no limit.
    let last = others.last().unwrap();
    assert_eq!((last.used(), last.entry().exceeded()), (None, None));
}
