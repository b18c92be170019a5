//! Mbufs of the heap: made, freed, and kept by the thread that has freed them.

use crate::buffer::{HEADER_SIZE, PRIVATE_SIZE, STANDARD_BUFFER};
use crate::fault::Fault;
use dpdk_sys::rte_mbuf;
use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The number of freed heap buffers that a thread keeps: 2.4 MB. None if a tool checks for uses after free:
/// it detects these only if memory is really freed.
#[allow(unexpected_cfgs, reason = "scripts/test sets `sanitized`, cargo-fuzz `fuzzing`")]
const FREE_LIST_MAX: usize = if cfg!(any(miri, sanitized, fuzzing)) { 0 } else { 1024 };

/// Whether there has been a heap mbuf. Whoever gets one from another thread, by a lock or a queue, sees that.
static MADE: AtomicBool = AtomicBool::new(false);

/// Whether there may be a packet from the heap: in most routers there never is one.
#[inline]
pub(crate) fn any() -> bool {
    MADE.load(Relaxed)
}

/// A packet gets an mbuf of the heap.
pub(super) fn note_made() {
    // Most often it is set already: a store each time would take the line away from other processors.
    if !MADE.load(Relaxed) {
        MADE.store(true, Relaxed);
    }
}

thread_local! {
    static FREE_LIST: FreeList = const { FreeList { head: Cell::new(null_mut()), len: Cell::new(0) } };
}

/// Freed heap mbufs with a standard buffer, linked through `next`.
struct FreeList {
    head: Cell<*mut rte_mbuf>,
    len: Cell<usize>,
}

impl FreeList {
    fn pop(&self) -> Option<NonNull<rte_mbuf>> {
        let mbuf = NonNull::new(self.head.get())?;
        // SAFETY: mbufs in the list are live heap mbufs that belong to the list.
        self.head.set(unsafe { (*mbuf.as_ptr()).next });
        self.len.set(self.len.get() - 1);
        Some(mbuf)
    }

    /// Takes the mbuf unless the list is full.
    fn push(&self, mbuf: NonNull<rte_mbuf>) -> bool {
        if self.len.get() >= FREE_LIST_MAX {
            return false;
        }
        // SAFETY: the caller hands over a live heap mbuf.
        unsafe { (*mbuf.as_ptr()).next = self.head.get() };
        self.head.set(mbuf.as_ptr());
        self.len.set(self.len.get() + 1);
        true
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        while let Some(mbuf) = self.pop() {
            // SAFETY: it was in the list, and is no longer.
            unsafe { dealloc(mbuf) };
        }
    }
}

fn layout(buffer: u16) -> Layout {
    let size = HEADER_SIZE + usize::from(buffer);
    Layout::from_size_align(size, align_of::<rte_mbuf>()).expect("66 kB aligned to a cache line is a layout")
}

/// A heap mbuf with `buffer` bytes behind it, of which none is data; its link and its buffer's content are
/// anything.
pub(super) fn alloc(buffer: u16) -> Option<NonNull<rte_mbuf>> {
    if Fault::Heap.strikes() {
        return None;
    }
    let standard = usize::from(buffer) == STANDARD_BUFFER;
    if standard && let Some(mbuf) = FREE_LIST.try_with(FreeList::pop).ok().flatten() {
        return Some(mbuf);
    }
    // SAFETY: the layout's size is not zero.
    let mbuf = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(buffer)) })?.cast::<rte_mbuf>();
    // SAFETY: the block is zeroed, which is a valid `rte_mbuf` (integers and pointers), large enough for the
    // header and the buffer after it, and nobody else knows it.
    unsafe {
        let raw = mbuf.as_ptr();
        (*raw).buf_addr = raw.byte_add(HEADER_SIZE).cast();
        (*raw).buf_len = buffer;
        (*raw).priv_size = PRIVATE_SIZE as u16;
    }
    note_made();
    Some(mbuf)
}

/// Frees a heap mbuf.
///
/// # Safety
/// `mbuf` came from [`alloc`] and nobody uses it any more.
#[cold]
unsafe fn dealloc(mbuf: NonNull<rte_mbuf>) {
    #[cfg(any(test, feature = "testing"))]
    // SAFETY: nobody uses the mbuf any more.
    if unsafe { super::mapped::unmap(mbuf) } {
        return;
    }
    // SAFETY: the layout is the one it was allocated with, since `buf_len` never changes.
    unsafe { std::alloc::dealloc(mbuf.as_ptr().cast(), layout((*mbuf.as_ptr()).buf_len)) };
}

/// Takes a heap mbuf back: to the thread's free list, else to the allocator.
///
/// # Safety
/// As [`dealloc`].
pub(super) unsafe fn free(mbuf: NonNull<rte_mbuf>) {
    // SAFETY: the mbuf is live.
    let standard = unsafe { (*mbuf.as_ptr()).buf_len } as usize == STANDARD_BUFFER;
    if !standard || !FREE_LIST.try_with(|list| list.push(mbuf)).unwrap_or(false) {
        // SAFETY: by the contract of this function; the list did not take it.
        unsafe { dealloc(mbuf) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packet;

    #[test]
    fn the_free_list_is_bounded() {
        let packets: Vec<Packet> = (0..FREE_LIST_MAX + 5).map(|_| Packet::alloc(0, 1).unwrap()).collect();
        drop(packets);
        assert_eq!(FREE_LIST.with(|list| list.len.get()), FREE_LIST_MAX);
    }
}
