use super::*;
use proptest::prelude::*;

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

/// A frame of this type.
fn frame(ether_type: u16, parts: &[&[u8]]) -> Vec<u8> {
    [&MACS[..], &ether_type.to_be_bytes(), &parts.concat()].concat()
}

/// IPv4 from 10.0.0.1 to 10.0.0.2.
fn v4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let fragment = fragment.to_be_bytes();
    let head = [0x45, 0x2e, length[0], length[1], 0, 1, fragment[0], fragment[1], 61, protocol, 0, 0];
    [&head[..], &[10, 0, 0, 1, 10, 0, 0, 2], payload].concat()
}

/// IPv6 from 2001:db8::1 to 2001:db8::2.
fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let mut packet = vec![0x62, 0xe1, 0x23, 0x45, length[0], length[1], next, 59];
    for last in [1, 2] {
        packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(payload);
    packet
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    [&[0, 7][..], &port.to_be_bytes(), &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload].concat()
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..4].copy_from_slice(&[0, 80, 1, 187]);
    header[13] = flags;
    header
}

/// The layers that a key has.
fn layers(all: &[Layer]) -> u64 {
    all.iter().map(|layer| layer.bit()).sum()
}

#[test]
fn a_plain_frame_has_exactly_these_fields() {
    let mut right = Key::default();
    for (field, value) in [
        (Field::EthDst, 0x0200_0000_0001),
        (Field::EthSrc, 0x0200_0000_0002),
        (Field::EthType, 0x800),
        (Field::SrcLow, 0x0a00_0001),
        (Field::DstLow, 0x0a00_0002),
        (Field::Tos, 0x2e),
        (Field::Ttl, 61),
        (Field::Proto, 17),
        (Field::SrcPort, 7),
        (Field::DstPort, 53),
        (Field::Layers, layers(&[Layer::Ipv4, Layer::Udp])),
    ] {
        right.set(field, value);
    }
    assert_eq!(read(&frame(IPV4, &[&v4(UDP, 0, &udp(53, b"?"))])), right);
}

/// A frame, its layers, and some of its fields.
type Case = (Vec<u8>, Vec<Layer>, Vec<(Field, u64)>);

fn cases() -> Vec<Case> {
    use Layer::{
        Ah, Arp, Esp, Geneve, Gre, Gtpu, Icmp, Icmp6, InnerVlan, Ipv4, Ipv6, L2tpv3, Mpls, Pppoe, Sctp, Tcp,
        Udp, Vlan, Vxlan,
    };
    let over = |protocol, payload: &[u8]| frame(IPV4, &[&v4(protocol, 0, payload)]);
    let tunnel = [8, 0, 0, 0, 0, 0x12, 0x34, 0x56];
    let arp = [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
    let addresses = vec![
        (Field::SrcHigh, 0x2001_0db8_0000_0000),
        (Field::SrcLow, 1),
        (Field::DstHigh, 0x2001_0db8_0000_0000),
        (Field::DstLow, 2),
        (Field::Tos, 0x2e),
        (Field::FlowLabel, 0x1_2345),
        (Field::Ttl, 59),
    ];
    vec![
        (
            over(TCP, &tcp(0x12)),
            vec![Ipv4, Tcp],
            vec![(Field::SrcPort, 80), (Field::DstPort, 443), (Field::TcpFlags, 0x12)],
        ),
        (
            over(SCTP, &tcp(0)[..12]),
            vec![Ipv4, Sctp],
            vec![(Field::SrcPort, 80), (Field::DstPort, 443), (Field::TcpFlags, 0)],
        ),
        (over(ICMP, &[3, 4, 0, 0]), vec![Ipv4, Icmp], vec![(Field::IcmpType, 3), (Field::IcmpCode, 4)]),
        (over(ESP, &[0, 0, 1, 2, 0, 0, 0, 9]), vec![Ipv4, Esp], vec![(Field::Session, 0x102)]),
        (over(AH, &[6, 1, 0, 0, 0, 0, 1, 3, 0, 0, 0, 1]), vec![Ipv4, Ah], vec![(Field::Session, 0x103)]),
        (over(GRE, &[0, 0, 8, 0]), vec![Ipv4, Gre], vec![(Field::SessionType, 0x800), (Field::Session, 0)]),
        (over(GRE, &[0x20, 0, 8, 0, 0, 0, 0, 5]), vec![Ipv4, Gre], vec![(Field::Session, 5)]),
        (over(GRE, &[0xa0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 0, 6]), vec![Ipv4, Gre], vec![(Field::Session, 6)]),
        (over(L2TP, &[0, 0, 0, 17]), vec![Ipv4, L2tpv3], vec![(Field::Session, 17)]),
        (over(UDP, &udp(4789, &tunnel)), vec![Ipv4, Udp, Vxlan], vec![(Field::Session, 0x1234)]),
        (over(UDP, &udp(6081, &tunnel)), vec![Ipv4, Udp, Geneve], vec![(Field::Session, 0x1234)]),
        (over(UDP, &udp(2152, &tunnel)), vec![Ipv4, Udp, Gtpu], vec![(Field::Session, 0x12_3456)]),
        (
            frame(ARP, &[&arp]),
            vec![Arp],
            vec![(Field::IcmpCode, 2), (Field::SrcLow, 0x0a00_0001), (Field::DstLow, 0x0a00_0002)],
        ),
        (
            frame(IPV6, &[&v6(TCP, &tcp(2))]),
            vec![Ipv6, Tcp],
            [addresses.clone(), vec![(Field::Proto, 6)]].concat(),
        ),
        (frame(IPV6, &[&v6(ICMP6, &[135, 0, 0, 0])]), vec![Ipv6, Icmp6], vec![(Field::IcmpType, 135)]),
        (
            frame(
                IPV6,
                &[&v6(
                    HOP_BY_HOP,
                    &[&[DESTINATION, 0][..], &[0; 6], &[UDP, 1], &[0; 14], &udp(9, b"")].concat(),
                )],
            ),
            vec![Ipv6, Udp],
            vec![(Field::Proto, 17), (Field::DstPort, 9)],
        ),
        (
            frame(IPV6, &[&v6(FRAGMENT, &[&[UDP, 0, 0, 1, 0, 0, 0, 7][..], &udp(9, b"")].concat())]),
            vec![Ipv6, Udp],
            vec![(Field::Fragment, 0x2000), (Field::DstPort, 9)],
        ),
        (
            frame(0x8100, &[&[0xa0, 7, 8, 0], &v4(UDP, 0, &udp(53, b""))]),
            vec![Vlan, Ipv4, Udp],
            vec![
                (Field::EthType, 0x8100),
                (Field::VlanTci, 0xa007),
                (Field::VlanType, 0x800),
                (Field::DstPort, 53),
            ],
        ),
        (
            frame(0x88a8, &[&[0, 9, 0x81, 0, 0, 7, 0x86, 0xdd], &v6(TCP, &tcp(0))]),
            vec![Vlan, InnerVlan, Ipv6, Tcp],
            vec![(Field::VlanTci, 9), (Field::InnerVlanTci, 7), (Field::InnerVlanType, 0x86dd)],
        ),
        (
            frame(0x8847, &[&[0x12, 0x34, 0x5b, 64], &v4(UDP, 0, &udp(53, b""))]),
            vec![Mpls, Ipv4, Udp],
            vec![
                (Field::MplsLabel, 0x12345),
                (Field::MplsClass, 5),
                (Field::MplsBottom, 1),
                (Field::MplsTtl, 64),
            ],
        ),
        (
            frame(0x8864, &[&[0x11, 0, 0, 5, 0, 30, 0, 0x21], &v4(ESP, 0, &[0, 0, 0, 8, 0, 0, 0, 1])]),
            vec![Pppoe, Ipv4, Esp],
            vec![(Field::PppoeSession, 5), (Field::Session, 8)],
        ),
        (frame(0x8863, &[&[0x11, 9, 0, 0, 0, 0]]), vec![Pppoe], vec![(Field::PppoeSession, 0)]),
    ]
}

#[test]
fn every_layer_is_seen() {
    for (frame, right, fields) in cases() {
        let key = read(&frame);
        assert_eq!(key.get(Field::Layers), layers(&right), "{right:?}");
        fields.iter().for_each(|(field, value)| assert_eq!(key.get(*field), *value, "{right:?} {field:?}"));
    }
}

#[test]
fn what_is_cut_off_is_not_there() {
    for (frame, right, _) in cases() {
        for length in 0..frame.len() {
            let key = read(&frame[..length]);
            let has = key.get(Field::Layers);
            assert_eq!(has & !layers(&right), 0, "{right:?} of {length} bytes");
            if length < 14 {
                assert_eq!(key, Key::default());
            }
        }
        // The last header of each of these frames ends with the frame, but for a payload.
        let last = *right.last().unwrap();
        let short = read(&frame[..frame.len() - 1]).get(Field::Layers);
        assert_eq!(short & last.bit(), 0, "{right:?}");
    }
}

#[test]
fn padding_and_later_fragments_have_no_transport() {
    let of = |frame: Vec<u8>| read(&frame).get(Field::Layers);
    // The packet says that it ends before the header that is there.
    let mut padded = v4(UDP, 0, &udp(53, b""));
    padded[3] = 27;
    assert_eq!(of(frame(IPV4, &[&padded])), layers(&[Layer::Ipv4]));
    assert_eq!(of(frame(IPV4, &[&v4(UDP, 1, &udp(53, b""))])), layers(&[Layer::Ipv4]));
    assert_eq!(of(frame(IPV4, &[&v4(UDP, 0x2000, &udp(53, b""))])), layers(&[Layer::Ipv4, Layer::Udp]));
    let later = [&[UDP, 0, 0, 8, 0, 0, 0, 7][..], &udp(9, b"")].concat();
    let key = read(&frame(IPV6, &[&v6(FRAGMENT, &later)]));
    assert_eq!((key.get(Field::Layers), key.get(Field::Fragment)), (Layer::Ipv6.bit(), 1));
    assert_eq!(key.get(Field::Proto), 17);
    // Nine extension headers.
    let many = [&[DESTINATION, 0, 0, 0, 0, 0, 0, 0].repeat(8)[..], &[UDP, 0, 0, 0, 0, 0, 0, 0], &udp(9, b"")]
        .concat();
    assert_eq!(of(frame(IPV6, &[&v6(DESTINATION, &many)])), Layer::Ipv6.bit());
    // Headers that contradict themselves.
    for (at, value) in [(0, 0x55), (0, 0x44), (3, 19)] {
        let mut wrong = v4(UDP, 0, &udp(53, b""));
        wrong[at] = value;
        assert_eq!(of(frame(IPV4, &[&wrong])), 0);
    }
    // ICMP of the other version.
    assert_eq!(of(frame(IPV4, &[&v4(ICMP6, 0, &[1, 2, 3, 4])])), layers(&[Layer::Ipv4]));
    assert_eq!(of(frame(IPV6, &[&v6(ICMP, &[1, 2, 3, 4])])), layers(&[Layer::Ipv6]));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn damaged_frames_are_read(
        case in 0usize..22,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut frame = cases()[case].0.clone();
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let key = read(&frame[..cut.index(frame.len() + 1)]);
        // Two versions of IP, or ARP beside IP, are never there at once.
        let network = [Layer::Ipv4, Layer::Ipv6, Layer::Arp];
        let many = network.iter().filter(|layer| key.get(Field::Layers) & layer.bit() != 0).count();
        prop_assert!(many <= 1);
    }
}
