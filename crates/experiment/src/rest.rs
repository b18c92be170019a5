//! Which trial of a point is next, by those that were made.

use crate::model::Measure;
use crate::tables;
use crate::trial::{Failed, Traffic, Trial};
use measure::burst;
use measure::connections;
use measure::rate::short;
use measure::search::{Goal, Search, Wanted};

/// A trial that is to be made; for latency, with the part of the result that its rate is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Next {
    pub(crate) traffic: Traffic,
    pub(crate) share: Option<f64>,
}

/// The trials that are still to be made.
pub(crate) enum Rest {
    /// Those of a search, then those of latency at parts of its result, then bursts at the highest rate.
    Search {
        search: Box<Search>,
        latency: Vec<f64>,
        bursts: Option<(u64, burst::Search)>,
    },
    /// Connections; the rate of answers, as a part of the rate.
    Connections {
        search: Box<connections::Search>,
        answer: f64,
    },
    Once(Traffic),
}

impl From<Wanted> for Traffic {
    fn from(wanted: Wanted) -> Self {
        Self { rate: wanted.load, seconds: wanted.seconds, ..Self::default() }
    }
}

impl Rest {
    /// After these trials.
    pub(crate) fn new(measure: &Measure, before: &[Trial]) -> Result<Self, Failed> {
        if let Measure::Connections(all) = measure {
            let search = Box::new(connections::Search::new(all.goal.clone()));
            return Self::Connections { search, answer: all.answer }.after(before);
        }
        let (search, latency, bursts) = match measure {
            Measure::Connections(_) | Measure::Figures => {
                return Ok(Self::Once(Traffic::default()));
            }
            Measure::Count { seconds } => {
                return Ok(Self::Once(Traffic { seconds: *seconds, ..Traffic::default() }));
            }
            Measure::Rate { rate, seconds } => {
                return Ok(Self::Once(Traffic { rate: *rate, seconds: *seconds, ..Traffic::default() }));
            }
            Measure::Search { method, goals, least, most, latency, bursts } => (
                Search::new(*method, goals.clone(), *least, *most),
                latency.clone(),
                bursts.as_ref().map(|bursts| (*most, bursts.search(*most))),
            ),
        };
        Self::Search { search: Box::new(search), latency, bursts }.after(before)
    }

    /// The same after these trials.
    fn after(self, before: &[Trial]) -> Result<Self, Failed> {
        let mut rest = self;
        let special = |trial: &Trial| trial.burst.is_some() || trial.connections.is_some();
        for trial in before.iter().filter(|trial| trial.counts() || special(trial) && !trial.disturbed) {
            if !rest.expects(trial) {
                let reason = "the results have other trials than this version of Valiant would make: start again \
                              (--restart)";
                return Err(Failed::Because(reason.to_owned()));
            }
            rest.add(trial);
        }
        Ok(rest)
    }

    /// Whether a trial of the search, or a burst, is the next.
    fn expects(&self, trial: &Trial) -> bool {
        let (search, bursts) = match self {
            Self::Search { search, bursts, .. } => (search, bursts),
            Self::Connections { search, .. } => {
                let is = trial.connections.map(|all| (all.step, all.asked, trial.rate));
                return search.next().map(|of| (of.step.into(), of.connections, of.rate)) == is;
            }
            Self::Once(_) => return true,
        };
        match trial.burst {
            None => search.next().is_some_and(|wanted| wanted.load == trial.rate),
            Some(burst) => bursts.as_ref().and_then(|(_, bursts)| bursts.next()) == Some(burst.frames),
        }
    }

    pub(crate) fn next(&self, trials: &[Trial]) -> Option<Next> {
        let (search, latency, bursts) = match self {
            Self::Search { search, latency, bursts } => (search, latency, bursts),
            Self::Connections { search, answer } => {
                let wanted = search.next()?;
                let traffic = Traffic {
                    rate: wanted.rate,
                    seconds: wanted.connections as f64 / wanted.rate as f64,
                    connections: Some(wanted),
                    answer: ((wanted.rate as f64 * answer) as u64).max(1),
                    ..Traffic::default()
                };
                return Some(Next { traffic, share: None });
            }
            Self::Once(traffic) => {
                let open = trials.iter().all(|trial| trial.disturbed || trial.calibration);
                return Some(Next { traffic: *traffic, share: None }).filter(|_| open);
            }
        };
        if let Some(wanted) = search.next() {
            return Some(Next { traffic: wanted.into(), share: None });
        }
        let goal = search.goals().first()?;
        let outcome = search.outcome(goal);
        let result = outcome.throughput?;
        let measured = |share: f64| trials.iter().any(|trial| !trial.disturbed && trial.share == Some(share));
        if let Some(share) = latency.iter().copied().find(|share| !measured(*share)) {
            let rate = ((result * share) as u64).max(1);
            return Some(Next {
                traffic: Traffic { rate, seconds: goal.last, ..Traffic::default() },
                share: Some(share),
            });
        }
        // What forwards at the highest rate does not fill its buffer (RFC 9004, section 6.1).
        let (rate, bursts) = bursts.as_ref().filter(|_| outcome.bounds.upper.is_some())?;
        let frames = bursts.next()?;
        let traffic = Traffic {
            rate: *rate,
            seconds: frames as f64 / *rate as f64,
            burst: Some(frames),
            ..Traffic::default()
        };
        Some(Next { traffic, share: None })
    }

    pub(crate) fn add(&mut self, trial: &Trial) {
        let (search, bursts) = match self {
            Self::Search { search, bursts, .. } => (search, bursts),
            Self::Connections { search, .. } => {
                if !trial.disturbed {
                    search.add(trial.holds());
                }
                return;
            }
            Self::Once(_) => return,
        };
        match bursts {
            _ if trial.counts() => search.add(trial.for_search()),
            Some((_, bursts)) if trial.burst.is_some() && !trial.disturbed => bursts.add(trial.loss() > 0.0),
            _ => {}
        }
    }

    /// What a search that cannot go on has found so far.
    pub(crate) fn found(&self) -> String {
        let search = match self {
            Self::Search { search, .. } => search,
            Self::Connections { search, .. } => return tables::found(search),
            Self::Once(_) => return String::new(),
        };
        let of = |goal: &Goal| {
            let bounds = search.outcome(goal).bounds;
            let rate =
                |load: Option<u64>| load.map_or("?".to_owned(), |load| format!("{}pps", short(load as f64)));
            (bounds.lower.or(bounds.upper)).map(|_| {
                format!("{} to {} with {} % lost", rate(bounds.lower), rate(bounds.upper), goal.loss * 100.0)
            })
        };
        let all: Vec<String> = search.goals().iter().filter_map(of).collect();
        if all.is_empty() { all.concat() } else { format!(" (found until then: {})", all.join("; ")) }
    }

    /// How much is done, by a guess.
    pub(crate) fn part(&self, trials: &[Trial]) -> f64 {
        match self {
            Self::Search { .. } | Self::Connections { .. } => {
                trials.len() as f64 / (trials.len() as f64 + 12.0)
            }
            Self::Once(_) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::established::Connected;
    use crate::model::{Bursts, Connections, Emptied};
    use crate::trial::Burst;
    use measure::search::Method;

    #[test]
    fn trials_of_connections_go_on_where_they_were() {
        let goal = connections::Goal {
            connections: 100,
            least: 10,
            most: 10_000,
            width: 0.1,
            capacity: Some((1000, 0.5)),
            tear_downs: 2,
        };
        let emptied = Emptied::Command("true".to_owned());
        let measure = Measure::Connections(Connections { goal, answer: 0.25, emptied });
        let (mut rest, mut trials) = (Rest::new(&measure, &[]).unwrap(), Vec::new());
        while let Some(Next { traffic, share: None }) = rest.next(&trials) {
            let Traffic { rate, seconds, connections: Some(wanted), answer, .. } = traffic else { panic!() };
            assert_eq!((answer, seconds), ((rate / 4).max(1), wanted.connections as f64 / rate as f64));
            let holds = rate <= 3000 && wanted.connections <= 300;
            let answered = if holds { wanted.connections } else { 0 };
            let connections = Connected {
                step: wanted.step.into(),
                asked: wanted.connections,
                established: wanted.connections,
                answered,
                wrong: 0,
                answers_missed: 0,
                seconds,
                emptied_s: None,
                empty_s: None,
            };
            // The first of all has to be made again.
            let disturbed = trials.is_empty();
            let trial =
                Trial { rate, seconds, connections: Some(connections), disturbed, ..Trial::default() };
            rest.add(&trial);
            trials.push(trial);
            assert_eq!(Rest::new(&measure, &trials).unwrap().next(&trials), rest.next(&trials));
            assert!(trials.len() < 90, "{trials:?}");
        }
        let Rest::Connections { search, .. } = rest else { panic!() };
        assert!(search.rate().0.is_some_and(|rate| (2600..=3000).contains(&rate)), "{search:?}");
        assert_eq!(search.capacity(), Some((300, Some(301))));
        let strange = Trial { rate: 7, connections: trials[1].connections, ..Trial::default() };
        assert!(Rest::new(&measure, &[strange]).is_err(), "nobody asked for it");
    }

    #[test]
    fn latency_is_measured_at_parts_of_the_result() {
        let goals = vec![Goal::simple(0.0, 1.0, 0.01)];
        let latency = vec![0.5, 1.0];
        let bursts = Some(Bursts { tests: 2, longest: 1.0, width: 0.0 });
        let measure =
            Measure::Search { method: Method::Binary, goals, least: 10, most: 1000, latency, bursts };
        let mut trials: Vec<Trial> = Vec::new();
        let mut rest = Rest::new(&measure, &trials).unwrap();
        while let Some(Next { traffic, share }) = rest.next(&trials) {
            let (rate, intended) = (traffic.rate, traffic.burst.unwrap_or(traffic.rate));
            let arrived = intended.min(if traffic.burst.is_some() { 70 } else { 400 });
            let burst = traffic.burst.map(|frames| Burst { frames, seconds: traffic.seconds });
            // The first of those of latency has to be made again.
            let disturbed = share.is_some() && trials.iter().all(|trial| trial.share.is_none());
            let seconds = traffic.seconds;
            let trial =
                Trial { rate, seconds, share, burst, intended, arrived, disturbed, ..Trial::default() };
            rest.add(&trial);
            trials.push(trial);
            // Whoever goes on later makes the same.
            assert_eq!(Rest::new(&measure, &trials).unwrap().next(&trials), rest.next(&trials));
            assert!(trials.len() < 90, "{trials:?}");
        }
        let good = trials.iter().filter(|trial| trial.counts() && trial.loss() == 0.0);
        let result = good.map(|trial| trial.rate).max().unwrap();
        assert!((396..=400).contains(&result), "{result}");
        let of_latency: Vec<_> = trials.iter().filter_map(|trial| Some((trial.share?, trial.rate))).collect();
        assert_eq!(of_latency, [(0.5, result / 2), (0.5, result / 2), (1.0, result)]);
        let Rest::Search { bursts: Some((_, bursts)), .. } = rest else { panic!("no bursts") };
        assert_eq!(bursts.lengths(), [70, 70]);
        assert!(
            Rest::new(&measure, &[Trial { rate: 7, ..Trial::default() }]).is_err(),
            "nobody asked for it"
        );
    }
}
