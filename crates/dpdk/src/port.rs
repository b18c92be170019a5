//! Ports: their properties, and their settings at run time.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use dpdk_sys::valiant_link;
use locks::IgnorePoison;

use crate::buffer::DEFAULT_HEADROOM;
use crate::claim::{self, Claim};
use crate::error::{Error, errno_text};
use crate::fanout::{Fanout, SteerRule};
use crate::log::Mark;
use crate::memifport::Deviceless;
use crate::mempool::{Mempool, Reservation};
use crate::needs::PortConfig;
use crate::netdev::{Control, Interface};
use crate::open::{
    self, Changed, FRAME_EXTRA, Member, Opened, PortQueue, Sockets, XDP_HEADROOM, c_text, count, port_info,
};
use crate::removal::{self, Occupied};
use crate::spec::PortSpec;
use crate::status::{Link, PortKind, PortState, PortStats};
use crate::watch::{self, State};
use crate::xsk;

/// An open port. It closes when the last handle and the last queue are dropped.
#[derive(Debug)]
pub struct Port {
    spec: PortSpec,
    name: String,
    kind: PortKind,
    choice: String,
    notes: Vec<String>,
    rx: Vec<Box<[PortQueue]>>,
    /// Each with the lock that the users who share it take.
    tx: Vec<(PortQueue, Arc<Mutex<()>>)>,
    /// Losses before each receive queue at the last check.
    lost: Box<[AtomicU64]>,
    /// AF_XDP's ring losses at the time when the counters were reset.
    ring_full: AtomicU64,
    taken: Mutex<Taken>,
    state: Arc<State>,
    driver: String,
    mac: [u8; 6],
    mtu: AtomicU32,
    numa_node: Option<usize>,
    interface: Option<Interface>,
    pool: Mempool,
    /// Closed before the buffers are promised to others; none once the device has been given back.
    members: Mutex<Vec<Member>>,
    /// Whether its indirection table changes while it is started.
    reta_trial: OnceLock<Result<Duration, Error>>,
    /// Those who use the devices' queues.
    users: Mutex<Vec<Weak<Occupied>>>,
    /// What the devices had counted when they were given back.
    counted: Mutex<PortStats>,
    /// Instead of DPDK ports.
    sockets: Option<Sockets>,
    virtual_port: Option<Deviceless>,
    /// Undone, if need be, when the device is closed.
    changed: Mutex<Changed>,
    _reservation: Reservation,
    /// Other processes may lock the interface when everything else is closed.
    _claim: Option<Arc<Claim>>,
    closed: fn(&PortSpec),
}

/// Held while a port is opened or closed.
static CHANGING: Mutex<()> = Mutex::new(());

/// Only one thread at a time opens or closes ports. No port may be dropped while this is held.
pub(crate) fn changing() -> MutexGuard<'static, ()> {
    CHANGING.lock().ignore_poison()
}

/// Locks an interface for this process, if it locks interfaces. Returns messages for the user.
fn claim(spec: &PortSpec, notes: &mut Vec<String>) -> Result<Option<Arc<Claim>>, Error> {
    let PortSpec::Interface(name) = spec else { return Ok(None) };
    match claim::take(name) {
        Ok(Some(claim)) => Ok(Some(claim)),
        Ok(None) => {
            let owner = claim::interface_owner(name, None);
            notes.extend(owner.map(|who| format!("{who}, has it too: both get every packet that comes")));
            Ok(None)
        }
        Err(claim::Refused::Taken(who)) => {
            let error = Error::port(name, "opening it", format!("{who}, has it"));
            Err(error.with_fix("stop that one, or give one of the two another device"))
        }
        Err(claim::Refused::Unknown(e)) => {
            notes.push(format!("whether somebody else has it is not known: {}", crate::error::reason(&e)));
            Ok(None)
        }
    }
}

/// The owners of a transmit queue.
#[derive(Debug)]
enum Users {
    One,
    Sharing(usize),
}

#[derive(Debug, Default)]
struct Taken {
    rx: HashSet<u16>,
    tx: HashMap<u16, Users>,
}

/// Drivers that set the flags of each mbuf that they receive, and use one for each frame that fits in 2 KB.
/// Others may pass on mbufs of another owner (`net_ring`), leave flags as they are or make chains of any
/// length.
const FRESH_MBUFS: [&str; 7] =
    ["net_af_packet", "net_ena", "net_i40e", "net_iavf", "net_ice", "net_ixgbe", "net_null"];
/// The room for data in a usual buffer, which NICs use as a whole: they count in units of up to 1 KB, and
/// split frames that fit into a buffer but not into its whole units. No MTU allows longer frames than it.
const WHOLE_UNITS: usize = 2048;

impl Port {
    /// Opens a port; `closed` is called when it has been closed.
    pub(crate) fn open(
        spec: &PortSpec,
        config: &PortConfig,
        closed: fn(&PortSpec),
    ) -> Result<Arc<Port>, Error> {
        let mut about = Vec::new();
        let claim = claim(spec, &mut about)?;
        let Opened {
            kind,
            choice,
            mut notes,
            interface,
            members,
            sockets,
            virtual_port,
            changed,
            reservation,
        } = open::open(spec, config)?;
        notes.append(&mut about);
        let no_answer = || Error::port(&spec.to_string(), "asking its driver", "no answer");
        let first = members.first().map(|member| member.id);
        let info = first.map(|id| port_info(id).ok_or_else(no_answer)).transpose()?;

        let device = |member: &Member, queue| PortQueue::Device(member.queue(queue));
        let mut sources: Vec<PortQueue> = (members.iter())
            .flat_map(|member| (0..member.rx_queues).map(move |queue| device(member, queue)))
            .collect();
        let mut sinks: Vec<PortQueue> = (members.iter())
            .flat_map(|member| (0..member.tx_queues).map(move |queue| device(member, queue)))
            .collect();
        if let Some(sockets) = &sockets {
            sources.extend(sockets.receiving().cloned().map(PortQueue::Socket));
            sinks.extend(sockets.all.iter().cloned().map(PortQueue::Socket));
        }
        match &virtual_port {
            Some(Deviceless::Virtual(inner)) => {
                sources.extend(inner.rx.iter().cloned().map(PortQueue::Virtual));
                sinks.extend(inner.tx.iter().cloned().map(PortQueue::Virtual));
            }
            Some(Deviceless::Memif(shared)) => {
                sources.extend(shared.queues().map(PortQueue::Memif));
                sinks.extend(shared.queues().map(PortQueue::Memif));
            }
            None => {}
        }
        let rx = queues_of(&sources, config.rx_queues);
        let tx: Vec<_> = (sinks.into_iter().take(config.tx_queues.into()))
            .map(|sink| (sink, Arc::new(Mutex::new(()))))
            .collect();
        if rx.len() < usize::from(config.rx_queues) {
            notes.push(format!(
                "{} instead of {}",
                count(rx.len() as u16, "receive queue"),
                config.rx_queues
            ));
        }
        if tx.len() < usize::from(config.tx_queues) {
            notes.push(format!(
                "{} instead of {}",
                count(tx.len() as u16, "transmit queue"),
                config.tx_queues
            ));
        }
        let mut mtu = 0;
        if let Some(id) = first {
            // SAFETY: the port exists.
            unsafe { dpdk_sys::rte_eth_dev_get_mtu(id, &mut mtu) };
        }
        let mtu = match (&interface, &virtual_port) {
            (Some(interface), _) => interface.mtu,
            (None, Some(inner)) => inner.mtu(),
            (None, None) => mtu.into(),
        };
        let lost = rx.iter().map(|_| AtomicU64::new(0)).collect();
        let ids: Vec<u16> = members.iter().map(|member| member.id).collect();
        let state = watch::watch(ids, interface.as_ref().map_or(0, |interface| interface.index));
        Ok(Arc::new(Port {
            spec: spec.clone(),
            name: spec.to_string(),
            kind,
            choice,
            notes,
            rx,
            tx,
            taken: Mutex::default(),
            lost,
            ring_full: AtomicU64::new(0),
            state,
            driver: match (&info, kind) {
                (Some(info), _) => c_text(&info.driver),
                (None, PortKind::Virtual) => {
                    virtual_port.as_ref().map(Deviceless::kind).unwrap_or_default().to_owned()
                }
                (None, _) => "packet sockets".to_owned(),
            },
            mac: match (&interface, &info, &virtual_port) {
                (Some(interface), ..) => interface.mac,
                (None, Some(info), _) => info.mac,
                (None, None, inner) => inner.as_ref().map_or([0; 6], Deviceless::mac),
            },
            mtu: AtomicU32::new(mtu),
            numa_node: info.and_then(|info| usize::try_from(info.numa_node).ok()),
            interface,
            pool: reservation.pool,
            members: Mutex::new(members),
            reta_trial: OnceLock::new(),
            users: Mutex::default(),
            counted: Mutex::default(),
            sockets,
            virtual_port,
            changed: Mutex::new(changed),
            _reservation: reservation,
            _claim: claim,
            closed,
        }))
    }

    /// The port is wanted: what opening it has changed outside the process (an interface that is switched on,
    /// its MTU, a capture file that is emptied) stays when it is closed.
    pub fn keep(&self) {
        self.changed.lock().ignore_poison().keep();
    }

    /// Whether an interface has been made promiscuous for the port.
    pub(crate) fn any_promiscuous(&self) -> bool {
        self.interface.is_some() && self.members().iter().any(Member::is_promiscuous)
    }

    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().ignore_poison()
    }

    /// What a user of queues tells when it is in the driver.
    pub(crate) fn occupied(&self) -> Arc<Occupied> {
        let occupied = Arc::new(Occupied::default());
        let mut users = self.users.lock().ignore_poison();
        users.retain(|user| user.strong_count() != 0);
        users.push(Arc::downgrade(&occupied));
        occupied
    }

    /// Whether one of its devices is this DPDK port.
    pub(crate) fn has_device(&self, id: u16) -> bool {
        self.members().iter().any(|member| member.id == id)
    }

    /// Gives the devices of a port that has gone back to the kernel, which waits for them. The port stays, as
    /// long as somebody has it.
    pub(crate) fn release(&self) {
        let users: Vec<_> = (self.users.lock().ignore_poison().iter()).filter_map(Weak::upgrade).collect();
        if !removal::wait_until_left(&users) {
            return;
        }
        let _changing = changing();
        *self.counted.lock().ignore_poison() = self.stats();
        let mut members = std::mem::take(&mut *self.members());
        if let PortSpec::Pci { address, .. } = &self.spec {
            members.iter_mut().for_each(|member| member.unplug(address));
        }
        drop(members);
    }

    pub(crate) fn watched(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().ignore_poison()
    }

    fn queue_error(&self, kind: &'static str, queue: u16, reason: &'static str) -> Error {
        Error::Queue { port: self.name.clone(), kind, queue, reason: reason.to_owned() }
    }

    /// Takes the device queues behind a receive queue, until [`Port::give_back_rx`].
    pub(crate) fn take_rx(&self, queue: u16) -> Result<Box<[PortQueue]>, Error> {
        let Some(sources) = self.rx.get(usize::from(queue)) else {
            return Err(self.queue_error("receive", queue, "does not exist"));
        };
        if !self.taken().rx.insert(queue) {
            return Err(self.queue_error("receive", queue, "is in use"));
        }
        Ok(sources.clone())
    }

    /// Takes the device queue behind a transmit queue, until [`Port::give_back_tx`].
    pub(crate) fn take_tx(&self, queue: u16) -> Result<PortQueue, Error> {
        let Some((sink, _)) = self.tx.get(usize::from(queue)) else {
            return Err(self.queue_error("transmit", queue, "does not exist"));
        };
        match self.taken().tx.entry(queue) {
            Entry::Occupied(_) => return Err(self.queue_error("transmit", queue, "is in use")),
            Entry::Vacant(free) => free.insert(Users::One),
        };
        Ok(sink.clone())
    }

    /// The same for a queue that others share, with the lock that all of them take.
    pub(crate) fn share_tx(&self, queue: u16) -> Result<(PortQueue, Arc<Mutex<()>>), Error> {
        let Some((sink, lock)) = self.tx.get(usize::from(queue)) else {
            return Err(self.queue_error("transmit", queue, "does not exist"));
        };
        match self.taken().tx.entry(queue).or_insert(Users::Sharing(0)) {
            Users::One => return Err(self.queue_error("transmit", queue, "is in use")),
            Users::Sharing(users) => *users += 1,
        }
        Ok((sink.clone(), Arc::clone(lock)))
    }

    /// Packets that the kernel has lost before a receive queue since the last call.
    pub(crate) fn newly_lost(&self, queue: u16) -> u64 {
        let (Some(sources), Some(known)) =
            (self.rx.get(usize::from(queue)), self.lost.get(usize::from(queue)))
        else {
            return 0;
        };
        let lost = match self.kind {
            PortKind::Device | PortKind::Virtual => return 0,
            PortKind::AfXdp => {
                sources.iter().filter_map(PortQueue::drivers_socket).filter_map(xsk::lost).sum()
            }
            PortKind::AfPacket => sources.iter().filter_map(PortQueue::socket).map(|s| s.lost()).sum(),
        };
        lost - known.swap(lost, Ordering::Relaxed).min(lost)
    }

    /// How many groups of receive queues packets are given to by their tags; 0: the port cannot do that.
    #[must_use]
    pub fn steered_groups(&self) -> u16 {
        let fanout = self.sockets.as_ref().and_then(|sockets| sockets.fanout.as_ref());
        fanout.map_or(0, Fanout::groups)
    }

    /// Says which packets are given to which group of receive queues: group G, for one of T threads, is the
    /// queue G * T and those after it. What no rule is about goes to the first group. Replaces all rules.
    ///
    /// # Errors
    /// The port cannot do it, or the kernel refuses.
    pub fn steer(&self, rules: &[SteerRule]) -> Result<(), Error> {
        const DOING: &str = "giving packets to queues by their tags";
        // A NIC's flow rules (rte_flow) have their place here.
        let Some(fanout) = self.sockets.as_ref().and_then(|sockets| sockets.fanout.as_ref()) else {
            return Err(Error::port(&self.name, DOING, "this port cannot do that"));
        };
        fanout.set(rules).map_err(|e| Error::port(&self.name, DOING, crate::error::reason(&e)))
    }

    pub(crate) fn give_back_rx(&self, queue: u16) {
        self.taken().rx.remove(&queue);
    }

    pub(crate) fn give_back_tx(&self, queue: u16) {
        let mut taken = self.taken();
        match taken.tx.get_mut(&queue) {
            Some(Users::Sharing(users)) if *users > 1 => *users -= 1,
            _ => drop(taken.tx.remove(&queue)),
        }
    }

    /// The DPDK devices behind it, by their numbers; none once they have been given back.
    pub(crate) fn devices(&self) -> Vec<u16> {
        self.members().iter().map(|member| member.id).collect()
    }

    /// Receive queues.
    pub fn rx_queues(&self) -> u16 {
        self.rx.len() as u16
    }

    /// How many queues of the device a receive queue polls.
    pub fn device_queues(&self, queue: u16) -> usize {
        self.rx.get(usize::from(queue)).map_or(0, |sources| sources.len())
    }

    /// Whether the other side decides, when it connects, how many of the transmit queues it serves.
    pub fn peer_sets_tx_queues(&self) -> bool {
        self.driver == "net_memif"
    }

    /// What the driver has counted as sent by a transmit queue of one of its devices. DPDK keeps 16 of these
    /// counters for a device.
    pub(crate) fn sent_by(&self, device: u16, queue: u16) -> Option<u64> {
        // SAFETY: plain data that the function fills; the port exists.
        let stats = unsafe {
            let mut stats: dpdk_sys::rte_eth_stats = std::mem::zeroed();
            (dpdk_sys::rte_eth_stats_get(device, &mut stats) == 0).then_some(stats)
        };
        stats?.q_opackets.get(usize::from(queue)).copied()
    }

    /// Transmit queues.
    pub fn tx_queues(&self) -> u16 {
        self.tx.len() as u16
    }

    /// The port as the configuration named it.
    pub fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// The same as text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it reaches its device.
    pub fn kind(&self) -> PortKind {
        self.kind
    }

    /// One line: how it reaches its device, and why so.
    pub fn choice(&self) -> &str {
        &self.choice
    }

    /// What the driver did not do as asked, and what that means; one line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The DPDK driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The link address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Largest network packet, in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu.load(Ordering::Relaxed)
    }

    /// The NUMA node of the device, when it has one.
    pub fn numa_node(&self) -> Option<usize> {
        self.numa_node
    }

    /// The Linux interface, when it is one.
    pub fn interface(&self) -> Option<&Interface> {
        self.interface.as_ref()
    }

    /// The pool that its receive queues fill.
    #[inline]
    pub fn pool(&self) -> Mempool {
        self.pool
    }

    /// Whether what its driver receives may have partial checksums, which its receive queues complete.
    #[inline]
    pub fn completes_checksums(&self) -> bool {
        // Packet sockets know which they are, and have completed them.
        self.interface.is_some() && self.kind != PortKind::AfPacket
    }

    /// Whether each packet that it receives has one mbuf with fresh flags, so that nobody needs to look.
    pub(crate) fn receives_fresh_mbufs(&self) -> bool {
        let room = self.pool.buffer_len() - DEFAULT_HEADROOM;
        FRESH_MBUFS.contains(&self.driver()) && room == WHOLE_UNITS
    }

    /// Whether it works; costs one load.
    #[inline]
    pub fn state(&self) -> PortState {
        self.state.get()
    }

    /// The link as the driver sees it, or the kernel for an interface.
    pub fn link(&self) -> Link {
        let gone = self.state() == PortState::Gone;
        if self.kind == PortKind::Virtual {
            return Link { up: true, speed_mbps: None, full_duplex: true };
        }
        if let (true, Some(interface)) = (self.members().is_empty(), &self.interface) {
            let up = self.state() == PortState::Up;
            let (speed, full_duplex) =
                Control::open().ok().filter(|_| up).map_or((Some(0), true), |c| c.speed(&interface.name));
            return Link { up, speed_mbps: speed, full_duplex };
        }
        let mut link = valiant_link { speed_mbps: 0, up: 0, full_duplex: 0, autoneg: 0 };
        // SAFETY: the port exists; the function fills the place or fails.
        let known = !gone
            && (self.members().first())
                .is_some_and(|member| unsafe { dpdk_sys::valiant_port_link(member.id, &mut link) } == 0);
        let up = match &self.interface {
            Some(_) => self.state() == PortState::Up,
            None => known && link.up != 0,
        };
        let speed = (link.speed_mbps != u32::MAX && known).then_some(link.speed_mbps);
        Link { up, speed_mbps: if up { speed } else { Some(0) }, full_duplex: link.full_duplex != 0 }
    }

    /// Its counters.
    pub fn stats(&self) -> PortStats {
        let counted = *self.counted.lock().ignore_poison();
        let mut sum = self.virtual_port.as_ref().map_or(counted, Deviceless::stats);
        if self.kind == PortKind::AfXdp {
            let sockets = self.rx.iter().flatten().filter_map(PortQueue::drivers_socket);
            let full: u64 = sockets.filter_map(xsk::lost_at_ring).sum();
            sum.rx_missed = full.saturating_sub(self.ring_full.load(Ordering::Relaxed));
        }
        self.sockets.iter().flat_map(|sockets| &sockets.all).for_each(|socket| socket.add_stats(&mut sum));
        for member in &*self.members() {
            // SAFETY: plain data that the function fills; the port exists.
            let stats = unsafe {
                let mut stats = std::mem::zeroed();
                if dpdk_sys::rte_eth_stats_get(member.id, &mut stats) != 0 {
                    continue;
                }
                stats
            };
            sum.rx_packets += stats.ipackets;
            sum.rx_bytes += stats.ibytes;
            sum.rx_missed += stats.imissed;
            sum.rx_errors += stats.ierrors;
            sum.rx_no_buffer += stats.rx_nombuf;
            sum.tx_packets += stats.opackets;
            sum.tx_bytes += stats.obytes;
            sum.tx_errors += stats.oerrors;
        }
        sum
    }

    /// All counters of the driver, by the driver's names; with several devices, the queue's name precedes
    /// them (`q1.`).
    pub fn xstats(&self) -> Vec<(String, u64)> {
        let mut all = self.sockets.as_ref().map(Sockets::xstats).unwrap_or_default();
        let members = self.members();
        for (queue, member) in members.iter().enumerate() {
            // SAFETY: with no place to write the functions only count; then both arrays have that many
            // places, and the functions write no more.
            unsafe {
                let n = dpdk_sys::rte_eth_xstats_get_names(member.id, std::ptr::null_mut(), 0);
                let Ok(n) = usize::try_from(n) else { continue };
                let mut names = vec![std::mem::zeroed::<dpdk_sys::rte_eth_xstat_name>(); n];
                let mut values = vec![std::mem::zeroed::<dpdk_sys::rte_eth_xstat>(); n];
                if dpdk_sys::rte_eth_xstats_get_names(member.id, names.as_mut_ptr(), n as u32) != n as i32
                    || dpdk_sys::rte_eth_xstats_get(member.id, values.as_mut_ptr(), n as u32) != n as i32
                {
                    continue;
                }
                for value in &values {
                    let Some(name) = names.get(value.id as usize) else { continue };
                    let name = c_text(&name.name);
                    let name = if members.len() > 1 { format!("q{queue}.{name}") } else { name };
                    all.push((name, value.value));
                }
            }
        }
        all
    }

    fn set(&self, doing: &'static str, f: impl Fn(u16) -> i32) -> Result<(), Error> {
        if self.state() == PortState::Gone {
            return Err(Error::port(&self.name, doing, "its device has gone"));
        }
        for member in &*self.members() {
            let mark = Mark::now();
            let status = f(member.id);
            if status != 0 {
                return Err(Error::port(&self.name, doing, mark.quote_or(|| errno_text(status))));
            }
        }
        Ok(())
    }

    /// The device and what its driver says, for what only a port with several queues of one device has.
    fn spreading(&self, doing: &'static str) -> Result<(u16, dpdk_sys::valiant_port_info), Error> {
        let refused = |why: &str| Err(Error::port(&self.name, doing, why));
        let members = self.members();
        match members.as_slice() {
            _ if self.state() == PortState::Gone => refused("its device has gone"),
            [member] if member.rx_queues > 1 => port_info(member.id)
                .map(|info| (member.id, info))
                .ok_or_else(|| Error::port(&self.name, doing, "its driver does not answer")),
            [_] => refused("it has one receive queue, so the device distributes nothing"),
            [] => refused("it is no device of DPDK: the kernel distributes its packets"),
            _ => refused("it consists of several devices, each with one queue"),
        }
    }

    /// The receive queue of each entry of the device's indirection table (RETA) of RSS.
    ///
    /// # Errors
    /// The device has no such table, or its driver does not show it.
    pub fn rss_table(&self) -> Result<Vec<u16>, Error> {
        const DOING: &str = "reading its indirection table";
        let (id, info) = self.spreading(DOING)?;
        if info.reta_size == 0 {
            let why = format!("its driver ({}) has none that can be read or changed", self.driver);
            return Err(Error::port(&self.name, DOING, why));
        }
        let mut queues = vec![0u16; info.reta_size.into()];
        let mark = Mark::now();
        // SAFETY: the port exists, and there are as many places as the length says.
        let status = unsafe { dpdk_sys::valiant_reta_get(id, queues.as_mut_ptr(), info.reta_size) };
        if status != 0 {
            return Err(Error::port(&self.name, DOING, mark.quote_or(|| errno_text(status))));
        }
        Ok(queues)
    }

    /// Changes the indirection table while packets are received: a queue for each entry.
    ///
    /// # Errors
    /// As for [`Port::rss_table`]; a queue does not exist, or the number of entries is another one.
    pub fn set_rss_table(&self, queues: &[u16]) -> Result<(), Error> {
        const DOING: &str = "changing its indirection table";
        let (_, info) = self.spreading(DOING)?;
        if queues.len() != usize::from(info.reta_size) || info.reta_size == 0 {
            let why = format!("its table has {} entries, not {}", info.reta_size, queues.len());
            return Err(Error::port(&self.name, DOING, why));
        }
        if let Some(queue) = queues.iter().find(|queue| **queue >= self.rx_queues()) {
            return Err(Error::port(&self.name, DOING, format!("it has no receive queue {queue}")));
        }
        // SAFETY: the port exists, and there are as many entries as the length says.
        self.set(DOING, |id| unsafe { dpdk_sys::valiant_reta_set(id, queues.as_ptr(), info.reta_size) })
    }

    /// Tries, the first time that it is called, whether the device's indirection table can be changed while
    /// the port is started: with the table that it has. Returns how long that takes. Nobody may poll yet
    /// then: some drivers stop the port meanwhile.
    ///
    /// # Errors
    /// As for [`Port::rss_table`], or the driver refuses.
    pub fn try_rss_table(&self) -> Result<Duration, Error> {
        /// How often: the processor may have been taken away meanwhile.
        const TRIALS: usize = 3;
        let trial = || {
            let table = self.rss_table()?;
            let mut least = Duration::MAX;
            for _ in 0..TRIALS {
                let began = Instant::now();
                self.set_rss_table(&table)?;
                least = least.min(began.elapsed());
            }
            Ok(least)
        };
        self.reta_trial.get_or_init(trial).clone()
    }

    /// The key of the device's RSS.
    ///
    /// # Errors
    /// The device distributes nothing, or its driver does not show its key.
    pub fn rss_key(&self) -> Result<Vec<u8>, Error> {
        const DOING: &str = "reading the key of its hash";
        let (id, info) = self.spreading(DOING)?;
        if info.rss_key_size == 0 {
            let why = format!("its driver ({}) does not show it", self.driver);
            return Err(Error::port(&self.name, DOING, why));
        }
        let mut key = vec![0u8; info.rss_key_size.into()];
        let mark = Mark::now();
        // SAFETY: the port exists, and there are as many bytes as the length says.
        let status = unsafe { dpdk_sys::valiant_rss_key_get(id, key.as_mut_ptr(), info.rss_key_size) };
        if status != 0 {
            return Err(Error::port(&self.name, DOING, mark.quote_or(|| errno_text(status))));
        }
        Ok(key)
    }

    /// Changes the key while packets are received. A key that is too short for the driver is repeated.
    ///
    /// # Errors
    /// As for [`Port::rss_key`], or the driver refuses the key.
    pub fn set_rss_key(&self, key: &[u8]) -> Result<(), Error> {
        const DOING: &str = "changing the key of its hash";
        let (_, info) = self.spreading(DOING)?;
        let key: Vec<u8> = key.iter().copied().cycle().take(info.rss_key_size.into()).collect();
        if key.is_empty() {
            let why = format!("its driver ({}) takes no key", self.driver);
            return Err(Error::port(&self.name, DOING, why));
        }
        // SAFETY: the port exists, and there are as many bytes as the length says.
        self.set(DOING, |id| unsafe { dpdk_sys::valiant_rss_key_set(id, key.as_ptr(), info.rss_key_size) })
    }

    /// Sets the largest network packet, in bytes, as far as the port's buffers go.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        const DOING: &str = "setting its MTU";
        let headroom = DEFAULT_HEADROOM + if self.kind == PortKind::AfXdp { XDP_HEADROOM } else { 0 };
        let largest = self.pool.buffer_len() - headroom - FRAME_EXTRA;
        if mtu as usize > largest {
            return Err(Error::port(
                &self.name,
                DOING,
                format!("its buffers take at most {largest}; open it with that MTU"),
            ));
        }
        match &self.interface {
            Some(interface) => (Control::open().and_then(|control| control.set_mtu(&interface.name, mtu)))
                .map_err(|error| Error::interface(&interface.name, DOING, &error))?,
            // SAFETY: the port exists.
            None => self.set(DOING, |id| unsafe { dpdk_sys::rte_eth_dev_set_mtu(id, mtu as u16) })?,
        }
        self.mtu.store(mtu, Ordering::Relaxed);
        self.sockets.iter().flat_map(|sockets| &sockets.all).for_each(|socket| socket.set_mtu(mtu));
        Ok(())
    }

    /// Switches promiscuous mode on or off.
    pub fn set_promisc(&self, on: bool) -> Result<(), Error> {
        const DOING: &str = "setting promiscuous mode";
        if let Some(socket) = self.sockets.as_ref().and_then(|sockets| sockets.all.first())
            && self.state() != PortState::Gone
        {
            return socket.set_promisc(on).map_err(|error| Error::interface(&self.name, DOING, &error));
        }
        self.set(DOING, |id| {
            // SAFETY: the port exists.
            unsafe {
                if on {
                    dpdk_sys::rte_eth_promiscuous_enable(id)
                } else {
                    dpdk_sys::rte_eth_promiscuous_disable(id)
                }
            }
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let changing = changing();
        self.members().clear();
        (self.rx, self.tx, self.sockets) = (Vec::new(), Vec::new(), None);
        drop(changing);
        (self.closed)(&self.spec);
    }
}

/// Distributes the device's receive queues over at most `wanted` queues, so that every one is polled.
fn queues_of<Q: Clone>(sources: &[Q], wanted: u16) -> Vec<Box<[Q]>> {
    let n = usize::from(wanted).min(sources.len());
    (0..n).map(|i| sources.iter().skip(i).step_by(n).cloned().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_queue_is_polled_by_one() {
        assert_eq!(queues_of(&[0, 1, 2, 3, 4], 2), [[0, 2, 4].into(), Box::<[i32]>::from([1, 3])]);
        assert_eq!(queues_of(&[0], 4).len(), 1);
        assert!(queues_of(&[0, 1], 0).is_empty());
    }
}
