//! Primitives about IPv6 packets, such as `ip6 src host 2001:db8::1` or `ip6 tcp dst port 80`.
//!
//! All their tests are at fixed places: the transport header follows the fixed header. So the packets of IPv4
//! are not touched by any of this.

use super::parser::Parser;
use super::primitive::{Field, Op, Primitive, PrimitiveType, Six, SixKind as Kind, SrcDst};
use super::values::integer;
use crate::diag::Severity;
use crate::graph::{Expr, NET};
use crate::names::{self, ICMP, Names, TCP, TCP_OR_UDP, UDP};
use std::net::Ipv6Addr;
use wire::names::PORTS;

const HEADER_BITS: u32 = 40 * 8;
const ICMP6: u32 = wire::protocol::ICMPV6 as u32;
const NEXT_HEADER: u32 = 48;

/// Names of types of ICMPv6 messages.
const ICMP6_TYPES: &[(&str, u32)] = &[
    ("unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo", 128),
    ("echo-reply", 129),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
];

const KINDS: &[(&str, Kind)] = &[
    ("host", Kind::Host),
    ("net", Kind::Net),
    ("port", Kind::Port),
    ("proto", Kind::Proto),
    ("class", Kind::Field(4, 8)),
    ("dscp", Kind::Field(4, 6)),
    ("ecn", Kind::Field(10, 2)),
    ("flow", Kind::Field(12, 20)),
    ("plen", Kind::Field(32, 16)),
    ("hlim", Kind::Field(56, 8)),
    ("type", Kind::Field(HEADER_BITS, 8)),
    ("opt", Kind::Opt),
];

fn address(text: &str, names: &dyn Names) -> Option<u128> {
    let parsed = text.parse::<Ipv6Addr>().map(Ipv6Addr::to_bits).ok();
    parsed.or_else(|| names.ip6_address(text).map(u128::from_be_bytes))
}

/// `ADDRESS/LENGTH`, or an address: itself and its length.
fn network(text: &str, names: &dyn Names) -> Option<(u128, u32)> {
    match text.split_once('/') {
        Some((at, len)) => {
            let len: u32 = len.parse().ok().filter(|len| *len <= 128)?;
            Some((address(at, names)?, len))
        }
        None => Some((address(text, names)?, 128)),
    }
}

fn is_literal(text: &str) -> bool {
    let at = text.split_once('/').map_or(text, |(at, _)| at);
    at.contains(':') && at.parse::<Ipv6Addr>().is_ok()
}

impl Parser<'_, '_> {
    /// The next `src`, `dst`, `src or dst` or `src and dst`, and how many words that is.
    fn side_at(&self, pos: usize) -> Option<(SrcDst, usize)> {
        match self.word(pos)? {
            "dst" | "dest" => Some((SrcDst::Dst, 1)),
            "src" => {
                let joined = matches!(self.word(pos + 2), Some("dst" | "dest"));
                Some(match self.word(pos + 1) {
                    Some("and" | "&&") if joined => (SrcDst::And, 3),
                    Some("or" | "||") if joined => (SrcDst::Or, 3),
                    _ => (SrcDst::Src, 1),
                })
            }
            _ => None,
        }
    }

    /// Whether a primitive about IPv6 begins here.
    pub(super) fn is_six(&self) -> bool {
        let mut pos = self.pos();
        loop {
            match self.word(pos) {
                Some("ip6" | "icmp6") => return true,
                Some("host" | "net" | "=" | "==" | "!=" | "<" | "<=" | ">" | ">=") => pos += 1,
                Some(word) if is_literal(word) => return true,
                _ => match self.side_at(pos) {
                    Some((_, words)) => pos += words,
                    None => break,
                },
            }
        }
        pos == self.pos() && self.is_value_alone()
    }

    /// Whether a value alone stands here, which has the qualifiers of the primitive before it. A word with
    /// something behind it begins a primitive of its own.
    fn is_value_alone(&self) -> bool {
        let (six, pos) = (self.before_six(), self.pos());
        let alone = matches!(self.word(pos + 1), None | Some("and" | "&&" | "or" | "||" | ")" | "?" | ":"));
        alone
            && self.word(pos).is_some_and(|word| match six.kind {
                Some(Kind::Host | Kind::Net) => network(word, self.names()).is_some(),
                _ => self.value6(&six, word).is_some(),
            })
    }

    /// A number that a word stands for, as the value of a primitive with these qualifiers.
    fn value6(&self, six: &Six, word: &str) -> Option<u32> {
        let number = || integer(word).and_then(|n| u32::try_from(n).ok());
        let named = |port: Option<u16>| port.map(u32::from);
        match six.kind? {
            Kind::Port => number().or_else(|| {
                let names = self.names();
                let own = match six.proto {
                    Some(UDP) => named(names.udp_port(word)),
                    _ => named(names.tcp_port(word)),
                };
                own.or_else(|| names::find(PORTS, word))
            }),
            Kind::Proto => number().or_else(|| self.proto6(word)),
            Kind::Field(HEADER_BITS, 8) => number().or_else(|| names::find(ICMP6_TYPES, word)),
            Kind::Field(..) => number(),
            Kind::Opt => number().or_else(|| names::find(names::TCP_FLAGS, word)),
            Kind::Host | Kind::Net => None,
        }
    }

    fn proto6(&self, word: &str) -> Option<u32> {
        let known = self.names().ip_proto(word).map(u32::from);
        match word {
            "icmp6" => Some(ICMP6),
            _ => known.or_else(|| names::find(names::PROTOCOLS, word)).filter(|proto| *proto <= TCP_OR_UDP),
        }
    }

    /// The primitive that begins here.
    pub(super) fn six(&mut self) -> Expr {
        let first = self.pos();
        let mut six = Six::default();
        let mut any = false;
        let alone = self.is_value_alone();
        while let Some(word) = self.word(self.pos()).filter(|_| !alone) {
            if let Some((side, words)) = self.side_at(self.pos()) {
                if six.side.replace(side).is_some() {
                    return self.wrong6(first, "'src' or 'dst' specified twice");
                }
                self.skip(words);
            } else if word == "ip6" {
                self.skip(1);
            } else if let Some(&(_, kind)) = KINDS.iter().find(|(name, _)| *name == word) {
                if six.kind.replace(kind).is_some() {
                    return self.wrong6(first, "type specified twice");
                }
                self.skip(1);
            } else if let Some(proto) = self.proto6(word).filter(|_| six.kind != Some(Kind::Proto)) {
                if six.proto.replace(proto).is_some_and(|old| old != proto) {
                    return self.wrong6(first, "transport protocol specified twice");
                }
                self.skip(1);
            } else {
                break;
            }
            any = true;
        }
        if !any {
            six = self.before_six();
        }
        if six.kind.is_none() && self.word(self.pos()) == Some("[") {
            match self.brackets6(six.proto) {
                Ok(kind) => six.kind = Some(kind),
                Err(wrong) => return self.wrong6(first, wrong),
            }
        }
        self.tests6(first, six)
    }

    /// `[POS]` or `[POS:LEN]`, in bytes from the header's beginning.
    fn brackets6(&mut self, proto: Option<u32>) -> Result<Kind, &'static str> {
        let inside = self.word(self.pos() + 1).unwrap_or_default();
        let parsed = match inside.split_once(':') {
            Some((pos, len)) => integer(pos).zip(integer(len)),
            None => integer(inside).map(|pos| (pos, 1)),
        };
        let (Some((pos, len)), Some("]")) = (parsed, self.word(self.pos() + 2)) else {
            return Err("syntax error after '[', expected '[POS]' or '[POS:LEN]'");
        };
        self.skip(3);
        let base = if proto.is_some() { 40 } else { 0 };
        if !(1..=4).contains(&len) || pos < 0 || pos + base + len > 256 || pos / 4 != (pos + len - 1) / 4 {
            return Err("'[POS:LEN]' must be in one word of the first 256 bytes");
        }
        Ok(Kind::Field((pos + base) as u32 * 8, len as u32 * 8))
    }

    fn wrong6(&mut self, first: usize, message: &str) -> Expr {
        let to = self.pos().max(first) + 1;
        let text: Vec<&str> = (first..to).map_while(|pos| self.word(pos)).collect();
        let message = format!("'{}': {message}", text.join(" "));
        let span = self.span(first, to);
        self.report(Severity::Error, span, &message, None);
        // What follows would only be wrong because of this.
        self.skip(usize::MAX);
        Expr::True
    }

    /// Reads mask, operator and value, and makes the tests.
    fn tests6(&mut self, first: usize, mut six: Six) -> Expr {
        let mut mask = None;
        if self.word(self.pos()) == Some("&")
            && let Some(bits) =
                self.word(self.pos() + 1).and_then(integer).and_then(|n| u32::try_from(n).ok())
        {
            mask = Some(bits);
            self.skip(2);
        }
        let (op, negated, words) = match self.word(self.pos()) {
            Some("=" | "==") => (Op::Eq, false, 1),
            Some("!=") => (Op::Eq, true, 1),
            Some(">") => (Op::Gt, false, 1),
            Some("<=") => (Op::Gt, true, 1),
            Some("<") => (Op::Lt, false, 1),
            Some(">=") => (Op::Lt, true, 1),
            _ => (Op::Eq, false, 0),
        };
        self.skip(words);
        let value = self.word(self.pos());
        if six.kind.is_none()
            && let Some(literal) = value.filter(|word| is_literal(word))
        {
            six.kind = Some(if literal.contains('/') { Kind::Net } else { Kind::Host });
        }
        let mut parts = vec![Expr::test(NET, 6 << 28, 0xf << 28)];
        let is_next = |number: u32| Expr::test(NET + 4, number << 8, 0xff00);
        if six.kind == Some(Kind::Opt) {
            six.proto.get_or_insert(TCP);
        }
        if six.kind == Some(Kind::Field(HEADER_BITS, 8)) {
            six.proto.get_or_insert(ICMP6);
        }
        if six.kind == Some(Kind::Port) {
            six.proto.get_or_insert(TCP_OR_UDP);
        }
        match six.proto {
            Some(TCP_OR_UDP) => parts.push(Expr::Or(vec![is_next(TCP), is_next(UDP)])),
            Some(ICMP) => return self.wrong6(first, "IPv6 has 'icmp6'"),
            Some(number) => parts.push(is_next(number)),
            None => {}
        }
        let places = match six.kind {
            None if words > 0 || mask.is_some() || six.side.is_some() => {
                return self.wrong6(first, "value missing");
            }
            None => return Expr::And(parts),
            Some(Kind::Host | Kind::Net) => {
                let Some((bits, len)) = value.and_then(|word| network(word, self.names())) else {
                    return self.wrong6(first, "not an IPv6 address");
                };
                if op != Op::Eq || mask.is_some() {
                    return self.wrong6(first, "operator or mask not supported");
                }
                if six.kind == Some(Kind::Host) && len != 128 {
                    return self.wrong6(first, "'host' has an address without length");
                }
                self.skip(1);
                self.set_before_six(six);
                let full = u128::MAX.checked_shl(128 - len).unwrap_or(0);
                let at = |offset: u16| {
                    let word = |n: u32, bits: u128| (bits >> (96 - 32 * n)) as u32;
                    Expr::And(
                        (0..4)
                            .map(|n| Expr::test(offset + 4 * n as u16, word(n, bits), word(n, full)))
                            .collect(),
                    )
                };
                parts.push(sides(six.side, negated, at(NET + 8), at(NET + 24)));
                return Expr::And(parts);
            }
            Some(Kind::Port) if !matches!(six.proto, Some(TCP | UDP | TCP_OR_UDP)) => {
                return self.wrong6(first, "'port' needs TCP or UDP");
            }
            Some(Kind::Port) => [(HEADER_BITS, 16), (HEADER_BITS + 16, 16)],
            Some(Kind::Proto) => [(NEXT_HEADER, 8); 2],
            Some(Kind::Opt) => [(HEADER_BITS + 13 * 8, 8); 2],
            Some(Kind::Field(offset, bits)) => [(offset, bits); 2],
        };
        let Some(value) = value.and_then(|word| self.value6(&six, word)) else {
            return self.wrong6(first, "value missing or unknown");
        };
        self.skip(1);
        if six.kind == Some(Kind::Proto) && value == TCP_OR_UDP {
            parts.push(Expr::Or(vec![is_next(TCP), is_next(UDP)]));
            return Expr::And(parts);
        }
        if six.kind == Some(Kind::Opt) {
            // All these flags are set.
            mask = Some(value);
        }
        let mut made = Vec::with_capacity(2);
        let mut turned = negated;
        for (offset, bits) in places {
            let mut primitive = Primitive {
                kind: Some(PrimitiveType::Field(Field { proto: None, offset, bits })),
                data: Some(PrimitiveType::Int),
                op,
                negated,
                value,
                ..Primitive::default()
            };
            match primitive.resolve_field(mask) {
                Ok(warning) => {
                    if let Some(warning) = warning.filter(|_| made.is_empty()) {
                        let span = self.span(first, self.pos());
                        self.report(Severity::Warning, span, &warning, None);
                    }
                }
                Err(message) => {
                    let span = self.span(first, self.pos());
                    self.report(Severity::Error, span, &message, None);
                    return Expr::True;
                }
            }
            turned = std::mem::take(&mut primitive.negated);
            made.push(primitive.expr());
        }
        self.set_before_six(six);
        let [Some(dst), Some(src)] = [made.pop(), made.pop()] else { return Expr::True };
        parts.push(match six.kind {
            Some(Kind::Port) => sides(six.side, turned, src, dst),
            _ if turned => src.differs(),
            _ => src,
        });
        Expr::And(parts)
    }
}

fn sides(side: Option<SrcDst>, negated: bool, src: Expr, dst: Expr) -> Expr {
    let expr = match side {
        Some(SrcDst::Src) => src,
        Some(SrcDst::Dst) => dst,
        Some(SrcDst::And) => Expr::And(vec![src, dst]),
        Some(SrcDst::Or) | None => Expr::Or(vec![src, dst]),
    };
    if negated { expr.differs() } else { expr }
}
