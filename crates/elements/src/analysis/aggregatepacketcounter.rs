//! # AggregatePacketCounter
//! Counts packets for each aggregate, packet number and input, and lists those that did not come twice.
//!
//! Packets with the aggregate annotation 0 are not counted.
//!
//! ## Synopsis
//! `AggregatePacketCounter([ANNO, CAPACITY])`
//!
//! ## Arguments
//! - `ANNO` (*annotation of 4 bytes*, or `NONE`, keyword, default `PACKET_NUMBER`): where the packet number
//!   is; with `NONE` it is 0.
//! - `CAPACITY` (*int*, keyword, default 1048576): the most pairs of an aggregate and a packet number.
//!   Packets with others are not counted, which is said once. Click has no limit.
//!
//! ## Ports
//! Any number of inputs and as many outputs; agnostic. Packets leave by the output with the number of their
//! input.
//!
//! ## Handlers
//! - `count` (read): packets counted.
//! - `received` (read): with an aggregate as parameter, the numbers of its packets, a line each.
//! - `undelivered` (read): with an aggregate as parameter, the numbers of packets that came by input 0 more
//!   often than by input 1, a line each.
//! - `clear` (write): forgets all counts.
//!
//! ## Threads
//! All workers use the same counts, one after the other, a batch at a time.
//!
//! ## Example
//! ```click
//! c :: AggregatePacketCounter(ANNO NONE);
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIPFlows -> c -> r :: RandomSample(0.5) -> [1] c [1] -> Discard;
//! DriverManager(wait, read c.undelivered 1);
//! ```
//!
//! ## See also
//! AggregateCounter, AggregateIP, AggregateIPFlows

use crate::plumbing::engine::text;
use crate::prelude::*;
use dpdk::offset;
use lang::args::Anno;
use locks::IgnorePoison;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

/// Packets by input, for each aggregate and packet number.
#[derive(Default)]
struct Counts {
    of: BTreeMap<(u32, u32), Vec<u32>>,
    /// Packets that came, counted or not, and whether it was said that there is no more room.
    packets: u64,
    full: bool,
}

/// What the workers share.
#[derive(Default)]
struct Shared(Mutex<Counts>);

impl Shared {
    /// The numbers of the packets of an aggregate that are `wanted`, a line each.
    fn list(&self, aggregate: &str, wanted: fn(&[u32]) -> bool) -> Result<String, String> {
        let aggregate = match aggregate.trim() {
            "" => 0,
            number => text::value(number, "argument should be aggregate number")?,
        };
        let counts = self.0.lock().ignore_poison();
        let mut lines = String::new();
        for ((_, number), by_input) in counts.of.range((aggregate, 0)..=(aggregate, u32::MAX)) {
            if wanted(by_input) {
                let _ = writeln!(lines, "{number}");
            }
        }
        Ok(lines)
    }
}

/// The `AggregatePacketCounter` element.
pub struct AggregatePacketCounter {
    shared: Arc<Shared>,
    anno: Option<usize>,
    capacity: usize,
}

impl Element for AggregatePacketCounter {
    const CLASS: &'static str = "AggregatePacketCounter";
    const PORTS: &'static str = "1-/=";
    const FLOW: &'static str = "#/#";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::USER;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("analysis/aggregatepacketcounter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let anno = args.with("ANNO", false, false, |text, names| match text {
            "NONE" => Ok(None),
            _ => <Anno<4> as runtime::FromArg>::from_arg(text, names)
                .map(|a| Some(usize::from(a.0)))
                .map_err(|_| "bad ANNO".to_owned()),
        })?;
        let capacity = args.k_or("CAPACITY", 1u32 << 20)? as usize;
        let anno = anno.unwrap_or(Some(offset::PACKET_NUMBER));
        Ok(Self { shared: cx.shared(Shared::default), anno, capacity })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("count", |s, _| {
            let counts = s.0.lock().ignore_poison();
            Ok(counts.of.values().flatten().map(|n| u64::from(*n)).sum::<u64>().to_string())
        });
        h.shared_read_with::<Shared>("received", |s, aggregate| s.list(aggregate, |_| true));
        h.shared_read_with::<Shared>("undelivered", |s, aggregate| {
            s.list(aggregate, |by_input| by_input.first() > by_input.get(1).or(Some(&0)))
        });
        h.shared_write::<Shared>("clear", |s, _| {
            s.0.lock().ignore_poison().of.clear();
            Ok(())
        });
        h.listed(&["clear", "count", "received", "undelivered"]);
    }

    fn finish(&mut self, cx: &mut Cx<'_>) {
        let counts = self.shared.0.lock().ignore_poison();
        if counts.packets > 0 && counts.of.is_empty() && cx.worker().0 == 0 {
            let text = "warning: saw no packets with aggregate annotations";
            cx.log(Level::WARN, &format!("{} :: {}: {text}", cx.name(), cx.class()));
        }
    }
}

impl AggregatePacketCounter {
    fn count(&self, packets: &[Packet], port: usize, cx: &Cx<'_>) {
        let mut counts = self.shared.0.lock().ignore_poison();
        counts.packets += packets.len() as u64;
        for packet in packets.iter().filter(|packet| packet.aggregate() != 0) {
            let number = self.anno.and_then(|at| packet.load_user(at)).map_or(0, u32::from_ne_bytes);
            let (key, room) = ((packet.aggregate(), number), counts.of.len() < self.capacity);
            let by_input = match counts.of.get_mut(&key) {
                Some(by_input) => by_input,
                None if room => counts.of.entry(key).or_default(),
                None => {
                    if !std::mem::replace(&mut counts.full, true) {
                        cx.log(Level::WARN, &format!("{} :: {}: out of memory!", cx.name(), cx.class()));
                    }
                    continue;
                }
            };
            if by_input.len() <= port {
                by_input.resize(port + 1, 0);
            }
            by_input[port] = by_input[port].wrapping_add(1);
        }
    }
}

impl Vector for AggregatePacketCounter {
    fn push(&mut self, port: usize, batch: Batch, cx: &mut Cx<'_>) {
        self.count(&batch, port, cx);
        cx.output_batch(port, batch);
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull_lending(self, port, max, out);
        self.count(out.get(before..).unwrap_or_default(), port, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn send(bench: &mut Bench, port: usize, aggregate: u32, number: u32) {
        let mut packet = Packet::from_bytes(b"x").unwrap();
        packet.set_aggregate(aggregate);
        packet.store_user(offset::PACKET_NUMBER, number.to_ne_bytes());
        assert_eq!(bench.send(port, packet)[0].0, port);
    }

    #[test]
    fn lists_what_did_not_come_again() {
        let mut bench = Bench::with_ports("AggregatePacketCounter()", 2, 2);
        for (port, aggregate, number) in
            [(0, 7, 3), (0, 7, 1), (1, 7, 3), (0, 7, 9), (0, 8, 5), (0, 7, 3), (1, 7, 11), (0, 0, 4)]
        {
            send(&mut bench, port, aggregate, number);
        }
        assert_eq!(
            (bench.read("received 7"), bench.read("undelivered 7")),
            ("1\n3\n9\n11\n".into(), "1\n3\n9\n".into())
        );
        assert_eq!((bench.read("received 1"), bench.read("count")), (String::new(), "7".into()));
        assert!(bench.try_read("received x").is_err());
        bench.write("clear", "");
        assert_eq!(bench.read("count"), "0");
    }

    #[test]
    fn the_number_of_counts_is_limited() {
        let mut bench = Bench::with_ports("AggregatePacketCounter(CAPACITY 2, ANNO 36)", 1, 1);
        let lines = bench.listen();
        for aggregate in [1, 2, 3, 4, 1] {
            send(&mut bench, 0, aggregate, 5);
        }
        assert_eq!((bench.read("count"), bench.read("received 1")), ("3".into(), "0\n".into()));
        assert_eq!(*lines.lock().ignore_poison(), ["e :: AggregatePacketCounter: out of memory!"]);
        assert!(Bench::error("AggregatePacketCounter(ANNO 46)").contains("bad ANNO"));
    }
}
