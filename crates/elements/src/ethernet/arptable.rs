//! # ARPTable
//! A table of Ethernet addresses that several ARPQuerier elements share.
//!
//! ## Synopsis
//! `ARPTable([TIMEOUT, CAPACITY, CAPACITY_SLIM_FACTOR, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY])`
//!
//! ## Arguments
//! - `TIMEOUT` (*time*, default 5 min): how long an entry is valid; 0 means for ever.
//! - `CAPACITY` (*int*, default 2048): how many packets may wait for answers in all; 0 means 65,536. When
//!   more would wait, half of them is dropped: first those for the entries that have not been heard of for
//!   longest.
//! - `CAPACITY_SLIM_FACTOR` (*int*, default 2): which part is dropped then (2: half of them, 4: a quarter).
//! - `ENTRY_CAPACITY` (*int*, default 0): how many addresses the table may hold; 0 means a large number.
//! - `ENTRY_PACKET_CAPACITY` (*int*, default 0): how many packets may wait for one address; 0 means no limit
//!   but `CAPACITY`. Another packet is dropped. It still lets an ARPQuerier ask for the address, unlike in
//!   Click, where nobody asks again until the entry ends if the first query or its reply is lost.
//!
//! Replies that nobody has asked for are stored, too.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `table` (read): the entries, oldest first: IP address, 1 if the Ethernet address is valid, the Ethernet
//!   address (`FF-FF-FF-FF-FF-FF` while there is none), seconds since the entry was made or confirmed.
//! - `drops` (read): packets dropped while they waited: too many did, nobody replied in time, or `clear` was
//!   written.
//! - `count`, `length` (read): entries, packets that wait.
//! - `timeout` (read/write): the `TIMEOUT` argument; reads in seconds.
//! - `insert` (write, *IP ETH*): sets an address. Packets that wait for it go on waiting for a reply.
//! - `delete` (write, *IP*): forgets an address. Its entry stays, and so do packets that wait.
//! - `clear` (write): removes all entries and drops the packets that wait.
//! - `config` (read/write): the arguments. The table keeps its entries.
//! - `lookup` (read, *IP or ETH*): the other address of a neighbor.
//!
//! ## Threads
//! Shared by all workers.
//!
//! ## Example
//! ```click
//! neighbors :: ARPTable(TIMEOUT 60);
//! arpq :: ARPQuerier(10.0.0.1, 00:00:C0:00:00:01, TABLE neighbors);
//! InfiniteSource(LIMIT 5, STOP true) -> SetIPAddress(10.0.0.2) -> arpq -> Discard;
//! Idle -> [1] arpq;
//! ```
//!
//! ## See also
//! ARPQuerier

use super::engine::neighbors::{Limits, Neighbors, capacity};
use crate::plumbing::engine::text;
use crate::prelude::*;
use lang::args::EtherAddr as EtherArg;
use runtime::Over;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::EtherAddr;

/// The `ARPTable` element.
pub struct ArpTable(Arc<Neighbors>);

/// The arguments that an ARPTable and an ARPQuerier have in common, those that are given.
pub(crate) struct Given {
    packets: Option<u32>,
    entries: Option<u32>,
    per_entry: Option<u32>,
    slim: Option<u32>,
    timeout: Option<Duration>,
}

impl Given {
    pub(crate) fn read(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let packets = args.k("CAPACITY")?;
        let (entries, per_entry) = (args.k("ENTRY_CAPACITY")?, args.k("ENTRY_PACKET_CAPACITY")?);
        let (slim, timeout) = (args.k("CAPACITY_SLIM_FACTOR")?, args.k("TIMEOUT")?);
        if slim == Some(0) {
            return Err(args.error("CAPACITY_SLIM_FACTOR cannot be zero"));
        }
        Ok(Self { packets, entries, per_entry, slim, timeout })
    }

    /// Changes the limits that are given.
    pub(crate) fn change(&self, limits: &mut Limits) {
        if self.packets.is_some() {
            limits.packets = capacity(self.packets);
        }
        if let Some(entries) = self.entries {
            limits.entries = entries as usize;
        }
        if let Some(n) = self.per_entry {
            limits.per_entry = if n == 0 { usize::MAX } else { n as usize };
        }
        limits.slim = self.slim.unwrap_or(limits.slim);
        if let Some(timeout) = self.timeout {
            limits.timeout_ns = text::nanos(timeout);
        }
    }
}

/// Reads the arguments that an ARPTable and an ARPQuerier have in common.
pub(crate) fn limits(args: &mut Args<'_>) -> Result<Limits, ArgError> {
    let mut limits = Limits { unrequested: true, keeps_oldest: true, ..Limits::default() };
    Given::read(args)?.change(&mut limits);
    Ok(limits)
}

/// What the owner of a router is told that may have no more neighbors.
pub(crate) fn too_many(over: Over) -> String {
    format!("too many neighbors: the limit neighbors is {}", over.most)
}

/// The value of an `insert` handler. The broadcast address means that there is none.
pub(crate) fn pair(value: &str) -> Result<(Ipv4Addr, Option<EtherAddr>), String> {
    let mut words = value.split_whitespace();
    let ip = words.next().and_then(|w| text::read(w).ok());
    let mac = words.next().and_then(|w| text::read::<EtherArg>(w).ok());
    match (ip, mac, words.next()) {
        (Some(ip), Some(mac), None) => Ok((ip, Some(EtherAddr(mac.0)).filter(|mac| !mac.is_broadcast()))),
        _ => Err("expected 'IP ETH'".into()),
    }
}

/// Gives an address to an entry, or takes it away; the handlers `insert` and `delete` do.
pub(crate) fn set(
    table: &Neighbors,
    (ip, mac): (Ipv4Addr, Option<EtherAddr>),
    cx: &mut Cx<'_>,
) -> Result<(), String> {
    let lost = table.set(ip, mac, cx.now_ns()).map_err(too_many)?;
    discard(lost, cx);
    Ok(())
}

/// The `delete` handler.
pub(crate) fn delete(table: &Neighbors, value: &str, cx: &mut Cx<'_>) -> Result<(), String> {
    set(table, (text::value(value, "expected IP address")?, None), cx)
}

/// Sets the timer that calls [`expire`], if entries of the table expire.
pub(crate) fn watch(table: &Neighbors, cx: &mut Cx<'_>) {
    match table.expiry_interval() {
        Some(after) => cx.timer_after(0, Duration::from_nanos(after)),
        None => cx.cancel_timer(0),
    }
}

/// Removes old entries. Returns how many packets that waited for one have been dropped.
pub(crate) fn expire(table: &Neighbors, cx: &mut Cx<'_>) -> u64 {
    let waited = table.expire(cx.now_ns());
    let n = waited.len() as u64;
    waited.into_iter().for_each(|packet| cx.drop(packet, drops::NO_ARP_REPLY));
    watch(table, cx);
    n
}

/// Drops packets for which no ARP reply is expected any more.
pub(crate) fn discard(packets: Vec<Packet>, cx: &mut Cx<'_>) {
    for packet in packets {
        cx.drop(packet, drops::ARP_ENTRY_REMOVED);
    }
}

impl Element for ArpTable {
    const CLASS: &'static str = "ARPTable";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const DROPS: &'static [DropCase] = &[
        drops::ARP_ENTRY_REMOVED
            .when("packets that waited for an entry which a handler has removed, or that had to make room"),
        drops::NO_ARP_REPLY.when("packets that waited for an address, and nobody answered within `TIMEOUT`"),
    ];
    const MANUAL: &'static str = manual!("ethernet/arptable");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let limits = limits(args)?;
        cx.holds_together(limits.packets);
        let budget = Arc::clone(&cx.hub().bounds().neighbors);
        Ok(Self(cx.shared(|| Neighbors::new(limits).limited(&budget))))
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read_with("table", Combine::First, |e, _, cx| Ok(e.0.list(cx.now_ns())));
        h.shared_read::<Neighbors>("drops", |t, _| Ok(t.drops().to_string()));
        h.shared_read::<Neighbors>("count", |t, _| Ok(t.len().to_string()));
        h.shared_read::<Neighbors>("length", |t, _| Ok(t.waiting().to_string()));
        h.shared_read::<Neighbors>("timeout", |t, _| Ok((t.timeout_ns() / 1_000_000_000).to_string()));
        h.write("timeout", |e, v, cx| {
            let timeout: Duration = text::value(v, "syntax error")?;
            let timeout_ns = text::nanos(timeout);
            discard(e.0.set_limits(cx.now_ns(), |limits| limits.timeout_ns = timeout_ns), cx);
            watch(&e.0, cx);
            Ok(())
        });
        h.shared_read_with::<Neighbors>("lookup", |t, arg| {
            if let Ok(ip) = text::read(arg) {
                return Ok(t.get(ip).map_or_else(String::new, |a| a.to_string()));
            }
            let mac: EtherArg = text::value(arg, "expected IP or Ethernet address")?;
            Ok(t.reverse(EtherAddr(mac.0)).map_or_else(String::new, |ip| ip.to_string()))
        });
        h.write("insert", |e, v, cx| set(&e.0, pair(v)?, cx));
        h.write("config", |e, v, cx| {
            let names = runtime::handler_names();
            let mut args = Args::new(v, None, &names);
            let new = limits(&mut args).and_then(|limits| args.finish().map(|()| limits));
            let new = new.map_err(|e| e.message)?;
            discard(e.0.set_limits(cx.now_ns(), |limits| *limits = new), cx);
            watch(&e.0, cx);
            Ok(())
        });
        h.write("delete", |e, v, cx| delete(&e.0, v, cx));
        h.write("clear", |e, _, cx| {
            discard(e.0.clear(), cx);
            Ok(())
        });
        h.listed(&["table", "drops", "count", "length", "insert", "delete", "clear"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        watch(&self.0, cx);
        Ok(())
    }

    fn run_timer(&mut self, _id: u32, cx: &mut Cx<'_>) {
        expire(&self.0, cx);
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        if !Arc::ptr_eq(&self.0, &old.0) && cx.worker().0 == 0 {
            discard(self.0.adopt(&old.0, cx.now_ns()), cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn handlers_without_a_parameter_are_listed_without_one() {
        let mut b = Bench::with_ports("ARPTable", 0, 0);
        let handlers = b.read("handlers");
        assert!(handlers.contains("\ncount\tr\n") && handlers.contains("\nlookup\tr+\n"), "{handlers}");
    }

    #[test]
    fn entries_are_kept_and_found_both_ways() {
        let mut b = Bench::new("ARPTable()");
        b.write("insert", "10.0.0.7 2:0:0:0:0:7");
        b.write("insert", "10.0.0.3 2:0:0:0:0:3");
        let table = b.read("table");
        let first: Vec<&str> = table.lines().map(|l| l.split(' ').next().unwrap()).collect();
        assert_eq!(first, ["10.0.0.7", "10.0.0.3"], "the oldest first");
        assert_eq!(b.read("count"), "2");
        b.write("delete", "10.0.0.3");
        assert_eq!(b.read("count"), "2", "the entry stays, without an address");
        assert!(b.read("table").contains("10.0.0.3 0 FF-FF-FF-FF-FF-FF"), "{}", b.read("table"));
        b.write("config", "TIMEOUT 90s, CAPACITY 5");
        assert_eq!((b.read("timeout"), b.read("count")), ("90".into(), "2".into()));
        assert!(b.try_write("config", "TIMEOUT 1, MORE 2").is_err());
        assert_eq!(b.read("timeout"), "90");
        b.write("timeout", "2 min");
        assert_eq!(b.read("timeout"), "120");
        b.write("clear", "");
        assert_eq!(b.read("table"), "");
    }
}
