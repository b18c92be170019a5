//! From the text of a host file to its meaning. Errors are collected with their places, and reading
//! continues.

use super::address;
use super::model::{
    HostFile, HostPort, InterfaceId, Limits, Owner, Scheme, Sharing, Tag, TunnelEnds, VirtualInterface,
    VirtualRouter, mac_variable,
};
use super::raw::{RawAllow, RawFile, RawHost, RawInterface, RawLimits, RawPort, RawRouter, RawTunnel};
use super::reader::Reader;
use dpdk::PortSpec;
use lang::{Diagnostic, Diagnostics, SourceMap, Span};
use launch::settings::{self, at, is_name};
use measure::bps::bps;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Below this directory are those of the hosts, unless their files say otherwise.
const RUN_DIR: &str = "/run/valiant";
/// Higher than the number of any processor that Linux supports.
const MAX_CORE: i64 = 8191;
/// The weight of a share has 16 bits.
const MAX_SHARE: i64 = 65_535;
/// More than any limit that makes a difference.
const MAX_LIMIT: i64 = 1_000_000_000_000;
/// The least rate of an interface, in bits a second.
const LEAST_RATE: u64 = 8000;
/// The most routers with receive queues of their own on a port, and how many that are if the file does not
/// say.
const MAX_QUEUES: i64 = 255;
const DEFAULT_QUEUES: u16 = 15;

/// Whether a word can be the name of a variable.
fn is_variable(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Reader<'_> {
    /// The meaning of a file; `kept`: routers whose entries are not in `raw`, at their places in the text.
    pub(super) fn host(&mut self, raw: RawFile, kept: Vec<VirtualRouter>) -> HostFile {
        let (name, directory) = self.host_place(&raw.host);
        let (cores, core_spans) = self.cores(raw.host.cores.as_ref(), "the host");
        let ports = settings::in_order(raw.port);
        let mut host = HostFile {
            name,
            cores,
            directory,
            dir: self.dir.to_owned(),
            ports: ports.iter().map(|(name, port)| self.port(name, port)).collect(),
            routers: Vec::new(),
            links: Vec::new(),
            warnings: Diagnostics::new(),
            sources: SourceMap::new(),
            core_spans,
            router_core_spans: Vec::new(),
        };
        let routers = settings::in_order(raw.router);
        // Given addresses first: made ones differ from them.
        let mut taken: HashSet<[u8; 6]> = (routers.iter())
            .flat_map(|(_, router)| &router.interface)
            .filter_map(|i| lang::args::EtherAddr::literal(i.get_ref().mac.as_ref()?.get_ref()))
            .map(|mac| mac.0)
            .collect();
        for mac in kept.iter().flat_map(|router| &router.interfaces).map(|interface| interface.mac) {
            self.other_addresses |= !taken.insert(mac);
        }
        let mut kept = kept.into_iter().peekable();
        for (name, router) in &routers {
            let before = |kept: &VirtualRouter| (kept.span.start as usize) < name.span().start;
            while let Some(router) = kept.next_if(before) {
                host.routers.push(router);
            }
            let router = self.router(&host, name, router, &mut taken);
            host.routers.push(router);
        }
        host.routers.extend(kept);
        host.router_core_spans = std::mem::take(&mut self.core_spans);
        self.links(&mut host, &raw.link);
        self.defaults(&mut host, &ports);
        self.sockets(&host);
        self.namespaces(&host.routers);
        self.listening(&host.routers);
        self.owners_listening(&host.routers);
        self.devices(&host);
        self.claims(&host);
        self.direct(&host);
        self.connections(&host);
        host
    }

    /// The host's name, and where its sockets are.
    pub(super) fn host_place(&mut self, raw: &RawHost) -> (String, PathBuf) {
        let name = self.host_name(raw);
        let given = raw.directory.as_ref();
        let made = || Path::new(RUN_DIR).join(&name);
        let directory = given.map_or_else(made, |given| self.dir.join(given.get_ref()));
        (name, directory)
    }

    fn host_name(&mut self, raw: &RawHost) -> String {
        let (name, place) =
            raw.name.as_ref().map_or((self.stem, None), |given| (given.get_ref().as_str(), Some(at(given))));
        if !is_name(name) {
            let help = match place {
                Some(_) => "up to 32 letters, digits, '-' and '_': sockets are named after it",
                None => "set name = \"...\" under [host]: up to 32 letters, digits, '-' and '_'",
            };
            let message = format!("'{name}' is not a valid name for a host");
            self.diags.push(Diagnostic::error(place, message).with_help(help));
        }
        name.to_owned()
    }

    fn cores(&mut self, list: Option<&Spanned<Vec<Spanned<i64>>>>, of: &str) -> (Vec<usize>, Vec<Span>) {
        let Some(list) = list else { return (Vec::new(), Vec::new()) };
        if list.get_ref().is_empty() {
            let help = match of {
                "the host" => "remove `cores` to use every processor that the process may use",
                _ => "remove `cores` to use those of the host",
            };
            self.diags.error_with_help(at(list), format!("no processor for {of} to run on"), help);
        }
        let mut known: Vec<(usize, Span)> = Vec::new();
        for core in list.get_ref() {
            let Some(id) = self.number(core, "cores", 0..=MAX_CORE, "numbers of processors") else {
                continue;
            };
            if let Some((_, first)) = known.iter().find(|(other, _)| *other == id) {
                self.diags.push(
                    Diagnostic::error(at(core), format!("processor {id} is named twice"))
                        .with_note(*first, "the first time is here")
                        .with_help("one worker runs on each processor"),
                );
                continue;
            }
            known.push((id, at(core)));
        }
        known.into_iter().unzip()
    }

    /// Reports a word that cannot be the name of a port or a router.
    fn check_name(&mut self, name: &Spanned<String>, of: &str) {
        if !is_name(name.get_ref()) {
            let message = format!("'{}' is not a valid name for a {of}", name.get_ref());
            self.diags.error_with_help(at(name), message, "up to 32 letters, digits, '-' and '_'");
        }
    }

    fn port(&mut self, name: &Spanned<String>, raw: &RawPort) -> HostPort {
        self.check_name(name, "port");
        let device = PortSpec::parse(raw.device.get_ref()).unwrap_or_else(|e| {
            let help = "name a Linux interface, a PCI address or DPDK devargs";
            self.diags.error_with_help(at(&raw.device), e.to_string(), help);
            PortSpec::Interface(String::new())
        });
        if let PortSpec::Virtual(_) = device {
            let message = format!("'{device}' is an interface of a virtual router, not a physical port");
            let help = "a [[link]] joins interfaces of two virtual routers";
            self.diags.error_with_help(at(&raw.device), message, help);
        }
        let sharing = self.word(raw.sharing.as_ref(), "a way to share a port", &Sharing::ALL);
        let queues = (raw.queues.as_ref())
            .and_then(|n| self.number(n, "queues", 1..=MAX_QUEUES, "receive queues for one router each"));
        if let (Some(given), true) = (&raw.queues, sharing != Sharing::Hardware) {
            let help = "it says how many routers at most have a receive queue of their own";
            self.diags.error_with_help(at(given), "queues are for the sharing \"hardware\"", help);
        }
        let queues = queues.unwrap_or(DEFAULT_QUEUES);
        HostPort {
            name: name.get_ref().clone(),
            device,
            sharing,
            queues,
            default: None,
            tunnel: raw.tunnel.as_ref().and_then(|tunnel| self.tunnel(tunnel)),
            span: at(name),
            device_span: at(&raw.device),
        }
    }

    fn tunnel(&mut self, raw: &Spanned<RawTunnel>) -> Option<TunnelEnds> {
        let RawTunnel { local, remote, remote_mac } = raw.get_ref();
        let mut end = |text: &Spanned<String>, key: &str| {
            let address = text.get_ref().parse::<Ipv4Addr>().ok();
            let address = address.filter(|a| !(a.is_unspecified() || a.is_multicast() || a.is_broadcast()));
            if address.is_none() {
                let message =
                    format!("{key} = '{}' is not the IPv4 address of an end of a tunnel", text.get_ref());
                self.diags.error_with_help(at(text), message, "one address, as in \"192.0.2.1\"");
            }
            address
        };
        let ends = (end(local, "local"), end(remote, "remote"));
        let remote_mac = settings::mac(remote_mac, &mut self.diags);
        let (local, remote) = (ends.0?, ends.1?);
        if local == remote {
            let message = format!("both ends of the tunnel are {local}");
            self.diags.error_with_help(
                at(raw),
                message,
                "`local` is this host's address, `remote` the other's",
            );
            return None;
        }
        Some(TunnelEnds { local, remote, remote_mac: remote_mac?.0, span: at(raw) })
    }

    /// The file of a router's program; none, if it is a virtual machine.
    fn program<'r>(&mut self, name: &Spanned<String>, raw: &'r RawRouter, scheme: Scheme) -> Option<&'r str> {
        let router = name.get_ref();
        let machine = raw.machine.as_ref().filter(|machine| *machine.get_ref());
        match (&raw.program, machine) {
            (Some(program), None) => return Some(program.get_ref()),
            (None, None) => {
                let message = format!("the router {router} has no program");
                let help = "add program = \"FILE.click\", or machine = true for a virtual machine";
                self.diags.error_with_help(at(name), message, help);
            }
            (Some(program), Some(machine)) => {
                let message = format!("the router {router} is a virtual machine, and has a program");
                self.diags.push(
                    Diagnostic::error(at(program), message)
                        .with_note(at(machine), "it is a virtual machine")
                        .with_help("remove one of both"),
                );
            }
            (None, Some(machine)) if scheme != Scheme::Hybrid => {
                let message = format!("a virtual machine with the scheme {scheme}");
                self.diags.error_with_help(at(machine), message, "add scheme = \"hybrid\"");
            }
            (None, Some(_)) => self.only_of_programs(raw),
        }
        None
    }

    /// A virtual machine has none of these.
    fn only_of_programs(&mut self, raw: &RawRouter) {
        let control = raw.control.as_ref().map(|control| (at(control), "a control plane"));
        let cores = raw.cores.as_ref().map(|cores| (at(cores), "cores"));
        let owner = raw.owner.as_ref().map(|owner| (at(owner), "an owner"));
        let allow = raw.allow.as_ref().map(|allow| (at(allow), "`allow`"));
        let variable = raw.variables.keys().next().map(|variable| (at(variable), "variables"));
        let tcp = raw.tcp.as_ref().map(|tcp| (at(tcp), "`tcp`"));
        for (place, what) in [control, cores, owner, allow, tcp, variable].into_iter().flatten() {
            let message = format!("{what} of a virtual machine");
            self.diags.error_with_help(place, message, "remove it: the machine itself decides that");
        }
    }

    fn router(
        &mut self,
        host: &HostFile,
        name: &Spanned<String>,
        raw: &RawRouter,
        taken: &mut HashSet<[u8; 6]>,
    ) -> VirtualRouter {
        self.check_name(name, "router");
        let (messages, others) = (self.diags.len(), std::mem::take(&mut self.other_addresses));
        let router = host.routers.len();
        let mut interfaces: Vec<VirtualInterface> = Vec::new();
        for (number, entry) in raw.interface.iter().enumerate() {
            let interface = self.interface(host, InterfaceId { router, interface: number }, entry);
            if let Some(first) = interfaces.iter().find(|other| other.name == interface.name) {
                let message = format!("a second interface {} of router {}", interface.name, name.get_ref());
                self.diags.push(
                    Diagnostic::error(interface.span, message)
                        .with_note(first.span, "the first one is here")
                        .with_help("name it after the program's variable for the device: name = \"DEV1\""),
                );
            }
            interfaces.push(interface);
        }
        for (interface, entry) in interfaces.iter_mut().zip(&raw.interface) {
            let given = entry.get_ref().mac.as_ref().and_then(|mac| settings::mac(mac, &mut self.diags));
            interface.mac = given.map_or_else(
                || {
                    let (mac, first) = address::made(&host.name, name.get_ref(), &interface.name, taken);
                    self.other_addresses |= !first;
                    mac
                },
                |mac| mac.0,
            );
        }
        if raw.interface.is_empty() {
            let message = format!("the router {} has no interface", name.get_ref());
            let help = format!("add [[router.{}.interface]] with port = \"...\"", name.get_ref());
            self.diags.error_with_help(at(name), message, help);
        }
        let (cores, core_spans) = self.cores(raw.cores.as_ref(), "the router");
        self.core_spans.extend(cores.iter().copied().zip(core_spans));
        let scheme = self.word(raw.scheme.as_ref(), "a scheme", &Scheme::ALL);
        if let Some(list) = raw.cores.as_ref().filter(|_| scheme == Scheme::Shared) {
            let warning = Diagnostic::warning(at(list), "`cores` is without effect in the scheme shared");
            self.diags.push(warning.with_help("routers of this scheme run on the cores of [host]"));
        }
        if let Some(rules) = raw.filter.as_ref().filter(|_| scheme != Scheme::Hybrid) {
            let warning =
                Diagnostic::warning(at(rules), format!("`filter` is without effect in the scheme {scheme}"));
            self.diags
                .push(warning.with_help("the scheme hybrid filters what passes to the router's process"));
        }
        let filter = raw.filter.iter().filter(|_| scheme == Scheme::Hybrid).flat_map(|rules| rules.get_ref());
        let filter = filter.map(|rule| (rule.get_ref().clone(), at(rule))).collect();
        let share = raw.share.as_ref();
        let share = share.and_then(|s| self.number(s, "share", 1..=MAX_SHARE, "a share is a weight"));
        let mut router = VirtualRouter {
            program: self.program(name, raw, scheme).map(|program| self.dir.join(program)),
            scheme,
            cores,
            filter,
            share: share.unwrap_or(1),
            owner: raw.owner.as_ref().and_then(|owner| self.owner(owner)),
            limits: self.limits(&raw.limits),
            variables: self.variables(raw, &interfaces),
            allow: self.allow(
                name.get_ref(),
                raw.allow.as_ref().map_or(&RawAllow::default(), |allow| allow.get_ref()),
                scheme,
            ),
            tcp: raw.tcp.as_ref().and_then(|tcp| self.tcp(tcp)),
            control: self.control(name.get_ref(), raw, &interfaces),
            interfaces,
            span: at(name),
            scheme_span: raw.scheme.as_ref().map(at),
            program_span: raw.program.as_ref().map_or_else(|| at(name), at),
            owner_span: raw.owner.as_ref().map(at),
            name: name.get_ref().clone(),
            entry: None,
        };
        // Its own processors have places in the host.
        if self.diags.len() == messages && !self.other_addresses && router.cores.is_empty() {
            router.entry = Some(router.span);
        }
        self.other_addresses |= others;
        router
    }

    fn owner(&mut self, text: &Spanned<String>) -> Option<Owner> {
        let given = text.get_ref();
        let name = given.strip_prefix('@').unwrap_or(given);
        if name.is_empty()
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || "@:/".contains(c))
        {
            let message = format!("'{given}' is not a user or a group");
            self.diags.error_with_help(
                at(text),
                message,
                "a user as in \"alice\", a group as in \"@netops\"",
            );
            return None;
        }
        let group = name.len() < given.len();
        Some(if group { Owner::Group(name.to_owned()) } else { Owner::User(name.to_owned()) })
    }

    fn limits(&mut self, raw: &RawLimits) -> Limits {
        let mut limit = |value: &Option<Spanned<i64>>, key: &str| {
            value.as_ref().and_then(|v| self.number(v, key, 1..=MAX_LIMIT, "without the limit, remove it"))
        };
        Limits {
            routes: limit(&raw.routes, "routes"),
            neighbors: limit(&raw.neighbors, "neighbors"),
            flows: limit(&raw.flows, "flows"),
            buffers: limit(&raw.buffers, "buffers"),
            queue: limit(&raw.queue, "queue"),
            handler_calls: limit(&raw.handler_calls, "handler_calls"),
            log_lines: limit(&raw.log_lines, "log_lines"),
            memory_bytes: raw.memory.as_ref().and_then(|text| {
                let bytes = bytes(text.get_ref());
                if bytes.is_none() {
                    let message = format!("'{}' is not an amount of memory", text.get_ref());
                    let help = "it has a unit, as in \"64 MB\": kB, MB, GB, KiB, MiB or GiB";
                    self.diags.error_with_help(at(text), message, help);
                }
                bytes
            }),
        }
    }

    fn variables(&mut self, raw: &RawRouter, interfaces: &[VirtualInterface]) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for (variable, value) in &raw.variables {
            let name = variable.get_ref();
            if let Some(interface) = interfaces.iter().find(|i| i.name == *name) {
                self.diags.push(
                    Diagnostic::error(at(variable), format!("${name} is the device of an interface"))
                        .with_note(interface.span, "the interface is here")
                        .with_help("remove the variable, or give the interface another name"),
                );
            } else if let Some(interface) = interfaces.iter().find(|i| mac_variable(&i.name) == *name) {
                self.diags.push(
                    Diagnostic::error(at(variable), format!("${name} is the address of an interface"))
                        .with_note(interface.span, "the interface is here")
                        .with_help("set mac = \"...\" there"),
                );
            } else if is_variable(name) {
                all.push((name.clone(), value.get_ref().clone()));
            } else {
                let message = format!("'{name}' is not the name of a variable");
                self.diags.error_with_help(at(variable), message, "letters, digits and '_', without the '$'");
            }
        }
        let with_addresses = interfaces.iter().map(|i| (i, mac_variable(&i.name)));
        for (interface, variable) in with_addresses {
            if let Some(other) = interfaces.iter().find(|other| other.name == variable) {
                let message =
                    format!("${variable} would be this device and the address of {}", interface.name);
                self.diags.push(
                    Diagnostic::error(other.span, message)
                        .with_note(interface.span, "the other interface is here")
                        .with_help("give the interface another name"),
                );
            }
        }
        all
    }

    fn interface(
        &mut self,
        host: &HostFile,
        id: InterfaceId,
        entry: &Spanned<RawInterface>,
    ) -> VirtualInterface {
        let raw = entry.get_ref();
        let name = raw.name.as_ref().map_or_else(|| format!("DEV{}", id.interface), |n| n.get_ref().clone());
        let span = raw.name.as_ref().map_or_else(|| at(entry), at);
        if !is_variable(&name) || name.len() > 32 {
            let message = format!("'{name}' is not a valid name for an interface");
            let help = "up to 32 letters, digits and '_': a variable of the program has this name";
            self.diags.error_with_help(span, message, help);
        }
        let port = raw.port.as_ref().and_then(|wanted| {
            let found = host.ports.iter().position(|port| port.name == *wanted.get_ref());
            if found.is_none() {
                self.excused.insert(id);
                self.strays = true;
                let known = host.ports.iter().map(|port| port.name.as_str());
                let all: Vec<&str> = known.clone().collect();
                let error = Diagnostic::error(at(wanted), format!("there is no port '{}'", wanted.get_ref()))
                    .with_nearest(wanted.get_ref(), "the port", known);
                self.diags.push(if all.is_empty() {
                    error.with_help("describe it: [port.NAME] with device = \"...\"")
                } else {
                    error.with_help(format!("the ports are {}", all.join(", ")))
                });
            }
            found
        });
        let (tag, addresses, rate_bps) = (self.tag(raw), self.addresses(raw), self.rate(raw));
        VirtualInterface { name, port, tag, mac: [0; 6], addresses, rate_bps, link: None, span }
    }

    /// The most that an interface sends, in bits a second.
    fn rate(&mut self, raw: &RawInterface) -> Option<u64> {
        let text = raw.rate.as_ref()?;
        if raw.port.is_none() {
            let help = "set port = \"...\", or remove the rate: a virtual link has none";
            self.diags.error_with_help(at(text), "`rate` of an interface without a port", help);
        }
        let rate = bps(text.get_ref()).and_then(|rate| match rate {
            0..LEAST_RATE => Err(format!("at least {LEAST_RATE} bits a second")),
            _ => Ok(rate),
        });
        rate.map_err(|e| {
            self.diags.error_with_help(at(text), format!("'{}' is not a rate", text.get_ref()), e);
        })
        .ok()
    }

    fn tag(&mut self, raw: &RawInterface) -> Tag {
        let mut tags: Vec<(&str, Span, Tag)> = Vec::new();
        if let Some(id) = &raw.vlan {
            let tag = self.number(id, "vlan", 1..=4094, "a VLAN id").map(Tag::Vlan);
            tags.push(("vlan", at(id), tag.unwrap_or_default()));
        }
        if let Some(ids) = &raw.qinq {
            let tag = match ids.get_ref().as_slice() {
                [outer, inner] => {
                    let mut id = |id| self.number(id, "qinq", 1..=4094, "VLAN ids");
                    let (outer, inner) = (id(outer), id(inner));
                    outer.zip(inner).map(|(outer, inner)| Tag::Qinq(outer, inner))
                }
                _ => {
                    let help = "the outer and the inner VLAN id, as in [100, 10]";
                    self.diags.error_with_help(at(ids), "qinq is not a pair of VLAN ids", help);
                    None
                }
            };
            tags.push(("qinq", at(ids), tag.unwrap_or_default()));
        }
        if let Some(label) = &raw.mpls {
            let what = "an MPLS label, without those that RFC 3032 reserves";
            let tag = self.number(label, "mpls", 16..=(1 << 20) - 1, what).map(Tag::Mpls);
            tags.push(("mpls", at(label), tag.unwrap_or_default()));
        }
        if let Some(vni) = &raw.vni {
            let tag = self.number(vni, "vni", 1..=(1 << 24) - 1, "a VXLAN network identifier").map(Tag::Vni);
            tags.push(("vni", at(vni), tag.unwrap_or_default()));
        }
        if let Some(queue) = &raw.queue {
            let tag = self.number(queue, "queue", 0..=1023, "a receive queue of the port").map(Tag::Queue);
            tags.push(("queue", at(queue), tag.unwrap_or_default()));
        }
        if let Some(whole) = raw.whole.as_ref().filter(|whole| *whole.get_ref()) {
            tags.push(("whole", at(whole), Tag::Whole));
        }
        for (key, span, _) in tags.iter().filter(|_| raw.port.is_none()) {
            let help = "set port = \"...\", or remove the tag: a virtual link carries frames as they are";
            self.diags.error_with_help(*span, format!("`{key}` of an interface without a port"), help);
        }
        if let [(first, place, _), (second, again, _), ..] = tags[..] {
            self.diags.push(
                Diagnostic::error(again, format!("an interface with `{first}` and `{second}`"))
                    .with_note(place, "the other one is here")
                    .with_help("an interface has one of vlan, qinq, mpls, vni, queue and whole, or none"),
            );
        }
        tags.first().map_or(Tag::Mac, |(_, _, tag)| *tag)
    }
}

/// Bytes, of text with a unit.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let one: u64 = match unit.trim() {
        "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    let bytes = number * one as f64;
    // An exact number for everything that a machine can have.
    (1.0..=1e15).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn amounts_of_memory() {
        for (text, expected) in [
            ("64 MB", Some(64_000_000)),
            ("64MiB", Some(64 << 20)),
            (" 1.5 GB ", Some(1_500_000_000)),
            ("1 B", Some(1)),
            ("3kB", Some(3000)),
            ("2 GiB", Some(2 << 30)),
            ("64", None),
            ("MB", None),
            ("0 MB", None),
            ("-1 MB", None),
            ("1..5 MB", None),
            ("64 Mb", None),
            ("9999999999999 GB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
