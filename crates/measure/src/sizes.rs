//! Frame sizes: one, a range, or a mix. Bytes as software sees them, without the frame check sequence.

use crate::rng::Rng;
use crate::{Bad, bad};
use std::fmt;

/// The longest frame that can be made: 9 kB jumbo frames and their header.
pub const LONGEST: usize = 9216;
/// The longest pattern of a mix.
const MAX_WEIGHT: u32 = 10_000;

/// The lengths of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All frames have the same size.
    Fixed(usize),
    /// Uniform at random, both ends included.
    Range(usize, usize),
    /// Sizes with weights.
    Mix(Vec<(usize, u32)>),
}

/// The simple mix of Internet packet sizes: 40, 576 and 1500 bytes of IP in proportions of 7 to 4 to 1, as
/// frames.
pub const IMIX: [(usize, u32); 3] = [(60, 7), (590, 4), (1514, 1)];
/// The mix of the project FD.io CSIT, `IMIX_v4_1`: frames of 64, 570 and 1518 bytes with their check
/// sequences.
pub const IMIX_CSIT: [(usize, u32); 3] = [(60, 7), (566, 4), (1514, 1)];

impl Sizes {
    /// Reads `60`, `60-1514`, `imix` (or `imix-trex`), `imix-csit`, or sizes with weights:
    /// `60:7,590:4,1514:1`. Commas and spaces separate alike.
    ///
    /// # Errors
    /// Anything else, sizes below 60 or above [`LONGEST`].
    pub fn parse(text: &str) -> Result<Self, Bad> {
        let text = text.trim();
        let size = |text: &str| -> Result<usize, Bad> {
            let n: usize = text.trim().parse().map_err(|_| {
                Bad(format!("'{text}' is not a frame size: use bytes (60), a range (60-1514), imix, imix-csit, or a mix (60:7,1514:1)"))
            })?;
            if (wire::ethernet::MIN_FRAME_LEN..=LONGEST).contains(&n) {
                Ok(n)
            } else {
                bad(format!(
                    "frames of {n} bytes cannot be sent: 60 to {LONGEST}, without the check sequence"
                ))
            }
        };
        // That of TRex is the same as the simple one.
        let mixes = [("imix", IMIX), ("imix-trex", IMIX), ("imix-csit", IMIX_CSIT)];
        if let Some((_, mix)) = mixes.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
            return Ok(Self::Mix(mix.to_vec()));
        }
        if text.contains([':', ',', ' ']) {
            let mut mix = Vec::new();
            for part in text.split([',', ' ']).filter(|p| !p.is_empty()) {
                let (len, weight) = part.split_once(':').unwrap_or((part, "1"));
                let weight = weight.trim().parse::<u32>().ok().filter(|w| (1..=MAX_WEIGHT).contains(w));
                let Some(weight) = weight else {
                    return bad(format!("'{part}': a weight is a number from 1 to {MAX_WEIGHT}"));
                };
                mix.push((size(len)?, weight));
            }
            return match mix.iter().map(|m| m.1).sum::<u32>() {
                0 => bad("a mix needs sizes"),
                1..=MAX_WEIGHT => Ok(Self::Mix(mix)),
                _ => bad(format!("the weights of a mix add up to {MAX_WEIGHT} at most")),
            };
        }
        match text.split_once('-') {
            None => Ok(Self::Fixed(size(text)?)),
            Some((first, last)) => match (size(first)?, size(last)?) {
                (a, b) if a == b => Ok(Self::Fixed(a)),
                (a, b) if a < b => Ok(Self::Range(a, b)),
                (a, b) => bad(format!("'{text}' is no range: {a} is more than {b}")),
            },
        }
    }
    /// The shortest and the longest.
    #[must_use]
    pub fn bounds(&self) -> (usize, usize) {
        match self {
            Self::Fixed(n) => (*n, *n),
            Self::Range(a, b) => (*a, *b),
            Self::Mix(mix) => {
                let sizes = || mix.iter().map(|m| m.0);
                (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
            }
        }
    }
    /// The sizes of frames of one IP version: with a tag to measure by, none may be shorter than `shortest`.
    ///
    /// # Errors
    /// Some are.
    pub fn at_least(self, shortest: usize, version: &str) -> Result<Self, Bad> {
        match self.bounds().0 {
            len if len < shortest => bad(format!(
                "frames of {len} bytes are too short for {version} and the tag to measure by: at least {shortest}"
            )),
            _ => Ok(self),
        }
    }
    /// The mean, in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(n) => *n as f64,
            Self::Range(a, b) => (a + b) as f64 / 2.0,
            Self::Mix(mix) => {
                let weight: u64 = mix.iter().map(|m| u64::from(m.1)).sum();
                mix.iter().map(|m| m.0 as f64 * f64::from(m.1)).sum::<f64>() / weight.max(1) as f64
            }
        }
    }
    /// One size after the other.
    #[must_use]
    pub fn source(&self, seed: u64) -> SizeSource {
        match self {
            Self::Fixed(n) => SizeSource::Fixed(*n),
            Self::Range(a, b) => {
                SizeSource::Range { first: *a, span: (b - a + 1) as u64, rng: Rng::new(seed) }
            }
            Self::Mix(mix) => SizeSource::Pattern { pattern: spread(mix), at: 0 },
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Range(a, b) => write!(f, "{a}-{b}"),
            Self::Mix(mix) => {
                let parts: Vec<String> = mix.iter().map(|(n, w)| format!("{n}:{w}")).collect();
                f.write_str(&parts.join(","))
            }
        }
    }
}

/// Each size as often as it weighs, spread evenly: the next size is always the one that is furthest behind
/// its share.
fn spread(mix: &[(usize, u32)]) -> Box<[u16]> {
    let total: u32 = mix.iter().map(|m| m.1).sum();
    let mut credit = vec![0i64; mix.len()];
    (0..total)
        .map(|_| {
            for (credit, (_, weight)) in credit.iter_mut().zip(mix) {
                *credit += i64::from(*weight);
            }
            // The first of the largest.
            let best = (0..mix.len()).rev().max_by_key(|i| credit[*i]).unwrap_or(0);
            credit[best] -= i64::from(total);
            mix[best].0 as u16
        })
        .collect()
}

/// Gives the size of each frame.
#[derive(Clone, Debug)]
pub enum SizeSource {
    /// Always the same.
    Fixed(usize),
    /// At random.
    Range {
        /// The shortest.
        first: usize,
        /// How many sizes there are.
        span: u64,
        /// Where they come from.
        rng: Rng,
    },
    /// A pattern, repeated.
    Pattern {
        /// Sizes.
        pattern: Box<[u16]>,
        /// The next one.
        at: usize,
    },
}

impl SizeSource {
    /// The next frame's size.
    #[inline]
    pub fn size(&mut self) -> usize {
        match self {
            Self::Fixed(n) => *n,
            Self::Range { first, span, rng } => *first + rng.below(*span) as usize,
            Self::Pattern { pattern, at } => {
                let size = pattern.get(*at).copied().unwrap_or(0);
                *at = if *at + 1 >= pattern.len() { 0 } else { *at + 1 };
                size.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, sizes) in [
            ("60", Sizes::Fixed(60)),
            ("60-1514", Sizes::Range(60, 1514)),
            ("64-64", Sizes::Fixed(64)),
            ("IMIX", Sizes::Mix(IMIX.to_vec())),
            ("60:7, 1514", Sizes::Mix(vec![(60, 7), (1514, 1)])),
        ] {
            assert_eq!(Sizes::parse(text), Ok(sizes.clone()), "{text}");
            assert_eq!(Sizes::parse(&sizes.to_string()), Ok(sizes));
        }
        for text in ["", "59", "9217", "x", "1514-60", "60:0", "60:99999", "60:9000,61:9000", "60-", ","] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mix_keeps_its_proportions_and_spreads_them() {
        let imix = Sizes::parse("imix").unwrap();
        let mut source = imix.source(1);
        let round: Vec<usize> = (0..24).map(|_| source.size()).collect();
        let count = |n| round.iter().filter(|s| **s == n).count();
        assert_eq!((count(60), count(590), count(1514)), (14, 8, 2));
        assert_eq!(round[..12], round[12..]);
        assert!(round.windows(4).all(|w| w.iter().any(|s| *s != 60)), "{round:?}");
        assert_eq!((imix.bounds(), imix.mean().round()), ((60, 1514), 358.0));
    }

    #[test]
    fn well_known_mixes_have_their_means() {
        let of = |name: &str| Sizes::parse(name).unwrap();
        assert_eq!(of("imix"), of("IMIX-trex"));
        // CSIT: 353.83 bytes with 4 bytes of check sequence.
        assert!((of("imix-csit").mean() + 4.0 - 4246.0 / 12.0).abs() < 1e-9);
        let mut source = of("imix-csit").source(1);
        let drawn: Vec<usize> = (0..1200).map(|_| source.size()).collect();
        let count = |size| drawn.iter().filter(|one| **one == size).count();
        assert_eq!((count(60), count(566), count(1514)), (700, 400, 100));
    }

    #[test]
    fn a_range_is_uniform_and_whole() {
        let range = Sizes::Range(60, 67);
        let mut source = range.source(5);
        let mut seen = [0; 8];
        (0..8000).for_each(|_| seen[source.size() - 60] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!((range.mean(), range.bounds()), (63.5, (60, 67)));
    }
}
