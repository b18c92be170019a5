//! Numbers: integers, decimals, fixed-point reals, booleans.

use super::fromarg::{FromArg, PARSE_ERROR};
use super::names::NameDb;

/// What Click says of text that is no integer.
pub(crate) const INVALID_NUMBER: &str = "invalid number";

/// Sign and magnitude of an integer in Click's notation: optional sign, `0x`, `0b` or `0` (octal) in front,
/// `_` between digits. The magnitude stops at the largest number. `None` if the text is not an integer.
fn parse_integer(text: &str) -> Option<(bool, u128)> {
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = body.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match lower.as_deref() {
        Some("0x") => (16, &body[2..]),
        Some("0b") => (2, &body[2..]),
        _ if body.starts_with('0') => (8, body),
        _ => (10, body),
    };
    let mut value: u128 = 0;
    let mut before_was_digit = false;
    for c in digits.chars() {
        if c == '_' && before_was_digit {
            before_was_digit = false;
            continue;
        }
        let d = c.to_digit(base)?;
        value = value.saturating_mul(u128::from(base)).saturating_add(u128::from(d));
        before_was_digit = true;
    }
    before_was_digit.then_some((negative, value))
}

/// Parses an unsigned integer of at most `max`.
///
/// # Errors
/// `invalid number`, or `out of range, bound N`.
pub fn parse_unsigned(text: &str, max: u64) -> Result<u64, String> {
    match parse_integer(text) {
        Some((false, n)) if n <= u128::from(max) => Ok(n as u64),
        Some((false, _)) => Err(format!("out of range, bound {max}")),
        _ => Err(INVALID_NUMBER.into()),
    }
}

/// Parses an unsigned integer. One that does not fit becomes the largest that does, and the second part true.
/// `None` if it is no number.
#[must_use]
pub fn parse_saturating(text: &str) -> Option<(u64, bool)> {
    let (negative, n) = parse_integer(text)?;
    let fits = u64::try_from(n);
    (!negative).then_some((fits.unwrap_or(u64::MAX), fits.is_err()))
}

/// Parses a signed integer of at least `min` and at most `max`.
///
/// # Errors
/// `invalid number`, or `out of range, bound N`.
pub fn parse_signed(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let (negative, n) = parse_integer(text).ok_or(INVALID_NUMBER)?;
    let n = i128::try_from(n).unwrap_or(i128::MAX);
    let value = if negative { -n } else { n };
    if value < i128::from(min) {
        Err(format!("out of range, bound {min}"))
    } else if value > i128::from(max) {
        Err(format!("out of range, bound {max}"))
    } else {
        Ok(value as i64)
    }
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl FromArg for $t {
            const EXPECTS: &'static str = "an unsigned integer";
            fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
                parse_unsigned(text, u64::try_from(<$t>::MAX).unwrap_or(u64::MAX)).map(|n| n as $t)
            }
        }
    )*};
}

macro_rules! signed {
    ($($t:ty),*) => {$(
        impl FromArg for $t {
            const EXPECTS: &'static str = "an integer";
            fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
                let min = i64::try_from(<$t>::MIN).unwrap_or(i64::MIN);
                parse_signed(text, min, i64::try_from(<$t>::MAX).unwrap_or(i64::MAX)).map(|n| n as $t)
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, usize);
signed!(i8, i16, i32, i64, isize);

impl FromArg for f64 {
    const EXPECTS: &'static str = "a real number";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        let ok = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let value: f64 =
            if ok { text.parse().map_err(|_| PARSE_ERROR)? } else { return Err(PARSE_ERROR.into()) };
        if value.is_infinite() {
            let bound = if value > 0.0 { f64::MAX } else { f64::MIN };
            return Err(format!("out of range, bound {bound:e}"));
        }
        Ok(value)
    }
}

impl FromArg for bool {
    const EXPECTS: &'static str = "'true' or 'false'";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        match text {
            "1" | "true" | "yes" | "t" | "y" => Ok(true),
            "0" | "false" | "no" | "f" | "n" => Ok(false),
            _ => Err(PARSE_ERROR.into()),
        }
    }
}

/// A decimal number as written: `mantissa * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl Decimal {
    /// Significant digits; further digits are below the precision of every result.
    const DIGITS: u32 = 25;

    /// Reads `[+-]digits[.digits][e[+-]digits]` with `_` between digits.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let s = text.as_bytes();
        let mut i = usize::from(matches!(s.first(), Some(b'+' | b'-')));
        let mut d = Decimal { negative: s.first() == Some(&b'-'), mantissa: 0, exponent: 0 };
        let (mut digits, mut point, mut any, mut last_digit) = (0u32, false, false, false);
        while i < s.len() {
            match s[i] {
                b'_' if last_digit => last_digit = false,
                b'.' if !point && (last_digit || !any) => {
                    point = true;
                    last_digit = false;
                }
                c @ b'0'..=b'9' => {
                    (any, last_digit) = (true, true);
                    if digits < Self::DIGITS {
                        d.mantissa = d.mantissa * 10 + u128::from(c - b'0');
                        digits += u32::from(d.mantissa > 0);
                        d.exponent -= i32::from(point);
                    } else {
                        d.exponent = d.exponent.saturating_add(i32::from(!point));
                    }
                }
                _ => break,
            }
            i += 1;
        }
        if !any {
            return None;
        }
        if matches!(s.get(i), Some(b'e' | b'E')) {
            let e = text.get(i + 1..)?;
            let body = e.strip_prefix(['+', '-']).unwrap_or(e);
            if body.is_empty() || !body.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let n = body.parse::<i32>().unwrap_or(1_000_000).min(1_000_000);
            d.exponent = d.exponent.saturating_add(if e.starts_with('-') { -n } else { n });
            i = s.len();
        }
        (i == s.len()).then_some(d)
    }

    /// The magnitude times `factor * 10^power`, rounded to the nearest integer; `None` if it is too large for
    /// any result. `factor` is at most 2^40.
    pub(crate) fn scaled(self, factor: u128, power: i32) -> Option<u128> {
        let value = self.mantissa * factor;
        let exponent = self.exponent.saturating_add(power);
        if value == 0 {
            return Some(0);
        }
        if exponent >= 0 {
            let ten = 10u128.checked_pow(exponent.unsigned_abs())?;
            return value.checked_mul(ten);
        }
        let Some(div) = 10u128.checked_pow(exponent.unsigned_abs()) else { return Some(0) };
        Some(value / div + u128::from(value % div >= div - div / 2))
    }
}

/// Parses a non-negative real to an integer in units of 2^-`bits` (`bits` at most 32), rounded.
///
/// # Errors
/// `invalid number`, or `out of range, bound N`.
pub fn parse_real2(text: &str, bits: u32) -> Result<u32, String> {
    let d = Decimal::parse(text).filter(|d| !d.negative).ok_or(PARSE_ERROR)?;
    let scaled = d.scaled(1 << bits.min(32), 0);
    scaled
        .and_then(|n| u32::try_from(n).ok())
        .ok_or_else(|| format!("out of range, bound {}", f64::from(u32::MAX) / (1u64 << bits.min(32)) as f64))
}

/// Parses a real to an integer in units of 10^-`digits`, rounded.
///
/// # Errors
/// `parse error`, or `out of range`.
pub fn parse_real10(text: &str, digits: u32) -> Result<i64, String> {
    let d = Decimal::parse(text).ok_or(PARSE_ERROR)?;
    let n = d.scaled(1, digits.min(30) as i32).and_then(|n| i64::try_from(n).ok()).ok_or("out of range")?;
    Ok(if d.negative { -n } else { n })
}

/// A non-negative fixed-point real with `BITS` bits of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Real2<const BITS: u32>(pub u32);

impl<const BITS: u32> FromArg for Real2<BITS> {
    const EXPECTS: &'static str = "a non-negative real number";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        parse_real2(text, BITS).map(Real2)
    }
}

/// A fixed-point real with `DIGITS` decimal digits of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Real10<const DIGITS: u32>(pub i64);

impl<const DIGITS: u32> FromArg for Real10<DIGITS> {
    const EXPECTS: &'static str = "a real number";
    fn from_arg(text: &str, _: &NameDb) -> Result<Self, String> {
        parse_real10(text, DIGITS).map(Real10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;

    #[test]
    fn integers() {
        for (text, want) in [
            ("0", Ok(0)),
            ("255", Ok(255)),
            ("+7", Ok(7)),
            ("0x1F", Ok(31)),
            ("0b101", Ok(5)),
            ("017", Ok(15)),
            ("1_0_0", Ok(100)),
            ("256", Err("out of range, bound 255")),
            ("99999999999999999999999999999999999999999999", Err("out of range, bound 255")),
            ("-1", Err("invalid number")),
            ("08", Err("invalid number")),
            ("0x", Err("invalid number")),
            ("1__0", Err("invalid number")),
            ("1_", Err("invalid number")),
            ("", Err("invalid number")),
            ("1 ", Err("invalid number")),
            ("a", Err("invalid number")),
        ] {
            assert_eq!(parse::<u8>(text), want.map_err(String::from), "{text}");
        }
        assert_eq!(parse::<i8>("-128"), Ok(-128));
        assert_eq!(parse::<i8>("-129"), Err("out of range, bound -128".into()));
        assert_eq!(parse::<i8>("128"), Err("out of range, bound 127".into()));
        assert_eq!(parse::<u64>("0xFFFFFFFFFFFFFFFF"), Ok(u64::MAX));
        assert_eq!(parse::<i64>("-9223372036854775808"), Ok(i64::MIN));
    }

    #[test]
    fn reals() {
        assert_eq!(parse::<f64>("1.5e3"), Ok(1500.0));
        assert_eq!(parse::<f64>("inf"), Err("parse error".into()));
        assert!(parse::<f64>("1e999").unwrap_err().starts_with("out of range"));
        assert_eq!(parse::<Real2<16>>("0.5"), Ok(Real2(0x8000)));
        assert_eq!(parse::<Real2<16>>("1e-9"), Ok(Real2(0)));
        assert_eq!(parse::<Real2<16>>("65536").unwrap_err(), "out of range, bound 65535.99998474121");
        assert_eq!(parse::<Real2<16>>("-1"), Err("parse error".into()));
        assert_eq!(parse::<Real10<3>>("-1.0005"), Ok(Real10(-1001)));
        assert_eq!(parse::<Real10<3>>(".1"), Ok(Real10(100)));
        assert_eq!(parse::<Real10<0>>("0.000_000_01e10"), Ok(Real10(100)));
        assert_eq!(parse::<Real10<3>>("1e400"), Err("out of range".into()));
        assert_eq!(parse::<Real10<3>>("+10."), Ok(Real10(10_000)));
        for bad in ["", ".", "-", "1e", "1e+", "1..2", "1x", "e5", "_1"] {
            assert_eq!(parse::<Real10<3>>(bad), Err("parse error".into()), "{bad}");
        }
    }

    #[test]
    fn booleans() {
        assert_eq!(parse::<bool>("yes"), Ok(true));
        assert_eq!(parse::<bool>("f"), Ok(false));
        assert!(parse::<bool>("True").is_err());
    }
}
