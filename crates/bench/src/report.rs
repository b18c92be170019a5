//! What was measured, as text and as JSON.

use crate::figure::Figure;
use crate::host::Host;
use crate::machine::{Cache, Machine, Nic};
use crate::memory::{Among, Traffic};
use crate::packet::{Bound, LINES, SIZES, gbps};
use serde_json::{Value, json};
use std::fmt::Write;

impl Host {
    /// What a line takes in the processor's own caches, or in memory: the largest of the sizes, and the
    /// largest that fits into half of the second cache.
    fn line(&self, own: bool) -> Option<&Among> {
        if !own {
            return self.lines.last();
        }
        let second = self.machine.caches.iter().find(|cache| cache.level == 2)?;
        self.lines.iter().rev().find(|among| among.bytes as u64 <= second.bytes / 2)
    }

    fn bounds(&self) -> Vec<Bound> {
        let mut bounds = Vec::new();
        if let Some((_, _, all)) = self.streams.iter().find(|(traffic, ..)| *traffic == Traffic::RandomWrite)
        {
            let of = if self.processors.len() > 1 { "all processors" } else { "a processor" };
            bounds.push(Bound::of_traffic(&format!("memory of {of}, each byte four times"), all.median));
        }
        if let Some(memory) = self.line(false) {
            // Less than the caches hold is not in memory.
            let cached = self.machine.last_cache().is_some_and(|cache| memory.bytes as u64 <= cache.bytes);
            let from = if cached {
                format!("among {}", size(memory.bytes as u64))
            } else {
                "from memory".to_owned()
            };
            let name = |how: &str| format!("a core, 4 lines {from}, {how}");
            bounds.push(Bound::of_lines(&name("at once"), memory.at_once.median));
            bounds.push(Bound::of_lines(&name("one after another"), memory.in_turn.median));
        }
        if let Some(own) = self.line(true) {
            bounds.push(Bound::of_lines("a core, 4 lines from its own caches, at once", own.at_once.median));
        }
        bounds
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let lines = self.lines.iter().map(|among| {
            json!({
                "bytes": among.bytes, "one_after_another_ns": among.in_turn.json(),
                "at_once_ns": among.at_once.json(),
            })
        });
        let passing = self
            .passing
            .iter()
            .map(|(kind, other, figure)| json!({"to": kind, "processor": other, "ns": figure.json()}));
        let streams = self.streams.iter().map(|(traffic, one, all)| {
            json!({"traffic": traffic.name(), "one_bytes_per_second": one.json(), "all_bytes_per_second": all.json()})
        });
        json!({
            "machine": self.machine.json(), "processors": self.processors, "tsc_ghz": self.gigahertz,
            "system_call_ns": self.call.json(), "line_to_another_processor": passing.collect::<Vec<_>>(),
            "wake_up_ns": self.wake_up.map(|figure| figure.json()),
            "lines": lines.collect::<Vec<_>>(), "streams": streams.collect::<Vec<_>>(),
            "lines_of_a_packet": LINES, "bounds": self.bounds().iter().map(Bound::json).collect::<Vec<_>>(),
        })
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = said(&self.machine, &self.processors);
        let ghz = self.gigahertz;
        let cycles = |figure: &Figure| figure.map(|ns| ns * ghz);
        let _ = writeln!(text, "clock        time stamps at {ghz:.3} GHz; cycles below are theirs\n");
        let _ =
            writeln!(text, "What is measured, on processor {}: medians (least to most)", self.processors[0]);
        let _ = writeln!(text, "  system call                    {}", times(self.call, cycles(&self.call)));
        for (kind, other, figure) in &self.passing {
            let _ = writeln!(
                text,
                "  a line to processor {other:<3}        {}, {kind}",
                times(*figure, cycles(figure))
            );
        }
        if let Some(figure) = &self.wake_up {
            let _ = writeln!(text, "  waking a thread elsewhere      {}", times(*figure, cycles(figure)));
        }
        let _ = writeln!(text, "\nLines of 64 bytes in random order, cycles each");
        let _ = writeln!(text, "  {:<10} {:>24} {:>24}", "among", "one after another", "at once");
        for among in &self.lines {
            let (turn, once) = (spread(cycles(&among.in_turn), 1), spread(cycles(&among.at_once), 1));
            let _ = writeln!(text, "  {:<10} {turn:>24} {once:>24}", size(among.bytes as u64));
        }
        let _ = writeln!(text, "\nMemory, GB/s read and written");
        let all = format!("{} together", count(self.processors.len(), "processor"));
        let _ = writeln!(text, "  {:<26} {:>24} {all:>24}", "", "one processor");
        for (traffic, one, all) in &self.streams {
            let name = match traffic {
                Traffic::Read => "read in order",
                Traffic::Write => "write in order",
                Traffic::Copy => "copy",
                Traffic::RandomWrite => "write to random lines",
            };
            let gigabytes = |figure: &Figure| spread(figure.map(|bytes| bytes / 1e9), 1);
            let _ = writeln!(text, "  {name:<26} {:>24} {:>24}", gigabytes(one), gigabytes(all));
        }
        let _ = writeln!(
            text,
            "\nWhat that allows for packets, in Mpps (Gb/s on the wire), before any program runs; sizes with frame check sequence"
        );
        let _ = write!(text, "  {:<50}", "by");
        for size in SIZES {
            let _ = write!(text, " {:>16}", format!("{size} bytes"));
        }
        text.push('\n');
        for bound in self.bounds() {
            let _ = write!(text, "  {:<50}", bound.name);
            for (size, rate) in SIZES.into_iter().zip(bound.rates) {
                let _ = write!(text, " {:>16}", format!("{:.1} ({:.0})", rate / 1e6, gbps(size, rate)));
            }
            text.push('\n');
        }
        text
    }
}

/// What the system says.
fn said(machine: &Machine, processors: &[usize]) -> String {
    let (mut text, all) = (String::new(), machine.processors().len());
    let used = if processors.len() == all { String::new() } else { format!(", measured: {processors:?}") };
    let _ = writeln!(
        text,
        "processor    {}, {} on {}{used}",
        machine.model,
        count(all, "processor"),
        count(machine.cores(), "core")
    );
    for cache in &machine.caches {
        let Cache { level, kind, bytes, shared_by } = cache;
        let kind = if kind == "Unified" { String::new() } else { format!(" {}", kind.to_lowercase()) };
        let shared = if shared_by.len() > 1 {
            format!(", shared by {}", count(shared_by.len(), "processor"))
        } else {
            String::new()
        };
        let _ = writeln!(text, "cache        L{level}{kind}: {}{shared}", size(*bytes));
    }
    let nodes = machine.nodes();
    for (node, processors) in &nodes {
        let known =
            |distance: Option<u32>| distance.map_or_else(|| "?".to_owned(), |distance| distance.to_string());
        let distances: Vec<String> = machine.distances(*node).into_iter().map(known).collect();
        let distances =
            if nodes.len() > 1 { format!(", distances {}", distances.join(" ")) } else { String::new() };
        let _ = writeln!(text, "NUMA node {node}  processors {processors:?}{distances}");
    }
    let _ = writeln!(text, "memory       {} free", size(machine.available));
    for Nic { device, link, best, mbps, firmware } in &machine.nics {
        let interface = device.interfaces.first().or(device.driver.as_ref());
        let name = interface.map_or("no driver", String::as_str);
        let rate = mbps.map_or(String::new(), |mbps| format!(", port of {} Gb/s", mbps as f64 / 1e3));
        let (vendor, kind) = device.id;
        let _ = write!(text, "NIC          {} ({vendor:04x}:{kind:04x}, {name}){rate}", device.address);
        if let Some(firmware) = firmware {
            let _ = write!(text, ", firmware {firmware}");
        }
        if let Some(link) = link {
            let (small, large) = (link.frames(60), link.frames(1514));
            let _ = write!(
                text,
                ", PCIe {} GT/s x{} = {:.1} Gb/s: no more than {:.1} Mpps of 64 bytes, {:.1} Gb/s of 1,518",
                link.gigatransfers,
                link.lanes,
                link.gbps(),
                small / 1e6,
                large * 1518.0 * 8.0 / 1e9
            );
            if let Some(best) = best.filter(|best| best.gbps() > link.gbps()) {
                let _ = write!(text, "; the NIC could have {} GT/s x{}", best.gigatransfers, best.lanes);
            }
        }
        if link.is_none() {
            text += ", PCI Express link not known";
        }
        text.push('\n');
    }
    if machine.nics.is_empty() {
        let _ = writeln!(text, "NIC          none on PCI");
    }
    text
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn size(bytes: u64) -> String {
    match bytes {
        n if n >= 10 << 30 => format!("{} GiB", n >> 30),
        n if n >= 1 << 20 => format!("{} MiB", n >> 20),
        n => format!("{} KiB", n >> 10),
    }
}

/// Such as "31.0 (30.2 to 33.8)".
fn spread(figure: Figure, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$} to {:.digits$})", figure.median, figure.least, figure.most)
}

fn times(ns: Figure, cycles: Figure) -> String {
    let unit = if ns.median < 10_000.0 { ("ns", 1.0) } else { ("us", 1e3) };
    format!("{} {}, {:.0} cycles", spread(ns.map(|n| n / unit.1), 1), unit.0, cycles.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::server;

    #[test]
    fn what_the_system_says_is_shown() {
        let text = said(&server("report"), &[0, 1]);
        for part in [
            "A Processor 9000, 8 processors on 4 cores, measured: [0, 1]",
            "L1 data: 48 KiB, shared by 2 processors",
            "L3: 36 MiB, shared by 4 processors",
            "NUMA node 1  processors [2, 3, 6, 7], distances 32 10",
            "0000:81:00.0 (8086:1592, eth1), port of 100 Gb/s, PCIe 8 GT/s x8 = 63.0 Gb/s: no more than",
            "; the NIC could have 16 GT/s x16",
            "0000:01:00.0 (0000:0000, eth0), PCI Express link not known\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
