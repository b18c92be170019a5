//! What a starting router tells its user, on standard error.

use lang::Diagnostics;
use std::io::IsTerminal;

/// Prints what is wrong, in color for a terminal.
pub fn report(diags: &Diagnostics) {
    if diags.is_empty() {
        return;
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    eprint!("{}", diags.render(diags.sources(), color));
}

/// Says how the ports were opened and why, and what the memory costs: a line each.
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
