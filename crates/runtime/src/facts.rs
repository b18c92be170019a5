//! The facts that a class declares beside its ports, for code that handles a configuration as a whole: the
//! receive side of a port, the command that makes the configuration of each node of a cluster, the manuals
//! and the tests.

use dpdk::{Anno, offset};
use std::fmt;
use std::ops::BitOr;

/// The parts of a packet that a class reads or writes: its bytes, and each of its annotations ([`Anno`]).
///
/// The annotations of Click's user area are counted by their bytes, so those that overlap in Click overlap
/// here.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields(u64);

impl Fields {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything. Also for an element that gives packets to code outside the graph, which may read all of
    /// it.
    pub const ALL: Self = Self(u64::MAX);
    /// The bytes of the packet, and where they begin and end. To read only the length needs no declaration.
    pub const DATA: Self = Self(1 << 63);
    /// When the packet arrived.
    pub const TIMESTAMP: Self = Self(1 << Anno::USER_LEN);
    /// Where the link header begins.
    pub const MAC_HEADER: Self = Self(1 << (Anno::USER_LEN + 1));
    /// Where the network header begins.
    pub const NETWORK_HEADER: Self = Self(1 << (Anno::USER_LEN + 2));
    /// Where the transport header begins.
    pub const TRANSPORT_HEADER: Self = Self(1 << (Anno::USER_LEN + 3));
    /// The packet type: host, broadcast, multicast or other host.
    pub const PACKET_TYPE: Self = Self(1 << (Anno::USER_LEN + 4));
    /// The port by which the packet was received.
    pub const DEVICE: Self = Self(1 << (Anno::USER_LEN + 5));
    /// Where the network and the transport header begin.
    pub const IP_HEADERS: Self = Self::NETWORK_HEADER.with(Self::TRANSPORT_HEADER);
    /// Where any header begins.
    pub const HEADERS: Self = Self::IP_HEADERS.with(Self::MAC_HEADER);
    /// Any byte of the user area: for an element whose arguments choose them.
    pub const USER: Self = Self::user(0, Anno::USER_LEN);
    /// All annotations.
    pub const ANNOTATIONS: Self =
        Self::USER.with(Self::TIMESTAMP).with(Self::HEADERS).with(Self::PACKET_TYPE).with(Self::DEVICE);
    /// Destination IPv4 address.
    pub const DST_IP: Self = Self::user(offset::DST_IP, 4);
    /// Destination IPv6 address, where the IPv4 address is and behind it.
    pub const DST_IP6: Self = Self::user(offset::DST_IP6, 16);
    /// Paint.
    pub const PAINT: Self = Self::user(offset::PAINT, 1);
    /// The pointer of an ICMP parameter problem.
    pub const ICMP_PARAM_PTR: Self = Self::user(offset::ICMP_PARAM_PTR, 1);
    /// Whether `FixIPSrc` must set the source address.
    pub const FIX_IP_SRC: Self = Self::user(offset::FIX_IP_SRC, 1);
    /// VLAN tag control information.
    pub const VLAN_TCI: Self = Self::user(offset::VLAN_TCI, 2);
    /// Aggregate number.
    pub const AGGREGATE: Self = Self::user(offset::AGGREGATE, 4);
    /// Forward rate.
    pub const FWD_RATE: Self = Self::user(offset::FWD_RATE, 4);
    /// How many more packets this one represents.
    pub const EXTRA_PACKETS: Self = Self::user(offset::EXTRA_PACKETS, 4);
    /// Bytes that the packet had on the wire beyond those here.
    pub const EXTRA_LENGTH: Self = Self::user(offset::EXTRA_LENGTH, 4);
    /// When the first packet of the group was seen.
    pub const FIRST_TIMESTAMP: Self = Self::user(offset::FIRST_TIMESTAMP, 8);

    /// Some bytes of the user area.
    #[must_use]
    pub const fn user(at: usize, len: usize) -> Self {
        assert!(len > 0 && at + len <= Anno::USER_LEN);
        Self(((1 << len) - 1) << at)
    }
    /// The union with others; like `|`, for constants.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// These but for others.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// What these and others have in common.
    #[must_use]
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// Whether the others are among these.
    #[must_use]
    pub const fn holds(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
    /// Whether they have anything in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// Whether there is nothing.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Fields {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// The annotations by their names. Those that overlap in Click have the name of the first one here.
const NAMES: [(&str, Fields); 17] = [
    ("user area", Fields::USER),
    ("destination IPv6 address", Fields::DST_IP6),
    ("destination IP address", Fields::DST_IP),
    ("paint", Fields::PAINT),
    ("ICMP parameter pointer", Fields::ICMP_PARAM_PTR),
    ("fix IP source", Fields::FIX_IP_SRC),
    ("aggregate", Fields::AGGREGATE),
    ("VLAN tag", Fields::VLAN_TCI),
    ("extra packets", Fields::EXTRA_PACKETS),
    ("extra length", Fields::EXTRA_LENGTH),
    ("first timestamp", Fields::FIRST_TIMESTAMP),
    ("timestamp", Fields::TIMESTAMP),
    ("MAC header", Fields::MAC_HEADER),
    ("network header", Fields::NETWORK_HEADER),
    ("transport header", Fields::TRANSPORT_HEADER),
    ("packet type", Fields::PACKET_TYPE),
    ("device", Fields::DEVICE),
];

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        if *self == Self::ANNOTATIONS || *self == Self::ALL {
            return f.write_str("all");
        }
        let (mut rest, mut words) = (*self, Vec::new());
        for (name, field) in NAMES {
            if rest.holds(field) {
                rest = rest.without(field);
                words.push(name.to_owned());
            }
        }
        let bytes = (0..Anno::USER_LEN).filter(|at| rest.meets(Self::user(*at, 1)));
        words.extend(bytes.map(|at| format!("user byte {at}")));
        if rest.meets(Self::DATA) {
            words.push("data".to_owned());
        }
        f.write_str(&words.join(", "))
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fields({:#x})", self.0)
    }
}

/// The facts that a class declares beside its ports.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name in configurations.
    pub name: &'static str,
    /// See [`Element::READS`](crate::Element::READS).
    pub reads: Fields,
    /// See [`Element::WRITES`](crate::Element::WRITES).
    pub writes: Fields,
    /// See [`Element::SETS`](crate::Element::SETS).
    pub sets: Fields,
    /// See [`Element::DROPS`](crate::Element::DROPS).
    pub drops: &'static [DropCase],
    /// See [`Element::ROLE`](crate::Element::ROLE).
    pub role: Role,
    /// See [`Element::OPENS`](crate::Element::OPENS).
    pub opens: Option<Opens>,
}

/// What an element opens outside the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// A port.
    Port,
    /// A file that it reads.
    ReadFile,
    /// A file that it writes, which its argument `FILENAME`, or its first one, names.
    WrittenFile,
    /// Files, by instructions in its arguments.
    AnyFile,
    /// A socket at which it listens.
    Socket,
    /// A network interface of the kernel.
    Interface,
    /// A netlink socket.
    Netlink,
    /// A crypto device.
    Crypto,
}

impl fmt::Display for Opens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port => "a port",
            Self::ReadFile | Self::WrittenFile => "a file",
            Self::AnyFile => "files, by instructions",
            Self::Socket => "a socket",
            Self::Interface => "a network interface",
            Self::Netlink => "a netlink socket",
            Self::Crypto => "a crypto device",
        })
    }
}

/// The role of an element for code that changes a configuration as a whole, or receives packets for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// No special role.
    Ordinary,
    /// It has no input and receives from the device that its argument `DEVNAME`, or its first one, names.
    DeviceSource,
    /// It has one input, and sends to the device that its argument `DEVNAME`, or its first one, names.
    DeviceSink,
    /// IP packets come in by input 0, with the address of their next hop as an annotation, and leave by
    /// output 0 in frames to that neighbor.
    NextHopResolver,
    /// A table of routes `ADDR/MASK [GATEWAY] OUTPUT`, which its arguments begin with; a packet leaves by its
    /// route's output.
    RouteTable {
        /// The class that takes the same arguments and whose handlers add and remove routes, if this class
        /// has no such handlers.
        changeable: Option<&'static str>,
    },
    /// It stores packets first in, first out. Its only argument is the capacity.
    Queue,
    /// It passes packets on at a rate that its arguments give, and leaves the others where they are; while it
    /// does, it is full ([`crate::Cx::set_full`]).
    RateLimit,
    /// It keeps packets for a time that its arguments give, and leaves the others where they are.
    Delay,
    /// One end of a link between the nodes of a cluster. Frames from the link come in by input 0.
    ClusterLink,
    /// It switches packets between the nodes of a cluster. This node's own packets enter at input 0, frames
    /// of other nodes at input 1; of these only the bytes are read, here and in all elements behind it.
    ClusterSwitch,
}

/// A drop reason of a class, and when packets are dropped for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropCase {
    /// The reason.
    pub reason: DropReason,
    /// When it occurs, as the manual says it after the reason.
    pub when: &'static str,
}

/// Why an element drops packets: a short text in lower case. The reasons of a class are in
/// [`crate::Element::DROPS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropReason(&'static str);

impl DropReason {
    /// A reason with this text.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self(text)
    }
    /// The text, as handlers show it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.0
    }
    /// The reason as a class declares it: with the condition in which it occurs there, in a few words without
    /// a full stop. "It" means the thing that the reason names, or the packet.
    #[must_use]
    pub const fn when(self, when: &'static str) -> DropCase {
        DropCase { reason: self, when }
    }

    /// It was emitted by an output that is not there.
    pub const NOT_CONNECTED: Self = Self("output not connected");
    /// It was pushed to an element that only pulls.
    pub const NO_PUSH_PATH: Self = Self("no push path");
    /// It was pushed to an element that accepts no packets.
    pub const NO_PACKET_PATH: Self = Self("no packet path");
    /// The ring to the one worker that has the element was full.
    pub const HANDOFF_FULL: Self = Self("handoff ring full");
    /// It was in a loop of elements.
    pub const LOOP: Self = Self("forwarding loop");

    /// The reasons that the runtime counts for any element.
    pub const GENERAL: [Self; 5] =
        [Self::NOT_CONNECTED, Self::NO_PUSH_PATH, Self::NO_PACKET_PATH, Self::HANDOFF_FULL, Self::LOOP];
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Fields;

    #[test]
    fn what_overlaps_in_click_meets() {
        assert!(Fields::VLAN_TCI.meets(Fields::AGGREGATE));
        assert!(!Fields::AGGREGATE.meets(Fields::EXTRA_PACKETS));
        assert!(Fields::user(17, 2).meets(Fields::ICMP_PARAM_PTR));
        assert!(!Fields::USER.meets(Fields::TIMESTAMP) && !Fields::ANNOTATIONS.meets(Fields::DATA));
    }

    #[test]
    fn annotations_have_names() {
        let text = |fields: Fields| fields.to_string();
        assert_eq!(
            text(Fields::DST_IP | Fields::PAINT | Fields::MAC_HEADER),
            "destination IP address, paint, MAC header"
        );
        assert_eq!(text(Fields::VLAN_TCI), "VLAN tag");
        assert_eq!(text(Fields::AGGREGATE | Fields::user(47, 1)), "aggregate, user byte 47");
        assert_eq!(text(Fields::USER | Fields::DEVICE), "user area, device");
        assert_eq!((text(Fields::NONE), text(Fields::ANNOTATIONS)), ("nothing".to_owned(), "all".to_owned()));
        assert_eq!(text(Fields::DATA | Fields::TIMESTAMP), "timestamp, data");
    }

    #[test]
    fn what_is_taken_away_is_gone() {
        let fields = Fields::HEADERS.without(Fields::MAC_HEADER);
        assert_eq!(fields, Fields::IP_HEADERS);
        assert!(
            Fields::HEADERS.holds(fields) && !fields.holds(Fields::HEADERS) && fields.holds(Fields::NONE)
        );
        assert_eq!(Fields::ALL.only(Fields::PAINT), Fields::PAINT);
    }

    #[test]
    fn everything_is_more_than_what_is_named() {
        assert!(Fields::ALL.meets(Fields::DATA) && Fields::ALL.meets(Fields::DEVICE));
        assert_eq!(Fields::ANNOTATIONS | Fields::DATA | Fields::ALL, Fields::ALL);
        assert!(Fields::NONE.is_empty() && !Fields::NONE.meets(Fields::ALL));
    }
}
