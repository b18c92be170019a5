//! Classes read and write no more of a packet than they declare. The test changes everything that a class
//! does not read, and the result must be the same; what the class does not write must leave unchanged; what
//! it sets must not depend on the earlier value.

use dpdk::{Anno, PacketType};
use lang::{LoadOptions, Source};
use runtime::testing::Bench;
use runtime::{Class, Fields, Options, Packet, Registry};
use std::path::Path;

/// A small random number generator with the same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// The bytes of a packet, and the offsets of its network and transport header.
type Kind = (Vec<u8>, usize, usize);

fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let addresses = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::Ipv4Addr::from);
    let header = wire::Ipv4::build(addresses[0], addresses[1], protocol, payload.len());
    let mut bytes = header.bytes().to_vec();
    wire::ipv4::fill_header(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn kinds() -> Vec<Kind> {
    let udp = ip(
        17,
        &[
            0, 7, 0, 7, 0, 30, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            21, 22,
        ],
    );
    let echo = ip(1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    let front = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[8, 0]].concat();
    let arp = [
        &[0xff; 6][..],
        &[
            2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0,
            10, 0, 0, 1,
        ],
        &[0; 18],
    ];
    vec![
        (udp.clone(), 0, 20),
        (echo, 0, 20),
        ([front, udp].concat(), 14, 34),
        (arp.concat(), 14, 14),
        (vec![0x45; 10], 0, 0),
    ]
}

/// A packet whose fields in `reads` are the same in each run, and whose other fields are random.
fn packet((bytes, network, transport): &Kind, reads: Fields, random: &mut Random) -> Packet {
    let mut packet = Packet::from_bytes(bytes).unwrap();
    let mut any = |field: Fields, usual: usize, below: usize| {
        let other = random.below(below);
        if reads.meets(field) { usual } else { other }
    };
    let network = any(Fields::NETWORK_HEADER, *network, transport + 1);
    let transport = any(Fields::TRANSPORT_HEADER, *transport, bytes.len() + 1).max(network);
    packet.set_network_header(network, transport - network);
    packet.set_mac_header(any(Fields::MAC_HEADER, 0, bytes.len()));
    let anno = packet.anno_mut();
    for at in 0..Anno::USER_LEN {
        let usual = [10, 0, 0, 2].get(at).copied().unwrap_or(usize::from(at == 16));
        anno.user[at] = any(Fields::user(at, 1), usual, 256) as u8;
    }
    anno.timestamp_ns = any(Fields::TIMESTAMP, 1_000_000_000_000_000_000, 1 << 30) as u64;
    anno.set_packet_type(
        [PacketType::Host, PacketType::OtherHost, PacketType::Broadcast, PacketType::Outgoing]
            [any(Fields::PACKET_TYPE, 0, 4)],
    );
    anno.device = any(Fields::DEVICE, 0, 200) as u8;
    packet
}

/// The fields that a class must not change: all that it does not declare as written.
fn kept(packet: &Packet, writes: Fields) -> (Vec<u8>, Vec<Option<isize>>) {
    let anno = packet.anno();
    let mut known: Vec<u8> = (0..Anno::USER_LEN)
        .filter(|at| !writes.meets(Fields::user(*at, 1)))
        .map(|at| anno.user[at])
        .collect();
    if !writes.meets(Fields::TIMESTAMP) {
        known.extend(anno.timestamp_ns.to_be_bytes());
    }
    if !writes.meets(Fields::PACKET_TYPE) {
        known.push(anno.packet_type() as u8);
    }
    if !writes.meets(Fields::DEVICE) {
        known.push(anno.device);
    }
    let mut places = Vec::new();
    if !writes.meets(Fields::DATA) {
        known.extend_from_slice(packet.data());
        places = marks(packet, writes);
    }
    (known, places)
}

/// The offsets of the headers, except those that the class writes.
fn marks(packet: &Packet, writes: Fields) -> Vec<Option<isize>> {
    let headers = [
        (Fields::MAC_HEADER, packet.mac_header_offset()),
        (Fields::NETWORK_HEADER, packet.network_header_offset()),
        (Fields::TRANSPORT_HEADER, packet.transport_header_offset()),
    ];
    headers.iter().filter(|(field, _)| !writes.meets(*field)).map(|(_, at)| *at).collect()
}

/// The class as the first example of its manual declares it, and the elements that it may refer to.
fn declaration(registry: &Registry, class: &Class) -> Option<String> {
    let manual = class.manual();
    let example = manual.split("```click\n").nth(1)?.split("```").next()?;
    let config = lang::load(&[Source::new(class.name, example)], &LoadOptions::default(), registry).ok()?;
    let element = config.elements.iter().find(|e| e.class == class.name)?;
    let others = config.elements.iter().filter(|e| registry.get(&e.class).is_some_and(|c| c.ports == "0/0"));
    let others: String = others.map(|e| format!("; {} :: {}({})", e.name, e.class, e.config)).collect();
    Some(format!("e :: {}({}){others}", class.name, element.config))
}

/// The results of an element: packets by port and bytes, and drops; or the errors in the packets that it has
/// kept.
fn run(
    registry: &Registry,
    class: &Class,
    declaration: &str,
    seed: u64,
) -> Option<(Vec<String>, Vec<String>)> {
    let options = Options { simulated_time: true, ..Options::default() };
    let mut bench = Bench::attempt(registry, declaration, 2, options).ok()?;
    let (mut out, mut wrong, mut random) = (Vec::new(), Vec::new(), Random(seed));
    let mut before = Vec::new();
    for kind in kinds().iter().chain(&kinds()) {
        let packet = packet(kind, class.reads, &mut random);
        before.push(kept(&packet, class.writes));
        for (port, mut packet) in bench.send(0, packet) {
            // The packet may have waited.
            let after = kept(&packet, class.writes);
            if !before.contains(&after) {
                wrong.push(format!("{} writes more than it says: {before:?} became {after:?}", class.name));
            }
            // The identifications of new packets are numbered over the whole process.
            if packet.data().first() == Some(&0x45) && packet.len() >= 20 {
                [4, 5, 10, 11].iter().for_each(|at| packet.data_mut()[*at] = 0);
            }
            out.push(format!("{port} {:02x?}", packet.data()));
            if port == 0 {
                // What the class sets does not depend on the earlier value.
                let others = Fields::ALL.without(class.sets);
                out.push(format!("set: {:?} {:?}", kept(&packet, others), marks(&packet, others)));
            }
        }
    }
    out.push(format!("{:?}", bench.drops()));
    Some((out, wrong))
}

#[test]
fn classes_read_and_write_what_they_say() {
    let registry = elements::registry();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/click");
    let (mut tried, mut wrong) = (0, Vec::new());
    for class in registry.iter() {
        assert!(
            class.writes.without(Fields::DATA).holds(class.sets),
            "{} sets what it does not write",
            class.name
        );
        let device = root.join("devices").join(format!("{}.clicktest", class.name.to_lowercase())).exists();
        if device || class.ports.starts_with("0/") || class.processing.starts_with('l') {
            continue;
        }
        let Some(declaration) = declaration(&registry, class) else { continue };
        let runs: Vec<_> = (1..5).filter_map(|seed| run(&registry, class, &declaration, seed)).collect();
        let Some((first, more)) = runs.split_first() else { continue };
        tried += 1;
        wrong.extend(first.1.first().cloned());
        if class.reads != Fields::ALL
            && let Some(other) = more.iter().find(|other| other.0 != first.0)
        {
            let at = first.0.iter().zip(&other.0).position(|(a, b)| a != b).unwrap_or(0);
            wrong.push(format!(
                "{} reads more than it says, or sets less:\n{}\n{}",
                class.name, first.0[at], other.0[at]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 80, "only {tried} classes tried");
}

#[test]
fn what_is_not_live_has_no_effect_on_a_router() {
    let config = "e :: HostEtherFilter(2:0:0:0:0:1) -> c :: Classifier(12/0800, -) -> Paint(1) -> Strip(14)
            -> check :: CheckIPHeader -> get :: GetIPAddress(16) -> rt :: StaticIPLookup(10.0.0.2/32 0, 0/0 1)
            -> bcast :: DropBroadcasts -> tee :: PaintTee(1) -> fix :: FixIPSrc(10.0.0.9) -> ttl :: DecIPTTL
            -> frag :: IPFragmenter(44) -> encap :: EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)
            -> again :: CheckPaint(1) -> end :: Discard;
        c [1] -> other :: PaintSwitch; other [0] -> Discard; other [1] -> x :: Counter -> Discard;
        rt [1] -> Discard; tee [1] -> copies :: Counter -> Discard;";
    let registry = elements::registry();
    let graph = lang::load(&[Source::new("t", config)], &LoadOptions::default(), &registry).unwrap();
    let live = runtime::live_annotations(&graph, &registry);
    let number = |name: &str| graph.elements.iter().position(|e| e.name == name).unwrap();
    let into = |name: &str| {
        let to = number(name);
        graph.connections.iter().position(|c| c.to.element == to).map(|n| live[n]).unwrap()
    };
    // Paint may be written anywhere in the user area; PaintSwitch may read any of it.
    assert_eq!(into("c"), Fields::USER | Fields::PACKET_TYPE | Fields::FIX_IP_SRC);
    assert_eq!(into("get").only(Fields::IP_HEADERS), Fields::IP_HEADERS);
    assert_eq!(into("check").only(Fields::HEADERS), Fields::NONE, "it sets two, and nobody reads the third");
    assert_eq!((into("encap"), into("end")), (Fields::USER, Fields::NONE));

    let first = Fields::DATA | Fields::USER;
    assert!(into("c").holds(first.only(Fields::ANNOTATIONS)));
    let outcome = |fixed: Fields, seed: u64| {
        let options = Options { simulated_time: true, ..Options::default() };
        let mut bench = Bench::with(&registry, config, 1, 0, options);
        let mut random = Random(seed);
        for kind in kinds() {
            bench.send(0, packet(&kind, fixed, &mut random));
        }
        let totals =
            bench.router().elements().iter().map(|e| (e.name.clone(), e.totals().emitted, e.totals().drops));
        totals.collect::<Vec<_>>()
    };
    let one = outcome(first, 1);
    assert!(one.iter().any(|(name, emitted, _)| name == "frag" && *emitted > 0), "{one:?}");
    (2..20).for_each(|seed| assert_eq!(outcome(first, seed), one, "seed {seed}"));
    assert!((2..20).any(|seed| outcome(Fields::DATA, seed) != one), "paint is live, and has an effect");
}
