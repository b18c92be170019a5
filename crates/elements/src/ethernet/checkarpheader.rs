//! # CheckARPHeader
//! Checks the ARP header of packets and marks where it is.
//!
//! ## Synopsis
//! `CheckARPHeader([OFFSET, VERBOSE, DETAILS])`
//!
//! ## Arguments
//! - `OFFSET` (*int*, bytes, default 0): where the header begins.
//! - `VERBOSE` (*bool*, keyword, default false): whether to print a line for every bad packet; otherwise only
//!   for the first one.
//! - `DETAILS` (*bool*, keyword, default false): whether the `drop_details` handler may be read.
//!
//! ## Ports
//! One input, one or two outputs. A good packet leaves by output 0 with its ARP header marked as the network
//! header. A bad one goes, unchanged, to output 1 (push) if it is connected; otherwise it is dropped.
//!
//! Checked is that the packet holds the header and its four addresses (RFC 826), that Ethernet addresses have
//! 6 bytes, addresses of IPv4 4, and those of IPv6 16. Other types are accepted with any length.
//!
//! ## Handlers
//! - `drops` (read): bad packets.
//! - `drop_details` (read): a line `COUNT<tab>REASON` for each reason.
//!
//! ## Threads
//! Each worker has its own; counts are summed.
//!
//! ## Example
//! ```click
//! InfiniteSource(DATA \<0001 0800 06 04 0001 000000000001 0a000001 000000000000 0a000002>, LIMIT 1, STOP true)
//!   -> check :: CheckARPHeader(DETAILS true) -> Discard;
//! check [1] -> Print(bad) -> Discard;
//! ```
//!
//! ## See also
//! ARPPrint, ARPQuerier, ARPResponder

use crate::drops::Details;
use crate::prelude::*;
use std::sync::Arc;
use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};

const TINY: DropReason = DropReason::new("tiny packet");
const TOO_SMALL: DropReason = DropReason::new("too small for addresses");
const BAD_HARDWARE: DropReason = DropReason::new("bad hardware type/length");
const BAD_PROTOCOL: DropReason = DropReason::new("bad protocol type/length");

/// The part of the header before the addresses.
const FIXED_LEN: usize = 8;

/// The `CheckARPHeader` element.
pub struct CheckArpHeader {
    offset: usize,
    verbose: bool,
    details: Arc<Details>,
}

/// The length of the header that begins with these bytes.
fn check(bytes: &[u8]) -> Result<usize, DropReason> {
    let fixed = bytes.first_chunk::<FIXED_LEN>().ok_or(TINY)?;
    let [hardware_len, protocol_len] = [fixed[4], fixed[5]];
    let len = FIXED_LEN + 2 * usize::from(hardware_len) + 2 * usize::from(protocol_len);
    if bytes.len() < len {
        return Err(TOO_SMALL);
    }
    if u16::from_be_bytes([fixed[0], fixed[1]]) == wire::arp::HARDWARE_ETHERNET && hardware_len != 6 {
        return Err(BAD_HARDWARE);
    }
    match (u16::from_be_bytes([fixed[2], fixed[3]]), protocol_len) {
        (ETHERTYPE_IPV4, 4) | (ETHERTYPE_IPV6, 16) => Ok(len),
        (ETHERTYPE_IPV4 | ETHERTYPE_IPV6, _) => Err(BAD_PROTOCOL),
        _ => Ok(len),
    }
}

impl Element for CheckArpHeader {
    const CLASS: &'static str = "CheckARPHeader";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::IP_HEADERS;
    const SETS: Fields = Fields::IP_HEADERS;
    const DROPS: &'static [DropCase] = &[
        TINY.when("shorter than 8 bytes"),
        TOO_SMALL.when("the addresses do not fit into the packet"),
        BAD_HARDWARE.when("an Ethernet address that does not have 6 bytes"),
        BAD_PROTOCOL.when("an IPv4 address that does not have 4 bytes, or one of IPv6 that does not have 16"),
    ];
    const MANUAL: &'static str = manual!("ethernet/checkarpheader");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let offset = args.p_or::<u32>("OFFSET", 0)? as usize;
        let verbose = args.k_or("VERBOSE", false)?;
        let wanted = args.k_or("DETAILS", false)?;
        Ok(Self { offset, verbose, details: Details::of(cx, wanted) })
    }

    fn handlers(h: &mut Handlers<Self>) {
        Details::handlers(h);
    }
}

impl Simple for CheckArpHeader {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match check(packet.data().get(self.offset..).unwrap_or(&[])) {
            Ok(len) => {
                packet.set_network_header(self.offset, len);
                Some(packet)
            }
            Err(reason) => {
                if self.verbose || self.details.is_first() {
                    cx.log(Level::WARN, &format!("ARP header check failed: {reason}"));
                }
                cx.reject(packet, reason);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    fn arp() -> Vec<u8> {
        let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, 1];
        bytes.extend([0; 20]);
        bytes
    }

    #[test]
    fn marks_good_headers() {
        let mut bench = Bench::new("CheckARPHeader(14)");
        let mut frame = vec![0; 14];
        frame.extend(arp());
        frame.extend([0; 18]);
        let out = bench.send(0, Packet::from_bytes(&frame).unwrap()).remove(0);
        assert_eq!(
            (out.0, out.1.network_header_offset(), out.1.transport_header_offset()),
            (0, Some(14), Some(42))
        );
        assert_eq!(out.1.data(), frame);
        // Another network: any length of address.
        frame[14..20].copy_from_slice(&[0, 6, 0x12, 0x34, 2, 2]);
        assert_eq!(bench.push(0, &frame)[0].0, 0);
        assert_eq!(bench.read("drops"), "0");
    }

    #[test]
    fn tells_bad_headers_apart() {
        let mut bench = Bench::new("CheckARPHeader(DETAILS true, VERBOSE true)");
        let lines = bench.listen();
        let with = |at: usize, value: u8| {
            let mut bytes = arp();
            bytes.extend([0; 30]);
            bytes[at] = value;
            bytes
        };
        let bad =
            [arp()[..7].to_vec(), arp()[..27].to_vec(), with(4, 7), with(4, 255), with(5, 5), with(2, 0x86)];
        for bytes in &bad {
            assert_eq!(bench.push(0, bytes)[0].0, usize::from(bytes != &bad[5]), "{bytes:x?}");
        }
        let mut six = with(2, 0x86);
        six[3] = 0xdd;
        assert_eq!(bench.push(0, &six)[0].0, 1);
        six[5] = 16;
        assert_eq!(bench.push(0, &six)[0].0, 0);
        assert_eq!(bench.read("drops"), "6");
        assert_eq!(
            bench.read("drop_details"),
            "1\ttiny packet\n2\ttoo small for addresses\n1\tbad hardware type/length\n2\tbad protocol type/length\n"
        );
        assert_eq!(lines.lock().unwrap().len(), 6);
        assert!(Bench::new("CheckARPHeader(4000000000)").push(0, &arp())[0].0 == 1);
    }

    #[test]
    fn drops_without_a_second_output() {
        let mut bench = Bench::with_ports("CheckARPHeader()", 1, 1);
        assert!(bench.push(0, b"").is_empty());
        assert_eq!(bench.drops(), [("tiny packet".to_owned(), 1)]);
        assert!(bench.try_read("drop_details").is_err());
    }
}
