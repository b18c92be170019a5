//! The plan: how many servers, in which topology, and which resource is the bottleneck.

use crate::slots::Slots;
use crate::torus::{self, Torus};
use crate::wanted::Wanted;
use measure::bps::Bps;
use std::fmt;

/// The most ports that are planned for.
pub const MAX_PORTS: u64 = 1 << 20;
const MAX_SLOTS: u32 = 256;
const MAX_NIC_PORTS: u32 = 256;
const MAX_BPS: u64 = 100_000_000_000_000;
/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A number that is zero or too large.
    #[error("{what} must be from 1 to {most}, not {got}")]
    Range {
        /// Its name.
        what: &'static str,
        /// Its bound.
        most: u64,
        /// Its value.
        got: u64,
    },
    /// §3's first assumption does not hold.
    #[error(
        "the assumption that a server can process at least one external port fails: a port of {} needs {c} x {} = {}, \
         the server processes {}{}",
        Bps(*.rate_bps), Bps(*.rate_bps), Bps(*.rate_bps * *.c), Bps(*.server_bps), and_forwards(*.forward_bps)
    )]
    ServerTooSlow {
        /// R.
        rate_bps: u64,
        /// c.
        c: u64,
        /// The rate that the server can process.
        server_bps: u64,
        /// The rate that it can forward, if that is another.
        forward_bps: Option<u64>,
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
        /// The rate that each of two links would have to carry.
        rate_bps: u64,
        /// The largest mesh.
        mesh_ports: u64,
    },
}

/// What a server forwards, as the end of a sentence.
fn and_forwards(forward_bps: Option<u64>) -> String {
    forward_bps.map_or_else(String::new, |rate| {
        format!(", of which it routes each packet once, and forwards {}", Bps(rate))
    })
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
    /// The rate that a server can process determines the number of servers.
    Processing,
    /// The number of NIC slots for external ports determines it.
    Slots,
    /// A server has too few ports for links to all other servers: servers in between are needed, or slots for
    /// external ports are used for links.
    FanOut,
    /// The ports of a server are too slow for a mesh of fewer servers.
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
    /// Its price as a number of servers, the unit of Fig. 3.
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
    /// The bottleneck.
    pub binding: Binding,
    /// Servers with external ports.
    pub io_servers: u64,
    /// Servers without.
    pub intermediate_servers: u64,
    /// Servers that a server has a link to.
    pub degree: u64,
    /// The most links that a server's ports allow, at this plan's link rate.
    pub fan_out: u64,
    /// Links in all.
    pub links: u64,
    /// NIC ports side by side for a link, of the kind that most links use.
    pub ports_per_link: u64,
    /// The rate that a link must carry in each direction, rounded up.
    pub link_bps: u64,
    /// The highest rate that a server processes when the traffic is uniform.
    pub node_uniform_bps: u64,
    /// The highest rate that a server processes with any traffic: the paper's 3sR; sR and 2sR for one and two
    /// servers.
    pub node_worst_bps: u64,
    /// c when all traffic of an input goes to one output: 3 − 1/M in a mesh, since 1/M goes direct.
    pub c_permutation: f64,
    /// Servers on the shortest and the longest path of a packet between different servers.
    pub hops: (u32, u32),
    /// The latency of these paths.
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
    /// The same router as a torus, for comparison; absent where one server suffices, or no torus does.
    pub torus: Option<Torus>,
}

impl Plan {
    /// All servers.
    #[must_use]
    pub const fn servers(&self) -> u64 {
        self.io_servers + self.intermediate_servers
    }
}

fn in_range(what: &'static str, got: u64, most: u64) -> Result<(), PlanError> {
    if got == 0 || got > most { Err(PlanError::Range { what, most, got }) } else { Ok(()) }
}

/// Plans a cluster.
///
/// # Errors
///
/// An input is zero or too large, or an assumption fails: the server is too slow for one port, no NIC carries
/// a port, or a server's ports do not suffice for links.
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

    if let Some(forward) = server.forward_bps {
        in_range("what a server can forward", forward, MAX_BPS)?;
    }
    let processed = server.processes(rate_bps, matrix.c());
    if processed == 0 {
        return Err(PlanError::ServerTooSlow {
            rate_bps,
            c: matrix.c(),
            server_bps: server.rate_bps,
            forward_bps: server.forward_bps,
        });
    }
    let Some(fast) = server.nics.iter().filter(|nic| nic.port_bps >= rate_bps).map(|nic| nic.ports).max()
    else {
        let fastest_bps = server.nics.iter().map(|nic| nic.port_bps).max().unwrap_or(0);
        return Err(PlanError::NicTooSlow { rate_bps, fastest_bps });
    };
    let room = u64::from(fast) * u64::from(server.slots);
    let first = processed.min(room);
    // As many external ports for each server as possible; fewer only if no links would be possible.
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
    laid.torus = if laid.servers() > 1 { torus::smallest(wanted) } else { None };
    Ok(laid)
}

/// The cluster with `s` external ports for each server, if there are enough slots.
fn lay_out(wanted: &Wanted, s: u64) -> Option<Plan> {
    let (rate, server) = (wanted.rate_bps, &wanted.server);
    let slots = Slots::new(server, rate, s)?;
    let io = wanted.ports.div_ceil(s);
    // The traffic that a server spreads over the others, in both phases.
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
    // Traffic that stays in a server is processed once; with two servers, neither is an intermediate node.
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
        torus: None,
    })
}

/// The switched cluster. A server needs as many ports towards the switches as to the outside, and 2R for
/// each.
fn switched(wanted: &Wanted, room: u64) -> Option<Switched> {
    let (server, switch) = (&wanted.server, &wanted.switch);
    let s = server.processes(wanted.rate_bps, 2).min(room / 2);
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

/// The switches of a strictly non-blocking Clos network with this many outer ports: leaves with n ports down
/// and 2n − 1 up, around 2n − 1 networks with a port for each leaf. Small ones of these share switches.
/// `None`: the switches are too small.
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
