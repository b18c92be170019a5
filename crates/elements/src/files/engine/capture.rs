//! Reads packets from capture files: pcap (both byte orders, microseconds and nanoseconds, and the modified
//! format of old Linux systems) and pcapng (draft-ietf-opsawg-pcapng).

use super::input::Input;
use super::link::Link;
use dpdk::Packet;

/// The error of [`Capture::packet`] if there is no memory for a packet.
pub(in crate::files) const NO_MEMORY: &str = crate::drops::OUT_OF_MEMORY.text();

/// The longest packet; a longer length in a file means that the file is corrupt.
const LONGEST: u32 = 65535;

/// How many blocks without a packet are read in one call; a file may consist only of such blocks.
const BLOCKS: usize = 64;
/// How many blocks are read to find the first description of an interface when a file is opened.
const FIRST_BLOCKS: usize = 1 << 16;
/// The most interfaces that a section may describe; more mean that the file is corrupt.
const INTERFACES: usize = 1 << 16;

/// The results of [`Capture::head`].
#[derive(Clone, Copy, Debug)]
pub(in crate::files) enum Found {
    /// A packet.
    Packet(Head),
    /// No packet yet, after many blocks; there are more.
    NotYet,
    /// The end of the file.
    End,
}

/// The header of the next packet.
#[derive(Clone, Copy, Debug)]
pub(in crate::files) struct Head {
    /// Nanoseconds since the epoch.
    pub(in crate::files) time_ns: u64,
    /// Bytes in the file.
    pub(in crate::files) captured: u32,
    /// Bytes that the packet had on the wire.
    pub(in crate::files) length: u32,
    pub(in crate::files) link: Link,
    /// Bytes after the packet's data that do not belong to it.
    after: u64,
}

#[derive(Clone, Copy)]
struct Interface {
    link: Link,
    snaplen: u32,
    /// Time units per second.
    ticks: u64,
    offset_s: i64,
}

enum Format {
    Pcap { nanoseconds: bool, extra: u64, minor: u16, link: Link },
    Ng { interfaces: Vec<Interface> },
}

/// A block of a pcapng file.
enum Block {
    /// The beginning of a section, which has been read.
    Section,
    /// The type of another block, and the length of its body.
    Other(u32, u32),
}

/// A capture file.
pub(in crate::files) struct Capture {
    input: Input,
    big: bool,
    format: Format,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or([0; N])
}

impl Capture {
    pub(in crate::files) fn open(hub: &runtime::Hub, name: &str) -> Result<Self, String> {
        Self::new(Input::open(hub, name)?)
    }

    fn new(input: Input) -> Result<Self, String> {
        let name = input.name().to_owned();
        let mut it = Self { input, big: false, format: Format::Ng { interfaces: Vec::new() } };
        it.start().map_err(|e| format!("{name}: {e}"))?;
        Ok(it)
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let b = array(bytes, at);
        if self.big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) }
    }
    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let b = array(bytes, at);
        if self.big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
    }

    fn start(&mut self) -> Result<(), String> {
        let mut head = [0; 24];
        let (magic, rest) = head.split_at_mut(4);
        match self.input.read(magic)? {
            0 => return Err("empty file".into()),
            4 => {}
            _ => return Err("not a tcpdump file (too short)".into()),
        }
        if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
            return self.start_ng();
        }
        if self.input.read(rest)? < rest.len() {
            return Err("not a tcpdump file (too short)".into());
        }
        let (nanoseconds, extra) = match array(&head, 0) {
            [0xd4, 0xc3, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3, 0xd4] => (false, 0),
            [0x4d, 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0x3c, 0x4d] => (true, 0),
            [0x34, 0xcd, 0xb2, 0xa1] | [0xa1, 0xb2, 0xcd, 0x34] => (false, 8),
            _ => return Err("not a tcpdump file (bad magic number)".into()),
        };
        self.big = head.first() == Some(&0xa1);
        let major = self.u16(&head, 4);
        if major != 2 {
            return Err(format!("unknown major version {major}"));
        }
        let link = Link::from_file(self.u32(&head, 20));
        self.format = Format::Pcap { nanoseconds, extra, minor: self.u16(&head, 6), link };
        Ok(())
    }

    /// Called after the type of the first section header block was read: continues to the first interface.
    fn start_ng(&mut self) -> Result<(), String> {
        self.section()?;
        for _ in 0..FIRST_BLOCKS {
            if !matches!(&self.format, Format::Ng { interfaces } if interfaces.is_empty()) {
                break;
            }
            match self.block()? {
                None => break,
                Some(Block::Section) => {}
                Some(Block::Other(kind, len)) => self.other_block(kind, len)?,
            }
        }
        Ok(())
    }

    /// Called after the type of a section header block was read.
    fn section(&mut self) -> Result<(), String> {
        let mut fixed = [0; 20];
        if self.input.read(&mut fixed)? < fixed.len() {
            return Err("not a pcapng file (too short)".into());
        }
        self.big = match array(&fixed, 4) {
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            _ => return Err("not a pcapng file (bad byte-order magic)".into()),
        };
        let (len, major) = (self.u32(&fixed, 0), self.u16(&fixed, 8));
        if major != 1 {
            return Err(format!("unknown pcapng version {major}"));
        }
        if len < 28 || len % 4 != 0 {
            return Err("bad block header; giving up".into());
        }
        self.format = Format::Ng { interfaces: Vec::new() };
        self.skip(u64::from(len) - 24)
    }

    /// Reads the header of the next block, or the whole block if it begins a section.
    fn block(&mut self) -> Result<Option<Block>, String> {
        let mut head = [0; 8];
        let (kind, len) = head.split_at_mut(4);
        match self.input.read(kind)? {
            0 => {
                self.input.finish()?;
                return Ok(None);
            }
            4 => {}
            _ => return Err("file cut off in the middle of a block header".into()),
        }
        if kind == [0x0a, 0x0d, 0x0d, 0x0a] {
            self.section()?;
            return Ok(Some(Block::Section));
        }
        if self.input.read(len)? < 4 {
            return Err("file cut off in the middle of a block header".into());
        }
        let (kind, len) = (self.u32(&head, 0), self.u32(&head, 4));
        if len < 12 || len % 4 != 0 {
            return Err("bad block header; giving up".into());
        }
        Ok(Some(Block::Other(kind, len - 12)))
    }

    /// Handles a block without a packet: an interface, or one to skip.
    fn other_block(&mut self, kind: u32, len: u32) -> Result<(), String> {
        const INTERFACE: u32 = 1;
        // Its options are a few names; more mean that the file is corrupt.
        const MOST: u32 = 1 << 20;
        if kind != INTERFACE {
            return self.skip(u64::from(len) + 4);
        }
        if !(8..MOST).contains(&len) {
            return Err("bad interface description; giving up".into());
        }
        let mut body = vec![0; len as usize];
        if self.input.read(&mut body)? < body.len() {
            return Err("file cut off in the middle of an interface description".into());
        }
        let mut new = Interface {
            link: Link::from_file(self.u16(&body, 0).into()),
            snaplen: self.u32(&body, 4),
            ticks: 1_000_000,
            offset_s: 0,
        };
        let mut at = 8;
        while at + 4 <= body.len() {
            let (code, size) = (self.u16(&body, at), usize::from(self.u16(&body, at + 2)));
            let Some(value) = body.get(at + 4..at + 4 + size) else { break };
            match (code, value) {
                (0, _) => break,
                // if_tsresol: a negative power of ten, or of two.
                (9, [r]) => {
                    let power = u32::from(r & 0x7f);
                    let base: u64 = if r & 0x80 == 0 { 10 } else { 2 };
                    new.ticks = base.checked_pow(power).ok_or("bad interface description; giving up")?;
                }
                (14, v) if v.len() == 8 => {
                    let b = array(v, 0);
                    new.offset_s = if self.big { i64::from_be_bytes(b) } else { i64::from_le_bytes(b) };
                }
                _ => {}
            }
            at += 4 + size.next_multiple_of(4);
        }
        if let Format::Ng { interfaces } = &mut self.format {
            if interfaces.len() >= INTERFACES {
                return Err("too many interfaces; giving up".into());
            }
            interfaces.push(new);
        }
        self.skip(4)
    }

    fn skip(&mut self, n: u64) -> Result<(), String> {
        if self.input.skip(n)? { Ok(()) } else { Err("file cut off in the middle of a block".into()) }
    }

    /// The link type; that of the first interface if there are several.
    pub(in crate::files) fn link(&self) -> Option<Link> {
        match &self.format {
            Format::Pcap { link, .. } => Some(*link),
            Format::Ng { interfaces } => interfaces.first().map(|i| i.link),
        }
    }
    pub(in crate::files) fn input(&mut self) -> &mut Input {
        &mut self.input
    }

    /// Reads the header of the next packet. If it is a packet, call [`Capture::packet`] or [`Capture::pass`]
    /// next.
    pub(in crate::files) fn head(&mut self) -> Result<Found, String> {
        let head = match &self.format {
            Format::Pcap { nanoseconds, extra, minor, link } => {
                let (nanoseconds, extra, minor, link) = (*nanoseconds, *extra, *minor, *link);
                self.pcap_head(nanoseconds, extra, minor, link)?
            }
            Format::Ng { .. } => self.ng_head()?,
        };
        match head {
            Found::Packet(h) if h.captured > LONGEST => Err("bad packet header; giving up".into()),
            // Some programs (tcptrace) write one byte too many; the packet has its length on the wire.
            Found::Packet(h) if h.captured > h.length => {
                let after = h.after + u64::from(h.captured - h.length);
                Ok(Found::Packet(Head { captured: h.length, after, ..h }))
            }
            other => Ok(other),
        }
    }

    fn pcap_head(&mut self, nanoseconds: bool, extra: u64, minor: u16, link: Link) -> Result<Found, String> {
        let mut h = [0; 16];
        match self.input.read(&mut h)? {
            0 => {
                self.input.finish()?;
                return Ok(Found::End);
            }
            16 => {}
            _ => return Err("file cut off in the middle of a packet header".into()),
        }
        let (seconds, fraction) = (u64::from(self.u32(&h, 0)), u64::from(self.u32(&h, 4)));
        let (mut captured, mut length) = (self.u32(&h, 8), self.u32(&h, 12));
        // Up to version 2.3 the two lengths were in the opposite order.
        if minor < 3 || (minor == 3 && captured > length) {
            std::mem::swap(&mut captured, &mut length);
        }
        if extra > 0 && !self.input.skip(extra)? {
            return Err("file cut off in the middle of a packet header".into());
        }
        let time_ns = seconds * 1_000_000_000 + fraction * if nanoseconds { 1 } else { 1000 };
        Ok(Found::Packet(Head { time_ns, captured, length, link, after: 0 }))
    }

    fn ng_head(&mut self) -> Result<Found, String> {
        const OLD: u32 = 2;
        const SIMPLE: u32 = 3;
        const ENHANCED: u32 = 6;
        for _ in 0..BLOCKS {
            let (kind, len) = match self.block()? {
                None => return Ok(Found::End),
                Some(Block::Section) => continue,
                Some(Block::Other(kind, len)) => (kind, len),
            };
            let fixed = match kind {
                SIMPLE => 4,
                OLD | ENHANCED => 20,
                _ => {
                    self.other_block(kind, len)?;
                    continue;
                }
            };
            let mut h = [0; 20];
            let Some(part) = h.get_mut(..fixed as usize).filter(|_| len >= fixed) else {
                return Err("bad block header; giving up".into());
            };
            if self.input.read(part)? < fixed as usize {
                return Err("file cut off in the middle of a packet header".into());
            }
            let number = match kind {
                SIMPLE => 0,
                OLD => self.u16(&h, 0).into(),
                _ => self.u32(&h, 0) as usize,
            };
            let Format::Ng { interfaces } = &self.format else { return Ok(Found::End) };
            let Some(interface) = interfaces.get(number).copied() else {
                return Err("packet of an interface that is not described; giving up".into());
            };
            let (captured, length, ticks) = if kind == SIMPLE {
                let length = self.u32(&h, 0);
                let most = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
                (length.min(most).min(len - fixed), length, 0)
            } else {
                let ticks = u64::from(self.u32(&h, 4)) << 32 | u64::from(self.u32(&h, 8));
                (self.u32(&h, 12), self.u32(&h, 16), ticks)
            };
            if captured > len - fixed {
                return Err("bad packet header; giving up".into());
            }
            let ns = u128::from(ticks) * 1_000_000_000 / u128::from(interface.ticks);
            let ns = ns as i128 + i128::from(interface.offset_s) * 1_000_000_000;
            let time_ns = if kind == SIMPLE { 0 } else { u64::try_from(ns).unwrap_or(0) };
            let after = u64::from(len - fixed - captured) + 4;
            return Ok(Found::Packet(Head { time_ns, captured, length, link: interface.link, after }));
        }
        Ok(Found::NotYet)
    }

    /// Reads the packet whose header [`Capture::head`] returned; after the error [`NO_MEMORY`] it can still
    /// be skipped.
    pub(in crate::files) fn packet(&mut self, head: &Head) -> Result<Packet, String> {
        const CUT: &str = "file cut off in the middle of a packet";
        let Some(mut packet) = Packet::alloc(dpdk::DEFAULT_HEADROOM, head.captured as usize) else {
            return Err(NO_MEMORY.into());
        };
        if self.input.read(packet.data_mut())? < head.captured as usize {
            return Err(CUT.into());
        }
        // If the file ends in the padding after a whole packet, the packet is still returned.
        self.input.skip(head.after)?;
        let anno = packet.anno_mut();
        anno.timestamp_ns = head.time_ns;
        anno.set_extra_length(head.length - head.captured);
        packet.set_mac_header(0);
        Ok(packet)
    }

    /// Skips the packet whose header [`Capture::head`] returned.
    pub(in crate::files) fn pass(&mut self, head: &Head) -> Result<(), String> {
        if self.input.skip(u64::from(head.captured))? {
            self.input.skip(head.after).map(|_| ())
        } else {
            Err("file cut off in the middle of a packet".into())
        }
    }
}

#[cfg(test)]
pub(in crate::files) mod tests {
    use super::*;

    /// Reads numbers in the byte order of the file.
    pub(crate) struct Build {
        big: bool,
        pub(crate) bytes: Vec<u8>,
    }

    impl Build {
        pub(crate) fn new(big: bool) -> Self {
            Self { big, bytes: Vec::new() }
        }
        pub(crate) fn u16(mut self, n: u16) -> Self {
            self.bytes.extend(if self.big { n.to_be_bytes() } else { n.to_le_bytes() });
            self
        }
        pub(crate) fn u32(mut self, n: u32) -> Self {
            self.bytes.extend(if self.big { n.to_be_bytes() } else { n.to_le_bytes() });
            self
        }
        pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
            self.bytes.extend(bytes);
            self
        }
        /// A pcapng block.
        pub(crate) fn block(self, kind: u32, body: Build) -> Self {
            let mut body = body.bytes;
            body.resize(body.len().next_multiple_of(4), 0);
            let len = body.len() as u32 + 12;
            self.u32(kind).u32(len).raw(&body).u32(len)
        }
        pub(crate) fn pcap(big: bool, magic: u32, minor: u16, link: u32) -> Self {
            Self::new(big).u32(magic).u16(2).u16(minor).u32(0).u32(0).u32(65535).u32(link)
        }
        pub(crate) fn ng(big: bool) -> Self {
            let body = Self::new(big).u32(0x1a2b_3c4d).u16(1).u16(0).raw(&[0xff; 8]);
            Self::new(big).block(0x0a0d_0d0a, body)
        }
    }

    type Packets = Vec<(u64, u32, Vec<u8>)>;

    fn read(bytes: &[u8]) -> (Packets, Option<String>) {
        let mut found = Vec::new();
        let mut capture = match Capture::new(Input::bytes("t", bytes)) {
            Ok(c) => c,
            Err(e) => return (found, Some(e)),
        };
        loop {
            let packet = match capture.head() {
                Ok(Found::Packet(h)) => capture.packet(&h).map(Some),
                Ok(Found::NotYet) => continue,
                Ok(Found::End) => Ok(None),
                Err(e) => Err(e),
            };
            match packet {
                Ok(Some(p)) => {
                    found.push((p.timestamp_ns(), p.extra_length(), p.data().to_vec()));
                }
                Ok(None) => return (found, None),
                Err(e) => return (found, Some(e)),
            }
        }
    }

    #[test]
    fn pcap_in_both_byte_orders_and_resolutions() {
        for big in [false, true] {
            for (magic, time, extra) in [
                (0xa1b2_c3d4, 7_000_009_000, 0),
                (0xa1b2_3c4d, 7_000_000_009, 0),
                (0xa1b2_cd34, 7_000_009_000, 8),
            ] {
                let file = Build::pcap(big, magic, 4, 1);
                let file = file.u32(7).u32(9).u32(3).u32(5).raw(&vec![0; extra]).raw(b"abc");
                assert_eq!(read(&file.bytes), (vec![(time, 2, b"abc".to_vec())], None));
            }
        }
    }

    #[test]
    fn old_pcap_versions_and_lengths_that_are_one_too_many() {
        let file = Build::pcap(false, 0xa1b2_c3d4, 2, 1).u32(1).u32(0).u32(4).u32(2).raw(b"ab");
        assert_eq!(read(&file.bytes), (vec![(1_000_000_000, 2, b"ab".to_vec())], None));
        let file = Build::pcap(false, 0xa1b2_c3d4, 4, 1).u32(1).u32(0).u32(3).u32(2).raw(b"abc");
        assert_eq!(read(&file.bytes), (vec![(1_000_000_000, 0, b"ab".to_vec())], None));
    }

    fn ng(big: bool) -> Build {
        let b = || Build::new(big);
        // Interface 0: Ethernet in microseconds; 1: raw IP in nanoseconds, shifted by 5 s; 2: in 2^-10 s.
        let one = b().u16(101).u16(0).u32(0).u16(9).u16(1).raw(&[9, 0, 0, 0]);
        let shift = if big { [0, 0, 0, 0, 0, 0, 0, 5] } else { [5, 0, 0, 0, 0, 0, 0, 0] };
        let one = one.u16(14).u16(8).raw(&shift).u32(0);
        Build::ng(big)
            .block(1, b().u16(1).u16(0).u32(4))
            .block(1, one)
            .block(1, b().u16(1).u16(0).u32(0).u16(9).u16(1).raw(&[0x8a, 0, 0, 0]))
            .block(5, b().u32(0).u32(0).u32(0))
            .block(6, b().u32(0).u32(0).u32(1_000_001).u32(3).u32(3).raw(b"abc"))
            .block(6, b().u32(1).u32(1).u32(0).u32(1).u32(9).raw(b"d"))
            .block(6, b().u32(2).u32(0).u32(1536).u32(0).u32(0))
            .block(3, b().u32(6).raw(b"simp"))
            .block(2, b().u16(0).u16(0).u32(0).u32(2_000_000).u32(2).u32(2).raw(b"ef"))
    }

    #[test]
    fn pcapng_in_both_byte_orders() {
        for big in [false, true] {
            let want = vec![
                (1_000_001_000, 0, b"abc".to_vec()),
                (9_294_967_296, 8, b"d".to_vec()),
                (1_500_000_000, 0, b"".to_vec()),
                (0, 2, b"simp".to_vec()),
                (2_000_000_000, 0, b"ef".to_vec()),
            ];
            assert_eq!(read(&ng(big).bytes), (want, None));
        }
        // A second section may have the other byte order.
        let two = ng(false).raw(&ng(true).bytes);
        assert_eq!(read(&two.bytes).0.len(), 10);
    }

    /// With any number of blocks without a packet, each call reads a few, and the stack does not grow.
    #[test]
    fn many_sections_and_blocks_without_a_packet() {
        let section = Build::ng(false).bytes;
        let other = Build::new(false).block(5, Build::new(false).u32(0)).bytes;
        for filling in [section.repeat(400_000), [&section[..], &other.repeat(400_000)].concat()] {
            let mut capture = Capture::new(Input::bytes("t", &filling)).unwrap();
            assert_eq!(capture.link(), None);
            let mut calls = 0;
            while let Found::NotYet = capture.head().unwrap() {
                calls += 1;
            }
            assert!((5000..7000).contains(&calls), "{calls}");
            let file = [&filling[..], &ng(true).bytes].concat();
            assert_eq!(read(&file), read(&ng(true).bytes));
        }
    }

    #[test]
    fn interfaces_are_bounded() {
        let interface = Build::new(false).block(1, Build::new(false).u16(1).u16(0).u32(0)).bytes;
        for (more, error) in [(0, None), (1, Some("too many interfaces; giving up"))] {
            let file = [&Build::ng(false).bytes[..], &interface.repeat(INTERFACES + more)].concat();
            assert_eq!(read(&file).1.as_deref(), error);
        }
    }

    /// From a file that is cut at any position, the packets before the cut are read, and an error is reported
    /// unless the cut is between two packets.
    #[test]
    fn cut_files() {
        let pcap = Build::pcap(false, 0xa1b2_c3d4, 4, 1);
        let starts = [24, 24 + 19, 24 + 19 + 16];
        let pcap = pcap.u32(1).u32(0).u32(3).u32(3).raw(b"abc").u32(2).u32(0).u32(0).u32(0);
        for cut in 0..pcap.bytes.len() {
            let (found, error) = read(&pcap.bytes[..cut]);
            assert_eq!(found.len(), starts.iter().filter(|s| **s <= cut).count().saturating_sub(1), "{cut}");
            assert_eq!(error.is_none(), starts.contains(&cut), "{cut} {error:?}");
        }
        assert_eq!(read(&pcap.bytes[..42]).1.as_deref(), Some("file cut off in the middle of a packet"));
        assert_eq!(
            read(&pcap.bytes[..50]).1.as_deref(),
            Some("file cut off in the middle of a packet header")
        );
        let whole = ng(true).bytes;
        let all = read(&whole).0;
        for cut in 0..whole.len() {
            let found = read(&whole[..cut]).0;
            assert_eq!(found, all[..found.len()], "{cut}");
        }
    }

    #[test]
    fn what_is_no_capture() {
        let error = |bytes: &[u8]| read(bytes).1.unwrap_or_default();
        assert_eq!(error(b""), "t: empty file");
        assert_eq!(error(b"abcd"), "t: not a tcpdump file (too short)");
        assert_eq!(error(&[7; 30]), "t: not a tcpdump file (bad magic number)");
        let mut major = Build::pcap(false, 0xa1b2_c3d4, 4, 1).bytes;
        major[4] = 3;
        assert_eq!(error(&major), "t: unknown major version 3");
        let long = Build::pcap(false, 0xa1b2_c3d4, 4, 1).u32(1).u32(0).u32(65536).u32(65536);
        assert_eq!(error(&long.bytes), "bad packet header; giving up");
        let stranger = Build::ng(false).block(6, Build::new(false).raw(&[0; 20]));
        assert_eq!(read(&stranger.bytes).0.len(), 0);
        let short = Build::ng(false).u32(6).u32(11);
        assert_eq!(error(&short.bytes), "t: bad block header; giving up");
    }

    /// Every byte is changed to every value in turn: there are errors, but never a panic or an endless loop.
    #[test]
    fn damaged_files() {
        for file in [ng(false).bytes, ng(true).bytes] {
            for at in 0..file.len() {
                for value in [0, 1, 3, 0x7f, 0x80, 0xff] {
                    let mut damaged = file.clone();
                    damaged[at] = value;
                    assert!(read(&damaged).0.len() <= 8);
                }
            }
        }
    }
}
