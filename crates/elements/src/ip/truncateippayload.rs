//! # TruncateIPPayload
//! Cuts the payload of IP packets to a length.
//!
//! ## Synopsis
//! `TruncateIPPayload([LENGTH, TRANSPORT, EXTRA_LENGTH])`
//!
//! ## Arguments
//! - `LENGTH` (*int*, bytes, 0 to 65535, default 0): the most payload.
//! - `TRANSPORT` (*bool*, default true): whether the payload begins behind the TCP, UDP or ICMP header,
//!   rather than behind the IP header.
//! - `EXTRA_LENGTH` (*bool*, keyword, default true): whether what is cut off is added to the extra length
//!   annotation.
//!
//! ## Ports
//! One input, one output; agnostic. Of packets without a marked IP header, `LENGTH` bytes are left. No header
//! is changed.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! FromDump(in.pcap, STOP true, FORCE_IP true) -> TruncateIPPayload -> ToDump(/dev/null);
//! ```
//!
//! ## See also
//! Truncate, EraseIPPayload

use crate::prelude::*;
use wire::{Tcp, icmpv4, protocol, tcp, udp};

/// The `TruncateIPPayload` element.
pub struct TruncateIpPayload {
    length: usize,
    transport: bool,
    extra_length: bool,
}

impl Element for TruncateIpPayload {
    const CLASS: &'static str = "TruncateIPPayload";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA.with(Fields::IP_HEADERS).with(Fields::EXTRA_LENGTH);
    const WRITES: Fields = Fields::DATA.with(Fields::EXTRA_LENGTH);
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("ip/truncateippayload");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let length = args.p_or("LENGTH", 0u16)?.into();
        Ok(Self {
            length,
            transport: args.p_or("TRANSPORT", true)?,
            extra_length: args.k_or("EXTRA_LENGTH", true)?,
        })
    }
}

impl TruncateIpPayload {
    /// How many bytes of the headers are to stay, from the IP header on.
    fn headers(&self, packet: &Packet, ip: &[u8]) -> usize {
        let header_len = ip.first().map_or(0, |first| usize::from(first & 15) * 4);
        if header_len < wire::ipv4::HEADER_LEN {
            return wire::ipv4::HEADER_LEN;
        }
        let Some(number) = ip.get(9).filter(|_| self.transport) else { return header_len };
        let transport = packet.transport_header().unwrap_or(&[]);
        header_len
            + match *number {
                // The header's length is in the first twelve bytes.
                protocol::TCP => match Tcp::new(transport).map(|h| h.header_len()) {
                    Some(len @ tcp::HEADER_LEN..) => len,
                    _ => tcp::HEADER_LEN,
                },
                protocol::UDP => udp::HEADER_LEN,
                protocol::ICMP if transport.len() >= 8 => icmpv4::min_len(transport[0]),
                _ => 0,
            }
    }
}

impl Step for TruncateIpPayload {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let (keep, length) = match packet.network_header() {
            Some(ip) => (self.length + self.headers(packet, ip), ip.len()),
            None => (self.length, packet.len()),
        };
        let surplus = length.saturating_sub(keep);
        if surplus > 0 {
            packet.take(surplus);
            if self.extra_length {
                let extra = packet.extra_length().wrapping_add(surplus as u32);
                packet.set_extra_length(extra);
            }
        }
        true
    }
}

impl Simple for TruncateIpPayload {
    #[inline]
    fn packet(&mut self, mut packet: Packet, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.step(&mut packet).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::engine::header::sample::{ip, marked};
    use crate::testing::Bench;

    /// How many bytes are left, and the extra length.
    fn left(arguments: &str, packet: Packet) -> (usize, u32) {
        let out = Bench::new(&format!("TruncateIPPayload({arguments})")).send(0, packet).remove(0).1;
        (out.len(), out.extra_length())
    }

    #[test]
    fn cuts_behind_the_headers() {
        let mut tcp = [0; 60];
        tcp[12] = 0x60;
        assert_eq!(left("", marked(&ip(6, &tcp))), (44, 36));
        assert_eq!(left("10", marked(&ip(6, &tcp))), (54, 26));
        assert_eq!(left("10, false", marked(&ip(6, &tcp))), (30, 50));
        assert_eq!(left("LENGTH 100", marked(&ip(6, &tcp))), (80, 0));
        assert_eq!(left("1, EXTRA_LENGTH false", marked(&ip(17, &[0; 30]))), (29, 0));
        assert_eq!(left("", marked(&ip(1, &[13; 40]))), (40, 20));
        assert_eq!(left("", marked(&ip(1, &[8; 40]))), (28, 32));
        assert_eq!(left("5", marked(&ip(99, &[0; 40]))), (25, 35));
        assert_eq!(left("5", Packet::from_bytes(&[0; 9]).unwrap()), (5, 4));
        assert_eq!(left("50", Packet::from_bytes(&[0; 9]).unwrap()), (9, 0));
        assert_eq!(left("0", marked(&[0x40; 30])), (20, 10));
    }
}
