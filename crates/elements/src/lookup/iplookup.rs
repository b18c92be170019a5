//! # RadixIPLookup
//! Looks up the next hop of IP packets in a routing table.
//!
//! ## Synopsis
//! `RadixIPLookup(ADDR1/MASK1 [GW1] OUT1, ADDR2/MASK2 [GW2] OUT2, ..., [FILE])`
//!
//! `StaticIPLookup`, `LinearIPLookup`, `SortedIPLookup`, `DirectIPLookup`, `RangeIPLookup` and
//! `LookupIPRoute` are the same element with the same arguments. In Click they are different data structures;
//! here they share one, which is faster than any of those, and differ only as far as a configuration can
//! notice: `StaticIPLookup` and `LookupIPRoute` cannot be changed by handlers, `LinearIPLookup` and
//! `SortedIPLookup` have no `flush` handler, and only the first four and `LookupIPRoute` report when they
//! have no route.
//!
//! ## Arguments
//! - `ADDR/MASK [GW] OUT` (*route*, any number): packets to this network go to the output `OUT`, to the
//!   gateway `GW` if one is given (`-` or 0.0.0.0 is none). The mask is a length or an address; an address
//!   alone is a network of one. The longest network that holds the destination counts. Of several routes for
//!   one network the first counts.
//! - `FILE` (*filename*, keyword): a file with more routes, one on each line; empty lines and what follows a
//!   `#` are ignored. For large tables: a million routes load in about a second.
//!
//! The table can hold any number of routes up to /24, longer ones in 2,031,616 different /24s, and 33,554,432
//! different next hops (pairs of gateway and output). A configuration, a swap or a change that needs more is
//! refused with an error, and the table is unchanged. A table reserves 2 GB of virtual address space, not of
//! memory. If that is limited (`ulimit -v`), it reserves an eighth of the limit, at least 128 MB, which is
//! enough for 65,536 of those /24s. A million routes with prefixes as on the Internet take about 90 MB of
//! memory. Up to 1,024 routes are in a tree, which takes at most 20 KB and is written anew with each change;
//! with one route more they move into the large table, and return when all routes are removed at once.
//!
//! ## Ports
//! One push input, any number of push outputs. The destination is the packet's destination annotation (set by
//! CheckIPHeader or GetIPAddress), not its header; if the route has a gateway, the annotation becomes the
//! gateway.
//!
//! ## Handlers
//! - `table` (read): every route on a line: network, gateway or `-`, output.
//! - `working_set` (read): about how many bytes lookups of all kinds of addresses reach.
//! - `lookup` (read, parameter): `OUT` or `OUT GW` for an IP address; `-1` if there is no route.
//! - `add` (write): adds a route, which must not be there.
//! - `set` (write): adds a route or replaces the one for the same network.
//! - `remove` (write): removes a route; the gateway and the output may be left out.
//! - `ctrl` (write): lines of the form `add ROUTE`, `set ROUTE` or `remove ROUTE`. All are done, or, if one
//!   is wrong, none.
//! - `flush` (write): removes every route.
//!
//! ## Threads
//! All workers share one table, which they read without a lock, a whole batch at once, with AVX-512 or AVX2
//! where the processor has them. Handlers change it in place, up to tens of thousands of times per second,
//! without interrupting workers. A LinuxRoutes element keeps the table in step with the kernel's. A hot swap
//! to the same configuration string keeps the table; if the string changes, routes that handlers have added
//! stay, except where the new string has a route for the same network.
//!
//! ## Example
//! ```click
//! rt :: RadixIPLookup(10.0.0.254/32 0, 10.0.0.0/24 1, 0.0.0.0/0 10.0.0.1 1);
//! InfiniteSource(LIMIT 3, STOP true) -> SetIPAddress(192.0.2.1) -> rt;
//! rt [0] -> Discard;
//! rt [1] -> Discard;
//! ```
//!
//! ## See also
//! GetIPAddress, CheckIPHeader, IPClassifier, LinuxRoutes

use super::engine::hops::{DISCARD, GROUPS, NextHop};
use super::engine::routes::{Order, Routes, Table};
use super::engine::text::{Command, Route};
use crate::prelude::*;
use crate::splitter::Splitter;
use lang::args::Filename;
use nix::fcntl::OFlag;
use runtime::{MAX_BATCH, Numbers};
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tables::{LpmReader, Prefix};

const NO_ROUTE: DropReason = DropReason::new("no route");
const BLACKHOLE: DropReason = DropReason::new("blackhole route");

/// The differences between the classes.
pub trait TableVariant: Send + 'static {
    /// The class name.
    const CLASS: &'static str;
    /// The name under which it reports that there is no route, if it does.
    const COMPLAINS_AS: Option<&'static str>;
    /// Whether handlers change routes.
    const CHANGES: bool;
    /// Whether there is a `flush` handler.
    const FLUSHES: bool;
    /// Whether a changed route keeps its place in the listing.
    const KEEPS_PLACES: bool;
    /// Whether to recommend another class.
    const DEPRECATED: bool = false;
    /// The manual.
    const MANUAL: &'static str = manual!("lookup/iplookup");
    /// What reads the routes, where they are not the arguments.
    const ROUTES: Option<ReadRoutes> = None;
}

/// What reads routes for a table with so many outputs.
pub(super) type ReadRoutes =
    fn(&mut Args<'_>, &mut ConfigCx<'_>, u32) -> Result<Vec<(Prefix, NextHop)>, ArgError>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $class:literal { $($body:tt)* })*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl TableVariant for $name {
            const CLASS: &'static str = $class;
            $($body)*
        }
    )*};
}

kinds! {
    /// `StaticIPLookup`.
    Static = "StaticIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = Some("LinearIPLookup");
        const CHANGES: bool = false;
        const FLUSHES: bool = false;
        const KEEPS_PLACES: bool = true;
    }
    /// `LinearIPLookup`.
    Linear = "LinearIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = Some("LinearIPLookup");
        const CHANGES: bool = true;
        const FLUSHES: bool = false;
        const KEEPS_PLACES: bool = true;
    }
    /// `SortedIPLookup`.
    Sorted = "SortedIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = Some("SortedIPLookup");
        const CHANGES: bool = true;
        const FLUSHES: bool = false;
        const KEEPS_PLACES: bool = true;
        const DEPRECATED: bool = true;
    }
    /// `RadixIPLookup`.
    Radix = "RadixIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = Some("IPRouteTable");
        const CHANGES: bool = true;
        const FLUSHES: bool = true;
        const KEEPS_PLACES: bool = false;
    }
    /// `DirectIPLookup`.
    Direct = "DirectIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = None;
        const CHANGES: bool = true;
        const FLUSHES: bool = true;
        const KEEPS_PLACES: bool = true;
    }
    /// `RangeIPLookup`.
    Range = "RangeIPLookup" {
        const COMPLAINS_AS: Option<&'static str> = None;
        const CHANGES: bool = true;
        const FLUSHES: bool = true;
        const KEEPS_PLACES: bool = true;
    }
}

/// Every IP lookup element.
pub struct IPLookup<K> {
    routes: Arc<Routes>,
    reader: LpmReader,
    outputs: u32,
    splitter: Splitter,
    kind: PhantomData<fn(K)>,
}

/// The length of a short line in a file with many routes.
const SHORT_LINE: usize = 16;

/// The most errors that are reported about one table: a large table may be wrong throughout.
const MAX_ERRORS: usize = 20;

/// The routes of the arguments, and of a file that they name.
fn given(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    outputs: u32,
) -> Result<Vec<(Prefix, NextHop)>, ArgError> {
    let file = args.k::<Filename>("FILE")?;
    file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
    let names = args.names().clone();
    let mut routes = Vec::with_capacity(args.len());
    let mut errors = Vec::new();
    for (i, arg) in args.rest_args().into_iter().enumerate() {
        let wrong = match Route::parse(&arg.text, &names, false) {
            Some(route) => match route.next_hop(outputs) {
                Some(hop) => {
                    routes.push((route.prefix, hop));
                    continue;
                }
                None => format!("argument {} bad OUTPUT", i + 1),
            },
            None => format!("argument {} should be 'ADDR/MASK [GATEWAY] OUTPUT'", i + 1),
        };
        errors.push(args.error_at(&arg, wrong));
        if errors.len() == MAX_ERRORS {
            break;
        }
    }
    if let Some(Filename(path)) = file {
        let text = cx.hub().open(&path, OFlag::O_RDONLY).and_then(std::io::read_to_string);
        let text = text.map_err(|e| args.error(format!("{path}: {e}")))?;
        // The shortest line has about as many characters, so that the list need not move while it grows.
        routes.reserve(text.len() / SHORT_LINE);
        for (i, line) in text.lines().enumerate() {
            // Most lines are nothing but a route; these are not searched for comments.
            let (line, route) = match Route::parse_plain(line) {
                Some(route) => (line, Some(route)),
                None => (line.split('#').next().unwrap_or_default().trim(), None),
            };
            if line.is_empty() {
                continue;
            }
            let wrong = match route.or_else(|| Route::parse(line, &names, false)) {
                Some(route) => match route.next_hop(outputs) {
                    Some(hop) => {
                        routes.push((route.prefix, hop));
                        continue;
                    }
                    None => "bad OUTPUT",
                },
                None => "should be 'ADDR/MASK [GATEWAY] OUTPUT'",
            };
            errors.push(args.error(format!("{path}:{}: {wrong}", i + 1)));
            if errors.len() >= MAX_ERRORS {
                break;
            }
        }
    }
    errors.into_iter().next().map_or(Ok(routes), Err)
}

fn arguments<K: TableVariant>(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    outputs: u32,
) -> Result<Routes, ArgError> {
    let routes = K::ROUTES.unwrap_or(given)(args, cx, outputs)?;
    let order = if K::KEEPS_PLACES { Order::FirstFree } else { Order::LastFreed };
    let mut table = Routes::new(order, outputs).map_err(|e| args.error(e.to_string()))?;
    table.limit(&cx.hub().bounds().routes);
    let twice = table.configure(&routes).map_err(|e| args.error(e))?;
    if twice > 0 {
        cx.warn(format!("{twice} {} replaced by later versions", if twice > 1 { "routes" } else { "route" }));
    }
    Ok(table)
}

impl<K: TableVariant> Element for IPLookup<K> {
    const CLASS: &'static str = K::CLASS;
    const PORTS: &'static str = "1/-";
    const PROCESSING: &'static str = "h/h";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::DST_IP;
    const WRITES: Fields = Fields::DST_IP;
    const DROPS: &'static [DropCase] = &[
        NO_ROUTE.when("no route has the destination"),
        BLACKHOLE.when("its route, which a LinuxRoutes element has put in, says so"),
    ];
    const ROLE: Role = Role::RouteTable { changeable: if K::CHANGES { None } else { Some(Radix::CLASS) } };
    const MANUAL: &'static str = K::MANUAL;

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        if K::DEPRECATED {
            cx.warn(format!("{} is deprecated; use LinearIPLookup or RadixIPLookup instead", K::CLASS));
        }
        let outputs = cx.n_outputs() as u32;
        // What is not in the arguments may have changed.
        let table = cx.shared_if(|_| K::ROUTES.is_none(), Table::default);
        let routes = match table.get() {
            Some(routes) => {
                // This may come from another worker's replica, or from a configuration with the same string.
                args.ignore_rest();
                if routes.outputs() != outputs && !routes.configured_fit(outputs) {
                    return Err(args.error("bad OUTPUT"));
                }
                Arc::clone(routes)
            }
            None => {
                let routes = arguments::<K>(args, cx, outputs)?;
                table.fill(routes)
            }
        };
        Ok(Self {
            reader: routes.reader(),
            routes,
            outputs,
            splitter: Splitter::new(outputs as usize),
            kind: PhantomData,
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Table>("table", |t, _| Ok(t.routes()?.table()));
        h.shared_read::<Table>("working_set", |t, _| Ok(t.routes()?.working_set().to_string()));
        h.shared_read_with::<Table>("lookup", |t, address| t.routes()?.lookup(address));
        if K::CHANGES {
            h.shared_write::<Table>("add", |t, text| t.routes()?.command(Command::Add, text));
            h.shared_write::<Table>("set", |t, text| t.routes()?.command(Command::Set, text));
            h.shared_write::<Table>("remove", |t, text| t.routes()?.command(Command::Remove, text));
            h.shared_write::<Table>("ctrl", |t, text| t.routes()?.transaction(text));
            h.listed(&["add", "set", "remove", "ctrl", "table $", "lookup"]);
        } else {
            h.listed(&["table", "lookup"]);
        }
        if K::FLUSHES {
            h.shared_write::<Table>("flush", |t, _| {
                t.routes()?.flush();
                Ok(())
            });
            h.listed(&["flush b"]);
        }
    }

    fn prefetch(&self, step: usize) {
        if step > 0 {
            return self.reader.prefetch_top();
        }
        dpdk::prefetch(self.reader.root(), 2);
        dpdk::prefetch(&*self.routes, 4);
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        if Arc::ptr_eq(&self.routes, &old.routes) {
            self.routes.set_outputs(self.outputs);
        } else {
            self.routes.adopt(&old.routes);
        }
    }
}

#[cold]
fn lost<K: TableVariant>(routes: &Routes, packet: Packet, cx: &mut Cx<'_>) {
    if let Some(who) = K::COMPLAINS_AS
        && routes.complain()
    {
        cx.log(Level::WARN, &format!("{who}: no route for {}", Ipv4Addr::from(packet.dst_ip())));
    }
    cx.drop(packet, NO_ROUTE);
}

const LOST: u32 = u32::MAX;

impl<K: TableVariant> Vector for IPLookup<K> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let mut numbers = cx.take_numbers();
        self.look_up(batch, &mut numbers, cx);
        cx.give_numbers(numbers);
    }
}

impl<K: TableVariant> IPLookup<K> {
    fn look_up(&mut self, mut batch: Batch, [addresses, hops]: &mut Numbers, cx: &mut Cx<'_>) {
        let n = batch.len().min(MAX_BATCH);
        let (Some(addresses), Some(hops)) = (addresses.get_mut(..n), hops.get_mut(..n)) else {
            return;
        };
        let large = self.reader.is_large();
        for (address, packet) in addresses.iter_mut().zip(batch.iter()) {
            *address = u32::from_be_bytes(packet.dst_ip());
            // The first lines come while other packets' addresses are read.
            if large {
                self.reader.prefetch(*address);
            }
        }
        self.reader.lookup_many(addresses, hops);
        let next_hop = self.routes.hops();
        // Converts numbers of next hops to outputs; the batch is passed on whole if all its packets have the
        // same output.
        let mut together = hops.first().and_then(|h| next_hop(*h)).map_or(LOST, |h| h.port);
        for (hop, packet) in hops.iter_mut().zip(batch.iter_mut()) {
            *hop = match next_hop(*hop) {
                Some(next) => {
                    if let Some(gateway) = next.gateway {
                        packet.set_dst_ip(gateway.octets());
                    }
                    next.port
                }
                None => LOST,
            };
            if *hop != together {
                together = LOST;
            }
        }
        if together < GROUPS && n == batch.len() {
            return cx.output_batch(together as usize, batch);
        }
        if hops.iter().any(|port| (GROUPS..DISCARD).contains(port)) {
            for ((port, address), packet) in hops.iter_mut().zip(addresses).zip(batch.iter_mut()) {
                let Some(next) = self.routes.member(*port, *address) else { continue };
                if let Some(gateway) = next.gateway {
                    packet.set_dst_ip(gateway.octets());
                }
                *port = next.port;
            }
        }
        let routes = &self.routes;
        // Batches are never longer.
        batch.drain(n..).for_each(|packet| lost::<K>(routes, packet, cx));
        self.splitter.split(
            batch,
            hops.iter().map(|port| *port as usize),
            cx,
            |port, packet, cx| match u32::try_from(port) {
                Ok(LOST) | Err(_) => lost::<K>(routes, packet, cx),
                Ok(DISCARD) => cx.drop(packet, BLACKHOLE),
                Ok(_) => cx.output(port, packet),
            },
            |port, batch, _, cx| cx.output_batch(port, batch),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use dpdk::Packet;

    const CLASSES: [&str; 7] = [
        "StaticIPLookup",
        "LinearIPLookup",
        "SortedIPLookup",
        "RadixIPLookup",
        "DirectIPLookup",
        "RangeIPLookup",
        "LookupIPRoute",
    ];

    fn to(address: [u8; 4]) -> Packet {
        let mut packet = Packet::from_bytes(&address).unwrap();
        packet.set_dst_ip(address);
        packet
    }

    fn port(bench: &mut Bench, address: [u8; 4]) -> Option<usize> {
        bench.send(0, to(address)).first().map(|o| o.0)
    }

    #[test]
    fn every_class_takes_the_longest_route() {
        for class in CLASSES {
            let routes = "10.0.0.0/8 0, 10.1.0.0/16 9.9.9.9 1, 10.1.2.3/32 2, 10.1.2.0/25 1";
            let mut bench = Bench::with_ports(&format!("{class}({routes})"), 1, 3);
            let got: Vec<_> = [[10, 2, 0, 0], [10, 1, 9, 9], [10, 1, 2, 3], [10, 1, 2, 4], [11, 0, 0, 0]]
                .map(|a| port(&mut bench, a))
                .to_vec();
            assert_eq!(got, [Some(0), Some(1), Some(2), Some(1), None], "{class}");
            assert_eq!(bench.drops(), [("no route".to_owned(), 1)], "{class}");
            assert_eq!(bench.send(0, to([10, 1, 0, 0]))[0].1.dst_ip(), [9, 9, 9, 9]);
            assert_eq!(bench.send(0, to([10, 0, 0, 1]))[0].1.dst_ip(), [10, 0, 0, 1]);
            assert!(
                bench.read("table").starts_with("10.0.0.0/8\t\t-\t\t0\n10.1.0.0/16\t\t9.9.9.9\t\t1\n"),
                "{class}"
            );
        }
    }

    #[test]
    fn vectors_split_by_output_in_order() {
        let mut bench =
            Bench::with_ports("RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1, 3.0.0.0/8 7.7.7.7 1)", 1, 2);
        let packets = (0..200u8).map(|i| to([1 + i % 4, 0, 0, i])).collect();
        let out = bench.send_batch(0, packets);
        assert_eq!(out.len(), 150);
        for wanted in [0, 1] {
            let last: Vec<u8> = out.iter().filter(|(p, _)| *p == wanted).map(|(_, p)| p.data()[3]).collect();
            assert!(last.is_sorted() && last.len() == [50, 100][wanted]);
        }
        assert_eq!(bench.drops(), [("no route".to_owned(), 50)]);
        let same = bench.send_batch(0, (0..200u8).map(|i| to([2 + i % 2, 0, 0, i])).collect());
        assert!(same.iter().all(|(p, _)| *p == 1));
    }

    #[test]
    fn handlers_change_the_table() {
        let mut bench = Bench::with_ports("RadixIPLookup(1.0.0.0/8 0)", 1, 2);
        bench.write("add", "1.1.0.0/16 5.5.5.5 1");
        assert_eq!(port(&mut bench, [1, 1, 0, 0]), Some(1));
        bench.write("set", "1.1.0.0/16 0");
        assert_eq!(port(&mut bench, [1, 1, 0, 0]), Some(0));
        bench.write("ctrl", "remove 1.1.0.0/16\nremove 1.0.0.0/8 0\nadd 0/0 1");
        assert_eq!(port(&mut bench, [1, 1, 0, 0]), Some(1));
        assert_eq!(bench.read("table"), "0.0.0.0/0\t\t-\t\t1\n");
        bench.write("flush", "");
        assert_eq!(port(&mut bench, [1, 1, 0, 0]), None);
        assert!(bench.try_write("add", "1.0.0.0/8 2").unwrap_err().to_string().contains("bad OUTPUT"));
    }

    #[test]
    fn static_tables_stay() {
        for class in ["StaticIPLookup", "LookupIPRoute"] {
            let mut bench = Bench::with_ports(&format!("{class}(1.0.0.0/8 0)"), 1, 1);
            assert!(bench.try_write("add", "2.0.0.0/8 0").is_err());
            assert!(bench.try_write("flush", "").is_err());
        }
        let mut bench = Bench::with_ports("LinearIPLookup(1.0.0.0/8 0)", 1, 1);
        assert!(bench.try_write("flush", "").is_err());
    }

    #[test]
    fn reports_bad_routes() {
        let error = Bench::error("RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8, 3.0.0.0/8 1, x 0)");
        for part in [
            "argument 2 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
            "argument 3 bad OUTPUT",
            "argument 4 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert!(Bench::error("RadixIPLookup(FILE /nowhere/at/all)").contains("/nowhere/at/all"));
    }

    #[test]
    fn the_first_of_two_routes_counts() {
        let mut bench = Bench::with_ports("RadixIPLookup(1.0.0.0/8 0, 1.2.0.0/8 1)", 1, 2);
        assert_eq!(port(&mut bench, [1, 0, 0, 0]), Some(0));
    }

    #[test]
    fn reads_routes_from_a_file() {
        let path = std::env::temp_dir().join(format!("valiant-routes-{}", std::process::id()));
        std::fs::write(&path, "# a table\n1.0.0.0/8 0\n\n2.0.0.0/8 9.9.9.9 1 # by the gateway\n").unwrap();
        let mut bench = Bench::with_ports(&format!("RadixIPLookup(0/0 0, FILE {})", path.display()), 1, 2);
        assert_eq!((port(&mut bench, [2, 0, 0, 0]), port(&mut bench, [3, 0, 0, 0])), (Some(1), Some(0)));
        std::fs::write(&path, "1.0.0.0/8 0\n2.0.0.0/8 7\nhello\n").unwrap();
        let error = Bench::error(&format!("RadixIPLookup(FILE {})", path.display()));
        assert!(error.contains(":2: bad OUTPUT") && error.contains(":3: should be"), "{error}");
        std::fs::remove_file(&path).unwrap();
    }

    fn swap(bench: &mut Bench, declaration: &str) -> Result<(), String> {
        let outputs = "e [0] -> Discard; e [1] -> Discard;";
        let text = format!("e :: {declaration}; InfiniteSource(ACTIVE false) -> e; {outputs}");
        bench.router().hotswap(lang::Source::new("next", text)).map_err(|d| format!("{d:?}"))
    }

    #[test]
    fn a_swap_to_the_same_string_keeps_the_table() {
        let mut bench = Bench::with_ports("RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1)", 1, 3);
        bench.write("ctrl", "remove 1.0.0.0/8\nadd 3.0.0.0/8 0\nadd 4.0.0.0/8 2");
        swap(&mut bench, "RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1)").unwrap();
        // There is no output 2 any more.
        assert_eq!(bench.read("table"), "3.0.0.0/8\t\t-\t\t0\n2.0.0.0/8\t\t-\t\t1\n");
        assert!(bench.try_write("add", "5.0.0.0/8 2").is_err());
    }

    #[test]
    fn a_swap_to_another_string_keeps_added_routes() {
        let mut bench = Bench::with_ports("RadixIPLookup(1.0.0.0/8 0, 2.0.0.0/8 1)", 1, 3);
        bench.write("ctrl", "set 1.0.0.0/8 1\nadd 3.0.0.0/8 0\nadd 4.0.0.0/8 2\nadd 5.0.0.0/8 1");
        swap(&mut bench, "RadixIPLookup(5.0.0.0/8 0)").unwrap();
        assert_eq!(bench.read("table"), "5.0.0.0/8\t\t-\t\t0\n3.0.0.0/8\t\t-\t\t0\n1.0.0.0/8\t\t-\t\t1\n");
        assert_eq!(bench.router().read("e.lookup", "3.9.9.9").unwrap(), "0");
    }

    #[test]
    fn a_swap_that_fails_changes_nothing() {
        let mut bench = Bench::with_ports("RadixIPLookup(1.0.0.0/8 2)", 1, 3);
        assert!(swap(&mut bench, "RadixIPLookup(1.0.0.0/8 2)").is_err());
        bench.write("add", "2.0.0.0/8 2");
        assert_eq!((port(&mut bench, [1, 0, 0, 0]), port(&mut bench, [2, 0, 0, 0])), (Some(2), Some(2)));
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
                cx.output(0, to([1, 2, 3, i % 8]));
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
            Flood -> in :: Counter -> e :: RadixIPLookup(1.0.0.0/8 0, 1.2.3.4/32 1);
            e [0] -> zero :: Counter -> Discard;
            e [1] -> one :: Counter -> Discard;";
        let options = runtime::Options { workers: 2, threads: true, ..runtime::Options::default() };
        let mut bench = runtime::testing::Bench::with(&registry, config, 0, 0, options);
        for i in 0..5000 {
            bench.write("ctrl", ["remove 1.2.3.4/32", "add 1.2.3.4/32 9.9.9.9 1"][i % 2]);
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
