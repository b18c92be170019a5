//! What is expected of an experiment's results: shapes that hold on any machine, as a paper shows them.

use crate::known::{Fixed, Known, Table};
use crate::quantity::{Of, QUANTITIES};
use crate::values::{part, positive};
use lang::{Diagnostics, Span};
use launch::settings::at;
use serde::Deserialize;
use toml::{Spanned, Value};

/// By how much a rate may differ by chance, unless the file says otherwise.
const NOISE: f64 = 0.05;
/// How far apart two losses may be and be the same.
pub(crate) const SAME_LOSS: f64 = 1e-9;

/// An entry of `[[expect]]` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    rises: Option<Spanned<String>>,
    falls: Option<Spanned<String>>,
    flat: Option<Spanned<String>>,
    ratio: Option<Spanned<Vec<Table>>>,
    #[serde(default)]
    at: Table,
    of: Option<Spanned<String>>,
    loss: Option<Spanned<Value>>,
    within: Option<Spanned<Value>>,
    least: Option<Spanned<Value>>,
    most: Option<Spanned<Value>>,
    #[serde(default)]
    why: String,
}

/// What the results look like.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    /// From each value of the factor to the next higher one.
    Rises(String),
    Falls(String),
    Flat(String),
    /// Of the first to the second.
    Ratio(Fixed, Fixed),
}

impl Shape {
    /// Reports points that cannot be compared: there is none, or there are several, where other factors have
    /// these values.
    fn fits(&self, fixed: &[(String, String)], place: Span, diags: &mut Diagnostics) {
        let names = |point: &Fixed| point.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (compared, differ) = match self {
            Self::Rises(factor) | Self::Falls(factor) | Self::Flat(factor) => {
                (fixed.iter().find(|(name, _)| name == factor), false)
            }
            Self::Ratio(first, second) => {
                let other = |(name, value): &&(String, String)| {
                    first.iter().chain(second).any(|(n, v)| n == name && v != value)
                };
                (fixed.iter().find(other), names(first) != names(second))
            }
        };
        if let Some((name, value)) = compared {
            let message = format!("at keeps {name} at {value}, and another value of it is compared");
            diags.error_with_help(place, message, "at has factors that are the same on both sides");
        }
        if differ {
            let help = "both points have the same factors: ratio = [{ size = 60 }, { size = 1514 }]";
            diags.error_with_help(place, "one point has a factor that the other does not have", help);
        }
    }
}

/// An expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    pub(crate) shape: Shape,
    pub(crate) of: Of,
    /// Only points with these values.
    pub(crate) at: Fixed,
    /// Only the results for this allowed loss.
    pub(crate) loss: Option<f64>,
    pub(crate) within: f64,
    /// The ratio of last to first (of first to last where it falls), or of the two points.
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    pub(crate) why: String,
}

/// Reads an expectation. Errors are reported with their places.
pub(crate) fn read(raw: &Spanned<RawExpect>, known: &Known<'_>, diags: &mut Diagnostics) -> Option<Expect> {
    let place = at(raw);
    let entry = raw.get_ref();
    let mut number_of =
        |key: &str, value: Option<&Spanned<Value>>, meaning: fn(&Value) -> Option<f64>, like: &str| {
            let value = value?;
            let meant = meaning(value.get_ref());
            if meant.is_none() {
                diags.error_with_help(at(value), format!("{key} has no value that can be used"), like);
            }
            meant
        };
    let within =
        number_of("within", entry.within.as_ref(), part, "a part such as 0.1 or \"10%\", less than 1");
    let least = number_of("least", entry.least.as_ref(), positive, "a number above 0, such as 1.5");
    let most = number_of("most", entry.most.as_ref(), positive, "a number above 0, such as 1.5");
    let loss =
        number_of("loss", entry.loss.as_ref(), part, "one of the losses in [measure], such as 0 or \"0.5%\"");
    if let (Some(value), Some(loss)) = (&entry.loss, loss)
        && !known.losses.iter().any(|known| (known - loss).abs() < SAME_LOSS)
    {
        let help = "[measure] has the allowed losses: `loss`; with a given rate there is none";
        diags.error_with_help(at(value), "this loss is not one of those that are measured", help);
    }
    let of = match &entry.of {
        None if known.figures.is_empty() => Of::Pps,
        Some(word) if known.figures.contains(word.get_ref()) => Of::Figure(word.get_ref().clone()),
        other if !known.figures.is_empty() => {
            let message = other.as_ref().map_or_else(
                || "of which figure?".to_owned(),
                |word| format!("'{}' is no figure of the command", word.get_ref()),
            );
            let help = format!("[figures] has {}", known.figures.join(", "));
            diags.error_with_help(other.as_ref().map_or(place, at), message, help);
            Of::Pps
        }
        None => Of::Pps,
        Some(word) => match QUANTITIES.iter().find(|(name, _)| name == word.get_ref()) {
            Some((_, of)) => of.clone(),
            None => {
                let names: Vec<String> = QUANTITIES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                let help = format!("of has {}", names.join(", "));
                diags.error_with_help(
                    at(word),
                    format!("'{}' is nothing that is measured", word.get_ref()),
                    help,
                );
                Of::Pps
            }
        },
    };
    let fixed = known.fixed(&entry.at, diags);
    let monotone = [(&entry.rises, 0), (&entry.falls, 1), (&entry.flat, 2)];
    let mut named = monotone.iter().filter_map(|(name, kind)| Some((name.as_ref()?, *kind)));
    let shape = match (named.next(), named.next(), &entry.ratio) {
        (Some((name, kind)), None, None) => {
            let factor = known.factor(name, diags)?;
            if factor.values.len() < 2 {
                diags.error_with_help(at(name), "it has one value only", "a shape needs two values");
            }
            match kind {
                0 => Shape::Rises(factor.name.clone()),
                1 => Shape::Falls(factor.name.clone()),
                _ if within.is_none() || least.is_some() || most.is_some() => {
                    diags.error_with_help(
                        at(name),
                        "flat needs within, and nothing else",
                        "within = \"10%\"",
                    );
                    return None;
                }
                _ => Shape::Flat(factor.name.clone()),
            }
        }
        (None, None, Some(points)) => {
            let [first, second] = points.get_ref().as_slice() else {
                let help = "ratio = [{ size = 60 }, { size = 1514 }]";
                diags.error_with_help(at(points), "a ratio is that of two points", help);
                return None;
            };
            if least.is_none() && most.is_none() {
                diags.error_with_help(at(points), "a ratio needs least or most", "least = 1.5");
            }
            Shape::Ratio(known.fixed(first, diags), known.fixed(second, diags))
        }
        _ => {
            let help = "rises = \"FACTOR\", falls = \"FACTOR\", flat = \"FACTOR\" or ratio = [POINT, POINT]";
            diags.error_with_help(place, "an expectation has one shape", help);
            return None;
        }
    };
    shape.fits(&fixed, place, diags);
    if let (Some(low), Some(high)) = (least, most)
        && low > high
    {
        diags.error_with_help(place, format!("least = {low} is more than most = {high}"), "least <= most");
    }
    Some(Expect {
        shape,
        of,
        at: fixed,
        loss,
        within: within.unwrap_or(NOISE),
        least,
        most,
        why: entry.why.clone(),
    })
}
