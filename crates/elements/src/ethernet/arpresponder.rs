//! # ARPResponder
//! Answers ARP requests (RFC 826).
//!
//! ## Synopsis
//! `ARPResponder(ADDR [ADDR ...] ETH, ...)`
//!
//! ## Arguments
//! Each argument is one or more IP addresses or prefixes and the Ethernet address that they have, in any
//! order; or a name for both (AddressInfo). For an address in several prefixes, of which one contains the
//! other, the narrower is used. Of several entries for one prefix, the last is used; there is a warning.
//!
//! ## Ports
//! One input, one or two outputs; agnostic. Input: ARP requests with their Ethernet header. Output 0:
//! replies, as new packets without a timestamp; of the request's annotations, device and VLAN tag remain.
//! Anything else, and requests for other addresses, go to output 1 or are dropped.
//!
//! ## Handlers
//! - `table` (read): the prefixes, one to a line, in the order in which they are looked up.
//! - `lookup` (read, *IP*): the Ethernet address that would be answered.
//! - `add` (write, *IP[/MASK] ... ETH*), `remove` (write, *IP[/MASK]*): change the table.
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
use runtime::{FromArg, NameDb};
use std::net::Ipv4Addr;
use wire::ethernet::ETHERTYPE_ARP;
use wire::{Arp, EtherAddr, Ethernet, arp};

const NOT_AN_ARP_REQUEST: DropReason = DropReason::new("not an ARP request");
const FOR_ANOTHER_ADDRESS: DropReason = DropReason::new("ARP request for another address");

/// The length of a reply; to pad it is left to the device.
const REPLY_LEN: usize = wire::ethernet::HEADER_LEN + arp::HEADER_LEN;

/// The `ARPResponder` element.
pub struct ArpResponder {
    /// In the order of [`order`].
    table: Vec<(IpPrefix, EtherAddr)>,
}

impl ArpResponder {
    fn find(&self, ip: Ipv4Addr) -> Option<EtherAddr> {
        self.table.iter().find(|(prefix, _)| prefix.contains(ip)).map(|(_, mac)| *mac)
    }
}

/// Reads one or more prefixes and an Ethernet address, and adds them.
fn add(table: &mut Vec<(IpPrefix, EtherAddr)>, text: &str, names: &NameDb) -> Result<(), &'static str> {
    let (mut prefixes, mut mac) = (Vec::new(), None);
    let words = lang::split_words(text);
    for word in &words {
        if let Ok(prefix) = IpPrefix::parse(&word.text, names, true) {
            prefixes.push(IpPrefix { addr: prefix.network(), ..prefix });
        } else if let Ok(own) = EtherArg::from_arg(&word.text, names) {
            if mac.replace(own).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    // A name may stand for both.
    let both = || words.iter().find_map(|word| EtherArg::from_arg(&word.text, names).ok());
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    let mac = mac.or_else(both).ok_or("missing ETH")?;
    table.extend(prefixes.into_iter().map(|prefix| (prefix, EtherAddr(mac.0))));
    Ok(())
}

/// Whether an entry comes after one that stood in front of it.
fn after((one, _): &(IpPrefix, EtherAddr), (later, _): &(IpPrefix, EtherAddr)) -> bool {
    // Of the same prefix, the later one counts; what lies in another comes before that.
    one == later || (!later.contains(one.addr) && one.contains(later.addr))
}

/// Sorts entries as they are looked up: what lies in another prefix before that, else as they are given. Of
/// several entries for one prefix the last remains. Returns the prefixes that have been there again.
fn order(table: &mut Vec<(IpPrefix, EtherAddr)>) -> Vec<IpPrefix> {
    let mut sorted: Vec<(IpPrefix, EtherAddr)> = Vec::with_capacity(table.len());
    for entry in table.drain(..) {
        // "Lies in" is no total order: Click's sort, too, compares neighbors.
        let place = sorted.iter().rposition(|before| !after(before, &entry)).map_or(0, |at| at + 1);
        sorted.insert(place, entry);
    }
    let mut again = Vec::new();
    for entry in sorted {
        match table.last() {
            Some((prefix, _)) if *prefix == entry.0 => again.push(entry.0),
            _ => table.push(entry),
        }
    }
    again
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
    const DROPS: &'static [DropCase] = &[
        NOT_AN_ARP_REQUEST.when("the packet is something else"),
        FOR_ANOTHER_ADDRESS.when("the request asks for an address that no argument has"),
    ];
    const MANUAL: &'static str = manual!("ethernet/arpresponder");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let mut table = Vec::new();
        let mut failed = None;
        for (number, arg) in args.rest_args().iter().enumerate() {
            if let Err(message) = add(&mut table, &arg.text, args.names()) {
                let error = args.error_at(arg, format!("argument {number}: {message}"));
                failed.get_or_insert(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        for prefix in order(&mut table) {
            cx.warn(format!("multiple entries for {prefix}"));
        }
        Ok(Self { table })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("table", |e| e.table.iter().fold(String::new(), |t, (p, mac)| t + &format!("{p} {mac}\n")));
        h.parameter("lookup");
        h.read_with("lookup", Combine::First, |e, arg, _| {
            let ip = text::value(arg, "expected IP address")?;
            Ok(e.find(ip).map_or_else(String::new, |mac| mac.to_string()))
        });
        h.write("add", |e, v, _| {
            let mut table = e.table.clone();
            add(&mut table, v, &runtime::handler_names())?;
            order(&mut table);
            e.table = table;
            Ok(())
        });
        h.write("remove", |e, v, _| {
            let prefix = IpPrefix::parse(v.trim(), &runtime::handler_names(), true);
            let prefix = prefix.map_err(|_| "expected IP/MASK".to_owned())?;
            let prefix = IpPrefix { addr: prefix.network(), ..prefix };
            let at = e.table.iter().position(|(p, _)| *p == prefix);
            e.table.remove(at.ok_or_else(|| format!("{prefix} not found"))?);
            Ok(())
        });
    }
}

impl Simple for ArpResponder {
    fn packet(&mut self, mut packet: Packet, cx: &mut Cx<'_>) -> Option<Packet> {
        match answer(packet.data_mut(), |ip| self.find(ip)) {
            Ok(()) => {
                packet.take(packet.len() - REPLY_LEN);
                let (device, vlan_tci) = (packet.anno().device, packet.vlan_tci());
                let anno = packet.anno_mut();
                *anno = dpdk::Anno::DEFAULT;
                anno.device = device;
                packet.set_vlan_tci(vlan_tci);
                packet.set_mac_header(0);
                Some(packet)
            }
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
        assert!(Bench::error("ARPResponder(10.0.0.1)").contains("argument 0: missing ETH"));
        assert!(Bench::error("ARPResponder(2:0:0:0:0:1)").contains("argument 0: missing IP/MASK"));
    }
}
