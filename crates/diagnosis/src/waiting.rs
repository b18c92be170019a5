//! Packets that wait: for a port that sends, for a rate, in a queue, in a receive ring.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, Port, Work};
use crate::losses::{at_rings, is_no_room};
use crate::reading::Role;
use crate::words::{packets, percent, rate, short};

/// The part of the time for which something must have been full to be what limits the router.
const LONG: f64 = 0.3;
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
    let lost: u64 = work.sum.dropped(is_no_room);
    if lost > 0 {
        finding = finding.shown_by(format!("{} dropped {}", work.name, packets(lost)));
    }
    finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    Some(finding.advise("a faster port, or more of them; if the link is not full, what is behind the port: a device that is slow, or nobody who takes the packets"))
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

/// An element that lets no more through because the configuration says so.
pub(crate) fn rate_limit(interval: &Interval) -> Option<Finding> {
    let (queue, limit) = full_queues(interval).into_iter().find_map(|(at, queue)| {
        let pullers = interval.pullers(at);
        let mut pullers = pullers.iter().filter_map(|at| interval.elements.get(*at));
        Some((queue, pullers.find(|work| work.role == Role::RateLimit)?))
    })?;
    let mut finding = Finding::new(
        Kind::RateLimit,
        limit.name.clone(),
        format!("{} ({}) passes on what its arguments allow, and more comes", limit.name, limit.class),
    )
    .shown_by(format!("the queue before it, {}, was full in {} of the time", queue.name, percent(queue.full)))
    .shown_by(format!("{} passes on {}", limit.name, rate(limit.sum.handled(), interval.seconds)));
    let lost = queue.sum.dropped(is_no_room);
    if lost > 0 {
        finding = finding.shown_by(format!("{} dropped {}", queue.name, packets(lost)));
    }
    finding = at_rings(interval).into_iter().fold(finding, Finding::shown_by);
    Some(finding.advise(format!("a higher rate of {}, if that is not what you want", limit.name)))
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
            "a larger capacity of {}, or traffic that comes more evenly (a Shaper at the sender)",
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
        .advise("more descriptors: `NDESC` of FromDevice; or an element that does not keep its worker for so long")
        .advise("if the bursts are longer than that: more workers"),
    )
}
