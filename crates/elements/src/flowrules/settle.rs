//! Rules that stay come into trees, on a thread of its own, when no more of them have come for a while.

use rules::Table;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// If rules have not been changed for so long, more are not expected.
const CALM: Duration = Duration::from_millis(200);

/// The table of an element, and whether a thread waits for it to become calm.
pub(super) struct Settling {
    table: Arc<Table>,
    waits: Arc<AtomicBool>,
}

impl Settling {
    pub(super) fn new(table: Table) -> Self {
        Self { table: Arc::new(table), waits: Arc::default() }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Rules have been changed. Without a thread they are found too, more slowly.
    pub(super) fn changed(&self) {
        if self.waits.swap(true, AcqRel) {
            return;
        }
        let (table, waits) = (Arc::downgrade(&self.table), Arc::clone(&self.waits));
        let run = move || wait(&table, &waits);
        if std::thread::Builder::new().name("rules".into()).spawn(run).is_err() {
            self.waits.store(false, Release);
        }
    }
}

/// Waits until rules stay as they are and are where look-ups find them quickly, or the table is gone.
fn wait(table: &Weak<Table>, waits: &AtomicBool) {
    let mut before = None;
    loop {
        std::thread::sleep(CALM);
        let Some(table) = table.upgrade() else { return };
        let version = table.version();
        if before.replace(version) != Some(version) || !table.settle() {
            continue;
        }
        waits.store(false, Release);
        // Whoever has changed rules before that relied on this thread.
        if table.version() == version || waits.swap(true, AcqRel) {
            return;
        }
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
            until(|| table.tuples() == 0 && Arc::weak_count(&settling.table) == 0);
        }
        assert_eq!(table.len(), 200);
    }

    #[test]
    fn the_thread_ends_with_the_table() {
        let settling = Settling::new(Table::new(1));
        settling.changed();
        let waits = Arc::downgrade(&settling.waits);
        drop(settling);
        until(|| waits.upgrade().is_none());
    }
}
