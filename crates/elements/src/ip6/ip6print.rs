//! # IP6Print
//! Prints the IPv6 header of packets on standard error and passes them on.
//!
//! A line has the form `[LABEL: ]SRC -> DST plen LENGTH, next PROTOCOL, hlim LIMIT`.
//!
//! ## Synopsis
//! `IP6Print([LABEL, CONTENTS, NBYTES, ACTIVE])`
//!
//! ## Arguments
//! - `LABEL` (*string*): comes first in each line.
//! - `CONTENTS` (*bool*, keyword, default false): whether the packet's bytes follow, in hexadecimal, 24 in a
//!   line.
//! - `NBYTES` (*int*, bytes, keyword, default 1500): how many of them at most.
//! - `ACTIVE` (*bool*, keyword, default true): whether to print at all.
//!
//! ## Ports
//! One input, one output; agnostic. The IPv6 header must have been marked; of a packet without one nothing is
//! printed.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker prints its own packets; lines do not mix.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db8000000000000000000000002>,
//!     LIMIT 1, STOP true)
//!   -> MarkIP6Header -> IP6Print(in, CONTENTS true) -> Discard;
//! ```
//!
//! ## See also
//! IPPrint, Print, MarkIP6Header

use super::engine::header::header;
use crate::plumbing::engine::text;
use crate::prelude::*;
use std::fmt::Write;

/// Bytes in a line, and in a word of a line.
const LINE: usize = 24;
const WORD: usize = 4;

/// The `IP6Print` element.
pub struct IP6Print {
    label: String,
    contents: bool,
    most: usize,
    active: bool,
}

impl Element for IP6Print {
    const CLASS: &'static str = "IP6Print";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("ip6/ip6print");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self {
            label: args.p("LABEL")?.unwrap_or_default(),
            contents: args.k("CONTENTS")?.unwrap_or(false),
            most: args.k::<u32>("NBYTES")?.unwrap_or(1500) as usize,
            active: args.k("ACTIVE")?.unwrap_or(true),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| {
            e.active = text::value(v, "expected boolean")?;
            Ok(())
        });
        h.listed(&["active .c"]);
    }
}

impl IP6Print {
    fn text(&self, packet: &Packet) -> Option<String> {
        let h = header(packet)?;
        let mut text = String::new();
        if !self.label.is_empty() {
            let _ = write!(text, "{}: ", self.label);
        }
        let (len, next, hops) = (h.payload_len(), h.next_header(), h.hop_limit());
        let _ = write!(text, "{} -> {} plen {len}, next {next}, hlim {hops}", h.src(), h.dst());
        if self.contents {
            text.push_str("\n  ");
            for (at, byte) in packet.data().iter().take(self.most).enumerate() {
                let _ = write!(text, "{byte:02x}");
                text.push_str(match at + 1 {
                    n if n % LINE == 0 => "\n  ",
                    n if n % WORD == 0 => " ",
                    _ => "",
                });
            }
        }
        Some(text)
    }
}

impl Simple for IP6Print {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.active
            && let Some(text) = self.text(&packet)
        {
            cx.chatter(&text);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::sample::{ip6, marked};
    use crate::testing::Bench;

    #[test]
    fn prints_the_header_and_the_contents() {
        let mut bench = Bench::new("IP6Print(x, CONTENTS true, NBYTES 27)");
        let lines = bench.listen();
        let bytes = ip6(17, b"ab");
        assert_eq!(bench.push_packet(0, marked(&bytes)), [(0, bytes.clone())]);
        let text = lines.lock().unwrap().join("\n");
        assert_eq!(
            text,
            "x: 2001:db8::1 -> 2001:db8::2 plen 2, next 17, hlim 64\n  \
             60000000 00021140 20010db8 00000000 00000000 00000001\n  200 10d"
                .replace("200 10d", "20010d")
        );
        bench.write("active", "false");
        bench.push_packet(0, marked(&bytes));
        bench.write("active", "true");
        bench.push(0, &bytes);
        assert_eq!(lines.lock().unwrap().join("\n"), text);
    }
}
