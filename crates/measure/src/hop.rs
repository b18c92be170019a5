//! Latency from hop to hop: the age of a frame by the time in its tag, and updating that time.
//!
//! A probe that only reads measures the latency of frames since their source. If a probe also writes the
//! present time, the next one, or the sink, measures the latency since that probe: the tag has space for one
//! time, so a frame of 60 bytes is measured from hop to hop as well as a long one.

use crate::classify::network;
use crate::tag::{self, Tag};
use wire::checksum::Delta;
use wire::{Ipv6, ethernet, ipv6, protocol, udp};

/// Where in a tag its time is.
const TIME: usize = 12;

/// The offset of a frame's UDP header, found from its headers without checking checksums.
pub(crate) fn datagram(frame: &[u8]) -> Option<usize> {
    let (kind, at) = network(frame)?;
    let packet = frame.get(at..)?;
    match kind {
        ethernet::ETHERTYPE_IPV4 => {
            let header = wire::Ipv4::new(packet)?;
            let ours = header.protocol() == protocol::UDP && !header.is_fragment();
            ours.then(|| at + header.header_len())
        }
        ethernet::ETHERTYPE_IPV6 => {
            let (header, _) = Ipv6::split(packet)?;
            (header.next_header() == protocol::UDP).then_some(at + ipv6::HEADER_LEN)
        }
        _ => None,
    }
}

/// The tag of a measured frame; checksums are not verified.
#[inline]
#[must_use]
pub fn read(frame: &[u8]) -> Option<Tag> {
    Tag::read(frame.get(datagram(frame)? + udp::HEADER_LEN..)?)
}

/// The same, and the tag's time is set to `now_ns`. A correct checksum stays correct.
#[inline]
pub fn stamp(frame: &mut [u8], now_ns: u64) -> Option<Tag> {
    let at = datagram(frame)?;
    let (header, payload) = frame.get_mut(at..)?.split_first_chunk_mut::<{ udp::HEADER_LEN }>()?;
    let tag = Tag::read(payload)?;
    let time = payload.get_mut(TIME..tag::LEN)?.first_chunk_mut::<6>()?;
    let [_, _, t0, t1, t2, t3, t4, t5] = now_ns.to_be_bytes();
    let new = [t0, t1, t2, t3, t4, t5];
    let words = |b: [u8; 6]| [[b[0], b[1]], [b[2], b[3]], [b[4], b[5]]].map(u16::from_be_bytes);
    let delta =
        words(*time).into_iter().zip(words(new)).fold(Delta::new(), |d, (old, new)| d.replace(old, new));
    *time = new;
    let [.., c0, c1] = header;
    [*c0, *c1] = delta.apply_udp(u16::from_be_bytes([*c0, *c1])).to_be_bytes();
    Some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Frame, classify};
    use crate::flows::Tuple;
    use crate::frame::{Family, Flow, Stamp, Template};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wire::EtherAddr;

    fn frame<A: Family>(address: A, ns: u64, len: usize) -> Vec<u8> {
        let template = Template::<A>::new(EtherAddr([2; 6]), EtherAddr([4; 6]), 64, len);
        let tuple = Tuple { src: address, dst: address, sport: 5, dport: 9 };
        let mut flow = Flow::new(&tuple, tag::identity(3, 1, 77));
        let mut bytes = template.bytes(len).to_vec();
        assert!(template.stamp(&mut bytes, &mut flow, Stamp::new(ns)));
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The frame is as if it had been sent at the new time, with a right checksum.
        #[test]
        fn a_new_time_is_as_if_sent_then(six: bool, old in 0u64..1 << 48, new in 0u64..1 << 48, vlan: bool, more in 0usize..50) {
            let make = |ns| {
                let mut bytes = if six { frame(Ipv6Addr::LOCALHOST, ns, 80 + more) } else { frame(Ipv4Addr::LOCALHOST, ns, 60 + more) };
                if vlan {
                    bytes.splice(12..12, [0x81, 0, 0, 5]);
                }
                bytes
            };
            let mut bytes = make(old);
            prop_assert_eq!(read(&bytes).map(|t| (t.flow, t.time)), Some((77, old)));
            prop_assert_eq!(stamp(&mut bytes, new).map(|t| t.time), Some(old));
            let Frame::Ours(tag) = classify(&bytes, true) else { return Err(TestCaseError::fail("damaged")) };
            prop_assert_eq!(tag.time, new);
            // Except 0 and ffff, which are the same sum.
            let expected = make(new);
            let at = datagram(&expected).unwrap() + 6;
            prop_assert_eq!((&bytes[..at], &bytes[at + 2..]), (&expected[..at], &expected[at + 2..]));
        }

        #[test]
        fn other_frames_stay_as_they_are(mut bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..60) {
            let before = bytes.clone();
            prop_assert_eq!(stamp(&mut bytes, 5), None);
            prop_assert_eq!(bytes, before);
            let mut short = frame(Ipv4Addr::LOCALHOST, 7, 60);
            short.truncate(cut);
            let before = short.clone();
            prop_assert_eq!(stamp(&mut short, 5), None);
            prop_assert_eq!(short, before);
        }
    }
}
