//! Results of a command: the result for each node, exit statuses.

use launch::output::print;
use serde_json::json;
use std::process::ExitCode;

/// Something was done, but not by all nodes.
pub(crate) const SOME_DO_NOT_ANSWER: u8 = 3;

/// The result for a node.
pub(crate) struct Outcome {
    pub(crate) node: u16,
    /// `started`, `changed`, ...
    pub(crate) what: &'static str,
    /// The reason, if it failed.
    pub(crate) problem: Option<String>,
}

impl Outcome {
    pub(crate) fn new(node: u16, what: &'static str) -> Self {
        Self { node, what, problem: None }
    }
    pub(crate) fn failed(node: u16, problem: impl Into<String>) -> Self {
        Self { node, what: "failed", problem: Some(problem.into()) }
    }
}

pub(crate) fn conclude(outcomes: &[Outcome], as_json: bool) -> ExitCode {
    if as_json {
        let list: Vec<_> =
            outcomes.iter().map(|o| json!({"node": o.node, "what": o.what, "problem": o.problem})).collect();
        let ok = outcomes.iter().all(|o| o.problem.is_none());
        print(&format!("{}\n", json!({"ok": ok, "nodes": list})));
    } else {
        for outcome in outcomes {
            match &outcome.problem {
                None => print(&format!("node {}: {}\n", outcome.node, outcome.what)),
                Some(problem) => {
                    launch::logging::error(&format!("node {}: {}: {problem}", outcome.node, outcome.what));
                }
            }
        }
    }
    if outcomes.iter().any(|o| o.problem.is_some()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The exit status, depending on whether all nodes have answered.
pub(crate) fn heard(all: bool) -> ExitCode {
    if all { ExitCode::SUCCESS } else { ExitCode::from(SOME_DO_NOT_ANSWER) }
}
