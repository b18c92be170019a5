//! Opening a port of any kind: finding the device, configuring it as far as its driver supports it, starting
//! it.

mod buffers;
mod changed;
mod interface;
mod member;
mod opening;

use crate::buffer::STANDARD_BUFFER;
use crate::eal::Eal;
use crate::error::Error;
use crate::memifport::Deviceless;
use crate::mempool;
use crate::needs::PortConfig;
use crate::spec::PortSpec;
use crate::status::PortKind;
use interface::open_interface;
use member::BusDevice;
use opening::Opening;

pub(crate) use buffers::{FRAME_EXTRA, XDP_HEADROOM, buffers_wanted};
pub(crate) use changed::Changed;
pub(crate) use interface::{af_xdp_fits, af_xdp_missing, prefers_sockets};
pub(crate) use member::{DeviceQueue, Member, PortQueue, Sockets, c_text, port_info};
pub(crate) use opening::{Opened, VFIO_IOMMU, binding, count, vfio_has_iommu};

fn numa_of(id: u16) -> Option<usize> {
    // All 4 KB pages are one heap, whatever the node.
    if !Eal::get().is_some_and(|eal| eal.hugepages() && eal.numa()) {
        return None;
    }
    port_info(id).and_then(|info| usize::try_from(info.numa_node).ok())
}

fn open_device(opening: &mut Opening<'_>, id: u16, bus_device: Option<BusDevice>) -> Result<Opened, Error> {
    let mut member = Member::new(id, bus_device);
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
        sockets: None,
        virtual_port: None,
        changed: Changed::default(),
        reservation,
    })
}

fn open_virtual(opening: &Opening<'_>, name: &str) -> Result<Opened, Error> {
    let Some(inner) = Deviceless::find(name) else {
        let error = opening.error("opening it", "there is no virtual interface of this name");
        return Err(
            error.with_fix("run the configuration as a virtual router (`valiant vr`), which makes them")
        );
    };
    Ok(Opened {
        kind: PortKind::Virtual,
        choice: format!("{}: {}", opening.spec, inner.kind()),
        notes: Vec::new(),
        interface: None,
        members: Vec::new(),
        sockets: None,
        virtual_port: Some(inner),
        changed: Changed::default(),
        reservation: mempool::reserve(None, 0, STANDARD_BUFFER)?,
    })
}

/// Whether the device has the queues that are requested by their numbers: they determine how many buffers a
/// port needs.
pub(crate) fn check_numbers(spec: &PortSpec, config: &PortConfig) -> Result<(), Error> {
    let highest = |numbers: &[u16]| numbers.iter().max().copied().unwrap_or(0);
    let (rx, tx) = (highest(&config.rx_numbers), highest(&config.tx_numbers));
    // Every device has a queue 0.
    if (rx, tx) == (0, 0) || matches!(spec, PortSpec::Virtual(_)) {
        return Ok(());
    }
    let (max_rx, max_tx) = if matches!(spec, PortSpec::Interface(_)) {
        (buffers::XDP_QUEUES_MAX, buffers::XDP_QUEUES_MAX)
    } else {
        // Dropped when the device is unplugged again.
        let mut opening = Opening { spec, config, notes: Vec::new(), changed: Changed::default() };
        let (id, bus_device) = opening.device()?;
        let info = port_info(id);
        // Unplugged again: it is opened later, with the others.
        drop(bus_device.map(|bus_device| Member::new(id, Some(bus_device))));
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

/// Opens the port that `spec` names, with the queues that `config` requests, as far as the driver supports
/// them.
pub(crate) fn open(spec: &PortSpec, config: &PortConfig) -> Result<Opened, Error> {
    let mut opening = Opening { spec, config, notes: Vec::new(), changed: Changed::default() };
    let mut interface = None;
    let opened = match spec {
        PortSpec::Interface(name) => {
            let (opened, found) = open_interface(&mut opening, name)?;
            interface = Some(found);
            opened
        }
        PortSpec::Virtual(name) => open_virtual(&opening, name)?,
        _ => {
            let (id, bus_device) = opening.device()?;
            open_device(&mut opening, id, bus_device)?
        }
    };
    Ok(Opened { notes: opening.notes, interface, changed: opening.changed, ..opened })
}
