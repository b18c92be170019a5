//! A file that an element reads and that its handlers describe.

use locks::IgnorePoison;
use std::sync::{Arc, Mutex, OnceLock};

/// The file; it outlives a hot swap. `None` once it is closed.
pub(in crate::files) struct Source<T>(Mutex<Option<T>>);

impl<T> Source<T> {
    pub(in crate::files) fn new(file: Option<T>) -> Self {
        Self(Mutex::new(file))
    }
}

/// What handlers need of the file.
pub(in crate::files) struct Opened<T> {
    pub(in crate::files) path: String,
    pub(in crate::files) source: OnceLock<Arc<Source<T>>>,
}

impl<T> Opened<T> {
    /// A file that is not open yet.
    pub(in crate::files) fn new(path: String) -> Self {
        Self { path, source: OnceLock::new() }
    }
    /// Works on the file, if it is open.
    pub(in crate::files) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut file = self.source.get()?.0.lock().ignore_poison();
        file.as_mut().map(f)
    }
    pub(in crate::files) fn close(&self) {
        if let Some(source) = self.source.get() {
            *source.0.lock().ignore_poison() = None;
        }
    }
}
