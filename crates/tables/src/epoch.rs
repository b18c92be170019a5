//! Grace periods: when memory that readers may still use can be reused.
//!
//! Each reader has a slot of its own. It enters by writing the current epoch there and leaves by writing
//! `IDLE`. The writer unlinks something, stamps it with the epoch, which it then advances, and uses the thing
//! again once no slot holds that epoch or an older one.
//!
//! Why this is right: `enter` and `oldest` are Dekker's pair, a store, a full fence, and a load of what the
//! other side stores. If `oldest` does not see a reader's slot taken, that reader's fence comes after the
//! writer's, so everything it reads after entering already shows the unlinking. If it does see the slot with
//! a younger epoch, the reader loaded that epoch (acquire) after the writer advanced it (release), with the
//! unlinking before. A slot seen idle after use was released by the reader after its last read.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{Arc, AtomicU64, Mutex, Padded, fence, lock};

const IDLE: u64 = u64::MAX;

type Slot = Arc<Padded<AtomicU64>>;

/// The writer's side: the epoch and every reader's slot.
#[derive(Debug)]
pub struct Epochs {
    now: AtomicU64,
    slots: Mutex<Vec<Slot>>,
}

/// A reader's side; used by one thread at a time.
#[derive(Debug)]
pub struct EpochReader {
    slot: Slot,
}

/// While this exists, nothing that was stamped after it was made is reused.
#[derive(Debug)]
pub struct Entered<'a>(&'a AtomicU64);

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(IDLE, Release);
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl Epochs {
    /// No readers yet.
    pub fn new() -> Self {
        Self { now: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }

    /// A slot for one more reader.
    pub fn register(&self) -> EpochReader {
        let slot: Slot = Arc::new(Padded(AtomicU64::new(IDLE)));
        let mut slots = lock(&self.slots);
        slots.retain(|s| Arc::strong_count(s) > 1); // a dropped reader left its slot to us alone
        slots.push(slot.clone());
        EpochReader { slot }
    }

    /// Whether there is a reader, or may be.
    pub fn has_readers(&self) -> bool {
        let any = lock(&self.slots).iter().any(|slot| Arc::strong_count(slot) > 1);
        // Whatever a dropped reader read, it read before that.
        fence(Acquire);
        any
    }

    /// The stamp for what was unlinked before this call. One writer at a time.
    pub fn stamp(&self) -> u64 {
        let stamp = self.now.load(Relaxed);
        self.now.store(stamp + 1, Release);
        stamp
    }

    /// No reader can reach anything with a stamp below this one.
    pub fn oldest(&self) -> u64 {
        let now = self.now.load(Relaxed);
        fence(SeqCst);
        lock(&self.slots).iter().map(|s| s.0.load(Acquire)).fold(now, u64::min)
    }
}

impl EpochReader {
    /// Begins a read. The reader must load links again that it has loaded before.
    #[inline(always)]
    pub fn enter(&self, epochs: &Epochs) -> Entered<'_> {
        self.slot.0.store(epochs.now.load(Acquire), Relaxed);
        fence(SeqCst);
        Entered(&self.slot.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_hold_back() {
        let e = Epochs::new();
        let (a, b) = (e.register(), e.register());
        assert_eq!(e.stamp(), 0);
        assert_eq!(e.oldest(), 1);
        let in_a = a.enter(&e);
        let old = e.stamp();
        let in_b = b.enter(&e);
        assert!(e.oldest() <= old);
        drop(in_a);
        assert!(e.oldest() > old); // b entered later
        let newer = e.stamp();
        assert!(e.oldest() <= newer);
        drop(in_b);
        assert!(e.oldest() > newer);
        drop(b);
        let _c = e.register();
        assert_eq!(lock(&e.slots).len(), 2);
    }
}
