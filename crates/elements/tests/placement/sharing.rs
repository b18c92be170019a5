//! Transmit queues that workers share, and what full ones do to sources.

use super::*;

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
