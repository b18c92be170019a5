//! The buffers that an AF_XDP socket holds when its port is closed.
//!
//! DPDK 22.11's driver closes a port without freeing the buffers in the rings that it shares with the kernel:
//! some 2048 buffers for each queue would be lost with every port that a new configuration no longer uses.
//! The rings are mapped once more before the driver unmaps them, and read when the kernel no longer uses
//! them.

use std::collections::HashSet;
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use dpdk_sys::rte_mbuf;

use crate::mempool::Mempool;

/// Entries of the rings of frames that the driver makes.
const FILL_ENTRIES: usize = 4096;
const COMPLETION_ENTRIES: usize = 2048;
/// In the kernel's unaligned mode the upper bits of an address say where in the frame the data is.
const ADDRESS_BITS: u32 = 48;
/// How long the kernel may still use a socket that has been closed.
const GRACE: Duration = Duration::from_millis(10);

/// One ring, mapped: `entries` of `stride` bytes, each beginning with a frame's address.
struct Ring {
    map: NonNull<u8>,
    len: usize,
    offsets: libc::xdp_ring_offset,
    entries: usize,
    stride: usize,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.len) };
    }
}

impl Ring {
    fn map(
        socket: RawFd,
        at: u64,
        offsets: libc::xdp_ring_offset,
        entries: usize,
        stride: usize,
    ) -> Option<Ring> {
        if !entries.is_power_of_two() {
            return None;
        }
        let len = usize::try_from(offsets.desc).ok()? + entries * stride;
        let at = libc::off_t::try_from(at).ok()?;
        // SAFETY: a mapping at an address of the kernel's choice; the kernel refuses more than the ring has.
        let map = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, socket, at) };
        let map = NonNull::new(map.cast()).filter(|_| map != libc::MAP_FAILED)?;
        Some(Ring { map, len, offsets, entries, stride })
    }

    fn index(&self, at: u64) -> u32 {
        // SAFETY: the kernel says that this index lies at this place in the ring; it is written atomically.
        unsafe { self.map.as_ptr().byte_add(at as usize).cast::<AtomicU32>().as_ref() }
            .map_or(0, |index| index.load(Ordering::Acquire))
    }

    /// The addresses of the frames between consumer and producer.
    fn frames(&self) -> Vec<u64> {
        let (consumer, producer) = (self.index(self.offsets.consumer), self.index(self.offsets.producer));
        let n = producer.wrapping_sub(consumer) as usize;
        if n > self.entries {
            return Vec::new();
        }
        let place = |i: usize| (consumer as usize).wrapping_add(i) & (self.entries - 1);
        // SAFETY: the place is below `entries`, all of which are mapped.
        let read = |place: usize| unsafe {
            self.map
                .as_ptr()
                .byte_add(self.offsets.desc as usize + place * self.stride)
                .cast::<u64>()
                .read_unaligned()
        };
        (0..n).map(|i| read(place(i))).collect()
    }
}

/// Packets that the kernel lost because the socket's ring was full: DPDK 22.11's driver leaves these out of
/// its counters. What it lost for other reasons (`rx_dropped`) it counts.
pub(crate) fn lost_at_ring(socket: RawFd) -> Option<u64> {
    statistics(socket).map(|s| s.rx_ring_full)
}

/// All packets that the kernel lost before the socket's ring.
pub(crate) fn lost(socket: RawFd) -> Option<u64> {
    statistics(socket).map(|s| s.rx_ring_full + s.rx_dropped)
}

/// Whether the device puts packets directly into the buffers of an AF_XDP socket, and takes them from there.
pub(crate) fn is_zero_copy(socket: RawFd) -> bool {
    let mut options = libc::xdp_options { flags: 0 };
    let mut len = size_of_val(&options) as libc::socklen_t;
    let value = (&raw mut options).cast();
    // SAFETY: plain data, which the kernel fills up to `len`; it refuses what is no AF_XDP socket.
    let status = unsafe { libc::getsockopt(socket, libc::SOL_XDP, libc::XDP_OPTIONS, value, &mut len) };
    status == 0 && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
}

fn statistics(socket: RawFd) -> Option<libc::xdp_statistics> {
    // SAFETY: plain data, which the kernel fills up to `len`; it refuses what is no AF_XDP socket.
    unsafe {
        let mut statistics: libc::xdp_statistics = std::mem::zeroed();
        let mut len = size_of_val(&statistics) as libc::socklen_t;
        let value = (&raw mut statistics).cast();
        let status = libc::getsockopt(socket, libc::SOL_XDP, libc::XDP_STATISTICS, value, &mut len);
        // Kernels before 5.9 have no more than the first three.
        (status == 0).then_some(statistics)
    }
}

/// The rings of one socket.
pub(crate) struct Rings(Vec<Ring>);

impl Rings {
    /// Maps the rings of an AF_XDP socket of DPDK's; `None` when they are not as the driver makes them.
    pub(crate) fn map(socket: RawFd, descriptors: u16) -> Option<Rings> {
        // SAFETY: plain data, which the kernel fills up to `len`.
        let offsets = unsafe {
            let mut offsets: libc::xdp_mmap_offsets = std::mem::zeroed();
            let mut len = size_of_val(&offsets) as libc::socklen_t;
            let value = (&raw mut offsets).cast();
            let status = libc::getsockopt(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, value, &mut len);
            if status != 0 || len as usize != size_of_val(&offsets) {
                return None;
            }
            offsets
        };
        let frame = size_of::<u64>();
        let descriptor = size_of::<libc::xdp_desc>();
        let (rx, tx) = (libc::XDP_PGOFF_RX_RING as u64, libc::XDP_PGOFF_TX_RING as u64);
        Some(Rings(vec![
            Ring::map(socket, libc::XDP_UMEM_PGOFF_FILL_RING, offsets.fr, FILL_ENTRIES, frame)?,
            Ring::map(socket, libc::XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, COMPLETION_ENTRIES, frame)?,
            Ring::map(socket, rx, offsets.rx, descriptors.into(), descriptor)?,
            Ring::map(socket, tx, offsets.tx, descriptors.into(), descriptor)?,
        ]))
    }

    /// Gives the buffers in the rings back to the pool and returns how many.
    ///
    /// # Safety
    /// The driver has closed the port, so that it and the kernel's program no longer use the socket, and the
    /// port's buffers came from `pool`.
    pub(crate) unsafe fn reclaim(self, pool: Mempool) -> usize {
        thread::sleep(GRACE);
        let (mut len, mut header) = (0, 0);
        // SAFETY: the pool is never freed.
        let base = unsafe { dpdk_sys::valiant_pool_base(pool.as_ptr(), &mut len, &mut header) };
        if base == 0 {
            return 0;
        }
        let mut seen = HashSet::new();
        for address in self.0.iter().flat_map(Ring::frames) {
            let at = (address & ((1 << ADDRESS_BITS) - 1)) as usize + header as usize;
            let mbuf = ptr::with_exposed_provenance_mut::<rte_mbuf>(base + at);
            if at + size_of::<rte_mbuf>() > len || !mbuf.is_aligned() || !seen.insert(at) {
                continue;
            }
            // SAFETY: the place lies in the pool's memory, in an object whose mbuf says that it is of this
            // pool; by the contract of this function nobody but the rings had it, and it is freed once.
            unsafe {
                if (*mbuf).pool == pool.as_ptr() {
                    dpdk_sys::valiant_free(mbuf);
                }
            }
        }
        seen.len()
    }
}
