//! `Batch`: several packets that are processed together. Elements pass only batches to each other.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::ptr;
use std::vec;

use dpdk_sys::rte_mbuf;

use crate::buffer::DEFAULT_HEADROOM;
use crate::packet::{Packet, note_freed};

/// Packets in order. Dropping or clearing a batch frees its packets, pool by pool.
#[derive(Default)]
pub struct Batch(Vec<Packet>);

impl Batch {
    /// An empty batch; allocates nothing.
    #[inline]
    pub const fn new() -> Batch {
        Batch(Vec::new())
    }

    /// An empty batch with room for `capacity` packets.
    #[inline]
    pub fn with_capacity(capacity: usize) -> Batch {
        Batch(Vec::with_capacity(capacity))
    }

    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.0.push(packet);
    }

    /// Appends `n` packets without data, with the usual headroom and default annotations, from the calling
    /// thread's pool ([`crate::set_thread_pool`]), or from the heap if it has none. Returns how many: none if
    /// the pool does not have that many, and at most 65536.
    #[inline]
    pub fn push_empty(&mut self, n: usize) -> usize {
        let n = n.min(1 << 16);
        let mbufs = self.spare_mbufs(n);
        // SAFETY: there is room for `n`.
        match unsafe { Packet::alloc_bulk(mbufs, n as u32) } {
            Some(true) => {
                // SAFETY: `n` mbufs fresh from a pool: one segment, one reference, no data, annotations
                // invalid since their flags have been cleared, memory that DPDK mapped zeroed.
                unsafe { self.grow_raw(n) };
                n
            }
            Some(false) => 0,
            None => {
                let before = self.len();
                self.extend((0..n).map_while(|_| Packet::alloc(DEFAULT_HEADROOM, 0)));
                self.len() - before
            }
        }
    }

    /// The packets as a `Vec`, for moving them into a queue or out of one.
    #[inline]
    pub fn packets_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.0
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.0.pop()
    }

    /// How many packets fit before it has to allocate.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Reserves memory for `additional` more packets.
    #[inline]
    pub fn reserve(&mut self, additional: usize) {
        self.0.reserve(additional);
    }

    /// Moves all packets of `other` to the end, keeping the capacity of both.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        self.0.append(&mut other.0);
    }

    /// Takes the packets of `range` out, in order; those not taken from the iterator are freed with it.
    #[inline]
    pub fn drain(&mut self, range: impl RangeBounds<usize>) -> vec::Drain<'_, Packet> {
        self.0.drain(range)
    }

    /// Removes the packet at `index` and moves those after it up.
    #[inline]
    pub fn remove(&mut self, index: usize) -> Packet {
        self.0.remove(index)
    }

    /// Puts a packet in at `index` and moves those from there on up.
    #[inline]
    pub fn insert(&mut self, index: usize, packet: Packet) {
        self.0.insert(index, packet);
    }

    /// Keeps the first `len` packets.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.0.len() {
            free(self.0.drain(len..), true);
        }
    }

    /// Frees all packets and keeps the capacity.
    #[inline]
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Moves the packets from `at` on into a batch of their own.
    #[inline]
    pub fn split_off(&mut self, at: usize) -> Batch {
        Batch(self.0.split_off(at))
    }

    /// Takes all packets out and leaves an empty batch without capacity.
    #[inline]
    pub fn take(&mut self) -> Batch {
        mem::take(self)
    }

    /// Replaces every packet by the result of `f`, or removes it, in order and without allocating.
    ///
    /// If `f` panics, the packets that it had not seen and those that it had returned remain.
    #[inline]
    pub fn filter_map_in_place(&mut self, mut f: impl FnMut(Packet) -> Option<Packet>) {
        /// `batch[..kept]` is done, `batch[kept..seen]` is moved out, `batch[seen..len]` is untouched.
        struct Hole<'a> {
            batch: &'a mut Vec<Packet>,
            kept: usize,
            seen: usize,
            len: usize,
        }
        impl Drop for Hole<'_> {
            #[inline]
            fn drop(&mut self) {
                let rest = self.len - self.seen;
                // SAFETY: the untouched packets move down over slots that hold nothing any more, within the
                // `Vec`.
                unsafe {
                    if rest != 0 && self.kept != self.seen {
                        let base = self.batch.as_mut_ptr();
                        ptr::copy(base.add(self.seen), base.add(self.kept), rest);
                    }
                    self.batch.set_len(self.kept + rest);
                }
            }
        }
        let len = self.0.len();
        // SAFETY: zero packets are certainly there; the guard restores the length, also when `f` panics.
        unsafe { self.0.set_len(0) };
        let mut hole = Hole { batch: &mut self.0, kept: 0, seen: 0, len };
        while hole.seen < hole.len {
            // SAFETY: slot `seen` holds a packet, which is moved out and counted as seen before `f` can
            // panic.
            let packet = unsafe { hole.batch.as_ptr().add(hole.seen).read() };
            hole.seen += 1;
            if let Some(packet) = f(packet) {
                // SAFETY: `kept < seen`, so the slot is within the `Vec` and holds nothing.
                unsafe { hole.batch.as_mut_ptr().add(hole.kept).write(packet) };
                hole.kept += 1;
            }
        }
    }

    /// Keeps the packets for which `f` returns true.
    #[inline]
    pub fn retain_mut(&mut self, f: impl FnMut(&mut Packet) -> bool) {
        self.0.retain_mut(f);
    }

    /// Room for `n` more mbufs at the end, and the place where they go; `set_len_raw` makes them packets.
    #[inline]
    pub(crate) fn spare_mbufs(&mut self, n: usize) -> *mut *mut rte_mbuf {
        self.0.reserve(n);
        // `Packet` is a transparent wrapper of a non-null `*mut rte_mbuf`.
        self.0.spare_capacity_mut().as_mut_ptr().cast()
    }

    /// # Safety
    /// The `n` slots after the end hold mbufs that meet the invariants of `Packet` and belong to nobody else.
    #[inline]
    pub(crate) unsafe fn grow_raw(&mut self, n: usize) {
        let len = self.0.len() + n;
        // SAFETY: by the contract of this function; `spare_mbufs` reserved the room.
        unsafe { self.0.set_len(len) };
    }

    /// The packets as mbufs, for a driver to take from the front of; `forget_front` then removes those taken.
    #[inline]
    pub(crate) fn as_mbufs_mut(&mut self) -> *mut *mut rte_mbuf {
        self.0.as_mut_ptr().cast()
    }

    /// Frees the first `n` packets, which have been sent: they are not counted ([`crate::count_freed`]).
    #[inline]
    pub(crate) fn free_sent(&mut self, n: usize) {
        free(self.0.drain(..n), false);
    }

    /// Removes the first `n` packets without freeing them.
    ///
    /// # Safety
    /// Somebody else owns the first `n` mbufs now, and `n <= len`.
    #[inline]
    pub(crate) unsafe fn forget_front(&mut self, n: usize) {
        let rest = self.0.len() - n;
        // SAFETY: the packets that are left move down within the `Vec` over slots whose content was given
        // away.
        unsafe {
            let base = self.0.as_mut_ptr();
            ptr::copy(base.add(n), base, rest);
            self.0.set_len(rest);
        }
    }
}

/// Frees packets in bulk: one call per 64 of a DPDK pool. They are counted as freed, or not.
fn free(packets: vec::Drain<'_, Packet>, counted: bool) {
    const BULK: usize = 64;
    let mut mbufs = [ptr::null_mut::<rte_mbuf>(); BULK];
    let mut n = 0;
    for packet in packets {
        if packet.is_heap() {
            if !counted {
                // SAFETY: it is of the heap, and its packet has just given it up.
                unsafe { Packet::free_heap(packet.into_raw()) };
            }
            continue;
        }
        mbufs[n] = packet.into_raw().as_ptr();
        n += 1;
        if n == BULK {
            if counted {
                note_freed(n as u64);
            }
            // SAFETY: `n` mbufs of pools, each given up by its packet just now.
            unsafe { dpdk_sys::valiant_free_bulk(mbufs.as_mut_ptr(), n as u32) };
            n = 0;
        }
    }
    if n != 0 {
        if counted {
            note_freed(n as u64);
        }
        // SAFETY: as above.
        unsafe { dpdk_sys::valiant_free_bulk(mbufs.as_mut_ptr(), n as u32) };
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

impl Deref for Batch {
    type Target = [Packet];

    #[inline]
    fn deref(&self) -> &[Packet] {
        &self.0
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Packet] {
        &mut self.0
    }
}

impl From<Vec<Packet>> for Batch {
    fn from(packets: Vec<Packet>) -> Batch {
        Batch(packets)
    }
}

impl FromIterator<Packet> for Batch {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        Batch(packets.into_iter().collect())
    }
}

impl Extend<Packet> for Batch {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.0.extend(packets);
    }
}

impl IntoIterator for Batch {
    type Item = Packet;
    type IntoIter = vec::IntoIter<Packet>;

    fn into_iter(mut self) -> vec::IntoIter<Packet> {
        mem::take(&mut self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Packet;
    type IntoIter = std::slice::Iter<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a mut Batch {
    type Item = &'a mut Packet;
    type IntoIter = std::slice::IterMut<'a, Packet>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn batch(bytes: &[u8]) -> Batch {
        bytes.iter().map(|&byte| Packet::from_bytes(&[byte]).unwrap()).collect()
    }

    fn bytes(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn filter_map_keeps_order_and_does_not_allocate() {
        let mut batch = batch(&[1, 2, 3, 4, 5]);
        let capacity = batch.capacity();
        batch.filter_map_in_place(|mut packet| {
            packet.data_mut()[0] *= 10;
            (packet.data()[0] != 30).then_some(packet)
        });
        assert_eq!(bytes(&batch), [10, 20, 40, 50]);
        assert_eq!(batch.capacity(), capacity);
        batch.filter_map_in_place(|_| None);
        assert!(batch.is_empty());
        batch.filter_map_in_place(Some);
        assert!(batch.is_empty());
    }

    #[test]
    fn filter_map_survives_a_panic() {
        let mut batch = batch(&[1, 2, 3, 4, 5]);
        let result = catch_unwind(AssertUnwindSafe(|| {
            batch.filter_map_in_place(|packet| match packet.data()[0] {
                1 => None,
                3 => panic!("on purpose"),
                _ => Some(packet),
            });
        }));
        assert!(result.is_err());
        assert_eq!(bytes(&batch), [2, 4, 5]);
    }

    #[test]
    fn empty_packets_are_filled() {
        let mut batch = batch(&[9]);
        assert_eq!(batch.push_empty(3), 3);
        for (i, packet) in batch.iter_mut().enumerate().skip(1) {
            assert_eq!((packet.len(), packet.headroom()), (0, crate::DEFAULT_HEADROOM));
            assert!(packet.assign(&[i as u8; 60]) && !packet.assign(&[0; crate::DEFAULT_DATA_ROOM + 1]));
            assert_eq!(packet.data(), [i as u8; 60]);
        }
        assert_eq!((bytes(&batch), batch.push_empty(0)), (vec![9, 1, 2, 3], 0));
    }

    #[test]
    fn append_split_truncate_drain() {
        let mut first = batch(&[1, 2]);
        let mut second = batch(&[3, 4, 5]);
        first.append(&mut second);
        assert!(second.is_empty());
        assert_eq!(first.drain(1..3).map(|packet| packet.data()[0]).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(bytes(&first), [1, 4, 5]);
        let last = first.split_off(2);
        assert_eq!(bytes(&last), [5]);
        first.truncate(1);
        first.truncate(7);
        assert_eq!(bytes(&first), [1]);
        assert_eq!(first.into_iter().count(), 1);
    }

    #[test]
    fn a_driver_takes_from_the_front() {
        let mut batch = batch(&[1, 2, 3]);
        for i in 0..2 {
            // SAFETY: the test plays the driver: it takes the first two, each once, and frees them.
            drop(unsafe { Packet::from_raw(ptr::NonNull::new(*batch.as_mbufs_mut().add(i)).unwrap()) });
        }
        // SAFETY: taken above.
        unsafe { batch.forget_front(2) };
        assert_eq!(bytes(&batch), [3]);
        let taken = Packet::from_bytes(&[9]).unwrap().into_raw();
        // SAFETY: one slot is reserved, and filled with an mbuf that was just given up.
        unsafe {
            batch.spare_mbufs(1).write(taken.as_ptr());
            batch.grow_raw(1);
        }
        assert_eq!(bytes(&batch), [3, 9]);
    }
}
