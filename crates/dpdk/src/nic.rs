//! What a port offers to a router, found by asking and by trying: what its driver says, which calls it
//! accepts, and what can be seen to work with frames that are sent to it.
//!
//! Nothing here knows a driver by its name. Everything that a trial changes is set back.

mod frames;
mod live;
mod offloads;
mod rules;

use std::sync::Arc;

use dpdk_sys::valiant_nic_info;

use crate::eal::{Eal, EalOptions};
use crate::error::{Error, errno_text};
use crate::log::Mark;
use crate::needs::{Method, PortConfig};
use crate::open::c_text;
use crate::port::Port;
use crate::spec::PortSpec;
use crate::table::open;

use frames::Frames;

/// The most queues that are opened to find out what works: each takes memory, and a driver of DPDK 22.11
/// (`net_tap`) writes beyond the end of an array if it starts with more than 8 queues of both kinds together.
const MOST_QUEUES: u16 = 4;
/// Descriptors of each.
const DESCRIPTORS: u16 = 512;

/// What a driver says of an ability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has it; how much of it.
    Yes(String),
    /// It does not.
    No,
    /// DPDK has no way to say so: only trying tells.
    Nothing,
}

impl Said {
    fn of(yes: bool) -> Self {
        if yes { Self::Yes(String::new()) } else { Self::No }
    }
}

/// What came of trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It works; what was seen.
    Yes(String),
    /// It does not, and why.
    No(String),
    /// Why it was not tried.
    Not(String),
}

impl Tried {
    /// What a call says that returns 0 or an error number.
    fn call(f: impl FnOnce() -> i32) -> Self {
        let mark = Mark::now();
        match f() {
            0 => Self::Yes(String::new()),
            status => Self::No(mark.quote_or(|| errno_text(status))),
        }
    }

    /// Whether it works.
    #[must_use]
    pub fn works(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}

/// Something that a device may be able to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// What it belongs to: `queues`, `hash`, `rules` and so on.
    pub area: &'static str,
    /// Its name within that.
    pub name: String,
    /// What the driver says.
    pub advertised: Said,
    /// Whether the driver takes the call that asks for it.
    pub accepted: Tried,
    /// Whether frames show that it works.
    pub seen: Tried,
}

/// When a setting can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The setting.
    pub name: &'static str,
    /// Whether it can be changed while the port runs.
    pub live: Tried,
    /// Whether it can be changed while the port is stopped, tried if it cannot while it runs.
    pub stopped: Tried,
}

/// How frames get to the port, to see what it does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What it sends comes back.
    Back,
    /// By the Linux interface that belongs to it.
    Interface,
    /// None is known.
    None,
    /// The caller has not allowed any.
    Forbidden,
}

/// All that was found.
#[derive(Clone, Debug)]
pub struct Nic {
    /// The port as it was asked for.
    pub port: String,
    /// The DPDK driver.
    pub driver: String,
    /// The version of its firmware, or nothing.
    pub firmware: String,
    /// How the port reaches its device.
    pub choice: String,
    /// The link address.
    pub mac: [u8; 6],
    /// The NUMA node.
    pub numa_node: Option<usize>,
    /// How frames got to it.
    pub way: Way,
    /// What it can do.
    pub abilities: Vec<Ability>,
    /// When its settings can be changed.
    pub knobs: Vec<Knob>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

impl Nic {
    /// The ability of this area and name.
    #[must_use]
    pub fn ability(&self, area: &str, name: &str) -> Option<&Ability> {
        self.abilities.iter().find(|ability| ability.area == area && ability.name == name)
    }
}

/// How a port is examined.
#[derive(Clone, Debug)]
pub struct NicOptions {
    /// Whether frames may be sent. Some may leave by the port.
    pub frames: bool,
    /// The most flow rules of each kind that are put in to find the limit.
    pub most_rules: usize,
}

/// A port that is examined.
struct Bench {
    port: Arc<Port>,
    device: u16,
    info: valiant_nic_info,
    abilities: Vec<Ability>,
    knobs: Vec<Knob>,
    notes: Vec<String>,
}

impl Bench {
    fn add(&mut self, area: &'static str, name: &str, advertised: Said, accepted: Tried, seen: Tried) {
        self.abilities.push(Ability { area, name: name.to_owned(), advertised, accepted, seen });
    }
}

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
    // SAFETY: plain data that the function fills or leaves; the port exists.
    let info = unsafe {
        let mut info = std::mem::zeroed();
        match dpdk_sys::valiant_nic_info(device, &mut info) {
            0 => info,
            status => return Err(Error::port(port.name(), "asking its driver", errno_text(status))),
        }
    };
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

fn queues(name: &str, advertised: Said, open: u16, seen: Tried) -> Ability {
    let accepted = Tried::Yes(format!("{open} opened"));
    Ability { area: "queues", name: name.to_owned(), advertised, accepted, seen }
}
