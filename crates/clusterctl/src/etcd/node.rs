//! The node of this process from the agent's point of view, and the configuration that it starts with.

use super::agent::{ActionError, Agent, Node as Followed};
use super::kept::{Kept, write};
use super::open::{host, store};
use super::store::{Document, Seen, Store, StoreError};
use crate::file::{Cluster, Node};
use crate::process;
use crate::program::{configuration, program_of};
use crate::split::ClusterProgram;
use etcd::Limits;
use lang::Source;
use launch::{Client, Failure, shortest};
use runtime::Registry;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tracing::Level;

/// How long this node may take to answer its own agent,
const ANSWER: Duration = Duration::from_secs(10);
/// and to switch to another configuration: it opens ports.
const CHANGE: Duration = Duration::from_secs(30);
/// Reads a stored configuration as if it were in `file`.
pub(super) fn parse(file: &Path, document: &Document) -> Result<Cluster, Failure> {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let dir = absolute.parent().unwrap_or(Path::new("/"));
    Ok(Cluster::parse(&format!("{} (from etcd)", shortest(file)), &document.file, dir)?)
}

/// The same, with the program.
fn split(
    registry: &Registry,
    file: &Path,
    document: &Document,
) -> Result<(Cluster, ClusterProgram), Failure> {
    let cluster = parse(file, document)?;
    let source = Source::new(shortest(&cluster.program), document.program.as_str());
    let program = program_of(registry, &cluster, &source)?;
    Ok((cluster, program))
}

/// Where a node's configuration comes from.
pub(crate) struct Origin {
    store: Store,
    ttl_s: u32,
    file: PathBuf,
    kept: Kept,
}

/// The configurations that a node may start with, the best first: of the one in etcd and the stored copies,
/// the one with the highest serial number. The one in etcd is left out if it is older than the latest seen;
/// otherwise it is recorded in `seen`.
fn best(
    store: &Store,
    there: Option<(Document, i64)>,
    had: Vec<(Document, i64)>,
    seen: &mut Seen,
) -> Vec<(Document, i64)> {
    let mut found = Vec::new();
    if let Some((document, revision)) = there {
        let mark = store.mark(&document);
        if !seen.is_after(&mark) {
            seen.see(&mark);
            found.push((document, revision));
        }
    }
    for (document, revision) in had {
        if found.iter().all(|(d, _)| *d != document) {
            found.push((document, revision));
        }
    }
    // Of equal ones the first stays the first.
    found.sort_by_key(|(document, _)| std::cmp::Reverse(document.serial));
    found
}

/// The configuration that a node runs: the latest of the one in etcd and the stored copies; without any, the
/// file.
pub(crate) fn begin(
    registry: &Arc<Registry>,
    file: &Path,
    id: u16,
    from_file: (Cluster, ClusterProgram),
) -> Result<(Cluster, ClusterProgram, Option<Origin>), Failure> {
    let (cluster, program) = from_file;
    let Some(store) = store(&cluster, Limits::default())? else { return Ok((cluster, program, None)) };
    let ttl_s = cluster.etcd.as_ref().map_or(5, |e| e.ttl_s);
    let (had, mut seen) = Kept::all(&store, file, [process::node(&cluster, id)?]);
    let there = match store.config() {
        Ok(Some((document, revision))) => {
            if seen.is_after(&store.mark(&document)) {
                tracing::warn!(target: "etcd", "{}", StoreError::Old { revision });
            }
            Some((document, revision))
        }
        Ok(None) if had.is_empty() => {
            tracing::info!(
                target: "etcd",
                "etcd: no configuration of {} yet: this is the file's, until `valiant cluster push`",
                cluster.name
            );
            None
        }
        Ok(None) => {
            tracing::warn!(
                target: "etcd",
                "etcd: the configuration of {} was removed there: this node begins with what it had; `valiant cluster push` \
                 puts it back",
                cluster.name
            );
            None
        }
        Err(e) => {
            tracing::warn!(target: "etcd", "{e}");
            None
        }
    };
    let begin_empty = there.is_none() && had.is_empty();
    let found = best(&store, there, had, &mut seen);
    let origin = |running| {
        let kept = Kept { running, seen: seen.clone() };
        Some(Origin { store: store.clone(), ttl_s, file: file.to_owned(), kept })
    };
    for (document, revision) in found {
        match split(registry, file, &document) {
            Ok((cluster, program)) => {
                tracing::info!(
                    target: "etcd",
                    "etcd: this node begins with revision {revision} of the configuration, from {}",
                    document.by
                );
                return Ok((cluster, program, origin(Some((document, revision)))));
            }
            Err(e) => tracing::warn!(
                target: "etcd",
                "etcd: revision {revision} of the configuration cannot be used here: {}",
                e.text()
            ),
        }
    }
    if !begin_empty {
        tracing::info!(target: "etcd", "etcd: this node begins with its file");
    }
    Ok((cluster, program, origin(None)))
}

impl Origin {
    /// Follows etcd from here on.
    pub(crate) fn follow(self, registry: &Arc<Registry>, node: &Node) -> Agent {
        let (running, seen) = (self.kept.running.clone(), self.kept.seen.clone());
        let mut here = LocalNode {
            registry: Arc::clone(registry),
            store: self.store.clone(),
            paths: Kept::paths(&self.file, node),
            file: self.file,
            id: node.id,
            socket: node.socket.clone(),
            client: None,
            kept: self.kept,
            warned: false,
        };
        if seen != Seen::default() {
            here.keep();
        }
        Agent::start(self.store, here, node.id, &host(), self.ttl_s, running, seen)
    }
}

/// The node of this process. The agent uses its control socket, like any other client: so the agent never
/// waits for a worker, and no worker for the agent.
struct LocalNode {
    registry: Arc<Registry>,
    store: Store,
    file: PathBuf,
    id: u16,
    socket: PathBuf,
    client: Option<Client>,
    /// The copies and their paths.
    kept: Kept,
    paths: [PathBuf; 2],
    /// Whether it has been reported that one of the files cannot be written.
    warned: bool,
}

impl LocalNode {
    fn connect(&self, limit: Duration) -> Result<Client, ActionError> {
        Client::connect_within(&self.socket.display().to_string(), limit)
            .map_err(|e| ActionError::Later(format!("{}: {}", self.socket.display(), launch::reason(&e))))
    }
    /// Sends a request to the node; a working connection is kept for the next one.
    fn ask(&mut self, work: impl FnOnce(&mut Client) -> io::Result<String>) -> Result<String, ActionError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.connect(ANSWER)?,
        };
        let answer = work(&mut client).map_err(|e| failure(&e));
        if !matches!(answer, Err(ActionError::Later(_))) {
            self.client = Some(client);
        }
        answer
    }
    fn keep(&mut self) {
        let text = self.kept.text(&self.store);
        for path in &self.paths {
            if let Err(e) = write(path, &text)
                && !std::mem::replace(&mut self.warned, true)
            {
                tracing::warn!(
                    target: "etcd",
                    "etcd: {}: what this node runs, and how far the configurations have got, may not be known there when it \
                     starts again",
                    e.text()
                );
            }
        }
    }
}

/// An error reported by the node is final; if it does not answer, it may succeed later.
fn failure(e: &io::Error) -> ActionError {
    match e.kind() {
        io::ErrorKind::Other => ActionError::Never(e.to_string().trim().to_owned()),
        _ => ActionError::Later(launch::reason(e)),
    }
}

impl Followed for LocalNode {
    fn configure(&mut self, document: &Document, revision: i64) -> Result<(), ActionError> {
        let never = |e: Failure| ActionError::Never(e.text());
        let (cluster, program) = split(&self.registry, &self.file, document).map_err(never)?;
        // The new configuration may have another socket.
        self.client = None;
        let mut client = self.connect(CHANGE)?;
        let node = match cluster.node(self.id) {
            Some(node) if !node.removed => node,
            _ => {
                let message = format!(
                    "revision {revision} of {} has no node {} any more: it stops",
                    cluster.name, self.id
                );
                self.say(Level::WARN, &message);
                return client.write("stop", b"").map(drop).map_err(|e| failure(&e));
            }
        };
        let text = configuration(&cluster, &program, node).map_err(never)?;
        if client.read("hotconfig", "").map_err(|e| failure(&e))? != text {
            client.write("hotconfig", text.as_bytes()).map_err(|e| failure(&e))?;
        }
        self.socket.clone_from(&node.socket);
        self.kept.running = Some((document.clone(), revision));
        self.keep();
        Ok(())
    }
    fn see(&mut self, seen: &Seen) {
        self.kept.seen.clone_from(seen);
        self.keep();
    }
    fn routes(&mut self) -> Result<BTreeMap<String, String>, ActionError> {
        // What the last round left may have been closed since.
        self.client = None;
        let text = self.ask(|client| client.read("cluster_routes.table", ""))?;
        let route = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        Ok(text.lines().filter_map(route).collect())
    }
    fn add_route(&mut self, prefix: &str, via: &str) -> Result<(), ActionError> {
        let value = format!("{prefix} {via}");
        self.ask(|client| client.write("cluster_routes.set", value.as_bytes())).map(drop)
    }
    fn remove_route(&mut self, prefix: &str) -> Result<(), ActionError> {
        self.ask(|client| client.write("cluster_routes.remove", prefix.as_bytes())).map(drop)
    }
    fn say(&mut self, level: Level, message: &str) {
        // Error messages of etcd begin with its name.
        let about = if message.starts_with("etcd") { "" } else { "etcd: " };
        if level == Level::WARN {
            tracing::warn!(target: "etcd::agent", "{about}{message}");
        } else {
            tracing::info!(target: "etcd::agent", "{about}{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept::tests::{document, store};
    use super::*;

    /// Whatever etcd and the stored copies contain, a node starts with the highest number that it knows.
    #[test]
    fn a_node_begins_with_the_latest_configuration() {
        let store = store();
        let first = |there: Option<u64>, had: &[u64], seen: u64| {
            let mut seen = Seen { serial: seen, ..Seen::default() };
            had.iter().for_each(|n| seen.see(&store.mark(&document(*n, "a"))));
            let had = had.iter().map(|n| (document(*n, "a"), *n as i64)).collect();
            let found = best(&store, there.map(|n| (document(n, "a"), 100 + n as i64)), had, &mut seen);
            (found.first().map(|(d, revision)| (d.serial, *revision)), seen.serial)
        };
        assert_eq!(first(None, &[], 0), (None, 0));
        assert_eq!(first(Some(5), &[], 0), (Some((5, 105)), 5));
        // A deleted key does not invalidate the copy.
        assert_eq!(first(None, &[5, 6], 0), (Some((6, 6)), 6));
        // A newer one, the same one, and an older one that was restored.
        assert_eq!(first(Some(7), &[5, 6], 0), (Some((7, 107)), 7));
        assert_eq!(first(Some(6), &[6, 6], 0), (Some((6, 106)), 6));
        assert_eq!(first(Some(5), &[6], 0), (Some((6, 6)), 6));
        // One that was seen and could not be run here counts too: those in between are older.
        assert_eq!(first(Some(8), &[6], 9), (Some((6, 6)), 9));
        assert_eq!(first(Some(8), &[], 9), (None, 9));
        // A different one with the same number is not accepted.
        let mut seen = store.mark(&document(6, "a"));
        assert_eq!(best(&store, Some((document(6, "b"), 1)), vec![], &mut seen), []);
    }
}
