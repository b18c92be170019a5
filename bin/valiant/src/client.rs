//! Talking to a running router over its control socket, and the file of dropped packets.

use crate::cli::{HandlerArgs, SocketArgs};
use runtime::{DropSample, Router};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// How long a router may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to a control socket (Click's ControlSocket protocol, version 1.3).
pub(crate) struct Client(BufReader<Box<dyn Stream>>);

impl Client {
    /// Connects to the router that the command line names, and shows it the token that is given there.
    fn connect(args: &SocketArgs) -> io::Result<Self> {
        let token = match (&args.token, &args.token_file) {
            (Some(token), _) if !token.is_empty() => Some(token.clone()),
            (_, Some(path)) => Some(std::fs::read_to_string(path).map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {e}", path.display()))
            })?),
            _ => None,
        };
        let mut client = Self::connect_within(&args.socket, ANSWER_LIMIT)?;
        if let Some(token) = token {
            client.show(token.trim())?;
        }
        Ok(client)
    }
    /// Shows a token. A router that asks for none does not know the command, and is content.
    fn show(&mut self, token: &str) -> io::Result<()> {
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a token is one word"));
        }
        match self.command(format!("TOKEN {token}\r\n").as_bytes()) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other.map(|_| ()),
        }
    }
    /// Connects to a router that takes no longer than `limit` to answer, now and later.
    pub(crate) fn connect_within(socket: &str, limit: Duration) -> io::Result<Self> {
        let stream: Box<dyn Stream> = if socket.contains('/') {
            let s = UnixStream::connect(socket)?;
            s.set_read_timeout(Some(limit))?;
            s.set_write_timeout(Some(limit))?;
            Box::new(s)
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
    /// Sends a command; returns the messages if the router agrees (2xx), an error with them if not.
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
    pub(crate) fn read(&mut self, handler: &str, arg: &str) -> io::Result<String> {
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
    pub(crate) fn write(&mut self, handler: &str, value: &[u8]) -> io::Result<String> {
        let mut bytes = format!("WRITEDATA {handler} {}\r\n", value.len()).into_bytes();
        bytes.extend_from_slice(value);
        self.command(&bytes)
    }
}

fn with_client(args: &SocketArgs, f: impl FnOnce(&mut Client) -> io::Result<String>) -> ExitCode {
    match Client::connect(args).and_then(|mut c| f(&mut c)) {
        Ok(text) => {
            let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            // A reader that went away is no error.
            let _ = write!(io::stdout(), "{text}{newline}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{}: {e}", args.socket);
            if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) {
                eprintln!(
                    "help: start the router with `valiant run -p PORT` or `-u PATH`, and name it with --socket"
                );
            }
            if e.kind() == io::ErrorKind::PermissionDenied
                && args.token.is_none()
                && args.token_file.is_none()
            {
                eprintln!("help: give the token by --token-file, or in the environment as VALIANT_TOKEN");
            }
            ExitCode::FAILURE
        }
    }
}

/// `valiant read`.
pub(crate) fn read(args: &HandlerArgs) -> ExitCode {
    with_client(&args.socket, |c| c.read(&args.handler, &args.value.join(" ")))
}

/// `valiant write`.
pub(crate) fn write(args: &HandlerArgs) -> ExitCode {
    let mut value = args.value.join(" ").into_bytes();
    if value == b"-" {
        value.clear();
        if let Err(e) = io::stdin().read_to_end(&mut value) {
            eprintln!("<stdin>: {e}");
            return ExitCode::FAILURE;
        }
    }
    with_client(&args.socket, |c| c.write(&args.handler, &value).map(|_| String::new()))
}

/// `valiant drops`.
pub(crate) fn drops(args: &SocketArgs) -> ExitCode {
    with_client(args, |c| {
        let text = c.read("drops", "")?;
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
        if args.json {
            let drop = |r: &Vec<&str>| {
                let packets: u64 = r.first()?.parse().ok()?;
                Some(serde_json::json!({"packets": packets, "element": r.get(1)?, "reason": r.get(2)?}))
            };
            let rows: Vec<_> = rows.iter().filter_map(drop).collect();
            return Ok(serde_json::Value::from(rows).to_string());
        }
        if rows.is_empty() {
            return Ok("no packet has been dropped".into());
        }
        Ok(rows.iter().fold(String::new(), |t, r| {
            t + &format!(
                "{:>12}  {:32} {}\n",
                r.first().unwrap_or(&""),
                r.get(1).unwrap_or(&""),
                r.get(2).unwrap_or(&"")
            )
        }))
    })
}

/// `valiant stats`.
pub(crate) fn stats(args: &SocketArgs) -> ExitCode {
    with_client(args, |c| c.read(if args.json { "stats.json" } else { "cycles" }, ""))
}

/// The writer of dropped packets.
pub(crate) struct DropFile {
    writer: std::thread::JoinHandle<io::Result<()>>,
    path: String,
}

/// Starts to write what is dropped into a pcapng file.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn drop_file(path: &Path, router: &Router) -> Result<DropFile, String> {
    let name = path.display().to_string();
    let problem = |e: io::Error| format!("{name}: {}", crate::load::reason(&e));
    let file = std::fs::File::create(path).map_err(problem)?;
    let (sender, samples): (SyncSender<DropSample>, _) = sync_channel(4096);
    let mut out = io::BufWriter::new(file);
    pcapng::header(&mut out).map_err(problem)?;
    let writer = std::thread::spawn(move || {
        while let Ok(sample) = samples.recv() {
            pcapng::packet(&mut out, &sample)?;
            for sample in samples.try_iter() {
                pcapng::packet(&mut out, &sample)?;
            }
            // Nothing waits: whoever looks at the file, or ends the process, finds all of it there.
            out.flush()?;
        }
        out.flush()
    });
    router.hub().set_tap(Some(sender));
    Ok(DropFile { writer, path: name })
}

impl DropFile {
    /// Ends the file.
    pub(crate) fn finish(self, router: &Router) {
        router.hub().set_tap(None);
        match self.writer.join() {
            Ok(Ok(())) => {}
            Ok(Err(e)) => eprintln!("{}: {}", self.path, crate::load::reason(&e)),
            Err(_) => eprintln!("{}: the writer failed", self.path),
        }
    }
}

/// As much of the pcapng format (draft-ietf-opsawg-pcapng) as dropped packets need: one section, one interface,
/// enhanced packet blocks with a comment.
mod pcapng {
    use super::{DropSample, Write, io};

    fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
        let total = (body.len() + 12) as u32;
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&total.to_le_bytes())?;
        out.write_all(body)?;
        out.write_all(&total.to_le_bytes())
    }

    fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
        let length = value.len().min(usize::from(u16::MAX) - 3);
        body.extend_from_slice(&code.to_le_bytes());
        body.extend_from_slice(&(length as u16).to_le_bytes());
        body.extend_from_slice(&value[..length]);
        pad(body);
    }

    fn pad(body: &mut Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
    }

    pub(super) fn header(out: &mut impl Write) -> io::Result<()> {
        let mut section = Vec::new();
        section.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
        section.extend_from_slice(&1u16.to_le_bytes());
        section.extend_from_slice(&0u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        option(&mut section, 4, b"Valiant"); // shb_userappl
        option(&mut section, 0, b"");
        block(out, 0x0a0d_0d0a, &section)?;
        let mut interface = Vec::new();
        interface.extend_from_slice(&1u16.to_le_bytes()); // LINKTYPE_ETHERNET
        interface.extend_from_slice(&0u16.to_le_bytes());
        interface.extend_from_slice(&0u32.to_le_bytes());
        option(&mut interface, 2, b"dropped"); // if_name
        option(&mut interface, 9, &[9]); // if_tsresol: nanoseconds
        option(&mut interface, 0, b"");
        block(out, 1, &interface)
    }

    pub(super) fn packet(out: &mut impl Write, sample: &DropSample) -> io::Result<()> {
        let mut body = Vec::new();
        body.extend_from_slice(&0u32.to_le_bytes());
        body.extend_from_slice(&((sample.at_ns >> 32) as u32).to_le_bytes());
        body.extend_from_slice(&(sample.at_ns as u32).to_le_bytes());
        body.extend_from_slice(&(sample.data.len() as u32).to_le_bytes());
        body.extend_from_slice(&(sample.data.len() as u32).to_le_bytes());
        body.extend_from_slice(&sample.data);
        pad(&mut body);
        option(&mut body, 1, format!("{}: {}", sample.element, sample.reason).as_bytes());
        option(&mut body, 0, b"");
        block(out, 6, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn dropped_packets_are_in_the_file_before_it_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drops.pcapng");
        let config = lang::Source::new("test", "Idle -> c :: CheckIPHeader -> Discard");
        let options = runtime::Options::default();
        let mut router =
            Router::new(&[config], lang::LoadOptions::default(), Arc::new(elements::registry()), options)
                .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
        let samples = drop_file(&path, &router).unwrap();
        router.inject("c", 0, dpdk::Packet::from_bytes(b"no IP at all").into_iter().collect());
        let found = || std::fs::read(&path).unwrap().windows(12).any(|w| w == b"no IP at all");
        // If the process ended now, nothing would be lost.
        assert!((0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            found()
        }));
        samples.finish(&router);
    }
}
