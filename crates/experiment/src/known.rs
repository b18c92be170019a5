//! What is varied, for the parts of a file that speak of it.

use crate::reading::Varied;
use crate::values::word;
use lang::Diagnostics;
use launch::settings::at;
use std::collections::BTreeMap;
use toml::{Spanned, Value};

/// Some factors, and the value of each, as written.
pub(crate) type Table = BTreeMap<Spanned<String>, Spanned<Value>>;
/// The same, understood.
pub(crate) type Fixed = Vec<(String, String)>;

/// What expectations and papers may speak of: the factors with their values, the allowed losses, the figures
/// of a command.
#[derive(Default)]
pub(crate) struct Known<'a> {
    pub(crate) factors: &'a [Varied],
    pub(crate) losses: &'a [f64],
    pub(crate) figures: &'a [String],
}

impl Known<'_> {
    fn names(&self) -> String {
        let names: Vec<&str> = self.factors.iter().map(|factor| factor.name.as_str()).collect();
        if names.is_empty() {
            "nothing is varied".to_owned()
        } else {
            format!("[vary] has {}", names.join(", "))
        }
    }

    /// The factor of a name; an error if there is none.
    pub(crate) fn factor(&self, name: &Spanned<String>, diags: &mut Diagnostics) -> Option<&Varied> {
        let found = self.factors.iter().find(|factor| factor.name == *name.get_ref());
        if found.is_none() {
            let message = format!("'{}' is not varied", name.get_ref());
            diags.error_with_help(at(name), message, self.names());
        }
        found
    }

    /// The values of some factors.
    pub(crate) fn fixed(&self, table: &Table, diags: &mut Diagnostics) -> Fixed {
        let mut fixed = Fixed::new();
        for (name, value) in table {
            let Some(factor) = self.factor(name, diags) else { continue };
            match word(value.get_ref()).filter(|value| factor.values.contains(value)) {
                Some(value) => fixed.push((factor.name.clone(), value)),
                None => {
                    let help = format!("{} has {}", factor.name, factor.values.join(", "));
                    diags.error_with_help(at(value), format!("{} never has this value", factor.name), help);
                }
            }
        }
        fixed
    }
}
