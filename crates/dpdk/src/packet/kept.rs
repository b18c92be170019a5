//! A packet as plain data, from which the same packet can be made again and again.

use super::Packet;
use super::firstline::Common;
use crate::anno::Anno;
use crate::buffer::{ANNO_VALID, DEFAULT_HEADROOM, FIRST_LINE};
use std::slice;

/// What a packet was: its data, the bytes that have been stripped from its front since a driver wrote them,
/// and its annotations. It takes no mbuf.
#[derive(Clone, Debug)]
pub struct KeptPacket {
    /// From where a driver writes a packet, or from where the data begins if that is before it.
    bytes: Box<[u8]>,
    /// Bytes of the buffer before the data.
    offset: usize,
    common: Option<Common>,
    anno: Option<Box<Anno>>,
    port: u16,
}

/// Bytes of the buffer that are not kept, of a packet whose data begins there.
fn skipped(offset: usize) -> usize {
    offset.min(DEFAULT_HEADROOM)
}

impl KeptPacket {
    /// The packet's data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.offset - skipped(self.offset)..]
    }

    /// The length of the packet's data.
    #[must_use]
    pub fn data_len(&self) -> usize {
        self.data().len()
    }

    /// The packet again, from the calling thread's pool as [`Packet::alloc`]; `None`: out of memory.
    #[must_use]
    pub fn packet(&self) -> Option<Packet> {
        // The data begins where it began, as it fits a buffer; what was stripped is written before it.
        let mut packet = Packet::alloc_dirty(skipped(self.offset), self.bytes.len())?;
        packet.data_mut().copy_from_slice(&self.bytes);
        packet.set_data(self.offset, self.data_len());
        if let Some(anno) = &self.anno {
            *packet.anno_mut() = **anno;
        }
        if let Some(common) = self.common {
            packet.store_common(common);
        }
        // SAFETY: a live mbuf; a plain store.
        unsafe { (*packet.mbuf.as_ptr()).port = self.port };
        Some(packet)
    }
}

impl Packet {
    /// What the packet is, to be made again later.
    #[must_use]
    pub fn keep(&self) -> KeptPacket {
        let (offset, end) = (self.data_off(), self.data_off() + self.len());
        let skipped = skipped(offset);
        // SAFETY: `skipped <= end <= buf_len` (invariant 2), and all of the buffer is initialized.
        let bytes = unsafe { slice::from_raw_parts(self.buffer().add(skipped), end - skipped) };
        // SAFETY: invariant 3: valid while the flag is set.
        let anno = (self.flags() & ANNO_VALID != 0).then(|| Box::new(unsafe { *self.anno_ptr() }));
        KeptPacket {
            bytes: bytes.into(),
            offset,
            common: (self.flags() & FIRST_LINE != 0).then(|| self.load_common()),
            anno,
            // SAFETY: a live mbuf; a plain load.
            port: unsafe { (*self.mbuf.as_ptr()).port },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_packet_is_made_again_with_its_annotations() {
        let mut packet = Packet::from_bytes(&(0..80).collect::<Vec<u8>>()).unwrap();
        packet.strip(14);
        packet.set_network_header(0, 20);
        packet.set_dst_ip([10, 0, 0, 1]);
        packet.set_paint(3);
        for with_all in [false, true] {
            if with_all {
                packet.anno_mut().set_extra_packets(9);
            }
            let kept = packet.keep();
            assert_eq!((kept.data(), kept.data_len()), (packet.data(), 66));
            let mut again = kept.packet().unwrap();
            assert_eq!(again.data(), packet.data());
            assert_eq!((again.dst_ip(), again.paint()), ([10, 0, 0, 1], 3));
            assert_eq!(again.network_header_offset(), Some(0));
            assert_eq!(again.anno().extra_packets(), packet.anno().extra_packets());
            again = again.push(14).unwrap();
            assert_eq!(again.data(), (0..80).collect::<Vec<u8>>());
        }
        let plain = Packet::from_bytes(b"x").unwrap().keep().packet().unwrap();
        assert_eq!((plain.data(), plain.dst_ip()), (&b"x"[..], [0; 4]));
    }

    #[test]
    fn data_that_begins_earlier_than_a_driver_would_write_it_is_kept() {
        let packet = Packet::alloc(10, 4).unwrap().push(6).unwrap();
        let again = packet.keep().packet().unwrap();
        assert_eq!((again.headroom(), again.len()), (packet.headroom(), 10));
    }
}
