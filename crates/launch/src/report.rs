//! Messages of a starting router, on standard error.

use crate::{logging, progress};
use lang::{Diagnostic, Diagnostics, Severity};
use std::io::IsTerminal;

/// Prints errors, in color on a terminal; as JSON if messages are JSON.
pub fn report(diags: &Diagnostics) {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    report_as(diags, |diags| diags.render(diags.sources(), color));
}

/// Prints errors as Click does; as JSON if messages are JSON.
pub fn report_as_click(diags: &Diagnostics) {
    report_as(diags, |diags| diags.render_plain(diags.sources()));
}

fn report_as(diags: &Diagnostics, text: impl FnOnce(&Diagnostics) -> String) {
    if diags.is_empty() {
        return;
    }
    if logging::is_json() {
        return diags.iter().for_each(|d| log(d, diags));
    }
    progress::aside(|| logging::print(&text(diags)));
}

/// Logs one diagnostic with its place.
fn log(d: &Diagnostic, diags: &Diagnostics) {
    let place = d.span.map(|span| diags.sources().locate(span));
    let file = place.as_ref().map(|p| p.file.as_str());
    let (line, column) = (place.as_ref().map(|p| p.line as u64), place.as_ref().map(|p| p.column as u64));
    let help = (!d.help.is_empty()).then(|| d.help.join("; "));
    let (help, message) = (help.as_deref(), &d.message);
    match d.severity {
        Severity::Info => tracing::info!(target: "configuration", file, line, column, help, "{message}"),
        Severity::Error => tracing::error!(target: "configuration", file, line, column, help, "{message}"),
        Severity::Warning => tracing::warn!(target: "configuration", file, line, column, help, "{message}"),
    }
}

/// Prints how the ports were opened and why, and notes: a line each.
pub fn describe_ports() {
    let environment = dpdk::Eal::get().map(dpdk::Eal::notes).unwrap_or_default();
    for note in environment {
        tracing::info!(target: "ports", "{note}");
    }
    for port in dpdk::all_ports() {
        tracing::info!(target: "ports", "{}", port.choice());
        for note in port.notes() {
            tracing::info!(target: "ports", "{}: {note}", port.name());
        }
    }
}
