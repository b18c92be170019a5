//! `valiant cluster`: many servers, one router.
//!
//! `file` reads the cluster file, `split` makes one configuration for each node of the program of the whole router, `node` runs
//! one of them, `control` starts, stops and changes those of this machine, `show` asks all that answer; `etcd` keeps the file, routes
//! and who is there in etcd, for those who want that.

pub(crate) mod args;
mod control;
mod etcd;
mod file;
mod node;
mod show;
mod split;

use args::{ClusterArgs, ClusterCommand, JsonFile};
use file::{Cluster, Node};
use lang::{Diagnostics, Source};
use runtime::{Options, Registry, Router};
use serde_json::json;
use split::Whole;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Something was done, but not by all nodes.
pub(crate) const SOME_DO_NOT_ANSWER: u8 = 3;
/// Bytes of a key that is made here,
const KEY_BYTES: usize = 32;
/// and of those that are taken (ClusterInfo).
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

/// Why a command cannot do what it is for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// In one sentence.
    Text(String),
    /// What is wrong with files.
    Diagnostics(Box<Diagnostics>),
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Diagnostics> for Failure {
    fn from(diags: Diagnostics) -> Self {
        Self::Diagnostics(Box::new(diags))
    }
}

impl Failure {
    fn report(&self) {
        match self {
            Self::Text(text) => eprintln!("error: {text}"),
            Self::Diagnostics(diags) => launch::report(diags),
        }
    }
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Diagnostics(diags) => diags.render_plain(diags.sources()).trim_end().to_owned(),
        }
    }
    fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!({"ok": false, "error": text}),
            Self::Diagnostics(diags) => json!({"ok": false, "diagnostics": diags.to_json(diags.sources())}),
        }
    }
}

/// Runs the command.
pub(crate) fn cluster(registry: &Arc<Registry>, args: &ClusterArgs) -> ExitCode {
    let done = match &args.command {
        ClusterCommand::Check(args) => check(registry, args),
        ClusterCommand::Config(args) => load(registry, &args.file).and_then(|(cluster, whole)| {
            say(&configuration(&cluster, &whole, node(&cluster, args.node)?)?);
            Ok(ExitCode::SUCCESS)
        }),
        ClusterCommand::Run(args) => node::run(registry, args),
        ClusterCommand::Up(args) => control::up(registry, args),
        ClusterCommand::Down(args) => control::down(args),
        ClusterCommand::Status(args) => show::status(args),
        ClusterCommand::Matrix(args) => show::matrix(args),
        ClusterCommand::Route(args) => show::route(args),
        ClusterCommand::Apply(args) => control::apply(registry, args),
        ClusterCommand::Push(args) => etcd::push(registry, args),
        ClusterCommand::Pull(args) => etcd::pull(args),
        ClusterCommand::Key { file } => key(file.as_deref()),
    };
    done.unwrap_or_else(|failure| {
        if args.command.json() {
            say(&format!("{}\n", failure.json()));
        } else {
            failure.report();
        }
        ExitCode::FAILURE
    })
}

/// Prints to standard output; a reader that went away is no error.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Reads a cluster file and its program.
fn load(registry: &Registry, file: &Path) -> Result<(Cluster, Whole), Failure> {
    let cluster = Cluster::load(file)?;
    let whole = program(registry, &cluster)?;
    Ok((cluster, whole))
}

/// Reads the program of a cluster.
fn program(registry: &Registry, cluster: &Cluster) -> Result<Whole, Failure> {
    let path = shortest(&cluster.program);
    let bytes = std::fs::read(&cluster.program).map_err(|e| {
        format!("the program {path}: {} (program = \"...\" in the cluster file)", launch::reason(&e))
    })?;
    program_of(registry, cluster, &Source::from_bytes(path, &bytes))
}

/// A program, with the variables that the cluster file defines.
fn program_of(registry: &Registry, cluster: &Cluster, source: &Source) -> Result<Whole, Failure> {
    Ok(Whole::load(cluster, source, Some(launch::library(String::new())), registry)?)
}

/// A path as seen from here, if it is below.
fn shortest(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

/// A node that is to run.
fn node(cluster: &Cluster, id: u16) -> Result<&Node, Failure> {
    match cluster.node(id) {
        Some(node) if node.removed => Err(format!(
            "node {id} of {} is removed: take `removed = true` out of the cluster file first",
            cluster.name
        )
        .into()),
        Some(node) => Ok(node),
        None => {
            let known: Vec<String> = cluster.present().map(|n| n.id.to_string()).collect();
            Err(format!("{} has no node {id}: its nodes are {}", cluster.name, known.join(", ")).into())
        }
    }
}

/// The configuration of a node.
fn configuration(cluster: &Cluster, whole: &Whole, node: &Node) -> Result<String, Failure> {
    Ok(whole.node(cluster, node)?)
}

/// Whether a node runs on this machine.
fn local(node: &Node) -> bool {
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    node.host.as_ref().is_none_or(|host| host == here.trim())
}

/// Warns of a key that others may read, before nodes are started that say so where nobody looks.
fn warn_of_open_key(cluster: &Cluster) {
    if let Some(path) = &cluster.key_file
        && std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0)
    {
        let name = shortest(path);
        eprintln!("warning: others than its owner may read the key {name}: chmod 600 {name}");
    }
}

/// Whether the cluster's key can be used, if it has one.
fn key_is_good(cluster: &Cluster) -> Result<(), Failure> {
    let Some(path) = &cluster.key_file else {
        eprintln!("warning: {} has no key: whoever reaches one of its links can join it", cluster.name);
        return Ok(());
    };
    let name = shortest(path);
    let text = std::fs::read_to_string(path).map_err(|e| {
        let help = match e.kind() {
            ErrorKind::NotFound => {
                format!("`valiant cluster key {name}` makes one; copy it to every node")
            }
            ErrorKind::PermissionDenied => "its owner, or root, runs the nodes".to_owned(),
            _ => "key_file = \"...\" in the cluster file names it".to_owned(),
        };
        format!("the key {name}: {}\nhelp: {help}", launch::reason(&e))
    })?;
    let digits: String = text.split_whitespace().collect();
    let good = digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !good || !KEY_LENGTHS.contains(&(digits.len() / 2)) {
        return Err(format!(
            "the key {name} is not {} to {} bytes in hexadecimal digits\nhelp: `valiant cluster key FILE` makes a key",
            KEY_LENGTHS.start(),
            KEY_LENGTHS.end()
        )
        .into());
    }
    Ok(())
}

/// Makes a key.
fn key(file: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut bytes = [0; KEY_BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(|e| format!("/dev/urandom: {}", launch::reason(&e)))?;
    let text = bytes.iter().fold(String::new(), |t, b| t + &format!("{b:02x}")) + "\n";
    let Some(path) = file else {
        say(&text);
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| format!("{}: {}", path.display(), launch::reason(&e)))?;
    Ok(ExitCode::SUCCESS)
}

/// Checks what a node would run. Returns how many elements it has, and the warnings.
fn check_node(
    registry: &Arc<Registry>,
    cluster: &Cluster,
    whole: &Whole,
    node: &Node,
) -> Result<(usize, Diagnostics), Failure> {
    let name = format!("node {} of {}", node.id, cluster.name);
    let source = Source::new(name, configuration(cluster, whole, node)?);
    let options =
        Options { check_only: true, workers: node.workers.into(), hotswap: true, ..Options::default() };
    let router = Router::new(&[source], lang::LoadOptions::default(), Arc::clone(registry), options)?;
    let mut warnings = router.warnings().clone();
    warnings.set_sources(router.warnings().sources().clone());
    Ok((router.elements().len(), warnings))
}

/// Checks a cluster file and all that it stands for.
fn check(registry: &Arc<Registry>, args: &JsonFile) -> Result<ExitCode, Failure> {
    load(registry, &args.file).and_then(|(cluster, whole)| {
        key_is_good(&cluster)?;
        let mut nodes = Vec::new();
        for node in cluster.present() {
            let (elements, warnings) = check_node(registry, &cluster, &whole, node)?;
            nodes.push((node, elements, warnings));
        }
        let ports = cluster.ports().filter(|(node, ..)| !node.removed).count();
        let ends: usize = nodes.iter().map(|(node, ..)| node.links.len()).sum();
        // What is wrong with this machine is not wrong with the file.
        let taken: Vec<_> = cluster
            .present()
            .filter(|node| local(node))
            .flat_map(|node| node::taken(&cluster, node).into_iter().map(move |(device, owner)| (node.id, device, owner)))
            .collect();
        if args.json {
            let taken: Vec<_> = taken
                .iter()
                .map(|(node, device, owner)| json!({"node": node, "device": device, "owner": owner}))
                .collect();
            let nodes: Vec<_> = nodes
                .iter()
                .map(|(node, elements, warnings)| {
                    json!({"node": node.id, "elements": elements, "ports": node.ports.len(), "links": node.links.len(),
                        "socket": node.socket, "warnings": warnings.to_json(warnings.sources())})
                })
                .collect();
            let warnings = cluster.warnings.to_json(cluster.warnings.sources());
            say(&format!(
                "{}\n",
                json!({"ok": true, "name": cluster.name, "digest": whole.digest(), "ports": ports, "nodes": nodes, "warnings": warnings, "taken": taken})
            ));
        } else {
            launch::report(&cluster.warnings);
            launch::report(whole.warnings());
            for (node, device, owner) in &taken {
                eprintln!("warning: node {node}: {owner}, has its device {device}");
            }
            // What is odd about one node's elements is odd about all of them.
            nodes.iter().take(1).for_each(|(_, _, warnings)| launch::report(warnings));
            say(&format!(
                "{}: {} nodes, {ports} external ports, {} links, no errors\n",
                cluster.name,
                nodes.len(),
                ends / 2
            ));
            for (node, elements, _) in &nodes {
                let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
                let (ports, links) = (count(node.ports.len(), "port"), count(node.links.len(), "link"));
                say(&format!("node {}: {ports}, {links}, {elements} elements\n", node.id));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests;
