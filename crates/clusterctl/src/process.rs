//! The nodes of this machine as processes: their sockets, their files, their devices.

use crate::file::{Cluster, LinkKind, Node};
use launch::{Client, Failure};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The message about a socket of another user.
pub(crate) const FORBIDDEN: &str =
    "permission denied: only root, or the user that started the node, controls it";
/// How long a running node may take to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);
/// A file beside a node's control socket: `.pid`, `.log`.
pub(crate) fn beside(node: &Node, extension: &str) -> PathBuf {
    node.socket.with_extension(extension)
}

/// Whether a node runs on this machine.
pub(crate) fn local(node: &Node) -> bool {
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    node.host.as_ref().is_none_or(|host| host == here.trim())
}

/// The node with this number, if it is to run.
pub(crate) fn node(cluster: &Cluster, id: u16) -> Result<&Node, Failure> {
    match cluster.node(id) {
        Some(node) if node.removed => Err(format!(
            "node {id} of {} is marked as removed: delete `removed = true` from the cluster file first",
            cluster.name
        )
        .into()),
        Some(node) => Ok(node),
        None => {
            let known: Vec<String> = cluster.present().map(|n| n.id.to_string()).collect();
            Err(format!("{} has no node {id}; it has the nodes {}", cluster.name, known.join(", ")).into())
        }
    }
}

/// Makes the directory of a control socket; everybody who can enter it controls the node.
pub(crate) fn make_directory(socket: &Path) -> Result<(), Failure> {
    let Some(dir) = socket.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) else {
        return Ok(());
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(|e| format!("{}: {}", dir.display(), launch::reason(&e)).into())
}

/// The devices of a node that another process has locked, each with that process.
pub(crate) fn taken(cluster: &Cluster, node: &Node) -> Vec<(String, String)> {
    let namespace = node.netns.as_ref().map(|netns| Path::new("/run/netns").join(netns));
    let links = node.links.iter().map(|link| match &link.kind {
        LinkKind::Device(device) => device,
        LinkKind::Vxlan(tunnel) => &tunnel.device,
    });
    let mut devices: Vec<&String> = node.ports.iter().map(|port| &port.device).chain(links).collect();
    devices.sort_unstable();
    devices.dedup();
    let mine = format!("node {} of {},", node.id, cluster.name);
    let owner = |device: &String| dpdk::interface_owner(device, namespace.as_deref());
    let taken = devices.into_iter().filter_map(|device| Some((device.clone(), owner(device)?)));
    taken.filter(|(_, owner)| !owner.starts_with(&mine)).collect()
}

/// Whether a node answers.
pub(crate) fn runs(node: &Node) -> bool {
    connect(&node.socket, ANSWER).is_ok()
}

/// The message about a node whose process runs and does not answer.
pub(crate) fn is_silent(node: &Node) -> Option<String> {
    let process = Running::of(node).process()?;
    Some(format!(
        "process {process} runs but does not answer; stop it with `valiant cluster down FILE --node {}`",
        node.id
    ))
}

pub(crate) fn connect(socket: &Path, limit: Duration) -> io::Result<Client> {
    Client::connect_within(&socket.display().to_string(), limit)
}

/// A node as its socket and its process file know it.
pub(crate) struct Running {
    pub(crate) id: u16,
    pub(crate) socket: PathBuf,
}

impl Running {
    pub(crate) fn of(node: &Node) -> Self {
        Self { id: node.id, socket: node.socket.clone() }
    }
    /// The process, if it still is the node's.
    pub(crate) fn process(&self) -> Option<u32> {
        let id: u32 = std::fs::read_to_string(self.socket.with_extension("pid")).ok()?.trim().parse().ok()?;
        let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        let runs_a_node = words.windows(2).any(|w| w == [&b"cluster"[..], b"run"]);
        // The number may be another process's by now.
        (runs_a_node && words.iter().any(|w| w.ends_with(self.id.to_string().as_bytes()))).then_some(id)
    }
}

/// The number of this process in a file, as long as it lives.
pub(crate) struct ProcessFile(PathBuf);

impl ProcessFile {
    pub(crate) fn write(path: PathBuf) -> Result<Self, Failure> {
        std::fs::write(&path, format!("{}\n", std::process::id()))
            .map_err(|e| format!("{}: {}", path.display(), launch::reason(&e)))?;
        Ok(Self(path))
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        // It may have been removed already, by the owner of the directory.
        let _ = std::fs::remove_file(&self.0);
    }
}
