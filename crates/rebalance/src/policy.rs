//! When to plan moves, and when not.

use crate::loads::{busiest, imbalance, of_workers};
use crate::plan::{self, Move};
use std::collections::VecDeque;
use std::fmt;

/// What the policy goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The imbalance (most over mean, minus 1) above which buckets move.
    pub start: f64,
    /// The price of a move, in squared mean loads: with 2e-4, one move is made if it removes an imbalance of
    /// 1 % between two workers.
    pub price: f64,
    /// A difference counts if it is so many times the standard deviation that chance alone makes.
    pub deviations: f64,
    /// Nothing moves while every worker is busy for less than this share of the time.
    pub least_busy: f64,
    /// The most moves at a time.
    pub most_moves: usize,
    /// Intervals from moves to the next ones. From the third time on it is doubled each time while the load
    /// keeps changing, up to `longest`.
    pub pause: u32,
    /// The longest pause.
    pub longest: u32,
    /// After so many intervals without moves, beside those of the pause, the next pause is short again.
    pub calm: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start: 0.03,
            price: 2e-4,
            deviations: 4.0,
            least_busy: 0.3,
            most_moves: 32,
            pause: 2,
            longest: 64,
            calm: 20,
        }
    }
}

/// The most intervals that are looked at together, when few packets come.
const WINDOW: usize = 16;

/// What was counted in an interval.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// Packets of each bucket.
    pub packets: &'a [u64],
    /// The worker of each bucket.
    pub table: &'a [u16],
    /// For which share of the time each worker was busy, 0 to 1.
    pub busy: &'a [f64],
    /// Whether buckets are on their way still.
    pub moving: bool,
}

/// Moves, and what they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The moves.
    pub moves: Vec<Move>,
    /// The share of the packets that each worker had.
    pub shares: Vec<f64>,
    /// Over how many intervals.
    pub intervals: usize,
    /// The imbalance, and what it would have been with these moves.
    pub before: f64,
    /// See `before`.
    pub after: f64,
}

/// Why nothing moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stay {
    /// There is one worker, or no packet has come.
    Nothing,
    /// No worker is busy for more than this share of the time.
    Idle(f64),
    /// The workers have as many packets, but for this imbalance.
    Even(f64),
    /// The imbalance is no larger than chance makes it: at most the second figure.
    Chance(f64, f64),
    /// It has not lasted for two intervals.
    Brief(f64),
    /// Buckets have moved a moment ago; what comes of it is looked at in so many intervals.
    Pause(u32),
    /// A bucket has so large a share of the packets alone, and is not divided.
    Large(usize, f64),
    /// No move would be worth its price.
    NoGain(f64),
    /// So many workers are parked: the load is low.
    Parked(usize),
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        match *self {
            Self::Nothing => f.write_str("there is nothing to move"),
            Self::Idle(busy) => write!(f, "no worker is busy for more than {} of the time", percent(busy)),
            Self::Even(now) => write!(f, "the workers have as many packets, but for {}", percent(now)),
            Self::Chance(now, chance) => {
                write!(
                    f,
                    "the imbalance of {} may be chance, of so few packets up to {}",
                    percent(now),
                    percent(chance)
                )
            }
            Self::Brief(now) => {
                write!(f, "the imbalance of {} has not lasted for two intervals", percent(now))
            }
            Self::Pause(left) => write!(f, "buckets have just moved: the next look is in {left} intervals"),
            Self::Large(bucket, share) => write!(
                f,
                "bucket {bucket} alone has {} of the packets, more than a worker's share, and cannot be divided",
                percent(share)
            ),
            Self::Parked(workers) => {
                write!(
                    f,
                    "the load is low: {workers} {}",
                    if workers == 1 { "worker is parked" } else { "workers are parked" }
                )
            }
            Self::NoGain(now) => write!(f, "no move would lower the imbalance of {} enough", percent(now)),
        }
    }
}

/// What the policy says.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Buckets are to move.
    Move(Round),
    /// None is.
    Stay(Stay),
}

/// What has been counted up to now, and what was decided.
#[derive(Clone, Debug)]
pub struct Policy {
    settings: Settings,
    /// Packets of each bucket in the last intervals, the last one in front.
    last: VecDeque<Vec<u64>>,
    /// Intervals until the next decision, the next pause, and intervals since the last moves.
    wait: u32,
    pause: u32,
    since: u32,
    /// How often buckets have moved since it was last calm.
    rounds: u32,
}

impl Policy {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, last: VecDeque::new(), wait: 0, pause: settings.pause, since: u32::MAX, rounds: 0 }
    }
    /// Forgets what was counted, because buckets mean other flows now.
    pub fn forget(&mut self) {
        self.last.clear();
    }

    /// Ends an interval.
    pub fn decide(&mut self, interval: &Interval<'_>) -> Verdict {
        if self.last.front().is_some_and(|before| before.len() != interval.packets.len()) {
            self.last.clear();
        }
        let mut counted =
            if self.last.len() == WINDOW { self.last.pop_back() } else { None }.unwrap_or_default();
        counted.clear();
        counted.extend_from_slice(interval.packets);
        self.last.push_front(counted);
        self.since = self.since.saturating_add(1);
        let calm = self.since >= self.settings.calm.saturating_add(self.pause);
        if calm {
            self.pause = self.settings.pause;
        }
        if interval.moving {
            // What is decided must be seen from the time when it holds.
            self.wait = self.wait.max(1);
        }
        if self.wait > 0 {
            self.wait -= 1;
            return Verdict::Stay(Stay::Pause(self.wait + 1));
        }
        match self.look(interval) {
            Ok(round) => {
                self.rounds = if calm { 1 } else { self.rounds.saturating_add(1) };
                if self.rounds > 2 {
                    self.pause = (self.pause * 2).min(self.settings.longest);
                }
                (self.since, self.wait) = (0, self.pause);
                Verdict::Move(round)
            }
            Err(stay) => Verdict::Stay(stay),
        }
    }

    /// The packets of each bucket in the last `n` intervals.
    fn sum(&self, n: usize) -> Vec<u64> {
        let mut sum = vec![0u64; self.last.front().map_or(0, Vec::len)];
        for counted in self.last.iter().take(n) {
            sum.iter_mut().zip(counted).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
        sum
    }

    fn look(&self, interval: &Interval<'_>) -> Result<Round, Stay> {
        if interval.busy.len() < 2 {
            return Err(Stay::Nothing);
        }
        // With few packets, more intervals are looked at together: as far as buckets have not moved
        // meanwhile, and until chance makes less than what counts.
        let known = self.last.len().min(self.since as usize);
        let mut intervals = 2;
        loop {
            let (found, chance) = self.look_at(interval, intervals);
            if found.is_ok() || chance <= self.settings.start || intervals * 2 > known {
                return found;
            }
            intervals *= 2;
        }
    }

    /// The moves by what the last intervals have brought, or why there are none; and the imbalance that
    /// chance may make of so many packets.
    fn look_at(&self, interval: &Interval<'_>, intervals: usize) -> (Result<Round, Stay>, f64) {
        let (settings, workers) = (&self.settings, interval.busy.len());
        let packets = self.sum(intervals);
        let loads = of_workers(&packets, interval.table, workers);
        let total = loads.iter().map(|load| *load as f64).sum::<f64>();
        // The number of a worker's packets has this standard deviation, relative to its mean, if packets come
        // independently.
        let chance = settings.deviations * ((workers - 1) as f64 / total.max(1.0)).sqrt();
        if total == 0.0 {
            return (Err(Stay::Nothing), chance);
        }
        let before = imbalance(&loads);
        let busy = interval.busy.iter().copied().fold(0.0, f64::max);
        // What one bucket has above the mean stays whatever moves.
        let (large, most) =
            packets.iter().enumerate().max_by_key(|(_, n)| **n).map_or((0, 0), |(at, n)| (at, *n));
        let floor = (most as f64 * workers as f64 / total - 1.0).max(0.0);
        let stay = if before <= settings.start {
            Stay::Even(before)
        } else if busy < settings.least_busy {
            Stay::Idle(busy)
        } else if before <= chance {
            Stay::Chance(before, chance)
        } else if !self.lasts(interval.table, workers, intervals) {
            Stay::Brief(before)
        } else if floor > 0.0 && before - floor <= settings.start.max(chance) {
            Stay::Large(large, most as f64 / total)
        } else {
            let moves = plan::moves(&packets, interval.table, workers, settings.price, settings.most_moves);
            if !moves.is_empty() {
                let mut table = interval.table.to_vec();
                for one in &moves {
                    if let Some(worker) = table.get_mut(one.bucket) {
                        *worker = one.to as u16;
                    }
                }
                let after = imbalance(&of_workers(&packets, &table, workers));
                let shares = loads.iter().map(|load| *load as f64 / total).collect();
                return (Ok(Round { moves, shares, intervals, before, after }), chance);
            }
            Stay::NoGain(before)
        };
        (Err(stay), chance)
    }

    /// Whether the same worker has most in the newer half of the intervals and in the older one.
    fn lasts(&self, table: &[u16], workers: usize, intervals: usize) -> bool {
        if self.last.len() < intervals {
            return false;
        }
        let (newer, all) = (self.sum(intervals / 2), self.sum(intervals));
        let older: Vec<u64> = all.iter().zip(&newer).map(|(all, newer)| all - newer).collect();
        let [newer, older] = [newer, older].map(|packets| of_workers(&packets, table, workers));
        let over = |loads: &[u64]| imbalance(loads) > self.settings.start / 2.0;
        busiest(&newer) == busiest(&older) && over(&newer) && over(&older)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds intervals with these packets of each bucket, moves what is to move, and returns what was said.
    fn run(policy: &mut Policy, table: &mut [u16], intervals: &[&[u64]], busy: f64) -> Vec<Verdict> {
        let busy = vec![busy; 2];
        let one = |packets: &&[u64]| {
            let verdict = policy.decide(&Interval { packets, table, busy: &busy, moving: false });
            if let Verdict::Move(round) = &verdict {
                round.moves.iter().for_each(|one| table[one.bucket] = one.to as u16);
            }
            verdict
        };
        intervals.iter().map(one).collect()
    }

    fn stays(verdict: &Verdict) -> Stay {
        match verdict {
            Verdict::Stay(stay) => *stay,
            Verdict::Move(round) => panic!("{round:?}"),
        }
    }

    const UNEVEN: &[u64] = &[4000, 2000, 3000, 1000];
    const EVEN: &[u64] = &[3000, 3000, 2000, 2000];

    #[test]
    fn an_imbalance_that_lasts_for_two_intervals_is_removed_once() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 0, 1]);
        let said = run(&mut policy, &mut table, &[UNEVEN; 6], 0.9);
        assert!(matches!(stays(&said[0]), Stay::Brief(before) if (before - 0.4).abs() < 1e-9));
        let Verdict::Move(round) = &said[1] else { panic!("{said:?}") };
        assert_eq!((round.intervals, round.after), (2, 0.0), "{round:?}");
        assert!((round.before - 0.4).abs() < 1e-9, "{round:?}");
        assert_eq!(round.shares, [0.7, 0.3]);
        assert_eq!((stays(&said[2]), stays(&said[3])), (Stay::Pause(2), Stay::Pause(1)));
        assert_eq!((stays(&said[4]), stays(&said[5])), (Stay::Even(0.0), Stay::Even(0.0)));
    }

    #[test]
    fn a_moment_is_no_reason() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 0, 1]);
        let said = run(&mut policy, &mut table, &[EVEN, UNEVEN, &[2000, 3000, 2000, 3000], EVEN], 0.9);
        assert!(said.iter().all(|verdict| matches!(verdict, Verdict::Stay(_))), "{said:?}");
    }

    #[test]
    fn few_packets_are_looked_at_for_longer() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 0, 1]);
        // Of 40 packets in two intervals, 8 more or less are chance; of 320 in 16, 40 % are not.
        let said = run(&mut policy, &mut table, &[&[8, 4, 6, 2][..]; 16], 0.9);
        assert!(matches!(stays(&said[3]), Stay::Chance(..)), "{said:?}");
        let moved = said.iter().position(|verdict| matches!(verdict, Verdict::Move(_)));
        assert_eq!(moved, Some(7), "{said:?}");
    }

    #[test]
    fn nothing_moves_while_no_worker_is_busy() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 0, 1]);
        let said = run(&mut policy, &mut table, &[UNEVEN; 4], 0.2);
        assert!(said.iter().all(|verdict| stays(verdict) == Stay::Idle(0.2)), "{said:?}");
    }

    #[test]
    fn a_flow_that_is_too_large_for_one_worker_is_left_alone() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 1, 1]);
        let said = run(&mut policy, &mut table, &[&[9000, 500, 300, 200][..]; 4], 0.9);
        assert_eq!(stays(&said[3]), Stay::Large(0, 0.9));
        // What shares a worker with it can move away.
        let said = run(&mut policy, &mut [0, 0, 1, 1], &[&[9000, 1500, 300, 200][..]; 8], 0.9);
        let moved =
            said.iter().find_map(|v| if let Verdict::Move(round) = v { Some(&round.moves) } else { None });
        assert_eq!(moved.map(|moves| moves.iter().map(|m| m.bucket).collect::<Vec<_>>()), Some(vec![1]));
    }

    #[test]
    fn a_load_that_keeps_changing_is_followed_more_and_more_slowly() {
        let (mut policy, mut table) = (Policy::new(Settings::default()), vec![0, 1, 0, 1]);
        let mut moved = Vec::new();
        for n in 0..400 {
            // The large flows change places again and again.
            let packets: &[u64] =
                if n / 8 % 2 == 0 { &[4000, 2000, 3000, 1000] } else { &[1000, 4000, 2000, 3000] };
            let said = run(&mut policy, &mut table, &[packets], 0.9);
            if matches!(said[0], Verdict::Move(_)) {
                moved.push(n);
            }
        }
        assert!(moved.len() <= 12, "{moved:?}");
        let gaps: Vec<usize> = moved.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.last() > gaps.first(), "{moved:?}");
    }

    #[test]
    fn one_worker_and_no_packets_are_no_reason() {
        let mut policy = Policy::new(Settings::default());
        let interval = Interval { packets: &[5, 5], table: &[0, 0], busy: &[1.0], moving: false };
        assert_eq!(stays(&policy.decide(&interval)), Stay::Nothing);
        let interval = Interval { packets: &[], table: &[], busy: &[], moving: false };
        assert_eq!(stays(&policy.decide(&interval)), Stay::Nothing);
        let said = run(&mut policy, &mut [0, 1], &[&[0, 0][..]; 20], 1.0);
        assert!(said.iter().all(|verdict| stays(verdict) == Stay::Nothing), "{said:?}");
    }

    #[test]
    fn every_reason_is_a_sentence() {
        let all = [
            Stay::Nothing,
            Stay::Idle(0.1),
            Stay::Even(0.01),
            Stay::Chance(0.1, 0.2),
            Stay::Brief(0.1),
            Stay::Pause(2),
            Stay::Large(7, 0.6),
            Stay::NoGain(0.05),
        ];
        let texts: Vec<String> = all.iter().map(Stay::to_string).collect();
        assert_eq!(texts[1], "no worker is busy for more than 10.0 % of the time");
        assert!(texts[6].starts_with("bucket 7 alone has 60.0 % of the packets"), "{texts:?}");
    }
}
