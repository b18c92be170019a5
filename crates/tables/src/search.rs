//! The search in a table of few routes, a tree of sorted addresses.
//!
//! The routes cut the address space into *ranges* of addresses with one next hop. Eight ranges in order are a
//! *leaf*, which fills a cache line: their last addresses, then their next hops. Above the leaves are *nodes*
//! of one cache line too, which hold the last addresses of 16 of their 17 children. So at most two nodes and
//! a leaf are read for 2,312 ranges, and all of them together are small: many tables stay in the processor's
//! cache beside each other.
//!
//! Addresses are stored with their highest bit turned, so that instructions that compare signed numbers order
//! them. Places without a range or a child hold the last of all addresses, which no address is behind:
//! nothing has to be known about how many there are.
//!
//! Lookups never read outside the memory of trees, whatever they find there: a lookup that is too late may
//! read a place that has been written again, whose numbers then mean nothing.
//!
//! This module holds `unsafe` for wide instructions, as `gather.rs` does and under the same invariants.

use crate::gather::{Kernel, LINE_LEN, Width};
use crate::mem::Zeroed;

/// Ranges in a leaf.
pub(crate) const RANGES: usize = LINE_LEN / 2;
/// Last addresses in a node.
pub(crate) const KEYS: usize = LINE_LEN;
/// Children of a node.
pub(crate) const CHILDREN: usize = KEYS + 1;
/// The most levels of nodes above the leaves.
pub(crate) const LEVELS: usize = 2;
/// The first line of each level, and at last, for each number of levels, that of the leaves.
pub(crate) const START: [usize; LEVELS + 1] = [0, 1, 1 + CHILDREN];
/// The most ranges.
pub(crate) const MOST_RANGES: usize = CHILDREN * CHILDREN * RANGES;
/// The lines of a tree, at most.
pub(crate) const LINES: usize = START[LEVELS] + CHILDREN * CHILDREN;

/// An address as it is stored and compared.
#[inline(always)]
pub(crate) const fn key(addr: u32) -> u32 {
    addr ^ 1 << 31
}

/// Where a tree is: the number of its first line, and how many levels of nodes it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) line: u32,
    pub(crate) levels: u32,
}

impl Tree {
    /// In one word, which is not zero.
    pub(crate) fn to_word(self) -> u32 {
        (self.line + 1) << 2 | self.levels
    }

    /// The tree that a word names, if it does.
    #[inline(always)]
    pub(crate) fn from_word(word: u32) -> Option<Self> {
        let line = (word >> 2).checked_sub(1)?;
        Some(Self { line, levels: word & 3 })
    }

    /// Begins to load the nodes of the tree, or its first leaves if it has fewer levels of nodes.
    #[inline]
    pub(crate) fn prefetch_top<const LEAST: usize, const MOST: usize>(self, table: &Zeroed<LEAST, MOST>) {
        let lines = if self.levels == 0 { 1 } else { START[LEVELS] };
        (0..lines).for_each(|line| table.prefetch((self.line as usize + line) * LINE_LEN));
    }

    /// Fills `hops` with the next hops of as many addresses.
    #[inline]
    pub(crate) fn look_up<const LEAST: usize, const MOST: usize>(
        self,
        kernel: Kernel,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        hops: &mut [u32],
    ) {
        match kernel.width() {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Scalar => {
                self.each(addrs, hops, table, |line, keys, key| wide::rank128(table, line, keys, key))
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            Width::Scalar => self.each(addrs, hops, table, |line, keys, key| scalar(table, line, keys, key)),
            // SAFETY: the kernel exists, so the processor has the instructions.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx2 => unsafe { wide::avx2(self, table, addrs, hops) },
            // SAFETY: as above.
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Width::Avx512 => unsafe { wide::avx512(self, table, addrs, hops) },
        }
    }

    /// The next hop of each address; `rank` counts, among the first keys of a line, those that are smaller
    /// than a key.
    #[inline(always)]
    fn each<const LEAST: usize, const MOST: usize>(
        self,
        addrs: &[u32],
        hops: &mut [u32],
        table: &Zeroed<LEAST, MOST>,
        rank: impl Fn(usize, usize, u32) -> usize,
    ) {
        let line = self.line as usize;
        // A loop for each number of levels: no branch depends on an address.
        let leaf = |leaf: usize, key: u32| {
            table.load_masked((line + leaf) * LINE_LEN + RANGES + rank(line + leaf, RANGES, key))
        };
        let root = |key: u32| rank(line, KEYS, key);
        let pairs = addrs.iter().map(|addr| key(*addr)).zip(hops);
        match self.levels {
            0 => pairs.for_each(|(key, hop)| *hop = leaf(START[0], key)),
            1 => pairs.for_each(|(key, hop)| *hop = leaf(START[1] + root(key), key)),
            _ => pairs.for_each(|(key, hop)| {
                let child = root(key);
                let child = child * CHILDREN + rank(line + START[1] + child, KEYS, key);
                *hop = leaf(START[2] + child, key);
            }),
        }
    }
}

/// Which of the 32 numbers of 16 bits in a line are this one: a bit for each.
#[inline(always)]
pub(crate) fn equal16<const LEAST: usize, const MOST: usize>(
    table: &Zeroed<LEAST, MOST>,
    line: usize,
    number: u16,
) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return wide::equal16(table, line, number);
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    (0..2 * LINE_LEN).fold(0, |found, n| {
        let word = table.load_masked(line * LINE_LEN + n / 2);
        found | u32::from((word >> (n % 2 * 16)) as u16 == number) << n
    })
}

/// How many of the first `keys` keys of a line, a power of two, are smaller than a key.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn scalar<const LEAST: usize, const MOST: usize>(
    table: &Zeroed<LEAST, MOST>,
    line: usize,
    keys: usize,
    key: u32,
) -> usize {
    let at = line * LINE_LEN;
    let smaller = |i: usize| usize::from((table.load_masked(at + i) as i32) < key as i32);
    let (mut rank, mut step) = (0, keys / 2);
    while step > 0 {
        rank += step * smaller(rank + step - 1);
        step /= 2;
    }
    rank + smaller(rank)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::{KEYS, LINE_LEN, Tree};
    use crate::mem::Zeroed;
    use std::arch::asm;
    use std::arch::x86_64::*;

    /// Which of the numbers of 16 bits in a line are this one, with the instructions that every x86-64
    /// processor has.
    #[inline(always)]
    pub(super) fn equal16<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        line: usize,
        number: u16,
    ) -> u32 {
        // SAFETY: as for `rank128`.
        let quarter = |quarter: usize| unsafe {
            let mut equal = _mm_set1_epi16(number as i16);
            asm!(
                "pcmpeqw {equal}, xmmword ptr [{line}]",
                equal = inout(xmm_reg) equal,
                line = in(reg) table.as_ptr().add(((line * LINE_LEN) & table.mask()) + quarter * 4),
                options(nostack, readonly, preserves_flags)
            );
            equal
        };
        // SAFETY: SSE2 is part of x86-64.
        let half = |half: usize| unsafe {
            _mm_movemask_epi8(_mm_packs_epi16(quarter(2 * half), quarter(2 * half + 1))) as u32
        };
        half(0) | half(1) << 16
    }

    /// How many of a line's first `keys` keys, which are sorted, are smaller than a key, with the
    /// instructions that every x86-64 processor has.
    #[inline(always)]
    pub(super) fn rank128<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        line: usize,
        keys: usize,
        key: u32,
    ) -> usize {
        /// Numbers in a register.
        const LANES: usize = 4;
        // SAFETY: SSE2 is part of x86-64. The instruction reads a quarter of a line, aligned atomics that can
        // be read, for the index is cut to the table's mask, and lines do not reach across its end. Registers
        // that change are outputs.
        let quarter = |quarter: usize| unsafe {
            let mut smaller = _mm_set1_epi32(key as i32);
            asm!(
                "pcmpgtd {smaller}, xmmword ptr [{line}]",
                smaller = inout(xmm_reg) smaller,
                line = in(reg) table.as_ptr().add(((line * LINE_LEN) & table.mask()) + quarter * LANES),
                options(nostack, readonly, preserves_flags)
            );
            smaller
        };
        // SAFETY: SSE2 is part of x86-64.
        let smaller = unsafe {
            let half = |half: usize| _mm_packs_epi32(quarter(2 * half), quarter(2 * half + 1));
            let low = half(0);
            let high = if keys == KEYS { half(1) } else { _mm_setzero_si128() };
            _mm_movemask_epi8(_mm_packs_epi16(low, high))
        };
        // Those that are smaller come first.
        (!smaller).trailing_zeros() as usize
    }

    /// The same with AVX-512.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    fn rank512<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        line: usize,
        keys: usize,
        key: u32,
    ) -> usize {
        let mut smaller: __mmask16;
        // SAFETY: reads the aligned atomics of a line that can be read, for the index is cut to the table's
        // mask, and lines do not reach across its end. Registers that change are outputs.
        unsafe {
            asm!(
                "vpcmpgtd {smaller}, {key}, zmmword ptr [{line}]",
                smaller = lateout(kreg) smaller,
                key = in(zmm_reg) _mm512_set1_epi32(key as i32),
                line = in(reg) table.as_ptr().add((line * LINE_LEN) & table.mask()),
                options(nostack, readonly, preserves_flags)
            );
        }
        if keys < KEYS {
            smaller &= (1 << keys) - 1;
        }
        smaller.count_ones() as usize
    }

    /// The same with AVX2.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    fn rank256<const LEAST: usize, const MOST: usize>(
        table: &Zeroed<LEAST, MOST>,
        line: usize,
        keys: usize,
        key: u32,
    ) -> usize {
        let key = _mm256_set1_epi32(key as i32);
        let half = |half: usize| {
            let mut smaller: __m256i;
            // SAFETY: as in `rank512`, half a line.
            unsafe {
                asm!(
                    "vpcmpgtd {smaller}, {key}, ymmword ptr [{line}]",
                    smaller = lateout(ymm_reg) smaller,
                    key = in(ymm_reg) key,
                    line = in(reg) table.as_ptr().add(((line * LINE_LEN) & table.mask()) + half * (LINE_LEN / 2)),
                    options(nostack, readonly, preserves_flags)
                );
            }
            _mm256_movemask_ps(_mm256_castsi256_ps(smaller)) as u32
        };
        let smaller = if keys == KEYS { half(0) | half(1) << 8 } else { half(0) };
        smaller.count_ones() as usize
    }

    #[target_feature(enable = "avx512f,avx512bw,popcnt")]
    pub(super) fn avx512<const LEAST: usize, const MOST: usize>(
        tree: Tree,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        hops: &mut [u32],
    ) {
        tree.each(addrs, hops, table, |line, keys, key| rank512(table, line, keys, key));
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn avx2<const LEAST: usize, const MOST: usize>(
        tree: Tree,
        table: &Zeroed<LEAST, MOST>,
        addrs: &[u32],
        hops: &mut [u32],
    ) {
        tree.each(addrs, hops, table, |line, keys, key| rank256(table, line, keys, key));
    }
}
