//! From the host file to what runs: a router's program with its variables and interfaces.

use crate::file::{HostFile, InterfaceId, Owner, Scheme, Sharing, Tag, VirtualRouter};
use crate::program::{limits, load_options, room};
use lang::Source;
use nix::unistd::{Group, User, getegid, geteuid};
use runtime::Registry;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use vrhost::{Connection, InterfaceSetup, PortSetup, RouterSetup};

/// The limits of a router that have no effect so far.
pub(crate) fn idle_limits(router: &VirtualRouter) -> Vec<&'static str> {
    let works = |name: &str| match name {
        "queue" => true,
        // Of a machine, QEMU has it.
        "memory" => router.program.is_some(),
        "buffers" | "routes" | "neighbors" | "flows" | "log_lines" | "handler_calls" => {
            router.scheme == Scheme::Shared
        }
        _ => false,
    };
    router.limits.set().map(|(name, _)| name).filter(|name| !works(name)).collect()
}

/// All ports of a file; those are open of which `open` says so.
pub(crate) fn ports(file: &HostFile, open: impl Fn(usize) -> bool) -> Vec<PortSetup> {
    let tags = |number: usize| {
        let all = file.routers.iter().flat_map(|one| &one.interfaces);
        all.filter(move |one| one.port == Some(number)).map(|one| one.tag)
    };
    let port = |(number, port): (usize, &crate::file::HostPort)| PortSetup {
        name: port.name.clone(),
        spec: port.device.clone(),
        mtu: None,
        tunnel: port.tunnel.map(|tunnel| tunnel.addresses()),
        interfaces: tags(number).count(),
        queues: tags(number)
            .filter_map(|tag| if let Tag::Queue(queue) = tag { Some(queue) } else { None })
            .collect(),
        demultiplexed: tags(number).any(|tag| !matches!(tag, Tag::Queue(_))),
        own_queues: if port.sharing == Sharing::Hardware { port.queues } else { 0 },
        open: open(number),
    };
    file.ports.iter().enumerate().map(port).collect()
}

/// Everything that is needed to run a router, without its access over TCP.
pub(crate) fn router_setup(
    registry: &Arc<Registry>,
    file: &HostFile,
    router: &VirtualRouter,
    program: Source,
) -> RouterSetup {
    let socket = lang::quote(&file.socket(router).display().to_string());
    let control = format!("valiant_vr@@ControlSocket :: ControlSocket(unix, {socket});\n");
    let at = file.routers.iter().position(|one| one.name == router.name).unwrap_or_default();
    let interfaces = router.interfaces.iter().enumerate().map(|(number, interface)| {
        let id = InterfaceId { router: at, interface: number };
        let port = interface.port.and_then(|port| file.ports.get(port));
        InterfaceSetup {
            name: interface.name.clone(),
            below: connection(file, id),
            mac: interface.mac,
            default: port.is_some_and(|port| port.default == Some(id)),
            rate: interface.rate_bps.map(|bits| bits / 8),
        }
    });
    RouterSetup {
        name: router.name.clone(),
        sources: vec![program, Source::new("control socket", control)],
        load: load_options(router),
        registry: Arc::clone(registry),
        share: router.share,
        queue: room(router),
        limits: with_own_socket(limits(router), file, router),
        access: None,
        interfaces: interfaces.collect(),
    }
}

/// The router's control socket is beside what its program may name.
fn with_own_socket(limits: runtime::Limits, file: &HostFile, router: &VirtualRouter) -> runtime::Limits {
    let allow = limits.allow.as_deref().map(|allow| {
        let mut allow = allow.clone();
        allow.sockets.push(runtime::Socket::Unix(runtime::whole(&file.socket(router))));
        Arc::new(allow)
    });
    runtime::Limits { allow, ..limits }
}

/// What is below an interface.
fn connection(file: &HostFile, id: InterfaceId) -> Connection {
    let Some(interface) = file.interface(id) else { return Connection::Nothing };
    let tag = match interface.tag {
        Tag::Vlan(id) => demux::Tag::Vlan(id),
        Tag::Qinq(outer, inner) => demux::Tag::Qinq(outer, inner),
        Tag::Mpls(label) => demux::Tag::Mpls(label),
        Tag::Vni(vni) => demux::Tag::Vni(vni),
        Tag::Mac | Tag::Whole | Tag::Queue(_) => demux::Tag::None,
    };
    match (interface.port, interface.link) {
        (Some(port), _) if interface.tag == Tag::Whole => Connection::WholePort(port),
        (Some(port), _) => match interface.tag {
            Tag::Queue(queue) => Connection::Queue(port, queue),
            _ => Connection::Port(port, tag),
        },
        (None, Some(link)) => {
            let end = file.links.get(link).map_or(0, |known| usize::from(known.ends[1] == id));
            Connection::Link(link as u32, end)
        }
        (None, None) => Connection::Nothing,
    }
}

/// The control socket of a router belongs to its owner.
pub(crate) fn give_to_owner(file: &HostFile, router: &VirtualRouter) {
    let socket = file.socket(router);
    // Both are set in any case: a former owner is one no more.
    let (mut user, mut group, mut mode) = (geteuid().as_raw(), getegid().as_raw(), 0o600);
    match &router.owner {
        None => {}
        Some(Owner::User(name)) => {
            user = User::from_name(name).ok().flatten().map_or(user, |known| known.uid.as_raw());
        }
        Some(Owner::Group(name)) => {
            if let Some(known) = Group::from_name(name).ok().flatten() {
                (group, mode) = (known.gid.as_raw(), 0o660);
            }
        }
    }
    let given = std::os::unix::fs::chown(&socket, Some(user), Some(group))
        .and_then(|()| std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(mode)));
    if let Err(e) = given {
        tracing::warn!(target: "vr", "{}: {}", socket.display(), launch::reason(&e));
    }
}

/// What `valiant vr status` shows of the interfaces of a router.
pub(crate) fn interfaces_value(interfaces: &[vrhost::InterfaceStatus]) -> serde_json::Value {
    let one = |interface: &vrhost::InterfaceStatus| {
        serde_json::json!({
            "name": interface.name,
            "received": interface.stats.rx_packets,
            "received_bytes": interface.stats.rx_bytes,
            "sent": interface.stats.tx_packets,
            "sent_bytes": interface.stats.tx_bytes,
            "lost_queue_full": interface.stats.rx_missed,
            "not_sent": interface.stats.tx_errors,
            "own_queue": interface.own_queue,
            "waiting": interface.waiting,
        })
    };
    interfaces.iter().map(one).collect()
}

/// How many reasons of drops are shown of a router.
const MOST_DROPS: usize = 20;

/// What it shows of a router's drops, the most first.
pub(crate) fn drops_value(host: &vrhost::Host, router: &str) -> serde_json::Value {
    let mut drops = host.drops(router);
    drops.sort_by_key(|(_, _, packets)| std::cmp::Reverse(*packets));
    drops.truncate(MOST_DROPS);
    let one = |(element, reason, packets): &(String, &str, u64)| serde_json::json!({"element": element, "reason": reason, "packets": packets});
    drops.iter().map(one).collect()
}

/// What it shows of the open ports.
pub(crate) fn ports_value(host: &vrhost::Host) -> Vec<serde_json::Value> {
    let one = |(name, port): (&str, &Arc<dpdk::Port>)| {
        let stats = port.stats();
        let counts = host.undelivered(name).unwrap_or_default();
        serde_json::json!({
            "name": name,
            "device": port.name(),
            "received": stats.rx_packets,
            "sent": stats.tx_packets,
            "missed": stats.rx_missed,
            "nobody_has_the_tag": counts.nobody_tag,
            "nobody_has_the_address": counts.nobody_address,
            "malformed": counts.malformed,
            "copies_not_made": counts.no_buffer + counts.too_many_copies,
            "lost_transmit_queue_full": host.lost_at_port(name),
        })
    };
    host.ports().map(one).collect()
}
