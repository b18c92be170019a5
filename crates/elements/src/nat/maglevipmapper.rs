//! # MaglevIPMapper
//! Distributes the new flows of an IPRewriter over servers by consistent hashing: a load balancer.
//!
//! ## Synopsis
//! `MaglevIPMapper(ADDR1 [PORT1] [WEIGHT1], ..., [FOUTPUT, ROUTPUT, HASH])`
//!
//! ## Arguments
//! - `ADDR [PORT] [WEIGHT]` (*text*, any number): a server: its IP address, its port (by default `-`: that of
//!   the packet is kept), its weight (1 to 256, default 1), in proportion to which it gets flows. Up to 1,024
//!   servers.
//! - `FOUTPUT` (*int*, keyword, default 0): the output of the IPRewriter for packets to servers.
//! - `ROUTPUT` (*int*, keyword, default 1): the output for their replies.
//! - `HASH` (*source* or *flow*, keyword, default flow): what decides: the source address alone, so that all
//!   connections of a host go to one server; or addresses and ports of both sides.
//!
//! An IPRewriter that has this element's name in the place of an INPUTSPEC sends each new flow to the server
//! that Maglev hashing gives (Eisenbud et al., NSDI 2016): when a server leaves or comes, nearly all other
//! flows would be given the same server as before, and several balancers with the same servers agree. Flows
//! that exist stay with their server whatever happens to the list, as the IPRewriter remembers them.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `servers` (read): each server on a line: address, port, weight, `up`, `down` or `silent` (a HealthCheck
//!   has had no answers), and how often it has been chosen.
//! - `lookup` (read, *SADDR SPORT DADDR DPORT*): the server of such a flow.
//! - `add` (write, *ADDR PORT WEIGHT*): adds a server, or changes its weight. Port and weight may be left
//!   out.
//! - `remove` (write, *ADDR PORT*): removes a server; new flows go to others. Without a port, or with `-`,
//!   this means all servers at the address, here and below.
//! - `down`, `up` (write, *ADDR PORT*): a server gets no new flows any more, or gets some again.
//!
//! ## Threads
//! Shared by all workers. A hot swap to the same arguments keeps the servers as handlers have changed them.
//!
//! ## Example
//! ```click
//! servers :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2 80, 10.0.0.3 80 2);
//! balancer :: IPRewriter(servers, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(198.51.100.9, 5000, 192.0.2.1, 80) -> balancer;
//! balancer [0] -> IPPrint(to) -> IPMirror -> [1] balancer;
//! balancer [1] -> IPPrint(from) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, HealthCheck, RoundRobinIPMapper

use super::engine::headers::FlowId;
use super::engine::input::SharedMapper;
use super::engine::pool::{Balancing, By, Pool, Server};
use super::healthcheck::HealthCheck;
use crate::prelude::*;
use std::sync::Arc;

/// The `MaglevIPMapper` element.
pub struct MaglevIPMapper;

fn look_up(pool: &Pool, text: &str) -> Result<String, String> {
    let flow = FlowId::parse(text)?;
    Ok(pool.of(flow, Server::place).unwrap_or_default())
}

impl Element for MaglevIPMapper {
    const CLASS: &'static str = "MaglevIPMapper";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("nat/maglevipmapper");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let by = args.with("HASH", false, false, |text, _| match text {
            "source" => Ok(By::Source),
            "flow" => Ok(By::Flow),
            _ => Err("expected 'source' or 'flow'".to_owned()),
        })?;
        let outputs = [args.k_or::<u8>("FOUTPUT", 0)?, args.k_or::<u8>("ROUTPUT", 1)?];
        let names = args.names().clone();
        let made = Pool::new(outputs, by.unwrap_or(By::Flow));
        let all = args.rest_args();
        let texts: Vec<&str> = all.iter().map(|arg| arg.text.as_str()).collect();
        let first = match made.add_all(&texts, &names) {
            Ok(()) => None,
            Err((n, wrong)) => {
                Some(all.get(n).map_or_else(|| ArgError::new(&*wrong), |arg| args.error_at(arg, &*wrong)))
            }
        };
        match first {
            Some(error) => Err(error),
            None => {
                let pool = cx.shared(|| made);
                if !cx.config().elements.iter().any(|element| element.class == HealthCheck::CLASS) {
                    pool.forget_answers();
                }
                cx.publish(Arc::new(SharedMapper(Arc::new(Balancing(pool)))));
                Ok(Self)
            }
        }
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Pool>("servers", |pool, _| Ok(pool.text()));
        h.shared_read_with::<Pool>("lookup", look_up);
        h.shared_write::<Pool>("add", |pool, text| pool.add(text, &runtime::handler_names()));
        h.shared_write::<Pool>("remove", Pool::remove);
        h.shared_write::<Pool>("down", |pool, text| pool.set_up(text, false));
        h.shared_write::<Pool>("up", |pool, text| pool.set_up(text, true));
    }
}

#[cfg(test)]
mod tests {
    use crate::ip::engine::header::sample::marked;
    use crate::testing::Bench;
    use crate::transport::engine::datagram::sample;

    /// A packet of a client to the balancer's address.
    fn packet(client: u8, port: u16) -> dpdk::Packet {
        let mut bytes = sample::udp(&[], b"x");
        bytes[12..16].copy_from_slice(&[198, 51, 100, client]);
        bytes[16..20].copy_from_slice(&[192, 0, 2, 1]);
        bytes[20..22].copy_from_slice(&port.to_be_bytes());
        bytes[22..24].copy_from_slice(&[0, 80]);
        wire::ipv4::fill_header(&mut bytes[..20]);
        marked(&bytes)
    }
    /// The last byte of the address of the server that gets it.
    fn server(bench: &mut Bench, client: u8, port: u16) -> Option<u8> {
        bench.send(0, packet(client, port)).first().map(|(_, packet)| packet.data()[19])
    }
    fn bench(more: &str) -> Bench {
        Bench::with_config(
            &format!(
                "m :: MaglevIPMapper(10.0.0.1 80, 10.0.0.2 80, 10.0.0.3 80{more}); e :: IPRewriter(m, drop);"
            ),
            2,
            2,
        )
    }

    #[test]
    fn flows_are_distributed_and_stay_when_a_server_leaves() {
        let mut bench = bench("");
        let before: Vec<_> = (1..600).map(|port| server(&mut bench, 7, port).unwrap()).collect();
        for s in 1..=3 {
            let share = before.iter().filter(|server| **server == s).count();
            assert!((130..270).contains(&share), "{share}");
        }
        bench.write("m.down", "10.0.0.2");
        let after: Vec<_> = (1..600).map(|port| server(&mut bench, 7, port).unwrap()).collect();
        assert_eq!(before, after);
        // New flows go to the others.
        let new: Vec<_> = (1..600).map(|port| server(&mut bench, 8, port).unwrap()).collect();
        assert!(!new.contains(&2) && new.contains(&1) && new.contains(&3));
        bench.write("m.up", "10.0.0.2 80");
        assert!((1..100).any(|port| server(&mut bench, 9, port) == Some(2)));
        bench.write("m.remove", "10.0.0.1");
        let servers = bench.read("m.servers");
        assert!(servers.starts_with("10.0.0.2 80 1 up "), "{servers}");
        assert_eq!(servers.lines().count(), 2);
    }

    #[test]
    fn flows_that_were_not_those_of_a_server_that_left_would_go_where_they_went() {
        let mut bench = bench("");
        let lookup =
            |bench: &mut Bench, port: u16| bench.read(&format!("m.lookup 198.51.100.7 {port} 192.0.2.1 80"));
        let before: Vec<_> = (1..1000).map(|port| lookup(&mut bench, port)).collect();
        bench.write("m.remove", "10.0.0.2");
        let moved = (1..1000)
            .zip(&before)
            .filter(|(port, server)| *server != "10.0.0.2 80" && lookup(&mut bench, *port) != **server)
            .count();
        assert!(moved < 50, "{moved}");
    }

    #[test]
    fn a_host_keeps_its_server_if_the_source_decides() {
        let mut bench = bench(", HASH source");
        let first = server(&mut bench, 7, 1);
        assert!((2..50).all(|port| server(&mut bench, 7, port) == first));
        assert!((1..50).any(|client| server(&mut bench, client, 1) != first));
    }

    #[test]
    fn without_servers_flows_are_dropped() {
        let mut bench = bench("");
        for s in 1..=3 {
            bench.write("m.down", &format!("10.0.0.{s}"));
        }
        assert_eq!(server(&mut bench, 1, 1), None);
        assert_eq!(bench.drops(), [("no free address or port".to_owned(), 1)]);
    }

    #[test]
    fn weights_and_errors() {
        let mut bench = bench(", 10.0.0.4 80 5");
        let many = (1..800).filter(|port| server(&mut bench, 7, *port) == Some(4)).count();
        assert!((400..600).contains(&many), "{many}");
        bench.write("m.add", "10.0.0.4 80 1");
        bench.write("m.add", "10.0.0.5");
        assert!(bench.read("m.servers").contains("10.0.0.5 - 1 up 0\n"));
        for (handler, text, wrong) in [
            ("add", "zonk", "bad address 'zonk'"),
            ("add", "10.0.0.1 99999", "bad port '99999'"),
            ("add", "10.0.0.1 80 0", "bad weight '0': 1 to 256"),
            ("add", "", "expected 'ADDR [PORT] [WEIGHT]'"),
            ("remove", "10.0.0.9", "10.0.0.9: no such server"),
            ("down", "10.0.0.1 81", "10.0.0.1 81: no such server"),
        ] {
            let error = bench.try_write(&format!("m.{handler}"), text).unwrap_err().to_string();
            assert!(error.contains(wrong), "{text}: {error}");
        }
        assert!(Bench::error("MaglevIPMapper(a b c d)").contains("expected 'ADDR [PORT] [WEIGHT]'"));
        assert!(Bench::error("MaglevIPMapper(1.0.0.1, HASH x)").contains("expected 'source' or 'flow'"));
    }
}
