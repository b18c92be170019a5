//! Packets for tests: with fields that only drivers write, and packets that end the process when code reads
//! beyond their end.

use super::mapped::{map, page_size};
use super::{Packet, VALIANT_MBUF_RSS_HASH, heap};
use crate::buffer::{HEADER_SIZE, PRIVATE_SIZE};
use std::ptr;

impl Packet {
    /// A packet of `len` bytes of which only those of `front` are there: they end with a page of memory, and
    /// the page behind it may not be touched. Whoever reads or writes a later byte gets nothing: the kernel
    /// ends the process by SIGSEGV.
    ///
    /// `None`: no memory, or the bytes do not fit two pages.
    pub fn guarded(front: &[u8], len: usize) -> Option<Packet> {
        let page = page_size()?;
        let buffer = 2 * page - HEADER_SIZE;
        let headroom = page.checked_sub(HEADER_SIZE + front.len())?;
        let (buf_len, offset) = (u16::try_from(buffer).ok()?, u16::try_from(headroom).ok()?);
        if len < front.len() || headroom + len > buffer {
            return None;
        }
        let mbuf = map(page)?;
        // SAFETY: the first page is ours and zeroed, which is a valid `rte_mbuf` of the heap's kind; header,
        // annotations, headroom and `front` fill it. The second one belongs to the buffer, but invariant 2
        // does not hold for it: it cannot be read at all, so no read returns anything that is not
        // initialized.
        unsafe {
            let raw = mbuf.as_ptr();
            (*raw).buf_addr = raw.byte_add(HEADER_SIZE).cast();
            (*raw).buf_len = buf_len;
            (*raw).priv_size = PRIVATE_SIZE as u16;
            (*raw).refcnt = 1;
            (*raw).nb_segs = 1;
            (*raw).port = u16::MAX;
            ptr::copy_nonoverlapping(front.as_ptr(), (*raw).buf_addr.cast::<u8>().add(headroom), front.len());
            heap::note_made();
            let packet = Packet::init(mbuf, offset, len as u16);
            let closed = libc::mprotect(raw.byte_add(page).cast(), page, libc::PROT_NONE) == 0;
            closed.then_some(packet)
        }
    }
}

impl Packet {
    /// Writes the hash of the packet's flow, as a driver does.
    pub fn set_rss_hash(&mut self, hash: u32) {
        let raw = self.as_raw();
        // SAFETY: the packet's own mbuf; plain stores, the flag says what the union holds.
        unsafe {
            (*raw).__bindgen_anon_2.hash.rss = hash;
            (*raw).ol_flags |= VALIANT_MBUF_RSS_HASH;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const CHILD: &str = "VALIANT_TEST_LOOKS_TOO_FAR";

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn what_lies_behind_cannot_be_read() {
        let mut packet = Packet::guarded(b"abc", 60).unwrap();
        if std::env::var_os(CHILD).is_some() {
            std::process::exit(i32::from(std::hint::black_box(packet.data()[3])));
        }
        assert_eq!((packet.len(), &packet.data()[..3]), (60, &b"abc"[..]));
        packet.data_mut()[2] = b'd';
        packet.set_paint(7);
        assert!(packet.strip(2) && packet.push_in_place(4) && packet.take(50));
        assert_eq!((packet.len(), packet.paint(), &packet.data()[2..5]), (12, 7, &b"abd"[..]));
        drop(packet);
        let name = "packet::guard::tests::what_lies_behind_cannot_be_read";
        let this = std::env::current_exe().unwrap();
        let end = Command::new(this).args(["--exact", name]).env(CHILD, "1").output().unwrap().status;
        assert_eq!(end.signal(), Some(libc::SIGSEGV), "{end}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn what_does_not_fit_is_refused() {
        assert!(Packet::guarded(&[0; 8], 7).is_none());
        assert!(Packet::guarded(&[0; 1 << 16], 1 << 16).is_none());
        assert!(Packet::guarded(&[], 1 << 15).is_none());
    }
}
