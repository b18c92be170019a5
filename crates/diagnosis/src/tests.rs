//! Readings that somebody could have made, and what is said of them.

use crate::{Diagnosis, Finding, Interval, Kind, NotComparable, Reading};
use serde_json::{Value, json};

/// Cycles in the second between two readings.
const SECOND: u64 = 1_000_000_000;

/// An element with counters on each worker: packets, cycles.
fn element(name: &str, role: &str, to: &Value, on: &[(u64, u64)]) -> Value {
    let counters = on.iter().enumerate().map(|(worker, (packets, cycles))| {
        json!({
            "worker": worker, "packets": if role == "source" { 0 } else { *packets }, "batches": packets / 32,
            "emitted": packets, "emissions": packets / 32, "cycles": cycles,
        })
    });
    json!({"name": name, "class": "C", "role": role, "to": to, "workers": counters.collect::<Vec<_>>()})
}

/// A source, an element and a sink on each worker, which take these parts of a second's cycles; in the others
/// the source polls in vain.
fn chain(shares: &[[f64; 3]]) -> Value {
    let on = |index: usize| -> Vec<(u64, u64)> {
        shares.iter().map(|all| (1_000_000, (all[index] * SECOND as f64) as u64)).collect()
    };
    let mut source = element("in", "source", &json!([[1, "push"]]), &on(0));
    for (worker, all) in shares.iter().enumerate() {
        let empty = (1.0 - all.iter().sum::<f64>()).max(0.0);
        source["workers"][worker]["empty_cycles"] = ((empty * SECOND as f64) as u64).into();
    }
    source["burst"] = 32.into();
    source["port"] = "eth0".into();
    source["polls"] = json!(vec![1; shares.len()]);
    let worker = |n: usize| json!({"worker": n, "ran_ns": SECOND, "waited_ns": 0, "cpu": n, "may_use_cpus": n.to_string(), "cache_bytes": 1 << 20});
    json!({
        "format": 1, "time_ns": SECOND, "cycles": SECOND, "generation": 0, "shares_threads": false,
        "workers": (0..shares.len()).map(worker).collect::<Vec<_>>(),
        "elements": [
            source,
            element("work", "ordinary", &json!([[2, "push"]]), &on(1)),
            element("out", "sink", &json!([]), &on(2)),
        ],
        "ports": [{"name": "eth0", "state": "up", "link_mbps": 10_000, "rx_queues": shares.len(), "rx_packets": 1_000_000,
            "rx_missed": 0, "rx_no_buffer": 0, "tx_packets": 0, "tx_bytes": 0}],
        "pools": [{"buffers": 10_000, "free": 8_000}],
    })
}

/// The same with all counters at zero: what the router was before.
fn before(reading: &Value) -> Value {
    let mut before = reading.clone();
    (before["time_ns"], before["cycles"]) = (0.into(), 0.into());
    for worker in before["workers"].as_array_mut().unwrap() {
        for counter in ["ran_ns", "waited_ns", "lock_ns", "cpu_stolen_ticks", "taskless_cycles"] {
            worker[counter] = 0.into();
        }
    }
    for element in before["elements"].as_array_mut().unwrap() {
        element["workers"] = json!([]);
    }
    for port in before["ports"].as_array_mut().unwrap() {
        for counter in ["rx_packets", "rx_missed", "rx_no_buffer", "tx_packets", "tx_bytes"] {
            port[counter] = 0.into();
        }
    }
    before
}

fn parsed(reading: &Value) -> Reading {
    Reading::parse(&reading.to_string()).unwrap()
}

fn diagnosis(reading: &Value) -> Diagnosis {
    Diagnosis::of(Interval::of(&[parsed(&before(reading)), parsed(reading)]).unwrap())
}

fn verdict(reading: &Value) -> Finding {
    diagnosis(reading).verdict
}

#[test]
fn a_busy_worker_is_the_limit_if_more_comes_than_it_takes() {
    let mut reading = chain(&[[0.1, 0.8, 0.08]]);
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Core, Some("worker 0")));
    assert!(found.sentence.contains("work (C)"), "{}", found.sentence);
    // Bursts of half the length: it would take more at once if more came.
    reading["elements"][0]["burst"] = 64.into();
    assert_eq!(verdict(&reading).kind, Kind::Traffic);
    reading["ports"][0]["rx_missed"] = 5_000.into();
    let found = verdict(&reading);
    assert_eq!(found.kind, Kind::Core);
    assert!(
        found
            .evidence
            .iter()
            .any(|line| line.contains("5000 packets were lost at the receive ring of eth0: 0.5 %")),
        "{found:?}"
    );
}

#[test]
fn the_ratio_of_busy_and_empty_cycles_counts_if_few_runs_are_timed() {
    let mut reading = chain(&[[0.1, 0.3, 0.1]]);
    // As many cycles as could not be, from a sample that was too small.
    reading["elements"][0]["workers"][0]["empty_cycles"] = (3 * SECOND).into();
    let json = diagnosis(&reading).json();
    let busy = json["workers"][0]["busy"].as_f64().unwrap();
    assert!((busy - 0.5 / 3.5).abs() < 1e-6, "{busy}");
}

#[test]
fn what_a_worker_waits_for_comes_before_how_busy_it_looks() {
    let mut reading = chain(&[[0.1, 0.8, 0.1]]);
    (reading["workers"][0]["ran_ns"], reading["workers"][0]["waited_ns"]) =
        ((SECOND / 2).into(), (SECOND / 2).into());
    assert_eq!(verdict(&reading).kind, Kind::Processor);
    let mut reading = chain(&[[0.1, 0.8, 0.1], [0.1, 0.8, 0.1]]);
    for worker in 0..2 {
        (reading["workers"][worker]["lock_ns"], reading["workers"][worker]["lock_waits"]) =
            ((SECOND / 3).into(), 9.into());
    }
    let found = verdict(&reading);
    assert_eq!(found.kind, Kind::Lock);
    assert!(found.sentence.contains("workers 0 and 1"), "{}", found.sentence);
    let mut reading = chain(&[[0.1, 0.8, 0.1]]);
    reading["elements"][2]["workers"][0]["full_cycles"] = (SECOND / 2).into();
    reading["elements"][2]["port"] = "eth0".into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Transmit, Some("eth0")));
}

#[test]
fn others_on_a_processor_limit_only_a_worker_that_is_short_of_time() {
    let mut reading = chain(&[[0.1, 0.2, 0.1], [0.1, 0.8, 0.08]]);
    (reading["workers"][0]["ran_ns"], reading["workers"][0]["waited_ns"]) =
        ((SECOND / 2).into(), (SECOND * 3 / 10).into());
    reading["ports"][0]["rx_missed"] = 5_000.into();
    let found = diagnosis(&reading);
    assert_eq!(found.verdict.at.as_deref(), Some("worker 1"), "{:?}", found.verdict);
    assert!(found.others.iter().any(|other| other.kind == Kind::Processor), "{:?}", found.others);
}

#[test]
fn a_full_queue_is_explained_by_who_empties_it() {
    let mut reading = chain(&[[0.1, 0.1, 0.1]]);
    let elements = reading["elements"].as_array_mut().unwrap();
    elements[1]["capacity"] = 100.into();
    elements[1]["workers"][0]["full_cycles"] = (SECOND / 2).into();
    elements[1]["workers"][0]["drops"] = json!({"queue full": 7});
    assert_eq!(verdict(&reading).kind, Kind::Queue);
    reading["elements"][1]["to"] = json!([[2, "pull~"]]);
    reading["elements"][2]["role"] = "rate limit".into();
    // It seldom holds anything back.
    reading["elements"][2]["workers"][0]["full_cycles"] = (SECOND / 4).into();
    assert_eq!(verdict(&reading).kind, Kind::Queue);
    reading["elements"][2]["workers"][0]["full_cycles"] = (SECOND / 20 * 19).into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::RateLimit, Some("out")));
    assert!(found.evidence.iter().any(|line| line.contains("7 packets were dropped")), "{found:?}");
    reading["elements"][2]["role"] = "delay".into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::RateLimit, Some("out")));
    assert!(found.sentence.contains("for a time"), "{}", found.sentence);
    // Nobody takes anything.
    let mut reading = chain(&[[0.1, 0.1, 0.1]]);
    (reading["elements"][1]["capacity"], reading["elements"][1]["length"]) = (100.into(), 5.into());
    reading["elements"][1]["workers"][0]["emitted"] = 0.into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Stopped, Some("work")));
    let mut reading = chain(&[[0.0, 0.0, 0.0]]);
    reading["elements"][0]["active"] = false.into();
    assert_eq!(verdict(&reading).kind, Kind::Stopped);
}

#[test]
fn the_worker_that_a_full_queue_waits_for_is_the_limit() {
    let mut reading = chain(&[[0.9, 0.0, 0.09], [0.0, 0.95, 0.04]]);
    let elements = reading["elements"].as_array_mut().unwrap();
    elements[0]["workers"][1] = json!({"worker": 1});
    elements[0]["to"] = json!([[1, "pull"]]);
    (elements[0]["capacity"], elements[0]["length"]) = (100.into(), 90.into());
    elements[1]["workers"][0] = json!({"worker": 0});
    let found = verdict(&reading);
    assert_eq!(found.at.as_deref(), Some("worker 1"), "{found:?}");
    assert!(matches!(found.kind, Kind::Core | Kind::Imbalance), "{found:?}");
}

#[test]
fn a_worker_that_sleeps_in_an_element_is_blocked() {
    let mut reading = chain(&[[0.01, 0.08, 0.01]]);
    reading["ports"][0]["rx_missed"] = 100.into();
    reading["workers"][0]["blocked_in"] = "'work :: C'".into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Blocked, Some("work")));
    // One of many readings is no more than a page that was read from a disk.
    let first = before(&chain(&[[0.01, 0.08, 0.01]]));
    let mut readings = vec![parsed(&first)];
    for at in 1..10u64 {
        let mut more = first.clone();
        (more["time_ns"], more["cycles"]) = (at.into(), at.into());
        readings.push(parsed(&more));
    }
    readings.push(parsed(&reading));
    assert_eq!(Diagnosis::of(Interval::of(&readings).unwrap()).verdict.kind, Kind::ReceiveRing);
}

#[test]
fn who_shares_a_processor_is_named() {
    let mut reading = chain(&[[0.1, 0.8, 0.1], [0.1, 0.8, 0.1]]);
    for worker in 0..2 {
        let worker = &mut reading["workers"][worker];
        (worker["ran_ns"], worker["waited_ns"]) = ((SECOND / 2).into(), (SECOND / 2).into());
        worker["may_use_cpus"] = "3".into();
    }
    let found = verdict(&reading);
    assert!(
        found.kind == Kind::Processor && found.sentence.contains("workers 0 and 1 share one processor"),
        "{found:?}"
    );
    // Shown to be stuck by the watchdog, but it has had no processor.
    reading["workers"][0]["stuck"] = json!({"element": "'work :: C'", "seconds": 7});
    (reading["workers"][0]["ran_ns"], reading["workers"][0]["waited_ns"]) = (0.into(), SECOND.into());
    assert_eq!(verdict(&reading).kind, Kind::Processor);
    // Nobody waits for a worker that has nothing more to do.
    let mut reading = chain(&[[0.1, 0.8, 0.1]]);
    (reading["workers"][0]["ran_ns"], reading["workers"][0]["waited_ns"]) =
        ((SECOND / 5 * 3).into(), (SECOND / 5 * 2).into());
    reading["elements"][0]["burst"] = 64.into();
    assert_eq!(verdict(&reading).kind, Kind::Traffic);
    // A virtual router that gets no more.
    let mut reading = chain(&[[0.1, 0.35, 0.04]]);
    reading["shares_threads"] = true.into();
    reading["elements"][0]["workers"][0]["empty_cycles"] = 0.into();
    assert_eq!(verdict(&reading).kind, Kind::Share);
    reading["elements"][0]["workers"][0]["empty_cycles"] = (SECOND / 2).into();
    assert_eq!(verdict(&reading).kind, Kind::Traffic);
}

#[test]
fn unequal_work_is_told_from_too_much() {
    let uneven = chain(&[[0.1, 0.8, 0.1], [0.01, 0.08, 0.01]]);
    let found = verdict(&uneven);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Imbalance, Some("worker 0")));
    assert!(found.sentence.contains("worker 1 could do more"), "{}", found.sentence);
    let even = chain(&[[0.1, 0.8, 0.1], [0.1, 0.79, 0.1]]);
    let found = verdict(&even);
    assert_eq!(found.kind, Kind::Core);
    assert!(found.sentence.starts_with("2 of 2 workers"), "{}", found.sentence);
    let mut polls = uneven;
    polls["elements"][0]["polls"] = json!([1, 0]);
    assert!(verdict(&polls).evidence.iter().any(|line| line.contains("which it polls alone")), "{polls}");
}

#[test]
fn memory_is_the_limit_if_what_is_read_fits_into_no_cache() {
    let mut reading = chain(&[[0.1, 0.8, 0.1]]);
    reading["elements"][1]["working_set"] = (1 << 19).into();
    assert_eq!(verdict(&reading).kind, Kind::Core);
    reading["elements"][1]["working_set"] = (1 << 26).into();
    assert_eq!(verdict(&reading).kind, Kind::Memory);
}

#[test]
fn missing_buffers_are_where_packets_wait() {
    let mut reading = chain(&[[0.01, 0.08, 0.01]]);
    reading["pools"][0]["free"] = 10.into();
    // Nothing is lost, and nobody holds them: they are in the rings of ports.
    assert_eq!(verdict(&reading).kind, Kind::Traffic);
    (reading["elements"][1]["capacity"], reading["elements"][1]["length"]) = (100_000.into(), 9_000.into());
    let found = verdict(&reading);
    assert_eq!(found.kind, Kind::Buffers);
    assert!(
        found.evidence.iter().any(|line| line.contains("work (C) holds up to 9000 of them")),
        "{found:?}"
    );
}

#[test]
fn losses_without_a_busy_worker_are_bursts() {
    let mut reading = chain(&[[0.01, 0.08, 0.01]]);
    reading["ports"][0]["rx_missed"] = 100.into();
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::ReceiveRing, Some("eth0")));
}

#[test]
fn drops_by_rule_are_told_and_are_the_verdict_only_if_nothing_limits() {
    let mut reading = chain(&[[0.01, 0.08, 0.01]]);
    reading["elements"][1]["workers"][0]["drops"] = json!({"no route": 1_000});
    let all = diagnosis(&reading);
    assert_eq!((all.verdict.kind, all.others.len()), (Kind::Traffic, 1), "{all:?}");
    reading["elements"][1]["workers"][0]["drops"] = json!({"no route": 400_000, "another": 5});
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Drops, Some("work")));
    assert!(
        found.sentence.contains("40 % of the packets") && found.sentence.contains("no route"),
        "{}",
        found.sentence
    );
}

#[test]
fn ports_and_workers_that_do_nothing_any_more() {
    let mut reading = chain(&[[0.01, 0.08, 0.01]]);
    reading["ports"][0]["state"] = "down".into();
    // Packets come: it is told, but is not what limits the router.
    let all = diagnosis(&reading);
    assert_eq!((all.verdict.kind, all.others[0].kind), (Kind::Traffic, Kind::Port));
    reading["ports"][0]["state"] = "gone".into();
    assert_eq!(verdict(&reading).kind, Kind::Port);
    reading["ports"][0]["state"] = "up".into();
    reading["workers"][0]["stuck"] = json!({"element": "'work :: C'", "seconds": 7});
    let found = verdict(&reading);
    assert_eq!((found.kind, found.at.as_deref()), (Kind::Stuck, Some("work")));
}

#[test]
fn nothing_is_wrong_with_a_router_that_is_idle() {
    let mut reading = chain(&[[0.0, 0.0, 0.0]]);
    for element in reading["elements"].as_array_mut().unwrap() {
        element["workers"] = json!([]);
    }
    let all = diagnosis(&reading);
    assert_eq!(all.verdict.kind, Kind::Idle);
    assert!(all.text().starts_with("Nothing is wrong: no packets come."), "{}", all.text());
    assert!(!all.text().contains("NaN") && !all.json().to_string().contains("null,\"pps"), "{}", all.text());
}

#[test]
fn time_without_a_task_is_not_work() {
    let mut reading = chain(&[[0.0001, 0.0, 0.0]]);
    reading["elements"][0]["workers"][0]["empty_cycles"] = 0.into();
    reading["workers"][0]["taskless_cycles"] = (SECOND * 9 / 10).into();
    let all = diagnosis(&reading);
    assert_eq!(all.verdict.kind, Kind::Traffic, "{}", all.text());
    assert!(all.json()["workers"][0]["busy"].as_f64().unwrap() < 0.01, "{}", all.text());
}

#[test]
fn readings_that_do_not_belong_together_are_refused() {
    let reading = chain(&[[0.1, 0.1, 0.1]]);
    let (first, last) = (parsed(&before(&reading)), parsed(&reading));
    let of = |readings: &[&Reading]| {
        Interval::of(&readings.iter().map(|r| (*r).clone()).collect::<Vec<_>>()).err()
    };
    assert_eq!(of(&[]), Some(NotComparable::NoTime));
    assert_eq!(of(&[&first]), Some(NotComparable::NoTime));
    assert_eq!(of(&[&last, &first]), Some(NotComparable::Replaced));
    assert_eq!(of(&[&first, &last, &last]), Some(NotComparable::Replaced));
    let mut other = reading.clone();
    other["elements"][1]["name"] = "another".into();
    assert_eq!(of(&[&first, &parsed(&other)]), Some(NotComparable::Replaced));
    let mut swapped = reading.clone();
    swapped["generation"] = 1.into();
    assert_eq!(of(&[&first, &parsed(&swapped)]), Some(NotComparable::Replaced));
    let mut newer = reading.clone();
    newer["format"] = 2.into();
    let wrong = Reading::parse(&newer.to_string()).unwrap_err();
    assert!(wrong.contains("format 2"), "{wrong}");
    assert!(Reading::parse("{}").is_err() && Reading::parse("nonsense").is_err());
    // Fields and roles that a later version adds are no error.
    let mut more = reading;
    (more["more"], more["elements"][1]["role"]) = (1.into(), "cluster".into());
    assert!(Reading::parse(&more.to_string()).is_ok());
}

#[test]
fn counters_that_were_reset_count_from_zero() {
    let reading = chain(&[[0.01, 0.08, 0.01]]);
    let mut first = before(&reading);
    first["elements"][1]["workers"] = json!([{"worker": 0, "packets": u64::MAX, "cycles": u64::MAX}]);
    let interval = Interval::of(&[parsed(&first), parsed(&reading)]).unwrap();
    assert_eq!(Diagnosis::of(interval).verdict.kind, Kind::Traffic);
}
