//! What reading a cluster file needs at every step.

use lang::{Diagnostic, Diagnostics, NameDb, Span};
use std::path::Path;

/// Turns what is written into what is meant.
pub(super) struct Reader<'a> {
    pub(super) diags: Diagnostics,
    pub(super) dir: &'a Path,
    pub(super) names: NameDb,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.diags.push(Diagnostic::error(span, message).with_help(help));
    }
}
