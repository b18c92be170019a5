//! Measures the classifier: `scripts/bench-rules` runs it beside rte_acl.
//!
//! `classify RULES FRAMES PASSES [--updates RATE --seconds N] [--unsettled] [--few N] [--bits N] [--chain N]`
//! reads rules
//! in testpmd's syntax, each with the action `queue index N` or none, and frames of 64 bytes each, and finds
//! the rule of each frame in bursts of
//! 64. With `--updates` it then does so for some seconds while another thread removes and adds that many
//! rules a second, in turn with stretches in which that thread works at something else. The result is a line
//! of JSON: cycles of the counter for each packet in each pass; the sum of the numbers of the rules found,
//! from 1; times in milliseconds; memory in bytes. With `--unsettled` no rules come into trees.

#[path = "../../tables/examples/measuring/mod.rs"]
mod measuring;

use lang::Source;
use measuring::{cycles, median, resident_kb};
use rules::{Hit, Key, Reader, Rule, Table, Tuning, headers, syntax};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const FRAME: usize = 64;
const BURST: usize = 64;

/// Finds the rules of all frames: cycles a packet, and the sum of the rules' numbers from 1.
fn pass(reader: &mut Reader, frames: &[u8]) -> (f64, u64) {
    let (mut keys, mut hits, mut sum) = ([Key::default(); BURST], [Hit::NOTHING; BURST], 0);
    let start = cycles();
    for burst in frames.chunks(FRAME * BURST) {
        let n = burst.len() / FRAME;
        for (key, frame) in keys.iter_mut().zip(burst.chunks_exact(FRAME)) {
            headers::read_into(key, frame);
        }
        let view = reader.now();
        view.find_many(0, &keys[..n], &mut hits[..n]);
        sum += hits[..n].iter().map(|hit| hit.number().map_or(0, |number| number + 1)).sum::<u64>();
    }
    ((cycles() - start) as f64 / (frames.len() / FRAME) as f64, black_box(sum))
}

/// Cycles a packet without and with so many updates a second, and updates a second. What is changed
/// alternates: a rule goes and comes back.
fn under_updates(
    table: &Table,
    rules: &[Rule],
    numbers: &[u64],
    frames: &[u8],
    rate: u64,
    time: Duration,
) -> [f64; 3] {
    const STEP: Duration = Duration::from_millis(1);
    const STRETCH: Duration = Duration::from_millis(100);
    const REST: u64 = 0;
    const CHANGE: u64 = 1;
    const END: u64 = 2;
    let (what, done) = (AtomicU64::new(REST), AtomicU64::new(0));
    let (mut peace, mut trouble, mut troubled) = (Vec::new(), Vec::new(), 0.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut numbers = numbers.to_vec();
            let each = (rate / 1000 / 2).max(1) as usize;
            let (mut at, mut next) = (0, Instant::now());
            while what.load(Relaxed) != END {
                next += STEP;
                if what.load(Relaxed) == CHANGE {
                    let places: Vec<usize> = (0..each).map(|n| (at + n) % numbers.len()).collect();
                    let gone: Vec<u64> = places.iter().map(|place| numbers[*place]).collect();
                    let new: Vec<Rule> = places.iter().map(|place| rules[*place].clone()).collect();
                    if let Ok(new) = table.change(&gone, &new) {
                        places.iter().zip(new).for_each(|(place, number)| numbers[*place] = number);
                    }
                    at = (at + each) % numbers.len();
                    done.fetch_add(2 * each as u64, Relaxed);
                } else {
                    // Nothing shared is touched; the processor is as busy.
                    let until = Instant::now() + STEP / 2;
                    let mut x = 1u64;
                    while Instant::now() < until {
                        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
                    }
                }
                while Instant::now() < next {
                    std::thread::yield_now();
                }
            }
        });
        let mut reader = table.reader();
        let mut windows = frames.chunks(FRAME * (1 << 12)).cycle();
        let begin = Instant::now();
        for turn in 0.. {
            let start = Instant::now();
            what.store(turn % 2, Relaxed);
            while start.elapsed() < STRETCH {
                let Some(window) = windows.next() else { break };
                let (cost, _) = pass(&mut reader, window);
                if turn % 2 == CHANGE { trouble.push(cost) } else { peace.push(cost) }
            }
            if turn % 2 == CHANGE {
                troubled += start.elapsed().as_secs_f64();
                if begin.elapsed() > time {
                    break;
                }
            }
        }
        what.store(END, Relaxed);
    });
    [median(&mut peace), median(&mut trouble), done.load(Relaxed) as f64 / troubled]
}

fn main() -> Result<(), Failure> {
    let (mut files, mut updates, mut seconds, mut tuning) = (Vec::new(), 0, 2, Tuning::default());
    let mut settle = true;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--unsettled" {
            settle = false;
            continue;
        }
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--updates" => updates = value()?.parse()?,
            "--seconds" => seconds = value()?.parse()?,
            "--few" => tuning.few = value()?.parse()?,
            "--bits" => tuning.bits = value()?.parse()?,
            "--chain" => tuning.chain = value()?.parse()?,
            _ => files.push(arg),
        }
    }
    let [path, frames, passes] = &files[..] else { return Err("classify RULES FRAMES PASSES".into()) };
    let frames = std::fs::read(frames)?;
    let source = Source::new(path.clone(), std::fs::read_to_string(path)?);
    let start = Instant::now();
    let (placed, diags) = syntax::parse(&source);
    if diags.has_errors() {
        return Err(diags.render(diags.sources(), false).into());
    }
    let parse_ms = start.elapsed().as_secs_f64() * 1e3;
    drop(source);
    let rules: Vec<Rule> = placed.into_iter().map(|placed| placed.rule).collect();
    let before = resident_kb()?;
    let table = Table::tuned(0x5eed, tuning);
    let start = Instant::now();
    let numbers = table.change(&[], &rules).map_err(|refused| format!("{refused:?}"))?;
    if settle {
        table.settle();
        while !table.sweep() {
            std::thread::yield_now();
        }
    }
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let memory = (resident_kb()? - before) * 1024.0;
    let mut reader = table.reader();
    let passes: usize = passes.parse()?;
    let (costs, sums): (Vec<String>, Vec<u64>) = (0..passes)
        .map(|_| pass(&mut reader, &frames))
        .map(|(cost, sum)| (format!("{cost:.2}"), sum))
        .unzip();
    let mut more = String::new();
    if updates > 0 {
        let time = Duration::from_secs(seconds);
        let [peace, trouble, rate] = under_updates(&table, &rules, &numbers, &frames, updates, time);
        more =
            format!(", \"peace\": {peace:.2}, \"trouble\": {trouble:.2}, \"updates_per_second\": {rate:.0}");
    }
    println!(
        "{{\"rules\": {}, \"parse_ms\": {parse_ms:.1}, \"build_ms\": {build_ms:.1}, \"memory_bytes\": {memory:.0}, \
         \"tuples\": {}, \"cycles\": [{}], \"sum\": {}{more}}}",
        table.len(),
        table.tuples(),
        costs.join(", "),
        sums.first().copied().unwrap_or(0),
    );
    Ok(())
}
