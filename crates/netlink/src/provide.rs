//! What a router's host sets up in the kernel: network namespaces, and addresses of interfaces in them.

use crate::error::Error;
use crate::socket::{Namespace, Sockets};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Where `ip netns` keeps the names of namespaces.
const NAMES: &str = "/run/netns";
/// Message types and flags (linux/rtnetlink.h, linux/netlink.h).
const DEL_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;
const REQUEST_WITH_ACK: u16 = 1 | 4;
/// NLM_F_CREATE and NLM_F_REPLACE: no error if it is there already.
const CREATE_OR_REPLACE: u16 = 0x400 | 0x100;
/// IFA_F_NODAD, for IPv6: the address can be used at once.
const NO_DUPLICATE_DETECTION: u8 = 2;

impl Namespace {
    /// Does some work in it, on a thread of its own, so that no other one is ever there.
    ///
    /// # Errors
    /// It cannot be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let account = accounts::inherit();
        let there = || {
            let _account = account.enter();
            self.enter().map(|()| work())
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, there);
            thread
                .map_err(Error::Thread)?
                .join()
                .map_err(|_| Error::Thread(io::Error::other("it panicked")))?
        })
    }

    /// Opens sockets in it for so many followers at a time, which may start when this process has no right to
    /// enter it any more. Up to `buffer` bytes of notifications can wait for each.
    ///
    /// # Errors
    /// It cannot be entered, or no socket can be opened in it.
    pub fn prepare(&self, followers: usize, buffer: usize) -> Result<(), Error> {
        for _ in 0..followers {
            self.inside(|| Sockets::open(buffer))??.keep_for(self.clone());
        }
        Ok(())
    }

    /// Which namespace has the name now; none if none has.
    #[must_use]
    pub fn present(&self) -> Option<(u64, u64)> {
        self.identity()
    }

    /// Makes it if there is none of its name, as `ip netns add` does: with its loopback switched on, and as
    /// that of a router, which forwards. Returns whether it has been made.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self) -> Result<bool, Error> {
        let (Self::Named(name), Some(path)) = (self, self.path()) else { return Ok(false) };
        if self.identity().is_some() && self.enterable() {
            return Ok(false);
        }
        let failed = |cause: io::Error| Error::Make { name: name.clone(), cause };
        names().map_err(failed)?;
        // What a namespace that is gone has left.
        let _ = fs::remove_file(&path);
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
        let make = || -> io::Result<()> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            mount(Some("/proc/thread-self/ns/net"), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
            Ok(())
        };
        let made = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, make)?;
            thread.join().map_err(|_| io::Error::other("it panicked"))?
        });
        if let Err(e) = made {
            let _ = fs::remove_file(&path);
            return Err(failed(e));
        }
        let prepared = self.inside(|| -> io::Result<()> {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
            // A kernel without IPv6 does not have it.
            let _ = fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1");
            Request::link(1, true).send()
        })?;
        prepared.map_err(failed)?;
        Ok(true)
    }

    /// Whether its name is that of a namespace, and not of a file that was left.
    fn enterable(&self) -> bool {
        self.inside(|| ()).is_ok()
    }

    /// Takes its name away, as `ip netns del` does; it goes when no process and no interface uses it.
    pub fn remove(&self) {
        let Some(path) = self.path() else { return };
        // It may have gone already.
        let _ = umount2(&path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(path);
    }

    /// Gives an interface an address, if it does not have it.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the address.
    pub fn add_address(&self, interface: &str, address: IpAddr, length: u8) -> Result<(), Error> {
        let done = self.inside(|| Request::address(number(interface)?, address, length).send())?;
        done.map_err(|cause| Error::Set {
            what: format!("the address {address}/{length} of {interface}"),
            cause,
        })
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// It does not have it, or the kernel refuses.
    pub fn remove_address(&self, interface: &str, address: IpAddr, length: u8) -> Result<(), Error> {
        let done = self.inside(|| {
            let mut request = Request::address(number(interface)?, address, length);
            request.0[4..8].copy_from_slice(&Request::new(DEL_ADDRESS, 0, &[]).0[4..8]);
            request.send()
        })?;
        done.map_err(|cause| Error::Set {
            what: format!("the address {address}/{length} of {interface}"),
            cause,
        })
    }

    /// Removes an interface.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_interface(&self, interface: &str) -> Result<(), Error> {
        let done = self.inside(|| Request::new(DEL_LINK, 0, &link(number(interface)?, 0)).send())?;
        done.map_err(|cause| Error::Set { what: format!("interface {interface}"), cause })
    }
}

/// Makes the directory of names. What is mounted in it is seen by everybody who sees the directory.
fn names() -> io::Result<()> {
    let dir = Path::new(NAMES);
    fs::create_dir_all(dir)?;
    let none = None::<&str>;
    let shared = || mount(none, dir, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    if shared().is_err() {
        // It is no mount point yet.
        mount(Some(dir), dir, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)?;
        shared()?;
    }
    Ok(())
}

/// The number of an interface in the calling thread's namespace.
pub(crate) fn number(interface: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(interface)?)
}

/// `ifinfomsg` for an interface, with the flag IFF_UP as wanted.
fn link(number: u32, up: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(number.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body.extend(1u32.to_ne_bytes());
    body
}

/// A message to the kernel.
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut message = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend((REQUEST_WITH_ACK | flags).to_ne_bytes());
        message.extend(1u32.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        Self(message)
    }

    fn link(interface: u32, up: bool) -> Self {
        Self::new(16, 0, &link(interface, u32::from(up)))
    }

    fn address(interface: u32, address: IpAddr, length: u8) -> Self {
        let (family, bytes) = match address {
            IpAddr::V4(a) => (2, a.octets().to_vec()),
            IpAddr::V6(a) => (10, a.octets().to_vec()),
        };
        // ifaddrmsg, then IFA_LOCAL and IFA_ADDRESS.
        let mut body = vec![family, length, NO_DUPLICATE_DETECTION, 0];
        body.extend(interface.to_ne_bytes());
        for attribute in [2u16, 1] {
            body.extend(((4 + bytes.len()) as u16).to_ne_bytes());
            body.extend(attribute.to_ne_bytes());
            body.extend(&bytes);
        }
        Self::new(NEW_ADDRESS, CREATE_OR_REPLACE, &body)
    }

    /// Sends it in the calling thread's namespace, and waits for the kernel's answer.
    pub(crate) fn send(&self) -> io::Result<()> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&self.0, 0)?;
        let mut answer = Vec::with_capacity(4096);
        socket.recv(&mut answer, 0)?;
        // nlmsgerr: the header, then the error's number.
        let code = answer.get(16..20).and_then(|b| b.try_into().ok()).map_or(0, i32::from_ne_bytes);
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_lengths_and_places_that_the_kernel_wants() {
        let v4 = Request::address(7, "10.0.0.1".parse().unwrap(), 24).0;
        assert_eq!((v4.len(), v4[0], v4[16..20].to_vec()), (40, 40, vec![2, 24, 2, 0]));
        assert_eq!(v4[24..40], [8, 0, 2, 0, 10, 0, 0, 1, 8, 0, 1, 0, 10, 0, 0, 1]);
        let v6 = Request::address(7, "2001:db8::1".parse().unwrap(), 64).0;
        assert_eq!((v6.len(), v6[16], v6[24]), (64, 10, 20));
        assert_eq!(Request::link(1, true).0.len(), 32);
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let failed = Namespace::Own.add_address("nothing-here", "10.0.0.1".parse().unwrap(), 24).unwrap_err();
        assert!(failed.to_string().contains("address 10.0.0.1/24 of nothing-here"), "{failed}");
        assert!(Namespace::Own.remove_interface("nothing-here").is_err());
        assert!(!Namespace::Own.make().unwrap());
    }
}
