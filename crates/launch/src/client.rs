//! The client of a control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a control socket (Click's ControlSocket protocol, version 1.3).
pub struct Client(BufReader<Box<dyn Stream>>);

impl Client {
    /// Sends a token. A router that requires none does not know the command, which is not an error.
    ///
    /// # Errors
    /// The router refuses it, or the connection fails.
    pub fn show_token(&mut self, token: &str) -> io::Result<()> {
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a token must be one word"));
        }
        match self.command(format!("TOKEN {token}\r\n").as_bytes()) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other.map(|_| ()),
        }
    }
    /// Connects to a router; each answer may take `limit`.
    ///
    /// # Errors
    /// No process listens on the socket, or it is not a control socket.
    pub fn connect_within(socket: &str, limit: Duration) -> io::Result<Self> {
        let is_path = socket.contains('/') || (socket.parse::<u16>().is_err() && Path::new(socket).exists());
        let stream: Box<dyn Stream> = if is_path {
            let s = UnixStream::connect(socket)?;
            s.set_read_timeout(Some(limit))?;
            s.set_write_timeout(Some(limit))?;
            Box::new(s)
        } else if !socket.contains(':') && socket.parse::<u16>().is_err() {
            let message = "there is no such socket, and this is no TCP port";
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        } else {
            let address =
                if socket.contains(':') { socket.to_owned() } else { format!("127.0.0.1:{socket}") };
            let s = TcpStream::connect(address)?;
            s.set_read_timeout(Some(limit))?;
            s.set_write_timeout(Some(limit))?;
            Box::new(s)
        };
        let mut client = Self(BufReader::new(stream));
        let banner = client.line()?;
        if banner.starts_with("Click::ControlSocket/1.") {
            Ok(client)
        } else {
            Err(io::Error::other("this is not a control socket"))
        }
    }
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the router closed the connection"));
        }
        Ok(line.trim_end().to_owned())
    }
    /// Sends a command; returns the messages of a success (2xx), or an error with the messages.
    fn command(&mut self, bytes: &[u8]) -> io::Result<String> {
        self.0.get_mut().write_all(bytes)?;
        let mut messages = String::new();
        loop {
            let line = self.line()?;
            let (code, rest) = line.split_at_checked(3).unwrap_or(("", &line));
            messages += rest.get(1..).unwrap_or("");
            if rest.starts_with('-') {
                messages.push('\n');
                continue;
            }
            return match code {
                code if code.starts_with('2') => Ok(messages),
                "501" => Err(io::Error::new(io::ErrorKind::Unsupported, messages)),
                "530" if messages.contains("TOKEN") => {
                    Err(io::Error::new(io::ErrorKind::PermissionDenied, messages))
                }
                _ => Err(io::Error::other(messages)),
            };
        }
    }
    /// Reads a handler.
    ///
    /// # Errors
    /// The router refuses ([`io::ErrorKind::Other`]), or the connection fails.
    pub fn read(&mut self, handler: &str, arg: &str) -> io::Result<String> {
        let space = if arg.is_empty() { "" } else { " " };
        self.command(format!("READ {handler}{space}{arg}\r\n").as_bytes())?;
        let header = self.line()?;
        let n = header
            .strip_prefix("DATA ")
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| io::Error::other("malformed answer"))?;
        let mut data = Vec::new();
        (&mut self.0).take(n).read_to_end(&mut data)?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }
    /// Writes a handler.
    ///
    /// # Errors
    /// The router refuses ([`io::ErrorKind::Other`]), or the connection fails.
    pub fn write(&mut self, handler: &str, value: &[u8]) -> io::Result<String> {
        let mut bytes = format!("WRITEDATA {handler} {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(value);
        self.command(&bytes)
    }
}
