//! The `valiant` command.
#![forbid(unsafe_code)]
fn main() {}
