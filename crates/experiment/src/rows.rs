//! What trials have shown at a point: the result of each round.

use crate::alone::Alone;
use crate::backtoback::BackToBack;
use crate::calibration;
use crate::connections::{self, Kept};
use crate::costs::{self, Spent};
use crate::established::StepOf;
use crate::existing::Existing;
use crate::jitter::Jitter;
use crate::layout::quantile;
use crate::model::{Connections, Experiment, FEWEST_ROUNDS, Measure, Point};
use crate::results::{Results, Shown};
use crate::sides::Crossing;
use crate::trial::{Latency, Limit, Timeline, Trial};
use measure::rate::{OVERHEAD, short};
use measure::search::{Goal, Outcome, Search};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A goal, or the given rate, at a point.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) point: Point,
    /// The loss that is allowed; none: a rate was given.
    pub(crate) loss: Option<f64>,
    /// Of each round that has a result.
    pub(crate) of_rounds: Vec<OfRound>,
    /// At parts of the result: the part, and latencies of all rounds in which they are known.
    pub(crate) latency: Vec<(f64, Vec<Latency>)>,
    /// The longest bursts without loss.
    pub(crate) bursts: Option<BackToBack>,
    /// Connections through the device.
    pub(crate) connections: Option<Kept>,
    /// Trials that count for nothing.
    pub(crate) disturbed: usize,
    /// Rounds that have not ended.
    pub(crate) open: usize,
    pub(crate) failed: Vec<String>,
    /// What generator and sink do without the device, at the rates that have a latency.
    pub(crate) alone: Vec<Alone>,
}

#[derive(Clone, Debug)]
pub(crate) struct OfRound {
    /// Packets a second.
    pub(crate) pps: f64,
    pub(crate) lower: Option<u64>,
    pub(crate) upper: Option<u64>,
    /// Mean bytes of a frame.
    pub(crate) bytes: f64,
    pub(crate) loss: f64,
    pub(crate) reordered: u64,
    pub(crate) duplicates: u64,
    pub(crate) damaged: u64,
    /// Frames at another output than they were for.
    pub(crate) misrouted: u64,
    pub(crate) matrix: Option<Crossing>,
    pub(crate) limit: Option<Limit>,
    pub(crate) trials: usize,
    pub(crate) seconds: f64,
    pub(crate) latency_p50_ns: Option<f64>,
    pub(crate) latency_p99_ns: Option<f64>,
    /// The worst-case latency and the packet delay variation of RFC 8219.
    pub(crate) latency_p99_9_ns: Option<f64>,
    pub(crate) pdv_ns: Option<f64>,
    pub(crate) jitter_ns: Option<Jitter>,
    pub(crate) timeline: Option<Timeline>,
    /// The same of the trial at the upper bound that has lost most.
    pub(crate) upper_timeline: Option<Timeline>,
    /// The connections over which it was sent, and the same at the upper bound.
    pub(crate) existing: Option<Existing>,
    pub(crate) upper_existing: Option<Existing>,
    /// What it has cost the device.
    pub(crate) spent: Option<Spent>,
    /// What a command has printed, in place of all of this.
    pub(crate) figures: BTreeMap<String, f64>,
}

fn result_of(trial: &Trial) -> OfRound {
    OfRound {
        pps: trial.arrived as f64 / trial.seconds,
        lower: None,
        upper: None,
        bytes: trial.bytes as f64 / trial.sent.max(1) as f64,
        loss: trial.loss(),
        reordered: trial.reordered,
        duplicates: trial.duplicates,
        damaged: trial.damaged,
        misrouted: trial.misrouted,
        matrix: trial.matrix.clone(),
        limit: trial.limit(),
        trials: 1,
        seconds: trial.seconds,
        latency_p50_ns: trial.latency_ns.as_ref().map(|latency| latency.p50),
        latency_p99_ns: trial.latency_ns.as_ref().map(|latency| latency.p99),
        latency_p99_9_ns: trial.latency_ns.as_ref().map(|latency| latency.p99_9),
        pdv_ns: trial.latency_ns.as_ref().map(Latency::pdv),
        jitter_ns: trial.jitter_ns,
        timeline: trial.timeline.clone(),
        upper_timeline: None,
        existing: trial.existing,
        upper_existing: None,
        spent: Spent::of(trial),
        figures: trial.figures.clone(),
    }
}

/// The trial in which the workers have waited least for a processor.
fn least_disturbed(trials: &[Trial]) -> Option<&Trial> {
    trials.iter().min_by(|a, b| a.part_waited().total_cmp(&b.part_waited()))
}

/// The result of a goal; none: no load is low enough.
fn search_result(goal: &Goal, search: &Search, trials: &[Trial]) -> Option<OfRound> {
    let Outcome { bounds, throughput } = search.outcome(goal);
    let throughput = throughput?;
    let at = |load: Option<u64>| trials.iter().filter(move |trial| Some(trial.rate) == load);
    // The trial whose loss makes the throughput.
    let off = |trial: &Trial| (trial.rate as f64 * (1.0 - trial.loss()) - throughput).abs();
    let worst = at(bounds.upper).max_by(|a, b| a.loss().total_cmp(&b.loss()));
    let its = at(bounds.lower).filter(|t| t.seconds >= goal.last).min_by(|a, b| off(a).total_cmp(&off(b)))?;
    Some(OfRound {
        pps: throughput,
        lower: bounds.lower,
        upper: bounds.upper,
        reordered: at(bounds.lower).map(|trial| trial.reordered).sum(),
        duplicates: at(bounds.lower).map(|trial| trial.duplicates).sum(),
        damaged: at(bounds.lower).map(|trial| trial.damaged).sum(),
        misrouted: at(bounds.lower).map(|trial| trial.misrouted).sum(),
        limit: Limit::of(at(bounds.upper).filter(|trial| trial.loss() > goal.loss)),
        upper_timeline: worst.and_then(|trial| trial.timeline.clone()),
        upper_existing: worst.and_then(|trial| trial.existing),
        trials: trials.len(),
        seconds: trials.iter().map(|trial| trial.seconds).sum(),
        ..result_of(its)
    })
}

/// The maximum connection establishment rate of a round.
fn establishment(all: &Connections, trials: &[Trial]) -> Option<OfRound> {
    let (lower, upper) = connections::search(all, trials).rate();
    let lower = lower?;
    let of_rate = |trial: &&Trial| trial.connections.is_some_and(|all| all.step == StepOf::Rate);
    let at = |rate: Option<u64>| {
        connections::counted(trials).filter(of_rate).filter(move |trial| Some(trial.rate) == rate)
    };
    Some(OfRound {
        pps: lower as f64,
        lower: Some(lower),
        upper,
        limit: Limit::of(at(upper)),
        upper_timeline: at(upper).last().and_then(|trial| trial.timeline.clone()),
        trials: connections::counted(trials).count(),
        seconds: connections::counted(trials).map(|trial| trial.seconds).sum(),
        ..result_of(at(Some(lower)).last()?)
    })
}

impl Row {
    /// The rows of a point: what its first rounds have shown, with those that were made because of its
    /// spread.
    pub(crate) fn all(experiment: &Experiment, point: &Point, results: &Results, rounds: u32) -> Vec<Self> {
        let measure = experiment.measure_at(point);
        let load = experiment.load_at(&experiment.settings(point));
        let again = |round: &u32| *round > experiment.rounds;
        let shown: Vec<Shown> = (1..=rounds)
            .map(|round| (round, results.of(point, round)))
            .filter(|(round, shown)| !again(round) || *shown != Shown::default())
            .map(|(_, shown)| shown)
            .collect();
        match &measure {
            Measure::Search { goals, .. } => {
                goals.iter().map(|goal| Self::new(point, &measure, Some(goal), &shown, load)).collect()
            }
            _ => vec![Self::new(point, &measure, None, &shown, load)],
        }
    }

    pub(crate) fn new(
        point: &Point,
        measure: &Measure,
        goal: Option<&Goal>,
        shown: &[Shown],
        load: f64,
    ) -> Self {
        let mut row = Self {
            point: point.clone(),
            loss: goal.map(|goal| goal.loss),
            of_rounds: Vec::new(),
            latency: Vec::new(),
            bursts: match measure {
                Measure::Search { bursts: Some(bursts), most, .. } => Some(BackToBack::new(bursts, *most)),
                _ => None,
            },
            connections: match measure {
                Measure::Connections(all) => Some(Kept::new(all)),
                _ => None,
            },
            disturbed: 0,
            open: shown.iter().filter(|shown| !shown.ended).count(),
            failed: shown.iter().filter_map(|shown| shown.failed.clone()).collect(),
            alone: Vec::new(),
        };
        for shown in shown.iter().filter(|shown| shown.ended && shown.failed.is_none()) {
            row.disturbed += shown.trials.iter().filter(|trial| trial.disturbed).count();
            if let (Measure::Connections(all), Some(kept)) = (measure, &mut row.connections) {
                kept.add(all, &shown.trials);
                row.of_rounds.extend(establishment(all, &shown.trials));
                continue;
            }
            row.alone.extend(calibration::alone(&shown.trials));
            let corrected = calibration::corrected(&shown.trials);
            row.add_latency(corrected.iter().filter(|trial| !trial.disturbed));
            let trials: Vec<Trial> = corrected.into_iter().filter(Trial::counts).collect();
            let result = match (measure, goal) {
                (Measure::Search { method, goals, least, most, .. }, Some(goal)) => {
                    let mut search = Search::new(*method, goals.clone(), *least, *most);
                    trials.iter().for_each(|trial| search.add(trial.for_search()));
                    search_result(goal, &search, &trials)
                }
                (Measure::Count { .. }, _) => least_disturbed(&shown.trials).map(result_of),
                _ => trials.first().map(result_of),
            };
            if let (Some(result), Measure::Search { bursts: Some(bursts), .. }) = (&result, measure)
                && let Some(all) = &mut row.bursts
            {
                all.add(bursts, &shown.trials, result.pps);
            }
            match (result, measure) {
                (Some(result), Measure::Search { .. }) => row.of_rounds.push(OfRound {
                    pps: result.pps * load,
                    lower: result.lower.map(|rate| of_all(rate, load)),
                    upper: result.upper.map(|rate| of_all(rate, load)),
                    ..result
                }),
                (Some(result), _) => row.of_rounds.push(result),
                (None, Measure::Search { least, .. }) => {
                    row.failed.push(format!("more is lost at the lowest rate, {}pps", short(*least as f64)));
                }
                (None, _) => {}
            }
        }
        row
    }

    fn add_latency<'t>(&mut self, trials: impl Iterator<Item = &'t Trial>) {
        for trial in trials {
            let Some(share) = trial.share else { continue };
            let latency = trial.latency_ns.clone();
            match self.latency.iter_mut().find(|(other, _)| *other == share) {
                Some((_, all)) => all.extend(latency),
                None => self.latency.push((share, latency.into_iter().collect())),
            }
        }
    }

    pub(crate) fn values(&self, of: impl Fn(&OfRound) -> f64) -> Vec<f64> {
        self.of_rounds.iter().map(of).collect()
    }

    pub(crate) fn median(&self, of: impl Fn(&OfRound) -> f64) -> f64 {
        quantile(&self.values(of), 0.5)
    }

    /// Gigabits a second of frames with so many bytes more.
    pub(crate) fn gbps(&self, more: usize) -> f64 {
        // Where a device makes its traffic itself, the size of frames may not be known.
        let bytes = |one: &OfRound| if one.bytes > 0.0 { one.bytes + more as f64 } else { f64::NAN };
        self.median(|one| one.pps * bytes(one) * 8.0 / 1e9)
    }

    /// Who limits it, of most rounds.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let limits: Vec<Limit> = self.of_rounds.iter().filter_map(|one| one.limit).collect();
        let count = |limit: &Limit| limits.iter().filter(|other| *other == limit).count();
        limits.iter().copied().max_by_key(count)
    }

    /// How far its rounds are from each other: the distance of the quartiles over the median, of what has the
    /// widest: the rate, the cycles of a packet, the figures of a command. None: there are too few rounds.
    pub(crate) fn spread(&self) -> Option<f64> {
        let figures = self.of_rounds.iter().flat_map(|one| one.figures.keys()).collect::<BTreeSet<_>>();
        let of_figures =
            figures.into_iter().map(|name| self.known(|one| one.figures.get(name).copied())).collect();
        let all: Vec<Vec<f64>> = if self.of_rounds.iter().any(|one| !one.figures.is_empty()) {
            of_figures
        } else {
            let cycles = |one: &OfRound| one.spent.as_ref().and_then(Spent::cycles_per_packet);
            vec![self.known(|one| Some(one.pps)), self.known(cycles)]
        };
        let spreads = all.iter().filter(|values| values.len() >= FEWEST_ROUNDS as usize).map(|values| {
            let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(values, share));
            (high - low) / median.abs()
        });
        spreads.filter(|spread| spread.is_finite()).reduce(f64::max)
    }

    /// What is known of the rounds.
    fn known(&self, of: impl Fn(&OfRound) -> Option<f64>) -> Vec<f64> {
        self.of_rounds.iter().filter_map(of).collect()
    }

    /// What stands before a message about it.
    pub(crate) fn prefix(&self) -> String {
        self.prefix_at(&self.point)
    }

    /// The same about several, that have this in common.
    pub(crate) fn prefix_at(&self, point: &Point) -> String {
        match self.loss {
            Some(loss) if loss > 0.0 => format!("{}{} % lost: ", point.prefix(), loss * 100.0),
            _ => point.prefix(),
        }
    }

    pub(crate) fn spent(&self) -> Vec<&Spent> {
        self.of_rounds.iter().filter_map(|one| one.spent.as_ref()).collect()
    }

    fn latency_json(&self) -> Vec<Value> {
        let of = |(share, all): &(f64, Vec<Latency>)| {
            json!({
                "share": share, "rounds": all,
                "p50": latency_median(all, |one| one.p50), "p99": latency_median(all, |one| one.p99), "p99_9": latency_median(all, |one| one.p99_9), "pdv": latency_median(all, Latency::pdv),
                "max": all.iter().map(|one| one.max).reduce(f64::max),
            })
        };
        self.latency.iter().map(of).collect()
    }

    /// A figure of a command: the least of the rounds, the median, the most.
    pub(crate) fn figure(&self, name: &str) -> Option<[f64; 3]> {
        let values = self.known(|one| one.figures.get(name).copied());
        (!values.is_empty()).then(|| [0.0, 0.5, 1.0].map(|share| quantile(&values, share)))
    }

    /// What a command has printed, as JSON.
    fn figures_json(&self) -> Value {
        let names = self.of_rounds.iter().flat_map(|one| one.figures.keys());
        let of = |name: &String| {
            let [least, median, most] = self.figure(name)?;
            Some((name.clone(), json!({"median": median, "least": least, "most": most})))
        };
        let figures: serde_json::Map<_, _> = names.filter_map(of).collect();
        json!({
            "point": self.point_json(), "figures": figures, "spread": self.spread(), "rounds_open": self.open, "failed": self.failed,
            "rounds": self.of_rounds.iter().map(|one| json!({"figures": one.figures, "traffic_seconds": one.seconds})).collect::<Vec<_>>(),
        })
    }

    /// Typical latency, worst-case latency and PDV: the median of the rounds, and their 1st and 99th
    /// percentile (RFC 8219, sections 7.2 and 7.3.1). Frames that set connections up say nothing of these.
    pub(crate) fn rfc8219(&self) -> Option<[[f64; 3]; 3]> {
        if self.connections.is_some() {
            return None;
        }
        let of = |figure: fn(&OfRound) -> Option<f64>| {
            let all: Vec<f64> = self.of_rounds.iter().filter_map(figure).collect();
            (!all.is_empty()).then(|| [0.5, 0.01, 0.99].map(|share| quantile(&all, share)))
        };
        Some([of(|one| one.latency_p50_ns)?, of(|one| one.latency_p99_9_ns)?, of(|one| one.pdv_ns)?])
    }

    /// The least IPDV, its median and the most, with their signs: of each the median of the rounds, and their
    /// 1st and 99th percentile (RFC 8219, section 7.3.2).
    pub(crate) fn ipdv(&self) -> Option<[[f64; 3]; 3]> {
        if self.connections.is_some() {
            return None;
        }
        let of = |figure: fn(&Jitter) -> Option<f64>| {
            let all: Vec<f64> = self.known(|one| one.jitter_ns.as_ref().and_then(figure));
            (!all.is_empty()).then(|| [0.5, 0.01, 0.99].map(|share| quantile(&all, share)))
        };
        Some([of(|one| one.dmin)?, of(|one| one.dmed)?, of(|one| one.dmax)?])
    }

    /// The median and the 99.9th percentile of the absolute IPDV, medians of the rounds.
    pub(crate) fn ipdv_quantiles(&self) -> Option<[f64; 2]> {
        let of = |figure: fn(&Jitter) -> Option<f64>| {
            let all = self.known(|one| one.jitter_ns.as_ref().and_then(figure));
            (!all.is_empty()).then(|| quantile(&all, 0.5))
        };
        Some([of(|one| one.ipdv_p50)?, of(|one| one.ipdv_p99_9)?])
    }

    fn rfc8219_json(&self) -> Option<Value> {
        let of = |[median, p1, p99]: [f64; 3]| json!({"median": median, "p1": p1, "p99": p99});
        let [typical, worst, pdv] = self.rfc8219()?.map(of);
        let ipdv = self.ipdv().map(|all| {
            let [least, median, most] = all.map(of);
            json!({"dmin": least, "dmed": median, "dmax": most})
        });
        Some(
            json!({"typical_latency_ns": typical, "worst_case_latency_ns": worst, "pdv_ns": pdv, "ipdv_ns": ipdv}),
        )
    }

    fn point_json(&self) -> serde_json::Map<String, Value> {
        self.point.0.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    }

    /// `load` is how much all ports send together, in parts of the rate of one.
    pub(crate) fn json(&self, measure: &Measure, load: f64) -> Value {
        if matches!(measure, Measure::Figures) {
            return self.figures_json();
        }
        let pps = self.values(|one| one.pps);
        let rounds: Vec<Value> = (self.of_rounds.iter())
            .map(|one| {
                json!({
                    "pps": one.pps, "lower_pps": one.lower, "upper_pps": one.upper, "loss": one.loss,
                    "reordered": one.reordered, "duplicates": one.duplicates, "damaged": one.damaged, "misrouted": one.misrouted, "matrix": one.matrix, "frame_bytes": one.bytes, "limit": one.limit,
                    "trials": one.trials, "traffic_seconds": one.seconds,
                    "latency_p50_ns": one.latency_p50_ns, "latency_p99_ns": one.latency_p99_ns, "latency_p99_9_ns": one.latency_p99_9_ns, "pdv_ns": one.pdv_ns,
                    "jitter_ns": one.jitter_ns, "timeline": one.timeline, "upper_timeline": one.upper_timeline,
                    "existing": one.existing, "upper_existing": one.upper_existing,
                    "cost": one.spent.as_ref().map(Spent::json),
                })
            })
            .collect();
        let known = !pps.is_empty();
        let number = |value: f64| if known { json!(value) } else { Value::Null };
        let offered = match measure {
            Measure::Rate { rate, .. } => Some(of_all(*rate, load)),
            Measure::Search { .. } | Measure::Connections(_) | Measure::Count { .. } | Measure::Figures => {
                None
            }
        };
        json!({
            "point": self.point_json(),
            "loss_allowed": self.loss, "offered_pps": offered,
            "pps": {"median": number(quantile(&pps, 0.5)), "least": number(quantile(&pps, 0.0)), "most": number(quantile(&pps, 1.0))},
            "l2_gbps": number(self.gbps(0)), "l1_gbps": number(self.gbps(OVERHEAD)), "spread": self.spread(),
            "limit": self.limit(), "latency_ns": self.latency_json(), "rfc8219": self.rfc8219_json(), "rounds": rounds, "cost": costs::summary(&self.spent()), "back_to_back": self.bursts.as_ref().map(BackToBack::json), "connections": self.connections.as_ref().map(Kept::json), "rounds_open": self.open, "trials_disturbed": self.disturbed, "failed": self.failed, "calibration": self.alone,
        })
    }
}

/// The rate of all ports together.
fn of_all(rate: u64, load: f64) -> u64 {
    (rate as f64 * load).round() as u64
}

/// The median of a figure of latency.
pub(crate) fn latency_median(all: &[Latency], of: impl Fn(&Latency) -> f64) -> f64 {
    quantile(&all.iter().map(of).collect::<Vec<_>>(), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_that_calibration_exceeds_is_not_known() {
        let trial = |p50, share, calibration| Trial {
            rate: 100,
            seconds: 1.0,
            arrived: 100,
            share,
            calibration,
            latency_ns: Some(Latency { p50, max: p50, ..Latency::default() }),
            ..Trial::default()
        };
        let trials = vec![trial(3e3, None, false), trial(3e3, Some(0.5), false), trial(4e3, None, true)];
        let shown = Shown { trials, ended: true, failed: None };
        let measure = Measure::Rate { rate: 100, seconds: 1.0 };
        let row = Row::new(&Point::default(), &measure, None, &[shown], 1.0);
        let json = row.json(&measure, 1.0);
        assert_eq!(json["rounds"][0]["latency_p50_ns"], Value::Null);
        let at = json!({"share": 0.5, "rounds": [], "p50": null, "p99": null, "p99_9": null, "pdv": null, "max": null});
        assert_eq!(json["latency_ns"], json!([at]));
        assert_eq!(json["calibration"][0]["exceeds_device"], json!(true));
    }

    #[test]
    fn latency_is_told_as_rfc_8219_defines_it() {
        let shown = [1e3, 2e3, 6e3].map(|p50| {
            let latency_ns =
                Some(Latency { min: 500.0, p50, p99_9: 2.0 * p50, max: 9e9, ..Latency::default() });
            let trial = Trial { rate: 100, seconds: 1.0, arrived: 100, latency_ns, ..Trial::default() };
            Shown { trials: vec![trial], ended: true, failed: None }
        });
        let measure = Measure::Rate { rate: 100, seconds: 1.0 };
        let json = Row::new(&Point::default(), &measure, None, &shown, 1.0).json(&measure, 1.0);
        let of = |figure: &str| &json["rfc8219"][figure];
        assert_eq!(of("typical_latency_ns")["median"], json!(2e3));
        assert_eq!(of("worst_case_latency_ns")["median"], json!(4e3));
        assert_eq!(of("pdv_ns"), &json!({"median": 3500.0, "p1": 1540.0, "p99": 11_340.0}));
        let none = Row::new(&Point::default(), &measure, None, &[], 1.0).json(&measure, 1.0);
        assert_eq!(none["rfc8219"], Value::Null);
    }

    #[test]
    fn ipdv_is_told_as_rfc_8219_defines_it() {
        let shown = [1e3, 2e3, 6e3].map(|most| {
            let latency_ns = Some(Latency::default());
            let jitter_ns = Some(Jitter {
                dmin: Some(-most),
                dmed: Some(-5.0),
                dmax: Some(most),
                ipdv_p50: Some(7.0),
                ..Jitter::default()
            });
            let trial =
                Trial { rate: 100, seconds: 1.0, arrived: 100, latency_ns, jitter_ns, ..Trial::default() };
            Shown { trials: vec![trial], ended: true, failed: None }
        });
        let measure = Measure::Rate { rate: 100, seconds: 1.0 };
        let json = Row::new(&Point::default(), &measure, None, &shown, 1.0).json(&measure, 1.0);
        let of = |figure: &str| &json["rfc8219"]["ipdv_ns"][figure];
        assert_eq!(of("dmin")["median"], json!(-2e3));
        assert_eq!(of("dmed"), &json!({"median": -5.0, "p1": -5.0, "p99": -5.0}));
        assert_eq!((&of("dmax")["median"], &of("dmax")["p99"]), (&json!(2e3), &json!(5920.0)));
        assert_eq!(json["rounds"][0]["jitter_ns"]["ipdv_p50"], json!(7.0));
        // Results from before this was measured.
        let old: Jitter =
            serde_json::from_value(json!({"ipdv_mean": 1.0, "ipdv_max": 2.0, "rfc3550": 1.0})).unwrap();
        assert_eq!((old.dmin, old.ipdv_p50), (None, None));
    }

    #[test]
    fn of_what_a_device_forwards_by_itself_the_least_disturbed_trial_counts() {
        let trial = |arrived, waited, disturbed| Trial {
            seconds: 0.5,
            arrived,
            waited,
            disturbed,
            counted: true,
            ..Trial::default()
        };
        let trials = vec![trial(100, 0.3, true), trial(200, 0.1, true), trial(150, 0.2, false)];
        let shown = Shown { trials, ended: true, failed: None };
        let row = Row::new(&Point::default(), &Measure::Count { seconds: 0.5 }, None, &[shown], 0.0);
        assert_eq!((row.values(|one| one.pps), row.disturbed), (vec![400.0], 2));
        assert_eq!(row.limit(), Some(Limit::Device));
    }
}
