//! The state that the elements of one node share: its identity, dead nodes and links, counters.

use super::counts::{Totals, WorkerCounts};
use super::fabric::Fabric;
use super::identity::{Identity, MAX_PORTS};
use super::outages::Outages;
use crate::prelude::*;
use cluster::{Config, Error, Failures, NodeId, Topology};
use lang::args::ElementName;
use locks::IgnorePoison;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// What is known about the link to a neighbor, for users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// Whether packets may be sent over it.
    pub up: bool,
    /// Why it is down, or which other node its hellos come from, in words.
    pub words: String,
}

/// The state of one node, shared by its cluster elements on all workers.
#[derive(Debug)]
pub struct ClusterState {
    identity: Identity,
    outages: Outages,
    links: Mutex<BTreeMap<NodeId, LinkReport>>,
    /// The protocol between neighbors, if the configuration has an element that uses it.
    fabric: OnceLock<Arc<Fabric>>,
    counts: Mutex<Vec<Arc<WorkerCounts>>>,
    /// Counts of previous configurations, or minus those at the last reset; the sum wraps around.
    before: Mutex<Totals>,
    /// The number of packets that have been numbered, for each node and port.
    numbered: Box<[AtomicU64]>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().ignore_poison()
}

impl ClusterState {
    /// A state in which everything is alive and nothing has been counted.
    ///
    /// # Errors
    /// The policy has too few or too many nodes, or does not contain this one, or the topology has another
    /// number of nodes.
    pub fn new(identity: Identity) -> Result<Self, Error> {
        let (me, nodes) = (identity.policy.me, identity.policy.nodes);
        let none = Failures::none(nodes)?;
        if identity.topology.nodes() != nodes {
            return Err(Error::OtherCluster { got: identity.topology.nodes(), nodes });
        }
        if me.0 >= nodes {
            return Err(Error::NoSuchNode { node: me, nodes });
        }
        let streams = if identity.resequence { usize::from(nodes) * MAX_PORTS } else { 0 };
        Ok(Self {
            outages: Outages::new(none),
            links: Mutex::default(),
            fabric: OnceLock::new(),
            counts: Mutex::default(),
            before: Mutex::new(Totals::none(nodes)),
            numbered: (0..streams).map(|_| AtomicU64::new(0)).collect(),
            identity,
        })
    }

    // ---- identity ----

    /// The settings from the configuration.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// This node.
    #[must_use]
    pub fn me(&self) -> NodeId {
        self.identity.policy.me
    }
    /// The number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u16 {
        self.identity.policy.nodes
    }
    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.identity.topology
    }
    /// The policy of one of `workers` workers, which share the rates. In a fly, the policy is about the nodes
    /// with external ports: a pair of them takes the place of a link of the mesh, and has its part of the
    /// capacity of a node's links. A node without external ports chooses no paths.
    #[must_use]
    pub fn share(&self, workers: usize) -> Config {
        let workers = workers.max(1) as u64;
        let (policy, topology) = (&self.identity.policy, self.topology());
        let mut link_bps = policy.link_bps;
        if !topology.is_mesh() {
            let pairs =
                |rate: u64| rate.saturating_mul(topology.fan_out().into()) / u64::from(topology.externals());
            link_bps = link_bps.map(pairs);
        }
        let share = Config {
            nodes: topology.externals(),
            rate_bps: policy.rate_bps / workers,
            link_bps: link_bps.map(|rate| rate / workers),
            ..policy.clone()
        };
        if topology.is_external(policy.me) { share } else { Config { me: NodeId(0), flows: 1, ..share } }
    }

    /// The dead nodes and links.
    #[inline]
    #[must_use]
    pub fn outages(&self) -> &Outages {
        &self.outages
    }
    /// The protocol between neighbors.
    ///
    /// # Errors
    /// The reason why it cannot be made.
    pub(in crate::cluster) fn fabric(&self) -> Result<Arc<Fabric>, String> {
        if let Some(fabric) = self.fabric.get() {
            return Ok(Arc::clone(fabric));
        }
        let new = Arc::new(Fabric::new(&self.identity)?);
        Ok(Arc::clone(self.fabric.get_or_init(|| new)))
    }

    // ---- links, for users ----

    /// Reports the state of the link to a neighbor, for display. [`Outages::observe`] alone decides which
    /// links packets may use.
    pub fn report_link(&self, peer: NodeId, report: LinkReport) {
        lock(&self.links).insert(peer, report);
    }
    /// The links that have been reported.
    #[must_use]
    pub fn links(&self) -> Vec<(NodeId, LinkReport)> {
        lock(&self.links).iter().map(|(peer, report)| (*peer, report.clone())).collect()
    }
    /// The same by neighbor.
    pub(super) fn reports(&self) -> BTreeMap<NodeId, LinkReport> {
        lock(&self.links).clone()
    }

    // ---- counters ----

    /// The counters of one worker; only that worker writes them.
    #[must_use]
    pub fn counts(&self, worker: usize) -> Arc<WorkerCounts> {
        let mut all = lock(&self.counts);
        while all.len() <= worker {
            all.push(Arc::new(WorkerCounts::new(self.nodes())));
        }
        Arc::clone(&all[worker])
    }
    /// The sum over all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = lock(&self.before).clone();
        lock(&self.counts).iter().for_each(|counts| totals.add(&counts.read()));
        totals
    }
    /// Sets the counters to zero.
    pub fn reset(&self) {
        let mut counted = Totals::none(self.nodes());
        lock(&self.counts).iter().for_each(|counts| counted.add(&counts.read()));
        let mut before = Totals::none(self.nodes());
        before.subtract(&counted);
        *lock(&self.before) = before;
    }
    /// Numbers `n` packets for an external port; returns how many were numbered before them. Returns `None`
    /// if packets are not numbered.
    #[inline]
    pub fn number(&self, node: NodeId, port: u8, n: u64) -> Option<u64> {
        let stream = self.numbered.get(node.index() * MAX_PORTS + usize::from(port))?;
        Some(stream.fetch_add(n, Ordering::Relaxed))
    }

    /// Continues with the state of the previous configuration: dead nodes and links, counters, sequence
    /// numbers.
    pub fn take_over(&self, old: &Self) {
        if std::ptr::eq(self, old) {
            return;
        }
        self.outages.take_over(&old.outages);
        for (peer, report) in old.links().into_iter().filter(|(peer, _)| peer.0 < self.nodes()) {
            lock(&self.links).entry(peer).or_insert(report);
        }
        lock(&self.before).add(&old.totals());
        for (new, old) in self.numbered.iter().zip(&old.numbered) {
            new.fetch_max(old.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The state of the ClusterInfo that the first argument names.
pub(in crate::cluster) fn state_of(
    args: &mut Args<'_>,
    cx: &ConfigCx<'_>,
) -> Result<Arc<ClusterState>, ArgError> {
    let name = args.mp::<ElementName>("CLUSTER")?;
    cx.shared_of::<ClusterState>(&name.0, "a ClusterInfo").map_err(|e| args.remember(e))
}
