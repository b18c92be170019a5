//! Files of settings in TOML: reading them with the places of all errors, and values that several kinds of
//! files have.

use crate::reason;
use lang::args::EtherAddr;
use lang::{Diagnostic, Diagnostics, Source, SourceMap, Span};
use serde::de::DeserializeOwned;
use std::borrow::{Borrow, Cow};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue, Deserializer};

/// How an error begins that is about a key which does not exist,
const UNKNOWN: &str = "unknown field `";
/// and one about a key that is not there.
const MISSING: &str = "missing field `";
/// A limit of steps; it allows more errors than anybody fixes at once.
const STEPS: usize = 1000;

/// The text of a file, and the directory at which relative paths in it start.
///
/// # Errors
/// The file cannot be read; `help` says what to do then.
pub fn load(path: &Path, help: &str) -> Result<(Source, PathBuf), Diagnostics> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| {
        let mut diags = Diagnostics::new();
        diags.push(Diagnostic::error(None, format!("{name}: {}", reason(&e))).with_help(help));
        diags
    })?;
    let text = String::from_utf8(bytes);
    Ok((
        Source::new(name, text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())),
        directory(path),
    ))
}

/// The directory of a file.
#[must_use]
pub fn directory(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Orders messages about a text and gives them their places in it.
pub fn finish(diags: &mut Diagnostics, source: &Source) {
    let mut map = SourceMap::new();
    map.add(source);
    diags.sort();
    diags.set_sources(map);
}

/// The place of a value.
#[must_use]
pub fn at<T>(value: &Spanned<T>) -> Span {
    let span = value.span();
    Span::new(0, span.start, span.end)
}

/// The entries of a table in the order of the file.
pub fn in_order<N: Borrow<Spanned<String>>, T>(table: impl IntoIterator<Item = (N, T)>) -> Vec<(N, T)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.borrow().span().start);
    entries
}

/// Whether a word can be the name of something that files and sockets are named after.
#[must_use]
pub fn is_name(word: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !word.is_empty() && word.len() <= 32 && word.chars().all(good)
}

/// An Ethernet address of one interface.
pub fn mac(text: &Spanned<String>, diags: &mut Diagnostics) -> Option<EtherAddr> {
    let mac = EtherAddr::literal(text.get_ref());
    match mac {
        None => diags.error_with_help(
            at(text),
            format!("'{}' is not an Ethernet address", text.get_ref()),
            "write it as in \"02:00:00:00:00:01\"",
        ),
        Some(mac) if mac.0[0] & 1 == 1 => {
            diags.error_with_help(
                at(text),
                "a port's address cannot be a multicast address",
                "make the first byte even",
            );
        }
        Some(_) => {}
    }
    mac
}

/// Reads a text. Reports all errors of syntax; without any, all unknown keys, missing values and values of a
/// wrong type; `help` says where the keys are described. Returns nothing if there were errors other than
/// unknown keys.
pub fn read<T: DeserializeOwned>(text: &str, help: &str, diags: &mut Diagnostics) -> Option<T> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        errors.iter().for_each(|e| diags.push(diagnostic(e, help)));
        return None;
    }
    if let Ok(file) = T::deserialize(Deserializer::from(table)) {
        return Some(file);
    }
    // Only now there is need for a copy of the table at each step.
    let (mut table, _) = DeTable::parse_recoverable(text);
    // Each error is repaired somehow, to find further ones. A value that is put in has a place of its own,
    // beyond the end of the text.
    let mut whole = true;
    for step in 1..=STEPS {
        let e = match T::deserialize(Deserializer::from(table.clone())) {
            Ok(file) => return whole.then_some(file),
            Err(e) => e,
        };
        let (root, place) = (table.get_mut(), e.span().unwrap_or_default());
        let beyond = text.len() + step..text.len() + step;
        let repaired = if place.start > text.len() {
            find(root, &mut |value| value.span() == place).is_some_and(|value| next(value.get_mut()))
        } else if e.message().starts_with(UNKNOWN) {
            diags.push(diagnostic(&e, help));
            forget(root, &place)
        } else if let Some(key) = e.message().strip_prefix(MISSING).and_then(|m| m.split('`').next()) {
            diags.push(diagnostic(&e, help));
            whole = false;
            let lacks = |table: &DeTable<'_>| table.keys().all(|k| k.get_ref() != key);
            let within = find(root, &mut |value| {
                value.span() == place && matches!(value.get_ref(), DeValue::Table(table) if lacks(table))
            });
            let table = match within.map(Spanned::get_mut) {
                Some(DeValue::Table(table)) => Some(table),
                _ => Some(root).filter(|root| lacks(root)),
            };
            table.is_some_and(|table| {
                let (key, value) = (Cow::Owned(key.to_owned()), DeValue::String(Cow::Borrowed("")));
                table.insert(Spanned::new(beyond.clone(), key), Spanned::new(beyond, value)).is_none()
            })
        } else {
            diags.push(diagnostic(&e, help));
            whole = false;
            find(root, &mut |value| value.span() == place)
                .map(|value| *value = Spanned::new(beyond, DeValue::String(Cow::Borrowed(""))))
                .is_some()
        };
        if !repaired {
            return None;
        }
    }
    None
}

/// The first value for which a condition holds.
fn find<'a, 'i>(
    table: &'a mut DeTable<'i>,
    good: &mut dyn FnMut(&Spanned<DeValue<'i>>) -> bool,
) -> Option<&'a mut Spanned<DeValue<'i>>> {
    table.iter_mut().find_map(|(_, value)| find_in(value, good))
}

fn find_in<'a, 'i>(
    value: &'a mut Spanned<DeValue<'i>>,
    good: &mut dyn FnMut(&Spanned<DeValue<'i>>) -> bool,
) -> Option<&'a mut Spanned<DeValue<'i>>> {
    if good(value) {
        return Some(value);
    }
    match value.get_mut() {
        DeValue::Table(table) => find(table, good),
        DeValue::Array(list) => list.iter_mut().find_map(|value| find_in(value, good)),
        _ => None,
    }
}

/// Replaces a placeholder value by one of the next type. Returns whether there is one.
fn next(value: &mut DeValue<'_>) -> bool {
    *value = match value {
        DeValue::String(_) => DeValue::Integer(DeInteger::default()),
        DeValue::Integer(_) => DeValue::Boolean(false),
        DeValue::Boolean(_) => DeValue::Array(DeArray::default()),
        DeValue::Array(_) => DeValue::Table(DeTable::new()),
        _ => return false,
    };
    true
}

/// An error of the reader of TOML.
fn diagnostic(e: &toml::de::Error, help: &str) -> Diagnostic {
    let span = e.span().map(|s| Span::new(0, s.start, s.end));
    let message = e.message().trim();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let problem = Diagnostic::error(span, wrong_type(message).unwrap_or_else(|| message.to_owned()));
    if message.starts_with(MISSING) {
        problem.with_help(help)
    } else if let Some(key) = quoted.next().filter(|_| message.starts_with(UNKNOWN)) {
        problem.with_nearest(key, "the key", quoted)
    } else {
        problem
    }
}

/// A message about a value of a wrong type, without the names of Rust's types.
fn wrong_type(message: &str) -> Option<String> {
    if let Some(number) = message.strip_prefix("invalid value: integer `") {
        return Some(format!("the number {} is out of range", number.split('`').next()?));
    }
    let (found, expected) = message.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let found = match found.split_once(' ') {
        _ if found == "sequence" => "a list".to_owned(),
        // Dates are maps to the reader.
        _ if found == "map" => "a table or a date".to_owned(),
        Some(("string", text)) => format!("the string {text}"),
        Some(("integer", number)) => format!("the number {}", number.trim_matches('`')),
        Some(("floating", number)) => {
            format!("the number {}", number.trim_start_matches("point ").trim_matches('`'))
        }
        Some(("boolean", word)) => word.trim_matches('`').to_owned(),
        _ => found.to_owned(),
    };
    let expected = match expected {
        "a sequence" => "a list",
        "a map" => "a table",
        "a boolean" => "true or false",
        "f64" | "f32" => "a number",
        "i64" | "i32" | "i16" | "i8" | "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    Some(format!("expected {expected}, found {found}"))
}

/// Removes the key at this place from a table or one within it. Returns whether it was there.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Shelf {
        name: Spanned<String>,
        #[serde(default)]
        book: BTreeMap<Spanned<String>, Book>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Book {
        pages: Spanned<u32>,
        year: u32,
    }

    fn errors(text: &str) -> (Option<Shelf>, String) {
        let mut diags = Diagnostics::new();
        let read = read(text, "see the manual", &mut diags);
        finish(&mut diags, &Source::new("shelf.toml", text));
        (read, diags.render(diags.sources(), false))
    }

    #[test]
    fn all_errors_are_reported_with_their_places() {
        let (shelf, none) = errors("name = \"a\"\n[book.b]\npages = 7\nyear = 1\n");
        let shelf = shelf.unwrap();
        assert_eq!((at(&shelf.name), none.as_str()), (Span::new(0, 7, 10), ""));
        // The names of tables have places too.
        let (name, book) = shelf.book.first_key_value().unwrap();
        assert_eq!((at(name), *book.pages.get_ref(), book.year), (Span::new(0, 17, 18), 7, 1));
        let (shelf, text) = errors("nam = 1\n[book.b]\npages = \"x\"\nyer = 5\n[book.c]\n");
        assert!(shelf.is_none());
        for line in [
            "shelf.toml:1: unknown field `nam`",
            "missing field `name`",
            "shelf.toml:3: expected a whole number, found the string \"x\"",
            "shelf.toml:4: unknown field `yer`",
            "shelf.toml:2: missing field `year`",
            "shelf.toml:5: missing field `pages`",
            "shelf.toml:5: missing field `year`",
            "help: the key 'year' has a similar name",
            "help: see the manual",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        // Unknown keys alone leave something to go on with.
        let (shelf, text) = errors("name = \"a\"\nnames = 1\n");
        assert!(shelf.is_some() && text.contains("unknown field `names`"), "{text}");
        let (shelf, text) = errors("name = \nbook = [\n");
        assert!(shelf.is_none() && text.matches("shelf.toml:").count() >= 4, "{text}");
    }

    #[test]
    fn types_are_named_plainly() {
        for (message, plain) in [
            ("invalid type: integer `5`, expected a string", Some("expected a string, found the number 5")),
            (
                "invalid type: floating point `1.5`, expected i64",
                Some("expected a whole number, found the number 1.5"),
            ),
            ("invalid type: boolean `true`, expected a sequence", Some("expected a list, found true")),
            ("invalid type: sequence, expected struct RawHost", Some("expected a table, found a list")),
            (
                "invalid type: map, expected a boolean",
                Some("expected true or false, found a table or a date"),
            ),
            ("invalid value: integer `-1`, expected u16", Some("the number -1 is out of range")),
            ("missing field `name`", None),
        ] {
            assert_eq!(wrong_type(message).as_deref(), plain);
        }
    }

    #[test]
    fn names_are_words() {
        for good in ["a", "edge-1", "A_b", &"x".repeat(32)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "a.b", "\u{e9}", "..", &"x".repeat(33)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
