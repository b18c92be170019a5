//! Whose memory it is, where many virtual routers share a process: an account for each of them.
//!
//! While an account is *entered* on a thread, what the thread allocates is added to it, and what it frees is
//! taken away again, if the program's allocator is [`Allocator`]; memory that is mapped is held in a
//! [`Mapped`]. So all that works for one router does so with its account entered: its building, its turns,
//! its handlers, the dropping of its elements, and each thread that it starts ([`inherit`]). Nothing is
//! written beside an allocation, and without an account an allocation costs a load and a branch more.
//!
//! A value that is allocated with an account entered and freed without (or the other way around) shifts the
//! account by its size. What passes between routers and the rest of the process is therefore small and rare
//! (an error message of a program that the administrator applies), and an account ends with its router.
//!
//! A limit is not enforced by the allocator, which may neither panic nor return nothing without ending the
//! process: who does work for a router asks between two steps whether it is [`exceeded`](Entry::exceeded).
//! This crate depends on no other crate, and every crate may use it. `unsafe` is in `allocator` alone.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "an allocator that passes everything on to the system's")]
mod allocator;

pub use allocator::Allocator;

use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

/// The accounts that there can be at a time, and nobody's.
const ACCOUNTS: usize = 4096;

/// How many accounts there can be at a time: see [`Account::used`].
pub const MOST_ACCOUNTS: usize = ACCOUNTS - 1;

/// The balance of an account.
#[repr(align(64))]
struct Balance {
    /// Bytes. Memory may be freed before what was allocated for it elsewhere is known: for a moment it may be
    /// negative.
    used: AtomicI64,
    /// [`u64::MAX`]: any number.
    most: AtomicU64,
    /// How many threads build something for it that may turn out to be too much.
    building: AtomicU32,
    taken: AtomicBool,
}

/// The first is nobody's: no account is entered.
static BALANCES: [Balance; ACCOUNTS] = [const {
    Balance {
        used: AtomicI64::new(0),
        most: AtomicU64::new(u64::MAX),
        building: AtomicU32::new(0),
        taken: AtomicBool::new(false),
    }
}; ACCOUNTS];

/// Where the search for a free one begins: a number is used again as late as possible, since a thread of the
/// router that had it may still be about to end.
static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// The account that is entered. Without a destructor, so that it can be read whenever memory is freed.
    static CURRENT: Cell<u16> = const { Cell::new(0) };
    /// The account for which this thread builds something ([`Entry::build`]).
    static BUILDS: Cell<u16> = const { Cell::new(0) };
}

/// Bytes are allocated, or freed (negative), on this thread.
#[inline]
fn count(bytes: i64) {
    let number = CURRENT.get();
    if number != 0 {
        add(number, bytes);
    }
}

fn add(number: u16, bytes: i64) {
    if let Some(balance) = BALANCES.get(usize::from(number)) {
        balance.used.fetch_add(bytes, Relaxed);
    }
}

/// More memory is in use than the account may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// Bytes in use, or that would be.
    pub used: u64,
    /// The most that it may have.
    pub most: u64,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        write!(
            f,
            "the limit memory is {:.1} MB, and {:.1} MB are needed",
            megabytes(self.most),
            megabytes(self.used)
        )
    }
}

/// An account; it ends when this is dropped.
#[derive(Debug)]
pub struct Account(Entry);

impl Account {
    /// A new one, with nothing in use.
    #[must_use]
    pub fn open(most: Option<u64>) -> Self {
        let first = NEXT.load(Relaxed) as usize;
        let free = (0..ACCOUNTS)
            .map(|ahead| (first + ahead) % ACCOUNTS)
            .find(|&number| number != 0 && !BALANCES[number].taken.swap(true, AcqRel));
        let number = free.unwrap_or_default();
        NEXT.store(((number + 1) % ACCOUNTS) as u32, Relaxed);
        let this = Self(Entry(number as u16));
        if number != 0 {
            BALANCES[number].used.store(0, Relaxed);
        }
        this.set_most(most);
        this
    }

    /// The most that it may have from here on; none: any number of bytes.
    pub fn set_most(&self, most: Option<u64>) {
        if self.0.0 != 0 {
            self.0.balance().most.store(most.unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// What it is entered by.
    #[must_use]
    pub fn entry(&self) -> Entry {
        self.0
    }

    /// Bytes in use; `None`: there are too many accounts for it to be one.
    #[must_use]
    pub fn used(&self) -> Option<u64> {
        (self.0.0 != 0).then(|| self.0.used())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.0.0 != 0 {
            self.set_most(None);
            self.0.balance().taken.store(false, std::sync::atomic::Ordering::Release);
        }
    }
}

/// What an account is entered by, on any thread; it may outlive it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(u16);

/// The account that is entered on this thread, for a thread that works for the same router.
#[must_use]
pub fn inherit() -> Entry {
    Entry(CURRENT.get())
}

/// No account: for what a router's work leaves in the process's own data, whoever frees it.
#[must_use]
pub fn nobody() -> Entry {
    Entry(0)
}

impl Entry {
    fn balance(self) -> &'static Balance {
        &BALANCES[usize::from(self.0) % ACCOUNTS]
    }

    fn used(self) -> u64 {
        self.balance().used.load(Relaxed).try_into().unwrap_or_default()
    }

    /// Whether so many bytes more would be more than it may have: then how many there would be.
    #[must_use]
    pub fn would_exceed(self, bytes: usize) -> Option<Exceeded> {
        let most = self.balance().most.load(Relaxed);
        let used = self.used().saturating_add(bytes as u64);
        (most != u64::MAX && used > most).then_some(Exceeded { used, most })
    }

    /// Enters the account on this thread, until the returned value is dropped.
    #[inline]
    #[must_use]
    pub fn enter(self) -> Entered {
        Entered { before: CURRENT.replace(self.0), _one_thread: std::marker::PhantomData }
    }

    /// Whether more is in use than it may have.
    #[inline]
    #[must_use]
    pub fn exceeded(self) -> Option<Exceeded> {
        self.would_exceed(0)
    }

    /// The same for those that go on beside a thread that [builds](Entry::build): as long as it does, what is
    /// too much may be its, and is refused there.
    #[inline]
    #[must_use]
    pub fn overdrawn(self) -> Option<Exceeded> {
        let others_build = || self.balance().building.load(Acquire) > 0 && BUILDS.get() != self.0;
        self.exceeded().filter(|_| !others_build())
    }

    /// This thread builds something in place of what there is, and takes it back if it is too much, until the
    /// returned value is dropped.
    #[must_use]
    pub fn build(self) -> Building {
        self.balance().building.fetch_add(1, AcqRel);
        Building { of: self, before: BUILDS.replace(self.0), _one_thread: std::marker::PhantomData }
    }
}

/// As long as it is there, this thread builds something for an account.
#[derive(Debug)]
pub struct Building {
    of: Entry,
    before: u16,
    _one_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Building {
    fn drop(&mut self) {
        BUILDS.set(self.before);
        self.of.balance().building.fetch_sub(1, AcqRel);
    }
}

/// As long as it is there, an account is entered on this thread.
#[derive(Debug)]
pub struct Entered {
    before: u16,
    _one_thread: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Memory that comes from the system, not from the allocator: part of the account in which it was made,
/// wherever it is dropped.
#[derive(Debug)]
pub struct Mapped {
    of: Entry,
    bytes: AtomicUsize,
}

impl Mapped {
    /// No bytes so far, of the account that is entered.
    #[must_use]
    pub fn new() -> Self {
        Self { of: inherit(), bytes: AtomicUsize::new(0) }
    }

    /// Whether it is part of an account.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.of.0 != 0
    }

    /// There are so many bytes more; `false`, and nothing has changed: the account may not have so many.
    #[must_use]
    pub fn grow(&self, more: usize) -> bool {
        if self.of.0 == 0 {
            return true;
        }
        if self.of.would_exceed(more).is_some() {
            return false;
        }
        add(self.of.0, more as i64);
        self.bytes.fetch_add(more, Relaxed);
        true
    }
}

impl Default for Mapped {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        add(self.of.0, -(self.bytes.load(Relaxed) as i64));
    }
}
