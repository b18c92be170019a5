//! From a flat configuration to one graph for each worker.

use crate::class::{Class, Registry};
use crate::clock::Clock;
use crate::configure::{Act, ConfigCx, ControlTask, Plan, PortSlot};
use crate::cx::Core;
use crate::element::{Node, Notify, Sharing};
use crate::graph::{Graph, Input, Listeners, Output, SharedStore, Slot};
use crate::handler::Reader;
use crate::hub::Hub;
use crate::placement::{self, Lanes, PortUse};
use crate::ports::{self, Kind, Sides, flows};
use crate::router::{ElementInfo, Options};
use crate::stats::SlotStats;
use crate::{Args, NameDb, WorkerId};
use lang::{Config, Diagnostic, Diagnostics};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A router that is ready to run.
pub(crate) struct Built {
    pub(crate) replicas: Vec<(Graph, Core)>,
    pub(crate) elements: Vec<ElementInfo>,
    pub(crate) by_name: Arc<HashMap<String, u32>>,
    pub(crate) store: Arc<SharedStore>,
    pub(crate) control: Vec<(String, Box<dyn ControlTask>)>,
    pub(crate) config: Config,
    pub(crate) warnings: Diagnostics,
    /// Whether more packets may wait than there are buffers.
    pub(crate) shortage: Diagnostics,
    /// The uses of ports and, when they are open, who does what there.
    pub(crate) ports: Vec<(PortUse, Option<Arc<Lanes>>)>,
    /// The elements of each chain that the optimiser found.
    pub(crate) chains: Vec<Vec<u32>>,
    /// What is to be done at the change-over.
    pub(crate) acts: Vec<Act>,
}

/// The graph's shape, from which all replicas are cut.
struct Shape {
    classes: Vec<Class>,
    sides: Vec<Sides>,
    inputs: Vec<Vec<Input>>,
    outputs: Vec<Vec<Output>>,
    listeners: Vec<Listeners>,
}

/// Makes the replicas. `old` is the running configuration that the new one is to replace.
pub(crate) fn build(
    config: Config,
    registry: &Registry,
    options: &Options,
    clock: &Clock,
    hub: &Arc<Hub>,
    old: Option<(&[ElementInfo], &SharedStore)>,
) -> Result<Built, Diagnostics> {
    let mut diags = Diagnostics::new();
    diags.set_sources(config.sources.clone());
    let Some(classes) = look_up(&config, registry, &mut diags) else { return Err(diags) };
    let sides = ports::resolve(&config, &classes, &mut diags);
    if diags.has_errors() {
        return Err(diags);
    }
    let by_name: Arc<HashMap<String, u32>> =
        Arc::new(config.elements.iter().enumerate().map(|(i, e)| (e.name.clone(), i as u32)).collect());
    let store: Arc<SharedStore> = Arc::default();
    let inherited = old.map(|(elements, old)| inheritance(&config, elements, old));
    let workers = options.workers.max(1);
    let count = config.elements.len();

    // Configure, in the order of phases; one pass for each phase over all workers, so that what a phase decides
    // (names, threads) is known to all replicas of the next.
    let mut plan = Plan::default();
    let mut names = NameDb::default();
    names.set_services(crate::services::port);
    names.set_devices(crate::devices::addresses);
    if let Ok(home) = std::env::var("HOME") {
        names.set_home(&home);
    }
    names.set_elements(config.elements.iter().map(|e| e.name.clone()));
    let mut control = Vec::new();
    let mut warnings = Vec::new();
    let mut starters = Vec::new();
    let mut acts = Vec::new();
    let mut uses = Vec::new();
    let mut port_slots = Vec::new();
    let mut holding = Vec::new();
    let mut nodes: Vec<Vec<Option<Box<dyn Node>>>> =
        (0..workers).map(|_| (0..count).map(|_| None).collect()).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&i| (classes[i].phase, i));
    let mut crossing = vec![false; count];
    let mut phase = crate::Phase::Info;
    let mut environment = Environment::new(&config, options);
    for &index in &order {
        let (class, element) = (&classes[index], &config.elements[index]);
        if class.phase != phase {
            phase = class.phase;
            crossing = crossings(&config, &classes, &sides, &plan, workers);
        }
        let home = home_of(&plan, &element.name, workers);
        let mut first = true;
        // The arguments need the names for look-ups and the context for additions.
        let known = names.at(&element.name);
        let mut args = Args::new(&element.config, Some(element.config_span), &known);
        for (worker, row) in nodes.iter_mut().enumerate() {
            if class.sharing == Sharing::Single && worker != home {
                continue;
            }
            args.rewind();
            let _there = on_node(options, worker);
            let mut cx = ConfigCx {
                index,
                worker: WorkerId(worker),
                workers,
                sizes: (sides[index].inputs.len(), sides[index].outputs.len()),
                config: &config,
                classes: &classes,
                by_name: &by_name,
                names: &mut names,
                store: &store,
                inherited: inherited.as_ref(),
                plan: &mut plan,
                control: &mut control,
                warnings: &mut warnings,
                vector: options.vector,
                simulated: clock.is_simulated(),
                check_only: options.check_only,
                click: options.click,
                crossing: crossing[index],
                first,
                starters: &mut starters,
                acts: &mut acts,
                ports: &mut uses,
                port_slots: &mut port_slots,
                holding: &mut holding,
                hub,
                eal: &options.eal,
            };
            let made = (class.make)(&mut args, &mut cx).and_then(|node| args.finish().map(|()| node));
            first = false;
            if !uses.is_empty() {
                environment.start(options);
            }
            match made {
                Ok(node) => row[index] = Some(node),
                Err(e) => {
                    // All that is wrong with the arguments, not only what ended the reading.
                    let mut errors = args.take_errors();
                    if !errors.iter().any(|known| known.message == e.message) {
                        errors.push(e);
                    }
                    for e in errors {
                        let span = e.span.unwrap_or(element.span);
                        let note = format!("in '{} :: {}'", element.name, element.class);
                        diags.push(
                            Diagnostic { span: Some(span), ..Diagnostic::from(e) }.with_note(None, note),
                        );
                    }
                    break;
                }
            }
        }
    }
    if diags.has_errors() {
        diags.sort();
        return Err(diags);
    }
    let ports = open_ports(uses, &port_slots, &config, options, &mut diags, &mut warnings);
    for (number, slot) in &port_slots {
        if let (Some(port), Some((of, _))) = (slot.get().cloned(), ports.get(*number)) {
            let keep = move || {
                port.keep();
                Ok(())
            };
            acts.push((of.element, Box::new(keep)));
        }
    }
    for (index, start) in starters.into_iter().filter(|_| !options.check_only) {
        if let Err(message) = start() {
            diags.error(Some(config.elements[index].span), message);
        }
    }
    if diags.has_errors() {
        return Err(diags);
    }

    let fused = match options.optimise {
        true => crate::fuse::find(&config, &classes, &sides, registry.fusions()),
        false => vec![None; count],
    };
    let shape = connect(&config, classes, sides, &crossing);
    let mut elements: Vec<ElementInfo> = config
        .elements
        .iter()
        .zip(&shape.classes)
        .zip(&shape.sides)
        .map(|((e, class), sides)| ElementInfo::new(e, class, sides))
        .collect();
    let mut replicas: Vec<(Graph, Core)> = Vec::new();
    for (worker, nodes) in nodes.into_iter().enumerate() {
        let _there = on_node(options, worker);
        let mut core = Core::new(WorkerId(worker), count, clock.clone(), Arc::clone(hub), options.vector);
        core.seed(options.seed);
        let mut slots = Vec::with_capacity(count);
        for (index, node) in nodes.into_iter().enumerate() {
            let element = &config.elements[index];
            let class = &shape.classes[index];
            core.nonempty[index] = class.notify == Notify::Gate;
            // A bound element that packets are pushed to gets them on whichever worker they come from, and its timers and
            // tasks are for them; what is bound is where packets begin to move.
            let kinds = &shape.sides[index].inputs;
            let pushed_to = kinds.contains(&Kind::Push) && !kinds.contains(&Kind::Pull);
            let bound = plan.threads.contains_key(&element.name) && !pushed_to;
            let pinned = bound || class.sharing == Sharing::Single;
            let runs_here = !pinned || home_of(&plan, &element.name, workers) == worker;
            elements[index].home = home_of(&plan, &element.name, workers);
            elements[index].bound = plan.threads.contains_key(&element.name);
            elements[index].crosses = crossing[index];
            if let Some(&tickets) = plan.tickets.get(&element.name) {
                core.run.set_tickets(index as u32, tickets);
            }
            let stats = inherit_stats(old.map(|o| o.0), &element.name, class, worker);
            elements[index].stats.push(Arc::clone(&stats));
            let mut node = node;
            if let Some(node) = node.as_mut() {
                for handler in class.handlers.iter() {
                    if let Some(Reader::Counter(f)) = &handler.reader
                        && let Some(counter) = f(&*node.element())
                    {
                        elements[index].counters.entry(handler.name).or_default().push(counter);
                    }
                }
            }
            let maps = node.as_ref().is_some_and(|node| node.maps());
            slots.push(Slot {
                name: element.name.as_str().into(),
                class: class.name,
                node: RefCell::new(node.unwrap_or_else(|| {
                    let home = home_of(&plan, &element.name, workers);
                    Box::new(crate::handoff::Away::new(hub, &element.name, home))
                })),
                stats,
                inputs: shape.inputs[index].clone(),
                outputs: shape.outputs[index].clone(),
                listeners: shape.listeners[index].clone(),
                runs_here,
                pull_through: class.pull_through,
                handlers: Arc::clone(&class.handlers),
                maps,
                fused: fused[index].clone(),
            });
        }
        // Only tasks that run on this worker are woken on it.
        let here: Vec<bool> = slots.iter().map(|s| s.runs_here).collect();
        for slot in &mut slots {
            slot.listeners.empty.retain(|s| here[*s as usize]);
            slot.listeners.room.retain(|s| here[*s as usize]);
        }
        let graph = Graph { slots, names: Arc::clone(&by_name), shared: Arc::clone(&store) };
        core.initialising = true;
        for index in (0..count).filter(|_| !options.check_only) {
            let done = core.with_node(&graph, index as u32, |node, cx| node.initialize(cx));
            if let Some(Err(message)) = done {
                diags.error(Some(config.elements[index].span), message);
            }
        }
        core.initialising = false;
        acts.append(&mut core.acts);
        replicas.push((graph, core));
        if diags.has_errors() {
            return Err(diags);
        }
    }
    let mut notes = Diagnostics::new();
    notes.set_sources(config.sources.clone());
    for (span, message) in warnings {
        notes.warning(span, message);
    }
    let shortage = shortage_of(&holding, dpdk::Mempool::buffers(), &config);
    // Those within others, for packets that come in further along, go without saying.
    let whole: Vec<Vec<u32>> = fused.into_iter().flatten().map(|f| f.members.into_vec()).collect();
    let within = |c: &Vec<u32>| whole.iter().any(|o| o.len() > c.len() && o.ends_with(c));
    let chains = whole.iter().filter(|c| !within(c)).cloned().collect();
    Ok(Built {
        replicas,
        elements,
        by_name,
        store,
        control,
        config,
        warnings: notes,
        shortage,
        ports,
        chains,
        acts,
    })
}

/// What there is to say if elements may keep more packets waiting than there are buffers. Without ports there are none: packets
/// are the heap's.
fn shortage_of(holding: &[(usize, usize)], buffers: usize, config: &Config) -> Diagnostics {
    let mut by_element: BTreeMap<usize, usize> = BTreeMap::new();
    for &(element, packets) in holding {
        let sum = by_element.entry(element).or_default();
        *sum = sum.saturating_add(packets);
    }
    let sum = by_element.values().fold(0usize, |sum, n| sum.saturating_add(*n));
    let mut said = Diagnostics::new();
    said.set_sources(config.sources.clone());
    let most = by_element.iter().max_by_key(|(_, packets)| **packets);
    if let Some((&element, &packets)) = most.filter(|_| buffers > 0 && sum > buffers) {
        let element = &config.elements[element];
        let others = match by_element.len() {
            1 => String::new(),
            _ => format!(", with others {sum}"),
        };
        said.warning(
            Some(element.span),
            format!(
                "'{}' may keep {packets} packets waiting{others}, and there are {buffers} buffers: when these are used up, nothing \
                 is received, and copies may find none to be sent from",
                element.name
            ),
        );
    }
    said
}

/// Has memory come from a worker's NUMA node.
fn on_node(options: &Options, worker: usize) -> dpdk::OnNode {
    dpdk::OnNode::new(options.nodes.get(worker).copied().flatten())
}

/// The start of the DPDK environment in the background: it takes a tenth of a second, in which large tables load. A
/// configuration with PCI devices does without, because the environment must know all of them when it starts.
struct Environment {
    allowed: bool,
    starter: Option<std::thread::JoinHandle<()>>,
}

impl Environment {
    /// Starts at once if an element has a virtual device as its first argument.
    fn new(config: &Config, options: &Options) -> Self {
        let specs = config.elements.iter().filter_map(|e| {
            let first = e.config.trim_start_matches('"').split([',', '"']).next()?;
            dpdk::PortSpec::parse(first.trim()).ok()
        });
        let (mut pci, mut vdev) = (false, false);
        for spec in specs {
            pci |= matches!(spec, dpdk::PortSpec::Pci { .. });
            vdev |= matches!(spec, dpdk::PortSpec::Vdev(_));
        }
        let mut this = Self { allowed: !pci && !options.check_only, starter: None };
        if vdev {
            this.start(options);
        }
        this
    }
    fn start(&mut self, options: &Options) {
        if self.allowed && self.starter.is_none() && dpdk::Eal::get().is_none() {
            let eal = options.eal.clone();
            let starter = std::thread::Builder::new().name("valiant-start".to_owned());
            // Who opens the ports asks again, and gets the error if there is one.
            self.starter = starter.spawn(move || drop(dpdk::Eal::init(&eal))).ok();
        }
    }
}

impl Drop for Environment {
    /// The process must not end while DPDK starts.
    fn drop(&mut self) {
        if let Some(starter) = self.starter.take() {
            // Nothing in it panics that `Eal::init` does not report.
            let _ = starter.join();
        }
    }
}

/// Opens all ports that the configuration asks for, unless it is only checked, and deals their queues out.
fn open_ports(
    uses: Vec<PortUse>,
    slots: &[(usize, PortSlot)],
    config: &Config,
    options: &Options,
    diags: &mut Diagnostics,
    warnings: &mut Vec<(Option<lang::Span>, String)>,
) -> Vec<(PortUse, Option<Arc<Lanes>>)> {
    let workers = options.workers.max(1);
    let roles = match options.placement.roles(workers) {
        Ok(roles) => roles,
        Err(message) => {
            diags.error(None, message);
            return Vec::new();
        }
    };
    // The uses of each port, in the order of the configuration.
    let mut by_port: Vec<(&dpdk::PortSpec, Vec<usize>)> = Vec::new();
    for (number, one) in uses.iter().enumerate() {
        match by_port.iter_mut().find(|(spec, _)| *spec == &one.spec) {
            Some((_, numbers)) => numbers.push(number),
            None => by_port.push((&one.spec, vec![number])),
        }
    }
    let mut tell = |diags: &mut Diagnostics, numbers: &[usize], problems: Vec<placement::Problem>| {
        for problem in problems {
            let span = Some(config.elements[uses[numbers[problem.of]].element].span);
            if problem.fatal {
                diags.error(span, problem.text);
            } else {
                warnings.push((span, problem.text));
            }
        }
    };
    let of = |numbers: &[usize]| numbers.iter().map(|&n| uses[n].clone()).collect::<Vec<_>>();
    for (_, numbers) in &by_port {
        tell(diags, numbers, placement::contradictions(&of(numbers)));
    }
    let mut lanes: Vec<Option<Arc<Lanes>>> = vec![None; uses.len()];
    if !options.check_only && !diags.has_errors() {
        let mut table = dpdk::PortTable::new();
        for one in &uses {
            table.request(&one.spec, &placement::needs(one, &roles));
        }
        if let Err(errors) = table.prepare_all(&options.eal) {
            for error in errors {
                // The error names the port; the first element that asked for it is the place to show.
                let text = error.to_string();
                let at = uses.iter().find(|one| text.contains(&one.spec.to_string())).or(uses.first());
                diags.error(at.map(|one| config.elements[one.element].span), text);
            }
        }
        for (spec, numbers) in &by_port {
            let Some(port) = table.get(spec).filter(|_| !diags.has_errors()) else { continue };
            let queues = (port.rx_queues(), port.tx_queues());
            let (dealt, problems) = placement::assign(&of(numbers), queues, workers, &roles);
            tell(diags, numbers, problems);
            for (&number, dealt) in numbers.iter().zip(dealt) {
                let dealt = Arc::new(dealt);
                slots.iter().filter(|(n, _)| *n == number).for_each(|(_, slot)| slot.set(port, &dealt));
                lanes[number] = Some(dealt);
            }
        }
    }
    uses.into_iter().zip(lanes).collect()
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

fn home_of(plan: &Plan, name: &str, workers: usize) -> usize {
    plan.threads.get(name).map_or(0, |t| t % workers)
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

fn inherit_stats(old: Option<&[ElementInfo]>, name: &str, class: &Class, worker: usize) -> Arc<SlotStats> {
    let old = old.and_then(|o| o.iter().find(|o| o.name == name && o.class == class.name));
    old.and_then(|o| o.stats.get(worker)).cloned().unwrap_or_else(|| Arc::new(SlotStats::new(class.drops)))
}

/// Follows packets against their direction from a pull input. Collects the elements that tell when they have
/// packets, and those that only wake because another stands before them; returns whether some source does not tell.
fn upstream(
    config: &Config,
    shape: &Shape,
    at: (usize, usize),
    crossing: &[bool],
    seen: &mut BTreeSet<(usize, usize)>,
    found: &mut BTreeSet<u32>,
    wakers: &mut BTreeSet<u32>,
) -> bool {
    let mut silent_source = false;
    for c in config.connections.iter().filter(|c| (c.to.element, c.to.port) == at) {
        let (e, out) = (c.from.element, c.from.port);
        if !seen.insert((e, out)) {
            continue;
        }
        let class = &shape.classes[e];
        if class.notify == Notify::Gate {
            found.insert(e as u32);
            continue;
        }
        let decides = class.notify == Notify::Deciding;
        let tells = decides || matches!(class.notify, Notify::Empty | Notify::EmptyAndFull);
        if tells {
            found.insert(e as u32);
            silent_source |= crossing[e];
        }
        let mut further = false;
        for (i, kind) in shape.sides[e].inputs.iter().enumerate() {
            if *kind == Kind::Pull && flows(class.flow, i, out) {
                further = true;
                let (mut beyond, mut woken) = (BTreeSet::new(), BTreeSet::new());
                let silent = upstream(config, shape, (e, i), crossing, seen, &mut beyond, &mut woken);
                wakers.append(&mut woken);
                if decides {
                    wakers.append(&mut beyond);
                } else {
                    found.append(&mut beyond);
                    silent_source |= silent;
                }
            }
        }
        silent_source |= !tells && !further && class.notify != Notify::Silent;
    }
    silent_source
}

/// For each output port the input ports that it is connected to.
type Next = HashMap<(usize, usize), Vec<(usize, usize)>>;

/// Follows packets from a push output. Collects the elements that tell when they are full; returns whether some
/// path ends without one, so that there is always room.
fn downstream(
    next: &Next,
    shape: &Shape,
    at: (usize, usize),
    crossing: &[bool],
    seen: &mut BTreeSet<(usize, usize)>,
    found: &mut BTreeSet<u32>,
) -> bool {
    let mut open_end = false;
    for &(e, input) in next.get(&at).into_iter().flatten() {
        if !seen.insert((e, input)) {
            continue;
        }
        let class = &shape.classes[e];
        if matches!(class.notify, Notify::EmptyAndFull | Notify::Full) {
            found.insert(e as u32);
            open_end |= crossing[e];
            continue;
        }
        let mut further = false;
        for (o, kind) in shape.sides[e].outputs.iter().enumerate() {
            if *kind == Kind::Push && flows(class.flow, input, o) {
                further = true;
                open_end |= downstream(next, shape, (e, o), crossing, seen, found);
            }
        }
        open_end |= !further;
    }
    open_end
}

fn connect(config: &Config, classes: Vec<Class>, sides: Vec<Sides>, crossing: &[bool]) -> Shape {
    let count = classes.len();
    let mut next = Next::new();
    for c in &config.connections {
        next.entry((c.from.element, c.from.port)).or_default().push((c.to.element, c.to.port));
    }
    let mut shape = Shape {
        inputs: sides
            .iter()
            .map(|s| s.inputs.iter().map(|k| Input { pull: *k == Kind::Pull, ..Input::default() }).collect())
            .collect(),
        outputs: sides
            .iter()
            .map(|s| {
                s.outputs.iter().map(|k| Output { pull: *k == Kind::Pull, ..Output::default() }).collect()
            })
            .collect(),
        listeners: vec![Listeners::default(); count],
        classes,
        sides,
    };
    for c in &config.connections {
        if shape.sides[c.from.element].outputs[c.from.port] == Kind::Push {
            let out = &mut shape.outputs[c.from.element][c.from.port];
            (out.to, out.port) = (c.to.element as u32, c.to.port as u16);
        } else {
            shape.inputs[c.to.element][c.to.port].from = (c.from.element as u32, c.from.port as u16);
        }
    }
    for e in 0..count {
        let consumes = !shape.sides[e].outputs.contains(&Kind::Pull);
        for i in 0..shape.sides[e].inputs.len() {
            if shape.sides[e].inputs[i] != Kind::Pull {
                continue;
            }
            let (mut found, mut wakers) = (BTreeSet::new(), BTreeSet::new());
            let seen = &mut BTreeSet::new();
            let always = upstream(config, &shape, (e, i), crossing, seen, &mut found, &mut wakers);
            if consumes {
                for &n in found.union(&wakers) {
                    shape.listeners[n as usize].empty.push(e as u32);
                }
            } else if shape.classes[e].notify == Notify::Gate {
                for &n in &found {
                    shape.listeners[n as usize].gates.push(e as u32);
                }
            }
            shape.inputs[e][i].always_active = always;
            shape.inputs[e][i].notifiers = found.into_iter().collect();
        }
        let produces = !shape.sides[e].inputs.contains(&Kind::Push);
        for o in 0..shape.sides[e].outputs.len() {
            if shape.sides[e].outputs[o] != Kind::Push {
                continue;
            }
            let mut found = BTreeSet::new();
            let open = downstream(&next, &shape, (e, o), crossing, &mut BTreeSet::new(), &mut found);
            if open {
                continue;
            }
            if produces {
                for &n in &found {
                    shape.listeners[n as usize].room.push(e as u32);
                }
            }
            shape.outputs[e][o].notifiers = found.into_iter().collect();
        }
    }
    for l in &mut shape.listeners {
        l.empty.dedup();
        l.gates.dedup();
        l.room.dedup();
    }
    shape
}

/// Which elements are entered on one worker and left on another: those between elements that are pinned to
/// different workers, or between a pinned one and one that runs everywhere.
fn crossings(config: &Config, classes: &[Class], sides: &[Sides], plan: &Plan, workers: usize) -> Vec<bool> {
    let count = classes.len();
    if workers < 2 {
        return vec![false; count];
    }
    let all: u128 = if workers >= 128 { u128::MAX } else { (1 << workers) - 1 };
    let own = |e: usize| -> u128 {
        let pinned =
            plan.threads.contains_key(&config.elements[e].name) || classes[e].sharing == Sharing::Single;
        if pinned { 1 << (home_of(plan, &config.elements[e].name, workers) % 128) } else { all }
    };
    let active = |e: usize, up: bool| {
        // Tasks sit where packets begin to move: push outputs without push inputs, pull inputs without pull outputs.
        let s = &sides[e];
        if up {
            !s.inputs.contains(&Kind::Push) && s.outputs.contains(&Kind::Push)
        } else {
            s.inputs.contains(&Kind::Pull) && !s.outputs.contains(&Kind::Pull)
        }
    };
    let reach = |start: usize, up: bool| -> u128 {
        let (mut seen, mut edge, mut set) = (BTreeSet::from([start]), vec![start], 0u128);
        while let Some(at) = edge.pop() {
            for c in &config.connections {
                let (here, there) = if up { (c.to, c.from) } else { (c.from, c.to) };
                let kind = sides[c.from.element].outputs[c.from.port];
                if here.element == at
                    && kind == (if up { Kind::Push } else { Kind::Pull })
                    && seen.insert(there.element)
                {
                    if active(there.element, up) {
                        set |= own(there.element);
                    } else {
                        if classes[there.element].sharing == Sharing::Single {
                            set |= own(there.element);
                            continue;
                        }
                        edge.push(there.element);
                    }
                }
            }
        }
        set
    };
    (0..count)
        .map(|e| {
            let boundary = sides[e].inputs.contains(&Kind::Push) && sides[e].outputs.contains(&Kind::Pull);
            if !boundary {
                return false;
            }
            let (before, after) = (reach(e, true), reach(e, false));
            before != 0 && after != 0 && before != after
        })
        .collect()
}
