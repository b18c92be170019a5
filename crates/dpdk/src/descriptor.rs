//! Open descriptors that pass between processes: by a Unix socket (`SCM_RIGHTS`, unix(7)), or by their
//! numbers from whoever has started the process.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::{io, mem, ptr};

/// Room for one descriptor beside the data, aligned as `cmsghdr` wants it.
type ControlBuffer = [u64; 4];

/// Sends bytes, with a descriptor if there is one.
///
/// # Errors
/// Not all bytes can be sent.
pub fn send(socket: &UnixStream, bytes: &[u8], fd: Option<&OwnedFd>) -> io::Result<()> {
    let mut control: ControlBuffer = [0; 4];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `msghdr` is plain data; its pointers are to places that live until the call is over; the macros
    // stay within `beside`, which has room for one descriptor.
    let sent = unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Some(fd) = fd {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as usize;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast::<c_int>(), fd.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Receives bytes, and the descriptor that came with them.
///
/// # Errors
/// An error of the operating system.
pub fn receive(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control: ControlBuffer = [0; 4];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: as in `send`; a descriptor that the kernel has put there is ours.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
        let n = loop {
            let n = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            match usize::try_from(n) {
                Ok(n) => break n,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        };
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let mut fd = None;
        if !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len == libc::CMSG_LEN(size_of::<c_int>() as u32) as usize
        {
            fd = Some(OwnedFd::from_raw_fd(ptr::read_unaligned(libc::CMSG_DATA(header).cast::<c_int>())));
        }
        Ok((n, fd))
    }
}

/// Another descriptor of the open file that has this number; the number stays open.
///
/// # Errors
/// An error of the operating system: no open file has this number.
pub fn another(number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) takes any number; a descriptor that it returns is new, so nobody else owns it.
    unsafe {
        match libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) {
            new if new >= 0 => Ok(OwnedFd::from_raw_fd(new)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_number_gives_another_descriptor_of_the_same_socket() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut copy = UnixStream::from(another(here.as_raw_fd()).unwrap());
        drop(here);
        copy.write_all(b"x").unwrap();
        let mut byte = [0];
        there.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(another(-1).is_err());
    }
}
