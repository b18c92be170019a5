//! Tests of several elements of a node together.

use crate::testing::Bench;
use cluster::{MacCode, NodeId, Phase, SourceCode};
use runtime::{Options, Packet};
use std::collections::{BTreeMap, BTreeSet};

const NODES: u16 = 4;

type Node = runtime::testing::Bench;

/// A node around `elements`, with batches of the usual size.
fn node(elements: &str, inputs: usize, outputs: usize) -> Node {
    let options = Options { simulated_time: true, batch_size: 64, ..Options::default() };
    Node::with(&crate::registry(), elements, inputs, outputs, options)
}

/// A node's switch with its links.
fn switch(number: u16, more: &str) -> Node {
    let config =
        format!("c :: ClusterInfo(NODE {number}, NODES {NODES}, RATE 1Gbps{more}); e :: ClusterSwitch(c);");
    node(&config, 2, NODES.into())
}

fn address(node: u16, phase: Phase) -> [u8; 6] {
    MacCode { node: NodeId(node), port: 1, next_hop: 7, phase }.encode().unwrap()
}

/// A UDP packet of flow `flow` from node `from` for node `to`, as ClusterEncap makes it.
fn frame(from: u16, to: u16, flow: u16) -> Vec<u8> {
    let source = SourceCode { node: NodeId(from), number: 0 }.encode().unwrap();
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 1, 10, 0, 2, 2];
    let ports = flow.to_be_bytes();
    [&address(to, Phase::Direct)[..], &source, &[8, 0], &ip, &ports, &[0, 53, 0, 8, 0, 0]].concat()
}

fn reasons(bench: &mut Node) -> BTreeMap<String, u64> {
    bench.drops().into_iter().collect()
}

fn json(bench: &mut Node, handler: &str) -> serde_json::Value {
    serde_json::from_str(&bench.read(handler)).unwrap()
}

#[test]
fn encap_writes_node_port_and_next_hop() {
    let config = |net: &str| {
        format!(
            "c :: ClusterInfo(NODE 5, NODES 9, RATE 1Gbps); e :: ClusterEncap(c, NODE 8, PORT 3, NET {net});"
        )
    };
    let mut bench = node(&config("10.1.0.0/16"), 2, 1);
    let to = |next_hop: [u8; 4]| {
        let mut packet = Packet::from_bytes(&[0x45, 1, 2]).unwrap();
        packet.set_dst_ip(next_hop);
        packet
    };
    let out = bench.send(0, to([10, 1, 2, 3]));
    assert_eq!(out[0].1.data(), [0xc2, 0, 8, 3, 2, 3, 0xc6, 0, 0x50, 0, 0, 0, 8, 0, 0x45, 1, 2]);
    assert_eq!(out[0].1.mac_header_offset(), Some(0));
    // Without headroom the packet is copied to another place.
    let mut tight = Packet::alloc(4, 20).unwrap();
    tight.set_dst_ip([10, 1, 255, 255]);
    assert_eq!(bench.send(0, tight)[0].1.data()[..6], [0xc2, 0, 8, 3, 255, 255]);
    for next_hop in [[0; 4], [10, 2, 0, 1], [255; 4], [224, 0, 0, 1]] {
        assert!(bench.send(0, to(next_hop)).is_empty());
    }
    assert!(bench.send(1, to([10, 1, 2, 3])).is_empty());
    let wanted = [("next hop outside of the network", 3), ("no ARP in the cluster", 1), ("no next hop", 1)];
    assert_eq!(reasons(&mut bench), wanted.map(|(r, n)| (r.to_owned(), n)).into());
    assert_eq!(
        (bench.read("node"), bench.read("port"), bench.read("net")),
        ("8".into(), "3".into(), "10.1.0.0/16".into())
    );
    // The address of a single host: the only next hop of its network.
    let mut bench = node(&config("10.1.2.3/32"), 1, 1);
    assert_eq!(bench.send(0, to([10, 1, 2, 3]))[0].1.data()[..6], [0xc2, 0, 8, 3, 0, 0]);
}

#[test]
fn decap_undoes_encap_for_every_network() {
    for (net, base) in [
        ("10.1.0.0/16", [10, 1]),
        ("10.1.0.0/17", [10, 1]),
        ("10.1.4.0/22", [10, 1]),
        ("10.1.5.0/24", [10, 1]),
    ] {
        let config = format!(
            "c :: ClusterInfo(NODE 1, NODES 2, RATE 1Gbps); n :: ClusterEncap(c, NODE 1, PORT 1, NET {net}) -> e :: ClusterDecap(c, 192.168.0.0/30, {net}); in :: Idle -> n;"
        );
        let mut bench = node(&config, 0, 2);
        for host in (0..=u16::MAX).step_by(97) {
            let [high, low] = host.to_be_bytes();
            let next_hop = [base[0], base[1], high, low];
            let mut packet = Packet::from_bytes(b"ip").unwrap();
            packet.set_dst_ip(next_hop);
            bench.router().inject("n", 0, [packet].into_iter().collect());
            let out = bench.take();
            let mask = u32::MAX << (32 - net.rsplit_once('/').unwrap().1.parse::<u32>().unwrap());
            let network: std::net::Ipv4Addr = net.rsplit_once('/').unwrap().0.parse().unwrap();
            let inside = u32::from_be_bytes(next_hop) & mask == u32::from(network);
            let got: Vec<_> = out.iter().map(|(port, p)| (*port, p.data(), p.dst_ip())).collect();
            let wanted = if inside { vec![(1, &b"ip"[..], next_hop)] } else { vec![] };
            assert_eq!(got, wanted, "{net} {next_hop:?}");
        }
    }
}

#[test]
fn decap_refuses_what_is_not_its_own() {
    let config =
        "c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); e :: ClusterDecap(c, 10.0.1.0/24, 10.0.2.0/24);";
    let mut bench = node(config, 1, 2);
    let of = |code: MacCode| [&code.encode().unwrap()[..], &[0; 8]].concat();
    let good = MacCode { node: NodeId(1), port: 1, next_hop: 255, phase: Phase::Second };
    assert_eq!(bench.push(0, &of(good)), [(1, vec![])]);
    for (bytes, reason) in [
        (of(MacCode { port: 2, ..good }), "no such port"),
        (of(MacCode { next_hop: 256, ..good }), "next hop outside of the network"),
        (of(MacCode { node: NodeId(2), ..good }), "not for this node"),
        (of(MacCode { node: NodeId(4), ..good }), "no such node"),
        ([&[0xc2, 0x80][..], &[0; 12]].concat(), "another version"),
        (vec![2; 14], "not an internal address"),
        (of(good)[..13].to_vec(), "frame too short"),
        (vec![0xc2; 5], "frame too short"),
        (vec![], "frame too short"),
    ] {
        let before = reasons(&mut bench).get(reason).copied().unwrap_or(0);
        assert!(bench.push(0, &bytes).is_empty());
        assert_eq!(reasons(&mut bench).get(reason), Some(&(before + 1)), "{reason}");
    }
    assert_eq!(bench.read("nets"), "10.0.1.0/24\n10.0.2.0/24\n");
}

#[test]
fn little_traffic_goes_directly() {
    let mut bench = switch(0, "");
    for to in 1..NODES {
        assert_eq!(bench.push(0, &frame(0, to, 9)), [(to.into(), frame(0, to, 9))]);
    }
    // For this node itself.
    assert_eq!(bench.push(0, &frame(0, 0, 9)), [(0, frame(0, 0, 9))]);
    let row = |to| format!("{to} 1 42 0 0 0 0\n");
    assert_eq!(bench.read("c.matrix"), (0..4).map(row).collect::<String>());
    assert_eq!(bench.read("c.work"), "input 4 168\ntransit 0 0\noutput 1 42\nc 2.000\n");
}

#[test]
fn only_own_packets_are_taken_from_here() {
    let mut bench = switch(0, "");
    let version = [&[0xc2, 0x40][..], &frame(0, 1, 1)[2..]].concat();
    for (bytes, reason) in [
        (frame(1, 2, 1), "not made by this node"),
        ([&[2; 12][..], &frame(0, 1, 1)[12..]].concat(), "not an internal address"),
        (version, "another version"),
        (frame(0, NODES, 1), "no such node"),
        (frame(0, 1, 1)[..11].to_vec(), "frame too short"),
    ] {
        assert!(bench.push(0, &bytes).is_empty());
        assert_eq!(reasons(&mut bench).get(reason), Some(&1), "{reason}");
    }
    // A batch with all cases: the good packets are forwarded, in order.
    let mixed = [frame(0, 1, 1), frame(3, 1, 1), frame(0, 2, 1), vec![], frame(0, 1, 2), frame(0, 0, 5)];
    let out = bench.send_batch(0, mixed.iter().map(|f| Packet::from_bytes(f).unwrap()).collect());
    let got: Vec<_> = out.iter().map(|(port, p)| (*port, p.data().to_vec())).collect();
    assert_eq!(got, [(1, frame(0, 1, 1)), (1, frame(0, 1, 2)), (2, frame(0, 2, 1)), (0, frame(0, 0, 5))]);
}

#[test]
fn links_bring_frames_for_here_and_for_others() {
    let mut bench = switch(1, "");
    let of = |node, phase| [&address(node, phase)[..], &[1, 2, 3, 4, 5, 6, 7]].concat();
    for (node, phase, wanted) in [
        (1, Phase::Direct, Ok((1, Phase::Direct))),
        (1, Phase::Second, Ok((1, Phase::Second))),
        (1, Phase::First, Ok((1, Phase::Second))),
        (2, Phase::First, Ok((2, Phase::Second))),
        (0, Phase::First, Ok((0, Phase::Second))),
        (2, Phase::Direct, Err("not for this node")),
        (3, Phase::Second, Err("not for this node")),
        (NODES, Phase::First, Err("no such node")),
    ] {
        let before = reasons(&mut bench);
        let out = bench.push(1, &of(node, phase));
        match wanted {
            Ok((port, phase)) => assert_eq!(out, [(port, of(node, phase))]),
            Err(reason) => {
                assert!(out.is_empty());
                let (after, before) = (reasons(&mut bench), before.get(reason).copied().unwrap_or(0));
                assert_eq!(after.get(reason), Some(&(before + 1)), "{reason}");
            }
        }
    }
    assert!(bench.push(1, &of(2, Phase::First)[..11]).is_empty());
    assert!(bench.push(1, b"an ordinary frame").is_empty());
    assert_eq!(
        (reasons(&mut bench)["frame too short"], reasons(&mut bench)["not an internal address"]),
        (1, 1)
    );
    assert_eq!(bench.read("c.work"), "input 0 0\ntransit 2 26\noutput 3 39\nc 3.333\n");
}

/// Four nodes in a full mesh, whose links deliver frames at once.
fn mesh(more: &str) -> Vec<Node> {
    (0..NODES).map(|node| switch(node, more)).collect()
}

/// Follows frames from a node to the node where they leave; returns (output node, links used, bytes).
fn carry(nodes: &mut [Node], from: u16, frames: Vec<Vec<u8>>) -> Vec<(usize, u32, Vec<u8>)> {
    let mut arrived = Vec::new();
    for bytes in frames {
        let (mut at, mut port, mut hops, mut bytes) = (usize::from(from), 0, 0, bytes);
        loop {
            let mut out = nodes[at].push(port, &bytes);
            let Some((to, next)) = out.pop() else { break };
            assert!(out.is_empty());
            if to == at {
                arrived.push((at, hops, next));
                break;
            }
            (at, port, hops, bytes) = (to, 1, hops + 1, next);
        }
    }
    arrived
}

#[test]
fn every_packet_arrives_over_two_links_at_most() {
    let mut nodes = mesh(", MODE valiant, DELTA 0");
    let frames: Vec<_> = (0..400).map(|flow| frame(0, 2, flow)).collect();
    let arrived = carry(&mut nodes, 0, frames.clone());
    assert_eq!(arrived.len(), 400);
    for ((node, hops, bytes), sent) in arrived.iter().zip(&frames) {
        let phase = if *hops == 1 { Phase::Direct } else { Phase::Second };
        assert!((1..=2).contains(hops) && *node == 2);
        assert_eq!((&bytes[..6], &bytes[6..]), (&address(2, phase)[..], &sent[6..]));
    }
    // Half of the packets go directly: this node and the output node are two of four.
    let (mut c, status) = (0.0, json(&mut nodes[0], "c.status"));
    let packets = |v: &serde_json::Value| v["packets"].as_u64().unwrap();
    let row = &status["matrix"]["to"][2];
    assert_eq!(packets(&row["direct"]) + packets(&row["via_intermediate"]), 400);
    assert!((150..=250).contains(&packets(&row["direct"])), "{row}");
    for via in [1, 3] {
        let over = packets(&status["matrix"]["to"][via]["over"]);
        let transit = packets(&json(&mut nodes[via], "c.status")["matrix"]["to"][2]["transit"]);
        assert_eq!(over, transit);
        assert!((60..=140).contains(&over), "{over}");
    }
    for node in &mut nodes {
        c += json(node, "c.status")["work"]["transit"]["packets"].as_f64().unwrap();
    }
    assert_eq!(c as u64, packets(&row["via_intermediate"]));
    assert_eq!(packets(&json(&mut nodes[2], "c.matrix_json")["delivered"]), 400);
}

#[test]
fn a_flow_keeps_its_way() {
    let mut nodes = mesh(", MODE valiant");
    let mut first = |flow| nodes[0].push(0, &frame(0, 2, flow))[0].0;
    let outputs: Vec<usize> = (0..50).map(&mut first).collect();
    assert!([1, 2, 3].iter().all(|link| outputs.contains(link)), "{outputs:?}");
    assert_eq!((0..50).map(&mut first).collect::<Vec<_>>(), outputs);
    assert_eq!(nodes[0].read("c.flowlets"), "started 50\nkept 50\nmoved 0\nreturned 0\nspilled 0\n");
}

#[test]
fn the_hash_of_a_network_card_is_the_flow() {
    let outputs = |hash: &dyn Fn(u16) -> u32, flow: &dyn Fn(u16) -> u16| -> BTreeSet<usize> {
        let mut bench = switch(0, ", MODE valiant");
        let packet = |n| {
            let mut packet = Packet::from_bytes(&frame(0, 2, flow(n))).unwrap();
            packet.set_rss_hash(hash(n));
            packet
        };
        (0..50).map(|n| bench.send(0, packet(n))[0].0).collect()
    };
    assert_eq!(outputs(&|_| 77, &|n| n).len(), 1);
    assert_eq!(outputs(&|n| n.into(), &|_| 5).len(), 3);
}

#[test]
fn what_is_dead_is_gone_around() {
    let mut nodes = mesh(", MODE valiant, DELTA 0");
    nodes[0].write("c.node_down", "1");
    nodes[0].write("c.link_down", "0 2");
    assert_eq!(nodes[0].read("c.failures"), "node 1 forced\nlink 0 2 forced\n");
    assert_eq!(nodes[0].read("c.nodes"), "0 this\n1 down\n2 up\n3 up\n");
    for flow in 0..50 {
        assert_eq!(nodes[0].push(0, &frame(0, 2, flow))[0].0, 3);
        assert!(nodes[0].push(0, &frame(0, 1, flow)).is_empty());
    }
    // In transit: directly from here or not at all.
    for (node, output) in [(3, Some(3)), (2, None), (1, None)] {
        let bytes = [&address(node, Phase::First)[..], &[0; 6]].concat();
        assert_eq!(nodes[0].push(1, &bytes).first().map(|o| o.0), output);
    }
    assert_eq!(reasons(&mut nodes[0]), [("unreachable output node".to_owned(), 52)].into());
    assert!(nodes[0].read("c.links").starts_with("1 down down 0 0\n2 down up 0 0\n3 up up 51 "));
    nodes[0].write("c.link_down", "3 2");
    assert!(nodes[0].push(0, &frame(0, 2, 1)).is_empty());
    nodes[0].write("c.node_down", "1 false");
    nodes[0].write("c.link_down", "0 2 false");
    // The budget of the direct path was saved while that was dead, and is used first.
    let outputs: Vec<usize> = (0..200).map(|flow| nodes[0].push(0, &frame(0, 2, flow))[0].0).collect();
    assert!(outputs.contains(&1) && outputs.contains(&2) && !outputs.contains(&3), "{outputs:?}");
    for (handler, wrong) in [
        ("node_down", "4"),
        ("node_down", "0"),
        ("node_down", "x"),
        ("node_down", "1 maybe"),
        ("node_down", ""),
        ("link_down", "1"),
        ("link_down", "1 1"),
        ("link_down", "0 9"),
        ("link_down", "1 2 true 3"),
    ] {
        assert!(nodes[0].try_write(&format!("c.{handler}"), wrong).is_err(), "{handler} {wrong}");
    }
}

#[test]
fn the_last_output_takes_own_packets_that_nowhere_leads() {
    let config = "c :: ClusterInfo(NODE 0, NODES 3, RATE 1Gbps); e :: ClusterSwitch(c);";
    let mut bench = node(config, 2, 4);
    bench.write("c.node_down", "2");
    assert_eq!(bench.push(0, &frame(0, 2, 1))[0].0, 3);
    assert!(bench.push(1, &[&address(2, Phase::First)[..], &[0; 6]].concat()).is_empty());
    assert!(bench.push(0, &frame(1, 2, 1)).is_empty());
    let expected = [("not made by this node".to_owned(), 1), ("unreachable output node".to_owned(), 1)];
    assert_eq!(reasons(&mut bench), expected.into());
}

#[test]
fn numbers_follow_each_other_within_a_stream() {
    let mut bench = switch(0, ", RESEQUENCE true, MODE valiant, DELTA 0");
    let mut next = BTreeMap::new();
    for round in 0..5u16 {
        let to = [1, 1, 2, 1, 3, 3, 0, 2].map(|to| frame(0, to, round));
        let refused = frame(3, 1, 0);
        let packets = to.iter().chain([&refused]).map(|f| Packet::from_bytes(f).unwrap()).collect();
        let mut numbers: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        for (_, packet) in bench.send_batch(0, packets) {
            let (to, from) = packet.data()[..12].split_at(6);
            let to = MacCode::decode(to.try_into().unwrap(), NODES).unwrap().node;
            let source = SourceCode::decode(from.try_into().unwrap(), NODES).unwrap();
            assert_eq!(source.node, NodeId(0));
            numbers.entry(to).or_default().push(source.number);
        }
        for (to, mut numbers) in numbers {
            numbers.sort_unstable();
            let first = *next.entry(to).or_insert(1u32);
            // Packets that stay at this node are not numbered.
            let n = numbers.len() as u32;
            let wanted = if to == NodeId(0) { vec![0] } else { (first..first + n).collect() };
            assert_eq!(numbers, wanted, "{to}");
            next.insert(to, first + n);
        }
    }
    assert_eq!(next, [(0, 6), (1, 16), (2, 11), (3, 11)].map(|(n, next)| (NodeId(n), next)).into());
}

#[test]
fn a_hot_swap_keeps_what_is_known() {
    let text = |nodes: u16, more: &str| {
        let outs: String = (0..nodes).map(|i| format!("e [{i}] -> d{i} :: Discard;")).collect();
        format!(
            "c :: ClusterInfo(NODE 0, NODES {nodes}, RATE 1Gbps, MODE valiant, RESEQUENCE true, DELTA 60s{more}); e :: ClusterSwitch(c); Idle -> [0] e; Idle -> [1] e; {outs}"
        )
    };
    for workers in [1, 2] {
        let options = Options { hotswap: true, workers, simulated_time: workers == 1, ..Options::default() };
        let mut bench = Node::with(&crate::registry(), &text(4, ""), 0, 0, options);
        let send = |bench: &mut Node| {
            let frames = (0..30).map(|flow| Packet::from_bytes(&frame(0, 2, flow)).unwrap());
            bench.router().inject("e", 0, frames.collect());
            let mut outputs = (1..4).map(|i| bench.read(&format!("d{i}.count")).parse::<u64>().unwrap());
            [outputs.next().unwrap(), outputs.next().unwrap(), outputs.next().unwrap()]
        };
        bench.write("c.link_down", "2 1");
        let first = send(&mut bench);
        let matrix = bench.read("c.matrix");
        for (nodes, more) in [(4, ""), (4, ", FLOWS 65535"), (5, ""), (5, ", LINK_RATE 1Gbps")] {
            bench.router().write("hotconfig", &text(nodes, more)).unwrap();
            assert_eq!(bench.read("c.failures"), "link 2 1 forced\n");
            assert!(bench.read("c.matrix").starts_with(&matrix), "{nodes} {more}");
        }
        // The flows still keep their outputs.
        assert_eq!(send(&mut bench), first.map(|n| 2 * n));
        assert_eq!(bench.read("c.flowlets"), "started 30\nkept 30\nmoved 0\nreturned 0\nspilled 0\n");
        bench.write("c.reset", "");
        assert_eq!(bench.read("c.work"), "input 0 0\ntransit 0 0\noutput 0 0\nc 0.000\n");
        send(&mut bench);
        assert!(bench.read("c.work").starts_with("input 30 "));
        // Fewer nodes: failures of those that no longer exist are forgotten.
        bench.write("c.node_down", "4");
        bench.router().write("hotconfig", &text(3, "")).unwrap();
        assert_eq!(bench.read("c.failures"), "link 2 1 forced\n");
    }
}

#[test]
fn workers_share_the_rates() {
    use crate::cluster::engine::identity::Identity;
    use crate::cluster::engine::state::ClusterState;
    let policy = cluster::Config { link_bps: Some(600), ..cluster::Config::new(NodeId(1), 3, 9000) };
    let topology = cluster::Topology::mesh(policy.nodes).unwrap();
    let identity = Identity {
        name: String::new(),
        policy,
        topology,
        resequence: false,
        key: None,
        key_file: None,
        digest: Vec::new(),
    };
    let state = ClusterState::new(identity).unwrap();
    let share = state.share(3);
    assert_eq!((share.rate_bps, share.link_bps), (3000, Some(200)));
    // Counters of several workers add up.
    for worker in 0..3 {
        state.counts(worker).node(NodeId(2)).unwrap().direct.add(1, 10);
        state.counts(worker).delivered.add(2, 20);
    }
    let totals = state.totals();
    assert_eq!((totals.nodes[2].direct.packets, totals.delivered.bytes), (3, 60));
    // In the switch, too, R is divided by the workers: a warning is printed if that is too little for eight.
    let options = Options { workers: 8, ..Options::default() };
    let declaration = "ClusterInfo(NODE 0, NODES 2, RATE 7kbps)";
    let error = Node::attempt(&crate::registry(), declaration, 0, options);
    assert!(error.err().unwrap().contains("1000 to"));
}

#[test]
fn bad_configurations_are_explained() {
    for (arguments, message) in [
        ("NODE 4, NODES 4, RATE 1Gbps", "they count from 0"),
        ("NODE 0, NODES 1, RATE 1Gbps", "a cluster of 1 nodes"),
        ("NODE 0, NODES 4", "RATE: required argument missing"),
        ("NODE 0, NODES 4, RATE 10Bps", "a rate of 80"),
        ("NODE 0, NODES 4, RATE 1Gbps, MODE vaillant", "MODE: parse error"),
        ("NODE 0, NODES 4, RATE 1Gbps, DELTA 2h", "delta of"),
        ("NODE 0, NODES 4, RATE 1Gbps, DIGEST 12345", "DIGEST: should be pairs"),
        ("NODE 0, NODES 4, RATE 1Gbps, KEY 1234", "a key of 2 bytes: 16 to 128 is possible"),
        ("NODE 0, NODES 4, RATE 1Gbps, KEY_FILE /nowhere/key", "/nowhere/key: No such file"),
    ] {
        let error = Bench::error(&format!("ClusterInfo({arguments})"));
        assert!(error.contains(message), "{arguments}: {error}");
    }
    let attempt = |config: &str| {
        let config =
            format!("c :: ClusterInfo(NODE 0, NODES 4, RATE 1Gbps); Idle -> n :: Null -> Discard; {config}");
        Router::with(&config).unwrap_err()
    };
    for (config, message) in [
        (
            "Idle -> ClusterEncap(c, NODE 4, PORT 0, NET 10.0.0.0/24) -> Discard;",
            "node 4 in a cluster of 4 nodes",
        ),
        ("Idle -> ClusterEncap(c, NODE 1, PORT 256, NET 10.0.0.0/24) -> Discard;", "PORT: out of range"),
        ("Idle -> ClusterEncap(c, NODE 1, PORT 0, NET 10.0.0.0/15) -> Discard;", "10.0.0.0/15 is too large"),
        ("Idle -> ClusterEncap(c, NODE 1, PORT 0, NET 10.0.0.1) -> Discard;", "NET: "),
        ("Idle -> ClusterEncap(n, NODE 1, PORT 0, NET 10.0.0.0/24) -> Discard;", "'n' is not a ClusterInfo"),
        ("Idle -> ClusterDecap(c, 10.0.0.0/24, 10.0.1.0/24) -> Discard;", "2 networks and 1 outputs"),
        ("Idle -> ClusterDecap(c, 10.0.0.0/8) -> Discard;", "10.0.0.0/8 is too large"),
        ("Idle -> s :: ClusterSwitch(c); Idle -> [1] s; s -> Discard;", "1 outputs for 4 nodes"),
    ] {
        let error = attempt(config);
        assert!(error.contains(message), "{config}: {error}");
    }
}

/// A whole configuration that is built and not run.
struct Router;

impl Router {
    fn with(config: &str) -> Result<(), String> {
        let source = lang::Source::new("test", config.to_owned());
        let registry = std::sync::Arc::new(crate::registry());
        runtime::Router::new(&[source], lang::LoadOptions::default(), registry, Options::default())
            .map(drop)
            .map_err(|d| d.render_plain(d.sources()))
    }
}

#[test]
fn status_says_everything_but_the_key() {
    let key = "000102030405060708090a0b0c0d0e0f";
    let config = format!(
        "c :: ClusterInfo(NODE 2, NODES 4, RATE 8Gbps, NAME \"lab one\", DIGEST 00ff, KEY {key}, DELTA 0, LINK_RATE 5Gbps); e :: ClusterSwitch(c);"
    );
    let mut bench = node(&config, 2, 4);
    bench.write("c.node_down", "1");
    let text = bench.read("c.status");
    assert!(!text.contains(key));
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (field, wanted) in [
        ("name", serde_json::json!("lab one")),
        ("node", 2.into()),
        ("nodes", 4.into()),
        ("digest", "00ff".into()),
        ("keyed", true.into()),
        ("mode", "adaptive".into()),
        ("rate_bps", 8_000_000_000u64.into()),
        ("link_bps", 5_000_000_000u64.into()),
        ("delta_ns", 0.into()),
        ("resequence", false.into()),
        ("dead", serde_json::json!({"nodes": [1], "links": []})),
        ("forced", serde_json::json!({"nodes": [1], "links": []})),
    ] {
        assert_eq!(status[field], wanted, "{field}");
    }
    let peers: Vec<_> =
        status["links"].as_array().unwrap().iter().map(|l| (l["peer"].clone(), l["up"].clone())).collect();
    assert_eq!(peers, [(0.into(), true.into()), (1.into(), false.into()), (3.into(), true.into())]);
}

#[test]
fn keys_come_from_files_and_others_should_not_read_them() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("valiant-cluster-{}.key", std::process::id()));
    std::fs::write(&path, "00 01 02 03 04 05 06 07\n08 09 0a 0b 0c 0d 0e 0f\n").unwrap();
    let config = format!("c :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps, KEY_FILE {});", path.display());
    let warnings = |mode: u32| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let source = lang::Source::new("test", config.clone());
        let registry = std::sync::Arc::new(crate::registry());
        let router =
            runtime::Router::new(&[source], lang::LoadOptions::default(), registry, Options::default());
        let router = router.map_err(|d| d.render_plain(d.sources())).unwrap();
        let state: std::sync::Arc<crate::cluster::engine::state::ClusterState> = router.shared("c").unwrap();
        assert!(state.identity().key.is_some());
        router.warnings().len()
    };
    assert_eq!((warnings(0o600), warnings(0o644)), (0, 1));
    std::fs::write(&path, "not a key").unwrap();
    assert!(Router::with(&config).unwrap_err().contains("pairs of hexadecimal digits"));
    std::fs::remove_file(&path).unwrap();
}

/// Nodes other than the input node do not read the bytes behind the addresses of a frame: all frames that end
/// here take the same path.
#[test]
fn transit_and_output_nodes_need_nothing_behind_the_addresses() {
    for node in 0..NODES {
        for phase in [Phase::Direct, Phase::First, Phase::Second] {
            let (mut whole, mut cut) = (switch(1, ""), switch(1, ""));
            let bytes = [&address(node, phase)[..], &frame(0, node, 3)[6..]].concat();
            let (long, short) = (whole.push(1, &bytes), cut.push(1, &bytes[..12]));
            let ends: Vec<_> = long.into_iter().map(|(port, bytes)| (port, bytes[..12].to_vec())).collect();
            assert_eq!(ends, short);
            assert_eq!(reasons(&mut whole), reasons(&mut cut));
        }
    }
}

/// A frame with internal addresses whose bytes behind the first `end` cannot be read.
fn guarded(front: &[u8], end: usize) -> Packet {
    Packet::guarded(&front[..end], 1500).unwrap()
}

/// A read behind the Ethernet addresses crashes this process.
#[test]
fn transit_nodes_read_nothing_behind_the_addresses() {
    let mut bench = switch(1, ", RESEQUENCE true");
    let first = |to| guarded(&frame_in(to, Phase::First), 12);
    // All to one link; to several; for this node and for no node.
    for to in [&[2; 8][..], &[2, 3, 0, 2, 3, 3, 0, 0, 2], &[1, 2, 1, NODES, 0]] {
        let sent = to.iter().map(|to| first(*to)).collect();
        let out = bench.send_batch(1, sent);
        assert_eq!(out.len(), to.iter().filter(|to| **to < NODES).count());
        for (port, packet) in out {
            let code = MacCode::decode(*packet.data().first_chunk().unwrap(), NODES).unwrap();
            assert_eq!((packet.len(), port, code.phase), (1500, code.node.index(), Phase::Second));
        }
    }
    let second = [1, 2].map(|to| guarded(&frame_in(to, Phase::Second), 12));
    assert_eq!(bench.send_batch(1, second.into()).len(), 1);
    assert_eq!(bench.read("c.work"), "input 0 0\ntransit 19 28500\noutput 3 4500\nc 14.667\n");
}

/// The same for an output node, up to the frame that leaves: the header is removed and replaced by another
/// one.
#[test]
fn output_nodes_read_nothing_behind_the_addresses() {
    let config = "c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps);
        vlb :: ClusterSwitch(c); Idle -> [0] vlb; in :: Null -> [1] vlb; Idle -> in;
        vlb [0] -> Discard; vlb [2] -> Discard; vlb [3] -> Discard;
        vlb [1] -> d :: ClusterDecap(c, 10.0.1.0/24, 10.0.2.0/24);
        d [0] -> Discard; d [1] -> arp :: ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1) -> e :: Queue; Idle -> [1] arp;";
    let mut bench = node(config, 0, 1);
    bench.write("arp.insert", "10.0.2.7 2:0:0:0:0:7");
    for phase in [Phase::Direct, Phase::Second] {
        let frames = (0..5).map(|_| guarded(&frame_in(1, phase), 14)).collect();
        bench.router().inject("in", 0, frames);
        let out = bench.pull(0, 9);
        assert_eq!(out.len(), 5);
        for (_, packet) in out {
            assert_eq!(packet.dst_ip(), [10, 0, 2, 7]);
            assert_eq!(
                (packet.len(), &packet.data()[..12]),
                (1500, &[2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1][..])
            );
        }
    }
}

fn frame_in(to: u16, phase: Phase) -> Vec<u8> {
    [&address(to, phase)[..], &[0xc6, 0, 0, 0, 0, 0, 8, 0]].concat()
}
