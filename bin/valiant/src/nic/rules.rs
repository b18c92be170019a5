//! `valiant nic rules`: where the flow rules of a running router are, and what they have counted.

use crate::remote::{SocketArgs, connect, refused};
use clap::Args;
use launch::Client;
use launch::logging::error;
use launch::output::print;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
It shows the rules of each element that has some: FromDevice with RULES, FlowClassifier. Rules that the device of a port carries out are in `hardware`; of the others it says why they are not, which is what the driver said when it refused. `-` in place of a count: the rule has no action `count`, or its device does not count.

Examples:
  valiant nic rules                           the router with `-p 7777`
  valiant nic rules in0 --socket /run/valiant/edge.sock
  valiant nic rules --json | jq '.[].rules[] | select(.engine == \"software\")'

Exit status: 0 shown, 1 the router could not be asked or the element has no rules, 2 wrong usage.";

#[derive(Args)]
pub(super) struct RulesArgs {
    /// The element, or the port that it receives from; without, all that have rules.
    element: Option<String>,
    #[command(flatten)]
    socket: SocketArgs,
}

/// The elements that have rules, with what they say of them.
fn read(client: &mut Client, wanted: Option<&str>) -> io::Result<Vec<(String, Value)>> {
    let list = client.read("list", "")?;
    // The first line is the number of elements.
    let names: Vec<&str> = list.lines().skip(1).filter(|name| !name.is_empty()).collect();
    let mut found = Vec::new();
    for name in names {
        // Most elements have no such handler, and ports without rules refuse.
        let Ok(text) = client.read(&format!("{name}.rules_json"), "") else { continue };
        let is_wanted = |wanted: &str| {
            wanted == name
                || client
                    .read(&format!("{name}.port"), "")
                    .is_ok_and(|port| port.lines().next() == Some(wanted))
        };
        if wanted.is_none_or(is_wanted)
            && let Ok(rules) = serde_json::from_str(&text)
        {
            found.push((name.to_owned(), rules));
        }
    }
    Ok(found)
}

/// `valiant nic rules`.
pub(super) fn show(args: &RulesArgs) -> ExitCode {
    let wanted = args.element.as_deref();
    match connect(&args.socket).and_then(|mut client| read(&mut client, wanted)) {
        Err(e) => refused(&args.socket, &e),
        Ok(found) if found.is_empty() && wanted.is_some() => {
            error(&format!("{}: no element of this name or port has flow rules", wanted.unwrap_or_default()));
            error("help: `valiant nic rules` without a name shows all that have some");
            ExitCode::FAILURE
        }
        Ok(found) => {
            let text = if args.socket.json {
                let all = found.into_iter().map(|(name, rules)| json!({"element": name, "rules": rules}));
                format!("{}\n", Value::from_iter(all))
            } else {
                table(&found)
            };
            print(&text);
            ExitCode::SUCCESS
        }
    }
}

fn table(found: &[(String, Value)]) -> String {
    if found.is_empty() {
        return "no element has flow rules\n".to_owned();
    }
    let mut text = String::new();
    for (name, rules) in found {
        let rules = rules.as_array().map_or(&[][..], Vec::as_slice);
        let there = rules.iter().filter(|rule| rule["engine"] == "hardware").count();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name}: {} rules, {there} in hardware, {} in software",
            rules.len(),
            rules.len() - there
        );
        let _ = writeln!(text, "  {:>8} {:>12} {:8} rule", "number", "packets", "engine");
        for rule in rules {
            let packets =
                rule["packets"].as_u64().map_or_else(|| "-".to_owned(), |packets| packets.to_string());
            let word = |name: &str| rule[name].as_str().unwrap_or_default();
            let _ = writeln!(
                text,
                "  {:>8} {packets:>12} {:8} {}",
                rule["number"].as_u64().unwrap_or_default(),
                word("engine"),
                word("rule")
            );
            if !word("reason").is_empty() {
                let _ = writeln!(text, "  {:>8} {:>12} {:8} not in hardware: {}", "", "", "", word("reason"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_rules_are_and_why() {
        let rules = json!([
            {"number": 0, "rule": "flow create 0 ...", "engine": "hardware", "reason": null, "packets": 7},
            {"number": 3, "rule": "flow create 0 !", "engine": "software", "reason": "no TCP", "packets": null},
        ]);
        let text = table(&[("in".to_owned(), rules)]);
        assert!(text.starts_with("in: 2 rules, 1 in hardware, 1 in software\n"), "{text}");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[2], ["0", "7", "hardware", "flow", "create", "0", "..."]);
        assert_eq!(lines[3][..3], ["3", "-", "software"]);
        assert_eq!(lines[4].join(" "), "not in hardware: no TCP");
        assert_eq!(table(&[]), "no element has flow rules\n");
    }
}
