//! # AggregateCounter
//! Counts packets or bytes for each aggregate annotation.
//!
//! ## Synopsis
//! `AggregateCounter([BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, AGGREGATE_STOP, AGGREGATE_FREEZE, AGGREGATE_CALL, COUNT_STOP, COUNT_FREEZE, COUNT_CALL, BANNER, CAPACITY])`
//!
//! ## Arguments
//! All by keyword.
//! - `BYTES` (*bool*, default false): counts bytes, not packets.
//! - `IP_BYTES` (*bool*, default false): without what is before the IP header.
//! - `MULTIPACKET` (*bool*, default true): whether packets' extra packets annotation counts.
//! - `EXTRA_LENGTH` (*bool*, default true): whether packets' extra length annotation counts.
//! - `AGGREGATE_STOP` (*int*): stops the router when one more aggregate than these comes.
//! - `AGGREGATE_FREEZE` (*int*): then freezes the counter instead: no counts are added.
//! - `AGGREGATE_CALL` (*int, handler, value*): then writes the value to the handler. Only one of these three.
//! - `COUNT_STOP`, `COUNT_FREEZE`, `COUNT_CALL`: the same when the sum of all counts has reached a number.
//! - `BANNER` (*string*): a line at the beginning of files, after the first one.
//! - `CAPACITY` (*int*, default 4194304): the most aggregates. When there are more, packets of new ones are
//!   not counted, which is said once. Click has no limit; an aggregate needs up to 32 bytes.
//!
//! ## Ports
//! One or two inputs, one or two outputs; agnostic. The second input is always frozen. Packets that were
//! counted leave by output 0, others, if they were pushed and it is connected, by output 1.
//!
//! ## Handlers
//! - `write_text_file`, `write_ascii_file` (write): writes the counts to this file; `-` is standard output.
//!   The first line is `!IPAggregate 1.0`; `!num_nonzero N` says how many aggregates there are, and a line
//!   for each has the aggregate and its count, in the order of aggregates.
//! - `write_ip_file` (write): the same with aggregates as IP addresses.
//! - `write_pdf_file` (write): the same with the part of each in the sum of all counts.
//! - `write_file` (write): the same as pairs of 32-bit numbers, after a line `!packed_le` (or `!packed_be`)
//!   that says in which order their bytes are.
//! - `freeze` (read/write): whether it is frozen.
//! - `active` (read/write): whether it counts.
//! - `stop` (write): it counts no more, and the router stops.
//! - `reaggregate_counts`, `counts_pdf` (write): the counts become aggregates, and how many aggregates had
//!   each becomes its count. As in Click, aggregate 0 also has the number of empty places in the table.
//! - `clear` (write): forgets all counts.
//! - `banner` (read/write): the banner.
//! - `aggregate_call`, `count_call` (read/write): the number and the call; empty if there is none.
//! - `count` (read): the sum of all counts.
//! - `nagg` (read): how many aggregates have a count.
//!
//! ## Threads
//! Each worker has counts of its own, and handlers show the sums. When the counter is frozen, or there is a
//! number at which something happens, all workers use the same counts, one after the other.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true) -> AggregateIP(ip dst) -> ac :: AggregateCounter -> Discard;
//! DriverManager(wait, write ac.write_ip_file -);
//! ```
//!
//! ## See also
//! AggregateIP, AggregateIPFlows, AggregateFirst, FromIPSummaryDump, FromDump

use super::engine::counts::{Counted, Counts};
use crate::plumbing::engine::call::{HandlerCall, first_word};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Filename, Raw};
use locks::IgnorePoison;
use nix::fcntl::OFlag;
use runtime::{CallArgs, Caller, HandlerError, reason};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Something that happens once, when a number is reached.
struct Limit {
    /// `u64::MAX` if there is none.
    at: AtomicU64,
    call: Mutex<Option<HandlerCall>>,
}

impl Limit {
    fn new(limit: Option<(u64, HandlerCall)>) -> Self {
        let at = limit.as_ref().map_or(u64::MAX, |(at, _)| *at);
        Self { at: AtomicU64::new(at), call: Mutex::new(limit.map(|(_, call)| call)) }
    }
    fn at(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }
    /// What is to be called now, which only one caller gets.
    fn take(&self) -> Option<HandlerCall> {
        if self.at.swap(u64::MAX, Ordering::Relaxed) == u64::MAX {
            return None;
        }
        self.call.lock().ignore_poison().clone()
    }
    fn text(&self) -> String {
        match (self.at(), &*self.call.lock().ignore_poison()) {
            (u64::MAX, _) | (_, None) => String::new(),
            (at, Some(call)) => format!("{at} {call}"),
        }
    }
    /// Reads `N HANDLER [VALUE]`; an empty text is none.
    fn parse(text: &str, most: u64, wrong: &str) -> Result<Option<(u64, HandlerCall)>, String> {
        let (at, call) = first_word(text);
        if at.is_empty() {
            return Ok(None);
        }
        let at =
            text::value::<u64>(at, wrong).and_then(|n| if n <= most { Ok(n) } else { Err(wrong.into()) })?;
        Ok(Some((at, HandlerCall::parse(call).unwrap_or_default())))
    }
    fn write(&self, value: &str, name: &str, most: u64, cx: &Cx<'_>) -> Result<bool, String> {
        let wrong = format!("argument to '{name}' should be 'N HANDLER [VALUE]'");
        let limit = Self::parse(value, most, &wrong)?;
        if let Some((_, call)) = &limit {
            call.check(cx)?;
        }
        let at = limit.as_ref().map_or(u64::MAX, |(at, _)| *at);
        *self.call.lock().ignore_poison() = limit.map(|(_, call)| call);
        self.at.store(at, Ordering::Relaxed);
        Ok(at != u64::MAX)
    }
}

/// What the workers share.
struct Shared {
    /// The counts of each worker.
    lanes: Vec<Mutex<Counts>>,
    /// Whether all workers use the first one's.
    together: AtomicBool,
    frozen: AtomicBool,
    active: AtomicBool,
    aggregates: Limit,
    count: Limit,
    banner: Mutex<String>,
    /// Whether it was said that there is no more room.
    full: AtomicBool,
}

impl Shared {
    fn all(&self) -> Vec<MutexGuard<'_, Counts>> {
        self.lanes.iter().map(|lane| lane.lock().ignore_poison()).collect()
    }
    /// Puts all counts into the first worker's.
    fn join(lanes: &mut [MutexGuard<'_, Counts>]) {
        if let Some((first, others)) = lanes.split_first_mut() {
            others.iter_mut().for_each(|other| first.take(other));
        }
    }
    /// Makes all workers use the same counts from now on.
    fn unite(&self) {
        let mut lanes = self.all();
        Self::join(&mut lanes);
        self.together.store(true, Ordering::Relaxed);
    }
    /// The counts that a worker uses.
    fn lane(&self, worker: usize) -> MutexGuard<'_, Counts> {
        loop {
            let lane = if self.together.load(Ordering::Relaxed) { 0 } else { worker % self.lanes.len() };
            let guard = self.lanes[lane].lock().ignore_poison();
            if lane == 0 || !self.together.load(Ordering::Relaxed) {
                return guard;
            }
        }
    }
    /// All counts, in the order of aggregates.
    fn list(&self) -> Vec<(u32, u32)> {
        let mut list: Vec<(u32, u32)> = self.all().iter().flat_map(|lane| lane.list()).collect();
        list.sort_by_key(|(aggregate, _)| *aggregate);
        list.dedup_by(|next, one| {
            let same = next.0 == one.0;
            one.1 = if same { one.1.wrapping_add(next.1) } else { one.1 };
            same
        });
        list
    }
    fn total(&self) -> u64 {
        self.all().iter().map(|lane| lane.total()).sum()
    }

    /// The contents of a file.
    fn file(&self, format: &str) -> Vec<u8> {
        let (list, total) = (self.list(), self.total());
        let mut head = "!IPAggregate 1.0\n".to_owned();
        head += &*self.banner.lock().ignore_poison();
        if !head.ends_with('\n') {
            head.push('\n');
        }
        let _ = writeln!(head, "!num_nonzero {}", list.len());
        match format {
            "write_file" => {
                head += if cfg!(target_endian = "little") { "!packed_le\n" } else { "!packed_be\n" };
                let numbers = list.iter().flat_map(|(aggregate, count)| [*aggregate, *count]);
                return head.into_bytes().into_iter().chain(numbers.flat_map(u32::to_ne_bytes)).collect();
            }
            "write_ip_file" => head += "!ip\n",
            _ => {}
        }
        for (aggregate, count) in list {
            let _ = match format {
                "write_ip_file" => writeln!(head, "{} {count}", Ipv4Addr::from(aggregate)),
                "write_pdf_file" => {
                    writeln!(head, "{aggregate} {}", text::general(f64::from(count) / total as f64))
                }
                _ => writeln!(head, "{aggregate} {count}"),
            };
        }
        head.into_bytes()
    }
}

/// The handlers that write files.
fn write_file(s: &Shared, caller: &mut dyn Caller, call: &CallArgs<'_>) -> Result<String, HandlerError> {
    let path = text::value::<Filename>(call.value, "argument should be filename");
    let path = path.map_err(HandlerError::Failed)?.0;
    let contents = s.file(call.name);
    let written = if path == "-" {
        let permitted = caller.hub().permits(Outside::Write("-"));
        permitted.map_err(|refused| HandlerError::Failed(refused.to_string()))?;
        std::io::stdout().lock().write_all(&contents).and_then(|()| std::io::stdout().flush())
    } else {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC;
        caller.hub().open(&path, flags).and_then(|mut file| file.write_all(&contents))
    };
    match written {
        Ok(()) => Ok(String::new()),
        Err(e) => Err(HandlerError::Failed(format!("{path}: {}", reason(&e)))),
    }
}

/// The `AggregateCounter` element.
pub struct AggregateCounter {
    shared: Arc<Shared>,
    bytes: bool,
    ip_bytes: bool,
    multipacket: bool,
    extra_length: bool,
    /// Of each packet of a batch, whether it was counted.
    counted: Vec<bool>,
}

/// Reads the arguments `AGGREGATE_*` or `COUNT_*`.
fn limit(
    args: &mut Args<'_>,
    what: &str,
    most: u64,
    me: &str,
) -> Result<Option<(u64, HandlerCall)>, ArgError> {
    let names = ["FREEZE", "STOP", "CALL"].map(|kind| format!("{what}_{kind}"));
    let number = |args: &mut Args<'_>, name: &str| match most {
        u64::MAX => args.k::<u64>(name),
        _ => Ok(args.k::<u32>(name)?.map(u64::from)),
    };
    let (freeze, stop) = (number(args, &names[0])?, number(args, &names[1])?);
    let call = args.k::<Raw>(&names[2])?;
    if usize::from(freeze.is_some()) + usize::from(stop.is_some()) + usize::from(call.is_some()) > 1 {
        let [freeze, stop, call] = &names;
        return Err(args.error(format!("'{freeze}', '{stop}', and '{call}' are mutually exclusive")));
    }
    let own = |at: u64, call: &str| HandlerCall::parse(&format!("{me}.{call}")).map(|call| (at, call));
    if let Some(Raw(call)) = call {
        let counted = if most == u64::MAX { "count" } else { "number of aggregates" };
        let wrong = format!("{what}_CALL first word should be unsigned ({counted})");
        return Limit::parse(&call, most, &wrong).map_err(|e| args.error(e));
    }
    Ok(freeze.and_then(|at| own(at, "freeze true")).or_else(|| stop.and_then(|at| own(at, "stop"))))
}

const MOST_AGGREGATES: u64 = u32::MAX as u64;

impl Element for AggregateCounter {
    const CLASS: &'static str = "AggregateCounter";
    const PORTS: &'static str = "1-2/1-2";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields =
        Fields::AGGREGATE.with(Fields::EXTRA_PACKETS).with(Fields::EXTRA_LENGTH).with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::AnyFile);
    const MANUAL: &'static str = manual!("analysis/aggregatecounter");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let (bytes, ip_bytes) = (args.k_or("BYTES", false)?, args.k_or("IP_BYTES", false)?);
        let multipacket = args.k_or("MULTIPACKET", true)?;
        let extra_length = args.k_or("EXTRA_LENGTH", true)?;
        let aggregates = limit(args, "AGGREGATE", MOST_AGGREGATES, cx.name())?;
        let count = limit(args, "COUNT", u64::MAX, cx.name())?;
        let banner = args.k::<String>("BANNER")?.unwrap_or_default();
        let capacity = args.k_or("CAPACITY", 1u32 << 22)? as usize;
        let (workers, limited) = (cx.workers().max(1), aggregates.is_some() || count.is_some());
        let shared = cx.shared(|| Shared {
            lanes: (0..workers).map(|_| Mutex::new(Counts::new(capacity))).collect(),
            together: AtomicBool::new(limited),
            frozen: AtomicBool::new(false),
            active: AtomicBool::new(true),
            aggregates: Limit::new(aggregates),
            count: Limit::new(count),
            banner: Mutex::new(banner),
            full: AtomicBool::new(false),
        });
        Ok(Self { shared, bytes, ip_bytes, multipacket, extra_length, counted: Vec::new() })
    }

    fn handlers(h: &mut Handlers<Self>) {
        for name in ["write_text_file", "write_ascii_file", "write_file", "write_ip_file", "write_pdf_file"] {
            h.called_write::<Shared>(name, write_file);
        }
        h.shared_read::<Shared>("freeze", |s, _| Ok(s.frozen.load(Ordering::Relaxed).to_string()));
        h.shared_write::<Shared>("freeze", |s, value| {
            let frozen = text::value(value, "type mismatch")?;
            if frozen {
                s.unite();
            }
            s.frozen.store(frozen, Ordering::Relaxed);
            Ok(())
        });
        h.shared_read::<Shared>("active", |s, _| Ok(s.active.load(Ordering::Relaxed).to_string()));
        h.shared_write::<Shared>("active", |s, value| {
            s.active.store(text::value(value, "type mismatch")?, Ordering::Relaxed);
            Ok(())
        });
        h.called_write::<Shared>("stop", |s, caller, _| {
            s.active.store(false, Ordering::Relaxed);
            caller.hub().request_stop();
            Ok(String::new())
        });
        for name in ["reaggregate_counts", "counts_pdf"] {
            h.shared_write::<Shared>(name, |s, _| {
                let mut lanes = s.all();
                Shared::join(&mut lanes);
                if let Some(counts) = lanes.first_mut() {
                    counts.reaggregate();
                }
                Ok(())
            });
        }
        h.shared_write::<Shared>("clear", |s, _| {
            s.all().iter_mut().for_each(|lane| lane.clear());
            Ok(())
        });
        h.shared_read::<Shared>("banner", |s, _| Ok(s.banner.lock().ignore_poison().clone()));
        h.shared_write::<Shared>("banner", |s, value| {
            let line = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
            let text = if value == "\n" { String::new() } else { format!("{value}{line}") };
            *s.banner.lock().ignore_poison() = text;
            Ok(())
        });
        h.read("aggregate_call", |e| e.shared.aggregates.text());
        h.write("aggregate_call", |e, value, cx| {
            if e.shared.aggregates.write(value, "aggregate_call", MOST_AGGREGATES, cx)? {
                e.shared.unite();
            }
            Ok(())
        });
        h.read("count_call", |e| e.shared.count.text());
        h.write("count_call", |e, value, cx| {
            if e.shared.count.write(value, "count_call", u64::MAX, cx)? {
                e.shared.unite();
            }
            Ok(())
        });
        h.shared_read::<Shared>("count", |s, _| Ok(s.total().to_string()));
        h.shared_read::<Shared>("nagg", |s, _| {
            let lanes = s.all();
            let one = lanes.iter().filter(|lane| lane.aggregates() > 0).count() < 2;
            let sum: u64 = lanes.iter().map(|lane| u64::from(lane.aggregates())).sum();
            drop(lanes);
            Ok(if one { sum.to_string() } else { s.list().len().to_string() })
        });
        h.listed(&[
            "write_text_file",
            "write_ascii_file",
            "write_file",
            "write_ip_file",
            "write_pdf_file",
            "freeze c",
            "active c",
            "stop b",
            "reaggregate_counts",
            "counts_pdf",
            "banner %",
            "clear",
            "aggregate_call",
            "count_call",
            "count",
            "nagg",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for limit in [&self.shared.aggregates, &self.shared.count] {
            if let Some(call) = &*limit.call.lock().ignore_poison() {
                call.check(cx)?;
            }
        }
        Ok(())
    }
}

impl AggregateCounter {
    /// How much a packet adds.
    #[inline]
    fn amount(&self, packet: &Packet) -> u32 {
        if !self.bytes {
            let more = if self.multipacket { packet.anno().extra_packets() } else { 0 };
            return more.wrapping_add(1);
        }
        let more = if self.extra_length { packet.extra_length() } else { 0 };
        let before = packet.network_header_offset().filter(|_| self.ip_bytes).unwrap_or(0);
        (packet.len() as u32).wrapping_add(more).wrapping_sub(before as u32)
    }

    /// Counts packets, and says of each whether it was counted.
    fn count(&mut self, packets: &[Packet], port: usize, cx: &mut Cx<'_>, mut each: impl FnMut(bool)) {
        let (s, worker, mut next) = (Arc::clone(&self.shared), cx.worker().0, 0);
        // A call may change anything: the counts are locked anew after each.
        while next < packets.len() {
            let call = {
                let mut counts = s.lane(worker);
                self.count_until_call(&mut counts, packets, &mut next, port, cx, &mut each)
            };
            if let Some(call) = call {
                call.fire_at_once(self, cx);
            }
        }
    }

    fn count_until_call(
        &self,
        counts: &mut Counts,
        packets: &[Packet],
        next: &mut usize,
        port: usize,
        cx: &Cx<'_>,
        each: &mut impl FnMut(bool),
    ) -> Option<HandlerCall> {
        let s = &*self.shared;
        while let Some(packet) = packets.get(*next) {
            if !s.active.load(Ordering::Relaxed) {
                each(false);
                *next += 1;
                continue;
            }
            let (aggregate, amount) = (packet.aggregate(), self.amount(packet));
            let frozen = port == 1 || s.frozen.load(Ordering::Relaxed);
            let limited = !frozen && amount > 0 && u64::from(counts.aggregates()) >= s.aggregates.at();
            if limited && !counts.has(aggregate) {
                counts.add(aggregate, 0, false);
                if let Some(call) = s.aggregates.take() {
                    return Some(call);
                }
            }
            let counted = counts.add(aggregate, amount, frozen);
            if counted == Counted::Full && !s.full.swap(true, Ordering::Relaxed) {
                cx.log(Level::WARN, "AggregateCounter: out of memory!");
            }
            each(counted == Counted::Yes);
            *next += 1;
            if counted == Counted::Yes
                && counts.total() >= s.count.at()
                && let Some(call) = s.count.take()
            {
                return Some(call);
            }
        }
        None
    }
}

impl Vector for AggregateCounter {
    fn push(&mut self, port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        if cx.n_outputs() < 2 {
            self.count(&batch, port, cx, |_| {});
            return cx.output_batch(0, batch);
        }
        let mut counted = std::mem::take(&mut self.counted);
        self.count(&batch, port, cx, |yes| counted.push(yes));
        for (packet, yes) in batch.drain(..).zip(counted.drain(..)) {
            cx.output(usize::from(!yes), packet);
        }
        self.counted = counted;
        cx.recycle(batch);
    }

    fn pull(&mut self, port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let before = out.len();
        let input = if cx.n_inputs() < 2 { 0 } else { port };
        cx.lend(self, |cx| cx.pull(input, max, out));
        self.count(out.get(before..).unwrap_or_default(), port, cx, |_| {});
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn packet(aggregate: u32, bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_aggregate(aggregate);
        packet
    }

    fn send(bench: &mut Bench, port: usize, aggregate: u32) -> usize {
        bench.send(port, packet(aggregate, b"abc"))[0].0
    }

    fn file(bench: &mut Bench, handler: &str) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counts");
        bench.write(handler, path.to_str().unwrap());
        std::fs::read(path).unwrap()
    }

    #[test]
    fn counts_and_writes_files() {
        let mut bench = Bench::with_ports("AggregateCounter(BANNER \"# mine\")", 1, 1);
        for aggregate in [0x0a00_0001, 7, 0x0a00_0001, 0x0a00_0001] {
            send(&mut bench, 0, aggregate);
        }
        assert_eq!((bench.read("count"), bench.read("nagg")), ("4".into(), "2".into()));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let head = "!IPAggregate 1.0\n# mine\n!num_nonzero 2\n";
        assert_eq!(text(file(&mut bench, "write_text_file")), format!("{head}7 1\n167772161 3\n"));
        assert_eq!(text(file(&mut bench, "write_ip_file")), format!("{head}!ip\n0.0.0.7 1\n10.0.0.1 3\n"));
        assert_eq!(text(file(&mut bench, "write_pdf_file")), format!("{head}7 0.25\n167772161 0.75\n"));
        let packed = file(&mut bench, "write_file");
        let numbers: Vec<u8> = [7, 1, 0x0a00_0001u32, 3].into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(packed, [format!("{head}!packed_le\n").into_bytes(), numbers].concat());
        bench.write("banner", "\n");
        bench.write("clear", "");
        assert_eq!(text(file(&mut bench, "write_ascii_file")), "!IPAggregate 1.0\n!num_nonzero 0\n");
    }

    #[test]
    fn amounts() {
        for (arguments, count) in [
            ("", "11"),
            ("MULTIPACKET false", "1"),
            ("BYTES true", "123"),
            ("BYTES true, EXTRA_LENGTH false", "23"),
            ("BYTES true, IP_BYTES true", "109"),
        ] {
            let mut bench = Bench::with_ports(&format!("AggregateCounter({arguments})"), 1, 1);
            let mut packet = packet(1, &[0; 23]);
            packet.set_network_header(14, 9);
            packet.anno_mut().set_extra_packets(10);
            packet.set_extra_length(100);
            bench.send(0, packet);
            assert_eq!(bench.read("count"), count, "{arguments}");
        }
    }

    #[test]
    fn frozen_and_inactive() {
        let mut bench = Bench::with_ports("AggregateCounter()", 2, 2);
        assert_eq!((send(&mut bench, 0, 1), send(&mut bench, 1, 1), send(&mut bench, 1, 2)), (0, 0, 1));
        bench.write("freeze", "true");
        assert_eq!(
            (bench.read("freeze"), send(&mut bench, 0, 1), send(&mut bench, 0, 2)),
            ("true".into(), 0, 1)
        );
        bench.write("freeze", "false");
        bench.write("active", "false");
        assert_eq!((send(&mut bench, 0, 1), bench.read("count")), (1, "3".into()));
        assert!(bench.try_write("active", "maybe").is_err());
    }

    #[test]
    fn limits() {
        let mut bench = Bench::with_ports("AggregateCounter(AGGREGATE_FREEZE 2)", 1, 2);
        assert_eq!(bench.read("aggregate_call"), "2 e.freeze true");
        let ports: Vec<usize> = [1, 2, 1, 3, 2].into_iter().map(|a| send(&mut bench, 0, a)).collect();
        assert_eq!((ports, bench.read("freeze")), (vec![0, 0, 0, 1, 0], "true".into()));
        assert_eq!(bench.read("aggregate_call"), "");
        let mut bench = Bench::with_config(
            "e :: AggregateCounter(COUNT_CALL 3 sw.switch 1) -> sw :: Switch -> a :: Counter -> Discard;
             sw [1] -> b :: Counter -> Discard;",
            1,
            0,
        );
        assert_eq!(bench.read("count_call"), "3 sw.switch 1");
        for aggregate in 0..5 {
            bench.send(0, packet(aggregate, b"x"));
        }
        assert_eq!((bench.read("a.count"), bench.read("b.count")), ("2".into(), "3".into()));
        let mut bench = Bench::with_ports("AggregateCounter(COUNT_STOP 2)", 1, 2);
        let ports: Vec<usize> = [1, 1, 1].into_iter().map(|a| send(&mut bench, 0, a)).collect();
        assert_eq!((ports, bench.read("active")), (vec![0, 0, 1], "false".into()));
        assert_eq!(bench.router().hub().stop_requests(), 1);
    }

    #[test]
    fn a_full_counter_counts_the_aggregates_that_it_has() {
        let mut bench = Bench::with_ports("AggregateCounter(CAPACITY 2)", 1, 2);
        let lines = bench.listen();
        let ports: Vec<usize> = [10, 20, 30, 40, 10].into_iter().map(|a| send(&mut bench, 0, a)).collect();
        assert_eq!(ports, [0, 0, 1, 1, 0]);
        assert_eq!(*lines.lock().ignore_poison(), ["AggregateCounter: out of memory!"]);
    }

    #[test]
    fn workers_count_by_themselves_until_they_must_not() {
        let shared = Shared {
            lanes: (0..3).map(|_| Mutex::new(Counts::new(10))).collect(),
            together: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            active: AtomicBool::new(true),
            aggregates: Limit::new(None),
            count: Limit::new(None),
            banner: Mutex::default(),
            full: AtomicBool::new(false),
        };
        for worker in 0..3 {
            shared.lane(worker).add(5, 1, false);
            shared.lane(worker).add(worker as u32, 1, false);
        }
        let sums = vec![(0, 1), (1, 1), (2, 1), (5, 3)];
        assert_eq!(shared.list(), sums);
        shared.unite();
        assert_eq!((shared.list(), shared.lane(2).aggregates()), (sums, 4));
    }

    #[test]
    fn wrong_arguments() {
        let message = Bench::error("AggregateCounter(AGGREGATE_STOP 1, AGGREGATE_FREEZE 2)");
        assert!(
            message.contains(
                "'AGGREGATE_FREEZE', 'AGGREGATE_STOP', and 'AGGREGATE_CALL' are mutually exclusive"
            )
        );
        let message = Bench::error("AggregateCounter(COUNT_CALL x y)");
        assert!(message.contains("COUNT_CALL first word should be unsigned (count)"), "{message}");
        assert!(Bench::error("AggregateCounter(COUNT_CALL 3 nobody.stop)").contains("nobody"));
    }
}
