//! A file that an element reads and that its handlers describe.

use crate::prelude::*;
use locks::IgnorePoison;
use std::sync::{Arc, Mutex, OnceLock};

/// The file; it outlives a hot swap. `None` once it is closed.
struct Source<T>(Mutex<Option<T>>);

/// What handlers need of the file.
pub(in crate::files) struct Opened<T> {
    pub(in crate::files) path: String,
    source: OnceLock<Arc<Source<T>>>,
}

impl<T: Send + 'static> Opened<T> {
    /// A file that is opened before the start, unless the configuration before has it open under the same
    /// key. `check` looks at it then. No file counts as one without packets.
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
            // Set already when a hot swap kept the configuration.
            let _ = this.source.set(source);
            check(&this)
        });
        opened
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
