//! The handlers that every element has, and the global ones that show the configuration or counts: read by
//! the control thread, and by a worker in the middle of a packet.

use super::graph::{Cx, Handler};
use crate::ElementId;
use crate::builtin::{ELEMENT, FIRST, GLOBAL_CLICK, GLOBAL_READ, GLOBAL_WRITE, Kinds, element_handler};
use crate::clock::Clock;
use crate::handler::{Caller, HandlerError};
use crate::hub::Hub;
use crate::stats::StatsSnapshot;
use crate::store::SharedStore;
use lang::{ClassTable, Config};
use std::borrow::Cow;
use std::fmt::Write;

/// An element as its general handlers show it.
pub(crate) struct Described<'a> {
    pub(crate) index: usize,
    pub(crate) name: &'a str,
    pub(crate) class: &'static str,
    pub(crate) arguments: Cow<'a, str>,
    /// See [`crate::Element::LIVE`].
    pub(crate) live: bool,
    pub(crate) handlers: &'a [Handler],
    pub(crate) store: &'a SharedStore,
    pub(crate) config: &'a Config,
    pub(crate) kinds: &'a Kinds,
    pub(crate) totals: &'a dyn Fn() -> StatsSnapshot,
}

impl Described<'_> {
    /// Reads one of the handlers that every element has.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let totals = self.totals;
        Some(match name {
            "name" => self.name.to_owned(),
            "class" => self.class.to_owned(),
            "config" => self.arguments.clone().into_owned(),
            "handlers" => self.handlers(),
            "ports" => self.ports(),
            "icounts" => format!("{}\n", totals().packets),
            "ocounts" => format!("{}\n", totals().emitted),
            "changed_workers" => format!("{}\n", totals().changed_workers),
            "cycles" => cycles_line(&totals()),
            "drops" => totals().drops.iter().fold(String::new(), |mut text, (reason, n)| {
                let _ = writeln!(text, "{n}\t{reason}");
                text
            }),
            _ => return None,
        })
    }

    /// The handlers with their flags, the last one that was added first.
    fn handlers(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (place, name) in ELEMENT.iter().enumerate() {
            let own = self.handlers.iter().find(|h| h.name == *name);
            if place < FIRST {
                let writable = own.is_some_and(Handler::writable) || (*name == "config" && self.live);
                // Arguments that a class computes itself are those that other handlers change.
                let computed = *name == "config" && self.handlers.iter().any(|h| h.flags.ends_with('='));
                let calm = !computed && own.is_none_or(|h| !h.readable());
                let flag = |set, flag| if set { flag } else { "" };
                lines.push(format!("{name}\tr{}{}", flag(writable, "w"), flag(calm, ".")));
            } else if own.is_none() {
                lines.push(format!("{name}\tr"));
            }
        }
        for h in self.handlers.iter().filter(|h| !h.private && !ELEMENT[..FIRST].contains(&h.name)) {
            if let Some(others) = h.others(self.store, self.name) {
                let flags = if others.writable { "rw" } else { "r" };
                lines.extend(others.any.then(|| "*\tw".to_owned()));
                lines.extend(others.readable.iter().map(|n| format!("{n}\t{flags}")));
                continue;
            }
            let kinds = [
                (h.readable() || element_handler(h.name), 'r'),
                (h.writable(), 'w'),
                (h.takes_parameter, '+'),
            ];
            let kinds: String = kinds.iter().filter(|f| f.0).map(|f| f.1).collect();
            lines.push(format!("{}\t{kinds}{}", h.name, h.flags.trim_end_matches('=')));
        }
        lines.reverse();
        lines.join("\n") + "\n"
    }

    fn ports(&self) -> String {
        let (config, me) = (self.config, self.index);
        let mut text = String::new();
        let plural =
            |n: usize, what: &str| if n == 1 { format!("1 {what}\n") } else { format!("{n} {what}s\n") };
        for (what, kinds) in [("input", &self.kinds.0), ("output", &self.kinds.1)] {
            text += &plural(kinds.len(), what);
            for (port, kind) in kinds.iter().enumerate() {
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
                let _ = writeln!(text, "{kind}\t-\t{}", peers.join(", "));
            }
        }
        text
    }
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

/// A router as the global handlers show it.
pub(crate) struct Overview<'a> {
    pub(crate) config: Cow<'a, Config>,
    pub(crate) classes: &'a dyn ClassTable,
    pub(crate) hub: &'a Hub,
    pub(crate) clock: &'a Clock,
    /// A global handler that this router has not.
    pub(crate) lacks: Option<&'static str>,
    /// Names and counts of all elements.
    pub(crate) counts: &'a dyn Fn() -> Vec<(&'a str, StatsSnapshot)>,
}

impl Overview<'_> {
    /// Reads one of the handlers that need nothing else, and the first part of `cycles`.
    pub(crate) fn read(&self, name: &str) -> Option<String> {
        let config = &self.config;
        let lines = |all: Vec<String>| all.iter().fold(String::new(), |text, line| text + line + "\n");
        Some(match name {
            "version" => format!("{}\n", env!("CARGO_PKG_VERSION")),
            "list" => {
                let names = config.elements.iter().map(|e| e.name.as_str());
                format!("{}\n{}", config.elements.len(), names.fold(String::new(), |t, n| t + n + "\n"))
            }
            "classes" => lines(self.classes.names()),
            "config" | "hotconfig" if config.is_compact() => config.unparse(),
            "config" | "hotconfig" if config.sources.is_empty() => String::new(),
            "config" | "hotconfig" => config.sources.text(0).to_string(),
            "flatconfig" => config.unparse(),
            "packages" => lines(self.classes.packages().unwrap_or_default()),
            "requirements" => config.requirements.iter().map(|r| in_lines(r)).collect(),
            "handlers" => self.handlers(),
            "drops" => self.drops().into_iter().fold(String::new(), |mut text, (element, reason, n)| {
                let _ = writeln!(text, "{n}\t{element}\t{reason}");
                text
            }),
            "changed_workers" => format!("{}\n", self.changed_workers()),
            "cycles" => self.cycles(),
            "driver" => "userlevel\n".to_owned(),
            "stuck" => self.hub.stuck().iter().fold(String::new(), |mut text, s| {
                let _ = writeln!(text, "{}\t{}\t{}", s.worker, s.time.as_secs(), s.element);
                text
            }),
            // How fast time passes.
            "timewarp" if self.clock.is_simulated() => "simulation\n".to_owned(),
            "timewarp" if self.clock.skips() => "nowait\n".to_owned(),
            "timewarp" => format!("{}\n", self.clock.speed()),
            "workers" => format!("{}\n", self.hub.workers()),
            _ => return None,
        })
    }

    /// The global handlers and how each may be used, in Click's order.
    fn handlers(&self) -> String {
        // Nothing changes how simulated time passes.
        let fixed = |n: &str| n == "timewarp" && self.clock.is_simulated();
        let kinds = |n: &str| match (GLOBAL_READ.contains(&n), GLOBAL_WRITE.contains(&n) && !fixed(n)) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, _) => "w",
        };
        let there = |n: &&&str| self.lacks != Some(**n);
        let only_written = GLOBAL_WRITE.iter().filter(|n| !GLOBAL_READ.contains(n));
        let mut names: Vec<&str> = GLOBAL_READ.iter().filter(there).chain(only_written).copied().collect();
        // Those that Click has not are last.
        let place = |n: &str| GLOBAL_CLICK.iter().position(|c| *c == n).unwrap_or(GLOBAL_CLICK.len());
        names.sort_by_key(|n| (place(n), *n));
        names.iter().fold(String::new(), |text, n| {
            // A configuration is taken as it is written.
            let raw = if *n == "hotconfig" { "%" } else { "" };
            text + n + "\t" + kinds(n) + raw + "\n"
        })
    }

    /// How often packets have changed workers, in all elements that there are.
    pub(crate) fn changed_workers(&self) -> u64 {
        (self.counts)().iter().map(|(_, totals)| totals.changed_workers).sum()
    }

    /// The packets that elements have dropped: element, reason, how many.
    pub(crate) fn drops(&self) -> Vec<(String, &'static str, u64)> {
        let mut all: Vec<(String, &'static str, u64)> = Vec::new();
        for (name, totals) in (self.counts)() {
            all.extend(totals.drops.into_iter().map(|(reason, n)| (name.to_owned(), reason, n)));
        }
        for (element, reason, n) in self.hub.removed() {
            match all.iter_mut().find(|one| one.0 == element && one.1 == reason) {
                // There is an element with this name again.
                Some(one) => one.2 += n,
                None => all.push((element, reason, n)),
            }
        }
        let strays = self.hub.strays();
        if strays > 0 {
            all.push(("-".to_owned(), "element removed while packets were on the way", strays));
        }
        all
    }

    /// A table of all elements: packets, cycles per packet, packets per batch, share of the cycles.
    fn cycles(&self) -> String {
        let all = (self.counts)();
        let cycles: u64 = all.iter().map(|(_, t)| t.cycles).sum::<u64>().max(1);
        let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(7).max(7);
        let mut text = format!(
            "{:width$} {:>14} {:>10} {:>8} {:>7} {:>12}\n",
            "element", "packets", "cycles/pkt", "batch", "share", "empty polls"
        );
        for (name, s) in &all {
            if s.handled() == 0 && s.idle_polls == 0 {
                continue;
            }
            let per = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
            let _ = writeln!(
                text,
                "{:width$} {:>14} {:>10.1} {:>8.1} {:>6.1}% {:>12}",
                name,
                s.handled(),
                per(s.cycles, s.handled()),
                s.batch_size(),
                100.0 * s.cycles as f64 / cycles as f64,
                s.idle_polls
            );
        }
        let changed: u64 = all.iter().map(|(_, t)| t.changed_workers).sum();
        if changed > 0 {
            let _ = writeln!(text, "changed workers {changed} times");
        }
        for s in self.hub.stuck() {
            let _ =
                writeln!(text, "worker {} is stuck in {} for {} s", s.worker, s.element, s.time.as_secs());
        }
        let (packets, wasted) =
            all.iter().fold((0, 0), |(p, c), (_, t)| (p + t.wasted_packets, c + t.wasted_cycles));
        if packets > 0 {
            let share = 100.0 * wasted as f64 / cycles as f64;
            let _ = writeln!(
                text,
                "wasted on {packets} packets that were dropped later because a queue was full: {share:.1}%"
            );
        }
        text
    }
}

/// A requirement: its kind, and its name, which may be missing, in lines of their own.
fn in_lines(requirement: &str) -> String {
    let (kind, name) = requirement.split_once(' ').unwrap_or((requirement, ""));
    format!("{kind}\n{}\n", lang::unquote(name))
}

/// What elements say of themselves in a line: those of `names`, which have a handler `summary`, unless it is
/// empty.
pub(crate) fn summaries(caller: &mut dyn Caller, names: Vec<String>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in names {
        let summary = caller.read("", &format!("{name}.summary"), "").unwrap_or_default();
        if !summary.is_empty() {
            all.push((name, summary));
        }
    }
    all
}

impl Cx<'_> {
    /// Reads one of the handlers that every element has.
    pub(super) fn read_general(&self, id: ElementId, name: &str) -> Option<Result<String, HandlerError>> {
        if !element_handler(name) {
            return None;
        }
        let Some(about) = &self.graph.about else {
            return Some(Err(HandlerError::Failed(format!("'{name}' cannot be read before the start"))));
        };
        let (index, slot) = (id.0 as usize, self.graph.slots.get(id.0 as usize)?);
        let described = Described {
            index,
            name: &slot.name,
            class: slot.class,
            arguments: about.arguments(index).into(),
            live: slot.live,
            handlers: &slot.handlers,
            store: &self.graph.shared,
            config: &about.config,
            kinds: about.kinds.get(index)?,
            totals: &|| slot.totals(),
        };
        described.read(name).map(Ok)
    }

    /// Reads a global handler.
    pub(super) fn read_global(&mut self, name: &str) -> Result<String, HandlerError> {
        let Some(about) = self.graph.about.clone() else {
            return Err(HandlerError::Failed(format!("'{name}' cannot be read before the start")));
        };
        let slots = &self.graph.slots;
        let overview = Overview {
            config: about.present(),
            classes: &*about.classes,
            hub: &self.core.hub,
            clock: &self.core.clock,
            lacks: about.lacks,
            counts: &|| slots.iter().map(|slot| (&*slot.name, slot.totals())).collect(),
        };
        if overview.lacks == Some(name) {
            return Err(HandlerError::NoHandler(name.to_owned()));
        }
        let text = overview.read(name);
        match (text, name) {
            (Some(mut table), "cycles") => {
                let has = |handlers: &[Handler]| handlers.iter().any(|h| h.name == "summary");
                let with = slots.iter().filter(|slot| has(&slot.handlers)).map(|slot| slot.name.to_string());
                for (name, summary) in summaries(self, with.collect()) {
                    let _ = writeln!(table, "{name}: {summary}");
                }
                Ok(table)
            }
            (Some(text), _) => Ok(text),
            // They need all workers.
            (None, _) => Err(HandlerError::Failed(format!("'{name}' cannot be read from the data path"))),
        }
    }
}
