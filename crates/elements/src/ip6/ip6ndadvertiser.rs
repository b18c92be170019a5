//! # IP6NDAdvertiser
//! Answers neighbor solicitations for IPv6 addresses of this host (RFC 4861).
//!
//! ## Synopsis
//! `IP6NDAdvertiser(ADDR [ADDR ...] ETH, ...)`
//!
//! ## Arguments
//! Each argument is one or more IPv6 addresses or prefixes and the Ethernet address that they have, in any
//! order. For an address in several prefixes the longest prefix is used.
//!
//! ## Ports
//! One input, one output; agnostic. Input: neighbor solicitations with their Ethernet header. Output:
//! advertisements, to the sender; one to all nodes if the sender has no address yet, because it finds out
//! whether the one it wants is free (RFC 4862 section 5.4). Anything else is dropped.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> IP6NDAdvertiser(fe80::1 2001:db8:1::/64 00:00:C0:00:00:01) -> Discard;
//! ```
//!
//! ## See also
//! IP6NDSolicitor, ARPResponder

use crate::ip6::engine::discovery::{Solicitation, frame};
use crate::prelude::*;
use lang::args::{EtherAddr as EtherArg, FromArg, Ip6Prefix};
use std::net::Ipv6Addr;
use tables::Prefix6;
use wire::icmpv6::{NEIGHBOR_ADVERTISEMENT, OPTION_TARGET};
use wire::{EtherAddr, ethernet, ipv6};

const NOT_A_SOLICITATION: DropReason = DropReason::new("not a neighbor solicitation");
const FOR_ANOTHER_ADDRESS: DropReason = DropReason::new("solicitation for another address");

/// The sender is a router, and the advertisement was solicited.
const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The `IP6NDAdvertiser` element.
pub struct IP6NDAdvertiser {
    /// Longest prefixes first.
    table: Vec<(Prefix6, EtherAddr)>,
}

impl Element for IP6NDAdvertiser {
    const CLASS: &'static str = "IP6NDAdvertiser";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        NOT_A_SOLICITATION.when("the packet is something else, or damaged, or a router has forwarded it"),
        FOR_ANOTHER_ADDRESS.when("it asks for an address that no argument has"),
        drops::OUT_OF_MEMORY.when("there was no buffer for the advertisement"),
    ];
    const MANUAL: &'static str = manual!("ip6/ip6ndadvertiser");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut table = Vec::new();
        for (i, arg) in args.rest_args().into_iter().enumerate() {
            let (mut prefixes, mut mac) = (Vec::new(), None);
            for word in lang::split_words(&arg.text) {
                if let Ok(p) = Ip6Prefix::parse(&word.text, args.names(), true) {
                    prefixes.extend(Prefix6::new(p.addr.to_bits(), p.len));
                } else if let Ok(new) = EtherArg::from_arg(&word.text, args.names()) {
                    if mac.replace(new).is_some() {
                        return Err(
                            args.error_at(&arg, format!("argument {i} has more than one Ethernet address"))
                        );
                    }
                } else {
                    return Err(args.error_at(&arg, format!("argument {i} should be `IP6/MASK ETHADDR'")));
                }
            }
            if prefixes.is_empty() {
                return Err(args.error_at(&arg, format!("argument {i} had no IP6 address and masks")));
            }
            let Some(mac) = mac else { return Err(args.error_at(&arg, "missing Ethernet address")) };
            table.extend(prefixes.into_iter().map(|p| (p, EtherAddr(mac.0))));
        }
        // The last of equals counts, as in Click.
        table.reverse();
        table.sort_by_key(|(p, _)| std::cmp::Reverse(p.len()));
        Ok(Self { table })
    }
}

impl IP6NDAdvertiser {
    fn answer(&self, packet: &Packet) -> Result<Packet, DropReason> {
        let asked = Solicitation::parse(packet.data()).ok_or(NOT_A_SOLICITATION)?;
        let target = asked.target.to_bits();
        let own = self.table.iter().find(|(prefix, _)| prefix.contains(target));
        let (_, mac) = own.ok_or(FOR_ANOTHER_ADDRESS)?;
        let (to, to_mac, flags) = if asked.src.is_unspecified() {
            (ALL_NODES, EtherAddr::multicast_v6(ALL_NODES), ROUTER)
        } else {
            (asked.src, asked.src_mac, ROUTER | SOLICITED)
        };
        let head = (u32::from(flags) << 24, asked.target);
        frame([*mac, to_mac], [asked.target, to], NEIGHBOR_ADVERTISEMENT, head, (OPTION_TARGET, *mac))
            .ok_or(drops::OUT_OF_MEMORY)
    }
}

impl Simple for IP6NDAdvertiser {
    fn packet(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match self.answer(&packet) {
            Ok(mut answer) => {
                answer.set_mac_header(0);
                answer.set_network_header(ethernet::HEADER_LEN, ipv6::HEADER_LEN);
                Some(answer)
            }
            Err(reason) => {
                cx.drop(packet, reason);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::discovery::{Advertisement, sample::solicitation};
    use crate::ip6::engine::header::sample::a;
    use crate::testing::Bench;
    use wire::{EtherAddr, Ethernet, Ipv6};

    const ASKER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    #[test]
    fn answers_for_its_addresses_only() {
        let mut b = Bench::new("IP6NDAdvertiser(fe80::1 2001:db8::/64 2:0:0:0:0:1, 2001:db8::5 2:0:0:0:0:5)");
        for (target, last) in [("fe80::1", 1), ("2001:db8::77", 1), ("2001:db8::5", 5)] {
            let out = b.push(0, &solicitation(ASKER, "fe80::9", target)).remove(0).1;
            let own = EtherAddr([2, 0, 0, 0, 0, last]);
            let (eth, rest) = Ethernet::split(&out).unwrap();
            assert_eq!((eth.dst(), eth.src(), out.len()), (ASKER, own, 86));
            let h = Ipv6::new(rest).unwrap();
            assert_eq!((h.src(), h.dst(), h.hop_limit()), (a(target), a("fe80::9"), 255));
            assert_eq!(rest[44], 0xc0);
            let got = Advertisement::parse(&out).unwrap();
            assert_eq!((got.target, got.mac, got.overrides), (a(target), Some(own), false));
        }
        assert!(b.push(0, &solicitation(ASKER, "fe80::9", "fe80::2")).is_empty());
        assert_eq!(b.drops(), [("solicitation for another address".to_owned(), 1)]);
    }

    #[test]
    fn a_host_without_an_address_is_told_with_all_others() {
        let mut b = Bench::new("IP6NDAdvertiser(fe80::1 2:0:0:0:0:1)");
        let out = b.push(0, &solicitation(ASKER, "::", "fe80::1")).remove(0).1;
        assert_eq!(out[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(Ipv6::new(&out[14..]).unwrap().dst(), a("ff02::1"));
        assert_eq!(out[58], 0x80);
        assert!(Advertisement::parse(&out).is_some());
    }

    #[test]
    fn drops_what_is_cut_damaged_or_forwarded() {
        let mut b = Bench::new("IP6NDAdvertiser(fe80::1 2:0:0:0:0:1)");
        let good = solicitation(ASKER, "fe80::9", "fe80::1");
        for cut in 0..good.len() {
            assert!(b.push(0, &good[..cut]).is_empty(), "{cut}");
        }
        for at in (12..good.len()).filter(|at| !(15..18).contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 0x11;
            assert!(b.push(0, &bad).is_empty(), "{at}");
        }
        assert_eq!(b.push(0, &good).len(), 1);
        // Ethernet's padding does no harm.
        assert_eq!(b.push(0, &[&good[..], &[0; 9]].concat()).len(), 1);
    }

    #[test]
    fn arguments_need_both_addresses() {
        assert!(Bench::error("IP6NDAdvertiser(fe80::1)").contains("missing Ethernet address"));
        assert!(
            Bench::error("IP6NDAdvertiser(2:0:0:0:0:1)").contains("argument 0 had no IP6 address and masks")
        );
        assert!(
            Bench::error("IP6NDAdvertiser(fe80::1 x)").contains("argument 0 should be `IP6/MASK ETHADDR'")
        );
        let two = Bench::error("IP6NDAdvertiser(fe80::1 2:0:0:0:0:1 2:0:0:0:0:2)");
        assert!(two.contains("argument 0 has more than one Ethernet address"), "{two}");
    }
}
