//! Starting, stopping and reconfiguring the nodes of this machine.

use crate::args::{SomeNodes, UpArgs};
use crate::file::{Cluster, Node};
use crate::key::{key_is_good, warn_of_open_key};
use crate::outcome::{Outcome, conclude};
use crate::process::{
    ANSWER, FORBIDDEN, Running, beside, connect, is_silent, local, make_directory, node, runs, taken,
};
use crate::program::{check_node, configuration, load};
use launch::{Background, Failure};
use runtime::Registry;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node may take to switch to another configuration: it opens ports.
const CHANGE: Duration = Duration::from_secs(30);
/// How long it may take to stop by itself.
const END: Duration = Duration::from_secs(8);
/// How long a signal may take.
const SIGNAL: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// The nodes that a command is for: those given, or all of this machine.
fn chosen<'a>(cluster: &'a Cluster, named: &[u16]) -> Result<Vec<&'a Node>, Failure> {
    let mut nodes = Vec::new();
    for id in named {
        nodes.push(node(cluster, *id)?);
    }
    if named.is_empty() {
        nodes.extend(cluster.present().filter(|n| local(n)));
        let elsewhere: Vec<String> = cluster
            .present()
            .filter(|n| !local(n))
            .map(|n| format!("{} on {}", n.id, n.host.as_deref().unwrap_or("?")))
            .collect();
        if !elsewhere.is_empty() {
            tracing::info!(target: "cluster", "not on this machine: node {}", elsewhere.join(", node "));
        }
    }
    Ok(nodes)
}

/// Starts a node: a process of its own that outlives this one.
fn spawn(file: &Path, node: &Node, args: &UpArgs) -> Result<Background, String> {
    make_directory(&node.socket).map_err(|failure| match failure {
        Failure::Text(text) => text,
        Failure::Diagnostics(_) => "its socket has no directory".to_owned(),
    })?;
    let (id, machine) = (node.id.to_string(), args.machine.words());
    let mut words: Vec<&dyn AsRef<OsStr>> = vec![&"cluster", &"run", &file, &"--node", &id];
    words.extend(machine.iter().map(|word| word as &dyn AsRef<OsStr>));
    Background::start(&words, beside(node, "log"))
}

/// Starts nodes, all at once, except those whose devices are in use.
fn start(cluster: &Cluster, file: &Path, nodes: &[&Node], args: &UpArgs) -> Vec<Outcome> {
    let until = Instant::now() + args.patience;
    let begin = |node: &'_ &Node| {
        let in_use = taken(cluster, node);
        let words = in_use.iter().map(|(device, owner)| format!("its device {device} is in use by {owner}"));
        if in_use.is_empty() { Ok(()) } else { Err(words.collect::<Vec<_>>().join("; ")) }
    };
    let begun: Vec<_> =
        nodes.iter().map(|node| (*node, begin(node).and_then(|()| spawn(file, node, args)))).collect();
    begun
        .into_iter()
        .map(|(node, begun)| match begun.and_then(|starting| starting.wait(until, || runs(node))) {
            Ok(()) => Outcome::new(node.id, "started"),
            Err(problem) => Outcome::failed(node.id, problem),
        })
        .collect()
}

/// `valiant cluster up`.
pub(crate) fn up(registry: &Arc<Registry>, args: &UpArgs) -> Result<ExitCode, Failure> {
    let (cluster, program) = load(registry, &args.nodes.of.file)?;
    key_is_good(&cluster)?;
    warn_of_open_key(&cluster);
    let nodes = chosen(&cluster, &args.nodes.node)?;
    for node in &nodes {
        check_node(registry, &cluster, &program, node)?;
    }
    let (running, still): (Vec<&Node>, Vec<&Node>) = nodes.into_iter().partition(|n| runs(n));
    let mut outcomes: Vec<Outcome> = running.iter().map(|n| Outcome::new(n.id, "already running")).collect();
    let (silent, still): (Vec<&Node>, Vec<&Node>) = still.into_iter().partition(|n| is_silent(n).is_some());
    outcomes.extend(silent.iter().map(|n| Outcome::failed(n.id, is_silent(n).unwrap_or_default())));
    outcomes.extend(start(&cluster, &args.nodes.of.file, &still, args));
    outcomes.sort_by_key(|o| o.node);
    Ok(conclude(&outcomes, args.nodes.of.json))
}

impl Running {
    /// Asks the node to end.
    fn ask(&self) -> Found {
        match connect(&self.socket, ANSWER) {
            // A node that is about to exit may not answer.
            Ok(mut client) => {
                let _ = client.write("stop", b"");
                Found::Asked
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Found::Forbidden,
            Err(_) if self.process().is_some() => Found::Silent,
            Err(_) => Found::Nothing,
        }
    }
    fn gone_by(&self, until: Instant) -> bool {
        while self.process().is_some() || connect(&self.socket, LOOK).is_ok() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }
    /// Waits until it has stopped, and sends signals if it does not.
    fn end(&self, found: &Found) -> Outcome {
        if matches!(found, Found::Asked) && self.gone_by(Instant::now() + END) {
            self.clean();
            return Outcome::new(self.id, "stopped");
        }
        for signal in ["-TERM", "-KILL"] {
            let Some(process) = self.process() else { break };
            let sent = Command::new("kill").args([signal, &process.to_string()]).status();
            if sent.is_ok_and(|s| s.success()) && self.gone_by(Instant::now() + SIGNAL) {
                self.clean();
                return Outcome::new(
                    self.id,
                    if signal == "-TERM" { "stopped by a signal" } else { "killed" },
                );
            }
        }
        Outcome::failed(self.id, format!("it does not stop (process {:?})", self.process()))
    }
    /// Removes the files of a node that was killed.
    fn clean(&self) {
        for path in [&self.socket, &self.socket.with_extension("pid")] {
            // Usually the node has removed them.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// How a node can be stopped.
enum Found {
    /// It has been asked to stop.
    Asked,
    /// A process that does not answer.
    Silent,
    /// Its socket is another user's.
    Forbidden,
    Nothing,
}

/// Stops nodes: all are asked first, as none needs the others.
fn stop(nodes: &[Running]) -> Vec<Outcome> {
    let asked: Vec<(&Running, Found)> = nodes.iter().map(|n| (n, n.ask())).collect();
    asked
        .into_iter()
        .map(|(node, found)| match found {
            Found::Asked | Found::Silent => node.end(&found),
            Found::Forbidden => Outcome::failed(node.id, format!("{}: {FORBIDDEN}", node.socket.display())),
            Found::Nothing => {
                node.clean();
                Outcome::new(node.id, "was not running")
            }
        })
        .collect()
}

/// `valiant cluster down`.
pub(crate) fn down(args: &SomeNodes) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.of.file)?;
    let mut nodes: Vec<Running> = chosen(&cluster, &args.node)?.into_iter().map(Running::of).collect();
    if args.node.is_empty() {
        nodes.extend(surplus(&cluster));
    }
    Ok(conclude(&stop(&nodes), args.of.json))
}

/// Nodes that run here and should not: deleted from the file, or marked as removed.
fn surplus(cluster: &Cluster) -> Vec<Running> {
    let mut found: Vec<Running> =
        cluster.nodes.iter().filter(|n| n.removed && local(n)).map(Running::of).collect();
    // The socket of a deleted node was in the same directory as the others.
    let dirs: BTreeSet<&Path> = cluster.nodes.iter().filter_map(|n| n.socket.parent()).collect();
    for entry in dirs.into_iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten() {
        let path = entry.path();
        let id = path.file_name().and_then(|n| n.to_str()).and_then(|n| {
            n.strip_prefix(&cluster.name)?.strip_prefix('-')?.strip_suffix(".sock")?.parse::<u16>().ok()
        });
        if let Some(id) = id.filter(|id| cluster.node(*id).is_none()) {
            found.push(Running { id, socket: path });
        }
    }
    found.retain(|n| connect(&n.socket, ANSWER).is_ok() || n.process().is_some());
    found
}

/// A node that runs the new configuration, with its old one.
struct Changed<'a> {
    node: &'a Node,
    before: String,
}

/// `valiant cluster apply`.
pub(crate) fn apply(registry: &Arc<Registry>, args: &UpArgs) -> Result<ExitCode, Failure> {
    let (cluster, program) = load(registry, &args.nodes.of.file)?;
    key_is_good(&cluster)?;
    warn_of_open_key(&cluster);
    let nodes = chosen(&cluster, &args.nodes.node)?;
    if cluster.etcd.is_some() {
        tracing::warn!(
            target: "cluster",
            "the nodes follow etcd: differences from it last until the next `valiant cluster push`"
        );
    }
    let mut wanted = Vec::new();
    for node in &nodes {
        check_node(registry, &cluster, &program, node)?;
        wanted.push((*node, configuration(&cluster, &program, node)?));
    }
    let (running, new): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(node, _)| runs(node));
    let mut outcomes: Vec<Outcome> =
        new.iter().filter_map(|(node, _)| Some(Outcome::failed(node.id, is_silent(node)?))).collect();
    if !outcomes.is_empty() {
        tracing::info!(target: "cluster", "nothing has been changed");
        return Ok(conclude(&outcomes, args.nodes.of.json));
    }
    let mut changed: Vec<Changed<'_>> = Vec::new();
    for (node, text) in &running {
        match change(node, text) {
            Ok(Some(before)) => {
                changed.push(Changed { node, before });
                outcomes.push(Outcome::new(node.id, "reconfigured"));
            }
            Ok(None) => outcomes.push(Outcome::new(node.id, "unchanged")),
            Err(problem) => {
                outcomes.push(Outcome::failed(node.id, problem));
                outcomes.extend(go_back(&changed));
                return Ok(conclude(&outcomes, args.nodes.of.json));
            }
        }
    }
    let new: Vec<&Node> = new.into_iter().map(|(node, _)| node).collect();
    let started = start(&cluster, &args.nodes.of.file, &new, args);
    let failed = started.iter().any(|o| o.problem.is_some());
    outcomes.extend(started);
    if failed {
        // The cluster works without this node, as without any node that is down. The other nodes keep the new
        // configuration, so that this one can be started again.
        tracing::info!(
            target: "cluster",
            "the other nodes run as the file says; start the missing ones with `valiant cluster up`"
        );
    } else if args.nodes.node.is_empty() {
        outcomes.extend(stop(&surplus(&cluster)));
    }
    Ok(conclude(&outcomes, args.nodes.of.json))
}

/// Gives a running node its new configuration. Returns the old one, or none if it is the same.
fn change(node: &Node, text: &str) -> Result<Option<String>, String> {
    let mut client = connect(&node.socket, CHANGE).map_err(|e| e.to_string())?;
    let before = client.read("hotconfig", "").map_err(|e| e.to_string())?;
    // The key is not in the configuration. A node of a version that cannot report a key change keeps its key.
    if before == text && client.read("cluster.key_changed", "").is_ok_and(|changed| changed != "true") {
        return Ok(None);
    }
    client.write("hotconfig", text.as_bytes()).map_err(|e| e.to_string())?;
    Ok(Some(before))
}

/// Gives nodes their old configurations again, in reverse order.
fn go_back(changed: &[Changed<'_>]) -> Vec<Outcome> {
    changed
        .iter()
        .rev()
        .map(|Changed { node, before }| match change(node, before) {
            Ok(_) => Outcome::new(node.id, "returned to its old configuration"),
            Err(problem) => {
                Outcome::failed(node.id, format!("it does not return to its old configuration: {problem}"))
            }
        })
        .collect()
}
