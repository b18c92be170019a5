//! What rules can match on: the fields of a packet's headers, at fixed places in a few words.

/// So many words.
pub const WORDS: usize = 12;

/// The fields of a packet, or the values or the mask of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key(pub [u64; WORDS]);

/// A field: a place in a [`Key`]. Fields that no packet has together share a place; the bits of [`Layer`]s
/// tell which it is. Numbers are in the order of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The Ethernet header: destination and source (48 bits), type as it is there, which is a tag's if there
    /// is one.
    EthDst,
    /// See there.
    EthSrc,
    /// See there.
    EthType,
    /// The outer VLAN tag: priority, DEI and identifier, and the type after it.
    VlanTci,
    /// See there.
    VlanType,
    /// The inner VLAN tag.
    InnerVlanTci,
    /// See there.
    InnerVlanType,
    /// The first MPLS label stack entry: label (20 bits), traffic class (3), bottom of stack (1), TTL.
    MplsLabel,
    /// See there.
    MplsClass,
    /// See there.
    MplsBottom,
    /// See there.
    MplsTtl,
    /// The source address of IP: IPv4 in `SrcLow`; IPv6 has its first 64 bits in `SrcHigh`. ARP: the sender's
    /// protocol address.
    SrcHigh,
    /// See there.
    SrcLow,
    /// The destination address likewise. ARP: the target's protocol address.
    DstHigh,
    /// See there.
    DstLow,
    /// IPv4's type of service, IPv6's traffic class.
    Tos,
    /// IPv4's time to live, IPv6's hop limit.
    Ttl,
    /// IPv4's protocol; of IPv6, the next header after extension headers, or the number of the first
    /// extension header that could not be looked through.
    Proto,
    /// IPv4's fragment field: flags and offset. IPv6: that of its fragment header, in IPv4's form; 0 without.
    Fragment,
    /// IPv6's flow label (20 bits).
    FlowLabel,
    /// The ports of TCP, UDP and SCTP.
    SrcPort,
    /// See there.
    DstPort,
    /// TCP's flags.
    TcpFlags,
    /// Type and code of ICMP and ICMPv6; ARP's operation is in both: `IcmpType` its high byte.
    IcmpType,
    /// See there.
    IcmpCode,
    /// The session of PPPoE.
    PppoeSession,
    /// The number of a session or a tunnel (32 bits): the SPI of ESP and AH, the VNI of VXLAN and GENEVE, the
    /// TEID of GTP-U, the session of L2TPv3, the key of GRE.
    Session,
    /// GRE's protocol type.
    SessionType,
    /// What earlier rules have set: MARK, META and TAG 0.
    Mark,
    /// See there.
    Meta,
    /// See there.
    Tag,
    /// Which layers the packet has: a bit for each [`Layer`].
    Layers,
}

/// A header that a packet may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// A VLAN tag: `Vlan` the outer, `InnerVlan` the one after it.
    Vlan,
    /// See there.
    InnerVlan,
    /// PPPoE, a session (0x8864) or discovery (0x8863).
    Pppoe,
    /// MPLS.
    Mpls,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4 with a header that is whole.
    Ipv4,
    /// IPv6 with a header that is whole, whatever its extension headers are.
    Ipv6,
    /// TCP with at least 20 bytes, in a packet that is no later fragment.
    Tcp,
    /// UDP likewise, 8 bytes.
    Udp,
    /// SCTP likewise, 12 bytes.
    Sctp,
    /// ICMP over IPv4, 4 bytes.
    Icmp,
    /// ICMPv6 over IPv6, 4 bytes.
    Icmp6,
    /// ESP (RFC 4303), 8 bytes.
    Esp,
    /// The authentication header (RFC 4302), 12 bytes.
    Ah,
    /// GRE (RFC 2784, RFC 2890), 4 bytes.
    Gre,
    /// L2TPv3 over IP (RFC 3931), 4 bytes.
    L2tpv3,
    /// VXLAN: UDP to port 4789 (RFC 7348), 8 bytes.
    Vxlan,
    /// GENEVE: UDP to port 6081 (RFC 8926), 8 bytes.
    Geneve,
    /// GTP-U: UDP to port 2152, 8 bytes.
    Gtpu,
}

impl Layer {
    /// Its bit in [`Field::Layers`].
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

impl Field {
    /// Its word, the number of its lowest bit there, and how many bits it has.
    #[must_use]
    pub const fn place(self) -> (usize, u32, u32) {
        match self {
            Self::EthDst => (0, 0, 48),
            Self::EthType => (0, 48, 16),
            Self::EthSrc => (1, 0, 48),
            Self::VlanTci => (1, 48, 16),
            Self::VlanType => (2, 0, 16),
            Self::InnerVlanTci => (2, 16, 16),
            Self::InnerVlanType => (2, 32, 16),
            Self::SessionType => (2, 48, 16),
            Self::SrcLow => (3, 0, 64),
            Self::DstLow => (4, 0, 64),
            Self::SrcHigh => (5, 0, 64),
            Self::DstHigh => (6, 0, 64),
            Self::SrcPort => (7, 0, 16),
            Self::DstPort => (7, 16, 16),
            Self::Proto => (7, 32, 8),
            Self::Tos => (7, 40, 8),
            Self::Ttl => (7, 48, 8),
            Self::TcpFlags => (7, 56, 8),
            Self::Layers => (8, 0, 28),
            Self::FlowLabel => (8, 28, 20),
            Self::IcmpType => (8, 48, 8),
            Self::IcmpCode => (8, 56, 8),
            Self::MplsLabel => (9, 0, 20),
            Self::MplsClass => (9, 20, 3),
            Self::MplsBottom => (9, 23, 1),
            Self::MplsTtl => (9, 24, 8),
            Self::Session => (9, 32, 32),
            Self::Mark => (10, 0, 32),
            Self::Meta => (10, 32, 32),
            Self::Tag => (11, 0, 32),
            Self::Fragment => (11, 32, 16),
            Self::PppoeSession => (11, 48, 16),
        }
    }

    /// The largest value.
    #[must_use]
    pub const fn most(self) -> u64 {
        u64::MAX >> (64 - self.place().2)
    }
}

impl Key {
    /// The value of a field.
    #[must_use]
    pub const fn get(&self, field: Field) -> u64 {
        let (word, shift, _) = field.place();
        self.0[word] >> shift & field.most()
    }

    /// Sets a field; higher bits of the value are left out.
    pub const fn set(&mut self, field: Field, value: u64) {
        let (word, shift, _) = field.place();
        self.0[word] = self.0[word] & !(field.most() << shift) | (value & field.most()) << shift;
    }

    /// What of it is in a mask.
    #[must_use]
    pub fn masked(&self, mask: &Self) -> Self {
        let mut masked = *self;
        masked.0.iter_mut().zip(mask.0).for_each(|(word, mask)| *word &= mask);
        masked
    }
}

/// All fields but the layers.
pub(crate) const FIELDS: [Field; 31] = [
    Field::EthDst,
    Field::EthSrc,
    Field::EthType,
    Field::VlanTci,
    Field::VlanType,
    Field::InnerVlanTci,
    Field::InnerVlanType,
    Field::MplsLabel,
    Field::MplsClass,
    Field::MplsBottom,
    Field::MplsTtl,
    Field::SrcHigh,
    Field::SrcLow,
    Field::DstHigh,
    Field::DstLow,
    Field::Tos,
    Field::Ttl,
    Field::Proto,
    Field::Fragment,
    Field::FlowLabel,
    Field::SrcPort,
    Field::DstPort,
    Field::TcpFlags,
    Field::IcmpType,
    Field::IcmpCode,
    Field::PppoeSession,
    Field::Session,
    Field::SessionType,
    Field::Mark,
    Field::Meta,
    Field::Tag,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let mut key = Key::default();
        for field in FIELDS.into_iter().chain([Field::Layers]) {
            assert_eq!(key.get(field), 0, "{field:?}");
            key.set(field, u64::MAX);
            assert_eq!(key.get(field), field.most(), "{field:?}");
        }
        for field in FIELDS {
            key.set(field, 0);
            assert_eq!(key.get(field), 0);
        }
        assert_eq!(key.get(Field::Layers), Field::Layers.most(), "no other field has touched it");
        assert!(Layer::Gtpu.bit() <= Field::Layers.most());
    }
}
