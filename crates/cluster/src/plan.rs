//! The planner: which servers, links and topology a router of N ports of rate R takes (RouteBricks §3.3).
//!
//! The rule is the paper's: a server gets as many external ports as it can process at cR each; if its remaining NIC ports reach
//! all other servers, the servers are a full mesh; else they stand around a k-ary n-fly with k the fan-out and n = ⌈log_k M⌉
//! stages of M servers, where M is the number of servers with external ports.
//!
//! What the paper leaves open is decided here as follows.
//!
//! - With s ports for each server a link of the mesh carries 2sR/M, the sR of a server spread over M servers, twice. The paper
//!   writes 2sR/N, which is the same for s = 1 only.
//! - A link may take several NIC ports side by side; all slots that hold no external port hold one kind of NIC, the kind that
//!   gives most links; free ports of the NICs with external ports are used too.
//! - Where links of a mesh would be faster than the NICs bear, servers without external ports are added to it, which makes
//!   all links slower.
//! - In the fly every server has k links of 2sR/k, and a packet that goes straight passes its n stages once: that is what the
//!   paper's 2 intermediate servers for each of 1024 ports, and 96 µs, come to. As butterflies are wired this bears uniform traffic
//!   but not every permutation (spread over k servers, all sources of one of these groups may want one link of the next stage).
//!   What is not uniform therefore goes over an intermediate node, as in the mesh, and passes the stages twice: the same servers and
//!   links bear every admissible matrix, at up to 2n + 3 servers on a path ([`crate::topology`]).
//! - The switched cluster needs 2R for each port, and whole switches, in a strictly non-blocking Clos network (m = 2n − 1).
//!
//! Rates are bits per second, the counting of headers and gaps being the caller's.

use measure::bps::Bps;
use std::fmt;

/// The most ports that are planned for.
pub const MAX_PORTS: u64 = 1 << 20;
const MAX_SLOTS: u32 = 256;
const MAX_NIC_PORTS: u32 = 256;
const MAX_BPS: u64 = 100_000_000_000_000;

/// A kind of NIC that fits into a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nic {
    /// Ports on one NIC.
    pub ports: u32,
    /// What each of them carries, each way.
    pub port_bps: u64,
}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// What it can process.
    pub rate_bps: u64,
    /// NICs that it has room for.
    pub slots: u32,
    /// The kinds of NIC that fit.
    pub nics: Vec<Nic>,
    /// Rack units.
    pub units: f64,
    /// Power.
    pub watts: f64,
    /// Price.
    pub dollars: f64,
    /// How long a packet stays in it.
    pub latency_ns: u64,
}

/// An Ethernet switch, for the cluster that is planned for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Ports.
    pub ports: u32,
    /// What each of them carries.
    pub port_bps: u64,
    /// Price of a port.
    pub dollars_per_port: f64,
    /// Rack units.
    pub units: f64,
    /// Power; the paper gives none.
    pub watts: Option<f64>,
}

impl Default for Switch {
    /// The switch of §3.3: 48 ports of 10 Gbps, $500 each. That it is 1U is an assumption.
    fn default() -> Self {
        Self { ports: 48, port_bps: 10_000_000_000, dollars_per_port: 500.0, units: 1.0, watts: None }
    }
}

/// What the traffic between the ports may look like, which decides what a server must process for each of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// Every input sends equally much to every output: all goes direct, c = 2.
    Uniform,
    /// Anything that no output is oversubscribed by: c = 3.
    Worst,
}

impl Matrix {
    /// The c of "a server must process cR for each port".
    #[must_use]
    pub const fn c(self) -> u64 {
        match self {
            Self::Uniform => 2,
            Self::Worst => 3,
        }
    }
}

/// One of the three server configurations of §3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// Its name on the command line.
    pub name: &'static str,
    /// External ports of 10 Gbps that it can process, whatever the traffic.
    pub ports: u64,
    /// NIC slots.
    pub slots: u32,
    /// The largest full mesh, in external ports, as the paper has it.
    pub cited_mesh_ports: u64,
}

/// The server configurations of §3.3 and Fig. 3, at [`FIGURE_RATE_BPS`].
pub const CONFIGURATIONS: [Configuration; 3] = [
    Configuration { name: "current", ports: 1, slots: 5, cited_mesh_ports: 32 },
    Configuration { name: "more-nics", ports: 1, slots: 20, cited_mesh_ports: 128 },
    Configuration { name: "faster", ports: 2, slots: 20, cited_mesh_ports: 2048 },
];

/// The rate of an external port in Fig. 3.
pub const FIGURE_RATE_BPS: u64 = 10_000_000_000;

impl Configuration {
    /// The server: NICs of 2 × 10 Gbps or 8 × 1 Gbps, $2000 and 24 µs (§3.3); 1U, and a quarter of RB4's 2.6 kW (§8).
    #[must_use]
    pub fn server(&self) -> Server {
        Server {
            rate_bps: self.ports * Matrix::Worst.c() * FIGURE_RATE_BPS,
            slots: self.slots,
            nics: vec![Nic { ports: 2, port_bps: 10_000_000_000 }, Nic { ports: 8, port_bps: 1_000_000_000 }],
            units: 1.0,
            watts: 650.0,
            dollars: 2000.0,
            latency_ns: 24_000,
        }
    }
}

/// What is to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// External ports, N.
    pub ports: u64,
    /// Rate of each of them, R.
    pub rate_bps: u64,
    /// The traffic that must be borne.
    pub matrix: Matrix,
    /// The servers.
    pub server: Server,
    /// The switches of the cluster to compare with.
    pub switch: Switch,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number that is zero or too large.
    #[error("{what} must be from 1 to {most}, not {got}")]
    Range {
        /// Which.
        what: &'static str,
        /// Its bound.
        most: u64,
        /// What was given.
        got: u64,
    },
    /// §3's first assumption does not hold.
    #[error(
        "the assumption that a server can process at least one external port fails: a port of {} needs {c} x {} = {}, \
         the server processes {}",
        Bps(*.rate_bps), Bps(*.rate_bps), Bps(*.rate_bps * *.c), Bps(*.server_bps)
    )]
    ServerTooSlow {
        /// R.
        rate_bps: u64,
        /// c.
        c: u64,
        /// What the server processes.
        server_bps: u64,
    },
    /// No NIC carries an external port.
    #[error(
        "the assumption that a NIC port carries an external port fails: that needs {}, the fastest NIC port has {}",
        Bps(*.rate_bps), Bps(*.fastest_bps)
    )]
    NicTooSlow {
        /// R.
        rate_bps: u64,
        /// The fastest port of any NIC.
        fastest_bps: u64,
    },
    /// The NIC slots do not suffice for links.
    #[error(
        "the assumption on fan-out fails: a server with {slots} NIC slot(s) and an external port has no two links of {} to others \
         (a full mesh is possible up to {mesh_ports} external ports); more slots, or more or faster ports for each NIC, would",
        Bps(*.rate_bps)
    )]
    NoFanOut {
        /// Slots of the server.
        slots: u32,
        /// What each of two links would have to carry.
        rate_bps: u64,
        /// The largest mesh.
        mesh_ports: u64,
    },
}

/// How the servers are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One server has all ports.
    Single,
    /// A link between any two.
    Mesh,
    /// A k-ary n-fly.
    Fly {
        /// Links of a server.
        k: u64,
        /// Stages of servers between inputs and outputs.
        n: u32,
    },
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => f.write_str("one server"),
            Self::Mesh => f.write_str("full mesh"),
            Self::Fly { k, n } => write!(f, "{k}-ary {n}-fly"),
        }
    }
}

/// The assumption that keeps the cluster from being smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// One server suffices.
    Nothing,
    /// What a server can process decides how many there are.
    Processing,
    /// The slots for external ports do.
    Slots,
    /// Its ports do not reach all other servers: it needs servers in between, or gives slots of external ports to links.
    FanOut,
    /// Its ports are too slow for a mesh of fewer servers.
    LinkRate,
}

impl Binding {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Processing => "processing",
            Self::Slots => "slots",
            Self::FanOut => "fan-out",
            Self::LinkRate => "link rate",
        }
    }
}

/// The cluster with switches.
#[derive(Debug, Clone, PartialEq)]
pub struct Switched {
    /// Its servers.
    pub servers: u64,
    /// Its switches.
    pub switches: u64,
    /// Rack units.
    pub units: f64,
    /// Power; absent where that of a switch is not known.
    pub watts: Option<f64>,
    /// Price.
    pub dollars: f64,
    /// How many servers have its price, the unit of Fig. 3.
    pub server_equivalents: f64,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// External ports of a server, s.
    pub ports_per_server: u64,
    /// External ports that it could process.
    pub ports_processed: u64,
    /// How the servers are joined.
    pub topology: Topology,
    /// What binds.
    pub binding: Binding,
    /// Servers with external ports.
    pub io_servers: u64,
    /// Servers without.
    pub intermediate_servers: u64,
    /// Servers that a server has a link to.
    pub degree: u64,
    /// Links that a server's ports suffice for, at this plan's link rate.
    pub fan_out: u64,
    /// Links in all.
    pub links: u64,
    /// NIC ports side by side for a link, of the kind that most links use.
    pub ports_per_link: u64,
    /// What a link must carry each way, rounded up.
    pub link_bps: u64,
    /// What a server processes when the traffic is uniform, at most.
    pub node_uniform_bps: u64,
    /// What a server processes whatever the traffic, at most: the paper's 3sR; sR and 2sR for one and two servers.
    pub node_worst_bps: u64,
    /// c when all traffic of an input goes to one output: 3 − 1/M in a mesh, since 1/M goes direct.
    pub c_permutation: f64,
    /// Servers on the shortest and the longest path of a packet between different servers.
    pub hops: (u32, u32),
    /// The same as time.
    pub latency_ns: (u64, u64),
    /// The most external ports for which these servers are a full mesh.
    pub mesh_ports: u64,
    /// Rack units.
    pub units: f64,
    /// Power.
    pub watts: f64,
    /// Price.
    pub dollars: f64,
    /// The same router with switches; absent where a server has too few NIC ports for it.
    pub switched: Option<Switched>,
}

impl Plan {
    /// All servers.
    #[must_use]
    pub const fn servers(&self) -> u64 {
        self.io_servers + self.intermediate_servers
    }
}

/// What a server's NIC slots give once `s` external ports are in them.
struct Slots<'a> {
    nics: &'a [Nic],
    free: u64,
    /// The kind that holds the external ports, and its ports that are left over.
    external: Nic,
    spare: u64,
}

impl<'a> Slots<'a> {
    fn new(server: &'a Server, rate_bps: u64, s: u64) -> Option<Self> {
        let fit = server.nics.iter().filter(|nic| nic.port_bps >= rate_bps);
        let external = *fit.max_by_key(|nic| (nic.ports, std::cmp::Reverse(nic.port_bps)))?;
        let used = s.div_ceil(u64::from(external.ports));
        let free = u64::from(server.slots).checked_sub(used)?;
        Some(Self { nics: &server.nics, free, external, spare: used * u64::from(external.ports) - s })
    }

    /// How many links fit that carry `total` / `parts` each, and the NIC ports that most of them take.
    fn links(&self, total: u64, parts: u64) -> (u64, u64) {
        let width = |nic: &Nic| {
            let needed = u128::from(total).div_ceil(u128::from(nic.port_bps) * u128::from(parts));
            u64::try_from(needed).unwrap_or(u64::MAX).max(1)
        };
        let spare = self.spare / width(&self.external);
        let of = |nic: &Nic| {
            let (ports, width) = (self.free * u64::from(nic.ports), width(nic));
            let links =
                if *nic == self.external { (ports + self.spare) / width } else { ports / width + spare };
            (links, std::cmp::Reverse(width))
        };
        self.nics.iter().map(of).max().map_or((0, 1), |(links, width)| (links, width.0))
    }

    fn reaches(&self, total: u64, servers: u64) -> bool {
        self.links(total, servers).0 + 1 >= servers
    }

    /// No server has more links.
    fn most(&self) -> u64 {
        let widest = self.nics.iter().map(|nic| u64::from(nic.ports)).max().unwrap_or(0);
        self.free * widest + self.spare
    }

    /// The largest mesh, in servers.
    fn mesh(&self, total: u64) -> u64 {
        (1..=self.most() + 1).rev().find(|m| self.reaches(total, *m)).unwrap_or(1)
    }
}

fn in_range(what: &'static str, got: u64, most: u64) -> Result<(), PlanError> {
    if got == 0 || got > most { Err(PlanError::Range { what, most, got }) } else { Ok(()) }
}

/// Plans a cluster.
///
/// # Errors
///
/// An input is zero or too large, or an assumption fails: the server is too slow for one port, no NIC carries a port, or a
/// server's ports do not suffice for links.
pub fn plan(wanted: &Wanted) -> Result<Plan, PlanError> {
    let Wanted { ports, rate_bps, matrix, server, switch } = wanted;
    let (ports, rate_bps) = (*ports, *rate_bps);
    in_range("the number of external ports", ports, MAX_PORTS)?;
    in_range("the rate of an external port", rate_bps, MAX_BPS)?;
    in_range("what a server can process", server.rate_bps, MAX_BPS)?;
    in_range("the number of NIC slots", server.slots.into(), MAX_SLOTS.into())?;
    in_range("the number of kinds of NIC", server.nics.len() as u64, 16)?;
    for nic in &server.nics {
        in_range("the number of ports of a NIC", nic.ports.into(), MAX_NIC_PORTS.into())?;
        in_range("the rate of a NIC port", nic.port_bps, MAX_BPS)?;
    }
    in_range("the number of ports of a switch", switch.ports.into(), 4096)?;
    in_range("the rate of a switch port", switch.port_bps, MAX_BPS)?;

    let processed = server.rate_bps / (matrix.c() * rate_bps);
    if processed == 0 {
        return Err(PlanError::ServerTooSlow { rate_bps, c: matrix.c(), server_bps: server.rate_bps });
    }
    let Some(fast) = server.nics.iter().filter(|nic| nic.port_bps >= rate_bps).map(|nic| nic.ports).max()
    else {
        let fastest_bps = server.nics.iter().map(|nic| nic.port_bps).max().unwrap_or(0);
        return Err(PlanError::NicTooSlow { rate_bps, fastest_bps });
    };
    let room = u64::from(fast) * u64::from(server.slots);
    let first = processed.min(room);
    // As many ports for each server as can be; fewer only where that leaves no links.
    let laid = (1..=first).rev().find_map(|s| lay_out(wanted, s));
    let Some(mut laid) = laid else {
        let mesh_ports = Slots::new(server, rate_bps, 1).map_or(1, |slots| slots.mesh(2 * rate_bps));
        return Err(PlanError::NoFanOut { slots: server.slots, rate_bps, mesh_ports });
    };
    let s = laid.ports_per_server;
    laid.ports_processed = processed;
    if laid.binding == Binding::Processing && s < processed {
        laid.binding = if s < first { Binding::FanOut } else { Binding::Slots };
    }
    laid.switched = switched(wanted, room);
    Ok(laid)
}

/// The cluster with `s` external ports for each server, if the slots bear it.
fn lay_out(wanted: &Wanted, s: u64) -> Option<Plan> {
    let (rate, server) = (wanted.rate_bps, &wanted.server);
    let slots = Slots::new(server, rate, s)?;
    let io = wanted.ports.div_ceil(s);
    // What a server spreads over the others, in both phases.
    let total = 2 * s * rate;
    let mesh = slots.mesh(total);
    let (topology, binding, all, degree) = if io == 1 {
        (Topology::Single, Binding::Nothing, 1, 0)
    } else if let Some(m) = (io..=mesh).find(|m| slots.reaches(total, *m)) {
        let binding = if m > io { Binding::LinkRate } else { Binding::Processing };
        (Topology::Mesh, binding, m, m - 1)
    } else {
        let k = (2..=slots.most()).rev().find(|k| slots.links(total, *k).0 >= *k)?;
        let mut n = 1;
        let mut reached = k;
        while reached < io {
            reached = reached.saturating_mul(k);
            n += 1;
        }
        (Topology::Fly { k, n }, Binding::FanOut, io * (u64::from(n) + 1), k)
    };
    let (parts, hops) = match topology {
        Topology::Single => (1, (1, 1)),
        Topology::Mesh => (all, (2, if all > 2 { 3 } else { 2 })),
        Topology::Fly { k, n } => (k, (n + 2, 2 * n + 3)),
    };
    let (fan_out, ports_per_link) = slots.links(total, parts);
    let c_permutation = match topology {
        Topology::Single => 1.0,
        Topology::Mesh if all == 2 => 2.0,
        Topology::Mesh => 3.0 - 1.0 / all as f64,
        Topology::Fly { .. } => 3.0,
    };
    // What stays in a server is processed once; of two servers neither is between others.
    let (uniform, worst) = match topology {
        Topology::Single => (1, 1),
        Topology::Mesh if all == 2 => (2, 2),
        _ => (2, 3),
    };
    let latency = |hops: u32| u64::from(hops) * server.latency_ns;
    Some(Plan {
        ports_per_server: s,
        ports_processed: s,
        topology,
        binding,
        io_servers: io,
        intermediate_servers: all - io,
        degree,
        fan_out,
        // Each link has two ends; an odd end stays free.
        links: all * degree / 2,
        ports_per_link,
        link_bps: if degree == 0 { 0 } else { total.div_ceil(parts) },
        node_uniform_bps: uniform * s * rate,
        node_worst_bps: worst * s * rate,
        c_permutation,
        hops,
        latency_ns: (latency(hops.0), latency(hops.1)),
        mesh_ports: mesh * s,
        units: all as f64 * server.units,
        watts: all as f64 * server.watts,
        dollars: all as f64 * server.dollars,
        switched: None,
    })
}

/// The switched cluster. A server needs as many ports towards the switches as to the outside, and 2R for each.
fn switched(wanted: &Wanted, room: u64) -> Option<Switched> {
    let (server, switch) = (&wanted.server, &wanted.switch);
    let s = (server.rate_bps / (2 * wanted.rate_bps)).min(room / 2);
    if s == 0 {
        return None;
    }
    let servers = wanted.ports.div_ceil(s);
    let switches = clos(wanted.ports * wanted.rate_bps.div_ceil(switch.port_bps), switch.ports.into())?;
    let price = f64::from(switch.ports) * switch.dollars_per_port;
    let dollars = servers as f64 * server.dollars + switches as f64 * price;
    Some(Switched {
        servers,
        switches,
        units: servers as f64 * server.units + switches as f64 * switch.units,
        watts: switch.watts.map(|watts| servers as f64 * server.watts + switches as f64 * watts),
        dollars,
        server_equivalents: if server.dollars > 0.0 { dollars / server.dollars } else { f64::INFINITY },
    })
}

/// The switches of a strictly non-blocking Clos network with this many outer ports: leaves with n ports down and 2n − 1 up,
/// around 2n − 1 networks with a port for each leaf. Small ones of these share switches. `None`: the switches are too small.
#[must_use]
pub fn clos(ports: u64, radix: u64) -> Option<u64> {
    if ports <= radix {
        return Some(1);
    }
    // Leaves with one port down need no network that is smaller than the whole.
    (2..=radix.div_ceil(3))
        .filter(|n| 3 * n - 1 <= radix)
        .filter_map(|n| {
            let (leaves, middle) = (ports.div_ceil(n), 2 * n - 1);
            let inner = if leaves <= radix {
                middle.div_ceil(radix / leaves)
            } else if n * 4 > radix || radix < 12 {
                // Three or more levels: only the widest leaves can win, and trying all would take long.
                middle.checked_mul(clos(leaves, radix)?)?
            } else {
                return None;
            };
            leaves.checked_add(inner)
        })
        .min()
}

/// A point of a curve of Fig. 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// External ports.
    pub ports: u64,
    /// Servers, or their equivalent in price.
    pub servers: f64,
    /// How the servers are joined; absent for the switched cluster.
    pub topology: Option<Topology>,
}

/// A curve of Fig. 3.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The configuration's name, or `48-port switches`.
    pub name: String,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// The four curves of Fig. 3: servers over external ports of 10 Gbps, from 4 to 2048.
///
/// # Errors
///
/// A switch with no ports.
pub fn figure3(switch: &Switch) -> Result<Vec<Curve>, PlanError> {
    let ports = || (2..=11).map(|power| 1_u64 << power);
    let planned = |one: &Configuration, ports| {
        plan(&Wanted {
            ports,
            rate_bps: FIGURE_RATE_BPS,
            matrix: Matrix::Worst,
            server: one.server(),
            switch: switch.clone(),
        })
    };
    let mut curves = Vec::new();
    for one in &CONFIGURATIONS {
        let point = |n| {
            planned(one, n).map(|p| Point {
                ports: n,
                servers: p.servers() as f64,
                topology: Some(p.topology),
            })
        };
        curves
            .push(Curve { name: one.name.to_owned(), points: ports().map(point).collect::<Result<_, _>>()? });
    }
    let mut points = Vec::new();
    for n in ports() {
        // The servers of the switched cluster are today's.
        if let Some(other) = planned(&CONFIGURATIONS[0], n)?.switched {
            points.push(Point { ports: n, servers: other.server_equivalents, topology: None });
        }
    }
    curves.push(Curve { name: format!("{}-port switches", switch.ports), points });
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const G: u64 = 1_000_000_000;

    fn wanted(configuration: usize, ports: u64) -> Wanted {
        Wanted {
            ports,
            rate_bps: 10 * G,
            matrix: Matrix::Worst,
            server: CONFIGURATIONS[configuration].server(),
            switch: Switch::default(),
        }
    }

    fn planned(configuration: usize, ports: u64) -> Plan {
        plan(&wanted(configuration, ports)).unwrap()
    }

    #[test]
    fn rb4_is_a_mesh_of_four() {
        let p = planned(0, 4);
        assert_eq!((p.topology, p.servers(), p.links, p.link_bps), (Topology::Mesh, 4, 6, 5 * G));
        // 2 to 3 servers on a path (§6.2), at 24 us each.
        assert_eq!((p.hops, p.latency_ns), ((2, 3), (48_000, 72_000)));
        assert_eq!((p.node_uniform_bps, p.node_worst_bps), (20 * G, 30 * G));
        assert_eq!((p.units, p.watts, p.c_permutation), (4.0, 2600.0, 2.75));
        assert_eq!((p.binding, p.ports_per_link), (Binding::Processing, 1));
    }

    #[test]
    fn the_meshes_end_where_the_nic_ports_do() {
        // 4 x 8 + 1 = 33 links; 19 x 8 + 1 = 153; the NIC of two external ports has none free: 19 x 8 = 152.
        assert_eq!([0, 1, 2].map(|c| planned(c, 4).mesh_ports), [34, 154, 306]);
        for (configuration, last) in [(0, 34), (1, 154), (2, 306)] {
            assert_eq!(planned(configuration, last).topology, Topology::Mesh);
            let next = planned(configuration, last + 1);
            assert!(matches!(next.topology, Topology::Fly { n: 2, .. }), "{next:?}");
            assert_eq!(next.binding, Binding::FanOut);
        }
        // The paper's number of ports is a mesh for the first two, and is not for the third.
        assert_eq!([32, 128].map(|n| planned(0, n).topology == Topology::Mesh), [true, false]);
        assert_eq!(planned(1, 128).topology, Topology::Mesh);
        assert_eq!(planned(2, 2048).topology, Topology::Fly { k: 152, n: 2 });
    }

    #[test]
    fn a_thousand_ports_take_two_intermediate_servers_each_and_96_us() {
        let p = planned(0, 1024);
        assert_eq!(p.topology, Topology::Fly { k: 33, n: 2 });
        assert_eq!((p.io_servers, p.intermediate_servers), (1024, 2048));
        assert_eq!((p.hops, p.latency_ns), ((4, 7), (96_000, 168_000)));
        // 3072 servers with 33 links each; 20 G over 33 links.
        assert_eq!((p.links, p.link_bps), (50_688, 606_060_607));
    }

    #[test]
    fn two_ports_for_each_server_double_what_a_link_carries_four_times() {
        // 20 G of each of 64 servers over 64, twice: 2 s s R / N, not 2 s R / N.
        let p = planned(2, 128);
        assert_eq!((p.servers(), p.degree, p.link_bps), (64, 63, 625_000_000));
        assert_eq!(planned(1, 128).link_bps, 156_250_000);
    }

    #[test]
    fn links_take_ports_side_by_side_and_a_server_is_added_where_that_does_not_suffice() {
        // 20 G / 18 need two ports of 1 G: 32 / 2 links, and one by the free port of 10 G.
        let p = planned(0, 18);
        assert_eq!((p.servers(), p.ports_per_link, p.fan_out), (18, 2, 17));
        // 20 G / 19 too, and that are 18 links; of 20 servers each has links of 1 G.
        let p = planned(0, 19);
        assert_eq!((p.io_servers, p.intermediate_servers, p.binding), (19, 1, Binding::LinkRate));
        assert_eq!((p.ports_per_link, p.link_bps), (1, G));
    }

    #[test]
    fn clos_networks_by_hand() {
        assert_eq!(clos(48, 48), Some(1));
        // 4 leaves, 13 ports down and 25 up; 25 spines of 4 ports, 12 in a switch.
        assert_eq!(clos(49, 48), Some(4 + 3));
        // 4 leaves of 16, 31 spines of 4.
        assert_eq!(clos(64, 48), Some(4 + 3));
        // 48 leaves of 16, 31 spines.
        assert_eq!(clos(768, 48), Some(48 + 31));
        // 64 leaves, 31 networks of 64 ports.
        assert_eq!(clos(1024, 48), Some(64 + 31 * 7));
        assert_eq!(clos(5, 4), None);
        let other = planned(0, 48).switched.unwrap();
        // 48 ports at $500 are 12 servers at $2000.
        assert_eq!((other.servers, other.switches, other.server_equivalents), (48, 1, 60.0));
        assert_eq!(other.watts, None);
    }

    #[test]
    fn a_uniform_matrix_asks_for_less() {
        let mut w = wanted(0, 4);
        w.server.rate_bps = 29 * G;
        let error = plan(&w).unwrap_err();
        assert_eq!(error, PlanError::ServerTooSlow { rate_bps: 10 * G, c: 3, server_bps: 29 * G });
        assert!(error.to_string().contains("3 x 10 Gbps = 30 Gbps, the server processes 29 Gbps"), "{error}");
        w.matrix = Matrix::Uniform;
        assert_eq!(plan(&w).unwrap().servers(), 4);
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let mut w = wanted(0, 0);
        assert!(matches!(plan(&w), Err(PlanError::Range { got: 0, .. })));
        w.ports = 4;
        w.server.nics.remove(0);
        assert_eq!(plan(&w), Err(PlanError::NicTooSlow { rate_bps: 10 * G, fastest_bps: G }));
        // One slot with two ports: a mesh of two, and no more.
        w.server = Server { slots: 1, nics: vec![Nic { ports: 2, port_bps: 10 * G }], ..wanted(0, 1).server };
        w.ports = 2;
        let p = plan(&w).unwrap();
        assert_eq!((p.topology, p.node_worst_bps, p.hops), (Topology::Mesh, 20 * G, (2, 2)));
        w.ports = 3;
        assert_eq!(plan(&w), Err(PlanError::NoFanOut { slots: 1, rate_bps: 10 * G, mesh_ports: 2 }));
    }

    #[test]
    fn ports_give_way_to_links() {
        // Four ports could be processed, four fit, but then nothing joins the servers; with three a link of 30 G does.
        let mut w = wanted(0, 6);
        w.server = Server {
            rate_bps: 120 * G,
            slots: 2,
            nics: vec![Nic { ports: 2, port_bps: 40 * G }],
            ..w.server.clone()
        };
        let p = plan(&w).unwrap();
        assert_eq!((p.ports_per_server, p.ports_processed, p.binding), (3, 4, Binding::FanOut));
        w.ports = 4;
        assert_eq!(plan(&w).unwrap().topology, Topology::Single);
    }

    #[test]
    fn figure_3_has_its_shape() {
        let curves = figure3(&Switch::default()).unwrap();
        let at = |curve: usize, ports: u64| {
            curves[curve].points.iter().find(|p| p.ports == ports).unwrap().servers
        };
        assert_eq!(curves.len(), 4);
        assert_eq!([0, 1, 2, 3].map(|c| at(c, 32)), [32.0, 32.0, 16.0, 44.0]);
        assert_eq!([0, 1, 2].map(|c| at(c, 1024)), [3072.0, 3072.0, 1536.0]);
        // "More expensive than the server-based clusters" holds wherever these are a mesh, and from 1024 ports on, but not
        // between: 64 ports take 192 of today's servers, or 64 and 7 switches at 12 servers each.
        for curve in curves.iter().take(3) {
            for point in &curve.points {
                if point.topology == Some(Topology::Mesh) || point.ports >= 1024 {
                    assert!(point.servers < at(3, point.ports), "{point:?}");
                }
            }
        }
        assert_eq!([0, 3].map(|c| at(c, 64)), [192.0, 148.0]);
    }

    proptest! {
        #[test]
        fn more_ports_never_take_fewer_servers(
            configuration in 0_usize..3, ports in 1_u64..6000, more in 0_u64..6000,
        ) {
            let (few, many) = (planned(configuration, ports), planned(configuration, ports + more));
            prop_assert!(few.servers() <= many.servers());
            let (few, many) = (few.switched.unwrap(), many.switched.unwrap());
            prop_assert!(few.dollars <= many.dollars);
        }

        #[test]
        fn more_slots_never_take_more_servers(ports in 1_u64..6000, slots in 2_u32..40, more in 0_u32..40) {
            let mut w = wanted(0, ports);
            w.server.slots = slots;
            let few = plan(&w).unwrap();
            w.server.slots = slots + more;
            prop_assert!(plan(&w).unwrap().servers() <= few.servers());
        }

        #[test]
        fn no_server_and_no_link_bears_more_than_it_can(
            ports in 1_u64..3000, rate in 1_u64..200, power in 20_u64..2000, slots in 1_u32..30,
            nics in proptest::collection::vec((1_u32..17, prop::sample::select(vec![1, 10, 25, 40, 100, 400])), 1..4),
        ) {
            let nics: Vec<Nic> = nics.into_iter().map(|(ports, g)| Nic { ports, port_bps: g * G }).collect();
            let server = Server { rate_bps: power * G, slots, nics, ..wanted(0, 1).server };
            let w = Wanted { ports, rate_bps: rate * G, matrix: Matrix::Worst, server, switch: Switch::default() };
            if let Ok(p) = plan(&w) {
                prop_assert!(p.node_worst_bps <= w.server.rate_bps);
                prop_assert!(p.io_servers * p.ports_per_server >= ports);
                prop_assert!(p.degree <= p.fan_out);
                let fastest = w.server.nics.iter().map(|nic| nic.port_bps).max().unwrap();
                prop_assert!(p.link_bps <= p.ports_per_link * fastest);
                if let Topology::Fly { k, n } = p.topology {
                    prop_assert!(k.pow(n) >= p.io_servers && k.pow(n - 1) < p.io_servers);
                }
            }
        }
    }
}
