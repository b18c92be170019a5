//! # LookupIP6Route
//! Looks up the next hop of IPv6 packets in a routing table.
//!
//! ## Synopsis
//! `LookupIP6Route(ADDR1/LEN1 [GW1] OUT1, ADDR2/LEN2 [GW2] OUT2, ..., [FILE])`
//!
//! ## Arguments
//! - `ADDR/LEN [GW] OUT` (*route*, any number): packets to this network go to the output `OUT`, to the
//!   gateway `GW` if one is given (`::` and `-` are none). An address alone is a network of one. The longest
//!   network that holds the destination counts. Of several routes for one network the last counts.
//! - `FILE` (*filename*, keyword): a file with more routes, one on each line; empty lines and what follows a
//!   `#` are ignored.
//!
//! A table reserves 1 GB of virtual address space, not of memory, or less if that is limited (`ulimit -v`). A
//! route of at most 48 bits among many takes about 100 bytes; one of 128 bits that is far from all others
//! about a kilobyte.
//!
//! ## Ports
//! One push input, any number of push outputs. The destination is the packet's destination annotation (set by
//! GetIP6Address), not its header; if the route has a gateway, the annotation becomes the gateway.
//!
//! ## Handlers
//! - `table` (read): a line `# Active routes`, and every route on a line: network, gateway or `::`, output.
//! - `working_set` (read): how many bytes lookups of all kinds of addresses reach.
//! - `lookup` (read, parameter): `OUT` or `OUT GW` for an IPv6 address; `-1` if there is no route.
//! - `add` (write): adds a route, or replaces the one for the same network.
//! - `remove` (write): removes the route for a network (`ADDR/LEN`), if there is one.
//! - `ctrl` (write): lines of the form `add ROUTE` or `remove ADDR/LEN`. All are done, or, if one is wrong,
//!   none.
//! - `flush` (write): removes every route.
//!
//! ## Threads
//! All workers share one table, which they read without a lock, a whole batch at once. Handlers change it in
//! place, without interrupting workers. A hot swap to the same configuration string keeps the table; if the
//! string changes, routes that handlers have added stay, except where the new string has a route for the same
//! network.
//!
//! ## Example
//! ```click
//! rt :: LookupIP6Route(2001:db8:1::1/128 0, 2001:db8:1::/64 1, ::/0 2001:db8:1::2 1);
//! InfiniteSource(LIMIT 3, STOP true) -> SetIP6Address(2001:db8:9::1) -> rt;
//! rt [0] -> Discard;
//! rt [1] -> Discard;
//! ```
//!
//! ## See also
//! GetIP6Address, CheckIP6Header, IP6NDSolicitor, RadixIPLookup

use super::engine::header::{dst_ip6, set_dst_ip6};
use super::engine::hops::View;
use super::engine::routes::{Route, Routes, Table};
use crate::prelude::*;
use crate::splitter::Splitter;
use lang::args::Filename;
use nix::fcntl::OFlag;
use runtime::MAX_BATCH;
use std::sync::Arc;
use tables::Lpm6Reader;

const NO_ROUTE: DropReason = DropReason::new("no route");

/// The output of packets without a route.
const LOST: u32 = u32::MAX;
/// The most errors that are reported about one table: a large table may be wrong throughout.
const MAX_ERRORS: usize = 20;

/// The `LookupIP6Route` element.
pub struct LookupIP6Route {
    routes: Arc<Routes>,
    reader: Lpm6Reader,
    hops: View,
    outputs: u32,
    splitter: Splitter,
    /// The destinations of a batch, and what was found.
    addresses: Box<[u128]>,
    found: Box<[u32]>,
}

/// Whether there are as many outputs as routes need.
fn enough(needed: u32, outputs: u32) -> Result<(), String> {
    if needed <= outputs { Ok(()) } else { Err(format!("need {needed} or more output ports")) }
}

fn arguments(args: &mut Args<'_>, cx: &mut ConfigCx<'_>, outputs: u32) -> Result<Routes, ArgError> {
    let file = args.k::<Filename>("FILE")?;
    file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
    let names = args.names().clone();
    let (mut routes, mut errors) = (Vec::with_capacity(args.len()), Vec::new());
    let mut add = |text: &str| match Route::parse(text, &names).and_then(|r| Some((r.prefix, r.next_hop()?)))
    {
        Some(route) => {
            routes.push(route);
            Ok(())
        }
        None => Err("should be DADDR/MASK [GW] OUTPUT"),
    };
    for (i, arg) in args.rest_args().into_iter().enumerate() {
        if let Err(wrong) = add(&arg.text) {
            errors.push(args.error_at(&arg, format!("argument {} {wrong}", i + 1)));
        }
    }
    if let Some(Filename(path)) = file {
        let text = cx.hub().open(&path, OFlag::O_RDONLY).and_then(std::io::read_to_string);
        let text = text.map_err(|e| args.error(format!("{path}: {e}")))?;
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty()
                && errors.len() < MAX_ERRORS
                && let Err(wrong) = add(line)
            {
                errors.push(args.error(format!("{path}:{}: {wrong}", i + 1)));
            }
        }
    }
    if let Some(first) = errors.into_iter().next() {
        return Err(first);
    }
    if routes.is_empty() {
        cx.warn("no routes");
    }
    enough(routes.iter().map(|(_, hop)| hop.port + 1).max().unwrap_or(0), outputs)
        .map_err(|e| args.error(e))?;
    let table =
        Routes::new(outputs, Some(&cx.hub().bounds().routes)).map_err(|e| args.error(e.to_string()))?;
    table.configure(&routes).map_err(|e| args.error(e))?;
    Ok(table)
}

impl Element for LookupIP6Route {
    const CLASS: &'static str = "LookupIP6Route";
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DST_IP6;
    const WRITES: Fields = Fields::DST_IP6;
    const DROPS: &'static [DropCase] = &[NO_ROUTE.when("no route has the destination")];
    const MANUAL: &'static str = manual!("ip6/lookupip6route");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let outputs = cx.n_outputs() as u32;
        let table = cx.shared(Table::default);
        let routes = match table.get() {
            Some(routes) => {
                // This may come from another worker's replica, or from a configuration with the same string.
                args.ignore_rest();
                if routes.outputs() != outputs {
                    enough(routes.configured_outputs(), outputs).map_err(|e| args.error(e))?;
                }
                Arc::clone(routes)
            }
            None => table.fill(arguments(args, cx, outputs)?),
        };
        Ok(Self {
            reader: routes.reader(),
            routes,
            hops: View::default(),
            outputs,
            splitter: Splitter::new(outputs as usize),
            addresses: vec![0; MAX_BATCH].into(),
            found: vec![0; MAX_BATCH].into(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Table>("table", |t, _| Ok(t.routes()?.table()));
        h.shared_read::<Table>("working_set", |t, _| Ok(t.routes()?.working_set().to_string()));
        h.shared_read_with::<Table>("lookup", |t, address| t.routes()?.lookup(address));
        h.shared_write::<Table>("add", |t, text| t.routes()?.add(text));
        h.shared_write::<Table>("remove", |t, text| t.routes()?.remove_by_handler(text));
        h.shared_write::<Table>("ctrl", |t, text| t.routes()?.transaction(text));
        h.shared_write::<Table>("flush", |t, _| t.routes()?.flush());
        h.listed(&["add", "remove", "ctrl", "table"]);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if Arc::ptr_eq(&self.routes, &old.routes) {
            self.routes.set_outputs(self.outputs);
        } else {
            self.routes.adopt(&old.routes);
        }
    }
}

impl Vector for LookupIP6Route {
    fn push(&mut self, _port: usize, mut batch: Batch, cx: &mut Cx<'_>) {
        let n = batch.len().min(MAX_BATCH);
        let (Some(addresses), Some(found)) = (self.addresses.get_mut(..n), self.found.get_mut(..n)) else {
            return;
        };
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = dst_ip6(packet).to_bits();
            // The first entries come while other packets' addresses are read.
            self.reader.prefetch(*address);
        }
        self.reader.lookup_many(addresses, found);
        self.routes.refresh(&mut self.hops);
        // The batch is passed on whole if all its packets have the same output.
        let mut together = found.first().and_then(|n| self.hops.get(*n)).map_or(LOST, |hop| hop.port);
        for (number, packet) in found.iter_mut().zip(batch.iter_mut()) {
            *number = match self.hops.get(*number) {
                Some(hop) => {
                    if !hop.gateway.is_unspecified() {
                        set_dst_ip6(packet, hop.gateway);
                    }
                    hop.port
                }
                None => LOST,
            };
            if *number != together {
                together = LOST;
            }
        }
        if together != LOST && n == batch.len() {
            return cx.output_batch(together as usize, batch);
        }
        // Batches are never longer.
        batch.drain(n..).for_each(|packet| cx.drop(packet, NO_ROUTE));
        self.splitter.split(
            batch,
            found.iter().map(|port| *port as usize),
            cx,
            |port, packet, cx| match u32::try_from(port) {
                Ok(LOST) | Err(_) => cx.drop(packet, NO_ROUTE),
                Ok(_) => cx.output(port, packet),
            },
            |port, batch, _, cx| cx.output_batch(port, batch),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::ip6::engine::header::{dst_ip6, sample::a, set_dst_ip6};
    use crate::testing::Bench;
    use dpdk::Packet;

    fn to(address: &str) -> Packet {
        let mut packet = Packet::from_bytes(&a(address).octets()).unwrap();
        set_dst_ip6(&mut packet, a(address));
        packet
    }

    fn port(bench: &mut Bench, address: &str) -> Option<usize> {
        bench.send(0, to(address)).first().map(|o| o.0)
    }

    #[test]
    fn takes_the_longest_route() {
        let routes = "2001:db8::/32 0, 2001:db8:1::/48 fe80::9 1, 2001:db8:1::3/128 2, 2001:db8:1::/64 1";
        let mut bench = Bench::with_ports(&format!("LookupIP6Route({routes})"), 1, 3);
        for (address, want) in [
            ("2001:db8:2::", Some(0)),
            ("2001:db8:1:1::", Some(1)),
            ("2001:db8:1::3", Some(2)),
            ("2001:db8:1::4", Some(1)),
            ("2001:db9::", None),
        ] {
            assert_eq!(port(&mut bench, address), want, "{address}");
        }
        assert_eq!(bench.drops(), [("no route".to_owned(), 1)]);
        assert_eq!(dst_ip6(&bench.send(0, to("2001:db8:1:1::"))[0].1), a("fe80::9"));
        assert_eq!(dst_ip6(&bench.send(0, to("2001:db8:1::4"))[0].1), a("2001:db8:1::4"));
        assert!(
            bench
                .read("table")
                .starts_with("# Active routes\n2001:db8::/32\t::\t0\n2001:db8:1::/48\tfe80::9\t1\n")
        );
    }

    #[test]
    fn vectors_split_by_output_in_order() {
        let mut bench = Bench::with_ports("LookupIP6Route(1::/16 0, 2::/16 1, 3::/16 7::7 1)", 1, 2);
        let packets = (0..200u8).map(|i| to(&format!("{}::{i:x}", 1 + i % 4))).collect();
        let out = bench.send_batch(0, packets);
        assert_eq!(out.len(), 150);
        for wanted in [0, 1] {
            let last: Vec<u8> = out.iter().filter(|(p, _)| *p == wanted).map(|(_, p)| p.data()[15]).collect();
            assert!(last.is_sorted() && last.len() == [50, 100][wanted]);
        }
        assert_eq!(bench.drops(), [("no route".to_owned(), 50)]);
        let same = bench.send_batch(0, (0..200u8).map(|i| to(&format!("{}::{i:x}", 2 + i % 2))).collect());
        assert!(same.iter().all(|(p, _)| *p == 1));
    }

    #[test]
    fn handlers_change_the_table() {
        let mut bench = Bench::with_ports("LookupIP6Route(1::/16 0)", 1, 2);
        bench.write("add", "1:1::/32 5::5 1");
        assert_eq!(port(&mut bench, "1:1::"), Some(1));
        bench.write("add", "1:1::/32 0");
        assert_eq!(port(&mut bench, "1:1::"), Some(0));
        bench.write("ctrl", "remove 1:1::/32\nremove 1::/16\nadd ::/0 1");
        assert_eq!(port(&mut bench, "1:1::"), Some(1));
        assert_eq!(bench.read("table"), "# Active routes\n::/0\t::\t1\n");
        assert_eq!(bench.router().read("e.lookup", "9::").unwrap(), "1");
        bench.write("flush", "");
        assert_eq!(port(&mut bench, "1:1::"), None);
        let error = bench.try_write("add", "1::/16 2").unwrap_err().to_string();
        assert!(error.contains("output port out of range"), "{error}");
    }

    #[test]
    fn reports_bad_routes() {
        let error = Bench::error("LookupIP6Route(1::/16 0, 2::/16, 3::/16 -1, x 0, 4::/16 7)");
        for argument in [2, 3, 4] {
            let part = format!("argument {argument} should be DADDR/MASK [GW] OUTPUT");
            assert!(error.contains(&part), "{error}");
        }
        assert!(!error.contains("output ports"), "{error}");
        let error = Bench::error("LookupIP6Route(::/0 ::1 5, 1::/16 2)");
        assert!(error.contains("need 6 or more output ports"), "{error}");
        assert!(Bench::error("LookupIP6Route(FILE /nowhere/at/all)").contains("/nowhere/at/all"));
    }

    #[test]
    fn reads_routes_from_a_file() {
        let path = std::env::temp_dir().join(format!("valiant-routes6-{}", std::process::id()));
        std::fs::write(&path, "# a table\n1::/16 0\n\n2::/16 9::9 1 # by the gateway\n").unwrap();
        let mut bench = Bench::with_ports(&format!("LookupIP6Route(::/0 0, FILE {})", path.display()), 1, 2);
        assert_eq!((port(&mut bench, "2::"), port(&mut bench, "3::")), (Some(1), Some(0)));
        for (text, wrong) in [
            ("1::/16 0\n2::/16 7\nhello\n", ":3: should be DADDR/MASK [GW] OUTPUT"),
            ("1::/16 0\n2::/16 7\n", "need 8 or more output ports"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Bench::error(&format!("LookupIP6Route(FILE {})", path.display()));
            assert!(error.contains(wrong), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    fn swap(bench: &mut Bench, declaration: &str) -> Result<(), String> {
        let outputs = "e [0] -> Discard; e [1] -> Discard;";
        let text = format!("e :: {declaration}; InfiniteSource(ACTIVE false) -> e; {outputs}");
        bench.router().hotswap(lang::Source::new("next", text)).map_err(|d| format!("{d:?}"))
    }

    #[test]
    fn swaps_keep_what_handlers_have_added() {
        let mut bench = Bench::with_ports("LookupIP6Route(1::/16 0, 2::/16 1)", 1, 3);
        bench.write("ctrl", "remove 1::/16\nadd 3::/16 0\nadd 4::/16 2");
        swap(&mut bench, "LookupIP6Route(1::/16 0, 2::/16 1)").unwrap();
        // There is no output 2 any more.
        assert_eq!(bench.read("table"), "# Active routes\n3::/16\t::\t0\n2::/16\t::\t1\n");
        assert!(bench.try_write("add", "5::/16 2").is_err());
        swap(&mut bench, "LookupIP6Route(5::/16 0)").unwrap();
        assert_eq!(bench.read("table"), "# Active routes\n5::/16\t::\t0\n3::/16\t::\t0\n");
        let mut bench = Bench::with_ports("LookupIP6Route(1::/16 2)", 1, 3);
        let error = swap(&mut bench, "LookupIP6Route(1::/16 2)").unwrap_err();
        assert!(error.contains("need 3 or more output ports"), "{error}");
        assert_eq!(port(&mut bench, "1::"), Some(2));
    }

    /// A source that runs on every worker.
    struct Flood;

    impl super::Element for Flood {
        const CLASS: &'static str = "Flood";
        const PORTS: &'static str = "0/1";
        const SHARING: super::Sharing = super::Sharing::PerWorker;
        const MANUAL: &'static str = "";
        fn configure(_: &mut super::Args<'_>, _: &mut super::ConfigCx<'_>) -> Result<Self, super::ArgError> {
            Ok(Self)
        }
        fn initialize(&mut self, cx: &mut super::Cx<'_>) -> Result<(), String> {
            cx.reschedule();
            Ok(())
        }
        fn run_task(&mut self, cx: &mut super::Cx<'_>) -> bool {
            for i in 0..32 {
                cx.output(0, to(&format!("2001:db8::{}", i % 8)));
            }
            cx.reschedule();
            true
        }
    }

    impl super::Vector for Flood {}

    #[test]
    fn workers_look_up_while_a_handler_writes() {
        let mut registry = crate::registry();
        registry.add(runtime::vector::<Flood>());
        let config = "
            Flood -> in :: Counter -> e :: LookupIP6Route(2001::/16 0, 2001:db8::4/128 1);
            e [0] -> zero :: Counter -> Discard;
            e [1] -> one :: Counter -> Discard;";
        let options = runtime::Options { workers: 2, threads: true, ..runtime::Options::default() };
        let mut bench = runtime::testing::Bench::with(&registry, config, 0, 0, options);
        for i in 0..2000 {
            let gateway = i / 2 % 50;
            bench.write(
                "ctrl",
                &["remove 2001:db8::4".to_owned(), format!("add 2001:db8::4/128 ::{gateway:x}1 1")][i % 2],
            );
            if i % 100 == 0 {
                bench.turns(1);
            }
        }
        let start = std::time::Instant::now();
        while bench.read("one.count") == "0" && start.elapsed().as_secs() < 10 {
            bench.turns(1);
        }
        bench.router().pause();
        let mut count = |name: &str| bench.read(&format!("{name}.count")).parse::<u64>().unwrap();
        let (all, zero, one) = (count("in"), count("zero"), count("one"));
        assert!(all > 0 && one > 0 && one <= all / 8 && all == zero + one, "{all} {zero} {one}");
        assert!(bench.drops().is_empty());
    }
}
