//! `valiant cluster matrix`.

use super::interval::{Interval, short};
use super::outputs::{Output, flow, outputs_text};
use super::view::{View, observe};
use crate::args::ShowArgs;
use launch::Failure;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

fn matrix_text(view: &View<'_>) -> String {
    const WIDTH: usize = 15;
    let mut text = format!(
        "{}: packets per second from node (row) to node (column), direct + via an intermediate node\n     ",
        view.cluster.name
    );
    // No packet is for a server between the stages of a fly.
    let outer = view.cluster.joined().map_or(u16::MAX, |topology| topology.externals());
    for (node, _) in view.nodes.iter().filter(|(node, _)| node.id < outer) {
        let _ = write!(text, " {:>WIDTH$}", node.id);
    }
    let _ = writeln!(text, " {:>9}", "transit");
    for (from, answer) in &view.nodes {
        let _ = write!(text, "{:>5}", from.id);
        let interval = match answer {
            Ok(pair) => Interval::new(pair),
            Err(problem) => {
                let _ = writeln!(text, "  {problem}");
                continue;
            }
        };
        let mut transit = 0.0;
        for (to, _) in &view.nodes {
            let flow = flow(&interval, to.id);
            transit += flow.transit;
            if to.id >= outer {
                continue;
            }
            let cell = match (flow.direct, flow.via) {
                (0.0, 0.0) => ".".to_owned(),
                (direct, via) => format!("{}+{}", short(direct), short(via)),
            };
            let _ = write!(text, " {cell:>WIDTH$}");
        }
        let _ = writeln!(text, " {:>9}", short(transit));
    }
    text + &outputs_text(view, outer)
}

fn matrix_json(view: &View<'_>) -> Value {
    let mut missing = Vec::new();
    let mut rows = Vec::new();
    for (from, answer) in &view.nodes {
        match answer {
            Err(problem) => missing.push(json!({"node": from.id, "problem": problem})),
            Ok(pair) => {
                let interval = Interval::new(pair);
                let to: Vec<Value> = view
                    .nodes
                    .iter()
                    .map(|(to, _)| {
                        let f = flow(&interval, to.id);
                        json!({"node": to.id, "direct_pps": f.direct, "via_intermediate_pps": f.via, "transit_pps": f.transit,
                            "direct_bps": f.direct_bps, "via_intermediate_bps": f.via_bps})
                    })
                    .collect();
                rows.push(json!({"node": from.id, "seconds": interval.seconds, "to": to}));
            }
        }
    }
    let outputs: Vec<Value> = Output::all(view)
        .iter()
        .map(|o| {
            let ids = view.nodes.iter().map(|(node, _)| node.id);
            let from: Vec<Value> = (ids.zip(&o.wanted_bps).zip(o.left_pps.iter().zip(&o.left_bps)))
                .map(|((id, wanted), (pps, bps))| json!({"node": id, "wanted_bps": wanted, "left_pps": pps, "left_bps": bps}))
                .collect();
            json!({"node": o.node, "from": from, "jain": o.jain()})
        })
        .collect();
    json!({"name": view.cluster.name, "from": rows, "outputs": outputs, "missing": missing})
}

/// `valiant cluster matrix`.
pub(crate) fn matrix(args: &ShowArgs) -> Result<ExitCode, Failure> {
    observe(args, false, matrix_text, matrix_json)
}
