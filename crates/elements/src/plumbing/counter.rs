//! # Counter
//! Counts packets and bytes, and measures their rate.
//!
//! ## Synopsis
//! `Counter([COUNT_CALL, BYTE_COUNT_CALL])`
//!
//! ## Arguments
//! - `COUNT_CALL` (*count handler [value]*): when the packet count reaches `count`, the write handler is called once.
//! - `BYTE_COUNT_CALL` (*count handler [value]*): the same for the byte count.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `count` (read): packets since the last reset.
//! - `byte_count` (read): bytes since the last reset.
//! - `rate` (read): recent packets per second.
//! - `bit_rate` (read): recent bits per second.
//! - `byte_rate` (read): recent bytes per second.
//! - `reset_counts`, `reset` (write): sets all to zero.
//! - `count_call`, `byte_count_call` (write): replaces the argument of the same name.
//!
//! ## Threads
//! Each worker counts its own packets; handlers report the sum.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
//! ```
//!
//! ## See also
//! AverageCounter

use crate::prelude::*;

/// The `Counter` element.
pub struct CounterElement {
    packets: Counter,
    bytes: Counter,
    packet_rate: Rate,
    byte_rate: Rate,
    packet_call: Option<Call>,
    byte_call: Option<Call>,
}

/// A rate over about a second: an exponentially weighted moving average, updated once in each period.
#[derive(Default)]
struct Rate {
    period: u64,
    sum: u64,
    per_second: f64,
}

const PERIOD_NS: u64 = 100_000_000;

impl Rate {
    fn add(&mut self, now_ns: u64, n: u64) {
        self.settle(now_ns);
        self.sum += n;
    }
    fn settle(&mut self, now_ns: u64) {
        let period = now_ns / PERIOD_NS;
        if self.period == 0 {
            self.period = period;
        }
        // Periods without packets count as zero; after many of them the rate is zero.
        for _ in 0..(period - self.period.min(period)).min(64) {
            let sample = self.sum as f64 * (1e9 / PERIOD_NS as f64);
            self.per_second += (sample - self.per_second) / 4.0;
            self.sum = 0;
        }
        self.period = period;
    }
}

/// A handler to call when a count is reached.
struct Call {
    at: u64,
    handler: String,
    value: String,
}

impl Call {
    fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let mut words = text.trim().splitn(3, char::is_whitespace);
        let at = words
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|_| "'COUNT_CALL' first word should be unsigned (count)".to_owned())?;
        let handler = words.next().ok_or("'COUNT_CALL' requires a handler")?.to_owned();
        Ok(Some(Self { at, handler, value: words.next().unwrap_or_default().to_owned() }))
    }
}

fn fire(call: &mut Option<Call>, count: u64, cx: &mut Cx<'_>) {
    if let Some(due) = call.take_if(|c| count >= c.at) {
        let Some((element, handler)) = due.handler.rsplit_once('.') else {
            if due.handler == "stop" {
                cx.request_stop();
            }
            return;
        };
        let done = cx.find(element).map(|id| cx.write_handler(id, handler, &due.value));
        if let Some(Err(e)) = done {
            cx.chatter(&format!("{}: {e}", cx.name()));
        }
    }
}

impl Element for CounterElement {
    const CLASS: &'static str = "Counter";
    const SHARING: Sharing = Sharing::PerWorker;
    const MANUAL: &'static str = manual!("plumbing/counter");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut call = |name: &'static str| -> Result<Option<Call>, ArgError> {
            match args.k::<String>(name)? {
                Some(text) => Call::parse(&text).map_err(ArgError::new),
                None => Ok(None),
            }
        };
        let (packet_call, byte_call) = (call("COUNT_CALL")?, call("BYTE_COUNT_CALL")?);
        Ok(Self {
            packets: Counter::new(),
            bytes: Counter::new(),
            packet_rate: Rate::default(),
            byte_rate: Rate::default(),
            packet_call,
            byte_call,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.packets);
        h.counter("byte_count", |e| &e.bytes);
        h.read_with("rate", Combine::Sum, |e, _, cx| {
            e.packet_rate.settle(cx.now_ns());
            Ok(e.packet_rate.per_second.to_string())
        });
        h.read_with("byte_rate", Combine::Sum, |e, _, cx| {
            e.byte_rate.settle(cx.now_ns());
            Ok(e.byte_rate.per_second.to_string())
        });
        h.read_with("bit_rate", Combine::Sum, |e, _, cx| {
            e.byte_rate.settle(cx.now_ns());
            Ok((e.byte_rate.per_second * 8.0).to_string())
        });
        for name in ["reset", "reset_counts"] {
            h.write(name, |e, _, _| {
                e.packets.set(0);
                e.bytes.set(0);
                (e.packet_rate, e.byte_rate) = (Rate::default(), Rate::default());
                Ok(())
            });
        }
        h.write("count_call", |e, v, _| Call::parse(v).map(|c| e.packet_call = c));
        h.write("byte_count_call", |e, v, _| Call::parse(v).map(|c| e.byte_call = c));
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.packets.set(old.packets.get());
        self.bytes.set(old.bytes.get());
        std::mem::swap(&mut self.packet_rate, &mut old.packet_rate);
        std::mem::swap(&mut self.byte_rate, &mut old.byte_rate);
    }
}

impl Simple for CounterElement {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let (now, length) = (cx.now_ns(), packet.len() as u64);
        self.packets.add(1);
        self.bytes.add(length);
        self.packet_rate.add(now, 1);
        self.byte_rate.add(now, length);
        if self.packet_call.is_some() || self.byte_call.is_some() {
            fire(&mut self.packet_call, self.packets.get(), cx);
            fire(&mut self.byte_call, self.bytes.get(), cx);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn counts_packets_and_bytes() {
        let mut bench = Bench::new("Counter()");
        bench.push(0, &[0; 60]);
        bench.push(0, &[0; 100]);
        assert_eq!(bench.read("count"), "2");
        assert_eq!(bench.read("byte_count"), "160");
        bench.write("reset", "");
        assert_eq!(bench.read("count"), "0");
    }

    #[test]
    fn count_call_wants_a_count() {
        assert!(Bench::error("Counter(COUNT_CALL x q.reset)").contains("COUNT_CALL"));
    }
}
