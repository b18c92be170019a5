//! Virtual routers in one process, on DPDK's devices for files: tagged frames go in, and what comes out is
//! compared. DPDK needs root here; without, each test prints why it is skipped.

#[path = "../../../tests/skip.rs"]
mod skip;

use demux::Tag;
use dpdk::{EalOptions, Hugepages, PortSpec, WorkerThread};
use lang::{LoadOptions, Source};
use locks::IgnorePoison;
use runtime::{ArgError, Args, ConfigCx, Cx, Element, Options, Packet, Registry, Sharing, Simple, WorkerId};
use skip::skip;
use std::any::Any;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use vrhost::{Connection, Host, InterfaceSetup, PortSetup, RouterSetup};

#[global_allocator]
static MEMORY: accounts::Allocator = accounts::Allocator;

static ALONE: Mutex<()> = Mutex::new(());
static NUMBER: AtomicU32 = AtomicU32::new(0);

fn may_run() -> Option<MutexGuard<'static, ()>> {
    if !std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        skip("it needs root");
        return None;
    }
    Some(ALONE.lock().ignore_poison())
}

fn enter(_: WorkerId) -> Box<dyn Any> {
    Box::new(WorkerThread::register(None).unwrap())
}

/// A frame of 60 bytes with a VLAN tag; `mark` is its last byte.
fn frame(vlan: u16, mac: u8, mark: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 0, 99, 0x81, 0];
    frame.extend(vlan.to_be_bytes());
    frame.extend([8, 0]);
    frame.resize(60, 0);
    frame[59] = mark;
    frame
}

fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    for frame in frames {
        file.extend([0; 8]);
        let length = (frame.len() as u32).to_le_bytes();
        file.extend(length);
        file.extend(length);
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_default();
    let (mut rest, mut frames) = (file.get(24..).unwrap_or_default(), Vec::new());
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        let Some(frame) = rest.get(16..16 + length) else { break };
        frames.push(frame.to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

/// A directory, until the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("valiant-vrhost-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // What is left is a temporary file.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An element with a bug.
struct Panics;

impl Element for Panics {
    const CLASS: &'static str = "Panics";
    const MANUAL: &'static str = "An element with a bug.";
    const SHARING: Sharing = Sharing::PerWorker;
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
}

impl Simple for Panics {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        assert_ne!(packet.data().last(), Some(&63), "the bug");
        Some(packet)
    }
}

/// An element that works for a number of cycles on each packet.
struct Works(u64);

impl Element for Works {
    const CLASS: &'static str = "Works";
    const MANUAL: &'static str = "Works for a number of cycles on each packet.";
    const SHARING: Sharing = Sharing::PerWorker;
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(args.p_or("CYCLES", 0)?))
    }
}

impl Simple for Works {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        let began = dpdk::cycles();
        while dpdk::cycles() - began < self.0 {
            std::hint::spin_loop();
        }
        Some(packet)
    }
}

/// An element that keeps memory for each packet.
struct Hoards(Vec<Vec<u8>>);

impl Element for Hoards {
    const CLASS: &'static str = "Hoards";
    const MANUAL: &'static str = "Keeps memory for each packet.";
    const SHARING: Sharing = Sharing::PerWorker;
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(Vec::new()))
    }
}

impl Simple for Hoards {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        self.0.push(vec![1; 100]);
        Some(packet)
    }
}

/// An element that takes memory when it is made.
struct Takes {
    _memory: Vec<u8>,
}

impl Element for Takes {
    const CLASS: &'static str = "Takes";
    const MANUAL: &'static str = "Takes memory when it is made.";
    const SHARING: Sharing = Sharing::PerWorker;
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let memory = vec![1; args.mp("BYTES")?];
        // Packets come meanwhile.
        std::thread::sleep(Duration::from_millis(20));
        Ok(Self { _memory: memory })
    }
}

impl Simple for Takes {
    fn packet(&mut self, packet: Packet, _: &mut Cx<'_>) -> Option<Packet> {
        Some(packet)
    }
}

fn registry() -> Arc<Registry> {
    let mut registry = elements::registry();
    registry.add(runtime::simple::<Panics>());
    registry.add(runtime::simple::<Hoards>());
    registry.add(runtime::simple::<Takes>());
    registry.add(runtime::simple::<Works>());
    Arc::new(registry)
}

fn port(name: &str, spec: &str) -> PortSetup {
    PortSetup::new(name, PortSpec::parse(spec).unwrap())
}

fn start(ports: &[PortSetup], workers: usize, fair: bool) -> Result<Host, Vec<String>> {
    let eal = EalOptions { hugepages: Hugepages::Never, ..EalOptions::default() };
    let options = Options { batch_size: 64, optimize: true, workers, ..Options::default() };
    Host::start(ports, options, &eal, Some(enter), fair)
}

struct Bench {
    host: Host,
    directory: Directory,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    /// A host with a port `wan` that receives these frames over and over, and a port `lan` that discards what
    /// is sent, or writes it to a file.
    fn new(frames: &[Vec<u8>], written: bool) -> Option<Self> {
        Self::with_shares(frames, written, false)
    }

    fn with_shares(frames: &[Vec<u8>], written: bool, fair: bool) -> Option<Self> {
        let alone = may_run()?;
        let directory = Directory::new();
        let number = 2 * NUMBER.load(Ordering::Relaxed);
        let file = |name: &str| directory.file(name).display().to_string();
        write_pcap(&directory.file("in.pcap"), frames);
        write_pcap(&directory.file("none.pcap"), &[]);
        let infinite = u8::from(!frames.is_empty());
        let wan = format!(
            "net_pcap{number},rx_pcap={},infinite_rx={infinite},tx_pcap={}",
            file("in.pcap"),
            file("back.pcap")
        );
        let lan = match written {
            true => {
                format!("net_pcap{},rx_pcap={},tx_pcap={}", number + 1, file("none.pcap"), file("out.pcap"))
            }
            false => format!("net_pcap{},rx_pcap={},tx_pcap=/dev/null", number + 1, file("none.pcap")),
        };
        let ports = [("wan", wan), ("lan", lan)].map(|(name, spec)| port(name, &spec));
        let host = start(&ports, 1, fair).unwrap_or_else(|e| panic!("{e:?}"));
        Some(Self { host, directory, _alone: alone })
    }

    /// A host with a port `wan` that has as many receive queues as `marks`; each receives frames of VLAN 10
    /// that end with its mark, over and over. `queues`: those that are each for one interface.
    fn with_queues(
        marks: &[u8],
        queues: &[u16],
        demultiplexed: bool,
        threads: usize,
        fair: bool,
    ) -> Option<Self> {
        let alone = may_run()?;
        let directory = Directory::new();
        let file = |name: &str| directory.file(name).display().to_string();
        let mut spec = format!("net_pcap{},infinite_rx=1", 2 * NUMBER.load(Ordering::Relaxed));
        for mark in marks {
            write_pcap(&directory.file(&format!("{mark}.pcap")), &vec![frame(10, 1, *mark); 7]);
            spec += &format!(",rx_pcap={}", file(&format!("{mark}.pcap")));
        }
        for thread in 0..threads {
            spec += &format!(",tx_pcap={}", file(&format!("back{thread}.pcap")));
        }
        let port = PortSetup { queues: queues.to_vec(), demultiplexed, ..port("wan", &spec) };
        let host = start(&[port], threads, fair).unwrap_or_else(|e| panic!("{e:?}"));
        Some(Self { host, directory, _alone: alone })
    }

    fn add(&mut self, name: &str, program: &str, interfaces: &[(usize, Tag)]) -> Result<(), String> {
        self.add_with_share(name, program, interfaces, 1)
    }

    fn add_with_share(
        &mut self,
        name: &str,
        program: &str,
        interfaces: &[(usize, Tag)],
        share: u32,
    ) -> Result<(), String> {
        let below: Vec<_> = interfaces.iter().map(|(port, tag)| Connection::Port(*port, *tag)).collect();
        self.add_connected(name, program, &below, share)
    }

    fn add_connected(
        &mut self,
        name: &str,
        program: &str,
        below: &[Connection],
        share: u32,
    ) -> Result<(), String> {
        let interfaces = below.iter().enumerate().map(|(at, below)| InterfaceSetup {
            name: format!("DEV{at}"),
            below: *below,
            mac: [2, 0, 0, 0, 1, at as u8],
            default: false,
            rate: None,
        });
        let setup = RouterSetup {
            name: name.into(),
            sources: vec![Source::new(name, program)],
            load: LoadOptions::default(),
            registry: registry(),
            share,
            queue: None,
            limits: runtime::Limits::default(),
            access: None,
            interfaces: interfaces.collect(),
        };
        self.host.add(setup).map_err(|e| e.render_plain(e.sources()))
    }

    /// Drives the host until `done`, for ten seconds at most; whether it was.
    fn until(&mut self, mut done: impl FnMut(&mut Host) -> bool) -> bool {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            let rest = self.host.turn();
            if done(&mut self.host) {
                return true;
            }
            std::thread::sleep(rest.min(Duration::from_millis(2)));
        }
        false
    }

    fn sent(&self, name: &str) -> u64 {
        let status = self.host.status();
        let router = status.iter().find(|router| router.name == name).unwrap();
        router.interfaces.iter().map(|interface| interface.stats.tx_packets).sum()
    }
}

/// An ordinary configuration: it does not know that it is a virtual router.
const FORWARD: &str =
    "FromDevice($DEV0) -> c :: Counter -> Queue -> ToDevice($DEV1); FromDevice($DEV1) -> Discard;";

#[test]
fn two_routers_get_their_vlans_and_send_with_theirs() {
    let frames: Vec<_> = (0..42u8).map(|i| frame([10, 20, 30][usize::from(i % 3)], 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, true) else { return };
    bench.add("red", FORWARD, &[(0, Tag::Vlan(20)), (1, Tag::Vlan(21))]).unwrap();
    bench.add("blue", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    assert!(bench.until(|host| host.status().iter().all(|r| r.interfaces[1].stats.tx_packets > 200)));
    for name in ["red", "blue"] {
        bench.host.router(name).unwrap().pause();
    }
    for router in bench.host.status() {
        // Frames of VLAN 30 are nobody's.
        assert_eq!(router.interfaces[1].stats.rx_packets, 0, "{router:?}");
    }
    assert!(bench.host.undelivered("wan").unwrap().nobody_tag > 200);
    bench.host.remove("red");
    bench.host.remove("blue");
    let Bench { host, directory, _alone } = bench;
    drop(host);
    let sent = read_pcap(&directory.file("out.pcap"));
    let back = read_pcap(&directory.file("back.pcap"));
    assert!(sent.len() > 400 && back.is_empty(), "{} {}", sent.len(), back.len());
    let mut seen = [0; 2];
    for frame in sent {
        // 10 goes out as 11, 20 as 21; the last byte says which it was.
        let router = usize::from(frame[59] % 3);
        assert_eq!((frame.len(), &frame[12..16]), (60, &[0x81, 0, 0, [11, 21][router]][..]), "{frame:?}");
        seen[router] += 1;
    }
    assert!(seen.iter().all(|n| *n > 200), "{seen:?}");
}

#[test]
fn routers_come_and_go_while_another_forwards() {
    let frames: Vec<_> = (0..64u8).map(|i| frame(if i % 2 == 0 { 10 } else { 20 }, 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    bench.add("stays", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    for _ in 0..20 {
        bench.add("guest", FORWARD, &[(0, Tag::Vlan(20)), (1, Tag::Vlan(21))]).unwrap();
        let before = bench.sent("stays");
        assert!(
            bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > 0),
            "guest does not forward"
        );
        assert!(bench.host.remove("guest") && !bench.host.remove("guest"));
        let now = bench.sent("stays");
        assert!(now >= before);
    }
    let stays = &bench.host.status()[0];
    assert_eq!((stays.interfaces[0].stats.rx_missed, bench.host.lost_at_port("lan")), (0, 0), "{stays:?}");
    assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > 100_000));
}

/// Packets are gathered while they are spread over many routers; one that gets nearly all of them must lose
/// none by that.
#[test]
fn a_router_that_gets_most_packets_loses_none_because_many_others_get_some() {
    const OTHERS: u16 = 60;
    let vlan = |i: u16| if i < OTHERS { 100 + i } else { 10 };
    let frames: Vec<_> = (0..2048u16).map(|i| frame(vlan(i), 1, i as u8)).collect();
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    let program = "FromDevice($DEV0) -> Discard; Idle -> ToDevice($DEV0);";
    for other in 0..OTHERS {
        bench.add(&format!("r{other}"), program, &[(0, Tag::Vlan(100 + other))]).unwrap();
    }
    bench.add("most", program, &[(0, Tag::Vlan(10))]).unwrap();
    let of = |host: &Host, name: &str| {
        host.status().iter().find(|router| router.name == name).unwrap().interfaces[0].stats
    };
    assert!(bench.until(|host| of(host, "most").rx_packets > 300_000));
    let (most, other) = (of(&bench.host, "most"), of(&bench.host, "r0"));
    assert!(other.rx_packets > 50, "{other:?}");
    assert_eq!((most.rx_missed, other.rx_missed), (0, 0), "{most:?}");
}

#[test]
fn two_claims_of_one_tag_with_one_address_and_a_wrong_program_change_nothing() {
    let Some(mut bench) = Bench::new(&[frame(10, 1, 0)], false) else { return };
    bench.add("first", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    let error = bench.add("second", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(12))]).unwrap_err();
    assert!(error.contains("second") && error.contains("DEV0"), "{error}");
    let error = bench.add("wrong", "FromDevice($DEV0) -> Nonsense;", &[(0, Tag::Vlan(13))]).unwrap_err();
    assert!(error.contains("Nonsense"), "{error}");
    assert_eq!(bench.host.status().len(), 1);
    let before = bench.sent("first");
    assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > before + 1000));
    // What the two that failed had claimed is free again.
    bench.add("third", FORWARD, &[(0, Tag::Vlan(13)), (1, Tag::Vlan(12))]).unwrap();
}

#[test]
fn a_router_is_hot_swapped_alone_and_keeps_its_counts() {
    let frames: Vec<_> = (0..64u8).map(|i| frame(if i % 2 == 0 { 10 } else { 20 }, 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    for (name, vlan) in [("a", 10), ("b", 20)] {
        bench.add(name, FORWARD, &[(0, Tag::Vlan(vlan)), (1, Tag::Vlan(vlan + 1))]).unwrap();
    }
    let count = |host: &mut Host, name: &str| -> u64 {
        host.router(name).unwrap().read("c.count", "").unwrap().trim().parse().unwrap()
    };
    assert!(bench.until(|host| count(host, "a") > 1000 && count(host, "b") > 1000));
    let before = count(&mut bench.host, "a");
    let program = FORWARD.replace("-> Queue", "-> d :: Counter -> Queue");
    bench.host.router("a").unwrap().hotswap(Source::new("a", program)).unwrap();
    assert!(count(&mut bench.host, "a") >= before);
    assert!(bench.until(|host| {
        let second = host.router("a").unwrap().read("d.count", "").unwrap();
        second.trim().parse::<u64>().unwrap() > 1000
    }));
    assert!(bench.host.router("b").unwrap().read("d.count", "").is_err());
    for router in bench.host.status() {
        assert_eq!(router.interfaces[0].stats.rx_missed, 0, "{router:?}");
        assert!(router.running && router.cycles > 0);
    }
}

#[test]
fn a_router_that_panics_stops_alone_and_starts_again() {
    let frames: Vec<_> = (0..64u8).map(|i| frame(if i % 2 == 0 { 10 } else { 20 }, 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    bench.add("good", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    let bad = FORWARD.replace("c :: Counter", "Panics");
    bench.add("bad", &bad, &[(0, Tag::Vlan(20)), (1, Tag::Vlan(21))]).unwrap();
    let of = |host: &Host, name: &str| host.status().into_iter().find(|r| r.name == name).unwrap();
    assert!(bench.until(|host| of(host, "bad").failures >= 2), "{:?}", bench.host.status());
    let before = bench.sent("good");
    assert!(bench.until(|host| of(host, "good").interfaces[1].stats.tx_packets > before + 10_000));
    let good = of(&bench.host, "good");
    assert_eq!((good.failures, good.interfaces[0].stats.rx_missed), (0, 0), "{good:?}");
    assert!(bench.host.remove("bad"));
}

#[test]
fn a_router_that_takes_more_memory_than_it_may_have_stops_alone() {
    const MOST: u64 = 5_000_000;
    let frames: Vec<_> = (0..64u8).map(|i| frame(if i % 2 == 0 { 10 } else { 20 }, 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    bench.add("good", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    let bad = FORWARD.replace("c :: Counter", "Hoards");
    bench.add("bad", &bad, &[(0, Tag::Vlan(20)), (1, Tag::Vlan(21))]).unwrap();
    let of = |host: &Host, name: &str| host.status().into_iter().find(|r| r.name == name).unwrap();
    // Without a limit it has what it takes.
    assert!(bench.until(|host| of(host, "bad").memory_bytes > Some(2 * MOST)), "{:?}", bench.host.status());
    // What it has already is not taken away from it; one that begins with the limit stops when it reaches it.
    let mut setup = bench.host.setup("bad").unwrap().clone();
    setup.limits.memory = Some(MOST);
    let told = bench.host.change(setup.clone()).unwrap_err();
    assert!(told.render_plain(told.sources()).contains("bad: the limit memory is 5.0 MB, and"), "{told:?}");
    assert_eq!((of(&bench.host, "bad").running, of(&bench.host, "bad").failures), (true, 0));
    assert!(bench.host.remove("bad"));
    bench.host.add(setup).unwrap();
    assert!(bench.until(|host| of(host, "bad").failures >= 2), "{:?}", bench.host.status());
    assert!(bench.until(|host| {
        let bad = of(host, "bad");
        !bad.running && bad.failure.is_some_and(|why| why.contains("the limit memory is 5.0 MB"))
    }));
    let before = bench.sent("good");
    assert!(bench.until(|host| of(host, "good").interfaces[1].stats.tx_packets > before + 10_000));
    let good = of(&bench.host, "good");
    assert_eq!((good.failures, good.interfaces[0].stats.rx_missed), (0, 0), "{good:?}");
    assert!(good.memory_bytes < Some(MOST), "{good:?}");
    assert!(bench.host.remove("bad"));
}

#[test]
fn a_router_goes_on_while_a_program_that_needs_too_much_memory_is_refused() {
    let Some(mut bench) = Bench::new(&[frame(10, 1, 0), frame(10, 1, 1)], false) else { return };
    bench.add("a", FORWARD, &[(0, Tag::Vlan(10)), (1, Tag::Vlan(11))]).unwrap();
    let mut setup = bench.host.setup("a").unwrap().clone();
    setup.limits.memory = Some(5_000_000);
    assert!(!bench.host.change(setup.clone()).unwrap());
    let program = |bytes: u32| Source::new("a", FORWARD.replace("c :: Counter", &format!("Takes({bytes})")));
    for _ in 0..10 {
        setup.sources = vec![program(20_000_000)];
        let told = bench.host.change(setup.clone()).unwrap_err();
        let told = told.render_plain(told.sources());
        assert!(told.contains("the limit memory is 5.0 MB"), "{told}");
        let before = bench.sent("a");
        assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > before + 100));
    }
    let after = &bench.host.status()[0];
    assert!(after.running && after.failures == 0, "{after:?}");
    setup.sources = vec![program(1_000_000)];
    assert!(bench.host.change(setup.clone()).unwrap());
    assert!(bench.host.status()[0].memory_bytes > Some(1_000_000));
    // A lower limit than what it uses, together with another program, which would use less.
    setup.limits.memory = Some(500_000);
    setup.sources = vec![program(1000)];
    for _ in 0..50 {
        let told = bench.host.change(setup.clone()).unwrap_err();
        let told = told.render_plain(told.sources());
        assert!(
            told.contains("the limit memory is 0.5 MB") && told.contains("change its program first"),
            "{told}"
        );
    }
    let before = bench.sent("a");
    assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > before + 100));
    assert_eq!(bench.host.status()[0].failures, 0, "{:?}", bench.host.status()[0]);
    // One after the other.
    setup.limits.memory = Some(5_000_000);
    assert!(bench.host.change(setup.clone()).unwrap());
    let used = bench.host.status()[0].memory_bytes.unwrap();
    setup.limits.memory = Some(used + 500_000);
    assert!(!bench.host.change(setup).unwrap());
    assert_eq!(bench.host.status()[0].failures, 0, "{:?}", bench.host.status()[0]);
}

#[test]
fn cycles_are_shared_by_weight_whatever_a_packet_costs() {
    let frames: Vec<_> = (0..60u8).map(|i| frame([10, 20, 30][usize::from(i % 3)], 1, i)).collect();
    let Some(mut bench) = Bench::with_shares(&frames, false, true) else { return };
    for (name, vlan, cost, share) in
        [("dear", 10, 20_000, 1), ("cheap", 20, 2_000, 1), ("twice", 30, 6_000, 2)]
    {
        let program = FORWARD.replace("c :: Counter", &format!("Works({cost})"));
        bench
            .add_with_share(name, &program, &[(0, Tag::Vlan(vlan)), (1, Tag::Vlan(vlan + 1))], share)
            .unwrap();
    }
    let cycles =
        |host: &Host| -> Vec<f64> { host.status().iter().map(|router| router.cycles as f64).collect() };
    // All have more packets than they can do, from here on.
    assert!(bench.until(|host| host.status().iter().all(|r| r.interfaces[0].stats.rx_missed > 0)));
    let before = cycles(&bench.host);
    assert!(bench.until(|host| cycles(host).iter().zip(&before).all(|(now, before)| now - before > 3e8)));
    let used: Vec<f64> = cycles(&bench.host).iter().zip(&before).map(|(now, before)| now - before).collect();
    let [cheap, dear, twice] = used[..] else { panic!("{used:?}") };
    // The scheduler evens out what it has charged: a difference is at most some turns of the dearest.
    for (ratio, wanted) in [(cheap / dear, 1.0), (twice / dear, 2.0)] {
        assert!((ratio / wanted - 1.0f64).abs() < 0.1, "{used:?}");
    }
    // Shares change while the routers run.
    let mut setup = bench.host.setup("twice").unwrap().clone();
    setup.share = 4;
    assert_eq!(bench.host.can_become(&setup), Some(true));
    assert!(!bench.host.change(setup).unwrap());
    let before = cycles(&bench.host);
    assert!(bench.until(|host| cycles(host).iter().zip(&before).all(|(now, before)| now - before > 3e8)));
    let used: Vec<f64> = cycles(&bench.host).iter().zip(&before).map(|(now, before)| now - before).collect();
    assert!((used[2] / used[1] / 4.0 - 1.0).abs() < 0.1, "{used:?}");
    // Nothing was lost elsewhere than before the routers' queues.
    for router in bench.host.status() {
        assert!(router.interfaces[1].stats.tx_packets > 0, "{router:?}");
    }
}

/// Routers that get more than they can process do not take all buffers: what comes for another one still
/// comes.
#[test]
fn overloaded_routers_leave_buffers_for_the_others() {
    const HOGS: u16 = 32;
    let vlan = |i: u16| if i < 63 { 10 + i % HOGS } else { 90 };
    let frames: Vec<_> = (0..64u16).map(|i| frame(vlan(i), 1, i as u8)).collect();
    let Some(mut bench) = Bench::with_shares(&frames, false, true) else { return };
    for hog in 0..HOGS {
        let program = "FromDevice($DEV0) -> Works(20000) -> Discard; Idle -> ToDevice($DEV0);";
        bench.add(&format!("hog{hog}"), program, &[(0, Tag::Vlan(10 + hog))]).unwrap();
    }
    bench.add("light", FORWARD, &[(0, Tag::Vlan(90)), (1, Tag::Vlan(91))]).unwrap();
    let full = |host: &Host| {
        let status = host.status();
        let mut hogs = status.iter().filter(|router| router.name != "light");
        hogs.all(|hog| hog.interfaces[0].stats.rx_missed > 100)
    };
    // Each hog loses packets in its own queue: none waits for buffers that the others have.
    assert!(bench.until(|host| full(host)), "{:?}", bench.host.status());
    let before = bench.sent("light");
    assert!(bench.until(|host| {
        let status = host.status();
        status.iter().any(|router| {
            router.interfaces.len() == 2 && router.interfaces[1].stats.tx_packets > before + 1000
        })
    }));
}

/// A router with a rate sends no more, whether it has a tag or the whole port; the rate changes while it
/// runs.
#[test]
fn routers_send_at_their_rates() {
    let frames = [frame(10, 1, 0), frame(20, 1, 1)];
    let Some(mut bench) = Bench::new(&frames, false) else { return };
    for (name, vlan) in [("one", 10), ("two", 20)] {
        bench.add(name, FORWARD, &[(0, Tag::Vlan(vlan)), (1, Tag::Vlan(vlan))]).unwrap();
    }
    let set = |bench: &mut Bench, name: &str, rate: u64| {
        let mut setup = bench.host.setup(name).unwrap().clone();
        setup.interfaces[1].rate = Some(rate);
        assert_eq!(bench.host.can_become(&setup), Some(true));
        assert!(!bench.host.change(setup).unwrap());
    };
    let sent = |host: &Host| -> [u64; 2] {
        let at_port = |at: usize| {
            let stats = host.status()[at].interfaces[1].stats;
            stats.tx_packets - stats.tx_errors
        };
        [at_port(0), at_port(1)]
    };
    set(&mut bench, "one", 6_400_000);
    set(&mut bench, "two", 19_200_000);
    assert!(bench.until(|host| host.status().iter().all(|router| router.interfaces[1].stats.tx_errors > 0)));
    let (mut one, mut two, mut seconds);
    let mut attempts = 0;
    loop {
        let (began, before) = (Instant::now(), sent(&bench.host));
        assert!(bench.until(|host| sent(host)[0] > before[0] + 100_000));
        let now = sent(&bench.host);
        seconds = began.elapsed().as_secs_f64();
        [one, two] = [0, 1].map(|at| (now[at] - before[at]) as f64);
        attempts += 1;
        // A thread that has had no processor for longer than its bucket lasts has sent less, and the faster
        // router loses more by that: such a measurement is made again.
        if (two / one / 3.0 - 1.0).abs() < 0.1 || attempts == 10 {
            break;
        }
    }
    // What is lost on the way is no evidence of a rate that is too high, so that only the ratio is exact.
    assert!((two / one / 3.0 - 1.0).abs() < 0.1, "{one} {two}");
    // A frame has 60 bytes with its tag; what was saved up and what waits comes to it.
    assert!(one * 60.0 < 6_400_000.0 * seconds + 65_536.0 + 60.0 * 2048.0, "{one} in {seconds} s");
}

/// How often threads of this process with such a name have gone to sleep.
fn sleeps(name: &str) -> u64 {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        if of("Name:") == Some(name) {
            sum += of("voluntary_ctxt_switches:").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    sum
}

#[test]
fn a_thread_sleeps_although_several_of_its_routers_look_for_packets_themselves() {
    let Some(mut bench) = Bench::with_shares(&[], false, true) else { return };
    // Such ports have no descriptor that a thread could wait for.
    for name in ["first", "second"] {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed) + 1000;
        let none = bench.directory.file("none.pcap");
        let program = format!(
            "FromDevice(\"net_pcap{number},rx_pcap={}\") -> c :: Counter -> Discard;",
            none.display()
        );
        bench.add(name, &program, &[]).unwrap();
    }
    let before = sleeps("worker-0");
    assert!(bench.until(|_| sleeps("worker-0") > before + 100), "{}", sleeps("worker-0") - before);
}

#[test]
fn a_link_joins_two_routers_and_a_whole_port_has_one() {
    let frames: Vec<_> = (0..30u8).map(|i| frame([10, 20, 30][usize::from(i % 3)], 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, true) else { return };
    let to = Connection::Port(1, Tag::Vlan(11));
    bench.add_connected("second", FORWARD, &[Connection::Link(7, 1), to], 1).unwrap();
    bench.add_connected("first", FORWARD, &[Connection::WholePort(0), Connection::Link(7, 0)], 1).unwrap();
    let sent = |host: &Host| host.status()[1].interfaces[1].stats.tx_packets;
    assert!(bench.until(|host| sent(host) > 300), "{:?}", bench.host.status());
    // Whatever the tag: it has all frames, as they are.
    let before = bench.host.undelivered("wan");
    let now = sent(&bench.host);
    assert!(bench.until(|host| sent(host) > now + 1000));
    assert_eq!(bench.host.undelivered("wan"), before);
    let [first, second] = &bench.host.status()[..] else { panic!("two routers") };
    assert!(second.interfaces[0].stats.rx_packets <= first.interfaces[1].stats.tx_packets);
    assert!(bench.host.remove("second"));
    assert!(
        bench.until(|host| {
            let stats = host.status()[0].interfaces[1].stats;
            stats.tx_packets > 10_000 && stats.tx_errors > 0
        }),
        "what a link that ends nowhere has lost is counted: {:?}",
        bench.host.status()
    );
    bench.host.remove("first");
    let Bench { host, directory, _alone } = bench;
    drop(host);
    let sent = read_pcap(&directory.file("out.pcap"));
    assert!(sent.len() > 300);
    for frame in sent {
        let inner = [10, 20, 30][usize::from(frame[59 + 4] % 3)];
        assert_eq!(frame[12..20], [0x81, 0, 0, 11, 0x81, 0, 0, inner], "{frame:?}");
    }
}

#[test]
fn a_whole_port_goes_to_its_router_itself_and_comes_back() {
    let frames: Vec<_> = (0..30u8).map(|i| frame(10, 1, i)).collect();
    let Some(mut bench) = Bench::new(&frames, true) else { return };
    let whole = [Connection::WholePort(0), Connection::WholePort(1)];
    let tagged = [(0, Tag::Vlan(10)), (1, Tag::Vlan(11))];
    for _ in 0..3 {
        bench.add_connected("all", FORWARD, &whole, 1).unwrap();
        assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > 1000));
        // Packets and bytes are counted one after the other, and read while they are.
        assert!(bench.until(|host| {
            let wan = host.status()[0].interfaces[0].stats;
            wan.rx_packets > 1000 && wan.rx_bytes == 60 * wan.rx_packets
        }));
        // Another program gets the same queue.
        let router = bench.host.router("all").unwrap();
        router.hotswap(Source::new("all", FORWARD.replace("Queue", "Queue(77)"))).unwrap();
        let now = bench.sent("all");
        assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > now + 1000));
        let before = bench.host.undelivered("wan");
        assert!(bench.host.remove("all"));
        // Nobody has the port now, and then another router a part of it.
        assert!(bench.until(|host| host.undelivered("wan") != before), "the port has come back");
        bench.add("one", FORWARD, &tagged).unwrap();
        assert!(bench.until(|host| host.status()[0].interfaces[1].stats.tx_packets > 1000));
        assert!(bench.host.remove("one"));
    }
    let Bench { host, directory, _alone } = bench;
    drop(host);
    let sent = read_pcap(&directory.file("out.pcap"));
    let of = |vlan: u8| sent.iter().filter(|frame| frame[15] == vlan).count();
    assert!(of(10) > 3000 && of(11) > 3000, "{} {}", of(10), of(11));
    // In order: each mark follows the one before, but where packets were nobody's.
    let breaks = sent.windows(2).filter(|two| two[1][59] != (two[0][59] + 1) % 30).count();
    assert!(breaks <= 12 + 2 * 3 * 2, "{breaks}");
}

/// Counts frames that end with this mark, and all others; sends five frames.
fn counts_mark(mark: u8) -> String {
    format!(
        "FromDevice($DEV0) -> kind :: Classifier({}/{mark:02x}, -);\n\
         kind[0] -> right :: Counter -> Discard; kind[1] -> wrong :: Counter -> Discard;\n\
         InfiniteSource(DATA \\<{mark:02x}{}>, LIMIT 5) -> Queue -> ToDevice($DEV0);",
        59,
        "00".repeat(59)
    )
}

fn counted(host: &mut Host, name: &str, counter: &str) -> u64 {
    let text = host.router(name).unwrap().read(&format!("{counter}.count"), "").unwrap();
    text.trim().parse().unwrap()
}

const QUIET: &str = "FromDevice($DEV0) -> Discard; Idle -> ToDevice($DEV0);";

/// Frames of a queue with an interface reach it with their tag; those of other queues are looked at.
fn each_queue_reaches_its_router(threads: usize, fair: bool) {
    let Some(mut bench) = Bench::with_queues(&[1, 2, 3], &[1, 2], true, threads, fair) else { return };
    let marked = |mark: u8| {
        // Behind the tag, if it is taken off.
        if mark == 1 { counts_mark(mark).replace("59/01", "55/01") } else { counts_mark(mark) }
    };
    bench.add_connected("two", &marked(2), &[Connection::Queue(0, 1)], 1).unwrap();
    bench.add_connected("three", &marked(3), &[Connection::Queue(0, 2)], 1).unwrap();
    bench.add_connected("one", &marked(1), &[Connection::Port(0, Tag::Vlan(10))], 1).unwrap();
    let all = ["one", "two", "three"];
    assert!(bench.until(|host| all.iter().all(|name| counted(host, name, "right") > 20_000)));
    assert_eq!(all.map(|name| counted(&mut bench.host, name, "wrong")), [0, 0, 0]);
    // While its router is not there, a queue's frames are nobody's, although another router has their VLAN.
    assert!(bench.host.remove("two"));
    let nobody = bench.host.undelivered("wan").unwrap().nobody_tag;
    assert!(bench.until(|host| host.undelivered("wan").unwrap().nobody_tag > nobody + 1000));
    assert_eq!(["one", "three"].map(|name| counted(&mut bench.host, name, "wrong")), [0, 0]);
    // And another one can have it.
    bench.add_connected("two", &marked(2), &[Connection::Queue(0, 1)], 1).unwrap();
    assert!(bench.until(|host| counted(host, "two", "right") > 1000));
    assert_eq!(counted(&mut bench.host, "two", "wrong"), 0);
    let taken = bench.add_connected("late", QUIET, &[Connection::Queue(0, 1)], 1).unwrap_err();
    assert!(taken.contains("the receive queue 1 is another interface's already"), "{taken}");
    let none = bench.add_connected("late", QUIET, &[Connection::Queue(0, 3)], 1).unwrap_err();
    assert!(none.contains("there is no receive queue 3: the port was opened with 3"), "{none}");
    let last = bench.add_connected("late", QUIET, &[Connection::Queue(0, 0)], 1).unwrap_err();
    assert!(last.contains("the receive queue 0 is the last one for other interfaces"), "{last}");
    assert_eq!(bench.host.status().len(), 3);
    let Bench { host, directory, _alone } = bench;
    drop(host);
    // What they have sent has no tag, but for the one that has a VLAN; `two` was there twice.
    let sent: Vec<_> =
        (0..threads).flat_map(|thread| read_pcap(&directory.file(&format!("back{thread}.pcap")))).collect();
    let with = |mark: u8| sent.iter().filter(|frame| frame[0] == mark && frame[12..14] != [0x81, 0]).count();
    let tagged = sent.iter().filter(|frame| frame[0] == 1 && frame[12..16] == [0x81, 0, 0, 10]).count();
    assert_eq!((tagged, with(2), with(3), sent.len()), (5, 10, 5, 20));
}

#[test]
fn each_receive_queue_reaches_its_router() {
    each_queue_reaches_its_router(1, false);
}

#[test]
fn each_receive_queue_reaches_its_router_with_shares() {
    each_queue_reaches_its_router(1, true);
}

#[test]
fn each_receive_queue_reaches_its_router_on_two_threads() {
    each_queue_reaches_its_router(2, false);
}

#[test]
fn all_receive_queues_may_be_for_one_interface_each() {
    // More threads than queues: one polls none.
    let Some(mut bench) = Bench::with_queues(&[1, 2], &[0, 1], false, 3, false) else { return };
    for (name, queue) in [("one", 0), ("two", 1)] {
        let program = counts_mark(queue as u8 + 1);
        bench.add_connected(name, &program, &[Connection::Queue(0, queue)], 1).unwrap();
    }
    let all = ["one", "two"];
    assert!(bench.until(|host| all.iter().all(|name| counted(host, name, "right") > 20_000)));
    assert_eq!(all.map(|name| counted(&mut bench.host, name, "wrong")), [0, 0]);
    let other =
        bench.add_connected("other", FORWARD, &[Connection::Port(0, Tag::Vlan(10)), Connection::Nothing], 1);
    let other = other.unwrap_err();
    assert!(other.contains("every receive queue is for one interface alone"), "{other}");
}

#[test]
fn a_queue_that_the_device_has_not_is_an_error() {
    let Some(_alone) = may_run() else { return };
    let directory = Directory::new();
    let path = directory.file("in.pcap");
    write_pcap(&path, &[frame(10, 1, 0)]);
    let number = 2 * NUMBER.load(Ordering::Relaxed);
    let spec = format!("net_pcap{number},rx_pcap={0},rx_pcap={0},tx_pcap=/dev/null", path.display());
    let setup = PortSetup { queues: vec![2], ..port("wan", &spec) };
    let told = start(&[setup], 1, false).map(drop).unwrap_err().join("\n");
    assert!(told.contains("receive queue 2") && told.contains("there are at most 2"), "{told}");
}
