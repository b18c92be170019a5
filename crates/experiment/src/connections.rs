//! Connections through a stateful device (RFC 9693), as text and as JSON.

use crate::established::StepOf;
use crate::layout::{quantile, table};
use crate::model::Connections;
use crate::trial::Trial;
use measure::connections::{Goal, Search};
use measure::rate::short;
use serde_json::{Value, json};

/// Trials that are shorter, in seconds, say little.
const SHORT: f64 = 0.1;

/// The connections of all rounds at a point.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    goal: Goal,
    /// Of each round: the largest number that is kept, and the smallest that is not.
    capacities: Vec<(u64, Option<u64>)>,
    /// Of each time that they were removed: the seconds with the connections, and with an empty table.
    torn_down: Vec<(f64, f64)>,
    rounds: usize,
    trials: usize,
    /// The longest trial for the rate, in seconds.
    longest_s: f64,
}

/// The trials of connections that count.
pub(crate) fn counted(trials: &[Trial]) -> impl Iterator<Item = &Trial> {
    trials.iter().filter(|trial| trial.connections.is_some() && !trial.disturbed)
}

/// What a search was told.
pub(crate) fn search(all: &Connections, trials: &[Trial]) -> Search {
    let mut search = Search::new(all.goal.clone());
    counted(trials).for_each(|trial| search.add(trial.holds()));
    search
}

impl Kept {
    pub(crate) fn new(all: &Connections) -> Self {
        Self {
            goal: all.goal.clone(),
            capacities: Vec::new(),
            torn_down: Vec::new(),
            rounds: 0,
            trials: 0,
            longest_s: 0.0,
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, all: &Connections, trials: &[Trial]) {
        self.rounds += 1;
        self.capacities.extend(search(all, trials).capacity());
        for trial in counted(trials) {
            self.trials += 1;
            let Some(all) = trial.connections.filter(|_| trial.holds()) else { continue };
            match all.step {
                StepOf::Rate => self.longest_s = self.longest_s.max(all.seconds),
                StepOf::Capacity => {}
                StepOf::TearDown => self.torn_down.extend(all.emptied_s.zip(all.empty_s)),
            }
        }
    }

    /// How often connections were not torn down, since they were not all there.
    fn not_torn_down(&self) -> usize {
        (self.goal.tear_downs * self.rounds).saturating_sub(self.torn_down.len())
    }

    fn capacity(&self) -> Option<[f64; 3]> {
        let all: Vec<f64> = self.capacities.iter().map(|(lower, _)| *lower as f64).collect();
        (!all.is_empty()).then(|| [0.5, 0.0, 1.0].map(|share| quantile(&all, share)))
    }

    /// Whether as many as may be were kept.
    fn open(&self) -> bool {
        self.capacities.iter().any(|(_, upper)| upper.is_none())
    }

    /// The tear-down rate by the whole time, and by what the time is longer than with an empty table; the
    /// medians.
    fn tear_down(&self) -> Option<(f64, Option<f64>)> {
        if self.torn_down.is_empty() {
            return None;
        }
        let n = self.goal.connections as f64;
        let median =
            |of: fn(&(f64, f64)) -> f64| quantile(&self.torn_down.iter().map(of).collect::<Vec<_>>(), 0.5);
        let (whole, empty) = (median(|(whole, _)| *whole), median(|(_, empty)| *empty));
        Some((n / whole, (whole > empty).then(|| n / (whole - empty))))
    }

    pub(crate) fn json(&self) -> Value {
        let capacity = self.capacity().map(|[median, least, most]| {
            json!({"median": median, "least": least, "most": most, "may_be_more": self.open(),
                "rounds": self.capacities.iter().map(|(lower, _)| lower).collect::<Vec<_>>()})
        });
        let torn_down = self.tear_down().map(|(rate, corrected)| {
            json!({"rate": rate, "corrected_rate": corrected,
                "emptied_s": self.torn_down.iter().map(|(whole, _)| whole).collect::<Vec<_>>(),
                "empty_s": self.torn_down.iter().map(|(_, empty)| empty).collect::<Vec<_>>()})
        });
        json!({"number": self.goal.connections, "trials": self.trials, "capacity": capacity, "tear_down": torn_down})
    }
}

/// A line for each point: the cells of its factors, the rates of its rounds, its connections, who limits it.
pub(crate) fn text(mut head: Vec<String>, rows: &[(Vec<String>, Vec<f64>, &Kept, String)]) -> String {
    let words = head.len();
    head.extend(
        ["connections", "established/s", "least", "most", "limit", "capacity", "torn down/s", "corrected"]
            .map(str::to_owned),
    );
    let mut lines = vec![head];
    let (mut open, mut quick, mut short_trials, mut not_torn) = (false, false, false, 0);
    for (cells, rates, kept, limit) in rows {
        let mut line = cells.clone();
        line.push(kept.goal.connections.to_string());
        if rates.is_empty() {
            line.extend(["-"; 3].map(str::to_owned));
        } else {
            line.extend([0.5, 0.0, 1.0].map(|share| short(quantile(rates, share))));
        }
        line.push(limit.clone());
        let more = if kept.open() { "+" } else { "" };
        line.push(kept.capacity().map_or("-".to_owned(), |[median, ..]| format!("{median:.0}{more}")));
        let (rate, corrected) = kept.tear_down().map_or((None, None), |(rate, of)| (Some(rate), of));
        line.extend([rate, corrected].map(|rate| rate.map_or("-".to_owned(), short)));
        quick |= rate.is_some() && corrected.is_none();
        open |= kept.open();
        short_trials |= !rates.is_empty() && kept.longest_s < SHORT;
        not_torn += kept.not_torn_down();
        lines.push(line);
    }
    let mut text = format!("connections through the device (RFC 9693), medians:\n{}", table(&lines, words));
    text += "established/s: the highest rate at which all were set up and all answer. Corrected: without the time that \
             the command needs with an empty table.\n";
    if short_trials {
        text += "Trials for a rate took less than 0.1 s: what buffers hold may make it look better. More connections (`flows`) \
                 show less of that.\n";
    }
    if not_torn > 0 {
        text += &format!("Not torn down, since not all of them were there: {not_torn} times.\n");
    }
    if open {
        text += "+: as many connections as were tried (`capacity`) were kept: the table may be larger.\n";
    }
    if quick {
        text +=
            "The command needs no longer than with an empty table: more connections (`flows`) are needed.\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::established::Connected;
    use crate::model::Emptied;

    fn all(tear_downs: usize) -> Connections {
        let goal = Goal {
            connections: 1000,
            least: 100,
            most: 100_000,
            width: 0.05,
            capacity: Some((8000, 0.5)),
            tear_downs,
        };
        Connections { goal, answer: 0.5, emptied: Emptied::Command("true".to_owned()) }
    }

    /// The trials of a device that keeps so many connections and sets so many up a second.
    fn trials(all: &Connections, table: u64, rate: u64) -> Vec<Trial> {
        let (mut search, mut trials) = (Search::new(all.goal.clone()), Vec::new());
        while let Some(wanted) = search.next() {
            let asked = wanted.connections;
            let established = if wanted.rate > rate { asked - 1 } else { asked };
            let answered = if established < asked { 0 } else { asked.min(table) };
            let seconds = asked as f64 / wanted.rate as f64;
            let torn = (wanted.step == measure::connections::Step::TearDown).then_some(0.03);
            let connections = Some(Connected {
                step: wanted.step.into(),
                asked,
                established,
                answered,
                wrong: 0,
                answers_missed: 0,
                seconds,
                emptied_s: torn,
                empty_s: torn.map(|_| 0.01),
            });
            let arrived = if established < asked { established } else { answered };
            let (intended, rate) = (asked, wanted.rate);
            let trial =
                Trial { rate, seconds, intended, sent: asked, arrived, connections, ..Trial::default() };
            search.add(trial.holds());
            trials.push(trial);
        }
        trials
    }

    #[test]
    fn rounds_make_one_result() {
        let all = all(2);
        let mut kept = Kept::new(&all);
        kept.add(&all, &trials(&all, 5000, 20_000));
        kept.add(&all, &trials(&all, 5002, 20_000));
        let shown = kept.json();
        assert_eq!(
            (&shown["capacity"]["median"], &shown["capacity"]["may_be_more"]),
            (&json!(5001.0), &json!(false))
        );
        assert_eq!(shown["capacity"]["rounds"], json!([5000, 5002]));
        let rate = |key: &str| shown["tear_down"][key].as_f64().unwrap();
        assert!(
            (rate("rate") - 1000.0 / 0.03).abs() < 1e-6 && (rate("corrected_rate") - 50_000.0).abs() < 1e-6
        );
        assert_eq!(shown["tear_down"]["emptied_s"], json!([0.03, 0.03, 0.03, 0.03]));
        let told = text(vec!["size".into()], &[(vec!["60".into()], Vec::new(), &kept, "device".into())]);
        assert!(
            told.contains("5001") && told.contains("50.00 k") && !told.contains("may be larger"),
            "{told}"
        );
    }

    #[test]
    fn a_table_that_is_larger_than_all_trials_is_told() {
        let all = all(0);
        let mut kept = Kept::new(&all);
        kept.add(&all, &trials(&all, u64::MAX, 20_000));
        assert_eq!(
            (&kept.json()["capacity"]["may_be_more"], &kept.json()["tear_down"]),
            (&json!(true), &Value::Null)
        );
        let told = text(Vec::new(), &[(Vec::new(), Vec::new(), &kept, String::new())]);
        assert!(told.contains("8000+") && told.contains("may be larger"), "{told}");
    }
}
