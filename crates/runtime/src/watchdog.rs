//! Checks that workers finish their batches, and reports the element in which one is stuck.
//!
//! A worker stores the number of the element that it enters ([`dpdk::crash::Seat`]) and counts its rounds; it
//! does not know about the watchdog. The watchdog counts its own checks and not time: so a process that was
//! stopped as a whole does not count as stuck.

use crate::hub::{Hub, Stuck};
use crate::worker::Mailbox;
use locks::IgnorePoison;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::Level;

/// The number of checks after which a worker counts as stuck.
const LOOKS: u32 = 10;

/// The state of one worker.
struct Watched {
    mailbox: Arc<Mailbox>,
    rounds: u64,
    /// Checks since its last round.
    looks: u32,
}

/// The thread that checks, until this is dropped.
pub(crate) struct Watchdog {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches these workers; one that makes no round in `limit` is stuck.
    pub(crate) fn start(hub: &Arc<Hub>, mailboxes: Vec<Arc<Mailbox>>, limit: Duration) -> Self {
        let hub = Arc::clone(hub);
        let period = (limit / LOOKS).max(Duration::from_millis(1));
        let (stop, stopped) = sync_channel(0);
        let mut watched: Vec<Watched> =
            mailboxes.into_iter().map(|mailbox| Watched { mailbox, rounds: 0, looks: 0 }).collect();
        let body = move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                for (worker, watched) in watched.iter_mut().enumerate() {
                    look(&hub, worker, watched, period);
                }
            }
        };
        // If the process can start no thread for this, the workers are not watched.
        let thread = std::thread::Builder::new().name("valiant-watchdog".to_owned()).spawn(body).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread may be waiting for standard error, which the stuck worker waits for too.
            if thread.is_finished() {
                let _ = thread.join();
            }
        }
    }
}

/// Checks one worker.
fn look(hub: &Hub, worker: usize, watched: &mut Watched, period: Duration) {
    let mailbox = &watched.mailbox;
    let rounds = mailbox.rounds.load(Ordering::Relaxed);
    if rounds != watched.rounds || rounds == 0 || mailbox.ended.load(Ordering::Relaxed) {
        let was = period * watched.looks;
        (watched.rounds, watched.looks) = (rounds, 0);
        let mut stuck = hub.stuck.lock().ignore_poison();
        let goes_on = stuck.iter().position(|s| s.worker == worker).map(|at| stuck.remove(at));
        drop(stuck);
        if let Some(before) = goes_on {
            let message =
                format!("worker {worker} continues after {}, last in {}", seconds(was), before.element);
            hub.log(Level::INFO, "", &message);
        }
        return;
    }
    watched.looks = watched.looks.saturating_add(1);
    if watched.looks < LOOKS {
        return;
    }
    let now = Stuck { worker, element: hub.element_of(mailbox), time: period * watched.looks };
    let text = format!(
        "worker {worker} is stuck: it has not finished a batch for {} and is in {}",
        seconds(now.time),
        now.element
    );
    let mut stuck = hub.stuck.lock().ignore_poison();
    match stuck.iter_mut().find(|s| s.worker == worker) {
        Some(known) => *known = now,
        None => stuck.push(now),
    }
    drop(stuck);
    // Reported again each time that the duration has doubled.
    if (watched.looks / LOOKS).is_power_of_two() && watched.looks.is_multiple_of(LOOKS) {
        hub.log(Level::ERROR, "", &text);
    }
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(2) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{} s", time.as_secs())
    }
}

impl Hub {
    /// The workers that do not finish their batches.
    #[must_use]
    pub fn stuck(&self) -> Vec<Stuck> {
        self.stuck.lock().ignore_poison().clone()
    }
    /// The names of the elements, in the order of their numbers.
    pub(crate) fn set_names(&self, names: Vec<String>) {
        *self.names.lock().ignore_poison() = names;
    }
    /// The element that a worker runs, or has run last.
    pub(crate) fn element_of(&self, mailbox: &Mailbox) -> String {
        let slot = mailbox.seat.get().and_then(|seat| seat.slot());
        let names = self.names.lock().ignore_poison();
        let name = slot.and_then(|slot| names.get(slot as usize));
        name.map_or_else(|| "no element".to_owned(), |name| format!("'{name}'"))
    }
}
