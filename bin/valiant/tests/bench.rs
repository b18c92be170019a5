//! `valiant bench host`, as a user calls it.

use serde_json::Value;
use std::process::{Command, Output};

fn host(arguments: &[&str]) -> Output {
    let quick = ["bench", "host", "--samples", "1", "--sample", "1"];
    Command::new(env!("CARGO_BIN_EXE_valiant")).args(quick).args(arguments).output().unwrap()
}

#[test]
fn this_machine_is_measured() {
    let done = host(&["--memory", "2", "--json"]);
    let json: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    let sizes: Vec<_> = json["lines"].as_array().unwrap().iter().map(|line| &timed(line)["bytes"]).collect();
    assert_eq!((sizes.len(), sizes[7].as_u64()), (8, Some(2 << 20)), "{json}");
    for stream in json["streams"].as_array().unwrap() {
        assert!(stream["one_bytes_per_second"]["median"].as_f64().is_some_and(|rate| rate > 0.0), "{json}");
    }
    let text = String::from_utf8(host(&["--memory", "1"]).stdout).unwrap();
    assert!(text.contains("one after another") && text.contains("Mpps"), "{text}");
}

/// A line that has a time.
fn timed(line: &Value) -> &Value {
    assert!(line["one_after_another_ns"]["least"].as_f64().is_some_and(|ns| ns > 0.0), "{line}");
    line
}

#[test]
fn what_is_wrong_is_said() {
    for (arguments, part) in [
        (["--cpus", "x"], "not a list of CPUs"),
        (["--cpus", "99999"], "processor 99999"),
        (["--memory", "99999999"], "a quarter of the memory"),
        (["--samples", "0"], "--samples"),
    ] {
        let done = host(&arguments);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && told.contains(part), "{arguments:?}: {told}");
    }
}
