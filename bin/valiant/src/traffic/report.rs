//! The reports of `valiant gen` and `valiant sink`, as text and as JSON.

use super::args::{Limits, Output};
use super::connections::Connections;
use super::crossing::Crossing;
use super::words::{asked, percent, rate_json, rate_words, seconds, span};
use measure::order::DEPTH;
use measure::rate::{Achieved, OVERHEAD, Rate};
use measure::sink::Snapshot;
use measure::timeline::{Span, Timeline, when_lost};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The results of a generator.
pub(crate) struct Sent {
    pub(crate) asked: Rate,
    /// Ports that were sent to.
    pub(crate) sources: usize,
    /// The rate of all of them together, in parts of the asked one.
    pub(crate) load: f64,
    pub(crate) made: u64,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) missed: u64,
    pub(crate) first_ns: u64,
    /// The longest time from first to last frame of one source and thread: they begin one after the other.
    pub(crate) longest_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) timeline: Timeline,
    /// The frames are those of a capture file, which sinks do not recognize.
    pub(crate) replayed: bool,
    /// How long workers waited for a processor meanwhile, because others used it.
    pub(crate) waited: Duration,
    /// How long ports did not take all that was sent to them, on average.
    pub(crate) port_full: Duration,
}

impl Sent {
    pub(crate) fn rate(&self) -> Achieved {
        Achieved::between(self.frames, self.bytes, self.first_ns, self.last_ns)
    }
    /// Who has made it miss frames.
    fn who_is_slow(&self) -> &'static str {
        let all = Duration::from_nanos(self.last_ns.saturating_sub(self.first_ns));
        if self.port_full * 2 >= all.max(Duration::from_nanos(1)) { "the port" } else { "this machine" }
    }
    /// The part of the requested rate that was achieved, over all sources.
    pub(crate) fn share(&self) -> Option<f64> {
        self.rate().of(self.asked).map(|share| share / self.load)
    }
}

/// The results of a measurement.
pub(crate) struct Report {
    pub(crate) sent: Option<Sent>,
    /// Of `--connections`.
    pub(crate) connections: Option<Connections>,
    pub(crate) seen: Option<Snapshot>,
    /// Lines of the sinks' `flows` handlers.
    pub(crate) flows: String,
    pub(crate) expected: Option<u64>,
    /// What went from which port to which, if the outputs of the device are known.
    pub(crate) crossing: Option<Crossing>,
    /// How many frames may come out at a wrong port.
    pub(crate) max_misrouted: Option<u64>,
    /// Ports that have disappeared: what was lost there says nothing of a device.
    pub(crate) gone: Vec<String>,
    pub(crate) interrupted: bool,
    pub(crate) seconds: f64,
}

/// A smaller part of the requested rate than this is reported.
const SHORT_OF: f64 = 0.99;
/// Workers that waited longer for a processor are reported.
const LONG_WAIT: Duration = Duration::from_millis(1);

/// Measured frames that arrived, without known duplicates.
fn came(totals: &measure::sink::Totals) -> u64 {
    totals.received + totals.untracked
}

impl Report {
    /// Frames that arrived, for computing loss; those of a connection that arrived as another's are lost. If
    /// the generator sends a capture file, these are the frames without a tag.
    fn arrived(&self) -> u64 {
        let replayed = self.sent.as_ref().is_some_and(|s| s.replayed);
        let changed = self.connections.as_ref().map_or(0, Connections::changed);
        let came = |totals| came(totals).saturating_sub(changed);
        self.seen.as_ref().map_or(0, |s| if replayed { s.totals.foreign } else { came(&s.totals) })
    }
    /// Frames lost, and of how many: of those sent if this process sends them, else as the sequence numbers
    /// show.
    pub(crate) fn loss(&self) -> Option<(u64, u64)> {
        let totals = &self.seen.as_ref()?.totals;
        Some(match (&self.sent, self.expected) {
            (Some(sent), _) => (sent.frames.saturating_sub(self.arrived()), sent.frames),
            (None, Some(expected)) => (expected.saturating_sub(came(totals)), expected),
            (None, None) => (totals.lost(), totals.sent),
        })
    }
    /// The limits that were exceeded.
    pub(crate) fn failures(&self, limits: &Limits) -> Vec<String> {
        let mut failures: Vec<String> =
            self.gone.iter().map(|port| format!("port {port} has disappeared")).collect();
        if let (Some(expected), Some(seen)) = (self.expected, &self.seen)
            && came(&seen.totals) != expected
        {
            failures.push(format!("{} frames instead of {expected}", came(&seen.totals)));
        }
        if let (Some(most), Some((lost, sent))) = (limits.max_loss, self.loss())
            && most.exceeded(lost, sent)
        {
            failures.push(format!("{lost} of {sent} frames lost, {most} allowed"));
        }
        if let (Some(most), Some(seen)) = (limits.max_reordered, &self.seen)
            && seen.totals.reordered > most
        {
            failures.push(format!("{} packets reordered, {most} allowed", seen.totals.reordered));
        }
        let misrouted = self.crossing.as_ref().map_or(0, Crossing::misrouted);
        if let Some(most) = self.max_misrouted.filter(|most| misrouted > *most) {
            failures.push(format!("{misrouted} frames at the wrong port, {most} allowed"));
        }
        let lost = self
            .connections
            .as_ref()
            .zip(limits.max_loss)
            .filter(|(c, most)| most.exceeded(c.lost(), c.asked));
        failures.extend(lost.map(|(c, most)| format!("{}, {most} allowed", c.words())));
        failures
    }

    /// What was sent and what arrived, over time. Frames of a capture file have no time of sending.
    fn timeline(&self) -> Timeline {
        let mut all = Timeline::default();
        if let Some(sent) = &self.sent {
            all.merge(&sent.timeline);
        }
        if let Some(seen) = &self.seen {
            all.merge(&seen.timeline);
        }
        all
    }

    /// When most was lost, if this process sends the frames and some were lost.
    fn when_lost(&self) -> Option<String> {
        self.sent.as_ref().filter(|sent| !sent.replayed)?;
        let line = self.timeline();
        when_lost(line.width_ns(), line.spans())
    }

    /// The report as text.
    pub(crate) fn text(&self, output: &Output) -> String {
        let mut t = String::new();
        // Writing to a string does not fail.
        if let Some(sent) = &self.sent {
            let rate = sent.rate();
            let _ = writeln!(
                t,
                "sent        {} frames, {} bytes in {:.3} s",
                sent.frames,
                sent.bytes,
                seconds(sent.last_ns.saturating_sub(sent.first_ns))
            );
            let _ = writeln!(t, "rate        {}", rate_words(&rate));
            match sent.share() {
                None => {
                    let _ = writeln!(t, "asked       {}", asked(sent.asked));
                }
                Some(share) => {
                    let each = if (sent.load - sent.sources as f64).abs() > 1e-9 {
                        format!(", {:.2} times that by the matrix", sent.load)
                    } else if sent.sources > 1 {
                        format!(" on each of {} ports", sent.sources)
                    } else {
                        String::new()
                    };
                    let _ = writeln!(
                        t,
                        "asked       {}{each}: {:.2} % achieved",
                        asked(sent.asked),
                        share * 100.0
                    );
                    if share < SHORT_OF {
                        let _ = writeln!(
                            t,
                            "            {} could not keep the rate: {} frames missed",
                            sent.who_is_slow(),
                            sent.missed
                        );
                    }
                }
            }
            if sent.waited >= LONG_WAIT {
                let _ = writeln!(
                    t,
                    "waited      {} for a processor that others used",
                    span(sent.waited.as_nanos() as f64)
                );
            }
            if sent.dropped > 0 {
                let _ = writeln!(t, "dropped     {} frames that the port did not accept", sent.dropped);
            }
        }
        if let Some(seen) = &self.seen {
            let totals = &seen.totals;
            let _ = writeln!(
                t,
                "received    {} measured frames in {} flows, {} other frames, {} corrupted",
                totals.ours, totals.flows, totals.foreign, totals.damaged
            );
            let _ = writeln!(t, "rate        {}", rate_words(&totals.rate()));
            if totals.untracked > 0 {
                let _ = writeln!(
                    t,
                    "untracked   {} frames of flows beyond --track-flows, not included in the order",
                    totals.untracked
                );
            }
            if let Some((lost, sent)) = self.loss() {
                let how = if self.sent.is_some() || self.expected.is_some() {
                    ""
                } else {
                    "  (between the first and the last received)"
                };
                let _ = writeln!(t, "lost        {lost} of {sent}, {:.4} %{how}", percent(lost, sent));
            }
            t += &self.crossing.as_ref().map(Crossing::text).unwrap_or_default();
            let _ = writeln!(
                t,
                "order       {} reordered packets ({:.4} %), {} reordered sequences, {} duplicates{}",
                totals.reordered,
                percent(totals.reordered, totals.received),
                totals.sequences,
                totals.duplicates,
                if totals.max_distance > 0 {
                    format!(", at most {} behind", totals.max_distance)
                } else {
                    String::new()
                }
            );
            if totals.reordered > 0 {
                let r = &seen.reordering;
                let _ = writeln!(
                    t,
                    "            in {} flows; mean reordering extent {:.1}, {}; 3-reordered {} ({:.4} %)",
                    totals.reordered_flows,
                    r.mean_extent(),
                    r.extents().last().map_or_else(String::new, |(e, _)| match e {
                        e if e > DEPTH => format!("more than {DEPTH} at most"),
                        e => format!("{e} at most"),
                    }),
                    r.n_reordered(3),
                    percent(r.n_reordered(3), totals.received)
                );
            }
            let l = &seen.latency;
            if l.count() > 0 {
                let q = |share: f64| span(l.quantile_ns(share) as f64);
                let _ = writeln!(
                    t,
                    "latency     min {}, mean {}, 50 % {}, 90 % {}, 99 % {}, 99.9 % {}, max {}",
                    span(l.min_ns() as f64),
                    span(l.mean_ns()),
                    q(0.5),
                    q(0.9),
                    q(0.99),
                    q(0.999),
                    span(l.max_ns() as f64)
                );
            }
            if seen.jitter.pairs() > 0 {
                let _ = writeln!(
                    t,
                    "jitter      IPDV 50 % {}, 99.9 % {}, mean {}, max {}; PDV {}; RFC 3550 {}",
                    span(seen.jitter.absolute_ns(0.5) as f64),
                    span(seen.jitter.absolute_ns(0.999) as f64),
                    span(seen.jitter.mean_ns()),
                    span(seen.jitter.max_ns() as f64),
                    span(l.quantile_ns(0.999).saturating_sub(l.min_ns()) as f64),
                    span(seen.jitter.smoothed_ns())
                );
            }
            if let Some(line) = self.when_lost() {
                let _ = writeln!(t, "when lost   {line}");
            }
            if totals.early > 0 {
                let _ = writeln!(
                    t,
                    "clocks      {} frames arrived before their time of sending, by these clocks: no latency",
                    totals.early
                );
            }
            if output.per_flow {
                t += "stream flow received lost duplicates reordered sequences\n";
                t += &self.flows;
            }
            if output.histogram {
                t += "latency_ns frames\n";
                for (ns, n) in l.buckets() {
                    let _ = writeln!(t, "{ns} {n}");
                }
            }
        }
        if let Some(connections) = &self.connections {
            let _ = writeln!(t, "connections {}", connections.words());
        }
        if self.interrupted {
            let _ = writeln!(t, "interrupted after {:.1} s", self.seconds);
        }
        t
    }

    /// The report as JSON.
    pub(crate) fn json(&self, output: &Output, failures: &[String]) -> Value {
        let mut report = json!({
            "conventions": {
                "bytes": "without frame check sequence",
                "l1_overhead_bytes": OVERHEAD,
                "shares": "of frames received, without duplicates",
                "reordered": "RFC 4737",
                "extents": format!("RFC 4737 section 4.2, [extent, packets]; {} stands for more than {DEPTH}", DEPTH + 1),
                "n_reordered": format!("RFC 4737 section 5, [n, packets], n up to {DEPTH}"),
                "jitter_ns": "ipdv: absolute IPDV (RFC 3393) of a frame and the one that arrived before it at the same thread; dmin, dmed, dmax: the least, the median and the most of it with its sign (RFC 8219 section 7.3.2); interarrival jitter (RFC 3550 section 6.4.1)",
                "pdv": "99.9th percentile of latency less the minimum (RFC 8219 section 7.3.1)",
                "timeline": "spans of time; arrived: of the frames that were sent in the span; came: in the span, whenever they were sent",
                "matrix": "frames from each port (rows) for each sink (columns): sent as they were made; arrived at it, without duplicates, whichever sink they were for",
                "sequences": "stretches of reordered packets of a flow, RouteBricks section 6.2",
            },
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "passed": failures.is_empty(),
            "failures": failures,
        });
        if let Some(sent) = &self.sent {
            let rate = sent.rate();
            let mut value = json!({
                "asked": sent.asked.to_string(), "ports": sent.sources, "achieved_share": sent.share(),
                "limited_by_generator": sent.share().is_some_and(|s| s < SHORT_OF),
                "made": sent.made, "frames": sent.frames, "bytes": sent.bytes, "dropped": sent.dropped, "missed": sent.missed,
                "kept_waiting_s": sent.waited.as_secs_f64(), "port_full_s": sent.port_full.as_secs_f64(),
                "seconds": seconds(sent.last_ns.saturating_sub(sent.first_ns)), "longest_s": seconds(sent.longest_ns),
            });
            merge(&mut value, rate_json(&rate));
            report["sent"] = value;
        }
        if let Some(connections) = &self.connections {
            report["connections"] = connections.json();
        }
        let Some(seen) = &self.seen else { return report };
        let totals = &seen.totals;
        let mut value: Value = totals
            .fields()
            .map(|(name, n)| (name.to_owned(), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        if let Some(fields) = value.as_object_mut() {
            // The sink's estimate of the number of frames sent is left out: it only serves its counting.
            fields.remove("sent");
        }
        merge(&mut value, rate_json(&totals.rate()));
        report["received"] = value;
        if let Some((lost, sent)) = self.loss() {
            let by = match (&self.sent, &self.expected) {
                (Some(_), _) => "frames sent",
                (None, Some(_)) => "expected count",
                (None, None) => "sequence numbers",
            };
            report["loss"] =
                json!({"frames": lost, "of": sent, "share": percent(lost, sent) / 100.0, "by": by});
        }
        if let Some(crossing) = &self.crossing {
            report["matrix"] = crossing.json();
        }
        report["order"] = json!({"reordered": totals.reordered, "reordered_share": percent(totals.reordered, totals.received) / 100.0,
            "sequences": totals.sequences, "sequences_share": percent(totals.sequences, totals.received) / 100.0,
            "flows": totals.reordered_flows, "flows_share": percent(totals.reordered_flows, totals.flows) / 100.0,
            "max_distance": totals.max_distance,
            "mean_extent": seen.reordering.mean_extent(),
            "extents": seen.reordering.extents().map(|(e, n)| json!([e, n])).collect::<Vec<_>>(),
            "n_reordered": (1..=DEPTH).map(|n| (n, seen.reordering.n_reordered(n))).take_while(|(_, p)| *p > 0)
                .map(|(n, p)| json!([n, p])).collect::<Vec<_>>()});
        let l = &seen.latency;
        if l.count() > 0 {
            report["latency_ns"] = json!({"frames": l.count(), "min": l.min_ns(), "mean": l.mean_ns(), "stdev": l.stdev_ns(),
                "p50": l.quantile_ns(0.5), "p90": l.quantile_ns(0.9), "p99": l.quantile_ns(0.99), "p99_9": l.quantile_ns(0.999),
                "p99_99": l.quantile_ns(0.9999), "max": l.max_ns(),
                "pdv": l.quantile_ns(0.999).saturating_sub(l.min_ns())});
            if output.histogram {
                report["latency_ns"]["histogram"] = l.buckets().map(|(ns, n)| json!([ns, n])).collect();
            }
        }
        if seen.jitter.pairs() > 0 {
            report["jitter_ns"] = json!({"pairs": seen.jitter.pairs(), "ipdv_mean": seen.jitter.mean_ns(),
                "ipdv_p50": seen.jitter.absolute_ns(0.5), "ipdv_p99_9": seen.jitter.absolute_ns(0.999),
                "ipdv_max": seen.jitter.max_ns(), "dmin": seen.jitter.signed_ns(0.0), "dmed": seen.jitter.signed_ns(0.5),
                "dmax": seen.jitter.signed_ns(1.0), "rfc3550": seen.jitter.smoothed_ns()});
        }
        let line = self.timeline();
        let column = |of: fn(&Span) -> u64| line.spans().iter().map(of).collect::<Vec<u64>>();
        report["timeline"] = json!({"span_s": seconds(line.width_ns()), "sent": column(|s| s.sent), "arrived": column(|s| s.arrived),
            "came": column(|s| s.came), "latency_max_ns": column(|s| s.latency_ns)});
        if output.per_flow {
            report["flows"] = self.flows.lines().filter_map(flow_json).collect();
        }
        report
    }
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn flow_json(line: &str) -> Option<Value> {
    let n: Vec<u64> = line.split(' ').map_while(|n| n.parse().ok()).collect();
    let [stream, flow, received, lost, duplicates, reordered, sequences] = n[..] else { return None };
    Some(json!({"stream": stream, "flow": flow, "received": received, "lost": lost, "duplicates": duplicates,
        "reordered": reordered, "sequences": sequences}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::args::Loss;

    fn report(frames: u64, line: &str) -> Report {
        let sent = Sent {
            asked: Rate::Packets(100),
            sources: 1,
            load: 1.0,
            made: frames,
            frames,
            bytes: frames * 60,
            dropped: 0,
            missed: 3,
            first_ns: 1_000_000_000,
            longest_ns: 1_000_000_000,
            last_ns: 2_000_000_000,
            timeline: Timeline::default(),
            replayed: false,
            waited: Duration::ZERO,
            port_full: Duration::ZERO,
        };
        let mut seen = Snapshot::default();
        seen.read(line).unwrap();
        Report {
            sent: Some(sent),
            connections: None,
            seen: Some(seen),
            flows: "0 1 2 3 4 5 6\n".into(),
            expected: None,
            crossing: None,
            max_misrouted: None,
            gone: Vec::new(),
            interrupted: false,
            seconds: 1.0,
        }
    }

    fn limits(max_loss: Option<Loss>, max_reordered: Option<u64>) -> Limits {
        Limits { max_loss, max_reordered, no_check: false, sleep: false, track_flows: None }
    }

    #[test]
    fn loss_is_of_what_was_sent_if_the_sender_is_known() {
        let line = "frames=90 ours=90 received=88 sent=95 reordered=2 sequences=1 latency=1000:80,2000:8";
        let mut r = report(101, line);
        assert_eq!(r.loss(), Some((13, 101)));
        r.sent = None;
        assert_eq!(r.loss(), Some((7, 95)));
        r.expected = Some(90);
        assert_eq!(r.loss(), Some((2, 90)));
        assert_eq!(r.failures(&limits(None, None)), ["88 frames instead of 90"]);
    }

    #[test]
    fn limits_are_kept_or_named() {
        let r = report(101, "received=100 ours=100 reordered=2 latency=");
        assert!(r.failures(&limits(Some(Loss::Frames(1)), Some(2))).is_empty());
        assert_eq!(r.failures(&limits(Some(Loss::Share(0.001)), Some(1))).len(), 2);
    }

    #[test]
    fn both_forms_say_what_was_asked_and_what_came() {
        let output =
            Output { json: true, per_flow: true, histogram: true, quiet: false, print_config: false };
        let r = report(
            51,
            "frames=50 ours=50 our_bytes=3000 received=50 sent=50 flows=1 reordered=3 sequences=2 reordered_flows=1 extents=1:2,65:1 degrees=0:1,1:1,4:1 first_ns=5 last_ns=7 latency=1000:40,2000:10",
        );
        let text = r.text(&output);
        for words in [
            "asked       100 pps: 50.00 % achieved",
            "3 frames missed",
            "lost        1 of 51",
            "latency     min 1000 ns",
            "0 1 2 3 4 5 6",
            "in 1 flows; mean reordering extent 22.3, more than 64 at most; 3-reordered 1",
        ] {
            assert!(
                text.contains(words) || words.starts_with("latency") && text.contains("min 1.00 us"),
                "{words}: {text}"
            );
        }
        let value = r.json(&output, &[]);
        assert_eq!(value["sent"]["achieved_share"], 0.5);
        assert_eq!(value["sent"]["limited_by_generator"], true);
        assert_eq!(value["received"]["ours"], 50);
        assert_eq!(value["loss"]["frames"], 1);
        assert_eq!(value["flows"][0]["sequences"], 6);
        assert_eq!(value["order"]["extents"], json!([[1, 2], [65, 1]]));
        assert_eq!(value["order"]["n_reordered"], json!([[1, 2], [2, 1], [3, 1], [4, 1]]));
        assert_eq!(value["order"]["flows_share"], 1.0);
        assert_eq!(value["latency_ns"]["histogram"].as_array().map(Vec::len), Some(2));
        assert!((value["sent"]["pps"].as_f64().unwrap() - 50.0).abs() < 1e-9);
    }
}
