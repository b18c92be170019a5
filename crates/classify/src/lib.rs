//! Click's packet classification languages, compiled to decision programs.
//!
//! **What it is.** Three languages, compiled to one kind of [`Program`]:
//! - [`classifier`]: the clauses of `Classifier`, such as `12/0806 20/0001`;
//! - [`ip_filter`]: the rules of `IPFilter`, such as `allow tcp dst port 80 or 443`;
//! - [`ip_classifier`]: the patterns of `IPClassifier`.
//!
//! Patterns mean what the manual pages of Click's elements say, programs print as Click's `program` handler
//! prints them, and errors and warnings have Click's words. Compiling takes bounded time and memory for any
//! text; matching reads only bytes of the packet.
//!
//! **What it must not know.** Elements, the runtime, DPDK: a packet is a slice of bytes.
//!
//! **Read first.** `program.rs`, what is executed; then `graph.rs`, how a pattern becomes one, and
//! `bytes.rs`, the simplest of the languages.
//!
//! ```
//! let compiled = classify::classifier(&["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"], None);
//! let compiled = compiled.unwrap();
//! let mut arp_request = [0; 42];
//! arp_request[12..14].copy_from_slice(&[8, 6]);
//! arp_request[21] = 1;
//! assert_eq!(compiled.program.match_bytes(&arp_request), 0);
//!
//! let rules = ["allow tcp dst port 80 or 443", "deny all"];
//! let compiled = classify::ip_filter(&rules, Some(1), &classify::NoNames).unwrap();
//! assert_eq!(compiled.program.match_ip(&[0x45; 20]), classify::NO_MATCH);
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod diag;
mod graph;
mod ip;
mod names;
mod optimize;
mod path;
mod program;
#[cfg(test)]
mod tests;

pub use bytes::classifier;
pub use diag::{Diagnostic, Errors, Severity};
pub use ip::{ip_classifier, ip_filter};
pub use names::{Names, NoNames};
pub use path::Path;
pub use program::{IpParts, MAX_OUTPUT, NO_MATCH, Program};

/// The most tests that the patterns of one program may have, before they are optimized.
pub const MAX_TESTS: usize = 1 << 15;

/// A program and its warnings.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program.
    pub program: Program,
    /// Warnings, in the order of the patterns.
    pub warnings: Vec<Diagnostic>,
}

/// Makes the program unless there was an error.
fn finish(
    mut diagnostics: Vec<Diagnostic>,
    make: impl FnOnce(&mut Vec<Diagnostic>) -> Option<Program>,
) -> Result<Compiled, Errors> {
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(Errors(diagnostics));
    }
    match make(&mut diagnostics) {
        Some(program) => {
            program.warn_unused(&mut diagnostics);
            Ok(Compiled { program, warnings: diagnostics })
        }
        None => {
            diagnostics
                .push(Diagnostic::error(None, "patterns too large, the program has too many steps".into()));
            Err(Errors(diagnostics))
        }
    }
}
