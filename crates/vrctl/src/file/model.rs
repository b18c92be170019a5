//! The meaning of a host file.

use dpdk::PortSpec;
use lang::{Diagnostics, SourceMap, Span};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// A host of virtual routers.
#[derive(Clone, Debug)]
pub struct HostFile {
    /// Its name.
    pub name: String,
    /// The processors on each of which a worker runs; empty: all that the process may use.
    pub cores: Vec<usize>,
    /// Where control sockets are.
    pub directory: PathBuf,
    /// Where relative paths start.
    pub(crate) dir: PathBuf,
    /// The physical ports, in the order of the file.
    pub ports: Vec<HostPort>,
    /// The virtual routers, in the order of the file.
    pub routers: Vec<VirtualRouter>,
    /// The virtual links, in the order of the file.
    pub links: Vec<Link>,
    /// Warnings about the file.
    pub warnings: Diagnostics,
    /// The text of the file, for messages about the places in it.
    pub sources: SourceMap,
    /// The places of the processors.
    pub(crate) core_spans: Vec<Span>,
    /// The processors of single routers, with their places.
    pub(crate) router_core_spans: Vec<(usize, Span)>,
}

/// A physical port.
#[derive(Clone, Debug)]
pub struct HostPort {
    /// Its name in the file.
    pub name: String,
    /// What it is opened on.
    pub device: PortSpec,
    /// How virtual routers share it.
    pub sharing: Sharing,
    /// With [`Sharing::Hardware`]: how many routers at most have a queue of their own.
    pub queues: u16,
    /// The interface that gets frames for no interface; none: they are dropped.
    pub default: Option<InterfaceId>,
    /// The ends of its VXLAN tunnel, which interfaces with a VNI use.
    pub tunnel: Option<TunnelEnds>,
    /// The place of its name.
    pub span: Span,
    /// The place of its device.
    pub device_span: Span,
}

/// The ends of a VXLAN tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnds {
    /// The address of this end.
    pub local: Ipv4Addr,
    /// The address of the other end.
    pub remote: Ipv4Addr,
    /// The Ethernet address of the other end, or of the router on the way to it.
    pub remote_mac: [u8; 6],
    /// The place of the entry.
    pub span: Span,
}

impl TunnelEnds {
    /// The same without the place.
    pub(crate) fn addresses(&self) -> (Ipv4Addr, Ipv4Addr, [u8; 6]) {
        (self.local, self.remote, self.remote_mac)
    }
}

/// A virtual interface of the file, by the places of its router and of itself within that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId {
    /// The index of the router in [`HostFile::routers`].
    pub router: usize,
    /// The index of the interface in [`VirtualRouter::interfaces`].
    pub interface: usize,
}

/// How virtual routers share a port (section 3.2 of the paper on virtual routers).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// A demultiplexer in software; a router's packets are processed at once.
    #[default]
    Software,
    /// A demultiplexer in software, a queue for each router, and a scheduler.
    SoftwareQueued,
    /// A receive queue of the port for each router.
    Hardware,
}

impl Sharing {
    /// All ways, with their names in the file.
    pub const ALL: [(&str, Self); 3] = [
        ("software", Self::Software),
        ("software-queued", Self::SoftwareQueued),
        ("hardware", Self::Hardware),
    ];
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::ALL, *self))
    }
}

/// How a virtual router is isolated from the others (section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In one process with the others.
    #[default]
    Shared,
    /// In a process of its own, with ports or queues of ports of its own.
    Direct,
    /// In a process of its own, to which the common one passes packets.
    Hybrid,
}

impl Scheme {
    /// All schemes, with their names in the file.
    pub const ALL: [(&str, Self); 3] =
        [("shared", Self::Shared), ("direct", Self::Direct), ("hybrid", Self::Hybrid)];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::ALL, *self))
    }
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], wanted: T) -> &'static str {
    all.iter().find(|(_, one)| *one == wanted).map_or("", |(name, _)| name)
}

/// Who administers a virtual router, beside the host's administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A user.
    User(String),
    /// The members of a group.
    Group(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::Group(name) => write!(f, "@{name}"),
        }
    }
}

/// The most that a virtual router may have of something; none: no limit of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Routes in its tables.
    pub routes: Option<u64>,
    /// Neighbors whose addresses it knows or asks for.
    pub neighbors: Option<u64>,
    /// Entries of tables of flows and of datagrams that are reassembled.
    pub flows: Option<u64>,
    /// Packet buffers that it holds.
    pub buffers: Option<u64>,
    /// Packets that wait for it at the demultiplexer.
    pub queue: Option<u64>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Handler calls in a second.
    pub handler_calls: Option<u64>,
    /// Lines that it logs in a second.
    pub log_lines: Option<u64>,
}

impl Limits {
    /// All limits that are set, with their names in the file.
    pub fn set(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("routes", self.routes),
            ("neighbors", self.neighbors),
            ("flows", self.flows),
            ("buffers", self.buffers),
            ("queue", self.queue),
            ("memory", self.memory_bytes),
            ("handler_calls", self.handler_calls),
            ("log_lines", self.log_lines),
        ]
        .into_iter()
        .filter_map(|(name, limit)| Some((name, limit?)))
    }
}

/// A virtual router.
#[derive(Clone, Debug)]
pub struct VirtualRouter {
    /// Its name.
    pub name: String,
    /// Its program, an ordinary configuration; none: the router is a virtual machine.
    pub program: Option<PathBuf>,
    /// How it is isolated from the others.
    pub scheme: Scheme,
    /// Its weight when processor time is short.
    pub share: u32,
    /// Who administers it; none: the host's administrator alone.
    pub owner: Option<Owner>,
    /// What it may use.
    pub limits: Limits,
    /// The processors on each of which one of its workers runs, if it has a process of its own; empty: those
    /// of the host.
    pub cores: Vec<usize>,
    /// Rules for packets that pass to its process, with their places; empty: all pass.
    pub filter: Vec<(String, Span)>,
    /// Variables of the program that the file defines, without those of the interfaces; see
    /// [`VirtualRouter::defines`].
    pub variables: Vec<(String, String)>,
    /// What its program may name outside the router, without its interfaces and its control plane.
    pub allow: runtime::Allow,
    /// Where its owner reaches it over TCP.
    pub tcp: Option<Tcp>,
    /// The network namespace that controls it.
    pub control: Option<Control>,
    /// Its interfaces, in the order of the file.
    pub interfaces: Vec<VirtualInterface>,
    /// The place of its name.
    pub span: Span,
    /// The place of its scheme.
    pub scheme_span: Option<Span>,
    /// The place of its program.
    pub program_span: Span,
    /// The place of its owner.
    pub owner_span: Option<Span>,
    /// The place of its whole entry, if this text says all about the router, wherever it is in a file of this
    /// host; see [`HostFile::read_again`].
    pub(crate) entry: Option<Span>,
}

impl VirtualRouter {
    /// The same router in a text in which its entry is `by` bytes further on.
    pub(super) fn moved(&self, by: i64) -> Self {
        let moved = |span: Span| {
            let by = |at: u32| u32::try_from(i64::from(at) + by).unwrap_or(u32::MAX);
            Span { start: by(span.start), end: by(span.end), ..span }
        };
        let mut this = self.clone();
        // All fields are named, so that none with a place is forgotten.
        let Self {
            name: _,
            program: _,
            scheme: _,
            share: _,
            owner: _,
            limits: _,
            cores: _,
            filter,
            variables: _,
            allow: _,
            tcp,
            control,
            interfaces,
            span,
            scheme_span,
            program_span,
            owner_span,
            entry,
        } = &mut this;
        let one = [span, program_span].into_iter().chain(filter.iter_mut().map(|(_, span)| span));
        let some = [scheme_span, owner_span, entry].into_iter().flatten();
        let of_control = control.iter_mut().map(|Control { namespace: _, taps: _, span }| span);
        for interface in &mut *interfaces {
            let VirtualInterface {
                name: _,
                port: _,
                tag: _,
                mac: _,
                addresses: _,
                rate_bps: _,
                link: _,
                span,
            } = interface;
            *span = moved(*span);
        }
        let of_tcp =
            tcp.iter_mut().flat_map(|Tcp { listen: _, token_file: _, span, token_span }| [span, token_span]);
        one.chain(some).chain(of_control).chain(of_tcp).for_each(|span| *span = moved(*span));
        this
    }

    /// The name of a device by which the program knows an interface.
    #[must_use]
    pub fn device(&self, interface: &VirtualInterface) -> PortSpec {
        PortSpec::Virtual(format!("{}/{}", self.name, interface.name))
    }

    /// What its program may name outside the router.
    #[must_use]
    pub fn allowed(&self) -> runtime::Allow {
        let taps = |control: &Control| {
            let taps = control.taps.iter().filter_map(|tap| self.interfaces.get(*tap));
            (control.namespace.clone(), taps.map(|interface| interface.name.clone()).collect())
        };
        runtime::Allow {
            interfaces: self.interfaces.iter().map(|interface| self.device(interface)).collect(),
            control: self.control.as_ref().map(taps),
            ..self.allow.clone()
        }
    }

    /// All variables of the program: those of the file, for each interface its device (`$DEV0`) and its
    /// address (`$MAC0`); those of the control plane (`$NETNS`, `$TAP0`).
    #[must_use]
    pub fn defines(&self) -> Vec<(String, String)> {
        let mut all = self.variables.clone();
        for interface in &self.interfaces {
            all.push((interface.name.clone(), self.device(interface).to_string()));
            all.push((mac_variable(&interface.name), interface.address()));
        }
        if let Some(control) = &self.control {
            all.push(("NETNS".to_owned(), control.namespace.clone()));
            for interface in control.taps.iter().filter_map(|tap| self.interfaces.get(*tap)) {
                all.push((tap_variable(&interface.name), interface.name.clone()));
            }
        }
        all
    }
}

/// The name of the variable that has an interface's address: `MAC0` for `DEV0`, `lan_MAC` for `lan`.
pub(super) fn mac_variable(interface: &str) -> String {
    interface.strip_prefix("DEV").map_or_else(|| format!("{interface}_MAC"), |rest| format!("MAC{rest}"))
}

/// The name of the variable that has the name of an interface's TAP: `TAP0` for `DEV0`, `lan_TAP` for `lan`.
pub(super) fn tap_variable(interface: &str) -> String {
    interface.strip_prefix("DEV").map_or_else(|| format!("{interface}_TAP"), |rest| format!("TAP{rest}"))
}

/// Where the owner of a router reaches it over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Address and port.
    pub listen: SocketAddr,
    /// The file with the token.
    pub token_file: PathBuf,
    /// The place of the address.
    pub span: Span,
    /// The place of the file's name.
    pub(crate) token_span: Span,
}

/// The network namespace that controls a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its name, as `ip netns` has it.
    pub namespace: String,
    /// The indices of the interfaces that have a TAP in it, of the same name.
    pub taps: Vec<usize>,
    /// The place of the entry.
    pub span: Span,
}

/// A virtual interface.
#[derive(Clone, Debug)]
pub struct VirtualInterface {
    /// Its name, and that of the program's variable for it.
    pub name: String,
    /// The index of its port in [`HostFile::ports`]; none: it is an end of a link, or not connected.
    pub port: Option<usize>,
    /// Which of the port's frames are for it.
    pub tag: Tag,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The addresses of its TAP, with the lengths of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The most that it sends by its port, in bits a second; none: what the port takes.
    pub rate_bps: Option<u64>,
    /// The index in [`HostFile::links`] of the link that it is an end of.
    pub link: Option<usize>,
    /// The place of its name, or of its whole entry.
    pub span: Span,
}

/// An Ethernet address as text, in the form of the file.
pub(super) fn address_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl VirtualInterface {
    /// Its Ethernet address as text.
    #[must_use]
    pub fn address(&self) -> String {
        address_text(self.mac)
    }
}

/// What the frames of a virtual interface have in common. If several interfaces of a port have the same tag,
/// their addresses distinguish the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// No tag: the address alone.
    #[default]
    Mac,
    /// A VLAN id.
    Vlan(u16),
    /// Two VLAN ids, the outer one first.
    Qinq(u16, u16),
    /// An MPLS label.
    Mpls(u32),
    /// A VXLAN network identifier.
    Vni(u32),
    /// A receive queue of the port.
    Queue(u16),
    /// All frames of the port.
    Whole,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mac => f.write_str("none"),
            Self::Vlan(id) => write!(f, "VLAN {id}"),
            Self::Qinq(outer, inner) => write!(f, "QinQ {outer}, {inner}"),
            Self::Mpls(label) => write!(f, "MPLS {label}"),
            Self::Vni(vni) => write!(f, "VNI {vni}"),
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::Whole => f.write_str("whole port"),
        }
    }
}

/// A virtual link between two interfaces of this host.
#[derive(Clone, Debug)]
pub struct Link {
    /// The interfaces that it joins.
    pub ends: [InterfaceId; 2],
    /// The place of its ends.
    pub span: Span,
}

impl Link {
    /// The other end; none if this interface is not one.
    #[must_use]
    pub fn peer(&self, of: InterfaceId) -> Option<InterfaceId> {
        let [a, b] = self.ends;
        if a == of { Some(b) } else { (b == of).then_some(a) }
    }
}

impl HostFile {
    /// All interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = (InterfaceId, &VirtualInterface)> {
        self.routers.iter().enumerate().flat_map(|(router, r)| {
            let with_id = move |(interface, i)| (InterfaceId { router, interface }, i);
            r.interfaces.iter().enumerate().map(with_id)
        })
    }

    /// An interface.
    #[must_use]
    pub fn interface(&self, id: InterfaceId) -> Option<&VirtualInterface> {
        self.routers.get(id.router)?.interfaces.get(id.interface)
    }

    /// The name of an interface in the file: `blue.DEV0`.
    #[must_use]
    pub fn name_of(&self, id: InterfaceId) -> String {
        let router = self.routers.get(id.router).map_or("", |r| r.name.as_str());
        format!("{router}.{}", self.interface(id).map_or("", |i| i.name.as_str()))
    }

    /// The other end of the link that an interface is an end of.
    #[must_use]
    pub fn peer(&self, id: InterfaceId) -> Option<InterfaceId> {
        self.links.get(self.interface(id)?.link?)?.peer(id)
    }

    /// The control socket of a virtual router.
    #[must_use]
    pub fn socket(&self, router: &VirtualRouter) -> PathBuf {
        self.directory.join(format!("{}.sock", router.name))
    }

    /// The socket on which the process of a router with the scheme hybrid listens for an interface.
    pub(crate) fn memif_socket(&self, router: &VirtualRouter, interface: usize) -> PathBuf {
        let name = router.interfaces.get(interface).map_or("", |interface| interface.name.as_str());
        self.directory.join(format!("{}.{name}.memif", router.name))
    }

    /// The socket at which a virtual machine finds an interface.
    #[must_use]
    pub fn vhost_socket(&self, router: &VirtualRouter, interface: &VirtualInterface) -> PathBuf {
        self.directory.join(format!("{}.{}.vhost", router.name, interface.name))
    }

    /// The processors that the workers of a router in a process of its own run on.
    #[must_use]
    pub fn processors_of(&self, router: &VirtualRouter) -> Vec<usize> {
        if router.cores.is_empty() { self.processors() } else { router.cores.clone() }
    }

    /// The routers with an interface on a port, by the port's index.
    pub fn users_of(&self, port: usize) -> impl Iterator<Item = &VirtualRouter> {
        self.routers.iter().filter(move |router| router.interfaces.iter().any(|i| i.port == Some(port)))
    }

    /// The processors that workers run on.
    #[must_use]
    pub fn processors(&self) -> Vec<usize> {
        if !self.cores.is_empty() {
            return self.cores.clone();
        }
        usable()
    }
}

/// The processors that this process may use.
pub(crate) fn usable() -> Vec<usize> {
    dpdk::Topology::here().cores().iter().filter(|core| core.allowed).map(|core| core.id).collect()
}
