//! # ARPResponder
//! Answers ARP requests (RFC 826).
//!
//! ## Synopsis
//! `ARPResponder(ADDR [ADDR ...] ETH, ...)`
//!
//! ## Arguments
//! Each argument is one or more IP addresses or prefixes and the Ethernet address that they have, in any
//! order; or a name for both (AddressInfo). For an address in several prefixes the longest prefix is used.
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Input: ARP requests with their Ethernet header. Output 0:
//! replies. Anything else, and requests for other addresses, go to output 1 or are dropped.
//!
//! ## Handlers
//! - `table` (read): the addresses, one to a line.
//! - `lookup` (read, *IP*): the Ethernet address that would be answered.
//! - `add` (write, *IP[/MASK] ETH*), `remove` (write, *IP[/MASK]*): change the table.
//!
//! ## Threads
//! Each worker has its own instance.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 5, STOP true)
//!   -> ARPResponder(10.0.0.1 10.0.1.0/24 00:00:C0:00:00:01) -> Discard;
//! ```
//!
//! ## See also
//! ARPQuerier

use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::{EtherAddr as EtherArg, IpPrefix};
use runtime::FromArg;
use std::net::Ipv4Addr;
use wire::ethernet::ETHERTYPE_ARP;
use wire::{Arp, EtherAddr, Ethernet, arp};

const NOT_AN_ARP_REQUEST: DropReason = DropReason::new("not an ARP request");
const FOR_ANOTHER_ADDRESS: DropReason = DropReason::new("ARP request for another address");

/// The `ARPResponder` element.
pub struct ArpResponder {
    /// Longest prefixes first.
    table: Vec<(IpPrefix, EtherAddr)>,
}

impl ArpResponder {
    fn find(&self, ip: Ipv4Addr) -> Option<EtherAddr> {
        self.table.iter().find(|(prefix, _)| prefix.contains(ip)).map(|(_, mac)| *mac)
    }
    fn add(&mut self, prefix: IpPrefix, mac: EtherAddr) {
        self.table.retain(|(p, _)| (p.network(), p.mask) != (prefix.network(), prefix.mask));
        self.table.push((prefix, mac));
        self.table.sort_by_key(|(p, _)| std::cmp::Reverse(u32::from(p.mask).count_ones()));
    }
}

/// Turns a request into its reply in place; `None`, and the reason, if it is not a request that this element
/// answers.
fn answer(data: &mut [u8], find: impl Fn(Ipv4Addr) -> Option<EtherAddr>) -> Result<(), DropReason> {
    let (mut eth, rest) = Ethernet::split_mut(data).ok_or(NOT_AN_ARP_REQUEST)?;
    let mut request = Arp::new_mut(rest).ok_or(NOT_AN_ARP_REQUEST)?;
    if eth.ethertype() != ETHERTYPE_ARP || !request.is_ethernet_ipv4() || request.operation() != arp::REQUEST
    {
        return Err(NOT_AN_ARP_REQUEST);
    }
    let (asked, asker, asker_mac) = (request.target(), request.sender(), request.sender_hardware());
    let own = find(asked).ok_or(FOR_ANOTHER_ADDRESS)?;
    eth.set_dst(asker_mac);
    eth.set_src(own);
    request.set_operation(arp::REPLY);
    request.set_target_hardware(asker_mac);
    request.set_target(asker);
    request.set_sender_hardware(own);
    request.set_sender(asked);
    Ok(())
}

impl Element for ArpResponder {
    const CLASS: &'static str = "ARPResponder";
    const LIVE: bool = true;
    const PORTS: &'static str = "1/1-2";
    const PROCESSING: &'static str = "a/ah";
    const SHARING: Sharing = Sharing::PerWorker;
    const READS: Fields = Fields::DATA;
    const WRITES: Fields = Fields::DATA;
    const DROPS: &'static [DropCase] = &[
        NOT_AN_ARP_REQUEST.when("the packet is something else"),
        FOR_ANOTHER_ADDRESS.when("the request asks for an address that no argument has"),
    ];
    const MANUAL: &'static str = manual!("ethernet/arpresponder");

    fn configure(args: &mut Args<'_>, _cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut e = Self { table: Vec::new() };
        for arg in args.rest_args() {
            let (mut prefixes, mut mac) = (Vec::new(), None);
            for word in lang::split_words(&arg.text) {
                let word = word.text;
                // A name may stand for both kinds of address.
                let as_mac = EtherArg::from_arg(&word, args.names()).ok();
                let as_ip = IpPrefix::parse(&word, args.names(), true).ok();
                if as_mac.is_none() && as_ip.is_none() {
                    return Err(
                        args.error_at(&arg, format!("argument should be 'IP/MASK ETHADDR', not '{word}'"))
                    );
                }
                prefixes.extend(as_ip);
                if let Some(new) = as_mac
                    && mac.replace(new).is_some()
                {
                    return Err(args.error_at(&arg, "more than one Ethernet address"));
                }
            }
            let Some(mac) = mac else { return Err(args.error_at(&arg, "missing Ethernet address")) };
            if prefixes.is_empty() {
                return Err(args.error_at(&arg, "missing IP address"));
            }
            prefixes.into_iter().for_each(|p| e.add(p, EtherAddr(mac.0)));
        }
        Ok(e)
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("table", |e| e.table.iter().fold(String::new(), |t, (p, mac)| t + &format!("{p} {mac}\n")));
        h.parameter("lookup");
        h.read_with("lookup", Combine::First, |e, arg, _| {
            let ip = text::value(arg, "expected IP address")?;
            Ok(e.find(ip).map_or_else(String::new, |mac| mac.to_string()))
        });
        h.write("add", |e, v, _| {
            let names = runtime::handler_names();
            let (ip, mac) = v.trim().split_once(char::is_whitespace).ok_or("expected 'IP/MASK ETHADDR'")?;
            let prefix = IpPrefix::parse(ip, &names, true)?;
            let mac = text::value::<EtherArg>(mac, "expected Ethernet address")?;
            e.add(prefix, EtherAddr(mac.0));
            Ok(())
        });
        h.write("remove", |e, v, _| {
            let prefix = IpPrefix::parse(v.trim(), &runtime::handler_names(), true)?;
            let before = e.table.len();
            e.table.retain(|(p, _)| (p.network(), p.mask) != (prefix.network(), prefix.mask));
            if e.table.len() < before { Ok(()) } else { Err("no such address".into()) }
        });
    }
}

impl Simple for ArpResponder {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match answer(packet.data_mut(), |ip| self.find(ip)) {
            Ok(()) => Some(packet),
            Err(reason) => {
                cx.fail(packet, reason);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wire::{Arp, EtherAddr, Ethernet};

    const ASKER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 9]);

    fn request(target: [u8; 4]) -> Vec<u8> {
        let eth = Ethernet::build(EtherAddr::BROADCAST, ASKER, 0x0806);
        let arp = Arp::request(ASKER, [10, 0, 0, 9].into(), target.into());
        eth.bytes().iter().chain(arp.bytes()).copied().collect()
    }

    #[test]
    fn answers_for_its_addresses_only() {
        let mut b = Bench::with_ports(
            "ARPResponder(10.0.0.1 10.1.0.0/16 2:0:0:0:0:1, 10.1.2.0/24 2:0:0:0:0:2)",
            1,
            2,
        );
        for (target, last) in [([10, 0, 0, 1], 1), ([10, 1, 1, 1], 1), ([10, 1, 2, 3], 2)] {
            let out = b.push(0, &request(target));
            assert_eq!(out[0].0, 0);
            let (eth, rest) = Ethernet::split(&out[0].1).unwrap();
            let arp = Arp::new(rest).unwrap();
            let own = EtherAddr([2, 0, 0, 0, 0, last]);
            assert_eq!((eth.dst(), eth.src(), arp.operation()), (ASKER, own, 2));
            assert_eq!((arp.sender(), arp.sender_hardware()), (target.into(), own));
            assert_eq!((arp.target(), arp.target_hardware()), ([10, 0, 0, 9].into(), ASKER));
        }
        assert_eq!(b.push(0, &request([10, 0, 0, 2]))[0].0, 1);
    }

    #[test]
    fn drops_what_is_cut_or_no_request() {
        let mut b = Bench::with_ports("ARPResponder(10.0.0.1 2:0:0:0:0:1)", 1, 1);
        let good = request([10, 0, 0, 1]);
        for cut in 0..good.len() {
            assert!(b.push(0, &good[..cut]).is_empty());
        }
        let mut reply = good.clone();
        reply[21] = 2;
        assert!(b.push(0, &reply).is_empty());
        assert_eq!(b.push(0, &good).len(), 1);
    }

    #[test]
    fn the_table_can_be_changed() {
        let mut b = Bench::with_ports("ARPResponder(10.0.0.1 2:0:0:0:0:1)", 1, 1);
        b.write("add", "10.0.0.2 2:0:0:0:0:2");
        assert_eq!(b.push(0, &request([10, 0, 0, 2])).len(), 1);
        b.write("remove", "10.0.0.1");
        assert!(b.push(0, &request([10, 0, 0, 1])).is_empty());
    }

    #[test]
    fn arguments_need_both_addresses() {
        assert!(Bench::error("ARPResponder(10.0.0.1)").contains("missing Ethernet address"));
        assert!(Bench::error("ARPResponder(2:0:0:0:0:1)").contains("missing IP address"));
    }
}
