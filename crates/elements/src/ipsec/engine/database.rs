//! The security associations of a router: found by workers without a lock, changed by handlers.

use super::association::Sa;
use super::spec::{Direction, Spec};
use dpdk::crypto::{Algorithm, CryptoDevice};
use dpdk::{Eal, EalOptions};
use locks::IgnorePoison;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The index that means: no association.
pub(crate) const NONE: u32 = u32::MAX;

/// A crypto device and a type of algorithm. Packets of the same lane can be given to the device together.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) device: Arc<CryptoDevice>,
    gcm: bool,
}

/// A hash table from SPIs to indexes, at most half full.
#[derive(Default)]
struct Spis(Vec<(u32, u32)>);

impl Spis {
    fn new<'a>(sas: impl Iterator<Item = (usize, &'a Arc<Sa>)>) -> Spis {
        let all: Vec<_> = sas.map(|(at, sa)| (sa.spi, at as u32)).collect();
        let mut table = vec![(0, NONE); (all.len() * 2).next_power_of_two().max(2)];
        let mask = table.len() - 1;
        for (spi, place) in all {
            let mut slot = Self::hash(spi) & mask;
            while table[slot].1 != NONE {
                slot = (slot + 1) & mask;
            }
            table[slot] = (spi, place);
        }
        Spis(table)
    }
    #[inline]
    fn hash(spi: u32) -> usize {
        (spi.wrapping_mul(0x9e37_79b1) >> 12) as usize
    }
    #[inline]
    fn find(&self, spi: u32) -> u32 {
        let mask = self.0.len().wrapping_sub(1);
        let mut slot = Self::hash(spi);
        // There are always free slots, so the loop ends.
        while let Some((known, place)) = self.0.get(slot & mask) {
            if *place == NONE || *known == spi {
                return *place;
            }
            slot += 1;
        }
        NONE
    }
}

/// All associations at one time. It is never modified, but replaced by a new one.
pub(crate) struct Index {
    pub(crate) sas: Vec<Arc<Sa>>,
    pub(crate) lanes: Vec<Lane>,
    /// Whether a device should get longer batches than those that arrive.
    pub(crate) gathers: bool,
    /// The lane of each association.
    lane_of: Vec<u32>,
    inbound: Spis,
    outbound: Spis,
    painted: Box<[u32; 256]>,
}

impl Index {
    fn new(sas: Vec<Arc<Sa>>) -> Index {
        let mut lanes: Vec<Lane> = Vec::new();
        let gathers = (sas.iter().filter_map(|sa| sa.sessions.first()))
            .any(|session| session.device().info().likes_long_batches(session.algorithm()));
        let lane_of = (sas.iter().filter_map(|sa| sa.sessions.first()))
            .map(|session| {
                let (device, gcm) = (session.device(), session.algorithm() == Algorithm::AesGcm);
                let known = lanes.iter().position(|l| l.gcm == gcm && Arc::ptr_eq(&l.device, device));
                known.unwrap_or_else(|| {
                    lanes.push(Lane { device: Arc::clone(device), gcm });
                    lanes.len() - 1
                }) as u32
            })
            .collect();
        let of =
            |direction: Direction| sas.iter().enumerate().filter(move |(_, sa)| sa.direction == direction);
        let mut painted = Box::new([NONE; 256]);
        for (at, sa) in of(Direction::Out) {
            if let Some(paint) = sa.paint {
                painted[usize::from(paint)] = at as u32;
            }
        }
        let (inbound, outbound) = (Spis::new(of(Direction::In)), Spis::new(of(Direction::Out)));
        Index { sas, lanes, gathers, lane_of, inbound, outbound, painted }
    }
    /// The index of the inbound association of this SPI, or [`NONE`].
    #[inline]
    pub(crate) fn inbound(&self, spi: u32) -> u32 {
        self.inbound.find(spi)
    }
    /// The index of the outbound association of this SPI, or [`NONE`].
    #[inline]
    pub(crate) fn outbound(&self, spi: u32) -> u32 {
        self.outbound.find(spi)
    }
    /// The index of the outbound association of this paint, or [`NONE`].
    #[inline]
    pub(crate) fn painted(&self, paint: u8) -> u32 {
        self.painted[usize::from(paint)]
    }
    /// The lane of the association with this index.
    #[inline]
    pub(crate) fn lane(&self, place: u32) -> u32 {
        self.lane_of.get(place as usize).copied().unwrap_or(NONE)
    }
    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&Arc<Sa>> {
        self.sas.get(place as usize)
    }
}

/// How crypto devices are chosen.
#[derive(Clone)]
struct CryptoChoice {
    /// `None`: the first one that supports the algorithm.
    device: Option<String>,
    workers: usize,
    capacity: usize,
    eal: EalOptions,
}

/// The associations; one thread at a time changes them.
pub(crate) struct Database {
    index: Mutex<Arc<Index>>,
    version: AtomicU64,
    /// The associations from files, until the devices can be opened.
    waiting: Mutex<Vec<Spec>>,
    crypto_choice: CryptoChoice,
}

/// A worker's view of a database, which is updated once for each batch. Between two batches it
/// holds nothing: removed keys are freed when the batches that use them are done, even if a worker then has
/// no work for a long time.
pub(crate) struct Reader {
    database: Arc<Database>,
    version: u64,
    index: Weak<Index>,
    gathers: bool,
}

impl Reader {
    pub(crate) fn new(database: Arc<Database>) -> Reader {
        let mut reader = Reader { database, version: 0, index: Weak::new(), gathers: false };
        reader.look();
        reader
    }
    /// Whether longer batches should be made than those that arrive, according to the last [`Reader::index`].
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        self.gathers
    }
    /// The current associations.
    #[inline]
    pub(crate) fn index(&mut self) -> Arc<Index> {
        if self.database.version.load(Ordering::Acquire) == self.version
            && let Some(index) = self.index.upgrade()
        {
            return index;
        }
        self.look()
    }
    #[cold]
    fn look(&mut self) -> Arc<Index> {
        let index = self.database.lock();
        self.version = self.database.version.load(Ordering::Acquire);
        self.index = Arc::downgrade(&index);
        self.gathers = index.gathers;
        Arc::clone(&index)
    }
}

impl Database {
    pub(crate) fn new(device: Option<String>, workers: usize, capacity: usize, eal: EalOptions) -> Database {
        Database {
            index: Mutex::new(Arc::new(Index::new(Vec::new()))),
            version: AtomicU64::new(0),
            waiting: Mutex::default(),
            crypto_choice: CryptoChoice { device, workers, capacity, eal },
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Index>> {
        self.index.lock().ignore_poison()
    }

    fn publish(&self, mut current: MutexGuard<'_, Arc<Index>>, index: Index) {
        let old = std::mem::replace(&mut *current, Arc::new(index));
        self.version.fetch_add(1, Ordering::Release);
        drop(current);
        // Keys are freed only when no worker uses their queue any more.
        drop(old);
    }

    /// Stores associations until [`Database::start`].
    pub(crate) fn later(&self, specs: Vec<Spec>) {
        *self.waiting.lock().ignore_poison() = specs;
    }

    /// Opens devices for the stored associations.
    pub(crate) fn start(&self) -> Result<(), String> {
        let waiting = std::mem::take(&mut *self.waiting.lock().ignore_poison());
        self.add(&waiting, false)
    }

    /// The fastest device that supports the association's algorithm.
    fn device(&self, spec: &Spec) -> Result<Arc<CryptoDevice>, String> {
        let names: Vec<&str> = match &self.crypto_choice.device {
            Some(name) => vec![name],
            None => spec.algorithm.drivers().to_vec(),
        };
        let queues = u16::try_from(self.crypto_choice.workers).map_err(|_| "too many workers")?;
        let mut problem = String::new();
        for name in names {
            // For both directions, and for the old and the new one while keys change.
            match CryptoDevice::open(name, queues, self.crypto_choice.capacity * 2) {
                Ok(device) if device.can(&spec.transform()) => {
                    if spec.esn && spec.algorithm != Algorithm::AesGcm && device.info().hardware {
                        // The tag overwrites bytes that have been authenticated.
                        return Err(format!("esn with {} needs a device in software", spec.algorithm.name()));
                    }
                    return Ok(device);
                }
                Ok(_) if problem.is_empty() => {
                    problem = format!(
                        "crypto device {name} cannot do {}: leave DEVICE out, or try {}",
                        spec.algorithm.name(),
                        spec.algorithm.drivers().join(", ")
                    );
                }
                Err(error) if problem.is_empty() => problem = error.to_string(),
                _ => {}
            }
        }
        Err(problem)
    }

    /// Adds all of these associations, or none if one cannot be added.
    pub(crate) fn add(&self, specs: &[Spec], by_handler: bool) -> Result<(), String> {
        if specs.is_empty() {
            return Ok(());
        }
        Eal::init(&self.crypto_choice.eal).map_err(|e| e.to_string())?;
        let current = self.lock();
        let mut sas = current.sas.clone();
        for spec in specs {
            let what = format!("security association {:#x}", spec.spi);
            if sas.iter().any(|sa| sa.spi == spec.spi && sa.direction == spec.direction) {
                return Err(format!("{what} is there already"));
            }
            if let Some(paint) = spec.paint
                && spec.direction == Direction::Out
                && sas.iter().any(|sa| sa.paint == Some(paint) && sa.direction == Direction::Out)
            {
                return Err(format!("{what}: another one has paint {paint}"));
            }
            if sas.len() >= self.crypto_choice.capacity {
                return Err(format!("{what}: CAPACITY is {}", self.crypto_choice.capacity));
            }
            let device = self.device(spec).map_err(|e| format!("{what}: {e}"))?;
            let sessions = (0..self.crypto_choice.workers)
                .map(|queue| device.session(queue, &spec.transform()))
                .collect::<Result<Vec<_>, _>>()
                .map_err(|e| format!("{what}: {e}"))?;
            sas.push(Arc::new(Sa::new(spec, sessions, by_handler)?));
        }
        self.publish(current, Index::new(sas));
        Ok(())
    }

    /// Removes the association of a direction.
    pub(crate) fn remove(&self, direction: Direction, spi: u32) -> Result<(), String> {
        let current = self.lock();
        let mut sas = current.sas.clone();
        let at = sas.iter().position(|sa| sa.spi == spi && sa.direction == direction);
        sas.remove(at.ok_or_else(|| format!("no security association {spi:#x}"))?);
        self.publish(current, Index::new(sas));
        Ok(())
    }

    /// Removes all associations.
    pub(crate) fn flush(&self) {
        self.publish(self.lock(), Index::new(Vec::new()));
    }

    /// Continues with the associations of the database that this one replaces: those with the same SPI and
    /// keys keep sequence numbers and windows, and those that handlers added stay unless there is another one
    /// with the same SPI.
    pub(crate) fn adopt(&self, old: &Database) {
        if std::ptr::eq(self, old) {
            return;
        }
        let theirs = Arc::clone(&old.lock());
        let current = self.lock();
        let mut sas = current.sas.clone();
        for sa in theirs.sas.iter().filter(|sa| sa.sessions.len() == self.crypto_choice.workers) {
            let known = sas.iter_mut().find(|new| new.spi == sa.spi && new.direction == sa.direction);
            match known {
                Some(new) if new.identity == sa.identity => {
                    let device = |sa: &Sa| sa.sessions.first().map(|s| Arc::as_ptr(s.device()));
                    *new = if device(new) == device(sa) && new.by_handler == sa.by_handler {
                        Arc::clone(sa)
                    } else {
                        // All workers are stopped, so none takes sequence numbers from the old association
                        // any more.
                        Arc::new(sa.on(Arc::clone(&new.sessions), new.by_handler))
                    };
                }
                // Written differently, but with the same keys. The workers are stopped here too.
                Some(new) if new.key_identity == sa.key_identity => *new = Arc::new(new.continuing(sa)),
                Some(_) => {}
                None if sa.by_handler => sas.push(Arc::clone(sa)),
                None => {}
            }
        }
        self.publish(current, Index::new(sas));
    }

    /// A line for each association.
    pub(crate) fn table(&self) -> String {
        let index = Arc::clone(&self.lock());
        index.sas.iter().map(|sa| sa.describe()).collect()
    }

    /// The number of associations.
    pub(crate) fn len(&self) -> usize {
        self.lock().sas.len()
    }

    /// A line for each device in use.
    pub(crate) fn devices(&self) -> String {
        let index = Arc::clone(&self.lock());
        let mut lines: Vec<String> = (index.lanes.iter())
            .map(|lane| {
                let info = lane.device.info();
                let how = if info.synchronous { "called directly" } else { "through queues" };
                format!("{} {}, {} queues, {how}\n", info.name, info.driver, lane.device.queues())
            })
            .collect();
        lines.dedup();
        lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_is_forgotten_by_idle_workers_too() {
        let database = Arc::new(Database::new(None, 2, 4, EalOptions::default()));
        let key = "aes-gcm 000102030405060708090a0b0c0d0e0f10111213";
        let [first, second] = [256, 257].map(|spi| {
            let spec =
                Spec::parse(&format!("in {spi} 1.0.0.1 1.0.0.2 {key}"), &lang::NameDb::default()).unwrap();
            Arc::new(Sa::new(&spec, Vec::new(), false).unwrap())
        });
        let gone = [&first, &second].map(Arc::downgrade);
        let alive = || gone.iter().map(Weak::strong_count).collect::<Vec<_>>();
        let (mut idle, mut busy) = (Reader::new(Arc::clone(&database)), Reader::new(Arc::clone(&database)));
        database.publish(database.lock(), Index::new(vec![first, second]));
        let busy_batch = busy.index();
        assert_eq!((idle.index().inbound(256), idle.index().inbound(257)), (0, 1));
        database.remove(Direction::In, 256).unwrap();
        assert!(alive()[0] > 0, "a batch is still at it");
        drop(busy_batch);
        assert_eq!(alive(), [0, 1]);
        assert_eq!((busy.index().inbound(256), busy.index().inbound(257)), (NONE, 0));
        database.flush();
        assert_eq!(alive(), [0, 0]);
        assert_eq!((idle.index().inbound(257), busy.index().sas.len()), (NONE, 0));
    }
}
