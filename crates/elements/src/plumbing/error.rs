//! # Error
//! Prevents the configuration from starting.
//!
//! It replaces an element that is not available, and accepts any arguments, ports and connections.
//! `ErrorElement` is another name for it.
//!
//! ## Synopsis
//! `Error(...)`
//!
//! ## Arguments
//! Any arguments are ignored.
//!
//! ## Ports
//! Any number of inputs and outputs, agnostic.
//!
//! ## Threads
//! Never runs.
//!
//! ## Example
//! ```click
//! // With the next line the configuration does not start.
//! // Idle -> Error(anything) -> Discard;
//! Idle -> Discard;
//! ```
//!
//! ## See also
//! Message

use crate::prelude::*;

/// The `Error` element.
pub struct Error;

impl Element for Error {
    const CLASS: &'static str = "Error";
    const PORTS: &'static str = "-/-";
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/error");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        args.rest();
        Ok(Self)
    }

    fn initialize(&mut self, _cx: &mut Cx<'_>) -> Result<(), String> {
        Err("an Error element never starts".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn never_starts() {
        assert!(Bench::error("Error(what, EVER 1)").contains("never starts"));
        assert!(Bench::error("ErrorElement()").contains("never starts"));
    }
}
