//! What elements cost, each by itself, of any packets: for comparing them, and to know what one more would
//! take.

use crate::alone::{self, Bench};
use crate::clock::calibrate;
use crate::kept::Kept;
use crate::observe::{Failure, Observed, observe};
use crate::stream::{Numbered, Stream};
use crate::traffic::Traffic;
use dpdk::Packet;
use lang::{LoadOptions, Source};
use runtime::{Fields, Options, Registry, Role, Router};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use wire::checksum::checksum;

/// Sizes of frames without the check sequence.
const SMALL: usize = 60;
const LARGE: usize = 1514;
/// Packets of a short batch.
const SHORT: usize = 8;
/// Different packets.
const FLOWS: usize = 256;
/// Packets that wait before a cold one: more than the second-level cache holds.
const COLD: usize = 4096;
/// The most inputs that are tried.
const MOST_INPUTS: usize = 2;
/// The most outputs that are tried.
const MOST_OUTPUTS: usize = 8;

/// What an element costs, in cycles: `batch + n (packet + byte x bytes)` for n packets that are in the
/// first-level cache.
#[derive(Clone, Debug)]
pub struct ElementCost {
    /// As it was written.
    pub element: String,
    /// What came before it.
    pub before: String,
    /// Of a batch, however many packets are in it.
    pub batch: f64,
    /// Of a packet, however many bytes it has.
    pub packet: f64,
    /// Of a byte.
    pub byte: f64,
    /// More of a packet whose lines have left the second-level cache.
    pub cold: f64,
}

impl ElementCost {
    /// Cycles of a packet of the smallest size in a full batch.
    #[must_use]
    pub fn of_small(&self, batch: usize) -> f64 {
        self.packet + self.batch / batch as f64 + self.byte * SMALL as f64
    }
}

/// Measures elements.
pub struct Elements<'a> {
    registry: &'a Arc<Registry>,
    bench: Bench<'a>,
}

impl<'a> Elements<'a> {
    /// Measures what the runtime takes.
    ///
    /// # Errors
    /// A message.
    pub fn new(registry: &'a Arc<Registry>, options: &'a Options) -> Result<Self, String> {
        // With a port there are packet buffers as routers have them.
        let source = Source::new("port", "FromDPDKDevice(net_null_elements) -> Discard;");
        Router::new(&[source], LoadOptions::default(), Arc::clone(registry), options.clone())
            .map_err(|diags| diags.render(diags.sources(), false))?;
        Ok(Self { registry, bench: Bench { registry, options, runtime: calibrate(registry, options)? } })
    }

    /// What an element costs, behind the first of these paths after which most packets leave it by output 0;
    /// if its class reads where the IP header is, behind one that may have found it.
    ///
    /// # Errors
    /// A message for the user.
    pub fn cost(&self, element: &str, before: &[&str], kept: &mut Kept) -> Result<ElementCost, String> {
        let full = self.bench.options.batch_size;
        let mut best: Option<((bool, f64), &str)> = None;
        let mut problem = String::new();
        for path in before {
            match self.observed(element, path, SMALL, full) {
                Ok((observed, index)) => {
                    let class = self.registry.get(observed.elements[index].class);
                    let reads = class.is_some_and(|class| reads_ip_header(class.reads));
                    let fits = (reads && !path.is_empty(), observed.leave_first(index));
                    if best.is_none_or(|(most, _)| fits > most) {
                        best = Some((fits, path));
                    }
                }
                Err(message) => problem = message,
            }
        }
        let (_, path) = best.ok_or(problem)?;
        let mut cycles = |size, batch, behind| {
            let (mut observed, index) = self.observed(element, path, size, batch)?;
            observed.elements[index].behind = behind;
            alone::measure(&observed, index, &self.bench, kept)
        };
        let small = cycles(SMALL, full, 0)?;
        let large = cycles(LARGE, full, 0)?;
        let short = cycles(SMALL, SHORT.min(full), 0)?;
        let cold = cycles(SMALL, full, COLD)?;
        // A negative cost is one that is lost in the measurement.
        let byte = ((large - small) / (LARGE - SMALL) as f64).max(0.0);
        let times = 1.0 / SHORT.min(full) as f64 - 1.0 / full as f64;
        let batch = if times > 0.0 { ((short - small) / times).max(0.0) } else { 0.0 };
        Ok(ElementCost {
            element: element.to_owned(),
            before: (*path).to_owned(),
            batch,
            packet: (small - byte * SMALL as f64 - batch / full as f64).max(0.0),
            byte,
            cold: (cold - small).max(0.0),
        })
    }

    /// An element behind a path, with packets; its number.
    fn observed(
        &self,
        element: &str,
        before: &str,
        size: usize,
        batch: usize,
    ) -> Result<(Observed, usize), String> {
        let mut stream = Stream::default();
        let frames: Vec<_> =
            (0..FLOWS).filter_map(|n| Some(Packet::from_bytes(&frame(n, size))?.keep())).collect();
        frames.chunks(batch).for_each(|chunk| stream.add(0, chunk.iter().cloned()));
        let stream = Numbered::new(Arc::new(Mutex::new(stream)), None);
        let mut with = Registry::clone(self.registry);
        crate::elements::register(&mut with, &[]);
        let with = Arc::new(with);
        let mut problem = String::new();
        for (queue, idle, outputs) in shapes() {
            let arrow = if before.is_empty() { String::new() } else { format!(" -> {before}") };
            let queue = if queue { " -> Queue(1000)" } else { "" };
            let mut text = format!(
                "measured :: {element}; PredictReplay({}){arrow}{queue} -> measured;\n",
                stream.number
            );
            (0..idle).for_each(|n| text += &format!("Idle -> [{}] measured;\n", n + 1));
            (0..outputs).for_each(|n| text += &format!("measured [{n}] -> PredictSink0({batch});\n"));
            let source = Source::new("element", text);
            let check = Options { check_only: true, ..self.bench.options.clone() };
            if let Err(diags) =
                Router::new(std::slice::from_ref(&source), LoadOptions::default(), Arc::clone(&with), check)
            {
                problem = diags.render(diags.sources(), false).lines().next().unwrap_or_default().to_owned();
                continue;
            }
            let traffic = Traffic::default();
            let observed = observe(&source, &LoadOptions::default(), &with, self.bench.options, &traffic);
            return match observed {
                Ok(observed) => {
                    let index = observed.config.find("measured").ok_or("it is not there")?;
                    Ok((observed, index))
                }
                Err(Failure::Message(message)) => Err(message),
                Err(Failure::Configuration(diags)) => Err(diags.render(diags.sources(), false)),
            };
        }
        Err(problem)
    }
}

/// Whether a class declares that it reads where the IP header is; one that declares nothing counts as reading
/// all.
fn reads_ip_header(reads: Fields) -> bool {
    reads.meets(Fields::IP_HEADERS) && !reads.holds(Fields::ALL)
}

/// How an element may be connected: whether it pulls, how many inputs it has to which nothing comes, and how
/// many outputs.
fn shapes() -> impl Iterator<Item = (bool, usize, usize)> {
    let idle = [false, true].into_iter().flat_map(|queue| (0..MOST_INPUTS).map(move |idle| (queue, idle)));
    idle.flat_map(|(queue, idle)| (0..=MOST_OUTPUTS).map(move |n| (queue, idle, n)))
}

/// The classes that are measured when none is named: those with a fast path, as they stand in their manual's
/// example or without arguments.
#[must_use]
pub fn usual(registry: &Arc<Registry>) -> Vec<String> {
    let usual = |class: &&runtime::Class| {
        class.step.is_some()
            && class.opens.is_none()
            && matches!(class.role, Role::Ordinary | Role::RouteTable { .. })
    };
    let of = |class: &runtime::Class| {
        let manual = class.manual();
        let example =
            manual.split("```click").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        let config =
            lang::load(&[Source::new("example", example)], &LoadOptions::default(), &**registry).ok();
        let found =
            config.and_then(|c| c.elements.into_iter().find(|e| e.class == class.name).map(|e| e.config));
        let config = found.unwrap_or_default();
        if config.is_empty() { class.name.to_owned() } else { format!("{}({config})", class.name) }
    };
    registry.iter().filter(usual).map(of).collect()
}

/// A frame of UDP to one of some addresses.
fn frame(number: usize, size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let length = (size - 14) as u16;
    let ip = &mut frame[14..34];
    (ip[0], ip[8], ip[9]) = (0x45, 64, 17);
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[12..16].copy_from_slice(&Ipv4Addr::new(10, 9, 9, 9).octets());
    ip[16..20]
        .copy_from_slice(&Ipv4Addr::new(10, 0, (number / 7 % 256) as u8, (number % 256) as u8).octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&(1024 + number as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&2000u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sound() {
        for size in [SMALL, LARGE] {
            let frame = frame(200, size);
            assert_eq!((frame.len(), checksum(&frame[14..34])), (size, 0));
        }
    }

    #[test]
    fn elements_that_read_the_ip_header_are_known() {
        let registry = elements::registry();
        let reads = |class: &str| reads_ip_header(registry.get(class).unwrap().reads);
        assert!(reads("IPFilter") && reads("DecIPTTL"));
        assert!(!reads("Classifier") && !reads("CheckIPHeader") && !reads("Paint"));
    }

    #[test]
    fn most_elements_with_a_fast_path_are_known_with_their_arguments() {
        let usual = usual(&Arc::new(elements::registry()));
        assert!(usual.len() > 30, "{usual:?}");
        assert!(
            usual.iter().any(|e| e == "DecIPTTL") && usual.iter().any(|e| e.starts_with("Paint(")),
            "{usual:?}"
        );
    }
}
