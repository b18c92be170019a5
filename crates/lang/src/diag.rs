//! Diagnostics: errors and warnings about a configuration, with the place and a hint.

use crate::source::{SourceMap, Span};

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// What the configuration asks to be printed.
    Info,
    /// The configuration works, but it may not do what was intended.
    Warning,
    /// The configuration cannot be used.
    Error,
}

/// A second place that explains a diagnostic, such as an earlier declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The place, if there is one.
    pub span: Option<Span>,
    /// What is there.
    pub message: String,
}

/// What Click prints in front of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Landmark {
    /// The line of the message's place.
    #[default]
    Place,
    /// The line of another place: where the element is declared.
    At(Span),
    /// Nothing.
    None,
    /// Lines of their own, and no place.
    After(String),
    /// A line of its own: the place, what was being done (`While configuring`), to what. All messages in the
    /// same context stand below it, indented.
    While(Span, &'static str, String),
}

/// One message about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error, warning or neither.
    pub severity: Severity,
    /// The place, if the message has one.
    pub span: Option<Span>,
    /// The message, in Click's words where Click has them; lines after the first continue it.
    pub message: String,
    /// Related places.
    pub notes: Vec<Note>,
    /// Hints: what was probably meant, what to do.
    pub help: Vec<String>,
    /// How Click begins the message.
    pub landmark: Landmark,
}

impl Diagnostic {
    /// An error.
    pub fn error(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            span: span.into(),
            message: message.into(),
            notes: Vec::new(),
            help: Vec::new(),
            landmark: Landmark::Place,
        }
    }

    /// A warning.
    pub fn warning(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// What the configuration asks to be printed.
    pub fn info(span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Info, ..Diagnostic::error(span, message) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn with_note(mut self, span: impl Into<Option<Span>>, message: impl Into<String>) -> Diagnostic {
        self.notes.push(Note { span: span.into(), message: message.into() });
        self
    }

    /// Sets how Click begins the message.
    #[must_use]
    pub fn with_landmark(mut self, landmark: Landmark) -> Diagnostic {
        self.landmark = landmark;
        self
    }

    /// Adds `did you mean 'x'?` if a candidate is near to `name`.
    #[must_use]
    pub fn with_nearest<S: AsRef<str>>(
        self,
        name: &str,
        what: &str,
        candidates: impl IntoIterator<Item = S>,
    ) -> Diagnostic {
        match nearest(name, candidates) {
            Some(near) => self.with_help(format!("{what} '{near}' has a similar name")),
            None => self,
        }
    }
}

/// All messages about a configuration, in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: SourceMap,
    parsed: bool,
}

/// Messages kept for each severity, so that the report about a broken file is readable whatever the file's
/// size.
const MAX_KEPT: usize = 200;

impl Diagnostics {
    /// No messages.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a message; an exact repetition is dropped.
    pub fn push(&mut self, d: Diagnostic) {
        let mut same = self.list.iter().filter(|x| x.severity == d.severity);
        if !same.clone().any(|x| *x == d) && same.nth(MAX_KEPT - 1).is_none() {
            self.list.push(d);
        }
    }

    /// Adds an error.
    pub fn error(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::error(span, message));
    }

    /// Adds an error with a hint.
    pub fn error_with_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.push(Diagnostic::error(span, message).with_help(help));
    }

    /// Adds a warning.
    pub fn warning(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::warning(span, message));
    }

    /// Adds messages before the others: what was found earlier.
    pub fn prepend(&mut self, earlier: impl IntoIterator<Item = Diagnostic>) {
        let later = std::mem::take(&mut self.list);
        earlier.into_iter().chain(later).for_each(|d| self.push(d));
    }

    /// Keeps errors, and what the configuration asks to be printed.
    pub fn drop_warnings(&mut self) {
        self.list.retain(|d| d.severity != Severity::Warning);
    }

    /// Adds all messages of another collection.
    pub fn append(&mut self, other: Diagnostics) {
        other.list.into_iter().for_each(|d| self.push(d));
        if self.sources.is_empty() {
            self.sources = other.sources;
        }
    }

    /// The messages.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is an error among the messages.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }

    /// The sources that the spans refer to, if they are known.
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// Sets the sources that the spans refer to.
    pub fn set_sources(&mut self, sources: SourceMap) {
        self.sources = sources;
    }

    /// Whether the configuration was parsed, and the messages are about what followed.
    pub fn is_parsed(&self) -> bool {
        self.parsed
    }

    /// The configuration has been parsed.
    pub fn set_parsed(&mut self) {
        self.parsed = true;
    }

    /// Orders the messages by their place, those without one last.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|d| (d.span.is_none(), d.span.map(|s| (s.source, s.start))));
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// Text as it may be shown in a message: control characters escaped, long text cut.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i >= 60 {
            out.push_str("...");
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Edits (insert, delete, replace, swap neighbors) between two words, ignoring case; `None` above `limit`.
fn edit_distance(a: &[char], b: &[char], limit: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = usize::from(!a[i - 1].eq_ignore_ascii_case(&b[j - 1]));
            let mut cost = (last[j - 1] + same).min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1
                && j > 1
                && a[i - 1].eq_ignore_ascii_case(&b[j - 2])
                && a[i - 2].eq_ignore_ascii_case(&b[j - 1])
            {
                cost = cost.min(before[j - 2] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&d| d <= limit)
}

/// The candidate most like `name`, if one is similar enough: at most a third of the letters differ. Of
/// equally similar ones, the first is returned. Differences in letter case count little.
pub fn nearest<S: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = S>) -> Option<String> {
    let word: Vec<char> = name.chars().take(64).collect();
    let limit = match word.len() {
        0 => return None,
        1..=2 => 1,
        n => (n / 3).max(1),
    };
    let mut best: Option<(usize, S)> = None;
    for c in candidates {
        let text = c.as_ref();
        if text == name {
            continue;
        }
        let other: Vec<char> = text.chars().take(80).collect();
        if let Some(d) = edit_distance(&word, &other, limit)
            && d < other.len().max(1)
            && best.as_ref().is_none_or(|(b, _)| d < *b)
        {
            best = Some((d, c));
        }
    }
    best.map(|(_, c)| c.as_ref().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["Queue", "Counter", "Discard", "ToDevice"];
        assert_eq!(nearest("Quue", names).as_deref(), Some("Queue"));
        assert_eq!(nearest("queue", names).as_deref(), Some("Queue"));
        assert_eq!(nearest("Conuter", names).as_deref(), Some("Counter"));
        assert_eq!(nearest("Xyzzy", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("a", ["b"]), None);
    }

    #[test]
    fn repetitions_are_dropped() {
        let mut d = Diagnostics::new();
        d.error(None, "x");
        d.error(None, "x");
        d.warning(None, "x");
        assert_eq!(d.len(), 2);
        assert!(d.has_errors());
    }
}
