//! Functions that all parts of the reader of cluster files use.

use lang::{Diagnostics, NameDb, Span};
use std::path::Path;

/// Converts written values to their meaning.
pub(super) struct Reader<'a> {
    pub(super) diags: Diagnostics,
    pub(super) dir: &'a Path,
    pub(super) names: NameDb,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diags.error_with_help(span, message, help);
    }
}
