//! # TCPFragmenter
//! Cuts TCP packets that are too long into several.
//!
//! Each piece is a TCP packet with the headers of the original one, also those before the IP header, and the
//! sequence number of its first byte. All pieces have the same identification. SYN, CWR and URG are only in
//! the first piece and FIN and PSH only in the last, as where a device cuts; under the name `click` all flags
//! are in all pieces.
//!
//! ## Synopsis
//! `TCPFragmenter(MTU)`
//!
//! ## Arguments
//! - `MTU` (*int*, 1 to 65535, keyword): the most bytes of a packet, from its IP header on. A packet of just
//!   so many also gets new checksums.
//!
//! ## Ports
//! One push input, one push output. The IP and the TCP header must have been marked; packets that are not
//! TCP, fragments, and packets with impossible lengths pass unchanged.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! FromDump(in.pcap, STOP true, FORCE_IP true) -> TCPFragmenter(MTU 1500) -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! IPFragmenter, SetTCPChecksum

use crate::ip::engine::header::{fill_checksum, header, header_mut};
use crate::prelude::*;
use wire::{Tcp, protocol, tcp};

/// Where the flags of a TCP header are.
const FLAGS: usize = 13;

/// The `TCPFragmenter` element.
pub struct TcpFragmenter {
    mtu: usize,
    /// All pieces have all flags, as Click's have.
    keeps_flags: bool,
}

impl Element for TcpFragmenter {
    const CLASS: &'static str = "TCPFragmenter";
    const LIVE: bool = true;
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[drops::OUT_OF_MEMORY.when("there was no buffer for a piece")];
    const MANUAL: &'static str = manual!("transport/tcpfragmenter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        match args.p_or("MTU", 0u16)? {
            0 => Err(args.error("MTU cannot be 0")),
            mtu => Ok(Self { mtu: mtu.into(), keeps_flags: cx.as_click() }),
        }
    }
}

/// Where the parts of a packet are: the IP header, the TCP header and the data, from the packet's start.
struct Parts {
    ip: usize,
    tcp: usize,
    data: usize,
    end: usize,
    sequence: u32,
}

impl Parts {
    /// `None` if it is no whole TCP packet.
    fn of(packet: &Packet) -> Option<Self> {
        let ip = header(packet).filter(|ip| ip.protocol() == protocol::TCP && !ip.is_fragment())?;
        let at = usize::try_from(packet.network_header_offset()?).ok()?;
        let (tcp, end) = (at + ip.header_len(), at + usize::from(ip.total_len()));
        let segment = packet.data().get(tcp..end).filter(|_| ip.header_len() >= 20)?;
        let first = Tcp::new(segment).filter(|h| h.header_len() >= tcp::HEADER_LEN)?;
        let data = tcp + first.header_len();
        (data <= end).then_some(Self { ip: at, tcp, data, end, sequence: first.seq() })
    }
}

/// Sets the lengths, the sequence number, the flags and the checksums of a piece.
fn seal(packet: &mut Packet, parts: &Parts, length: usize, offset: usize, keeps_flags: bool) -> Option<()> {
    let total = parts.data - parts.ip + length;
    header_mut(packet)?.set_total_len(total as u16);
    fill_checksum(packet);
    let segment = (total - (parts.tcp - parts.ip)) as u16;
    let pseudo = header(packet)?.pseudo_sum(segment);
    let bytes = packet.data_mut().get_mut(parts.tcp..parts.data + length)?;
    let mut sequence = parts.sequence.wrapping_add(offset as u32);
    if !keeps_flags {
        let flags = bytes.get_mut(FLAGS)?;
        if offset > 0 {
            // A SYN takes a number of its own.
            sequence = sequence.wrapping_add(u32::from(*flags & tcp::SYN != 0));
            *flags &= !(tcp::SYN | tcp::CWR | tcp::URG);
        }
        if parts.data + offset + length < parts.end {
            *flags &= !(tcp::FIN | tcp::PSH);
        }
    }
    Tcp::new_mut(bytes)?.set_seq(sequence);
    tcp::fill(pseudo, bytes);
    Some(())
}

impl TcpFragmenter {
    fn cut(&self, mut packet: Packet, cx: &mut Cx<'_>) {
        let Some(parts) = Parts::of(&packet) else { return cx.output(0, packet) };
        let (headers, length) = (parts.data - parts.ip, parts.end - parts.data);
        let most = self.mtu.saturating_sub(headers);
        if most == 0 || length < most {
            return cx.output(0, packet);
        }
        let mut later = cx.spare_batch();
        for offset in (most..length).step_by(most) {
            let here = most.min(length - offset);
            let piece = Packet::alloc(packet.headroom(), parts.data + here).and_then(|mut piece| {
                let (front, rest) = piece.data_mut().split_at_mut_checked(parts.data)?;
                front.copy_from_slice(packet.data().get(..parts.data)?);
                rest.copy_from_slice(packet.data().get(parts.data + offset..)?.get(..here)?);
                *piece.anno_mut() = *packet.anno();
                piece.set_network_header(parts.ip, parts.tcp - parts.ip);
                seal(&mut piece, &parts, here, offset, self.keeps_flags)?;
                Some(piece)
            });
            match piece {
                Some(piece) => later.push(piece),
                None => cx.count_drops(1, drops::OUT_OF_MEMORY),
            }
        }
        let first = most.min(length);
        packet.take(packet.len() - parts.data - first);
        // It has these headers: they were just read.
        let _ = seal(&mut packet, &parts, first, 0, self.keeps_flags);
        cx.output(0, packet);
        later.drain(..).for_each(|piece| cx.output(0, piece));
        cx.recycle(later);
    }
}

impl Vector for TcpFragmenter {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            if packet.len() < self.mtu {
                cx.output(0, packet);
            } else {
                self.cut(packet, cx);
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::{ip, sound};
    use crate::testing::Bench;

    /// A TCP packet behind a link header, with this data and sequence number 0xfffffff0.
    fn packet(data: &[u8]) -> Packet {
        let mut segment = [&[0; 24][..], data].concat();
        let mut tcp = Tcp::new_mut(&mut segment).unwrap();
        tcp.set_src_port(1);
        tcp.set_seq(0xffff_fff0);
        tcp.set_header_len(24);
        let mut packet = Packet::from_bytes(&[&[9; 14], &ip(6, &segment)[..]].concat()).unwrap();
        packet.set_network_header(14, 20);
        packet.set_paint(5);
        packet
    }

    #[test]
    fn pieces_are_whole_packets_and_have_all_data() {
        let data: Vec<u8> = (0..100).collect();
        let mut bench = Bench::new("TCPFragmenter(MTU 84)");
        let out = bench.send(0, packet(&data));
        let mut joined = Vec::new();
        for (n, (_, piece)) in out.iter().enumerate() {
            let bytes = piece.data();
            assert_eq!((&bytes[..14], piece.paint()), (&[9; 14][..], 5));
            assert!(sound(&bytes[14..]) && bytes.len() <= 14 + 84);
            let ip = header(piece).unwrap();
            let segment = &bytes[34..];
            assert!(tcp::verify(ip.pseudo_sum(segment.len() as u16), segment));
            assert_eq!(Tcp::new(segment).unwrap().seq(), 0xffff_fff0u32.wrapping_add(40 * n as u32));
            joined.extend_from_slice(&segment[24..]);
        }
        assert_eq!((out.len(), joined), (3, data));
    }

    #[test]
    fn flags_are_those_of_their_pieces() {
        const ALL: u8 = tcp::SYN | tcp::CWR | tcp::URG | tcp::ACK | tcp::PSH | tcp::FIN;
        let mut whole = packet(&[1; 100]);
        whole.data_mut()[34 + FLAGS] = ALL;
        let out = Bench::new("TCPFragmenter(MTU 84)").send(0, whole);
        let pieces: Vec<(u8, u32)> = out
            .iter()
            .map(|(_, piece)| (piece.data()[34 + FLAGS], Tcp::new(&piece.data()[34..]).unwrap().seq()))
            .collect();
        let first = ALL & !(tcp::PSH | tcp::FIN);
        let last = tcp::ACK | tcp::PSH | tcp::FIN;
        // The second piece begins at 0xfffffff0 + 1 + 40.
        assert_eq!(pieces, [(first, 0xffff_fff0), (tcp::ACK, 25), (last, 65)]);
        for (_, piece) in &out {
            let segment = &piece.data()[34..];
            assert!(tcp::verify(header(piece).unwrap().pseudo_sum(segment.len() as u16), segment));
        }
    }

    #[test]
    fn other_packets_pass() {
        let mut bench = Bench::new("TCPFragmenter(MTU 84)");
        for bytes in [packet(&[1; 39]).data().to_vec(), vec![0x45; 100]] {
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            packet.set_network_header(14, 20);
            assert_eq!(bench.push_packet(0, packet), [(0, bytes)]);
        }
        let whole = packet(&[1; 200]).data().to_vec();
        for cut in 0..whole.len() {
            let mut packet = Packet::from_bytes(&whole[..cut]).unwrap();
            packet.set_network_header(14.min(cut), 20.min(cut - 14.min(cut)));
            assert_eq!(bench.push_packet(0, packet), [(0, whole[..cut].to_vec())]);
        }
        // Padding is cut off.
        let padded = [&whole[..], &[0; 3]].concat();
        let mut packet = Packet::from_bytes(&padded).unwrap();
        packet.set_network_header(14, 20);
        let lengths: Vec<usize> = bench.push_packet(0, packet).iter().map(|out| out.1.len() - 58).collect();
        assert_eq!(lengths, [40; 5]);
        assert!(Bench::error("TCPFragmenter(MTU 0)").contains("MTU cannot be 0"));
    }
}
