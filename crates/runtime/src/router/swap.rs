//! Hot swap: the running configuration is replaced by another one, on all workers at once or on none.

use super::Router;
use super::team::{LOOK, Member, Team};
use crate::ElementId;
use crate::build::{Moved, build};
use crate::cx::{Core, Graph};
use crate::element::Sharing;
use crate::handler::HandlerError;
use crate::handoff::Forwarder;
use crate::info::{ElementInfo, Loaded};
use crate::store::SharedStore;
use crate::worker::{Order, Report, Worker};
use lang::{Config, Diagnostics, Severity, Source};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tracing::Level;

/// How long the workers are stopped at most until the last of them is ready to switch to the new
/// configuration. All have answered just before, so this is long.
pub(super) const HOLD_LIMIT: Duration = Duration::from_secs(2);
/// How often the workers deliver packets to each other before they switch: more than the number of elements
/// with one instance on any usual path.
const DELIVERY_ROUNDS: usize = 64;

impl Router {
    /// Replaces the configuration, between two batches, on all workers at once. Elements of the same name and
    /// class keep their state. If the new configuration is wrong, or a worker does not finish its batch,
    /// nothing changes. Packets in elements that are removed are counted ([`crate::Hub::removed`]).
    ///
    /// # Errors
    /// All errors in the new configuration; or a worker that does not answer.
    pub fn hotswap(&mut self, source: Source) -> Result<(), Diagnostics> {
        // A program that needs too much memory is refused, and its workers go on meanwhile.
        let _building = accounts::inherit().build();
        let mut sources = vec![source];
        sources.extend(self.extra.iter().cloned());
        let config = lang::load(&sources, &self.load, &*self.registry)?;
        self.install(config, None)
    }

    /// Moves an element's task to another worker, by a hot swap of the same configuration in which elements
    /// go on as they are. Only those that have to know which workers packets pass them on (queues) are made
    /// anew and take over the state.
    ///
    /// # Errors
    /// There is no such worker, or one does not answer.
    pub(super) fn move_task(&mut self, id: ElementId, worker: &str) -> Result<(), HandlerError> {
        let failed = |message: &str| HandlerError::Failed(message.to_owned());
        let (element, workers) = (&self.loaded.elements[id.0 as usize], self.options.workers.max(1));
        let worker: usize = worker.trim().parse().map_err(|_| failed("bad thread"))?;
        if worker >= workers {
            return Err(failed("bad thread"));
        }
        if workers == 1 || (element.home == worker && (element.bound || element.sharing == Sharing::Single)) {
            return Ok(());
        }
        let mut moved = self.moved.clone();
        moved.insert(element.name.clone(), worker);
        let _building = accounts::inherit().build();
        let done = self.install(Config::clone(&self.loaded.config), Some(moved));
        done.map_err(|diags| {
            let errors = diags.iter().filter(|d| d.severity == Severity::Error);
            failed(&errors.map(|d| d.message.as_str()).collect::<Vec<_>>().join("\n"))
        })
    }

    /// Changes to a configuration; to the same one with elements on other workers if `moved` says so.
    fn install(&mut self, config: Config, moved: Option<Moved>) -> Result<(), Diagnostics> {
        let old = Some(&self.loaded);
        let built = build(config, &self.registry, &self.options, &self.clock, &self.hub, old, moved.as_ref())
            .map_err(|diags| explained(diags, dpdk::rights::given_up()))?;
        let new = built.loaded;
        let acts = built.acts.into_iter().map(|(element, act)| (new.elements[element].name.clone(), act));
        let acts: Vec<_> = acts.collect();
        let hub = Arc::clone(&self.hub);
        let act = move || {
            for (element, act) in acts {
                if let Err(message) = act() {
                    hub.log(Level::ERROR, &element, &format!("{element}: {message}"));
                }
            }
        };
        let kept = |slot: usize| built.replicas.iter().any(|(graph, _)| graph.slots[slot].kept);
        let moves = self.moves(&new, kept);
        let old = match self.change_over(built.replicas, &moves, act) {
            Ok(old) => old,
            Err(e) => {
                let mut diags = Diagnostics::new();
                diags.error(None, format!("{e}: the running configuration goes on"));
                return Err(diags);
            }
        };
        self.take_apart(old);
        let before = std::mem::replace(&mut self.loaded, new);
        let goes_on =
            |e: &ElementInfo| self.loaded.elements.iter().any(|n| n.name == e.name && n.class == e.class);
        for e in before.elements.iter().filter(|e| !goes_on(e)) {
            // Its counters end with it; the packets that it dropped remain counted.
            e.totals().drops.iter().for_each(|(reason, n)| self.hub.count_removed(&e.name, reason, *n));
        }
        for (element, state) in Arc::into_inner(before.store).map(SharedStore::into_parts).unwrap_or_default()
        {
            self.count_removed(&element, state);
        }
        self.describe();
        if let Some(moved) = moved {
            self.moved = moved;
            return Ok(());
        }
        self.moved.clear();
        let mut old = std::mem::replace(&mut self.control, built.control);
        for (name, task) in &mut self.control {
            if let Some((_, old)) = old.iter_mut().find(|(n, _)| n == name) {
                task.take_over(old.as_any());
            }
        }
        self.control_due = vec![Some(0); self.control.len()];
        self.control_stamp = vec![0; self.control.len()];
        self.generation += 1;
        self.hub.next_generation();
        Ok(())
    }

    /// Gives every worker its new graph, or none of them: all stop between two batches, deliver the packets
    /// that they have handed to each other, switch one after the other, and continue together; `act` is
    /// called when nothing can prevent that any more. Elements of `moves` get their state from another
    /// worker. Returns the old graphs.
    ///
    /// # Errors
    /// A worker does not finish its batch in time. The new graphs are dropped, and the old ones continue to
    /// run.
    fn change_over(
        &mut self,
        new: Vec<(Graph, Core)>,
        moves: &[Move],
        act: impl FnOnce(),
    ) -> Result<Vec<(Graph, Core)>, HandlerError> {
        // While one worker is stuck, the others need not stop: all must answer before any is stopped.
        for worker in 0..new.len() {
            self.on_worker(worker, |_| ())?;
        }
        let hub = Arc::clone(&self.hub);
        let mut team = self.hold(self.answer_limit.min(HOLD_LIMIT))?;
        // Packets that a worker delivers may be handed on to the next one; on a path this ends, in a loop
        // between workers it does not.
        for _ in 0..DELIVERY_ROUNDS {
            let mut any = false;
            for worker in 0..new.len() {
                any |= matches!(team.order(worker, Order::Deliver)?, Report::Delivered(true));
            }
            if !any {
                break;
            }
        }
        act();
        let mut old = Vec::with_capacity(new.len());
        for (worker, replica) in new.into_iter().enumerate() {
            match team.order(worker, Order::Swap(Box::new(replica))) {
                Ok(Report::Swapped(replica)) => old.push(*replica),
                Ok(_) => {}
                // Only a worker that fails during the switch does not answer, and that stops the router.
                Err(e) => hub.log(Level::ERROR, "", &e.to_string()),
            }
        }
        for each in moves {
            let Some((graph, core)) = old.get_mut(each.from) else { continue };
            let Some(&place) = graph.names.get(&each.element) else { continue };
            let empty = Box::new(Forwarder::new(&hub, &each.element, each.to));
            let node = graph.slots[place as usize].node.replace(empty);
            let order = match each.kept {
                true => Order::GoOn(each.slot, node, core.moment(graph, place)),
                false => Order::TakeState(each.slot, node),
            };
            match team.order(each.to, order) {
                Ok(Report::Replaced(Some(node))) => drop(graph.slots[place as usize].node.replace(node)),
                Ok(_) => {}
                Err(e) => hub.log(Level::ERROR, "", &e.to_string()),
            }
        }
        Ok(old)
    }

    /// The elements with one instance that a new configuration has on another worker.
    fn moves(&self, new: &Loaded, kept: impl Fn(usize) -> bool) -> Vec<Move> {
        let single = new.elements.iter().enumerate().filter(|(_, e)| e.sharing == Sharing::Single);
        single
            .filter_map(|(slot, element)| {
                let same = |e: &&ElementInfo| e.name == element.name && e.class == element.class;
                let before = self.loaded.elements.iter().find(same).filter(|e| e.home != element.home)?;
                let (element, to) = (element.name.clone(), element.home);
                Some(Move { element, slot: slot as u32, from: before.home, to, kept: kept(slot) })
            })
            .collect()
    }

    /// Stops all workers between two batches. They continue when the returned value is dropped.
    ///
    /// # Errors
    /// A worker is not ready in time; the others continue.
    pub(super) fn hold(&mut self, limit: Duration) -> Result<Held<'_>, HandlerError> {
        let threads = match &mut self.team {
            Team::Inline(workers) => return Ok(Held::Inline(workers)),
            Team::Threads(threads) => threads,
        };
        let mut lines = Vec::with_capacity(threads.len());
        for (worker, (mailbox, runner)) in threads.iter().enumerate() {
            if runner.has_ended(mailbox) {
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

    /// Drops graphs that no longer run, and counts the packets that were still in them.
    fn take_apart(&mut self, old: Vec<(Graph, Core)>) {
        for (graph, core) in old {
            self.count_removed("-", core);
            for slot in graph.slots {
                self.count_removed(&slot.name, slot.node);
            }
        }
    }

    /// Drops a value that may hold packets of an element.
    pub(super) fn count_removed<T>(&self, element: &str, what: T) {
        self.hub.count_removed(element, "removed by hot swap", dpdk::count_freed(|| drop(what)));
    }
}

/// An element with one instance that goes to another worker.
struct Move {
    element: String,
    /// Its place in the new graphs.
    slot: u32,
    from: usize,
    to: usize,
    /// Whether it goes on there as it is.
    kept: bool,
}

/// Explains why something that was allowed when the router started may be refused now.
fn explained(mut diags: Diagnostics, given_up: bool) -> Diagnostics {
    let refused = |m: &str| m.contains("Permission denied") || m.contains("Operation not permitted");
    if given_up && diags.iter().any(|d| refused(&d.message)) {
        diags.error(
            None,
            "the router has given up rights since its start: `valiant doctor` says as whom it runs and what it may; the directory of a file \
             must let that user in, and --keep-capability keeps more rights",
        );
    }
    diags
}

/// The channels to and from a stopped worker.
pub(super) struct Line {
    orders: SyncSender<Order>,
    reports: Receiver<Report>,
}

/// All workers, stopped between two batches.
pub(super) enum Held<'a> {
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
    /// Sends a request to a worker.
    pub(super) fn order(&mut self, worker: usize, order: Order) -> Result<Report, HandlerError> {
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
        let (Some(line), Some((mailbox, runner))) = (lines.get(worker), threads.get(worker)) else {
            return Err(missing);
        };
        loop {
            let left = until.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()).min(LOOK));
            match line.reports.recv_timeout(left) {
                Ok(report) => return Ok(report),
                Err(RecvTimeoutError::Timeout)
                    if until.is_none_or(|at| Instant::now() < at) && !runner.has_ended(mailbox) => {}
                Err(_) => return Err(missing),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use lang::LoadOptions;

    #[test]
    fn what_is_refused_for_want_of_rights_is_explained() {
        let hints = |message: &str, given_up| {
            let mut diags = Diagnostics::new();
            diags.error(None, message);
            explained(diags, given_up).iter().filter(|d| d.message.contains("given up rights")).count()
        };
        assert_eq!(hints("cannot listen: Permission denied (os error 13)", true), 1);
        assert_eq!(hints("setting its MTU: Operation not permitted", true), 1);
        assert_eq!(hints("x.pcap: Permission denied", false), 0);
        assert_eq!(hints("no element class 'Foo'", true), 0);
    }

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
}
