//! Mbufs of the heap that are mappings of their own: two pages, so that the second one can be closed.

use dpdk_sys::rte_mbuf;
use locks::IgnorePoison;
use std::collections::BTreeSet;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard};

/// Guarded mbufs, by their addresses: each is a mapping of its own.
static MAPPED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn mapped() -> MutexGuard<'static, BTreeSet<usize>> {
    MAPPED.lock().ignore_poison()
}

pub(super) fn page_size() -> Option<usize> {
    // SAFETY: asks for a constant.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()
}

/// Two new pages of `page` bytes each, zeroed, of which nobody else knows.
pub(super) fn map(page: usize) -> Option<NonNull<rte_mbuf>> {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { libc::mmap(null_mut(), 2 * page, rights, kind, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let mbuf = NonNull::new(base)?.cast::<rte_mbuf>();
    mapped().insert(mbuf.as_ptr() as usize);
    Some(mbuf)
}

/// Gives a guarded mbuf back; false if it is none.
///
/// # Safety
/// Nobody uses the mbuf any more.
pub(super) unsafe fn unmap(mbuf: NonNull<rte_mbuf>) -> bool {
    if !mapped().remove(&(mbuf.as_ptr() as usize)) {
        return false;
    }
    if let Some(page) = page_size() {
        // SAFETY: [`map`] has mapped two pages there, and nobody uses them any more.
        unsafe { libc::munmap(mbuf.as_ptr().cast(), 2 * page) };
    }
    true
}
