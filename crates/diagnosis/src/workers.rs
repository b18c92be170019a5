//! Workers that are busy all the time, and why.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, Work, Worker};
use crate::losses::{at_rings, is_no_room};
use crate::reading::Role;
use crate::words::{bytes, listed, packets, percent, rate};

/// The part of the time for which a worker that is busy all the time works: some is lost between the runs.
const ALL_THE_TIME: f64 = 0.9;
/// What others take of a worker's time, so that it is what limits the router.
const MUCH: f64 = 0.2;
/// The part of its time that a worker waits for locks, from which on they are what limits the router.
const WAITING: f64 = 0.1;
/// The part of all time that goes into packets that are dropped later, from which on it is told.
const WASTED: f64 = 0.05;
/// A worker with less to do than this part of what another one has could take some of it.
const IDLER: f64 = 0.6;
/// Bursts of up to so many packets are short.
const SHORT: u64 = 8;
/// The part of the time, or of the readings, from which on something is so for long.
const LONG: f64 = 0.3;

/// Workers that do not finish, although they have a processor.
pub(crate) fn stuck(interval: &Interval) -> Option<Finding> {
    let with_processor = interval.workers.iter().filter(|worker| worker.waited < 0.5);
    let (worker, (element, seconds)) =
        with_processor.into_iter().find_map(|worker| Some((worker, worker.stuck.as_ref()?)))?;
    let sentence = format!("worker {} is stuck in {element} for {seconds} s", worker.number);
    Some(
        Finding::new(Kind::Stuck, name_of(element), sentence)
            .shown_by("it has finished no round of its tasks since; packets for it are lost")
            .advise("the element waits for something outside (a file, a pipe, a socket), or does not end. Restart the router; if it was not an element of your own, report it"),
    )
}

/// The name of an element in a message of the watchdog: `'NAME :: CLASS'`.
fn name_of(element: &str) -> Option<String> {
    element.trim_matches('\'').split(" :: ").next().map(str::to_owned)
}

/// Workers that sleep in the middle of a batch.
pub(crate) fn blocked(interval: &Interval) -> Option<Finding> {
    let sleeper = |worker: &Worker| worker.blocked.as_ref().map_or(0.0, |(_, share)| *share);
    let worker = interval.workers.iter().max_by(|a, b| sleeper(a).total_cmp(&sleeper(b)))?;
    let (element, share) = worker.blocked.as_ref().filter(|(_, share)| *share >= LONG)?;
    let sentence = format!("{} waits in {element} for something outside the router", called(worker));
    let finding = Finding::new(Kind::Blocked, name_of(element), sentence)
        .shown_by(format!("it slept there in the middle of a batch at {} of the readings", percent(*share)))
        .shown_by(format!("it worked in {} of the time", percent(worker.busy)));
    let finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    Some(finding.advise("whoever reads its file, pipe or socket, or the disk that it writes to, is too slow; or let another worker do that, behind a queue"))
}

/// Whether more comes than the worker takes: something is lost on the way to it, or it always finds full
/// bursts.
fn has_more(interval: &Interval, worker: usize) -> bool {
    let lost = |work: &Work| work.on(worker).is_some_and(|c| c.dropped(is_no_room) > 0);
    let full_bursts = |work: &Work| {
        let burst = work.burst.unwrap_or(1) as f64;
        work.begins() && work.on(worker).is_some_and(|c| c.emissions > 0 && c.batch() >= 0.8 * burst)
    };
    let all = || interval.elements.iter();
    interval.missed() > 0 || all().any(|work| lost(work) || full_bursts(work)) || is_behind(interval, worker)
}

/// Whether it takes packets from a queue that is full, or was all the time not empty.
fn is_behind(interval: &Interval, worker: usize) -> bool {
    let is_long = |work: &Work| {
        work.capacity.is_some()
            && (work.sum.dropped(is_no_room) > 0 || work.full >= LONG || work.shortest > Some(0))
    };
    let pulls = |at: &usize| {
        interval.elements.get(*at).and_then(|work| work.on(worker)).is_some_and(|c| c.cycles > 0)
    };
    let mut queues = interval.elements.iter().enumerate().filter(|(_, work)| is_long(work));
    queues.any(|(at, _)| interval.pullers(at).iter().any(pulls))
}

/// The workers that are busy all the time; those that others wait for come first.
pub(crate) fn saturated(interval: &Interval) -> Vec<&Worker> {
    let full = |worker: &&Worker| worker.load >= ALL_THE_TIME && has_more(interval, worker.number);
    let mut all: Vec<(bool, &Worker)> = (interval.workers.iter().filter(full))
        .map(|worker| (is_behind(interval, worker.number), worker))
        .collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.load.total_cmp(&a.1.load)));
    all.into_iter().map(|(_, worker)| worker).collect()
}

/// A router that gets no more of the threads that it shares with others.
pub(crate) fn share(interval: &Interval) -> Option<Finding> {
    let worker = interval.workers.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    let runs_dry = worker.empty > 0.1 * worker.busy;
    if !interval.shares_threads || worker.busy < MUCH / 4.0 || runs_dry || !has_more(interval, worker.number)
    {
        return None;
    }
    let sentence = format!(
        "the router has {} of {}, which it shares with others, and could use more",
        percent(worker.busy),
        called(worker)
    );
    Some(
        Finding::new(Kind::Share, format!("worker {}", worker.number), sentence)
            .shown_by(format!("it looked for packets in vain in {} of the time", percent(worker.empty)))
            .advise("a larger `share` in the host file; `valiant vr top` shows what is due to each router, and why it does not get more"),
    )
}

fn called(worker: &Worker) -> String {
    worker.cpu.map_or_else(
        || format!("worker {}", worker.number),
        |cpu| format!("worker {} (on CPU {cpu})", worker.number),
    )
}

/// Others on the processor of a worker that has work.
pub(crate) fn processor(interval: &Interval) -> Option<Finding> {
    processor_if(interval, MUCH)
}

/// The same where they do not take enough to be what limits the router.
pub(crate) fn processor_a_little(interval: &Interval) -> Option<Finding> {
    processor_if(interval, MUCH / 4.0).filter(|_| processor(interval).is_none())
}

fn processor_if(interval: &Interval, least: f64) -> Option<Finding> {
    let lost = |worker: &Worker| worker.waited + worker.stolen;
    let worker = interval.workers.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    // One that hardly runs has nothing that could be seen to be waiting.
    let some = || {
        interval.entered() > 0
            || interval.missed() > 0
            || interval.elements.iter().any(|work| work.shortest > Some(0))
    };
    let starves = worker.waited >= 0.5 && some();
    let has_work = starves || (worker.load >= MUCH && has_more(interval, worker.number));
    if lost(worker) < least || !has_work {
        return None;
    }
    let beside: Vec<usize> = (interval.workers.iter())
        .filter(|other| !worker.may_use_cpus.is_empty() && other.may_use_cpus == worker.may_use_cpus)
        .map(|other| other.number)
        .collect();
    let room = processors(&worker.may_use_cpus);
    if beside.len() > room && !interval.shares_threads {
        let sentence = format!(
            "workers {} share {}",
            listed(&beside),
            if room == 1 { "one processor".to_owned() } else { format!("{room} processors") }
        );
        return Some(
            Finding::new(Kind::Processor, format!("worker {}", worker.number), sentence)
                .shown_by(format!(
                    "worker {} was ready and waited for a processor in {} of the time",
                    worker.number,
                    percent(worker.waited)
                ))
                .advise(format!(
                    "at most as many workers as processors (`-j {room}`), or more processors (`--cpus`)"
                )),
        );
    }
    let who = if worker.stolen > worker.waited { "other virtual machines" } else { "other programs" };
    let sentence = format!("{who} use the processor of {}", called(worker));
    let mut finding = Finding::new(Kind::Processor, format!("worker {}", worker.number), sentence);
    if worker.waited >= 0.01 {
        finding = finding.shown_by(format!(
            "it was ready and waited for a processor in {} of the time",
            percent(worker.waited)
        ));
    }
    if worker.stolen >= 0.01 {
        finding = finding.shown_by(format!(
            "the hypervisor gave its processor to others in {} of the time",
            percent(worker.stolen)
        ));
    }
    finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    finding = if interval.shares_threads {
        finding.advise("the host's processors are others' too: tell whoever runs it")
    } else if room == 1 {
        finding.advise(format!(
            "keep others off CPU {} (`isolcpus`, cpusets, `taskset`), or give the worker another one (`--cpus`)",
            worker.may_use_cpus
        ))
    } else {
        finding.advise("a processor for each worker: `valiant run --cpus auto`, and nothing else on these (`isolcpus`, cpusets)")
    };
    Some(if worker.stolen >= 0.01 {
        finding.advise("virtual processors that are pinned, on a host that is not overbooked")
    } else {
        finding
    })
}

/// How many processors a list such as `0-3,6` has.
fn processors(list: &str) -> usize {
    let count = |part: &str| -> usize {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first
            .trim()
            .parse()
            .ok()
            .zip(last.trim().parse().ok())
            .map_or(0, |(a, b): (usize, usize)| (b + 1).saturating_sub(a))
    };
    list.split(',').map(count).sum()
}

/// Workers that wait for locks.
pub(crate) fn lock(interval: &Interval) -> Option<Finding> {
    let worker = interval.workers.iter().max_by(|a, b| a.locked.total_cmp(&b.locked))?;
    if worker.locked < WAITING {
        return None;
    }
    let waiting: Vec<usize> =
        interval.workers.iter().filter(|w| w.locked >= WAITING / 2.0).map(|w| w.number).collect();
    let mut finding = Finding::new(
        Kind::Lock,
        format!("worker {}", worker.number),
        format!("workers {} wait for each other's locks", listed(&waiting)),
    );
    for worker in interval.workers.iter().filter(|w| w.locked >= WAITING / 2.0) {
        finding = finding.shown_by(format!(
            "worker {} waited {} times, in {} of the time",
            worker.number,
            worker.lock_waits,
            percent(worker.locked)
        ));
    }
    if let Some((work, share)) = most_costly(interval, worker.number) {
        finding = finding.shown_by(format!(
            "worker {} spends {} of its cycles in {} ({})",
            worker.number,
            percent(share),
            work.name,
            work.class
        ));
    }
    Some(finding.advise("a transmit queue for each worker, and no queue or table of addresses that workers change in common: `valiant plan-cores` shows who shares what"))
}

/// The element in which a worker spends the most cycles, and their share of all that are spent on packets.
fn most_costly(interval: &Interval, worker: usize) -> Option<(&Work, f64)> {
    let cycles = |work: &Work| work.on(worker).map_or(0, |c| c.cycles);
    let all: u64 = interval.elements.iter().map(cycles).sum();
    let work = interval.elements.iter().max_by_key(|work| cycles(work))?;
    (all > 0).then(|| (work, cycles(work) as f64 / all as f64))
}

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
