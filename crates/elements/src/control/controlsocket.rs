//! # ControlSocket
//! Lets other programs read and write handlers, over TCP or a Unix socket.
//!
//! ## Synopsis
//! `ControlSocket(TYPE, ADDRESS [, READONLY, VERBOSE, LOCALHOST, RETRIES, RETRY_WARNINGS])`
//!
//! ## Arguments
//! - `TYPE` (*`TCP` or `UNIX`*): what kind of socket to listen on.
//! - `ADDRESS` (*port number or path*): a TCP port, followed by `+` to take the next free one if it is in use; or the
//!   path of a Unix socket, which is removed at the end.
//! - `READONLY` (*bool*, default false): refuses to write handlers.
//! - `VERBOSE` (*bool*, default false): prints a line for each connection.
//! - `LOCALHOST` (*bool*, default true): listens on the loopback address only. Whoever reaches the port controls the
//!   router, so Valiant opens it to other hosts only on request (Click opens it always).
//! - `RETRIES` (*int*, default 0): how many seconds to retry while the address is in use.
//! - `RETRY_WARNINGS` (*bool*, default true): whether to say so.
//!
//! ## Ports
//! None.
//!
//! ## Protocol
//! Click's, version 1.3. The server begins with `Click::ControlSocket/1.3`. A command is a line: `READ handler [arg]`,
//! `READDATA handler length`, `READUNTIL handler line`, `WRITE handler [value]`, `WRITEDATA handler length`,
//! `WRITEUNTIL handler line`, `CHECKREAD handler`, `CHECKWRITE handler`, `HELP`, `QUIT`. A reply is one or more lines
//! of a three-digit code, a hyphen if lines follow, and a text: 200 done, 500 syntax error, 501 unknown command, 510 no such
//! element, 511 no such handler, 520 the handler failed, 530 not allowed. A successful read goes on with `DATA length`
//! and that many bytes.
//!
//! ## Handlers
//! - `port` (read): the TCP port or the path that it listens on.
//!
//! ## Threads
//! Connections are served outside the workers. Counters and tables are read without touching a worker.
//!
//! ## Example
//! ```click
//! ControlSocket(TCP, 41930+);
//! InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
//! ```
//!
//! ## See also
//! ChatterSocket, Script

use super::listen::{Address, Connection, Listener, Retries};
use super::session::{Request, Session, Step, message, messages};
use crate::prelude::*;
use runtime::{ControlTask, HandlerError, Hub, Router};
use std::any::Any;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How many clients may be connected at a time.
const MAX_CLIENTS: usize = 128;

/// A request of a client, and where its answer goes.
struct Asked {
    request: Request,
    reply: SyncSender<Vec<u8>>,
}

/// A socket that listens, with its threads; it survives a hot swap.
pub struct Server {
    requests: Mutex<Receiver<Asked>>,
    stop: Arc<AtomicBool>,
    bound: Address,
}

impl Server {
    fn open(address: &Address, verbose: bool, name: &str, hub: &Arc<Hub>) -> io::Result<Self> {
        let (listener, bound) = address.bind()?;
        let (sender, requests) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = Acceptor {
            sender,
            hub: Arc::clone(hub),
            stop: Arc::clone(&stop),
            clients: Arc::default(),
            verbose,
            name: name.to_owned(),
        };
        std::thread::Builder::new().name("control".into()).spawn(move || acceptor.run(&listener))?;
        Ok(Self { requests: Mutex::new(requests), stop, bound })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bound.close();
    }
}

struct Acceptor {
    sender: Sender<Asked>,
    hub: Arc<Hub>,
    stop: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
    verbose: bool,
    name: String,
}

impl Acceptor {
    fn run(self, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let (mut stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    self.hub.chatter(&format!("{}: accept: {e}", self.name));
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            if self.clients.fetch_add(1, Ordering::AcqRel) >= MAX_CLIENTS {
                self.clients.fetch_sub(1, Ordering::AcqRel);
                // The client sees why; if it does not listen, so be it.
                let _ = stream.write_all(&message(500, "Too many connections", false));
                continue;
            }
            if self.verbose {
                self.hub.chatter(&format!("{}: opened connection{from}", self.name));
            }
            let (sender, hub, clients) =
                (self.sender.clone(), Arc::clone(&self.hub), Arc::clone(&self.clients));
            let (verbose, name) = (self.verbose, self.name.clone());
            let spawned = std::thread::Builder::new().name("client".into()).spawn(move || {
                // The client went away: nothing to report to anybody.
                let _ = serve(&mut stream, &sender, &hub);
                clients.fetch_sub(1, Ordering::AcqRel);
                if verbose {
                    hub.chatter(&format!("{name}: closed connection{from}"));
                }
            });
            if spawned.is_err() {
                self.clients.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}

/// Serves one client until it quits.
fn serve(stream: &mut Connection, sender: &Sender<Asked>, hub: &Hub) -> io::Result<()> {
    stream.write_all(&Session::banner())?;
    let mut session = Session::default();
    let mut buffer = vec![0; 16 << 10];
    let mut closed = false;
    loop {
        match session.step(closed) {
            Step::Wait => {
                let n = stream.read(&mut buffer)?;
                closed = n == 0;
                session.feed(&buffer[..n]);
            }
            Step::Ask(request) => {
                let (reply, answer) = sync_channel(1);
                let gone = || io::Error::other("the router has stopped");
                sender.send(Asked { request, reply }).map_err(|_| gone())?;
                hub.ring();
                stream.write_all(&answer.recv().map_err(|_| gone())?)?;
            }
            Step::Reply(bytes) => stream.write_all(&bytes)?,
            Step::Close(bytes) => return stream.write_all(&bytes),
        }
    }
}

/// Asks the router and words the answer.
fn answer(router: &mut Router, request: &Request, read_only: bool) -> Vec<u8> {
    let failed = |e: HandlerError, handler: &str, verb: &str| -> Vec<u8> {
        match e {
            HandlerError::NoElement(name) => message(510, &format!("No element named '{name}'"), false),
            HandlerError::NoHandler(_) => message(511, &format!("No handler named '{handler}'"), false),
            HandlerError::NotReadable(_) => message(530, &format!("Handler '{handler}' write-only"), false),
            HandlerError::NotWritable(_) => message(530, &format!("Handler '{handler}' read-only"), false),
            HandlerError::Failed(text) => {
                let first = format!("{verb} handler '{handler}' error");
                messages(520, std::iter::once(first.as_str()).chain(text.lines()))
            }
            e @ HandlerError::NoAnswer(_) => message(520, &e.to_string(), false),
        }
    };
    if let Request::Read(handler, _) | Request::CheckRead(handler) = request
        && router.look_up("", handler, false).is_ok_and(|known| known.private)
    {
        return message(530, &format!("Permission denied for '{handler}'"), false);
    }
    match request {
        Request::Read(handler, arg) => match router.read(handler, arg) {
            Ok(data) => {
                let mut reply = message(200, &format!("Read handler '{handler}' OK"), false);
                reply.extend_from_slice(format!("DATA {}\r\n", data.len()).as_bytes());
                reply.extend_from_slice(data.as_bytes());
                reply
            }
            Err(e) => failed(e, handler, "Read"),
        },
        Request::Write(handler, value) => match router.check_handler(handler, true) {
            Ok(()) if read_only => message(530, &format!("Permission denied for '{handler}'"), false),
            Err(e) => failed(e, handler, "Write"),
            Ok(()) => match router.write(handler, &String::from_utf8_lossy(value)) {
                Ok(()) => message(200, &format!("Write handler '{handler}' OK"), false),
                Err(e) => failed(e, handler, "Write"),
            },
        },
        Request::CheckRead(handler) => match router.check_handler(handler, false) {
            Ok(()) => message(200, &format!("Read handler '{handler}' OK"), false),
            Err(HandlerError::NotReadable(_)) => {
                message(511, &format!("Handler '{handler}' not readable"), false)
            }
            Err(e) => failed(e, handler, "Read"),
        },
        Request::CheckWrite(handler) => match router.check_handler(handler, true) {
            Ok(()) if read_only => message(530, &format!("Permission denied for '{handler}'"), false),
            Ok(()) => message(200, &format!("Write handler '{handler}' OK"), false),
            Err(HandlerError::NotWritable(_)) => {
                message(511, &format!("Handler '{handler}' not writable"), false)
            }
            Err(e) => failed(e, handler, "Write"),
        },
    }
}

/// The part on the control side: answers what the clients' threads ask.
struct Clerk {
    server: Arc<OnceLock<Arc<Server>>>,
    read_only: bool,
}

impl ControlTask for Clerk {
    fn poll(&mut self, router: &mut Router) -> Option<u64> {
        let server = self.server.get().cloned()?;
        let generation = router.generation();
        loop {
            let asked = server.requests.lock().unwrap_or_else(PoisonError::into_inner).try_recv();
            let Ok(asked) = asked else { return None };
            let reply = answer(router, &asked.request, self.read_only);
            // A client that went away does not want its answer any more.
            let _ = asked.reply.send(reply);
            if router.generation() != generation {
                return Some(0);
            }
        }
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The `ControlSocket` element.
pub struct ControlSocket {
    server: Arc<OnceLock<Arc<Server>>>,
}

impl Element for ControlSocket {
    const CLASS: &'static str = "ControlSocket";
    const PORTS: &'static str = "0/0";
    const MANUAL: &'static str = manual!("control/controlsocket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = Address::read(args)?;
        let read_only = args.k("READONLY")?.unwrap_or(false);
        let verbose = args.k("VERBOSE")?.unwrap_or(false);
        let retries = Retries::read(args)?;
        let (name, hub) = (cx.name().to_owned(), Arc::clone(cx.hub()));
        let key = format!("control socket {address:?}");
        let server = Arc::new(OnceLock::new());
        let place = Arc::clone(&server);
        // Whoever can connect may expect that the router runs: the ports are open by then.
        cx.before_start(move || {
            let make = || Server::open(&address, verbose, &name, &hub);
            let open = retries.open((&hub, &name, &key), make).map_err(|e| e.message)?;
            // Set once, here.
            let _ = place.set(open);
            Ok(())
        });
        cx.control(Box::new(Clerk { server: Arc::clone(&server), read_only }));
        Ok(Self { server })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("port", |e| e.server.get().map(|s| s.bound.to_string()).unwrap_or_default());
    }
}
