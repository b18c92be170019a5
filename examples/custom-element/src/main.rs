//! `valiant` with the elements of this crate.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    let mut registry = elements::registry();
    custom_element::register(&mut registry);
    valiant::main_with(registry)
}
