//! The offered traffic: the rate from each input to each output, in flows of heavy-tailed sizes.

use crate::error::SimError;
use measure::rng::Rng;
use measure::sizes::Sizes;

/// The matrices that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Every input sends R/N to every output, its own included.
    Uniform,
    /// Every input sends all to the next output.
    Permutation,
    /// Output 0 is filled, half of it from one input; the rest of each input's traffic goes to one other
    /// output.
    HotSpot,
    /// The matrix that loads one link most under Direct: its near end sends R/N to its far end and the rest
    /// to one more node, another node fills the far end; the rest is a permutation.
    Worst,
    /// A permutation that exchanges the high and the low part of the number: the worst for one pass through a
    /// fly.
    Transpose,
    /// All from input 0 to one output.
    Pair,
    /// All inputs send to output 0, input s at (s+1)/N of R; the rest goes to the next output.
    Overload,
    /// A few random permutations with random weights: rows and columns add up to R.
    Random,
}

/// The names, in the order of [`Named`].
pub const NAMES: [(&str, Named); 8] = [
    ("uniform", Named::Uniform),
    ("permutation", Named::Permutation),
    ("hot-spot", Named::HotSpot),
    ("worst", Named::Worst),
    ("transpose", Named::Transpose),
    ("pair", Named::Pair),
    ("overload", Named::Overload),
    ("random", Named::Random),
];

/// The rate from each input to each output, in parts of R.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: Vec<Row>,
}

/// The traffic of one input.
#[derive(Clone, Debug, PartialEq, Default)]
struct Row {
    to: Vec<u16>,
    /// Cumulative sums of the parts; empty if all parts are equal.
    sums: Vec<f64>,
    total: f64,
}

impl Row {
    fn of(parts: impl Iterator<Item = f64>) -> Self {
        let mut row = Self::default();
        let mut parts_kept = Vec::new();
        for (to, part) in parts.enumerate().filter(|p| p.1 > 0.0) {
            row.to.push(to as u16);
            row.total += part;
            parts_kept.push(part);
            row.sums.push(row.total);
        }
        if parts_kept.windows(2).all(|w| w[0] == w[1]) {
            row.sums = Vec::new();
        }
        row
    }
    fn part(&self, at: usize) -> f64 {
        match self.sums.get(at) {
            None => self.total / self.to.len().max(1) as f64,
            Some(sum) => sum - if at == 0 { 0.0 } else { self.sums[at - 1] },
        }
    }
}

impl Matrix {
    /// The matrix of `parts`, of as many rows as columns, none below 0.
    ///
    /// # Errors
    /// The matrix has another shape, or an entry is below 0 or not a number.
    pub fn new(parts: &[Vec<f64>]) -> Result<Self, SimError> {
        let n = parts.len();
        if !(2..=usize::from(cluster::MAX_NODES)).contains(&n) {
            return Err(SimError::Matrix(format!(
                "a matrix of {n} rows: it has one for each port, 2 to 4096"
            )));
        }
        for (i, row) in parts.iter().enumerate() {
            if row.len() != n {
                return Err(SimError::Matrix(format!(
                    "row {} has {} numbers, but there are {n} rows: a number for each output is needed",
                    i + 1,
                    row.len()
                )));
            }
            if let Some(at) = row.iter().position(|p| !(0.0..=1000.0).contains(p)) {
                return Err(SimError::Matrix(format!(
                    "row {}, column {}: {} is not a part of R, from 0 to 1 (or more, to oversubscribe)",
                    i + 1,
                    at + 1,
                    row[at]
                )));
            }
        }
        Ok(Self { rows: parts.iter().map(|row| Row::of(row.iter().copied())).collect() })
    }
    /// Reads a row in each line, numbers separated by commas, semicolons or spaces; `#` begins a comment.
    ///
    /// # Errors
    /// The text has another form; the message names the line.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let mut rows = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let cells = line.split([',', ';', ' ', '\t']).map(str::trim).filter(|c| !c.is_empty());
            let row: Result<Vec<f64>, _> = cells
                .map(|cell| {
                    cell.parse::<f64>().map_err(|_| {
                        SimError::Matrix(format!(
                            "line {}: '{cell}' is no number: each line has the parts of R that an input sends to the outputs, as \
                             in 0,0.5,0.5,0",
                            at + 1
                        ))
                    })
                })
                .collect();
            rows.push(row?);
        }
        Self::new(&rows)
    }
    /// A named matrix, for `n` ports.
    ///
    /// # Errors
    /// There are too few ports for it.
    pub fn named(kind: Named, n: u16, seed: u64) -> Result<Self, SimError> {
        let least = match kind {
            Named::HotSpot => 3,
            Named::Worst => 4,
            _ => 2,
        };
        if n < least || n > cluster::MAX_NODES {
            let name = NAMES.iter().find(|x| x.1 == kind).map_or("", |x| x.0);
            return Err(SimError::Matrix(format!(
                "the matrix '{name}' is for {least} to {} ports, not {n}",
                cluster::MAX_NODES
            )));
        }
        let n = usize::from(n);
        let only = |pairs: &[(usize, f64)]| {
            let mut row = vec![0.0; n];
            pairs.iter().for_each(|&(to, part)| row[to] += part);
            Row::of(row.into_iter())
        };
        let rows: Vec<Row> = match kind {
            Named::Uniform => (0..n).map(|_| Row::of(vec![1.0 / n as f64; n].into_iter())).collect(),
            Named::Permutation => (0..n).map(|s| only(&[((s + 1) % n, 1.0)])).collect(),
            Named::HotSpot => {
                let hot = 0.5 / (n - 2) as f64;
                let row = |s: usize| match s {
                    // The remaining capacity of outputs other than 0.
                    0 => {
                        let left = |d: usize| (d, if d == 2 { 0.5 } else { hot });
                        only(&(1..n).map(left).collect::<Vec<_>>())
                    }
                    1 => only(&[(0, 0.5), (2, 0.5)]),
                    _ => only(&[(0, hot), (s % (n - 1) + 1, 1.0 - hot)]),
                };
                (0..n).map(row).collect()
            }
            Named::Worst => {
                let share = 1.0 / n as f64;
                // Outputs 1 and 2 are filled by inputs 0 and 3; the others are distributed to the other
                // inputs, none to its own output.
                let others: Vec<usize> = (0..n).filter(|d| !(1..=2).contains(d)).collect();
                let mut rest = others.iter().cycle().skip(1);
                (0..n)
                    .map(|s| match s {
                        0 => only(&[(1, share), (2, 1.0 - share)]),
                        3 => only(&[(1, 1.0 - share), (2, share)]),
                        _ => only(&[(rest.next().copied().unwrap_or(0), 1.0)]),
                    })
                    .collect()
            }
            Named::Transpose => {
                let Some(high) = (2..n).filter(|a| n % a == 0 && a * a <= n).max() else {
                    return Err(SimError::Matrix(format!(
                        "the matrix 'transpose' exchanges two parts of a port's number: {n} is a prime number and has none"
                    )));
                };
                let low = n / high;
                (0..n).map(|s| only(&[((s % low) * high + s / low, 1.0)])).collect()
            }
            Named::Pair => {
                let far = if n > 2 { 2 } else { 1 };
                (0..n).map(|s| if s == 0 { only(&[(far, 1.0)]) } else { Row::default() }).collect()
            }
            Named::Overload => (0..n)
                .map(|s| {
                    let hot = (s + 1) as f64 / n as f64;
                    only(&[(0, hot), ((s + 1) % n, 1.0 - hot)])
                })
                .collect(),
            Named::Random => {
                let mut rng = Rng::new(seed ^ 0x6d61_7472_6978);
                let mut weights: Vec<f64> = (0..n.min(8)).map(|_| 0.05 + unit(&mut rng)).collect();
                let sum: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|w| *w /= sum);
                let mut pairs = vec![Vec::new(); n];
                for weight in weights {
                    for (s, d) in shuffled(n, &mut rng).into_iter().enumerate() {
                        pairs[s].push((d, weight));
                    }
                }
                pairs.iter().map(|p| only(p)).collect()
            }
        };
        Ok(Self { rows })
    }
    /// How many ports it is for.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.rows.len()
    }
    /// The rate of an input, in parts of R.
    #[must_use]
    pub fn from(&self, input: usize) -> f64 {
        self.rows.get(input).map_or(0.0, |r| r.total)
    }
    /// The rate offered to each output, in parts of R.
    #[must_use]
    pub fn wanted(&self) -> Vec<f64> {
        let mut wanted = vec![0.0; self.rows.len()];
        for row in &self.rows {
            row.to.iter().enumerate().for_each(|(at, to)| wanted[usize::from(*to)] += row.part(at));
        }
        wanted
    }
    /// Whether no input sends more than R and no output is offered more than R, within a millionth.
    #[must_use]
    pub fn admissible(&self) -> bool {
        let fits = |part: f64| part <= 1.0 + 1e-6;
        self.rows.iter().all(|r| fits(r.total)) && self.wanted().into_iter().all(fits)
    }
    /// The outputs that an input sends to, with their parts.
    pub fn row(&self, input: usize) -> impl Iterator<Item = (u16, f64)> + '_ {
        let row = &self.rows[input];
        row.to.iter().enumerate().map(|(at, to)| (*to, row.part(at)))
    }
    pub(crate) fn width(&self, input: usize) -> usize {
        self.rows[input].to.len()
    }
    pub(crate) fn output(&self, input: usize, at: usize) -> u16 {
        self.rows[input].to[at]
    }
    /// Draws the output of a packet of an input.
    #[inline]
    pub(crate) fn draw(&self, input: usize, rng: &mut Rng) -> usize {
        let row = &self.rows[input];
        if row.sums.is_empty() {
            return rng.below(row.to.len() as u64) as usize;
        }
        let wanted = unit(rng) * row.total;
        row.sums.partition_point(|sum| *sum <= wanted).min(row.to.len() - 1)
    }
}

fn shuffled(n: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    (1..n).rev().for_each(|at| all.swap(at, rng.below(at as u64 + 1) as usize));
    all
}

/// From 0 (included) to 1 (not).
#[inline]
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    (rng.number() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Exponentially distributed.
#[inline]
pub(crate) fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -(1.0 - unit(rng)).ln() * mean
}

/// How many packets a flow has: bounded Pareto.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSizes {
    /// The exponent of the tail; a smaller exponent means a heavier tail.
    pub alpha: f64,
    /// The fewest packets.
    pub least: u32,
    /// The most.
    pub most: u32,
}

impl Default for FlowSizes {
    /// Alpha 1.2, 2 to 100,000 packets: 11 on average, but half of all packets belong to flows of hundreds of
    /// packets or more.
    fn default() -> Self {
        Self { alpha: 1.2, least: 2, most: 100_000 }
    }
}

impl FlowSizes {
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        let (least, most) = (f64::from(self.least), f64::from(self.most));
        let tail = 1.0 - (least / most).powf(self.alpha);
        let size = least / (1.0 - unit(rng) * tail).powf(1.0 / self.alpha);
        (size as u32).clamp(self.least, self.most)
    }
    /// The mean of the continuous distribution.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let (a, l, h) = (self.alpha, f64::from(self.least), f64::from(self.most));
        if self.least == self.most {
            return l;
        }
        l.powf(a) / (1.0 - (l / h).powf(a)) * a / (a - 1.0) * (l.powf(1.0 - a) - h.powf(1.0 - a))
    }
}

/// Draws the length of each packet on the wire in bytes, independently of the others.
#[derive(Clone, Debug)]
pub(crate) struct Lengths(Vec<u16>);

impl Lengths {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let round = match sizes {
            Sizes::Fixed(_) => 1,
            // Sizes of a range are equally likely: a large sample of them is taken instead.
            Sizes::Range(a, b) => (b - a + 1) * 4,
            Sizes::Mix(mix) => mix.iter().map(|m| m.1 as usize).sum(),
        };
        let mut source = sizes.source(1);
        let mut lengths: Vec<u16> =
            (0..round.max(1)).map(|_| (source.size() + measure::rate::OVERHEAD) as u16).collect();
        if let Sizes::Range(a, b) = sizes {
            lengths = (*a..=*b).map(|size| (size + measure::rate::OVERHEAD) as u16).collect();
        }
        Self(lengths)
    }
    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u16 {
        self.0[rng.below(self.0.len() as u64) as usize]
    }
    /// The longest.
    pub(crate) fn longest(&self) -> f64 {
        self.0.iter().copied().max().map_or(1.0, f64::from)
    }
    /// The mean, and the mean of the squares divided by it: packets of this one length would give a random
    /// sum of bytes with the same variance.
    pub(crate) fn moments(&self) -> (f64, f64) {
        let n = self.0.len() as f64;
        let mean = self.0.iter().map(|b| f64::from(*b)).sum::<f64>() / n;
        let square = self.0.iter().map(|b| f64::from(*b).powi(2)).sum::<f64>() / n;
        (mean, square / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_matrices_are_what_they_say() {
        for n in [4_u16, 5, 8, 31, 32, 64] {
            for (name, kind) in NAMES {
                let Ok(m) = Matrix::named(kind, n, 7) else {
                    assert!(kind == Named::Transpose && (n == 5 || n == 31), "{name} {n}");
                    continue;
                };
                let wanted = m.wanted();
                let over = wanted.iter().filter(|w| **w > 1.0 + 1e-9).count();
                assert_eq!(m.admissible(), kind != Named::Overload, "{name} {n}: {wanted:?}");
                assert_eq!(over, usize::from(kind == Named::Overload), "{name} {n}");
                let total: f64 = wanted.iter().sum();
                let full = if kind == Named::Pair { 1.0 } else { f64::from(n) };
                assert!((total - full).abs() < 1e-6, "{name} {n}: {total}");
            }
        }
        assert!(Matrix::named(Named::Worst, 3, 0).is_err() && Matrix::named(Named::Uniform, 1, 0).is_err());
        // The digits of 0 to 8 to base 3, exchanged.
        let m = Matrix::named(Named::Transpose, 9, 0).unwrap();
        assert_eq!((0..9).map(|s| m.output(s, 0)).collect::<Vec<_>>(), [0, 3, 6, 1, 4, 7, 2, 5, 8]);
    }

    #[test]
    fn files_are_read_and_refused() {
        let m = Matrix::parse("# two ports\n0, 0.5\n\n1 0 # all back\n").unwrap();
        assert_eq!((m.ports(), m.from(0), m.wanted()), (2, 0.5, vec![1.0, 0.5]));
        assert_eq!(m.row(1).collect::<Vec<_>>(), [(0, 1.0)]);
        for (text, part) in [
            ("0,1\n1,x", "line 2: 'x'"),
            ("0,1\n1", "row 2 has 1"),
            ("", "0 rows"),
            ("0,-1\n1,0", "row 1, column 2"),
            ("0,NaN\n1,0", "row 1, column 2"),
        ] {
            let message = Matrix::parse(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn draws_follow_the_matrix() {
        let m = Matrix::new(&[vec![0.1, 0.2, 0.7], vec![0.0; 3], vec![0.5, 0.5, 0.0]]).unwrap();
        let mut rng = Rng::new(1);
        let mut seen = [0_u32; 3];
        (0..100_000).for_each(|_| seen[m.draw(0, &mut rng)] += 1);
        for (n, part) in seen.iter().zip([0.1, 0.2, 0.7]) {
            assert!((f64::from(*n) / 1e5 - part).abs() < 0.01, "{seen:?}");
        }
        assert_eq!(m.width(1), 0);
    }

    #[test]
    fn flows_are_heavy_tailed() {
        let (sizes, mut rng) = (FlowSizes::default(), Rng::new(5));
        let mut all: Vec<u32> = (0..200_000).map(|_| sizes.draw(&mut rng)).collect();
        all.sort_unstable();
        let total: u64 = all.iter().map(|n| u64::from(*n)).sum();
        let mean = total as f64 / all.len() as f64;
        // Rounded down, half a packet below the continuous mean.
        assert!((mean - sizes.mean()).abs() < 2.0, "{mean} {}", sizes.mean());
        let top: u64 = all[all.len() * 99 / 100..].iter().map(|n| u64::from(*n)).sum();
        assert!(
            top * 5 > total * 2 && all[all.len() / 2] <= 4,
            "{top} of {total}, median {}",
            all[all.len() / 2]
        );
    }

    #[test]
    fn lengths_have_the_mean_of_their_mix() {
        let (mean, noisy) = Lengths::new(&Sizes::parse("imix").unwrap()).moments();
        assert!((mean - 382.0).abs() < 1.0 && noisy > mean, "{mean} {noisy}");
        let mut rng = Rng::new(0);
        let range = Lengths::new(&Sizes::Range(60, 63));
        assert!((0..100).all(|_| (84..=87).contains(&range.draw(&mut rng))));
    }
}
