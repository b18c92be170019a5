//! The plots of `valiant sim`.

use super::run::Run;
use super::values::Key;
use chart::{Axis, Chart, Curve, Line, Point};
use simulator::{Report, Spread};

fn ranks(name: &str, s: &Spread) -> Curve {
    let last = s.ranks.len().saturating_sub(1).max(1) as f64;
    Curve::line(name, Line::Solid, s.ranks.iter().enumerate().map(|(at, y)| (at as f64 / last * 100.0, *y)))
}

/// Values in ascending order.
fn sorted(name: &str, values: impl Iterator<Item = f64>) -> Curve {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1).max(1) as f64;
    Curve::line(
        name,
        Line::Solid,
        values.into_iter().enumerate().map(|(at, y)| (at as f64 / last * 100.0, y)),
    )
}

fn level(name: &str, y: f64) -> Curve {
    Curve::line(name, Line::Dashed, [(0.0, y), (100.0, y)])
}

/// The plots of one run.
pub(super) fn plots(run: &Run) -> Vec<(String, Chart)> {
    let r = &run.report;
    let chart = |title: &str, label: &str, most: f64, curves: Vec<Curve>| Chart {
        title: title.to_owned(),
        x: Axis::linear("per cent, in ascending order", 0.0, 100.0),
        y: Axis::linear(label, 0.0, most),
        curves,
        note: String::new(),
    };
    let planned = run.planned();
    let links = vec![
        ranks("assigned", &r.links),
        ranks("sent", &r.links_sent),
        level(&format!("planned for: {planned}"), 1.0),
        level("full on average, with random paths: the busiest", r.links_by_chance),
    ];
    let most = r.links.most().max(r.links_by_chance).max(1.0);
    let mut nodes = vec![ranks("with a port", &r.nodes)];
    if r.inner_nodes.count > 0 {
        nodes.push(ranks("without", &r.inner_nodes));
    }
    nodes.extend([level("2R", 2.0), level("3R", 3.0)]);
    let queues = vec![ranks("links", &r.link_depth.1), ranks("outputs", &r.output_depth.1)];
    let deepest = r.link_depth.1.most().max(r.output_depth.1.most());
    let outputs = vec![
        sorted("offered, of R", r.fair.iter().map(|f| f.offered)),
        sorted("carried, of R", r.fair.iter().map(|f| f.carried)),
        sorted("Jain's index of the inputs' shares", r.fair.iter().map(|f| f.jain)),
    ];
    let widest = r.fair.iter().map(|f| f.offered.max(f.carried)).fold(1.0, f64::max);
    let total = r.latency.count().max(1) as f64;
    let buckets = r.latency.buckets().scan(0, |below, (ns, n)| {
        *below += n;
        Some((ns as f64 / 1e3, *below as f64 / total * 100.0))
    });
    let curve = Curve::line("all packets", Line::Solid, buckets);
    let edge = |ns: u64| ns as f64 / 1e3;
    let latency = Chart {
        title: "Latency".to_owned(),
        x: Axis::decades("latency, us", edge(r.latency.min_ns()), edge(r.latency.max_ns())),
        y: Axis::linear("per cent of packets with at most this latency", 0.0, 100.0),
        curves: vec![curve],
        note: String::new(),
    };
    vec![
        ("links.svg".to_owned(), chart("Load of links", "load of a link, relative to the plan", most, links)),
        ("nodes.svg".to_owned(), chart("Work of servers", "work of a server, relative to R", 3.0, nodes)),
        ("queues.svg".to_owned(), chart("Deepest queues", "longest queue, bytes", deepest, queues)),
        (
            "outputs.svg".to_owned(),
            chart("Throughput and fairness of outputs", "of each output", widest, outputs),
        ),
        ("latency.svg".to_owned(), latency),
    ]
}

/// The plots over the varied value.
pub(super) fn plots_over(key: Key, runs: &[Run]) -> Vec<(String, Chart)> {
    let name = key.name();
    let shown = |run: &Run| run.value.as_ref().map_or(0.0, |v| v.1);
    let scale = if matches!(key, Key::Delta | Key::Skew | Key::Jitter) { 1e3 } else { 1.0 };
    let unit = if scale > 1.0 { format!("{name}, us") } else { name.to_owned() };
    // A run without flowlets has no position on an axis of delta: it is drawn as a horizontal line.
    let varied: Vec<&Run> = runs.iter().filter(|run| key != Key::Delta || shown(run) > 0.0).collect();
    let without = runs.iter().find(|run| key == Key::Delta && shown(run) == 0.0);
    let curve = |label: &str, of: &dyn Fn(&Report) -> f64| Curve {
        name: label.to_owned(),
        line: Line::Solid,
        color: None,
        points: varied
            .iter()
            .map(|run| {
                let y = of(&run.report);
                let value = run.value.as_ref().map_or("", |v| &v.0);
                Point {
                    x: shown(run) / scale,
                    y,
                    spread: None,
                    filled: true,
                    title: format!("{label}, {name} {value}: {y:.6}"),
                }
            })
            .collect(),
    };
    let ends = |values: &dyn Fn(&Run) -> f64| {
        varied.iter().map(|run| values(run)).fold((f64::INFINITY, 0.0), |(l, h), v| (l.min(v), v.max(h)))
    };
    let axis = || {
        let (low, high) = ends(&|run| shown(run) / scale);
        match key {
            Key::Ports => Axis::powers("external ports", low as u32, high as u32),
            Key::Delta => Axis::decades(&unit, low, high),
            _ => Axis::linear(&unit, 0.0, high),
        }
    };
    let floor = 1e-6;
    let mut order = vec![
        curve("reordered sequences", &|r| r.reordered_sequences().max(floor)),
        curve("reordered packets (RFC 4737)", &|r| r.reordered_packets().max(floor)),
    ];
    let x = axis();
    if let Some(run) = without {
        let (low, high) = ends(&|run| shown(run) / scale);
        for (label, y) in [
            ("sequences without flowlets", run.report.reordered_sequences()),
            ("packets without flowlets", run.report.reordered_packets()),
        ] {
            order.push(Curve::line(label, Line::Dashed, [(low, y), (high, y)]));
        }
    }
    let most = order.iter().flat_map(|c| &c.points).map(|p| p.y).fold(1e-3, f64::max);
    let least = order.iter().flat_map(|c| &c.points).map(|p| p.y).fold(1.0, f64::min);
    let chart = |title: &str, label: &str, x: Axis, curves: Vec<Curve>| {
        let most = curves.iter().flat_map(|c| &c.points).map(|p| p.y).fold(0.0, f64::max);
        let y = Axis::linear(label, 0.0, most);
        Chart { title: title.to_owned(), x, y, curves, note: String::new() }
    };
    vec![
        (
            format!("reordering-over-{name}.svg"),
            Chart {
                title: format!("Reordering over {name}"),
                x,
                y: Axis::decades("for each packet", least, most * 10.0),
                curves: order,
                note: String::new(),
            },
        ),
        (
            format!("load-over-{name}.svg"),
            chart(
                &format!("Links and servers over {name}"),
                "relative to the plan (links), to R (servers)",
                axis(),
                vec![
                    curve("busiest link", &|r| r.links.most()),
                    curve("busiest link, with random paths", &|r| r.links_by_chance),
                    curve("mean link", &|r| r.links.mean),
                    curve("busiest server", &|r| r.nodes.most()),
                    curve("effective c", &|r| r.c),
                ],
            ),
        ),
        (
            format!("loss-over-{name}.svg"),
            chart(
                &format!("Loss over {name}"),
                "per cent",
                axis(),
                vec![
                    curve("lost bytes", &|r| r.loss() * 100.0),
                    curve("throughput below the offered rate", &|r| r.below_offered().max(0.0) * 100.0),
                ],
            ),
        ),
        (
            format!("latency-over-{name}.svg"),
            chart(
                &format!("Latency over {name}"),
                "us",
                axis(),
                vec![
                    curve("median", &|r| r.latency.quantile_ns(0.5) as f64 / 1e3),
                    curve("99 %", &|r| r.latency.quantile_ns(0.99) as f64 / 1e3),
                ],
            ),
        ),
    ]
}
