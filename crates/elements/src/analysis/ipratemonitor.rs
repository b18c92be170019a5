//! # IPRateMonitor
//! Measures the packet or byte rates to and from IP addresses.
//!
//! There are rates for each first byte of an address. Where one exceeds a threshold, there are also rates for
//! the next byte, and so on up to whole addresses; they are removed when the rate is low again. Rates are
//! moving averages: the last 8 milliseconds have a weight of 1/32.
//!
//! ## Synopsis
//! `IPRateMonitor(TYPE, RATIO, THRESH [, MEMORY, ANNO])`
//!
//! ## Arguments
//! - `TYPE` (`PACKETS` or `BYTES`): what is counted; bytes by the IP header's length.
//! - `RATIO` (*real*, 0 to 1): the part of packets that is counted, chosen at random.
//! - `THRESH` (*int*, packets or bytes a second): the threshold, as if all packets were counted.
//! - `MEMORY` (*int*, kilobytes, default 0): the most memory, at least 100; 0 is 65,536, where Click has no
//!   limit.
//! - `ANNO` (*bool*, default true): whether packets get the rates of their address, the longest part of it
//!   that has rates, in the forward rate and reverse rate annotations (4 bytes at offsets 20 and 24).
//!
//! ## Ports
//! One or two inputs, one or two outputs; agnostic. Packets of input 0 count for the forward rate of their
//! source, those of input 1 for the reverse rate of their destination; they leave by the output of the same
//! number. Packets without a marked IP header only pass.
//!
//! ## Handlers
//! - `look` (read): the time since the last reset in units of 8 milliseconds; then a line for each part of an
//!   address that has a rate, with its forward and its reverse rate, a tab before each. Lines of longer parts
//!   are below those of shorter ones, with a tab at the beginning for each byte more.
//! - `thresh` (read): the threshold, multiplied by `RATIO`.
//! - `mem` (read): the memory that is used, in bytes, as Click would count it.
//! - `memmax` (read/write): `MEMORY`; it reads as bytes and is written in kilobytes.
//! - `anno_level` (write): `ADDRESS LEVEL SECONDS`: for so many seconds, there are no rates for more bytes
//!   of this address than `LEVEL` (0 to 3) plus one.
//! - `reset` (write): forgets all rates.
//!
//! ## Threads
//! All workers use the same rates, one after the other, a batch at a time.
//!
//! ## Example
//! ```click
//! RatedSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, RATE 1000, LIMIT 1000, STOP true)
//!   -> MarkIPHeader -> m :: IPRateMonitor(PACKETS, 1, 256) -> Discard;
//! DriverManager(wait, print m.look);
//! ```
//!
//! ## See also
//! Block, AggregateIP, AggregateCounter

use super::engine::rates::{RateTree, Settings, epoch};
use crate::ip::engine::header::header;
use crate::plumbing::engine::text;
use crate::prelude::*;
use dpdk::offset;
use lang::args::{Real2, Word, split_args, split_words};
use locks::IgnorePoison;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

/// What all workers share.
struct Shared(Mutex<Option<RateTree>>);

/// The least memory, in kilobytes.
const LEAST_MEMORY: u64 = 100;

/// The memory that a number of kilobytes means, in bytes.
fn memory(kilobytes: u64) -> usize {
    let least = if kilobytes == 0 { 0 } else { LEAST_MEMORY };
    usize::try_from(kilobytes.max(least).saturating_mul(1024)).unwrap_or(usize::MAX)
}

/// The `IPRateMonitor` element.
pub struct IpRateMonitor {
    shared: Arc<Shared>,
    settings: Settings,
    packets: bool,
    /// The part of packets that is counted, of 2^16.
    ratio: u32,
    annotates: bool,
}

impl Element for IpRateMonitor {
    const CLASS: &'static str = "IPRateMonitor";
    const PORTS: &'static str = "1-2/1-2";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::FWD_RATE.with(Fields::user(offset::REV_RATE, 4));
    const MANUAL: &'static str = manual!("analysis/ipratemonitor");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let packets = match args.mp::<Word>("TYPE")?.0.to_ascii_uppercase().as_str() {
            "PACKETS" => true,
            "BYTES" => false,
            _ => return Err(args.error("monitor type should be \"PACKETS\" or \"BYTES\"")),
        };
        let ratio = args.mp::<Real2<16>>("RATIO")?.0;
        if ratio > 1 << 16 {
            return Err(args.error("ratio must be between 0 and 1"));
        }
        let threshold = (i64::from(args.mp::<i32>("THRESH")?) * i64::from(ratio)) >> 16;
        let memory = memory(args.p_or("MEMORY", 0)?);
        let annotates = args.p_or("ANNO", true)?;
        let shared = cx.shared(|| Shared(Mutex::new(None)));
        Ok(Self { shared, settings: Settings { threshold, memory }, packets, ratio, annotates })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read_with("look", Combine::First, |e, _, cx| Ok(e.tree(cx, |tree, now| tree.look(now))));
        h.read("thresh", |e| e.settings.threshold.to_string());
        h.read_with("mem", Combine::First, |e, _, cx| Ok(e.tree(cx, |tree, _| tree.bytes()).to_string()));
        h.read_with("memmax", Combine::First, |e, _, cx| {
            Ok(e.tree(cx, |tree, _| tree.settings.memory).to_string())
        });
        h.write("memmax", |e, value, cx| {
            let memory = memory(text::value(value, "not an integer")?);
            e.tree(cx, |tree, now| tree.set_memory(memory, now));
            Ok(())
        });
        h.write("anno_level", |e, value, cx| {
            // Click's manual has spaces, and its source commas.
            let args = if value.contains(',') { split_args(value) } else { split_words(value) };
            let [address, level, seconds] = args.as_slice() else {
                return Err("expecting 3 arguments".to_owned());
            };
            let address: Ipv4Addr = text::value(&address.text, "not an IP address")?;
            let wrong = "2nd argument specifies a level, between 0 and 3, to annotate";
            let level: usize = text::value::<u32>(&level.text, wrong)? as usize;
            if level > 3 {
                return Err(wrong.to_owned());
            }
            let wrong = "3rd argument specifies when this rule expires, must be > 0";
            let seconds: u32 = text::value(&seconds.text, wrong)?;
            if seconds == 0 {
                return Err(wrong.to_owned());
            }
            e.tree(cx, |tree, now| {
                tree.settle(address, level, now.saturating_add(seconds.saturating_mul(125)));
            });
            Ok(())
        });
        h.write("reset", |e, _, cx| {
            e.tree(cx, RateTree::reset);
            Ok(())
        });
        h.listed(&["thresh", "look", "mem", "memmax", "anno_level", "reset b"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        // The time of the first reset.
        self.tree(cx, |_, _| ());
        Ok(())
    }
}

impl IpRateMonitor {
    /// Does something with the rates, which are made when they are first used.
    fn tree<R>(&self, cx: &Cx<'_>, act: impl FnOnce(&mut RateTree, u32) -> R) -> R {
        let now = epoch(cx.now_ns());
        let mut tree = self.shared.0.lock().ignore_poison();
        act(tree.get_or_insert_with(|| RateTree::new(self.settings, now)), now)
    }

    fn measure(&self, packets: &mut [Packet], port: usize, cx: &mut Cx<'_>) {
        if packets.is_empty() {
            return;
        }
        let now = epoch(cx.run_ns());
        let mut tree = self.shared.0.lock().ignore_poison();
        let tree = tree.get_or_insert_with(|| RateTree::new(self.settings, now));
        for packet in packets {
            let Some(ip) = header(packet) else { continue };
            let random = cx.random();
            let counts = (random & 0xffff) as u32 <= self.ratio;
            let n = if self.packets { 1 } else { u32::from(ip.total_len()) };
            let address = if port == 0 { ip.src() } else { ip.dst() };
            let rates = tree.add(address, n, port.min(1), counts, now, random >> 63 == 1);
            if let Some([forward, reverse]) = rates.filter(|_| self.annotates) {
                packet.store_user(offset::FWD_RATE, (forward as u32).to_ne_bytes());
                packet.store_user(offset::REV_RATE, (reverse as u32).to_ne_bytes());
            }
        }
    }
}

impl Vector for IpRateMonitor {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.measure(&mut batch, port, cx);
        cx.output_batch(port, batch);
    }
    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        cx.pull_lending(self, port, max, out);
        self.measure(out.get_mut(before..).unwrap_or_default(), port, cx);
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;
    use dpdk::offset;

    #[test]
    fn measures_and_annotates() {
        let config = "RatedSource(DATA \\<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, RATE 1000, LIMIT 3000)
            -> MarkIPHeader -> e :: IPRateMonitor(PACKETS, 1, 100);";
        let mut bench = Bench::simulated(config, 0, 1);
        let mut last = None;
        while bench.read("ocounts") != "3000\n" && bench.read("ocounts") != "3000" {
            bench.turn();
            last = bench.take().pop().or(last);
        }
        let rate = |at| u32::from_ne_bytes(last.as_ref().unwrap().1.load_user(at).unwrap());
        assert!((950..1050).contains(&rate(offset::FWD_RATE)), "{}", rate(offset::FWD_RATE));
        assert_eq!(rate(offset::REV_RATE), 0);
        let look = bench.read("look");
        let names: Vec<&str> = look.lines().skip(1).filter_map(|line| line.rsplitn(3, '\t').last()).collect();
        assert_eq!(names, ["10", "\t10.0", "\t\t10.0.0", "\t\t\t10.0.0.1"]);
        assert_eq!((bench.read("thresh"), bench.read("memmax")), ("100".into(), "0".into()));
        bench.write("anno_level", "10.0.0.1, 1, 5");
        assert_eq!(bench.read("look").lines().count(), 3);
        assert!(bench.try_write("anno_level", "10.0.0.1, 4, 5").is_err());
        bench.write("memmax", "1");
        assert_eq!(bench.read("memmax"), "102400");
        bench.write("reset", "");
        assert_eq!((bench.read("look"), bench.read("mem")), ("0\n".into(), "2080".into()));
    }

    #[test]
    fn counts_the_destinations_of_the_second_input() {
        let mut bench = Bench::with_ports("IPRateMonitor(bytes, 1, 1000000, 0, false)", 2, 2);
        assert_eq!(bench.send(1, marked(&ip(17, b"")))[0].0, 1);
        assert_eq!(bench.push(0, b"not IP").len(), 1);
        assert_eq!(bench.send(0, marked(&ip(17, b"")))[0].1.load_user(20), Some([0; 4]));
    }

    #[test]
    fn wrong_arguments() {
        assert!(Bench::error("IPRateMonitor(FLOWS, 1, 1)").contains("monitor type should be"));
        assert!(Bench::error("IPRateMonitor(PACKETS, 1.5, 1)").contains("ratio must be between 0 and 1"));
    }
}
