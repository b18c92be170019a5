//! Ports: opening a device whatever its kind, and what can be asked of it and set while it runs.

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_int};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use dpdk_sys::{VALIANT_RSS_TYPES, VALIANT_RX_SCATTER, valiant_link, valiant_port_config, valiant_port_info};

use crate::eal::Eal;
use crate::error::{Error, errno_text, reason};
use crate::log::Mark;
use crate::mempool::{self, Mempool, Reservation, STANDARD_BUFFER};
use crate::netdev::{self, Control, Interface};
use crate::packet::{DEFAULT_HEADROOM, MAX_BUFFER};
use crate::queue::{DeviceQueue, RxQueue, TxQueue};
use crate::spec::PortSpec;
use crate::watch::{self, State};

/// Bytes that a frame has beyond its network packet: Ethernet header and two VLAN tags.
const FRAME_EXTRA: usize = 14 + 8;
/// Bytes that the kernel keeps before the data of an AF_XDP frame, beyond our headroom.
const XDP_HEADROOM: usize = 256;
/// The largest AF_XDP frame: a page, less mbuf, annotations, pool header and headrooms.
const XDP_FRAME_MAX: usize = 3392;
/// Buffers that DPDK's AF_XDP driver puts into the rings of one queue.
const XDP_RING: usize = 4096 + 2048;
/// The most queues of one interface that AF_XDP takes; each is a DPDK device, of which there are 32 in Debian's DPDK.
const XDP_QUEUES_MAX: u16 = 16;
const DEFAULT_DESCRIPTORS: u16 = 1024;

/// By what means a Linux interface is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// AF_XDP where it works, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

/// What the users of a port need of it.
#[derive(Clone, Debug, Default)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues; when the device has fewer, several share one under a lock.
    pub tx_queues: u16,
    /// Descriptors in a receive queue; 0 is 1024.
    pub rx_desc: u16,
    /// Descriptors in a transmit queue; 0 is 1024.
    pub tx_desc: u16,
    /// Largest network packet in bytes; `None` leaves it as it is.
    pub mtu: Option<u32>,
    /// Whether to receive what is addressed to others.
    pub promisc: bool,
    /// By what means a Linux interface is used.
    pub method: Method,
    /// Packets that may wait in queues behind this port, for which buffers are set aside.
    pub extra_buffers: usize,
    /// The key of the hash that spreads packets over receive queues; `None` is the driver's.
    pub rss_key: Option<Vec<u8>>,
}

impl PortConfig {
    /// The needs of both users together.
    pub fn merge(&mut self, other: &PortConfig) {
        self.rx_queues = self.rx_queues.saturating_add(other.rx_queues);
        self.tx_queues = self.tx_queues.saturating_add(other.tx_queues);
        self.rx_desc = self.rx_desc.max(other.rx_desc);
        self.tx_desc = self.tx_desc.max(other.tx_desc);
        self.mtu = self.mtu.max(other.mtu);
        self.promisc |= other.promisc;
        self.extra_buffers += other.extra_buffers;
        if self.method == Method::Auto {
            self.method = other.method;
        }
        if self.rss_key.is_none() {
            self.rss_key.clone_from(&other.rss_key);
        }
    }

    fn rx_descriptors(&self) -> u16 {
        if self.rx_desc == 0 { DEFAULT_DESCRIPTORS } else { self.rx_desc }
    }

    fn tx_descriptors(&self) -> u16 {
        if self.tx_desc == 0 { DEFAULT_DESCRIPTORS } else { self.tx_desc }
    }
}

/// What a port is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// It works.
    Up,
    /// It has no link.
    Down,
    /// Its device has disappeared, for good: it receives nothing and sends nothing.
    Gone,
}

/// How a port reaches its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A DPDK device as it is.
    Device,
    /// A Linux interface through AF_XDP sockets.
    AfXdp,
    /// A Linux interface through AF_PACKET sockets.
    AfPacket,
}

/// Counters of a port since it was opened or since [`Port::reset_stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets lost because nobody took them from the receive queue in time.
    pub rx_missed: u64,
    /// Packets received broken.
    pub rx_errors: u64,
    /// Packets lost for want of a buffer.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// A port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether it is up.
    pub up: bool,
    /// Its speed in Mb/s; 0 when it is down, `None` when nobody knows.
    pub speed_mbps: Option<u32>,
    /// Whether it sends and receives at once.
    pub full_duplex: bool,
}

/// One DPDK port behind a `Port`.
#[derive(Debug)]
struct Member {
    id: u16,
    rx_queues: u16,
    tx_queues: u16,
    /// The bus and the device to unplug with it, when we plugged it in.
    plugged: Option<(&'static CStr, CString)>,
    started: bool,
    /// The driver's sockets, one for each receive queue, when it works by sockets: they tell when packets have arrived.
    sockets: Vec<RawFd>,
}

impl Member {
    fn queue(&self, queue: u16) -> DeviceQueue {
        // Sockets and queues were made in the same order; any other number of sockets is a mystery.
        let known = self.sockets.len() == usize::from(self.rx_queues);
        let socket = self.sockets.get(usize::from(queue)).filter(|_| known);
        DeviceQueue { port: self.id, queue, socket: socket.copied() }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: the port exists, and nobody polls it: the queues hold the `Port` that holds this.
        unsafe {
            dpdk_sys::valiant_port_unwatch(self.id);
            if self.started {
                dpdk_sys::rte_eth_dev_stop(self.id);
            }
            if let Some((bus, device)) = &self.plugged {
                dpdk_sys::rte_eth_dev_close(self.id);
                dpdk_sys::rte_eal_hotplug_remove(bus.as_ptr(), device.as_ptr());
                // DPDK 22.11's AF_XDP driver leaves its sockets open, and with them the interface's queues taken.
                let open = sockets(libc::AF_XDP);
                for &socket in self.sockets.iter().filter(|socket| open.contains(socket)) {
                    libc::close(socket);
                }
            }
        }
    }
}

/// An open port. It closes when the last handle and the last queue are dropped.
#[derive(Debug)]
pub struct Port {
    spec: PortSpec,
    name: String,
    kind: PortKind,
    choice: String,
    notes: Vec<String>,
    rx: Vec<Box<[DeviceQueue]>>,
    tx: Vec<(DeviceQueue, Option<Arc<Mutex<()>>>)>,
    taken: Mutex<Taken>,
    state: Arc<State>,
    driver: String,
    mac: [u8; 6],
    mtu: AtomicU32,
    numa_node: Option<usize>,
    interface: Option<Interface>,
    pool: Mempool,
    /// Closed before the buffers are promised to others.
    members: Vec<Member>,
    reservation: Reservation,
}

#[derive(Debug, Default)]
struct Taken {
    rx: HashSet<u16>,
    tx: HashSet<u16>,
}

/// What is known of a device before it is configured.
struct Opening<'a> {
    spec: &'a PortSpec,
    config: &'a PortConfig,
    notes: Vec<String>,
}

/// The open sockets of this process of one address family, in the order of their numbers.
fn sockets(family: c_int) -> Vec<RawFd> {
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

fn port_info(id: u16) -> Option<valiant_port_info> {
    // SAFETY: plain data; the function fills it or fails.
    unsafe {
        let mut info: valiant_port_info = std::mem::zeroed();
        (dpdk_sys::valiant_port_info(id, &mut info) == 0).then_some(info)
    }
}

fn c_text(bytes: &[std::ffi::c_char]) -> String {
    bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte as u8)).collect()
}

/// The buffers and their size that a port needs at most, to make one pool for all ports before the first is opened.
pub(crate) fn buffers_wanted(spec: &PortSpec, config: &PortConfig) -> (usize, usize) {
    let interface = match spec {
        PortSpec::Interface(name) => netdev::interface(name).ok(),
        _ => None,
    };
    let mtu = config.mtu.or(interface.as_ref().map(|interface| interface.mtu)).unwrap_or(1500) as usize;
    let queues = usize::from(config.rx_queues.max(1)) * usize::from(config.rx_descriptors())
        + usize::from(config.tx_queues.max(1)) * usize::from(config.tx_descriptors());
    match interface {
        Some(interface) if config.method != Method::AfPacket && config.rx_queues > 0 => {
            let rings = usize::from(interface.rx_queues.min(XDP_QUEUES_MAX)) * XDP_RING;
            (rings.max(queues) + config.extra_buffers, xdp_buffer(mtu))
        }
        _ => (queues + config.extra_buffers, frame_buffer(mtu)),
    }
}

fn frame_buffer(mtu: usize) -> usize {
    (DEFAULT_HEADROOM + mtu + FRAME_EXTRA).clamp(STANDARD_BUFFER, MAX_BUFFER)
}

fn xdp_buffer(mtu: usize) -> usize {
    (DEFAULT_HEADROOM + XDP_HEADROOM + mtu + FRAME_EXTRA)
        .clamp(STANDARD_BUFFER, XDP_FRAME_MAX + DEFAULT_HEADROOM + XDP_HEADROOM)
}

impl Opening<'_> {
    fn error(&self, doing: &'static str, reason: impl Into<String>) -> Error {
        Error::port(&self.spec.to_string(), doing, reason)
    }

    /// Plugs a device in and returns its first port, and whether it was not there before.
    fn plug(&self, devargs: &str) -> Result<(u16, bool), Error> {
        let name = devargs.split(',').next().unwrap_or_default();
        let c =
            |text: &str| CString::new(text).map_err(|_| self.error("opening it", "a zero byte in its name"));
        let (c_devargs, c_name) = (c(devargs)?, c(name)?);
        let mut id = 0;
        // SAFETY: C strings and a place for the number.
        if unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) } == 0 {
            return Ok((id, false));
        }
        let mark = Mark::now();
        // SAFETY: a C string.
        let status = unsafe { dpdk_sys::rte_dev_probe(c_devargs.as_ptr()) };
        if status < 0 {
            return Err(self.error("opening it", mark.quote_or(|| errno_text(status))));
        }
        // SAFETY: as above.
        unsafe {
            if dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) == 0 {
                return Ok((id, true));
            }
            match u16::try_from(dpdk_sys::valiant_port_of(c_devargs.as_ptr())) {
                Ok(id) => Ok((id, true)),
                Err(_) => {
                    Err(self.error("opening it", mark.quote_or(|| "no driver made a port of it".to_owned())))
                }
            }
        }
    }

    /// Configures and starts a DPDK port with up to `rx` and `tx` queues.
    fn start(
        &mut self,
        member: &mut Member,
        rx: u16,
        tx: u16,
        mtu: Option<u32>,
        buffer_len: usize,
        pool: Mempool,
    ) -> Result<(), Error> {
        let id = member.id;
        let failed = |this: &Self, doing, mark: Mark, status: i32| {
            this.error(doing, mark.quote_or(|| errno_text(status)))
        };
        let mark = Mark::now();
        let info = port_info(id)
            .ok_or_else(|| self.error("asking its driver", mark.quote_or(|| "no answer".to_owned())))?;
        let (max_rx, max_tx) = (info.max_rx_queues.max(1), info.max_tx_queues.max(1));
        (member.rx_queues, member.tx_queues) = (rx.clamp(1, max_rx), tx.clamp(1, max_tx));
        if rx > max_rx || tx > max_tx {
            self.notes.push(format!(
                "the device has {max_rx} receive and {max_tx} transmit queues, {rx} and {tx} were asked for"
            ));
        }
        let largest = if info.max_mtu == 0 { u32::from(u16::MAX) } else { info.max_mtu.into() };
        let mut mtu = mtu.unwrap_or(0);
        if mtu > largest {
            self.notes.push(format!("the driver's largest MTU is {largest}, {mtu} was asked for"));
            mtu = largest;
        }
        let key = self.config.rss_key.as_deref().filter(|key| {
            let fits = key.len() == usize::from(info.rss_key_size);
            if !fits {
                self.notes.push(format!(
                    "the RSS key has {} bytes, the device takes {}",
                    key.len(),
                    info.rss_key_size
                ));
            }
            fits
        });
        let mut settings = valiant_port_config {
            rx_queues: member.rx_queues,
            tx_queues: member.tx_queues,
            mtu,
            rx_offloads: 0,
            tx_offloads: 0,
            rss_types: info.rss_types & VALIANT_RSS_TYPES,
            rss_key: key.map_or(std::ptr::null(), <[u8]>::as_ptr),
            rss_key_len: key.map_or(0, |key| key.len() as u8),
            lsc: info.has_lsc,
            rmv: info.has_rmv,
            rx_interrupts: 0,
        };
        if mtu as usize + FRAME_EXTRA + DEFAULT_HEADROOM > buffer_len
            && info.rx_offloads & VALIANT_RX_SCATTER != 0
        {
            settings.rx_offloads |= VALIANT_RX_SCATTER;
        }
        // SAFETY: the port exists; the key lives until the end of this function.
        let mut status = unsafe { dpdk_sys::valiant_port_configure(id, &settings) };
        if status != 0
            && (member.rx_queues > 1 || member.tx_queues > 1 || settings.mtu != 0 || settings.lsc != 0)
        {
            self.notes.push(format!(
                "the driver refused {} receive and {} transmit queues ({}): one of each",
                member.rx_queues,
                member.tx_queues,
                mark.quote_or(|| errno_text(status))
            ));
            (member.rx_queues, member.tx_queues) = (1, 1);
            (settings.rx_queues, settings.tx_queues, settings.mtu, settings.lsc, settings.rmv) =
                (1, 1, 0, 0, 0);
            // SAFETY: as above.
            status = unsafe { dpdk_sys::valiant_port_configure(id, &settings) };
        }
        if status != 0 {
            return Err(failed(self, "configuring it", mark, status));
        }
        let (mut rx_desc, mut tx_desc) = (self.config.rx_descriptors(), self.config.tx_descriptors());
        let asked = (rx_desc, tx_desc);
        // SAFETY: the port is configured; the places hold the counts.
        unsafe { dpdk_sys::valiant_adjust_descriptors(id, &mut rx_desc, &mut tx_desc) };
        if asked != (rx_desc, tx_desc) && (self.config.rx_desc, self.config.tx_desc) != (0, 0) {
            self.notes.push(format!(
                "{rx_desc} receive and {tx_desc} transmit descriptors, as the driver has them"
            ));
        }
        for queue in 0..member.rx_queues {
            // SAFETY: the port is configured and not started; the pool is never freed.
            let status = unsafe {
                dpdk_sys::valiant_rx_queue_setup(id, queue, rx_desc, info.numa_node, pool.as_ptr())
            };
            if status != 0 {
                return Err(failed(self, "setting a receive queue up", mark, status));
            }
        }
        for queue in 0..member.tx_queues {
            // SAFETY: as above.
            let status = unsafe { dpdk_sys::valiant_tx_queue_setup(id, queue, tx_desc, info.numa_node) };
            if status != 0 {
                return Err(failed(self, "setting a transmit queue up", mark, status));
            }
        }
        // SAFETY: the callback takes any port and event from any thread.
        unsafe { dpdk_sys::valiant_port_watch(id, Some(watch::on_event)) };
        // SAFETY: the port is configured.
        let status = unsafe { dpdk_sys::rte_eth_dev_start(id) };
        if status != 0 {
            return Err(failed(self, "starting it", mark, status));
        }
        member.started = true;
        // SAFETY: the port is started. Drivers without these modes refuse them, which is as good.
        unsafe {
            if self.config.promisc {
                let status = dpdk_sys::rte_eth_promiscuous_enable(id);
                if status != 0 && self.notes.iter().all(|note| !note.contains("promiscuous")) {
                    self.notes.push(format!("no promiscuous mode: {}", errno_text(status)));
                }
            }
            dpdk_sys::rte_eth_allmulticast_enable(id);
        }
        Ok(())
    }
}

/// The parts of an open port that depend on its kind.
struct Opened {
    kind: PortKind,
    choice: String,
    members: Vec<Member>,
    reservation: Reservation,
}

fn numa_of(id: u16) -> Option<usize> {
    // All 4 KB pages are one heap, whatever the node.
    if !Eal::get().is_some_and(Eal::hugepages) {
        return None;
    }
    port_info(id).and_then(|info| usize::try_from(info.numa_node).ok())
}

fn open_device(
    opening: &mut Opening<'_>,
    id: u16,
    plugged: Option<(&'static CStr, CString)>,
) -> Result<Opened, Error> {
    let mut member = Member { id, rx_queues: 0, tx_queues: 0, plugged, started: false, sockets: Vec::new() };
    let (buffers, buffer_len) = buffers_wanted(opening.spec, opening.config);
    let reservation = mempool::reserve(numa_of(id), buffers, buffer_len)?;
    let config = opening.config;
    opening.start(
        &mut member,
        config.rx_queues,
        config.tx_queues,
        config.mtu,
        buffer_len,
        reservation.pool,
    )?;
    let driver = port_info(id).map(|info| c_text(&info.driver)).unwrap_or_default();
    let choice = format!("{}: DPDK driver {driver}", opening.spec);
    Ok(Opened { kind: PortKind::Device, choice, members: vec![member], reservation })
}

/// Why AF_XDP cannot be had on this machine, or `None`.
pub(crate) fn af_xdp_missing() -> Option<String> {
    // SAFETY: no pointers; a descriptor that comes of it is closed at once.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Some(match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
            _ => format!("AF_XDP sockets are refused: {}", reason(&error)),
        });
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
    None
}

fn open_af_xdp(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    if let Some(missing) = af_xdp_missing() {
        return Err(opening.error("opening an AF_XDP socket", missing));
    }
    let mtu = opening.config.mtu.unwrap_or(interface.mtu) as usize;
    if mtu + FRAME_EXTRA > XDP_FRAME_MAX && !interface.loopback {
        return Err(opening.error(
            "opening AF_XDP sockets",
            format!("its MTU is {mtu}, an AF_XDP frame takes at most {}", XDP_FRAME_MAX - FRAME_EXTRA),
        ));
    }
    let queues = interface.rx_queues.min(XDP_QUEUES_MAX);
    let (buffers, buffer_len) = buffers_wanted(opening.spec, opening.config);
    let reservation = mempool::reserve(None, buffers, buffer_len)?;
    let mut members = Vec::new();
    for queue in 0..queues {
        // DPDK 22.11 takes several queues in one device only from drivers with combined channels, which veth is not.
        let name = format!("net_af_xdp{}", watch::unique());
        let devargs = format!("{name},iface={},start_queue={queue},queue_count=1", interface.name);
        let (id, new) = opening.plug(&devargs)?;
        let plugged = new.then(|| (c"vdev", CString::new(name).expect("digits and letters")));
        members.push(Member { id, rx_queues: 0, tx_queues: 0, plugged, started: false, sockets: Vec::new() });
        // The BPF libraries come with the driver.
        // SAFETY: the environment runs.
        unsafe { dpdk_sys::valiant_log_capture_bpf() };
        let member = members.last_mut().expect("just pushed");
        let before = sockets(libc::AF_XDP);
        let started = opening.start(member, 1, 1, None, buffer_len, reservation.pool);
        member.sockets = sockets(libc::AF_XDP);
        member.sockets.retain(|socket| !before.contains(socket));
        started?;
    }
    let choice = format!("{}: AF_XDP, {}", interface.name, count(queues, "queue"));
    Ok(Opened { kind: PortKind::AfXdp, choice, members, reservation })
}

/// The kernel lets go of a queue a little after its last AF_XDP socket was closed, so a refusal is not believed at once.
fn open_af_xdp_patiently(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    let mut tries = 0..5;
    loop {
        match open_af_xdp(opening, interface) {
            Err(Error::Port { reason, .. }) if reason.contains("xsk socket") && tries.next().is_some() => {
                opening.notes.clear();
                thread::sleep(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn open_af_packet(opening: &mut Opening<'_>, interface: &Interface, why: &str) -> Result<Opened, Error> {
    let config = opening.config;
    let mtu = config.mtu.unwrap_or(interface.mtu) as usize;
    let queues = config.rx_queues.max(config.tx_queues).clamp(1, XDP_QUEUES_MAX);
    // A ring frame holds the packet after 80 bytes of the kernel's own.
    let frame = (mtu.min(MAX_BUFFER - 512) + FRAME_EXTRA + 128).next_power_of_two().max(2048);
    let block = frame.max(4096);
    let frames = usize::from(config.rx_descriptors()).next_power_of_two().max(block / frame);
    let name = format!("net_af_packet{}", watch::unique());
    let devargs = format!(
        "{name},iface={},qpairs={queues},blocksz={block},framesz={frame},framecnt={frames},qdisc_bypass=1",
        interface.name
    );
    let (buffers, _) =
        buffers_wanted(opening.spec, &PortConfig { method: Method::AfPacket, ..config.clone() });
    let buffer_len = frame_buffer(mtu);
    let reservation = mempool::reserve(None, buffers, buffer_len)?;
    let before = sockets(libc::AF_PACKET);
    let (id, new) = opening.plug(&devargs).map_err(|error| match error {
        Error::Port { .. } if !is_root() => {
            error.with_fix("run it as root, or with CAP_NET_ADMIN and CAP_NET_RAW")
        }
        other => other,
    })?;
    let plugged = new.then(|| (c"vdev", CString::new(name).expect("digits and letters")));
    let mut member = Member { id, rx_queues: 0, tx_queues: 0, plugged, started: false, sockets: Vec::new() };
    opening.start(&mut member, queues, queues, None, buffer_len, reservation.pool)?;
    member.sockets = sockets(libc::AF_PACKET);
    member.sockets.retain(|socket| !before.contains(socket));
    let choice = format!("{}: AF_PACKET, {}, because {why}", interface.name, count(queues, "queue"));
    opening.notes.push("AF_PACKET copies what arrives: the kernel goes on handling it too".to_owned());
    Ok(Opened { kind: PortKind::AfPacket, choice, members: vec![member], reservation })
}

fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn count(n: u16, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

fn open_interface(opening: &mut Opening<'_>, name: &str) -> Result<(Opened, Interface), Error> {
    let mut interface = netdev::interface(name).map_err(|_| {
        let names = netdev::names().join(", ");
        opening.error("opening it", format!("there is no such interface; there are {names}"))
    })?;
    let control = Control::open().map_err(|error| Error::interface(name, "opening a socket", &error))?;
    if let Some(mtu) = opening.config.mtu.filter(|&mtu| mtu != interface.mtu) {
        match control.set_mtu(name, mtu) {
            Ok(()) => interface.mtu = mtu,
            Err(error) => opening.notes.push(format!("the MTU stays {}: {}", interface.mtu, reason(&error))),
        }
    }
    if !interface.up {
        control.set_up(name).map_err(|error| Error::interface(name, "switching it on", &error))?;
        interface.up = true;
    }
    let opened = match opening.config.method {
        Method::AfXdp => open_af_xdp_patiently(opening, &interface)?,
        Method::AfPacket => open_af_packet(opening, &interface, "it was asked for")?,
        Method::Auto if opening.config.rx_queues == 0 => open_af_packet(
            opening,
            &interface,
            "it only sends, and AF_XDP would take what arrives from the kernel",
        )?,
        Method::Auto => match open_af_xdp_patiently(opening, &interface) {
            Ok(opened) => opened,
            Err(Error::Port { reason, .. }) => {
                opening.notes.clear();
                open_af_packet(opening, &interface, &format!("AF_XDP did not start ({reason})"))?
            }
            Err(other) => return Err(other),
        },
    };
    Ok((opened, interface))
}

/// What to do about a PCI device that no DPDK driver took.
fn pci_advice(address: &str) -> (String, String) {
    let device = std::path::Path::new("/sys/bus/pci/devices").join(address);
    if !device.exists() {
        return ("there is no such PCI device".to_owned(), "lspci -D | grep -i net".to_owned());
    }
    let driver = std::fs::read_link(device.join("driver"));
    let driver = driver.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    match driver.as_deref() {
        Some("vfio-pci" | "uio_pci_generic" | "igb_uio") => (String::new(), String::new()),
        Some(driver) => (
            format!("the kernel's driver {driver} has it"),
            format!("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}"),
        ),
        None => (
            "no driver has it".to_owned(),
            format!("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}"),
        ),
    }
}

impl Port {
    pub(crate) fn open(spec: &PortSpec, config: &PortConfig) -> Result<Arc<Port>, Error> {
        let mut opening = Opening { spec, config, notes: Vec::new() };
        let mut interface = None;
        let opened = match spec {
            PortSpec::Interface(name) => {
                let (opened, found) = open_interface(&mut opening, name)?;
                interface = Some(found);
                opened
            }
            PortSpec::Id(id) => {
                // SAFETY: takes any number.
                if unsafe { dpdk_sys::rte_eth_dev_is_valid_port(*id) } == 0 {
                    // SAFETY: no arguments.
                    let count = unsafe { dpdk_sys::rte_eth_dev_count_avail() };
                    return Err(opening.error("opening it", format!("DPDK has {count} ports")));
                }
                open_device(&mut opening, *id, None)?
            }
            PortSpec::Vdev(devargs) => {
                let (id, new) = opening.plug(devargs)?;
                let device = CString::new(spec.device().unwrap_or_default()).unwrap_or_default();
                open_device(&mut opening, id, new.then_some((c"vdev", device)))?
            }
            PortSpec::Pci { address, devargs } => {
                let (id, new) = opening.plug(&format!("{address}{devargs}")).map_err(|error| {
                    let (why, fix) = pci_advice(address);
                    if why.is_empty() { error } else { opening.error("opening it", why).with_fix(fix) }
                })?;
                let device = CString::new(address.as_str()).unwrap_or_default();
                open_device(&mut opening, id, new.then_some((c"pci", device)))?
            }
        };
        let Opened { kind, choice, members, reservation } = opened;
        let first =
            port_info(members[0].id).ok_or_else(|| opening.error("asking its driver", "no answer"))?;

        let sources: Vec<DeviceQueue> = (members.iter())
            .flat_map(|member| (0..member.rx_queues).map(|queue| member.queue(queue)))
            .collect();
        let sinks: Vec<DeviceQueue> = (members.iter())
            .flat_map(|member| (0..member.tx_queues).map(|queue| member.queue(queue)))
            .collect();
        let (rx, tx) = (queues_of(&sources, config.rx_queues), sinks_of(&sinks, config.tx_queues));
        let mut notes = opening.notes;
        if rx.len() < usize::from(config.rx_queues) {
            notes.push(format!(
                "{} instead of {}",
                count(rx.len() as u16, "receive queue"),
                config.rx_queues
            ));
        }
        if tx.iter().any(|(_, lock)| lock.is_some()) {
            notes.push(format!(
                "{} on {} of the device: workers share them under a lock",
                count(tx.len() as u16, "transmit queue"),
                count(sinks.len() as u16, "queue")
            ));
        }
        let mut mtu = 0;
        // SAFETY: the port exists.
        unsafe { dpdk_sys::rte_eth_dev_get_mtu(members[0].id, &mut mtu) };
        let mtu = interface.as_ref().map_or(mtu.into(), |interface| interface.mtu);
        let ids = members.iter().map(|member| member.id).collect();
        let state = watch::watch(ids, interface.as_ref().map_or(0, |interface| interface.index));
        Ok(Arc::new(Port {
            spec: spec.clone(),
            name: spec.to_string(),
            kind,
            choice,
            notes,
            rx,
            tx,
            taken: Mutex::default(),
            state,
            driver: c_text(&first.driver),
            mac: interface.as_ref().map_or(first.mac, |interface| interface.mac),
            mtu: AtomicU32::new(mtu),
            numa_node: usize::try_from(first.numa_node).ok(),
            interface,
            pool: reservation.pool,
            members,
            reservation,
        }))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_error(&self, kind: &'static str, queue: u16, reason: &'static str) -> Error {
        Error::Queue { port: self.name.clone(), kind, queue, reason }
    }

    /// Takes a receive queue, of which there are [`Port::rx_queues`]; an error when somebody has it.
    pub fn rx_queue(self: &Arc<Port>, queue: u16) -> Result<RxQueue, Error> {
        let Some(sources) = self.rx.get(usize::from(queue)) else {
            return Err(self.queue_error("receive", queue, "does not exist"));
        };
        if !self.taken().rx.insert(queue) {
            return Err(self.queue_error("receive", queue, "is in use"));
        }
        Ok(RxQueue::new(Arc::clone(self), queue, sources.clone()))
    }

    /// Takes a transmit queue, of which there are [`Port::tx_queues`]; an error when somebody has it.
    pub fn tx_queue(self: &Arc<Port>, queue: u16) -> Result<TxQueue, Error> {
        let Some((sink, shared)) = self.tx.get(usize::from(queue)) else {
            return Err(self.queue_error("transmit", queue, "does not exist"));
        };
        if !self.taken().tx.insert(queue) {
            return Err(self.queue_error("transmit", queue, "is in use"));
        }
        Ok(TxQueue::new(Arc::clone(self), queue, *sink, shared.clone()))
    }

    /// Takes the lowest receive queue that nobody has.
    pub fn free_rx_queue(self: &Arc<Port>) -> Option<RxQueue> {
        (0..self.rx_queues()).find_map(|queue| self.rx_queue(queue).ok())
    }

    /// Takes the lowest transmit queue that nobody has.
    pub fn free_tx_queue(self: &Arc<Port>) -> Option<TxQueue> {
        (0..self.tx_queues()).find_map(|queue| self.tx_queue(queue).ok())
    }

    pub(crate) fn give_back_rx(&self, queue: u16) {
        self.taken().rx.remove(&queue);
    }

    pub(crate) fn give_back_tx(&self, queue: u16) {
        self.taken().tx.remove(&queue);
    }

    /// Receive queues.
    pub fn rx_queues(&self) -> u16 {
        self.rx.len() as u16
    }

    /// Transmit queues.
    pub fn tx_queues(&self) -> u16 {
        self.tx.len() as u16
    }

    /// The port as the configuration named it.
    pub fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// The same as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it reaches its device.
    pub fn kind(&self) -> PortKind {
        self.kind
    }

    /// One line: how it reaches its device, and why so.
    pub fn choice(&self) -> &str {
        &self.choice
    }

    /// What the driver did not do as asked, and what that means; one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The DPDK driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The link address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Largest network packet, in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// The NUMA node of the device, when it has one.
    pub fn numa_node(&self) -> Option<usize> {
        self.numa_node
    }

    /// The Linux interface, when it is one.
    pub fn interface(&self) -> Option<&Interface> {
        self.interface.as_ref()
    }

    /// The pool that its receive queues fill.
    #[inline]
    pub fn pool(&self) -> Mempool {
        self.pool
    }

    /// Whether what it receives may have partial checksums, which its receive queues complete.
    #[inline]
    pub fn completes_checksums(&self) -> bool {
        self.interface.is_some()
    }

    /// Whether it works; one load.
    #[inline]
    pub fn state(&self) -> PortState {
        self.state.get()
    }

    /// The link as the driver sees it, or the kernel for an interface.
    pub fn link(&self) -> Link {
        let gone = self.state() == PortState::Gone;
        let mut link = valiant_link { speed_mbps: 0, up: 0, full_duplex: 0, autoneg: 0 };
        // SAFETY: the port exists; the function fills the place or fails.
        let known = !gone && unsafe { dpdk_sys::valiant_port_link(self.members[0].id, &mut link) } == 0;
        let up = match &self.interface {
            Some(_) => self.state() == PortState::Up,
            None => known && link.up != 0,
        };
        let speed = (link.speed_mbps != u32::MAX && known).then_some(link.speed_mbps);
        Link { up, speed_mbps: if up { speed } else { Some(0) }, full_duplex: link.full_duplex != 0 }
    }

    /// Its counters.
    pub fn stats(&self) -> PortStats {
        let mut sum = PortStats::default();
        for member in &self.members {
            // SAFETY: plain data that the function fills; the port exists.
            let stats = unsafe {
                let mut stats = std::mem::zeroed();
                if dpdk_sys::rte_eth_stats_get(member.id, &mut stats) != 0 {
                    continue;
                }
                stats
            };
            sum.rx_packets += stats.ipackets;
            sum.rx_bytes += stats.ibytes;
            sum.rx_missed += stats.imissed;
            sum.rx_errors += stats.ierrors;
            sum.rx_no_buffer += stats.rx_nombuf;
            sum.tx_packets += stats.opackets;
            sum.tx_bytes += stats.obytes;
            sum.tx_errors += stats.oerrors;
        }
        sum
    }

    /// Sets its counters to zero where the driver can.
    pub fn reset_stats(&self) {
        for member in &self.members {
            // SAFETY: the port exists.
            unsafe { dpdk_sys::rte_eth_stats_reset(member.id) };
        }
    }

    /// All counters that the driver has, by the driver's names; with several devices the queue comes first (`q1.`).
    pub fn xstats(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for (queue, member) in self.members.iter().enumerate() {
            // SAFETY: with no place to write the functions only count; then both arrays have that many places, and the
            // functions write no more.
            unsafe {
                let n = dpdk_sys::rte_eth_xstats_get_names(member.id, std::ptr::null_mut(), 0);
                let Ok(n) = usize::try_from(n) else { continue };
                let mut names = vec![std::mem::zeroed::<dpdk_sys::rte_eth_xstat_name>(); n];
                let mut values = vec![std::mem::zeroed::<dpdk_sys::rte_eth_xstat>(); n];
                if dpdk_sys::rte_eth_xstats_get_names(member.id, names.as_mut_ptr(), n as u32) != n as i32
                    || dpdk_sys::rte_eth_xstats_get(member.id, values.as_mut_ptr(), n as u32) != n as i32
                {
                    continue;
                }
                for value in &values {
                    let Some(name) = names.get(value.id as usize) else { continue };
                    let name = c_text(&name.name);
                    let name = if self.members.len() > 1 { format!("q{queue}.{name}") } else { name };
                    all.push((name, value.value));
                }
            }
        }
        all
    }

    fn set(&self, doing: &'static str, f: impl Fn(u16) -> i32) -> Result<(), Error> {
        if self.state() == PortState::Gone {
            return Err(Error::port(&self.name, doing, "its device has gone"));
        }
        for member in &self.members {
            let mark = Mark::now();
            let status = f(member.id);
            if status != 0 {
                return Err(Error::port(&self.name, doing, mark.quote_or(|| errno_text(status))));
            }
        }
        Ok(())
    }

    /// Sets the largest network packet, in bytes, as far as the port's buffers go.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        const DOING: &str = "setting its MTU";
        let headroom = DEFAULT_HEADROOM + if self.kind == PortKind::AfXdp { XDP_HEADROOM } else { 0 };
        let largest = self.pool.buffer_len() - headroom - FRAME_EXTRA;
        if mtu as usize > largest {
            return Err(Error::port(
                &self.name,
                DOING,
                format!("its buffers take at most {largest}; open it with that MTU"),
            ));
        }
        match &self.interface {
            Some(interface) => (Control::open().and_then(|control| control.set_mtu(&interface.name, mtu)))
                .map_err(|error| Error::interface(&interface.name, DOING, &error))?,
            // SAFETY: the port exists.
            None => self.set(DOING, |id| unsafe { dpdk_sys::rte_eth_dev_set_mtu(id, mtu as u16) })?,
        }
        self.mtu.store(mtu, Ordering::Relaxed);
        Ok(())
    }

    /// Switches receiving what is addressed to others on or off.
    pub fn set_promisc(&self, on: bool) -> Result<(), Error> {
        self.set("setting promiscuous mode", |id| {
            // SAFETY: the port exists.
            unsafe {
                if on {
                    dpdk_sys::rte_eth_promiscuous_enable(id)
                } else {
                    dpdk_sys::rte_eth_promiscuous_disable(id)
                }
            }
        })
    }

    /// Sets the table that maps hash values to receive queues; as many entries as [`Port::reta`] returns.
    pub fn set_reta(&self, queues: &[u16]) -> Result<(), Error> {
        let n = u16::try_from(queues.len()).unwrap_or(u16::MAX);
        // SAFETY: the port exists; `n` entries are there, or the shim refuses `n`.
        self.set("setting its redirection table", |id| unsafe {
            dpdk_sys::valiant_reta_set(id, queues.as_ptr(), n)
        })
    }

    /// The table that maps hash values to receive queues; empty when the device has none.
    pub fn reta(&self) -> Vec<u16> {
        let id = self.members[0].id;
        let n = port_info(id).map_or(0, |info| info.reta_size);
        let mut queues = vec![0; n.into()];
        // SAFETY: the port exists; there is room for `n` entries.
        let known = n != 0 && unsafe { dpdk_sys::valiant_reta_get(id, queues.as_mut_ptr(), n) } == 0;
        if known { queues } else { Vec::new() }
    }

    /// Sets the key of the hash that spreads packets over the receive queues, while it runs where the driver can.
    pub fn set_rss_key(&self, key: &[u8]) -> Result<(), Error> {
        let n = u8::try_from(key.len()).unwrap_or(u8::MAX);
        // SAFETY: the port exists; the key has at least `n` bytes.
        self.set("setting its RSS key", |id| unsafe { dpdk_sys::valiant_rss_key_set(id, key.as_ptr(), n) })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.members.clear();
        if self.kind == PortKind::AfXdp {
            // The driver does not give back what its rings held.
            self.reservation.keep();
        }
        crate::table::closed(&self.spec);
    }
}

/// Deals the device's receive queues out to at most `wanted` queues, so that none is left unpolled.
fn queues_of(sources: &[DeviceQueue], wanted: u16) -> Vec<Box<[DeviceQueue]>> {
    let n = usize::from(wanted).min(sources.len());
    (0..n).map(|i| sources.iter().skip(i).step_by(n).copied().collect()).collect()
}

/// Gives each of `wanted` transmit queues one of the device's, with a lock when there are too few.
fn sinks_of(sinks: &[DeviceQueue], wanted: u16) -> Vec<(DeviceQueue, Option<Arc<Mutex<()>>>)> {
    let wanted = if sinks.is_empty() { 0 } else { usize::from(wanted) };
    let locks: Vec<Arc<Mutex<()>>> = sinks.iter().map(|_| Arc::default()).collect();
    let users = |sink: usize| (wanted + sinks.len() - 1 - sink) / sinks.len();
    (0..wanted)
        .map(|i| {
            let sink = i % sinks.len();
            (sinks[sink], (users(sink) > 1).then(|| Arc::clone(&locks[sink])))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device_queues(n: u16) -> Vec<DeviceQueue> {
        (0..n).map(|port| DeviceQueue { port, queue: 0, socket: None }).collect()
    }

    #[test]
    fn every_device_queue_is_polled_by_one() {
        let dealt = queues_of(&device_queues(5), 2);
        let ports = |queue: &[DeviceQueue]| queue.iter().map(|source| source.port).collect::<Vec<_>>();
        assert_eq!(dealt.iter().map(|queue| ports(queue)).collect::<Vec<_>>(), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(queues_of(&device_queues(1), 4).len(), 1);
        assert!(queues_of(&device_queues(2), 0).is_empty());
    }

    #[test]
    fn only_shared_transmit_queues_have_a_lock() {
        let locked = |devices, wanted| -> Vec<bool> {
            sinks_of(&device_queues(devices), wanted).iter().map(|(_, lock)| lock.is_some()).collect()
        };
        assert_eq!(locked(2, 2), [false, false]);
        assert_eq!(locked(2, 3), [true, false, true]);
        assert_eq!(locked(1, 2), [true, true]);
        assert_eq!(locked(0, 2), []);
    }

    #[test]
    fn needs_add_up() {
        let mut needs = PortConfig { rx_queues: 2, rx_desc: 256, mtu: Some(1400), ..PortConfig::default() };
        needs.merge(&PortConfig {
            tx_queues: 3,
            promisc: true,
            method: Method::AfPacket,
            ..PortConfig::default()
        });
        assert_eq!((needs.rx_queues, needs.tx_queues, needs.rx_desc, needs.mtu), (2, 3, 256, Some(1400)));
        assert!(needs.promisc);
        assert_eq!(needs.method, Method::AfPacket);
    }
}
