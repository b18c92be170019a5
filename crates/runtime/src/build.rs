//! Makes one graph for each worker from a flat configuration.

mod connect;
mod devices;
mod elements;
mod remake;
mod replicas;

use crate::builtin::About;
use crate::class::{Class, Registry};
use crate::clock::Clock;
use crate::configure::{Asked, StartAction};
use crate::control::ControlTask;
use crate::cx::{Core, Counts, Graph};
use crate::element::Sharing;
use crate::facts::Facts;
use crate::hub::Hub;
use crate::info::{ElementInfo, Loaded, Plan};
use crate::limits::Limits;
use crate::options::Options;
use crate::placement::{Lanes, PortUse};
use crate::ports;
use crate::replacing::Replacing;
use crate::store::SharedStore;
use connect::{Passing, connect};
use devices::{Environment, open_ports};
pub(crate) use elements::Moved;
use elements::{From, make};
use lang::{ClassTable, Config, Diagnostic, Diagnostics};
pub(crate) use remake::remake;
use replicas::Pattern;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A router that is ready to run.
pub(crate) struct Built {
    pub(crate) replicas: Vec<(Graph, Core)>,
    pub(crate) control: Vec<(String, Box<dyn ControlTask>)>,
    pub(crate) loaded: Loaded,
    /// Actions at the moment when the new configuration takes over.
    pub(crate) acts: Vec<StartAction>,
}

/// Makes the replicas. `old` is the running configuration that the new one is to replace; with `moved`, it is
/// the same one, and only elements move.
pub(crate) fn build(
    config: Config,
    registry: &Arc<Registry>,
    options: &Options,
    clock: &Clock,
    hub: &Arc<Hub>,
    old: Option<&Loaded>,
    moved: Option<&Moved>,
) -> Result<Built, Diagnostics> {
    let parsing = config.warnings.clone();
    let mut warnings = Vec::new();
    build_with(config, registry, options, clock, hub, old, moved, &mut warnings).map_err(|mut diags| {
        // What was warned of before the errors is shown with them.
        let before: Vec<Diagnostic> = parsing.iter().cloned().chain(warnings).collect();
        if !before.is_empty() {
            diags.prepend(before);
            if !options.click {
                diags.sort();
            }
        }
        diags
    })
}

/// [`build`], with the warnings there have been whether it succeeds or not.
#[expect(clippy::too_many_arguments, reason = "the one call is above")]
fn build_with(
    config: Config,
    registry: &Arc<Registry>,
    options: &Options,
    clock: &Clock,
    hub: &Arc<Hub>,
    old: Option<&Loaded>,
    moved: Option<&Moved>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Built, Diagnostics> {
    let _replacing = Replacing::begin(old.is_some());
    let mut diags = Diagnostics::new();
    diags.set_sources(config.sources.clone());
    let Some(classes) = look_up(&config, registry, &mut diags) else { return Err(diags) };
    let facts: Vec<Facts> = classes.iter().map(|class| class.facts).collect();
    diags.set_parsed();
    let sides = ports::resolve(&config, &classes, options.click, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let by_name: Arc<HashMap<String, u32>> =
        Arc::new(config.elements.iter().enumerate().map(|(i, e)| (e.name.clone(), i as u32)).collect());
    let store: Arc<SharedStore> = Arc::default();
    let inherited = old.map(|old| inheritance(&config, &old.elements, &old.store));

    let mut environment = Environment::new(&config, options);
    let from = From {
        config: &config,
        classes: &classes,
        facts: &facts,
        sides: &sides,
        options,
        clock,
        hub,
        by_name: &by_name,
        store: &store,
        inherited: inherited.as_ref(),
        moved,
    };
    let mut made = make(&from, &mut environment, &mut diags);
    if diags.has_errors() {
        // Those before an error are before it already.
        made.warnings.into_iter().for_each(|warning| diags.push(warning));
        if !options.click {
            diags.sort();
        }
        return Err(diags);
    }
    warnings.append(&mut made.warnings);
    let slots = &made.port_slots;
    for error in foreign_ports(&made.uses, &options.limits, &config) {
        diags.push(error);
    }
    if diags.has_errors() {
        return Err(diags);
    }
    let ports = open_ports(made.uses, slots, &config, options, &mut diags, warnings);
    for (number, slot) in slots {
        if let (Some(port), Some((of, _))) = (slot.get().cloned(), ports.get(*number)) {
            let keep = move || {
                port.keep();
                Ok(())
            };
            made.acts.push((of.element, Box::new(keep)));
        }
    }
    for (index, start) in made.starters.into_iter().filter(|_| !options.check_only) {
        if let Err(message) = start() {
            let element = &config.elements[index];
            diags.push(Diagnostic::error(element.span, message).with_landmark(element.while_initializing()));
            // Click initializes no more elements.
            if options.click {
                break;
            }
        }
    }
    if diags.has_errors() {
        return Err(diags);
    }

    let shape = connect(&config, classes, sides, &made.passing.crossing);
    let kinds = shape.classes.iter().zip(&shape.sides);
    let mut elements: Vec<ElementInfo> = config
        .elements
        .iter()
        .zip(kinds)
        .map(|(e, (class, sides))| ElementInfo::new(e, class, sides))
        .collect();
    let pattern = Pattern {
        config: &config,
        options,
        clock,
        hub,
        shape: &shape,
        scheduling: &made.scheduling,
        crossing: &made.passing.crossing,
        pulling: &made.passing.pulling,
        by_name: &by_name,
        store: &store,
        names: &made.names,
        old: old.map(|old| &old.elements[..]),
    };
    let mut replicas: Vec<(Graph, Core)> = Vec::new();
    for (worker, nodes) in made.nodes.into_iter().enumerate() {
        let (graph, mut core) = pattern.replica(worker, nodes, &mut elements, &mut diags);
        made.acts.append(&mut core.acts);
        replicas.push((graph, core));
        if diags.has_errors() {
            return Err(diags);
        }
    }
    if let Some(old) = old.filter(|_| moved.is_some()) {
        for (index, worker) in kept(&elements, &made.asked, &made.passing, &ports, &store, old) {
            let kept = |of: usize| worker.is_none_or(|only| only == of);
            let workers = replicas.iter_mut().enumerate().filter(|(worker, _)| kept(*worker));
            workers.for_each(|(_, (graph, _))| graph.slots[index].kept = true);
            for (name, before) in &old.elements[index].counters {
                let now = elements[index].counters.entry(name).or_default().iter_mut().zip(before);
                now.enumerate()
                    .filter(|(worker, _)| kept(*worker))
                    .for_each(|(_, (now, before))| *now = before.clone());
            }
        }
    }
    for (index, info) in elements.iter().enumerate() {
        let counts = Arc::new(Counts { counters: info.counters.clone(), stats: info.stats.clone() });
        for (graph, _) in &mut replicas {
            graph.slots[index].counts = Some(Arc::clone(&counts));
        }
    }
    if let Some(error) = over_limit(&made.holding, &options.limits, &config) {
        diags.push(error);
        return Err(diags);
    }
    let mut told = Diagnostics::new();
    told.set_sources(config.sources.clone());
    warnings.drain(..).for_each(|warning| told.push(warning));
    let shortage = shortage_of(&made.holding, dpdk::Mempool::buffers(), &config);
    let plan = Plan {
        classes: shape.classes,
        sides: shape.sides,
        names: made.names,
        scheduling: made.scheduling,
        crossing: made.passing.crossing,
        pulling: made.passing.pulling,
        holding: made.holding,
    };
    let config = Arc::new(config);
    let kinds = elements.iter().map(|info| info.kinds.clone()).collect();
    let classes: Arc<dyn ClassTable + Send + Sync> = Arc::<Registry>::clone(registry);
    let about = About::new(Arc::clone(&config), kinds, classes, options.lacks());
    for (graph, _) in &mut replicas {
        graph.about = Some(Arc::clone(&about));
    }
    let loaded = Loaded { config, about, elements, by_name, store, warnings: told, shortage, plan, ports };
    Ok(Built { replicas, control: made.control, loaded, acts: made.acts })
}

fn look_up(config: &Config, registry: &Registry, diags: &mut Diagnostics) -> Option<Vec<Class>> {
    let mut classes = Vec::with_capacity(config.elements.len());
    for element in &config.elements {
        match registry.get(&element.class) {
            Some(class) => classes.push(class.clone()),
            None => diags.push(
                Diagnostic::error(element.span, format!("unknown element class '{}'", element.class))
                    .with_nearest(&element.class, "element class", registry.iter().map(|c| c.name)),
            ),
        }
    }
    (!diags.has_errors()).then_some(classes)
}

/// The shared state that elements keep over a hot swap: those with the same name, class and arguments.
fn inheritance(config: &Config, old: &[ElementInfo], store: &SharedStore) -> SharedStore {
    let kept = SharedStore::default();
    for element in &config.elements {
        let same = old
            .iter()
            .find(|o| o.name == element.name && o.class == element.class && o.config == element.config);
        if same.is_some() {
            for (kind, value) in store.of(&element.name) {
                kept.put_raw(&element.name, kind, value);
            }
        }
    }
    kept
}

/// The elements that go on as they are when others, or they themselves, move to another worker: what they
/// have been told while they were configured is still true, and they share the same state. Where only the
/// task has moved, of an element that all workers have and that opens something, that is so on one worker:
/// its new one.
fn kept(
    elements: &[ElementInfo],
    asked: &BTreeMap<usize, Asked>,
    passing: &Passing,
    ports: &[(PortUse, Option<Arc<Lanes>>)],
    store: &SharedStore,
    old: &Loaded,
) -> Vec<(usize, Option<usize>)> {
    let goes_on = |index: usize| {
        let (new, before) = (elements.get(index)?, old.elements.get(index)?);
        let same = (&new.name, new.class, &new.config) == (&before.name, before.class, &before.config);
        let asked = asked.get(&index);
        let at_home = new.home == before.home;
        let (there, only) = match new.sharing {
            Sharing::Single => (at_home || !asked.is_none_or(|asked| asked.worker.get()), None),
            _ if at_home && new.bound == before.bound => (true, None),
            _ if old.plan.classes[index].facts.opens.is_some() => (new.bound, Some(new.home)),
            _ => (true, None),
        };
        let passes = passing.crossing[index] == old.plan.crossing[index]
            && passing.pulling[index] == old.plan.pulling[index];
        let told = passes || !asked.is_none_or(|asked| asked.passing.get());
        let shared = store.of(&new.name);
        let shares = shared.len() == old.store.of(&new.name).len()
            && shared.iter().all(|(kind, value)| {
                old.store.get(&new.name, *kind).is_some_and(|before| Arc::ptr_eq(value, &before))
            });
        let own = ports.iter().all(|(of, _)| of.element != index);
        (same && there && told && shares && own).then_some((index, only))
    };
    (0..elements.len()).filter_map(goes_on).collect()
}

/// An error if elements and interfaces may hold more packets than the router's limit.
fn over_limit(holding: &[(usize, usize)], limits: &Limits, config: &Config) -> Option<Diagnostic> {
    let limit = limits.buffers?;
    let in_elements = holding.iter().fold(0usize, |sum, (_, packets)| sum.saturating_add(*packets));
    if in_elements.saturating_add(limits.at_interfaces) <= limit {
        return None;
    }
    let most = holding.iter().max_by_key(|(_, packets)| *packets);
    let most = most.and_then(|(element, _)| config.elements.get(*element));
    let message = format!(
        "the limit buffers is {limit}, and {in_elements} packets may wait in the router's elements and {} at its interfaces",
        limits.at_interfaces
    );
    let most_in = most.map_or(String::new(), |element| format!("most in '{}': ", element.name));
    let help =
        format!("{most_in}make its queues smaller (at the interfaces: the limit queue), or the limit larger");
    Some(Diagnostic::error(most.map(|element| element.span), message).with_help(help))
}

/// The ports that a program may not use.
fn foreign_ports(ports: &[PortUse], limits: &Limits, config: &Config) -> Vec<Diagnostic> {
    let Some(allow) = &limits.allow else { return Vec::new() };
    let names: Vec<String> = (allow.interfaces.iter())
        .filter_map(|own| Some(format!("${}", own.to_string().rsplit_once('/')?.1)))
        .collect();
    let wrong = ports.iter().filter(|port| !allow.interfaces.contains(&port.spec)).map(|port| {
        let element = config.elements.get(port.element);
        let (name, class) = element.map_or(("", ""), |e| (e.name.as_str(), e.class.as_str()));
        let message =
            format!("{name} :: {class} uses {}, which is not an interface of this router", port.spec);
        Diagnostic::error(element.map(|e| e.span), message)
            .with_help(format!("in the host file, its interfaces are {}", names.join(", ")))
    });
    wrong.collect()
}

/// A warning if elements may hold more packets than there are buffers. Without ports there is none: packets
/// are on the heap.
fn shortage_of(holding: &[(usize, usize)], buffers: usize, config: &Config) -> Diagnostics {
    let mut by_element: BTreeMap<usize, usize> = BTreeMap::new();
    for &(element, packets) in holding {
        let sum = by_element.entry(element).or_default();
        *sum = sum.saturating_add(packets);
    }
    let sum = by_element.values().fold(0usize, |sum, n| sum.saturating_add(*n));
    let mut warnings = Diagnostics::new();
    warnings.set_sources(config.sources.clone());
    let most = by_element.iter().max_by_key(|(_, packets)| **packets);
    if let Some((&element, &packets)) = most.filter(|_| buffers > 0 && sum > buffers) {
        let element = &config.elements[element];
        let others = match by_element.len() {
            1 => String::new(),
            _ => format!(", with others {sum}"),
        };
        warnings.warning(
            Some(element.span),
            format!(
                "'{}' may keep {packets} packets waiting{others}, and there are {buffers} buffers: when these are used up, nothing \
                 is received, and copies may find none to be sent from",
                element.name
            ),
        );
    }
    warnings
}
