//! The search for the highest loads at which a device loses no more than it may: MLRsearch (RFC 9971), with
//! several goals at once, and the binary search of RFC 2544, section 26.1.
//!
//! A [`Search`] says which trial is next ([`Search::next`]) and is told how it went ([`Search::add`]). What
//! comes next depends on the trials alone, so that a search whose trials were kept goes on where it was.
//!
//! Loads are in packets a second, durations in seconds; a loss ratio is what was lost of what should have
//! been sent.

use std::collections::BTreeMap;

/// How loads are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// RFC 9971: short trials first, longer ones near the result.
    #[default]
    MlrSearch,
    /// RFC 2544: each trial has the final duration, and halves the interval.
    Binary,
}

/// What is searched for: the highest load at which no more is lost (RFC 9971, section 4.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Goal Loss Ratio: a trial that loses more has a high loss.
    pub loss: f64,
    /// Goal Exceed Ratio: the part of the time in which trials may have a high loss; less than 1.
    pub exceed: f64,
    /// Goal Initial Trial Duration.
    pub first: f64,
    /// Goal Final Trial Duration: shorter trials cannot show that a load is low enough.
    pub last: f64,
    /// Goal Duration Sum: with trials of the final duration for so long it is clear what a load is.
    pub sum: f64,
    /// Goal Width: the result's bounds are no farther apart, as a part of the upper one.
    pub width: f64,
}

impl Goal {
    /// A goal that one trial of this duration at a load decides.
    #[must_use]
    pub fn simple(loss: f64, seconds: f64, width: f64) -> Self {
        Self { loss, exceed: 0.0, first: seconds, last: seconds, sum: seconds, width }
    }
}

/// How a trial went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Its load.
    pub load: u64,
    /// How long it was.
    pub seconds: f64,
    /// Its loss ratio.
    pub loss: f64,
}

/// A trial that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// Its load.
    pub load: u64,
    /// How long it is.
    pub seconds: f64,
}

/// What trials say of a load (RFC 9971, section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The device loses little enough.
    Lower,
    /// It loses too much.
    Upper,
    /// That is not clear yet.
    Undecided,
}

/// Where the result of a goal is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The highest load with little loss below all loads with too much.
    pub lower: Option<u64>,
    /// The lowest load with too much loss.
    pub upper: Option<u64>,
}

/// The result of a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Its bounds; without a lower one, the least load loses too much; without an upper one, the most does
    /// not.
    pub bounds: Bounds,
    /// Conditional Throughput (RFC 9971, section 6.2 and appendix B): what arrived of the lower bound's load.
    pub throughput: Option<f64>,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    method: Method,
    goals: Vec<Goal>,
    least: u64,
    most: u64,
    trials: Vec<Trial>,
    /// How far the search for each goal is.
    progress: Vec<Progress>,
}

/// How far the search for a goal is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The stage: one that has ended does not begin again when longer trials contradict it.
    stage: usize,
    /// The bounds that the stage before has found.
    before: Bounds,
}

/// Steps away from a bound double, up to so often.
const DOUBLINGS: u32 = 10;

impl Search {
    /// A search between two loads.
    #[must_use]
    pub fn new(method: Method, goals: Vec<Goal>, least: u64, most: u64) -> Self {
        let least = least.max(1);
        let progress = vec![Progress::default(); goals.len()];
        Self { method, goals, least, most: most.max(least), trials: Vec::new(), progress }
    }

    /// Notes how a trial went.
    pub fn add(&mut self, trial: Trial) {
        self.trials.push(trial);
        for i in 0..self.goals.len() {
            self.progress[i] = self.advance(&self.goals[i], self.progress[i]);
        }
    }

    /// The trials so far.
    #[must_use]
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// The goals.
    #[must_use]
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// Which trial is next; none: the search has ended.
    #[must_use]
    pub fn next(&self) -> Option<Wanted> {
        self.goals.iter().zip(&self.progress).find_map(|(goal, progress)| {
            let stage = self.stages(goal)[progress.stage];
            let load = self.target(&stage, progress.before).1?;
            Some(Wanted { load, seconds: stage.last })
        })
    }

    /// Ends the stages that have nothing more to measure.
    fn advance(&self, goal: &Goal, mut progress: Progress) -> Progress {
        let stages = self.stages(goal);
        while progress.stage + 1 < stages.len() {
            let (bounds, None) = self.target(&stages[progress.stage], progress.before) else { break };
            progress = Progress { stage: progress.stage + 1, before: bounds };
        }
        progress
    }

    /// The result of a goal, as far as it is known.
    #[must_use]
    pub fn outcome(&self, goal: &Goal) -> Outcome {
        let bounds = self.bounds(goal, |_| true);
        Outcome { bounds, throughput: bounds.lower.and_then(|load| self.throughput(goal, load)) }
    }

    /// What the trials at a load say of it.
    #[must_use]
    pub fn class(&self, goal: &Goal, load: u64) -> Class {
        classify(goal, self.trials.iter().filter(|trial| trial.load == load))
    }

    /// The goals on the way to a goal: with shorter trials and a wider result. The last is the goal.
    fn stages(&self, goal: &Goal) -> Vec<Goal> {
        let short = self.method == Method::MlrSearch && goal.first < goal.last;
        if !short {
            return vec![*goal];
        }
        let stage = |seconds: f64, wider: f64| Goal {
            last: seconds,
            sum: seconds,
            width: (goal.width * wider).min(0.5),
            ..*goal
        };
        // Whole milliseconds, which are the same when results are read again.
        let middle = ((goal.first * goal.last).sqrt() * 1e3).round() / 1e3;
        vec![stage(goal.first, 4.0), stage(middle.clamp(goal.first, goal.last), 2.0), *goal]
    }

    fn bounds(&self, goal: &Goal, counts: impl Fn(u64) -> bool) -> Bounds {
        let mut loads: BTreeMap<u64, Vec<&Trial>> = BTreeMap::new();
        for trial in self.trials.iter().filter(|trial| counts(trial.load)) {
            loads.entry(trial.load).or_default().push(trial);
        }
        let mut bounds = Bounds::default();
        for (load, trials) in loads {
            match classify(goal, trials.into_iter()) {
                Class::Lower => bounds.lower = Some(load),
                Class::Upper => {
                    bounds.upper = Some(load);
                    break;
                }
                Class::Undecided => {}
            }
        }
        bounds
    }

    /// The bounds of a goal, and the load that is to be measured next for it; `before`: those of the stage
    /// before.
    fn target(&self, goal: &Goal, before: Bounds) -> (Bounds, Option<u64>) {
        let bounds = self.bounds(goal, |_| true);
        let load = match (bounds.lower, bounds.upper) {
            (None, None) => Some(before.lower.or(before.upper).unwrap_or(self.most)),
            (None, Some(upper)) => self.below(goal, upper, before),
            (Some(lower), None) => self.above(goal, lower, before),
            (Some(lower), Some(upper)) => self.between(goal, lower, upper),
        };
        (bounds, load)
    }

    fn below(&self, goal: &Goal, upper: u64, before: Bounds) -> Option<u64> {
        if upper <= self.least {
            return None;
        }
        if let Some(hint) = before.lower.filter(|hint| *hint < upper) {
            // Longer trials may have shown that the device forwards less than shorter ones let it seem.
            return Some(hint.min(self.forwarded(upper) as u64).max(self.least));
        }
        let load = match self.method {
            Method::Binary => self.least.midpoint(upper),
            Method::MlrSearch => {
                // How many loads below the one that was expected to be low enough were not.
                let misses =
                    self.loads(goal, Class::Upper).filter(|load| before.lower.is_none_or(|b| *load <= b));
                let step = (1.0 - goal.width).powf(doubled(misses.count()));
                self.forwarded(upper).min(upper as f64 * step) as u64
            }
        };
        Some(load.clamp(self.least, upper - 1))
    }

    fn above(&self, goal: &Goal, lower: u64, before: Bounds) -> Option<u64> {
        if lower >= self.most {
            return None;
        }
        if self.method == Method::Binary {
            return Some(self.most);
        }
        // Other goals may have needed longer trials far below what this one has found with short ones.
        if let Some(hint) =
            before.lower.filter(|hint| *hint > lower).or(before.upper.filter(|hint| *hint > lower))
        {
            return Some(hint);
        }
        let hits = self.loads(goal, Class::Lower).filter(|load| before.lower.is_none_or(|b| *load >= b));
        let step = (1.0 - goal.width).powf(doubled(hits.count()));
        Some(((lower as f64 / step).ceil() as u64).clamp(lower + 1, self.most))
    }

    fn between(&self, goal: &Goal, lower: u64, upper: u64) -> Option<u64> {
        if upper - lower <= 1 || lower as f64 >= upper as f64 * (1.0 - goal.width) {
            return None;
        }
        let middle = match self.method {
            Method::Binary => lower.midpoint(upper),
            // Widths are relative.
            Method::MlrSearch => (lower as f64 * upper as f64).sqrt() as u64,
        };
        Some(middle.clamp(lower + 1, upper - 1))
    }

    fn loads(&self, goal: &Goal, class: Class) -> impl Iterator<Item = u64> {
        let loads: BTreeMap<u64, ()> = self.trials.iter().map(|trial| (trial.load, ())).collect();
        loads.into_keys().filter(move |load| self.class(goal, *load) == class)
    }

    /// What a device forwards at a load, in packets a second: the mean of the trials.
    fn forwarded(&self, load: u64) -> f64 {
        let trials = self.trials.iter().filter(|trial| trial.load == load);
        let (arrived, seconds) = trials.fold((0.0, 0.0), |(arrived, seconds), trial| {
            (arrived + (1.0 - trial.loss) * trial.seconds, seconds + trial.seconds)
        });
        if seconds > 0.0 { load as f64 * arrived / seconds } else { 0.0 }
    }

    fn throughput(&self, goal: &Goal, load: u64) -> Option<f64> {
        let mut full: Vec<&Trial> =
            self.trials.iter().filter(|trial| trial.load == load && trial.seconds >= goal.last).collect();
        full.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let measured = full.iter().map(|trial| trial.seconds).sum::<f64>();
        // As if nothing came back in the time that was not needed.
        let mut left = measured.max(goal.sum) * (1.0 - goal.exceed);
        let mut loss = None;
        for trial in full {
            if left <= 0.0 {
                break;
            }
            loss = Some(trial.loss);
            left -= trial.seconds;
        }
        loss.map(|loss| load as f64 * (1.0 - loss))
    }
}

/// The exponent of the step after so many tries: 1, 2, 4, ...
fn doubled(tries: usize) -> f64 {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(DOUBLINGS).min(DOUBLINGS);
    f64::from(1u32 << doublings)
}

/// RFC 9971, section 6.1.
fn classify<'a>(goal: &Goal, trials: impl Iterator<Item = &'a Trial>) -> Class {
    // Seconds of trials, by whether they have the final duration and whether they have a high loss.
    let mut seconds = [[0.0; 2]; 2];
    for trial in trials {
        seconds[usize::from(trial.seconds >= goal.last)][usize::from(trial.loss > goal.loss)] +=
            trial.seconds;
    }
    let [[short_low, short_high], [full_low, full_high]] = seconds;
    let balancing = short_low * goal.exceed / (1.0 - goal.exceed);
    let high = full_high + (short_high - balancing).max(0.0);
    let full = high + full_low;
    let whole = full.max(goal.sum);
    let pessimistic = high + (whole - full);
    if high > goal.exceed * whole {
        Class::Upper
    } else if pessimistic <= goal.exceed * whole {
        Class::Lower
    } else {
        Class::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search against a device, and returns its trials.
    fn search(mut search: Search, loss: impl Fn(u64, f64, usize) -> f64) -> Search {
        while let Some(wanted) = search.next() {
            assert!(search.trials().len() < 400, "it does not end: {:?}", search.trials());
            let loss = loss(wanted.load, wanted.seconds, search.trials().len());
            search.add(Trial { load: wanted.load, seconds: wanted.seconds, loss });
        }
        search
    }

    /// A device that forwards so many packets a second and drops the rest.
    fn limited(limit: u64) -> impl Fn(u64, f64, usize) -> f64 {
        move |load, _, _| 1.0 - (limit as f64 / load as f64).min(1.0)
    }

    fn mlr(loss: f64) -> Goal {
        Goal { loss, exceed: 0.5, first: 0.1, last: 1.0, sum: 3.0, width: 0.005 }
    }

    #[test]
    fn both_methods_find_a_devices_limit() {
        for limit in [5, 100, 99_999, 1_000_000, 14_880_000] {
            for (method, goal) in [
                (Method::MlrSearch, mlr(0.0)),
                (Method::MlrSearch, Goal::simple(0.0, 1.0, 0.005)),
                (Method::Binary, Goal::simple(0.0, 60.0, 0.005)),
            ] {
                let done = search(Search::new(method, vec![goal], 1, 20_000_000), limited(limit));
                let Outcome { bounds, throughput } = done.outcome(&goal);
                let (lower, upper) = (bounds.lower.unwrap(), bounds.upper.unwrap());
                assert!(lower <= limit && limit < upper, "{method:?} {limit}: {bounds:?}");
                assert!(
                    upper - lower <= 1.max((upper as f64 * 0.005) as u64),
                    "{method:?} {limit}: {bounds:?}"
                );
                assert_eq!(throughput, Some(lower as f64));
            }
        }
    }

    #[test]
    fn several_goals_share_trials() {
        let goals = vec![mlr(0.0), mlr(0.005)];
        let done =
            search(Search::new(Method::MlrSearch, goals.clone(), 1000, 20_000_000), limited(1_000_000));
        let both = done.trials().len();
        // With a loss of 0.5 % the load is higher, what arrives is not.
        let Outcome { bounds, throughput } = done.outcome(&goals[1]);
        let lower = bounds.lower.unwrap();
        assert!((1_000_000..=1_005_026).contains(&lower), "{bounds:?}");
        assert!(throughput.unwrap() <= 1_000_000.5, "{throughput:?}");
        let alone =
            |goal| search(Search::new(Method::MlrSearch, vec![goal], 1000, 20_000_000), limited(1_000_000));
        assert!(both < alone(goals[0]).trials().len() + alone(goals[1]).trials().len());
    }

    #[test]
    fn a_device_without_a_limit_gets_the_most_and_one_that_loses_always_the_least() {
        for method in [Method::MlrSearch, Method::Binary] {
            let goal = mlr(0.0);
            let done = search(Search::new(method, vec![goal], 1000, 5_000_000), |_, _, _| 0.0);
            assert_eq!(done.outcome(&goal).bounds, Bounds { lower: Some(5_000_000), upper: None });
            let done = search(Search::new(method, vec![goal], 1000, 5_000_000), |_, _, _| 0.01);
            assert_eq!(
                done.outcome(&goal),
                Outcome { bounds: Bounds { lower: None, upper: Some(1000) }, throughput: None }
            );
        }
    }

    #[test]
    fn few_disturbed_trials_do_not_change_the_result() {
        let goal = mlr(0.0);
        // Every fifth trial loses something, whatever its load.
        let disturbed = |load: u64, seconds: f64, number: usize| {
            if number % 5 == 4 { 0.001 } else { limited(1_000_000)(load, seconds, number) }
        };
        let done = search(Search::new(Method::MlrSearch, vec![goal], 1000, 20_000_000), disturbed);
        let lower = done.outcome(&goal).bounds.lower.unwrap();
        assert!((990_000..=1_000_000).contains(&lower), "{:?}", done.outcome(&goal));
    }

    #[test]
    fn a_buffer_that_hides_losses_from_short_trials_does_not_change_the_result() {
        // It holds what the device is behind for the first 20,000 packets.
        let buffered = |load: u64, seconds: f64, _: usize| {
            let sent = load as f64 * seconds;
            ((sent - 1e6 * seconds - 20_000.0) / sent).max(0.0)
        };
        let goal = mlr(0.0);
        let done = search(Search::new(Method::MlrSearch, vec![goal], 1000, 20_000_000), buffered);
        let bounds = done.outcome(&goal).bounds;
        // With trials of a second, 20,000 packets more.
        assert!((1_014_000..=1_020_000).contains(&bounds.lower.unwrap()), "{bounds:?}");
    }

    #[test]
    fn a_goal_that_is_far_above_the_one_before_is_reached_soon() {
        // A part that is always lost above a rate that is far below the limit.
        let leaky = |load: u64, seconds: f64, number: usize| {
            limited(10_000_000)(load, seconds, number).max(if load > 100_000 { 0.001 } else { 0.0 })
        };
        let goals = vec![mlr(0.0), mlr(0.005)];
        let done = search(Search::new(Method::MlrSearch, goals.clone(), 1000, 14_880_000), leaky);
        let lower = |goal: &Goal| done.outcome(goal).bounds.lower.unwrap();
        assert!((99_500..=100_000).contains(&lower(&goals[0])), "{}", lower(&goals[0]));
        assert!((10_000_000..=10_050_300).contains(&lower(&goals[1])), "{}", lower(&goals[1]));
        assert!(done.trials().len() < 100, "{}", done.trials().len());
    }

    #[test]
    fn a_buffer_does_not_make_the_search_long() {
        for (limit, buffer) in
            [(100_000, 4_000), (1_000_000, 40_000), (1_000_000, 300_000), (5_000_000, 200_000)]
        {
            let buffered = |load: u64, seconds: f64, _: usize| {
                let sent = load as f64 * seconds;
                ((sent - f64::from(limit) * seconds - f64::from(buffer)) / sent).max(0.0)
            };
            let goal = Goal { sum: 1.0, width: 0.002, ..mlr(0.0) };
            let done = search(Search::new(Method::MlrSearch, vec![goal], 1000, 20_000_000), buffered);
            let lower = done.outcome(&goal).bounds.lower.unwrap();
            let right = u64::try_from(limit + buffer).unwrap();
            assert!((right - right / 500..=right).contains(&lower), "{limit} {buffer}: {lower}");
            let traffic: f64 = done.trials().iter().map(|trial| trial.seconds).sum();
            assert!(traffic < 20.0, "{limit} {buffer}: {traffic} s of traffic, {:?}", done.trials());
        }
    }

    #[test]
    fn a_search_goes_on_where_it_was() {
        let whole = search(Search::new(Method::MlrSearch, vec![mlr(0.0)], 1, 1 << 24), limited(777_777));
        let mut again = Search::new(Method::MlrSearch, vec![mlr(0.0)], 1, 1 << 24);
        for trial in whole.trials() {
            assert_eq!(again.next(), Some(Wanted { load: trial.load, seconds: trial.seconds }));
            again.add(*trial);
        }
        assert_eq!(again.next(), None);
    }

    #[test]
    fn throughput_is_that_of_the_worst_trial_that_counts() {
        let goal = Goal { loss: 0.005, exceed: 0.5, first: 1.0, last: 1.0, sum: 3.0, width: 0.01 };
        let throughput = |losses: &[f64]| {
            let mut search = Search::new(Method::MlrSearch, vec![goal], 1, 1_000_000);
            for loss in losses {
                search.add(Trial { load: 1_000_000, seconds: 1.0, loss: *loss });
            }
            search.outcome(&goal).throughput.map(f64::round)
        };
        // Of the three seconds of the goal half count: a second and a half.
        assert_eq!(throughput(&[0.001, 0.004]), Some(996_000.0));
        assert_eq!(throughput(&[0.3, 0.001, 0.002]), Some(998_000.0));
        assert_eq!(throughput(&[0.001]), None, "it is not decided");
    }

    #[test]
    fn loads_are_classified_as_in_the_rfc() {
        let goal = Goal { loss: 0.005, exceed: 0.5, first: 1.0, last: 1.0, sum: 10.0, width: 0.01 };
        let class = |trials: &[(usize, f64, f64)]| {
            let trials: Vec<Trial> = (trials.iter())
                .flat_map(|&(n, seconds, loss)| (0..n).map(move |_| Trial { load: 1, seconds, loss }))
                .collect();
            classify(&goal, trials.iter())
        };
        assert_eq!(class(&[]), Class::Undecided);
        assert_eq!(class(&[(4, 1.0, 0.0)]), Class::Undecided);
        // Whatever the other five are.
        assert_eq!(class(&[(5, 1.0, 0.005)]), Class::Lower);
        assert_eq!(class(&[(5, 1.0, 0.006)]), Class::Undecided);
        assert_eq!(class(&[(6, 1.0, 0.006)]), Class::Upper);
        // Short trials show that a load is too high, but not that it is low enough.
        assert_eq!(class(&[(60, 0.1, 0.006)]), Class::Upper);
        assert_eq!(class(&[(600, 0.1, 0.0)]), Class::Undecided);
        assert_eq!(class(&[(60, 0.1, 0.006), (40, 0.1, 0.0)]), Class::Undecided);
    }
}
