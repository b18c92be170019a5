//! # ForceICMP
//! Makes packets look like ICMP packets.
//!
//! For tests with random packets: what other elements check first becomes right.
//!
//! ## Synopsis
//! `ForceICMP(TYPE, CODE)`
//!
//! ## Arguments
//! - `TYPE` (*int*, 0 to 255, or name): the ICMP type, such as `echo`.
//! - `CODE` (*int*, 0 to 255, or name): the ICMP code; which names there are depends on the type.
//!
//! ## Ports
//! One input, one output; agnostic. The input takes packets whose IP header is marked; the protocol is not
//! changed. Type, code and checksum are set. For a packet whose IP payload is shorter than 8 bytes a line is
//! printed.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 1, STOP true)
//!   -> ForceIP -> ForceICMP(unreachable, port) -> Print -> Discard;
//! ```
//!
//! ## See also
//! ForceIP, ForceTCP, ForceUDP, ICMPIPEncap

use super::engine::force;
use super::icmpipencap::{code, kind};
use crate::prelude::*;
use lang::args::Word;
use wire::{Icmpv4, icmpv4};

/// The `ForceICMP` element.
pub struct ForceICMP {
    kind: u8,
    code: u8,
}

impl Element for ForceICMP {
    const CLASS: &'static str = "ForceICMP";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS);
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &force::CASES;
    const MANUAL: &'static str = manual!("transport/forceicmp");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let number = kind(args)?;
        let Word(text) = args.mp("CODE")?;
        let kind = u8::try_from(number).map_err(|_| args.error("ICMP type must be between 0 and 255"))?;
        let code = code(args, kind, &text).ok_or_else(|| args.error("argument 2 takes ICMP code"))?;
        Ok(Self { kind, code })
    }
}

impl Simple for ForceICMP {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        force::change(packet, icmpv4::HEADER_LEN, cx, |message, _, _| {
            let Some(mut h) = Icmpv4::new_mut(message) else { return };
            h.set_kind(self.kind);
            h.set_code(self.code);
            icmpv4::fill(message);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;

    #[test]
    fn sets_type_code_and_checksum() {
        let mut bench = Bench::new("ForceICMP(redirect, host)");
        let mut bytes = ip(1, &[0xee; 13]);
        bytes.extend([9; 5]);
        let out = bench.push_packet(0, marked(&bytes)).remove(0).1;
        assert_eq!(out[20..22], [5, 1]);
        assert_eq!(out[24..], [vec![0xee; 9], vec![9; 5]].concat());
        assert!(wire::icmpv4::verify(&out[20..33]));
        assert!(Bench::error("ForceICMP(256, 0)").contains("ICMP type must be between 0 and 255"));
        assert!(Bench::error("ForceICMP(echo, host)").contains("argument 2 takes ICMP code"));
        assert!(Bench::error("ForceICMP(echo)").contains("CODE"));
    }
}
