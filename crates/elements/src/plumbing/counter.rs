//! # Counter
//! Counts packets and bytes, and measures their rates.
//!
//! Rates are moving averages over the last milliseconds: a millisecond's count has a weight of 1/16.
//!
//! ## Synopsis
//! `Counter([COUNT_CALL, BYTE_COUNT_CALL])`
//!
//! `CounterMP(...)` and `CounterAtomic(...)`, FastClick's, are the same.
//!
//! ## Arguments
//! - `COUNT_CALL` (*int, handler, value*): `COUNT_CALL 10 src.active false` writes `false` to the handler
//!   when the packet count is 10. By keyword. A handler without an element is the counter's own
//!   (`COUNT_CALL 10 reset`), or a global one (`COUNT_CALL 10 stop`).
//! - `BYTE_COUNT_CALL` (*int, handler, value*): the same when the byte count reaches that number.
//! - `NO_RATE`, `BATCH_PRECISE` (*bool*): FastClick's keywords; without effect.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets since the last reset.
//! - `byte_count` (read): bytes since the last reset.
//! - `rate` (read): packets per second.
//! - `bit_rate` (read): bits per second.
//! - `byte_rate` (read): bytes per second.
//! - `reset`, `reset_counts` (write): sets the counts to zero; the calls may happen again.
//! - `count_call` (read/write): the `COUNT_CALL` argument; reads as its number.
//! - `byte_count_call` (write): the `BYTE_COUNT_CALL` argument.
//!
//! ## Threads
//! Each worker counts its own packets, and handlers report the sum. A call counts the packets of all workers
//! together, and happens once; only then do workers share a counter.
//!
//! ## Example
//! ```click
//! InfiniteSource -> c :: Counter(COUNT_CALL 100 stop) -> Discard;
//! ```
//!
//! ## See also
//! AverageCounter, Discard

use super::engine::call::{HandlerCall, first_word};
use super::engine::rate::Rate;
use super::engine::text;
use crate::llrpc;
use crate::prelude::*;
use lang::args::{Raw, parse_saturating};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const RATE_BITS: u32 = 10;
const BYTE_RATE_BITS: u32 = 4;

/// The `Counter` element.
pub struct CounterElement {
    packets: Counter,
    bytes: Counter,
    rate: Rate<RATE_BITS>,
    byte_rate: Rate<BYTE_RATE_BITS>,
    packet_call: Option<Call>,
    byte_call: Option<Call>,
    totals: Arc<Totals>,
    /// Whether this worker's counts are in the totals.
    totalling: bool,
}

/// The counts of all workers, kept while there is a call.
#[derive(Default)]
struct Totals {
    packets: AtomicU64,
    bytes: AtomicU64,
    packet_called: AtomicBool,
    byte_called: AtomicBool,
}

/// A handler to call when a count is reached.
struct Call {
    at: u64,
    call: HandlerCall,
}

impl Call {
    /// What is written there: `count` reads the number. `None` if there is nothing.
    fn parse(value: &str, count: impl FnOnce(&str) -> Result<u64, String>) -> Result<Option<Self>, String> {
        let (at, call) = first_word(value);
        if at.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { at: count(at)?, call: HandlerCall::parse(call).unwrap_or_default() }))
    }
    /// From the text of an argument.
    fn argument(text: Option<Raw>, name: &str, cx: &mut ConfigCx<'_>) -> Result<Option<Self>, String> {
        let Some(Raw(text)) = text else { return Ok(None) };
        Self::parse(&text, |at| match parse_saturating(at) {
            Some((at, false)) => Ok(at),
            Some((at, true)) => {
                // To Click, this is an error that prevents nothing.
                let message = format!("{name} overflow, max {at}");
                if cx.as_click() {
                    cx.tell(message)
                } else {
                    cx.warn(message)
                }
                Ok(at)
            }
            None => Err(format!("{name} type mismatch")),
        })
    }
    /// From what is written to a handler.
    fn handler(value: &str, name: &str, cx: &Cx<'_>) -> Result<Option<Self>, String> {
        let wrong = format!("'{name}' first word should be unsigned (count)");
        let call = Self::parse(value, |at| text::value(at, &wrong))?;
        if let Some(call) = &call {
            call.call.check(cx)?;
        }
        Ok(call)
    }
}

impl CounterElement {
    /// Adds this worker's counts to the totals, if there is a handler to call and this has not been done.
    fn total(&mut self) {
        if !self.totalling && (self.packet_call.is_some() || self.byte_call.is_some()) {
            self.totalling = true;
            self.totals.packets.fetch_add(self.packets.get(), Ordering::Relaxed);
            self.totals.bytes.fetch_add(self.bytes.get(), Ordering::Relaxed);
        }
    }
    #[inline]
    fn count(&mut self, packets: &[Packet], cx: &mut Cx<'_>) {
        let (n, bytes) = (packets.len() as u64, total_len(packets));
        let now = cx.run_ns();
        self.packets.add(n);
        self.bytes.add(bytes);
        self.rate.add(n, now);
        self.byte_rate.add(bytes, now);
        if self.totalling {
            self.call(n, bytes, cx);
        }
    }
    /// Makes the calls that are due after `n` more packets of `bytes` bytes.
    #[cold]
    fn call(&mut self, n: u64, bytes: u64, cx: &mut Cx<'_>) {
        let before = self.totals.packets.fetch_add(n, Ordering::Relaxed);
        self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
        let due = |c: &&Call| (before + 1..=before + n).contains(&c.at);
        if let Some(call) = self.packet_call.as_ref().filter(due)
            && !self.totals.packet_called.swap(true, Ordering::Relaxed)
        {
            call.call.clone().fire(self, cx);
        }
        // The first call may have changed the counts.
        let sum = self.totals.bytes.load(Ordering::Relaxed);
        if let Some(call) = self.byte_call.as_ref().filter(|c| sum >= c.at)
            && !self.totals.byte_called.swap(true, Ordering::Relaxed)
        {
            call.call.clone().fire(self, cx);
        }
    }
    /// How many packets are still to come before the one that makes a call, or `u64::MAX`.
    fn packets_to_call(&self) -> u64 {
        let (call, count) = (self.packet_call.as_ref(), self.totals.packets.load(Ordering::Relaxed));
        match call.filter(|c| count < c.at && !self.totals.packet_called.load(Ordering::Relaxed)) {
            Some(call) => call.at - count - 1,
            None => u64::MAX,
        }
    }
    /// Whether one of the next `n` packets, of `bytes` bytes, makes a call.
    fn is_due(&self, n: u64, bytes: u64) -> bool {
        let sum = self.totals.bytes.load(Ordering::Relaxed).saturating_add(bytes);
        self.packets_to_call() < n
            || (self.byte_call.as_ref().is_some_and(|c| sum >= c.at)
                && !self.totals.byte_called.load(Ordering::Relaxed))
    }
}

/// The sum of the lengths, four at a time: a loop over single packets takes twice as long.
#[inline]
fn total_len(packets: &[Packet]) -> u64 {
    let (fours, rest) = packets.as_chunks::<4>();
    let sum = |packets: &[Packet]| packets.iter().map(|p| p.len() as u64).sum::<u64>();
    fours.iter().map(|four| sum(four)).sum::<u64>() + sum(rest)
}

impl Element for CounterElement {
    const CLASS: &'static str = "Counter";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("plumbing/counter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let names = ["COUNT_CALL", "BYTE_COUNT_CALL"];
        let (packet_call, byte_call) = (args.k::<Raw>(names[0])?, args.k::<Raw>(names[1])?);
        for name in ["NO_RATE", "BATCH_PRECISE"] {
            args.k::<bool>(name)?;
        }
        // As in Click, unknown arguments come before what is wrong with these.
        args.finish()?;
        Ok(Self {
            packets: Counter::new(),
            bytes: Counter::new(),
            rate: Rate::default(),
            byte_rate: Rate::default(),
            packet_call: Call::argument(packet_call, names[0], cx)?,
            byte_call: Call::argument(byte_call, names[1], cx)?,
            totals: cx.shared(Totals::default),
            totalling: false,
        })
    }

    fn prefetch(&self, step: usize) {
        if step > 0 {
            return;
        }
        self.packets.prefetch();
        self.bytes.prefetch();
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.packets);
        h.counter("byte_count", |e| &e.bytes);
        h.read_with("rate", Combine::Sum, |e, _, cx| {
            Ok(text::real2(e.rate.per_second(cx.now_ns()), RATE_BITS))
        });
        h.read_with("byte_rate", Combine::Sum, |e, _, cx| {
            Ok(text::real2(e.byte_rate.per_second(cx.now_ns()), BYTE_RATE_BITS))
        });
        h.read_with("bit_rate", Combine::Sum, |e, _, cx| {
            Ok(text::real2(e.byte_rate.per_second(cx.now_ns()), BYTE_RATE_BITS - 3))
        });
        for name in ["reset", "reset_counts"] {
            h.write(name, |e, _, _| {
                e.packets.set(0);
                e.bytes.set(0);
                e.totals.packets.store(0, Ordering::Relaxed);
                e.totals.bytes.store(0, Ordering::Relaxed);
                e.totals.packet_called.store(false, Ordering::Relaxed);
                e.totals.byte_called.store(false, Ordering::Relaxed);
                Ok(())
            });
        }
        h.read("count_call", |e| e.packet_call.as_ref().map(|c| c.at.to_string()).unwrap_or_default());
        h.write("count_call", |e, v, cx| {
            e.packet_call = Call::handler(v, "count_call", cx)?;
            e.totals.packet_called.store(false, Ordering::Relaxed);
            e.total();
            Ok(())
        });
        h.write("byte_count_call", |e, v, cx| {
            e.byte_call = Call::handler(v, "byte_count_call", cx)?;
            e.totals.byte_called.store(false, Ordering::Relaxed);
            e.total();
            Ok(())
        });
        h.llrpc(llrpc::GET_RATE, llrpc::rate);
        h.llrpc(llrpc::GET_COUNT, llrpc::count);
        h.listed(&[
            "count",
            "byte_count",
            "rate",
            "bit_rate",
            "byte_rate",
            "reset b",
            "reset_counts Ub",
            "count_call",
            "byte_count_call",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for call in [&self.packet_call, &self.byte_call].into_iter().flatten() {
            call.call.check(cx)?;
        }
        self.total();
        Ok(())
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.packets.set(old.packets.get());
        self.bytes.set(old.bytes.get());
        self.rate.take(&mut old.rate);
        self.byte_rate.take(&mut old.byte_rate);
        // The totals are kept over the swap if the arguments are the same; otherwise they begin with the
        // packets counted so far.
        if self.totalling && !(old.totalling && Arc::ptr_eq(&self.totals, &old.totals)) {
            self.totalling = false;
            self.total();
        }
    }
}

impl Step for CounterElement {
    /// Every packet passes; `run` counts them, a batch at a time.
    fn step(&mut self, _packet: &mut Packet) -> bool {
        true
    }
    fn run(&mut self, packets: &mut [Packet], cx: &mut Cx<'_>) -> usize {
        if self.totalling && self.is_due(packets.len() as u64, total_len(packets)) {
            return 0;
        }
        self.count(packets, cx);
        packets.len()
    }
}

impl Vector for CounterElement {
    #[inline]
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if !self.totalling || !self.is_due(batch.len() as u64, total_len(&batch)) {
            self.count(&batch, cx);
            return cx.output_batch(0, batch);
        }
        // A call is made before its packet is passed on, and after the packets before have been.
        let mut passed = cx.spare_batch();
        for packet in batch.drain(..) {
            if !passed.is_empty() && self.is_due(1, packet.len() as u64) {
                cx.output_batch(0, std::mem::take(&mut passed));
                cx.flush_lending(self);
            }
            self.count(std::slice::from_ref(&packet), cx);
            passed.push(packet);
        }
        cx.output_batch(0, passed);
        cx.recycle(batch);
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        // The packet that makes a call comes alone.
        let max = max.min(usize::try_from(self.packets_to_call()).unwrap_or(max).max(1));
        cx.lend(self, |cx| cx.pull(0, max, out));
        let at_once = if self.totalling { 1 } else { max.max(1) };
        for packets in out.get(before..).unwrap_or_default().chunks(at_once) {
            self.count(packets, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_packets_and_bytes() {
        let mut bench = Bench::new("Counter()");
        assert_eq!(bench.push(0, &[0; 60]).len(), 1);
        bench.push(0, &[0; 100]);
        assert_eq!(bench.read("count"), "2");
        assert_eq!(bench.read("byte_count"), "160");
        bench.write("reset", "");
        assert_eq!(bench.read("count"), "0");
    }

    #[test]
    fn counts_what_is_pulled() {
        let mut bench = Bench::with_config("InfiniteSource(LIMIT 3) -> Queue -> e :: Counter;", 0, 1);
        bench.run();
        assert_eq!(bench.pull(0, 2).len(), 2);
        assert_eq!(bench.read("count"), "2");
    }

    #[test]
    fn calls_a_handler_once_at_the_count() {
        let config = "e :: Counter(COUNT_CALL 3 sw.switch 1, BYTE_COUNT_CALL 8 other.reset); sw :: Switch;
            e -> sw; sw [1] -> Discard; Idle -> other :: Counter -> Discard; sw -> out :: Counter -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        for _ in 0..5 {
            bench.push(0, b"xx");
        }
        // The call comes before the packet is passed on.
        assert_eq!(bench.read("out.count"), "2");
        bench.write("sw.switch", "0");
        bench.push(0, b"xx");
        assert_eq!(bench.read("out.count"), "3");
        bench.write("count_call", "8 sw.switch 1");
        assert_eq!(bench.read("count_call"), "8");
        bench.push(0, b"xx");
        bench.push(0, b"xx");
        assert_eq!(bench.read("out.count"), "4");
    }

    #[test]
    fn a_counter_may_reset_itself() {
        let mut bench = Bench::new("Counter(COUNT_CALL 3 e.reset)");
        for _ in 0..7 {
            bench.push(0, b"x");
        }
        assert_eq!(bench.read("count"), "1");
    }

    #[test]
    fn rates_follow_the_stream() {
        let mut bench = Bench::simulated("RatedSource(DATA 12345678, RATE 1000) -> e :: Counter;", 0, 1);
        bench.turns(3000);
        let rate: f64 = bench.read("rate").parse().unwrap();
        assert!((900.0..1100.0).contains(&rate), "{rate}");
        let (bytes, bits): (f64, f64) =
            (bench.read("byte_rate").parse().unwrap(), bench.read("bit_rate").parse().unwrap());
        assert!((7000.0..9000.0).contains(&bytes) && bits == bytes * 8.0, "{bytes} {bits}");
    }

    #[test]
    fn calls_are_checked() {
        assert!(Bench::error("Counter(COUNT_CALL x q.reset)").contains("COUNT_CALL type mismatch"));
        assert!(Bench::error("Counter(COUNT_CALL 1 q.reset)").contains("no element named 'q'"));
        for (arguments, wrong) in [
            ("COUNT_CALL 1 e.what", "no 'e.what' write handler"),
            ("COUNT_CALL 1 e.count 5", "no 'e.count' write handler"),
            ("COUNT_CALL 1 count", "no 'e.count' write handler"),
            ("BYTE_COUNT_CALL 1 what", "no 'what' write handler"),
            ("COUNT_CALL 1", "syntax error"),
            ("COUNT_CALL x, FOO 3", "FOO: unknown argument"),
        ] {
            let error = Bench::error(&format!("Counter({arguments})"));
            assert!(error.contains(wrong) && !error.contains("mismatch"), "{error}");
        }
        let mut bench = Bench::with_ports("Counter(COUNT_CALL 99999999999999999999 reset)", 1, 1);
        assert_eq!(bench.read("count_call"), u64::MAX.to_string());
        assert!(
            bench
                .try_write("count_call", "3 e.count")
                .unwrap_err()
                .to_string()
                .contains("no 'e.count' write")
        );
    }
}
