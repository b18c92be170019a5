//! Line rates in bits a second, as text.

use std::fmt;

/// A rate: `10G`, `2.5Gbps`, `100M`.
///
/// # Errors
/// What is wrong with it.
pub fn bps(text: &str) -> Result<u64, String> {
    let number = text.trim();
    let number = number.strip_suffix("bps").unwrap_or(number);
    let (number, unit) = match number.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&number[..at], 1e3),
        Some((at, 'M')) => (&number[..at], 1e6),
        Some((at, 'G')) => (&number[..at], 1e9),
        Some((at, 'T')) => (&number[..at], 1e12),
        _ => (number, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value * unit >= 1.0 && value * unit <= 1e14 => {
            Ok((value * unit).round() as u64)
        }
        Ok(_) => Err("a rate is from 1bps to 100T".to_owned()),
        Err(_) => Err("a rate is a number with k, M, G or T, as in 10G".to_owned()),
    }
}

/// A rate for people: `625 Mbps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bps(pub u64);

impl fmt::Display for Bps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.0 as f64;
        let (value, unit) = match self.0 {
            1_000_000_000_000.. => (rate / 1e12, "Tbps"),
            1_000_000_000.. => (rate / 1e9, "Gbps"),
            1_000_000.. => (rate / 1e6, "Mbps"),
            1_000.. => (rate / 1e3, "kbps"),
            _ => (rate, "bps"),
        };
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        assert_eq!(
            ["10G", "2.5Gbps", "100M", "7"].map(bps),
            [10_000_000_000, 2_500_000_000, 100_000_000, 7].map(Ok)
        );
        for wrong in ["", "G", "-1G", "nanG", "1P", "1e99", "0", "€"] {
            assert!(bps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_shown() {
        let text = |rate: u64| Bps(rate).to_string();
        assert_eq!([0, 7, 1000, 625_000_000].map(text), ["0 bps", "7 bps", "1 kbps", "625 Mbps"]);
        assert_eq!([2_500_000_000, 1_234_567_000_000].map(text), ["2.5 Gbps", "1.235 Tbps"]);
    }
}
