//! The addresses of the machine's interfaces, read when a configuration uses a name that it does not define.

use lang::args::{DeviceAddrs, EtherAddr, Ip6Prefix, IpPrefix};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use std::net::Ipv4Addr;

/// The first addresses of each kind that an interface has, and the gateway of the default route over it;
/// `None`: there is no such interface, or the system does not report it.
pub(crate) fn addresses(name: &str) -> Option<DeviceAddrs> {
    // Most words that could be an address or a number cause no system call.
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let mut found: Option<DeviceAddrs> = None;
    for one in getifaddrs().ok()?.filter(|one| one.interface_name == name) {
        add(found.get_or_insert_default(), &one);
    }
    if let Some(found) = &mut found {
        found.gateway = gateway(&std::fs::read_to_string("/proc/net/route").unwrap_or_default(), name);
    }
    found
}

fn add(addrs: &mut DeviceAddrs, one: &InterfaceAddress) {
    let Some(address) = &one.address else { return };
    let mask = one.netmask.as_ref();
    if let Some(ether) = address.as_link_addr().and_then(|link| link.addr()) {
        addrs.ether.get_or_insert(EtherAddr(ether));
    } else if let Some(ip) = address.as_sockaddr_in().map(|a| a.ip()) {
        if addrs.ip.is_none() {
            addrs.ip = Some(ip);
            addrs.net =
                mask.and_then(|m| m.as_sockaddr_in()).map(|mask| IpPrefix { addr: ip, mask: mask.ip() });
        }
    } else if let Some(ip) = address.as_sockaddr_in6().map(|a| a.ip()) {
        // A link-local address is used only if there is no other.
        let better =
            addrs.ip6.is_none_or(|known| known.is_unicast_link_local() && !ip.is_unicast_link_local());
        if better {
            addrs.ip6 = Some(ip);
            let len = mask.and_then(|m| m.as_sockaddr_in6()).map(|mask| mask.ip().to_bits().leading_ones());
            addrs.net6 = len.map(|len| Ip6Prefix { addr: ip, len: len as u8 });
        }
    }
}

/// The gateway of an interface's default route, in the kernel's table: lines of interface, destination,
/// gateway and so on, where addresses are numbers in the byte order of the machine.
fn gateway(table: &str, name: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let (interface, to, via) = (words.next()?, words.next()?, words.next()?);
        let via = number(via)?;
        (interface == name && number(to)? == 0 && via != 0).then(|| Ipv4Addr::from(via.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_addresses() {
        let lo = addresses("lo").unwrap();
        assert_eq!((lo.ip, lo.ether, lo.gateway), (Some(Ipv4Addr::LOCALHOST), Some(EtherAddr([0; 6])), None));
        assert_eq!(lo.net.map(|n| n.mask), Some(Ipv4Addr::new(255, 0, 0, 0)));
        assert_eq!((addresses("no such thing"), addresses("1")), (None, None));
    }

    #[test]
    fn gateways_are_read() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth1\t00000000\t00000000\t0001\t0\t0\t0\t00000000\n\
                     eth0\t0000000A\t0200000A\t0003\t0\t0\t0\t000000FF\n\
                     eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\nodd\n";
        if cfg!(target_endian = "little") {
            assert_eq!(gateway(table, "eth0"), Some(Ipv4Addr::new(10, 0, 0, 1)));
        }
        assert_eq!((gateway(table, "eth1"), gateway(table, "odd"), gateway("", "eth0")), (None, None, None));
    }
}
