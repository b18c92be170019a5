//! The tests on one way through a program, for packets that are expected to leave by one output.

/// The most tests that a path has; longer ones cost as much as the program.
const MOST: usize = 4;

/// The number of the part of an IP packet that begins with its network header.
const NETWORK: u8 = 1;

/// A test of a word of a part of the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) mask: u32,
    pub(crate) value: u32,
    pub(crate) offset: u16,
    /// Which part of an IP packet it is in.
    pub(crate) region: u8,
    /// Whether the word must have the value, or must not.
    pub(crate) equal: bool,
}

/// A few tests, all of which a packet passes only if the program sends it to one certain output. A packet
/// that fails one may still go there on another way.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    tests: [Test; MOST],
    len: usize,
}

impl Path {
    /// The path with these tests, of which those that follow from others are left out; `None`: too many.
    pub(crate) fn new(tests: &[Test]) -> Option<Self> {
        let follows = |test: &Test| {
            let same_word = |other: &&Test| (other.region, other.offset) == (test.region, test.offset);
            !test.equal
                && tests.iter().filter(same_word).any(|other| {
                    other.equal
                        && other.mask & test.mask == test.mask
                        && other.value & test.mask != test.value
                })
        };
        let mut path = Self { tests: [Test::default(); MOST], len: 0 };
        for test in tests.iter().filter(|test| !follows(test)) {
            *path.tests.get_mut(path.len)? = *test;
            path.len += 1;
        }
        Some(path)
    }

    /// Whether packet data passes all tests. For programs made by [`classifier`](crate::classifier).
    #[inline]
    pub fn takes_bytes(&self, data: &[u8]) -> bool {
        self.takes(|_| data)
    }

    /// Whether all tests are of the network header and what follows it: then [`Path::takes_first`] takes that
    /// as data.
    #[must_use]
    pub fn only_network(&self) -> bool {
        self.tests.iter().take(self.len).all(|test| test.region == NETWORK)
    }

    /// How many packets' data pass all tests, from the first on.
    #[inline]
    pub fn takes_first<'a>(&self, packets: impl Iterator<Item = &'a [u8]>) -> usize {
        match self.tests {
            // One test, in a loop of its own; the mask and the value are turned instead of each word.
            [Test { mask, value, offset, equal: true, .. }, ..] if self.len == 1 => {
                let (mask, value, offset) = (mask.to_be(), value.to_be(), usize::from(offset));
                let passes = |data: &&[u8]| {
                    let word = data.get(offset..).and_then(|rest| rest.first_chunk());
                    word.is_some_and(|word| u32::from_ne_bytes(*word) & mask == value)
                };
                packets.take_while(passes).count()
            }
            _ => packets.take_while(|data| self.takes_bytes(data)).count(),
        }
    }

    /// Whether an IP packet with these parts ([`IpParts::regions`](crate::IpParts::regions)) passes all
    /// tests. For programs made by [`ip_filter`](crate::ip_filter) and
    /// [`ip_classifier`](crate::ip_classifier).
    #[inline]
    pub fn takes_parts(&self, regions: &[&[u8]; 4]) -> bool {
        self.takes(|region| regions[usize::from(region & 3)])
    }

    #[inline(always)]
    fn takes<'a>(&self, part: impl Fn(u8) -> &'a [u8]) -> bool {
        self.tests.iter().take(self.len).all(|test| {
            word(part(test.region), usize::from(test.offset))
                .is_some_and(|word| (word & test.mask == test.value) == test.equal)
        })
    }
}

/// The word at an offset, if all of it is there.
#[inline(always)]
pub(crate) fn word(data: &[u8], offset: usize) -> Option<u32> {
    data.get(offset..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use crate::{IpParts, NoNames, classifier, ip_filter};

    #[test]
    fn a_path_has_the_tests_from_which_the_others_follow() {
        let patterns = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
        let program = classifier(&patterns, Some(4)).unwrap().program;
        let frame = |kind: u8| [vec![0; 12], vec![8, kind], vec![0; 20]].concat();
        let to_ip = program.path_to(2).unwrap();
        assert_eq!(to_ip.len, 1, "that it is not ARP follows");
        assert!(to_ip.takes_bytes(&frame(0)));
        assert!(!to_ip.takes_bytes(&frame(6)));
        assert!(!to_ip.takes_bytes(&frame(0)[..14]), "the word is not there");
        let frames = [frame(0), frame(0), frame(6), frame(0)];
        let first = |frames: &[Vec<u8>]| to_ip.takes_first(frames.iter().map(Vec::as_slice));
        assert_eq!((first(&frames), first(&frames[2..]), first(&frames[..1]), first(&[])), (2, 0, 1, 0));
        assert_eq!(first(&[frame(0)[..14].to_vec()]), 0);
        let to_rest = program.path_to(3).unwrap();
        assert!(to_rest.takes_bytes(&frame(9)));
        assert!(!to_rest.takes_bytes(&frame(0)));
        assert_eq!(to_rest.takes_first([frame(9), frame(8), frame(0)].iter().map(Vec::as_slice)), 2);
        assert!(program.path_to(4).is_none());
    }

    #[test]
    fn a_program_without_tests_takes_everything_on_the_path_to_its_output() {
        let program = classifier(&["-", "12/0800"], Some(2)).unwrap().program;
        assert!(program.path_to(0).unwrap().takes_bytes(&[]));
        assert!(program.path_to(1).is_none());
    }

    #[test]
    fn no_path_leads_to_where_packets_are_dropped() {
        let program = ip_filter(&["deny all"], None, &NoNames).unwrap().program;
        assert!(program.path_to(0).is_none());
        let program = ip_filter(&["allow udp", "deny all"], None, &NoNames).unwrap().program;
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[9] = 17;
        let path = program.path_to(0).unwrap();
        assert!(path.takes_parts(&IpParts::from_network(&packet).regions()));
        assert!(path.only_network() && path.takes_first(std::iter::once(&packet[..])) == 1);
        packet[9] = 6;
        assert!(!path.takes_parts(&IpParts::from_network(&packet).regions()));
        assert_eq!(path.takes_first(std::iter::once(&packet[..])), 0);
        let program = ip_filter(&["allow dst udp port 53", "deny all"], None, &NoNames).unwrap().program;
        assert!(!program.path_to(0).unwrap().only_network());
    }
}
