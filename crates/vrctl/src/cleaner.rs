//! A process that does nothing but to wait for the end of a host. If the host was killed, it ends the
//! processes of its routers and removes their control groups and sockets.

use crate::cgroup;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// What a host leaves behind if it is killed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remains {
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) sockets: Vec<PathBuf>,
    /// One end of each pair.
    #[serde(default)]
    pub(crate) interfaces: Vec<String>,
}

/// The process, as the host sees it.
#[derive(Debug)]
pub(crate) struct Cleaner {
    process: Child,
    told: Remains,
}

impl Cleaner {
    /// Starts it.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn start(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        // A signal from the terminal is for the host.
        command.arg0("valiant").args(["vr", "clean-up"]).stdin(Stdio::piped()).process_group(0);
        Ok(Self { process: command.spawn()?, told: Remains::default() })
    }

    /// What there is from here on.
    pub(crate) fn tell(&mut self, remains: Remains) {
        if remains == self.told {
            return;
        }
        let line = serde_json::to_string(&remains).unwrap_or_default();
        if let Some(pipe) = &mut self.process.stdin
            && let Err(e) = writeln!(pipe, "{line}")
        {
            tracing::warn!(target: "vr", "nothing is cleaned up if this host is killed: {}", launch::reason(&e));
        }
        self.told = remains;
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.tell(Remains::default());
        drop(self.process.stdin.take());
        // It ends by itself; a process that has ended is collected.
        let _ = self.process.wait();
    }
}

/// The process.
pub(crate) fn run() -> ExitCode {
    let mut remains = Remains::default();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        remains = serde_json::from_str(&line).unwrap_or(remains);
    }
    remains.groups.iter().for_each(|group| cgroup::clear(group));
    remains.interfaces.iter().for_each(|interface| drop(netlink::remove_pair(interface)));
    remains.sockets.iter().for_each(|socket| remove_socket(socket));
    ExitCode::SUCCESS
}

/// Removes a socket on which no process listens any more.
pub(crate) fn remove_socket(path: &Path) {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused) {
        // Its directory may be gone by now.
        let _ = std::fs::remove_file(path);
    }
}
