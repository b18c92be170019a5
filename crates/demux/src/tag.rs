//! Tags, and claims to them.

use std::fmt;
use wire::EtherAddr;
use wire::vxlan::MAX_VNI;

/// The largest VLAN identifier that a frame can belong to; 4095 is reserved (IEEE 802.1Q, table 9-2).
const MAX_VLAN: u16 = 4094;
/// The largest MPLS label.
const MAX_LABEL: u32 = 0xf_ffff;
/// Labels below have a meaning of their own (RFC 3032, section 2.1).
const MIN_LABEL: u32 = 16;

/// What tells the frames of virtual interfaces on one port apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// Nothing: the frame is an ordinary one.
    None,
    /// An IEEE 802.1Q tag with this VLAN, 1 to 4094.
    Vlan(u16),
    /// An IEEE 802.1ad service tag with the first VLAN and within it an 802.1Q tag with the second.
    Qinq(u16, u16),
    /// An MPLS label, 16 to 1048575, the only one of the frame.
    Mpls(u32),
    /// The frame is in a VXLAN datagram of this network, 0 to 16777215.
    Vni(u32),
}

impl Tag {
    /// Whether there can be such a tag.
    pub fn check(self) -> Result<(), Error> {
        let vlan = |id: u16| (1..=MAX_VLAN).contains(&id);
        let good = match self {
            Tag::None => true,
            Tag::Vlan(id) => vlan(id),
            Tag::Qinq(outer, inner) => vlan(outer) && vlan(inner),
            Tag::Mpls(label) => (MIN_LABEL..=MAX_LABEL).contains(&label),
            Tag::Vni(vni) => vni <= MAX_VNI,
        };
        if good { Ok(()) } else { Err(Error::NoSuchTag(self)) }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::None => f.write_str("no tag"),
            Tag::Vlan(id) => write!(f, "VLAN {id}"),
            Tag::Qinq(outer, inner) => write!(f, "QinQ {outer}.{inner}"),
            Tag::Mpls(label) => write!(f, "MPLS label {label}"),
            Tag::Vni(vni) => write!(f, "VNI {vni}"),
        }
    }
}

/// What an owner wants of a port: the frames with a tag, and, should others want that tag too, those of them
/// that are for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The tag.
    pub tag: Tag,
    /// The destination address that tells this claim from others of the same tag.
    pub mac: Option<[u8; 6]>,
}

impl Claim {
    /// Whether tag and address are possible.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.tag.check()?;
        match self.mac.map(EtherAddr) {
            Some(mac) if mac.is_group() || mac == EtherAddr::ZERO => Err(Error::NoHostAddress(mac)),
            _ => Ok(()),
        }
    }
}

/// Why a table was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A VLAN, label or network number that cannot occur.
    #[error("{0}: out of range")]
    NoSuchTag(Tag),
    /// The address of a claim is a multicast address or all zero.
    #[error("{0:#} is not the address of one interface")]
    NoHostAddress(EtherAddr),
    /// Tag and address have an owner.
    #[error("{tag}: owner {owner} has it", tag = .claim.tag)]
    Taken {
        /// The claim.
        claim: Claim,
        /// Who has it.
        owner: u32,
    },
    /// Two owners claim a tag, and the claim of one has no address.
    #[error("{0}: interfaces that share it need an address each")]
    NeedsAddress(Tag),
    /// A tag needs a VXLAN tunnel, and none is given.
    #[error("{0}: no tunnel is given")]
    NoTunnel(Tag),
    /// More owners or shared tags than a table holds.
    #[error("more than {0} owners on a port")]
    TooMany(usize),
}
