//! One primitive of a pattern, such as `src tcp port & 0xff != 80`: the meaning of its parts together, and
//! its tests.

use crate::graph::{Expr, NET, TRANSP};
use crate::names::{ANY_TRANSPORT, DCCP, ICMP, TCP, TCP_OR_UDP, UDP};

/// A field of the network header, or of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The protocol whose header it is in; `None`: the IP header.
    pub(crate) proto: Option<u32>,
    /// Where it begins, in bits.
    pub(crate) offset: u32,
    /// How long it is; it never crosses a word.
    pub(crate) bits: u32,
}

const fn ip(offset: u32, bits: u32) -> PrimitiveType {
    PrimitiveType::Field(Field { proto: None, offset, bits })
}

/// The kind of a primitive, or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrimitiveType {
    Int,
    Host,
    Net,
    Ether,
    Proto,
    Port,
    TcpOpt,
    Frag,
    Unfrag,
    Ect,
    Ce,
    Field(Field),
}

const TOS: PrimitiveType = ip(8, 8);
const TCP_WIN: PrimitiveType = PrimitiveType::Field(Field { proto: Some(TCP), offset: 112, bits: 16 });
pub(crate) const ICMP_TYPE: PrimitiveType =
    PrimitiveType::Field(Field { proto: Some(ICMP), offset: 0, bits: 8 });

/// Words that select the kind of a primitive.
pub(crate) const KINDS: &[(&str, PrimitiveType)] = &[
    ("host", PrimitiveType::Host),
    ("net", PrimitiveType::Net),
    ("port", PrimitiveType::Port),
    ("proto", PrimitiveType::Proto),
    ("opt", PrimitiveType::TcpOpt),
    ("win", TCP_WIN),
    ("type", ICMP_TYPE),
    ("frag", PrimitiveType::Frag),
    ("unfrag", PrimitiveType::Unfrag),
    ("ect", PrimitiveType::Ect),
    ("ce", PrimitiveType::Ce),
    ("vers", ip(0, 4)),
    ("hl", ip(4, 4)),
    ("tos", TOS),
    ("dscp", ip(8, 6)),
    ("ecn", ip(14, 2)),
    ("len", ip(16, 16)),
    ("id", ip(32, 16)),
    ("ttl", ip(64, 8)),
];

impl PrimitiveType {
    /// The kind, as messages name it.
    pub(crate) fn describe(self) -> String {
        match self {
            PrimitiveType::Int => "number".into(),
            PrimitiveType::Host => "ip host".into(),
            PrimitiveType::Net => "ip net".into(),
            PrimitiveType::Ether => "ether host".into(),
            PrimitiveType::Proto => "proto".into(),
            PrimitiveType::Port => "port".into(),
            PrimitiveType::TcpOpt => "tcp opt".into(),
            PrimitiveType::Frag => "ip frag".into(),
            PrimitiveType::Unfrag => "ip unfrag".into(),
            PrimitiveType::Ect => "ip ect".into(),
            PrimitiveType::Ce => "ip ce".into(),
            PrimitiveType::Field(field) => {
                let header = field.proto.map_or("ip".into(), describe_proto);
                match KINDS.iter().find(|(_, kind)| *kind == self) {
                    Some((name, _)) => format!("{header} {name}"),
                    None => format!("{header}[...]"),
                }
            }
        }
    }
}

/// The name of a protocol in messages.
pub(crate) fn describe_proto(proto: u32) -> String {
    match crate::names::PROTOCOLS.iter().find(|&&(_, number)| number == proto) {
        Some((name, _)) => (*name).into(),
        None => format!("ip proto {proto}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SrcDst {
    Src,
    Dst,
    And,
    Or,
}

/// What a primitive about IPv6 is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SixKind {
    Host,
    Net,
    Port,
    Proto,
    /// A field by its place in the packet and its length, in bits.
    Field(u32, u32),
    /// The flags of TCP.
    Opt,
}

/// The qualifiers of a primitive about IPv6.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Six {
    pub(crate) side: Option<SrcDst>,
    pub(crate) proto: Option<u32>,
    pub(crate) kind: Option<SixKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Gt,
    Lt,
}

/// The header that the primitive names: `ip` or `ether`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Ip,
    Ether,
}

/// The mask in a primitive: its kind and its bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    pub(crate) kind: PrimitiveType,
    pub(crate) bits: u32,
    pub(crate) ether: [u8; 6],
}

/// The parts of a primitive: as written, and after [`resolve`](Primitive::resolve) with those that were
/// omitted.
#[derive(Clone, Debug)]
pub(crate) struct Primitive {
    pub(crate) kind: Option<PrimitiveType>,
    pub(crate) data: Option<PrimitiveType>,
    pub(crate) proto: Option<u32>,
    pub(crate) srcdst: Option<SrcDst>,
    pub(crate) op: Op,
    pub(crate) negated: bool,
    pub(crate) value: u32,
    pub(crate) mask: u32,
    pub(crate) ether: [u8; 6],
    pub(crate) ether_mask: [u8; 6],
}

impl Default for Primitive {
    fn default() -> Self {
        Primitive {
            kind: None,
            data: None,
            proto: None,
            srcdst: None,
            op: Op::Eq,
            negated: false,
            value: 0,
            mask: 0,
            ether: [0; 6],
            ether_mask: [0xff; 6],
        }
    }
}

impl Primitive {
    fn describe(&self) -> String {
        let side = match self.srcdst {
            None => "",
            Some(SrcDst::Src) => "src ",
            Some(SrcDst::Dst) => "dst ",
            Some(SrcDst::Or) => "src or dst ",
            Some(SrcDst::And) => "src and dst ",
        };
        format!("{side}{}", self.kind.map_or("<none>".into(), PrimitiveType::describe))
    }

    fn describe_op(&self) -> &'static str {
        match (self.op, self.negated) {
            (Op::Eq, false) => "=",
            (Op::Eq, true) => "!=",
            (Op::Gt, false) => ">",
            (Op::Gt, true) => "<=",
            (Op::Lt, false) => "<",
            (Op::Lt, true) => ">=",
        }
    }

    /// Adds the omitted parts, from the value and from the primitive before it, and checks that the parts are
    /// consistent. Returns a warning, if there is one.
    pub(crate) fn resolve(
        &mut self,
        before: &Primitive,
        header: Option<Header>,
        mask: Option<Mask>,
    ) -> Result<Option<String>, String> {
        let side_given = self.srcdst.is_some();
        if self.kind.is_none() {
            self.infer_kind(before)?;
        }
        let header = header.unwrap_or(if self.data == Some(PrimitiveType::Ether) {
            Header::Ether
        } else {
            Header::Ip
        });
        if header == Header::Ether && self.kind == Some(PrimitiveType::Host) {
            self.kind = Some(PrimitiveType::Ether);
        }
        let fit = self.fit(header, mask);
        let mut warning = fit.map_err(|message| match message {
            Mismatch::Part(what) => format!("'{}': {what}", self.describe()),
            Mismatch::Whole(message) => message,
        })?;
        if matches!(self.kind, Some(PrimitiveType::Host | PrimitiveType::Port | PrimitiveType::Ether)) {
            self.srcdst.get_or_insert(SrcDst::Or);
        } else if side_given && warning.is_none() {
            warning = Some(format!("'{}': 'src' or 'dst' ignored", self.describe()));
        }
        Ok(warning)
    }

    /// The kind that follows from the value, if necessary together with the previous primitive.
    fn infer_kind(&mut self, before: &Primitive) -> Result<(), String> {
        if self.data == Some(PrimitiveType::Int) {
            match before.kind {
                Some(PrimitiveType::Field(_) | PrimitiveType::Proto | PrimitiveType::Port) => {
                    self.data = before.kind
                }
                _ => return Err("specify header field or 'port'".into()),
            }
        }
        match self.data {
            Some(PrimitiveType::Host | PrimitiveType::Net | PrimitiveType::TcpOpt | PrimitiveType::Ether) => {
                self.srcdst = self.srcdst.or(before.srcdst);
            }
            Some(PrimitiveType::Port) => {
                self.srcdst = self.srcdst.or(before.srcdst);
                self.proto = self.proto.or(before.proto);
            }
            Some(PrimitiveType::Field(field)) => self.proto = self.proto.or(field.proto),
            None if self.proto.is_some() => {
                self.kind = Some(PrimitiveType::Proto);
                return Ok(());
            }
            None => return Err("partial directive".into()),
            Some(_) => {}
        }
        self.kind = self.data;
        Ok(())
    }

    fn fit(&mut self, header: Header, mask: Option<Mask>) -> Result<Option<String>, Mismatch> {
        let Some(kind) = self.kind else { return Err(Mismatch::Part("value missing")) };
        if header == Header::Ether
            && !matches!(kind, PrimitiveType::Host | PrimitiveType::Net | PrimitiveType::Ether)
        {
            return Err(Mismatch::Part("ip only"));
        }
        let bits = mask.map(|mask| mask.bits);
        let bad_unless = |wanted: &[PrimitiveType]| match mask {
            Some(mask) if !wanted.contains(&mask.kind) => Err(Mismatch::Part("bad mask")),
            _ => Ok(()),
        };
        match kind {
            PrimitiveType::Host | PrimitiveType::Net => {
                if header == Header::Ether || self.data != Some(kind) {
                    return Err(Mismatch::Part("address missing"));
                }
                self.only_equal()?;
                bad_unless(&[PrimitiveType::Int, PrimitiveType::Host])?;
                self.mask = bits.unwrap_or(if kind == PrimitiveType::Host { u32::MAX } else { self.mask });
                self.kind = Some(PrimitiveType::Host);
                Ok(None)
            }
            PrimitiveType::Ether => {
                if header == Header::Ip || self.data != Some(PrimitiveType::Ether) {
                    return Err(Mismatch::Part("address missing"));
                }
                self.only_equal()?;
                bad_unless(&[PrimitiveType::Ether])?;
                self.ether_mask = mask.map_or([0xff; 6], |mask| mask.ether);
                Ok(None)
            }
            PrimitiveType::Proto => {
                let asked = match self.data {
                    Some(PrimitiveType::Int | PrimitiveType::Proto) => {
                        if self.proto.is_some_and(|proto| proto != self.value) {
                            return Err(Mismatch::Part("specified twice"));
                        }
                        if self.data == Some(PrimitiveType::Int) && self.value > 255 && self.op == Op::Eq {
                            return Err(Mismatch::Part("out of range, bound 255"));
                        }
                        Some(self.value)
                    }
                    None => self.proto,
                    Some(_) => None,
                };
                self.proto = None;
                let Some(asked) = asked else { return Err(Mismatch::Part("value missing")) };
                self.value = asked;
                self.data = None;
                let mut warning = None;
                if (256..=ANY_TRANSPORT).contains(&asked) && self.op == Op::Eq {
                    if self.negated || mask.is_some() {
                        let name = describe_proto(asked);
                        return Err(Mismatch::Whole(format!("'{name}': operator or mask not supported")));
                    }
                    self.mask = 0xff;
                } else {
                    bad_unless(&[PrimitiveType::Int])?;
                    warning = self.limit(0xff, bits)?;
                }
                if self.op == Op::Eq && self.mask == 0xff && !self.negated {
                    self.proto = Some(self.value);
                }
                Ok(warning)
            }
            PrimitiveType::Port => {
                if !matches!(self.data, Some(PrimitiveType::Int | PrimitiveType::Port)) {
                    return Err(Mismatch::Part("value missing"));
                }
                self.data = Some(PrimitiveType::Port);
                let proto = *self.proto.get_or_insert(TCP_OR_UDP);
                if !matches!(proto, TCP | UDP | TCP_OR_UDP | DCCP) {
                    return Err(Mismatch::Whole(format!("'port': bad protocol {proto}")));
                }
                bad_unless(&[PrimitiveType::Int])?;
                self.limit(0xffff, bits)
            }
            PrimitiveType::TcpOpt => {
                if !matches!(self.data, Some(PrimitiveType::Int | PrimitiveType::TcpOpt)) {
                    return Err(Mismatch::Part("value missing"));
                }
                self.data = Some(PrimitiveType::TcpOpt);
                let proto = *self.proto.get_or_insert(TCP);
                if proto != TCP {
                    return Err(Mismatch::Whole(format!("'tcp opt': bad protocol {proto}")));
                }
                if self.op != Op::Eq || self.negated || mask.is_some() {
                    return Err(Mismatch::Part("operator or mask not supported"));
                }
                if self.value > 255 {
                    return Err(Mismatch::Whole(format!(
                        "'tcp opt': value {} out of range",
                        self.value as i32
                    )));
                }
                self.mask = self.value;
                Ok(None)
            }
            PrimitiveType::Ect => {
                match self.data {
                    None => {
                        self.op = Op::Eq;
                        self.value = 0;
                        self.negated = true;
                    }
                    Some(PrimitiveType::Int) => bad_unless(&[PrimitiveType::Int])?,
                    Some(_) => return Err(Mismatch::Part("value missing")),
                }
                let warning = self.limit(3, bits)?;
                self.kind = Some(TOS);
                Ok(warning)
            }
            PrimitiveType::Ce | PrimitiveType::Frag | PrimitiveType::Unfrag => {
                if self.data.is_some() || mask.is_some() {
                    return Err(Mismatch::Part("value not supported"));
                }
                self.only_equal()?;
                if kind == PrimitiveType::Ce {
                    (self.value, self.mask) = (3, 3);
                    self.kind = Some(TOS);
                } else {
                    self.negated |= kind == PrimitiveType::Unfrag;
                    self.kind = Some(PrimitiveType::Frag);
                }
                Ok(None)
            }
            PrimitiveType::Field(field) => {
                if self.data != Some(PrimitiveType::Int) && self.data != Some(kind) {
                    return Err(Mismatch::Part("value missing"));
                }
                bad_unless(&[PrimitiveType::Int, kind])?;
                self.limit(u32::MAX >> (32 - field.bits), bits)
            }
            PrimitiveType::Int => Err(Mismatch::Part("value missing")),
        }
    }

    /// Checks a primitive about a field whose kind, value and relation are complete. Returns a warning, if
    /// there is one.
    pub(crate) fn resolve_field(&mut self, mask: Option<u32>) -> Result<Option<String>, String> {
        let Some(PrimitiveType::Field(field)) = self.kind else { return Ok(None) };
        self.limit(u32::MAX >> (32 - field.bits), mask).map_err(|mismatch| match mismatch {
            Mismatch::Part(what) => format!("'{}': {what}", self.describe()),
            Mismatch::Whole(message) => message,
        })
    }

    fn only_equal(&self) -> Result<(), Mismatch> {
        if self.op == Op::Eq { Ok(()) } else { Err(Mismatch::Part("operator not supported")) }
    }

    /// Rewrites value, mask and relation as one of two forms: equal, or greater.
    fn limit(&mut self, full: u32, given: Option<u32>) -> Result<Option<String>, Mismatch> {
        let mask = given.unwrap_or(full);
        if mask & full != mask {
            let what = format!("'{}': mask out of range, bound 0x{full:X}", self.describe());
            return Err(Mismatch::Whole(what));
        }
        self.mask = mask;
        if self.op == Op::Eq {
            if self.value > full {
                return Err(Mismatch::Whole(format!("'{}': out of range, bound {full}", self.describe())));
            }
            return Ok(None);
        }
        let below = self.op == Op::Lt;
        if (below && (self.value == 0 || self.value > mask)) || (!below && self.value >= mask) {
            let holds = if below && self.value > mask { !self.negated } else { self.negated };
            let warning = format!(
                "relation '{} {}' is always {holds} (range 0-{mask})",
                self.describe_op(),
                self.value
            );
            (self.value, self.mask, self.op, self.negated) = (0, 0, Op::Eq, !holds);
            return Ok(Some(warning));
        }
        if below {
            // x < v is not (x > v - 1).
            self.value -= 1;
            self.negated = !self.negated;
            self.op = Op::Gt;
        }
        // With the mask, the field can have only some values: the greatest one below the given value is
        // equivalent.
        let missing = self.value & full & !mask;
        if missing != 0 {
            self.value = (self.value | (u32::MAX >> missing.leading_zeros() >> 1)) & mask;
        }
        self.value &= mask;
        Ok(None)
    }

    /// The tests.
    pub(crate) fn expr(&self) -> Expr {
        let mut parts = Vec::new();
        match self.proto {
            Some(TCP_OR_UDP) => parts.push(Expr::Or(vec![proto_is(TCP), proto_is(UDP)])),
            Some(proto) if proto < 256 => parts.push(proto_is(proto)),
            _ => {}
        }
        let needs_transport = match self.kind {
            Some(PrimitiveType::Port | PrimitiveType::TcpOpt) => true,
            Some(PrimitiveType::Field(field)) => field.proto.is_some(),
            _ => false,
        };
        if needs_transport {
            // Only the first fragment has the transport header.
            parts.push(Expr::test(NET + 4, 0, 0x1fff));
        }
        match self.kind {
            Some(PrimitiveType::Host) => {
                let at = |offset| Expr::test(offset, self.value, self.mask);
                parts.push(self.sides(at(NET + 12), at(NET + 16)));
            }
            Some(PrimitiveType::Ether) => parts.push(self.sides(self.ether_at(2), self.ether_at(0))),
            Some(PrimitiveType::Port) => {
                parts.push(self.sides(self.comparison(TRANSP, 16), self.comparison(TRANSP, 0)));
            }
            Some(PrimitiveType::TcpOpt) => {
                parts.push(Expr::test(TRANSP + 12, self.value << 16, self.mask << 16))
            }
            Some(PrimitiveType::Frag) => {
                let whole = Expr::test(NET + 4, 0, 0x3fff);
                parts.push(if self.negated { whole } else { whole.differs() });
            }
            Some(PrimitiveType::Proto) if self.proto.is_none_or(|proto| proto < 256) => {
                parts.push(self.negate(self.comparison(NET + 8, 16)));
            }
            Some(PrimitiveType::Field(field)) => {
                let base = if field.proto.is_some() { TRANSP } else { NET };
                let word = (field.offset / 32 * 4) as u16;
                let shift = 32 - (field.offset % 32 + field.bits);
                parts.push(self.negate(self.comparison(base + word, shift)));
            }
            _ => {}
        }
        Expr::And(parts)
    }

    fn negate(&self, expr: Expr) -> Expr {
        if self.negated { expr.differs() } else { expr }
    }

    fn sides(&self, src: Expr, dst: Expr) -> Expr {
        self.negate(match self.srcdst {
            Some(SrcDst::Src) => src,
            Some(SrcDst::Dst) => dst,
            Some(SrcDst::And) => Expr::And(vec![src, dst]),
            Some(SrcDst::Or) | None => Expr::Or(vec![src, dst]),
        })
    }

    /// The Ethernet address `words` words after the destination address. The MAC header begins at offset 2.
    fn ether_at(&self, words: u16) -> Expr {
        let word = |bytes: [u8; 4]| u32::from_be_bytes(bytes);
        let pair = |[a, b, c, d, e, f]: [u8; 6]| match words {
            0 => [word([0, 0, a, b]), word([c, d, e, f])],
            _ => [word([a, b, c, d]), word([e, f, 0, 0])],
        };
        let (values, masks) = (pair(self.ether), pair(self.ether_mask));
        let at = |part: usize| Expr::test(words * 4 + part as u16 * 4, values[part], masks[part]);
        Expr::And(vec![at(0), at(1)])
    }

    /// The test of the field that ends `shift` bits before the end of the word at `offset` against the value.
    fn comparison(&self, offset: u16, shift: u32) -> Expr {
        match self.op {
            Op::Eq => Expr::test(offset, self.value << shift, self.mask << shift),
            _ => greater(offset, shift, self.mask, self.value),
        }
    }
}

fn proto_is(proto: u32) -> Expr {
    Expr::test(NET + 8, proto << 16, 0x00ff_0000)
}

/// `field & mask > value`, where `value` has only bits of `mask` and is less than it.
///
/// Each step tests the leading bits of the mask for which the value has only zeros, or the value plus one has
/// only ones. For zeros, any bit that is set in the field makes it greater. For ones, the field must have all
/// of them, and the rest decides.
fn greater(offset: u16, shift: u32, mask: u32, value: u32) -> Expr {
    let top_is_set = value > mask >> 1;
    let pivot = if top_is_set { !(value + 1) & mask } else { value };
    let lower = if pivot == 0 { 0 } else { u32::MAX >> pivot.leading_zeros() };
    let upper = mask & !lower;
    let (mask, value) = (mask & lower, value & lower);
    let rest = (value & mask < mask).then(|| greater(offset, shift, mask, value & mask));
    if top_is_set {
        let first = Expr::test(offset, upper << shift, upper << shift);
        Expr::And(std::iter::once(first).chain(rest).collect())
    } else {
        let first = Expr::test(offset, 0, upper << shift).differs();
        Expr::Or(std::iter::once(first).chain(rest).collect())
    }
}

/// The error if the parts of a primitive are not consistent.
enum Mismatch {
    /// An error that is reported with the text of the primitive.
    Part(&'static str),
    /// A complete message.
    Whole(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greater_is_greater() {
        let limit: u32 = if cfg!(miri) { 16 } else { 64 };
        for mask in 1..limit {
            for value in (0..mask).filter(|value| value & mask == *value) {
                let expr = greater(0, 4, mask, value);
                for field in 0..limit {
                    let word = field << 4;
                    let answer = expr.eval(&|test| word & test.mask == test.value);
                    assert_eq!(answer, field & mask > value, "{field} & {mask} > {value}");
                }
            }
        }
        let top = greater(0, 0, u32::MAX, u32::MAX - 1);
        assert!(top.eval(&|test| test.mask == test.value));
        assert!(!top.eval(&|test| (u32::MAX - 1) & test.mask == test.value));
    }
}
