//! # AggregateIPAddrPair
//! Sets the aggregate annotation to the number of the packet's pair of IP addresses.
//!
//! Pairs are numbered from 1 in the order in which they come. Packets in both directions have the same
//! number; the paint annotation is 0 for those in the direction of a pair's first packet and 1 for the
//! others.
//!
//! ## Synopsis
//! `AggregateIPAddrPair([TIMEOUT, REAP, CAPACITY])`
//!
//! ## Arguments
//! All by keyword.
//! - `TIMEOUT` (*time*, default none): when no packet of a pair came for so long, by packets' timestamps, the
//!   next one gets a new number.
//! - `REAP` (*time*, default 20 min): how often such pairs are removed.
//! - `CAPACITY` (*int*, default 1048576): the most pairs. When there is one more, the one that had no packet
//!   for the longest time is forgotten. Click has no limit.
//!
//! ## Ports
//! One agnostic input. Packets leave by output 0, agnostic; packets without a marked IP header by output 1,
//! push, if it is connected.
//!
//! ## Handlers
//! - `clear` (write): forgets all pairs.
//!
//! ## Threads
//! One instance, on one worker, to which the others hand their packets: numbers follow the order of packets.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIPAddrPair -> AggregateCounter -> Discard;
//! ```
//!
//! ## See also
//! AggregateIPFlows, AggregateCounter, AggregateIP

use super::engine::notifier::Notifier;
use crate::ip::engine::header::header;
use crate::prelude::*;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tables::{Displaced, ExactMap};

const SECOND: u64 = 1_000_000_000;

/// What is known of a pair.
#[derive(Clone, Copy)]
struct Pair {
    aggregate: u32,
    /// Whether its first packet went from the higher address to the lower.
    reverse: bool,
    /// When the last packet came, in seconds; 0 without `TIMEOUT`.
    last: u64,
}

/// The `AggregateIPAddrPair` element.
pub struct AggregateIpAddrPair {
    pairs: ExactMap<(Ipv4Addr, Ipv4Addr), Pair>,
    next: u32,
    /// How many packets have come: the order in which pairs were used.
    clock: u64,
    timeout: u64,
    reap: u64,
    reap_at: u64,
    notifier: Arc<Notifier>,
    warned: bool,
    ended: Vec<u32>,
}

impl Element for AggregateIpAddrPair {
    const CLASS: &'static str = "AggregateIPAddrPair";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER).with(Fields::TIMESTAMP);
    const WRITES: Fields = Fields::AGGREGATE.with(Fields::PAINT).with(Fields::TIMESTAMP);
    const SETS: Fields = Fields::AGGREGATE.with(Fields::PAINT);
    const DROPS: &'static [DropCase] =
        &[drops::NO_IP_HEADER.when("none is marked, or it is not whole, and output 1 is not connected")];
    const MANUAL: &'static str = manual!("analysis/aggregateipaddrpair");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let timeout = args.k::<Duration>("TIMEOUT")?.map_or(0, |time| time.as_secs());
        let reap = args.k_or("REAP", Duration::from_secs(20 * 60))?.as_secs();
        let capacity = args.k_or("CAPACITY", 1u32 << 20)?.max(1) as usize;
        Ok(Self {
            pairs: ExactMap::new(capacity),
            next: 1,
            clock: 0,
            timeout,
            reap,
            reap_at: 0,
            notifier: cx.shared(Notifier::default),
            warned: false,
            ended: Vec::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.write("clear", |e, _, cx| {
            while let Some((_, pair)) = e.pairs.pop_oldest() {
                e.ended.push(pair.aggregate);
            }
            e.notifier.tell(&mut e.ended, cx);
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        (self.next, self.clock, self.reap_at) = (old.next, old.clock, old.reap_at);
        while let Some((addresses, pair)) = old.pairs.pop_oldest() {
            self.pairs.insert(addresses, pair, 0);
        }
    }
}

impl AggregateIpAddrPair {
    /// The time of a packet, in seconds; 0 without `TIMEOUT`.
    fn second(&mut self, packet: &mut Packet, cx: &Cx<'_>) -> u64 {
        if self.timeout == 0 {
            return 0;
        }
        if packet.timestamp_ns() == 0 {
            if !std::mem::replace(&mut self.warned, true) {
                let text = format!("{}: warning: packet received without timestamp", cx.name());
                cx.log(Level::WARN, &text);
            }
            packet.set_timestamp_ns(cx.now_ns());
        }
        packet.timestamp_ns() / SECOND
    }

    /// Removes pairs whose time is over.
    fn reap(&mut self, now: u64) {
        let timeout = self.timeout;
        let old: Vec<_> =
            self.pairs.iter().filter(|(_, pair, _)| pair.last + timeout < now).map(|(k, ..)| *k).collect();
        let removed = old.iter().filter_map(|addresses| self.pairs.remove(addresses));
        self.ended.extend(removed.map(|pair| pair.aggregate));
    }
}

impl Simple for AggregateIpAddrPair {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some((src, dst)) = header(&packet).map(|ip| (ip.src(), ip.dst())) else {
            cx.fail(packet, drops::NO_IP_HEADER);
            return None;
        };
        let (now, flipped) = (self.second(&mut packet, cx), src > dst);
        let addresses = if flipped { (dst, src) } else { (src, dst) };
        self.clock += 1;
        let timeout = self.timeout;
        let known = self.pairs.touch(&addresses, self.clock);
        let pair = match known {
            Some(pair) if pair.last + timeout >= now => {
                pair.last = now;
                *pair
            }
            known => {
                self.ended.extend(known.map(|pair| pair.aggregate));
                let pair = Pair { aggregate: self.next, reverse: flipped, last: now };
                self.next = self.next.wrapping_add(1).max(1);
                if let Displaced::Evicted(_, oldest) = self.pairs.insert(addresses, pair, self.clock) {
                    self.ended.push(oldest.aggregate);
                }
                pair
            }
        };
        if timeout > 0 && now > self.reap_at {
            if self.reap_at > 0 {
                self.reap(now);
            }
            self.reap_at = now + self.reap;
        }
        if !self.ended.is_empty() {
            self.notifier.tell(&mut self.ended, cx);
        }
        packet.set_aggregate(pair.aggregate);
        packet.set_paint(u8::from(flipped != pair.reverse));
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use wire::Ipv4;

    fn send(bench: &mut Bench, src: u8, dst: u8, second: u64) -> (u32, u8) {
        let mut bytes = ip(17, b"");
        let mut header = Ipv4::new_mut(&mut bytes).unwrap();
        header.set_src(Ipv4Addr::new(10, 0, 0, src));
        header.set_dst(Ipv4Addr::new(10, 0, 0, dst));
        let mut packet = marked(&bytes);
        packet.set_timestamp_ns(second * SECOND);
        let out = bench.send(0, packet);
        (out[0].1.aggregate(), out[0].1.paint())
    }

    #[test]
    fn numbers_pairs() {
        let mut bench = Bench::with_ports("AggregateIPAddrPair()", 1, 2);
        assert_eq!((send(&mut bench, 2, 1, 1), send(&mut bench, 1, 2, 90_000)), ((1, 0), (1, 1)));
        assert_eq!((send(&mut bench, 1, 3, 1), send(&mut bench, 2, 1, 1)), ((2, 0), (1, 0)));
        bench.write("clear", "");
        assert_eq!(send(&mut bench, 1, 2, 1), (3, 0));
        assert_eq!(bench.push(0, b"x"), [(1, b"x".to_vec())]);
    }

    #[test]
    fn pairs_time_out() {
        let mut bench = Bench::with_ports("AggregateIPAddrPair(TIMEOUT 10, REAP 100)", 1, 1);
        assert_eq!((send(&mut bench, 1, 2, 100), send(&mut bench, 2, 1, 110)), ((1, 0), (1, 1)));
        assert_eq!(send(&mut bench, 2, 1, 121), (2, 0));
        assert_eq!(send(&mut bench, 3, 1, 300), (3, 0));
        assert_eq!(send(&mut bench, 2, 1, 300), (4, 0));
    }

    #[test]
    fn the_number_of_pairs_is_limited() {
        let mut bench = Bench::with_ports("AggregateIPAddrPair(CAPACITY 2)", 1, 1);
        for (dst, number) in [(2, 1), (3, 2), (2, 1), (4, 3), (2, 1), (3, 4)] {
            assert_eq!(send(&mut bench, 1, dst, 1), (number, 0));
        }
    }
}
