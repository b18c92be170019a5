//! # ChatterSocket
//! Sends what the router prints to other programs, over TCP or a Unix socket.
//!
//! ## Synopsis
//! `ChatterSocket(TYPE, PORT | FILENAME [, CHANNEL, QUIET_CHANNEL, GREETING, LOCALHOST, MODE, RETRIES, RETRY_WARNINGS])`
//!
//! ## Arguments
//! - `TYPE` (*`TCP` or `UNIX`*): what kind of socket to listen on.
//! - `PORT` (*port number or name*): for `TCP`. A number may be followed by `+` to take the next free port if
//!   it is in use.
//! - `FILENAME` (*filename*): for `UNIX`: the path of the socket, which is removed at the end.
//! - `CHANNEL` (*word*, default `default`): the channel whose lines clients receive. What elements print goes
//!   to the default channel; lines are sent to other channels by name.
//! - `QUIET_CHANNEL` (*bool*, default true): whether lines of a channel other than the default are kept off
//!   standard error.
//! - `GREETING` (*bool*, default true): whether a client is sent the line `Click::ChatterSocket/1.0` first.
//! - `LOCALHOST` (*bool*, default true): listens on the loopback address only (Click listens on all).
//! - `MODE` (*octal number*, default 600): who may connect to a Unix socket, as for files.
//! - `RETRIES` (*int*, default 0): how often to try again, once a second while the router runs, if it cannot
//!   listen. After the last try the router stops.
//! - `RETRY_WARNINGS` (*bool*, default true): whether to print a warning about each try that fails.
//!
//! A client sees the lines that are printed after it has connected. It sends nothing. One that falls
//! more than 500,000 bytes behind is disconnected. Clients stay connected over a hot swap to a configuration
//! with the same socket.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `port` (read): the TCP port or the path that it listens on.
//! - `clients` (read): how many clients are connected.
//!
//! ## Threads
//! Each client has a thread; an element that prints does not wait for clients.
//!
//! ## Example
//! ```click
//! ChatterSocket(TCP, 41960+);
//! InfiniteSource(LIMIT 3, STOP true) -> Print -> Discard;
//! ```
//!
//! ## See also
//! ControlSocket, Print

use super::engine::listen::{Address, Bound, Connection, Listener, Retries};
use crate::prelude::*;
use lang::args::Word;
use locks::IgnorePoison;
use runtime::Hub;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// How many bytes a client may be behind.
const MAX_BACKLOG: usize = 500_000;
/// How many clients may be connected at a time.
const MAX_CLIENTS: usize = 128;
/// How long the router waits at its end until clients have read the rest.
const LINGER: Duration = Duration::from_millis(200);
const GREETING: &[u8] = b"Click::ChatterSocket/1.0\r\n";

/// A client, from the point of view of the printing thread.
struct Client {
    lines: Sender<Arc<str>>,
    /// Bytes that have not been sent yet; the client's thread decreases the number.
    backlog: Arc<AtomicUsize>,
    connection: Connection,
    gone: Arc<AtomicBool>,
}

#[derive(Default)]
struct Clients(Mutex<Vec<Client>>);

impl Clients {
    fn list(&self) -> MutexGuard<'_, Vec<Client>> {
        self.0.lock().ignore_poison()
    }

    /// Sends a line to all clients; a client that is too far behind is disconnected.
    fn send(&self, line: &str) {
        let mut list = self.list();
        if list.is_empty() {
            return;
        }
        let line: Arc<str> = format!("{line}\n").into();
        list.retain(|c| {
            let late = c.backlog.fetch_add(line.len(), Ordering::AcqRel) + line.len() > MAX_BACKLOG;
            let stays = !late && !c.gone.load(Ordering::Acquire) && c.lines.send(Arc::clone(&line)).is_ok();
            if !stays {
                c.connection.close();
            }
            stays
        });
    }

    fn add(&self, connection: Connection) -> io::Result<()> {
        let mut list = self.list();
        list.retain(|c| !c.gone.load(Ordering::Acquire));
        if list.len() >= MAX_CLIENTS {
            return Ok(());
        }
        let (lines, receiver) = channel();
        let client = Client {
            lines,
            backlog: Arc::default(),
            connection: connection.another()?,
            gone: Arc::default(),
        };
        let (backlog, gone) = (Arc::clone(&client.backlog), Arc::clone(&client.gone));
        let account = accounts::inherit();
        std::thread::Builder::new().name("chatter".into()).spawn(move || {
            let _account = account.enter();
            serve(connection, &receiver, &backlog);
            gone.store(true, Ordering::Release);
        })?;
        list.push(client);
        Ok(())
    }
}

/// Writes to one client until it disconnects.
fn serve(mut connection: Connection, lines: &Receiver<Arc<str>>, backlog: &AtomicUsize) {
    for line in lines {
        if connection.write_all(line.as_bytes()).is_err() {
            return;
        }
        backlog.fetch_sub(line.len(), Ordering::AcqRel);
    }
}

/// A socket that listens, with its clients; it survives a hot swap.
pub struct Server {
    clients: Arc<Clients>,
    stop: Arc<AtomicBool>,
    bound: Bound,
}

impl Server {
    /// Binds the address; clients are served only from [`Server::begin`] on.
    fn open(address: &Address) -> io::Result<Self> {
        Ok(Self { clients: Arc::default(), stop: Arc::default(), bound: address.bind()? })
    }

    /// Serves clients from here on; has an effect only once.
    fn begin(&self, greeting: bool, channel: &str, hub: &Hub) -> io::Result<()> {
        let Some(listener) = self.bound.begin() else { return Ok(()) };
        let (clients, stop) = (Arc::clone(&self.clients), Arc::clone(&self.stop));
        let account = accounts::inherit();
        std::thread::Builder::new().name("chatter".into()).spawn(move || {
            let _account = account.enter();
            accept(&listener, greeting, &clients, &stop);
        })?;
        let clients = Arc::downgrade(&self.clients);
        let listener = move |line: &str| clients.upgrade().map(|clients| clients.send(line)).is_some();
        hub.listen_on(channel, Box::new(listener));
        Ok(())
    }
}

fn accept(listener: &Listener, greeting: bool, clients: &Clients, stop: &AtomicBool) {
    loop {
        let accepted = listener.accept();
        if stop.load(Ordering::Acquire) {
            return;
        }
        let Ok((mut connection, _)) = accepted else {
            // The error cannot be reported through this socket; a shortage of descriptors may be temporary.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        // A client that has disconnected already, or for which no thread can be started, is dropped.
        let greeted = if greeting { connection.write_all(GREETING) } else { Ok(()) };
        let _ = greeted.and_then(|()| clients.add(connection));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bound.close();
        let end = Instant::now() + LINGER;
        let behind = |c: &Client| !c.gone.load(Ordering::Acquire) && c.backlog.load(Ordering::Acquire) > 0;
        while Instant::now() < end && self.clients.list().iter().any(behind) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.clients.list().drain(..).for_each(|c| c.connection.close());
    }
}

/// The `ChatterSocket` element.
pub struct ChatterSocket {
    server: Arc<OnceLock<Arc<Server>>>,
}

impl Element for ChatterSocket {
    const CLASS: &'static str = "ChatterSocket";
    const PORTS: &'static str = "0/0";
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::Socket);
    const MANUAL: &'static str = manual!("control/chattersocket");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let address = Address::read(args, cx, false)?;
        let channel = args.k::<Word>("CHANNEL")?.map_or_else(String::new, |w| w.0);
        let channel = if channel == "default" { String::new() } else { channel };
        let quiet = args.k("QUIET_CHANNEL")?.unwrap_or(true);
        let greeting = args.k("GREETING")?.unwrap_or(true);
        let retries = Retries::read(args, cx)?;
        let server = Arc::<OnceLock<Arc<Server>>>::default();
        let (place, begins) = (Arc::clone(&server), Arc::clone(&server));
        let key = format!("chatter socket {} {channel}", address.key());
        let open = move |retries: &Retries| {
            // Set once, here.
            let _ = place.set(retries.open(&key, || Server::open(&address))?);
            Ok(())
        };
        let hub = Arc::clone(cx.hub());
        let begin = move || {
            hub.set_channel_quiet(&channel, quiet);
            let begin = |server: &Arc<Server>| server.begin(greeting, &channel, &hub);
            begins.get().map_or(Ok(()), begin).map_err(|e| format!("cannot serve clients: {e}"))
        };
        cx.at_change_over(begin.clone());
        retries.before_start(cx, open, begin);
        Ok(Self { server })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.read("port", |e| e.server.get().map(|s| s.bound.to_string()).unwrap_or_default());
        h.read("clients", |e| {
            let live =
                |s: &Arc<Server>| s.clients.list().iter().filter(|c| !c.gone.load(Ordering::Acquire)).count();
            e.server.get().map_or(0, live).to_string()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpStream;

    fn connect(bench: &mut Bench, clients: &str) -> TcpStream {
        let port: u16 = bench.read("port").parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        while bench.read("clients") != clients {
            std::thread::sleep(Duration::from_millis(1));
        }
        stream
    }

    #[test]
    fn clients_hear_what_is_printed_after_the_greeting() {
        let mut bench = Bench::with_config("e :: ChatterSocket(TCP, 0);", 0, 0);
        let mut one = BufReader::new(connect(&mut bench, "1"));
        bench.router().hub().chatter("first");
        let mut two = BufReader::new(connect(&mut bench, "2"));
        bench.router().hub().chatter("second");
        let lines = |client: &mut BufReader<TcpStream>, n: usize| {
            (0..n)
                .map(|_| {
                    let mut line = String::new();
                    client.read_line(&mut line).unwrap();
                    line
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&mut one, 3), ["Click::ChatterSocket/1.0\r\n", "first\n", "second\n"]);
        assert_eq!(lines(&mut two, 2), ["Click::ChatterSocket/1.0\r\n", "second\n"]);
    }

    #[test]
    fn a_client_that_does_not_read_is_disconnected_and_holds_up_nobody() {
        let mut bench = Bench::with_config("e :: ChatterSocket(TCP, 0, GREETING false, CHANNEL loud);", 0, 0);
        let mut client = connect(&mut bench, "1");
        let line = "x".repeat(99_999);
        // More than the socket's buffers and the backlog can hold.
        for _ in 0..500 {
            bench.router().hub().chatter_on("loud", &line);
        }
        assert_eq!(bench.read("clients"), "0");
        let mut got = Vec::new();
        // The connection may end with a reset; the test requires only that it ends.
        let _ = client.read_to_end(&mut got);
        assert!(got.len() < 500 * 100_000);
    }

    #[test]
    fn channels_are_apart() {
        let mut bench = Bench::with_config("e :: ChatterSocket(TCP, 0, GREETING false, CHANNEL side);", 0, 0);
        let mut client = BufReader::new(connect(&mut bench, "1"));
        bench.router().hub().chatter("to all");
        bench.router().hub().chatter_on("side", "to some");
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        assert_eq!(line, "to some\n");
    }

    #[test]
    fn wrong_sockets_are_refused() {
        assert!(Bench::error("ChatterSocket(CARRIER, 1)").contains("unknown socket type 'CARRIER'"));
        assert!(Bench::error("ChatterSocket(TCP, x)").contains("PORT requires TCP port"));
        assert!(Bench::error("ChatterSocket(UNIX, /does/not/exist)").contains("cannot listen"));
    }
}
