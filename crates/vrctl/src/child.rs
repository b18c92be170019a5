//! The process of one router (the schemes `direct` and `hybrid`): it opens the router's ports, gives up what
//! it does not need any more, and only then loads the program and looks at packets.
//!
//! Standard input is a socket to the host. Each message is a line of JSON: first an [`Order`], then [`Word`]s
//! from the host; to the host, [`Answer`]s.

use crate::confine::filter_system_calls;
use crate::division;
use crate::file::HostFile;
use crate::hybrid::{on_its_own, process_ports};
use crate::setup::{drops_value, interfaces_value, ports_value, router_setup};
use dpdk::rights::{self, Capability, User};
use dpdk::{PortSpec, descriptor};
use lang::Source;
use launch::{Failure, Launch};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use runtime::{Access, Inherited, Registry, Socket, Token};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use vrhost::{Host, PortSetup};

/// After so long without a round a worker is stuck.
const STUCK: Duration = Duration::from_secs(launch::WATCHDOG_SECONDS as u64);

/// What the process is to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The host file: its name, its text, and where its paths start.
    pub(crate) file: (String, String, PathBuf),
    pub(crate) router: String,
    /// The router's program: its name and its text.
    pub(crate) program: (String, String),
    /// The user that the process becomes.
    pub(crate) user: String,
    /// As on the command line of the host.
    pub(crate) memory_mb: Option<usize>,
    pub(crate) hugepages: bool,
    pub(crate) eal: Option<String>,
    /// With the scheme hybrid, the sockets on which it listens for its interfaces.
    #[serde(default)]
    pub(crate) memif: Vec<PathBuf>,
}

/// What the host says to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Word {
    Status,
    /// Another program: its name and its text.
    Program(String, String),
    /// Clients reach the router over TCP, at the socket that comes with it, if they know this token; none: no
    /// more.
    Access(Option<String>),
    End,
}

/// What the process answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It runs; what it has kept of its rights.
    Ready(String),
    /// Its state.
    Status(Value),
    /// Whether the program differs from the former one; or what is wrong with it.
    Program(Result<bool, String>),
    /// The program has ended by itself.
    Ended,
    /// Why it cannot run.
    Failed(String),
}

/// The process.
pub(crate) fn run(registry: &Arc<Registry>) -> Result<ExitCode, Failure> {
    let not_here = |_| Failure::from("this is a part of `valiant vr run`".to_owned());
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(not_here)?;
    let socket = UnixStream::from(input);
    socket.peer_addr().map_err(not_here)?;
    // What the program reads from standard input is not what the host says.
    let nothing = std::fs::File::open("/dev/null").map_err(not_here)?;
    nix::unistd::dup2_stdin(nothing).map_err(|e| e.desc().to_owned())?;
    // With the host, its routers end.
    set_pdeathsig(Signal::SIGKILL).map_err(|e| e.desc().to_owned())?;
    let done = serve(registry, &socket);
    if let Err(e) = &done {
        say(&socket, &Answer::Failed(e.text()));
        return Ok(ExitCode::FAILURE);
    }
    done
}

/// What the host says, and the descriptors that come with it.
struct Heard {
    socket: UnixStream,
    descriptors: VecDeque<OwnedFd>,
}

impl Read for Heard {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let (n, descriptor) = descriptor::receive(&self.socket, bytes)?;
        self.descriptors.extend(descriptor);
        Ok(n)
    }
}

/// The access that the host gives; none: the one that there is ends.
fn access(token: Option<&String>, socket: Option<OwnedFd>) -> Option<Access> {
    Some(Access { token: Token::new(token?).ok()?, listener: TcpListener::from(socket?) })
}

/// A control socket that root alone may use, until it is given to the router's owner.
fn listen(path: &Path) -> io::Result<UnixListener> {
    crate::cleaner::remove_socket(path);
    crate::socket::bind(path)
}

/// A socket that the process cannot open later.
fn open_socket(address: &Socket) -> io::Result<Inherited> {
    match address {
        Socket::Unix(path) => listen(path).map(Inherited::Unix),
        Socket::Tcp { port, all } => {
            let ip = if *all { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
            TcpListener::bind((ip, *port)).map(Inherited::Tcp)
        }
    }
}

/// Gives up, in all threads, what the process does not need once its ports are open. Returns what it has
/// kept.
fn confine(user: &str, hardware: bool) -> Result<String, String> {
    let user = User::find(user)?;
    // What drivers in this process use for every buffer. The settings of an interface are not among it: who
    // has them can take another interface.
    let keep: BTreeMap<Capability, String> = dpdk::capabilities_in_use()
        .into_iter()
        .filter(|(capability, _)| [Capability::IPC_LOCK, Capability::SYS_RAWIO].contains(capability))
        .collect();
    rights::give_up(Some(&user), &keep.keys().copied().collect::<Vec<_>>())?;
    filter_system_calls(hardware)?;
    // The change of the user has taken this back.
    set_pdeathsig(Signal::SIGKILL).map_err(|e| e.desc().to_owned())?;
    let keep: Vec<String> = keep.iter().map(|(capability, why)| format!("{capability} ({why})")).collect();
    let keep = if keep.is_empty() { "no capability".to_owned() } else { keep.join(", ") };
    Ok(format!("user {}, {keep}", user.name))
}

fn status(host: &Host, hybrid: bool) -> Value {
    let routers = host.status();
    let router = routers.first();
    json!({
        "cycles": router.map(|router| router.cycles),
        "interfaces": router.map(|router| interfaces_value(&router.interfaces)),
        "drops": router.map(|router| drops_value(host, &router.name)),
        "used": router.map(|router| router.used.iter().copied().collect::<BTreeMap<_, _>>()),
        "ports": if hybrid { Vec::new() } else { ports_value(host) },
    })
}

/// Watches the rounds of the workers.
#[derive(Default)]
struct Watch {
    /// The last round of each, and when it was seen first.
    seen: Vec<(u64, Option<Instant>)>,
}

impl Watch {
    /// A worker that has begun no round for too long.
    fn stuck(&mut self, rounds: &[u64], now: Instant) -> Option<usize> {
        self.seen.resize(rounds.len(), (0, None));
        self.seen.iter_mut().zip(rounds).position(|(seen, round)| {
            let since = seen.1.filter(|_| seen.0 == *round).unwrap_or(now);
            *seen = (*round, Some(since));
            now.duration_since(since) > STUCK
        })
    }
}

/// Whoever listens may have gone; then this process ends anyhow.
fn say(mut socket: &UnixStream, answer: &Answer) {
    let line = serde_json::to_string(answer).unwrap_or_default();
    let _ = writeln!(socket, "{line}");
}

fn serve(registry: &Arc<Registry>, socket: &UnixStream) -> Result<ExitCode, Failure> {
    let told = |e: io::Error| launch::reason(&e);
    let heard = Heard { socket: socket.try_clone().map_err(told)?, descriptors: VecDeque::new() };
    let mut lines = BufReader::new(heard);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(told)?;
    let order: Order = serde_json::from_str(&line).map_err(|e| e.to_string())?;
    let (name, text, dir) = &order.file;
    let file = HostFile::parse(name, text, dir)?;
    let Some(router) = file.routers.iter().find(|router| router.name == order.router) else {
        return Err(format!("there is no router '{}'", order.router).into());
    };
    let cores = file.processors_of(router);
    let launch = Launch {
        workers: cores.len(),
        memory_mb: order.memory_mb,
        hugepages: order.hugepages,
        eal: order.eal.clone(),
        ..Launch::default()
    };
    let options = launch.options(&cores);
    let (eal, enter) = (options.eal.clone(), options.enter);
    let hybrid = !order.memif.is_empty();
    let ports: Vec<PortSetup> = if hybrid {
        process_ports(router, &order.memif).map_err(|e| e.to_string())?
    } else {
        // All packets are the router's.
        let all = division::process_ports(&file, router, None).into_iter();
        all.map(|port| PortSetup { own_queues: 0, ..port }).collect()
    };
    dpdk::claim_interfaces(&format!("the virtual router {} of the host {}", router.name, file.name));
    // Root alone connects to what listens here.
    let before = umask(Mode::from_bits_truncate(0o077));
    let host = Host::start(&ports, options, &eal, enter, false);
    umask(before);
    let mut host = host.map_err(|errors| errors.join("\n"))?;
    launch::describe_ports();

    let path = file.socket(router);
    let hardware = ports.iter().any(|port| port.open && matches!(port.spec, PortSpec::Pci { .. }));
    let control = Socket::Unix(runtime::whole(&path));
    let own = std::iter::once(control.clone());
    for address in own.chain(router.allow.sockets.iter().cloned()) {
        let opened = open_socket(&address).map_err(|e| format!("{address}: {}", told(e)))?;
        runtime::bequeath(address, opened);
    }
    // Those of its control plane are below.
    for namespace in &router.allow.namespaces {
        crate::control::follow(namespace.as_deref())?;
    }
    crate::control::prepare(router)?;
    let (heard, words) = channel();
    let ring = host.ringer();
    let hear = move || {
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            // Only the host writes here.
            if let Ok(word) = serde_json::from_str(&line) {
                let access = matches!(word, Word::Access(Some(_)));
                let with = access.then(|| lines.get_mut().descriptors.pop_front()).flatten();
                drop(heard.send((word, with)));
            }
            line.clear();
            ring();
        }
        // Without the host there is no router.
        drop(heard.send((Word::End, None)));
        ring();
    };
    std::thread::Builder::new().name("valiant-host".to_owned()).spawn(hear).map_err(told)?;
    let kept = confine(&order.user, hardware)?;

    let (name, text) = &order.program;
    let mut setup = router_setup(registry, &file, router, Source::new(name, text.as_str()));
    if hybrid {
        on_its_own(&mut setup);
    } else {
        division::process_ports(&file, router, Some(&mut setup));
    }
    host.add(setup.clone())?;
    say(socket, &Answer::Ready(kept));
    let end = std::cell::Cell::new(None);
    let mut watch = Watch::default();
    host.drive(
        || end.get().is_some(),
        |host| {
            while let Ok((word, with)) = words.try_recv() {
                match word {
                    Word::End => end.set(Some(ExitCode::SUCCESS)),
                    Word::Status => say(socket, &Answer::Status(status(host, hybrid))),
                    Word::Access(token) => {
                        let access = access(token.as_ref(), with);
                        if !host.give_access(&order.router, &control, access) {
                            tracing::error!(target: "vr", "router '{}': it has no control socket", order.router);
                        }
                    }
                    Word::Program(name, text) => {
                        let mut setup = setup.clone();
                        if let Some(first) = setup.sources.first_mut() {
                            *first = Source::new(name, text);
                        }
                        let changed = host.change(setup);
                        let changed = changed.map_err(|e| Failure::from(e).text());
                        say(socket, &Answer::Program(changed));
                    }
                }
            }
            if let Some(worker) = watch.stuck(&host.rounds(), Instant::now()) {
                tracing::error!(
                    target: "vr",
                    "router '{}': worker {worker} is stuck for {} seconds: the process ends",
                    order.router, STUCK.as_secs()
                );
                // An orderly end would wait for the worker.
                std::process::abort();
            }
            for router in host.status().iter().filter(|router| !router.running) {
                if router.failures > 0 {
                    // What an element has left behind in this process goes with it.
                    end.set(Some(ExitCode::FAILURE));
                } else if end.replace(Some(ExitCode::SUCCESS)).is_none() {
                    say(socket, &Answer::Ended);
                }
            }
        },
    );
    Ok(end.get().unwrap_or(ExitCode::SUCCESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_rounds_is_stuck() {
        let (mut watch, began) = (Watch::default(), Instant::now());
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        assert_eq!(watch.stuck(&[1, 7], at(0)), None);
        assert_eq!(watch.stuck(&[2, 7], at(4)), None);
        assert_eq!(watch.stuck(&[3, 7], at(6)), Some(1));
        assert_eq!(watch.stuck(&[4, 8], at(7)), None);
        assert_eq!(watch.stuck(&[4, 9], at(12)), None);
        assert_eq!(watch.stuck(&[4, 10], at(13)), Some(0));
    }

    #[test]
    fn a_socket_comes_with_its_word() {
        let (here, there) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let word = serde_json::to_string(&Word::Access(Some("secret".into()))).unwrap() + "\n";
        writeln!(&there, "{}", serde_json::to_string(&Word::Status).unwrap()).unwrap();
        descriptor::send(&there, word.as_bytes(), Some(&OwnedFd::from(listener))).unwrap();
        drop(there);
        let mut heard = BufReader::new(Heard { socket: here, descriptors: VecDeque::new() });
        let mut words: Vec<Word> = Vec::new();
        let mut line = String::new();
        while heard.read_line(&mut line).unwrap() > 0 {
            words.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        let [Word::Status, Word::Access(token)] = &words[..] else { panic!("{words:?}") };
        let given = access(token.as_ref(), heard.get_mut().descriptors.pop_front()).unwrap();
        assert_eq!((given.listener.local_addr().unwrap(), given.token.word()), (address, "secret"));
        assert!(access(token.as_ref(), heard.get_mut().descriptors.pop_front()).is_none());
        assert!(access(None, None).is_none());
    }

    #[test]
    fn a_control_socket_replaces_one_on_which_nobody_listens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blue.sock");
        drop(listen(&path).unwrap());
        assert!(path.exists());
        let listener = listen(&path).unwrap();
        // One that is in use stays.
        assert!(listen(&path).is_err());
        crate::cleaner::remove_socket(&path);
        assert!(path.exists());
        drop(listener);
        crate::cleaner::remove_socket(&path);
        assert!(!path.exists());
    }
}
