//! Why a command failed, as text and as JSON.

use lang::Diagnostics;
use serde_json::json;
use std::path::Path;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// An error message.
    Text(String),
    /// Errors in files.
    Diagnostics(Box<Diagnostics>),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Diagnostics> for Failure {
    fn from(diags: Diagnostics) -> Self {
        Self::Diagnostics(Box::new(diags))
    }
}

impl Failure {
    /// Prints it on standard error.
    pub fn report(&self) {
        match self {
            Self::Text(text) => crate::logging::error(&format!("error: {text}")),
            Self::Diagnostics(diags) => crate::report(diags),
        }
    }
    /// It as text, without excerpts of files.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Diagnostics(diags) => diags.render_plain(diags.sources()).trim_end().to_owned(),
        }
    }
    /// It as what `--json` prints.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!({"ok": false, "error": text}),
            Self::Diagnostics(diags) => json!({"ok": false, "diagnostics": diags.to_json(diags.sources())}),
        }
    }
}

/// A path relative to the working directory, if it is below it.
#[must_use]
pub fn shortest(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let below = path.strip_prefix(&here).unwrap_or(path);
    if below.as_os_str().is_empty() { ".".to_owned() } else { below.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_here() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(shortest(&here.join("a/b")), "a/b");
        assert_eq!(shortest(&here), ".");
        assert_eq!(shortest(Path::new("/none")), "/none");
    }
}
