//! The annotations that nearly every packet gets, in the first cache line of its mbuf.
//!
//! To route a packet, elements need the places of its headers, its destination, its paint and its packet
//! type. Beside the other annotations these would cost every packet one more cache line and the
//! initialization of that line. The first line of an mbuf, which drivers write and read anyway, has 12 bytes
//! that are free between receiving and sending: packet type, VLAN tags, and the upper half of the hash. A
//! driver that sends reads these only if a flag in `ol_flags` requests an offload, and none is ever set.
//!
//! While [`FIRST_LINE`] is set in `ol_flags`, these fields count, and those of [`Anno`] do not. Whoever needs
//! an [`Anno`] ([`Packet::anno`]) first has them moved there. The invariants are those of the module above.

use super::Packet;
use crate::anno::{Anno, PacketType};
use crate::buffer::{ANNO_VALID, FIRST_LINE, TRACED};

/// The annotations of the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) mac: u16,
    pub(super) network: u16,
    pub(super) transport: u16,
    pub(super) paint: u8,
    pub(super) packet_type: u8,
    pub(super) dst_ip: [u8; 4],
}

/// The same, each to be changed in its place.
pub(super) struct CommonMut<'a> {
    pub(super) mac: &'a mut u16,
    pub(super) network: &'a mut u16,
    pub(super) transport: &'a mut u16,
    pub(super) paint: &'a mut u8,
    pub(super) packet_type: &'a mut u8,
    pub(super) dst_ip: &'a mut [u8; 4],
}

impl Common {
    /// Those of a packet for which none have been set.
    const DEFAULT: Common = Common::of(&Anno::DEFAULT);

    const fn of(anno: &Anno) -> Common {
        let [a, b, c, d, ..] = anno.user;
        Common {
            mac: anno.mac,
            network: anno.network,
            transport: anno.transport,
            paint: anno.user[crate::anno::offset::PAINT],
            packet_type: anno.packet_type,
            dst_ip: [a, b, c, d],
        }
    }

    fn write_to(self, anno: &mut Anno) {
        (anno.mac, anno.network, anno.transport) = (self.mac, self.network, self.transport);
        anno.packet_type = self.packet_type;
        anno.set_paint(self.paint);
        anno.set_dst_ip(self.dst_ip);
    }
}

/// User annotations that are in the first line.
enum CommonBytes {
    /// The destination address, and nothing else.
    DstIp,
    /// The whole of an IPv6 destination address, which begins with them.
    DstIp6,
    /// The paint, and nothing else.
    Paint,
    /// Some of their bytes.
    Some,
}

/// Which of them `len` bytes of the user annotations from `at` on are; `None`: they are others.
#[inline(always)]
fn common_bytes(at: usize, len: usize) -> Option<CommonBytes> {
    use crate::anno::offset::{DST_IP, DST_IP6, PAINT};
    match (at, len) {
        (DST_IP, 4) => Some(CommonBytes::DstIp),
        (DST_IP6, 16) => Some(CommonBytes::DstIp6),
        (PAINT, 1) => Some(CommonBytes::Paint),
        _ if at < DST_IP + 4 || (at <= PAINT && at.saturating_add(len) > PAINT) => Some(CommonBytes::Some),
        _ => None,
    }
}

impl Packet {
    #[inline]
    pub(super) fn flags(&self) -> u64 {
        // SAFETY: invariant 1; a plain load.
        unsafe { (*self.mbuf.as_ptr()).ol_flags }
    }

    /// # Safety
    /// What the flags say to be valid is.
    #[inline]
    unsafe fn set_flags(&self, flags: u64) {
        // SAFETY: invariant 1; a plain store, of a packet that one thread has (it is not `Sync`).
        unsafe { (*self.mbuf.as_ptr()).ol_flags = flags };
    }

    /// What the first line holds; it counts only while [`FIRST_LINE`] is set.
    #[inline(always)]
    pub(super) fn load_common(&self) -> Common {
        // SAFETY: invariant 1; plain loads of initialized integers.
        unsafe {
            let raw = self.mbuf.as_ptr();
            let [n0, n1, t0, t1] = (*raw).__bindgen_anon_1.packet_type.to_ne_bytes();
            let [paint, packet_type] = (*raw).vlan_tci_outer.to_ne_bytes();
            Common {
                mac: (*raw).vlan_tci,
                network: u16::from_ne_bytes([n0, n1]),
                transport: u16::from_ne_bytes([t0, t1]),
                paint,
                packet_type,
                dst_ip: (*raw).__bindgen_anon_2.hash.fdir.hi.to_ne_bytes(),
            }
        }
    }

    /// Writes the first line's annotations and makes them count.
    #[inline(always)]
    pub(super) fn store_common(&mut self, common: Common) {
        let [n0, n1] = common.network.to_ne_bytes();
        let [t0, t1] = common.transport.to_ne_bytes();
        // SAFETY: invariant 1; plain stores, and the flag then tells the truth.
        unsafe {
            let raw = self.mbuf.as_ptr();
            (*raw).__bindgen_anon_1.packet_type = u32::from_ne_bytes([n0, n1, t0, t1]);
            (*raw).vlan_tci = common.mac;
            (*raw).vlan_tci_outer = u16::from_ne_bytes([common.paint, common.packet_type]);
            (*raw).__bindgen_anon_2.hash.fdir.hi = u32::from_ne_bytes(common.dst_ip);
            self.set_flags(self.flags() | FIRST_LINE);
        }
    }

    /// The annotations of the first line, wherever they are.
    #[inline(always)]
    pub(super) fn common(&self) -> Common {
        if self.flags() & FIRST_LINE != 0 { self.load_common() } else { self.common_elsewhere() }
    }

    #[cold]
    #[inline(never)]
    fn common_elsewhere(&self) -> Common {
        Common::of(self.anno())
    }

    /// The annotations of the first line, which count from here on, to be changed one by one.
    #[inline(always)]
    pub(super) fn common_mut(&mut self) -> CommonMut<'_> {
        let flags = self.flags();
        if flags & FIRST_LINE == 0 {
            if flags & ANNO_VALID == 0 {
                self.store_common(Common::DEFAULT);
            } else {
                self.move_common();
            }
        }
        let raw = self.mbuf.as_ptr();
        // SAFETY: invariant 1: the fields are ours, integers that were initialized above or before, and
        // `&mut self` is the only way to them; the four places do not overlap. Every bit pattern is an
        // integer, and the alignment of these is at most that of the fields.
        unsafe {
            let [network, transport] = &mut *(&raw mut (*raw).__bindgen_anon_1).cast::<[u16; 2]>();
            let [paint, packet_type] = &mut *(&raw mut (*raw).vlan_tci_outer).cast::<[u8; 2]>();
            CommonMut {
                mac: &mut (*raw).vlan_tci,
                network,
                transport,
                paint,
                packet_type,
                dst_ip: &mut *(&raw mut (*raw).__bindgen_anon_2.hash.fdir.hi).cast::<[u8; 4]>(),
            }
        }
    }

    /// Copies them from the other annotations.
    #[cold]
    #[inline(never)]
    fn move_common(&mut self) {
        let common = Common::of(self.anno());
        self.store_common(common);
    }

    /// Moves the annotations of the first line, if they are there, to the others.
    #[cold]
    #[inline(never)]
    pub(super) fn gather_anno(&self) {
        let flags = self.flags();
        if flags & FIRST_LINE == 0 {
            return;
        }
        // SAFETY: invariants 1 and 3: the area is ours, aligned and large enough. Nobody has a reference to
        // it: `anno` and `anno_mut` clear the flag before they give one, and only `&mut self` sets it again.
        // A packet is not `Sync`, so no other thread does this at the same time.
        unsafe {
            let anno = self.anno_ptr();
            if flags & ANNO_VALID == 0 {
                anno.write(Anno::DEFAULT);
            }
            self.load_common().write_to(&mut *anno);
            self.set_flags(flags & !FIRST_LINE | ANNO_VALID);
        }
    }

    /// Marks the packet as one whose way is recorded, until its buffer is used for another one.
    pub fn mark_traced(&mut self) {
        // SAFETY: nothing becomes valid by this flag.
        unsafe { self.set_flags(self.flags() | TRACED) };
    }
    /// Whether it is so marked.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.flags() & TRACED != 0
    }
    /// Identifies the packet among those that live at the same time.
    #[must_use]
    pub fn identity(&self) -> usize {
        self.mbuf.as_ptr() as usize
    }

    /// Gives a packet without annotations the same ones.
    pub(super) fn copy_annotations_to(&self, packet: &mut Packet) {
        let flags = self.flags();
        if flags & ANNO_VALID != 0 {
            // SAFETY: both areas are valid memory of one packet each, of different ones; what is copied is
            // valid here, and so it is there.
            unsafe {
                packet.anno_ptr().write(*self.anno_ptr());
                packet.set_flags(packet.flags() | ANNO_VALID);
            }
        }
        if flags & FIRST_LINE != 0 {
            packet.store_common(self.load_common());
        }
    }

    /// Destination IPv4 address annotation.
    #[inline]
    pub fn dst_ip(&self) -> [u8; 4] {
        self.common().dst_ip
    }

    /// Sets the destination IPv4 address annotation.
    #[inline]
    pub fn set_dst_ip(&mut self, address: [u8; 4]) {
        *self.common_mut().dst_ip = address;
    }

    /// Paint color.
    #[inline]
    pub fn paint(&self) -> u8 {
        self.common().paint
    }

    /// Sets the paint color.
    #[inline]
    pub fn set_paint(&mut self, color: u8) {
        *self.common_mut().paint = color;
    }

    /// To whom the link layer says the packet was addressed.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        PacketType::of(self.common().packet_type)
    }

    /// Sets to whom the link layer says the packet was addressed.
    #[inline]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        *self.common_mut().packet_type = packet_type as u8;
    }

    /// The annotations that are not in the first line: the others are not to be read from it.
    #[inline]
    fn others(&self) -> &Anno {
        if self.flags() & ANNO_VALID == 0 {
            return &Anno::DEFAULT;
        }
        // SAFETY: invariant 3; `&self` keeps writers away but for `gather_anno`, of which no caller is here:
        // the reference does not leave this module.
        unsafe { &*self.anno_ptr() }
    }

    /// The same, mutable.
    #[inline]
    fn others_mut(&mut self) -> &mut Anno {
        // SAFETY: invariants 1 and 3: the area is ours, aligned, large enough, and valid when it is returned.
        unsafe {
            let flags = self.flags();
            if flags & ANNO_VALID == 0 {
                self.anno_ptr().write(Anno::DEFAULT);
                self.set_flags(flags | ANNO_VALID);
            }
            &mut *self.anno_ptr()
        }
    }

    /// `N` bytes from `at` in the user annotations; `None` unless they all lie within these.
    #[inline]
    pub fn load_user<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        match common_bytes(at, N) {
            Some(CommonBytes::DstIp) => self.dst_ip().first_chunk().copied(),
            Some(CommonBytes::DstIp6) => {
                let mut address = self.others().load::<N>(at)?;
                *address.first_chunk_mut()? = self.dst_ip();
                Some(address)
            }
            Some(CommonBytes::Paint) => [self.paint()].first_chunk().copied(),
            Some(CommonBytes::Some) => self.load_mixed(at),
            None => self.others().load(at),
        }
    }

    #[cold]
    #[inline(never)]
    fn load_mixed<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.anno().load(at)
    }

    /// Writes `N` bytes at `at` in the user annotations; false, and nothing written, when they do not all lie
    /// within these.
    #[inline]
    pub fn store_user<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        match (common_bytes(at, N), bytes.first_chunk::<4>(), bytes.first()) {
            (Some(CommonBytes::DstIp), Some(address), _) => self.set_dst_ip(*address),
            (Some(CommonBytes::DstIp6), Some(beginning), _) => {
                self.set_dst_ip(*beginning);
                return self.others_mut().store(at, bytes);
            }
            (Some(CommonBytes::Paint), _, Some(color)) => self.set_paint(*color),
            _ => return self.store_mixed(at, bytes),
        }
        true
    }

    /// The same for bytes that are not exactly one annotation of the first line.
    #[inline(never)]
    fn store_mixed<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        match common_bytes(at, N) {
            None if at <= Anno::USER_LEN => self.others_mut().store(at, bytes),
            _ => self.anno_mut().store(at, bytes),
        }
    }

    /// Annotates a packet that a device has received: its link header begins where its data does.
    #[inline]
    pub fn mark_received(&mut self, packet_type: PacketType) {
        // No byte of a buffer is behind the 65,535th (invariant 2).
        let mac = self.headroom() as u16;
        if self.flags() & (FIRST_LINE | ANNO_VALID) == 0 {
            return self.store_common(Common { mac, packet_type: packet_type as u8, ..Common::DEFAULT });
        }
        let common = self.common_mut();
        (*common.mac, *common.packet_type) = (mac, packet_type as u8);
    }

    /// Bytes that the packet had on the wire beyond those here.
    #[inline]
    pub fn extra_length(&self) -> u32 {
        self.others().extra_length()
    }

    /// Sets the bytes that the packet had on the wire beyond those here.
    #[inline]
    pub fn set_extra_length(&mut self, bytes: u32) {
        self.others_mut().set_extra_length(bytes);
    }

    /// Aggregate number.
    #[inline]
    pub fn aggregate(&self) -> u32 {
        self.others().aggregate()
    }

    /// Sets the aggregate number.
    #[inline]
    pub fn set_aggregate(&mut self, aggregate: u32) {
        self.others_mut().set_aggregate(aggregate);
    }

    /// Whether `FixIPSrc` has to set the source address.
    #[inline]
    pub fn fix_ip_src(&self) -> bool {
        self.others().fix_ip_src()
    }

    /// Says whether `FixIPSrc` has to set the source address.
    #[inline]
    pub fn set_fix_ip_src(&mut self, fix: bool) {
        self.others_mut().set_fix_ip_src(fix);
    }

    /// Timestamp annotation: nanoseconds since the epoch; 0 is none.
    #[inline]
    pub fn timestamp_ns(&self) -> u64 {
        self.others().timestamp_ns
    }

    /// Sets the timestamp annotation.
    #[inline]
    pub fn set_timestamp_ns(&mut self, ns: u64) {
        self.others_mut().timestamp_ns = ns;
    }

    /// VLAN tag control information, in host order.
    #[inline]
    pub fn vlan_tci(&self) -> u16 {
        self.others().vlan_tci()
    }

    /// Sets the VLAN tag control information, given in host order.
    #[inline]
    pub fn set_vlan_tci(&mut self, tci: u16) {
        self.others_mut().set_vlan_tci(tci);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What can be read of a packet's annotations in either place.
    fn all(packet: &Packet) -> (Anno, [Option<isize>; 3]) {
        let places =
            [packet.mac_header_offset(), packet.network_header_offset(), packet.transport_header_offset()];
        let named = (packet.dst_ip(), packet.paint(), packet.packet_type(), packet.fix_ip_src());
        let anno = *packet.anno();
        assert_eq!(named, (anno.dst_ip(), anno.paint(), anno.packet_type(), anno.fix_ip_src()));
        (anno, places)
    }

    fn packet() -> Packet {
        Packet::from_bytes(&[7; 60]).unwrap()
    }

    fn set_common(packet: &mut Packet) {
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        packet.set_paint(9);
        packet.set_packet_type(PacketType::Multicast);
        packet.set_dst_ip([10, 1, 2, 3]);
    }

    #[test]
    fn the_common_annotations_do_not_touch_the_others() {
        let mut packet = packet();
        set_common(&mut packet);
        assert_eq!(packet.flags() & (FIRST_LINE | ANNO_VALID), FIRST_LINE);
        assert_eq!((packet.dst_ip(), packet.paint()), ([10, 1, 2, 3], 9));
        assert!(!packet.fix_ip_src());
        assert_eq!(packet.packet_type(), PacketType::Multicast);
        assert_eq!(packet.flags() & (FIRST_LINE | ANNO_VALID), FIRST_LINE);
        let (anno, places) = all(&packet);
        assert_eq!(places, [Some(0), Some(14), Some(34)]);
        assert_eq!((anno.byte(16), anno.load(0)), (Some(9), Some([10, 1, 2, 3])));
        assert_eq!(packet.flags() & (FIRST_LINE | ANNO_VALID), ANNO_VALID);
    }

    #[test]
    fn what_one_place_gets_the_other_reads() {
        let mut packet = packet();
        set_common(&mut packet);
        let anno = packet.anno_mut();
        anno.store(4, [1; 12]);
        anno.set_byte(16, 77);
        anno.timestamp_ns = 5;
        anno.set_fix_ip_src(true);
        assert_eq!((packet.paint(), packet.dst_ip()), (77, [10, 1, 2, 3]));
        packet.set_dst_ip([4, 3, 2, 1]);
        assert!(packet.fix_ip_src());
        packet.anno_mut().set_byte(3, 9);
        assert_eq!(packet.dst_ip(), [4, 3, 2, 9]);
        let (anno, _) = all(&packet);
        assert_eq!((anno.load(0), anno.load(4), anno.timestamp_ns), (Some([4, 3, 2, 9]), Some([1; 12]), 5));
    }

    #[test]
    fn the_others_are_set_beside_the_first_line() {
        let mut packet = packet();
        set_common(&mut packet);
        packet.set_timestamp_ns(8);
        packet.set_vlan_tci(0x123);
        assert_eq!(packet.flags() & (FIRST_LINE | ANNO_VALID), FIRST_LINE | ANNO_VALID);
        assert_eq!((packet.timestamp_ns(), packet.vlan_tci(), packet.paint()), (8, 0x123, 9));
        let (anno, places) = all(&packet);
        assert_eq!((anno.timestamp_ns, anno.vlan_tci(), anno.paint()), (8, 0x123, 9));
        assert_eq!((anno.dst_ip(), places), ([10, 1, 2, 3], [Some(0), Some(14), Some(34)]));
        packet.set_fix_ip_src(true);
        assert!(packet.anno().fix_ip_src());
    }

    #[test]
    fn user_annotations_are_the_same_by_any_method() {
        for both in [false, true] {
            for at in (0..Anno::USER_LEN + 2).chain([usize::MAX]) {
                let (mut by_user, mut by_anno) = (packet(), packet());
                for packet in [&mut by_user, &mut by_anno] {
                    set_common(packet);
                    if both {
                        packet.set_timestamp_ns(1);
                    }
                }
                assert_eq!(by_user.store_user(at, [5]), by_anno.anno_mut().store(at, [5]), "{at}");
                assert_eq!(by_user.load_user::<1>(at), by_anno.anno().load(at), "{at}");
                assert_eq!(by_user.store_user(at, [6; 4]), by_anno.anno_mut().store(at, [6; 4]), "{at}");
                set_common(&mut by_user);
                set_common(&mut by_anno);
                assert_eq!(by_user.store_user(at, [1; 14]), by_anno.anno_mut().store(at, [1; 14]), "{at}");
                assert_eq!(by_user.load_user::<4>(at), by_anno.anno().load(at), "{at}");
                assert_eq!(by_user.load_user::<14>(at), by_anno.anno().load(at), "{at}");
                set_common(&mut by_user);
                set_common(&mut by_anno);
                assert_eq!(by_user.store_user(at, [2; 16]), by_anno.anno_mut().store(at, [2; 16]), "{at}");
                assert_eq!(by_user.load_user::<16>(at), by_anno.anno().load(at), "{at}");
                assert_eq!(all(&by_user), all(&by_anno), "{at}");
            }
        }
    }

    #[test]
    fn an_ipv6_destination_leaves_the_rest_where_it_is() {
        let mut packet = packet();
        set_common(&mut packet);
        let address: [u8; 16] = std::array::from_fn(|n| n as u8 + 1);
        assert!(packet.store_user(crate::anno::offset::DST_IP6, address));
        assert_ne!(packet.flags() & FIRST_LINE, 0);
        assert_eq!(packet.load_user(crate::anno::offset::DST_IP6), Some(address));
        packet.set_dst_ip([9; 4]);
        let changed: [u8; 16] = std::array::from_fn(|n| if n < 4 { 9 } else { n as u8 + 1 });
        assert_eq!(packet.load_user(crate::anno::offset::DST_IP6), Some(changed));
        assert_ne!(packet.flags() & FIRST_LINE, 0);
        assert_eq!(packet.anno().load(crate::anno::offset::DST_IP6), Some(changed));
        assert_eq!(packet.load_user(crate::anno::offset::DST_IP6), Some(changed));
    }

    #[test]
    fn what_has_been_received_is_marked_whatever_it_had() {
        for annotated in [false, true] {
            let mut packet = packet();
            if annotated {
                packet.set_paint(4);
            }
            assert!(packet.strip(2));
            packet.mark_received(PacketType::OtherHost);
            assert_eq!((packet.mac_header_offset(), packet.packet_type()), (Some(0), PacketType::OtherHost));
            assert_eq!(
                (packet.paint(), packet.network_header_offset()),
                (if annotated { 4 } else { 0 }, None)
            );
        }
    }

    #[test]
    fn a_packet_without_annotations_has_the_defaults() {
        let mut packet = packet();
        assert_eq!(all(&packet), (Anno::DEFAULT, [None; 3]));
        assert_eq!(packet.flags() & (FIRST_LINE | ANNO_VALID), 0, "reading sets nothing");
        packet.set_paint(0);
        assert_eq!(all(&packet), (Anno::DEFAULT, [None; 3]));
        packet.clear_headers();
        assert_eq!(all(&packet), (Anno::DEFAULT, [None; 3]));
    }

    #[test]
    fn copies_and_moves_keep_both() {
        let changes: [fn(&mut Packet); 4] = [
            |_| {},
            set_common,
            |p| p.anno_mut().timestamp_ns = 3,
            |p| {
                p.anno_mut().timestamp_ns = 3;
                set_common(p);
            },
        ];
        for change in changes {
            let mut packet = packet();
            change(&mut packet);
            let copy = packet.duplicate().unwrap();
            assert_eq!(all(&copy), all(&packet));
            change(&mut packet);
            let before = all(&packet);
            change(&mut packet);
            // There is no room for so much: the packet moves to another buffer.
            let mut moved = packet.push(4000).unwrap();
            assert!(moved.strip(4000));
            let (anno, places) = all(&moved);
            assert_eq!(places, before.1);
            assert_eq!((anno.user, anno.timestamp_ns), (before.0.user, before.0.timestamp_ns));
        }
    }

    #[test]
    fn marks_beyond_sixteen_bits_are_none() {
        let mut packet = packet();
        packet.set_network_header(usize::MAX, 1);
        assert_eq!((packet.network_header_offset(), packet.transport_header_offset()), (None, None));
        packet.set_network_header(3, usize::MAX);
        assert_eq!((packet.network_header_offset(), packet.transport_header_offset()), (Some(3), None));
    }
}
