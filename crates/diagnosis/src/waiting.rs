//! Packets that wait: for a port that sends, for a rate, in a queue, in a receive ring.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, Port, Work};
use crate::losses::{at_rings, is_no_room};
use crate::reading::Role;
use crate::words::{packets, percent, rate, short};

/// The part of the time for which something must have been full to be what limits the router.
const LONG: f64 = 0.3;
/// The part of the time in which a rate must have held packets back to be what limits the router.
const HELD_BACK: f64 = 0.7;
/// The same where a queue before it is full, so that it always has packets: a busy worker comes late to each.
const HELD_BACK_WHILE_FULL: f64 = 0.4;
/// The bytes of preamble, frame check sequence and gap that a frame has on the wire.
const ON_THE_WIRE: u64 = 24;

/// A port that does not send as fast as packets come.
pub(crate) fn transmit(interval: &Interval) -> Option<Finding> {
    let sinks = interval.elements.iter().filter(|work| work.role == Role::Sink && work.full >= LONG);
    let work = sinks.max_by(|a, b| a.full.total_cmp(&b.full))?;
    let name = work.port.as_ref().unwrap_or(&work.name);
    let port = interval.ports.iter().find(|port| Some(&port.name) == work.port.as_ref());
    let mut finding = Finding::new(
        Kind::Transmit,
        name.clone(),
        format!("the port {name} does not send as fast as packets come for it"),
    )
    .shown_by(format!(
        "{} ({}) had no room for more in {} of the time",
        work.name,
        work.class,
        percent(work.full)
    ));
    if let Some(port) = port {
        finding = finding.shown_by(speed(port, interval.seconds));
    }
    let lost: u64 = interval.elements.iter().map(|work| work.sum.dropped(is_no_room)).sum();
    if lost > 0 {
        finding = finding.shown_by(format!("{} were dropped for lack of room", packets(lost)));
    }
    finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    Some(finding.advise("a faster port, or more of them; if the link is not full, what is behind the port: a device that is slow, a rate that somebody has set there (`tc qdisc` on Linux), or nobody who takes the packets"))
}

/// What a port sends, and of its link if that is known.
fn speed(port: &Port, seconds: f64) -> String {
    let bits = (port.sent_bytes + port.sent * ON_THE_WIRE) as f64 * 8.0 / seconds;
    let of = port.link_mbps.map_or_else(String::new, |mbps| {
        format!(", {} of its link of {}bit/s", percent(bits / (mbps as f64 * 1e6)), short(mbps as f64 * 1e6))
    });
    format!("it sends {}, {}bit/s on the wire{of}", rate(port.sent, seconds), short(bits))
}

/// The queues that were full for long, the longest first; with their numbers.
fn full_queues(interval: &Interval) -> Vec<(usize, &Work)> {
    let mut queues: Vec<(usize, &Work)> = (interval.elements.iter().enumerate())
        .filter(|(_, work)| work.capacity.is_some() && work.full >= LONG)
        .collect();
    queues.sort_by(|a, b| b.1.full.total_cmp(&a.1.full));
    queues
}

/// The queues that an element pulls from, directly or through others.
fn queues_before(interval: &Interval, element: usize) -> Vec<&Work> {
    let queues = interval.elements.iter().enumerate().filter(|(_, work)| work.capacity.is_some());
    queues.filter(|(at, _)| interval.pullers(*at).contains(&element)).map(|(_, work)| work).collect()
}

/// An element that lets no more through because the configuration says so.
pub(crate) fn rate_limit(interval: &Interval) -> Option<Finding> {
    let lost: u64 = interval.elements.iter().map(|work| work.sum.dropped(is_no_room)).sum();
    let more_comes = |queues: &[&Work]| {
        lost > 0
            || interval.missed() > 0
            || queues.iter().any(|queue| queue.full > 0.0 || queue.shortest > Some(0))
    };
    let (limit, queues) = interval.elements.iter().enumerate().find_map(|(at, work)| {
        let queues = queues_before(interval, at);
        let is_long = queues.iter().any(|queue| queue.full >= LONG || queue.shortest > Some(0));
        let enough = if is_long { HELD_BACK_WHILE_FULL } else { HELD_BACK };
        let limits = work.role == Role::RateLimit && work.full >= enough && more_comes(&queues);
        limits.then_some((work, queues))
    })?;
    let mut finding = Finding::new(
        Kind::RateLimit,
        limit.name.clone(),
        format!("{} ({}) passes on what its arguments allow, and more comes", limit.name, limit.class),
    )
    .shown_by(format!(
        "it passes on {}, and holds packets back in {} of the time",
        rate(limit.sum.handled(), interval.seconds),
        percent(limit.full)
    ));
    for queue in queues {
        finding = finding.shown_by(queued(queue));
    }
    if lost > 0 {
        finding = finding.shown_by(format!("{} were dropped for lack of room", packets(lost)));
    }
    finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    Some(
        finding.advise(format!(
            "a higher rate in the arguments of {}, if that is not what you want",
            limit.name
        )),
    )
}

/// What waits in a queue.
fn queued(queue: &Work) -> String {
    let range = match (queue.shortest, queue.longest) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (_, most) => most.unwrap_or(0).to_string(),
    };
    format!(
        "{} ({}) before it had {range} packets, of {} at most",
        queue.name,
        queue.class,
        queue.capacity.unwrap_or(0)
    )
}

/// An element that keeps packets for a time, with a queue before it that is too short for that.
pub(crate) fn delay(interval: &Interval) -> Option<Finding> {
    let (queue, delay) = full_queues(interval).into_iter().find_map(|(at, queue)| {
        let pullers = interval.pullers(at);
        let mut pullers = pullers.iter().filter_map(|at| interval.elements.get(*at));
        Some((queue, pullers.find(|work| work.role == Role::Delay)?))
    })?;
    Some(
        Finding::new(
            Kind::RateLimit,
            delay.name.clone(),
            format!(
                "{} ({}) keeps packets for a time, and {} is too short for all that come in it",
                delay.name, delay.class, queue.name
            ),
        )
        .shown_by(queued(queue))
        .shown_by(format!("{} dropped {}", queue.name, packets(queue.sum.dropped(is_no_room))))
        .advise(format!(
            "a capacity of {} of at least the packets that come in that time, or a shorter time",
            queue.name
        )),
    )
}

/// A queue from which nobody takes packets.
pub(crate) fn stopped(interval: &Interval) -> Option<Finding> {
    let switched_off = |work: &&Work| work.role == Role::Source && work.active == Some(false);
    if let Some(source) = interval.elements.iter().find(switched_off) {
        let sentence =
            format!("{} ({}) is switched off: it takes no packets from its port", source.name, source.class);
        let finding = Finding::new(Kind::Stopped, source.name.clone(), sentence);
        let finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
        return Some(
            finding
                .shown_by("its handler `active` says false")
                .advise(format!("`valiant write {}.active true`", source.name)),
        );
    }
    let waits = |work: &Work| work.capacity.is_some() && work.shortest > Some(0) && work.sum.emitted == 0;
    let (at, queue) = interval.elements.iter().enumerate().find(|(_, work)| waits(work))?;
    let names: Vec<&str> = interval
        .pullers(at)
        .iter()
        .filter_map(|at| interval.elements.get(*at))
        .map(|work| &*work.name)
        .collect();
    Some(
        Finding::new(
            Kind::Stopped,
            queue.name.clone(),
            format!("nobody takes packets from {} ({})", queue.name, queue.class),
        )
        .shown_by(format!("{} packets were in it all the time, of {} at most, and none left it", queue.shortest.unwrap_or(0), queue.capacity.unwrap_or(0)))
        .advise(format!("what is behind it ({}) is switched off (handler `active`), has reached its LIMIT, or pulls nothing for another reason", names.join(", "))),
    )
}

/// A queue that is too short: it drops packets although it is not full for long.
pub(crate) fn queue(interval: &Interval) -> Option<Finding> {
    let no_room = |work: &Work| work.sum.dropped(is_no_room);
    let queues = interval.elements.iter().filter(|work| work.capacity.is_some() && no_room(work) > 0);
    let work = queues.max_by_key(|work| no_room(work))?;
    let (lost, capacity) = (no_room(work), work.capacity?);
    Some(
        Finding::new(
            Kind::Queue,
            work.name.clone(),
            format!("{} ({}) is too short for the bursts that come", work.name, work.class),
        )
        .shown_by(format!(
            "it dropped {}, but had no room for {} of the time",
            packets(lost),
            percent(work.full)
        ))
        .shown_by(format!("it holds {capacity} packets; {} came", rate(work.sum.packets, interval.seconds)))
        .advise(format!(
            "a larger capacity of {}, or traffic that comes more evenly (at its sender)",
            work.name
        )),
    )
}

/// A receive ring that is too short: packets are lost in it although no worker is busy all the time.
pub(crate) fn receive_ring(interval: &Interval) -> Option<Finding> {
    let lost = at_rings(interval)?;
    let source = interval.elements.iter().find(|work| {
        work.role == Role::Source
            && (work.sum.dropped(crate::interval::is_ring_full) > 0
                || interval
                    .ports
                    .iter()
                    .any(|port| Some(&port.name) == work.port.as_ref() && port.missed > 0))
    });
    let at = source.map(|work| work.port.clone().unwrap_or_else(|| work.name.clone()));
    let busiest = interval.workers.iter().map(|worker| worker.busiest).fold(0.0, f64::max);
    let busy = interval.workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    Some(
        Finding::new(
            Kind::ReceiveRing,
            at.clone(),
            format!("the receive ring of {} is too short for the bursts that come", at.as_deref().unwrap_or("a port")),
        )
        .shown_by(lost)
        .shown_by(format!("the busiest worker was busy in {} of the time, {} at the most", percent(busy), percent(busiest)))
        .advise("more descriptors: `NDESC` of the element that receives; or an element that does not keep its worker for so long")
        .advise("if the bursts are longer than that: more workers"),
    )
}
