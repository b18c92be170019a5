//! # LinuxIPLookup
//! Looks up the next hop of IP packets in the routing table that the Linux kernel has at the start.
//!
//! ## Synopsis
//! `LinuxIPLookup(INTERFACE0, INTERFACE1, ...)`
//!
//! ## Arguments
//! - `INTERFACE` (*text*, any number): an interface of the kernel. Packets whose route goes over the N-th one
//!   leave by output N, from 0 on. Routes over other interfaces are left out, with a message.
//!
//! The kernel's main table is read once (`/proc/net/route`), at the start and in a hot swap. To follow its
//! changes, use LinuxRoutes. Of several routes to one network the one with the lowest metric counts.
//!
//! ## Ports
//! One push input; as many push outputs as there are interfaces, or one more, for packets without a route,
//! which are dropped otherwise. The destination is the packet's destination annotation; if the route has a
//! gateway, the annotation becomes the gateway. Click also prints a line for each packet; this element
//! does not.
//!
//! ## Handlers
//! - `table` (read): every route on a line: network, gateway or `-`, output.
//! - `working_set` (read): about how many bytes lookups of all kinds of addresses reach.
//! - `lookup` (read, parameter): `OUT` or `OUT GW` for an IP address; `-1` if there is no route.
//!
//! ## Threads
//! All workers share one table, which they read without a lock.
//!
//! ## Example
//! ```click
//! r :: LinuxIPLookup(eth0, eth1);
//! Idle -> r;
//! r [0] -> Discard; r [1] -> Discard;
//! r [2] -> ICMPError(192.0.2.1, unreachable, net) -> Discard;
//! ```
//!
//! ## See also
//! LinuxRoutes, RadixIPLookup, LinearIPLookup

use super::engine::hops::NextHop;
use super::iplookup::TableVariant;
use crate::prelude::*;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use tables::Prefix;

/// `LinuxIPLookup`.
pub struct Linux;

impl TableVariant for Linux {
    const CLASS: &'static str = "LinuxIPLookup";
    const COMPLAINS_AS: Option<&'static str> = None;
    const CHANGES: bool = false;
    const FLUSHES: bool = false;
    const KEEPS_PLACES: bool = true;
    const MANUAL: &'static str = manual!("lookup/linuxiplookup");
    const ROUTES: Option<super::iplookup::ReadRoutes> = Some(routes);
}

/// Where the kernel shows its table, as the thread sees it that reads it.
const TABLE: &str = "/proc/thread-self/net/route";

/// The kernel's routes over the interfaces that the arguments name.
fn routes(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    outputs: u32,
) -> Result<Vec<(Prefix, NextHop)>, ArgError> {
    let interfaces: Vec<String> = args.rest_args().into_iter().map(|arg| arg.text.to_string()).collect();
    let named = interfaces.len() as u32;
    if outputs != named && outputs != named + 1 {
        return Err(args.error(format!("need {named} or {} output ports", named + 1)));
    }
    cx.permits(Outside::Namespace(None), args)?;
    let text = std::fs::read_to_string(TABLE);
    let text = text.map_err(|e| args.error(format!("cannot open /proc/net/route: {e}")))?;
    let (mut routes, others) = read(&text, &interfaces);
    for interface in others {
        cx.hub().chatter(&format!("LinuxIPLookup: no output for dev {interface}"));
    }
    // What has no route leaves by the last output.
    if outputs > named
        && let Some(all) = Prefix::new(0, 0)
        && routes.iter().all(|(prefix, _)| *prefix != all)
    {
        routes.push((all, NextHop { gateway: None, port: named }));
    }
    Ok(routes)
}

/// The routes in the kernel's text: lines of interface, destination, gateway, flags, two counts, metric, mask
/// and so on, with addresses as numbers in the byte order of the machine. Also the other interfaces.
fn read(text: &str, interfaces: &[String]) -> (Vec<(Prefix, NextHop)>, Vec<String>) {
    let (mut routes, mut others) = (Vec::new(), Vec::new());
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, to, via, _flags, _, _, metric, mask, ..] = words[..] else { continue };
        let address =
            |word| u32::from_str_radix(word, 16).ok().map(|word| Ipv4Addr::from(word.to_ne_bytes()));
        let (Some(to), Some(via), Some(mask)) = (address(to), address(via), address(mask)) else { continue };
        let Some(prefix) = Prefix::new(to.to_bits(), mask.to_bits().leading_ones() as u8) else { continue };
        let Some(port) = interfaces.iter().position(|known| known == interface) else {
            others.push(interface.to_owned());
            continue;
        };
        let gateway = Some(via).filter(|via| !via.is_unspecified());
        let metric: u32 = metric.parse().unwrap_or(0);
        routes.push((metric, (prefix, NextHop { gateway, port: port as u32 })));
    }
    routes.sort_by_key(|(metric, _)| *metric);
    let mut seen = HashSet::new();
    let best =
        routes.into_iter().map(|(_, route)| route).filter(|(prefix, _)| seen.insert(*prefix)).collect();
    (best, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn the_kernels_text_is_read() {
        let hex = |a: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(a));
        let line = |dev: &str, to: [u8; 4], via: [u8; 4], metric: u32, mask: [u8; 4]| {
            format!("{dev}\t{}\t{}\t0003\t0\t0\t{metric}\t{}\t0\t0\t0\n", hex(to), hex(via), hex(mask))
        };
        let none = [0; 4];
        let text = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
                .to_owned(),
            line("eth0", none, [10, 0, 0, 1], 100, none),
            line("eth1", none, [10, 1, 0, 1], 50, none),
            line("eth1", [10, 1, 0, 0], none, 0, [255, 255, 0, 0]),
            line("wlan0", [10, 2, 0, 0], none, 0, [255, 255, 0, 0]),
            "odd\n".to_owned(),
        ]
        .concat();
        let (routes, others) = read(&text, &["eth0".to_owned(), "eth1".to_owned()]);
        let prefix = |a: [u8; 4], len| Prefix::new(u32::from_be_bytes(a), len).unwrap();
        let hop = |gateway: Option<Ipv4Addr>, port| NextHop { gateway, port };
        assert_eq!(
            routes,
            [
                (prefix([10, 1, 0, 0], 16), hop(None, 1)),
                (prefix(none, 0), hop(Some(Ipv4Addr::new(10, 1, 0, 1)), 1)),
            ]
        );
        assert_eq!(others, ["wlan0"]);
    }

    #[test]
    fn outputs_fit_the_interfaces() {
        for (interfaces, outputs) in [("eth0, eth1", 1), ("eth0", 3)] {
            let config = format!("e :: LinuxIPLookup({interfaces}); Idle -> e;");
            let ends: String = (0..outputs).map(|n| format!("e [{n}] -> Discard; ")).collect();
            let sources = [lang::Source::new("f", config + &ends)];
            let registry = std::sync::Arc::new(crate::registry());
            let options = runtime::Options::default();
            let made = runtime::Router::new(&sources, lang::LoadOptions::default(), registry, options);
            let text = made.err().map(|d| d.render_plain(d.sources())).unwrap_or_default();
            assert!(text.contains("need ") && text.contains(" output ports"), "{text}");
        }
        // Nothing goes over an interface that is not there; the rest leaves by the last output.
        let mut bench = Bench::with_config("e :: LinuxIPLookup(no-such-device);", 1, 2);
        assert_eq!(bench.read("table").split_whitespace().collect::<Vec<_>>(), ["0.0.0.0/0", "-", "1"]);
        assert!(bench.push(0, b"packet").iter().all(|(port, _)| *port == 1));
    }
}
