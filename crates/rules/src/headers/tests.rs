use super::*;
use crate::key::FIELDS;
use proptest::prelude::*;

fn by_general(frame: &[u8]) -> Key {
    let mut key = Key::default();
    general(&mut key, frame);
    key
}

fn by_plain(frame: &[u8]) -> Option<Key> {
    let mut key = Key::default();
    plain(&mut key, frame).then_some(key)
}

// Frames: each function puts a header in front of what is inside.

fn ethernet(kind: u16, inside: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 0xd1, 2, 0, 0, 0, 0, 0x51], &kind.to_be_bytes()[..], inside].concat()
}

fn tag(tci: u16, kind: u16, inside: &[u8]) -> Vec<u8> {
    [&tci.to_be_bytes(), &kind.to_be_bytes(), inside].concat()
}

fn pppoe_header(code: u8, protocol: u16, inside: &[u8]) -> Vec<u8> {
    let length = (inside.len() + 2) as u16;
    [&[0x11, code, 0x12, 0x34], &length.to_be_bytes()[..], &protocol.to_be_bytes(), inside].concat()
}

/// IPv4 from 192.0.2.1 to 198.51.100.2 with so many words of options.
fn ipv4_with(fragment: u16, options: u8, protocol: u8, inside: &[u8]) -> Vec<u8> {
    let length = (20 + 4 * usize::from(options) + inside.len()) as u16;
    let mut head = vec![0x45 + options, 0xb8];
    head.extend(length.to_be_bytes());
    head.extend([0x77, 0x77]);
    head.extend(fragment.to_be_bytes());
    head.extend([63, protocol, 0x99, 0x99, 192, 0, 2, 1, 198, 51, 100, 2]);
    head.extend([1u8, 1, 1, 1].repeat(options.into()));
    [&head, inside].concat()
}

fn ipv4_header(protocol: u8, inside: &[u8]) -> Vec<u8> {
    ipv4_with(0x4000, 0, protocol, inside)
}

/// IPv6 from 2001:db8::1 to 2001:db8::2:2.
fn ipv6_header(next: u8, inside: &[u8]) -> Vec<u8> {
    let mut head = vec![0x6b, 0x8a, 0xbc, 0xde];
    head.extend((inside.len() as u16).to_be_bytes());
    head.extend([next, 62]);
    for last in [1u64, 0x2_0002] {
        head.extend(0x2001_0db8_0000_0000u64.to_be_bytes());
        head.extend(last.to_be_bytes());
    }
    [&head, inside].concat()
}

/// An extension header of IPv6 of this many words of eight bytes.
fn extension(next: u8, words: u8, inside: &[u8]) -> Vec<u8> {
    let mut head = vec![1; usize::from(words) * 8];
    (head[0], head[1]) = (next, words - 1);
    [&head, inside].concat()
}

fn fragment_header(next: u8, field: u16, inside: &[u8]) -> Vec<u8> {
    [&[next, 0], &field.to_be_bytes()[..], &[1, 2, 3, 4], inside].concat()
}

fn tcp_header() -> Vec<u8> {
    [&[0x30, 0x39, 0x01, 0xbb], &[7; 8][..], &[0x50, 0x12, 7, 7, 7, 7, 7, 7]].concat()
}

fn udp_header(port: u16, inside: &[u8]) -> Vec<u8> {
    let length = (inside.len() + 8) as u16;
    [&[0x30, 0x39], &port.to_be_bytes()[..], &length.to_be_bytes(), &[7, 7], inside].concat()
}

fn arp_packet() -> Vec<u8> {
    let addresses = [2, 0, 0, 0, 0, 0x51, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9];
    [&[0, 1, 8, 0, 6, 4, 0x01, 0x02][..], &addresses].concat()
}

// What is expected of these headers.

type Values = Vec<(Field, u64)>;

fn of_ipv4(protocol: u8) -> Values {
    vec![
        (Field::Tos, 0xb8),
        (Field::Ttl, 63),
        (Field::Proto, protocol.into()),
        (Field::Fragment, 0x4000),
        (Field::SrcLow, 0xc000_0201),
        (Field::DstLow, 0xc633_6402),
    ]
}

fn of_ipv6(next: u8) -> Values {
    vec![
        (Field::Tos, 0xb8),
        (Field::FlowLabel, 0xa_bcde),
        (Field::Ttl, 62),
        (Field::Proto, next.into()),
        (Field::SrcHigh, 0x2001_0db8_0000_0000),
        (Field::SrcLow, 1),
        (Field::DstHigh, 0x2001_0db8_0000_0000),
        (Field::DstLow, 0x2_0002),
    ]
}

fn ports(port: u16) -> Values {
    vec![(Field::SrcPort, 12345), (Field::DstPort, port.into())]
}

/// A frame, each layer that it has and how many bytes of the frame are needed for it, and all fields after
/// those of Ethernet.
struct Sample {
    frame: Vec<u8>,
    layers: Vec<(Layer, usize)>,
    values: Values,
}

impl Sample {
    fn new(frame: Vec<u8>, layers: &[(Layer, usize)], values: &[Values]) -> Self {
        Self { frame, layers: layers.to_vec(), values: values.concat() }
    }

    /// What is in IPv4 without options, the only layer with the fields `values`.
    fn in_ipv4(protocol: u8, inside: &[u8], layers: &[(Layer, usize)], values: &[Values]) -> Self {
        let layers = [&[(Layer::Ipv4, 34)], layers].concat();
        let frame = ethernet(0x0800, &ipv4_header(protocol, inside));
        Self::new(frame, &layers, &[&[of_ipv4(protocol)], values].concat())
    }

    fn key(&self) -> Key {
        let mut key = Key::default();
        key.set(Field::EthDst, 0x0200_0000_00d1);
        key.set(Field::EthSrc, 0x0200_0000_0051);
        key.set(Field::EthType, u16::from_be_bytes([self.frame[12], self.frame[13]]).into());
        self.values.iter().for_each(|(field, value)| key.set(*field, *value));
        key.set(Field::Layers, self.bits(usize::MAX));
        key
    }

    /// The layers for which so many bytes are enough.
    fn bits(&self, bytes: usize) -> u64 {
        self.layers.iter().filter(|(_, end)| *end <= bytes).map(|(layer, _)| layer.bit()).sum()
    }
}

fn samples() -> Vec<Sample> {
    [link_samples(), transport_samples(), tunnel_samples(), ipv6_samples()].into_iter().flatten().collect()
}

/// What is below IP.
fn link_samples() -> Vec<Sample> {
    let udp = ipv4_header(17, &udp_header(53, &[]));
    let udp6 = ipv6_header(17, &udp_header(53, &[]));
    let outer = |kind| vec![(Field::VlanTci, 0xb064), (Field::VlanType, kind)];
    let inner = |kind| vec![(Field::InnerVlanTci, 0x0065), (Field::InnerVlanType, kind)];
    let two = |first, second, kind, inside: &[u8]| {
        ethernet(first, &tag(0xb064, second, &tag(0x0065, kind, inside)))
    };
    let label = |traffic, bottom, ttl| {
        let class = (Field::MplsClass, traffic);
        vec![(Field::MplsLabel, 0xf_ffe1), class, (Field::MplsBottom, bottom), (Field::MplsTtl, ttl)]
    };
    let session = vec![(Field::PppoeSession, 0x1234)];
    let operation = vec![(Field::IcmpType, 1), (Field::IcmpCode, 2)];
    let addresses = vec![(Field::SrcLow, 0xc000_0201), (Field::DstLow, 0xc000_0209)];
    let arp = [operation, addresses].concat();
    vec![
        Sample::new(ethernet(0x88b5, &[1, 2, 3]), &[], &[]),
        Sample::new(ethernet(0x0806, &arp_packet()), &[(Layer::Arp, 42)], std::slice::from_ref(&arp)),
        Sample::new(
            ethernet(0x8100, &tag(0xb064, 0x0806, &arp_packet())),
            &[(Layer::Vlan, 18), (Layer::Arp, 46)],
            &[outer(0x0806), arp],
        ),
        Sample::new(
            ethernet(0x9100, &tag(0xb064, 0x0800, &udp)),
            &[(Layer::Vlan, 18), (Layer::Ipv4, 38), (Layer::Udp, 46)],
            &[outer(0x0800), of_ipv4(17), ports(53)],
        ),
        Sample::new(
            two(0x88a8, 0x8100, 0x86dd, &udp6),
            &[(Layer::Vlan, 18), (Layer::InnerVlan, 22), (Layer::Ipv6, 62), (Layer::Udp, 70)],
            &[outer(0x8100), inner(0x86dd), of_ipv6(17), ports(53)],
        ),
        // The third tag is not looked into.
        Sample::new(
            two(0x8100, 0x8100, 0x8100, &tag(1, 0x0800, &udp)),
            &[(Layer::Vlan, 18), (Layer::InnerVlan, 22)],
            &[outer(0x8100), inner(0x8100)],
        ),
        Sample::new(
            ethernet(0x8847, &[&[0xff, 0xfe, 0x1b, 0x40], &udp[..]].concat()),
            &[(Layer::Mpls, 18), (Layer::Ipv4, 38), (Layer::Udp, 46)],
            &[label(5, 1, 64), of_ipv4(17), ports(53)],
        ),
        Sample::new(
            ethernet(0x8848, &[&[0xff, 0xfe, 0x11, 0xff], &udp6[..]].concat()),
            &[(Layer::Mpls, 18), (Layer::Ipv6, 58), (Layer::Udp, 66)],
            &[label(0, 1, 255), of_ipv6(17), ports(53)],
        ),
        // Another label follows; a pseudowire's control word follows.
        Sample::new(
            ethernet(0x8847, &[&[0xff, 0xfe, 0x1e, 0x40], &udp[..]].concat()),
            &[(Layer::Mpls, 18)],
            &[label(7, 0, 64)],
        ),
        Sample::new(
            ethernet(0x8847, &[0xff, 0xfe, 0x11, 0x40, 0, 0, 0, 0]),
            &[(Layer::Mpls, 18)],
            &[label(0, 1, 64)],
        ),
        Sample::new(
            ethernet(0x8864, &pppoe_header(0, 0x0021, &udp)),
            &[(Layer::Pppoe, 20), (Layer::Ipv4, 42), (Layer::Udp, 50)],
            &[session.clone(), of_ipv4(17), ports(53)],
        ),
        Sample::new(
            ethernet(0x8864, &pppoe_header(0, 0x0057, &udp6)),
            &[(Layer::Pppoe, 20), (Layer::Ipv6, 62), (Layer::Udp, 70)],
            &[session.clone(), of_ipv6(17), ports(53)],
        ),
        // LCP; discovery, in which nothing is IP.
        Sample::new(
            ethernet(0x8864, &pppoe_header(0, 0xc021, &udp)),
            &[(Layer::Pppoe, 20)],
            std::slice::from_ref(&session),
        ),
        Sample::new(
            ethernet(0x8863, &pppoe_header(0x65, 0x0021, &udp)),
            &[(Layer::Pppoe, 20)],
            std::slice::from_ref(&session),
        ),
    ]
}

/// What is in IPv4.
fn transport_samples() -> Vec<Sample> {
    let tcp = [ports(443), vec![(Field::TcpFlags, 0x12)]].concat();
    let icmp = vec![(Field::IcmpType, 3), (Field::IcmpCode, 13)];
    let fragment = |field| vec![(Field::Fragment, field)];
    let udp = udp_header(53, &[9; 12]);
    vec![
        Sample::in_ipv4(6, &tcp_header(), &[(Layer::Tcp, 54)], std::slice::from_ref(&tcp)),
        Sample::in_ipv4(17, &udp, &[(Layer::Udp, 42)], &[ports(53)]),
        Sample::in_ipv4(132, &udp, &[(Layer::Sctp, 46)], &[ports(53)]),
        Sample::in_ipv4(1, &[3, 13, 7, 7], &[(Layer::Icmp, 38)], &[icmp]),
        // OSPF is not known, and ICMPv6 is not in IPv4.
        Sample::in_ipv4(89, &[3; 40], &[], &[]),
        Sample::in_ipv4(58, &[3; 40], &[], &[]),
        Sample::new(
            ethernet(0x0800, &ipv4_with(0x4000, 10, 6, &tcp_header())),
            &[(Layer::Ipv4, 74), (Layer::Tcp, 94)],
            &[of_ipv4(6), tcp],
        ),
        // The first fragment has ports; a later one has not.
        Sample::new(
            ethernet(0x0800, &ipv4_with(0x2000, 0, 17, &udp)),
            &[(Layer::Ipv4, 34), (Layer::Udp, 42)],
            &[of_ipv4(17), ports(53), fragment(0x2000)],
        ),
        Sample::new(
            ethernet(0x0800, &ipv4_with(0x2001, 0, 17, &udp)),
            &[(Layer::Ipv4, 34)],
            &[of_ipv4(17), fragment(0x2001)],
        ),
        Sample::new(
            ethernet(0x0800, &ipv4_with(0x1000, 0, 6, &[7; 40])),
            &[(Layer::Ipv4, 34)],
            &[of_ipv4(6), fragment(0x1000)],
        ),
    ]
}

/// Tunnels and IPsec in IPv4.
fn tunnel_samples() -> Vec<Sample> {
    let session = |value| vec![(Field::Session, value)];
    let kind = |value| vec![(Field::SessionType, value)];
    let word = [0x89, 0xab, 0xcd, 0xef];
    let head = [&[8, 0, 0, 0], &word[..]].concat();
    let in_udp = |layer, port, value| {
        let layers = [(Layer::Udp, 42), (layer, 50)];
        Sample::in_ipv4(17, &udp_header(port, &head), &layers, &[ports(port), session(value)])
    };
    let gre = |flags, inside: &[u8]| [&[flags, 0, 0x65, 0x58], inside].concat();
    let in_gre = |flags, inside: &[u8], value| {
        let values = [kind(0x6558), session(value)];
        Sample::in_ipv4(47, &gre(flags, inside), &[(Layer::Gre, 38)], &values)
    };
    let pppoe =
        |protocol, inside: &[u8]| ethernet(0x8864, &pppoe_header(0, 0x0021, &ipv4_header(protocol, inside)));
    let ah = [&[6, 4, 0, 0], &word[..], &[0; 16], &tcp_header()].concat();
    vec![
        in_udp(Layer::Vxlan, 4789, 0x89_abcd),
        in_udp(Layer::Geneve, 6081, 0x89_abcd),
        in_udp(Layer::Gtpu, 2152, 0x89ab_cdef),
        Sample::in_ipv4(50, &[&word[..], &[0; 9]].concat(), &[(Layer::Esp, 42)], &[session(0x89ab_cdef)]),
        // Nothing after the authentication header is looked at.
        Sample::in_ipv4(51, &ah, &[(Layer::Ah, 46)], &[session(0x89ab_cdef)]),
        Sample::in_ipv4(115, &word, &[(Layer::L2tpv3, 38)], &[session(0x89ab_cdef)]),
        in_gre(0x00, &word, 0),
        in_gre(0x20, &word, 0x89ab_cdef),
        in_gre(0xb0, &[&[7; 4], &word[..], &[5; 4]].concat(), 0x89ab_cdef),
        in_gre(0x60, &[&[7; 4], &word[..], &[5; 4]].concat(), 0x89ab_cdef),
        // The checksum is there and the key is not; the key is not whole.
        in_gre(0x80, &[&[7; 4], &word[..]].concat(), 0),
        in_gre(0xa0, &[7; 7], 0),
        // Both sessions are there.
        Sample::new(
            pppoe(50, &[&word[..], &[0; 4]].concat()),
            &[(Layer::Pppoe, 20), (Layer::Ipv4, 42), (Layer::Esp, 50)],
            &[of_ipv4(50), session(0x89ab_cdef), vec![(Field::PppoeSession, 0x1234)]],
        ),
        Sample::new(
            pppoe(47, &gre(0, &[])),
            &[(Layer::Pppoe, 20), (Layer::Ipv4, 42), (Layer::Gre, 46)],
            &[of_ipv4(47), kind(0x6558), vec![(Field::PppoeSession, 0x1234)]],
        ),
    ]
}

/// What is in IPv6, and after extension headers.
fn ipv6_samples() -> Vec<Sample> {
    let in_ipv6 = |next, inside: &[u8], layers: &[(Layer, usize)], values: &[Values]| {
        let layers = [&[(Layer::Ipv6, 54)], layers].concat();
        Sample::new(ethernet(0x86dd, &ipv6_header(next, inside)), &layers, values)
    };
    let udp = udp_header(53, &[9; 12]);
    let icmp = vec![(Field::IcmpType, 135), (Field::IcmpCode, 1)];
    let fragment = |field| vec![(Field::Fragment, field)];
    let options = |count: u32, then: u8, inside: &[u8]| {
        let last = extension(then, 1, inside);
        (1..count).fold(last, |inside, _| extension(60, 1, &inside))
    };
    let many = extension(43, 2, &extension(60, 1, &extension(6, 3, &tcp_header())));
    let tcp = [ports(443), vec![(Field::TcpFlags, 0x12)]].concat();
    let twice = fragment_header(44, 1, &fragment_header(17, 0, &udp));
    vec![
        in_ipv6(17, &udp, &[(Layer::Udp, 62)], &[of_ipv6(17), ports(53)]),
        in_ipv6(132, &udp, &[(Layer::Sctp, 66)], &[of_ipv6(132), ports(53)]),
        in_ipv6(58, &[135, 1, 7, 7], &[(Layer::Icmp6, 58)], &[of_ipv6(58), icmp]),
        // ICMP is not in IPv6; no next header.
        in_ipv6(1, &[3; 40], &[], &[of_ipv6(1)]),
        in_ipv6(59, &[3; 40], &[], &[of_ipv6(59)]),
        in_ipv6(0, &many, &[(Layer::Tcp, 54 + 48 + 20)], &[of_ipv6(6), tcp]),
        in_ipv6(60, &options(8, 17, &udp), &[(Layer::Udp, 126)], &[of_ipv6(17), ports(53)]),
        // The ninth is one too many.
        in_ipv6(60, &options(9, 17, &udp), &[], &[of_ipv6(60)]),
        // The first fragment, one that is all of the packet, a later fragment, the last.
        in_ipv6(
            44,
            &fragment_header(17, 0x0001, &udp),
            &[(Layer::Udp, 70)],
            &[of_ipv6(17), ports(53), fragment(0x2000)],
        ),
        in_ipv6(
            44,
            &fragment_header(60, 0x0006, &options(1, 17, &udp)),
            &[(Layer::Udp, 78)],
            &[of_ipv6(17), ports(53)],
        ),
        in_ipv6(44, &fragment_header(17, 0x0009, &udp), &[], &[of_ipv6(17), fragment(0x2001)]),
        in_ipv6(44, &fragment_header(60, 0xfff8, &[60; 40]), &[], &[of_ipv6(60), fragment(0x1fff)]),
        // A second fragment header does not hide what the first one says.
        in_ipv6(44, &twice, &[], &[of_ipv6(44), fragment(0x2000)]),
        in_ipv6(
            51,
            &[[17, 1, 0, 0, 0, 0, 1, 2].as_slice(), &udp].concat(),
            &[(Layer::Ah, 66)],
            &[of_ipv6(51), vec![(Field::Session, 0x102)]],
        ),
    ]
}

/// [`read`]; the fast path has to agree, and to take what it is for.
fn checked(frame: &[u8]) -> Key {
    let key = by_general(frame);
    let of = |layer: Layer| key.get(Field::Layers) == Layer::Ipv4.bit() | layer.bit();
    let tunnel = [2152, 4789, 6081].contains(&key.get(Field::DstPort));
    let simple = key.get(Field::EthType) == 0x0800 && frame.get(14) == Some(&0x45);
    let fast = simple && (of(Layer::Tcp) || of(Layer::Udp) && !tunnel);
    assert_eq!(by_plain(frame), fast.then_some(key), "{frame:02x?}");
    assert_eq!(read(frame), key);
    key
}

#[test]
fn each_layer_has_its_fields() {
    for sample in samples() {
        assert_eq!(show(&checked(&sample.frame)), show(&sample.key()), "{:02x?}", sample.frame);
        assert_eq!(checked(&sample.frame), sample.key());
    }
}

#[test]
fn each_layer_has_a_sample() {
    let all = samples().iter().fold(0, |bits, sample| bits | sample.bits(usize::MAX));
    assert_eq!(all, (1 << (Layer::Gtpu as u8 + 1)) - 1);
}

/// The fields that are not 0.
fn show(key: &Key) -> Values {
    let all = FIELDS.iter().chain(&[Field::Layers]).map(|field| (*field, key.get(*field)));
    all.filter(|(_, value)| *value != 0).collect()
}

#[test]
fn udp_has_exactly_these_words() {
    let frame = ethernet(0x0800, &ipv4_header(17, &udp_header(53, &[1, 2, 3])));
    let layers = Layer::Ipv4.bit() | Layer::Udp.bit();
    let words = [
        0x0800_0200_0000_00d1,
        0x0200_0000_0051,
        0,
        0xc000_0201,
        0xc633_6402,
        0,
        0,
        0x003f_b811_0035_3039,
        layers,
        0,
        0,
        0x4000 << 32,
    ];
    assert_eq!(by_plain(&frame), Some(Key(words)));
    assert_eq!(by_general(&frame), Key(words));
}

#[test]
fn earlier_rules_have_their_fields() {
    for sample in samples() {
        let mut key = sample.key();
        key.set(Field::Mark, 1);
        key.set(Field::Meta, 0xffff_ffff);
        key.set(Field::Tag, 0x8000_0001);
        assert_eq!(read_with(&sample.frame, 1, 0xffff_ffff, 0x8000_0001), key);
    }
}

#[test]
fn a_frame_that_is_cut_off_has_the_layers_that_are_whole() {
    for sample in samples() {
        for bytes in 0..=sample.frame.len() {
            let (key, whole) = (checked(&sample.frame[..bytes]), sample.key());
            assert_eq!(key.get(Field::Layers), sample.bits(bytes), "{bytes} of {:02x?}", sample.frame);
            for field in FIELDS {
                // Of IPv6 it is the extension header that is not whole.
                assert!(
                    field == Field::Proto || [0, whole.get(field)].contains(&key.get(field)),
                    "{field:?} {bytes}"
                );
            }
            assert!(bytes >= 14 || key == Key::default());
        }
    }
}

#[test]
fn bytes_after_the_end_of_the_ip_packet_do_not_count() {
    for protocol in [6, 17, 132, 1, 47, 50, 51, 115] {
        let whole = ethernet(0x0800, &ipv4_header(protocol, &[0x21; 40]));
        let whole6 = ethernet(0x86dd, &ipv6_header(protocol, &[0x21; 40]));
        for length in 0..=60u16 {
            let mut frame = whole.clone();
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            let cut = checked(&frame[..14 + usize::from(length)]);
            assert_eq!(checked(&frame), cut);
            assert_eq!(cut.get(Field::Layers) & Layer::Ipv4.bit() != 0, length >= 20);
        }
        for length in 1..=40u16 {
            let mut frame = whole6.clone();
            frame[18..20].copy_from_slice(&length.to_be_bytes());
            assert_eq!(checked(&frame), checked(&frame[..54 + usize::from(length)]));
        }
    }
}

#[test]
fn a_length_of_0_of_ipv6_is_all_that_is_there() {
    let mut frame = ethernet(0x86dd, &ipv6_header(17, &udp_header(53, &[])));
    let key = read(&frame);
    frame[18..20].fill(0);
    assert_eq!(read(&frame), key);
    assert_eq!(key.get(Field::DstPort), 53);
}

/// A byte of a header is another one: the layer is not there, and nothing after it.
#[test]
fn what_is_not_of_the_expected_form_is_no_layer() {
    let ipv4 = ethernet(0x0800, &ipv4_header(17, &udp_header(53, &[])));
    let ipv6 = ethernet(0x86dd, &ipv6_header(17, &udp_header(53, &[])));
    let arp = ethernet(0x0806, &arp_packet());
    let session = ethernet(0x8864, &pppoe_header(0, 0x21, &ipv4[14..]));
    let cases = [
        (&ipv4, 14, 0x55),
        (&ipv4, 14, 0x44),
        (&ipv4, 14, 0x4f),
        (&ipv6, 14, 0x40),
        (&arp, 15, 6),
        (&arp, 16, 0x86),
        (&arp, 18, 8),
        (&arp, 19, 16),
        (&session, 14, 0x12),
    ];
    for (frame, at, byte) in cases {
        let mut frame = frame.clone();
        frame[at] = byte;
        let key = checked(&frame);
        let mut link = Key::default();
        let of_link = [Field::EthDst, Field::EthSrc, Field::EthType];
        of_link.iter().for_each(|field| link.set(*field, key.get(*field)));
        assert_eq!(key, link, "{at} {byte:#x}");
    }
}

/// Bits that no field has are 0.
fn has_fields_alone(key: &Key) -> bool {
    let mut again = Key::default();
    FIELDS.iter().chain(&[Field::Layers]).for_each(|field| again.set(*field, key.get(*field)));
    again == *key
}

/// Frames that are nearly what the fast path takes.
fn nearly_plain() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop_oneof![Just(6u8), Just(17), any::<u8>()];
    let port = prop_oneof![Just(53u16), Just(2152), Just(4789), Just(6081), any::<u16>()];
    let fragment = prop_oneof![3 => Just(0u16), 3 => Just(0x4000), 1 => any::<u16>()];
    let options = prop_oneof![3 => Just(0u8), 1 => 0..11u8];
    let kind = prop_oneof![9 => Just(0x0800u16), 1 => any::<u16>()];
    let inside = prop::collection::vec(any::<u8>(), 0..40);
    let length = prop_oneof![Just(None), (0..90u16).prop_map(Some)];
    (protocol, port, fragment, options, kind, inside, length).prop_map(
        |(protocol, port, fragment, options, kind, inside, length)| {
            let packet = ipv4_with(fragment, options, protocol, &udp_header(port, &inside));
            let mut frame = ethernet(kind, &packet);
            if let Some(length) = length {
                frame[16..18].copy_from_slice(&length.to_be_bytes());
            }
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 2048 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_give_a_key(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(has_fields_alone(&checked(&frame)));
    }

    #[test]
    fn fast_path_is_the_general_one(frame in nearly_plain(), cut in any::<prop::sample::Index>()) {
        checked(&frame);
        checked(&frame[..cut.index(frame.len() + 1)]);
    }

    /// Some bytes of a frame are others, and it is cut off: the first part has no layer that the whole has
    /// not.
    #[test]
    fn changed_frames_give_a_key(
        sample in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)
    ) {
        let mut frame = sample.get(&samples()).frame.clone();
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let (whole, part) = (checked(&frame), checked(&frame[..cut.index(frame.len() + 1)]));
        prop_assert!(has_fields_alone(&whole) && has_fields_alone(&part));
        prop_assert_eq!(part.get(Field::Layers) & !whole.get(Field::Layers), 0);
    }
}
