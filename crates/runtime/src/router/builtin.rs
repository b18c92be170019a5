//! The handlers that every element has, and the global handlers.

use super::Router;
use crate::ElementId;
use crate::builtin::{ELEMENT, GLOBAL_READ, GLOBAL_WRITE, element_handler, is_global};
use crate::handler::HandlerError;
use crate::info::ElementInfo;
use crate::stats::StatsSnapshot;
use lang::Source;
use serde_json::json;
use std::fmt::Write;

/// Reads one of the handlers that every element has.
pub(super) fn read_element(
    router: &Router,
    id: ElementId,
    name: &str,
) -> Option<Result<String, HandlerError>> {
    let element = &router.elements()[id.0 as usize];
    Some(Ok(match name {
        "name" => element.name.clone(),
        "class" => element.class.to_owned(),
        "config" => element.config.clone(),
        "handlers" => {
            // A class may declare a handler of its own in place of one that all elements have.
            let general = ELEMENT.iter().filter(|name| element.handlers.iter().all(|h| h.name != **name));
            let flags = |name: &str| if name == "config" && element.live { "rw" } else { "r" };
            let mut lines: Vec<String> = general.map(|h| format!("{h}\t{}", flags(h))).collect();
            for h in element.handlers.iter() {
                if let Some(others) = h.others(router.store(), &element.name) {
                    let flags = if others.writable { "rw" } else { "r" };
                    lines.extend(others.readable.iter().map(|n| format!("{n}\t{flags}")));
                    continue;
                }
                let flags = [
                    (h.readable() || element_handler(h.name), 'r'),
                    (h.writable(), 'w'),
                    (h.takes_parameter, '+'),
                ];
                let flags: String = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
                lines.push(format!("{}\t{flags}", h.name));
            }
            lines.sort();
            lines.dedup();
            lines.join("\n") + "\n"
        }
        "ports" => ports(router, id),
        "icounts" => format!("{}\n", element.totals().packets),
        "ocounts" => format!("{}\n", element.totals().emitted),
        "changed_workers" => format!("{}\n", element.totals().changed_workers),
        "cycles" => cycles_line(&element.totals()),
        "drops" => element.totals().drops.iter().fold(String::new(), |mut text, (reason, n)| {
            let _ = writeln!(text, "{n}\t{reason}");
            text
        }),
        _ => return None,
    }))
}

fn cycles_line(s: &StatsSnapshot) -> String {
    let per_packet = if s.handled() == 0 { 0.0 } else { s.cycles as f64 / s.handled() as f64 };
    format!(
        "packets {}\nbatches {}\ncycles {}\ncycles_per_packet {per_packet:.1}\nempty_polls {}\nempty_cycles {}\n\
         wasted_packets {}\nwasted_cycles {}\n",
        s.handled(),
        s.calls,
        s.cycles,
        s.idle_polls,
        s.idle_cycles,
        s.wasted_packets,
        s.wasted_cycles
    )
}

fn ports(router: &Router, id: ElementId) -> String {
    let (config, me) = (router.config(), id.0 as usize);
    let element = &router.elements()[me];
    let mut text = String::new();
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}\n") } else { format!("{n} {what}s\n") };
    for (what, n) in [("input", element.n_inputs), ("output", element.n_outputs)] {
        text += &plural(n, what);
        for port in 0..n {
            let peers: Vec<String> = config
                .connections
                .iter()
                .filter_map(|c| {
                    let (here, there) = if what == "input" { (c.to, c.from) } else { (c.from, c.to) };
                    let name = &config.elements[there.element].name;
                    (here.element == me && here.port == port).then(|| match what {
                        "input" => format!("{name} [{}]", there.port),
                        _ => format!("[{}] {name}", there.port),
                    })
                })
                .collect();
            let kind = router.port_kind(id, what == "input", port);
            let _ = writeln!(text, "{kind}\t-\t{}", peers.join(", "));
        }
    }
    text
}

impl Router {
    /// How often packets have changed workers, in all elements that there are.
    #[must_use]
    pub fn changed_workers(&self) -> u64 {
        self.elements().iter().map(|e| e.totals().changed_workers).sum()
    }

    /// The packets that elements have dropped: element, reason, how many.
    #[must_use]
    pub fn drops(&self) -> Vec<(String, &'static str, u64)> {
        let mut all: Vec<(String, &'static str, u64)> = Vec::new();
        for e in self.elements() {
            all.extend(e.totals().drops.into_iter().map(|(reason, n)| (e.name.clone(), reason, n)));
        }
        for (element, reason, n) in self.hub().removed() {
            match all.iter_mut().find(|one| one.0 == element && one.1 == reason) {
                // There is an element with this name again.
                Some(one) => one.2 += n,
                None => all.push((element, reason, n)),
            }
        }
        let strays = self.hub().strays();
        if strays > 0 {
            all.push(("-".to_owned(), "element removed while packets were on the way", strays));
        }
        all
    }
}

/// Reads a global handler.
pub(super) fn read_global(router: &mut Router, name: &str, _arg: &str) -> Result<String, HandlerError> {
    if router.lacks(name) {
        return Err(HandlerError::NoHandler(name.to_owned()));
    }
    Ok(match name {
        "version" => format!("{}\n", env!("CARGO_PKG_VERSION")),
        "list" => {
            let names = router.elements().iter().map(|e| e.name.as_str());
            format!("{}\n{}", router.elements().len(), names.fold(String::new(), |t, n| t + n + "\n"))
        }
        "classes" => router.registry().iter().fold(String::new(), |t, c| t + c.name + "\n"),
        "config" | "hotconfig" => router.source_text(),
        "flatconfig" => router.config().unparse(),
        "packages" => router.registry().packages().fold(String::new(), |t, p| t + p + "\n"),
        "requirements" => router.config().requirements.iter().fold(String::new(), |t, r| t + r + "\n"),
        "handlers" => {
            // Nothing changes how simulated time passes.
            let fixed = |n: &str| n == "timewarp" && router.options().simulated_time;
            let both = |n: &&str| if GLOBAL_WRITE.contains(n) && !fixed(n) { "rw" } else { "r" };
            let there = GLOBAL_READ.iter().filter(|n| !router.lacks(n));
            let mut lines: Vec<String> = there.map(|n| format!("{n}\t{}\n", both(n))).collect();
            let only_written = GLOBAL_WRITE.iter().filter(|n| !GLOBAL_READ.contains(n));
            lines.extend(only_written.map(|n| format!("{n}\tw\n")));
            lines.sort();
            lines.concat()
        }
        "drops" => router.drops().into_iter().fold(String::new(), |mut text, (element, reason, n)| {
            let _ = writeln!(text, "{n}\t{element}\t{reason}");
            text
        }),
        "changed_workers" => format!("{}\n", router.changed_workers()),
        "cycles" => {
            let summaries = summaries(router);
            let lines = summaries.into_iter().map(|(name, summary)| format!("{name}: {summary}\n"));
            table(router) + &lines.collect::<String>()
        }
        "driver" => "userlevel\n".to_owned(),
        "load.json" => super::load::json(router),
        "stats.json" => {
            let summaries = summaries(router);
            counters(router, &summaries)
        }
        "stuck" => router.hub().stuck().iter().fold(String::new(), |mut text, s| {
            let _ = writeln!(text, "{}\t{}\t{}", s.worker, s.time.as_secs(), s.element);
            text
        }),
        // How fast time passes.
        "timewarp" if router.options().simulated_time => "simulation\n".to_owned(),
        "timewarp" if router.clock.skips() => "nowait\n".to_owned(),
        "timewarp" => format!("{}\n", router.clock.speed()),
        "trace.json" => super::trace::json(router)?,
        "workers" => format!("{}\n", router.options().workers.max(1)),
        _ if GLOBAL_WRITE.contains(&name) => return Err(HandlerError::NotReadable(name.to_owned())),
        _ => return Err(HandlerError::NoHandler(name.to_owned())),
    })
}

/// Writes a global handler.
pub(super) fn write_global(router: &mut Router, name: &str, value: &str) -> Result<(), HandlerError> {
    match name {
        _ if router.lacks(name) => Err(HandlerError::NoHandler(name.to_owned())),
        "stop" => {
            router.hub().request_stop();
            Ok(())
        }
        "timewarp" if router.options().simulated_time => Err(HandlerError::NotWritable(name.to_owned())),
        "timewarp" => set_timewarp(router, value.trim()).map_err(|e| HandlerError::Failed(e.to_owned())),
        "trace" => super::trace::start(router, value),
        "hotconfig" if !router.options().hotswap => {
            Err(HandlerError::Failed("hot swapping is off: start with -R (--allow-reconfigure)".into()))
        }
        "hotconfig" => router
            .hotswap(Source::new("hotconfig", value))
            .map_err(|diags| HandlerError::Failed(diags.render_plain(diags.sources()).trim_end().to_owned())),
        _ if is_global(name) => Err(HandlerError::NotWritable(name.to_owned())),
        _ => Err(HandlerError::NoHandler(name.to_owned())),
    }
}

/// Has time pass faster, slower, or skip what nothing is done in.
fn set_timewarp(router: &Router, value: &str) -> Result<(), &'static str> {
    if value == "nowait" {
        router.clock.set_skipping();
        return Ok(());
    }
    let speed: f64 = value.parse().ok().filter(|speed: &f64| speed.is_finite()).ok_or("expected double")?;
    if speed <= 0.0 {
        return Err("timefactor must be > 0");
    }
    router.clock.set_speed(speed);
    Ok(())
}

/// A table of all elements: packets, cycles per packet, packets per batch, share of the cycles.
fn table(router: &Router) -> String {
    let totals: Vec<StatsSnapshot> = router.elements().iter().map(ElementInfo::totals).collect();
    let all: u64 = totals.iter().map(|t| t.cycles).sum::<u64>().max(1);
    let width = router.elements().iter().map(|e| e.name.len()).max().unwrap_or(7).max(7);
    let mut text = format!(
        "{:width$} {:>14} {:>10} {:>8} {:>7} {:>12}\n",
        "element", "packets", "cycles/pkt", "batch", "share", "empty polls"
    );
    for (e, s) in router.elements().iter().zip(&totals) {
        if s.handled() == 0 && s.idle_polls == 0 {
            continue;
        }
        let per = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        let _ = writeln!(
            text,
            "{:width$} {:>14} {:>10.1} {:>8.1} {:>6.1}% {:>12}",
            e.name,
            s.handled(),
            per(s.cycles, s.handled()),
            s.batch_size(),
            100.0 * s.cycles as f64 / all as f64,
            s.idle_polls
        );
    }
    let changed = router.changed_workers();
    if changed > 0 {
        let _ = writeln!(text, "changed workers {changed} times");
    }
    for s in router.hub().stuck() {
        let _ = writeln!(text, "worker {} is stuck in {} for {} s", s.worker, s.element, s.time.as_secs());
    }
    let (packets, cycles) =
        totals.iter().fold((0, 0), |(p, c), t| (p + t.wasted_packets, c + t.wasted_cycles));
    if packets > 0 {
        let share = 100.0 * cycles as f64 / all as f64;
        let _ = writeln!(
            text,
            "wasted on {packets} packets that were dropped later because a queue was full: {share:.1}%"
        );
    }
    text
}

/// What elements say of themselves in a line: those that have a handler `summary`, unless it is empty.
fn summaries(router: &mut Router) -> Vec<(String, String)> {
    let has = |e: &&ElementInfo| e.handlers.iter().any(|h| h.name == "summary");
    let names: Vec<String> = router.elements().iter().filter(has).map(|e| e.name.clone()).collect();
    let mut all = Vec::new();
    for name in names {
        let summary = router.read(&format!("{name}.summary"), "").unwrap_or_default();
        if !summary.is_empty() {
            all.push((name, summary));
        }
    }
    all
}

/// All counters, as JSON.
fn counters(router: &Router, summaries: &[(String, String)]) -> String {
    let element = |e: &ElementInfo| {
        let mut all = e.totals().json();
        (all["name"], all["class"]) = (e.name.clone().into(), e.class.into());
        if let Some((_, summary)) = summaries.iter().find(|(name, _)| *name == e.name) {
            all["summary"] = summary.as_str().into();
        }
        all
    };
    let stuck = router.hub().stuck();
    let stuck =
        stuck.iter().map(|s| json!({"worker": s.worker, "element": s.element, "seconds": s.time.as_secs()}));
    let all = json!({
        "time_ns": router.now_ns(), "tsc": dpdk::cycles(), "workers": router.options().workers.max(1),
        "generation": router.generation(), "changed_workers": router.changed_workers(),
        "stuck": stuck.collect::<Vec<_>>(),
        "elements": router.elements().iter().map(element).collect::<Vec<_>>(),
    });
    format!("{all}\n")
}
