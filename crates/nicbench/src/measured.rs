//! The measurements: each gives figures as JSON.

use crate::engine::Engine;
use crate::forward::{Forward, Meter, forward};
use measure::ranks::median;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The time series has a point for each so long.
const BUCKET: Duration = Duration::from_millis(100);
/// Of a constant rate the median of shorter buckets is taken.
const SHORT: Duration = Duration::from_millis(20);
/// Changes at a rate are made in steps.
const STEP: Duration = Duration::from_millis(1);
const PAGE: f64 = 4096.0;

/// Which processors the roles have; without, the kernel chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cores {
    /// That of generator, receiver and forwarder.
    pub forwarder: Option<usize>,
    /// That of the rule generator, where it is another one.
    pub rules: Option<usize>,
}

/// Who changes rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The forwarder itself, between two bursts.
    Same,
    /// A thread of its own, on another core.
    Other,
}

/// How a rule takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The old one is removed, then the new one added.
    DeleteInsert,
    /// The other way round.
    InsertDelete,
    /// Both in one change.
    Change,
    /// By the call for that, which keeps the number.
    InPlace,
}

/// What a measurement needs.
pub struct Bench<'a, E: Engine> {
    /// What has the rules.
    pub engine: &'a E,
    /// The traffic.
    pub traffic: &'a mut dyn Forward,
    /// Who runs where.
    pub cores: Cores,
    /// How long traffic flows.
    pub time: Duration,
    /// Whether to stop.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

fn bind(core: Option<usize>) {
    // Without the right, or with a core that is not there, the kernel chooses.
    let _ = core.map(|core| dpdk::set_affinity(&[core]));
}

/// Bytes of memory that this process has in use.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * PAGE
}

/// How fast rules come, one after the other, and go again, as often as the time allows: medians; the memory
/// of each. What is refused ends that, with the driver's words; without any rule that is taken it is an
/// error.
///
/// # Errors
/// The first rule is refused, or one is not removed.
pub fn insertion<E: Engine>(
    engine: &E,
    rules: &[E::Rule],
    time: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Value, String> {
    const CHUNK: usize = 16;
    let before = resident();
    let (mut inserting, mut removing, mut words, mut first) = (Vec::new(), Vec::new(), None, None);
    let all = Instant::now();
    loop {
        let mut numbers = Vec::with_capacity(rules.len());
        let begin = Instant::now();
        for chunk in rules.chunks(CHUNK) {
            match engine.add(chunk) {
                Ok(more) => numbers.extend(more),
                Err(refused) => {
                    numbers.extend(refused.taken);
                    words = Some(refused.words);
                    break;
                }
            }
            if all.elapsed() > time || stop() {
                break;
            }
        }
        let many = numbers.len() as f64;
        inserting.push(many / begin.elapsed().as_secs_f64());
        if let Some(words) = words.as_ref().filter(|_| numbers.is_empty()) {
            return Err(words.clone());
        }
        first.get_or_insert((numbers.len(), (resident() - before).max(0.0) / many.max(1.0)));
        let begin = Instant::now();
        engine.remove(&numbers)?;
        removing.push(many / begin.elapsed().as_secs_f64());
        // Another round would likely be cut short.
        if words.is_some() || stop() || all.elapsed() > time / 2 {
            break;
        }
    }
    let of = |all: &[f64]| median(all.iter().copied());
    let (rules, bytes) = first.unwrap_or_default();
    Ok(json!({
        "rules": rules, "insertions_per_second": of(&inserting), "deletions_per_second": of(&removing),
        "bytes_per_rule": bytes, "rounds": inserting.len(), "full": words.is_some(), "refused": words,
    }))
}

impl<E: Engine> Bench<'_, E> {
    fn forward(&mut self, time: Duration, bucket: Duration, between: &mut dyn FnMut(Duration)) -> Meter {
        forward(self.traffic, time, bucket, self.stop, between)
    }

    /// The rate, and how long packets are with the classifier.
    pub fn lookup(&mut self) -> Value {
        bind(self.cores.forwarder);
        // Caches fill.
        self.forward(self.time / 4, SHORT, &mut |_| {});
        let meter = self.forward(self.time, SHORT, &mut |_| {});
        let all = meter.seen.packets().max(1) as f64;
        json!({
            "pps": meter.pps(), "latency_p50_ns": meter.latency.quantile_ns(0.5),
            "latency_p99_ns": meter.latency.quantile_ns(0.99), "rules": self.engine.len(),
            "matched": 1.0 - (meter.seen.queues[0] + meter.seen.missed) as f64 / all, "packets": meter.seen.packets(),
        })
    }

    /// Rules that come at once, after a third of the time: the time series, and the longest gap between two
    /// bursts before and after. They are removed again.
    ///
    /// # Errors
    /// A rule is refused, or not removed.
    pub fn batch(&mut self, rules: &[E::Rule], place: Where) -> Result<Value, String> {
        bind(self.cores.forwarder);
        self.forward(self.time / 8, SHORT, &mut |_| {});
        let (at, engine, cores) = (self.time / 3, self.engine, self.cores);
        let (mut came, mut took) = (None, 0.0);
        let update = || {
            let begin = Instant::now();
            let result = engine.add_together(rules);
            (result, begin.elapsed().as_secs_f64())
        };
        let meter = match place {
            Where::Same => {
                let (time, mut due) = (self.time, true);
                self.forward(time, BUCKET, &mut |elapsed| {
                    if due && elapsed >= at {
                        due = false;
                        let (result, seconds) = update();
                        (came, took) = (Some(result), seconds);
                    }
                })
            }
            Where::Other => {
                let (now, ended) = (AtomicBool::new(false), AtomicBool::new(false));
                std::thread::scope(|scope| {
                    let updating = scope.spawn(|| {
                        bind(cores.rules);
                        // Its processor is as busy before and after, but touches nothing that is shared.
                        while !now.load(Relaxed) {
                            if ended.load(Relaxed) {
                                return None;
                            }
                            work(STEP);
                        }
                        let updated = update();
                        while !ended.load(Relaxed) {
                            work(STEP);
                        }
                        Some(updated)
                    });
                    let meter =
                        self.forward(self.time, BUCKET, &mut |elapsed| now.store(elapsed >= at, Relaxed));
                    ended.store(true, Relaxed);
                    if let Ok(Some((result, seconds))) = updating.join() {
                        (came, took) = (Some(result), seconds);
                    }
                    meter
                })
            }
        };
        let numbers = match came {
            None => return Err("the time was too short for the update".to_owned()),
            Some(Ok(numbers)) => numbers,
            Some(Err(refused)) => {
                self.engine.remove(&refused.taken)?;
                return Err(format!("after {} rules: {}", refused.taken.len(), refused.words));
            }
        };
        self.engine.remove(&numbers)?;
        Ok(series(&meter, at, took))
    }

    /// Rules that come and go at a rate, in turn with stretches of time in which they do not: the rate of
    /// packets in both. `numbers` are rules that are there, which `rules` take the place of.
    ///
    /// # Errors
    /// A rule is refused.
    pub fn churn(
        &mut self,
        numbers: &mut [u64],
        rules: &[E::Rule],
        rate: f64,
        place: Where,
    ) -> Result<Value, String> {
        bind(self.cores.forwarder);
        self.forward(self.time / 8, SHORT, &mut |_| {});
        let (engine, cores, stop) = (self.engine, self.cores, self.stop);
        let (changing, ended, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let mut changer = Changer { engine, numbers, rules, at: 0, owed: 0.0, rate, failed: None };
        let (mut peace, mut trouble, mut seconds) =
            ([const { Vec::new() }; 2], [const { Vec::new() }; 2], 0.0);
        let mut stretches = |bench: &mut Self, between: &mut dyn FnMut(bool)| {
            let begin = Instant::now();
            let mut now = false;
            while begin.elapsed() < bench.time && !stop() {
                changing.store(now, Relaxed);
                let meter = bench.forward(BUCKET, SHORT, &mut |_| between(now));
                let [rates, latencies] = if now { &mut trouble } else { &mut peace };
                rates.push(meter.mean_pps());
                latencies.push(meter.latency.quantile_ns(0.5) as f64);
                seconds += if now { BUCKET.as_secs_f64() } else { 0.0 };
                now = !now;
            }
            ended.store(true, Relaxed);
        };
        match place {
            Where::Same => {
                let mut last = Instant::now();
                stretches(self, &mut |now| {
                    let elapsed = last.elapsed();
                    if !now {
                        last = Instant::now();
                    } else if elapsed >= STEP {
                        last = Instant::now();
                        done.fetch_add(changer.step(elapsed.min(BUCKET)), Relaxed);
                    }
                });
            }
            Where::Other => std::thread::scope(|scope| {
                scope.spawn(|| {
                    bind(cores.rules);
                    let mut last = Instant::now();
                    while !ended.load(Relaxed) {
                        let (begin, elapsed) = (Instant::now(), last.elapsed());
                        last = begin;
                        if changing.load(Relaxed) {
                            done.fetch_add(changer.step(elapsed.min(BUCKET)), Relaxed);
                        } else {
                            work(STEP / 2);
                        }
                        while begin.elapsed() < STEP {
                            std::thread::yield_now();
                        }
                    }
                });
                stretches(self, &mut |_| {});
            }),
        }
        if let Some(words) = changer.failed {
            return Err(words);
        }
        let of = |all: &[f64]| median(all.iter().copied()).unwrap_or(0.0);
        let ratio = |new: f64, old: f64| if old > 0.0 { new / old } else { 0.0 };
        Ok(json!({
            "pps_before": of(&peace[0]), "pps": of(&trouble[0]), "part": ratio(of(&trouble[0]), of(&peace[0])),
            "latency_before_ns": of(&peace[1]), "latency_ns": of(&trouble[1]),
            "updates_per_second": ratio(done.load(Relaxed) as f64, seconds),
        }))
    }

    /// Rules that are replaced as fast as another core can, one after the other, while all packets match
    /// them: how many packets met neither the old rule nor the new one. `numbers` are rules for queue 1, as
    /// `rules[0]`; `rules[1]` are the same for queue 2.
    ///
    /// # Errors
    /// A rule is refused, or it has no such way.
    pub fn replacement(
        &mut self,
        numbers: &mut [u64],
        rules: [&[E::Rule]; 2],
        how: Strategy,
    ) -> Result<Value, String> {
        bind(self.cores.forwarder);
        let (engine, cores, ended) = (self.engine, self.cores, AtomicBool::new(false));
        let updates = std::thread::scope(|scope| {
            let updating = scope.spawn(|| {
                bind(cores.rules);
                let (begin, mut done) = (Instant::now(), 0_u64);
                while !ended.load(Relaxed) {
                    let new = rules[usize::from((done as usize / numbers.len().max(1)).is_multiple_of(2))];
                    let at = done as usize % numbers.len().max(1);
                    let (Some(number), Some(new)) = (numbers.get_mut(at), new.get(at..=at)) else { break };
                    replace(engine, number, new, how)?;
                    done += 1;
                }
                Ok(done as f64 / begin.elapsed().as_secs_f64())
            });
            let meter = self.forward(self.time, SHORT, &mut |_| {});
            ended.store(true, Relaxed);
            let rate: Result<f64, String> =
                updating.join().unwrap_or_else(|_| Err("the rule generator failed".to_owned()));
            rate.map(|rate| (rate, meter))
        });
        let (rate, meter) = updates?;
        Ok(json!({
            "updates_per_second": rate, "neither": meter.seen.queues[0] + meter.seen.missed,
            "old_or_new": meter.seen.queues[1] + meter.seen.queues[2], "packets": meter.seen.packets(), "pps": meter.pps(),
        }))
    }
}

/// How fast rules are replaced, without traffic.
///
/// # Errors
/// A rule is refused, or there is no such way.
pub fn replacement_alone<E: Engine>(
    engine: &E,
    numbers: &mut [u64],
    new: &[E::Rule],
    how: Strategy,
    longest: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Value, String> {
    let (begin, mut done) = (Instant::now(), 0_u64);
    for (number, rule) in numbers.iter_mut().zip(new) {
        replace(engine, number, std::slice::from_ref(rule), how)?;
        done += 1;
        if begin.elapsed() > longest || stop() {
            break;
        }
    }
    Ok(json!({"updates_per_second": done as f64 / begin.elapsed().as_secs_f64(), "updates": done}))
}

/// Replaces one rule.
fn replace<E: Engine>(engine: &E, number: &mut u64, new: &[E::Rule], how: Strategy) -> Result<(), String> {
    let add = |new: &[E::Rule]| engine.add(new).map_err(|refused| refused.words);
    let numbers = match how {
        Strategy::InPlace => {
            return engine.replace(&[*number], new).unwrap_or_else(|| {
                Err(format!("DPDK {} has no call that replaces a rule", dpdk::dpdk_version()))
            });
        }
        Strategy::Change => engine.change(&[*number], new).map_err(|refused| refused.words)?,
        Strategy::DeleteInsert => {
            engine.remove(&[*number])?;
            add(new)?
        }
        Strategy::InsertDelete => {
            let numbers = add(new)?;
            engine.remove(&[*number])?;
            numbers
        }
    };
    numbers.first().into_iter().for_each(|new| *number = *new);
    Ok(())
}

/// Works at something that touches nothing shared.
fn work(time: Duration) {
    let (begin, mut x) = (Instant::now(), 1_u64);
    while begin.elapsed() < time {
        x = black_box(x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7));
    }
}

/// Who changes rules at a rate: they go, and come back.
struct Changer<'a, E: Engine> {
    engine: &'a E,
    numbers: &'a mut [u64],
    rules: &'a [E::Rule],
    at: usize,
    owed: f64,
    rate: f64,
    failed: Option<String>,
}

impl<E: Engine> Changer<'_, E> {
    /// Makes the changes of a time. Returns how many: one that goes and one that comes are two.
    fn step(&mut self, time: Duration) -> u64 {
        self.owed += self.rate * time.as_secs_f64() / 2.0;
        let many = (self.owed as usize).min(self.numbers.len().min(self.rules.len()));
        self.owed = (self.owed - many as f64).min(self.rate);
        if many == 0 || self.failed.is_some() {
            return 0;
        }
        if self.at + many > self.numbers.len() {
            self.at = 0;
        }
        let range = self.at..self.at + many;
        self.at += many;
        let (Some(gone), Some(new)) = (self.numbers.get_mut(range.clone()), self.rules.get(range)) else {
            return 0;
        };
        match self.engine.change(gone, new) {
            Ok(numbers) => gone.iter_mut().zip(numbers).for_each(|(old, new)| *old = new),
            Err(refused) => self.failed = Some(refused.words),
        }
        2 * many as u64
    }
}

/// What a batch of updates at a time has done to the buckets, of which the last may not be whole.
fn series(meter: &Meter, at: Duration, took: f64) -> Value {
    let first = (at.as_secs_f64() / meter.bucket_s) as usize;
    let (before, after) = meter.series.split_at(first.min(meter.series.len()));
    let (idle, busy) = meter.gaps_ns.split_at(first.min(meter.gaps_ns.len()));
    let of = |all: &[u64]| median(all.iter().map(|packets| *packets as f64)).unwrap_or(0.0);
    let usual = of(before).max(1.0);
    let part = |packets: u64| packets as f64 / usual;
    let most = |gaps: &[u64]| gaps.iter().max().copied().unwrap_or(0) as f64 / 1e6;
    let worst = |all: &[u64]| all.iter().min().map_or(0.0, |packets| part(*packets));
    let slow = after.iter().filter(|packets| part(**packets) < 0.9).count();
    json!({
        "pps_before": usual / meter.bucket_s, "worst": worst(after), "worst_before": worst(before),
        "update_ms": took * 1e3, "gap_ms": most(busy), "gap_before_ms": most(idle),
        "outage_ms": (most(busy) - most(idle)).max(0.0), "slow_s": slow as f64 * meter.bucket_s,
        "bucket_s": meter.bucket_s, "update_s": at.as_secs_f64(),
        "series": meter.series.iter().map(|packets| *packets as f64 / meter.bucket_s).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
