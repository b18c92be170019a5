//! The command line of `valiant sim`.

use super::values::{Over, Time, count, failure, over, part, sizes, time, time_or_none};
use clap::Args;
use measure::bps::bps;
use measure::sizes::Sizes;
use simulator::Failure;
use std::path::PathBuf;

pub(crate) const EXAMPLES: &str = "\
Matrices: uniform (R/N from each input to each output), permutation (each input sends everything to the next output), hot-spot (one output is fully loaded, half of it by one input), worst (the permutation that loads one link most), transpose (a permutation that exchanges the two halves of a port's number), random (random permutations), pair (one input sends everything to one output), overload (all inputs send to one output, at different rates). A file has a line for each input with the fractions of R for the outputs, separated by commas; the number of lines is the number of ports.

In the results, c is the work of all servers in relation to what enters the cluster: a packet that goes directly is worked on by two servers (c = 2), one that goes via an intermediate node by three (c = 3).

Examples:
  valiant sim --ports 8                          uniform traffic at 90 % of line rate
  valiant sim -n 64 -m permutation -l 1          c, links against 2R/N, loss, latency, fairness
  valiant sim -n 16 -m overload -l 1             how inputs share an oversubscribed output
  valiant sim -n 4 -m matrix.csv --json
  valiant sim -n 8 --fail node:3@2ms-9ms --detection 1ms -t 20ms
  valiant sim -n 64 --topology fly --k 8 -m worst   2 stages of 64 servers between inputs and outputs
  valiant sim -m pair -l 1 --mode direct --skew 50us --over delta=none,10us,100us,1ms,10ms,100ms --plots out
                                                 reordering over delta (RouteBricks, section 6.2)
  valiant sim -m permutation --over ports=4,16,64,256,1024

Exit status: 0 done (also by Ctrl-C, with the results so far), 1 failed, 2 wrong usage.";

/// `valiant sim`.
#[derive(Args, Clone)]
pub(crate) struct SimArgs {
    /// Number of external ports, N, 2 to 4096, one for each server; 4 by default, or as in the matrix file.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(super) ports: Option<u16>,
    /// The rate of an external port, R, including preamble, FCS and gap.
    #[arg(short, long, value_name = "RATE", default_value = "10G", value_parser = bps)]
    pub(super) rate: u64,
    /// The traffic matrix: a name (see below), a file, or the numbers themselves as in "0,1; 0.5,0.5".
    #[arg(short, long, value_name = "NAME|FILE|NUMBERS", default_value = "uniform")]
    pub(super) matrix: String,
    /// Offered load as a fraction of the matrix; 1 is line rate.
    #[arg(short, long, value_name = "PART", default_value_t = 0.9, value_parser = part)]
    pub(super) load: f64,
    /// How the servers are connected: a full `mesh`, or a k-ary n-`fly`, n stages of servers between inputs
    /// and outputs.
    #[arg(long, value_name = "NAME", default_value = "mesh", value_parser = ["mesh", "fly"])]
    pub(super) topology: String,
    /// Links from a server to the next stage of a fly.
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(super) k: u16,
    /// The policy: `adaptive`, `direct` (as RouteBricks describes it) or `valiant`; or `single`, static
    /// single-path routing, for comparison: all packets take the direct link of a mesh; or `scheduled`,
    /// adaptive single-path routing: a central scheduler that sees all links gives each flow its path.
    #[arg(long, value_name = "NAME", default_value = "adaptive", value_parser = ["adaptive", "direct", "valiant", "single", "scheduled"])]
    pub(super) mode: String,
    /// Longest gap between two packets of a flowlet, or `none`: the path of each packet is chosen anew.
    #[arg(long, value_name = "TIME|none", default_value = "100ms", value_parser = time_or_none)]
    pub(super) delta: Time,
    /// Bucket size of the limit R/N on a direct path, as a time at that rate; by default 1 ms, or 32 frames
    /// of 1,538 bytes if that is longer.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) burst: Option<Time>,
    /// Frame size, without FCS: bytes, a range (60-1514), imix, or a mix (60:7,1514:1).
    #[arg(short, long, value_name = "SIZE", default_value = "imix", value_parser = sizes)]
    pub(super) size: Sizes,
    /// Concurrent flows of each input, distributed over its outputs; each has 2 to 100,000 packets, 11 on
    /// average.
    #[arg(short, long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) flows: u32,
    /// Packets of a flow that are sent back to back, on average.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    pub(super) train: f64,
    /// Capacity of a link; by default 2R/N in a mesh, 2R/k in a fly.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(super) link_rate: Option<u64>,
    /// Buffer of each link and each output line, in KB.
    #[arg(long, value_name = "KB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    pub(super) buffer: u32,
    /// The queues of lines: `fair` (deficit round robin over inputs) or `fifo`.
    #[arg(long, value_name = "NAME", default_value = "fair", value_parser = ["fair", "fifo"])]
    pub(super) queues: String,
    /// The rate that a server can process; unlimited by default, and the report says what would be needed.
    #[arg(long, value_name = "RATE", value_parser = bps)]
    pub(super) server_rate: Option<u64>,
    /// Latency of a server, without queueing.
    #[arg(long, value_name = "TIME", default_value = "24us", value_parser = time)]
    pub(super) server_latency: Time,
    /// Largest random addition to it, for each batch of 16 packets.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(super) jitter: Time,
    /// Largest difference of latency between links: each link gets a random part of it.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub(super) skew: Time,
    /// How long to measure; by default as long as --packets take.
    #[arg(short, long, value_name = "TIME", value_parser = time)]
    pub(super) time: Option<Time>,
    /// About how many packets to measure, without --time.
    #[arg(long, value_name = "N", default_value_t = 2_000_000.0, value_parser = count)]
    pub(super) packets: f64,
    /// How long to run before measuring; by default a quarter of the time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) warmup: Option<Time>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// A failure, and optionally its end: node:3@2ms, link:0-1@2ms-9ms (one direction); times since the
    /// start.
    #[arg(long, value_name = "WHAT@TIME", value_parser = failure)]
    pub(super) fail: Vec<Failure>,
    /// How long it takes until all nodes know of a failure.
    #[arg(long, value_name = "TIME", default_value = "30ms", value_parser = time)]
    pub(super) detection: Time,
    /// Run once for each value of delta, load, ports, skew, jitter or train.
    #[arg(long, value_name = "KEY=V1,V2,...", value_parser = over)]
    pub(super) over: Option<Over>,
    /// Write plots as SVG into a directory: links, nodes, queues, outputs, latency; with --over, results over
    /// its values.
    #[arg(long, value_name = "DIR")]
    pub(super) plots: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Do not print progress.
    #[arg(short, long)]
    pub(super) quiet: bool,
}
