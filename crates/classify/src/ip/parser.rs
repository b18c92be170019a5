//! The grammar of patterns.
//!
//! ```text
//! expr   = or [ "?" expr ":" expr ]
//! or     = term { ("or" | "||") term }
//! term   = factor { [ "and" | "&&" ] factor }
//! factor = { "not" | "!" } ( "(" expr ")" | "true" | "false" | primitive )
//! ```
//! A primitive without qualifiers has the qualifiers of the one before it: `src port 80 or 443`.

use super::lexer::Token;
use super::primitive::{
    Field, Header, ICMP_TYPE, KINDS, Mask, Op, Primitive, PrimitiveType, Six, SixKind, SrcDst, describe_proto,
};
use super::values::{ether_address, integer, ip_address, ip_prefix};
use crate::diag::{Diagnostic, Severity};
use crate::graph::Expr;
use crate::names::{self, ICMP, Names, TCP, TCP_OR_UDP, UDP};
use std::ops::Range;
use wire::names::{ICMP_TYPES, PORTS};

/// How deep parentheses and conditionals may nest.
const MAX_DEPTH: usize = 200;

/// The meaning of a word.
enum Word {
    Unknown,
    PrimitiveType(PrimitiveType),
    Value(PrimitiveType, u32),
    /// It has several meanings, or none that fits here; the message says which.
    Unfit(String),
}

pub(crate) struct Parser<'a, 't> {
    words: &'a [Token<'t>],
    pos: usize,
    number: usize,
    names: &'a dyn Names,
    diagnostics: &'a mut Vec<Diagnostic>,
    first_diagnostic: usize,
    before: Primitive,
    /// The qualifiers of the primitive before, if that was about IPv6.
    before_six: Six,
    depth: usize,
    too_deep: bool,
}

impl<'a, 't> Parser<'a, 't> {
    /// A parser that begins with word `first`, which exists.
    pub(crate) fn new(
        words: &'a [Token<'t>],
        first: usize,
        number: usize,
        names: &'a dyn Names,
        diagnostics: &'a mut Vec<Diagnostic>,
    ) -> Self {
        let first_diagnostic = diagnostics.len();
        let before = Primitive::default();
        Parser {
            words,
            pos: first,
            number,
            names,
            diagnostics,
            first_diagnostic,
            before,
            before_six: Six::default(),
            depth: 0,
            too_deep: false,
        }
    }

    /// The whole pattern.
    pub(crate) fn pattern(&mut self) -> Expr {
        let expr = self.expr();
        if let Some(word) = self.words.get(self.pos) {
            self.secondary(word.span.clone(), format!("garbage after expression at '{}'", word.text), true);
        }
        expr
    }

    pub(super) fn pos(&self) -> usize {
        self.pos
    }
    /// Passes over words, at most to the end.
    pub(super) fn skip(&mut self, words: usize) {
        self.pos = self.pos.saturating_add(words).min(self.words.len());
    }
    pub(super) fn names(&self) -> &'a dyn Names {
        self.names
    }
    pub(super) fn before_six(&self) -> Six {
        self.before_six
    }
    pub(super) fn set_before_six(&mut self, six: Six) {
        self.before_six = six;
    }

    pub(super) fn word(&self, pos: usize) -> Option<&'t str> {
        self.words.get(pos).map(|word| word.text)
    }

    fn accept(&mut self, wanted: &[&str]) -> bool {
        let found = self.word(self.pos).is_some_and(|word| wanted.contains(&word));
        self.pos += usize::from(found);
        found
    }

    /// From word `from` to the one before `to`; at the end of the pattern, its last word.
    pub(super) fn span(&self, from: usize, to: usize) -> Range<usize> {
        let last = self.words.len() - 1;
        let to = to.max(from + 1) - 1;
        self.words[from.min(last)].span.start..self.words[to.min(last)].span.end
    }

    pub(super) fn report(
        &mut self,
        severity: Severity,
        span: Range<usize>,
        message: &str,
        hint: Option<String>,
    ) {
        let message = format!("pattern {}: {message}", self.number);
        self.diagnostics.push(Diagnostic {
            severity,
            pattern: Some(self.number),
            span: Some(span),
            message,
            hint,
        });
    }

    fn error(&mut self, span: Range<usize>, message: &str) {
        self.report(Severity::Error, span, message, None);
    }

    /// Reports an error, unless it may only be a consequence of an earlier one.
    fn secondary(&mut self, span: Range<usize>, message: String, spelling: bool) {
        let earlier = &self.diagnostics[self.first_diagnostic..];
        if earlier.iter().all(|diagnostic| diagnostic.severity != Severity::Error) {
            let hint = if spelling { self.spelling(self.pos) } else { None };
            self.report(Severity::Error, span, &message, hint);
        }
    }

    /// A hint if the word may be a misspelt one.
    fn spelling(&self, pos: usize) -> Option<String> {
        let word = self.word(pos)?;
        if !word.starts_with(|c: char| c.is_ascii_alphabetic())
            || names::all_words().any(|known| known == word)
        {
            return None;
        }
        names::nearest(word, names::all_words()).map(|near| format!("did you mean '{near}'?"))
    }

    fn enter(&mut self) -> bool {
        if self.depth >= MAX_DEPTH && !self.too_deep {
            self.too_deep = true;
            let span = self.span(self.pos, self.pos + 1);
            self.error(span, &format!("expression nested too deeply, at most {MAX_DEPTH} levels"));
        }
        if self.too_deep {
            // Nothing more to be found here.
            self.pos = self.words.len();
            return false;
        }
        self.depth += 1;
        true
    }

    fn expr(&mut self) -> Expr {
        let mut parts = vec![self.or()];
        while self.accept(&["?"]) {
            if !self.enter() {
                return Expr::True;
            }
            let start = self.pos;
            parts.push(self.expr());
            self.depth -= 1;
            if self.pos == start || !self.accept(&[":"]) {
                let span = self.span(self.pos, self.pos + 1);
                self.secondary(span, "missing ':' in ternary expression".into(), false);
                return Expr::True;
            }
            parts.push(self.or());
        }
        one_or(parts, Expr::If)
    }

    fn or(&mut self) -> Expr {
        let mut parts = vec![self.term()];
        while self.accept(&["or", "||"]) {
            parts.push(self.term());
        }
        one_or(parts, Expr::Or)
    }

    fn term(&mut self) -> Expr {
        let mut parts = Vec::new();
        let mut expected = true;
        loop {
            let start = self.pos;
            let factor = self.factor();
            if self.pos == start {
                if expected {
                    let span = self.span(self.pos, self.pos + 1);
                    self.secondary(span, "missing expression".into(), true);
                }
                return one_or(parts, Expr::And);
            }
            parts.extend(factor);
            expected = self.accept(&["and", "&&"]);
        }
    }

    fn factor(&mut self) -> Option<Expr> {
        let first = self.pos;
        let mut negated = false;
        while self.accept(&["not", "!"]) {
            negated = !negated;
        }
        let start = self.pos;
        let factor = if self.accept(&["("]) { self.parenthesis() } else { self.test() };
        if self.pos == start && start > first {
            let span = self.span(start - 1, start);
            let message = format!("missing expression after '{}'", self.words[start - 1].text);
            self.secondary(span, message, false);
        }
        factor.map(|factor| if negated { factor.not() } else { factor })
    }

    /// After an opening parenthesis.
    fn parenthesis(&mut self) -> Option<Expr> {
        if !self.enter() {
            return None;
        }
        let start = self.pos;
        self.before_six = Six::default();
        let expr = self.expr();
        self.depth -= 1;
        let span = self.span(start - 1, start);
        if self.pos == start {
            self.secondary(span.clone(), "missing expression after '('".into(), false);
        }
        if !self.accept(&[")"]) {
            self.secondary(span, "missing ')'".into(), false);
        }
        Some(expr)
    }

    /// `true`, `false` or a primitive. Leaves the position where it is if there is none.
    fn test(&mut self) -> Option<Expr> {
        match self.word(self.pos)? {
            ")" | "||" | "or" | "?" | ":" => None,
            "true" => {
                self.pos += 1;
                Some(Expr::True)
            }
            "false" => {
                self.pos += 1;
                Some(Expr::True.not())
            }
            _ if self.is_six() => {
                // A value alone is an address of either version.
                let before = std::mem::take(&mut self.before);
                if matches!(before.kind, Some(PrimitiveType::Host | PrimitiveType::Net)) {
                    self.before_six = Six { side: before.srcdst, ..Six::default() };
                }
                let expr = self.six();
                let kind = match self.before_six.kind {
                    Some(SixKind::Host) => Some(PrimitiveType::Host),
                    Some(SixKind::Net) => Some(PrimitiveType::Net),
                    _ => None,
                };
                self.before = Primitive {
                    srcdst: self.before_six.side.filter(|_| kind.is_some()),
                    kind,
                    data: kind,
                    ..Primitive::default()
                };
                Some(expr)
            }
            _ => {
                self.before_six = Six::default();
                self.primitive()
            }
        }
    }

    fn primitive(&mut self) -> Option<Expr> {
        let first = self.pos;
        let errors_before = self.diagnostics.len();
        let mut primitive = Primitive::default();
        let mut header = None;
        let negated = self.qualifiers(&mut primitive, &mut header);
        if self.pos > first {
            self.before = Primitive::default();
        }
        if self.before.data == Some(PrimitiveType::Ether) {
            header = Some(Header::Ether);
        }
        // Operators need something after them.
        let operator =
            |parser: &Self| parser.word(parser.pos).filter(|_| parser.pos + 1 < parser.words.len());
        if operator(self) == Some("[") && self.pos > first && primitive.kind.is_none() {
            self.brackets(&mut primitive);
        }
        let mut mask = None;
        if operator(self) == Some("&") {
            mask = self.mask(header);
        }
        let (op, op_negated) = match operator(self) {
            Some("=" | "==") => (Op::Eq, false),
            Some("!=") => (Op::Eq, true),
            Some(">") => (Op::Gt, false),
            Some("<=") => (Op::Gt, true),
            Some("<") => (Op::Lt, false),
            Some(">=") => (Op::Lt, true),
            _ => (Op::Eq, false),
        };
        (primitive.op, primitive.negated) = (op, op_negated);
        let is_operator = |word| matches!(word, "=" | "==" | "!=" | ">" | "<=" | "<" | ">=");
        if operator(self).is_some_and(is_operator) {
            self.pos += 1;
        }
        let value_at = self.pos;
        let fits = self.value(&mut primitive, header);
        if self.pos == first {
            let span = self.span(first, first + 1);
            self.secondary(span, format!("empty term near '{}'", self.words[first].text), true);
            return None;
        }
        // The error in a part has been reported.
        let errors = self.diagnostics[errors_before..].iter().any(|d| d.severity == Severity::Error);
        if !fits || errors {
            return Some(Expr::True);
        }
        let span = self.span(first, self.pos);
        match primitive.resolve(&self.before, header, mask) {
            Ok(warning) => {
                if let Some(warning) = warning {
                    self.report(Severity::Warning, span, &warning, None);
                }
                let expr = primitive.expr();
                self.before = primitive;
                Some(if negated { expr.not() } else { expr })
            }
            Err(message) => {
                let hint = if primitive.data.is_none() { self.spelling(value_at) } else { None };
                let span = if hint.is_some() { self.span(value_at, value_at + 1) } else { span };
                self.report(Severity::Error, span, &message, hint);
                Some(Expr::True)
            }
        }
    }

    /// Reads the qualifiers before a value. Returns whether there was an odd number of negations.
    fn qualifiers(&mut self, primitive: &mut Primitive, header: &mut Option<Header>) -> bool {
        let mut negated = false;
        while let Some(word) = self.word(self.pos) {
            match self.look_up(word, None, None) {
                Word::PrimitiveType(kind) => {
                    self.set_kind(primitive, kind);
                    if let PrimitiveType::Field(Field { proto: Some(proto), .. }) = kind {
                        self.set_proto(primitive, proto);
                    }
                }
                Word::Value(PrimitiveType::Proto, proto) => self.set_proto(primitive, proto),
                Word::Value(..) | Word::Unfit(_) => break,
                Word::Unknown => match word {
                    "src" => {
                        let joined = matches!(self.word(self.pos + 2), Some("dst" | "dest"));
                        let side = match self.word(self.pos + 1) {
                            Some("and" | "&&") if joined => SrcDst::And,
                            Some("or" | "||") if joined => SrcDst::Or,
                            _ => SrcDst::Src,
                        };
                        self.set_side(primitive, side);
                        if side != SrcDst::Src {
                            self.pos += 2;
                        }
                    }
                    "dst" | "dest" => self.set_side(primitive, SrcDst::Dst),
                    "ip" if header.is_none() => *header = Some(Header::Ip),
                    "ether" if header.is_none() => *header = Some(Header::Ether),
                    "not" | "!" => negated = !negated,
                    _ => break,
                },
            }
            self.pos += 1;
        }
        negated
    }

    fn set_kind(&mut self, primitive: &mut Primitive, kind: PrimitiveType) {
        if primitive.kind.replace(kind).is_some() {
            self.error(self.span(self.pos, self.pos + 1), "type specified twice");
        }
    }

    fn set_proto(&mut self, primitive: &mut Primitive, proto: u32) {
        if primitive.proto.replace(proto).is_some_and(|old| old != proto) {
            self.error(self.span(self.pos, self.pos + 1), "transport protocol specified twice");
        }
    }

    fn set_side(&mut self, primitive: &mut Primitive, side: SrcDst) {
        if primitive.srcdst.replace(side).is_some() {
            self.error(self.span(self.pos, self.pos + 1), "'src' or 'dst' specified twice");
        }
    }

    /// `[POS]`, `[POS:LEN]` or `[FIRST,LAST]` after a header's name.
    fn brackets(&mut self, primitive: &mut Primitive) {
        let open = self.pos;
        let Some(length) = self.words[open..].iter().position(|word| word.text == "]") else {
            self.error(self.span(open, open + 1), "missing ']'");
            self.pos = self.words.len();
            return;
        };
        let inside: String = self.words[open + 1..open + length].iter().map(|word| word.text).collect();
        self.pos = open + length + 1;
        let span = self.span(open, self.pos);
        let parsed = match inside.split_once(':') {
            Some((pos, len)) => integer(pos).zip(integer(len)),
            None => match inside.split_once(',') {
                Some((first, last)) => {
                    integer(first).zip(integer(last)).map(|(first, last)| (first, last - first + 1))
                }
                None => integer(&inside).map(|pos| (pos, 1)),
            },
        };
        let Some((pos, len)) = parsed else {
            self.error(span, "syntax error after '[', expected '[POS]' or '[POS:LEN]'");
            return;
        };
        let limit = if primitive.proto.is_some() { 8192 } else { 256 };
        if !(1..=4).contains(&len) {
            self.error(span, "LEN in '[POS:LEN]' out of range, should be between 1 and 4");
        } else if pos < 0 || pos >= limit {
            self.error(
                span,
                &format!("POS in '[POS:LEN]' out of range, should be between 0 and {}", limit - 1),
            );
        } else if pos / 4 != (pos + len - 1) / 4 {
            self.error(span, &format!("field [{pos}:{len}] does not fit in a single word"));
        } else {
            let (offset, bits) = (pos as u32 * 8, len as u32 * 8);
            primitive.kind = Some(PrimitiveType::Field(Field { proto: primitive.proto, offset, bits }));
        }
    }

    /// `& MASK`. Leaves the position where it is if that is no mask.
    fn mask(&mut self, header: Option<Header>) -> Option<Mask> {
        let word = self.word(self.pos + 1)?;
        let ip = |kind, bits| Mask { kind, bits, ether: [0; 6] };
        let mask = match integer(word).and_then(|value| u32::try_from(value).ok()) {
            Some(bits) => ip(PrimitiveType::Int, bits),
            None => match ip_address(word, self.names).filter(|_| header != Some(Header::Ether)) {
                Some(bits) => ip(PrimitiveType::Host, bits),
                None => {
                    let ether = ether_address(word, self.names).filter(|_| header != Some(Header::Ip))?;
                    Mask { kind: PrimitiveType::Ether, bits: 0, ether }
                }
            },
        };
        self.pos += 2;
        if mask.kind != PrimitiveType::Ether && mask.bits == 0 {
            self.error(self.span(self.pos - 2, self.pos), "zero mask ignored");
            return None;
        }
        Some(mask)
    }

    /// Reads the value, if there is one. False: there is a word that is not a value, and the error has been
    /// reported.
    fn value(&mut self, primitive: &mut Primitive, header: Option<Header>) -> bool {
        let Some(word) = self.word(self.pos) else { return true };
        let (may_be_ip, may_be_ether) = (header != Some(Header::Ether), header != Some(Header::Ip));
        match self.look_up(word, primitive.kind, primitive.proto) {
            Word::Unfit(message) => {
                self.error(self.span(self.pos, self.pos + 1), &message);
                self.pos += 1;
                return false;
            }
            Word::Value(kind, value) => (primitive.data, primitive.value) = (Some(kind), value),
            Word::PrimitiveType(_) | Word::Unknown => {
                if let Some(value) = integer(word) {
                    (primitive.data, primitive.value) = (Some(PrimitiveType::Int), value as u32);
                } else if let Some(address) = ip_address(word, self.names).filter(|_| may_be_ip) {
                    (primitive.data, primitive.value) = (Some(PrimitiveType::Host), address);
                    let mask = self.word(self.pos + 2).and_then(|mask| ip_address(mask, self.names));
                    if let (Some("mask"), Some(mask)) = (self.word(self.pos + 1), mask) {
                        (primitive.data, primitive.mask) = (Some(PrimitiveType::Net), mask);
                        self.pos += 2;
                    } else if primitive.kind == Some(PrimitiveType::Net)
                        && let Some((address, mask)) = ip_prefix(word, self.names)
                    {
                        (primitive.data, primitive.value, primitive.mask) =
                            (Some(PrimitiveType::Net), address, mask);
                    }
                } else if let Some((address, mask)) = ip_prefix(word, self.names).filter(|_| may_be_ip) {
                    (primitive.data, primitive.value, primitive.mask) =
                        (Some(PrimitiveType::Net), address, mask);
                } else if let Some(ether) = ether_address(word, self.names).filter(|_| may_be_ether) {
                    (primitive.data, primitive.ether) = (Some(PrimitiveType::Ether), ether);
                } else {
                    if primitive.op != Op::Eq || primitive.negated {
                        let hint = self.spelling(self.pos);
                        let span = self.span(self.pos, self.pos + 1);
                        let message = format!("dangling operator near '{word}'");
                        self.report(Severity::Error, span, &message, hint);
                    }
                    return true;
                }
            }
        }
        self.pos += 1;
        true
    }

    /// The meaning of a word as the value of a primitive of this kind and protocol (if they are known).
    fn look_up(&self, word: &str, kind: Option<PrimitiveType>, proto: Option<u32>) -> Word {
        if kind.is_none()
            && let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| *name == word)
        {
            return Word::PrimitiveType(kind);
        }
        if matches!(word, "src" | "dst" | "dest" | "ip" | "ether" | "not") && kind.is_none() {
            return Word::Unknown;
        }
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Word::Unknown;
        }
        let names = self.names;
        let port = |port: Option<u16>| port.map(u32::from).or_else(|| names::find(PORTS, word));
        let is = |wanted: &[u32]| proto.is_none_or(|proto| wanted.contains(&proto));
        let icmp_type = names.icmp_type(word).map(u32::from).or_else(|| names::find(ICMP_TYPES, word));
        let ip_proto = names.ip_proto(word).map(u32::from).or_else(|| names::find(names::PROTOCOLS, word));
        let (tcp_port, udp_port) = (port(names.tcp_port(word)), port(names.udp_port(word)));
        let (tcp_label, udp_label) =
            if tcp_port == udp_port { ("port", "port") } else { ("tcp port", "udp port") };
        // All meanings, and whether each is possible here.
        let meanings = [
            ("proto", PrimitiveType::Proto, true, ip_proto),
            (tcp_label, PrimitiveType::Port, is(&[TCP, TCP_OR_UDP]), tcp_port),
            (udp_label, PrimitiveType::Port, is(&[UDP, TCP_OR_UDP]), udp_port),
            ("tcp opt", PrimitiveType::TcpOpt, is(&[TCP, TCP_OR_UDP]), names::find(names::TCP_FLAGS, word)),
            ("icmp type", ICMP_TYPE, is(&[ICMP]), icmp_type),
        ];
        let mut fitting: Vec<(PrimitiveType, u32)> = Vec::new();
        let mut known: Vec<String> = Vec::new();
        for (label, meaning, possible, value) in meanings {
            let Some(value) = value else { continue };
            let described = format!("'{label} {word}'");
            if !known.contains(&described) {
                known.push(described);
            }
            let fits = possible && kind.is_none_or(|kind| kind == meaning);
            if fits && !fitting.contains(&(meaning, value)) {
                fitting.push((meaning, value));
            }
        }
        match (&fitting[..], known.is_empty()) {
            (_, true) => Word::Unknown,
            (&[(meaning, value)], _) => Word::Value(meaning, value),
            (fitting, _) => {
                let problem = if fitting.is_empty() { "meaningless" } else { "ambiguous" };
                let mut asked: Vec<String> = Vec::new();
                asked.extend(
                    proto
                        .filter(|_| !matches!(kind, Some(PrimitiveType::Field(_) | PrimitiveType::TcpOpt)))
                        .map(describe_proto),
                );
                asked.extend(kind.map(PrimitiveType::describe));
                asked.push(word.into());
                Word::Unfit(format!("'{}' is {problem}; try {}", asked.join(" "), known.join(", ")))
            }
        }
    }
}

/// A list with one expression becomes that expression.
fn one_or(mut parts: Vec<Expr>, many: impl Fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            many(parts)
        }
        None => Expr::True,
    }
}
