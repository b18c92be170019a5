//! Zeroed memory that costs nothing until it is touched.
//!
//! A route table is 64 MB of which most may never be used. `calloc` would do for that, but not for the second need: huge
//! pages, which a table of many routes wants (one TLB entry per 2 MB) and a small one does not (it would touch 2 MB per
//! route). So the pages come from `mmap`, aligned to 2 MB, and `advise_huge` is called when the table grows.
//!
//! This module holds all `unsafe` that the tables need for memory. Its invariant: `ptr` points to `N` consecutive
//! `AtomicU32` that were zeroed when made, are owned by this value alone, and stay mapped until it is dropped.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Alignment of the memory: one huge page of x86-64.
pub(crate) const ALIGN: usize = 2 << 20;

/// `N` atomics, all zero at first.
pub(crate) struct Zeroed<const N: usize> {
    ptr: NonNull<[AtomicU32; N]>,
    #[cfg(not(miri))]
    map: (NonNull<libc::c_void>, usize),
}

// SAFETY: the value owns its memory alone (module invariant), and the memory holds nothing but atomics, which are
// `Send` and `Sync`.
unsafe impl<const N: usize> Send for Zeroed<N> {}
// SAFETY: as above; shared access gives out references to atomics only.
unsafe impl<const N: usize> Sync for Zeroed<N> {}

impl<const N: usize> Zeroed<N> {
    /// The atomic at `index`; panics beyond `N`, which the compiler sees cannot be where the index has few enough bits.
    ///
    /// (References are made to what is asked for, not to all of it: Miri looks at every atomic behind a reference.)
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> &AtomicU32 {
        assert!(index < N);
        // SAFETY: module invariant, and `index` was checked.
        unsafe { self.ptr.cast::<AtomicU32>().add(index).as_ref() }
    }

    /// `L` atomics from `first` on; panics beyond `N`.
    #[inline(always)]
    pub(crate) fn array<const L: usize>(&self, first: usize) -> &[AtomicU32; L] {
        assert!(first <= N && L <= N - first);
        // SAFETY: module invariant, and `first..first + L` was checked; an array has its element's alignment.
        unsafe { self.ptr.cast::<AtomicU32>().add(first).cast::<[AtomicU32; L]>().as_ref() }
    }

    /// Writes to the page that holds entry `at`, without changing it. A page that is read before it is written is
    /// first mapped to the kernel's page of zeros, and Linux before 6.12 then never makes it a huge one.
    #[inline]
    pub(crate) fn touch(&self, at: usize) {
        // A compare-and-swap always writes on x86-64; compilers turn an addition of zero into a load.
        let _ = self.at(at).compare_exchange(0, 0, Relaxed, Relaxed);
    }
}

#[cfg(not(miri))]
impl<const N: usize> Zeroed<N> {
    const BYTES: usize = N * size_of::<AtomicU32>();

    /// Maps the pages; `None` when the kernel refuses.
    pub(crate) fn new() -> Option<Self> {
        // Room to move the start up to the alignment.
        let len = Self::BYTES + ALIGN;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(base)?;
        let skip = base.as_ptr().align_offset(ALIGN);
        // SAFETY: `skip` is below ALIGN (c_void has size 1), so `skip + BYTES` is inside the mapping.
        let ptr = unsafe { base.byte_add(skip) }.cast::<[AtomicU32; N]>();
        // Module invariant: fresh anonymous pages are zero, zero is a valid AtomicU32, the alignment is that of a page.
        Some(Self { ptr, map: (base, len) })
    }

    /// Asks for huge pages, for what was touched (Linux 6.1 and later) and what will be. Advice: nothing depends on
    /// the answer.
    pub(crate) fn advise_huge(&self) {
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_COLLAPSE] {
            // SAFETY: the range is inside our mapping, and neither advice changes what it holds.
            unsafe { libc::madvise(self.ptr.as_ptr().cast(), Self::BYTES, advice) };
        }
    }
}

#[cfg(not(miri))]
impl<const N: usize> Drop for Zeroed<N> {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `new`, is owned by `self` alone, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.map.0.as_ptr(), self.map.1) };
    }
}

/// Miri knows neither `madvise` nor alignment of mappings: there the memory comes from the allocator.
#[cfg(miri)]
impl<const N: usize> Zeroed<N> {
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: zero is a valid AtomicU32.
        let all = unsafe { Box::<[AtomicU32; N]>::new_zeroed().assume_init() };
        Some(Self { ptr: NonNull::from(Box::leak(all)) })
    }

    pub(crate) fn advise_huge(&self) {}
}

#[cfg(miri)]
impl<const N: usize> Drop for Zeroed<N> {
    fn drop(&mut self) {
        // SAFETY: `ptr` came from `Box::leak` in `new` and is freed once.
        drop(unsafe { Box::from_raw(self.ptr.as_ptr()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_writable_and_freed() {
        for _ in 0..3 {
            let m = Zeroed::<{ 1 << 16 }>::new().unwrap();
            m.advise_huge();
            m.touch(1 << 14);
            assert!((0..1 << 16).step_by(997).all(|i| m.at(i).load(Relaxed) == 0));
            m.at(0).store(1, Relaxed);
            m.at((1 << 16) - 1).store(2, Relaxed);
            assert_eq!(m.array::<2>(0)[0].load(Relaxed), 1);
            assert_eq!(m.array::<2>((1 << 16) - 2)[1].load(Relaxed), 2);
        }
    }
}
