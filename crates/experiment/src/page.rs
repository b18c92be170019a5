//! A report as a page: HTML that needs nothing beside it.

use crate::beside::{beside_paper, measured};
use crate::conditions::conditions;
use crate::existing::Existing;
use crate::html::{document, strings, table};
use crate::jitter::Jitter;
use crate::plots::{SIZE, plots, rate};
use crate::reading::{BySize, Reading, Round, Row, SIZES};
use crate::values::{figure, percent};
use chart::escaped;
use measure::ranks::median;
use serde_json::Value;
use std::fmt::Write;

fn or_dash(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

fn us(ns: Option<f64>) -> String {
    or_dash(ns, |ns| format!("{:.1}", ns / 1e3))
}

struct Page<'a> {
    reading: &'a Reading,
    text: String,
}

impl Page<'_> {
    fn section(&mut self, id: &str, title: &str, content: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "<section id=\"{id}\">\n<h2>{title}</h2>\n{content}</section>\n");
    }

    fn head(&mut self) {
        let r = self.reading;
        let of = |key: &str| r.machine.get(key).and_then(Value::as_str).unwrap_or("not known");
        let open: u64 = r.results.iter().map(|row| row.rounds_open).sum();
        let failed = r.results.iter().filter(|row| !row.failed.is_empty()).count();
        let mut facts = vec![
            format!("{} results", r.results.len()),
            if r.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", r.rounds) },
            format!("Valiant {}", r.version),
            of("model").to_owned(),
            format!("Linux {}", of("kernel")),
        ];
        for device in &r.device_machines {
            let of = |key: &str| device.get(key).and_then(Value::as_str).unwrap_or("not known");
            facts.push(format!("device on {}, {}, Linux {}", of("host"), of("model"), of("kernel")));
        }
        if open > 0 {
            facts.push(format!("{open} rounds are not measured yet"));
        }
        if failed > 0 {
            facts.push(format!("{failed} failed"));
        }
        let broken = r.expect.iter().filter(|outcome| outcome.holds == Some(false)).count();
        if broken > 0 {
            facts.push(format!("{broken} of {} expectations do not hold", r.expect.len()));
        }
        let _ = write!(
            self.text,
            "<h1>{}</h1>\n<p class=\"facts\">{}</p>\n",
            escaped(&r.experiment),
            facts.iter().map(|fact| format!("<span>{}</span>", escaped(fact))).collect::<Vec<_>>().join(" ")
        );
    }

    fn expectations(&mut self) {
        let items: String = (self.reading.expect.iter())
            .map(|outcome| {
                let class = outcome.class();
                let why = if outcome.why.is_empty() {
                    String::new()
                } else {
                    format!(" <q>{}</q>", escaped(&outcome.why))
                };
                let seen: String =
                    outcome.seen.iter().map(|seen| format!("<br><small>{}</small>", escaped(seen))).collect();
                format!(
                    "<li class=\"{class}\"><b>{}</b>: {}{why}{seen}</li>\n",
                    outcome.word(),
                    escaped(&outcome.expected)
                )
            })
            .collect();
        if !items.is_empty() {
            self.section("expectations", "Expectations", &format!("<ul>\n{items}</ul>\n"));
        }
    }

    fn plots(&mut self) {
        let (mut all, more) = plots(self.reading);
        if let Some(plot) = beside_paper(self.reading) {
            all.insert(0, plot);
        }
        let figures: String = (all.iter())
            .map(|plot| {
                let svg = plot.chart.inline(SIZE.0, SIZE.1);
                format!("<figure>\n<figcaption>{}</figcaption>\n{svg}</figure>\n", escaped(&plot.caption))
            })
            .collect();
        if figures.is_empty() {
            return;
        }
        let more =
            if more { "<p>Only the first plots are drawn; the table has all points.</p>\n" } else { "" };
        self.section("plots", "Plots", &format!("<div class=\"plots\">\n{figures}</div>\n{more}"));
    }

    fn paper(&mut self) {
        let Some(paper) = &self.reading.paper else { return };
        let source = escaped(&paper.source);
        let link = if paper.source.starts_with("https://") {
            format!("<a href=\"{source}\">{source}</a>")
        } else {
            source
        };
        let mut text =
            format!("<p><cite>{}</cite>, {}. {link}</p>\n", escaped(&paper.title), escaped(&paper.figure));
        let rows: Vec<Vec<String>> = (paper.values.iter())
            .map(|value| {
                vec![
                    value.x.clone(),
                    value.of.clone(),
                    format!("{} {}", value.y, value.unit(&paper.unit)),
                    value.section.clone(),
                    rate(value.pps),
                    measured(value, paper, self.reading),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let head = [&paper.x, "of", "the paper says", "section", "in pps", "here"].map(str::to_owned);
            text += &table(&head, &rows, 2);
            text += "<p>Only what the text of the paper says; what is only drawn there is left out. Another machine \
                     gives other numbers: compare shapes.</p>\n";
        }
        self.section("paper", "The paper", &text);
    }

    /// The figures of a command.
    fn figures(&mut self) {
        let r = self.reading;
        let factors: Vec<&String> = r.factors.iter().map(|factor| &factor.name).collect();
        let mut head: Vec<String> = factors.iter().copied().chain(&r.figures).cloned().collect();
        head.push("spread".to_owned());
        let cells = |row: &Row| {
            let point = factors.iter().map(|name| row.value(name).unwrap_or("-").to_owned());
            let number = |name: &String| or_dash(row.figures.get(name).and_then(|all| all.median), figure);
            point.chain(r.figures.iter().map(number)).chain([row.spread_text()]).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = r.results.iter().map(cells).collect();
        let text = table(&head, &rows, factors.len()) + &self.failed();
        self.section("results", "Results", &text);
    }

    /// The names of the factors: the first columns of tables.
    fn factors(&self) -> Vec<String> {
        self.reading.factors.iter().map(|factor| factor.name.clone()).collect()
    }

    /// What is in these columns.
    fn values(&self, row: &Row) -> Vec<String> {
        let of = |name: String| row.value(&name).unwrap_or("-").to_owned();
        self.factors().into_iter().map(of).collect()
    }

    fn results(&mut self) {
        let r = self.reading;
        if !r.figures.is_empty() {
            return self.figures();
        }
        let mut head = self.factors();
        let factors = head.len();
        head.extend(strings(&[
            "loss up to",
            "lost",
            "pps",
            "least",
            "most",
            "spread",
            "Gb/s L2",
            "Gb/s L1",
            "latency 50 %, us",
            "99 %, us",
            "limit",
            "rounds",
            "trials",
            "disturbed",
            "reordered",
            "duplicates",
            "damaged",
        ]));
        let wrong = r.results.iter().flat_map(|row| &row.rounds).any(|round| round.misrouted > 0);
        head.extend(wrong.then(|| "wrong port".to_owned()));
        let cells = |row: &Row| {
            let mut cells = self.values(row);
            let lost = median(row.rounds.iter().filter_map(|round| round.loss));
            let gbps = |value| or_dash(value, |gbps| format!("{gbps:.3}"));
            let sum = |of: fn(&Round) -> u64| row.rounds.iter().map(of).sum::<u64>().to_string();
            let limit = match (&row.limit, row.rounds.is_empty(), row.failed.is_empty()) {
                (Some(limit), ..) => limit.as_str(),
                (None, true, true) => "not measured yet",
                (None, true, false) => "failed",
                (None, false, _) => "none",
            };
            let allowed = match (row.loss_allowed, row.offered_pps) {
                (Some(loss), _) => percent(loss),
                (None, offered) => or_dash(offered, |pps| format!("{} offered", rate(Some(pps)))),
            };
            let [p50, p99] = row.latency();
            cells.extend([
                allowed,
                or_dash(lost, |loss| format!("{:.4} %", loss * 100.0)),
                rate(row.pps.median),
                rate(row.pps.least),
                rate(row.pps.most),
                row.spread_text(),
                gbps(row.l2_gbps),
                gbps(row.l1_gbps),
                us(p50),
                us(p99),
                limit.to_owned(),
                row.rounds.len().to_string(),
                sum(|round| round.trials),
                row.trials_disturbed.to_string(),
                sum(|round| round.reordered),
                sum(|round| round.duplicates),
                sum(|round| round.damaged),
            ]);
            cells.extend(wrong.then(|| sum(|round| round.misrouted)));
            cells
        };
        let rows: Vec<Vec<String>> = r.results.iter().map(cells).collect();
        let text = table(&head, &rows, factors) + &self.failed();
        self.section("results", "Results", &text);
    }

    /// What has failed, and why.
    fn failed(&self) -> String {
        let r = self.reading;
        let names: Vec<&String> = r.factors.iter().map(|factor| &factor.name).collect();
        let failed: String = (r.results.iter())
            .flat_map(|row| row.failed.iter().map(move |reason| (row, reason)))
            .map(|(row, reason)| {
                let point: Vec<String> =
                    names.iter().filter_map(|name| Some(format!("{name} {}", row.value(name)?))).collect();
                format!("<li>{}: {}</li>\n", escaped(&point.join(", ")), escaped(reason))
            })
            .collect();
        if failed.is_empty() { failed } else { format!("<h3>Failed</h3>\n<ul>\n{failed}</ul>\n") }
    }

    fn latency(&mut self) {
        let r = self.reading;
        let mut head = self.factors();
        let factors = head.len();
        head.extend(strings(&["loss up to", "at, % of the rate", "50 %, us", "99 %, us", "most, us"]));
        let rows: Vec<Vec<String>> = (r.results.iter())
            .flat_map(|row| row.latency_ns.iter().map(move |at| (row, at)))
            .map(|(row, at)| {
                let mut cells = self.values(row);
                let share = format!("{}", (at.share * 1000.0).round() / 10.0);
                cells.extend([or_dash(row.loss_allowed, percent), share, us(at.p50), us(at.p99), us(at.max)]);
                cells
            })
            .collect();
        if !rows.is_empty() {
            self.section("latency", "Latency at parts of the rate", &table(&head, &rows, factors));
        }
    }

    /// How latency differs from a frame to the next, at the result.
    fn jitter(&mut self) {
        let r = self.reading;
        let mut head = self.factors();
        let factors = head.len();
        head.extend(strings(&[
            "loss up to",
            "PDV, us",
            "IPDV 50 %, us",
            "99.9 %, us",
            "most, us",
            "RFC 3550, us",
        ]));
        let of = |row: &Row| {
            let of_jitter = |figure: fn(&Jitter) -> Option<f64>| {
                median(row.rounds.iter().filter_map(|round| figure(round.jitter_ns.as_ref()?)))
            };
            let most = of_jitter(|one| Some(one.ipdv_max))?;
            let mut cells = self.values(row);
            cells.push(or_dash(row.loss_allowed, percent));
            cells.push(us(median(row.rounds.iter().filter_map(|round| round.pdv_ns))));
            cells
                .extend([of_jitter(|one| one.ipdv_p50), of_jitter(|one| one.ipdv_p99_9), Some(most)].map(us));
            cells.push(us(of_jitter(|one| Some(one.rfc3550))));
            Some(cells)
        };
        let rows: Vec<Vec<String>> = r.results.iter().filter_map(of).collect();
        if !rows.is_empty() {
            let text = table(&head, &rows, factors)
                + "<p>At the result, medians of the rounds. PDV: the 99.9th percentile of latency less the least (RFC 8219, section 7.3.1). \
                   IPDV: absolute values, of a frame and the one that arrived before it at the same thread.</p>\n";
            self.section("jitter", "Jitter", &text);
        }
    }

    /// The connections over which frames were sent.
    fn existing(&mut self) {
        let r = self.reading;
        let mut head = self.factors();
        let factors = head.len();
        head.extend(strings(&["connections", "set up at, /s", "packets/s", "where frames were lost"]));
        let of = |row: &Row| {
            let all = row.set_up?;
            let mut cells = self.values(row);
            let last = row.rounds.last();
            let lost = |of: fn(&Round) -> Option<Existing>| last.and_then(of).and_then(|all| all.words());
            let lost = lost(|one| one.existing).or_else(|| lost(|one| one.upper_existing));
            cells.extend([
                all.connections.to_string(),
                rate(Some(all.rate)),
                rate(row.pps.median),
                lost.unwrap_or_else(|| "-".to_owned()),
            ]);
            Some(cells)
        };
        let rows: Vec<Vec<String>> = r.results.iter().filter_map(of).collect();
        if !rows.is_empty() {
            let text = table(&head, &rows, factors)
                + "<p>RFC 9693, test phase 2: connections are set up before each trial, and frames are sent over them.</p>\n";
            self.section("existing", "Over connections that are there already", &text);
        }
    }

    /// Connections through the device.
    fn connections(&mut self) {
        let r = self.reading;
        let mut head = self.factors();
        let factors = head.len();
        head.extend(strings(&["connections", "established/s", "capacity", "torn down/s", "corrected"]));
        let of = |row: &Row| {
            let all = row.connections.as_ref()?;
            let mut cells = self.values(row);
            let capacity =
                all.capacity.map(|of| format!("{:.0}{}", of.median, if of.may_be_more { "+" } else { "" }));
            cells.extend([
                all.number.to_string(),
                rate(row.pps.median),
                capacity.unwrap_or_else(|| "-".to_owned()),
                rate(all.tear_down.map(|of| of.rate)),
                rate(all.tear_down.and_then(|of| of.corrected_rate)),
            ]);
            Some(cells)
        };
        let rows: Vec<Vec<String>> = r.results.iter().filter_map(of).collect();
        if !rows.is_empty() {
            let text = table(&head, &rows, factors)
                + "<p>RFC 9693. Corrected: without the time that the command needs with an empty table. +: as many as were tried.</p>\n";
            self.section("connections", "Connections through the device", &text);
        }
    }

    /// What a packet costs by its size.
    fn by_size(&mut self) {
        let r = self.reading;
        let names: Vec<&String> = r
            .factors
            .iter()
            .map(|factor| &factor.name)
            .filter(|name| !SIZES.contains(&name.as_str()))
            .collect();
        let mut head: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
        head.extend(strings(&["loss up to", "cycles a packet", "cycles a byte"]));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &r.results {
            let Some(BySize { cycles_per_packet, cycles_per_byte }) = r.by_size(row) else { continue };
            let mut cells: Vec<String> =
                names.iter().map(|name| row.value(name).unwrap_or("-").to_owned()).collect();
            let loss = or_dash(row.loss_allowed, percent);
            cells.extend([loss, format!("{cycles_per_packet:.0}"), format!("{cycles_per_byte:.3}")]);
            if !rows.contains(&cells) {
                rows.push(cells);
            }
        }
        if !rows.is_empty() {
            self.section("by-size", "What a packet costs by its size", &table(&head, &rows, names.len()));
        }
    }

    fn file(&mut self) {
        if !self.reading.file.is_empty() {
            let file = escaped(&self.reading.file);
            self.section("file", "The experiment file", &format!("<pre>{file}</pre>\n"));
        }
    }
}

/// The page of a report, from the JSON that `valiant bench run --json` prints.
///
/// # Errors
/// A message: it is no report, or one of another version.
pub fn page(report: &Value) -> Result<String, String> {
    let reading = Reading::new(report)?;
    let mut page = Page { reading: &reading, text: String::new() };
    page.head();
    page.expectations();
    page.plots();
    page.paper();
    page.results();
    page.jitter();
    page.existing();
    page.connections();
    page.latency();
    page.by_size();
    page.section("conditions", "Conditions", &conditions(&reading));
    page.file();
    Ok(document(&reading.experiment, &page.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HOSTILE: &str = "</pre><script>alert('\"&\")</script>";

    /// A report of two sizes and two losses, with hostile names everywhere.
    fn report() -> Value {
        let row = |size: &str, loss: f64, pps: f64| {
            json!({"point": {"size": size, HOSTILE: "x"}, "loss_allowed": loss, "offered_pps": null,
                "pps": {"median": pps, "least": pps * 0.9, "most": pps * 1.1}, "l2_gbps": 0.5, "l1_gbps": 0.7,
                "limit": "device", "latency_ns": [{"share": 0.5, "p50": 1e3, "p99": 2e3, "max": 3e3, "rounds": []}],
                "rounds": [{"pps": pps, "loss": 0.0, "frame_bytes": 60.0, "latency_p50_ns": 1500.0, "latency_p99_ns": 9e3,
                    "reordered": 0, "duplicates": 0, "damaged": 0, "trials": 9, "traffic_seconds": 2.0},
                    {"pps": pps, "loss": 0.0}],
                "rounds_open": 0, "trials_disturbed": 1, "failed": []})
        };
        let mut failed = row("9000", 0.0, 1.0);
        failed["pps"] = json!({"median": null, "least": null, "most": null});
        failed["rounds"] = json!([]);
        failed["l2_gbps"] = Value::Null;
        failed["limit"] = Value::Null;
        failed["failed"] = json!([HOSTILE]);
        json!({"format": 1, "experiment": HOSTILE, "version": "0.1.0", "rounds": 2, "to": [HOSTILE], "sink": ["eth1"],
            "command": HOSTILE, "file": format!("# {HOSTILE}\n[traffic]\n"),
            "device_machines": [{"model": "Another <processor>", "kernel": "6.2", "host": HOSTILE}],
            "machine": {"model": HOSTILE, "kernel": "6.1", "cores": 2, "processors": [0, 1],
                "caches": [{"level": 3, "kind": "Unified", "bytes": 33_554_432, "shared_by": [0, 1]}],
                "nodes": [{"node": 0, "processors": [0, 1], "distances": [10]}], "available_bytes": 1_u64 << 33,
                "nics": [{"address": "0000:81:00.0", "vendor": 0x8086, "device": 0x1592, "interfaces": ["eth0"], "driver": "ice",
                    "mbps": 100_000, "link": {"gigatransfers": 16.0, "lanes": 8, "gbps": 126.0}}]},
            "factors": [{"name": "size", "values": ["60", "1514", "9000"]}, {"name": HOSTILE, "values": ["x"]}],
            "paper": {"title": HOSTILE, "figure": "Figure 1", "source": "javascript:alert(1)", "unit": "Mpps", "x": "size",
                "values": [{"x": "60", "y": 18.96, "of": HOSTILE, "section": "5.2", "pps": 18.96e6, "l1_gbps": 12.7}]},
            "expect": [{"expected": HOSTILE, "why": HOSTILE, "holds": false, "seen": [HOSTILE]},
                {"expected": "a", "why": "", "holds": true, "seen": []}, {"expected": "b", "why": "", "holds": null, "seen": []}],
            "results": [row("60", 0.0, 1e6), row("60", 0.01, 1.5e6), row("1514", 0.0, 0.9e6), row("1514", 0.01, 1e6), failed]})
    }

    /// Whether every element is closed, in order.
    fn well_formed(page: &str) -> Result<(), String> {
        let mut open = Vec::new();
        let body = page.split_once("<!doctype html>").ok_or("no doctype")?.1;
        for tag in body.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').ok_or_else(|| format!("<{tag}"))?;
            let name = tag.split([' ', '\n']).next().unwrap_or_default();
            if let Some(name) = name.strip_prefix('/') {
                let last = open.pop();
                if last != Some(name) {
                    return Err(format!("</{name}> ends {last:?}"));
                }
            } else if !tag.ends_with('/') && !["meta", "br"].contains(&name) {
                open.push(name);
            }
        }
        if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
    }

    #[test]
    fn a_page_has_all_parts_and_nothing_from_elsewhere() {
        let page = page(&report()).unwrap();
        well_formed(&page).unwrap();
        for part in [
            "<meta name=\"viewport\"",
            "prefers-color-scheme: dark",
            "<section id=\"expectations\">",
            "<li class=\"bad\"><b>does not hold</b>",
            "<li class=\"good\"><b>holds</b>",
            "<li class=\"open\"><b>not known yet</b>",
            "<section id=\"plots\">",
            "<section id=\"paper\">",
            "<section id=\"results\">",
            "<section id=\"latency\">",
            "<section id=\"conditions\">",
            "32 MiB, of processors 0, 1",
            "8086:1592, eth0, driver ice, PCI Express 16 GT/s x8, 100000 Mb/s",
            "FCS 4, preamble 8, gap 12",
            "Another &lt;processor&gt;<",
            "Linux 6.2",
            "<section id=\"file\">",
            "<td>failed</td>",
            "1 of 3 expectations do not hold",
        ] {
            assert!(page.contains(part), "{part}");
        }
        // Rates, bits, latency by size; what is held has no plot.
        assert_eq!(page.matches("<svg ").count(), 3, "{page}");
        assert_eq!(page.matches("<figure>").count(), 3);
        for foreign in ["<script", "src=", "<link", "@import", "url(", "href", "NaN", "inf ", ">inf<"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let http: Vec<_> =
            page.split("http").skip(1).filter(|rest| !rest.starts_with("://www.w3.org")).collect();
        assert!(http.is_empty(), "{http:?}");
    }

    #[test]
    fn jitter_and_existing_connections_have_tables() {
        let mut report = report();
        let before = page(&report).unwrap();
        assert!(!before.contains("id=\"jitter\"") && !before.contains("id=\"existing\""));
        report["results"][0]["set_up"] = json!({"connections": 2000, "rate": 5000});
        report["results"][0]["rounds"] = json!([{"pps": 1.0, "pdv_ns": 77_000.0,
            "jitter_ns": {"ipdv_mean": 1e3, "ipdv_p50": 2e3, "ipdv_p99_9": 33e3, "ipdv_max": 44e3, "rfc3550": 5e3},
            "upper_existing": {"asked": 2000, "established": 2000, "changed": 0, "answered": 1990, "wrong": 0}}]);
        let page = page(&report).unwrap();
        for cell in [
            "<section id=\"jitter\">",
            "77.0",
            "33.0",
            "<section id=\"existing\">",
            "had forgotten 10 of 2000",
        ] {
            assert!(page.contains(cell), "{cell}: {page}");
        }
    }

    #[test]
    fn connections_have_a_table() {
        let mut report = report();
        assert!(!page(&report).unwrap().contains("id=\"connections\""));
        report["results"][0]["connections"] = json!({"number": 2000, "trials": 9,
            "capacity": {"median": 5000.0, "least": 5000.0, "most": 5000.0, "may_be_more": true},
            "tear_down": {"rate": 117_000.0, "corrected_rate": null}});
        let page = page(&report).unwrap();
        well_formed(&page).unwrap();
        for cell in ["<section id=\"connections\">", ">2000<", ">5000+<", ">117 k<"] {
            assert!(page.contains(cell), "{cell}: {page}");
        }
    }

    #[test]
    fn sources_on_the_web_are_links() {
        let mut report = report();
        report["paper"]["source"] = json!("https://doi.org/1?a=\"b\"");
        let page = page(&report).unwrap();
        assert!(page.contains("<a href=\"https://doi.org/1?a=&quot;b&quot;\">"), "{page}");
    }

    #[test]
    fn anything_but_a_report_is_an_error() {
        for wrong in
            [json!(null), json!({}), json!({"results": []}), json!({"experiment": "e", "results": [{}]})]
        {
            assert!(page(&wrong).unwrap_err().contains("no report"), "{wrong}");
        }
        // Nothing is measured yet, in a report of before.
        let old = json!({"experiment": "e", "version": "0.1.0", "results": []});
        well_formed(&page(&old).unwrap()).unwrap();
    }

    #[test]
    fn values_of_any_kind_are_drawn() {
        let mut report = report();
        for (values, least) in
            [(["a", "b", "c"], 3), (["1", "1000000", "9000"], 3), (["0", "-5", "1e300"], 3)]
        {
            for (at, value) in [0, 0, 1, 1, 2].into_iter().enumerate() {
                report["results"][at]["point"]["size"] = json!(values[value]);
            }
            report["factors"][0]["values"] = json!(values);
            report["paper"]["values"][0]["x"] = json!(values[0]);
            let page = page(&report).unwrap();
            assert!(page.matches("<svg ").count() >= least && !page.contains("NaN"), "{values:?}: {page}");
            well_formed(&page).unwrap();
        }
    }
}
