//! # IPReassembler
//! Puts fragmented IP packets together again.
//!
//! ## Synopsis
//! `IPReassembler([HIMEM, MAX_MTU_ANNO])`
//!
//! ## Arguments
//! - `HIMEM` (*int*, bytes, keyword, default 262144): how much waiting fragments may occupy. Above that the
//!   oldest datagrams are given up until three quarters are left.
//! - `MAX_MTU_ANNO` (*annotation of 2 bytes*, keyword): where to put the length of the longest fragment of a
//!   packet, in host order.
//!
//! ## Ports
//! One input, one or two outputs. Packets that are not fragments pass at once. A datagram leaves by output 0
//! when its last missing fragment arrives, with what came before the IP header and the annotations of its
//! first fragment and the timestamp of the fragment that came last. A datagram that is still incomplete 30
//! seconds after its first fragment came, or is given up for memory, goes to output 1 (push) if that is
//! connected, as one packet with the fragments in their places and zeros between them (for
//! `ICMPError(..., timeexceeded, reassembly)`); otherwise it is dropped. The IP header must have been marked,
//! by CheckIPHeader.
//!
//! Fragments that repeat bytes exactly are ignored. A fragment that overlaps others in any other way, or
//! contradicts the datagram's length, spoils the whole datagram: no part of it comes out, now or later (RFC
//! 5722, RFC 1858), because a firewall before this element and a host behind it could read it differently.
//!
//! ## Handlers
//! - `dump` (read): counts, and the datagrams that wait with the parts that are there.
//!
//! ## Threads
//! All workers share the waiting fragments, since a datagram's fragments may arrive on several of them.
//! Packets that are not fragments never wait for anybody.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 3000, LIMIT 1, STOP true)
//!   -> IPEncap(udp, 10.0.0.1, 10.0.0.2)
//!   -> IPFragmenter(1500)
//!   -> CheckIPHeader
//!   -> whole :: IPReassembler
//!   -> IPPrint -> Discard;
//! whole [1] -> Discard;
//! ```
//!
//! ## See also
//! IPFragmenter, ICMPError, CheckIPHeader

use super::engine::header::header;
use super::engine::reassembly::{Datagram, Key, OVERHEAD, Outcome, Piece, SHARDS, Shared, lock};
use crate::prelude::*;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wire::ipv4::FRAGMENT_OFFSET_MASK;

const BAD_FRAGMENT: DropReason = DropReason::new("bad fragment");
const OVERLAPPING_FRAGMENTS: DropReason = DropReason::new("overlapping fragments");
const DUPLICATE_FRAGMENT: DropReason = DropReason::new("duplicate fragment");
const REASSEMBLY_TIMEOUT: DropReason = DropReason::new("reassembly timeout");
const REASSEMBLY_MEMORY: DropReason = DropReason::new("reassembly memory");

const TIMEOUT_NS: u64 = 30_000_000_000;
/// The `IPReassembler` element.
pub struct IPReassembler {
    shared: Arc<Shared>,
    high: usize,
    mtu_anno: Option<usize>,
}

impl Element for IPReassembler {
    const CLASS: &'static str = "IPReassembler";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::TIMESTAMP);
    const DROPS: &'static [DropCase] = &[
        BAD_FRAGMENT
            .when("its length is no multiple of eight, or it would end after byte 65,535, the last that a datagram can have"),
        OVERLAPPING_FRAGMENTS.when(
            "it overlaps another fragment, and so its datagram is given up; all later fragments of that too",
        ),
        DUPLICATE_FRAGMENT.when("the same fragment has arrived before"),
        REASSEMBLY_TIMEOUT.when("the other fragments of the datagram did not come in time"),
        REASSEMBLY_MEMORY.when(
            "given up because fragments that wait took too much memory, or because a virtual router may have no more datagrams",
        ),
        drops::PACKET_TOO_LONG.when("the whole is longer than 65535 bytes"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the whole packet"),
        drops::NO_WHOLE_IP_HEADER,
    ];
    const MANUAL: &'static str = manual!("ip/ipreassembler");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let high = args.k::<u32>("HIMEM")?.unwrap_or(256 * 1024) as usize;
        let mtu_anno = args.k::<lang::args::Anno<2>>("MAX_MTU_ANNO")?.map(|a| a.0.into());
        let budget = Arc::clone(&cx.hub().bounds().flows);
        Ok(Self { shared: cx.shared(|| Shared::new(&budget)), high, mtu_anno })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("dump", |s, _| Ok(s.dump()));
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.arm(cx);
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        let before = (cx.now_ns() + 1).saturating_sub(TIMEOUT_NS);
        for i in 0..SHARDS {
            while let Some(old) = self.shared.shards.get(i).and_then(|s| lock(s).oldest(before)) {
                self.give_up(old, REASSEMBLY_TIMEOUT, cx);
            }
        }
        self.arm(cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        if !Arc::ptr_eq(&self.shared, &old.shared) {
            self.shared.adopt(&old.shared);
        }
        self.arm(cx);
    }
}

impl IPReassembler {
    /// Sets the timer for the oldest datagram.
    fn arm(&self, cx: &mut Cx<'_>) {
        if let Some(since) = self.shared.shards.iter().filter_map(|s| lock(s).since()).min() {
            cx.timer_at(0, since + TIMEOUT_NS);
        }
    }

    fn give_up(&self, datagram: Datagram, reason: DropReason, cx: &mut Cx<'_>) {
        self.shared.held.give(1);
        self.shared.used.fetch_sub(datagram.charged, Relaxed);
        if datagram.spoilt {
            return; // its packets have been counted
        }
        match datagram.packet(self.mtu_anno) {
            Ok(packet) => cx.fail(packet, reason),
            Err(reason) => cx.count_drops(1, reason),
        }
    }

    /// Removes the oldest datagrams until the memory limit is met.
    fn make_room(&self, cx: &mut Cx<'_>) {
        if self.shared.used.load(Relaxed) <= self.high {
            return;
        }
        let low = self.high / 4 * 3;
        while self.shared.used.load(Relaxed) > low && self.give_up_oldest(cx) {}
    }

    /// Removes the oldest datagram; returns whether there was one.
    fn give_up_oldest(&self, cx: &mut Cx<'_>) -> bool {
        loop {
            let oldest =
                self.shared.shards.iter().filter_map(|s| Some((lock(s).since()?, s))).min_by_key(|(t, _)| *t);
            let Some((_, shard)) = oldest else { return false };
            // Another worker may have been quicker.
            let Some(datagram) = lock(shard).oldest(u64::MAX) else { continue };
            self.give_up(datagram, REASSEMBLY_MEMORY, cx);
            return true;
        }
    }

    /// Whether there may be one datagram more: if not, the oldest makes room.
    fn one_more(&self, cx: &mut Cx<'_>) -> bool {
        let Err(over) = self.shared.held.take() else { return true };
        if over.tell {
            let message = format!("{}: too many datagrams: the limit flows is {}", cx.name(), over.most);
            cx.log(Level::WARN, &message);
        }
        self.give_up_oldest(cx) && self.shared.held.take().is_ok()
    }

    /// Stores a fragment; returns the datagram if it is complete.
    fn fragment(&self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        self.make_room(cx);
        let Some(h) = header(&packet) else {
            cx.drop(packet, drops::NO_IP_HEADER);
            return None;
        };
        let key = Key { src: h.src(), dst: h.dst(), id: h.id(), protocol: h.protocol() };
        let (header_len, total_len) = (h.header_len(), usize::from(h.total_len()));
        let start = usize::from(h.flags_fragment() & FRAGMENT_OFFSET_MASK) * 8;
        let last = !h.more_fragments();
        let data = packet.network_header().and_then(|n| n.get(header_len..total_len)).unwrap_or(&[]);
        let mut shard = self.shared.shard(&key);
        shard.seen += 1;
        if data.is_empty() || h.ends_too_late() || (!last && !data.len().is_multiple_of(8)) {
            shard.bad += 1;
            drop(shard);
            cx.drop(packet, BAD_FRAGMENT);
            return None;
        }
        let now = cx.now_ns();
        let new = !shard.waiting.contains_key(&key);
        if new {
            drop(shard);
            if !self.one_more(cx) {
                cx.drop(packet, REASSEMBLY_MEMORY);
                return None;
            }
            shard = self.shared.shard(&key);
            if shard.waiting.contains_key(&key) {
                // Another worker has begun it meanwhile.
                self.shared.held.give(1);
            }
        }
        let shard = &mut *shard;
        let datagram = match shard.waiting.entry(key) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => {
                shard.serial += 1;
                shard.times.push_back((now, shard.serial, key));
                self.shared.used.fetch_add(OVERHEAD, Relaxed);
                place.insert(Datagram::new(now, shard.serial))
            }
        };
        let before = datagram.charged;
        let mut refused = None;
        match datagram.add(&Piece { start, data, last }) {
            Outcome::Duplicate => refused = Some(DUPLICATE_FRAGMENT),
            Outcome::Spoils => {
                cx.count_drops(datagram.parts.len() as u64, OVERLAPPING_FRAGMENTS);
                datagram.spoil();
                shard.bad += 1;
                refused = Some(OVERLAPPING_FRAGMENTS);
            }
            outcome => {
                datagram.longest = datagram.longest.max(total_len as u16);
                datagram.timestamp_ns = match packet.timestamp_ns() {
                    0 => now,
                    stamp => stamp,
                };
                if start == 0 || datagram.head.is_empty() {
                    datagram.keep_head(&packet, start == 0, header_len);
                }
                if matches!(outcome, Outcome::Complete) {
                    let whole = datagram.packet(self.mtu_anno);
                    self.shared.used.fetch_sub(before, Relaxed);
                    shard.waiting.remove(&key);
                    self.shared.held.give(1);
                    shard.good += u64::from(whole.is_ok());
                    shard.tidy();
                    return whole.map_err(|reason| cx.drop(packet, reason)).ok();
                }
            }
        }
        // The change of this datagram's size: adding first prevents the sum from wrapping.
        self.shared.used.fetch_add(datagram.charged, Relaxed);
        self.shared.used.fetch_sub(before, Relaxed);
        if cx.timer_expiry(0).is_none() {
            cx.timer_at(0, datagram.since_ns + TIMEOUT_NS);
        }
        if let Some(reason) = refused {
            cx.drop(packet, reason);
        }
        None
    }
}

impl Simple for IPReassembler {
    #[inline]
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match header(&packet) {
            Some(h) if !h.is_fragment() => Some(packet),
            Some(_) => self.fragment(packet, cx),
            None => {
                cx.drop(packet, drops::NO_IP_HEADER);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, ip_with, marked, sound};
    use crate::testing::Bench;

    fn piece(id: u16, start: usize, more: bool, data: &[u8]) -> Vec<u8> {
        ip_with(&[], data, |h| {
            h.set_id(id);
            h.set_fragment_offset(start);
            h.set_more_fragments(more);
        })
    }

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|i| i as u8).collect()
    }

    /// A bench in simulated time.
    fn bench(declaration: &str, outputs: usize) -> Bench {
        Bench::simulated(&format!("e :: {declaration};"), 1, outputs)
    }

    fn push(bench: &mut Bench, packet: &[u8]) -> Vec<(usize, Vec<u8>)> {
        bench.push_packet(0, marked(packet))
    }

    #[test]
    fn whole_packets_pass() {
        let mut bench = bench("IPReassembler()", 1);
        let whole = ip(17, b"abc");
        assert_eq!(push(&mut bench, &whole), [(0, whole)]);
        assert!(bench.push(0, b"?").is_empty());
    }

    #[test]
    fn fragments_in_any_order_become_whole() {
        let data = bytes(40);
        let pieces = [
            piece(5, 0, true, &data[..16]),
            piece(5, 16, true, &data[16..32]),
            piece(5, 32, false, &data[32..]),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut bench = bench("IPReassembler()", 1);
            assert!(push(&mut bench, &pieces[order[0]]).is_empty());
            assert!(push(&mut bench, &pieces[order[1]]).is_empty());
            let out = push(&mut bench, &pieces[order[2]]);
            assert_eq!(out, [(0, ip_with(&[], &data, |h| h.set_id(5)))], "{order:?}");
            assert!(sound(&out[0].1));
            assert!(bench.read("dump").contains("good reassemblies:   1\n"));
        }
    }

    #[test]
    fn datagrams_do_not_mix() {
        let mut bench = bench("IPReassembler()", 1);
        assert!(push(&mut bench, &piece(1, 0, true, &bytes(8))).is_empty());
        assert!(push(&mut bench, &piece(2, 8, false, &bytes(8))).is_empty());
        assert_eq!(push(&mut bench, &piece(1, 8, false, &bytes(4))).len(), 1);
        assert!(bench.read("dump").ends_with("cached chunk data:\n (10.0.0.1, 0, 10.0.0.2, 0) 2 (8,16)\n"));
    }

    #[test]
    fn the_first_fragment_gives_header_and_annotations() {
        let mut bench = bench("IPReassembler(MAX_MTU_ANNO 40)", 1);
        assert!(push(&mut bench, &piece(1, 8, false, &bytes(4))).is_empty());
        let first = ip_with(&[1, 1, 1, 0], &bytes(8), |h| {
            h.set_id(1);
            h.set_more_fragments(true);
        });
        let mut packet = dpdk::Packet::from_bytes(&[b"link", &first[..]].concat()).unwrap();
        packet.set_network_header(4, 24);
        packet.set_paint(9);
        let out = bench.send(0, packet).remove(0).1;
        assert_eq!(&out.data()[..4], b"link");
        assert_eq!(&out.data()[24..28], [1, 1, 1, 0]);
        assert_eq!((out.paint(), out.network_header_offset(), out.len()), (9, Some(4), 40));
        assert_eq!(out.anno().u16(40), Some(32));
        assert!(sound(out.network_header().unwrap()));
    }

    #[test]
    fn exact_duplicates_are_harmless() {
        let mut bench = bench("IPReassembler()", 1);
        let data = bytes(32);
        for _ in 0..2 {
            assert!(push(&mut bench, &piece(1, 0, true, &data[..8])).is_empty());
            assert!(push(&mut bench, &piece(1, 8, true, &data[8..24])).is_empty());
        }
        assert!(push(&mut bench, &piece(1, 0, true, &data[..16])).is_empty());
        assert_eq!(push(&mut bench, &piece(1, 24, false, &data[24..])).len(), 1);
        assert_eq!(bench.drops(), [("duplicate fragment".to_owned(), 3)]);
    }

    #[test]
    fn overlaps_spoil_the_datagram() {
        let data = bytes(64);
        let evil = [
            piece(1, 8, true, &[0xff; 8]),      // other bytes for a place that is taken
            piece(1, 8, true, &data[8..32]),    // half new, half old
            piece(1, 16, false, &data[16..20]), // an end before what is there
        ];
        for bad in &evil {
            let mut bench = bench("IPReassembler()", 2);
            assert!(push(&mut bench, &piece(1, 0, true, &data[..24])).is_empty());
            assert!(push(&mut bench, bad).is_empty());
            assert!(push(&mut bench, &piece(1, 24, false, &data[24..])).is_empty());
            assert!(push(&mut bench, &piece(1, 0, true, &data[..24])).is_empty());
            assert_eq!(bench.drops(), [("overlapping fragments".to_owned(), 4)]);
        }
        let mut bench = bench("IPReassembler()", 2);
        assert!(push(&mut bench, &piece(1, 32, false, &data[32..40])).is_empty());
        assert!(push(&mut bench, &piece(1, 40, true, &data[40..48])).is_empty(), "beyond the end");
        assert!(push(&mut bench, &piece(1, 0, true, &data[..32])).is_empty());
    }

    #[test]
    fn impossible_fragments_are_dropped() {
        let mut bench = bench("IPReassembler()", 1);
        let mut short = piece(1, 0, true, &bytes(16));
        short.truncate(30);
        for bad in [
            piece(1, 0, true, &bytes(12)),
            piece(1, 8, false, b""),
            piece(1, 65528, false, &bytes(16)),
            short,
        ] {
            assert!(push(&mut bench, &bad).is_empty());
        }
        assert_eq!(bench.drops(), [("bad fragment".to_owned(), 4)]);
        // 65528 bytes of data and a header are more than a packet can have; so are 65512 and a header with
        // options.
        assert!(push(&mut bench, &piece(2, 65520, false, &bytes(8))).is_empty());
        assert_eq!(bench.drops(), [("bad fragment".to_owned(), 5)]);
        assert!(!bench.read("dump").contains("65520"), "it waits for nothing");
        assert!(push(&mut bench, &piece(2, 65504, false, &bytes(8))).is_empty());
        for at in (0..65504).step_by(65504 / 4) {
            let piece = ip_with(&[1; 4], &bytes(65504 / 4), |h| {
                h.set_id(2);
                h.set_fragment_offset(at);
                h.set_more_fragments(true);
            });
            assert!(push(&mut bench, &piece).is_empty());
        }
        assert!(bench.drops().contains(&("packet too long".to_owned(), 1)), "{:?}", bench.drops());
    }

    #[test]
    fn time_runs_out() {
        let mut bench = bench("IPReassembler()", 2);
        assert!(push(&mut bench, &piece(1, 0, true, &bytes(8))).is_empty());
        assert!(push(&mut bench, &piece(1, 16, true, &bytes(8))).is_empty());
        let mut out = Vec::new();
        for _ in 0..2000 {
            out.extend(bench.turns(1));
        }
        assert_eq!(out.len(), 1, "{}", bench.read("dump"));
        let data = [&bytes(8)[..], &[0; 8], &bytes(8)].concat();
        let whole = ip_with(&[], &data, |h| {
            h.set_id(1);
            h.set_more_fragments(true);
        });
        assert_eq!(out, [(1, whole)]);
        assert!(bench.read("dump").contains("failed reassemblies: 1\n"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut bench = bench("IPReassembler(HIMEM 10000)", 1);
        for id in 0..2000 {
            assert!(push(&mut bench, &piece(id, 8, true, &bytes(800))).is_empty());
            let waiting = bench.read("dump").lines().count() - 5;
            assert!(waiting * 880 <= 10_000 + 880, "{waiting}");
        }
        let dropped = bench.drops();
        assert!(dropped[0].0 == "reassembly memory" && dropped[0].1 > 1900, "{dropped:?}");
        // Many small fragments of one datagram count, too.
        let mut bench = self::bench("IPReassembler(HIMEM 10000)", 1);
        for i in 0..4000 {
            push(&mut bench, &piece(1, i * 16, true, &bytes(8)));
        }
        assert!(bench.drops()[0].1 > 10);
    }

    #[test]
    fn a_swap_keeps_what_waits() {
        for declaration in ["IPReassembler()", "IPReassembler(HIMEM 100000)"] {
            let mut bench = bench("IPReassembler()", 1);
            push(&mut bench, &piece(1, 0, true, &bytes(8)));
            let text = format!("e :: {declaration}; InfiniteSource(ACTIVE false) -> e -> Discard;");
            bench.router().hotswap(lang::Source::new("next", text)).map_err(|d| format!("{d:?}")).unwrap();
            assert!(
                bench.read("dump").contains(" (10.0.0.1, 1, 10.0.0.2, 515) 1 (0,8)\n"),
                "{}",
                bench.read("dump")
            );
        }
    }

    #[test]
    fn undoes_what_the_fragmenter_did() {
        let mut random = 1u32;
        let mut next = move |n: usize| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) as usize % n
        };
        let mut whole = bench("IPReassembler()", 1);
        for round in 0..200 {
            let mut cut = Bench::new(&format!("IPFragmenter({})", 28 + next(400)));
            let packet = ip_with(&[], &bytes(200 + next(3000)), |h| h.set_id(round));
            let mut pieces: Vec<_> = push(&mut cut, &packet).into_iter().map(|o| o.1).collect();
            for i in (1..pieces.len()).rev() {
                pieces.swap(i, next(i + 1));
            }
            let last = pieces.pop().unwrap();
            assert!(pieces.iter().all(|p| push(&mut whole, p).is_empty()));
            assert_eq!(push(&mut whole, &last), [(0, packet)]);
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut bench = bench("IPReassembler(HIMEM 3000)", 2);
        let mut x = 7u32;
        let mut random = move || {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x >> 8
        };
        for _ in 0..20_000 {
            let size = random() as usize % 64;
            let mut p =
                piece((random() % 3) as u16, (random() as usize % 16) * 8, random() % 2 == 0, &bytes(size));
            if random() % 8 == 0 {
                let at = random() as usize % p.len();
                p[at] = random() as u8;
            }
            for (port, out) in push(&mut bench, &p) {
                assert!(port < 2 && (out.len() >= 20));
            }
        }
    }

    #[test]
    fn no_more_datagrams_wait_than_the_router_may_have() {
        let limits = runtime::Limits { flows: Some(2), ..runtime::Limits::default() };
        let options = runtime::Options { limits, ..runtime::Options::default() };
        let mut b = Bench::with_ports_and_options("IPReassembler", 1, 2, options);
        let refused = |b: &mut Bench| b.router().hub().bounds().refused();
        for id in 1..=2 {
            assert!(push(&mut b, &piece(id, 0, true, &bytes(8))).is_empty());
        }
        assert_eq!(refused(&mut b), [("flows", 0)]);
        // The oldest makes room.
        let given_up = push(&mut b, &piece(3, 0, true, &bytes(8)));
        assert_eq!((given_up.len(), given_up[0].0), (1, 1));
        assert_eq!(push(&mut b, &piece(3, 8, false, &bytes(4))).len(), 1, "the third is whole");
        assert_eq!(push(&mut b, &piece(2, 8, false, &bytes(4))).len(), 1, "the second too");
        assert_eq!(refused(&mut b), [("flows", 1)]);
        for id in 4..=5 {
            assert!(push(&mut b, &piece(id, 0, true, &bytes(8))).is_empty());
        }
        assert_eq!(refused(&mut b), [("flows", 1)], "those that are whole count no more");
    }
}
