//! The IPv6 routing table: Click's listing and changes over [`tables::Lpm6`].

use super::hops::{Hops, NextHop, Numbers, View};
use crate::plumbing::engine::text;
use lang::args::{FromArg, Ip6Prefix, NameDb};
use locks::IgnorePoison;
use runtime::{Budget, Held};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};
use tables::{Lpm6, Lpm6Reader, LpmError, Prefix6};

/// A route as text: `ADDR/LEN [GATEWAY] OUTPUT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::ip6) struct Route {
    pub(in crate::ip6) prefix: Prefix6,
    gateway: Ipv6Addr,
    output: i32,
}

fn prefix(word: &str, names: &NameDb) -> Option<Prefix6> {
    if let Ok(prefix) = word.parse() {
        return Some(prefix);
    }
    let p = Ip6Prefix::parse(word, names, true).ok()?;
    Prefix6::new(p.addr.to_bits(), p.len)
}

impl Route {
    pub(in crate::ip6) fn parse(text: &str, names: &NameDb) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let (first, second, third) = (words.next()?, words.next()?, words.next());
        let (gateway, output) = match third {
            None => (Ipv6Addr::UNSPECIFIED, second),
            Some(third) if second == "-" => (Ipv6Addr::UNSPECIFIED, third),
            Some(third) => (Ipv6Addr::from_arg(second, names).ok()?, third),
        };
        let output = lang::args::parse(output).ok()?;
        words.next().is_none().then_some(Self { prefix: prefix(first, names)?, gateway, output })
    }

    /// The route's next hop, unless its output is negative.
    pub(in crate::ip6) fn next_hop(&self) -> Option<NextHop> {
        Some(NextHop { gateway: self.gateway, port: u32::try_from(self.output).ok()? })
    }
}

/// A change that a handler requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Add(Prefix6, NextHop),
    Remove(Prefix6),
}

#[derive(Clone, Copy)]
struct Slot {
    prefix: Prefix6,
    /// The number of its next hop.
    hop: u32,
    /// By a handler, not by the configuration.
    added: bool,
}

/// State that only the writers use.
#[derive(Default)]
struct Control {
    /// The routes in the order of the listing.
    slots: Vec<Option<Slot>>,
    free: BinaryHeap<Reverse<u32>>,
    by_prefix: HashMap<Prefix6, u32>,
    numbers: Numbers,
}

impl Control {
    fn slot(&self, prefix: Prefix6) -> Option<Slot> {
        *self.slots.get(*self.by_prefix.get(&prefix)? as usize)?
    }

    /// Puts a route into the first free place, as Click does: a changed one may move.
    fn put(&mut self, slot: Slot) {
        self.take_out(slot.prefix);
        let place = match self.free.pop() {
            Some(Reverse(place)) => place,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        if let Some(free) = self.slots.get_mut(place as usize) {
            *free = Some(slot);
        }
        self.by_prefix.insert(slot.prefix, place);
    }

    fn take_out(&mut self, prefix: Prefix6) {
        let Some(place) = self.by_prefix.remove(&prefix) else { return };
        if let Some(slot) = self.slots.get_mut(place as usize).and_then(Option::take) {
            self.numbers.release(slot.hop);
        }
        self.free.push(Reverse(place));
    }
}

/// A routing table that all workers look up while handlers change it.
pub(in crate::ip6) struct Routes {
    lpm: Lpm6,
    hops: Hops,
    outputs: AtomicU32,
    control: Mutex<Control>,
    adopted: Once,
    /// Its part of the routes that the router may have.
    held: Option<Held>,
}

/// The table that the replicas of an element share; the first one fills it.
#[derive(Default)]
pub(in crate::ip6) struct Table(OnceLock<Arc<Routes>>);

impl Table {
    pub(in crate::ip6) fn get(&self) -> Option<&Arc<Routes>> {
        self.0.get()
    }
    pub(in crate::ip6) fn fill(&self, routes: Routes) -> Arc<Routes> {
        Arc::clone(self.0.get_or_init(|| Arc::new(routes)))
    }
    /// The table, for a handler.
    pub(in crate::ip6) fn routes(&self) -> Result<&Routes, String> {
        self.0.get().map(|r| &**r).ok_or_else(|| "no table".to_owned())
    }
}

/// About what a route takes in the list and in the record of the lookup table, at the most, in bytes.
const ROUTE_BYTES: usize = 512;

const TOO_MANY: &str = "too many different next hops (pairs of gateway and output)";

impl Routes {
    /// An empty table whose routes can use `outputs` outputs.
    pub(in crate::ip6) fn new(outputs: u32, budget: Option<&Arc<Budget>>) -> Result<Self, LpmError> {
        Ok(Self {
            lpm: Lpm6::new()?,
            hops: Hops::default(),
            outputs: AtomicU32::new(outputs),
            control: Mutex::default(),
            adopted: Once::new(),
            held: budget.map(Held::new),
        })
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().ignore_poison()
    }

    /// The number of outputs that routes can use.
    pub(in crate::ip6) fn outputs(&self) -> u32 {
        self.outputs.load(Relaxed)
    }

    /// One worker's view for lookups.
    pub(in crate::ip6) fn reader(&self) -> Lpm6Reader {
        self.lpm.reader()
    }

    /// Makes a worker's view of the next hops have the numbers of its last lookup.
    #[inline]
    pub(in crate::ip6) fn refresh(&self, view: &mut View) {
        self.hops.refresh(view);
    }

    /// Counts the routes that there will be.
    fn count(&self, routes: usize) -> Result<(), String> {
        let counted = self.held.as_ref().map_or(Ok(()), |held| held.set(routes));
        counted.map_err(|most| format!("too many routes: the limit routes is {most}"))
    }

    /// Adds or replaces routes, all or none. Of several for one prefix the last counts.
    fn bulk(&self, control: &mut Control, routes: &[(Prefix6, NextHop)], added: bool) -> Result<(), String> {
        if let Some(exceeded) = accounts::inherit().would_exceed(routes.len() * ROUTE_BYTES) {
            return Err(format!("no memory for {} routes: {exceeded}", routes.len()));
        }
        let before = control.by_prefix.len();
        self.count(before + routes.iter().filter(|r| !control.by_prefix.contains_key(&r.0)).count())
            .inspect_err(|_| drop(self.count(before)))?;
        let mut numbered = Vec::with_capacity(routes.len());
        let mut done = Ok(());
        for (prefix, hop) in routes {
            match control.numbers.hold(*hop) {
                Some(number) => numbered.push((*prefix, number)),
                None => {
                    done = Err(TOO_MANY.to_owned());
                    break;
                }
            }
        }
        control.numbers.publish(&self.hops);
        let done = done.and_then(|()| match numbered[..] {
            [(prefix, number)] => self.lpm.insert(prefix, number).map(drop).map_err(|e| e.to_string()),
            _ => self.lpm.load(numbered.iter().copied()).map_err(|e| e.to_string()),
        });
        if done.is_err() {
            numbered.iter().for_each(|(_, number)| control.numbers.release(*number));
        } else {
            numbered.into_iter().for_each(|(prefix, hop)| control.put(Slot { prefix, hop, added }));
        }
        // Of a prefix that is there twice, only one was counted for.
        self.count(control.by_prefix.len()).and(done)
    }

    fn remove(&self, control: &mut Control, prefix: Prefix6) {
        self.lpm.remove(prefix);
        control.take_out(prefix);
    }

    /// Adds the routes of a configuration.
    pub(in crate::ip6) fn configure(&self, routes: &[(Prefix6, NextHop)]) -> Result<(), String> {
        self.bulk(&mut self.control(), routes, false)
    }

    fn apply(&self, control: &mut Control, change: Change) -> Result<(), String> {
        match change {
            Change::Add(prefix, hop) => self.bulk(control, &[(prefix, hop)], true),
            Change::Remove(prefix) => {
                self.remove(control, prefix);
                self.count(control.by_prefix.len())
            }
        }
    }

    fn parse_add(&self, text: &str) -> Result<Change, String> {
        let route =
            Route::parse(text, &runtime::handler_names()).ok_or("expected 'ADDR/LEN [GATEWAY] OUTPUT'")?;
        let hop = route.next_hop().filter(|hop| hop.port < self.outputs());
        let hop = hop.ok_or("output port out of range")?;
        Ok(Change::Add(route.prefix, hop))
    }

    fn parse_remove(text: &str) -> Result<Change, String> {
        let mut words = text.split_ascii_whitespace();
        let prefix = words
            .next()
            .and_then(|w| prefix(w, &runtime::handler_names()))
            .filter(|_| words.next().is_none());
        prefix.map(Change::Remove).ok_or_else(|| "expected 'ADDR/LEN'".to_owned())
    }

    /// The handler `add`.
    pub(in crate::ip6) fn add(&self, text: &str) -> Result<(), String> {
        let change = self.parse_add(text)?;
        self.apply(&mut self.control(), change)
    }

    /// The handler `remove`.
    pub(in crate::ip6) fn remove_by_handler(&self, text: &str) -> Result<(), String> {
        let change = Self::parse_remove(text)?;
        self.apply(&mut self.control(), change)
    }

    /// The handler `ctrl`: changes, one on each line, all or none.
    pub(in crate::ip6) fn transaction(&self, text: &str) -> Result<(), String> {
        let mut changes = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            changes.push(match word {
                "add" => self.parse_add(rest)?,
                "remove" => Self::parse_remove(rest)?,
                _ => return Err("bad command, should be `add' or `remove'".to_owned()),
            });
        }
        let control = &mut *self.control();
        let mut before = Vec::new();
        for change in changes {
            let (Change::Add(prefix, _) | Change::Remove(prefix)) = change;
            let old =
                control.slot(prefix).and_then(|slot| Some((control.numbers.get(slot.hop)?, slot.added)));
            let done = self.apply(control, change);
            if done.is_err() {
                for (prefix, old) in before.into_iter().rev() {
                    match old {
                        Some((hop, added)) => self.bulk(control, &[(prefix, hop)], added)?,
                        None => self.apply(control, Change::Remove(prefix))?,
                    }
                }
                return done;
            }
            before.push((prefix, old));
        }
        Ok(())
    }

    /// The handler `flush`.
    pub(in crate::ip6) fn flush(&self) -> Result<(), String> {
        let control = &mut *self.control();
        self.lpm.clear();
        let prefixes: Vec<Prefix6> = control.slots.iter().flatten().map(|slot| slot.prefix).collect();
        prefixes.into_iter().for_each(|prefix| control.take_out(prefix));
        control.slots.clear();
        control.free.clear();
        self.count(0)
    }

    /// The handler `lookup`.
    pub(in crate::ip6) fn lookup(&self, address: &str) -> Result<String, String> {
        let address: Ipv6Addr = text::value(address, "expected IPv6 address")?;
        let control = self.control();
        let hop = self.lpm.route(address.to_bits()).and_then(|(_, number)| control.numbers.get(number));
        Ok(match hop {
            Some(hop) if hop.gateway.is_unspecified() => hop.port.to_string(),
            Some(hop) => format!("{} {}", hop.port, hop.gateway),
            None => "-1".to_owned(),
        })
    }

    /// About how many bytes lookups of all kinds of addresses reach.
    pub(in crate::ip6) fn working_set(&self) -> usize {
        self.lpm.working_set()
    }

    /// The handler `table`, as Click writes it.
    pub(in crate::ip6) fn table(&self) -> String {
        let control = self.control();
        let mut text = String::new();
        if !control.slots.is_empty() {
            text.push_str("# Active routes\n");
        }
        for slot in control.slots.iter().flatten() {
            if let Some(hop) = control.numbers.get(slot.hop) {
                let _ = writeln!(text, "{}\t{}\t{}", slot.prefix, hop.gateway, hop.port);
            }
        }
        text
    }

    /// How many outputs the routes of the configuration need.
    pub(in crate::ip6) fn configured_outputs(&self) -> u32 {
        let control = self.control();
        let configured = control.slots.iter().flatten().filter(|slot| !slot.added);
        configured.filter_map(|slot| Some(control.numbers.get(slot.hop)?.port + 1)).max().unwrap_or(0)
    }

    /// Has so many outputs from here on; removes routes to others.
    pub(in crate::ip6) fn set_outputs(&self, outputs: u32) {
        let control = &mut *self.control();
        self.outputs.store(outputs, Relaxed);
        let gone = |slot: &&Slot| control.numbers.get(slot.hop).is_some_and(|hop| hop.port >= outputs);
        let gone: Vec<Prefix6> =
            control.slots.iter().flatten().filter(gone).map(|slot| slot.prefix).collect();
        gone.into_iter().for_each(|prefix| self.remove(control, prefix));
    }

    /// Takes over the routes that handlers have added to `old`, unless there is a route for the prefix
    /// already or the route's output no longer exists. This is done only once, by the first caller; the
    /// others wait.
    pub(in crate::ip6) fn adopt(&self, old: &Self) {
        self.adopted.call_once(|| {
            let outputs = self.outputs();
            let mut routes = Vec::new();
            {
                let control = old.control();
                for slot in control.slots.iter().flatten().filter(|slot| slot.added) {
                    let hop = control.numbers.get(slot.hop).filter(|hop| hop.port < outputs);
                    routes.extend(hop.map(|hop| (slot.prefix, hop)));
                }
            }
            let control = &mut *self.control();
            routes.retain(|(prefix, _)| !control.by_prefix.contains_key(prefix));
            // Without memory for them, the new configuration goes on without them.
            let _ = self.bulk(control, &routes, true);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Routes {
        Routes::new(4, None).unwrap()
    }

    #[test]
    fn reads_routes_as_click_writes_them() {
        let parse = |text| Route::parse(text, &NameDb::new());
        for (text, prefix, gateway, output) in [
            ("2001:db8::5/32 1", "2001:db8::/32", "::", 1),
            ("2001:db8::1 ::0 2", "2001:db8::1/128", "::", 2),
            ("::/0 3ffe::2 1", "::/0", "3ffe::2", 1),
            ("2001:db8::/ffff:ffff:: - 0x3", "2001:db8::/32", "::", 3),
            (" ::1\t-1 ", "::1/128", "::", -1),
        ] {
            let want = Route { prefix: prefix.parse().unwrap(), gateway: gateway.parse().unwrap(), output };
            assert_eq!(parse(text), Some(want), "{text}");
        }
        for bad in [
            "",
            "::/0",
            "::/129 1",
            "x 1",
            "::/0 1 2",
            "::/0 ::1",
            "::/0 ::1 1 1",
            "::/ff:0:ff:: 1",
            "10.0.0.0/8 1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn places_are_used_again_as_in_click() {
        let t = table();
        assert_eq!(t.table(), "");
        t.transaction("add 1::/16 0\nadd 2::/16 ::9 1\nadd 3::/16 2").unwrap();
        assert_eq!(t.table(), "# Active routes\n1::/16\t::\t0\n2::/16\t::9\t1\n3::/16\t::\t2\n");
        t.remove_by_handler("1::/16").unwrap();
        // A route that changes takes the first free place.
        t.add("3::/16 3").unwrap();
        assert_eq!(t.table(), "# Active routes\n3::/16\t::\t3\n2::/16\t::9\t1\n");
        t.transaction("remove 2::/16\nremove 3::/16\nremove 4::/16").unwrap();
        assert_eq!(t.table(), "# Active routes\n");
        t.flush().unwrap();
        assert_eq!(t.table(), "");
    }

    #[test]
    fn transactions_are_all_or_nothing() {
        let t = table();
        t.transaction("add 1::/16 0\nadd 2::/16 1").unwrap();
        let before = t.table();
        for (bad, why) in [
            ("remove 1::/16\nadd 3::/16", "expected 'ADDR/LEN [GATEWAY] OUTPUT'"),
            ("add 3::/16 1\nadd 4::/16 4", "output port out of range"),
            ("add 3::/16 1\nset 4::/16 1", "bad command, should be `add' or `remove'"),
            ("add 3::/16 1\nremove 2::/16 1", "expected 'ADDR/LEN'"),
        ] {
            assert_eq!(t.transaction(bad).unwrap_err(), why);
            assert_eq!(t.table(), before);
            assert_eq!((t.lookup("1::1").unwrap(), t.lookup("3::1").unwrap()), ("0".into(), "-1".into()));
        }
        t.transaction("remove 1::/16\nadd 1::/16 ::7 3\n\nremove 2::/16").unwrap();
        assert_eq!((t.lookup("1::1").unwrap(), t.lookup("2::1").unwrap()), ("3 ::7".into(), "-1".into()));
        assert_eq!(t.lookup("one").unwrap_err(), "expected IPv6 address");
    }

    #[test]
    fn a_limit_is_for_all_routes() {
        let budget = Budget::new(2);
        let t = Routes::new(4, Some(&budget)).unwrap();
        t.transaction("add 1::/16 0\nadd 2::/16 1\nadd 1::/16 2").unwrap();
        assert!(t.transaction("add 1::/16 3\nadd 3::/16 1").unwrap_err().contains("the limit routes is 2"));
        assert_eq!(
            (t.lookup("1::").unwrap(), t.lookup("3::").unwrap(), budget.used()),
            ("2".into(), "-1".into(), 2)
        );
        t.remove_by_handler("1::/16").unwrap();
        t.add("3::/16 1").unwrap();
        t.flush().unwrap();
        assert_eq!(budget.used(), 0);
    }
}
