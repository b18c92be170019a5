//! # ProtocolTranslator64
//! Translates IPv6 packets into IPv4 packets (RFC 7915).
//!
//! Every packet is translated by itself; the element remembers nothing. Headers and ICMP messages are
//! translated, with the packets that ICMP errors quote, and checksums are adjusted.
//!
//! ## Synopsis
//! `ProtocolTranslator64([PREFIX])`
//!
//! ## Arguments
//! - `PREFIX` (*IPv6 network*, keyword): the network whose addresses contain IPv4 addresses (RFC 6052). Its
//!   length is 32, 40, 48, 56, 64 or 96. Without it, the addresses are `::a.b.c.d` or `::ffff:a.b.c.d`.
//!
//! ## Ports
//! One push input, one push output. Packets begin with their IPv6 header. Both addresses of a packet must
//! contain an IPv4 address. The new header is marked, and the destination annotation is the new destination.
//! The TTL is the old hop limit, so that DecIP6HLIM or DecIPTTL belongs in front of the element or behind it.
//!
//! Hop-by-hop options, destination options and finished routing headers are left out; a fragment header makes
//! the packet a fragment. Packets of up to 1260 bytes may be fragmented on their way, and have a random
//! identification; longer ones have Don't Fragment. Not translated are ICMPv6 messages that IPv4 does not
//! have, such as neighbor discovery, ICMPv6 errors about them, and fragments of ICMPv6 messages. The
//! extensions of ICMPv6 errors (RFC 4884) are left out.
//!
//! ## Handlers
//! - `prefix` (read): the `PREFIX` argument; empty without it.
//!
//! ## Threads
//! Each worker has its own.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1, STOP true)
//!   -> UDPIP6Encap(64:ff9b::192.0.2.1, 1234, 64:ff9b::198.51.100.2, 53)
//!   -> ProtocolTranslator64(PREFIX 64:ff9b::/96)
//!   -> IPPrint -> Discard;
//! ```
//!
//! ## See also
//! ProtocolTranslator46, AddressTranslator, NAT64

use super::engine::embedding::Embedding;
use super::engine::translate::{
    BAD_ADDRESS, Ends, Kind, NOT_TRANSLATED, Refused, SOURCE_ROUTE, WRONG_ERROR, error4, inside6,
    is_bad_source, refuse, see6, to4,
};
use crate::prelude::*;
use lang::args::Raw;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The `ProtocolTranslator64` element.
pub struct ProtocolTranslator64 {
    prefix: Option<Embedding>,
}

impl Element for ProtocolTranslator64 {
    const CLASS: &'static str = "ProtocolTranslator64";
    const PORTS: &'static str = "1/1";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA.with(Fields::HEADERS).with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        drops::BAD_IP_LENGTH.when("or no IPv6 header"),
        BAD_ADDRESS.when(
            "an address contains no IPv4 address, or the source is not the address of one \
             host",
        ),
        SOURCE_ROUTE.when("the packet has a routing header that has not come to its end"),
        NOT_TRANSLATED.when("IPv4 has no such message or protocol, or the transport header is cut off"),
        WRONG_ERROR,
        drops::PACKET_TOO_LONG.when("more than 65535 bytes as an IPv4 packet"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the new packet"),
    ];
    const MANUAL: &'static str = manual!("ip6/protocoltranslator64");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let prefix = args.k::<Raw>("PREFIX")?.map(|Raw(text)| Embedding::parse(&text)).transpose();
        if !args.rest_args().is_empty() {
            return Err(args.error("there should be no arguments"));
        }
        Ok(Self { prefix: prefix.map_err(|e| args.error(format!("PREFIX: {e}")))? })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("prefix", |e| e.prefix.map_or_else(String::new, |prefix| prefix.to_string()));
    }
}

impl ProtocolTranslator64 {
    fn extract(&self, ends: &Ends<Ipv6Addr>) -> Result<Ends<Ipv4Addr>, DropReason> {
        let one = |a: Ipv6Addr| match &self.prefix {
            Some(prefix) => prefix.extract(a),
            None => Embedding::COMPATIBLE.extract(a).or_else(|| Embedding::MAPPED.extract(a)),
        };
        match (one(ends.src), one(ends.dst)) {
            (Some(src), Some(dst)) => Ok(ends.with(src, dst)),
            _ => Err(BAD_ADDRESS),
        }
    }

    fn translate(&self, packet: Packet, id: u16) -> Result<Packet, Refused> {
        let seen = see6(packet.data(), false).and_then(|seen| {
            let to = self.extract(&seen.ends)?;
            if is_bad_source(to.src) { Err(BAD_ADDRESS) } else { Ok((seen, to)) }
        });
        let (seen, to) = match seen {
            Ok(seen) => seen,
            Err(why) => return Err((Some(packet), why)),
        };
        if seen.kind != Kind::Error {
            return to4(packet, &seen, &to, id);
        }
        inside6(packet.data(), &seen)
            .and_then(|(inside, quoted)| {
                let about = self.extract(&inside.ends)?;
                error4(&packet, (&seen, id), &to, (&inside, quoted), &about)
            })
            .map_err(|why| (Some(packet), why))
    }
}

impl Vector for ProtocolTranslator64 {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        for packet in batch.drain(..) {
            let id = cx.random() as u16;
            match self.translate(packet, id) {
                Ok(made) => cx.output(0, made),
                Err(refused) => refuse(refused, cx),
            }
        }
        cx.recycle(batch);
    }
}
