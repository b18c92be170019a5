//! What packets do in a configuration: which elements they come to, in which batches, and what they are then.
//! Nothing is timed.

use crate::elements;
use crate::recording::Recording;
use crate::stream::{Numbered, Stream};
use crate::text::{about, declarations};
use crate::traffic::{Traffic, with_ports};
use lang::{Config, Diagnostics, LoadOptions, PortRef, Source};
use locks::IgnorePoison;
use runtime::{ElementId, Fields, Options, Registry, Role, Router, StatsSnapshot};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Packets that come in before they are recorded, so that queues and tables are as they will be.
const BEFORE: u64 = 1 << 16;
/// Packets that come in while they are recorded.
const RECORDED: u64 = 1 << 17;
/// The longest time for either.
const LONGEST: Duration = Duration::from_secs(2);

/// Bytes of memory that a packet uses beside its data: the lines of its mbuf, and pointers to it.
const MBUF_BYTES: f64 = 256.0;

/// The most elements between two that let packets wait.
const MOST_STEPS: usize = 256;

/// Bytes of memory that a batch uses in an element: the element, its place in the graph, its counters.
const ELEMENT_BYTES: f64 = 640.0;

/// A configuration, and what packets did in it.
pub struct Observed {
    /// The configuration as it was run: with ports that this process may have.
    pub source: Source,
    /// How that differs from what was asked for, for the user.
    pub notes: Vec<String>,
    pub(crate) config: Config,
    pub(crate) elements: Vec<Seen>,
}

/// What an element did.
pub(crate) struct Seen {
    pub(crate) class: &'static str,
    pub(crate) role: Role,
    /// Whether each input and each output is pull.
    pub(crate) inputs: Vec<bool>,
    pub(crate) outputs: Vec<bool>,
    /// The annotations that are read behind each output.
    pub(crate) live: Vec<Fields>,
    pub(crate) stats: StatsSnapshot,
    /// Packets that wait in it.
    pub(crate) waiting: usize,
    /// Packets that wait where its packets have been before.
    pub(crate) behind: usize,
    pub(crate) stream: Arc<Mutex<Stream>>,
}

impl Seen {
    /// Whether packets cannot pass it: it is a table, or information.
    pub(crate) fn has_no_ports(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }
    /// Bytes of a packet that comes to it, on average.
    pub(crate) fn bytes(&self) -> f64 {
        self.stream.lock().ignore_poison().bytes()
    }
    /// Whether anything happened in it.
    pub(crate) fn worked(&self) -> bool {
        self.stats.calls + self.stats.emissions + self.stats.idle_polls > 0
    }
    /// How often the clock is read in it where all is timed.
    pub(crate) fn intervals(&self, stats: &StatsSnapshot) -> u64 {
        let pulled = self.outputs.iter().any(|pull| *pull);
        stats.calls + if pulled { stats.emissions } else { 0 } + self.runs(stats)
    }
    /// How often its task ran with work.
    pub(crate) fn runs(&self, stats: &StatsSnapshot) -> u64 {
        if self.outputs.iter().any(|pull| *pull) {
            0
        } else if self.inputs.is_empty() {
            stats.emissions
        } else if self.inputs.iter().any(|pull| *pull) {
            stats.calls
        } else {
            0
        }
    }
}

/// What keeps a configuration from being predicted.
#[derive(Debug)]
pub enum Failure {
    /// Its errors.
    Configuration(Diagnostics),
    /// A message for the user.
    Message(String),
}

/// Runs a configuration for some packets.
///
/// # Errors
/// It does not load, or no packets come in.
pub fn observe(
    source: &Source,
    load: &LoadOptions,
    registry: &Arc<Registry>,
    options: &Options,
    traffic: &Traffic,
) -> Result<Observed, Failure> {
    let own = lang::load(std::slice::from_ref(source), load, &**registry).map_err(Failure::Configuration)?;
    let check = Options { threads: false, workers: 1, watchdog: None, check_only: true, ..options.clone() };
    Router::new(std::slice::from_ref(source), load.clone(), Arc::clone(registry), check)
        .map_err(Failure::Configuration)?;
    let (text, mut notes) = with_ports(&own, registry, traffic).map_err(Failure::Message)?;
    let runs = Source::new(source.name.clone(), text);
    let config = lang::load(std::slice::from_ref(&runs), &LoadOptions::default(), &**registry)
        .map_err(|diags| Failure::Configuration(about(&own, &runs, &diags, registry)))?;
    for e in &config.elements {
        let class = registry
            .get(&e.class)
            .filter(|class| !matches!(class.role, Role::DeviceSource | Role::DeviceSink));
        if let Some(what) =
            class.and_then(|class| class.opens).filter(|_| !e.config.contains("\"/dev/null\""))
        {
            notes.push(format!("{} :: {} opens {what} here too", e.name, e.class));
        }
    }
    let recording = Recording::new(config.elements.len());
    let stream = |_| Numbered::new(Arc::default(), Some(Arc::clone(&recording)));
    let streams: Vec<Numbered> = config.elements.iter().map(stream).collect();
    let text = tapped(&config, &streams);
    let live = runtime::live_annotations(&config, registry);
    let mut with = Registry::clone(registry);
    elements::register(&mut with, &[]);
    let options = Options { threads: false, workers: 1, watchdog: None, ..options.clone() };
    let source = Source::new("recorded configuration", text);
    let with = Arc::new(with);
    let mut router =
        Router::new(std::slice::from_ref(&source), LoadOptions::default(), Arc::clone(&with), options)
            .map_err(|diags| Failure::Configuration(about(&own, &source, &diags, &with)))?;
    // The elements that record follow those of the configuration, in the order of the connections.
    let taps = config.elements.len();
    let none = vec![StatsSnapshot::default(); taps + config.connections.len()];
    let before = run(&mut router, BEFORE, &none, &recording);
    recording.set_on(true);
    let after = run(&mut router, RECORDED, &before, &recording);
    recording.set_on(false);
    let waiting: Vec<usize> =
        (0..taps).map(|index| if stores(&router, index) { recording.waiting(index) } else { 0 }).collect();
    let passed: Vec<u64> =
        (0..config.connections.len()).map(|n| after[taps + n].packets - before[taps + n].packets).collect();
    let behind = behind(&config, &passed, &waiting);
    let mut all = Vec::new();
    for (index, element) in config.elements.iter().enumerate() {
        let Some(info) = router.elements().get(index).filter(|info| info.name == element.name) else {
            return Err(Failure::Message(format!("{} is not where it was", element.name)));
        };
        let id = ElementId(index as u32);
        let kinds = |input: bool, n: usize| {
            (0..n).map(|port| router.port_kind(id, input, port).starts_with("pull")).collect()
        };
        let fields = |output: usize| {
            let from = PortRef { element: index, port: output };
            let behind = config.connections.iter().zip(&live).filter(|(c, _)| c.from == from);
            behind.fold(Fields::NONE, |all, (_, fields)| all | *fields)
        };
        all.push(Seen {
            class: info.class,
            role: router.registry().get(info.class).map_or(Role::Ordinary, |class| class.role),
            inputs: kinds(true, info.n_inputs),
            outputs: kinds(false, info.n_outputs),
            live: (0..info.n_outputs).map(fields).collect(),
            stats: between(&before[index], &after[index]),
            waiting: waiting[index],
            behind: behind[index].round() as usize,
            stream: Arc::clone(&streams[index].stream),
        });
    }
    let ends = router.wants_to_end();
    router.wind_up();
    drop(router);
    let observed = Observed { source: runs, notes, config, elements: all };
    if observed.received() == 0 {
        let seen =
            received(observed.elements.iter().zip(&before).map(|(e, stats)| (e.role, e.inputs.len(), stats)));
        let why = if ends {
            "it stops itself; a prediction needs one that goes on"
        } else {
            "a prediction needs a source that goes on"
        };
        return Err(Failure::Message(match seen {
            0 if ends => "it stops itself before packets come in".to_owned(),
            0 => "no packets come in".to_owned(),
            n => format!(
                "{n} packets come in, then no more: {why} (without STOP, LIMIT; infinite_rx=1 for net_pcap)"
            ),
        }));
    }
    Ok(observed)
}

impl Observed {
    /// Packets that have come in: by devices, or made by elements if there is no device.
    pub(crate) fn received(&self) -> u64 {
        received(self.elements.iter().map(|e| (e.role, e.inputs.len(), &e.stats)))
    }
    /// The share of the packets of an element that leave by its output 0; of one without outputs, that come.
    pub(crate) fn leave_first(&self, index: usize) -> f64 {
        let behind = self.config.connections.iter().filter(|c| c.from == PortRef { element: index, port: 0 });
        let left: u64 = behind.map(|c| self.elements[c.to.element].stats.handled()).sum();
        let one = &self.elements[index];
        if one.outputs.is_empty() { 1.0 } else { left as f64 / one.stats.handled().max(1) as f64 }
    }
    /// Batches that elements got or emitted.
    fn calls(&self) -> f64 {
        self.elements.iter().map(|e| e.stats.calls + e.stats.emissions).sum::<u64>() as f64
    }
    /// Bytes of memory of elements, without packets: for each packet that is received, and in all.
    pub(crate) fn memory_of_elements(&self) -> (usize, usize) {
        let each = self.calls() * ELEMENT_BYTES / self.received().max(1) as f64;
        let all = self.elements.iter().filter(|e| e.worked()).count() as f64 * ELEMENT_BYTES;
        (each as usize / 64 * 64, all as usize)
    }
    /// Bytes of a packet that comes in, on average.
    #[must_use]
    pub fn bytes_of_a_packet(&self) -> f64 {
        let sources = || self.elements.iter().enumerate().filter(|(_, e)| e.inputs.is_empty());
        let bytes: f64 = sources().map(|(n, e)| e.stats.emitted as f64 * self.bytes_behind(n)).sum();
        let packets: u64 = sources().map(|(_, e)| e.stats.emitted).sum();
        if packets == 0 { 0.0 } else { bytes / packets as f64 }
    }
    /// A number that tells the packets which come from some elements from others.
    pub(crate) fn digest(&self, from: &[usize]) -> Vec<u64> {
        let behind = self.config.connections.iter().filter(|c| from.contains(&c.from.element));
        behind.map(|c| self.elements[c.to.element].stream.lock().ignore_poison().digest()).collect()
    }
    /// Packets that wait in all elements, on average.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.elements.iter().map(|e| e.waiting).sum()
    }
    /// Bytes of memory that all packets used: their data, written and read, and their mbufs.
    pub(crate) fn memory(&self) -> f64 {
        let sources = self.elements.iter().enumerate().filter(|(_, e)| e.inputs.is_empty());
        sources.map(|(n, e)| e.stats.emitted as f64 * used(self.bytes_behind(n))).sum()
    }
    /// Bytes of memory that others use for each packet that an element handles: other packets, other
    /// elements.
    pub(crate) fn memory_of_others(&self, index: usize) -> f64 {
        let own = &self.elements[index];
        let all = self.memory() + self.calls() * ELEMENT_BYTES;
        (all / own.stats.handled().max(1) as f64 - used(own.bytes())).max(0.0)
    }
    /// Bytes of the packets that an element emits, on average.
    fn bytes_behind(&self, index: usize) -> f64 {
        let behind = self.config.connections.iter().filter(|c| c.from.element == index);
        behind.map(|c| self.elements[c.to.element].bytes()).fold(0.0, f64::max)
    }
    /// Packets that have gone out by devices.
    pub(crate) fn sent(&self) -> u64 {
        self.elements.iter().filter(|e| e.role == Role::DeviceSink).map(|e| e.stats.packets).sum()
    }
}

/// Bytes of memory that a packet of so many bytes uses.
fn used(bytes: f64) -> f64 {
    2.0 * bytes + MBUF_BYTES
}

/// Whether packets wait in an element: such elements have a handler for their number.
fn stores(router: &Router, index: usize) -> bool {
    router.elements()[index].handlers.iter().any(|handler| handler.name == "length")
}

/// Notes how many packets wait in each element.
fn count_waiting(router: &mut Router, recording: &Recording) {
    for index in (0..recording.len()).filter(|index| stores(router, *index)).collect::<Vec<_>>() {
        let handler = format!("{}.length", router.elements()[index].name);
        if let Some(length) = router.read(&handler, "").ok().and_then(|text| text.trim().parse().ok()) {
            recording.set_waiting(index, length);
        }
    }
}

/// For each element, how many packets waited, on average, where its packets have waited last. `passed` has
/// the packets of each connection.
fn behind(config: &Config, passed: &[u64], waiting: &[usize]) -> Vec<f64> {
    let mut behind = vec![0.0; waiting.len()];
    // Packets that come back to an element become fewer each time.
    for _ in 0..waiting.len().min(MOST_STEPS) {
        let mut sums = vec![(0.0, 0.0); waiting.len()];
        for (c, n) in config.connections.iter().zip(passed) {
            let from = c.from.element;
            let waited = if waiting[from] > 0 { waiting[from] as f64 } else { behind[from] };
            sums[c.to.element].0 += *n as f64 * waited;
            sums[c.to.element].1 += *n as f64;
        }
        behind = sums.into_iter().map(|(sum, n)| if n > 0.0 { sum / n } else { 0.0 }).collect();
    }
    behind
}

/// Packets that have come in by devices, or made by elements if there is no device: of roles, inputs,
/// counters.
pub(crate) fn received<'a>(all: impl Iterator<Item = (Role, usize, &'a StatsSnapshot)>) -> u64 {
    let (mut devices, mut others) = (0, 0);
    for (role, inputs, stats) in all {
        if role == Role::DeviceSource {
            devices += stats.emitted;
        } else if inputs == 0 {
            others += stats.emitted;
        }
    }
    if devices > 0 { devices } else { others }
}

/// Runs until so many packets have come in, or nothing comes any more, or the time is over; returns the
/// counters.
fn run(
    router: &mut Router,
    packets: u64,
    since: &[StatsSnapshot],
    recording: &Recording,
) -> Vec<StatsSnapshot> {
    router.start();
    let began = Instant::now();
    loop {
        // What queues drop is not seen on its way.
        count_waiting(router, recording);
        for _ in 0..16 {
            router.turn();
        }
        let now: Vec<_> = router.elements().iter().take(since.len()).map(|e| e.totals()).collect();
        let new: Vec<_> = since.iter().zip(&now).map(|(a, b)| between(a, b)).collect();
        let roles = router.elements().iter().zip(&new).map(|(e, stats)| {
            (router.registry().get(e.class).map_or(Role::Ordinary, |class| class.role), e.n_inputs, stats)
        });
        if received(roles) >= packets || began.elapsed() > LONGEST || router.wants_to_end() {
            return now;
        }
    }
}

/// What has happened between two readings.
pub(crate) fn between(a: &StatsSnapshot, b: &StatsSnapshot) -> StatsSnapshot {
    StatsSnapshot {
        calls: b.calls - a.calls,
        packets: b.packets - a.packets,
        emitted: b.emitted - a.emitted,
        emissions: b.emissions - a.emissions,
        cycles: b.cycles - a.cycles,
        idle_polls: b.idle_polls - a.idle_polls,
        idle_cycles: b.idle_cycles - a.idle_cycles,
        ..StatsSnapshot::default()
    }
}

/// The configuration with an element in each connection that records what goes to the element behind it.
fn tapped(config: &Config, streams: &[Numbered]) -> String {
    let mut text = declarations(config, |_| true);
    for (n, c) in config.connections.iter().enumerate() {
        let (from, to) = (&config.elements[c.from.element].name, &config.elements[c.to.element].name);
        let stream = streams[c.to.element].number;
        let first = config.connections.iter().all(|other| other.to.element != c.from.element);
        let _ = writeln!(
            text,
            "{from} [{}] -> predict_tap_{n} :: PredictTap({stream}, {}, {}, {}, {first}) -> [{}] {to};",
            c.from.port, c.to.port, c.from.element, c.to.element, c.to.port
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        lang::load(&[Source::new("test", text)], &LoadOptions::default(), &::elements::registry()).unwrap()
    }

    #[test]
    fn packets_have_waited_where_most_of_them_have() {
        // Three of four packets at `d` come by the queue; hardly any come back to `c`.
        let config = config(
            "s :: InfiniteSource; q :: Queue; u :: Unqueue; d :: Counter; e :: Discard; c :: CheckIPHeader; t :: Tee;
             s -> c; c [0] -> t; t [0] -> q -> u -> d -> e; t [1] -> d; c [1] -> q;",
        );
        let index = |name: &str| config.find(name).unwrap();
        let passed: Vec<u64> = config
            .connections
            .iter()
            .map(|c| if (c.from.element, c.from.port) == (index("t"), 1) { 25 } else { 75 })
            .collect();
        let mut waiting = vec![0; config.elements.len()];
        waiting[index("q")] = 100;
        let behind = behind(&config, &passed, &waiting);
        assert_eq!(
            ["s", "c", "q", "u", "d", "e"].map(|n| behind[index(n)]),
            [0.0, 0.0, 0.0, 100.0, 75.0, 75.0]
        );
    }
}
