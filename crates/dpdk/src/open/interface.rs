//! Linux interfaces: with AF_XDP if that is possible, else with AF_PACKET.

use locks::IgnorePoison;
use std::ffi::CString;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::buffers::{FRAME_EXTRA, XDP_HEADROOM, XDP_QUEUES_MAX, buffers_wanted, frame_buffer, xdp_copies};
use super::changed::Changed;
use super::member::{Member, Sockets, XDP_CLOSED, Xdp, sockets};
use super::opening::{Opened, Opening, RX_SETUP, count};
use crate::buffer::{DEFAULT_HEADROOM, PAGE_BUFFER};
use crate::eal::other_cpus;
use crate::error::{Error, reason};
use crate::fanout::Fanout;
use crate::ingress::Ingress;
use crate::mempool;
use crate::needs::{Method, PortConfig};
use crate::netdev::{self, Control, Interface};
use crate::packetsocket::{PacketSocket, Receive};
use crate::rights::{self, Capability};
use crate::status::PortKind;
use crate::steering::Steering;
use crate::watch;
use crate::xsk;

/// The largest AF_XDP frame.
const XDP_FRAME_MAX: usize = PAGE_BUFFER - DEFAULT_HEADROOM - XDP_HEADROOM;
/// Packets that the kernel may process in one busy poll, as DPDK's driver has it by default.
const BUSY_BUDGET: u32 = 64;
/// The most sockets of a fanout group.
const FANOUT_MAX: u16 = 256;
/// How long the kernel takes to release a queue after that.
const XDP_RELEASE: Duration = Duration::from_millis(100);

/// Why AF_XDP is not available on this machine, or `None`.
pub(crate) fn af_xdp_missing() -> Option<String> {
    // SAFETY: no pointers; a descriptor that comes of it is closed at once.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Some(match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
            _ => format!("AF_XDP sockets are refused: {}", reason(&error)),
        });
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(fd) };
    None
}

/// Whether the interface's packets fit an AF_XDP frame, or why not.
pub(crate) fn af_xdp_fits(interface: &Interface, mtu: u32) -> Result<(), String> {
    if interface.loopback || mtu as usize + FRAME_EXTRA <= XDP_FRAME_MAX {
        return Ok(());
    }
    Err(format!("its MTU is {mtu}, an AF_XDP frame takes at most {}", XDP_FRAME_MAX - FRAME_EXTRA))
}

fn open_af_xdp(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    if let Some(missing) = af_xdp_missing() {
        return Err(opening.error("opening an AF_XDP socket", missing));
    }
    let mtu = opening.config.mtu.unwrap_or(interface.mtu) as usize;
    af_xdp_fits(interface, mtu as u32).map_err(|reason| opening.error("opening AF_XDP sockets", reason))?;
    let queues = interface.rx_queues.min(XDP_QUEUES_MAX);
    let (buffers, buffer_len) = buffers_wanted(opening.spec, opening.config);
    let reservation = mempool::reserve(None, buffers, buffer_len)?;
    if !reservation.pool.suits_af_xdp() {
        return Err(
            opening.error("opening AF_XDP sockets", "the packet buffers are not one stretch of memory")
        );
    }
    // By default the driver sets busy polling up: each poll that finds nothing, and each burst that is sent,
    // makes the kernel look into the device. Unless the interface defers its interrupts meanwhile, this is
    // done besides the interrupts' own work: it only costs a system call more.
    let busy_polls = netdev::is_tuned_for_busy_polling(interface);
    let budget = if busy_polls { BUSY_BUDGET } else { 0 };
    let mut members = Vec::new();
    for queue in 0..queues {
        // DPDK 22.11 takes several queues in one device only from drivers with combined channels, which veth
        // is not.
        let name = format!("net_af_xdp{}", watch::unique());
        let devargs =
            format!("{name},iface={},start_queue={queue},queue_count=1,busy_budget={budget}", interface.name);
        let (id, new) = opening.plug(&devargs)?;
        let bus_device = new.then(|| (c"vdev", CString::new(name).expect("digits and letters")));
        members.push(Member::new(id, bus_device));
        // The BPF libraries come with the driver.
        // SAFETY: the environment runs.
        unsafe { dpdk_sys::valiant_log_capture_bpf() };
        let member = members.last_mut().expect("just pushed");
        let before = sockets(libc::AF_XDP);
        let started = opening.start(member, 1, 1, None, buffer_len, reservation.pool);
        member.sockets = sockets(libc::AF_XDP);
        member.sockets.retain(|socket| !before.contains(socket));
        let failed = matches!(&started, Err(Error::Port { doing: RX_SETUP, .. }));
        member.xdp = Some(Xdp { pool: reservation.pool, descriptors: member.rx_desc, failed });
        started?;
    }
    let mut sockets = members.iter().flat_map(|member| &member.sockets).peekable();
    let zero_copy = sockets.peek().is_some() && sockets.all(|&socket| xsk::is_zero_copy(socket));
    let how = match (zero_copy, interface.driver.as_str()) {
        (true, _) => "zero copy".to_owned(),
        (false, "") => "copying packets".to_owned(),
        (false, driver) => format!("copying packets, without zero copy by the driver {driver}"),
    };
    let polling = if busy_polls { ", busy polling" } else { "" };
    let choice = format!("{}: AF_XDP, {}{polling}, {how}", interface.name, count(queues, "queue"));
    Ok(Opened {
        kind: PortKind::AfXdp,
        choice,
        notes: Vec::new(),
        interface: None,
        members,
        sockets: None,
        virtual_port: None,
        changed: Changed::default(),
        reservation,
    })
}

/// The kernel releases a queue a little after its last AF_XDP socket was closed; this waits until then.
fn open_af_xdp_patiently(opening: &mut Opening<'_>, interface: &Interface) -> Result<Opened, Error> {
    let mut tries = 0..2;
    loop {
        let closed = *XDP_CLOSED.lock().ignore_poison();
        if let Some(since) = closed.map(|closed| closed.elapsed()) {
            thread::sleep(XDP_RELEASE.saturating_sub(since));
        }
        match open_af_xdp(opening, interface) {
            Err(Error::Port { doing: RX_SETUP, .. }) if tries.next().is_some() => opening.notes.clear(),
            other => return other,
        }
    }
}

/// Why packet sockets suit an interface better than AF_XDP, or `None`.
pub(crate) fn prefers_sockets(interface: &Interface) -> Option<&'static str> {
    if interface.driver == "veth" {
        return Some("the kernel would copy the frames of a veth twice for AF_XDP");
    }
    (interface.segmentation && xdp_copies(interface)).then_some(
        "large TCP segments (TSO) may come and go, which AF_XDP does not carry, and its driver has no zero copy",
    )
}

/// Keeps the kernel from the packets of an interface, unless the router only sends or is a sniffer.
fn ingress(config: &PortConfig, interface: &Interface) -> Option<std::io::Result<Ingress>> {
    let sniffs = config.sniffer.unwrap_or(config.method == Method::AfPacket);
    (!sniffs && config.rx_queues > 0).then(|| Ingress::block(interface.index))
}

fn open_af_packet(
    opening: &mut Opening<'_>,
    interface: &Interface,
    ingress: Option<std::io::Result<Ingress>>,
    why: &str,
) -> Result<Opened, Error> {
    let config = opening.config;
    let mtu = config.mtu.unwrap_or(interface.mtu) as usize;
    let most = if config.steered > 0 { FANOUT_MAX } else { XDP_QUEUES_MAX };
    let receiving = usize::from(config.rx_queues.min(most));
    let queues = receiving.max(config.tx_queues.clamp(1, XDP_QUEUES_MAX).into());
    let (buffers, _) =
        buffers_wanted(opening.spec, &PortConfig { method: Method::AfPacket, ..config.clone() });
    let reservation = mempool::reserve(None, buffers, frame_buffer(mtu))?;
    let failed = |error: std::io::Error| {
        let wrong = opening.error("opening packet sockets", reason(&error));
        if is_root() {
            wrong
        } else {
            wrong.with_fix("run it as root, or with CAP_NET_ADMIN and CAP_NET_RAW")
        }
    };
    // Where large segments come there are few frames, so that steering each costs more than it brings.
    let steers = receiving > 0 && !interface.segmentation;
    let steering = steers.then(|| Steering::to(interface, &other_cpus())).flatten().map(Arc::new);
    let steered = steering
        .as_ref()
        .map_or(String::new(), |steering| format!(", under load filled by CPU {}", steering.cpus));
    let receive = |queue: usize| Receive {
        frames: config.rx_descriptors().into(),
        pool: reservation.pool,
        promisc: config.promisc && queue == 0,
        steering: steering.clone(),
    };
    let all: Result<Vec<_>, _> = (0..queues)
        .map(|queue| {
            let receive = (queue < receiving).then(|| receive(queue));
            PacketSocket::open(interface.index, interface.mtu, receive).map(Arc::new)
        })
        .collect();
    let all = all.map_err(failed)?;
    let shared = &all[..receiving];
    shared.iter().try_for_each(|socket| socket.start()).map_err(failed)?;
    let fanout = (config.steered > 0).then(|| {
        let groups = config.steered + 1;
        Fanout::new(groups, receiving as u16 / groups)
    });
    let fanout = fanout.transpose().map_err(|error| {
        let wrong =
            opening.error("loading the program that gives packets to queues by their tags", reason(&error));
        wrong.with_fix("run it as root, or with CAP_BPF")
    })?;
    PacketSocket::share(shared, fanout.as_ref()).map_err(failed)?;
    if receiving > 0 {
        opening.notes.extend(match &ingress {
            None => Some("the kernel processes the packets too".to_owned()),
            Some(Err(error)) => Some(format!(
                "the kernel processes the packets too: no program that keeps it from them ({})",
                reason(error)
            )),
            Some(Ok(_)) => None,
        });
    }
    let choice =
        format!("{}: AF_PACKET, {}{steered}, because {why}", interface.name, count(queues as u16, "queue"));
    Ok(Opened {
        kind: PortKind::AfPacket,
        choice,
        notes: Vec::new(),
        interface: None,
        members: Vec::new(),
        sockets: Some(Sockets { all, receiving, fanout, _ingress: ingress.and_then(Result::ok) }),
        virtual_port: None,
        changed: Changed::default(),
        reservation,
    })
}

fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

pub(super) fn open_interface(opening: &mut Opening<'_>, name: &str) -> Result<(Opened, Interface), Error> {
    let mut interface = netdev::interface(name).map_err(|_| {
        let names = netdev::names().join(", ");
        opening.error("opening it", format!("there is no such interface; there are {names}"))
    })?;
    let method = match opening.config.method {
        // Before anything is tried: what DPDK's driver has begun it does not clean up when it fails.
        Method::Auto if rights::missing(rights::needed_for("net_af_xdp")).is_some() => Method::AfPacket,
        method => method,
    };
    let sets =
        !interface.up || opening.config.promisc || opening.config.mtu.is_some_and(|mtu| mtu != interface.mtu);
    let mut needed = if sets { vec![Capability::NET_ADMIN] } else { Vec::new() };
    let driver = if method == Method::AfXdp { "net_af_xdp" } else { "net_af_packet" };
    needed.extend(rights::needed_for(driver));
    needed.dedup();
    opening.may_open(&needed)?;
    let control = Control::open().map_err(|error| Error::interface(name, "opening a socket", &error))?;
    if let Some(mtu) = opening.config.mtu.filter(|&mtu| mtu != interface.mtu) {
        match control.set_mtu(name, mtu) {
            Ok(()) => {
                opening.changed.interface().1 = Some(interface.mtu);
                interface.mtu = mtu;
            }
            Err(error) => opening.notes.push(format!("the MTU stays {}: {}", interface.mtu, reason(&error))),
        }
    }
    name.clone_into(&mut opening.changed.interface().0);
    if !interface.up {
        control.set_up(name, true).map_err(|error| Error::interface(name, "switching it on", &error))?;
        opening.changed.interface().2 = true;
        interface.up = true;
    }
    let config = opening.config;
    let ingress = || ingress(config, &interface);
    let opened = match method {
        Method::AfXdp => open_af_xdp_patiently(opening, &interface)?,
        Method::AfPacket if opening.config.method == Method::AfPacket => {
            open_af_packet(opening, &interface, ingress(), "METHOD requests it")?
        }
        Method::AfPacket => {
            let why = "the router has given up what AF_XDP needs";
            open_af_packet(opening, &interface, ingress(), why)?
        }
        Method::Auto if opening.config.steered > 0 => {
            open_af_packet(opening, &interface, ingress(), "packets are given to queues by their tags")?
        }
        Method::Auto if opening.config.rx_queues == 0 => open_af_packet(
            opening,
            &interface,
            None,
            "the router only sends, and AF_XDP would take received packets away from the kernel",
        )?,
        Method::Auto => {
            // Packet sockets that share packets with the kernel are the last choice.
            match prefers_sockets(&interface).map(|why| (why, ingress())) {
                Some((why, Some(Ok(ingress)))) => {
                    open_af_packet(opening, &interface, Some(Ok(ingress)), why)?
                }
                _ => match open_af_xdp_patiently(opening, &interface) {
                    Ok(opened) => opened,
                    Err(Error::Port { reason, .. }) => {
                        opening.notes.clear();
                        let why = format!("AF_XDP did not start ({reason})");
                        open_af_packet(opening, &interface, ingress(), &why)?
                    }
                    Err(other) => return Err(other),
                },
            }
        }
    };
    Ok((opened, interface))
}
