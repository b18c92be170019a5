//! The text form of numbers and times in Click's handlers and in `Print`, and the reading of handler values.

use runtime::FromArg;
use std::time::Duration;

/// Reads a handler's value; `wrong` is the error message if it cannot be read.
pub(crate) fn value<T: FromArg>(text: &str, wrong: &str) -> Result<T, String> {
    read(text).map_err(|_| wrong.to_owned())
}

/// Reads a handler's value, with the error message of its type.
pub(crate) fn read<T: FromArg>(text: &str) -> Result<T, String> {
    T::from_arg(text.trim(), &runtime::handler_names())
}

/// A point in time, or a signed duration, in seconds: six decimals, or nine when microseconds are not precise
/// enough.
pub(crate) fn timestamp(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest.is_multiple_of(1000) {
        format!("{sign}{seconds}.{:06}", rest / 1000)
    } else {
        format!("{sign}{seconds}.{rest:09}")
    }
}

/// Year, month and day, both from 1, of a number of days since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is the last one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

/// A point in time as RFC 3339 writes it, in UTC: with the fraction of the second that it has.
pub(crate) fn utc(ns: u64) -> String {
    let (seconds, fraction) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let ((year, month, day), second) = (civil(seconds / 86_400), seconds % 86_400);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:09}") };
    let (fraction, second) = (fraction.trim_end_matches('0'), second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// A point in time as C's `ctime` writes it, in UTC: `Sat Nov 28 14:01:03 2026`.
pub(crate) fn date(ns: u64) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const WEEKDAYS: &str = "ThuFriSatSunMonTueWed";
    let name =
        |names: &'static str, at: u64| names.get(at as usize * 3..).and_then(|n| n.get(..3)).unwrap_or("");
    let (days, second) = (ns / 86_400_000_000_000, ns / 1_000_000_000 % 86_400);
    let (year, month, day) = civil(days);
    let (weekday, month) = (name(WEEKDAYS, days % 7), name(MONTHS, month - 1));
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// The nanoseconds of a duration; those of longer ones than 584 years are as many as there is room for.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration with its unit: `500ms`, `20us`, `3ns` below a second, `1.500000s` from there on.
pub(crate) fn interval(ns: u64) -> String {
    match ns {
        1_000_000_000.. => format!("{}s", timestamp(i64::try_from(ns).unwrap_or(i64::MAX))),
        _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1000) => format!("{}us", ns / 1000),
        _ => format!("{ns}ns"),
    }
}

/// `value` / 2^`bits` with the fewest decimals that give the same fixed-point number when they are read.
pub(crate) fn real2(value: u64, bits: u32) -> String {
    let one = 1u128 << bits;
    let (whole, fraction) = (value >> bits, u128::from(value) & (one - 1));
    if fraction == 0 {
        return whole.to_string();
    }
    let mut ten = 1u128;
    for digits in 1..=bits as usize {
        ten *= 10;
        let decimals = (fraction * ten + one / 2) >> bits;
        // The nearest fixed-point number to these decimals, rounded half up.
        if decimals < ten && (decimals * one + ten / 2) / ten == fraction {
            return format!("{whole}.{decimals:0digits$}");
        }
    }
    (value as f64 / one as f64).to_string()
}

/// A floating-point number with up to twelve significant digits, as C's `%.12g`. A result that is no number
/// is negative on x86-64.
pub(crate) fn general(x: f64) -> String {
    if x.is_nan() {
        return "-nan".to_owned();
    }
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let scientific = format!("{x:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s.to_owned() }
    };
    if (-4..12).contains(&exponent) {
        trim(&format!("{x:.*}", usize::try_from(11 - exponent).unwrap_or(0)))
    } else {
        format!("{}e{}{:02}", trim(mantissa), if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(1_795_874_463_137_034_914), "Sat Nov 28 14:01:03 2026");
        assert_eq!(date(951_782_400_000_000_000), "Tue Feb 29 00:00:00 2000");
        let at = |seconds: u64| utc(seconds * 1_000_000_000);
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(1_735_689_600), "2025-01-01T00:00:00Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(utc(1_000_000_000_250_000_000), "2001-09-09T01:46:40.25Z");
        assert!(utc(u64::MAX).starts_with("2554-07-21T23:34:33"));
    }

    #[test]
    fn times() {
        assert_eq!(timestamp(1_000_000_000_500_000_000), "1000000000.500000");
        assert_eq!(timestamp(1), "0.000000001");
        assert_eq!(timestamp(-1_500_000_000), "-1.500000");
        assert_eq!(interval(500_000_000), "500ms");
        assert_eq!(interval(20_000), "20us");
        assert_eq!(interval(7), "7ns");
        assert_eq!(interval(1_500_000_000), "1.500000s");
    }

    #[test]
    fn fixed_point_reads_back() {
        assert_eq!(real2(1 << 28, 28), "1");
        assert_eq!(real2(1 << 27, 28), "0.5");
        assert_eq!(real2(53_687_091, 28), "0.2");
        assert_eq!(real2(1, 10), "0.001");
        assert_eq!(real2(3 << 9, 10), "1.5");
        for n in 0..1u64 << 10 {
            let back: f64 = real2(n, 10).parse().unwrap();
            assert_eq!((back * 1024.0).round() as u64, n);
        }
    }

    #[test]
    fn twelve_digits() {
        assert_eq!(general(1000.0), "1000");
        assert_eq!(general(1.0 / 3.0), "0.333333333333");
        assert_eq!(general(1e15), "1e+15");
        assert_eq!(general(0.00001), "1e-05");
        assert_eq!(general(0.0), "0");
        assert_eq!(general(123_456.789), "123456.789");
    }
}
