//! By what a rewriter finds flows, and what it shows of them.

use super::headers::{ADDRESSES, FlowId, PING, TCP, UDP};
use super::mappinglog::End;
use std::fmt::Write as _;
use tables::flows::{Found, Key, Tuple};
use wire::protocol;

/// By what the classes find flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finds {
    /// Addresses and ports of TCP and of UDP.
    Both,
    /// Those of TCP.
    Tcp,
    /// Those of both protocols, alike.
    Udp,
    /// Addresses and the identifier of pings.
    Ping,
    /// The source address; of replies the destination address.
    Address,
    /// Both addresses.
    Pair,
}

/// The key of packets from an address, and of replies to an address.
pub(crate) fn from_address(tuple: &Tuple) -> Key {
    Key { tuple: Tuple { src: tuple.src, ..Tuple::default() }, kind: ADDRESSES }
}
pub(crate) fn to_address(tuple: &Tuple) -> Key {
    Key { tuple: Tuple { dst: tuple.dst, ..Tuple::default() }, kind: ADDRESSES }
}

impl Finds {
    /// By what the flow of packets of a protocol with these addresses and ports is found, and by what else.
    /// The identifier of a ping is the destination port of a reply.
    pub(crate) fn keys(self, number: u8, tuple: Tuple) -> [Option<Key>; 2] {
        let key = |kind| [Some(Key { tuple, kind }), None];
        match (self, number) {
            (Self::Both | Self::Tcp, protocol::TCP) => key(TCP),
            (Self::Both | Self::Udp, protocol::UDP) | (Self::Udp, protocol::TCP) => key(UDP),
            (Self::Ping, protocol::ICMP) => key(PING),
            (Self::Address, _) => [Some(from_address(&tuple)), Some(to_address(&tuple))],
            (Self::Pair, _) => [Some(Key { tuple: Tuple { ports: 0, ..tuple }, kind: ADDRESSES }), None],
            _ => [None, None],
        }
    }

    /// What packets with these addresses and ports get by an entry, in all parts.
    pub(crate) fn complete(self, found: &Found, tuple: Tuple) -> Tuple {
        match self {
            Self::Address if found.is_reply() => Tuple { dst: found.to.dst, ..tuple },
            Self::Address => Tuple { src: found.to.src, ..tuple },
            Self::Pair => Tuple { ports: tuple.ports, ..found.to },
            _ => found.to,
        }
    }

    /// What a pattern gives for a key, less what packets have no place for; `None` if it changes what this
    /// class does not.
    pub(crate) fn fitting(self, key: &Key, to: Tuple) -> Option<Tuple> {
        match self {
            // One identifier.
            Self::Ping => {
                let [a, b, ..] = to.ports.to_ne_bytes();
                Some(Tuple { ports: u32::from_ne_bytes([a, b, 0, 0]), ..to })
            }
            Self::Address => (to.ports == 0 && to.dst == key.tuple.dst).then_some(to),
            Self::Pair => (to.ports == 0).then_some(to),
            Self::Both | Self::Tcp | Self::Udp => Some(to),
        }
    }

    /// The protocol of a flow, as the log of mappings has it.
    pub(crate) fn protocol(self, kind: u8) -> &'static str {
        match self {
            Self::Both | Self::Tcp if kind == TCP => "TCP",
            Self::Both | Self::Tcp => "UDP",
            Self::Udp => "TCP/UDP",
            Self::Ping => "ICMP",
            Self::Address | Self::Pair => "IP",
        }
    }

    /// Where packets of a flow come from and go to, as far as it is found by that.
    pub(crate) fn ends(self, tuple: Tuple) -> (End, Option<End>) {
        let FlowId { src, sport, dst, dport } = FlowId::of(tuple);
        let (src, dst) = (src.into(), dst.into());
        match self {
            Self::Both | Self::Tcp | Self::Udp => ((src, Some(sport)), Some((dst, Some(dport)))),
            Self::Ping => ((src, Some(sport)), Some((dst, None))),
            Self::Address => ((src, None), None),
            Self::Pair => ((src, None), Some((dst, None))),
        }
    }

    /// One entry of the table, as the handlers show it.
    pub(crate) fn show(self, key: &Key, found: &Found, text: &mut String) {
        let (from, to) = (FlowId::of(key.tuple), FlowId::of(found.to));
        let _ = match self {
            Self::Both | Self::Tcp | Self::Udp => write!(text, "{from} => {to}"),
            Self::Address => write!(text, "{} => {}", from.src, to.src),
            Self::Pair => write!(text, "({}, {}) => ({}, {})", from.src, from.dst, to.src, to.dst),
            Self::Ping => {
                // Click has the identifier in both ports, one more in the second one, added in the order of
                // bytes of its own machine; it shows the first of a request and the second of a reply.
                let shown = |id: FlowId| match found.is_reply() {
                    false => id.sport,
                    true => id.dport.swap_bytes().wrapping_add(1).swap_bytes(),
                };
                let (id, new) = (shown(from), shown(to));
                write!(text, "({}, {}, {id}) => ({}, {}, {new})", from.src, from.dst, to.src, to.dst)
            }
        };
    }
}
