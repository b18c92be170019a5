//! Ports that can be switched off, by handlers and by other elements.

use std::sync::atomic::{AtomicBool, Ordering};

/// One gate for each port; all are open at first.
#[derive(Default)]
pub(crate) struct Gates(Vec<AtomicBool>);

impl Gates {
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..ports).map(|_| AtomicBool::new(false)).collect())
    }
    /// Whether packets pass. `None`: there is no such port.
    pub(crate) fn is_open(&self, port: usize) -> Option<bool> {
        self.0.get(port).map(|shut| !shut.load(Ordering::Relaxed))
    }
    /// Opens or shuts a port. False: there is no such port.
    pub(crate) fn set(&self, port: usize, open: bool) -> bool {
        self.0.get(port).is_some_and(|shut| {
            shut.store(!open, Ordering::Relaxed);
            true
        })
    }
    /// Opens all.
    pub(crate) fn open_all(&self) {
        self.0.iter().for_each(|shut| shut.store(false, Ordering::Relaxed));
    }
    /// Sets the ports that both have as the other has them.
    pub(crate) fn copy(&self, other: &Self) {
        for (port, shut) in other.0.iter().enumerate() {
            self.set(port, !shut.load(Ordering::Relaxed));
        }
    }
}
