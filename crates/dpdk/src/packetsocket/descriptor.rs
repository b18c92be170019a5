//! System calls on a packet socket.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::segment::VnetHeader;

/// Parts of a frame that need no allocation: those of a segment of 64 KB.
pub(super) const FEW: usize = 66;
pub(super) const NOWHERE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

/// `n` places for parts of a frame, of one of these.
pub(super) fn parts<'a>(
    n: usize,
    few: &'a mut [libc::iovec; FEW],
    many: &'a mut Vec<libc::iovec>,
) -> &'a mut [libc::iovec] {
    if n > FEW {
        many.resize(n, NOWHERE);
        return many;
    }
    &mut few[..n]
}

/// A part that the kernel only reads.
pub(super) fn readable(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// A part that the kernel writes.
pub(super) fn writable(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

pub(super) fn check(status: c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The socket, bound to an interface or not.
#[derive(Debug)]
pub(super) struct Descriptor(OwnedFd);

impl Descriptor {
    /// A socket that receives nothing.
    pub(super) fn open() -> io::Result<Descriptor> {
        // SAFETY: no pointers; a new descriptor is ours.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        check(fd)?;
        // SAFETY: as above.
        Ok(Descriptor(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Binds it to an interface, whose frames of this protocol it then receives; 0: none.
    pub(super) fn bind(&self, if_index: u32, protocol: u16) -> io::Result<()> {
        // SAFETY: plain data.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = if_index as c_int;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: an address of that length.
        check(unsafe { libc::bind(self.number(), (&raw const address).cast(), len) })
    }

    pub(super) fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value = ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the kernel reads at most `len` bytes.
        check(unsafe { libc::setsockopt(self.number(), level, option, value, len) })
    }

    /// An option whose value is a number of the kernel's.
    pub(super) fn get(&self, level: c_int, option: c_int) -> io::Result<c_uint> {
        let mut value = 0;
        let mut len = size_of::<c_uint>() as libc::socklen_t;
        let place = (&raw mut value).cast::<c_void>();
        // SAFETY: the kernel writes at most `len` bytes.
        check(unsafe { libc::getsockopt(self.number(), level, option, place, &mut len) })?;
        Ok(value)
    }

    /// Frames that the kernel has lost since the last call.
    pub(super) fn losses(&self) -> Option<c_uint> {
        const PACKET_STATISTICS: c_int = 6;
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        let place = (&raw mut stats).cast::<c_void>();
        let fd = self.number();
        // SAFETY: the kernel writes at most `len` bytes.
        let status = unsafe { libc::getsockopt(fd, libc::SOL_PACKET, PACKET_STATISTICS, place, &mut len) };
        check(status).ok().map(|()| stats.tp_drops)
    }

    /// Takes a frame of the socket's queue into these parts; returns its length, vnet header included, also
    /// if the parts are shorter.
    pub(super) fn take(&self, parts: &mut [libc::iovec]) -> Option<usize> {
        // An interface that was switched off leaves an error behind, which is reported once.
        for _ in 0..2 {
            // SAFETY: plain data.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_iov = parts.as_mut_ptr();
            message.msg_iovlen = parts.len() as _;
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            // SAFETY: the parts are memory of the caller, which nobody else reads or writes meanwhile.
            let len = unsafe { libc::recvmsg(self.number(), &mut message, flags) };
            if let Ok(len) = usize::try_from(len) {
                return Some(len);
            }
            // Other errors may have cost a frame: the next is not this one.
            if io::Error::last_os_error().raw_os_error() != Some(libc::ENETDOWN) {
                return None;
            }
        }
        None
    }

    /// Throws a frame of the socket's queue away.
    pub(super) fn discard(&self) {
        // A frame without place for the vnet header is an error.
        self.take(&mut [writable(&mut [0; VnetHeader::LEN])]);
    }
}
