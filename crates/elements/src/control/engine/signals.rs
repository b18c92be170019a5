//! Signals of the process, for scripts.

use runtime::Hub;
use signal_hook::{SigId, flag, low_level};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Watches signals until it is dropped.
pub(crate) struct Watch {
    came: Arc<AtomicBool>,
    /// Whether the signals have their usual effect again.
    disarmed: Arc<AtomicBool>,
    ids: Vec<SigId>,
    /// The signals, while they are claimed.
    claimed: Vec<i32>,
    signals: Vec<i32>,
    hub: Arc<Hub>,
}

impl Watch {
    /// Checks whether these signals can be watched.
    ///
    /// # Errors
    /// One of them cannot be handled by any process.
    pub(crate) fn allows(signals: &[i32]) -> Result<(), String> {
        let bad = signals.iter().any(|signo| signal_hook::consts::FORBIDDEN.contains(signo));
        if bad { Err("bad signal number".into()) } else { Ok(()) }
    }

    /// Watches these signals; one that arrives wakes the control thread.
    ///
    /// # Errors
    /// A signal cannot be watched.
    pub(crate) fn new(signals: &[i32], hub: &Arc<Hub>) -> Result<Self, String> {
        let mut watch = Self {
            came: Arc::default(),
            disarmed: Arc::default(),
            ids: Vec::new(),
            claimed: Vec::new(),
            signals: signals.to_vec(),
            hub: Arc::clone(hub),
        };
        let (mut woken, waker) = UnixStream::pair().map_err(|e| e.to_string())?;
        for &signo in signals {
            let mut register = || -> std::io::Result<()> {
                // Signals that stop the router belong to the driver unless a script claims them.
                if !runtime::STOP_SIGNALS.contains(&signo) {
                    let disarmed = Arc::clone(&watch.disarmed);
                    watch.ids.push(flag::register_conditional_default(signo, disarmed)?);
                }
                watch.ids.push(flag::register(signo, Arc::clone(&watch.came))?);
                watch.ids.push(low_level::pipe::register(signo, waker.try_clone()?)?);
                Ok(())
            };
            register().map_err(|e| format!("signal {signo}: {e}"))?;
        }
        watch.arm(true);
        let hub = Arc::clone(hub);
        let listen = move || {
            let mut buffer = [0; 16];
            // The stream ends when the watch is dropped.
            while woken.read(&mut buffer).is_ok_and(|n| n > 0) {
                hub.ring();
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(|e| e.to_string())?;
        Ok(watch)
    }

    /// Whether a signal has arrived that has not been taken yet.
    pub(crate) fn has_come(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }
    /// Whether a signal has arrived since the last call.
    pub(crate) fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }

    /// Continues to watch, or restores the usual effect of the signals.
    pub(crate) fn arm(&mut self, arm: bool) {
        self.disarmed.store(!arm, Ordering::Release);
        let claimed = std::mem::take(&mut self.claimed);
        if arm {
            self.claimed.clone_from(&self.signals);
            self.claimed.iter().for_each(|signo| self.hub.claim_signal(*signo));
        }
        claimed.iter().for_each(|signo| self.hub.release_signal(*signo));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // This comes first: with `disarmed` set, a signal that arrives meanwhile would have its usual effect,
        // and end the process, although another script may watch it by now.
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
        self.arm(false);
    }
}
