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
}

impl Watch {
    /// Watches these signals; one that comes wakes the control side.
    ///
    /// # Errors
    /// A signal cannot be watched.
    pub(crate) fn new(signals: &[i32], hub: &Arc<Hub>) -> Result<Self, String> {
        let mut watch = Self { came: Arc::default(), disarmed: Arc::default(), ids: Vec::new() };
        let (mut woken, waker) = UnixStream::pair().map_err(|e| e.to_string())?;
        for &signo in signals {
            if signal_hook::consts::FORBIDDEN.contains(&signo) {
                return Err("bad signal number".into());
            }
            let register = || -> std::io::Result<[SigId; 3]> {
                Ok([
                    flag::register_conditional_default(signo, Arc::clone(&watch.disarmed))?,
                    flag::register(signo, Arc::clone(&watch.came))?,
                    low_level::pipe::register(signo, waker.try_clone()?)?,
                ])
            };
            let ids = register().map_err(|e| format!("signal {signo}: {e}"))?;
            watch.ids.extend(ids);
            hub.claim_signal(signo);
        }
        let hub = Arc::clone(hub);
        let listen = move || {
            let mut buffer = [0; 16];
            // The stream ends when the watch does.
            while woken.read(&mut buffer).is_ok_and(|n| n > 0) {
                hub.ring();
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(listen).map_err(|e| e.to_string())?;
        Ok(watch)
    }

    /// Whether a signal has come since the last look.
    pub(crate) fn take(&self) -> bool {
        self.came.swap(false, Ordering::AcqRel)
    }

    /// Goes on watching, or leaves the signals to their usual effect.
    pub(crate) fn arm(&self, arm: bool) {
        self.disarmed.store(!arm, Ordering::Release);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            low_level::unregister(id);
        }
    }
}
