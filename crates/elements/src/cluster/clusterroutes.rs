//! # ClusterRoutes
//! Distributes routes that are entered on one node of a cluster to the routing tables of all nodes.
//!
//! Each node has a copy of these routes, and its ClusterLinks send changes to the neighbors. Of two entries
//! for one network the later one wins on all nodes, even if messages are lost or late, or a part of the
//! cluster was disconnected for a while. A node that starts gets the routes from its neighbors; they are lost
//! only if all nodes are down at once.
//!
//! ## Synopsis
//! `ClusterRoutes(CLUSTER, TABLE)`
//!
//! ## Arguments
//! - `CLUSTER` (*element*): the ClusterInfo of this node.
//! - `TABLE` (*element*, keyword): the routing table: a RadixIPLookup, DirectIPLookup, RangeIPLookup,
//!   LinearIPLookup or SortedIPLookup. Its own routes without a gateway, /16 to /31, determine the outputs of
//!   the external ports' networks. A route goes to the output of the network that its gateway is in.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `add` (write, *PREFIX GATEWAY*): enters a route, on all nodes. There must be none for the network,
//!   unless it is the same.
//! - `set` (write, *PREFIX GATEWAY*): the same, and replaces an existing route.
//! - `remove` (write, *PREFIX*): removes a route that was entered here or on another node. A route of the
//!   table's own arguments for the same network is used again.
//! - `table` (read): a line for each route: network, gateway, the node where it was entered.
//! - `count` (read): how many there are.
//! - `digest` (read): the same on all nodes that have the same routes.
//! - `problems` (read): routes that this node's table does not accept, and why.
//!
//! Networks of external ports and addresses of the router itself (routes of the table's arguments without a
//! gateway, /16 and longer) cannot be replaced.
//!
//! ## Threads
//! The control thread adds routes to the table as soon as they are known, up to a thousand at a time; workers
//! continue to forward. There can be 1,048,576 routes. A hot swap keeps them.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
//! rt :: RadixIPLookup(10.0.1.1/32 0, 10.0.1.0/24 1, 10.0.2.0/24 2);
//! ClusterRoutes(cluster, TABLE rt);
//! Idle -> rt; rt [0] -> Discard; rt [1] -> Discard; rt [2] -> Discard;
//! ```
//!
//! ## See also
//! ClusterInfo, ClusterLink, RadixIPLookup

use super::engine::fabric::Fabric;
use super::engine::state::{ClusterState, state_of};
use crate::plumbing::engine::text;
use crate::prelude::*;
use cluster::routes::{self, RouteError};
use lang::args::{ElementName, IpPrefix, NameDb};
use locks::IgnorePoison;
use runtime::{Control, ControlTask, Hub};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use tables::Prefix;

/// The number of changes that are put into the table at once.
const MANY: usize = 1024;
/// The number of problems that are remembered.
const MAX_PROBLEMS: usize = 1000;

/// The `ClusterRoutes` element.
pub struct ClusterRoutes {
    state: Arc<ClusterState>,
    fabric: Arc<Fabric>,
}

/// The output of a route of the table's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConfiguredOutput {
    gateway: Option<Ipv4Addr>,
    output: u32,
}

/// What handlers and the control task share.
struct Shared {
    fabric: Arc<Fabric>,
    hub: Arc<Hub>,
    /// The routes of the table's arguments.
    own: BTreeMap<Prefix, ConfiguredOutput>,
    problems: Mutex<BTreeMap<Prefix, String>>,
}

/// Those of a table's arguments that are routes.
fn own(config: &str, names: &NameDb) -> BTreeMap<Prefix, ConfiguredOutput> {
    let mut routes = BTreeMap::new();
    for arg in lang::split_args(config) {
        let words: Vec<&str> = arg.text.split_whitespace().collect();
        let (network, gateway, output) = match words[..] {
            [network, output] => (network, None, output),
            [network, gateway, output] => (network, Some(gateway), output),
            _ => continue,
        };
        let prefix = IpPrefix::parse(network, names, true).ok();
        let prefix = prefix.and_then(|p| Prefix::new(p.network().to_bits(), p.prefix_len()?));
        let gateway = gateway
            .and_then(|g| g.parse().ok().or_else(|| names.ip(g)))
            .filter(|g: &Ipv4Addr| !g.is_unspecified());
        if let (Some(prefix), Ok(output)) = (prefix, lang::args::parse::<u32>(output)) {
            // Of several routes for one network, the first counts.
            routes.entry(prefix).or_insert(ConfiguredOutput { gateway, output });
        }
    }
    routes
}

impl Shared {
    /// The output of the network that a gateway is in.
    fn output(&self, gateway: Ipv4Addr) -> Result<u32, String> {
        let at = |length: u8| {
            let own = self.own.get(&Prefix::new(gateway.to_bits(), length)?)?;
            own.gateway.is_none().then_some(own.output)
        };
        if at(32).is_some() {
            return Err(format!("{gateway} is an address of the router itself or of no host: no gateway"));
        }
        (16..32).rev().find_map(at).ok_or_else(|| {
            format!("{gateway} is in the network of no external port: a gateway is a host on one of them")
        })
    }

    /// Whether the table's own route for a network must not be replaced.
    fn fixed(&self, prefix: Prefix) -> bool {
        prefix.len() >= 16 && self.own.get(&prefix).is_some_and(|own| own.gateway.is_none())
    }

    /// `PREFIX GATEWAY`.
    fn entry(&self, text: &str) -> Result<(Prefix, Ipv4Addr), String> {
        let wrong = || "should be 'NETWORK/LENGTH GATEWAY'".to_owned();
        let (prefix, gateway) = text.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
        let prefix = routes::prefix(prefix).map_err(|e| e.to_string())?;
        let gateway: Ipv4Addr = text::read(gateway).map_err(|_| wrong())?;
        self.output(gateway)?;
        if self.fixed(prefix) {
            return Err(format!("{prefix} is a network or an address of the router itself"));
        }
        Ok((prefix, gateway))
    }

    fn change(&self, f: impl FnOnce(&mut cluster::Replica) -> Result<(), RouteError>) -> Result<(), String> {
        self.fabric.with_routes(&self.hub, f).map_err(|e| e.to_string())
    }

    fn table(&self) -> String {
        let table = self.fabric.with_routes(&self.hub, |r| r.table());
        table.iter().fold(String::new(), |mut text, (prefix, (gateway, node, _))| {
            let _ = writeln!(text, "{prefix}\t{gateway}\t{node}");
            text
        })
    }

    fn problem(&self, prefix: Prefix, what: Option<String>) {
        let mut problems = self.problems.lock().ignore_poison();
        match what {
            Some(what) if problems.len() < MAX_PROBLEMS => {
                problems.insert(prefix, what);
            }
            Some(_) => {}
            None => {
                problems.remove(&prefix);
            }
        }
    }

    fn problems(&self) -> String {
        let problems = self.problems.lock().ignore_poison();
        problems.iter().map(|(prefix, what)| format!("{prefix}: {what}\n")).collect()
    }

    /// The command that gives the table its current route for a network.
    fn command(
        &self,
        prefix: Prefix,
        gateway: Option<Ipv4Addr>,
        applied: bool,
    ) -> Result<Option<String>, String> {
        if let Some(gateway) = gateway {
            if self.fixed(prefix) {
                return Err("a network or an address of the router itself".to_owned());
            }
            return Ok(Some(format!("set {prefix} {gateway} {}", self.output(gateway)?)));
        }
        Ok(match self.own.get(&prefix) {
            _ if !applied => None,
            Some(ConfiguredOutput { gateway: Some(gateway), output }) => {
                Some(format!("set {prefix} {gateway} {output}"))
            }
            Some(ConfiguredOutput { gateway: None, output }) => Some(format!("set {prefix} {output}")),
            None => Some(format!("remove {prefix}")),
        })
    }
}

/// Puts routes into the table.
struct Task {
    shared: Arc<Shared>,
    table: String,
    /// The routes that it has put into the table.
    applied: BTreeMap<Prefix, Ipv4Addr>,
    /// Whether the whole table may have changed.
    all: bool,
}

impl Task {
    fn apply(&mut self, changes: &[(Prefix, Option<Ipv4Addr>)], router: &mut dyn Control) {
        let mut steps = Vec::with_capacity(changes.len());
        for &(prefix, gateway) in changes {
            let applied = self.applied.contains_key(&prefix);
            match self.shared.command(prefix, gateway, applied) {
                Ok(Some(command)) => steps.push((prefix, gateway, command)),
                Ok(None) => self.shared.problem(prefix, None),
                Err(what) => {
                    self.shared.problem(prefix, Some(what));
                    // The route that it replaces is removed in any case.
                    if let Ok(Some(command)) = self.shared.command(prefix, None, applied) {
                        steps.push((prefix, None, command));
                    }
                }
            }
        }
        if steps.is_empty() {
            return;
        }
        let handler = format!("{}.ctrl", self.table);
        let all: String = steps.iter().map(|(.., command)| format!("{command}\n")).collect();
        let together = router.write("", &handler, &all).is_ok();
        for (prefix, gateway, command) in steps {
            // If the table refuses one change, it refuses all: then they are made one by one.
            let done = if together { Ok(()) } else { router.write("", &handler, &command) };
            match (done, gateway) {
                (Ok(()), Some(gateway)) => {
                    self.applied.insert(prefix, gateway);
                    self.shared.problem(prefix, None);
                }
                (Ok(()), None) => {
                    self.applied.remove(&prefix);
                }
                (Err(e), _) => {
                    let message = format!("cluster routes: {prefix}: {e}");
                    router.hub().log(Level::WARN, &self.table, &message);
                    self.shared.problem(prefix, Some(e.to_string()));
                }
            }
        }
    }
}

impl ControlTask for Task {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let shared = Arc::clone(&self.shared);
        if std::mem::take(&mut self.all) {
            let applied: Vec<Prefix> = self.applied.keys().copied().collect();
            let gone = shared.fabric.with_routes(&shared.hub, |routes| {
                routes.change_all();
                applied
                    .into_iter()
                    .filter(|p| routes.get(*p).is_none())
                    .map(|p| (p, None))
                    .collect::<Vec<_>>()
            });
            self.apply(&gone, router);
        }
        if shared.fabric.take_changed() {
            // The remaining changes schedule the task again.
            let changes = shared.fabric.with_routes(&shared.hub, |routes| routes.changes(MANY));
            self.apply(&changes, router);
        }
        None
    }
    fn take_over(&mut self, old: &mut dyn Any) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.applied = std::mem::take(&mut old.applied);
        }
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl Element for ClusterRoutes {
    const CLASS: &'static str = "ClusterRoutes";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("cluster/clusterroutes");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let state = state_of(args, cx)?;
        let ElementName(table) = args.mk("TABLE")?;
        let id = cx.find(&table).ok_or_else(|| args.error(format!("TABLE: no element named '{table}'")))?;
        let class = cx.class_of(id);
        let instead = match class.role {
            Role::RouteTable { changeable: None } => None,
            Role::RouteTable { changeable: Some(other) } => Some(format!("; {other}'s can")),
            _ => Some(String::new()),
        };
        if let Some(instead) = instead {
            let name = class.name;
            let text = format!("TABLE: '{table}' is a {name}, whose routes cannot be changed{instead}");
            return Err(args.error(text));
        }
        let fabric = state.fabric().map_err(|e| args.error(e))?;
        let config = cx.config().elements.get(id.0 as usize).map(|e| e.config.as_str()).unwrap_or_default();
        let (own, table) = (own(config, args.names()), cx.name_of(id).to_owned());
        if cx.worker().0 == 0 {
            let hub = Arc::clone(cx.hub());
            let shared =
                Arc::new(Shared { fabric: Arc::clone(&fabric), hub, own, problems: Mutex::default() });
            cx.publish(Arc::clone(&shared));
            cx.control(Box::new(Task { shared, table, applied: BTreeMap::new(), all: true }));
        }
        Ok(Self { state, fabric })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_write::<Shared>("add", |d, text| {
            let (prefix, gateway) = d.entry(text)?;
            d.change(|routes| routes.add(prefix, gateway))
        });
        h.shared_write::<Shared>("set", |d, text| {
            let (prefix, gateway) = d.entry(text)?;
            d.change(|routes| routes.set(prefix, gateway))
        });
        h.shared_write::<Shared>("remove", |d, text| {
            let prefix = routes::prefix(text.trim()).map_err(|e| e.to_string())?;
            d.change(|routes| routes.remove(prefix))
        });
        h.shared_read::<Shared>("table", |d, _| Ok(d.table()));
        h.shared_read::<Shared>("count", |d, _| Ok(d.fabric.with_routes(&d.hub, |r| r.len()).to_string()));
        h.shared_read::<Shared>("digest", |d, _| {
            Ok(format!("{:016x}", d.fabric.with_routes(&d.hub, |r| r.summary().digest)))
        });
        h.shared_read::<Shared>("problems", |d, _| Ok(d.problems()));
    }

    fn take_state(&mut self, old: &mut Self, _cx: &mut Cx<'_>) {
        self.fabric.adopt(&old.fabric, self.state.nodes());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    const TABLE: &str = "10.0.1.1/32 0, 10.0.2.1/32 0, 10.0.1.0/24 1, 10.0.2.0/24 2, 0.0.0.0/0 3";

    /// A node with a table, and its link to the other one (input 0, output 1; the switch's side is input 1
    /// and output 0).
    fn node(me: u16, table: &str) -> Bench {
        let peer = 1 - me;
        let config = format!(
            "cluster :: ClusterInfo(NODE {me}, NODES 2, RATE 1Gbps);
             rt :: RadixIPLookup({table});
             Idle -> rt; rt [0] -> Discard; rt [1] -> Discard; rt [2] -> Discard; rt [3] -> Discard;
             routes :: ClusterRoutes(cluster, TABLE rt);
             e :: ClusterLink(cluster, PEER {peer});"
        );
        Bench::simulated(&config, 2, 2)
    }

    fn talk(a: &mut Bench, b: &mut Bench, turns: usize) {
        for _ in 0..turns {
            for (_, frame) in a.turns(1) {
                b.push(0, &frame);
            }
            for (_, frame) in b.turns(1) {
                a.push(0, &frame);
            }
        }
    }

    fn lookup(b: &mut Bench, address: &str) -> String {
        b.read(&format!("rt.lookup {address}"))
    }

    #[test]
    fn a_route_that_is_entered_here_is_in_the_tables_of_both() {
        let (mut a, mut b) = (node(0, TABLE), node(1, TABLE));
        talk(&mut a, &mut b, 100);
        a.write("routes.add", "10.9.0.0/16 10.0.2.7");
        talk(&mut a, &mut b, 10);
        for bench in [&mut a, &mut b] {
            assert_eq!(bench.read("routes.table"), "10.9.0.0/16\t10.0.2.7\t0\n");
            assert_eq!(lookup(bench, "10.9.1.1"), "2 10.0.2.7");
            assert_eq!(bench.read("routes.count"), "1");
        }
        b.write("routes.set", "10.9.0.0/16 10.0.1.9");
        talk(&mut a, &mut b, 10);
        assert_eq!(lookup(&mut a, "10.9.1.1"), "1 10.0.1.9");
        assert_eq!(a.read("routes.table"), "10.9.0.0/16\t10.0.1.9\t1\n");
        assert_eq!(a.read("routes.digest"), b.read("routes.digest"));
        a.write("routes.remove", "10.9.0.0/16");
        talk(&mut a, &mut b, 10);
        for bench in [&mut a, &mut b] {
            assert_eq!((bench.read("routes.table"), lookup(bench, "10.9.1.1")), (String::new(), "3".into()));
            assert_eq!(bench.read("routes.problems"), "");
        }
    }

    #[test]
    fn a_route_of_the_configuration_comes_back() {
        let mut a = node(0, TABLE);
        a.write("routes.add", "0.0.0.0/0 10.0.1.254");
        a.turns(3);
        assert_eq!(lookup(&mut a, "8.8.8.8"), "1 10.0.1.254");
        a.write("routes.remove", "0.0.0.0/0");
        a.turns(3);
        assert_eq!(lookup(&mut a, "8.8.8.8"), "3");
    }

    #[test]
    fn more_routes_than_are_put_in_at_once() {
        let (mut a, mut b) = (node(0, TABLE), node(1, TABLE));
        for i in 0..3000 {
            a.write("routes.add", &format!("20.{}.{}.0/24 10.0.1.2", i / 256, i % 256));
        }
        talk(&mut a, &mut b, 300);
        for bench in [&mut a, &mut b] {
            assert_eq!(bench.read("rt.table").lines().count(), 3005);
            assert_eq!(lookup(bench, "20.11.183.1"), "1 10.0.1.2");
        }
    }

    #[test]
    fn a_node_with_another_table_says_what_it_cannot_take() {
        let (mut a, mut b) = (node(0, TABLE), node(1, "10.0.1.0/24 1, 10.9.0.0/16 2"));
        talk(&mut a, &mut b, 100);
        a.write("routes.add", "10.8.0.0/16 10.0.2.7");
        a.write("routes.add", "10.9.0.0/16 10.0.1.7");
        talk(&mut a, &mut b, 10);
        let problems = b.read("routes.problems");
        assert!(
            problems.contains("10.8.0.0/16: 10.0.2.7 is in the network of no external port"),
            "{problems}"
        );
        assert!(problems.contains("10.9.0.0/16: a network"), "{problems}");
        assert_eq!((lookup(&mut b, "10.8.0.1"), lookup(&mut b, "10.9.0.1")), ("-1".into(), "2".into()));
        a.write("routes.remove", "10.8.0.0/16");
        a.write("routes.remove", "10.9.0.0/16");
        talk(&mut a, &mut b, 10);
        assert_eq!((b.read("routes.problems"), lookup(&mut b, "10.9.0.1")), (String::new(), "2".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut a = node(0, TABLE);
        let error = |a: &mut Bench, handler: &str, text: &str| {
            a.try_write(&format!("routes.{handler}"), text).unwrap_err().to_string()
        };
        assert!(error(&mut a, "add", "10.9.0.0/16").contains("NETWORK/LENGTH GATEWAY"));
        assert!(error(&mut a, "add", "10.9.0.1/16 10.0.1.2").contains("is not a network"));
        assert!(error(&mut a, "add", "10.9.0.0/16 10.0.1.1").contains("address of the router itself"));
        assert!(error(&mut a, "add", "10.9.0.0/16 10.0.7.1").contains("network of no external port"));
        assert!(error(&mut a, "add", "10.0.1.0/24 10.0.2.2").contains("of the router itself"));
        assert!(error(&mut a, "remove", "10.9.0.0/16").contains("there is no route to 10.9.0.0/16"));
        a.write("routes.add", "10.9.0.0/16 10.0.1.2");
        a.write("routes.add", "10.9.0.0/16 10.0.1.2");
        assert!(
            error(&mut a, "add", "10.9.0.0/16 10.0.1.3")
                .contains("already a route to 10.9.0.0/16 via 10.0.1.2")
        );
        assert!(a.read("routes.handlers").contains("problems"));
        let fixed = "cluster :: ClusterInfo(NODE 0, NODES 2, RATE 1Gbps);
             rt :: LookupIPRoute(0/0 0); Idle -> rt -> Discard; e :: ClusterRoutes(cluster, TABLE rt)";
        let error =
            runtime::testing::Bench::attempt(&crate::registry(), fixed, 0, runtime::Options::default());
        assert!(error.is_err_and(|e| e.contains("cannot be changed; RadixIPLookup")));
    }

    #[test]
    fn a_hot_swap_keeps_the_routes() {
        let mut a = node(0, TABLE);
        a.write("routes.add", "10.9.0.0/16 10.0.1.2");
        a.write("routes.add", "0.0.0.0/0 10.0.1.254");
        a.turns(3);
        // All arguments are different; the network of port 2 has another output.
        let config = "cluster :: ClusterInfo(NODE 0, NODES 3, RATE 1Gbps);
             rt :: RadixIPLookup(10.0.1.1/32 0, 10.0.1.0/24 2, 0.0.0.0/0 1);
             Idle -> rt; rt [0] -> Discard; rt [1] -> Discard; rt [2] -> Discard;
             routes :: ClusterRoutes(cluster, TABLE rt);";
        a.router().hotswap(lang::Source::new("next", config)).map_err(|d| format!("{d:?}")).unwrap();
        for _ in 0..3 {
            a.turns(1);
        }
        assert_eq!(a.read("routes.count"), "2");
        assert_eq!(lookup(&mut a, "10.9.1.1"), "2 10.0.1.2");
        assert_eq!(lookup(&mut a, "8.8.8.8"), "2 10.0.1.254");
        a.write("routes.remove", "0.0.0.0/0");
        a.turns(3);
        assert_eq!(lookup(&mut a, "8.8.8.8"), "1");
    }
}
