//! Segments that are cut and gathered again.

use wire::protocol::{TCP, UDP};
use wire::tcp::{ACK, CWR, ECE, FIN, PSH};

use super::*;
use crate::packet::Packet;

/// Packets of a connection, each but the last with `size` bytes of payload.
#[cfg(not(miri))]
pub(crate) fn packets(payload: usize, size: usize) -> Vec<Packet> {
    host(&Wants { payload, ..Wants::default() }).cut(size)
}

/// A TCP or UDP segment as a host hands it over.
#[derive(Clone)]
struct Host {
    frame: Vec<u8>,
    network: usize,
    transport: usize,
    headers: usize,
    v6: bool,
    protocol: u8,
}

struct Wants<'a> {
    v6: bool,
    protocol: u8,
    vlans: usize,
    ip_options: usize,
    options: &'a [u8],
    flags: u8,
    payload: usize,
}

impl Default for Wants<'_> {
    fn default() -> Self {
        let options = &[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4];
        Wants { v6: false, protocol: TCP, vlans: 0, ip_options: 0, options, flags: ACK, payload: 5000 }
    }
}

fn host(wants: &Wants<'_>) -> Host {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    for vlan in 0..wants.vlans {
        frame.extend([0x81, 0, 0, vlan as u8]);
    }
    let network = frame.len() + 2;
    let header = if wants.protocol == TCP { 20 + wants.options.len() } else { 8 };
    let len = header + wants.payload;
    if wants.v6 {
        frame.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([wants.protocol, 64]);
        frame.extend((0..32).map(|i| 0x20 + i));
    } else {
        let words = 5 + wants.ip_options;
        frame.extend([0x08, 0x00, 0x40 | words as u8, 0]);
        frame.extend(((words * 4 + len) as u16).to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, wants.protocol, 0, 0, 10, 0, 0, 1, 192, 168, 255, 254]);
        frame.extend([1].repeat(wants.ip_options * 4));
        let check = checksum::checksum(&frame[network..]);
        put(&mut frame, network + 10, check);
    }
    let transport = frame.len();
    frame.extend([0x12, 0x34, 0x00, 0x50]);
    if wants.protocol == TCP {
        frame.extend(0xffff_f000_u32.to_be_bytes());
        frame.extend([9, 8, 7, 6, (header as u8 / 4) << 4, wants.flags, 0x20, 0, 0, 0, 0, 0]);
        frame.extend(wants.options);
    } else {
        frame.extend((len as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    let headers = frame.len();
    frame.extend((0..wants.payload).map(|i| (i * 7 + i / 251) as u8));
    let sum = pseudo(&frame, network, wants.v6, wants.protocol, len);
    put(&mut frame, transport + if wants.protocol == TCP { 16 } else { 6 }, sum);
    Host { frame, network, transport, headers, v6: wants.v6, protocol: wants.protocol }
}

impl Host {
    fn vnet(&self, size: usize) -> VnetHeader {
        VnetHeader {
            flags: VnetHeader::NEEDS_SUM,
            kind: match (self.protocol, self.v6) {
                (TCP, false) => VnetHeader::TCP_IPV4,
                (TCP, true) => VnetHeader::TCP_IPV6,
                _ => VnetHeader::UDP,
            },
            headers_len: self.headers as u16,
            size: size as u16,
            sum_start: self.transport as u16,
            sum_offset: if self.protocol == TCP { 16 } else { 6 },
        }
    }

    fn cut(&self, size: usize) -> Vec<Packet> {
        let cut = Cut::plan(self.vnet(size), &self.frame, self.frame.len(), None).unwrap();
        pieces(&cut, &self.frame[self.headers..])
    }

    /// Whether both checksums of a packet like this one are right.
    fn is_valid(&self, frame: &[u8]) -> bool {
        let header = checksum::sum(&frame[self.network..self.transport]);
        let segment = &frame[self.transport..];
        let pseudo = pseudo(frame, self.network, self.v6, self.protocol, segment.len());
        (self.v6 || header == 0xffff) && checksum::combine(pseudo, checksum::sum(segment)) == 0xffff
    }
}

fn pieces(cut: &Cut, payload: &[u8]) -> Vec<Packet> {
    (0..cut.packets())
        .map(|i| {
            let part = &payload[cut.part(i)];
            let mut packet = Packet::from_bytes(&vec![0xee; cut.headers_len() + part.len()]).unwrap();
            packet.data_mut()[cut.headers_len()..].copy_from_slice(part);
            assert!(packet.len() <= cut.longest());
            cut.finish(i, packet.data_mut());
            packet
        })
        .collect()
}

/// The segment that the kernel gets.
fn sent(gathered: &Gathered, packets: &[Packet]) -> Vec<u8> {
    let parts = packets[..gathered.packets].iter().map(|packet| gathered.payload(packet));
    gathered.headers().iter().copied().chain(parts.flatten().copied()).collect()
}

fn bytes(packets: &[Packet]) -> Vec<Vec<u8>> {
    packets.iter().map(|packet| packet.data().to_vec()).collect()
}

#[test]
fn what_is_cut_and_gathered_is_as_it_was() {
    for (v6, vlans) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
        let sizes = [(1001, 333), (5000, 1448), (4344, 1448), (1449, 1448), (600, 1)];
        for (payload, size) in sizes.into_iter().take(if cfg!(miri) { 1 } else { sizes.len() }) {
            let flags = [ACK | PSH, ACK | PSH | FIN, ACK, ACK | ECE];
            for flags in flags.into_iter().take(if cfg!(miri) { 1 } else { flags.len() }) {
                let host = host(&Wants { v6, vlans, payload, flags, ..Wants::default() });
                let packets = host.cut(size);
                assert_eq!(packets.len(), payload.div_ceil(size));
                assert!(packets.iter().all(|packet| host.is_valid(packet.data())));
                let gathered = Gathered::from_front(&packets).unwrap();
                assert_eq!((gathered.packets, gathered.vnet), (packets.len(), host.vnet(size)));
                assert_eq!(sent(&gathered, &packets), host.frame);
            }
        }
    }
}

#[test]
fn flags_are_those_of_their_packets() {
    let flags = ACK | PSH | FIN | CWR;
    let packets = host(&Wants { flags, ..Wants::default() }).cut(1448);
    let flags: Vec<u8> = packets.iter().map(|packet| packet.data()[14 + 20 + 13]).collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK, ACK | PSH | FIN]);
    assert!(Gathered::from_front(&packets).is_none(), "the first says more than that data comes");
    assert_eq!(Gathered::from_front(&packets[1..]).unwrap().packets, 3);
}

#[test]
fn sequence_numbers_and_identifications_count_and_wrap() {
    let packets = host(&Wants::default()).cut(1448);
    let at = |packet: &Packet, at: usize| u32::from_be_bytes(*packet.data()[at..].first_chunk().unwrap());
    let seqs: Vec<u32> = packets.iter().map(|packet| at(packet, 14 + 20 + 4)).collect();
    assert_eq!(seqs, [0xffff_f000, 0xffff_f5a8, 0xffff_fb50, 0xf8]);
    let ids: Vec<u32> = packets.iter().map(|packet| at(packet, 14 + 4) >> 16).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0, 1]);
}

#[test]
fn ip_options_are_cut_and_not_gathered() {
    let host = host(&Wants { ip_options: 2, ..Wants::default() });
    let packets = host.cut(1448);
    assert!(packets.len() == 4 && packets.iter().all(|packet| host.is_valid(packet.data())));
    assert!(Gathered::from_front(&packets).is_none());
}

#[test]
fn datagrams_are_cut() {
    for v6 in [false, true] {
        let host = host(&Wants { v6, protocol: UDP, payload: 2500, ..Wants::default() });
        let packets = host.cut(1000);
        let lengths: Vec<u16> =
            packets.iter().map(|packet| word(packet.data(), host.transport + 4).unwrap()).collect();
        assert_eq!(lengths, [1008, 1008, 508]);
        assert!(packets.iter().all(|packet| host.is_valid(packet.data())));
        assert!(Gathered::from_front(&packets).is_none());
    }
}

#[test]
fn a_tag_that_the_kernel_took_out_is_put_back() {
    let tagged = host(&Wants { vlans: 1, ..Wants::default() });
    let plain = host(&Wants::default());
    let cut = Cut::plan(plain.vnet(1448), &plain.frame, plain.frame.len(), Some((0x8100, 0))).unwrap();
    assert_eq!(bytes(&pieces(&cut, &plain.frame[plain.headers..])), bytes(&tagged.cut(1448)));
    let mut frame = [&[0; TAG], &plain.frame[..]].concat();
    put_tag(&mut frame, (0x8100, 0));
    assert_eq!(frame, tagged.frame);
}

/// A segment in VXLAN, with or without a checksum of the outer UDP header.
#[test]
fn segments_in_tunnels_are_cut() {
    let inner = host(&Wants::default());
    for check in [0, 1] {
        let tunnel = Wants { protocol: UDP, payload: 8 + inner.frame.len(), ..Wants::default() };
        let mut outer = host(&tunnel);
        outer.frame.truncate(outer.headers);
        outer.frame.extend([8, 0, 0, 0, 0, 0, 7, 0]);
        let begin = outer.frame.len();
        outer.frame.extend(&inner.frame);
        put(&mut outer.frame, outer.transport + 6, check);
        let start = begin + inner.transport;
        let vnet = VnetHeader { sum_start: start as u16, ..inner.vnet(1448) };
        let cut = Cut::plan(vnet, &outer.frame, outer.frame.len(), None).unwrap();
        let packets = pieces(&cut, &inner.frame[inner.headers..]);
        let insides: Vec<Vec<u8>> = packets.iter().map(|packet| packet.data()[begin..].to_vec()).collect();
        assert_eq!(insides, bytes(&inner.cut(1448)));
        for packet in &packets {
            let frame = packet.data();
            assert_eq!(word(frame, outer.network + 2), Some((frame.len() - outer.network) as u16));
            assert_eq!(word(frame, outer.transport + 4), Some((frame.len() - outer.transport) as u16));
            assert_eq!(word(frame, outer.transport + 6) == Some(0), check == 0);
            assert!(check == 0 || outer.is_valid(frame));
        }
    }
}

#[test]
fn what_would_not_come_back_is_not_gathered() {
    let host = host(&Wants::default());
    let gathered = |change: &dyn Fn(usize, &mut [u8])| {
        let mut packets = host.cut(1000);
        for (i, packet) in packets.iter_mut().enumerate() {
            change(i, packet.data_mut());
            // The checksums are right again.
            let frame = packet.data_mut();
            put(frame, 14 + 10, 0);
            let check = checksum::checksum(&frame[14..34]);
            put(frame, 14 + 10, check);
            put(frame, 34 + 16, 0);
            let len = frame.len() - 34;
            let sum = checksum::combine(pseudo(frame, 14, false, TCP, len), checksum::sum(&frame[34..]));
            put(frame, 34 + 16, !sum);
        }
        Gathered::from_front(&packets).map_or(1, |gathered| gathered.packets)
    };
    assert_eq!(gathered(&|_, _| {}), 5);
    // Places of a frame whose change in the third packet ends the segment: Ethernet, type of service,
    // identification, fragments, time to live, addresses, ports, sequence, acknowledgement, flags,
    // window, options.
    let places = [19, 41, 5, 11, 15, 20, 22, 29, 33, 35, 37, 45, 49, 54, 60];
    for at in places.into_iter().take(if cfg!(miri) { 2 } else { places.len() }) {
        let changed = |i: usize, frame: &mut [u8]| {
            if i == 2 {
                frame[at] ^= 0x10
            }
        };
        assert_eq!(gathered(&changed), 2, "{at}");
    }
    // PSH ends a segment.
    assert_eq!(
        gathered(&|i, frame| if i == 1 {
            frame[47] |= PSH
        }),
        2
    );
}

#[test]
fn damaged_packets_stay_as_they_are() {
    let host = host(&Wants::default());
    for at in [14 + 8, 14 + 10, 34 + 16, 1000] {
        for i in (0..5).step_by(if cfg!(miri) { 4 } else { 1 }) {
            let mut packets = host.cut(1000);
            packets[i].data_mut()[at] ^= 1;
            let gathered = Gathered::from_front(&packets).map_or(1, |gathered| gathered.packets);
            assert_eq!(gathered, i.max(1), "byte {at} of packet {i}");
        }
    }
    // Padding after the packet.
    let mut packets = host.cut(1000);
    assert!(packets[0].put_in_place(1));
    assert!(Gathered::from_front(&packets).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn a_segment_is_not_longer_than_ip_allows() {
    let host = host(&Wants { payload: 60000, ..Wants::default() });
    let mut packets = host.cut(1448);
    let more = packets.len();
    let mut next = self::host(&Wants { payload: 60000, ..Wants::default() });
    let seq = 0xffff_f000_u32.wrapping_add(60000 / 1448 * 1448);
    next.frame[38..42].copy_from_slice(&seq.to_be_bytes());
    put(&mut next.frame, 14 + 4, 0xfffe_u16.wrapping_add(more as u16 - 1));
    packets.truncate(more - 1);
    packets.extend(next.cut(1448));
    let gathered = Gathered::from_front(&packets).unwrap();
    assert_eq!(gathered.packets, (65535 - 52) / 1448);
    assert!(sent(&gathered, &packets).len() <= 14 + 65535);
}

#[test]
fn values_that_cannot_be_are_refused() {
    let host = host(&Wants { payload: if cfg!(miri) { 600 } else { 60000 }, ..Wants::default() });
    let plan = |vnet, len| Cut::plan(vnet, &host.frame[..len], host.frame.len(), None).is_some();
    let good = host.vnet(1448);
    assert!(plan(good, host.headers));
    for len in 0..host.headers {
        assert!(!plan(good, len));
    }
    assert!(!plan(host.vnet(0), 200));
    assert!(cfg!(miri) || (!plan(host.vnet(59), 200) && plan(host.vnet(60), 200)));
    assert!(!plan(VnetHeader { kind: 3, ..good }, 200), "UDP fragments");
    assert!(!plan(VnetHeader { sum_start: 35, ..good }, 200));
    assert!(!plan(VnetHeader { kind: VnetHeader::UDP, ..good }, 200));
    assert!(Cut::plan(good, &host.frame, host.headers - 1, None).is_none());
    // Any first bytes and any header: nothing panics.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for _ in 0..if cfg!(miri) { 30 } else { 20_000 } {
        let mut frame = host.frame[..200].to_vec();
        for _ in 0..random() % 4 {
            frame[12 + random() % 60] = random() as u8;
        }
        let mut vnet = good;
        vnet.kind = [1, 4, 5][random() % 3];
        vnet.size = 1 + random() as u16 % 300;
        if random() % 2 == 0 {
            (vnet.sum_start, vnet.flags) = (random() as u16 % 200, random() as u8);
        }
        let shown = random() % 200;
        if let Some(cut) = Cut::plan(vnet, &frame[..shown], 200, Some((0x8100, 1))) {
            let payload = vec![0; 200];
            pieces(&cut, &payload);
        }
        vnet.complete(&mut frame);
        let packets = [Packet::from_bytes(&frame).unwrap(), Packet::from_bytes(&frame).unwrap()];
        Gathered::from_front(&packets);
    }
}

#[test]
fn the_checksum_of_sctp_is_another() {
    // RFC 3309: CRC32c, whose value of these digits is known.
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let mut frame = [7; 100];
    let vnet =
        VnetHeader { flags: VnetHeader::NEEDS_SUM, sum_start: 34, sum_offset: 8, ..VnetHeader::default() };
    frame[42..46].fill(0);
    let expected = crc32c(&frame[34..]).to_le_bytes();
    assert!(vnet.complete(&mut frame));
    assert_eq!(frame[42..46], expected);
    assert!(!vnet.complete(&mut frame[..45]));
}

#[test]
fn partial_checksums_are_completed() {
    let host = host(&Wants { payload: 101, ..Wants::default() });
    let mut frame = host.frame.clone();
    assert!(host.vnet(1448).complete(&mut frame) && host.is_valid(&frame));
    let mut frame = host.frame.clone();
    assert!(!VnetHeader::default().complete(&mut frame));
    assert!(!VnetHeader { sum_offset: u16::MAX, ..host.vnet(1) }.complete(&mut frame));
    assert_eq!(frame, host.frame);
    let vnet = host.vnet(77);
    assert_eq!(VnetHeader::read(&vnet.bytes()), vnet);
}
