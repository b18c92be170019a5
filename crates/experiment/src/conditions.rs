//! The conditions of an experiment, for its page.

use crate::alone::{self, Alone};
use crate::html::{strings, table};
use crate::reading::{Reading, Row};
use measure::rate::OVERHEAD;
use serde_json::Value;
use std::fmt::Write;

/// Bytes in the largest unit that leaves a whole number.
fn bytes(bytes: u64) -> String {
    match bytes {
        n if n >= 1 << 30 => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n => format!("{} KiB", n >> 10),
    }
}

fn list(value: &Value) -> String {
    let words = value.as_array().into_iter().flatten().map(|one| match one {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// What a machine is made of, line by line.
fn machine_rows(machine: &Value) -> Vec<Vec<String>> {
    let text = |key: &str| machine.get(key).and_then(Value::as_str).unwrap_or("not known").to_owned();
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
    let empty = Vec::new();
    let all = |key: &str| machine.get(key).and_then(Value::as_array).unwrap_or(&empty).iter();
    let host = machine.get("host").and_then(Value::as_str);
    let mut rows: Vec<Vec<String>> = host.iter().map(|host| strings(&["Host", host])).collect();
    rows.push(strings(&["Processor", &text("model")]));
    if let Some(processors) = machine.get("processors") {
        let cores = number(machine, "cores").map_or_else(String::new, |n| format!(", {n} cores"));
        rows.push(vec!["Processors".to_owned(), format!("{}{cores}", list(processors))]);
    }
    for cache in all("caches") {
        let (Some(level), Some(size)) = (number(cache, "level"), number(cache, "bytes")) else { continue };
        let kind = cache.get("kind").and_then(Value::as_str).unwrap_or_default();
        let shared = cache.get("shared_by").map(list).unwrap_or_default();
        rows.push(vec![format!("Cache L{level} {kind}"), format!("{}, of processors {shared}", bytes(size))]);
    }
    for node in all("nodes") {
        let id = number(node, "node").unwrap_or_default();
        let (own, far) = (list(&node["processors"]), list(&node["distances"]));
        rows.push(vec![format!("NUMA node {id}"), format!("processors {own}; distances {far}")]);
    }
    if let Some(available) = number(machine, "available_bytes") {
        rows.push(vec!["Memory available".to_owned(), bytes(available)]);
    }
    for nic in all("nics") {
        let word = |key: &str| nic.get(key).and_then(Value::as_str).map(str::to_owned);
        let id = number(nic, "vendor").zip(number(nic, "device"));
        let link = nic.get("link").and_then(|link| {
            let (speed, lanes) = (link.get("gigatransfers")?.as_f64()?, number(link, "lanes")?);
            Some(format!("PCI Express {speed} GT/s x{lanes}"))
        });
        let parts = [
            id.map(|(vendor, device)| format!("{vendor:04x}:{device:04x}")),
            nic.get("interfaces").map(list).filter(|names| !names.is_empty()),
            word("driver").map(|driver| format!("driver {driver}")),
            word("firmware").map(|firmware| format!("firmware {firmware}")),
            link,
            number(nic, "mbps").map(|mbps| format!("{mbps} Mb/s")),
        ];
        let name = format!("NIC {}", word("address").unwrap_or_default());
        rows.push(vec![name, parts.into_iter().flatten().collect::<Vec<_>>().join(", ")]);
    }
    rows.push(strings(&["Kernel", &format!("Linux {}", text("kernel"))]));
    for (key, name) in [
        ("classifier", "Packet classifier"),
        ("device", "Device"),
        ("driver", "Driver"),
        ("firmware", "Firmware"),
        ("dpdk", "DPDK"),
    ] {
        let value = machine.get(key).and_then(Value::as_str);
        rows.extend(value.map(|value| strings(&[name, value])));
    }
    rows
}

/// The machine, the version, the command, the traffic, and what numbers count.
pub(crate) fn conditions(r: &Reading) -> String {
    let seconds: f64 = r.results.iter().flat_map(|row| &row.rounds).map(|round| round.traffic_seconds).sum();
    let sizes = r.results.iter().filter_map(Row::frame_bytes);
    let (low, high) = sizes.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let mut text = String::new();
    let mut rows = machine_rows(&r.machine);
    rows.push(strings(&["Valiant", &r.version]));
    if let Some(command) = &r.command {
        rows.push(strings(&["Command", command]));
    }
    let traffic = if r.counted.is_empty() {
        format!("leaves by {}; returns at {}", r.to.join(", "), r.sink.join(", "))
    } else {
        format!("made by the device itself; what counts goes through {}", r.counted.join(", "))
    };
    rows.push(vec!["Traffic".to_owned(), traffic]);
    rows.push(vec!["Traffic lasted".to_owned(), format!("{seconds:.1} s in all trials that count")]);
    rows.push(vec!["Rounds".to_owned(), r.rounds.to_string()]);
    let disturbed: u64 = r.results.iter().map(|row| row.trials_disturbed).max().unwrap_or(0);
    rows.push(vec!["Disturbed trials".to_owned(), format!("up to {disturbed} of a point: generator or device had to wait for a processor, and the trial was made again")]);
    let of_all: Vec<Alone> = r.results.iter().flat_map(|row| row.calibration.iter().copied()).collect();
    if let Some(text) = alone::text(&of_all) {
        rows.push(vec!["Calibration".to_owned(), text]);
    }
    let apart = !r.device_machines.is_empty();
    text += &table(&strings(&[if apart { "generator" } else { "what" }, "which"]), &rows, 2);
    for machine in &r.device_machines {
        text += &table(&strings(&["device", "which"]), &machine_rows(machine), 2);
    }
    let mean = if high > 0.0 { format!(" Frames had {low:.0} to {high:.0} bytes.") } else { String::new() };
    let _ = writeln!(
        text,
        "<p>Rates are those of all ports together: medians of the rounds, with the least and the most. Sizes are bytes without \
             frame check sequence (FCS, 4 bytes); <b>L2</b> counts frames as they are, without FCS; <b>L1</b> counts {OVERHEAD} bytes \
             a frame more: FCS 4, preamble 8, gap 12.{mean} With the FCS alone, it is 4 bytes a frame more than L2.</p>\n\
             <p><b>limit</b>: who lost most at the next higher rate. <i>device</i>: frames were sent and did not come back; \
             <i>generator</i>: they were not made in time; <i>port</i>: the port to the device did not take them; <i>none</i>: \
             the highest rate of the search. A generator that waits for a \
             full queue of its port does not make frames in time either: where much more was to be sent than came back, the device may be the limit.</p>"
    );
    text
}
