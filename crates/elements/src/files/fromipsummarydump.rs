//! # FromIPSummaryDump
//! Makes packets from lines of text, or from binary records, that describe them.
//!
//! Reads the output of `ToIPSummaryDump` and of the ipsumdump program, also with `BINARY`: after a line
//! `!binary`, the file has records, in which a field that a packet did not have is zero. Missing fields are
//! zero; the time to live is 100. Packets contain only the bytes that are known; the rest of their length is
//! in an annotation. Only the first line or record that cannot be read is reported, with its number. Fields
//! that are unknown, or of which no packet can be made, are ignored, each with a warning.
//!
//! ## Synopsis
//! `FromIPSummaryDump(FILENAME [, STOP, ACTIVE, TIMING, CHECKSUM, SAMPLE, PROTO, MULTIPACKET, CONTENTS, FLOWID, ALLOW_NONEXISTENT, DATA, ZERO, MMAP])`
//!
//! ## Arguments
//! - `FILENAME` (*filename*): the file; `-` is standard input. Files compressed with gzip, bzip2 or xz are
//!   decompressed by those programs.
//! - `STOP` (*bool*, keyword, default false): whether to stop the driver at the end.
//! - `ACTIVE` (*bool*, keyword, default true): whether to emit packets.
//! - `TIMING` (*bool*, keyword, default false): whether to keep the time between packets.
//! - `CHECKSUM` (*bool*, keyword, default false): whether packets get their whole length, and correct
//!   checksums.
//! - `SAMPLE` (*number*, 0 to 1, keyword, default 1): the probability with which a packet is emitted.
//! - `PROTO` (*int*, 0 to 255, keyword, default 6): the protocol of packets for which the file gives none.
//! - `MULTIPACKET` (*bool*, keyword, default false): whether a line with a `count` makes that many packets.
//! - `CONTENTS` (*words*, keyword): the fields of each line, until a `!data` line in the file changes them;
//!   see `ToIPSummaryDump`. `FIELDS`, `DEFAULT_CONTENTS` and `DEFAULT_FIELDS` are other names for it.
//! - `FLOWID` (*words*, keyword): source address, source port, destination address, destination port and
//!   optionally protocol, for packets for which the file gives none. `DEFAULT_FLOWID` is another name for it.
//! - `ALLOW_NONEXISTENT` (*bool*, keyword, default false): whether a file that does not exist is treated as a
//!   file without packets.
//! - `DATA` (*string*, keyword): the text itself, instead of `FILENAME`.
//! - `ZERO`, `MMAP` (*bool*, keyword), FastClick's `BURST` (*int*, packets): accepted for compatibility; make
//!   no difference.
//!
//! ## Ports
//! No input, one output; agnostic.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//! - `stop` (write): becomes inactive and stops the driver.
//! - `encap` (read): `IP`.
//! - `sampling_prob` (read): the probability of `SAMPLE`, as it is stored.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` if that is not known.
//! - `filepos` (read): the position in the decompressed file, in bytes.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the element's task, which an element with
//!   a push output has.
//!
//! ## Threads
//! One worker reads the file.
//!
//! ## Example
//! ```click
//! FromIPSummaryDump(in.dump, STOP true, CHECKSUM true) -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ToIPSummaryDump, FromDump

use super::engine::capture::NO_MEMORY;
use super::engine::format::Format;
use super::engine::input::Input;
use super::engine::opened::Opened;
use super::engine::reading::{self, Common, Next, Reading, probability};
use crate::prelude::*;
use lang::args::{Filename, Raw};
use std::path::Path;
use std::sync::Arc;

/// The `FromIPSummaryDump` element.
pub struct FromIpSummaryDump {
    common: Common<Input>,
    format: Format,
    checksum: bool,
    multipacket: bool,
    /// The router's clock minus the file's.
    shift_ns: Option<i64>,
    waiting: Option<Packet>,
    /// A line whose packets have not all been made.
    group: Option<Group>,
}

/// A line that stands for several packets.
struct Group {
    /// What they are copies of.
    packet: Packet,
    /// How many there are, and how many have been made.
    count: u64,
    made: u64,
    /// The length of all, and of each but the last.
    total: u64,
    each: u64,
    /// The time of the first, of the last, and between the others.
    start_ns: u64,
    last_ns: u64,
    step_ns: u64,
}

impl Group {
    /// The packets for which one stands, by its annotations.
    fn new(mut packet: Packet) -> Self {
        let count = u64::from(packet.anno().extra_packets()) + 1;
        let len = packet.len() as u64;
        let total = (len + u64::from(packet.extra_length())).max(count * len);
        let (first, last) = (packet.anno().first_timestamp_ns(), packet.timestamp_ns());
        let step = last.saturating_sub(first).checked_div(count - 1).unwrap_or(0);
        let (start_ns, step_ns) = if first > 0 { (first, step) } else { (last, 0) };
        packet.anno_mut().set_extra_packets(0);
        Self { packet, count, made: 0, total, each: total / count, start_ns, last_ns: last, step_ns }
    }

    /// The next one, and whether it is the last. `None` if there is no memory for it.
    fn next(&mut self) -> (Option<Packet>, bool) {
        let is_last = self.made + 1 == self.count;
        let (length, time_ns) = if is_last {
            (self.total - self.each * (self.count - 1), self.last_ns)
        } else {
            (self.each, self.start_ns.saturating_add(self.step_ns * self.made))
        };
        self.made += 1;
        let packet = self.packet.duplicate().map(|mut packet| {
            resize(&mut packet, length, time_ns);
            packet
        });
        (packet, is_last)
    }
}

impl Element for FromIpSummaryDump {
    const CLASS: &'static str = "FromIPSummaryDump";
    const PORTS: &'static str = "0/1";
    const SHARING: Sharing = Sharing::Single;
    const NOTIFY: Notify = Notify::Empty;
    const READS: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::OUT_OF_MEMORY.when("packets that lines stand for, and that could not be made")];
    const OPENS: Option<Opens> = Some(Opens::ReadFile);
    const MANUAL: &'static str = manual!("files/fromipsummarydump");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        // As in Click, it may stand in front of the name.
        args.k::<bool>("MMAP")?;
        args.k::<u32>("BURST")?;
        args.consume();
        let path = args.p::<Filename>("FILENAME")?.map(|f| f.0);
        path.iter().try_for_each(|path| cx.permits(Outside::Read(path), args))?;
        let hub = Arc::clone(cx.hub());
        let stop = args.k_or("STOP", false)?;
        let active = args.k_or("ACTIVE", true)?;
        let timing = args.k_or("TIMING", false)?;
        let checksum = args.k_or("CHECKSUM", false)?;
        let multipacket = args.k_or("MULTIPACKET", false)?;
        let nonexistent = args.k_or("ALLOW_NONEXISTENT", false)?;
        let sample = probability(args, cx)?;
        let mut format = Format::new(args.k_or("PROTO", 6)?);
        // As in Click, the last one counts.
        let mut contents = None;
        for name in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            contents = args.k::<Raw>(name)?.or(contents);
        }
        if let Some(Raw(contents)) = contents.filter(|raw| !raw.0.is_empty()) {
            format.data(&contents).map_err(|e| args.error(e))?.into_iter().for_each(|text| cx.warn(text));
        }
        for name in ["DEFAULT_FLOWID", "FLOWID"] {
            if let Some(raw) = args.k::<Raw>(name)? {
                format.flow(&raw.0).map_err(|e| args.error(e))?;
            }
        }
        let data = args.k::<String>("DATA")?;
        args.k::<bool>("ZERO")?;
        if path.is_some() && data.is_some() {
            return Err(args.error("FILENAME and DATA conflict"));
        } else if path.is_none() && data.is_none() {
            return Err(args.error("FILENAME: required argument missing"));
        }
        let path = path.unwrap_or_else(|| "<data>".to_owned());
        let key = format!("{} {} {path} {}", Self::CLASS, cx.name(), data.as_deref().unwrap_or(""));
        let open = move |path: &str| {
            let input = match data {
                Some(data) => Some(Input::bytes("<data>", data.as_bytes())),
                None if nonexistent && path != "-" && !Path::new(path).exists() => None,
                None => Some(Input::open(&hub, path)?),
            };
            if !nonexistent && input.as_ref().is_some_and(|i| i.size() == Some(0)) {
                return Err(format!("{path}: empty file"));
            }
            Ok(input)
        };
        let file = Opened::before_start(cx, (path, key), open, |_| Ok(()));
        Ok(Self {
            common: Common { file, timing, stop, active, sample },
            format,
            checksum,
            multipacket,
            shift_ns: None,
            waiting: None,
            group: None,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        reading::handlers(h);
        h.read("encap", |_| "IP".to_owned());
        h.task_only(|ports| !ports.output_is_pull(0));
        h.listed(&[
            "sampling_prob",
            "active c",
            "encap",
            "stop b",
            "filename",
            "filesize",
            "filepos",
            "scheduled",
            "tickets",
            "home_thread",
        ]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
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
            self.format = old.format.clone();
            self.shift_ns = old.shift_ns;
            self.waiting = old.waiting.take();
            self.group = old.group.take();
        }
    }
}

impl Vector for FromIpSummaryDump {
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        self.pull_some(max, out, cx);
    }
}

impl Reading for FromIpSummaryDump {
    type File = Input;
    fn input(input: &mut Input) -> &mut Input {
        input
    }
    fn common(&self) -> &Common<Input> {
        &self.common
    }
    fn common_mut(&mut self) -> &mut Common<Input> {
        &mut self.common
    }

    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        let packet = match self.waiting.take() {
            Some(packet) => packet,
            None => match self.of_group(cx).unwrap_or_else(|| self.read(cx)) {
                Ok(packet) => packet,
                Err(next) => return next,
            },
        };
        if self.common.timing {
            let at = packet.timestamp_ns() as i64;
            let shift = *self.shift_ns.get_or_insert((cx.now_ns() as i64).saturating_sub(at));
            if let Some(due) = self.common.not_yet(&packet, shift, cx) {
                self.waiting = Some(packet);
                return Next::NotYet(due);
            }
        }
        if self.common.sampled(cx) { Next::Packet(packet) } else { Next::PassedOver }
    }
    fn ends(&mut self, _at_end_time: bool, cx: &mut Cx<'_>) {
        if self.common.stop {
            cx.request_stop();
        }
    }
}

/// What a file has next.
enum Entry {
    Line(String),
    Record(Vec<u8>),
}

/// A line that is in a record, without its end.
fn text(bytes: &[u8]) -> Entry {
    Entry::Line(String::from_utf8_lossy(bytes).trim_end_matches(['\0', '\n', '\r']).to_owned())
}

/// Where a line, or a record, is.
fn place(path: &str, number: u64, binary: bool) -> String {
    let record = if binary { "record " } else { "" };
    format!("{}:{record}{number}", Input::display(path))
}

impl FromIpSummaryDump {
    /// The packet of the next line or record.
    fn read(&mut self, cx: &mut Cx<'_>) -> Result<Packet, Next> {
        let file = Arc::clone(&self.common.file);
        let binary = self.format.is_binary();
        let next = |input: &mut Input| {
            let entry = if binary {
                input.record().map(|r| {
                    r.map(|(bytes, is_line)| if is_line { text(&bytes) } else { Entry::Record(bytes) })
                })
            } else {
                input.line().map(|line| line.map(Entry::Line))
            };
            entry.map(|entry| (entry, input.lines()))
        };
        let Some(entry) = file.with(next) else { return Err(Next::End) };
        let (entry, number) = match entry {
            Ok((Some(entry), number)) => (entry, number),
            Ok((None, _)) => {
                if let Some(Err(e)) = file.with(|i| i.finish()) {
                    cx.log(Level::ERROR, &format!("{}: {e}", Input::display(&file.path)));
                }
                return Err(Next::End);
            }
            Err(e) => {
                cx.log(Level::ERROR, &e);
                return Err(Next::End);
            }
        };
        let parsed = match &entry {
            Entry::Record(record) => self.format.record(record, self.checksum),
            Entry::Line(line) => self.read_line(line, number, &file.path, cx),
        };
        if self.format.is_binary() && !binary {
            file.with(Input::count_anew);
        }
        match parsed {
            Ok(Some(packet)) if self.multipacket && packet.anno().extra_packets() > 0 => {
                self.group = Some(Group::new(packet));
                self.of_group(cx).unwrap_or(Err(Next::PassedOver))
            }
            Ok(Some(packet)) => Ok(packet),
            Ok(None) => Err(Next::PassedOver),
            Err(e) if e == NO_MEMORY => {
                cx.count_drops(1, drops::OUT_OF_MEMORY);
                Err(Next::PassedOver)
            }
            Err(e) => {
                cx.log(Level::WARN, &format!("{}: {e}", place(&file.path, number, binary)));
                Err(Next::PassedOver)
            }
        }
    }

    /// The packet of a line, if it describes one.
    fn read_line(
        &mut self,
        line: &str,
        number: u64,
        path: &str,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, String> {
        match line.chars().next() {
            Some('!') => {
                let place = place(path, number, self.format.is_binary());
                for text in self.format.bang(line)? {
                    cx.log(Level::WARN, &format!("{place}: warning: {text}"));
                }
                Ok(None)
            }
            Some('#') => Ok(None),
            _ => {
                if number == 1 && !self.format.has_fields() {
                    let text = "warning: missing banner line; is this an IP summary dump?";
                    cx.log(Level::WARN, &format!("{}:1: {text}", Input::display(path)));
                }
                self.format.packet(line, self.checksum)
            }
        }
    }

    /// The next packet of a line that stands for several.
    fn of_group(&mut self, cx: &mut Cx<'_>) -> Option<Result<Packet, Next>> {
        let (packet, is_last) = self.group.as_mut()?.next();
        if is_last {
            self.group = None;
        }
        Some(packet.ok_or_else(|| {
            cx.count_drops(1, drops::OUT_OF_MEMORY);
            Next::PassedOver
        }))
    }
}

/// Sets length and time of a packet that is one of a group.
fn resize(packet: &mut Packet, length: u64, time_ns: u64) {
    let link = packet.network_header_offset().and_then(|o| usize::try_from(o).ok()).unwrap_or(0) as u64;
    let extra = length.saturating_sub(packet.len() as u64);
    packet.set_extra_length(u32::try_from(extra).unwrap_or(u32::MAX));
    packet.set_timestamp_ns(time_ns);
    if let Some(mut h) = packet.network_header_mut().and_then(wire::Ipv4::new_mut) {
        h.set_total_len(u16::try_from(length.saturating_sub(link)).unwrap_or(u16::MAX));
    }
}

#[cfg(test)]
mod tests {
    use crate::files::tests::testfile::TestFile;
    use crate::testing::Bench;

    #[test]
    fn a_packet_without_memory_is_counted_and_the_next_line_read() {
        let lines = "1.0.0.1\n1.0.0.2\n1.0.0.3\n1.0.0.4\n";
        let file = TestFile::new(format!("!IPSummaryDump 1.3\n!data ip_src\n{lines}").as_bytes());
        let mut bench = Bench::with_ports(&format!("FromIPSummaryDump({file})"), 0, 1);
        let messages = bench.listen();
        dpdk::Fault::Heap.order(2, 2);
        let out: Vec<u8> = bench.run().iter().map(|(_, bytes)| bytes[15]).collect();
        dpdk::Fault::Heap.clear();
        assert_eq!((&out[..], bench.drops()), (&[1, 4][..], vec![("out of memory".to_owned(), 2)]));
        assert!(messages.lock().unwrap().is_empty(), "it is counted, not reported line by line");
    }

    /// What `ToIPSummaryDump` writes about the packets of a dump, with the same fields.
    fn back(fields: &str, lines: &str, arguments: &str) -> String {
        let from = TestFile::new(format!("!IPSummaryDump 1.3\n!data {fields}\n{lines}").as_bytes());
        let to = TestFile::new(b"");
        let mut b = Bench::with_config(
            &format!(
                "e :: FromIPSummaryDump({from}{arguments}) -> ToIPSummaryDump({to}, HEADER false, CONTENTS {fields}) -> c :: Counter -> Discard;"
            ),
            0,
            0,
        );
        b.turns(20);
        drop(b);
        String::from_utf8(to.read()).unwrap()
    }

    #[test]
    fn fields_survive() {
        for (fields, lines) in [
            (
                "timestamp ip_src sport ip_dst dport ip_proto",
                "1.500000 1.2.3.4 80 5.6.7.8 1024 T\n2.000000 1.2.3.4 53 5.6.7.8 53 U\n",
            ),
            (
                "ip_proto tcp_flags tcp_seq tcp_ack tcp_window tcp_opt",
                "T SA 7 8 9 mss1460;wscale7;sackok\nT . 0 0 0 .\nT FC 1 1 1 sack1-2;99=1:2\n",
            ),
            ("ip_ttl ip_id ip_fragoff ip_tos", "3 4 0+ 16\n9 1 184! 0\n"),
            ("ip_len payload_len ip_proto", "1500 1460 T\n60 32 U\n"),
            ("link direction count aggregate", "3 3 5 77\n"),
            ("ip_proto icmp_type icmp_code icmp_flowid icmp_seq", "I 8 0 5 6\nI 3 1 - -\n"),
            ("eth_src eth_dst ip_src", "02-00-00-00-00-01 02-00-00-00-00-02 1.1.1.1\n"),
            ("ip_opt ip_proto", "148=0:0 99\n"),
            ("ip_proto payload", "U \"a b\\n\\\"c\\\"\"\n"),
        ] {
            assert_eq!(back(fields, lines, ""), lines, "{fields}");
            if !fields.contains("ip_opt") {
                assert_eq!(back(fields, lines, ", CHECKSUM true"), lines, "{fields}");
            }
        }
    }

    #[test]
    fn fields_survive_in_binary_records() {
        for (fields, lines, again) in [
            (
                "timestamp ip_src sport ip_dst dport ip_proto",
                "1.500000 1.2.3.4 80 5.6.7.8 1024 T\n2.000000 1.2.3.4 53 5.6.7.8 53 U\n",
                None,
            ),
            ("ntimestamp ts_usec1", "1.123456789 1123456\n", Some("1.123456 1123456\n")),
            ("ts_usec1 ntimestamp", "1123456 1.123456789\n", Some("1123456 1.123456789\n")),
            (
                "ip_proto tcp_flags tcp_seq tcp_ack tcp_window tcp_opt",
                "T SA 7 8 9 mss1460;wscale7;sackok\nT . 0 0 0 .\nT FC 1 1 1 sack1-2;99=1:2\n",
                None,
            ),
            ("ip_ttl ip_id ip_fragoff ip_tos", "3 4 0+ 16\n9 1 184! 0\n", None),
            ("ip_src ip_frag", "1.1.1.1 F\n1.1.1.1 .\n1.1.1.1 !\n1.1.1.1 f\n", None),
            ("ip_len payload_len ip_proto", "1500 1460 T\n60 32 U\n", None),
            ("link direction count aggregate", "3 3 5 77\n", None),
            ("ip_proto icmp_type icmp_code icmp_flowid icmp_seq", "I 8 0 5 6\nI 3 1 - -\n", None),
            ("eth_src eth_dst ip_src", "02-00-00-00-00-01 02-00-00-00-00-02 1.1.1.1\n", None),
            ("ip_opt ip_proto ip_src", "148=0:0 99 1.0.0.1\n", None),
            // A field that the packet does not have stays one that it does not have.
            ("ip_src sport tcp_seq ip_proto icmp_type", "1.0.0.1 - - 99 -\n1.0.0.1 5 - U -\n", None),
        ] {
            let from = TestFile::new(format!("!IPSummaryDump 1.3\n!data {fields}\n{lines}").as_bytes());
            let (middle, to) = (TestFile::new(b""), TestFile::new(b""));
            for (from, to, arguments) in [(&from, &middle, "BINARY true"), (&middle, &to, "HEADER false")] {
                let mut b = Bench::with_config(
                    &format!(
                        "e :: FromIPSummaryDump({from}) -> ToIPSummaryDump({to}, {arguments}, CONTENTS {fields}) -> c :: Counter -> Discard;"
                    ),
                    0,
                    0,
                );
                b.turns(20);
            }
            assert_eq!(String::from_utf8(to.read()).unwrap(), again.unwrap_or(lines), "{fields}");
        }
    }

    #[test]
    fn binary_records_that_are_wrong() {
        let head = b"!IPSummaryDump 1.3\n!data ip_src sport tcp_opt\n!binary\n";
        let records: [(&[u8], usize, &str); 7] = [
            // A line of text may change the fields.
            (b"\x80\0\0\x10!data count\n\0\0\0\x04", 0, "record 2: packet parse error"),
            (b"\0\0\0\x04", 0, "record 1: packet parse error"),
            (b"\0\0\0\x08\x01\x02\x03\x04\0\0\0\x03", 1, "record 2: binary record too short"),
            (b"\x7f\0\0\x08\x01\x02\x03\x04", 0, "record 1: binary record too long"),
            // The end of the file comes too early.
            (b"\0\0\0\x09\x01\x02\x03\x04", 0, ""),
            (b"\0\0", 0, ""),
            // The options are longer than the record.
            (b"\0\0\0\x0c\x01\x02\x03\x04\0\x07\xff\x01", 1, ""),
        ];
        for (bytes, packets, message) in records {
            let file = TestFile::new(&[head, bytes].concat());
            let mut b = Bench::with_ports(&format!("FromIPSummaryDump({file}, STOP true)"), 0, 1);
            let lines = b.listen();
            assert_eq!(b.run().len(), packets, "{bytes:?}");
            let expected: Vec<String> =
                [message].iter().filter(|m| !m.is_empty()).map(|m| format!("{file}:{m}")).collect();
            assert_eq!(*lines.lock().unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn several_packets_a_line() {
        let out =
            back("timestamp first_timestamp count ip_len", "4.000000 1.000000 4 400\n", ", MULTIPACKET true");
        let times: Vec<_> = out.lines().map(|l| l.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(times, ["1.000000", "2.000000", "3.000000", "4.000000"]);
        assert!(out.lines().all(|l| l.ends_with(" 1 100")), "{out}");
    }

    #[test]
    fn a_line_stands_for_any_number_of_packets() {
        let data = "!data count ip_src\n70000 1.1.1.1\n3 1.1.1.1\n";
        let config =
            format!("e :: FromIPSummaryDump(DATA \"{data}\", MULTIPACKET true) -> c :: Counter -> Discard;");
        let mut b = Bench::with_config(&config, 0, 0);
        b.turn();
        let once: u64 = b.read("c.count").parse().unwrap();
        assert!(once < 1000, "{once} packets in one run of the task");
        b.turns(70_100);
        assert_eq!((b.read("c.count"), b.drops()), ("70003".into(), vec![]));
    }

    #[test]
    fn copies_without_memory_are_counted() {
        let config = "FromIPSummaryDump(DATA \"5\", CONTENTS count, MULTIPACKET true)";
        let mut b = Bench::with_ports(config, 0, 1);
        dpdk::Fault::Heap.order(3, 2);
        let emitted = b.run().len();
        dpdk::Fault::Heap.clear();
        assert_eq!((emitted, b.drops()), (3, vec![("out of memory".to_owned(), 2)]));
    }

    #[test]
    fn fields_that_are_not_read_are_named() {
        let file = TestFile::new(b"!data ip_src foo 'bar x' payload_md5 baz none\n1.0.0.1 1 2 3 4 5\n");
        let mut b = Bench::with_ports(&format!("FromIPSummaryDump({file})"), 0, 1);
        let lines = b.listen();
        assert_eq!(b.run().len(), 1);
        let warnings = [
            "unknown content type 'foo'",
            "unknown content type 'bar x'",
            "content type 'payload_md5' ignored on input",
            "unknown content type 'baz'",
            "content type 'none' ignored on input",
        ];
        assert_eq!(*lines.lock().unwrap(), warnings.map(|text| format!("{file}:1: warning: {text}")));
        let mut b = Bench::with_ports("FromIPSummaryDump(DATA \"1.0.0.1 7\", CONTENTS ip_src foo)", 0, 1);
        assert_eq!(b.run().len(), 1);
    }

    #[test]
    fn bad_lines_are_reported_once() {
        let file = TestFile::new(
            b"!data ip_src sport\n\n# note\nx y\nz\n1.1.1.1 70000\n!flowid 1\n1.1.1.1 7\n\xff\xfe \x00",
        );
        let mut b = Bench::with_ports(&format!("FromIPSummaryDump({file}, STOP true)"), 0, 1);
        let lines = b.listen();
        assert_eq!(b.run().len(), 2);
        assert_eq!(
            *lines.lock().unwrap(),
            [format!("{file}:4: packet parse error"), format!("{file}:7: bad !flowid specification"),]
        );
    }

    #[test]
    fn values_that_cannot_be_do_no_harm() {
        let fields = "ip_hl tcp_off ip_len payload_len wire_len ip_fragoff tcp_opt ip_opt payload count";
        for value in ["0", "255", "65535", "4294967295", "-1", "x", "\"", "1=2:3", "mss", "ts1:", "8191", "+"]
        {
            let line = [value; 10].join(" ") + "\n";
            for arguments in ["", ", CHECKSUM true", ", MULTIPACKET true, SAMPLE 0.01"] {
                back(fields, &line, arguments);
            }
        }
    }

    #[test]
    fn arguments() {
        let error = Bench::error;
        assert!(error("FromIPSummaryDump(DATA x, FILENAME y)").contains("FILENAME and DATA conflict"));
        assert!(error("FromIPSummaryDump()").contains("FILENAME: required argument missing"));
        assert!(error("FromIPSummaryDump(/nonexistent)").contains("No such file"));
        let config = "FromIPSummaryDump(DATA \"1.1.1.1\", CONTENTS ip_src, FLOWID - 5 2.2.2.2 6 U)";
        let mut b = Bench::with_ports(config, 0, 1);
        let out = b.run();
        assert_eq!((out[0].1[9], &out[0].1[12..24]), (17, &[1, 1, 1, 1, 2, 2, 2, 2, 0, 5, 0, 6][..]));
        let mut b = Bench::with_ports("FromIPSummaryDump(/nonexistent, ALLOW_NONEXISTENT true)", 0, 1);
        assert!(b.run().is_empty());
    }
}
