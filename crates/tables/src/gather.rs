//! The two loads of a route lookup, for many addresses at once.
//!
//! The first pass starts the load of every address's entry in the upper level, the second that of every entry
//! which is a group's number. Within a pass no load depends on another, so the processor has as many cache
//! misses in flight as it can; apart from that, wide registers save instructions. Which instructions there
//! are is found out once, at run time.
//!
//! This module holds all `unsafe` that wide instructions need. Its invariants: a [`Kernel`] exists only where
//! the processor has its instructions; every index is below the table's length, all of which can be read
//! ([`Zeroed`]): it has 24 bits, which every table has room for, or is cut to the table's mask. Loads are
//! written in assembly because other threads store to the table meanwhile: what an `asm!` block does is what
//! the processor does, here aligned loads of 32 bits, each of which is atomic (a relaxed load), while for the
//! intrinsics Rust has no such promise. Miri sees the scalar kernel only.

use crate::mem::Zeroed;

/// Bit 31 of an entry: the other bits are the number of the group of 256 entries that has the next hop.
pub(crate) const GROUP: u32 = 1 << 31;
/// The next hop in an entry that is final; an entry of zero stands for the default route.
pub(crate) const HOP_MASK: u32 = (1 << 25) - 1;

/// Addresses that are looked up together.
pub(crate) const BLOCK: usize = 64;

/// Instructions to look routes up with: ordinary ones, AVX2 or AVX-512. They give the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Scalar,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512,
}

impl Kernel {
    /// Ordinary instructions.
    pub const SCALAR: Self = Self(Width::Scalar);

    /// Every kernel that this processor can run, narrowest first.
    pub fn usable() -> Vec<Self> {
        #[allow(unused_mut, reason = "other processors, and Miri, have no other kernel")]
        let mut kernels = vec![Self::SCALAR];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx2") {
                kernels.push(Self(Width::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                kernels.push(Self(Width::Avx512));
            }
        }
        kernels
    }

    /// The one with the widest instructions.
    pub fn widest() -> Self {
        Self::usable().pop().unwrap_or(Self::SCALAR)
    }

    /// The one for lookups between other work: the widest, but without 512-bit registers on processors whose
    /// clock is slower for a while after they are used (Intel's Skylake-SP, Cascade Lake and Cooper Lake), as
    /// the other work would lose more than lookups gain.
    pub fn between_other_work() -> Self {
        let mut kernels = Self::usable();
        if slower_after_avx512() {
            kernels.retain(|kernel| kernel.name() != "avx512");
        }
        kernels.pop().unwrap_or(Self::SCALAR)
    }

    /// `scalar`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Width::Scalar => "scalar",
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx2 => "avx2",
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx512 => "avx512",
        }
    }

    /// Fills `entries`, as long as `addrs`, with the entries of the upper level; whether any of them is a
    /// group.
    #[inline]
    pub(crate) fn first<const LEAST: usize, const MOST: usize>(
        self,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) -> bool {
        const { assert!(LEAST >= 1 << 24 && MOST <= 1 << 31) };
        match self.0 {
            Width::Scalar => scalar::first(table, addrs, entries),
            // SAFETY: the kernel exists, so the processor has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx2 => unsafe { avx2::first(table, addrs, entries) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx512 => unsafe { avx512::first(table, addrs, entries) },
        }
    }

    /// Turns what [`Kernel::first`] found, for at most [`BLOCK`] addresses, into next hops.
    #[inline]
    pub(crate) fn second<const LEAST: usize, const MOST: usize>(
        self,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        const { assert!(MOST <= 1 << 31) };
        match self.0 {
            Width::Scalar => scalar::second(table, addrs, entries, default),
            // SAFETY: the kernel exists, so the processor has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx2 => unsafe { avx2::second(table, addrs, entries, default) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx512 => unsafe { avx512::second(table, addrs, entries, default) },
        }
    }
}

/// Whether this is one of the processors with a slower clock after 512-bit instructions: model 85 of Intel's
/// family 6.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn slower_after_avx512() -> bool {
    let version = std::arch::x86_64::__cpuid(1).eax;
    let family = version >> 8 & 0xf;
    let model = version >> 12 & 0xf0 | version >> 4 & 0xf;
    (family, model) == (6, 85)
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn slower_after_avx512() -> bool {
    false
}

/// The index of an address's entry in a group. Bit 31 of the group's entry and other bits without meaning are
/// still set in it.
#[inline(always)]
pub(crate) fn in_group(group: u32, addr: u32) -> usize {
    (group << 8 | addr & 0xff) as usize
}

/// The next hop that a final entry stands for.
#[inline(always)]
pub(crate) fn hop(entry: u32, default: u32) -> u32 {
    if entry == 0 { default } else { entry & HOP_MASK }
}

mod scalar {
    use super::{BLOCK, GROUP, Zeroed, hop, in_group};

    #[inline]
    pub(super) fn first<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) -> bool {
        let mut all = 0;
        for (addr, entry) in addrs.iter().zip(entries) {
            *entry = table.load((addr >> 8) as usize);
            all |= *entry;
        }
        all & GROUP != 0
    }

    #[inline]
    pub(super) fn second<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        // No branch depends on what was loaded.
        let mut deep = [0u8; BLOCK];
        let mut deep_len = 0;
        for (i, entry) in entries.iter_mut().enumerate() {
            deep[deep_len % BLOCK] = i as u8;
            deep_len += (*entry >> 31) as usize;
            *entry = if *entry & GROUP != 0 { *entry } else { hop(*entry, default) };
        }
        for &i in deep.iter().take(deep_len) {
            if let (Some(&addr), Some(entry)) = (addrs.get(usize::from(i)), entries.get_mut(usize::from(i))) {
                *entry = hop(table.load_masked(in_group(*entry, addr)), default);
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512 {
    use super::{HOP_MASK, Zeroed};
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    /// For each lane of `lanes` the entry at its index, for the others `rest`.
    ///
    /// # Safety
    /// The indices of `lanes` are below the length of the table.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn gather<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        indices: __m512i,
        lanes: __mmask16,
        rest: __m512i,
    ) -> __m512i {
        let mut entries = rest;
        // SAFETY: reads aligned atomics that can be read, for the indices are below the length (the caller)
        // and all entries are readable (Zeroed). Registers that change are outputs.
        unsafe {
            asm!(
                "vpgatherdd {entries} {{{lanes}}}, dword ptr [{base} + {indices} * 4]",
                entries = inout(zmm_reg) entries,
                lanes = inout(kreg) lanes => _,
                base = in(reg) table.as_ptr(),
                indices = in(zmm_reg) indices,
                options(nostack, readonly, preserves_flags)
            );
        }
        entries
    }

    /// Calls `each` for 16 lanes at a time, fewer in the end: addresses, lanes in use, where the entries are.
    #[inline(always)]
    fn lanes(addrs: &[u32], entries: &mut [u32], mut each: impl FnMut(&[u32], __mmask16, &mut [u32])) {
        let (many, rest) = addrs.as_chunks::<LANES>();
        let (entries, entries_rest) = entries.as_chunks_mut::<LANES>();
        for (addrs, entries) in many.iter().zip(entries) {
            each(addrs, !0, entries);
        }
        if !rest.is_empty() && rest.len() == entries_rest.len() {
            each(rest, (1 << rest.len()) - 1, entries_rest);
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn first<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) -> bool {
        let mut all = _mm512_setzero_si512();
        lanes(addrs, entries, |addrs, lanes, out| {
            // SAFETY: `lanes` has a bit for each of `addrs` and of `out`, no more; others are not touched. An
            // index of 24 bits is below the length.
            unsafe {
                let addr = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
                let e = gather(table, _mm512_srli_epi32::<8>(addr), lanes, _mm512_setzero_si512());
                all = _mm512_or_si512(all, e);
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, e);
            }
        });
        _mm512_cmplt_epi32_mask(all, _mm512_setzero_si512()) != 0
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn second<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        let default = _mm512_set1_epi32(default as i32);
        let mask = _mm512_set1_epi32(table.mask() as i32);
        let zero = _mm512_setzero_si512();
        lanes(addrs, entries, |addrs, lanes, out| {
            // SAFETY: `lanes` as in `first`. The indices are cut to the table's mask.
            unsafe {
                let mut e = _mm512_maskz_loadu_epi32(lanes, out.as_ptr().cast());
                let groups = _mm512_cmplt_epi32_mask(e, zero);
                if groups != 0 {
                    let addr = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
                    let low = _mm512_and_si512(addr, _mm512_set1_epi32(0xff));
                    let index = _mm512_or_si512(_mm512_slli_epi32::<8>(e), low);
                    e = gather(table, _mm512_and_si512(index, mask), groups, e);
                }
                let hops = _mm512_and_si512(e, _mm512_set1_epi32(HOP_MASK as i32));
                let hops = _mm512_mask_mov_epi32(hops, _mm512_cmpeq_epi32_mask(e, zero), default);
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, hops);
            }
        });
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use super::{GROUP, HOP_MASK, Zeroed, scalar};
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 8;

    /// For each lane with bit 31 of `lanes` the entry at its index, for the others `rest`.
    ///
    /// # Safety
    /// The indices of `lanes` are below the length of the table.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        indices: __m256i,
        lanes: __m256i,
        rest: __m256i,
    ) -> __m256i {
        let mut entries = rest;
        // SAFETY: reads aligned atomics that can be read, for the indices are below the length (the caller)
        // and all entries are readable (Zeroed). Registers that change are outputs.
        unsafe {
            asm!(
                "vpgatherdd {entries}, dword ptr [{base} + {indices} * 4], {lanes}",
                entries = inout(ymm_reg) entries,
                lanes = inout(ymm_reg) lanes => _,
                base = in(reg) table.as_ptr(),
                indices = in(ymm_reg) indices,
                options(nostack, readonly, preserves_flags)
            );
        }
        entries
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn first<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) -> bool {
        let (many, rest) = addrs.as_chunks::<LANES>();
        let (out, out_rest) = entries.as_chunks_mut::<LANES>();
        let mut all = _mm256_setzero_si256();
        for (addrs, out) in many.iter().zip(out) {
            // SAFETY: eight addresses, eight places. An index of 24 bits is below the length.
            unsafe {
                let addr = _mm256_loadu_si256(addrs.as_ptr().cast());
                let index = _mm256_srli_epi32::<8>(addr);
                let e = gather(table, index, _mm256_set1_epi32(-1), _mm256_setzero_si256());
                all = _mm256_or_si256(all, e);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), e);
            }
        }
        let rest = scalar::first(table, rest, out_rest);
        _mm256_movemask_ps(_mm256_castsi256_ps(all)) != 0 || rest
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn second<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        let (many, rest) = addrs.as_chunks::<LANES>();
        let (out, out_rest) = entries.as_chunks_mut::<LANES>();
        let default_hops = _mm256_set1_epi32(default as i32);
        let mask = _mm256_set1_epi32(table.mask() as i32);
        for (addrs, out) in many.iter().zip(out) {
            // SAFETY: eight addresses, eight places. The indices are cut to the table's mask.
            unsafe {
                let mut e = _mm256_loadu_si256(out.as_ptr().cast());
                if _mm256_movemask_ps(_mm256_castsi256_ps(e)) != 0 {
                    let addr = _mm256_loadu_si256(addrs.as_ptr().cast());
                    let low = _mm256_and_si256(addr, _mm256_set1_epi32(0xff));
                    let index = _mm256_or_si256(_mm256_slli_epi32::<8>(e), low);
                    // Bit 31 of an entry says that it is a group: the entries are their own mask.
                    const { assert!(GROUP == 1 << 31) };
                    e = gather(table, _mm256_and_si256(index, mask), e, e);
                }
                let hops = _mm256_and_si256(e, _mm256_set1_epi32(HOP_MASK as i32));
                let none = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
                _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_blendv_epi8(hops, default_hops, none));
            }
        }
        scalar::second(table, rest, out_rest, default);
    }
}
