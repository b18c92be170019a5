//! The context in which an element is configured.

use crate::allow::Outside;
use crate::control::ControlTask;
use crate::facts::Facts;
use crate::hub::Hub;
use crate::placement::{Lanes, PortUse, Spread};
use crate::store::{SharedStore, find_scoped};
use crate::{ArgError, Args, ElementId, WorkerId};
use lang::args::NameDb;
use lang::{Config, Diagnostic, PortRef, Span};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

/// Decisions about the whole router that information elements make.
#[derive(Clone, Debug, Default)]
pub struct Scheduling {
    /// Elements whose tasks run on one given worker.
    pub threads: HashMap<String, usize>,
    /// Shares of elements' tasks.
    pub tickets: HashMap<String, u32>,
    /// The shares that `ScheduleInfo` elements set, by the scope of those elements (`a/b/`; empty: the file)
    /// and the name in their arguments.
    pub shares: BTreeMap<(String, String), u32>,
}

impl Scheduling {
    /// The worker that an element's tasks run on, unless they run on all.
    pub(crate) fn home(&self, name: &str, workers: usize) -> usize {
        self.threads.get(name).map_or(0, |t| t % workers)
    }
}

/// A port, which is open once all elements are configured, and the work of each worker there for the element.
#[derive(Clone, Debug, Default)]
pub struct PortSlot(Arc<OnceLock<(Arc<dpdk::Port>, Arc<Lanes>)>>);

impl PortSlot {
    /// The port; `None` while elements are being configured, and when the configuration is only checked.
    #[must_use]
    pub fn get(&self) -> Option<&Arc<dpdk::Port>> {
        self.0.get().map(|(port, _)| port)
    }
    /// The workers that poll and send; `None` as for [`PortSlot::get`].
    #[must_use]
    pub fn lanes(&self) -> Option<&Arc<Lanes>> {
        self.0.get().map(|(_, lanes)| lanes)
    }
    pub(crate) fn set(&self, port: &Arc<dpdk::Port>, lanes: &Arc<Lanes>) {
        // Set once, by the builder.
        let _ = self.0.set((Arc::clone(port), Arc::clone(lanes)));
    }
}

/// A direction in the graph, from an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Downstream.
    Downstream,
    /// Upstream.
    Upstream,
}

pub(crate) type Starter = Box<dyn FnOnce() -> Result<(), String>>;

/// An action for the moment when nothing can prevent the configuration from running any more, with the number
/// of its element.
pub(crate) type StartAction = (usize, Box<dyn FnOnce() -> Result<(), String> + Send>);

/// What an element has asked that may differ when elements have moved to other workers.
#[derive(Default)]
pub(crate) struct Asked {
    /// On which workers packets pass it.
    pub(crate) passing: Cell<bool>,
    /// Which worker it is on.
    pub(crate) worker: Cell<bool>,
}

/// The context of [`crate::Element::configure`].
pub struct ConfigCx<'a> {
    pub(crate) index: usize,
    pub(crate) worker: WorkerId,
    pub(crate) workers: usize,
    pub(crate) sizes: (usize, usize),
    pub(crate) config: &'a Config,
    pub(crate) facts: &'a [Facts],
    pub(crate) by_name: &'a HashMap<String, u32>,
    pub(crate) names: &'a mut NameDb,
    pub(crate) store: &'a Arc<SharedStore>,
    pub(crate) inherited: Option<&'a SharedStore>,
    /// Whether the same configuration goes on, with elements on other workers.
    pub(crate) moving: bool,
    /// What the element has asked, on any worker.
    pub(crate) asked: &'a Asked,
    pub(crate) scheduling: &'a mut Scheduling,
    pub(crate) control: &'a mut Vec<(String, Box<dyn ControlTask>)>,
    pub(crate) warnings: &'a mut Vec<Diagnostic>,
    pub(crate) batch_size: usize,
    pub(crate) simulated: bool,
    pub(crate) check_only: bool,
    pub(crate) click: bool,
    pub(crate) crossing: bool,
    /// The workers that pull from the element, a bit each; 0 if none does.
    pub(crate) pulling: u128,
    /// Whether this is the first replica of the element to be made.
    pub(crate) first: bool,
    pub(crate) starters: &'a mut Vec<(usize, Starter)>,
    pub(crate) acts: &'a mut Vec<StartAction>,
    pub(crate) ports: &'a mut Vec<PortUse>,
    /// With the number of the use.
    pub(crate) port_slots: &'a mut Vec<(usize, PortSlot)>,
    /// How many packets elements may hold, for each replica that has declared it.
    pub(crate) holding: &'a mut Vec<(usize, usize)>,
    pub(crate) hub: &'a Arc<Hub>,
    pub(crate) eal: &'a dpdk::EalOptions,
}

impl ConfigCx<'_> {
    /// The element's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.elements[self.index].name
    }
    /// How Click begins messages about what the element could not begin to work with.
    #[must_use]
    pub fn while_initializing(&self) -> String {
        let landmark = self.config.elements[self.index].while_initializing();
        landmark.heading(&self.config.sources).unwrap_or_default()
    }
    /// Which worker's replica is being made.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.asked.worker.set(true);
        self.worker
    }
    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers
    }
    /// How many inputs are connected.
    #[must_use]
    pub fn n_inputs(&self) -> usize {
        self.sizes.0
    }
    /// How many outputs are connected.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.sizes.1
    }
    /// The longest batch that will arrive.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }
    /// Whether the router runs in simulated time.
    #[must_use]
    pub fn simulated_time(&self) -> bool {
        self.simulated
    }
    /// Whether the configuration is only checked: nothing may be opened or created.
    #[must_use]
    pub fn check_only(&self) -> bool {
        self.check_only
    }
    /// Whether the router runs under the name `click`: without defaults and messages that Click does not
    /// have.
    #[must_use]
    pub fn as_click(&self) -> bool {
        self.click
    }
    /// Whether packets come in on one worker and leave on another, so that the element's state must be safe
    /// to use from both (a queue between two workers).
    #[must_use]
    pub fn crosses_workers(&self) -> bool {
        self.asked.passing.set(true);
        self.crossing
    }
    /// This worker's place among the workers that pull from the element, and how many they are; `None` if it
    /// does not pull. Where no task pulls, and if there are more than 128 workers, all of them count.
    #[must_use]
    pub fn pull_share(&self) -> Option<(usize, usize)> {
        self.asked.passing.set(true);
        let worker = self.worker.0;
        if self.pulling == 0 {
            return Some((worker, self.workers));
        }
        let bit = 1u128.checked_shl(worker as u32).filter(|bit| self.pulling & bit != 0)?;
        Some(((self.pulling & (bit - 1)).count_ones() as usize, self.pulling.count_ones() as usize))
    }
    /// The workers whose tasks pull from the element, a bit each; 0: no task does, or there are more than 128
    /// workers, and all of them count.
    #[must_use]
    pub fn pulled_by(&self) -> u128 {
        self.asked.passing.set(true);
        self.pulling
    }
    /// The whole configuration, flat.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.config
    }
    /// The router-wide state.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        self.hub
    }
    /// Whether the program may name this outside the router: an argument that was just read.
    ///
    /// # Errors
    /// It may not.
    pub fn permits(&self, what: Outside<'_>, args: &mut Args<'_>) -> Result<(), ArgError> {
        self.hub.permits(what).map_err(|refused| args.error_here(refused.message, refused.help))
    }
    /// The names of addresses, ports and so on, to be extended by information elements.
    pub fn names(&mut self) -> &mut NameDb {
        self.names
    }
    /// Decisions about threads and shares, to be extended by information elements.
    pub fn scheduling(&mut self) -> &mut Scheduling {
        self.scheduling
    }

    /// State that this element's replicas on all workers share, and that other elements and handlers can find
    /// by its type. The first replica makes it. A hot swap to the same configuration string keeps it.
    pub fn shared<S: Send + Sync + 'static>(&mut self, make: impl FnOnce() -> S) -> Arc<S> {
        self.shared_if(|_| true, make)
    }
    /// The same, but state of the router that a hot swap replaces continues only if it is `still` right.
    pub fn shared_if<S: Send + Sync + 'static>(
        &mut self,
        still: impl FnOnce(&S) -> bool,
        make: impl FnOnce() -> S,
    ) -> Arc<S> {
        let name = &self.config.elements[self.index].name;
        if let Some(state) = self.store.typed(name) {
            return state;
        }
        let old = self.inherited.and_then(|old| old.typed(name)).filter(|old| still(old));
        let state = old.unwrap_or_else(|| Arc::new(make()));
        self.store.put(name, Arc::clone(&state));
        state
    }
    /// The same for state that may fail to be made.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn try_shared<S: Send + Sync + 'static, E>(
        &mut self,
        make: impl FnOnce() -> Result<S, E>,
    ) -> Result<Arc<S>, E> {
        let name = &self.config.elements[self.index].name;
        if let Some(state) = self.store.typed(name) {
            return Ok(state);
        }
        let state = match self.inherited.and_then(|old| old.typed(name)) {
            Some(state) => state,
            None => Arc::new(make()?),
        };
        self.store.put(name, Arc::clone(&state));
        Ok(state)
    }
    /// What the element has published where its configuration does not begin anew, but elements move to other
    /// workers: a script goes on where it is. Control tasks go on too.
    #[must_use]
    pub fn going_on<S: Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        self.inherited.filter(|_| self.moving)?.typed(self.name())
    }
    /// Publishes state that exists already, for other elements and handlers to find; one per type and
    /// element.
    pub fn publish<S: Send + Sync + 'static>(&mut self, state: Arc<S>) {
        self.store.put(&self.config.elements[self.index].name, state);
    }
    /// The state that another element shares, as seen from this element's scope. Elements of an earlier
    /// [`crate::Phase`] are configured already.
    ///
    /// # Errors
    /// There is no such element, or it does not share that type.
    pub fn shared_of<S: Send + Sync + 'static>(&self, element: &str, what: &str) -> Result<Arc<S>, ArgError> {
        let id = self.find(element).ok_or_else(|| ArgError::new(format!("no element named '{element}'")))?;
        let name = &self.config.elements[id.0 as usize].name;
        self.store.typed(name).ok_or_else(|| ArgError::new(format!("'{name}' is not {what}")))
    }
    /// Finds an element by name, from this element's scope outwards.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ElementId> {
        find_scoped(self.by_name, self.name(), name).map(ElementId)
    }
    /// The name of an element.
    #[must_use]
    pub fn name_of(&self, id: ElementId) -> &str {
        &self.config.elements[id.0 as usize].name
    }
    /// The facts of an element's class.
    #[must_use]
    pub fn class_of(&self, id: ElementId) -> &Facts {
        &self.facts[id.0 as usize]
    }

    /// The facts of the classes whose elements packets from this one can reach over its outputs, nearest
    /// first. The search continues beyond an element only if `through` returns true for its class and the
    /// input.
    pub fn downstream(&self, mut through: impl FnMut(&Facts, usize) -> bool) -> Vec<&Facts> {
        let mut found: Vec<PortRef> = Vec::new();
        let mut edge = VecDeque::from([self.index]);
        while let Some(at) = edge.pop_front() {
            for c in self.config.connections.iter().filter(|c| c.from.element == at) {
                if !found.contains(&c.to) {
                    found.push(c.to);
                    if through(&self.facts[c.to.element], c.to.port) {
                        edge.push_back(c.to.element);
                    }
                }
            }
        }
        found.into_iter().map(|to| &self.facts[to.element]).collect()
    }

    /// The nearest elements that `wanted` accepts on every path from one of this element's ports: downstream
    /// of an output, or upstream of an input.
    pub fn nearest(
        &self,
        side: Side,
        port: usize,
        mut wanted: impl FnMut(ElementId) -> bool,
    ) -> Vec<ElementId> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut edge = VecDeque::from([(self.index, Some(port))]);
        while let Some((at, port)) = edge.pop_front() {
            for c in &self.config.connections {
                let (here, there) =
                    if side == Side::Downstream { (&c.from, &c.to) } else { (&c.to, &c.from) };
                if here.element != at || port.is_some_and(|p| p != here.port) || !seen.insert(there.element) {
                    continue;
                }
                if wanted(ElementId(there.element as u32)) {
                    found.push(ElementId(there.element as u32));
                } else {
                    edge.push_back((there.element, None));
                }
            }
        }
        found
    }
    /// The state that an element configured earlier shares, if it shares that type.
    #[must_use]
    pub fn shared_by<S: Send + Sync + 'static>(&self, element: ElementId) -> Option<Arc<S>> {
        self.store.typed(self.name_of(element))
    }

    /// The same for a time when all elements are configured: in [`ConfigCx::before_start`] or
    /// [`ConfigCx::at_change_over`].
    pub fn shared_later<S: Send + Sync + 'static>(
        &self,
        element: ElementId,
    ) -> impl Fn() -> Option<Arc<S>> + Send + 'static {
        let (store, name) = (Arc::clone(self.store), self.name_of(element).to_owned());
        move || store.typed(&name)
    }

    /// Adds a task on the control side; only the first replica has an effect.
    pub fn control(&mut self, task: Box<dyn ControlTask>) {
        if self.first {
            self.control.push((self.name().to_owned(), task));
        }
    }
    /// Requests a port. The needs of an element are counted once, whatever the number of its replicas;
    /// `spread` determines where packets go if the port has fewer receive queues than were requested.
    pub fn port(&mut self, spec: &dpdk::PortSpec, needs: &dpdk::PortConfig, spread: Spread) -> PortSlot {
        let known = self.ports.iter().position(|one| one.element == self.index && one.spec == *spec);
        let number = known.unwrap_or_else(|| {
            self.ports.push(PortUse {
                element: self.index,
                spec: spec.clone(),
                needs: needs.clone(),
                spread,
                bound: self.scheduling.threads.get(self.name()).map(|worker| worker % self.workers),
            });
            self.ports.len() - 1
        });
        let slot = PortSlot::default();
        self.port_slots.push((number, slot.clone()));
        slot
    }
    /// Sets how DPDK's environment is started for an element that needs it without a port, in
    /// [`ConfigCx::before_start`] or later.
    #[must_use]
    pub fn environment(&self) -> &dpdk::EalOptions {
        self.eal
    }
    /// Registers an action for the time when all elements are configured and none is initialized, once:
    /// starting a device whose queues are known only then, checking whether a file can be written or a port
    /// is free. Other elements may still fail: resources that are acquired here must be released when they
    /// are dropped, and nothing outside the process may be changed before the new configuration takes over
    /// ([`ConfigCx::at_change_over`]).
    pub fn before_start(&mut self, start: impl FnOnce() -> Result<(), String> + 'static) {
        self.starters.push((self.index, Box::new(start)));
    }
    /// Declares how many packets this replica may hold. The user is warned if all packets that elements may
    /// hold exceed the number of buffers.
    pub fn holds(&mut self, packets: usize) {
        self.holding.push((self.index, packets));
    }
    /// The same for packets that all replicas hold together.
    pub fn holds_together(&mut self, packets: usize) {
        if self.first {
            self.holds(packets);
        }
    }
    /// Registers an action outside the process, once, when the configuration is certain to run: emptying a
    /// file, handling a signal, answering on a socket. At the start, that is when all elements are
    /// initialized; a failure then prevents the start. In a hot swap, it is when all workers are stopped,
    /// right before they switch to the new configuration: everything that can fail must have been tried
    /// before ([`ConfigCx::before_start`]), and later failures are only printed.
    ///
    /// Elements that know only in [`crate::Element::initialize`] what the action is call
    /// [`crate::Cx::at_change_over`].
    pub fn at_change_over(&mut self, act: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.acts.push((self.index, Box::new(act)));
    }
    /// Prints what the configuration asks to be printed.
    pub fn tell(&mut self, message: impl Into<String>) {
        if self.first {
            let element = &self.config.elements[self.index];
            let told = Diagnostic::info(element.span, message);
            self.warnings.push(told.with_landmark(element.while_configuring()));
        }
    }
    /// Reports a warning to the user, which does not prevent the start.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warn_at(None, message);
    }
    /// [`ConfigCx::warn`] about a place in the arguments.
    pub fn warn_at(&mut self, span: Option<Span>, message: impl Into<String>) {
        if self.first {
            let element = &self.config.elements[self.index];
            let warning = Diagnostic::warning(span.unwrap_or(element.span), message);
            self.warnings.push(warning.with_landmark(element.while_configuring()));
        }
    }
}
