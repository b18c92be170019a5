//! Ranges of ports: what most rules with ranges have. A rule keeps them as they are.

use crate::key::{Field, Key};
use crate::rule::Range;

/// The first and the last source port, and the first and the last destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports(pub(crate) u64);

/// The fields that have such ranges, and where their ranges are.
pub(crate) const FIELDS: [(Field, u32); 2] = [(Field::SrcPort, 0), (Field::DstPort, 32)];

impl Ports {
    /// All ports.
    pub(crate) const ANY: Self = Self(0xffff_0000_ffff_0000);

    /// No port: both ranges end before they begin.
    pub(crate) const NONE: Self = Self(0x0000_0001_0000_0001);

    /// The first and the last value of the field whose range is there.
    pub(crate) fn range(self, at: u32) -> (u16, u16) {
        ((self.0 >> at) as u16, (self.0 >> (at + 16)) as u16)
    }

    /// What is in a range too, if it is one of ports. None: nothing is.
    pub(crate) fn within(self, range: &Range) -> Option<Self> {
        let (_, at) = FIELDS.into_iter().find(|(field, _)| *field == range.field)?;
        let (first, last) = self.range(at);
        let (first, last) = (range.first.max(first.into()), range.last.min(last.into()));
        let others = self.0 & !(0xffff_ffff << at);
        (first <= last).then_some(Self(others | (last << 16 | first) << at))
    }

    /// Whether a range is one of ports.
    pub(crate) fn have(range: &Range) -> bool {
        FIELDS.iter().any(|(field, _)| *field == range.field)
    }

    /// Whether a packet with these fields is in the ranges.
    #[inline]
    pub(crate) fn suit(self, key: &Key) -> bool {
        let (source, destination) = (key.get(Field::SrcPort) as u16, key.get(Field::DstPort) as u16);
        let within = |at, port| {
            let (first, last) = self.range(at);
            (first..=last).contains(&port)
        };
        self == Self::ANY || within(0, source) && within(32, destination)
    }
}

/// Whether these bits of a port are its first ones.
pub(crate) fn is_prefix(mask: u64) -> bool {
    let free = !mask & u64::from(u16::MAX);
    free & (free + 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports() {
        let range = |field, first, last| Range { field, first, last };
        let key = |source, destination| {
            let mut key = Key::default();
            key.set(Field::SrcPort, source);
            key.set(Field::DstPort, destination);
            key
        };
        assert!(Ports::ANY.suit(&key(0, 65535)) && Ports::ANY.suit(&key(65535, 0)));
        let ports = Ports::ANY.within(&range(Field::DstPort, 5, 7)).unwrap();
        let both = ports.within(&range(Field::SrcPort, 1000, 70_000)).unwrap();
        for (source, destination) in [(0, 5), (1000, 7), (65535, 4), (999, 6), (1000, 8)] {
            let right = (5..=7).contains(&destination);
            assert_eq!(ports.suit(&key(source, destination)), right);
            assert_eq!(both.suit(&key(source, destination)), right && source >= 1000);
        }
        assert_eq!(both.within(&range(Field::DstPort, 7, 9)).map(|ports| ports.range(32)), Some((7, 7)));
        assert_eq!(both.within(&range(Field::DstPort, 8, 9)), None);
        assert!(!Ports::have(&range(Field::Ttl, 1, 2)) && Ports::have(&range(Field::SrcPort, 1, 2)));
    }
}
