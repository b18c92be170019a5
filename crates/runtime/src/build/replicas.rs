//! Replicas: one graph for each worker, all of the same shape.

use super::connect::Shape;
use super::devices::on_node;
use crate::WorkerId;
use crate::class::Class;
use crate::clock::Clock;
use crate::configure::Scheduling;
use crate::cx::{Core, Graph, Node, Reader, Slot};
use crate::element::{Notify, Sharing};
use crate::handoff::Forwarder;
use crate::hub::Hub;
use crate::info::ElementInfo;
use crate::options::Options;
use crate::sides::Processing;
use crate::stats::SlotStats;
use crate::store::SharedStore;
use lang::{Config, Diagnostic, Diagnostics, NameDb};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The input from which all replicas are made.
pub(super) struct Pattern<'a> {
    pub(super) config: &'a Config,
    pub(super) options: &'a Options,
    pub(super) clock: &'a Clock,
    pub(super) hub: &'a Arc<Hub>,
    pub(super) shape: &'a Shape,
    pub(super) scheduling: &'a Scheduling,
    pub(super) crossing: &'a [bool],
    pub(super) pulling: &'a [u128],
    pub(super) by_name: &'a Arc<HashMap<String, u32>>,
    pub(super) store: &'a Arc<SharedStore>,
    pub(super) names: &'a NameDb,
    /// The elements of the configuration that this one replaces.
    pub(super) old: Option<&'a [ElementInfo]>,
}

impl Pattern<'_> {
    /// Makes a worker's replica, with its elements initialized; information for the control thread goes into
    /// `elements`.
    pub(super) fn replica(
        &self,
        worker: usize,
        nodes: Vec<Option<Box<dyn Node>>>,
        elements: &mut [ElementInfo],
        diags: &mut Diagnostics,
    ) -> (Graph, Core) {
        let (count, options) = (nodes.len(), self.options);
        let _there = on_node(options, worker);
        let (clock, hub) = (self.clock.clone(), Arc::clone(self.hub));
        let mut core = Core::new(WorkerId(worker), count, clock, hub, options.batch_size);
        core.seed(options.seed);
        let mut slots = Vec::with_capacity(count);
        for (index, (node, info)) in nodes.into_iter().zip(elements).enumerate() {
            core.nonempty[index] = self.shape.classes[index].notify == Notify::Gate;
            if let Some(&tickets) = self.scheduling.tickets.get(&info.name) {
                core.run.set_tickets(index as u32, tickets);
            }
            slots.push(self.slot(worker, index, node, info));
        }
        // Only tasks that run on this worker are woken on it.
        let here: Vec<bool> = slots.iter().map(|s| s.runs_here).collect();
        for slot in &mut slots {
            slot.listeners.empty.retain(|s| here[*s as usize]);
            slot.listeners.room.retain(|s| here[*s as usize]);
        }
        let graph = Graph {
            slots,
            names: Arc::clone(self.by_name),
            shared: Arc::clone(self.store),
            texts: self.names.clone(),
            about: None,
        };
        core.initializing = true;
        let first = core.clock.stamp();
        for index in (0..count).filter(|_| !options.check_only) {
            core.clock.set_stamp(first + index as u64 * crate::clock::STAMPS);
            let done = core.with_node(&graph, index as u32, |node, cx| node.initialize(cx));
            if let Some(Err(message)) = done {
                let element = &self.config.elements[index];
                diags.push(
                    Diagnostic::error(element.span, message).with_landmark(element.while_initializing()),
                );
                if self.options.click {
                    break;
                }
            }
        }
        core.clock.set_stamp(first + count as u64 * crate::clock::STAMPS);
        core.initializing = false;
        (graph, core)
    }

    /// An element's position in a worker's graph.
    fn slot(
        &self,
        worker: usize,
        index: usize,
        mut node: Option<Box<dyn Node>>,
        info: &mut ElementInfo,
    ) -> Slot {
        let (shape, class) = (self.shape, &self.shape.classes[index]);
        let name = &self.config.elements[index].name;
        // An element that packets are pushed to runs on the worker that the packets come from, with its
        // timers and tasks there, even if it is bound; binding applies to elements where packets begin to
        // move.
        let kinds = &shape.sides[index].inputs;
        let pushed_to = kinds.contains(&Processing::Push) && !kinds.contains(&Processing::Pull);
        info.home = self.scheduling.home(name, self.options.workers.max(1));
        info.bound = self.scheduling.threads.contains_key(name);
        info.crosses = self.crossing[index];
        let pinned = (info.bound && !pushed_to) || class.sharing == Sharing::Single;
        let stats = inherit_stats(self.old, name, class, worker);
        info.stats.push(Arc::clone(&stats));
        if let Some(node) = node.as_mut() {
            for handler in info.handlers.iter() {
                if let Some(Reader::Counter(f)) = &handler.reader
                    && let Some(counter) = f(&*node.element())
                {
                    info.counters.entry(handler.name).or_default().push(counter);
                }
            }
        }
        Slot {
            name: name.as_str().into(),
            class: class.name,
            steps: class.step.is_some() && self.options.optimize && node.is_some(),
            maps: node.as_ref().is_some_and(|node| node.maps()),
            node: RefCell::new(node.unwrap_or_else(|| Box::new(Forwarder::new(self.hub, name, info.home)))),
            stats,
            inputs: shape.inputs[index].clone(),
            outputs: shape.outputs[index].clone().into(),
            listeners: shape.listeners[index].clone(),
            runs_here: !pinned || info.home == worker,
            pull_through: class.pull_through,
            handlers: Arc::clone(&info.handlers),
            single: class.sharing == Sharing::Single,
            live: class.live,
            kept: false,
            pulls_here: self.pulling[index] == 0
                || self.pulling[index].checked_shr(worker as u32).is_some_and(|bits| bits & 1 == 1),
            counts: None,
        }
    }
}

fn inherit_stats(old: Option<&[ElementInfo]>, name: &str, class: &Class, worker: usize) -> Arc<SlotStats> {
    let old = old.and_then(|o| o.iter().find(|o| o.name == name && o.class == class.name));
    old.and_then(|o| o.stats.get(worker)).cloned().unwrap_or_else(|| Arc::new(SlotStats::new(class.drops)))
}
