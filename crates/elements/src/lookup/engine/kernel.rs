//! Brings a routing table, and tables of neighbors, into step with what the kernel of a network namespace
//! knows.

use super::hops::{DISCARD, NextHop};
use super::routes::{Learner, Outcome, Routes, Way};
use locks::IgnorePoison;
use netlink::{Changes, Consumer, Follower, Gateway, Hop, Kind, Options, Resolved, State};
use runtime::{Hub, Level};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use tables::Prefix;

/// Where packets go, by what the kernel does with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::lookup) struct Plan {
    /// The output of each interface.
    pub(in crate::lookup) outputs: BTreeMap<String, u32>,
    /// The element with the neighbors of each interface, by its full name.
    pub(in crate::lookup) neighbors: BTreeMap<String, String>,
    /// The output of the host itself.
    pub(in crate::lookup) host: Option<u32>,
    /// Those of routes whose packets are dropped with an answer.
    pub(in crate::lookup) unreachable: Option<u32>,
    pub(in crate::lookup) prohibited: Option<u32>,
}

/// Why a route of the kernel is not in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::lookup) enum LeftOut {
    Interface,
    Gateway,
    Host,
    Full,
}

impl LeftOut {
    pub(in crate::lookup) const ALL: [Self; 4] = [Self::Interface, Self::Gateway, Self::Host, Self::Full];

    pub(in crate::lookup) fn text(self) -> &'static str {
        match self {
            Self::Interface => "interface not in the arguments",
            Self::Gateway => "gateway is not an IPv4 address",
            Self::Host => "no output for the host",
            Self::Full => "no room in the table",
        }
    }
}

impl Plan {
    /// The outputs that it names.
    pub(in crate::lookup) fn ports(&self) -> impl Iterator<Item = u32> + '_ {
        let special = [self.host, self.unreachable, self.prohibited];
        self.outputs.values().copied().chain(special.into_iter().flatten())
    }

    fn output(&self, state: &State, hop: &Hop) -> Option<u32> {
        self.outputs.get(&state.links().get(&hop.interface)?.name).copied()
    }

    /// Where a route of the kernel leads in the table; `Ok(None)` for one that no router needs.
    fn way(&self, state: &State, prefix: Prefix, route: &Resolved) -> Result<Option<Way>, LeftOut> {
        let to = |port| Ok(Some(Way::One(NextHop { gateway: None, port })));
        match route.kind {
            // The host's addresses for itself alone.
            Kind::Local | Kind::Broadcast if Ipv4Addr::from(prefix.first()).is_loopback() => Ok(None),
            Kind::Local | Kind::Broadcast => self.host.map_or(Err(LeftOut::Host), to),
            Kind::Blackhole | Kind::Other => to(DISCARD),
            Kind::Unreachable => to(self.unreachable.unwrap_or(DISCARD)),
            Kind::Prohibit => to(self.prohibited.unwrap_or(DISCARD)),
            Kind::Unicast => {
                let mut why = LeftOut::Interface;
                let mut hops = Vec::with_capacity(route.hops.len());
                for hop in &route.hops {
                    let Some(port) = self.output(state, hop) else { continue };
                    match hop.gateway {
                        Gateway::None => hops.push((NextHop { gateway: None, port }, hop.weight)),
                        Gateway::V4(a) => hops.push((NextHop { gateway: Some(a), port }, hop.weight)),
                        Gateway::Other => why = LeftOut::Gateway,
                    }
                }
                match hops[..] {
                    [] => Err(why),
                    [(one, _)] => Ok(Some(Way::One(one))),
                    _ => Ok(Some(Way::Many(hops.into()))),
                }
            }
        }
    }
}

/// Where the routes go at present.
struct Destination {
    routes: Arc<Routes>,
    plan: Arc<Plan>,
}

/// An element with neighbors, and the address of one.
pub(in crate::lookup) type NeighborKey = (String, Ipv4Addr);

#[derive(Default)]
struct Inner {
    destination: Option<Destination>,
    left_out: HashMap<Prefix, LeftOut>,
    /// The neighbors that elements have been given, and what they are still to be given; `None`: removed.
    entered: BTreeSet<NeighborKey>,
    to_enter: BTreeMap<NeighborKey, Option<[u8; 6]>>,
    /// The addresses that elements with neighbors are still to be given.
    to_address: BTreeMap<String, Ipv4Addr>,
    told_full: bool,
}

/// What receives the kernel's routes, and what of them is not in the table.
pub(in crate::lookup) struct Target {
    inner: Mutex<Inner>,
    learner: Learner,
    hub: Arc<Hub>,
    /// The element's name, for messages.
    name: String,
}

impl Target {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().ignore_poison()
    }

    fn neighbors(&self, inner: &mut Inner, state: &State, which: Option<&[(u32, Ipv4Addr)]>) {
        let Some(Destination { plan, .. }) = &inner.destination else { return };
        if plan.neighbors.is_empty() {
            return;
        }
        let element = |interface: &u32| plan.neighbors.get(&state.links().get(interface)?.name);
        let known = |key: &(u32, Ipv4Addr)| state.neighbors().get(key).map(|n| n.mac);
        let mut changes = BTreeMap::new();
        match which {
            Some(some) => {
                for key in some {
                    if let Some(element) = element(&key.0) {
                        changes.insert((element.clone(), key.1), known(key));
                    }
                }
            }
            None => {
                changes.extend(inner.entered.iter().map(|key| (key.clone(), None)));
                for key in state.neighbors().keys() {
                    if let Some(element) = element(&key.0) {
                        changes.insert((element.clone(), key.1), known(key));
                    }
                }
            }
        }
        if !changes.is_empty() {
            inner.to_enter.extend(changes);
            self.hub.ring();
        }
    }

    /// The elements with neighbors ask with the first address of their interface.
    fn addresses(&self, inner: &mut Inner, state: &State) {
        let Some(Destination { plan, .. }) = &inner.destination else { return };
        for address in state.addresses().iter().rev() {
            let Some(link) = state.links().get(&address.interface) else { continue };
            if let Some(element) = plan.neighbors.get(&link.name) {
                inner.to_address.insert(element.clone(), address.address);
            }
        }
        if !inner.to_address.is_empty() {
            self.hub.ring();
        }
    }

    fn refused(&self, inner: &mut Inner, outcome: &Outcome) {
        inner.left_out.extend(outcome.refused.iter().map(|p| (*p, LeftOut::Full)));
        if !outcome.refused.is_empty() && !std::mem::replace(&mut inner.told_full, true) {
            let what = format!("routes of the kernel are left out: {}", outcome.reason);
            self.hub.log(Level::WARN, &self.name, &what);
        }
    }

    /// Brings everything into step; returns the number of routes that were otherwise.
    fn bring_all(&self, state: &State) -> u64 {
        let inner = &mut *self.lock();
        let Some(Destination { routes, plan }) = &inner.destination else { return 0 };
        let (mut wanted, mut left_out) = (HashMap::with_capacity(state.len()), HashMap::new());
        for prefix in state.prefixes() {
            let Some(route) = state.resolve(prefix) else { continue };
            match plan.way(state, prefix, &route) {
                Ok(Some(way)) => drop(wanted.insert(prefix, way)),
                Ok(None) => {}
                Err(why) => drop(left_out.insert(prefix, why)),
            }
        }
        let outcome = routes.learn_all(self.learner, &wanted);
        inner.left_out = left_out;
        self.refused(inner, &outcome);
        self.neighbors(inner, state, None);
        self.addresses(inner, state);
        outcome.changed
    }

    fn bring_some(&self, state: &State, some: &[Prefix]) {
        let inner = &mut *self.lock();
        let Some(Destination { routes, plan }) = &inner.destination else { return };
        let mut wanted = Vec::with_capacity(some.len());
        for &prefix in some {
            inner.left_out.remove(&prefix);
            let way = match state.resolve(prefix).map(|route| plan.way(state, prefix, &route)) {
                Some(Ok(way)) => way,
                Some(Err(why)) => {
                    inner.left_out.insert(prefix, why);
                    None
                }
                None => None,
            };
            wanted.push((prefix, way));
        }
        let wanted: Vec<_> = wanted.iter().map(|(prefix, way)| (*prefix, way.as_ref())).collect();
        let outcome = routes.learn(self.learner, &wanted);
        self.refused(inner, &outcome);
    }

    /// How many routes are left out, by reason.
    pub(in crate::lookup) fn left_out(&self) -> BTreeMap<LeftOut, usize> {
        let mut counts = BTreeMap::new();
        for why in self.lock().left_out.values() {
            *counts.entry(*why).or_default() += 1;
        }
        counts
    }

    /// The addresses that elements are to be given, by element.
    pub(in crate::lookup) fn take_addresses(&self) -> BTreeMap<String, Ipv4Addr> {
        std::mem::take(&mut self.lock().to_address)
    }

    /// The next changes of neighbors, at most `max`: element, address, Ethernet address.
    pub(in crate::lookup) fn take_neighbors(&self, max: usize) -> Vec<(NeighborKey, Option<[u8; 6]>)> {
        let inner = &mut *self.lock();
        let mut some = Vec::new();
        while some.len() < max
            && let Some((key, mac)) = inner.to_enter.pop_first()
        {
            match mac {
                Some(_) => drop(inner.entered.insert(key.clone())),
                None if inner.entered.remove(&key) => {}
                // It was never entered.
                None => continue,
            }
            some.push((key, mac));
        }
        some
    }
}

/// The follower's view of the target.
struct Ear(Arc<Target>);

impl Consumer for Ear {
    fn changed(&mut self, state: &State, changes: Changes<'_>) -> u64 {
        match changes {
            Changes::All => self.0.bring_all(state),
            Changes::Some { routes, neighbors, links } => {
                if !routes.is_empty() {
                    self.0.bring_some(state, routes);
                }
                if !neighbors.is_empty() {
                    let inner = &mut *self.0.lock();
                    self.0.neighbors(inner, state, Some(neighbors));
                }
                if links {
                    self.0.addresses(&mut self.0.lock(), state);
                }
                0
            }
        }
    }
    fn warn(&mut self, message: &str) {
        self.0.hub.log(Level::WARN, &self.0.name, message);
    }
}

/// A namespace that is followed, and the table that is kept in step with it. When this is dropped, what the
/// table has from it is removed.
pub(in crate::lookup) struct Feed {
    /// It ends before the target's routes are removed.
    follower: Option<Follower>,
    target: Arc<Target>,
}

impl Feed {
    /// Starts to follow; no table is changed yet.
    pub(in crate::lookup) fn start(options: Options, hub: Arc<Hub>, name: String) -> Result<Self, String> {
        let target = Arc::new(Target { inner: Mutex::default(), learner: Learner::new(), hub, name });
        let follower = Follower::start(options, Box::new(Ear(Arc::clone(&target))));
        Ok(Self { follower: Some(follower.map_err(|e| e.to_string())?), target })
    }

    /// From now on the routes go to this table. Those of another table that they went to stay there until it
    /// is told otherwise.
    pub(in crate::lookup) fn lead_to(&self, routes: Arc<Routes>, plan: Arc<Plan>) {
        let Some(follower) = &self.follower else { return };
        let stays = {
            let inner = &mut *self.target.lock();
            let same = |d: &Destination| Arc::ptr_eq(&d.routes, &routes) && d.plan == plan;
            let stays = inner.destination.as_ref().is_some_and(same);
            let other = inner.destination.take().filter(|d| !Arc::ptr_eq(&d.routes, &routes));
            if let Some(other) = other {
                // If both are tables of the running configuration; else nobody looks at it any more.
                other.routes.unlearn(self.target.learner);
            }
            routes.set_learner(self.target.learner);
            inner.destination = Some(Destination { routes, plan });
            stays
        };
        if !stays && follower.status().health == netlink::Health::InStep {
            follower.with_state(|state| self.target.bring_all(state));
        }
        follower.repeat();
    }

    /// The follower.
    pub(in crate::lookup) fn follower(&self) -> Option<&Follower> {
        self.follower.as_ref()
    }
    /// What receives the routes.
    pub(in crate::lookup) fn target(&self) -> &Target {
        &self.target
    }

    /// How many of the kernel's routes are in the table.
    pub(in crate::lookup) fn count(&self) -> usize {
        let inner = self.target.lock();
        inner.destination.as_ref().map_or(0, |d| d.routes.learned())
    }

    /// Every route of the kernel on a line: network, next hops, and why it is not in the table.
    pub(in crate::lookup) fn list(&self) -> String {
        let Some(follower) = &self.follower else { return String::new() };
        follower.with_state(|state| {
            let inner = self.target.lock();
            let mut prefixes: Vec<_> = state.prefixes().collect();
            prefixes.sort_unstable();
            let mut text = String::new();
            for prefix in prefixes {
                let Some(route) = state.resolve(prefix) else { continue };
                let plan = inner.destination.as_ref().map(|d| &*d.plan);
                let _ = write!(text, "{prefix}\t");
                match route.kind {
                    Kind::Unicast => {}
                    Kind::Local => text += "local",
                    Kind::Broadcast => text += "broadcast",
                    Kind::Blackhole => text += "blackhole",
                    Kind::Unreachable => text += "unreachable",
                    Kind::Prohibit => text += "prohibit",
                    Kind::Other => text += "other",
                }
                for (i, hop) in route.hops.iter().enumerate() {
                    text += if i > 0 { ", " } else { "" };
                    let _ = match hop.gateway {
                        Gateway::None => write!(text, "-"),
                        Gateway::V4(a) => write!(text, "{a}"),
                        Gateway::Other => write!(text, "?"),
                    };
                    let name = state.links().get(&hop.interface).map_or("?", |l| l.name.as_str());
                    let _ = write!(text, " {name}");
                    let _ = match plan.and_then(|p| p.output(state, hop)) {
                        Some(output) => write!(text, " {output}"),
                        None => write!(text, " -"),
                    };
                    if hop.weight != 1 {
                        let _ = write!(text, " weight {}", hop.weight);
                    }
                }
                if let Some(why) = inner.left_out.get(&prefix) {
                    let _ = write!(text, "\t{}", why.text());
                }
                text.push('\n');
            }
            text
        })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.follower = None;
        if let Some(Destination { routes, .. }) = self.target.lock().destination.take() {
            routes.unlearn(self.target.learner);
        }
    }
}
