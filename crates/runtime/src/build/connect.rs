//! The connections between elements: which element passes packets to which, which one wakes which, and which
//! ones lie between two workers.

use crate::class::Class;
use crate::configure::Scheduling;
use crate::cx::{Input, Listeners, Output};
use crate::element::{Notify, Sharing};
use crate::ports::flows;
use crate::sides::{Processing, Sides};
use lang::Config;
use std::collections::{BTreeSet, HashMap};

/// The shape of the graph, from which all replicas are made.
pub(super) struct Shape {
    pub(super) classes: Vec<Class>,
    pub(super) sides: Vec<Sides>,
    pub(super) inputs: Vec<Vec<Input>>,
    pub(super) outputs: Vec<Vec<Output>>,
    pub(super) listeners: Vec<Listeners>,
}

/// Follows packets upstream from a pull input. Collects the elements that notify when they have packets, and
/// those that only wake consumers, because another such element is nearer; returns whether some source does
/// not notify.
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
        let notifies = decides || matches!(class.notify, Notify::Empty | Notify::EmptyAndFull);
        if notifies {
            found.insert(e as u32);
            silent_source |= crossing[e];
        }
        let mut further = false;
        for (i, kind) in shape.sides[e].inputs.iter().enumerate() {
            if *kind == Processing::Pull && flows(class.flow, i, out) {
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
        silent_source |= !notifies && !further && class.notify != Notify::Silent;
    }
    silent_source
}

/// For each output port the input ports that it is connected to.
type Next = HashMap<(usize, usize), Vec<(usize, usize)>>;

/// Follows packets downstream from a push output. Collects the elements that notify when they are full;
/// returns whether some path ends without one, so that it always accepts packets.
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
            if *kind == Processing::Push && flows(class.flow, input, o) {
                further = true;
                open_end |= downstream(next, shape, (e, o), crossing, seen, found);
            }
        }
        open_end |= !further;
    }
    open_end
}

/// Connects the elements, and determines which ones wake which.
pub(super) fn connect(config: &Config, classes: Vec<Class>, sides: Vec<Sides>, crossing: &[bool]) -> Shape {
    let count = classes.len();
    let mut next = Next::new();
    for c in &config.connections {
        next.entry((c.from.element, c.from.port)).or_default().push((c.to.element, c.to.port));
    }
    let mut shape = Shape {
        inputs: sides
            .iter()
            .map(|s| {
                s.inputs.iter().map(|k| Input { pull: *k == Processing::Pull, ..Input::default() }).collect()
            })
            .collect(),
        outputs: sides
            .iter()
            .map(|s| {
                s.outputs
                    .iter()
                    .map(|k| Output { pull: *k == Processing::Pull, ..Output::default() })
                    .collect()
            })
            .collect(),
        listeners: vec![Listeners::default(); count],
        classes,
        sides,
    };
    for c in &config.connections {
        if shape.sides[c.from.element].outputs[c.from.port] == Processing::Push {
            let out = &mut shape.outputs[c.from.element][c.from.port];
            (out.to, out.port) = (c.to.element as u32, c.to.port as u16);
        } else {
            shape.inputs[c.to.element][c.to.port].from = (c.from.element as u32, c.from.port as u16);
        }
    }
    for e in 0..count {
        let consumes = !shape.sides[e].outputs.contains(&Processing::Pull);
        for i in 0..shape.sides[e].inputs.len() {
            if shape.sides[e].inputs[i] != Processing::Pull {
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
        let produces = !shape.sides[e].inputs.contains(&Processing::Push);
        for o in 0..shape.sides[e].outputs.len() {
            if shape.sides[e].outputs[o] != Processing::Push {
                continue;
            }
            let mut found = BTreeSet::new();
            let open = downstream(&next, &shape, (e, o), crossing, &mut BTreeSet::new(), &mut found);
            let held = found.iter().filter(|n| shape.classes[**n as usize].notify == Notify::EmptyAndFull);
            shape.outputs[e][o].queues = held.copied().collect();
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

/// On which workers packets pass each element.
#[derive(Default)]
pub(super) struct Passing {
    /// The elements where packets enter on one worker and leave on another: those between elements that are
    /// bound to different workers, or between a bound element and one that runs on all workers.
    pub(super) crossing: Vec<bool>,
    /// The workers whose tasks pull from each element, a bit each; 0 if no task does, or there are more than
    /// 128 workers.
    pub(super) pulling: Vec<u128>,
}

pub(super) fn passing(
    config: &Config,
    classes: &[Class],
    sides: &[Sides],
    scheduling: &Scheduling,
    workers: usize,
) -> Passing {
    let count = classes.len();
    if workers < 2 {
        return Passing { crossing: vec![false; count], pulling: vec![0; count] };
    }
    let all: u128 = if workers >= 128 { u128::MAX } else { (1 << workers) - 1 };
    let own = |e: usize| -> u128 {
        let pinned = scheduling.threads.contains_key(&config.elements[e].name)
            || classes[e].sharing == Sharing::Single;
        if pinned { 1 << (scheduling.home(&config.elements[e].name, workers) % 128) } else { all }
    };
    let active = |e: usize, up: bool| {
        // Tasks belong to the elements where packets begin to move: those with push outputs but no push
        // inputs, and those with pull inputs but no pull outputs.
        let s = &sides[e];
        if up {
            !s.inputs.contains(&Processing::Push) && s.outputs.contains(&Processing::Push)
        } else {
            s.inputs.contains(&Processing::Pull) && !s.outputs.contains(&Processing::Pull)
        }
    };
    let reach = |start: usize, up: bool| -> u128 {
        let (mut seen, mut edge, mut set) = (BTreeSet::from([start]), vec![start], 0u128);
        while let Some(at) = edge.pop() {
            for c in &config.connections {
                let (here, there) = if up { (c.to, c.from) } else { (c.from, c.to) };
                let kind = sides[c.from.element].outputs[c.from.port];
                if here.element == at
                    && kind == (if up { Processing::Push } else { Processing::Pull })
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
    let crossing = (0..count)
        .map(|e| {
            let boundary =
                sides[e].inputs.contains(&Processing::Push) && sides[e].outputs.contains(&Processing::Pull);
            if !boundary {
                return false;
            }
            let (before, after) = (reach(e, true), reach(e, false));
            before != 0 && after != 0 && before != after
        })
        .collect();
    // Of more workers than there are bits it is not known which pull.
    let known = |e: usize| workers <= 128 && sides[e].outputs.contains(&Processing::Pull);
    let pulling = (0..count).map(|e| if known(e) { reach(e, false) } else { 0 }).collect();
    Passing { crossing, pulling }
}
