//! The loads of a route lookup, for many addresses at once.
//!
//! The first pass starts the load of the header of every address's line, the second that of its entry in the
//! line or in a block, and the third those of the entries that are a group's number, and of the short
//! prefixes where there is none. Within a pass no load depends on another, so the processor has as many cache
//! misses in flight as it can; apart from that, wide registers save instructions. Which instructions there
//! are is found out once, at run time.
//!
//! In a *large* table, where most lines are not in the processor's own cache, prefetches come first: those of
//! all lines before the first pass (with ordinary instructions, some addresses ahead), and, except with AVX2,
//! those of groups as soon as their numbers are known. They wait for nothing and take one instruction each,
//! while a gather, or a load whose result is used, fills the processor's window until the data comes. Where
//! lines are in the cache they would only cost time.
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
/// The next hop in an entry that is final; an entry of zero stands for a short prefix or the default route.
pub(crate) const HOP_MASK: u32 = (1 << 25) - 1;

/// The /24s of a line: those of a /19.
pub(crate) const SLOTS: usize = 32;
/// A line fills a cache line: its header, then the entries of its runs. Bits 1 to 31 of the header say at
/// which slots a run begins, in addition to slot 0. With `EXPANDED`, the entries are in a block, one for each
/// slot, and the other bits are the block's number.
pub(crate) const LINE_LEN: usize = 16;
/// The header's bit for a line whose entries are in a block.
pub(crate) const EXPANDED: u32 = 1;
/// The table begins with the lines of all addresses.
const LINES: usize = 1 << 19;
/// Then follow entries for the prefixes of at most this many bits, one for each value of these bits.
pub(crate) const SHORT_BITS: u32 = 12;
/// Where those begin.
pub(crate) const SHORT: usize = LINES * LINE_LEN;

/// Addresses that are looked up together.
pub(crate) const BLOCK: usize = 64;

/// Instructions to look routes up with: ordinary ones, AVX2 or AVX-512. They give the same answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
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
            let counts = is_x86_feature_detected!("popcnt");
            if counts && is_x86_feature_detected!("avx2") {
                kernels.push(Self(Width::Avx2));
            }
            if counts && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
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

    /// Which instructions they are.
    #[inline(always)]
    pub(crate) fn width(self) -> Width {
        self.0
    }

    /// Fills `hops`, as long as `addrs`, with the next hops of these addresses, at most [`BLOCK`]; `large`
    /// says what kind of table it is.
    #[inline]
    pub(crate) fn look_up<const LEAST: usize, const MOST: usize>(
        self,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        hops: &mut [u32],
        default: u32,
        large: bool,
    ) {
        const { assert!(LEAST >= 1 << 24 && MOST <= 1 << 31) };
        match self.0 {
            Width::Scalar => scalar::look_up(table, addrs, hops, default, large),
            // SAFETY: the kernel exists, so the processor has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx2 => unsafe { avx2::look_up(table, addrs, hops, default, large) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx512 => unsafe { avx512::look_up(table, addrs, hops, default, large) },
        }
    }
}

/// Begins to load the lines of these addresses.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn prefetch_lines<const LEAST: usize, const MOST: usize>(table: &Zeroed<LEAST, MOST>, addrs: &[u32]) {
    for addr in addrs {
        table.prefetch(line(*addr));
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

/// The index of the header of an address's line.
#[inline(always)]
pub(crate) fn line(addr: u32) -> usize {
    (addr >> 13) as usize * LINE_LEN
}

/// The index of the entry of an address's /24, by the header of its line.
#[inline(always)]
pub(crate) fn place(header: u32, addr: u32) -> usize {
    let slot = addr >> 8 & 31;
    // The run with the slot is the one that begins last, there or before.
    let run = (header & (2u32 << slot).wrapping_sub(1)).count_ones();
    let in_block = (header >> 1 << 5 | slot) as usize;
    if header & EXPANDED == 0 { line(addr) + 1 + run as usize } else { in_block }
}

/// The index of the entry of an address's short prefixes.
#[inline(always)]
pub(crate) fn in_short(addr: u32) -> usize {
    SHORT + (addr >> (32 - SHORT_BITS)) as usize
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
    use super::{BLOCK, GROUP, HOP_MASK, Zeroed, hop, in_group, in_short, line, place};
    use std::sync::atomic::{Ordering::Acquire, fence};

    #[inline]
    pub(super) fn headers<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) {
        for (addr, entry) in addrs.iter().zip(entries) {
            *entry = table.load(line(*addr));
        }
    }

    /// In a large table, how many addresses before its turn a line is prefetched.
    const AHEAD: usize = 24;

    /// Turns headers into next hops; in a large table it loads the headers itself.
    #[inline(always)]
    fn each<const LARGE: bool, const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        // No branch depends on what was loaded. Entries that are not final, groups and zero, are not
        // positive.
        let mut open = [0u8; BLOCK];
        let mut open_len = 0;
        for addr in addrs.iter().take(if LARGE { AHEAD } else { 0 }) {
            table.prefetch(line(*addr));
        }
        for (i, (addr, entry)) in addrs.iter().zip(entries.iter_mut()).enumerate() {
            if LARGE {
                table.prefetch(line(*addrs.get(i + AHEAD).unwrap_or(addr)));
                *entry = table.load(line(*addr));
                fence(Acquire);
            }
            let at = place(*entry, *addr);
            let e = table.load_masked(at);
            if LARGE {
                table.prefetch(if e & GROUP != 0 { in_group(e, *addr) } else { at });
            }
            open[open_len % BLOCK] = i as u8;
            open_len += usize::from(e as i32 <= 0);
            *entry = if e as i32 <= 0 { e } else { e & HOP_MASK };
        }
        fence(Acquire);
        for &i in open.iter().take(open_len) {
            let (Some(&addr), Some(entry)) = (addrs.get(usize::from(i)), entries.get_mut(usize::from(i)))
            else {
                return;
            };
            let mut e = *entry;
            if e & GROUP != 0 {
                e = table.load_masked(in_group(e, addr));
                fence(Acquire);
            }
            if e == 0 {
                e = table.load(in_short(addr));
            }
            *entry = hop(e, default);
        }
    }

    /// [`each`] with an instruction that counts bits.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "popcnt")]
    fn each_popcnt<const LARGE: bool, const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        each::<LARGE, _, _>(table, addrs, entries, default);
    }

    #[inline]
    pub(super) fn hops<const LARGE: bool, const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instruction.
            return unsafe { each_popcnt::<LARGE, _, _>(table, addrs, entries, default) };
        }
        each::<LARGE, _, _>(table, addrs, entries, default);
    }

    #[inline]
    pub(super) fn look_up<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        out: &mut [u32],
        default: u32,
        large: bool,
    ) {
        if large {
            return hops::<true, _, _>(table, addrs, out, default);
        }
        headers(table, addrs, out);
        fence(Acquire);
        hops::<false, _, _>(table, addrs, out, default);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512 {
    use super::{EXPANDED, HOP_MASK, LINE_LEN, SHORT, SHORT_BITS, SLOTS, Zeroed, prefetch_lines};
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::sync::atomic::{Ordering::Acquire, fence};

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

    /// The number of ones in each lane, in whose bytes at most four bits of each half are counted.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn count_ones(bits: __m512i) -> __m512i {
        let counts = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let low_half = _mm512_set1_epi8(15);
        let low = _mm512_shuffle_epi8(counts, _mm512_and_si512(bits, low_half));
        let high = _mm512_shuffle_epi8(counts, _mm512_and_si512(_mm512_srli_epi32::<4>(bits), low_half));
        let bytes = _mm512_maddubs_epi16(_mm512_add_epi8(low, high), _mm512_set1_epi8(1));
        _mm512_madd_epi16(bytes, _mm512_set1_epi16(1))
    }

    /// The index of the header of each address's line.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn line(addr: __m512i) -> __m512i {
        const { assert!(LINE_LEN == 16) };
        _mm512_slli_epi32::<4>(_mm512_srli_epi32::<13>(addr))
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn look_up<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        out: &mut [u32],
        default: u32,
        large: bool,
    ) {
        if large {
            prefetch_lines(table, addrs);
        }
        headers(table, addrs, out);
        fence(Acquire);
        hops(table, addrs, out, default, large);
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn headers<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) {
        lanes(addrs, entries, |addrs, lanes, out| {
            // SAFETY: `lanes` has a bit for each of `addrs` and of `out`, no more; others are not touched. An
            // index of a line has 23 bits and is below the length.
            unsafe {
                let addr = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
                let header = gather(table, line(addr), lanes, _mm512_setzero_si512());
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, header);
            }
        });
    }

    /// The index of each address's entry in a group, with bits without meaning.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn in_group(group: __m512i, addr: __m512i) -> __m512i {
        _mm512_or_si512(_mm512_slli_epi32::<8>(group), _mm512_and_si512(addr, _mm512_set1_epi32(0xff)))
    }

    /// Replaces the headers by the entries of the addresses' /24s.
    #[target_feature(enable = "avx512f,avx512bw")]
    fn entries<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        large: bool,
    ) {
        let mask = _mm512_set1_epi32(table.mask() as i32);
        let one = _mm512_set1_epi32(1);
        lanes(addrs, entries, |addrs, lanes, out| {
            // SAFETY: `lanes` as in `headers`. The indices are cut to the table's mask.
            unsafe {
                let addr = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
                let header = _mm512_maskz_loadu_epi32(lanes, out.as_ptr().cast());
                let slot = _mm512_and_si512(_mm512_srli_epi32::<8>(addr), _mm512_set1_epi32(31));
                let upto = _mm512_sub_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(2), slot), one);
                let run = count_ones(_mm512_and_si512(header, upto));
                let in_line = _mm512_add_epi32(_mm512_add_epi32(line(addr), run), one);
                const { assert!(EXPANDED == 1 && SLOTS == 32) };
                let in_block = _mm512_or_si512(_mm512_slli_epi32::<5>(_mm512_srli_epi32::<1>(header)), slot);
                let place = _mm512_mask_mov_epi32(in_line, _mm512_test_epi32_mask(header, one), in_block);
                let e = gather(table, _mm512_and_si512(place, mask), lanes, _mm512_setzero_si512());
                let groups = _mm512_cmplt_epi32_mask(e, _mm512_setzero_si512());
                if large && groups != 0 {
                    // Lanes without a group: what has just been loaded.
                    let mut indices = [0u32; LANES];
                    let all = _mm512_mask_mov_epi32(place, groups, in_group(e, addr));
                    _mm512_storeu_epi32(indices.as_mut_ptr().cast(), all);
                    for index in indices {
                        table.prefetch(index as usize);
                    }
                }
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, e);
            }
        });
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    fn hops<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
        large: bool,
    ) {
        self::entries(table, addrs, entries, large);
        fence(Acquire);
        let default = _mm512_set1_epi32(default as i32);
        let mask = _mm512_set1_epi32(table.mask() as i32);
        let zero = _mm512_setzero_si512();
        lanes(addrs, entries, |addrs, lanes, out| {
            // SAFETY: `lanes` as in `headers`. The indices of groups are cut to the table's mask, those of
            // short prefixes have less than 24 bits.
            unsafe {
                let mut e = _mm512_maskz_loadu_epi32(lanes, out.as_ptr().cast());
                let addr = _mm512_maskz_loadu_epi32(lanes, addrs.as_ptr().cast());
                let groups = _mm512_cmplt_epi32_mask(e, zero);
                if groups != 0 {
                    e = gather(table, _mm512_and_si512(in_group(e, addr), mask), groups, e);
                }
                let none = _mm512_mask_cmpeq_epi32_mask(lanes, e, zero);
                let mut defaults = 0;
                if none != 0 {
                    let short = _mm512_srli_epi32::<{ 32 - SHORT_BITS }>(addr);
                    e = gather(table, _mm512_add_epi32(short, _mm512_set1_epi32(SHORT as i32)), none, e);
                    defaults = _mm512_cmpeq_epi32_mask(e, zero);
                }
                let hops = _mm512_and_si512(e, _mm512_set1_epi32(HOP_MASK as i32));
                let hops = _mm512_mask_mov_epi32(hops, defaults, default);
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), lanes, hops);
            }
        });
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use super::{
        EXPANDED, GROUP, HOP_MASK, LINE_LEN, SHORT, SHORT_BITS, SLOTS, Zeroed, prefetch_lines, scalar,
    };
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::sync::atomic::{Ordering::Acquire, fence};

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

    /// The number of ones in each lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn count_ones(bits: __m256i) -> __m256i {
        let counts =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
        let low_half = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(bits, low_half));
        let high = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi32::<4>(bits), low_half));
        let bytes = _mm256_maddubs_epi16(_mm256_add_epi8(low, high), _mm256_set1_epi8(1));
        _mm256_madd_epi16(bytes, _mm256_set1_epi16(1))
    }

    /// The index of the header of each address's line.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn line(addr: __m256i) -> __m256i {
        const { assert!(LINE_LEN == 16) };
        _mm256_slli_epi32::<4>(_mm256_srli_epi32::<13>(addr))
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn look_up<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        out: &mut [u32],
        default: u32,
        large: bool,
    ) {
        if large {
            prefetch_lines(table, addrs);
        }
        headers(table, addrs, out);
        fence(Acquire);
        hops(table, addrs, out, default);
    }

    #[target_feature(enable = "avx2")]
    fn headers<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
    ) {
        let (many, rest) = addrs.as_chunks::<LANES>();
        let (out, out_rest) = entries.as_chunks_mut::<LANES>();
        for (addrs, out) in many.iter().zip(out) {
            // SAFETY: eight addresses, eight places. An index of a line has 23 bits and is below the length.
            unsafe {
                let addr = _mm256_loadu_si256(addrs.as_ptr().cast());
                let header = gather(table, line(addr), _mm256_set1_epi32(-1), _mm256_setzero_si256());
                _mm256_storeu_si256(out.as_mut_ptr().cast(), header);
            }
        }
        scalar::headers(table, rest, out_rest);
    }

    /// Replaces the headers by the entries of the addresses' /24s.
    #[target_feature(enable = "avx2")]
    fn entries<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[[u32; LANES]],
        entries: &mut [[u32; LANES]],
    ) {
        let mask = _mm256_set1_epi32(table.mask() as i32);
        let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
        for (addrs, out) in addrs.iter().zip(entries) {
            // SAFETY: eight addresses, eight places. The indices are cut to the table's mask.
            unsafe {
                let addr = _mm256_loadu_si256(addrs.as_ptr().cast());
                let header = _mm256_loadu_si256(out.as_ptr().cast());
                let slot = _mm256_and_si256(_mm256_srli_epi32::<8>(addr), _mm256_set1_epi32(31));
                let upto = _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(2), slot), one);
                let run = count_ones(_mm256_and_si256(header, upto));
                let in_line = _mm256_add_epi32(_mm256_add_epi32(line(addr), run), one);
                const { assert!(EXPANDED == 1 && SLOTS == 32) };
                let in_block = _mm256_or_si256(_mm256_slli_epi32::<5>(_mm256_srli_epi32::<1>(header)), slot);
                let expanded = _mm256_cmpeq_epi32(_mm256_and_si256(header, one), one);
                let place = _mm256_blendv_epi8(in_line, in_block, expanded);
                let e = gather(table, _mm256_and_si256(place, mask), _mm256_set1_epi32(-1), zero);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), e);
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn hops<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        entries: &mut [u32],
        default: u32,
    ) {
        let (many, rest) = addrs.as_chunks::<LANES>();
        let (out, out_rest) = entries.as_chunks_mut::<LANES>();
        self::entries(table, many, out);
        fence(Acquire);
        let default_hops = _mm256_set1_epi32(default as i32);
        let mask = _mm256_set1_epi32(table.mask() as i32);
        let zero = _mm256_setzero_si256();
        for (addrs, out) in many.iter().zip(out.iter_mut()) {
            // SAFETY: eight addresses, eight places. The indices of groups are cut to the table's mask, those
            // of short prefixes have less than 24 bits.
            unsafe {
                let addr = _mm256_loadu_si256(addrs.as_ptr().cast());
                let mut e = _mm256_loadu_si256(out.as_ptr().cast());
                if _mm256_movemask_ps(_mm256_castsi256_ps(e)) != 0 {
                    let low = _mm256_and_si256(addr, _mm256_set1_epi32(0xff));
                    let index = _mm256_or_si256(_mm256_slli_epi32::<8>(e), low);
                    // Bit 31 of an entry says that it is a group: the entries are their own mask.
                    const { assert!(GROUP == 1 << 31) };
                    e = gather(table, _mm256_and_si256(index, mask), e, e);
                }
                let none = _mm256_cmpeq_epi32(e, zero);
                if _mm256_movemask_ps(_mm256_castsi256_ps(none)) != 0 {
                    let short = _mm256_srli_epi32::<{ 32 - SHORT_BITS as i32 }>(addr);
                    e = gather(table, _mm256_add_epi32(short, _mm256_set1_epi32(SHORT as i32)), none, e);
                }
                let hops = _mm256_and_si256(e, _mm256_set1_epi32(HOP_MASK as i32));
                let none = _mm256_cmpeq_epi32(e, zero);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_blendv_epi8(hops, default_hops, none));
            }
        }
        scalar::hops::<false, _, _>(table, rest, out_rest, default);
    }
}
