//! Algorithms and keys that protect packets, and the parts of a packet that they protect.

use std::fmt;

use dpdk_sys::{
    VALIANT_CRYPTO_AES_CBC_HMAC_SHA1, VALIANT_CRYPTO_AES_CBC_HMAC_SHA256, VALIANT_CRYPTO_AES_GCM,
    valiant_crypto_transform,
};

/// Drivers whose devices can be created on any machine, the fastest first.
pub const SOFTWARE: [&str; 3] = ["crypto_aesni_gcm", "crypto_aesni_mb", "crypto_openssl"];

/// An algorithm that protects packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// AES in Galois/counter mode, which authenticates too: a 12-byte nonce, a 16-byte tag, additional data
    /// ([`Aad`]).
    AesGcm,
    /// AES in cipher block chaining mode, then HMAC-SHA1 cut to 12 bytes.
    AesCbcHmacSha1,
    /// AES in cipher block chaining mode, then HMAC-SHA-256 cut to 16 bytes.
    AesCbcHmacSha256,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 3] =
        [Algorithm::AesGcm, Algorithm::AesCbcHmacSha1, Algorithm::AesCbcHmacSha256];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::AesGcm => "aes-gcm",
            Algorithm::AesCbcHmacSha1 => "aes-cbc-hmac-sha1",
            Algorithm::AesCbcHmacSha256 => "aes-cbc-hmac-sha256",
        }
    }

    /// Bytes of the tag.
    pub const fn tag_len(self) -> usize {
        match self {
            Algorithm::AesGcm | Algorithm::AesCbcHmacSha256 => 16,
            Algorithm::AesCbcHmacSha1 => 12,
        }
    }

    /// Bytes of the authentication key; 0 if there is none.
    pub const fn auth_key_len(self) -> usize {
        match self {
            Algorithm::AesGcm => 0,
            Algorithm::AesCbcHmacSha1 => 20,
            Algorithm::AesCbcHmacSha256 => 32,
        }
    }

    fn raw(self) -> u8 {
        let raw = match self {
            Algorithm::AesGcm => VALIANT_CRYPTO_AES_GCM,
            Algorithm::AesCbcHmacSha1 => VALIANT_CRYPTO_AES_CBC_HMAC_SHA1,
            Algorithm::AesCbcHmacSha256 => VALIANT_CRYPTO_AES_CBC_HMAC_SHA256,
        };
        raw as u8
    }

    /// Drivers that support it, the fastest first.
    pub const fn drivers(self) -> &'static [&'static str] {
        match self {
            Algorithm::AesGcm => &SOFTWARE,
            _ => SOFTWARE.split_at(1).1,
        }
    }
}

/// The additional data that [`Algorithm::AesGcm`] authenticates besides the encrypted part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aad {
    /// This many bytes from [`Span::auth_offset`] on.
    Packet(u8),
    /// 12 bytes: four at [`Span::auth_offset`], the last four of the `iv` given to [`super::CryptoRun::add`],
    /// and the next four of the packet. ESP with extended sequence numbers sends only half of them (RFC 4106
    /// section 5).
    Extended,
}

impl Aad {
    /// That of ESP: SPI and sequence number.
    pub const ESP: Aad = Aad::Packet(8);

    /// The additional data, and how many of its bytes are in the packet.
    pub(super) const fn lens(self) -> (u8, u8) {
        match self {
            Aad::Packet(n) => (n, n),
            Aad::Extended => (12, 8),
        }
    }
}

/// One direction of a security association: algorithm and keys. `Debug` shows no key.
#[derive(Clone, Copy)]
pub struct Transform<'a> {
    /// How.
    pub algorithm: Algorithm,
    /// Whether packets are encrypted (or decrypted).
    pub encrypt: bool,
    /// The AES key: 16, 24 or 32 bytes.
    pub key: &'a [u8],
    /// The authentication key, [`Algorithm::auth_key_len`] bytes.
    pub auth_key: &'a [u8],
    /// The additional data that is authenticated; for GCM only.
    pub aad: Aad,
}

impl fmt::Debug for Transform<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({:?}, {} bit, encrypt {})", self.algorithm, self.key.len() * 8, self.encrypt)
    }
}

impl Transform<'_> {
    pub(super) fn raw(&self) -> valiant_crypto_transform {
        valiant_crypto_transform {
            algorithm: self.algorithm.raw(),
            encrypt: self.encrypt.into(),
            key_len: self.key.len() as u16,
            auth_key_len: self.auth_key.len() as u16,
            digest_len: self.algorithm.tag_len() as u16,
            aad_len: self.aad.lens().0.into(),
            key: self.key.as_ptr(),
            auth_key: self.auth_key.as_ptr(),
        }
    }
}

/// The parts of a packet's data to process: offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the part to encrypt or decrypt begins.
    pub cipher_offset: u16,
    /// Its length; a multiple of 16 for CBC.
    pub cipher_len: u16,
    /// Where the additional data (GCM, see [`Aad`]) or the authenticated part (CBC with HMAC) begins.
    pub auth_offset: u16,
    /// The length of the authenticated part; unused for GCM.
    pub auth_len: u16,
    /// The offset of the tag.
    pub tag_offset: u16,
}

impl Span {
    /// The length of the shortest packet that it fits; `None` when it fits none.
    #[inline]
    pub(super) fn need(&self, algorithm: Algorithm, aad: Aad) -> Option<u16> {
        let gcm = algorithm == Algorithm::AesGcm;
        let end = |at: u16, n: u16| u32::from(at) + u32::from(n);
        let cipher_end = end(self.cipher_offset, self.cipher_len);
        let auth_end = end(self.auth_offset, if gcm { aad.lens().1.into() } else { self.auth_len });
        let tag_end = end(self.tag_offset, algorithm.tag_len() as u16);
        // The cipher's part must lie in the authenticated part, which is what is handed to the device.
        let nested = gcm
            || (self.auth_offset <= self.cipher_offset
                && cipher_end <= auth_end
                && self.cipher_len.is_multiple_of(16));
        u16::try_from(cipher_end.max(auth_end).max(tag_end)).ok().filter(|_| nested)
    }
}
