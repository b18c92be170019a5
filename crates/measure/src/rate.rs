//! Rates in packets and bits per second, requested and achieved.
//!
//! The length of a frame is that in software: without preamble, start delimiter, frame check sequence and
//! gap, so 60 to 1514 bytes on classic Ethernet. A bit rate *without overhead* (layer 2) counts these bytes;
//! *with overhead* (layer 1) it counts [`OVERHEAD`] bytes more for each frame, so that 60-byte frames fill 10
//! Gbit/s at 14.88 million per second.

use crate::{Bad, bad};
use std::fmt;

/// Bytes that a frame takes on the wire beyond what software sees.
pub const OVERHEAD: usize = wire::ethernet::WIRE_OVERHEAD;

/// Bits that a frame of `len` bytes counts for.
#[inline]
#[must_use]
pub const fn bits(len: usize, overhead: bool) -> u64 {
    (len as u64 + if overhead { OVERHEAD as u64 } else { 0 }) * 8
}

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the port accepts frames.
    Unlimited,
    /// Frames per second.
    Packets(u64),
    /// Bits per second.
    Bits {
        /// How many.
        per_s: u64,
        /// Whether each frame counts with [`OVERHEAD`].
        overhead: bool,
    },
}

impl Rate {
    /// Reads `1.5M`, `1500kpps` (packets per second), `10Gbps`, `2.5Gbit/s` (bits per second, without
    /// overhead), `10Gbps-l1` (with overhead), `max` (unlimited). Units are k, M and G, powers of ten.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, Bad> {
        let text = text.trim();
        let wrong = || {
            Bad(format!(
                "'{text}' is not a rate: use packets per second (1M, 14.88Mpps), bits per second (10Gbps; 10Gbps-l1 with \
                 Ethernet overhead), or max"
            ))
        };
        if text.eq_ignore_ascii_case("max") {
            return Ok(Self::Unlimited);
        }
        let lower = text.to_ascii_lowercase();
        let (rest, overhead) = match lower.strip_suffix("-l1") {
            Some(rest) => (rest, true),
            None => (lower.strip_suffix("-l2").unwrap_or(&lower), false),
        };
        let layered = rest.len() < lower.len();
        if let Some(number) =
            ["bit/s", "bits/s", "bps", "b/s"].iter().find_map(|suffix| rest.strip_suffix(suffix))
        {
            let per_s = number_of(number).ok_or_else(wrong)?;
            return if per_s > 0 { Ok(Self::Bits { per_s, overhead }) } else { zero(text) };
        }
        if layered {
            return Err(wrong());
        }
        let number = rest.strip_suffix("pps").unwrap_or(rest);
        match number_of(number).ok_or_else(wrong)? {
            0 => zero(text),
            n => Ok(Self::Packets(n)),
        }
    }

    /// The share of one of `of` senders; the shares add up to the rate.
    #[must_use]
    pub fn share(self, index: usize, of: usize) -> Self {
        let part = |n: u64| {
            let of = of.max(1) as u64;
            n / of + u64::from((index as u64) < n % of)
        };
        match self {
            Self::Unlimited => self,
            Self::Packets(n) => Self::Packets(part(n)),
            Self::Bits { per_s, overhead } => Self::Bits { per_s: part(per_s), overhead },
        }
    }
    /// A part of the rate, not less than one unit in a second; without a limit, there is none.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        let of = |n: u64| ((n as f64 * part).round() as u64).max(1);
        match self {
            Self::Unlimited => self,
            Self::Packets(n) => Self::Packets(of(n)),
            Self::Bits { per_s, overhead } => Self::Bits { per_s: of(per_s), overhead },
        }
    }
    /// Units of the rate (packets or bits) in a second; `None` if it has no limit.
    #[must_use]
    pub fn per_s(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::Packets(n) | Self::Bits { per_s: n, .. } => Some(n),
        }
    }
    /// Units that a frame of `len` bytes counts for.
    #[inline]
    #[must_use]
    pub fn cost(self, len: usize) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Packets(_) => 1,
            Self::Bits { overhead, .. } => bits(len, overhead),
        }
    }
    /// Frames per second if frames are `mean` bytes long on average; `None` if it has no limit.
    #[must_use]
    pub fn pps(self, mean: f64) -> Option<f64> {
        match self {
            Self::Unlimited => None,
            Self::Packets(n) => Some(n as f64),
            Self::Bits { per_s, overhead } => {
                Some(per_s as f64 / ((mean + if overhead { OVERHEAD as f64 } else { 0.0 }) * 8.0))
            }
        }
    }
}

fn zero(text: &str) -> Result<Rate, Bad> {
    bad(format!("'{text}': a rate of nothing sends nothing; use max for no limit"))
}

/// Reads a whole number with a unit or without: `1.5M` is 1500000. Up to a million millions.
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    number_of(&text.trim().to_ascii_lowercase())
}

/// [`number`] in lower case.
fn number_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, scale) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'm' => (&text[..text.len() - 1], 1e6),
        b'g' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number = number.trim();
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let n = number.parse::<f64>().ok()? * scale;
    // 1 Tbit/s is more than any port has.
    (n <= 1e12).then_some(n.round() as u64)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => f.write_str("max"),
            Self::Packets(n) => write!(f, "{n}pps"),
            Self::Bits { per_s, overhead } => write!(f, "{per_s}bps{}", if overhead { "-l1" } else { "" }),
        }
    }
}

/// What was sent or received, and in what time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Achieved {
    /// Frames.
    pub frames: u64,
    /// Their bytes, as software sees them.
    pub bytes: u64,
    /// Nanoseconds.
    pub ns: u64,
}

impl Achieved {
    /// The rate of frames from the first to the last: the time begins with the first frame, which is
    /// therefore not counted.
    #[must_use]
    pub fn between(frames: u64, bytes: u64, first_ns: u64, last_ns: u64) -> Self {
        let rest = frames.saturating_sub(1);
        let bytes = u128::from(bytes) * u128::from(rest) / u128::from(frames.max(1));
        Self { frames: rest, bytes: bytes as u64, ns: last_ns.saturating_sub(first_ns) }
    }
    fn per_s(&self, n: u64) -> f64 {
        if self.ns == 0 { 0.0 } else { n as f64 * 1e9 / self.ns as f64 }
    }
    /// Frames per second; 0 where no time has passed.
    #[must_use]
    pub fn pps(&self) -> f64 {
        self.per_s(self.frames)
    }
    /// Bits per second without overhead.
    #[must_use]
    pub fn l2_bps(&self) -> f64 {
        self.per_s(self.bytes * 8)
    }
    /// Bits per second with overhead.
    #[must_use]
    pub fn l1_bps(&self) -> f64 {
        self.per_s((self.bytes + self.frames * OVERHEAD as u64) * 8)
    }
    /// The part of the requested rate that was achieved; `None` if the request had no limit.
    #[must_use]
    pub fn of(&self, asked: Rate) -> Option<f64> {
        match asked {
            Rate::Unlimited => None,
            Rate::Packets(n) => Some(self.pps() / n as f64),
            Rate::Bits { per_s, overhead } => {
                Some(if overhead { self.l1_bps() } else { self.l2_bps() } / per_s as f64)
            }
        }
    }
}

/// A number with three or four digits and a unit that is a power of ten: `14.88 M`.
#[must_use]
pub fn short(n: f64) -> String {
    let (n, unit) = match n {
        n if n >= 999.5e6 => (n / 1e9, "G"),
        n if n >= 999.5e3 => (n / 1e6, "M"),
        n if n >= 999.5 => (n / 1e3, "k"),
        n => (n, ""),
    };
    let digits = if n >= 100.0 || (unit.is_empty() && n.fract() == 0.0) { 0 } else { 2 };
    format!("{n:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts() {
        for (text, rate) in [
            ("max", Rate::Unlimited),
            ("1000", Rate::Packets(1000)),
            ("1.5M", Rate::Packets(1_500_000)),
            ("14.88Mpps", Rate::Packets(14_880_000)),
            ("2 kpps", Rate::Packets(2000)),
            ("10Gbps", Rate::Bits { per_s: 10_000_000_000, overhead: false }),
            ("2.5Gbit/s", Rate::Bits { per_s: 2_500_000_000, overhead: false }),
            ("10Gbps-L1", Rate::Bits { per_s: 10_000_000_000, overhead: true }),
            ("8bps-l2", Rate::Bits { per_s: 8, overhead: false }),
        ] {
            assert_eq!(Rate::parse(text), Ok(rate), "{text}");
            assert_eq!(Rate::parse(&rate.to_string()), Ok(rate), "{text}");
        }
        assert_eq!(
            (number("1.5M"), number(" 20k"), number("7"), number("M"), number("1e3")),
            (Some(1_500_000), Some(20_000), Some(7), None, None)
        );
        for text in ["", "x", "0", "-1", "1e9", "inf", "nan", "1T", "10G-l1", "0bps", "pps", "1..2M", "9999G"]
        {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_papers_figures() {
        // A 10 Gbit/s link carries 14.88 million frames of 60 bytes, or 812,744 of 1514.
        let link = Rate::Bits { per_s: 10_000_000_000, overhead: true };
        assert_eq!(link.pps(60.0).unwrap().floor(), 14_880_952.0);
        assert_eq!(link.pps(1514.0).unwrap().floor(), 812_743.0);
        let sent = Achieved { frames: 14_880_952, bytes: 14_880_952 * 60, ns: 1_000_000_000 };
        assert!((sent.l1_bps() - 1e10).abs() < 1000.0 && (sent.l2_bps() - 7_142_856_960.0).abs() < 1.0);
        assert!((sent.of(link).unwrap() - 1.0).abs() < 1e-6);
        assert!((sent.of(Rate::Packets(14_880_952)).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!((sent.of(Rate::Unlimited), Achieved::default().pps()), (None, 0.0));
    }

    #[test]
    fn numbers_for_people() {
        for (n, text) in [
            (0.0, "0 "),
            (12.0, "12 "),
            (1.25, "1.25 "),
            (999.9, "1.00 k"),
            (14_880_952.0, "14.88 M"),
            (1e10, "10.00 G"),
        ] {
            assert_eq!(short(n), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn shares_add_up(n in 1u64..1_000_000_000_000, of in 1usize..64) {
            let sum = |rate: Rate| (0..of).map(|i| rate.share(i, of).per_s().unwrap()).sum::<u64>();
            prop_assert_eq!(sum(Rate::Packets(n)), n);
            prop_assert_eq!(sum(Rate::Bits { per_s: n, overhead: true }), n);
        }

        #[test]
        fn overhead_is_24_bytes(len in 60usize..9000) {
            prop_assert_eq!(bits(len, true) - bits(len, false), 192);
            prop_assert_eq!(bits(len, false), len as u64 * 8);
        }
    }
}
