//! Functions that all parts of the reader of host files use.

use super::model::InterfaceId;
use lang::{Diagnostics, Span};
use launch::settings::at;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;

/// Converts written values to their meaning.
pub(super) struct Reader<'a> {
    pub(super) diags: Diagnostics,
    /// Where relative paths start.
    pub(super) dir: &'a Path,
    /// The name of the file without `.toml`.
    pub(super) stem: &'a str,
    /// Interfaces that are not connected because of an error that is reported elsewhere.
    pub(super) excused: BTreeSet<InterfaceId>,
    /// Whether an interface names a port that there is not: it may be any of those that seem unused.
    pub(super) strays: bool,
    /// The processors of single routers, with their places.
    pub(super) core_spans: Vec<(usize, Span)>,
    /// Whether an address that is made is not the first choice, or may not be that because of routers that
    /// were read before.
    pub(super) other_addresses: bool,
}

impl<'a> Reader<'a> {
    /// A reader of a file of this name (without `.toml`), in this directory.
    pub(super) fn new(dir: &'a Path, stem: &'a str) -> Self {
        Self {
            diags: Diagnostics::new(),
            dir,
            stem,
            excused: BTreeSet::new(),
            strays: false,
            core_spans: Vec::new(),
            other_addresses: false,
        }
    }

    /// A number within limits, of which `what` says what they are of.
    pub(super) fn number<T: TryFrom<i64>>(
        &mut self,
        value: &Spanned<i64>,
        key: &str,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Option<T> {
        let number = *value.get_ref();
        let good = T::try_from(number).ok().filter(|_| range.contains(&number));
        if good.is_none() {
            let help = format!("{what}: {} to {}", range.start(), range.end());
            self.diags.error_with_help(at(value), format!("{key} = {number} is out of range"), help);
        }
        good
    }

    /// One of several words; without any, the first.
    pub(super) fn word<T: Copy + Default>(
        &mut self,
        text: Option<&Spanned<String>>,
        what: &str,
        words: &[(&str, T)],
    ) -> T {
        let Some(text) = text else { return T::default() };
        let found = words.iter().find(|(word, _)| word == text.get_ref());
        if found.is_none() {
            let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let (last, first) = all.split_last().map_or(("", &[][..]), |(last, first)| (last, first));
            let help = format!("use {} or {last}", first.join(", "));
            self.diags.error_with_help(at(text), format!("'{}' is not {what}", text.get_ref()), help);
        }
        found.map(|(_, value)| *value).unwrap_or_default()
    }
}
