//! Flows that are spread over workers in software or by a device: the hash, its table, and rules.

use super::*;

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
