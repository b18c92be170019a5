//! The program of the whole router, analyzed: what it has for each port of the cluster, and where it cannot
//! be split. All errors are collected.

use super::digest::digest;
use super::graph::Graph;
use super::text::{ether, stand_in};
use crate::file::{Cluster, Node, Port, Route, broadcast};
use lang::{Config, Diagnostic, Diagnostics, Library, LoadOptions, PortRef, Source, split_args, unquote};
use runtime::{Class, Notify, Registry, Role};
use std::collections::BTreeSet;

/// The class that resolves next hops, which error messages name.
pub(super) const QUERIER: &str = "ARPQuerier";
/// Classes that error messages suggest.
const RECEIVER: &str = "FromDevice";
const SENDER: &str = "ToDevice";

/// The elements that the program has for a port.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    pub(super) sources: Vec<usize>,
    pub(super) sinks: Vec<usize>,
    /// The ARPQuerier in front of the sinks.
    pub(super) querier: usize,
    /// The queue before it.
    pub(super) queues: Vec<usize>,
    /// The output of the routing table for this port.
    pub(super) output: Option<usize>,
}

/// The program's elements, by the roles of their classes.
struct Roles<'a> {
    config: &'a Config,
    registry: &'a Registry,
}

impl Roles<'_> {
    fn class(&self, element: usize) -> Option<&Class> {
        self.registry.get(&self.config.elements[element].class)
    }
    fn of(&self, element: usize) -> Role {
        self.class(element).map_or(Role::Ordinary, |class| class.role)
    }
    /// Whether no packets come from it.
    fn is_silent(&self, element: usize) -> bool {
        self.class(element).is_some_and(|class| class.notify == Notify::Silent)
    }
}

/// The program of the whole router, analyzed.
pub(crate) struct ClusterProgram {
    pub(super) config: Config,
    /// By the number of the port.
    pub(super) ports: Vec<Uses>,
    /// The routing table that the cluster's routes go to, and the class that it must be of so that routes can
    /// be added.
    pub(super) table: Option<(usize, Option<&'static str>)>,
    /// Elements that no packets come from.
    pub(super) silent: BTreeSet<usize>,
    pub(super) digest: String,
}

impl ClusterProgram {
    /// Loads the program with the variables that the cluster file defines.
    ///
    /// # Errors
    /// All errors of the program.
    pub(crate) fn load(
        cluster: &Cluster,
        source: &Source,
        library: Option<Library>,
        registry: &Registry,
    ) -> Result<Self, Diagnostics> {
        let options = LoadOptions { defines: variables(cluster), library };
        let config = lang::load(std::slice::from_ref(source), &options, registry)?;
        let roles = Roles { config: &config, registry };
        let graph = Graph::new(&config);
        let mut diags = Diagnostics::new();
        check_names(&config, &mut diags);
        let mut ports = find_devices(cluster, &roles, &mut diags);
        for (node, _, port) in cluster.ports() {
            let analysis = PortAnalysis { program: &source.name, roles: &roles, graph: &graph, node, port };
            analysis.run(&mut ports[port.number], &mut diags);
        }
        if !diags.has_errors() {
            one_device_each(&config, &graph, &ports, &mut diags);
        }
        let table = find_table(cluster, &roles, &mut diags);
        if let Some((table, _)) = table {
            outputs(&config, &graph, table, &mut ports);
        }
        check_routes(cluster, &source.name, table.is_some(), &ports, &mut diags);
        diags.sort();
        diags.set_sources(config.sources.clone());
        if diags.has_errors() {
            return Err(diags);
        }
        let silent = (0..config.elements.len()).filter(|e| roles.is_silent(*e)).collect();
        let digest = digest(cluster, &config);
        Ok(Self { config, ports, table, silent, digest })
    }

    /// Warnings about the program.
    pub(crate) fn warnings(&self) -> &Diagnostics {
        &self.config.warnings
    }

    /// A digest of the settings that all nodes must have in common.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// The variables of the program: the file's own, and seven for each port, numbered over all nodes.
fn variables(cluster: &Cluster) -> Vec<(String, String)> {
    let mut defines = cluster.defines.clone();
    for (_, _, port) in cluster.ports() {
        let n = port.number;
        let mut define = |name: &str, value: String| defines.push((format!("{name}{n}"), value));
        define("DEV", stand_in(n));
        define("IP", port.ip.to_string());
        define("NET", port.net.to_string());
        define("BASE", port.net.addr.to_string());
        define("BCAST", broadcast(&port.net).to_string());
        if let Some(mac) = port.mac {
            define("MAC", ether(mac));
        }
        if let Some(mtu) = port.mtu {
            define("MTU", mtu.to_string());
        }
    }
    defines
}

/// Whether the cluster gives an element this name.
fn reserved(name: &str) -> bool {
    let link = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    name == "cluster"
        || name == "vlb"
        || name.starts_with("cluster_")
        || name.strip_prefix("link").is_some_and(link)
}

/// The names that `valiant cluster` gives to elements are not used by the program.
fn check_names(config: &Config, diags: &mut Diagnostics) {
    for element in config.elements.iter().filter(|e| reserved(&e.name)) {
        diags.push(
            Diagnostic::error(
                element.span,
                format!("'{}' is a name that `valiant cluster` uses", element.name),
            )
            .with_help("choose another one: 'cluster', 'vlb', 'cluster_...' and 'linkN...' are reserved"),
        );
    }
}

/// Finds the elements that receive from, or send to, the device of each port.
fn find_devices(cluster: &Cluster, roles: &Roles<'_>, diags: &mut Diagnostics) -> Vec<Uses> {
    let mut ports: Vec<Uses> = cluster.ports().map(|_| Uses::default()).collect();
    for (index, element) in roles.config.elements.iter().enumerate() {
        let role = roles.of(index);
        if role == Role::DeviceSource || role == Role::DeviceSink {
            match port_of(cluster, &element.config) {
                Ok(port) if role == Role::DeviceSource => ports[port].sources.push(index),
                Ok(port) => ports[port].sinks.push(index),
                Err(message) => diags.push(
                    Diagnostic::error(element.config_span, format!("{}: {message}", element.class)).with_help(
                        "name devices by the variables $DEV0, $DEV1, ...: the ports of the cluster file, numbered over all nodes",
                    ),
                ),
            }
        }
    }
    ports
}

/// The analysis of one port of the cluster.
struct PortAnalysis<'a> {
    /// The name of the program's file.
    program: &'a str,
    roles: &'a Roles<'a>,
    graph: &'a Graph,
    node: &'a Node,
    port: &'a Port,
}

impl PortAnalysis<'_> {
    /// Finds the port's ARPQuerier and queues, which lie before its sinks.
    fn run(&self, uses: &mut Uses, diags: &mut Diagnostics) {
        self.check_devices(uses, diags);
        let Some(sink) = uses.sinks.first().copied() else { return };
        let Self { roles, graph, port, .. } = self;
        let config = roles.config;
        let queriers: Vec<usize> = (0..config.elements.len())
            .filter(|e| roles.of(*e) == Role::NextHopResolver)
            .filter(|e| graph.reach(&[*e], |_| false).contains(&sink))
            .collect();
        let place = config.elements[sink].span;
        match queriers[..] {
            [one] => {
                uses.querier = one;
                let between = |e: &usize| {
                    roles.of(*e) == Role::Queue
                        && graph.reach(&[*e], |_| false).iter().any(|e| uses.sinks.contains(e))
                };
                let behind = graph.reach(&[one], |_| false);
                uses.queues = behind.into_iter().filter(between).collect();
                if port.rate_bps.is_some() && uses.queues.is_empty() {
                    diags.push(
                        Diagnostic::error(place, format!("{} has a rate, but no Queue before its ToDevice", self.name()))
                            .with_help("the rate is shared fairly by a Queue before the device: ... -> Queue -> ToDevice"),
                    );
                }
            }
            [] => diags.push(
                Diagnostic::error(place, format!("{} of {} is not behind an {QUERIER}", config.elements[sink].class, self.name()))
                    .with_help(
                        "in a cluster, IP packets leave by an ARPQuerier: packets from other nodes enter there, with their next hop",
                    ),
            ),
            [first, second, ..] => diags.push(
                Diagnostic::error(place, format!("{} is behind several {QUERIER}s", self.name()))
                    .with_note(config.elements[first].span, "one of them")
                    .with_note(config.elements[second].span, "another")
                    .with_help("send everything for a port through one ARPQuerier"),
            ),
        }
    }

    /// The program both receives from the port and sends to it.
    fn check_devices(&self, uses: &Uses, diags: &mut Diagnostics) {
        for (list, class) in [(&uses.sources, RECEIVER), (&uses.sinks, SENDER)] {
            if list.is_empty() {
                diags.push(
                    Diagnostic::error(
                        None,
                        format!("{}: the program has no {class} for {}", self.program, self.name()),
                    )
                    .with_help(format!(
                        "{class}($DEV{}); or delete the port from the cluster file",
                        self.port.number
                    )),
                );
            }
        }
    }

    fn name(&self) -> String {
        format!("port {} ({} of node {})", self.port.number, self.port.device, self.node.id)
    }
}

/// There is a routing table for the routes of the cluster file, with an output for each of their ports.
fn check_routes(cluster: &Cluster, program: &str, table: bool, ports: &[Uses], diags: &mut Diagnostics) {
    for Route { prefix, via, port } in &cluster.routes {
        if !table {
            diags.push(
                Diagnostic::error(None, format!("{program}: no routing table for the route to {prefix}"))
                    .with_help("the program has none, or several; if several, name one in the cluster file: table = \"rt\""),
            );
            break;
        }
        if ports.get(*port).is_some_and(|p| p.output.is_none()) {
            diags.push(
                Diagnostic::error(
                    None,
                    format!("{program}: no output of the routing table leads to port {port}, where {via} is"),
                )
                .with_help("each port has an output of the table of its own"),
            );
        }
    }
}

/// The port whose device an element's arguments name.
fn port_of(cluster: &Cluster, config: &str) -> Result<usize, String> {
    let args = split_args(config);
    let named = args.iter().find_map(|a| a.text.strip_prefix("DEVNAME ").map(str::trim));
    let device = unquote(named.or_else(|| args.first().map(|a| a.text.as_str())).unwrap_or_default());
    if let Some((_, _, port)) = cluster.ports().find(|(_, _, p)| stand_in(p.number) == device) {
        return Ok(port.number);
    }
    let mut like = cluster.ports().filter(|(_, _, p)| p.device == device);
    match (like.next(), like.next()) {
        (Some((_, _, port)), None) => Ok(port.number),
        (Some(_), Some(_)) => Err(format!("several nodes have a device '{device}'")),
        (None, _) => Err(format!("'{device}' is not a port of the cluster file")),
    }
}

/// An ARPQuerier sends to only one device.
fn one_device_each(config: &Config, graph: &Graph, ports: &[Uses], diags: &mut Diagnostics) {
    for (number, port) in ports.iter().enumerate() {
        let reached = graph.reach(&[port.querier], |_| false);
        let others = |(n, p): &(usize, &Uses)| *n != number && p.sinks.iter().any(|s| reached.contains(s));
        if let Some((other, uses)) = ports.iter().enumerate().find(others) {
            let querier = &config.elements[port.querier];
            diags.push(
                Diagnostic::error(
                    querier.span,
                    format!(
                        "packets from '{}' can reach the devices of port {number} and of port {other}",
                        querier.name
                    ),
                )
                .with_note(config.elements[uses.sinks[0]].span, "one of them")
                .with_help("give each port an ARPQuerier of its own"),
            );
        }
    }
}

/// The routing table: the one that the file names, or the only one.
fn find_table(
    cluster: &Cluster,
    roles: &Roles<'_>,
    diags: &mut Diagnostics,
) -> Option<(usize, Option<&'static str>)> {
    let config = roles.config;
    let as_table = |i: usize| match roles.of(i) {
        Role::RouteTable { changeable } => Some((i, changeable)),
        _ => None,
    };
    let mut tables = (0..config.elements.len()).filter_map(as_table);
    let Some(name) = &cluster.table else {
        return tables.next().filter(|_| tables.next().is_none());
    };
    let found = config.find(name).and_then(as_table);
    if found.is_none() {
        let names: Vec<&str> = tables.map(|(t, _)| config.elements[t].name.as_str()).collect();
        diags.push(
            Diagnostic::error(None, format!("table = \"{name}\": the program has no such routing table"))
                .with_nearest(name, "the table", &names)
                .with_help(format!(
                    "its tables: {}",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )),
        );
    }
    found
}

/// Determines which output of the table is used for which port: the ports that packets reach from there,
/// without passing the table again.
fn outputs(config: &Config, graph: &Graph, table: usize, ports: &mut [Uses]) {
    for output in 0..config.outputs_used(table) {
        let first: Vec<usize> = config
            .connections
            .iter()
            .filter(|c| c.from == PortRef { element: table, port: output })
            .map(|c| c.to.element)
            .collect();
        let reached = graph.reach(&first, |e| e == table);
        let mut there = ports.iter_mut().filter(|p| reached.contains(&p.querier));
        if let (Some(port), None) = (there.next(), there.next())
            && port.output.is_none()
        {
            port.output = Some(output);
        }
    }
}

#[cfg(test)]
mod tests;
