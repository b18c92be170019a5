//! Routes, next hops, interfaces and neighbors as the kernel has them.

use std::net::Ipv4Addr;

/// What a route does with packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Forwards them to a next hop.
    Unicast,
    /// They are for this host.
    Local,
    /// A broadcast address of an interface: they are for this host, too.
    Broadcast,
    /// Drops them.
    Blackhole,
    /// Drops them; their sender is told that the host is unreachable.
    Unreachable,
    /// Drops them; their sender is told that it is prohibited.
    Prohibit,
    /// Anything else, such as `throw`: this table has no route for them.
    Other,
}

/// The router that a next hop names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Gateway {
    /// None: the destination itself is on the network of the interface.
    None,
    /// An IPv4 router.
    V4(Ipv4Addr),
    /// Anything else: an IPv6 router, or an encapsulation (MPLS, a tunnel).
    Other,
}

/// A next hop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hop {
    /// The router.
    pub gateway: Gateway,
    /// The number of the interface.
    pub interface: u32,
    /// Its share of the flows, relative to the route's other next hops; from 1.
    pub weight: u16,
}

/// The next hops of a route, in little memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    One(Hop),
    Many(Box<[Hop]>),
    /// The next-hop object with this number (`ip nexthop`), which may be a group.
    Object(u32),
}

/// One of the routes to a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub(crate) table: u32,
    pub(crate) metric: u32,
    pub(crate) kind: Kind,
    pub(crate) protocol: u8,
    pub(crate) via: Via,
}

impl Route {
    /// Whether both are the same route. Who has entered it does not matter.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.shares_place(other) && self.kind == other.kind && self.via == other.via
    }
    /// Whether the kernel tells both apart only by their order.
    pub(crate) fn shares_place(&self, other: &Self) -> bool {
        (self.table, self.metric) == (other.table, other.metric)
    }
}

/// A next-hop object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    Hop(Hop),
    Blackhole,
    /// Numbers of objects, with their weights.
    Group(Box<[(u32, u16)]>),
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its link address, in hexadecimal with colons; empty if it has none.
    pub address: String,
    /// Whether it is switched on (`ip link set up`).
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// The length of the longest packet, in bytes.
    pub mtu: u32,
}

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The number of the interface.
    pub interface: u32,
    /// The address.
    pub address: Ipv4Addr,
    /// The length of its network.
    pub length: u8,
}

/// What is known of a host on the network of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbor {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Whether it was entered by hand and stays.
    pub permanent: bool,
    /// Whether the kernel may send to it now without asking first.
    pub reachable: bool,
}

/// The route that the kernel would use for a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// What it does.
    pub kind: Kind,
    /// The number of its table.
    pub table: u32,
    /// Its metric; the least wins.
    pub metric: u32,
    /// Who has entered it (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// The next hops that can be used; those of a group one by one.
    pub hops: Vec<Hop>,
}
