//! All that is measured on a machine.

use crate::calls;
use crate::figure::Figure;
use crate::machine::Machine;
use crate::memory::{self, Among, Block, Effort, Traffic};
use std::collections::BTreeSet;
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
    pub(crate) machine: Machine,
    /// The processors that were measured.
    pub(crate) processors: Vec<usize>,
    /// Ticks of the processor's time stamp counter in a nanosecond.
    pub(crate) gigahertz: f64,
    pub(crate) call: Figure,
    /// From the first processor to another one, and where that is.
    pub(crate) passing: Vec<(&'static str, usize, Figure)>,
    pub(crate) wake_up: Option<Figure>,
    pub(crate) lines: Vec<Among>,
    /// By the first processor, and by all.
    pub(crate) streams: Vec<(Traffic, Figure, Figure)>,
}

/// Ticks of the time stamp counter in a nanosecond.
fn gigahertz() -> f64 {
    let (began, cycles) = (Instant::now(), dpdk::cycles());
    std::thread::sleep(Duration::from_millis(50));
    let cycles = dpdk::cycles().wrapping_sub(cycles);
    cycles as f64 / began.elapsed().as_nanos() as f64
}

/// One processor of each kind of neighbor of `first`: what it is, and its number.
fn neighbors(machine: &Machine, first: usize, processors: &[usize]) -> Vec<(&'static str, usize)> {
    let core = |id: usize| machine.topology.cores().iter().find(move |core| core.id == id);
    let (own, cache) = (core(first), machine.last_cache());
    let kind = |other: usize| match () {
        () if own.is_some_and(|own| own.siblings.contains(&other)) => "a hardware thread of the same core",
        () if cache.is_some_and(|cache| [first, other].iter().all(|id| cache.shared_by.contains(id))) => {
            "a core with the same last cache"
        }
        () if own.and_then(|own| own.node) == core(other).and_then(|core| core.node) => {
            "another core of the same NUMA node"
        }
        () => "a core of another NUMA node",
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
    /// Bytes a second that all processors together can read and write again (the median).
    #[must_use]
    pub fn copy_rate(&self) -> Option<f64> {
        self.streams.iter().find(|(traffic, ..)| *traffic == Traffic::Copy).map(|(_, _, all)| all.median)
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Measures; `step` is told what is next, and how much is done (0 to 1).
    ///
    /// # Errors
    /// A processor that may not be used, or memory that is not there.
    pub fn measure(options: &Options, mut step: impl FnMut(&str, f64)) -> Result<Self, String> {
        let machine = Machine::here();
        let effort = Effort { samples: options.samples.max(1), sample: options.sample };
        let allowed = machine.processors();
        let mut processors = match options.processors.is_empty() {
            true => allowed.clone(),
            false => options.processors.clone(),
        };
        // Each once.
        let mut known = BTreeSet::new();
        processors.retain(|processor| known.insert(*processor));
        let Some(&first) = processors.first() else { return Err("there is no processor".to_owned()) };
        if let Some(wrong) = processors.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(format!("processor {wrong} is not one that may be used here: {:?}", allowed));
        }
        let free = machine.available / PART;
        let wanted = options
            .bytes
            .map_or(LEAST.max(4 * machine.last_cache().map_or(0, |cache| cache.bytes)), |bytes| bytes as u64);
        if options.bytes.is_some() && wanted > free {
            return Err(format!(
                "{} MiB are more than a quarter of the memory that is free: {} MiB",
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
        for part in
            ["system call", "16 KiB", "1 MiB", "write to random lines", "1518 bytes", "a core, 4 lines "]
        {
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
    fn a_processor_of_each_kind_is_chosen() {
        let server = crate::machine::tests::server("neighbors");
        let found = neighbors(&server, 0, &server.processors());
        assert_eq!(found.iter().map(|(_, other)| *other).collect::<Vec<_>>(), [1, 2, 4]);
        assert!(found[0].0.contains("last cache") && found[1].0.contains("another NUMA"), "{found:?}");
        assert!(found[2].0.contains("same core"), "{found:?}");
        // Without its caches.
        let found = neighbors(&server, 2, &[2, 3, 6]);
        assert_eq!(
            found,
            [("another core of the same NUMA node", 3), ("a hardware thread of the same core", 6)]
        );
    }
}
