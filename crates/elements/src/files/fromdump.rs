//! # FromDump
//! Reads packets from a capture file: pcap (tcpdump's format) or pcapng, also compressed.
//!
//! A corrupt file, or one that ends in the middle of a packet, is reported when that place is reached; the
//! packets before it are emitted. Packets are annotated with their time, and with their extra length if the
//! capture truncated them.
//!
//! ## Synopsis
//! `FromDump(FILENAME [, TIMING, STOP, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END, END_AFTER, INTERVAL, END_CALL, FILEPOS, MMAP, ...])`
//!
//! ## Arguments
//! - `FILENAME` (*filename*): the file; `-` is standard input. Files compressed with gzip, bzip2 or xz are
//!   decompressed by those programs. A named pipe can be read, but not in a hot swap, which would have to
//!   wait for a writer.
//! - `TIMING` (*bool*, default false): whether to keep the time between packets.
//! - `STOP` (*bool*, keyword, default false): whether to stop the driver at the end.
//! - `ACTIVE` (*bool*, keyword, default true): whether to emit packets.
//! - `SAMPLE` (*number*, 0 to 1, keyword, default 1): the probability with which a packet is emitted.
//! - `FORCE_IP` (*bool*, keyword, default false): whether to emit only IP packets, with their headers marked
//!   and their destination annotation set. This always holds for raw IP captures.
//! - `START`, `START_AFTER` (*seconds*, keyword): begins with the first packet of this time or later; `START`
//!   is a time since the epoch, `START_AFTER` a time since the first packet of the file. Only one may be
//!   given.
//! - `END`, `END_AFTER`, `INTERVAL` (*seconds*, keyword): ends at the first packet of this time or later;
//!   `END` is a time since the epoch, `END_AFTER` since the first packet of the file, `INTERVAL` since the
//!   start. Only one may be given.
//! - `END_CALL` (*write handler and value*, keyword): a handler to call at the end, instead of `STOP`. The
//!   default at an end time is to become inactive.
//! - `FILEPOS` (*int*, bytes, keyword, default 0): the position in the decompressed file at which the first
//!   packet to be read begins.
//! - `MMAP` (*bool*, keyword): accepted for compatibility with Click, without effect.
//!
//! FastClick's keywords:
//! - `ACCELERATION` (*int*, percent, default 100): with `TIMING`, the speed: 200 halves the time between
//!   packets.
//! - `FORCE_LEN` (*int*, bytes, default -1): makes packets so long, 60 to 9000, or with 0 as long as they
//!   were when they were captured. What is missing is zero. In an IPv4 packet, total length and header
//!   checksum become right for it. A raw IP capture has no link header: the length is 14 bytes less.
//! - `PRELOAD` (*int*, bytes), `BURST` (*int*, packets): how the file is read; without effect.
//! - `TIMING_FNT` (*string*): with `TIMING`, the speed in percent as a function of `x`, the seconds since the
//!   first packet, such as `"10 + min(90,10*x)"`. It has the operators and functions of TinyExpr, `min` and
//!   `max`. When it is less than 1, the router stops.
//!
//! ## Ports
//! No input, one or two outputs; agnostic. With `FORCE_IP`, other packets go to output 1 or are dropped.
//!
//! ## Handlers
//! - `count` (read): packets emitted.
//! - `reset_counts` (write): sets `count` to zero.
//! - `active` (read/write): the `ACTIVE` argument.
//! - `stop` (write): becomes inactive and stops the driver.
//! - `encap` (read): the link type, in the form that `ToDump` takes.
//! - `sampling_prob` (read): the probability of `SAMPLE`, as it is stored.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` if that is not known.
//! - `filepos` (read/write): the position in the decompressed file, in bytes.
//! - `packet_filepos` (read): where the last packet begins.
//! - `extend_interval` (write): moves the end time by so many seconds, also when it has been reached, and
//!   becomes active.
//! - `reset_timing` (write): `TIMING` treats the next packet as the first; start and end stay.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the element's task, which an element with
//!   a push output has.
//!
//! ## Threads
//! One worker reads the file.
//!
//! ## Example
//! ```click
//! FromDump(in.pcap, STOP true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! ToDump, FromIPSummaryDump, FromDevice

use super::engine::capture::{Capture, Found, Head, NO_MEMORY};
use super::engine::input::Input;
use super::engine::link::{Link, force_ip};
use super::engine::opened::Opened;
use super::engine::reading::{self, Common, Next, Reading, probability};
use crate::plumbing::engine::call::HandlerCall;
use crate::plumbing::engine::expression::Expression;
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Filename, Raw, Timestamp};
use std::sync::Arc;
use wire::Ipv4;
use wire::ethernet::{ETHERTYPE_IPV4, HEADER_LEN as LINK_LEN};

const NOT_IP: DropReason = DropReason::new("not IP");

/// A limit in time.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Nanoseconds since the epoch.
    At(i64),
    /// Relative to the first packet.
    After(i64),
    /// Relative to the start.
    Span(i64),
}

/// An argument that gives a limit.
type NamedBound = (&'static str, fn(i64) -> Bound);

/// How often the function says what the speed is while no packet is due.
const LOOK_NS: u64 = 10_000_000;

/// The `FromDump` element.
pub struct FromDump {
    common: Common<Capture>,
    force_ip: bool,
    start: Option<Bound>,
    end: Option<Bound>,
    /// The start; known once the first packet has been read.
    start_ns: Option<i64>,
    /// The end; known once the first packet has been read.
    end_ns: Option<i64>,
    /// Whether the end is still to come.
    armed: bool,
    /// Whether `start` and `end` have been computed from the first packet.
    bounded: bool,
    /// Whether the times below have been taken from a packet.
    timed: bool,
    /// The router's clock minus the file's, at the first packet.
    shift_ns: i64,
    /// The time of the first packet.
    first_ns: i64,
    /// The `ACCELERATION` argument, or what the function says now, in percent.
    speed: u32,
    /// The `TIMING_FNT` argument.
    function: Option<Expression>,
    /// The router's time at the first packet.
    began_ns: i64,
    /// The `FORCE_LEN` argument: `None` leaves packets as they are, 0 is the length when they were captured.
    force_len: Option<usize>,
    end_call: Option<HandlerCall>,
    /// A packet whose header has been read, but not its data.
    head: Option<Head>,
    /// A packet that is due later.
    waiting: Option<(Packet, Link)>,
    packet_position: u64,
    count: Counter,
}

fn chosen(args: &mut Args<'_>, of: &[NamedBound], clash: &str) -> Result<Option<Bound>, ArgError> {
    let mut found = None;
    for (name, make) in of {
        // As in Click, a time of zero means none.
        if let Some(t) = args.k::<Timestamp>(name)?.filter(|t| t.ns != 0)
            && found.replace(make(t.ns)).is_some()
        {
            return Err(args.error(clash));
        }
    }
    Ok(found)
}

impl Element for FromDump {
    const CLASS: &'static str = "FromDump";
    const PORTS: &'static str = "0/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::Single;
    const NOTIFY: Notify = Notify::Empty;
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        NOT_IP.when("`FORCE_IP` is set, and the packet is something else"),
        drops::OUT_OF_MEMORY.when("packets of the file for which there was no buffer"),
    ];
    const OPENS: Option<Opens> = Some(Opens::ReadFile);
    const MANUAL: &'static str = manual!("files/fromdump");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        // As in Click, it may stand in front of the name.
        args.k::<bool>("MMAP")?;
        args.consume();
        let path = args.mp::<Filename>("FILENAME")?.0;
        cx.permits(Outside::Read(&path), args)?;
        let hub = Arc::clone(cx.hub());
        let timing = args.p_or("TIMING", false)?;
        let stop = args.k_or("STOP", false)?;
        let active = args.k_or("ACTIVE", true)?;
        let sample = probability(args, cx)?;
        let force_ip = args.k_or("FORCE_IP", false)?;
        let clash = "START and START_AFTER are mutually exclusive";
        let start = chosen(args, &[("START", Bound::At), ("START_AFTER", Bound::After)], clash)?;
        let clash = "END, END_AFTER, and INTERVAL are mutually exclusive";
        let ends: [NamedBound; 3] =
            [("END", Bound::At), ("END_AFTER", Bound::After), ("INTERVAL", Bound::Span)];
        let end = chosen(args, &ends, clash)?;
        let end_call = args.k::<Raw>("END_CALL")?.and_then(|raw| HandlerCall::parse(&raw.0));
        let position = args.k_or::<u64>("FILEPOS", 0)?;
        let speed = args.k_or::<u32>("ACCELERATION", 100)?;
        if speed == 0 {
            return Err(args.error("ACCELERATION must be positive"));
        }
        let force_len = usize::try_from(args.k_or::<i32>("FORCE_LEN", -1)?).ok();
        if force_len.is_some_and(|len| len != 0 && !(60..=9000).contains(&len)) {
            return Err(args.error("FORCE_LEN requires a valid frame size"));
        }
        args.k::<i64>("PRELOAD")?;
        args.k::<u32>("BURST")?;
        let function = args.k::<String>("TIMING_FNT")?.filter(|text| !text.is_empty());
        let function = function.map(|text| Expression::parse(&text)).transpose();
        let function = function.map_err(|e| args.error(format!("TIMING_FNT: {e}")))?;
        if stop && end_call.is_some() {
            return Err(args.error("END_CALL and STOP are mutually exclusive"));
        }
        let key = format!("{} {} {path}", Self::CLASS, cx.name());
        let open = move |path: &str| {
            let mut capture = Capture::open(&hub, path)?;
            if position > 0 {
                let seek = capture.input().seek(position);
                seek.map_err(|e| format!("{}: {e}", Input::display(path)))?;
            }
            Ok(Some(capture))
        };
        let check = move |file: &Opened<Capture>| {
            let link = file.with(|c| c.link()).flatten();
            if force_ip && let Some(link) = link.filter(|l| !l.can_force_ip()) {
                let shown = Input::display(&file.path);
                return Err(format!("{shown}: unknown linktype {}; can't force IP packets", link.0));
            }
            Ok(())
        };
        let file = Opened::before_start(cx, (path, key), open, check);
        Ok(Self {
            common: Common { file, timing, stop, active, sample },
            force_ip,
            start,
            end,
            start_ns: None,
            end_ns: None,
            armed: true,
            bounded: false,
            timed: false,
            shift_ns: 0,
            first_ns: 0,
            speed,
            function,
            began_ns: 0,
            force_len,
            end_call,
            head: None,
            waiting: None,
            packet_position: position,
            count: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.write("reset_counts", |e, _, _| {
            e.count.set(0);
            Ok(())
        });
        reading::handlers(h);
        h.shared_read::<Opened<Capture>>("encap", |s, _| {
            Ok(s.with(|c| c.link()).flatten().map_or_else(|| "<none>".to_owned(), Link::name))
        });
        h.write("filepos", |e, v, cx| {
            let to = text::value(v, "bad file position")?;
            e.common.file.with(|c| c.input().seek(to)).ok_or("the file is closed")??;
            e.head = None;
            e.wake(cx);
            Ok(())
        });
        h.read("packet_filepos", |e| e.packet_position.to_string());
        h.write("extend_interval", |e, v, cx| {
            let by: Timestamp = text::value(v, "'extend_interval' takes a time interval")?;
            e.extend(by.ns);
            e.wake(cx);
            Ok(())
        });
        h.write("reset_timing", |e, _, _| {
            e.timed = false;
            Ok(())
        });
        h.task_only(|ports| !ports.output_is_pull(0));
        h.listed(&[
            "sampling_prob",
            "active c",
            "encap",
            "stop b",
            "packet_filepos",
            "extend_interval",
            "count",
            "reset_counts b",
            "reset_timing b",
            "scheduled",
            "tickets",
            "home_thread",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if let Some(call) = &self.end_call {
            call.check(cx)?;
        }
        // A raw IP capture can contain only IP packets.
        self.force_ip |= self.common.file.with(|c| c.link()).flatten() == Some(Link::RAW);
        self.wake(cx);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        self.push_some(cx)
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        self.wake(cx);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if self.common.file.path == old.common.file.path {
            self.head = old.head.take();
            self.waiting = old.waiting.take();
            self.packet_position = old.packet_position;
            (self.shift_ns, self.first_ns) = (old.shift_ns, old.first_ns);
            self.began_ns = old.began_ns;
            self.count.set(old.count.get());
        }
    }
}

impl Vector for FromDump {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        self.pull_some(max, out, cx);
    }
}

impl Reading for FromDump {
    type File = Capture;
    fn input(capture: &mut Capture) -> &mut Input {
        capture.input()
    }
    fn common(&self) -> &Common<Capture> {
        &self.common
    }
    fn common_mut(&mut self) -> &mut Common<Capture> {
        &mut self.common
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        let (mut packet, link) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.read(cx) {
                Ok(found) => found,
                Err(next) => return next,
            },
        };
        if !self.adjust_speed(cx) {
            self.waiting = Some((packet, link));
            return Next::PassedOver;
        }
        let shift_ns = self.shift_of(packet.timestamp_ns() as i64);
        if let Some(due) = self.common.not_yet(&packet, shift_ns, cx) {
            self.waiting = Some((packet, link));
            let soon = self.function.as_ref().map_or(u64::MAX, |_| cx.now_ns().saturating_add(LOOK_NS));
            return Next::NotYet(due.min(soon));
        }
        if self.force_ip && !force_ip(&mut packet, link) {
            return Next::Refused(packet, NOT_IP);
        }
        Next::Packet(packet)
    }
    fn emits(&mut self) {
        self.count.add(1);
    }
    /// Calls the handler of the end.
    fn ends(&mut self, at_end_time: bool, cx: &mut Cx<'_>) {
        if self.common.stop {
            self.common.active = false;
            cx.request_stop();
        } else if let Some(call) = self.end_call.clone() {
            call.fire(self, cx);
        } else if at_end_time || self.end.is_some() {
            self.common.active = false;
        }
    }
}

impl FromDump {
    /// Moves the end, which is then to come again.
    fn extend(&mut self, by_ns: i64) {
        let Some(Bound::At(ns) | Bound::After(ns) | Bound::Span(ns)) = &mut self.end else { return };
        *ns = ns.saturating_add(by_ns);
        self.end_ns = self.end_ns.map(|end| end.saturating_add(by_ns));
        self.armed = true;
        self.common.active = true;
    }

    /// Computes start and end from the time of the first packet.
    fn bound(&mut self, first_ns: i64) {
        let from_epoch = |bound| match bound {
            Bound::At(ns) => ns,
            Bound::After(ns) => first_ns.saturating_add(ns),
            Bound::Span(ns) => ns,
        };
        self.start_ns = self.start.map(from_epoch);
        self.end_ns = match self.end {
            Some(Bound::Span(ns)) => Some(self.start_ns.unwrap_or(first_ns).saturating_add(ns)),
            end => end.map(from_epoch),
        };
        self.bounded = true;
    }

    /// Has a packet of this time be due now.
    fn time(&mut self, first_ns: i64, cx: &Cx<'_>) {
        self.shift_ns = (cx.now_ns() as i64).saturating_sub(first_ns);
        self.first_ns = first_ns;
        self.began_ns = cx.now_ns() as i64;
        self.timed = true;
    }

    /// Has the speed be what the function says now. Returns false if it says that this is the end.
    fn adjust_speed(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(function) = self.function.as_ref().filter(|_| self.common.timing && self.timed) else {
            return true;
        };
        let now = cx.now_ns() as i64;
        let percent = function.percent_at(now.saturating_sub(self.began_ns) as f64 / 1e9);
        if percent == 0 {
            self.common.active = false;
            cx.request_stop();
            return false;
        }
        if percent != self.speed {
            // From here on, at the new speed: what is due now stays due now.
            let passed = i128::from(now.saturating_sub(self.shift_ns.saturating_add(self.first_ns)));
            let passed = i64::try_from(passed * i128::from(self.speed) / 100).unwrap_or(0);
            self.first_ns = self.first_ns.saturating_add(passed);
            self.shift_ns = now.saturating_sub(self.first_ns);
            self.speed = percent;
        }
        true
    }

    /// The router's clock minus the file's when a packet of this time is due.
    fn shift_of(&self, time_ns: i64) -> i64 {
        if self.speed == 100 {
            return self.shift_ns;
        }
        let after = i128::from(time_ns) - i128::from(self.first_ns);
        let earlier = after - after * 100 / i128::from(self.speed);
        self.shift_ns.saturating_sub(i64::try_from(earlier).unwrap_or(0))
    }

    /// Makes a packet as long as `FORCE_LEN` says. `None` if there is no memory for it.
    fn force_length(&self, packet: Packet, head_len: usize, link: Link) -> Option<Packet> {
        let raw = link == Link::RAW;
        let len = match self.force_len {
            None => return Some(packet),
            Some(0) => head_len,
            Some(len) => {
                if raw {
                    len - LINK_LEN
                } else {
                    len
                }
            }
        };
        let had = packet.len();
        let mut packet = packet.put(len.saturating_sub(had))?;
        packet.take(packet.len() - len);
        if let Some(new) = packet.data_mut().get_mut(had..) {
            new.fill(0);
        }
        packet.set_extra_length(u32::try_from(head_len.saturating_sub(len)).unwrap_or(0));
        packet.set_mac_header(0);
        let bytes = packet.data_mut();
        let ip = match bytes.split_at_mut_checked(LINK_LEN) {
            _ if raw => bytes,
            Some((ether, ip)) if link == Link::ETHER && ether[12..] == ETHERTYPE_IPV4.to_be_bytes() => ip,
            _ => return Some(packet),
        };
        let total = ip.len();
        if let (Ok(total), Some(mut h)) = (u16::try_from(total), Ipv4::new_mut(ip))
            && h.version() == 4
        {
            h.update_total_len(total);
        }
        Some(packet)
    }

    /// The next packet of the file that the arguments select.
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<(Packet, Link), Next> {
        let file = Arc::clone(&self.common.file);
        let found = file.with(|capture| {
            let head = match self.head.take() {
                Some(head) => head,
                None => {
                    self.packet_position = capture.input().position();
                    match capture.head()? {
                        Found::Packet(head) => head,
                        Found::NotYet => return Ok(Err(Next::PassedOver)),
                        Found::End => return Ok(Err(Next::End)),
                    }
                }
            };
            let time_ns = i64::try_from(head.time_ns).unwrap_or(i64::MAX);
            if !self.bounded {
                self.bound(time_ns);
            }
            if !self.timed {
                self.time(time_ns, cx);
            }
            if self.start_ns.is_some_and(|start| time_ns < start) {
                return capture.pass(&head).map(|()| Err(Next::PassedOver));
            }
            self.start_ns = None;
            if self.armed && self.end_ns.is_some_and(|end| time_ns >= end) {
                self.armed = false;
                self.head = Some(head);
                return Ok(Err(Next::EndTime));
            }
            if !self.common.sampled(cx) {
                return capture.pass(&head).map(|()| Err(Next::PassedOver));
            }
            match capture.packet(&head) {
                Err(e) if e == NO_MEMORY => {
                    cx.count_drops(1, drops::OUT_OF_MEMORY);
                    capture.pass(&head).map(|()| Err(Next::PassedOver))
                }
                read => read.map(|p| {
                    let forced = self.force_length(p, head.length as usize, head.link);
                    let Some(p) = forced else {
                        cx.count_drops(1, drops::OUT_OF_MEMORY);
                        return Err(Next::PassedOver);
                    };
                    Ok((p, head.link))
                }),
            }
        });
        match found {
            Some(Ok(found)) => found,
            None => Err(Next::End),
            Some(Err(e)) => {
                cx.log(Level::ERROR, &format!("{}: {e}", Input::display(&file.path)));
                file.close();
                Err(Next::End)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::files::engine::capture::tests::Build;
    use crate::files::tests::testfile::TestFile;
    use crate::testing::Bench;

    /// Packets `a` to `e`, at seconds 10 to 14.
    fn trace() -> Vec<u8> {
        let mut file = Build::pcap(false, 0xa1b2_c3d4, 4, 1);
        for i in 0..5u8 {
            file = file.u32(10 + u32::from(i)).u32(0).u32(1).u32(1).raw(&[b'a' + i]);
        }
        file.bytes
    }

    /// The packets that `FromDump(FILE, arguments)` emits.
    fn run(bytes: &[u8], arguments: &str) -> String {
        let file = TestFile::new(bytes);
        let mut bench = Bench::with_ports(&format!("FromDump({file}{arguments})"), 0, 1);
        bench.run().into_iter().map(|(_, p)| p.iter().map(|b| char::from(*b)).collect::<String>()).collect()
    }

    #[test]
    fn a_packet_without_memory_is_counted_and_the_next_one_read() {
        let file = TestFile::new(&trace());
        let mut bench = Bench::with_ports(&format!("FromDump({file})"), 0, 1);
        dpdk::Fault::Heap.order(2, 2);
        let out: Vec<u8> = bench.run().iter().map(|(_, bytes)| bytes[0]).collect();
        dpdk::Fault::Heap.clear();
        assert_eq!((&out[..], bench.drops()), (&b"ade"[..], vec![("out of memory".to_owned(), 2)]));
    }

    #[test]
    fn lengths_are_forced() {
        use crate::ip::engine::header::sample::{ip, sound};
        let bytes = |link: u32, length: u32, data: &[u8]| {
            let file = Build::pcap(false, 0xa1b2_c3d4, 4, link).u32(10).u32(0);
            file.u32(data.len() as u32).u32(length).raw(data).bytes
        };
        let emitted = |file: &[u8], arguments: &str| {
            let file = TestFile::new(file);
            Bench::with_ports(&format!("FromDump({file}{arguments})"), 0, 1).run().remove(0).1
        };
        let packet = ip(17, &[7; 40]);
        let frame = [&[2; 12], &[8, 0][..], &packet].concat();
        for (link, data, front) in [(1, &frame, 14), (101, &packet, 0)] {
            let file = bytes(link, 500, data);
            for (arguments, want) in
                [("", front + 60), (", FORCE_LEN -1", front + 60), (", FORCE_LEN 0", 500)]
            {
                assert_eq!(emitted(&file, arguments).len(), want, "{link} {arguments}");
            }
            for length in [60, 74, 75, 1514] {
                let out = emitted(&file, &format!(", FORCE_LEN {length}"));
                assert_eq!(out.len(), length - 14 + front, "{link}");
                assert_eq!(usize::from(out[front + 3]) + usize::from(out[front + 2]) * 256, length - 14);
                assert!(sound(&out[front..]) && out[data.len().min(out.len())..].iter().all(|b| *b == 0));
            }
        }
        // What is not IP only changes its length.
        let other = [&[2; 12], &[8, 6][..], &packet].concat();
        assert_eq!(emitted(&bytes(1, 74, &other), ", FORCE_LEN 60"), other[..60]);
        for arguments in ["FORCE_LEN 59", "FORCE_LEN 9001"] {
            assert!(
                Bench::error(&format!("FromDump(x, {arguments})"))
                    .contains("FORCE_LEN requires a valid frame size")
            );
        }
    }

    #[test]
    fn packets_come_as_fast_as_is_wanted() {
        let file = TestFile::new(&trace());
        for (speed, want) in [
            ("ACCELERATION 100", [0, 1000, 2000]),
            ("ACCELERATION 200", [0, 500, 1000]),
            ("ACCELERATION 50", [0, 2000, 4000]),
            ("TIMING_FNT 200", [0, 500, 1000]),
            // Twice as fast after the first second.
            ("TIMING_FNT \"100 * floor(1 + x)\"", [0, 1000, 1500]),
        ] {
            let config = format!("e :: FromDump({file}, TIMING true, {speed}) -> c :: Counter -> Discard;");
            let mut bench = Bench::simulated(&config, 0, 0);
            let start = bench.router().now_ns();
            let mut at = Vec::new();
            while at.len() < 3 {
                bench.turn();
                let count: usize = bench.read("c.count").parse().unwrap();
                at.resize(count.max(at.len()), (bench.router().now_ns() - start) / 1_000_000);
            }
            assert_eq!(at[..3], want, "{speed}");
        }
        let config = format!("e :: FromDump({file}, TIMING true, TIMING_FNT \"200 - 200 * x\") -> Discard;");
        let mut bench = Bench::simulated(&config, 0, 0);
        bench.turns(1000);
        assert_eq!((bench.read("active"), bench.read("count")), ("false".into(), "2".into()));
        assert!(Bench::error("FromDump(x, ACCELERATION 0)").contains("ACCELERATION must be positive"));
        assert!(Bench::error("FromDump(x, TIMING_FNT \"y\")").contains("TIMING_FNT: unknown 'y'"));
    }

    #[test]
    fn times_bound_what_is_read() {
        let t = trace();
        assert_eq!(run(&t, ""), "abcde");
        assert_eq!(run(&t, ", START 12"), "cde");
        assert_eq!(run(&t, ", START_AFTER 1"), "bcde");
        assert_eq!(run(&t, ", END 12"), "ab");
        assert_eq!(run(&t, ", START 11, INTERVAL 2"), "bc");
        assert_eq!(run(&t, ", INTERVAL 2"), "ab");
        assert_eq!(run(&t, ", END_AFTER 1.5"), "ab");
        assert_eq!(run(&t, ", SAMPLE 0"), "");
        assert_eq!(run(&t, ", ACTIVE false"), "");
        assert_eq!(run(&t, ", FILEPOS 41"), "bcde");
        assert!(
            Bench::error("FromDump(x, START 1, START_AFTER 1)").contains("START and START_AFTER are mut")
        );
        assert!(Bench::error("FromDump(x, END 1, INTERVAL 1)").contains("END, END_AFTER, and INTERVAL are"));
        assert!(Bench::error("FromDump(x, STOP true, END_CALL stop)").contains("END_CALL and STOP are"));
        assert!(Bench::error("FromDump(/nonexistent)").contains("/nonexistent: No such file or directory"));
    }

    #[test]
    fn handlers() {
        let file = TestFile::new(&trace());
        let mut b = Bench::with_ports(&format!("FromDump({file}, END_AFTER 2, SAMPLE 1)"), 0, 1);
        assert_eq!(b.run().len(), 2);
        assert_eq!((b.read("active"), b.read("count"), b.read("encap")), {
            ("false".into(), "2".into(), "ETHER".into())
        });
        assert_eq!((b.read("filesize"), b.read("packet_filepos")), ("109".into(), "58".into()));
        b.write("filepos", "92");
        b.write("active", "true");
        assert_eq!(b.run(), [(0, b"e".to_vec())]);
        assert_eq!(b.read("sampling_prob"), "1");
        assert!(b.try_write("filepos", "110").is_err());
    }

    #[test]
    fn the_interval_can_be_extended() {
        let file = TestFile::new(&trace());
        let config = |arguments: &str| format!("FromDump({file}, {arguments})");
        let emitted = |b: &mut Bench| b.run().len();
        for arguments in ["END 12", "END_AFTER 2", "INTERVAL 2"] {
            let mut b = Bench::with_ports(&config(arguments), 0, 1);
            assert_eq!((emitted(&mut b), b.read("active")), (2, "false".into()));
            b.write("extend_interval", "2");
            assert_eq!((emitted(&mut b), b.read("active")), (2, "false".into()), "{arguments}");
            b.write("extend_interval", "100");
            assert_eq!((emitted(&mut b), b.read("count")), (1, "5".into()), "{arguments}");
            // Also before the first packet.
            let mut b = Bench::with_ports(&config(&format!("{arguments}, ACTIVE false")), 0, 1);
            b.write("extend_interval", "1");
            assert_eq!((emitted(&mut b), b.read("active")), (3, "false".into()), "{arguments}");
        }
        // By the handler that the end calls.
        let mut b = Bench::with_ports(&config("END 12, END_CALL e.extend_interval 2"), 0, 1);
        b.turns(20);
        assert_eq!((b.read("count"), b.read("active")), ("5".into(), "true".into()));
        // Without an end there is nothing to move.
        let mut b = Bench::with_ports(&config("ACTIVE false"), 0, 1);
        b.write("extend_interval", "1");
        assert_eq!((emitted(&mut b), b.read("active")), (0, "false".into()));
    }

    #[test]
    fn a_reset_of_the_timing_leaves_start_and_end() {
        let mut file = Build::pcap(false, 0xa1b2_c3d4, 4, 1);
        for i in 0..30u32 {
            file = file.u32(10 + i / 10).u32(i % 10 * 100_000).u32(1).u32(1).raw(b"x");
        }
        let file = TestFile::new(&file.bytes);
        for (arguments, reset_at_ms, want) in
            [("END_AFTER 1", 550, 10), ("START_AFTER 1", 550, 20), ("START_AFTER 1", 1550, 20)]
        {
            let mut b = Bench::simulated(&format!("e :: FromDump({file}, TIMING true, {arguments});"), 0, 1);
            let start = b.router().now_ns();
            let mut reset = false;
            for _ in 0..200 {
                if !reset && b.router().now_ns() - start >= reset_at_ms * 1_000_000 {
                    b.write("reset_timing", "");
                    reset = true;
                }
                b.turn();
            }
            assert_eq!((b.read("count"), reset), (want.to_string(), true), "{arguments}");
        }
    }

    #[test]
    fn keeps_the_time_between_packets() {
        let file = TestFile::new(&trace());
        let mut b = Bench::simulated(&format!("e :: FromDump({file}, TIMING true);"), 0, 1);
        let start = b.router().now_ns();
        let mut times = Vec::new();
        for _ in 0..100 {
            b.turn();
            let now = (b.router().now_ns() - start) / 1_000_000_000;
            times.extend(b.take().iter().map(|_| now));
        }
        assert_eq!(times, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_file_cut_in_a_packet_gives_the_packets_before() {
        let t = trace();
        let file = TestFile::new(&t[..t.len() - 18]);
        let mut b = Bench::with_ports(&format!("FromDump({file}, STOP true)"), 0, 1);
        let lines = b.listen();
        assert_eq!(b.run().len(), 3);
        assert_eq!(*lines.lock().unwrap(), [format!("{file}: file cut off in the middle of a packet")]);
        // The driver has been stopped, as STOP requires.
        assert_eq!((b.read("active"), b.read("count")), ("false".into(), "3".into()));
    }

    #[test]
    fn only_ip_if_asked() {
        let ip = crate::ip::engine::header::sample::ip(17, &[0; 8]);
        let frame = |kind: u16| [&[0; 12][..], &kind.to_be_bytes(), &ip].concat();
        let mut t = Build::pcap(true, 0xa1b2_c3d4, 4, 1);
        for f in [frame(0x0800), frame(0x0806)] {
            t = t.u32(1).u32(1).u32(f.len() as u32).u32(f.len() as u32).raw(&f);
        }
        let file = TestFile::new(&t.bytes);
        let mut b = Bench::with_ports(&format!("FromDump({file}, FORCE_IP true)"), 0, 2);
        for _ in 0..10 {
            b.turn();
        }
        let out = b.take();
        assert_eq!(out.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(out[0].1.network_header_offset(), Some(14));
        assert_eq!((out[0].1.mac_header_offset(), out[0].1.dst_ip()), (Some(0), [10, 0, 0, 2]));
        let file = TestFile::new(&Build::pcap(true, 0xa1b2_c3d4, 4, 147).bytes);
        assert!(
            Bench::error(&format!("FromDump({file}, FORCE_IP true)"))
                .contains("unknown linktype 147; can't force IP packets")
        );
    }

    #[test]
    fn is_pulled_from() {
        let file = TestFile::new(&trace());
        let config =
            format!("e :: FromDump({file}, STOP true); u :: Unqueue; c :: Counter; e -> u -> c -> Discard;");
        let mut b = Bench::with_config(&config, 0, 0);
        b.run();
        assert_eq!(b.read("c.count"), "5");
    }
}
