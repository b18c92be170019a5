//! The digest by which nodes find out that their configurations differ.

use crate::file::{Cluster, Topology};
use lang::Config;
use sha2::{Digest, Sha256};

/// The settings that must be the same on all nodes; not the machines of the nodes, nor the names of devices.
pub(super) fn digest(cluster: &Cluster, config: &Config) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: String| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    add(format!("{} {} {:?} {}", cluster.name, cluster.rate_bps, cluster.link_bps, cluster.shape));
    add(format!("{:?} {:?} {}", cluster.policy, cluster.hello, topology(cluster.topology)));
    for node in cluster.present() {
        let mut peers: Vec<u16> = node.links.iter().map(|l| l.to).collect();
        peers.sort_unstable();
        add(format!("{} {peers:?}", node.id));
    }
    for (node, index, port) in cluster.ports() {
        add(format!("{} {index} {} {}", node.id, port.ip, port.net));
    }
    for route in &cluster.routes {
        add(format!("{} {}", route.prefix, route.via));
    }
    add(config.unparse());
    base16ct::lower::encode_string(&hash.finalize()[..16])
}

fn topology(topology: Topology) -> String {
    match topology {
        Topology::Mesh => "mesh".to_owned(),
        Topology::Fly { k } => format!("fly {k}"),
    }
}
