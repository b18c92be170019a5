//! Memory that is needed soon.

/// The bytes that a processor fetches at a time.
const LINE: usize = 64;

/// Asks the processor to fetch the memory of `what`, at most so many lines of it.
#[inline]
pub fn prefetch<T: ?Sized>(what: &T, most: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(what).cast::<i8>();
        for line in 0..size_of_val(what).div_ceil(LINE).min(most) {
            // SAFETY: a prefetch reads nothing architecturally, and faults nowhere.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE)) };
        }
    }
}

/// The same for the line at an address, of which nothing need be known: there may be no memory any more.
#[inline]
pub(crate) fn prefetch_address(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing architecturally, and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
}
