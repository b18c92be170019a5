//! A router as the control thread sees it: made, started, queried, changed, stopped.

mod builtin;
mod handlers;
mod load;
mod remake;
mod swap;
mod team;
mod trace;

use crate::ElementId;
use crate::build::{Moved, build};
use crate::class::Registry;
use crate::clock::{Clock, STAMPS};
use crate::control::{Control, ControlTask};
use crate::crew::{Crew, Usage};
use crate::handler::HandlerError;
use crate::hub::Hub;
use crate::info::{ElementInfo, Loaded};
use crate::limits::Limits;
use crate::options::Options;
use crate::placement::{Lanes, PortUse};
use crate::secrets::without_secrets;
use crate::store::find_scoped;
use crate::watchdog::Watchdog;
use crate::worker::{LONGEST_NAP, Wait, Worker};
use lang::{Config, Diagnostic, Diagnostics, LoadOptions, Source};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use team::Team;

/// How long a handler call waits for a worker unless [`Router::set_answer_limit`] says otherwise.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Handler calls of elements that are performed between two rounds of control tasks.
const WRITES_PER_TURN: usize = 64;
/// How often tasks run before timers, and simulated time, have their turn although there are still tasks: as
/// often as in Click, whose driver runs up to 129 tasks in each of the 32 rounds before that.
const TASKS_FIRST: u64 = 32 * 129;
/// In simulated time, how long a run of a task takes for which there would otherwise be no end. As with
/// Click, where each look at the clock takes as long.
const RUN_NS: u64 = 1000;
/// With several workers, the rounds for which some of them may be busy before simulated time advances
/// nevertheless.
const BUSY_ROUNDS: u32 = 8;

/// A running (or startable) router.
pub struct Router {
    options: Options,
    registry: Arc<Registry>,
    load: LoadOptions,
    /// Additional sources: text that the command line adds to every configuration.
    extra: Vec<Source>,
    hub: Arc<Hub>,
    clock: Clock,
    loaded: Loaded,
    team: Team,
    control: Vec<(String, Box<dyn ControlTask>)>,
    control_due: Vec<Option<u64>>,
    /// For each, what decides between it and timers that are due at the same simulated time.
    control_stamp: Vec<u64>,
    /// Whether control tasks that wait for a time may go on now.
    timers: bool,
    /// Runs of tasks, of all workers without threads, when timers last had their turn; none: they have not
    /// had one.
    turned: Option<u64>,
    /// Grows with each hot swap.
    generation: u64,
    moved: Moved,
    running: bool,
    exit: bool,
    answer_limit: Duration,
    /// Rounds that workers have been busy without simulated time moving.
    busy_rounds: u32,
    watchdog: Option<Watchdog>,
}

impl Router {
    /// Makes a router from a configuration file and what the command line adds to it (and to each
    /// configuration that replaces it).
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn new(
        sources: &[Source],
        load: LoadOptions,
        registry: Arc<Registry>,
        options: Options,
    ) -> Result<Self, Diagnostics> {
        let (threads, enter) = (options.threads, options.enter);
        Self::with_team(sources, load, registry, options, |workers| {
            if threads {
                Team::start(workers.into_iter(), enter, |builder, body| builder.spawn(body))
            } else {
                Ok(Team::Inline(workers))
            }
        })
    }

    /// Makes a router whose workers run on the threads of a crew, one on each, beside those of others.
    /// `number` is the one by which the threads' [`crate::Front`]s know it; `share` is its share of the
    /// threads' time in proportion to those of others. Also returns what the router uses.
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn hosted(
        sources: &[Source],
        load: LoadOptions,
        registry: Arc<Registry>,
        options: Options,
        (crew, number, share): (&Crew, u32, u32),
    ) -> Result<(Self, Arc<Usage>), Diagnostics> {
        let mut usage = Arc::default();
        let options = Options { workers: crew.threads(), threads: true, simulated_time: false, ..options };
        let this = Self::with_team(sources, load, registry, options, |workers| {
            let (team, used) = Team::hosted(workers, crew, number, share);
            usage = used;
            Ok(team)
        })?;
        Ok((this, usage))
    }

    fn with_team(
        sources: &[Source],
        load: LoadOptions,
        registry: Arc<Registry>,
        options: Options,
        start: impl FnOnce(Vec<Worker>) -> Result<Team, String>,
    ) -> Result<Self, Diagnostics> {
        let config = lang::load(sources, &load, &*registry)?;
        let clock = match options.simulated_time {
            true => Clock::simulated_from(options.simulation_start_ns),
            false => Clock::real(),
        };
        let (hub, inboxes) = Hub::new(options.workers.max(1));
        hub.limit(&options.limits);
        if options.click {
            hub.set_quiet_calls();
        }
        let hub = Arc::new(hub);
        let built = build(config, &registry, &options, &clock, &hub, None, None)?;
        let loaded = built.loaded;
        let mut diags = Diagnostics::new();
        diags.set_sources(loaded.config.sources.clone());
        diags.prepend(loaded.config.warnings.iter().chain(&loaded.warnings).cloned());
        for (element, act) in built.acts.into_iter().filter(|_| !options.check_only) {
            if let Err(message) = act() {
                let element = &loaded.config.elements[element];
                diags.push(
                    Diagnostic::error(element.span, message).with_landmark(element.while_initializing()),
                );
                diags.set_parsed();
                return Err(diags);
            }
        }
        let replicas = built.replicas.into_iter().zip(inboxes);
        let idle = options.idle;
        let workers = replicas.map(|((graph, core), inbox)| Worker::new(graph, core, inbox).when_idle(idle));
        let team = start(workers.collect()).map_err(|e| {
            let mut diags = Diagnostics::new();
            diags.error(None, e);
            diags
        })?;
        let watchdog = match (&team, options.watchdog) {
            (Team::Threads(threads), Some(limit)) if threads.iter().all(|(_, runner)| runner.is_own()) => {
                let mailboxes = threads.iter().map(|(mailbox, _)| Arc::clone(mailbox)).collect();
                Some(Watchdog::start(&hub, mailboxes, limit))
            }
            _ => None,
        };
        let control_due = vec![Some(0); built.control.len()];
        let control_stamp = vec![0; built.control.len()];
        let this = Self {
            options,
            registry,
            load,
            extra: sources.iter().skip(1).cloned().collect(),
            hub,
            clock,
            loaded,
            team,
            control: built.control,
            control_due,
            control_stamp,
            timers: true,
            turned: None,
            generation: 0,
            moved: Moved::default(),
            running: false,
            exit: false,
            answer_limit: ANSWER_LIMIT,
            busy_rounds: 0,
            watchdog,
        };
        this.describe();
        Ok(this)
    }

    /// Gives the names of all elements to the watchdog and the crash reports.
    fn describe(&self) {
        let names: Vec<String> =
            self.loaded.elements.iter().map(|e| format!("{} :: {}", e.name, e.class)).collect();
        // A crash report shows one configuration: of many routers in a process, none, rather than the wrong
        // one.
        if dpdk::crash::installed() && !self.team.is_hosted() {
            let text = without_secrets(&self.loaded.config.unparse());
            dpdk::crash::describe(&text, names.iter().map(String::as_str));
        }
        self.hub.set_names(names);
    }

    /// Leaves the warnings about a configuration that has just taken over to whoever has written it.
    fn warn_caller_of_swap(&self) {
        let mut said = Diagnostics::new();
        said.set_sources(self.loaded.config.sources.clone());
        said.prepend(self.loaded.config.warnings.iter().chain(&self.loaded.warnings).cloned());
        self.hub.warn_caller(said.render_plain(said.sources()).lines().map(str::to_owned));
    }
    /// Warnings about the configuration.
    #[must_use]
    pub fn warnings(&self) -> &Diagnostics {
        &self.loaded.warnings
    }
    /// A warning if elements may hold more packets than there are buffers; not under the name `click`, as
    /// Click has no pools.
    #[must_use]
    pub fn shortage(&self) -> &Diagnostics {
        &self.loaded.shortage
    }
    /// The configuration that runs.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }
    /// The elements in the order of declaration.
    #[must_use]
    pub fn elements(&self) -> &[ElementInfo] {
        &self.loaded.elements
    }
    /// What elements use which port and, when the ports are open, what each worker does there.
    #[must_use]
    pub fn ports(&self) -> &[(PortUse, Option<Arc<Lanes>>)] {
        &self.loaded.ports
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
        if self.loaded.config.sources.is_empty() {
            String::new()
        } else {
            self.loaded.config.sources.text(0).to_string()
        }
    }
    /// A port's kind in the words of the `ports` handler: `push`, `pull`, with `~` if the element would do
    /// either.
    #[must_use]
    pub fn port_kind(&self, id: ElementId, input: bool, port: usize) -> &str {
        let (inputs, outputs) = &self.loaded.elements[id.0 as usize].kinds;
        (if input { inputs } else { outputs }).get(port).map_or("-", |k| k)
    }
    /// Finds an element by name, seen from the scope of the element `from` (empty: from outside).
    #[must_use]
    pub fn find(&self, from: &str, name: &str) -> Option<ElementId> {
        find_scoped(&self.loaded.by_name, from, name).map(ElementId)
    }
    /// How often the configuration has been replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
    /// How long handler calls and hot swaps wait for a worker that does not finish its batch; 10 s unless
    /// set.
    pub fn set_answer_limit(&mut self, limit: Duration) {
        self.answer_limit = limit;
    }

    /// State that an element shares with its replicas ([`crate::ConfigCx::shared`]).
    #[must_use]
    pub fn shared<S: Send + Sync + 'static>(&self, element: &str) -> Option<Arc<S>> {
        self.loaded.store.typed(element)
    }

    // ---- running ----

    /// Lets packets flow.
    pub fn start(&mut self) {
        self.set_running(true);
    }
    /// Holds packets; handlers still work.
    pub fn pause(&mut self) {
        self.set_running(false);
    }
    fn set_running(&mut self, running: bool) {
        self.running = running;
        for worker in 0..self.options.workers.max(1) {
            // A worker that does not answer is reported by the next handler call; there is no caller to
            // report it to here.
            let _ = self.on_worker(worker, move |w| {
                w.running = running;
                w.busy();
            });
        }
    }
    /// Changes the most that the router may have, while it runs; what it has stays. The limit of buffers is
    /// for the next program.
    pub fn set_limits(&mut self, limits: Limits) {
        self.hub.bounds().set(&limits);
        self.hub.set_allow(&limits);
        self.options.limits = limits;
    }
    /// Makes [`Router::drive`] return.
    pub fn exit(&mut self) {
        self.exit = true;
        self.hub.ring();
    }

    /// Runs until the router is stopped: by an element, a handler, a `DriverManager`, or `interrupted`.
    pub fn drive(&mut self, mut interrupted: impl FnMut() -> bool) {
        self.exit = false;
        self.start();
        while !self.exit && !interrupted() {
            self.turn();
        }
        self.wind_up();
    }

    /// Holds packets, and has the elements do what they do when a router has stopped.
    pub fn wind_up(&mut self) {
        self.pause();
        for worker in 0..self.options.workers.max(1) {
            // A worker that does not answer has nothing to finish.
            let _ = self.on_worker(worker, Worker::finish);
        }
    }

    /// Whether an element, a handler or a control task has asked the router to stop.
    #[must_use]
    pub fn wants_to_end(&self) -> bool {
        self.exit
    }

    /// One round of the driver: due control tasks, a round of the workers if they have no threads, then a
    /// sleep until there is work.
    pub fn turn(&mut self) {
        let rest = self.step();
        if !rest.is_zero() {
            self.hub.wait(rest);
        }
    }

    /// A round without the sleep, for who drives several routers: returns how long the sleep may be.
    pub fn step(&mut self) -> Duration {
        let mut more = false;
        for _ in 0..WRITES_PER_TURN {
            let write = self.hub.take_write();
            more = write.is_some();
            let Some(w) = write else { break };
            if let Err(e) = self.write(&w.handler, &w.value) {
                self.hub.call_failed(&w.from, &e);
            }
        }
        if more {
            self.hub.ring();
        }
        let inline = matches!(self.team, Team::Inline(_));
        let simulated = self.clock.is_simulated();
        // Timers come after tasks, and at first after as many as in Click.
        self.timers = !inline || (!simulated && self.turned.is_some());
        let mut control_wake = self.poll_control();
        if self.hub.is_rung() {
            // A control task has work for another one, which must run at once, whatever the clock.
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
                worked |= if simulated { worker.tasks(0, u64::MAX) } else { worker.step() };
            }
            if self.hub.stop_requests() > 0 {
                return Duration::ZERO;
            }
            let runs = workers.iter().map(|w| w.runs).sum::<u64>();
            let first = self.turned.is_none();
            let ever = worked && runs - self.turned.unwrap_or(0) >= TASKS_FIRST;
            if !worked || ever {
                self.turned = Some(runs);
            }
            if worked {
                workers.iter_mut().for_each(Worker::busy);
                self.busy_rounds += 1;
                // A source that feeds a queue which another worker empties cannot see that the queue is full:
                // it is always busy, and must not stop the clock.
                let through = simulated && workers.len() > 1 && self.busy_rounds >= BUSY_ROUNDS;
                if simulated && (ever || through) {
                    let limit = (!through).then(|| self.clock.now_ns() + TASKS_FIRST * RUN_NS);
                    self.busy_rounds = 0;
                    self.next_timer(limit);
                }
                return Duration::ZERO;
            }
            self.busy_rounds = 0;
            if simulated {
                // A polling task waits for the time to pass, and must not miss packets that arrive before the
                // next timer.
                let polls = workers.iter().any(Worker::polls);
                let limit = polls.then(|| self.clock.now_ns() + LONGEST_NAP.as_nanos() as u64);
                if self.hub.is_rung() || self.next_timer(limit) {
                    return Duration::ZERO;
                }
                return Duration::from_millis(100);
            }
            if first {
                // Control tasks have waited for it.
                return Duration::ZERO;
            }
            let polls = workers.iter().any(Worker::polls);
            if !polls && self.clock.skips() {
                let timers = workers.iter().filter_map(Worker::next_wake);
                if let Some(at) = timers.chain(control_wake).min() {
                    return self.clock.wait_for(at, true);
                }
            }
            limit = workers.iter_mut().map(|w| w.rest(Wait::Look)).min().unwrap_or(limit);
        }
        if let Some(at) = control_wake {
            limit = limit.min(self.clock.wait_for(at, !inline));
        }
        limit
    }

    /// Moves simulated time to the timer or control task that is due next, at most to `limit`, and runs it.
    /// One at a time, as tasks that it wakes run before the next. Returns whether there is anything to come.
    fn next_timer(&mut self, limit: Option<u64>) -> bool {
        if self.control.iter().any(|(_, task)| task.signaled()) {
            self.poll_signaled();
            return true;
        }
        let Team::Inline(workers) = &mut self.team else { return false };
        let timers = workers.iter().enumerate().filter_map(|(n, w)| Some((w.next_timer()?, n)));
        let timer = timers.min();
        let dues = self.control_due.iter().zip(&self.control_stamp).enumerate();
        let task = dues.filter_map(|(n, (due, stamp))| Some((((*due)?, *stamp), n))).min();
        let next = timer.iter().chain(&task).map(|(at, _)| *at).min();
        let now = self.clock.now_ns();
        let Some((at, stamp)) = next.filter(|(at, _)| limit.is_none_or(|limit| *at <= limit)) else {
            limit.iter().for_each(|limit| self.clock.advance_to(*limit));
            return limit.is_some();
        };
        self.clock.advance(at.max(now), stamp);
        // Click's driver looks at the clock, too.
        self.clock.stamp();
        match (timer, task) {
            (Some((first, worker)), _) if first == (at, stamp) => {
                let now = self.clock.now_ns();
                if let Some(worker) = workers.get_mut(worker) {
                    worker.core.rested();
                    worker.timer(now);
                }
            }
            (_, Some((_, index))) => {
                self.timers = true;
                self.poll_one(index);
            }
            _ => {}
        }
        true
    }

    /// Calls a control task. Returns false if it has replaced the configuration.
    fn poll_one(&mut self, index: usize) -> bool {
        let generation = self.generation;
        let (name, mut task) =
            std::mem::replace(&mut self.control[index], (String::new(), Box::new(Nothing)));
        let due = task.poll(self);
        if self.generation != generation {
            // The task replaced the configuration: its successor gets its state, and all tasks are started
            // again.
            if let Some((_, new)) = self.control.iter_mut().find(|(n, _)| *n == name) {
                new.take_over(task.as_any());
            }
            return false;
        }
        if due.is_some() && due != self.control_due[index] {
            // The first time, as if it had been set when elements were initialized.
            let element = self.find("", &name).filter(|_| self.control_due[index] == Some(0));
            self.control_stamp[index] = match element.filter(|_| self.generation == 0) {
                Some(element) => u64::from(element.0) * STAMPS,
                None => self.clock.stamp(),
            };
        }
        self.control[index] = (name, task);
        self.control_due[index] = due;
        true
    }

    /// Calls the control tasks that handle a signal that has come. Returns false if one has replaced the
    /// configuration.
    fn poll_signaled(&mut self) -> bool {
        (0..self.control.len()).all(|index| {
            let signaled = !self.exit && self.control.get(index).is_some_and(|(_, task)| task.signaled());
            !signaled || self.poll_one(index)
        })
    }

    /// Calls the control tasks that are due. Returns when the next one is.
    fn poll_control(&mut self) -> Option<u64> {
        let rung = self.hub.rang();
        if !self.poll_signaled() {
            return Some(0);
        }
        let now = self.clock.now_ns();
        let mut index = 0;
        while index < self.control.len() && !self.exit {
            let due = rung || self.control_due[index].is_some_and(|at| at <= now);
            if due && !self.poll_one(index) {
                return Some(0);
            }
            index += 1;
        }
        self.control_due.iter().flatten().min().copied()
    }

    /// Runs `f` on a worker, between two batches, and waits for the answer.
    ///
    /// # Errors
    /// The worker does not answer.
    pub(crate) fn on_worker<R: Send + 'static>(
        &mut self,
        worker: usize,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, HandlerError> {
        self.team.on_worker(worker, self.answer_limit, &self.hub, f)
    }

    /// Gives packets to an element of the first worker, as if they had been pushed to it.
    pub fn inject(&mut self, element: &str, port: usize, batch: dpdk::Batch) {
        if let Some(id) = self.find("", element) {
            // If the worker does not answer, the packets are freed with the closure.
            let _ = self.on_worker(0, move |w| w.core.inject(&w.graph, id.0, port, batch));
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.watchdog = None;
        self.team.end(|worker| {
            self.hub.set_waits_for(format!("worker {worker} to end and its ports to close"));
        });
    }
}

/// Takes the place of a control task while it is being polled.
struct Nothing;

impl ControlTask for Nothing {
    fn poll(&mut self, _router: &mut dyn Control) -> Option<u64> {
        None
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
