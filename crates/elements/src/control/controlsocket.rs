//! # ControlSocket
//! Lets other programs read and write handlers, over TCP or a Unix socket.
//!
//! ## Synopsis
//! `ControlSocket(TYPE, PORT | FILENAME | FD [, READONLY, VERBOSE, LOCALHOST, MODE, TOKEN, TOKEN_FILE, RETRIES, RETRY_WARNINGS])`
//!
//! ## Arguments
//! - `TYPE` (*`TCP`, `UNIX` or `SOCKET`*): what kind of socket to listen on. `SOCKET`: on none; the only
//!   client is at the other end of a connected socket, which whoever has started the router has opened for
//!   it.
//! - `PORT` (*port number or name*): for `TCP`. A number may be followed by `+` to take the next free port if
//!   it is in use.
//! - `FILENAME` (*filename*): for `UNIX`: the path of the socket, which is removed at the end.
//! - `FD` (*int*): for `SOCKET`: the number of the connected socket's descriptor.
//! - `READONLY` (*bool*, default false): refuses to write handlers.
//! - `VERBOSE` (*bool*, default false): prints a line for each connection.
//! - `LOCALHOST` (*bool*, default true): listens on the loopback address only. Everybody who can connect to
//!   the port controls the router, so Valiant opens it to other hosts only on request (Click always does).
//! - `MODE` (*octal number*, default 600): who may connect to a Unix socket, as for files: 660 lets the
//!   socket's group in too.
//! - `TOKEN` (*word*; also `PASSWORD`): what a client must send first, by the command `TOKEN word`, because
//!   any user and any program of this machine can connect to a TCP port. A client that sends a wrong token is
//!   disconnected.
//! - `TOKEN_FILE` (*filename*): a file with the token: unlike the configuration, it can be protected from
//!   other users.
//! - `RETRIES` (*int*, default 0): how often to try again, once a second while the router runs, if it cannot
//!   listen. After the last try the router stops.
//! - `RETRY_WARNINGS` (*bool*, default true): whether to print a warning about each try that fails.
//!
//! ## Ports
//! None.
//!
//! ## Protocol
//! Click's, version 1.3. The server begins with `Click::ControlSocket/1.3`. A command is a line:
//! `READ handler [arg]`, `READDATA handler length`, `READUNTIL handler line`, `WRITE handler [value]`,
//! `WRITEDATA handler length`, `WRITEUNTIL handler line`, `CHECKREAD handler`, `CHECKWRITE handler`,
//! `LLRPC element#number [length]`, `HELP`, `QUIT`. A reply is one or more lines of a three-digit code, a
//! hyphen if lines follow, and a text: 200 done, 500 syntax error, 501 unknown command, 510 no such element,
//! 511 no such handler, 520 a write handler failed, 530 not allowed, 590 a read handler failed. The reply to
//! a successful read continues with `DATA length` and that many bytes. In place of an element's name, its
//! number in the handler `list` may be given, and 0 for global handlers.
//!
//! LLRPC calls one of Click's low-level remote procedure calls. The number is that of `CLICK_LLRPC_...` in
//! Click's `llrpc.h`, as its clients send it: in hexadecimal digits, 8 at the front if data goes in, 4 if
//! some comes out, C for both. Numbers in the data are in the machine's byte order; a flow is source address,
//! destination address (4 bytes each), source port and destination port (2 bytes each) in network order.
//! `READONLY` sockets refuse all. There are: of Counter `C004C001` (`GET_RATE`) and `C004C003` (`GET_COUNT`:
//! of packets, given 0, of bytes, given 1); of Switch, PullSwitch and SimplePullSwitch `4004C005`
//! (`GET_SWITCH`) and `80044006` (`SET_SWITCH`); of the rewriters `C00C4008` (`MAP_TCP`) and `C00C4009`
//! (`MAP_UDP`), what a flow becomes, which ICMPPingRewriter has of none. 522: the call failed.
//!
//! With `TOKEN`, `TOKEN word` is a command too; until the right token has been sent, requests are answered by 530.
//! `valiant read` and `write` send the token of `--token-file` or of the environment (`VALIANT_TOKEN`,
//! `VALIANT_TOKEN_FILE`).
//!
//! A line of HTTP, or one that begins with a control character as TLS does, ends the connection, so that web
//! pages cannot have a browser send commands. There can be
//! 128 clients. If there are more, the client that has been idle longest, for at least 30 seconds, is
//! disconnected; clients that have not sent the token yet are disconnected first, and at once. A request is
//! at most 64 MB long; unfinished requests of all clients together at most 128 MB.
//!
//! A Unix socket on which no process listens any more is replaced. Any other file in its place is kept, and
//! is an error.
//!
//! ## Handlers
//! - `port` (read): the TCP port that it listens on. Only `TCP`.
//! - `filename` (read): the path that it listens on. Only `UNIX`.
//!
//! ## Threads
//! Connections are served outside the workers. Counters and tables are read without interrupting a worker.
//!
//! ## Example
//! ```click
//! ControlSocket(TCP, 41930+);
//! InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;
//! ```
//!
//! ## See also
//! ChatterSocket, Script

use super::engine::clients::{Client, Clients, Limits};
use super::engine::listen::{Address, Bound, Listener, Retries};
use super::engine::session::{Request, Session, Step, message, messages};
use crate::prelude::*;
use crate::secret::Secret;
use lang::args::Filename;
use locks::IgnorePoison;
use runtime::{Access, Control, ControlTask, Dynamic, HandlerError, Hub, KnownHandler, Socket, Token};
use std::any::Any;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The number of requests that are answered before other work is done: clients that send requests without end
/// must not delay workers, scripts, and requests to stop.
const REQUESTS: usize = 64;

/// How long the socket waits at its end until pending answers are sent.
const LINGER: Duration = Duration::from_millis(200);

/// A request of a client, and the destination of its answer.
struct ClientRequest {
    request: Request,
    reply: SyncSender<Vec<u8>>,
}

/// Reads the arguments `TOKEN`, `PASSWORD` and `TOKEN_FILE`.
fn read_token(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Option<Token>, ArgError> {
    let given = args.k::<String>("TOKEN")?;
    let given = given.or(args.k("PASSWORD")?);
    let file = args.k::<Filename>("TOKEN_FILE")?;
    file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
    let token = match (given, file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(args.error("specify at most one of 'TOKEN' and 'TOKEN_FILE'")),
        (Some(token), None) => Token::new(&token),
        (None, Some(Filename(path))) => {
            let (text, open) = Secret::read(cx.hub(), &path, Token::LONGEST_FILE)
                .map_err(|e| args.error(format!("{path}: {e}")))?;
            if open {
                cx.warn(format!("TOKEN_FILE: {}", Token::readable_by_others(&path)));
            }
            Token::from_bytes(&text)
        }
    };
    token.map(Some).map_err(|e| args.error(format!("TOKEN: {e}")))
}

/// A socket that listens, with its threads; it survives a hot swap.
pub struct Server {
    requests: Mutex<Receiver<ClientRequest>>,
    sender: Mutex<Sender<ClientRequest>>,
    stop: Arc<AtomicBool>,
    clients: Arc<Clients>,
    /// Answers that have not been written yet.
    answers: Arc<AtomicUsize>,
    /// The token that clients have to send; a hot swap may change it.
    token: Arc<Mutex<Option<Arc<Token>>>>,
    bound: Bound,
    /// The address by which access over TCP is given to it; none if it does not listen.
    address: Option<Socket>,
    /// The access that was given to it.
    entrance: Arc<Mutex<Option<Entrance>>>,
    /// Whether an element of the configuration that is being made has it.
    taken: AtomicBool,
}

/// Another socket of a server, with a token and clients of its own.
struct Entrance {
    bound: Bound,
    stop: Arc<AtomicBool>,
    clients: Arc<Clients>,
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bound.close();
        // The right of those who are connected ends with it.
        self.clients.end();
    }
}

/// A server that an element has, until its configuration runs or is dropped: one server cannot require two
/// tokens.
struct ServerHold(Arc<Server>);

impl ServerHold {
    fn new(server: &Arc<Server>) -> Option<Self> {
        (!server.taken.swap(true, Ordering::AcqRel)).then(|| Self(Arc::clone(server)))
    }
}

impl Drop for ServerHold {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

impl Server {
    /// Binds the address; clients are served only from [`Server::begin`] on.
    fn open(address: &Address, limits: Limits) -> io::Result<Self> {
        let (sender, requests) = channel();
        Ok(Self {
            requests: Mutex::new(requests),
            sender: Mutex::new(sender),
            stop: Arc::default(),
            clients: Arc::new(Clients::new(limits)),
            answers: Arc::default(),
            token: Arc::default(),
            bound: address.bind()?,
            address: address.outside(),
            entrance: Arc::default(),
            taken: AtomicBool::new(false),
        })
    }

    /// Serves clients from here on, if there is a token only those that send it; a client that has sent the
    /// same token before need not send it again.
    fn begin(&self, token: Option<Arc<Token>>, verbose: bool, name: &str, hub: &Arc<Hub>) -> io::Result<()> {
        *self.token.lock().ignore_poison() = token;
        let Some(listener) = self.bound.begin() else { return Ok(()) };
        let acceptor = Acceptor {
            sender: self.sender.lock().ignore_poison().clone(),
            hub: Arc::clone(hub),
            stop: Arc::clone(&self.stop),
            clients: Arc::clone(&self.clients),
            answers: Arc::clone(&self.answers),
            token: Arc::clone(&self.token),
            verbose,
            name: name.to_owned(),
        };
        self.offer_entrance(&acceptor);
        acceptor.start(listener, accounts::inherit())
    }
}

impl Server {
    /// Whoever runs the router may have clients come in over TCP too.
    fn offer_entrance(&self, acceptor: &Acceptor) {
        let (hub, account) = (&acceptor.hub, accounts::inherit());
        let entrance = Arc::downgrade(&self.entrance);
        hub.on_revoke(Box::new(move || {
            let Some(entrance) = entrance.upgrade() else { return false };
            entrance.lock().ignore_poison().iter().for_each(|open| open.clients.end());
            true
        }));
        let (entrance, sender) = (Arc::downgrade(&self.entrance), acceptor.sender.clone());
        let (answers, name, hub_of) = (Arc::clone(&self.answers), acceptor.name.clone(), Arc::downgrade(hub));
        let admit = move |access: Option<Access>| {
            let (Some(entrance), Some(hub)) = (entrance.upgrade(), hub_of.upgrade()) else { return false };
            let mut open = entrance.lock().ignore_poison();
            // The address may be the same.
            *open = None;
            let Some(Access { listener, token }) = access else { return true };
            let new = Entrance {
                bound: Bound::given(listener),
                stop: Arc::default(),
                clients: Arc::new(Clients::new(Limits::default())),
            };
            let acceptor = Acceptor {
                sender: sender.clone(),
                hub: Arc::clone(&hub),
                stop: Arc::clone(&new.stop),
                clients: Arc::clone(&new.clients),
                answers: Arc::clone(&answers),
                token: Arc::new(Mutex::new(Some(Arc::new(token)))),
                verbose: false,
                name: name.clone(),
            };
            let spawned = new.bound.begin().map(|listener| acceptor.start(listener, account));
            if let Some(Err(e)) = spawned {
                hub.log(Level::WARN, &name, &format!("{name}: cannot serve clients at {}: {e}", new.bound));
                return true;
            }
            *open = Some(new);
            true
        };
        if let Some(address) = self.address.clone() {
            hub.on_access(address, Box::new(admit));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bound.close();
        let end = Instant::now() + LINGER;
        while self.answers.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.clients.close();
    }
}

/// A session, and whose memory it is: nobody's until the client has sent the token, for it must not use up
/// what the router may have.
struct Held {
    session: Session,
    of: accounts::Entry,
}

impl Held {
    /// It is the memory of this account from here on.
    fn pass_to(&mut self, account: accounts::Entry) {
        if self.of != account {
            let session = {
                let _account = account.enter();
                self.session.clone()
            };
            self.set(session);
            self.of = account;
        }
    }

    fn set(&mut self, session: Session) {
        let _account = self.of.enter();
        self.session = session;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(Session::default());
    }
}

#[derive(Clone)]
struct Acceptor {
    sender: Sender<ClientRequest>,
    hub: Arc<Hub>,
    stop: Arc<AtomicBool>,
    clients: Arc<Clients>,
    answers: Arc<AtomicUsize>,
    token: Arc<Mutex<Option<Arc<Token>>>>,
    verbose: bool,
    name: String,
}

impl Acceptor {
    /// Accepts clients, on a thread of its own; its memory is part of this account.
    fn start(self, listener: Arc<Listener>, account: accounts::Entry) -> io::Result<()> {
        let run = move || {
            let _account = account.enter();
            self.run(&listener);
        };
        std::thread::Builder::new().name("control".into()).spawn(run).map(drop)
    }

    fn run(self, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let (mut stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(e) => {
                    std::thread::sleep(Duration::from_millis(100));
                    // Whoever has given the socket may have closed it, and says so only then.
                    if !self.stop.load(Ordering::Acquire) {
                        self.hub.log(Level::WARN, &self.name, &format!("{}: accept: {e}", self.name));
                    }
                    continue;
                }
            };
            let strange = self.token.lock().ignore_poison().is_some();
            let Some(client) = self.clients.add(&stream, strange) else {
                // The client gets the reason; if it does not read it, nothing more can be done.
                let _ = stream.write_all(&message(500, "Too many connections", false));
                continue;
            };
            // All clients may have been disconnected just before this one was among them.
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let number = stream.number();
            if self.verbose {
                let message = format!("{} :: ControlSocket: opened connection {number}{from}", self.name);
                self.hub.log(Level::INFO, &self.name, &message);
            }
            let (this, account) = (self.clone(), accounts::inherit());
            let spawned = std::thread::Builder::new().name("client".into()).spawn(move || {
                let _account = account.enter();
                // The client has disconnected, so nothing is reported.
                let _ = this.serve(stream, &client);
                client.close();
                drop(client);
                if this.verbose {
                    let message = format!("{} :: ControlSocket: closed connection {number}", this.name);
                    this.hub.log(Level::INFO, &this.name, &message);
                }
            });
            if let Err(e) = spawned {
                let message = format!("{}: cannot serve a client: {e}", self.name);
                self.hub.log(Level::WARN, &self.name, &message);
            }
            if listener.is_one_connection() {
                return;
            }
        }
    }

    /// Serves one client until it disconnects.
    fn serve(&self, mut stream: impl Read + Write, client: &Client) -> io::Result<()> {
        stream.write_all(&Session::banner())?;
        let (own, nobody) = (accounts::inherit(), accounts::nobody());
        let mut held = Held { session: Session::default(), of: own };
        let mut shown: Option<Arc<Token>> = None;
        // On the stack, which is in no account.
        let mut buffer = [0; 16 << 10];
        let mut closed = false;
        loop {
            let token = self.token.lock().ignore_poison().clone();
            let welcome = token.as_ref().is_none_or(|t| shown.as_ref().is_some_and(|s| t.is(s.word())));
            held.pass_to(if welcome { own } else { nobody });
            let _account = held.of.enter();
            let session = &mut held.session;
            session.ask_for_token(!welcome);
            client.is_strange(!welcome);
            match session.step(closed) {
                Step::Wait => {
                    let n = stream.read(&mut buffer)?;
                    closed = n == 0;
                    if !client.holds(session.waiting() + n) {
                        return stream.write_all(&message(500, "Too much input, try again later", false));
                    }
                    session.feed(&buffer[..n]);
                }
                Step::Ask(_) if !welcome => {
                    stream.write_all(&message(530, "Permission denied, send TOKEN first", false))?;
                }
                Step::Ask(request) => {
                    let (reply, answer) = sync_channel(1);
                    let gone = || io::Error::other("the router has stopped");
                    client.asks(true);
                    self.sender.send(ClientRequest { request, reply }).map_err(|_| gone())?;
                    self.hub.ring();
                    let answer = answer.recv().map_err(|_| gone())?;
                    client.asks(false);
                    let written = stream.write_all(&answer);
                    self.answers.fetch_sub(1, Ordering::AcqRel);
                    written?;
                    client.holds(session.waiting());
                }
                Step::Show(text) => match token.filter(|token| token.is(&text)) {
                    Some(token) => {
                        shown = Some(token);
                        stream.write_all(&message(200, "Token OK", false))?;
                    }
                    None => return stream.write_all(&message(530, "Permission denied, wrong TOKEN", false)),
                },
                Step::Reply(bytes) => stream.write_all(&bytes)?,
                Step::Close(bytes) => return stream.write_all(&bytes),
            }
        }
    }
}

/// The name of a handler whose element is given by its number, which may be hexadecimal or octal, or by `0`
/// for global handlers; `None` if it is not.
fn numbered(router: &mut dyn Control, handler: &str) -> Option<String> {
    if !handler.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let at = handler.find(['.', '#'])?;
    let (number, rest) = handler.split_at_checked(at)?;
    if number == "0" {
        return rest.strip_prefix('.').map(str::to_owned);
    }
    let number = lang::args::parse::<usize>(number).ok().filter(|number| *number > 0)?;
    // Its first line is how many elements there are.
    let list = router.read("", "list", "").ok()?;
    Some(format!("{}{rest}", list.lines().nth(number)?))
}

/// Reads a handler.
fn read(
    router: &mut dyn Control,
    handler: &str,
    arg: &str,
    known: Result<KnownHandler, HandlerError>,
) -> Result<String, HandlerError> {
    let known = known?;
    if !arg.is_empty() && !known.takes_parameter {
        let message = format!("read handler '{}' does not take parameters", known.name);
        return Err(HandlerError::Failed(message));
    }
    router.read("", handler, arg)
}

/// Passes the request to the router and writes the answer.
fn answer(router: &mut dyn Control, request: &Request, read_only: bool) -> Vec<u8> {
    let failed = |e: HandlerError, handler: &str, verb: &str| -> Vec<u8> {
        match e {
            HandlerError::NoElement(name) => message(510, &format!("No element named '{name}'"), false),
            HandlerError::NoHandler(_) => message(511, &format!("No handler named '{handler}'"), false),
            HandlerError::NotReadable(_) => message(530, &format!("Handler '{handler}' write-only"), false),
            HandlerError::NotWritable(_) => message(530, &format!("Handler '{handler}' read-only"), false),
            HandlerError::Failed(text) => {
                let colon = if text.is_empty() { "" } else { ":" };
                let first = format!("{verb} handler '{handler}' error{colon}");
                let code = if verb == "Read" { 590 } else { 520 };
                messages(code, std::iter::once(first.as_str()).chain(text.lines()))
            }
            e @ HandlerError::NoAnswer(_) => message(520, &e.to_string(), false),
        }
    };
    let (Request::Read(name, _)
    | Request::Write(name, _)
    | Request::CheckRead(name)
    | Request::CheckWrite(name)
    | Request::Llrpc(name, _)) = request;
    let numbered = numbered(router, name);
    let called = numbered.as_deref().unwrap_or(name);
    let known = router.look_up("", called, false);
    // What is private to the configuration does not exist here.
    if !matches!(request, Request::Llrpc(..)) && known.as_ref().is_ok_and(|known| known.private) {
        return message(511, &format!("No handler named '{name}'"), false);
    }
    match request {
        Request::Read(handler, arg) => match read(router, called, arg, known) {
            Ok(data) => {
                let mut reply = message(200, &format!("Read handler '{handler}' OK"), false);
                reply.extend_from_slice(format!("DATA {}\r\n", data.len()).as_bytes());
                reply.extend_from_slice(data.as_bytes());
                reply
            }
            Err(e) => failed(e, handler, "Read"),
        },
        Request::Write(handler, value) => match router.look_up("", called, true) {
            Ok(_) if read_only => message(530, &format!("Permission denied for '{handler}'"), false),
            Err(e) => failed(e, handler, "Write"),
            Ok(_) => {
                let result = router.write("", called, &String::from_utf8_lossy(value));
                // Those of a write that fails are nobody else's.
                let warnings = router.hub().take_warnings();
                let done = format!("Write handler '{handler}' OK");
                match result {
                    Ok(()) if warnings.is_empty() => message(200, &done, false),
                    Ok(()) => {
                        let all: Vec<String> =
                            [format!("{done} with warnings")].into_iter().chain(warnings).collect();
                        messages(220, all.iter().map(String::as_str))
                    }
                    Err(e) => failed(e, handler, "Write"),
                }
            }
        },
        Request::CheckRead(handler) => match router.look_up("", called, false) {
            Ok(_) => message(200, &format!("Read handler '{handler}' OK"), false),
            Err(HandlerError::NotReadable(_)) => {
                message(511, &format!("Handler '{handler}' not readable"), false)
            }
            Err(e) => failed(e, handler, "Read"),
        },
        Request::CheckWrite(handler) => match router.look_up("", called, true) {
            Ok(_) if read_only => message(530, &format!("Permission denied for '{handler}'"), false),
            Ok(_) => message(200, &format!("Write handler '{handler}' OK"), false),
            Err(HandlerError::NotWritable(_)) => {
                message(511, &format!("Handler '{handler}' not writable"), false)
            }
            Err(e) => failed(e, handler, "Write"),
        },
        Request::Llrpc(name, data) => {
            let (element, number) = called.split_once('#').unwrap_or((called, ""));
            let digits = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")).unwrap_or(number);
            let Ok(number) = u32::from_str_radix(digits, 16) else {
                return message(500, &format!("Syntax error in LLRPC name '{name}'"), false);
            };
            let handler = format!("{element}.name");
            match router.look_up("", &handler, false) {
                Ok(known) => {
                    let element = known.name.strip_suffix(".name").unwrap_or(&known.name);
                    llrpc(router, (name, element, number), data, read_only)
                }
                Err(e) => failed(e, &handler, "Read"),
            }
        }
    }
}

/// What an LLRPC's number says, as clients send it: whether it takes data, whether it gives some, whether all
/// of it is in these bytes, and how many they are.
const LLRPC_IN: u32 = 0x8000_0000;
const LLRPC_OUT: u32 = 0x4000_0000;
const LLRPC_FLAT: u32 = 0x4000;
fn llrpc_size(number: u32) -> usize {
    (number >> 16 & 0xfff) as usize
}

/// Calls an LLRPC, given the name that the client has sent, the element and the number.
fn llrpc(
    router: &mut dyn Control,
    (name, element, number): (&str, &str, u32),
    data: &[u8],
    read_only: bool,
) -> Vec<u8> {
    let size = llrpc_size(number);
    if size == 0 || number & (LLRPC_IN | LLRPC_OUT) == 0 || number & LLRPC_FLAT == 0 {
        return message(501, &format!("Cannot call LLRPC '{name}' remotely"), false);
    }
    // Whether it changes anything is not known.
    if read_only {
        return message(530, &format!("Permission denied for '{name}'"), false);
    }
    let takes = number & LLRPC_IN != 0;
    if takes && data.len() != size {
        return message(522, &format!("LLRPC '{name}' requires {size} bytes input data"), false);
    }
    let mut data = if takes { data.to_vec() } else { vec![0; size] };
    let known = router.llrpc(element, number);
    let called = known.map_or(Err("Invalid argument"), |call| call(router, element, &mut data));
    // Warnings of its writes are nobody else's.
    drop(router.hub().take_warnings());
    if let Err(reason) = called {
        return message(522, &format!("LLRPC '{name}' error: {reason}"), false);
    }
    if number & LLRPC_OUT == 0 {
        data.clear();
    }
    let head = format!("DATA {}\r\n", data.len());
    [message(200, &format!("LLRPC '{name}' OK"), false), head.into_bytes(), data].concat()
}

/// The part on the control thread: answers the requests of the clients' threads.
struct Responder {
    place: Arc<Place>,
    read_only: bool,
}

impl ControlTask for Responder {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let server = self.place.server.get().cloned()?;
        let generation = router.generation();
        for _ in 0..REQUESTS {
            let asked = server.requests.lock().ignore_poison().try_recv();
            let Ok(asked) = asked else { return None };
            let reply = match router.hub().bounds().call() {
                Ok(()) => answer(router, &asked.request, self.read_only),
                Err(refused) => message(530, &refused, false),
            };
            server.answers.fetch_add(1, Ordering::AcqRel);
            if asked.reply.send(reply).is_err() {
                // A client that has disconnected no longer needs its answer.
                server.answers.fetch_sub(1, Ordering::AcqRel);
            }
            if router.generation() != generation {
                break;
            }
        }
        Some(0)
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The server of an element, from the time when it listens.
pub struct Place {
    /// The handler that says where it listens.
    handler: Option<&'static str>,
    server: OnceLock<Arc<Server>>,
    /// Until the configuration runs or is dropped.
    hold: Mutex<Option<ServerHold>>,
}

/// The `ControlSocket` element.
pub struct ControlSocket;

impl Element for ControlSocket {
    const CLASS: &'static str = "ControlSocket";
    const PORTS: &'static str = "0/0";
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::Socket);
    const MANUAL: &'static str = manual!("control/controlsocket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = Address::read(args, cx, true)?;
        let read_only = args.k("READONLY")?.unwrap_or(false);
        let verbose = args.k("VERBOSE")?.unwrap_or(false);
        let retries = Retries::read(args, cx)?;
        let (name, hub) = (cx.name().to_owned(), Arc::clone(cx.hub()));
        let token = read_token(args, cx)?.map(Arc::new);
        let key = format!("control socket {}", address.key());
        let handler = match address {
            Address::Tcp { .. } => Some("port"),
            Address::Unix { .. } => Some("filename"),
            Address::Given { .. } => None,
        };
        let new = || Arc::new(Place { handler, server: OnceLock::new(), hold: Mutex::default() });
        let place = cx.going_on().unwrap_or_else(new);
        cx.publish(Arc::clone(&place));
        let of = Arc::clone(&hub);
        let opens = Arc::clone(&place);
        let open = move |retries: &Retries| {
            let make = || {
                let server = Server::open(&address, Limits::default())?;
                let clients = Arc::downgrade(&server.clients);
                of.on_revoke(Box::new(move || clients.upgrade().map(|clients| clients.end()).is_some()));
                Ok(server)
            };
            let mut key = key.clone();
            let mut opened = retries.open(&key, make)?;
            let mut mine = ServerHold::new(&opened);
            while mine.is_none() && address.is_any() {
                // The same arguments, but another port.
                key.push('+');
                opened = retries.open(&key, make)?;
                mine = ServerHold::new(&opened);
            }
            let Some(mine) = mine else {
                return Err(format!(
                    "another ControlSocket of this configuration listens at {}",
                    opened.bound
                ));
            };
            *opens.hold.lock().ignore_poison() = Some(mine);
            // Set once, here.
            let _ = opens.server.set(opened);
            Ok(())
        };
        let begins = Arc::clone(&place);
        let begin = move || {
            drop(begins.hold.lock().ignore_poison().take());
            let begin = |server: &Arc<Server>| server.begin(token.clone(), verbose, &name, &hub);
            begins.server.get().map_or(Ok(()), begin).map_err(|e| format!("cannot serve clients: {e}"))
        };
        // A client that gets an answer may expect that the router runs.
        cx.at_change_over(begin.clone());
        retries.before_start(cx, open, begin);
        cx.control(Box::new(Responder { place, read_only }));
        Ok(Self)
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.called_any(
            |place: &Place| {
                let readable = place.handler.iter().map(|&name| name.to_owned()).collect();
                Dynamic { readable, ..Dynamic::default() }
            },
            |place, _, _| Ok(place.server.get().map(|s| s.bound.to_string()).unwrap_or_default()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn clients_that_ask_without_end_do_not_hold_up_the_control_side() {
        let mut bench = Bench::with_config("e :: Idle -> Discard;", 0, 0);
        let address = Address::Tcp { port: 0, search: false, local: true };
        let server = Arc::new(Server::open(&address, Limits::default()).unwrap());
        let sender = server.sender.lock().unwrap().clone();
        let ask = || {
            let (reply, answer) = sync_channel(1);
            sender.send(ClientRequest { request: Request::CheckRead("e.name".to_owned()), reply }).unwrap();
            answer
        };
        let answers: Vec<_> = (0..REQUESTS * 2 + 1).map(|_| ask()).collect();
        let answered = || answers.iter().filter(|a| a.try_recv().is_ok()).count();
        let place = Place { handler: None, server: OnceLock::from(server), hold: Mutex::default() };
        let mut responder = Responder { place: Arc::new(place), read_only: false };
        let mut poll = || (responder.poll(bench.router()), answered());
        assert_eq!(
            [poll(), poll(), poll(), poll()],
            [(Some(0), REQUESTS), (Some(0), REQUESTS), (None, 1), (None, 0)]
        );
    }

    #[test]
    fn wrong_tokens_are_refused() {
        assert!(Bench::error("ControlSocket(TCP, 0, TOKEN \"\")").contains("one word"));
        assert!(Bench::error("ControlSocket(TCP, 0, TOKEN \"a b\")").contains("one word"));
        assert!(Bench::error("ControlSocket(TCP, 0, TOKEN a, TOKEN_FILE b)").contains("at most one"));
        // A line that is longer than allowed before the token was sent, or that has no end.
        let long = format!("ControlSocket(TCP, 0, TOKEN {})", "a".repeat(4097));
        assert!(Bench::error(&long).contains("at most 4096 bytes"));
        assert!(
            Bench::error("ControlSocket(TCP, 0, TOKEN_FILE /dev/zero)").contains("it has more than 8 KB")
        );
        assert!(
            Bench::error("ControlSocket(TCP, 0, TOKEN_FILE /does/not/exist)").contains("/does/not/exist")
        );
    }

    #[test]
    fn two_elements_do_not_share_a_socket_and_its_token() {
        let path = std::env::temp_dir().join(format!("valiant-twice-{}", std::process::id()));
        let unix = format!("UNIX, {}", path.display());
        let config = format!("ControlSocket({unix}, TOKEN abc); b :: ControlSocket({unix}, READONLY true)");
        assert!(Bench::error(&config).contains("another ControlSocket of this configuration listens at"));
        assert!(!path.exists());
        // If any port is allowed, each element has its own, and a hot swap keeps them.
        let config = "e :: ControlSocket(TCP, 0, TOKEN abc); b :: ControlSocket(TCP, 0);";
        let mut bench = Bench::with_config(config, 0, 0);
        let ports = [bench.read("e.port"), bench.read("b.port")];
        assert_ne!(ports[0], ports[1]);
        for _ in 0..2 {
            let next = lang::Source::new("next", config);
            bench.router().hotswap(next).map_err(|d| format!("{d:?}")).unwrap();
            assert_eq!([bench.read("e.port"), bench.read("b.port")], ports);
        }
    }

    #[test]
    fn a_socket_that_does_not_begin_answers_nobody() {
        let address = Address::Tcp { port: 0, search: false, local: true };
        let server = Server::open(&address, Limits::default()).unwrap();
        let to = ("127.0.0.1", server.bound.to_string().parse().unwrap());
        let mut client = std::net::TcpStream::connect(to).unwrap();
        drop(server);
        assert!(client.read(&mut [0; 99]).is_ok_and(|n| n == 0) || std::net::TcpStream::connect(to).is_err());
    }
}
