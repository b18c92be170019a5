//! The ring of frames that a packet socket shares with the kernel.

use std::ffi::{c_int, c_uint};
use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::descriptor::Descriptor;
use crate::segment::{Tag, VnetHeader};

/// Bytes of a frame in the ring, the kernel's header included.
const FRAME: usize = 2048;
/// Bytes in a block of the ring, which is one piece of the kernel's memory if it has such.
const BLOCK: usize = 64 << 10;
/// Where the kernel's header ends and the link-layer address begins.
const ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const PACKET_RX_RING: c_int = 5;

/// A frame in the ring.
pub(super) struct Frame<'a> {
    pub(super) status: u32,
    /// Bytes of the whole frame.
    pub(super) len: usize,
    /// As much of it as is in the ring.
    pub(super) data: &'a [u8],
    pub(super) vnet: VnetHeader,
    pub(super) tag: Option<Tag>,
    /// Whether this machine has sent it.
    pub(super) outgoing: bool,
}

/// The frames that the kernel fills, in turn: each belongs to the kernel or to the router, as its status
/// says.
#[derive(Debug)]
pub(super) struct Ring {
    map: NonNull<u8>,
    /// 0: nothing is mapped.
    frames: usize,
    /// The frame that the kernel fills next, or has filled.
    at: usize,
}

// SAFETY: the mapping is reached through this alone.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn map(socket: &Descriptor, frames: usize) -> io::Result<Ring> {
        let blocks = (frames * FRAME).div_ceil(BLOCK).max(1);
        let frames = blocks * (BLOCK / FRAME);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as c_uint,
            tp_block_nr: blocks as c_uint,
            tp_frame_size: FRAME as c_uint,
            tp_frame_nr: frames as c_uint,
        };
        socket.set(libc::SOL_PACKET, PACKET_RX_RING, &request)?;
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = socket.number();
        // SAFETY: a mapping at an address of the kernel's choice.
        let map = unsafe { libc::mmap(ptr::null_mut(), blocks * BLOCK, access, flags, fd, 0) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Ring { map, frames, at: 0 })
    }

    /// Begins with a new ring of as many frames; what is in this one and in the socket's queue is lost.
    pub(super) fn renew(&mut self, socket: &Descriptor, frames: usize) -> io::Result<()> {
        // The kernel takes a ring away that nobody maps.
        self.unmap();
        let none = libc::tpacket_req { tp_block_size: 0, tp_block_nr: 0, tp_frame_size: 0, tp_frame_nr: 0 };
        socket.set(libc::SOL_PACKET, PACKET_RX_RING, &none)?;
        *self = Ring::map(socket, frames)?;
        Ok(())
    }

    /// Whether it could not be renewed.
    pub(super) fn is_gone(&self) -> bool {
        self.frames == 0
    }

    fn unmap(&mut self) {
        let frames = mem::take(&mut self.frames);
        if frames > 0 {
            // SAFETY: the mapping is ours, and nothing of it is lent.
            unsafe { libc::munmap(self.map.as_ptr().cast(), frames * FRAME) };
        }
    }

    fn place(&self) -> NonNull<u8> {
        // SAFETY: `at` is below the number of frames, all of which are mapped.
        unsafe { self.map.add(self.at * FRAME) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a frame begins with its status, aligned, which both sides access atomically.
        unsafe { self.place().cast::<AtomicU32>().as_ref() }
    }

    /// The next frame, if the kernel has filled it. It is the router's until [`Ring::release`].
    pub(super) fn next(&self) -> Option<Frame<'_>> {
        if self.is_gone() {
            return None;
        }
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the frame is the router's, so that nobody writes it but for its status, which is not read
        // here; what `self` lends ends before `release`.
        let frame = unsafe { slice::from_raw_parts(self.place().as_ptr().add(4), FRAME - 4) };
        Some(Frame::read(status, frame))
    }

    /// Gives the frame back to the kernel and goes on to the next.
    pub(super) fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = if self.at + 1 == self.frames { 0 } else { self.at + 1 };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.unmap();
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame without its first word, the status: `tpacket2_hdr`, then `sockaddr_ll`, then the data at
    /// the place that the header states, right behind the vnet header.
    fn read(status: u32, frame: &'a [u8]) -> Frame<'a> {
        const STATUS: usize = 4;
        const PACKET_TYPE: usize = ADDRESS + 10 - STATUS;
        let long = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let short = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
        let (len, here, data) = (long(4 - STATUS), long(8 - STATUS), usize::from(short(12 - STATUS)));
        let (content, protocol) = (short(24 - STATUS), short(26 - STATUS));
        let begin = data.saturating_sub(STATUS).clamp(VnetHeader::LEN, frame.len());
        let vnet =
            frame[begin - VnetHeader::LEN..].first_chunk().map_or(VnetHeader::default(), VnetHeader::read);
        let data = &frame[begin..];
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            (if known { protocol } else { wire::ethernet::ETHERTYPE_VLAN }, content)
        });
        Frame {
            status,
            len: len as usize,
            data: &data[..data.len().min(here as usize)],
            vnet,
            tag,
            outgoing: frame[PACKET_TYPE] == libc::PACKET_OUTGOING,
        }
    }
}
