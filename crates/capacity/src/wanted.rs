//! The requirements: ports, traffic, servers, switches; and the servers of the paper.

/// A kind of NIC that fits into a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nic {
    /// Ports on one NIC.
    pub ports: u32,
    /// The rate of each port, in each direction.
    pub port_bps: u64,
}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// The rate that it can process; if forwarding is cheaper, the rate that it can route.
    pub rate_bps: u64,
    /// The rate that it can forward without looking up routes, if that is another: the phases of Valiant load
    /// balancing cost unequally.
    pub forward_bps: Option<u64>,
    /// NIC slots.
    pub slots: u32,
    /// The kinds of NIC that fit.
    pub nics: Vec<Nic>,
    /// Rack units.
    pub units: f64,
    /// Power.
    pub watts: f64,
    /// Price.
    pub dollars: f64,
    /// Its latency.
    pub latency_ns: u64,
}

impl Server {
    /// How many external ports of a rate it can process, each packet `c` times in the cluster: once it is
    /// routed, where it comes in, and otherwise forwarded.
    #[must_use]
    pub fn processes(&self, rate_bps: u64, c: u64) -> u64 {
        let (route, forward) =
            (u128::from(self.rate_bps), u128::from(self.forward_bps.unwrap_or(self.rate_bps)));
        // s R (1 / route + (c - 1) / forward) is at most 1.
        let needed = u128::from(rate_bps) * (forward + (u128::from(c) - 1) * route);
        u64::try_from((route * forward).checked_div(needed).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}

/// An Ethernet switch, for the cluster that is planned for comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Ports.
    pub ports: u32,
    /// The rate of each port.
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

/// The traffic matrices that the router must carry. They determine the rate that a server must process for
/// each of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matrix {
    /// Every input sends the same rate to every output: all packets go direct, c = 2.
    Uniform,
    /// Every matrix that oversubscribes no output: c = 3.
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
    /// The server: NICs of 2 × 10 Gbps or 8 × 1 Gbps, $2000 and 24 µs (§3.3); 1U, and a quarter of RB4's 2.6
    /// kW (§8).
    #[must_use]
    pub fn server(&self) -> Server {
        Server {
            rate_bps: self.ports * Matrix::Worst.c() * FIGURE_RATE_BPS,
            forward_bps: None,
            slots: self.slots,
            nics: vec![Nic { ports: 2, port_bps: 10_000_000_000 }, Nic { ports: 8, port_bps: 1_000_000_000 }],
            units: 1.0,
            watts: 650.0,
            dollars: 2000.0,
            latency_ns: 24_000,
        }
    }
}

/// The requirements of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// External ports, N.
    pub ports: u64,
    /// Rate of each of them, R.
    pub rate_bps: u64,
    /// The traffic matrix that the router must carry.
    pub matrix: Matrix,
    /// The servers.
    pub server: Server,
    /// The switches of the cluster to compare with.
    pub switch: Switch,
}
