//! A prediction as text and as JSON, with what was measured and what another server would do.

use measure::rate::short;
use predict::{Component, Measured, Prediction, Scale, limit};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What was found out about a configuration.
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) notes: Vec<String>,
    pub(crate) prediction: Prediction,
    pub(crate) measured: Option<Measured>,
    pub(crate) scaled: Option<(Vec<Component>, Scale)>,
}

impl Found {
    /// By how much the predicted rate is wrong, in percent.
    fn error(&self) -> Option<f64> {
        self.measured.as_ref().map(|measured| (measured.cycles / self.prediction.cycles - 1.0) * 100.0)
    }

    fn measured_of(&self, name: &str) -> Option<f64> {
        let all = &self.measured.as_ref()?.elements;
        all.iter().find(|(element, _)| element == name).map(|(_, cycles)| *cycles)
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let p = &self.prediction;
        let lines = p.lines.iter().map(|line| {
            json!({
                "name": line.name, "class": line.class, "share": line.share, "batch": line.batch, "bytes": line.bytes,
                "cycles": line.cycles.as_ref().ok(), "not_known": line.cycles.as_ref().err(),
                "measured_cycles": self.measured_of(&line.name),
            })
        });
        let measured = self.measured.as_ref().map(|m| {
            json!({"cycles_per_packet": m.cycles, "rate_pps": p.hertz / m.cycles, "error_percent": self.error()})
        });
        let scaled = self.scaled.as_ref().map(|(components, scale)| {
            let of = |c: &Component| {
                let rates = c.rates();
                json!({
                    "name": c.name, "unit": c.unit, "per_packet": c.load, "per_second": c.capacity, "times": c.times,
                    "rate_pps": rates.map(|r| r.0), "scaled_rate_pps": rates.map(|r| r.1),
                })
            };
            let limit = limit(components);
            json!({
                "cpu": scale.cpu, "mem": scale.mem, "io": scale.io,
                "components": components.iter().map(of).collect::<Vec<_>>(),
                "limit": limit.map(|l| l.0.name), "rate_pps": limit.map(|l| l.1),
            })
        });
        json!({
            "ok": true, "configuration": self.name, "elements": lines.collect::<Vec<_>>(),
            "runtime_cycles": p.runs, "cycles_per_packet": p.cycles, "complete": p.unknown().is_empty(), "tsc_hz": p.hertz, "rate_pps": p.rate(),
            "sent_per_received": p.sent, "waiting_packets": p.waiting, "memory_bytes_per_packet": p.memory, "notes": self.notes,
            "measured": measured, "scaled": scaled,
        })
    }

    /// As text.
    pub(crate) fn text(&self) -> String {
        let p = &self.prediction;
        let mut text = format!("{}: cycles on one processor, each element measured alone\n", self.name);
        let width = |least: usize, of: &dyn Fn(&predict::Line) -> usize| {
            p.lines.iter().map(of).fold(least, usize::max)
        };
        let (name, class) = (width(7, &|l| l.name.len()), width(5, &|l| l.class.len()));
        let there = if self.measured.is_some() { "  measured" } else { "" };
        let _ = writeln!(
            text,
            "{:name$}  {:class$}  {:>8} {:>6} {:>6} {:>9} {:>9}{there}",
            "element", "class", "packets", "batch", "bytes", "cycles", "part"
        );
        for line in &p.lines {
            let _ = write!(
                text,
                "{:name$}  {:class$}  {:>8.3} {:>6.1} {:>6.0}",
                line.name, line.class, line.share, line.batch, line.bytes
            );
            match &line.cycles {
                Ok(cycles) => {
                    let _ = write!(text, " {cycles:>9.1} {:>9.1}", cycles * line.share);
                }
                Err(why) => {
                    let _ = write!(text, "  not known: {}", why.lines().next().unwrap_or_default());
                }
            }
            if let Some(cycles) = self.measured_of(&line.name).filter(|_| line.cycles.is_ok()) {
                let _ = write!(text, "  {cycles:>8.1}");
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "{:name$}  {:class$}  {:>8} {:>6} {:>6} {:>9} {:>9.1}",
            "(tasks)", "", "", "", "", "", p.runs
        );
        let _ = writeln!(
            text,
            "\npredicted: {}pps received, {:.1} cycles each at {:.2} GHz; {}pps sent",
            short(p.rate()),
            p.cycles,
            p.hertz / 1e9,
            short(p.rate() * p.sent)
        );
        if let (Some(measured), Some(error)) = (&self.measured, self.error()) {
            let _ = writeln!(
                text,
                "measured:  {}pps received, {:.1} cycles each, error {error:+.1} %",
                short(p.hertz / measured.cycles),
                measured.cycles
            );
        }
        if let Some((components, scale)) = &self.scaled {
            text += &scaled(components, *scale);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

/// What each component allows, here and in the other server.
fn scaled(components: &[Component], scale: Scale) -> String {
    let mut text = format!(
        "\n{:14} {:>18} {:>14} {:>14} {:>7} {:>14}\n",
        "component", "a packet takes", "a second has", "allows", "times", "would allow"
    );
    for c in components {
        let rates = c.rates().map(|(here, there)| [here, there].map(|rate| format!("{}pps", short(rate))));
        let [here, there] = rates.unwrap_or_else(|| ["not known".to_owned(), "not known".to_owned()]);
        let capacity = c.capacity.map_or("not known".to_owned(), |n| short(n).trim().to_owned());
        let load = format!("{:.0} {}", c.load, c.unit);
        let _ =
            writeln!(text, "{:14} {load:>18} {capacity:>14} {here:>14} {:>7} {there:>14}", c.name, c.times);
    }
    if let Some((component, rate)) = limit(components) {
        let _ = writeln!(
            text,
            "projected (cpu x{}, mem x{}, io x{}): {}pps received, limited by {}; all processors, if the work is shared equally",
            scale.cpu,
            scale.mem,
            scale.io,
            short(rate),
            component.name
        );
    }
    text
}
