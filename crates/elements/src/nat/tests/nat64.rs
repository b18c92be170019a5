//! IPv6 hosts that talk to IPv4 hosts.

use crate::testing::Bench;
use wire::checksum::{combine, sum};
use wire::{Ipv4, Ipv6, icmpv4, icmpv6, protocol, tcp, udp};

const HOST: &str = "2001:db8::7";
const OTHER: &str = "2001:db8::8";
const REMOTE: [u8; 4] = [192, 0, 2, 9];
const OWN: [u8; 4] = [198, 51, 100, 1];

fn nat() -> Bench {
    Bench::new("NAT64(198.51.100.1, NON_GLOBAL true)")
}
fn embedded(a: [u8; 4]) -> String {
    format!("64:ff9b::{}.{}.{}.{}", a[0], a[1], a[2], a[3])
}
fn six(src: &str, dst: &str, next: u8, t: &[u8]) -> Vec<u8> {
    let mut t = t.to_vec();
    let h = Ipv6::build(src.parse().unwrap(), dst.parse().unwrap(), next, t.len() as u16);
    let pseudo = h.pseudo_sum(t.len() as u32);
    match next {
        protocol::TCP => fill(&mut t, pseudo, 16),
        protocol::UDP => drop(udp::fill(pseudo, &mut t)),
        _ => drop(icmpv6::fill(pseudo, &mut t)),
    }
    [&h.bytes()[..], &t].concat()
}
fn four(src: [u8; 4], dst: [u8; 4], next: u8, t: &[u8]) -> Vec<u8> {
    let mut t = t.to_vec();
    let mut h = Ipv4::build(src.into(), dst.into(), next, t.len());
    h.set_dont_fragment(true);
    h.fill_checksum();
    let pseudo = h.pseudo_sum(t.len() as u16);
    match next {
        protocol::TCP => fill(&mut t, pseudo, 16),
        protocol::UDP => drop(udp::fill(pseudo, &mut t)),
        _ => drop(icmpv4::fill(&mut t)),
    }
    [&h.bytes()[..], &t].concat()
}
fn fill(t: &mut [u8], pseudo: u16, at: usize) {
    t[at..at + 2].fill(0);
    let check = !combine(pseudo, sum(t));
    t[at..at + 2].copy_from_slice(&check.to_be_bytes());
}
fn udp(sport: u16, dport: u16) -> Vec<u8> {
    let [a, b] = sport.to_be_bytes();
    let [c, d] = dport.to_be_bytes();
    vec![a, b, c, d, 0, 12, 0, 0, 1, 2, 3, 4]
}
fn tcp(sport: u16, dport: u16, flags: u8) -> Vec<u8> {
    let [a, b] = sport.to_be_bytes();
    let [c, d] = dport.to_be_bytes();
    vec![a, b, c, d, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 9, 9, 0, 0, 0, 0]
}
fn ping(kind: u8, id: u16) -> Vec<u8> {
    let [a, b] = id.to_be_bytes();
    vec![kind, 0, 0, 0, a, b, 0, 1, 7, 7]
}
fn ports(t: &[u8]) -> (u16, u16) {
    (u16::from_be_bytes([t[0], t[1]]), u16::from_be_bytes([t[2], t[3]]))
}
/// The packet that leaves by output 1, with right checksums: its addresses and transport header.
fn four_of(mut out: Vec<(usize, Vec<u8>)>) -> ([u8; 4], [u8; 4], Vec<u8>) {
    assert_eq!(out.len(), 1);
    let (port, bytes) = out.remove(0);
    let (h, t) = Ipv4::split(&bytes).unwrap();
    assert!(port == 1 && h.verify_checksum());
    let pseudo = if h.protocol() == protocol::ICMP { 0 } else { h.pseudo_sum(t.len() as u16) };
    assert_eq!(combine(pseudo, sum(t)), 0xffff);
    (h.src().octets(), h.dst().octets(), t.to_vec())
}
/// The same at output 0.
fn six_of(mut out: Vec<(usize, Vec<u8>)>) -> (String, String, Vec<u8>) {
    assert_eq!(out.len(), 1);
    let (port, bytes) = out.remove(0);
    let (h, t) = Ipv6::split(&bytes).unwrap();
    assert_eq!((port, combine(h.pseudo_sum(t.len() as u32), sum(t))), (0, 0xffff));
    (h.src().to_string(), h.dst().to_string(), t.to_vec())
}
fn last_drop(bench: &mut Bench) -> Vec<(String, u64)> {
    bench.drops()
}

#[test]
fn udp_there_and_back() {
    let mut nat = nat();
    let (src, dst, t) = four_of(nat.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(5000, 53))));
    assert_eq!((src, dst, ports(&t)), (OWN, REMOTE, (5000, 53)));
    let (src, dst, t) = six_of(nat.push(1, &four(REMOTE, OWN, 17, &udp(53, 5000))));
    assert_eq!((src, dst.as_str(), ports(&t)), ("64:ff9b::c000:209".into(), HOST, (53, 5000)));
    assert_eq!(
        (nat.read("nsessions"), nat.read("nmappings"), nat.read("nhosts")),
        ("1".into(), "1".into(), "1".into())
    );
    assert_eq!(nat.read("mappings"), "UDP [2001:db8::7]:5000 => 198.51.100.1:5000\n");
    assert!(
        nat.read("sessions").starts_with("UDP [2001:db8::7]:5000 => 198.51.100.1:5000 to 192.0.2.9:53 exp")
    );
}

/// The same port for every other side; another host gets another port, with the same parity.
#[test]
fn mappings_are_endpoint_independent() {
    let mut nat = nat();
    let mut at = |host: &str, remote: [u8; 4], port: u16| {
        ports(&four_of(nat.push(0, &six(host, &embedded(remote), 17, &udp(5000, port)))).2).0
    };
    assert_eq!([at(HOST, REMOTE, 53), at(HOST, REMOTE, 54), at(HOST, [192, 0, 2, 77], 53)], [5000; 3]);
    let other = at(OTHER, REMOTE, 53);
    assert!(other != 5000 && other % 2 == 0 && other >= 1024, "{other}");
    assert_eq!((nat.read("nsessions"), nat.read("nmappings")), ("4".into(), "2".into()));
    // Anybody outside reaches a mapped port, unless that is filtered.
    let stranger = four([192, 0, 2, 200], OWN, 17, &udp(9, 5000));
    assert_eq!(six_of(nat.push(1, &stranger)).1, HOST);
    assert!(nat.push(1, &four(REMOTE, OWN, 17, &udp(9, 5002))).is_empty());
    let mut strict = Bench::new("NAT64(198.51.100.1, FILTER true, NON_GLOBAL true)");
    strict.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(5000, 53)));
    assert!(strict.push(1, &stranger).is_empty());
    assert_eq!(last_drop(&mut strict), [("no mapping".to_owned(), 1)]);
    assert_eq!(six_of(strict.push(1, &four(REMOTE, OWN, 17, &udp(53, 5000)))).1, HOST);
}

#[test]
fn tcp_begins_with_a_syn_and_lasts_by_its_state() {
    let mut nat = nat();
    let out = |flags| six(HOST, &embedded(REMOTE), 6, &tcp(4000, 80, flags));
    let back = |flags| four(REMOTE, OWN, 6, &tcp(80, 4000, flags));
    let left = |nat: &mut Bench| {
        let text = nat.read("sessions");
        text.trim().rsplit_once("exp").unwrap().1.parse::<u32>().unwrap()
    };
    assert!(nat.push(0, &out(tcp::ACK)).is_empty() && nat.push(1, &back(tcp::SYN)).is_empty());
    assert_eq!(last_drop(&mut nat), [("no mapping".to_owned(), 2)]);
    assert_eq!(four_of(nat.push(0, &out(tcp::SYN))).0, OWN);
    assert_eq!(left(&mut nat), 240);
    assert_eq!(six_of(nat.push(1, &back(tcp::SYN | tcp::ACK))).1, HOST);
    assert_eq!(left(&mut nat), 7440);
    // A reset, and a packet after all (RFC 6146 section 3.5.2.2).
    nat.push(1, &back(tcp::RST));
    assert_eq!(left(&mut nat), 240);
    nat.push(0, &out(tcp::ACK));
    assert_eq!(left(&mut nat), 7440);
    nat.push(0, &out(tcp::FIN | tcp::ACK));
    assert_eq!(left(&mut nat), 7440);
    nat.push(1, &back(tcp::FIN | tcp::ACK));
    assert_eq!(left(&mut nat), 240);
}

#[test]
fn pings_have_their_identifier_mapped() {
    let mut nat = Bench::new("NAT64(198.51.100.1 2000-2003, NON_GLOBAL true)");
    let (_, _, t) = four_of(nat.push(0, &six(HOST, &embedded(REMOTE), 58, &ping(128, 77))));
    let id = u16::from_be_bytes([t[4], t[5]]);
    assert!(t[0] == 8 && (2000..=2003).contains(&id));
    let (_, dst, t) = six_of(nat.push(1, &four(REMOTE, OWN, 1, &ping(0, id))));
    assert_eq!((dst.as_str(), &t[..2], &t[4..6]), (HOST, &[129, 0][..], &[0, 77][..]));
    // A reply that nobody asked for begins nothing.
    assert!(nat.push(0, &six(OTHER, &embedded(REMOTE), 58, &ping(129, 5))).is_empty());
    assert_eq!(nat.read("nhosts"), "1");
    // Four identifiers are enough for four.
    for id in 1..=3 {
        assert_eq!(nat.push(0, &six(HOST, &embedded(REMOTE), 58, &ping(128, id))).len(), 1);
    }
    assert!(nat.push(0, &six(HOST, &embedded(REMOTE), 58, &ping(128, 9))).is_empty());
    assert!(last_drop(&mut nat).contains(&("no free address or port".to_owned(), 1)));
    assert_eq!(nat.read("mapping_failures"), "1");
}

#[test]
fn errors_are_about_the_packet_as_its_sender_knows_it() {
    let mut nat = Bench::new("NAT64(198.51.100.1 3000-3001, NON_GLOBAL true)");
    let sent = six(HOST, &embedded(REMOTE), 17, &udp(5000, 53));
    let made = nat.push(0, &sent).remove(0).1;
    let port = ports(&made[20..]).0;
    // A router outside says how much fits.
    let error = [&[3, 4, 0, 0, 0, 0, 5, 120][..], &made].concat();
    let (src, dst, m) = six_of(nat.push(1, &four([203, 0, 113, 1], OWN, 1, &error)));
    assert_eq!(
        (src.as_str(), dst.as_str(), &m[..8]),
        ("64:ff9b::cb00:7101", HOST, &[2, 0, m[2], m[3], 0, 0, 5, 140][..])
    );
    let (inner, t) = Ipv6::split(&m[8..]).unwrap();
    assert_eq!((inner.src().to_string(), ports(t)), (HOST.to_owned(), (5000, 53)));
    assert_eq!(t, &sent[40..]);
    // The host says that nobody is there.
    let reply = nat.push(1, &four(REMOTE, OWN, 17, &udp(53, port))).remove(0).1;
    let error = [&[1, 4, 0, 0, 0, 0, 0, 0][..], &reply].concat();
    let (src, dst, m) = four_of(nat.push(0, &six(HOST, &embedded(REMOTE), 58, &error)));
    assert_eq!((src, dst, &m[..2]), (OWN, REMOTE, &[3, 3][..]));
    let (inner, t) = Ipv4::split(&m[8..]).unwrap();
    assert_eq!((inner.src().octets(), inner.dst().octets(), ports(t)), (REMOTE, OWN, (53, port)));
    // About a packet of nobody.
    let foreign = four(OWN, REMOTE, 17, &udp(9, 9));
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &foreign].concat();
    assert!(nat.push(1, &four([203, 0, 113, 1], OWN, 1, &error)).is_empty());
}

#[test]
fn hosts_reach_each_other_by_their_mappings() {
    let mut nat = nat();
    nat.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(5000, 53)));
    let (src, dst, t) = six_of(nat.push(0, &six(OTHER, &embedded(OWN), 17, &udp(6000, 5000))));
    assert_eq!((src.as_str(), dst.as_str(), ports(&t)), ("64:ff9b::c633:6401", HOST, (6000, 5000)));
    let (src, dst, t) = six_of(nat.push(0, &six(HOST, &embedded(OWN), 17, &udp(5000, 6000))));
    assert_eq!((src.as_str(), dst.as_str(), ports(&t)), ("64:ff9b::c633:6401", OTHER, (5000, 6000)));
}

#[test]
fn wrong_addresses_and_kinds_are_dropped() {
    let mut nat = nat();
    for (src, dst) in [
        ("64:ff9b::1.2.3.4", embedded(REMOTE)),
        ("fe80::1", embedded(REMOTE)),
        ("::", embedded(REMOTE)),
        ("ff02::1", embedded(REMOTE)),
        (HOST, "2001:db8::9".to_owned()),
        (HOST, embedded([127, 0, 0, 1])),
        (HOST, embedded([0, 0, 0, 5])),
        (HOST, embedded([224, 0, 0, 1])),
        (HOST, embedded([255, 255, 255, 255])),
    ] {
        assert!(nat.push(0, &six(src, &dst, 17, &udp(5000, 53))).is_empty(), "{src} {dst}");
    }
    for (src, dst) in [(REMOTE, [198, 51, 100, 2]), ([224, 0, 0, 1], OWN), ([0, 0, 0, 1], OWN)] {
        assert!(nat.push(1, &four(src, dst, 17, &udp(53, 5000))).is_empty());
    }
    assert_eq!(last_drop(&mut nat), [("address not to be translated".to_owned(), 12)]);
    assert_eq!(nat.read("size"), "0");
    let mut h = Ipv4::build(REMOTE.into(), OWN.into(), 17, 8);
    h.set_flags_fragment(5);
    h.fill_checksum();
    assert!(nat.push(1, &[&h.bytes()[..], &[0; 8]].concat()).is_empty());
    assert!(nat.push(0, &six(HOST, &embedded(REMOTE), 58, &[133, 0, 0, 0, 0, 0, 0, 0])).is_empty());
}

#[test]
fn there_are_no_more_than_allowed() {
    let mut nat = Bench::new("NAT64(198.51.100.1, CAPACITY 6, HOSTS 2, NON_GLOBAL true)");
    for n in 0..4 {
        nat.push(0, &six(&format!("2001:db8::1:{n}"), &embedded(REMOTE), 17, &udp(5000, 53)));
    }
    for port in 1..5 {
        nat.push(0, &six("2001:db8::1:0", &embedded(REMOTE), 17, &udp(5000, port)));
    }
    assert_eq!((nat.read("size"), nat.read("nhosts")), ("6".into(), "2".into()));
    let drops = last_drop(&mut nat);
    assert!(drops.contains(&("table of hosts full".to_owned(), 2)), "{drops:?}");
    assert!(drops.contains(&("table of flows full".to_owned(), 2)), "{drops:?}");
    nat.write("clear", "");
    assert_eq!((nat.read("size"), nat.read("nmappings")), ("0".into(), "0".into()));
    assert_eq!(nat.push(0, &six("2001:db8::1:0", &embedded(REMOTE), 17, &udp(5000, 1))).len(), 1);
}

/// Neither a host nor whoever sends to its ports uses up what others need.
#[test]
fn a_host_has_no_more_than_its_part() {
    let mut nat = Bench::new("NAT64(198.51.100.1, CAPACITY 100, HOST_CAPACITY 10, NON_GLOBAL true)");
    for port in 5000..5050 {
        nat.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(port, 53)));
    }
    assert_eq!((nat.read("size"), nat.read("nmappings")), ("10".into(), "5".into()));
    let (_, _, t) = four_of(nat.push(0, &six(OTHER, &embedded(REMOTE), 17, &udp(9000, 53))));
    for host in 1..50 {
        nat.push(1, &four([203, 0, 113, host], OWN, 17, &udp(53, ports(&t).0)));
    }
    assert_eq!(nat.read("size"), "20");
    assert_eq!(last_drop(&mut nat), [("too many sessions of one host".to_owned(), 45 + 41)]);
    assert_eq!(four_of(nat.push(0, &six("2001:db8::9", &embedded(REMOTE), 17, &udp(1, 53)))).0, OWN);
}

/// Sessions end, then mappings and numbers of hosts.
#[test]
fn what_is_idle_ends() {
    let config = "e :: NAT64(198.51.100.1, UDP_TIMEOUT 10s, HOSTS 1, NON_GLOBAL true);";
    let mut bench = Bench::simulated(config, 2, 2);
    bench.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(5000, 53)));
    let mut seen = Vec::new();
    for _ in 0..400 {
        bench.turns(4);
        let now = ["nsessions", "nmappings", "nhosts"].map(|h| bench.read(h)).join(" ");
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, ["1 1 1", "0 1 1", "0 0 0"]);
    assert_eq!(bench.push(0, &six(OTHER, &embedded(REMOTE), 17, &udp(5000, 53))).len(), 1);
}

#[test]
fn hot_swaps_keep_sessions() {
    let config = |more: &str| {
        format!(
            "i :: Idle -> [0] nat :: NAT64(198.51.100.1, NON_GLOBAL true{more}); Idle -> [1] nat; nat [0] -> Discard; nat [1] -> Discard;"
        )
    };
    for workers in [1, 2] {
        let options = runtime::Options { hotswap: true, workers, ..runtime::Options::default() };
        let first =
            "InfiniteSource(LIMIT 1) -> UDPIP6Encap(2001:db8::7, 5000, 64:ff9b::192.0.2.9, 53) -> nat;";
        let whole = format!("{} {first}", config(""));
        let mut bench = runtime::testing::Bench::with(&crate::registry(), &whole, 0, 0, options);
        bench.run();
        assert_eq!(bench.read("nat.size"), "2");
        for next in ["", ", UDP_TIMEOUT 1m", ", FILTER true", ""] {
            bench.router().write("hotconfig", &config(next)).unwrap();
            assert_eq!(bench.read("nat.size"), "2", "{next}");
        }
        // Another address has no use for the mappings.
        bench.router().write("hotconfig", &config(", 198.51.100.2")).unwrap();
        assert_eq!(bench.read("nat.size"), "0");
    }
}

/// Whatever comes in on either side, it is sent or counted; what is sent is a packet of the other
/// version, and no limit is passed.
#[test]
fn any_packet_is_survived() {
    let mut x = 0x1357_9bdfu32;
    let mut random = move |n: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as usize % n
    };
    let config = "e :: NAT64(198.51.100.1 1024-1055, CAPACITY 100, HOSTS 4, NON_GLOBAL true);";
    let mut nat = Bench::simulated(config, 2, 2);
    let (mut sent, mut came) = (0, 0);
    for _ in 0..20_000 {
        let mut t: Vec<u8> = (0..random(60))
            .map(|_| [0, 1, 3, 4, 8, 11, 44, 58, 0x45, 0x60, 128, 129, random(256)][random(13)] as u8)
            .collect();
        let side = random(2);
        let made = if side == 0 {
            let host = format!("2001:db8::{}", random(6));
            // Often an error about a packet of a session.
            if random(3) == 0 {
                let inner = six(&embedded(REMOTE), &host, 17, &udp(53, 1024 + random(40) as u16));
                t = [&[1 + random(4) as u8, random(5) as u8, 0, 0, 0, 0, 0, 0][..], &inner].concat();
                six(&host, &embedded(REMOTE), 58, &t)
            } else if random(2) == 0 {
                six(&host, &embedded(REMOTE), 17, &udp(1024 + random(40) as u16, 53))
            } else {
                t.resize(t.len().max(20), 0);
                six(&host, &embedded([192, 0, 2, random(9) as u8]), [6, 17, 58, 0, 44][random(5)], &t)
            }
        } else if random(2) == 0 {
            let inner = four(OWN, REMOTE, 17, &udp(1024 + random(40) as u16, 53));
            t = [&[[3, 11, 12][random(3)], random(5) as u8, 0, 0, 0, 0, 0, 0][..], &inner].concat();
            four(REMOTE, OWN, 1, &t)
        } else {
            t.resize(t.len().max(20), 0);
            four([192, 0, 2, random(9) as u8], OWN, [6, 17, 1, 0, 44][random(5)], &t)
        };
        let mut bytes = made;
        for _ in 0..random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(bytes.len() - usize::from(random(8) == 0) * random(bytes.len()));
        let out = nat.push(side, &bytes);
        sent += 1;
        came += out.len() as u64;
        for (port, bytes) in &out {
            if *port == 1 {
                let (h, t) = Ipv4::split(bytes).unwrap();
                assert!(h.verify_checksum() && usize::from(h.total_len()) == 20 + t.len());
            } else {
                let (h, t) = Ipv6::split(bytes).unwrap();
                assert_eq!((h.version(), usize::from(h.payload_len())), (6, t.len()));
            }
        }
    }
    let read = |nat: &mut Bench, handler: &str| nat.read(handler).parse::<u32>().unwrap();
    assert!(read(&mut nat, "size") <= 100 && read(&mut nat, "nhosts") <= 4);
    assert!(read(&mut nat, "nsessions") > 0);
    // Fragments wait for a while.
    assert!(nat.turns(40).is_empty());
    let dropped: u64 = nat.drops().iter().map(|d| d.1).sum();
    assert!(came + dropped >= sent, "{came} and {dropped} of {sent}");
}

#[test]
fn wrong_arguments_are_errors() {
    for (config, wrong) in [
        ("NAT64()", "POOL"),
        ("NAT64(198.51.100.1 5-4, NON_GLOBAL true)", "first port"),
        ("NAT64(198.51.100.1 0-4, NON_GLOBAL true)", "first port"),
        ("NAT64(224.0.0.1)", "not the address of a host"),
        ("NAT64(198.51.100.1, 198.51.100.1, NON_GLOBAL true)", "twice"),
        ("NAT64(198.51.100.1, PREFIX 64:ff9b::/95, NON_GLOBAL true)", "PREFIX"),
        ("NAT64(198.51.100.1, MTU 1000, NON_GLOBAL true)", "MTU"),
        ("NAT64(198.51.100.1, HOSTS 0, NON_GLOBAL true)", "HOSTS"),
    ] {
        let error = Bench::error(config);
        assert!(error.contains(wrong), "{config}: {error}");
    }
}

/// RFC 6052 section 3.1.
#[test]
fn the_well_known_prefix_reaches_global_addresses_only() {
    const GLOBAL: [u8; 4] = [8, 8, 8, 8];
    let mut strict = Bench::new("NAT64(198.51.100.1)");
    let made = strict.push(0, &six(HOST, &embedded(GLOBAL), 17, &udp(5000, 53))).remove(0).1;
    assert_eq!(of4(&made).0.dst().octets(), GLOBAL);
    for remote in [[10, 0, 0, 1], [172, 16, 0, 1], [192, 168, 1, 1], [100, 64, 0, 1], REMOTE] {
        assert!(strict.push(0, &six(HOST, &embedded(remote), 17, &udp(5000, 53))).is_empty());
        assert!(strict.push(1, &four(remote, OWN, 17, &udp(53, 5000))).is_empty());
    }
    assert_eq!(last_drop(&mut strict), [("address not to be translated".to_owned(), 10)]);
    // Another prefix is the operator's own.
    for other in ["NAT64(198.51.100.1, PREFIX 2001:db8:64::/96)", "NAT64(198.51.100.1, NON_GLOBAL true)"] {
        let mut nat = Bench::new(other);
        let prefix = if other.contains("db8") { "2001:db8:64" } else { "64:ff9b" };
        assert_eq!(nat.push(0, &six(HOST, &format!("{prefix}::10.0.0.1"), 17, &udp(5000, 53))).len(), 1);
    }
}

fn of4(packet: &[u8]) -> (Ipv4<&[u8; 20]>, &[u8]) {
    let (h, t) = Ipv4::split(packet).unwrap();
    assert!(h.verify_checksum() && usize::from(h.total_len()) == packet.len());
    (h, t)
}

/// The fragments of a whole IPv4 packet, `size` bytes in each.
fn pieces4(whole: &[u8], id: u16, size: usize) -> Vec<Vec<u8>> {
    let (h, t) = of4(whole);
    let n = t.len().div_ceil(size);
    let piece = |(i, part): (usize, &[u8])| {
        let mut h4 = Ipv4::build(h.src(), h.dst(), h.protocol(), part.len());
        h4.set_id(id);
        h4.set_flags_fragment((i * size / 8) as u16 | if i + 1 < n { 0x2000 } else { 0 });
        h4.fill_checksum();
        [&h4.bytes()[..], part].concat()
    };
    t.chunks(size).enumerate().map(piece).collect()
}

/// The same of an IPv6 packet.
fn pieces6(whole: &[u8], id: u32, size: usize) -> Vec<Vec<u8>> {
    let (h, t) = Ipv6::split(whole).unwrap();
    let n = t.len().div_ceil(size);
    let piece = |(i, part): (usize, &[u8])| {
        let h6 = Ipv6::build(h.src(), h.dst(), 44, part.len() as u16 + 8);
        let [a, b] = ((i * size) as u16 | u16::from(i + 1 < n)).to_be_bytes();
        [&h6.bytes()[..], &[h.next_header(), 0, a, b], &id.to_be_bytes(), part].concat()
    };
    t.chunks(size).enumerate().map(piece).collect()
}

fn long_udp(sport: u16, dport: u16) -> Vec<u8> {
    let mut t = udp(sport, dport);
    t.extend((0..88u8).map(|n| n.wrapping_mul(37)));
    t[4..6].copy_from_slice(&100u16.to_be_bytes());
    t
}

/// RFC 6146 section 3.4: in any order, and so that what arrives is whole and right.
#[test]
fn fragments_go_where_the_first_one_went() {
    let mut nat = Bench::new("NAT64(198.51.100.1, NON_GLOBAL true)");
    let mut port = 0;
    for (round, order) in [[0, 1, 2, 3], [3, 2, 0, 1], [1, 2, 3, 0]].into_iter().enumerate() {
        let id = (round as u32) << 16 | 0x5678;
        let all6 = pieces6(&six(HOST, &embedded(REMOTE), 17, &long_udp(5000, 53)), id, 32);
        let mut out = Vec::new();
        for (n, at) in order.into_iter().enumerate() {
            out.extend(nat.push(0, &all6[at]));
            assert_eq!(out.len(), if order[..=n].contains(&0) { n + 1 } else { 0 });
        }
        assert_eq!(out.len(), 4);
        let mut whole = [0; 100];
        for (to, bytes) in &out {
            let (h, part) = of4(bytes);
            assert_eq!((*to, h.src().octets(), h.dst().octets(), h.id()), (1, OWN, REMOTE, 0x5678));
            let at = usize::from(h.flags_fragment() & 0x1fff) * 8;
            assert_eq!(h.more_fragments(), at + part.len() < 100);
            whole[at..at + part.len()].copy_from_slice(part);
        }
        port = ports(&whole).0;
        assert_eq!(whole[8..], long_udp(5000, 53)[8..]);
        let h = Ipv4::build(OWN.into(), REMOTE.into(), 17, 100);
        assert_eq!(combine(h.pseudo_sum(100), sum(&whole)), 0xffff);
    }
    // Replies, the first fragment last.
    let mut all4 = pieces4(&four(REMOTE, OWN, 17, &long_udp(53, port)), 77, 32);
    all4.reverse();
    let counts: Vec<usize> = all4.iter().map(|piece| nat.push(1, piece).len()).collect();
    assert_eq!(counts, [0, 0, 0, 4]);
    // Between hosts.
    nat.push(0, &six(OTHER, &embedded(REMOTE), 17, &udp(6000, 53)));
    let mut across = pieces6(&six(HOST, &embedded(OWN), 17, &long_udp(5000, 6000)), 5, 48);
    across.reverse();
    let out: Vec<_> = across.iter().flat_map(|piece| nat.push(0, piece)).collect();
    assert_eq!(out.len(), 3);
    for (to, bytes) in out {
        assert_eq!((to, Ipv6::split(&bytes).unwrap().0.dst().to_string().as_str()), (0, OTHER));
    }
    // A datagram without checksum, of which the rest does not go on alone.
    let mut unchecked = pieces4(&four(REMOTE, OWN, 17, &long_udp(53, port)), 80, 32);
    unchecked[0][26..28].fill(0);
    assert!(unchecked.iter().all(|piece| nat.push(1, piece).is_empty()));
    // One whose first fragment is of no session, and none of another protocol.
    for piece in pieces4(&four(REMOTE, OWN, 17, &long_udp(53, 9)), 78, 32) {
        assert!(nat.push(1, &piece).is_empty());
    }
    let other = pieces4(&four(REMOTE, OWN, 47, &[0; 64]), 79, 32);
    assert!(nat.push(1, &other[1]).is_empty());
    let mut drops = last_drop(&mut nat);
    drops.sort();
    let drops: Vec<_> = drops.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    let want = [("UDP fragment without checksum", 1), ("no mapping", 1), ("not to be translated", 1)];
    assert_eq!(drops, want);
}

#[test]
fn fragments_that_wait_in_vain_are_counted() {
    let config = "e :: NAT64(198.51.100.1, NON_GLOBAL true);";
    let mut nat = Bench::simulated(config, 2, 2);
    for id in 0..300 {
        let all = pieces4(&four(REMOTE, OWN, 17, &long_udp(53, 5000)), id, 32);
        assert!(nat.push(1, &all[1]).is_empty());
    }
    assert_eq!(last_drop(&mut nat), [("too many fragments wait".to_owned(), 44)]);
    nat.turns(40);
    let drops = last_drop(&mut nat);
    assert!(drops.contains(&("no first fragment".to_owned(), 256)), "{drops:?}");
}

#[test]
fn a_wrong_checksum_over_an_error_stays_no_secret() {
    let mut nat = nat();
    let made = nat.push(0, &six(HOST, &embedded(REMOTE), 17, &udp(5000, 53))).remove(0).1;
    let mut error = four([203, 0, 113, 1], OWN, 1, &[&[3, 1, 0, 0, 0, 0, 0, 0][..], &made].concat());
    error[50] ^= 1;
    assert!(nat.push(1, &error).is_empty());
    assert_eq!(last_drop(&mut nat), [("bad ICMP checksum".to_owned(), 1)]);
}
