//! What happened between the first and the last of several readings.

use crate::reading::{Counters, Element, Reading, Role};
use std::collections::BTreeMap;
use std::fmt;

/// Readings that have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotComparable {
    /// There are fewer than two.
    NoTime,
    /// They are of other routers or configurations, or not in order.
    Replaced,
}

impl fmt::Display for NotComparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTime => "at least two readings of a router are needed",
            Self::Replaced => {
                "the readings are not of one router and configuration, one after the other; look again"
            }
        })
    }
}

/// What was done, and how long it took.
#[derive(Clone, Debug)]
pub struct Interval {
    pub(crate) seconds: f64,
    pub(crate) cycles: f64,
    pub(crate) shares_threads: bool,
    pub(crate) workers: Vec<Worker>,
    pub(crate) elements: Vec<Work>,
    pub(crate) ports: Vec<Port>,
    pub(crate) pools: Vec<Pool>,
}

/// The time of a worker, in parts of all time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worker {
    pub(crate) number: usize,
    /// Working on packets.
    pub(crate) busy: f64,
    /// The same, with the time in which it would have if it had had a processor.
    pub(crate) load: f64,
    /// Looking for packets where there were none.
    pub(crate) empty: f64,
    /// The largest `busy` of the parts of the interval.
    pub(crate) busiest: f64,
    /// Ready, without a processor.
    pub(crate) waited: f64,
    /// Its processor was with another virtual machine.
    pub(crate) stolen: f64,
    /// Waiting for locks.
    pub(crate) locked: f64,
    pub(crate) lock_waits: u64,
    pub(crate) cpu: Option<usize>,
    pub(crate) may_use_cpus: String,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) stuck: Option<(String, u64)>,
    /// The element in which it sleeps, and the part of the time.
    pub(crate) blocked: Option<(String, f64)>,
}

/// What an element has done.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) role: Role,
    /// Numbers of the elements that it gives packets to, and whether these pull.
    pub(crate) to: Vec<(usize, bool)>,
    pub(crate) on: Vec<Counters>,
    pub(crate) sum: Counters,
    /// The part of the time in which it had no room, on the worker where that was longest.
    pub(crate) full: f64,
    pub(crate) longest: Option<u64>,
    /// The fewest packets that were in it at any reading.
    pub(crate) shortest: Option<u64>,
    pub(crate) active: Option<bool>,
    pub(crate) capacity: Option<u64>,
    pub(crate) working_set: u64,
    pub(crate) burst: Option<u64>,
    pub(crate) port: Option<String>,
    pub(crate) polls: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) link_mbps: Option<u64>,
    pub(crate) rx_queues: u64,
    pub(crate) received: u64,
    pub(crate) missed: u64,
    pub(crate) no_buffer: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) buffers: u64,
    /// The fewest that were free at any reading.
    pub(crate) least_free: u64,
}

/// The difference of two readings of a counter; one that was reset counts from zero.
fn grown(after: u64, before: u64) -> u64 {
    if after >= before { after - before } else { after }
}

impl Counters {
    fn since(&self, before: &Self) -> Self {
        let reasons = self
            .drops
            .iter()
            .map(|(reason, n)| (reason.clone(), grown(*n, before.drops.get(reason).copied().unwrap_or(0))));
        Self {
            worker: self.worker,
            packets: grown(self.packets, before.packets),
            batches: grown(self.batches, before.batches),
            emitted: grown(self.emitted, before.emitted),
            emissions: grown(self.emissions, before.emissions),
            cycles: grown(self.cycles, before.cycles),
            empty_polls: grown(self.empty_polls, before.empty_polls),
            empty_cycles: grown(self.empty_cycles, before.empty_cycles),
            wasted_packets: grown(self.wasted_packets, before.wasted_packets),
            wasted_cycles: grown(self.wasted_cycles, before.wasted_cycles),
            full_cycles: grown(self.full_cycles, before.full_cycles),
            drops: reasons.filter(|(_, n)| *n > 0).collect(),
        }
    }
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.batches += other.batches;
        self.emitted += other.emitted;
        self.emissions += other.emissions;
        self.cycles += other.cycles;
        self.empty_polls += other.empty_polls;
        self.empty_cycles += other.empty_cycles;
        self.wasted_packets += other.wasted_packets;
        self.wasted_cycles += other.wasted_cycles;
        self.full_cycles += other.full_cycles;
        for (reason, n) in &other.drops {
            *self.drops.entry(reason.clone()).or_default() += n;
        }
    }
    /// Packets that came in, or for a source went out.
    pub(crate) fn handled(&self) -> u64 {
        self.packets.max(self.emitted)
    }
    /// Packets in a batch on average.
    pub(crate) fn batch(&self) -> f64 {
        let (packets, batches) =
            if self.packets > 0 { (self.packets, self.batches) } else { (self.emitted, self.emissions) };
        packets as f64 / batches.max(1) as f64
    }
    /// Packets dropped for reasons that are so.
    pub(crate) fn dropped(&self, is: impl Fn(&str) -> bool) -> u64 {
        self.drops.iter().filter(|(reason, _)| is(reason)).map(|(_, n)| n).sum()
    }
}

impl Work {
    fn between(first: &Element, last: &Element, all: &[&Element], cycles: f64) -> Self {
        let before: BTreeMap<usize, &Counters> = first.workers.iter().map(|c| (c.worker, c)).collect();
        let none = Counters::default();
        let since = |now: &Counters| now.since(before.get(&now.worker).copied().unwrap_or(&none));
        let on: Vec<Counters> = last.workers.iter().map(since).collect();
        let mut sum = Counters::default();
        on.iter().for_each(|counters| sum.add(counters));
        let full = on.iter().map(|counters| counters.full_cycles as f64 / cycles).fold(0.0, f64::max);
        Self {
            name: last.name.clone(),
            class: last.class.clone(),
            role: last.role,
            to: last.to.iter().map(|(to, kind)| (*to, kind.starts_with("pull"))).collect(),
            on,
            sum,
            full: full.min(1.0),
            // Other elements mean something else by their length.
            longest: last.capacity.and_then(|_| all.iter().filter_map(|element| element.length).max()),
            shortest: last.capacity.and_then(|_| all.iter().filter_map(|element| element.length).min()),
            active: last.active,
            capacity: last.capacity,
            working_set: last.working_set.unwrap_or(0),
            burst: last.burst,
            port: last.port.clone(),
            polls: last.polls.clone(),
        }
    }
    /// Its counters on a worker.
    pub(crate) fn on(&self, worker: usize) -> Option<&Counters> {
        self.on.iter().find(|counters| counters.worker == worker)
    }
    /// Whether packets begin there.
    pub(crate) fn begins(&self) -> bool {
        self.role == Role::Source || (self.sum.packets == 0 && self.sum.emitted > 0)
    }
}

/// Parts of the time from one reading to another.
struct Load {
    /// With packets, had the thread always had a processor when it was ready.
    load: f64,
    /// With packets.
    busy: f64,
    /// Polling in vain.
    empty: f64,
}

impl Load {
    fn of(worker: usize, first: &Reading, last: &Reading, works: &[Work]) -> Self {
        let counters = || works.iter().filter_map(|work| work.on(worker));
        let threads = first.workers.get(worker).zip(last.workers.get(worker));
        let taskless =
            threads.map_or(0, |(before, after)| grown(after.taskless_cycles, before.taskless_cycles));
        let (with, without) = (
            counters().map(|c| c.cycles).sum::<u64>() as f64,
            (counters().map(|c| c.empty_cycles).sum::<u64>() + taskless) as f64,
        );
        let cycles = last.cycles.saturating_sub(first.cycles).max(1) as f64;
        let nanoseconds = last.time_ns.saturating_sub(first.time_ns).max(1) as f64;
        let part = |ns: u64| (ns as f64 / nanoseconds).min(1.0);
        let of_thread = threads.and_then(|(before, after)| {
            Some((part(grown(after.ran_ns?, before.ran_ns?)), part(grown(after.waited_ns, before.waited_ns))))
        });
        // Most runs are not timed, and those that are stand for the others: the ratio is right where the sum
        // is not. The thread's own time is exact, unless it is other routers' too.
        match of_thread.filter(|_| with + without > 0.0 && !last.shares_threads) {
            Some((ran, waited)) => {
                let share = with / (with + without);
                Self { load: share * (ran + waited).min(1.0), busy: share * ran, empty: (1.0 - share) * ran }
            }
            None => {
                let share = |part: f64| (part / cycles).min(1.0);
                Self { load: share(with), busy: share(with), empty: share(without) }
            }
        }
    }
}

fn works(first: &Reading, last: &Reading, all: &[Reading]) -> Vec<Work> {
    let cycles = last.cycles.saturating_sub(first.cycles).max(1) as f64;
    let one = |(index, (before, after)): (usize, (&Element, &Element))| {
        let all: Vec<&Element> = all.iter().filter_map(|reading| reading.elements.get(index)).collect();
        Work::between(before, after, &all, cycles)
    };
    first.elements.iter().zip(&last.elements).enumerate().map(one).collect()
}

/// In which element a worker sleeps, and in which part of the readings.
fn blocked(worker: usize, readings: &[Reading]) -> Option<(String, f64)> {
    let at = |reading: &Reading| reading.workers.get(worker)?.blocked_in.clone();
    let all: Vec<String> = readings.iter().filter_map(at).collect();
    let name = all.last()?.clone();
    Some((name, all.len() as f64 / readings.len() as f64))
}

impl Interval {
    /// The time from the first to the last of some readings of a router.
    ///
    /// # Errors
    /// They do not belong together.
    pub fn of(readings: &[Reading]) -> Result<Self, NotComparable> {
        let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
            return Err(NotComparable::NoTime);
        };
        if readings.len() < 2 {
            return Err(NotComparable::NoTime);
        }
        if !readings
            .windows(2)
            .all(|pair| pair[0].time_ns < pair[1].time_ns && pair[0].cycles < pair[1].cycles)
        {
            return Err(NotComparable::Replaced);
        }
        let names = |reading: &Reading| -> Vec<(String, String)> {
            reading.elements.iter().map(|element| (element.name.clone(), element.class.clone())).collect()
        };
        let of_first = names(first);
        let alike = |other: &Reading| {
            other.generation == first.generation
                && other.workers.len() == first.workers.len()
                && names(other) == of_first
        };
        if !readings.iter().all(alike) {
            return Err(NotComparable::Replaced);
        }
        let seconds = (last.time_ns - first.time_ns) as f64 / 1e9;
        let elements = works(first, last, readings);
        let mut workers: Vec<Worker> = Vec::new();
        for (number, (before, after)) in first.workers.iter().zip(&last.workers).enumerate() {
            let Load { load, busy, empty } = Load::of(number, first, last, &elements);
            let part = |ns: u64| (ns as f64 / 1e9 / seconds).min(1.0);
            workers.push(Worker {
                number,
                busy,
                load,
                empty,
                busiest: busy,
                blocked: blocked(number, readings),
                waited: part(grown(after.waited_ns, before.waited_ns)),
                stolen: part(grown(after.cpu_stolen_ticks, before.cpu_stolen_ticks) * 10_000_000)
                    * f64::from(u8::from(after.cpu == before.cpu)),
                locked: part(grown(after.lock_ns, before.lock_ns)),
                lock_waits: grown(after.lock_waits, before.lock_waits),
                cpu: after.cpu,
                may_use_cpus: after.may_use_cpus.clone(),
                cache_bytes: after.cache_bytes,
                stuck: after.stuck.as_ref().map(|stuck| (stuck.element.clone(), stuck.seconds)),
            });
        }
        for pair in readings.windows(2) {
            let [before, after] = pair else { continue };
            let parts = works(before, after, pair);
            for worker in &mut workers {
                worker.busiest = worker.busiest.max(Load::of(worker.number, before, after, &parts).busy);
            }
        }
        let ports = first.ports.iter().filter_map(|before| {
            let after = last.ports.iter().find(|port| port.name == before.name)?;
            Some(Port {
                name: after.name.clone(),
                state: after.state.clone(),
                link_mbps: after.link_mbps.filter(|speed| *speed > 0),
                rx_queues: after.rx_queues,
                received: grown(after.rx_packets, before.rx_packets),
                missed: grown(after.rx_missed, before.rx_missed),
                no_buffer: grown(after.rx_no_buffer, before.rx_no_buffer),
                sent: grown(after.tx_packets, before.tx_packets),
                sent_bytes: grown(after.tx_bytes, before.tx_bytes),
            })
        });
        let pools = last.pools.iter().enumerate().map(|(index, pool)| Pool {
            buffers: pool.buffers,
            least_free: readings.iter().filter_map(|r| r.pools.get(index)).map(|p| p.free).min().unwrap_or(0),
        });
        Ok(Self {
            seconds,
            cycles: (last.cycles - first.cycles) as f64,
            shares_threads: last.shares_threads,
            ports: ports.collect(),
            pools: pools.collect(),
            workers,
            elements,
        })
    }

    /// Packets that began in the router: from ports, or made by it.
    pub(crate) fn entered(&self) -> u64 {
        self.elements.iter().filter(|work| work.begins()).map(|work| work.sum.emitted).sum()
    }
    /// Packets that no worker took in time from a receive ring.
    pub(crate) fn missed(&self) -> u64 {
        // Packet sockets and AF_XDP are counted by the element, NICs by the port, some by both.
        let by_elements: u64 = self.elements.iter().map(|work| work.sum.dropped(is_ring_full)).sum();
        by_elements.max(self.ports.iter().map(|port| port.missed).sum())
    }
    /// The elements that pull from an element, directly or through others.
    pub(crate) fn pullers(&self, of: usize) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let mut next = vec![of];
        while let Some(at) = next.pop() {
            for &(to, pulls) in self.elements.get(at).map_or(&[][..], |work| &work.to) {
                if pulls && !found.contains(&to) && to < self.elements.len() {
                    found.push(to);
                    next.push(to);
                }
            }
        }
        found
    }
}

/// Whether a drop reason says that a receive ring was full.
pub(crate) fn is_ring_full(reason: &str) -> bool {
    reason == "receive: ring full"
}
