//! Rules that the device of a port carries out, and the traffic that the port receives.

use crate::engine::{Engine, Refusal};
use crate::forward::{BURST, Forward, QUEUES, Seen};
use crate::kinds::KINDS;
use dpdk::flow::{FlowRefused, FlowRule, FlowRules};
use dpdk::nic::firmware;
use dpdk::{Batch, Eal, EalOptions, Packet, Port, PortConfig, PortSpec, RxQueue, TxQueue, open};
use elements::devices::flow_rule;
use rules::Rule;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing comes before it is said that nothing does.
const PATIENCE: Duration = Duration::from_millis(500);

/// A port whose device has rules.
#[derive(Debug)]
pub struct Hardware {
    port: Arc<Port>,
    rules: FlowRules,
}

/// Opens a port with so many queues.
///
/// # Errors
/// It cannot be opened.
pub fn open_port(name: &str, queues: u16) -> Result<Arc<Port>, String> {
    let spec = PortSpec::parse(name).map_err(|e| e.to_string())?;
    let mut eal = EalOptions::default();
    if let PortSpec::Pci { address, devargs } = &spec {
        eal.pci.push(format!("{address}{devargs}"));
    }
    Eal::init(&eal).map_err(|e| e.to_string())?;
    let needs =
        PortConfig { rx_queues: queues, tx_queues: 1, promisc: true, burst: BURST, ..PortConfig::default() };
    open(&spec, &needs).map_err(|e| e.to_string())
}

fn refusal(taken: Vec<u64>, refused: &FlowRefused) -> Refusal {
    Refusal { taken, words: refused.to_string() }
}

impl Hardware {
    /// The rules of a port. What is there of an earlier measurement that has not ended well is removed.
    ///
    /// # Errors
    /// The port is none of one DPDK device.
    pub fn of(port: &Arc<Port>) -> Result<Self, String> {
        let rules = FlowRules::of(port).map_err(|e| e.to_string())?;
        // Drivers without rules refuse this too.
        let _ = rules.flush();
        Ok(Self { port: Arc::clone(port), rules })
    }

    /// The traffic that the port receives.
    ///
    /// # Errors
    /// A queue is in use.
    pub fn traffic(&self) -> Result<Received, String> {
        let queues = (0..self.port.rx_queues()).map(|queue| self.port.rx_queue(queue));
        let queues = queues.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        Ok(Received { queues, next: 0, batch: Batch::with_capacity(BURST) })
    }

    /// Which device it is: driver, firmware, the version of DPDK, and what the driver says of a rule.
    #[must_use]
    pub fn about(&self, receives: bool) -> Value {
        let kinds: serde_json::Map<String, Value> = KINDS
            .iter()
            .map(|kind| (kind.name.to_owned(), self.says(kind.rules(0, 1, 0, 0)).into()))
            .collect();
        json!({
            "port": self.port.name(), "driver": self.port.driver(), "firmware": firmware(&self.port),
            "model": self.port.choice(), "numa_node": self.port.numa_node(),
            "receives": receives, "refused": kinds,
            "later_table_refused": self.says(KINDS[0].rules(0, 1, 1, 0)),
        })
    }

    /// Why a rule is not taken; nothing if it is.
    fn says(&self, rules: Result<Vec<Rule>, String>) -> Option<String> {
        let rules: Vec<FlowRule> = rules.ok()?.iter().map(flow_rule).collect();
        match self.add(&rules) {
            Ok(numbers) => {
                self.remove(&numbers).err().map(|words| format!("it is not removed again: {words}"))
            }
            Err(refused) => Some(refused.words),
        }
    }
}

impl Engine for Hardware {
    type Rule = FlowRule;

    fn make(&self, rule: Rule) -> FlowRule {
        flow_rule(&rule)
    }

    fn add(&self, rules: &[FlowRule]) -> Result<Vec<u64>, Refusal> {
        let mut taken = Vec::with_capacity(rules.len());
        for rule in rules {
            match self.rules.create(rule) {
                Ok(number) => taken.push(number),
                Err(refused) => return Err(refusal(taken, &refused)),
            }
        }
        Ok(taken)
    }

    fn remove(&self, numbers: &[u64]) -> Result<(), String> {
        numbers
            .iter()
            .try_for_each(|number| self.rules.destroy(*number))
            .map_err(|refused| refused.to_string())
    }

    fn replace(&self, _: &[u64], _: &[FlowRule]) -> Option<Result<(), String>> {
        None
    }

    fn change(&self, gone: &[u64], new: &[FlowRule]) -> Result<Vec<u64>, Refusal> {
        self.remove(gone).map_err(|words| Refusal { taken: Vec::new(), words })?;
        self.add(new)
    }

    fn len(&self) -> usize {
        self.rules.len()
    }
}

/// What a port receives; its queue says which rule has decided.
pub struct Received {
    queues: Vec<RxQueue>,
    next: usize,
    batch: Batch,
}

impl Received {
    /// Whether anything comes.
    pub fn receives(&mut self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.burst().packets() > 0 {
                return true;
            }
        }
        false
    }
}

impl Forward for Received {
    fn burst(&mut self) -> Seen {
        let mut seen = Seen::default();
        self.next = (self.next + 1) % self.queues.len().max(1);
        let Some(queue) = self.queues.get_mut(self.next) else { return seen };
        let place = usize::from(queue.index()).min(QUEUES - 1);
        let came = queue.rx_burst(BURST, &mut self.batch) as u64;
        self.batch.clear();
        seen.queues.iter_mut().skip(place).take(1).for_each(|count| *count = came);
        seen
    }
}

/// The generator: frames of so many flows, which a port sends.
pub struct Generator {
    queue: TxQueue,
    frames: Vec<[u8; 64]>,
    at: usize,
    batch: Batch,
}

impl Generator {
    /// The same traffic as in software.
    ///
    /// # Errors
    /// The port has no free queue.
    pub fn new(port: &Arc<Port>, frames: Vec<[u8; 64]>) -> Result<Self, String> {
        let queue = port.tx_queue(0).map_err(|e| e.to_string())?;
        Ok(Self { queue, frames, at: 0, batch: Batch::with_capacity(BURST) })
    }

    /// Sends a burst. What the port does not take is dropped.
    pub fn burst(&mut self) {
        for _ in 0..BURST {
            let Some(frame) = self.frames.get(self.at) else { return };
            if let Some(packet) = Packet::from_bytes(frame) {
                self.batch.push(packet);
            }
            self.at = (self.at + 1) % self.frames.len();
        }
        self.queue.tx_burst(&mut self.batch);
        self.batch.clear();
    }
}
