//! A DPDK device is plugged in, configured as far as its driver supports it, and started.

use std::ffi::CString;

use dpdk_sys::{VALIANT_RSS_TYPES, VALIANT_RX_RSS_HASH, VALIANT_RX_SCATTER, valiant_port_config};

use super::buffers::FRAME_EXTRA;
use super::changed::Changed;
use super::member::{BusDevice, Member, Sockets, c_text, port_info};
use crate::buffer::DEFAULT_HEADROOM;
use crate::eal::Eal;
use crate::error::{Error, errno_text};
use crate::log::Mark;
use crate::memifport::Deviceless;
use crate::mempool::{Mempool, Reservation};
use crate::needs::PortConfig;
use crate::netdev::Interface;
use crate::rights::{self, Capability};
use crate::spec::PortSpec;
use crate::status::PortKind;
use crate::watch;

/// Drivers that cannot be relied on to tell that the link has changed: `net_e1000_em` leaves the interrupts
/// as they are that vfio has set up (MSI-X); `net_vmxnet3` finds no event when QEMU's device has one. Without
/// such interrupts the link is read from the device whenever somebody asks for it.
const LINK_UNTOLD: [&str; 2] = ["net_e1000_em", "net_vmxnet3"];
/// Drivers whose interrupts for packets have been tried. Others may not start with them, where interrupts are
/// few.
const PACKETS_TOLD: [&str; 2] = ["net_virtio", "net_vmxnet3"];
/// What was being done when a receive queue could not be set up.
pub(super) const RX_SETUP: &str = "setting a receive queue up";

/// Properties of a device before it is configured.
pub(super) struct Opening<'a> {
    pub(super) spec: &'a PortSpec,
    pub(super) config: &'a PortConfig,
    pub(super) notes: Vec<String>,
    pub(super) changed: Changed,
}

/// The parts of an open port that depend on its kind.
pub(crate) struct Opened {
    pub(crate) kind: PortKind,
    pub(crate) choice: String,
    pub(crate) notes: Vec<String>,
    pub(crate) interface: Option<Interface>,
    /// Dropped before the buffers are promised to others.
    pub(crate) members: Vec<Member>,
    /// Instead of DPDK ports.
    pub(crate) sockets: Option<Sockets>,
    /// Instead of both.
    pub(crate) virtual_port: Option<Deviceless>,
    pub(crate) changed: Changed,
    pub(crate) reservation: Reservation,
}

impl Opening<'_> {
    /// Adds to an error which capability is missing, if the router has given up one that a driver needs.
    pub(super) fn may_open(&self, needed: &[Capability]) -> Result<(), Error> {
        rights::missing(needed)
            .map_or(Ok(()), |(what, fix)| Err(self.error("opening it", what).with_fix(fix)))
    }

    pub(super) fn error(&self, doing: &'static str, reason: impl Into<String>) -> Error {
        Error::port(&self.spec.to_string(), doing, reason)
    }

    /// Plugs a device in and returns its first port, and whether it was not there before.
    pub(super) fn plug(&mut self, devargs: &str) -> Result<(u16, bool), Error> {
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
    pub(super) fn device(&mut self) -> Result<(u16, Option<BusDevice>), Error> {
        match self.spec {
            PortSpec::Interface(_) | PortSpec::Virtual(_) => {
                Err(self.error("opening it", "it is not a DPDK device"))
            }
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
    pub(super) fn start(
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
                "the device has {max_rx} receive and {max_tx} transmit queues, {rx} and {tx} were requested"
            ));
        }
        let largest = if info.max_mtu == 0 { u32::from(u16::MAX) } else { info.max_mtu.into() };
        let mut mtu = mtu.unwrap_or(0);
        if mtu > largest {
            self.notes.push(format!("the driver's largest MTU is {largest}, {mtu} was requested"));
            mtu = largest;
        }
        // Devices have keys of 40 or 52 bytes; what hashes addresses and ports lies in the first 40.
        let key: Option<Vec<u8>> = (self.config.rss_key.as_ref())
            .filter(|key| !key.is_empty() && info.rss_key_size > 0)
            .map(|key| key.iter().copied().cycle().take(info.rss_key_size.into()).collect());
        let driver = c_text(&info.driver);
        let interrupts = matches!(self.spec, PortSpec::Pci { .. }) && PACKETS_TOLD.contains(&driver.as_str());
        let mut settings = valiant_port_config {
            rx_queues: member.rx_queues,
            tx_queues: member.tx_queues,
            mtu,
            rx_offloads: 0,
            tx_offloads: 0,
            rss_types: info.rss_types & VALIANT_RSS_TYPES,
            rss_key: key.as_ref().map_or(std::ptr::null(), Vec::as_ptr),
            rss_key_len: key.as_ref().map_or(0, |key| key.len() as u8),
            lsc: if LINK_UNTOLD.contains(&driver.as_str()) { 0 } else { info.has_lsc },
            rmv: info.has_rmv,
            rx_interrupts: interrupts.into(),
        };
        if mtu as usize + FRAME_EXTRA + DEFAULT_HEADROOM > buffer_len
            && info.rx_offloads & VALIANT_RX_SCATTER != 0
        {
            settings.rx_offloads |= VALIANT_RX_SCATTER;
        }
        // The hash that distributes flows over queues is also useful to elements that use flows; without RSS
        // the device computes no hash.
        if settings.rx_queues > 1 && settings.rss_types != 0 {
            settings.rx_offloads |= info.rx_offloads & VALIANT_RX_RSS_HASH;
        }
        // SAFETY: the port exists; the key lives until the end of this function.
        let mut status = unsafe { dpdk_sys::valiant_port_configure(id, &settings) };
        if status != 0
            && (member.rx_queues > 1
                || member.tx_queues > 1
                || settings.mtu != 0
                || settings.lsc != 0
                || settings.rx_interrupts != 0)
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
            settings.rx_interrupts = 0;
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

/// What to do about a PCI device that no DPDK driver accepted.
fn pci_advice(address: &str) -> (String, String) {
    let device = std::path::Path::new("/sys/bus/pci/devices").join(address);
    if !device.exists() {
        return ("there is no such PCI device".to_owned(), "lspci -D | grep -i net".to_owned());
    }
    let driver = std::fs::read_link(device.join("driver"));
    let driver = driver.ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    match driver.as_deref() {
        Some("vfio-pci") if !vfio_has_iommu() => {
            ("vfio has no driver for the IOMMU".to_owned(), VFIO_IOMMU.to_owned())
        }
        Some("vfio-pci" | "uio_pci_generic" | "igb_uio") => (String::new(), String::new()),
        Some(driver) => (format!("it is bound to the kernel driver {driver}"), binding(address, true)),
        None => ("it is not bound to a driver".to_owned(), binding(address, false)),
    }
}

/// The command that loads the driver for the IOMMU, which comes with vfio-pci where modules say what they are
/// used with.
pub(crate) const VFIO_IOMMU: &str = "modprobe vfio_iommu_type1";

/// Whether vfio can map memory for devices: it is a part of the kernel, or a module that is loaded.
pub(crate) fn vfio_has_iommu() -> bool {
    std::path::Path::new("/sys/module/vfio_iommu_type1").exists()
}

/// The command that gives a PCI device to vfio-pci. The kernel alone is needed for it.
pub(crate) fn binding(address: &str, bound: bool) -> String {
    let device = format!("/sys/bus/pci/devices/{address}");
    let unbind = if bound { format!(" && echo {address} > {device}/driver/unbind") } else { String::new() };
    format!(
        "modprobe vfio-pci && echo vfio-pci > {device}/driver_override{unbind} && echo {address} > /sys/bus/pci/drivers_probe"
    )
}

/// A number with its noun, in words.
pub(crate) fn count(n: u16, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}
