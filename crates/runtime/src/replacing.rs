//! Whether this thread is setting up a configuration for a hot swap.

use std::cell::Cell;

thread_local! {
    static REPLACING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread sets up a configuration that replaces a running one. Then nothing may wait for another
/// process, such as the other end of a pipe, because all handlers of the running router would wait too.
#[must_use]
pub fn is_replacing() -> bool {
    REPLACING.get()
}

/// Lives as long as a configuration is set up.
pub(crate) struct Replacing {
    before: bool,
}

impl Replacing {
    pub(crate) fn begin(replacing: bool) -> Self {
        Self { before: REPLACING.replace(replacing) }
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        REPLACING.set(self.before);
    }
}
