//! Measures the route table: `scripts/bench-lookup` runs it beside `dpdk-test-fib`.
//!
//! `lpm ROUTES ADDRESSES [--swapped] [--kernel NAME] [--passes N] [--parts N [--own]] [--updates RATE]
//! [--seconds N]` reads files
//! in the format of `dpdk-test-fib` (lines of `PREFIX HOP`; lines of one address, with `--swapped` in reverse
//! byte order), loads the routes and looks every address up, in bursts of 64 with a fence and a reading of
//! the processor's cycle counter before and after each burst, as that program does. `--updates` then looks up
//! for some seconds while another thread changes that many routes a second, alternating with periods without
//! changes. With `--parts` the addresses are divided into ranges with as many routes each, and those of one
//! range are looked up `--passes` times before those of the next; with `--own` in a table that has only the
//! routes of the range. Each figure is then the mean over all addresses. The result is one line of JSON:
//! times in milliseconds, memory in MB, lookups in cycles of the counter.

mod measuring;

use measuring::{cycles, median, resident_kb};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::{Duration, Instant};
use tables::{Kernel, Lpm, LpmReader, Prefix};

type Failure = Box<dyn std::error::Error>;

/// Lookups in a row, as in `dpdk-test-fib`.
const BURST: usize = 64;

/// Cycles a lookup.
fn pass(reader: &LpmReader, addrs: &[u32]) -> f64 {
    let mut hops = [0; BURST];
    let mut total = 0;
    for burst in addrs.chunks(BURST) {
        fence(SeqCst);
        let start = cycles();
        reader.lookup_many(black_box(burst), &mut hops);
        fence(SeqCst);
        total += cycles() - start;
        black_box(&hops);
    }
    total as f64 / addrs.len() as f64
}

/// The addresses in ranges that hold as many routes each, and the first address of each range.
fn ranges(routes: &[(Prefix, u32)], addrs: &[u32], count: usize) -> Vec<(u32, Vec<u32>)> {
    let mut firsts: Vec<u32> = routes.iter().map(|(prefix, _)| prefix.first()).collect();
    firsts.sort_unstable();
    let first = |n: usize| if n == 0 { 0 } else { firsts[n * firsts.len() / count] };
    let mut ranges: Vec<(u32, Vec<u32>)> = (0..count).map(|n| (first(n), Vec::new())).collect();
    for addr in addrs {
        let at = ranges.partition_point(|(first, _)| first <= addr) - 1;
        ranges[at].1.push(*addr);
    }
    ranges
}

/// Cycles a lookup in each pass, where the addresses of one range come after those of another; with `own` in
/// tables of their routes alone.
fn by_range(
    table: &Lpm,
    kernel: Kernel,
    routes: &[(Prefix, u32)],
    ranges: &[(u32, Vec<u32>)],
    passes: usize,
    own: bool,
) -> Result<Vec<f64>, Failure> {
    let all: usize = ranges.iter().map(|(_, addrs)| addrs.len()).sum();
    let mut costs = vec![0.0; passes];
    for (n, (first, addrs)) in ranges.iter().enumerate() {
        let last = ranges.get(n + 1).map_or(u32::MAX, |next| next.0 - 1);
        let part = Lpm::new()?;
        if own {
            let inside = |(prefix, _): &&(Prefix, u32)| prefix.first() <= last && prefix.last() >= *first;
            part.load(routes.iter().filter(inside).copied())?;
        }
        let reader = if own { &part } else { table }.reader_with(kernel);
        for cost in &mut costs {
            *cost += pass(&reader, addrs) * addrs.len() as f64 / all as f64;
        }
    }
    Ok(costs)
}

/// Cycles a lookup without updates and with this number of updates a second, and the number of updates.
fn under_updates(
    table: &Lpm,
    routes: &[(Prefix, u32)],
    addrs: &[u32],
    rate: u64,
    time: Duration,
) -> [f64; 3] {
    const STEP: Duration = Duration::from_millis(1);
    const STRETCH: Duration = Duration::from_millis(100);
    let (busy, stop, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let (mut peace, mut trouble, mut troubled) = (Vec::new(), Vec::new(), 0.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A route is removed, and is added again with another next hop many steps later.
            let mut turn = routes.iter().cycle().map(|(p, h)| (*p, *h));
            let mut next = Instant::now();
            let mut gone = std::collections::VecDeque::new();
            while !stop.load(Relaxed) {
                next += STEP;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                if !busy.load(Relaxed) {
                    next = Instant::now();
                    continue;
                }
                for _ in 0..rate / 1000 / 2 {
                    if let Some((prefix, hop)) = turn.next() {
                        table.remove(prefix);
                        gone.push_back((prefix, hop ^ 1));
                    }
                    if gone.len() > 1000
                        && let Some((prefix, hop)) = gone.pop_front()
                    {
                        let _ = table.insert(prefix, hop);
                    }
                    done.fetch_add(2, Relaxed);
                }
            }
        });
        let reader = table.reader();
        let mut windows = addrs.chunks(1 << 14).cycle();
        let begin = Instant::now();
        for turn in 0.. {
            let start = Instant::now();
            busy.store(turn % 2 == 1, Relaxed);
            while start.elapsed() < STRETCH {
                let Some(window) = windows.next() else { break };
                let cost = pass(&reader, window);
                if turn % 2 == 1 { trouble.push(cost) } else { peace.push(cost) }
            }
            if turn % 2 == 1 {
                troubled += start.elapsed().as_secs_f64();
                if begin.elapsed() > time {
                    break;
                }
            }
        }
        stop.store(true, Relaxed);
    });
    [median(&mut peace), median(&mut trouble), done.load(Relaxed) as f64 / troubled]
}

fn main() -> Result<(), Failure> {
    let mut files = Vec::new();
    let (mut swapped, mut kernel, mut passes, mut updates, mut seconds) = (false, Kernel::widest(), 1, 0, 2);
    let (mut parts, mut own) = (1usize, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--swapped" => swapped = true,
            "--kernel" => {
                let name = value()?;
                let found = Kernel::usable().into_iter().find(|k| k.name() == name);
                kernel = found.ok_or(format!("this processor has no {name}"))?;
            }
            "--parts" => parts = value()?.parse()?,
            "--own" => own = true,
            "--passes" => passes = value()?.parse()?,
            "--updates" => updates = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            _ => files.push(arg),
        }
    }
    let [routes, addrs] = &files[..] else { return Err("two files: routes and addresses".into()) };
    let mut list = Vec::new();
    for line in std::fs::read_to_string(routes)?.lines() {
        let (prefix, hop) = line.split_once(' ').ok_or("a route without a next hop")?;
        list.push((prefix.parse::<Prefix>()?, hop.trim().parse::<u32>()?));
    }
    let mut destinations = Vec::new();
    for line in std::fs::read_to_string(addrs)?.lines() {
        let addr = line.parse::<std::net::Ipv4Addr>()?.to_bits();
        destinations.push(if swapped { addr.swap_bytes() } else { addr });
    }

    // What reading the files has left behind is no part of the table.
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only touches memory that is free.
    unsafe {
        libc::malloc_trim(0)
    };
    let before = resident_kb()?;
    let table = Lpm::new()?;
    let start = Instant::now();
    table.load(list.iter().copied())?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let memory_mb = (resident_kb()? - before) / 1024.0;
    let reader = table.reader_with(kernel);
    let costs = if parts > 1 {
        by_range(&table, kernel, &list, &ranges(&list, &destinations, parts), passes, own)?
    } else {
        (0..passes).map(|_| pass(&reader, &destinations)).collect()
    };
    let costs: Vec<String> = costs.iter().map(|cost| format!("{cost:.2}")).collect();
    let mut sum = 0u64;
    let mut hops = [0; BURST];
    for burst in destinations.chunks(BURST) {
        reader.lookup_many(burst, &mut hops);
        sum += hops[..burst.len()].iter().map(|h| u64::from(*h)).sum::<u64>();
    }
    let mut more = String::new();
    if updates > 0 {
        let [peace, trouble, rate] =
            under_updates(&table, &list, &destinations, updates, Duration::from_secs(seconds));
        more =
            format!(", \"peace\": {peace:.2}, \"trouble\": {trouble:.2}, \"updates_per_second\": {rate:.0}");
    }
    println!(
        "{{\"routes\": {}, \"groups\": {}, \"kernel\": \"{}\", \"load_ms\": {load_ms:.1}, \"memory_mb\": {memory_mb:.1}, \"cycles\": [{}], \
         \"sum_of_hops\": {sum}{more}}}",
        table.len(),
        table.groups(),
        kernel.name(),
        costs.join(", "),
    );
    Ok(())
}
