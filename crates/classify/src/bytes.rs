//! The language of `Classifier`: clauses `OFFSET/VALUE[%MASK]` of hexadecimal digits.

use crate::diag::{Diagnostic, Errors};
use crate::graph::{Expr, Graph, Layout, Target};
use crate::optimize::{Budget, optimize};
use crate::program::{MAX_OUTPUT, Program};
use crate::{Compiled, MAX_TESTS, finish};

/// Compiles the patterns of a `Classifier`: pattern *n* selects output *n*.
///
/// A packet that ends before a clause's bytes does not match the clause (and so does match its negation).
///
/// # Errors
/// All errors in the patterns, and a number of patterns other than `outputs` (where that is known).
pub fn classifier<S: AsRef<str>>(patterns: &[S], outputs: Option<usize>) -> Result<Compiled, Errors> {
    let mut diagnostics = Vec::new();
    if let Some(outputs) = outputs.filter(|&outputs| outputs != patterns.len()) {
        let message = format!("need {outputs} arguments, one per output port");
        diagnostics.push(Diagnostic::error(None, message));
    }
    if patterns.len() > MAX_OUTPUT {
        diagnostics.push(Diagnostic::error(None, format!("too many patterns, at most {MAX_OUTPUT}")));
        return Err(Errors(diagnostics));
    }
    let mut graph = Graph { nodes: Vec::new(), entry: Target::Fail };
    for (number, pattern) in patterns.iter().enumerate() {
        let mut clauses = Clauses { number, text: pattern.as_ref(), at: 0, diagnostics: &mut diagnostics };
        let expr = clauses.pattern();
        if graph.nodes.len() + expr.size() > MAX_TESTS {
            let message = format!("pattern {number}: patterns too large, at most {MAX_TESTS} tests");
            diagnostics.push(Diagnostic::error(Some(number), message));
            break;
        }
        graph.append(expr.graph(Target::Output(number as u16), Target::Fail));
    }
    finish(diagnostics, |_| {
        graph.set_fail(Target::Drop);
        optimize(&mut graph, Layout::Bytes, &mut Budget::default());
        Program::new(&graph, Layout::Bytes, patterns.len())
    })
}

/// A reader of one pattern.
struct Clauses<'a> {
    number: usize,
    text: &'a str,
    at: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Clauses<'a> {
    fn error(&mut self, span: std::ops::Range<usize>, what: &str) {
        let message = format!("pattern {}: {what}", self.number);
        self.diagnostics.push(Diagnostic::error(Some(self.number), message).at(span));
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads characters while `wanted` holds. `wanted` accepts only ASCII, so the text is cut at character
    /// boundaries.
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn spaces(&mut self) {
        self.take(|byte| byte.is_ascii_whitespace() || byte == 0x0b);
    }

    fn pattern(&mut self) -> Expr {
        let mut parts = Vec::new();
        if self.text.trim() == "-" {
            return Expr::True;
        }
        loop {
            self.spaces();
            if self.at >= self.text.len() {
                return Expr::And(parts);
            }
            match self.clause() {
                Some(clause) => parts.push(clause),
                None => return Expr::And(parts),
            }
        }
    }

    /// One clause. `None`: an error after which the parser cannot continue.
    fn clause(&mut self) -> Option<Expr> {
        let start = self.at;
        let negated = self.peek() == Some(b'!');
        if negated {
            self.at += 1;
            self.spaces();
        }
        let digits = self.take(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            let end = self.text[self.at..].chars().next().map_or(self.at, |c| self.at + c.len_utf8());
            self.error(self.at..end, "expected a digit");
            return None;
        }
        let offset = digits.parse::<usize>().unwrap_or(usize::MAX);
        if self.peek() != Some(b'/') {
            self.error(start..self.at, "expected '/'");
            return None;
        }
        self.at += 1;
        let hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'?';
        let value_at = self.at;
        let value = self.take(hex);
        let value_span = value_at..self.at;
        let mut mask = None;
        if self.peek() == Some(b'%') {
            self.at += 1;
            mask = Some(self.take(hex));
        }
        let before = self.diagnostics.len();
        if value.len() < 2 {
            self.error(value_span, "value has less than 2 hex digits");
        } else if !value.len().is_multiple_of(2) {
            self.error(value_span, "value has odd number of hex digits");
        } else if let Some(mask) = mask.filter(|mask| mask.len() != value.len()) {
            let many = if mask.len() > value.len() { "many" } else { "few" };
            self.error(self.at - mask.len()..self.at, &format!("mask has too {many} hex digits"));
        } else if offset.saturating_add(value.len() / 2) > 65_532 {
            self.error(start..self.at, "offset out of range, packets have at most 65532 bytes");
        }
        if self.diagnostics.len() > before {
            return Some(Expr::True);
        }
        let clause = bytes(offset, value.as_bytes(), mask.map(str::as_bytes));
        Some(if negated { clause.not() } else { clause })
    }
}

/// Value and mask bits of a digit.
fn digit(digit: u8) -> (u32, u32) {
    match char::from(digit).to_digit(16) {
        Some(value) => (value, 0xf),
        None => (0, 0),
    }
}

/// The word tests for a run of bytes at `offset`.
fn bytes(offset: usize, value: &[u8], mask: Option<&[u8]>) -> Expr {
    let mut words: Vec<(usize, u32, u32)> = Vec::new();
    for (at, &value) in value.iter().enumerate() {
        let place = offset + at / 2;
        let shift = 28 - 8 * (place % 4) - 4 * (at % 2);
        let (mut bits, mut care) = digit(value);
        if let Some(mask) = mask {
            // A "?" in a mask means that no bit of the digit is compared.
            care &= digit(mask[at]).0;
        }
        bits &= care;
        care <<= shift;
        bits <<= shift;
        match words.last_mut() {
            Some((word, value, mask)) if *word == place / 4 => {
                *value |= bits;
                *mask |= care;
            }
            _ => words.push((place / 4, bits, care)),
        }
    }
    Expr::And(words.into_iter().map(|(word, value, mask)| Expr::test(word as u16 * 4, value, mask)).collect())
}
