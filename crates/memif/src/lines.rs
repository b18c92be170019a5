//! Cache lines that one process writes and another one reads, again and again.
//!
//! After the reader has read a line, both processors have it in their caches, and the writer's next store to
//! it waits until the reader's copy has gone. The stores behind it wait too, and a processor holds few of
//! them: on an AMD EPYC (Zen 4) that took 340 cycles of a packet, more than everything else together
//! (doc/performance.md). So the writer stores past the caches (non-temporal stores), and the reader flushes
//! what it has read from them, as the other side may be a driver that stores as usual.
//!
//! Where a processor has no such instructions, the functions here do the same by ordinary ones, or nothing.

/// Whether frames are better kept out of the caches: on AMD's processors. It was measured on a Zen 4.
pub(crate) fn bypass_caches() -> bool {
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

/// The size of a block that is written at once, in bytes.
const BLOCK: usize = 16;
/// The size of a cache line.
const LINE: usize = 64;

/// Writes a block past the caches. To be seen by whoever sees what is written after it, it needs a [`fence`].
///
/// # Safety
/// `to` is a multiple of [`BLOCK`], and can be written for as many bytes.
#[inline]
pub(crate) unsafe fn store_block(block: u128, to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: by the contract; the processor has SSE2, as all of this kind have.
    unsafe {
        use std::arch::x86_64::{__m128i, _mm_stream_si128};
        _mm_stream_si128(to.cast(), std::mem::transmute::<u128, __m128i>(block));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: by the contract.
    unsafe {
        to.cast::<u128>().write_unaligned(block);
    }
}

/// Copies a frame past the caches, with zeros behind it up to the end of its last line; see [`store_block`].
///
/// # Safety
/// `to` begins a cache line, can be written for `frame.len()` bytes and the rest of the last line, and is not
/// a part of `frame`.
#[inline]
pub(crate) unsafe fn store(frame: &[u8], to: *mut u8) {
    let (blocks, rest) = frame.as_chunks::<BLOCK>();
    let last = match frame.last_chunk::<BLOCK>() {
        _ if rest.is_empty() => None,
        // Without what is in the block before.
        Some(last) => Some(u128::from_le_bytes(*last) >> (8 * (BLOCK - rest.len()))),
        None => Some(rest.iter().rev().fold(0, |all, byte| all << 8 | u128::from(*byte))),
    };
    let put = |at: usize, block: u128| {
        // SAFETY: blocks up to the end of the last line can be written and begin at multiples of their size,
        // by the contract.
        unsafe { store_block(block.to_le(), to.add(BLOCK * at)) };
    };
    let mut at = 0;
    for block in blocks {
        put(at, u128::from_le_bytes(*block));
        at += 1;
    }
    if let Some(last) = last {
        put(at, last);
        at += 1;
    }
    while at < frame.len().next_multiple_of(LINE) / BLOCK {
        put(at, 0);
        at += 1;
    }
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

/// Flushes the lines of `length` bytes from all caches; what was written there stays in the memory.
///
/// # Safety
/// The bytes can be read, and the processor is one of [`bypass_caches`].
#[inline]
pub(crate) unsafe fn flush(from: *const u8, length: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for at in (0..length).step_by(LINE) {
        // SAFETY: it changes no memory; the processor has the instruction, by the contract.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) from.add(at), options(nostack, preserves_flags));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (from, length);
}
