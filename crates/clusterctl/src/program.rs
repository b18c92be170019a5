//! The program of a cluster, and the check of its nodes' configurations.

use crate::file::{Cluster, Node};
use crate::split::ClusterProgram;
use lang::{Diagnostics, Source};
use launch::{Failure, shortest};
use runtime::{Options, Registry, Router};
use std::path::Path;
use std::sync::Arc;

/// Reads a cluster file and its program.
pub(crate) fn load(registry: &Registry, file: &Path) -> Result<(Cluster, ClusterProgram), Failure> {
    let cluster = Cluster::load(file)?;
    let program = program(registry, &cluster)?;
    Ok((cluster, program))
}

/// Reads the program of a cluster.
pub(crate) fn program(registry: &Registry, cluster: &Cluster) -> Result<ClusterProgram, Failure> {
    let path = shortest(&cluster.program);
    let bytes = std::fs::read(&cluster.program).map_err(|e| {
        format!("the program {path}: {} (program = \"...\" in the cluster file)", launch::reason(&e))
    })?;
    program_of(registry, cluster, &Source::from_bytes(path, &bytes))
}

/// A program, with the variables that the cluster file defines.
pub(crate) fn program_of(
    registry: &Registry,
    cluster: &Cluster,
    source: &Source,
) -> Result<ClusterProgram, Failure> {
    Ok(ClusterProgram::load(cluster, source, Some(launch::library(String::new())), registry)?)
}

/// The configuration of a node.
pub(crate) fn configuration(
    cluster: &Cluster,
    program: &ClusterProgram,
    node: &Node,
) -> Result<String, Failure> {
    Ok(program.node(cluster, node)?)
}

/// Checks what a node would run. Returns how many elements it has, and the warnings.
pub(crate) fn check_node(
    registry: &Arc<Registry>,
    cluster: &Cluster,
    program: &ClusterProgram,
    node: &Node,
) -> Result<(usize, Diagnostics), Failure> {
    let name = format!("node {} of {}", node.id, cluster.name);
    let source = Source::new(name, configuration(cluster, program, node)?);
    let options =
        Options { check_only: true, workers: node.workers.into(), hotswap: true, ..Options::default() };
    let router = Router::new(&[source], lang::LoadOptions::default(), Arc::clone(registry), options)?;
    let mut warnings = router.warnings().clone();
    warnings.set_sources(router.warnings().sources().clone());
    Ok((router.elements().len(), warnings))
}
