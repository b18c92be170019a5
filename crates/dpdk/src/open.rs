//! Opening a port, whatever its kind: finding the device, configuring it as far as its driver goes, starting it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dpdk_sys::{
    VALIANT_RSS_TYPES, VALIANT_RX_RSS_HASH, VALIANT_RX_SCATTER, valiant_port_config, valiant_port_info,
};

use crate::eal::Eal;
use crate::error::{Error, errno_text, reason};
use crate::log::Mark;
use crate::mempool::{self, Mempool, PAGE_BUFFER, Reservation, STANDARD_BUFFER};
use crate::netdev::{self, Control, Interface};
use crate::packet::{DEFAULT_HEADROOM, MAX_BUFFER};
use crate::port::{Method, PortConfig, PortKind};
use crate::queue::DeviceQueue;
use crate::rights::{self, Capability};
use crate::spec::PortSpec;
use crate::watch;
use crate::xsk::Rings;

/// Bytes that a frame has beyond its network packet: Ethernet header and two VLAN tags.
pub(crate) const FRAME_EXTRA: usize = 14 + 8;
/// Bytes that the kernel keeps before the data of an AF_XDP frame, beyond our headroom.
pub(crate) const XDP_HEADROOM: usize = 256;
const RX_SETUP: &str = "setting a receive queue up";
/// The largest AF_XDP frame.
const XDP_FRAME_MAX: usize = PAGE_BUFFER - DEFAULT_HEADROOM - XDP_HEADROOM;
/// Buffers that DPDK's AF_XDP driver puts into the rings of one queue.
const XDP_RING: usize = 4096 + 2048;
/// Those that it puts in at first.
const XDP_FILL: usize = 2048;
/// The most queues of one interface that AF_XDP takes; each is a DPDK device, of which there are 32 in Debian's DPDK.
const XDP_QUEUES_MAX: u16 = 16;

/// One DPDK port behind a `Port`.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: u16,
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    rx_desc: u16,
    /// The bus and the device to unplug with it, when we plugged it in.
    plugged: Option<Plugged>,
    started: bool,
    /// Whether we made it promiscuous, which an interface would stay.
    promisc: bool,
    /// What there is to clean up when it works by AF_XDP.
    xdp: Option<Xdp>,
    /// The driver's sockets, one for each receive queue, when it works by sockets: they tell when packets have arrived.
    sockets: Vec<RawFd>,
}

/// What an AF_XDP device leaves behind.
#[derive(Debug)]
struct Xdp {
    pool: Mempool,
    descriptors: u16,
    /// DPDK 22.11's driver does not survive closing a device whose socket it could not make: that device stays, with its
    /// buffers, which only happens when somebody else has the interface's queue.
    failed: bool,
}

/// When the last AF_XDP socket was closed.
static XDP_CLOSED: Mutex<Option<Instant>> = Mutex::new(None);
/// How long the kernel takes to let go of a queue after that.
const XDP_RELEASE: Duration = Duration::from_millis(100);

impl Member {
    fn new(id: u16, plugged: Option<Plugged>) -> Member {
        Member {
            id,
            rx_queues: 0,
            tx_queues: 0,
            rx_desc: 0,
            plugged,
            started: false,
            promisc: false,
            xdp: None,
            sockets: Vec::new(),
        }
    }

    pub(crate) fn is_promiscuous(&self) -> bool {
        self.promisc
    }

    pub(crate) fn queue(&self, queue: u16) -> DeviceQueue {
        // Sockets and queues were made in the same order; any other number of sockets is a mystery.
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
            if let Some((bus, device)) = self.plugged.as_ref().filter(|_| !failed) {
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
                *XDP_CLOSED.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            }
        }
    }
}

/// The bus and the name of a device that goes with its port.
type Plugged = (&'static CStr, CString);

/// What is known of a device before it is configured.
struct Opening<'a> {
    spec: &'a PortSpec,
    config: &'a PortConfig,
    notes: Vec<String>,
    changed: Changed,
}

/// What opening a port has changed outside the process: undone when this is dropped, unless the port is kept.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// The interface, its MTU before, and whether it was switched off.
    interface: Option<(String, Option<u32>, bool)>,
    /// Files that a driver has written anew, and where their old contents are, if there were any.
    files: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Changed {
    /// Remembers an interface before it is changed.
    fn interface(&mut self) -> &mut (String, Option<u32>, bool) {
        self.interface.get_or_insert_default()
    }

    /// Puts the files aside that a device of DPDK's driver for capture files is going to write: it empties them when it is
    /// plugged in.
    fn put_aside(&mut self, devargs: &str) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !devargs.starts_with("net_pcap") || !self.files.is_empty() {
            return;
        }
        for path in devargs.split(',').filter_map(|argument| argument.strip_prefix("tx_pcap=")) {
            // A symbolic link that leads to nothing: what it leads to is made, and stays.
            let Some(path) = written(Path::new(path)) else { continue };
            let mut aside = aside();
            if aside.contains(&path) {
                continue;
            }
            let Ok(meta) = fs::metadata(&path) else {
                aside.push(path.clone());
                self.files.push((path, None));
                continue;
            };
            if !meta.is_file() {
                continue;
            }
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let kept = path.with_added_extension(format!("kept-{}-{number}", std::process::id()));
            // Where the directory cannot be written the driver may still write the file: that is then as it is.
            if fs::rename(&path, &kept).is_ok() {
                // If that fails, the driver makes the file.
                let _ = make_like(&path, &meta);
                aside.push(path.clone());
                self.files.push((path, Some(kept)));
            }
        }
    }

    /// Nothing is to be undone any more.
    pub(crate) fn keep(&mut self) {
        self.interface = None;
        for (path, kept) in self.files.drain(..) {
            // It may have been removed by somebody else.
            let _ = kept.map(fs::remove_file);
            aside().retain(|other| *other != path);
        }
    }
}

impl Drop for Changed {
    /// As far as that can be done: whoever could open the port can also do this, as a rule.
    fn drop(&mut self) {
        if let Some((name, mtu, down)) = self.interface.take()
            && let Ok(control) = Control::open()
        {
            if let Some(mtu) = mtu {
                let _ = control.set_mtu(&name, mtu);
            }
            if down {
                let _ = control.set_up(&name, false);
            }
        }
        for (path, kept) in self.files.drain(..) {
            let _ = match kept {
                Some(kept) => fs::rename(kept, &path),
                None => fs::remove_file(&path),
            };
            aside().retain(|other| *other != path);
        }
    }
}

/// The files of all ports that may get their old contents back. What another device finds there in the meantime is not worth
/// keeping, and must not take their place.
fn aside() -> MutexGuard<'static, Vec<PathBuf>> {
    static ASIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    ASIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file that is written by this name: what a symbolic link leads to. `None` if that cannot be said.
fn written(path: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(path).is_ok() {
        return fs::canonicalize(path).ok();
    }
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(directory).ok()?.join(path.file_name()?))
}

/// Makes an empty file that the same people may read as another one.
fn make_like(path: &Path, meta: &fs::Metadata) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
    file.set_permissions(meta.permissions())
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
            (rings.max(queues) + config.extra_buffers, xdp_buffer(&interface, mtu))
        }
        _ => (queues + config.extra_buffers + preloaded(spec), frame_buffer(mtu)),
    }
}

/// The packets that `net_pcap` keeps in buffers when it repeats its files for ever.
fn preloaded(spec: &PortSpec) -> usize {
    let PortSpec::Vdev(devargs) = spec else { return 0 };
    let arguments = || devargs.split(',').skip(1).filter_map(|argument| argument.split_once('='));
    if !devargs.starts_with("net_pcap")
        || !arguments().any(|(key, value)| key == "infinite_rx" && value != "0")
    {
        return 0;
    }
    // A file that cannot be read is the driver's to complain about.
    let files = arguments().filter(|(key, _)| *key == "rx_pcap").filter_map(|(_, path)| fs::read(path).ok());
    files.map(|file| packets_in(&file)).sum()
}

/// How many packets a pcap file has (draft-ietf-opsawg-pcap: a header of 24 bytes, 16 before each packet).
fn packets_in(file: &[u8]) -> usize {
    let swapped = matches!(file.first_chunk(), Some(&([0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d])));
    let (mut rest, mut count) = (file.get(24..).unwrap_or_default(), 0);
    while let Some(&length) = rest.get(8..).and_then(|r| r.first_chunk()) {
        let length = if swapped { u32::from_be_bytes(length) } else { u32::from_le_bytes(length) };
        let Some(next) = rest.get(16 + length as usize..) else { break };
        (rest, count) = (next, count + 1);
    }
    count
}

fn frame_buffer(mtu: usize) -> usize {
    (DEFAULT_HEADROOM + mtu + FRAME_EXTRA).clamp(STANDARD_BUFFER, MAX_BUFFER)
}

/// Drivers that copy between AF_XDP frames and buffers of their own, so that frames may lie anywhere.
const XDP_COPIES: [&str; 6] = ["", "veth", "tun", "bridge", "macvlan", "vxlan"];

fn xdp_buffer(interface: &Interface, mtu: usize) -> usize {
    let needed = (DEFAULT_HEADROOM + XDP_HEADROOM + mtu + FRAME_EXTRA).max(STANDARD_BUFFER);
    // SAFETY: any time after the environment has started, or before, when the answer does not matter.
    let virtual_addresses = unsafe { dpdk_sys::valiant_iova_is_va() } != 0;
    if XDP_COPIES.contains(&interface.driver.as_str()) && virtual_addresses {
        needed.min(PAGE_BUFFER)
    } else {
        PAGE_BUFFER
    }
}

impl Opening<'_> {
    /// Says what is missing where the router has given up what a driver needs.
    fn may_open(&self, needed: &[Capability]) -> Result<(), Error> {
        rights::missing(needed)
            .map_or(Ok(()), |(what, fix)| Err(self.error("opening it", what).with_fix(fix)))
    }

    fn error(&self, doing: &'static str, reason: impl Into<String>) -> Error {
        Error::port(&self.spec.to_string(), doing, reason)
    }

    /// Plugs a device in and returns its first port, and whether it was not there before.
    fn plug(&mut self, devargs: &str) -> Result<(u16, bool), Error> {
        let name = devargs.split(',').next().unwrap_or_default();
        let c =
            |text: &str| CString::new(text).map_err(|_| self.error("opening it", "a zero byte in its name"));
        let (c_devargs, c_name) = (c(devargs)?, c(name)?);
        let mut id = 0;
        // SAFETY: C strings and a place for the number.
        if unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut id) } == 0 {
            return Ok((id, false));
        }
        self.may_open(rights::needed_for(devargs))?;
        self.changed.put_aside(devargs);
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

    /// The DPDK port that is meant, plugged in, and what there is to unplug afterwards.
    fn device(&mut self) -> Result<(u16, Option<Plugged>), Error> {
        match self.spec {
            PortSpec::Interface(_) => Err(self.error("opening it", "it is no DPDK device")),
            PortSpec::Id(id) => {
                // SAFETY: takes any number.
                if unsafe { dpdk_sys::rte_eth_dev_is_valid_port(*id) } == 0 {
                    // SAFETY: no arguments.
                    let count = unsafe { dpdk_sys::rte_eth_dev_count_avail() };
                    return Err(self.error("opening it", format!("DPDK has {count} ports")));
                }
                Ok((*id, None))
            }
            PortSpec::Vdev(devargs) => {
                let (id, new) = self.plug(devargs)?;
                let device = CString::new(self.spec.device().unwrap_or_default()).unwrap_or_default();
                Ok((id, new.then_some((c"vdev", device))))
            }
            PortSpec::Pci { address, devargs } => {
                let (id, new) = self.plug(&format!("{address}{devargs}")).map_err(|error| {
                    let (why, fix) = pci_advice(address);
                    if why.is_empty() { error } else { self.error("opening it", why).with_fix(fix) }
                })?;
                let device = CString::new(address.as_str()).unwrap_or_default();
                Ok((id, new.then_some((c"pci", device))))
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
        // Devices have keys of 40 or 52 bytes; what hashes addresses and ports lies in the first 40.
        let key: Option<Vec<u8>> = (self.config.rss_key.as_ref())
            .filter(|key| !key.is_empty() && info.rss_key_size > 0)
            .map(|key| key.iter().copied().cycle().take(info.rss_key_size.into()).collect());
        let mut settings = valiant_port_config {
            rx_queues: member.rx_queues,
            tx_queues: member.tx_queues,
            mtu,
            rx_offloads: 0,
            tx_offloads: 0,
            rss_types: info.rss_types & VALIANT_RSS_TYPES,
            rss_key: key.as_ref().map_or(std::ptr::null(), Vec::as_ptr),
            rss_key_len: key.as_ref().map_or(0, |key| key.len() as u8),
            lsc: info.has_lsc,
            rmv: info.has_rmv,
            rx_interrupts: 0,
        };
        if mtu as usize + FRAME_EXTRA + DEFAULT_HEADROOM > buffer_len
            && info.rx_offloads & VALIANT_RX_SCATTER != 0
        {
            settings.rx_offloads |= VALIANT_RX_SCATTER;
        }
        // What spreads flows over queues is of use to those who look at flows later; without it the device has no hash.
        if settings.rx_queues > 1 && settings.rss_types != 0 {
            settings.rx_offloads |= info.rx_offloads & VALIANT_RX_RSS_HASH;
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
            settings.rx_offloads &= !VALIANT_RX_RSS_HASH;
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
        member.rx_desc = rx_desc;
        // -1: any node.
        let node = if Eal::get().is_some_and(Eal::numa) { info.numa_node } else { -1 };
        for queue in 0..member.rx_queues {
            // SAFETY: the port is configured and not started; the pool is never freed.
            let status = unsafe { dpdk_sys::valiant_rx_queue_setup(id, queue, rx_desc, node, pool.as_ptr()) };
            if status != 0 {
                return Err(failed(self, RX_SETUP, mark, status));
            }
        }
        for queue in 0..member.tx_queues {
            // SAFETY: as above.
            let status = unsafe { dpdk_sys::valiant_tx_queue_setup(id, queue, tx_desc, node) };
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
                member.promisc = status == 0;
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
pub(crate) struct Opened {
    pub(crate) kind: PortKind,
    pub(crate) choice: String,
    pub(crate) notes: Vec<String>,
    pub(crate) interface: Option<Interface>,
    /// Dropped before the buffers are promised to others.
    pub(crate) members: Vec<Member>,
    pub(crate) changed: Changed,
    pub(crate) reservation: Reservation,
}

fn numa_of(id: u16) -> Option<usize> {
    // All 4 KB pages are one heap, whatever the node.
    if !Eal::get().is_some_and(|eal| eal.hugepages() && eal.numa()) {
        return None;
    }
    port_info(id).and_then(|info| usize::try_from(info.numa_node).ok())
}

fn open_device(opening: &mut Opening<'_>, id: u16, plugged: Option<Plugged>) -> Result<Opened, Error> {
    let mut member = Member::new(id, plugged);
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
    Ok(Opened {
        kind: PortKind::Device,
        choice,
        notes: Vec::new(),
        interface: None,
        members: vec![member],
        changed: Changed::default(),
        reservation,
    })
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

/// Whether the interface's packets fit an AF_XDP frame, or why not.
pub(crate) fn af_xdp_fits(interface: &Interface, mtu: u32) -> Result<(), String> {
    if interface.loopback || mtu as usize + FRAME_EXTRA <= XDP_FRAME_MAX {
        return Ok(());
    }
    Err(format!("its MTU is {mtu}, an AF_XDP frame takes at most {}", XDP_FRAME_MAX - FRAME_EXTRA))
}

fn open_af_xdp(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    if let Some(missing) = af_xdp_missing() {
        return Err(opening.error("opening an AF_XDP socket", missing));
    }
    let mtu = opening.config.mtu.unwrap_or(interface.mtu) as usize;
    af_xdp_fits(interface, mtu as u32).map_err(|reason| opening.error("opening AF_XDP sockets", reason))?;
    let queues = interface.rx_queues.min(XDP_QUEUES_MAX);
    let (buffers, buffer_len) = buffers_wanted(opening.spec, opening.config);
    let reservation = mempool::reserve(None, buffers, buffer_len)?;
    if !reservation.pool.suits_af_xdp() {
        return Err(
            opening.error("opening AF_XDP sockets", "the packet buffers are not one stretch of memory")
        );
    }
    let mut members = Vec::new();
    for queue in 0..queues {
        // DPDK 22.11 takes several queues in one device only from drivers with combined channels, which veth is not.
        let name = format!("net_af_xdp{}", watch::unique());
        let devargs = format!("{name},iface={},start_queue={queue},queue_count=1", interface.name);
        let (id, new) = opening.plug(&devargs)?;
        let plugged = new.then(|| (c"vdev", CString::new(name).expect("digits and letters")));
        members.push(Member::new(id, plugged));
        // The BPF libraries come with the driver.
        // SAFETY: the environment runs.
        unsafe { dpdk_sys::valiant_log_capture_bpf() };
        let member = members.last_mut().expect("just pushed");
        let before = sockets(libc::AF_XDP);
        let started = opening.start(member, 1, 1, None, buffer_len, reservation.pool);
        member.sockets = sockets(libc::AF_XDP);
        member.sockets.retain(|socket| !before.contains(socket));
        let failed = matches!(&started, Err(Error::Port { doing: RX_SETUP, .. }));
        member.xdp = Some(Xdp { pool: reservation.pool, descriptors: member.rx_desc, failed });
        started?;
    }
    let choice = format!("{}: AF_XDP, {}", interface.name, count(queues, "queue"));
    Ok(Opened {
        kind: PortKind::AfXdp,
        choice,
        notes: Vec::new(),
        interface: None,
        members,
        changed: Changed::default(),
        reservation,
    })
}

/// The kernel lets go of a queue a little after its last AF_XDP socket was closed, so that is waited for.
fn open_af_xdp_patiently(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    let mut tries = 0..2;
    loop {
        let closed = *XDP_CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = closed.map(|closed| closed.elapsed()) {
            thread::sleep(XDP_RELEASE.saturating_sub(since));
        }
        match open_af_xdp(opening, interface) {
            Err(Error::Port { doing: RX_SETUP, .. }) if tries.next().is_some() => opening.notes.clear(),
            other => return other,
        }
    }
}

fn open_af_packet(opening: &mut Opening<'_>, interface: &Interface, why: &str) -> Result<Opened, Error> {
    let config = opening.config;
    let mtu = config.mtu.unwrap_or(interface.mtu) as usize;
    let queues = config.rx_queues.max(config.tx_queues).clamp(1, XDP_QUEUES_MAX);
    // A ring frame holds the packet after 80 bytes of the kernel's own; the driver wants buffers as large as the frame.
    let frame = (mtu.min(MAX_BUFFER - 1024) + FRAME_EXTRA + 128).next_multiple_of(64).max(2048);
    let block = frame.next_multiple_of(4096);
    let frames = usize::from(config.rx_descriptors()).next_power_of_two().max(block / frame);
    let name = format!("net_af_packet{}", watch::unique());
    let devargs = format!(
        "{name},iface={},qpairs={queues},blocksz={block},framesz={frame},framecnt={frames},qdisc_bypass=1",
        interface.name
    );
    let (buffers, _) =
        buffers_wanted(opening.spec, &PortConfig { method: Method::AfPacket, ..config.clone() });
    let buffer_len = frame_buffer(mtu).max(if frame > 2048 { DEFAULT_HEADROOM + frame } else { 0 });
    let reservation = mempool::reserve(None, buffers, buffer_len)?;
    let before = sockets(libc::AF_PACKET);
    let (id, new) = opening.plug(&devargs).map_err(|error| match error {
        Error::Port { .. } if !is_root() => {
            error.with_fix("run it as root, or with CAP_NET_ADMIN and CAP_NET_RAW")
        }
        other => other,
    })?;
    let plugged = new.then(|| (c"vdev", CString::new(name).expect("digits and letters")));
    let mut member = Member::new(id, plugged);
    opening.start(&mut member, queues, queues, None, buffer_len, reservation.pool)?;
    member.sockets = sockets(libc::AF_PACKET);
    member.sockets.retain(|socket| !before.contains(socket));
    let choice = format!("{}: AF_PACKET, {}, because {why}", interface.name, count(queues, "queue"));
    opening.notes.push("AF_PACKET copies what arrives: the kernel goes on handling it too".to_owned());
    Ok(Opened {
        kind: PortKind::AfPacket,
        choice,
        notes: Vec::new(),
        interface: None,
        members: vec![member],
        changed: Changed::default(),
        reservation,
    })
}

fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

pub(crate) fn count(n: u16, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

fn open_interface(opening: &mut Opening<'_>, name: &str) -> Result<(Opened, Interface), Error> {
    let mut interface = netdev::interface(name).map_err(|_| {
        let names = netdev::names().join(", ");
        opening.error("opening it", format!("there is no such interface; there are {names}"))
    })?;
    let method = match opening.config.method {
        // Before anything is tried: what DPDK's driver has begun in vain it does not clean up.
        Method::Auto if rights::missing(rights::needed_for("net_af_xdp")).is_some() => Method::AfPacket,
        method => method,
    };
    let sets =
        !interface.up || opening.config.promisc || opening.config.mtu.is_some_and(|mtu| mtu != interface.mtu);
    let mut needed = if sets { vec![Capability::NET_ADMIN] } else { Vec::new() };
    let driver = if method == Method::AfXdp { "net_af_xdp" } else { "net_af_packet" };
    needed.extend(rights::needed_for(driver));
    needed.dedup();
    opening.may_open(&needed)?;
    let control = Control::open().map_err(|error| Error::interface(name, "opening a socket", &error))?;
    if let Some(mtu) = opening.config.mtu.filter(|&mtu| mtu != interface.mtu) {
        match control.set_mtu(name, mtu) {
            Ok(()) => {
                opening.changed.interface().1 = Some(interface.mtu);
                interface.mtu = mtu;
            }
            Err(error) => opening.notes.push(format!("the MTU stays {}: {}", interface.mtu, reason(&error))),
        }
    }
    name.clone_into(&mut opening.changed.interface().0);
    if !interface.up {
        control.set_up(name, true).map_err(|error| Error::interface(name, "switching it on", &error))?;
        opening.changed.interface().2 = true;
        interface.up = true;
    }
    let opened = match method {
        Method::AfXdp => open_af_xdp_patiently(opening, &interface)?,
        Method::AfPacket if opening.config.method == Method::AfPacket => {
            open_af_packet(opening, &interface, "it was asked for")?
        }
        Method::AfPacket => open_af_packet(opening, &interface, "the router has given up what AF_XDP needs")?,
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

/// Whether the device has the queues that are asked for by their numbers: they decide how many buffers a port wants.
pub(crate) fn check_numbers(spec: &PortSpec, config: &PortConfig) -> Result<(), Error> {
    let highest = |numbers: &[u16]| numbers.iter().max().copied().unwrap_or(0);
    let (rx, tx) = (highest(&config.rx_numbers), highest(&config.tx_numbers));
    // Every device has a queue 0.
    if (rx, tx) == (0, 0) {
        return Ok(());
    }
    let (max_rx, max_tx) = if matches!(spec, PortSpec::Interface(_)) {
        (XDP_QUEUES_MAX, XDP_QUEUES_MAX)
    } else {
        // Dropped when the device is unplugged again.
        let mut opening = Opening { spec, config, notes: Vec::new(), changed: Changed::default() };
        let (id, plugged) = opening.device()?;
        let info = port_info(id);
        // Unplugged again: it is opened with the others.
        drop(plugged.map(|plugged| Member::new(id, Some(plugged))));
        let Some(info) = info else { return Ok(()) };
        (info.max_rx_queues, info.max_tx_queues)
    };
    for (kind, queue, max) in [("receive", rx, max_rx), ("transmit", tx, max_tx)] {
        if queue >= max.max(1) {
            let reason = format!("does not exist: there are at most {}, counted from 0", max.max(1));
            return Err(Error::Queue { port: spec.to_string(), kind, queue, reason });
        }
    }
    Ok(())
}

/// Opens what `spec` names with the queues that `config` asks for, as far as the driver goes.
pub(crate) fn open(spec: &PortSpec, config: &PortConfig) -> Result<Opened, Error> {
    let mut opening = Opening { spec, config, notes: Vec::new(), changed: Changed::default() };
    let mut interface = None;
    let opened = match spec {
        PortSpec::Interface(name) => {
            let (opened, found) = open_interface(&mut opening, name)?;
            interface = Some(found);
            opened
        }
        _ => {
            let (id, plugged) = opening.device()?;
            open_device(&mut opening, id, plugged)?
        }
    };
    Ok(Opened { notes: opening.notes, interface, changed: opening.changed, ..opened })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_pcap_file_are_counted() {
        let little = [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0; 20]].concat();
        let big = [&[0xa1, 0xb2, 0xc3, 0xd4][..], &[0; 20]].concat();
        let record = |length: [u8; 4]| [&[0; 8][..], &length, &length, &[7; 3]].concat();
        let both = [&little[..], &record([3, 0, 0, 0]), &record([3, 0, 0, 0])].concat();
        assert_eq!(packets_in(&both), 2);
        assert_eq!(packets_in(&both[..both.len() - 1]), 1);
        assert_eq!(packets_in(&[&big[..], &record([0, 0, 0, 3])].concat()), 1);
        assert_eq!((packets_in(&big), packets_in(&[])), (0, 0));
        for length in 0..both.len() {
            assert!(packets_in(&both[..length]) < 2);
        }
    }

    /// Has the files of devices emptied as the driver does it, in a directory of its own.
    fn with_devices(name: &str, test: impl Fn(&Path, &dyn Fn(&str) -> Changed)) {
        let dir = std::env::temp_dir().join(format!("valiant-open-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let plug = |files: &str| {
            let mut changed = Changed::default();
            let files: Vec<_> = files.split(' ').map(|f| dir.join(f)).collect();
            let arguments = files.iter().map(|f| format!(",tx_pcap={}", f.display()));
            changed.put_aside(&format!("net_pcap0{}", arguments.collect::<String>()));
            for file in &files {
                fs::write(file, "new").unwrap();
            }
            changed
        };
        test(&dir, &plug);
        assert!(aside().iter().all(|path| !path.starts_with(&dir)), "all are done with");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_capture_file_comes_back_whoever_wrote_it_too() {
        with_devices("twice", |dir, plug| {
            let names = || fs::read_dir(dir).unwrap().count();
            let old = || fs::read_to_string(dir.join("old")).unwrap();
            fs::write(dir.join("old"), "precious").unwrap();
            drop(plug("old ./old old"));
            assert_eq!((old(), names()), ("precious".into(), 1), "one device, several queues");
            for first in [true, false] {
                let (one, other) = (plug("old new"), plug("./old ./new"));
                let (one, other) = if first { (one, other) } else { (other, one) };
                drop(one);
                drop(other);
                assert_eq!((old(), names()), ("precious".into(), 1), "two devices");
            }
            std::os::unix::fs::symlink("nothing", dir.join("link")).unwrap();
            drop(plug("link"));
            assert!(fs::symlink_metadata(dir.join("link")).is_ok(), "a link that leads to nothing stays");
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn who_may_read_a_capture_file_does_not_change() {
        use std::os::unix::fs::PermissionsExt;
        with_devices("mode", |dir, plug| {
            let path = dir.join("old");
            fs::write(&path, "precious").unwrap();
            for mode in [0o600, 0o640, 0o666] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                plug("old").keep();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
                assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            }
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        });
    }
}
