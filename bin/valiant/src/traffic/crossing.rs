//! Which frames arrived where: sent by each port for each sink, arrived there, and arrived at another one.

use super::paths::Paths;
use serde_json::{Value, json};
use std::fmt::Write;

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
    to: usize,
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
            if to == at {
                continue;
            }
            let same = |one: &&mut Wrong| (one.from, one.to, one.at) == (from, to, at);
            match self.wrong.iter_mut().find(same) {
                Some(one) => one.frames += frames,
                None => self.wrong.push(Wrong { from, to, at, frames }),
            }
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
        for row in &rows {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "            {}", cells.join("  "));
        }
        if !self.wrong.is_empty() {
            let each = |one: &Wrong| {
                let (from, to, at) =
                    (name(&self.from, one.from), name(&self.to, one.to), name(&self.to, one.at));
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
        let wrong = |one: &Wrong| json!({"from": self.from.get(one.from), "to": self.to.get(one.to), "at": self.to.get(one.at), "frames": one.frames});
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
}
