//! Runs of routers that hold up the others of a crew's thread for too long: found, and reported to the
//! router's owner and to the host.

use crate::hub::Hub;
use crate::worker::Mailbox;
use locks::IgnorePoison;
use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::Level;

/// The number of a router that is none.
pub(crate) const NOBODY: u32 = u32::MAX;

/// The number of checks after which a run has taken too long.
const LOOKS: u32 = 10;

/// What a router's runs have done that did not end in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// How many there were.
    pub times: u64,
    /// For how long the longest held up its thread.
    pub longest: Duration,
    /// The element of the last one, with its class.
    pub element: Option<String>,
}

/// A router on the threads of a crew.
pub(crate) struct Watched {
    pub(crate) hub: Weak<Hub>,
    /// Its workers', by their numbers.
    pub(crate) mailboxes: Vec<Weak<Mailbox>>,
    pub(crate) stall: Arc<Mutex<Stall>>,
}

/// What was seen of a thread.
#[derive(Default)]
struct Seen {
    /// The number of its round, and the router that ran.
    last: Option<(u64, u32)>,
    /// Checks since that began.
    looks: u32,
}

impl Seen {
    /// For how many checks a router has run, if that is too many.
    fn look(&mut self, now: (u64, u32)) -> Option<u32> {
        if self.last != Some(now) || now.1 == NOBODY {
            (self.last, self.looks) = (Some(now), 0);
            return None;
        }
        self.looks = self.looks.saturating_add(1);
        (self.looks >= LOOKS).then_some(self.looks)
    }
}

/// The thread that checks, until this is dropped. It counts its own checks and not time: so a process that
/// was stopped as a whole does not count.
pub(crate) struct Watchdog {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches threads: `look` says the round of one, and the router that it runs. `None` if the process can
    /// start no thread for this.
    pub(crate) fn start(
        threads: usize,
        look: impl Fn(usize) -> Option<(u64, u32)> + Send + 'static,
        routers: Arc<Mutex<HashMap<u32, Watched>>>,
        limit: Duration,
    ) -> Option<Self> {
        let period = (limit / LOOKS).max(Duration::from_millis(1));
        let (stop, stopped) = sync_channel(0);
        let mut seen: Vec<Seen> = (0..threads).map(|_| Seen::default()).collect();
        let body = move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                for (thread, seen) in seen.iter_mut().enumerate() {
                    let Some(now) = look(thread) else { continue };
                    if let Some(looks) = seen.look(now)
                        && let Some(router) = routers.lock().ignore_poison().get(&now.1)
                    {
                        report(router, thread, looks, period);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("valiant-watchdog".to_owned()).spawn(body).ok()?;
        Some(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread may be waiting for standard error, which a stuck thread waits for too.
        let ended = self.thread.take().filter(JoinHandle::is_finished);
        ended.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// A router has run for so many checks without an end.
fn report(router: &Watched, thread: usize, looks: u32, period: Duration) {
    let Some(hub) = router.hub.upgrade() else { return };
    let mailbox = router.mailboxes.get(thread).and_then(Weak::upgrade);
    let element = mailbox.map_or_else(|| "no element".to_owned(), |mailbox| hub.element_of(&mailbox));
    let time = period * looks;
    {
        let mut stall = router.stall.lock().ignore_poison();
        stall.times += u64::from(looks == LOOKS);
        stall.longest = stall.longest.max(time);
        stall.element = Some(element.clone());
    }
    // Reported again each time that the duration has doubled.
    if (looks / LOOKS).is_power_of_two() && looks.is_multiple_of(LOOKS) {
        let name = &hub.bounds().router;
        let message = format!(
            "router '{name}' holds worker {thread} for {} ms, and with it the others there, in {element}; \
             scheme = \"direct\" gives it a process of its own",
            time.as_millis()
        );
        hub.log(Level::ERROR, "", &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_does_not_end_is_found() {
        let mut seen = Seen::default();
        let looks =
            |seen: &mut Seen, round, router| (0..LOOKS).filter_map(|_| seen.look((round, router))).last();
        assert_eq!(looks(&mut seen, 1, 4), None);
        assert_eq!(seen.look((1, 4)), Some(LOOKS));
        assert_eq!(seen.look((1, 4)), Some(LOOKS + 1));
        // The next router, the next round, and no router.
        assert_eq!(looks(&mut seen, 1, 5), None);
        assert_eq!(looks(&mut seen, 2, 5), None);
        assert_eq!((looks(&mut seen, 2, NOBODY), looks(&mut seen, 2, NOBODY)), (None, None));
    }
}
