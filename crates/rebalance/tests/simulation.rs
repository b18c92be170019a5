//! Eight workers, flows by Zipf's law, and a load that shifts: RSS alone beside RSS with buckets that move.

use measure::rng::Rng;
use measure::zipf::Zipf;
use rebalance::{Interval, Policy, Settings, Verdict, imbalance};
use tables::toeplitz::{MICROSOFT_KEY, Toeplitz};

const BUCKETS: usize = 512;
const FLOWS: u32 = 100_000;
const EXPONENT: f64 = 1.1;
/// Packets in an interval of 50 ms: 2 million a second.
const PACKETS: usize = 100_000;
/// Intervals from one shift of the load to the next, and how many of them are looked at.
const EPOCH: usize = 40;
const LAST: usize = 20;

/// The bucket of each flow. Which flows are the large ones depends on the epoch.
fn buckets(epoch: u32) -> Vec<usize> {
    let hash = Toeplitz::new(&MICROSOFT_KEY);
    let mut rng = Rng::new(epoch.into());
    let mut bucket = || {
        let (addresses, ports) = (rng.number(), rng.number());
        hash.ipv4_ports((addresses >> 32) as u32, addresses as u32, ports as u16, 80) as usize % BUCKETS
    };
    (0..FLOWS).map(|_| bucket()).collect()
}

struct Outcome {
    plain: f64,
    moved: f64,
    floor: f64,
    /// Moves after the shift, and in the half that is looked at.
    moves: usize,
    late: usize,
    /// Intervals until the imbalance was below 15 %.
    until: usize,
}

fn simulate(workers: usize, epochs: u32) -> Vec<Outcome> {
    let plain: Vec<u16> = (0..BUCKETS).map(|bucket| (bucket % workers) as u16).collect();
    let (mut policy, mut table) = (Policy::new(Settings::default()), plain.clone());
    let busy = vec![0.9; workers];
    let loads = |packets: &[u64], table: &[u16]| {
        let mut loads = vec![0u64; workers];
        packets.iter().zip(table).for_each(|(n, worker)| loads[usize::from(*worker)] += n);
        loads
    };
    let run = |epoch: u32| {
        let buckets = buckets(epoch);
        let mut zipf = Zipf::new(1..=FLOWS, EXPONENT, 7 + u64::from(epoch));
        let mut sum = vec![0u64; BUCKETS];
        let (mut plain_sum, mut moved_sum) = (0.0, 0.0);
        let (mut moves, mut late, mut until) = (0, 0, EPOCH);
        for interval in 0..EPOCH {
            let mut packets = vec![0u64; BUCKETS];
            for _ in 0..PACKETS {
                packets[buckets[zipf.draw()]] += 1;
            }
            let now = imbalance(&loads(&packets, &table));
            if now < 0.15 {
                until = until.min(interval);
            }
            if interval >= EPOCH - LAST {
                plain_sum += imbalance(&loads(&packets, &plain));
                moved_sum += now;
            }
            sum.iter_mut().zip(&packets).for_each(|(sum, n)| *sum += n);
            if let Verdict::Move(round) =
                policy.decide(&Interval { packets: &packets, table: &table, busy: &busy, moving: false })
            {
                round.moves.iter().for_each(|one| table[one.bucket] = one.to as u16);
                moves += round.moves.len();
                late += if interval >= EPOCH - LAST { round.moves.len() } else { 0 };
            }
        }
        let total: u64 = sum.iter().sum();
        let largest = sum.iter().max().copied().unwrap_or(0);
        let floor = (largest as f64 * workers as f64 / total as f64 - 1.0).max(0.0);
        Outcome { plain: plain_sum / LAST as f64, moved: moved_sum / LAST as f64, floor, moves, late, until }
    };
    (0..epochs).map(run).collect()
}

fn report(workers: usize, outcomes: &[Outcome]) {
    println!("{workers} workers, {FLOWS} flows, Zipf {EXPONENT}, {BUCKETS} buckets:");
    println!(
        "shift   RSS alone   moving   largest bucket alone   moves   of them late   intervals until < 15 %"
    );
    for (n, o) in outcomes.iter().enumerate() {
        println!(
            "{n:5} {:10.1}% {:7.1}% {:21.1}% {:7} {:14} {:24}",
            o.plain * 100.0,
            o.moved * 100.0,
            o.floor * 100.0,
            o.moves,
            o.late,
            o.until
        );
    }
}

#[test]
fn eight_workers_stay_under_15_percent_where_rss_alone_does_not() {
    let outcomes = simulate(8, 8);
    report(8, &outcomes);
    for o in &outcomes {
        assert!(o.moved < 0.15, "{}", o.moved);
        assert!(o.moved < o.plain, "{} {}", o.moved, o.plain);
        assert!(o.until <= 8, "{}", o.until);
        // A worker with a flow that is as large as its share gives all its other buckets away.
        assert!(o.moves <= 96, "{}", o.moves);
        assert!(o.late <= 2, "nothing changes: {}", o.late);
    }
}

#[test]
fn two_workers_are_even() {
    let outcomes = simulate(2, 8);
    report(2, &outcomes);
    for o in &outcomes {
        assert!(o.moved < 0.03, "{}", o.moved);
        assert!(o.moves <= 8, "{}", o.moves);
        assert_eq!(o.late, 0);
    }
}
