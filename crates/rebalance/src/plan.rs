//! The moves that are worth their price.
//!
//! Moving a bucket with c packets from a worker with u to one with v lowers the sum of squared differences
//! from the mean by 2c(u - v - c). In each step the move that lowers it most is made. If none is worth its
//! price, a large bucket of the worker that has most may still be exchanged for a smaller one of the worker
//! that has least, for the price of two moves.

/// A bucket goes to another worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The bucket.
    pub bucket: usize,
    /// The worker that has it.
    pub from: usize,
    /// The worker that is to have it.
    pub to: usize,
    /// Its share of all packets, 0 to 1.
    pub share: f64,
}

/// The moves, at most `most`. The price of a move is in squared mean loads of a worker.
pub(crate) fn moves(packets: &[u64], table: &[u16], workers: usize, price: f64, most: usize) -> Vec<Move> {
    let mut plan = Plan::new(packets, table, workers, price);
    let mut moves = Vec::new();
    while moves.len() < most {
        if let Some(step) = plan.best_move() {
            moves.push(plan.make(step));
        } else if moves.len() + 2 <= most
            && let Some(steps) = plan.best_exchange()
        {
            moves.extend(steps.map(|step| plan.make(step)));
        } else {
            break;
        }
    }
    only_last(&moves)
}

/// A bucket that has moved twice has moved once, and one that is back has not.
fn only_last(moves: &[Move]) -> Vec<Move> {
    let mut net: Vec<Move> = Vec::new();
    for one in moves {
        match net.iter_mut().find(|before| before.bucket == one.bucket) {
            Some(before) => before.to = one.to,
            None => net.push(*one),
        }
    }
    net.retain(|one| one.from != one.to);
    net
}

/// A bucket, and where it goes.
type Step = (usize, usize);

struct Plan {
    packets: Vec<f64>,
    table: Vec<usize>,
    loads: Vec<f64>,
    sum: f64,
    /// In squared packets.
    price: f64,
}

impl Plan {
    fn new(packets: &[u64], table: &[u16], workers: usize, price: f64) -> Self {
        let table: Vec<usize> = table.iter().map(|worker| usize::from(*worker)).collect();
        let mut loads = vec![0.0; workers];
        let known = |worker: usize| worker < workers;
        let packets: Vec<f64> = (packets.iter().zip(&table))
            .map(|(packets, worker)| if known(*worker) { *packets as f64 } else { 0.0 })
            .collect();
        for (packets, worker) in packets.iter().zip(&table).filter(|(_, worker)| known(**worker)) {
            loads[*worker] += packets;
        }
        let sum: f64 = loads.iter().sum();
        let mean = sum / workers.max(1) as f64;
        Self { packets, table, loads, sum, price: price * mean * mean }
    }
    /// What moving `c` packets saves.
    fn gain(&self, c: f64, from: usize, to: usize) -> f64 {
        2.0 * c * (self.loads[from] - self.loads[to] - c)
    }
    fn buckets(&self) -> impl Iterator<Item = (usize, f64, usize)> + '_ {
        let all = self.packets.iter().zip(&self.table).enumerate();
        all.filter(|(_, (packets, _))| **packets > 0.0).map(|(bucket, (c, worker))| (bucket, *c, *worker))
    }
    fn least(&self) -> usize {
        (0..self.loads.len()).min_by(|a, b| self.loads[*a].total_cmp(&self.loads[*b])).unwrap_or(0)
    }
    fn best_move(&self) -> Option<Step> {
        // Of the workers that a bucket can go to, the one with the least load gains most. Workers with less
        // than the mean need not get rid of anything.
        let (to, mean) = (self.least(), self.sum / self.loads.len().max(1) as f64);
        let gains = self.buckets().filter(|&(_, _, from)| from != to && self.loads[from] > mean);
        let best = gains.map(|(bucket, c, from)| (self.gain(c, from, to), bucket));
        let (gain, bucket) = best.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))?;
        (gain > self.price).then_some((bucket, to))
    }
    fn best_exchange(&self) -> Option<[Step; 2]> {
        let from = (0..self.loads.len()).max_by(|a, b| self.loads[*a].total_cmp(&self.loads[*b]))?;
        let to = self.least();
        let of = |worker: usize| self.buckets().filter(move |(_, _, at)| *at == worker);
        let mut back: Vec<(f64, usize)> = of(to).map(|(bucket, c, _)| (c, bucket)).collect();
        back.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = (self.loads[from] - self.loads[to]) / 2.0;
        let mut best: Option<(f64, [Step; 2])> = None;
        for (bucket, c, _) in of(from) {
            // The best partner makes the difference half of that of the two workers.
            let at = back.partition_point(|(other, _)| *other < c - half);
            for (other, partner) in
                back.get(at.saturating_sub(1)..(at + 1).min(back.len())).into_iter().flatten()
            {
                let gain = self.gain(c - other, from, to);
                if c > *other && gain > 2.0 * self.price && best.is_none_or(|(most, _)| gain > most) {
                    best = Some((gain, [(bucket, to), (*partner, from)]));
                }
            }
        }
        best.map(|(_, steps)| steps)
    }
    fn make(&mut self, (bucket, to): Step) -> Move {
        let (c, from) = (self.packets[bucket], self.table[bucket]);
        self.loads[from] -= c;
        self.loads[to] += c;
        self.table[bucket] = to;
        Move { bucket, from, to, share: c / self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::{imbalance, of_workers};
    use proptest::prelude::*;

    const PRICE: f64 = 2e-4;

    fn after(packets: &[u64], table: &[u16], workers: usize, moves: &[Move]) -> Vec<u64> {
        let mut table = table.to_vec();
        moves.iter().for_each(|one| table[one.bucket] = one.to as u16);
        of_workers(packets, &table, workers)
    }

    #[test]
    fn one_move_of_the_right_size_is_better_than_many() {
        let packets = [100, 100, 100, 300, 100, 100, 100, 100, 100, 100];
        let table = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
        let found = moves(&packets, &table, 2, PRICE, 8);
        assert_eq!(
            found,
            [
                Move { bucket: 3, from: 0, to: 1, share: 0.25 },
                Move { bucket: 0, from: 0, to: 1, share: 100.0 / 1200.0 }
            ]
        );
        assert_eq!(after(&packets, &table, 2, &found), [600, 600]);
    }

    #[test]
    fn a_large_bucket_is_exchanged_for_a_smaller_one() {
        let (packets, table) = ([500, 480, 400, 380], [0, 0, 1, 1]);
        let found = moves(&packets, &table, 2, PRICE, 8);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(after(&packets, &table, 2, &found), [880, 880]);
    }

    #[test]
    fn what_is_not_worth_a_move_stays() {
        assert_eq!(moves(&[500, 5, 500], &[0, 0, 1], 2, PRICE, 8), []);
        assert_eq!(moves(&[900, 10, 10], &[0, 1, 1], 2, PRICE, 8), [], "one flow has nearly everything");
        assert_eq!(moves(&[0, 0], &[0, 1], 2, PRICE, 8), []);
        assert_eq!(moves(&[5, 7], &[0, 0], 1, PRICE, 8), []);
        assert_eq!(moves(&[], &[], 0, PRICE, 8), []);
    }

    #[test]
    fn a_worker_with_one_large_flow_gets_rid_of_the_others() {
        let found = moves(&[900, 100, 10, 10], &[0, 0, 1, 2], 3, PRICE, 8);
        assert_eq!(found.iter().map(|one| one.bucket).collect::<Vec<_>>(), [1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn moves_never_make_it_worse_and_are_few(
            buckets in prop::collection::vec((0u64..10_000, 0u16..9), 1..200),
            workers in 1usize..10,
            most in 0usize..12,
        ) {
            let packets: Vec<u64> = buckets.iter().map(|(packets, _)| *packets).collect();
            let table: Vec<u16> = buckets.iter().map(|(_, worker)| *worker % workers as u16).collect();
            let found = moves(&packets, &table, workers, PRICE, most);
            prop_assert!(found.len() <= most);
            for one in &found {
                prop_assert_eq!(usize::from(table[one.bucket]), one.from);
                prop_assert!(one.to < workers && one.to != one.from && packets[one.bucket] > 0);
            }
            let (before, now) = (of_workers(&packets, &table, workers), after(&packets, &table, workers, &found));
            let mean = before.iter().sum::<u64>() as f64 / workers as f64;
            let squares = |loads: &[u64]| loads.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>();
            prop_assert!(imbalance(&now) <= imbalance(&before) + 1e-9);
            let worth = found.len() as f64 * PRICE * mean * mean;
            prop_assert!(squares(&before) - squares(&now) >= worth * (1.0 - 1e-9), "every move is worth its price");
            // Nothing is left to do when as many moves as are worth it have been made.
            let mut table = table;
            moves(&packets, &table, workers, PRICE, 10_000).iter().for_each(|one| table[one.bucket] = one.to as u16);
            prop_assert_eq!(moves(&packets, &table, workers, PRICE, most), []);
        }
    }
}
