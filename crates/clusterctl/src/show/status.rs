//! `valiant cluster status`.

use super::interval::{FLOWLETS, Interval, Total, c_of, c_text, flowlets_json, short};
use super::view::{View, linked, observe};
use crate::args::ShowArgs;
use launch::Failure;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

fn status_text(view: &View<'_>) -> String {
    let answering = view.nodes.iter().filter(|(_, a)| a.is_ok()).count();
    let mut text = format!("{}: {answering} of {} nodes answer\n", view.cluster.name, view.nodes.len());
    let _ = writeln!(
        text,
        "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9} {:>10}",
        "node", "links", "in/s", "out/s", "transit/s", "c", "work", "drops/s", "drops"
    );
    let mut notes = String::new();
    let mut digests: Vec<&str> = Vec::new();
    let mut total = Total::default();
    for (node, answer) in &view.nodes {
        let interval = match answer {
            Ok(pair) => Interval::new(pair),
            Err(problem) => {
                let _ = writeln!(text, "{:>5}  {problem}", node.id);
                continue;
            }
        };
        for line in &interval.now.stuck {
            let mut fields =
                line.splitn(3, '\t').map(str::to_owned).chain(std::iter::repeat_with(String::new));
            let mut field = || fields.next().unwrap_or_default();
            let (worker, seconds) = (field(), field());
            let _ =
                writeln!(notes, "node {}: worker {worker} is stuck in {} for {seconds} s", node.id, field());
        }
        let (mut up, mut all) = (0, 0);
        for link in interval.links().filter(|l| linked(view, node, l.peer)) {
            all += 1;
            up += usize::from(link.up);
            if !link.up || !link.words.is_empty() {
                let down = if link.up { "" } else { " is down" };
                let why = if link.words.is_empty() { String::new() } else { format!(": {}", link.words) };
                let _ = writeln!(notes, "link {} - {}{down}{why}", node.id, link.peer);
            }
        }
        total.add(&interval);
        let _ = writeln!(
            text,
            "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6.2} {:>9} {:>10}",
            node.id,
            format!("{up}/{all}"),
            short(interval.handled("input", "packets")),
            short(interval.handled("output", "packets")),
            short(interval.handled("transit", "packets")),
            c_text(interval.work()),
            interval.load(),
            short(interval.drops()),
            interval.now.dropped()
        );
        digests.push(interval.now.status["digest"].as_str().unwrap_or_default());
    }
    let _ = writeln!(
        text,
        "{:>5} {:>7} {:>9} {:>9} {:>9} {:>6} {:>6} {:>9} {:>10}",
        "all",
        "",
        short(total.rates[0]),
        short(total.rates[1]),
        short(total.rates[2]),
        c_text(total.work),
        "",
        short(total.drops_pps),
        total.dropped
    );
    if total.flowlets.iter().any(|rate| *rate > 0.0) {
        let parts: Vec<String> = (FLOWLETS.iter().zip(total.flowlets))
            .map(|((_, words), rate)| format!("{} {words}", short(rate)))
            .collect();
        let _ = writeln!(text, "flowlets, packets per second: {}", parts.join(", "));
    }
    if digests.windows(2).any(|pair| pair[0] != pair[1]) {
        notes += "the nodes do not run the same configuration; `valiant cluster apply` gives them that of the file\n";
    }
    text + &etcd_text(view) + &notes
}

/// The state of etcd, as lines of text.
fn etcd_text(view: &View<'_>) -> String {
    let (revision, members) = match &view.etcd {
        None => return String::new(),
        Some(Err(problem)) => return format!("{problem}\n"),
        Some(Ok(there)) => there,
    };
    let mut text = match revision {
        0 => "etcd: no configuration".to_owned(),
        revision => format!("etcd: configuration of revision {revision}"),
    };
    let present: Vec<String> = members.iter().map(|m| format!("{} ({})", m.node, m.host)).collect();
    let missing: Vec<String> = (view.cluster.present().map(|node| node.id))
        .filter(|id| members.iter().all(|m| m.node != *id))
        .map(|id| id.to_string())
        .collect();
    for (what, list) in [("present", present), ("missing", missing)] {
        if !list.is_empty() {
            let _ = write!(text, "; {what}: {}", list.join(", "));
        }
    }
    text.push('\n');
    for member in members.iter().filter(|m| m.revision != *revision) {
        let has = match member.revision {
            0 => "the configuration of its file".to_owned(),
            revision => format!("revision {revision}"),
        };
        let _ = writeln!(text, "etcd: node {} on {} has {has}", member.node, member.host);
    }
    for pair in members.windows(2).filter(|pair| pair[0].node == pair[1].node) {
        let _ = writeln!(
            text,
            "etcd: node {} is registered twice, on {} and on {}; a process that died stays registered for some seconds",
            pair[0].node, pair[0].host, pair[1].host
        );
    }
    text
}

fn etcd_json(view: &View<'_>) -> Value {
    match &view.etcd {
        None => Value::Null,
        Some(Err(problem)) => json!({"problem": problem}),
        Some(Ok((revision, members))) => {
            let members: Vec<Value> = members
                .iter()
                .map(
                    |m| json!({"node": m.node, "host": m.host, "session": m.session, "revision": m.revision}),
                )
                .collect();
            json!({"revision": revision, "members": members})
        }
    }
}

fn status_json(view: &View<'_>) -> Value {
    let nodes: Vec<Value> = view
        .nodes
        .iter()
        .map(|(node, answer)| match answer {
            Err(problem) => json!({"node": node.id, "up": false, "problem": problem}),
            Ok(pair) => {
                let interval = Interval::new(pair);
                let links: Vec<Value> = interval
                    .links()
                    .filter(|l| linked(view, node, l.peer))
                    .map(|l| json!({"peer": l.peer, "up": l.up, "words": l.words}))
                    .collect();
                let drops: Vec<Value> = interval
                    .now
                    .drops
                    .iter()
                    .map(|(n, element, reason)| json!({"packets": n, "element": element, "reason": reason}))
                    .collect();
                json!({"node": node.id, "up": true, "links": links,
                    "in_pps": interval.handled("input", "packets"), "in_bps": 8.0 * interval.handled("input", "bytes"),
                    "out_pps": interval.handled("output", "packets"), "out_bps": 8.0 * interval.handled("output", "bytes"),
                    "transit_pps": interval.handled("transit", "packets"), "transit_bps": 8.0 * interval.handled("transit", "bytes"),
                    "c": c_of(interval.work()), "work": interval.load(), "flowlets_pps": flowlets_json(interval.flowlets()),
                    "drops_pps": interval.drops(), "dropped": interval.now.dropped(), "drops": drops, "stuck": interval.now.stuck, "status": interval.now.status})
            }
        })
        .collect();
    let mut total = Total::default();
    view.nodes.iter().flat_map(|(_, answer)| answer).for_each(|pair| total.add(&Interval::new(pair)));
    let all = json!({"in_pps": total.rates[0], "out_pps": total.rates[1], "transit_pps": total.rates[2],
        "c": c_of(total.work), "flowlets_pps": flowlets_json(total.flowlets), "drops_pps": total.drops_pps, "dropped": total.dropped});
    json!({"name": view.cluster.name, "nodes": nodes, "all": all, "etcd": etcd_json(view)})
}

/// `valiant cluster status`.
pub(crate) fn status(args: &ShowArgs) -> Result<ExitCode, Failure> {
    observe(args, true, status_text, status_json)
}
