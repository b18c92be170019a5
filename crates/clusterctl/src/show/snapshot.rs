//! The state of a node, as it answers at one time.

use crate::file::{Cluster, Node};
use crate::process::{FORBIDDEN, local};
use launch::Client;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long a node may take to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(1);
/// The state of a node, as it answers at one time.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) status: Value,
    /// Packets dropped, by element and reason.
    pub(super) drops: Vec<(u64, String, String)>,
    /// Stuck workers, a line each: worker, seconds, element.
    pub(super) stuck: Vec<String>,
}

impl Snapshot {
    pub(super) fn dropped(&self) -> u64 {
        self.drops.iter().map(|(n, ..)| n).sum()
    }
}

/// Why a node does not answer.
pub(crate) fn unheard(socket: &str, e: &std::io::Error) -> String {
    use std::io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, TimedOut, WouldBlock};
    match e.kind() {
        NotFound | ConnectionRefused => format!("not running: cannot connect to {socket}"),
        WouldBlock | TimedOut => format!("{socket} does not answer"),
        PermissionDenied => format!("{socket}: {FORBIDDEN}"),
        _ => format!("{socket}: {}", launch::reason(e)),
    }
}

/// Asks a node.
fn ask(node: &Node) -> Result<Snapshot, String> {
    let socket = node.socket.display().to_string();
    let mut client = Client::connect_within(&socket, ANSWER).map_err(|e| unheard(&socket, &e))?;
    let text = client.read("cluster.status", "").map_err(|e| format!("{socket}: {e}"))?;
    let drops = client.read("drops", "").map_err(|e| format!("{socket}: {e}"))?;
    let stuck = client.read("stuck", "").unwrap_or_default().lines().map(str::to_owned).collect();
    let status = serde_json::from_str(&text).map_err(|e| format!("{socket}: cluster.status: {e}"))?;
    let drops = drops.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let n = fields.next()?.parse().ok()?;
        Some((n, fields.next()?.to_owned(), fields.next().unwrap_or_default().to_owned()))
    });
    Ok(Snapshot { at: Instant::now(), status, drops: drops.collect(), stuck })
}

/// Asks all nodes at once.
pub(super) fn ask_all(cluster: &Cluster) -> Vec<Result<Snapshot, String>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = cluster
            .present()
            .map(|node| {
                scope.spawn(move || {
                    ask(node).map_err(|problem| match &node.host {
                        Some(host) if !local(node) => format!("it is on {host}: ask there"),
                        _ => problem,
                    })
                })
            })
            .collect();
        asked
            .into_iter()
            .map(|a| a.join().unwrap_or_else(|_| Err("it could not be asked".to_owned())))
            .collect()
    })
}

/// A number in JSON; 0 if it is none.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
