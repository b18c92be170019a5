//! The names that the values which are written to handlers may use: those of the configuration, as seen from
//! the element whose handler is called.

use lang::args::NameDb;
use std::cell::RefCell;

thread_local! {
    static NAMES: RefCell<Option<NameDb>> = const { RefCell::new(None) };
}

/// The names that the text of the handler call which this thread makes may use (`AddressInfo` and so on), as
/// seen from the element; outside of a call those that are always known.
#[must_use]
pub fn handler_names() -> NameDb {
    NAMES.with_borrow(|names| names.clone().unwrap_or_default())
}

/// Lives as long as a handler is called.
pub(crate) struct Names {
    before: Option<NameDb>,
}

impl Names {
    /// A handler of `element` is called.
    pub(crate) fn of(all: &NameDb, element: &str) -> Self {
        Self { before: NAMES.replace(Some(all.at(element))) }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        NAMES.set(self.before.take());
    }
}
