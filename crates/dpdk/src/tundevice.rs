//! Creation and settings of TUN and TAP devices, by the router itself or by its helper.

use std::ffi::{c_char, c_int, c_short, c_ulong};
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::buffer::DEFAULT_HEADROOM;
use crate::netdev::{Control, index_of};
use crate::netns;

// linux/if_tun.h
const TUNSETIFF: c_ulong = 0x4004_54ca;
const TUNSETPERSIST: c_ulong = 0x4004_54cb;
const IFF_TUN: c_short = 0x0001;
const IFF_TAP: c_short = 0x0002;
const IFF_NO_PI: c_short = 0x1000;
const IFF_MULTI_QUEUE: c_short = 0x0100;

/// What a packet of a device begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunMode {
    /// An IP header (TUN).
    Ip,
    /// An Ethernet header (TAP).
    Ethernet,
}

/// How to open a TUN or TAP device.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// Its name, which may hold one `%d` for the kernel to number; empty lets the kernel name it.
    pub name: String,
    /// The network namespace that it is in, as `ip netns` names it; none: that of this process.
    pub namespace: Option<String>,
    /// Whether it stays when nobody has it open any more.
    pub persistent: bool,
    /// What its packets begin with.
    pub mode: TunMode,
    /// Its IPv4 address and prefix length.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Where the kernel's default route goes, over this device.
    pub gateway: Option<Ipv4Addr>,
    /// Its link address (Ethernet mode).
    pub mac: Option<[u8; 6]>,
    /// Its largest network packet, in bytes.
    pub mtu: Option<u32>,
    /// Whether to switch it on.
    pub up: bool,
    /// Whether further opens of the same name add queues, for one worker each.
    pub multi_queue: bool,
    /// Headroom of the packets read, in bytes.
    pub headroom: usize,
}

impl TunConfig {
    /// A device that is switched on, and otherwise as the kernel makes it.
    pub fn new(name: &str, mode: TunMode) -> TunConfig {
        TunConfig {
            name: name.to_owned(),
            namespace: None,
            persistent: false,
            mode,
            address: None,
            gateway: None,
            mac: None,
            mtu: None,
            up: true,
            multi_queue: false,
            headroom: DEFAULT_HEADROOM,
        }
    }
}

/// What fails where a namespace cannot be entered.
const ENTERING: &str = "entering its network namespace";

/// The operation that failed, and the error.
pub(crate) type FailedStep = (&'static str, io::Error);

/// Opens or creates the device; its descriptor, its name, and whether it was there before. Only a new one
/// gets its link address and its MTU here. On an error, what was being done: one of [`crate::helper`]'s
/// `DOING`.
pub(crate) fn create(config: &TunConfig) -> Result<(OwnedFd, String, bool), FailedStep> {
    let entering = |error| (ENTERING, error);
    netns::inside(config.namespace.as_deref(), || create_here(config)).map_err(entering)?
}

fn create_here(config: &TunConfig) -> Result<(OwnedFd, String, bool), FailedStep> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: a C string; a new descriptor is ours.
    let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), flags) };
    if fd < 0 {
        return Err(("opening /dev/net/tun", io::Error::last_os_error()));
    }
    // SAFETY: as above.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };

    let known = index_of(&config.name) != 0;
    // SAFETY: plain data.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero.
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(config.name.bytes()) {
        *to = from as c_char;
    }
    let mode = if config.mode == TunMode::Ip { IFF_TUN } else { IFF_TAP };
    let queues = if config.multi_queue { IFF_MULTI_QUEUE } else { 0 };
    request.ifr_ifru.ifru_flags = mode | IFF_NO_PI | queues;
    // SAFETY: TUNSETIFF takes an `ifreq`, and writes the name back into it.
    if unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFF as _, &mut request) } < 0 {
        return Err(("creating it", io::Error::last_os_error()));
    }
    // SAFETY: TUNSETPERSIST takes a number.
    if config.persistent && unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETPERSIST as _, 1 as c_ulong) } < 0 {
        return Err(("creating it", io::Error::last_os_error()));
    }
    let name: String =
        request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect();

    if !known {
        dress(&name, config)?;
    }
    Ok((fd, name, known))
}

/// Applies the settings that [`create`] has left.
pub(crate) fn finish(name: &str, config: &TunConfig, known: bool) -> Result<(), FailedStep> {
    let entering = |error| (ENTERING, error);
    netns::inside(config.namespace.as_deref(), || finish_here(name, config, known)).map_err(entering)?
}

fn finish_here(name: &str, config: &TunConfig, known: bool) -> Result<(), FailedStep> {
    if known {
        dress(name, config)?;
    }
    let control = Control::open().map_err(|error| ("opening a socket", error))?;
    if let Some((address, prefix_len)) = config.address {
        control.set_address(name, address, prefix_len).map_err(|error| ("setting its address", error))?;
    }
    if config.up {
        control.set_up(name, true).map_err(|error| ("switching it on", error))?;
    }
    if let Some(gateway) = config.gateway {
        control.add_default_route(name, gateway).map_err(|error| ("adding a default route", error))?;
    }
    Ok(())
}

/// Sets a device's link address and MTU.
fn dress(name: &str, config: &TunConfig) -> Result<(), FailedStep> {
    let control = Control::open().map_err(|error| ("opening a socket", error))?;
    if let Some(mac) = config.mac.filter(|_| config.mode == TunMode::Ethernet) {
        control.set_mac(name, mac).map_err(|error| ("setting its link address", error))?;
    }
    if let Some(mtu) = config.mtu {
        control.set_mtu(name, mtu).map_err(|error| ("setting its MTU", error))?;
    }
    Ok(())
}

const _: () = assert!(size_of::<c_int>() == 4, "the ioctl numbers above are for 32-bit arguments");
