//! Reading the values of an experiment file; errors are collected with their places.

use crate::values::word;
use lang::Diagnostics;
use launch::settings::at;
use std::path::Path;
use toml::{Spanned, Value};

/// What reads the file.
pub(crate) struct Reader<'a> {
    pub(crate) diags: Diagnostics,
    pub(crate) dir: &'a Path,
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
