//! `Packet`: the owner of one mbuf.
//!
//! An mbuf comes from a DPDK pool, or from the heap with the same layout (128 bytes of `rte_mbuf`, 64 bytes
//! of annotations, the buffer), which needs no DPDK environment, no root and no hugepages. A heap mbuf is
//! known by its null `pool`; it never reaches a driver (the transmit queue copies it first) and never a C
//! function.
//!
//! Invariants of the mbuf behind a `Packet`:
//! 1. it has one segment, one reference and a buffer of its own, which no other owner reads or writes;
//! 2. `data_off + data_len <= buf_len`, `pkt_len == data_len`, and all `buf_len` bytes are initialized
//!    memory;
//! 3. a pool's mbuf and a heap mbuf alike have [`Anno`](crate::Anno) in the 64 bytes that follow the
//!    `rte_mbuf`, whose content counts only while [`ANNO_VALID`](crate::buffer::ANNO_VALID) is set in
//!    `ol_flags`; while [`FIRST_LINE`](crate::buffer::FIRST_LINE) is set, some of the annotations are in the
//!    first line instead (`firstline`). Drivers clear that word, so a packet fresh from the wire has default
//!    annotations although nobody wrote a line.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::forget;
use std::ptr::{self, NonNull, null_mut};
use std::slice;

use dpdk_sys::{VALIANT_MBUF_RSS_HASH, rte_mbuf};

use crate::buffer::{DEFAULT_HEADROOM, HEADER_SIZE, MAX_BUFFER, STANDARD_BUFFER};
use crate::mempool::Mempool;

mod firstline;
#[cfg(any(test, feature = "testing"))]
mod guard;
mod headers;
mod heap;
mod kept;
#[cfg(any(test, feature = "testing"))]
mod mapped;

pub use kept::KeptPacket;

/// One packet: the only owner of one single-segment mbuf, which dropping it frees.
#[repr(transparent)]
pub struct Packet {
    mbuf: NonNull<rte_mbuf>,
    /// `Cell` takes `Sync` away: the annotations are written lazily.
    _not_sync: PhantomData<Cell<rte_mbuf>>,
}

// SAFETY: invariant 1: the mbuf and its buffer belong to this packet alone; pools take mbufs back from any
// thread and the heap free list is the freeing thread's.
unsafe impl Send for Packet {}

thread_local! {
    /// Packets that this thread has freed.
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// Counts packets that are being freed.
#[inline]
pub(crate) fn note_freed(n: u64) {
    FREED.with(|freed| freed.set(freed.get().wrapping_add(n)));
}

/// Runs `f`; returns how many packets were freed on this thread meanwhile. Packets that a driver frees after
/// it has sent them do not count.
pub fn count_freed(f: impl FnOnce()) -> u64 {
    let before = FREED.with(Cell::get);
    f();
    FREED.with(Cell::get).wrapping_sub(before)
}

thread_local! {
    /// What `Packet::alloc` takes mbufs from on this thread; `None`: the heap.
    static THREAD_POOL: Cell<Option<Mempool>> = const { Cell::new(None) };
}

/// Makes `Packet::alloc` take mbufs of `pool` on the calling thread; `None` goes back to the heap.
///
/// Packets from the heap are copied when they are sent, packets from a pool are not: a worker sets its node's
/// pool.
pub fn set_thread_pool(pool: Option<Mempool>) {
    THREAD_POOL.set(pool);
}

impl Packet {
    /// Asks the processor to fetch the mbuf, whose second line those read who free it, and the first headers
    /// where they usually begin.
    #[inline]
    pub(crate) fn prefetch_all(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            for at in [0, 64, HEADER_SIZE + DEFAULT_HEADROOM] {
                // SAFETY: a prefetch reads nothing architecturally, and faults nowhere.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(self.mbuf.as_ptr().cast::<i8>().wrapping_add(at)) };
            }
        }
    }

    /// A packet of `len` zero bytes after at least `headroom` bytes of headroom, with default annotations.
    ///
    /// It comes from the calling thread's pool ([`set_thread_pool`]) when it fits there and the pool has one
    /// left, else from the heap. Headroom gives way when both do not fit [`MAX_BUFFER`]. `None`: out of
    /// memory, or `len` is larger than [`MAX_BUFFER`].
    #[inline]
    pub fn alloc(headroom: usize, len: usize) -> Option<Packet> {
        let mut packet = Packet::alloc_dirty(headroom, len)?;
        packet.data_mut().fill(0);
        Some(packet)
    }

    /// A packet with these bytes after [`DEFAULT_HEADROOM`]; `None` as [`Packet::alloc`].
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Option<Packet> {
        let mut packet = Packet::alloc_dirty(DEFAULT_HEADROOM, bytes.len())?;
        packet.data_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// Replaces the data, keeping the headroom; false, and nothing changed, when the buffer is too small.
    #[inline]
    pub fn assign(&mut self, bytes: &[u8]) -> bool {
        let offset = self.data_off();
        if bytes.len() > self.buffer_len() - offset {
            return false;
        }
        self.set_data(offset, bytes.len());
        self.data_mut().copy_from_slice(bytes);
        true
    }

    /// As `from_bytes`, from this pool only; `None` also when they do not fit its buffers.
    pub(crate) fn from_bytes_in(pool: Mempool, bytes: &[u8]) -> Option<Packet> {
        if DEFAULT_HEADROOM + bytes.len() > pool.buffer_len() {
            return None;
        }
        let mbuf = pool.alloc()?;
        // SAFETY: fresh from the pool, so nobody else has it, and headroom and data fit its buffers.
        let mut packet = unsafe { Packet::init(mbuf, DEFAULT_HEADROOM as u16, bytes.len() as u16) };
        packet.data_mut().copy_from_slice(bytes);
        Some(packet)
    }

    /// As `alloc`, but the data is whatever the buffer held before (initialized, with any content).
    fn alloc_dirty(headroom: usize, len: usize) -> Option<Packet> {
        if len > MAX_BUFFER {
            return None;
        }
        let headroom = headroom.min(MAX_BUFFER - len);
        if let Some(pool) = THREAD_POOL.get()
            && headroom + len <= pool.buffer_len()
            && let Some(mbuf) = pool.alloc()
        {
            // SAFETY: fresh from the pool, so nobody else has it; its buffers hold headroom and data.
            return Some(unsafe { Packet::init(mbuf, headroom as u16, len as u16) });
        }
        let mbuf = heap::alloc((headroom + len).max(STANDARD_BUFFER) as u16)?;
        // SAFETY: fresh from the heap; its buffer holds headroom and data.
        unsafe {
            let raw = mbuf.as_ptr();
            (*raw).ol_flags = 0;
            (*raw).next = null_mut();
            (*raw).refcnt = 1;
            (*raw).nb_segs = 1;
            (*raw).port = u16::MAX;
            Some(Packet::init(mbuf, headroom as u16, len as u16))
        }
    }

    /// Takes `n` mbufs without data out of the calling thread's pool at once and writes them to `to`. `None`:
    /// the thread has no pool; `Some(false)`: the pool has not as many.
    ///
    /// # Safety
    /// There is room for `n`.
    #[inline]
    pub(crate) unsafe fn alloc_bulk(to: *mut *mut rte_mbuf, n: u32) -> Option<bool> {
        let pool = THREAD_POOL.get()?;
        // SAFETY: by the contract of this function.
        Some(unsafe { pool.alloc_bulk(to, n) })
    }

    /// # Safety
    /// The mbuf is fresh, its buffer holds `headroom + len` bytes, and the caller gives it away.
    #[inline]
    unsafe fn init(mbuf: NonNull<rte_mbuf>, headroom: u16, len: u16) -> Packet {
        // SAFETY: the mbuf is live and nobody else has it.
        unsafe {
            let raw = mbuf.as_ptr();
            (*raw).data_off = headroom;
            (*raw).data_len = len;
            (*raw).pkt_len = u32::from(len);
            Packet::from_raw(mbuf)
        }
    }

    /// Takes an mbuf into ownership.
    ///
    /// # Safety
    /// The mbuf meets the invariants of this module, and the caller gives it away.
    #[inline]
    pub(crate) unsafe fn from_raw(mbuf: NonNull<rte_mbuf>) -> Packet {
        Packet { mbuf, _not_sync: PhantomData }
    }

    /// Gives the mbuf up; whoever takes it must free it.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<rte_mbuf> {
        let mbuf = self.mbuf;
        forget(self);
        mbuf
    }

    /// Frees an mbuf of the heap that [`Packet::into_raw`] has given up; it is not counted ([`count_freed`]).
    ///
    /// # Safety
    /// It is of the heap, and nobody uses it any more.
    pub(crate) unsafe fn free_heap(mbuf: NonNull<rte_mbuf>) {
        // SAFETY: by the contract of this function.
        unsafe { heap::free(mbuf) };
    }

    /// The mbuf, for a C function that works on the packet while the caller holds it.
    #[inline]
    pub(crate) fn as_raw(&mut self) -> *mut rte_mbuf {
        self.mbuf.as_ptr()
    }

    /// Whether the buffer is from the heap, so that sending it copies it.
    #[inline]
    pub fn is_heap(&self) -> bool {
        // SAFETY: invariant 1; a plain load.
        unsafe { (*self.mbuf.as_ptr()).pool.is_null() }
    }

    /// Whether any of these is from the heap; one load if none has ever been.
    #[inline]
    pub(crate) fn any_heap(packets: &[Packet]) -> bool {
        heap::any() && packets.iter().any(Packet::is_heap)
    }

    /// The hash of the packet's flow, if the device that received it has computed one. It stays the same when
    /// the headers are changed.
    #[inline]
    pub fn rss_hash(&self) -> Option<u32> {
        // SAFETY: invariant 1; plain loads. The flag says that this is what the union holds.
        unsafe {
            let raw = self.mbuf.as_ptr();
            ((*raw).ol_flags & VALIANT_MBUF_RSS_HASH != 0).then(|| (*raw).__bindgen_anon_2.hash.rss)
        }
    }

    #[inline]
    fn data_off(&self) -> usize {
        // SAFETY: invariant 1; a plain load.
        unsafe { (*self.mbuf.as_ptr()).data_off }.into()
    }

    #[inline]
    fn buffer_len(&self) -> usize {
        // SAFETY: invariant 1; a plain load.
        unsafe { (*self.mbuf.as_ptr()).buf_len }.into()
    }

    #[inline]
    fn buffer(&self) -> *mut u8 {
        // SAFETY: invariant 1; a plain load. There is a buffer (invariant 2), so its address is not null.
        unsafe {
            let buffer = (*self.mbuf.as_ptr()).buf_addr.cast::<u8>();
            std::hint::assert_unchecked(!buffer.is_null());
            buffer
        }
    }

    /// Sets where the data lies within the buffer.
    #[inline]
    fn set_data(&mut self, offset: usize, len: usize) {
        debug_assert!(offset + len <= self.buffer_len());
        // SAFETY: invariant 1; callers keep invariant 2, so that both fit 16 bits.
        unsafe {
            let raw = self.mbuf.as_ptr();
            (*raw).data_off = offset as u16;
            (*raw).data_len = len as u16;
            (*raw).pkt_len = len as u32;
        }
    }

    /// Bytes of data.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a packet without data is rare enough to write len() == 0"
    )]
    pub fn len(&self) -> usize {
        // SAFETY: invariant 1; a plain load.
        unsafe { (*self.mbuf.as_ptr()).data_len }.into()
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        // SAFETY: invariant 2: these bytes lie in the buffer and are initialized; `&self` keeps writers away.
        unsafe { slice::from_raw_parts(self.buffer().add(self.data_off()), self.len()) }
    }

    /// The data, mutable.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariant 2, and `&mut self` is the only way to the buffer (invariant 1).
        unsafe { slice::from_raw_parts_mut(self.buffer().add(self.data_off()), self.len()) }
    }

    /// Bytes in the buffer before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.data_off()
    }

    /// Bytes in the buffer after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.buffer_len() - self.data_off() - self.len()
    }

    /// The address of the first byte of data, for elements that care about alignment.
    #[inline]
    pub fn data_address(&self) -> usize {
        self.data().as_ptr().addr()
    }

    /// Where a device that reads or writes memory by itself finds the data; 0 for a packet of the heap, which
    /// is copied before it is sent.
    #[must_use]
    pub fn device_address(&self) -> u64 {
        if self.is_heap() {
            return 0;
        }
        // SAFETY: a live mbuf of a pool.
        unsafe { (*self.mbuf.as_ptr()).buf_iova + u64::from((*self.mbuf.as_ptr()).data_off) }
    }

    /// Drops `n` bytes from the front; false, and nothing changed, when there are fewer. [`Packet::push`]
    /// brings them back.
    #[inline]
    pub fn strip(&mut self, n: usize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        if n > len {
            return false;
        }
        self.set_data(offset + n, len - n);
        true
    }

    /// Drops `n` bytes from the end; false, and nothing changed, when there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        if n > len {
            return false;
        }
        self.set_data(offset, len - n);
        true
    }

    /// Keeps `len` bytes from byte `front` on; false, and nothing changed, when there are fewer.
    #[inline]
    pub fn narrow(&mut self, front: usize, len: usize) -> bool {
        let there = self.len();
        if front > there || len > there - front {
            return false;
        }
        self.set_data(self.data_off() + front, len);
        true
    }

    /// Prepends `n` bytes, which hold what the buffer held there; false, and nothing changed, without that
    /// headroom.
    #[inline]
    pub fn push_in_place(&mut self, n: usize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        if n > offset {
            return false;
        }
        self.set_data(offset - n, len + n);
        true
    }

    /// Prepends `n` bytes with unspecified content, moving to a larger buffer when the headroom is too small.
    ///
    /// `None`, and the packet is gone: out of memory, or larger than [`MAX_BUFFER`].
    #[inline]
    pub fn push(mut self, n: usize) -> Option<Packet> {
        if self.push_in_place(n) {
            return Some(self);
        }
        let mut packet = self.grown(n.checked_add(DEFAULT_HEADROOM)?, n, 0)?;
        packet.push_in_place(n).then_some(packet)
    }

    /// Appends `n` bytes, which hold what the buffer held there; false, and nothing changed, without that
    /// tailroom.
    #[inline]
    pub fn put_in_place(&mut self, n: usize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        if n > self.tailroom() {
            return false;
        }
        self.set_data(offset, len + n);
        true
    }

    /// Prepends `front` bytes to the first `keep` ones and appends `back` to those, all of which hold what
    /// the buffer held there; false, and nothing changed, without that room or that many bytes.
    #[inline]
    pub fn frame_in_place(&mut self, keep: usize, front: usize, back: usize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        if keep > len || front > offset || back > self.buffer_len() - offset - keep {
            return false;
        }
        self.set_data(offset - front, front + keep + back);
        true
    }

    /// Appends `n` zero bytes, moving to a larger buffer when the tailroom is too small; `None` as
    /// [`Packet::push`].
    #[inline]
    pub fn put(mut self, n: usize) -> Option<Packet> {
        if n > self.tailroom() {
            self = self.grown(0, 0, n)?;
        }
        let (offset, len) = (self.data_off(), self.len());
        if n > self.tailroom() {
            return None;
        }
        self.set_data(offset, len + n);
        self.data_mut()[len..].fill(0);
        Some(self)
    }

    /// Moves the data by `delta` bytes within the buffer, or to a larger buffer when there is no room.
    ///
    /// The bytes keep their order and the headers move along. `None` as [`Packet::push`].
    pub fn shift_data(mut self, delta: isize) -> Option<Packet> {
        let n = delta.unsigned_abs();
        if delta > 0 && n > self.tailroom() {
            self = self.grown(0, 0, n)?;
        } else if delta < 0 && n > self.headroom() {
            self = self.grown(n, n, 0)?;
        }
        self.shift_in_place(delta).then_some(self)
    }

    /// The same within the buffer; false, and nothing changed, without that room.
    #[inline]
    pub fn shift_in_place(&mut self, delta: isize) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        let moved = offset.checked_add_signed(delta).filter(|at| at + len <= self.buffer_len());
        let Some(moved) = moved else { return false };
        // SAFETY: both ranges lie in the buffer, which is ours alone; `copy` allows overlap.
        unsafe { ptr::copy(self.buffer().add(offset), self.buffer().add(moved), len) };
        self.set_data(moved, len);
        self.shift_headers(delta);
        true
    }

    /// A copy in a buffer with up to `head` more bytes of headroom (at least `head_min`) and `tail` more of
    /// tailroom, with everything that this buffer holds before the end of the data, annotations included.
    #[cold]
    fn grown(&self, head: usize, head_min: usize, tail: usize) -> Option<Packet> {
        let (offset, len) = (self.data_off(), self.len());
        let room = MAX_BUFFER.checked_sub(offset.checked_add(len)?.checked_add(tail)?)?;
        let head = head.min(room);
        if head < head_min {
            return None;
        }
        let mut packet = Packet::alloc_dirty(head, offset + len + tail)?;
        packet.set_data(head, offset + len);
        // SAFETY: this packet's first `offset + len` bytes are initialized (invariant 2) and the new packet's
        // data, which is as long, is another buffer.
        unsafe { ptr::copy_nonoverlapping(self.buffer(), packet.buffer().add(head), offset + len) };
        packet.set_data(head + offset, len);
        self.copy_anno_to(&mut packet, head as isize);
        Some(packet)
    }

    fn copy_anno_to(&self, packet: &mut Packet, delta: isize) {
        self.copy_annotations_to(packet);
        packet.shift_headers(delta);
        // SAFETY: invariant 1; plain loads and stores.
        unsafe { (*packet.mbuf.as_ptr()).port = (*self.mbuf.as_ptr()).port };
    }

    /// A deep copy: the data, the headroom before it (so that bytes stripped from the front come back in the
    /// copy too) and the annotations. `None`: out of memory.
    pub fn duplicate(&self) -> Option<Packet> {
        let (offset, len) = (self.data_off(), self.len());
        let mut packet = Packet::alloc_dirty(offset, len)?;
        // SAFETY: the first `offset + len` bytes are initialized here (invariant 2) and in bounds there:
        // `offset + len` fits MAX_BUFFER, so the new packet has all the headroom that was asked for.
        unsafe { ptr::copy_nonoverlapping(self.buffer(), packet.buffer(), offset + len) };
        self.copy_anno_to(&mut packet, 0);
        Some(packet)
    }

    /// Asks the processor to fetch the first line of the data.
    #[inline]
    pub fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch of an address in the packet's buffer; it reads nothing architecturally.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.buffer().add(self.data_off()).cast::<i8>()) };
        }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        note_freed(1);
        if self.is_heap() {
            // SAFETY: a null pool says that `heap::alloc` made it, and the packet was its only owner.
            unsafe { heap::free(self.mbuf) };
        } else {
            // SAFETY: the packet was the only owner of this mbuf of a pool.
            unsafe { dpdk_sys::valiant_free(self.mbuf.as_ptr()) };
        }
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.data().split_at(self.len().min(64));
        write!(f, "Packet({} bytes:", self.len())?;
        shown.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
        f.write_str(if rest.is_empty() { ")" } else { " ...)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anno::Anno;
    use crate::anno::PacketType;
    use crate::buffer::DEFAULT_DATA_ROOM;

    #[test]
    fn a_packet_is_a_pointer() {
        assert_eq!(size_of::<Packet>(), size_of::<usize>());
        assert_eq!(size_of::<Option<Packet>>(), size_of::<usize>());
    }

    #[test]
    fn strip_take_push_put() {
        let mut packet = Packet::from_bytes(b"abcdefgh").unwrap();
        assert_eq!((packet.headroom(), packet.tailroom()), (DEFAULT_HEADROOM, DEFAULT_DATA_ROOM - 8));
        assert!(packet.strip(3));
        assert!(packet.take(2));
        assert_eq!(packet.data(), b"def");
        assert!(!packet.strip(4));
        assert!(!packet.take(4));
        assert!(packet.push_in_place(3));
        assert_eq!(packet.data(), b"abcdef");
        let packet = packet.put(2).unwrap();
        assert_eq!(packet.data(), b"abcdef\0\0");
        assert_eq!(packet.headroom(), DEFAULT_HEADROOM);
    }

    #[test]
    fn a_packet_is_framed_where_there_is_room() {
        let mut packet = Packet::from_bytes(b"abcdefgh").unwrap();
        let (front, back) = (packet.headroom(), packet.tailroom());
        for (keep, front, back) in
            [(9, 0, 0), (8, front + 1, 0), (8, 0, back + 1), (3, 0, back + 6), (8, 0, usize::MAX - 9)]
        {
            assert!(!packet.frame_in_place(keep, front, back), "{keep} {front} {back}");
            assert_eq!((packet.data(), packet.headroom()), (&b"abcdefgh"[..], DEFAULT_HEADROOM));
        }
        assert!(packet.frame_in_place(6, 2, 1));
        assert_eq!((&packet.data()[2..8], packet.len()), (&b"abcdef"[..], 9));
        assert_eq!((packet.headroom(), packet.tailroom()), (front - 2, back + 1));
        assert!(packet.frame_in_place(9, front - 2, back + 1));
        assert_eq!((packet.len(), packet.headroom(), packet.tailroom()), (front + 8 + back, 0, 0));
    }

    #[test]
    fn the_hash_of_a_device_is_read_if_there_is_one() {
        let mut packet = Packet::from_bytes(b"a").unwrap();
        assert_eq!(packet.rss_hash(), None);
        packet.set_rss_hash(0x1234_5678);
        packet.set_paint(1);
        assert_eq!(packet.rss_hash(), Some(0x1234_5678));
        drop(packet);
        assert_eq!(Packet::from_bytes(b"a").unwrap().rss_hash(), None);
    }

    #[test]
    fn fresh_data_is_zero_even_in_a_used_buffer() {
        drop(Packet::from_bytes(&[0xff; 512]).unwrap());
        let packet = Packet::alloc(DEFAULT_HEADROOM, 512).unwrap();
        assert!(packet.data().iter().all(|&byte| byte == 0));
        assert_eq!(packet.anno(), &Anno::DEFAULT);
    }

    #[test]
    fn push_without_headroom_moves_and_keeps_everything() {
        let mut packet = Packet::alloc(4, 20).unwrap();
        packet.data_mut()[0] = 0x45;
        packet.set_network_header(0, 20);
        packet.set_paint(9);
        let packet = packet.push(14).unwrap();
        assert_eq!(packet.len(), 34);
        assert_eq!(packet.data()[14], 0x45);
        assert_eq!(packet.network_header_offset(), Some(14));
        assert_eq!(packet.network_header().unwrap().len(), 20);
        assert_eq!(packet.transport_header_offset(), Some(34));
        assert_eq!(packet.network_header_len(), Some(20));
        assert_eq!(packet.paint(), 9);
        assert!(packet.headroom() >= DEFAULT_HEADROOM);
    }

    #[test]
    fn a_copy_is_deep_and_can_be_unstripped() {
        let mut packet = Packet::from_bytes(b"etherpayload").unwrap();
        packet.set_mac_header(0);
        packet.set_packet_type(PacketType::Broadcast);
        packet.set_timestamp_ns(5);
        assert!(packet.strip(5));
        let mut copy = packet.duplicate().unwrap();
        packet.data_mut()[0] = b'X';
        assert_eq!(copy.data(), b"payload");
        assert_eq!(copy.anno(), packet.anno());
        assert!(copy.push_in_place(5));
        assert_eq!(copy.data(), b"etherpayload");
        assert_eq!(copy.mac_header_offset(), Some(0));
    }

    #[test]
    fn jumbo_and_oversized_packets() {
        let packet = Packet::alloc(DEFAULT_HEADROOM, MAX_BUFFER).unwrap();
        assert_eq!((packet.len(), packet.headroom(), packet.tailroom()), (MAX_BUFFER, 0, 0));
        assert!(Packet::alloc(0, MAX_BUFFER + 1).is_none());
        assert!(packet.push(1).is_none());
        let packet = Packet::alloc(10, 9000).unwrap();
        assert_eq!(packet.len(), 9000);
        assert!(packet.put(MAX_BUFFER).is_none());
        let packet = Packet::from_bytes(&[7; 9000]).unwrap().put(10).unwrap();
        assert_eq!((packet.len(), packet.data()[8999], packet.data()[9000]), (9010, 7, 0));
        assert!(Packet::alloc(0, 10).unwrap().push(usize::MAX).is_none());
    }

    #[test]
    fn shifting_the_data_moves_the_headers() {
        let mut packet = Packet::alloc(2, 0).unwrap().put(6).unwrap();
        packet.data_mut().copy_from_slice(b"abcdef");
        packet.set_network_header(1, 2);
        let packet = packet.shift_data(-1).unwrap();
        assert_eq!((packet.data(), packet.headroom()), (&b"abcdef"[..], 1));
        assert_eq!(packet.network_header().unwrap(), b"bcdef");
        let packet = packet.shift_data(-3).unwrap();
        assert_eq!(packet.network_header().unwrap(), b"bcdef");
        let room = packet.tailroom() as isize;
        let packet = packet.shift_data(room + 1).unwrap();
        assert_eq!(packet.data(), b"abcdef");
        assert_eq!(packet.network_header_offset(), Some(1));
    }

    #[test]
    fn freed_packets_are_counted_one_by_one_and_in_bulk() {
        let packet = || Packet::from_bytes(b"a").unwrap();
        let batch: crate::Batch = (0..5).map(|_| packet()).collect();
        let kept = packet();
        assert_eq!(count_freed(|| drop((packet(), batch))), 6);
        assert_eq!(count_freed(|| drop(kept.duplicate())), 1);
        assert_eq!(count_freed(|| ()), 0);
    }

    #[test]
    fn packets_of_nothing_need_no_pool() {
        // Nothing is asked for, so that a thread without a pool might take its (missing) buffers for large
        // enough.
        let empty = Packet::alloc(0, 0).unwrap();
        assert_eq!((empty.len(), empty.headroom()), (0, 0));
        assert!(empty.is_heap());
        let copy = empty.duplicate().unwrap();
        assert_eq!((copy.len(), copy.headroom(), copy.tailroom() > 0), (0, 0, true));
        let mut stripped = Packet::from_bytes(&[]).unwrap();
        assert!(stripped.push_in_place(DEFAULT_HEADROOM) && stripped.take(DEFAULT_HEADROOM));
        let copy = stripped.duplicate().unwrap();
        assert_eq!((copy.len(), copy.headroom()), (0, 0));
    }

    #[test]
    fn packets_are_freed_on_another_thread() {
        let packets: Vec<Packet> = (0..3).map(|i| Packet::from_bytes(&[i]).unwrap()).collect();
        let packets = std::thread::spawn(move || {
            assert_eq!(packets[2].data(), [2]);
            drop(packets);
            (0..2).map(|_| Packet::alloc(0, 1).unwrap()).collect::<Vec<_>>()
        });
        drop(packets.join().unwrap());
    }
}
