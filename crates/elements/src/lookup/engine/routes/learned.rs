//! Routes that an element learns from elsewhere: it brings the table into step, many routes at once. Routes
//! of the configuration and of handlers stay.

use super::{Control, Learner, NextHop, Origin, Prefix, Routes};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

/// What became of learned routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::lookup) struct Outcome {
    /// The number of routes that are otherwise now.
    pub(in crate::lookup) changed: u64,
    /// Those for which there is no room, with the reason for the last.
    pub(in crate::lookup) refused: Vec<Prefix>,
    pub(in crate::lookup) reason: String,
}

/// The most routes that are changed under one lock.
const MANY: usize = 4096;

/// Where a learned route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::lookup) enum Way {
    /// To a next hop.
    One(NextHop),
    /// To several, with weights.
    Many(Box<[(NextHop, u16)]>),
}

type Step = (Prefix, Option<NextHop>);

impl Routes {
    /// Declares that an element of the configuration keeps the table in step, so that learned routes are
    /// taken over from the table that this one replaces.
    pub(in crate::lookup) fn expect_learner(&self) {
        self.learns.store(true, Relaxed);
    }

    /// From now on this one learns. Routes that another one has learned stay until [`Routes::learn_all`].
    pub(in crate::lookup) fn set_learner(&self, learner: Learner) {
        self.control().learner = Some(learner);
    }

    /// Removes what was learned, if nobody else learns meanwhile.
    pub(in crate::lookup) fn unlearn(&self, learner: Learner) {
        self.learn_all(learner, &HashMap::new());
        let mut control = self.control();
        if control.learner == Some(learner) {
            control.learner = None;
        }
    }

    /// What has to be done for a wanted route: nothing if it is there, or one of the user's is.
    fn step(&self, control: &mut Control, prefix: Prefix, way: Option<&Way>) -> Option<Step> {
        let there = control.slot(prefix);
        if there.is_some_and(|s| s.origin != Origin::Learned) {
            return None;
        }
        let hop = way.and_then(|way| match way {
            Way::One(hop) => Some(*hop),
            // If there are too many groups, it is the first.
            Way::Many(hops) => control.numbers.group(&self.hops, hops).or_else(|| hops.first().map(|h| h.0)),
        });
        (there.and_then(|s| self.hop(s.hop)) != hop).then_some((prefix, hop))
    }

    /// Puts in, replaces and removes routes; each prefix once.
    pub(in crate::lookup) fn learn(&self, learner: Learner, wanted: &[(Prefix, Option<&Way>)]) -> Outcome {
        let mut outcome = Outcome::default();
        for some in wanted.chunks(MANY) {
            let control = &mut *self.control();
            if control.learner != Some(learner) {
                return outcome;
            }
            let steps: Vec<Step> =
                some.iter().filter_map(|(prefix, way)| self.step(control, *prefix, *way)).collect();
            outcome.changed += steps.len() as u64;
            if self.carry_out(control, &steps, Origin::Learned).is_ok() {
                continue;
            }
            // There is no room for all: as many as possible.
            for step in steps {
                if let Err(reason) = self.carry_out(control, &[step], Origin::Learned) {
                    outcome.refused.push(step.0);
                    outcome.changed -= 1;
                    outcome.reason = reason;
                    // What was there before must not stay.
                    let _ = self.carry_out(control, &[(step.0, None)], Origin::Learned);
                }
            }
        }
        outcome
    }

    /// Makes these the learned routes, and removes all others.
    pub(in crate::lookup) fn learn_all(&self, learner: Learner, wanted: &HashMap<Prefix, Way>) -> Outcome {
        let mut steps: Vec<(Prefix, Option<&Way>)> = {
            let control = self.control();
            let learned = control.slots().filter(|s| s.origin == Origin::Learned);
            learned.filter(|s| !wanted.contains_key(&s.prefix)).map(|s| (s.prefix, None)).collect()
        };
        steps.extend(wanted.iter().map(|(prefix, way)| (*prefix, Some(way))));
        self.learn(learner, &steps)
    }

    /// How many learned routes there are.
    pub(in crate::lookup) fn learned(&self) -> usize {
        self.control().slots().filter(|s| s.origin == Origin::Learned).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::text::Command;
    use super::super::Order;
    use super::*;

    fn hop(port: u32) -> NextHop {
        NextHop { gateway: None, port }
    }
    fn way(port: u32) -> Way {
        Way::One(hop(port))
    }
    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }
    fn table() -> (Routes, Learner) {
        let routes = Routes::new(Order::FirstFree, 4).unwrap();
        let learner = Learner::new();
        routes.set_learner(learner);
        (routes, learner)
    }

    #[test]
    fn the_users_routes_stay() {
        let (t, me) = table();
        t.configure(&[(prefix("1.0.0.0/8"), hop(0))]).unwrap();
        t.command(Command::Add, "2.0.0.0/8 0").unwrap();
        let one = way(1);
        let all = ["1.0.0.0/8", "2.0.0.0/8", "3.0.0.0/8"].map(|p| (prefix(p), Some(&one)));
        assert_eq!(t.learn(me, &all).changed, 1);
        assert_eq!((t.lookup("1.1.1.1").unwrap(), t.lookup("3.1.1.1").unwrap()), ("0".into(), "1".into()));
        // A handler may put its route in the place of a learned one, and cannot remove a learned one.
        assert!(t.command(Command::Remove, "3.0.0.0/8").unwrap_err().contains("not found"));
        t.command(Command::Add, "3.0.0.0/8 2").unwrap();
        assert_eq!(t.learn(me, &[(prefix("3.0.0.0/8"), None)]).changed, 0);
        assert_eq!((t.lookup("3.1.1.1").unwrap(), t.learned()), ("2".into(), 0));
        // When the user's route is gone, the learned one returns with the next comparison.
        t.command(Command::Remove, "3.0.0.0/8").unwrap();
        let wanted = HashMap::from([(prefix("3.0.0.0/8"), one)]);
        assert_eq!(t.learn_all(me, &wanted).changed, 1);
        assert_eq!(t.lookup("3.1.1.1").unwrap(), "1");
    }

    #[test]
    fn all_that_is_not_wanted_goes() {
        let (t, me) = table();
        let many: HashMap<Prefix, Way> =
            (0..10_000u32).map(|i| (Prefix::new(i << 10, 22).unwrap(), way(i % 4))).collect();
        assert_eq!(t.learn_all(me, &many).changed, 10_000);
        assert_eq!(t.learn_all(me, &many).changed, 0);
        let few: HashMap<_, _> = many.iter().take(10).map(|(p, w)| (*p, w.clone())).collect();
        assert_eq!((t.learn_all(me, &few).changed, t.learned()), (9_990, 10));
        t.unlearn(me);
        assert_eq!((t.table(), t.learned()), (String::new(), 0));
    }

    #[test]
    fn only_the_last_learner_counts() {
        let (t, old) = table();
        let one = way(1);
        let routes = [(prefix("1.0.0.0/8"), Some(&one))];
        t.learn(old, &routes);
        let new = Learner::new();
        t.set_learner(new);
        t.unlearn(old);
        assert_eq!((t.learn(old, &[(prefix("1.0.0.0/8"), None)]).changed, t.learned()), (0, 1));
        t.unlearn(new);
        assert_eq!(t.learned(), 0);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_the_rest_is_not() {
        let (t, me) = table();
        let ways = [way(0), way(1)];
        let many: Vec<_> = (0..=tables::lpm::MAX_GROUPS as u32)
            .map(|i| (Prefix::host(1 << 31 | i << 8), Some(&ways[0])))
            .chain([(prefix("1.0.0.0/8"), Some(&ways[1]))])
            .collect();
        let outcome = t.learn(me, &many);
        assert_eq!(outcome.refused.len(), 1, "{}", outcome.reason);
        assert_eq!(t.lookup("1.1.1.1").unwrap(), "1");
    }

    #[test]
    fn a_table_that_replaces_another_keeps_what_was_learned() {
        let (old, me) = table();
        let (ways, both) = ([0, 1, 3].map(way), Way::Many([(hop(0), 1), (hop(1), 1)].into()));
        let kept = [(prefix("1.0.0.0/8"), Some(&ways[1])), (prefix("4.0.0.0/8"), Some(&both))];
        old.learn(me, &kept);
        old.learn(me, &[(prefix("2.0.0.0/8"), Some(&ways[2]))]);
        old.command(Command::Add, "3.0.0.0/8 1").unwrap();
        let new = Routes::new(Order::FirstFree, 2).unwrap();
        new.adopt(&old);
        assert_eq!((new.learned(), new.table().lines().count()), (0, 1));
        let new = Routes::new(Order::FirstFree, 2).unwrap();
        new.expect_learner();
        new.set_learner(me);
        new.learn(me, &[(prefix("3.0.0.0/8"), Some(&ways[0]))]);
        new.adopt(&old);
        assert_eq!((new.learned(), new.table().lines().count()), (2, 4));
        assert_eq!(new.lookup("3.1.1.1").unwrap(), "1");
    }

    #[test]
    fn several_next_hops_share_the_addresses() {
        let (t, me) = table();
        let both = Way::Many([(hop(1), 1), (hop(2), 1)].into());
        assert_eq!(t.learn(me, &[(prefix("1.0.0.0/8"), Some(&both))]).changed, 1);
        assert_eq!(t.learn(me, &[(prefix("1.0.0.0/8"), Some(&both))]).changed, 0);
        assert_eq!(t.table(), "1.0.0.0/8\t\t-\t\t1\n1.0.0.0/8\t\t-\t\t2\n");
        let first = (0..1000).filter(|i| t.lookup(&format!("1.0.{}.{}", i / 250, i % 250)).unwrap() == "1");
        assert!((400..600).contains(&first.count()));
        // An output that is gone takes the route along.
        t.set_outputs(2);
        assert_eq!(t.table(), "");
    }
}
