//! One DPDK port of a `Port`, and how it is closed.

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dpdk_sys::valiant_port_info;
use locks::IgnorePoison;

use crate::fanout::Fanout;
use crate::ingress::Ingress;
use crate::memifport::MemifQueue;
use crate::mempool::{self, Mempool};
use crate::packetsocket::PacketSocket;
use crate::virtualport::VirtualQueue;
use crate::xsk::Rings;

/// Buffers that DPDK's AF_XDP driver puts into the rings of one queue at first.
const XDP_FILL: usize = 2048;

/// A queue of a DPDK device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceQueue {
    pub(crate) port: u16,
    pub(crate) queue: u16,
    /// The socket that the driver receives by, when it does.
    pub(crate) socket: Option<RawFd>,
}

/// A queue of a port.
#[derive(Clone, Debug)]
pub(crate) enum PortQueue {
    Device(DeviceQueue),
    Socket(Arc<PacketSocket>),
    Virtual(Arc<VirtualQueue>),
    Memif(Arc<MemifQueue>),
}

impl PortQueue {
    /// Whether there is a socket that is readable while packets wait, or somebody who wakes the worker.
    pub(crate) fn has_socket(&self) -> bool {
        match self {
            PortQueue::Device(queue) => queue.socket.is_some(),
            PortQueue::Socket(_) | PortQueue::Virtual(_) => true,
            PortQueue::Memif(_) => false,
        }
    }

    /// The packet socket, when it is one.
    pub(crate) fn socket(&self) -> Option<&PacketSocket> {
        match self {
            PortQueue::Device(_) | PortQueue::Virtual(_) | PortQueue::Memif(_) => None,
            PortQueue::Socket(socket) => Some(socket),
        }
    }

    /// The socket by which a DPDK driver receives, when it does.
    pub(crate) fn drivers_socket(&self) -> Option<RawFd> {
        match self {
            PortQueue::Device(queue) => queue.socket,
            PortQueue::Socket(_) | PortQueue::Virtual(_) | PortQueue::Memif(_) => None,
        }
    }
}

/// The packet sockets behind a `Port`.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The first of them receive.
    pub(crate) all: Vec<Arc<PacketSocket>>,
    pub(super) receiving: usize,
    /// What chooses the socket that gets a frame by the frame's tag.
    pub(crate) fanout: Option<Fanout>,
    /// What keeps the kernel from the packets, if anything does.
    pub(super) _ingress: Option<Ingress>,
}

impl Sockets {
    /// Those that receive.
    pub(crate) fn receiving(&self) -> impl Iterator<Item = &Arc<PacketSocket>> {
        self.all.iter().take(self.receiving)
    }

    /// The counters that only packet sockets have; with several sockets, the queue's name precedes them
    /// (`q1.`).
    pub(crate) fn xstats(&self) -> Vec<(String, u64)> {
        let several = self.all.len() > 1;
        let name =
            |queue: usize, name: &str| if several { format!("q{queue}.{name}") } else { name.to_owned() };
        let of_queue = |(queue, socket): (usize, &Arc<PacketSocket>)| {
            socket.xstats().into_iter().map(move |(text, value)| (name(queue, text), value))
        };
        self.all.iter().enumerate().flat_map(of_queue).collect()
    }
}

/// One DPDK port behind a `Port`.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: u16,
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(super) rx_desc: u16,
    /// The bus and the device to unplug with it, when we plugged it in.
    pub(super) bus_device: Option<BusDevice>,
    pub(super) started: bool,
    /// Whether we made it promiscuous, a setting that an interface would keep.
    pub(super) promisc: bool,
    /// The AF_XDP resources that have to be released, if it uses AF_XDP.
    pub(super) xdp: Option<Xdp>,
    /// The driver's sockets, one for each receive queue, if it uses sockets: they are readable when packets
    /// have arrived.
    pub(super) sockets: Vec<RawFd>,
}

/// Resources that an AF_XDP device does not release.
#[derive(Debug)]
pub(super) struct Xdp {
    pub(super) pool: Mempool,
    pub(super) descriptors: u16,
    /// DPDK 22.11's driver does not survive closing a device whose socket it could not make: that device
    /// stays, with its buffers, which only happens when another process has the interface's queue.
    pub(super) failed: bool,
}

impl Member {
    pub(super) fn new(id: u16, bus_device: Option<BusDevice>) -> Member {
        Member {
            id,
            rx_queues: 0,
            tx_queues: 0,
            rx_desc: 0,
            bus_device,
            started: false,
            promisc: false,
            xdp: None,
            sockets: Vec::new(),
        }
    }

    pub(crate) fn is_promiscuous(&self) -> bool {
        self.promisc
    }

    /// When it is closed, its device on PCI is unplugged, also if it was there before.
    pub(crate) fn unplug(&mut self, address: &str) {
        self.bus_device = CString::new(address).ok().map(|device| (c"pci", device));
    }

    pub(crate) fn queue(&self, queue: u16) -> DeviceQueue {
        // Sockets and queues were created in the same order; if their numbers differ, the relation is
        // unknown.
        let known = self.sockets.len() == usize::from(self.rx_queues);
        let socket = self.sockets.get(usize::from(queue)).filter(|_| known);
        DeviceQueue { port: self.id, queue, socket: socket.copied() }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let failed = self.xdp.as_ref().is_some_and(|xdp| xdp.failed);
        if let Some(xdp) = self.xdp.as_ref().filter(|xdp| xdp.failed) {
            mempool::lose(xdp.pool, XDP_FILL);
        }
        // SAFETY: the port exists, and nobody polls it: the queues hold the `Port` that holds this.
        unsafe {
            dpdk_sys::valiant_port_unwatch(self.id);
            if self.promisc {
                dpdk_sys::rte_eth_promiscuous_disable(self.id);
            }
            if self.started {
                dpdk_sys::rte_eth_dev_stop(self.id);
            }
            let rings = self.xdp.as_ref().filter(|_| !failed).map_or_else(Vec::new, |xdp| {
                let map = |&socket| Some((Rings::map(socket, xdp.descriptors)?, xdp.pool));
                self.sockets.iter().filter_map(map).collect()
            });
            if let Some((bus, device)) = self.bus_device.as_ref().filter(|_| !failed) {
                dpdk_sys::rte_eth_dev_close(self.id);
                dpdk_sys::rte_eal_hotplug_remove(bus.as_ptr(), device.as_ptr());
            }
            for (rings, pool) in rings {
                rings.reclaim(pool);
            }
            if self.xdp.is_some() {
                // The driver leaves its sockets open, and with them the interface's queues taken.
                let open = sockets(libc::AF_XDP);
                for &socket in self.sockets.iter().filter(|socket| open.contains(socket)) {
                    libc::close(socket);
                }
                *XDP_CLOSED.lock().ignore_poison() = Some(Instant::now());
            }
        }
    }
}

/// The bus and the name of a device that goes with its port.
pub(super) type BusDevice = (&'static CStr, CString);

/// When the last AF_XDP socket was closed.
pub(super) static XDP_CLOSED: Mutex<Option<Instant>> = Mutex::new(None);
/// The open sockets of this process of one address family, in the order of their numbers.
pub(super) fn sockets(family: c_int) -> Vec<RawFd> {
    let mut found: Vec<RawFd> = (std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&fd| {
            let mut domain: c_int = -1;
            let mut len = size_of::<c_int>() as libc::socklen_t;
            let value = (&raw mut domain).cast();
            // SAFETY: the kernel writes at most `len` bytes, and refuses what is no socket.
            let status = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, value, &mut len) };
            status == 0 && domain == family
        })
        .collect();
    found.sort_unstable();
    found
}

pub(crate) fn port_info(id: u16) -> Option<valiant_port_info> {
    // SAFETY: plain data; the function fills it or fails.
    unsafe {
        let mut info: valiant_port_info = std::mem::zeroed();
        (dpdk_sys::valiant_port_info(id, &mut info) == 0).then_some(info)
    }
}

pub(crate) fn c_text(bytes: &[c_char]) -> String {
    bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect()
}
