//! What the rebalancer of an element has decided, for handlers.

use locks::IgnorePoison;
use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Moves that are remembered.
const REMEMBERED: usize = 256;

/// What has been decided; handlers show it.
#[derive(Default)]
pub(super) struct History {
    on: AtomicBool,
    rounds: AtomicU64,
    moves: AtomicU64,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    /// A line for each of the last moves, the oldest first.
    moves: VecDeque<String>,
    /// The imbalance of the last interval, and why nothing moved.
    imbalance: f64,
    stay: Option<String>,
    /// Why it cannot move anything.
    cannot: Option<String>,
    /// Whether the table is the device's.
    of_device: bool,
}

impl History {
    pub(super) fn new(on: bool) -> Self {
        Self { on: AtomicBool::new(on), ..Self::default() }
    }
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
    pub(super) fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
    /// The moves, a line for each.
    pub(super) fn log(&self) -> String {
        self.said.lock().ignore_poison().moves.iter().fold(String::new(), |text, line| text + line + "\n")
    }
    /// How it is: a name, a tab and a value on each line.
    pub(super) fn status(&self) -> String {
        let said = self.said.lock().ignore_poison();
        let mut text = format!("on\t{}\n", self.is_on());
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        if said.of_device {
            text += "table\tof the device\n";
        }
        let _ = writeln!(text, "imbalance\t{:.4}", said.imbalance);
        let _ = writeln!(text, "rounds\t{}\nmoves\t{}", get(&self.rounds), get(&self.moves));
        let state = match (&said.cannot, &said.stay) {
            _ if !self.is_on() => "it is off".to_owned(),
            (Some(why), _) | (None, Some(why)) => why.clone(),
            (None, None) if get(&self.rounds) == 0 => {
                "nothing is known yet: no packet has come, or flows are not spread here".to_owned()
            }
            (None, None) => "buckets are moving".to_owned(),
        };
        let _ = writeln!(text, "state\t{state}");
        text
    }
    /// The same in a line, for people; nothing where nothing has ever been counted.
    pub(super) fn summary(&self) -> String {
        let said = self.said.lock().ignore_poison();
        let on = self.is_on() && said.cannot.is_none();
        let Some(stay) = said.stay.as_ref().filter(|_| on) else { return String::new() };
        let moves = self.moves.load(Ordering::Relaxed);
        let imbalance = 100.0 * said.imbalance;
        let moved = if said.of_device { "buckets of the device moved" } else { "buckets moved" };
        format!("imbalance of the workers {imbalance:.1} %, {moved} {moves} times; {stay}")
    }
    /// The imbalance of an interval.
    pub(super) fn measured(&self, imbalance: f64) {
        self.said.lock().ignore_poison().imbalance = imbalance;
    }
    /// Nothing moves, and why.
    pub(super) fn stays(&self, why: impl Display) {
        self.said.lock().ignore_poison().stay = Some(why.to_string());
    }
    /// Nothing can move, and why.
    pub(super) fn cannot(&self, why: String) {
        self.said.lock().ignore_poison().cannot = Some(why);
    }
    /// The table is the device's.
    pub(super) fn is_of_device(&self) {
        self.said.lock().ignore_poison().of_device = true;
    }
    /// Buckets can move.
    pub(super) fn can(&self) {
        self.said.lock().ignore_poison().cannot = None;
    }
    /// Buckets move: a line for each.
    pub(super) fn moved(&self, lines: Vec<String>) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.moves.fetch_add(lines.len() as u64, Ordering::Relaxed);
        let mut said = self.said.lock().ignore_poison();
        said.stay = None;
        said.moves.extend(lines);
        let old = said.moves.len().saturating_sub(REMEMBERED);
        said.moves.drain(..old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rebalance::Stay;

    #[test]
    fn the_log_is_bounded() {
        let history = History::new(true);
        assert!(history.status().contains("state\tnothing is known yet"), "{}", history.status());
        for n in 0..3 {
            history.moved((0..200).map(|line| format!("{n} {line}")).collect());
        }
        let log = history.log();
        assert_eq!(history.summary(), "", "buckets are moving");
        history.measured(0.05);
        history.stays(Stay::Even(0.05));
        assert_eq!(
            history.summary(),
            "imbalance of the workers 5.0 %, buckets moved 600 times; the workers have as many packets, but for 5.0 %"
        );
        assert_eq!(log.lines().count(), REMEMBERED);
        assert!(log.ends_with("2 199\n"), "{log}");
    }
}
