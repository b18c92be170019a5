//! Physical ports: what a host file wants of them, and how they are opened and given to threads.

use crate::allot::Allotment;
use crate::board::NOBODY;
use crate::outgoing;
use crate::side::{Losses, OwnQueue, Side};
use demux::{Table, Tunnel};
use dpdk::{EalOptions, Port, PortConfig, PortSpec, PortTable};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Packets that may wait at each of many virtual interfaces of a port on one thread, and at all of them: a
/// turn of a router costs less a packet with more packets.
const OF_EACH: usize = 64;
const MOST_OF_ALL: usize = 1 << 16;
/// Descriptors of receive queues for one router each.
const OWN_DESCRIPTORS: u16 = 1024;

/// A physical port.
#[derive(Clone, Debug)]
pub struct PortSetup {
    /// Its name in the host file.
    pub name: String,
    /// The device.
    pub spec: PortSpec,
    /// Largest network packet, in bytes; `None`: as it is.
    pub mtu: Option<u32>,
    /// The addresses of the ends of its VXLAN tunnel, this one's and the other's, and the Ethernet address of
    /// the other one or of the router on the way to it.
    pub tunnel: Option<(Ipv4Addr, Ipv4Addr, [u8; 6])>,
    /// How many routers at most have receive queues of their own, into which the port puts their packets; 0:
    /// the port has common queues.
    pub own_queues: u16,
    /// Receive queues whose frames are each for one interface ([`crate::Connection::Queue`]): so many queues
    /// are opened that these are among them.
    pub queues: Vec<u16>,
    /// Whether there are other interfaces too: then some queues are for these.
    pub demultiplexed: bool,
    /// How many virtual interfaces it is made for: it has buffers for the packets that wait there.
    pub interfaces: usize,
    /// Whether this process opens it; if not, another one may have it.
    pub open: bool,
}

impl PortSetup {
    /// A port that is opened, for one interface that needs nothing of it.
    #[must_use]
    pub fn new(name: &str, spec: PortSpec) -> Self {
        Self {
            name: name.to_owned(),
            spec,
            mtu: None,
            tunnel: None,
            interfaces: 1,
            own_queues: 0,
            queues: Vec::new(),
            demultiplexed: true,
            open: true,
        }
    }
}

/// An open port, as the control thread sees it.
pub(crate) struct HostPort {
    pub(crate) name: String,
    pub(crate) port: Arc<Port>,
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) table: Table,
    /// How many of its packets may wait for routers on each thread.
    pub(crate) most_waiting: usize,
    pub(crate) losses: Arc<Losses>,
    /// The receive queues for one router each, if the port has some.
    pub(crate) own: Allotment,
    /// How many receive queues it must have.
    pub(crate) needed: usize,
    /// For each receive queue: the interface that gets all its frames, by its owner number, or [`NOBODY`];
    /// none: they are looked at.
    pub(crate) owners: Vec<Option<u32>>,
}

/// A physical port on one thread, which polls every so manieth receive queue.
pub(crate) fn side(port: &HostPort, thread: usize, threads: usize) -> Result<Side, String> {
    let (rx, tx) = (usize::from(port.port.rx_queues()), usize::from(port.port.tx_queues()));
    let own = port.own.queues().len();
    if own > 0 && usize::from(port.port.steered_groups()) != own + 1 {
        return Err(format!(
            "{}: the sharing \"hardware\": this port ({}) cannot give packets to queues by their tags; \
             a Linux interface can; use \"software-queued\"",
            port.name,
            port.port.name()
        ));
    }
    if rx < port.needed || tx < threads {
        return Err(format!(
            "{}: the port has {rx} receive and {tx} transmit queues for {threads} workers, and {} and {threads} are \
             needed: use fewer cores, or lower numbers of queues",
            port.name, port.needed
        ));
    }
    let polled = if own > 0 { thread..thread + 1 } else { thread..rx };
    let own = (1..=own)
        .map(|queue| port.port.rx_queue((queue * threads + thread) as u16).map(OwnQueue::new))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    let owners: Vec<_> = polled.clone().step_by(threads).map(|queue| port.owners[queue]).collect();
    let rx = (polled.step_by(threads))
        .map(|queue| port.port.rx_queue(queue as u16))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    let tx = port.port.tx_queue(thread as u16).map_err(|e| e.to_string())?;
    let reader = port.table.reader();
    let mut side = Side::new(rx, own, tx, reader, port.most_waiting, Arc::clone(&port.losses));
    owners.into_iter().enumerate().for_each(|(at, owner)| side.set_owner(at, owner));
    Ok(side)
}

/// How many packets of a port may wait for routers on one thread: those of three whose queues are full, or
/// some of each.
fn most_waiting(room: usize, port: &PortSetup) -> usize {
    (3 * room).max((OF_EACH * port.interfaces).min(MOST_OF_ALL))
}

/// How many receive queues a port must have: for each thread one, as far as frames are looked at; and those
/// whose frames are one interface's.
fn needed(port: &PortSetup, threads: usize) -> usize {
    let each = threads * (usize::from(port.own_queues) + 1);
    let Some(highest) = port.queues.iter().max() else { return each };
    let beside = if port.demultiplexed { each.max(port.queues.len() + 1) } else { 0 };
    beside.max(usize::from(*highest) + 1)
}

/// Opens those ports that this process is to open.
pub(crate) fn open_ports(
    ports: &[PortSetup],
    threads: usize,
    room: usize,
    eal: &EalOptions,
) -> Result<Vec<Option<HostPort>>, Vec<String>> {
    let mut opening = PortTable::new();
    for port in ports.iter().filter(|port| port.open) {
        let queues = threads as u16;
        let needs = PortConfig {
            rx_queues: needed(port, threads).saturating_sub(port.queues.len()) as u16,
            rx_numbers: port.queues.clone(),
            tx_queues: queues,
            steered: port.own_queues,
            rx_desc: if port.own_queues > 0 { OWN_DESCRIPTORS } else { 0 },
            mtu: port.mtu,
            promisc: true,
            extra_buffers: (most_waiting(room, port) + outgoing::ROOM) * threads,
            ..PortConfig::default()
        };
        opening.request(&port.spec, &needs);
    }
    opening.start_all(eal).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let opened = ports.iter().map(|port| {
        let open = opening.get(&port.spec).filter(|_| port.open)?;
        let own = Allotment::new(port.own_queues.into());
        let tunnel = port.tunnel.map(|(local, remote, mac)| Tunnel::new(local, open.mac(), remote, mac));
        let (most_waiting, needed) = (most_waiting(room, port), needed(port, threads));
        let alone = |queue: u16| port.queues.contains(&queue).then_some(NOBODY);
        let owners = (0..open.rx_queues()).map(alone).collect();
        let (name, port, table) = (port.name.clone(), Arc::clone(open), Table::new());
        let set = table.set_tunnel(tunnel).map_err(|e| vec![format!("{name}: {e}")]);
        let losses = Arc::default();
        Some(set.map(|()| HostPort { name, port, tunnel, table, most_waiting, losses, own, needed, owners }))
    });
    opened.map(Option::transpose).collect()
}
