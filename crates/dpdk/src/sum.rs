//! The Internet checksum of long data, with the processor's wider instructions.

use wire::checksum;

/// Bytes below which a function call costs more than the instructions save.
const LONG: usize = 128;

/// The one's complement sum of `data`, as [`checksum::sum`].
#[inline]
pub(crate) fn sum(data: &[u8]) -> u16 {
    if data.len() < LONG { checksum::sum(data) } else { sum_long(data) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn sum_long(data: &[u8]) -> u16 {
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        unsafe { sum_avx2(data) }
    } else {
        checksum::sum(data)
    }
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn sum_long(data: &[u8]) -> u16 {
    checksum::sum(data)
}

/// The sum in lanes of 32 bits, two for each pair of words: one adds the words with even places, the other
/// those with odd places.
///
/// # Safety
/// The processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2")]
unsafe fn sum_avx2(data: &[u8]) -> u16 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256, _mm256_set1_epi32,
        _mm256_setzero_si256, _mm256_srli_epi32, _mm256_storeu_si256,
    };
    /// Bytes until a lane could overflow: each block of 64 adds less than 2^16 to each.
    const PART: usize = 64 << 15;
    let mut total = 0;
    for part in data.chunks(PART) {
        let (blocks, rest) = part.as_chunks::<64>();
        let mask = _mm256_set1_epi32(0xffff);
        let mut sums = [_mm256_setzero_si256(); 4];
        for block in blocks {
            let at = block.as_ptr().cast::<__m256i>();
            // SAFETY: the block has 64 bytes; the load takes any alignment.
            let (a, b) = unsafe { (_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))) };
            sums[0] = _mm256_add_epi32(sums[0], _mm256_and_si256(a, mask));
            sums[1] = _mm256_add_epi32(sums[1], _mm256_srli_epi32::<16>(a));
            sums[2] = _mm256_add_epi32(sums[2], _mm256_and_si256(b, mask));
            sums[3] = _mm256_add_epi32(sums[3], _mm256_srli_epi32::<16>(b));
        }
        let mut lanes = [[0u32; 8]; 4];
        for (lanes, sum) in lanes.iter_mut().zip(sums) {
            // SAFETY: there is room for 32 bytes; the store takes any alignment.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sum) };
        }
        let lanes: u64 = lanes.as_flattened().iter().map(|&lane| u64::from(lane)).sum();
        let blocks = u16::from_be(checksum::fold64(lanes));
        total = checksum::combine(total, checksum::combine(blocks, checksum::sum(rest)));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri runs the reference only")]
    fn it_is_the_sum_of_words() {
        let long = 5 << 20;
        let bytes: Vec<u8> = (0..long).map(|i| (i * 131 + i / 777) as u8).collect();
        let ones = vec![0xff; long];
        for len in (0..300).chain([1448, 65535, long - 1, long]) {
            for data in [&bytes[..len], &ones[..len], &vec![0; len]] {
                assert_eq!(sum(data), checksum::sum(data), "{len}");
            }
        }
    }
}
