//! Security associations: what a line of text says, and what it becomes.

use super::window::{MAX_WINDOW, Window};
use dpdk::crypto::{Algorithm, CryptoSession, Transform};
use lang::args::split_words;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use wire::Ipv4;
use wire::ipv4::HEADER_LEN;

/// Bytes of SPI and sequence number.
pub(crate) const ESP_LEN: usize = 8;
/// IP protocol numbers.
pub(crate) const PROTO_ESP: u8 = 50;
pub(crate) const PROTO_IPV4: u8 = 4;
pub(crate) const PROTO_IPV6: u8 = 41;
pub(crate) const PROTO_NONE: u8 = 59;
/// The last sequence number there is.
const LAST_SEQUENCE: u64 = u32::MAX as u64;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// They are encrypted.
    Out,
    /// They are decrypted.
    In,
}

/// What the outer header's "do not fragment" bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DontFragment {
    Copy,
    Set,
    Clear,
}

/// What a line says. It shows its keys to nobody: `Debug` is left out on purpose.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) direction: Direction,
    pub(crate) spi: u32,
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) algorithm: Algorithm,
    key: Vec<u8>,
    auth_key: Vec<u8>,
    salt: [u8; 4],
    pub(crate) paint: Option<u8>,
    window: u32,
    packets: u64,
    bytes: u64,
    first: u32,
    ttl: u8,
    /// `None`: the inner one.
    dscp: Option<u8>,
    pub(crate) ecn: bool,
    df: DontFragment,
}

impl Drop for Spec {
    fn drop(&mut self) {
        // The device has what it needs. `black_box` keeps the stores.
        self.key.fill(0);
        self.auth_key.fill(0);
        std::hint::black_box((&self.key, &self.auth_key));
    }
}

fn hex(text: &str, what: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let nibble = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let bytes: Option<Vec<u8>> = (digits.chunks(2))
        .map(|pair| match *pair {
            [high, low] => Some(nibble(high)? << 4 | nibble(low)?),
            _ => None,
        })
        .collect();
    bytes
        .filter(|b| !b.is_empty())
        .ok_or_else(|| format!("the {what} is no even number of hexadecimal digits"))
}

fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Result<T, String> {
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value.and_then(|v| T::try_from(v).ok()).ok_or_else(|| format!("bad {what}"))
}

impl Spec {
    /// Reads `in|out SPI SRC DST ALGORITHM KEY [AUTH_KEY] [NAME VALUE]...`. No message quotes a key.
    pub(crate) fn parse(line: &str) -> Result<Spec, String> {
        let words: Vec<String> = split_words(line).into_iter().map(|w| w.text).collect();
        let mut words = words.iter().map(String::as_str);
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
        let address = |text: &str, what: &str| text.parse().map_err(|_| format!("bad {what} address"));
        let src = address(next("the source")?, "source")?;
        let dst = address(next("the destination")?, "destination")?;
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
        let (mut auth_key, mut salt) = (Vec::new(), [0; 4]);
        if algorithm == Algorithm::AesGcm {
            if ![20, 28, 36].contains(&key.len()) {
                return Err(
                    "a key for aes-gcm has 16, 24 or 32 bytes and 4 of salt (RFC 4106 section 8.1)".into()
                );
            }
            salt.copy_from_slice(&key.split_off(key.len() - 4));
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
            src,
            dst,
            algorithm,
            key,
            auth_key,
            salt,
            paint: None,
            window: 64,
            packets: u64::MAX,
            bytes: u64::MAX,
            first: 1,
            ttl: 64,
            dscp: None,
            ecn: true,
            df: DontFragment::Copy,
        };
        while let Some(name) = words.next() {
            // A word that is no name may be part of a key, and is not quoted.
            const NAMES: [&str; 9] =
                ["paint", "window", "packets", "bytes", "first", "ttl", "dscp", "ecn", "df"];
            let known = NAMES.contains(&name).then_some(name);
            let name = known.ok_or_else(|| format!("unknown word; there are {}", NAMES.join(", ")))?;
            let value = words.next().ok_or_else(|| format!("a value for {name} is missing"))?;
            match (name, direction) {
                ("paint", Direction::Out) => spec.paint = Some(number(value, name)?),
                ("window", Direction::In) => {
                    spec.window = number(value, name)?;
                    if spec.window > MAX_WINDOW {
                        return Err(format!("window too large; max {MAX_WINDOW}"));
                    }
                }
                ("packets", _) => spec.packets = number(value, name)?,
                ("bytes", _) => spec.bytes = number(value, name)?,
                ("first", Direction::Out) => {
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
                ("df", Direction::Out) => {
                    spec.df = match value {
                        "copy" => DontFragment::Copy,
                        "set" => DontFragment::Set,
                        "clear" => DontFragment::Clear,
                        _ => return Err("df should be 'copy', 'set' or 'clear'".into()),
                    };
                }
                _ => {
                    let way = if direction == Direction::In { "in" } else { "out" };
                    return Err(format!("'{way}' has no {name}"));
                }
            }
        }
        Ok(spec)
    }

    /// How packets are protected.
    pub(crate) fn transform(&self) -> Transform<'_> {
        Transform {
            algorithm: self.algorithm,
            encrypt: self.direction == Direction::Out,
            key: &self.key,
            auth_key: &self.auth_key,
        }
    }

    /// A number by which equal ones are known within this process, and from which no key can be guessed.
    fn identity(&self) -> u64 {
        static KEYED: OnceLock<RandomState> = OnceLock::new();
        KEYED.get_or_init(RandomState::new).hash_one(self)
    }
}

/// A security association in use.
pub(crate) struct Sa {
    pub(crate) direction: Direction,
    pub(crate) spi: u32,
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: Ipv4Addr,
    pub(crate) algorithm: Algorithm,
    pub(crate) paint: Option<u8>,
    pub(crate) ecn: bool,
    /// What it was made of, keys included.
    pub(crate) identity: u64,
    /// Whether a handler added it.
    pub(crate) by_handler: bool,
    /// One for each worker.
    pub(crate) sessions: Box<[CryptoSession]>,
    salt: [u8; 4],
    key_bits: usize,
    window_size: u32,
    packet_limit: u64,
    byte_limit: u64,
    /// Outer header and SPI of outbound packets, but for what each packet has of its own.
    template: Ipv4<[u8; HEADER_LEN]>,
    dscp: Option<u8>,
    df: DontFragment,
    /// The next sequence number of outbound packets.
    next: AtomicU64,
    /// Where nonces begin: unknown to others, and different each time keys are loaded.
    nonce: u128,
    /// Packets and inner bytes that have been protected or accepted.
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Packets that were refused: forged, replayed, after the end of its life.
    pub(crate) refused: AtomicU64,
    pub(crate) window: Mutex<Window>,
}

impl fmt::Debug for Sa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sa({:?} {:#x})", self.direction, self.spi)
    }
}

fn random_nonce() -> Result<u128, String> {
    let mut bytes = [0; 16];
    let file = std::fs::File::open("/dev/urandom");
    file.and_then(|mut f| f.read_exact(&mut bytes)).map_err(|e| format!("/dev/urandom: {e}"))?;
    Ok(u128::from_ne_bytes(bytes))
}

impl Sa {
    pub(crate) fn new(spec: &Spec, sessions: Vec<CryptoSession>, by_handler: bool) -> Result<Sa, String> {
        let mut template = Ipv4::build(spec.src, spec.dst, PROTO_ESP, 0);
        template.set_ttl(spec.ttl);
        Ok(Sa {
            direction: spec.direction,
            spi: spec.spi,
            src: spec.src,
            dst: spec.dst,
            algorithm: spec.algorithm,
            paint: spec.paint,
            ecn: spec.ecn,
            identity: spec.identity(),
            by_handler,
            sessions: sessions.into(),
            salt: spec.salt,
            key_bits: spec.key.len() * 8,
            window_size: spec.window,
            packet_limit: spec.packets,
            byte_limit: spec.bytes,
            template,
            dscp: spec.dscp,
            df: spec.df,
            next: AtomicU64::new(spec.first.into()),
            nonce: random_nonce()?,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            window: Mutex::new(Window::new(spec.window)),
        })
    }

    /// Bytes of initialisation vector in each packet.
    #[inline]
    pub(crate) fn iv_len(&self) -> usize {
        if self.algorithm == Algorithm::AesGcm { 8 } else { 16 }
    }

    /// What the encrypted part's length is a multiple of.
    #[inline]
    pub(crate) fn block(&self) -> usize {
        if self.algorithm == Algorithm::AesGcm { 4 } else { 16 }
    }

    /// Sequence numbers for `n` packets: the first, and how many there are (fewer at the end of its life).
    #[inline]
    pub(crate) fn reserve(&self, n: usize) -> (u64, usize) {
        if self.byte_limit != u64::MAX && self.bytes.load(Ordering::Relaxed) >= self.byte_limit {
            return (0, 0);
        }
        let n = n as u64;
        let first = self.next.fetch_add(n, Ordering::Relaxed);
        let mut room = (LAST_SEQUENCE + 1).saturating_sub(first).min(n);
        let used = self.packets.fetch_add(room, Ordering::Relaxed);
        room = room.min(self.packet_limit.saturating_sub(used));
        (first, room as usize)
    }

    /// Whether an inbound one may take more packets.
    #[inline]
    pub(crate) fn alive(&self) -> bool {
        self.packets.load(Ordering::Relaxed) < self.packet_limit
            && self.bytes.load(Ordering::Relaxed) < self.byte_limit
    }

    /// Why [`Sa::reserve`] gave less than it was asked for.
    #[cold]
    pub(crate) fn exhausted(&self) -> &'static str {
        if self.next.load(Ordering::Relaxed) > LAST_SEQUENCE + 1 {
            "sequence numbers used up"
        } else {
            "lifetime over"
        }
    }

    /// The initialisation vector in the packet and the one for the device.
    ///
    /// GCM (RFC 4106): a counter, which begins anywhere so that keys that are loaded again do not repeat nonces at once.
    /// CBC: the device encrypts a counter (SP 800-38A appendix C) that nobody knows together with the payload, and what
    /// comes out is the packet's unpredictable vector; the device's own is zero.
    #[inline]
    pub(crate) fn iv(&self, seq: u64) -> ([u8; 16], [u8; 16]) {
        let counter = self.nonce.wrapping_add(seq.into());
        if self.algorithm != Algorithm::AesGcm {
            return (counter.to_be_bytes(), [0; 16]);
        }
        let mut in_packet = [0; 16];
        let counter = (counter as u64).to_be_bytes();
        in_packet[..8].copy_from_slice(&counter);
        (in_packet, self.gcm_nonce(counter))
    }

    /// Salt and the packet's vector.
    #[inline]
    pub(crate) fn gcm_nonce(&self, iv: [u8; 8]) -> [u8; 16] {
        let [a, b, c, d] = self.salt;
        let [e, f, g, h, i, j, k, l] = iv;
        [a, b, c, d, e, f, g, h, i, j, k, l, 0, 0, 0, 0]
    }

    /// The outer header for a packet of `total_len` bytes around one with this type of service and flag.
    #[inline]
    pub(crate) fn outer(&self, total_len: u16, id: u16, tos: u8, df: bool) -> Ipv4<[u8; HEADER_LEN]> {
        let mut h = self.template;
        let dscp = self.dscp.unwrap_or(tos >> 2);
        // RFC 6040 §4.1: the field is copied in normal mode, and zero in compatibility mode.
        h.set_tos(dscp << 2 | if self.ecn { tos & 3 } else { 0 });
        h.set_total_len(total_len);
        h.set_id(id);
        h.set_dont_fragment(match self.df {
            DontFragment::Copy => df,
            DontFragment::Set => true,
            DontFragment::Clear => false,
        });
        h.fill_checksum();
        h
    }

    /// What is known about it, without its keys.
    pub(crate) fn describe(&self) -> String {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let name = self.algorithm.name();
        let driver = self.sessions.first().map_or("", |s| s.device().info().driver.as_str());
        let way = if self.direction == Direction::In { "in" } else { "out" };
        let mut line = format!(
            "{way} {:#x} {} {} {name} {} bits on {driver}, packets {}, bytes {}, refused {}",
            self.spi,
            self.src,
            self.dst,
            self.key_bits,
            load(&self.packets).min(self.packet_limit),
            load(&self.bytes),
            load(&self.refused),
        );
        match self.direction {
            Direction::Out => {
                line += &format!(", next sequence number {}", load(&self.next).min(LAST_SEQUENCE + 1));
                if let Some(paint) = self.paint {
                    line += &format!(", paint {paint}");
                }
            }
            Direction::In => {
                let top = self.window.lock().unwrap_or_else(std::sync::PoisonError::into_inner).top();
                line += &format!(", highest sequence number {top}, window {}", self.window_size);
            }
        }
        for (limit, what) in [(self.packet_limit, "packets"), (self.byte_limit, "bytes")] {
            if limit != u64::MAX {
                line += &format!(", limit {limit} {what}");
            }
        }
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCM: &str = "out 0x1001 192.0.2.1 192.0.2.2 aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213";

    #[test]
    fn lines_are_read() {
        let spec = Spec::parse(&format!("{GCM} paint 7 packets 10 df set dscp 46 ecn none first 9")).unwrap();
        assert_eq!((spec.spi, spec.salt, spec.key.len()), (0x1001, [0x10, 0x11, 0x12, 0x13], 16));
        assert_eq!((spec.paint, spec.dscp, spec.ecn, spec.first), (Some(7), Some(46), false, 9));
        let cbc = format!(
            "in 300 1.0.0.1 1.0.0.2 aes-cbc-hmac-sha1 {} {} window 1024",
            "ab".repeat(32),
            "cd".repeat(20)
        );
        let spec = Spec::parse(&cbc).unwrap();
        assert_eq!((spec.window, spec.key.len(), spec.auth_key.len()), (1024, 32, 20));
    }

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
            ("out 300 1.0.0.1 1.0.0.2 des", "unknown algorithm"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm", "the key is missing"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm deadbeef5", "hexadecimal"),
            ("out 300 1.0.0.1 1.0.0.2 aes-gcm deadbeef", "4 of salt"),
            (cbc, "authentication key is missing"),
            (&format!("{cbc} deadbeef"), "has 20 bytes"),
            (&format!("{GCM} deadbeef 1"), "unknown word"),
            (&format!("{GCM} window 64"), "'out' has no window"),
            (&format!("{GCM} dscp 64"), "bad dscp"),
            (&format!("{GCM} ttl 256"), "bad ttl"),
            (&format!("{GCM} first 0"), "begin with 1"),
            (&format!("{GCM} paint"), "a value for paint"),
        ] {
            let Err(error) = Spec::parse(line) else { panic!("{line}") };
            assert!(error.contains(message), "{line}: {error}");
            assert!(!error.contains("deadbeef") && !error.contains("0001"), "{error}");
        }
    }

    fn sa(line: &str) -> Sa {
        Sa::new(&Spec::parse(line).unwrap(), Vec::new(), false).unwrap()
    }

    #[test]
    fn sequence_numbers_end() {
        let a = sa(&format!("{GCM} first {}", u32::MAX - 2));
        assert_eq!(a.reserve(2), (u64::from(u32::MAX) - 2, 2));
        assert_eq!(a.reserve(4), (u64::from(u32::MAX), 1));
        assert_eq!(a.reserve(1).1, 0);
        assert_eq!(a.exhausted(), "sequence numbers used up");
    }

    #[test]
    fn lives_end() {
        let a = sa(&format!("{GCM} packets 5"));
        assert_eq!((a.reserve(3).1, a.reserve(3).1, a.reserve(3).1), (3, 2, 0));
        assert_eq!(a.exhausted(), "lifetime over");
        let a = sa(&format!("{GCM} bytes 150"));
        assert_eq!(a.reserve(1).1, 1);
        a.bytes.fetch_add(150, Ordering::Relaxed);
        assert_eq!(a.reserve(1).1, 0);
    }

    #[test]
    fn nonces_do_not_repeat() {
        let a = sa(GCM);
        let ((_, first), (_, second)) = (a.iv(1), a.iv(2));
        assert_ne!(first, second);
        assert_eq!(first[..4], [0x10, 0x11, 0x12, 0x13]);
        assert_ne!(sa(GCM).iv(1), a.iv(1), "a router that starts again begins elsewhere");
    }
}
