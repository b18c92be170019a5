//! # ESPEncap
//! Encrypts IP packets into an IPsec tunnel (ESP in tunnel mode, RFC 4303).
//!
//! ## Synopsis
//! `ESPEncap(SAD [, SPI])`
//!
//! ## Arguments
//! - `SAD` (*element name*): the IPsecSAD with the security associations.
//! - `SPI` (*int*): the outbound association that is used for all packets. Without it, the association whose
//!   `paint` equals the packet's paint annotation is used: a classifier and Paint elements implement the
//!   policy.
//!
//! ## Ports
//! Input: whole IPv4 or IPv6 packets, as after CheckIPHeader; bytes after the IP length are cut off. Output
//! 0: IPv4 or IPv6 packets, as the ends of the tunnel are, each of which contains an ESP packet; the header
//! is marked, and the destination annotation is set to the remote end of the tunnel. Output 1, if connected:
//! packets that cannot be encrypted, unchanged. Agnostic.
//!
//! The element replaces Click's IPsecESPEncap, IPsecAuthHMACSHA1, IPsecAES and IPEncap in one: the bytes of a
//! packet pass through the processor once. The outer header copies the inner one's DSCP, ECN (RFC 6040) and
//! "do not fragment" bit (RFC 4301 section 8.1) unless the association says otherwise. Packets become longer
//! by 54 to 77 bytes, with IPv6 outside by 74 to 97: leave room in the MTU, or put an IPFragmenter in front.
//! An outer header of IPv6 has the flow label 0.
//!
//! ## Handlers
//! - `count` (read): packets that have been encrypted.
//! - `reset_counts` (write): sets the count to zero.
//!
//! ## Threads
//! Each worker has its own instance, with its own queue of the crypto device; see IPsecSAD. If that queue is
//! full, the worker waits. If its device is faster with larger batches (`crypto_aesni_mb` with CBC,
//! hardware), consecutive batches of 32 packets or more are collected, up to 256 packets; smaller batches do
//! not wait.
//!
//! ## Example
//! ```click
//! sad :: IPsecSAD;
//! FromDevice(net_null0) -> Strip(14) -> CheckIPHeader
//!   -> policy :: IPClassifier(dst net 10.1.0.0/16, -);
//! policy [0] -> Paint(1) -> encrypt :: ESPEncap(sad);
//! policy [1] -> Discard;
//! encrypt -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(net_null1);
//! ```
//!
//! ## See also
//! IPsecSAD, ESPDecap, IPEncap, Paint

use super::engine::association::{ESP_LEN, Front, HIGH_LEN, Sa};
use super::engine::database::{Index, NONE};
use super::engine::esp::{Esp, EspDirection};
use super::engine::spec::Ends;
use crate::ip6::engine::header::set_dst_ip6;
use crate::prelude::*;
use dpdk::crypto::{Algorithm, CryptoRun, Span, Verdict};
use std::sync::atomic::Ordering;
use wire::ipv4::HEADER_LEN;
use wire::{Ipv4, Ipv6, protocol};

const NO_SECURITY_ASSOCIATION: DropReason = DropReason::new("no security association");

/// The padding of RFC 4303 §2.4: the most that blocks of 16 bytes can need, and the byte after it.
const PADDING: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// The `ESPEncap` element.
pub(super) type ESPEncap = Esp<Encap>;

/// Encryption into a tunnel.
pub(super) struct Encap {
    spi: Option<u32>,
    workers: u16,
    /// The identification of the next outer header.
    id: u16,
}

impl EspDirection for Encap {
    const CLASS: &'static str = "ESPEncap";
    const READS: Fields = Fields::DATA.with(Fields::PAINT);
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::DST_IP6).with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &[
        NO_SECURITY_ASSOCIATION.when("no outbound association is for the packet"),
        drops::NO_IP_HEADER.when("neither IPv4 nor IPv6, or shorter than its header says"),
        drops::PACKET_TOO_LONG.when("more than 65535 bytes with what is added"),
        drops::SEQUENCE_NUMBERS_USED_UP.when("the association needs new keys"),
        drops::LIFETIME_OVER.when("the association has reached its limit of `packets` or `bytes`"),
        drops::OUT_OF_MEMORY.when("there was no room for what is added, and no buffer to move the packet to"),
        drops::NOT_TAKEN_BY_DEVICE,
        drops::NO_ANSWER_OF_DEVICE,
    ];
    const MANUAL: &'static str = manual!("ipsec/espencap");
    const NO_ASSOCIATION: DropReason = NO_SECURITY_ASSOCIATION;
    type Known = u32;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let spi = args.p("SPI")?;
        Ok(Self { spi, workers: cx.workers().max(1) as u16, id: cx.worker().0 as u16 })
    }

    fn take_state(&mut self, old: &mut Self) {
        self.id = old.id;
    }

    fn find(&self, index: &Index, places: &mut Vec<u32>, batch: &mut Batch, cx: &mut Cx<'_>) {
        match self.spi {
            Some(spi) => places.resize(batch.len(), index.outbound(spi)),
            None => places.extend(batch.iter().map(|p| index.painted(p.paint()))),
        }
        if places.contains(&NONE) {
            let mut all = places.iter();
            batch.filter_map_in_place(|packet| match all.next() {
                Some(&place) if place != NONE => Some(packet),
                _ => {
                    cx.fail(packet, NO_SECURITY_ASSOCIATION);
                    None
                }
            });
            places.retain(|place| *place != NONE);
        }
    }

    #[inline]
    fn place(known: &u32) -> u32 {
        *known
    }

    fn prepare<'a>(
        &mut self,
        index: &'a Index,
        places: &[u32],
        run: &mut CryptoRun<'_, 'a>,
        queue: usize,
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    ) {
        let (mut seen, mut left, mut seq, mut id) = (0, 0, 0, self.id);
        let workers = self.workers;
        let (mut current, mut of, mut bytes): (Option<&Sa>, u32, u64) = (None, NONE, 0);
        let mut shape: Option<Shape<'_>> = None;
        batch.filter_map_in_place(|packet| {
            let at = seen;
            seen += 1;
            let place = *places.get(at)?;
            if place != of {
                of = place;
                shape = None;
                if let Some(before) = std::mem::replace(&mut current, index.get(place).map(|sa| &**sa)) {
                    before.bytes.fetch_add(std::mem::take(&mut bytes), Ordering::Relaxed);
                }
                let same = places.get(at..)?.iter().take_while(|p| **p == place).count();
                (seq, left) = current?.reserve(same);
            }
            let sa = current?;
            if left == 0 {
                return refuse(packet, Refusal::Over, sa, cx);
            }
            // Most packets are like the one before: then there is nothing to find out.
            let known = match (&shape, packet.data().first_chunk::<8>()) {
                (Some(like), Some(start)) => like.describes(*start) && like.inner <= packet.len(),
                _ => false,
            };
            if !known {
                let Some(inner) = inner(packet.data()) else {
                    return refuse(packet, Refusal::NoPacket, sa, cx);
                };
                shape = Shape::of(sa, &inner);
                let Some(like) = &shape else { return refuse(packet, Refusal::TooLong, sa, cx) };
                if !sa.sessions.get(queue).is_some_and(|session| run.prepare(session, &like.span)) {
                    shape = None;
                    return refuse(packet, Refusal::ByDevice, sa, cx);
                }
            }
            let like = shape.as_ref()?;
            let Some(mut packet) = like.room(packet) else {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                return None;
            };
            let iv = like.wrap(packet.data_mut(), seq, id);
            seq += 1;
            left -= 1;
            bytes += like.inner as u64;
            id = id.wrapping_add(workers);
            if !iv.is_some_and(|iv| run.add_prepared(iv)) {
                return refuse(packet, Refusal::ByDevice, sa, cx);
            }
            match sa.ends {
                Ends::V4(_, dst) => packet.mark_ip_header(0, HEADER_LEN, dst.octets()),
                Ends::V6(_, dst) => {
                    packet.set_network_header(0, wire::ipv6::HEADER_LEN);
                    set_dst_ip6(&mut packet, dst);
                }
            }
            Some(packet)
        });
        self.id = id;
        if let Some(last) = current {
            last.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn finish(
        &mut self,
        _index: &Index,
        _places: &[u32],
        verdicts: &[Verdict],
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    ) {
        if !verdicts.is_empty() {
            let mut verdicts = verdicts.iter();
            batch.filter_map_in_place(|packet| match verdicts.next() {
                Some(Verdict::Done) => Some(packet),
                _ => {
                    cx.drop(packet, drops::CRYPTO_REFUSED);
                    None
                }
            });
        }
    }
}

/// The fields of the inner header that are needed.
struct InnerHeader {
    len: usize,
    tos: u8,
    df: bool,
    next: u8,
    /// Packets whose first eight bytes have the same bits here as this one's have these fields in common.
    mask: u64,
    bits: u64,
}

/// Version, header length, type of service, total length and "do not fragment" of IPv4.
const MASK_V4: u64 = 0xffff_ffff_0000_4000;
/// Version, traffic class and payload length of IPv6.
const MASK_V6: u64 = 0xfff0_0000_ffff_0000;

fn inner(data: &[u8]) -> Option<InnerHeader> {
    let start = u64::from_be_bytes(*data.first_chunk::<8>()?);
    let inner = match start >> 60 {
        4 => {
            let h = Ipv4::new(data)?;
            let len = usize::from(h.total_len());
            if h.header_len() < HEADER_LEN || len < h.header_len() {
                return None;
            }
            let (mask, bits) = (MASK_V4, start & MASK_V4);
            InnerHeader { len, tos: h.tos(), df: h.dont_fragment(), next: protocol::IPIP, mask, bits }
        }
        6 => {
            let h = Ipv6::new(data)?;
            let len = usize::from(h.payload_len()) + wire::ipv6::HEADER_LEN;
            let (mask, bits) = (MASK_V6, start & MASK_V6);
            // Routers do not fragment IPv6.
            InnerHeader { len, tos: h.traffic_class(), df: true, next: protocol::IPV6, mask, bits }
        }
        _ => return None,
    };
    (inner.len <= data.len()).then_some(inner)
}

/// What packets that use one association and have the same [`InnerHeader`] have in common.
struct Shape<'a> {
    sa: &'a Sa,
    mask: u64,
    bits: u64,
    /// Bytes of the inner packet.
    inner: usize,
    /// Bytes in front of it: outer header, ESP header and initialization vector.
    head: usize,
    /// Bytes behind it: padding, the two bytes after the padding, and the authentication tag.
    tail: usize,
    /// Bytes of the padding.
    pad: usize,
    /// The protocol of the inner packet, which stands behind the padding.
    next: u8,
    front: Front,
    /// What is behind a short padding is with it.
    trailer: [u8; 8],
    span: Span,
}

impl<'a> Shape<'a> {
    /// `None`: longer than an IP packet can be.
    fn of(sa: &'a Sa, header: &InnerHeader) -> Option<Self> {
        let InnerHeader { len: inner, next, mask, bits, .. } = *header;
        let tag = sa.algorithm.tag_len();
        let outer = sa.outer_len();
        let head = outer + ESP_LEN + sa.iv_len();
        let body = sa.padded(inner);
        let pad = body - inner - 2;
        let total = u16::try_from(head + body + tag).ok()?;
        // In CBC the initialization vector is encrypted too: see `Sa::counter`.
        let in_clear = if sa.algorithm == Algorithm::AesGcm { head } else { outer + ESP_LEN };
        // The upper half of the sequence number, which is not sent, is authenticated at the place where the
        // tag is written later.
        let high = if sa.high_behind() { HIGH_LEN } else { 0 };
        let span = Span {
            cipher_offset: in_clear as u16,
            cipher_len: (head + body - in_clear) as u16,
            auth_offset: outer as u16,
            auth_len: (head + body + high - outer) as u16,
            tag_offset: (head + body) as u16,
        };
        let mut trailer = [1, 2, 3, 4, 5, 6, 7, 8];
        if let Some(end) = trailer.get_mut(pad..).and_then(|rest| rest.first_chunk_mut::<2>()) {
            *end = [pad as u8, next];
        }
        let front = sa.front(total, header.tos, header.df);
        Some(Self { sa, mask, bits, inner, head, tail: body - inner + tag, pad, next, front, trailer, span })
    }

    /// Whether a packet that begins like this is one of them.
    #[inline]
    fn describes(&self, start: [u8; 8]) -> bool {
        u64::from_be_bytes(start) & self.mask == self.bits
    }

    /// Extends the packet for what is added; `None`: out of memory.
    #[inline]
    fn room(&self, mut packet: Packet) -> Option<Packet> {
        if packet.frame_in_place(self.inner, self.head, self.tail) {
            return Some(packet);
        }
        let surplus = packet.len() - self.inner;
        packet.take(surplus);
        packet.push(self.head)?.put(self.tail)
    }

    /// Writes outer header, ESP header, initialization vector and trailer around a packet that has space for
    /// them. The crypto device does the rest, with the initialization vector that is returned.
    #[inline]
    fn wrap(&self, data: &mut [u8], seq: u64, id: u16) -> Option<[u8; 16]> {
        let sa = self.sa;
        let (front, trailer) = data.split_at_mut_checked(self.head + self.inner)?;
        // Stores longer than the padding are cheaper than exact ones; the excess is overwritten by the last
        // two bytes and by the tag, which has at least 12.
        if self.pad + 2 <= self.trailer.len() {
            *trailer.first_chunk_mut::<8>()? = self.trailer;
        } else {
            *trailer.first_chunk_mut::<16>()? = PADDING;
            *trailer.get_mut(self.pad..)?.first_chunk_mut::<2>()? = [self.pad as u8, self.next];
        }
        if sa.high_behind() {
            *trailer.get_mut(self.pad + 2..)?.first_chunk_mut::<HIGH_LEN>()? =
                ((seq >> 32) as u32).to_be_bytes();
        }
        let iv = self.front.write(id, seq, front)?;
        let counter = sa.counter(seq);
        if sa.algorithm == Algorithm::AesGcm {
            let in_packet = (counter as u64).to_be_bytes();
            *iv.first_chunk_mut::<8>()? = in_packet;
            Some(sa.gcm_nonce(in_packet, seq))
        } else {
            *iv.first_chunk_mut::<16>()? = counter.to_be_bytes();
            Some([0; 16])
        }
    }
}

/// Why a packet is not encrypted.
enum Refusal {
    Over,
    NoPacket,
    TooLong,
    ByDevice,
}

/// Drops a packet; a separate function, so that the loop over packets that are encrypted stays short.
#[cold]
#[inline(never)]
fn refuse(packet: Packet, why: Refusal, sa: &Sa, cx: &mut Cx<'_>) -> Option<Packet> {
    match why {
        Refusal::Over => {
            sa.refused.fetch_add(1, Ordering::Relaxed);
            cx.fail(packet, sa.exhausted());
        }
        Refusal::NoPacket => cx.fail(packet, drops::NO_IP_HEADER),
        Refusal::TooLong => cx.fail(packet, drops::PACKET_TOO_LONG),
        Refusal::ByDevice => cx.drop(packet, drops::CRYPTO_REFUSED),
    }
    None
}
