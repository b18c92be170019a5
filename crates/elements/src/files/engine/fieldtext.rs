//! Writes the values of fields into an IP summary dump as text.

use super::facts::{Facts, padded};
use super::fields::{FLAGS, FieldKind};
use super::fieldvalue::Value;
use crate::plumbing::engine::text::timestamp;
use lang::args::NameDb;
use md5::{Digest, Md5};
use std::fmt::Write;
use wire::{ipv4, protocol, tcp};

/// Writes the value that a field has for a packet.
pub(in crate::files) fn write(kind: FieldKind, value: Value<'_>, f: &Facts<'_>, out: &mut String) {
    // Writing to a string succeeds.
    let _ = match value {
        Value::Time(ns) => write!(out, "{}", timestamp(ns as i64)),
        Value::Address(address) => write!(out, "{address}"),
        Value::Ethernet(address) => write!(out, "{address}"),
        Value::Bytes(bytes) => out.write_str(&match kind {
            FieldKind::IpOpt => options(bytes, ip_option),
            FieldKind::TcpOpt => options(bytes, |o| Some(tcp_option(o))),
            FieldKind::TcpNtopt => {
                options(bytes, |o| Some(if o.first() == Some(&8) { None } else { tcp_option(o) }))
            }
            FieldKind::TcpSack => {
                options(bytes, |o| Some(if matches!(o.first(), Some(4 | 5)) { tcp_option(o) } else { None }))
            }
            FieldKind::PayloadMd5 => digest_text(Md5::digest(bytes).into()),
            FieldKind::PayloadMd5Hex => format!("{:032x}", u128::from_be_bytes(Md5::digest(bytes).into())),
            _ => lang::quote_bytes(bytes),
        }),
        Value::Number(n) => number(kind, n, f, out),
    };
}

fn number(kind: FieldKind, n: u64, f: &Facts<'_>, out: &mut String) -> std::fmt::Result {
    let byte = n as u8;
    match kind {
        FieldKind::Direction if n < 2 => out.write_char(if n == 0 { '>' } else { '<' }),
        FieldKind::EthType => write!(out, "{n:04X}"),
        FieldKind::IpEcn => {
            out.write_str(["no", "ect1", "ect2", "ce"].get(usize::from(byte)).copied().unwrap_or("no"))
        }
        FieldKind::IpFrag => out.write_char(char::from(byte)),
        FieldKind::IpFragoff => {
            let mark = |flag: u16, mark: &'static str| if n & u64::from(flag) != 0 { mark } else { "" };
            let offset = (n & u64::from(ipv4::FRAGMENT_OFFSET_MASK)) << 3;
            write!(out, "{offset}{}{}", mark(ipv4::FLAG_MF, "+"), mark(ipv4::FLAG_DF, "!"))
        }
        FieldKind::IpProto => match byte {
            protocol::TCP => out.write_char('T'),
            protocol::UDP => out.write_char('U'),
            protocol::ICMP => out.write_char('I'),
            other => write!(out, "{other}"),
        },
        FieldKind::TcpFlags => {
            match n {
                0 => out.push('.'),
                n if n == u64::from(tcp::PSH | tcp::ACK) => out.push_str("PA"),
                n => out.extend(FLAGS.chars().enumerate().filter(|(i, _)| n >> i & 1 != 0).map(|(_, c)| c)),
            }
            Ok(())
        }
        FieldKind::IcmpTypeName => match NameDb::icmp_type_name(byte) {
            Some(name) => out.write_str(name),
            None => write!(out, "{n}"),
        },
        FieldKind::IcmpCodeName => {
            let icmp = wire::Icmpv4::wrap(padded(f.icmp.unwrap_or(&[])));
            match NameDb::icmp_code_name(icmp.kind(), byte) {
                Some(name) => out.write_str(name),
                None => write!(out, "{n}"),
            }
        }
        _ => write!(out, "{n}"),
    }
}

/// Writes options with `one`, which returns `None` for an invalid option and an empty value for one that is
/// left out.
fn options(mut bytes: &[u8], one: impl Fn(&[u8]) -> Option<Option<String>>) -> String {
    let mut all: Vec<String> = Vec::new();
    loop {
        bytes = match bytes {
            [] | [0, ..] => break,
            [1, rest @ ..] => rest,
            [_, len, ..] => {
                let len = usize::from(*len);
                let Some((option, rest)) = bytes.split_at_checked(len).filter(|_| len >= 2) else {
                    return "?".to_owned();
                };
                match one(option) {
                    None => return "?".to_owned(),
                    Some(text) => all.extend(text),
                }
                rest
            }
            [_] => return "?".to_owned(),
        };
    }
    if all.is_empty() { ".".to_owned() } else { all.join(";") }
}

/// An option without a text form of its own: its number and its bytes.
fn plain_option(option: &[u8]) -> String {
    let mut s = option.first().map_or(String::new(), ToString::to_string);
    for (i, byte) in option.get(2..).unwrap_or(&[]).iter().enumerate() {
        let _ = write!(s, "{}{byte}", if i == 0 { '=' } else { ':' });
    }
    s
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().copied().map_or(0, u32::from_be_bytes)
}

fn tcp_option(o: &[u8]) -> Option<String> {
    Some(match o {
        [2, 4, a, b] => format!("mss{}", u16::from_be_bytes([*a, *b])),
        [3, 3, n] => format!("wscale{n}"),
        [4, 2] => "sackok".to_owned(),
        [5, len, blocks @ ..] if len % 8 == 2 && !blocks.is_empty() => {
            let blocks = blocks.chunks_exact(8);
            let block = |b: &[u8]| format!("sack{}-{}", be32(b), be32(b.get(4..).unwrap_or(&[])));
            blocks.map(block).collect::<Vec<_>>().join(";")
        }
        [8, 10, ts @ ..] => format!("ts{}:{}", be32(ts), be32(ts.get(4..).unwrap_or(&[]))),
        [2..=5 | 8, ..] => "?".to_owned(),
        _ => plain_option(o),
    })
}

fn ip_option(o: &[u8]) -> Option<Option<String>> {
    let name = match o {
        [ipv4::OPT_RR, ..] => "rr",
        [ipv4::OPT_LSRR, ..] => "lsrr",
        [ipv4::OPT_SSRR, ..] => "ssrr",
        [ipv4::OPT_TS, ..] => return timestamps(o).map(Some),
        _ => return Some(Some(plain_option(o))),
    };
    let pointer = usize::from(*o.get(2)?).checked_sub(4)?;
    let (records, mut s, mut at) = (o.get(3..)?, format!("{name}{{"), 0);
    let mut separator = "";
    for hop in records.chunks_exact(4) {
        if at == pointer {
            if name == "rr" {
                break;
            }
            separator = "^";
        }
        let [a, b, c, d] = be32(hop).to_be_bytes();
        let _ = write!(s, "{separator}{a}.{b}.{c}.{d}");
        separator = ",";
        at += 4;
    }
    if at == pointer && at == records.len() && name != "rr" {
        s.push('^');
    }
    s.push('}');
    if name == "rr" && at == pointer && at + 4 <= records.len() {
        let _ = write!(s, "+{}", (records.len() - at) / 4);
    }
    Some(Some(s))
}

fn timestamps(o: &[u8]) -> Option<String> {
    let (pointer, flags, records) = (usize::from(*o.get(2)?).checked_sub(5)?, *o.get(3)?, o.get(4..)?);
    let flag = flags & 15;
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let mut s = match flag {
        0 => "ts{".to_owned(),
        1 => "ts.ip{".to_owned(),
        3 => "ts.preip{".to_owned(),
        n => format!("ts.{n}{{"),
    };
    let (mut at, mut separator) = (0, "");
    for record in records.chunks_exact(size) {
        if at == pointer {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        s.push_str(separator);
        let mut value = record;
        if size == 8 {
            let [a, b, c, d] = be32(record).to_be_bytes();
            let _ = write!(s, "{a}.{b}.{c}.{d}");
            value = record.get(4..).unwrap_or(&[]);
        }
        if flag != 3 || at < pointer {
            let v = be32(value);
            let nonstandard = if v >> 31 != 0 { "!" } else { "" };
            let _ = write!(s, "{}{nonstandard}{}", if size == 8 { "=" } else { "" }, v & 0x7fff_ffff);
        }
        separator = ",";
        at += size;
    }
    s.push_str(if at == pointer && at == records.len() { "^}" } else { "}" });
    if at == pointer && at + size <= records.len() {
        let _ = write!(s, "+{}", (records.len() - at) / size);
    }
    if flags >> 4 != 0 {
        let _ = write!(s, "++{}", flags >> 4);
    }
    Some(s)
}

/// A digest as Click writes it: six bits a character, the lowest first.
fn digest_text(digest: [u8; 16]) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let bits = u128::from_le_bytes(digest);
    let letter = |at: u32| LETTERS.get((bits >> at) as usize & 63).map_or('@', |letter| char::from(*letter));
    (0..128).step_by(6).map(letter).collect()
}
