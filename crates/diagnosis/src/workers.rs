//! What workers wait for, and which are busy all the time.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, Work, Worker};
use crate::losses::{at_rings, is_no_room};
use crate::words::{listed, percent};

/// The part of the time for which a worker that is busy all the time works: some is lost between the runs.
const ALL_THE_TIME: f64 = 0.9;
/// What others take of a worker's time, so that it is what limits the router.
const MUCH: f64 = 0.2;
/// The part of its time that a worker waits for locks, from which on they are what limits the router.
const WAITING: f64 = 0.1;
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

pub(crate) fn called(worker: &Worker) -> String {
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
    // Where another worker is busy all the time, one with time left is not what limits the router.
    let spared = !starves && worker.load < ALL_THE_TIME && !saturated(interval).is_empty();
    if lost(worker) < least || !has_work || (spared && least >= MUCH) {
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
pub(crate) fn most_costly(interval: &Interval, worker: usize) -> Option<(&Work, f64)> {
    let cycles = |work: &Work| work.on(worker).map_or(0, |c| c.cycles);
    let all: u64 = interval.elements.iter().map(cycles).sum();
    let work = interval.elements.iter().max_by_key(|work| cycles(work))?;
    (all > 0).then(|| (work, cycles(work) as f64 / all as f64))
}
