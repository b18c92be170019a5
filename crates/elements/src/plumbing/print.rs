//! # Print
//! Prints packets on standard error and passes them on.
//!
//! A line has these parts, those in brackets only on demand: `[LABEL][(CPU)]: [TIMESTAMP: ]LENGTH[ (hHEADROOM
//! tTAILROOM)][ | ANNOTATIONS] | CONTENTS`. The length is in bytes, at least four characters wide.
//!
//! ## Synopsis
//! `Print([LABEL, MAXLENGTH, CONTENTS, TIMESTAMP, PRINTANNO, CPU, HEADROOM, ACTIVE])`
//!
//! ## Arguments
//! - `LABEL` (*string*): comes first in each line.
//! - `MAXLENGTH` (*int*, bytes, default 24): how much of the contents to print; negative prints all. `LENGTH`
//!   and `NBYTES` are old names.
//! - `CONTENTS` (`HEX`, `ASCII` or `NONE`, default `HEX`): how to print the contents. A boolean chooses `HEX`
//!   or `NONE`.
//! - `TIMESTAMP` (*bool*, default false): whether to print the packet's timestamp, in seconds since 1970.
//! - `PRINTANNO` (*bool*, default false): whether to print the user annotations, 48 bytes in hexadecimal.
//! - `CPU` (*bool*, default false): whether to print the worker's number.
//! - `HEADROOM` (*bool*, default false): whether to print the room before and behind the data.
//! - `ACTIVE` (*bool*, default true): whether to print at all.
//!
//! ## Ports
//! One input, one output; agnostic.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker prints its own packets; lines do not mix.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<000102030405>, LIMIT 2, STOP true) -> Print(in, 4) -> Discard;
//! ```
//!
//! ## See also
//! IPPrint, Counter

use super::engine::text;
use crate::prelude::*;
use lang::args::Word;
use std::fmt::Write;

/// How the contents are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Contents {
    None,
    Hex,
    Ascii,
}

impl Contents {
    fn parse(word: &str) -> Result<Self, String> {
        if let Ok(on) = text::value::<bool>(word, "") {
            return Ok(if on { Self::Hex } else { Self::None });
        }
        match &*word.to_ascii_uppercase() {
            "NONE" => Ok(Self::None),
            "HEX" => Ok(Self::Hex),
            "ASCII" => Ok(Self::Ascii),
            other => Err(format!("bad contents value '{other}'; should be 'NONE', 'HEX', or 'ASCII'")),
        }
    }
}

/// The `Print` element.
pub struct Print {
    label: String,
    most: Option<usize>,
    contents: Contents,
    timestamp: bool,
    annotations: bool,
    cpu: bool,
    headroom: bool,
    active: bool,
}

impl Element for Print {
    const CLASS: &'static str = "Print";
    const LIVE: bool = true;
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::TIMESTAMP).with(Fields::USER);
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("plumbing/print");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let label = args.p("LABEL")?.unwrap_or_default();
        let mut most: i32 = args.p("MAXLENGTH")?.unwrap_or(24);
        for old in ["LENGTH", "NBYTES"] {
            most = args.k(old)?.unwrap_or(most);
        }
        let contents = args.k::<Word>("CONTENTS")?.map_or(Ok(Contents::Hex), |w| Contents::parse(&w.0))?;
        Ok(Self {
            label,
            most: usize::try_from(most).ok(),
            contents,
            timestamp: args.k("TIMESTAMP")?.unwrap_or(false),
            annotations: args.k("PRINTANNO")?.unwrap_or(false),
            active: args.k("ACTIVE")?.unwrap_or(true),
            headroom: args.k("HEADROOM")?.unwrap_or(false),
            cpu: args.k("CPU")?.unwrap_or(false),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| text::value(v, "expected boolean").map(|on| e.active = on));
        h.listed(&["active .c"]);
    }
}

impl Print {
    fn line(&self, packet: &Packet, worker: usize) -> String {
        let data = packet.data();
        let shown = match self.contents {
            Contents::None => &[][..],
            _ => &data[..self.most.map_or(data.len(), |most| most.min(data.len()))],
        };
        let mut line = String::with_capacity(self.label.len() + 192 + 3 * shown.len());
        line.push_str(&self.label);
        if self.cpu {
            let _ = write!(line, "({worker})");
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        if self.timestamp {
            let _ = write!(line, "{}: ", text::timestamp(packet.timestamp_ns() as i64));
        }
        let _ = write!(line, "{:4}", data.len());
        if self.headroom {
            let _ = write!(line, " (h{} t{})", packet.headroom(), packet.tailroom());
        }
        if self.annotations {
            line.push_str(" | ");
            packet.anno().user.iter().for_each(|byte| hex(&mut line, *byte));
        }
        if !shown.is_empty() {
            line.push_str(" | ");
        }
        for (at, &byte) in shown.iter().enumerate() {
            match self.contents {
                Contents::Ascii => {
                    if at % 8 == 0 {
                        line.push(' ');
                    }
                    line.push(if (32..=126).contains(&byte) { char::from(byte) } else { '.' });
                }
                _ => {
                    if at > 0 && at % 4 == 0 {
                        line.push(' ');
                    }
                    hex(&mut line, byte);
                }
            }
        }
        line
    }
}

/// Appends two hexadecimal digits.
fn hex(line: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 15] {
        line.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
    }
}

impl Simple for Print {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.active {
            cx.chatter(&self.line(&packet, cx.worker().0));
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::sync::{Arc, Mutex};

    /// The lines that a declaration prints for a packet.
    fn lines(declaration: &str, packet: Packet) -> Vec<String> {
        let mut bench = Bench::new(declaration);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        bench.router().hub().listen(Box::new(move |line| sink.lock().unwrap().push(line.to_owned())));
        assert_eq!(bench.send(0, packet).len(), 1);
        lines.lock().unwrap().clone()
    }

    fn packet(bytes: &[u8]) -> Packet {
        let mut packet = Packet::from_bytes(bytes).unwrap();
        packet.set_timestamp_ns(1_000_000_000_500_000_000);
        packet.set_paint(0xab);
        packet
    }

    #[test]
    fn hexadecimal_in_groups_of_four() {
        assert_eq!(lines("Print(x)", packet(b"\0\x01\x02\x03\xff")), ["x:    5 | 00010203 ff"]);
        assert_eq!(
            lines("Print", packet(&[0; 30])),
            ["  30 | 00000000 00000000 00000000 00000000 00000000 00000000"]
        );
        assert_eq!(lines("Print(x, 2)", packet(b"abcd")), ["x:    4 | 6162"]);
        assert_eq!(lines("Print(MAXLENGTH -1)", packet(b"abcde")), ["   5 | 61626364 65"]);
        assert_eq!(lines("Print(x)", packet(b"")), ["x:    0"]);
    }

    #[test]
    fn text_in_groups_of_eight() {
        assert_eq!(lines("Print(CONTENTS ascii)", packet(b"abcdefgh\ni")), ["  10 |  abcdefgh .i"]);
        assert_eq!(lines("Print(x, CONTENTS NONE)", packet(b"abc")), ["x:    3"]);
        assert_eq!(lines("Print(x, CONTENTS false)", packet(b"abc")), ["x:    3"]);
    }

    #[test]
    fn other_parts() {
        assert_eq!(lines("Print(x, 1, TIMESTAMP true)", packet(b"a")), ["x: 1000000000.500000:    1 | 61"]);
        assert_eq!(lines("Print(TIMESTAMP true)", packet(b"a")), ["1000000000.500000:    1 | 61"]);
        assert_eq!(lines("Print(x, CPU true)", packet(b"a")), ["x(0):    1 | 61"]);
        let annotations = format!("   1 | {}ab{} | 61", "00".repeat(16), "00".repeat(31));
        assert_eq!(lines("Print(PRINTANNO true)", packet(b"a")), [annotations]);
        let room = &lines("Print(HEADROOM true)", packet(b"a"))[0];
        assert!(room.starts_with("   1 (h128 t") && room.ends_with(") | 61"), "{room}");
        assert!(lines("Print(ACTIVE false)", packet(b"a")).is_empty());
    }

    #[test]
    fn contents_are_checked() {
        assert!(Bench::error("Print(CONTENTS octal)").contains("bad contents value 'OCTAL'"));
    }
}
