//! # ARPPrint
//! Prints ARP packets in readable form and passes them on.
//!
//! ## Synopsis
//! `ARPPrint([LABEL, TIMESTAMP, ETHER, ACTIVE, OUTFILE])`
//!
//! ## Arguments
//! - `LABEL` (*string*, default empty): begins every line, with a colon.
//! - `TIMESTAMP` (*bool*, keyword, default true): whether to print the packet's timestamp in seconds.
//! - `ETHER` (*bool*, keyword, default false): whether to print the addresses of the Ethernet header.
//! - `ACTIVE` (*bool*, keyword, default true): whether to print at all.
//! - `OUTFILE` (*filename*, keyword): prints there instead of standard error.
//!
//! ## Ports
//! One input, one output; agnostic. The network header must have been marked where the ARP packet begins (for
//! example by `MarkMACHeader(0, 14)`); other packets pass unprinted, and so do ARP packets for protocols
//! other than IPv4.
//!
//! ## Handlers
//! - `active` (read/write): the `ACTIVE` argument.
//!
//! ## Threads
//! Each worker has its own; an `OUTFILE` is shared, and lines never mix.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<0001 0800 06 04 0001 020000000009 0a000009 000000000000 0a000001>, LIMIT 1, STOP true)
//!   -> EtherEncap(0x0806, 2:0:0:0:0:9, ff:ff:ff:ff:ff:ff) -> MarkMACHeader(0, 14)
//!   -> ARPPrint(request, TIMESTAMP false) -> Discard;
//! ```
//!
//! ## See also
//! IPPrint, Print, ARPResponder, ARPQuerier

use crate::lines::Lines;
use crate::plumbing::engine::text;
use crate::prelude::*;
use std::fmt::Write as _;
use wire::ethernet::{self, ETHERTYPE_IPV4};
use wire::{Arp, Ethernet, arp};

/// Protocol type of trailer encapsulation (RFC 893).
const TRAILER: u16 = 0x1000;
/// Types, lengths and operation: what every ARP packet begins with.
const FIXED_LEN: usize = 8;

/// The `ARPPrint` element.
pub struct ArpPrint {
    label: String,
    timestamp: bool,
    ether: bool,
    active: bool,
    lines: Lines,
}

impl Element for ArpPrint {
    const CLASS: &'static str = "ARPPrint";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields =
        Fields::DATA.with(Fields::TIMESTAMP).with(Fields::MAC_HEADER).with(Fields::NETWORK_HEADER);
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("ethernet/arpprint");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self {
            label: args.p("LABEL")?.unwrap_or_default(),
            timestamp: args.k_or("TIMESTAMP", true)?,
            ether: args.k_or("ETHER", false)?,
            active: args.k_or("ACTIVE", true)?,
            lines: Lines::from_args(args, cx)?,
        })
    }
    fn handlers(h: &mut Handlers<Self>) {
        h.read("active", |e| e.active.to_string());
        h.write("active", |e, v, _| text::value(v, "expected boolean").map(|on| e.active = on));
    }
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.lines.open(cx)
    }
}

/// The ARP packet in a frame whose headers are not marked, as it comes from a device.
fn unmarked(packet: &Packet) -> Option<&[u8]> {
    let (eth, rest) = Ethernet::split(packet.data())?;
    (eth.ethertype() == ethernet::ETHERTYPE_ARP).then_some(rest)
}

impl ArpPrint {
    /// The text for a packet; `None` if nothing is printed.
    fn line(&self, packet: &Packet) -> Option<String> {
        let bytes = packet.network_header().or_else(|| unmarked(packet))?;
        let mut s = String::with_capacity(128);
        if !self.label.is_empty() {
            let _ = write!(s, "{}: ", self.label);
        }
        if self.timestamp {
            let _ = write!(s, "{}: ", text::timestamp(packet.timestamp_ns() as i64));
        }
        let link = packet.mac_header_offset().unwrap_or(0) + ethernet::HEADER_LEN as isize;
        if self.ether
            && packet.network_header_offset().is_none_or(|at| link <= at)
            && let Some(e) = packet.mac_header().or(Some(packet.data())).and_then(Ethernet::new)
        {
            let _ = write!(s, "{} > {}: ", e.src(), e.dst());
        }
        let mut padded = [0; arp::HEADER_LEN];
        padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let a = Arp::wrap(padded);
        if bytes.len() < FIXED_LEN {
            let _ = write!(s, "truncated-arp ({})", bytes.len());
            return Some(s);
        }
        if !matches!(a.protocol_type(), ETHERTYPE_IPV4 | TRAILER)
            || a.protocol_len() != 4
            || a.hardware_len() == 0
        {
            return None;
        }
        if bytes.len() < arp::HEADER_LEN {
            let _ = write!(s, "truncated-arp ({})", bytes.len());
            return Some(s);
        }
        if a.protocol_type() == TRAILER {
            s.push_str("trailer-");
        }
        let (to, from) = (a.target_hardware(), a.sender_hardware());
        let _ = match a.operation() {
            arp::REQUEST => {
                let known = to.0.iter().take(a.hardware_len().into()).any(|byte| *byte != 0);
                let _ = write!(s, "arp who-has {}", a.target());
                let _ = if known { write!(s, " ({to})") } else { Ok(()) };
                write!(s, " tell {}", a.sender())
            }
            arp::REPLY => write!(s, "arp reply {} is-at {from}", a.sender()),
            3 => write!(s, "rarp who-is {to} tell {from}"),
            4 => write!(s, "rarp reply {to} at {}", a.target()),
            8 => write!(s, "invarp who-is {to} tell {from}"),
            9 => write!(s, "invarp reply {to} at {}", a.target()),
            other => write!(s, "arp-#{other}"),
        };
        if a.hardware_type() != arp::HARDWARE_ETHERNET {
            let _ = write!(s, "hardware #{}", a.hardware_type());
        }
        Some(s)
    }
}

impl Simple for ArpPrint {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.active
            && let Some(line) = self.line(&packet)
        {
            self.lines.print(line, cx);
        }
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::sync::{Arc, Mutex};
    use wire::EtherAddr;

    const ASKER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn a_frame_from_a_device_needs_no_mark() {
        let mut bench = Bench::new("ARPPrint(TIMESTAMP false)");
        let lines = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&lines);
        bench.router().hub().listen(Box::new(move |line| sink.lock().unwrap().push_str(line)));
        bench.push(0, &sample(|_| {}));
        bench.push(0, b"no ARP here, whatever it says in front");
        assert_eq!(*lines.lock().unwrap(), "arp who-has 10.0.0.1 tell 10.0.0.9");
        let mut bench = Bench::new("ARPPrint(TIMESTAMP false, ETHER true)");
        let lines = bench.listen();
        bench.push(0, &sample(|_| {}));
        let both = "02-00-00-00-00-09 > FF-FF-FF-FF-FF-FF: arp who-has 10.0.0.1 tell 10.0.0.9";
        assert_eq!(lines.lock().unwrap().concat(), both);
    }

    fn sample(change: impl FnOnce(&mut Arp<[u8; 28]>)) -> Vec<u8> {
        let mut arp = Arp::request(ASKER, [10, 0, 0, 9].into(), [10, 0, 0, 1].into());
        change(&mut arp);
        let eth = Ethernet::build(EtherAddr::BROADCAST, ASKER, 0x0806);
        eth.bytes().iter().chain(arp.bytes()).copied().collect()
    }

    /// The text that `ARPPrint(arguments, TIMESTAMP false)` prints for a frame.
    fn print(arguments: &str, frame: &[u8]) -> String {
        let mut bench = Bench::new(&format!("ARPPrint({arguments})"));
        let lines = bench.listen();
        let mut packet = Packet::from_bytes(frame).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 0);
        assert_eq!(bench.send(0, packet).len(), 1);
        lines.lock().unwrap().concat()
    }

    #[test]
    fn operations() {
        let line = |op: u16| print("TIMESTAMP false", &sample(|a| a.set_operation(op)));
        assert_eq!(line(1), "arp who-has 10.0.0.1 tell 10.0.0.9");
        assert_eq!(line(2), "arp reply 10.0.0.9 is-at 02-00-00-00-00-09");
        assert_eq!(line(3), "rarp who-is 00-00-00-00-00-00 tell 02-00-00-00-00-09");
        assert_eq!(line(4), "rarp reply 00-00-00-00-00-00 at 10.0.0.1");
        assert_eq!(line(8), "invarp who-is 00-00-00-00-00-00 tell 02-00-00-00-00-09");
        assert_eq!(line(9), "invarp reply 00-00-00-00-00-00 at 10.0.0.1");
        assert_eq!(line(7), "arp-#7");
    }

    #[test]
    fn fields_and_label() {
        let known = sample(|a| a.set_target_hardware(ASKER));
        assert_eq!(
            print("x, TIMESTAMP false, ETHER true", &known),
            "x: 02-00-00-00-00-09 > FF-FF-FF-FF-FF-FF: arp who-has 10.0.0.1 (02-00-00-00-00-09) tell 10.0.0.9"
        );
        assert_eq!(
            print("TIMESTAMP false", &sample(|a| a.set_hardware_type(6))),
            "arp who-has 10.0.0.1 tell 10.0.0.9hardware #6"
        );
        assert_eq!(
            print("", &sample(|a| a.set_protocol_type(0x1000))),
            "0.000000: trailer-arp who-has 10.0.0.1 tell 10.0.0.9"
        );
        assert_eq!(print("ACTIVE false", &sample(|_| ())), "");
        assert_eq!(print("", &sample(|a| a.set_protocol_type(0x86dd))), "");
    }

    #[test]
    fn cut_packets() {
        let whole = sample(|_| ());
        for cut in 14..whole.len() {
            let want = format!("truncated-arp ({})", cut - 14);
            assert_eq!(print("TIMESTAMP false", &whole[..cut]), want);
        }
    }

    #[test]
    fn prints_to_a_file() {
        let path = std::env::temp_dir().join(format!("valiant-arpprint-{}", std::process::id()));
        assert_eq!(print(&format!("OUTFILE {}, TIMESTAMP false", path.display()), &sample(|_| ())), "");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "arp who-has 10.0.0.1 tell 10.0.0.9\n");
        std::fs::remove_file(&path).unwrap();
    }
}
