//! Linux interfaces: what they are and their few settings that a router changes, by ioctl (which, unlike
//! `/sys`, sees the network namespace that the thread is in).

use std::ffi::{CStr, CString, c_char, c_int, c_short, c_ulong, c_ushort, c_void};
use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::error::Error;

const SIOCETHTOOL: c_ulong = 0x8946;
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
// linux/sockios.h and linux/route.h
const SIOCADDRT: c_ulong = 0x890b;
const RTF_UP: c_ushort = 0x0001;
const RTF_GATEWAY: c_ushort = 0x0002;

/// A Linux interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// The kernel's driver, or empty.
    pub driver: String,
    /// Its address.
    pub mac: [u8; 6],
    /// Largest network packet, in bytes.
    pub mtu: u32,
    /// Receive queues in use.
    pub rx_queues: u16,
    /// Transmit queues in use.
    pub tx_queues: u16,
    /// Whether it is switched on.
    pub up: bool,
    /// Whether it has a carrier.
    pub running: bool,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Whether it takes TCP segments that are longer than its packets, to be cut later (TSO); on a veth pair,
    /// usually both ends do.
    pub segmentation: bool,
}

/// A socket for ioctls on interfaces.
pub(crate) struct Control(OwnedFd);

type IfReq = libc::ifreq;

fn ifreq(name: &str) -> io::Result<IfReq> {
    // SAFETY: `ifreq` is plain data.
    let mut request: IfReq = unsafe { mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, &from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from as c_char;
    }
    Ok(request)
}

/// An IPv4 address for the kernel.
fn inet(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: plain data.
    let mut inet: libc::sockaddr_in = unsafe { mem::zeroed() };
    inet.sin_family = libc::AF_INET as _;
    inet.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
    // SAFETY: both are 16 bytes of plain data.
    unsafe { mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet) }
}

/// `struct rtentry` of linux/route.h.
#[repr(C)]
struct RtEntry {
    pad1: c_ulong,
    dst: libc::sockaddr,
    gateway: libc::sockaddr,
    genmask: libc::sockaddr,
    flags: c_ushort,
    pad2: c_short,
    pad3: c_ulong,
    pad4: *mut c_void,
    metric: c_short,
    dev: *mut c_char,
    mtu: c_ulong,
    window: c_ulong,
    irtt: c_ushort,
}

impl Control {
    pub(crate) fn open() -> io::Result<Control> {
        // SAFETY: no pointers; a new descriptor is ours.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Control(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn call(&self, request: c_ulong, argument: &mut IfReq) -> io::Result<()> {
        // SAFETY: all requests that this module makes take an `ifreq`, whose pointers, where it has any, are
        // valid.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, ptr::from_mut(argument)) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    fn flags(&self, name: &str) -> io::Result<c_int> {
        let mut request = ifreq(name)?;
        self.call(libc::SIOCGIFFLAGS as c_ulong, &mut request)?;
        // SAFETY: the kernel filled the flags in.
        Ok(c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
    }

    pub(crate) fn set_up(&self, name: &str, up: bool) -> io::Result<()> {
        let flags = self.flags(name)? & !libc::IFF_UP;
        let mut request = ifreq(name)?;
        request.ifr_ifru.ifru_flags = (flags | if up { libc::IFF_UP } else { 0 }) as _;
        self.call(libc::SIOCSIFFLAGS as c_ulong, &mut request)
    }

    pub(crate) fn mtu(&self, name: &str) -> io::Result<u32> {
        let mut request = ifreq(name)?;
        self.call(libc::SIOCGIFMTU as c_ulong, &mut request)?;
        // SAFETY: the kernel filled the MTU in.
        Ok(u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    pub(crate) fn set_mtu(&self, name: &str, mtu: u32) -> io::Result<()> {
        let mut request = ifreq(name)?;
        request.ifr_ifru.ifru_mtu =
            c_int::try_from(mtu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        self.call(libc::SIOCSIFMTU as c_ulong, &mut request)
    }

    pub(crate) fn mac(&self, name: &str) -> io::Result<[u8; 6]> {
        let mut request = ifreq(name)?;
        self.call(libc::SIOCGIFHWADDR as c_ulong, &mut request)?;
        // SAFETY: the kernel filled the address in.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(data) {
            *to = from as u8;
        }
        Ok(mac)
    }

    pub(crate) fn set_mac(&self, name: &str, mac: [u8; 6]) -> io::Result<()> {
        let mut request = ifreq(name)?;
        // SAFETY: plain data.
        let mut address: libc::sockaddr = unsafe { mem::zeroed() };
        address.sa_family = libc::ARPHRD_ETHER;
        for (to, from) in address.sa_data.iter_mut().zip(mac) {
            *to = from as c_char;
        }
        request.ifr_ifru.ifru_hwaddr = address;
        self.call(libc::SIOCSIFHWADDR as c_ulong, &mut request)
    }

    fn set_inet(&self, name: &str, what: c_ulong, address: Ipv4Addr) -> io::Result<()> {
        let mut request = ifreq(name)?;
        request.ifr_ifru.ifru_addr = inet(address);
        self.call(what, &mut request)
    }

    pub(crate) fn set_address(&self, name: &str, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        self.set_inet(name, libc::SIOCSIFADDR as c_ulong, address)?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0);
        self.set_inet(name, libc::SIOCSIFNETMASK as c_ulong, Ipv4Addr::from(mask))
    }

    /// Adds a default route to a gateway over an interface that is up.
    pub(crate) fn add_default_route(&self, name: &str, gateway: Ipv4Addr) -> io::Result<()> {
        let mut device = ifreq(name)?.ifr_name;
        let mut route = RtEntry {
            pad1: 0,
            dst: inet(Ipv4Addr::UNSPECIFIED),
            gateway: inet(gateway),
            genmask: inet(Ipv4Addr::UNSPECIFIED),
            flags: RTF_UP | RTF_GATEWAY,
            pad2: 0,
            pad3: 0,
            pad4: ptr::null_mut(),
            metric: 0,
            dev: device.as_mut_ptr(),
            mtu: 0,
            window: 0,
            irtt: 0,
        };
        // SAFETY: SIOCADDRT takes an `rtentry`; its device is a C string that outlives the call.
        if unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCADDRT as _, ptr::from_mut(&mut route)) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// `ETHTOOL_GCHANNELS`: rx, tx, combined.
    fn channels(&self, name: &str) -> Option<(u32, u32, u32)> {
        // The command, four maxima, then the counts: rx, tx, other, combined.
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        let mut request = ifreq(name).ok()?;
        request.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
        self.call(SIOCETHTOOL, &mut request).ok()?;
        Some((channels[5], channels[6], channels[8]))
    }

    /// The speed in Mb/s, if it is known, and whether it is full duplex.
    pub(crate) fn speed(&self, name: &str) -> (Option<u32>, bool) {
        // struct ethtool_cmd: the speed's lower half is at 12, duplex at 14, the upper half at 28.
        let mut command = [0u8; 44];
        command[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
        let Ok(mut request) = ifreq(name) else { return (None, true) };
        request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
        if self.call(SIOCETHTOOL, &mut request).is_err() {
            return (None, true);
        }
        let half = |at: usize| u32::from(u16::from_ne_bytes([command[at], command[at + 1]]));
        let speed = half(28) << 16 | half(12);
        let known = speed != u32::MAX && speed != u32::from(u16::MAX);
        (known.then_some(speed), command[14] == 1)
    }

    fn segmentation(&self, name: &str) -> bool {
        // struct ethtool_value: the command, and the value.
        let mut value = [ETHTOOL_GTSO, 0];
        let Ok(mut request) = ifreq(name) else { return false };
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        self.call(SIOCETHTOOL, &mut request).is_ok() && value[1] != 0
    }

    /// The names of the driver, its version and the device's firmware; a driver leaves empty what it does not
    /// know.
    fn driver(&self, name: &str) -> Option<[String; 3]> {
        // struct ethtool_drvinfo: the command, then texts of 32 bytes.
        let mut info = [0u8; 196];
        info[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        let mut request = ifreq(name).ok()?;
        request.ifr_ifru.ifru_data = info.as_mut_ptr().cast();
        self.call(SIOCETHTOOL, &mut request).ok()?;
        let text = |at: usize| {
            let text = CStr::from_bytes_until_nul(&info[at..at + 32]).unwrap_or_default();
            text.to_string_lossy().trim().to_owned()
        };
        Some([4, 36, 68].map(text))
    }

    pub(crate) fn interface(&self, name: &str) -> io::Result<Interface> {
        let flags = self.flags(name)?;
        let (rx, tx) = match self.channels(name) {
            Some((rx, tx, combined)) => (rx + combined, tx + combined),
            None => (1, 1),
        };
        let queues = |n: u32| u16::try_from(n.max(1)).unwrap_or(u16::MAX);
        Ok(Interface {
            name: name.to_owned(),
            index: index_of(name),
            driver: self.driver(name).map(|[driver, ..]| driver).unwrap_or_default(),
            mac: self.mac(name).unwrap_or_default(),
            mtu: self.mtu(name).unwrap_or(1500),
            rx_queues: queues(rx),
            tx_queues: queues(tx),
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_RUNNING != 0,
            loopback: flags & libc::IFF_LOOPBACK != 0,
            segmentation: self.segmentation(name),
        })
    }
}

/// Whether the interface has been set up for busy polling: its interrupts are deferred while somebody polls.
///
/// `/sys` may show another network namespace than the thread's, so the number is compared too.
pub(crate) fn is_tuned_for_busy_polling(interface: &Interface) -> bool {
    let number = |what: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/sys/class/net/{}/{what}", interface.name));
        text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    number("ifindex") == u64::from(interface.index)
        && number("napi_defer_hard_irqs") > 0
        && number("gro_flush_timeout") > 0
}

/// The number of an interface; 0 when there is none of that name.
pub(crate) fn index_of(name: &str) -> u32 {
    let Ok(name) = CString::new(name) else { return 0 };
    // SAFETY: a C string.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The names of all interfaces in this network namespace.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the list ends with a zero index, its names are C strings, and it is freed once.
    unsafe {
        let list = libc::if_nameindex();
        if list.is_null() {
            return names;
        }
        let mut entry = list;
        while (*entry).if_index != 0 && !(*entry).if_name.is_null() {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    names
}

/// All interfaces in this network namespace.
pub fn interfaces() -> Vec<Interface> {
    let Ok(control) = Control::open() else { return Vec::new() };
    names().iter().filter_map(|name| control.interface(name).ok()).collect()
}

/// One interface by name.
pub fn interface(name: &str) -> Result<Interface, Error> {
    (Control::open().and_then(|control| control.interface(name)))
        .map_err(|error| Error::interface(name, "looking it up", &error))
}

/// The firmware of an interface's device, if its driver knows it.
pub fn firmware(name: &str) -> Option<String> {
    let [_, _, firmware] = Control::open().ok()?.driver(name)?;
    // What virtual devices say.
    Some(firmware).filter(|firmware| !firmware.is_empty() && firmware != "N/A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn the_loopback_is_found() {
        let lo = interface("lo").unwrap();
        assert!(lo.loopback && lo.index != 0 && lo.rx_queues >= 1);
        assert!(interfaces().contains(&lo));
        assert!(interface("no such thing").is_err());
        assert!(interface("").is_err());
        assert_eq!((firmware("lo"), firmware("no such thing")), (None, None));
    }
}
