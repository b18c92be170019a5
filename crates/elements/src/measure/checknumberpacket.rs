//! # CheckNumberPacket
//! Counts how often packets of each number come.
//!
//! FastClick's.
//!
//! ## Synopsis
//! `CheckNumberPacket([OFFSET, COUNT, NET_ORDER])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 40): where the number is, from the packet's beginning: 8 bytes, as
//!   NumberPacket writes them.
//! - `COUNT` (*int*, at most 134217728, default 0): the numbers that there may be are those below it.
//! - `NET_ORDER` (*bool*, keyword, default false): whether the most significant byte is the first one; else
//!   the number is in the machine's byte order.
//!
//! ## Ports
//! One push input, one or two push outputs. Packets with such a number leave by output 0. Others go to output
//! 1 if it is connected, and if they have a number, a line is printed.
//!
//! ## Handlers
//! - `count` (read/write): the `COUNT` argument. What is known of numbers at and above a smaller one is
//!   forgotten.
//! - `max` (read): `[NUMBER] : TIMES` for the number that came most often, the first of several.
//! - `min` (read): the same for the one that came least often.
//! - `dump` (read): a line `NUMBER: TIMES` for each number.
//!
//! ## Threads
//! All workers share the counts.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 3, STOP true) -> NumberPacket -> CheckNumberPacket(40, 3) -> Discard;
//! ```
//!
//! ## See also
//! NumberPacket, TimestampDiff, MeasureSink

use super::engine::number;
use super::engine::slots::{MOST, Slots};
use crate::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const TOO_SHORT: DropReason = DropReason::new("too short for a number");
const OUT_OF_SCOPE: DropReason = DropReason::new("number out of scope");

/// How often each number has come.
struct Times {
    count: AtomicUsize,
    of: Slots,
}

impl Times {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
    fn resize(&self, count: usize) -> Result<(), String> {
        if count > MOST {
            return Err(format!("COUNT must be at most {MOST}"));
        }
        let before = self.count.swap(count, Ordering::Relaxed);
        for n in (count..before).filter(|n| self.of.get(*n) > 0) {
            self.of.at(n).into_iter().for_each(|times| times.store(0, Ordering::Relaxed));
        }
        Ok(())
    }
    /// The first number whose times are the best, and its times.
    fn best(&self, none: u64, better: fn(u64, u64) -> bool) -> String {
        let mut best = None;
        for n in 0..self.count() {
            let times = self.of.get(n);
            if best.is_none_or(|(_, most)| better(times, most)) {
                best = Some((n, times));
            }
        }
        match best {
            Some((n, times)) => format!("[{n}] : {times}"),
            None => format!("[-1] : {}", none.cast_signed()),
        }
    }
}

/// The `CheckNumberPacket` element.
pub struct CheckNumberPacket {
    offset: usize,
    net_order: bool,
    times: Arc<Times>,
}

impl Element for CheckNumberPacket {
    const CLASS: &'static str = "CheckNumberPacket";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        TOO_SHORT.when("the packet ends before `OFFSET` + 8 bytes"),
        OUT_OF_SCOPE.when("not below `COUNT`"),
    ];
    const MANUAL: &'static str = manual!("measure/checknumberpacket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = args.p_or::<u32>("OFFSET", 40)? as usize;
        let count = args.p_or::<u64>("COUNT", 0)?;
        let net_order = args.k_or("NET_ORDER", false)?;
        let times = cx.shared(|| Times { count: AtomicUsize::new(0), of: Slots::new(MOST) });
        // Also for the second replica: the count is the same, unless a handler has changed it before a hot
        // swap.
        if times.count() == 0 {
            times.resize(count as usize).map_err(|e| args.error(e))?;
        }
        Ok(Self { offset, net_order, times })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read("count", |t: &Times, _| Ok(t.count().to_string()));
        h.shared_write("count", |t: &Times, v| {
            t.resize(crate::plumbing::engine::text::value::<u64>(v, "syntax error")? as usize)
        });
        h.shared_read("max", |t: &Times, _| Ok(t.best(u64::MAX, |a, b| a > b)));
        h.shared_read("min", |t: &Times, _| Ok(t.best(i32::MAX as u64, |a, b| a < b)));
        h.shared_read("dump", |t: &Times, _| {
            Ok((0..t.count()).map(|n| format!("{n}: {}\n", t.of.get(n))).collect())
        });
        h.listed(&["max $", "min $", "count", "dump $"]);
    }
}

impl Simple for CheckNumberPacket {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let Some(number) = number::read(&packet, self.offset, self.net_order) else {
            cx.fail(packet, TOO_SHORT);
            return None;
        };
        let count = self.times.count();
        let known = usize::try_from(number).ok().filter(|n| *n < count);
        if let Some(times) = known.and_then(|n| self.times.of.at(n)) {
            times.fetch_add(1, Ordering::Relaxed);
            return Some(packet);
        }
        let text = format!("{} :: {}: {number} out of scope (count is {count}) !", cx.name(), cx.class());
        cx.log(Level::WARN, &text);
        cx.fail(packet, OUT_OF_SCOPE);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_numbers() {
        let mut bench = Bench::new("CheckNumberPacket(2, 4, NET_ORDER true)");
        let lines = bench.listen();
        let numbered = |n: u64| [b"01", &n.to_be_bytes()[..]].concat();
        for (n, output) in [(3, 0), (1, 0), (3, 0), (4, 1), (0, 0), (u64::MAX, 1)] {
            assert_eq!(bench.push(0, &numbered(n)), [(output, numbered(n))], "{n}");
        }
        assert_eq!(bench.push(0, &numbered(1)[..9])[0].0, 1);
        assert_eq!((bench.read("max"), bench.read("min")), ("[3] : 2".into(), "[2] : 0".into()));
        assert_eq!(bench.read("dump"), "0: 1\n1: 1\n2: 0\n3: 2\n");
        assert_eq!(lines.lock().unwrap()[0], "e :: CheckNumberPacket: 4 out of scope (count is 4) !");
        bench.write("count", "2");
        bench.write("count", "5");
        assert_eq!(bench.read("dump"), "0: 1\n1: 1\n2: 0\n3: 0\n4: 0\n");
        assert!(bench.try_write("count", "134217729").is_err() && bench.try_write("count", "x").is_err());
    }

    #[test]
    fn none_are_known_at_first() {
        let mut bench = Bench::with_ports("CheckNumberPacket", 1, 1);
        assert!(bench.push(0, &[0; 48]).is_empty() && bench.push(0, &[0; 47]).is_empty());
        assert_eq!(
            bench.drops(),
            [("too short for a number".to_owned(), 1), ("number out of scope".to_owned(), 1)]
        );
        assert_eq!((bench.read("max"), bench.read("min")), ("[-1] : -1".into(), "[-1] : 2147483647".into()));
        assert_eq!((bench.read("dump"), bench.read("count")), ("".into(), "0".into()));
        assert!(Bench::error("CheckNumberPacket(0, 134217729)").contains("COUNT must be at most"));
    }
}
