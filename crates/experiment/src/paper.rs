//! The figure of a paper that an experiment repeats, and what the paper's text says.

use crate::known::{Known, Table};
use crate::reading::{CYCLES, Cited, CitedValue, INSTRUCTIONS};
use crate::values::{number, positive, word};
use lang::{Diagnostic, Diagnostics};
use launch::settings::at;
use measure::rate::{OVERHEAD, short};
use serde::Deserialize;
use toml::{Spanned, Value};

/// The frame check sequence.
const FCS: f64 = 4.0;

/// `[paper]` as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPaper {
    title: Spanned<String>,
    figure: String,
    #[serde(default)]
    source: String,
    unit: Option<Spanned<String>>,
    x: Option<Spanned<String>>,
    size: Option<Spanned<Value>>,
    #[serde(default)]
    values: Vec<Spanned<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValue {
    x: Spanned<Value>,
    y: Spanned<Value>,
    #[serde(default)]
    of: String,
    #[serde(default)]
    at: Table,
    section: Spanned<String>,
    /// Of a command: which of its figures.
    figure: Option<Spanned<String>>,
    size: Option<Spanned<Value>>,
}

/// What a number of a paper counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// So many packets a second.
    Packets(f64),
    /// Gigabits a second, with so many bytes a frame more than the frame without FCS has.
    Gigabits(f64),
    Other,
}

const UNITS: [(&str, Unit); 9] = [
    ("pps", Unit::Packets(1.0)),
    ("Mpps", Unit::Packets(1e6)),
    ("Gb/s L2", Unit::Gigabits(0.0)),
    ("Gb/s with FCS", Unit::Gigabits(FCS)),
    ("Gb/s L1", Unit::Gigabits(OVERHEAD as f64)),
    ("us", Unit::Other),
    (CYCLES, Unit::Other),
    (INSTRUCTIONS, Unit::Other),
    ("ratio", Unit::Other),
];

impl Unit {
    /// In packets a second; `size` is that of a frame without FCS.
    fn pps(self, y: f64, size: Option<f64>) -> Option<f64> {
        match self {
            Self::Packets(many) => Some(y * many),
            Self::Gigabits(more) => Some(y * 1e9 / 8.0 / (size? + more)),
            Self::Other => None,
        }
    }
}

/// Reads what is said of a paper; `size` is that of frames which are all alike. Errors are reported with
/// their places.
pub(crate) fn read(
    raw: &RawPaper,
    known: &Known<'_>,
    size: Option<&str>,
    diags: &mut Diagnostics,
) -> Option<Cited> {
    if raw.title.get_ref().is_empty() {
        diags.error_with_help(at(&raw.title), "the paper has no title", "title = \"...\"");
    }
    let mut cited = Cited {
        title: raw.title.get_ref().clone(),
        figure: raw.figure.clone(),
        source: raw.source.clone(),
        unit: String::new(),
        x: String::new(),
        values: Vec::new(),
    };
    if raw.values.is_empty() {
        return Some(cited);
    }
    // The figures of a command have units of their own.
    let of_figures = !known.figures.is_empty();
    if let Some(unit) = raw.unit.as_ref().filter(|_| of_figures) {
        let help = "each value has `figure`, a name of [figures]";
        diags.error_with_help(at(unit), "the values of figures have no unit here", help);
    }
    let own = Spanned::new(0..0, "ratio".to_owned());
    let (Some(unit), Some(x)) = (raw.unit.as_ref().or(of_figures.then_some(&own)), &raw.x) else {
        let help = "unit = \"Gb/s with FCS\", x = \"FACTOR\"";
        diags
            .push(Diagnostic::error(at(&raw.title), "the values of a paper need unit and x").with_help(help));
        return None;
    };
    let Some((_, meaning)) = UNITS.iter().find(|(name, _)| name == unit.get_ref()) else {
        let help = format!("unit has {}", UNITS.map(|(name, _)| format!("\"{name}\"")).join(", "));
        diags.error_with_help(
            at(unit),
            format!("'{}' is no unit for a paper's values", unit.get_ref()),
            help,
        );
        return None;
    };
    let Some(factor) = known.factors.iter().find(|factor| factor.name == *x.get_ref()) else {
        let message = format!("'{}' is not varied", x.get_ref());
        diags.error_with_help(at(x), message, "x is what the paper's values are over: a key of [vary]");
        return None;
    };
    let numbers = factor.values.iter().all(|value| number(value).is_some());
    let frame = |value: Option<&Spanned<Value>>, diags: &mut Diagnostics| {
        let value = value?;
        let size = positive(value.get_ref());
        if size.is_none() {
            let help = "bytes of a frame without its frame check sequence, such as 60";
            diags.error_with_help(at(value), "this is no frame size", help);
        }
        size
    };
    let all = frame(raw.size.as_ref(), diags).or_else(|| number(size?));
    for value in raw.values.iter().map(Spanned::get_ref) {
        let place =
            word(value.x.get_ref()).filter(|x| factor.values.contains(x) || (numbers && number(x).is_some()));
        if place.is_none() {
            let help = format!("{} has {}", factor.name, factor.values.join(", "));
            diags.error_with_help(at(&value.x), "x is no value of its factor", help);
        }
        let y = positive(value.y.get_ref());
        if y.is_none() {
            diags.error_with_help(at(&value.y), "y is no number above 0", format!("in {}", unit.get_ref()));
        }
        if value.section.get_ref().is_empty() {
            let help = "the section whose text gives this value";
            diags.error_with_help(at(&value.section), "a value needs its section", help);
        }
        let figure = value.figure.as_ref().map(|name| name.get_ref().clone());
        if figure.as_ref().is_some_and(|name| !known.figures.contains(name)) || of_figures && figure.is_none()
        {
            let help = format!("figure = one of [figures]: {}", known.figures.join(", "));
            let place = value.figure.as_ref().map_or(at(&value.x), at);
            diags.error_with_help(place, "the value is of no figure of a command", help);
        }
        let own = frame(value.size.as_ref(), diags);
        let fixed = known.fixed(&value.at, diags).into_iter().collect();
        let (Some(place), Some(y)) = (place, y) else { continue };
        let size = own.or_else(|| if factor.name == "size" { number(&place) } else { all });
        let pps = meaning.pps(y, size);
        let l1_gbps = pps.zip(size).map(|(pps, size)| pps * (size + OVERHEAD as f64) * 8.0 / 1e9);
        let (of, section) = (value.of.clone(), value.section.get_ref().clone());
        cited.values.push(CitedValue { x: place, y, of, at: fixed, section, pps, l1_gbps, figure });
    }
    (cited.unit, cited.x) = (unit.get_ref().clone(), factor.name.clone());
    Some(cited)
}

/// Lines for a report as text.
pub(crate) fn text(paper: &Cited) -> String {
    let source = if paper.source.is_empty() { String::new() } else { format!(" ({})", paper.source) };
    let mut text = format!("paper: {}, {}{source}\n", paper.title, paper.figure);
    for value in &paper.values {
        let of = if value.of.is_empty() { String::new() } else { format!(", {}", value.of) };
        let pps = value.pps.map_or_else(String::new, |pps| format!(", {}pps", short(pps)));
        let CitedValue { x, y, section, .. } = value;
        let unit = value.unit(&paper.unit);
        text += &format!("  {} {x}{of}: {y} {unit}{pps} (section {section})\n", paper.x);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Varied;
    use lang::Source;
    use launch::settings;

    #[derive(Deserialize)]
    struct File {
        paper: RawPaper,
    }

    fn cited(text: &str) -> Result<Cited, Vec<String>> {
        let mut diags = Diagnostics::new();
        let factors = [
            Varied { name: "size".into(), values: vec!["60".into(), "imix".into()] },
            Varied { name: "$N".into(), values: vec!["1".into(), "32".into()] },
        ];
        let raw: Option<File> = settings::read(text, "", &mut diags);
        let known = Known { factors: &factors, ..Known::default() };
        let read = raw.and_then(|raw| read(&raw.paper, &known, Some("60"), &mut diags));
        settings::finish(&mut diags, &Source::new("e.toml", text));
        read.filter(|_| !diags.has_errors()).ok_or_else(|| diags.iter().map(|d| d.message.clone()).collect())
    }

    #[test]
    fn values_become_rates() {
        let paper = cited(
            "[paper]\ntitle = \"P\"\nfigure = \"F 1\"\nunit = \"Gb/s with FCS\"\nx = \"$N\"\nvalues = [\n\
             {x = 32, y = 9.77, section = \"4.2\", of = \"kn 16\"}, {x = 2, y = 1, section = \"4.2\", size = 1020}]\n",
        )
        .unwrap();
        let rates: Vec<u64> = paper.values.iter().map(|value| value.pps.unwrap() as u64).collect();
        // 64 bytes on the paper's wire, 1,024.
        assert_eq!(rates, [19_082_031, 122_070]);
        assert!((paper.values[0].l1_gbps.unwrap() - 9.77 * 84.0 / 64.0).abs() < 1e-9, "{paper:?}");
        assert!(
            text(&paper).contains("$N 32, kn 16: 9.77 Gb/s with FCS, 19.08 Mpps (section 4.2)"),
            "{}",
            text(&paper)
        );
    }

    #[test]
    fn mistakes_are_found() {
        let errors = cited(
            "[paper]\ntitle = \"\"\nfigure = \"F\"\nunit = \"us\"\nx = \"size\"\nvalues = [\n\
             {x = \"none\", y = 0, section = \"\"}, {x = 60, y = 1, section = \"1\", size = \"many\", at = {\"$N\" = 3}}]\n",
        )
        .unwrap_err();
        for part in [
            "no title",
            "no value of its factor",
            "no number above 0",
            "needs its section",
            "no frame size",
            "$N never has this value",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
        let wrong = |unit: &str, x: &str| {
            let text = format!(
                "[paper]\ntitle = \"P\"\nfigure = \"F\"\n{unit}\n{x}\nvalues = [{{x = 1, y = 1, section = \"1\"}}]\n"
            );
            cited(&text).unwrap_err().join("; ")
        };
        assert!(wrong("", "x = \"$N\"").contains("need unit and x"));
        assert!(wrong("unit = \"furlongs\"", "x = \"$N\"").contains("'furlongs' is no unit"));
        assert!(wrong("unit = \"us\"", "x = \"ttl\"").contains("'ttl' is not varied"));
        assert_eq!(cited("[paper]\ntitle = \"P\"\nfigure = \"F\"\n").unwrap().values.len(), 0);
    }
}
