//! Numbers that have names: places of annotations, ports, protocols.

use super::fromarg::{FromArg, PARSE_ERROR};
use super::known::{ANNOTATION_SIZE, ANNOTATIONS};
use super::names::NameDb;
use super::number::{INVALID_NUMBER, parse_unsigned};
use crate::diag::nearest;
use wire::names::PORTS;

/// A place in a packet's annotation area, by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnoOffset {
    /// Offset in bytes.
    pub offset: u16,
    /// Size in bytes; 0 if only a number was given.
    pub size: u16,
}

fn anno_hint(text: &str) -> String {
    match nearest(text, ANNOTATIONS.iter().map(|(n, ..)| *n)) {
        Some(near) if !text.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{PARSE_ERROR}, did you mean '{near}'?")
        }
        _ => PARSE_ERROR.into(),
    }
}

impl FromArg for AnnoOffset {
    const EXPECTS: &'static str = "an annotation, such as PAINT, or its offset";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        let (offset, size) = match names.annotation(text) {
            Some(a) => a,
            None => (parse_unsigned(text, u64::from(u16::MAX)).map_err(|_| anno_hint(text))? as u16, 0),
        };
        if offset >= ANNOTATION_SIZE {
            return Err(PARSE_ERROR.into());
        }
        Ok(AnnoOffset { offset, size })
    }
}

/// Offset of an annotation of `SIZE` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno<const SIZE: u16>(pub u16);

impl<const SIZE: u16> FromArg for Anno<SIZE> {
    const EXPECTS: &'static str = "an annotation of the right size, or its offset";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        let a = AnnoOffset::from_arg(text, names)?;
        if (a.size != 0 && a.size != SIZE) || a.offset + SIZE > ANNOTATION_SIZE {
            return Err(PARSE_ERROR.into());
        }
        Ok(Anno(a.offset))
    }
}

fn port_arg(text: &str, found: Option<u16>) -> Result<u16, String> {
    match found {
        Some(p) => Ok(p),
        None => parse_unsigned(text, u64::from(u32::MAX))
            .map_err(|_| {
                // Of two names that are as near, the first of the alphabet is proposed.
                let mut names: Vec<&str> = PORTS.iter().map(|(name, _)| *name).collect();
                names.sort_unstable();
                match nearest(text, names) {
                    Some(near) if text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                        format!("{PARSE_ERROR}, did you mean '{near}'?")
                    }
                    _ => PARSE_ERROR.into(),
                }
            })
            .and_then(|n| u16::try_from(n).map_err(|_| "overflow, range 0-65535".into())),
    }
}

macro_rules! ports {
    ($($(#[$doc:meta])* $name:ident, $lookup:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl FromArg for $name {
            const EXPECTS: &'static str = "a port number or name";
            fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
                let lookup: fn(&NameDb, &str) -> Option<u16> = $lookup;
                port_arg(text, lookup(names, text)).map($name)
            }
        }
    )*};
}

ports! {
    /// A TCP port, by number or name.
    TcpPort, |names, text| names.port(6, text);
    /// A UDP port, by number or name.
    UdpPort, |names, text| names.port(17, text);
    /// A TCP or UDP port, by number or name.
    IpPort, |names, text| names.port(6, text).or_else(|| names.port(17, text));
}

/// An IP protocol, by number or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProto(pub u8);

impl FromArg for IpProto {
    const EXPECTS: &'static str = "an IP protocol, by number or name";
    fn from_arg(text: &str, names: &NameDb) -> Result<Self, String> {
        match names.protocol(text) {
            Some(p) => u8::try_from(p).map(IpProto).map_err(|_| PARSE_ERROR.into()),
            // As with all names, a text that is no number either is not called one.
            None => parse_unsigned(text, 255).map(|n| IpProto(n as u8)).map_err(|e| match &e[..] {
                INVALID_NUMBER => PARSE_ERROR.into(),
                _ => e,
            }),
        }
    }
}
