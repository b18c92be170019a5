//! # TimeFilter
//! Lets packets through whose timestamps lie in a range.
//!
//! ## Synopsis
//! `TimeFilter([START, END, START_AFTER, START_DELAY, END_AFTER, END_DELAY, INTERVAL, STOP, END_CALL])`
//!
//! ## Arguments
//! - `START`, `START_AFTER`, `START_DELAY` (*time*, default unit seconds): the range begins at this time
//!   since 1970, so long after the first packet's timestamp, or so long after the router's start. At most one
//!   may be given; by default it begins with the first packet.
//! - `END`, `END_AFTER`, `END_DELAY`, `INTERVAL` (*time*): the range ends before this time since 1970, so
//!   long after the first packet's timestamp, so long after the router's start, or so long after the range
//!   has begun. At most one may be given; by default it does not end.
//! - `STOP` (*bool*, keyword, default false): whether to stop the router at the first packet after the range.
//! - `END_CALL` (*handler and value*, keyword): a handler to write at the first packet after the range;
//!   `$t` in the value is the packet's timestamp. If the handler is one of this element's and moves the end,
//!   the packet is looked at again. Not together with `STOP`.
//!
//! `START` and `END` may be given by position. A time of 0 counts as not given.
//!
//! ## Ports
//! One agnostic input. Packets in the range leave by output 0, agnostic; others by output 1, push, if it is
//! connected.
//!
//! ## Handlers
//! - `start` (read/write): the beginning of the range; before the first packet what is added to its
//!   timestamp.
//! - `end` (read/write): the end; before the first packet likewise. A write allows another `END_CALL`.
//! - `interval` (read/write): the time from beginning to end; a write moves the end.
//! - `extend_interval` (write): moves the end by so much. It allows another `END_CALL`.
//!
//! ## Threads
//! All workers share the range: the first packet is that of whichever worker has one first, and there is one
//! call at the end.
//!
//! ## Example
//! ```click
//! TimedSource(0.1) -> SetTimestamp -> TimeFilter(INTERVAL 0.25, STOP true) -> Print(TIMESTAMP true) -> Discard;
//! ```
//!
//! ## See also
//! SetTimestamp, FromDump, TimeSortedSched

use super::engine::call::HandlerCall;
use super::engine::text;
use crate::prelude::*;
use lang::args::{Raw, Timestamp};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Once};

const OUTSIDE: DropReason = DropReason::new("outside the time range");

/// The end of a range without an end, in nanoseconds: a whole number of seconds, as in Click.
const NEVER: i64 = i64::MAX / 1_000_000_000 * 1_000_000_000;

/// What a time is relative to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Epoch,
    FirstPacket,
    RouterStart,
    /// For the end only.
    Start,
}

/// The range, in nanoseconds since 1970, or relative before the first packet.
struct TimeRange {
    first: AtomicI64,
    last: AtomicI64,
    since: [Since; 2],
    /// The router's start has been added.
    initialized: Once,
    /// The first packet's timestamp has been added.
    begun: Once,
    /// A packet after the end makes a call.
    armed: AtomicBool,
}

impl TimeRange {
    fn begin(&self, at: i64) {
        self.begun.call_once(|| {
            let [first, last] = self.since;
            if first == Since::FirstPacket {
                self.first.store(self.first().saturating_add(at), Ordering::Relaxed);
            }
            match last {
                Since::FirstPacket => self.set_last(self.last().saturating_add(at)),
                Since::Start => self.set_last(self.last().saturating_add(self.first())),
                Since::Epoch | Since::RouterStart => {}
            }
        });
    }
    fn first(&self) -> i64 {
        self.first.load(Ordering::Relaxed)
    }
    fn last(&self) -> i64 {
        self.last.load(Ordering::Relaxed)
    }
    fn set_last(&self, at: i64) {
        self.last.store(at, Ordering::Relaxed);
    }
    /// Writes one of the handlers.
    fn write(&self, handler: &str, value: &str) -> Result<(), String> {
        let time = text::value::<Timestamp>(value, "expected time")?.ns;
        match handler {
            "start" => {
                self.begin(time);
                self.first.store(time, Ordering::Relaxed);
                return Ok(());
            }
            "end" => {
                // The first packet must not move it any more.
                self.begin(self.first());
                self.set_last(time);
            }
            "interval" => self.set_last(self.first().saturating_add(time)),
            _ => self.set_last(self.last().saturating_add(time)),
        }
        self.armed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The `TimeFilter` element.
pub struct TimeFilter {
    range: Arc<TimeRange>,
    call: Option<HandlerCall>,
}

/// The one of these times that is given, and what it is relative to.
fn one_of<const N: usize>(
    args: &mut Args<'_>,
    times: [(&str, Since); N],
    clash: &str,
) -> Result<Option<(i64, Since)>, ArgError> {
    let mut found = None;
    for (at, (name, since)) in times.into_iter().enumerate() {
        let time = if at == 0 { args.p::<Timestamp>(name)? } else { args.k::<Timestamp>(name)? };
        // As in Click, a time of zero is none.
        if let Some(time) = time.filter(|t| t.ns != 0)
            && found.replace((time.ns, since)).is_some()
        {
            return Err(args.error(clash));
        }
    }
    Ok(found)
}

impl Element for TimeFilter {
    const CLASS: &'static str = "TimeFilter";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::TIMESTAMP;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[OUTSIDE.when("before the beginning or after the end, and output 1 is not connected")];
    const MANUAL: &'static str = manual!("plumbing/timefilter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let starts = [
            ("START", Since::Epoch),
            ("START_DELAY", Since::RouterStart),
            ("START_AFTER", Since::FirstPacket),
        ];
        let first = one_of(args, starts, "START, START_AFTER, and START_AFTER_INIT are mutually exclusive")?;
        let ends = [
            ("END", Since::Epoch),
            ("END_AFTER", Since::FirstPacket),
            ("END_DELAY", Since::RouterStart),
            ("INTERVAL", Since::Start),
        ];
        let last = one_of(args, ends, "END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive")?;
        let stop = args.k_or("STOP", false)?;
        let call = match args.k::<Raw>("END_CALL")? {
            Some(Raw(text)) => Some(HandlerCall::parse(&text).ok_or("END_CALL: bad handler name")?),
            None => None,
        };
        if stop && call.is_some() {
            return Err("END_CALL and STOP are mutually exclusive".into());
        }
        let call = if stop { HandlerCall::parse("stop true") } else { call };
        let (first, from) = first.unwrap_or((0, Since::FirstPacket));
        let (last, to) = last.unwrap_or((NEVER, Since::Epoch));
        let range = cx.shared(|| TimeRange {
            first: AtomicI64::new(first),
            last: AtomicI64::new(last),
            since: [from, to],
            initialized: Once::new(),
            begun: Once::new(),
            armed: AtomicBool::new(true),
        });
        Ok(Self { range, call })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read("start", |r: &TimeRange, _| Ok(text::timestamp(r.first())));
        h.shared_write("start", |r: &TimeRange, v| r.write("start", v));
        h.shared_read("end", |r: &TimeRange, _| Ok(text::timestamp(r.last())));
        h.shared_write("end", |r: &TimeRange, v| r.write("end", v));
        h.shared_read("interval", |r: &TimeRange, _| Ok(text::timestamp(r.last().saturating_sub(r.first()))));
        h.shared_write("interval", |r: &TimeRange, v| r.write("interval", v));
        h.shared_write("extend_interval", |r: &TimeRange, v| r.write("extend_interval", v));
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(call) = &self.call {
            call.check(cx)?;
        }
        let (range, now) = (&self.range, cx.now_ns().cast_signed());
        range.initialized.call_once(|| {
            for (time, since) in [&range.first, &range.last].into_iter().zip(range.since) {
                if since == Since::RouterStart {
                    time.store(time.load(Ordering::Relaxed).saturating_add(now), Ordering::Relaxed);
                }
            }
        });
        Ok(())
    }
}

impl TimeFilter {
    /// Whether a packet is before the end after all, when the call has been made that is due.
    #[cold]
    fn at_end(&mut self, at: i64, cx: &mut Cx<'_>) -> bool {
        let Some(call) = self.call.clone() else { return false };
        loop {
            let before = self.range.last();
            if !self.range.armed.swap(false, Ordering::Relaxed) {
                return at < self.range.last();
            }
            let call = call.with_variable('t', &text::timestamp(at));
            match call.to_itself(cx) {
                Some((handler @ ("start" | "end" | "interval" | "extend_interval"), value)) => {
                    if let Err(e) = self.range.write(handler, value) {
                        cx.log(Level::WARN, &format!("{}: {e}", cx.name()));
                    }
                }
                _ => call.fire(self, cx),
            }
            if at < self.range.last() {
                return true;
            }
            if self.range.last() <= before {
                return false;
            }
        }
    }
}

impl Simple for TimeFilter {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        let at = packet.timestamp_ns().cast_signed();
        self.range.begin(at);
        if at >= self.range.first() && (at < self.range.last() || self.at_end(at, cx)) {
            return Some(packet);
        }
        cx.fail(packet, OUTSIDE);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    /// The outputs that packets with these times take, in seconds.
    fn outputs(bench: &mut Bench, times: &[f64]) -> Vec<usize> {
        let packet = |time: &f64| {
            let mut packet = Packet::from_bytes(b"x").unwrap();
            packet.set_timestamp_ns((time * 1e9) as u64);
            packet
        };
        times.iter().flat_map(|time| bench.send(0, packet(time))).map(|out| out.0).collect()
    }

    #[test]
    fn ranges() {
        for (arguments, want) in [
            ("12, 13.5", [1, 1, 0, 0, 1]),
            ("END 12", [0, 0, 1, 1, 1]),
            ("START_AFTER 1.5", [1, 1, 0, 0, 0]),
            ("END_AFTER 2.5s", [0, 0, 0, 1, 1]),
            ("START_AFTER 1, INTERVAL 2", [1, 0, 0, 1, 1]),
            ("START 11, INTERVAL 2000ms", [1, 0, 0, 1, 1]),
            ("START 0, INTERVAL 1", [0, 1, 1, 1, 1]),
            ("", [0; 5]),
        ] {
            let mut bench = Bench::new(&format!("TimeFilter({arguments})"));
            assert_eq!(outputs(&mut bench, &[10.0, 11.0, 12.0, 13.0, 14.0]), want, "{arguments}");
        }
    }

    #[test]
    fn ranges_from_the_start_of_the_router() {
        // Simulated time begins at 10^9 seconds.
        let mut bench = Bench::simulated("e :: TimeFilter(START_DELAY 5, END_DELAY 7);", 1, 2);
        let times = [1e9, 1e9 + 4.0, 1e9 + 6.0, 1e9 + 8.0];
        assert_eq!(outputs(&mut bench, &times), [1, 1, 0, 1]);
        assert!(bench.read("interval").starts_with("2.000000"));
    }

    #[test]
    fn the_end_calls_a_handler_once() {
        let config = "e :: TimeFilter(END 11, END_CALL sw.switch 1); sw :: Switch; e -> sw; Idle -> sw;
            sw [1] -> Discard; sw -> Discard;";
        let mut bench = Bench::with_config(config, 1, 0);
        outputs(&mut bench, &[10.0]);
        assert_eq!(bench.read("sw.switch"), "0");
        outputs(&mut bench, &[11.0]);
        assert_eq!(bench.read("sw.switch"), "1");
        bench.write("sw.switch", "0");
        outputs(&mut bench, &[12.0]);
        assert_eq!(bench.read("sw.switch"), "0");
        bench.write("extend_interval", "2");
        outputs(&mut bench, &[12.5]);
        assert_eq!(bench.read("sw.switch"), "0");
        outputs(&mut bench, &[13.0]);
        assert_eq!(bench.read("sw.switch"), "1");
        assert_eq!(bench.drops(), [("outside the time range".to_owned(), 3)]);
    }

    #[test]
    fn the_end_may_move_itself() {
        let mut bench = Bench::new("TimeFilter(END 11, END_CALL e.extend_interval 0.5)");
        assert_eq!(outputs(&mut bench, &[10.0, 11.0, 12.9]), [0, 0, 0]);
        assert_eq!(bench.read("end"), "13.000000");
        let mut bench = Bench::new("TimeFilter(END 11, END_CALL end $t)");
        assert_eq!(outputs(&mut bench, &[10.0, 11.5]), [0, 1]);
        assert_eq!(bench.read("end"), "11.500000");
    }

    #[test]
    fn handlers_move_the_range() {
        let mut bench = Bench::new("TimeFilter(START_AFTER 1, INTERVAL 2)");
        assert_eq!((bench.read("start"), bench.read("end")), ("1.000000".into(), "2.000000".into()));
        outputs(&mut bench, &[10.0]);
        assert_eq!((bench.read("start"), bench.read("end")), ("11.000000".into(), "13.000000".into()));
        bench.write("interval", "5");
        assert_eq!((bench.read("interval"), bench.read("end")), ("5.000000".into(), "16.000000".into()));
        bench.write("start", "15");
        bench.write("end", "20");
        assert_eq!(outputs(&mut bench, &[14.0, 19.0, 20.0]), [1, 0, 1]);
        assert!(bench.try_write("end", "x").is_err());
        let mut bench = Bench::new("TimeFilter(END_AFTER 1)");
        bench.write("end", "20");
        assert_eq!(outputs(&mut bench, &[19.0]), [0]);
        assert_eq!(Bench::new("TimeFilter").read("end"), "9223372036.000000");
    }

    #[test]
    fn arguments_are_checked() {
        for (arguments, message) in [
            ("START 1, START_AFTER 1", "START, START_AFTER, and START_AFTER_INIT are mutually exclusive"),
            ("END 1, INTERVAL 1", "END, END_AFTER, END_AFTER_INIT, and INTERVAL are mutually exclusive"),
            ("STOP true, END_CALL e.end 1", "END_CALL and STOP are mutually exclusive"),
            ("END_CALL x.end 1", "no element named 'x'"),
            ("END_CALL e.zonk 1", "zonk"),
        ] {
            let error = Bench::error(&format!("TimeFilter({arguments})"));
            assert!(error.contains(message), "{error}");
        }
    }
}
