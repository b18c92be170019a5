//! Which frames arrived where: sent by each port for each sink, arrived there, and arrived at another one.

use super::paths::Paths;
use serde_json::{Value, json};
use std::fmt::Write;

/// Where frames belong of which only the side is known.
const OTHER_SIDE: &str = "the other side";

/// Frames from each port that sends to each one that receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Crossing {
    pub(crate) from: Vec<String>,
    pub(crate) to: Vec<String>,
    /// Frames made by each port for each sink.
    sent: Vec<Vec<u64>>,
    /// Frames of each port that arrived at each sink, whichever they were for; duplicates are not counted.
    arrived: Vec<Vec<u64>>,
    /// Those at another sink than they were for.
    wrong: Vec<Wrong>,
}

/// Frames from a port for one sink that arrived at another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wrong {
    from: usize,
    /// None: any port of the other side.
    to: Option<usize>,
    at: usize,
    frames: u64,
}

impl Crossing {
    /// Nothing was sent between these ports.
    pub(crate) fn new(paths: &Paths) -> Self {
        let zeros = vec![vec![0; paths.receivers.len()]; paths.senders.len()];
        Self {
            from: paths.senders.iter().map(|sender| sender.port.clone()).collect(),
            to: paths.receivers.clone(),
            sent: zeros.clone(),
            arrived: zeros,
            wrong: Vec::new(),
        }
    }

    /// The same, where it is not known how many frames are for which port.
    pub(crate) fn of_sides(paths: &Paths) -> Self {
        Self { sent: Vec::new(), ..Self::new(paths) }
    }

    /// Adds the lines of a source's `made_to`.
    pub(crate) fn add_sent(&mut self, from: usize, lines: &str) {
        for (to, frames) in lines.lines().filter_map(|line| numbers(line).map(|[to, frames]| (to, frames))) {
            add(&mut self.sent, from, to as usize, frames);
        }
    }

    /// Adds the lines of a sink's `paths`.
    pub(crate) fn add_arrived(&mut self, at: usize, lines: &str) {
        for [from, to, frames] in lines.lines().filter_map(numbers) {
            let (from, to) = (from as usize, to as usize);
            add(&mut self.arrived, from, at, frames);
            if to != at {
                self.add_wrong(Wrong { from, to: Some(to), at, frames });
            }
        }
    }

    /// Adds the lines of a sink's `paths` where nothing but the side is known of where frames belong: those
    /// that arrive on the side that they came from. Ports that receive are in the other order of sides.
    pub(crate) fn add_returned(&mut self, at: usize, first_side: usize, lines: &str) {
        let second_side = self.from.len().saturating_sub(first_side);
        for [from, _, frames] in lines.lines().filter_map(numbers) {
            let from = from as usize;
            add(&mut self.arrived, from, at, frames);
            if (from < first_side) != (at < second_side) {
                self.add_wrong(Wrong { from, to: None, at, frames });
            }
        }
    }

    fn add_wrong(&mut self, wrong: Wrong) {
        let same = |one: &&mut Wrong| (one.from, one.to, one.at) == (wrong.from, wrong.to, wrong.at);
        match self.wrong.iter_mut().find(same) {
            Some(one) => one.frames += wrong.frames,
            None => self.wrong.push(wrong),
        }
    }

    /// Frames that arrived at another sink than they were for.
    pub(crate) fn misrouted(&self) -> u64 {
        self.wrong.iter().map(|one| one.frames).sum()
    }

    /// As a table, a line for each port that sends.
    pub(crate) fn text(&self) -> String {
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_else(|| at.to_string());
        let cell = |from: usize, at: usize| {
            let of = |all: &[Vec<u64>]| all.get(from).and_then(|row| row.get(at)).copied().unwrap_or(0);
            format!("{}/{}", of(&self.arrived), of(&self.sent))
        };
        let head = std::iter::once(String::new()).chain(self.to.iter().cloned()).collect();
        let row = |(from, port): (usize, &String)| -> Vec<String> {
            std::iter::once(port.clone()).chain((0..self.to.len()).map(|at| cell(from, at))).collect()
        };
        let rows: Vec<Vec<String>> =
            std::iter::once(head).chain(self.from.iter().enumerate().map(row)).collect();
        let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max();
        let widths: Vec<usize> = (0..=self.to.len()).map(|column| width(column).unwrap_or(0)).collect();
        let mut text =
            "matrix      arrived/sent: a line for each port to send to, a column for each sink\n".to_owned();
        if self.sent.is_empty() {
            text.clear();
        }
        for row in rows.iter().filter(|_| !self.sent.is_empty()) {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "            {}", cells.join("  "));
        }
        if !self.wrong.is_empty() {
            let each = |one: &Wrong| {
                let (from, at) = (name(&self.from, one.from), name(&self.to, one.at));
                let to = one.to.map_or_else(|| OTHER_SIDE.to_owned(), |to| name(&self.to, to));
                format!("{} from {from} for {to} at {at}", one.frames)
            };
            let all: Vec<String> = self.wrong.iter().map(each).collect();
            let _ = writeln!(
                text,
                "wrong port  {} frames came out where their destination does not belong: {}",
                self.misrouted(),
                all.join(", ")
            );
        }
        text
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let wrong = |one: &Wrong| json!({"from": self.from.get(one.from), "to": one.to.map_or(Some(OTHER_SIDE), |to| self.to.get(to).map(String::as_str)), "at": self.to.get(one.at), "frames": one.frames});
        json!({"from": self.from, "to": self.to, "sent": self.sent, "arrived": self.arrived,
            "misrouted": self.misrouted(), "at_wrong_port": self.wrong.iter().map(wrong).collect::<Vec<_>>()})
    }
}

fn add(to: &mut [Vec<u64>], row: usize, column: usize, frames: u64) {
    if let Some(n) = to.get_mut(row).and_then(|row| row.get_mut(column)) {
        *n += frames;
    }
}

/// The numbers of a line; none: it has others.
fn numbers<const N: usize>(line: &str) -> Option<[u64; N]> {
    let all: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    all.ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_elsewhere_is_at_the_wrong_port() {
        let mut crossing = Crossing {
            from: vec!["a".into(), "b".into()],
            to: vec!["c".into(), "d".into()],
            sent: vec![vec![0; 2]; 2],
            arrived: vec![vec![0; 2]; 2],
            wrong: Vec::new(),
        };
        crossing.add_sent(0, "0 30\n1 10\n0 30\n");
        crossing.add_sent(1, "1 5\nnonsense\n");
        crossing.add_arrived(0, "0 0 60\n0 1 3\n0 1 4\n");
        crossing.add_arrived(1, "0 1 3\n1 1 5\n9 9 0\n");
        let json = crossing.json();
        assert_eq!(json["sent"], json!([[60, 10], [0, 5]]));
        assert_eq!(json["arrived"], json!([[67, 3], [0, 5]]));
        assert_eq!(json["misrouted"], 7);
        assert_eq!(json["at_wrong_port"][0], json!({"from": "a", "to": "d", "at": "c", "frames": 7}));
        let text = crossing.text();
        assert!(text.contains("a  67/60  3/10\n"), "{text}");
        assert!(text.contains("wrong port  7 frames") && text.contains("7 from a for d at c"), "{text}");
    }

    #[test]
    fn what_returns_to_its_own_side_is_at_the_wrong_port() {
        // a and b are on the first side, c on the second: those that receive are c, a, b.
        let names = |all: [&str; 3]| all.map(str::to_owned).to_vec();
        let mut crossing = Crossing {
            from: names(["a", "b", "c"]),
            to: names(["c", "a", "b"]),
            arrived: vec![vec![0; 3]; 3],
            ..Crossing::default()
        };
        crossing.add_returned(0, 2, "0 0 5\n1 0 6\n");
        crossing.add_returned(1, 2, "2 0 7\n1 0 4\n");
        assert_eq!(crossing.misrouted(), 4);
        crossing.add_returned(0, 2, "2 0 1\n");
        assert_eq!(
            crossing.json()["at_wrong_port"][1],
            json!({"from": "c", "to": "the other side", "at": "c", "frames": 1})
        );
        assert!(crossing.text().starts_with("wrong port  5 frames"), "{}", crossing.text());
    }
}
