//! `valiant doctor` and `valiant ports`: what this machine offers.

use crate::cli::JsonArgs;
use std::process::ExitCode;

/// What there is, what is missing, and the command that mends it.
pub(crate) fn doctor(_args: &JsonArgs) -> ExitCode {
    eprintln!("not there yet");
    ExitCode::FAILURE
}

/// The ports that a configuration can use.
pub(crate) fn ports(_args: &JsonArgs) -> ExitCode {
    eprintln!("not there yet");
    ExitCode::FAILURE
}
