//! What was found of a device, as text and as JSON.

use super::score::Score;
use dpdk::nic::{Nic, Said, Tried, Way};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The longest reason in a table.
const LONGEST: usize = 60;

fn way(way: Way) -> &'static str {
    match way {
        Way::Back => "what the port sends comes back",
        Way::Interface => "by the Linux interface that belongs to the port",
        Way::None => "there is no way to send one to it, so nothing can be seen to work",
        Way::Forbidden => "none are sent (--no-frames), so nothing can be seen to work",
    }
}

fn short(tried: &Tried) -> &'static str {
    match tried {
        Tried::Yes(_) => "yes",
        Tried::No(_) => "no",
        Tried::Not(_) => "-",
    }
}

fn why(tried: &Tried) -> &str {
    match tried {
        Tried::Yes(why) | Tried::No(why) | Tried::Not(why) => why,
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 3).chain("...".chars()).collect()
}

pub(super) fn text(nic: &Nic, score: &Score) -> String {
    let mut t = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(t, "port      {}", nic.port);
    let _ = writeln!(t, "driver    {}", nic.driver);
    if !nic.firmware.is_empty() {
        let _ = writeln!(t, "firmware  {}", nic.firmware);
    }
    let _ = writeln!(t, "address   {}", lang::args::EtherAddr(nic.mac));
    if let Some(node) = nic.numa_node {
        let _ = writeln!(t, "NUMA node {node}");
    }
    let _ = writeln!(t, "frames    {}", way(nic.way));
    for note in &nic.notes {
        let _ = writeln!(t, "note      {note}");
    }
    let _ =
        writeln!(t, "\n{:30} {:10} {:8} {:5} what was found", "ability", "advertised", "accepted", "seen");
    let mut area = "";
    for ability in &nic.abilities {
        if ability.area != area {
            area = ability.area;
            let _ = writeln!(t, "{area}");
        }
        let (said, how_much) = match &ability.advertised {
            Said::Yes(text) => ("yes", text.as_str()),
            Said::No => ("no", ""),
            Said::Nothing => ("-", ""),
        };
        let seen = if matches!(ability.seen, Tried::Not(_)) { "" } else { why(&ability.seen) };
        let accepted = if matches!(ability.accepted, Tried::Not(_)) { "" } else { why(&ability.accepted) };
        let found: Vec<&str> =
            [how_much, accepted, seen].into_iter().filter(|text| !text.is_empty()).collect();
        let line = format!(
            "  {:28} {said:10} {:8} {:5} {}",
            ability.name,
            short(&ability.accepted),
            short(&ability.seen),
            cut(&found.join("; "))
        );
        let _ = writeln!(t, "{}", line.trim_end());
    }
    if !nic.knobs.is_empty() {
        let _ = writeln!(t, "\n{:30} can be changed", "setting");
    }
    for knob in &nic.knobs {
        let when = if knob.live.works() {
            "while the port runs".to_owned()
        } else if knob.stopped.works() {
            format!("while it is stopped ({})", cut(why(&knob.live)))
        } else {
            format!("no: {}", cut(why(&knob.live)))
        };
        let _ = writeln!(t, "  {:28} {when}", knob.name);
    }
    let _ = writeln!(t, "\nfor a parallel router: {} of {} points", score.points(), score.most());
    for wish in &score.wishes {
        let _ = writeln!(t, "  {} {:38} {}", wish.points, wish.name, cut(&wish.reason));
    }
    t
}

pub(super) fn json(nic: &Nic, score: &Score) -> Value {
    let tried = |tried: &Tried| match tried {
        Tried::Yes(what) => json!({"works": true, "what": what}),
        Tried::No(why) => json!({"works": false, "reason": why}),
        Tried::Not(why) => json!({"works": null, "reason": why}),
    };
    let abilities: Vec<Value> = (nic.abilities.iter())
        .map(|ability| {
            let advertised = match &ability.advertised {
                Said::Yes(what) => json!({"says": true, "what": what}),
                Said::No => json!({"says": false}),
                Said::Nothing => json!({"says": null}),
            };
            json!({"area": ability.area, "name": ability.name, "advertised": advertised,
                "accepted": tried(&ability.accepted), "seen": tried(&ability.seen)})
        })
        .collect();
    let knobs: Vec<Value> = (nic.knobs.iter())
        .map(|knob| json!({"name": knob.name, "live": tried(&knob.live), "stopped": tried(&knob.stopped)}))
        .collect();
    let wishes: Vec<Value> = (score.wishes.iter())
        .map(|wish| json!({"name": wish.name, "points": wish.points, "reason": wish.reason}))
        .collect();
    let frames = match nic.way {
        Way::Back => "back",
        Way::Interface => "interface",
        Way::None => "none",
        Way::Forbidden => "forbidden",
    };
    json!({
        "port": nic.port,
        "driver": nic.driver,
        "dpdk": dpdk::dpdk_version(),
        "firmware": (!nic.firmware.is_empty()).then_some(&nic.firmware),
        "choice": nic.choice,
        "mac": lang::args::EtherAddr(nic.mac).to_string(),
        "numa_node": nic.numa_node,
        "frames": frames,
        "abilities": abilities,
        "settings": knobs,
        "score": {"points": score.points(), "most": score.most(), "wishes": wishes},
        "notes": nic.notes,
    })
}
