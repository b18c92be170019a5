//! `valiant cluster route`: routes that are entered once and distributed to every node.

use crate::args::{RouteArgs, RouteCommand};
use crate::etcd;
use crate::file::{Cluster, Node};
use crate::outcome::heard;
use crate::show::{ANSWER, unheard};
use launch::{Client, Failure, output};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often a node is asked whether it has a route.
const LOOK: Duration = Duration::from_millis(20);
/// How long a route may take to be on every node that answers.
const SPREAD: Duration = Duration::from_secs(3);

/// Connections to the nodes that answer, and the other nodes with the reason.
type Answering<'a> = (Vec<(u16, Client)>, Vec<(&'a Node, std::io::Error)>);

fn answering(cluster: &Cluster) -> Answering<'_> {
    let mut clients = Vec::new();
    let mut silent = Vec::new();
    for node in cluster.present() {
        match Client::connect_within(&node.socket.display().to_string(), ANSWER) {
            Ok(client) => clients.push((node.id, client)),
            Err(e) => silent.push((node, e)),
        }
    }
    (clients, silent)
}

/// The message if no node can be asked.
fn nobody_answers(file: &Path, cluster: &Cluster, silent: &[(&Node, std::io::Error)]) -> String {
    // A missing permission is the more useful message than nodes that do not run.
    match silent.iter().find(|(_, e)| e.kind() == std::io::ErrorKind::PermissionDenied) {
        Some((node, e)) => format!("node {}: {}", node.id, unheard(&node.socket.display().to_string(), e)),
        None => format!(
            "no node of {} answers; start them with `valiant cluster up {}`",
            cluster.name,
            file.display()
        ),
    }
}

/// The error of a node's ClusterRoutes, without the control socket's words around it.
fn refusal(id: u16, answer: &str) -> String {
    if answer.contains("No element named 'cluster_routes'") {
        return "the program has no routing table, or several; if several, name one in the cluster file: table = \"rt\""
            .to_owned();
    }
    let reason =
        answer.strip_prefix("Write handler 'cluster_routes.").and_then(|rest| rest.split_once(" error\n"));
    match reason {
        Some((_, reason)) => reason.to_owned(),
        None => format!("node {id}: {answer}"),
    }
}

/// A change of the routes.
struct Change<'a> {
    handler: &'static str,
    prefix: &'a str,
    /// The next hop from now on.
    via: Option<Ipv4Addr>,
}

impl<'a> Change<'a> {
    fn wanted(what: &'a RouteCommand) -> Option<Self> {
        let (handler, prefix, via) = match what {
            RouteCommand::List { .. } => return None,
            RouteCommand::Add { prefix, via } => ("add", prefix, Some(*via)),
            RouteCommand::Set { prefix, via } => ("set", prefix, Some(*via)),
            RouteCommand::Remove { prefix } => ("remove", prefix, None),
        };
        Some(Self { handler, prefix, via })
    }
    /// Enters it in etcd, if the cluster uses it: the nodes read it from there.
    fn in_etcd(&self, cluster: &Cluster) -> Result<bool, Failure> {
        match self.via {
            Some(via) if cluster.ports().all(|(_, _, port)| !port.net.contains(via)) => {
                Err(format!("{via} is in the network of no external port of {}", cluster.name).into())
            }
            Some(via) => etcd::add_route(cluster, self.prefix, &via.to_string(), self.handler == "set"),
            None => etcd::remove_route(cluster, self.prefix),
        }
    }
    /// Enters it at a node.
    fn enter(&self, client: &mut Client) -> std::io::Result<String> {
        let via = self.via.map_or_else(String::new, |via| format!(" {via}"));
        let value = format!("{}{via}", self.prefix);
        client.write(&format!("cluster_routes.{}", self.handler), value.as_bytes())
    }
    /// Whether a node has the route.
    fn is_in(&self, table: &str) -> bool {
        let mut lines = table.lines().map(str::split_whitespace);
        let found = lines.find_map(|mut words| (words.next()? == self.prefix).then(|| words.next()));
        found.flatten().map(str::parse).and_then(Result::ok) == self.via
    }
}

/// `valiant cluster route`.
pub(crate) fn route(args: &RouteArgs) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.file)?;
    let (mut clients, silent) = answering(&cluster);
    let Some(change) = Change::wanted(&args.what) else {
        let Some((id, first)) = clients.first_mut() else {
            return Err(nobody_answers(&args.file, &cluster, &silent).into());
        };
        let text = first.read("cluster_routes.table", "").map_err(|e| refusal(*id, &e.to_string()))?;
        let json = matches!(args.what, RouteCommand::List { json: true });
        output::print(&if json { format!("{}\n", routes_json(&text)) } else { text });
        return Ok(heard(silent.is_empty()));
    };
    let in_etcd = change.in_etcd(&cluster)?;
    if !in_etcd {
        let Some((id, first)) = clients.first_mut() else {
            return Err(nobody_answers(&args.file, &cluster, &silent).into());
        };
        change.enter(first).map_err(|e| refusal(*id, &e.to_string()))?;
    }
    let until = Instant::now() + SPREAD;
    let mut late: Vec<u16> = silent.iter().map(|(node, _)| node.id).collect();
    for (id, client) in &mut clients {
        while !change.is_in(&client.read("cluster_routes.table", "").unwrap_or_default()) {
            if Instant::now() > until {
                late.push(*id);
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    for id in &late {
        tracing::info!(
            target: "cluster",
            "node {id} does not have the route yet; it will get it from {} when it can",
            if in_etcd { "etcd" } else { "its neighbors" }
        );
    }
    Ok(heard(late.is_empty()))
}

fn routes_json(text: &str) -> Value {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (prefix, via) = (words.next()?, words.next()?);
            let node = words.next().and_then(|node| node.parse::<u16>().ok());
            Some(json!({"prefix": prefix, "via": via, "node": node}))
        })
        .collect()
}
