//! What is simulated.

use crate::traffic::{FlowSizes, Lengths, Matrix};
use cluster::{Mode, NodeId};
use measure::sizes::Sizes;

/// Something that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A server with its port and all its links.
    Node(u16),
    /// The link from one to another.
    Link(u16, u16),
}

/// A failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What fails.
    pub part: Part,
    /// When.
    pub at_ns: u64,
    /// When it is back; none: not in this run.
    pub until_ns: Option<u64>,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Config {
    /// External ports, one for each server.
    pub ports: u16,
    /// R, with Ethernet's overhead counted.
    pub rate_bps: u64,
    /// Links of a server to the next stage of a k-ary n-fly ([`cluster::topology`]); none: a full mesh.
    pub k: Option<u16>,
    /// The policy of load balancing.
    pub mode: Mode,
    /// For flowlets; none: without.
    pub delta_ns: Option<u64>,
    /// How much of R/N may be saved up; none: what the policy has.
    pub burst_ns: Option<u64>,
    /// What goes where.
    pub matrix: Matrix,
    /// How much of the matrix is offered.
    pub load: f64,
    /// Frames, without check sequence.
    pub sizes: Sizes,
    /// Flows at a time from each input.
    pub flows: usize,
    /// How many packets flows have.
    pub flow_sizes: FlowSizes,
    /// How many packets of a flow follow one another, on average.
    pub train: f64,
    /// Capacity of a link; none: 2R/N in a mesh, 2R/k in a fly.
    pub link_bps: Option<u64>,
    /// Room before each line, in bytes.
    pub buffer: u32,
    /// Whether a line serves inputs in turn, or packets as they come.
    pub fair: bool,
    /// What a server can process; none: anything.
    pub server_bps: Option<u64>,
    /// How long a server takes for a packet.
    pub server_ns: u64,
    /// How much longer it may take, at random for each batch of 16.
    pub jitter_ns: u64,
    /// How much longer than another link a link may be.
    pub skew_ns: u64,
    /// How long nothing is counted.
    pub warm_ns: u64,
    /// How long is counted after that.
    pub time_ns: u64,
    /// What all random numbers come from.
    pub seed: u64,
    /// What fails.
    pub failures: Vec<Failure>,
    /// How long it takes until all know of it.
    pub detection_ns: u64,
}

impl Config {
    /// The usual: a mesh in mode adaptive with flowlets of 100 ms, IMIX frames, 1,024 flows at each input in
    /// trains of 2, buffers of 512 KB, fair queues, servers of 24 us, and time for two million packets.
    #[must_use]
    pub fn new(ports: u16, rate_bps: u64, matrix: Matrix, load: f64) -> Self {
        let sizes = Sizes::Mix(measure::sizes::IMIX.to_vec());
        let mut this = Self {
            ports,
            rate_bps,
            k: None,
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
    /// Counts for as long as about so many packets take, warming up for a quarter of that.
    pub fn last(&mut self, packets: f64) {
        let parts: f64 = (0..self.matrix.ports()).map(|s| self.matrix.from(s)).sum();
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
    /// What the policy of a node is made of.
    #[must_use]
    pub fn policy(&self, me: NodeId) -> cluster::Config {
        cluster::Config {
            mode: self.mode,
            // In a fly a pair of nodes is what a link is in the mesh.
            link_bps: if self.k.is_some() { None } else { self.link_bps },
            delta_ns: self.delta_ns,
            burst_ns: self.burst_ns,
            // An input that sends nothing, and carries at most for others, needs no table.
            flows: if self.matrix.width(me.index()) == 0 { 4 } else { (self.flows * 4).clamp(4096, 1 << 16) },
            ..cluster::Config::new(me, self.ports, self.rate_bps)
        }
    }
}
