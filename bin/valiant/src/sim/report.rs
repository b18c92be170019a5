//! The results of a run: as text, as JSON, as a line of a table.

use super::run::Run;
use super::values::{Key, span};
use cluster::NodeId;
use measure::bps::Bps;
use measure::rate::short;
use serde_json::{Value, json};
use simulator::Spread;
use std::fmt::Write as _;

fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0 %".to_owned(),
        p if p < 0.1 => format!("{p:.2e} %"),
        p => format!("{p:.3} %"),
    }
}

fn us(ns: f64) -> String {
    format!("{:.1} us", ns / 1e3)
}

impl Run {
    /// The planned rate of a link, as text.
    pub(super) fn planned(&self) -> String {
        let (parts, bps) = match self.config.k {
            None => ("2R/N", self.config.mesh_link_bps()),
            Some(k) => {
                ("2R/k", self.config.link_bps.unwrap_or(2 * self.config.rate_bps / u64::from(k.max(1))))
            }
        };
        match self.config.link_bps {
            None => format!("{parts} = {}", Bps(bps)),
            Some(given) => format!("{} as asked for", Bps(given)),
        }
    }

    pub(super) fn text(&self) -> String {
        let (r, c) = (&self.report, &self.config);
        let mut t = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(t, "{name:<14}{value}");
        };
        let admissible = if r.admissible { "" } else { " (oversubscribes an output)" };
        line(
            "simulated",
            format!(
                "{} ports of {}, {} traffic{admissible} at {} of R, {}, policy {}, delta {}",
                c.ports,
                Bps(c.rate_bps),
                self.args.matrix,
                c.load,
                r.topology,
                self.args.mode,
                self.args.delta.text()
            ),
        );
        line(
            "packets",
            format!(
                "{} in {} after a warm-up of {}, frames of {}, {} flows at each input in trains of {}, seed {}",
                r.offered.0,
                span(r.counted_ns),
                span(c.warm_ns),
                c.sizes,
                c.flows,
                c.train,
                c.seed
            ),
        );
        if self.interrupted {
            line("interrupted", "results so far".to_owned());
            if r.offered.0 == 0 {
                line("", "during the warm-up: no packet has been counted yet".to_owned());
                return t;
            }
        }
        line(
            "throughput",
            format!(
                "{} of {} offered, {} below",
                Bps(r.carried_bps as u64),
                Bps(r.offered_bps as u64),
                percent(r.below_offered().max(0.0))
            ),
        );
        let lost: Vec<String> =
            r.lost.iter().filter(|l| l.1 > 0).map(|l| format!("{} {}", l.1, l.0.name())).collect();
        let of = if lost.is_empty() { String::new() } else { format!(": {} packets", lost.join(", ")) };
        line("loss", format!("{} of the bytes{of}", percent(r.loss())));
        line(
            "paths",
            format!(
                "{} direct, {} via an intermediate node, {} within one server: effective c = {:.3}",
                r.paths.1, r.paths.2, r.paths.0, r.c
            ),
        );
        let spread = |s: &Spread| {
            format!("mean {:.3}, 99th percentile {:.3}, maximum {:.3}", s.mean, s.quantile(0.99), s.most())
        };
        line("links", format!("assigned, relative to {}: {}", self.planned(), spread(&r.links)));
        line(
            "",
            format!(
                "busiest link: {:+.1} of the longest frames above the plan; with random paths, the busiest of {} would be assigned {:.3}",
                r.links_above_frames, r.links.count, r.links_by_chance
            ),
        );
        line("", format!("sent, relative to the same: {}", spread(&r.links_sent)));
        line("nodes", format!("work, relative to R: {} (c is 2 to 3)", spread(&r.nodes)));
        if r.inner_nodes.count > 0 {
            line("", format!("the {} without ports: {}", r.inner_nodes.count, spread(&r.inner_nodes)));
        }
        let depth = |(mean, peaks): &(f64, Spread)| {
            format!("{:.1} KB found by a packet on average, {:.1} KB at most", mean / 1e3, peaks.most() / 1e3)
        };
        line("queues", format!("links: {}", depth(&r.link_depth)));
        line("", format!("outputs: {}", depth(&r.output_depth)));
        let l = &r.latency;
        let q = |part| us(l.quantile_ns(part) as f64);
        line(
            "latency",
            format!(
                "mean {}, median {}, 99th percentile {}, maximum {}; direct {}, via an intermediate node {}",
                us(l.mean_ns()),
                q(0.5),
                q(0.99),
                us(l.max_ns() as f64),
                if r.paths.1 > 0 { us(r.latency_direct_ns) } else { "-".to_owned() },
                if r.paths.2 > 0 { us(r.latency_via_ns) } else { "-".to_owned() }
            ),
        );
        line("", "the paper: 47.6-66.4 us for RB4, at 24 us a server".to_owned());
        line(
            "reordered",
            format!(
                "{} sequences for each packet (RouteBricks, 6.2: 5.5 % plain, 0.15 % with flowlets), {} packets (RFC 4737)",
                percent(r.reordered_sequences()),
                percent(r.reordered_packets())
            ),
        );
        let s = &r.skew;
        let skew = if s.count() == 0 {
            "none: no packet took another path than the packet before it from the same input to the same output".to_owned()
        } else {
            format!(
                "median {}, 99th percentile {}, maximum {} between successive packets on different paths ({} pairs)",
                us(s.quantile_ns(0.5) as f64),
                us(s.quantile_ns(0.99) as f64),
                us(s.max_ns() as f64),
                s.count()
            )
        };
        line("skew", skew);
        if c.delta_ns.is_some() {
            let f = &r.flowlets;
            line(
                "flowlets",
                format!(
                    "{} started, {} packets kept their path, {} flowlets moved, {} returned, {} packets spilled",
                    f.started, f.kept, f.moved, f.returned, f.spilled
                ),
            );
        }
        let least = r.fair.iter().map(|f| f.jain).fold(1.0, f64::min);
        let shared = r.oversubscribed_jain().map_or_else(
            || "no output was oversubscribed".to_owned(),
            |jain| format!("oversubscribed outputs: {jain:.4} at least"),
        );
        line(
            "fairness",
            format!(
                "Jain's index of throughput over max-min share, by input: {shared}; all outputs: {least:.4} at least"
            ),
        );
        line("cost", format!("{} events in {:.1} s", short(r.events as f64), self.seconds));
        t
    }

    pub(super) fn json(&self) -> Value {
        let (r, c) = (&self.report, &self.config);
        let spread = |s: &Spread| json!({"count": s.count, "mean": s.mean, "min": s.least(), "p50": s.quantile(0.5), "p99": s.quantile(0.99), "max": s.most()});
        let depth =
            |(mean, peaks): &(f64, Spread)| json!({"mean_bytes_found": mean, "peak_bytes": spread(peaks)});
        let latency = |l: &measure::latency::Latency| {
            json!({"count": l.count(), "mean_ns": l.mean_ns(), "p50_ns": l.quantile_ns(0.5), "p99_ns": l.quantile_ns(0.99),
                "max_ns": l.max_ns()})
        };
        let lost: serde_json::Map<String, Value> =
            r.lost.iter().map(|l| (l.0.name().to_owned(), json!({"packets": l.1, "bytes": l.2}))).collect();
        let outputs: Vec<Value> = r
            .fair
            .iter()
            .map(|f| json!({"output": f.output, "inputs": f.inputs, "offered": f.offered, "carried": f.carried, "jain": f.jain}))
            .collect();
        let f = &r.flowlets;
        json!({
            "config": {
                "ports": c.ports, "rate_bps": c.rate_bps, "matrix": self.args.matrix, "load": c.load, "topology": r.topology, "k": c.k,
                "mode": self.args.mode, "delta_ns": c.delta_ns, "burst_ns": c.policy(NodeId(0)).burst(), "size": c.sizes.to_string(),
                "flows": c.flows, "train": c.train, "link": self.planned(), "buffer_bytes": c.buffer,
                "queues": self.args.queues, "server_bps": c.server_bps, "server_latency_ns": c.server_ns,
                "jitter_ns": c.jitter_ns, "skew_ns": c.skew_ns, "warmup_ns": c.warm_ns, "time_ns": c.time_ns, "seed": c.seed,
            },
            "value": self.value.as_ref().map(|v| v.0.clone()), "interrupted": self.interrupted,
            "servers": r.servers, "admissible": r.admissible, "counted_ns": r.counted_ns, "events": r.events,
            "offered": {"packets": r.offered.0, "bytes": r.offered.1, "bps": r.offered_bps},
            "carried": {"packets": r.left.0, "bytes": r.left.1, "bps_while_offered": r.carried_bps},
            "below_offered": r.below_offered(), "loss": r.loss(), "lost": lost,
            "packets": {"local": r.paths.0, "direct": r.paths.1, "via_intermediate": r.paths.2}, "effective_c": r.c, "scheduled_flows": r.scheduled,
            "scheduled_per_second": r.scheduled as f64 * 1e9 / r.counted_ns.max(1) as f64,
            "links": {"given": spread(&r.links), "sent": spread(&r.links_sent), "above_frames": r.links_above_frames,
                "full_by_chance": r.links_by_chance},
            "nodes": spread(&r.nodes), "nodes_without_ports": spread(&r.inner_nodes),
            "queues": {"links": depth(&r.link_depth), "outputs": depth(&r.output_depth)},
            "latency": latency(&r.latency),
            "latency_mean_ns": {"direct": (r.paths.1 > 0).then_some(r.latency_direct_ns),
                "via_intermediate": (r.paths.2 > 0).then_some(r.latency_via_ns)},
            "paper": {"latency_us": [47.6, 66.4], "reordered_sequences": {"direct": 0.055, "flowlets": 0.0015}},
            "reordering": {"packets": r.order.0, "reordered_packets": r.order.1, "reordered_sequences": r.order.2,
                "rfc4737_ratio": r.reordered_packets(), "sequences_ratio": r.reordered_sequences()},
            "skew": latency(&r.skew),
            "flowlets": {"started": f.started, "kept": f.kept, "moved": f.moved, "returned": f.returned, "spilled": f.spilled},
            "oversubscribed_jain": r.oversubscribed_jain(), "outputs": outputs,
        })
    }
}

/// A line for each run.
pub(super) fn table(key: Key, runs: &[Run]) -> String {
    let mut t = String::new();
    if let Some(run) = runs.first() {
        let _ = writeln!(
            t,
            "{} traffic, policy {}, {}; links relative to {}, nodes to R, latency in us",
            run.args.matrix,
            run.args.mode,
            if run.config.k.is_none() { "full mesh" } else { "butterfly" },
            if run.config.k.is_none() { "2R/N" } else { "2R/k" }
        );
    }
    let columns = [
        "loss",
        "below",
        "c",
        "links",
        "frames",
        "chance",
        "nodes",
        "median",
        "99 %",
        "sequences",
        "packets",
        "skew 50 %",
        "Jain",
    ];
    let _ = write!(t, "{:>10}", key.name());
    columns.iter().for_each(|c| {
        let _ = write!(t, "{c:>11}");
    });
    t.push('\n');
    for run in runs {
        let r = &run.report;
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let cells = [
            percent(r.loss()),
            percent(r.below_offered().max(0.0)),
            format!("{:.3}", r.c),
            format!("{:.3}", r.links.most()),
            format!("{:+.1}", r.links_above_frames),
            format!("{:.3}", r.links_by_chance),
            format!("{:.3}", r.nodes.most()),
            us(r.latency.quantile_ns(0.5)),
            us(r.latency.quantile_ns(0.99)),
            percent(r.reordered_sequences()),
            percent(r.reordered_packets()),
            us(r.skew.quantile_ns(0.5)),
            r.oversubscribed_jain().map_or("-".to_owned(), |j| format!("{j:.4}")),
        ];
        let _ = write!(t, "{:>10}", run.value.as_ref().map_or("", |v| &v.0));
        cells.iter().for_each(|c| {
            let _ = write!(t, "{c:>11}");
        });
        t += if run.interrupted { "  interrupted\n" } else { "\n" };
    }
    t
}
