//! Views of headers over any bytes, and checksums against their definition.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;
use wire::{
    Arp, Ethernet, Icmpv4, Ipv4, Ipv4Packet, Ipv6, Options, Tcp, TcpSegment, Udp, UdpDatagram, Vlan, Vxlan,
};
use wire::{checksum, icmpv4, ipv4, tcp, udp};

/// RFC 1071 by the letter.
fn naive(data: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in data.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// In ones' complement there are two zeros.
fn same(a: u16, b: u16) -> bool {
    a == b || (a ^ b == 0xffff && (a == 0 || b == 0))
}

fn views(data: &[u8]) {
    if let Some((eth, _)) = Ethernet::split(data) {
        assert_eq!(eth.bytes(), &data[..14]);
        let _ = (eth.ethertype(), eth.to_owned());
    }
    let _ = Arp::new(data).map(|a| a.is_ethernet_ipv4());
    let _ = Vlan::new(data).map(|v| v.to_owned());
    let _ = Vxlan::new(data).map(|v| v.vni());
    let _ = Icmpv4::new(data).map(|i| i.to_owned());
    let _ = Udp::new(data).map(|u| u.to_owned());
    let _ = Tcp::new(data).map(|t| (t.header_len(), t.has(2)));
    let _ = Ipv6::new(data).map(|i| (i.version(), i.traffic_class(), i.flow_label(), i.pseudo_sum(9)));
    if let Some(ip) = Ipv4::new(data) {
        let _ = (ip.dscp(), ip.ecn(), ip.dont_fragment(), ip.fragment_offset(), ip.is_first_fragment());
    }
    if let Some(segment) = TcpSegment::parse(data) {
        assert!(segment.options().count() <= 40);
        let _ = segment.payload();
    }
    if let Some(datagram) = UdpDatagram::parse(data) {
        let _ = datagram.verify_checksum(0x1234);
    }
    if let Ok(packet) = Ipv4Packet::parse(data) {
        assert!(packet.options().count() <= 40);
        assert!(packet.header_bytes().len() + packet.payload().len() <= data.len());
        assert_eq!(packet.verify_checksum(), naive(packet.header_bytes()) == 0xffff);
    }
    let _ = (ipv4::check(data, true), ipv4::check(data, false), icmpv4::verify(data));
    for offset in [0, 1, 20, data.len()] {
        assert!(Options::new(data, offset).count() <= data.len());
    }
}

fn checksums(data: &[u8]) {
    assert!(same(checksum::sum(data), naive(data)));
    assert!(same(checksum::checksum(data), !naive(data)));
    let (a, b) = data.split_at(data.len() / 2);
    let second = if a.len() % 2 == 1 { checksum::at_odd_offset(checksum::sum(b)) } else { checksum::sum(b) };
    assert!(same(checksum::combine(checksum::sum(a), second), naive(data)));
    assert!(same(checksum::subtract(naive(data), second), checksum::sum(a)));

    let mut copy = data.to_vec();
    if icmpv4::fill(&mut copy) {
        assert!(icmpv4::verify(&copy));
        if icmpv4::reply_to_echo(&mut copy) {
            assert!(icmpv4::verify(&copy), "{copy:02x?}");
        }
    }
    let mut copy = data.to_vec();
    if tcp::fill(0x4321, &mut copy) {
        assert!(tcp::verify(0x4321, &copy));
    }
    let mut copy = data.to_vec();
    if udp::fill(0x4321, &mut copy) {
        assert!(udp::verify(0x4321, &copy));
    }
    let mut copy = data.to_vec();
    if ipv4::fill_header(&mut copy) {
        assert!(ipv4::verify_header(&copy));
    }
}

/// What changes a header keeps its checksum right.
fn updates(data: &[u8]) {
    let Some(header) = data.first_chunk::<20>() else { return };
    let mut bytes = *header;
    bytes[0] = 0x45;
    let Some(mut ip) = Ipv4::new_mut(&mut bytes) else { return };
    ip.fill_checksum();
    let word = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    ip.decrement_ttl();
    assert!(ip.verify_checksum());
    ip.update_tos(data[3]);
    ip.update_dscp(data[4]);
    ip.update_ecn(data[5]);
    assert!(ip.verify_checksum());
    ip.update_total_len(word(6));
    ip.update_flags_fragment(word(8));
    assert!(ip.verify_checksum());
    ip.update_src(Ipv4Addr::new(data[1], data[2], data[3], data[4]));
    ip.update_dst(Ipv4Addr::new(data[5], data[6], data[7], data[8]));
    assert!(ip.verify_checksum());
}

fuzz_target!(|data: &[u8]| {
    views(data);
    checksums(data);
    updates(data);
});
