//! Advice in words, made from what was measured.

use crate::studies::Study;
use crate::verdict::{Reports, at, curve, figure, greatest, lost, rows, values, whole};

/// What follows for whoever uses the classifier.
#[must_use]
pub fn advice(reports: &Reports) -> Vec<String> {
    let mut all = Vec::new();
    let report = |study| reports.get(&study);
    if let Some(report) = report(Study::Occupancy)
        && let Some(share) = values(report, "SHARE").last()
    {
        let rates = curve(report, ("SHARE", share), "RULES", "pps");
        let good =
            rates.iter().take_while(|(_, pps)| rates.first().is_some_and(|(_, first)| *pps >= 0.8 * first));
        if let Some((rules, _)) = good.last() {
            let end = rates.last().is_some_and(|(most, _)| most == rules);
            let more =
                if end { "more were not tried" } else { "with the next number that was tried it is less" };
            all.push(format!("How many rules: up to {} keep 0.8 of the rate; {more}.", whole(*rules)));
        }
    }
    if let Some(report) = report(Study::Chain) {
        let rates = curve(report, ("", ""), "TABLES", "pps");
        let first = rates.first().map_or(0.0, |(_, pps)| *pps);
        if let Some((tables, _)) = rates.iter().rfind(|(_, pps)| *pps >= 0.8 * first) {
            all.push(if *tables > 1.0 {
                format!(
                    "Which table: up to {tables:.0} tables one after the other keep 0.8 of the rate of one; in longer chains, put rules that most packets need into the first table."
                )
            } else {
                "Which table: a second table takes more than a fifth of the rate: keep all rules in one, or those that most packets need in the first.".to_owned()
            });
        }
    }
    if let Some(report) = report(Study::Batch) {
        let gap = |place| figure(greatest(report, "CHANGES", place)?, "outage ms");
        if let (Some(same), Some(other)) = (gap("same"), gap("other")) {
            let better = if other < same {
                "change rules from another core than that which forwards"
            } else {
                "it does not matter from which core rules are changed"
            };
            all.push(format!(
                "Which core: {better}: the largest batch makes a gap of {same:.1} ms from the same core, and of {other:.1} ms from another."
            ));
        }
    }
    if let Some(report) = report(Study::Churn) {
        let parts = curve(report, ("WHERE", "other"), "RATE", "part of the rate");
        let good = parts.iter().take_while(|(_, part)| *part >= 0.9).last();
        all.push(match good {
            Some((rate, _)) => format!(
                "How often: up to {} changes a second, from another core, keep 0.9 of the rate.",
                whole(*rate)
            ),
            None => "How often: even the fewest changes a second that were tried cost more than a tenth of the rate: collect them.".to_owned(),
        });
    }
    if let Some(report) = report(Study::Insertion) {
        let mut rates: Vec<(&str, &str, f64)> = rows(report)
            .filter_map(|row| Some((at(row, "KIND")?, at(row, "TABLE")?, figure(row, "insertions/s")?)))
            .collect();
        rates.sort_by(|a, b| b.2.total_cmp(&a.2));
        if let (Some(fast), Some(slow)) = (rates.first(), rates.last()) {
            all.push(format!(
                "Which protocol: rules of the kind {} in table {} come fastest ({} a second), {} in table {} slowest ({}).",
                fast.0, fast.1, whole(fast.2), slow.0, slow.1, whole(slow.2)
            ));
        }
        let full = rows(report).filter(|row| figure(row, "full") == Some(1.0));
        let full = full.filter_map(|row| Some((at(row, "KIND")?, figure(row, "rules")?)));
        if let Some((kind, rules)) = full.min_by(|a, b| a.1.total_cmp(&b.1)) {
            all.push(format!(
                "The device is full after {} rules of the kind {kind}: keep the rest in software.",
                whole(rules)
            ));
        }
    }
    if let Some(report) = report(Study::Replacement) {
        let ways =
            rows(report).filter_map(|row| Some((at(row, "HOW")?, figure(row, "updates/s")?, lost(row))));
        let ways: Vec<_> = ways.collect();
        let clean = ways.iter().filter(|(_, _, lost)| *lost == Some(0.0)).max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((way, rate, _)) = clean {
            all.push(format!(
                "How to replace a rule: {way}, {} a second, without a packet that meets neither.",
                whole(*rate)
            ));
        } else if let Some((way, rate, _)) = ways.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            all.push(format!("How to replace a rule: {way} is fastest ({} a second).", whole(*rate)));
        }
    }
    all
}
