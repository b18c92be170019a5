//! `valiant check --predict`, `valiant bench program` and `valiant bench elements`, as a user calls them.
//! Nothing here depends on how long anything takes.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const MADE: &str = "s :: InfiniteSource(DATA \\<00>, LENGTH 60, BURST 32) -> c :: Counter -> q :: Queue -> Unqueue(BURST 32) -> Discard;";

/// Runs a command with this directory for what is kept.
fn valiant(kept: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant")).args(arguments).env("XDG_CACHE_HOME", kept).output().unwrap()
}

fn json(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_sum_is_that_of_the_elements_and_is_compared_with_the_truth() {
    let kept = tempfile::tempdir().unwrap();
    let predicted = json(&valiant(kept.path(), &["check", "--predict", "--json", "-e", MADE]));
    let elements = predicted["elements"].as_array().unwrap();
    let names: Vec<&str> = elements.iter().filter_map(|e| e["name"].as_str()).collect();
    assert!(["s", "c", "q"].iter().all(|name| names.contains(name)), "{predicted}");
    let parts: f64 = elements.iter().map(|e| number(&e["cycles"]) * number(&e["share"])).sum();
    let sum = number(&predicted["cycles_per_packet"]);
    assert!((parts + number(&predicted["runtime_cycles"]) - sum).abs() < 0.001 * sum, "{predicted}");
    let rate = number(&predicted["rate_pps"]);
    assert!(
        (number(&predicted["tsc_hz"]) / sum / rate - 1.0).abs() < 0.001 && predicted["measured"].is_null()
    );
    assert!(kept.path().join("valiant/costs.json").exists());

    let done = valiant(kept.path(), &["bench", "program", "--json", "-e", MADE]);
    let measured = json(&done);
    let (real, error) = (&measured["measured"]["rate_pps"], &measured["measured"]["error_percent"]);
    let expected = (number(&measured["rate_pps"]) / number(real) - 1.0) * 100.0;
    assert!((number(error) - expected).abs() < 0.01, "{measured}");
    let there = measured["elements"].as_array().unwrap().iter().filter(|e| e["measured_cycles"].is_number());
    assert!(there.count() >= 3, "{measured}");
    let text = valiant(kept.path(), &["bench", "program", "-e", MADE]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("predicted: ") && text.contains("measured: ") && text.contains("error "), "{text}");
}

#[test]
fn elements_have_costs_of_batches_packets_and_bytes() {
    let kept = tempfile::tempdir().unwrap();
    let done = valiant(kept.path(), &["bench", "elements", "--json", "Strip(14)"]);
    let all = json(&done);
    let [strip] = &all["elements"].as_array().unwrap()[..] else { panic!("{all}") };
    for cost in ["batch_cycles", "packet_cycles", "byte_cycles", "cold_cycles"] {
        assert!(number(&strip[cost]) >= 0.0, "{strip}");
    }
    assert!(number(&strip["small_packet_cycles"]) > 0.0 && strip["before"] == "", "{strip}");
    let bad = valiant(kept.path(), &["bench", "elements", "Strip(x)", "Nonsense"]);
    let text = String::from_utf8_lossy(&bad.stdout).into_owned();
    assert!(!bad.status.success() && text.matches("not measured").count() == 2, "{text}");
}

#[test]
fn what_is_wrong_is_said() {
    let kept = tempfile::tempdir().unwrap();
    let two = "FromDevice(eth0) -> Queue -> ToDevice(eth1);";
    for (arguments, status, part) in [
        (&["check", "--predict", "-e", two][..], 1, "which packets come from eth0?"),
        (&["check", "--predict", "-e", two, "--traffic", "eth3=x.pcap"], 1, "nothing receives from eth3"),
        (&["check", "--predict", "-e", "Idle -> Discard"], 1, "no packets come in"),
        (&["check", "--predict", "-e", "InfiniteSource -> Strip(x) -> Discard"], 1, "config:1:25"),
        (&["check", "--predict", "--scale", "gpu=4", "-e", MADE], 2, "cpu, mem or io"),
        (&["check", "--predict", "--cpu", "99999", "-e", MADE], 1, "99999"),
        (&["check", "--traffic", "x.pcap", "-e", MADE], 2, "are for --predict"),
    ] {
        let done = valiant(kept.path(), arguments);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(status) && told.contains(part), "{arguments:?}: {done:?}");
    }
    let done = valiant(kept.path(), &["check", "--predict", "--json", "-e", two]);
    assert!(json(&done)["error"].as_str().is_some_and(|why| why.contains("eth0")), "{done:?}");
}
