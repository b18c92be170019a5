//! Text to tokens.
//!
//! Configuration strings are not tokens: after a `(` the parser reads the rest as a whole
//! ([`Lexer::config`]). Only the parser knows whether a `(` starts a configuration string or an element
//! group. So tokens are made on demand, and giving one back ([`Lexer::back`]) means going back to its start.

use crate::diag::{Diagnostic, Diagnostics, printable};
use crate::quote::{is_space, unquote};
use crate::source::{SourceMap, Span};
use std::sync::Arc;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tok {
    /// A name: letters, digits, `_`, `@`, and `/` between them.
    Ident,
    /// `$name`.
    Variable,
    /// `->`
    Arrow,
    /// `=>`
    DoubleArrow,
    /// `::`
    DoubleColon,
    /// `||`
    DoubleBar,
    /// `...`
    Dots,
    /// `elementclass`
    ElementClass,
    /// `require`
    Require,
    /// `provide`
    Provide,
    /// `define`
    Define,
    /// Any other character.
    Char(char),
    /// The end of the text.
    Eof,
}

impl Tok {
    /// The token as messages name it.
    pub fn describe(self) -> String {
        match self {
            Tok::Ident => "identifier".into(),
            Tok::Variable => "variable".into(),
            Tok::Arrow => "'->'".into(),
            Tok::DoubleArrow => "'=>'".into(),
            Tok::DoubleColon => "'::'".into(),
            Tok::DoubleBar => "'||'".into(),
            Tok::Dots => "'...'".into(),
            Tok::ElementClass => "'elementclass'".into(),
            Tok::Require => "'require'".into(),
            Tok::Provide => "'provide'".into(),
            Tok::Define => "'define'".into(),
            Tok::Char(c) => format!("'{}'", printable(&c.to_string())),
            Tok::Eof => "end of file".into(),
        }
    }
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub tok: Tok,
    /// Where it is.
    pub span: Span,
}

/// A configuration string as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigText {
    /// The text between the parentheses, without `#line` directives.
    pub text: String,
    /// Its place.
    pub span: Option<Span>,
}

/// Reads tokens from one source.
#[derive(Debug)]
pub struct Lexer {
    text: Arc<str>,
    source: u32,
    pos: usize,
    /// `#line` directives: offset of the line after, its number, its file.
    marks: Vec<(usize, u32, Option<String>)>,
    /// The diagnostics of the lexer itself.
    pub(crate) diags: Diagnostics,
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'@'
}

impl Lexer {
    /// A lexer at the start of source number `source` of `sources`.
    pub fn new(sources: &SourceMap, source: u32) -> Lexer {
        Lexer { text: sources.text(source), source, pos: 0, marks: Vec::new(), diags: Diagnostics::new() }
    }

    /// Enters the `#line` directives seen so far into the map.
    pub(crate) fn store_marks(&self, sources: &mut SourceMap) {
        for (offset, line, name) in &self.marks {
            sources.mark_line(self.source, *offset, *line, name.as_deref());
        }
    }

    /// The span of a range of bytes.
    pub fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.source, start, end)
    }

    /// The text of a token.
    pub fn text(&self, t: Token) -> &str {
        &self.text[t.span.start as usize..t.span.end as usize]
    }

    /// Gives a token back: the next one read will be this one again.
    pub fn back(&mut self, t: Token) {
        self.pos = t.span.start as usize;
    }

    /// Skips the rest of the text.
    pub(crate) fn skip_all(&mut self) {
        self.pos = self.text.len();
    }

    fn byte(&self, i: usize) -> u8 {
        self.text.as_bytes().get(i).copied().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.text.len()
    }

    /// The position after the next line end at or after `i`.
    fn after_line(&self, i: usize) -> usize {
        let s = self.text.as_bytes();
        match s[i..].iter().position(|&b| b == b'\n' || b == b'\r') {
            None => s.len(),
            Some(n) if s[i + n] == b'\r' && self.byte(i + n + 1) == b'\n' => i + n + 2,
            Some(n) => i + n + 1,
        }
    }

    /// The position after the `/* */` comment that starts at `i`.
    fn after_comment(&mut self, i: usize) -> usize {
        match self.text[i + 2..].find("*/") {
            Some(n) => i + 2 + n + 2,
            None => {
                let span = self.span(i, i + 2);
                self.diags.push(Diagnostic::warning(span, "unterminated comment").with_help("add '*/'"));
                self.end()
            }
        }
    }

    fn at_line_start(&self, i: usize) -> bool {
        i == 0 || matches!(self.byte(i - 1), b'\n' | b'\r')
    }

    /// Handles the directive whose `#` is at `i`; returns the position of the next line.
    fn directive(&mut self, i: usize) -> usize {
        let next = self.after_line(i);
        let line = self.text[i + 1..next].trim_matches([' ', '\t', '\n', '\r']);
        let rest = match line.strip_prefix("line") {
            Some(r) if r.starts_with([' ', '\t']) => r.trim_start_matches([' ', '\t']),
            _ => line,
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            let span = self.span(i, i + 1 + self.text[i + 1..next].trim_end().len());
            self.diags.push(
                Diagnostic::error(span, "unknown preprocessor directive")
                    .with_help("a comment starts with '//'; the only directive is '#line NUMBER \"FILE\"'"),
            );
            return next;
        }
        let number = rest[..digits].parse::<u32>().unwrap_or(u32::MAX);
        let name = rest[digits..].trim_start_matches([' ', '\t']);
        let name = name.strip_prefix('"').map(|n| {
            let end = closing_quote(n).unwrap_or(n.len());
            unquote(&format!("\"{}\"", &n[..end]))
        });
        if self.marks.last().is_none_or(|m| m.0 < next) {
            self.marks.push((next, number, name));
        }
        next
    }

    /// Skips space, comments and directives.
    fn skip_blank(&mut self) {
        let mut i = self.pos;
        while i < self.end() {
            let b = self.byte(i);
            if is_space(b) {
                i += 1;
            } else if b == b'/' && self.byte(i + 1) == b'/' {
                i = self.after_line(i);
            } else if b == b'/' && self.byte(i + 1) == b'*' {
                i = self.after_comment(i);
            } else if b == b'#' && self.at_line_start(i) {
                i = self.directive(i);
            } else {
                break;
            }
        }
        self.pos = i;
    }

    /// The next token.
    pub fn next_token(&mut self) -> Token {
        self.skip_blank();
        let start = self.pos;
        if start >= self.end() {
            return Token { tok: Tok::Eof, span: self.span(start, start) };
        }
        let rest = &self.text[start..];
        let b = self.byte(start);
        let (tok, len) = if is_word(b) {
            let len = ident_len(rest.as_bytes());
            let tok = match &rest[..len] {
                "elementclass" => Tok::ElementClass,
                "require" => Tok::Require,
                "provide" => Tok::Provide,
                "define" => Tok::Define,
                _ => Tok::Ident,
            };
            (tok, len)
        } else if b == b'$' {
            let n = rest[1..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            (Tok::Variable, n + 1)
        } else if rest.starts_with("->") {
            (Tok::Arrow, 2)
        } else if rest.starts_with("=>") {
            (Tok::DoubleArrow, 2)
        } else if rest.starts_with("::") {
            (Tok::DoubleColon, 2)
        } else if rest.starts_with("||") {
            (Tok::DoubleBar, 2)
        } else if rest.starts_with("...") {
            (Tok::Dots, 3)
        } else {
            let c = rest.chars().next().unwrap_or('\0');
            (Tok::Char(c), c.len_utf8())
        };
        self.pos = start + len;
        Token { tok, span: self.span(start, start + len) }
    }

    /// Reads the configuration string after a `(`, up to the `)` that closes it (not read) or the end of the
    /// text.
    pub fn config(&mut self) -> ConfigText {
        let start = self.pos;
        let mut out = String::new();
        let (mut i, mut copied, mut level) = (start, start, 1u32);
        while i < self.end() {
            match self.byte(i) {
                b'(' => level += 1,
                b')' => {
                    level -= 1;
                    if level == 0 {
                        break;
                    }
                }
                b'#' if i > start && self.at_line_start(i) => {
                    out.push_str(&self.text[copied..i]);
                    i = self.directive(i);
                    copied = i;
                    continue;
                }
                b'/' if self.byte(i + 1) == b'/' => {
                    i = self.after_line(i);
                    continue;
                }
                b'/' if self.byte(i + 1) == b'*' => {
                    i = self.after_comment(i);
                    continue;
                }
                b'\'' | b'"' => {
                    i = self.after_quote(i);
                    continue;
                }
                b'\\' if self.byte(i + 1) == b'<' => {
                    i = self.after_data(i);
                    continue;
                }
                _ => {}
            }
            i += 1;
        }
        let end = i.min(self.end());
        out.push_str(&self.text[copied.min(end)..end]);
        self.pos = end;
        ConfigText { text: out, span: Some(self.span(start, end)) }
    }

    /// The position after the quoted string at `i`.
    fn after_quote(&mut self, i: usize) -> usize {
        let quote = self.byte(i);
        let mut j = i + 1;
        while j < self.end() {
            match self.byte(j) {
                b'\\' if quote == b'"' && j + 1 < self.end() => {
                    j = if self.byte(j + 1) == b'<' { self.after_data(j) } else { j + 2 };
                    continue;
                }
                b if b == quote => return j + 1,
                _ => j += 1,
            }
        }
        let span = self.span(i, i + 1);
        self.diags.push(
            Diagnostic::warning(span, "unterminated string")
                .with_help(format!("the string that starts here has no closing {}", quote as char)),
        );
        self.end()
    }

    /// The position after the `\<...>` at `i`.
    fn after_data(&mut self, i: usize) -> usize {
        let mut j = i + 2;
        while j < self.end() {
            match (self.byte(j), self.byte(j + 1)) {
                (b'>', _) => return j + 1,
                (b'/', b'/') => j = self.after_line(j),
                (b'/', b'*') => j = self.after_comment(j),
                _ => j += 1,
            }
        }
        self.end()
    }
}

/// Offset of the quote that ends a string whose text starts at the beginning of `s`.
fn closing_quote(s: &str) -> Option<usize> {
    let b = s.as_bytes();
    let mut i = 0;
    while i < b.len() {
        match b[i] {
            b'"' => return Some(i),
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    None
}

/// Length of the identifier at the start of `s`.
fn ident_len(s: &[u8]) -> usize {
    let mut i = 0;
    while i < s.len()
        && (is_word(s[i]) || (s[i] == b'/' && i > 0 && s.get(i + 1).is_some_and(|&b| is_word(b))))
    {
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn lexer(text: &str) -> (Lexer, SourceMap) {
        let mut map = SourceMap::new();
        let s = map.add(&Source::new("f", text));
        (Lexer::new(&map, s), map)
    }

    fn words(text: &str) -> Vec<String> {
        let (mut lex, _) = lexer(text);
        let mut out = Vec::new();
        loop {
            let t = lex.next_token();
            if t.tok == Tok::Eof {
                return out;
            }
            out.push(lex.text(t).to_string());
        }
    }

    #[test]
    fn tokens() {
        assert_eq!(
            words("a->b[1]=>c::D||...|,;{}$x/**/$ "),
            [
                "a", "->", "b", "[", "1", "]", "=>", "c", "::", "D", "||", "...", "|", ",", ";", "{", "}",
                "$x", "$"
            ]
        );
        assert_eq!(words("an/id/with//too/many\nx@1 /a b/"), ["an/id/with", "x@1", "/", "a", "b", "/"]);
        assert_eq!(words("a - > \u{e9} ."), ["a", "-", ">", "\u{e9}", "."]);
        let (mut lex, _) = lexer("define defined");
        assert_eq!(lex.next_token().tok, Tok::Define);
        assert_eq!(lex.next_token().tok, Tok::Ident);
    }

    #[test]
    fn config_strings() {
        let conf = |s: &str| {
            let (mut lex, _) = lexer(s);
            lex.next_token();
            let c = lex.config();
            (c.text, lex.next_token().tok)
        };
        let close = Tok::Char(')');
        assert_eq!(conf("(a (b) c)"), ("a (b) c".into(), close));
        assert_eq!(
            conf("(\")\" ')' // )\n /* ) */ \\<29 /*>)*/ >)"),
            ("\")\" ')' // )\n /* ) */ \\<29 /*>)*/ >".into(), close)
        );
        assert_eq!(conf("(\"\\\")\")"), ("\"\\\")\"".into(), close));
        assert_eq!(conf("('\\'))"), ("'\\'".into(), close));
        assert_eq!(conf("(a"), ("a".into(), Tok::Eof));
        assert_eq!(conf("(a\n# 7 \"g\"\nb)"), ("a\nb".into(), close));
    }

    #[test]
    fn directives() {
        let (mut lex, mut map) = lexer("# 10 \"g.click\"\nx\n#line 5\ny\n#line 1 \"\"\nz\n# no\n");
        let spans: Vec<Span> = (0..3).map(|_| lex.next_token().span).collect();
        lex.next_token();
        lex.store_marks(&mut map);
        let at: Vec<String> = spans.iter().map(|s| map.landmark(*s)).collect();
        assert_eq!(at, ["g.click:10", "g.click:5", "f:1"]);
        assert_eq!(lex.diags.iter().next().unwrap().message, "unknown preprocessor directive");
    }
}
