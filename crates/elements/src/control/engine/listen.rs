//! Sockets that elements listen on: TCP ports and Unix sockets.

use crate::outfile::{FileId, id_of};
use crate::prelude::*;
use lang::args::{Filename, TcpPort, Word};
use locks::IgnorePoison;
use nix::sys::socket;
use nix::sys::stat::{Mode, umask};
use runtime::{Control, ControlTask, FromArg, Hub, Inherited, Level, NameDb, Outside, Socket};
use std::any::Any;
use std::fmt;
use std::fs::{Permissions, symlink_metadata};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// An address that cannot be bound.
#[derive(Debug)]
struct CannotBind {
    address: String,
    error: io::Error,
}

impl fmt::Display for CannotBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.error)
    }
}

impl std::error::Error for CannotBind {}

/// Where to listen.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A TCP port, on the loopback interface only if `local`; with `search`, the next free port if it is in
    /// use.
    Tcp { port: u16, search: bool, local: bool },
    /// A Unix socket, and the users that may connect to it.
    Unix { path: PathBuf, mode: u32 },
    /// Nowhere: the only connection is a socket that whoever has started the process has opened, as
    /// descriptor with this number.
    Given { number: i32 },
}

/// An open socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    /// A connection, until it is accepted.
    Given(Mutex<Option<Connection>>),
}

/// A connection.
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket of this process. Displayed as the port or the path.
pub(crate) struct Bound {
    shown: String,
    listener: Arc<Listener>,
    place: Option<Mutex<Place>>,
    begun: AtomicBool,
}

/// Distinguishes a socket from all others: inode numbers are used again, so it contains the creation time
/// too.
pub(crate) type SocketId = (FileId, SystemTime);

/// The socket at a path, if the path is not a symbolic link.
pub(crate) fn socket_at(path: &Path) -> io::Result<SocketId> {
    let there = symlink_metadata(path)?;
    if !there.file_type().is_socket() {
        return Err(io::Error::other("exists and is no socket"));
    }
    Ok((id_of(&there), there.modified()?))
}

/// The place of a Unix socket in the file system.
struct Place {
    path: PathBuf,
    id: SocketId,
    /// The socket that a dead process had left there, until it is certain that the new socket stays.
    stale: Option<PathBuf>,
    closed: bool,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// A TCP port by number or name, or a number followed by `+`; whether it is followed.
fn port_of(word: &str, names: &NameDb) -> Option<(u16, bool)> {
    match word.strip_suffix('+') {
        Some(number) => {
            let port = u16::from_arg(number, names).ok().filter(|port| *port > 0)?;
            Some((port, true))
        }
        None => TcpPort::from_arg(word, names).ok().map(|TcpPort(port)| (port, false)),
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// The default mode of Unix sockets: every user who can connect controls the router, or reads what it prints.
const PRIVATE: u32 = 0o600;

impl Address {
    /// Reads the arguments `TYPE`, `PORT`, `FILENAME` or `FD`, `LOCALHOST` and `MODE`. `given`: whether the
    /// type may be `SOCKET`.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn read(args: &mut Args<'_>, cx: &ConfigCx<'_>, given: bool) -> Result<Self, ArgError> {
        let local = args.k("LOCALHOST")?.unwrap_or(true);
        let mode = match args.k::<String>("MODE")? {
            None => PRIVATE,
            Some(text) => u32::from_str_radix(&text, 8)
                .ok()
                .filter(|mode| *mode <= 0o777)
                .ok_or_else(|| args.error(format!("MODE: '{text}' is not an octal number such as 660")))?,
        };
        let kind: String = args.mp("TYPE")?;
        let address = match kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let word = args.mp::<Word>("PORT")?.0;
                let (port, search) = port_of(&word, args.names())
                    .ok_or_else(|| ArgError::new("PORT requires TCP port").at(args.span()))?;
                Self::Tcp { port, search, local }
            }
            "UNIX" => Self::Unix { path: PathBuf::from(args.mp::<Filename>("FILENAME")?.0), mode },
            "SOCKET" if given => Self::Given { number: args.mp("FD")? },
            other => {
                args.ignore_rest();
                return Err(ArgError::new(format!("unknown socket type '{other}'")));
            }
        };
        match address.outside() {
            _ if address.is_any() => cx.permits(Outside::AnyPort, args)?,
            Some(socket) => cx.permits(Outside::Listen(&socket), args)?,
            None => cx.permits(Outside::Descriptor, args)?,
        }
        Ok(address)
    }

    /// The address as the host file has it.
    pub(crate) fn outside(&self) -> Option<Socket> {
        match self {
            Self::Tcp { port, local, .. } => Some(Socket::Tcp { port: *port, all: !local }),
            Self::Unix { path, .. } => Some(Socket::Unix(runtime::whole(path))),
            Self::Given { .. } => None,
        }
    }

    /// The port or the path.
    fn shown(&self) -> String {
        match self {
            Self::Tcp { port, .. } => port.to_string(),
            Self::Unix { path, .. } => path.display().to_string(),
            Self::Given { number } => number.to_string(),
        }
    }

    /// Whether several sockets can be opened with the same arguments, because the system or the search
    /// chooses different ports.
    pub(crate) fn is_any(&self) -> bool {
        matches!(self, Self::Tcp { port, search, .. } if *search || *port == 0)
    }

    /// A key that is equal for sockets that cannot both be open.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Tcp { port, search, local } => format!("tcp {port} {search} {local}"),
            Self::Unix { path, .. } => format!("unix {}", path.display()),
            Self::Given { number } => format!("socket {number}"),
        }
    }

    /// Binds the address; it is released when the returned value is dropped.
    ///
    /// # Errors
    /// An error of the operating system; or the path has a file that is not a socket.
    pub(crate) fn bind(&self) -> io::Result<Bound> {
        self.bind_unnamed().map_err(|e| {
            let address = match self {
                Self::Tcp { port, .. } => format!("TCP port {port}"),
                Self::Unix { path, .. } => path.display().to_string(),
                Self::Given { number } => format!("socket {number}"),
            };
            io::Error::new(e.kind(), CannotBind { address, error: e })
        })
    }

    /// The same; the error does not name the address.
    fn bind_unnamed(&self) -> io::Result<Bound> {
        if let Some(inherited) = self.outside().and_then(|socket| runtime::inherited(&socket)) {
            let (shown, listener) = match inherited {
                Inherited::Unix(listener) => (self.shown(), Listener::Unix(listener)),
                Inherited::Tcp(listener) => (self.shown(), Listener::Tcp(listener)),
            };
            return Ok(Bound::new(shown, listener, None));
        }
        let (shown, listener, place) = match self {
            Self::Tcp { port, search, local } => {
                let ip = IpAddr::V4(if *local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED });
                let mut port = *port;
                let listener = loop {
                    match TcpListener::bind(SocketAddr::new(ip, port)) {
                        Err(e) if *search && e.kind() == io::ErrorKind::AddrInUse && port < u16::MAX => {
                            port += 1;
                        }
                        other => break other?,
                    }
                };
                (listener.local_addr()?.port().to_string(), Listener::Tcp(listener), None)
            }
            Self::Unix { path, mode } => {
                let (listener, place) = Place::bind(path, *mode)?;
                (path.display().to_string(), Listener::Unix(listener), Some(Mutex::new(place)))
            }
            Self::Given { number } => {
                let connection = Mutex::new(Some(Connection::given(*number)?));
                (number.to_string(), Listener::Given(connection), None)
            }
        };
        Ok(Bound::new(shown, listener, place))
    }
}

impl Bound {
    fn new(shown: String, listener: Listener, place: Option<Mutex<Place>>) -> Self {
        Self { shown, listener: Arc::new(listener), place, begun: AtomicBool::new(false) }
    }

    /// A TCP port that somebody else has opened.
    pub(crate) fn given(listener: TcpListener) -> Self {
        let shown = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        Self::new(shown, Listener::Tcp(listener), None)
    }

    /// The socket is going to be used: the one that it replaces is not restored any more. Returns that one,
    /// the first time.
    pub(crate) fn begin(&self) -> Option<Arc<Listener>> {
        if let Some(place) = &self.place
            && let Some(stale) = place.lock().ignore_poison().stale.take()
        {
            // The owner of the directory may have removed it already.
            let _ = std::fs::remove_file(stale);
        }
        (!self.begun.swap(true, Ordering::AcqRel)).then(|| Arc::clone(&self.listener))
    }

    /// Wakes the thread that sleeps in [`Listener::accept`], and removes a Unix socket.
    pub(crate) fn close(&self) {
        let socket = match &*self.listener {
            Listener::Tcp(l) => l.as_raw_fd(),
            Listener::Unix(l) => l.as_raw_fd(),
            // A connection is closed by whoever serves it.
            Listener::Given(_) => return,
        };
        // The socket is listening, so it can be shut down.
        let _ = socket::shutdown(socket, socket::Shutdown::Both);
        if let Some(place) = &self.place {
            place.lock().ignore_poison().close();
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.close();
    }
}

/// An unused name beside a path.
fn beside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    path.with_added_extension(format!("old-{}-{number}", std::process::id()))
}

/// Removes a socket from its path, but only this one: it is renamed first and checked then, so that another
/// file that is created there meanwhile is not lost. Returns its new path.
pub(crate) fn take_away(path: &Path, id: SocketId) -> io::Result<PathBuf> {
    let gone = || io::Error::other(format!("{} has been replaced", path.display()));
    if socket_at(path)? != id {
        return Err(gone());
    }
    let aside = beside(path);
    std::fs::rename(path, &aside)?;
    if socket_at(&aside).is_ok_and(|there| there == id) {
        return Ok(aside);
    }
    put_back(&aside, path);
    Err(gone())
}

/// Renames a file back to its path, unless there is another file by now.
fn put_back(aside: &Path, path: &Path) {
    let linked = std::fs::hard_link(aside, path);
    // If the file system has no hard links, the file is renamed, provided that the path is free.
    let _ = match linked {
        Ok(()) => std::fs::remove_file(aside),
        Err(_) if symlink_metadata(path).is_err() => std::fs::rename(aside, path),
        Err(_) => Ok(()),
    };
}

/// Whether a connection to a socket is refused. Does not wait for the connection: the listening process may
/// be busy, or its backlog may be full.
fn nobody_listens(path: &Path) -> bool {
    use socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect};
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let tried = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
        .and_then(|s| connect(s.as_raw_fd(), &UnixAddr::new(path)?));
    tried == Err(nix::errno::Errno::ECONNREFUSED)
}

impl Place {
    /// Makes a socket. A file that exists is not changed, unless it is a socket on which no process listens
    /// any more: left over from a process that died.
    fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, Self)> {
        let stale = match socket_at(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
            Ok(there) if nobody_listens(path) => Some(take_away(path, there)?),
            // The bind below fails then and reports that the address is in use.
            Ok(_) => None,
        };
        let made = private(|| UnixListener::bind(path))
            .and_then(|listener| socket_at(path).map(|there| (listener, there)));
        match made {
            Ok((listener, id)) => {
                let place = Self { path: path.to_owned(), id, stale, closed: false };
                if mode != PRIVATE {
                    std::fs::set_permissions(path, Permissions::from_mode(mode))?;
                }
                Ok((listener, place))
            }
            Err(e) => {
                stale.iter().for_each(|stale| put_back(stale, path));
                Err(e)
            }
        }
    }

    /// Removes the socket, if it is still the same one; has an effect only once.
    fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        // The owner of the directory may have removed or replaced it already.
        let _ = take_away(&self.path, self.id).and_then(std::fs::remove_file);
        if let Some(stale) = self.stale.take() {
            put_back(&stale, &self.path);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.close();
    }
}

/// Runs a function during which new files are private to their owner from the moment of their creation. This
/// applies also to files that other threads create meanwhile.
fn private<T>(make: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().ignore_poison();
    let before = umask(Mode::from_bits_truncate(0o777 & !PRIVATE));
    let made = make();
    umask(before);
    made
}

impl Listener {
    /// Waits for a connection; returns it with a text that describes where it comes from.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn accept(&self) -> io::Result<(Connection, String)> {
        match self {
            Self::Tcp(l) => l.accept().map(|(s, a)| {
                // Answers are small and should be sent at once; if the option cannot be set, they only arrive
                // later.
                let _ = s.set_nodelay(true);
                (Connection::Tcp(s), format!(" from {}.{}", a.ip(), a.port()))
            }),
            Self::Unix(l) => l.accept().map(|(s, _)| (Connection::Unix(s), String::new())),
            Self::Given(connection) => match connection.lock().ignore_poison().take() {
                Some(connection) => Ok((connection, String::new())),
                None => Err(io::ErrorKind::NotConnected.into()),
            },
        }
    }

    /// Whether there is one connection, and no other will come.
    pub(crate) fn is_one_connection(&self) -> bool {
        matches!(self, Self::Given(_))
    }
}

impl Connection {
    /// A connected socket of which the process has got a descriptor.
    fn given(number: i32) -> io::Result<Self> {
        use socket::{AddressFamily, SockType, SockaddrLike, SockaddrStorage, getpeername, getsockname};
        let fd = dpdk::descriptor::another(number)?;
        let address: SockaddrStorage = getsockname(fd.as_raw_fd())?;
        if socket::getsockopt(&fd, socket::sockopt::SockType)? != SockType::Stream {
            return Err(io::Error::other("not a stream socket"));
        }
        getpeername::<SockaddrStorage>(fd.as_raw_fd())?;
        // Who has opened it may not wait for it; here, a thread of its own does.
        match address.family() {
            Some(AddressFamily::Unix) => {
                let socket = UnixStream::from(fd);
                socket.set_nonblocking(false)?;
                Ok(Self::Unix(socket))
            }
            Some(AddressFamily::Inet | AddressFamily::Inet6) => {
                let socket = TcpStream::from(fd);
                socket.set_nonblocking(false)?;
                Ok(Self::Tcp(socket))
            }
            _ => Err(io::Error::other("neither a TCP nor a Unix socket")),
        }
    }

    /// The number of its descriptor.
    pub(crate) fn number(&self) -> i32 {
        match self {
            Self::Tcp(s) => s.as_raw_fd(),
            Self::Unix(s) => s.as_raw_fd(),
        }
    }
    /// Another handle on the connection.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn another(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(s) => s.try_clone().map(Self::Tcp),
            Self::Unix(s) => s.try_clone().map(Self::Unix),
        }
    }
    /// Stops reading; a thread that is reading wakes up.
    pub(crate) fn close_reading(&self) {
        // The other side may have closed the connection already.
        let _ = match self {
            Self::Tcp(s) => s.shutdown(Shutdown::Read),
            Self::Unix(s) => s.shutdown(Shutdown::Read),
        };
    }
    /// Ends the connection; a thread that reads or writes it wakes up.
    pub(crate) fn close(&self) {
        // The other side may have ended it already.
        let _ = match self {
            Self::Tcp(s) => s.shutdown(Shutdown::Both),
            Self::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.read(buffer),
            Self::Unix(s) => s.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.write(bytes),
            Self::Unix(s) => s.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.flush(),
            Self::Unix(s) => s.flush(),
        }
    }
}

/// How often to try again, once a second, if a socket cannot be opened.
pub(crate) struct Retries {
    count: u32,
    warnings: bool,
    /// Whether messages are Click's.
    click: bool,
    name: String,
    /// The heading of a message at the start.
    heading: String,
    hub: Arc<Hub>,
}

impl Retries {
    /// Reads the arguments `RETRIES` and `RETRY_WARNINGS`.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn read(args: &mut Args<'_>, cx: &ConfigCx<'_>) -> Result<Self, ArgError> {
        let count: i32 = args.k("RETRIES")?.unwrap_or(0);
        Ok(Self {
            count: count.try_into().unwrap_or(0),
            warnings: args.k("RETRY_WARNINGS")?.unwrap_or(true),
            click: cx.as_click(),
            name: cx.name().to_owned(),
            heading: cx.while_initializing(),
            hub: Arc::clone(cx.hub()),
        })
    }

    /// The server that is open under a key, or a new one.
    ///
    /// # Errors
    /// It cannot listen.
    pub(crate) fn open<T: Send + Sync + 'static>(
        &self,
        key: &str,
        make: impl FnOnce() -> io::Result<T>,
    ) -> Result<Arc<T>, String> {
        self.hub.resource(key, || make().map_err(|e| self.complaint(&e)))
    }

    /// What is said about an error.
    fn complaint(&self, e: &io::Error) -> String {
        let refused = e.get_ref().and_then(|e| e.downcast_ref::<CannotBind>());
        match refused.map(|refused| &refused.error).filter(|e| self.click && e.raw_os_error().is_some()) {
            Some(e) => format!("bind: {}", runtime::reason(e)),
            None => format!("cannot listen: {e}"),
        }
    }

    /// Has `open` called before the start of the router, and again while the router runs if it fails and
    /// there are tries left. `begin` puts a server into use that is opened while the router runs; for one
    /// that is opened before the start, the caller does.
    pub(crate) fn before_start(
        self,
        cx: &mut ConfigCx<'_>,
        open: impl Fn(&Self) -> Result<(), String> + Send + Sync + 'static,
        begin: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let this = Arc::new((self, open));
        let failed = Arc::new(AtomicBool::new(false));
        if this.0.count > 0 {
            let again = Arc::clone(&this);
            let open = Box::new(move || (again.1)(&again.0).and_then(|()| begin()));
            let (retries, failed) = (Arc::clone(&this), Arc::clone(&failed));
            let (name, hub) = (retries.0.name.clone(), Arc::clone(&retries.0.hub));
            let (left, warnings) = (retries.0.count, retries.0.warnings);
            cx.control(Box::new(Retry { left, warnings, name, hub, failed, due: None, open }));
        }
        cx.before_start(move || {
            let (retries, open) = &*this;
            let Err(e) = open(retries) else { return Ok(()) };
            if retries.count == 0 {
                return Err(e);
            }
            failed.store(true, Ordering::Release);
            if retries.warnings {
                let log = |line: &str| retries.hub.log(Level::WARN, &retries.name, line);
                log(&retries.heading);
                log(&format!("  {}", tries_left(&e, retries.count)));
            }
            Ok(())
        });
    }
}

fn tries_left(e: &str, left: u32) -> String {
    format!("warning: {e} ({left} {} left)", if left == 1 { "try" } else { "tries" })
}

/// Tries to open a socket while the router runs.
struct Retry {
    /// How many tries there are, with the next one.
    left: u32,
    warnings: bool,
    name: String,
    hub: Arc<Hub>,
    /// Whether the last try has failed.
    failed: Arc<AtomicBool>,
    /// The time of the next one.
    due: Option<u64>,
    open: Box<dyn Fn() -> Result<(), String> + Send>,
}

impl ControlTask for Retry {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        let now = router.now_ns();
        let due = *self.due.get_or_insert(now + SECOND_NS);
        if now < due {
            return Some(due);
        }
        let Err(e) = (self.open)() else {
            self.failed.store(false, Ordering::Release);
            return None;
        };
        self.left -= 1;
        if self.left == 0 {
            self.failed.store(false, Ordering::Release);
            self.hub.log(Level::ERROR, &self.name, &e);
            self.hub.request_stop();
            return None;
        }
        if self.warnings {
            self.hub.log(Level::WARN, &self.name, &tries_left(&e, self.left));
        }
        self.due = Some(now + SECOND_NS);
        self.due
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    /// A directory that is removed when the value is dropped.
    struct Dir(PathBuf);

    impl Dir {
        fn new() -> Self {
            let dir = beside(&std::env::temp_dir().join("valiant-listen"));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
        /// The names of the files in it.
        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn bind(path: &Path) -> Result<Bound, String> {
        Address::Unix { path: path.to_owned(), mode: PRIVATE }.bind().map_err(|e| e.to_string())
    }

    fn inode(path: &Path) -> FileId {
        id_of(&symlink_metadata(path).unwrap())
    }

    /// A socket on which no process listens.
    fn leave_behind(path: &Path) -> FileId {
        drop(UnixListener::bind(path).unwrap());
        inode(path)
    }

    #[test]
    fn ports_have_numbers_and_names() {
        let port = |word| port_of(word, &NameDb::default());
        assert_eq!(
            (port("0x1F90"), port("80"), port("http")),
            (Some((8080, false)), Some((80, false)), port("80"))
        );
        assert_eq!((port("8080+"), port("0x50+")), (Some((8080, true)), Some((80, true))));
        for wrong in ["70000", "x", "", "+", "0+", "65536+", "http+", "-1"] {
            assert_eq!(port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = Dir::new();
        let file = dir.path("file");
        std::fs::write(&file, "precious").unwrap();
        std::fs::create_dir(dir.path("directory")).unwrap();
        symlink("file", dir.path("link")).unwrap();
        symlink("nothing", dir.path("dangling")).unwrap();
        let stale = leave_behind(&dir.path("stale"));
        symlink("stale", dir.path("link-to-stale")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.path("fifo")).status().unwrap().success());
        let before = dir.names();
        for name in ["file", "directory", "link", "dangling", "link-to-stale", "fifo"] {
            let (path, was) = (dir.path(name), inode(&dir.path(name)));
            assert_eq!(bind(&path).err(), Some(format!("{}: exists and is no socket", path.display())));
            assert_eq!(inode(&path), was, "{name}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        let live = UnixListener::bind(dir.path("live")).unwrap();
        assert!(bind(&dir.path("live")).is_err_and(|e| e.contains("in use")));
        assert!(UnixStream::connect(dir.path("live")).is_ok());
        drop(live);
        std::fs::remove_file(dir.path("live")).unwrap();
        let bound = bind(&dir.path("stale")).unwrap();
        assert!(bound.begin().is_some() && bound.begin().is_none());
        assert_ne!(inode(&dir.path("stale")), stale);
        assert_eq!(dir.names(), before);
        drop(bound);
        assert!(!dir.names().contains(&"stale".to_owned()));
    }

    #[test]
    fn what_does_not_begin_leaves_what_was_there() {
        let dir = Dir::new();
        let (path, other) = (dir.path("socket"), dir.path("other"));
        let stale = leave_behind(&path);
        drop(bind(&path).unwrap());
        drop(bind(&other).unwrap());
        assert_eq!((inode(&path), dir.names()), (stale, vec!["socket".to_owned()]));
    }

    #[test]
    fn a_socket_that_somebody_has_replaced_stays() {
        let dir = Dir::new();
        let path = dir.path("socket");
        for begun in [false, true] {
            let bound = bind(&path).unwrap();
            assert!(!begun || bound.begin().is_some());
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "precious").unwrap();
            drop(bound);
            assert_eq!((std::fs::read(&path).unwrap().as_slice(), dir.names().len()), (&b"precious"[..], 1));
            std::fs::remove_file(&path).unwrap();
        }
        // Replaced between the check and the removal, with the same inode number or another one.
        for _ in 0..20 {
            drop(UnixListener::bind(&path).unwrap());
            let id = socket_at(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "precious").unwrap();
            assert!(take_away(&path, id).is_err());
            assert_eq!(std::fs::read(&path).unwrap(), b"precious");
            std::fs::remove_file(&path).unwrap();
        }
        // The renamed file gets its path back, unless a new file is there.
        let aside = beside(&path);
        std::fs::write(&aside, "precious").unwrap();
        put_back(&aside, &path);
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), dir.names().len()), (&b"precious"[..], 1));
        std::fs::write(&aside, "other").unwrap();
        put_back(&aside, &path);
        assert_eq!((std::fs::read(&path).unwrap().as_slice(), dir.names().len()), (&b"precious"[..], 2));
    }

    #[test]
    fn sockets_are_private_unless_said_otherwise() {
        let dir = Dir::new();
        let path = dir.path("socket");
        let mode = |mode| {
            let bound = Address::Unix { path: path.clone(), mode }.bind().unwrap();
            let found = symlink_metadata(&path).unwrap().permissions().mode() & 0o777;
            drop(bound);
            found
        };
        assert_eq!((mode(PRIVATE), mode(0o660)), (0o600, 0o660));
    }

    #[test]
    fn a_thread_that_waits_for_clients_wakes_at_the_end() {
        let dir = Dir::new();
        for address in [
            Address::Unix { path: dir.path("socket"), mode: PRIVATE },
            Address::Tcp { port: 0, search: false, local: false },
        ] {
            let bound = address.bind().unwrap();
            let listener = bound.begin().unwrap();
            let waiting = std::thread::spawn(move || listener.accept().is_err());
            // Before the thread waits, or while it does.
            std::thread::sleep(Duration::from_millis(20));
            drop(bound);
            assert!(waiting.join().unwrap());
        }
    }
}
