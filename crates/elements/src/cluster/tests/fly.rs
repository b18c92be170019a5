//! Switches of a fly: four nodes with external ports, eight servers between them.

use cluster::{MacCode, NodeId, Phase, SourceCode, Topology};
use runtime::{Options, Packet};
use std::collections::{BTreeMap, BTreeSet};

type Node = runtime::testing::Bench;

const NODES: u16 = 12;

fn switch(number: u16, more: &str) -> Node {
    let config = format!(
        "c :: ClusterInfo(NODE {number}, NODES {NODES}, RATE 1Gbps, TOPOLOGY fly 2 4{more}); e :: ClusterSwitch(c);"
    );
    let options = Options { simulated_time: true, batch_size: 64, ..Options::default() };
    Node::with(&crate::registry(), &config, 2, NODES.into(), options)
}

fn fly(more: &str) -> Vec<Node> {
    (0..NODES).map(|n| switch(n, more)).collect()
}

/// A UDP packet of a flow from a node for another one, as ClusterEncap makes it.
fn frame(from: u16, to: u16, flow: u16) -> Vec<u8> {
    let address = MacCode { node: NodeId(to), port: 1, next_hop: 7, phase: Phase::Direct }.encode().unwrap();
    let source = SourceCode { node: NodeId(from), number: 0 }.encode().unwrap();
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 1, 10, 0, 2, 2];
    [&address[..], &source, &[8, 0], &ip, &flow.to_be_bytes(), &[0, 53, 0, 8, 0, 0]].concat()
}

/// Gives a node packets of its own and follows each to the node where it leaves. Returns the nodes that it
/// passes, and its bytes at the end.
fn carry(nodes: &mut [Node], from: u16, frames: Vec<Vec<u8>>) -> Vec<(Vec<u16>, Vec<u8>)> {
    let mut stopped = Vec::new();
    for frame in frames {
        let (mut at, mut input, mut bytes, mut passed) = (from, 0, frame, vec![from]);
        loop {
            let mut out = nodes[usize::from(at)].send(input, Packet::from_bytes(&bytes).unwrap());
            let Some((output, packet)) = out.pop() else { break };
            bytes = packet.data().to_vec();
            if output == usize::from(at) {
                break;
            }
            (at, input) = (output as u16, 1);
            passed.push(at);
            assert!(passed.len() < 20, "{passed:?}");
        }
        stopped.push((passed, bytes));
    }
    stopped
}

fn flows(from: u16, to: u16) -> Vec<Vec<u8>> {
    (0..64).map(|flow| frame(from, to, flow)).collect()
}

#[test]
fn all_pairs_are_joined_over_the_stages() {
    let topology = Topology::fly(4, 2).unwrap();
    for mode in ["valiant", "adaptive"] {
        let mut nodes = fly(&format!(", MODE {mode}"));
        let (mut vias, mut links) = (BTreeSet::new(), BTreeSet::new());
        for from in 0..4 {
            for to in 0..4 {
                for (passed, bytes) in carry(&mut nodes, from, flows(from, to)) {
                    assert_eq!((passed[0], *passed.last().unwrap()), (from, to));
                    // The bytes behind the addresses are unchanged.
                    let flow = u16::from_be_bytes([bytes[34], bytes[35]]);
                    assert_eq!(bytes[14..], frame(from, to, flow)[14..]);
                    let code = MacCode::decode(bytes[..6].try_into().unwrap(), NODES).unwrap();
                    assert_eq!((code.node, code.port, code.next_hop), (NodeId(to), 1, 7));
                    let phase = match passed.len() {
                        1 | 4 => Phase::Direct,
                        7 => {
                            vias.insert(passed[3]);
                            Phase::Second
                        }
                        _ => panic!("{passed:?}"),
                    };
                    assert_eq!(code.phase, phase);
                    let source = SourceCode::decode(bytes[6..12].try_into().unwrap(), NODES).unwrap();
                    assert_eq!(source.node, NodeId(from));
                    for w in passed.windows(2) {
                        assert!(topology.joins(NodeId(w[0]), NodeId(w[1])), "{passed:?}");
                        links.insert((w[0], w[1]));
                    }
                }
            }
        }
        // All links are used; where everything goes via intermediate nodes, all nodes are intermediate nodes.
        assert_eq!(links.len(), 24, "{mode}: {links:?}");
        assert!(mode == "adaptive" || vias.len() == 4, "{vias:?}");
        assert!(nodes.iter_mut().all(|n| n.drops().is_empty()));
    }
}

#[test]
fn every_packet_is_counted_once_for_each_link() {
    for mode in ["valiant", "adaptive"] {
        let mut nodes = fly(&format!(", MODE {mode}"));
        for to in 0..4 {
            carry(&mut nodes, 0, flows(0, to));
        }
        let matrix: serde_json::Value = serde_json::from_str(&nodes[0].read("c.matrix_json")).unwrap();
        let sum = |what: &str| -> u64 {
            let rows = matrix["to"].as_array().unwrap().iter();
            rows.map(|row| row[what]["packets"].as_u64().unwrap()).sum()
        };
        assert_eq!(sum("direct") + sum("via_intermediate"), 4 * 64, "{mode}");
        // Packets for this node leave over no link; all others over one.
        assert_eq!(sum("over"), 3 * 64, "{mode}");
        let links = nodes[0].read("c.links");
        let sent: u64 = links.lines().map(|l| l.split(' ').nth(3).unwrap().parse::<u64>().unwrap()).sum();

        assert_eq!(sent, 3 * 64, "{mode}: {links}");
    }
}

#[test]
fn a_flow_keeps_its_way_and_flows_differ() {
    let mut nodes = fly(", MODE valiant");
    let paths: Vec<Vec<u16>> = (0..32)
        .map(|flow| {
            let sent = (0..8).map(|_| frame(0, 3, flow)).collect();
            let paths: BTreeSet<Vec<u16>> =
                carry(&mut nodes, 0, sent).into_iter().map(|(path, _)| path).collect();
            assert_eq!(paths.len(), 1, "{paths:?}");
            paths.into_iter().next().unwrap()
        })
        .collect();
    assert!(paths.iter().collect::<BTreeSet<_>>().len() > 6, "{paths:?}");
    // Without flowlets, a path is chosen for each packet.
    let mut nodes = fly(", MODE valiant, DELTA 0");
    let sent = (0..64).map(|_| frame(0, 3, 1)).collect();
    let paths: BTreeSet<Vec<u16>> = carry(&mut nodes, 0, sent).into_iter().map(|(path, _)| path).collect();
    assert!(paths.len() > 6, "{paths:?}");
}

#[test]
fn what_is_dead_is_gone_around() {
    let mut nodes = fly(", MODE valiant");
    let write_all = |nodes: &mut [Node], handler: &str, value: &str| {
        let me: u16 = value.split(' ').next().unwrap().parse().unwrap();
        for (n, node) in nodes.iter_mut().enumerate().filter(|(n, _)| *n != usize::from(me)) {
            node.try_write(&format!("c.{handler}"), value).unwrap_or_else(|e| panic!("{n}: {e}"));
        }
    };
    let arrived = |nodes: &mut [Node], from: u16, to: u16| {
        let mut passed = BTreeSet::new();
        for (path, _) in carry(nodes, from, flows(from, to)) {
            assert_eq!(path.last(), Some(&to), "{path:?}");
            passed.extend(path);
        }
        passed
    };
    // One server of each stage, no two of them on all paths of a pair.
    for dead in [5, 9] {
        assert!(arrived(&mut nodes, 0, 3).len() > 4);
        write_all(&mut nodes, "node_down", &dead.to_string());
        for (from, to) in [(0, 3), (3, 0), (1, 2), (2, 1)] {
            assert!(!arrived(&mut nodes, from, to).contains(&dead), "{dead} is dead");
        }
        write_all(&mut nodes, "node_down", &format!("{dead} false"));
    }
    // A node with external ports: neither intermediate nor output node.
    write_all(&mut nodes, "node_down", "2");
    assert!(!arrived(&mut nodes, 0, 3).contains(&2));
    assert!(carry(&mut nodes, 0, flows(0, 2)).iter().all(|(path, _)| path == &[0]));
    let drops: BTreeMap<String, u64> = nodes[0].drops().into_iter().collect();
    assert_eq!(drops, BTreeMap::from([("unreachable output node".to_owned(), 64)]));
}

#[test]
fn what_comes_to_the_wrong_place_is_dropped() {
    let address =
        |node: u16, phase| MacCode { node: NodeId(node), port: 1, next_hop: 7, phase }.encode().unwrap();
    let from = |number: u32| SourceCode { node: NodeId(0), number }.encode().unwrap();
    let frame = |to: [u8; 6], source: [u8; 6]| [to, source].concat();
    let mut outer = switch(1, "");
    // In the direct or the second phase for another node, in the first with another intermediate node, and a
    // control frame.
    for bad in [
        frame(address(2, Phase::Direct), from(0)),
        frame(address(2, Phase::Second), from(0)),
        frame(address(2, Phase::First), from(3 << 16)),
        frame(address(2, Phase::Control), from(1 << 16)),
    ] {
        assert!(outer.push(1, &bad).is_empty());
    }
    assert_eq!(outer.drops(), [("not for this node".to_owned(), 4)]);
    // With this node as the intermediate node, the packet is forwarded.
    let good = frame(address(2, Phase::First), from(1 << 16));
    let out = outer.push(1, &good).remove(0);
    assert!([6, 7].contains(&out.0), "{}", out.0);
    assert_eq!(out.1, frame(address(2, Phase::Second), from(1 << 16)));
    // A server between the nodes has no packets of its own, and reads the source address too.
    let mut inner = switch(10, "");
    assert!(inner.push(0, &super::fly::frame(10, 0, 1)).is_empty());
    assert!(inner.push(1, &frame(address(3, Phase::Direct), from(0))).is_empty());
    assert!(inner.push(1, &frame(address(0, Phase::Direct), [2; 6])).is_empty());
    assert!(inner.push(1, &address(0, Phase::Direct)).is_empty());
    let drops: BTreeMap<String, u64> = inner.drops().into_iter().collect();
    let wanted =
        ["frame too short", "not an internal address", "not made by this node", "unreachable output node"];
    assert_eq!(drops, wanted.map(|r| (r.to_owned(), 1)).into());
    assert_eq!(inner.push(1, &frame(address(0, Phase::Direct), from(9)))[0].0, 0);
    assert_eq!(inner.read("c.work").lines().nth(1), Some("transit 1 12"));
    // The links that it has.
    let links = inner.read("c.links");
    assert_eq!(
        links.lines().map(|l| l.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["0", "1", "5", "7"],
        "{links}"
    );
    assert!(links.starts_with("0 up up 1 12\n"), "{links}");
    assert!(inner.read("c.status").contains("2-ary 2-fly of 4 nodes"));
}

#[test]
fn flies_that_cannot_be() {
    for (arguments, says) in [
        ("NODES 12, TOPOLOGY fly 2", "should be 'mesh' or 'fly K M'"),
        ("NODES 11, TOPOLOGY fly 2 4", "has 12 nodes, not 11"),
        ("NODES 12, TOPOLOGY fly 5 4", "a fly's k of 5 links: 2 to 4 is possible"),
        ("NODES 12, TOPOLOGY ring", "should be 'mesh'"),
        ("NODES 12, TOPOLOGY fly 2 4, RESEQUENCE true", "not in a fly"),
    ] {
        let error = Node::error(&crate::registry(), &format!("ClusterInfo(NODE 0, RATE 1Gbps, {arguments})"));
        assert!(error.contains(says), "{says} is not in {error}");
    }
}

/// Reading a byte behind the addresses ends the test: there is none.
#[test]
fn servers_in_between_and_intermediate_nodes_read_nothing_behind_the_addresses() {
    let guarded = |node: u16, phase, number: u32| {
        let to = MacCode { node: NodeId(node), port: 1, next_hop: 7, phase }.encode().unwrap();
        let from = SourceCode { node: NodeId(0), number }.encode().unwrap();
        Packet::guarded(&[to, from].concat(), 1500).unwrap()
    };
    let phases = [Phase::Direct, Phase::First, Phase::Second];
    for stage in [5, 10] {
        let mut inner = switch(stage, "");
        let sent = (0..12).map(|i| guarded(i % 2, phases[usize::from(i) % 3], u32::from(i))).collect();
        let out = inner.send_batch(1, sent);
        assert_eq!(out.len(), 12);
        assert!(out.iter().all(|(_, p)| p.len() == 1500), "a packet was cut");
    }
    let mut outer = switch(1, "");
    let out = outer.send_batch(1, (0..8).map(|i| guarded(2, Phase::First, 1 << 16 | i)).collect());
    assert_eq!(out.len(), 8);
    assert!(out.iter().all(|(port, p)| [6, 7].contains(port) && p.data()[1] >> 4 == Phase::Second as u8));
}
