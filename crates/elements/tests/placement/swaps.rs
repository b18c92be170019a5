//! Hot swaps while flows change workers.

use super::*;

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
