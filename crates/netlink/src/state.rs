//! Everything that is known of a namespace, and which route the kernel would use for a network.

use crate::message::{Event, Place};
use crate::model::{Address, Hop, Kind, Link, Neighbor, Object, Resolved, Route, Via};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use tables::Prefix;

/// The routes of a network, the one to use first at the front. Nearly all networks have one.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Candidates {
    One(Route),
    Many(Vec<Route>),
}

impl Candidates {
    fn as_slice(&self) -> &[Route] {
        match self {
            Self::One(route) => std::slice::from_ref(route),
            Self::Many(routes) => routes,
        }
    }
    fn from_vec(mut routes: Vec<Route>) -> Option<Self> {
        match routes.len() {
            0 => None,
            1 => routes.pop().map(Self::One),
            _ => Some(Self::Many(routes)),
        }
    }
}

/// What has changed since it was asked for last.
#[derive(Default, Debug)]
struct Dirty {
    routes: HashSet<Prefix>,
    /// Interfaces and objects whose routes have to be looked at again.
    interfaces: HashSet<u32>,
    objects: HashSet<u32>,
    neighbors: BTreeSet<(u32, Ipv4Addr)>,
    /// Whether interfaces or addresses have changed.
    links: bool,
}

/// A set of changes.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Dirt {
    pub(crate) routes: Vec<Prefix>,
    pub(crate) neighbors: Vec<(u32, Ipv4Addr)>,
    pub(crate) links: bool,
}

/// What two states have different.
#[derive(Default, Debug)]
pub(crate) struct Difference {
    pub(crate) routes: Vec<Prefix>,
    /// Interfaces, addresses and next-hop objects.
    pub(crate) others: usize,
    /// What they are, for messages.
    pub(crate) kinds: String,
    neighbors: Vec<(u32, Ipv4Addr)>,
}

/// What is known of a namespace.
#[derive(Debug)]
pub struct State {
    /// The tables that are followed; of routes to one network, those of an earlier table win.
    tables: Vec<u32>,
    routes: HashMap<Prefix, Candidates>,
    links: BTreeMap<u32, Link>,
    addresses: BTreeSet<Address>,
    neighbors: BTreeMap<(u32, Ipv4Addr), Neighbor>,
    objects: HashMap<u32, Object>,
    /// Objects that are gone while there may still be routes with them. The kernel has removed these, without
    /// telling; they must not be used if there is another object with the same number.
    gone: HashSet<u32>,
    dirty: Dirty,
    /// Whether the kernel may have removed routes without telling.
    silent: bool,
}

impl State {
    pub(crate) fn new(tables: &[u32]) -> Self {
        Self {
            tables: tables.to_vec(),
            routes: HashMap::new(),
            links: BTreeMap::new(),
            addresses: BTreeSet::new(),
            neighbors: BTreeMap::new(),
            objects: HashMap::new(),
            gone: HashSet::new(),
            dirty: Dirty::default(),
            silent: false,
        }
    }

    /// The number of networks that have routes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.routes.len()
    }
    /// Whether there are no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
    /// The networks that have routes, in no order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.routes.keys().copied()
    }
    /// The interfaces, by number.
    #[must_use]
    pub fn links(&self) -> &BTreeMap<u32, Link> {
        &self.links
    }
    /// The addresses of interfaces.
    #[must_use]
    pub fn addresses(&self) -> &BTreeSet<Address> {
        &self.addresses
    }
    /// The neighbors whose Ethernet addresses are known, by interface and address.
    #[must_use]
    pub fn neighbors(&self) -> &BTreeMap<(u32, Ipv4Addr), Neighbor> {
        &self.neighbors
    }

    /// The route that the kernel would use for packets to a network: of those that can be used the one with
    /// the least metric, of several the first.
    #[must_use]
    pub fn resolve(&self, prefix: Prefix) -> Option<Resolved> {
        self.routes.get(&prefix)?.as_slice().iter().find_map(|route| self.usable(route))
    }

    fn up(&self, interface: u32) -> bool {
        self.links.get(&interface).is_some_and(|link| link.up)
    }

    fn usable(&self, route: &Route) -> Option<Resolved> {
        let mut resolved = Resolved {
            kind: route.kind,
            table: route.table,
            metric: route.metric,
            protocol: route.protocol,
            hops: Vec::new(),
        };
        match route.kind {
            Kind::Unicast => {}
            // Addresses stay the host's own while their interface is down.
            Kind::Local | Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Other => {
                return Some(resolved);
            }
            Kind::Broadcast => {
                let up = matches!(&route.via, Via::One(hop) if self.up(hop.interface));
                return up.then_some(resolved);
            }
        }
        match &route.via {
            Via::One(hop) => resolved.hops.extend(self.up(hop.interface).then_some(*hop)),
            Via::Many(hops) => resolved.hops.extend(hops.iter().filter(|hop| self.up(hop.interface))),
            Via::Object(id) => match self.objects.get(id)? {
                Object::Hop(hop) => resolved.hops.extend(self.up(hop.interface).then_some(*hop)),
                Object::Blackhole => {
                    resolved.kind = Kind::Blackhole;
                    return Some(resolved);
                }
                Object::Group(members) => {
                    for (id, weight) in members {
                        match self.objects.get(id) {
                            Some(Object::Hop(hop)) if self.up(hop.interface) => {
                                resolved.hops.push(Hop { weight: *weight, ..*hop });
                            }
                            // The kernel allows it only as the only member.
                            Some(Object::Blackhole) => {
                                resolved.kind = Kind::Blackhole;
                                return Some(resolved);
                            }
                            _ => {}
                        }
                    }
                }
            },
        }
        (!resolved.hops.is_empty()).then_some(resolved)
    }

    fn rank(&self, table: u32) -> Option<usize> {
        self.tables.iter().position(|t| *t == table)
    }

    /// Changes the routes of a network.
    fn edit(&mut self, prefix: Prefix, edit: impl FnOnce(&mut Vec<Route>)) {
        let mut routes = match self.routes.remove(&prefix) {
            Some(Candidates::One(route)) => vec![route],
            Some(Candidates::Many(routes)) => routes,
            None => Vec::new(),
        };
        edit(&mut routes);
        if let Some(candidates) = Candidates::from_vec(routes) {
            self.routes.insert(prefix, candidates);
        }
        self.dirty.routes.insert(prefix);
    }

    fn add(&mut self, prefix: Prefix, place: Place, route: Route) {
        let Some(rank) = self.rank(route.table) else { return };
        // The usual case, without a vector.
        match self.routes.entry(prefix) {
            Entry::Vacant(vacant) => {
                vacant.insert(Candidates::One(route));
                self.dirty.routes.insert(prefix);
                return;
            }
            Entry::Occupied(mut there) => {
                if let Candidates::One(old) = there.get_mut() {
                    let replaces = place == Place::Replace && old.shares_place(&route);
                    if old.same(&route) || replaces {
                        if *old != route {
                            *old = route;
                            self.dirty.routes.insert(prefix);
                        }
                        return;
                    }
                }
            }
        }
        let tables = self.tables.clone();
        let rank_of = |r: &Route| (tables.iter().position(|t| *t == r.table), r.metric);
        self.edit(prefix, |routes| {
            if place == Place::Replace
                && let Some(first) = routes.iter().position(|r| r.shares_place(&route))
            {
                routes.remove(first);
            }
            if place != Place::Replace && routes.iter().any(|r| r.same(&route)) {
                return;
            }
            routes.retain(|r| !r.same(&route));
            let key = (Some(rank), route.metric);
            let at = match place {
                Place::Last => routes.partition_point(|r| rank_of(r) <= key),
                Place::First | Place::Replace => routes.partition_point(|r| rank_of(r) < key),
            };
            routes.insert(at, route);
        });
    }

    fn remove(&mut self, prefix: Prefix, route: &Route) {
        if self.rank(route.table).is_none() {
            return;
        }
        let known = self.routes.get(&prefix).is_some_and(|c| c.as_slice().iter().any(|r| r.same(route)));
        if known {
            self.edit(prefix, |routes| routes.retain(|r| !r.same(route)));
        } else {
            // It is one that has been replaced, or what is known is not right.
            self.silent = true;
        }
    }

    /// Removes the routes none of whose next hops can be used any more, as the kernel does when an interface
    /// goes down. It does not tell.
    fn drop_dead(&mut self, interface: u32) {
        let dead: Vec<Prefix> = self
            .routes
            .iter()
            .filter(|(_, c)| c.as_slice().iter().any(|r| self.over(r, interface) && self.usable(r).is_none()))
            .map(|(prefix, _)| *prefix)
            .collect();
        for prefix in dead {
            let Some(candidates) = self.routes.get(&prefix) else { continue };
            let left = candidates.as_slice().iter();
            let left = left.filter(|r| !self.over(r, interface) || self.usable(r).is_some());
            let left = Candidates::from_vec(left.cloned().collect());
            match left {
                Some(left) => drop(self.routes.insert(prefix, left)),
                None => drop(self.routes.remove(&prefix)),
            }
            self.dirty.routes.insert(prefix);
        }
    }

    /// Removes the routes whose next-hop objects are gone.
    fn drop_gone(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        if gone.is_empty() {
            return;
        }
        let stays = |route: &Route| !matches!(&route.via, Via::Object(id) if gone.contains(id));
        let dirty = &mut self.dirty.routes;
        self.routes.retain(|prefix, candidates| {
            if candidates.as_slice().iter().all(stays) {
                return true;
            }
            dirty.insert(*prefix);
            match Candidates::from_vec(candidates.as_slice().iter().filter(|r| stays(r)).cloned().collect()) {
                Some(left) => {
                    *candidates = left;
                    true
                }
                None => false,
            }
        });
    }

    /// Whether a route has a next hop over an interface.
    fn over(&self, route: &Route, interface: u32) -> bool {
        match &route.via {
            Via::One(hop) => hop.interface == interface,
            Via::Many(hops) => hops.iter().any(|h| h.interface == interface),
            Via::Object(id) => self.object_over(*id, interface),
        }
    }
    fn object_over(&self, id: u32, interface: u32) -> bool {
        let direct =
            |id: &u32| matches!(self.objects.get(id), Some(Object::Hop(h)) if h.interface == interface);
        match self.objects.get(&id) {
            Some(Object::Group(members)) => members.iter().any(|(id, _)| direct(id)),
            _ => direct(&id),
        }
    }

    /// Takes in a change, or an item of a list.
    pub(crate) fn apply(&mut self, event: Event) {
        match event {
            Event::Route(prefix, place, route) => self.add(prefix, place, route),
            Event::RouteGone(prefix, route) => self.remove(prefix, &route),
            Event::Link(index, link) => {
                let (up, name) = (link.up, link.name.clone());
                let old = self.links.insert(index, link.clone());
                if old.as_ref() == Some(&link) {
                    return;
                }
                self.dirty.links = true;
                let before = old.as_ref().map(|l| (l.up, l.name.as_str()));
                if before != Some((up, &name)) {
                    self.dirty.interfaces.insert(index);
                }
                if !up && before.is_some_and(|(up, _)| up) {
                    self.drop_dead(index);
                    self.silent = true;
                }
            }
            Event::LinkGone(index) => {
                if self.links.remove(&index).is_some() {
                    self.dirty.links = true;
                    self.dirty.interfaces.insert(index);
                    self.drop_dead(index);
                    self.silent = true;
                }
            }
            Event::Address(address) => self.dirty.links |= self.addresses.insert(address),
            Event::AddressGone(address) => {
                if self.addresses.remove(&address) {
                    self.dirty.links = true;
                    // Routes that prefer it as their source go too.
                    self.silent = true;
                }
            }
            Event::Neighbor(interface, ip, neighbor) => {
                if self.neighbors.insert((interface, ip), neighbor) != Some(neighbor) {
                    self.dirty.neighbors.insert((interface, ip));
                }
            }
            Event::NeighborGone(interface, ip) => {
                if self.neighbors.remove(&(interface, ip)).is_some() {
                    self.dirty.neighbors.insert((interface, ip));
                }
            }
            Event::Object(id, object) => {
                if self.gone.contains(&id) {
                    self.drop_gone();
                }
                if self.objects.insert(id, object.clone()) != Some(object) {
                    self.dirty.objects.insert(id);
                }
            }
            Event::ObjectGone(id) => {
                if self.objects.remove(&id).is_some() {
                    self.gone.insert(id);
                    self.dirty.objects.insert(id);
                    self.silent = true;
                }
            }
        }
    }

    /// What an event is about, if it is about a route.
    pub(crate) fn route_of(event: &Event) -> Option<Prefix> {
        match event {
            Event::Route(prefix, ..) | Event::RouteGone(prefix, _) => Some(*prefix),
            _ => None,
        }
    }

    /// Whether the kernel may have removed routes without telling, since this was asked last.
    pub(crate) fn take_silent(&mut self) -> bool {
        std::mem::take(&mut self.silent)
    }

    /// Whether there are changes that [`State::take_dirt`] would return.
    pub(crate) fn is_dirty(&self) -> bool {
        let d = &self.dirty;
        d.links
            || !(d.routes.is_empty()
                && d.interfaces.is_empty()
                && d.objects.is_empty()
                && d.neighbors.is_empty())
    }

    /// What has changed since the last call: each route once.
    pub(crate) fn take_dirt(&mut self) -> Dirt {
        self.drop_gone();
        let Dirty { mut routes, interfaces, mut objects, neighbors, links } = std::mem::take(&mut self.dirty);
        if !objects.is_empty() {
            let with_member = |object: &Object| matches!(object, Object::Group(members) if members.iter().any(|(id, _)| objects.contains(id)));
            let groups: Vec<u32> =
                self.objects.iter().filter(|(_, o)| with_member(o)).map(|(id, _)| *id).collect();
            objects.extend(groups);
        }
        if !objects.is_empty() || !interfaces.is_empty() {
            let touched = |route: &Route| {
                let over = |i: &u32| self.over(route, *i);
                matches!(&route.via, Via::Object(id) if objects.contains(id)) || interfaces.iter().any(over)
            };
            let more = self.routes.iter().filter(|(_, c)| c.as_slice().iter().any(touched));
            routes.extend(more.map(|(prefix, _)| *prefix));
        }
        Dirt { routes: routes.into_iter().collect(), neighbors: neighbors.into_iter().collect(), links }
    }

    /// What is different in another state of the same namespace.
    pub(crate) fn difference(&self, other: &Self) -> Difference {
        let mut routes: Vec<Prefix> = other
            .routes
            .iter()
            .filter(|(prefix, candidates)| self.routes.get(prefix) != Some(candidates))
            .map(|(prefix, _)| *prefix)
            .collect();
        routes.extend(self.routes.keys().filter(|prefix| !other.routes.contains_key(prefix)));
        let links = differences(&self.links, &other.links).count();
        let addresses = self.addresses.symmetric_difference(&other.addresses).count();
        let objects = other.objects.iter().filter(|(id, o)| self.objects.get(id) != Some(o)).count()
            + self.objects.keys().filter(|id| !other.objects.contains_key(id)).count();
        let neighbors = differences(&self.neighbors, &other.neighbors).collect();
        let kinds = format!("interfaces {links}, addresses {addresses}, next-hop objects {objects}");
        Difference { routes, others: links + addresses + objects, kinds, neighbors }
    }

    /// Takes over another state of the same namespace; what is different counts as changed.
    pub(crate) fn become_like(&mut self, other: Self, difference: Difference) {
        let dirty = &mut self.dirty;
        dirty.routes.extend(difference.routes);
        dirty.neighbors.extend(difference.neighbors);
        if difference.others > 0 {
            dirty.links = true;
            dirty.interfaces.extend(differences(&self.links, &other.links));
            dirty.objects.extend(
                other
                    .objects
                    .keys()
                    .chain(self.objects.keys())
                    .filter(|id| self.objects.get(id) != other.objects.get(id)),
            );
        }
        let dirty = std::mem::take(dirty);
        *self = Self { dirty, silent: false, ..other };
    }
}

/// The keys whose values differ.
fn differences<'a, K: Ord + Copy + 'a, V: PartialEq>(
    a: &'a BTreeMap<K, V>,
    b: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = K> + 'a {
    let changed = b.iter().filter(|(k, v)| a.get(k) != Some(v)).map(|(k, _)| *k);
    changed.chain(a.keys().filter(|k| !b.contains_key(k)).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gateway;

    fn prefix(text: &str) -> Prefix {
        let (address, length) = text.split_once('/').unwrap();
        let address: Ipv4Addr = address.parse().unwrap();
        Prefix::new(address.to_bits(), length.parse().unwrap()).unwrap()
    }
    fn hop(interface: u32, last: u8) -> Hop {
        Hop { gateway: Gateway::V4([10, 0, 0, last].into()), interface, weight: 1 }
    }
    fn route(metric: u32, via: Via) -> Route {
        Route { table: 254, metric, kind: Kind::Unicast, protocol: 4, via }
    }
    fn one(metric: u32, interface: u32, last: u8) -> Route {
        route(metric, Via::One(hop(interface, last)))
    }
    fn link(name: &str, up: bool) -> Link {
        Link { name: name.into(), address: String::new(), up, carrier: up, mtu: 1500 }
    }
    fn state() -> State {
        let mut state = State::new(&[255, 254]);
        for index in 1..=3 {
            state.apply(Event::Link(index, link(&format!("eth{index}"), true)));
        }
        state.take_dirt();
        state
    }
    fn gateways(state: &State, text: &str) -> Vec<u8> {
        let hops = state.resolve(prefix(text)).map(|r| r.hops).unwrap_or_default();
        hops.iter()
            .map(|h| match h.gateway {
                Gateway::V4(a) => a.octets()[3],
                _ => 0,
            })
            .collect()
    }
    fn dirty(state: &mut State) -> Vec<String> {
        let mut routes: Vec<_> = state.take_dirt().routes.iter().map(Prefix::to_string).collect();
        routes.sort();
        routes
    }

    #[test]
    fn the_least_metric_wins_and_then_the_first() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        s.apply(Event::Route(p, Place::First, one(20, 1, 1)));
        s.apply(Event::Route(p, Place::First, one(10, 1, 2)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [2]);
        s.apply(Event::Route(p, Place::Last, one(10, 1, 3)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [2]);
        s.apply(Event::Route(p, Place::First, one(10, 1, 4)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [4]);
        // The same once more is no new route, as when a list and a notification both have it.
        s.apply(Event::Route(p, Place::First, one(10, 1, 3)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [4]);
        for (metric, last, want) in [(10, 4, vec![2]), (10, 2, vec![3]), (10, 3, vec![1]), (20, 1, vec![])] {
            s.apply(Event::RouteGone(p, one(metric, 1, last)));
            assert_eq!(gateways(&s, "10.9.0.0/16"), want);
        }
        assert!(s.is_empty() && !s.take_silent());
    }

    #[test]
    fn a_replaced_route_is_gone() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        s.apply(Event::Route(p, Place::First, one(0, 1, 1)));
        s.apply(Event::Route(p, Place::Replace, one(0, 1, 2)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [2]);
        s.apply(Event::Route(p, Place::Last, one(0, 1, 3)));
        s.apply(Event::Route(p, Place::Replace, one(0, 1, 4)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [4]);
        s.apply(Event::RouteGone(p, one(0, 1, 4)));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [3]);
        // A route that is not known means that something was missed.
        s.apply(Event::RouteGone(p, one(0, 1, 9)));
        assert!(s.take_silent());
    }

    #[test]
    fn other_tables_are_not_followed() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        s.apply(Event::Route(p, Place::First, Route { table: 100, ..one(0, 1, 1) }));
        assert!(s.is_empty());
        // The local table is asked first.
        s.apply(Event::Route(p, Place::First, one(0, 1, 1)));
        let local = Route { table: 255, kind: Kind::Local, metric: 5, ..one(0, 1, 0) };
        s.apply(Event::Route(p, Place::First, local));
        assert_eq!(s.resolve(p).unwrap().kind, Kind::Local);
    }

    #[test]
    fn several_changes_of_a_route_are_one() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        for last in 1..100 {
            s.apply(Event::Route(p, Place::Replace, one(0, 1, last)));
        }
        assert_eq!(dirty(&mut s), ["10.9.0.0/16"]);
        assert!(!s.is_dirty());
        s.apply(Event::Route(p, Place::Replace, one(0, 1, 99)));
        assert!(!s.is_dirty());
    }

    #[test]
    fn an_interface_that_goes_down_takes_its_routes_along() {
        let mut s = state();
        let both = Via::Many([hop(1, 1), hop(2, 2)].into());
        s.apply(Event::Route(prefix("10.1.0.0/16"), Place::First, one(0, 1, 1)));
        s.apply(Event::Route(prefix("10.2.0.0/16"), Place::First, one(0, 2, 2)));
        s.apply(Event::Route(prefix("10.3.0.0/16"), Place::First, route(0, both)));
        s.apply(Event::Route(prefix("10.4.0.0/16"), Place::First, one(0, 1, 1)));
        s.apply(Event::Route(prefix("10.4.0.0/16"), Place::First, one(9, 2, 2)));
        dirty(&mut s);
        s.apply(Event::Link(1, link("eth1", false)));
        assert_eq!(dirty(&mut s), ["10.1.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]);
        assert_eq!(gateways(&s, "10.1.0.0/16"), [0u8; 0]);
        assert_eq!((gateways(&s, "10.3.0.0/16"), gateways(&s, "10.4.0.0/16")), (vec![2], vec![2]));
        assert!(s.take_silent());
        // The route with two next hops has both again; the others are gone for good.
        s.apply(Event::Link(1, link("eth1", true)));
        assert_eq!(dirty(&mut s), ["10.3.0.0/16"]);
        assert_eq!((gateways(&s, "10.3.0.0/16"), s.len()), (vec![1, 2], 3));
        s.apply(Event::LinkGone(2));
        assert_eq!((gateways(&s, "10.3.0.0/16"), s.len()), (vec![1], 1));
    }

    #[test]
    fn groups_are_resolved_and_followed() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        s.apply(Event::Object(1, Object::Hop(hop(1, 1))));
        s.apply(Event::Object(2, Object::Hop(hop(2, 2))));
        s.apply(Event::Object(9, Object::Group([(1, 1), (2, 3)].into())));
        s.apply(Event::Route(p, Place::First, route(0, Via::Object(9))));
        let resolved = s.resolve(p).unwrap();
        assert_eq!(resolved.hops, [hop(1, 1), Hop { weight: 3, ..hop(2, 2) }]);
        dirty(&mut s);
        s.apply(Event::Object(2, Object::Hop(hop(2, 7))));
        assert_eq!(
            (dirty(&mut s), gateways(&s, "10.9.0.0/16")),
            (vec!["10.9.0.0/16".to_owned()], vec![1, 7])
        );
        s.apply(Event::Link(1, link("eth1", false)));
        assert_eq!((dirty(&mut s), gateways(&s, "10.9.0.0/16")), (vec!["10.9.0.0/16".to_owned()], vec![7]));
        s.apply(Event::ObjectGone(9));
        assert_eq!((dirty(&mut s), s.resolve(p)), (vec!["10.9.0.0/16".to_owned()], None));
        s.apply(Event::Object(9, Object::Blackhole));
        s.apply(Event::Route(p, Place::First, route(0, Via::Object(9))));
        assert_eq!(s.resolve(p).unwrap().kind, Kind::Blackhole);
    }

    #[test]
    fn a_route_goes_with_its_object_and_does_not_come_back_with_the_number() {
        let (mut s, p) = (state(), prefix("10.9.0.0/16"));
        s.apply(Event::Object(6, Object::Hop(hop(1, 1))));
        s.apply(Event::Object(9, Object::Hop(hop(1, 2))));
        s.apply(Event::Route(p, Place::First, route(0, Via::Object(6))));
        s.apply(Event::ObjectGone(6));
        s.apply(Event::Route(p, Place::First, route(0, Via::Object(9))));
        s.apply(Event::Object(6, Object::Hop(hop(1, 3))));
        assert_eq!(gateways(&s, "10.9.0.0/16"), [2]);
        s.apply(Event::RouteGone(p, route(0, Via::Object(9))));
        assert!(s.resolve(p).is_none() && s.is_empty());
        s.apply(Event::Route(p, Place::First, route(0, Via::Object(6))));
        s.take_dirt();
        s.apply(Event::ObjectGone(6));
        assert_eq!((dirty(&mut s), s.len()), (vec!["10.9.0.0/16".to_owned()], 0));
    }

    #[test]
    fn a_new_list_shows_what_was_missed() {
        let (mut s, mut fresh) = (state(), state());
        s.apply(Event::Route(prefix("10.1.0.0/16"), Place::First, one(0, 1, 1)));
        s.apply(Event::Route(prefix("10.2.0.0/16"), Place::First, one(0, 1, 1)));
        s.apply(Event::Route(prefix("10.3.0.0/16"), Place::First, one(0, 1, 1)));
        s.take_dirt();
        fresh.apply(Event::Route(prefix("10.1.0.0/16"), Place::Last, one(0, 1, 1)));
        fresh.apply(Event::Route(prefix("10.2.0.0/16"), Place::Last, one(0, 1, 7)));
        fresh.apply(Event::Route(prefix("10.4.0.0/16"), Place::Last, one(0, 1, 1)));
        fresh.apply(Event::Link(3, link("other", true)));
        let difference = s.difference(&fresh);
        assert_eq!((difference.routes.len(), difference.others), (3, 1));
        s.become_like(fresh, difference);
        assert_eq!(dirty(&mut s), ["10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"]);
        assert_eq!(s.links()[&3].name, "other");
    }

    #[test]
    fn neighbors_and_addresses_are_kept() {
        let mut s = state();
        let neighbor = Neighbor { mac: [2; 6], permanent: false, reachable: true };
        let ip = Ipv4Addr::new(10, 0, 0, 2);
        s.apply(Event::Neighbor(1, ip, neighbor));
        assert_eq!(s.take_dirt().neighbors, [(1, ip)]);
        s.apply(Event::Neighbor(1, ip, neighbor));
        assert!(!s.is_dirty());
        s.apply(Event::NeighborGone(1, ip));
        assert_eq!((s.take_dirt().neighbors.len(), s.neighbors().len()), (1, 0));
        let address = Address { interface: 1, address: ip, length: 24 };
        s.apply(Event::Address(address));
        assert!(s.take_dirt().links);
        s.apply(Event::AddressGone(address));
        assert!(s.take_silent() && s.addresses().is_empty());
    }
}
