//! Workers, queues and flows over real DPDK devices without hardware: one process, as it has one DPDK
//! environment.
//!
//! DPDK needs root here; without, each test prints why it is skipped.

#[path = "../../../../tests/skip.rs"]
mod skip;

mod sharing;
mod spreading;
mod swaps;

use lang::{LoadOptions, Source};
use locks::IgnorePoison;
use measure::fairness::jain;
use runtime::{
    ArgError, Args, Batch, ConfigCx, Cx, Element, Options, Placement, Router, Sharing, Vector, vector,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn may_run() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !root {
        skip::skip("it needs root");
    }
    root
}

/// What a `Witness` has seen: worker, flow, sequence number, in the order in which each worker saw it.
type Seen = Mutex<Vec<(usize, u16, u32)>>;

/// Records the flow and sequence number of each packet and the worker that passed it on, and emits it. Sleeps
/// once on worker 1, for as many milliseconds as its argument says.
struct Witness {
    seen: Arc<Seen>,
    rest_ms: u64,
}

impl Element for Witness {
    const CLASS: &'static str = "Witness";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let rest_ms = args.p::<u32>("REST")?.unwrap_or(0).into();
        Ok(Self { seen: cx.shared(Seen::default), rest_ms })
    }
}

impl Vector for Witness {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let worker = cx.worker().0;
        if worker == 1 && self.rest_ms > 0 {
            std::thread::sleep(Duration::from_millis(std::mem::take(&mut self.rest_ms)));
        }
        let mut seen = self.seen.lock().ignore_poison();
        for packet in batch.iter() {
            let data = packet.data();
            let flow = u16::from_be_bytes([data[34], data[35]]);
            seen.push((worker, flow, u32::from_be_bytes([data[42], data[43], data[44], data[45]])));
        }
        drop(seen);
        cx.output_batch(0, batch);
    }
}

/// Writes a flow number where a `Witness` reads it.
struct Tag(u16);

impl Element for Tag {
    const CLASS: &'static str = "Tag";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(args.mp("FLOW")?))
    }
}

impl Vector for Tag {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        batch.iter_mut().for_each(|p| p.data_mut()[34..36].copy_from_slice(&self.0.to_be_bytes()));
        cx.output_batch(0, batch);
    }
}

/// Writes a flow number and a sequence number where a `Witness` reads them.
struct Number(u16, u32);

impl Element for Number {
    const CLASS: &'static str = "Number";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self(args.mp("FLOW")?, 0))
    }
}

impl Vector for Number {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.iter_mut() {
            self.1 += 1;
            let data = packet.data_mut();
            data[34..36].copy_from_slice(&self.0.to_be_bytes());
            data[42..46].copy_from_slice(&self.1.to_be_bytes());
        }
        cx.output_batch(0, batch);
    }
}

/// Delays packets by a millisecond.
#[derive(Default)]
struct Later(Batch);

impl Element for Later {
    const CLASS: &'static str = "Later";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self::default())
    }
    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        cx.reschedule();
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        cx.output_batch(0, self.0.take());
        true
    }
}

impl Vector for Later {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.0.append(&mut batch);
        cx.timer_after(0, Duration::from_millis(1));
        cx.recycle(batch);
    }
}

fn router(config: &str, options: Options) -> Result<Router, String> {
    let mut registry = elements::registry();
    registry.add(vector::<Witness>());
    registry.add(vector::<Tag>());
    registry.add(vector::<Number>());
    registry.add(vector::<Later>());
    Router::new(&[Source::new("test", config)], LoadOptions::default(), Arc::new(registry), options)
        .map_err(|diags| diags.render_plain(diags.sources()))
}

fn workers(workers: usize, placement: Placement) -> Options {
    Options { workers, threads: true, batch_size: 32, placement, ..Options::default() }
}

/// The same in one thread, in which the workers run in turn: the result is always the same.
fn in_turn(workers: usize) -> Options {
    Options { workers, batch_size: 32, ..Options::default() }
}

fn number(router: &mut Router, handler: &str) -> u64 {
    router.read(handler, "").unwrap().trim().parse().unwrap()
}

/// Runs a router until `done`, for ten seconds at most.
fn run_until(router: &mut Router, mut done: impl FnMut(&mut Router) -> bool) {
    router.start();
    let began = Instant::now();
    while !done(router) {
        assert!(began.elapsed() < Duration::from_secs(10), "{}", router.read("drops", "").unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
    router.pause();
}

/// Source and destination address and port of a flow.
fn tuple(flow: u16) -> ([u8; 4], [u8; 4], u16, u16) {
    let f = u32::from(flow);
    ((0x0a00_0001 + f * 7).to_be_bytes(), (0xc0a8_0101 + f * 13).to_be_bytes(), flow, 1000 + flow * 3)
}

/// Microsoft's hash of a flow, bit by bit as it is defined.
fn toeplitz(flow: u16) -> u32 {
    let (src, dst, from, to) = tuple(flow);
    let input = [&src[..], &dst, &from.to_be_bytes(), &to.to_be_bytes()].concat();
    let key = tables::toeplitz::MICROSOFT_KEY;
    let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
    (0..input.len() * 8)
        .filter(|&at| bit(&input, at) == 1)
        .fold(0, |hash, at| hash ^ (0..32).fold(0, |window, k| window << 1 | bit(&key, at + k)))
}

/// A pcap file with `each` packets of each flow in turn. Each packet has its number within its flow.
fn pcap(name: &str, flows: u16, each: u32) -> PathBuf {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_ne_bytes());
    }
    for sequence in 0..each {
        for flow in 0..flows {
            let (src, dst, from, to) = tuple(flow);
            let mut frame =
                [&[2; 12][..], &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0], &src, &dst].concat();
            frame.extend([from, to, 26, 0].iter().flat_map(|word| word.to_be_bytes()));
            frame.extend(sequence.to_be_bytes());
            frame.resize(60, 0);
            for word in [1, 0, frame.len() as u32, frame.len() as u32] {
                file.extend(word.to_ne_bytes());
            }
            file.extend(frame);
        }
    }
    let path = std::env::temp_dir().join(format!("valiant-{name}-{}.pcap", std::process::id()));
    fs::write(&path, file).unwrap();
    path
}

fn seen(router: &Router) -> Vec<(usize, u16, u32)> {
    router.shared::<Seen>("w").unwrap().lock().ignore_poison().clone()
}

/// The workers that saw each flow; fails if the packets of a flow were seen in another order than they were
/// sent.
fn owners(seen: &[(usize, u16, u32)]) -> BTreeMap<u16, BTreeSet<usize>> {
    let mut owners: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
    let mut last: BTreeMap<u16, u32> = BTreeMap::new();
    for &(worker, flow, sequence) in seen {
        owners.entry(flow).or_default().insert(worker);
        if let Some(before) = last.insert(flow, sequence) {
            assert!(before < sequence, "flow {flow}: {sequence} after {before}");
        }
    }
    owners
}

/// A router with two workers, of which one polls; and how many packets it gets.
fn one_queue_for_two(name: &str, flows: u16, each: u32) -> (Router, u64, PathBuf) {
    let input = pcap(name, flows, each);
    let config = format!(
        "in :: FromDPDKDevice(\"net_pcap_{name},rx_pcap={}\") -> w :: Witness -> out :: Counter -> Discard",
        input.display()
    );
    let router = router(&config, workers(2, Placement::Parallel)).unwrap();
    (router, u64::from(flows) * u64::from(each), input)
}

/// Whether everything has come out or is counted as dropped.
fn all_there(router: &mut Router, total: u64) -> bool {
    let dropped = router.read("drops", "").unwrap();
    let dropped: u64 = dropped.lines().filter_map(|line| line.split('\t').next()?.parse::<u64>().ok()).sum();
    number(router, "out.count") + dropped == total
}

/// The workers that saw each flow. Fails if one was reordered, unless packets had waited for so long that
/// they were passed on nevertheless, which is counted.
fn owners_while_moving(router: &mut Router) -> BTreeMap<u16, BTreeSet<usize>> {
    let moved = router.read("in.rss_moved", "").unwrap();
    let seen = seen(router);
    if moved.ends_with("unordered\t0\n") {
        return owners(&seen);
    }
    seen.iter().fold(BTreeMap::new(), |mut owners, (worker, flow, _)| {
        owners.entry(*flow).or_insert_with(BTreeSet::new).insert(*worker);
        owners
    })
}

#[test]
fn packets_stay_with_the_worker_that_polled_them_when_asked_to() {
    if !may_run() {
        return;
    }
    let input = pcap("none", 64, 10);
    let config = format!(
        "FromDPDKDevice(\"net_pcap_n,rx_pcap={}\", RSS NONE) -> w :: Witness -> out :: Counter -> Discard",
        input.display()
    );
    let mut router = router(&config, workers(2, Placement::Parallel)).unwrap();
    run_until(&mut router, |r| number(r, "out.count") == 640);
    assert!(seen(&router).iter().all(|(worker, _, _)| *worker == 0));
    fs::remove_file(input).unwrap();
}

#[test]
fn the_placements_give_each_worker_its_part() {
    if !may_run() {
        return;
    }
    let input = pcap("parts", 64, 16);
    for (count, placement, process, sends) in [
        (4, Placement::Serial, &[1, 2][..], "worker 3: sends by queue 0, in turn with worker 0, 1 and 2"),
        (4, Placement::Pipeline, &[2, 3], "worker 2: sends by queue 0"),
        (1, Placement::Single, &[0], "worker 0: sends by queue 0"),
    ] {
        let config = format!(
            "in :: FromDPDKDevice(\"net_pcap_{placement},rx_pcap={}\") -> w :: Witness
             -> out :: ToDPDKDevice(\"net_null_{placement},no-rx=1\")",
            input.display()
        );
        let mut router = router(&config, workers(count, placement)).unwrap();
        run_until(&mut router, |r| number(r, "out.count") == 1024);
        let seen = seen(&router);
        owners(&seen);
        let by: BTreeSet<usize> = seen.iter().map(|s| s.0).collect();
        assert_eq!(by, process.iter().copied().collect());
        let lanes = router.read("out.lanes", "").unwrap();
        assert!(lanes.contains(sends), "{lanes}");
        assert_eq!(router.read("drops", "").unwrap(), "");
    }
    let config = "FromDPDKDevice(net_null_few) -> Discard";
    let error = router(config, workers(2, Placement::Serial)).err().unwrap();
    assert!(error.contains("serial takes at least 3 workers (-j 3)"), "{error}");
    fs::remove_file(input).unwrap();
}

#[test]
fn a_worker_that_is_away_for_a_while_costs_counted_packets_and_only_its_own() {
    if !may_run() {
        return;
    }
    let (flows, each) = (64, 800);
    let input = pcap("rest", flows, each);
    let config = format!(
        "in :: FromDPDKDevice(\"net_pcap_rest,rx_pcap={}\") -> w :: Witness(100) -> out :: Counter -> Discard",
        input.display()
    );
    let mut router = router(&config, workers(2, Placement::Parallel)).unwrap();
    let total = u64::from(flows) * u64::from(each);
    let dropped = |r: &mut Router| -> u64 {
        let drops = r.read("in.drops", "").unwrap();
        assert!(drops.lines().all(|line| line.ends_with("worker's ring full")), "{drops}");
        drops.lines().filter_map(|line| line.split('\t').next()?.parse::<u64>().ok()).sum()
    };
    run_until(&mut router, |r| number(r, "out.count") + dropped(r) == total);
    assert_eq!(number(&mut router, "in.count"), total);
    assert!(dropped(&mut router) > 0, "more came than the ring holds");
    let seen = seen(&router);
    let mine = (0..flows).filter(|flow| (toeplitz(*flow) % 128).is_multiple_of(2)).count();
    assert_eq!(seen.iter().filter(|s| s.0 == 0).count(), mine * each as usize, "worker 0 has lost nothing");
    assert!(owners(&seen).values().all(|by| by.len() == 1));
    fs::remove_file(input).unwrap();
}

#[test]
fn a_bound_element_serves_what_other_workers_push_to_it() {
    // Sources and consumers run on the workers that they are bound to. Elements between them run timers and
    // tasks where their packets are.
    let config =
        "a :: InfiniteSource(LIMIT 5) -> l :: Later -> c :: Counter -> Discard; StaticThreadSched(a 0, l 1)";
    for options in [in_turn(2), workers(2, Placement::Parallel)] {
        let mut router = router(config, options).unwrap();
        router.start();
        let began = Instant::now();
        while number(&mut router, "c.count") < 5 {
            router.turn();
            assert!(began.elapsed() < Duration::from_secs(10), "packets are stuck");
        }
    }
}

#[test]
fn queues_that_cannot_be_polled_are_errors() {
    if !may_run() {
        return;
    }
    let fails = |config: &str| router(config, in_turn(2)).err().unwrap_or_default();
    let two = "FromDPDKDevice(net_null_q1, 0) -> Discard; FromDPDKDevice(net_null_q1, 1) -> Discard";
    let port = |router: &Router, n: usize| router.ports()[n].1.clone().unwrap();
    {
        let router = router(two, in_turn(2)).unwrap();
        assert_eq!(port(&router, 0).poll, [vec![0], vec![]]);
        assert_eq!(port(&router, 1).poll, [vec![], vec![1]]);
        assert_eq!(dpdk::all_ports().iter().find(|p| p.name() == "net_null_q1").unwrap().rx_queues(), 2);
    }
    let error = fails("FromDPDKDevice(net_null_q2, 1) -> Discard");
    assert!(error.contains("no worker polls receive queue 0 of net_null_q2"), "{error}");
    let twice = "FromDPDKDevice(net_null_q3, 0) -> Discard; FromDPDKDevice(net_null_q3, 0) -> Discard";
    assert!(fails(twice).contains("polled by another element too"));
    let input = pcap("q", 1, 1);
    let lacking = format!("FromDPDKDevice(\"net_pcap_q,rx_pcap={}\", 0, 2) -> Discard", input.display());
    let error = fails(&lacking);
    assert!(error.contains("receive queue 1 does not exist: there are at most 1, counted from 0"), "{error}");
    fs::remove_file(input).unwrap();
}
