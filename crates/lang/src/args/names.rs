//! The database of names: addresses, ports, annotations, elements.
//!
//! Names come from information elements (`AddressInfo`, `PortInfo`, `AnnotationInfo`) and are valid in the
//! compound element around the definition and in those inside it. A [`NameDb`] looks names up from one place
//! ([`NameDb::at`]), innermost first.

use super::known::{ANNOTATIONS, PROTOCOLS};
use super::values::{EtherAddr, Ip6Prefix, IpPrefix};
use crate::diag::nearest;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use wire::names::{ICMP_CODES, ICMP_TYPES, PORTS};

/// The addresses of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAddrs {
    /// IPv4 address.
    pub ip: Option<Ipv4Addr>,
    /// IPv4 network; the address part may have host bits.
    pub net: Option<IpPrefix>,
    /// IPv6 address.
    pub ip6: Option<Ipv6Addr>,
    /// IPv6 network.
    pub net6: Option<Ip6Prefix>,
    /// Ethernet address.
    pub ether: Option<EtherAddr>,
    /// IPv4 address of the default gateway.
    pub gateway: Option<Ipv4Addr>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    /// Addresses by full name.
    addrs: HashMap<String, DeviceAddrs>,
    /// Where interfaces of the machine are looked for, when no definition matches.
    devices: Devices,
    /// Ports by protocol and full name.
    ports: HashMap<(u8, String), u16>,
    /// Where ports are looked for that have no name here.
    services: Services,
    /// Annotations by full name: offset, size.
    annos: HashMap<String, (u16, u16)>,
    elements: Option<BTreeSet<String>>,
    home: Option<String>,
}

/// Looks up the port of an IP protocol by the name of a service; `None`: it has none.
pub type FindService = fn(u8, &str) -> Option<u16>;

/// Looks up the addresses of an interface of the machine; `None`: there is no such interface.
pub type FindDevice = fn(&str) -> Option<DeviceAddrs>;

#[derive(Clone, Copy, Default)]
struct Services(Option<FindService>);

#[derive(Clone, Copy, Default)]
struct Devices(Option<FindDevice>);

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Devices({})", self.0.is_some())
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Services({})", self.0.is_some())
    }
}

/// Names, seen from one place in a configuration. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct NameDb {
    tables: Arc<Tables>,
    /// Name of the compound element that the view is in, with a slash at the end; empty at file level.
    context: String,
}

/// `a/b/`, `a/`, and the empty prefix.
fn prefixes(context: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(context);
    std::iter::from_fn(move || {
        let now = next?;
        next = (!now.is_empty()).then(|| now[..now.len() - 1].rfind('/').map_or("", |slash| &now[..=slash]));
        Some(now)
    })
}

/// Splits `name:suffix` at the last colon; the suffix in lower case.
fn split_suffix(name: &str) -> (&str, Option<String>) {
    match name.rfind(':') {
        Some(i) => (&name[..i], Some(name[i + 1..].to_ascii_lowercase())),
        None => (name, None),
    }
}

impl NameDb {
    /// A database with the names that are always known, seen from file level.
    pub fn new() -> NameDb {
        NameDb::default()
    }

    /// The same names seen from the place of an element.
    pub fn at(&self, element: &str) -> NameDb {
        let context = element.rfind('/').map_or("", |slash| &element[..=slash]);
        NameDb { tables: self.tables.clone(), context: context.to_string() }
    }

    /// Runs `f` with this database seen from the place of an element: its definitions are valid there.
    pub fn within<R>(&mut self, element: &str, f: impl FnOnce(&mut NameDb) -> R) -> R {
        let inner = self.at(element).context;
        let outer = std::mem::replace(&mut self.context, inner);
        let result = f(self);
        self.context = outer;
        result
    }

    /// The compound element that names are looked up in, with a slash at the end; empty at file level.
    pub fn context(&self) -> &str {
        &self.context
    }

    fn scoped<'a, T>(&self, name: &'a str, get: impl Fn(&str) -> Option<T> + 'a) -> Option<T> {
        prefixes(&self.context).find_map(|p| get(&format!("{p}{name}")))
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.context)
    }

    fn tables_mut(&mut self) -> &mut Tables {
        Arc::make_mut(&mut self.tables)
    }

    /// The addresses of a name in this place, to be set.
    pub fn addresses_mut(&mut self, name: &str) -> &mut DeviceAddrs {
        let full = self.full(name);
        self.tables_mut().addrs.entry(full).or_default()
    }

    /// Names a TCP (6), UDP (17) or other port in this place.
    pub fn define_port(&mut self, proto: u8, name: &str, port: u16) {
        let full = self.full(name);
        self.tables_mut().ports.insert((proto, full), port);
    }

    /// Names an annotation in this place. A size of 0 fits every use.
    pub fn define_annotation(&mut self, name: &str, offset: u16, size: u16) {
        let full = self.full(name);
        self.tables_mut().annos.insert(full, (offset, size));
    }

    /// Copies all definitions from another view of a database: an information element writes its definitions
    /// into its own view.
    pub fn merge(&mut self, other: &NameDb) {
        let t = self.tables_mut();
        t.addrs.extend(other.tables.addrs.iter().map(|(k, v)| (k.clone(), v.clone())));
        t.ports.extend(other.tables.ports.iter().map(|(k, v)| (k.clone(), *v)));
        t.annos.extend(other.tables.annos.iter().map(|(k, v)| (k.clone(), *v)));
    }

    /// Sets the function that finds the machine's own names of services (`/etc/services`). This crate reads
    /// no files.
    pub fn set_services(&mut self, find: FindService) {
        self.tables_mut().services = Services(Some(find));
    }

    /// Sets the function that finds the addresses of the machine's interfaces. Definitions in the
    /// configuration have priority.
    pub fn set_devices(&mut self, find: FindDevice) {
        self.tables_mut().devices = Devices(Some(find));
    }

    /// Sets the elements that exist, so that element names are checked and completed.
    pub fn set_elements(&mut self, names: impl IntoIterator<Item = String>) {
        self.tables_mut().elements = Some(names.into_iter().collect());
    }

    /// Sets the home directory that `~/` stands for.
    pub fn set_home(&mut self, home: &str) {
        self.tables_mut().home = Some(home.to_string());
    }

    pub(crate) fn home(&self) -> Option<&str> {
        self.tables.home.as_deref()
    }

    /// The full name of the element meant by `name` here: `a/b/name`, `a/name`, `name`, the first that
    /// exists. Until elements have been set, every name is returned unchanged.
    pub fn find_element(&self, name: &str) -> Option<String> {
        match &self.tables.elements {
            None => Some(name.to_string()),
            Some(set) => self.scoped(name, |full| set.contains(full).then(|| full.to_string())),
        }
    }

    /// The element with the name most like `name`.
    pub fn nearest_element(&self, name: &str) -> Option<String> {
        nearest(name, self.tables.elements.as_ref()?)
    }

    fn address<T>(&self, name: &str, get: impl Fn(&DeviceAddrs) -> Option<T>) -> Option<T> {
        self.scoped(name, |full| self.tables.addrs.get(full).and_then(&get))
            .or_else(|| get(&self.tables.devices.0?(name)?))
    }

    /// An IPv4 address by name: `name`, `name:ip`, `name:bcast`, `name:gw`.
    pub fn ip(&self, text: &str) -> Option<Ipv4Addr> {
        let (name, suffix) = split_suffix(text);
        match suffix.as_deref() {
            None | Some("ip" | "ip4") => self.address(name, |a| a.ip),
            Some("bcast") => self
                .address(name, |a| a.net)
                .map(|n| Ipv4Addr::from_bits(n.addr.to_bits() | !n.mask.to_bits())),
            Some("gw") => {
                let defined = |full: &str| self.tables.addrs.get(full).and_then(|a| a.net);
                let first_host = |n: IpPrefix| Ipv4Addr::from_bits((n.addr.to_bits() & n.mask.to_bits()) | 1);
                self.address(text, |a| a.ip)
                    .or_else(|| self.scoped(name, defined).map(first_host))
                    .or_else(|| self.address(name, |a| a.gateway))
                    .or_else(|| self.address(name, |a| a.net).map(first_host))
            }
            Some(_) => None,
        }
    }

    /// An IPv4 network by name: `name`, `name:net`, `name:ipnet`, `name:ip4net`.
    pub fn ip_prefix(&self, text: &str) -> Option<IpPrefix> {
        let (name, suffix) = split_suffix(text);
        match suffix.as_deref() {
            None | Some("net" | "ipnet" | "ip4net") => self.address(name, |a| a.net),
            Some(_) => None,
        }
    }

    /// An IPv6 address by name: `name`, `name:ip6`.
    pub fn ip6(&self, text: &str) -> Option<Ipv6Addr> {
        let (name, suffix) = split_suffix(text);
        match suffix.as_deref() {
            None | Some("ip6") => self.address(name, |a| a.ip6),
            Some(_) => None,
        }
    }

    /// An IPv6 network by name: `name`, `name:ip6net`.
    pub fn ip6_prefix(&self, text: &str) -> Option<Ip6Prefix> {
        let (name, suffix) = split_suffix(text);
        match suffix.as_deref() {
            None | Some("ip6net") => self.address(name, |a| a.net6),
            Some(_) => None,
        }
    }

    /// An Ethernet address by name: `name`, `name:eth`, `name:ether`, `name:ethernet`.
    pub fn ether(&self, text: &str) -> Option<EtherAddr> {
        let (name, suffix) = split_suffix(text);
        match suffix.as_deref() {
            None | Some("eth" | "ether" | "ethernet") => self.address(name, |a| a.ether),
            Some(_) => None,
        }
    }

    /// A port of an IP protocol by name.
    pub fn port(&self, proto: u8, name: &str) -> Option<u16> {
        let known = || PORTS.iter().find(|(n, _)| *n == name).map(|(_, p)| *p);
        let transport = matches!(proto, 6 | 17);
        self.scoped(name, |full| self.tables.ports.get(&(proto, full.to_string())).copied())
            .or_else(|| transport.then(known)?)
            .or_else(|| self.tables.services.0.filter(|_| transport)?(proto, name))
    }

    /// An IP protocol by name. Click's groups `tcpudp` and `transp` are 256 and 257.
    pub fn protocol(&self, name: &str) -> Option<u32> {
        PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }

    /// An ICMP type by name.
    pub fn icmp_type(&self, name: &str) -> Option<u8> {
        ICMP_TYPES.iter().find(|(n, _)| *n == name).map(|(_, t)| *t)
    }

    /// A code of an ICMP type by name.
    pub fn icmp_code(&self, icmp_type: u8, name: &str) -> Option<u8> {
        ICMP_CODES.iter().find(|(t, n, _)| *t == icmp_type && *n == name).map(|(_, _, c)| *c)
    }

    /// The name of an IP protocol.
    pub fn protocol_name(protocol: u8) -> Option<&'static str> {
        PROTOCOLS.iter().find(|(_, p)| *p == u32::from(protocol)).map(|(n, _)| *n)
    }

    /// The name of an ICMP type.
    pub fn icmp_type_name(icmp_type: u8) -> Option<&'static str> {
        ICMP_TYPES.iter().find(|(_, t)| *t == icmp_type).map(|(n, _)| *n)
    }

    /// The name of a code of an ICMP type.
    pub fn icmp_code_name(icmp_type: u8, code: u8) -> Option<&'static str> {
        ICMP_CODES.iter().find(|(t, _, c)| (*t, *c) == (icmp_type, code)).map(|(_, n, _)| *n)
    }

    /// Offset and size of an annotation by name; the size may be 0, unknown.
    pub fn annotation(&self, name: &str) -> Option<(u16, u16)> {
        self.scoped(name, |full| self.tables.annos.get(full).copied())
            .or_else(|| ANNOTATIONS.iter().find(|(n, ..)| *n == name).map(|&(_, o, s)| (o, s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Anno, AnnoOffset, FromArg, IpPort, IpProto, TcpPort, UdpPort, parse};

    #[test]
    fn scopes() {
        let mut db = NameDb::new();
        db.addresses_mut("x").ip = Some(Ipv4Addr::new(1, 0, 0, 1));
        let mut inner = db.at("a/b/info");
        assert_eq!(inner.context(), "a/b/");
        inner.addresses_mut("x").ip = Some(Ipv4Addr::new(2, 0, 0, 2));
        inner.addresses_mut("y").ip = Some(Ipv4Addr::new(3, 0, 0, 3));
        db.merge(&inner);
        let seen = |at: &str, name: &str| db.at(at).ip(name).map(|a| a.octets()[0]);
        assert_eq!(seen("top", "x"), Some(1));
        assert_eq!(seen("a/q", "x"), Some(1));
        assert_eq!(seen("a/b/q", "x"), Some(2));
        assert_eq!(seen("a/b/c/q", "y:ip"), Some(3));
        assert_eq!(seen("a/bc/q", "y"), None);
        assert_eq!(seen("a/b/q", "x:eth"), None);
        db.within("a/z", |d| d.define_port(6, "p", 9));
        assert_eq!((db.port(6, "p"), db.at("a/q").port(6, "p")), (None, Some(9)));
    }

    #[test]
    fn suffixes() {
        let mut db = NameDb::new();
        db.set_devices(|name| {
            (name == "eth0").then(|| DeviceAddrs {
                ip: Some(Ipv4Addr::new(10, 0, 0, 7)),
                net: Some(IpPrefix {
                    addr: Ipv4Addr::new(10, 0, 0, 7),
                    mask: Ipv4Addr::new(255, 255, 255, 0),
                }),
                ether: Some(EtherAddr([1, 2, 3, 4, 5, 6])),
                ..DeviceAddrs::default()
            })
        });
        assert_eq!(db.ip("eth0:IP4").unwrap().to_string(), "10.0.0.7");
        assert_eq!(db.ip("eth0:bcast").unwrap().to_string(), "10.0.0.255");
        assert_eq!(db.ip("eth0:gw").unwrap().to_string(), "10.0.0.1");
        assert_eq!(db.ip_prefix("eth0:net").unwrap().to_string(), "10.0.0.7/24");
        assert_eq!(db.ether("eth0:eth"), Some(EtherAddr([1, 2, 3, 4, 5, 6])));
        assert_eq!((db.ip6("eth0"), db.ip("eth1"), db.ether("eth1")), (None, None, None));
        // Definitions in the configuration have priority.
        db.addresses_mut("eth0").ip = Some(Ipv4Addr::new(10, 0, 0, 8));
        assert_eq!(db.ip("eth0").unwrap().to_string(), "10.0.0.8");
        assert_eq!(db.ether("eth0"), Some(EtherAddr([1, 2, 3, 4, 5, 6])));
    }

    #[test]
    fn known_names() {
        let sorted_unique = |names: Vec<&str>| {
            let mut n = names.clone();
            n.sort_unstable();
            n.dedup();
            assert_eq!(n.len(), names.len());
        };
        sorted_unique(ANNOTATIONS.iter().map(|p| p.0).collect());
        assert_eq!(parse::<TcpPort>("www"), Ok(TcpPort(80)));
        assert_eq!(parse::<UdpPort>("65535"), Ok(UdpPort(65535)));
        assert_eq!(parse::<IpPort>("65536"), Err("overflow, range 0-65535".into()));
        assert!(parse::<IpPort>("htps").unwrap_err().contains("'https'"));
        assert_eq!(parse::<IpProto>("udp"), Ok(IpProto(17)));
        assert_eq!(parse::<IpProto>("256"), Err("out of range, bound 255".into()));
        assert!(parse::<IpProto>("tcpudp").is_err());
        let db = NameDb::new();
        assert_eq!(db.icmp_type("unreachable"), Some(3));
        assert_eq!(db.icmp_code(3, "needfrag"), Some(4));
        assert_eq!(
            (NameDb::icmp_type_name(3), NameDb::icmp_code_name(3, 4)),
            (Some("unreachable"), Some("needfrag"))
        );
        assert_eq!((NameDb::protocol_name(17), NameDb::protocol_name(255)), (Some("udp"), None));
    }

    #[test]
    fn annotations() {
        assert_eq!(parse::<AnnoOffset>("PAINT"), Ok(AnnoOffset { offset: 16, size: 1 }));
        assert_eq!(parse::<AnnoOffset>("5"), Ok(AnnoOffset { offset: 5, size: 0 }));
        assert!(parse::<AnnoOffset>("48").is_err());
        assert!(parse::<AnnoOffset>("PAIN").unwrap_err().contains("'PAINT'"));
        assert_eq!(parse::<Anno<4>>("AGGREGATE"), Ok(Anno(20)));
        assert!(parse::<Anno<4>>("PAINT").is_err());
        assert_eq!(parse::<Anno<4>>("44"), Ok(Anno(44)));
        assert!(parse::<Anno<4>>("45").is_err());
        let mut db = NameDb::new();
        db.define_annotation("MINE", 8, 2);
        assert_eq!(Anno::<2>::from_arg("MINE", &db.at("x/y")), Ok(Anno(8)));
    }
}
