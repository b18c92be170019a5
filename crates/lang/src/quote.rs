//! Quoting, comments and splitting of configuration strings.
//!
//! A configuration string is a list of arguments separated by commas; an argument is a list of words
//! separated by spaces. Commas, spaces and comments lose their meaning inside `'...'` and `"..."`. Inside
//! double quotes backslash escapes are replaced; `\<hex digits>` is replaced outside quotes too. Comments
//! count as one space.

use crate::source::Span;
use std::ops::Range;

/// One argument of a configuration string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its text: no surrounding space, comments replaced by spaces, quotes as written.
    pub text: String,
    /// Where it stands in the configuration string, in bytes.
    pub range: Range<usize>,
    /// Where it stands in the source, if known.
    pub span: Option<Span>,
}

/// C's `isspace`.
pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn starts_comment(s: &[u8], i: usize) -> bool {
    s[i] == b'/' && matches!(s.get(i + 1), Some(b'/' | b'*'))
}

/// The position after the comment that starts at `i`.
fn skip_comment(s: &[u8], i: usize) -> usize {
    let mut j = i + 2;
    if s[i + 1] == b'/' {
        while j < s.len() && s[j] != b'\n' && s[j] != b'\r' {
            j += 1;
        }
        if s.get(j) == Some(&b'\r') && s.get(j + 1) == Some(&b'\n') {
            j += 1;
        }
        return (j + 1).min(s.len());
    }
    while j < s.len() {
        if s[j] == b'*' && s.get(j + 1) == Some(&b'/') {
            return j + 2;
        }
        j += 1;
    }
    s.len()
}

/// The position after the spaces and comments at `i`.
pub(crate) fn skip_space(s: &[u8], mut i: usize) -> usize {
    while i < s.len() {
        if is_space(s[i]) {
            i += 1;
        } else if starts_comment(s, i) {
            i = skip_comment(s, i);
        } else {
            break;
        }
    }
    i
}

/// The position after the escape sequence whose backslash is at `i`.
fn skip_backslash(s: &[u8], i: usize) -> usize {
    match s.get(i + 1) {
        None => i + 1,
        Some(b'<') => {
            let mut j = i + 2;
            while j < s.len() {
                if s[j] == b'>' {
                    return j + 1;
                }
                j = if starts_comment(s, j) { skip_comment(s, j) } else { j + 1 };
            }
            j
        }
        Some(b'\r') if s.get(i + 2) == Some(&b'\n') => i + 3,
        Some(_) => i + 2,
    }
}

/// The position after the quoted string that starts at `i`; the end if it is not closed.
fn skip_quoted(s: &[u8], i: usize) -> usize {
    let quote = s[i];
    let mut j = i + 1;
    while j < s.len() {
        if s[j] == b'\\' && quote == b'"' {
            j = skip_backslash(s, j);
        } else if s[j] == quote {
            return j + 1;
        } else {
            j += 1;
        }
    }
    s.len()
}

/// The position after the quoted string, `\<...>` or character at `i`.
fn skip_piece(s: &[u8], i: usize) -> usize {
    match s[i] {
        b'\'' | b'"' => skip_quoted(s, i),
        b'\\' if s.get(i + 1) == Some(&b'<') => skip_backslash(s, i).min(s.len()),
        _ => i + 1,
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads one argument at `pos`: its text without comments, its range, and where it stopped (at a comma, if
/// `commas`).
fn scan_argument(s: &[u8], pos: usize, commas: bool) -> (Vec<u8>, Range<usize>, usize) {
    let start = skip_space(s, pos);
    let (mut i, mut left, mut right) = (start, start, start);
    let mut out = Vec::new();
    let mut after_comment = false;
    while i < s.len() {
        if is_space(s[i]) {
            i += 1;
        } else if starts_comment(s, i) {
            i = skip_comment(s, i);
            after_comment = true;
        } else if s[i] == b',' && commas {
            break;
        } else {
            if after_comment {
                out.extend_from_slice(&s[left..right]);
                out.push(b' ');
                left = i;
                after_comment = false;
            }
            i = skip_piece(s, i);
            right = i;
        }
    }
    out.extend_from_slice(&s[left..right]);
    (out, start..right, i)
}

/// Removes surrounding space and replaces comments, with the space around them, by one space.
pub fn uncomment(text: &str) -> String {
    text_of(&scan_argument(text.as_bytes(), 0, false).0)
}

/// Splits a configuration string at its commas. An empty last argument does not count.
pub fn split_args(config: &str) -> Vec<Arg> {
    let s = config.as_bytes();
    let mut args = Vec::new();
    let mut pos = 0;
    while pos < s.len() {
        let (text, range, stop) = scan_argument(s, pos, true);
        if !text.is_empty() || stop < s.len() {
            args.push(Arg { text: text_of(&text), range, span: None });
        }
        pos = stop + 1;
    }
    args
}

fn word_end(s: &[u8], mut i: usize) -> usize {
    while i < s.len() && !is_space(s[i]) && !starts_comment(s, i) {
        i = skip_piece(s, i);
    }
    i
}

/// Splits text at unquoted space.
pub fn split_words(text: &str) -> Vec<Arg> {
    let s = text.as_bytes();
    let mut words = Vec::new();
    let mut i = skip_space(s, 0);
    while i < s.len() {
        let end = word_end(s, i);
        words.push(Arg { text: text_of(&s[i..end]), range: i..end, span: None });
        i = skip_space(s, end);
    }
    words
}

/// The first word of a text and the rest without the space between them.
pub fn shift_word(text: &str) -> (String, String) {
    let s = text.as_bytes();
    let start = skip_space(s, 0);
    let end = word_end(s, start);
    (text_of(&s[start..end]), text_of(&s[skip_space(s, end)..]))
}

/// The words of a text, taken off one by one: [`shift_word`] without a copy of the rest for each.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// All words of a text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: skip_space(text.as_bytes(), 0) }
    }
    /// The rest of the text, without the space before it.
    #[must_use]
    pub fn rest(&self) -> &'a str {
        // Words begin and end at ASCII characters.
        self.text.get(self.at..).unwrap_or_default()
    }
    /// Takes the next word; empty when there is none.
    pub fn shift(&mut self) -> &'a str {
        let s = self.text.as_bytes();
        let end = word_end(s, self.at);
        let word = self.text.get(self.at..end).unwrap_or_default();
        self.at = skip_space(s, end);
        word
    }
}

/// Joins arguments with commas.
pub fn join_args<S: AsRef<str>>(args: &[S]) -> String {
    args.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

fn hex(b: u8) -> Option<u8> {
    (b as char).to_digit(16).map(|d| d as u8)
}

/// Appends the characters for the escape at `i`; returns the position after it.
fn unescape(s: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    let Some(&c) = s.get(i + 1) else {
        out.push(b'\\');
        return i + 1;
    };
    let simple = match c {
        b'\r' | b'\n' => return skip_backslash(s, i),
        b'a' => 7,
        b'b' => 8,
        b't' => 9,
        b'n' => 10,
        b'v' => 11,
        b'f' => 12,
        b'r' => 13,
        b'0'..=b'7' => {
            let mut j = i + 1;
            let mut value = 0u32;
            while j < s.len() && j < i + 4 && (b'0'..=b'7').contains(&s[j]) {
                value = value * 8 + u32::from(s[j] - b'0');
                j += 1;
            }
            out.push(value as u8);
            return j;
        }
        b'x' => {
            let mut j = i + 2;
            let mut value = 0u8;
            while let Some(d) = s.get(j).copied().and_then(hex) {
                value = (value << 4) | d;
                j += 1;
            }
            out.push(value);
            return j;
        }
        b'<' => return unescape_data(s, i + 2, out),
        other => other,
    };
    out.push(simple);
    i + 2
}

/// Appends the bytes of a `\<...>` sequence whose digits start at `i`.
fn unescape_data(s: &[u8], mut i: usize, out: &mut Vec<u8>) -> usize {
    let mut high: Option<u8> = None;
    while i < s.len() && s[i] != b'>' {
        if starts_comment(s, i) {
            i = skip_comment(s, i);
            continue;
        }
        if let Some(d) = hex(s[i]) {
            match high.take() {
                None => high = Some(d),
                Some(h) => out.push((h << 4) | d),
            }
        }
        i += 1;
    }
    (i + 1).min(s.len())
}

/// Removes comments and one level of quoting; the data may be any bytes.
pub fn unquote_bytes(text: &str) -> Vec<u8> {
    let s = scan_argument(text.as_bytes(), 0, false).0;
    let mut out = Vec::with_capacity(s.len());
    let mut quote = 0u8;
    let mut i = 0;
    while i < s.len() {
        match s[i] {
            c @ (b'"' | b'\'') if quote == 0 => {
                quote = c;
                i += 1;
            }
            c if quote != 0 && c == quote => {
                quote = 0;
                i += 1;
            }
            b'\\' if i + 1 < s.len() && (quote == b'"' || (quote == 0 && s[i + 1] == b'<')) => {
                i = unescape(&s, i, &mut out);
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

/// [`unquote_bytes`] as text; bytes that are not UTF-8 are replaced.
pub fn unquote(text: &str) -> String {
    text_of(&unquote_bytes(text))
}

/// A double-quoted string that unquotes to `data`.
pub fn quote_bytes(data: &[u8]) -> String {
    let mut out = String::with_capacity(data.len() + 2);
    out.push('"');
    for &b in data {
        match b {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(b as char);
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            0x20..=0x7e => out.push(b as char),
            _ => out.push_str(&format!("\\{b:03o}")),
        }
    }
    out.push('"');
    out
}

/// A double-quoted string that unquotes to `text`.
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Whether the text is one word as Click's strings must be: not empty, no space outside quotes.
pub(crate) fn is_one_word(text: &str) -> bool {
    let s = text.as_bytes();
    let mut i = 0;
    while i < s.len() && !is_space(s[i]) {
        i = skip_piece(s, i);
    }
    i == s.len() && i > 0
}

/// The keyword at the start of an argument (letters, digits and `_.:?!`) and the offset of what follows it.
pub(crate) fn leading_keyword(text: &str) -> Option<(&str, usize)> {
    let s = text.as_bytes();
    let end = s.iter().position(|&b| is_space(b)).unwrap_or(s.len());
    let ok = |b: u8| b.is_ascii_alphanumeric() || b"_.:?!".contains(&b);
    if end == 0 || !s[..end].iter().all(|&b| ok(b)) {
        return None;
    }
    let rest = s[end..].iter().position(|&b| !is_space(b)).map_or(s.len(), |n| end + n);
    Some((&text[..end], rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(s: &str) -> Vec<String> {
        split_args(s).into_iter().map(|a| a.text).collect()
    }

    #[test]
    fn splitting() {
        assert_eq!(args("a, b, c"), ["a", "b", "c"]);
        assert_eq!(args("  a /*?*/ b,  c, "), ["a b", "c"]);
        assert_eq!(args("\"x, y\" // ?"), ["\"x, y\""]);
        assert_eq!(args("a,,b"), ["a", "", "b"]);
        assert_eq!(args(""), [""; 0]);
        assert_eq!(args(" /* c */ "), [""; 0]);
        assert_eq!(args(","), [""]);
        assert_eq!(args("\\<2c, /* > */ 2c>, 'a, b'"), ["\\<2c, /* > */ 2c>", "'a, b'"]);
        assert_eq!(split_args(" a , b")[1].range, 5..6);
        assert_eq!(uncomment("  a   b  "), "a   b");
        assert_eq!(uncomment("\" /*???  */ \""), "\" /*???  */ \"");
        let words: Vec<String> = split_words("  'a /*?*/ b'c  d/**/e").into_iter().map(|a| a.text).collect();
        assert_eq!(words, ["'a /*?*/ b'c", "d", "e"]);
        assert_eq!(shift_word(" $x  1 2 "), ("$x".into(), "1 2 ".into()));
    }

    #[test]
    fn words_are_taken_off_one_by_one() {
        for text in [
            "",
            "  ",
            " a  b/**/c 'd e' ",
            "\u{e9}\u{e8} \"\\\u{e9}\" x",
            "\"open \u{e9}",
            "\\<41 ",
            "/* only",
            "a//b\nc",
        ] {
            let (mut rest, mut words) = (text.trim_start().to_owned(), Words::new(text));
            loop {
                let (word, after) = shift_word(&rest);
                assert_eq!((word.as_str(), after.as_str()), (words.shift(), words.rest()), "{text}");
                if after.is_empty() {
                    break;
                }
                rest = after;
            }
        }
    }

    #[test]
    fn unquoting() {
        assert_eq!(unquote("\"\\n\" abc /* 123 */ '/* def */'"), "\n abc /* def */");
        assert_eq!(unquote("a\"b\"c"), "abc");
        assert_eq!(unquote("\\<48 45 4c 4C /* x */ 4f>"), "HELLO");
        assert_eq!(unquote("'\\<48>'"), "\\<48>");
        assert_eq!(unquote("\"\\101\\x1F42\\\\\\\"\\$\\q\""), "AB\\\"$q");
        assert_eq!(unquote_bytes("\"\\377\\<fe f>\""), [0xff, 0xfe]);
        assert_eq!(unquote("\"a\\\nb\\\r\nc\""), "abc");
        assert_eq!(unquote("a\\b"), "a\\b");
        assert_eq!(unquote("\"\\"), "\\");
    }

    #[test]
    fn quoting() {
        assert_eq!(quote("a\"b$\n\u{e9}"), "\"a\\\"b\\$\\n\\303\\251\"");
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unquote_bytes(&quote_bytes(&all)), all);
    }

    #[test]
    fn words() {
        assert!(is_one_word("a\"b c\"d"));
        assert!(!is_one_word("a b"));
        assert!(!is_one_word(""));
        assert_eq!(leading_keyword("LIMIT  10"), Some(("LIMIT", 7)));
        assert_eq!(leading_keyword("\"x\" 10"), None);
    }
}
