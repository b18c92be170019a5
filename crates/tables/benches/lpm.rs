//! Route lookup: nanoseconds per lookup, time to load, updates per second.
//!
//! `cargo bench -p valiant-tables --bench lpm` (or with numbers of routes). Destinations are random addresses inside
//! random routes, as in a full table under load; the lengths follow the shape of a backbone table, most of them /24.
//!
//! `cargo bench -p valiant-tables --bench lpm -- ROUTES ADDRESSES` measures the files that `dpdk-test-fib -w ROUTES
//! -u ADDRESSES` writes (lines of `prefix next-hop` and of `address`).

use std::hint::black_box;
use std::time::Instant;
use tables::{Lpm, Prefix};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// `count` distinct routes; `long` of 1,000 are longer than /24.
fn routes(count: usize, long: u64, random: &mut Random) -> Vec<(Prefix, u32)> {
    let mut set = std::collections::HashSet::new();
    let mut out = Vec::with_capacity(count);
    while out.len() < count {
        let r = random.next();
        let len = match r >> 32 & 1023 {
            n if n * 1000 < long << 10 => 25 + (r >> 44) as u8 % 8,
            n if n < 620 => 24,
            n if n < 820 => 21 + (r >> 44) as u8 % 3,
            n if n < 1015 => 16 + (r >> 44) as u8 % 5,
            _ => 10 + (r >> 44) as u8 % 6,
        };
        let Some(prefix) = Prefix::new(r as u32, len) else { continue };
        if set.insert(prefix) {
            out.push((prefix, (r >> 20) as u32 & 0xff));
        }
    }
    out
}

/// Addresses in random routes.
fn destinations(routes: &[(Prefix, u32)], random: &mut Random) -> Vec<u32> {
    let mut pick = || {
        let (prefix, _) = routes[random.next() as usize % routes.len()];
        prefix.first() | random.next() as u32 & !prefix.mask()
    };
    (0..1 << 20).map(|_| pick()).collect()
}

fn measure(routes: &[(Prefix, u32)], addrs: &[u32]) {
    let start = Instant::now();
    let Ok(table) = Lpm::new() else { return println!("no memory") };
    if let Err(e) = table.load(routes.iter().copied()) {
        return println!("{e}");
    }
    let load_ms = start.elapsed().as_secs_f64() * 1e3;

    let reader = table.reader();
    let mut hops = [0u32; 256];
    let mut many = Vec::new();
    let mut one = Vec::new();
    // Short windows: most of them escape whatever else the machine does, and the median is one that did.
    for _ in 0..9 {
        for window in addrs.chunks(1 << 14) {
            let start = Instant::now();
            for chunk in window.chunks(256) {
                reader.lookup_many(black_box(chunk), &mut hops[..chunk.len()]);
                black_box(&hops);
            }
            many.push(start.elapsed().as_secs_f64() * 1e9 / window.len() as f64);
        }
        for window in addrs.chunks(1 << 14) {
            let start = Instant::now();
            let mut sum = 0u32;
            for &addr in window {
                sum = black_box(reader.lookup(addr ^ sum) & 0x8000_0000); // each waits for the one before
            }
            black_box(sum);
            one.push(start.elapsed().as_secs_f64() * 1e9 / window.len() as f64);
        }
    }
    many.sort_by(f64::total_cmp);
    one.sort_by(f64::total_cmp);

    let start = Instant::now();
    for (i, &(prefix, hop)) in routes.iter().enumerate().take(200_000) {
        if i % 2 == 0 {
            table.remove(prefix);
        } else {
            let _ = table.insert(prefix, hop ^ 1);
        }
    }
    let updates = routes.len().min(200_000) as f64 / start.elapsed().as_secs_f64();
    println!(
        "routes {:8}  longer than /24 {:5.2} %  load {load_ms:7.1} ms  lookup_many {:5.2} ns (min {:.2})  \
         lookup one after another {:6.1} ns  updates {:9.0}/s",
        routes.len(),
        routes.iter().filter(|r| r.0.len() > 24).count() as f64 * 100.0 / routes.len() as f64,
        many[many.len() / 2],
        many[0],
        one[one.len() / 2],
        updates
    );
}

fn from_files(routes: &str, addrs: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut table = Vec::new();
    for line in std::fs::read_to_string(routes)?.lines() {
        let (prefix, hop) = line.split_once(' ').ok_or("a line without a next hop")?;
        table.push((prefix.parse()?, hop.trim().parse()?));
    }
    let mut list = Vec::new();
    for line in std::fs::read_to_string(addrs)?.lines() {
        list.push(line.parse::<std::net::Ipv4Addr>()?.to_bits());
    }
    measure(&table, &list);
    Ok(())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if let [routes, addrs] = &args[..]
        && routes.parse::<usize>().is_err()
    {
        if let Err(e) = from_files(routes, addrs) {
            println!("{e}");
        }
        return;
    }
    let counts: Vec<usize> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let counts = if counts.is_empty() { vec![1, 256 << 10, 1 << 20] } else { counts };
    for count in counts {
        for long in [0, 10, 100] {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let routes = routes(count, long, &mut random);
            measure(&routes, &destinations(&routes, &mut random));
        }
    }
}
