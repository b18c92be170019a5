//! The parameters of a simulation.

use crate::traffic::{FlowSizes, Lengths};
use cluster::{Mode, NodeId};
use measure::matrix::Matrix;
use measure::sizes::Sizes;

/// A component that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A server with its port and all its links.
    Node(u16),
    /// The link from one server to another, in this direction.
    Link(u16, u16),
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What fails.
    pub part: Part,
    /// When.
    pub at_ns: u64,
    /// When it works again; none: not in this run.
    pub until_ns: Option<u64>,
}

/// How the one path of a flow is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinglePath {
    /// The direct link.
    Static,
    /// A central scheduler gives each flow, when it begins, the path whose fuller link has the fewest flows.
    Adaptive,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Config {
    /// External ports, one for each server.
    pub ports: u16,
    /// R, including Ethernet's overhead.
    pub rate_bps: u64,
    /// Links of a server to the next stage of a k-ary n-fly ([`cluster::topology`]); none: a full mesh.
    pub k: Option<u16>,
    /// Whether all packets of a flow take one path of the mesh, whatever the policy is: single-path routing,
    /// which RouteBricks (section 3.2) rejects.
    pub single_path: Option<SinglePath>,
    /// The policy of load balancing.
    pub mode: Mode,
    /// The longest gap between two packets of a flowlet; none: no flowlets.
    pub delta_ns: Option<u64>,
    /// Bucket size of the limit R/N on direct paths; none: the default of the policy.
    pub burst_ns: Option<u64>,
    /// The traffic matrix: how much goes from each input to each output.
    pub matrix: Matrix,
    /// The offered load, as a fraction of the matrix.
    pub load: f64,
    /// Frame sizes, without frame check sequence.
    pub sizes: Sizes,
    /// Concurrent flows of each input.
    pub flows: usize,
    /// Number of packets in a flow.
    pub flow_sizes: FlowSizes,
    /// Packets of a flow that arrive back to back, on average.
    pub train: f64,
    /// Capacity of a link; none: 2R/N in a mesh, 2R/k in a fly.
    pub link_bps: Option<u64>,
    /// Buffer of each line, in bytes.
    pub buffer: u32,
    /// Whether a line serves the inputs by deficit round-robin, or has a single FIFO queue.
    pub fair: bool,
    /// The rate that a server can process; none: unlimited.
    pub server_bps: Option<u64>,
    /// Latency of a server, without queueing.
    pub server_ns: u64,
    /// Largest random addition to that latency, for each batch of 16 packets.
    pub jitter_ns: u64,
    /// Largest additional delay of a link.
    pub skew_ns: u64,
    /// Time before counting begins.
    pub warm_ns: u64,
    /// Time during which packets are counted, after that.
    pub time_ns: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// What fails.
    pub failures: Vec<Failure>,
    /// Time until all nodes know of a failure.
    pub detection_ns: u64,
}

impl Config {
    /// The defaults: a mesh with the policy adaptive, with flowlets of 100 ms, IMIX frames, 1,024 flows at
    /// each input in trains of 2, buffers of 512 KB, fair queues, servers of 24 us, and time for two million
    /// packets.
    #[must_use]
    pub fn new(ports: u16, rate_bps: u64, matrix: Matrix, load: f64) -> Self {
        let sizes = Sizes::Mix(measure::sizes::IMIX.to_vec());
        let mut this = Self {
            ports,
            rate_bps,
            k: None,
            single_path: None,
            mode: Mode::Adaptive,
            delta_ns: Some(100_000_000),
            burst_ns: None,
            matrix,
            load,
            sizes,
            flows: 1024,
            flow_sizes: FlowSizes::default(),
            train: 2.0,
            link_bps: None,
            buffer: 512 << 10,
            fair: true,
            server_bps: None,
            server_ns: 24_000,
            jitter_ns: 0,
            skew_ns: 0,
            warm_ns: 0,
            time_ns: 0,
            seed: 1,
            failures: Vec::new(),
            detection_ns: 30_000_000,
        };
        this.last(2_000_000.0);
        this
    }
    /// Sets the time that is counted so that about this many packets arrive in it, and the time before that
    /// to a quarter of it.
    pub fn last(&mut self, packets: f64) {
        let parts: f64 = (0..self.matrix.inputs()).map(|s| self.matrix.from(s)).sum();
        let bits = Lengths::new(&self.sizes).moments().0 * 8.0;
        let pps = (self.rate_bps as f64 * parts * self.load / bits).max(1.0);
        self.time_ns = ((packets / pps * 1e9) as u64).clamp(1000, 100_000_000_000);
        self.warm_ns = self.time_ns / 4;
    }
    /// The capacity of a link of the mesh.
    #[must_use]
    pub fn mesh_link_bps(&self) -> u64 {
        self.link_bps.unwrap_or(2 * self.rate_bps / u64::from(self.ports.max(1)))
    }
    /// The configuration of a node's load balancer.
    #[must_use]
    pub fn policy(&self, me: NodeId) -> cluster::Config {
        cluster::Config {
            mode: self.mode,
            // In a fly, the balancer treats a pair of nodes as a link of a mesh.
            link_bps: if self.k.is_some() { None } else { self.link_bps },
            delta_ns: self.delta_ns,
            burst_ns: self.burst_ns,
            // An input that sends nothing, and only forwards for others, needs no table.
            flows: if self.matrix.width(me.index()) == 0 { 4 } else { (self.flows * 4).clamp(4096, 1 << 16) },
            ..cluster::Config::new(me, self.ports, self.rate_bps)
        }
    }
}
