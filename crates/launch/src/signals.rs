//! Signals that stop a router.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A second signal within this time counts as a duplicate of the first (shells and timeout(1) send signals to
/// the process and to its group).
const ECHO: Duration = Duration::from_millis(500);

/// Signals that stop the router. The first one shuts it down: ports are closed and handlers read; the second
/// one prints what the shutdown waits for, the third ends the process at once. Signals that an element
/// handles are ignored here.
pub struct StopSignals {
    wanted: Arc<AtomicBool>,
    /// The router, once there is one.
    hub: Arc<OnceLock<Arc<runtime::Hub>>>,
}

impl StopSignals {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Self {
        let this = Self { wanted: Arc::default(), hub: Arc::default() };
        // nohup(1) ignores SIGHUP on purpose.
        let kinds = runtime::STOP_SIGNALS
            .into_iter()
            .filter(|s| *s != signal_hook::consts::SIGHUP || !ignored(signal_hook::consts::SIGHUP));
        // If no handler can be installed, a signal ends the process, which is acceptable.
        if let Ok(mut signals) = signal_hook::iterator::Signals::new(kinds) {
            let (wanted, hub) = (Arc::clone(&this.wanted), Arc::clone(&this.hub));
            std::thread::spawn(move || {
                let (mut count, mut last) = (0, Instant::now());
                for signal in signals.forever() {
                    let hub = hub.get();
                    if hub.is_some_and(|h| h.signal_claimed(signal)) || (count > 0 && last.elapsed() < ECHO) {
                        continue;
                    }
                    (count, last) = (count + 1, Instant::now());
                    match count {
                        1 => {
                            wanted.store(true, Ordering::Relaxed);
                            hub.into_iter().for_each(|hub| hub.ring());
                        }
                        2 => {
                            let what = waits_for(hub);
                            // On a thread of its own: if nobody reads standard error, this one has to see the
                            // third signal all the same.
                            std::thread::spawn(move || {
                                tracing::info!(
                                    target: "router",
                                    "stopping: still waiting for {what}; a third signal ends the process at once"
                                );
                            });
                        }
                        _ => std::process::exit(128 + signal),
                    }
                }
            });
        }
        this
    }
    /// Signals stop this router from now on.
    pub fn steer(&self, hub: &Arc<runtime::Hub>) {
        // Set once: there is one router in a process.
        let _ = self.hub.set(Arc::clone(hub));
    }
    /// Whether the router is to stop.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// What the shutdown waits for.
fn waits_for(hub: Option<&Arc<runtime::Hub>>) -> String {
    match hub.map(|h| h.waits_for()) {
        None => "the configuration to be set up".to_owned(),
        Some(what) if what.is_empty() => "handlers to be read".to_owned(),
        Some(what) => what,
    }
}

/// Whether this process ignores a signal.
fn ignored(signal: i32) -> bool {
    // SigIgn is a mask in hexadecimal digits, the lowest bit for signal 1 (proc(5)).
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
