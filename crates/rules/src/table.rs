//! A table of very many rules that is changed while it is looked up: tuple-space search (Srinivasan, Suri and
//! Varghese, "Packet classification using tuple space search", SIGCOMM 1999).
//!
//! Rules that look at the same bits are in one hash table, a *tuple*, with others that look at more bits; a
//! packet is looked up in each tuple of its group that may have a rule that goes before what is already
//! found. What is added here:
//!
//! - **Changes are all or nothing.** A batch of changes makes one new *version*. Each rule knows the version
//!   from which and until which it counts, and a look-up of many packets, through several groups, sees one
//!   version: never a rule of a batch without the others, never neither the old nor the new rule.
//! - **Readers take no lock for rules that come and go in hash tables.** These are written beside those that
//!   are there. New tuples, larger ones, new lists of actions and new bits make a new *structure*; a reader
//!   that sees that there is one takes it under a lock, which is held as long as it takes to count one
//!   reference: once for a change, not for a packet.
//! - **Memory is used again** when no reader can have found what was in it before ([`tables::epoch`]).
//! - **Few rules cost little, whatever their masks are.** Where few rules look at the same bits, they are in
//!   no hash table: they are looked up together, as bits ([`crate::bits`]), which are made anew with each
//!   change.
//! - **Masks share hash tables** whose keys are a part of all of them ([`crate::coarse`]).
//! - **Rules that stay come into decision trees** when [`Table::settle`] is called: a packet then meets a few
//!   nodes and rules instead of all tuples ([`crate::tree`]). What comes later is beside them, as before.
//! - **A chain of groups costs one look-up** where packets come from one group to the next by default: their
//!   rules are in the same tuples and bits ([`crate::chains`]).

use crate::control::{Control, Left, Planned, Refused, Tuning};
use crate::expand::{Part, expand};
use crate::reader::{Reader, Shared};
use crate::rule::Rule;
use std::sync::{Arc, Mutex, PoisonError};

/// The table.
#[derive(Debug)]
pub struct Table {
    shared: Arc<Shared>,
    control: Mutex<Control>,
}

impl Table {
    /// An empty one. `seed` is mixed into hashes: a random number that nobody outside knows.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::tuned(seed, Tuning::default())
    }

    /// The same with other numbers.
    #[must_use]
    pub fn tuned(seed: u64, tuning: Tuning) -> Self {
        let control = Control::new(seed, tuning);
        Self { shared: Arc::new(Shared::default()), control: Mutex::new(control) }
    }

    /// A view for one more thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(&self.shared)
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.control().rules.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many hash tables rules are in.
    #[must_use]
    pub fn tuples(&self) -> usize {
        self.control().tables.iter().filter(|table| table.linked > 0).count()
    }

    /// Removes the rules with these numbers and adds others, all at once. Returns the numbers of those that
    /// are added, in their order.
    ///
    /// # Errors
    /// What is wrong with one of them; then nothing is changed.
    pub fn change(&self, removed: &[u64], added: &[Rule]) -> Result<Vec<u64>, Refused> {
        let mut control = self.control();
        control.all_there(removed)?;
        let parts = parts(added)?;
        control.counters_for(added.iter().filter(|rule| rule.counts()).count())?;
        Ok(control.make_version(&self.shared, |control, version, counters| {
            control.expect(added);
            let new = added.iter().zip(parts);
            let numbers = new.map(|(rule, parts)| control.add(rule, parts, version, counters)).collect();
            (numbers, control.end(removed, version))
        }))
    }

    /// Puts others in the place of the rules with these numbers, all at once. They have the numbers of those
    /// that were there, go before those of equal priority that they went before, and go on counting.
    ///
    /// # Errors
    /// What is wrong with one of them; then nothing is changed.
    pub fn replace(&self, numbers: &[u64], rules: &[Rule]) -> Result<(), Refused> {
        let mut control = self.control();
        control.all_there(numbers)?;
        let parts = parts(rules)?;
        let begin = |number: &u64, rule: &Rule| rule.counts() && control.rules[number].counter.is_none();
        let new = numbers.iter().zip(rules).filter(|(number, rule)| begin(number, rule)).count();
        control.counters_for(new)?;
        control.make_version(&self.shared, |control, version, counters| {
            control.expect(rules);
            let mut left = Vec::new();
            for ((number, rule), parts) in numbers.iter().zip(rules).zip(parts) {
                let counter = control.rules.get_mut(number).and_then(|held| held.counter.take());
                left.extend(control.end(&[*number], version));
                let kept = counter.filter(|_| rule.counts());
                left.extend(counter.filter(|_| kept.is_none()).map(Left::Counter));
                let counter = kept.or_else(|| control.counter_of(rule, counters));
                control.write(*number, rule, parts, version, counter);
            }
            ((), left)
        });
        Ok(())
    }

    /// Puts rules where look-ups find them most quickly, whatever they look at, in decision trees: for rules
    /// that will stay. It takes about ten microseconds for each rule, in which look-ups go on; changes too,
    /// but for a microsecond for each rule in which it has their lock. Rules that come later are looked up
    /// beside them until the next call. Returns whether a rule has come into trees.
    pub fn settle(&self) -> bool {
        let planned = self.control().for_trees();
        if planned.is_empty() {
            return false;
        }
        let grown = planned.into_iter().map(Planned::grow).collect();
        self.control().plant(&self.shared, grown) > 0
    }

    /// Frees what rules have left that are gone or have come into trees, so that look-ups do not come to it
    /// any longer; changes do that too. Returns false if something is left: a reader may be at it, and it
    /// takes two or three calls in any case.
    pub fn sweep(&self) -> bool {
        self.control().sweep(&self.shared)
    }

    /// How many packets a rule has counted. None: it is not there, or does not count.
    #[must_use]
    pub fn counted(&self, number: u64) -> Option<u64> {
        let counter = self.control().rules.get(&number)?.counter?;
        Some(self.shared.counters.read(counter))
    }

    fn control(&self) -> std::sync::MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What each rule comes to.
fn parts(rules: &[Rule]) -> Result<Vec<Vec<Part>>, Refused> {
    let parts = rules.iter().enumerate();
    parts.map(|(at, rule)| expand(&rule.pattern).ok_or(Refused::TooManyPrefixes(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;

    #[test]
    fn a_reader_that_does_not_look_keeps_no_later_structure() {
        let table = Table::new(7);
        let idle = table.reader();
        let add = |group| table.change(&[], &[Rule { group, ..Rule::default() }]).unwrap();
        add(1);
        let later = Arc::downgrade(&table.shared.structure());
        add(2);
        assert!(later.upgrade().is_none());
        drop(idle);
    }

    #[test]
    fn what_came_and_went_leaves_nothing() {
        let table = Table::new(7);
        let reader = table.reader();
        for bits in 1..5000 {
            let mut rule = Rule { actions: vec![Action::SetMeta { data: bits, mask: 1 }], ..Rule::default() };
            rule.pattern.demand(crate::Field::Meta, 0, bits.into());
            let number = table.change(&[], &[rule]).unwrap()[0];
            table.change(&[number], &[]).unwrap();
        }
        let control = table.control();
        assert!(control.owns.len() < 10 && control.by_mask.len() < 10, "{}", control.owns.len());
        assert!(control.names.len() < 10 && control.by_list.len() < 10, "{}", control.names.len());
        assert!(control.former.len() <= 1, "the reader has the first one");
        drop(reader);
    }

    #[test]
    fn chains_that_came_and_went_leave_nothing() {
        for few in [0, 64] {
            let table = Table::tuned(7, Tuning { few, ..Tuning::default() });
            let mut reader = table.reader();
            let listed = |group, data, last| {
                let actions = vec![Action::SetMeta { data, mask: 1 }, last];
                let mut rule = Rule { group, actions, ..Rule::default() };
                rule.pattern.demand(crate::Field::Meta, data.into(), u64::MAX);
                rule
            };
            let always =
                |group, actions| Rule { group, priority: 9, pattern: crate::Pattern::default(), actions };
            for turn in 0..1000u32 {
                // More rules before the link than behind, and the other way round.
                let rules = |group: u32| (0..5 + (turn + group) % 2).map(move |n| (group, turn * 16 + n));
                let rules = rules(0).chain(rules(1)).map(|(group, data)| listed(group, data, Action::Drop));
                let mut numbers = table.change(&[], &rules.collect::<Vec<_>>()).unwrap();
                let ends =
                    [always(0, vec![Action::Jump(1)]), always(1, listed(1, turn, Action::Drop).actions)];
                numbers.extend(table.change(&[], &ends).unwrap());
                drop(reader.now());
                // The default becomes a rule among others, and another one.
                let behind = Rule { priority: 10, ..listed(1, 1, Action::Drop) };
                let behind = table.change(&[], &[behind]).unwrap();
                table.change(&behind, &[]).unwrap();
                let last = numbers.len() - 1;
                table
                    .replace(&numbers[last..], &[always(1, listed(1, turn + 1, Action::Drop).actions)])
                    .unwrap();
                table.change(&numbers, &[]).unwrap();
            }
            (0..3).for_each(|_| drop(table.change(&[], &[]).unwrap()));
            let control = table.control();
            assert!(control.owns.len() < 100 && control.by_mask.is_empty(), "{}", control.owns.len());
            assert!(control.by_list.is_empty(), "{:?}", control.by_list);
            assert!(control.ended.is_empty() && control.tables.iter().next().is_none());
            assert!(table.shared.structure().ways.is_empty());
        }
    }
}
