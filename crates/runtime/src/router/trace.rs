//! The handlers `trace` and `trace.json`: the ways of single packets through the elements, with times and
//! workers (`valiant trace`).

use super::Router;
use crate::cx::{Event, Head, Trace, Wanted, What};
use crate::handler::HandlerError;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The most packets that are traced at once.
const MOST: u32 = 1000;
/// For how long packets are marked if nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was asked for: `PACKETS [every N] [at ELEMENT] [for SECONDS]`; 0 packets end it.
fn parsed(router: &Router, text: &str) -> Result<Wanted, String> {
    let mut words = text.split_whitespace();
    let usage = || "expected 'PACKETS [every N] [at ELEMENT] [for SECONDS]'".to_owned();
    let packets: u32 = words.next().unwrap_or("0").parse().map_err(|_| usage())?;
    if packets > MOST {
        return Err(format!("at most {MOST} packets are traced at once"));
    }
    let mut wanted = Wanted { packets, every: 1, at: None, until: Instant::now() + PATIENCE };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(usage)?;
        match word {
            "every" => wanted.every = value.parse().ok().filter(|n| *n > 0).ok_or_else(usage)?,
            "at" => {
                let id = router.find("", value).ok_or_else(|| format!("no element named '{value}'"))?;
                wanted.at = Some(id.0);
            }
            "for" => {
                let seconds = value.parse().ok().filter(|s| (0.0..=86_400.0).contains(s));
                wanted.until = Instant::now() + Duration::from_secs_f64(seconds.ok_or_else(usage)?);
            }
            _ => return Err(usage()),
        }
    }
    Ok(wanted)
}

/// Has all workers trace so many packets, in place of what they traced before.
pub(super) fn start(router: &mut Router, text: &str) -> Result<(), HandlerError> {
    let wanted = parsed(router, text).map_err(HandlerError::Failed)?;
    let workers = router.options().workers.max(1);
    for worker in 0..workers {
        let trace = (wanted.packets > 0).then(|| Box::new(Trace::new(wanted.until)));
        router.on_worker(worker, move |w| w.core.trace = trace)?;
    }
    // When all record, so that no packet comes to a worker that does not.
    for worker in 0..workers {
        let wanted = wanted.clone();
        router.on_worker(worker, move |w| {
            w.core.trace.iter_mut().for_each(|trace| trace.want(wanted.clone()))
        })?;
    }
    Ok(())
}

/// A packet, and what happened to it.
struct Way {
    head: Head,
    events: Vec<(usize, Event)>,
    /// It has left, or was dropped.
    ended: bool,
}

/// Which events belong to one packet: an mbuf is another packet when it begins again.
fn ways(router: &Router, events: Vec<(usize, Event)>) -> Vec<Way> {
    let mut all: Vec<Way> = Vec::new();
    let mut of: HashMap<usize, usize> = HashMap::new();
    for (worker, event) in events {
        // Where nothing leaves, a packet ends, but may still be dropped there.
        if let What::Begins(head) = &event.what {
            of.insert(event.packet, all.len());
            all.push(Way { head: head.clone(), events: Vec::new(), ended: false });
        }
        let Some(way) = of.get(&event.packet).and_then(|at| all.get_mut(*at)) else { continue };
        let element = router.elements().get(event.slot as usize);
        way.ended = match &event.what {
            What::Dropped(_) => true,
            What::Enters(_) => element.is_some_and(|element| element.n_outputs == 0),
            What::PulledBy(by) => router.elements().get(*by as usize).is_some_and(|by| by.n_outputs == 0),
            What::Begins(..) => false,
        };
        if matches!(event.what, What::Dropped(_)) {
            of.remove(&event.packet);
        }
        way.events.push((worker, event));
    }
    all
}

/// The packets that were traced since [`start`].
pub(super) fn json(router: &mut Router) -> Result<String, HandlerError> {
    let (mut events, mut lost, mut tracing) = (Vec::new(), 0, false);
    for worker in 0..router.options().workers.max(1) {
        let mut at = 0;
        // A worker that copies all at once would keep its packets waiting.
        while let Some((some, not)) =
            router.on_worker(worker, move |w| Some(w.core.trace.as_ref()?.some(at)))?
        {
            tracing = true;
            at += some.len();
            let done = some.len() < Trace::SOME;
            events.extend(some.into_iter().map(|event| (worker, event)));
            if done {
                lost += not;
                break;
            }
        }
    }
    events.sort_by_key(|(_, event)| event.cycles);
    let ways: Vec<Value> = ways(router, events).iter().map(|way| shown(router, way)).collect();
    Ok(format!(
        "{}\n",
        json!({"cycles_per_second": dpdk::cycles_per_second(), "tracing": tracing, "lost_events": lost, "packets": ways})
    ))
}

fn shown(router: &Router, way: &Way) -> Value {
    let name = |slot: u32| router.elements().get(slot as usize).map_or("-", |element| &element.name);
    let class = |slot: u32| router.elements().get(slot as usize).map_or("-", |element| element.class);
    let event = |(worker, event): &(usize, Event)| {
        let mut one = json!({
            "cycles": event.cycles, "worker": worker, "element": name(event.slot), "class": class(event.slot),
            "burst": event.burst,
        });
        match &event.what {
            What::Begins(..) => one["what"] = "begins".into(),
            What::Enters(port) => (one["what"], one["input"]) = ("enters".into(), (*port).into()),
            What::PulledBy(by) => (one["what"], one["by"]) = ("is pulled".into(), name(*by).into()),
            What::Dropped(reason) => (one["what"], one["reason"]) = ("is dropped".into(), (*reason).into()),
        }
        one
    };
    let head = way.head.bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let events: Vec<Value> = way.events.iter().map(event).collect();
    json!({"bytes": way.head.length, "head": head, "ended": way.ended, "events": events})
}
