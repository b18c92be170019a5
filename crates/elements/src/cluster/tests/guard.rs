//! Whole paths through transit and output nodes, links included, with frames whose bytes behind the addresses
//! cannot be read.

use cluster::{MacCode, NodeId, Phase, SourceCode};
use runtime::{Batch, Options, Packet};
use std::fmt::Write;

type Node = runtime::testing::Bench;

const MS: u64 = 1_000_000;
/// The sink of packets for hosts; the sinks of links have the number of the neighbor.
const HOSTS: usize = 99;

fn bench(config: &str) -> Node {
    let options = Options { simulated_time: true, batch_size: 64, ..Options::default() };
    Node::with(&crate::registry(), config, 0, 0, options)
}

/// A node's ClusterInfo and links; frames from the wire to node N go in at `wireN`.
fn links(me: u16, cluster: &str, peers: &[u16]) -> String {
    let key = "000102030405060708090a0b0c0d0e0f";
    let mut text = format!("c :: ClusterInfo(NODE {me}, RATE 1Gbps, KEY {key}, {cluster});\n");
    for peer in peers {
        let _ = writeln!(
            text,
            "link{peer} :: ClusterLink(c, PEER {peer}); Idle -> wire{peer} :: Null -> [0] link{peer};
             link{peer} [1] -> BenchOut({peer});"
        );
    }
    text
}

fn inject(node: &mut Node, peer: usize, frames: Batch) {
    node.router().inject(&format!("wire{peer}"), 0, frames);
}

/// A node with its links, between neighbors that have only their end of one link.
struct Joined {
    node: Node,
    me: u16,
    peers: Vec<(u16, Node)>,
}

impl Joined {
    /// `rest` is the configuration of the node except its switch `vlb` and the connections from that to the
    /// links.
    fn new(me: u16, cluster: &str, peers: &[u16], rest: &str) -> Self {
        let mut text = links(me, cluster, peers) + "vlb :: ClusterSwitch(c); Idle -> [0] vlb;\n" + rest;
        for peer in peers {
            let _ = writeln!(text, "link{peer} [0] -> [1] vlb; vlb [{peer}] -> [1] link{peer};");
        }
        let ends = peers.iter().map(|peer| {
            let more = format!("Idle -> [1] link{me}; link{me} [0] -> Discard;");
            (*peer, bench(&(links(*peer, cluster, &[me]) + &more)))
        });
        let mut this = Self { me, peers: ends.collect(), node: bench(&text) };
        for _ in 0..200 {
            this.talk();
        }
        for peer in peers {
            assert_eq!(this.node.read(&format!("link{peer}.state")), "up");
        }
        this
    }
    /// All run for two milliseconds and then receive each other's hellos. Returns the frames that the
    /// neighbors send.
    fn say(&mut self) -> Vec<(usize, Vec<Packet>)> {
        let until = self.node.router().now_ns() + 2 * MS;
        for node in self.peers.iter_mut().map(|(_, node)| node).chain([&mut self.node]) {
            while node.router().now_ns() < until {
                node.turn();
            }
        }
        for (to, packet) in self.node.take() {
            let (_, peer) = self.peers.iter_mut().find(|(peer, _)| usize::from(*peer) == to).unwrap();
            inject(peer, self.me.into(), [packet].into_iter().collect());
        }
        self.peers
            .iter_mut()
            .map(|(peer, node)| (usize::from(*peer), node.take().into_iter().map(|(_, p)| p).collect()))
            .collect()
    }
    fn talk(&mut self) {
        for (peer, frames) in self.say() {
            inject(&mut self.node, peer, frames.into_iter().collect());
        }
    }
    /// Gives the node a batch from a neighbor, in which there are hellos among the data. Returns the data
    /// frames that leave.
    fn send(&mut self, from: u16, mut frames: Vec<Packet>) -> Vec<(usize, Packet)> {
        let n = frames.len();
        while frames.len() == n {
            for (peer, hellos) in self.say() {
                if peer == usize::from(from) {
                    frames.splice(n / 2..n / 2, hellos);
                } else {
                    inject(&mut self.node, peer, hellos.into_iter().collect());
                }
            }
        }
        inject(&mut self.node, from.into(), frames.into_iter().collect());
        let data = |p: &Packet| p.data()[0] != 0xc2 || p.data()[1] >> 4 != Phase::Control as u8;
        self.node.take().into_iter().filter(|(_, p)| data(p)).collect()
    }
    fn still_up(&mut self) {
        for _ in 0..100 {
            self.talk();
        }
        for (peer, _) in &self.peers {
            let hellos = self.node.read(&format!("link{peer}.hellos"));
            assert!(hellos.ends_with("down 0\n"), "{peer}: {hellos}");
        }
    }
}

/// A frame of 1500 bytes of which the first `end` can be read; the number in its source address identifies
/// the packet.
fn guarded(to: u16, phase: Phase, next_hop: u16, number: u32, end: usize) -> Packet {
    let to = MacCode { node: NodeId(to), port: 1, next_hop, phase }.encode().unwrap();
    let from = SourceCode { node: NodeId(0), number }.encode().unwrap();
    Packet::guarded(&[&to[..], &from, &[8, 0]].concat()[..end], 1500).unwrap()
}

/// A read behind the Ethernet addresses crashes this process.
#[test]
fn transit_with_links_reads_nothing_behind_the_addresses() {
    let rest = "vlb [1] -> Resequencer(c) -> Discard;";
    let mut node = Joined::new(1, "NODES 4, RESEQUENCE true", &[0, 2, 3], rest);
    for (to, wanted) in [(&[2; 8][..], 8), (&[2, 3, 0, 2, 3, 3, 0, 0, 2], 9), (&[1, 2, 1, 9, 0], 2)] {
        let sent = to.iter().map(|to| guarded(*to, Phase::First, 7, 1, 12)).collect();
        let out = node.send(0, sent);
        assert_eq!(out.len(), wanted, "{to:?}");
        for (link, packet) in out {
            let code = MacCode::decode(*packet.data().first_chunk().unwrap(), 4).unwrap();
            assert_eq!((packet.len(), link, code.phase), (1500, code.node.index(), Phase::Second));
        }
    }
    node.still_up();
    // A server of a fly's first stage.
    let rest: String = [1, 3, 4, 5, 6, 7, 8, 9].iter().map(|n| format!("vlb [{n}] -> Discard;\n")).collect();
    let mut server = Joined::new(5, "NODES 12, TOPOLOGY fly 2 4", &[0, 2, 10, 11], &rest);
    let phases = [Phase::Direct, Phase::First, Phase::Second];
    // The others are dead, as no node here has links to them.
    let sent = (0..12).map(|i| guarded(i % 2 * 2, phases[usize::from(i) % 3], 7, i.into(), 12)).collect();
    let out = server.send(0, sent);
    assert_eq!(out.len(), 12);
    assert!(out.iter().all(|(link, p)| [10, 11].contains(link) && p.len() == 1500));
    server.still_up();
}

/// The same for an output node, whose Resequencer restores the order of the packets, up to the frames that
/// leave.
#[test]
fn an_output_node_with_links_and_resequencer_reads_nothing_behind_the_addresses() {
    let rest = format!(
        "vlb [1] -> r :: Resequencer(c, TIMEOUT 1s) -> d :: ClusterDecap(c, 10.0.1.0/24, 10.0.2.0/24); d [0] -> Discard;
         d [1] -> arp :: ARPQuerier(10.0.2.1/24, 2:0:0:0:0:1) -> BenchOut({HOSTS}); Idle -> [1] arp;"
    );
    let mut node = Joined::new(1, "NODES 4, RESEQUENCE true", &[0, 2, 3], &rest);
    for host in 1..=12 {
        node.node.write("arp.insert", &format!("10.0.2.{host} 2:0:0:0:0:{host:x}"));
    }
    let mut left = Vec::new();
    // Directly from the input node, and via node 3, whose packets overtake.
    for (from, numbers) in [(0, [1, 4, 3]), (3, [6, 5, 2]), (0, [8, 9, 7]), (3, [10, 12, 11])] {
        let phase = if from == 0 { Phase::Direct } else { Phase::Second };
        let frames = numbers.map(|n| guarded(1, phase, n, n.into(), 14)).into();
        for (sink, packet) in node.send(from, frames) {
            assert_eq!((sink, packet.len()), (HOSTS, 1500));
            assert_eq!(packet.data()[6..12], [2, 0, 0, 0, 0, 1]);
            left.push(packet.data()[5]);
        }
    }
    assert_eq!(left, (1..=12).collect::<Vec<u8>>());
    let counts = ["in_order", "restored", "late", "waiting"].map(|n| node.node.read(&format!("r.{n}")));
    assert!(counts[1] != "0" && counts[2] == "0" && counts[3] == "0", "{counts:?}");
    node.still_up();
}
