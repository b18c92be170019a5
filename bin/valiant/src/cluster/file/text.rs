//! From TOML to a cluster file as it is written.

use super::raw::RawFile;
use lang::{Diagnostic, Diagnostics, Span};
use serde::Deserialize;
use std::ops::Range;
use toml::de::{DeTable, DeValue, Deserializer};

/// How an error begins that is about a key which does not exist.
const UNKNOWN: &str = "unknown field `";

/// Reads a text. What is wrong with it is said: all errors of syntax, all unknown keys, but only the first value that is
/// missing or of a wrong type. There is no file then, unless it is but for the unknown keys.
pub(super) fn read(text: &str, diags: &mut Diagnostics) -> Option<RawFile> {
    let (mut table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        errors.iter().for_each(|e| diags.push(diagnostic(e)));
        return None;
    }
    loop {
        let e = match RawFile::deserialize(Deserializer::from(table.clone())) {
            Ok(file) => return Some(file),
            Err(e) => e,
        };
        diags.push(diagnostic(&e));
        // As if it were not there, to find what else is wrong.
        let unknown = e.span().filter(|_| e.message().starts_with(UNKNOWN));
        if !unknown.is_some_and(|place| forget(table.get_mut(), &place)) {
            return None;
        }
    }
}

/// An error of the reader of TOML.
fn diagnostic(e: &toml::de::Error) -> Diagnostic {
    let span = e.span().map(|s| Span::new(0, s.start, s.end));
    let message = e.message().trim();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let problem = Diagnostic::error(span, message);
    if message.starts_with("missing field") {
        problem.with_help("conf/rb4.toml is an example, doc/cluster.md has all keys")
    } else if let Some(key) = quoted.next().filter(|_| message.starts_with(UNKNOWN)) {
        problem.with_nearest(key, "the key", quoted)
    } else {
        problem
    }
}

/// Takes the key at this place out of a table or one within it. Returns whether it was there.
fn forget(table: &mut DeTable<'_>, place: &Range<usize>) -> bool {
    let unwanted = table.keys().find(|key| key.span() == *place).cloned();
    unwanted.is_some_and(|key| table.remove(&key).is_some())
        || table.iter_mut().any(|(_, value)| forget_in(value.get_mut(), place))
}

fn forget_in(value: &mut DeValue<'_>, place: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => forget(table, place),
        DeValue::Array(list) => list.iter_mut().any(|value| forget_in(value.get_mut(), place)),
        _ => false,
    }
}
