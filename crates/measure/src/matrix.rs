//! Traffic matrices: which part of a port's rate goes from each input to each output.

use crate::rng::Rng;
use crate::{Bad, bad};

/// The most inputs, and the most outputs.
pub const MOST_PORTS: u16 = 4096;

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

/// A matrix as it is asked for, before it is known how many ports there are.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// One that has a name.
    Named(Named),
    /// These numbers.
    Given(Matrix),
    /// Those in this file, in the form of [`Matrix::parse`].
    File(String),
}

impl Wanted {
    /// Reads a name, the numbers themselves (`0,1; 0.5,0.5`: rows separated by semicolons, numbers by commas
    /// or spaces), or the name of a file.
    ///
    /// # Errors
    /// They are numbers and no matrix.
    pub fn parse(text: &str) -> Result<Self, Bad> {
        let text = text.trim();
        if let Some((_, named)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Named(*named));
        }
        if text.is_empty() {
            return bad(format!("it is empty; matrices with a name are {}", names()));
        }
        let numbers = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ';' | ' ' | '-' | '+' | 'e');
        if text.contains(|c: char| c.is_ascii_digit()) && text.chars().all(numbers) {
            return Matrix::of_rows(text.split(';'), "row", [',', ' ', ' ', ' ']).map(Self::Given);
        }
        Ok(Self::File(text.to_owned()))
    }
    /// The same, with the numbers of a file as `read` finds them.
    ///
    /// # Errors
    /// As [`Wanted::parse`]; the file cannot be read, or has no matrix. The message names the file.
    pub fn load(text: &str, read: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, Bad> {
        match Self::parse(text)? {
            Self::File(path) => match read(&path) {
                Ok(text) => Matrix::parse(&text).map(Self::Given).map_err(|e| Bad(format!("{path}: {e}"))),
                Err(reason) => bad(format!("{path}: {reason}; matrices with a name are {}", names())),
            },
            other => Ok(other),
        }
    }
    /// The matrix for so many inputs and outputs.
    ///
    /// # Errors
    /// It is for others, or its file has not been read.
    pub fn of_size(&self, inputs: usize, outputs: usize, seed: u64) -> Result<Matrix, Bad> {
        match self {
            Self::Named(Named::Uniform) => Ok(Matrix::uniform(inputs, outputs)),
            Self::Named(named) if inputs == outputs => {
                Matrix::named(*named, u16::try_from(inputs).unwrap_or(u16::MAX), seed)
            }
            Self::Named(named) => bad(format!(
                "the matrix '{}' is for as many inputs as outputs, not for {inputs} and {outputs}",
                named.name()
            )),
            Self::Given(matrix) if (matrix.inputs(), matrix.outputs) != (inputs, outputs) => bad(format!(
                "a matrix of {} rows and {} columns, for {inputs} ports that send (rows) and {outputs} that receive (columns)",
                matrix.inputs(),
                matrix.outputs
            )),
            Self::Given(matrix) => Ok(matrix.clone()),
            Self::File(path) => bad(format!("{path} has not been read")),
        }
    }
}

impl Named {
    fn name(self) -> &'static str {
        NAMES.iter().find(|(_, named)| *named == self).map_or("", |(name, _)| name)
    }
}

/// The names, for messages.
#[must_use]
pub fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

/// The rate from each input to each output, in parts of R.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: Vec<Row>,
    outputs: usize,
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
    /// The matrix of `parts`: a row for each input, with a part for each output, none below 0.
    ///
    /// # Errors
    /// The matrix has another shape, or an entry is below 0 or not a number.
    pub fn new(parts: &[Vec<f64>]) -> Result<Self, Bad> {
        let (n, outputs) = (parts.len(), parts.first().map_or(0, Vec::len));
        let possible = 1..=usize::from(MOST_PORTS);
        if !possible.contains(&n) || !possible.contains(&outputs) {
            return bad(format!(
                "a matrix of {n} rows and {outputs} columns: a row for each input and a column for each output, 1 to {MOST_PORTS}"
            ));
        }
        for (i, row) in parts.iter().enumerate() {
            if row.len() != outputs {
                return bad(format!(
                    "row {} has {} numbers, row 1 has {outputs}: a number for each output is needed",
                    i + 1,
                    row.len()
                ));
            }
            if let Some((at, part)) = row.iter().enumerate().find(|(_, p)| !(0.0..=1000.0).contains(*p)) {
                return bad(format!(
                    "row {}, column {}: {part} is not a part of R, from 0 to 1 (or more, to oversubscribe)",
                    i + 1,
                    at + 1
                ));
            }
        }
        Ok(Self { rows: parts.iter().map(|row| Row::of(row.iter().copied())).collect(), outputs })
    }
    /// Reads a row in each line, numbers separated by commas, semicolons or spaces; `#` begins a comment.
    ///
    /// # Errors
    /// The text has another form; the message names the line.
    pub fn parse(text: &str) -> Result<Self, Bad> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
        Self::of_rows(lines, "line", [',', ';', ' ', '\t'])
    }
    fn of_rows<'a>(
        texts: impl Iterator<Item = &'a str>,
        what: &str,
        between: [char; 4],
    ) -> Result<Self, Bad> {
        let mut rows = Vec::new();
        for (at, text) in texts.enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let cells = text.split(between).map(str::trim).filter(|c| !c.is_empty());
            let row: Result<Vec<f64>, _> = cells
                .map(|cell| {
                    cell.parse::<f64>().map_err(|_| {
                        Bad(format!(
                            "{what} {}: '{cell}' is no number: each {what} has the parts of R that an input sends to the outputs, as \
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
    /// Every input sends the same to every output, all its rate together.
    #[must_use]
    pub fn uniform(inputs: usize, outputs: usize) -> Self {
        let row = || Row::of(std::iter::repeat_n(1.0 / outputs.max(1) as f64, outputs));
        Self { rows: (0..inputs).map(|_| row()).collect(), outputs }
    }
    /// A named matrix, for `n` ports.
    ///
    /// # Errors
    /// There are too few ports for it.
    pub fn named(kind: Named, n: u16, seed: u64) -> Result<Self, Bad> {
        let least = match kind {
            Named::HotSpot => 3,
            Named::Worst => 4,
            _ => 2,
        };
        if n < least || n > MOST_PORTS {
            let name = kind.name();
            return Err(Bad(format!("the matrix '{name}' is for {least} to {} ports, not {n}", MOST_PORTS)));
        }
        let n = usize::from(n);
        let only = |pairs: &[(usize, f64)]| {
            let mut row = vec![0.0; n];
            pairs.iter().for_each(|&(to, part)| row[to] += part);
            Row::of(row.into_iter())
        };
        let rows: Vec<Row> = match kind {
            Named::Uniform => return Ok(Self::uniform(n, n)),
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
                    return Err(Bad(format!(
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
                let mut weights: Vec<f64> = (0..n.min(8)).map(|_| 0.05 + rng.unit()).collect();
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
        Ok(Self { rows, outputs: n })
    }
    /// How many inputs it is for.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.rows.len()
    }
    /// How many outputs it is for.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }
    /// The rate of an input, in parts of R.
    #[must_use]
    pub fn from(&self, input: usize) -> f64 {
        self.rows.get(input).map_or(0.0, |r| r.total)
    }
    /// The rate offered to each output, in parts of R.
    #[must_use]
    pub fn wanted(&self) -> Vec<f64> {
        let mut wanted = vec![0.0; self.outputs];
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
        self.rows
            .get(input)
            .into_iter()
            .flat_map(|row| row.to.iter().enumerate().map(|(at, to)| (*to, row.part(at))))
    }
    /// The parts of an input for all outputs, 0 included.
    #[must_use]
    pub fn parts(&self, input: usize) -> Vec<f64> {
        let mut parts = vec![0.0; self.outputs];
        self.row(input).for_each(|(to, part)| parts[usize::from(to)] = part);
        parts
    }
    /// How many outputs an input sends to.
    #[must_use]
    pub fn width(&self, input: usize) -> usize {
        self.rows[input].to.len()
    }
    /// The output at a place among those that an input sends to.
    #[must_use]
    pub fn output(&self, input: usize, at: usize) -> u16 {
        self.rows[input].to[at]
    }
    /// Draws the output of a packet of an input: its place among those that the input sends to.
    #[inline]
    pub fn draw(&self, input: usize, rng: &mut Rng) -> usize {
        let row = &self.rows[input];
        if row.sums.is_empty() {
            return rng.below(row.to.len() as u64) as usize;
        }
        let wanted = rng.unit() * row.total;
        row.sums.partition_point(|sum| *sum <= wanted).min(row.to.len() - 1)
    }
}

fn shuffled(n: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    (1..n).rev().for_each(|at| all.swap(at, rng.below(at as u64 + 1) as usize));
    all
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
        assert_eq!((m.inputs(), m.outputs(), m.from(0), m.wanted()), (2, 2, 0.5, vec![1.0, 0.5]));
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
    fn a_matrix_is_asked_for_by_name_by_numbers_or_by_file() {
        for (name, named) in NAMES {
            assert_eq!(Wanted::parse(name), Ok(Wanted::Named(named)));
        }
        let given = |parts: &[&[f64]]| {
            let parts: Vec<Vec<f64>> = parts.iter().map(|row| row.to_vec()).collect();
            Ok(Wanted::Given(Matrix::new(&parts).unwrap()))
        };
        assert_eq!(Wanted::parse("0.9,0.1; 0.5 0.5"), given(&[&[0.9, 0.1], &[0.5, 0.5]]));
        assert_eq!(Wanted::parse(" 1 0 0;"), given(&[&[1.0, 0.0, 0.0]]));
        for file in ["m.csv", "2.csv", "unifrom"] {
            assert_eq!(Wanted::parse(file), Ok(Wanted::File(file.to_owned())));
        }
        for (text, part) in [
            (" ", "it is empty"),
            ("0,1;1", "row 2 has 1"),
            ("1,-1", "row 1, column 2"),
            ("1,1-1", "row 1: '1-1'"),
        ] {
            let message = Wanted::parse(text).unwrap_err().0;
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!(Matrix::uniform(1, 2).parts(0), [0.5, 0.5]);
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
}
