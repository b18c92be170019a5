//! How many workers are needed for the load: the others are parked, that is, have no buckets.
//!
//! It is slow to park and quick to wake: workers are parked only if the others would have been able to do the
//! work for a long time, and as many again are woken as soon as one has too much.

/// What the policy goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Workers are parked if those that remain are busy for less than this share of the time, 0 to 1 ...
    pub below: f64,
    /// ... for so many nanoseconds.
    pub after_ns: u64,
    /// As many again are woken if a worker is busy for this share of the time ...
    pub above: f64,
    /// ... for so many nanoseconds.
    pub wake_after_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { below: 0.4, after_ns: 500_000_000, above: 0.7, wake_after_ns: 200_000 }
    }
}

/// Another number of workers is to be awake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// How many.
    pub awake: usize,
    /// How many workers the load would have kept busy all the time, at most, if workers are parked; else the
    /// share of the time for which one was busy.
    pub load: f64,
}

/// What has been measured since the number of awake workers last changed.
#[derive(Clone, Debug, Default)]
pub struct Parking {
    calm_ns: u64,
    /// The largest load in this time.
    most: f64,
}

impl Parking {
    /// Begins again, because workers were parked or woken, or buckets are on their way.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Ends an interval of so many nanoseconds, in which each of the awake workers was `busy` for a share of
    /// the time. At least `least` workers stay awake, and there are `all`.
    pub fn decide(
        &mut self,
        limits: &Limits,
        busy: &[f64],
        ns: u64,
        (least, all): (usize, usize),
    ) -> Option<Change> {
        if let Some(load) = overload(limits, busy) {
            self.forget();
            let awake = more(busy.len(), all);
            return (awake > busy.len()).then_some(Change { awake, load });
        }
        self.calm_ns = self.calm_ns.saturating_add(ns);
        self.most = self.most.max(busy.iter().sum());
        if self.calm_ns < limits.after_ns {
            return None;
        }
        let load = self.most;
        self.forget();
        let awake = ((load / limits.below).ceil() as usize).max(least).max(1);
        (awake < busy.len()).then_some(Change { awake, load })
    }
}

/// The share of the time for which the busiest worker was busy, if that is too much.
#[must_use]
pub fn overload(limits: &Limits, busy: &[f64]) -> Option<f64> {
    let most = busy.iter().copied().fold(0.0, f64::max);
    (most >= limits.above).then_some(most)
}

/// How many of `all` workers are to be awake if `awake` have too much to do.
#[must_use]
pub fn more(awake: usize, all: usize) -> usize {
    (2 * awake).min(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 50_000_000;

    /// What is decided after intervals with these busy shares, of eight workers.
    fn decisions(intervals: &[&[f64]]) -> Vec<Option<usize>> {
        let mut parking = Parking::default();
        let decide = |busy: &&[f64]| {
            parking.decide(&Limits::default(), busy, INTERVAL, (1, 8)).map(|change| change.awake)
        };
        intervals.iter().map(decide).collect()
    }

    #[test]
    fn workers_are_parked_when_the_others_could_do_the_work_for_a_while() {
        let calm: [&[f64]; 10] = [&[0.1, 0.1, 0.08, 0.1]; 10];
        let found = decisions(&calm);
        assert_eq!((&found[..9], found[9]), (&[None; 9][..], Some(1)), "0.38 of a worker's time");
        let mut burst = calm;
        burst[3] = &[0.3, 0.3, 0.3, 0.25];
        assert_eq!(decisions(&burst)[9], Some(3), "the largest load counts");
        assert_eq!(decisions(&[&[0.4, 0.4][..]; 30]), [None; 30], "both are needed");
        assert_eq!(decisions(&[&[0.0][..]; 30]), [None; 30], "one stays");
        let mut parking = Parking::default();
        let stay = |_| parking.decide(&Limits::default(), &[0.0, 0.0], INTERVAL, (2, 8));
        assert!((0..30).map(stay).all(|change| change.is_none()), "two poll");
    }

    #[test]
    fn as_many_again_wake_when_one_has_too_much() {
        assert_eq!(decisions(&[&[0.2], &[0.75]]), [None, Some(2)]);
        assert_eq!(decisions(&[&[0.2, 0.9, 0.1]]), [Some(6)]);
        assert_eq!(decisions(&[&[1.0, 0.9, 0.8, 0.9, 0.9]]), [Some(8)]);
        assert_eq!(decisions(&[&[1.0; 8][..]]), [None], "all are awake");
        // A worker with one flow that keeps it busy keeps the others awake too, so nothing goes to and fro.
        assert_eq!(decisions(&[&[0.9, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0][..]; 30]), [None; 30]);
    }

    #[test]
    fn nothing_goes_to_and_fro_at_any_steady_load() {
        // A load between the two limits changes nothing once it has settled.
        for load in (0..=80).map(|n| f64::from(n) / 10.0) {
            let (mut parking, mut awake, mut changes) = (Parking::default(), 8usize, 0);
            for _ in 0..1000 {
                let busy = vec![(load / awake as f64).min(1.0); awake];
                if let Some(change) = parking.decide(&Limits::default(), &busy, INTERVAL, (1, 8)) {
                    awake = change.awake;
                    changes += 1;
                }
            }
            assert!(changes <= 1, "load {load}: {changes} changes");
        }
    }
}
