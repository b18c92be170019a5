//! A file that an element reads and that its handlers describe.

use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::{Arc, Mutex, OnceLock};

/// The file; it is kept over a hot swap. `None` once it is closed.
struct Source<T>(Mutex<Option<T>>);

/// Properties of the file that handlers show.
pub(in crate::files) struct Opened<T> {
    pub(in crate::files) path: String,
    source: OnceLock<Arc<Source<T>>>,
}

impl<T: Send + 'static> Opened<T> {
    /// Opens a file before the start, unless the previous configuration has it open under the same key; then
    /// `check` is called with that file. An empty list of files counts as a file without packets.
    pub(in crate::files) fn before_start(
        cx: &mut ConfigCx<'_>,
        (path, key): (String, String),
        open: impl FnOnce(&str) -> Result<Option<T>, String> + 'static,
        check: impl FnOnce(&Self) -> Result<(), String> + 'static,
    ) -> Arc<Self> {
        let opened = cx.shared(|| Self { path, source: OnceLock::new() });
        let (hub, this) = (Arc::clone(cx.hub()), Arc::clone(&opened));
        cx.before_start(move || {
            let source = hub.resource(&key, || Ok(Source(Mutex::new(open(&this.path)?))))?;
            // It is set already if a hot swap kept the configuration.
            let _ = this.source.set(source);
            check(&this)
        });
        opened
    }
    /// Calls a function with the file, if it is open.
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
