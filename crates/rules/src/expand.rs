//! A pattern with ranges as several without: each range is a few prefixes.

use crate::key::Key;
use crate::rule::{Pattern, Range};

/// The most patterns that one may become.
pub const MOST: usize = 1024;

/// The values and masks of prefixes that make a range up.
fn prefixes(range: Range) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let (mut first, last, most) = (range.first, range.last.min(range.field.most()), range.field.most());
    while first <= last {
        // As large as the alignment of the first value and what is left allow.
        let aligned = if first == 0 { most } else { (first & first.wrapping_neg()) - 1 };
        let mut size = aligned;
        while size > last - first {
            size >>= 1;
        }
        all.push((first, most & !size));
        match first.checked_add(size).and_then(|end| end.checked_add(1)) {
            Some(next) => first = next,
            None => break,
        }
    }
    all
}

/// The values and masks that a pattern comes to. None: they are more than [`MOST`].
pub(crate) fn expand(pattern: &Pattern) -> Option<Vec<(Key, Key)>> {
    let mut all = vec![(pattern.value, pattern.mask)];
    for range in &pattern.ranges {
        let parts = prefixes(*range);
        if all.len() * parts.len() > MOST {
            return None;
        }
        all = (all.iter())
            .flat_map(|(value, mask)| {
                parts.iter().map(|(bits, these)| {
                    let (mut value, mut mask) = (*value, *mask);
                    value.set(range.field, *bits);
                    mask.set(range.field, *these);
                    (value, mask)
                })
            })
            .collect();
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Field;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefixes_make_exactly_the_range_up(a in 0u64..65536, b in 0u64..65536, probe in 0u64..65536) {
            let range = Range { field: Field::DstPort, first: a.min(b), last: a.max(b) };
            let parts = prefixes(range);
            prop_assert!(parts.len() <= 30, "{parts:?}");
            for value in [probe, range.first, range.last, range.first.wrapping_sub(1) & 0xffff, (range.last + 1) & 0xffff] {
                let within = parts.iter().filter(|(bits, mask)| value & mask == *bits).count();
                prop_assert_eq!(within, usize::from((range.first..=range.last).contains(&value)));
            }
        }
    }

    #[test]
    fn ends_of_a_field_are_no_special_case() {
        let of = |field: Field, first, last| prefixes(Range { field, first, last });
        assert_eq!(of(Field::DstPort, 0, 65535), [(0, 0)]);
        assert_eq!(of(Field::DstPort, 0, 0), [(0, 65535)]);
        assert_eq!(of(Field::SrcLow, 0, u64::MAX), [(0, 0)]);
        assert_eq!(of(Field::SrcLow, u64::MAX, u64::MAX), [(u64::MAX, u64::MAX)]);
        assert_eq!(of(Field::DstPort, 5, 4), []);
    }

    #[test]
    fn two_ranges_are_all_pairs_and_too_many_are_refused() {
        let range = |field, first, last| Range { field, first, last };
        let mut pattern = Pattern::default();
        pattern.demand(Field::Proto, 17, u64::MAX);
        pattern.ranges = vec![range(Field::SrcPort, 1, 6), range(Field::DstPort, 8, 15)];
        let all = expand(&pattern).unwrap();
        assert_eq!(all.len(), 4);
        assert!(
            all.iter().all(|(value, mask)| value.masked(mask) == *value && mask.get(Field::Proto) == 255)
        );
        let wide = |field| range(field, 1, 65534);
        pattern.ranges = vec![wide(Field::SrcPort), wide(Field::DstPort)];
        assert_eq!(expand(&pattern).unwrap().len(), 900);
        pattern.ranges.push(range(Field::Ttl, 1, 254));
        assert_eq!(expand(&pattern), None);
    }
}
