//! Messages of a starting router, on standard error.

use lang::Diagnostics;
use std::io::IsTerminal;

/// Prints errors, in color on a terminal.
pub fn report(diags: &Diagnostics) {
    if diags.is_empty() {
        return;
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    eprint!("{}", diags.render(diags.sources(), color));
}

/// Prints how the ports were opened and why, and notes: a line each.
pub fn describe_ports() {
    let environment = dpdk::Eal::get().map(dpdk::Eal::notes).unwrap_or_default();
    for note in environment {
        eprintln!("{note}");
    }
    for port in dpdk::all_ports() {
        eprintln!("{}", port.choice());
        for note in port.notes() {
            eprintln!("{}: {note}", port.name());
        }
    }
}

/// An I/O error without Rust's suffix, as C programs print it.
#[must_use]
pub fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
