//! Frames of the protocol between nodes. Each is authenticated with the cluster's key; others are ignored.
//!
//! ```text
//!  0       1       2               4               6               8
//! +-------+-------+---------------+---------------+---------------+
//! |version|  kind |    length     |  from (node)  |   to (node)   |
//! +-------+-------+---------------+---------------+---------------+
//! |            nonce: the sender's session on this link           |
//! |            echo: the receiver's, as the sender knows it       |
//! |            sequence number within the sender's session        |
//! |  short code of the header     |  short code of the body       |
//! +---------------------------------------------------------------+
//! |            body, then the code: 16 bytes                       |
//! ```
//!
//! Numbers are in network order. The length covers everything from the version to the code; Ethernet padding
//! behind it is ignored. The authentication code is HMAC-SHA256 (RFC 2104, FIPS 180-4) over everything before
//! it, of which the left half is sent (RFC 2104, section 5). A frame follows an Ethernet header whose
//! destination is a [`crate::MacCode`] of [`crate::Phase::Control`] and whose EtherType is [`ETHERTYPE`].
//!
//! The code shows that a frame is from a node of the cluster; to check it costs microseconds if a frame is
//! long. The short codes are halves of SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) under a key
//! derived from the cluster's: the first one over the 32 bytes before it, the second one over these and the
//! first [`COVERED_BYTES`] of the body. They are much cheaper to check. They cannot be made without the key,
//! so a flood of forged frames is refused without checking full codes. An attacker who replays the header of
//! a frame that has not arrived yet, with another body, must send a long frame to make a node check the full
//! code.

use crate::{Error, NodeId, in_range};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
#[allow(
    deprecated,
    reason = "the standard library's SipHash-2-4 with a key; what came after it has none"
)]
use std::hash::{Hasher, SipHasher};

/// The EtherType of these frames: IEEE 802's first one for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 40;
/// Bytes behind it.
pub const TAG_BYTES: usize = 16;
/// The shortest frame.
pub const MIN_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// Bytes of the body that the short code covers.
pub const COVERED_BYTES: usize = 216;
/// Bytes of the header before its short code.
const MARKED_BYTES: usize = 32;
/// The end of that code, where the body's begins.
const MARK_END: usize = MARKED_BYTES + 4;

const VERSION: u8 = 2;

/// The key of a cluster.
#[derive(Clone)]
pub struct Key {
    hmac: Hmac<Sha256>,
    /// The key of the short codes.
    mark: (u64, u64),
}

impl Key {
    /// From a secret of 16 to 128 bytes, which should be random.
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        in_range("a key", secret.len() as u64, "bytes", 16, 128)?;
        Ok(Self::of(secret))
    }
    /// The key of a cluster without a key. It is public, so it protects against corruption only.
    #[must_use]
    pub fn nobodys() -> Self {
        Self::of(&[])
    }
    fn of(secret: &[u8]) -> Self {
        let mut this = Self { hmac: secret_of(secret), mark: (0, 0) };
        // The first byte differs from a frame's.
        let [a, b] = [0, 8].map(|at| {
            let tag = this.tag(b"\xffmark");
            tag.get(at..at + 8).and_then(|t| t.try_into().ok()).map_or(0, u64::from_be_bytes)
        });
        this.mark = (a, b);
        this
    }

    /// The key of the cluster of this name. Clusters of different names with the same secret have different
    /// keys.
    #[must_use]
    pub fn of_cluster(&self, name: &str) -> Self {
        // The first byte differs from a frame's.
        let mut hmac = self.hmac.clone();
        hmac.update(b"\xffcluster ");
        hmac.update(name.as_bytes());
        let derived: [u8; 32] = hmac.finalize().into_bytes().into();
        Self::of(&derived)
    }

    /// Whether both are made from the same secret.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        // The first byte differs from a frame's.
        self.tag(b"\xffsame") == other.tag(b"\xffsame")
    }

    fn over(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut hmac = self.hmac.clone();
        hmac.update(bytes);
        hmac
    }

    fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        let whole: [u8; 32] = self.over(bytes).finalize().into_bytes().into();
        whole.first_chunk().copied().unwrap_or_default()
    }

    /// A short code.
    #[allow(deprecated, reason = "see where it is imported")]
    fn mark(&self, parts: [&[u8]; 2]) -> u64 {
        let mut sip = SipHasher::new_with_keys(self.mark.0, self.mark.1);
        parts.iter().for_each(|part| sip.write(part));
        sip.finish()
    }
    fn mark_of_header(&self, text: &[u8]) -> [u8; 4] {
        let header = text.get(..MARKED_BYTES).unwrap_or_default();
        let [a, b, c, d, ..] = self.mark([header, &[]]).to_be_bytes();
        [a, b, c, d]
    }
    fn mark_of_body(&self, text: &[u8]) -> [u8; 4] {
        let (header, body) = (text.get(..MARKED_BYTES), text.get(HEADER_BYTES..));
        let body = body.map_or(&[][..], |b| b.get(..COVERED_BYTES).unwrap_or(b));
        let [.., a, b, c, d] = self.mark([header.unwrap_or_default(), body]).to_be_bytes();
        [a, b, c, d]
    }

    fn fits(&self, bytes: &[u8], tag: &[u8]) -> bool {
        self.over(bytes).verify_truncated_left(tag).is_ok()
    }

    /// The authentication code of a text that is kept where others can write, such as in etcd. It is not
    /// valid for a frame.
    #[must_use]
    pub fn seal(&self, text: &[u8]) -> [u8; TAG_BYTES] {
        self.tag(&stored(text))
    }
    /// Whether an authentication code was made over this text with this key.
    #[must_use]
    pub fn sealed(&self, text: &[u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.fits(&stored(text), tag)
    }

    /// A number that cannot be predicted without the key and the seed.
    pub(crate) fn derive(&self, seed: [u8; 16], number: u64) -> u64 {
        // The first byte differs from a frame's.
        let mut text = [0; 25];
        text[1..17].copy_from_slice(&seed);
        text[17..].copy_from_slice(&number.to_be_bytes());
        self.tag(&text).first_chunk().map_or(1, |b| u64::from_be_bytes(*b)).max(1)
    }
}

/// A text as it is authenticated: the first byte is neither a frame's nor that of a seed.
fn stored(text: &[u8]) -> Vec<u8> {
    [&[0xff], text].concat()
}

fn secret_of(secret: &[u8]) -> Hmac<Sha256> {
    // A longer key is hashed first, a shorter one filled up (RFC 2104, section 2).
    let mut block = [0; 64];
    if secret.len() > block.len() {
        let hash: [u8; 32] = Sha256::digest(secret).into();
        block[..32].copy_from_slice(&hash);
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    Hmac::new(&block.into())
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A hello: the sender is alive; whose hellos it receives.
    Hello = 1,
    /// A part of the routes.
    Routes = 2,
}

/// The header of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its type.
    pub kind: FrameKind,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The sender's session on this link; not 0.
    pub nonce: u64,
    /// The receiver's session as far as the sender knows it; 0 if it does not.
    pub echo: u64,
    /// Grows with every frame of the session.
    pub sequence: u64,
}

/// Why a frame is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its lengths or its contents are invalid.
    #[error("a malformed control frame")]
    Malformed,
    /// Another version of the protocol.
    #[error("a control frame of version {0}; this is version {VERSION}")]
    Version(u8),
    /// The authentication code was not made with the cluster's key.
    #[error(
        "a control frame that claims to be from node {0} and is not authenticated with the cluster's key"
    )]
    Foreign(NodeId),
}

/// Reads numbers from a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(first)
    }
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[b]| b)
    }
    pub(crate) fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
    pub(crate) fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    pub(crate) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// A frame whose header has a valid short code. The rest is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct MarkedFrame<'a> {
    /// Its header.
    pub header: Header,
    text: &'a [u8],
    tag: &'a [u8; TAG_BYTES],
}

impl<'a> MarkedFrame<'a> {
    /// Bytes from the version to the authentication code.
    #[must_use]
    pub fn bytes(&self) -> u16 {
        // As the length field says.
        u16::try_from(self.text.len() + TAG_BYTES).unwrap_or(u16::MAX)
    }
    /// Whether the short code of its body covers all of it.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.text.len() <= HEADER_BYTES + COVERED_BYTES
    }
    /// Whether the short code of its body is valid.
    pub fn check(&self, key: &Key) -> Result<(), Refused> {
        let good = self.text.get(MARK_END..HEADER_BYTES).is_some_and(|m| m == key.mark_of_body(self.text));
        if good { Ok(()) } else { Err(Refused::Foreign(self.header.from)) }
    }
    /// The header and the body, if the frame is authenticated.
    pub fn open(self, key: &Key) -> Result<(Header, &'a [u8]), Refused> {
        match self.text.get(HEADER_BYTES..) {
            Some(body) if key.fits(self.text, self.tag) => Ok((self.header, body)),
            _ => Err(Refused::Foreign(self.header.from)),
        }
    }
}

/// Checks the header of a frame only, which is cheap: see the [module's](self) introduction.
pub fn glance<'a>(key: &Key, frame: &'a [u8]) -> Result<MarkedFrame<'a>, Refused> {
    let mut b = Bytes(frame);
    let version = b.byte().ok_or(Refused::Malformed)?;
    if version != VERSION {
        return Err(Refused::Version(version));
    }
    let header = (|| {
        Some((b.byte()?, b.short()?, b.short()?, b.short()?, b.long()?, b.long()?, b.long()?, b.array()?))
    })();
    let (kind, length, from, to, nonce, echo, sequence, mark) = header.ok_or(Refused::Malformed)?;
    let sealed = frame.get(..length.into()).ok_or(Refused::Malformed)?;
    let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(Refused::Malformed)?;
    if text.len() < HEADER_BYTES {
        return Err(Refused::Malformed);
    }
    if key.mark_of_header(text) != mark {
        return Err(Refused::Foreign(NodeId(from)));
    }
    let kind = match kind {
        1 => FrameKind::Hello,
        2 => FrameKind::Routes,
        _ => return Err(Refused::Malformed),
    };
    if nonce == 0 {
        return Err(Refused::Malformed);
    }
    let header = Header { kind, from: NodeId(from), to: NodeId(to), nonce, echo, sequence };
    Ok(MarkedFrame { header, text, tag })
}

/// The header and the body of an authenticated frame. Nothing is copied or allocated.
pub fn open<'a>(key: &Key, frame: &'a [u8]) -> Result<(Header, &'a [u8]), Refused> {
    let marked = glance(key, frame)?;
    marked.check(key)?;
    marked.open(key)
}

/// Writes a frame into `out`, replacing its contents; `body` writes the body. Returns whether it fits into
/// `frame_bytes`; if not, `out` is empty.
pub fn seal(
    key: &Key,
    header: &Header,
    frame_bytes: usize,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>),
) -> bool {
    out.clear();
    out.extend([VERSION, header.kind as u8, 0, 0]);
    out.extend(header.from.0.to_be_bytes());
    out.extend(header.to.0.to_be_bytes());
    for number in [header.nonce, header.echo, header.sequence] {
        out.extend(number.to_be_bytes());
    }
    out.extend([0; HEADER_BYTES - MARKED_BYTES]);
    body(out);
    let length = out.len() + TAG_BYTES;
    let (Ok(short), true) = (u16::try_from(length), length <= frame_bytes) else {
        out.clear();
        return false;
    };
    if let Some(field) = out.get_mut(2..4) {
        field.copy_from_slice(&short.to_be_bytes());
    }
    let marks =
        [(MARKED_BYTES..MARK_END, key.mark_of_header(out)), (MARK_END..HEADER_BYTES, key.mark_of_body(out))];
    for (place, mark) in marks {
        if let Some(field) = out.get_mut(place) {
            field.copy_from_slice(&mark);
        }
    }
    let tag = key.tag(out);
    out.extend(tag);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new(b"sixteen bytes ok").unwrap()
    }

    fn header() -> Header {
        Header { kind: FrameKind::Hello, from: NodeId(2), to: NodeId(1), nonce: 3, echo: 4, sequence: 5 }
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(seal(&key(), &header(), 1500, &mut out, |b| b.extend(body)));
        out
    }

    #[test]
    fn stored_texts() {
        let tag = key().seal(b"text");
        assert!(
            key().sealed(b"text", &tag)
                && !key().sealed(b"texT", &tag)
                && !Key::nobodys().sealed(b"text", &tag)
        );
        // An authentication code of a frame is never valid for a text, whatever the text is.
        assert!(!key().sealed(b"text", &key().tag(b"text")));
    }

    #[test]
    fn golden() {
        let made = frame(&[0xab]);
        assert_eq!(
            made[..32],
            [2, 1, 0, 57, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5]
        );
        assert_eq!((made[40], made.len()), (0xab, 57));
        // SipHash-2-4 of the bytes 0 to 14 with the key 0 to 15 (the paper's appendix A).
        let sip = Key { hmac: key().hmac, mark: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908) };
        assert_eq!(sip.mark([&[0, 1, 2, 3, 4, 5, 6], &[7, 8, 9, 10, 11, 12, 13, 14]]), 0xa129_ca61_49be_45e5);
        // RFC 4231, test case 1.
        let tag = Key::new(&[0x0b; 20]).unwrap().tag(b"Hi There");
        let whole =
            [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b];
        assert_eq!(tag, whole);
        assert!(Key::new(&[0; 15]).is_err() && Key::new(&[0; 129]).is_err());
        assert_eq!(format!("{:?}", key()), "Key(secret)");
        let of = |name| Key::nobodys().of_cluster(name).tag(b"");
        assert!(of("a") == of("a") && of("a") != of("b") && of("a") != Key::nobodys().tag(b""));
    }

    #[test]
    fn opens_what_was_sealed_with_the_same_key() {
        let mut made = frame(b"body");
        assert_eq!(open(&key(), &made), Ok((header(), &b"body"[..])));
        // Ethernet padding is not read.
        made.extend([9; 20]);
        assert_eq!(open(&key(), &made), Ok((header(), &b"body"[..])));
        let other = Key::new(b"sixteen bytes no").unwrap();
        assert_eq!(open(&other, &made), Err(Refused::Foreign(NodeId(2))));
        made[0] = 1;
        assert_eq!(open(&key(), &made), Err(Refused::Version(1)));
    }

    #[test]
    fn marks_refuse_most_of_what_a_tag_would() {
        let (made, long) = (frame(b"body"), frame(&[0; 300]));
        let marked = glance(&key(), &made).unwrap();
        assert_eq!((marked.header, marked.bytes(), marked.is_covered()), (header(), 60, true));
        assert!(!glance(&key(), &long).unwrap().is_covered());
        let changed = |frame: &[u8], at: usize| {
            let mut frame = frame.to_vec();
            frame[at] ^= 1;
            frame
        };
        for at in 1..MARK_END {
            assert!(glance(&key(), &changed(&made, at)).is_err(), "{at}");
        }
        for at in MARK_END..HEADER_BYTES + 4 {
            assert!(glance(&key(), &changed(&made, at)).unwrap().check(&key()).is_err(), "{at}");
        }
        // After the part that the short codes cover comes the full code.
        let changed = changed(&long, HEADER_BYTES + COVERED_BYTES);
        let marked = glance(&key(), &changed).unwrap();
        assert_eq!(marked.check(&key()), Ok(()));
        assert_eq!(marked.open(&key()), Err(Refused::Foreign(NodeId(2))));
        let other = Key::new(b"sixteen bytes no").unwrap();
        assert!(matches!(glance(&other, &made), Err(Refused::Foreign(_))));
    }

    #[test]
    fn a_frame_that_would_be_too_long_is_not_made() {
        let mut out = vec![1, 2, 3];
        assert!(!seal(&key(), &header(), 100, &mut out, |b| b.extend([0; 45])));
        assert!(out.is_empty());
        assert!(seal(&key(), &header(), 100, &mut out, |b| b.extend([0; 44])));
        assert_eq!(out.len(), 100);
        assert!(!seal(&key(), &header(), 1 << 20, &mut out, |b| b.extend([0; 1 << 16])));
    }

    proptest! {
        #[test]
        fn any_changed_bit_and_any_cut_is_noticed(body: Vec<u8>, at: prop::sample::Index, bit in 0..8u8) {
            let made = frame(&body);
            let mut changed = made.clone();
            changed[at.index(made.len())] ^= 1 << bit;
            prop_assert!(open(&key(), &changed).is_err());
            prop_assert!(open(&key(), &made[..at.index(made.len())]).is_err());
        }
        #[test]
        fn any_bytes_are_refused(bytes: Vec<u8>) {
            prop_assert!(open(&key(), &bytes).is_err());
        }
    }
}
