//! The messages of neighbor discovery (RFC 4861) in Ethernet frames.

use crate::prelude::*;
use std::net::Ipv6Addr;
use wire::ethernet::{self, ETHERTYPE_IPV6};
use wire::icmpv6::{self, NEIGHBOR_ADVERTISEMENT, NEIGHBOR_HOP_LIMIT, NEIGHBOR_SOLICITATION};
use wire::icmpv6::{OPTION_SOURCE, OPTION_TARGET, ROUTER_SOLICITATION};
use wire::{EtherAddr, Ethernet, Icmpv6, Ipv6, ipv6, protocol};

/// Bytes of a message: its head, the target, and an option with an Ethernet address.
const MESSAGE_LEN: usize = icmpv6::HEADER_LEN + TARGET_LEN + 8;
const TARGET_LEN: usize = 16;
/// The bit of an advertisement that says that it replaces what is known.
const OVERRIDE: u32 = 1 << 29;

/// A frame with a message from one to another; the message has this word, this target, and an option of this
/// type with an Ethernet address. `None`: there is no buffer.
pub(in crate::ip6) fn frame(
    [src_mac, dst_mac]: [EtherAddr; 2],
    [src, dst]: [Ipv6Addr; 2],
    kind: u8,
    (word, target): (u32, Ipv6Addr),
    (option, mac): (u8, EtherAddr),
) -> Option<Packet> {
    let eth = Ethernet::build(dst_mac, src_mac, ETHERTYPE_IPV6);
    let mut ip = Ipv6::build(src, dst, protocol::ICMPV6, MESSAGE_LEN as u16);
    ip.set_hop_limit(NEIGHBOR_HOP_LIMIT);
    let mut icmp = Icmpv6::zeroed();
    icmp.set_kind(kind);
    icmp.set_rest(word);
    let (target, mac) = (target.octets(), mac.octets());
    let before = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
    let mut q = Packet::alloc(dpdk::DEFAULT_HEADROOM, before + MESSAGE_LEN)?;
    let heads = eth.bytes().iter().chain(ip.bytes()).chain(icmp.bytes());
    let option = [option, 1];
    let parts = heads.chain(&target).chain(&option).chain(&mac);
    q.data_mut().iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    icmpv6::fill(ip.pseudo_sum(MESSAGE_LEN as u32), q.data_mut().get_mut(before..)?);
    Some(q)
}

/// A valid message of a neighbor, with the sender's Ethernet address.
struct Message<'a> {
    src_mac: EtherAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    word: u32,
    target: Ipv6Addr,
    options: &'a [u8],
}

/// A neighbor's message of this type that is valid (RFC 4861 sections 7.1.1 and 7.1.2).
fn message(frame: &[u8], kind: u8) -> Option<Message<'_>> {
    let (eth, rest) = Ethernet::split(frame)?;
    let (ip, rest) = Ipv6::split(rest)?;
    let message = rest.get(..usize::from(ip.payload_len()))?;
    let (icmp, rest) = Icmpv6::split(message)?;
    let (target, options) = rest.split_first_chunk::<TARGET_LEN>()?;
    let target = Ipv6Addr::from(*target);
    let good = eth.ethertype() == ETHERTYPE_IPV6
        && ip.version() == 6
        && ip.next_header() == protocol::ICMPV6
        && ip.hop_limit() == NEIGHBOR_HOP_LIMIT
        && (icmp.kind(), icmp.code()) == (kind, 0)
        && icmpv6::verify(ip.pseudo_sum(message.len() as u32), message)
        && icmpv6::options_fit(options)
        && !target.is_multicast();
    let (src_mac, src, dst, word) = (eth.src(), ip.src(), ip.dst(), icmp.rest());
    good.then_some(Message { src_mac, src, dst, word, target, options })
}

/// A neighbor solicitation.
pub(in crate::ip6) struct Solicitation {
    pub(in crate::ip6) src: Ipv6Addr,
    pub(in crate::ip6) src_mac: EtherAddr,
    pub(in crate::ip6) target: Ipv6Addr,
}

impl Solicitation {
    pub(in crate::ip6) fn parse(frame: &[u8]) -> Option<Self> {
        let Message { src_mac, src, dst, target, options, .. } = message(frame, NEIGHBOR_SOLICITATION)?;
        // Who has no address asks a group, and has nobody answer to its Ethernet address.
        let good = !src.is_unspecified()
            || dst == icmpv6::solicited_node(target) && icmpv6::option(options, OPTION_SOURCE).is_none();
        (good && !src.is_multicast() && !src_mac.is_group()).then_some(Self { src, src_mac, target })
    }
}

/// A neighbor advertisement.
pub(in crate::ip6) struct Advertisement {
    pub(in crate::ip6) target: Ipv6Addr,
    /// The target's Ethernet address, if it is in the message.
    pub(in crate::ip6) mac: Option<EtherAddr>,
    /// Whether it replaces what is known.
    pub(in crate::ip6) overrides: bool,
}

impl Advertisement {
    pub(in crate::ip6) fn parse(frame: &[u8]) -> Option<Self> {
        let Message { word, target, options, .. } = message(frame, NEIGHBOR_ADVERTISEMENT)?;
        let mac = icmpv6::option(options, OPTION_TARGET).and_then(EtherAddr::from_prefix);
        Some(Self { target, mac: mac.filter(|mac| !mac.is_group()), overrides: word & OVERRIDE != 0 })
    }
}

/// Whether a frame has a valid router solicitation (RFC 4861 section 6.1.1).
pub(in crate::ip6) fn is_router_solicitation(frame: &[u8]) -> bool {
    let parts = Ethernet::split(frame).and_then(|(eth, rest)| {
        let (ip, rest) = Ipv6::split(rest)?;
        let message = rest.get(..usize::from(ip.payload_len()))?;
        let (icmp, options) = Icmpv6::split(message)?;
        Some((eth, ip, icmp, message, options))
    });
    parts.is_some_and(|(eth, ip, icmp, message, options)| {
        eth.ethertype() == ETHERTYPE_IPV6
            && ip.version() == 6
            && ip.next_header() == protocol::ICMPV6
            && ip.hop_limit() == NEIGHBOR_HOP_LIMIT
            && (icmp.kind(), icmp.code()) == (ROUTER_SOLICITATION, 0)
            && icmpv6::verify(ip.pseudo_sum(message.len() as u32), message)
            && icmpv6::options_fit(options)
            && !ip.src().is_multicast()
            && (!ip.src().is_unspecified() || icmpv6::option(options, OPTION_SOURCE).is_none())
    })
}

/// Frames for the section's tests.
#[cfg(test)]
pub(in crate::ip6) mod sample {
    use super::*;
    use crate::ip6::engine::header::sample::a;

    /// A solicitation from a host to the group of the target; without an option if it has no address.
    pub(in crate::ip6) fn solicitation(mac: EtherAddr, src: &str, target: &str) -> Vec<u8> {
        let group = icmpv6::solicited_node(a(target));
        let macs = [mac, EtherAddr::multicast_v6(group)];
        let made = frame(macs, [a(src), group], NEIGHBOR_SOLICITATION, (0, a(target)), (OPTION_SOURCE, mac));
        let mut bytes = made.unwrap().data().to_vec();
        if a(src).is_unspecified() {
            bytes.truncate(bytes.len() - 8);
            bytes[19] -= 8;
            let sum = Ipv6::new(&bytes[14..]).unwrap().pseudo_sum(24);
            icmpv6::fill(sum, &mut bytes[54..]);
        }
        bytes
    }

    /// An advertisement of a host's address, to another host.
    pub(in crate::ip6) fn advertisement(mac: EtherAddr, target: &str, overrides: bool) -> Vec<u8> {
        let word = 1 << 30 | if overrides { OVERRIDE } else { 0 };
        let macs = [mac, EtherAddr([2, 0, 0, 0, 0, 1])];
        let of = (word, a(target));
        let made = frame(macs, [a(target), a("fe80::1")], NEIGHBOR_ADVERTISEMENT, of, (OPTION_TARGET, mac));
        made.unwrap().data().to_vec()
    }
}
