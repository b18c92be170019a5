//! The control planes of virtual routers: their network namespaces, and a TAP in them for each interface.
//!
//! A TAP stays while its router starts again, without a carrier, so that a routing daemon keeps its
//! configuration; it goes with the router. A namespace that was there before stays.

use crate::file::{VirtualInterface, VirtualRouter};
use dpdk::{Tun, TunConfig, TunMode};
use netlink::Namespace;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tracing::{info, warn};

/// How many elements of a router in a process of its own can follow its namespace: while it changes its
/// program, the old one and the new one do.
const FOLLOWERS: usize = 2;
/// How many bytes of notifications can wait for one, the default of LinuxRoutes' `BUFFER`.
const NOTIFICATIONS: usize = 32 << 20;

/// What a router has.
#[derive(Debug)]
struct Provided {
    namespace: Namespace,
    /// Which one it was, and whether it has been made here.
    identity: Option<(u64, u64)>,
    made: bool,
    taps: BTreeMap<String, Vec<(IpAddr, u8)>>,
}

/// The control planes that this host provides, by router.
#[derive(Debug, Default)]
pub(crate) struct Controls(BTreeMap<String, Provided>);

impl Controls {
    /// Provides what a router is to have, or what has changed of it; `mtu` is that of an interface. What is
    /// there already stays.
    ///
    /// # Errors
    /// The namespace, a TAP or an address cannot be made.
    pub(crate) fn provide(
        &mut self,
        router: &VirtualRouter,
        mtu: impl Fn(&VirtualInterface) -> u32,
    ) -> Result<(), String> {
        let Some(control) = &router.control else {
            self.release(&router.name);
            return Ok(());
        };
        let about = |e: String| format!("router {}: {e}", router.name);
        let namespace = Namespace::named(&control.namespace).map_err(|e| about(e.to_string()))?;
        let other = |p: &Provided| p.namespace != namespace || namespace.present() != p.identity;
        if self.0.get(&router.name).is_some_and(other) {
            self.release(&router.name);
        }
        let made = namespace.make().map_err(|e| about(e.to_string()))?;
        if made {
            info!(target: "vr", "router {}: {namespace} is made", router.name);
        }
        let provided = self.0.entry(router.name.clone()).or_insert_with(|| Provided {
            identity: namespace.present(),
            namespace,
            made,
            taps: BTreeMap::new(),
        });
        let wanted: Vec<&VirtualInterface> =
            control.taps.iter().filter_map(|tap| router.interfaces.get(*tap)).collect();
        let gone = provided.taps.keys().filter(|name| !wanted.iter().any(|i| i.name == **name));
        for name in gone.cloned().collect::<Vec<_>>() {
            provided.remove(&name);
        }
        for interface in wanted {
            provided.tap(&control.namespace, interface, mtu(interface)).map_err(about)?;
        }
        Ok(())
    }

    /// Takes away what a router has.
    pub(crate) fn release(&mut self, router: &str) {
        let Some(mut provided) = self.0.remove(router) else { return };
        if provided.namespace.present() != provided.identity {
            return;
        }
        for name in provided.taps.keys().cloned().collect::<Vec<_>>() {
            provided.remove(&name);
        }
        if provided.made {
            provided.namespace.remove();
        }
    }

    /// Takes away what routers have that are not among these.
    pub(crate) fn keep(&mut self, routers: &[String]) {
        let gone = self.0.keys().filter(|name| !routers.contains(name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.release(&name);
        }
    }
}

/// The TAP of an interface: it stays when nobody has it open.
fn tap(namespace: &str, interface: &VirtualInterface) -> TunConfig {
    let mut config = TunConfig::new(&interface.name, TunMode::Ethernet);
    config.namespace = Some(namespace.to_owned());
    config.mac = Some(interface.mac);
    config.persistent = true;
    config
}

/// For a process that has no rights later: opens what the host has provided for its router.
///
/// # Errors
/// A TAP cannot be opened, or there is no socket in the namespace.
pub(crate) fn prepare(router: &VirtualRouter) -> Result<(), String> {
    let Some(control) = &router.control else { return Ok(()) };
    for interface in control.taps.iter().filter_map(|tap| router.interfaces.get(*tap)) {
        Tun::prepare(&tap(&control.namespace, interface)).map_err(|e| e.to_string())?;
    }
    follow(Some(&control.namespace))
}

/// For a process that has no rights later: opens sockets in a namespace, none for its own.
///
/// # Errors
/// There is no such namespace, or no socket in it.
pub(crate) fn follow(namespace: Option<&str>) -> Result<(), String> {
    let namespace = namespace.map_or(Ok(Namespace::Own), Namespace::named).map_err(|e| e.to_string())?;
    namespace.prepare(FOLLOWERS, NOTIFICATIONS).map_err(|e| e.to_string())
}

impl Provided {
    /// Makes a TAP, and sets its addresses to those of the file.
    fn tap(&mut self, namespace: &str, interface: &VirtualInterface, mtu: u32) -> Result<(), String> {
        let name = &interface.name;
        if !self.taps.contains_key(name) {
            let mut config = tap(namespace, interface);
            config.mtu = Some(mtu);
            // The router opens it in its turn.
            Tun::open(&config).map(drop).map_err(|e| e.to_string())?;
            self.taps.insert(name.clone(), Vec::new());
        }
        let Some(known) = self.taps.get_mut(name) else { return Ok(()) };
        for (address, length) in known.iter().filter(|old| !interface.addresses.contains(old)) {
            if let Err(e) = self.namespace.remove_address(name, *address, *length) {
                warn!(target: "vr", "{}: {e}", self.namespace);
            }
        }
        for (address, length) in &interface.addresses {
            self.namespace.add_address(name, *address, *length).map_err(|e| e.to_string())?;
        }
        known.clone_from(&interface.addresses);
        Ok(())
    }

    fn remove(&mut self, tap: &str) {
        self.taps.remove(tap);
        if let Err(e) = self.namespace.remove_interface(tap) {
            warn!(target: "vr", "{}: {e}", self.namespace);
        }
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        self.keep(&[]);
    }
}
