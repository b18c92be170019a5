//! Frames that are translated from one IP version to the other (RFC 8219) are still measured.

use measure::flows::Tuple;
use measure::frame::{Family, Flow, Stamp, Template};
use measure::learned::{Answers, Learned};
use measure::sink::Sink;
use measure::tag::identity;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Ethernet, Ipv4, Ipv6, UdpDatagram, ethernet, ipv6, protocol, udp};

const SRC: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
const DST: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

fn frame<A: Family>(src: A, dst: A, len: usize) -> Vec<u8> {
    let template = Template::<A>::new(SRC, DST, 64, len);
    let mut flow = Flow::new(&Tuple { src, dst, sport: 1024, dport: 9 }, identity(1, 0, 5));
    let mut frame = template.bytes(len).to_vec();
    assert!(template.stamp(&mut frame, &mut flow, Stamp::new(1000)));
    frame
}

/// As NAT64 does it: another network header, the same payload, the checksum adapted.
fn to_four(six: &[u8], src: Ipv4Addr, dst: Ipv4Addr, sport: u16) -> Vec<u8> {
    let mut datagram = six[ethernet::HEADER_LEN + ipv6::HEADER_LEN..].to_vec();
    datagram[..2].copy_from_slice(&sport.to_be_bytes());
    let ip = Ipv4::build(src, dst, protocol::UDP, datagram.len());
    assert!(udp::fill(ip.pseudo_sum(datagram.len() as u16), &mut datagram));
    let ether = Ethernet::build(DST, SRC, ethernet::ETHERTYPE_IPV4);
    [&ether.bytes()[..], &ip.bytes()[..], &datagram].concat()
}

#[test]
fn a_frame_of_ipv6_that_arrives_as_ipv4_is_measured() {
    let six = frame::<Ipv6Addr>("2001:2::1".parse().unwrap(), "64:ff9b::c613:1".parse().unwrap(), 80);
    let four = to_four(&six, [192, 0, 2, 1].into(), [198, 19, 0, 1].into(), 40_000);
    assert_eq!(four.len(), six.len() - 20);
    let mut sink = Sink::new(true, 64);
    sink.learned = Some(Learned::new(0, 64));
    sink.arrive([four.as_slice()].into_iter(), 3500);
    assert_eq!((sink.totals.ours, sink.totals.damaged, sink.totals.received), (1, 0, 1));
    // A histogram keeps three digits.
    assert!(sink.latency.max_ns().abs_diff(2500) <= 5, "{} ns", sink.latency.max_ns());
    // The way back is that of the Responder's side.
    let answers = Answers::read(&sink.learned.unwrap().text()).unwrap();
    let (flow, back) = answers.of_four().unwrap()[0];
    assert_eq!((flow, back.dst, back.dport), (5, [192, 0, 2, 1].into(), 40_000));
}

#[test]
fn a_frame_of_ipv4_that_arrives_as_ipv6_is_measured() {
    let four = frame::<Ipv4Addr>([198, 18, 0, 1].into(), [198, 19, 0, 1].into(), 60);
    let mut datagram = four[ethernet::HEADER_LEN + 20..].to_vec();
    let mut header = vec![0; ipv6::HEADER_LEN];
    let (src, dst): (Ipv6Addr, Ipv6Addr) = ("2001:2::1".parse().unwrap(), "2001:2:0:1::1".parse().unwrap());
    let mut ip = Ipv6::new_mut(&mut header).unwrap();
    ip.set_version_class_flow(6 << 28);
    ip.set_next_header(protocol::UDP);
    ip.set_payload_len(datagram.len() as u16);
    ip.set_src(src);
    ip.set_dst(dst);
    let pseudo = Ipv6::split(&header).unwrap().0.pseudo_sum(datagram.len() as u32);
    assert!(udp::fill(pseudo, &mut datagram));
    assert!(UdpDatagram::parse(&datagram).is_some_and(|d| d.verify_checksum(pseudo)));
    let ether = Ethernet::build(DST, SRC, ethernet::ETHERTYPE_IPV6);
    let six = [&ether.bytes()[..], &header, &datagram].concat();
    assert_eq!(six.len(), four.len() + 20);
    let mut sink = Sink::new(true, 64);
    sink.arrive([six.as_slice()].into_iter(), 1000);
    assert_eq!((sink.totals.ours, sink.totals.damaged, sink.totals.foreign), (1, 0, 0));
}
