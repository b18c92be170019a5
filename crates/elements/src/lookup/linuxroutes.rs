//! # LinuxRoutes
//! Keeps a routing table in step with the Linux kernel's, and tables of neighbors too.
//!
//! Routes that anything puts into the kernel of a network namespace (FRR, BIRD, `ip route`) are in the
//! routing table of this router shortly afterwards: 100,000 of them within about a second, one within
//! milliseconds. Followed are IPv4 routes of one table of the kernel with all that decides about them: next
//! hops and next-hop objects and groups (`ip nexthop`), the metric, whether interfaces are up, `blackhole`,
//! `unreachable` and `prohibit`. The kernel's routes are read from time to time and compared, so that a lost
//! notification does no harm.
//!
//! ## Synopsis
//! `LinuxRoutes(TABLE, INTERFACE OUTPUT [NEIGHBORS], ..., [HOST, NETNS, ROUTES_TABLE, UNREACHABLE, PROHIBIT, RECONCILE, BUFFER])`
//!
//! ## Arguments
//! - `TABLE` (*element*): the routing table: a RadixIPLookup, DirectIPLookup, RangeIPLookup, LinearIPLookup
//!   or SortedIPLookup. Routes of its own arguments and those that its handlers have added stay, and win over
//!   a route of the kernel for the same network. Only one LinuxRoutes can have it as its table.
//! - `INTERFACE OUTPUT [NEIGHBORS]` (any number): routes over this interface of the kernel go to the output
//!   `OUTPUT` of the table. Routes over other interfaces are counted and left out. `NEIGHBORS` is an
//!   ARPQuerier or an ARPTable: it gets the Ethernet addresses of the hosts that the kernel knows on this
//!   interface. An ARPQuerier also gets the interface's first address, with which it asks.
//! - `HOST` (*int*, keyword): packets for the kernel's own addresses, and for broadcast addresses, go to this
//!   output. Without it, such routes are left out.
//! - `NETNS` (*string*, keyword): the network namespace, as `ip netns` names it; by default the router's own.
//!   To enter another one takes the capability CAP_SYS_ADMIN.
//! - `ROUTES_TABLE` (*int*, keyword, default 254): the number of the kernel's table; 254 is `main`.
//! - `UNREACHABLE`, `PROHIBIT` (*int*, keyword): the outputs for packets of such routes, for example to an
//!   ICMPError. By default they are dropped, like those of a `blackhole` route.
//! - `RECONCILE` (*time*, keyword, default 30 s): how often everything is read and compared; 0 means never.
//!   Neighbors are entered anew then, so it should be less than the `TIMEOUT` of `NEIGHBORS`.
//! - `BUFFER` (*int*, keyword, default 33554432): how many bytes of notifications can wait in the kernel. If
//!   more do, everything is read anew. More than the sysctl `net.core.rmem_max` takes the capability
//!   CAP_NET_ADMIN.
//!
//! A route with several next hops (ECMP) spreads destination addresses over them, by their weights; packets
//! to one address always take the same next hop. If one goes, because its interface goes down for example,
//! its addresses are spread over the others at once, and nearly all others stay where they are.
//!
//! If the namespace vanishes, its routes are removed from the table. When there is one of its name again, it
//! is followed.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `state` (read): `in step`; `reading` at the start and after lost notifications; `namespace gone`; or
//!   `failing`, if the namespace cannot be entered or the kernel does not answer.
//! - `routes` (read): a line for each route of the kernel: network, next hops (gateway or `-`, interface,
//!   output or `-`), and the reason if it is not in the table.
//! - `count` (read): how many of the kernel's routes are in the table.
//! - `left_out` (read): how many are not.
//! - `drift` (read): how many routes and interfaces two comparisons in a row have found to be otherwise than
//!   the kernel has them. It stays 0 as long as no notification is lost unnoticed and nobody else empties the
//!   table.
//! - `lost` (read): how often the kernel had no room for notifications.
//! - `resyncs` (read): how often everything was read anew: after such a loss, and when the kernel removes
//!   routes without a notification, as it does when an interface goes down or loses its address.
//! - `links` (read): a line for each interface: number, name, `up` or `down`, `carrier` or `no-carrier`, MTU,
//!   link address.
//! - `addresses` (read): a line for each address: interface, address and length.
//! - `neighbors` (read): a line for each known neighbor: interface, IP address, Ethernet address, and
//!   `permanent` if it was entered by hand.
//! - `json` (read): all of this as JSON, without the routes.
//!
//! ## Threads
//! A thread of its own follows the kernel and changes the table; workers continue to forward. The control
//! thread enters neighbors. A hot swap keeps the follower if `NETNS`, `ROUTES_TABLE`, `BUFFER`, `RECONCILE`
//! and whether there is `HOST` are the same; routes in the table stay while it is replaced.
//!
//! ## Example
//! ```click
//! rt :: RadixIPLookup(192.0.2.0/24 1);
//! kernel :: LinuxRoutes(rt, eth0 1, eth1 2, HOST 0);
//! Idle -> rt; rt [0] -> Discard; rt [1] -> Discard; rt [2] -> Discard;
//! ```
//!
//! ## See also
//! RadixIPLookup, ARPQuerier, ARPTable, ClusterRoutes, FromHost, ToHost

use super::engine::kernel::{Feed, LeftOut, Plan};
use super::engine::routes::Table;
use crate::prelude::*;
use lang::args::ElementName;
use netlink::{Namespace, Options, Status};
use runtime::{Caller, Control, ControlTask, ElementId};
use serde_json::json;
use std::any::Any;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wire::EtherAddr;

/// The kernel's table of its own addresses.
const LOCAL: u32 = 255;
/// Default of `ROUTES_TABLE`.
const MAIN: u32 = 254;
/// Default of `BUFFER`: room for the notifications of about 40,000 routes.
const BUFFER: u32 = 32 << 20;
/// The most neighbors that are entered at a time.
const MANY: usize = 256;

/// The `LinuxRoutes` element.
pub struct LinuxRoutes {
    /// It lives as long as the element.
    _feed: Arc<Slot>,
    plan: Arc<Plan>,
}

/// The feed, from the time when all elements are configured; empty if the configuration is only checked.
#[derive(Default)]
struct Slot(OnceLock<Arc<Feed>>);

impl Slot {
    fn feed(&self) -> Result<&Feed, String> {
        self.0.get().map(|f| &**f).ok_or_else(|| "not started".to_owned())
    }
    fn status(&self) -> Result<Status, String> {
        self.feed()?.follower().map(|f| f.status()).ok_or_else(|| "not started".to_owned())
    }
    fn state<T>(&self, look: impl FnOnce(&netlink::State) -> T) -> Result<T, String> {
        let follower = self.feed()?.follower().ok_or_else(|| "not started".to_owned())?;
        Ok(follower.with_state(look))
    }

    fn links(&self) -> Result<String, String> {
        self.state(|state| {
            state.links().iter().fold(String::new(), |mut text, (index, link)| {
                let (up, carrier) =
                    (if link.up { "up" } else { "down" }, if link.carrier { "" } else { "no-" });
                let (name, mtu, address) = (&link.name, link.mtu, &link.address);
                let _ = writeln!(text, "{index} {name} {up} {carrier}carrier {mtu} {address}");
                text
            })
        })
    }
    fn addresses(&self) -> Result<String, String> {
        self.state(|state| {
            state.addresses().iter().fold(String::new(), |mut text, a| {
                let _ = writeln!(text, "{} {}/{}", name(state, a.interface), a.address, a.length);
                text
            })
        })
    }
    fn neighbors(&self) -> Result<String, String> {
        self.state(|state| {
            state.neighbors().iter().fold(String::new(), |mut text, ((interface, ip), n)| {
                let permanent = if n.permanent { " permanent" } else { "" };
                let _ = writeln!(text, "{} {ip} {}{permanent}", name(state, *interface), EtherAddr(n.mac));
                text
            })
        })
    }

    fn json(&self) -> Result<String, String> {
        let (feed, status) = (self.feed()?, self.status()?);
        let left_out = feed.target().left_out();
        let of = |why: LeftOut| left_out.get(&why).copied().unwrap_or(0);
        let left_out: serde_json::Map<_, _> =
            LeftOut::ALL.iter().map(|why| (why.text().to_owned(), of(*why).into())).collect();
        let known = self.state(|state| {
            let links: Vec<_> = state
                .links()
                .iter()
                .map(|(index, l)| {
                    json!({"index": index, "name": l.name, "up": l.up, "carrier": l.carrier, "mtu": l.mtu,
                       "address": l.address})
                })
                .collect();
            let addresses: Vec<_> = state.addresses().iter().map(
                |a| json!({"interface": name(state, a.interface), "address": a.address, "length": a.length}),
            ).collect();
            let neighbors: Vec<_> = state
                .neighbors()
                .iter()
                .map(|((interface, ip), n)| {
                    json!({"interface": name(state, *interface), "address": ip,
                       "mac": EtherAddr(n.mac).to_string(), "permanent": n.permanent})
                })
                .collect();
            (state.len(), links, addresses, neighbors)
        })?;
        let (routes, links, addresses, neighbors) = known;
        let json = json!({
            "state": status.health.text(), "routes": routes, "in_table": feed.count(), "left_out": left_out,
            "drift": status.drift, "reconciliations": status.reconciliations, "resyncs": status.resyncs,
            "lost": status.lost, "notifications": status.notifications, "malformed": status.malformed,
            "buffer_bytes": status.buffer, "links": links, "addresses": addresses, "neighbors": neighbors,
        });
        Ok(json.to_string() + "\n")
    }
}

fn name(state: &netlink::State, interface: u32) -> &str {
    state.links().get(&interface).map_or("?", |l| l.name.as_str())
}

/// Enters neighbors into their elements.
struct Enter(Arc<Slot>);

impl ControlTask for Enter {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let feed = self.0.0.get()?;
        for (element, address) in feed.target().take_addresses() {
            // An ARPTable has no address of its own.
            let _ = router.write("", &format!("{element}.ipaddr"), &address.to_string());
        }
        let some = feed.target().take_neighbors(MANY);
        for ((element, ip), mac) in &some {
            let done = match mac {
                Some(mac) => {
                    router.write("", &format!("{element}.insert"), &format!("{ip} {}", EtherAddr(*mac)))
                }
                None => router.write("", &format!("{element}.delete"), &ip.to_string()),
            };
            if let Err(e) = done {
                router.hub().log(Level::WARN, element, &format!("neighbor {ip}: {e}"));
            }
        }
        // The rest, when others have had their turn.
        (some.len() == MANY).then(|| router.now_ns())
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// `INTERFACE OUTPUT [NEIGHBORS]`
fn interface(text: &str) -> Option<(&str, u32, Option<&str>)> {
    let mut words = text.split_ascii_whitespace();
    let (name, output, neighbors) = (words.next()?, words.next()?, words.next());
    words.next().is_none().then_some((name, lang::args::parse(output).ok()?, neighbors))
}

/// Another element of this class with the same table, which is configured before this one.
fn other_with<'a>(cx: &'a ConfigCx<'_>, table: ElementId) -> Option<&'a str> {
    let elements = cx.config().elements.iter().enumerate();
    elements.take_while(|(_, e)| e.name != cx.name()).find_map(|(i, e)| {
        let same = cx.class_of(ElementId(i as u32)).name == LinuxRoutes::CLASS;
        let first = same.then(|| lang::split_args(&e.config).into_iter().next()).flatten()?;
        (cx.find(first.text.trim()) == Some(table)).then_some(e.name.as_str())
    })
}

impl Element for LinuxRoutes {
    const CLASS: &'static str = "LinuxRoutes";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const OPENS: Option<Opens> = Some(Opens::Netlink);
    const MANUAL: &'static str = manual!("lookup/linuxroutes");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let ElementName(table) = args.mp("TABLE")?;
        let host = args.k::<u32>("HOST")?;
        let name = args.k::<String>("NETNS")?.filter(|name| !name.is_empty());
        cx.permits(Outside::Namespace(name.as_deref()), args)?;
        let namespace = match name {
            Some(name) => Namespace::named(&name).map_err(|e| args.error(format!("NETNS: {e}")))?,
            None => Namespace::Own,
        };
        let routes_table = args.k::<u32>("ROUTES_TABLE")?.unwrap_or(MAIN);
        let (unreachable, prohibited) = (args.k::<u32>("UNREACHABLE")?, args.k::<u32>("PROHIBIT")?);
        let reconcile = args.k::<Duration>("RECONCILE")?.unwrap_or(Duration::from_secs(30));
        let buffer = args.k::<u32>("BUFFER")?.unwrap_or(BUFFER) as usize;
        if routes_table == 0 {
            return Err(args.error("ROUTES_TABLE: there is no table 0"));
        }
        let id = cx.find(&table).ok_or_else(|| args.error(format!("TABLE: no element named '{table}'")))?;
        let class = cx.class_of(id);
        if class.role != (Role::RouteTable { changeable: None }) {
            let instead = match class.role {
                Role::RouteTable { changeable: Some(other) } => format!("; {other}'s can"),
                _ => String::new(),
            };
            let text =
                format!("TABLE: '{table}' is a {}, whose routes cannot be changed{instead}", class.name);
            return Err(args.error(text));
        }
        let outputs = cx.config().connections.iter().filter(|c| c.from.element == id.0 as usize);
        let outputs = outputs.map(|c| c.from.port as u32 + 1).max().unwrap_or(0);
        let mut plan = Plan { host, unreachable, prohibited, ..Plan::default() };
        for arg in args.rest_args() {
            let Some((interface, output, neighbors)) = interface(&arg.text) else {
                return Err(args.error_at(&arg, "should be 'INTERFACE OUTPUT [NEIGHBORS]'"));
            };
            if plan.outputs.insert(interface.to_owned(), output).is_some() {
                return Err(args.error_at(&arg, format!("interface '{interface}' has two outputs")));
            }
            if let Some(element) = neighbors {
                let Some(id) = cx.find(element) else {
                    return Err(args.error_at(&arg, format!("no element named '{element}'")));
                };
                plan.neighbors.insert(interface.to_owned(), cx.name_of(id).to_owned());
            }
        }
        if let Some(output) = plan.ports().find(|output| *output >= outputs) {
            return Err(args.error(format!("bad OUTPUT {output}: '{table}' has {outputs}")));
        }
        if let Some(other) = other_with(cx, id) {
            return Err(args.error(format!("TABLE: '{other}' keeps '{table}' in step already")));
        }
        let plan = Arc::new(plan);
        // One for each configuration: the next one has another plan.
        let slot = cx.shared_if(|_| false, Slot::default);
        if cx.worker().0 == 0 {
            let tables = if host.is_some() && routes_table != LOCAL {
                vec![LOCAL, routes_table]
            } else {
                vec![routes_table]
            };
            let options = Options { namespace, tables, buffer, reconcile };
            let (hub, element) = (Arc::clone(cx.hub()), cx.name().to_owned());
            let key = format!("kernel routes {element} {options:?}");
            let (opened, led) = (Arc::clone(&slot), Arc::clone(&slot));
            let (expecting, found) = (cx.shared_later::<Table>(id), cx.shared_later::<Table>(id));
            let known = Arc::clone(&plan);
            cx.before_start(move || {
                if let Some(routes) = expecting().as_ref().and_then(|t| t.get()) {
                    routes.expect_learner();
                }
                let feed = hub.resource(&key, || Feed::start(options, Arc::clone(&hub), element))?;
                // Set once, here.
                let _ = opened.0.set(feed);
                Ok(())
            });
            cx.at_change_over(move || {
                let table = found();
                let routes = table.as_ref().and_then(|t| t.get()).ok_or("no table")?;
                if let Some(feed) = led.0.get() {
                    feed.lead_to(Arc::clone(routes), known);
                }
                Ok(())
            });
            if !plan.neighbors.is_empty() {
                cx.control(Box::new(Enter(Arc::clone(&slot))));
            }
        }
        Ok(Self { _feed: slot, plan })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<Slot>("state", |s, _| Ok(s.status()?.health.text().to_owned()));
        h.shared_read::<Slot>("routes", |s, _| Ok(s.feed()?.list()));
        h.shared_read::<Slot>("count", |s, _| Ok(s.feed()?.count().to_string()));
        h.shared_read::<Slot>("left_out", |s, _| {
            Ok(s.feed()?.target().left_out().values().sum::<usize>().to_string())
        });
        h.shared_read::<Slot>("drift", |s, _| Ok(s.status()?.drift.to_string()));
        h.shared_read::<Slot>("lost", |s, _| Ok(s.status()?.lost.to_string()));
        h.shared_read::<Slot>("resyncs", |s, _| Ok(s.status()?.resyncs.to_string()));
        h.shared_read::<Slot>("links", |s, _| s.links());
        h.shared_read::<Slot>("addresses", |s, _| s.addresses());
        h.shared_read::<Slot>("neighbors", |s, _| s.neighbors());
        h.shared_read::<Slot>("json", |s, _| s.json());
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        for element in self.plan.neighbors.values() {
            for handler in ["insert", "delete"] {
                cx.look_up("", &format!("{element}.{handler}"), true)
                    .map_err(|_| format!("'{element}' is not a table of neighbors"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    /// A table, and an element that follows the routes of the namespace that the tests run in.
    fn bench(arguments: &str) -> Bench {
        let config = format!(
            "rt :: RadixIPLookup(192.0.2.0/24 0); Idle -> rt; rt [0] -> Discard; rt [1] -> Discard;
             e :: LinuxRoutes(rt{arguments})"
        );
        let mut bench = Bench::simulated(&config, 0, 0);
        while bench.read("e.state") == "reading" {
            bench.turns(1);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        bench
    }

    #[test]
    fn what_the_kernel_knows_can_be_read() {
        let mut bench = bench(", nothing-of-this-name 1, BUFFER 65536");
        assert_eq!(bench.read("e.state"), "in step");
        assert!(bench.read("e.links").contains(" lo "), "{}", bench.read("e.links"));
        // No route is over that interface, so all are left out, and those of the configuration stay.
        assert_eq!(bench.read("rt.table"), "192.0.2.0/24\t\t-\t\t0\n");
        assert_eq!(bench.read("e.count"), "0");
        assert_eq!(bench.read("e.left_out"), bench.read("e.routes").lines().count().to_string());
        let json: serde_json::Value = serde_json::from_str(&bench.read("e.json")).unwrap();
        assert_eq!((json["state"].as_str(), json["drift"].as_u64()), (Some("in step"), Some(0)));
    }

    #[test]
    fn the_hosts_addresses_go_to_its_output() {
        let mut bench = bench(", HOST 1, BUFFER 65536");
        let addresses = bench.read("e.addresses");
        let own = addresses.lines().filter_map(|l| l.split_whitespace().nth(1)?.split('/').next());
        let own: Vec<String> = own.filter(|a| !a.starts_with("127.")).map(str::to_owned).collect();
        for address in own {
            assert_eq!(bench.read(&format!("rt.lookup {address}")), "1", "{addresses}");
        }
    }
}
