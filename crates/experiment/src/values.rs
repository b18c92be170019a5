//! Values as files have them.

use toml::Value;

/// The shortest time, in seconds.
const LEAST_SECONDS: f64 = 0.01;

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

/// A number as the options of a generator have it: 1000, "10k", "1.5M".
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let finite = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
    finite(text).or_else(|| {
        let factor = match text.chars().last()? {
            'k' | 'K' => 1e3,
            'M' => 1e6,
            'G' => 1e9,
            _ => return None,
        };
        // The unit is one byte.
        Some(finite(text[..text.len() - 1].trim())? * factor)
    })
}

/// A part as a text.
pub(crate) fn percent(part: f64) -> String {
    format!("{} %", (part * 1e6).round() / 1e4)
}

/// A number of any size, short.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        n if !(1e-4..1e15).contains(&n) => format!("{value:.3e}"),
        n if n >= 1e4 => format!("{value:.0}"),
        n => {
            let decimals = (3 - n.log10().floor() as i32).max(0) as usize;
            let text = format!("{value:.decimals$}");
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    }
}

/// A number above 0.
pub(crate) fn positive(value: &Value) -> Option<f64> {
    number(&word(value)?).filter(|number| *number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let texts = [0.0, 3.0, 0.15, 2.345_678, 19.36, 14500.4, -0.000_01, 1e20].map(figure);
        assert_eq!(texts, ["0", "3", "0.15", "2.346", "19.36", "14500", "-1.000e-5", "1.000e20"]);
    }

    #[test]
    fn numbers_may_have_a_unit() {
        assert_eq!(
            ["60", "1.5M", "10k", " 2 G"].map(number),
            [Some(60.0), Some(1.5e6), Some(1e4), Some(2e9)]
        );
        assert_eq!(["", "imix", "M", "1é", "inf", "NaN"].map(number), [None; 6]);
    }
}
