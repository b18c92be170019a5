//! `valiant vr run`: the host in the foreground.

use crate::args::RunHost;
use crate::cleaner::remove_socket;
use crate::control::Controls;
use crate::direct::{ANSWERING, ChildOptions, DirectSetup, Directs, memory_bytes};
use crate::division::{self, Divisions, common_ports};
use crate::file::{HostFile, Scheme, Tag, VirtualInterface, VirtualRouter};
use crate::hybrid::{Passages, check_filter, relay_setup};
use crate::machine::lacking;
use crate::program::{check_program, source};
use crate::setup::{drops_value, give_to_owner, idle_limits, interfaces_value, ports_value, router_setup};
use crate::socket::{Request, Server, ask};
use crate::token::access;
use lang::Diagnostics;
use launch::logging::LogArgs;
use launch::progress::waiting;
use launch::{Failure, Launch, StopSignals};
use runtime::Registry;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use vrhost::{Host, RouterSetup, TcpAccess};

/// The file of the host's own control socket, beside those of the routers.
pub(crate) fn socket_in(directory: &Path) -> PathBuf {
    directory.join("host.control")
}

fn host_socket(host: &HostFile) -> PathBuf {
    socket_in(&host.directory)
}

/// The most files that a host has open, if the system allows as many.
const FILES: u64 = 65_536;

/// Clients of all routers hold open files of one process. With the usual soft limit, 1,024, those of a few
/// routers could take all, and nobody would reach the others or the host.
fn allow_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < FILES.min(hard)
    {
        // Without, there are as many as before.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, FILES.min(hard), hard);
    }
}

/// Runs a host until it is interrupted.
pub(crate) fn run(registry: &Arc<Registry>, args: &RunHost, log: &LogArgs) -> Result<ExitCode, Failure> {
    let file = read(&args.file)?;
    launch::report(&file.warnings);
    let lacks = lacking(&file);
    launch::report(&lacks);
    allow_files();
    let cores = file.processors();
    let launch = Launch {
        workers: cores.len(),
        memory_mb: args.memory,
        hugepages: !args.no_huge,
        eal: args.eal.clone(),
        ..Launch::default()
    };
    let options = launch.options(&cores);
    let (eal, enter) = (options.eal.clone(), options.enter);
    for router in &file.routers {
        good_division(&file, router)?;
        let idle = idle_limits(router);
        if !idle.is_empty() {
            tracing::warn!(target: "vr", "router {}: limits without effect so far: {}", router.name, idle.join(", "));
        }
    }
    if ask(&host_socket(&file), &Request::Status).is_ok() {
        return Err(format!(
            "{} is running already: `valiant vr status {}` shows it",
            file.name,
            args.file.display()
        )
        .into());
    }
    dpdk::claim_interfaces(&format!("the virtual routers' host {}", file.name));
    let stop = StopSignals::watch();
    // The processes of those routers that have one open their ports themselves.
    let divisions = Divisions::start(&file)?;
    let ports = common_ports(&file);
    let host = waiting(false, "opening the ports", || Host::start(&ports, options, &eal, enter, file.fair()));
    let mut host = host.map_err(|errors| errors.join("\n"))?;
    launch::describe_ports();
    let (_server, asked) = Server::start(&host_socket(&file), host.ringer())?;
    let child = ChildOptions {
        memory_mb: args.memory,
        hugepages: !args.no_huge,
        eal: args.eal.clone(),
        log: log.words(),
    };
    let mut serving = Serving {
        registry: Arc::clone(registry),
        path: args.file.clone(),
        direct: Directs::new(&file.name, child, host.ringer()),
        controls: Controls::default(),
        divisions,
        waiting: Vec::new(),
        lost: BTreeMap::new(),
        workers: cores.len(),
        file,
        down: false,
    };
    let mut failed = 0;
    for router in serving.file.routers.clone() {
        let setup = serving.setup(&serving.file, &router);
        // The others run without it.
        if let Err(e) = setup.and_then(|setup| serving.add(&mut host, &router, setup)) {
            failed += 1;
            e.report();
        }
    }
    let names: Vec<String> = serving.direct.names();
    while names.iter().any(|name| serving.direct.busy(name)) && !stop.wanted() {
        serving.turn(&mut host);
        host.turn();
        std::thread::sleep(Duration::from_millis(1));
    }
    failed += names.len() - serving.direct.names().len();
    tracing::info!(
        target: "vr",
        "{} of {} virtual routers run; `valiant vr status {}` shows them",
        serving.file.routers.len() - failed, serving.file.routers.len(), args.file.display()
    );
    launch::service::ready();
    let down = std::cell::Cell::new(false);
    host.drive(
        || stop.wanted() || down.get(),
        |host| {
            while let Ok((request, reply)) = asked.try_recv() {
                serving.serve(host, &request, reply);
            }
            serving.turn(host);
            down.set(serving.down);
        },
    );
    launch::service::stopping();
    let names = serving.direct.names();
    serving.direct.remove(&names);
    // Before the namespaces of their control planes.
    drop(host);
    for router in &serving.file.routers {
        // A router's socket is removed by itself if it ran to its end.
        remove_socket(&serving.file.socket(router));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a host file.
pub(crate) fn read(path: &Path) -> Result<HostFile, Failure> {
    good(HostFile::read(path))
}

/// Refuses what of a router cannot be divided.
fn good_division(file: &HostFile, router: &VirtualRouter) -> Result<(), Failure> {
    let wrong = division::check(file, router);
    if wrong.has_errors() { Err(wrong.into()) } else { Ok(()) }
}

fn good(read: (Option<HostFile>, Diagnostics)) -> Result<HostFile, Failure> {
    match read {
        (Some(file), diags) if !diags.has_errors() => Ok(file),
        (_, diags) => Err(diags.into()),
    }
}

/// The longest packet of an interface.
fn mtu(host: &Host, file: &HostFile, interface: &VirtualInterface) -> u32 {
    let port = interface.port.and_then(|port| file.ports.get(port));
    let open = port.and_then(|port| host.ports().find(|(name, _)| *name == port.name));
    let around = if let Tag::Vni(_) = interface.tag { vrhost::AROUND_TUNNELED } else { 0 };
    open.map_or(vrhost::LINK_MTU, |(_, port)| port.mtu().saturating_sub(around))
}

/// A running host's file, and what is done with it.
struct Serving {
    registry: Arc<Registry>,
    path: PathBuf,
    file: HostFile,
    direct: Directs,
    /// Dropped when no router runs any more.
    controls: Controls,
    divisions: Divisions,
    /// Answers that wait for processes.
    waiting: Vec<Waiting>,
    /// Why routers in processes of their own have failed at their first start.
    lost: BTreeMap<String, String>,
    /// How many threads run the routers of the common process.
    workers: usize,
    down: bool,
}

/// An answer that waits for processes.
struct Waiting {
    reply: SyncSender<Value>,
    for_what: For,
}

enum For {
    /// These routers are to run, or to have another program; then this is the answer.
    Routers(BTreeSet<String>, Value),
    /// All processes are to say their state, until then at most.
    Status(Instant),
}

/// A router of any scheme, ready to be run.
enum Setup {
    /// All of it, or of a virtual machine what passes its packets, is in the common process.
    Shared(Box<RouterSetup>),
    Direct(Box<DirectSetup>),
    /// The part in the common process, and the process of its own.
    Hybrid(Box<RouterSetup>, Box<DirectSetup>),
}

impl Setup {
    /// How the router's owner reaches it over TCP.
    fn access(&self) -> Option<&TcpAccess> {
        match self {
            Self::Shared(setup) => setup.access.as_ref(),
            Self::Direct(own) | Self::Hybrid(_, own) => own.access.as_ref(),
        }
    }
}

/// Routers and what runs for them.
type Changes = Vec<(VirtualRouter, Setup)>;

impl Serving {
    fn serve(&mut self, host: &mut Host, request: &Request, reply: SyncSender<Value>) {
        let mut awaited = BTreeSet::new();
        let done = match request {
            Request::Status => {
                self.direct.ask_status();
                let until = Instant::now() + ANSWERING;
                self.waiting.push(Waiting { reply, for_what: For::Status(until) });
                return;
            }
            Request::Apply => self.apply(host, &mut awaited),
            Request::Add(name) => self.add_by_name(host, name, &mut awaited),
            Request::Remove(name) => {
                let (shared, own) = (host.remove(name), self.direct.remove(std::slice::from_ref(name)));
                if shared || !own.is_empty() {
                    self.controls.release(name);
                    self.beside(host);
                    Ok(json!({"ok": true, "removed": [name]}))
                } else {
                    Err(format!("no virtual router '{name}' runs here").into())
                }
            }
            Request::Down => {
                self.down = true;
                Ok(json!({"ok": true}))
            }
        };
        let value = done.unwrap_or_else(|e| json!({"ok": false, "error": e.text()}));
        self.waiting.push(Waiting { reply, for_what: For::Routers(awaited, value) });
    }

    /// What processes have done meanwhile, and the answers that have waited for it.
    fn turn(&mut self, host: &mut Host) {
        for (name, reason) in self.direct.turn() {
            let reason = format!("router {name}: {reason}");
            Failure::from(reason.clone()).report();
            // Its part in the common process.
            host.remove(&name);
            self.lost.insert(name, reason);
        }
        let waiting = std::mem::take(&mut self.waiting);
        for one in waiting {
            let value = match &one.for_what {
                For::Routers(names, _) if names.iter().any(|name| self.direct.busy(name)) => None,
                For::Routers(names, value) => {
                    let mut wrong: Vec<String> =
                        names.iter().filter_map(|name| self.lost.get(name).cloned()).collect();
                    for name in names {
                        if let Some(Err(reason)) = self.direct.outcome(name) {
                            wrong.push(format!("router {name}: {reason}"));
                        }
                    }
                    Some(if wrong.is_empty() {
                        value.clone()
                    } else {
                        json!({"ok": false, "error": wrong.join("\n")})
                    })
                }
                For::Status(until) if self.direct.asked() && *until > Instant::now() => None,
                For::Status(_) => Some(self.status(host)),
            };
            match value {
                // Whoever asked may have gone.
                Some(value) => drop(one.reply.send(value)),
                None => self.waiting.push(one),
            }
        }
        let waits = |name: &String| {
            self.waiting
                .iter()
                .any(|one| matches!(&one.for_what, For::Routers(names, _) if names.contains(name)))
        };
        self.lost.retain(|name, _| waits(name));
    }

    /// Everything that is needed to run a router; its program is checked.
    fn setup(&self, file: &HostFile, router: &VirtualRouter) -> Result<Setup, Failure> {
        good_division(file, router)?;
        let access = access(file, router)?;
        let filter = || {
            let mut wrong = check_filter(&self.registry, file, router);
            wrong.set_sources(file.sources.clone());
            if wrong.has_errors() { Err(wrong) } else { Ok(()) }
        };
        let relay = || Box::new(relay_setup(&self.registry, file, router));
        let Some(program) = &router.program else {
            filter()?;
            return Ok(Setup::Shared(relay()));
        };
        let program = source(program).map_err(|e| format!("router {}: {e}", router.name))?;
        let shared = router.scheme == Scheme::Shared;
        let workers = if shared { self.workers } else { file.processors_of(router).len() };
        check_program(&self.registry, router, program.clone(), workers, file.fair())?;
        filter()?;
        let own =
            || Box::new(DirectSetup::new(file, router, &program, access.clone(), self.direct.options()));
        Ok(match router.scheme {
            Scheme::Shared => {
                let setup = router_setup(&self.registry, file, router, program.clone());
                Setup::Shared(Box::new(RouterSetup { access, ..setup }))
            }
            Scheme::Direct => Setup::Direct(own()),
            Scheme::Hybrid => Setup::Hybrid(relay(), own()),
        })
    }

    /// Starts a router that is not there. Whether a process of its own can run it is seen later.
    fn add(&mut self, host: &mut Host, router: &VirtualRouter, setup: Setup) -> Result<(), Failure> {
        if !matches!(setup, Setup::Direct(_)) {
            self.open_ports(host, router)?;
        }
        let started = self.provide(host, router).and_then(|()| self.start(host, router, setup));
        if started.is_err() {
            self.controls.release(&router.name);
        }
        self.beside(host);
        started
    }

    /// Provides a router's control plane.
    fn provide(&mut self, host: &Host, router: &VirtualRouter) -> Result<(), Failure> {
        Ok(self.controls.provide(router, |interface| mtu(host, &self.file, interface))?)
    }

    /// Starts a router for which everything else is there.
    fn start(&mut self, host: &mut Host, router: &VirtualRouter, setup: Setup) -> Result<(), Failure> {
        match setup {
            Setup::Shared(setup) => {
                host.add(*setup)?;
                if router.program.is_some() {
                    give_to_owner(&self.file, router);
                }
            }
            Setup::Hybrid(relay, own) => {
                let rings = self.file.processors_of(router).len();
                let passages = Passages::new(&self.file, router, host.threads(), rings);
                let passages = passages.map_err(|e| e.to_string())?;
                host.add(*relay)?;
                self.direct.add(&self.file, *own, passages);
            }
            Setup::Direct(setup) => {
                for port in setup.ports.iter().copied() {
                    if let Some(other) = self.direct.user_of(port) {
                        let port = &self.file.ports[port].name;
                        return Err(format!("the running router {other} has the port {port} alone").into());
                    }
                    // The process opens it.
                    host.set_open(port, false)?;
                }
                self.divisions.add(&self.file, router)?;
                self.direct.add(&self.file, *setup, Passages::default());
            }
        }
        Ok(())
    }

    /// Opens the ports of a router that the common process receives for.
    fn open_ports(&self, host: &mut Host, router: &VirtualRouter) -> Result<(), Failure> {
        for port in router.interfaces.iter().filter_map(|interface| interface.port) {
            if let Some(other) = self.direct.user_of(port) {
                let port = &self.file.ports[port].name;
                return Err(format!("the running router {other} has the port {port} alone").into());
            }
            host.set_open(port, true)?;
        }
        Ok(())
    }

    /// Tells what there is in the common process.
    fn beside(&mut self, host: &Host) {
        let own = self.direct.names();
        self.divisions.keep(&own);
        let shares = host.routers().map(|router| router.share).sum();
        let of = |name: &str| self.file.directory.join(format!("{name}.sock"));
        let sockets = || {
            let of_routers = host.routers().map(|router| of(&router.name));
            of_routers.chain([host_socket(&self.file)]).collect()
        };
        self.direct.beside(shares, sockets, self.divisions.interfaces());
    }

    fn add_by_name(
        &mut self,
        host: &mut Host,
        name: &str,
        awaited: &mut BTreeSet<String>,
    ) -> Result<Value, Failure> {
        let file = good(self.file.read_again(&self.path))?;
        let Some(router) = file.routers.iter().find(|router| router.name == name).cloned() else {
            return Err(format!("{} has no router '{name}'", self.path.display()).into());
        };
        self.same_ports(&file)?;
        if self.running(host).iter().any(|running| running == name) {
            return Err(format!("there is a virtual router '{name}' already").into());
        }
        let setup = self.setup(&file, &router)?;
        self.file = file;
        self.add(host, &router, setup)?;
        awaited.insert(name.to_owned());
        Ok(json!({"ok": true, "added": [name]}))
    }

    /// The names of all routers that are there.
    fn running(&self, host: &Host) -> Vec<String> {
        let shared = host.routers().map(|router| router.name.clone());
        // One with the scheme hybrid is in both.
        shared.chain(self.direct.names()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Ports and processors stay what they were at the start.
    fn same_ports(&self, new: &HostFile) -> Result<(), Failure> {
        let of = |file: &HostFile| {
            let ports = file.ports.iter();
            let ports = ports.map(|port| {
                let tunnel = port.tunnel.map(|tunnel| tunnel.addresses());
                (port.name.clone(), port.device.clone(), port.sharing, port.queues, tunnel)
            });
            (ports.collect::<Vec<_>>(), file.directory.clone())
        };
        let same_cores = self.file.cores == new.cores || self.file.processors() == new.processors();
        if same_cores && of(&self.file) == of(new) {
            return Ok(());
        }
        Err("the ports, their tunnels, how they are shared, the cores or the directory have changed: stop the host and start it again"
            .to_owned()
            .into())
    }

    /// Reads the host file again: routers that are new are added, those that are gone are removed, those
    /// whose program has changed are hot-swapped, those with other limits get them, and those with other
    /// changes, of their scheme too, are started anew. If anything in the file or in a program is wrong,
    /// nothing is done.
    fn apply(&mut self, host: &mut Host, awaited: &mut BTreeSet<String>) -> Result<Value, Failure> {
        let new = good(self.file.read_again(&self.path))?;
        self.same_ports(&new)?;
        let mut setups = Vec::new();
        for router in &new.routers {
            setups.push((router.clone(), self.setup(&new, router)?));
        }
        let running = self.running(host);
        let (mut added, mut removed, mut restarted) = (vec![], vec![], vec![]);
        let mut ending: Vec<String> = Vec::new();
        for name in running.iter().filter(|name| !new.routers.iter().any(|router| router.name == **name)) {
            ending.push(name.clone());
            removed.push(name.clone());
        }
        let mut starting = Vec::new();
        let mut changing = Vec::new();
        let mut limited = Vec::new();
        let mut access = Vec::new();
        for (router, setup) in setups {
            let goes_on = match &setup {
                // Of one that was in a process of its own, there is more than a program.
                Setup::Shared(_) if self.direct.setup(&router.name).is_some() => Some(false),
                Setup::Shared(setup) => host.can_become(setup),
                Setup::Direct(setup) => self.direct.only_program_differs(setup),
                Setup::Hybrid(relay, own) => {
                    let both = host.can_become(relay).zip(self.direct.only_program_differs(own));
                    both.map(|(relay, own)| relay && own)
                }
            };
            if !running.contains(&router.name) {
                added.push(router.name.clone());
                starting.push((router, setup));
            } else if goes_on == Some(true) {
                if let Setup::Shared(setup) | Setup::Hybrid(setup, _) = &setup
                    && host.setup(&router.name).is_some_and(|known| !known.has_limits_of(setup))
                {
                    limited.push(router.name.clone());
                }
                if self.access(host, &router.name).as_ref() != setup.access() {
                    access.push(router.name.clone());
                }
                changing.push((router, setup));
            } else {
                if let Setup::Direct(own) | Setup::Hybrid(_, own) = &setup {
                    self.direct.fits(own)?;
                }
                ending.push(router.name.clone());
                restarted.push(router.name.clone());
                starting.push((router, setup));
            }
        }
        let begun: Vec<String> = starting.iter().map(|(router, _)| router.name.clone()).collect();
        let before = self.as_it_is(host, &ending, &changing);
        let owner = |file: &HostFile, name: &str| {
            file.routers.iter().find(|router| router.name == name).map(|router| router.owner.clone())
        };
        let mut other_owner = running.clone();
        other_owner.retain(|name| owner(&self.file, name) != owner(&new, name));
        let old = std::mem::replace(&mut self.file, new);
        // First all ports and addresses become free that others are to have.
        self.end(host, &ending);
        for name in &access {
            host.end_access(name);
            self.direct.set_access(name, None).unwrap_or_default();
        }
        let swapped = match self.change(host, changing, starting) {
            Ok(swapped) => swapped,
            Err(e) => {
                self.file = old;
                self.end(host, &begun);
                let (changed, ended) = before;
                let told = match self.change(host, changed, ended) {
                    Ok(_) => "nothing has changed".to_owned(),
                    Err(also) => format!("not all is as it was: {}", also.text()),
                };
                self.settle(host);
                return Err(format!("{}\n{told}", e.text()).into());
            }
        };
        // Whoever has a connection had the right to it before.
        other_owner.iter().for_each(|name| host.end_sessions(name));
        awaited.extend(swapped.iter().chain(&begun).cloned());
        self.settle(host);
        Ok(
            json!({"ok": true, "added": added, "removed": removed, "swapped": swapped, "limited": limited, "access": access, "restarted": restarted}),
        )
    }

    /// How the owner of a router that is there reaches it over TCP.
    fn access(&self, host: &Host, name: &str) -> Option<TcpAccess> {
        match self.direct.setup(name) {
            Some(own) => own.access,
            None => host.setup(name)?.access.clone(),
        }
    }

    /// What is beside the routers follows those that run.
    fn settle(&mut self, host: &Host) {
        let running = self.running(host);
        self.controls.keep(&running);
        self.beside(host);
    }

    /// What has to be given to [`Serving::change`] so that routers are again what they are now: those that go
    /// on, and those that end.
    fn as_it_is(
        &self,
        host: &Host,
        ending: &[String],
        changing: &[(VirtualRouter, Setup)],
    ) -> (Changes, Changes) {
        let one = |name: &str| {
            let router = self.file.routers.iter().find(|router| router.name == name)?;
            let common = || host.setup(name).cloned().map(Box::new);
            let own = || self.direct.setup(name).map(Box::new);
            let setup = match router.scheme {
                Scheme::Shared => Setup::Shared(common()?),
                Scheme::Direct => Setup::Direct(own()?),
                Scheme::Hybrid if router.program.is_none() => Setup::Shared(common()?),
                Scheme::Hybrid => Setup::Hybrid(common()?, own()?),
            };
            Some((router.clone(), setup))
        };
        let changed = changing.iter().filter_map(|(router, _)| one(&router.name)).collect();
        (changed, ending.iter().filter_map(|name| one(name)).collect())
    }

    /// Ends those of these routers that run.
    fn end(&mut self, host: &mut Host, names: &[String]) {
        for name in names {
            host.remove(name);
        }
        self.direct.remove(names);
        let own = self.direct.names();
        self.divisions.keep(&own);
    }

    /// Gives running routers other programs, and starts others. Returns those whose program differs from what
    /// it was.
    fn change(
        &mut self,
        host: &mut Host,
        changing: Changes,
        starting: Changes,
    ) -> Result<Vec<String>, Failure> {
        let mut swapped = Vec::new();
        for (router, setup) in changing {
            self.provide(host, &router)?;
            let differs = match setup {
                Setup::Shared(setup) => host.change(*setup)?,
                Setup::Direct(setup) => {
                    self.direct.set_access(&router.name, setup.access.clone())?;
                    self.direct.change_program(&self.file, *setup)
                }
                Setup::Hybrid(relay, own) => {
                    self.direct.set_access(&router.name, own.access.clone())?;
                    let filter = host.change(*relay)?;
                    self.direct.change_program(&self.file, *own) || filter
                }
            };
            if differs {
                swapped.push(router.name.clone());
            }
            if router.program.is_some() {
                give_to_owner(&self.file, &router);
            }
        }
        for (router, setup) in starting {
            let named = |e: Failure| Failure::from(format!("router {}: {}", router.name, e.text()));
            self.add(host, &router, setup).map_err(named)?;
        }
        Ok(swapped)
    }

    fn status(&self, host: &Host) -> Value {
        let own = self.direct.names();
        let (relays, shared): (Vec<_>, Vec<_>) =
            host.status().into_iter().partition(|router| own.contains(&router.name));
        let shared = shared.into_iter().map(|router| {
            let known = self.file.routers.iter().find(|known| known.name == router.name);
            json!({
                "name": router.name,
                "running": router.running,
                "ended": !router.running && router.failures == 0,
                "failures": router.failures,
                "failure": router.failure,
                "scheme": known.map(|known| known.scheme.to_string()),
                "machine": known.is_some_and(|known| known.program.is_none()),
                "share": router.share,
                "cycles": router.cycles,
                "memory_bytes": router.memory_bytes,
                "process": std::process::id(),
                "tcp": host.setup(&router.name).and_then(|setup| setup.access.as_ref()).map(|access| access.listen.to_string()),
                "socket": known.filter(|known| known.program.is_some()).map(|known| self.file.socket(known)),
                "drops": drops_value(host, &router.name),
                "used": router.used.into_iter().collect::<BTreeMap<_, _>>(),
                "refused": router.refused.into_iter().collect::<BTreeMap<_, _>>(),
                "stalls": router.stall.times,
                "stalled_in": router.stall.element,
                "longest_stall_ms": router.stall.longest.as_millis() as u64,
                "interfaces": interfaces_value(&router.interfaces),
            })
        });
        let mut routers: Vec<Value> = shared.chain(self.direct.status()).collect();
        for relay in relays {
            // What the common process does for it, and loses for it.
            let Some(router) = routers.iter_mut().find(|router| router["name"] == relay.name) else {
                continue;
            };
            router["passing_cycles"] = relay.cycles.into();
            let interfaces = router["interfaces"].as_array_mut().into_iter().flatten();
            for (interface, there) in interfaces.zip(&relay.interfaces) {
                let mut add = |key: &str, n: u64| {
                    interface[key] = (interface[key].as_u64().unwrap_or_default() + n).into();
                };
                add("lost_queue_full", there.stats.rx_missed);
                add("waiting", there.waiting as u64);
                add("not_sent", there.stats.tx_errors);
            }
        }
        for router in &mut routers {
            let Some(known) = self.file.routers.iter().find(|known| router["name"] == known.name.as_str())
            else {
                continue;
            };
            let interfaces = router["interfaces"].as_array_mut().into_iter().flatten();
            for (interface, known) in interfaces.zip(&known.interfaces) {
                interface["port"] = known.port.map(|port| self.file.ports[port].name.as_str()).into();
            }
        }
        routers.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        let mut ports = ports_value(host);
        ports.extend(self.direct.ports());
        let place =
            |port: &Value| self.file.ports.iter().position(|known| port["name"] == known.name.as_str());
        ports.sort_by_key(place);
        json!({
            "ok": true,
            "host": self.file.name,
            "process": std::process::id(),
            "cycles": dpdk::cycles(),
            "seconds": host.started().elapsed().as_secs_f64(),
            "threads": host.threads(),
            "idle_cycles": host.idle_cycles(),
            "fair": self.file.fair(),
            "memory_bytes": memory_bytes(std::process::id()),
            "ports": ports,
            "routers": routers,
        })
    }
}
