//! Values as text: numbers and addresses.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A number, printed as a decimal one.
    Number,
    /// A number, printed as a hexadecimal one.
    Hex,
    /// A MAC address.
    Mac,
    /// An IPv4 address; a number is one too.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is written in another form.
    Form,
    /// It is too large.
    Range,
}

impl Form {
    /// What it is.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number | Self::Hex => "a number",
            Self::Mac => "a MAC address",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
        }
    }

    /// What a good value is, for a help.
    pub fn what(self, most: u128) -> String {
        match self {
            Self::Number => format!("a number from 0 to {most}"),
            Self::Hex => format!("a number from 0 to {most:#x}"),
            Self::Mac => "a MAC address such as 02:00:00:00:00:01".to_owned(),
            Self::Ipv4 => "an IPv4 address such as 10.0.0.1".to_owned(),
            Self::Ipv6 => "an IPv6 address such as 2001:db8::1".to_owned(),
        }
    }

    /// Whether it is an address of IP.
    pub fn is_address(self) -> bool {
        matches!(self, Self::Ipv4 | Self::Ipv6)
    }

    /// A value of at most this.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(self, text: &str, most: u128) -> Result<u128, Wrong> {
        let value = match self {
            Self::Number | Self::Hex => number(text)?,
            Self::Mac => mac(text).ok_or(Wrong::Form)?,
            Self::Ipv4 => match text.parse::<Ipv4Addr>() {
                Ok(address) => u128::from(address.to_bits()),
                Err(_) => number(text)?,
            },
            Self::Ipv6 => text.parse::<Ipv6Addr>().map_err(|_| Wrong::Form)?.to_bits(),
        };
        if value > most { Err(Wrong::Range) } else { Ok(value) }
    }

    /// Writes a value.
    pub fn write(self, value: u128, out: &mut String) {
        // Writing to a string does not fail.
        let _ = match self {
            Self::Number => write!(out, "{value}"),
            Self::Hex => write!(out, "{value:#x}"),
            Self::Mac => {
                let [.., a, b, c, d, e, f] = value.to_be_bytes();
                write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Self::Ipv4 => write!(out, "{}", Ipv4Addr::from_bits(value as u32)),
            Self::Ipv6 => write!(out, "{}", Ipv6Addr::from_bits(value)),
        };
    }
}

/// A number as in C: decimal, hexadecimal after 0x, octal after 0.
fn number(text: &str) -> Result<u128, Wrong> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, base) = match hex {
        Some(digits) => (digits, 16),
        None => (text, if text.starts_with('0') { 8 } else { 10 }),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| char::from(digit).is_digit(base)) {
        return Err(Wrong::Form);
    }
    u64::from_str_radix(digits, base).map(u128::from).map_err(|_| Wrong::Range)
}

/// A MAC address: six bytes of one or two hexadecimal digits, or three numbers of four.
fn mac(text: &str) -> Option<u128> {
    let (mut value, mut groups, mut digits, mut group) = (0u64, 0, 0, 0u64);
    let width = if text.bytes().filter(|b| *b == b':').count() == 2 { 4 } else { 2 };
    for byte in text.bytes().chain([b':']) {
        if byte == b':' {
            // Numbers of four have all their digits.
            if digits == 0 || digits > width || width == 4 && digits < 4 || groups == 12 / width {
                return None;
            }
            value = value << (4 * width) | group;
            (groups, digits, group) = (groups + 1, 0, 0);
        } else {
            group = (group << 4 | u64::from(char::from(byte).to_digit(16)?)) & 0xffff;
            digits += 1;
        }
    }
    (groups == 12 / width).then_some(u128::from(value))
}
