//! All that is measured on a machine.

use crate::calls;
use crate::figure::Figure;
use crate::machine::{Cache, Card, Machine};
use crate::memory::{self, Among, Block, Effort, Traffic};
use crate::packet::{Bound, LINES, SIZES, gbps};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// How it is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The processors that are measured; none: all that this process may use.
    pub processors: Vec<usize>,
    /// The memory in which lines are read, in bytes; none: four times the last cache, at least 256 MB.
    pub bytes: Option<usize>,
    /// How many samples of each thing.
    pub samples: usize,
    /// How long each takes.
    pub sample: Duration,
}

/// The least memory that is read.
const LEAST: u64 = 256 << 20;
/// No more than one part in so many of the memory that is free.
const PART: u64 = 4;
/// The memory of each processor for streams.
const STREAM: u64 = 128 << 20;

/// What was measured.
#[derive(Debug)]
pub struct Host {
    machine: Machine,
    /// The processors that were measured.
    processors: Vec<usize>,
    /// Ticks of the processor's time stamp counter in a nanosecond.
    gigahertz: f64,
    call: Figure,
    /// From the first processor to another one, and where that is.
    passing: Vec<(&'static str, usize, Figure)>,
    wake_up: Option<Figure>,
    lines: Vec<Among>,
    /// By the first processor, and by all.
    streams: Vec<(Traffic, Figure, Figure)>,
}

/// Ticks of the time stamp counter in a nanosecond.
fn gigahertz() -> f64 {
    let (began, cycles) = (Instant::now(), dpdk::cycles());
    std::thread::sleep(Duration::from_millis(50));
    let cycles = dpdk::cycles().wrapping_sub(cycles);
    cycles as f64 / began.elapsed().as_nanos() as f64
}

/// One processor of each kind of neighbor of `first`, nearest first.
fn neighbors(machine: &Machine, first: usize, processors: &[usize]) -> Vec<(&'static str, usize)> {
    let shares = |level: Option<u32>, other: usize| {
        let caches = machine.caches.iter().filter(|cache| level.is_none_or(|level| cache.level == level));
        caches.max_by_key(|cache| cache.level).is_some_and(|cache| cache.shared_by.contains(&other))
    };
    let kind = |other: usize| {
        let node = machine.nodes.iter().find(|node| node.contains(&first));
        match () {
            () if shares(Some(1), other) => "a hardware thread of the same core",
            () if shares(None, other) => "a core with the same last cache",
            () if node.is_none_or(|node| node.contains(&other)) => "another core of the same NUMA node",
            () => "a core of another NUMA node",
        }
    };
    let mut found: Vec<(&'static str, usize)> = Vec::new();
    for &other in processors.iter().filter(|&&other| other != first) {
        if found.iter().all(|(known, _)| *known != kind(other)) {
            found.push((kind(other), other));
        }
    }
    found
}

impl Host {
    /// Measures; `step` is told what is next, and how much is done (0 to 1).
    ///
    /// # Errors
    /// A processor that may not be used, or memory that is not there.
    pub fn measure(options: &Options, mut step: impl FnMut(&str, f64)) -> Result<Self, String> {
        let machine = Machine::here();
        let effort = Effort { samples: options.samples.max(1), sample: options.sample };
        let processors = match options.processors.is_empty() {
            true => machine.processors.clone(),
            false => options.processors.clone(),
        };
        let Some(&first) = processors.first() else { return Err("there is no processor".to_owned()) };
        if let Some(wrong) = processors.iter().find(|cpu| !machine.processors.contains(cpu)) {
            return Err(format!(
                "processor {wrong} is not one that may be used here: {:?}",
                machine.processors
            ));
        }
        let free = machine.available / PART;
        let wanted = options.bytes.map_or(LEAST.max(4 * machine.last_cache()), |bytes| bytes as u64);
        if options.bytes.is_some() && wanted > free {
            return Err(format!(
                "{} MB are more than a quarter of the memory that is free: {} MB",
                wanted >> 20,
                free >> 20
            ));
        }
        // A power of two, as the sizes that are measured.
        let bytes = 1usize << wanted.min(free).max(1 << 20).ilog2();
        let each = STREAM.min(free / processors.len() as u64).max(1 << 20) as usize;
        let taken = |e: std::io::Error| format!("memory: {e}");

        step("the clock", 0.0);
        let gigahertz = gigahertz();
        // On a thread of its own, so that this one stays where it may run.
        let on_first = |work: &mut (dyn FnMut() -> Result<(Figure, Vec<Among>), String> + Send)| {
            std::thread::scope(|scope| {
                let bound = scope.spawn(|| {
                    dpdk::set_affinity(&[first]).map_err(|e| format!("processor {first}: {e}"))?;
                    work()
                });
                bound.join().unwrap_or_else(|_| Err("a measurement has failed".to_owned()))
            })
        };
        step("system calls and lines of memory", 0.05);
        let (call, lines) = on_first(&mut || {
            let call = calls::system_call(effort).ok_or("no sample")?;
            Ok((call, memory::lines(&mut Block::new(bytes).map_err(taken)?, effort)))
        })?;
        step("other processors", 0.5);
        let mut passing = Vec::new();
        for (kind, other) in neighbors(&machine, first, &processors) {
            passing.extend(calls::passing(first, other, effort).map(|figure| (kind, other, figure)));
        }
        let other = passing.last().map_or(first, |(_, other, _)| *other);
        let wake_up = (other != first).then(|| calls::wake_up(first, other, effort)).flatten();
        step("streams", 0.65);
        let blocks: Result<Vec<_>, _> = processors.iter().map(|_| Block::new(each)).collect();
        let (mut blocks, mut streams) = (blocks.map_err(taken)?, Vec::new());
        for (done, traffic) in Traffic::ALL.into_iter().enumerate() {
            step("streams", 0.65 + 0.35 * done as f64 / Traffic::ALL.len() as f64);
            let one = memory::stream(traffic, &[first], &mut blocks, effort);
            let all = memory::stream(traffic, &processors, &mut blocks, effort);
            streams.extend(one.zip(all).map(|(one, all)| (traffic, one, all)));
        }
        Ok(Self { machine, processors, gigahertz, call, passing, wake_up, lines, streams })
    }

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
            bounds.push(Bound::of_traffic("memory of all processors, each byte four times", all.median));
        }
        if let Some(memory) = self.line(false) {
            bounds.push(Bound::of_lines("a core, 4 lines from memory, at once", memory.at_once.median));
            bounds.push(Bound::of_lines(
                "a core, 4 lines from memory, one after another",
                memory.in_turn.median,
            ));
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
            "\nWhat that allows for packets, in Mpps (Gb/s on the wire), before any program runs"
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
    let mut text = String::new();
    let used = if processors.len() == machine.processors.len() {
        String::new()
    } else {
        format!(", measured: {processors:?}")
    };
    let _ = writeln!(
        text,
        "processor    {}, {} on {}{used}",
        machine.model,
        count(machine.processors.len(), "processor"),
        count(machine.cores, "core")
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
    for (node, processors) in machine.nodes.iter().enumerate() {
        let distances: Vec<String> =
            machine.distances.get(node).into_iter().flatten().map(u32::to_string).collect();
        let distances =
            if distances.len() > 1 { format!(", distances {}", distances.join(" ")) } else { String::new() };
        let _ = writeln!(text, "NUMA node {node}  processors {processors:?}{distances}");
    }
    let _ = writeln!(text, "memory       {} free", size(machine.available));
    for card in &machine.cards {
        let Card { address, interface, driver, kind, link, best, mbps } = card;
        let name = interface.as_deref().or(driver.as_deref()).unwrap_or("no driver");
        let rate = mbps.map_or(String::new(), |mbps| format!(", port of {} Gb/s", mbps as f64 / 1e3));
        let _ = write!(text, "card         {address} ({kind}, {name}){rate}");
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
                let _ = write!(text, "; the card could have {} GT/s x{}", best.gigatransfers, best.lanes);
            }
        }
        text.push('\n');
    }
    if machine.cards.is_empty() {
        let _ = writeln!(text, "card         none on PCI");
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

    fn quick() -> Options {
        Options { processors: vec![], bytes: Some(1 << 20), samples: 1, sample: Duration::from_millis(1) }
    }

    #[test]
    fn all_is_measured_and_shown() {
        let mut steps = Vec::new();
        let host = Host::measure(&quick(), |_, done| steps.push(done)).unwrap();
        assert!(
            steps.len() > 4 && steps.is_sorted() && steps.last().is_some_and(|done| *done < 1.0),
            "{steps:?}"
        );
        let json = host.json();
        assert_eq!(json["lines"].as_array().map(Vec::len), Some(7), "{json}");
        assert_eq!(json["streams"].as_array().map(Vec::len), Some(4), "{json}");
        assert_eq!(json["bounds"][0]["frames"][0]["frame_bytes"], 64, "{json}");
        assert!(json["tsc_ghz"].as_f64().is_some_and(|ghz| ghz > 0.1), "{json}");
        let text = host.text();
        for part in [
            "system call",
            "16 KiB",
            "1 MiB",
            "write to random lines",
            "1518 bytes",
            "4 lines from memory, at once",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let no_processor = Options { processors: vec![100_000], ..quick() };
        assert!(Host::measure(&no_processor, |_, _| ()).unwrap_err().contains("processor 100000"));
        let too_much = Options { bytes: Some(1 << 50), ..quick() };
        assert!(Host::measure(&too_much, |_, _| ()).unwrap_err().contains("a quarter of the memory"));
    }

    #[test]
    fn the_nearest_processor_of_each_kind_is_chosen() {
        let cache = |level, shared_by: &[usize]| Cache {
            level,
            kind: "Unified".into(),
            bytes: 1,
            shared_by: shared_by.into(),
        };
        let machine = Machine {
            caches: vec![cache(1, &[0, 8]), cache(3, &[0, 1, 8, 9])],
            nodes: vec![vec![0, 1, 2, 3, 8, 9], vec![4, 5]],
            ..Machine::default()
        };
        let found = neighbors(&machine, 0, &[0, 1, 2, 3, 4, 5, 8, 9]);
        assert_eq!(found.iter().map(|(_, other)| *other).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert!(
            found[3].0.contains("same core")
                && found[0].0.contains("last cache")
                && found[2].0.contains("another NUMA")
        );
        assert_eq!(neighbors(&Machine::default(), 0, &[0]), []);
    }
}
