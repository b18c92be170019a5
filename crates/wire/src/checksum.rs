//! The Internet checksum (RFC 1071), whole and incremental (RFC 1624).
//!
//! A *sum* is the one's complement sum of the big-endian 16-bit words of some bytes, an odd last byte being
//! padded with a zero; sums of pieces are joined by [`combine`]. A *check* is what a header field holds: the
//! complement of a sum. A sum is `0` only when every byte was zero, so a check computed here over anything
//! else is never `0xffff` (RFC 1624 §3: `-0` does not occur).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Folds a sum kept in 32 bits into 16, adding carries back in.
#[inline(always)]
pub const fn fold(sum: u32) -> u16 {
    let s = (sum & 0xffff) + (sum >> 16);
    (s + (s >> 16)) as u16
}

/// Folds a sum kept in 64 bits into 16, adding carries back in.
#[inline(always)]
pub const fn fold64(sum: u64) -> u16 {
    // Two halves of 32 bits make at most 33; folding once more leaves a value below 2^32.
    let s = (sum & 0xffff_ffff) + (sum >> 32);
    let s = (s & 0xffff_ffff) + (s >> 32);
    fold(s as u32)
}

/// The one's complement sum of `data`.
///
/// Words are added in the machine's own byte order and swapped at the end (RFC 1071 §2(B)).
#[inline]
pub fn sum(data: &[u8]) -> u16 {
    let (blocks, rest) = data.as_chunks::<32>();
    // Eight independent lanes: a shape that compilers turn into vector adds. A lane gains less than 2^32 per
    // block, so it cannot overflow below 2^32 blocks.
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let mut acc: u64 = lanes.iter().fold(0, |a, &b| {
        let (s, carry) = a.overflowing_add(b);
        s + u64::from(carry)
    });
    acc = (acc & 0xffff_ffff) + (acc >> 32);
    let (words, tail) = rest.as_chunks::<4>();
    for word in words {
        acc += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    acc += u64::from(u32::from_ne_bytes(last));
    u16::from_be(fold64(acc))
}

/// [`sum`] of an array whose length is known when compiling and small (a header): five adds for an IPv4
/// header.
#[inline(always)]
pub fn sum_array<const N: usize>(data: &[u8; N]) -> u16 {
    const { assert!(N.is_multiple_of(4) && N <= 128) };
    let (words, _) = data.as_chunks::<4>();
    let acc = words.iter().map(|w| u64::from(u32::from_ne_bytes(*w))).sum();
    u16::from_be(fold64(acc))
}

/// The sum of an IPv4 header's 20 bytes without its check, which counts as zero whatever it is: writing a
/// zero there first would keep the processor waiting, as wide loads would follow a narrow store.
#[inline(always)]
pub fn sum_without_check(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let with_check = 2;
    let keep = |n| u32::from_ne_bytes(if n == with_check { [255, 255, 0, 0] } else { [255; 4] });
    let acc = words.iter().enumerate().map(|(n, w)| u64::from(u32::from_ne_bytes(*w) & keep(n))).sum();
    u16::from_be(fold64(acc))
}

/// Whether the sum of an IPv4 header's 20 bytes is `0xffff`, as it is when its check is right.
///
/// A one's complement sum does not depend on the width of the words or on their byte order (RFC 1071 §2).
/// Adding a sum to itself with its halves exchanged leaves the one's complement sum of the halves in the
/// upper one, with the carry.
#[inline(always)]
pub fn is_all_ones(data: &[u8; 20]) -> bool {
    let (words, rest) = data.as_chunks::<8>();
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let mut sum = u64::from_ne_bytes(last);
    for word in words {
        let (s, carry) = sum.overflowing_add(u64::from_ne_bytes(*word));
        sum = s + u64::from(carry);
    }
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    sum.wrapping_add(sum.rotate_left(16)) >> 16 == 0xffff
}

/// The check of `data`: the complement of its [`sum`].
#[inline]
pub fn checksum(data: &[u8]) -> u16 {
    !sum(data)
}

/// Adds two sums, the second starting at an even offset from the first.
#[inline(always)]
pub const fn combine(a: u16, b: u16) -> u16 {
    let (s, carry) = a.overflowing_add(b);
    s + carry as u16
}

/// The sum that bytes with sum `sum` contribute when they start at an odd offset (RFC 1071 §2(B): a byte
/// swap).
#[inline(always)]
pub const fn at_odd_offset(sum: u16) -> u16 {
    sum.swap_bytes()
}

/// `a` without `b`: the sum of what is left when bytes with sum `b` are taken out of bytes with sum `a`.
#[inline(always)]
pub const fn subtract(a: u16, b: u16) -> u16 {
    combine(a, !b)
}

/// The check after one 16-bit word of the covered bytes changed: equation 3 of RFC 1624,
/// `HC' = ~(~HC + ~m + m')`.
///
/// Equal to a full recomputation as long as some covered byte is not zero, before and after.
#[inline(always)]
pub const fn update(check: u16, old: u16, new: u16) -> u16 {
    !fold(!check as u32 + !old as u32 + new as u32)
}

/// Several changes to covered bytes, gathered once and applied to every checksum that covers them.
///
/// An address rewrite changes the IPv4 header checksum and the TCP or UDP checksum by the same amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(0)
    }

    /// A 16-bit word goes from `old` to `new`.
    #[inline(always)]
    pub const fn replace(self, old: u16, new: u16) -> Self {
        Self(fold(self.0 as u32 + !old as u32 + new as u32))
    }

    /// An aligned 32-bit field goes from `old` to `new`.
    #[inline(always)]
    pub const fn replace_u32(self, old: u32, new: u32) -> Self {
        self.replace((old >> 16) as u16, (new >> 16) as u16).replace(old as u16, new as u16)
    }

    /// The check after the changes.
    #[inline(always)]
    pub const fn apply(self, check: u16) -> u16 {
        !combine(!check, self.0)
    }

    /// The UDP check after the changes: `0` (none, RFC 768) stays `0`, and a computed `0` is sent as
    /// `0xffff`.
    #[inline(always)]
    pub const fn apply_udp(self, check: u16) -> u16 {
        if check == 0 {
            return 0;
        }
        match self.apply(check) {
            0 => 0xffff,
            c => c,
        }
    }
}

/// Sum of the IPv4 pseudo-header (RFC 768, RFC 9293 §3.1); `len` is the length of transport header and data.
#[inline(always)]
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> u16 {
    let (s, d) = (src.to_bits(), dst.to_bits());
    let acc = u64::from(s) + u64::from(d) + u64::from(protocol) + u64::from(len);
    fold64(acc)
}

/// Sum of the IPv6 pseudo-header (RFC 8200 §8.1); `len` is the upper-layer packet length.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, len: u32) -> u16 {
    let addresses = combine(sum_array(&src.octets()), sum_array(&dst.octets()));
    combine(addresses, fold64(u64::from(len) + u64::from(next_header)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §1, word by word.
    fn naive(data: &[u8]) -> u16 {
        let mut acc = 0u32;
        for pair in data.chunks(2) {
            acc += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            acc = (acc & 0xffff) + (acc >> 16);
        }
        acc as u16
    }

    fn config() -> ProptestConfig {
        ProptestConfig {
            cases: if cfg!(miri) { 8 } else { 512 },
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    }

    #[test]
    fn rfc1071_example() {
        // §3 gives these bytes and the sum ddf2.
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn extremes() {
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0; 1500]), 0);
        assert_eq!(sum(&[0xff; 1500]), 0xffff);
        assert!(is_all_ones(&[0xff; 20]) && !is_all_ones(&[0; 20]));
        assert_eq!(sum(&[0xab]), 0xab00);
        assert_eq!(fold(u32::MAX), 0xffff);
        assert_eq!(fold64(u64::MAX), 0xffff);
        let n = if cfg!(miri) { 2000 } else { 1 << 20 };
        assert_eq!(sum(&vec![0xff; n]), 0xffff);
    }

    #[test]
    fn rfc1624_zero_example() {
        // RFC 1624 §4: HC = dd2f, m = 5555, m' = 3285 gives 0000 (not ffff, the fault of RFC 1141).
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn sum_is_naive(data in prop::collection::vec(any::<u8>(), 0..if cfg!(miri) { 200 } else { 3000 })) {
            prop_assert_eq!(sum(&data), naive(&data));
        }

        #[test]
        fn sums_combine(data in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
            let cut = at.index(data.len() + 1);
            let (a, b) = data.split_at(cut);
            let second = if cut % 2 == 0 { sum(b) } else { at_odd_offset(sum(b)) };
            prop_assert_eq!(combine(sum(a), second), naive(&data));
        }

        #[test]
        fn array_is_slice(data: [u8; 20]) {
            prop_assert_eq!(sum_array(&data), naive(&data));
        }

        #[test]
        fn all_ones_is_the_right_check(mut data: [u8; 20], wrong: u16) {
            prop_assert_eq!(is_all_ones(&data), naive(&data) == 0xffff);
            data[10..12].fill(0);
            let check = checksum(&data);
            data[10..12].copy_from_slice(&check.to_be_bytes());
            prop_assert!(is_all_ones(&data));
            data[10..12].copy_from_slice(&(check ^ wrong).to_be_bytes());
            prop_assert_eq!(is_all_ones(&data), naive(&data) == 0xffff);
        }

        #[test]
        fn update_is_recompute(mut data: [u8; 20], word in 0usize..10, new: u16) {
            data[(word * 2 + 2) % 20] |= 1; // some other byte is not zero
            let before = checksum(&data);
            let old = u16::from_be_bytes([data[word * 2], data[word * 2 + 1]]);
            data[word * 2..word * 2 + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), checksum(&data));
            prop_assert_eq!(Delta::new().replace(old, new).apply(before), checksum(&data));
        }

        #[test]
        fn pseudo_headers_are_naive(s: [u8; 16], d: [u8; 16], proto: u8, len: u16) {
            let (s4, d4) = ([s[0], s[1], s[2], s[3]], [d[0], d[1], d[2], d[3]]);
            let mut v4 = Vec::new();
            v4.extend(s4);
            v4.extend(d4);
            v4.extend([0, proto]);
            v4.extend(len.to_be_bytes());
            prop_assert_eq!(pseudo_v4(s4.into(), d4.into(), proto, len), naive(&v4));
            let mut v6 = Vec::new();
            v6.extend(s);
            v6.extend(d);
            v6.extend(u32::from(len).to_be_bytes());
            v6.extend([0, 0, 0, proto]);
            prop_assert_eq!(pseudo_v6(s.into(), d.into(), proto, u32::from(len)), naive(&v6));
        }
    }
}
