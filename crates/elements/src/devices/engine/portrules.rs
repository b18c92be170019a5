//! Flow rules in front of a port: those of its device first, as far as it takes them; what it refuses is done
//! here, before packets are distributed over workers.

use super::hardware::{self, Place};
use super::spread::Spreader;
use crate::flowrules::{Decider, Decision, Rules};
use crate::prelude::*;
use dpdk::Port;
use dpdk::flow::FlowRules;
use locks::IgnorePoison;
use runtime::Lanes;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// Who carries rules out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::devices) enum Engine {
    /// The device, and software where it refuses.
    #[default]
    Auto,
    /// Software.
    Software,
}

impl Engine {
    pub(in crate::devices) fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_uppercase().as_str() {
            "" | "AUTO" => Some(Self::Auto),
            "SOFTWARE" => Some(Self::Software),
            _ => None,
        }
    }
}

/// What the replicas of an element share of its rules.
#[derive(Default)]
pub(in crate::devices) struct Held {
    rules: OnceLock<Rules>,
    engine: Engine,
    /// Where rules are, once the port has been asked; those that are not here are done in software.
    places: Mutex<BTreeMap<u64, Place>>,
    device: Mutex<Option<FlowRules>>,
    /// Whether the device carries all rules out, so that nothing is left to do here.
    all_in_device: AtomicBool,
    asked: AtomicBool,
}

impl Held {
    pub(in crate::devices) fn new(engine: Engine) -> Self {
        Self { engine, ..Self::default() }
    }
    pub(in crate::devices) fn get(&self) -> Option<&Rules> {
        self.rules.get()
    }
    pub(in crate::devices) fn fill(&self, rules: Rules) -> &Rules {
        self.rules.get_or_init(|| rules)
    }
    fn rules(&self) -> Result<&Rules, String> {
        self.get().ok_or_else(|| "the port has no rules: RULES names a file of them".to_owned())
    }

    /// Gives the device the rules that it can carry out.
    fn place(&self, port: &Arc<Port>) {
        let Some(rules) = self.rules.get().filter(|_| self.engine == Engine::Auto) else { return };
        let all: Vec<_> = rules.all().into_iter().map(|(number, rule, _)| (number, rule)).collect();
        let mut device = self.device.lock().ignore_poison();
        let mut places = self.places.lock().ignore_poison();
        match FlowRules::of(port) {
            Ok(flows) => {
                *places = hardware::place(&all, &flows);
                let complete = places.values().all(|place| matches!(place, Place::Device(_)));
                *device = Some(flows);
                self.all_in_device.store(complete && !places.is_empty(), Relaxed);
            }
            Err(e) => {
                let why = Place::Software(e.to_string());
                *places = all.iter().map(|(number, _)| (*number, why.clone())).collect();
            }
        }
    }

    /// Where a rule is, and what is counted there; nothing if it is done in software because that was asked.
    fn placed(&self, number: u64) -> Option<(Place, Option<u64>)> {
        let place = self.places.lock().ignore_poison().get(&number)?.clone();
        let counted = match &place {
            Place::Device(handle) => {
                let device = self.device.lock().ignore_poison();
                device.as_ref().and_then(|device| device.count(*handle).ok()).and_then(|count| count.packets)
            }
            Place::Software(_) => None,
        };
        Some((place, counted))
    }

    /// The handler `rules`.
    pub(in crate::devices) fn text(&self) -> Result<String, String> {
        let rules = self.rules()?;
        Ok(rules.all().into_iter().fold(String::new(), |mut text, (number, rule, counted)| {
            let (place, counted) = match self.placed(number) {
                Some((Place::Device(_), counted)) => ("hardware".to_owned(), counted),
                Some((Place::Software(why), _)) => (format!("software ({why})"), counted),
                None => ("software".to_owned(), counted),
            };
            let counted = counted.map_or_else(|| "-".to_owned(), |packets| packets.to_string());
            let _ = writeln!(text, "{number}\t{counted}\t{place}\t{}", rules::syntax::print(&rule, 0));
            text
        }))
    }

    /// The handler `rules_json`.
    pub(in crate::devices) fn json(&self) -> Result<String, String> {
        Ok(self.rules()?.json(|number| {
            Some(match self.placed(number)? {
                (Place::Device(_), counted) => ("hardware", String::new(), Some(counted)),
                (Place::Software(why), _) => ("software", why, None),
            })
        }))
    }
}

/// The rules in front of a port, on one worker.
pub(in crate::devices) struct PortRules {
    held: Arc<Held>,
    decider: Decider,
    /// The worker of each queue that rules name.
    workers: Vec<usize>,
    worker: usize,
}

impl PortRules {
    /// For one worker; nothing if there are no rules.
    pub(in crate::devices) fn new(held: &Arc<Held>, worker: usize) -> Option<Self> {
        let decider = Decider::new(held.get()?);
        Some(Self { held: Arc::clone(held), decider, workers: Vec::new(), worker })
    }

    /// The port is open: queue N is that of the N-th of the workers that process its packets. Returns the
    /// workers that need rings to each other.
    pub(in crate::devices) fn start(
        &mut self,
        lanes: &Lanes,
        port: &Arc<Port>,
        cx: &mut Cx<'_>,
    ) -> Vec<usize> {
        self.workers = if lanes.spread.is_empty() { lanes.pollers().collect() } else { lanes.spread.clone() };
        if !self.held.asked.swap(true, Relaxed) {
            // Not before the configuration takes effect: the device may be that of the running one.
            let (held, port) = (Arc::clone(&self.held), Arc::clone(port));
            cx.at_change_over(move || {
                held.place(&port);
                Ok(())
            });
        }
        self.workers.clone()
    }

    /// Whether all queues that rules name are there, once it has started.
    pub(in crate::devices) fn check(&self) -> Result<(), String> {
        self.held.get().and_then(|rules| rules.misfit(self.workers.len())).map_or(Ok(()), Err)
    }

    /// Carries the rules out: drops packets, and gives packets to the workers of their queues. Those for this
    /// worker are put into `own`; about the rest, which stays in the batch, no rule decides.
    pub(in crate::devices) fn apply(
        &mut self,
        batch: &mut Batch,
        own: &mut Batch,
        mut spreader: Option<&mut Spreader>,
        cx: &mut Cx<'_>,
    ) {
        if self.held.all_in_device.load(Relaxed) {
            return;
        }
        let decisions = self.decider.decide(batch);
        if decisions.iter().all(|decision| *decision == Decision::Miss) {
            return;
        }
        let mut rest = cx.spare_batch();
        for (packet, decision) in batch.drain(..).zip(decisions) {
            match decision {
                Decision::Miss => rest.push(packet),
                Decision::Drop => cx.drop(packet, drops::RULE_SAYS),
                Decision::Queue(queue) => {
                    let worker = self.workers.get(usize::from(*queue)).copied().unwrap_or(self.worker);
                    let back = match &mut spreader {
                        Some(spreader) => spreader.give_to(worker, packet),
                        None => Some(packet),
                    };
                    back.into_iter().for_each(|packet| own.push(packet));
                }
            }
        }
        std::mem::swap(batch, &mut rest);
        cx.recycle(rest);
    }
}
