//! Consistency of a host file: who has which frames of a port, links, sockets.

use super::model::{HostFile, InterfaceId, Link, Scheme, Sharing, Tag};
use super::raw::{RawLink, RawPort};
use super::reader::Reader;
use dpdk::PortSpec;
use lang::Diagnostic;
use launch::settings::at;
use std::collections::{BTreeMap, HashMap};
use toml::Spanned;

impl Reader<'_> {
    /// The interface that a text such as `blue.DEV0` names.
    fn named(&mut self, host: &HostFile, text: &Spanned<String>) -> Option<InterfaceId> {
        let wanted = text.get_ref();
        let Some((router, interface)) = wanted.split_once('.') else {
            let message = format!("'{wanted}' is not an interface of a router");
            self.diags.error_with_help(at(text), message, "write router and interface as in \"blue.DEV0\"");
            return None;
        };
        let Some(index) = host.routers.iter().position(|r| r.name == router) else {
            let known = host.routers.iter().map(|r| r.name.as_str());
            self.diags.push(
                Diagnostic::error(at(text), format!("there is no router '{router}'")).with_nearest(
                    router,
                    "the router",
                    known,
                ),
            );
            return None;
        };
        let known = host.routers[index].interfaces.iter().map(|i| i.name.as_str());
        let found = known.clone().position(|name| name == interface);
        if found.is_none() {
            let all: Vec<&str> = known.clone().collect();
            let help = format!("the interfaces of {router} are {}", all.join(", "));
            self.diags.push(
                Diagnostic::error(at(text), format!("the router {router} has no interface '{interface}'"))
                    .with_nearest(interface, "the interface", known)
                    .with_help(help),
            );
        }
        Some(InterfaceId { router: index, interface: found? })
    }

    /// Reads the links, each between two interfaces that nothing else is connected to.
    pub(super) fn links(&mut self, host: &mut HostFile, raw: &[RawLink]) {
        for link in raw {
            let [first, second] = link.ends.get_ref().as_slice() else {
                let message = format!("a link with {} ends", link.ends.get_ref().len());
                let help = "name two interfaces: ends = [\"blue.DEV1\", \"red.DEV0\"]";
                self.diags.error_with_help(at(&link.ends), message, help);
                // What was meant is not connected, but that is not what is wrong.
                let ids: Vec<_> =
                    link.ends.get_ref().iter().filter_map(|end| self.named(host, end)).collect();
                self.excused.extend(ids);
                continue;
            };
            let ends = (self.end(host, first), self.end(host, second));
            self.excused.extend(ends.0.into_iter().chain(ends.1));
            let (Some(one), Some(other)) = ends else { continue };
            if one == other {
                let message = format!("a link from {} to itself", host.name_of(one));
                self.diags.error_with_help(at(second), message, "name two interfaces");
                continue;
            }
            let index = host.links.len();
            host.links.push(Link { ends: [one, other], span: at(&link.ends) });
            for end in [one, other] {
                host.routers[end.router].interfaces[end.interface].link = Some(index);
            }
        }
    }

    /// An end of a link: an interface that has no port and no other link.
    fn end(&mut self, host: &HostFile, text: &Spanned<String>) -> Option<InterfaceId> {
        let id = self.named(host, text)?;
        let interface = host.interface(id)?;
        let name = host.name_of(id);
        if let Some(port) = interface.port {
            let message = format!("{name} is an end of a link and on the port {}", host.ports[port].name);
            self.diags.push(
                Diagnostic::error(at(text), message)
                    .with_note(interface.span, "the interface is here")
                    .with_help("remove its port, or add an interface without one"),
            );
            return None;
        }
        if let Some(link) = interface.link {
            self.diags.push(
                Diagnostic::error(at(text), format!("{name} is an end of two links"))
                    .with_note(host.links[link].span, "the first one is here")
                    .with_help("add an interface: a link has two ends, and an interface one link"),
            );
            return None;
        }
        Some(id)
    }

    /// The interfaces that get frames for no interface.
    pub(super) fn defaults(&mut self, host: &mut HostFile, raw: &[(Spanned<String>, RawPort)]) {
        for (index, (_, port)) in raw.iter().enumerate() {
            let Some(text) = &port.default else { continue };
            let Some(id) = self.named(host, text) else { continue };
            let Some(interface) = host.interface(id) else { continue };
            let name = &host.ports[index].name;
            if interface.port == Some(index) {
                host.ports[index].default = Some(id);
            } else if !self.excused.contains(&id) {
                let message = format!("{} is not on the port {name}", host.name_of(id));
                self.diags.push(
                    Diagnostic::error(at(text), message)
                        .with_note(interface.span, "the interface is here")
                        .with_help(format!("name an interface with port = \"{name}\"")),
                );
            }
        }
    }

    /// The paths of sockets fit into an address.
    pub(super) fn sockets(&mut self, host: &HostFile) {
        for router in &host.routers {
            // sun_path has 108 bytes with its end (unix(7)); the path is made only if it may be too long.
            let about = host.directory.as_os_str().len() + router.name.len();
            if about > 90 && host.socket(router).as_os_str().len() > 107 {
                let message = "the path of the router's control socket is longer than 107 bytes";
                self.diags.error_with_help(router.span, message, "choose a shorter `directory` under [host]");
            }
            for (number, interface) in router.interfaces.iter().enumerate() {
                if router.scheme != Scheme::Hybrid {
                    continue;
                }
                let machine = router.program.is_none();
                let (socket, kind) = if machine {
                    (host.vhost_socket(router, interface), "vhost-user")
                } else {
                    (host.memif_socket(router, number), "memif")
                };
                if socket.as_os_str().len() > 107 {
                    let message =
                        format!("the path of the interface's {kind} socket is longer than 107 bytes");
                    let help = "choose a shorter `directory` under [host]";
                    self.diags.error_with_help(interface.span, message, help);
                } else if socket.to_str().is_none_or(|path| path.contains([',', '=', '[', ']', '"', '\\'])) {
                    let message = format!("the path of the interface's {kind} socket cannot be told to DPDK");
                    let help = "choose a `directory` under [host] without commas, brackets, quotes and '='";
                    self.diags.error_with_help(interface.span, message, help);
                }
            }
        }
    }

    /// No device is that of two ports.
    pub(super) fn devices(&mut self, host: &HostFile) {
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        for (index, port) in host.ports.iter().enumerate() {
            let device = match &port.device {
                // Arguments do not make it another device.
                PortSpec::Pci { address, .. } => address.clone(),
                PortSpec::Vdev(devargs) => devargs.split(',').next().unwrap_or_default().to_owned(),
                // Reported where it was read.
                PortSpec::Virtual(_) => continue,
                PortSpec::Interface(name) if name.is_empty() => continue,
                other => other.to_string(),
            };
            match used.get(&device) {
                Some(&first) => {
                    let first = &host.ports[first];
                    let message =
                        format!("{device} is the device of two ports, {} and {}", first.name, port.name);
                    self.diags.push(
                        Diagnostic::error(port.device_span, message)
                            .with_note(first.device_span, "the other one is here")
                            .with_help("one port can have interfaces of many routers"),
                    );
                }
                None => {
                    used.insert(device, index);
                }
            }
        }
    }

    /// No frame is for two interfaces, except those for everybody.
    pub(super) fn claims(&mut self, host: &HostFile) {
        let mut on_port: Vec<Vec<InterfaceId>> = vec![Vec::new(); host.ports.len()];
        let mut same: HashMap<(usize, Tag, [u8; 6]), InterfaceId> = HashMap::new();
        for (id, interface) in host.interfaces() {
            let Some(port) = interface.port else { continue };
            on_port[port].push(id);
            if interface.tag == Tag::Whole {
                continue;
            }
            // A queue's frames are all one interface's, whatever their address.
            let by_queue = matches!(interface.tag, Tag::Queue(_));
            if by_queue && host.ports[port].sharing == Sharing::Hardware {
                let message = format!(
                    "{} has {} of the port {}, and sharing = \"hardware\" distributes the queues of this port itself",
                    host.name_of(id),
                    interface.tag,
                    host.ports[port].name
                );
                let help =
                    "use sharing = \"software\" or \"software-queued\" for the port, or a VLAN or an address";
                self.diags.error_with_help(interface.span, message, help);
            }
            let address = if by_queue { [0; 6] } else { interface.mac };
            match same
                .get(&(port, interface.tag, address))
                .and_then(|other| Some((*other, host.interface(*other)?)))
            {
                Some((other, first)) => {
                    let tag = match interface.tag {
                        Tag::Mac => String::new(),
                        tag => format!("{tag} and "),
                    };
                    let frames = match interface.tag {
                        Tag::Queue(_) => interface.tag.to_string(),
                        _ => format!("{tag}the address {}", interface.address()),
                    };
                    let message = format!(
                        "{} and {} have the same frames of the port {}: {frames}",
                        host.name_of(other),
                        host.name_of(id),
                        host.ports[port].name
                    );
                    self.diags.push(
                        Diagnostic::error(interface.span, message)
                            .with_note(first.span, "the other one is here")
                            .with_help(match by_queue {
                                true => "give it another queue, or another tag",
                                false => "give it another tag or another `mac`, or remove `mac`",
                            }),
                    );
                }
                None => {
                    same.insert((port, interface.tag, address), id);
                }
            }
        }
        for (port, ids) in host.ports.iter().zip(&on_port) {
            let by_vni =
                |id: &&InterfaceId| host.interface(**id).is_some_and(|i| matches!(i.tag, Tag::Vni(_)));
            match (ids.iter().find(by_vni), &port.tunnel) {
                (Some(&id), None) => {
                    let message =
                        format!("{} has a VNI, and the port {} has no tunnel", host.name_of(id), port.name);
                    let help = format!(
                        "add [port.{}.tunnel] with `local`, `remote` and `remote_mac`: the ends of the tunnel",
                        port.name
                    );
                    let place = host.interface(id).map(|i| i.span);
                    self.diags.push(Diagnostic::error(place, message).with_help(help));
                }
                (None, Some(tunnel)) if !self.strays => {
                    let message = format!("no interface uses the tunnel of the port {}", port.name);
                    self.diags.push(
                        Diagnostic::warning(tunnel.span, message)
                            .with_help("an interface with `vni` uses it"),
                    );
                }
                _ => {}
            }
        }
        for (port, ids) in host.ports.iter().zip(on_port) {
            let is_whole = |id: &&InterfaceId| host.interface(**id).is_some_and(|i| i.tag == Tag::Whole);
            let Some(&owner) = ids.iter().find(is_whole) else { continue };
            let place = host.interface(owner).map(|i| i.span);
            for &id in ids.iter().filter(|id| **id != owner) {
                let message = format!(
                    "{} is on the port {}, which {} has as a whole",
                    host.name_of(id),
                    port.name,
                    host.name_of(owner)
                );
                self.diags.push(
                    Diagnostic::error(host.interface(id).map(|i| i.span), message)
                        .with_note(place, "the other one is here")
                        .with_help("give each of them a tag, or another port"),
                );
            }
        }
    }

    /// A router in a process of its own has its ports alone, and links only between its own interfaces:
    /// nobody is there to pass packets on between two processes.
    pub(super) fn direct(&mut self, host: &HostFile) {
        for (id, interface) in host.interfaces() {
            let router = &host.routers[id.router];
            if router.scheme != Scheme::Direct {
                continue;
            }
            let name = host.name_of(id);
            if interface.rate_bps.is_some() {
                let message =
                    format!("{name} has a rate: a router with the scheme direct sends by its ports itself");
                let help = "use the scheme shared or hybrid, or shape the traffic in the program";
                self.diags.error_with_help(interface.span, message, help);
            }
            // The kernel divides such a port.
            let divided = |port: &usize| host.ports[*port].sharing == Sharing::Hardware;
            if let Some(port) = interface.port.filter(|port| !divided(port)) {
                let other =
                    host.interfaces().find(|(other, i)| i.port == Some(port) && other.router != id.router);
                if let Some((other, first)) = other {
                    let port = &host.ports[port].name;
                    let message = format!(
                        "{name} shares the port {port} with {}: a router with the scheme direct has its ports alone",
                        host.name_of(other)
                    );
                    let help = format!(
                        "give {} the whole port and {} another one, or use the scheme hybrid; or sharing = \"hardware\" for the port",
                        router.name, host.routers[other.router].name
                    );
                    self.diags.push(
                        Diagnostic::error(interface.span, message)
                            .with_note(first.span, "the other interface is here")
                            .with_help(help),
                    );
                }
            }
            if let Some(peer) = host.peer(id).filter(|peer| peer.router != id.router) {
                let message = format!(
                    "{name} is linked with {}: a link of a router with the scheme direct leads to the router itself",
                    host.name_of(peer)
                );
                let place = host.interface(id).and_then(|i| i.link).map(|link| host.links[link].span);
                self.diags.push(
                    Diagnostic::error(place, message)
                        .with_note(interface.span, "the interface is here")
                        .with_help("use the scheme shared for both, or hybrid"),
                );
            }
        }
    }

    /// What is of no use: ports without interfaces, interfaces that nothing is connected to.
    pub(super) fn connections(&mut self, host: &HostFile) {
        for (id, interface) in host.interfaces() {
            if interface.port.is_none() && interface.link.is_none() && !self.excused.contains(&id) {
                let message =
                    format!("{} has neither a port nor a link: nothing reaches it", host.name_of(id));
                self.diags.push(
                    Diagnostic::warning(interface.span, message)
                        .with_help("set port = \"...\", or name it in the `ends` of a [[link]]"),
                );
            }
        }
        for (index, port) in host.ports.iter().enumerate() {
            if !self.strays && host.interfaces().all(|(_, i)| i.port != Some(index)) {
                let message = format!("the port {} has no interface: its frames are dropped", port.name);
                self.diags.warning(port.span, message);
            }
        }
        if host.routers.is_empty() {
            let warning = Diagnostic::warning(None, format!("the host {} has no router", host.name));
            self.diags.push(warning.with_help("describe one: [router.NAME] with program = \"...\""));
        }
    }
}
