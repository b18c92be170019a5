//! Information on a configuration and its elements, for the control thread.

use crate::NameDb;
use crate::builtin::{About, Kinds};
use crate::class::Class;
use crate::configure::Scheduling;
use crate::cx::Handler;
use crate::element::Sharing;
use crate::placement::{Lanes, PortUse};
use crate::ports::words;
use crate::sides::Sides;
use crate::stats::{Counter, SlotStats, StatsSnapshot};
use crate::store::SharedStore;
use lang::{Config, Diagnostics};
use std::collections::HashMap;
use std::sync::Arc;

/// Information on an element.
pub struct ElementInfo {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: &'static str,
    /// Its configuration string.
    pub config: String,
    /// How many inputs it has.
    pub n_inputs: usize,
    /// How many outputs it has.
    pub n_outputs: usize,
    /// The handlers of its class, without those that need other ports.
    pub handlers: Arc<[Handler]>,
    /// Its class's sharing.
    pub sharing: Sharing,
    /// Its counters on each worker.
    pub stats: Vec<Arc<SlotStats>>,
    /// Whether its arguments can be changed while it runs.
    pub live: bool,
    /// The worker that has the only instance, if there is only one.
    pub home: usize,
    /// Whether it is bound to that worker (StaticThreadSched).
    pub bound: bool,
    /// Whether packets enter it on one worker and leave it on another.
    pub crosses: bool,
    pub(crate) kinds: Kinds,
    pub(crate) counters: HashMap<&'static str, Vec<Counter>>,
}

impl ElementInfo {
    pub(crate) fn new(e: &lang::ElementDecl, class: &Class, sides: &Sides) -> Self {
        Self {
            name: e.name.clone(),
            class: class.name,
            config: e.config.clone(),
            n_inputs: sides.inputs.len(),
            n_outputs: sides.outputs.len(),
            kinds: words(class, sides),
            handlers: class.handlers_of(sides),
            sharing: class.sharing,
            live: class.live,
            stats: Vec::new(),
            home: 0,
            bound: false,
            crosses: false,
            counters: HashMap::new(),
        }
    }
    /// The sum of the workers' counters.
    #[must_use]
    pub fn totals(&self) -> StatsSnapshot {
        let mut sum = StatsSnapshot::default();
        self.stats.iter().for_each(|s| sum.merge(&s.snapshot()));
        sum
    }
}

/// What an element of a configuration needs to be made again.
pub(crate) struct Plan {
    pub(crate) classes: Vec<Class>,
    pub(crate) sides: Vec<Sides>,
    /// The names that arguments may use.
    pub(crate) names: NameDb,
    pub(crate) scheduling: Scheduling,
    /// See `Passing` of the builder.
    pub(crate) crossing: Vec<bool>,
    pub(crate) pulling: Vec<u128>,
    /// How many packets elements may hold, for each replica that has declared it.
    pub(crate) holding: Vec<(usize, usize)>,
}

/// A configuration that runs, or is ready to.
pub(crate) struct Loaded {
    pub(crate) config: Arc<Config>,
    /// What workers show of it.
    pub(crate) about: Arc<About>,
    pub(crate) elements: Vec<ElementInfo>,
    pub(crate) by_name: Arc<HashMap<String, u32>>,
    pub(crate) store: Arc<SharedStore>,
    pub(crate) warnings: Diagnostics,
    /// Whether more packets may wait than there are buffers.
    pub(crate) shortage: Diagnostics,
    pub(crate) plan: Plan,
    /// The uses of ports and, when they are open, what each worker does there.
    pub(crate) ports: Vec<(PortUse, Option<Arc<Lanes>>)>,
}
