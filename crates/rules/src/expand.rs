//! A pattern with ranges as several without: each range is a few prefixes. Ranges of ports stay as they are.

use crate::key::Key;
use crate::ports::{self, Ports};
use crate::rule::{Pattern, Range};

/// The most patterns that one may become.
pub const MOST_PREFIXES: usize = 1024;

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

/// What a pattern comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) value: Key,
    pub(crate) mask: Key,
    pub(crate) ports: Ports,
}

/// What a pattern comes to. None: it is more than [`MOST_PREFIXES`].
pub(crate) fn expand(pattern: &Pattern) -> Option<Vec<Part>> {
    let (of_ports, others): (Vec<&Range>, Vec<&Range>) = pattern.ranges.iter().partition(|r| Ports::have(r));
    let ports = of_ports.into_iter().try_fold(Ports::ANY, Ports::within);
    let Some(ports) = ports else { return Some(Vec::new()) };
    let mut all = vec![Part { value: pattern.value, mask: pattern.mask, ports }];
    // What is in all ranges of a field.
    let mut ranges: Vec<Range> = Vec::new();
    for range in others {
        match ranges.iter_mut().find(|other| other.field == range.field) {
            Some(other) => {
                (other.first, other.last) = (other.first.max(range.first), other.last.min(range.last));
            }
            None => ranges.push(*range),
        }
    }
    for range in ranges {
        let parts = prefixes(range);
        if all.len() * parts.len() > MOST_PREFIXES {
            return None;
        }
        all = (all.iter())
            .flat_map(|part| {
                parts.iter().map(|(bits, these)| {
                    let mut part = *part;
                    part.value.set(range.field, *bits);
                    part.mask.set(range.field, *these);
                    part
                })
            })
            .collect();
    }
    Some(all)
}

/// A part with ranges of ports as several without.
pub(crate) fn without_ports(part: &Part) -> Vec<Part> {
    let mut all = vec![Part { ports: Ports::ANY, ..*part }];
    for (field, at) in
        ports::FIELDS.into_iter().filter(|(_, at)| part.ports.range(*at) != Ports::ANY.range(*at))
    {
        let (first, last) = part.ports.range(at);
        let prefixes = prefixes(Range { field, first: first.into(), last: last.into() });
        let (mask, value) = (part.mask.get(field), part.value.get(field));
        let agree = |(other, bits): &&(u64, u64)| (other ^ value) & mask & bits == 0;
        let with = |mut part: Part, (other, bits): (u64, u64)| {
            part.mask.set(field, mask | bits);
            part.value.set(field, value & mask | other & bits);
            part
        };
        let each = |part: Part| {
            prefixes.iter().filter(agree).map(move |prefix| with(part, *prefix)).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(each).collect();
    }
    all
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
    fn ranges_of_ports_become_prefixes_where_they_must() {
        let range = |field, first, last| Range { field, first, last };
        let ranges = vec![range(Field::SrcPort, 4096, 8191), range(Field::DstPort, 5, 10)];
        let pattern = Pattern { ranges, ..Pattern::default() };
        let part = expand(&pattern).unwrap()[0];
        let all = without_ports(&part);
        assert_eq!(all.len(), 4, "one prefix, and 5, 6 to 7, 8 to 9, 10");
        for (source, destination) in
            [(4096, 5), (8191, 10), (5000, 8), (4095, 7), (8192, 7), (5000, 4), (5000, 11)]
        {
            let mut key = Key::default();
            key.set(Field::SrcPort, source);
            key.set(Field::DstPort, destination);
            let found = all.iter().filter(|part| key.masked(&part.mask) == part.value).count();
            assert_eq!(found, usize::from(part.ports.suit(&key)), "{source} {destination}");
        }
        let exact = Part {
            mask: {
                let mut mask = Key::default();
                mask.set(Field::DstPort, 0xffff);
                mask
            },
            ..part
        };
        assert!(without_ports(&exact).is_empty(), "no port is 0 and in the range");
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
    fn two_ranges_are_all_pairs_but_for_ports_and_too_many_are_refused() {
        let range = |field, first, last| Range { field, first, last };
        let mut pattern = Pattern::default();
        pattern.demand(Field::Proto, 17, u64::MAX);
        pattern.ranges = vec![range(Field::EthType, 1, 6), range(Field::VlanType, 8, 15)];
        let all = expand(&pattern).unwrap();
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|part| part.value.masked(&part.mask) == part.value));
        assert!(all.iter().all(|part| part.mask.get(Field::Proto) == 255 && part.ports == Ports::ANY));
        let wide = |field| range(field, 1, 65534);
        pattern.ranges = vec![wide(Field::EthType), wide(Field::VlanType)];
        assert_eq!(expand(&pattern).unwrap().len(), 900);
        pattern.ranges.push(range(Field::Ttl, 1, 254));
        assert_eq!(expand(&pattern), None);
        pattern.ranges = vec![wide(Field::SrcPort), wide(Field::DstPort), wide(Field::EthType)];
        let all = expand(&pattern).unwrap();
        assert!(all.len() == 30 && all.iter().all(|part| part.ports.range(32) == (1, 65534)));
        pattern.ranges.push(range(Field::SrcPort, 0, 0));
        assert_eq!(expand(&pattern), Some(Vec::new()), "nothing is in both ranges");
    }
}
