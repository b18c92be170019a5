//! Quantities with units: times, bandwidths, rates.

use super::fromarg::{FromArg, PARSE_ERROR};
use super::names::NameDb;
use super::number::Decimal;
use std::time::Duration;

/// A unit: its name and what one of it is, `factor * 10^power` of the base unit.
struct Unit {
    name: &'static str,
    factor: u128,
    power: i32,
}

const fn unit(name: &'static str, factor: u128, power: i32) -> Unit {
    Unit { name, factor, power }
}

const SECONDS: [Unit; 8] = [
    unit("s", 1, 0),
    unit("sec", 1, 0),
    unit("m", 60, 0),
    unit("min", 60, 0),
    unit("h", 3600, 0),
    unit("hr", 3600, 0),
    unit("d", 86_400, 0),
    unit("day", 86_400, 0),
];
const SECONDS_PREFIXES: [(char, i32); 3] = [('m', -3), ('u', -6), ('n', -9)];

/// Bytes per second; a bit is 0.125 bytes.
const BANDWIDTH: [Unit; 5] =
    [unit("baud", 125, -3), unit("bps", 125, -3), unit("b/s", 125, -3), unit("Bps", 1, 0), unit("B/s", 1, 0)];
const BANDWIDTH_PREFIXES: [(char, i32); 4] = [('k', 3), ('K', 3), ('M', 6), ('G', 9)];

const RATE: [Unit; 2] = [unit("pps", 1, 0), unit("/s", 1, 0)];

/// Splits a number from its unit: the number, factor, power of ten, and whether there was a unit.
fn split_unit<'a>(text: &'a str, units: &[Unit], prefixes: &[(char, i32)]) -> (&'a str, u128, i32, bool) {
    for u in units {
        let Some(rest) = text.strip_suffix(u.name) else { continue };
        let mut power = u.power;
        let mut number = rest;
        for (c, p) in prefixes {
            if let Some(shorter) = rest.strip_suffix(*c) {
                number = shorter;
                power += p;
                break;
            }
        }
        return (number.trim_end_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']), u.factor, power, true);
    }
    (text, 1, 0, false)
}

/// Nanoseconds of a time: sign and magnitude.
fn nanoseconds(text: &str) -> Result<(bool, u128), String> {
    let (number, factor, power, _) = split_unit(text, &SECONDS, &SECONDS_PREFIXES);
    let d = Decimal::parse(number).ok_or(PARSE_ERROR)?;
    let ns = d.scaled(factor, power + 9).ok_or("out of range")?;
    Ok((d.negative, ns))
}

impl FromArg for Duration {
    const EXPECTS: &'static str = "a time, such as '1.5', '10ms' or '3min'; the default unit is seconds";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        match nanoseconds(text)? {
            (true, _) => Err(PARSE_ERROR.into()),
            (false, ns) => {
                let secs = u64::try_from(ns / 1_000_000_000).map_err(|_| "out of range")?;
                Ok(Duration::new(secs, (ns % 1_000_000_000) as u32))
            }
        }
    }
}

/// A point in time or a signed time span, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Nanoseconds since the epoch, or of the span.
    pub ns: i64,
}

impl FromArg for Timestamp {
    const EXPECTS: &'static str = "a time in seconds";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        let (negative, ns) = nanoseconds(text)?;
        let ns = i64::try_from(ns).map_err(|_| "out of range")?;
        Ok(Timestamp { ns: if negative { -ns } else { ns } })
    }
}

/// A bandwidth in bytes per second. Written in `bps`, `b/s`, `baud` (bits) or `Bps`, `B/s` (bytes) with `k`,
/// `M`, `G`; without a unit it is bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(pub u64);

impl FromArg for Bandwidth {
    const EXPECTS: &'static str =
        "a bandwidth, such as '100Mbps' or '10 kB/s'; the default unit is bytes per second";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        let (number, factor, power, _) = split_unit(text, &BANDWIDTH, &BANDWIDTH_PREFIXES);
        let d = Decimal::parse(number).filter(|d| !d.negative).ok_or(PARSE_ERROR)?;
        let n = d.scaled(factor, power).and_then(|n| u64::try_from(n).ok()).ok_or("out of range")?;
        Ok(Bandwidth(n))
    }
}

impl Bandwidth {
    /// The bandwidth as Click prints it: in kbps, Mbps, Gbps or MBps.
    pub fn unparse(self) -> String {
        let show = |n: u128, digits: u32, unit: &str| {
            let one = 10u128.pow(digits);
            let fraction = format!("{:0width$}", n % one, width = digits as usize);
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            format!("{}{point}{fraction}{unit}", n / one)
        };
        let x = u128::from(self.0);
        match x {
            0x2000_0000.. => show(x, 6, "MBps"),
            125_000_000.. => show(x * 8, 9, "Gbps"),
            125_000.. => show(x * 8, 6, "Mbps"),
            _ => show(x * 8, 3, "kbps"),
        }
    }
}

/// Events per second: a number, or one with `k`, `M`, `G` and `pps` or `/s`, rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

impl FromArg for Rate {
    const EXPECTS: &'static str = "a rate per second";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        let (number, factor, power, with_unit) = split_unit(text, &RATE, &BANDWIDTH_PREFIXES);
        if !with_unit && let Ok(n) = u64::from_arg(text, names) {
            return Ok(Rate(n));
        }
        let d = Decimal::parse(number).filter(|d| !d.negative).ok_or(PARSE_ERROR)?;
        let n = d.scaled(factor, power).and_then(|n| u64::try_from(n).ok()).ok_or("out of range")?;
        Ok(Rate(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    #[test]
    fn times() {
        let ms = |s: &str| parse::<Duration>(s).map(|d| d.as_micros());
        for (text, us) in [
            ("3600", 3_600_000_000),
            ("3600s", 3_600_000_000),
            ("3.6e6 msec", 3_600_000_000),
            ("60m", 3_600_000_000),
            ("1 hr", 3_600_000_000),
            ("10ms", 10_000),
            ("1.5", 1_500_000),
            ("3min", 180_000_000),
            ("250us", 250),
            ("2000 ns", 2),
            ("1d", 86_400_000_000),
        ] {
            assert_eq!(ms(text), Ok(us), "{text}");
        }
        for bad in ["", "s", "ms", "-1", "1 x", "1e400s"] {
            assert!(ms(bad).is_err(), "{bad}");
        }
        assert_eq!(parse::<Timestamp>("-1.5"), Ok(Timestamp { ns: -1_500_000_000 }));
        assert_eq!(
            parse::<Timestamp>("1189383079.180265331"),
            Ok(Timestamp { ns: 1_189_383_079_180_265_331 })
        );
        assert_eq!(parse::<Timestamp>("1e18"), Err("out of range".into()));
    }

    #[test]
    fn bandwidths() {
        for (text, n) in [
            ("1Mbps", 125_000),
            ("10 kB/s", 10_000),
            ("1000", 1000),
            ("9600baud", 1200),
            ("1 Gbps", 125_000_000),
            ("100Gbps", 12_500_000_000),
            ("4b/s", 1),
            ("3b/s", 0),
        ] {
            assert_eq!(parse::<Bandwidth>(text), Ok(Bandwidth(n)), "{text}");
        }
        assert!(parse::<Bandwidth>("10k").is_err());
        assert_eq!(Bandwidth(125_000).unparse(), "1Mbps");
        assert_eq!(Bandwidth(187_500).unparse(), "1.5Mbps");
        assert_eq!(Bandwidth(0).unparse(), "0kbps");
    }

    #[test]
    fn rates() {
        assert_eq!(parse::<Rate>("0x10"), Ok(Rate(16)));
        assert_eq!(parse::<Rate>("1.5Mpps"), Ok(Rate(1_500_000)));
        assert_eq!(parse::<Rate>("2.5"), Ok(Rate(3)));
        assert!(parse::<Rate>("-1").is_err());
    }
}
