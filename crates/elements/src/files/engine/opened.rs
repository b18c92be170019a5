//! A file that an element reads and that its handlers look at.

use locks::IgnorePoison;
use std::sync::{Arc, Mutex, OnceLock};

/// The file; it outlives a hot swap. `None` once it is closed.
pub(super) struct Source<T>(Mutex<Option<T>>);

impl<T> Source<T> {
    pub(super) fn new(file: Option<T>) -> Self {
        Self(Mutex::new(file))
    }
}

/// What handlers need of the file.
pub(super) struct Opened<T> {
    pub(super) path: String,
    pub(super) source: OnceLock<Arc<Source<T>>>,
}

impl<T> Opened<T> {
    /// A file that is not open yet.
    pub(super) fn new(path: String) -> Self {
        Self { path, source: OnceLock::new() }
    }
    /// Works on the file, if it is open.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut file = self.source.get()?.0.lock().ignore_poison();
        file.as_mut().map(f)
    }
    pub(super) fn close(&self) {
        if let Some(source) = self.source.get() {
            *source.0.lock().ignore_poison() = None;
        }
    }
}
