//! Tests that the fast paths of elements ([`runtime::Step`]) do the same as their general paths.

use dpdk::{Packet, PacketType};
use runtime::{Options, testing::Bench};
use std::fmt::Write;

/// Pseudo-random numbers, the same in two runs from the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// A router's input part, table and output part. Some elements are left out; side outputs are connected
/// or not, or lead back.
fn configuration(random: &mut Random) -> String {
    let mut text = "rt :: Null; Idle -> rt;\n".to_owned();
    let mut sink = 0;
    let mut side = |random: &mut Random, text: &mut String, name: &str, must: bool| {
        if must || !random.one_in(3) {
            sink += 1;
            let _ = match random.one_in(3) {
                true => writeln!(text, "{name}[1] -> ICMPError(10.0.2.1, timeexceeded) -> rt;"),
                false => writeln!(text, "{name}[1] -> BenchOut({sink});"),
            };
        }
    };
    let mut names = vec![];
    let mut declare = |random: &mut Random, text: &mut String, declaration: &str, odds: usize| {
        if random.below(100) >= odds {
            return None;
        }
        let name = if names.is_empty() { "e".to_owned() } else { format!("n{}", names.len()) };
        let _ = writeln!(text, "{name} :: {declaration};");
        names.push(name.clone());
        if random.one_in(12) {
            let null = format!("n{}", names.len());
            let _ = writeln!(text, "{null} :: Null;");
            names.push(null);
        }
        Some(name)
    };
    if let Some(name) = declare(random, &mut text, "HostEtherFilter(2:0:0:0:0:1)", 60) {
        side(random, &mut text, &name, false);
    }
    // The order of the classifier's patterns decides at which output IP packets leave.
    let kinds = ["Classifier(12/0800, 12/0806, -)", "Classifier(12/0806, 0/02 12/0800, -)"];
    let kind = random.below(2);
    let classifier = declare(random, &mut text, kinds[kind], 60);
    if let Some(name) = &classifier {
        let _ = writeln!(text, "{name}[{}] -> BenchOut(80); {name}[2] -> BenchOut(81);", 1 - kind);
    }
    declare(random, &mut text, "Null", 10);
    declare(random, &mut text, "Paint(1)", 70);
    declare(random, &mut text, "Counter", 20);
    if random.one_in(4) {
        declare(random, &mut text, "VLANEncap(5)", 100);
        declare(random, &mut text, "VLANDecap", 90);
    }
    declare(random, &mut text, "SetVLANAnno(7)", 10);
    declare(random, &mut text, "EtherMirror", 20);
    if random.one_in(6) {
        declare(random, &mut text, "Unstrip(2)", 100);
        declare(random, &mut text, "Strip(2)", 100);
    }
    declare(random, &mut text, "Strip(14)", 100);
    let check = random.pick(&[
        "CheckIPHeader",
        "CheckIPHeader2",
        "CheckIPHeader(BADSRC 10.0.0.7 10.0.2.255)",
        "CheckIPHeader(INTERFACES 10.0.0.1/24, DETAILS true)",
    ]);
    if let Some(name) = declare(random, &mut text, check, 95) {
        side(random, &mut text, &name, false);
    }
    declare(random, &mut text, "MarkIPHeader", 20);
    declare(random, &mut text, "SetIPDSCP(3)", 20);
    declare(random, &mut text, "IPFilter(allow udp && ip ttl > 1, deny all)", 20);
    if let Some(name) = declare(random, &mut text, "IPClassifier(src 10.0.0.0/30, -)", 25) {
        let _ = writeln!(text, "{name}[1] -> BenchOut(82);");
    }
    declare(random, &mut text, "Align(4, 2)", 15);
    if let Some(name) = declare(random, &mut text, "StoreIPAddress(10.0.0.3, src)", 15) {
        side(random, &mut text, &name, false);
    }
    declare(random, &mut text, "SetIPChecksum", 15);
    let switch = random.pick(&["StaticSwitch(0)", "StaticSwitch(0)", "StaticSwitch(-1)"]);
    declare(random, &mut text, switch, 10);
    declare(random, &mut text, "SetIPAddress(10.0.0.9)", 10);
    let address = random.pick(&["GetIPAddress(16)", "GetIPAddress(IP src)"]);
    declare(random, &mut text, address, 60);
    let table =
        declare(random, &mut text, "RadixIPLookup(10.0.0.0/9 0, 10.128.0.0/9 10.0.2.9 0, 0.0.0.0/0 1)", 100);
    let table = table.unwrap_or_default();
    let _ = writeln!(text, "rt -> {table}; {table}[1] -> BenchOut(90);");
    if let Some(name) = declare(random, &mut text, "DropBroadcasts", 80) {
        side(random, &mut text, &name, false);
    }
    if let Some(name) = declare(random, &mut text, "PaintTee(2)", 80) {
        side(random, &mut text, &name, true);
    }
    if let Some(name) = declare(random, &mut text, "IPGWOptions(10.0.2.1)", 85) {
        side(random, &mut text, &name, false);
    }
    declare(random, &mut text, "FixIPSrc(10.0.2.1)", 85);
    let ttl = random.pick(&["DecIPTTL", "DecIPTTL", "DecIPTTL(MULTICAST false)"]);
    if let Some(name) = declare(random, &mut text, ttl, 90) {
        side(random, &mut text, &name, false);
    }
    let fragmenter = random.pick(&["IPFragmenter(60)", "IPFragmenter(1500)", "IPFragmenter(44, false)"]);
    if let Some(name) = declare(random, &mut text, fragmenter, 85) {
        side(random, &mut text, &name, false);
    }
    let link = random.pick(&[
        "ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1)",
        "ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1, CAPACITY 20)",
        "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)",
    ]);
    if let Some(name) = declare(random, &mut text, link, 85)
        && link.starts_with("ARP")
    {
        let _ = writeln!(text, "arp :: Null -> [1]{name}; Idle -> arp;");
        if random.one_in(2) {
            let _ = writeln!(text, "{name}[1] -> BenchOut(91);");
        }
    }
    declare(random, &mut text, "Counter", 20);
    let mut line = names.join(" -> ");
    if let Some(name) = classifier.filter(|_| kind == 1) {
        line = line.replacen(&format!("{name} ->"), &format!("{name} [1] ->"), 1);
    }
    let _ = writeln!(text, "{line} -> BenchOut(0);");
    text
}

/// A frame, which is correct in most cases.
fn frame(random: &mut Random) -> Packet {
    let options: Vec<u8> = match random.below(12) {
        0 => vec![7, 7, 4, 0, 0, 0, 0, 0],
        1 => vec![1, 7, 2, 0],
        2 => vec![1, 1, 1, 0],
        _ => vec![],
    };
    let payload: Vec<u8> = (0..random.below(60)).map(|i| i as u8).collect();
    let own = [2, 0, 0, 0, 0, 1];
    let mut bytes = [own, own, own, own, [0xff; 6], [2, 0, 0, 0, 0, 7]][random.below(6)].to_vec();
    bytes.extend([2, 0, 0, 0, 0, 2, 8, [0, 0, 0, 0, 0, 6, 9][random.below(7)]]);
    bytes.extend(crate::ip::engine::header::sample::ip_with(&options, &payload, |h| {
        h.set_ttl([64, 64, 64, 64, 2, 1, 0][random.below(7)]);
        h.set_flags_fragment([0, 0, 0, 0x4000, 0x2000][random.below(5)]);
        h.set_src([10, 0, 0, random.below(9) as u8].into());
        let to = [[10, 1, 0, 3], [10, 200, 0, 1], [192, 0, 2, 1], [10, 0, 2, 255], [10, 1, 0, 4]];
        h.set_dst(to[random.below(5)].into());
    }));
    if random.one_in(15) {
        let at = random.below(bytes.len());
        bytes[at] = random.below(256) as u8;
    }
    if random.one_in(20) {
        bytes.truncate(random.below(bytes.len()));
    }
    bytes.extend(vec![0; random.below(2) * random.below(9)]);
    let mut packet = Packet::from_bytes(&bytes).unwrap();
    let anno = packet.anno_mut();
    anno.set_paint([0, 0, 0, 2][random.below(4)]);
    anno.set_fix_ip_src(random.one_in(9));
    anno.set_packet_type(match random.below(14) {
        0 => PacketType::Broadcast,
        1 => PacketType::Multicast,
        _ => PacketType::Host,
    });
    packet
}

/// The bytes without the identification of ICMP errors, which are numbered over all routers of a process.
fn unnumbered(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in [0, 14] {
        if bytes.get(at + 9) == Some(&1) && bytes.get(at + 12..at + 16) == Some(&[10, 0, 2, 1]) {
            bytes[at + 4..at + 6].fill(0);
            bytes[at + 10..at + 12].fill(0);
        }
    }
    bytes
}

/// Everything that is visible from outside: the values of all handlers, and the counters of all elements.
fn visible_state(bench: &mut Bench) -> Vec<String> {
    let router = bench.router();
    let mut found = Vec::new();
    let mut handlers = Vec::new();
    for e in router.elements() {
        let totals = e.totals();
        found.push(format!("{} {} {} {:?}", e.name, totals.packets, totals.emitted, totals.drops));
        handlers.extend(e.handlers.iter().filter(|h| h.readable()).map(|h| format!("{}.{}", e.name, h.name)));
    }
    found.extend(handlers.iter().map(|h| format!("{h} {:?}", router.read(h, ""))));
    found
}

/// Compares the results of the same configuration, packets and handler calls with and without fast paths.
fn compare(seed: u64, batch_size: usize) {
    let mut random = Random(seed);
    let config = configuration(&mut random);
    let registry = crate::registry();
    let options = |optimize| Options { optimize, batch_size, simulated_time: true, ..Options::default() };
    let mut plain = Bench::with(&registry, &config, 1, 0, options(false));
    let mut fast = Bench::with(&registry, &config, 1, 0, options(true));
    for round in 0..8 {
        let n = 1 + random.below(batch_size);
        let again = random.0;
        let frames = || {
            let mut random = Random(again);
            (0..n).map(|_| frame(&mut random)).collect::<Vec<_>>()
        };
        let (a, b) = (plain.send_batch(0, frames()), fast.send_batch(0, frames()));
        let seen = |out: &[(usize, Packet)]| -> Vec<_> {
            out.iter().map(|(port, p)| (*port, unnumbered(p.data()), *p.anno(), p.headroom())).collect()
        };
        let (a, b) = (seen(&a), seen(&b));
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(a, b, "seed {seed}, round {round}:\n{config}");
        }
        assert_eq!(a.len(), b.len(), "seed {seed}, round {round}:\n{config}");
        for (a, b) in visible_state(&mut plain).iter().zip(visible_state(&mut fast)) {
            assert_eq!(*a, b, "seed {seed}, round {round}:\n{config}");
        }
        let name = format!("n{}", random.below(14));
        for (handler, value) in [
            ("color", "2"),
            ("active", "false"),
            ("active", "true"),
            ("insert", "10.1.0.3 2:0:0:0:0:9"),
            ("insert", "10.0.2.9 2:0:0:0:0:8"),
            ("delete", "10.1.0.3"),
            ("dst", "2:0:0:0:0:7"),
        ] {
            if random.one_in(2) {
                let written = [&mut plain, &mut fast]
                    .map(|b| b.try_write(&format!("{name}.{handler}"), value).map_err(|e| e.to_string()));
                assert_eq!(written[0], written[1]);
            }
        }
    }
}

#[test]
fn fast_and_general_paths_do_the_same() {
    for seed in 0..160 {
        compare(seed * 7919 + 1, [2, 7, 32, 64][seed as usize % 4]);
    }
}

#[test]
fn the_fast_path_is_that_of_the_class_and_not_of_its_name() {
    use crate::prelude::*;

    /// Has the name of a class that has a fast path, but none itself.
    struct Named;

    impl Element for Named {
        const CLASS: &'static str = "Strip";
        const SHARING: Sharing = Sharing::PerWorker;
        const MANUAL: &'static str = "";
        fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
            args.mp::<u32>("LENGTH").map(|_| Self)
        }
    }
    impl Simple for Named {
        fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
            Some(packet)
        }
    }

    let mut registry = crate::registry();
    registry.alias("Shorten", "Strip");
    registry.add(runtime::simple::<Named>());
    let options = Options { optimize: true, ..Options::default() };
    let left = |class: &str| {
        let mut bench =
            Bench::with(&registry, &format!("e :: {class}(14) -> BenchOut(0);"), 1, 0, options.clone());
        bench.push(0, &[0; 40])[0].1.len()
    };
    assert_eq!((left("Shorten"), left("Strip")), (26, 40));
}

#[test]
fn elements_keep_their_state_when_one_is_put_between_them() {
    let config = |between: &str| {
        format!("e :: Strip(14) -> c :: CheckIPHeader {between} -> GetIPAddress(16) -> d :: Discard;")
    };
    let options = Options { optimize: true, batch_size: 32, hotswap: true, ..Options::default() };
    let mut bench = Bench::with(&crate::registry(), &config(""), 1, 0, options);
    bench.push(0, &[0; 40]);
    let in0 = "bench_caught :: BenchCaught; in0 :: BenchIn;";
    for between in ["-> n :: Null", ""] {
        let text = format!("{in0} {} in0 -> e;", config(between));
        let swapped = bench.router().hotswap(lang::Source::new("bench", text));
        let problem = swapped.err().map(|d| d.render_plain(d.sources()));
        assert_eq!(problem, None);
        bench.push(0, &[0; 40]);
    }
    assert_eq!((bench.read("c.drops"), bench.read("d.count")), ("3".to_owned(), "0".to_owned()));
}
