//! What is known about a packet beside its bytes: annotations, and where its headers begin. The invariants
//! are those of the module above.

use super::Packet;
use crate::anno::Anno;
use crate::buffer::{ANNO_VALID, FIRST_LINE};
use std::slice;

impl Packet {
    #[inline]
    pub(super) fn anno_ptr(&self) -> *mut Anno {
        // SAFETY: invariant 3: the private area follows the mbuf in the same object.
        unsafe { self.mbuf.as_ptr().add(1).cast() }
    }

    /// All annotations; [`Anno::DEFAULT`] if none have been set. Those that have a method of their own here
    /// are cheaper to read by that.
    #[inline]
    pub fn anno(&self) -> &Anno {
        if self.flags() & FIRST_LINE != 0 {
            self.gather_anno();
        }
        if self.flags() & ANNO_VALID != 0 {
            // SAFETY: invariant 3; `&self` keeps writers away.
            unsafe { &*self.anno_ptr() }
        } else {
            &Anno::DEFAULT
        }
    }

    /// All annotations, mutable. Those that have a method of their own here are cheaper to set by that.
    #[inline]
    pub fn anno_mut(&mut self) -> &mut Anno {
        if self.flags() & FIRST_LINE != 0 {
            self.gather_anno();
        }
        if self.flags() & ANNO_VALID == 0 {
            // SAFETY: invariants 1 and 3: the area is ours, aligned to 64 bytes, and large enough.
            unsafe {
                self.anno_ptr().write(Anno::DEFAULT);
                (*self.mbuf.as_ptr()).ol_flags |= ANNO_VALID;
            }
        }
        // SAFETY: valid now, and `&mut self` is the only way to it.
        unsafe { &mut *self.anno_ptr() }
    }

    /// The bytes from `at`, counted from the start of the buffer, to the end of the data; `None` without such
    /// a header.
    #[inline]
    fn header(&self, at: u16) -> Option<&[u8]> {
        let (at, end) = (usize::from(at), self.data_off() + self.len());
        if at == usize::from(Anno::NO_HEADER) || at > end {
            return None;
        }
        // SAFETY: `at <= end <= buf_len` (invariant 2), and all of the buffer is initialized.
        Some(unsafe { slice::from_raw_parts(self.buffer().add(at), end - at) })
    }

    #[inline]
    fn header_mut(&mut self, at: u16) -> Option<&mut [u8]> {
        let (at, end) = (usize::from(at), self.data_off() + self.len());
        if at == usize::from(Anno::NO_HEADER) || at > end {
            return None;
        }
        // SAFETY: as `header`, and `&mut self` is the only way to the buffer.
        Some(unsafe { slice::from_raw_parts_mut(self.buffer().add(at), end - at) })
    }

    #[inline]
    fn header_offset(&self, at: u16) -> Option<isize> {
        (at != Anno::NO_HEADER).then(|| at as isize - self.data_off() as isize)
    }

    /// `offset` bytes into the data, as an offset from the start of the buffer.
    #[inline]
    fn absolute(&self, offset: usize) -> u16 {
        let at = self.data_off().saturating_add(offset);
        u16::try_from(at).unwrap_or(Anno::NO_HEADER)
    }

    /// Prepends a link header and marks it; false, and nothing changed, without that headroom.
    #[inline]
    pub fn push_link_header<const N: usize>(&mut self, header: &[u8; N]) -> bool {
        let (offset, len) = (self.data_off(), self.len());
        let Some(front) = offset.checked_sub(N) else { return false };
        self.set_data(front, len + N);
        // SAFETY: the bytes before the data are in the buffer (invariant 2), and `&mut self` is the only way
        // to it.
        unsafe { self.buffer().add(front).cast::<[u8; N]>().write(*header) };
        *self.common_mut().mac = front as u16;
        true
    }

    /// From the link header to the end of the data; it may begin before [`Packet::data`].
    #[inline]
    pub fn mac_header(&self) -> Option<&[u8]> {
        self.header(self.common().mac)
    }

    /// As [`Packet::mac_header`], mutable.
    #[inline]
    pub fn mac_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.common().mac)
    }

    /// Where the link header begins, in bytes from the start of the data (negative: before it).
    #[inline]
    pub fn mac_header_offset(&self) -> Option<isize> {
        self.header_offset(self.common().mac)
    }

    /// Sets the start of the link header to `offset` bytes into the data.
    #[inline]
    pub fn set_mac_header(&mut self, offset: usize) {
        let at = self.absolute(offset);
        *self.common_mut().mac = at;
    }

    /// From the network header to the end of the data; it may begin before [`Packet::data`].
    #[inline]
    pub fn network_header(&self) -> Option<&[u8]> {
        self.header(self.common().network)
    }

    /// As [`Packet::network_header`], mutable.
    #[inline]
    pub fn network_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.common().network)
    }

    /// The first `N` bytes from the network header on; `None` without such a header, or if the data ends
    /// before.
    #[inline]
    pub fn network_header_chunk<const N: usize>(&self) -> Option<&[u8; N]> {
        let at = self.chunk_at::<N>(self.common().network)?;
        // SAFETY: these bytes are in the buffer before the end of the data (`chunk_at`, invariant 2), all of
        // which is initialized.
        Some(unsafe { &*self.buffer().add(at).cast() })
    }

    /// As [`Packet::network_header_chunk`], mutable.
    #[inline]
    pub fn network_header_chunk_mut<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        let at = self.chunk_at::<N>(self.common().network)?;
        // SAFETY: as above, and `&mut self` is the only way to the buffer.
        Some(unsafe { &mut *self.buffer().add(at).cast() })
    }

    /// `at`, if `N` bytes from there on lie before the end of the data.
    #[inline(always)]
    fn chunk_at<const N: usize>(&self, at: u16) -> Option<usize> {
        const { assert!(N > 0) };
        // No byte is behind the 65,535th (invariant 2), so this is one test for `NO_HEADER` too.
        let at = usize::from(at);
        (at + N <= self.data_off() + self.len()).then_some(at)
    }

    /// Where the network header begins, in bytes from the start of the data (negative: before it).
    #[inline]
    pub fn network_header_offset(&self) -> Option<isize> {
        self.header_offset(self.common().network)
    }

    /// Bytes from the network header to the transport header; `None` unless both are set.
    #[inline]
    pub fn network_header_len(&self) -> Option<usize> {
        let common = self.common();
        if common.network == Anno::NO_HEADER || common.transport == Anno::NO_HEADER {
            return None;
        }
        usize::from(common.transport).checked_sub(usize::from(common.network))
    }

    /// Sets the start of the network header to `offset` bytes into the data, and the transport header to
    /// `len` bytes later.
    #[inline]
    pub fn set_network_header(&mut self, offset: usize, len: usize) {
        let (network, transport) = (self.absolute(offset), self.absolute(offset.saturating_add(len)));
        let common = self.common_mut();
        (*common.network, *common.transport) = (network, transport);
    }

    /// Marks a link header of `len` bytes at the start of the data: [`Packet::set_mac_header`] and
    /// [`Packet::set_network_header`] in one.
    #[inline]
    pub fn mark_link_header(&mut self, len: usize) {
        let (mac, network) = (self.absolute(0), self.absolute(len));
        let common = self.common_mut();
        (*common.mac, *common.network, *common.transport) = (mac, network, network);
    }

    /// Marks an IP header of `len` bytes, `offset` bytes into the data, and sets the destination annotation:
    /// [`Packet::set_network_header`] and [`Packet::set_dst_ip`] in one, for a header that is known to lie
    /// within the data. Of one that does not, the mark is anywhere; reading it is safe all the same.
    #[inline]
    pub fn mark_ip_header(&mut self, offset: usize, len: usize, dst_ip: [u8; 4]) {
        debug_assert!(offset <= self.len() && len <= self.len() - offset);
        // No byte of a buffer is behind the 65,535th (invariant 2).
        let network = self.data_off().wrapping_add(offset) as u16;
        let common = self.common_mut();
        *common.network = network;
        *common.transport = network.wrapping_add(len as u16);
        *common.dst_ip = dst_ip;
    }

    /// From the transport header to the end of the data; it may begin before [`Packet::data`].
    #[inline]
    pub fn transport_header(&self) -> Option<&[u8]> {
        self.header(self.common().transport)
    }

    /// As [`Packet::transport_header`], mutable.
    #[inline]
    pub fn transport_header_mut(&mut self) -> Option<&mut [u8]> {
        self.header_mut(self.common().transport)
    }

    /// Where the transport header begins, in bytes from the start of the data (negative: before it).
    #[inline]
    pub fn transport_header_offset(&self) -> Option<isize> {
        self.header_offset(self.common().transport)
    }

    /// Sets the start of the transport header to `offset` bytes into the data.
    #[inline]
    pub fn set_transport_header(&mut self, offset: usize) {
        let at = self.absolute(offset);
        *self.common_mut().transport = at;
    }

    /// Has the packet be without annotations, as one that has just been received.
    #[inline]
    pub fn forget_annotations(&mut self) {
        // SAFETY: a live mbuf; without these flags nobody reads what they stand for.
        unsafe { (*self.mbuf.as_ptr()).ol_flags &= !(FIRST_LINE | ANNO_VALID) };
    }

    /// Moves the three headers with data that moved by `delta` bytes within its buffer; one that would leave
    /// it is lost.
    #[inline]
    pub(super) fn shift_headers(&mut self, delta: isize) {
        if self.flags() & (FIRST_LINE | ANNO_VALID) == 0 {
            return;
        }
        let common = self.common_mut();
        for header in [common.mac, common.network, common.transport] {
            if *header != Anno::NO_HEADER {
                let moved = usize::from(*header).checked_add_signed(delta);
                *header = moved.and_then(|at| u16::try_from(at).ok()).unwrap_or(Anno::NO_HEADER);
            }
        }
    }

    /// Clears the offsets of the three headers.
    #[inline]
    pub fn clear_headers(&mut self) {
        if self.flags() & (FIRST_LINE | ANNO_VALID) != 0 {
            let common = self.common_mut();
            (*common.mac, *common.network, *common.transport) =
                (Anno::NO_HEADER, Anno::NO_HEADER, Anno::NO_HEADER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::DEFAULT_HEADROOM;

    #[test]
    fn headers_shift_with_the_data() {
        for annotated in [false, true] {
            let mut packet = Packet::from_bytes(&(0..60).collect::<Vec<u8>>()).unwrap();
            if annotated {
                packet.anno_mut().timestamp_ns = 1;
            }
            packet.shift_headers(5);
            assert_eq!(packet.mac_header_offset(), None);
            assert!(packet.push_in_place(DEFAULT_HEADROOM));
            packet.set_mac_header(10);
            packet.set_network_header(24, usize::MAX);
            packet.shift_headers(-20);
            assert_eq!((packet.mac_header_offset(), packet.network_header_offset()), (None, Some(4)));
            assert_eq!(packet.transport_header_offset(), None);
            assert!(packet.strip(DEFAULT_HEADROOM) && packet.shift_in_place(-2));
            assert_eq!((packet.network_header_offset(), packet.data()[59]), (Some(4 - 128), 59));
            assert!(!packet.shift_in_place(1 - DEFAULT_HEADROOM as isize));
            assert_eq!((packet.headroom(), packet.data()[0]), (DEFAULT_HEADROOM - 2, 0));
        }
    }

    #[test]
    fn the_start_of_the_network_header_is_read_if_it_is_whole() {
        let mut packet = Packet::from_bytes(&(0..60).collect::<Vec<u8>>()).unwrap();
        assert_eq!(packet.network_header_chunk::<1>(), None);
        packet.mark_link_header(14);
        let places =
            [packet.mac_header_offset(), packet.network_header_offset(), packet.transport_header_offset()];
        assert_eq!(places, [Some(0), Some(14), Some(14)]);
        assert_eq!(packet.network_header_chunk(), Some(&[14, 15]));
        assert_eq!(packet.network_header_chunk::<46>().unwrap(), packet.network_header().unwrap());
        assert_eq!(packet.network_header_chunk::<47>(), None);
        assert_eq!(packet.network_header_chunk_mut::<47>(), None);
        assert!(packet.strip(20));
        *packet.network_header_chunk_mut().unwrap() = [9];
        assert_eq!(packet.network_header_chunk(), Some(&[9, 15]));
        packet.mark_link_header(usize::MAX);
        assert_eq!(packet.network_header_chunk::<1>(), None);
        // No data can end behind the mark of no header.
        let mut longest = Packet::alloc(0, crate::MAX_BUFFER).unwrap();
        longest.mark_link_header(crate::MAX_BUFFER);
        assert_eq!((longest.network_header(), longest.network_header_chunk::<1>()), (None, None));
        longest.mark_link_header(crate::MAX_BUFFER - 1);
        assert_eq!(longest.network_header_chunk(), Some(&[0]));
    }

    #[test]
    fn a_link_header_is_pushed_and_marked_where_there_is_room() {
        let mut packet = Packet::from_bytes(&[7; 20]).unwrap();
        assert!(packet.push_link_header(&[1; 14]));
        assert_eq!(
            (packet.data(), packet.mac_header_offset()),
            (&[[1; 14].as_slice(), &[7; 20]].concat()[..], Some(0))
        );
        assert!(packet.push_in_place(DEFAULT_HEADROOM - 14 - 13));
        let before = packet.data().to_vec();
        assert!(!packet.push_link_header(&[2; 14]));
        assert_eq!((packet.data(), packet.headroom()), (&before[..], 13));
        assert!(packet.push_link_header(&[3; 13]));
        assert_eq!((packet.headroom(), packet.mac_header_offset()), (0, Some(0)));
    }

    #[test]
    fn headers_stay_put_when_the_data_start_moves() {
        let mut packet = Packet::from_bytes(&(0..60).collect::<Vec<u8>>()).unwrap();
        assert_eq!((packet.mac_header(), packet.network_header_offset()), (None, None));
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        assert!(packet.strip(34));
        assert_eq!(packet.mac_header_offset(), Some(-34));
        assert_eq!(packet.mac_header().unwrap()[0], 0);
        assert_eq!(packet.network_header().unwrap().first(), Some(&14));
        assert_eq!(packet.transport_header().unwrap().first(), Some(&34));
        packet.network_header_mut().unwrap()[1] = 0xaa;
        assert!(packet.push_in_place(20));
        assert_eq!(packet.data()[1], 0xaa);
        // A header beyond the end of the data is no header.
        assert!(packet.take(30));
        assert_eq!(packet.transport_header(), None);
        packet.clear_headers();
        assert_eq!(packet.network_header(), None);
    }

    #[test]
    fn forgotten_annotations_have_their_defaults() {
        let mut packet = Packet::from_bytes(&[0; 60]).unwrap();
        packet.set_network_header(14, 20);
        packet.anno_mut().set_packet_type(crate::PacketType::Multicast);
        packet.set_mac_header(0);
        packet.forget_annotations();
        assert_eq!((packet.network_header(), packet.mac_header()), (None, None));
        assert_eq!(packet.anno().packet_type(), crate::Anno::DEFAULT.packet_type());
    }
}
