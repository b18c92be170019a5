//! A worker that is busy all the time: which of its work, and why it does all of it.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, Work, Worker};
use crate::losses::at_rings;
use crate::reading::Role;
use crate::words::{bytes, listed, packets, percent, rate};
use crate::workers::{called, most_costly, saturated};

/// Bursts of up to so many packets are short.
const SHORT: u64 = 8;
/// A worker with less to do than this part of what another one has could take some of it.
const IDLER: f64 = 0.6;
/// The part of all time that goes into packets that are dropped later, from which on it is told.
const WASTED: f64 = 0.05;

/// The cycles of an element for each packet, in words.
fn cost(work: &Work, worker: usize, share: f64) -> String {
    let counters = work.on(worker);
    let per_packet = counters.map_or(0.0, |c| c.cycles as f64 / c.handled().max(1) as f64);
    format!(
        "{} ({}) takes {} of its cycles, {per_packet:.0} for each packet",
        work.name,
        work.class,
        percent(share)
    )
}

/// A finding about a worker that is busy all the time.
pub(crate) fn busy(interval: &Interval) -> Option<Finding> {
    let worker = *saturated(interval).first()?;
    let (work, share) = most_costly(interval, worker.number)?;
    let found = burst(interval, worker, work, share)
        .or_else(|| imbalance(interval, worker))
        .or_else(|| memory(worker, work, share))
        .unwrap_or_else(|| core(interval, worker, work));
    let mut found =
        found.shown_by(format!("{} is busy in {} of the time", called(worker), percent(worker.busy)));
    found = found.shown_by(cost(work, worker.number, share));
    found = at_rings(interval).into_iter().fold(found, Finding::shown_by);
    let wasted: u64 = interval.elements.iter().map(|w| w.sum.wasted_cycles).sum();
    let share = wasted as f64 / interval.cycles / interval.workers.len().max(1) as f64;
    if share >= WASTED {
        let lost: u64 = interval.elements.iter().map(|w| w.sum.wasted_packets).sum();
        found = found.shown_by(format!(
            "{} of all time goes into {} that are dropped later because a queue is full",
            percent(share),
            packets(lost)
        ));
    }
    Some(found)
}

fn burst(interval: &Interval, worker: &Worker, costly: &Work, share: f64) -> Option<Finding> {
    // Something else costs more than what is done once for each burst.
    if share >= 0.6 && !matches!(costly.role, Role::Source | Role::Sink) {
        return None;
    }
    let source = interval.elements.iter().find(|work| {
        let short = work.burst.is_some_and(|burst| burst <= SHORT);
        work.role == Role::Source && short && work.on(worker.number).is_some_and(|c| c.emissions > 0)
    })?;
    let burst = source.burst?;
    let of = if burst == 1 { "one packet".to_owned() } else { format!("{burst} packets") };
    let sentence = format!(
        "{} ({}) takes bursts of {of}: the work for each burst counts for most",
        source.name, source.class
    );
    Some(
        Finding::new(Kind::Burst, source.name.clone(), sentence)
            .shown_by(format!("{:.1} packets in a burst on average", source.sum.batch()))
            .advise("a `BURST` of 32 or 64 (or none, for the default), and `valiant run --burst`"),
    )
}

fn imbalance(interval: &Interval, worker: &Worker) -> Option<Finding> {
    let others: Vec<&Worker> =
        interval.workers.iter().filter(|other| other.number != worker.number).collect();
    let idle: Vec<usize> = others.iter().filter(|o| o.load < IDLER * worker.load).map(|o| o.number).collect();
    if others.is_empty() || 2 * idle.len() < others.len() {
        return None;
    }
    let on = |work: &Work, number: usize| work.on(number).map_or(0, |c| c.handled());
    let rates: Vec<u64> = interval
        .workers
        .iter()
        .map(|w| interval.elements.iter().filter(|e| e.role == Role::Source).map(|e| on(e, w.number)).sum())
        .collect();
    let per_worker = || {
        let rates = rates
            .iter()
            .enumerate()
            .map(|(n, packets)| format!("worker {n} {}", rate(*packets, interval.seconds)));
        format!("received: {}", rates.collect::<Vec<_>>().join(", "))
    };
    let sentence = format!(
        "worker {} has more to do than it can, while worker {} could do more",
        worker.number,
        listed(&idle)
    );
    let finding = Finding::new(Kind::Imbalance, format!("worker {}", worker.number), sentence);
    // What only this worker does.
    let alone: Vec<&Work> = (interval.elements.iter())
        .filter(|work| work.on(worker.number).is_some_and(|c| c.cycles > 0))
        .filter(|work| interval.workers.iter().all(|w| w.number == worker.number || on(work, w.number) == 0))
        .collect();
    let source =
        interval.elements.iter().find(|work| work.role == Role::Source && on(work, worker.number) > 0);
    let polls_alone = source.is_some_and(|work| {
        work.polls.get(worker.number).is_some_and(|queues| *queues > 0)
            && work.polls.iter().enumerate().all(|(n, queues)| n == worker.number || *queues == 0)
    });
    let queues =
        source.and_then(|work| interval.ports.iter().find(|port| Some(&port.name) == work.port.as_ref()));
    let handed = interval.elements.iter().any(|work| {
        let polls = |number: usize| work.polls.get(number).is_some_and(|queues| *queues > 0);
        !work.polls.is_empty() && !polls(worker.number) && idle.iter().any(|number| polls(*number))
    });
    if handed {
        return Some(
            finding
                .shown_by("the others receive packets and give them to this one")
                .advise("`--placement parallel`, in which each worker does all of it; or more workers"),
        );
    }
    Some(match (polls_alone, source) {
        (true, Some(source)) => {
            let queues = queues.map_or(1, |port| port.rx_queues);
            finding
                .shown_by(format!("{} has {} receive {}, which it polls alone", source.port.as_deref().unwrap_or(&source.name), queues, if queues == 1 { "queue" } else { "queues" }))
                .shown_by(per_worker())
                .advise("a port with a receive queue for each worker (`ethtool -L NAME combined N`, a veth pair with `numrxqueues N`); or less work before the first queue of the configuration")
        }
        _ if source.is_none() && !alone.is_empty() => {
            let names: Vec<&str> = alone.iter().map(|work| work.name.as_str()).take(4).collect();
            finding
                .shown_by(format!("only this worker runs {}", names.join(", ")))
                .advise("spread these elements over workers: bind them to none, or to others; `valiant plan-cores` shows what does not run in parallel, and why")
        }
        _ => finding
            .shown_by(per_worker())
            .advise("more flows, or flows of more even size: each flow stays on one receive queue, for its order")
            .advise("the NIC's hash: does it use what distinguishes your flows? `ethtool -n NAME rx-flow-hash udp4`; `RSS` of the element that receives"),
    })
}

fn memory(worker: &Worker, work: &Work, share: f64) -> Option<Finding> {
    let cache = worker.cache_bytes?;
    if work.working_set <= cache || share < 0.3 {
        return None;
    }
    let sentence = format!(
        "{} ({}) waits for memory: what it reads does not fit into the processor's caches",
        work.name, work.class
    );
    Some(
        Finding::new(Kind::Memory, work.name.clone(), sentence)
            .shown_by(format!("it reads {} at random places, the last-level cache has {}", bytes(work.working_set), bytes(cache)))
            .advise("a processor with a larger cache, hugepages, or a smaller table; `valiant bench host` shows what memory allows")
            .advise("more workers (`-j`): each waits for itself"),
    )
}

fn core(interval: &Interval, worker: &Worker, work: &Work) -> Finding {
    let busy = saturated(interval).len();
    let all = interval.workers.len();
    let sentence = if busy > 1 {
        format!("{busy} of {all} workers are busy all the time, most with {} ({})", work.name, work.class)
    } else {
        format!("worker {} is busy all the time, most with {} ({})", worker.number, work.name, work.class)
    };
    let finding = Finding::new(Kind::Core, format!("worker {}", worker.number), sentence);
    let more = format!(
        "more workers (`-j {}`), if there are free processors, and a receive queue for each",
        all + 1
    );
    finding
        .advise(more)
        .advise(format!("less work in {}; `valiant stats` shows what each element costs", work.name))
}
