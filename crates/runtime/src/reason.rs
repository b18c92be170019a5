//! Errors of the operating system in words.

/// An I/O error without Rust's suffix, as C programs print it.
#[must_use]
pub fn reason(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
