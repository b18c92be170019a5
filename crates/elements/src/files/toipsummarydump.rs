//! # ToIPSummaryDump
//! Writes a line of text, or a binary record, about each packet.
//!
//! The file begins with a line `!IPSummaryDump 1.3` and a line `!data` with the names of the fields. A field
//! that does not apply to a packet is a dash. The format is Click's, and that of the ipsumdump program.
//!
//! With `BINARY`, records follow after a line `!binary`: four bytes with the length of the whole record, then
//! the fields, in network byte order, in the sizes that Click's manual gives them. A field that does not
//! apply to a packet is zero. A record whose highest bit is set holds a line of text, such as `!bad`.
//!
//! ## Synopsis
//! `ToIPSummaryDump(FILENAME [, CONTENTS, VERBOSE, HEADER, BANNER, BINARY, MULTIPACKET, BAD_PACKETS, CAREFUL_TRUNC, EXTRA_LENGTH])`
//!
//! ## Arguments
//! - `FILENAME` (*filename*): the file; `-` is standard output.
//! - `CONTENTS` (*words*, keyword, default `timestamp ip_src`): the fields; `FIELDS` and `DATA` are other
//!   names for it. There are `timestamp` (seconds), `ts_sec`, `ts_usec`, `ts_usec1` (all in microseconds),
//!   `first_timestamp`, `count` (packets), `link` (the paint), `direction` (`>`, `<` or the paint),
//!   `aggregate`, `wire_len` (bytes); `eth_src`, `eth_dst`, `eth_type`; `ip_src`, `ip_dst`, `ip_len`,
//!   `ip_capture_len`, `ip_hl` (bytes), `ip_proto` (`T`, `U`, `I` or a number), `ip_id`, `ip_tos`, `ip_dscp`,
//!   `ip_ecn`, `ip_ttl`, `ip_sum`, `ip_frag` (`F` first, `f` later, `!` not allowed, `.` none), `ip_fragoff`
//!   (bytes, `+` more, `!` not allowed), `ip_opt`; `sport`, `dport`; `tcp_seq`, `tcp_ack`, `tcp_off` (bytes),
//!   `tcp_flags` (letters `FSRPAUECN`), `tcp_window`, `tcp_urp`, `tcp_opt`, `tcp_ntopt` (without timestamps),
//!   `tcp_sack`; `udp_len`; `icmp_type`, `icmp_code`, `icmp_type_name`, `icmp_code_name`, `icmp_flowid`,
//!   `icmp_seq`, `icmp_nextmtu`; `payload` (a string), `payload_len`, `payload_md5` (the MD5 digest, in 22
//!   characters) and `payload_md5_hex` (in 32 hexadecimal digits); `none`.
//! - `VERBOSE` (*bool*, keyword, default false): whether to begin with the host's name and the time, also as
//!   a date in UTC.
//! - `HEADER` (*bool*, keyword, default true): whether to write the lines at the beginning.
//! - `BANNER` (*string*, keyword): written in a line `!creator`.
//! - `BINARY` (*bool*, keyword, default false): whether to write binary records. They cannot have the field
//!   `payload`.
//! - `MULTIPACKET` (*bool*, keyword, default false): whether a packet that represents several gets as many
//!   lines.
//! - `BAD_PACKETS` (*bool*, keyword, default false): whether to write a line `!bad` with the error of the
//!   next packet.
//! - `CAREFUL_TRUNC` (*bool*, keyword, default true): whether a packet that is shorter than its IP length is
//!   bad.
//! - `EXTRA_LENGTH` (*bool*, keyword, default true): whether packets' extra length annotation counts.
//!
//! ## Ports
//! One input, at most one output, to which all packets go; the input is agnostic, the output pushes. IP
//! headers must have been marked. A pull input is pulled from.
//!
//! ## Handlers
//! - `flush` (write): writes out what is buffered.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): the task, which an element with a pull input
//!   has.
//!
//! ## Threads
//! All workers write to the same file; lines never mix.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<4500001c 00000000 40110000 0a000001 0a000002 0001000200080000>, LIMIT 1, STOP true)
//!   -> MarkIPHeader -> ToIPSummaryDump(/dev/null, CONTENTS timestamp ip_src sport ip_dst dport ip_proto);
//! ```
//!
//! ## See also
//! FromIPSummaryDump, ToDump, IPPrint

use super::engine::binary;
use super::engine::facts::Facts;
use super::engine::fields::{self, Field, Width};
use super::engine::fieldtext;
use super::engine::fieldvalue::value;
use super::engine::output::{Dump, Framing, Output};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{Filename, Raw};
use std::sync::{Arc, MutexGuard, OnceLock};

/// What the workers share.
#[derive(Default)]
struct Shared(OnceLock<Arc<Dump>>);

impl Shared {
    fn output(&self) -> Option<MutexGuard<'_, Output>> {
        self.0.get().map(|d| d.lock())
    }
}

/// The `ToIPSummaryDump` element.
pub struct ToIpSummaryDump {
    path: String,
    shared: Arc<Shared>,
    fields: Vec<Field>,
    verbose: bool,
    header: bool,
    banner: String,
    multipacket: bool,
    bad_packets: bool,
    careful: bool,
    extra_length: bool,
    binary: bool,
    line: String,
    record: Vec<u8>,
}

impl Element for ToIpSummaryDump {
    const CLASS: &'static str = "ToIPSummaryDump";
    const PORTS: &'static str = "1/0-1";
    const PROCESSING: &'static str = "a/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::ANNOTATIONS);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[drops::NOT_WRITTEN
        .when("the file cannot be written, and there is no output; the error is printed once")];
    const OPENS: Option<Opens> = Some(Opens::WrittenFile);
    const MANUAL: &'static str = manual!("files/toipsummarydump");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let path = args.mp::<Filename>("FILENAME")?.0;
        cx.permits(Outside::Write(&path), args)?;
        let mut contents = "timestamp ip_src".to_owned();
        for name in ["FIELDS", "CONTENTS", "DATA"] {
            contents = args.k::<Raw>(name)?.map_or(contents, |raw| raw.0);
        }
        let verbose = args.k_or("VERBOSE", false)?;
        let header = args.k_or("HEADER", true)?;
        let banner = args.k::<String>("BANNER")?.unwrap_or_default();
        let multipacket = args.k_or("MULTIPACKET", false)?;
        let bad_packets = args.k_or("BAD_PACKETS", false)?;
        let careful = args.k_or("CAREFUL_TRUNC", true)?;
        let extra_length = args.k_or("EXTRA_LENGTH", true)?;
        let binary = args.k_or("BINARY", false)?;
        let (mut fields, mut wrong) = (Vec::new(), None);
        for word in fields::words(&contents) {
            let Some(field) = fields::find(&word) else {
                wrong = Some(args.error(format!("unknown content type '{word}'")));
                continue;
            };
            if binary && field.width == Width::TextOnly {
                wrong = Some(args.error(format!("cannot use field {word} with BINARY")));
            }
            fields.push(field);
        }
        if fields.is_empty() {
            wrong = Some(args.error("no contents specified"));
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let shared = cx.shared(Shared::default);
        let line = String::new();
        Ok(Self {
            path,
            shared,
            fields,
            verbose,
            header,
            banner,
            multipacket,
            bad_packets,
            careful,
            extra_length,
            binary,
            line,
            record: Vec::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_write::<Shared>("flush", |s, _| s.output().map_or(Ok(()), |mut o| o.flush()));
        h.task_only(|ports| ports.input_is_pull(0));
        h.listed(&["scheduled", "tickets", "home_thread", "flush"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let hub = Arc::clone(cx.hub());
        let header = if self.header { self.head(cx.now_ns()) } else { String::new() };
        let line_len = |b: &[u8]| b.iter().position(|c| *c == b'\n').map(|at| at + 1);
        let record_len = if self.binary { binary::record_len } else { line_len };
        let framing = Framing { class: "ToIPSummaryDump", record_len, unbuffered: false, end: b"" };
        let key = format!("ToIPSummaryDump {} {} {} {}", cx.name(), self.path, self.data(), self.binary);
        let dump = Dump::open(&key, cx.name(), &self.path, header.into_bytes(), framing, &hub)?;
        let begins = Arc::clone(&dump);
        cx.at_change_over(move || begins.begin());
        // Set already by another worker, or when a hot swap kept the configuration.
        let _ = self.shared.0.set(dump);
        if cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.spare_batch();
        let n = cx.pull_lending(self, 0, cx.batch_size(), &mut batch);
        self.push(0, batch, cx);
        if n > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        n > 0
    }
}

impl ToIpSummaryDump {
    fn data(&self) -> String {
        let name = |f: &Field| match f.name {
            // As text, both have as many digits as there are.
            "ntimestamp" if !self.binary => "timestamp",
            name => name,
        };
        self.fields.iter().map(name).collect::<Vec<_>>().join(" ")
    }

    /// The lines at the beginning.
    fn head(&self, now_ns: u64) -> String {
        let mut head = "!IPSummaryDump 1.3\n".to_owned();
        if !self.banner.is_empty() {
            head += &format!("!creator {}\n", lang::quote(&self.banner));
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                head += &format!("!host {}\n", host.trim());
            }
            head += &format!("!runtime {} ({})\n", text::timestamp(now_ns as i64), text::date(now_ns));
        }
        let binary = if self.binary { "!binary\n" } else { "" };
        head + &format!("!data {}\n{binary}", self.data())
    }

    /// Writes the line or record of a packet. False if it is lost.
    fn write(&mut self, packet: &Packet, output: &mut Output) -> bool {
        let mut facts = Facts::of(packet, self.careful, self.extra_length);
        if self.binary {
            // Fields are looked at before the record is begun, because what is wrong precedes it.
            self.record.clear();
            binary::put_record(&mut self.record, |record| {
                for field in &self.fields {
                    binary::put(field, value(field.kind, &mut facts), record);
                }
            });
            if let Some(bad) = facts.bad.filter(|_| self.bad_packets) {
                output.record(|b| binary::put_line(&format!("!bad {bad}\n"), b));
            }
            return output.record(|b| b.extend_from_slice(&self.record));
        }
        self.line.clear();
        for (i, field) in self.fields.iter().enumerate() {
            if i > 0 {
                self.line.push(' ');
            }
            match value(field.kind, &mut facts) {
                Some(value) => fieldtext::write(field.kind, value, &facts, &mut self.line),
                None => self.line.push('-'),
            }
        }
        self.line.push('\n');
        if let Some(bad) = facts.bad.filter(|_| self.bad_packets) {
            output.record(|b| b.extend_from_slice(format!("!bad {bad}\n").as_bytes()));
        }
        output.record(|b| b.extend_from_slice(self.line.as_bytes()))
    }

    /// A packet that stands for several: a line for each, with their share of length and time.
    fn write_all(&mut self, packet: &mut Packet, output: &mut Output) -> bool {
        let count = u64::from(packet.anno().extra_packets()) + 1;
        let counted = self.fields.iter().any(|f| f.name == "count");
        if !self.multipacket || counted || count == 1 {
            return self.write(packet, output);
        }
        let saved = *packet.anno();
        let len = packet.len() as u64;
        let extra = if self.extra_length { u64::from(saved.extra_length()) } else { 0 };
        let mut left = (len + extra).max(count * len);
        let first = saved.first_timestamp_ns();
        let step = if first > 0 { saved.timestamp_ns.saturating_sub(first) / (count - 1) } else { 0 };
        let mut time = if first > 0 { first } else { saved.timestamp_ns };
        let mut written = true;
        for i in (1..=count).rev() {
            let share = left / i;
            left -= share;
            let anno = packet.anno_mut();
            anno.set_extra_packets(0);
            anno.set_extra_length((share - len) as u32);
            anno.timestamp_ns = if i == 1 { saved.timestamp_ns } else { time };
            time = time.saturating_add(step);
            written &= self.write(packet, output);
        }
        *packet.anno_mut() = saved;
        written
    }
}

impl Vector for ToIpSummaryDump {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let shared = Arc::clone(&self.shared);
        let mut lost = 0;
        if let Some(mut output) = shared.output() {
            for packet in batch.iter_mut() {
                lost += u64::from(!self.write_all(packet, &mut output));
            }
        }
        if cx.n_outputs() > 0 {
            cx.output_batch(0, batch);
        } else {
            cx.count_drops(lost, drops::NOT_WRITTEN);
            cx.recycle(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::files::tests::testfile::TestFile;
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::plumbing::engine::text;
    use crate::testing::Bench;

    const ALL: &str = "ip_src ip_dst ip_len ip_hl ip_proto ip_id ip_tos ip_dscp ip_ecn ip_ttl ip_sum ip_frag ip_fragoff \
        ip_opt ip_capture_len sport dport tcp_seq tcp_ack tcp_off tcp_flags tcp_window tcp_urp tcp_opt tcp_ntopt tcp_sack \
        udp_len icmp_type icmp_code icmp_type_name icmp_code_name icmp_flowid icmp_seq icmp_nextmtu payload payload_len";

    #[test]
    fn bad_packets_are_named() {
        let file = TestFile::new(b"");
        let mut b =
            Bench::with_ports(&format!("ToIPSummaryDump({file}, CONTENTS sport, BAD_PACKETS true)"), 1, 1);
        let udp = ip(17, &[0, 7, 0, 8, 0, 8, 0, 0]);
        for bytes in [&udp[..], &udp[..21], &ip(1, &[0; 8]), &[0x60; 20]] {
            assert_eq!(b.push_packet(0, marked(bytes)).len(), 1);
        }
        b.push(0, b"no header");
        b.write("flush", "");
        assert_eq!(
            String::from_utf8(file.read()).unwrap(),
            "!IPSummaryDump 1.3\n!data sport\n7\n!bad truncated IP missing 7\n-\n-\n!bad IP version 6\n-\n!bad no IP header\n-\n"
        );
    }

    #[test]
    fn cut_packets_have_dashes() {
        let file = TestFile::new(b"");
        let mut b = Bench::with_ports(&format!("ToIPSummaryDump({file}, CONTENTS {ALL})"), 1, 1);
        let mut count = 0;
        for proto in [1, 6, 17, 99] {
            let bytes = ip(proto, &[0x5a; 60]);
            for cut in 0..bytes.len() {
                b.push_packet(0, marked(&bytes[..cut]));
                count += 1;
            }
        }
        b.write("flush", "");
        let text = String::from_utf8(file.read()).unwrap();
        assert_eq!(text.lines().count(), count + 2);
    }

    #[test]
    fn binary_records() {
        let file = TestFile::new(b"");
        let mut b = Bench::with_ports(
            &format!(
                "ToIPSummaryDump({file}, BINARY true, CONTENTS ip_src sport ip_proto tcp_opt, BAD_PACKETS true)"
            ),
            1,
            0,
        );
        b.push_packet(0, marked(&ip(17, &[0, 7, 0, 8, 0, 8, 0, 0])));
        b.push(0, b"no header");
        b.write("flush", "");
        let mut expected = b"!IPSummaryDump 1.3\n!data ip_src sport ip_proto tcp_opt\n!binary\n".to_vec();
        let header = ip(17, &[]);
        expected.extend([0, 0, 0, 12]);
        expected.extend(&header[12..16]);
        expected.extend([0, 7, 17, 0]);
        expected.extend([0x80, 0, 0, 22]);
        expected.extend(b"!bad no IP header\n");
        expected.extend([0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(file.read(), expected);
    }

    #[test]
    fn the_time_is_written_as_a_date_too() {
        let file = TestFile::new(b"");
        let config = format!("e :: ToIPSummaryDump({file}, VERBOSE true);");
        drop(Bench::simulated(&config, 1, 0));
        let text = String::from_utf8(file.read()).unwrap();
        let line = text.lines().find(|line| line.starts_with("!runtime ")).unwrap();
        let (time, date) = line.split_once(" (").unwrap();
        let seconds: f64 = time["!runtime ".len()..].parse().unwrap();
        let expected = text::date((seconds * 1e9) as u64);
        assert_eq!(date, format!("{expected})"));
    }

    #[test]
    fn wrong_arguments() {
        let error = Bench::error("ToIPSummaryDump(/dev/null, CONTENTS foo bar)");
        for part in ["unknown content type 'foo'", "unknown content type 'bar'", "no contents specified"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(
            Bench::error("ToIPSummaryDump(/dev/null, BINARY true, CONTENTS ip_src payload)")
                .contains("cannot use field payload with BINARY")
        );
        assert!(
            Bench::error("ToIPSummaryDump(/dev/null, CONTENTS nonsense)")
                .contains("unknown content type 'nonsense'")
        );
        assert!(Bench::error("ToIPSummaryDump(/dev/null, CONTENTS \"\")").contains("content"));
        let _b = Bench::with_ports("ToIPSummaryDump(/dev/null, CONTENTS src \"tcp seq\" length)", 1, 0);
    }
}
