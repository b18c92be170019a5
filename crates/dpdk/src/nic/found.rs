//! What is found of a port, and the port that is examined.

use std::sync::Arc;

use dpdk_sys::valiant_nic_info;

use crate::error::errno_text;
use crate::log::Mark;
use crate::port::Port;

/// The most queues that are opened to find out what works: each takes memory, and a driver of DPDK 22.11
/// (`net_tap`) writes beyond the end of an array if it starts with more than 8 queues of both kinds together.
pub(super) const MOST_QUEUES: u16 = 4;
/// Descriptors of each.
pub(super) const DESCRIPTORS: u16 = 512;

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
    pub(super) fn of(yes: bool) -> Self {
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
    pub(super) fn call(f: impl FnOnce() -> i32) -> Self {
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
pub(super) struct Bench {
    pub(super) port: Arc<Port>,
    pub(super) device: u16,
    pub(super) info: valiant_nic_info,
    pub(super) abilities: Vec<Ability>,
    pub(super) knobs: Vec<Knob>,
    pub(super) notes: Vec<String>,
}

impl Bench {
    pub(super) fn add(
        &mut self,
        area: &'static str,
        name: &str,
        advertised: Said,
        accepted: Tried,
        seen: Tried,
    ) {
        self.abilities.push(Ability { area, name: name.to_owned(), advertised, accepted, seen });
    }
}

/// The queues of a port.
pub(super) fn queues(name: &str, advertised: Said, open: u16, seen: Tried) -> Ability {
    let accepted = Tried::Yes(format!("{open} opened"));
    Ability { area: "queues", name: name.to_owned(), advertised, accepted, seen }
}
