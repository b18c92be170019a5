//! A security association as a line of text.

use super::selectors::{self, Selectors};
use super::window::MAX_WINDOW;
use crate::secret::Secret;
use dpdk::crypto::{Aad, Algorithm, Transform};
use lang::args::{FromArg, NameDb};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// The last sequence number, of 32 bits and of 64. Of the latter, a few numbers are left, so that counting
/// beyond the last one does not wrap around.
pub(super) const LAST_SEQUENCE: u64 = u32::MAX as u64;
pub(super) const LAST_EXTENDED: u64 = u64::MAX - (1 << 32);

/// The direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// They are encrypted.
    Out,
    /// They are decrypted.
    In,
}

/// The ends of a tunnel: source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ends {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Ends {
    /// Reads two addresses or their names. A name may have an address of each version of IP: that of IPv4 is
    /// taken if both have one.
    fn read(src: &str, dst: &str, names: &NameDb) -> Result<Self, String> {
        let four = [src, dst].map(|text| Ipv4Addr::from_arg(text, names).ok());
        let six = [src, dst].map(|text| Ipv6Addr::from_arg(text, names).ok());
        for (i, what) in ["source", "destination"].into_iter().enumerate() {
            if four[i].is_none() && six[i].is_none() {
                return Err(format!("bad {what} address"));
            }
        }
        match (four, six) {
            ([Some(src), Some(dst)], _) => Ok(Self::V4(src, dst)),
            (_, [Some(src), Some(dst)]) => Ok(Self::V6(src, dst)),
            _ => Err("source and destination are of different versions of IP".into()),
        }
    }

    /// Whether an outer header with these addresses is of the tunnel. An end that is 0.0.0.0 or `::` is any.
    #[inline]
    pub(crate) fn include(&self, outer: &Self) -> bool {
        match (self, outer) {
            (Self::V4(src, dst), Self::V4(from, to)) => {
                (src == from || src.is_unspecified()) && (dst == to || dst.is_unspecified())
            }
            (Self::V6(src, dst), Self::V6(from, to)) => {
                (src == from || src.is_unspecified()) && (dst == to || dst.is_unspecified())
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::V4(src, dst) => write!(f, "{src} {dst}"),
            Self::V6(src, dst) => write!(f, "{src} {dst}"),
        }
    }
}

/// The value of the outer header's "do not fragment" bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DontFragment {
    Copy,
    Set,
    Clear,
}

/// The contents of a line. It does not implement `Debug`, so that keys are never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) direction: Direction,
    pub(crate) spi: u32,
    pub(crate) ends: Ends,
    pub(crate) algorithm: Algorithm,
    pub(super) key: Secret,
    pub(super) auth_key: Secret,
    pub(super) salt: [u8; 4],
    pub(crate) paint: Option<u8>,
    pub(super) window: u32,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(crate) esn: bool,
    pub(super) first: u64,
    pub(super) ttl: u8,
    /// `None`: that of the inner header.
    pub(super) dscp: Option<u8>,
    pub(crate) ecn: bool,
    pub(super) df: DontFragment,
    pub(super) selectors: Selectors,
}

fn hex(text: &str, what: &str) -> Result<Secret, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let wrong = || format!("the {what} is no even number of hexadecimal digits");
    let mut bytes = Secret::with_capacity(digits.len() / 2);
    for byte in crate::hex::pairs(digits.chars()) {
        bytes.push(byte.ok_or_else(wrong)?);
    }
    if bytes.is_empty() { Err(wrong()) } else { Ok(bytes) }
}

fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value.and_then(|v| T::try_from(v).ok()).ok_or_else(|| format!("bad {what}"))
}

static KEYED: OnceLock<RandomState> = OnceLock::new();

impl Spec {
    /// Reads `in|out SPI SRC DST ALGORITHM KEY [AUTH_KEY] [NAME VALUE]...`, where addresses may have one of
    /// `names`. No message quotes a key.
    pub(crate) fn parse(line: &str, names: &NameDb) -> Result<Spec, String> {
        // Words are not copied, so there are no copies of keys to be overwritten.
        let mut words = line.split_whitespace();
        let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
        let direction = match next("'in' or 'out'")? {
            "in" => Direction::In,
            "out" => Direction::Out,
            _ => return Err("the first word should be 'in' or 'out'".into()),
        };
        let spi: u32 = number(next("the SPI")?, "SPI")?;
        if spi < 256 {
            return Err("SPIs below 256 are reserved (RFC 4303 section 2.1)".into());
        }
        let (src, dst) = (next("the source")?, next("the destination")?);
        let ends = Ends::read(src, dst, names)?;
        let name = next("the algorithm")?;
        let algorithm = match name {
            "aes-gcm" => Algorithm::AesGcm,
            "aes-cbc-hmac-sha1" => Algorithm::AesCbcHmacSha1,
            "aes-cbc-hmac-sha256" => Algorithm::AesCbcHmacSha256,
            _ => {
                return Err(
                    "unknown algorithm; there are aes-gcm, aes-cbc-hmac-sha1 and aes-cbc-hmac-sha256".into(),
                );
            }
        };
        let mut key = hex(next("the key")?, "key")?;
        let (mut auth_key, mut salt) = (Secret::default(), [0; 4]);
        if algorithm == Algorithm::AesGcm {
            let last = key.split_last().filter(|_| [16, 24, 32].contains(&key.len()));
            salt =
                last.ok_or("a key for aes-gcm has 16, 24 or 32 bytes and 4 of salt (RFC 4106 section 8.1)")?;
        } else {
            if ![16, 24, 32].contains(&key.len()) {
                return Err("a key for aes-cbc has 16, 24 or 32 bytes".into());
            }
            auth_key = hex(next("the authentication key")?, "authentication key")?;
            if auth_key.len() != algorithm.auth_key_len() {
                return Err(format!("the authentication key has {} bytes", algorithm.auth_key_len()));
            }
        }
        let mut spec = Spec {
            direction,
            spi,
            ends,
            algorithm,
            key,
            auth_key,
            salt,
            paint: None,
            window: 1024,
            packets: u64::MAX,
            bytes: u64::MAX,
            esn: false,
            first: 1,
            ttl: 64,
            dscp: None,
            ecn: true,
            df: DontFragment::Copy,
            selectors: Selectors::default(),
        };
        while let Some(name) = words.next() {
            // A word that is not a known name may be part of a key, and is not quoted.
            const NAMES: [&str; 10] =
                ["paint", "window", "packets", "bytes", "first", "ttl", "dscp", "ecn", "df", "esn"];
            if name == "esn" {
                spec.esn = true;
                continue;
            }
            if !NAMES.contains(&name) && !selectors::NAMES.contains(&name) {
                let known = [&NAMES[..], &selectors::NAMES[..]].concat();
                return Err(format!("unknown word; there are {}", known.join(", ")));
            }
            let value = words.next().ok_or_else(|| format!("a value for {name} is missing"))?;
            match (name, direction) {
                (_, Direction::In) if selectors::NAMES.contains(&name) => {
                    spec.selectors.word(name, value, names)?;
                }
                ("paint", _) => spec.paint = Some(number(value, name)?),
                ("window", Direction::In) => {
                    spec.window = number(value, name)?;
                    if spec.window > MAX_WINDOW {
                        return Err(format!("window too large; max {MAX_WINDOW}"));
                    }
                }
                ("packets", _) => spec.packets = number(value, name)?,
                ("bytes", _) => spec.bytes = number(value, name)?,
                ("first", _) => {
                    spec.first = number(value, name)?;
                    if spec.first == 0 {
                        return Err("sequence numbers begin with 1".into());
                    }
                }
                ("ttl", Direction::Out) => spec.ttl = number(value, name)?,
                ("dscp", Direction::Out) if value == "copy" => spec.dscp = None,
                ("dscp", Direction::Out) => {
                    spec.dscp = Some(number(value, name).ok().filter(|d| *d < 64).ok_or("bad dscp")?);
                }
                ("ecn", _) => {
                    spec.ecn = match value {
                        "copy" => true,
                        "none" => false,
                        _ => return Err("ecn should be 'copy' or 'none'".into()),
                    };
                }
                ("df", Direction::Out) if matches!(ends, Ends::V6(..)) => {
                    return Err("a header of IPv6 has no df".into());
                }
                ("df", Direction::Out) => {
                    spec.df = match value {
                        "copy" => DontFragment::Copy,
                        "set" => DontFragment::Set,
                        "clear" => DontFragment::Clear,
                        _ => return Err("df should be 'copy', 'set' or 'clear'".into()),
                    };
                }
                _ => {
                    let direction = if direction == Direction::In { "in" } else { "out" };
                    return Err(format!("'{direction}' has no {name}"));
                }
            }
        }
        if !spec.esn && spec.first > LAST_SEQUENCE {
            return Err("bad first; larger numbers need esn".into());
        }
        if spec.esn && spec.direction == Direction::In && spec.window == 0 {
            return Err("esn needs a window: by it the half of a number that is not sent is found".into());
        }
        Ok(spec)
    }

    /// The protection of packets.
    pub(crate) fn transform(&self) -> Transform<'_> {
        Transform {
            algorithm: self.algorithm,
            encrypt: self.direction == Direction::Out,
            key: &self.key,
            auth_key: &self.auth_key,
            aad: if self.esn { Aad::Extended } else { Aad::ESP },
        }
    }

    /// A number that is equal for equal specifications within this process, and from which no key can be
    /// guessed.
    pub(super) fn identity(&self) -> u64 {
        KEYED.get_or_init(RandomState::new).hash_one(self)
    }

    /// The same for the SPI and the keys, to which sequence numbers belong.
    pub(super) fn key_identity(&self) -> u64 {
        let keys = (&self.key, &self.auth_key, self.salt);
        KEYED.get_or_init(RandomState::new).hash_one((self.direction, self.spi, self.algorithm.name(), keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCM: &str = "out 0x1001 192.0.2.1 192.0.2.2 aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213";

    #[test]
    fn wrong_lines_are_refused_without_their_keys() {
        let cbc = "in 300 1.0.0.1 1.0.0.2 aes-cbc-hmac-sha1 000102030405060708090a0b0c0d0e0f";
        for (line, message) in [
            ("", "'in' or 'out' is missing"),
            ("through 300", "'in' or 'out'"),
            ("out 255 1.0.0.1 1.0.0.2 aes-gcm 00", "reserved"),
            ("out 4294967296", "bad SPI"),
            ("out 300 1.0.0 1.0.0.2", "bad source"),
            ("out 300 1.0.0.1 x", "bad destination"),
            ("out 300 1.0.0.1 2001:db8::1", "different versions"),
            (&GCM.replace("192.0.2.", "fd00::").replacen("aes-gcm", "aes-gcm 00", 1), "4 of salt"),
            (&format!("{} df copy", GCM.replace("192.0.2.", "fd00::")), "no df"),
            ("out 300 1.0.0.1 1.0.0.2 des", "unknown algorithm"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm", "the key is missing"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm deadbeef5", "hexadecimal"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm deadbeef", "4 of salt"),
            (cbc, "authentication key is missing"),
            (&format!("{cbc} deadbeef"), "has 20 bytes"),
            (&format!("{GCM} deadbeef 1"), "unknown word"),
            (&format!("{GCM} window 64"), "'out' has no window"),
            (&format!("{GCM} from 10.0.0.0/8"), "'out' has no from"),
            (&format!("{} from deadbeef", GCM.replace("out", "in")), "bad from"),
            (&format!("{} dport", GCM.replace("out", "in")), "a value for dport"),
            (&format!("{GCM} dscp 64"), "bad dscp"),
            (&format!("{GCM} ttl 256"), "bad ttl"),
            (&format!("{GCM} first 0"), "begin with 1"),
            (&format!("{GCM} paint"), "a value for paint"),
            (&format!("{GCM} first 0x100000000"), "need esn"),
            (&format!("{} window 0 esn", GCM.replace("out", "in")), "esn needs a window"),
        ] {
            let Err(error) = Spec::parse(line, &NameDb::default()) else { panic!("{line}") };
            assert!(error.contains(message), "{line}: {error}");
            assert!(!error.contains("deadbeef") && !error.contains("0001"), "{error}");
        }
    }
}
