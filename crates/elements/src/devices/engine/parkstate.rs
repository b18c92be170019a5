//! Which workers an element has parked, when and why, and what that saves: for handlers.

use super::indirection::Indirection;
use locks::IgnorePoison;
use rebalance::Limits;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes that are remembered.
const REMEMBERED: usize = 256;

/// Why it is off where there are rules.
pub(super) const NOT_WITH_RULES: &str =
    "PARK does not go with RULES, which may give packets to a parked worker";

/// What has been decided.
pub(super) struct ParkState {
    on: AtomicBool,
    limits: Limits,
    /// Whether rules may give packets to any worker.
    has_rules: bool,
    said: Mutex<Said>,
}

/// The time that a worker has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) awake_ns: u64,
    pub(super) parked_ns: u64,
    pub(super) busy_ns: u64,
}

#[derive(Default)]
struct Said {
    /// A line for each of the last changes, the oldest first.
    changes: VecDeque<String>,
    parks: u64,
    wakes: u64,
    /// For each worker, by its place.
    spent: Vec<Spent>,
}

impl ParkState {
    pub(super) fn new(on: bool, limits: Limits, has_rules: bool) -> Self {
        Self { on: AtomicBool::new(on), limits, has_rules, said: Mutex::default() }
    }
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
    /// Switches parking on or off.
    ///
    /// # Errors
    /// It must stay off.
    pub(super) fn switch(&self, on: bool) -> Result<(), String> {
        if on && self.has_rules {
            return Err(NOT_WITH_RULES.to_owned());
        }
        self.on.store(on, Ordering::Relaxed);
        Ok(())
    }
    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }
    /// Workers were parked.
    pub(super) fn parked(&self, line: String) {
        let mut said = self.said.lock().ignore_poison();
        said.parks += 1;
        said.remember(line);
    }
    /// Workers were woken, so many times.
    pub(super) fn woke(&self, times: u64, line: String) {
        let mut said = self.said.lock().ignore_poison();
        said.wakes += times;
        said.remember(line);
    }
    /// How workers have spent their time, in addition to what was said before.
    pub(super) fn spent(&self, more: &[Spent]) {
        let mut said = self.said.lock().ignore_poison();
        said.spent.resize(more.len(), Spent::default());
        for (sum, more) in said.spent.iter_mut().zip(more) {
            sum.awake_ns += more.awake_ns;
            sum.parked_ns += more.parked_ns;
            sum.busy_ns += more.busy_ns;
        }
    }
    /// The changes, a line for each.
    pub(super) fn log(&self) -> String {
        self.said.lock().ignore_poison().changes.iter().fold(String::new(), |text, line| text + line + "\n")
    }
    /// How it is: a name, a tab and a value on each line; then a line for each worker.
    pub(super) fn status(&self, table: Option<&Indirection>) -> String {
        let said = self.said.lock().ignore_poison();
        let mut text = format!("on\t{}\nparks\t{}\nwakes\t{}\n", self.is_on(), said.parks, said.wakes);
        let state = match table {
            None => {
                "no worker is parked here: flows are not spread over workers in software, since each has a \
                     receive queue of its own or there is one worker"
                    .to_owned()
            }
            Some(_) if !self.is_on() => "it is off".to_owned(),
            Some(table) => {
                let (awake, all) = (table.awake(), table.workers().len());
                format!("{awake} of {all} workers are awake")
            }
        };
        let _ = writeln!(text, "state\t{state}");
        if let Some(table) = table {
            let (woke, began) = table.last_wake();
            let _ = writeln!(text, "woke_ns\t{woke}\nbegan_ns\t{began}");
            let seconds = |ns: u64| ns as f64 / 1e9;
            for (worker, spent) in table.workers().iter().zip(&said.spent) {
                let (awake, parked) = (seconds(spent.awake_ns), seconds(spent.parked_ns));
                let busy = seconds(spent.busy_ns);
                let _ = writeln!(
                    text,
                    "worker {worker}\tawake {awake:.3} s, parked {parked:.3} s, busy {busy:.3} s"
                );
            }
        }
        text
    }
}

impl Said {
    fn remember(&mut self, line: String) {
        self.changes.push_back(line);
        let old = self.changes.len().saturating_sub(REMEMBERED);
        self.changes.drain(..old);
    }
}

/// `worker 1 is` or `workers 1 to 3 are`.
pub(super) fn are(workers: &[usize]) -> String {
    let (word, verb) = if workers.len() == 1 { ("worker", "is") } else { ("workers", "are") };
    format!("{word} {} {verb}", runtime::placement::listed(workers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_times_add_up() {
        let state = ParkState::new(true, Limits::default(), false);
        (0..300).for_each(|n| state.parked(format!("{n}")));
        state.woke(2, "last".to_owned());
        let log = state.log();
        assert_eq!((log.lines().count(), log.lines().last()), (REMEMBERED, Some("last")));
        let spent = Spent { awake_ns: 1_500_000_000, parked_ns: 0, busy_ns: 1 };
        (0..2).for_each(|_| state.spent(&[spent]));
        assert_eq!(state.said.lock().ignore_poison().spent[0].awake_ns, 3_000_000_000);
        let status = state.status(None);
        assert!(
            status.starts_with("on\ttrue\nparks\t300\nwakes\t2\nstate\tno worker is parked here"),
            "{status}"
        );
    }

    #[test]
    fn it_stays_off_where_rules_may_give_packets_to_any_worker() {
        let state = ParkState::new(false, Limits::default(), true);
        assert!(state.switch(true).is_err_and(|why| why.contains("RULES")) && !state.is_on());
        assert!(state.switch(false).is_ok());
    }
}
