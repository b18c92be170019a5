//! Measures the IPv6 route table: `lpm6 [ROUTES] [ADDRESSES] [SECONDS]` (200,000, 1,000,000, 2).
//!
//! The routes are made up: lengths as often as in the Internet's tables (half of them /48, then /32, /44,
//! /40, /36 and others), a /32 or shorter for every fifth, the others inside these. Addresses are random
//! within routes. All are looked up in bursts of 64, with a fence and a reading of the processor's cycle
//! counter before and after each (medians over the bursts), then again while another thread removes and adds
//! 10,000 routes a second. The result is one line of JSON: times in milliseconds, memory in MB, lookups in
//! cycles of the counter.

mod measuring;

use measuring::{cycles, median, resident_kb};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::{Duration, Instant};
use tables::{Lpm6, Lpm6Reader, Prefix6};

type Failure = Box<dyn std::error::Error>;

/// Lookups in a row.
const BURST: usize = 64;
/// Changes a second, in steps of a millisecond.
const CHANGES: usize = 10_000;

/// Repeatable random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn bits(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}

/// Lengths beyond 32 bits, in hundredths.
const LENGTHS: [(u8, usize); 8] = [(48, 62), (44, 12), (40, 9), (36, 6), (46, 4), (42, 3), (47, 2), (64, 2)];

fn routes(count: usize, random: &mut Random) -> Vec<(Prefix6, u32)> {
    // What the five registries have.
    const REGISTRIES: [(u128, u8); 5] =
        [(0x2001, 16), (0x2400, 12), (0x2600, 12), (0x2a00, 12), (0x2800, 12)];
    let mut all = std::collections::BTreeMap::new();
    let mut large = Vec::new();
    while all.len() < count / 5 {
        let (top, len) = REGISTRIES[random.below(REGISTRIES.len())];
        let base = top << 112 | random.bits() >> len;
        let len = [32, 32, 32, 32, 32, 32, 29, 29, 28, 24][random.below(10)];
        if let Some(prefix) = Prefix6::new(base, len) {
            all.insert(prefix, random.below(64) as u32);
            large.push(prefix);
        }
    }
    while all.len() < count {
        let within = large[random.below(large.len())];
        let mut left = random.below(100);
        let len = LENGTHS.iter().find(|(_, share)| match left.checked_sub(*share) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        let inside = within.first() | random.bits() >> within.len();
        if let Some(prefix) = Prefix6::new(inside, len.map_or(48, |l| l.0)) {
            all.insert(prefix, random.below(64) as u32);
        }
    }
    all.into_iter().collect()
}

/// Cycles a lookup: the median over the bursts, so that those during which another program ran do not count.
fn pass(reader: &Lpm6Reader, addrs: &[u128], burst: usize) -> f64 {
    let mut hops = [0; BURST];
    let mut costs: Vec<f64> = Vec::with_capacity(addrs.len() / BURST + 1);
    for addrs in addrs.chunks_exact(BURST) {
        fence(SeqCst);
        let start = cycles();
        for (addrs, hops) in addrs.chunks(burst).zip(hops.chunks_mut(burst)) {
            reader.lookup_many(black_box(addrs), hops);
        }
        fence(SeqCst);
        costs.push((cycles() - start) as f64 / BURST as f64);
        black_box(&hops);
    }
    median(&mut costs)
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse());
    let (count, addresses, seconds) = (number(200_000)?, number(1_000_000)?, number(2)?);
    let mut random = Random(1);
    let routes = routes(count, &mut random);
    let addrs: Vec<u128> = (0..addresses)
        .map(|_| {
            let (prefix, _) = routes[random.below(routes.len())];
            prefix.first() | random.bits().checked_shr(prefix.len().into()).unwrap_or(0)
        })
        .collect();

    let before = resident_kb()?;
    let start = Instant::now();
    let table = Lpm6::new()?;
    table.load(routes.iter().copied())?;
    let load = start.elapsed();
    let memory = resident_kb()? - before;
    let reader = table.reader();
    for addr in addrs.iter().step_by(997) {
        let want = table.route(*addr).map(|(_, hop)| hop);
        assert_eq!(Some(reader.lookup(*addr)), want, "{addr:x}");
    }
    let mut costs: Vec<f64> = (0..7).map(|_| pass(&reader, &addrs, BURST)).collect();
    let mut ones: Vec<f64> = (0..3).map(|_| pass(&reader, &addrs, 1)).collect();

    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut busy = Vec::new();
    let mut spent = Duration::ZERO;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut turn, mut spent) = (routes.iter().cycle(), Duration::ZERO);
            while !stop.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                let start = Instant::now();
                for (prefix, hop) in turn.by_ref().take(CHANGES / 2000) {
                    table.remove(*prefix);
                    let _ = table.insert(*prefix, *hop);
                    done.fetch_add(2, Relaxed);
                }
                spent += start.elapsed();
            }
            spent
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds as u64) {
            busy.push(pass(&reader, &addrs, BURST));
        }
        stop.store(true, Relaxed);
        spent = writer.join().unwrap_or_default();
    });
    let start = Instant::now();
    table.insert(Prefix6::DEFAULT, 7)?;
    table.remove(Prefix6::DEFAULT);
    let default = start.elapsed() / 2;
    println!(
        "{{\"routes\": {}, \"load_ms\": {:.1}, \"memory_mb\": {:.1}, \"nodes_mb\": {:.1}, \"cycles\": {:.1}, \
         \"cycles_one_by_one\": {:.1}, \"cycles_while_changing\": {:.1}, \"change_us\": {:.2}, \
         \"default_route_ms\": {:.1}}}",
        table.len(),
        load.as_secs_f64() * 1e3,
        memory / 1e3,
        table.working_set() as f64 / 1e6,
        median(&mut costs),
        median(&mut ones),
        median(&mut busy),
        spent.as_secs_f64() * 1e6 / done.load(Relaxed).max(1) as f64,
        default.as_secs_f64() * 1e3,
    );
    Ok(())
}
