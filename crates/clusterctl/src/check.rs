//! `valiant cluster check`.

use crate::args::JsonFile;
use crate::key::key_is_good;
use crate::process::{local, taken};
use crate::program::{check_node, load};
use launch::{Failure, output};
use runtime::Registry;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;

/// Checks a cluster file, its program and the configuration of every node.
pub(crate) fn check(registry: &Arc<Registry>, args: &JsonFile) -> Result<ExitCode, Failure> {
    load(registry, &args.file).and_then(|(cluster, program)| {
        key_is_good(&cluster)?;
        let mut nodes = Vec::new();
        for node in cluster.present() {
            let (elements, warnings) = check_node(registry, &cluster, &program, node)?;
            nodes.push((node, elements, warnings));
        }
        let ports = cluster.ports().filter(|(node, ..)| !node.removed).count();
        let ends: usize = nodes.iter().map(|(node, ..)| node.links.len()).sum();
        // An error of this machine is not an error of the file.
        let in_use: Vec<_> = cluster
            .present()
            .filter(|node| local(node))
            .flat_map(|node| taken(&cluster, node).into_iter().map(move |(device, owner)| (node.id, device, owner)))
            .collect();
        if args.json {
            let in_use: Vec<_> = in_use
                .iter()
                .map(|(node, device, owner)| json!({"node": node, "device": device, "owner": owner}))
                .collect();
            let nodes: Vec<_> = nodes
                .iter()
                .map(|(node, elements, warnings)| {
                    json!({"node": node.id, "elements": elements, "ports": node.ports.len(), "links": node.links.len(),
                        "socket": node.socket, "warnings": warnings.to_json(warnings.sources())})
                })
                .collect();
            let warnings = cluster.warnings.to_json(cluster.warnings.sources());
            output::print(&format!(
                "{}\n",
                json!({"ok": true, "name": cluster.name, "digest": program.digest(), "ports": ports, "nodes": nodes, "warnings": warnings, "taken": in_use})
            ));
        } else {
            launch::report(&cluster.warnings);
            launch::report(program.warnings());
            for (node, device, owner) in &in_use {
                tracing::warn!(target: "cluster", "node {node}: its device {device} is in use by {owner}");
            }
            // A warning about one node's elements holds for all of them.
            nodes.iter().take(1).for_each(|(_, _, warnings)| launch::report(warnings));
            output::print(&format!(
                "{}: {} nodes, {ports} external ports, {} links, no errors\n",
                cluster.name,
                nodes.len(),
                ends / 2
            ));
            for (node, elements, _) in &nodes {
                let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
                let (ports, links) = (count(node.ports.len(), "port"), count(node.links.len(), "link"));
                output::print(&format!("node {}: {ports}, {links}, {elements} elements\n", node.id));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
