//! The values of an experiment file: words, parts, times. Errors are collected with their places.

use lang::Diagnostics;
use launch::settings::at;
use std::path::Path;
use toml::{Spanned, Value};

/// The shortest time, in seconds.
const LEAST_SECONDS: f64 = 0.01;

/// What reads the file.
pub(crate) struct Reader<'a> {
    pub(crate) diags: Diagnostics,
    pub(crate) dir: &'a Path,
}

/// A value as a word of a command line.
pub(crate) fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(n) => Some(n.to_string()),
        Value::Float(n) => Some(n.to_string()),
        Value::Boolean(b) => Some(b.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// A part of the whole, as 0.005 or "0.5%".
pub(crate) fn part(value: &Value) -> Option<f64> {
    let text = word(value)?;
    let part = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.trim().parse().ok()?,
    };
    (0.0..1.0).contains(&part).then_some(part)
}

/// A part of a rate: all of it too.
pub(crate) fn part_of_rate(value: &Value) -> Option<f64> {
    match word(value)?.trim() {
        "1" | "100%" => Some(1.0),
        _ => part(value),
    }
}

/// A time longer than 0, in seconds: 0.5 or "500ms".
pub(crate) fn time(value: &Value) -> Option<f64> {
    let seconds = launch::live::time(&word(value)?).ok()?.as_secs_f64();
    (LEAST_SECONDS..=1e6).contains(&seconds).then_some(seconds)
}

impl Reader<'_> {
    /// Something is wrong at a place.
    pub(crate) fn wrong(&mut self, place: &Spanned<impl Sized>, message: String, help: &str) {
        self.diags.error_with_help(at(place), message, help);
    }

    /// The meaning of a value, or what it should be like.
    pub(crate) fn value<T>(
        &mut self,
        key: &str,
        value: Option<&Spanned<Value>>,
        meaning: impl Fn(&Value) -> Option<T>,
        like: &str,
    ) -> Option<T> {
        let value = value?;
        let meant = meaning(value.get_ref());
        if meant.is_none() {
            let text = word(value.get_ref()).unwrap_or_else(|| "a list or table".to_owned());
            self.wrong(value, format!("{key} = {text} cannot be used"), like);
        }
        meant
    }

    /// One or several words.
    pub(crate) fn words(&mut self, key: &str, value: &Spanned<Value>) -> Vec<String> {
        let all: Option<Vec<String>> = match value.get_ref() {
            Value::Array(values) => values.iter().map(word).collect(),
            one => word(one).map(|word| vec![word]),
        };
        let good = all.filter(|all| !all.is_empty() && all.iter().all(|word| !word.is_empty()));
        if good.is_none() {
            let help = format!("{key} = \"VALUE\", or {key} = [\"VALUE\", ...]");
            self.wrong(value, format!("{key} has no value that can be used"), &help);
        }
        good.unwrap_or_default()
    }

    /// One or several different parts of something.
    pub(crate) fn parts(
        &mut self,
        key: &str,
        value: Option<&Spanned<Value>>,
        meaning: impl Fn(&Value) -> Option<f64>,
        like: &str,
    ) -> Option<Vec<f64>> {
        let value = value?;
        let all: Option<Vec<f64>> = match value.get_ref() {
            Value::Array(all) => all.iter().map(meaning).collect(),
            one => meaning(one).map(|one| vec![one]),
        };
        let different = |all: &Vec<f64>| (1..all.len()).all(|at| !all[..at].contains(&all[at]));
        let good = all.filter(|all| !all.is_empty() && different(all));
        if good.is_none() {
            self.wrong(value, format!("{key} has no value that can be used"), like);
        }
        good
    }
}
