//! How a test says that it, or a part of it, cannot run here. The tests of each crate take it in with
//! `#[path]`.

/// Names the test that is not run, and why, in a line that `scripts/test` counts; libtest holds back what
/// `eprintln!` prints.
pub fn skip(why: &str) {
    use std::io::Write;
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("\nSKIP: {}::{name}: {why}\n", env!("CARGO_CRATE_NAME"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}
