//! Packets into NAT64, ProtocolTranslator46, ProtocolTranslator64 and AddressTranslator: whatever arrives,
//! what leaves is a well-formed packet of the other side, whose checksum is right if and only if the one that
//! went in was; no ICMP error with a wrong one leaves; and NAT64 keeps to its limits.
//!
//! Input: packets one after the other, each a byte of flags, a byte of length (in steps of 2) and so many
//! bytes. The flags choose the element and its input, or an ICMP error about what it has sent last, and how
//! much is made here so that it gets past the first checks: addresses and the rest of the IP header, a
//! fragment, the transport checksum; whether the packet is made longer, and whether time passes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::testing::Bench;
use runtime::{Options, Packet, Registry};
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use wire::{Ipv4, Ipv6, ipv4, ipv6, protocol};

static REGISTRY: LazyLock<Registry> = LazyLock::new(elements::registry);

/// How many inputs the elements see before they are made anew.
const USES: usize = 500;
const CAPACITY: usize = 100;
const HOSTS: usize = 4;
const CONFIG: &str = "
e :: Null;
n :: NAT64(198.51.100.1 1024-1055, 198.51.100.2, CAPACITY 100, HOSTS 4, HOST_CAPACITY 60, NON_GLOBAL true);
Idle -> n6 :: Null -> [0] n; Idle -> n4 :: Null -> [1] n;
n [0] -> Paint(0) -> e; n [1] -> Paint(1) -> e;
Idle -> p46 :: Null -> ProtocolTranslator46(PREFIX 64:ff9b::/96) -> Paint(2) -> e;
Idle -> p64 :: Null -> ProtocolTranslator64(PREFIX 64:ff9b::/96) -> Paint(3) -> e;
a :: AddressTranslator(1, false, 2001:db8::1 2001:db8:9::1, true, true, false, 2001:db8:9::9 1024 1055);
Idle -> a0 :: Null -> [0] a; Idle -> a1 :: Null -> [1] a;
a [0] -> Paint(4) -> e; a [1] -> Paint(5) -> e;
";
/// The inputs, and whether they take IPv6.
const INPUTS: [(&str, bool); 6] =
    [("n6", true), ("n4", false), ("p46", false), ("p64", true), ("a0", true), ("a1", true)];
/// Whether the outputs, which are painted with their number, give IPv6.
const GIVES_SIX: [bool; 6] = [true, false, true, false, true, true];
/// The numbers of a packet's protocol.
const PROTOCOLS: [u8; 8] = [6, 17, 17, 1, 58, 44, 60, 47];

struct Lab {
    bench: Bench,
    /// What NAT64 has sent last to each side.
    last6: Vec<u8>,
    last4: Vec<u8>,
    uses: usize,
}

impl Lab {
    fn new() -> Self {
        let options = Options { simulated_time: true, ..Options::default() };
        let bench = Bench::with(&REGISTRY, CONFIG, 0, 1, options);
        Self { bench, last6: Vec::new(), last4: Vec::new(), uses: 0 }
    }
}

thread_local! {
    static LAB: RefCell<Option<Lab>> = const { RefCell::new(None) };
}

fn host6(n: u8) -> Ipv6Addr {
    let text = match n & 7 {
        0 | 1 => return Ipv6Addr::from_bits(0x0064_ff9b << 96 | u128::from(host4(n >> 3).to_bits())),
        2 => "2001:db8::1",
        3 => "2001:db8::2",
        4 => "2001:db8:9::9",
        5 => "2001:db8:9::1",
        6 => "2001:db8::3",
        _ => return Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n)),
    };
    text.parse().expect("an address")
}

fn host4(n: u8) -> Ipv4Addr {
    match n & 7 {
        0..=2 => [198, 51, 100, 1].into(),
        3 => [198, 51, 100, 2].into(),
        4..=6 => [192, 0, 2, n & 7].into(),
        _ => [10, 0, 0, n].into(),
    }
}

/// The Internet checksum of RFC 1071, by the letter, before it is inverted.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// A packet's protocol, where its transport header begins and ends, and the pseudo-header of its checksum.
/// `None` if it is a fragment, or has extension headers, or is none of TCP, UDP and ICMP.
fn transport(packet: &[u8], six: bool) -> Option<(u8, usize, usize, Vec<u8>)> {
    let (number, at, end, mut pseudo) = if six {
        let ip = Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
        let end = ipv6::HEADER_LEN + usize::from(ip.payload_len());
        (ip.next_header(), ipv6::HEADER_LEN, end, packet[8..40].to_vec())
    } else {
        let ip = Ipv4::new(packet).filter(|ip| ip.version() == 4 && !ip.is_fragment())?;
        (ip.protocol(), ip.header_len(), usize::from(ip.total_len()), packet[12..20].to_vec())
    };
    if end > packet.len() || at > end {
        return None;
    }
    match number {
        protocol::TCP | protocol::UDP => {}
        protocol::ICMPV6 if six => {}
        protocol::ICMP if !six => pseudo.clear(),
        _ => return None,
    }
    if !pseudo.is_empty() {
        pseudo.extend(((end - at) as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, number]);
    }
    Some((number, at, end, pseudo))
}

/// Whether the transport checksum is right; `None` if there is none, or the packet is not whole.
fn is_right(packet: &[u8], six: bool) -> Option<bool> {
    let (number, at, end, pseudo) = transport(packet, six)?;
    let t = &packet[at..end];
    if number == protocol::UDP && (t.len() < 8 || t[6..8] == [0, 0]) {
        return None;
    }
    Some(matches!(sum(&[&pseudo, t]), 0 | 0xffff))
}

fn is_error(packet: &[u8], six: bool) -> bool {
    transport(packet, six).is_some_and(|(number, at, end, _)| match (number, packet[at..end].first()) {
        (protocol::ICMP, Some(kind)) => matches!(kind, 3 | 4 | 5 | 11 | 12),
        (protocol::ICMPV6, Some(kind)) => *kind < 128,
        _ => false,
    })
}

fn fill(packet: &mut [u8], six: bool) {
    let Some((number, at, end, pseudo)) = transport(packet, six) else { return };
    let place = at
        + match number {
            protocol::TCP => 16,
            protocol::UDP => 6,
            _ => 2,
        };
    if place + 2 > end {
        return;
    }
    packet[place..place + 2].fill(0);
    let check = !sum(&[&pseudo, &packet[at..end]]);
    packet[place..place + 2].copy_from_slice(&check.to_be_bytes());
}

/// An IP header in front of a payload; `choice` says which addresses, `number` which protocol.
fn headed(six: bool, choice: [u8; 2], number: u8, fragment: Option<u16>, payload: &[u8]) -> Vec<u8> {
    if six {
        let (next, extra) = if fragment.is_some() { (protocol::FRAGMENT, 8) } else { (number, 0) };
        let len = (payload.len() + extra) as u16;
        let header = Ipv6::build(host6(choice[0]), host6(choice[1]), next, len);
        let mut packet = header.bytes().to_vec();
        if let Some(place) = fragment {
            packet.extend([number, 0]);
            packet.extend((place & !6).to_be_bytes());
            packet.extend([0, 0, 0, choice[0]]);
        }
        packet.extend(payload);
        return packet;
    }
    let mut header = Ipv4::build(host4(choice[0]), host4(choice[1]), number, payload.len());
    header.set_id(choice[0].into());
    if let Some(place) = fragment {
        header.set_flags_fragment(place >> 3 | if place & 1 != 0 { ipv4::FLAG_MF } else { 0 });
    } else if choice[1] & 128 != 0 {
        header.set_dont_fragment(true);
    }
    header.fill_checksum();
    [&header.bytes()[..], payload].concat()
}

/// A packet from the fuzzer's bytes, and for which input.
fn packet(lab: &Lab, flags: u8, data: &[u8]) -> (usize, Vec<u8>) {
    let input = usize::from(flags & 7);
    let Some((&[a, b, c, d], rest)) = data.split_first_chunk::<4>() else {
        return (input % 6, data.to_vec());
    };
    let mut payload = rest.to_vec();
    if flags & 64 != 0 {
        payload.resize(payload.len() + 1400, a);
    }
    if input >= 6 {
        // An error about what was sent: what goes out on one side comes back in there.
        let six = input == 6;
        let about = if six { &lab.last6 } else { &lab.last4 };
        let kind = if six { 1 + a % 4 } else { [3, 3, 11, 12][usize::from(a & 3)] };
        let mut message = vec![kind, b, 0, 0, 0, c & 1, d, rest.first().copied().unwrap_or(0)];
        message.extend(&about[..about.len().min(if flags & 32 != 0 { 60 } else { 1200 })]);
        let (number, who) = if six { (58, [a >> 2, 0]) } else { (1, [a >> 2, 0]) };
        let mut packet = headed(six, who, number, None, &message);
        // To who has sent that packet.
        let (to, from, len) = if six { (24, 8, 16) } else { (16, 12, 4) };
        if let Some(sender) = about.get(from..from + len) {
            packet[to..to + len].copy_from_slice(sender);
        }
        if six {
            // From the host that it was for.
            if let Some(host) = about.get(24..40) {
                packet[8..24].copy_from_slice(host);
            }
        } else if let Some(end) = packet.get_mut(..20) {
            ipv4::fill_header(end);
        }
        if flags & 16 != 0 {
            fill(&mut packet, six);
        }
        return (if six { 0 } else { 1 }, packet);
    }
    let six = INPUTS[input].1;
    if flags & 8 == 0 {
        return (input, data.to_vec());
    }
    let number = match PROTOCOLS[usize::from(c & 7)] {
        1 | 58 => {
            if six {
                58
            } else {
                1
            }
        }
        number => number,
    };
    let fragment = (flags & 32 != 0).then_some(u16::from(d & 0x7f) & !6 | u16::from(c >> 7));
    let mut packet = headed(six, [a, b], number, fragment, &payload);
    if flags & 16 != 0 {
        fill(&mut packet, six);
    }
    (input, packet)
}

/// What leaves is a packet as its output gives it.
fn check(bytes: &[u8], output: usize) {
    let six = GIVES_SIX[output];
    if six {
        let ip = Ipv6::new(bytes).expect("an IPv6 header");
        assert!(
            ip.version() == 6 && usize::from(ip.payload_len()) + ipv6::HEADER_LEN == bytes.len()
                || output > 3
        );
        let from_prefix = ip.src().to_bits() >> 32 == 0x0064_ff9b << 64;
        assert!(output > 2 || from_prefix, "from {}", ip.src());
    } else {
        let (header, total) = ipv4::check(bytes, true).expect("an IPv4 header");
        let ip = Ipv4::new(bytes).expect("an IPv4 header");
        assert!(header == 20 && total == bytes.len());
        assert!(output != 1 || matches!(ip.src().octets(), [198, 51, 100, 1 | 2]), "from {}", ip.src());
    }
    if is_error(bytes, six) {
        assert_eq!(is_right(bytes, six), Some(true), "{bytes:02x?}");
    }
}

fuzz_target!(|data: &[u8]| {
    LAB.with_borrow_mut(|lab| {
        let lab = lab.get_or_insert_with(Lab::new);
        let mut rest = data;
        while let Some(([flags, length], after)) = rest.split_first_chunk::<2>() {
            let (bytes, after) = after.split_at(after.len().min(usize::from(*length) * 2));
            rest = after;
            let (input, bytes) = packet(lab, *flags, bytes);
            let Some(packet) = Packet::from_bytes(&bytes) else { continue };
            let (name, six) = INPUTS[input];
            lab.bench.router().inject(name, 0, [packet].into_iter().collect());
            let came = lab.bench.take();
            let right = is_right(&bytes, six);
            assert!(!is_error(&bytes, six) || right == Some(true) || came.is_empty(), "{bytes:02x?}");
            for (_, packet) in &came {
                let output = usize::from(packet.paint());
                check(packet.data(), output);
                let right_now = is_right(packet.data(), GIVES_SIX[output]);
                if let (Some(before), Some(now)) = (right, right_now) {
                    assert_eq!(before, now, "{bytes:02x?} became {:02x?}", packet.data());
                }
                match output {
                    0 => lab.last6 = packet.data().to_vec(),
                    1 => lab.last4 = packet.data().to_vec(),
                    _ => {}
                }
            }
            if *flags & 128 != 0 {
                lab.bench.turns(3);
            }
        }
        if lab.uses % 50 == 0 {
            let mut read = |handler: &str| lab.bench.read(handler).parse::<usize>().expect("a number");
            assert!(read("n.size") <= CAPACITY && read("n.nhosts") <= HOSTS);
            assert!(lab.bench.read("a.mappings").lines().count() <= 33);
        }
        lab.uses += 1;
    });
    LAB.with_borrow_mut(|lab| lab.take_if(|lab| lab.uses >= USES));
});
