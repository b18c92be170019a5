//! A field of an IP packet in Click's words: `ip src/8`, `ip[12]`, `tcp flags & 0x3f`.

use lang::args::{NameDb, parse_unsigned};

/// The header that a field is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::analysis) enum Header {
    Ip,
    /// The transport header of one protocol.
    Protocol(u8),
    /// The transport header of TCP or UDP.
    TcpUdp,
    /// Any transport header.
    Transport,
    /// What follows the header of TCP or UDP.
    Payload,
}

impl Header {
    /// The header that a word names, and the protocols that are known by name.
    fn named(word: &str, names: &NameDb) -> Option<Self> {
        match word {
            "payload" | "data" => Some(Self::Payload),
            _ => match names.protocol(word)? {
                256 => Some(Self::TcpUdp),
                257 => Some(Self::Transport),
                n => u8::try_from(n).ok().map(Self::Protocol),
            },
        }
    }
    /// The name by which Click shows it.
    pub(in crate::analysis) fn name(self) -> String {
        match self {
            Self::Ip => "ip".to_owned(),
            Self::TcpUdp => "tcpudp".to_owned(),
            Self::Transport => "transp".to_owned(),
            Self::Payload => "payload".to_owned(),
            Self::Protocol(n) => NameDb::protocol_name(n).map_or_else(|| n.to_string(), str::to_owned),
        }
    }
}

const ICMP: Header = Header::Protocol(1);
const TCP: Header = Header::Protocol(6);
const UDP: Header = Header::Protocol(17);

/// The named fields: the header by which they are found, name, the header that they are in, offset and length
/// in bits.
const FIELDS: [(Header, &str, Header, u32, u32); 45] = [
    (Header::Ip, "df", Header::Ip, 49, 1),
    (Header::Ip, "dport", Header::TcpUdp, 16, 16),
    (Header::Ip, "dscp", Header::Ip, 8, 6),
    (Header::Ip, "dst", Header::Ip, 128, 32),
    (Header::Ip, "ecn", Header::Ip, 14, 2),
    (Header::Ip, "fragoff", Header::Ip, 51, 13),
    (Header::Ip, "hl", Header::Ip, 4, 4),
    (Header::Ip, "id", Header::Ip, 32, 16),
    (Header::Ip, "len", Header::Ip, 16, 16),
    (Header::Ip, "mf", Header::Ip, 50, 1),
    (Header::Ip, "off", Header::Ip, 48, 16),
    (Header::Ip, "proto", Header::Ip, 72, 8),
    (Header::Ip, "rf", Header::Ip, 48, 1),
    (Header::Ip, "sport", Header::TcpUdp, 0, 16),
    (Header::Ip, "src", Header::Ip, 96, 32),
    (Header::Ip, "sum", Header::Ip, 80, 16),
    (Header::Ip, "tos", Header::Ip, 8, 8),
    (Header::Ip, "ttl", Header::Ip, 64, 8),
    (Header::Ip, "vers", Header::Ip, 0, 4),
    (UDP, "dport", UDP, 16, 16),
    (UDP, "len", UDP, 32, 16),
    (UDP, "sport", UDP, 0, 16),
    (UDP, "sum", UDP, 48, 16),
    (TCP, "ack", TCP, 107, 1),
    (TCP, "ackno", TCP, 64, 32),
    (TCP, "dport", TCP, 16, 16),
    (TCP, "fin", TCP, 111, 1),
    (TCP, "flags", TCP, 104, 8),
    (TCP, "hl", TCP, 96, 4),
    (TCP, "psh", TCP, 108, 1),
    (TCP, "push", TCP, 108, 1),
    (TCP, "rst", TCP, 109, 1),
    (TCP, "seq", TCP, 32, 32),
    (TCP, "seqno", TCP, 32, 32),
    (TCP, "sport", TCP, 0, 16),
    (TCP, "sum", TCP, 128, 16),
    (TCP, "syn", TCP, 110, 1),
    (TCP, "urg", TCP, 106, 1),
    (TCP, "urp", TCP, 144, 16),
    (TCP, "win", TCP, 112, 16),
    (ICMP, "code", ICMP, 8, 8),
    (ICMP, "sum", ICMP, 16, 16),
    (ICMP, "type", ICMP, 0, 8),
    (Header::TcpUdp, "dport", Header::TcpUdp, 16, 16),
    (Header::TcpUdp, "sport", Header::TcpUdp, 0, 16),
];

const EXPECTED: &str = "expected 'HEADER [NAME] [{OFFSET:LENGTH}] [/PREFIX] [& MASK]'";
const BAD_PLACE: &str = "bad offset or length in TCP/IP field";
const BAD_MASK: &str = "bad prefix or mask in TCP/IP field";
/// The largest offset and length, in bits; Click's are the same where the field is whole bytes.
const MOST: (u64, u64) = (0x1fff << 3, 64 << 3);

/// A field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::analysis) struct IpField {
    pub(in crate::analysis) header: Header,
    pub(in crate::analysis) bit_offset: u32,
    pub(in crate::analysis) bit_length: u32,
}

/// The text up to the next space or mark, and the rest.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "/[{&".contains(c)).unwrap_or(text.len());
    text.split_at(end)
}

/// The number at the beginning, decimal or hexadecimal, and the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((parse_unsigned(digits, u64::from(u32::MAX)).ok()?, rest))
}

/// Offset and length in brackets, in bits, and the rest: `[8]`, `[8:2]`, `[8-9]`, or bits in braces.
fn brackets(text: &str) -> Option<(u64, i64, &str)> {
    let (unit, close) = match text.bytes().next()? {
        b'[' => (8, ']'),
        b'{' => (1, '}'),
        _ => return None,
    };
    let (offset, rest) = number(text.get(1..)?.trim_start())?;
    let rest = rest.trim_start();
    let (length, rest) = if let Some(rest) = rest.strip_prefix(':') {
        let (n, rest) = number(rest.trim_start())?;
        (n as i64, rest)
    } else if let Some(rest) = rest.strip_prefix('-') {
        let (last, rest) = number(rest.trim_start())?;
        (last as i64 - offset as i64 + 1, rest)
    } else {
        (1, rest)
    };
    Some((offset * unit, length * unit as i64, rest.trim_start().strip_prefix(close)?))
}

impl IpField {
    /// Reads a field; the second part is the text behind it.
    ///
    /// # Errors
    /// What is wrong, in Click's words.
    pub(in crate::analysis) fn parse<'a>(
        text: &'a str,
        names: &NameDb,
    ) -> Result<(Self, &'a str), &'static str> {
        let (header, rest) = Self::header(text, names).ok_or(EXPECTED)?;
        let (name, behind) = word(rest.trim_start());
        let known = FIELDS.iter().find(|f| f.0 == header && f.1 == name);
        let named = known.map(|f| Self { header: f.2, bit_offset: f.3, bit_length: f.4 });
        let rest = if named.is_some() { behind } else { rest };
        let (mut field, mut rest) = match (brackets(rest.trim_start()), named) {
            (Some((offset, length, rest)), named) => {
                let length = u64::try_from(length).ok().filter(|n| *n > 0).ok_or(BAD_PLACE)?;
                let (most_offset, most_length) = named.map_or(MOST, |f| (MOST.0, f.bit_length.into()));
                let inside = named.is_none() || offset + length <= most_length;
                if offset > most_offset || length > most_length || !inside {
                    return Err(BAD_PLACE);
                }
                let begin = named.map_or(0, |f| f.bit_offset);
                let header = named.map_or(header, |f| f.header);
                (Self { header, bit_offset: begin + offset as u32, bit_length: length as u32 }, rest)
            }
            (None, Some(field)) => (field, rest),
            (None, None) => return Err(EXPECTED),
        };
        if let Some((n, behind)) = rest.trim_start().strip_prefix('/').and_then(|r| number(r.trim_start())) {
            if n == 0 || n > u64::from(field.bit_length) {
                return Err(BAD_MASK);
            }
            (field.bit_length, rest) = (n as u32, behind);
        }
        if let Some((mask, behind)) = rest.trim_start().strip_prefix('&').and_then(|r| number(r.trim_start()))
        {
            let (low, high) = (mask.trailing_zeros(), 64 - mask.leading_zeros());
            if mask == 0 || (mask >> low).count_ones() != high - low || high > field.bit_length {
                return Err(BAD_MASK);
            }
            field.bit_offset += field.bit_length - high;
            (field.bit_length, rest) = (high - low, behind);
        }
        Ok((field, rest))
    }

    /// The header that a text begins with, and the rest.
    fn header<'a>(text: &'a str, names: &NameDb) -> Option<(Header, &'a str)> {
        let text = text.trim_start();
        if let Some(rest) = text.strip_prefix("ip")
            && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            let protocol = || number(rest.trim_start().strip_prefix("proto")?.trim_start());
            return match protocol().and_then(|(n, rest)| Some((u8::try_from(n).ok()?, rest))) {
                Some((0, _)) | None => Some((Header::Ip, rest)),
                Some((n, rest)) => Some((Header::Protocol(n), rest)),
            };
        }
        let (first, rest) = word(text);
        match Header::named(first, names) {
            Some(header) => Some((header, rest)),
            // Ports need no header.
            None => matches!(first, "sport" | "dport").then_some((Header::TcpUdp, text)),
        }
    }

    /// The text of the field, as short as its name allows.
    pub(in crate::analysis) fn text(self) -> String {
        let name = |offset: u32, length: u32| {
            let same = |f: &&(Header, &'static str, Header, u32, u32)| {
                f.0 == self.header && f.2 == self.header && (f.3, f.4) == (offset, length)
            };
            FIELDS.iter().find(same).map(|f| f.1)
        };
        let header = self.header.name();
        let (mut at, len) = (self.bit_offset, self.bit_length);
        if let Some(name) = name(at, len) {
            return format!("{header} {name}");
        }
        let mut text = header;
        for container in [8, 16, 32] {
            if at / container == (at + len - 1) / container
                && let Some(name) = name(at - at % container, container)
            {
                text = format!("{text} {name}");
                at %= container;
                if at == 0 {
                    return format!("{text}/{len}");
                }
                break;
            }
        }
        match (at.is_multiple_of(8), len) {
            (true, 8) => format!("{text}[{}]", at / 8),
            (true, _) if len.is_multiple_of(8) => format!("{text}[{}:{}]", at / 8, len / 8),
            (_, 1) => format!("{text}{{{at}}}"),
            _ => format!("{text}{{{at}:{len}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Header, u32, u32), &'static str> {
        let (f, rest) = IpField::parse(text, &NameDb::new())?;
        if rest.trim().is_empty() { Ok((f.header, f.bit_offset, f.bit_length)) } else { Err("garbage") }
    }

    #[test]
    fn the_same_field_in_many_ways() {
        for text in
            ["ip src/8", "ip src & 0xFF000000", "ip[12]", "ip[12:1]", "ip{96:8}", "ip{96-103}", "ip src[0]"]
        {
            assert_eq!(read(text), Ok((Header::Ip, 96, 8)), "{text}");
        }
    }

    #[test]
    fn headers_and_names() {
        assert_eq!(read("ip tos"), Ok((Header::Ip, 8, 8)));
        assert_eq!(read("ip proto"), Ok((Header::Ip, 72, 8)));
        assert_eq!(read("ip proto 6 sport"), Ok((TCP, 0, 16)));
        assert_eq!(read("ip sport"), Ok((Header::TcpUdp, 0, 16)));
        assert_eq!(read("dport"), Ok((Header::TcpUdp, 16, 16)));
        assert_eq!(read("udp len"), Ok((UDP, 32, 16)));
        assert_eq!(read("tcp flags & 0x3F"), Ok((TCP, 106, 6)));
        assert_eq!(read("icmp type"), Ok((ICMP, 0, 8)));
        assert_eq!(read("transp [0:2]"), Ok((Header::Transport, 0, 16)));
        assert_eq!(read("data[4]"), Ok((Header::Payload, 32, 8)));
        assert_eq!(read("ip[8:2] & 0x3F0"), Ok((Header::Ip, 70, 6)));
    }

    #[test]
    fn what_is_wrong() {
        for text in ["", "nothing", "ip", "ip nothing", "udp", "ip [", "ip[x]"] {
            assert_eq!(read(text), Err(EXPECTED), "{text}");
        }
        for text in ["ip[5-3]", "ip[1:0]", "ip tos[1]", "ip src[2:3]", "ip[99999999:1]", "ip[0:65]"] {
            assert_eq!(read(text), Err(BAD_PLACE), "{text}");
        }
        for text in ["ip src/33", "ip src/0", "ip tos & 0", "ip tos & 5", "ip tos & 0x100"] {
            assert_eq!(read(text), Err(BAD_MASK), "{text}");
        }
        assert_eq!(read("ip src 8"), Err("garbage"));
    }

    #[test]
    fn text_reads_back() {
        for (text, shown) in [
            ("ip src/8", "ip src/8"),
            ("ip tos & 0x3c", "ip tos{2:4}"),
            ("ip[8:2]", "ip[8:2]"),
            ("ip sport", "tcpudp sport"),
            ("ip{3}", "ip{3}"),
            ("tcp push", "tcp psh"),
            ("ip src[1]", "ip src[1]"),
            ("payload[0:4]", "payload[0:4]"),
        ] {
            let (field, _) = IpField::parse(text, &NameDb::new()).unwrap();
            assert_eq!(field.text(), shown);
            assert_eq!(IpField::parse(shown, &NameDb::new()).unwrap().0, field);
        }
    }
}
