//! The host: physical ports, threads, and the virtual routers on them, as the control thread sees them.

mod queues;

use crate::access::TcpAccess;
use crate::board::{Below, Board, Change, Interface};
use crate::front::SharedPorts;
use crate::outgoing::Outlet;
use crate::ports::{HostPort, PortSetup, open_ports, side};
use crate::setup::{
    Connection, InterfaceSetup, InterfaceStatus, RouterSetup, RouterStatus, default_queue, limits_of,
};
use accounts::Account;
use demux::{Claim, Encap, Tag};
use dpdk::{EalOptions, Port, VirtualPort};
use lang::Diagnostics;
use locks::IgnorePoison;
use runtime::{Access, Crew, Front, Options, Router, Socket, ThreadSetup, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// Largest network packet of a virtual link, in bytes.
pub const LINK_MTU: u32 = 1500;
/// Bytes by which a network packet in a VXLAN tunnel is shorter than the port's largest: inner Ethernet
/// header, and IPv4, UDP and VXLAN headers.
pub const AROUND_TUNNELED: u32 = 14 + 20 + 8 + 8;
/// How long the threads may take to let a port go.
const LONGEST_CLOSING: Duration = Duration::from_secs(2);
/// The longest sleep of the control thread.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// How long a router that has failed waits before it starts again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often receive queues are distributed by what has come.
const PERIOD: Duration = Duration::from_secs(1);
/// After so long without a failure the pauses begin anew.
const RECOVERED: Duration = Duration::from_secs(120);

/// A run of a router that takes longer holds up the others of its thread for too long.
const LONGEST_RUN: Duration = Duration::from_secs(1);

/// How long a router that has failed waits before it starts again: twice as long with each failure.
#[derive(Clone, Debug)]
pub struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The next one, after a failure of a router that has run for so long.
    pub fn next(&mut self, ran: Duration) -> Duration {
        if ran > RECOVERED {
            self.0 = FIRST_PAUSE;
        }
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// Who has rung for the control thread.
#[derive(Default)]
struct Rung {
    /// Somebody has.
    any: bool,
    /// Routers, by their numbers.
    routers: BTreeSet<u32>,
}

type Bell = (Mutex<Rung>, Condvar);

/// A virtual interface of a router that runs.
struct Attached {
    port: Arc<VirtualPort>,
    /// The number by which demultiplexers and fronts know it.
    owner: u32,
    outlet: Arc<Outlet>,
}

/// A router that runs.
struct Running {
    router: Router,
    /// When it has control work again that nobody rings for; none: when all are looked at.
    due: Option<Instant>,
    usage: Arc<Usage>,
    number: u32,
    interfaces: Vec<Attached>,
    since: Instant,
    /// Whose memory it uses; the last that goes.
    account: Account,
}

struct Hosted {
    setup: RouterSetup,
    running: Option<Running>,
    failures: u32,
    failure: Option<String>,
    pauses: Pauses,
    /// When it starts again.
    again: Option<Instant>,
    /// Cycles of runs that have ended.
    cycles: u64,
}

impl Hosted {
    /// Gives it other access over TCP, if it differs; with an error it has what it had.
    fn set_access(&mut self, access: Option<TcpAccess>) -> Result<(), String> {
        if self.setup.access == access {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.setup.access, access);
        let Some(running) = &self.running else { return Ok(()) };
        let hub = running.router.hub();
        // The new address may be the old one.
        before.iter().for_each(|before| before.close(hub));
        let opened = self.setup.access.as_ref().map_or(Ok(()), |new| new.open(hub));
        if opened.is_err() {
            // Whoever has taken the address meanwhile keeps it.
            before.iter().for_each(|before| before.open(hub).unwrap_or_default());
            self.setup.access = before;
        }
        opened
    }
}

/// Ports, threads and virtual routers.
pub struct Host {
    routers: BTreeMap<String, Hosted>,
    /// Dropped after the routers, whose workers it runs.
    crew: Crew,
    boards: Vec<Arc<Board>>,
    /// By their numbers; none: it is not open.
    ports: Vec<Option<HostPort>>,
    setups: Vec<PortSetup>,
    /// Packets that wait at a virtual interface for one worker, unless the router has a limit of its own.
    room: usize,
    eal: EalOptions,
    options: Options,
    /// Which numbers of routers and of owners of frames are in use.
    numbers: Vec<bool>,
    owners: Vec<bool>,
    bell: Arc<Bell>,
    /// When all routers are looked at again, whether somebody has rung for them or not.
    look_at: Instant,
    started: Instant,
    /// When receive queues are distributed again by what has come.
    distribute_at: Instant,
}

/// A router whose memory cannot be counted is to have a limit.
#[cold]
fn too_many_limits(name: &str) -> Diagnostics {
    let most = accounts::MOST_ACCOUNTS;
    message(format!(
        "{name}: no limit of memory: the memory of {most} virtual routers is counted, and there are as many"
    ))
}

impl Host {
    /// Opens the ports and starts a thread for each of `options.workers`. If `fair`, routers get the
    /// processors' time by their shares, and those that want more lose packets before their own queues; else
    /// they run as packets come.
    ///
    /// # Errors
    /// A port cannot be opened, or a thread cannot be started: one message for each problem.
    pub fn start(
        ports: &[PortSetup],
        options: Options,
        eal: &EalOptions,
        enter: Option<ThreadSetup>,
        fair: bool,
    ) -> Result<Self, Vec<String>> {
        let threads = options.workers.max(1);
        let room = default_queue(fair);
        let opened = open_ports(ports, threads, room, eal)?;
        let boards: Vec<Arc<Board>> = (0..threads).map(|_| Arc::default()).collect();
        let mut fronts: Vec<Box<dyn Front>> = Vec::new();
        for (thread, board) in boards.iter().enumerate() {
            let sides = (opened.iter())
                .map(|port| port.as_ref().map(|port| side(port, thread, threads)).transpose())
                .collect::<Result<Vec<_>, _>>();
            let sides = sides.map_err(|e| vec![e])?;
            // What came for a router that uses too much is lost in its queue, not in the port.
            fronts.push(Box::new(SharedPorts::new(sides, Arc::clone(board), !fair)));
        }
        let mut crew = Crew::start(fronts, enter, fair).map_err(|e| vec![e])?;
        crew.watch(LONGEST_RUN);
        let options = Options { workers: threads, threads: true, hotswap: true, ..options };
        Ok(Self {
            routers: BTreeMap::new(),
            crew,
            boards,
            ports: opened,
            setups: ports.to_vec(),
            room,
            eal: eal.clone(),
            options,
            numbers: Vec::new(),
            owners: Vec::new(),
            bell: Arc::default(),
            look_at: Instant::now(),
            started: Instant::now(),
            distribute_at: Instant::now(),
        })
    }

    /// The open physical ports: name and port.
    pub fn ports(&self) -> impl Iterator<Item = (&str, &Arc<Port>)> {
        self.ports.iter().flatten().map(|port| (port.name.as_str(), &port.port))
    }

    /// Packets that a physical port has lost because the routers sent faster than it does.
    #[must_use]
    pub fn lost_at_port(&self, name: &str) -> u64 {
        let port = self.ports.iter().flatten().find(|port| port.name == name);
        port.map_or(0, |port| port.losses.transmit_queue_full.load(Ordering::Relaxed))
    }

    /// What the demultiplexer of a physical port has not delivered.
    #[must_use]
    pub fn undelivered(&self, name: &str) -> Option<demux::Counts> {
        self.ports.iter().flatten().find(|port| port.name == name).map(|port| port.table.counts())
    }

    /// When it was started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// How many threads run the routers.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.crew.threads()
    }

    /// Cycles in which the threads had nothing to do.
    #[must_use]
    pub fn idle_cycles(&self) -> u64 {
        self.crew.idle_cycles()
    }

    /// How many rounds each thread has begun; see [`Crew::rounds`].
    #[must_use]
    pub fn rounds(&self) -> Vec<u64> {
        self.crew.rounds()
    }

    /// The router with an interface on a port, by the port's number.
    #[must_use]
    pub fn user_of(&self, port: usize) -> Option<&str> {
        let uses = |hosted: &&Hosted| {
            hosted.setup.interfaces.iter().any(|interface| match interface.below {
                Connection::Port(number, _)
                | Connection::WholePort(number)
                | Connection::Queue(number, _) => number == port,
                Connection::Link(..) | Connection::Nothing => false,
            })
        };
        self.routers.values().find(uses).map(|hosted| hosted.setup.name.as_str())
    }

    /// Opens a port, by its number, or closes it so that another process can open it.
    ///
    /// # Errors
    /// It cannot be opened; a router uses it; the threads do not let it go.
    pub fn set_open(&mut self, number: usize, open: bool) -> Result<(), String> {
        let Some(is) = self.ports.get(number).map(Option::is_some) else {
            return Err(format!("there is no port {number}"));
        };
        if is == open {
            return Ok(());
        }
        if open {
            let setup = PortSetup { open: true, ..self.setups[number].clone() };
            let threads = self.crew.threads();
            let opened =
                open_ports(&[setup], threads, self.room, &self.eal).map_err(|errors| errors.join("\n"))?;
            let Some(port) = opened.into_iter().flatten().next() else { return Ok(()) };
            let sides =
                (0..threads).map(|thread| side(&port, thread, threads)).collect::<Result<Vec<_>, _>>()?;
            for (board, side) in self.boards.iter().zip(sides) {
                board.post(Change::Open(number, Box::new(side)));
            }
            self.ports[number] = Some(port);
            self.crew.wake();
            return Ok(());
        }
        if let Some(router) = self.user_of(number) {
            return Err(format!("the router {router} uses the port {}", self.setups[number].name));
        }
        self.boards.iter().for_each(|board| board.post(Change::Close(number)));
        self.crew.wake();
        let began = Instant::now();
        let Some(HostPort { name, port, .. }) = self.ports[number].take() else { return Ok(()) };
        while Arc::strong_count(&port) > 1 {
            if began.elapsed() > LONGEST_CLOSING {
                return Err(format!("{name}: a worker does not let the port go"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// What wakes the thread that drives the host.
    pub fn ringer(&self) -> impl Fn() + Send + use<> {
        let bell = Arc::clone(&self.bell);
        move || ring(&bell, None)
    }

    /// What the routers are that are there, by name.
    pub fn routers(&self) -> impl Iterator<Item = &RouterSetup> {
        self.routers.values().map(|hosted| &hosted.setup)
    }

    /// What a router is.
    #[must_use]
    pub fn setup(&self, name: &str) -> Option<&RouterSetup> {
        self.routers.get(name).map(|hosted| &hosted.setup)
    }

    /// Ends the sessions of all clients of a router that runs.
    pub fn end_sessions(&self, name: &str) {
        if let Some(running) = self.routers.get(name).and_then(|hosted| hosted.running.as_ref()) {
            running.router.hub().end_sessions();
        }
    }

    /// Has clients reach a router that runs over TCP, at this socket of its, or no more. Returns whether it
    /// has such a socket.
    pub fn give_access(&self, name: &str, control: &Socket, access: Option<Access>) -> bool {
        let running = self.routers.get(name).and_then(|hosted| hosted.running.as_ref());
        running.is_some_and(|running| running.router.hub().set_access(control, access))
    }

    /// Ends a router's access over TCP, so that another one can have its address; see [`Host::change`].
    pub fn end_access(&mut self, name: &str) {
        if let Some(hosted) = self.routers.get_mut(name) {
            hosted.set_access(None).unwrap_or_default();
        }
    }

    /// Whether a router that is there can become `setup` while it runs: its program, its share, its limits,
    /// its rates and its access over TCP may differ; `None`: it is not there.
    #[must_use]
    pub fn can_become(&self, setup: &RouterSetup) -> Option<bool> {
        let known = &self.routers.get(&setup.name)?.setup;
        Some(
            known.load.defines == setup.load.defines
                && known.interfaces.len() == setup.interfaces.len()
                && known.interfaces.iter().zip(&setup.interfaces).all(|(known, new)| known.can_become(new)),
        )
    }

    /// Gives a router another program, whose elements keep their state if name and class are the same, and
    /// another share, other limits, rates and access over TCP. Returns whether the program differs from the
    /// one that it has.
    ///
    /// # Errors
    /// The program is wrong, it uses more memory than it is to have, or the address of its access is in use;
    /// the router goes on as it is.
    pub fn change(&mut self, setup: RouterSetup) -> Result<bool, Diagnostics> {
        let text = |setup: &RouterSetup| setup.sources.first().map(|source| source.text.clone());
        let (threads, room) = (self.crew.threads(), self.room);
        let limits = |setup: &RouterSetup| limits_of(setup, threads, room);
        let Some(hosted) = self.routers.get_mut(&setup.name) else {
            return Err(message(format!("there is no virtual router '{}'", setup.name)));
        };
        let differs = text(&hosted.setup) != text(&setup);
        // While the program changes, what both use counts. So the limit falls afterwards, if the new one uses
        // less.
        let before = hosted.setup.limits.memory;
        let falls = setup.limits.memory.filter(|most| before.is_none_or(|before| *most < before));
        if let (Some(most), Some(running)) = (falls, &hosted.running) {
            let used = running.account.used().ok_or_else(|| too_many_limits(&setup.name))?;
            if used > most {
                let exceeded = accounts::Exceeded { used, most };
                let help = if differs { "change its program first" } else { "give it more" };
                return Err(message(format!("{}: {exceeded} for what it has now: {help}", setup.name)));
            }
        }
        let access = hosted.setup.access.clone();
        hosted.set_access(setup.access.clone()).map_err(|e| message(format!("{}: {e}", setup.name)))?;
        if let Some(running) = &mut hosted.running {
            running.account.set_most(setup.limits.memory);
            let _entered = running.account.entry().enter();
            running.router.set_limits(limits(&setup));
            if let (true, Some(program)) = (differs, setup.sources.first())
                && let Err(e) = running.router.hotswap(program.clone())
            {
                running.router.set_limits(limits(&hosted.setup));
                running.account.set_most(hosted.setup.limits.memory);
                hosted.set_access(access).unwrap_or_else(|e| warn!(target: "vr", "{}: {e}", setup.name));
                return Err(e);
            }
            let room = setup.queue.unwrap_or(room).max(1);
            if hosted.setup.share != setup.share {
                self.crew.set_share(running.number, setup.share);
            }
            for (attached, interface) in running.interfaces.iter().zip(&setup.interfaces) {
                attached.port.set_room(room);
                attached.outlet.set(setup.share, interface.rate);
            }
        }
        hosted.setup = setup;
        Ok(differs)
    }

    /// A router's handlers and elements.
    pub fn router(&mut self, name: &str) -> Option<&mut Router> {
        Some(&mut self.routers.get_mut(name)?.running.as_mut()?.router)
    }

    /// Adds a router and starts it. Others go on meanwhile.
    ///
    /// # Errors
    /// There is one of this name; its program is wrong; a tag is claimed already. Nothing has changed then.
    pub fn add(&mut self, setup: RouterSetup) -> Result<(), Diagnostics> {
        if self.routers.contains_key(&setup.name) {
            return Err(message(format!("there is a virtual router '{}' already", setup.name)));
        }
        let running = self.launch(&setup)?;
        let hosted = Hosted {
            running: Some(running),
            failures: 0,
            failure: None,
            pauses: Pauses::default(),
            again: None,
            cycles: 0,
            setup,
        };
        self.routers.insert(hosted.setup.name.clone(), hosted);
        self.distribute_queues(false);
        Ok(())
    }

    /// Removes a router. Others go on meanwhile. Returns whether there was one of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(mut hosted) = self.routers.remove(name) else { return false };
        hosted.running.take().into_iter().for_each(|running| self.end(running));
        self.distribute_queues(false);
        true
    }

    /// What is below an interface, and the MTU there.
    fn below(&self, interface: &InterfaceSetup) -> Result<(Below, u32), String> {
        let tag = if let Connection::Port(_, tag) = interface.below { tag } else { Tag::None };
        match interface.below {
            Connection::Port(port, _) | Connection::Queue(port, _) => {
                let Some(Some(below)) = self.ports.get(port) else {
                    return Err(format!("port {port} is not open here"));
                };
                let encap = Encap::new(tag, below.tunnel).map_err(|e| e.to_string())?;
                // A tag is beside a packet; a tunnel's packets are around it.
                let around = if let Tag::Vni(_) = tag { AROUND_TUNNELED } else { 0 };
                Ok((Below::Port(port, encap), below.port.mtu().saturating_sub(around)))
            }
            Connection::WholePort(port) => {
                let Some(Some(below)) = self.ports.get(port) else {
                    return Err(format!("port {port} is not open here"));
                };
                Ok((Below::Whole(port), below.port.mtu()))
            }
            Connection::Link(link, end @ 0..2) => Ok((Below::Link(link, end), LINK_MTU)),
            Connection::Link(_, end) => Err(format!("a link has no end {end}")),
            Connection::Nothing => Ok((Below::Nothing, LINK_MTU)),
        }
    }

    fn launch(&mut self, setup: &RouterSetup) -> Result<Running, Diagnostics> {
        let number = free_number(&mut self.numbers);
        let launched = self.launch_as(setup, number);
        if launched.is_err() {
            self.numbers[number as usize] = false;
        }
        launched
    }

    fn launch_as(&mut self, setup: &RouterSetup, number: u32) -> Result<Running, Diagnostics> {
        let account = Account::open(setup.limits.memory);
        if setup.limits.memory.is_some() && account.used().is_none() {
            return Err(too_many_limits(&setup.name));
        }
        let _entered = account.entry().enter();
        let mut load = setup.load.clone();
        let room = setup.queue.unwrap_or(self.room).max(1);
        let mut interfaces: Vec<Attached> = Vec::new();
        let mut belows = Vec::new();
        for interface in &setup.interfaces {
            let (below, mtu) = self.below(interface).map_err(|e| wrong(setup, interface, &e))?;
            belows.push(below);
            let name = format!("{}/{}", setup.name, interface.name);
            let port = VirtualPort::new(&name, interface.mac, mtu, self.crew.threads(), room)
                .map_err(|e| message(e.to_string()))?;
            port.set_bell(self.crew.caller(number));
            load.defines.push((interface.name.clone(), format!("virtual:{name}")));
            let outlet = Outlet::new(setup.share, interface.rate);
            interfaces.push(Attached { port: Arc::new(port), owner: 0, outlet });
        }
        let crew = (&self.crew, number, setup.share);
        let registry = Arc::clone(&setup.registry);
        let limits = limits_of(setup, self.crew.threads(), self.room);
        let options = Options { limits, ..self.options.clone() };
        let (mut router, usage) = Router::hosted(&setup.sources, load, registry, options, crew)?;
        let bell = Arc::clone(&self.bell);
        router.hub().also_ring(Box::new(move || ring(&bell, Some(number))));
        for (below, attached) in belows.into_iter().zip(&mut interfaces) {
            attached.owner = free_number(&mut self.owners);
            for (thread, board) in self.boards.iter().enumerate() {
                let Some(queues) = attached.port.queues(thread) else { continue };
                let (outlet, below) = (Arc::clone(&attached.outlet), below.clone());
                let interface = Interface { router: number, queues, outlet, below, waiting: 0 };
                board.post(Change::Add(attached.owner, interface));
            }
        }
        router.start();
        let now = Instant::now();
        let running = Running { router, due: Some(now), usage, number, interfaces, since: now, account };
        // Last of all frames come.
        for (interface, attached) in setup.interfaces.iter().zip(&running.interfaces) {
            let owner = attached.owner;
            if let Err(e) = self.claim(interface, owner) {
                self.end(running);
                return Err(wrong(setup, interface, &e));
            }
        }
        if let Some(Err(e)) = setup.access.as_ref().map(|access| access.open(running.router.hub())) {
            self.end(running);
            return Err(message(format!("{}: {e}", setup.name)));
        }
        Ok(running)
    }

    /// From here on an interface gets its frames.
    fn claim(&mut self, interface: &InterfaceSetup, owner: u32) -> Result<(), String> {
        if let Connection::Queue(port, queue) = interface.below {
            self.give_queue(port, queue, owner)?;
        }
        let Some(Some(port)) = interface.port().and_then(|port| self.ports.get(port)) else { return Ok(()) };
        if let Connection::Port(_, tag) = interface.below {
            if port.owners.iter().all(Option::is_some) {
                return Err(format!(
                    "{}: every receive queue is for one interface alone; stop the host and start it again, so that \
                     there is another one",
                    port.name
                ));
            }
            let claim = Claim { tag, mac: Some(interface.mac) };
            port.table.claim(claim, owner).map_err(|e| e.to_string())?;
        }
        if interface.default || matches!(interface.below, Connection::WholePort(_)) {
            port.table.set_default(Some(owner)).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Takes a router away: first no more frames come, then it ends.
    fn end(&mut self, running: Running) {
        let Running { router, number, interfaces, account, .. } = running;
        let _entered = account.entry().enter();
        for attached in &interfaces {
            self.take_frames_from(attached.owner);
            for port in self.ports.iter().flatten() {
                if let Err(e) = port.table.release_owner(attached.owner) {
                    warn!(target: "vr", "{}: {e}", port.name);
                }
            }
        }
        self.boards.iter().for_each(|board| board.post(Change::Remove(number)));
        // Before the number means another router.
        self.take_queues_from(number);
        drop(router);
        // Its threads have let it go, so that its number means another router from here on.
        if let Some(used) = self.numbers.get_mut(number as usize) {
            *used = false;
        }
        for Attached { port, owner, .. } in interfaces {
            port.withdraw();
            if let Some(used) = self.owners.get_mut(owner as usize) {
                *used = false;
            }
        }
    }

    /// The routers as they are now, by name.
    #[must_use]
    pub fn status(&self) -> Vec<RouterStatus> {
        let of = |(name, hosted): (&String, &Hosted)| {
            let running = hosted.running.as_ref();
            let threads = self.crew.threads();
            let port = |at: usize| running.and_then(|r| r.interfaces.get(at)).map(|attached| &attached.port);
            let waiting = |port: &Arc<VirtualPort>| (0..threads).map(|thread| port.waiting(thread)).sum();
            let interfaces = hosted.setup.interfaces.iter().enumerate().map(|(at, interface)| {
                let own_queue = running.is_some_and(|running| self.has_own_queue(interface, running.number));
                InterfaceStatus {
                    name: interface.name.clone(),
                    stats: port(at).map(|port| port.stats()).unwrap_or_default(),
                    own_queue,
                    waiting: port(at).map_or(0, waiting),
                }
            });
            RouterStatus {
                name: name.clone(),
                running: running.is_some(),
                failures: hosted.failures,
                failure: hosted.failure.clone().filter(|_| running.is_none()),
                share: hosted.setup.share,
                cycles: hosted.cycles + running.map_or(0, |r| r.usage.cycles()),
                memory_bytes: running.and_then(|r| r.account.used()),
                refused: running.map(|r| r.router.hub().bounds().refused()).unwrap_or_default(),
                used: running.map(|r| r.router.hub().bounds().used().to_vec()).unwrap_or_default(),
                stall: running.map(|r| r.usage.stall()).unwrap_or_default(),
                interfaces: interfaces.collect(),
            }
        };
        self.routers.iter().map(of).collect()
    }

    /// What a router's elements have dropped since it started: element, reason, packets.
    #[must_use]
    pub fn drops(&self, name: &str) -> Vec<(String, &'static str, u64)> {
        let running = self.routers.get(name).and_then(|hosted| hosted.running.as_ref());
        running.map(|running| running.router.drops()).unwrap_or_default()
    }

    /// Runs until `interrupted`: control sockets and scripts of all routers; those that have failed start
    /// again. `between` is called in every round.
    pub fn drive(&mut self, mut interrupted: impl FnMut() -> bool, mut between: impl FnMut(&mut Self)) {
        while !interrupted() {
            between(self);
            let rest = self.turn();
            if !rest.is_zero() {
                let (rung, condvar) = &*self.bell;
                let rung = rung.lock().ignore_poison();
                let mut rung = condvar.wait_timeout_while(rung, rest, |rung| !rung.any).ignore_poison().0;
                rung.any = false;
            }
        }
        for hosted in self.routers.values_mut() {
            if let Some(running) = &mut hosted.running {
                let _entered = running.account.entry().enter();
                running.router.wind_up();
            }
        }
    }

    /// One round of the control work of those routers that have some. Returns how long there is none.
    pub fn turn(&mut self) -> Duration {
        let mut failed = Vec::new();
        let mut ended = Vec::new();
        let rung = std::mem::take(&mut self.bell.0.lock().ignore_poison().routers);
        let now = Instant::now();
        let all = self.look_at <= now;
        if all {
            self.look_at = now + LONGEST_SLEEP;
        }
        let mut rest = self.look_at - now;
        for (name, hosted) in &mut self.routers {
            if let Some(running) = &mut hosted.running {
                if all || rung.contains(&running.number) || running.due.is_some_and(|due| due <= now) {
                    let entered = running.account.entry().enter();
                    let none_for = running.router.step();
                    drop(entered);
                    running.due = (none_for < LONGEST_SLEEP).then(|| now + none_for);
                }
                rest = running.due.map_or(rest, |due| rest.min(due.saturating_duration_since(now)));
                // Of its workers' turns, its threads say so.
                if let Some(exceeded) = running.account.entry().exceeded()
                    && !running.router.hub().failed()
                {
                    running.router.hub().fail(&exceeded.to_string());
                }
                if running.router.hub().failed() {
                    failed.push(name.clone());
                } else if running.router.wants_to_end() {
                    ended.push(name.clone());
                }
            } else if let Some(again) = hosted.again {
                rest = rest.min(again.saturating_duration_since(now));
            }
        }
        for name in failed {
            self.stop_failed(&name, now);
        }
        for name in ended {
            info!(target: "vr", "router '{name}' has ended");
            let ending = self.routers.get_mut(&name).and_then(|hosted| hosted.running.take());
            ending.into_iter().for_each(|running| self.end(running));
            self.distribute_queues(false);
        }
        if self.distribute_at <= now && self.ports.iter().flatten().any(|port| !port.own.queues().is_empty())
        {
            self.distribute_at = now + PERIOD;
            self.distribute_queues(true);
        }
        let due = |hosted: &Hosted| hosted.running.is_none() && hosted.again.is_some_and(|at| at <= now);
        let due: Vec<String> =
            self.routers.iter().filter(|(_, hosted)| due(hosted)).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.start_again(&name, now);
        }
        rest
    }

    /// A router's element has panicked: its buffers come back, and it starts again after a pause.
    fn stop_failed(&mut self, name: &str, now: Instant) {
        let Some(hosted) = self.routers.get_mut(name) else { return };
        let Some(running) = hosted.running.take() else { return };
        let pause = hosted.pauses.next(running.since.elapsed());
        hosted.failures += 1;
        hosted.failure = running.router.hub().failure().map(str::to_owned);
        hosted.cycles += running.usage.cycles();
        hosted.again = Some(now + pause);
        error!(target: "vr", "router '{name}' has failed; it starts again in {} ms", pause.as_millis());
        self.end(running);
        self.distribute_queues(false);
    }

    fn start_again(&mut self, name: &str, now: Instant) {
        let Some(setup) = self.routers.get(name).map(|hosted| hosted.setup.clone()) else { return };
        let launched = self.launch(&setup);
        let Some(hosted) = self.routers.get_mut(name) else { return };
        match launched {
            Ok(running) => {
                (hosted.running, hosted.again) = (Some(running), None);
                info!(target: "vr", "router '{name}' runs again");
                self.distribute_queues(false);
            }
            Err(e) => {
                hosted.again = Some(now + hosted.pauses.next(Duration::ZERO));
                hosted.failure = e.iter().next().map(|first| first.message.clone());
                error!(target: "vr", "router '{name}' cannot start again: {}", e.render_plain(e.sources()));
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for (_, hosted) in std::mem::take(&mut self.routers) {
            hosted.running.into_iter().for_each(|running| self.end(running));
        }
    }
}

/// The lowest number that is not in use.
fn free_number(used: &mut Vec<bool>) -> u32 {
    let at = used.iter().position(|used| !used).unwrap_or_else(|| {
        used.push(false);
        used.len() - 1
    });
    used[at] = true;
    at as u32
}

/// Wakes the control thread, for one router or for something else.
fn ring((rung, condvar): &Bell, router: Option<u32>) {
    // The list is the host's, whoever adds to it.
    let _nobody = accounts::nobody().enter();
    let mut rung = rung.lock().ignore_poison();
    rung.any = true;
    rung.routers.extend(router);
    drop(rung);
    condvar.notify_all();
}

/// A message about a router's interface.
fn wrong(setup: &RouterSetup, interface: &InterfaceSetup, reason: &str) -> Diagnostics {
    message(format!("{}: interface {}: {reason}", setup.name, interface.name))
}

fn message(text: String) -> Diagnostics {
    let mut diags = Diagnostics::new();
    diags.error(None, text);
    diags
}
