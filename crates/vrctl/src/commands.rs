//! Commands that ask a running host.

use crate::args::{HostFileArgs, JsonFile, NamedRouter};
use crate::file::HostFile;
use crate::run::{read, socket_in};
use crate::socket::{Request, ask};
use launch::Failure;
use launch::output::print;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The stretch over which rates are measured.
const STRETCH: Duration = Duration::from_millis(500);

/// Asks the host of a file. It reads the file itself if it needs more of it than where its socket is.
fn asked(file: &Path, request: &Request) -> Result<Value, Failure> {
    let refused = match ask(&socket_in(&HostFile::directory_of(file)?), request) {
        Ok(value) => return Ok(value),
        Err(refused) => refused,
    };
    if let Request::Apply | Request::Add(_) = request {
        // Its errors are shown with the lines of the file.
        read(file)?;
    }
    Err(refused.into())
}

/// `valiant vr status`.
pub(crate) fn status(args: &JsonFile) -> Result<ExitCode, Failure> {
    let before = asked(&args.file, &Request::Status)?;
    std::thread::sleep(STRETCH);
    let mut now = asked(&args.file, &Request::Status)?;
    add_rates(&before, &mut now);
    print(&if args.json { format!("{now}\n") } else { table(&now) });
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr apply`.
pub(crate) fn apply(args: &JsonFile) -> Result<ExitCode, Failure> {
    let done = asked(&args.file, &Request::Apply)?;
    if args.json {
        print(&format!("{done}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let names = |key: &str| -> Vec<&str> {
        done[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let mut text = String::new();
    for (key, what) in [
        ("added", "added"),
        ("removed", "removed"),
        ("swapped", "program changed, state kept"),
        ("limited", "share or limits changed"),
        ("restarted", "started anew"),
    ] {
        for name in names(key) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}: {what}");
        }
    }
    print(if text.is_empty() { "nothing has changed\n" } else { &text });
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr add` and `valiant vr remove`.
pub(crate) fn change(args: &NamedRouter, request: &Request) -> Result<ExitCode, Failure> {
    asked(&args.file, request)?;
    Ok(ExitCode::SUCCESS)
}

/// `valiant vr down`.
pub(crate) fn down(args: &HostFileArgs) -> Result<ExitCode, Failure> {
    asked(&args.file, &Request::Down)?;
    Ok(ExitCode::SUCCESS)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Adds to each router its packets a second and its part of the processors' time, by the change since
/// `before`.
fn add_rates(before: &Value, now: &mut Value) {
    let seconds = number(&now["seconds"]) - number(&before["seconds"]);
    let cycles = (number(&now["cycles"]) - number(&before["cycles"])) * number(&now["threads"]);
    let shares: f64 =
        now["routers"].as_array().into_iter().flatten().map(|router| number(&router["share"])).sum();
    let sum = |router: &Value, key: &str| -> f64 {
        router["interfaces"].as_array().into_iter().flatten().map(|interface| number(&interface[key])).sum()
    };
    let known = before["routers"].as_array().cloned().unwrap_or_default();
    for router in now["routers"].as_array_mut().into_iter().flatten() {
        let Some(old) = known.iter().find(|old| old["name"] == router["name"]) else { continue };
        if seconds <= 0.0 || cycles <= 0.0 {
            continue;
        }
        for (key, rate) in
            [("received", "received_pps"), ("sent", "sent_pps"), ("lost_queue_full", "lost_pps")]
        {
            router[rate] = ((sum(router, key) - sum(old, key)).max(0.0) / seconds).round().into();
        }
        router["time"] = ((number(&router["cycles"]) - number(&old["cycles"])).max(0.0) / cycles).into();
        router["time_due"] = (number(&router["share"]) / shares.max(1.0)).into();
    }
}

/// The limits that a router has reached, and its runs that did not end in time.
fn troubles(router: &Value) -> String {
    let mut text = String::new();
    for (limit, times) in router["refused"].as_object().into_iter().flatten() {
        if let Some(times @ 1..) = times.as_u64() {
            // Writing to a string cannot fail.
            let _ = write!(text, "; limit {limit}: {times} refused");
        }
    }
    if let Some(element) = router["stalled_in"].as_str() {
        let ms = number(&router["longest_stall_ms"]);
        let _ = write!(text, "; has held a worker for {ms} ms in {element}: give it scheme = \"direct\"");
    }
    text
}

/// The routers and the ports as a table.
fn table(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<16} {:<8} {:>5} {:>12} {:>12} {:>10} {:>7} {:>7}  state",
        "router", "scheme", "share", "received/s", "sent/s", "lost/s", "time", "due"
    );
    for router in status["routers"].as_array().into_iter().flatten() {
        let failures = number(&router["failures"]);
        let own = router["process"].as_u64().filter(|_| router["scheme"] == "direct");
        let process = own.map_or_else(String::new, |process| format!(" in process {process}"));
        let times = if failures == 1.0 { "once".to_owned() } else { format!("{failures} times") };
        let state = match (router["running"].as_bool(), failures > 0.0) {
            _ if router["ended"] == true => "has ended".to_owned(),
            (Some(true), false) => format!("runs{process}"),
            (Some(true), true) => format!("runs{process}, has failed {times}"),
            (_, false) => "starts".to_owned(),
            _ => format!("waits after failure {failures}"),
        };
        let state = state + &troubles(router);
        let _ = writeln!(
            out,
            "{:<16} {:<8} {:>5} {:>12} {:>12} {:>10} {:>6.1}% {:>6.1}%  {state}",
            text(&router["name"]),
            text(&router["scheme"]),
            number(&router["share"]),
            number(&router["received_pps"]),
            number(&router["sent_pps"]),
            number(&router["lost_pps"]),
            number(&router["time"]) * 100.0,
            number(&router["time_due"]) * 100.0,
        );
    }
    let _ = writeln!(
        out,
        "\n{:<16} {:<16} {:>14} {:>14} {:>10} {:>16} {:>10}",
        "port", "device", "received", "sent", "missed", "for nobody", "malformed"
    );
    for port in status["ports"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "{:<16} {:<16} {:>14} {:>14} {:>10} {:>16} {:>10}",
            text(&port["name"]),
            text(&port["device"]),
            number(&port["received"]),
            number(&port["sent"]),
            number(&port["missed"]),
            number(&port["nobody_has_the_tag"]) + number(&port["nobody_has_the_address"]),
            number(&port["malformed"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_are_of_the_stretch_between_two_looks() {
        let look = |cycles: u64, received: u64, used: u64| {
            json!({"cycles": cycles, "seconds": cycles as f64 / 1000.0, "threads": 2, "ports": [], "routers": [
                {"name": "a", "scheme": "shared", "share": 3, "cycles": used, "running": true, "failures": 0,
                 "interfaces": [{"received": received, "sent": 0, "lost_queue_full": 1}]},
                {"name": "b", "scheme": "shared", "share": 1, "cycles": 0, "running": false, "failures": 2, "interfaces": []},
            ]})
        };
        let (before, mut now) = (look(1000, 50, 100), look(3000, 450, 1100));
        add_rates(&before, &mut now);
        let a = &now["routers"][0];
        assert_eq!((number(&a["received_pps"]), number(&a["lost_pps"])), (200.0, 0.0));
        assert_eq!((number(&a["time"]), number(&a["time_due"])), (0.25, 0.75));
        let text = table(&now);
        assert!(text.contains("25.0%") && text.contains("waits after failure 2"), "{text}");
        let a = &mut now["routers"][0];
        (a["stalled_in"], a["longest_stall_ms"]) = ("'f :: Fault'".into(), 1500.into());
        a["refused"] = json!({"routes": 3, "log_lines": 0});
        let text = table(&now);
        assert!(
            text.contains("runs; limit routes: 3 refused; has held a worker for 1500 ms in 'f :: Fault'"),
            "{text}"
        );
        now["routers"][0]["scheme"] = "direct".into();
        now["routers"][0]["process"] = 77.into();
        now["routers"][1]["ended"] = true.into();
        let text = table(&now);
        assert!(text.contains("runs in process 77;") && text.contains("has ended\n"), "{text}");
    }
}
