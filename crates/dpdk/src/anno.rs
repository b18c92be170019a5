//! Packet annotations: data about a packet beside its bytes.
//!
//! The first 48 bytes are Click's user annotations at Click's offsets, so `Paint(ANNO 20)` and every other
//! element that names an annotation by number means the same byte as in Click. Fields that overlap in Click
//! overlap here too.

/// The annotations of one packet: 64 bytes in the private area of its mbuf.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anno {
    /// Click's user annotation area, by Click's byte offsets ([`offset`]).
    pub user: [u8; Anno::USER_LEN],
    /// Nanoseconds since the epoch; 0 is none.
    pub timestamp_ns: u64,
    /// Offset of the link header from the start of the buffer; [`Anno::NO_HEADER`] is none.
    pub(crate) mac: u16,
    /// Offset of the network header from the start of the buffer.
    pub(crate) network: u16,
    /// Offset of the transport header from the start of the buffer.
    pub(crate) transport: u16,
    pub(crate) packet_type: u8,
    /// The port that received the packet, as the elements number it; 0 if it was not set.
    pub device: u8,
}

/// Byte offsets and sizes of Click's annotations within [`Anno::user`].
pub mod offset {
    /// Destination IPv4 address, 4 bytes in network order.
    pub const DST_IP: usize = 0;
    /// Destination IPv6 address, 16 bytes in network order.
    pub const DST_IP6: usize = 0;
    /// Paint, 1 byte.
    pub const PAINT: usize = 16;
    /// The pointer of an ICMP parameter problem, 1 byte.
    pub const ICMP_PARAM_PTR: usize = 17;
    /// Whether `FixIPSrc` must set the source address, 1 byte.
    pub const FIX_IP_SRC: usize = 19;
    /// VLAN tag control information, 2 bytes in network order.
    pub const VLAN_TCI: usize = 20;
    /// Aggregate number, 4 bytes in host order.
    pub const AGGREGATE: usize = 20;
    /// Forward rate, 4 bytes in host order.
    pub const FWD_RATE: usize = 20;
    /// Any IPv4 address, 4 bytes in network order.
    pub const MISC_IP: usize = 20;
    /// How many packets this one stands for beyond itself, 4 bytes in host order.
    pub const EXTRA_PACKETS: usize = 24;
    /// Reverse rate, 4 bytes in host order.
    pub const REV_RATE: usize = 24;
    /// `IPReassembler`'s own, 4 bytes.
    pub const IP_REASSEMBLER: usize = 28;
    /// Bytes that the packet had on the wire beyond those here, 4 bytes in host order.
    pub const EXTRA_LENGTH: usize = 28;
    /// When the first packet of the group was seen, 8 bytes: nanoseconds since the epoch in host order.
    pub const FIRST_TIMESTAMP: usize = 32;
    /// Packet number, 4 bytes in host order.
    pub const PACKET_NUMBER: usize = 32;
    /// IPsec security parameters index, 4 bytes.
    pub const IPSEC_SPI: usize = 32;
    /// Sequence number, 4 bytes in host order.
    pub const SEQUENCE_NUMBER: usize = 36;
    /// Performance counter, 8 bytes in host order.
    pub const PERFCTR: usize = 40;
}

/// The link-layer type of a packet's destination, numbered as in Click.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host = 0,
    /// Broadcast.
    Broadcast = 1,
    /// Multicast.
    Multicast = 2,
    /// To another host, seen because the port is promiscuous.
    OtherHost = 3,
    /// Sent by this host.
    Outgoing = 4,
    /// Sent by this host to itself.
    Loopback = 5,
    /// Handed over quickly within the kernel.
    FastRoute = 6,
}

impl PacketType {
    /// The type with this number; `Host` if there is none.
    #[inline]
    pub(crate) fn of(number: u8) -> PacketType {
        match number {
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            4 => PacketType::Outgoing,
            5 => PacketType::Loopback,
            6 => PacketType::FastRoute,
            _ => PacketType::Host,
        }
    }
}

impl Anno {
    /// Bytes in the user area.
    pub const USER_LEN: usize = 48;
    /// The value of a header offset that is not set.
    pub(crate) const NO_HEADER: u16 = u16::MAX;
    /// The annotations of a packet for which none have been set.
    pub const DEFAULT: Anno = Anno {
        user: [0; Anno::USER_LEN],
        timestamp_ns: 0,
        mac: Anno::NO_HEADER,
        network: Anno::NO_HEADER,
        transport: Anno::NO_HEADER,
        packet_type: 0,
        device: 0,
    };

    /// The byte at `at` in the user area; `None` beyond its end.
    #[inline]
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.user.get(at).copied()
    }

    /// Sets the byte at `at` in the user area; false beyond its end.
    #[inline]
    pub fn set_byte(&mut self, at: usize, value: u8) -> bool {
        self.store(at, [value])
    }

    /// The 16-bit value in host order at `at` in the user area, at any alignment; `None` beyond its end.
    #[inline]
    pub fn u16(&self, at: usize) -> Option<u16> {
        self.load(at).map(u16::from_ne_bytes)
    }

    /// Sets the 16-bit value in host order at `at` in the user area; false beyond its end.
    #[inline]
    pub fn set_u16(&mut self, at: usize, value: u16) -> bool {
        self.store(at, value.to_ne_bytes())
    }

    /// The 32-bit value in host order at `at` in the user area, at any alignment; `None` beyond its end.
    #[inline]
    pub fn u32(&self, at: usize) -> Option<u32> {
        self.load(at).map(u32::from_ne_bytes)
    }

    /// Sets the 32-bit value in host order at `at` in the user area; false beyond its end.
    #[inline]
    pub fn set_u32(&mut self, at: usize, value: u32) -> bool {
        self.store(at, value.to_ne_bytes())
    }

    /// The 64-bit value in host order at `at` in the user area, at any alignment; `None` beyond its end.
    #[inline]
    pub fn u64(&self, at: usize) -> Option<u64> {
        self.load(at).map(u64::from_ne_bytes)
    }

    /// `N` bytes from `at` in the user area; `None` unless they all lie within it.
    #[inline]
    pub fn load<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.user.get(at..)?.first_chunk().copied()
    }

    /// Writes `N` bytes at `at` in the user area; false, and nothing written, when they do not all lie within
    /// it.
    #[inline]
    pub fn store<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        let Some(slot) = self.user.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return false };
        *slot = bytes;
        true
    }

    /// The bytes at an offset that is known to lie within the user area.
    #[inline]
    fn field<const AT: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(AT + N <= Anno::USER_LEN) };
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.user[AT..AT + N]);
        bytes
    }

    #[inline]
    fn set_field<const AT: usize, const N: usize>(&mut self, bytes: [u8; N]) {
        const { assert!(AT + N <= Anno::USER_LEN) };
        self.user[AT..AT + N].copy_from_slice(&bytes);
    }

    /// Destination IPv4 address.
    #[inline]
    pub fn dst_ip(&self) -> [u8; 4] {
        self.field::<{ offset::DST_IP }, 4>()
    }

    /// Sets the destination IPv4 address.
    #[inline]
    pub fn set_dst_ip(&mut self, address: [u8; 4]) {
        self.set_field::<{ offset::DST_IP }, 4>(address);
    }

    /// Paint color.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.user[offset::PAINT]
    }

    /// Sets the paint color.
    #[inline]
    pub fn set_paint(&mut self, color: u8) {
        self.user[offset::PAINT] = color;
    }

    /// The byte of the IP header that an ICMP parameter problem points to.
    #[inline]
    pub fn icmp_param_ptr(&self) -> u8 {
        self.user[offset::ICMP_PARAM_PTR]
    }

    /// Sets the byte of the IP header that an ICMP parameter problem points to.
    #[inline]
    pub fn set_icmp_param_ptr(&mut self, pointer: u8) {
        self.user[offset::ICMP_PARAM_PTR] = pointer;
    }

    /// Whether `FixIPSrc` has to put its address in.
    #[inline]
    pub fn fix_ip_src(&self) -> bool {
        self.user[offset::FIX_IP_SRC] != 0
    }

    /// Says whether `FixIPSrc` has to put its address in.
    #[inline]
    pub fn set_fix_ip_src(&mut self, fix: bool) {
        self.user[offset::FIX_IP_SRC] = u8::from(fix);
    }

    /// VLAN tag control information in host order (Click keeps the bytes in network order; so do we).
    #[inline]
    pub fn vlan_tci(&self) -> u16 {
        u16::from_be_bytes(self.field::<{ offset::VLAN_TCI }, 2>())
    }

    /// Sets the VLAN tag control information, given in host order.
    #[inline]
    pub fn set_vlan_tci(&mut self, tci: u16) {
        self.set_field::<{ offset::VLAN_TCI }, 2>(tci.to_be_bytes());
    }

    /// Aggregate number.
    #[inline]
    pub fn aggregate(&self) -> u32 {
        u32::from_ne_bytes(self.field::<{ offset::AGGREGATE }, 4>())
    }

    /// Sets the aggregate number.
    #[inline]
    pub fn set_aggregate(&mut self, aggregate: u32) {
        self.set_field::<{ offset::AGGREGATE }, 4>(aggregate.to_ne_bytes());
    }

    /// How many packets this one stands for beyond itself.
    #[inline]
    pub fn extra_packets(&self) -> u32 {
        u32::from_ne_bytes(self.field::<{ offset::EXTRA_PACKETS }, 4>())
    }

    /// Sets how many packets this one stands for beyond itself.
    #[inline]
    pub fn set_extra_packets(&mut self, packets: u32) {
        self.set_field::<{ offset::EXTRA_PACKETS }, 4>(packets.to_ne_bytes());
    }

    /// Bytes that the packet had on the wire beyond those here.
    #[inline]
    pub fn extra_length(&self) -> u32 {
        u32::from_ne_bytes(self.field::<{ offset::EXTRA_LENGTH }, 4>())
    }

    /// Sets the bytes that the packet had on the wire beyond those here.
    #[inline]
    pub fn set_extra_length(&mut self, bytes: u32) {
        self.set_field::<{ offset::EXTRA_LENGTH }, 4>(bytes.to_ne_bytes());
    }

    /// When the first packet of the group was seen: nanoseconds since the epoch, 0 when unknown.
    #[inline]
    pub fn first_timestamp_ns(&self) -> u64 {
        u64::from_ne_bytes(self.field::<{ offset::FIRST_TIMESTAMP }, 8>())
    }

    /// Sets when the first packet of the group was seen, in nanoseconds since the epoch.
    #[inline]
    pub fn set_first_timestamp_ns(&mut self, timestamp_ns: u64) {
        self.set_field::<{ offset::FIRST_TIMESTAMP }, 8>(timestamp_ns.to_ne_bytes());
    }

    /// To whom the link layer says the packet was addressed.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        PacketType::of(self.packet_type)
    }

    /// Sets to whom the link layer says the packet was addressed.
    #[inline]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.packet_type = packet_type as u8;
    }

    /// Forgets the three header offsets.
    #[inline]
    pub fn clear_headers(&mut self) {
        (self.mac, self.network, self.transport) = (Anno::NO_HEADER, Anno::NO_HEADER, Anno::NO_HEADER);
    }
}

impl Default for Anno {
    fn default() -> Anno {
        Anno::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_one_cache_line_without_padding() {
        assert_eq!(size_of::<Anno>(), 64);
        assert_eq!(align_of::<Anno>(), 8);
    }

    #[test]
    fn named_fields_lie_at_clicks_offsets() {
        let mut anno = Anno::default();
        anno.set_dst_ip([10, 0, 0, 1]);
        anno.set_paint(3);
        anno.set_fix_ip_src(true);
        anno.set_vlan_tci(0x2005);
        anno.set_extra_packets(7);
        anno.set_first_timestamp_ns(u64::MAX - 1);
        assert_eq!(anno.load(0), Some([10, 0, 0, 1]));
        assert_eq!(anno.byte(16), Some(3));
        assert_eq!(anno.byte(19), Some(1));
        assert_eq!(anno.load(20), Some([0x20, 0x05]));
        assert_eq!(anno.u32(24), Some(7));
        assert_eq!(anno.u64(32), Some(u64::MAX - 1));
        assert_eq!(anno.first_timestamp_ns(), u64::MAX - 1);
    }

    #[test]
    fn access_by_offset_is_bounded() {
        let mut anno = Anno::default();
        assert!(anno.set_u32(44, 1));
        assert!(!anno.set_u32(45, 1));
        assert!(!anno.set_byte(48, 1));
        assert!(!anno.set_u16(usize::MAX, 1));
        assert_eq!(anno.u32(45), None);
        assert_eq!(anno.u16(usize::MAX), None);
        assert_eq!(anno.byte(47), Some(0));
    }

    #[test]
    fn packet_types_survive() {
        let mut anno = Anno::default();
        for kind in [PacketType::Host, PacketType::Broadcast, PacketType::OtherHost, PacketType::FastRoute] {
            anno.set_packet_type(kind);
            assert_eq!(anno.packet_type(), kind);
        }
    }
}
