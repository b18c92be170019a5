//! Routers in processes of their own (the schemes `direct` and `hybrid`), as the host sees them.

use crate::cgroup::{self, Allowance, Groups};
use crate::child::{Answer, Order, Word};
use crate::cleaner::{Cleaner, Remains, remove_socket};
use crate::confine::isolate;
use crate::division::has_pair;
use crate::file::{HostFile, Owner, Scheme, VirtualRouter};
use crate::hybrid::{self, Passages};
use crate::setup::give_to_owner;
use dpdk::descriptor;
use lang::Source;
use locks::IgnorePoison;
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::User;
use runtime::Socket;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use vrhost::{Pauses, TcpAccess};

/// How long a process may take until its router runs.
const STARTING: Duration = Duration::from_secs(30);
/// How often a process is asked for its state, and how long it may take to answer.
const PULSE: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(10);
/// How long it may take to end when it is asked to; then it is killed.
const ENDING: Duration = Duration::from_millis(150);
/// How long a killed process may take.
const KILLED: Duration = Duration::from_secs(2);
/// How long `status` waits for a process.
pub(crate) const ANSWERING: Duration = Duration::from_millis(300);
/// The longest answer of a process, in bytes.
const LONGEST: u64 = 1 << 20;
/// Who the process becomes if its router has no owner, or root.
const NOBODY: &str = "nobody";

/// What becomes of the options of `valiant vr run`.
#[derive(Clone, Debug)]
pub(crate) struct ChildOptions {
    pub(crate) memory_mb: Option<usize>,
    pub(crate) hugepages: bool,
    pub(crate) eal: Option<String>,
    /// Options of the log, as words of the command line.
    pub(crate) log: Vec<String>,
}

/// A router that is to have a process.
#[derive(Clone, Debug)]
pub(crate) struct DirectSetup {
    router: VirtualRouter,
    order: Order,
    allowance: Allowance,
    /// Its control socket, and others at which its program listens.
    sockets: Vec<PathBuf>,
    /// The indices of its ports.
    pub(crate) ports: BTreeSet<usize>,
    /// How its owner reaches it over TCP.
    pub(crate) access: Option<TcpAccess>,
    /// All that a running process cannot change.
    fixed: String,
}

impl DirectSetup {
    pub(crate) fn new(
        file: &HostFile,
        router: &VirtualRouter,
        program: &Source,
        access: Option<TcpAccess>,
        options: &ChildOptions,
    ) -> Self {
        let user = match &router.owner {
            // A process of root with no capability is still the owner of root's files.
            Some(Owner::User(name))
                if User::from_name(name).is_ok_and(|user| user.is_some_and(|u| !u.uid.is_root())) =>
            {
                name.clone()
            }
            _ => NOBODY.to_owned(),
        };
        let allowance = Allowance {
            cores: file.processors_of(router),
            share: router.share,
            memory_bytes: router.limits.memory_bytes,
        };
        let hybrid = router.scheme == Scheme::Hybrid;
        let ports = router.interfaces.iter().filter(|_| !hybrid);
        let alone = ports.filter(|interface| !has_pair(file, router, interface));
        let ports: BTreeSet<usize> = alone.filter_map(|interface| interface.port).collect();
        let interfaces = router.interfaces.iter().enumerate().map(|(number, i)| {
            let at = file.routers.iter().position(|one| one.name == router.name).unwrap_or_default();
            let id = crate::file::InterfaceId { router: at, interface: number };
            let port = i.port.and_then(|port| file.ports.get(port));
            let is_default = port.is_some_and(|port| port.default == Some(id));
            format!(
                "{:?}",
                (
                    &i.name,
                    i.port,
                    port.map(|port| port.device.to_string()),
                    i.tag,
                    i.mac,
                    is_default,
                    file.peer(id)
                )
            )
        });
        let interfaces: Vec<String> = interfaces.collect();
        let fixed = format!(
            "{:?}",
            (
                router.scheme,
                &allowance,
                &user,
                &router.owner,
                router.limits.queue,
                router.defines(),
                router.allowed(),
                interfaces
            )
        );
        let order = Order {
            file: (file.sources.name(0).to_owned(), file.sources.text(0).to_string(), file.dir.clone()),
            router: router.name.clone(),
            program: (program.name.clone(), program.text.to_string()),
            user,
            memory_mb: options.memory_mb,
            hugepages: options.hugepages,
            eal: options.eal.clone(),
            memif: if hybrid { hybrid::sockets(file, router) } else { Vec::new() },
        };
        let others = router.allow.sockets.iter().filter_map(|socket| match socket {
            Socket::Unix(path) => Some(path.clone()),
            Socket::Tcp { .. } => None,
        });
        let sockets = std::iter::once(file.socket(router)).chain(others).collect();
        Self { router: router.clone(), order, allowance, sockets, ports, access, fixed }
    }

    pub(crate) fn name(&self) -> &str {
        &self.router.name
    }
}

/// A socket that a process accepts clients from. When it is dropped, nobody listens there any more.
struct Listening(TcpListener);

impl Drop for Listening {
    fn drop(&mut self) {
        // The process has it too, and may close it later.
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }
}

/// What a process has done.
enum Event {
    Started(UnixStream, Arc<Mutex<Child>>, u32, Vec<String>),
    Said(Answer),
    /// It has ended: how.
    Gone(String),
}

enum State {
    Starting,
    Running,
    /// It has failed and starts again.
    Waiting(Instant),
    /// Its program has ended by itself.
    Ended,
}

struct Process {
    id: u32,
    socket: UnixStream,
    process: Arc<Mutex<Child>>,
}

struct Direct {
    setup: DirectSetup,
    file: HostFile,
    /// Where its packets pass; none in the scheme direct.
    passages: Arc<Passages>,
    /// How its owner reaches it over TCP, and the socket, while its process has it.
    access: Option<TcpAccess>,
    listening: Option<Listening>,
    state: State,
    process: Option<Process>,
    /// Ends when the process has ended and has been collected.
    keeper: Option<JoinHandle<()>>,
    /// Tells the process from the former ones of this router.
    number: u64,
    /// Whether it has ever run.
    has_run: bool,
    pauses: Pauses,
    failures: u32,
    since: Instant,
    asked: Option<Instant>,
    status: Value,
    status_at: Instant,
    /// Cycles and received and sent packets of processes that have ended.
    cycles: u64,
    /// What is wrong, as the process has said.
    told: Option<String>,
    program_asked: bool,
    /// What it is to be once its process has taken another program.
    wanted: Option<(DirectSetup, HostFile)>,
    outcome: Option<Result<bool, String>>,
}

/// All routers in processes of their own.
pub(crate) struct Directs {
    all: BTreeMap<String, Direct>,
    events: Receiver<(String, u64, Event)>,
    sender: Sender<(String, u64, Event)>,
    ring: Arc<dyn Fn() + Send + Sync>,
    next: u64,
    name: String,
    options: ChildOptions,
    groups: Option<Groups>,
    cleaner: Option<Cleaner>,
    /// Warnings that were given already.
    warned: BTreeSet<String>,
    /// The share of all routers in the common process.
    shared: u32,
    /// Sockets of the common process, for the cleaner.
    sockets: Vec<PathBuf>,
    interfaces: Vec<String>,
}

impl Directs {
    pub(crate) fn new(host: &str, options: ChildOptions, ring: impl Fn() + Send + Sync + 'static) -> Self {
        let (sender, events) = channel();
        Self {
            all: BTreeMap::new(),
            events,
            sender,
            ring: Arc::new(ring),
            next: 0,
            name: format!("valiant-{host}-{}", std::process::id()),
            options,
            groups: None,
            cleaner: None,
            warned: BTreeSet::new(),
            shared: 0,
            sockets: Vec::new(),
            interfaces: Vec::new(),
        }
    }

    pub(crate) fn options(&self) -> &ChildOptions {
        &self.options
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all.keys().cloned().collect()
    }

    /// The router with this port.
    pub(crate) fn user_of(&self, port: usize) -> Option<&str> {
        self.all.values().find(|direct| direct.setup.ports.contains(&port)).map(|direct| direct.setup.name())
    }

    fn warn(&mut self, text: String) {
        if !self.warned.contains(&text) {
            warn!(target: "vr", "{text}");
            self.warned.insert(text);
        }
    }

    /// What there is of routers in the common process: the sum of their shares, their sockets, and the
    /// interfaces that the host has made.
    pub(crate) fn beside(
        &mut self,
        shared: u32,
        sockets: impl FnOnce() -> Vec<PathBuf>,
        interfaces: Vec<String>,
    ) {
        (self.shared, self.interfaces) = (shared, interfaces);
        if self.cleaner.is_some() {
            self.sockets = sockets();
        }
        self.settle();
    }

    /// Weights and what is to be cleaned up follow the routers that there are.
    fn settle(&mut self) {
        let direct: u32 = self.all.values().map(|direct| direct.setup.router.share).sum();
        let mut remains = Remains {
            groups: Vec::new(),
            sockets: self.sockets.clone(),
            interfaces: self.interfaces.clone(),
        };
        if let Some(groups) = &self.groups {
            groups.weigh(direct, self.shared);
            remains.groups = groups.directories(self.all.keys().map(String::as_str));
        }
        for direct in self.all.values() {
            remains.sockets.extend_from_slice(&direct.setup.sockets);
            remains.sockets.extend_from_slice(direct.passages.sockets());
        }
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.tell(remains);
        }
    }

    /// Starts a process for a router. Whether that works is seen later: see [`Directs::busy`].
    pub(crate) fn add(&mut self, file: &HostFile, setup: DirectSetup, passages: Passages) {
        if self.cleaner.is_none() {
            let started = std::env::current_exe().and_then(|program| Cleaner::start(&program));
            match started {
                Ok(cleaner) => self.cleaner = Some(cleaner),
                Err(e) => {
                    self.warn(format!("nothing is cleaned up if this host is killed: {}", launch::reason(&e)))
                }
            }
        }
        if self.groups.is_none() {
            let groups = Groups::find(&self.name);
            groups.lacks.iter().for_each(|lack| self.warn(lack.clone()));
            self.groups = Some(groups);
        }
        let name = setup.name().to_owned();
        let now = Instant::now();
        let direct = Direct {
            access: setup.access.clone(),
            listening: None,
            setup,
            file: file.clone(),
            passages: Arc::new(passages),
            state: State::Starting,
            process: None,
            keeper: None,
            number: 0,
            has_run: false,
            pauses: Pauses::default(),
            failures: 0,
            since: now,
            asked: None,
            status: Value::Null,
            status_at: now,
            cycles: 0,
            told: None,
            program_asked: false,
            wanted: None,
            outcome: None,
        };
        self.all.insert(name.clone(), direct);
        self.settle();
        self.start(&name);
    }

    fn start(&mut self, name: &str) {
        let Some(direct) = self.all.get_mut(name) else { return };
        self.next += 1;
        direct.number = self.next;
        (direct.state, direct.since) = (State::Starting, Instant::now());
        (direct.told, direct.asked, direct.program_asked) = (None, None, false);
        let made = self.groups.as_ref().map(|groups| groups.make(name, &direct.setup.allowance));
        let (groups, failed) = made.unwrap_or_default();
        let order = serde_json::to_string(&direct.setup.order).unwrap_or_default();
        let (number, sender, ring) = (self.next, self.sender.clone(), Arc::clone(&self.ring));
        let (router, log) = (name.to_owned(), self.options.log.clone());
        let passages = Arc::clone(&direct.passages);
        let tell = move |event: Event| {
            // Nobody listens when the host ends.
            let _ = sender.send((router.clone(), number, event));
            ring();
        };
        // The thread lives as long as the process, which ends with the thread that has started it.
        let keeper = std::thread::Builder::new().name("valiant-direct".to_owned());
        match keeper.spawn(move || keep(&order, &log, &groups, &passages, &tell)) {
            Ok(keeper) => direct.keeper = Some(keeper),
            Err(e) => {
                let how = format!("no thread: {}", launch::reason(&e));
                let _ = self.sender.send((name.to_owned(), number, Event::Gone(how)));
            }
        }
        failed.into_iter().for_each(|text| self.warn(format!("router {name}: {text}")));
    }

    /// What has happened since the last call. Returns the routers that have failed at their first start, with
    /// the reason; they are gone.
    pub(crate) fn turn(&mut self) -> Vec<(String, String)> {
        let now = Instant::now();
        let mut lost = Vec::new();
        while let Ok((name, number, event)) = self.events.try_recv() {
            let Some(direct) = self.all.get_mut(&name).filter(|direct| direct.number == number) else {
                // Of a router that was removed meanwhile nothing stays.
                if let Event::Started(_, process, ..) = event {
                    let _ = process.lock().ignore_poison().kill();
                }
                continue;
            };
            match event {
                Event::Started(socket, process, id, failed) => {
                    direct.process = Some(Process { id, socket, process });
                    failed
                        .into_iter()
                        .for_each(|text| self.warn(format!("routers in processes of their own: {text}")));
                }
                Event::Said(answer) => direct.hear(answer, now),
                Event::Gone(how) => {
                    if let Some(reason) = self.gone(&name, &how, now) {
                        lost.push((name, reason));
                    }
                }
            }
        }
        let mut due = Vec::new();
        for (name, direct) in &mut self.all {
            let silent = direct.asked.is_some_and(|asked| now.duration_since(asked) > SILENCE);
            match direct.state {
                State::Waiting(at) if at <= now => due.push(name.clone()),
                State::Starting if now.duration_since(direct.since) > STARTING => {
                    direct.kill("it takes too long to start");
                }
                State::Running if let Some(broken) = direct.passages.broken() => {
                    direct.kill(&format!("its process has written {broken} into its memif ring"));
                }
                State::Running if silent => direct.kill("it does not answer"),
                State::Running if direct.asked.is_none() && now.duration_since(direct.status_at) > PULSE => {
                    direct.ask_status();
                }
                _ => {}
            }
        }
        due.iter().for_each(|name| self.start(name));
        lost
    }

    /// The process of a router has ended. Returns why, if the router is gone with it.
    fn gone(&mut self, name: &str, how: &str, now: Instant) -> Option<String> {
        let memory = self.groups.as_ref().is_some_and(|groups| groups.out_of_memory(name));
        let direct = self.all.get_mut(name)?;
        (direct.process, direct.listening) = (None, None);
        direct.keeper.take().into_iter().for_each(|keeper| drop(keeper.join()));
        direct.cycles += direct.status["cycles"].as_u64().unwrap_or(0);
        direct.status = Value::Null;
        if let Some(groups) = &self.groups {
            groups.remove(name);
        }
        direct.setup.sockets.iter().for_each(|path| remove_socket(path));
        if matches!(direct.state, State::Ended) {
            info!(target: "vr", "router '{name}' has ended");
            return None;
        }
        let mut how = direct.told.take().unwrap_or_else(|| how.to_owned());
        if memory && let Some(limit) = direct.setup.allowance.memory_bytes {
            how = format!("it has needed more than its limit of {} MB of memory", limit / 1_000_000);
        }
        direct.wanted = None;
        if direct.program_asked {
            direct.program_asked = false;
            direct.outcome = Some(Err(how.clone()));
        }
        if !direct.has_run {
            self.all.remove(name);
            self.settle();
            return Some(how);
        }
        direct.failures += 1;
        let pause = direct.pauses.next(direct.since.elapsed());
        direct.state = State::Waiting(now + pause);
        error!(target: "vr", "router '{name}' has failed: {how}; it starts again in {} ms", pause.as_millis());
        None
    }

    /// Whether it is not yet clear whether a router runs, or whether its program could be changed.
    pub(crate) fn busy(&self, name: &str) -> bool {
        self.all.get(name).is_some_and(|direct| {
            direct.program_asked || (matches!(direct.state, State::Starting) && !direct.has_run)
        })
    }

    /// Asks all processes for their state.
    pub(crate) fn ask_status(&mut self) {
        self.all
            .values_mut()
            .filter(|direct| matches!(direct.state, State::Running))
            .for_each(Direct::ask_status);
    }

    /// What a router is.
    pub(crate) fn setup(&self, name: &str) -> Option<DirectSetup> {
        let direct = self.all.get(name)?;
        Some(DirectSetup { access: direct.access.clone(), ..direct.setup.clone() })
    }

    /// Whether a router's process, if it runs, uses no more memory than it may have once it is started anew.
    ///
    /// # Errors
    /// It uses more, and may have less than before.
    pub(crate) fn fits(&self, new: &DirectSetup) -> Result<(), String> {
        let Some((most, direct)) = new.allowance.memory_bytes.zip(self.all.get(new.name())) else {
            return Ok(());
        };
        let used = direct.process.as_ref().and_then(|process| memory_bytes(process.id)).unwrap_or_default();
        let falls = direct.setup.allowance.memory_bytes.is_none_or(|before| most < before);
        match falls && used > most {
            true => Err(format!("router {}: {}", new.name(), accounts::Exceeded { used, most })),
            false => Ok(()),
        }
    }

    /// Gives a router other access over TCP, if it differs; with an error it has what it had.
    pub(crate) fn set_access(&mut self, name: &str, access: Option<TcpAccess>) -> Result<(), String> {
        let Some(direct) = self.all.get_mut(name).filter(|direct| direct.access != access) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut direct.access, access);
        if !matches!(direct.state, State::Running) {
            return Ok(());
        }
        // The new address may be the old one.
        if direct.listening.is_some() {
            direct.say(&Word::Access(None));
            direct.listening = None;
        }
        let opened = direct.open_access();
        if opened.is_err() {
            direct.access = before;
            // Whoever has taken the address meanwhile keeps it.
            direct.open_access().unwrap_or_default();
        }
        opened
    }

    /// Whether a process has not said its state yet.
    pub(crate) fn asked(&self) -> bool {
        self.all.values().any(|direct| direct.asked.is_some())
    }

    /// Whether a router that is there differs from `setup` in its program at most; `None`: it is not there.
    pub(crate) fn only_program_differs(&self, setup: &DirectSetup) -> Option<bool> {
        Some(self.all.get(setup.name())?.setup.fixed == setup.fixed)
    }

    /// Gives a router another program. Returns whether it differs.
    pub(crate) fn change_program(&mut self, file: &HostFile, setup: DirectSetup) -> bool {
        let Some(direct) = self.all.get_mut(setup.name()) else { return false };
        let differs = direct.setup.order.program.1 != setup.order.program.1;
        match direct.state {
            // The process may refuse it, and then goes on with the one that it has.
            State::Running | State::Starting if differs => {
                (direct.program_asked, direct.outcome) = (true, None);
                direct.wanted = Some((setup, file.clone()));
                if matches!(direct.state, State::Running) {
                    direct.ask_for_program();
                }
            }
            _ => {
                (direct.program_asked, direct.wanted) = (false, None);
                (direct.setup, direct.file) = (setup, file.clone());
            }
        }
        differs
    }

    /// What became of a change of its program.
    pub(crate) fn outcome(&mut self, name: &str) -> Option<Result<bool, String>> {
        self.all.get_mut(name)?.outcome.take()
    }

    /// Ends routers and waits until their processes have ended. Returns those that were there.
    pub(crate) fn remove(&mut self, names: &[String]) -> Vec<String> {
        // What is just being started has to be known to be ended.
        let began = Instant::now();
        let unknown = |direct: &Direct| direct.process.is_none() && direct.keeper.is_some();
        while names.iter().any(|name| self.all.get(name).is_some_and(unknown)) && began.elapsed() < KILLED {
            self.turn();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut ending: Vec<(String, Direct)> = Vec::new();
        for name in names {
            if let Some(mut direct) = self.all.remove(name) {
                direct.say(&Word::End);
                ending.push((name.clone(), direct));
            }
        }
        let began = Instant::now();
        for (name, direct) in &mut ending {
            let Some(keeper) = direct.keeper.take() else { continue };
            while !keeper.is_finished() && began.elapsed() < ENDING + KILLED {
                if began.elapsed() > ENDING {
                    direct.kill_now();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if keeper.is_finished() {
                let _ = keeper.join();
            } else {
                warn!(target: "vr", "router '{name}': its process does not end");
            }
            if let Some(groups) = &self.groups {
                groups.remove(name);
            }
            direct.setup.sockets.iter().for_each(|path| remove_socket(path));
        }
        self.settle();
        ending.into_iter().map(|(name, _)| name).collect()
    }

    /// The routers for `valiant vr status`.
    pub(crate) fn status(&self) -> Vec<Value> {
        self.all.values().map(Direct::value).collect()
    }

    /// Their ports.
    pub(crate) fn ports(&self) -> Vec<Value> {
        let ports = self.all.values().filter_map(|direct| direct.status["ports"].as_array().cloned());
        ports.flatten().collect()
    }
}

impl Drop for Directs {
    fn drop(&mut self) {
        let names = self.names();
        self.remove(&names);
    }
}

impl Direct {
    fn hear(&mut self, answer: Answer, now: Instant) {
        let name = self.setup.name().to_owned();
        match answer {
            Answer::Ready(kept) => {
                if let Err(e) = self.open_access() {
                    self.told = Some(e);
                    return self.kill_now();
                }
                give_to_owner(&self.file, &self.setup.router);
                let id = self.process.as_ref().map_or(0, |process| process.id);
                let took = now.duration_since(self.since).as_millis();
                let again = if self.has_run { "again " } else { "" };
                info!(target: "vr", "router '{name}' runs {again}in process {id}: {kept} ({took} ms)");
                (self.state, self.has_run, self.status_at) = (State::Running, true, now);
                self.since = now;
                self.ask_for_program();
                self.ask_status();
            }
            Answer::Status(status) => (self.status, self.status_at, self.asked) = (status, now, None),
            Answer::Program(outcome) => {
                self.program_asked = false;
                if let Some((setup, file)) = self.wanted.take().filter(|_| outcome.is_ok()) {
                    (self.setup, self.file) = (setup, file);
                }
                self.outcome = Some(outcome);
            }
            Answer::Ended => self.state = State::Ended,
            Answer::Failed(reason) => self.told = Some(reason),
        }
    }

    /// Gives the process the socket at which its router's owner reaches it over TCP.
    fn open_access(&mut self) -> Result<(), String> {
        let (Some(access), Some(process)) = (&self.access, &self.process) else { return Ok(()) };
        let listener = access.listen()?;
        let word = Word::Access(Some(access.token.word().to_owned()));
        let line = serde_json::to_string(&word).unwrap_or_default() + "\n";
        let given = listener.try_clone().map(OwnedFd::from);
        let given =
            given.and_then(|socket| descriptor::send(&process.socket, line.as_bytes(), Some(&socket)));
        given.map_err(|e| format!("its process takes no socket: {}", launch::reason(&e)))?;
        self.listening = Some(Listening(listener));
        Ok(())
    }

    fn ask_for_program(&mut self) {
        if let Some((setup, _)) = &self.wanted {
            let (name, text) = setup.order.program.clone();
            self.say(&Word::Program(name, text));
        }
    }

    fn ask_status(&mut self) {
        self.asked.get_or_insert_with(Instant::now);
        self.say(&Word::Status);
    }

    fn say(&mut self, word: &Word) {
        let Some(process) = &self.process else { return };
        let line = serde_json::to_string(word).unwrap_or_default();
        let kind = writeln!(&process.socket, "{line}").err().map(|e| e.kind());
        if matches!(kind, Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)) {
            self.kill("it does not listen");
        }
    }

    fn kill_now(&self) {
        if let Some(process) = &self.process {
            // It may just have ended.
            let _ = process.process.lock().ignore_poison().kill();
        }
    }

    fn kill(&mut self, why: &str) {
        self.told.get_or_insert_with(|| format!("{why}, and was killed"));
        self.kill_now();
    }

    fn value(&self) -> Value {
        let file = &self.file;
        let id = self.process.as_ref().map(|process| process.id);
        let mut interfaces: Vec<Value> = match self.status["interfaces"].as_array() {
            Some(known) => known.clone(),
            None => (self.setup.router.interfaces.iter())
                .map(|i| {
                    json!({"name": i.name, "received": 0, "received_bytes": 0, "sent": 0, "sent_bytes": 0,
                    "lost_queue_full": 0, "not_sent": 0, "waiting": 0})
                })
                .collect(),
        };
        for (interface, (to_it, from_it)) in interfaces.iter_mut().zip(self.passages.lost()) {
            for (key, lost) in [("lost_queue_full", to_it), ("not_sent", from_it)] {
                interface[key] = (interface[key].as_u64().unwrap_or_default() + lost).into();
            }
        }
        json!({
            "name": self.setup.name(),
            "running": matches!(self.state, State::Running),
            "ended": matches!(self.state, State::Ended),
            "failures": self.failures,
            "scheme": self.setup.router.scheme.to_string(),
            "share": self.setup.router.share,
            "cycles": self.cycles + self.status["cycles"].as_u64().unwrap_or(0),
            "process": id,
            "processor_seconds": id.and_then(processor_seconds),
            "memory_bytes": id.and_then(memory_bytes),
            "drops": self.status["drops"],
            "used": self.status["used"],
            "socket": file.socket(&self.setup.router),
            "tcp": self.listening.as_ref().and(self.access.as_ref()).map(|access| access.listen.to_string()),
            "interfaces": interfaces,
        })
    }
}

/// The memory that a process has in use, without hugepages.
pub(crate) fn memory_bytes(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kb = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(kb.trim().parse::<u64>().ok()? * 1024)
}

/// The processor time of a process.
fn processor_seconds(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have any characters, utime and stime are the 12th and 13th
    // (proc_pid_stat(5)).
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    // The unit is 1/100 of a second wherever Linux shows it to programs.
    Some(ticks / 100.0)
}

/// Starts the process of a router, passes on what it says, and collects it when it has ended.
fn keep(order: &str, log: &[String], groups: &[PathBuf], passages: &Passages, tell: &dyn Fn(Event)) {
    passages.clean();
    let mut failed = isolate();
    let started = spawn(order, log, groups, &mut failed);
    let (ours, process) = match started {
        Ok(started) => started,
        Err(e) => return tell(Event::Gone(format!("its process does not start: {}", launch::reason(&e)))),
    };
    let (id, process) = (process.id(), Arc::new(Mutex::new(process)));
    match ours.try_clone() {
        Ok(socket) => tell(Event::Started(socket, Arc::clone(&process), id, failed)),
        Err(_) => drop(process.lock().ignore_poison().kill()),
    }
    let mut lines = BufReader::new(ours);
    let mut line = String::new();
    loop {
        line.clear();
        match (&mut lines).take(LONGEST).read_line(&mut line) {
            Ok(1..) => {}
            _ => break,
        }
        match serde_json::from_str(&line) {
            Ok(answer @ Answer::Ready(_)) => match passages.connect() {
                Ok(()) => tell(Event::Said(answer)),
                Err(e) => {
                    tell(Event::Said(Answer::Failed(e)));
                    drop(process.lock().ignore_poison().kill());
                }
            },
            Ok(answer) => tell(Event::Said(answer)),
            // Whatever runs there is not what was started.
            Err(_) => drop(process.lock().ignore_poison().kill()),
        }
    }
    passages.disconnect();
    // It closes the socket when it ends.
    let began = Instant::now();
    loop {
        let mut process = process.lock().ignore_poison();
        match process.try_wait() {
            Ok(Some(status)) => return tell(Event::Gone(how(status))),
            Ok(None) if began.elapsed() > SILENCE => drop(process.kill()),
            Ok(None) => {}
            Err(e) => return tell(Event::Gone(launch::reason(&e))),
        }
        drop(process);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn spawn(
    order: &str,
    log: &[String],
    groups: &[PathBuf],
    failed: &mut Vec<String>,
) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_write_timeout(Some(SILENCE))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("valiant").arg("vr").args(log).arg("run-router").stdin(Stdio::from(OwnedFd::from(theirs)));
    // A signal from the terminal is for the host.
    let mut process = command.process_group(0).spawn()?;
    // The process holds the only other end.
    drop(command);
    // It waits for the order, so that nothing that it does is outside of its groups.
    let entered = cgroup::enter(groups, process.id());
    failed.extend(entered.err().map(|e| format!("not in its control groups: {}", launch::reason(&e))));
    if let Err(e) = writeln!(&ours, "{order}") {
        let _ = process.kill();
        let _ = process.wait();
        return Err(e);
    }
    // From here on a process that does not read does not hold up the host.
    ours.set_write_timeout(Some(ENDING))?;
    Ok((ours, process))
}

/// How a process has ended, in words.
fn how(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process has ended with status {code}"),
        (_, Some(signal)) => {
            let name =
                nix::sys::signal::Signal::try_from(signal).map_or("", nix::sys::signal::Signal::as_str);
            format!("its process was ended by signal {signal} {name}").trim_end().to_owned()
        }
        _ => "its process has ended".to_owned(),
    }
}
