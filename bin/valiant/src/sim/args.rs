//! The command line of `valiant sim`.

use super::values::{Over, Time, count, failure, over, part, sizes, time, time_or_none};
use clap::Args;
use measure::bps::bps;
use measure::sizes::Sizes;
use simulator::Failure;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Matrices: uniform (R/N from each to each), permutation (all of each to the next), hot-spot (one output is filled, half of it by one \
input), worst (what loads one link most), transpose (a permutation that exchanges two parts of a number), random (random permutations), pair \
(all from one input to one output), overload (one output is wanted by all, unequally). A file has a line for each input with the \
parts of R for the outputs, separated by commas: it says how many ports there are.

Examples:
  valiant sim --ports 8                          uniform traffic at 90 % of the lines' rate
  valiant sim -n 64 -m permutation -l 1          c, links against 2R/N, loss, latency, fairness
  valiant sim -n 16 -m overload -l 1             an output that all want: how it is shared
  valiant sim -n 4 -m matrix.csv --json
  valiant sim -n 8 --fail node:3@2ms-9ms --detection 1ms -t 20ms
  valiant sim -n 64 --topology fly --k 8 -m worst   2 stages of 64 servers between inputs and outputs
  valiant sim -m pair -l 1 --mode direct --skew 50us --over delta=none,10us,100us,1ms,10ms,100ms --plots out
                                                 reordering over delta (RouteBricks, section 6.2)
  valiant sim -m permutation --over ports=4,16,64,256,1024

Exit status: 0 done (also by Ctrl-C, with what there is), 1 it cannot be simulated, 2 wrong call.";

/// `valiant sim`.
#[derive(Args, Clone)]
pub(crate) struct SimArgs {
    /// External ports, N: 4 to 2048 and more, one for each server; 4 if no file says otherwise.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(super) ports: Option<u16>,
    /// The rate of an external port, R, with Ethernet's overhead.
    #[arg(short, long, value_name = "RATE", default_value = "10G", value_parser = bps)]
    pub(super) rate: u64,
    /// What goes where: a name (see below) or a file.
    #[arg(short, long, value_name = "NAME|FILE", default_value = "uniform")]
    pub(super) matrix: String,
    /// How much of the matrix is offered: 1 fills the lines that it fills.
    #[arg(short, long, value_name = "PART", default_value_t = 0.9, value_parser = part)]
    pub(super) load: f64,
    /// How the servers are joined: a full `mesh`, or a k-ary n-`fly`, n stages of servers between inputs and
    /// outputs.
    #[arg(long, value_name = "NAME", default_value = "mesh", value_parser = ["mesh", "fly"])]
    pub(super) topology: String,
    /// Links of a server of a fly towards the next stage.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(super) k: u16,
    /// The policy: `adaptive`, `direct` (as RouteBricks describes it) or `valiant`.
    #[arg(long, value_name = "NAME", default_value = "adaptive", value_parser = ["adaptive", "direct", "valiant"])]
    pub(super) mode: String,
    /// For how long a flow's packets follow each other (flowlets), or `none`: each packet by itself.
    #[arg(long, value_name = "TIME|none", default_value = "100ms", value_parser = time_or_none)]
    pub(super) delta: Time,
    /// How much of R/N may be saved up; by default 1 ms, or 32 frames of 1,538 bytes at R/N if that is
    /// longer.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) burst: Option<Time>,
    /// Frames, without check sequence: bytes, a range (60-1514), imix, or a mix (60:7,1514:1).
    #[arg(short, long, value_name = "SIZE", default_value = "imix", value_parser = sizes)]
    pub(super) size: Sizes,
    /// Flows at a time from each input, shared out over its outputs; each has 2 to 100,000 packets, 11 on
    /// average.
    #[arg(short, long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) flows: u32,
    /// How many packets of a flow come one after the other, on average.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub(super) train: f64,
    /// Capacity of a link; by default 2R/N in a mesh, 2R/k in a fly.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(super) link_rate: Option<u64>,
    /// Room before each link and each output line, in KB of packets.
    #[arg(long, value_name = "KB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    pub(super) buffer: u32,
    /// How lines serve: `fair` (deficit round robin over inputs) or `fifo`.
    #[arg(long, value_name = "NAME", default_value = "fair", value_parser = ["fair", "fifo"])]
    pub(super) queues: String,
    /// What a server can process; by default anything, and the report says what it would have to.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(super) server_rate: Option<u64>,
    /// How long a packet stays in a server, without queueing.
    #[arg(long, value_name = "TIME", default_value = "24us", value_parser = time)]
    pub(super) server_latency: Time,
    /// How much longer it may, at random for each batch of 16 packets.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(super) jitter: Time,
    /// How much longer a link may be than others: each is longer by a random part of this.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(super) skew: Time,
    /// How long to count; by default as long as --packets take.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(super) time: Option<Time>,
    /// About how many packets to count, if --time does not say.
    #[arg(long, value_name = "N", default_value_t = 2_000_000.0, value_parser = count)]
    pub(super) packets: f64,
    /// How long to run before counting; by default a quarter of the time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) warmup: Option<Time>,
    /// What all random numbers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Something fails, and may come back: node:3@2ms, link:0-1@2ms-9ms (one direction). Times count from the
    /// start.
    #[arg(long, value_name = "WHAT@TIME", value_parser = failure)]
    pub(super) fail: Vec<Failure>,
    /// How long it takes until all nodes know.
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = time)]
    pub(super) detection: Time,
    /// Run once for each of several values: of delta, load, ports, skew, jitter or train.
    #[arg(long, value_name = "KEY=V1,V2,...", value_parser = over)]
    pub(super) over: Option<Over>,
    /// Write plots as SVG into a directory: links, nodes, queues, outputs, latency; with --over what depends
    /// on it.
    #[arg(long, value_name = "DIR")]
    pub(super) plots: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// No progress.
    #[arg(short, long)]
    pub(super) quiet: bool,
}
