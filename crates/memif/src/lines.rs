//! Cache lines that one process writes and another one reads, again and again.
//!
//! After the reader has read a line, both processors have it, and the writer's next store to it waits until
//! the reader's copy has gone: some 360 cycles on an AMD EPYC (Zen 4). The stores behind it wait too, and a
//! processor holds those of about two packets, so that this alone can be more than everything else that a
//! packet needs. A line that no cache has costs 30 to 50. So the writer stores past the caches, and the
//! reader drops what it has read, as the other side may be a driver that stores as usual
//! (doc/performance.md).

/// The size of a cache line, in bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const LINE: usize = 64;

/// Whether lines are better left in no cache: on AMD's processors. It was measured on a Zen 4.
pub(crate) fn are_left() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const CLFLUSHOPT: u32 = 1 << 23;
        let first = __cpuid(0);
        let name = [first.ebx, first.edx, first.ecx].map(u32::to_le_bytes).concat();
        let known = matches!(name.as_slice(), b"AuthenticAMD" | b"HygonGenuine");
        known && first.eax >= 7 && __cpuid_count(7, 0).ebx & CLFLUSHOPT != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Copies a frame past the caches, with zeros behind it up to the end of its last line. To be seen by whoever
/// sees what is written after it, it needs a [`fence`].
///
/// # Safety
/// `to` begins a cache line, can be written for `frame.len()` bytes and the rest of the last line, and is not
/// a part of `frame`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) unsafe fn store(frame: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_setzero_si128, _mm_stream_si128};
    const BLOCK: usize = 16;
    let (blocks, rest) = frame.as_chunks::<BLOCK>();
    let lines = frame.len().next_multiple_of(LINE) / BLOCK;
    // SAFETY: the processor has SSE2, as all of this kind have. Blocks up to the end of the last line can be
    // written and begin at multiples of their size, by the contract.
    unsafe {
        let mut to = to.cast::<__m128i>();
        let end = to.add(lines);
        for block in blocks {
            _mm_stream_si128(to, _mm_loadu_si128(block.as_ptr().cast()));
            to = to.add(1);
        }
        if !rest.is_empty() {
            let last = match frame.last_chunk::<BLOCK>() {
                // Without what is in the block before.
                Some(last) => u128::from_le_bytes(*last) >> (8 * (BLOCK - rest.len())),
                None => rest.iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte)),
            };
            _mm_stream_si128(to, std::mem::transmute::<u128, __m128i>(last));
            to = to.add(1);
        }
        while to < end {
            _mm_stream_si128(to, _mm_setzero_si128());
            to = to.add(1);
        }
    }
}

/// Writes 16 bytes past the caches.
///
/// # Safety
/// `to` is a multiple of 16, and can be written for as many bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) unsafe fn store_block(block: u128, to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_stream_si128};
    // SAFETY: by the contract; the processor has SSE2.
    unsafe { _mm_stream_si128(to.cast(), std::mem::transmute::<u128, __m128i>(block)) };
}

/// What was stored past the caches comes before what is stored from here on.
#[inline]
pub(crate) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Drops the lines of `length` bytes from all caches; what was written there stays in the memory.
///
/// # Safety
/// The bytes can be read, and [`are_left`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) unsafe fn drop_read(from: *const u8, length: usize) {
    for at in (0..length).step_by(LINE) {
        // SAFETY: it changes no memory; the processor has the instruction, by the contract.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) from.add(at), options(nostack, preserves_flags));
        }
    }
}
