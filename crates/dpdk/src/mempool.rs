//! Pools of mbufs: one or more per NUMA node and buffer size, made when queues need them and kept as long as
//! the process.

use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use dpdk_sys::{rte_mbuf, rte_mempool};
use locks::IgnorePoison;

use crate::buffer::{MAX_BUFFER, PAGE_BUFFER, PRIVATE_SIZE, SPARE, STANDARD_BUFFER};
use crate::eal::{Eal, hugepage_fix};
use crate::error::{Error, errno_text};
use crate::fault::Fault;
use crate::log::Mark;

/// The number of buffers that a registered thread keeps in its cache.
const CACHE: usize = 256;
/// The same where a worker takes more than half of that before it gives any back: what it takes and gives
/// back then still fits between an empty cache and the one and a half times its size at which DPDK empties
/// it. Beyond, buffers pass through the pool's ring, and come back last, when no cache of the processor
/// holds them any more. The most that DPDK allows.
const LARGE_CACHE: usize = 512;
/// The number of buffers in the smallest pool.
const SMALLEST: usize = 4096;
/// [`SPARE`] is less if buffers are large, but never less than this.
const SPARE_MIN: usize = 1024;

fn spare(buffer_len: usize) -> usize {
    (SPARE * STANDARD_BUFFER / buffer_len).clamp(SPARE_MIN, SPARE)
}

/// A pool of mbufs, which lives as long as the process: packets may outlive everything else that knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mempool {
    pool: NonNull<rte_mempool>,
    buffer_len: usize,
    capacity: usize,
}

// SAFETY: a pool's operations are safe from any thread (DPDK's default pools are multi-producer and
// multi-consumer), and it is never freed.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut rte_mempool {
        self.pool.as_ptr()
    }

    /// An mbuf without data that has no other owner; `None`: none is left.
    #[inline]
    pub(crate) fn alloc(&self) -> Option<NonNull<rte_mbuf>> {
        if Fault::Buffer.strikes() {
            return None;
        }
        // SAFETY: there is a pool, and it is never freed.
        NonNull::new(unsafe { dpdk_sys::valiant_alloc(self.as_ptr()) })
    }

    /// Writes `n` such mbufs to `to`; false, and nothing written, if there are not as many.
    ///
    /// # Safety
    /// There is room for `n`.
    #[inline]
    pub(crate) unsafe fn alloc_bulk(&self, to: *mut *mut rte_mbuf, n: u32) -> bool {
        // SAFETY: there is a pool, and it is never freed; there is room.
        !Fault::Buffer.strikes() && unsafe { dpdk_sys::valiant_alloc_bulk(self.as_ptr(), to, n) == 0 }
    }

    /// Bytes in each buffer, headroom included.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Whether its buffers are one stretch of memory without gaps, as an AF_XDP socket needs them.
    pub(crate) fn suits_af_xdp(&self) -> bool {
        // SAFETY: the pool is never freed; the environment runs, since there is a pool.
        unsafe {
            let dense = self.buffer_len == PAGE_BUFFER || dpdk_sys::valiant_iova_is_va() != 0;
            dense && dpdk_sys::valiant_pool_pieces(self.as_ptr()) == 1
        }
    }

    /// Buffers in all.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Buffers of all pools of the process.
    pub fn buffers() -> usize {
        pools().iter().map(|entry| entry.pool.capacity).sum()
    }

    /// All pools of the process.
    pub fn all() -> Vec<Mempool> {
        pools().iter().map(|entry| entry.pool).collect()
    }

    /// Free buffers, including those in thread caches.
    pub fn available(&self) -> usize {
        // SAFETY: the pool is never freed.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.as_ptr()) as usize }
    }
}

struct Entry {
    pool: Mempool,
    node: Option<usize>,
    /// Buffers promised to queues.
    promised: usize,
}

/// The most packets of one turn that tables of ports have announced.
static TURN: AtomicUsize = AtomicUsize::new(0);

/// In pools made from now on, a worker takes so many buffers, or more, before it gives any back: a burst from
/// each port.
pub(crate) fn expect_turns(packets: usize) {
    TURN.fetch_max(packets, Relaxed);
}

/// The number of buffers in the caches of pools made now.
pub(crate) fn cache() -> usize {
    if TURN.load(Relaxed) > CACHE / 2 { LARGE_CACHE } else { CACHE }
}

static POOLS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn pools() -> MutexGuard<'static, Vec<Entry>> {
    POOLS.lock().ignore_poison()
}

/// Buffers promised to the queues of a port; when it is dropped, the promise ends, but the pool stays.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) pool: Mempool,
    buffers: usize,
}

/// Counts promised buffers that will never be returned.
pub(crate) fn lose(pool: Mempool, buffers: usize) {
    if let Some(entry) = pools().iter_mut().find(|entry| entry.pool == pool) {
        entry.promised += buffers;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(entry) = pools().iter_mut().find(|entry| entry.pool == self.pool) {
            entry.promised -= self.buffers;
        }
    }
}

/// A pool on `node` with buffers of at least `buffer_len` bytes of which `buffers` are not promised to
/// others.
///
/// All queues of a node share one pool where they can, so that a packet goes from port to port without a
/// copy.
pub(crate) fn reserve(node: Option<usize>, buffers: usize, buffer_len: usize) -> Result<Reservation, Error> {
    let buffer_len = buffer_len.max(STANDARD_BUFFER).next_multiple_of(64).min(MAX_BUFFER);
    let mut pools = pools();
    let fits = |entry: &&mut Entry| {
        entry.node == node
            && entry.pool.buffer_len == buffer_len
            && entry.promised + buffers + spare(buffer_len) <= entry.pool.capacity
    };
    let entry = match pools.iter_mut().find(fits) {
        Some(entry) => entry,
        None => {
            let pool = create(
                pools.len(),
                node,
                (buffers + spare(buffer_len)).max(SMALLEST.min(2 * spare(buffer_len))),
                buffer_len,
            )?;
            pools.push(Entry { pool, node, promised: 0 });
            pools.last_mut().expect("just pushed")
        }
    };
    entry.promised += buffers;
    Ok(Reservation { pool: entry.pool, buffers })
}

/// Ensures that the next reservations on `node` use one pool for `buffers` buffers in all.
pub(crate) fn prepare(node: Option<usize>, buffers: usize, buffer_len: usize) -> Result<(), Error> {
    drop(reserve(node, buffers, buffer_len)?);
    Ok(())
}

/// A pool of standard buffers on `node`, or on any node if that one has none; it is created if there is none
/// at all.
pub(crate) fn of_node(node: Option<usize>) -> Option<Mempool> {
    let find = || {
        let pools = pools();
        let standard = || pools.iter().filter(|entry| entry.pool.buffer_len >= STANDARD_BUFFER);
        standard().find(|entry| entry.node == node).or_else(|| standard().next()).map(|entry| entry.pool)
    };
    find().or_else(|| reserve(None, 0, STANDARD_BUFFER).ok().map(|reservation| reservation.pool))
}

/// Gives back what the calling thread's caches hold.
pub(crate) fn flush_thread_caches() {
    for entry in pools().iter() {
        // SAFETY: the pool is never freed; the cache is the calling thread's.
        unsafe { dpdk_sys::valiant_pool_flush(entry.pool.as_ptr()) };
    }
}

fn create(number: usize, node: Option<usize>, buffers: usize, buffer_len: usize) -> Result<Mempool, Error> {
    let megabytes = (buffers * (buffer_len + 256)) >> 20;
    let failed = |reason: String| {
        let fix = match Eal::get() {
            Some(eal) if eal.hugepages() => hugepage_fix(megabytes + 1),
            _ => format!("give the packet buffers more memory (this pool wants {} MB)", megabytes + 1),
        };
        Error::Pool { buffers, buffer_len, reason, fix }
    };
    if Eal::get().is_none() {
        return Err(failed("the DPDK environment does not run".to_owned()));
    }
    if Fault::Pool.strikes() {
        return Err(failed("out of memory".to_owned()));
    }
    let name = CString::new(format!("valiant_{number}")).expect("no zero byte");
    let socket = node.and_then(|node| c_int::try_from(node).ok()).unwrap_or(-1);
    let mark = Mark::now();
    // Side by side saves 40 % of the memory in 4 KB pages, and cache lines that would all fall into the same
    // sets. SAFETY: the environment runs.
    let dense = buffer_len != PAGE_BUFFER && unsafe { dpdk_sys::valiant_iova_is_va() } != 0;
    // SAFETY: the environment runs; the name is a C string; sizes fit their types.
    let pool = unsafe {
        dpdk_sys::valiant_pool_create(
            name.as_ptr(),
            buffers as u32,
            cache() as u32,
            PRIVATE_SIZE as u16,
            buffer_len as u16,
            socket,
            dense.into(),
        )
    };
    let pool = NonNull::new(pool)
        // SAFETY: reads the calling thread's error number.
        .ok_or_else(|| failed(mark.quote_or(|| errno_text(unsafe { dpdk_sys::valiant_errno() }))))?;
    Ok(Mempool { pool, buffer_len, capacity: buffers })
}
