//! The scheme `hybrid`: what passes a router's packets between the common process and its own, by memif, or a
//! virtual machine, by vhost-user.
//!
//! In the common process such a router has a program that is made here: for each interface it sends what the
//! interface receives to the process, and what comes back to the interface. So tags, shares, queues and links
//! are those of any router of the common process. In its own process each interface is a port of DPDK's
//! driver for memif.

use crate::cleaner::remove_socket;
use crate::file::{HostFile, VirtualInterface, VirtualRouter};
use crate::program::load_options;
use crate::setup::router_setup;
use dpdk::{MemifPort, PortSpec};
use lang::{Diagnostic, Diagnostics, LoadOptions, Source};
use locks::IgnorePoison;
use memif::{Connection, Layout, Region};
use runtime::{Options, Registry, Router};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vrhost::{Connection as Below, PortSetup, RouterSetup};

/// Frames in each ring, as a power of two.
const LOG2_SLOTS: u8 = 9;
/// The largest network packet that DPDK's driver takes.
const MTU: u32 = 1500;
/// How long a process may take for a message of the control channel.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sockets on which a router's process listens for its interfaces.
pub(crate) fn sockets(file: &HostFile, router: &VirtualRouter) -> Vec<PathBuf> {
    (0..router.interfaces.len()).map(|interface| file.memif_socket(router, interface)).collect()
}

/// The name of the port to the process.
fn port_name(router: &VirtualRouter, interface: &str) -> String {
    format!("{}/{interface}.process", router.name)
}

/// The device to the process, or to the virtual machine, which connects to a socket.
fn other_side(file: &HostFile, router: &VirtualRouter, number: usize) -> String {
    let Some(interface) = router.interfaces.get(number) else { return String::new() };
    if router.program.is_some() {
        return format!("virtual:{}", port_name(router, &interface.name));
    }
    let socket = file.vhost_socket(router, interface);
    lang::quote(&format!("net_vhost_{}_{number},iface={},queues=1", router.name, socket.display()))
}

/// The program of the common process. With a filter, IPv4 packets that it allows and ARP reach the other
/// side.
fn relay(file: &HostFile, router: &VirtualRouter) -> Source {
    let mut text = String::new();
    let filter: Vec<&str> = router.filter.iter().map(|(rule, _)| rule.as_str()).collect();
    for (number, interface) in router.interfaces.iter().enumerate() {
        let (name, there) = (&interface.name, other_side(file, router, number));
        let _ = if filter.is_empty() {
            writeln!(text, "FromDevice(${name}) -> ToDevice({there});")
        } else {
            writeln!(
                text,
                "to_{name} :: ToDevice({there});\n\
                 FromDevice(${name}) -> kind_{name} :: Classifier(12/0800, 12/0806, -);\n\
                 kind_{name}[0] -> CheckIPHeader(14, VERBOSE false) -> filter_{name} :: IPFilter({}) -> to_{name};\n\
                 kind_{name}[1] -> to_{name};\n\
                 kind_{name}[2] -> Discard;",
                filter.join(", ")
            )
        };
        let _ = writeln!(text, "FromDevice({there}) -> ToDevice(${name});");
    }
    Source::new("the filter", text)
}

/// Everything that is needed to run a router's part in the common process.
pub(crate) fn relay_setup(registry: &Arc<Registry>, file: &HostFile, router: &VirtualRouter) -> RouterSetup {
    let mut setup = router_setup(registry, file, router, relay(file, router));
    // Its control socket is that of its process.
    setup.sources.truncate(1);
    setup.load = LoadOptions::default();
    // So are its limits.
    setup.limits = runtime::Limits::default();
    setup
}

/// What in a rule would not be a part of it.
fn stray(rule: &str) -> Option<String> {
    let known = |c: char| c.is_ascii_alphanumeric() || " .:/()<>=!&|-_+".contains(c);
    let mut open = 0i32;
    for c in rule.chars() {
        open += i32::from(c == '(') - i32::from(c == ')');
        if open < 0 || !known(c) {
            return Some(format!("'{c}'"));
        }
    }
    ["//", "/*"].into_iter().find(|word| rule.contains(word)).map(|word| format!("'{word}'")).or_else(|| {
        match open {
            0 => None,
            _ => Some("'(' without ')'".to_owned()),
        }
    })
}

/// The errors in a router's filter, at their places in the host file.
pub(crate) fn check_filter(registry: &Arc<Registry>, file: &HostFile, router: &VirtualRouter) -> Diagnostics {
    let mut errors = Diagnostics::new();
    for (rule, span) in &router.filter {
        if rule.trim().is_empty() {
            errors.error(*span, "a rule of the filter is empty");
        } else if let Some(stray) = stray(rule) {
            errors.error(*span, format!("{stray} in a rule of the filter"));
        }
    }
    if router.filter.is_empty() || errors.has_errors() {
        return errors;
    }
    // Each rule alone, so that it is clear which one is wrong.
    for (rule, span) in &router.filter {
        let one = VirtualRouter { filter: vec![(rule.clone(), *span)], ..router.clone() };
        let load = LoadOptions { defines: router.defines(), ..load_options(router) };
        let options = Options { check_only: true, ..Options::default() };
        if let Err(wrong) = Router::new(&[relay(file, &one)], load, Arc::clone(registry), options) {
            let mut told: Vec<&str> = wrong.iter().map(|d| d.message.as_str()).collect();
            // Each interface has the filter.
            told.dedup();
            let told = told.first().copied().unwrap_or_default();
            errors.push(
                Diagnostic::error(*span, format!("the filter of router {}: {told}", router.name))
                    .with_help("rules as for IPFilter: filter = [\"allow tcp\", \"deny all\"]"),
            );
        }
    }
    errors
}

/// The ports of a router's own process, one for each interface, and what is below each interface there.
pub(crate) fn process_ports(
    router: &VirtualRouter,
    sockets: &[PathBuf],
) -> Result<Vec<PortSetup>, dpdk::Error> {
    let port = |(number, (interface, socket)): (usize, (&VirtualInterface, &PathBuf))| {
        let spec = format!(
            "net_memif{number},role=server,id=0,socket={},socket-abstract=no,bsize={},mac={}",
            socket.display(),
            memif::BUFFER,
            interface.address()
        );
        Ok(PortSetup::new(&interface.name, PortSpec::parse(&spec)?))
    };
    router.interfaces.iter().zip(sockets).enumerate().map(port).collect()
}

/// In its own process, a router has all frames of each port.
pub(crate) fn on_its_own(setup: &mut RouterSetup) {
    for (number, interface) in setup.interfaces.iter_mut().enumerate() {
        (interface.below, interface.default) = (Below::WholePort(number), false);
    }
}

/// What connects the two processes of a router.
#[derive(Debug, Default)]
pub(crate) struct Passages {
    ports: Vec<MemifPort>,
    sockets: Vec<PathBuf>,
    rings: usize,
    connections: Mutex<Vec<Connection>>,
}

impl Passages {
    /// One for each interface of a router, between `workers` of the common process and `rings` of its own.
    pub(crate) fn new(
        file: &HostFile,
        router: &VirtualRouter,
        workers: usize,
        rings: usize,
    ) -> Result<Self, dpdk::Error> {
        let port = |interface: &VirtualInterface| {
            let name = port_name(router, &interface.name);
            MemifPort::new(&name, interface.mac, MTU, workers, rings)
        };
        let ports = router.interfaces.iter().map(port).collect::<Result<_, _>>()?;
        Ok(Self { ports, sockets: sockets(file, router), rings, connections: Mutex::default() })
    }

    /// Their sockets.
    pub(crate) fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// Removes what a former process has left.
    pub(crate) fn clean(&self) {
        self.sockets.iter().for_each(|path| remove_socket(path));
    }

    /// Gives memory to the process, which has opened its ports.
    pub(crate) fn connect(&self) -> Result<(), String> {
        let mut connections = self.connections.lock().ignore_poison();
        connections.clear();
        for (port, path) in self.ports.iter().zip(&self.sockets) {
            let told = |e: std::io::Error| format!("{}: {}", port_of(path), launch::reason(&e));
            let region = Region::new(Layout::new(self.rings, LOG2_SLOTS)).map_err(told)?;
            connections.push(memif::connect(path, 0, &region, PATIENCE).map_err(told)?);
            port.attach(&region);
        }
        Ok(())
    }

    /// The process has ended.
    pub(crate) fn disconnect(&self) {
        self.ports.iter().for_each(MemifPort::detach);
        self.connections.lock().ignore_poison().clear();
        self.clean();
    }

    /// For each interface: packets for the process that it did not get, as it was not there or they were too
    /// long; and packets of it that were too long or in pieces.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ports.iter().map(|port| {
            let stats = port.stats();
            (stats.tx_errors, stats.rx_errors)
        })
    }

    /// What the process has written that it may not.
    pub(crate) fn broken(&self) -> Option<String> {
        self.ports.iter().find_map(MemifPort::broken).map(|broken| broken.to_string())
    }
}

fn port_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Checked;
    use std::path::Path;
    use std::process::ExitCode;

    fn file(scheme: &str, keys: &str) -> Result<HostFile, String> {
        let text = format!(
            "[host]\ndirectory = \"/run/x\"\n[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\nscheme = \"{scheme}\"\n{keys}\n\
             [[router.blue.interface]]\nport = \"p\"\nvlan = 7\n[[router.blue.interface]]\nname = \"LAN\"\nport = \"p\"\n"
        );
        HostFile::parse("edge.toml", &text, Path::new("/conf")).map_err(|d| d.render_plain(d.sources()))
    }

    fn wrong(filter: &str) -> String {
        let host = file("hybrid", &format!("filter = {filter}")).unwrap();
        let mut errors = check_filter(&Arc::new(elements::registry()), &host, &host.routers[0]);
        errors.set_sources(host.sources.clone());
        errors.render_plain(errors.sources())
    }

    #[test]
    fn a_filter_has_the_rules_of_ipfilter() {
        for good in [
            "[]",
            "[\"allow tcp\", \"deny all\"]",
            "[\"deny (src net 10.0.0.0/8 or dst host 192.0.2.1) && dst port 80\", \"allow all\"]",
            "[\"allow icmp type echo\", \"drop ip frag\"]",
        ] {
            assert_eq!(wrong(good), "", "{good}");
        }
        let told = wrong("[\"allow tcp\", \"allow nonsense\"]");
        assert!(
            told.contains("edge.toml:8: ")
                && told.contains("the filter of router blue")
                && told.contains("nonsense"),
            "{told}"
        );
        assert_eq!(told.matches("the filter of").count(), 1, "{told}");
    }

    /// A rule ends where its string ends.
    #[test]
    fn a_rule_is_nothing_else() {
        for (filter, reason) in [
            ("[\"allow all) -> Discard; Idle -> IPFilter(allow all\"]", "')' in a rule"),
            ("[\"allow all; Idle\"]", "';' in a rule"),
            ("[\"allow tcp // deny all\"]", "'//' in a rule"),
            ("[\"allow (tcp\"]", "'(' without ')' in a rule"),
            ("[\"allow tcp, allow udp\"]", "',' in a rule"),
            ("[\"allow $DEV0\"]", "'$' in a rule"),
            ("[\"\"]", "is empty"),
        ] {
            let told = wrong(filter);
            assert!(told.contains(reason), "{filter}: {told}");
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        for scheme in ["shared", "direct"] {
            let host = file(scheme, "filter = [\"allow all\"]").unwrap();
            let told = host.warnings.render_plain(host.warnings.sources());
            assert!(told.contains(&format!("`filter` is without effect in the scheme {scheme}")), "{told}");
            assert!(host.routers[0].filter.is_empty());
        }
        let host = file("hybrid", "cores = [0]\nfilter = [\"allow all\"]").unwrap();
        assert_eq!(host.warnings.render_plain(host.warnings.sources()), "");
        assert_eq!(
            sockets(&host, &host.routers[0]),
            [Path::new("/run/x/blue.DEV0.memif"), Path::new("/run/x/blue.LAN.memif")]
        );
    }

    #[test]
    fn its_ports_are_those_of_the_driver_for_memif() {
        let host = file("hybrid", "").unwrap();
        let router = &host.routers[0];
        let ports = process_ports(router, &sockets(&host, router)).unwrap();
        let text: Vec<String> = ports.iter().map(|port| port.spec.to_string()).collect();
        assert!(
            text[0].starts_with("net_memif0,role=server,") && text[1].starts_with("net_memif1,"),
            "{text:?}"
        );
        assert!(text[1].contains("socket=/run/x/blue.LAN.memif,"), "{text:?}");
        let mut setup = router_setup(&Arc::new(elements::registry()), &host, router, Source::new("p", ""));
        on_its_own(&mut setup);
        assert!(setup.interfaces.iter().enumerate().all(|(at, i)| i.below == Below::WholePort(at)));
        let odd = "[host]\ndirectory = \"/run/a,b\"\n[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\n\
                   scheme = \"hybrid\"\n[[router.blue.interface]]\nport = \"p\"\n";
        let told = HostFile::parse("edge.toml", odd, Path::new("/conf")).unwrap_err();
        assert!(told.render_plain(told.sources()).contains("cannot be told to DPDK"));
    }

    #[test]
    fn check_takes_the_filter_too() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("p.click"), "FromDevice($DEV0) -> ToDevice($DEV0);").unwrap();
        let check = |filter: &str| {
            let text = format!(
                "[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\nscheme = \"hybrid\"\nfilter = [\"{filter}\"]\n\
                 [[router.blue.interface]]\nport = \"p\"\n"
            );
            let path = dir.path().join("edge.toml");
            std::fs::write(&path, text).unwrap();
            Checked::new(&Arc::new(elements::registry()), &path).show(true)
        };
        assert_eq!(check("allow tcp"), ExitCode::SUCCESS);
        assert_eq!(check("allow tpc"), ExitCode::FAILURE);
    }
}
