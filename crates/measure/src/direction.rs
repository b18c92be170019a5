//! Which ports send and which receive, and how much each sends to which: a matrix between two sides.

use crate::matrix::{Matrix, Wanted};
use crate::{Bad, bad};

/// The direction of traffic between two sides: the ports to the device under test, and those from it (RFC
/// 2544, section 14: bidirectional traffic).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the first side to the second.
    #[default]
    Forward,
    /// From the second side to the first.
    Reverse,
    /// Both at the same time.
    Both,
}

impl Direction {
    /// Reads its word.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, Bad> {
        match text {
            "forward" => Ok(Self::Forward),
            "reverse" => Ok(Self::Reverse),
            "both" => Ok(Self::Both),
            _ => bad(format!("'{text}' is no direction: forward, reverse or both")),
        }
    }

    /// Whether the second side sends too, or alone.
    #[must_use]
    pub fn turns(self) -> bool {
        self != Self::Forward
    }

    /// What belongs to those that send, in order, and to those that receive: of `first`, what belongs to the
    /// ports of the first side, and of `second`.
    #[must_use]
    pub fn ends<T: Clone>(self, first: &[T], second: &[T]) -> (Vec<T>, Vec<T>) {
        match self {
            Self::Forward => (first.to_vec(), second.to_vec()),
            Self::Reverse => (second.to_vec(), first.to_vec()),
            Self::Both => ([first, second].concat(), [second, first].concat()),
        }
    }

    /// The matrix from those that send to those that receive, in the order of [`Self::ends`], of sides with
    /// so many ports. In each direction it is the wanted one; nothing goes from a side back to itself.
    ///
    /// # Errors
    /// The matrix is for other numbers of ports, or more than the rate of a port would be sent there.
    pub fn matrix(self, wanted: &Wanted, first: usize, second: usize, seed: u64) -> Result<Matrix, Bad> {
        let forward = || wanted.of_size(first, second, seed);
        let reverse = || wanted.of_size(second, first, seed);
        let matrix = match self {
            Self::Forward => forward()?,
            Self::Reverse => reverse()?,
            Self::Both => {
                let (there, back) = (forward()?, reverse()?);
                let rows = (0..first).map(|i| [there.parts(i), vec![0.0; first]].concat());
                let others = (0..second).map(|i| [vec![0.0; second], back.parts(i)].concat());
                Matrix::new(&rows.chain(others).collect::<Vec<_>>())?
            }
        };
        let tiny = |part: &f64| *part > 0.0 && *part < LEAST;
        for input in 0..matrix.inputs() {
            if let Some(output) = matrix.parts(input).iter().position(tiny) {
                let (row, column) = (input + 1, output + 1);
                return bad(format!("row {row}, column {column}: a part is 0, or {LEAST} at least"));
            }
        }
        let over = (0..matrix.inputs()).find(|input| matrix.from(*input) > 1.0 + 1e-6);
        match over {
            Some(input) => bad(format!(
                "row {} adds up to {}: a port sends 1, all its rate, at most",
                input + 1,
                matrix.from(input)
            )),
            None if load(&matrix) <= 0.0 => bad("nothing would be sent: all parts are 0"),
            None => Ok(matrix),
        }
    }
}

/// The least part of a rate that is sent somewhere.
const LEAST: f64 = 1e-6;

/// How much all inputs send together, in parts of the rate of one.
#[must_use]
pub fn load(matrix: &Matrix) -> f64 {
    (0..matrix.inputs()).map(|input| matrix.from(input)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(direction: Direction, text: &str, first: usize, second: usize) -> Result<Vec<Vec<f64>>, String> {
        let wanted = Wanted::parse(text).unwrap();
        let matrix = direction.matrix(&wanted, first, second, 1).map_err(|bad| bad.0)?;
        Ok((0..matrix.inputs()).map(|input| matrix.parts(input)).collect())
    }

    #[test]
    fn both_directions_have_the_matrix_and_no_side_sends_to_itself() {
        let text = "0.75 0.25; 1 0";
        let all = parts(Direction::Both, text, 2, 2).unwrap();
        assert_eq!(all[0], [0.75, 0.25, 0.0, 0.0]);
        assert_eq!(all[2], [0.0, 0.0, 0.75, 0.25]);
        assert_eq!(Direction::Both.ends(&["a", "b"], &["c"]), (vec!["a", "b", "c"], vec!["c", "a", "b"]));
        assert_eq!(Direction::Reverse.ends(&["a", "b"], &["c"]), (vec!["c"], vec!["a", "b"]));
        assert_eq!(parts(Direction::Reverse, "uniform", 1, 2).unwrap(), [[1.0], [1.0]]);
        assert_eq!(parts(Direction::Both, "uniform", 1, 2).unwrap()[0], [0.5, 0.5, 0.0]);
        for direction in ["forward", "reverse", "both"] {
            assert!(Direction::parse(direction).is_ok());
        }
        assert!(Direction::parse("back").unwrap_err().0.contains("forward, reverse or both"));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for (direction, text, part) in [
            (Direction::Forward, "permutation", "as many"),
            (Direction::Forward, "1 0; 0 1", "2 rows and 2 columns"),
            (Direction::Both, "0 0 1; 1 0 0", "2 rows and 3 columns"),
            (Direction::Forward, "0.5 0.6 0; 1 0 0", "row 1 adds up to 1.1"),
            (Direction::Forward, "0 0 0; 0 0 0", "nothing would be sent"),
            (Direction::Forward, "0 1e-9 1; 1 0 0", "row 1, column 2: a part is 0, or 0.000001 at least"),
        ] {
            let message = parts(direction, text, 2, 3).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert!(parts(Direction::Forward, "0 0 1; 0 0 0", 2, 3).is_ok());
    }
}
