//! The planner: which servers, links and topology a router of N ports of rate R takes (RouteBricks §3.3).
//!
//! The rule is the paper's: a server gets as many external ports as it can process at cR each; if its
//! remaining NIC ports reach all other servers, the servers are a full mesh; else they are the outer nodes of
//! a k-ary n-fly with k the fan-out and n = ⌈log_k M⌉ stages of M servers, where M is the number of servers
//! with external ports. The paper leaves some points open. They are decided here as follows.
//!
//! - With s ports for each server a link of the mesh carries 2sR/M, because the sR of a server is spread over
//!   M servers twice. The paper writes 2sR/N, which is the same for s = 1 only.
//! - A link may take several NIC ports side by side; all slots without external ports have one kind of NIC,
//!   the kind that gives most links; free ports of the NICs with external ports are used too.
//! - If links of a mesh would be faster than the NICs allow, servers without external ports are added to it,
//!   which makes all links slower.
//! - In the fly every server has k links of 2sR/k, and a packet that goes directly passes its n stages once.
//!   This agrees with the paper's 2 intermediate servers for each of 1024 ports, and with its 96 µs. A
//!   butterfly can carry uniform traffic that way, but not every permutation (spread over k servers, all
//!   sources of one of these groups may want one link of the next stage). Other traffic therefore goes via an
//!   intermediate node, as in the mesh, and crosses the stages twice: the same servers and links can carry
//!   every admissible matrix, at up to 2n + 3 servers on a path (`cluster::topology`).
//! - The switched cluster needs 2R for each port, and whole switches, in a strictly non-blocking Clos network
//!   (m = 2n − 1).
//!
//! Read `plan.rs` first. This crate opens no file and reads no clock. Rates are bits per second; the caller
//! decides whether they include headers and gaps.
//!
//! # Layers
//!
//! 1. `wanted`: ports, traffic, servers, switches; and the servers of the paper
//! 2. `slots`: external ports and links in a server's NIC slots
//! 3. `torus`: the same router as a torus
//! 4. `plan`: how many servers, in which topology, and which resource is the bottleneck
//! 5. `figure`: servers over ports, the paper's Fig. 3
#![forbid(unsafe_code)]

mod figure;
mod plan;
mod slots;
mod torus;
mod wanted;

pub use figure::{Curve, Point, figure3};
pub use plan::{Binding, MAX_PORTS, Plan, PlanError, Switched, Topology, clos, plan};
pub use torus::Torus;
pub use wanted::{CONFIGURATIONS, Configuration, FIGURE_RATE_BPS, Matrix, Nic, Server, Switch, Wanted};

#[cfg(test)]
mod tests;
