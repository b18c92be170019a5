//! Connections through a device that keeps state of them (RFC 9693): which trial is next.
//!
//! A trial sets so many connections up at a rate, and holds if all of them were set up and all of them
//! answer. The first search is for the highest rate; then, at a part of it, for the largest number. Then so
//! many connections are torn down, several times.
//!
//! As [`crate::search::Search`], a [`Search`] says which trial is next and is told how it went; what comes
//! next depends on that alone.

/// What is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Connections in each trial for the rate, and in the table when it is emptied.
    pub connections: u64,
    /// The lowest and the highest rate, in connections a second.
    pub least: u64,
    /// See `least`.
    pub most: u64,
    /// How far apart the bounds of the rate may be, as a part of the upper one.
    pub width: f64,
    /// The largest number of connections that is tried, and the part of the rate at which they are set up;
    /// none: it is not searched for.
    pub capacity: Option<(u64, f64)>,
    /// How often connections are torn down.
    pub tear_downs: usize,
}

/// A trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// For the maximum connection establishment rate.
    Rate,
    /// For the connection tracking table capacity.
    Capacity,
    /// For the connection tear-down rate: when they are set up, all are removed.
    TearDown,
}

/// A trial that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What for.
    pub step: Step,
    /// So many connections.
    pub connections: u64,
    /// So many a second.
    pub rate: u64,
}

/// The search.
#[derive(Clone, Debug)]
pub struct Search {
    goal: Goal,
    /// The highest rate that holds, and the lowest that does not.
    rate: (Option<u64>, Option<u64>),
    /// The largest number that holds, and the smallest that does not.
    capacity: (u64, Option<u64>),
    /// How often the rate was halved because a number of connections did not hold at it.
    halved: u32,
    /// Whether the last trial for the capacity did not hold: it is made again at a lower rate.
    in_doubt: bool,
    torn_down: usize,
    /// Trials in which there were not as many connections to remove.
    in_vain: usize,
}

/// How often the rate is halved for a number of connections that did not hold.
const SLOWER: u32 = 2;
/// So many trials for the tear-down rate may fail.
const MOST_IN_VAIN: usize = 3;

impl Search {
    /// One that has seen no trial.
    #[must_use]
    pub fn new(goal: Goal) -> Self {
        let least = goal.least.max(1);
        let goal = Goal { least, most: goal.most.max(least), connections: goal.connections.max(1), ..goal };
        Self {
            capacity: (goal.connections, None),
            goal,
            rate: (None, None),
            halved: 0,
            in_doubt: false,
            torn_down: 0,
            in_vain: 0,
        }
    }

    /// The next trial; none: the search is over.
    #[must_use]
    pub fn next(&self) -> Option<Wanted> {
        let connections = self.goal.connections;
        if let Some(rate) = self.next_rate() {
            return Some(Wanted { step: Step::Rate, connections, rate });
        }
        let found = self.rate.0?;
        if let Some((most, part)) = self.goal.capacity
            && let Some(connections) = self.next_capacity(most)
        {
            let rate = self.safe(found, part) >> if self.in_doubt { SLOWER } else { 0 };
            return Some(Wanted { step: Step::Capacity, connections, rate: rate.max(1) });
        }
        if self.torn_down < self.goal.tear_downs && self.in_vain < MOST_IN_VAIN {
            let part = self.goal.capacity.map_or(SAFE, |(_, part)| part);
            let rate = self.safe(found, part);
            return Some(Wanted { step: Step::TearDown, connections, rate });
        }
        None
    }

    /// A part of the rate that was found. A trial of many connections is longer than those for the rate,
    /// which buffers may have made look better: the rate is halved where that is seen.
    fn safe(&self, found: u64, part: f64) -> u64 {
        (((found as f64 * part) as u64) >> self.halved.min(63)).clamp(1, found)
    }

    fn next_rate(&self) -> Option<u64> {
        let (lower, upper) = self.rate;
        let Some(upper) = upper else {
            return lower.is_none().then_some(self.goal.most);
        };
        let step = ((upper as f64 * self.goal.width) as u64).max(1);
        match lower {
            Some(lower) if upper - lower <= step => None,
            None if upper <= self.goal.least => None,
            // The interval is halved by its ratio: nothing is known of the magnitude.
            lower => {
                let lower = lower.map_or(self.goal.least, |lower| lower + 1);
                let middle = (lower as f64 * upper as f64).sqrt() as u64;
                // The lowest rate is tried too, if nothing above it holds.
                let last = self.rate.0.is_none() && upper - lower <= step;
                Some(if last { lower } else { middle.clamp(lower, upper - 1) })
            }
        }
    }

    fn next_capacity(&self, most: u64) -> Option<u64> {
        match self.capacity {
            (lower, None) => (lower < most).then(|| lower.saturating_mul(2).min(most)),
            (lower, Some(upper)) => (upper - lower > 1).then(|| lower + (upper - lower) / 2),
        }
    }

    /// Notes whether the trial that was next holds.
    pub fn add(&mut self, holds: bool) {
        let Some(Wanted { step, connections, rate }) = self.next() else { return };
        match (step, holds) {
            (Step::Rate, true) => self.rate.0 = Some(rate),
            (Step::Rate, false) => self.rate.1 = Some(rate),
            (Step::Capacity, true) => {
                self.capacity.0 = connections;
                self.halved += if std::mem::take(&mut self.in_doubt) { SLOWER } else { 0 };
            }
            (Step::Capacity, false) if !self.in_doubt && rate > 1 => self.in_doubt = true,
            (Step::Capacity, false) => {
                self.capacity.1 = Some(connections);
                self.in_doubt = false;
            }
            (Step::TearDown, true) => self.torn_down += 1,
            (Step::TearDown, false) => self.in_vain += 1,
        }
    }

    /// The highest rate that holds, and the lowest that does not.
    #[must_use]
    pub fn rate(&self) -> (Option<u64>, Option<u64>) {
        self.rate
    }

    /// The largest number of connections that holds, and the smallest that does not; none: it is not searched
    /// for, or nothing is known yet.
    #[must_use]
    pub fn capacity(&self) -> Option<(u64, Option<u64>)> {
        self.rate.0.filter(|_| self.goal.capacity.is_some() && self.next_rate().is_none())?;
        Some(self.capacity)
    }
}

/// The part of the rate at which connections are set up that are then torn down.
pub const SAFE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn goal() -> Goal {
        let (connections, capacity) = (1000, Some((1_000_000, 0.5)));
        Goal { connections, least: 100, most: 10_000_000, width: 0.01, capacity, tear_downs: 2 }
    }

    /// Searches through a device that sets so many connections up a second, and keeps so many.
    fn search(goal: &Goal, rate: u64, table: u64) -> (Search, Vec<Wanted>) {
        let (mut search, mut all) = (Search::new(goal.clone()), Vec::new());
        while let Some(wanted) = search.next() {
            assert!((1..=goal.most).contains(&wanted.rate), "{wanted:?}");
            all.push(wanted);
            search.add(wanted.rate <= rate && wanted.connections <= table);
            assert!(all.len() < 200, "{search:?}");
        }
        (search, all)
    }

    #[test]
    fn rate_and_capacity_are_found() {
        for (rate, table) in [(123_456, 65_536), (100, 1000), (9_999_999, 999_999), (5000, 1001)] {
            let (search, all) = search(&goal(), rate, table);
            let (lower, upper) = search.rate();
            let (lower, upper) = (lower.unwrap(), upper.unwrap());
            assert!(
                lower <= rate && rate < upper && upper - lower <= 1 + upper / 100,
                "{rate}: {lower} to {upper}"
            );
            assert_eq!(search.capacity(), Some((table, Some(table + 1))));
            let safe = all.iter().filter(|one| one.step != Step::Rate);
            let again = |one: &Wanted| one.step == Step::Capacity && one.rate == lower / 8;
            assert!(safe.clone().all(|one| one.rate == lower / 2 || again(one)), "{all:?}");
            assert_eq!(safe.filter(|one| one.step == Step::TearDown && one.connections == 1000).count(), 2);
        }
    }

    #[test]
    fn limits_that_are_not_reached_are_seen_by_the_bounds() {
        let (found, all) = search(&goal(), u64::MAX, u64::MAX);
        assert_eq!((found.rate(), found.capacity()), ((Some(10_000_000), None), Some((1_000_000, None))));
        assert_eq!(all[0].rate, 10_000_000);
        let (none, all) = search(&goal(), 99, u64::MAX);
        assert_eq!((none.rate().0, none.capacity()), (None, None));
        assert_eq!(all.last().map(|one| one.rate), Some(100), "the lowest is tried");
        // A device that does not even keep as many as for the rate has no rate.
        assert_eq!(search(&goal(), u64::MAX, 999).0.rate().0, None);
    }

    #[test]
    fn a_rate_that_only_short_trials_reach_is_no_limit_of_the_table() {
        // Its buffer holds 2000 connections; it sets 2,000,000 a second up.
        let (mut search, mut tried) = (Search::new(goal()), 0);
        while let Some(Wanted { connections, rate, .. }) = search.next() {
            let behind = connections as f64 * (1.0 - 2e6 / rate as f64);
            search.add(behind <= 2000.0);
            tried += 1;
            assert!(tried < 300, "{search:?}");
        }
        assert_eq!(search.rate().0, Some(10_000_000), "1000 connections fit into the buffer");
        assert_eq!(search.capacity(), Some((1_000_000, None)));
    }

    #[test]
    fn connections_that_are_not_there_are_not_torn_down_for_ever() {
        let mut search = Search::new(Goal { capacity: None, ..goal() });
        let mut downs = 0;
        while let Some(wanted) = search.next() {
            downs += usize::from(wanted.step == Step::TearDown);
            search.add(wanted.step != Step::TearDown);
        }
        assert_eq!(downs, MOST_IN_VAIN);
    }

    #[test]
    fn what_is_not_wanted_is_not_tried() {
        let goal = Goal { capacity: None, tear_downs: 0, ..goal() };
        let (search, all) = search(&goal, 5000, 1000);
        assert!(all.iter().all(|one| one.step == Step::Rate) && search.capacity().is_none());
        let one = Goal { least: 7, most: 7, ..goal };
        assert_eq!(self::search(&one, 6, 1000).1.len(), 1);
    }
}
