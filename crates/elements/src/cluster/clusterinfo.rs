//! # ClusterInfo
//! Declares which node of a cluster this router is, and holds the state that the node's elements share.
//!
//! The nodes of a cluster act as one router: a packet enters at one node, which does all work on its IP
//! header, and leaves by a port of any node. `valiant cluster` writes the configuration of each node, with
//! this element and the others of its section.
//!
//! ## Synopsis
//! `ClusterInfo(NODE, NODES, RATE [, TOPOLOGY, MODE, DELTA, FLOWS, LINK_RATE, RESEQUENCE, NAME, DIGEST, KEY_FILE, KEY])`
//!
//! ## Arguments
//! All by keyword.
//! - `NODE` (*int*): this node, from 0.
//! - `NODES` (*int*): how many nodes the cluster has, 2 to 4096.
//! - `RATE` (*bandwidth*): R, the rate of the node's external ports together in one direction, for instance
//!   `10Gbps`. Frames are counted as BandwidthShaper counts them, without preamble, FCS and gap.
//! - `TOPOLOGY` (*words*, default `mesh`): the topology. `mesh`: a link between any two nodes. `fly K M`:
//!   nodes 0 to M - 1 have external ports; between their inputs and outputs are n stages of M servers without
//!   external ports, for the least n with K to the power of n at least M; every server has K links to the
//!   next stage: from column X to the columns (KX + R) mod M, R from 0 to K - 1. `NODES` is M (n + 1).
//! - `MODE` (*word*, default `adaptive`): the policy of load balancing. `valiant`: each packet via one of all
//!   nodes, in turn. `direct`: up to R/N directly to the output node, the rest via all others. `adaptive`: as
//!   `direct`, but never less directly than `valiant` sends, and no more than the direct link has capacity
//!   for.
//! - `DELTA` (*time*, default 100 ms): a packet that follows one of its flow within this time takes the same
//!   path, as long as its links have capacity; 0: the path is chosen for each packet by itself.
//! - `FLOWS` (*int*, default 65536, at most 4194304): how many flows each worker remembers (16 bytes each).
//! - `LINK_RATE` (*bandwidth*, default 2R/N, in a fly 2R/K): the capacity of a link to another node.
//! - `RESEQUENCE` (*bool*, default false): whether packets are numbered, for a Resequencer at the output
//!   node. Not in a fly, where the address has no bits left for the number.
//! - `NAME` (*string*, default `cluster`): the cluster's name; nodes of clusters with different names do not
//!   become neighbors.
//! - `DIGEST` (*hexadecimal digits*, default none): identifies the cluster's configuration; links report
//!   neighbors with another digest.
//! - `KEY_FILE` (*filename*): a file with the cluster's key in hexadecimal digits, 16 to 128 bytes. All nodes
//!   have the same one. With a key, only nodes that have it can be neighbors.
//! - `KEY` (*hexadecimal digits*): the key itself, for tests: anybody who reads the configuration can read
//!   it.
//!
//! ## Ports
//! None.
//!
//! ## Handlers
//! - `status` (read): everything about the node, as JSON.
//! - `matrix` (read): a line for each node: its number, packets and bytes from this node that were sent to it
//!   directly, packets and bytes via an intermediate node, packets and bytes of other nodes that this node
//!   forwarded to it. The line of this node itself counts packets that leave where they entered.
//! - `matrix_json` (read): the same as JSON.
//! - `left` (read): a line for each node: its number, and the packets and bytes that entered at it and have
//!   left by an external port of this node, as counted by the ClusterQueues. The difference between what that
//!   node has sent here and this count was lost.
//! - `work` (read): packets and bytes that were received from outside (`input`), forwarded for other nodes
//!   (`transit`), and sent outside (`output`); and `c`, the bytes of all three relative to the mean of input
//!   and output: 2 if nothing is in transit.
//! - `flowlets` (read): packets that `started` a flowlet, `kept` its path, `moved` it to another path,
//!   `returned` it to the direct path, or were `spilled` to other paths, because no path had capacity for the
//!   flowlet.
//! - `nodes` (read): every node, and whether it is `up`, `down` or `this` one.
//! - `links` (read): a line for each other node: its number, whether the link there and the link back are up,
//!   packets and bytes sent over it, the `reason` of its ClusterLink.
//! - `failures` (read): the dead nodes and links: `node A`, or `link A B`, with `forced` if it was set by a
//!   handler.
//! - `key_changed` (read): whether the key file holds another key than the node uses; a hot swap takes the
//!   new one.
//! - `node_down` (write, *NODE* or *NODE BOOL*): takes a node out of service; `false` ends that. This node
//!   stops sending to it.
//! - `link_down` (write, *FROM TO* or *FROM TO BOOL*): the same for the link from one node to another.
//! - `reset` (write): sets the counters to zero.
//!
//! ## Threads
//! All workers share the set of dead nodes and links. Once for each batch, a worker reads one number to see
//! whether the set has changed. Each worker has its own counters, which are added up when they are read, and
//! its part of the rates. A hot swap keeps counters, sequence numbers and the dead set, also when `NODES` or
//! other arguments change; it always reads the key file again.
//!
//! ## Example
//! ```click
//! cluster :: ClusterInfo(NODE 0, NODES 4, RATE 1Gbps);
//! vlb :: ClusterSwitch(cluster);
//! Idle -> ClusterEncap(cluster, NODE 2, PORT 0, NET 10.0.3.0/24) -> [0] vlb;
//! Idle -> [1] vlb;
//! vlb [0] -> ClusterDecap(cluster, 10.0.1.0/24) -> Discard;
//! vlb [1] -> Discard; vlb [2] -> Discard; vlb [3] -> Discard;
//! ```
//!
//! ## See also
//! ClusterSwitch, ClusterEncap, ClusterDecap

use super::engine::identity::{Identity, MODES, hex, key_from_hex};
use super::engine::state::ClusterState;
use crate::plumbing::engine::text;
use crate::prelude::*;
use crate::secret::Secret;
use cluster::{Balancer, Config, Key, NodeId, Topology};
use lang::args::{Bandwidth, Filename, one_of};
use runtime::{HandlerError, Hub};
use std::sync::Arc;
use std::time::Duration;

/// The `ClusterInfo` element.
pub struct ClusterInfo {
    state: Arc<ClusterState>,
}

/// A rate in bits per second.
fn bits(rate: Bandwidth) -> u64 {
    rate.0.saturating_mul(8)
}

/// The longest file with a key, in bytes.
const LONGEST_KEY_FILE: usize = 64 << 10;

/// The key in a file, and whether users other than the file's owner can read it.
fn read_key(hub: &Hub, path: &str) -> Result<(Key, bool), String> {
    let (text, open) = Secret::read(hub, path, LONGEST_KEY_FILE).map_err(|e| format!("{path}: {e}"))?;
    let key = key_from_hex(&String::from_utf8_lossy(&text)).map_err(|e| format!("{path}: {e}"))?;
    Ok((key, open))
}

fn same(a: Option<&Key>, b: Option<&Key>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_as(b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The topology of a cluster of `nodes` nodes.
fn topology(text: &str, nodes: u16) -> Result<Topology, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| lang::args::parse::<u16>(word).map_err(|e| format!("{word}: {e}"));
    let topology = match words[..] {
        ["mesh"] => Topology::mesh(nodes),
        ["fly", k, externals] => Topology::fly(number(externals)?, number(k)?),
        _ => return Err("should be 'mesh' or 'fly K M'".to_owned()),
    };
    let topology = topology.map_err(|e| e.to_string())?;
    if topology.nodes() == nodes {
        Ok(topology)
    } else {
        Err(format!("a {topology} has {} nodes, not {nodes}", topology.nodes()))
    }
}

/// One or two node numbers, and whether the command is undone (`false`).
fn order<const N: usize>(text: &str, what: &str) -> Result<([NodeId; N], bool), String> {
    let wrong = || format!("should be '{what} [BOOL]'");
    let mut words = text.split_whitespace();
    let mut nodes = [NodeId(0); N];
    for node in &mut nodes {
        *node = NodeId(words.next().and_then(|w| w.parse().ok()).ok_or_else(wrong)?);
    }
    let down = words.next().map_or(Ok(true), |w| lang::args::parse::<bool>(w).map_err(|_| wrong()))?;
    if words.next().is_some() { Err(wrong()) } else { Ok((nodes, !down)) }
}

/// The largest number of flows that a worker can remember: 64 MB.
const MOST_FLOWS: usize = 1 << 22;

impl ClusterInfo {
    fn identity(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Identity, ArgError> {
        let (me, nodes) = (args.mk::<u16>("NODE")?, args.mk::<u16>("NODES")?);
        let mut policy = Config::new(NodeId(me), nodes, bits(args.mk("RATE")?));
        policy.mode = args.with("MODE", false, false, |text, _| one_of(text, &MODES))?.unwrap_or_default();
        if let Some(delta) = args.k::<Duration>("DELTA")? {
            policy.delta_ns = Some(text::nanos(delta)).filter(|ns| *ns > 0);
        }
        policy.flows = args.k_or::<u32>("FLOWS", 1 << 16)? as usize;
        if policy.flows > MOST_FLOWS {
            return Err(args.error(format!("FLOWS must be at most {MOST_FLOWS}")));
        }
        policy.link_bps = args.k("LINK_RATE")?.map(bits);
        let topology = args.with("TOPOLOGY", false, false, |text, _| topology(text, nodes))?;
        let topology = match topology {
            Some(topology) => topology,
            None => Topology::mesh(nodes).map_err(|e| args.error(e.to_string()))?,
        };
        let resequence = args.k_or("RESEQUENCE", false)?;
        if resequence && !topology.is_mesh() {
            return Err(args.error(
                "RESEQUENCE: not in a fly, whose packets carry their intermediate node where the number would be: \
                 DELTA keeps flows in order",
            ));
        }
        let name = args.k_or("NAME", "cluster".to_owned())?;
        let digest = args.with("DIGEST", false, false, |text, _| {
            hex(text).ok_or_else(|| "should be pairs of hexadecimal digits".to_owned())
        })?;
        let given = args.with("KEY", false, false, |text, _| key_from_hex(text))?;
        let file = args.k::<Filename>("KEY_FILE")?;
        file.iter().try_for_each(|Filename(path)| cx.permits(Outside::Read(path), args))?;
        if given.is_some() && file.is_some() {
            return Err(args.error("KEY and KEY_FILE are two keys: give one of them"));
        }
        let key_file = file.as_ref().map(|f| f.0.clone());
        let key = match file {
            Some(Filename(path)) => {
                let (key, open) =
                    read_key(cx.hub(), &path).map_err(|e| args.error(format!("KEY_FILE: {e}")))?;
                if open {
                    cx.warn(format!("{path} can be read by others than its owner: chmod 600 {path}"));
                }
                Some(key)
            }
            None => given,
        };
        let digest = digest.unwrap_or_default();
        Ok(Identity { name, policy, topology, resequence, key, key_file, digest })
    }

    /// Whether the key file now contains another key.
    fn key_changed(state: &ClusterState, hub: &Hub) -> Result<bool, String> {
        let Identity { key, key_file: Some(path), .. } = state.identity() else { return Ok(false) };
        let (now, _) = read_key(hub, path)?;
        Ok(!same(key.as_ref(), Some(&now)))
    }
}

impl Element for ClusterInfo {
    const CLASS: &'static str = "ClusterInfo";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Info;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("cluster/clusterinfo");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let identity = Self::identity(args, cx)?;
        let state = ClusterState::new(identity).map_err(|e| args.error(e.to_string()))?;
        // Arguments that a worker's policy cannot be made of are reported here, with their place in the
        // configuration.
        let share = Config { flows: 1, ..state.share(cx.workers()) };
        Balancer::new(share, 0).map_err(|e| args.error(e.to_string()))?;
        let key = state.identity().key.clone();
        let mut state = cx.shared(|| state);
        // A hot swap keeps the state if the arguments are the same, unless the key in use is no longer in the
        // key file.
        if cx.worker().0 == 0 && !same(key.as_ref(), state.identity().key.as_ref()) {
            let rekeyed = Identity { key, ..state.identity().clone() };
            state = Arc::new(ClusterState::new(rekeyed).map_err(|e| args.error(e.to_string()))?);
            cx.publish(Arc::clone(&state));
        }
        Ok(Self { state })
    }

    fn handlers(h: &mut Handlers<Self>) {
        h.shared_read::<ClusterState>("status", |s, _| Ok(s.status().to_string()));
        h.shared_read::<ClusterState>("matrix", |s, _| Ok(s.matrix()));
        h.shared_read::<ClusterState>("matrix_json", |s, _| Ok(s.matrix_json().to_string()));
        h.shared_read::<ClusterState>("left", |s, _| Ok(s.left()));
        h.shared_read::<ClusterState>("work", |s, _| Ok(s.work()));
        h.shared_read::<ClusterState>("flowlets", |s, _| Ok(s.flowlets()));
        h.shared_read::<ClusterState>("nodes", |s, _| Ok(s.members()));
        h.shared_read::<ClusterState>("links", |s, _| Ok(s.neighbors()));
        h.shared_read::<ClusterState>("failures", |s, _| Ok(s.dead()));
        h.called_read("key_changed", |s: &ClusterState, caller, _| {
            let changed = Self::key_changed(s, caller.hub());
            changed.map(|c| c.to_string()).map_err(HandlerError::Failed)
        });
        h.shared_write::<ClusterState>("node_down", |s, text| {
            let ([node], up) = order(text, "NODE")?;
            if node == s.me() {
                return Err(format!("node {node} is this one: stop it instead"));
            }
            s.outages().force_node(node, up).map_err(|e| e.to_string())
        });
        h.shared_write::<ClusterState>("link_down", |s, text| {
            let ([from, to], up) = order(text, "FROM TO")?;
            if from == to {
                return Err(format!("there is no link from node {from} to itself"));
            }
            s.outages().force_link(from, to, up).map_err(|e| e.to_string())
        });
        h.shared_write::<ClusterState>("reset", |s, _| {
            s.reset();
            Ok(())
        });
    }

    fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        if cx.worker().0 == 0 {
            self.state.take_over(&old.state);
        }
    }
}
