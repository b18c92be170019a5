//! Netlink messages: what the kernel says, as [`Event`]s; and the requests for everything that it has.
//!
//! Routes, addresses and neighbors are parsed by `netlink-packet-route`. Interfaces and next-hop objects are
//! parsed here, attribute by attribute: the library does not have the latter, and gives up an interface's
//! message if it does not know one of a hundred attributes, of which three are wanted.

use crate::model::{Address, Gateway, Hop, Kind, Link, Neighbor, Object, Route, Via};
use netlink_packet_core::{
    DecodeError, NLM_F_APPEND, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REPLACE, NLM_F_REQUEST, NLMSG_DONE,
    NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer, NlasIterator, Parseable, parse_u16, parse_u32,
};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use tables::Prefix;

/// Message types: linux/rtnetlink.h.
mod kind {
    pub(super) const NEW_LINK: u16 = 16;
    pub(super) const DEL_LINK: u16 = 17;
    pub(super) const GET_LINK: u16 = 18;
    pub(super) const NEW_ADDRESS: u16 = 20;
    pub(super) const DEL_ADDRESS: u16 = 21;
    pub(super) const GET_ADDRESS: u16 = 22;
    pub(super) const NEW_ROUTE: u16 = 24;
    pub(super) const DEL_ROUTE: u16 = 25;
    pub(super) const GET_ROUTE: u16 = 26;
    pub(super) const NEW_NEIGHBOR: u16 = 28;
    pub(super) const DEL_NEIGHBOR: u16 = 29;
    pub(super) const GET_NEIGHBOR: u16 = 30;
    pub(super) const NEW_OBJECT: u16 = 104;
    pub(super) const DEL_OBJECT: u16 = 105;
    pub(super) const GET_OBJECT: u16 = 106;
}

const AF_INET: u8 = 2;
const HEADER: usize = 16;

/// How a route joins those of the same network, table and metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Before them.
    First,
    /// Behind them; also in a list of all routes.
    Last,
    /// Instead of the first of them.
    Replace,
}

/// A change, or an item of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Route(Prefix, Place, Route),
    RouteGone(Prefix, Route),
    Link(u32, Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Neighbor(u32, Ipv4Addr, Neighbor),
    NeighborGone(u32, Ipv4Addr),
    Object(u32, Object),
    ObjectGone(u32),
}

/// A netlink message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    Event(Event),
    /// About something else, such as IPv6.
    Other,
    /// The end of a list.
    Done,
    /// The kernel refuses a request, with this error number.
    Refused(i32),
    /// It cannot be understood.
    Malformed,
}

/// A message, and what its header says of the list that it is in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    pub(crate) message: Message,
    /// The number of the request that it answers.
    pub(crate) sequence: u32,
    /// Whether the list changed while the kernel wrote it, and has to be read again.
    pub(crate) interrupted: bool,
}

/// The lists that the kernel has, in the order in which they are read: a route refers to the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    Links,
    Addresses,
    Objects,
    /// The routes of the table with this number.
    Routes(u32),
    Neighbors,
}

impl List {
    /// What it contains, for messages to the user.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Links => "interfaces",
            Self::Addresses => "addresses",
            Self::Objects => "next-hop objects",
            Self::Routes(_) => "routes",
            Self::Neighbors => "neighbors",
        }
    }

    /// The request for it.
    pub(crate) fn request(self, sequence: u32) -> Vec<u8> {
        // The bodies are ifinfomsg, ifaddrmsg, nhmsg, rtmsg and ndmsg of linux/rtnetlink.h and its neighbors.
        let (kind, mut body) = match self {
            Self::Links => (kind::GET_LINK, vec![0; 16]),
            Self::Addresses => (kind::GET_ADDRESS, vec![0; 8]),
            Self::Objects => (kind::GET_OBJECT, vec![0; 8]),
            Self::Routes(_) => (kind::GET_ROUTE, vec![0; 12]),
            Self::Neighbors => (kind::GET_NEIGHBOR, vec![0; 12]),
        };
        if let (Some(family), true) = (body.first_mut(), !matches!(self, Self::Links | Self::Objects)) {
            *family = AF_INET;
        }
        if let Self::Routes(table) = self {
            // RTA_TABLE: with strict checking the kernel lists this table only.
            body.extend(8u16.to_ne_bytes());
            body.extend(15u16.to_ne_bytes());
            body.extend(table.to_ne_bytes());
        }
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        message
    }
}

/// The messages of a datagram. A message that does not fit into it ends it, as malformed.
pub(crate) fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Received> + '_ {
    std::iter::from_fn(move || {
        if datagram.is_empty() {
            return None;
        }
        // The length in the header is checked to be at least the header's and at most the buffer's.
        let Ok(buffer) = NetlinkBuffer::new_checked(datagram) else {
            datagram = &[];
            return Some(Received { message: Message::Malformed, sequence: 0, interrupted: false });
        };
        let (whole, flags) = (buffer.length() as usize, buffer.flags());
        let body = datagram.get(HEADER..whole).unwrap_or_default();
        let received = Received {
            message: message(buffer.message_type(), flags, body),
            sequence: buffer.sequence_number(),
            interrupted: flags & NLM_F_DUMP_INTR != 0,
        };
        datagram = datagram.get(whole.next_multiple_of(4)..).unwrap_or_default();
        Some(received)
    })
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Message {
    let event = match kind {
        NLMSG_NOOP => return Message::Other,
        NLMSG_DONE => {
            // A list that fails in the middle ends with an error number.
            let code = body.first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
            return if code < 0 { Message::Refused(code.saturating_neg()) } else { Message::Done };
        }
        NLMSG_ERROR => {
            let code = body.first_chunk().map(|c| i32::from_ne_bytes(*c));
            return code.map_or(Message::Malformed, |c| Message::Refused(c.saturating_neg()));
        }
        NLMSG_OVERRUN => return Message::Malformed,
        kind::NEW_ROUTE => route(body).map(|r| {
            let place = match flags {
                f if f & NLM_F_REPLACE != 0 => Place::Replace,
                // A list's items have neither flag, and NLM_F_MULTIPART.
                f if f & NLM_F_APPEND != 0 || f & 2 != 0 => Place::Last,
                _ => Place::First,
            };
            r.map(|(prefix, route)| Event::Route(prefix, place, route))
        }),
        kind::DEL_ROUTE => route(body).map(|r| r.map(|(prefix, route)| Event::RouteGone(prefix, route))),
        kind::NEW_LINK => link(body).map(|(index, link)| Some(Event::Link(index, link))),
        kind::DEL_LINK => link(body).map(|(index, _)| Some(Event::LinkGone(index))),
        kind::NEW_ADDRESS => address(body).map(|a| a.map(Event::Address)),
        kind::DEL_ADDRESS => address(body).map(|a| a.map(Event::AddressGone)),
        kind::NEW_NEIGHBOR => neighbor(body).map(|n| {
            n.map(|(interface, ip, neighbor)| match neighbor {
                Some(neighbor) => Event::Neighbor(interface, ip, neighbor),
                None => Event::NeighborGone(interface, ip),
            })
        }),
        kind::DEL_NEIGHBOR => {
            neighbor(body).map(|n| n.map(|(interface, ip, _)| Event::NeighborGone(interface, ip)))
        }
        kind::NEW_OBJECT => object(body).map(|o| o.map(|(id, object)| Event::Object(id, object))),
        kind::DEL_OBJECT => object_number(body).map(|id| Some(Event::ObjectGone(id))),
        _ => return Message::Other,
    };
    match event {
        Ok(Some(event)) => Message::Event(event),
        Ok(None) => Message::Other,
        Err(_) => Message::Malformed,
    }
}

fn short(what: &str) -> DecodeError {
    format!("{what} is too short").into()
}

fn gateway(address: &RouteAddress) -> Gateway {
    match address {
        RouteAddress::Inet(a) if a.is_unspecified() => Gateway::None,
        RouteAddress::Inet(a) => Gateway::V4(*a),
        _ => Gateway::Other,
    }
}

/// A next hop from attributes of a route, or of one of its next hops.
fn hop(attributes: &[RouteAttribute], interface: u32, weight: u16) -> Hop {
    let mut hop = Hop { gateway: Gateway::None, interface, weight };
    for attribute in attributes {
        match attribute {
            RouteAttribute::Gateway(a) if hop.gateway == Gateway::None => hop.gateway = gateway(a),
            RouteAttribute::Oif(index) => hop.interface = *index,
            RouteAttribute::Via(_) | RouteAttribute::EncapType(_) | RouteAttribute::Encap(_) => {
                hop.gateway = Gateway::Other;
            }
            _ => {}
        }
    }
    hop
}

/// A route; `None` for one that is not followed: IPv6, for a type of service, from the kernel's cache.
fn route(body: &[u8]) -> Result<Option<(Prefix, Route)>, DecodeError> {
    // Most messages in a namespace with IPv6 would be parsed for nothing.
    if body.first() != Some(&AF_INET) {
        return if body.is_empty() { Err(short("a route")) } else { Ok(None) };
    }
    let message = RouteMessage::parse(body)?;
    let header = &message.header;
    if header.tos != 0 || header.source_prefix_length != 0 || header.flags.contains(RouteFlags::Cloned) {
        return Ok(None);
    }
    let (mut destination, mut table, mut metric) = (Ipv4Addr::UNSPECIFIED, u32::from(header.table), 0);
    let (mut object, mut many) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(a)) => destination = *a,
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(value) => metric = *value,
            RouteAttribute::NhId(id) => object = Some(*id).filter(|id| *id != 0),
            RouteAttribute::MultiPath(hops) => {
                // rtnh_hops is the weight less one.
                let hops = hops.iter().map(|h| hop(&h.attributes, h.interface_index, u16::from(h.hops) + 1));
                many = Some(hops.collect());
            }
            _ => {}
        }
    }
    let kind = match header.kind {
        RouteType::Unicast => Kind::Unicast,
        RouteType::Local | RouteType::Anycast => Kind::Local,
        RouteType::Broadcast => Kind::Broadcast,
        RouteType::BlackHole => Kind::Blackhole,
        RouteType::Unreachable => Kind::Unreachable,
        RouteType::Prohibit => Kind::Prohibit,
        RouteType::Multicast => return Ok(None),
        _ => Kind::Other,
    };
    let prefix = Prefix::new(destination.to_bits(), header.destination_prefix_length)
        .ok_or_else(|| DecodeError::from("a prefix length above 32"))?;
    let via = match (object, many) {
        (Some(id), _) => Via::Object(id),
        (None, Some(hops)) => Via::Many(hops),
        (None, None) => Via::One(hop(&message.attributes, 0, 1)),
    };
    Ok(Some((prefix, Route { table, metric, kind, protocol: header.protocol.into(), via })))
}

fn address(body: &[u8]) -> Result<Option<Address>, DecodeError> {
    if body.first() != Some(&AF_INET) {
        return if body.is_empty() { Err(short("an address")) } else { Ok(None) };
    }
    let message = AddressMessage::parse(body)?;
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(IpAddr::V4(a)) => local = Some(*a),
            AddressAttribute::Address(IpAddr::V4(a)) => other = Some(*a),
            _ => {}
        }
    }
    let (interface, length) = (message.header.index, message.header.prefix_len);
    // On a link with two ends, the second is the address of the other end.
    Ok(local.or(other).map(|address| Address { interface, address, length }))
}

type NeighborEntry = (u32, Ipv4Addr, Option<Neighbor>);

/// A neighbor; without [`Neighbor`] if its Ethernet address is not known.
fn neighbor(body: &[u8]) -> Result<Option<NeighborEntry>, DecodeError> {
    if body.first() != Some(&AF_INET) {
        return if body.is_empty() { Err(short("a neighbor")) } else { Ok(None) };
    }
    let message = NeighbourMessage::parse(body)?;
    if message.header.family != AddressFamily::Inet || message.header.flags.contains(NeighbourFlags::Proxy) {
        return Ok(None);
    }
    let (mut ip, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => ip = Some(*a),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = <[u8; 6]>::try_from(bytes.as_slice()).ok(),
            _ => {}
        }
    }
    let permanent = message.header.state == NeighbourState::Permanent;
    let reachable = match message.header.state {
        // An entry that is stale is used all the same, and asked for again.
        NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => {
            true
        }
        _ => permanent,
    };
    let neighbor = mac.filter(|_| reachable).map(|mac| Neighbor { mac, permanent, reachable });
    Ok(ip.map(|ip| (message.header.ifindex, ip, neighbor)))
}

/// The attributes behind a header of this length.
fn attributes(
    body: &[u8],
    header: usize,
) -> Result<impl Iterator<Item = Result<(u16, &[u8]), DecodeError>> + '_, DecodeError> {
    let all = body.get(header..).ok_or_else(|| short("a message"))?;
    Ok(NlasIterator::new(all).map(|attribute| {
        let attribute = attribute?;
        let kind = attribute.kind();
        let value = attribute.into_inner();
        // The iterator has checked the length against the buffer.
        let length = value.first_chunk().map_or(0, |l| usize::from(u16::from_ne_bytes(*l)));
        Ok((kind, value.get(4..length).unwrap_or_default()))
    }))
}

fn link(body: &[u8]) -> Result<(u32, Link), DecodeError> {
    const UP: u32 = 1;
    const LOWER_UP: u32 = 1 << 16;
    let field = |at: usize| body.get(at..at + 4).ok_or_else(|| short("an interface")).and_then(parse_u32);
    let (index, flags) = (field(4)?, field(8)?);
    let mut link = Link {
        name: String::new(),
        address: String::new(),
        up: flags & UP != 0,
        carrier: flags & LOWER_UP != 0,
        mtu: 0,
    };
    for attribute in attributes(body, 16)? {
        match attribute? {
            // IFLA_ADDRESS
            (1, bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    let _ = write!(link.address, "{}{byte:02x}", if i > 0 { ":" } else { "" });
                }
            }
            // IFLA_IFNAME, with a zero at its end
            (3, name) => {
                let name = name.split(|b| *b == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            // IFLA_MTU
            (4, value) => link.mtu = parse_u32(value)?,
            _ => {}
        }
    }
    Ok((index, link))
}

fn object_number(body: &[u8]) -> Result<u32, DecodeError> {
    for attribute in attributes(body, 8)? {
        // NHA_ID
        if let (1, value) = attribute? {
            return parse_u32(value);
        }
    }
    Err(short("a next-hop object"))
}

/// A next-hop object; `None` for one of a bridge's forwarding table.
fn object(body: &[u8]) -> Result<Option<(u32, Object)>, DecodeError> {
    let (mut id, mut object, mut forwarding) = (None, None, false);
    let mut hop = Hop { gateway: Gateway::None, interface: 0, weight: 1 };
    for attribute in attributes(body, 8)? {
        match attribute? {
            // NHA_ID
            (1, value) => id = Some(parse_u32(value)?),
            // NHA_GROUP: struct nexthop_grp, with the high byte of the weight where older kernels have a
            // reserved zero.
            (2, members) => {
                if members.len() % 8 != 0 {
                    return Err(short("a next-hop group"));
                }
                let member = |m: &[u8]| {
                    let id = parse_u32(m.get(..4).unwrap_or_default())?;
                    let (low, high) = (m.get(4).copied(), m.get(5).copied());
                    let weight = u16::from_ne_bytes([low.unwrap_or(0), high.unwrap_or(0)]);
                    Ok::<_, DecodeError>((id, weight.saturating_add(1)))
                };
                object = Some(Object::Group(members.chunks_exact(8).map(member).collect::<Result<_, _>>()?));
            }
            // NHA_BLACKHOLE
            (4, _) => object = Some(Object::Blackhole),
            // NHA_OIF
            (5, value) => hop.interface = parse_u32(value)?,
            // NHA_GATEWAY
            (6, value) if hop.gateway == Gateway::None => {
                hop.gateway = match <[u8; 4]>::try_from(value) {
                    Ok([0, 0, 0, 0]) => Gateway::None,
                    Ok(bytes) => Gateway::V4(bytes.into()),
                    Err(_) => Gateway::Other,
                };
            }
            // NHA_ENCAP_TYPE
            (7, value) if parse_u16(value)? != 0 => hop.gateway = Gateway::Other,
            // NHA_FDB
            (11, _) => forwarding = true,
            _ => {}
        }
    }
    let id = id.ok_or_else(|| short("a next-hop object"))?;
    Ok((!forwarding).then(|| (id, object.unwrap_or(Object::Hop(hop)))))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn frame(kind: u16, flags: u16, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(7u32.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    /// `rtmsg`: family, length of the destination, table, type.
    pub(crate) fn rtmsg(family: u8, length: u8, table: u8, kind: u8) -> [u8; 12] {
        [family, length, 0, 0, table, 186, 0, kind, 0, 0, 0, 0]
    }

    fn one(bytes: &[u8]) -> Message {
        let all: Vec<_> = messages(bytes).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].message.clone()
    }

    fn route_of(bytes: &[u8]) -> (Prefix, Place, Route) {
        match one(bytes) {
            Message::Event(Event::Route(prefix, place, route)) => (prefix, place, route),
            other => panic!("{other:?}"),
        }
    }

    fn simple_route() -> Vec<u8> {
        frame(
            kind::NEW_ROUTE,
            0x600,
            &[
                &rtmsg(AF_INET, 16, 254, 1),
                &attribute(15, &254u32.to_ne_bytes()),
                &attribute(1, &[10, 9, 0, 0]),
                &attribute(6, &20u32.to_ne_bytes()),
                &attribute(5, &[10, 0, 0, 2]),
                &attribute(4, &3u32.to_ne_bytes()),
            ],
        )
    }

    fn multipath_route() -> Vec<u8> {
        let hop = |interface: u32, weight: u8, gateway: [u8; 4]| {
            let attribute = attribute(5, &gateway);
            let mut bytes = ((8 + attribute.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend([0, weight - 1]);
            bytes.extend(interface.to_ne_bytes());
            bytes.extend(attribute);
            bytes
        };
        let hops = [hop(3, 1, [10, 0, 0, 2]), hop(4, 3, [10, 1, 0, 2])].concat();
        frame(
            kind::NEW_ROUTE,
            2,
            &[&rtmsg(AF_INET, 0, 0, 1), &attribute(15, &1000u32.to_ne_bytes()), &attribute(9, &hops)],
        )
    }

    fn a_group() -> Vec<u8> {
        let members = [[7, 0, 0, 0, 0, 0, 0, 0], [8, 0, 0, 0, 2, 1, 0, 0]].concat();
        frame(
            kind::NEW_OBJECT,
            0,
            &[&[0; 8], &attribute(1, &9u32.to_ne_bytes()), &attribute(2, &members), &attribute(3, &[0, 0])],
        )
    }

    fn a_link() -> Vec<u8> {
        let mut header = [0; 16];
        header[4] = 5;
        header[8] = 1;
        header[10] = 1;
        frame(
            kind::NEW_LINK,
            0,
            &[
                &header,
                &attribute(3, b"eth0\0"),
                &attribute(1, &[2, 0, 0, 0, 0, 1]),
                &attribute(4, &1500u32.to_ne_bytes()),
                &attribute(0x8000 | 999, &[1, 2, 3]),
            ],
        )
    }

    fn a_neighbor(state: u16, kind: u16) -> Vec<u8> {
        let mut header = [0; 12];
        header[0] = AF_INET;
        header[4] = 5;
        header[8..10].copy_from_slice(&state.to_ne_bytes());
        frame(kind, 0, &[&header, &attribute(1, &[10, 0, 0, 2]), &attribute(2, &[2, 0, 0, 0, 0, 9])])
    }

    fn an_address() -> Vec<u8> {
        let mut header = [AF_INET, 24, 0, 0, 0, 0, 0, 0];
        header[4] = 5;
        frame(kind::NEW_ADDRESS, 0, &[&header, &attribute(1, &[10, 0, 0, 1]), &attribute(2, &[10, 0, 0, 1])])
    }

    #[test]
    fn a_route_has_its_table_metric_and_next_hop() {
        let (prefix, place, route) = route_of(&simple_route());
        assert_eq!((prefix.to_string().as_str(), place), ("10.9.0.0/16", Place::First));
        let hop = Hop { gateway: Gateway::V4([10, 0, 0, 2].into()), interface: 3, weight: 1 };
        let want = Route { table: 254, metric: 20, kind: Kind::Unicast, protocol: 186, via: Via::One(hop) };
        assert_eq!(route, want);
    }

    #[test]
    fn a_route_with_several_next_hops_has_their_weights() {
        let (prefix, place, route) = route_of(&multipath_route());
        assert_eq!((prefix.to_string().as_str(), place, route.table), ("0.0.0.0/0", Place::Last, 1000));
        let hop =
            |interface, weight, b| Hop { gateway: Gateway::V4([10, b, 0, 2].into()), interface, weight };
        assert_eq!(route.via, Via::Many([hop(3, 1, 0), hop(4, 3, 1)].into()));
    }

    #[test]
    fn flags_tell_where_a_route_goes() {
        let mut bytes = simple_route();
        for (flags, place) in
            [(0x100u16, Place::Replace), (0xc00, Place::Last), (0x400, Place::First), (2, Place::Last)]
        {
            bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
            assert_eq!(route_of(&bytes).1, place);
        }
    }

    #[test]
    fn special_routes_and_objects() {
        for (number, want) in [
            (2, Kind::Local),
            (3, Kind::Broadcast),
            (6, Kind::Blackhole),
            (7, Kind::Unreachable),
            (8, Kind::Prohibit),
            (9, Kind::Other),
        ] {
            let (_, _, route) = route_of(&frame(kind::NEW_ROUTE, 0, &[&rtmsg(AF_INET, 8, 254, number)]));
            assert_eq!(route.kind, want);
        }
        let by_object = frame(
            kind::DEL_ROUTE,
            0,
            &[&rtmsg(AF_INET, 8, 254, 1), &attribute(30, &9u32.to_ne_bytes()), &attribute(5, &[10, 0, 0, 2])],
        );
        assert!(matches!(one(&by_object), Message::Event(Event::RouteGone(_, r)) if r.via == Via::Object(9)));
        assert_eq!(
            one(&a_group()),
            Message::Event(Event::Object(9, Object::Group([(7, 1), (8, 259)].into())))
        );
        let single = frame(
            kind::NEW_OBJECT,
            0,
            &[
                &[0; 8],
                &attribute(1, &7u32.to_ne_bytes()),
                &attribute(5, &3u32.to_ne_bytes()),
                &attribute(6, &[10, 0, 0, 2]),
            ],
        );
        let hop = Hop { gateway: Gateway::V4([10, 0, 0, 2].into()), interface: 3, weight: 1 };
        assert_eq!(one(&single), Message::Event(Event::Object(7, Object::Hop(hop))));
        let hole =
            frame(kind::NEW_OBJECT, 0, &[&[0; 8], &attribute(1, &7u32.to_ne_bytes()), &attribute(4, &[])]);
        assert_eq!(one(&hole), Message::Event(Event::Object(7, Object::Blackhole)));
        let gone = frame(kind::DEL_OBJECT, 0, &[&[0; 8], &attribute(1, &7u32.to_ne_bytes())]);
        assert_eq!(one(&gone), Message::Event(Event::ObjectGone(7)));
    }

    #[test]
    fn interfaces_addresses_and_neighbors() {
        let link = Link {
            name: "eth0".into(),
            address: "02:00:00:00:00:01".into(),
            up: true,
            carrier: true,
            mtu: 1500,
        };
        assert_eq!(one(&a_link()), Message::Event(Event::Link(5, link)));
        let address = Address { interface: 5, address: [10, 0, 0, 1].into(), length: 24 };
        assert_eq!(one(&an_address()), Message::Event(Event::Address(address)));
        let ip = Ipv4Addr::new(10, 0, 0, 2);
        for (state, permanent) in [(0x02, false), (0x04, false), (0x80, true)] {
            let neighbor = Neighbor { mac: [2, 0, 0, 0, 0, 9], permanent, reachable: true };
            let want = Message::Event(Event::Neighbor(5, ip, neighbor));
            assert_eq!(one(&a_neighbor(state, kind::NEW_NEIGHBOR)), want);
        }
        let gone = Message::Event(Event::NeighborGone(5, ip));
        assert_eq!(one(&a_neighbor(0x20, kind::NEW_NEIGHBOR)), gone);
        assert_eq!(one(&a_neighbor(0x80, kind::DEL_NEIGHBOR)), gone);
    }

    #[test]
    fn what_is_not_followed_is_left_out() {
        let v6 = frame(kind::NEW_ROUTE, 0, &[&rtmsg(10, 64, 254, 1), &attribute(1, &[0; 16])]);
        let mut tos = rtmsg(AF_INET, 8, 254, 1);
        tos[3] = 16;
        for bytes in [v6, frame(kind::NEW_ROUTE, 0, &[&tos]), frame(80, 0, &[&[1, 2, 3]])] {
            assert_eq!(one(&bytes), Message::Other);
        }
    }

    #[test]
    fn the_end_of_a_list_and_refusals() {
        assert_eq!(one(&frame(NLMSG_DONE, 2, &[&0i32.to_ne_bytes()])), Message::Done);
        assert_eq!(one(&frame(NLMSG_DONE, 2, &[])), Message::Done);
        assert_eq!(one(&frame(NLMSG_ERROR, 0, &[&(-95i32).to_ne_bytes(), &[0; 16]])), Message::Refused(95));
        let interrupted = frame(NLMSG_DONE, 2 | NLM_F_DUMP_INTR, &[]);
        assert!(messages(&interrupted).all(|m| m.interrupted && m.sequence == 7));
    }

    #[test]
    fn several_messages_in_a_datagram() {
        let mut all = [simple_route(), multipath_route(), a_group()].concat();
        assert_eq!(messages(&all).filter(|m| matches!(m.message, Message::Event(_))).count(), 3);
        // The last one is cut off.
        all.truncate(all.len() - 4);
        let kinds: Vec<bool> = messages(&all).map(|m| m.message == Message::Malformed).collect();
        assert_eq!(kinds, [false, false, true]);
    }

    #[test]
    fn malformed_messages_are_recognized() {
        let mut group = a_group();
        // A group whose length is no multiple of a member's.
        group[32..34].copy_from_slice(&16u16.to_ne_bytes());
        assert_eq!(one(&group), Message::Malformed);
        let long = frame(kind::NEW_ROUTE, 0, &[&rtmsg(AF_INET, 33, 254, 1)]);
        assert_eq!(one(&long), Message::Malformed);
        for kind in [16, 17, 20, 21, 24, 25, 28, 29, 104, 105] {
            assert_eq!(one(&frame(kind, 0, &[])), Message::Malformed, "{kind}");
            assert_eq!(one(&frame(kind, 0, &[&[AF_INET, 1]])), Message::Malformed, "{kind}");
        }
    }

    #[test]
    fn requests_have_the_lengths_that_strict_checking_wants() {
        let lengths = [
            (List::Links, 32),
            (List::Addresses, 24),
            (List::Objects, 24),
            (List::Routes(254), 36),
            (List::Neighbors, 28),
        ];
        for (list, length) in lengths {
            let request = list.request(3);
            assert_eq!(request.len(), length);
            assert_eq!(request[..4], (length as u32).to_ne_bytes());
        }
    }

    proptest! {
        /// Whatever bytes change or are missing, parsing ends, and without a panic.
        #[test]
        fn damaged_messages_do_no_harm(
            which in 0usize..6,
            flips in prop::collection::vec((0usize..200, any::<u8>()), 0..8),
            cut in 0usize..200,
        ) {
            let mut bytes = match which {
                0 => simple_route(),
                1 => multipath_route(),
                2 => a_group(),
                3 => a_link(),
                4 => a_neighbor(2, kind::NEW_NEIGHBOR),
                _ => an_address(),
            };
            let length = bytes.len();
            for (at, value) in flips {
                bytes[at % length] = value;
            }
            bytes.truncate(length.saturating_sub(cut).max(1));
            prop_assert!(messages(&bytes).count() <= length);
        }

        #[test]
        fn noise_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
        }
    }
}
