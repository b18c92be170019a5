//! The words of a line, and what is said about them.

use super::value::{Form, Wrong};
use lang::{Diagnostic, Diagnostics, Severity, Span};
use std::fmt;

/// So many errors, and so many warnings, are kept: a report about a broken file stays readable.
const MOST: usize = 200;

/// The errors and warnings about a file.
#[derive(Default)]
pub(super) struct Messages {
    /// The first ones.
    pub diags: Diagnostics,
    errors: usize,
    warnings: usize,
}

/// A word of the text and where it begins.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    /// The word.
    pub text: &'a str,
    start: usize,
}

impl Word<'_> {
    /// Its place.
    pub fn span(self) -> Span {
        Span::new(0, self.start, self.start + self.text.len())
    }

    /// Whether it ends an item, an action, or all of them.
    pub fn is_end(self) -> bool {
        matches!(self.text, "/" | "end" | "actions")
    }
}

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 60;
        let (shown, rest) = self.text.split_at(self.text.floor_char_boundary(MOST));
        let shown = shown.escape_debug();
        write!(f, "{shown}{}", if rest.is_empty() { "" } else { "..." })
    }
}

/// The lines of a text: number from 1, first byte, and the byte after the last one that is no comment.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    let bytes = text.as_bytes();
    let (mut number, mut start) = (0, 0);
    std::iter::from_fn(move || {
        if start >= bytes.len() {
            return None;
        }
        let first = start;
        let ends = |from: usize, comment: bool| {
            let end = |b: &u8| matches!(b, b'\n' | b'\r') || comment && *b == b'#';
            bytes[from..].iter().position(end).map_or(bytes.len(), |length| from + length)
        };
        let end = ends(first, true);
        let next = if bytes.get(end) == Some(&b'#') { ends(end, false) } else { end };
        let pair = bytes[next..].starts_with(b"\r\n");
        start = next + if pair { 2 } else { 1 };
        number += 1;
        Some((number, first, end))
    })
}

/// The words of one line, read from left to right.
pub(super) struct Line<'a, 'm> {
    text: &'a str,
    /// The next word, and where the one after it may begin.
    ahead: Option<Word<'a>>,
    at: usize,
    end: usize,
    messages: &'m mut Messages,
    wrong: bool,
}

impl<'a, 'm> Line<'a, 'm> {
    /// The words of `text[start..end]`.
    pub fn new(text: &'a str, start: usize, end: usize, messages: &'m mut Messages) -> Self {
        let mut line = Self { text, ahead: None, at: start, end, messages, wrong: false };
        line.next();
        line
    }

    /// Whether there was an error.
    pub fn is_wrong(&self) -> bool {
        self.wrong
    }

    /// Leaves out testpmd's prompt.
    pub fn skip_prompt(&mut self) {
        const PROMPT: &str = "testpmd>";
        if let Some(word) = self.peek().filter(|word| word.text.starts_with(PROMPT)) {
            self.at = word.start + PROMPT.len();
            self.next();
        }
    }

    /// The next word, which stays the next one.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.ahead
    }

    /// The next word.
    pub fn next(&mut self) -> Option<Word<'a>> {
        let bytes = &self.text.as_bytes()[self.at..self.end];
        let before = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
        let rest = &bytes[before..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let start = self.at + before;
        self.at = start + length;
        let word = Word { text: &self.text[start..self.at], start };
        std::mem::replace(&mut self.ahead, (length != 0).then_some(word))
    }

    /// The next word if it is none of those that end an item.
    pub fn next_inside(&mut self) -> Option<Word<'a>> {
        self.ahead.filter(|word| !word.is_end())?;
        self.next()
    }

    /// Leaves out all words before one of these.
    pub fn skip_to(&mut self, words: &[&str]) {
        while self.peek().is_some_and(|word| !words.contains(&word.text)) {
            self.next();
        }
    }

    /// Leaves out the rest of an item or an action, with the `/` behind it.
    pub fn skip_rest(&mut self) {
        self.skip_to(&["/", "actions"]);
        if self.peek().is_some_and(|word| word.text == "/") {
            self.next();
        }
    }

    /// The `/` after an item or an action. Says it if another word is there.
    pub fn slash(&mut self) {
        match self.peek() {
            Some(word) if word.text == "/" => {
                self.next();
            }
            Some(word) => self.error(|| {
                Diagnostic::error(word.span(), format!("'/' is missing before '{word}'"))
                    .with_help("a '/' between spaces stands after each item and each action, then 'end'")
            }),
            None => self.missing("'/ end'", "items and actions end with '/ end'"),
        }
    }

    /// An error, which is made only if it is kept.
    pub fn error(&mut self, make: impl FnOnce() -> Diagnostic) {
        self.wrong = true;
        if self.messages.errors < MOST {
            self.messages.errors += 1;
            self.messages.diags.push(make());
        }
    }

    /// A warning likewise.
    pub fn warning(&mut self, make: impl FnOnce() -> Diagnostic) {
        if self.messages.warnings < MOST {
            self.messages.warnings += 1;
            self.messages.diags.push(Diagnostic { severity: Severity::Warning, ..make() });
        }
    }

    /// Something is not there: an error at the next word, or after the last one.
    pub fn missing(&mut self, what: &str, help: &str) {
        let here = self.text[..self.end].trim_ascii_end().len();
        let span = self.peek().map_or(Span::new(0, here, here), Word::span);
        self.error(|| Diagnostic::error(span, format!("{what} is missing")).with_help(help));
    }

    /// The next word as a number of at most this. What is wrong with it has been told.
    pub fn number(&mut self, name: &str, most: u64) -> Option<u64> {
        self.value(name, Form::Number, u128::from(most)).map(|value| value as u64)
    }

    /// The next word as a value of this form.
    pub fn value(&mut self, name: &str, form: Form, most: u128) -> Option<u128> {
        let Some(word) = self.next_inside() else {
            self.missing(&format!("the value of {name}"), &format!("{name} takes {}", form.what(most)));
            return None;
        };
        let read = form.read(word.text, most);
        if let Err(wrong) = read {
            let message = match wrong {
                Wrong::Form => format!("{name}: '{word}' is not {}", form.name()),
                Wrong::Range => format!("{name} = {word} is out of range"),
            };
            let help = match word.text.split_once('/') {
                Some((address, length)) if form.is_address() => {
                    format!("a prefix is '{name} spec {address} {name} prefix {length}'")
                }
                _ => format!("{name} takes {}", form.what(most)),
            };
            self.error(|| Diagnostic::error(word.span(), message).with_help(help));
        }
        read.ok()
    }
}
