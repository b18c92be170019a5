//! Security associations in use; `spec.rs` reads the text that they are made from.

use super::selectors::Selectors;
use super::spec::{Direction, DontFragment, Ends, LAST_EXTENDED, LAST_SEQUENCE, Spec};
use super::window::Window;
use crate::drops;
use dpdk::crypto::{Algorithm, CryptoSession};
use locks::IgnorePoison;
use runtime::DropReason;
use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use wire::ipv4::{FLAG_DF, HEADER_LEN};
use wire::{Ipv4, Ipv6, checksum, ipv6, protocol};

/// Bytes of SPI and sequence number.
pub(crate) const ESP_LEN: usize = 8;
/// Bytes of an extended sequence number that are not sent.
pub(crate) const HIGH_LEN: usize = 4;

/// A security association in use.
pub(crate) struct Sa {
    pub(crate) direction: Direction,
    pub(crate) spi: u32,
    pub(crate) ends: Ends,
    pub(crate) algorithm: Algorithm,
    /// Outbound: the paint of packets that use it. Inbound: the paint that its packets get.
    pub(crate) paint: Option<u8>,
    /// The inner packets that an inbound association accepts; `None`: all.
    pub(crate) selectors: Option<Arc<Selectors>>,
    pub(crate) ecn: bool,
    /// Whether sequence numbers have 64 bits.
    pub(crate) esn: bool,
    /// Identifies the whole specification, keys included.
    pub(crate) identity: u64,
    /// Identifies its direction, SPI and keys.
    pub(crate) key_identity: u64,
    /// Whether a handler added it.
    pub(crate) by_handler: bool,
    /// One for each worker.
    pub(crate) sessions: Arc<[CryptoSession]>,
    salt: u32,
    key_bits: usize,
    window_size: u32,
    first: u64,
    packet_limit: u64,
    byte_limit: u64,
    /// The outer header of outbound packets except for fields that differ from packet to packet, and the
    /// sum of the words of one of IPv4.
    template: Template,
    template_sum: u32,
    /// The bits of the inner type of service that are copied to the outer one, and the value of the others.
    copied_tos: u8,
    own_tos: u8,
    /// Flags of the outer header by those of the inner one.
    flags_if_df: u16,
    flags_else: u16,
    /// The next sequence number of outbound packets.
    next: AtomicU64,
    /// The start of the nonces: unknown to others, and different each time keys are loaded.
    nonce: u128,
    /// Packets and inner bytes that have been protected or accepted.
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Packets that were refused: forged, replayed, or after the end of the association's lifetime.
    pub(crate) refused: AtomicU64,
    pub(crate) window: Mutex<Window>,
}

/// The words of an outer header.
#[derive(Clone, Copy)]
enum Template {
    /// The third one is the destination and the SPI.
    V4([u64; 3]),
    V6([u64; 5]),
}

/// An outer header and an ESP header, except for the fields that differ from packet to packet.
///
/// They are built in words: a value that is written byte by byte cannot be read as a whole before it has left
/// the processor's store buffer.
pub(crate) enum Front {
    /// The outer header without identification and checksum, and the SPI; the sum of the outer header's
    /// 16-bit words.
    V4 { words: [u64; 3], sum: u32 },
    /// The outer header, and the SPI.
    V6 { words: [u64; 5], spi: u32 },
}

impl Front {
    /// Writes both headers, for a packet with this identification and sequence number. Returns what is behind
    /// them; `None` if there is no room.
    #[inline]
    pub(crate) fn write<'a>(&self, id: u16, seq: u64, to: &'a mut [u8]) -> Option<&'a mut [u8]> {
        match self {
            Self::V4 { words: [first, second, third], sum } => {
                let (to, behind) = to.split_first_chunk_mut::<{ HEADER_LEN + ESP_LEN }>()?;
                let sum = !checksum::fold(sum + u32::from(id));
                to[..8].copy_from_slice(&(first | u64::from(id) << 16).to_be_bytes());
                to[8..16].copy_from_slice(&(second | u64::from(sum) << 32).to_be_bytes());
                to[16..24].copy_from_slice(&third.to_be_bytes());
                to[24..].copy_from_slice(&(seq as u32).to_be_bytes());
                Some(behind)
            }
            Self::V6 { words, spi } => {
                let (to, behind) = to.split_first_chunk_mut::<{ ipv6::HEADER_LEN + ESP_LEN }>()?;
                let esp = u64::from(*spi) << 32 | seq & 0xffff_ffff;
                for (to, word) in to.as_chunks_mut::<8>().0.iter_mut().zip(words.iter().chain([&esp])) {
                    *to = word.to_be_bytes();
                }
                Some(behind)
            }
        }
    }
}

/// The outer header of a tunnel's packets without the fields that differ from packet to packet, and the sum
/// of its words.
fn template(spec: &Spec) -> (Template, u32) {
    match spec.ends {
        Ends::V4(src, dst) => {
            let mut header = Ipv4::build(src, dst, protocol::ESP, 0);
            header.set_ttl(spec.ttl);
            header.set_total_len(0);
            header.set_checksum(0);
            let (words, _) = header.bytes().as_chunks::<8>();
            let last = u64::from(dst.to_bits()) << 32 | u64::from(spec.spi);
            let words = [u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1]), last];
            (Template::V4(words), checksum::sum_array(header.bytes()).into())
        }
        Ends::V6(src, dst) => {
            let mut header = Ipv6::build(src, dst, protocol::ESP, 0);
            header.set_hop_limit(spec.ttl);
            let mut words = [0; 5];
            for (to, word) in words.iter_mut().zip(header.bytes().as_chunks::<8>().0) {
                *to = u64::from_be_bytes(*word);
            }
            (Template::V6(words), 0)
        }
    }
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
        let (template, template_sum) = template(spec);
        let flag = |set: bool| if set { FLAG_DF } else { 0 };
        let mut window = Window::new(spec.window);
        window.begin_at(spec.first);
        Ok(Sa {
            direction: spec.direction,
            spi: spec.spi,
            ends: spec.ends,
            algorithm: spec.algorithm,
            paint: spec.paint,
            selectors: (!spec.selectors.is_empty()).then(|| Arc::new(spec.selectors.clone())),
            ecn: spec.ecn,
            esn: spec.esn,
            identity: spec.identity(),
            key_identity: spec.key_identity(),
            by_handler,
            sessions: sessions.into(),
            salt: u32::from_be_bytes(spec.salt),
            key_bits: spec.key.len() * 8,
            window_size: spec.window,
            first: spec.first,
            packet_limit: spec.packets,
            byte_limit: spec.bytes,
            template,
            template_sum,
            copied_tos: if spec.ecn { 3 } else { 0 } | if spec.dscp.is_none() { 0xfc } else { 0 },
            own_tos: spec.dscp.unwrap_or(0) << 2,
            flags_if_df: flag(spec.df != DontFragment::Clear),
            flags_else: flag(spec.df == DontFragment::Set),
            next: AtomicU64::new(spec.first),
            nonce: random_nonce()?,
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            window: Mutex::new(window),
        })
    }

    /// A copy with other sessions, such as those of another device; sequence number and window continue. The
    /// two must not both be used.
    pub(crate) fn on(&self, sessions: Arc<[CryptoSession]>, by_handler: bool) -> Sa {
        let copy = |n: &AtomicU64| AtomicU64::new(n.load(Ordering::Relaxed));
        Sa {
            sessions,
            by_handler,
            selectors: self.selectors.clone(),
            next: copy(&self.next),
            packets: copy(&self.packets),
            bytes: copy(&self.bytes),
            refused: copy(&self.refused),
            window: Mutex::new(self.window.lock().ignore_poison().clone()),
            ..*self
        }
    }

    /// A copy of this one that replaces another one with the same keys: sequence numbers, nonces, counters
    /// and window continue. The two must not both be used.
    pub(crate) fn continuing(&self, old: &Sa) -> Sa {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let mut window = old.window.lock().ignore_poison().resized(self.window_size);
        window.begin_at(self.first);
        Sa {
            sessions: Arc::clone(&self.sessions),
            selectors: self.selectors.clone(),
            next: AtomicU64::new(load(&self.next).max(load(&old.next))),
            nonce: old.nonce,
            packets: AtomicU64::new(load(&old.packets).min(old.packet_limit)),
            bytes: AtomicU64::new(load(&old.bytes)),
            refused: AtomicU64::new(load(&old.refused)),
            window: Mutex::new(window),
            ..*self
        }
    }

    /// Bytes of the outer header of outbound packets.
    #[inline]
    pub(crate) fn outer_len(&self) -> usize {
        match self.ends {
            Ends::V4(..) => HEADER_LEN,
            Ends::V6(..) => ipv6::HEADER_LEN,
        }
    }

    /// Bytes of initialization vector in each packet.
    #[inline]
    pub(crate) fn iv_len(&self) -> usize {
        if self.algorithm == Algorithm::AesGcm { 8 } else { 16 }
    }

    /// The block size: the length of the encrypted part is a multiple of it.
    #[inline]
    pub(crate) fn block(&self) -> usize {
        if self.algorithm == Algorithm::AesGcm { 4 } else { 16 }
    }

    /// Its last sequence number.
    #[inline]
    fn last(&self) -> u64 {
        if self.esn { LAST_EXTENDED } else { LAST_SEQUENCE }
    }

    /// Whether the upper half of the sequence number, which is not sent, must follow the trailer when the
    /// device processes a packet.
    #[inline]
    pub(crate) fn high_behind(&self) -> bool {
        self.esn && self.algorithm != Algorithm::AesGcm
    }

    /// Reserves sequence numbers for `n` packets: returns the first, and how many there are (fewer at the end
    /// of the lifetime).
    #[inline]
    pub(crate) fn reserve(&self, n: usize) -> (u64, usize) {
        if self.byte_limit != u64::MAX && self.bytes.load(Ordering::Relaxed) >= self.byte_limit {
            return (0, 0);
        }
        let n = n as u64;
        let first = self.next.fetch_add(n, Ordering::Relaxed);
        let mut room = (self.last() + 1).saturating_sub(first).min(n);
        let used = self.packets.fetch_add(room, Ordering::Relaxed);
        room = room.min(self.packet_limit.saturating_sub(used));
        (first, room as usize)
    }

    /// Whether an inbound association may accept more packets.
    #[inline]
    pub(crate) fn alive(&self) -> bool {
        self.packets.load(Ordering::Relaxed) < self.packet_limit
            && self.bytes.load(Ordering::Relaxed) < self.byte_limit
    }

    /// Why [`Sa::reserve`] returned fewer numbers than were requested.
    #[cold]
    pub(crate) fn exhausted(&self) -> DropReason {
        if self.next.load(Ordering::Relaxed) > self.last() + 1 {
            drops::SEQUENCE_NUMBERS_USED_UP
        } else {
            drops::LIFETIME_OVER
        }
    }

    /// The number from which the packet's initialization vector is made.
    ///
    /// GCM (RFC 4106): the low 64 bits are the vector: a counter with a random start, so that keys that are
    /// loaded again do not repeat nonces at once. CBC: the device encrypts a secret counter (SP 800-38A
    /// appendix C) together with the payload, and the result is the packet's unpredictable vector; the
    /// device's own vector is zero.
    #[inline]
    pub(crate) fn counter(&self, seq: u64) -> u128 {
        self.nonce.wrapping_add(seq.into())
    }

    /// Salt and the packet's vector, and the half of the sequence number that is not sent.
    #[inline]
    pub(crate) fn gcm_nonce(&self, iv: [u8; 8], seq: u64) -> [u8; 16] {
        (u128::from(self.salt) << 96 | u128::from(u64::from_be_bytes(iv)) << 32 | u128::from(seq >> 32))
            .to_be_bytes()
    }

    /// The length of a packet with its trailer, rounded up to whole blocks; a power of two needs no division.
    #[inline]
    pub(crate) fn padded(&self, inner: usize) -> usize {
        let block = self.block();
        (inner + 2 + (block - 1)) & !(block - 1)
    }

    /// Whether this length is a whole number of blocks.
    #[inline]
    pub(crate) fn whole(&self, body: usize) -> bool {
        body & (self.block() - 1) == 0
    }

    /// What stands in front of packets of `total_len` bytes around inner ones with this type of service and
    /// flag.
    #[inline]
    pub(crate) fn front(&self, total_len: u16, tos: u8, df: bool) -> Front {
        // RFC 6040 §4.1: the ECN field is copied in normal mode, and zero in compatibility mode.
        let tos = tos & self.copied_tos | self.own_tos;
        match self.template {
            Template::V4([first, second, third]) => {
                let fragment = if df { self.flags_if_df } else { self.flags_else };
                let sum = self.template_sum + u32::from(tos) + u32::from(total_len) + u32::from(fragment);
                let first = first | u64::from(tos) << 48 | u64::from(total_len) << 32 | u64::from(fragment);
                Front::V4 { words: [first, second, third], sum }
            }
            Template::V6([first, a, b, c, d]) => {
                let payload = total_len.saturating_sub(ipv6::HEADER_LEN as u16);
                let first = first | u64::from(tos) << 52 | u64::from(payload) << 16;
                Front::V6 { words: [first, a, b, c, d], spi: self.spi }
            }
        }
    }

    /// The state of the association as text, without its keys.
    pub(crate) fn describe(&self) -> String {
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let name = self.algorithm.name();
        let driver = self.sessions.first().map_or("", |s| s.device().info().driver.as_str());
        let direction = if self.direction == Direction::In { "in" } else { "out" };
        let mut line = format!(
            "{direction} {:#x} {} {name} {} bits on {driver}, packets {}, bytes {}, refused {}",
            self.spi,
            self.ends,
            self.key_bits,
            load(&self.packets).min(self.packet_limit),
            load(&self.bytes),
            load(&self.refused),
        );
        match self.direction {
            Direction::Out => {
                line += &format!(", next sequence number {}", load(&self.next).min(self.last() + 1));
            }
            Direction::In => {
                let top = self.window.lock().ignore_poison().top();
                line += &format!(", highest sequence number {top}, window {}", self.window_size);
            }
        }
        if let Some(paint) = self.paint {
            line += &format!(", paint {paint}");
        }
        if let Some(selectors) = &self.selectors {
            line += &selectors.to_string();
        }
        if self.esn {
            line += ", extended";
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
    use lang::NameDb;

    const GCM: &str = "out 0x1001 192.0.2.1 192.0.2.2 aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213";

    #[test]
    fn lines_are_read() {
        let spec = Spec::parse(
            &format!("{GCM} paint 7 packets 10 df set dscp 46 ecn none first 9"),
            &NameDb::default(),
        )
        .unwrap();
        assert_eq!((spec.spi, spec.salt, spec.key.len()), (0x1001, [0x10, 0x11, 0x12, 0x13], 16));
        assert_eq!((spec.paint, spec.dscp, spec.ecn, spec.first), (Some(7), Some(46), false, 9));
        let cbc = format!(
            "in 300 1.0.0.1 1.0.0.2 aes-cbc-hmac-sha1 {} {} window 1024",
            "ab".repeat(32),
            "cd".repeat(20)
        );
        let spec = Spec::parse(&cbc, &NameDb::default()).unwrap();
        assert_eq!((spec.window, spec.key.len(), spec.auth_key.len()), (1024, 32, 20));
        let more = "paint 9 from 10.2.0.0/24,2001:db8::/64 to 10.1.0.0/16 proto tcp sport 1-9 dport 7";
        let a = sa(&format!("{} {more}", GCM.replace("out", "in")));
        let shown = a.describe();
        let selectors = ", from 10.2.0.0/24,2001:db8::/64, to 10.1.0.0/16, proto 6, sport 1-9, dport 7";
        assert!(shown.contains(&format!(", paint 9{selectors}")), "{shown}");
        assert!(a.continuing(&sa(&GCM.replace("out", "in"))).describe().contains(selectors));
        assert_ne!(a.identity, sa(&GCM.replace("out", "in")).identity, "a hot swap takes changed selectors");
        assert!(sa(&GCM.replace("out", "in")).selectors.is_none());
    }

    fn sa(line: &str) -> Sa {
        Sa::new(&Spec::parse(line, &NameDb::default()).unwrap(), Vec::new(), false).unwrap()
    }

    #[test]
    fn sequence_numbers_end() {
        let a = sa(&format!("{GCM} first {}", u32::MAX - 2));
        assert_eq!(a.reserve(2), (u64::from(u32::MAX) - 2, 2));
        assert_eq!(a.reserve(4), (u64::from(u32::MAX), 1));
        assert_eq!(a.reserve(1).1, 0);
        assert_eq!(a.exhausted(), drops::SEQUENCE_NUMBERS_USED_UP);
    }

    #[test]
    fn extended_numbers_go_on() {
        let a = sa(&format!("{GCM} esn first {}", u32::MAX));
        assert_eq!((a.reserve(2), a.reserve(1)), ((u32::MAX.into(), 2), (1 << 32 | 1, 1)));
        assert!(a.describe().contains("next sequence number 4294967298, extended"));
        let a = sa(&format!("{GCM} first {} esn", LAST_EXTENDED - 1));
        assert_eq!((a.reserve(1).1, a.reserve(9), a.reserve(1).1), (1, (LAST_EXTENDED, 1), 0));
        assert_eq!(a.exhausted(), drops::SEQUENCE_NUMBERS_USED_UP);
    }

    #[test]
    fn lives_end() {
        let a = sa(&format!("{GCM} packets 5"));
        assert_eq!((a.reserve(3).1, a.reserve(3).1, a.reserve(3).1), (3, 2, 0));
        assert_eq!(a.exhausted(), drops::LIFETIME_OVER);
        let a = sa(&format!("{GCM} bytes 150"));
        assert_eq!(a.reserve(1).1, 1);
        a.bytes.fetch_add(150, Ordering::Relaxed);
        assert_eq!(a.reserve(1).1, 0);
    }

    #[test]
    fn other_words_with_the_same_keys_go_on() {
        let old = sa(&format!("{GCM} packets 5"));
        assert_eq!((old.reserve(4), old.reserve(4)), ((1, 4), (5, 1)));
        let new = sa(&format!("{GCM} paint 7 ttl 9 packets 6 first 3"));
        assert!(new.key_identity == old.key_identity && new.identity != old.identity);
        let new = new.continuing(&old);
        assert_eq!((new.paint, new.counter(9)), (Some(7), old.counter(9)));
        assert_eq!(
            (new.reserve(1), new.reserve(1).1),
            ((9, 1), 0),
            "the limit counts all packets of the keys"
        );
        assert_eq!(sa(&format!("{GCM} first 100")).continuing(&old).reserve(1).0, 100);
        for other in [GCM.replace("0x1001", "0x1002"), GCM.replace("out", "in"), GCM.replace("0x00", "0x01")]
        {
            assert_ne!(sa(&other).key_identity, old.key_identity, "{other}");
        }
        assert_ne!(sa(&format!("{}14", &GCM[..GCM.len() - 2])).key_identity, old.key_identity, "the salt");

        let inbound = GCM.replace("out", "in");
        let old = sa(&inbound);
        for seq in 1..=10 {
            assert!(old.window.lock().unwrap().accept(seq).is_ok());
        }
        for window in [0, 4, 64, 1024] {
            let new = sa(&format!("{inbound} window {window}")).continuing(&old);
            let window = new.window.lock().unwrap();
            assert_eq!(window.top(), 10);
            assert!(new.window_size == 0 || (1..=10).all(|seq| window.check(seq).is_err()));
            assert!(window.check(11).is_ok());
        }
        let new = sa(&format!("{inbound} first 100")).continuing(&old);
        assert_eq!(new.window.lock().unwrap().top(), 99);
    }

    #[test]
    fn outer_headers_are_sound() {
        for (more, tos, df, tos_out, df_out) in [
            ("", 0xff, true, 0xff, true),
            ("dscp 46 ecn none df set", 0xff, false, 46 << 2, true),
            ("ecn none df clear", 0xff, true, 0xfc, false),
            ("dscp 0 ttl 255", 0x03, false, 0x03, false),
        ] {
            let a = sa(&format!("{GCM} {more}"));
            for (len, id) in [(100, 0), (65535, 65535), (1500, 0x1234)] {
                let mut bytes = [0; HEADER_LEN + ESP_LEN];
                let behind = a.front(len, tos, df).write(id, 0x0807_0605_0403_0201, &mut bytes);
                assert!(behind.is_some_and(|rest| rest.is_empty()));
                assert_eq!(bytes[HEADER_LEN..], [0, 0, 0x10, 1, 4, 3, 2, 1], "the lower half of the number");
                let Some(h) = Ipv4::new(&bytes) else { panic!("20 bytes") };
                assert!(h.verify_checksum(), "{more}");
                assert_eq!((h.tos(), h.dont_fragment(), h.total_len(), h.id()), (tos_out, df_out, len, id));
                assert_eq!((Ends::V4(h.src(), h.dst()), h.protocol()), (a.ends, protocol::ESP));
            }
        }
    }

    #[test]
    fn outer_headers_of_ipv6_are_sound() {
        let line = GCM.replace("192.0.2.", "2001:db8::");
        for (more, tos, tos_out, hops) in
            [("", 0xff, 0xff, 64), ("dscp 46 ecn none ttl 9", 0xff, 46 << 2, 9), ("dscp 0", 3, 3, 64)]
        {
            let a = sa(&format!("{line} {more}"));
            assert!(a.describe().contains(" 0x1001 2001:db8::1 2001:db8::2 "));
            for len in [100, 65535, 1500] {
                let mut bytes = [0; ipv6::HEADER_LEN + ESP_LEN + 3];
                let behind = a.front(len, tos, true).write(7, 0x0807_0605_0403_0201, &mut bytes);
                assert_eq!(behind.map(|rest| rest.len()), Some(3));
                assert_eq!(bytes[ipv6::HEADER_LEN..][..8], [0, 0, 0x10, 1, 4, 3, 2, 1]);
                let Some(h) = Ipv6::new(&bytes) else { panic!("40 bytes") };
                assert_eq!((h.version(), h.traffic_class(), h.hop_limit()), (6, tos_out, hops));
                assert_eq!((h.version_class_flow() & 0xf_ffff, h.payload_len()), (0, len - 40));
                assert_eq!((Ends::V6(h.src(), h.dst()), h.next_header()), (a.ends, protocol::ESP));
            }
        }
    }

    #[test]
    fn nonces_do_not_repeat() {
        let a = sa(GCM);
        assert_ne!(a.counter(1), a.counter(2));
        assert_eq!(a.gcm_nonce([9; 8], 7 << 32)[..5], [0x10, 0x11, 0x12, 0x13, 9]);
        assert_eq!(a.gcm_nonce([9; 8], 7 << 32 | 5)[11..], [9, 0, 0, 0, 7]);
        assert_ne!(sa(GCM).counter(1), a.counter(1), "a router that starts again begins elsewhere");
    }
}
