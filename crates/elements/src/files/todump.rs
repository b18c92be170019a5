//! # ToDump
//! Writes packets to a capture file that tcpdump, Wireshark and `FromDump` can read (pcap).
//!
//! A packet without a timestamp gets the current time. If writing fails, for example because the disk is
//! full, an error is printed once, the file is truncated after the last whole packet, and further packets are
//! only counted.
//!
//! The file is truncated when the configuration starts to run: a configuration with errors, at the start or
//! in a hot swap, leaves it unchanged. A hot swap to a named pipe without a reader is refused.
//!
//! ## Synopsis
//! `ToDump(FILENAME [, SNAPLEN, ENCAP, USE_ENCAP_FROM, EXTRA_LENGTH, UNBUFFERED, NANO])`
//!
//! ## Arguments
//! - `FILENAME` (*filename*): the file; `-` is standard output. A name that ends in `.gz`, `.bz2` or `.xz` is
//!   packed by gzip, bzip2 or xz.
//! - `SNAPLEN` (*int*, bytes, default 2000): how much is written of a packet; 0 is all.
//! - `ENCAP` (*word*, default `ETHER`): the link type: `ETHER`, `IP`, `FDDI`, `ATM`, `802_11`,
//!   `802_11_RADIO`, `SLL`, `AIRONET`, `HDLC`, `PPP_HDLC`, `PPP`, `SUNATM`, `PRISM`, `NULL`, or `#` and its
//!   number.
//! - `USE_ENCAP_FROM` (*elements*, keyword): takes the link type from the `encap` handlers of these elements,
//!   which must agree.
//! - `EXTRA_LENGTH` (*bool*, keyword, default true): whether packets' extra length counts for their original
//!   length.
//! - `UNBUFFERED` (*bool*, keyword, default false): whether to write every packet at once.
//! - `NANO` (*bool*, keyword, default true): whether times are written in nanoseconds; if not, in
//!   microseconds.
//!
//! ## Ports
//! One input, at most one output; agnostic. With a pull input and no output it pulls packets itself.
//!
//! ## Handlers
//! - `count` (read): packets written.
//! - `drops` (read): packets that could not be written.
//! - `reset_counts` (write): sets both to zero.
//! - `filename` (read): the file.
//! - `flush` (write): writes out what is buffered.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): the task, which an element with a pull input
//!   and no output has.
//!
//! ## Threads
//! All workers write to the same file, a batch at a time.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true) -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> ToDump(/dev/null) -> Discard;
//! ```
//!
//! ## See also
//! FromDump, ToIPSummaryDump, ToDevice

use super::engine::link::Link;
use super::engine::output::{Dump, Framing, Output};
use crate::prelude::*;
use lang::args::{Filename, Raw, Word};
use std::sync::{Arc, MutexGuard, OnceLock};

/// What is in front of every packet in the file.
const RECORD_LEN: usize = 16;

/// What the workers share.
struct Shared {
    path: String,
    dump: OnceLock<Arc<Dump>>,
}

impl Shared {
    fn output(&self) -> Option<MutexGuard<'_, Output>> {
        self.dump.get().map(|d| d.lock())
    }
}

/// The `ToDump` element.
pub struct ToDump {
    shared: Arc<Shared>,
    snaplen: usize,
    link: Link,
    link_from: Vec<String>,
    extra_length: bool,
    unbuffered: bool,
    nano: bool,
}

/// The lengths of records in a buffer.
fn record_len(bytes: &[u8]) -> Option<usize> {
    let captured = bytes.get(8..).and_then(|b| b.first_chunk()).copied().map(u32::from_ne_bytes)?;
    Some(RECORD_LEN + captured as usize)
}

impl Element for ToDump {
    const CLASS: &'static str = "ToDump";
    const PORTS: &'static str = "1/0-1";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DATA.with(Fields::TIMESTAMP).with(Fields::EXTRA_LENGTH);
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] =
        &[drops::NOT_WRITTEN.when("the file cannot be written, and there is no output")];
    const OPENS: Option<Opens> = Some(Opens::WrittenFile);
    const MANUAL: &'static str = manual!("files/todump");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let path = args.mp::<Filename>("FILENAME")?.0;
        cx.permits(Outside::Write(&path), args)?;
        let snaplen = args.p_or::<u32>("SNAPLEN", 2000)?;
        let encap = args.p::<Word>("ENCAP")?;
        let from = args.k::<Raw>("USE_ENCAP_FROM")?;
        let extra_length = args.k_or("EXTRA_LENGTH", true)?;
        let unbuffered = args.k_or("UNBUFFERED", false)?;
        let nano = args.k_or("NANO", true)?;
        if encap.is_some() && from.is_some() {
            return Err(args.error("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'"));
        }
        let link = match &encap {
            None => Link::ETHER,
            Some(word) => Link::parse(&word.0).ok_or_else(|| args.error("bad encapsulation type"))?,
        };
        let mut link_from = Vec::new();
        if let Some(from) = from {
            for word in lang::split_words(&from.0) {
                if cx.find(&word.text).is_none() {
                    return Err(args.error(format!("no element named '{}'", word.text)));
                }
                link_from.push(word.text.to_string());
            }
            if link_from.is_empty() {
                return Err(args.error("element names missing after 'USE_ENCAP_FROM'"));
            }
        }
        let snaplen = if snaplen == 0 { usize::MAX } else { snaplen as usize };
        let shared = cx.shared(|| Shared { path, dump: OnceLock::new() });
        Ok(Self { shared, snaplen, link, link_from, extra_length, unbuffered, nano })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Shared>("count", |s, _| Ok(s.output().map_or(0, |o| o.count()).to_string()));
        h.shared_read::<Shared>("drops", |s, _| Ok(s.output().map_or(0, |o| o.lost()).to_string()));
        h.shared_write::<Shared>("reset_counts", |s, _| {
            if let Some(mut output) = s.output() {
                output.reset_counts();
            }
            Ok(())
        });
        h.shared_read::<Shared>("filename", |s, _| Ok(Output::display(&s.path).to_owned()));
        h.shared_write::<Shared>("flush", |s, _| s.output().map_or(Ok(()), |mut o| o.flush()));
        h.task_only(|ports| ports.input_is_pull(0) && ports.n_outputs() == 0);
        h.listed(&["filename", "count", "reset_counts b", "scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        if !self.link_from.is_empty() {
            self.link = self.agreed(cx)?;
        }
        let (path, name, hub) = (self.shared.path.clone(), cx.name().to_owned(), Arc::clone(cx.hub()));
        let key = format!("ToDump {name} {path} {} {}", self.link.0, self.nano);
        let header = header(self.nano, self.snaplen, self.link);
        let framing = Framing { class: "ToDump", record_len, unbuffered: self.unbuffered, end: b"" };
        let dump = Dump::open(&key, cx.name(), &path, header, framing, &hub)?;
        let begins = Arc::clone(&dump);
        cx.at_change_over(move || begins.begin());
        // Set already by another worker, or when a hot swap kept the configuration.
        let _ = self.shared.dump.set(dump);
        if cx.n_outputs() == 0 && cx.input_is_pull(0) {
            cx.reschedule();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut batch = cx.spare_batch();
        let n = cx.pull_lending(self, 0, cx.batch_size(), &mut batch);
        self.write(&mut batch, cx);
        cx.recycle(batch);
        if n > 0 || cx.upstream_active(0) {
            cx.reschedule();
        }
        n > 0
    }
}

/// The file header.
fn header(nano: bool, snaplen: usize, link: Link) -> Vec<u8> {
    let magic: u32 = if nano { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let snaplen = u32::try_from(snaplen).unwrap_or(u32::MAX);
    let mut bytes = magic.to_ne_bytes().to_vec();
    bytes.extend([2u16, 4].iter().flat_map(|n| n.to_ne_bytes()));
    bytes.extend([0, 0, snaplen, link.0].iter().flat_map(|n| n.to_ne_bytes()));
    bytes
}

impl ToDump {
    /// The link type that the named elements agree on.
    fn agreed(&self, cx: &mut Cx<'_>) -> Result<Link, String> {
        let mut found: Vec<(String, Link)> = Vec::new();
        for name in &self.link_from {
            let id = cx.find(name).ok_or_else(|| format!("no element named '{name}'"))?;
            let full = cx.name_of(id).to_owned();
            let encap = cx
                .read_handler(id, "encap", "")
                .map_err(|_| format!("'{full}' has no 'encap' read handler"))?;
            let link = Link::parse(encap.trim())
                .ok_or_else(|| format!("'{full}.encap' did not return a valid encapsulation type"))?;
            found.push((full, link));
        }
        match found.first() {
            Some((_, first)) if found.iter().all(|(_, l)| l == first) => Ok(*first),
            _ => Err(found
                .iter()
                .fold("source encapsulation types disagree:".to_owned(), |text, (name, link)| {
                    text + &format!("\n  {name} has {}", link.name())
                })),
        }
    }

    /// Writes a batch. Without an output, packets that could not be written are dropped for that.
    fn write(&self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let now = cx.now_ns();
        let mut lost = 0;
        if let Some(mut output) = self.shared.output() {
            for packet in batch.iter() {
                let anno = packet.anno();
                let time = if anno.timestamp_ns == 0 { now } else { anno.timestamp_ns };
                let (seconds, ns) = (time / 1_000_000_000, time % 1_000_000_000);
                let extra = if self.extra_length { anno.extra_length() } else { 0 };
                let data = packet.data();
                let data = data.get(..self.snaplen).unwrap_or(data);
                let fraction = if self.nano { ns } else { ns / 1000 };
                let length = (packet.len() as u32).saturating_add(extra);
                let fields = [seconds as u32, fraction as u32, data.len() as u32, length];
                let written = output.record(|buffer| {
                    buffer.extend(fields.iter().flat_map(|n| n.to_ne_bytes()));
                    buffer.extend_from_slice(data);
                });
                lost += u64::from(!written);
            }
        }
        if cx.n_outputs() == 0 {
            cx.count_drops(lost, drops::NOT_WRITTEN);
        }
    }
}

impl Vector for ToDump {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        self.write(&mut batch, cx);
        if cx.n_outputs() > 0 {
            cx.output_batch(0, batch);
        } else {
            cx.recycle(batch);
        }
    }
    fn pull(&mut self, _port: usize, max: usize, out: &mut Batch, cx: &mut Cx<'_>) {
        let mut batch = cx.spare_batch();
        cx.pull_lending(self, 0, max, &mut batch);
        self.write(&mut batch, cx);
        out.append(&mut batch);
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::files::tests::testfile::TestFile;
    use crate::testing::Bench;
    use runtime::Packet;

    fn at(ns: u64, bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_timestamp_ns(ns);
        packet
    }

    #[test]
    fn writes_what_can_be_read() {
        let file = TestFile::new(b"");
        let mut b = Bench::with_ports(&format!("ToDump({file}, SNAPLEN 4, ENCAP IP, NANO false)"), 1, 1);
        assert_eq!(b.send(0, at(5_000_007_123, b"abcdef")).len(), 1);
        let mut long = at(6_000_000_000, b"x");
        long.set_extra_length(9);
        b.send(0, long);
        assert_eq!((b.read("count"), b.read("drops")), ("2".into(), "0".into()));
        b.write("flush", "");
        let n = |n: u32| n.to_ne_bytes().to_vec();
        let want = [
            n(0xa1b2_c3d4),
            [2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat(),
            n(0),
            n(0),
            n(4),
            n(101),
            n(5),
            n(7),
            n(4),
            n(6),
            b"abcd".to_vec(),
            n(6),
            n(0),
            n(1),
            n(10),
            b"x".to_vec(),
        ];
        assert_eq!(file.read(), want.concat());
        b.write("reset_counts", "");
        assert_eq!(b.read("count"), "0");
    }

    #[test]
    fn buffered_packets_are_written_at_the_end_and_unbuffered_ones_at_once() {
        let file = TestFile::new(b"");
        let mut b = Bench::with_ports(&format!("ToDump({file})"), 1, 0);
        b.send(0, at(1, b"abc"));
        assert_eq!(file.read().len(), 24);
        drop(b);
        assert_eq!(file.read().len(), 24 + 16 + 3);
        let mut b = Bench::with_ports(&format!("ToDump({file}, UNBUFFERED true)"), 1, 0);
        b.send(0, at(1, b"abc"));
        assert_eq!(file.read().len(), 24 + 16 + 3);
    }

    #[test]
    fn a_disk_that_is_full_already_prevents_the_start() {
        assert!(
            Bench::error("ToDump(/dev/full)")
                .contains("/dev/full: unable to write file header: No space left")
        );
    }

    #[test]
    fn link_types() {
        let error = Bench::error;
        assert!(error("ToDump(/dev/null, ENCAP XYZ)").contains("bad encapsulation type"));
        assert!(error("ToDump(/dev/null, ENCAP IP, USE_ENCAP_FROM e)").contains("specify at most one of"));
        assert!(error("ToDump(/dev/null, USE_ENCAP_FROM nobody)").contains("no element named 'nobody'"));
        assert!(error("ToDump(/dev/null, USE_ENCAP_FROM e)").contains("'e' has no 'encap' read handler"));
        let file = TestFile::new(b"");
        let source = TestFile::new(
            &crate::files::engine::capture::tests::Build::pcap(true, 0xa1b2_c3d4, 4, 113).bytes,
        );
        let config = format!("f :: FromDump({source}) -> e :: ToDump({file}, USE_ENCAP_FROM f);");
        let _b = Bench::with_config(&config, 0, 0);
        assert_eq!(file.read()[20..24], 113u32.to_ne_bytes());
    }

    #[test]
    fn pulls_and_is_pulled_through() {
        let file = TestFile::new(b"");
        let config = format!("q :: Queue; q -> e :: ToDump({file}); InfiniteSource(LIMIT 3) -> q;");
        let mut b = Bench::with_config(&config, 0, 0);
        b.run();
        assert_eq!(b.read("count"), "3");
        let config = format!(
            "InfiniteSource(LIMIT 3) -> Queue -> e :: ToDump({file}) -> Unqueue -> c :: Counter -> Discard;"
        );
        let mut b = Bench::with_config(&config, 0, 0);
        b.run();
        assert_eq!((b.read("count"), b.read("c.count")), ("3".into(), "3".into()));
    }
}
