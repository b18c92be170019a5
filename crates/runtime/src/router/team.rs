//! The workers from the control thread's point of view: run by the thread that drives the router, or by
//! threads of their own.

use crate::crew::{Crew, Lodging, Usage};
use crate::handler::HandlerError;
use crate::hub::Hub;
use crate::options::ThreadSetup;
use crate::worker::{Mailbox, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a thread that waits for a worker checks whether the worker still runs.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What runs a worker.
pub(super) enum Runner {
    /// A thread of its own; `None` once that has been joined.
    Own(Option<JoinHandle<()>>),
    /// A thread that runs workers of many routers.
    Shared(Lodging),
}

impl Runner {
    /// Whether the worker has the thread for itself.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Runner::Own(_))
    }
    /// Whether the thread has ended, or the worker does not run any more.
    pub(super) fn has_ended(&self, mailbox: &Mailbox) -> bool {
        match self {
            Runner::Own(thread) => thread.as_ref().is_none_or(JoinHandle::is_finished),
            Runner::Shared(_) => mailbox.ended.load(Ordering::Relaxed),
        }
    }
}

/// A worker's mailbox and what runs it.
pub(super) type Member = (Arc<Mailbox>, Runner);

pub(super) type Spawn = fn(std::thread::Builder, Box<dyn FnOnce() + Send>) -> std::io::Result<JoinHandle<()>>;

pub(super) enum Team {
    Inline(Vec<Worker>),
    Threads(Vec<Member>),
}

impl Team {
    /// Runs `f` on a worker, between two batches, and waits for the answer, at most `limit`; if that takes
    /// long, the hub shows which worker is waited for.
    ///
    /// # Errors
    /// The worker does not answer.
    pub(super) fn on_worker<R: Send + 'static>(
        &mut self,
        worker: usize,
        limit: Duration,
        hub: &Hub,
        f: impl FnOnce(&mut Worker) -> R + Send + 'static,
    ) -> Result<R, HandlerError> {
        match self {
            Team::Inline(workers) => workers.get_mut(worker).map(f).ok_or(HandlerError::NoAnswer(worker)),
            Team::Threads(threads) => {
                let (mailbox, runner) = threads.get(worker).ok_or(HandlerError::NoAnswer(worker))?;
                if runner.has_ended(mailbox) {
                    return Err(HandlerError::NoAnswer(worker));
                }
                let (reply, answer) = sync_channel(1);
                mailbox.post(Box::new(move |w| {
                    // The caller may no longer be waiting.
                    let _ = reply.send(f(w));
                }));
                let asked = Instant::now();
                let mut late = false;
                let result = loop {
                    match answer.recv_timeout(LOOK) {
                        Ok(answer) => break Ok(answer),
                        // A worker that has failed does not read its messages.
                        Err(RecvTimeoutError::Timeout)
                            if asked.elapsed() < limit && !runner.has_ended(mailbox) =>
                        {
                            late = true;
                            hub.set_waits_for(format!(
                                "worker {worker}, which is in the middle of a batch, in {}",
                                hub.element_of(mailbox)
                            ));
                        }
                        Err(_) => break Err(HandlerError::NoAnswer(worker)),
                    }
                };
                if late {
                    hub.set_waits_for("");
                }
                result
            }
        }
    }

    /// Starts a thread for each worker, or none.
    ///
    /// # Errors
    /// A thread cannot be started; those that were started end again.
    pub(super) fn start(
        workers: impl Iterator<Item = Worker>,
        enter: Option<ThreadSetup>,
        spawn: Spawn,
    ) -> Result<Self, String> {
        let mut threads: Vec<Member> = Vec::new();
        for worker in workers {
            let mailbox = Arc::clone(&worker.mailbox);
            let own = Arc::clone(&mailbox);
            let id = worker.id();
            let body = move || {
                let _guard = enter.map(|f| f(id));
                let hub = Arc::clone(&worker.core.hub);
                // Elements do not panic; if one does nevertheless, the router stops and reports it, and does
                // not hang.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.run())).is_err() {
                    hub.fail(&format!("worker {} has failed", id.0));
                }
                own.ended.store(true, Ordering::Relaxed);
            };
            let builder = std::thread::Builder::new().name(format!("worker-{}", id.0));
            match spawn(builder, Box::new(body)) {
                Ok(handle) => threads.push((mailbox, Runner::Own(Some(handle)))),
                Err(e) => {
                    end_threads(&mut threads, |_| {});
                    return Err(format!(
                        "cannot start a thread for worker {}: {e}; start with fewer (-j)",
                        id.0
                    ));
                }
            }
        }
        Ok(Self::Threads(threads))
    }

    /// Has a crew's threads run the workers.
    pub(super) fn hosted(workers: Vec<Worker>, crew: &Crew, router: u32, share: u32) -> (Self, Arc<Usage>) {
        let mailboxes: Vec<_> = workers.iter().map(|worker| Arc::clone(&worker.mailbox)).collect();
        let (lodgings, usage) = crew.take_in(router, share, workers.into_iter());
        let runners = lodgings.into_iter().map(Runner::Shared);
        (Self::Threads(mailboxes.into_iter().zip(runners).collect()), usage)
    }

    /// Whether a crew's threads run the workers.
    pub(super) fn is_hosted(&self) -> bool {
        matches!(self, Self::Threads(threads) if threads.iter().any(|(_, runner)| !runner.is_own()))
    }

    /// The mailboxes of the workers that have threads.
    pub(super) fn mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        let members = if let Self::Threads(members) = self { &members[..] } else { &[] };
        members.iter().map(|(mailbox, _)| &**mailbox)
    }

    /// Ends all workers that have threads; shows which one is waited for.
    pub(super) fn end(&mut self, waits_for: impl Fn(usize)) {
        if let Self::Threads(threads) = self {
            end_threads(threads, waits_for);
        }
    }
}

/// Ends all workers; shows which one is waited for.
fn end_threads(threads: &mut [Member], waits_for: impl Fn(usize)) {
    for (mailbox, runner) in &*threads {
        if let Runner::Own(_) = runner {
            mailbox.post(Box::new(|w| w.quit = true));
        }
    }
    for (worker, (_, runner)) in threads.iter_mut().enumerate() {
        match runner {
            Runner::Own(handle) => {
                if let Some(handle) = handle.take() {
                    waits_for(worker);
                    // A worker that panicked has printed so on standard error.
                    let _ = handle.join();
                }
            }
            Runner::Shared(lodging) => {
                waits_for(worker);
                // Its elements are dropped here, so that other routers do not wait for that.
                drop(lodging.take_back());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::cx::{Core, Graph};

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
        let Err(text) = Team::start(workers, None, spawn) else { panic!("two of three have started") };
        assert!(text.contains("worker 1") && text.contains("-j"), "{text}");
    }
}
