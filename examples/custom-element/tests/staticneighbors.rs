//! An element outside the library is treated like one of it, by what its file says: the receive side marks
//! packets only where somebody reads the marks, the cluster's command knows what leads to a neighbor, the
//! optimizer executes it as one with others, and its drop reasons are in the handlers and in the manual.

#[path = "../../../tests/skip.rs"]
mod skip;

use lang::{LoadOptions, Source};
use runtime::testing::Bench;
use runtime::{
    ArgError, Args, ConfigCx, Counter, Cx, Element, Fields, Handlers, Options, Packet, Registry, Router,
    Sharing, Simple, simple,
};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Ipv4;

/// Counts the packets whose link header is marked. It says that it does not read the mark if `SAYS` is false,
/// which is not true.
struct Marked<const SAYS: bool> {
    all: Counter,
    marked: Counter,
}

impl<const SAYS: bool> Element for Marked<SAYS> {
    const CLASS: &'static str = if SAYS { "Reader" } else { "Peeper" };
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = if SAYS { Fields::MAC_HEADER } else { Fields::NONE };
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { all: Counter::new(), marked: Counter::new() })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.counter("all", |e| &e.all);
        h.counter("marked", |e| &e.marked);
    }
}

impl<const SAYS: bool> Simple for Marked<SAYS> {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        self.all.add(1);
        self.marked.add(u64::from(packet.mac_header().is_some()));
        Some(packet)
    }
}

/// An element that does not say what it reads.
struct Silent;

impl Element for Silent {
    const CLASS: &'static str = "SaysNothing";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for Silent {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        Some(packet)
    }
}

fn registry() -> Registry {
    let mut registry = elements::registry();
    custom_element::register(&mut registry);
    registry.add(simple::<Marked<true>>());
    registry.add(simple::<Marked<false>>());
    registry.add(simple::<Silent>());
    registry
}

fn number(router: &mut Router, handler: &str) -> u64 {
    router.read(handler, "").unwrap().trim().parse().unwrap()
}

/// Whether a port marks its packets if this is behind it, as seen by the element `see`.
fn marks(device: &str, behind: &str) -> bool {
    let config = format!("FromDPDKDevice(net_null_{device}) -> {behind} -> Discard;");
    let options = Options { batch_size: 32, ..Options::default() };
    let sources = [Source::new("config", config)];
    let mut router = Router::new(&sources, LoadOptions::default(), Arc::new(registry()), options)
        .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
    let began = Instant::now();
    while number(&mut router, "see.all") == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no packets");
        router.turn();
    }
    let (all, marked) = (number(&mut router, "see.all"), number(&mut router, "see.marked"));
    assert!(marked == 0 || marked == all, "{marked} of {all}");
    marked > 0
}

#[test]
fn packets_are_marked_only_for_somebody_who_reads_that() {
    if !fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        return skip::skip("it needs root");
    }
    let neighbors =
        "Strip(14) -> SetIPAddress(10.0.0.2) -> StaticNeighbors(2:0:0:0:0:1, 10.0.0.2 2:0:0:0:0:2)";
    assert!(!marks("a", &format!("see :: Peeper -> {neighbors}")), "nobody reads it");
    assert!(marks("b", &format!("see :: Reader -> {neighbors}")));
    assert!(marks("c", &format!("see :: Peeper -> {neighbors} -> Queue -> Unqueue -> Reader")), "far behind");
    assert!(
        marks("d", &format!("see :: Peeper -> {neighbors} -> SaysNothing")),
        "who says nothing reads all"
    );
}

/// What two elements do with packets to a known neighbor, to an unknown one and without a header.
struct Outcome {
    /// What comes out.
    frames: Vec<Vec<u8>>,
    /// What has been counted, as handlers say it.
    counts: Vec<String>,
}

/// The outcome with or without fast paths.
fn outcome(optimize: bool) -> Outcome {
    let config = "e :: CountTtl -> next :: StaticNeighbors(2:0:0:0:0:1, 10.0.0.2 2:0:0:0:0:2)";
    let options = Options { optimize, batch_size: 32, ..Options::default() };
    let mut bench = Bench::with(&registry(), &format!("{config} -> BenchOut(0);"), 1, 0, options);
    let packets = (0..30u16).map(|i| {
        let to = Ipv4Addr::new(10, 0, 0, if i % 7 == 6 { 3 } else { 2 });
        let mut header = Ipv4::build([10, 0, 0, 1].into(), to, 17, 0);
        header.set_ttl(64);
        header.set_id(i);
        let mut packet = Packet::from_bytes(header.bytes()).unwrap();
        if i % 5 != 4 {
            packet.set_network_header(0, 20);
        }
        packet.set_dst_ip(to.octets());
        packet
    });
    let frames = bench.send_batch(0, packets.collect());
    let frames = frames.into_iter().map(|(_, p)| p.data().to_vec()).collect();
    let handlers = ["e.drops", "e.count", "next.drops", "next.count", "next.icounts", "next.ocounts"];
    Outcome { frames, counts: handlers.map(|h| bench.read(h)).into() }
}

#[test]
fn its_fast_path_changes_nothing() {
    let (plain, fast) = (outcome(false), outcome(true));
    assert_eq!((&fast.frames, &fast.counts), (&plain.frames, &plain.counts));
    assert_eq!(fast.counts[..4], ["6\tno IP header\n", "24", "4\tunknown neighbor\n", "20"]);
    assert_eq!(fast.frames.len(), 20);
}

#[test]
fn its_manual_lists_the_reasons_that_it_declares() {
    let command =
        Command::new(env!("CARGO_BIN_EXE_valiant-ttl")).args(["element", "StaticNeighbors"]).output();
    let manual = String::from_utf8(command.unwrap().stdout).unwrap();
    let reasons = "
## Drop reasons
- `unknown neighbor`: no argument has the next hop.
- `out of memory`: the packet had no room for the header and could not be moved.

## Threads
";
    assert!(manual.contains(reasons), "{manual}");
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn nobody_else_knows_its_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut others, mut own) = (Vec::new(), Vec::new());
    ["../../crates", "../../bin"].iter().for_each(|dir| sources(&root.join(dir), &mut others));
    sources(&root.join("src"), &mut own);
    assert!(others.len() > 200, "{}", others.len());
    let names = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("StaticNeighbors");
    others.retain(names);
    own.retain(names);
    own.sort();
    assert_eq!(others, Vec::<PathBuf>::new());
    assert_eq!(own, [root.join("src/lib.rs"), root.join("src/staticneighbors.rs")]);
}

const PROGRAM: &str = "
rt :: RadixIPLookup($IP0/32 2, $IP1/32 2, $NET0 0, $NET1 1);
FromDevice($DEV0) -> Strip(14) -> CheckIPHeader -> rt;
FromDevice($DEV1) -> Strip(14) -> CheckIPHeader -> rt;
rt[0] -> next0 :: StaticNeighbors($MAC0, 10.0.1.2 2:0:0:0:1:2) -> Queue -> ToDevice($DEV0);
rt[1] -> next1 :: StaticNeighbors($MAC1, 10.0.2.2 2:0:0:0:2:2) -> Queue -> ToDevice($DEV1);
rt[2] -> Discard;
";

const CLUSTER: &str = r#"
name = "t"
key_file = "t.key"
rate = "1Gbps"
program = "p.click"
[[node]]
id = 0
[[node.port]]
device = "eth0"
network = "10.0.1.1/24"
mac = "02:00:00:00:00:01"
[[node.link]]
to = 1
device = "link1"
[[node]]
id = 1
[[node.port]]
device = "eth1"
network = "10.0.2.1/24"
mac = "02:00:00:00:00:02"
[[node.link]]
to = 0
device = "link0"
"#;

#[test]
fn the_cluster_sends_to_the_node_that_has_the_device_what_such_an_element_would_send() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("p.click"), PROGRAM).unwrap();
    fs::write(dir.path().join("c.toml"), CLUSTER).unwrap();
    fs::write(dir.path().join("t.key"), "00".repeat(32)).unwrap();
    let config = |node: &str| {
        let command = Command::new(env!("CARGO_BIN_EXE_valiant-ttl"))
            .args(["cluster", "config", "c.toml", "--node", node])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(command.status.success(), "{}", String::from_utf8_lossy(&command.stderr));
        String::from_utf8(command.stdout).unwrap()
    };
    let (zero, one) = (config("0"), config("1"));
    // Its own neighbors a node reaches as before, and the others through the cluster.
    assert!(
        zero.contains("next0 :: StaticNeighbors(") && one.contains("next1 :: StaticNeighbors("),
        "{zero}\n{one}"
    );
    assert!(zero.contains("next1 :: ClusterEncap(cluster, NODE 1, PORT 0, NET 10.0.2.0/24)"), "{zero}");
    assert!(one.contains("next0 :: ClusterEncap(cluster, NODE 0, PORT 0, NET 10.0.1.0/24)"), "{one}");
    assert!(zero.contains("cluster_out[0] -> [0]next0;") && zero.contains("next1 -> [0]vlb;"), "{zero}");
}
