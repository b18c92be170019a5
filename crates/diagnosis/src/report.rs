//! A diagnosis as text and as JSON.

use crate::finding::Finding;
use crate::interval::Work;
use crate::verdict::Diagnosis;
use crate::words::{percent, short};
use serde_json::{Value, json};
use std::fmt::Write;

/// Elements with less of all cycles are not listed.
const LITTLE: f64 = 0.01;

fn write_finding(text: &mut String, finding: &Finding) {
    for line in &finding.evidence {
        let _ = writeln!(text, "  - {line}");
    }
    if !finding.advice.is_empty() {
        text.push_str("what to change:\n");
    }
    for line in &finding.advice {
        let _ = writeln!(text, "  - {line}");
    }
}

fn sentence(finding: &Finding) -> String {
    if finding.at.as_ref().is_some_and(|name| finding.sentence.starts_with(&**name) && !name.contains(' ')) {
        // Names are as they are.
        return format!("{}.", finding.sentence);
    }
    let mut letters = finding.sentence.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

impl Diagnosis {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", sentence(&self.verdict));
        write_finding(&mut text, &self.verdict);
        if !self.others.is_empty() {
            text.push_str("also:\n");
        }
        for other in &self.others {
            let shown = other.evidence.first().map_or_else(String::new, |line| format!(" ({line})"));
            let _ = writeln!(text, "  - {}{shown}", other.sentence);
        }
        text.push('\n');
        text.push_str(&self.table());
        if self.interval.shares_threads {
            text.push_str("The workers share their threads with other routers: `valiant vr top` shows how their time is divided.\n");
        }
        text
    }

    /// The workers, and the elements that cost most.
    fn table(&self) -> String {
        let interval = &self.interval;
        let mut text = format!(
            "{:<8} {:>4} {:>7} {:>12} {:>12} {:>14} {:>7}\n",
            "worker", "CPU", "busy", "empty polls", "waits: CPU", "waits: locks", "stolen"
        );
        for w in &interval.workers {
            let cpu = w.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
            let cells = [w.busy, w.empty, w.waited, w.locked, w.stolen].map(whole);
            let [busy, empty, waited, locked, stolen] = cells;
            let _ = writeln!(
                text,
                "{:<8} {cpu:>4} {busy:>7} {empty:>12} {waited:>12} {locked:>14} {stolen:>7}",
                w.number
            );
        }
        let all: u64 = interval.elements.iter().map(|work| work.sum.cycles).sum();
        let mut costly: Vec<&Work> = interval
            .elements
            .iter()
            .filter(|w| w.sum.cycles as f64 >= LITTLE * all.max(1) as f64 && w.sum.cycles > 0)
            .collect();
        costly.sort_by_key(|work| std::cmp::Reverse(work.sum.cycles));
        if costly.is_empty() {
            return text;
        }
        let width = costly.iter().map(|w| w.name.len()).max().unwrap_or(0).max(7);
        let _ = writeln!(
            text,
            "\n{:width$} {:>12} {:>10} {:>8} {:>7} {:>6} {:>10}",
            "element", "packets/s", "cycles/pkt", "batch", "cycles", "full", "dropped"
        );
        for work in costly {
            let sum = &work.sum;
            let _ = writeln!(
                text,
                "{:width$} {:>12} {:>10} {:>8.1} {:>7} {:>6} {:>10}",
                work.name,
                short(sum.handled() as f64 / interval.seconds).trim_end(),
                if sum.handled() == 0 {
                    "-".to_owned()
                } else {
                    format!("{:.1}", sum.cycles as f64 / sum.handled() as f64)
                },
                sum.batch(),
                whole(sum.cycles as f64 / all as f64),
                whole(work.full),
                sum.dropped(|_| true)
            );
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let interval = &self.interval;
        let workers: Vec<Value> = (interval.workers.iter())
            .map(|w| {
                json!({
                    "worker": w.number, "cpu": w.cpu, "busy": w.busy, "load": w.load, "busiest": w.busiest, "empty_polls": w.empty,
                    "waited_for_cpu": w.waited, "waited_for_locks": w.locked, "lock_waits": w.lock_waits,
                    "stolen": w.stolen,
                })
            })
            .collect();
        let elements: Vec<Value> = (interval.elements.iter())
            .map(|work| {
                let sum = &work.sum;
                json!({
                    "name": work.name, "class": work.class, "packets": sum.handled(),
                    "pps": sum.handled() as f64 / interval.seconds, "cycles": sum.cycles,
                    "cycles_per_packet": sum.cycles as f64 / sum.handled().max(1) as f64, "batch": sum.batch(),
                    "full": work.full, "longest": work.longest, "capacity": work.capacity,
                    "working_set_bytes": work.working_set, "wasted_packets": sum.wasted_packets,
                    "wasted_cycles": sum.wasted_cycles, "drops": sum.drops,
                })
            })
            .collect();
        let ports: Vec<Value> = (interval.ports.iter())
            .map(|port| {
                json!({
                    "name": port.name, "state": port.state, "link_mbps": port.link_mbps,
                    "received": port.received, "missed": port.missed, "no_buffer": port.no_buffer,
                    "sent": port.sent, "sent_bytes": port.sent_bytes,
                })
            })
            .collect();
        let pools: Vec<Value> = (interval.pools.iter())
            .map(|pool| json!({"buffers": pool.buffers, "least_free": pool.least_free}))
            .collect();
        json!({
            "seconds": interval.seconds, "verdict": self.verdict, "others": self.others,
            "pps": interval.entered() as f64 / interval.seconds, "lost_at_receive_rings": interval.missed(),
            "workers": workers, "elements": elements, "ports": ports, "pools": pools,
        })
    }
}

/// A part of all time, short.
fn whole(part: f64) -> String {
    if part > 0.0 && part < 0.0995 {
        percent(part).replace("less than ", "<").replace(' ', "")
    } else {
        format!("{:.0}%", 100.0 * part)
    }
}
