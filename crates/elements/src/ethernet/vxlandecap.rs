//! # VXLANDecap
//! Takes Ethernet frames out of the UDP datagrams of VXLAN tunnels (RFC 7348).
//!
//! ## Synopsis
//! `VXLANDecap(TUNNEL0, ..., TUNNELn [, PORT, CHECKSUM, VLAN])`
//!
//! ## Arguments
//! - `TUNNEL` (*VNI* or *VNI SRC*): a network's number, 0 to 16777215, and the IP address of the other end.
//!   Without `SRC`, the tunnel accepts any source address that no other tunnel of the network has.
//! - `PORT` (*UDP port*, keyword, default 4789): the port that datagrams are for.
//! - `CHECKSUM` (*bool*, keyword, default true): whether UDP checksums are checked where there are any, which
//!   reads every byte.
//! - `VLAN` (*bool*, keyword, default false): whether frames with a VLAN tag are let through; else they are
//!   dropped (RFC 7348 section 6.1).
//!
//! ## Ports
//! One push input: IP packets with the header marked, as after CheckIPHeader. One push output for each
//! tunnel: its frames, from their Ethernet header on, without what follows the datagram.
//!
//! The destination address is not checked: use an IPClassifier in front. Of an internal frame of a cluster
//! (its destination begins with `c2`) only the Ethernet addresses are read.
//!
//! ## Handlers
//! - `count` (read): frames that have left the element.
//! - `tunnels` (read): the tunnels, a line for each output: network, other end or `any`.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! FromDevice(net_null0) -> Strip(14) -> CheckIPHeader -> IPClassifier(dst host 192.168.0.1)
//!   -> d :: VXLANDecap(7 192.168.0.2, 7 192.168.0.3);
//! d [0] -> Queue -> ToDevice(net_null1);
//! d [1] -> Queue -> ToDevice(net_null2);
//! ```
//!
//! ## See also
//! VXLANEncap, CheckIPHeader, IPClassifier

use crate::prelude::*;
use cluster::MacCode;
use lang::args::{FromArg, UdpPort};
use std::net::Ipv4Addr;
use wire::ethernet::{self, ETHERTYPE_QINQ, ETHERTYPE_VLAN};
use wire::{Ethernet, Ipv4, UdpDatagram, Vxlan, ipv4, protocol, udp, vxlan};

const FRAGMENT: DropReason = DropReason::new("fragment");
const NO_VXLAN_PACKET: DropReason = DropReason::new("no VXLAN packet");
const BAD_UDP_LENGTH: DropReason = DropReason::new("bad UDP length");
const BAD_UDP_CHECKSUM: DropReason = DropReason::new("bad UDP checksum");
const NO_VXLAN_HEADER: DropReason = DropReason::new("no VXLAN header");
const UNKNOWN_VNI: DropReason = DropReason::new("unknown VNI");
const UNKNOWN_TUNNEL_END: DropReason = DropReason::new("unknown tunnel end");
const TAGGED_FRAME: DropReason = DropReason::new("tagged frame");

/// A network and the remote end; 0.0.0.0: any.
type Tunnel = (u32, Ipv4Addr);

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// The `VXLANDecap` element.
pub struct VxlanDecap {
    /// Sorted, each with its output.
    tunnels: Vec<(Tunnel, usize)>,
    port: u16,
    checksum: bool,
    vlan: bool,
    count: Counter,
}

fn tunnel(text: &str, names: &lang::args::NameDb) -> Result<Tunnel, String> {
    let mut words = text.split_whitespace();
    let vni = words.next().ok_or("TUNNEL: a network's number is missing")?;
    let vni = lang::args::parse::<u32>(vni).map_err(|e| format!("VNI: {e}"))?;
    if vni > vxlan::MAX_VNI {
        return Err(format!("VNI: out of range, bound {}", vxlan::MAX_VNI));
    }
    let from = words.next().map(|w| Ipv4Addr::from_arg(w, names).map_err(|e| format!("SRC: {e}")));
    match words.next() {
        Some(word) => Err(format!("TUNNEL: '{word}' after VNI and SRC")),
        None => Ok((vni, from.transpose()?.unwrap_or(ANY))),
    }
}

impl Element for VxlanDecap {
    const CLASS: &'static str = "VXLANDecap";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS);
    const DROPS: &'static [DropCase] = &[
        drops::NO_WHOLE_IP_HEADER,
        FRAGMENT.when(
            "the ends of tunnels do not fragment (RFC 7348 section 4.3), and nobody else should, as \
             they say",
        ),
        NO_VXLAN_PACKET.when("not UDP, or for another port"),
        BAD_UDP_LENGTH.when("the UDP header or the length in it does not fit the packet"),
        BAD_UDP_CHECKSUM.when("there is one, and it is wrong"),
        NO_VXLAN_HEADER.when("shorter, or its flag for a network's number is not set"),
        UNKNOWN_VNI.when("no tunnel has that network"),
        UNKNOWN_TUNNEL_END.when("no tunnel of this network begins there"),
        drops::TOO_SHORT_FOR_ETHERNET,
        TAGGED_FRAME.when("the frame inside has a VLAN tag, and `VLAN` does not allow that"),
    ];
    const MANUAL: &'static str = manual!("ethernet/vxlandecap");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let UdpPort(port) = args.k_or("PORT", UdpPort(vxlan::PORT))?;
        let checksum = args.k_or("CHECKSUM", true)?;
        let vlan = args.k_or("VLAN", false)?;
        let list = args.rest_args();
        let mut tunnels: Vec<(Tunnel, usize)> = Vec::new();
        for (output, arg) in list.iter().enumerate() {
            let parsed = tunnel(&arg.text, args.names()).and_then(|t| {
                if tunnels.iter().any(|(known, _)| *known == t) {
                    return Err("TUNNEL: given twice".to_owned());
                }
                Ok(t)
            });
            match parsed {
                Ok(t) => tunnels.push((t, output)),
                Err(e) => return Err(args.error_at(arg, e)),
            }
        }
        if tunnels.is_empty() {
            return Err(args.error("TUNNEL: missing; at least one VNI is needed"));
        }
        if cx.n_outputs() != tunnels.len() {
            let (tunnels, outputs) = (tunnels.len(), cx.n_outputs());
            return Err(args.error(format!("{tunnels} tunnel(s), but {outputs} output(s)")));
        }
        tunnels.sort_unstable();
        Ok(Self { tunnels, port, checksum, vlan, count: Counter::default() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.read("tunnels", |e| {
            let mut lines = e.tunnels.clone();
            lines.sort_unstable_by_key(|(_, output)| *output);
            let end = |from: Ipv4Addr| if from == ANY { "any".to_owned() } else { from.to_string() };
            lines.into_iter().map(|((vni, from), _)| format!("{vni} {}\n", end(from))).collect()
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
    }
}

impl VxlanDecap {
    #[inline]
    fn find(&self, tunnel: Tunnel) -> Option<usize> {
        let at = self.tunnels.binary_search_by_key(&tunnel, |(t, _)| *t).ok()?;
        self.tunnels.get(at).map(|(_, output)| *output)
    }

    /// The output of a network's frames from an address.
    #[inline]
    fn output(&self, vni: u32, from: Ipv4Addr) -> Result<usize, DropReason> {
        if let Some(output) = self.find((vni, from)).or_else(|| self.find((vni, ANY))) {
            return Ok(output);
        }
        let known = self.tunnels.iter().any(|((v, _), _)| *v == vni);
        Err(if known { UNKNOWN_TUNNEL_END } else { UNKNOWN_VNI })
    }

    /// Checks a packet; if it is valid, leaves only its frame and returns the output.
    #[inline]
    fn arrive(&self, packet: &mut Packet) -> Result<usize, DropReason> {
        let bytes = packet.network_header().ok_or(drops::NO_IP_HEADER)?;
        let (header_len, total_len) = ipv4::check(bytes, false).map_err(|_| drops::NO_IP_HEADER)?;
        let ip = Ipv4::new(bytes).ok_or(drops::NO_IP_HEADER)?;
        if ip.protocol() != protocol::UDP {
            return Err(NO_VXLAN_PACKET);
        }
        if ip.is_fragment() {
            return Err(FRAGMENT);
        }
        let payload = bytes.get(header_len..total_len).ok_or(drops::NO_IP_HEADER)?;
        let datagram = UdpDatagram::parse(payload).ok_or(BAD_UDP_LENGTH)?;
        let header = datagram.header();
        if header.dst_port() != self.port {
            return Err(NO_VXLAN_PACKET);
        }
        if self.checksum
            && header.checksum() != 0
            && !datagram.verify_checksum(ip.pseudo_sum(header.length()))
        {
            return Err(BAD_UDP_CHECKSUM);
        }
        let (vxlan, frame) = Vxlan::split(datagram.payload()).ok_or(NO_VXLAN_HEADER)?;
        let vni = vxlan.vni().ok_or(NO_VXLAN_HEADER)?;
        let output = self.output(vni, ip.src())?;
        let ethernet = Ethernet::new(frame).ok_or(drops::NO_ETHERNET_HEADER)?;
        if !self.vlan
            && !MacCode::is_internal(ethernet.dst().octets())
            && matches!(ethernet.ethertype(), ETHERTYPE_VLAN | ETHERTYPE_QINQ)
        {
            return Err(TAGGED_FRAME);
        }
        let front = header_len + udp::HEADER_LEN + vxlan::HEADER_LEN;
        let surplus = bytes.len() - header_len - usize::from(header.length());
        // The header may begin before the data, if an element has stripped it.
        let front = packet.network_header_offset().and_then(|at| at.checked_add_unsigned(front));
        let front = front.and_then(|at| usize::try_from(at).ok()).ok_or(drops::NO_IP_HEADER)?;
        packet.take(surplus);
        packet.strip(front);
        packet.set_mac_header(0);
        packet.set_network_header(ethernet::HEADER_LEN, 0);
        Ok(output)
    }
}

impl Vector for VxlanDecap {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let mut frames = 0;
        for mut packet in batch.drain(..) {
            match self.arrive(&mut packet) {
                Ok(output) => {
                    frames += 1;
                    cx.output(output, packet);
                }
                Err(reason) => cx.drop(packet, reason),
            }
        }
        self.count.add(frames);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip_with, marked};
    use crate::testing::Bench;
    use dpdk::Packet;

    const FRAME: [u8; 18] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5, 1, 2, 3, 4];

    /// UDP header, VXLAN header and frame.
    fn datagram(flags: u8, vni: u32, frame: &[u8]) -> Vec<u8> {
        let len = (16 + frame.len()) as u16;
        let mut d = vec![0xc0, 1, 0x12, 0xb5];
        d.extend_from_slice(&len.to_be_bytes());
        d.extend_from_slice(&[0, 0, flags, 0, 0, 0]);
        d.extend_from_slice(&(vni << 8).to_be_bytes());
        d.extend_from_slice(frame);
        d
    }
    /// In a packet from 10.0.0.1 to 10.0.0.2.
    fn packet(payload: &[u8]) -> Packet {
        marked(&ip_with(&[], payload, |_| ()))
    }
    fn refused(bench: &mut Bench, packet: Packet, reason: &str) {
        let before = bench.drops().iter().find(|d| d.0 == reason).map_or(0, |d| d.1);
        assert!(bench.send(0, packet).is_empty(), "{reason}");
        let after = bench.drops().iter().find(|d| d.0 == reason).map_or(0, |d| d.1);
        assert_eq!(after, before + 1, "{reason}: {:?}", bench.drops());
    }

    #[test]
    fn frames_go_by_network_and_end() {
        let tunnels = "VXLANDecap(7 10.0.0.9, 7 10.0.0.1, 7, 8 10.0.0.9, 9)";
        let mut bench = Bench::with_ports(tunnels, 1, 5);
        for (vni, from, output) in [(7, 9, 0), (7, 1, 1), (7, 5, 2), (8, 9, 3), (9, 1, 4)] {
            let sent = ip_with(&[], &datagram(8, vni, &FRAME), |h| h.set_src([10, 0, 0, from].into()));
            let out = bench.send(0, marked(&sent));
            assert_eq!((out[0].0, out[0].1.data()), (output, &FRAME[..]));
            assert_eq!(out[0].1.mac_header_offset(), Some(0));
        }
        assert_eq!(bench.read("count"), "5");
        assert_eq!(bench.read("tunnels"), "7 10.0.0.9\n7 10.0.0.1\n7 any\n8 10.0.0.9\n9 any\n");
        refused(&mut bench, packet(&datagram(8, 8, &FRAME)), "unknown tunnel end");
        refused(&mut bench, packet(&datagram(8, 6, &FRAME)), "unknown VNI");
    }

    #[test]
    fn reserved_bits_options_padding_and_stripped_headers_do_not_matter() {
        let mut bench = Bench::with_ports("VXLANDecap(7)", 1, 1);
        let mut reserved = datagram(0xff, 7, &FRAME);
        (reserved[9], reserved[15]) = (0xee, 0xee);
        assert_eq!(bench.send(0, packet(&reserved))[0].1.data(), FRAME);
        let good = datagram(8, 7, &FRAME);
        assert_eq!(bench.send(0, marked(&ip_with(&[1; 8], &good, |_| ())))[0].1.data(), FRAME);
        // Bytes after the datagram, within the IP packet and after it.
        let mut padded = ip_with(&[], &[&good[..], &[0xee; 5]].concat(), |_| ());
        padded.extend([0xee; 7]);
        assert_eq!(bench.send(0, marked(&padded))[0].1.data(), FRAME);
        let mut stripped = packet(&good);
        stripped.strip(20);
        assert_eq!(bench.send(0, stripped)[0].1.data(), FRAME);
        let mut gone = packet(&good);
        gone.strip(37);
        refused(&mut bench, gone, "no IP header");
    }

    #[test]
    fn what_is_wrong_is_dropped_and_says_why() {
        let mut bench = Bench::with_ports("VXLANDecap(7)", 1, 1);
        let good = datagram(8, 7, &FRAME);
        let with = |at: usize, value: u8| {
            let mut d = good.clone();
            d[at] = value;
            packet(&d)
        };
        refused(&mut bench, Packet::from_bytes(&ip_with(&[], &good, |_| ())).unwrap(), "no IP header");
        refused(&mut bench, marked(&ip_with(&[], &good, |h| h.set_total_len(9999))), "no IP header");
        refused(&mut bench, marked(&ip_with(&[], &good, |h| h.set_protocol(6))), "no VXLAN packet");
        refused(&mut bench, with(3, 0xb6), "no VXLAN packet");
        for fragment in [0x2000, 5] {
            let piece = ip_with(&[], &good, |h| h.set_flags_fragment(fragment));
            refused(&mut bench, marked(&piece), "fragment");
        }
        for length in [0, 7, 35, 255] {
            refused(&mut bench, with(5, length), "bad UDP length");
        }
        refused(&mut bench, packet(&good[..7]), "bad UDP length");
        for length in [8, 15] {
            refused(&mut bench, with(5, length), "no VXLAN header");
        }
        refused(&mut bench, with(8, 0xf7), "no VXLAN header");
        for length in [16, 29] {
            refused(&mut bench, with(5, length), "no Ethernet header");
        }
    }

    #[test]
    fn a_checksum_must_be_right_if_there_is_one() {
        let mut bench = Bench::with_ports("VXLANDecap(7)", 1, 1);
        let mut summed = datagram(8, 7, &FRAME);
        let len = summed.len() as u16;
        let pseudo = wire::checksum::pseudo_v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, len);
        wire::udp::fill(pseudo, &mut summed);
        assert_eq!(bench.send(0, packet(&summed)).len(), 1);
        *summed.last_mut().unwrap() ^= 1;
        refused(&mut bench, packet(&summed), "bad UDP checksum");
        let mut trusting = Bench::with_ports("VXLANDecap(7, CHECKSUM false)", 1, 1);
        assert_eq!(trusting.send(0, packet(&summed)).len(), 1);
    }

    #[test]
    fn tagged_frames_pass_only_if_they_may() {
        let mut tagged = FRAME;
        (tagged[12], tagged[13]) = (0x81, 0);
        let mut bench = Bench::with_ports("VXLANDecap(7)", 1, 1);
        refused(&mut bench, packet(&datagram(8, 7, &tagged)), "tagged frame");
        // The EtherType of an internal frame is not read.
        let mut internal = tagged;
        internal[0] = 0xc2;
        assert_eq!(bench.send(0, packet(&datagram(8, 7, &internal)))[0].1.data(), internal);
        let mut open = Bench::with_ports("VXLANDecap(7, VLAN true)", 1, 1);
        assert_eq!(open.send(0, packet(&datagram(8, 7, &tagged)))[0].1.data(), tagged);
    }

    /// Nearly valid packets that are cut and changed at any position cause no panic, and none is lost without
    /// being counted.
    #[test]
    fn any_packet_is_survived_and_accounted_for() {
        let mut x = 0x1234_5678u32;
        let mut random = move |n: usize| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 8) as usize % n
        };
        let mut bench = Bench::with_ports("VXLANDecap(7)", 1, 1);
        let mut passed = 0;
        for sent in 1..3000 {
            let mut bytes = ip_with(&[], &datagram(8, 7, &FRAME), |_| ());
            for _ in 0..random(3) {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }
            bytes.truncate(bytes.len() - random(2) * random(bytes.len()));
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            if random(8) > 0 {
                packet.set_network_header(random(2) * random(6), 4 * random(16));
            }
            packet.strip(random(2) * random(40));
            passed += bench.send(0, packet).len() as u64;
            assert_eq!(passed + bench.drops().iter().map(|d| d.1).sum::<u64>(), sent);
        }
        assert!(passed > 300);
    }

    #[test]
    fn wrong_arguments() {
        for (arguments, says) in [
            ("", "at least one VNI"),
            ("16777216", "VNI: out of range, bound 16777215"),
            ("x", "VNI: "),
            ("7 nobody", "SRC: "),
            ("7 10.0.0.1 10.0.0.2", "after VNI and SRC"),
            ("7, 7", "given twice"),
            ("7, 8", "2 tunnel(s), but 1 output(s)"),
        ] {
            let error = Bench::error(&format!("VXLANDecap({arguments})"));
            assert!(error.contains(says), "{error}");
        }
    }
}
