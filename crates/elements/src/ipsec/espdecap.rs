//! # ESPDecap
//! Receives packets of IPsec tunnels (ESP in tunnel mode, RFC 4303): checks and decrypts them.
//!
//! ## Synopsis
//! `ESPDecap(SAD)`
//!
//! ## Arguments
//! - `SAD` (*element name*): the IPsecSAD with the security associations. The inbound association with the
//!   packet's SPI is used for each packet.
//!
//! ## Ports
//! Input: whole IPv4 or IPv6 packets that contain ESP, as after CheckIPHeader and IPReassembler, or
//! CheckIP6Header; hop-by-hop options and the like in front of ESP are skipped. Output 0: the inner
//! packets, IPv4 or IPv6, with the header marked and, for IPv4, the destination annotation set; check them
//! like any other packet that arrives. Output 1, if connected: packets that were refused; they may have been
//! decrypted in place. Agnostic.
//!
//! A packet is checked in the order of RFC 4303 section 3.4: association, anti-replay window, authentication,
//! window again, padding. Then the association's selectors (RFC 4301 section 5.2) must include the inner
//! packet's addresses, protocol and ports. A congestion mark of the outer header is copied to the inner
//! header (RFC 6040).
//!
//! A peer with a key can send packets with any source address through its tunnel. So if there is more than
//! one peer, give every inbound association a `from`: otherwise one peer can use source addresses of another
//! peer's network. An association with a `paint` sets that paint annotation on its packets once they are
//! authenticated and admitted by the selectors, so that PaintSwitch, CheckPaint and other elements after this
//! one can distinguish the peers. Other packets keep their paint.
//!
//! ## Handlers
//! - `count` (read): packets that have been decapsulated.
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
//!   -> c :: IPClassifier(ip proto 50, -) -> ESPDecap(sad)
//!   -> CheckIPHeader -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> Queue -> ToDevice(net_null1);
//! c [1] -> Discard;
//! ```
//!
//! ## See also
//! IPsecSAD, ESPEncap, CheckIPHeader, IPReassembler, PaintSwitch

use super::engine::association::{ESP_LEN, HIGH_LEN, Sa};
use super::engine::database::{Index, NONE};
use super::engine::esp::{Esp, EspDirection};
use super::engine::spec::Ends;
use super::engine::window::{BEHIND, REPLAYED, Window};
use crate::prelude::*;
use dpdk::crypto::{Algorithm, CryptoRun, Span, Verdict};
use locks::lock_counted;
use std::sync::atomic::Ordering;
use wire::ipv4::{ECN_CE, ECN_ECT0, ECN_ECT1, ECN_NOT_ECT, HEADER_LEN};
use wire::{Ipv4, Ipv6, protocol};

const NO_ESP_PACKET: DropReason = DropReason::new("no ESP packet");
const ESP_IN_FRAGMENTS: DropReason = DropReason::new("ESP in fragments");
const ESP_PACKET_TOO_SHORT: DropReason = DropReason::new("ESP packet too short");
const UNKNOWN_SPI: DropReason = DropReason::new("unknown SPI");
const WRONG_TUNNEL_ADDRESS: DropReason = DropReason::new("wrong tunnel address");
const AUTHENTICATION_FAILED: DropReason = DropReason::new("authentication failed");
const BAD_ESP_PADDING: DropReason = DropReason::new("bad ESP padding");
const BAD_INNER_PACKET: DropReason = DropReason::new("bad inner packet");
const OUTSIDE_THE_SELECTORS: DropReason = DropReason::new("outside the selectors");
const DUMMY_PACKET: DropReason = DropReason::new("dummy packet");
const UNEXPECTED_CE: DropReason = DropReason::new("CE mark on a packet without ECN");

/// How many extension headers in front of ESP are skipped.
const MOST_EXTENSIONS: usize = 8;
/// The padding of RFC 4303 §2.4.
const PADDING: [u8; 255] = {
    let mut padding = [0; 255];
    let mut i = 0;
    while i < 255 {
        padding[i] = i as u8 + 1;
        i += 1;
    }
    padding
};

/// For each short padding: its bits of the word that ends with it, and their value.
const SHORT_PADDING: [(u64, u64); 9] = {
    let mut all = [(0, 0); 9];
    let mut len = 1;
    while len <= 8 {
        let (mask, value) = all[len - 1];
        all[len] = (mask << 8 | 0xff, value << 8 | len as u64);
        len += 1;
    }
    all
};

/// What is known about a packet before it is decrypted.
#[derive(Clone, Copy)]
pub(super) struct ReceivedPacket {
    /// Its sequence number; only the lower half until the window has supplied the rest.
    seq: u64,
    place: u32,
    /// Bytes before and after the payload.
    head: u16,
    tail: u16,
    ecn: u8,
}

/// The `ESPDecap` element.
pub(super) type ESPDecap = Esp<Decap>;

/// Decapsulation of packets from a tunnel.
pub(super) struct Decap;

impl EspDirection for Decap {
    const CLASS: &'static str = "ESPDecap";
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::DST_IP).with(Fields::PAINT).with(Fields::IP_HEADERS);
    const DROPS: &'static [DropCase] = &[
        NO_ESP_PACKET.when("no IP header, or another protocol"),
        ESP_IN_FRAGMENTS.when("fragments have to be reassembled before this element"),
        ESP_PACKET_TOO_SHORT
            .when("shorter than its headers say, or not a multiple of the cipher's block"),
        UNKNOWN_SPI.when("no inbound association has its SPI"),
        WRONG_TUNNEL_ADDRESS.when("source or destination are not the association's"),
        REPLAYED.when("its number has been seen"),
        BEHIND.when(
            "its number is older than the window, or, if there are many of these, the association's \
             `window` is too small for the reordering on the path",
        ),
        drops::LIFETIME_OVER.when("the association has reached its limit of `packets` or `bytes`"),
        AUTHENTICATION_FAILED.when("forged, damaged on its way, or encrypted with another key"),
        BAD_ESP_PADDING.when("authentic, but the padding is not what RFC 4303 says"),
        BAD_INNER_PACKET.when("authentic, but no IP packet inside"),
        OUTSIDE_THE_SELECTORS.when("authentic, but what is inside may not come by this association"),
        DUMMY_PACKET.when("authentic, and meant to be thrown away (RFC 4303 section 2.6)"),
        UNEXPECTED_CE.when("the outer header has congestion experienced, and the inner packet does not support ECN (RFC 6040)"),
        drops::PACKET_TOO_LONG.when("more than 65531 bytes, with extended sequence numbers and CBC"),
        drops::OUT_OF_MEMORY
            .when("with extended sequence numbers and CBC: the packet could not grow by four bytes"),
        drops::NOT_TAKEN_BY_DEVICE,
        drops::NO_ANSWER_OF_DEVICE,
    ];
    const MANUAL: &'static str = manual!("ipsec/espdecap");
    const NO_ASSOCIATION: DropReason = UNKNOWN_SPI;
    type Known = ReceivedPacket;

    fn configure(_args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }

    fn find(&self, index: &Index, arrived: &mut Vec<ReceivedPacket>, batch: &mut Batch, cx: &mut Cx<'_>) {
        let mut held = None;
        let mut place = NONE;
        let mut like = None;
        batch.filter_map_in_place(|mut packet| {
            let problem = match arrive(&mut packet, index, &mut like) {
                Ok(mut a) => {
                    let sa = index.get(a.place)?;
                    if a.place != place {
                        place = a.place;
                        // Never holds two locks at a time: another worker may take them in the opposite
                        // order.
                        held = None;
                        held = Some(lock_counted(&sa.window));
                    }
                    let fresh = match held.as_ref() {
                        Some(window) if sa.alive() => number(&mut a, sa, window),
                        _ => Err(drops::LIFETIME_OVER),
                    };
                    let problem = match fresh {
                        Ok(()) if sa.high_behind() => {
                            let tag_len = sa.algorithm.tag_len();
                            let Some(longer) = lengthen(packet, tag_len, a.seq) else {
                                cx.count_drops(1, drops::OUT_OF_MEMORY);
                                return None;
                            };
                            a.tail += HIGH_LEN as u16;
                            arrived.push(a);
                            return Some(longer);
                        }
                        Ok(()) => {
                            arrived.push(a);
                            return Some(packet);
                        }
                        Err(reason) => reason,
                    };
                    sa.refused.fetch_add(1, Ordering::Relaxed);
                    problem
                }
                Err(reason) => reason,
            };
            cx.fail(packet, problem);
            None
        });
    }

    #[inline]
    fn place(known: &ReceivedPacket) -> u32 {
        known.place
    }

    fn prepare<'a>(
        &mut self,
        index: &'a Index,
        arrived: &[ReceivedPacket],
        run: &mut CryptoRun<'_, 'a>,
        queue: usize,
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    ) {
        let mut fits = true;
        let mut shape = None;
        for (packet, a) in batch.iter().zip(arrived) {
            let Some(sa) = index.get(a.place) else {
                fits = false;
                break;
            };
            // Most packets use the same association and length as the packet before.
            let its = (a.place, a.head, a.tail, packet.len());
            if shape != Some(its) {
                shape = Some(its);
                let session = sa.sessions.get(queue);
                fits &= session.is_some_and(|session| run.prepare(session, &span(packet.len(), sa, *a)));
            }
            fits &= vector(packet, sa, *a).is_some_and(|iv| run.add_prepared(iv));
        }
        if !fits {
            // Every packet was checked on arrival; a worker without a session cannot get here.
            cx.drop_batch(batch.take(), drops::CRYPTO_REFUSED);
        }
    }

    fn finish(
        &mut self,
        index: &Index,
        arrived: &[ReceivedPacket],
        verdicts: &[Verdict],
        batch: &mut Batch,
        cx: &mut Cx<'_>,
    ) {
        let mut at = 0;
        // The window is locked, and the counters are increased, once for each run of packets of one
        // association.
        let mut held = None;
        let mut place = NONE;
        let (mut packets, mut bytes) = (0, 0);
        let book = |place: u32, packets: &mut u64, bytes: &mut u64| {
            if let Some(sa) = index.get(place) {
                sa.packets.fetch_add(std::mem::take(packets), Ordering::Relaxed);
                sa.bytes.fetch_add(std::mem::take(bytes), Ordering::Relaxed);
            }
        };
        batch.filter_map_in_place(|mut packet| {
            let a = *arrived.get(at)?;
            let verdict = verdicts.get(at).copied().unwrap_or(Verdict::Done);
            at += 1;
            let sa = index.get(a.place)?;
            if a.place != place {
                book(place, &mut packets, &mut bytes);
                place = a.place;
                // Never holds two locks at a time: another worker may take them in the opposite order.
                held = None;
                held = Some(lock_counted(&sa.window));
            }
            let good = match (verdict, held.as_mut()) {
                (Verdict::Forged, _) => Err(AUTHENTICATION_FAILED),
                (Verdict::Done, Some(window)) => window.accept(a.seq),
                _ => Err(drops::CRYPTO_REFUSED),
            };
            let problem = match good {
                Ok(()) => unwrap(&mut packet, sa, a).err(),
                Err(reason) => {
                    if sa.high_behind() {
                        shorten(&mut packet, sa.algorithm.tag_len());
                    }
                    Some(reason)
                }
            };
            if let Some(reason) = problem {
                sa.refused.fetch_add(1, Ordering::Relaxed);
                cx.fail(packet, reason);
                return None;
            }
            packets += 1;
            bytes += packet.len() as u64;
            Some(packet)
        });
        book(place, &mut packets, &mut bytes);
    }
}

/// What packets of one association that arrive have in common.
struct Arrival {
    place: u32,
    spi: u32,
    /// The outer addresses, and which of their bits are compared.
    addresses: u64,
    address_mask: u64,
    /// Bytes before and after the payload, with an outer header without options.
    head: u16,
    tail: u16,
    /// The block size less one.
    block_mask: usize,
    high_behind: bool,
}

impl Arrival {
    /// `None`: a tunnel of IPv6, whose packets are all looked at as the first one.
    fn of(sa: &Sa, place: u32) -> Option<Arrival> {
        let Ends::V4(src, dst) = sa.ends else { return None };
        let both = |src: u32, dst: u32| u64::from(src) << 32 | u64::from(dst);
        let mask = |address: std::net::Ipv4Addr| if address.is_unspecified() { 0 } else { u32::MAX };
        Some(Arrival {
            place,
            spi: sa.spi,
            addresses: both(src.to_bits(), dst.to_bits()),
            address_mask: both(mask(src), mask(dst)),
            head: (HEADER_LEN + ESP_LEN + sa.iv_len()) as u16,
            tail: sa.algorithm.tag_len() as u16,
            block_mask: sa.block() - 1,
            high_behind: sa.high_behind(),
        })
    }
}

/// Reads the headers and cuts off what follows the packet.
#[inline]
fn arrive(
    packet: &mut Packet,
    index: &Index,
    like: &mut Option<Arrival>,
) -> Result<ReceivedPacket, DropReason> {
    if let Some(like) = like
        && let Some(start) = packet.data().first_chunk::<{ HEADER_LEN + ESP_LEN }>()
    {
        let word = |at: usize| {
            start.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|w| u64::from_be_bytes(*w))
        };
        let (Some(first), Some(second), Some(addresses), Some(esp)) = (word(0), word(8), word(12), word(20))
        else {
            return Err(NO_ESP_PACKET);
        };
        let protocol = (second >> 48) as u8;
        // IPv4 without options, not a fragment, and with the association of the packet before.
        if first & 0xff00_0000_0000_3fff == 0x4500_0000_0000_0000
            && protocol == protocol::ESP
            && addresses & like.address_mask == like.addresses
            && (esp >> 32) as u32 == like.spi
        {
            let total = usize::from((first >> 32) as u16);
            let surplus = packet.len().checked_sub(total).ok_or(ESP_PACKET_TOO_SHORT)?;
            if surplus > 0 {
                packet.take(surplus);
            }
            let around = usize::from(like.head) + usize::from(like.tail);
            let body = total.checked_sub(around).ok_or(ESP_PACKET_TOO_SHORT)?;
            if body == 0 || body & like.block_mask != 0 {
                return Err(ESP_PACKET_TOO_SHORT);
            }
            if like.high_behind && total + HIGH_LEN > u16::MAX.into() {
                return Err(drops::PACKET_TOO_LONG);
            }
            let Arrival { place, head, tail, .. } = *like;
            let ecn = (first >> 48) as u8 & ECN_CE;
            return Ok(ReceivedPacket { seq: esp & 0xffff_ffff, place, head, tail, ecn });
        }
    }
    let (arrived, sa) = arrive_first(packet, index)?;
    *like = Arrival::of(sa, arrived.place);
    Ok(arrived)
}

/// What is in front of ESP.
struct Outer {
    /// Where ESP begins, and where the packet ends.
    len: usize,
    total: usize,
    ecn: u8,
    ends: Ends,
}

/// Reads an outer header of IPv4.
fn outer4(data: &[u8]) -> Result<Outer, DropReason> {
    let h = Ipv4::new(data).ok_or(NO_ESP_PACKET)?;
    let (len, total, ecn) = (h.header_len(), usize::from(h.total_len()), h.ecn());
    if h.version() != 4 || len < HEADER_LEN || h.protocol() != protocol::ESP {
        return Err(NO_ESP_PACKET);
    }
    if h.is_fragment() {
        return Err(ESP_IN_FRAGMENTS);
    }
    Ok(Outer { len, total, ecn, ends: Ends::V4(h.src(), h.dst()) })
}

/// Reads outer headers of IPv6.
fn outer6(data: &[u8]) -> Result<Outer, DropReason> {
    let h = Ipv6::new(data).ok_or(NO_ESP_PACKET)?;
    let (mut next, mut len) = (h.next_header(), wire::ipv6::HEADER_LEN);
    let (total, ecn) = (len + usize::from(h.payload_len()), h.traffic_class() & 3);
    for _ in 0..MOST_EXTENSIONS {
        let extension = data.get(len..).and_then(|rest| rest.first_chunk::<8>());
        match (next, extension) {
            (protocol::ESP, _) => return Ok(Outer { len, total, ecn, ends: Ends::V6(h.src(), h.dst()) }),
            (protocol::FRAGMENT, _) => return Err(ESP_IN_FRAGMENTS),
            (protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS, Some(e)) => {
                next = e[0];
                len += (usize::from(e[1]) + 1) * 8;
            }
            _ => return Err(NO_ESP_PACKET),
        }
    }
    Err(NO_ESP_PACKET)
}

/// [`arrive`] for a packet that is not like the one before.
#[inline(never)]
fn arrive_first<'a>(packet: &mut Packet, index: &'a Index) -> Result<(ReceivedPacket, &'a Sa), DropReason> {
    let Outer { len, total, ecn, ends } = match packet.data().first().map(|b| b >> 4) {
        Some(6) => outer6(packet.data())?,
        _ => outer4(packet.data())?,
    };
    let surplus = packet.len().checked_sub(total).ok_or(ESP_PACKET_TOO_SHORT)?;
    if surplus > 0 {
        packet.take(surplus);
    }
    let esp = packet.data().get(len..).and_then(|esp| esp.first_chunk::<ESP_LEN>());
    let [a, b, c, d, e, f, g, i] = *esp.ok_or(ESP_PACKET_TOO_SHORT)?;
    let place = index.inbound(u32::from_be_bytes([a, b, c, d]));
    let sa = index.get(place).ok_or(UNKNOWN_SPI)?;
    if !sa.ends.include(&ends) {
        return Err(WRONG_TUNNEL_ADDRESS);
    }
    let (head, tail) = (len + ESP_LEN + sa.iv_len(), sa.algorithm.tag_len());
    let body = packet.len().checked_sub(head + tail).ok_or(ESP_PACKET_TOO_SHORT)?;
    if body == 0 || !sa.whole(body) {
        return Err(ESP_PACKET_TOO_SHORT);
    }
    if sa.high_behind() && packet.len() + HIGH_LEN > u16::MAX.into() {
        return Err(drops::PACKET_TOO_LONG);
    }
    let arrived = ReceivedPacket {
        seq: u32::from_be_bytes([e, f, g, i]).into(),
        place,
        head: head as u16,
        tail: tail as u16,
        ecn,
    };
    Ok((arrived, sa))
}

/// Inserts the upper half of the sequence number, which is not sent, at the place where it is authenticated:
/// between trailer and tag.
#[cold]
fn lengthen(mut packet: Packet, tag_len: usize, seq: u64) -> Option<Packet> {
    if !packet.put_in_place(HIGH_LEN) {
        packet = packet.put(HIGH_LEN)?;
    }
    let at = packet.len().checked_sub(tag_len + HIGH_LEN)?;
    let end = packet.data_mut().get_mut(at..)?;
    end.copy_within(..tag_len, HIGH_LEN);
    *end.first_chunk_mut::<HIGH_LEN>()? = ((seq >> 32) as u32).to_be_bytes();
    Some(packet)
}

/// Removes the upper half again.
#[cold]
fn shorten(packet: &mut Packet, tag_len: usize) {
    let at = packet.len().saturating_sub(tag_len + HIGH_LEN);
    if let Some(end) = packet.data_mut().get_mut(at..).filter(|end| end.len() >= HIGH_LEN) {
        end.copy_within(HIGH_LEN.., 0);
        packet.take(HIGH_LEN);
    }
}

/// Computes the whole sequence number, and whether the window admits the packet.
#[inline]
fn number(a: &mut ReceivedPacket, sa: &Sa, window: &Window) -> Result<(), DropReason> {
    if sa.esn {
        a.seq = window.extend(a.seq as u32)?;
    }
    window.check(a.seq)
}

/// The part of a packet of `len` bytes that the device processes.
fn span(len: usize, sa: &Sa, a: ReceivedPacket) -> Span {
    let (head, tail) = (usize::from(a.head), usize::from(a.tail));
    let tag_offset = len.saturating_sub(sa.algorithm.tag_len());
    let auth_offset = head.saturating_sub(sa.iv_len() + ESP_LEN);
    Span {
        cipher_offset: head as u16,
        cipher_len: len.saturating_sub(tail + head) as u16,
        auth_offset: auth_offset as u16,
        auth_len: tag_offset.saturating_sub(auth_offset) as u16,
        tag_offset: tag_offset as u16,
    }
}

/// The initialization vector.
#[inline]
fn vector(packet: &Packet, sa: &Sa, a: ReceivedPacket) -> Option<[u8; 16]> {
    let end = packet.data().get(..a.head.into())?;
    match sa.algorithm {
        Algorithm::AesGcm => Some(sa.gcm_nonce(*end.last_chunk::<8>()?, a.seq)),
        _ => end.last_chunk::<16>().copied(),
    }
}

/// The inner ECN field (RFC 6040 figure 4); `None`: the packet is to be dropped.
#[inline]
const fn ecn(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (ECN_NOT_ECT, ECN_CE) => None,
        (ECN_ECT0 | ECN_ECT1, ECN_CE) => Some(ECN_CE),
        (ECN_ECT0, ECN_ECT1) => Some(ECN_ECT1),
        (inner, _) => Some(inner),
    }
}

/// Whether a padding of `pad_len` bytes at the end of this is as RFC 4303 says.
#[inline]
fn padded_well(body: &[u8], pad_len: usize) -> bool {
    // Nearly always: what fits into a word needs no comparison of memory.
    if let (Some(end), Some((mask, expected))) = (body.last_chunk::<8>(), SHORT_PADDING.get(pad_len)) {
        return u64::from_be_bytes(*end) & mask == *expected;
    }
    let padding = body.len().checked_sub(pad_len).and_then(|at| body.get(at..));
    padding.is_some() && padding == PADDING.get(..pad_len)
}

/// What is in a decrypted and authenticated packet.
struct InnerPacket {
    len: usize,
    header_len: usize,
    /// For IPv4.
    dst: Option<[u8; 4]>,
}

/// Checks what stands between initialization vector and tag; `ecn` is that of the outer header.
#[inline]
fn open(text: &mut [u8], sa: &Sa, outer_ecn: u8) -> Result<InnerPacket, DropReason> {
    let Some((body, &mut [pad_len, next])) = text.split_last_chunk_mut::<2>() else {
        return Err(BAD_ESP_PADDING);
    };
    let pad_len = usize::from(pad_len);
    if !padded_well(body, pad_len) {
        return Err(BAD_ESP_PADDING);
    }
    let len = body.len() - pad_len;
    let mark = |inner: u8| {
        if sa.ecn { ecn(inner, outer_ecn).ok_or(UNEXPECTED_CE) } else { Ok(inner) }
    };
    match next {
        protocol::IPIP => {
            let mut h = Ipv4::new_mut(text).filter(|_| len >= HEADER_LEN).ok_or(BAD_INNER_PACKET)?;
            let (header_len, total, dst, inner) = (h.header_len(), h.total_len().into(), h.dst(), h.ecn());
            if h.version() != 4 || header_len < HEADER_LEN || total < header_len || total > len {
                return Err(BAD_INNER_PACKET);
            }
            let marked = mark(inner)?;
            if marked != inner {
                h.update_ecn(marked);
            }
            Ok(InnerPacket { len: total, header_len, dst: Some(dst.octets()) })
        }
        protocol::IPV6 => {
            const FIXED: usize = wire::ipv6::HEADER_LEN;
            let mut h = Ipv6::new_mut(text).filter(|_| len >= FIXED).ok_or(BAD_INNER_PACKET)?;
            let (total, inner) = (FIXED + usize::from(h.payload_len()), h.traffic_class() & 3);
            if h.version() != 6 || total > len {
                return Err(BAD_INNER_PACKET);
            }
            let marked = mark(inner)?;
            h.set_version_class_flow(h.version_class_flow() & !(3 << 20) | u32::from(marked) << 20);
            Ok(InnerPacket { len: total, header_len: FIXED, dst: None })
        }
        protocol::NO_NEXT_HEADER => Err(DUMMY_PACKET),
        _ => Err(BAD_INNER_PACKET),
    }
}

/// Removes everything around the inner packet of a decrypted and authenticated one.
#[inline]
fn unwrap(packet: &mut Packet, sa: &Sa, a: ReceivedPacket) -> Result<(), DropReason> {
    let (head, tail) = (usize::from(a.head), usize::from(a.tail));
    let end = packet.len().saturating_sub(tail);
    let inner =
        packet.data_mut().get_mut(head..end).ok_or(BAD_ESP_PADDING).and_then(|text| open(text, sa, a.ecn));
    let inner = match inner {
        Ok(inner) => inner,
        Err(reason) => {
            packet.narrow(head, end.saturating_sub(head));
            return Err(reason);
        }
    };
    packet.narrow(head, inner.len);
    match inner.dst {
        Some(dst) => packet.mark_ip_header(0, inner.header_len, dst),
        None => packet.set_network_header(0, inner.header_len),
    }
    if let Some(selectors) = &sa.selectors
        && !selectors.admit(packet.data())
    {
        return Err(OUTSIDE_THE_SELECTORS);
    }
    if let Some(paint) = sa.paint {
        packet.set_paint(paint);
    }
    Ok(())
}
