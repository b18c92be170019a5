//! The `valiant` command; under the name `click` it acts as Click's user-level driver.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    valiant::main_with(elements::registry())
}
