//! What a port offers to a router, found by asking and by trying: what its driver says, which calls it
//! accepts, and what can be seen to work with frames that are sent to it.
//!
//! Nothing here knows a driver by its name. Everything that a trial changes is set back.

mod found;
mod frames;
mod live;
mod offloads;
mod rules;

use crate::eal::{Eal, EalOptions};
use crate::error::{Error, errno_text};
use crate::needs::{Method, PortConfig};
use crate::open::c_text;
use crate::port::Port;
use crate::spec::PortSpec;
use crate::table::open;

use dpdk_sys::valiant_nic_info;
use found::{Bench, DESCRIPTORS, MOST_QUEUES, queues};
use frames::Frames;

pub use found::{Ability, Knob, Nic, NicOptions, Said, Tried, Way};

/// Opens a port, tries what it can do, and closes it. It must not be in use.
///
/// # Errors
/// The port cannot be opened.
pub fn probe(spec: &PortSpec, eal: &EalOptions, options: &NicOptions) -> Result<Nic, Error> {
    let mut eal = eal.clone();
    if let PortSpec::Pci { address, devargs } = spec {
        eal.pci.push(format!("{address}{devargs}"));
    }
    Eal::init(&eal)?;
    let needs = PortConfig {
        rx_queues: MOST_QUEUES,
        tx_queues: MOST_QUEUES,
        rx_desc: DESCRIPTORS,
        tx_desc: DESCRIPTORS,
        method: Method::Auto,
        ..PortConfig::default()
    };
    let port = open(spec, &needs)?;
    let mut nic = Nic {
        port: port.name().to_owned(),
        driver: port.driver().to_owned(),
        firmware: String::new(),
        choice: port.choice().to_owned(),
        mac: port.mac(),
        numa_node: port.numa_node(),
        way: Way::None,
        abilities: Vec::new(),
        knobs: Vec::new(),
        notes: Vec::new(),
    };
    let [device] = *port.devices() else {
        nic.notes.push(match port.devices().len() {
            0 => "no DPDK device is behind it, so nothing is done by hardware through DPDK".to_owned(),
            n => format!("each of its {n} queues is a DPDK device of its own; examined is none of them"),
        });
        nic.notes.push(format!(
            "to examine DPDK's driver for packet sockets: net_af_packet0,iface={}",
            port.name()
        ));
        nic.abilities.push(queues("receive", Said::Nothing, port.rx_queues(), Tried::Not(String::new())));
        nic.abilities.push(queues("transmit", Said::Nothing, port.tx_queues(), Tried::Not(String::new())));
        return Ok(nic);
    };
    let info = asked(&port, device)?;
    nic.firmware = c_text(&info.firmware);
    let mut bench = Bench { port, device, info, abilities: Vec::new(), knobs: Vec::new(), notes: Vec::new() };
    let mut frames = Frames::open(&bench.port, info.if_index, options.frames);
    nic.way = frames.way();
    bench.queues(&mut frames);
    bench.hash(&mut frames);
    bench.rules(&mut frames, options.most_rules);
    bench.vlan(&mut frames);
    bench.scheduling();
    bench.time();
    // The queues have to be free before the port is stopped.
    drop(frames);
    bench.knobs();
    bench.offloads();
    Ok(Nic { abilities: bench.abilities, knobs: bench.knobs, notes: bench.notes, ..nic })
}

/// What the driver of a device says of it.
fn asked(port: &Port, device: u16) -> Result<valiant_nic_info, Error> {
    // SAFETY: plain data that the function fills or leaves; the port exists.
    unsafe {
        let mut info = std::mem::zeroed();
        match dpdk_sys::valiant_nic_info(device, &mut info) {
            0 => Ok(info),
            status => Err(Error::port(port.name(), "asking its driver", errno_text(status))),
        }
    }
}

/// The version of the firmware of a port's device, where its driver says it.
#[must_use]
pub fn firmware(port: &Port) -> Option<String> {
    let [device] = *port.devices() else { return None };
    let version = c_text(&asked(port, device).ok()?.firmware);
    (!version.is_empty()).then_some(version)
}
