//! Sockets that elements listen on: TCP ports and Unix sockets.

use crate::prelude::*;
use runtime::Hub;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where to listen. Displayed as the port or the path.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// A TCP port, of the loopback interface only if `local`; `search`: or the next one that is free.
    Tcp { port: u16, search: bool, local: bool },
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { port, .. } => port.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// An open socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
pub(crate) enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Address {
    /// Reads the arguments `TYPE`, `ADDRESS` and `LOCALHOST`.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn read(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let kind: String = args.mp("TYPE")?;
        let address: String = args.mp("ADDRESS")?;
        let local = args.k("LOCALHOST")?.unwrap_or(true);
        match kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let (number, search) =
                    address.strip_suffix('+').map_or((address.as_str(), false), |n| (n, true));
                let port =
                    number.parse().map_err(|_| ArgError::new(format!("'{address}' is not a TCP port")))?;
                Ok(Self::Tcp { port, search, local })
            }
            "UNIX" => Ok(Self::Unix(PathBuf::from(address))),
            other => Err(ArgError::new(format!("unknown socket type '{other}'"))),
        }
    }

    /// Listens. Returns also where, with the port that was chosen.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn bind(&self) -> io::Result<(Listener, Self)> {
        match self {
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
                let port = listener.local_addr()?.port();
                Ok((Listener::Tcp(listener), Self::Tcp { port, search: false, local: *local }))
            }
            Self::Unix(path) => {
                // A socket file that nobody listens on is left over from a process that died.
                if UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
                    std::fs::remove_file(path)?;
                }
                Ok((Listener::Unix(UnixListener::bind(path)?), self.clone()))
            }
        }
    }

    /// Wakes the thread that sleeps in [`Listener::accept`], and removes a Unix socket.
    pub(crate) fn close(&self) {
        match self {
            Self::Tcp { port, .. } => drop(TcpStream::connect((Ipv4Addr::LOCALHOST, *port))),
            Self::Unix(path) => {
                drop(UnixStream::connect(path));
                // It may have been removed already, by whoever owns the directory.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Listener {
    /// Waits for a connection; returns it with words for where it comes from.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn accept(&self) -> io::Result<(Connection, String)> {
        match self {
            Self::Tcp(l) => l.accept().map(|(s, a)| {
                // Answers are small and wanted at once; without the option they only come later.
                let _ = s.set_nodelay(true);
                (Connection::Tcp(s), format!(" from {a}"))
            }),
            Self::Unix(l) => l.accept().map(|(s, _)| (Connection::Unix(s), String::new())),
        }
    }
}

impl Connection {
    /// Another handle on the connection.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn another(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(s) => s.try_clone().map(Self::Tcp),
            Self::Unix(s) => s.try_clone().map(Self::Unix),
        }
    }
    /// Ends the connection; who reads or writes it wakes.
    pub(crate) fn close(&self) {
        // The other side may have done it already.
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

/// How long to go on while an address is in use.
pub(crate) struct Retries {
    count: u32,
    warnings: bool,
}

impl Retries {
    /// Reads the arguments `RETRIES` and `RETRY_WARNINGS`.
    ///
    /// # Errors
    /// One of them is wrong.
    pub(crate) fn read(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let count = args.k("RETRIES")?.unwrap_or(0);
        Ok(Self { count, warnings: args.k("RETRY_WARNINGS")?.unwrap_or(true) })
    }

    /// The server that is open under a key, or a new one, tried once a second.
    ///
    /// # Errors
    /// It cannot listen.
    pub(crate) fn open<T: Send + Sync + 'static>(
        &self,
        (hub, name, key): (&Arc<Hub>, &str, &str),
        make: impl Fn() -> io::Result<T>,
    ) -> Result<Arc<T>, ArgError> {
        let mut tries = 0;
        loop {
            match hub.resource(key, || make().map_err(|e| e.to_string())) {
                Ok(server) => return Ok(server),
                Err(_) if tries < self.count => {
                    tries += 1;
                    if self.warnings {
                        hub.chatter(&format!("{name}: address in use, retrying"));
                    }
                    std::thread::sleep(Duration::from_secs(1));
                }
                Err(e) => return Err(ArgError::new(format!("cannot listen: {e}"))),
            }
        }
    }
}
