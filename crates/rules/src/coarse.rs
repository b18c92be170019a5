//! Which hash tables a rule may be in: those whose keys are a part of what it looks at (Daly, Bruschi,
//! Linguaglossa, Pontarelli, Rossi, Tollet, Torng and Yourtchenko, "TupleMerge: fast software packet
//! processing for online packet classification", Transactions on Networking, 2019). Rules with different
//! masks share a table then, and a packet is looked up in fewer.

use crate::key::{Field, Key};

/// Lengths of prefixes that tables have: an address of IPv4, and each half of one of IPv6.
const SHORT: [u32; 4] = [32, 24, 16, 0];
const LONG: [u32; 5] = [64, 56, 48, 32, 0];

/// The keys of tables for rules with this mask, the coarsest first; the last is the mask itself.
pub(crate) fn tables(mask: &Key) -> [Key; 3] {
    let rounded = rounded(mask);
    let mut addresses = Key::default();
    for field in [Field::SrcLow, Field::DstLow, Field::SrcHigh, Field::DstHigh, Field::EthSrc, Field::EthDst]
    {
        addresses.set(field, rounded.get(field));
    }
    let coarsest = if addresses == Key::default() { rounded } else { addresses };
    [coarsest, rounded, *mask]
}

/// The mask with shorter prefixes.
fn rounded(mask: &Key) -> Key {
    let mut rounded = *mask;
    for (low, high) in [(Field::SrcLow, Field::SrcHigh), (Field::DstLow, Field::DstHigh)] {
        let six = mask.get(high) != 0 || mask.get(low) > u64::from(u32::MAX);
        let lengths: &[u32] = if six { &LONG } else { &SHORT };
        let bits = if six { 64 } else { 32 };
        rounded.set(low, shorter(mask.get(low), bits, lengths));
        rounded.set(high, shorter(mask.get(high), 64, &LONG));
    }
    rounded
}

/// The longest of these prefixes that a mask of so many bits has; the mask itself if it is no prefix.
fn shorter(mask: u64, bits: u32, lengths: &[u32]) -> u64 {
    let length = mask.count_ones();
    if mask != prefix(bits, length) {
        return mask;
    }
    lengths.iter().find(|known| **known <= length).map_or(0, |known| prefix(bits, *known))
}

/// The mask of a prefix.
fn prefix(bits: u32, length: u32) -> u64 {
    let all = u64::MAX >> (64 - bits);
    if length >= bits { all } else { all & !(all >> length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(fields: &[(Field, u64)]) -> Key {
        let mut key = Key::default();
        fields.iter().for_each(|(field, bits)| key.set(*field, *bits));
        key
    }

    #[test]
    fn each_key_is_a_part_of_the_mask() {
        let of = |src: u32, dst: u32, port| {
            let fields =
                [(Field::SrcLow, prefix(32, src)), (Field::DstLow, prefix(32, dst)), (Field::DstPort, port)];
            tables(&mask(&fields))
        };
        for (src, dst, port) in [(0, 0, 0), (5, 31, 7), (24, 23, 0xffff), (32, 16, 0)] {
            let all = of(src, dst, port);
            for pair in all.windows(2) {
                assert_eq!(pair[0].masked(&pair[1]), pair[0]);
            }
        }
        let [coarsest, middle, exact] = of(27, 23, 0xffff);
        assert_eq!((coarsest.get(Field::SrcLow), coarsest.get(Field::DstLow)), (0xffff_ff00, 0xffff_0000));
        assert_eq!((coarsest.get(Field::DstPort), middle.get(Field::DstPort)), (0, 0xffff));
        assert_eq!((middle.get(Field::SrcLow), exact.get(Field::SrcLow)), (0xffff_ff00, 0xffff_ffe0));
        assert_eq!(of(3, 0, 0xff)[0].get(Field::DstPort), 0xff, "without addresses the rest counts");
    }

    #[test]
    fn addresses_of_ipv6_and_masks_that_are_no_prefixes() {
        let six = mask(&[
            (Field::SrcHigh, u64::MAX),
            (Field::SrcLow, prefix(64, 40)),
            (Field::DstHigh, prefix(64, 50)),
        ]);
        let coarsest = tables(&six)[0];
        assert_eq!(
            [Field::SrcHigh, Field::SrcLow, Field::DstHigh].map(|field| coarsest.get(field)),
            [u64::MAX, prefix(64, 32), prefix(64, 48)]
        );
        let odd = mask(&[(Field::SrcLow, 0xff00_00ff)]);
        assert_eq!(tables(&odd)[0], odd);
    }
}
