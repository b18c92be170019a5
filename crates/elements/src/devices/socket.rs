//! # Socket
//! Sends packets by a TCP, UDP or Unix socket of this machine's network stack, and receives from it.
//!
//! Packets do not pass through: input packets are sent to the other side, and what the other side sends comes
//! out. A socket of type `TCP` or `UNIX` is a stream, whose pieces are packets: how the stream was divided
//! when it was sent is lost. With `UDP` and `UNIX_DGRAM` a packet is a datagram.
//!
//! A server binds `ADDR` and `PORT`, or `FILENAME`. A stream server accepts one connection at a time; the
//! next is accepted when it has ended. A datagram server sends to whoever has sent to it last. A client
//! connects to them when the router starts, or sends its datagrams there; when a client's connection has
//! ended, there is no new one until the router starts anew.
//!
//! The classes FromSocket and ToSocket are older names of Socket: the input of FromSocket is push, that of
//! ToSocket pull.
//!
//! ## Synopsis
//! `Socket(TCP, ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT, ...])`,
//! `Socket(UDP, ADDR, PORT [, LOCAL_ADDR, LOCAL_PORT, ...])`,
//! `Socket(UNIX, FILENAME [, LOCAL_FILENAME, ...])`, `Socket(UNIX_DGRAM, FILENAME [, LOCAL_FILENAME, ...])`
//!
//! ## Arguments
//! - `TYPE` (*`TCP`, `UDP`, `UNIX` or `UNIX_DGRAM`*): what kind of socket it is.
//! - `ADDR` (*IP address*), `PORT` (*port number*): where a server is reached, or where a client connects to.
//!   A UDP client with `ADDR` 0.0.0.0 sends each packet to the address of its destination annotation.
//! - `LOCAL_ADDR` (*IP address*), `LOCAL_PORT` (*port number*): a client's own address. Ignored by a server.
//! - `FILENAME` (*path*): the Unix socket; with a zero byte in front, a name without a file. A server
//!   replaces the socket of a process that has died, and removes its own at the end.
//! - `LOCAL_FILENAME` (*path*): a client's own path, to which a datagram server sends. Ignored by a server.
//! - `CLIENT` (*bool*, keyword): whether to be a client. By default, an element without output is one, or
//!   with a local address or file.
//! - `SNAPLEN` (*int*, keyword, default 2048): the most bytes of a packet that is received. The rest of a
//!   longer datagram is cut off.
//! - `HEADROOM` (*int*, keyword, default 128): bytes left free before each packet.
//! - `TIMESTAMP` (*bool*, keyword, default true): sets the timestamp of packets that are received to the
//!   present time.
//! - `NODELAY` (*int*, keyword, default 1): if not 0, TCP sends small segments at once, without Nagle's
//!   algorithm.
//! - `RCVBUF`, `SNDBUF` (*int*, keyword): how many bytes the system keeps for this socket, at most; the
//!   sysctls `net.core.rmem_max` and `wmem_max` are the limits.
//! - `ALLOW`, `DENY` (*element*, keyword): routing tables, such as RadixIPLookup. A server takes connections
//!   and datagrams from addresses that have a route in `ALLOW`, and no others that have one in `DENY`.
//! - `VERBOSE` (*bool*, keyword, default false): prints a line when a connection begins or ends, or is
//!   denied.
//! - `PROPER`: accepted for compatibility with Click, without effect.
//!
//! The system's limit for connecting is not waited for: after 10 seconds without an answer, the router does
//! not start. A socket stays open over a hot swap if its element has the same name and arguments.
//!
//! ## Ports
//! One input, agnostic (FromSocket: push, ToSocket: pull), and one push output; each may be left out. While
//! the socket takes no more, up to 1024 pushed packets wait, and packets to be pulled stay where they are.
//! Without a connection, pushed packets are dropped. Empty packets are not sent.
//!
//! ## Handlers
//! - `count` (read): packets received.
//! - `sent` (read): packets sent.
//! - `peer` (read): the other side: who is connected, or who gets the next datagram. Empty if there is none.
//! - `scheduled` (read), `home_thread`, `tickets` (read/write): of the task.
//!
//! ## Threads
//! One instance, on one worker.
//!
//! ## Example
//! ```click
//! Socket(UNIX_DGRAM, /tmp/valiant-socket-example) -> Print(got) -> Script(TYPE PACKET, stop) -> Discard;
//! InfiniteSource(DATA hello, LIMIT 1) -> Queue -> Socket(UNIX_DGRAM, /tmp/valiant-socket-example);
//! ```
//!
//! ## See also
//! RawSocket, McastSocket, KernelTun, ControlSocket

use super::engine::socket::{self as engine, Buffers, Receiver, Sent, Waiting, Writable, again, inet};
use crate::control::engine::listen::{SocketId, socket_at, take_away};
use crate::lookup::Table;
use crate::prelude::*;
use lang::args::{ElementName, Filename, TcpPort, UdpPort};
use locks::IgnorePoison;
use nix::errno::Errno;
use runtime::{Inherited, reason};
use socket2::{Domain, SockAddr, Socket as System, Type};
use std::io;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const NO_PEER: DropReason = DropReason::new("no peer");
const DENIED: DropReason = DropReason::new("address denied");
/// How many connections wait to be accepted.
const BACKLOG: i32 = 2;
/// How long a client waits for its connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest path of a Unix socket with its final zero byte, or name with its first one.
const LONGEST_PATH: usize = 108;

/// What distinguishes the classes.
pub trait Kind: Send + 'static {
    /// The class.
    const CLASS: &'static str;
    /// How its ports work.
    const PROCESSING: &'static str;
    /// Whether Socket should be used instead.
    const OLD: bool = true;
}
/// `Socket`.
pub struct Both;
/// `FromSocket`.
pub struct From;
/// `ToSocket`.
pub struct To;
impl Kind for Both {
    const CLASS: &'static str = "Socket";
    const PROCESSING: &'static str = "a/h";
    const OLD: bool = false;
}
impl Kind for From {
    const CLASS: &'static str = "FromSocket";
    const PROCESSING: &'static str = "h/h";
}
impl Kind for To {
    const CLASS: &'static str = "ToSocket";
    const PROCESSING: &'static str = "l/l";
}

/// Where a socket is.
#[derive(Clone, Debug)]
enum Address {
    Inet(Ipv4Addr, u16),
    Unix(String),
}

impl Address {
    fn system(&self) -> io::Result<SockAddr> {
        match self {
            Self::Inet(ip, port) => Ok(inet(*ip, *port)),
            Self::Unix(path) => SockAddr::unix(path),
        }
    }
    /// The file of a Unix socket, if it has one.
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) if !path.starts_with('\0') => Some(Path::new(path)),
            _ => None,
        }
    }
    /// Whether it is one to bind.
    fn is_some(&self) -> bool {
        match self {
            Self::Inet(ip, port) => !ip.is_unspecified() || *port != 0,
            Self::Unix(path) => !path.is_empty(),
        }
    }
}

/// An address as users write it.
fn shown(address: &SockAddr) -> String {
    match (address.as_socket(), address.as_pathname(), address.as_abstract_namespace()) {
        (Some(inet), ..) => inet.to_string(),
        (None, Some(path), _) => path.display().to_string(),
        (None, None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None, None) => String::new(),
    }
}

#[derive(Clone, Debug)]
struct Settings {
    tcp: bool,
    stream: bool,
    client: bool,
    address: Address,
    local: Address,
    nodelay: bool,
    buffers: Buffers,
}

/// A socket that packets are sent by and received from: a connection, or the socket for datagrams.
struct Link {
    socket: System,
    writable: Writable,
    /// Who gets packets.
    peer: Option<SockAddr>,
}

impl Link {
    fn new(socket: System, peer: Option<SockAddr>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let writable = Writable::of(&socket)?;
        Ok(Self { socket, writable, peer })
    }
}

/// The file of a Unix socket, which is removed with it.
struct Place {
    path: PathBuf,
    id: SocketId,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Its directory's owner may have removed or replaced it already.
        let _ = take_away(&self.path, self.id).and_then(std::fs::remove_file);
    }
}

/// What survives a hot swap.
struct Endpoint {
    listener: Option<System>,
    link: Mutex<Option<Link>>,
    _place: Option<Place>,
}

/// Binds a Unix socket; replaces one that no process has open any more.
fn bind_file(socket: &System, address: &SockAddr, path: &Path, kind: Type) -> io::Result<Place> {
    match socket.bind(address) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            let there = socket_at(path)?;
            let probe = System::new(Domain::UNIX, kind, None)?;
            probe.set_nonblocking(true)?;
            if !probe.connect(address).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
                return Err(e);
            }
            std::fs::remove_file(take_away(path, there)?)?;
            socket.bind(address)?;
        }
        other => other?,
    }
    Ok(Place { path: path.to_owned(), id: socket_at(path)? })
}

impl Settings {
    /// A TCP server's port, as the host file has it.
    fn outside(&self) -> Option<runtime::Socket> {
        match self.address {
            Address::Inet(ip, port) if self.tcp && !self.client => {
                Some(runtime::Socket::Tcp { port, all: !ip.is_loopback() })
            }
            _ => None,
        }
    }

    /// Opens the socket; the error begins with the name of the call.
    fn open(&self, name_address: bool) -> Result<Endpoint, String> {
        let call = |call: &str, to: Option<&SockAddr>, e: io::Error| match to {
            Some(address) if name_address => format!("{call} {}: {}", shown(address), reason(&e)),
            _ => format!("{call}: {}", reason(&e)),
        };
        if let Some(Inherited::Tcp(listener)) = self.outside().and_then(|at| runtime::inherited(&at)) {
            let listener = System::from(listener);
            listener.set_nonblocking(true).map_err(|e| call("listen", None, e))?;
            return Ok(Endpoint { listener: Some(listener), link: Mutex::default(), _place: None });
        }
        let domain = if matches!(self.address, Address::Unix(_)) { Domain::UNIX } else { Domain::IPV4 };
        let kind = if self.stream { Type::STREAM } else { Type::DGRAM };
        let socket = System::new(domain, kind, None).map_err(|e| call("socket", None, e))?;
        if self.tcp && self.nodelay {
            socket.set_tcp_nodelay(true).map_err(|e| call("setsockopt(TCP_NODELAY)", None, e))?;
        }
        self.buffers.set(&socket, true, true)?;
        let mut place = None;
        let bound = if self.client { &self.local } else { &self.address };
        if !self.client || self.local.is_some() {
            if self.tcp {
                // So that connections that have just ended do not keep a new server from its port.
                socket.set_reuse_address(true).map_err(|e| call("setsockopt(SO_REUSEADDR)", None, e))?;
            }
            let address = bound.system().map_err(|e| call("bind", None, e))?;
            let done = match bound.file() {
                Some(path) => bind_file(&socket, &address, path, kind).map(|made| place = Some(made)),
                None => socket.bind(&address),
            };
            done.map_err(|e| call("bind", Some(&address), e))?;
        }
        let far = self.address.system().map_err(|e| call("connect", None, e))?;
        if self.stream && !self.client {
            socket.listen(BACKLOG).map_err(|e| call("listen", Some(&far), e))?;
            socket.set_nonblocking(true).map_err(|e| call("listen", None, e))?;
            return Ok(Endpoint { listener: Some(socket), link: Mutex::default(), _place: place });
        }
        if self.stream {
            socket.connect_timeout(&far, PATIENCE).map_err(|e| call("connect", Some(&far), e))?;
        }
        let link = Link::new(socket, self.client.then_some(far)).map_err(|e| call("socket", None, e))?;
        Ok(Endpoint { listener: None, link: Mutex::new(Some(link)), _place: place })
    }
}

/// Sends a piece of a stream.
fn send_stream(link: &Link, packet: &mut Packet) -> Sent {
    while packet.len() > 0 {
        match again(|| link.socket.send_with_flags(packet.data(), libc_nosignal())) {
            Ok(sent) => {
                packet.strip(sent);
            }
            Err(e) => {
                return match Sent::failed(e) {
                    Sent::Refused(e) => Sent::Lost(e),
                    other => other,
                };
            }
        }
    }
    Sent::Done
}

/// A peer that is gone must not end the process by a signal.
fn libc_nosignal() -> i32 {
    nix::sys::socket::MsgFlags::MSG_NOSIGNAL.bits()
}

/// Sends a datagram.
fn send_datagram(link: &Link, any: Option<u16>, packet: &Packet) -> Sent {
    if packet.len() == 0 {
        return Sent::Done;
    }
    let annotated = any.map(|port| inet(Ipv4Addr::from(packet.dst_ip()), port));
    let Some(to) = annotated.as_ref().or(link.peer.as_ref()) else {
        return Sent::Refused(io::Error::from_raw_os_error(Errno::EDESTADDRREQ as i32));
    };
    match again(|| link.socket.send_to_with_flags(packet.data(), to, libc_nosignal())) {
        Ok(_) => Sent::Done,
        Err(e) => Sent::failed(e),
    }
}

/// The `Socket` element, and `FromSocket` and `ToSocket`.
pub struct Socket<K> {
    kind: PhantomData<K>,
    settings: Arc<Settings>,
    end: Arc<OnceLock<Arc<Endpoint>>>,
    allow: Arc<OnceLock<Arc<Table>>>,
    deny: Arc<OnceLock<Arc<Table>>>,
    receiver: Receiver,
    waiting: Waiting,
    verbose: bool,
    count: Counter,
    sent: Counter,
}

/// Reads `ALLOW` or `DENY`.
fn table(
    args: &mut Args<'_>,
    cx: &mut ConfigCx<'_>,
    keyword: &str,
) -> Result<Arc<OnceLock<Arc<Table>>>, ArgError> {
    let found = Arc::<OnceLock<Arc<Table>>>::default();
    let Some(ElementName(name)) = args.k(keyword)? else { return Ok(found) };
    let id = cx.find(&name).filter(|id| matches!(cx.class_of(*id).role, Role::RouteTable { .. }));
    let Some(id) = id else { return Err(args.error(format!("{name} is not an IPRouteTable"))) };
    let (place, later) = (Arc::clone(&found), cx.shared_later::<Table>(id));
    cx.before_start(move || {
        // Set once, here.
        let _ = later().map(|table| place.set(table));
        Ok(())
    });
    Ok(found)
}

fn unix(args: &mut Args<'_>, which: &str, path: &str) -> Result<(), ArgError> {
    if path.len() < LONGEST_PATH || (path.starts_with('\0') && path.len() == LONGEST_PATH) {
        return Ok(());
    }
    Err(args.error(format!("{which} filename '{}' too long", path.replace('\0', "\\000"))))
}

impl<K: Kind> Socket<K> {
    fn say(&self, cx: &Cx<'_>, what: &str) {
        if self.verbose {
            cx.chatter(&format!("{} :: {}: {what}", cx.name(), K::CLASS));
        }
    }

    fn allowed(&self, peer: &SockAddr) -> bool {
        let Some(address) = peer.as_socket_ipv4() else { return true };
        let in_table = |table: &OnceLock<Arc<Table>>| table.get().is_some_and(|t| t.covers(*address.ip()));
        in_table(&self.allow) || !in_table(&self.deny)
    }

    /// Accepts a connection. Returns whether one came.
    fn accept(&self, listener: &System, link: &mut Option<Link>, cx: &Cx<'_>) -> bool {
        let (socket, peer) = match again(|| listener.accept()) {
            Ok(accepted) => accepted,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
            Err(e) => {
                // The connection has ended already, or descriptors are short for a time.
                cx.log(Level::WARN, &format!("{} :: {}: accept: {}", cx.name(), K::CLASS, reason(&e)));
                return false;
            }
        };
        let (allowed, fd) = (self.allowed(&peer), socket.as_raw_fd());
        let what = if allowed { "opened" } else { "denied" };
        self.say(cx, &format!("{what} connection {fd} from {}", shown(&peer)));
        if allowed {
            if self.settings.tcp && self.settings.nodelay {
                // Small packets only arrive later if it cannot be set.
                let _ = socket.set_tcp_nodelay(true);
            }
            match Link::new(socket, Some(peer)) {
                Ok(new) => *link = Some(new),
                Err(e) => self.say(cx, &reason(&e)),
            }
        }
        true
    }

    /// Ends the connection, and drops what waits for it.
    fn close(&mut self, link: &mut Option<Link>, why: Option<&io::Error>, cx: &mut Cx<'_>) {
        if let Some(why) = why {
            self.say(cx, &reason(why));
        }
        if let Some(link) = link.take() {
            self.say(cx, &format!("closed connection {}", link.socket.as_raw_fd()));
        }
        self.waiting.clear(NO_PEER, cx);
    }

    /// Receives a batch. Returns whether anything came.
    fn receive(&mut self, link: &mut Option<Link>, cx: &mut Cx<'_>) -> bool {
        let (mut batch, mut ended, mut any) = (cx.spare_batch(), None, false);
        let mut left = cx.batch_size();
        while let Some(open) = link.as_mut()
            && left > 0
        {
            left -= 1;
            match self.receiver.receive(&open.socket, self.settings.stream, cx.now_ns()) {
                Ok((packet, _)) if packet.len() == 0 && self.settings.stream => {
                    ended = Some(None);
                    break;
                }
                Ok((packet, from)) => {
                    any = true;
                    if !self.settings.stream && !self.settings.client {
                        if let Some(from) = &from
                            && !self.allowed(from)
                        {
                            self.say(cx, &format!("dropped datagram from {}", shown(from)));
                            cx.drop(packet, DENIED);
                            continue;
                        }
                        if from.is_some() {
                            open.peer = from;
                        }
                    }
                    batch.push(packet);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::OutOfMemory || !self.settings.stream => break,
                Err(e) => {
                    ended = Some(Some(e));
                    break;
                }
            }
        }
        self.count.add(batch.len() as u64);
        cx.output_batch(0, batch);
        if let Some(why) = ended {
            self.close(link, why.as_ref(), cx);
            any = true;
        }
        any
    }

    /// Sends the packets that wait, and then these.
    fn send(&mut self, link: &mut Option<Link>, batch: Batch, cx: &mut Cx<'_>) {
        let Some(open) = link.as_ref().filter(|l| l.peer.is_some()) else {
            return cx.drop_batch(batch, NO_PEER);
        };
        let any = match self.settings.address {
            Address::Inet(ip, port) if self.settings.client && ip.is_unspecified() => Some(port),
            _ => None,
        };
        let (stream, sent) = (self.settings.stream, &self.sent);
        let done = self.waiting.offer(batch, cx, |packet| {
            let empty = packet.len() == 0;
            let done = if stream { send_stream(open, packet) } else { send_datagram(open, any, packet) };
            sent.add(u64::from(matches!(done, Sent::Done) && !empty));
            done
        });
        if let Err(e) = done {
            self.close(link, Some(&e), cx);
        }
    }
}

impl<K: Kind> Element for Socket<K> {
    const CLASS: &'static str = K::CLASS;
    const PORTS: &'static str = "0-1/0-1";
    const PROCESSING: &'static str = K::PROCESSING;
    const FLOW: &'static str = "x/y";
    const READS: Fields = Fields::DATA.with(Fields::DST_IP);
    const DROPS: &'static [DropCase] = &[
        engine::DROPS[0],
        engine::DROPS[1],
        engine::DROPS[2],
        NO_PEER
            .when("there is no connection, or nobody has sent a datagram yet; or the connection has ended"),
        DENIED.when("the datagram comes from an address that `DENY` has, or `ALLOW` has not"),
    ];
    const OPENS: Option<Opens> = Some(Opens::Socket);
    const MANUAL: &'static str = manual!("devices/socket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        if K::OLD && cx.worker().0 == 0 {
            let warning = format!("{} is deprecated, use Socket instead", K::CLASS);
            if cx.as_click() {
                cx.hub().chatter(&format!("warning: {warning}"));
            } else {
                cx.warn(warning);
            }
        }
        let kind = args.mp::<String>("TYPE")?.to_ascii_uppercase();
        let verbose = args.k_or("VERBOSE", false)?;
        let buffers = Buffers::read_all(args)?;
        let nodelay = args.k::<u32>("NODELAY")?.unwrap_or(1) != 0;
        let client = args.k::<bool>("CLIENT")?;
        args.k::<bool>("PROPER")?;
        let (allow, deny) = (table(args, cx, "ALLOW")?, table(args, cx, "DENY")?);
        let (address, local) = match kind.as_str() {
            "TCP" | "UDP" => {
                let tcp = kind == "TCP";
                let ip = args.mp("ADDR")?;
                let port = if tcp { args.mp::<TcpPort>("PORT")?.0 } else { args.mp::<UdpPort>("PORT")?.0 };
                let local = args.p::<Ipv4Addr>("LOCAL_ADDR")?;
                let from = if tcp {
                    args.p::<TcpPort>("LOCAL_PORT")?.map(|p| p.0)
                } else {
                    args.p::<UdpPort>("LOCAL_PORT")?.map(|p| p.0)
                };
                let local = Address::Inet(local.unwrap_or(Ipv4Addr::UNSPECIFIED), from.unwrap_or(0));
                (Address::Inet(ip, port), local)
            }
            "UNIX" | "UNIX_DGRAM" => {
                let Filename(far) = args.mp("FILENAME")?;
                let near = args.p::<Filename>("LOCAL_FILENAME")?.unwrap_or_default().0;
                unix(args, "remote", &far)?;
                unix(args, "local", &near)?;
                (Address::Unix(far), Address::Unix(near))
            }
            _ => return Err(args.error(format!("unknown socket type `{kind}'"))),
        };
        let client = client.unwrap_or(cx.n_outputs() == 0 || local.is_some());
        let stream = matches!(kind.as_str(), "TCP" | "UNIX");
        let settings = Settings {
            tcp: kind == "TCP",
            stream,
            client,
            address,
            local,
            nodelay,
            buffers: buffers.clone(),
        };
        match (&settings.address, settings.outside()) {
            (_, Some(server)) => cx.permits(Outside::Listen(&server), args)?,
            (Address::Inet(..), None) => cx.permits(Outside::Namespace(None), args)?,
            (Address::Unix(_), None) => {
                for path in [&settings.address, &settings.local] {
                    if let Address::Unix(path) = path
                        && !path.is_empty()
                    {
                        cx.permits(Outside::Listen(&runtime::Socket::Unix(path.into())), args)?;
                    }
                }
            }
        }
        let settings = Arc::new(settings);
        let end = Arc::<OnceLock<Arc<Endpoint>>>::default();
        let (place, wanted, hub) = (Arc::clone(&end), Arc::clone(&settings), Arc::clone(cx.hub()));
        let (name, says, plain) = (cx.name().to_owned(), verbose, cx.as_click());
        cx.before_start(move || {
            let key = format!("socket {name} {wanted:?}");
            let made = hub.resource(&key, || {
                let made = wanted.open(!plain)?;
                if says && wanted.stream {
                    let far = wanted.address.system().map(|a| shown(&a)).unwrap_or_default();
                    let link = made.link.lock().ignore_poison().as_ref().map(|l| l.socket.as_raw_fd());
                    let what = match (link, &made.listener) {
                        (Some(fd), _) => format!("opened connection {fd} to {far}"),
                        (None, Some(l)) => format!("listening for connections on {far} ({})", l.as_raw_fd()),
                        (None, None) => String::new(),
                    };
                    hub.chatter(&format!("{name} :: {}: {what}", K::CLASS));
                }
                Ok(made)
            })?;
            // Set once, here.
            let _ = place.set(made);
            Ok(())
        });
        Ok(Self {
            kind: PhantomData,
            settings,
            end,
            allow,
            deny,
            receiver: Receiver::new(buffers),
            waiting: Waiting::default(),
            verbose,
            count: Counter::new(),
            sent: Counter::new(),
        })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.counter("count", |e| &e.count);
        h.counter("sent", |e| &e.sent);
        h.read("peer", |e| {
            let peer = |end: &Arc<Endpoint>| {
                end.link.lock().ignore_poison().as_ref().and_then(|l| l.peer.as_ref().map(shown))
            };
            e.end.get().and_then(peer).unwrap_or_default()
        });
        h.task();
        h.listed(&["scheduled", "tickets", "home_thread"]);
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        cx.reschedule();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(end) = self.end.get().cloned() else { return false };
        let mut link = end.link.lock().ignore_poison();
        cx.reschedule();
        let mut moved = false;
        if link.is_none()
            && let Some(listener) = &end.listener
        {
            moved |= self.accept(listener, &mut link, cx);
        }
        if cx.n_outputs() > 0 {
            moved |= self.receive(&mut link, cx);
        }
        let pulls = cx.n_inputs() > 0 && cx.input_is_pull(0);
        if link.as_ref().is_some_and(|l| l.peer.is_some()) {
            let waited = !self.waiting.is_empty();
            let mut batch = cx.spare_batch();
            if pulls && !waited {
                // A packet on its way up to here may have `peer` read.
                drop(link);
                moved |= cx.pull_lending(self, 0, cx.batch_size(), &mut batch) > 0;
                link = end.link.lock().ignore_poison();
            }
            if waited || !batch.is_empty() {
                let before = self.sent.get();
                self.send(&mut link, batch, cx);
                moved |= self.sent.get() > before;
            } else {
                cx.recycle(batch);
            }
        }
        let ready = pulls && self.waiting.is_empty() && link.as_ref().is_some_and(|l| l.peer.is_some());
        let more = ready && cx.upstream_active(0);
        if !moved && !more {
            let (reads, writes) = (cx.n_outputs() > 0, !self.waiting.is_empty());
            match (link.as_ref(), &end.listener) {
                (Some(open), _) if reads && writes => {
                    cx.idle_until_readable(&[open.socket.as_raw_fd(), open.writable.fd()]);
                }
                (Some(open), _) if reads => cx.idle_until_readable(&[open.socket.as_raw_fd()]),
                (Some(open), _) if writes => cx.idle_until_readable(&[open.writable.fd()]),
                (None, Some(listener)) => cx.idle_until_readable(&[listener.as_raw_fd()]),
                (Some(_), _) | (None, None) => cx.idle_until_readable(&[]),
            }
        }
        moved
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.sent.set(old.sent.get());
        let same = matches!((self.end.get(), old.end.get()), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
        if !same {
            // The first of them may be half sent.
            old.waiting.clear(NO_PEER, cx);
        }
        self.waiting.take_over(&mut old.waiting);
    }
}

impl<K: Kind> Vector for Socket<K> {
    fn push(&mut self, _port: usize, batch: Batch, cx: &mut Cx<'_>) {
        let Some(end) = self.end.get().cloned() else { return cx.drop_batch(batch, engine::NOT_OPEN) };
        let mut link = end.link.lock().ignore_poison();
        self.send(&mut link, batch, cx);
    }
}
