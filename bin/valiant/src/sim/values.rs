//! The values of options of `valiant sim`: times, fractions, numbers of packets, failures, varied values.

use measure::sizes::Sizes;
use simulator::{Failure, Part};
use std::time::Duration;

/// A time, in nanoseconds; or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Option<u64>);

impl Time {
    pub(super) const fn ns(self) -> u64 {
        match self.0 {
            Some(ns) => ns,
            None => 0,
        }
    }
    pub(super) fn text(self) -> String {
        self.0.map_or_else(|| "none".to_owned(), span)
    }
}

pub(super) fn span(ns: u64) -> String {
    let (value, unit) = match ns {
        1_000_000_000.. => (ns as f64 / 1e9, "s"),
        1_000_000.. => (ns as f64 / 1e6, "ms"),
        1_000.. => (ns as f64 / 1e3, "us"),
        _ => (ns as f64, "ns"),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn time(text: &str) -> Result<Time, String> {
    lang::args::parse::<Duration>(text)
        .ok()
        .and_then(|t| Some(Time(Some(u64::try_from(t.as_nanos()).ok()?))))
        .ok_or_else(|| format!("'{text}' is not a time: use a number with us, ms or s, as in 24us"))
}

pub(super) fn time_or_none(text: &str) -> Result<Time, String> {
    if text == "none" { Ok(Time(None)) } else { time(text) }
}

pub(super) fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1000.0 => Ok(value),
        _ => Err("a number above 0 is needed; 1 is the load that the matrix gives".to_owned()),
    }
}

pub(super) fn count(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value * unit >= 1.0 && value * unit <= 1e12 => Ok(value * unit),
        _ => Err("a number of packets, as in 500k or 2M".to_owned()),
    }
}

pub(super) fn sizes(text: &str) -> Result<Sizes, String> {
    Sizes::parse(text).map_err(|e| e.to_string())
}

pub(super) fn failure(text: &str) -> Result<Failure, String> {
    let wrong = || format!("'{text}' is not a failure: use node:3@2ms or link:0-1@2ms-9ms");
    let (what, when) = text.split_once('@').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
    let part = if let Some(node) = what.strip_prefix("node:") {
        Part::Node(number(node)?)
    } else {
        let (from, to) = what.strip_prefix("link:").and_then(|l| l.split_once('-')).ok_or_else(wrong)?;
        Part::Link(number(from)?, number(to)?)
    };
    let (at, until) = when.split_once('-').map_or((when, None), |(at, until)| (at, Some(until)));
    Ok(Failure { part, at_ns: time(at)?.ns(), until_ns: until.map(time).transpose()?.map(Time::ns) })
}

/// The option that is varied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Over {
    pub(super) key: Key,
    pub(super) values: Vec<(String, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Delta,
    Load,
    Ports,
    Skew,
    Jitter,
    Train,
}

const KEYS: [(&str, Key); 6] = [
    ("delta", Key::Delta),
    ("load", Key::Load),
    ("ports", Key::Ports),
    ("skew", Key::Skew),
    ("jitter", Key::Jitter),
    ("train", Key::Train),
];

impl Key {
    pub(super) fn name(self) -> &'static str {
        KEYS.iter().find(|k| k.1 == self).map_or("", |k| k.0)
    }
}

pub(super) fn over(text: &str) -> Result<Over, String> {
    let key = text.split_once('=').and_then(|(key, rest)| Some((KEYS.iter().find(|k| k.0 == key)?.1, rest)));
    let Some((key, rest)) = key else {
        let names: Vec<&str> = KEYS.iter().map(|k| k.0).collect();
        return Err(format!("KEY=V1,V2,... with one of {}", names.join(", ")));
    };
    let value = |text: &str| -> Result<(String, f64), String> {
        let value = match key {
            Key::Delta if text == "none" => 0.0,
            Key::Delta | Key::Skew | Key::Jitter => time(text)?.ns() as f64,
            Key::Load => part(text)?,
            Key::Train => text.parse().map_err(|_| format!("'{text}' is not a number"))?,
            Key::Ports => {
                let n: u16 = text.parse().ok().filter(|n| (2..=4096).contains(n)).ok_or("2 to 4096 ports")?;
                n.into()
            }
        };
        Ok((text.to_owned(), value))
    };
    Ok(Over { key, values: rest.split(',').map(value).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_what_is_varied_are_read() {
        assert_eq!(
            failure("node:3@2ms"),
            Ok(Failure { part: Part::Node(3), at_ns: 2_000_000, until_ns: None })
        );
        assert_eq!(
            failure("link:0-1@2ms-9ms"),
            Ok(Failure { part: Part::Link(0, 1), at_ns: 2_000_000, until_ns: Some(9_000_000) })
        );
        for wrong in ["node:3", "node:x@1ms", "link:1@1ms", "3@1ms", "node:3@soon", "node:3@1ms-"] {
            assert!(failure(wrong).is_err(), "{wrong}");
        }
        let deltas = over("delta=none,10us,1ms").unwrap();
        assert_eq!(deltas.values.iter().map(|v| v.1).collect::<Vec<_>>(), [0.0, 1e4, 1e6]);
        for wrong in ["delta", "speed=1", "delta=1,x", "ports=1", "load=0"] {
            assert!(over(wrong).is_err(), "{wrong}");
        }
        assert_eq!((count("2M"), count("500k")), (Ok(2e6), Ok(5e5)));
        assert_eq!(
            [0, 999, 24_000, 1_500_000, 2_000_000_000].map(span),
            ["0ns", "999ns", "24us", "1.5ms", "2s"]
        );
    }
}
