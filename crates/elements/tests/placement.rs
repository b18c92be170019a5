//! Workers, queues and flows over real DPDK devices without hardware: one process, as it has one DPDK
//! environment.
//!
//! DPDK needs root here; without, each test prints why it is skipped.

#[path = "../../../tests/skip.rs"]
mod skip;

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

#[test]
fn a_port_with_one_queue_splits_flows_as_toeplitz_says_and_keeps_their_order() {
    if !may_run() {
        return;
    }
    // No more packets than a ring has space for, so that a busy machine causes no loss.
    let (flows, each) = (64, 16);
    let input = pcap("rss", flows, each);
    for (count, out) in [(2, "a"), (3, "b"), (4, "c")] {
        let config = format!(
            "in :: FromDPDKDevice(\"net_pcap_{out},rx_pcap={}\") -> w :: Witness -> out :: Counter -> Discard",
            input.display()
        );
        let mut router = router(&config, workers(count, Placement::Parallel)).unwrap();
        let total = u64::from(flows) * u64::from(each);
        run_until(&mut router, |r| number(r, "out.count") == total);
        let seen = seen(&router);
        let owners = owners(&seen);
        let mut expected = vec![0; count];
        for flow in 0..flows {
            let worker = toeplitz(flow) as usize % 512 % count;
            assert_eq!(owners[&flow], BTreeSet::from([worker]), "flow {flow} of {count} workers");
            expected[worker] += each as usize;
        }
        let counted: Vec<usize> = (0..count).map(|w| seen.iter().filter(|s| s.0 == w).count()).collect();
        assert_eq!(counted, expected);
        eprintln!("{count} workers: {counted:?} packets of {flows} flows");
        // As even as possible with 64 flows.
        let least = usize::from(flows) * each as usize / count * 2 / 3;
        assert!(counted.iter().all(|n| *n >= least), "{counted:?}");
        let lanes = router.read("in.lanes", "").unwrap();
        assert!(lanes.starts_with("worker 0: polls queue 0, spreads flows over worker 0"), "{lanes}");
        assert!(lanes.contains("worker 1: gets flows from worker 0"), "{lanes}");
        assert_eq!(number(&mut router, "in.handed"), 0);
        assert_eq!(router.read("drops", "").unwrap(), "");
    }
    fs::remove_file(input).unwrap();
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
fn buckets_change_workers_while_packets_flow_and_no_flow_is_reordered() {
    if !may_run() {
        return;
    }
    let (mut router, total, input) = one_queue_for_two("buckets", 64, 4000);
    let mut turn = 0;
    run_until(&mut router, |r| {
        turn += 1;
        let table = ["equal 1", "weight 0 1", "default", "weight 1 3", "(0,1),(1,0),(2,1)"][turn % 5];
        r.write("in.rss_table", table).unwrap();
        all_there(r, total)
    });
    let flows = owners_while_moving(&mut router);
    assert!(flows.values().any(|workers| workers.len() == 2), "{flows:?}");
    assert_eq!(number(&mut router, "in.handed"), 0);
    let refused = router.write("in.rss_table", "(0,2)").unwrap_err().to_string();
    assert!(refused.contains("'2' is no worker here"), "{refused}");
    fs::remove_file(input).unwrap();
}

#[test]
fn the_key_of_the_hash_changes_while_packets_flow_and_no_flow_is_reordered() {
    if !may_run() {
        return;
    }
    let (mut router, total, input) = one_queue_for_two("key", 64, 4000);
    assert!(router.read("in.rss_key", "").unwrap().starts_with("6d:5a:56:da:"));
    let mut turn = 0u8;
    run_until(&mut router, |r| {
        turn = turn.wrapping_add(1);
        let key: Vec<String> = (0..40u8).map(|n| format!("{:02x}", (n ^ turn).wrapping_mul(73))).collect();
        r.write("in.rss_key", &key.join(":")).unwrap();
        all_there(r, total)
    });
    let flows = owners_while_moving(&mut router);
    assert!(flows.values().any(|workers| workers.len() == 2), "{flows:?}");
    let refused = router.write("in.rss_key", "12:34").unwrap_err().to_string();
    assert!(refused.contains("40 to 52 bytes"), "{refused}");
    fs::remove_file(input).unwrap();
}

#[test]
fn the_table_and_the_key_of_a_device_change_where_its_driver_can() {
    if !may_run() {
        return;
    }
    let config = "in :: FromDPDKDevice(net_null_reta) -> Discard;";
    let mut two = router(config, workers(2, Placement::Parallel)).unwrap();
    assert_eq!(two.read("in.rss_packets", "").unwrap(), "", "the device distributes packets itself");
    two.write("in.rss_table", "weight 1 3").unwrap();
    let table = two.read("in.rss_table", "").unwrap();
    assert_eq!(table.lines().next(), Some("    0:      0     0     0     0     0     0     0     0"));
    assert_eq!(table.lines().last(), Some("  120:      1     1     1     1     1     1     1     1"));
    let refused = two.write("in.rss_table", "(0,2)").unwrap_err().to_string();
    assert!(refused.contains("'2' is no queue here: there are 0 and 1"), "{refused}");
    let refused = two.write("in.rss_key", &["ab"; 40].join(":")).unwrap_err().to_string();
    assert!(refused.contains("its driver (net_null) takes no key"), "{refused}");
    assert_eq!(two.read("in.rebalance", "").unwrap(), "false", "what was written stays");
    two.write("in.rebalance", "true").unwrap();
    let began = Instant::now();
    two.drive(|| began.elapsed() > Duration::from_millis(500));
    let status = two.read("in.rebalance_status", "").unwrap();
    assert!(status.contains("table\tof the device\n") && status.contains("moves\t0\n"), "{status}");
    assert!(status.contains("state\t100.0 % of the packets came to other workers than hash"), "{status}");
    drop(two);
    let mut one = router(config, workers(1, Placement::Parallel)).unwrap();
    let refused = one.write("in.rss_table", "equal 1").unwrap_err().to_string();
    assert!(refused.contains("it has one receive queue, so the device distributes nothing"), "{refused}");
}

#[test]
fn the_rebalancer_moves_buckets_while_packets_flow_and_says_why() {
    if !may_run() {
        return;
    }
    let input = pcap("even", 64, 4);
    // As many packets as there can be, all on one worker until it is on.
    let config = format!(
        "in :: FromDPDKDevice(\"net_pcap_even,rx_pcap={},infinite_rx=1\") -> WorkPackage(W 100) -> Discard;
         DriverManager(write in.rss_table equal 1, write in.rebalance true, wait 2s, stop);",
        input.display()
    );
    let mut router = router(&config, workers(2, Placement::Parallel)).unwrap();
    router.drive(|| false);
    let log = router.read("in.rebalance_log", "").unwrap();
    assert!(log.contains("from worker 0 to worker 1: of the packets of 100 ms worker 0 100.0 %"), "{log}");
    let status = router.read("in.rebalance_status", "").unwrap();
    assert!(status.contains(&format!("moves\t{}\n", log.lines().count())), "{status}");
    assert!(router.read("in.rss_buckets", "").unwrap().lines().any(|line| line.contains("\t1\t")));
    fs::remove_file(input).unwrap();
}

#[test]
fn rules_of_a_port_drop_packets_and_choose_their_workers() {
    if !may_run() {
        return;
    }
    let input = pcap("rules", 64, 16);
    let file = std::env::temp_dir().join(format!("valiant-port-{}.rules", std::process::id()));
    let rule = |first: u16, last: u16, actions: &str| {
        format!(
            "flow create 0 pattern eth / ipv4 / udp src spec {first} src last {last} / end actions {actions} / end\n"
        )
    };
    let text =
        rule(0, 9, "count / drop") + &rule(10, 19, "count / queue index 1") + &rule(20, 29, "queue index 0");
    fs::write(&file, text).unwrap();
    let config = |rss: &str| {
        format!(
            "in :: FromDevice(\"net_pcap_rules{rss},rx_pcap={}\", RULES {}, RSS {rss}) -> w :: Witness -> out :: Counter -> Discard",
            input.display(),
            file.display()
        )
    };
    let mut running = router(&config("AUTO"), workers(2, Placement::Parallel)).unwrap();
    run_until(&mut running, |r| number(r, "out.count") == 54 * 16);
    let owners = owners(&seen(&running));
    assert!((0..10).all(|flow| !owners.contains_key(&flow)), "{owners:?}");
    for flow in 10..64 {
        let worker = match flow {
            10..=19 => 1,
            20..=29 => 0,
            _ => toeplitz(flow) as usize % 128 % 2,
        };
        assert_eq!(owners[&flow], BTreeSet::from([worker]), "flow {flow}");
    }
    assert_eq!(running.read("drops", "").unwrap(), "160\tin\ta rule says so\n");
    let rules = running.read("in.rules", "").unwrap();
    let lines: Vec<Vec<&str>> = rules.lines().map(|line| line.split('\t').take(3).collect()).collect();
    // The driver has no rules: that is why they are all in software.
    let place = "software (Function not implemented)";
    assert_eq!(lines, [["0", "160", place], ["1", "160", place], ["2", "-", place]], "{rules}");
    assert!(running.read("in.rules_json", "").unwrap().contains("\"packets\":160"));
    drop(running);
    // Where one worker has all packets, there is no other queue.
    let error = router(&config("NONE"), workers(2, Placement::Parallel)).map(drop).unwrap_err();
    assert!(error.contains("rule 1: there is no queue 1: packets go to 1 workers"), "{error}");
    // All that is wrong in a file is told, with its place; nothing runs then.
    fs::write(
        &file,
        rule(1, 2, "queue index 2") + "flow create 0 pattern eth / bread / end actions drop / end\n",
    )
    .unwrap();
    let wrong = format!("FromDevice(net_null0, RULES {}) -> Discard", file.display());
    let error = router(&wrong, workers(2, Placement::Parallel)).map(drop).unwrap_err();
    for part in [":1:68: there is no queue 2: packets go to 2 workers", ":2:29: "] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error =
        router("FromDevice(net_null0, RULES_ENGINE CARD) -> Discard", in_turn(1)).map(drop).unwrap_err();
    assert!(error.contains("bad RULES_ENGINE 'CARD'"), "{error}");
    fs::remove_file(input).unwrap();
    fs::remove_file(file).unwrap();
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

/// Two workers send four times what the reader of a ring can receive. Returns how many packets of each have
/// arrived.
fn shared_output(name: &str, middle: &str, bound: &str) -> [f64; 2] {
    let config = format!(
        "a0 :: FromDPDKDevice(net_null_{name}a, N_QUEUES 1) -> a :: Tag(1);
         b0 :: FromDPDKDevice(net_null_{name}b, N_QUEUES 1) -> b :: Tag(2);
         out :: ToDPDKDevice(net_ring_{name}, N_QUEUES 1);
         {middle}
         reader :: FromDPDKDevice(net_ring_{name}, BURST 16) -> l :: Classifier(34/0001, 34/0002);
         l -> ca :: Counter -> Discard; l [1] -> cb :: Counter -> Discard;
         StaticThreadSched(a0 0, b0 1, reader 2 {bound})"
    );
    let mut router = router(&config, in_turn(3)).unwrap();
    router.start();
    let mut before = [0; 2];
    for turn in 0..4000 {
        router.turn();
        if turn == 1000 {
            // From now on everything is full.
            before = [number(&mut router, "ca.count"), number(&mut router, "cb.count")];
        }
    }
    let after = [number(&mut router, "ca.count"), number(&mut router, "cb.count")];
    [(after[0] - before[0]) as f64, (after[1] - before[1]) as f64]
}

/// A queue that is shared follows the worker that sends most; over many changes nothing is lost or overtaken,
/// and what other workers than the queue's have sent is counted.
#[test]
fn a_shared_queue_goes_to_the_worker_that_sends_most_and_keeps_order() {
    if !may_run() {
        return;
    }
    // Each worker makes a flow of its own with numbers.
    let source = |n: usize| {
        format!("s{n} :: InfiniteSource(LENGTH 60, BURST 16, ACTIVE false) -> t{n} :: Number({n}) -> out; ")
    };
    let config = format!(
        "out :: ToDPDKDevice(net_ring_own, N_QUEUES 1); {}{}
         reader :: FromDPDKDevice(net_ring_own, RSS NONE, BURST 256) -> w :: Witness -> c :: Counter -> Discard;
         StaticThreadSched(s0 0, s1 1, reader 2)",
        source(0),
        source(1)
    );
    let mut router = router(&config, workers(3, Placement::Parallel)).unwrap();
    router.start();
    let owner = |r: &mut Router| r.read("out.owners", "").unwrap();
    assert!(
        owner(&mut router).starts_with("queue 0: worker 0, also for worker 1 and 2\n"),
        "{}",
        owner(&mut router)
    );
    for round in 0..4 {
        let active = 1 - round % 2;
        router.write(&format!("s{active}.active"), "true").unwrap();
        router.write(&format!("s{}.active", 1 - active), "false").unwrap();
        let own = format!("queue 0: worker {active},");
        run_until(&mut router, |r| owner(r).starts_with(&own));
    }
    (0..2).for_each(|n| router.write(&format!("s{n}.active"), "false").unwrap());
    let lost = |r: &mut Router| number(r, "out.dropped");
    run_until(&mut router, |r| {
        number(r, "s0.count") + number(r, "s1.count") == number(r, "c.count") + lost(r)
    });
    assert!(
        owner(&mut router).contains("\nchanges: 4\nlast change: queue 0 to worker 0: "),
        "{}",
        owner(&mut router)
    );
    let changed = number(&mut router, "out.changed_workers");
    assert!(changed > 0 && changed < number(&mut router, "c.count"));
    assert_eq!(number(&mut router, "changed_workers"), changed);
    let mut last: BTreeMap<u16, u32> = BTreeMap::new();
    for (_, flow, number) in seen(&router) {
        let before = last.insert(flow, number);
        assert!(before.is_none_or(|before| before < number), "flow {flow}: {number} after {before:?}");
    }
    assert_eq!(last.len(), 2);
}

/// The worker that has a queue gives it away also when it has nothing to send itself.
#[test]
fn a_queue_whose_worker_sends_nothing_goes_to_one_that_sends() {
    if !may_run() {
        return;
    }
    let config = "s0 :: RatedSource(LENGTH 60, RATE 20000) -> out :: ToDPDKDevice(net_null_idle, N_QUEUES 2);
         s2 :: RatedSource(LENGTH 60, RATE 20000) -> c2 :: Counter -> out;
         StaticThreadSched(s0 0, s2 2)";
    let mut router = router(config, workers(3, Placement::Parallel)).unwrap();
    router.start();
    let start = router.read("out.owners", "").unwrap();
    assert!(start.starts_with("queue 0: worker 0, also for worker 2\nqueue 1: worker 1\n"), "{start}");
    // Which of the two has which queue depends on how much either could send at first.
    run_until(&mut router, |r| {
        let owners = r.read("out.owners", "").unwrap();
        ["queue 0: worker 1", "queue 1: worker 1"].iter().all(|idle| !owners.contains(idle))
    });
    let (dropped, made) = (number(&mut router, "out.dropped"), number(&mut router, "c2.count"));
    run_until(&mut router, |r| number(r, "c2.count") > made + 1_000);
    assert!(number(&mut router, "out.dropped") < dropped + 500, "its packets are sent");
}

/// A memif peer that has opened one queue does not serve the second one: its packets go by the first.
#[test]
fn a_queue_that_the_peer_has_not_opened_is_not_used() {
    if !may_run() {
        return;
    }
    let socket = std::env::temp_dir().join(format!("valiant-placement-{}.sock", std::process::id()));
    let memif = |name: &str, role: &str| {
        format!("\"net_memif_{name},role={role},id=0,socket={},socket-abstract=no\"", socket.display())
    };
    let config = format!(
        "s0 :: InfiniteSource(LENGTH 60, BURST 16) -> out :: ToDPDKDevice({});
         s1 :: InfiniteSource(LENGTH 60, BURST 16) -> c1 :: Counter -> out;
         reader :: FromDPDKDevice({}, N_QUEUES 1, RSS NONE) -> c :: Counter -> Discard;
         StaticThreadSched(s0 0, s1 1, reader 0)",
        memif("server", "server"),
        memif("client", "client")
    );
    let mut router = router(&config, workers(2, Placement::Parallel)).unwrap();
    run_until(&mut router, |r| number(r, "out.changed_workers") > 100_000);
    let owners = router.read("out.owners", "").unwrap();
    assert!(
        owners.starts_with("queue 0: worker 0, also for worker 1\nqueue 1: not served by the other side\n"),
        "{owners}"
    );
    fs::remove_file(socket).ok();
}

/// Virtual routers (CoNEXT 2008) figure 11: if two workers fill one queue, and one of them empties it, they
/// do not get equal shares of an output that is too slow. If each has a queue, and a multiplexer serves these
/// in turn, they do.
#[test]
fn a_shared_queue_is_unfair_and_a_queue_for_each_worker_is_fair() {
    if !may_run() {
        return;
    }
    let shared = shared_output("one", "q :: Queue(1000) -> out; a -> q; b -> q;", ", out 0");
    let default = shared_output("each", "a -> out; b -> out;", "");
    eprintln!("shared queue: {shared:?}, Jain index {:.3}", jain(&shared));
    eprintln!("a queue for each worker: {default:?}, Jain index {:.4}", jain(&default));
    assert!(jain(&shared) < 0.9, "{shared:?}");
    assert!(shared[0] < shared[1], "who empties the queue has the smaller share: {shared:?}");
    assert!(jain(&default) >= 0.99, "{default:?}");
    assert!(default.iter().all(|n| *n > 1000.0), "{default:?}");
}

#[test]
fn a_peer_that_stops_reading_its_ring_stops_the_source_and_nothing_else() {
    if !may_run() {
        return;
    }
    for count in [1, 2] {
        let config = format!(
            "in :: FromDPDKDevice(net_null_s{count}) -> out :: ToDPDKDevice(net_ring_s{count}, N_QUEUES 1);
             other :: FromDPDKDevice(net_null_t{count}) -> free :: ToDPDKDevice(\"net_null_u{count},no-rx=1\")"
        );
        let mut router = router(&config, in_turn(count)).unwrap();
        router.start();
        (0..2000).for_each(|_| router.turn());
        let received = number(&mut router, "in.count");
        let free = number(&mut router, "free.count");
        (0..500).for_each(|_| router.turn());
        assert_eq!(number(&mut router, "in.count"), received, "the source rests");
        assert!(number(&mut router, "free.count") > free, "the others go on");
        let (sent, dropped) = (number(&mut router, "out.count"), number(&mut router, "out.dropped"));
        let waiting = number(&mut router, "out.waiting");
        assert_eq!(received, sent + dropped + waiting);
        assert_eq!(dropped, 0);
        assert!(sent > 0);
    }
}

#[test]
fn a_full_output_is_told_to_the_source_even_when_packets_can_also_go_elsewhere() {
    if !may_run() {
        return;
    }
    // The connection to Discard always has space, so the source notices only from its losses that it sends
    // too fast.
    let config = "in :: FromDPDKDevice(net_null_w) -> l :: Classifier(0/00, -) -> q :: Queue(100) -> Unqueue(ACTIVE false) -> Discard;
                  l [1] -> Discard";
    let mut router = router(config, in_turn(1)).unwrap();
    router.start();
    let began = Instant::now();
    let mut turns = 0u64;
    while began.elapsed() < Duration::from_millis(20) || turns < 2000 {
        router.turn();
        turns += 1;
    }
    let drops = number(&mut router, "q.drops");
    let received = number(&mut router, "in.count");
    assert_eq!(received, drops + 100);
    assert!(received < turns * 32 / 4, "{received} packets in {turns} turns");
    let cycles = router.read("q.cycles", "").unwrap();
    let field = |name: &str| -> u64 {
        cycles.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok()).unwrap()
    };
    assert_eq!(field("wasted_packets"), drops);
    assert!(field("wasted_cycles") > 0);
    assert!(router.read("cycles", "").unwrap().contains(&format!("wasted on {drops} packets")));
}

#[test]
fn sources_that_share_a_full_queue_all_get_a_share() {
    if !may_run() {
        return;
    }
    let ports = |n: usize| format!("FromDPDKDevice(net_null_f{n})");
    let made = |_: usize| "InfiniteSource(DATA x, BURST 32)".to_owned();
    for source in [&ports as &dyn Fn(usize) -> String, &made] {
        let sources: String = (0..3).map(|n| format!("{} -> c{n} :: Counter -> q; ", source(n))).collect();
        let config = format!("q :: Queue(1000) -> Unqueue(BURST 32) -> Discard; {sources}");
        let mut router = router(&config, in_turn(1)).unwrap();
        router.start();
        let total = |r: &mut Router| [0, 1, 2].map(|n| number(r, &format!("c{n}.count")));
        (0..2000).for_each(|_| router.turn());
        let counts = total(&mut router);
        let least = counts.iter().sum::<u64>() / 4;
        assert!(least > 1000 && counts.iter().all(|n| *n > least), "{counts:?} packets of the three sources");
    }
}

#[test]
fn a_source_that_waits_for_room_is_not_kept_out_by_what_does_not_wait() {
    if !may_run() {
        return;
    }
    let source = "InfiniteSource(DATA x, BURST 32)";
    let others = [
        // An element that pushes whether there is room or not.
        format!("{source} -> Queue(1000) -> Unqueue(BURST 32) -> other :: Counter -> q"),
        // One that also has another queue, with room.
        format!(
            "{source} -> t :: Tee -> other :: Counter -> q; t[1] -> Queue(50) -> Unqueue(BURST 8) -> Discard"
        ),
        // One with more tickets.
        format!("s :: {source} -> other :: Counter -> q; ScheduleInfo(s 2)"),
    ];
    for other in others {
        let config = format!(
            "q :: Queue(100) -> Unqueue(BURST 32) -> out :: Counter -> Discard; {source} -> own :: Counter -> q; {other}"
        );
        let mut router = router(&config, in_turn(1)).unwrap();
        router.start();
        (0..2000).for_each(|_| router.turn());
        let [own, all] = ["own.count", "out.count"].map(|handler| number(&mut router, handler));
        assert!(all > 10_000 && own * 5 > all && own * 5 < all * 4, "{own} of {all} packets: {other}");
    }
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

#[test]
fn flows_that_are_handed_over_survive_a_hot_swap() {
    if !may_run() {
        return;
    }
    let (flows, each) = (64, 2000);
    let input = pcap("swap", flows, each);
    let config = |name: &str| {
        format!(
            "in :: FromDPDKDevice(\"net_pcap_swap,rx_pcap={}\") -> w :: Witness -> {name} :: Null
             -> out :: ToDPDKDevice(\"net_null_swap,no-rx=1\", N_QUEUES 1)",
            input.display()
        )
    };
    let options = Options { hotswap: true, ..workers(3, Placement::Parallel) };
    let mut router = router(&config("n0"), options).unwrap();
    router.start();
    for n in 1..20 {
        router.write("hotconfig", &config(&format!("n{}", n % 3))).unwrap();
    }
    let total = u64::from(flows) * u64::from(each);
    // A busy machine may delay a worker for so long that its ring overflows.
    let dropped = |r: &mut Router| -> u64 {
        let drops = r.read("drops", "").unwrap();
        assert!(drops.lines().all(|line| line.ends_with("worker's ring full")), "{drops}");
        drops.lines().filter_map(|line| line.split('\t').next()?.parse::<u64>().ok()).sum()
    };
    run_until(&mut router, |r| number(r, "out.count") + dropped(r) == total);
    let seen = seen(&router);
    assert_eq!(seen.len() as u64 + dropped(&mut router), total);
    assert!(owners(&seen).values().all(|by| by.len() == 1));
    fs::remove_file(input).unwrap();
}

#[test]
fn a_hot_swap_keeps_the_table_while_buckets_change_workers() {
    if !may_run() {
        return;
    }
    let (flows, each) = (64, 4000);
    let input = pcap("swaptable", flows, each);
    let config = |name: &str| {
        format!(
            "in :: FromDPDKDevice(\"net_pcap_swaptable,rx_pcap={}\", REBALANCE false) -> w :: Witness -> {name} :: Null
             -> out :: Counter -> Discard",
            input.display()
        )
    };
    let options = Options { hotswap: true, ..workers(2, Placement::Parallel) };
    let mut router = router(&config("n0"), options).unwrap();
    router.start();
    for n in 1..20 {
        let table = ["weight 1 3", "equal 1", "weight 0 1", "(5,0)"][n % 4];
        router.write("in.rss_table", table).unwrap();
        let before = router.read("in.rss_table", "").unwrap();
        router.write("hotconfig", &config(&format!("n{}", n % 3))).unwrap();
        assert_eq!(router.read("in.rss_table", "").unwrap(), before, "{table}");
    }
    let total = u64::from(flows) * u64::from(each);
    run_until(&mut router, |r| all_there(r, total));
    owners_while_moving(&mut router);
    fs::remove_file(input).unwrap();
}

#[test]
fn what_an_element_holds_goes_on_when_a_hot_swap_binds_it_to_another_worker() {
    let config = |worker: u32| {
        format!(
            "a :: InfiniteSource(LIMIT 3) -> q :: Queue -> d :: DelayUnqueue(200ms) -> c :: Counter -> Discard;
             StaticThreadSched(a 0, d {worker})"
        )
    };
    let options = Options { hotswap: true, ..workers(2, Placement::Parallel) };
    let mut router = router(&config(0), options).unwrap();
    router.start();
    // One packet is in the Delay element, two wait in the queue.
    run_until(&mut router, |r| number(r, "q.length") == 2);
    router.write("hotconfig", &config(1)).unwrap();
    run_until(&mut router, |r| number(r, "c.count") == 3);
}

/// Whatever the new configuration, each packet is sent or counted as dropped.
#[test]
fn every_packet_is_accounted_for_over_random_hot_swaps() {
    if !may_run() {
        return;
    }
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut below = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut pick = move |from: &[&'static str]| from[below(from.len() as u64) as usize];
    let (flows, each) = (64, 1000);
    let total = u64::from(flows) * u64::from(each);
    let layouts = [(2, Placement::Parallel), (3, Placement::Pipeline), (3, Placement::Serial)];
    for (number, (count, placement)) in layouts.into_iter().enumerate() {
        let name = format!("books{number}");
        let input = pcap(&name, flows, each);
        let mut config = || {
            let (sender, burst) = (pick(&["out", "out", "next"]), pick(&["1", "7", "32", "64"]));
            let bound = pick(&["", "", ";StaticThreadSched(in 0)", ";StaticThreadSched(in 1)"]);
            let text = format!(
                "in :: FromDPDKDevice(\"net_pcap_{name},rx_pcap={}\", RSS {}, BURST {burst}) -> {} -> {sender} :: \
                 ToDPDKDevice(\"net_null_{name},no-rx=1\", N_QUEUES {}, FAIR {}, BURST {burst}, TIMEOUT {}, \
                 IQUEUE {}, BLOCKING {}) {bound}",
                input.display(),
                pick(&["AUTO", "SYMMETRIC", "NONE"]),
                pick(&["Null", "Queue(3000) -> Unqueue", "Queue(5000)", "n :: Null -> Queue -> Unqueue"]),
                pick(&["1", "2", "3"]),
                pick(&["PACKETS", "BYTES"]),
                pick(&["0", "20us", "5ms"]),
                pick(&["1", "40", "1024"]),
                pick(&["true", "false"]),
            );
            (sender, text)
        };
        let options = Options { hotswap: true, optimize: true, ..workers(count, placement) };
        let (mut sender, first) = config();
        let mut router = router(&first, options).unwrap();
        router.start();
        for _ in 0..15 {
            let (next, text) = config();
            router.write("hotconfig", &text).unwrap();
            sender = next;
        }
        run_until(&mut router, |r| {
            let drops = r.read("drops", "").unwrap();
            let dropped = drops.lines().filter_map(|line| line.split('\t').next()?.parse::<u64>().ok());
            // What the device has counted, across all hot swaps.
            dropped.sum::<u64>() + self::number(r, &format!("{sender}.hw_count")) == total
        });
        fs::remove_file(input).unwrap();
    }
}
