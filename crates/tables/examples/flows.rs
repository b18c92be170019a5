//! Measures the table of flows: `flows FLOWS [PASSES]` fills it, finds entries in a random order in bursts of
//! 64, adds and removes, and prints cycles of the counter for each, and bytes a flow, as a line of JSON.

#[allow(dead_code, reason = "of the helpers some are for other programs")]
mod measuring;

use measuring::{cycles, median};
use std::hint::black_box;
use tables::flows::{Cursor, Flows, Hash, Key, New, Places, Tuple, Wanted};

const BURST: usize = 64;

fn scramble(n: u64) -> u64 {
    let x = (n ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
}

/// A connection from an inner host by a translator.
fn flow(n: u64) -> New {
    let x = scramble(n);
    let tuple = Tuple { src: 10 | n as u32, dst: x as u32, ports: (x >> 32) as u32 };
    let key = Key { tuple, kind: 1 };
    let to = Tuple { src: 0x6364_6566, ports: tuple.ports ^ (n as u32) << 16, ..tuple };
    New { key, to, outputs: [0, 1], owner: 0, mark: 0 }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let flows: u64 = words.next().ok_or("FLOWS [PASSES]")?.parse()?;
    let passes: usize = words.next().map_or(Ok(5), |passes| passes.parse())?;
    let table = Flows::new(2 * flows as usize).ok_or("no memory")?;
    let mut keys: Vec<Key> = Vec::with_capacity(2 * flows as usize);
    let start = cycles();
    let mut refused = 0;
    for n in 0..flows {
        refused += u64::from(table.add(&flow(n), (n % 5) as u32).is_err());
    }
    let fill = (cycles() - start) as f64 / flows as f64;
    (0..flows).for_each(|n| keys.extend([flow(n).key, flow(n).reply_key()]));
    for n in (1..keys.len()).rev() {
        keys.swap(n, (scramble(n as u64 + 99) % (n as u64 + 1)) as usize);
    }
    let (mut find, mut remove, mut add, mut next) = (Vec::new(), Vec::new(), Vec::new(), flows);
    let (mut hashes, mut wanted) = ([Hash::default(); BURST], [Wanted::default(); BURST]);
    let mut places = [Places::default(); BURST];
    for _ in 0..passes {
        let start = cycles();
        let mut sum = 0;
        for burst in keys.chunks(BURST) {
            for (hash, key) in hashes.iter_mut().zip(burst) {
                *hash = table.begin(key);
            }
            for (wanted, hash) in wanted.iter_mut().zip(&hashes[..burst.len()]) {
                *wanted = table.tags(*hash);
            }
            for (places, wanted) in places.iter_mut().zip(&wanted[..burst.len()]) {
                *places = table.places(*wanted);
            }
            for (places, key) in places.iter().zip(burst) {
                sum += u64::from(table.find(key, *places).map_or(0, |found| found.to.dst));
            }
        }
        find.push((cycles() - start) as f64 / keys.len() as f64);
        black_box(sum);
        // Of the flows that have ended, a fifth of all, some are removed, and as many new ones come in
        // bursts.
        let some = (flows / 25).min(100_000);
        let start = cycles();
        let mut removed = 0;
        let mut cursor = Cursor::default();
        while removed < some {
            let ends = table.look_over(
                &mut cursor,
                16,
                // A fifth of them.
                (4, 4),
                |_| true,
                |both| removed += u64::from(table.remove_seen(both, |_| true)),
            );
            if ends {
                break;
            }
        }
        remove.push((cycles() - start) as f64 / removed.max(1) as f64);
        let start = cycles();
        let mut added = 0;
        while added < some {
            let burst: [New; BURST] = std::array::from_fn(|n| flow(next + n as u64));
            let hashes = burst.map(|new| (table.begin(&new.key), table.begin(&new.reply_key())));
            for (forward, reply) in hashes.map(|(forward, reply)| (table.tags(forward), table.tags(reply))) {
                table.prefetch_room(forward);
                table.prefetch_room(reply);
            }
            for new in &burst {
                added += 1;
                let _ = black_box(table.add(new, (added % 5) as u32));
            }
            next += BURST as u64;
        }
        add.push((cycles() - start) as f64 / added.max(1) as f64);
    }
    let start = cycles();
    while !table.look_over(&mut Cursor::default(), usize::MAX, (5, 9), |_| true, |_| ()) {}
    let look_over = (cycles() - start) as f64 / flows as f64;
    println!(
        "{{\"flows\": {flows}, \"refused\": {refused}, \"fill\": {fill:.0}, \"find\": {:.1}, \
         \"remove\": {:.0}, \"add\": {:.0}, \"look_over\": {look_over:.1}, \"bytes\": {:.0}}}",
        median(&mut find),
        median(&mut remove),
        median(&mut add),
        table.bytes() as f64 / flows as f64
    );
    Ok(())
}
