//! From figures to answers: the eight questions, each passed or failed by a mark that is stated.
//!
//! The questions are the findings of the paper's Table 1; the marks are what a classifier must keep that
//! should not be an obstacle. What the paper has found stands beside each.

use crate::studies::{Study, Target};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The reports of experiments, as `valiant bench run --json` prints them.
pub type Reports = BTreeMap<Study, Value>;

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The mark is reached.
    Pass,
    /// It is not.
    Fail,
    /// It cannot be asked of this target.
    Cannot,
    /// It is not measured, or not yet.
    Open,
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Cannot => "cannot be asked here",
            Self::Open => "not measured",
        }
    }

    fn of(passes: bool) -> Self {
        if passes { Self::Pass } else { Self::Fail }
    }
}

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// From 1 to 8.
    pub number: usize,
    /// In words.
    pub text: &'static str,
    /// When it is passed.
    pub mark: &'static str,
    /// What the paper has found.
    pub paper: &'static str,
    /// The experiments that it takes.
    pub studies: &'static [Study],
    judge: fn(&Reports, &Target) -> Option<(Verdict, String)>,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Which one.
    pub question: Question,
    /// What came of it.
    pub verdict: Verdict,
    /// The figures, or why there are none.
    pub text: String,
}

impl Answer {
    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let q = &self.question;
        json!({"number": q.number, "question": q.text, "verdict": self.verdict.word(), "answer": self.text, "passes_if": q.mark, "paper": q.paper})
    }
}

/// The eight questions.
pub const QUESTIONS: [Question; 8] = [
    Question {
        number: 1,
        text: "Does the rate hold as a table fills?",
        mark: "with each number of rules the rate is at least half of that with the fewest",
        paper: "100 Gb/s to 20 Mb/s at 65,536 rules in table 0, with multi-fold latency",
        studies: &[Study::Occupancy],
        judge: occupancy,
    },
    Question {
        number: 2,
        text: "Does the rate hold when rules are spread over a chain of tables?",
        mark: "16 tables keep at least half of the rate of one",
        paper: "100 to 13 Gb/s with 16 tables, and 10 times the latency",
        studies: &[Study::Chain],
        judge: chain,
    },
    Question {
        number: 3,
        text: "Does traffic go on while many rules come at once?",
        mark: "with the largest batch, from another core, each 100 ms have at least 0.9 of the rate before, and no gap between two bursts is 1 ms longer",
        paper: "no packets for up to several seconds",
        studies: &[Study::Batch],
        judge: batch,
    },
    Question {
        number: 4,
        text: "Does the rate hold while rules change all the time?",
        mark: "with the most changes a second, from another core, at least 0.9 of the rate without, and 0.9 of the changes are made",
        paper: "100 to 30 Gb/s, and about twice the latency",
        studies: &[Study::Churn],
        judge: churn,
    },
    Question {
        number: 5,
        text: "Are changes from another core free?",
        mark: "from another core the worst 100 ms of a batch and the rate under changes are at least 0.9 of those without",
        paper: "no effect from another core, collapse from the same",
        studies: &[Study::Batch, Study::Churn],
        judge: other_core,
    },
    Question {
        number: 6,
        text: "Do rules for IPv6 come as fast as those for IPv4?",
        mark: "neither takes more than 1.5 times as long as the other, in each table",
        paper: "IPv6 5 to 181 times as fast, or 12 % slower, by table",
        studies: &[Study::Insertion],
        judge: versions,
    },
    Question {
        number: 7,
        text: "Do rules for tunnels come as fast as those for VLANs?",
        mark: "none of GRE, VXLAN and GENEVE takes more than 1.5 times as long as VLAN, in each table",
        paper: "VLAN up to 50 % faster than tunnels",
        studies: &[Study::Insertion],
        judge: tunnels,
    },
    Question {
        number: 8,
        text: "Is a rule replaced so that no packet meets neither the old nor the new one?",
        mark: "there is a way to replace a rule with which no packet meets neither",
        paper: "not atomic: deletion and insertion, one after the other; an update API of their own is up to 80 % faster",
        studies: &[Study::Replacement],
        judge: replacement,
    },
];

/// The question of a word: its number, or the name of one of its experiments.
#[must_use]
pub fn named(word: &str) -> Vec<usize> {
    let is =
        |q: &&Question| q.number.to_string() == word || q.studies.iter().any(|study| study.name() == word);
    QUESTIONS.iter().filter(is).map(|q| q.number).collect()
}

/// The answers.
#[must_use]
pub fn answers(reports: &Reports, target: &Target, asked: &[usize]) -> Vec<Answer> {
    let one = |question: &Question| {
        let cannot = question.studies.iter().find_map(|study| target.cannot(*study));
        let (verdict, text) = match cannot {
            Some(why) => (Verdict::Cannot, why),
            None if !asked.contains(&question.number) => (Verdict::Open, "not asked".to_owned()),
            None => match (question.judge)(reports, target) {
                None => (Verdict::Open, unmeasured(reports, question)),
                Some((verdict, text)) => {
                    let failed = failed(reports, question);
                    let verdict =
                        if verdict == Verdict::Pass && !failed.is_empty() { Verdict::Open } else { verdict };
                    let more =
                        if incomplete(reports, question) { ". Not all rounds are measured yet" } else { "" };
                    (verdict, text + &failed + more)
                }
            },
        };
        Answer { question: *question, verdict, text }
    };
    QUESTIONS.iter().map(one).collect()
}

/// Whether rounds are missing.
fn incomplete(reports: &Reports, question: &Question) -> bool {
    let mut rows = question.studies.iter().filter_map(|study| reports.get(study)).flat_map(rows);
    rows.any(|row| row.get("rounds_open").and_then(Value::as_u64) > Some(0))
}

/// What could not be measured, and why. Of the ways to replace a rule one is enough.
fn failed(reports: &Reports, question: &Question) -> String {
    let studies = question.studies.iter().filter(|study| **study != Study::Replacement);
    let rows = studies.filter_map(|study| reports.get(study)).flat_map(rows);
    let failed = rows.filter_map(|row| {
        let reason = row.get("failed")?.as_array()?.first()?.as_str()?;
        let point = row.get("point")?.as_object()?;
        let point: Vec<String> = point
            .iter()
            .map(|(name, value)| format!("{} {}", name.trim_start_matches('$'), value.as_str().unwrap_or("")))
            .collect();
        Some(format!(". Not measured: {}: {reason}", point.join(", ")))
    });
    failed.collect()
}

/// Why something is missing: the first reason that a point gives.
fn unmeasured(reports: &Reports, question: &Question) -> String {
    let rows = question.studies.iter().filter_map(|study| reports.get(study)).flat_map(rows);
    let reason = rows.filter_map(|row| row.get("failed")?.as_array()?.first()?.as_str()).next();
    reason.map_or_else(
        || "not all is measured yet".to_owned(),
        |reason| format!("a measurement has failed: {reason}"),
    )
}

pub(crate) fn rows(report: &Value) -> impl Iterator<Item = &Value> {
    report.get("results").and_then(Value::as_array).into_iter().flatten()
}

/// A value of a row's point, of a factor without its `$`.
pub(crate) fn at<'a>(row: &'a Value, factor: &str) -> Option<&'a str> {
    row.get("point")?.get(format!("${factor}"))?.as_str()
}

pub(crate) fn number(row: &Value, factor: &str) -> Option<f64> {
    at(row, factor)?.parse().ok()
}

/// The median of a figure of a row.
pub(crate) fn figure(row: &Value, name: &str) -> Option<f64> {
    row.get("figures")?.get(name)?.get("median")?.as_f64()
}

/// Of the rows with a value of one factor, the figures by another one, in order.
pub(crate) fn curve(report: &Value, fixed: (&str, &str), by: &str, name: &str) -> Vec<(f64, f64)> {
    let (factor, value) = fixed;
    let rows = rows(report).filter(|row| factor.is_empty() || at(row, factor) == Some(value));
    let mut points: Vec<(f64, f64)> =
        rows.filter_map(|row| Some((number(row, by)?, figure(row, name)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Values of a factor, as they come.
pub(crate) fn values<'a>(report: &'a Value, factor: &str) -> Vec<&'a str> {
    let mut all = Vec::new();
    for value in rows(report).filter_map(|row| at(row, factor)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The figure at the last point of a curve as a part of that at the first, and where it is least.
fn least_part(curve: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (_, first) = *curve.first()?;
    let parts = curve.iter().map(|(x, y)| (*x, y / first.max(f64::MIN_POSITIVE)));
    parts.min_by(|a, b| a.1.total_cmp(&b.1))
}

pub(crate) fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The answer if a measurement has forwarded nothing: then nothing is to be compared.
fn nothing_forwarded(rates: &[(f64, f64)]) -> Option<(Verdict, String)> {
    let nothing = rates.iter().any(|(_, pps)| *pps <= 0.0);
    nothing.then(|| {
        (
            Verdict::Open,
            "in a measurement nothing was forwarded: other programs had the processor, or no packets came"
                .to_owned(),
        )
    })
}

/// By how much the share of packets that match may differ from what was sent.
const NEAR: f64 = 0.02;

fn occupancy(reports: &Reports, _: &Target) -> Option<(Verdict, String)> {
    let report = reports.get(&Study::Occupancy)?;
    let (mut passes, mut text) = (true, Vec::new());
    for share in values(report, "SHARE") {
        let rates = curve(report, ("SHARE", share), "RULES", "pps");
        if let Some(nothing) = nothing_forwarded(&rates) {
            return Some(nothing);
        }
        let (rules, part) = least_part(&rates)?;
        let most = rates.last()?;
        let bursts = curve(report, ("SHARE", share), "RULES", "burst 99 % ns");
        let times = bursts.last()?.1 / bursts.first()?.1.max(1.0);
        passes &= part >= 0.5;
        let traffic = match share {
            "0" => "no packet matches".to_owned(),
            "1" => "all packets match".to_owned(),
            share => format!("a share of {share} matches"),
        };
        text.push(format!(
            "{traffic}: {} pps with {} rules, {} with {}; least {part:.2} of the first, with {}; 99 % of bursts take {times:.2} times as long with the most",
            whole(rates.first()?.1), whole(rates.first()?.0), whole(most.1), whole(most.0), whole(rules)
        ));
    }
    // A device may accept rules and not carry them out.
    let wrong = rows(report).find_map(|row| {
        let (share, matched) = (number(row, "SHARE")?, figure(row, "matched")?);
        ((share - matched).abs() > NEAR).then_some((share, matched))
    });
    if let Some((share, matched)) = wrong {
        passes = false;
        text.push(format!(
            "of packets of which {share} should match, {matched:.2} did: the rules are not carried out"
        ));
    }
    (!text.is_empty()).then(|| (Verdict::of(passes), text.join(". ")))
}

fn chain(reports: &Reports, _: &Target) -> Option<(Verdict, String)> {
    let rates = curve(reports.get(&Study::Chain)?, ("", ""), "TABLES", "pps");
    if let Some(nothing) = nothing_forwarded(&rates) {
        return Some(nothing);
    }
    let first = rates.first().filter(|(tables, _)| *tables == 1.0)?.1;
    let last = rates.last().filter(|(tables, _)| *tables == 16.0)?.1;
    let all: Vec<String> =
        rates.iter().map(|(tables, pps)| format!("{tables:.0}: {:.2}", pps / first)).collect();
    let text = format!("of the rate with one table ({} pps), by tables: {}", whole(first), all.join(", "));
    Some((Verdict::of(last >= 0.5 * first), text))
}

/// The row of the greatest value of a factor, from one of the cores.
pub(crate) fn greatest<'a>(report: &'a Value, factor: &str, place: &str) -> Option<&'a Value> {
    let from = rows(report).filter(|row| at(row, "WHERE") == Some(place));
    from.max_by(|a, b| number(a, factor).unwrap_or(0.0).total_cmp(&number(b, factor).unwrap_or(0.0)))
}

fn batch(reports: &Reports, _: &Target) -> Option<(Verdict, String)> {
    let report = reports.get(&Study::Batch)?;
    let row = greatest(report, "CHANGES", "other")?;
    let same = greatest(report, "CHANGES", "same")?;
    let of = |name| figure(row, name);
    let (worst, outage) = (of("worst bucket")?, of("outage ms")?);
    let mut text = format!(
        "{} rules from another core: the worst 100 ms have {worst:.2} of the rate before (before: {:.2}), the longest gap is {outage:.2} ms longer ({:.2} ms, before {:.2}), the rules are there after {:.1} ms. From the forwarder's core: {:.2}, and {:.1} ms longer",
        whole(number(row, "CHANGES")?),
        of("worst bucket before")?,
        of("longest gap ms")?,
        of("longest gap before ms")?,
        of("update ms")?,
        figure(same, "worst bucket")?,
        figure(same, "outage ms")?
    );
    if of("worst bucket before")? < 0.9 {
        text += ". Without changes the rate was uneven too: other programs disturb this machine";
    }
    Some((Verdict::of(worst >= 0.9 && outage <= 1.0), text))
}

fn churn(reports: &Reports, _: &Target) -> Option<(Verdict, String)> {
    let report = reports.get(&Study::Churn)?;
    let row = greatest(report, "RATE", "other")?;
    let part = figure(row, "part of the rate")?;
    let (made, asked) = (figure(row, "updates/s")?, number(row, "RATE")?);
    let all = curve(report, ("WHERE", "other"), "RATE", "part of the rate");
    let all: Vec<String> = all.iter().map(|(rate, part)| format!("{}: {part:.2}", whole(*rate))).collect();
    let text = format!(
        "from another core, part of the rate by changes a second: {}; {} changes a second were made of {}; a burst takes {:.2} times as long",
        all.join(", "),
        whole(made),
        whole(asked),
        figure(row, "burst ns")? / figure(row, "burst before ns")?.max(1.0)
    );
    Some((Verdict::of(part >= 0.9 && made >= 0.9 * asked), text))
}

fn other_core(reports: &Reports, _: &Target) -> Option<(Verdict, String)> {
    let (batches, churns) = (reports.get(&Study::Batch)?, reports.get(&Study::Churn)?);
    let worst = |place| figure(greatest(batches, "CHANGES", place)?, "worst bucket");
    let part = |place| figure(greatest(churns, "RATE", place)?, "part of the rate");
    let (batch, churn) = ([worst("same")?, worst("other")?], [part("same")?, part("other")?]);
    let text = format!(
        "the worst 100 ms of a batch: {:.2} from the forwarder's core, {:.2} from another; under changes: {:.2} and {:.2} of the rate",
        batch[0], batch[1], churn[0], churn[1]
    );
    Some((Verdict::of(batch[1] >= 0.9 && churn[1] >= 0.9), text))
}

/// Of each table, the insertion rates of kinds, in their order.
fn insertions(report: &Value, kinds: &[&str]) -> Option<Vec<(String, Vec<f64>)>> {
    let of = |table: &str, kind: &str| {
        let mut rows = rows(report);
        let row = rows.find(|row| at(row, "TABLE") == Some(table) && at(row, "KIND") == Some(kind))?;
        figure(row, "insertions/s")
    };
    let tables = values(report, "TABLE");
    let all = tables.into_iter().map(|table| {
        let rates = kinds.iter().map(|kind| of(table, kind)).collect::<Option<Vec<f64>>>()?;
        Some((table.to_owned(), rates))
    });
    all.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// The first kind of these that a target refuses.
fn refused(target: &Target, kinds: &[&str]) -> Option<(Verdict, String)> {
    let (kind, words) = kinds.iter().find_map(|kind| Some((kind, target.refuses(kind)?)))?;
    Some((Verdict::Cannot, format!("the driver takes no rule of the kind {kind}: {words}")))
}

fn versions(reports: &Reports, target: &Target) -> Option<(Verdict, String)> {
    const KINDS: [&str; 4] = ["ipv4", "ipv6", "ipv4-tcp", "ipv6-tcp"];
    if let Some(refused) = refused(target, &KINDS) {
        return Some(refused);
    }
    let (mut passes, mut text) = (true, Vec::new());
    for (table, rates) in insertions(reports.get(&Study::Insertion)?, &KINDS)? {
        let [v4, v6, tcp4, tcp6] = rates[..] else { return None };
        let (plain, tcp) = (v6 / v4, tcp6 / tcp4);
        passes &= [plain, tcp].iter().all(|ratio| (1.0 / 1.5..=1.5).contains(ratio));
        text.push(format!(
            "table {table}: IPv6 {} rules a second, IPv4 {} ({plain:.2} times); with TCP {} and {} ({tcp:.2} times)",
            whole(v6), whole(v4), whole(tcp6), whole(tcp4)
        ));
    }
    Some((Verdict::of(passes), text.join("; ")))
}

fn tunnels(reports: &Reports, target: &Target) -> Option<(Verdict, String)> {
    const KINDS: [&str; 4] = ["vlan-ipv4-tcp", "gre", "vxlan", "geneve"];
    if let Some(refused) = refused(target, &KINDS) {
        return Some(refused);
    }
    let (mut passes, mut text) = (true, Vec::new());
    for (table, rates) in insertions(reports.get(&Study::Insertion)?, &KINDS)? {
        let [vlan, tunnels @ ..] = &rates[..] else { return None };
        passes &= tunnels.iter().all(|rate| rate * 1.5 >= *vlan);
        let each: Vec<String> = (KINDS.iter().skip(1).zip(tunnels))
            .map(|(kind, rate)| format!("{kind} {} ({:.2} times)", whole(*rate), rate / vlan))
            .collect();
        text.push(format!("table {table}: VLAN {} rules a second, {}", whole(*vlan), each.join(", ")));
    }
    Some((Verdict::of(passes), text.join("; ")))
}

/// Packets that have met neither the old nor the new rule, if any packets have come at all.
pub(crate) fn lost(row: &Value) -> Option<f64> {
    let neither = figure(row, "neither")?;
    (neither > 0.0 || figure(row, "old or new")? > 0.0).then_some(neither)
}

fn replacement(reports: &Reports, target: &Target) -> Option<(Verdict, String)> {
    let report = reports.get(&Study::Replacement)?;
    let (mut each, mut seen) = (Vec::new(), Vec::new());
    for way in values(report, "HOW") {
        let row = rows(report).find(|row| at(row, "HOW") == Some(way))?;
        let Some(rate) = figure(row, "updates/s") else {
            each.push(format!("{way}: not possible, or not measured"));
            continue;
        };
        let lost = lost(row);
        let met = lost.map_or_else(String::new, |lost| format!(", {} packets met neither", whole(lost)));
        each.push(format!("{way}: {} replaced a second{met}", whole(rate)));
        seen.extend(lost);
    }
    if each.is_empty() || rows(report).all(|row| figure(row, "updates/s").is_none()) {
        return None;
    }
    let mut text = each.join("; ");
    if seen.is_empty() {
        text += ". Whether a packet meets neither cannot be seen: no packets came (--from names a port that sends some)";
        return Some((Verdict::Cannot, text));
    }
    if matches!(target, Target::Device { .. }) {
        text += &format!(". DPDK {} has no call that replaces a rule", dpdk::dpdk_version());
    }
    Some((Verdict::of(seen.contains(&0.0)), text))
}

#[cfg(test)]
mod tests;
