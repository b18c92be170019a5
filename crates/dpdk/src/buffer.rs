//! The layout of a buffer: its sizes, and the memory before the data.

use dpdk_sys::{RTE_MBUF_F_FIRST_FREE_BIT, RTE_MBUF_F_LAST_FREE_BIT, rte_mbuf};

use crate::anno::Anno;

/// Bytes before the data of a fresh packet, as in every DPDK buffer.
pub const DEFAULT_HEADROOM: usize = 128;
/// Bytes for data and tailroom in a buffer of the usual size.
pub const DEFAULT_DATA_ROOM: usize = 2048;
/// The largest buffer, headroom included: DPDK counts in 16 bits.
pub const MAX_BUFFER: usize = u16::MAX as usize;

/// The bit of `ol_flags` that says that [`Anno`] is valid; EAL start-up reserves it as a dynamic flag.
pub(crate) const ANNO_VALID_BIT: u32 = RTE_MBUF_F_LAST_FREE_BIT;
pub(crate) const ANNO_VALID: u64 = 1 << ANNO_VALID_BIT;
/// The bit that says that the first line of the mbuf has some of the annotations, reserved in the same way.
pub(crate) const FIRST_LINE_BIT: u32 = ANNO_VALID_BIT - 1;
pub(crate) const FIRST_LINE: u64 = 1 << FIRST_LINE_BIT;
/// The bit of a packet whose way is recorded, reserved in the same way.
pub(crate) const TRACED_BIT: u32 = FIRST_LINE_BIT - 1;
pub(crate) const TRACED: u64 = 1 << TRACED_BIT;
const _: () = assert!(RTE_MBUF_F_FIRST_FREE_BIT <= TRACED_BIT);

/// Bytes between an mbuf and its buffer, a pool's private area.
pub(crate) const PRIVATE_SIZE: usize = size_of::<Anno>();
/// Bytes before a buffer of the heap: mbuf and private area.
pub(crate) const HEADER_SIZE: usize = size_of::<rte_mbuf>() + PRIVATE_SIZE;

/// Bytes in a buffer of the usual size, headroom included.
pub(crate) const STANDARD_BUFFER: usize = DEFAULT_HEADROOM + DEFAULT_DATA_ROOM;
/// Buffers in a pool beyond those promised to queues: for bursts in flight, thread caches and packets that
/// wait.
pub(crate) const SPARE: usize = 8192;
/// What the pool of a router with two ports of one receive queue takes: as many buffers again are promised to
/// queues, and a pool of DPDK has 64 bytes more for each.
pub(crate) const FIRST_POOL: usize = 2 * SPARE * (64 + HEADER_SIZE + STANDARD_BUFFER);
/// Bytes in a buffer that fills a page together with its overhead (64 bytes of the pool, 128 of the mbuf and
/// 64 of annotations). AF_XDP drivers that write into buffers themselves need buffers that do not cross
/// pages; and DPDK's AF_XDP driver assumes that a pool's buffers are next to each other.
pub(crate) const PAGE_BUFFER: usize = 4096 - 64 - 128 - PRIVATE_SIZE;
