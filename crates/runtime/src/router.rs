//! A router as its control side sees it: made, started, asked, changed, stopped.

use crate::build::{Built, build};
use crate::class::{Class, Registry};
use crate::clock::Clock;
use crate::configure::ControlTask;
use crate::cx::Core;
use crate::graph::{Graph, SharedStore};
use crate::handler::{Asked, Caller, Combine, Handler, HandlerError, Known, Reader, Writer, find};
use crate::hub::Hub;
use crate::placement::{Lanes, PortUse};
use crate::stats::{Counter, SlotStats, StatsSnapshot};
use crate::worker::{Mailbox, Order, Report, Worker};
use crate::{ElementId, LONGEST_NAP};
use lang::{Config, Diagnostics, LoadOptions, Source};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a handler call waits for a worker unless [`Router::set_answer_limit`] says otherwise.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long the workers stand still at most until the last of them is ready to change over to another configuration.
/// All have answered just before, so this is long.
const HOLD_LIMIT: Duration = Duration::from_secs(2);
/// How often the workers deliver to each other before they change over: more than there are elements with one instance
/// on a sensible path.
const DELIVERY_ROUNDS: usize = 64;
/// How often it looks meanwhile whether the worker still lives.
const LOOK: Duration = Duration::from_millis(50);

/// Handler calls of elements that are performed between two looks at the control tasks.
const WRITES_PER_TURN: usize = 64;
/// With several workers, rounds that some of them may be busy before simulated time goes on nevertheless.
const BUSY_ROUNDS: u32 = 8;

/// How a router runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many workers.
    pub workers: usize,
    /// Whether the workers get threads of their own; if not, the one that calls [`Router::drive`] runs them.
    pub threads: bool,
    /// The longest vector; 1 gives exactly Click's order.
    pub vector: usize,
    /// Simulated time.
    pub simulated_time: bool,
    /// How the work is laid out over the workers.
    pub placement: crate::Placement,
    /// The NUMA node on which each worker's replica is to be; empty: wherever.
    pub nodes: Vec<Option<usize>>,
    /// Whether a new configuration may replace the running one.
    pub hotswap: bool,
    /// Whether runs of elements are executed as one where that is possible.
    pub optimise: bool,
    /// Only check: nothing is opened, started or initialised.
    pub check_only: bool,
    /// How to start the DPDK environment, when the configuration has a port.
    pub eal: dpdk::EalOptions,
    /// Called by each worker thread as it starts; what it returns is dropped as the thread ends.
    pub enter: Option<Enter>,
}

/// What a worker thread does first: pin itself to a CPU, register with DPDK.
pub type Enter = fn(crate::WorkerId) -> Box<dyn std::any::Any>;

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            threads: false,
            vector: 1,
            simulated_time: false,
            placement: crate::Placement::default(),
            nodes: Vec::new(),
            hotswap: false,
            optimise: false,
            check_only: false,
            eal: dpdk::EalOptions::default(),
            enter: None,
        }
    }
}

/// What the control side knows of an element.
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
    /// The handlers of its class.
    pub handlers: Arc<[Handler]>,
    /// Its class's sharing.
    pub sharing: crate::Sharing,
    /// What each worker counts for it.
    pub stats: Vec<Arc<SlotStats>>,
    /// The worker that has the only instance, if there is only one.
    pub home: usize,
    /// Whether it is bound to that worker (StaticThreadSched).
    pub bound: bool,
    /// Whether packets enter it on one worker and leave it on another.
    pub crosses: bool,
    pub(crate) kinds: (Vec<&'static str>, Vec<&'static str>),
    pub(crate) counters: HashMap<&'static str, Vec<Counter>>,
}

impl ElementInfo {
    pub(crate) fn new(e: &lang::ElementDecl, class: &Class, sides: &crate::ports::Sides) -> Self {
        Self {
            name: e.name.clone(),
            class: class.name,
            config: e.config.clone(),
            n_inputs: sides.inputs.len(),
            n_outputs: sides.outputs.len(),
            kinds: crate::ports::words(class, sides),
            handlers: Arc::clone(&class.handlers),
            sharing: class.sharing,
            stats: Vec::new(),
            home: 0,
            bound: false,
            crosses: false,
            counters: HashMap::new(),
        }
    }
    /// The sum of what the workers count.
    #[must_use]
    pub fn totals(&self) -> StatsSnapshot {
        let mut sum = StatsSnapshot::default();
        self.stats.iter().for_each(|s| sum.merge(&s.snapshot()));
        sum
    }
}

/// A worker's mailbox and its thread.
type Member = (Arc<Mailbox>, Option<JoinHandle<()>>);

enum Team {
    Inline(Vec<Worker>),
    Threads(Vec<Member>),
}

/// A running (or startable) router.
pub struct Router {
    options: Options,
    registry: Arc<Registry>,
    load: LoadOptions,
    /// Sources beside the configuration itself: what the command line adds to every configuration.
    extra: Vec<Source>,
    hub: Arc<Hub>,
    clock: Clock,
    elements: Vec<ElementInfo>,
    by_name: Arc<HashMap<String, u32>>,
    store: Arc<SharedStore>,
    config: Config,
    warnings: Diagnostics,
    ports: Vec<(PortUse, Option<Arc<Lanes>>)>,
    chains: Vec<Vec<u32>>,
    team: Team,
    control: Vec<(String, Box<dyn ControlTask>)>,
    control_due: Vec<Option<u64>>,
    /// Grows with each hot swap.
    generation: u64,
    running: bool,
    exit: bool,
    answer_limit: Duration,
    /// Rounds that workers have been busy without simulated time moving.
    busy_rounds: u32,
}

impl Router {
    /// Makes a router from a configuration file and what the command line adds to it (and to each configuration that
    /// replaces it).
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(
        sources: &[Source],
        load: LoadOptions,
        registry: Arc<Registry>,
        options: Options,
    ) -> Result<Self, Diagnostics> {
        let config = lang::load(sources, &load, &*registry)?;
        let clock = if options.simulated_time { Clock::simulated() } else { Clock::real() };
        let (hub, inboxes) = Hub::new(options.workers.max(1));
        let hub = Arc::new(hub);
        let built = build(config, &registry, &options, &clock, &hub, None)?;
        let Built { replicas, elements, by_name, store, control, config, warnings, ports, chains } = built;
        let workers =
            replicas.into_iter().zip(inboxes).map(|((graph, core), inbox)| Worker::new(graph, core, inbox));
        let team = if options.threads {
            start_threads(workers, options.enter, |builder, body| builder.spawn(body)).map_err(|e| {
                let mut diags = Diagnostics::new();
                diags.error(None, e);
                diags
            })?
        } else {
            Team::Inline(workers.collect())
        };
        let control_due = vec![Some(0); control.len()];
        Ok(Self {
            options,
            registry,
            load,
            extra: sources.iter().skip(1).cloned().collect(),
            hub,
            clock,
            elements,
            by_name,
            store,
            config,
            warnings,
            ports,
            chains,
            team,
            control,
            control_due,
            generation: 0,
            running: false,
            exit: false,
            answer_limit: ANSWER_LIMIT,
            busy_rounds: 0,
        })
    }

    /// What the configuration deserves to be told, without being wrong.
    #[must_use]
    pub fn warnings(&self) -> &Diagnostics {
        &self.warnings
    }
    /// The chains of elements that are executed as one ([`Options::optimise`]): numbers of elements.
    #[must_use]
    pub fn chains(&self) -> &[Vec<u32>] {
        &self.chains
    }
    /// The configuration that runs.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }
    /// The elements in the order of declaration.
    #[must_use]
    pub fn elements(&self) -> &[ElementInfo] {
        &self.elements
    }
    /// What elements use which port and, when the ports are open, what each worker does there.
    #[must_use]
    pub fn ports(&self) -> &[(PortUse, Option<Arc<Lanes>>)] {
        &self.ports
    }
    /// The classes that configurations may use.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
    /// How the router runs.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }
    /// The router-wide state.
    #[must_use]
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }
    /// Now, in nanoseconds since the epoch, of the router's clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
    /// The text of the configuration that runs, as it was given.
    #[must_use]
    pub fn source_text(&self) -> String {
        if self.config.sources.is_empty() { String::new() } else { self.config.sources.text(0).to_string() }
    }
    /// A port's kind in the words of the `ports` handler: `push`, `pull`, with `~` if the element would do either.
    #[must_use]
    pub fn port_kind(&self, id: ElementId, input: bool, port: usize) -> &str {
        let (inputs, outputs) = &self.elements[id.0 as usize].kinds;
        (if input { inputs } else { outputs }).get(port).map_or("-", |k| k)
    }
    /// Finds an element by name, seen from the scope of the element `from` (empty: from outside).
    #[must_use]
    pub fn find(&self, from: &str, name: &str) -> Option<ElementId> {
        crate::graph::find_scoped(&self.by_name, from, name).map(ElementId)
    }
    /// How often the configuration has been replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// How long handler calls and hot swaps wait for a worker that does not come to the end of its vector; 10 s unless
    /// set.
    pub fn set_answer_limit(&mut self, limit: Duration) {
        self.answer_limit = limit;
    }

    /// State that an element shares with its replicas ([`crate::ConfigCx::shared`]).
    #[must_use]
    pub fn shared<S: Send + Sync + 'static>(&self, element: &str) -> Option<Arc<S>> {
        self.store.typed(element)
    }

    // ---- running ----

    /// Lets packets flow.
    pub fn start(&mut self) {
        self.set_running(true);
    }
    /// Holds packets; handlers go on working.
    pub fn pause(&mut self) {
        self.set_running(false);
    }
    fn set_running(&mut self, running: bool) {
        self.running = running;
        for worker in 0..self.options.workers.max(1) {
            // A worker that does not answer shows up in the next handler call; there is nobody to tell here.
            let _ = self.on_worker(worker, move |w| {
                w.running = running;
                w.busy();
            });
        }
    }
    /// Makes [`Router::drive`] return.
    pub fn exit(&mut self) {
        self.exit = true;
        self.hub.ring();
    }

    /// Runs until somebody stops the router: an element, a handler, a `DriverManager`, or `interrupted`.
    pub fn drive(&mut self, mut interrupted: impl FnMut() -> bool) {
        self.exit = false;
        self.start();
        while !self.exit && !interrupted() {
            self.turn();
        }
        self.pause();
    }

    /// One turn of the driver: due control tasks, a round of the workers if they have no threads, then rest until
    /// there is something to do.
    pub fn turn(&mut self) {
        let rest = self.step();
        if !rest.is_zero() {
            self.hub.wait(rest);
        }
    }

    /// A turn without the rest: returns how long it may be.
    pub(crate) fn step(&mut self) -> Duration {
        let mut more = false;
        for _ in 0..WRITES_PER_TURN {
            let write = self.hub.take_write();
            more = write.is_some();
            let Some(w) = write else { break };
            if let Err(e) = self.write(&w.handler, &w.value) {
                self.hub.chatter(&format!("{}: {e}", w.from));
            }
        }
        if more {
            self.hub.ring();
        }
        let mut control_wake = self.poll_control();
        if self.hub.is_rung() {
            // A control task has work for another one, which must not wait for the clock.
            control_wake = Some(self.clock.now_ns());
        }
        self.exit |= self.hub.failed();
        if self.exit {
            return Duration::ZERO;
        }
        if self.hub.stop_requests() > 0 && !self.control.iter().any(|(_, c)| c.manages_driver()) {
            while self.hub.take_stop() {}
            self.exit = true;
            return Duration::ZERO;
        }
        let mut limit = Duration::from_millis(100);
        if let Team::Inline(workers) = &mut self.team {
            let mut worked = false;
            for worker in &mut *workers {
                worker.core.rested();
                worked |= worker.step();
            }
            if worked {
                workers.iter_mut().for_each(Worker::busy);
                self.busy_rounds += 1;
                // A source cannot see that a queue is full which another worker empties: it is busy for ever, and must
                // not hold the clock. With one worker it can, and time stands still while there is work, as in Click.
                if self.clock.is_simulated() && workers.len() > 1 && self.busy_rounds >= BUSY_ROUNDS {
                    self.busy_rounds = 0;
                    let next = workers.iter().filter_map(Worker::next_wake).chain(control_wake).min();
                    next.into_iter().for_each(|at| self.clock.advance_to(at));
                }
                return Duration::ZERO;
            }
            self.busy_rounds = 0;
            if self.clock.is_simulated() {
                let now = self.clock.now_ns();
                // Somebody who polls waits for the time to pass, and must not miss what comes before the next timer.
                let poll = workers.iter().any(Worker::polls).then(|| now + LONGEST_NAP.as_nanos() as u64);
                let next = workers.iter().filter_map(Worker::next_wake).chain(control_wake).chain(poll).min();
                if let Some(at) = next {
                    self.clock.advance_to(at.max(now));
                    return Duration::ZERO;
                }
            }
            limit = workers.iter_mut().map(|w| w.idle(false)).min().unwrap_or(limit);
        }
        if let Some(at) = control_wake {
            limit = limit.min(Duration::from_nanos(at.saturating_sub(self.clock.now_ns())));
        }
        limit
    }

    /// Calls the control tasks that are due. Returns when the next one is.
    fn poll_control(&mut self) -> Option<u64> {
        let rung = self.hub.rang();
        let now = self.clock.now_ns();
        let mut index = 0;
        while index < self.control.len() && !self.exit {
            if rung || self.control_due[index].is_some_and(|at| at <= now) {
                let generation = self.generation;
                let (name, mut task) =
                    std::mem::replace(&mut self.control[index], (String::new(), Box::new(Nothing)));
                let due = task.poll(self);
                if self.generation != generation {
                    // The task replaced the configuration: its successor gets its state, and all start anew.
                    if let Some((_, new)) = self.control.iter_mut().find(|(n, _)| *n == name) {
                        new.take_over(task.as_any());
                    }
                    return Some(0);
                }
                self.control[index] = (name, task);
                self.control_due[index] = due;
            }
            index += 1;
        }
        self.control_due.iter().flatten().min().copied()
    }

    /// Runs `f` on a worker, between two vectors, and waits for the answer.
    ///
    /// # Errors
    /// The worker does not answer.
    pub(crate) fn on_worker<R: Send + 'static>(
        &mut self,
        worker: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, HandlerError> {
        match &mut self.team {
            Team::Inline(workers) => workers.get_mut(worker).map(f).ok_or(HandlerError::NoAnswer(worker)),
            Team::Threads(threads) => {
                let (mailbox, handle) = threads.get(worker).ok_or(HandlerError::NoAnswer(worker))?;
                if handle.as_ref().is_none_or(JoinHandle::is_finished) {
                    return Err(HandlerError::NoAnswer(worker));
                }
                let (reply, answer) = sync_channel(1);
                mailbox.post(Box::new(move |w| {
                    // The caller may have given up waiting.
                    let _ = reply.send(f(w));
                }));
                let asked = Instant::now();
                let mut late = false;
                let result = loop {
                    match answer.recv_timeout(LOOK) {
                        Ok(answer) => break Ok(answer),
                        // A worker that has failed leaves its mail unread.
                        Err(RecvTimeoutError::Timeout)
                            if asked.elapsed() < self.answer_limit
                                && !handle.as_ref().is_none_or(JoinHandle::is_finished) =>
                        {
                            late = true;
                            self.hub.set_waits_for(format!(
                                "worker {worker}, which is in the middle of a vector"
                            ));
                        }
                        Err(_) => break Err(HandlerError::NoAnswer(worker)),
                    }
                };
                if late {
                    self.hub.set_waits_for("");
                }
                result
            }
        }
    }

    /// Gives packets to an element of the first worker, as if they had been pushed to it.
    pub fn inject(&mut self, element: &str, port: usize, batch: dpdk::Batch) {
        if let Some(id) = self.find("", element) {
            // If the worker does not answer, the packets are freed with the closure.
            let _ = self.on_worker(0, move |w| w.core.inject(&w.graph, id.0, port, batch));
        }
    }

    // ---- handlers ----

    /// Splits `element.handler` and finds the element; without a dot it is a global handler.
    ///
    /// # Errors
    /// There is no such element.
    pub fn parse_handler(&self, from: &str, spec: &str) -> Result<(Option<ElementId>, String), HandlerError> {
        if crate::builtin::is_global(spec) {
            return Ok((None, spec.to_owned()));
        }
        if let Some((element, handler)) = spec.rsplit_once('.') {
            if element.is_empty() {
                return Ok((None, handler.to_owned()));
            }
            let id = self.find(from, element).ok_or_else(|| HandlerError::NoElement(element.to_owned()))?;
            return Ok((Some(id), handler.to_owned()));
        }
        if let Some(id) = self.find(from, spec) {
            return Ok((Some(id), String::new()));
        }
        Ok((None, spec.to_owned()))
    }

    /// Reads a handler, `element.handler` or a global one, with a parameter (usually empty).
    ///
    /// # Errors
    /// No such element or handler, it cannot be read, or it failed.
    pub fn read(&mut self, spec: &str, arg: &str) -> Result<String, HandlerError> {
        self.read_from("", spec, arg)
    }
    /// [`Router::read`] with names looked up from the scope of an element.
    ///
    /// # Errors
    /// As there.
    pub fn read_from(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        let (id, name) = self.parse_handler(from, spec)?;
        let Some(id) = id else { return crate::builtin::read_global(self, &name, arg) };
        let element = &self.elements[id.0 as usize];
        let Some(handler) = find(&element.handlers, &name, &self.store, &element.name).cloned() else {
            return crate::builtin::read_element(self, id, &name)
                .ok_or_else(|| HandlerError::NoHandler(spec.to_owned()))?;
        };
        match handler.reader {
            None => Err(HandlerError::NotReadable(spec.to_owned())),
            Some(Reader::Counter(_)) => {
                let counters = element.counters.get(handler.name).map_or(&[][..], |c| c);
                Ok(counters.iter().map(Counter::get).sum::<u64>().to_string())
            }
            Some(Reader::Shared(kind, f)) => {
                let state = self
                    .store
                    .get(&element.name, kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, arg).map_err(HandlerError::Failed)
            }
            Some(Reader::Called(kind, f)) => {
                let state = self
                    .store
                    .get(&element.name, kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, self, &Asked { name: &name, value: arg, write: false })
            }
            Some(Reader::Worker(f, combine)) => {
                let mut answers = Vec::new();
                for worker in self.homes(id) {
                    let (f, arg) = (Arc::clone(&f), arg.to_owned());
                    let answer = self.on_worker(worker, move |w| {
                        w.core.with_node(&w.graph, id.0, |node, cx| f(node.element(), &arg, cx))
                    })?;
                    answers.push(answer.unwrap_or_else(|| Err("busy".into())).map_err(HandlerError::Failed)?);
                    if combine == Combine::First {
                        break;
                    }
                }
                Ok(combined(combine, answers))
            }
        }
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// No such element or handler, it cannot be written, or it refused the value.
    pub fn write(&mut self, spec: &str, value: &str) -> Result<(), HandlerError> {
        self.write_from("", spec, value)
    }
    /// [`Router::write`] with names looked up from the scope of an element.
    ///
    /// # Errors
    /// As there.
    pub fn write_from(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        let (id, name) = self.parse_handler(from, spec)?;
        let Some(id) = id else { return crate::builtin::write_global(self, &name, value) };
        let element = &self.elements[id.0 as usize];
        let Some(handler) = find(&element.handlers, &name, &self.store, &element.name).cloned() else {
            return match crate::builtin::element_handler(&name) {
                true => Err(HandlerError::NotWritable(spec.to_owned())),
                false => Err(HandlerError::NoHandler(spec.to_owned())),
            };
        };
        match handler.writer {
            None => Err(HandlerError::NotWritable(spec.to_owned())),
            Some(Writer::Shared(kind, f)) => {
                let state = self
                    .store
                    .get(&element.name, kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                let done = f(&*state, value).map_err(HandlerError::Failed);
                self.hub.ring();
                done
            }
            Some(Writer::Called(kind, f)) => {
                let state = self
                    .store
                    .get(&element.name, kind)
                    .ok_or_else(|| HandlerError::Failed("no state".into()))?;
                f(&*state, self, &Asked { name: &name, value, write: true }).map(drop)
            }
            Some(Writer::Worker(f)) => {
                for worker in self.homes(id) {
                    let (f, value) = (Arc::clone(&f), value.to_owned());
                    self.on_worker(worker, move |w| {
                        w.core.with_node(&w.graph, id.0, |node, cx| f(node.element(), &value, cx))
                    })?
                    .unwrap_or_else(|| Err("busy".into()))
                    .map_err(HandlerError::Failed)?;
                }
                Ok(())
            }
        }
    }

    /// Whether a handler exists and can be read (or written).
    ///
    /// # Errors
    /// Why not.
    pub fn check_handler(&self, spec: &str, write: bool) -> Result<(), HandlerError> {
        self.look_up("", spec, write).map(drop)
    }

    /// What is known of a handler that is to be read (or written).
    ///
    /// # Errors
    /// No such element or handler, or it cannot be read (or written).
    pub fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<Known, HandlerError> {
        let (id, name) = self.parse_handler(from, spec)?;
        let Some(id) = id else {
            crate::builtin::check_global(&name, write)?;
            return Ok(Known { name, takes_parameter: false, private: false, secret: false });
        };
        let element = &self.elements[id.0 as usize];
        let full = format!("{}.{name}", element.name);
        match find(&element.handlers, &name, &self.store, &element.name) {
            Some(h) if write && !h.writable() => Err(HandlerError::NotWritable(spec.to_owned())),
            Some(h) if !write && !h.readable() => Err(HandlerError::NotReadable(spec.to_owned())),
            Some(h) => Ok(Known {
                name: full,
                takes_parameter: h.takes_parameter,
                private: h.private,
                secret: h.secret,
            }),
            None if crate::builtin::element_handler(&name) && !write => {
                Ok(Known { name: full, takes_parameter: false, private: false, secret: false })
            }
            None if crate::builtin::element_handler(&name) => Err(HandlerError::NotWritable(spec.to_owned())),
            None => Err(HandlerError::NoHandler(spec.to_owned())),
        }
    }

    /// State that elements share, for handlers whose names an element decides.
    pub(crate) fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The workers that have a replica of an element.
    fn homes(&self, id: ElementId) -> Vec<usize> {
        let element = &self.elements[id.0 as usize];
        match element.sharing {
            crate::Sharing::Single => vec![element.home],
            _ => (0..self.options.workers.max(1)).collect(),
        }
    }

    // ---- hot swap ----

    /// Replaces the configuration, between two vectors, on all workers at once. Elements of the same name and class keep
    /// their state. If the new configuration is wrong, or a worker does not come to the end of its vector, nothing
    /// changes. Packets in elements that are removed are counted ([`Hub::removed`]).
    ///
    /// # Errors
    /// Everything that is wrong with the new configuration; a worker that does not answer.
    pub fn hotswap(&mut self, source: Source) -> Result<(), Diagnostics> {
        let mut sources = vec![source];
        sources.extend(self.extra.iter().cloned());
        let config = lang::load(&sources, &self.load, &*self.registry)?;
        let old = Some((&self.elements[..], &*self.store));
        let built = build(config, &self.registry, &self.options, &self.clock, &self.hub, old)?;
        let old = match self.change_over(built.replicas) {
            Ok(old) => old,
            Err(e) => {
                let mut diags = Diagnostics::new();
                diags.error(None, format!("{e}: the running configuration goes on"));
                return Err(diags);
            }
        };
        self.take_apart(old);
        let before = std::mem::replace(&mut self.elements, built.elements);
        for e in
            before.iter().filter(|e| !self.elements.iter().any(|n| n.name == e.name && n.class == e.class))
        {
            // Its counts end with it; the packets stay in the books.
            e.totals().drops.iter().for_each(|(reason, n)| self.hub.count_removed(&e.name, reason, *n));
        }
        self.by_name = built.by_name;
        let store = std::mem::replace(&mut self.store, built.store);
        for (element, state) in Arc::into_inner(store).map(SharedStore::into_parts).unwrap_or_default() {
            self.count_removed(&element, state);
        }
        self.config = built.config;
        self.warnings = built.warnings;
        self.ports = built.ports;
        self.chains = built.chains;
        let mut old = std::mem::replace(&mut self.control, built.control);
        for (name, task) in &mut self.control {
            if let Some((_, old)) = old.iter_mut().find(|(n, _)| n == name) {
                task.take_over(old.as_any());
            }
        }
        self.control_due = vec![Some(0); self.control.len()];
        self.generation += 1;
        Ok(())
    }

    /// Gives every worker its new graph, or none of them: all stop between two vectors, deliver what they have handed to
    /// each other, change over one after the other, and go on together. Returns the old graphs.
    ///
    /// # Errors
    /// A worker does not come to the end of its vector in time. The new graphs are gone, the old ones run.
    fn change_over(&mut self, new: Vec<(Graph, Core)>) -> Result<Vec<(Graph, Core)>, HandlerError> {
        // While one worker is stuck the others need not stand still: all must answer before any is held.
        for worker in 0..new.len() {
            self.on_worker(worker, |_| ())?;
        }
        let hub = Arc::clone(&self.hub);
        let mut team = self.hold(self.answer_limit.min(HOLD_LIMIT))?;
        // What a worker delivers may be handed on to the next one; a path has an end, a loop between workers has none.
        for _ in 0..DELIVERY_ROUNDS {
            let mut any = false;
            for worker in 0..new.len() {
                any |= matches!(team.order(worker, Order::Deliver)?, Report::Delivered(true));
            }
            if !any {
                break;
            }
        }
        let mut old = Vec::with_capacity(new.len());
        for (worker, replica) in new.into_iter().enumerate() {
            match team.order(worker, Order::Swap(Box::new(replica))) {
                Ok(Report::Swapped(replica)) => old.push(*replica),
                Ok(_) => {}
                // Only a worker that fails in the middle of this does not answer, and that stops the router.
                Err(e) => hub.chatter(&e.to_string()),
            }
        }
        Ok(old)
    }

    /// Stops all workers between two vectors. They go on when what this returns is dropped.
    ///
    /// # Errors
    /// A worker is not ready in time; the others go on.
    fn hold(&mut self, limit: Duration) -> Result<Held<'_>, HandlerError> {
        let threads = match &mut self.team {
            Team::Inline(workers) => return Ok(Held::Inline(workers)),
            Team::Threads(threads) => threads,
        };
        let mut lines = Vec::with_capacity(threads.len());
        for (worker, (mailbox, handle)) in threads.iter().enumerate() {
            if handle.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(HandlerError::NoAnswer(worker));
            }
            let (orders, todo) = sync_channel(1);
            let (done, reports) = sync_channel(1);
            mailbox.post(Box::new(move |w| w.held(&todo, &done)));
            lines.push(Line { orders, reports });
        }
        let held = Held::Threads { lines, threads };
        let until = Instant::now() + limit;
        (0..held.len()).try_for_each(|worker| held.report(worker, Some(until)).map(drop))?;
        Ok(held)
    }

    /// Takes graphs apart that run no more, and counts the packets that were still in them.
    fn take_apart(&mut self, old: Vec<(Graph, Core)>) {
        for (graph, core) in old {
            self.count_removed("-", core);
            for slot in graph.slots {
                self.count_removed(&slot.name, slot.node);
            }
        }
    }

    /// Drops something that may hold packets of an element.
    fn count_removed<T>(&self, element: &str, what: T) {
        self.hub.count_removed(element, "removed by hot swap", dpdk::count_freed(|| drop(what)));
    }
}

/// The way to and from a held worker.
struct Line {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
}

/// All workers, standing still between two vectors.
enum Held<'a> {
    Inline(&'a mut Vec<Worker>),
    Threads { lines: Vec<Line>, threads: &'a [Member] },
}

impl Held<'_> {
    fn len(&self) -> usize {
        match self {
            Held::Inline(workers) => workers.len(),
            Held::Threads { lines, .. } => lines.len(),
        }
    }
    /// Has a worker do something.
    fn order(&mut self, worker: usize, order: Order) -> Result<Report, HandlerError> {
        if let Held::Inline(workers) = self {
            return workers.get_mut(worker).map(|w| w.obey(order)).ok_or(HandlerError::NoAnswer(worker));
        }
        if let Held::Threads { lines, .. } = self {
            let line = lines.get(worker).ok_or(HandlerError::NoAnswer(worker))?;
            line.orders.send(order).map_err(|_| HandlerError::NoAnswer(worker))?;
        }
        self.report(worker, None)
    }
    /// Waits for a worker's next report, until a time or as long as it lives.
    fn report(&self, worker: usize, until: Option<Instant>) -> Result<Report, HandlerError> {
        let missing = HandlerError::NoAnswer(worker);
        let Held::Threads { lines, threads } = self else { return Ok(Report::Ready) };
        let (Some(line), Some((_, handle))) = (lines.get(worker), threads.get(worker)) else {
            return Err(missing);
        };
        loop {
            let left = until.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()).min(LOOK));
            match line.reports.recv_timeout(left) {
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Timeout)
                    if until.is_none_or(|at| Instant::now() < at)
                        && !handle.as_ref().is_none_or(JoinHandle::is_finished) => {}
                Err(_) => return Err(missing),
            }
        }
    }
}

impl Caller for Router {
    fn read(&mut self, from: &str, spec: &str, arg: &str) -> Result<String, HandlerError> {
        self.read_from(from, spec, arg)
    }
    fn write(&mut self, from: &str, spec: &str, value: &str) -> Result<(), HandlerError> {
        self.write_from(from, spec, value)
    }
    fn look_up(&self, from: &str, spec: &str, write: bool) -> Result<Known, HandlerError> {
        Router::look_up(self, from, spec, write)
    }
    fn now_ns(&self) -> u64 {
        Router::now_ns(self)
    }
    fn hub(&self) -> &Arc<Hub> {
        Router::hub(self)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Team::Threads(threads) = &mut self.team {
            end_threads(threads, |worker| {
                self.hub.set_waits_for(format!("worker {worker} to end and its ports to close"));
            });
        }
    }
}

/// Stands in for a control task while it is being polled.
struct Nothing;

impl ControlTask for Nothing {
    fn poll(&mut self, _router: &mut Router) -> Option<u64> {
        None
    }
    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

type Spawn = fn(std::thread::Builder, Box<dyn FnOnce() + Send>) -> std::io::Result<JoinHandle<()>>;

/// Starts a thread for each worker, or none.
///
/// # Errors
/// One cannot be started: those that were end again.
fn start_threads(
    workers: impl Iterator<Item = Worker>,
    enter: Option<Enter>,
    spawn: Spawn,
) -> Result<Team, String> {
    let mut threads: Vec<Member> = Vec::new();
    for worker in workers {
        let mailbox = Arc::clone(&worker.mailbox);
        let id = worker.id();
        let body = move || {
            let _guard = enter.map(|f| f(id));
            let hub = Arc::clone(&worker.core.hub);
            // Elements do not panic; if one does all the same, the router stops and says so rather than hang.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.run())).is_err() {
                hub.fail(&format!("worker {} has failed", id.0));
            }
        };
        let builder = std::thread::Builder::new().name(format!("worker-{}", id.0));
        match spawn(builder, Box::new(body)) {
            Ok(handle) => threads.push((mailbox, Some(handle))),
            Err(e) => {
                end_threads(&mut threads, |_| {});
                return Err(format!("cannot start a thread for worker {}: {e}; start with fewer (-j)", id.0));
            }
        }
    }
    Ok(Team::Threads(threads))
}

/// Ends all workers; says which one is waited for.
fn end_threads(threads: &mut [Member], waits_for: impl Fn(usize)) {
    for (mailbox, _) in &*threads {
        mailbox.post(Box::new(|w| w.quit = true));
    }
    for (worker, (_, handle)) in threads.iter_mut().enumerate() {
        if let Some(handle) = handle.take() {
            waits_for(worker);
            // A worker that panicked has said so on standard error.
            let _ = handle.join();
        }
    }
}

fn combined(how: Combine, answers: Vec<String>) -> String {
    match how {
        Combine::First => answers.into_iter().next().unwrap_or_default(),
        Combine::Concat => answers.concat(),
        Combine::Sum => {
            let whole: Option<i128> = answers.iter().map(|a| a.trim().parse::<i128>().ok()).sum();
            whole.map(|n| n.to_string()).unwrap_or_else(|| {
                let sum: f64 = answers.iter().filter_map(|a| a.trim().parse::<f64>().ok()).sum();
                sum.to_string()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_are_held_go_on_when_one_does_not_come() {
        let options = Options { workers: 3, threads: true, ..Options::default() };
        let config = Source::new("test", "");
        let Ok(mut router) = Router::new(&[config], LoadOptions::default(), Arc::default(), options) else {
            panic!("an empty configuration is one");
        };
        let (release, wait) = sync_channel::<()>(0);
        let Team::Threads(threads) = &router.team else { panic!("threads") };
        threads[1].0.post(Box::new(move |_| assert!(wait.recv().is_err(), "ends when it is let go")));
        let held = router.hold(Duration::from_millis(50)).map(|_| ());
        assert_eq!(held.map_err(|e| e.to_string()), Err("worker 1 does not answer".to_owned()));
        for worker in [0, 2] {
            assert_eq!(router.on_worker(worker, move |w| w.id().0), Ok(worker), "goes on");
        }
        drop(release);
        assert_eq!(router.on_worker(1, |w| w.id().0), Ok(1), "is not held when it comes late");
        assert!(router.hold(Duration::from_secs(60)).is_ok_and(|held| held.len() == 3));
        assert_eq!(router.on_worker(1, |w| w.id().0), Ok(1));
    }

    #[test]
    fn all_threads_start_or_none() {
        let (hub, inboxes) = Hub::new(3);
        let hub = Arc::new(hub);
        let workers = inboxes.into_iter().enumerate().map(|(worker, inbox)| {
            let (clock, graph) = (Clock::simulated(), Graph::default());
            let core = Core::new(crate::WorkerId(worker), 0, clock, Arc::clone(&hub), 1);
            Worker::new(graph, core, inbox)
        });
        let spawn: Spawn = |builder, body| match format!("{builder:?}").contains("worker-1") {
            true => Err(std::io::ErrorKind::OutOfMemory.into()),
            false => builder.spawn(body),
        };
        let Err(text) = start_threads(workers, None, spawn) else { panic!("two of three have started") };
        assert!(text.contains("worker 1") && text.contains("-j"), "{text}");
    }

    #[test]
    fn answers_of_workers_become_one() {
        let answers = |a: &[&str]| a.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(combined(Combine::Sum, answers(&["1", "41\n"])), "42");
        assert_eq!(combined(Combine::Sum, answers(&["0.5", "1"])), "1.5");
        assert_eq!(combined(Combine::Concat, answers(&["a\n", "b\n"])), "a\nb\n");
        assert_eq!(combined(Combine::First, answers(&["7"])), "7");
    }
}
