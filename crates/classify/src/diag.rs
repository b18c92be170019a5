//! Errors and warnings about patterns.

use std::fmt;
use std::ops::Range;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// There is no program.
    Error,
    /// There is a program, but it may not do what was intended.
    Warning,
}

/// An error or a warning, in Click's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Which pattern (argument) it is about.
    pub pattern: Option<usize>,
    /// The bytes of the pattern's text that it is about.
    pub span: Option<Range<usize>>,
    /// The message, with Click's prefix that names the pattern.
    pub message: String,
    /// A hint.
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn error(pattern: Option<usize>, message: String) -> Self {
        Diagnostic { severity: Severity::Error, pattern, span: None, message, hint: None }
    }

    pub(crate) fn warning(pattern: Option<usize>, message: String) -> Self {
        Diagnostic { severity: Severity::Warning, pattern, span: None, message, hint: None }
    }

    pub(crate) fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// Why there is no program: every error that was found, and the warnings with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Diagnostic>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
