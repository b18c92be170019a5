//! What is lost, and for which kind of reason.

use crate::finding::{Finding, Kind};
use crate::interval::{Interval, is_ring_full};
use crate::words::{packets, percent, rate};

/// Drops of elements, as a part of what entered, of which nothing is said as long as something else limits
/// the router.
pub(crate) const FEW: f64 = 0.01;

/// So few packets a second are the noise that every network has, such as frames for others.
const NOISE: f64 = 100.0;

/// Whether a drop reason says that there was no room for the packet, or soon would be none (RED).
pub(crate) fn is_no_room(reason: &str) -> bool {
    reason.ends_with("full") || reason == "early drop"
}

/// Whether it says that there was no buffer for it.
pub(crate) fn is_no_buffer(reason: &str) -> bool {
    reason.starts_with("no buffer") || reason.starts_with("receive: no buffer")
}

/// What is lost at receive rings, as a sentence; nothing if nothing is.
pub(crate) fn at_rings(interval: &Interval) -> Option<String> {
    let missed = interval.missed();
    let all = missed + interval.entered();
    let ports: Vec<&str> = (interval.ports.iter())
        .filter(|port| port.missed > 0)
        .map(|port| port.name.as_str())
        .chain(
            interval
                .elements
                .iter()
                .filter(|work| work.sum.dropped(is_ring_full) > 0)
                .filter_map(|w| w.port.as_deref()),
        )
        .collect();
    let mut named: Vec<&str> = Vec::new();
    ports.into_iter().for_each(|port| {
        if !named.contains(&port) {
            named.push(port)
        }
    });
    (missed > 0).then(|| {
        format!(
            "{} were lost at the receive ring of {}: {} of what came",
            packets(missed),
            named.join(", "),
            percent(missed as f64 / all.max(1) as f64)
        )
    })
}

/// A port that does not work.
pub(crate) struct BadPort {
    /// It has disappeared.
    pub(crate) is_gone: bool,
    pub(crate) finding: Finding,
}

/// Ports that have gone, or are without a link.
pub(crate) fn ports(interval: &Interval) -> Option<BadPort> {
    let gone = |port: &&crate::interval::Port| port.state == "gone";
    let down = || interval.ports.iter().find(|port| port.state != "up");
    let port = interval.ports.iter().find(gone).or_else(down)?;
    let name = &port.name;
    let gone = port.state == "gone";
    let sentence = if gone {
        format!("the port {name} has disappeared")
    } else {
        format!("the port {name} has no link")
    };
    let lost: u64 =
        interval.elements.iter().map(|work| work.sum.dropped(|reason| reason == "port gone")).sum();
    let finding = Finding::new(Kind::Port, name.clone(), sentence).shown_by(format!(
        "received {}, sent {}",
        rate(port.received, interval.seconds),
        rate(port.sent, interval.seconds)
    ));
    let finding =
        if lost > 0 { finding.shown_by(format!("{} were dropped for it", packets(lost))) } else { finding };
    let finding = finding.advise(if gone {
        "check the device and its driver, and start the router again"
    } else {
        "check the cable and the other side; for a Linux interface: `ip link set NAME up`, on both ends of a veth pair"
    });
    Some(BadPort { is_gone: gone, finding })
}

/// No free buffers.
pub(crate) fn buffers(interval: &Interval) -> Option<Finding> {
    const SCARCE: f64 = 0.02;
    let by_elements: u64 = interval.elements.iter().map(|work| work.sum.dropped(is_no_buffer)).sum();
    let lost = by_elements + interval.ports.iter().map(|port| port.no_buffer).sum::<u64>();
    let pool = interval.pools.iter().min_by_key(|pool| pool.least_free)?;
    let scarce = (pool.least_free as f64) < SCARCE * pool.buffers as f64;
    let holder =
        interval.elements.iter().filter(|work| work.longest > Some(0)).max_by_key(|work| work.longest);
    let held = holder.and_then(|work| work.longest).unwrap_or(0);
    if lost == 0 && !(scarce && (interval.missed() > 0 || 2 * held >= pool.buffers)) {
        return None;
    }
    let mut finding = Finding::new(Kind::Buffers, None, "there are no free packet buffers")
        .shown_by(format!("{} of {} buffers were free at the least", pool.least_free, pool.buffers));
    if lost > 0 {
        finding = finding.shown_by(format!("{} were lost because no buffer was free", packets(lost)));
    }
    if let Some((work, length)) = holder.and_then(|work| Some((work, work.longest?))) {
        finding =
            finding.shown_by(format!("{} ({}) holds up to {length} of them", work.name, work.class)).advise(
                format!("a smaller capacity of {}, or whatever keeps packets in it: see below", work.name),
            );
    }
    Some(
        finding
            .advise("more memory for buffers: `valiant run --memory MB`, and hugepages (`valiant doctor`)"),
    )
}

/// The same if they are at least half of what entered.
pub(crate) fn mostly_by_rule(interval: &Interval) -> Option<Finding> {
    by_rule(interval, 0.5)
}

/// Drops for reasons that more room or more processors would not change, if there are more than `least` of
/// what entered.
pub(crate) fn by_rule(interval: &Interval, least: f64) -> Option<Finding> {
    let rule = |reason: &str| !is_no_room(reason) && !is_no_buffer(reason) && !is_ring_full(reason);
    let lost: u64 = interval.elements.iter().map(|work| work.sum.dropped(rule)).sum();
    let share = lost as f64 / interval.entered().max(lost).max(1) as f64;
    let noise = least > 0.0 && (lost as f64) < NOISE * interval.seconds;
    if lost == 0 || share < least || noise {
        return None;
    }
    let mut rows: Vec<(&str, &str, &str, u64)> = (interval.elements.iter())
        .flat_map(|work| {
            work.sum.drops.iter().map(move |(reason, n)| (&*work.name, &*work.class, &**reason, *n))
        })
        .filter(|row| rule(row.2))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.3));
    let (name, _, reason, _) = *rows.first()?;
    let sentence = format!("{} of the packets are dropped, most by {name}: {reason}", percent(share));
    let finding = Finding::new(Kind::Drops, name.to_owned(), sentence);
    let finding = rows.iter().take(5).fold(finding, |finding, (name, class, reason, n)| {
        finding.shown_by(format!("{name} ({class}): {reason}: {}", packets(*n)))
    });
    Some(finding.advise(format!(
        "`valiant element {}` says when it drops packets for this reason; `valiant trace` shows the way of such packets",
        rows.first()?.1
    )))
}
