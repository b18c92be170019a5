//! The claims on a port, shared by the one who changes them and those who look them up.
//!
//! A change makes a new copy of everything that is looked up and publishes it with a new generation number.
//! A reader compares that number once for each batch, and takes the new copy if it is another one: it waits
//! for nobody then, but for another reader or the writer that is at the pointer at the same moment. The
//! writer frees copies that no reader has any more; readers do not free any.

use crate::claims::{Change, Snapshot};
use crate::counts::{Counters, Counts};
use crate::tag::{Claim, Error};
use crate::tunnel::Tunnel;
use locks::IgnorePoison;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the table and its readers share.
#[derive(Debug)]
struct Shared {
    /// The generation of `newest`.
    generation: AtomicU64,
    newest: Mutex<Arc<Snapshot>>,
}

/// What the writer knows.
#[derive(Debug)]
struct Writer {
    claims: Change,
    /// Copies that readers may still have.
    retired: Vec<Arc<Snapshot>>,
    counters: Vec<Arc<Counters>>,
    /// What readers that are gone have counted.
    before: Counts,
}

/// Who has claimed which frames of one physical port. All methods can be called while readers split batches.
#[derive(Debug)]
pub struct Table {
    shared: Arc<Shared>,
    writer: Mutex<Writer>,
}

impl Default for Table {
    fn default() -> Table {
        Table::new()
    }
}

impl Table {
    /// A table without claims and without a default owner: every frame is nobody's.
    pub fn new() -> Table {
        let claims = Change::default();
        let nothing = claims.snapshot(0).expect("nothing is claimed, so nothing can be claimed twice");
        let shared = Shared { generation: AtomicU64::new(0), newest: Mutex::new(Arc::new(nothing)) };
        let writer = Writer { claims, retired: Vec::new(), counters: Vec::new(), before: Counts::default() };
        Table { shared: Arc::new(shared), writer: Mutex::new(writer) }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().ignore_poison()
    }

    /// Makes several changes at once: batches see all of them or none. After an error nothing is changed.
    pub fn change<T>(&self, f: impl FnOnce(&mut Change) -> Result<T, Error>) -> Result<T, Error> {
        let mut writer = self.writer();
        let mut claims = writer.claims.clone();
        let result = f(&mut claims)?;
        let generation = self.shared.generation.load(Acquire) + 1;
        let snapshot = Arc::new(claims.snapshot(generation)?);
        let old = {
            let mut newest = self.shared.newest.lock().ignore_poison();
            std::mem::replace(&mut *newest, snapshot)
        };
        self.shared.generation.store(generation, Release);
        writer.claims = claims;
        writer.retired.push(old);
        writer.free();
        Ok(result)
    }

    /// Gives an owner the frames of a claim. Whoever makes many claims makes them in one [`Table::change`].
    pub fn claim(&self, claim: Claim, owner: u32) -> Result<(), Error> {
        self.change(|change| change.claim(claim, owner))
    }

    /// Takes a claim away; returns whose it was.
    pub fn release(&self, claim: &Claim) -> Result<Option<u32>, Error> {
        self.change(|change| Ok(change.release(claim)))
    }

    /// Takes everything away from an owner; returns how many claims it had.
    pub fn release_owner(&self, owner: u32) -> Result<usize, Error> {
        self.change(|change| Ok(change.release_owner(owner)))
    }

    /// Says who gets what nobody claims; `None`: it is dropped.
    pub fn set_default(&self, owner: Option<u32>) -> Result<(), Error> {
        self.change(|change| {
            change.set_default(owner);
            Ok(())
        })
    }

    /// Says between which ends VXLAN datagrams are the port's.
    pub fn set_tunnel(&self, tunnel: Option<Tunnel>) -> Result<(), Error> {
        self.change(|change| {
            change.set_tunnel(tunnel);
            Ok(())
        })
    }

    /// The claims with their owners, in the order of tags.
    pub fn claims(&self) -> Vec<(Claim, u32)> {
        self.writer().claims.claims().map(|(claim, owner)| (*claim, owner)).collect()
    }

    /// Whether every reader uses the newest claims, so that a released owner gets nothing more, but for what
    /// has been split already.
    pub fn is_settled(&self) -> bool {
        let mut writer = self.writer();
        writer.free();
        writer.retired.is_empty()
    }

    /// What all readers have counted.
    pub fn counts(&self) -> Counts {
        let writer = self.writer();
        let mut counts = writer.before;
        writer.counters.iter().for_each(|counters| counts.add(counters.get()));
        counts
    }

    /// A reader, for one worker.
    pub fn reader(&self) -> Reader {
        let mut writer = self.writer();
        writer.forget_readers();
        let counters = Arc::new(Counters::default());
        writer.counters.push(counters.clone());
        let claims = self.shared.newest.lock().ignore_poison().clone();
        Reader { shared: self.shared.clone(), claims, counters }
    }
}

impl Writer {
    /// Frees the copies that no reader has.
    fn free(&mut self) {
        // Nobody gets a retired copy: a count of one stays one.
        self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// Keeps what readers that are gone have counted.
    fn forget_readers(&mut self) {
        let before = &mut self.before;
        self.counters.retain(|counters| {
            let there = Arc::strong_count(counters) > 1;
            if !there {
                before.add(counters.get());
            }
            there
        });
    }
}

/// What a worker looks frames up with.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    claims: Arc<Snapshot>,
    counters: Arc<Counters>,
}

impl Reader {
    /// Takes the newest claims. Splitting a batch does it first; a worker without batches does it now and
    /// then, so that the table is settled ([`Table::is_settled`]).
    #[inline]
    pub fn refresh(&mut self) {
        if self.shared.generation.load(Acquire) != self.claims.generation {
            self.take_newest();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_newest(&mut self) {
        self.claims = self.shared.newest.lock().ignore_poison().clone();
    }

    /// The one who gets all frames, since nobody claims any: then there is nothing to look up. As of the last
    /// [`Reader::refresh`].
    #[inline]
    pub fn whole(&self) -> Option<u32> {
        let place = self.claims.whole?;
        self.claims.owners.get(place as usize).copied()
    }

    #[inline(always)]
    pub(crate) fn claims(&self) -> &Snapshot {
        &self.claims
    }

    #[cold]
    pub(crate) fn count(&self, counts: Counts) {
        self.counters.add(counts);
    }

    /// What this reader has counted.
    pub fn counts(&self) -> Counts {
        self.counters.get()
    }
}
