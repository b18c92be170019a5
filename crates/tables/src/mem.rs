//! Zeroed memory that uses no pages until it is written.
//!
//! A route table is 64 MB of which most may never be used, and behind it the groups for long prefixes, 2 GB
//! at most, lie in one piece so that one base address serves both. Where addresses are scarce (`ulimit -v`),
//! there are fewer. `calloc` would do for neither, nor for huge pages, which a table of many routes wants
//! (one TLB entry per 2 MB) and a small one does not (it would touch 2 MB per route). So the pages come from
//! `mmap`, aligned to 2 MB: readable from end to end, which costs nothing, and writable as far as `grow`
//! went, for that is what the kernel counts as promised. `advise_huge` is called when the table becomes
//! large.
//!
//! This module holds all `unsafe` that the tables need for memory. Its invariant: `ptr` points to `mask + 1`
//! consecutive `AtomicU32` that were zeroed when made, are owned by this value alone, can be read, and stay
//! mapped until it is dropped; `mask + 1` is a power of two from `LEAST` to `MOST` and never changes; the
//! first `writable` of them can also be written, and that number never falls.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Alignment of the memory: one huge page of x86-64.
pub(crate) const ALIGN: usize = 2 << 20;

/// `MOST` atomics, all zero at first; where the system has not so many addresses, fewer, down to `LEAST`.
/// Powers of two.
pub(crate) struct Zeroed<const LEAST: usize, const MOST: usize> {
    ptr: NonNull<AtomicU32>,
    /// One less than how many there are.
    mask: usize,
    writable: AtomicUsize,
    #[cfg(not(miri))]
    map: (NonNull<libc::c_void>, usize),
}

// SAFETY: the value owns its memory alone (module invariant), and the memory holds nothing but atomics, which
// are `Send` and `Sync`.
unsafe impl<const LEAST: usize, const MOST: usize> Send for Zeroed<LEAST, MOST> {}
// SAFETY: as above; shared access gives out references to atomics only.
unsafe impl<const LEAST: usize, const MOST: usize> Sync for Zeroed<LEAST, MOST> {}

/// The most atomics of a [`Reading::chunk`]. All memory has at least so many.
const LARGEST_CHUNK: usize = 64;

/// Memory that is being read: its address, one less than how many atomics there are.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    ptr: NonNull<AtomicU32>,
    mask: usize,
    memory: PhantomData<&'a AtomicU32>,
}

impl<'a> Reading<'a> {
    /// `N` atomics, a power of two, that begin at a multiple of `N`, to be read: they may lie where nothing
    /// can be written. Bits of the index beyond the table, and those within the piece, are ignored.
    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(self, index: usize) -> &'a [AtomicU32; N] {
        const { assert!(N.is_power_of_two() && N <= LARGEST_CHUNK) };
        // SAFETY: module invariant: up to `mask` all can be read, and `N` divides how many there are, a
        // power of two that is not smaller.
        unsafe { self.ptr.add(index & self.mask & !(N - 1)).cast().as_ref() }
    }

    /// Begins to load what is at an index into the cache, if it is there.
    #[inline(always)]
    #[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(unused, reason = "nothing is done there"))]
    pub(crate) fn prefetch(self, index: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: every x86-64 processor has the instruction, which is a hint, reads nothing and may have any
        // address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.ptr.as_ptr().wrapping_add(index).cast());
        }
    }
}

impl<const LEAST: usize, const MOST: usize> Zeroed<LEAST, MOST> {
    /// What the atomic at `index` holds (relaxed); panics from `LEAST` on, which the compiler sees cannot be
    /// where the index has few enough bits.
    #[inline(always)]
    pub(crate) fn load(&self, index: usize) -> u32 {
        assert!(index < LEAST);
        // SAFETY: module invariant, and `index` was checked. The reference is used for reading only.
        unsafe { self.ptr.add(index).as_ref() }.load(Relaxed)
    }

    /// The same for an index of which bits beyond the table are ignored.
    #[inline(always)]
    pub(crate) fn load_masked(&self, index: usize) -> u32 {
        // SAFETY: module invariant: up to `mask` all can be read. The reference is used for reading only.
        unsafe { self.ptr.add(index & self.mask).as_ref() }.load(Relaxed)
    }

    /// The same memory to be read, for a loop: where it is then stays in registers.
    #[inline(always)]
    pub(crate) fn reading(&self) -> Reading<'_> {
        const { assert!(LARGEST_CHUNK <= LEAST) };
        Reading { ptr: self.ptr, mask: self.mask, memory: PhantomData }
    }

    /// [`Reading::chunk`].
    #[inline(always)]
    pub(crate) fn chunk_masked<const N: usize>(&self, index: usize) -> &[AtomicU32; N] {
        self.reading().chunk(index)
    }

    /// [`Reading::prefetch`].
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        self.reading().prefetch(index & self.mask);
    }

    /// One less than how many atomics can be read, a power of two.
    #[inline(always)]
    pub(crate) fn mask(&self) -> usize {
        self.mask
    }

    /// `len` atomics from `first` on, to be read and written; panics beyond what [`Zeroed::grow`] has made
    /// writable.
    ///
    /// (References are made to the requested part, not to all of it: Miri checks every atomic behind a
    /// reference.)
    #[inline(always)]
    pub(crate) fn slice(&self, first: usize, len: usize) -> &[AtomicU32] {
        let writable = self.writable.load(Acquire);
        assert!(first <= writable && len <= writable - first);
        // SAFETY: module invariant, and `first..first + len` was checked.
        unsafe { std::slice::from_raw_parts(self.ptr.add(first).as_ptr(), len) }
    }

    /// The first of the atomics, all of which can be read for as long as `self` lives.
    #[cfg_attr(miri, allow(dead_code, reason = "only the vector kernels use it"))]
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *const AtomicU32 {
        self.ptr.as_ptr()
    }

    /// Writes to the page that holds entry `at`, without changing it. A page that is read before it is
    /// written is first mapped to the kernel's page of zeros, and Linux before 6.12 then never makes it a
    /// huge one.
    #[inline]
    pub(crate) fn touch(&self, at: usize) {
        // A compare-and-swap always writes on x86-64; compilers turn an addition of zero into a load.
        for entry in self.slice(at, 1) {
            let _ = entry.compare_exchange(0, 0, Relaxed, Relaxed);
        }
    }
}

/// Gives freed memory back to the system, which the allocator may otherwise keep for ever.
pub(crate) fn give_back() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: the call only touches memory that is free.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// The limit of the process's address space in bytes (`ulimit -v`), if there is one.
#[cfg(not(miri))]
fn address_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes to `limit` and nothing else.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// A process with a limit gives one table no more than this part of its addresses, unless that is less than
/// the least.
#[cfg(not(miri))]
const SHARE: u64 = 8;

#[cfg(not(miri))]
impl<const LEAST: usize, const MOST: usize> Zeroed<LEAST, MOST> {
    /// Maps the pages, the first `writable` entries (at most `LEAST`) for writing; `None` when the kernel
    /// refuses.
    pub(crate) fn new(writable: usize) -> Option<Self> {
        Self::within(address_limit(), writable)
    }

    /// The same for a process with this limit to its addresses.
    fn within(limit: Option<u64>, writable: usize) -> Option<Self> {
        const { assert!(LEAST.is_power_of_two() && MOST.is_power_of_two() && LEAST <= MOST) };
        let bytes = |entries: usize| (entries * size_of::<AtomicU32>()) as u64;
        let mut entries = MOST;
        while entries > LEAST && limit.is_some_and(|limit| bytes(entries) > limit / SHARE) {
            entries /= 2;
        }
        loop {
            match Self::map(entries, writable) {
                None if entries > LEAST => entries /= 2,
                done => return done,
            }
        }
    }

    fn bytes(&self) -> usize {
        (self.mask + 1) * size_of::<AtomicU32>()
    }

    /// Maps so many entries.
    fn map(entries: usize, writable: usize) -> Option<Self> {
        // Room to move the start up to the alignment.
        let len = entries * size_of::<AtomicU32>() + ALIGN;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no memory that
        // exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
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
        // SAFETY: `skip` is below ALIGN (c_void has size 1), so `skip` and all entries are inside the
        // mapping.
        let ptr = unsafe { base.byte_add(skip) }.cast::<AtomicU32>();
        // Module invariant: fresh anonymous pages are zero, zero is a valid AtomicU32, the alignment is that
        // of a page.
        let memory = Self { ptr, mask: entries - 1, writable: AtomicUsize::new(0), map: (base, len) };
        memory.grow(writable).then_some(memory)
    }

    /// Makes the first `writable` entries, at most all, writable, rounded up to whole pages of 2 MB; `false`,
    /// and nothing has changed, when the kernel refuses.
    pub(crate) fn grow(&self, writable: usize) -> bool {
        let bytes = (writable * size_of::<AtomicU32>()).next_multiple_of(ALIGN).min(self.bytes());
        // SAFETY: the range is inside our mapping, and more rights take nothing from anybody who uses it.
        let done =
            unsafe { libc::mprotect(self.ptr.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if done == 0 {
            self.writable.fetch_max(bytes / size_of::<AtomicU32>(), Release);
        }
        done == 0
    }

    /// Asks for huge pages, for what was touched (Linux 6.1 and later) and what will be. Advice: nothing
    /// depends on the answer.
    pub(crate) fn advise_huge(&self) {
        let used = self.writable.load(Acquire) * size_of::<AtomicU32>();
        for (bytes, advice) in [(self.bytes(), libc::MADV_HUGEPAGE), (used, libc::MADV_COLLAPSE)] {
            // SAFETY: the range is inside our mapping, and neither advice changes what it holds.
            unsafe { libc::madvise(self.ptr.as_ptr().cast(), bytes, advice) };
        }
    }
}

#[cfg(not(miri))]
impl<const LEAST: usize, const MOST: usize> Drop for Zeroed<LEAST, MOST> {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `new`, is owned by `self` alone, and no borrow of it outlives
        // `self`.
        unsafe { libc::munmap(self.map.0.as_ptr(), self.map.1) };
    }
}

/// Miri knows neither `madvise` nor alignment of mappings: there the memory comes from the allocator. It is
/// never in a `Box`, of which Miri would look at every atomic each time that it is moved.
#[cfg(miri)]
impl<const LEAST: usize, const MOST: usize> Zeroed<LEAST, MOST> {
    const LAYOUT: std::alloc::Layout = std::alloc::Layout::new::<[AtomicU32; MOST]>();

    pub(crate) fn new(writable: usize) -> Option<Self> {
        const { assert!(MOST > 0) };
        // SAFETY: the size is not zero.
        let ptr = NonNull::new(unsafe { std::alloc::alloc_zeroed(Self::LAYOUT) })?.cast();
        // Module invariant: the memory is zeroed, and zero is a valid AtomicU32.
        let memory = Self { ptr, mask: MOST - 1, writable: AtomicUsize::new(0) };
        memory.grow(writable).then_some(memory)
    }

    /// Rounds up as the other does.
    pub(crate) fn grow(&self, writable: usize) -> bool {
        let rounded = writable.next_multiple_of(ALIGN / size_of::<AtomicU32>());
        self.writable.fetch_max(rounded.min(MOST), Release);
        true
    }

    pub(crate) fn advise_huge(&self) {}
}

#[cfg(miri)]
impl<const LEAST: usize, const MOST: usize> Drop for Zeroed<LEAST, MOST> {
    fn drop(&mut self) {
        // SAFETY: `new` took the memory with this layout, it is owned by `self` alone, and no borrow of it
        // outlives `self`.
        unsafe { std::alloc::dealloc(self.ptr.as_ptr().cast(), Self::LAYOUT) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_writable_and_freed() {
        for _ in 0..3 {
            let m = Zeroed::<{ 1 << 21 }, { 1 << 21 }>::new(1 << 16).unwrap();
            m.advise_huge();
            m.touch(1 << 14);
            assert!((0..1 << 21).step_by(if cfg!(miri) { 99_991 } else { 997 }).all(|i| m.load(i) == 0));
            m.slice(0, 1)[0].store(1, Relaxed);
            m.slice((1 << 16) - 1, 1)[0].store(2, Relaxed);
            assert_eq!((m.load(0), m.load((1 << 16) - 1)), (1, 2));
            assert!(m.grow(1 << 20) && m.grow(1 << 17));
            m.slice((1 << 20) - 2, 2)[1].store(3, Relaxed);
            assert_eq!((m.load(0), m.load((1 << 20) - 1)), (1, 3));
        }
    }

    #[test]
    #[should_panic(expected = "assertion failed")]
    fn what_is_not_writable_is_not_given_out() {
        Zeroed::<{ 1 << 21 }, { 1 << 21 }>::new(1 << 16).unwrap().slice(1 << 20, 1);
    }

    #[test]
    #[cfg(not(miri))]
    fn a_process_with_few_addresses_gets_a_smaller_piece() {
        const MB: u64 = 1 << 20;
        // 8 to 64 MB.
        type Piece = Zeroed<{ 2 << 20 }, { 16 << 20 }>;
        let limits =
            [(None, 64), (Some(512 * MB), 64), (Some(511 * MB), 32), (Some(128 * MB), 16), (Some(MB), 8)];
        for (limit, megabytes) in limits {
            let m = Piece::within(limit, 2 << 20).unwrap();
            assert_eq!(m.mask() + 1, megabytes << 18, "{limit:?}");
            m.slice(1 << 20, 1)[0].store(7, Relaxed);
            assert!(m.grow(16 << 20));
            let last = m.mask();
            m.slice(last, 1)[0].store(9, Relaxed);
            assert_eq!((m.load_masked(last), m.load_masked(last + (16 << 20)), m.load(1 << 20)), (9, 9, 7));
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn what_the_kernel_refuses_is_tried_smaller() {
        // 2^50 bytes and more are no addresses of a process.
        let m = Zeroed::<{ 1 << 21 }, { 1 << 50 }>::new(1 << 16).unwrap();
        assert!(m.mask() >= (1 << 21) - 1 && m.mask() < 1 << 48);
    }
}
