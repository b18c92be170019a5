//! # IPFragmenter
//! Cuts IP packets that are too long into fragments.
//!
//! ## Synopsis
//! `IPFragmenter(MTU, [HONOR_DF, VERBOSE, HEADROOM, LINK_HEADER])`
//!
//! ## Arguments
//! - `MTU` (*int*, bytes, at least 8): the longest IP packet that passes.
//! - `HONOR_DF` (*bool*, default true): whether packets that must not be fragmented are rejected. If false
//!   they are fragmented all the same, with a new random identification.
//! - `VERBOSE` (*bool*, default false): whether to print a line for every rejected packet; otherwise only for
//!   the first five.
//! - `HEADROOM` (*int*, bytes, keyword, default 128): the room before every fragment but the first.
//! - `LINK_HEADER` (*bool*, keyword, default false): whether what comes before the IP header, such as the
//!   Ethernet header of a packet that is only bridged, is put before every fragment; otherwise it stays on
//!   the first one only.
//!
//! ## Ports
//! One push input, one or two push outputs. Packets that fit and fragments leave by output 0, fragments in
//! order. All fragments have the packet's annotations and a marked IP header. Options that RFC 791 says to
//! copy are in every fragment. A packet that may not be fragmented goes, unchanged, to output 1 if it is
//! connected; otherwise it is dropped. The IP header must have been marked.
//!
//! ## Handlers
//! - `drops` (read): packets rejected.
//! - `fragments` (read): fragments made.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 3000, LIMIT 1, STOP true)
//!   -> IPEncap(udp, 10.0.0.1, 10.0.0.2)
//!   -> fragment :: IPFragmenter(1500)
//!   -> IPPrint -> Discard;
//! fragment [1] -> Discard;
//! ```
//!
//! ## See also
//! IPReassembler, ICMPError

use super::engine::header::{fill_checksum, header};
use crate::prelude::*;
use dpdk::DEFAULT_HEADROOM;
use wire::ipv4::{FLAG_DF, FLAG_MF, FRAGMENT_OFFSET_MASK, HEADER_LEN, MAX_HEADER_LEN};
use wire::{Ipv4, Options};

const FRAGMENTATION_NEEDED: DropReason = DropReason::new("fragmentation needed");

/// The `IPFragmenter` element.
pub struct IPFragmenter {
    mtu: usize,
    honor_df: bool,
    verbose: bool,
    headroom: usize,
    link_header: bool,
    drops: Counter,
    fragments: Counter,
}

/// Bit 7 of an option's type: it is copied into every fragment (RFC 791 §3.1).
const COPIED: u8 = 0x80;

impl Element for IPFragmenter {
    const CLASS: &'static str = "IPFragmenter";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS);
    const DROPS: &'static [DropCase] = &[
        FRAGMENTATION_NEEDED.when("the packet is longer than the MTU and must not be fragmented"),
        drops::BAD_IP_LENGTH.when(
            "also of a fragment that is to be cut and would end after byte 65,535 of its \
             datagram",
        ),
        drops::NO_WHOLE_IP_HEADER,
        drops::OUT_OF_MEMORY.when("fragments for which there was no buffer"),
    ];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/ipfragmenter");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mtu = args.mp::<u32>("MTU")? as usize;
        let honor_df = args.p("HONOR_DF")?.unwrap_or(true);
        let verbose = args.p("VERBOSE")?.unwrap_or(false);
        let headroom = args.k::<u16>("HEADROOM")?.map_or(DEFAULT_HEADROOM, usize::from);
        let link_header = args.k("LINK_HEADER")?.unwrap_or(false);
        if mtu < 8 {
            return Err(args.error("MTU must be at least 8"));
        }
        let (drops, fragments) = (Counter::new(), Counter::new());
        Ok(Self { mtu, honor_df, verbose, headroom, link_header, drops, fragments })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("drops", |e| &e.drops);
        h.counter("fragments", |e| &e.fragments);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.drops.set(old.drops.get());
        self.fragments.set(old.fragments.get());
    }
}

/// The header of the fragments after the first: the fixed part and the options to copy, padded to whole
/// words.
fn later_header(whole: &[u8]) -> Option<([u8; MAX_HEADER_LEN], usize)> {
    let mut bytes = [0; MAX_HEADER_LEN];
    let (fixed, options) = whole.split_at_checked(HEADER_LEN)?;
    bytes.first_chunk_mut::<HEADER_LEN>()?.copy_from_slice(fixed);
    let mut len = HEADER_LEN;
    for option in Options::new(options, HEADER_LEN).map_while(Result::ok).filter(|o| o.kind & COPIED != 0) {
        bytes.get_mut(len..len + option.bytes.len())?.copy_from_slice(option.bytes);
        len += option.bytes.len();
    }
    len = len.next_multiple_of(4);
    Ipv4::new_mut(&mut bytes)?.set_header_len(len);
    Some((bytes, len))
}

/// The most bytes of data that fit after a header: a multiple of eight.
fn room(mtu: usize, header_len: usize) -> usize {
    mtu.saturating_sub(header_len) & !7
}

/// Makes a fragment after the first, from its link header, if it gets one, its header (with the options) and
/// data; its offset in the datagram is set.
fn later_fragment(
    of: &Packet,
    [link, head, data]: [&[u8]; 3],
    headroom: usize,
    place: u16,
) -> Option<Packet> {
    let mut q = Packet::alloc(headroom, link.len() + head.len() + data.len())?;
    let (l, rest) = q.data_mut().split_at_mut_checked(link.len())?;
    let (h, d) = rest.split_at_mut_checked(head.len())?;
    l.copy_from_slice(link);
    h.copy_from_slice(head);
    d.copy_from_slice(data);
    let mut fixed = Ipv4::new_mut(h)?;
    fixed.set_total_len((head.len() + data.len()) as u16);
    fixed.set_flags_fragment(place);
    *q.anno_mut() = *of.anno();
    q.clear_headers();
    if !link.is_empty() {
        q.set_mac_header(0);
    }
    q.set_network_header(link.len(), head.len());
    fill_checksum(&mut q);
    Some(q)
}

impl IPFragmenter {
    fn reject(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        if (self.verbose || self.drops.get() < 5)
            && let Some(h) = header(&packet)
        {
            let (src, dst, len) = (h.src(), h.dst(), packet.len());
            cx.log(Level::WARN, &format!("IPFragmenter({}) DF {src} {dst} len={len}", self.mtu));
        }
        self.drops.add(1);
        cx.fail(packet, FRAGMENTATION_NEEDED);
    }

    fn fragment(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let Some(h) = header(&packet) else { return cx.drop(packet, drops::NO_IP_HEADER) };
        let available = packet.network_header().map_or(0, <[u8]>::len);
        let (header_len, total_len) = (h.header_len(), usize::from(h.total_len()).min(available));
        let (mut flags_offset, mut id) = (h.flags_fragment(), h.id());
        if header_len < HEADER_LEN || total_len < header_len || h.ends_too_late() {
            return cx.drop(packet, drops::BAD_IP_LENGTH);
        }
        if total_len <= self.mtu {
            // Only padding exceeded the MTU.
            packet.take(available - total_len);
            return cx.output(0, packet);
        }
        let (first_len, data_len) = (room(self.mtu, header_len), total_len - header_len);
        if (flags_offset & FLAG_DF != 0 && self.honor_df) || first_len < 8 {
            return self.reject(packet, cx);
        }
        if flags_offset & FLAG_DF != 0 {
            // A packet with Don't Fragment needs no identification.
            id = cx.random() as u16;
            flags_offset &= !FLAG_DF;
        }
        if let Some(mut h) = super::engine::header::header_mut(&mut packet) {
            h.set_id(id);
            h.set_flags_fragment(flags_offset);
        }

        let mut rest = cx.spare_batch();
        let whole = packet
            .network_header()
            .and_then(|b| b.get(..total_len))
            .and_then(|b| b.split_at_checked(header_len));
        if let Some((head, data)) = whole
            && let Some((later, later_len)) = later_header(head)
        {
            let step = room(self.mtu, later_len).max(8);
            let before = packet.network_header_offset().and_then(|at| usize::try_from(at).ok());
            let link =
                before.filter(|_| self.link_header).and_then(|n| packet.data().get(..n)).unwrap_or(&[]);
            let last_more = flags_offset & FLAG_MF;
            let mut at = first_len;
            while at < data_len {
                let end = (at + step).min(data_len);
                let more = if end < data_len { FLAG_MF } else { last_more };
                // The sum has 13 bits, because the packet ends early enough.
                let place = ((flags_offset & FRAGMENT_OFFSET_MASK) + (at / 8) as u16)
                    .min(FRAGMENT_OFFSET_MASK)
                    | flags_offset & !(FRAGMENT_OFFSET_MASK | FLAG_MF)
                    | more;
                let piece = later_fragment(
                    &packet,
                    [link, later.get(..later_len).unwrap_or(&[]), data.get(at..end).unwrap_or(&[])],
                    self.headroom,
                    place,
                );
                match piece {
                    Some(q) => rest.push(q),
                    None => cx.count_drops(1, drops::OUT_OF_MEMORY),
                }
                at = end;
            }
        }

        packet.take(available - header_len - first_len);
        if let Some(mut h) = super::engine::header::header_mut(&mut packet) {
            h.set_total_len((header_len + first_len) as u16);
            h.set_more_fragments(true);
        }
        fill_checksum(&mut packet);
        self.fragments.add(1 + rest.len() as u64);
        cx.output(0, packet);
        for q in rest.drain(..) {
            cx.output(0, q);
        }
        cx.recycle(rest);
    }
}

impl Step for IPFragmenter {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        packet.network_header().is_some_and(|h| h.len() <= self.mtu)
    }
}

impl Vector for IPFragmenter {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if batch.iter_mut().all(|p| self.step(p)) {
            return cx.output_batch(0, batch);
        }
        for mut packet in batch.drain(..) {
            if self.step(&mut packet) {
                cx.output(0, packet);
            } else {
                self.fragment(packet, cx);
            }
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;
    use wire::{Ipv4, ipv4};

    fn place(bytes: &[u8]) -> (usize, bool, usize) {
        let h = Ipv4::new(bytes).unwrap();
        (h.fragment_offset(), h.more_fragments(), usize::from(h.total_len()) - h.header_len())
    }

    #[test]
    fn cuts_and_leaves_nothing_out() {
        let payload: Vec<u8> = (0..100).collect();
        let mut bench = Bench::new("IPFragmenter(60)");
        let out = bench.push_packet(0, marked(&ip(17, &payload)));
        assert_eq!(
            out.iter().map(|o| place(&o.1)).collect::<Vec<_>>(),
            [(0, true, 40), (40, true, 40), (80, false, 20)]
        );
        assert!(out.iter().all(|o| o.0 == 0 && sound(&o.1)));
        assert_eq!(out.iter().flat_map(|o| o.1[20..].to_vec()).collect::<Vec<u8>>(), payload);
        assert_eq!(bench.read("fragments"), "3");
    }

    #[test]
    fn passes_what_fits_and_cuts_padding() {
        let mut bench = Bench::new("IPFragmenter(60)");
        let bytes = ip(17, &[1; 40]);
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes.clone())]);
        let padded = [&bytes[..], b"pad"].concat();
        assert_eq!(bench.push_packet(0, marked(&padded)), [(0, bytes)]);
        assert_eq!(bench.read("fragments"), "0");
    }

    #[test]
    fn honors_dont_fragment() {
        let bytes = ip_with(&[], &[0; 100], |h| h.set_dont_fragment(true));
        let mut bench = Bench::new("IPFragmenter(60)");
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(1, bytes.clone())]);
        assert_eq!(bench.read("drops"), "1");
        let mut bench = Bench::new("IPFragmenter(60, false)");
        let out = bench.push_packet(0, marked(&bytes));
        assert_eq!(out.len(), 3);
        assert!(out.iter().all(|o| !Ipv4::new(&o.1).unwrap().dont_fragment() && o.1[4..6] == out[0].1[4..6]));
    }

    #[test]
    fn fragments_fragments() {
        let mut bench = Bench::new("IPFragmenter(36)");
        let bytes = ip_with(&[], &[0; 32], |h| {
            h.set_fragment_offset(800);
            h.set_more_fragments(true);
        });
        let out = bench.push_packet(0, marked(&bytes));
        assert_eq!(out.iter().map(|o| place(&o.1)).collect::<Vec<_>>(), [(800, true, 16), (816, true, 16)]);
    }

    /// A late fragment that is fragmented again never gives fragments whose offsets begin at zero again.
    #[test]
    fn offsets_do_not_wrap() {
        let mut random = 5u32;
        let mut next = move |n: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % n
        };
        let mut cases = vec![(576, 64_984, 1132, true, 0)];
        cases.extend(
            (0..500).map(|_| {
                (28 + next(600), 8 * (7700 + next(492)), 1 + next(3000), next(2) == 0, 4 * next(11))
            }),
        );
        let mut refused = 0;
        for (mtu, offset, payload, more, options) in cases {
            let mut bench = Bench::new(&format!("IPFragmenter({mtu}, false)"));
            let data: Vec<u8> = (0..payload).map(|i| i as u8).collect();
            let bytes = ip_with(&vec![1; options], &data, |h| {
                h.set_fragment_offset(offset);
                h.set_more_fragments(more);
            });
            let fits = bytes.len() <= mtu;
            let out = bench.push_packet(0, marked(&bytes));
            if fits {
                continue;
            }
            for (port, piece) in &out {
                let (at, _, len) = place(piece);
                assert!(*port == 1 || at >= offset, "{mtu} {offset} {payload}: a fragment at {at}");
                assert!(*port == 1 || at + len <= 65_535, "{mtu} {offset} {payload}: to {}", at + len);
            }
            if offset + bytes.len() > 65_535 {
                refused += 1;
                assert_eq!((out.len(), bench.drops()), (0, vec![("bad IP length".to_owned(), 1)]));
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn copies_the_options_that_are_copied() {
        let mut bench = Bench::new("IPFragmenter(48)");
        let options = [1, 7, 3, 4, 0x94, 4, 9, 9, 0x82, 3, 5, 0];
        let out = bench.push_packet(0, marked(&ip_with(&options, &[0; 24], |_| ())));
        assert_eq!(out.iter().map(|o| place(&o.1)).collect::<Vec<_>>(), [(0, true, 16), (16, false, 8)]);
        assert_eq!(out[0].1[20..32], options);
        assert_eq!(out[1].1[20..28], [0x94, 4, 9, 9, 0x82, 3, 5, 0]);
        assert!(out.iter().all(|o| sound(&o.1)));
    }

    #[test]
    fn keeps_the_link_header_on_the_first() {
        let mut bench = Bench::new("IPFragmenter(28)");
        let mut bytes = b"link".to_vec();
        bytes.extend(ip(17, &[5; 16]));
        let mut packet = dpdk::Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(4, 20);
        packet.set_paint(3);
        let out = bench.send(0, packet);
        assert_eq!((out[0].1.len(), out[1].1.len()), (32, 28));
        assert!(
            out.iter().all(|o| o.1.paint() == 3 && ipv4::check(o.1.network_header().unwrap(), true).is_ok())
        );
    }

    #[test]
    fn puts_the_link_header_on_all_if_wanted() {
        let mut bench = Bench::new("IPFragmenter(28, LINK_HEADER true)");
        let mut packet =
            dpdk::Packet::from_bytes(&[b"some link head", &ip(17, &[5; 20])[..]].concat()).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        let out = bench.send(0, packet);
        assert_eq!(out.iter().map(|o| o.1.len()).collect::<Vec<_>>(), [42, 42, 38]);
        for (i, (_, p)) in out.iter().enumerate() {
            assert_eq!(
                (&p.data()[..14], p.mac_header().map(|m| m.len())),
                (&b"some link head"[..], Some(p.len()))
            );
            let network = p.network_header().unwrap();
            assert!(sound(network) && place(network).0 == 8 * i, "{i}");
        }
        // A packet that fits, with its link header or without, is not changed.
        let mut packet =
            dpdk::Packet::from_bytes(&[b"some link head", &ip(17, &[5; 8])[..]].concat()).unwrap();
        packet.set_network_header(14, 20);
        assert_eq!(bench.send(0, packet)[0].1.len(), 42);
    }

    #[test]
    fn rejects_what_it_cannot_do() {
        let mut bench = Bench::with_ports("IPFragmenter(27)", 1, 1);
        assert!(bench.push_packet(0, marked(&ip(17, &[0; 16]))).is_empty());
        assert!(bench.push(0, &[0; 40]).is_empty());
        let mut short = ip(17, &[0; 16]);
        short[3] = 19;
        assert!(bench.push_packet(0, marked(&short)).is_empty());
        let mut names: Vec<_> = bench.drops().into_iter().map(|d| d.0).collect();
        names.sort();
        assert_eq!(names, ["bad IP length", "fragmentation needed", "no IP header"]);
        assert!(Bench::error("IPFragmenter(7)").contains("MTU must be at least 8"));
    }
}
