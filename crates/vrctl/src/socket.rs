//! The control socket of a host: a request is a line of JSON, and so is the answer.

use nix::sys::stat::{Mode, umask};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// The longest request, in bytes.
const LONGEST: u64 = 4096;
/// How long a client may take to send its request or to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the host may take to do what is asked.
const LIMIT: Duration = Duration::from_secs(60);

/// What a host can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// To show its routers.
    Status,
    /// To read the host file again and to do the difference.
    Apply,
    /// To start a router of the host file.
    Add(String),
    /// To stop a router.
    Remove(String),
    /// To end.
    Down,
}

/// A request, and where its answer goes.
pub(crate) type Asked = (Request, SyncSender<Value>);

/// The listening socket; removed when this is dropped.
pub(crate) struct Server {
    path: PathBuf,
}

/// A socket that nobody but this user can connect to, from the moment when it is there.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

impl Server {
    /// Listens; requests come out of the receiver, and `ring` is called for each.
    ///
    /// # Errors
    /// The directory or the socket cannot be made, or another host listens there.
    pub(crate) fn start(
        path: &Path,
        ring: impl Fn() + Send + 'static,
    ) -> Result<(Self, Receiver<Asked>), String> {
        let told = |e: io::Error| format!("{}: {}", path.display(), launch::reason(&e));
        if UnixStream::connect(path).is_ok() {
            return Err(format!(
                "{}: another process listens there: is this host running already?",
                path.display()
            ));
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(told)?;
        }
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(told(e)),
            _ => {}
        }
        let listener = bind(path).map_err(told)?;
        let (ask, asked) = channel();
        let serve = move || {
            for client in listener.incoming() {
                // A client that has gone hears nothing.
                let _ = client.and_then(|client| answer(client, &ask, &ring));
            }
        };
        std::thread::Builder::new().name("valiant-vr".to_owned()).spawn(serve).map_err(told)?;
        Ok((Self { path: path.to_owned() }, asked))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been removed already, by the owner of the directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads a request, has it served, and writes the answer.
fn answer(client: UnixStream, ask: &Sender<Asked>, ring: &impl Fn()) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(client.try_clone()?.take(LONGEST)).read_line(&mut line)?;
    let value = match serde_json::from_str(&line) {
        Err(e) => json!({"ok": false, "error": format!("not a request: {e}")}),
        Ok(request) => {
            let (reply, answered) = sync_channel(1);
            let sent = ask.send((request, reply));
            ring();
            match sent.map(|()| answered.recv_timeout(LIMIT)) {
                Ok(Ok(value)) => value,
                Ok(Err(RecvTimeoutError::Timeout)) => {
                    json!({"ok": false, "error": "the host does not answer"})
                }
                Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => {
                    json!({"ok": false, "error": "the host is ending"})
                }
            }
        }
    };
    let mut client = client;
    // In one piece: a formatter writes a few bytes at a time.
    client.write_all(format!("{value}\n").as_bytes())
}

/// Asks a running host.
///
/// # Errors
/// A message: no host listens there, it does not answer, or it says why it did not do it.
pub(crate) fn ask(path: &Path, request: &Request) -> Result<Value, String> {
    let no_host = |e: &io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no host runs at {}: start it with `valiant vr up FILE`", path.display())
        }
        _ => format!("{}: {}", path.display(), launch::reason(e)),
    };
    let mut socket = UnixStream::connect(path).map_err(|e| no_host(&e))?;
    let told = |e: io::Error| format!("{}: {}", path.display(), launch::reason(&e));
    socket.set_read_timeout(Some(LIMIT + PATIENCE)).map_err(told)?;
    socket.set_write_timeout(Some(PATIENCE)).map_err(told)?;
    let line = serde_json::to_string(request).map_err(|e| e.to_string())?;
    socket.write_all(format!("{line}\n").as_bytes()).map_err(told)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).map_err(told)?;
    let value: Value = serde_json::from_str(&answer).map_err(|e| format!("{}: {e}", path.display()))?;
    if value["ok"] == json!(true) {
        return Ok(value);
    }
    Err(value["error"].as_str().unwrap_or("it has failed").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/host.sock");
        assert!(ask(&path, &Request::Status).unwrap_err().contains("no host runs"));
        let (server, asked) = Server::start(&path, || {}).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let serving = std::thread::spawn(move || {
            for (request, reply) in asked {
                let ok = request == Request::Add("blue".into());
                reply.send(json!({"ok": ok, "error": "not that"})).unwrap();
            }
        });
        assert!(ask(&path, &Request::Add("blue".into())).is_ok());
        assert_eq!(ask(&path, &Request::Down).unwrap_err(), "not that");
        assert!(Server::start(&path, || {}).err().unwrap().contains("another process"));
        let mut socket = UnixStream::connect(&path).unwrap();
        socket.write_all(b"{\"fly\": 1}\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert!(text.contains("not a request"), "{text}");
        drop(server);
        assert!(!path.exists());
        drop(serving);
    }
}
