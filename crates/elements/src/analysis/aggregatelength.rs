//! # AggregateLength
//! Sets the aggregate annotation to the packet's length.
//!
//! The extra length annotation, which FromDump and FromIPSummaryDump set, is added.
//!
//! ## Synopsis
//! `AggregateLength([IP])`
//!
//! ## Arguments
//! - `IP` (*bool*, keyword, default false): whether only what begins with the IP header counts.
//!
//! ## Ports
//! One agnostic input. Packets leave by output 0, agnostic; with `IP`, packets without a marked IP header by
//! output 1, push, if it is connected.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LENGTH 100, LIMIT 3, STOP true) -> AggregateLength -> AggregateCounter -> Discard;
//! ```
//!
//! ## See also
//! AggregateIP, AggregateCounter

use crate::prelude::*;

/// The `AggregateLength` element.
pub struct AggregateLength {
    ip: bool,
}

impl Element for AggregateLength {
    const CLASS: &'static str = "AggregateLength";
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::NETWORK_HEADER.with(Fields::EXTRA_LENGTH);
    const WRITES: Fields = Fields::AGGREGATE;
    const SETS: Fields = Fields::AGGREGATE;
    const DROPS: &'static [DropCase] =
        &[drops::NO_IP_HEADER.when("with `IP`, none is marked, and output 1 is not connected")];
    const STEP: Option<StepFacts> = Some(StepFacts::of::<Self>());
    const MANUAL: &'static str = manual!("analysis/aggregatelength");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self { ip: args.k_or("IP", false)? })
    }
}

impl Step for AggregateLength {
    #[inline]
    fn step(&mut self, packet: &mut Packet) -> bool {
        let before = match packet.network_header_offset() {
            _ if !self.ip => 0,
            Some(offset) => offset as i64,
            None => return false,
        };
        let length = packet.len() as i64 - before + i64::from(packet.extra_length());
        packet.set_aggregate(length as u32);
        true
    }
}

impl Simple for AggregateLength {
    #[inline]
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        if self.step(&mut packet) {
            return Some(packet);
        }
        cx.fail(packet, drops::NO_IP_HEADER);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    #[test]
    fn takes_the_length() {
        let mut packet = Packet::from_bytes(&[0; 60]).unwrap();
        packet.set_extra_length(40);
        assert_eq!(Bench::with_ports("AggregateLength()", 1, 1).send(0, packet)[0].1.aggregate(), 100);
    }

    #[test]
    fn takes_the_length_from_the_ip_header_on() {
        let mut bench = Bench::with_ports("AggregateLength(IP true)", 1, 2);
        let mut packet = Packet::from_bytes(&[0; 60]).unwrap();
        packet.set_network_header(14, 20);
        assert_eq!(bench.send(0, packet)[0].1.aggregate(), 46);
        assert_eq!(bench.push(0, b"x"), [(1, b"x".to_vec())]);
        let mut bench = Bench::with_ports("AggregateLength(IP true)", 1, 1);
        bench.push(0, b"x");
        assert_eq!(bench.drops(), [("no IP header".to_owned(), 1)]);
    }
}
