//! From the text of a cluster file to its meaning. Errors are collected with their places, and reading
//! continues.

use super::agree::Places;
use super::model::{
    Cluster, DEFAULT_MTU, EtcdSettings, Hello, Link, LinkKind, Node, Policy, Port, Route, Topology,
    VXLAN_BYTES, Vxlan, broadcast, network,
};
use super::raw::{RawEtcd, RawFile, RawHello, RawLink, RawNode, RawPolicy, RawPort, RawRoute, RawTopology};
use super::reader::Reader;
use cluster::{MAX_NODES, Mode};
use etcd::{Client, Error, Trust};
use lang::args::{EtherAddr, IpPrefix};
use lang::{Diagnostic, Diagnostics};
use launch::settings::{self, at, is_name};
use measure::bps::bps;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// Where control sockets are unless the file says otherwise.
const RUN_DIR: &str = "/run/valiant";
/// The most external ports of a node: as many as the MAC code distinguishes.
const MAX_PORTS: usize = 256;
/// A next hop has 16 bits on an internal link: the networks of external ports are at least so long.
const MIN_PREFIX: u8 = 16;
/// Longer ones have no addresses of their own for network and broadcast.
const MAX_PREFIX: u8 = 30;
/// The limits of ClusterLink.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);
const DEAD: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_secs(60);

impl Reader<'_> {
    fn rate(&mut self, text: &Spanned<String>) -> u64 {
        bps(text.get_ref()).unwrap_or_else(|e| {
            self.wrong(at(text), format!("'{}' is not a rate", text.get_ref()), e);
            1
        })
    }

    fn time(&mut self, text: &Spanned<String>) -> Option<Duration> {
        let time = lang::args::parse::<Duration>(text.get_ref()).ok().filter(|t| !t.is_zero());
        if time.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not a time", text.get_ref()),
                "a time has a unit, as in \"100ms\" or \"0.1s\"",
            );
        }
        time
    }

    /// An optional time, within limits.
    fn time_from(
        &mut self,
        text: Option<&Spanned<String>>,
        limits: RangeInclusive<Duration>,
        what: &str,
        possible: &str,
    ) -> Option<Duration> {
        let text = text?;
        let time = self.time(text)?;
        if !limits.contains(&time) {
            let message = format!("{what} = \"{}\" is out of range", text.get_ref());
            self.wrong(at(text), message, format!("the range is {possible}"));
            return None;
        }
        Some(time)
    }

    fn prefix(&mut self, text: &Spanned<String>, example: &str) -> Option<IpPrefix> {
        let prefix = IpPrefix::parse(text.get_ref(), &self.names, false).ok();
        let good = prefix.filter(|p| p.prefix_len().is_some());
        if good.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not an address with a prefix length", text.get_ref()),
                format!("write it as in \"{example}\""),
            );
        }
        good
    }

    fn address(&mut self, text: &Spanned<String>) -> Option<Ipv4Addr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            self.wrong(
                at(text),
                format!("'{}' is not an IP address", text.get_ref()),
                "write it as in \"10.0.3.2\"",
            );
        }
        address
    }

    fn mtu(&mut self, mtu: &Spanned<u32>) -> u32 {
        if !(68..=65535).contains(mtu.get_ref()) {
            self.wrong(
                at(mtu),
                format!("an MTU of {} bytes", mtu.get_ref()),
                "an IPv4 link takes packets of 68 to 65535 bytes (RFC 791)",
            );
        }
        (*mtu.get_ref()).min(65535)
    }

    fn device(&mut self, name: &Spanned<String>) -> String {
        let text = name.get_ref();
        if text.is_empty() || text.contains(['\n', '"', '\\', '$']) {
            self.wrong(
                at(name),
                format!("'{text}' is not a device"),
                "name a Linux interface, a PCI address or DPDK devargs",
            );
        }
        text.clone()
    }

    fn etcd(&mut self, name: &str, raw: &RawEtcd) -> EtcdSettings {
        let path = |text: &Option<Spanned<String>>| text.as_ref().map(|t| self.dir.join(t.get_ref()));
        let trust = Trust {
            ca_file: path(&raw.ca_file),
            cert_file: path(&raw.cert_file),
            key_file: path(&raw.key_file),
            user: raw.user.as_ref().map(|user| user.get_ref().clone()),
            password_file: path(&raw.password_file),
        };
        let settings = EtcdSettings {
            endpoints: raw.endpoints.get_ref().clone(),
            prefix: raw.prefix.as_ref().map_or_else(|| format!("/valiant/{name}"), |p| p.get_ref().clone()),
            ttl_s: raw
                .ttl
                .as_ref()
                .and_then(|ttl| self.time(ttl))
                .map_or(5, |t| t.as_secs().clamp(2, 3600) as u32),
            trust,
        };
        // The contents of the files are checked where they are used.
        if let Err(e) = Client::check(&settings.endpoints, &settings.trust) {
            let named = match &e {
                Error::Setting { what: "ca_file", .. } => raw.ca_file.as_ref(),
                Error::Setting { what: "cert_file", .. } => raw.cert_file.as_ref(),
                Error::Setting { what: "key_file", .. } => raw.key_file.as_ref(),
                Error::Setting { what: "user", .. } => raw.user.as_ref(),
                Error::Setting { what: "password_file", .. } => raw.password_file.as_ref(),
                _ => None,
            };
            let place = named.map_or_else(|| at(&raw.endpoints), at);
            self.diags.push(Diagnostic::error(place, e.to_string()));
        }
        let plain = |e: &&String| {
            let host = e.strip_prefix("http://").unwrap_or("localhost");
            !["localhost", "127.", "[::1]"].iter().any(|here| host.starts_with(here))
        };
        if let (Some(user), Some(open)) = (&raw.user, settings.endpoints.iter().find(plain)) {
            let text = format!("the password of '{}' is sent unencrypted to {open}", user.get_ref());
            self.diags.push(
                Diagnostic::warning(at(user), text).with_help("endpoints with TLS begin with https://"),
            );
        }
        if let (Some(text), Some(help)) = (&raw.prefix, EtcdSettings::bad_prefix(&settings.prefix)) {
            self.wrong(at(text), format!("'{}' is not a valid prefix for keys", settings.prefix), help);
        }
        settings
    }

    pub(super) fn cluster(&mut self, raw: RawFile) -> Cluster {
        let name = raw.name.get_ref().clone();
        if !is_name(&name) {
            self.wrong(
                at(&raw.name),
                format!("'{name}' is not a valid cluster name"),
                "up to 32 letters, digits, '-' and '_': sockets are named after it",
            );
        }
        if raw.key_file.is_none() && !raw.insecure {
            self.wrong(
                at(&raw.name),
                "the cluster has no key: anybody who can send to one of its links could join it",
                "make one with `valiant cluster key FILE` and set key_file = \"FILE\"; or set insecure = true",
            );
        }
        let rate_bps = self.rate(&raw.rate);
        let link_bps = raw.link_rate.as_ref().map(|r| self.rate(r));
        let policy = self.policy(&raw.policy);
        let hello = self.hello(&raw.hello);
        let topology = self.topology(&raw.topology);
        let etcd = raw.etcd.as_ref().map(|etcd| self.etcd(&name, etcd));
        for (variable, value) in &raw.define {
            let ours = ["DEV", "IP", "NET", "BASE", "BCAST", "MAC", "MTU"];
            let numbered = |p: &&&str| {
                variable
                    .strip_prefix(**p)
                    .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            };
            if let Some(prefix) = ours.iter().find(numbered) {
                self.wrong(
                    at(value),
                    format!("the variable {variable} is set by the cluster file for a port"),
                    format!("set it in a [[node.port]], or choose a name that is not {prefix} and a number"),
                );
            }
        }
        let (nodes, places) = self.nodes(&name, &raw.node);
        let cluster = Cluster {
            key_file: raw.key_file.as_ref().map(|f| self.dir.join(f.get_ref())),
            rate_bps,
            etcd,
            link_bps,
            shape: raw.shape,
            fair: raw.fair.unwrap_or(true),
            measure: raw.measure,
            program: self.dir.join(raw.program.get_ref()),
            table: raw.table.as_ref().map(|t| t.get_ref().clone()),
            defines: raw.define.into_iter().map(|(name, value)| (name, value.into_inner())).collect(),
            policy,
            hello,
            topology,
            nodes,
            routes: Vec::new(),
            warnings: Diagnostics::new(),
            name,
        };
        if cluster.present().count() < 2 {
            self.wrong(
                at(&raw.name),
                format!("a cluster of {} nodes", cluster.present().count()),
                "a cluster needs two or more [[node]]; `valiant run` runs a router on one server",
            );
        }
        if cluster.policy.resequence && cluster.topology != Topology::Mesh {
            self.wrong(
                at(&raw.name),
                "resequence = true in a fly: its packets carry their intermediate node in the place of a sequence number",
                "remove it: packets of a flow that follow each other within `delta` stay in order",
            );
        }
        self.ports_agree(&cluster, &places);
        // Where two nodes have one number, it is not clear what belongs to which.
        if cluster.nodes.windows(2).all(|pair| pair[0].id != pair[1].id) {
            self.devices_agree(&cluster, &places);
            self.links_agree(&cluster, &places);
        }
        let routes = raw.route.iter().filter_map(|route| self.route(&cluster, route)).collect::<Vec<_>>();
        for (i, route) in routes.iter().enumerate() {
            if routes[..i].iter().any(|other| other.prefix == route.prefix) {
                let again = raw.route.iter().rfind(|r| {
                    IpPrefix::parse(r.prefix.get_ref(), &self.names, false)
                        .is_ok_and(|p| network(&p) == route.prefix)
                });
                if let Some(again) = again {
                    self.wrong(
                        at(&again.prefix),
                        format!("a second route to {}", route.prefix),
                        "keep one of them",
                    );
                }
            }
        }
        Cluster { routes, ..cluster }
    }

    fn policy(&mut self, raw: &RawPolicy) -> Policy {
        let mode = match raw.mode.as_ref().map(|m| (m, m.get_ref().as_str())) {
            None | Some((_, "adaptive")) => Mode::Adaptive,
            Some((_, "direct")) => Mode::Direct,
            Some((_, "valiant")) => Mode::Valiant,
            Some((mode, other)) => {
                self.wrong(
                    at(mode),
                    format!("'{other}' is not a policy"),
                    "use \"adaptive\", \"direct\" (as in RouteBricks) or \"valiant\" (all packets via an intermediate node)",
                );
                Mode::Adaptive
            }
        };
        let delta = raw.delta.as_ref().and_then(|d| self.time(d));
        if let Some(flows) = raw.flows.as_ref().filter(|f| *f.get_ref() == 0) {
            self.wrong(at(flows), "flows = 0", "remove `flows` for the default, 65536");
        }
        Policy { mode, delta, flows: raw.flows.as_ref().map(|f| *f.get_ref()), resequence: raw.resequence }
    }

    fn hello(&mut self, raw: &RawHello) -> Hello {
        let every = self.time_from(raw.every.as_ref(), EVERY, "every", "1ms to 10s");
        let dead = self.time_from(raw.dead.as_ref(), DEAD, "dead", "2ms to 60s, and twice `every` or more");
        let usual = Duration::from_nanos(cluster::hello::Settings::default().hello_ns);
        if let (Some(dead), Some(place)) = (dead, &raw.dead)
            && dead < every.unwrap_or(usual).saturating_mul(2)
        {
            self.wrong(
                at(place),
                "the link would be dead before a second hello is due",
                "set dead to twice `every` or more; three times is usual",
            );
        }
        Hello { every, dead }
    }

    fn topology(&mut self, raw: &RawTopology) -> Topology {
        match raw.kind.as_ref().map(|k| (k, k.get_ref().as_str())) {
            None | Some((_, "mesh")) => {
                if let Some(k) = &raw.k {
                    self.wrong(at(k), "a mesh has no k", "remove it, or set kind = \"fly\"");
                }
                Topology::Mesh
            }
            Some((kind, "fly")) => {
                let k = raw.k.as_ref().map_or(0, |k| *k.get_ref());
                if k < 2 {
                    let place = raw.k.as_ref().map_or_else(|| at(kind), at);
                    self.wrong(
                        place,
                        "a k-ary n-fly needs k, the links of a node, 2 or more",
                        "for instance k = 2",
                    );
                }
                Topology::Fly { k }
            }
            Some((kind, other)) => {
                self.wrong(at(kind), format!("'{other}' is not a topology"), "use \"mesh\" or \"fly\"");
                Topology::Mesh
            }
        }
    }

    /// The nodes by number, with their places in the text.
    fn nodes(&mut self, name: &str, raw: &[RawNode]) -> (Vec<Node>, Places) {
        let mut order: Vec<&RawNode> = raw.iter().collect();
        order.sort_by_key(|n| *n.id.get_ref());
        for pair in order.windows(2).filter(|p| p[0].id.get_ref() == p[1].id.get_ref()) {
            self.diags.push(
                Diagnostic::error(at(&pair[1].id), format!("a second node {}", pair[1].id.get_ref()))
                    .with_note(at(&pair[0].id), "the first one is here")
                    .with_help("each node has a number of its own, from 0"),
            );
        }
        let mut nodes = Vec::new();
        let mut places = Places::default();
        let mut number = 0;
        for node in order {
            let id = *node.id.get_ref();
            if id >= MAX_NODES {
                self.wrong(
                    at(&node.id),
                    format!("node {id}: a cluster has at most {MAX_NODES} nodes"),
                    "number the nodes from 0; a missing number counts as a node",
                );
            }
            if let Some(extra) = node.port.get(MAX_PORTS) {
                self.wrong(
                    at(&extra.device),
                    format!("node {id} has more than {MAX_PORTS} external ports"),
                    "give some of them to another node",
                );
            }
            if let Some(workers) = node.workers.as_ref().filter(|w| *w.get_ref() == 0) {
                self.wrong(at(workers), "workers = 0", "remove `workers` for one worker");
            }
            if let Some(cpus) = &node.cpus
                && cpus.get_ref() != "auto"
                && let Err(e) = launch::cpu_list(cpus.get_ref())
            {
                self.wrong(at(cpus), e.replace("--cpus: ", ""), "or say \"auto\"");
            }
            let socket = node.socket.as_ref().map_or_else(
                || Path::new(RUN_DIR).join(format!("{name}-{id}.sock")),
                |s| self.dir.join(s.get_ref()),
            );
            // sun_path has 108 bytes with its end (unix(7)).
            if socket.as_os_str().len() > 107 {
                let place = node.socket.as_ref().map_or_else(|| at(&node.id), at);
                self.wrong(
                    place,
                    "the path of the control socket is longer than 107 bytes",
                    "choose a shorter `socket`",
                );
            }
            let mut ports = Vec::new();
            for port in &node.port {
                if let Some(port) = self.port(port, number) {
                    ports.push(port);
                }
                number += 1;
            }
            let links = node.link.iter().filter_map(|link| self.link(id, link)).collect();
            nodes.push(Node {
                id,
                removed: node.removed,
                host: node.host.clone(),
                netns: node.netns.as_ref().map(|n| n.get_ref().clone()),
                socket,
                workers: node.workers.as_ref().map_or(1, |w| *w.get_ref()),
                cpus: node.cpus.as_ref().map(|c| c.get_ref().clone()),
                ports,
                links,
            });
            places.nodes.push(at(&node.id));
            places.ports.push(node.port.iter().map(|p| (at(&p.device), at(&p.network))).collect());
            let vxlan = |l: &RawLink| l.vxlan.as_ref().map(at);
            places.links.push(
                node.link
                    .iter()
                    .map(|l| {
                        (
                            at(&l.to),
                            l.device.as_ref().map(at).or_else(|| vxlan(l)).unwrap_or_else(|| at(&l.to)),
                        )
                    })
                    .collect(),
            );
        }
        (nodes, places)
    }

    fn port(&mut self, raw: &RawPort, number: usize) -> Option<Port> {
        let device = self.device(&raw.device);
        let mtu = raw.mtu.as_ref().map(|m| self.mtu(m));
        let mac = raw.mac.as_ref().and_then(|mac| self.mac(mac));
        let given = self.prefix(&raw.network, "10.0.1.1/24")?;
        let length = given.prefix_len()?;
        let place = at(&raw.network);
        if length < MIN_PREFIX {
            self.wrong(
                place,
                format!("the network of an external port is /{MIN_PREFIX} or longer, not /{length}"),
                "packets between nodes have 16 bits for the next hop; use several ports, or a router behind this one",
            );
        } else if length > MAX_PREFIX {
            self.wrong(
                place,
                format!("a network of /{length} has no room for hosts beside the router"),
                format!("use /{MAX_PREFIX} or shorter"),
            );
        } else if given.addr == given.network() || given.addr == broadcast(&given) {
            self.wrong(
                place,
                format!("{} is the network's own or its broadcast address", given.addr),
                "write the router's address there, as in \"10.0.1.1/24\"",
            );
        }
        let rate_bps = raw.rate.as_ref().map(|r| self.rate(r));
        Some(Port { number, device, ip: given.addr, net: network(&given), mac, mtu, rate_bps })
    }

    fn mac(&mut self, text: &Spanned<String>) -> Option<EtherAddr> {
        settings::mac(text, &mut self.diags)
    }

    fn link(&mut self, from: u16, raw: &RawLink) -> Option<Link> {
        let to = *raw.to.get_ref();
        if to == from {
            self.wrong(
                at(&raw.to),
                format!("node {from} has a link to itself"),
                "give the node at its other end",
            );
            return None;
        }
        let kind = match (&raw.device, &raw.vxlan) {
            (Some(device), None) => LinkKind::Device(self.device(device)),
            (None, Some(tunnel)) => {
                let raw = tunnel.get_ref();
                if raw.vni >= 1 << 24 {
                    self.wrong(at(tunnel), format!("VNI {}", raw.vni), "a VNI has 24 bits: up to 16777215");
                }
                let device = self.device(&raw.device);
                let local = self.prefix(&raw.local, "192.168.0.1/24");
                let remote = self.address(&raw.remote);
                let gateway = raw.gateway.as_ref().and_then(|g| Some((self.address(g)?, at(g))));
                let mac = raw.mac.as_ref().and_then(|mac| self.mac(mac));
                let (local, remote) = (local?, remote?);
                if let Some((gateway, place)) = gateway.filter(|(g, _)| !local.contains(*g)) {
                    self.wrong(
                        place,
                        format!("the gateway {gateway} is not in the network of {}", local.addr),
                        format!("name a router in {}", network(&local)),
                    );
                } else if gateway.is_none() && !local.contains(remote) {
                    self.wrong(
                        at(&raw.remote),
                        format!("{remote} is not in the network of {}", local.addr),
                        "set gateway = \"...\" to the router that leads there",
                    );
                }
                let gateway = gateway.map(|(g, _)| g);
                LinkKind::Vxlan(Vxlan { vni: raw.vni, device, local, remote, gateway, mac })
            }
            _ => {
                self.wrong(
                    at(&raw.to),
                    format!("the link to node {to} needs either a device or a tunnel"),
                    "set either device = \"...\" or vxlan = { ... }",
                );
                return None;
            }
        };
        let mtu = raw.mtu.as_ref().map(|m| self.mtu(m)).unwrap_or(match kind {
            LinkKind::Device(_) => DEFAULT_MTU,
            LinkKind::Vxlan(_) => DEFAULT_MTU + VXLAN_BYTES,
        });
        let rate_bps = raw.rate.as_ref().map(|r| self.rate(r));
        Some(Link { to, kind, rate_bps, mtu })
    }

    fn route(&mut self, cluster: &Cluster, raw: &RawRoute) -> Option<Route> {
        let given = self.prefix(&raw.prefix, "10.9.0.0/16");
        let via = self.address(&raw.via)?;
        let prefix = network(&given?);
        if given != Some(prefix) {
            self.wrong(
                at(&raw.prefix),
                format!("{} has bits set behind the prefix length", given?.addr),
                format!("write {prefix}"),
            );
        }
        let Some((node, _, port)) = cluster.ports().find(|(_, _, p)| p.net.contains(via)) else {
            self.wrong(
                at(&raw.via),
                format!("{via} is in the network of no external port"),
                "the next hop of a route is a neighbor in the network of a [[node.port]]",
            );
            return None;
        };
        if via == port.ip || via == port.net.addr || via == broadcast(&port.net) {
            self.wrong(
                at(&raw.via),
                format!("{via} is not a neighbor of node {}", node.id),
                format!("name another router's address in {}", port.net),
            );
        }
        Some(Route { prefix, via, port: port.number })
    }
}
