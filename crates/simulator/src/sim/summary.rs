//! The report from the counters.

use super::Sim;
use crate::config::Config;
use crate::report::{Fair, Loss, Report, Spread, ratio};
use cluster::balancer::FlowletCounts;
use cluster::work::Work;
use measure::fairness::{jain, max_min};

impl Sim {
    /// Ends the simulation at its present time, and returns the results.
    #[must_use]
    pub fn report(self) -> Report {
        let flowlets = self.flowlets();
        let before = self.before.unwrap_or(flowlets);
        let Config { ports, rate_bps, .. } = self.config;
        let counted_ps = self.now_ps.min(self.end_ps).saturating_sub(self.warm_ps);
        let seconds = counted_ps as f64 / 1e12;
        let line = rate_bps as f64 * seconds / 8.0;
        let part = |bytes: u64, of: f64| ratio(bytes as f64, of);
        let load = |work: &[Work]| Spread::of(work.iter().map(|w| part(w.total(), line)).collect());
        let (outer, inner) = self.work.split_at(ports.into());
        let lines = &self.fabric.lines;
        let (links, bps) = self.shape.links();
        let planned = bps * seconds / 8.0;
        let of_links = |what: &dyn Fn(u32, f64) -> f64| {
            Spread::of(links.iter().map(|line| what(*line, planned)).collect())
        };
        let packets = planned / self.lengths.moments().1;
        let given = of_links(&|line, of| part(lines[line as usize].given, of));
        let above = (given.most() - 1.0) * planned / self.lengths.longest();
        let chance = (2.0 * (links.len().max(2) as f64).ln() / packets.max(1e-9)).sqrt();
        let depth = |(sum, packets): (u64, u64)| ratio(sum as f64, packets as f64);
        let outputs = &lines[self.shape.first_output() as usize..];
        let counts = self.counts;
        let Work { input, transit, output } = self.work.iter().copied().sum();
        Report {
            topology: self.shape.text(),
            servers: self.shape.nodes(),
            counted_ns: counted_ps / 1000,
            events: counts.events,
            admissible: self.config.matrix.admissible(),
            offered: counts.offered,
            left: counts.left,
            lost: Loss::ALL.into_iter().zip(counts.lost).map(|(why, (p, b))| (why, p, b)).collect(),
            offered_bps: ratio(counts.offered.1 as f64 * 8.0, seconds),
            carried_bps: ratio(counts.carried as f64 * 8.0, seconds),
            paths: (counts.local, counts.direct, counts.via),
            c: Work { input, transit, output }.effective_c(),
            nodes: load(outer),
            inner_nodes: load(inner),
            links: given,
            links_above_frames: above,
            links_sent: of_links(&|line, of| part(lines[line as usize].sent, of)),
            links_by_chance: 1.0 + chance,
            link_depth: (depth(counts.found[0]), of_links(&|line, _| f64::from(lines[line as usize].peak))),
            output_depth: (
                depth(counts.found[1]),
                Spread::of(outputs.iter().map(|l| f64::from(l.peak)).collect()),
            ),
            latency_direct_ns: depth(counts.direct_ns),
            latency_via_ns: depth(counts.via_ns),
            latency: counts.all,
            skew: counts.skew,
            order: counts.order,
            scheduled: self.scheduler.decisions,
            flowlets: FlowletCounts {
                started: flowlets.started - before.started,
                kept: flowlets.kept - before.kept,
                moved: flowlets.moved - before.moved,
                returned: flowlets.returned - before.returned,
                spilled: flowlets.spilled - before.spilled,
            },
            fair: {
                let mut to: Vec<Vec<(f64, f64)>> = vec![Vec::new(); ports.into()];
                for input in 0..usize::from(ports) {
                    let first = self.pair_start[input] as usize;
                    for (at, (output, _)) in self.config.matrix.row(input).enumerate() {
                        let pair = self.pairs[first + at];
                        if pair.offered > 0 {
                            to[usize::from(output)].push((pair.offered as f64, pair.carried as f64));
                        }
                    }
                }
                let share = |(output, pairs): (usize, &Vec<(f64, f64)>)| {
                    let wants: Vec<f64> = pairs.iter().map(|p| p.0).collect();
                    let due = max_min(&wants, line);
                    let got: Vec<f64> = pairs.iter().zip(&due).map(|(p, due)| ratio(p.1, *due)).collect();
                    Fair {
                        output: output as u16,
                        offered: ratio(wants.iter().sum(), line),
                        carried: ratio(pairs.iter().map(|p| p.1).sum(), line),
                        inputs: pairs.len(),
                        jain: jain(&got),
                    }
                };
                to.iter().enumerate().filter(|t| !t.1.is_empty()).map(share).collect()
            },
        }
    }
}
