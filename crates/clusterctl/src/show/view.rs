//! All nodes of a cluster, asked twice, once or until a signal comes.

use super::snapshot::{Snapshot, ask_all};
use crate::args::ShowArgs;
use crate::etcd::{self, Member};
use crate::file::{Cluster, Node};
use crate::outcome::heard;
use launch::Failure;
use launch::live::Live;
use serde_json::Value;
use std::process::ExitCode;

/// Two answers of a node, or the reason why it does not answer.
pub(super) type Answer = Result<(Snapshot, Snapshot), String>;

/// The nodes of the cluster, with their answers.
pub(super) struct View<'a> {
    pub(super) cluster: &'a Cluster,
    /// The members that etcd knows, if the cluster uses it and it is asked.
    pub(super) etcd: Option<Result<(i64, Vec<Member>), String>>,
    pub(super) nodes: Vec<(&'a Node, Answer)>,
}

/// Asks twice and shows the difference, once or until a signal comes.
pub(super) fn observe(
    args: &ShowArgs,
    with_etcd: bool,
    text: fn(&View<'_>) -> String,
    as_json: fn(&View<'_>) -> Value,
) -> Result<ExitCode, Failure> {
    let cluster = Cluster::load(&args.file)?;
    let live = Live::new(args.watch, args.json);
    let mut before = ask_all(&cluster);
    loop {
        if !live.wait(args.interval) {
            return Ok(ExitCode::SUCCESS);
        }
        let now = ask_all(&cluster);
        let last = std::mem::replace(&mut before, now.clone());
        let nodes = cluster.present().zip(last.into_iter().zip(now)).map(|(node, (before, now))| {
            // A node that has just been started has nothing to compare with.
            (node, now.and_then(|now| before.map_err(|_| "it has just started".to_owned()).map(|b| (b, now))))
        });
        let view = View {
            cluster: &cluster,
            etcd: with_etcd.then(|| etcd::members(&cluster)).flatten(),
            nodes: nodes.collect(),
        };
        let all = view.nodes.iter().all(|(_, answer)| answer.is_ok());
        if !live.show(&if args.json { as_json(&view).to_string() } else { text(&view) }) {
            return Ok(heard(all));
        }
    }
}

/// Whether a node has a link to another, by the file.
pub(super) fn linked(view: &View<'_>, node: &Node, peer: u64) -> bool {
    node.links.iter().any(|l| u64::from(l.to) == peer)
        && view.cluster.present().any(|n| u64::from(n.id) == peer)
}
