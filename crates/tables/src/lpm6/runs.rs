//! In which run of a node a place is: the first that ends there or behind.
//!
//! Where runs end never changes in what readers know (`memory`), but the words beside the ends do, and a load
//! of 16 bytes reads both. So these loads are written in assembly: what an `asm!` block does is what the
//! processor does, which may read words while others store to them, and of what it reads only the ends are
//! used. Miri, and other processors, read word by word. Nothing here needs more than every x86-64 processor
//! has: with AVX2 and with AVX-512 lookups take as long.

use std::sync::atomic::AtomicU32;

/// Words of a line.
pub(super) const LINE: usize = 16;
/// The words of a line that hold the ends of runs, and the ends that there are.
pub(super) const END_WORDS: usize = 3;
pub(super) const ENDS: usize = END_WORDS * 4;
/// The most runs of a line.
pub(super) const RUNS: usize = ENDS + 1;
/// The words of a far node of one line that hold the ends of runs, and the ends that there are; twice as many
/// of each in one of two lines.
pub(super) const FAR_END_WORDS: usize = 5;
pub(super) const FAR_ENDS: usize = FAR_END_WORDS * 2;
/// The most runs of a far node of two lines; there are fewer in one of one line.
pub(super) const FAR_RUNS: usize = 2 * FAR_ENDS + 1;

/// The run of a line in which a place is: at most [`ENDS`].
#[inline(always)]
pub(super) fn run(line: &[AtomicU32; LINE], place: u8) -> usize {
    (wide::line(line, place) | 1 << ENDS).trailing_zeros() as usize
}

/// The run of a far node in which a place is, by its first line: at most [`FAR_ENDS`], or twice that if there
/// are two lines.
#[inline(always)]
pub(super) fn far_run(line: &[AtomicU32; LINE], has_two: bool, place: u16) -> usize {
    (wide::far(line, place) | 1 << (FAR_ENDS << u32::from(has_two))).trailing_zeros() as usize
}

/// A bit for each end that is not below a place, the first one lowest, and others behind those.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::{END_WORDS, FAR_END_WORDS, LINE};
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::sync::atomic::AtomicU32;

    /// Words of a register.
    const WIDTH: usize = 4;

    /// [`WIDTH`] words from one on.
    #[inline(always)]
    fn load<const FROM: usize>(line: &[AtomicU32; LINE]) -> __m128i {
        const { assert!(FROM + WIDTH <= LINE) };
        let loaded;
        // SAFETY: SSE2 is part of x86-64, and the words are there to be read.
        unsafe {
            asm!(
                "movdqu {loaded}, xmmword ptr [{line} + {from}]",
                loaded = lateout(xmm_reg) loaded,
                line = in(reg) line.as_ptr(),
                from = const FROM * size_of::<AtomicU32>(),
                options(nostack, readonly, preserves_flags)
            );
        }
        loaded
    }

    #[inline(always)]
    pub(super) fn line(line: &[AtomicU32; LINE], place: u8) -> u32 {
        const { assert!(END_WORDS <= WIDTH) };
        // SAFETY: SSE2 is part of x86-64, and these instructions touch no memory.
        unsafe {
            // What is below the place leaves something of it.
            let left = _mm_subs_epu8(_mm_set1_epi8(place as i8), load::<0>(line));
            _mm_movemask_epi8(_mm_cmpeq_epi8(left, _mm_setzero_si128())) as u32
        }
    }

    #[inline(always)]
    pub(super) fn far(line: &[AtomicU32; LINE], place: u16) -> u32 {
        const { assert!(2 * FAR_END_WORDS <= 3 * WIDTH) };
        // SAFETY: SSE2 is part of x86-64, and these instructions touch no memory.
        unsafe {
            let place = _mm_set1_epi16(place as i16);
            let ends = |ends| _mm_cmpeq_epi16(_mm_subs_epu16(place, ends), _mm_setzero_si128());
            let first = _mm_packs_epi16(ends(load::<0>(line)), ends(load::<WIDTH>(line)));
            let last = _mm_packs_epi16(ends(load::<{ 2 * WIDTH }>(line)), _mm_setzero_si128());
            _mm_movemask_epi8(first) as u32 | (_mm_movemask_epi8(last) as u32) << 16
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod wide {
    use super::{END_WORDS, FAR_END_WORDS, LINE};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// A bit for each of them.
    fn bits(ends: impl Iterator<Item = bool>) -> u32 {
        ends.enumerate().fold(0, |bits, (n, is_behind)| bits | u32::from(is_behind) << n)
    }

    pub(super) fn line(line: &[AtomicU32; LINE], place: u8) -> u32 {
        let words = line.iter().take(END_WORDS).map(|word| word.load(Relaxed));
        bits(words.flat_map(u32::to_ne_bytes).map(|end| end >= place))
    }

    pub(super) fn far(line: &[AtomicU32; LINE], place: u16) -> u32 {
        let words = line.iter().take(2 * FAR_END_WORDS).map(|word| word.load(Relaxed));
        bits(words.flat_map(|word| [word as u16, (word >> 16) as u16]).map(|end| end >= place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeatable random numbers.
    fn random(state: &mut u64) -> u32 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 32) as u32
    }

    #[test]
    fn the_run_of_a_place_is_the_first_that_ends_there_or_behind() {
        let state = &mut 1;
        for turn in 0..if cfg!(miri) { 5 } else { 2000 } {
            let mut bytes: [u8; ENDS] = std::array::from_fn(|_| random(state) as u8);
            bytes.sort_unstable();
            // There may be fewer.
            bytes[turn % (ENDS + 1)..].fill(u8::MAX);
            // The other words do not matter, whatever they are.
            let line: [AtomicU32; LINE] = std::array::from_fn(|n| {
                let ends = bytes.as_chunks().0.get(n);
                AtomicU32::new(ends.map_or_else(|| random(state), |ends| u32::from_ne_bytes(*ends)))
            });
            let places = [0, 1, 0x7f, 0x80, 0xff, random(state) as u8].into_iter();
            for place in places.chain(bytes).flat_map(|place| [place, place.wrapping_add(1)]) {
                let want = bytes.iter().position(|end| *end >= place).unwrap_or(ENDS);
                assert_eq!(run(&line, place), want, "{bytes:x?} {place:x}");
            }
            for has_two in [false, true] {
                let count = FAR_ENDS << u32::from(has_two);
                let mut halves: Vec<u16> = (0..count).map(|_| random(state) as u16).collect();
                halves.sort_unstable();
                halves[turn % (count + 1)..].fill(u16::MAX);
                let line: [AtomicU32; LINE] = std::array::from_fn(|n| {
                    let ends = halves.as_chunks().0.get(n);
                    let word = |[a, b]: &[u16; 2]| u32::from(*a) | u32::from(*b) << 16;
                    AtomicU32::new(ends.map_or_else(|| random(state), word))
                });
                let places = [0, 1, 0x7fff, 0x8000, 0xffff, random(state) as u16].into_iter();
                for place in places.chain(halves.clone()).flat_map(|place| [place, place.wrapping_add(1)]) {
                    let want = halves.iter().position(|end| *end >= place).unwrap_or(count);
                    assert_eq!(far_run(&line, has_two, place), want, "{halves:x?} {place:x}");
                }
            }
        }
    }
}
