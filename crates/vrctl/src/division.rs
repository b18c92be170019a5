//! The sharing `hardware` of a Linux interface: the kernel divides its frames. Each router with the scheme
//! `direct` has a pair of interfaces of its own for each of its interfaces there, and the routers of the
//! common process have one pair together, whose frames the demultiplexer in software tells apart.

use crate::file::{HostFile, Scheme, Sharing, Tag, VirtualInterface, VirtualRouter};
use crate::setup::ports;
use dpdk::PortSpec;
use dpdk::division::{Division, Part};
use lang::{Diagnostic, Diagnostics};
use launch::Failure;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use vrhost::{Connection, PortSetup, RouterSetup};

/// The names of the two ends of a pair: the near one, and the one that is a port. They are the same whenever
/// the host starts, so that it finds what a killed one has left.
fn ends(file: &HostFile, of: &str) -> (String, String) {
    let digest = Sha256::digest(format!("{}/{of}", file.name));
    let far = digest.iter().take(5).fold("vr".to_owned(), |name, byte| format!("{name}{byte:02x}"));
    (format!("{far}h"), far)
}

fn ends_of_port(file: &HostFile, port: usize) -> (String, String) {
    ends(file, &file.ports[port].name)
}

fn ends_of_interface(
    file: &HostFile,
    router: &VirtualRouter,
    interface: &VirtualInterface,
) -> (String, String) {
    ends(file, &format!("{}.{}", router.name, interface.name))
}

/// Whether an interface of a router has a pair of its own.
pub(crate) fn has_pair(file: &HostFile, router: &VirtualRouter, interface: &VirtualInterface) -> bool {
    let port = interface.port.and_then(|port| file.ports.get(port));
    router.scheme == Scheme::Direct && port.is_some_and(|port| port.sharing == Sharing::Hardware)
}

/// Whether the kernel gives one of these what the other one is to have: it looks at the outer VLAN id alone.
fn overlap(tag: Tag, other: Tag) -> bool {
    match (tag, other) {
        (Tag::Vlan(id), Tag::Vlan(other)) | (Tag::Vlan(id), Tag::Qinq(other, _)) => id == other,
        _ => false,
    }
}

/// What of a router's interfaces on such ports cannot be.
pub(crate) fn check(file: &HostFile, router: &VirtualRouter) -> Diagnostics {
    let mut diags = Diagnostics::new();
    diags.set_sources(file.sources.clone());
    for interface in &router.interfaces {
        let Some(at) = interface.port else { continue };
        let port = &file.ports[at];
        if port.sharing != Sharing::Hardware {
            continue;
        }
        if !matches!(port.device, PortSpec::Interface(_)) {
            let text = "the sharing \"hardware\" runs on Linux interfaces so far";
            diags.error_with_help(port.span, text, "use sharing = \"software-queued\"");
            continue;
        }
        if !has_pair(file, router, interface) {
            continue;
        }
        let name = format!("{}.{}", router.name, interface.name);
        if !matches!(interface.tag, Tag::Vlan(_) | Tag::Mac | Tag::Whole) {
            let text = format!(
                "{name} has {}: the kernel gives a direct router frames by VLAN or address alone",
                interface.tag
            );
            let help = "with the sharing \"hardware\" and the scheme direct, use `vlan` or no tag; or another scheme";
            diags.error_with_help(interface.span, text, help);
        }
        for (of, other) in file.routers.iter().flat_map(|of| of.interfaces.iter().map(move |i| (of, i))) {
            // By name: either may be a copy.
            let same = of.name == router.name && other.name == interface.name;
            if same || other.port != Some(at) || !overlap(interface.tag, other.tag) {
                continue;
            }
            let message = format!(
                "{name} is to have all frames with {} of the port {}, and {}.{} has {} there",
                interface.tag, port.name, of.name, other.name, other.tag
            );
            diags.push(
                Diagnostic::error(interface.span, message)
                    .with_note(other.span, "the other one is here")
                    .with_help("a direct router needs a VLAN that no other interface of a divided port has, or no tag"),
            );
        }
    }
    diags
}

/// The ports of the common process. In place of one that is divided, it opens the pair for what is nobody's
/// alone.
pub(crate) fn common_ports(file: &HostFile) -> Vec<PortSetup> {
    let divided = |port: usize| file.ports[port].sharing == Sharing::Hardware;
    // The processes of those routers that have one open their ports themselves.
    let own =
        |port: usize| !divided(port) && file.users_of(port).any(|router| router.scheme == Scheme::Direct);
    let mut all = ports(file, |port| !own(port));
    for (number, port) in all.iter_mut().enumerate().filter(|(number, _)| divided(*number)) {
        port.spec = PortSpec::Interface(ends_of_port(file, number).1);
    }
    all
}

/// The ports of a router's own process: those of the file that are its alone, then its pairs, to which its
/// interfaces are connected.
pub(crate) fn process_ports(
    file: &HostFile,
    router: &VirtualRouter,
    setup: Option<&mut RouterSetup>,
) -> Vec<PortSetup> {
    let mine = |port: usize| {
        let on_it = |interface: &VirtualInterface| interface.port == Some(port);
        file.ports[port].sharing != Sharing::Hardware && router.interfaces.iter().any(on_it)
    };
    let mut all = ports(file, mine);
    let mut below = Vec::new();
    for (number, interface) in router.interfaces.iter().enumerate() {
        if has_pair(file, router, interface) {
            below.push((number, Connection::WholePort(all.len())));
            let far = ends_of_interface(file, router, interface).1;
            all.push(PortSetup::new(&interface.name, PortSpec::Interface(far)));
        }
    }
    if let Some(setup) = setup {
        for (number, connection) in below {
            let interface = &mut setup.interfaces[number];
            (interface.below, interface.default) = (connection, false);
        }
    }
    all
}

struct Divided {
    division: Division,
    near: String,
    mtu: u32,
    /// By the router: the part, and the near end of its pair.
    parts: BTreeMap<String, Vec<(Part, String)>>,
}

impl Drop for Divided {
    fn drop(&mut self) {
        let parts = self.parts.values().flatten().map(|(_, near)| near);
        for near in parts.chain([&self.near]) {
            let _ = netlink::remove_pair(near);
        }
        let _ = netlink::take_all_frames(self.division.interface(), false);
    }
}

/// The interfaces of a host that the kernel divides; they are whole again when this is dropped.
#[derive(Default)]
pub(crate) struct Divisions(BTreeMap<usize, Divided>);

impl Divisions {
    /// Divides all ports of a file that are shared so.
    ///
    /// # Errors
    /// One message for each port that cannot be divided.
    pub(crate) fn start(file: &HostFile) -> Result<Self, Failure> {
        let (mut all, mut wrong) = (Self::default(), Vec::new());
        for (number, port) in file.ports.iter().enumerate() {
            let (Sharing::Hardware, PortSpec::Interface(name)) = (port.sharing, &port.device) else {
                continue;
            };
            match divide(file, number, name) {
                Ok(divided) => drop(all.0.insert(number, divided)),
                Err(e) => wrong.push(format!("port {}: {e}", port.name)),
            }
        }
        if wrong.is_empty() { Ok(all) } else { Err(wrong.join("\n").into()) }
    }

    /// Gives a router with a process of its own the frames of its interfaces.
    pub(crate) fn add(&mut self, file: &HostFile, router: &VirtualRouter) -> Result<(), Failure> {
        for interface in router.interfaces.iter().filter(|interface| has_pair(file, router, interface)) {
            let Some(divided) = interface.port.and_then(|port| self.0.get_mut(&port)) else { continue };
            let (near, far) = ends_of_interface(file, router, interface);
            let part = match interface.tag {
                Tag::Vlan(id) => Part::Vlan(id),
                _ => Part::Address(interface.mac),
            };
            let made = netlink::make_pair(&near, &far, divided.mtu).map_err(|e| e.to_string());
            let given = made.and_then(|()| {
                let given = divided.division.add(part, &near);
                given.map_err(|e| format!("{}: {}", divided.division.interface(), told(&e)))
            });
            if let Err(e) = given {
                let _ = netlink::remove_pair(&near);
                self.remove(&router.name);
                return Err(e.into());
            }
            divided.parts.entry(router.name.clone()).or_default().push((part, near));
        }
        Ok(())
    }

    /// The frames of a router that has ended go to the others.
    pub(crate) fn remove(&mut self, router: &str) {
        for divided in self.0.values_mut() {
            for (part, near) in divided.parts.remove(router).unwrap_or_default() {
                if let Err(e) = divided.division.remove(part) {
                    tracing::warn!(target: "vr", "{}: {}", divided.division.interface(), told(&e));
                }
                let _ = netlink::remove_pair(&near);
            }
        }
    }

    /// Those of other routers are given back.
    pub(crate) fn keep(&mut self, running: &[String]) {
        let has = self.0.values().flat_map(|divided| divided.parts.keys());
        let gone: Vec<String> = has.filter(|name| !running.contains(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
    }

    /// The interfaces that remain if this process is killed.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        let near = |divided: &Divided| {
            let parts = divided.parts.values().flatten().map(|(_, near)| near.clone());
            parts.chain([divided.near.clone()]).collect::<Vec<_>>()
        };
        self.0.values().flat_map(near).collect()
    }
}

fn divide(file: &HostFile, number: usize, interface: &str) -> Result<Divided, String> {
    let path = format!("/sys/class/net/{interface}/mtu");
    let mtu = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    let mtu: u32 = mtu.ok_or_else(|| format!("there is no interface {interface}"))?;
    let (near, far) = ends_of_port(file, number);
    netlink::make_pair(&near, &far, mtu).map_err(|e| e.to_string())?;
    let divided = netlink::take_all_frames(interface, true)
        .map_err(|e| e.to_string())
        .and_then(|()| Division::new(interface, &near).map_err(|e| format!("{interface}: {}", told(&e))));
    match divided {
        Ok(division) => Ok(Divided { division, near, mtu, parts: BTreeMap::new() }),
        Err(e) => {
            let _ = netlink::remove_pair(&near);
            Err(e)
        }
    }
}

/// Why the kernel does not divide an interface.
fn told(e: &std::io::Error) -> String {
    let reason = launch::reason(e);
    // EINVAL: no such place for programs.
    if e.raw_os_error() == Some(22) {
        return format!(
            "{reason}: the sharing \"hardware\" needs Linux 6.6 or newer; use \"software-queued\""
        );
    }
    format!("the kernel does not divide it: {reason}")
}
