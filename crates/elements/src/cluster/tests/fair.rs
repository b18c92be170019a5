//! The shares of nodes in a line that has less capacity than they request.

use crate::testing::Bench;
use cluster::{MacCode, NodeId, Phase, SourceCode};
use measure::fairness::jain;
use runtime::{Options, Packet};
use std::collections::BTreeMap;
use std::fmt::Write;

type Node = runtime::testing::Bench;

const SECOND: u64 = 1_000_000_000;

fn bench(config: &str, workers: usize) -> Node {
    let options = Options { simulated_time: true, batch_size: 64, workers, ..Options::default() };
    Node::with(&crate::registry(), config, 0, 0, options)
}

/// Four nodes whose links have a capacity of 2R/N and are connected to each other, R = 2 Mbit/s. Hosts at
/// three of them send packets of 1,000 bytes to a host at the last, at the given rates in packets a second.
/// The port there has the capacity R. Returns the bytes that arrive there, by input, after some seconds.
fn overload(queue: &str, more: &str, pps: [u64; 3]) -> ([u64; 3], Node) {
    const HOT: usize = 3;
    let mut text = String::new();
    for i in 0..4 {
        let _ = writeln!(
            text,
            "c{i} :: ClusterInfo(NODE {i}, NODES 4, RATE 2Mbps{more}); vlb{i} :: ClusterSwitch(c{i});"
        );
    }
    for i in 0..4 {
        let _ = writeln!(
            text,
            "in{i} :: Null -> GetIPAddress(16) -> ClusterEncap(c{i}, NODE {HOT}, PORT 0, NET 10.0.4.0/24) -> [0] vlb{i};"
        );
        for j in (0..4).filter(|j| *j != i) {
            let queue = queue.replace("CLUSTER", &format!("c{i}"));
            let _ = writeln!(
                text,
                "vlb{i} [{j}] -> q{i}{j} :: {queue}) -> BandwidthShaper(1Mbps) -> Unqueue -> [1] vlb{j};"
            );
        }
        if i != HOT {
            let _ = writeln!(text, "vlb{i} [{i}] -> Discard;");
        }
    }
    for (i, pps) in pps.iter().enumerate() {
        // The flow, of 16, follows from the packet's number.
        let data = format!("4500 03e8 0000 0000 4011 0000 0a00 0{}02 0a00 0402 0000 0035 03d4 0000", i + 1);
        let _ = writeln!(
            text,
            "RatedSource(DATA \\<{data}>, LENGTH 1000, RATE {pps}) -> turns{i} :: RoundRobinSwitch;"
        );
        for flow in 0..16 {
            let _ = writeln!(text, "turns{i} [{flow}] -> StoreData(20, \\<00{flow:02x}>) -> in{i};");
        }
    }
    let queue = queue.replace("CLUSTER", &format!("c{HOT}"));
    let port = if queue.contains("Cluster") { ", PORT 0" } else { "" };
    let _ = writeln!(
        text,
        "Idle -> in{HOT}; vlb{HOT} [{HOT}] -> ClusterDecap(c{HOT}, 10.0.4.0/24) -> out :: {queue}{port})
           -> BandwidthShaper(2Mbps) -> Unqueue -> by :: Classifier(14/01, 14/02, 14/03);
         by [0] -> n0 :: Counter -> Discard; by [1] -> n1 :: Counter -> Discard; by [2] -> n2 :: Counter -> Discard;"
    );
    let mut nodes = bench(&text, 1);
    let until = |nodes: &mut Node, seconds: u64| {
        let end = nodes.router().now_ns() + seconds * SECOND;
        while nodes.router().now_ns() < end {
            nodes.turns(50);
        }
        [0, 1, 2].map(|i| nodes.read(&format!("n{i}.count")).parse::<u64>().unwrap())
    };
    let before = until(&mut nodes, 3);
    let after = until(&mut nodes, 8);
    ([0, 1, 2].map(|i| after[i] - before[i]), nodes)
}

#[test]
fn inputs_share_an_oversubscribed_output_by_max_min_fairness() {
    for more in ["", ", DELTA 0"] {
        // 1.8 R for a capacity of R: the node that sends a quarter gets all of that, the others get equal
        // shares.
        let (got, mut nodes) = overload("ClusterQueue(CLUSTER, 100", more, [50, 150, 250]);
        let of_share = [got[0] as f64 / 400.0, got[1] as f64 / 800.0, got[2] as f64 / 800.0];
        assert!(jain(&of_share) >= 0.9995, "{more}: {got:?}");
        // And the line is never idle.
        assert!(got.iter().sum::<u64>() >= 1985, "{more}: {got:?}");
        let left = nodes.read("c3.left");
        let lines: Vec<&str> = left.lines().collect();
        assert!(lines.len() == 3 && lines[0].starts_with("0 "), "{left}");
        assert!(nodes.read("out.inputs").lines().count() == 3);
    }
    // With one queue for all, the node that sends most gets most.
    let (got, _) = overload("Queue(100", "", [50, 150, 250]);
    let of_share = [got[0] as f64 / 400.0, got[1] as f64 / 800.0, got[2] as f64 / 800.0];
    assert!(jain(&of_share) < 0.95, "{got:?}");
}

fn frame(from: u16, bytes: usize) -> Vec<u8> {
    let to = MacCode { node: NodeId(0), port: 0, next_hop: 2, phase: Phase::Second }.encode().unwrap();
    let source = SourceCode { node: NodeId(from), number: 0 }.encode().unwrap();
    let mut frame = [&to[..], &source, &[8, 0]].concat();
    frame.resize(bytes, 0);
    frame
}

/// How many bytes of each node have left.
fn bytes_by_node(out: &[(usize, Packet)], at: usize) -> BTreeMap<u16, usize> {
    let mut all = BTreeMap::new();
    for (_, packet) in out {
        let source: [u8; 6] = packet.data()[at + 6..at + 12].try_into().unwrap();
        let node = SourceCode::decode(source, 4).map_or(99, |s| s.node.0);
        *all.entry(node).or_default() += packet.len();
    }
    all
}

#[test]
fn a_link_serves_input_nodes_in_turn() {
    for (offset, config) in
        [(0, "e :: ClusterQueue(c, 3000);"), (50, "e :: ClusterQueue(c, 3000, OFFSET 50);")]
    {
        let config = format!("c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); {config}");
        let mut e = Bench::with_config(&config, 1, 1);
        let framed = |from, bytes| [vec![0; offset], frame(from, bytes - offset)].concat();
        // Node 2 sends eight times as much as node 0. Node 1 itself and frames that are not internal share
        // one part.
        for _ in 0..50 {
            (0..16).for_each(|_| drop(e.push(0, &framed(2, 1500))));
            (0..4).for_each(|_| drop(e.push(0, &framed(0, 750))));
            e.push(0, &framed(1, 1000));
            e.push(0, &vec![2; 1000]);
        }
        let all = bytes_by_node(&e.pull(0, 150), offset);
        let own = all[&1] + all[&99];
        assert!(all[&0].abs_diff(all[&2]) < 3100 && own.abs_diff(all[&2]) < 3100, "{all:?}");
        let inputs = e.read("inputs");
        let lines: Vec<Vec<u64>> =
            inputs.lines().map(|l| l.split(' ').map(|n| n.parse().unwrap()).collect()).collect();
        assert_eq!(lines.iter().map(|l| l[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(lines.iter().map(|l| l[1] + l[2]).collect::<Vec<_>>(), [200, 100, 800]);
        assert_eq!(lines.iter().map(|l| l[1]).sum::<u64>().to_string(), e.read("length"));
        assert_eq!(lines[0][3], all[&0] as u64);
    }
}

#[test]
fn it_has_what_a_queue_has() {
    let mut e =
        Bench::with_config("c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); e :: ClusterQueue(c, 5);", 1, 1);
    (0..9).for_each(|_| drop(e.push(0, &frame(0, 60))));
    // Alone it gets four fifths of the space; the rest is for others, until they have filled it.
    assert_eq!((e.read("length"), e.read("drops"), e.read("capacity")), ("4".into(), "5".into(), "5".into()));
    e.push(0, &frame(2, 60));
    e.push(0, &frame(3, 60));
    assert_eq!((e.read("length"), e.read("highwater_length")), ("5".into(), "5".into()));
    assert_eq!(e.drops(), [("queue full".to_owned(), 6)]);
    assert_eq!(e.read("inputs"), "0 4 0 0 5\n2 1 0 0 0\n3 0 0 0 1\n");
    e.write("capacity", "100");
    e.push(0, &frame(3, 60));
    e.write("reset_counts", "");
    assert_eq!((e.read("drops"), e.read("highwater_length")), ("0".into(), "6".into()));
    assert_eq!(e.pull(0, 2).len(), 2);
    e.write("reset", "");
    assert_eq!((e.read("length"), e.pull(0, 9).len()), ("0".into(), 0));
    assert_eq!(e.drops(), [("queue full".to_owned(), 6), ("queue reset".to_owned(), 4)]);
    assert!(e.try_write("capacity", "many").is_err());
    for (arguments, message) in [
        ("c, QUANTUM 0", "a turn of 0 bytes"),
        ("c, OFFSET 2000", "up to 1024 bytes"),
        ("c, PORT 0, OFFSET 50", "not with PORT"),
        ("none", "does not name an element"),
    ] {
        let config =
            format!("c :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps); e :: ClusterQueue({arguments});");
        let error = std::panic::catch_unwind(|| Bench::with_config(&config, 1, 1)).err().unwrap();
        let error = error.downcast::<String>().unwrap();
        assert!(error.contains(message), "{arguments}: {error}");
    }
}

#[test]
fn packets_that_find_no_room_go_to_output_1() {
    let config = "c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); e :: ClusterQueue(c, 1); e[1] -> n :: Counter -> Discard;";
    let mut e = Bench::with_config(config, 1, 1);
    (0..3).for_each(|_| drop(e.push(0, &frame(0, 60))));
    assert_eq!((e.read("n.count"), e.drops()), ("2".into(), vec![]));
    e.write("reset", "");
    assert_eq!(e.read("n.count"), "3");
}

#[test]
fn what_waits_stays_over_a_hot_swap() {
    for workers in [1, 2] {
        let config = |rest: &str, active| {
            format!(
                "c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); Idle -> in :: Null -> e :: ClusterQueue(c, {rest})
                 -> u :: Unqueue(ACTIVE {active}) -> n :: Counter -> Discard;"
            )
        };
        let options = Options { hotswap: true, workers, ..Options::default() };
        let mut e = Node::with(&crate::registry(), &config("100", false), 0, 0, options);
        let frames = [0, 2, 2, 3].map(|from| Packet::from_bytes(&frame(from, 60)).unwrap());
        e.router().inject("in", 0, frames.into_iter().collect());
        // The same, with other arguments, with too little space.
        for (rest, left) in [("100", "4"), ("200, QUANTUM 99", "4"), ("3", "3")] {
            e.router()
                .hotswap(lang::Source::new("next", config(rest, false)))
                .unwrap_or_else(|d| panic!("{d:?}"));
            assert_eq!(e.read("e.length"), left, "{workers} {rest}");
        }
        assert_eq!(e.read("e.inputs").lines().filter(|l| l.split(' ').nth(1) == Some("1")).count(), 3);
        e.router().hotswap(lang::Source::new("last", config("3", true))).unwrap_or_else(|d| panic!("{d:?}"));
        e.turns(20);
        assert_eq!((e.read("n.count"), e.read("e.length")), ("3".into(), "0".into()));
    }
}

#[test]
fn a_cluster_that_grows_has_a_queue_for_each_new_node() {
    for workers in [1, 2] {
        let config = |nodes: u16, active| {
            format!(
                "c :: ClusterInfo(NODE 1, NODES {nodes}, RATE 1Gbps); StaticThreadSched(u {});
                 Idle -> in :: Null -> e :: ClusterQueue(c, 100) -> u :: Unqueue(ACTIVE {active}) -> Discard;",
                workers - 1
            )
        };
        let options = Options { hotswap: true, workers, ..Options::default() };
        let mut e = Node::with(&crate::registry(), &config(3, false), 0, 0, options);
        let swap = |e: &mut Node, nodes, active| {
            let next = lang::Source::new("next", config(nodes, active));
            e.router().hotswap(next).unwrap_or_else(|d| panic!("{d:?}"));
        };
        for nodes in [3, 8] {
            swap(&mut e, nodes, false);
            let frames = (0..nodes).map(|from| Packet::from_bytes(&frame(from, 60)).unwrap());
            e.router().inject("in", 0, frames.collect());
        }
        swap(&mut e, 8, true);
        e.turns(50);
        // Each packet that leaves is counted for the node whose queue it was in.
        let left: String = (0..8)
            .map(|n| if n < 3 { format!("{n} 0 2 120 0\n") } else { format!("{n} 0 1 60 0\n") })
            .collect();
        assert_eq!((e.read("e.inputs"), e.read("e.length")), (left, "0".into()), "{workers}");
    }
}

#[test]
fn workers_share_it_where_packets_cross() {
    let config = "c :: ClusterInfo(NODE 1, NODES 4, RATE 1Gbps); StaticThreadSched(u 1);
         InfiniteSource(DATA \\<c20000000002 c60000000000 0800>, LENGTH 100, LIMIT 40) -> e :: ClusterQueue(c, 100) -> u :: Unqueue -> n :: Counter -> Discard;";
    let mut e = bench(config, 2);
    for _ in 0..100 {
        e.turns(1);
    }
    assert_eq!((e.read("n.count"), e.read("e.length")), ("40".into(), "0".into()));
    assert_eq!(e.read("e.inputs"), "0 0 40 4000 0\n");
}
