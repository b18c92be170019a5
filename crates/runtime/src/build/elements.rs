//! Makes the elements: configures them in the order of their phases, once for each worker.

use super::connect::{Passing, passing};
use super::devices::{Environment, on_node};
use crate::class::Class;
use crate::clock::Clock;
use crate::configure::{Asked, ConfigCx, PortSlot, Scheduling, StartAction, Starter};
use crate::control::ControlTask;
use crate::cx::Node;
use crate::element::{Phase, Sharing};
use crate::facts::Facts;
use crate::hub::Hub;
use crate::options::Options;
use crate::placement::PortUse;
use crate::sides::Sides;
use crate::store::SharedStore;
use crate::{Args, NameDb, WorkerId};
use lang::{Config, Diagnostic, Diagnostics};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Elements whose tasks handlers have moved to other workers.
pub(crate) type Moved = BTreeMap<String, usize>;

/// The input from which elements are made.
pub(super) struct From<'a> {
    pub(super) config: &'a Config,
    pub(super) classes: &'a [Class],
    pub(super) facts: &'a [Facts],
    pub(super) sides: &'a [Sides],
    pub(super) options: &'a Options,
    pub(super) clock: &'a Clock,
    pub(super) hub: &'a Arc<Hub>,
    pub(super) by_name: &'a HashMap<String, u32>,
    pub(super) store: &'a Arc<SharedStore>,
    /// State that elements keep from the configuration that this one replaces.
    pub(super) inherited: Option<&'a SharedStore>,
    pub(super) moved: Option<&'a Moved>,
}

/// Configured elements, and their requests.
#[derive(Default)]
pub(super) struct Made {
    /// By worker and by element; `None` where the element belongs to another worker.
    pub(super) nodes: Vec<Vec<Option<Box<dyn Node>>>>,
    pub(super) scheduling: Scheduling,
    pub(super) passing: Passing,
    pub(super) control: Vec<(String, Box<dyn ControlTask>)>,
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) starters: Vec<(usize, Starter)>,
    pub(super) acts: Vec<StartAction>,
    pub(super) uses: Vec<PortUse>,
    pub(super) port_slots: Vec<(usize, PortSlot)>,
    pub(super) holding: Vec<(usize, usize)>,
    pub(super) names: NameDb,
    /// By element.
    pub(super) asked: BTreeMap<usize, Asked>,
}

/// Makes all elements; errors in their arguments go to `diags`.
pub(super) fn make(from: &From<'_>, environment: &mut Environment, diags: &mut Diagnostics) -> Made {
    let (config, classes) = (from.config, from.classes);
    let workers = from.options.workers.max(1);
    let count = config.elements.len();
    let mut made = Made {
        nodes: (0..workers).map(|_| (0..count).map(|_| None).collect()).collect(),
        passing: Passing { crossing: vec![false; count], pulling: vec![0; count] },
        ..Made::default()
    };
    let mut names = names(config);
    // One pass for each phase over all workers, so that the decisions of a phase (names, threads) are known
    // to all replicas of the next.
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&i| (classes[i].phase, i));
    let mut phase = Phase::Info;
    for &index in &order {
        if classes[index].phase != phase {
            if let Some(moved) = from.moved.filter(|_| phase == Phase::Info) {
                let all = moved.iter().map(|(name, worker)| (name.clone(), *worker));
                made.scheduling.threads.extend(all);
            }
            phase = classes[index].phase;
            made.passing = passing(config, classes, from.sides, &made.scheduling, workers);
        }
        made.add(from, index, &mut names, environment, diags);
        if let Some(exceeded) = accounts::inherit().exceeded() {
            let element = &config.elements[index];
            let message = format!("{} :: {}: {exceeded} so far", element.name, element.class);
            let help = "make the router's tables and queues smaller, or the limit larger";
            diags.push(Diagnostic::error(Some(element.span), message).with_help(help));
            break;
        }
    }
    made.names = names;
    made
}

/// The names that arguments may use.
fn names(config: &Config) -> NameDb {
    let mut names = NameDb::default();
    names.set_services(crate::services::port);
    names.set_devices(crate::devices::addresses);
    if let Ok(home) = std::env::var("HOME") {
        names.set_home(&home);
    }
    names.set_elements(config.elements.iter().map(|e| e.name.clone()));
    names
}

impl Made {
    /// Makes one element, for all workers that have it.
    pub(super) fn add(
        &mut self,
        from: &From<'_>,
        index: usize,
        names: &mut NameDb,
        environment: &mut Environment,
        diags: &mut Diagnostics,
    ) {
        let (class, element, options) = (&from.classes[index], &from.config.elements[index], from.options);
        let workers = self.nodes.len();
        let home = self.scheduling.home(&element.name, workers);
        let mut first = true;
        let asked = self.asked.entry(index).or_default();
        // The arguments need the names for look-ups and the context for additions.
        let known = names.at(&element.name);
        let mut args = Args::new(&element.config, Some(element.config_span), &known);
        for (worker, row) in self.nodes.iter_mut().enumerate() {
            if class.sharing == Sharing::Single && worker != home {
                continue;
            }
            args.rewind();
            let _there = on_node(options, worker);
            let mut cx = ConfigCx {
                index,
                worker: WorkerId(worker),
                workers,
                sizes: (from.sides[index].inputs.len(), from.sides[index].outputs.len()),
                config: from.config,
                facts: from.facts,
                by_name: from.by_name,
                names,
                store: from.store,
                inherited: from.inherited,
                moving: from.moved.is_some(),
                asked,
                scheduling: &mut self.scheduling,
                control: &mut self.control,
                warnings: &mut self.warnings,
                batch_size: options.batch_size,
                simulated: from.clock.is_simulated(),
                check_only: options.check_only,
                click: options.click,
                crossing: self.passing.crossing[index],
                pulling: self.passing.pulling[index],
                first,
                starters: &mut self.starters,
                acts: &mut self.acts,
                ports: &mut self.uses,
                port_slots: &mut self.port_slots,
                holding: &mut self.holding,
                hub: from.hub,
                eal: &options.eal,
            };
            let made = (class.make)(&mut args, &mut cx).and_then(|node| args.finish().map(|()| node));
            first = false;
            if !cx.ports.is_empty() {
                environment.start(options);
            }
            match made {
                Ok(node) => row[index] = Some(node),
                Err(e) => {
                    // All errors in the arguments, not only the one that ended the reading.
                    let mut errors = args.take_errors();
                    if args.forgive() {
                        cx.check_only = true;
                        cx.first = false;
                        // Only a pass to the end has read all that the element reads.
                        if (class.make)(&mut args, &mut cx).is_ok() {
                            let _ = args.finish();
                        }
                        errors = args.take_errors();
                    }
                    if !errors.iter().any(|known| known.message == e.message) {
                        errors.push(e);
                    }
                    self.warnings.drain(..).for_each(|warning| diags.push(warning));
                    for e in errors {
                        let span = e.span.unwrap_or(element.span);
                        let landmark = match e.initializing {
                            true => element.while_initializing(),
                            false => element.while_configuring(),
                        };
                        diags.push(Diagnostic { span: Some(span), landmark, ..Diagnostic::from(e) });
                    }
                    break;
                }
            }
        }
    }
}
