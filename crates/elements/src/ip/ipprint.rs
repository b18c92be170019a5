//! # IPPrint
//! Prints IP packets in readable form and passes them on.
//!
//! ## Synopsis
//! `IPPrint([LABEL, CONTENTS, PAYLOAD, MAXLENGTH, ETHER, ID, TIMESTAMP, PAINT, TOS, TTL, SWAP, LENGTH, AGGREGATE, ACTIVE, OUTFILE, CHANNEL])`
//!
//! ## Arguments
//! - `LABEL` (*string*, default empty): begins every line, with a colon.
//! - `CONTENTS` (`NONE`, `HEX` or `ASCII`, keyword, default `NONE`): whether and how the packet's bytes are
//!   printed.
//! - `PAYLOAD` (`NO`, `HEX` or `ASCII`, keyword, default `NO`): the same for what follows the TCP, UDP or
//!   else the IP header. Give this or `CONTENTS`.
//! - `MAXLENGTH` (*int*, bytes, keyword, default 1500): how many bytes are printed; negative means all.
//!   `NBYTES` is its older name.
//! - `ETHER` (*bool*, keyword, default false): whether to print the Ethernet addresses.
//! - `ID` (*bool*, keyword, default false): whether to print the identification.
//! - `TIMESTAMP` (*bool*, keyword, default true): whether to print the packet's timestamp in seconds.
//! - `PAINT` (*bool*, keyword, default false): whether to print the paint annotation.
//! - `TOS` (*bool*, keyword, default false): whether to print the type of service.
//! - `TTL` (*bool*, keyword, default false): whether to print the time to live.
//! - `SWAP` (*bool*, keyword, default true): whether ICMP identifiers and sequence numbers are read in
//!   network order.
//! - `LENGTH` (*bool*, keyword, default false): whether to print the IP length.
//! - `AGGREGATE` (*bool*, keyword, default false): whether to print the aggregate annotation.
//! - `ACTIVE` (*bool*, keyword, default true): whether to print at all.
//! - `OUTFILE` (*filename*, keyword): prints there instead of standard error.
//! - `CHANNEL` (*word*, keyword): the chatter channel that lines go to instead of the default one; see
//!   ChatterSocket.
//!
//! ## Ports
//! One input, one output; agnostic. The IP header must have been marked; other packets pass unprinted.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker has its own; an `OUTFILE` is shared, and lines never mix.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> IPPrint(out, TIMESTAMP false, TTL true) -> Discard;
//! ```
//!
//! ## See also
//! Print, CheckIPHeader, ToIPSummaryDump

use super::engine::header::header;
use crate::lines::Lines;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{NameDb, Word};
use std::fmt::Write as _;
use wire::{EtherAddr, Ethernet, Icmpv4, Ipv4, Tcp, Udp, icmpv4, protocol, tcp};

type Header<'a> = Ipv4<&'a [u8; wire::ipv4::HEADER_LEN]>;

/// The part of the bytes that is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contents {
    None,
    Hex,
    Ascii,
}

/// The `IPPrint` element.
pub struct IPPrint {
    label: String,
    contents: Contents,
    payload: bool,
    most: Option<usize>,
    ether: bool,
    id: bool,
    timestamp: bool,
    paint: bool,
    tos: bool,
    ttl: bool,
    swap: bool,
    length: bool,
    aggregate: bool,
    active: bool,
    lines: Lines,
}

impl Element for IPPrint {
    const CLASS: &'static str = "IPPrint";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA
        .with(Fields::TIMESTAMP)
        .with(Fields::HEADERS)
        .with(Fields::PAINT)
        .with(Fields::AGGREGATE);
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("ip/ipprint");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let label = args.p("LABEL")?.unwrap_or_default();
        let word =
            |args: &mut Args<'_>, name| args.k::<Word>(name).map(|w| w.map_or("no".to_owned(), |w| w.0));
        let (contents, payload) = (word(args, "CONTENTS")?, word(args, "PAYLOAD")?);
        let old = args.k::<i32>("NBYTES")?;
        let most = args.k::<i32>("MAXLENGTH")?.or(old).unwrap_or(1500);
        let shown = match (lang::args::parse::<bool>(&contents), &*contents.to_ascii_uppercase()) {
            (Ok(true), _) | (_, "HEX") => Contents::Hex,
            (Ok(false), _) | (_, "NONE") => Contents::None,
            (_, "ASCII") => Contents::Ascii,
            (_, bad) => {
                return Err(
                    args.error(format!("bad contents value '{bad}'; should be 'NONE', 'HEX', or 'ASCII'"))
                );
            }
        };
        let of_payload = match &*payload.to_ascii_uppercase() {
            "NO" | "FALSE" => Contents::None,
            "YES" | "TRUE" | "HEX" => Contents::Hex,
            "ASCII" => Contents::Ascii,
            _ => {
                return Err(args
                    .error(format!("bad payload value '{payload}'; should be 'false', 'hex', or 'ascii'")));
            }
        };
        if shown != Contents::None && of_payload != Contents::None {
            return Err(args.error("specify at most one of PAYLOAD and CONTENTS"));
        }
        let payload = of_payload != Contents::None;
        let flag =
            |args: &mut Args<'_>, name, default| args.k(name).map(|v: Option<bool>| v.unwrap_or(default));
        Ok(Self {
            label,
            contents: if payload { of_payload } else { shown },
            payload,
            most: usize::try_from(most).ok(),
            ether: flag(args, "ETHER", false)?,
            id: flag(args, "ID", false)?,
            timestamp: flag(args, "TIMESTAMP", true)?,
            paint: flag(args, "PAINT", false)?,
            tos: flag(args, "TOS", false)?,
            ttl: flag(args, "TTL", false)?,
            swap: flag(args, "SWAP", true)?,
            length: flag(args, "LENGTH", false)?,
            aggregate: flag(args, "AGGREGATE", false)?,
            active: flag(args, "ACTIVE", true)?,
            lines: Lines::from_args(args, cx)?.with_channel(args)?,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| {
            e.active = text::value(v, "expected boolean")?;
            Ok(())
        });
        h.listed(&["active .c"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.open(cx)
    }
}

/// The first `N` bytes, with zeros for missing ones.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().zip(bytes) {
        *to = *from;
    }
    all
}

/// The two addresses, with the ports if there are any.
fn pair(s: &mut String, h: Header<'_>, ports: Option<(u16, u16)>) {
    let _ = match ports {
        Some((src, dst)) => write!(s, "{}.{src} > {}.{dst}: ", h.src(), h.dst()),
        None => write!(s, "{} > {}: ", h.src(), h.dst()),
    };
}

fn tcp_line(s: &mut String, h: Header<'_>, transport: &[u8], packet_len: usize) {
    if transport.len() < 4 || !h.is_first_fragment() {
        pair(s, h, None);
        s.push_str(if h.is_first_fragment() { "truncated-tcp" } else { "tcp" });
        return;
    }
    let t = Tcp::wrap(padded(transport));
    pair(s, h, Some((t.src_port(), t.dst_port())));
    if transport.len() < 14 {
        s.push_str("truncated-tcp");
        return;
    }
    let flags = t.flags();
    let before = usize::from(t.offset_reserved() >> 4) * 4 + h.header_len();
    let mut len = i64::from(h.total_len()) - before as i64;
    for (flag, letter, counts) in
        [(tcp::SYN, 'S', true), (tcp::FIN, 'F', true), (tcp::RST, 'R', false), (tcp::PSH, 'P', false)]
    {
        if flags & flag != 0 {
            s.push(letter);
            len += i64::from(counts);
        }
    }
    if flags & (tcp::SYN | tcp::FIN | tcp::RST | tcp::PSH) == 0 {
        s.push('.');
    }
    let end = t.seq().wrapping_add(len as u32);
    let _ = write!(s, " {}:{end}({len},{packet_len},{})", t.seq(), h.total_len());
    if flags & tcp::ACK != 0 {
        let _ = write!(s, " ack {}", t.ack());
    }
    if transport.len() < 16 {
        s.push_str("truncated-tcp");
        return;
    }
    let _ = write!(s, " win {}", t.window());
}

fn udp_line(s: &mut String, h: Header<'_>, transport: &[u8]) {
    if transport.len() < 4 || !h.is_first_fragment() {
        pair(s, h, None);
        s.push_str(if h.is_first_fragment() { "truncated-udp" } else { "udp" });
        return;
    }
    let u = Udp::wrap(padded(transport));
    pair(s, h, Some((u.src_port(), u.dst_port())));
    let _ = match transport.len() {
        0..8 => write!(s, "truncated-udp"),
        _ => write!(s, "udp {}", u.length()),
    };
}

fn icmp_line(s: &mut String, h: Header<'_>, transport: &[u8], swap: bool) {
    pair(s, h, None);
    if !h.is_first_fragment() {
        s.push_str("icmp");
        return;
    }
    if transport.len() < 2 {
        s.push_str("truncated-icmp");
        return;
    }
    let i = Icmpv4::wrap(padded(transport));
    match i.kind() {
        icmpv4::ECHO | icmpv4::ECHO_REPLY => {
            s.push_str(if i.kind() == icmpv4::ECHO { "icmp echo " } else { "icmp echo-reply " });
            let order = |n: u16| if swap { n } else { n.swap_bytes() };
            let _ = match transport.len() {
                0..8 => write!(s, "truncated-icmp"),
                _ => write!(s, "({}, {})", order(i.id()), order(i.seq())),
            };
        }
        icmpv4::UNREACHABLE => unreachable_line(s, &i, transport.get(8..).unwrap_or(&[])),
        kind => {
            s.push_str("icmp ");
            let _ = match NameDb::icmp_type_name(kind) {
                Some(name) => write!(s, "{name}"),
                None => write!(s, "type {kind}"),
            };
            let _ = match (NameDb::icmp_code_name(kind, i.code()), i.code()) {
                (Some(name), _) => write!(s, " {name}"),
                (None, 0) => Ok(()),
                (None, code) => write!(s, " code {code}"),
            };
        }
    }
}

/// An ICMP unreachable message about the packet that begins with `about`.
fn unreachable_line(s: &mut String, i: &Icmpv4<[u8; 8]>, about: &[u8]) {
    let code = i.code();
    let name = NameDb::icmp_code_name(icmpv4::UNREACHABLE, code)
        .map_or_else(|| format!("code {code}"), str::to_owned);
    let Some(inner) = Ipv4::new(about) else {
        let _ = write!(s, "icmp unreachable {name} truncated-icmp");
        return;
    };
    let _ = write!(s, "icmp {} unreachable {name}", inner.dst());
    let of = NameDb::protocol_name(inner.protocol());
    match (code, of) {
        (icmpv4::UNREACHABLE_PROTOCOL, Some(of)) => {
            let _ = write!(s, " {of}");
        }
        (icmpv4::UNREACHABLE_PROTOCOL, None) => {
            let _ = write!(s, " {}", inner.protocol());
        }
        (icmpv4::UNREACHABLE_PORT, of) => {
            let _ = match of {
                Some(of) => write!(s, " {of}"),
                None => write!(s, " protocol {}", inner.protocol()),
            };
            let _ = match about.get(inner.header_len()..).filter(|t| t.len() >= 4) {
                Some(t) => write!(s, "/{}", Udp::wrap(padded::<8>(t)).dst_port()),
                None => write!(s, "truncated-icmp"),
            };
        }
        (icmpv4::UNREACHABLE_NEED_FRAG, _) if i.next_hop_mtu() != 0 => {
            let _ = write!(s, " (mtu {})", i.next_hop_mtu());
        }
        _ => {}
    }
}

impl IPPrint {
    /// The text for a packet; `None` without a marked IP header.
    fn line(&self, packet: &Packet) -> Option<String> {
        let network = packet.network_header()?;
        let anno = packet.anno();
        let mut s = String::with_capacity(256);
        if !self.label.is_empty() {
            let _ = write!(s, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(s, "{}: ", text::timestamp(anno.timestamp_ns as i64));
        }
        if self.aggregate {
            let _ = write!(s, "#{}", anno.aggregate());
        }
        if self.paint {
            let _ = write!(s, "{}{}", if self.aggregate { "." } else { "paint " }, anno.paint());
        }
        if self.aggregate || self.paint {
            s.push_str(": ");
        }
        if self.ether
            && let (Some(mac), Some(ip)) = (packet.mac_header_offset(), packet.network_header_offset())
            && mac + wire::ethernet::HEADER_LEN as isize <= ip
            && let Some(e) = packet.mac_header().and_then(Ethernet::new)
        {
            let (src, dst): (EtherAddr, EtherAddr) = (e.src(), e.dst());
            let _ = write!(s, "{src} > {dst}: ");
        }
        let Some(h) = header(packet) else {
            s.push_str("truncated-ip");
            return Some(s);
        };
        for (wanted, name, value) in [
            (self.id, "id", h.id()),
            (self.ttl, "ttl", h.ttl().into()),
            (self.tos, "tos", h.tos().into()),
            (self.length, "length", h.total_len()),
        ] {
            if wanted {
                let _ = write!(s, "{name} {value} ");
            }
        }
        let payload_len = i32::from(h.total_len()) - h.header_len() as i32;
        let transport = packet.transport_header().unwrap_or(&[]);
        let cut = transport.len().min(usize::try_from(payload_len).unwrap_or(0));
        let transport = transport.get(..cut).unwrap_or(&[]);
        match h.protocol() {
            protocol::TCP => tcp_line(&mut s, h, transport, packet.len()),
            protocol::UDP => udp_line(&mut s, h, transport),
            protocol::ICMP => icmp_line(&mut s, h, transport, self.swap),
            other => {
                pair(&mut s, h, None);
                let _ = write!(s, "ip-proto-{other}");
            }
        }
        if h.is_fragment() {
            let more = if h.more_fragments() { "+" } else { "" };
            let _ = write!(s, " (frag {}:{payload_len}@{}{more})", h.id(), h.fragment_offset());
        }
        if self.contents != Contents::None {
            let start = match (self.payload, h.protocol(), h.is_first_fragment()) {
                (false, ..) => return Some(self.dump(s, packet.data())),
                (true, protocol::TCP, true) => {
                    usize::from(Tcp::wrap(padded::<20>(transport)).offset_reserved() >> 4) * 4
                }
                (true, protocol::UDP, true) => wire::udp::HEADER_LEN,
                _ => 0,
            };
            let after = network.get(h.header_len() + start..).unwrap_or(&[]);
            return Some(self.dump(s, after));
        }
        Some(s)
    }

    /// Appends bytes in lines of 24 (hexadecimal) or 48 (text).
    fn dump(&self, mut s: String, bytes: &[u8]) -> String {
        let hex = self.contents == Contents::Hex;
        let (line, group) = if hex { (24, 4) } else { (48, 8) };
        for (i, byte) in bytes.iter().take(self.most.unwrap_or(usize::MAX)).enumerate() {
            if i % line == 0 {
                s.push_str("\n  ");
            } else if i % group == 0 {
                s.push(' ');
            }
            if hex {
                let _ = write!(s, "{byte:02x}");
            } else {
                s.push(if matches!(byte, 32..=126) { char::from(*byte) } else { '.' });
            }
        }
        s
    }
}

impl Simple for IPPrint {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.active
            && let Some(line) = self.line(&packet)
        {
            self.lines.print(line, cx);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::{ip, ip_with, marked};
    use crate::testing::Bench;
    use std::sync::{Arc, Mutex};

    /// The text that `IPPrint(arguments, TIMESTAMP false)` prints.
    fn print(arguments: &str, packet: Packet) -> String {
        let mut bench = Bench::new(&format!(
            "IPPrint({arguments}{}TIMESTAMP false)",
            if arguments.is_empty() { "" } else { ", " }
        ));
        let lines = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&lines);
        bench.router().hub().listen(Box::new(move |line| sink.lock().unwrap().push_str(line)));
        assert_eq!(bench.send(0, packet).len(), 1);
        std::mem::take(&mut *lines.lock().unwrap())
    }

    fn tcp(flags: u8, data: &[u8]) -> Vec<u8> {
        let header = [0, 80, 4, 0, 0, 0, 0, 10, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0];
        ip(6, &[&header[..], data].concat())
    }

    #[test]
    fn tcp_lines() {
        let line = |flags, data: &[u8]| print("", marked(&tcp(flags, data)));
        assert_eq!(line(0x02, b""), "10.0.0.1.80 > 10.0.0.2.1024: S 10:11(1,40,40) win 256");
        assert_eq!(line(0x18, b"abc"), "10.0.0.1.80 > 10.0.0.2.1024: P 10:13(3,43,43) ack 9 win 256");
        assert_eq!(line(0x10, b""), "10.0.0.1.80 > 10.0.0.2.1024: . 10:10(0,40,40) ack 9 win 256");
        assert_eq!(line(0x05, b""), "10.0.0.1.80 > 10.0.0.2.1024: FR 10:11(1,40,40) win 256");
        let short = ip(6, &tcp(0x12, b"")[20..34]);
        assert_eq!(
            print("", marked(&short)),
            "10.0.0.1.80 > 10.0.0.2.1024: S 10:5(-5,34,34) ack 9truncated-tcp"
        );
        assert_eq!(print("", marked(&ip(6, &[0; 3]))), "10.0.0.1 > 10.0.0.2: truncated-tcp");
    }

    #[test]
    fn udp_and_other_lines() {
        assert_eq!(print("", marked(&ip(17, &[0, 1, 0, 2, 0, 8, 0, 0]))), "10.0.0.1.1 > 10.0.0.2.2: udp 8");
        assert_eq!(print("x", marked(&ip(17, &[0, 1, 0, 2]))), "x: 10.0.0.1.1 > 10.0.0.2.2: truncated-udp");
        assert_eq!(print("", marked(&ip(99, b""))), "10.0.0.1 > 10.0.0.2: ip-proto-99");
        assert_eq!(print("", Packet::from_bytes(b"x").unwrap()), "");
        assert_eq!(print("", marked(&ip(17, b"")[..19])), "truncated-ip");
        assert_eq!(print("ACTIVE false", marked(&ip(99, b""))), "");
    }

    #[test]
    fn icmp_lines() {
        let line = |bytes: &[u8]| print("", marked(&ip(1, bytes))).split_off(21);
        assert_eq!(line(&[8, 0, 0, 0, 1, 2, 0, 5]), "icmp echo (258, 5)");
        assert_eq!(line(&[0, 0, 0, 0, 1, 2, 0, 5]), "icmp echo-reply (258, 5)");
        assert_eq!(line(&[8, 0, 0, 0]), "icmp echo truncated-icmp");
        assert_eq!(line(&[11, 0, 0, 0, 0, 0, 0, 0]), "icmp timeexceeded transit");
        assert_eq!(line(&[77, 2]), "icmp type 77 code 2");
        assert_eq!(line(&[3, 1, 0, 0, 0, 0, 0, 0]), "icmp unreachable host truncated-icmp");
        let about = |code, mtu, inner: Vec<u8>| [&[3, code, 0, 0, 0, 0, 0, mtu], &inner[..]].concat();
        assert_eq!(line(&about(3, 0, ip(17, &[0, 9, 0, 7]))), "icmp 10.0.0.2 unreachable port udp/7");
        assert_eq!(
            line(&about(3, 0, ip(99, &[]))),
            "icmp 10.0.0.2 unreachable port protocol 99truncated-icmp"
        );
        assert_eq!(line(&about(2, 0, ip(99, &[]))), "icmp 10.0.0.2 unreachable protocol 99");
        assert_eq!(line(&about(4, 200, ip(6, &[]))), "icmp 10.0.0.2 unreachable needfrag (mtu 200)");
        assert_eq!(
            print("SWAP false", marked(&ip(1, &[8, 0, 0, 0, 1, 2, 0, 5]))).split_off(21),
            "icmp echo (513, 1280)"
        );
    }

    #[test]
    fn fragments_and_fields() {
        let fragment = ip_with(&[], &[0; 16], |h| {
            h.set_id(7);
            h.set_fragment_offset(64);
            h.set_more_fragments(true);
        });
        assert_eq!(print("", marked(&fragment)), "10.0.0.1 > 10.0.0.2: udp (frag 7:16@64+)");
        let mut packet = marked(&ip(99, b""));
        packet.set_paint(3);
        assert_eq!(
            print("ID true, TTL true, TOS true, LENGTH true, PAINT true", packet),
            "paint 3: id 0 ttl 64 tos 0 length 20 10.0.0.1 > 10.0.0.2: ip-proto-99"
        );
        let mut packet = marked(&ip(99, b""));
        packet.set_aggregate(5);
        assert_eq!(print("AGGREGATE true", packet), "#5: 10.0.0.1 > 10.0.0.2: ip-proto-99");
        let mut framed = vec![1, 2, 3, 4, 5, 6, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 8, 0];
        framed.extend(ip(99, b""));
        let mut packet = Packet::from_bytes(&framed).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        assert!(
            print("ETHER true", packet).starts_with("0A-0B-0C-0D-0E-0F > 01-02-03-04-05-06: 10.0.0.1 > ")
        );
    }

    #[test]
    fn contents() {
        let udp = ip(17, &[&[0, 1, 0, 2, 0, 8, 0, 0][..], b"hello, w\x01rld"].concat());
        let text = print("PAYLOAD ascii", marked(&udp));
        assert_eq!(text.lines().nth(1), Some("  hello, w .rld"));
        let text = print("CONTENTS hex, MAXLENGTH 26", marked(&udp));
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines[0],
            "  45000028 00000000 40112673 0a000001 0a000002 00010002"
                .replace("2673", &format!("{:02x}{:02x}", udp[10], udp[11]))
        );
        assert_eq!(lines[1], "  0008");
        assert!(Bench::error("IPPrint(CONTENTS octal)").contains("bad contents value 'OCTAL'"));
        assert!(
            Bench::error("IPPrint(CONTENTS hex, PAYLOAD hex)")
                .contains("at most one of PAYLOAD and CONTENTS")
        );
    }

    #[test]
    fn prints_to_a_file() {
        let path = std::env::temp_dir().join(format!("valiant-ipprint-{}", std::process::id()));
        let mut bench = Bench::new(&format!("IPPrint(OUTFILE {})", path.display()));
        bench.push_packet(0, marked(&ip(99, b"")));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0.000000: 10.0.0.1 > 10.0.0.2: ip-proto-99\n");
        std::fs::remove_file(&path).unwrap();
    }
}
