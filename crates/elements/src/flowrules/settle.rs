//! Rules that stay come into trees, on a thread of its own.

use rules::Table;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// So long after the first change trees are made, so that others that come with it are in them too.
const PAUSE: Duration = Duration::from_millis(200);
/// Trees are being made for one part in so many of the time at most, while rules come and go.
const SHARE: u32 = 10;
/// The longest time between two of them.
const LONGEST: Duration = Duration::from_secs(30);
/// About so much memory a rule takes while trees are made.
const RULE_BYTES: usize = 1500;
/// Workers look at rules much more often.
const SWEEP: Duration = Duration::from_millis(5);

/// The table of an element.
pub(super) struct Settling {
    table: Arc<Table>,
    state: Arc<State>,
}

/// What the thread is told.
#[derive(Default)]
struct State {
    runs: AtomicBool,
    changes: AtomicU64,
}

impl Settling {
    pub(super) fn new(table: Table) -> Self {
        Self { table: Arc::new(table), state: Arc::default() }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Rules have been changed. If no thread can be started they are found too, more slowly.
    pub(super) fn changed(&self) {
        self.state.changes.fetch_add(1, AcqRel);
        if self.state.runs.swap(true, AcqRel) {
            return;
        }
        let (table, state) = (Arc::downgrade(&self.table), Arc::clone(&self.state));
        let account = accounts::inherit();
        let run = move || {
            let _account = account.enter();
            settle(&table, &state);
        };
        if std::thread::Builder::new().name("rules".into()).spawn(run).is_err() {
            self.state.runs.store(false, Release);
        }
    }
}

/// Puts rules into trees until no more are changed, or the table is gone.
fn settle(table: &Weak<Table>, state: &State) {
    let mut pause = PAUSE;
    loop {
        std::thread::sleep(pause);
        sweep(table, state, state.changes.load(Acquire));
        let Some(held) = table.upgrade() else { return };
        let (changes, start) = (state.changes.load(Acquire), Instant::now());
        // A router that has not the memory for them does without.
        if accounts::inherit().would_exceed(held.len() * RULE_BYTES).is_none() {
            held.settle();
        }
        pause = (start.elapsed() * SHARE).clamp(PAUSE, LONGEST);
        drop(held);
        sweep(table, state, changes);
        if state.changes.load(Acquire) != changes {
            continue;
        }
        // Whoever has changed rules before this relied on this thread; the exchange sees what that was.
        state.runs.swap(false, AcqRel);
        if state.changes.load(Acquire) == changes || state.runs.swap(true, AcqRel) {
            return;
        }
    }
}

/// Lets look-ups no longer come to what rules have left, unless changes come, which do that.
fn sweep(table: &Weak<Table>, state: &State, changes: u64) {
    while table.upgrade().is_some_and(|table| !table.sweep()) && state.changes.load(Acquire) == changes {
        std::thread::sleep(SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::{Action, Field, Rule};
    use std::time::Instant;

    /// Each looks at other bits.
    fn rule(n: u32) -> Rule {
        let mut rule = Rule { priority: n, actions: vec![Action::Queue(0)], ..Rule::default() };
        rule.pattern.demand(Field::SrcLow, u64::from(n) << 8, 0xffff_ff00 | u64::from(n));
        rule
    }

    fn until(what: impl Fn() -> bool) {
        let start = Instant::now();
        while !what() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn rules_that_stay_come_into_trees_and_the_thread_ends() {
        let settling = Settling::new(Table::tuned(1, rules::Tuning { bits: 4, ..rules::Tuning::default() }));
        let table = settling.table();
        for turn in 0..2 {
            let rules: Vec<Rule> = (0..100).map(|n| rule(turn * 100 + n)).collect();
            table.change(&[], &rules).unwrap();
            assert!(table.tuples() > 1, "turn {turn}");
            settling.changed();
            settling.changed();
            until(|| Arc::weak_count(&settling.table) == 0);
            assert_eq!(table.tuples(), 0);
        }
        assert_eq!(table.len(), 200);
    }

    #[test]
    fn the_thread_ends_with_the_table() {
        let settling = Settling::new(Table::new(1));
        settling.changed();
        let state = Arc::downgrade(&settling.state);
        drop(settling);
        until(|| state.upgrade().is_none());
    }
}
