//! What trials have cost the device, as text and as JSON.

use crate::cost::{Cost, ElementCost, RouterCost};
use crate::layout::{quantile, table};
use crate::trial::Trial;
use bench::Counts;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Tables of elements in a text are at most so many.
const MOST_TABLES: usize = 6;

/// A column of the table: the figure, its title, how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

/// What a trial has cost, and for what.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    cost: Cost,
    /// The frames that were sent to the device.
    packets: u64,
    /// For so long.
    seconds: f64,
}

impl Spent {
    pub(crate) fn of(trial: &Trial) -> Option<Self> {
        // With connections that are set up before each trial, the costs of that are in all figures.
        let cost = trial.cost.clone().filter(|_| trial.existing.is_none())?;
        // Of connections, only that is known of the time in which the answers were sent that it belongs to
        // it.
        let cost = if trial.connections.is_some() { Cost { router: None, ..cost } } else { cost };
        Some(Self { cost, packets: trial.sent, seconds: trial.seconds })
    }

    fn router(&self, of: impl Fn(&RouterCost) -> f64) -> Option<f64> {
        self.cost.router.as_ref().map(of)
    }

    fn counted(&self, of: impl Fn(&Counts) -> u64) -> Option<f64> {
        self.cost.counted.get().map(|counted| of(counted) as f64 / self.packets.max(1) as f64)
    }

    pub(crate) fn cycles_per_packet(&self) -> Option<f64> {
        self.router(|router| router.cycles_per_packet(self.packets))
    }

    fn figure(&self, name: &str) -> Option<f64> {
        match name {
            "cycles_per_packet" => self.cycles_per_packet(),
            "load" => self.router(|router| router.load(self.seconds)),
            "batch" => self.router(RouterCost::batch),
            "imbalance" => self.cost.router.as_ref().and_then(RouterCost::imbalance),
            "changed_workers_per_packet" => {
                let router = self.cost.router.as_ref();
                router.and_then(|router| router.changed_workers_per_packet(self.packets))
            }
            "processors" => Some(self.cost.processors()),
            "processor_ns_per_packet" => Some(self.cost.processor_seconds * 1e9 / self.packets.max(1) as f64),
            "memory_bytes" => self.cost.memory_bytes.map(|bytes| bytes as f64),
            "instructions_per_packet" => self.counted(|counted| counted.instructions),
            "core_cycles_per_packet" => self.counted(|counted| counted.cycles),
            "cycles_per_instruction" => {
                let counted = self.cost.counted.get().filter(|counted| counted.instructions > 0);
                counted.map(|counted| counted.cycles as f64 / counted.instructions as f64)
            }
            "llc_misses_per_packet" => self.counted(|counted| counted.llc_misses),
            "watts" => self.cost.joules.get().map(|joules| joules / self.cost.seconds.max(1e-9)),
            _ => None,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut all = figures(|name| self.figure(name));
        all["seconds"] = json!(self.cost.seconds);
        all["processor_seconds"] = json!(self.cost.processor_seconds);
        all["counted"] = json!(self.cost.counted);
        all["joules"] = json!(self.cost.joules);
        if let Some(router) = &self.cost.router {
            let cycles = router.cycles().max(1) as f64;
            let of = |one: &ElementCost| {
                json!({
                    "name": one.name, "class": one.class, "packets": one.packets, "cycles": one.cycles,
                    "cycles_per_packet": one.cycles_per_packet(), "share": one.cycles as f64 / cycles, "batch": one.batch(),
                    "empty_polls": one.empty_polls, "empty_cycles": one.empty_cycles, "drops": one.drops,
                })
            };
            all["elements"] = router.elements.iter().map(of).collect();
            all["workers"] = json!(router.workers);
            all["tsc_hz"] = json!(router.tsc_hz);
        }
        all
    }
}

/// The names of all figures.
const FIGURES: [&str; 13] = [
    "cycles_per_packet",
    "load",
    "batch",
    "imbalance",
    "changed_workers_per_packet",
    "processors",
    "processor_ns_per_packet",
    "memory_bytes",
    "instructions_per_packet",
    "core_cycles_per_packet",
    "cycles_per_instruction",
    "llc_misses_per_packet",
    "watts",
];

fn figures(of: impl Fn(&str) -> Option<f64>) -> Value {
    FIGURES.iter().map(|name| ((*name).to_owned(), json!(of(name)))).collect::<serde_json::Map<_, _>>().into()
}

/// The median of a figure over the rounds.
fn median(all: &[&Spent], name: &str) -> Option<f64> {
    let values: Vec<f64> = all.iter().filter_map(|spent| spent.figure(name)).collect();
    (!values.is_empty()).then(|| quantile(&values, 0.5))
}

/// Medians of the rounds; null without any.
pub(crate) fn summary(all: &[&Spent]) -> Value {
    if all.is_empty() { Value::Null } else { figures(|name| median(all, name)) }
}

/// A line for each point, and the elements in the last round of each. The first columns of `head` are
/// `words`.
pub(crate) fn text(mut head: Vec<String>, words: usize, rows: Vec<(Vec<String>, Vec<&Spent>)>) -> String {
    let rows: Vec<_> = rows.into_iter().filter(|(_, all)| !all.is_empty()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let names = head.clone();
    // A column that is empty for all points is left out.
    let columns: [Column; 12] = [
        ("cycles_per_packet", "cycles/packet", |n| format!("{n:.0}")),
        ("load", "load", |n| format!("{:.1} %", n * 100.0)),
        ("batch", "batch", |n| format!("{n:.1}")),
        ("imbalance", "imbalance", |n| format!("{:.1} %", n * 100.0)),
        ("changed_workers_per_packet", "changed workers", |n| format!("{:.1} %", n * 100.0)),
        ("processors", "processors", |n| format!("{n:.2}")),
        ("processor_ns_per_packet", "processor time/packet", |n| format!("{n:.0} ns")),
        ("memory_bytes", "memory", |n| format!("{:.0} MiB", n / f64::from(1 << 20))),
        ("instructions_per_packet", "instructions/packet", |n| format!("{n:.0}")),
        ("cycles_per_instruction", "cycles/instruction", |n| format!("{n:.2}")),
        ("llc_misses_per_packet", "LLC misses/packet", |n| format!("{n:.2}")),
        ("watts", "power", |n| format!("{n:.1} W")),
    ];
    let known = |name: &str| rows.iter().any(|(_, all)| median(all, name).is_some());
    let columns: Vec<_> = columns.into_iter().filter(|(name, ..)| known(name)).collect();
    head.extend(columns.iter().map(|(_, title, _)| (*title).to_owned()));
    let mut lines = vec![head];
    for (cells, all) in &rows {
        let figures = columns.iter().map(|(name, _, show)| median(all, name).map_or("-".to_owned(), show));
        lines.push(cells.iter().cloned().chain(figures).collect());
    }
    let mut text =
        format!("cost to the device at this rate, medians of the rounds:\n{}", table(&lines, words));
    for (what, why) in reasons(&rows) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what}: not available: {why}");
    }
    for (cells, all) in rows.iter().take(MOST_TABLES) {
        text += &elements(&names, cells, all.last().copied());
    }
    if rows.len() > MOST_TABLES {
        text += "--json has the elements of the other points.\n";
    }
    text
}

/// What is not known, and why.
fn reasons(rows: &[(Vec<String>, Vec<&Spent>)]) -> BTreeSet<(&'static str, String)> {
    let why = |spent: &&Spent| {
        let counted = spent.cost.counted.why_not().map(|why| ("instructions, LLC misses", why.to_owned()));
        let power = spent.cost.joules.why_not().map(|why| ("power", why.to_owned()));
        counted.into_iter().chain(power).collect::<Vec<_>>()
    };
    rows.iter().flat_map(|(_, all)| all.iter().flat_map(why)).collect()
}

/// The elements of one trial.
fn elements(names: &[String], cells: &[String], last: Option<&Spent>) -> String {
    let Some(router) = last.and_then(|spent| spent.cost.router.as_ref()) else { return String::new() };
    let what = names.iter().zip(cells).map(|(name, value)| format!("{name} {value}, "));
    let mut lines =
        vec![["element", "class", "packets", "cycles/packet", "share", "batch"].map(str::to_owned).to_vec()];
    let cycles = router.cycles().max(1) as f64;
    lines.extend(router.elements.iter().filter(|one| one.packets > 0).map(|one| {
        vec![
            one.name.clone(),
            one.class.clone(),
            one.packets.to_string(),
            format!("{:.1}", one.cycles_per_packet()),
            format!("{:.1} %", one.cycles as f64 * 100.0 / cycles),
            format!("{:.1}", one.batch()),
        ]
    }));
    let mut text = format!("elements, {}last round:\n{}", what.collect::<String>(), table(&lines, 2));
    for (element, reason, n) in router.drops() {
        let _ = writeln!(text, "dropped: {n} by {element}: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Known;

    fn spent(cycles: u64, processor_seconds: f64) -> Spent {
        let element = ElementCost {
            name: "in".into(),
            class: "FromDevice".into(),
            packets: 1000,
            batches: 100,
            cycles,
            drops: [("queue full".to_owned(), 3)].into(),
            ..ElementCost::default()
        };
        let trial = Trial {
            sent: 1000,
            seconds: 0.5,
            cost: Some(Cost {
                seconds: 2.0,
                processor_seconds,
                memory_bytes: Some(50 << 20),
                router: Some(RouterCost {
                    workers: 2,
                    tsc_hz: 1e9,
                    elements: vec![element],
                    worker_cycles: vec![cycles, 0],
                    changed_workers: Some(500),
                }),
                counted: Known::Is(Counts { instructions: 5000, cycles: 4000, llc_misses: 500 }),
                joules: Known::Not { not_available: "no RAPL".into() },
            }),
            ..Trial::default()
        };
        Spent::of(&trial).unwrap()
    }

    #[test]
    fn figures_are_for_each_packet_and_medians_of_the_rounds() {
        let all = [spent(100_000, 1.0), spent(300_000, 3.0), spent(200_000, 2.0)];
        let all: Vec<&Spent> = all.iter().collect();
        let summary = summary(&all);
        assert_eq!(summary["cycles_per_packet"], 200.0);
        assert_eq!((summary["load"].as_f64(), summary["batch"].as_f64()), (Some(0.0002), Some(10.0)));
        assert_eq!((summary["processors"].as_f64(), summary["imbalance"].as_f64()), (Some(1.0), Some(1.0)));
        assert_eq!(
            (summary["cycles_per_instruction"].as_f64(), &summary["changed_workers_per_packet"]),
            (Some(0.8), &json!(0.5))
        );
        assert_eq!((summary["llc_misses_per_packet"].as_f64(), &summary["watts"]), (Some(0.5), &Value::Null));
        let one = all[0].json();
        assert_eq!(one["joules"]["not_available"], "no RAPL");
        assert_eq!(
            (one["counted"]["instructions"].as_u64(), one["elements"][0]["share"].as_f64()),
            (Some(5000), Some(1.0))
        );
        assert_eq!(super::summary(&[]), Value::Null);
    }

    #[test]
    fn the_text_has_what_is_known_and_why_the_rest_is_not() {
        let one = spent(100_000, 1.0);
        let head = vec!["size".to_owned(), "loss up to".to_owned()];
        let none: (Vec<String>, Vec<&Spent>) = (vec!["64".into(), "0 %".into()], Vec::new());
        let told = text(head.clone(), 1, vec![(vec!["60".into(), "0 %".into()], vec![&one]), none.clone()]);
        assert!(told.contains("power: not available: no RAPL") && !told.contains(" W"), "{told}");
        assert!(told.contains("elements, size 60, loss up to 0 %, last round:"), "{told}");
        assert!(told.contains("dropped: 3 by in: queue full"), "{told}");
        assert!(!told.contains("64"), "{told}");
        assert_eq!(text(head, 1, vec![none]), "");
    }
}
