//! What generator and sink do without the device: frames that go from one to the other at once, at each rate
//! whose latency is reported. Their median latency is taken off that with the device.

use crate::alone::Alone;
use crate::model::Measure;
use crate::trial::{Latency, Traffic, Trial};
use measure::search::Search;

/// The traffic that is to be calibrated next, after these trials of a measurement that has ended.
pub(crate) fn next(measure: &Measure, trials: &[Trial]) -> Option<Traffic> {
    let calibrated = |rate: u64| trials.iter().any(|trial| valid(trial) && trial.rate == rate);
    let rates = match measure {
        Measure::Count { .. } | Measure::Figures | Measure::Connections(_) => Vec::new(),
        Measure::Rate { rate, seconds } => vec![(*rate, *seconds)],
        Measure::Search { method, goals, least, most, .. } => {
            let mut search = Search::new(*method, goals.clone(), *least, *most);
            trials.iter().filter(|trial| trial.counts()).for_each(|trial| search.add(trial.for_search()));
            let results =
                goals.iter().filter_map(|goal| Some((search.outcome(goal).bounds.lower?, goal.last)));
            let parts = trials.iter().filter(|trial| trial.share.is_some() && !trial.disturbed);
            results.chain(parts.map(|trial| (trial.rate, trial.seconds))).collect()
        }
    };
    let (rate, seconds) = rates.into_iter().find(|(rate, _)| !calibrated(*rate))?;
    Some(Traffic { rate, seconds, calibration: true, ..Traffic::default() })
}

fn valid(trial: &Trial) -> bool {
    trial.calibration && !trial.disturbed
}

/// What generator and sink do alone, as these trials have shown it.
pub(crate) fn alone(trials: &[Trial]) -> Vec<Alone> {
    let of = |trial: &Trial| {
        let own = trial.latency_ns.as_ref().map(|latency| latency.p50);
        // Shorter ones are those of a search, of which no latency is reported.
        let others = trials.iter().filter(|other| {
            let alike = other.rate == trial.rate && other.seconds >= trial.seconds;
            alike && !other.calibration && !other.disturbed && other.burst.is_none()
        });
        let mut others = others.filter_map(|other| other.latency_ns.as_ref());
        let exceeds_device = own.is_some_and(|own| others.any(|latency| latency.p50 < own));
        Alone { rate: trial.rate, latency_p50_ns: own, loss: trial.loss(), exceeds_device }
    };
    trials.iter().filter(|trial| valid(trial)).map(of).collect()
}

/// The trials with the device; the latency of generator and sink alone is taken off. A trial whose median is
/// less than that has no latency.
pub(crate) fn corrected(trials: &[Trial]) -> Vec<Trial> {
    let alone = alone(trials);
    let with_device = trials.iter().filter(|trial| !trial.calibration).cloned();
    with_device
        .map(|mut trial| {
            let own =
                alone.iter().find(|alone| alone.rate == trial.rate).and_then(|alone| alone.latency_p50_ns);
            if let Some(own) = own {
                let long = |latency: &Latency| latency.p50 >= own;
                trial.latency_ns = trial.latency_ns.filter(long).map(|latency| without(&latency, own));
                let known = trial.latency_ns.is_some();
                if let Some(timeline) = &mut trial.timeline {
                    let longest = timeline.latency_max_ns.iter().filter(|_| known);
                    timeline.latency_max_ns = longest.map(|of| of.saturating_sub(own as u64)).collect();
                }
            }
            trial
        })
        .collect()
}

fn without(latency: &Latency, own: f64) -> Latency {
    let less = |of: f64| (of - own).max(0.0);
    Latency {
        min: less(latency.min),
        mean: less(latency.mean),
        p50: less(latency.p50),
        p90: less(latency.p90),
        p99: less(latency.p99),
        p99_9: less(latency.p99_9),
        max: less(latency.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Timeline;
    use measure::search::{Goal, Method};

    fn trial(rate: u64, p50: f64) -> Trial {
        let latency_ns = Some(Latency { min: p50 / 2.0, p50, max: 3.0 * p50, ..Latency::default() });
        Trial {
            rate,
            seconds: 1.0,
            intended: rate,
            sent: rate,
            arrived: rate,
            latency_ns,
            ..Trial::default()
        }
    }

    #[test]
    fn each_rate_with_a_latency_is_calibrated_once() {
        let goals = vec![Goal::simple(0.0, 1.0, 0.01)];
        let (method, latency) = (Method::Binary, vec![0.5]);
        let measure = Measure::Search { method, goals, least: 10, most: 1000, latency, bursts: None };
        let mut trials = vec![trial(1000, 9.0), Trial { share: Some(0.5), ..trial(500, 9.0) }];
        let mut rates = Vec::new();
        while let Some(traffic) = next(&measure, &trials) {
            assert!(traffic.calibration && traffic.seconds == 1.0);
            // The first is disturbed.
            let disturbed = rates.is_empty();
            trials.push(Trial { calibration: true, disturbed, ..trial(traffic.rate, 2.0) });
            rates.push(traffic.rate);
            assert!(rates.len() < 9);
        }
        assert_eq!(rates, [1000, 1000, 500]);
        assert_eq!(next(&Measure::Count { seconds: 1.0 }, &[]), None);
        let given = Measure::Rate { rate: 7, seconds: 2.0 };
        assert_eq!(
            next(&given, &[trial(7, 1.0)]).map(|traffic| (traffic.rate, traffic.seconds)),
            Some((7, 2.0))
        );
    }

    #[test]
    fn what_generator_and_sink_take_is_taken_off() {
        let own = Trial { calibration: true, arrived: 99, ..trial(100, 4_000.0) };
        let bad = Trial { disturbed: true, ..trial(100, 1.0) };
        let trials = [bad, trial(100, 10_000.0), own, trial(200, 10_000.0)];
        let left: Vec<(f64, f64, f64)> = (corrected(&trials).iter())
            .filter_map(|trial| trial.latency_ns.as_ref())
            .map(|latency| (latency.min, latency.p50, latency.max))
            .collect();
        assert_eq!(left, [(1e3, 6e3, 26e3), (5e3, 1e4, 3e4)], "no calibration at the other rate");
        assert_eq!(
            alone(&trials),
            [Alone { rate: 100, latency_p50_ns: Some(4e3), loss: 0.01, exceeds_device: false }]
        );
    }

    #[test]
    fn where_more_would_be_taken_off_than_there_is_no_latency_is_known() {
        let own = Trial { calibration: true, ..trial(100, 4_000.0) };
        let timeline =
            |longest: &[u64]| Some(Timeline { latency_max_ns: longest.to_vec(), ..Timeline::default() });
        let less = Trial { timeline: timeline(&[5_000, 3_000]), ..trial(100, 3_000.0) };
        let more = Trial { timeline: timeline(&[9_000, 3_000, 0]), ..trial(100, 5_000.0) };
        let trials = [less, more.clone(), own.clone()];
        assert!(alone(&trials)[0].exceeds_device);
        let left = corrected(&trials);
        assert_eq!((&left[0].latency_ns, &left[0].timeline), (&None, &timeline(&[])));
        assert_eq!(left[1].latency_ns.as_ref().map(|latency| latency.p50), Some(1e3));
        assert_eq!(left[1].timeline, timeline(&[5_000, 0, 0]));
        assert!(!alone(&[more, own.clone()])[0].exceeds_device);
        let short = Trial { seconds: 0.3, ..trial(100, 3_000.0) };
        assert!(!alone(&[short, own])[0].exceeds_device);
    }
}
