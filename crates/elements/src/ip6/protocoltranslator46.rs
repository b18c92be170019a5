//! # ProtocolTranslator46
//! Translates IPv4 packets into IPv6 packets (RFC 7915).
//!
//! Every packet is translated by itself; the element remembers nothing. Headers and ICMP messages are
//! translated, with the packets that ICMP errors quote, and checksums are adjusted.
//!
//! ## Synopsis
//! `ProtocolTranslator46([PREFIX, MTU])`
//!
//! ## Arguments
//! - `PREFIX` (*IPv6 network*, keyword, default `::/96`): the network whose addresses contain the IPv4
//!   addresses (RFC 6052). Its length is 32, 40, 48, 56, 64 or 96.
//! - `MTU` (*int*, bytes, keyword, default 1280): packets without Don't Fragment that are longer as IPv6
//!   packets are cut into fragments, as routers of IPv6 do not do that.
//!
//! ## Ports
//! One push input, one push output. Packets begin with their IP header. The new header is marked, and the
//! destination annotation is the new destination. The hop limit is the old TTL, so that DecIPTTL or
//! DecIP6HLIM belongs in front of the element or behind it.
//!
//! A fragment gets a fragment header. A UDP datagram without checksum gets one. IPv4 options are left out.
//! Not translated are ICMP messages that IPv6 does not have, ICMP errors about them, fragments of ICMP
//! messages, and packets whose protocol number is that of an extension header. The extensions of ICMP errors
//! (RFC 4884) are left out.
//!
//! ## Handlers
//! - `prefix` (read): the `PREFIX` argument.
//! - `mtu` (read): the `MTU` argument.
//!
//! ## Threads
//! Each worker has its own.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIPEncap(192.0.2.1, 1234, 198.51.100.2, 53)
//!   -> ProtocolTranslator46(PREFIX 64:ff9b::/96)
//!   -> IP6Print -> Discard;
//! ```
//!
//! ## See also
//! ProtocolTranslator64, AddressTranslator, NAT64

use super::engine::embedding::Embedding;
use super::engine::translate::{
    BAD_ADDRESS, Ends, Kind, LEAST_MTU, NO_CHECKSUM, NOT_TRANSLATED, Refused, SOURCE_ROUTE, WRONG_ERROR,
    error6, inside4, is_bad_source, refuse, see4, to6,
};
use crate::prelude::*;
use lang::args::Raw;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The `ProtocolTranslator46` element.
pub struct ProtocolTranslator46 {
    prefix: Embedding,
    mtu: usize,
}

impl Element for ProtocolTranslator46 {
    const CLASS: &'static str = "ProtocolTranslator46";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS).with(Fields::DST_IP6);
    const DROPS: &'static [DropCase] = &[
        drops::BAD_IP_LENGTH.when("or no IPv4 header"),
        BAD_ADDRESS.when("the source is not the address of one host"),
        SOURCE_ROUTE.when("the packet has one that has not come to its end"),
        NOT_TRANSLATED.when("IPv6 has no such message or protocol, or the transport header is cut off"),
        NO_CHECKSUM.when("it cannot be computed, as the other fragments are not there"),
        WRONG_ERROR,
        drops::BAD_PACKET_LENGTH.when("a UDP datagram without checksum has a wrong length"),
        drops::PACKET_TOO_LONG.when("more than 65535 bytes as an IPv6 packet, and may not be fragmented"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the new packet"),
    ];
    const MANUAL: &'static str = manual!("ip6/protocoltranslator46");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let prefix = match args.k::<Raw>("PREFIX")? {
            Some(Raw(text)) => Embedding::parse(&text).map_err(|e| args.error(format!("PREFIX: {e}")))?,
            None => Embedding::COMPATIBLE,
        };
        let mtu = args.k::<u16>("MTU")?.map_or(LEAST_MTU, usize::from);
        if !args.rest_args().is_empty() {
            return Err(args.error("there should be no arguments"));
        }
        if mtu < LEAST_MTU {
            return Err(args.error(format!("MTU must be at least {LEAST_MTU}")));
        }
        Ok(Self { prefix, mtu })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("prefix", |e| e.prefix.to_string());
        h.read("mtu", |e| e.mtu.to_string());
    }
}

impl ProtocolTranslator46 {
    fn embed(&self, ends: &Ends<Ipv4Addr>) -> Ends<Ipv6Addr> {
        ends.with(self.prefix.embed(ends.src), self.prefix.embed(ends.dst))
    }

    fn translate(&self, packet: Packet, mut each: impl FnMut(Result<Packet, Refused>)) {
        let seen = match see4(packet.data(), false) {
            Ok(seen) if is_bad_source(seen.ends.src) => return each(Err((Some(packet), BAD_ADDRESS))),
            Ok(seen) => seen,
            Err(why) => return each(Err((Some(packet), why))),
        };
        let to = self.embed(&seen.ends);
        if seen.kind != Kind::Error {
            return to6(packet, &seen, &to, self.mtu, each);
        }
        let made = inside4(packet.data(), &seen).and_then(|(inside, quoted)| {
            error6(&packet, &seen, &to, (&inside, quoted), &self.embed(&inside.ends))
        });
        each(made.map_err(|why| (Some(packet), why)));
    }
}

impl Vector for ProtocolTranslator46 {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            self.translate(packet, |made| match made {
                Ok(made) => cx.output(0, made),
                Err(refused) => refuse(refused, cx),
            });
        }
        cx.recycle(batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn arguments() {
        for (arguments, prefix, mtu) in [
            ("", "::/96", "1280"),
            ("MTU 1400", "::/96", "1400"),
            ("PREFIX 64:ff9b::/96, MTU 1500", "64:ff9b::/96", "1500"),
            ("MTU 1280, PREFIX 2001:db8::/32", "2001:db8::/32", "1280"),
        ] {
            let mut bench = Bench::with_ports(&format!("ProtocolTranslator46({arguments})"), 1, 1);
            assert_eq!((bench.read("prefix"), bench.read("mtu")), (prefix.into(), mtu.into()), "{arguments}");
        }
        for (arguments, wrong) in [
            ("MTU 1279", "MTU must be at least 1280"),
            ("PREFIX ::/95", "PREFIX: "),
            ("MTU 1400, x", "there should be no arguments"),
        ] {
            let error = Bench::error(&format!("ProtocolTranslator46({arguments})"));
            assert!(error.contains(wrong), "{error}");
        }
    }
}
