//! Which processors the workers run on.

use crate::reason;
use dpdk::{PortSpec, Topology};
use lang::{Config, Source};
use runtime::Registry;
use std::sync::OnceLock;

/// The NUMA nodes of the workers, where the memory for packets is to be.
static NODES: OnceLock<Vec<Option<usize>>> = OnceLock::new();
/// Where the workers run.
static CPUS: OnceLock<Vec<usize>> = OnceLock::new();

/// The processors that the workers are bound to; none if the kernel chooses. By default only isolated
/// processors are used for this: the kernel would leave all workers on one of them, while several routers may
/// share the others.
pub(crate) fn choose(
    registry: &Registry,
    wanted: Option<&str>,
    workers: usize,
    sources: &[Source],
    options: &lang::LoadOptions,
) -> Result<Vec<usize>, String> {
    if let Some(list) = wanted.filter(|list| *list != "auto") {
        return cpu_list(list);
    }
    let topology = dpdk::Topology::here();
    let isolated = topology.cores().iter().any(|core| core.isolated && core.allowed);
    if wanted.is_none() && !isolated {
        return Ok(Vec::new());
    }
    let several = topology.cores().windows(2).any(|pair| pair[0].node != pair[1].node);
    // Errors of the configuration are reported when it is loaded to be run.
    let config = several.then(|| lang::load(sources, options, registry).ok()).flatten();
    let ports = config.map(|config| port_nodes(&config, &topology)).unwrap_or_default();
    Ok(topology.seats(workers.max(1), &ports).iter().map(|seat| seat.cpu).collect())
}

/// The nodes of the ports that a configuration names as first arguments.
fn port_nodes(config: &Config, topology: &Topology) -> Vec<usize> {
    let specs = config.elements.iter().filter_map(|element| {
        let first = element.config.trim_start_matches('"').split([',', '"']).next()?;
        PortSpec::parse(first.trim()).ok()
    });
    specs.filter_map(|spec| topology.node_of(&spec)).collect()
}

/// Reads a list of CPUs such as `0-3,6`.
///
/// # Errors
/// A message for the user.
pub fn cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let bad = || format!("--cpus: '{text}' is not a list of CPUs such as 0-3,6");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<usize>().ok().zip(last.trim().parse::<usize>().ok());
        let (first, last) = range.filter(|(a, b)| a <= b && b - a < 4096).ok_or_else(bad)?;
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// Has the workers of this process run on these processors, with memory of their NUMA nodes unless `numa` is
/// off. Returns the nodes.
pub(crate) fn bind(cpus: &[usize], numa: bool) -> Vec<Option<usize>> {
    // Set once: there is one router in a process.
    drop(CPUS.set(cpus.to_vec()));
    dpdk::set_worker_cpus(cpus);
    let nodes = if numa { nodes_of(cpus) } else { Vec::new() };
    drop(NODES.set(nodes.clone()));
    nodes
}

/// The first action of a worker thread: binds it to its CPU, and registers it with DPDK, so that it has a
/// cache in every pool.
pub(crate) fn enter(worker: runtime::WorkerId) -> Box<dyn std::any::Any> {
    if let Some(&cpu) = CPUS.get().and_then(|cpus| cpus.get(worker.0))
        && let Err(e) = dpdk::set_affinity(&[cpu])
    {
        tracing::warn!(target: "router", "worker {} cannot run on CPU {cpu}: {}", worker.0, reason(&e));
    }
    match dpdk::WorkerThread::register(NODES.get().and_then(|nodes| nodes.get(worker.0).copied()?)) {
        Ok(guard) => Box::new(guard),
        Err(e) => {
            tracing::warn!(target: "router", "{e}");
            Box::new(())
        }
    }
}

/// The same for a worker that is measured: it also runs before ordinary threads, if the process may do that.
pub fn enter_measured(worker: runtime::WorkerId) -> Box<dyn std::any::Any> {
    let guard = enter(worker);
    // Without the right to it, others disturb it, as they disturb any measurement.
    let _ = dpdk::run_before_others();
    guard
}

/// Binds the calling thread, which runs the only worker itself, to the worker's CPU.
pub fn bind_here() {
    let cpus = CPUS.get().map(Vec::as_slice).unwrap_or_default();
    if let Some(&cpu) = cpus.first()
        && let Err(e) = dpdk::set_affinity(&[cpu])
    {
        tracing::warn!(target: "router", "worker 0 cannot run on CPU {cpu}: {}", reason(&e));
    }
}

/// The NUMA nodes of processors.
fn nodes_of(cpus: &[usize]) -> Vec<Option<usize>> {
    if cpus.is_empty() {
        return Vec::new();
    }
    dpdk::Topology::here().seated(cpus).iter().map(|seat| seat.node).collect()
}

/// Warns if workers have to share processors.
pub fn warn_of_crowding(workers: usize, cpus: &[usize]) {
    let usable = dpdk::Topology::here().cores().iter().filter(|core| core.allowed).count();
    if workers > 1 && workers > usable {
        tracing::warn!(target: "router", "{workers} workers share {usable} processors and delay each other");
    } else if !cpus.is_empty() && cpus.len() < workers {
        tracing::warn!(
            target: "router",
            "--cpus names {} processors for {workers} workers: the other workers are not bound",
            cpus.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0-2,6"), Ok(vec![0, 1, 2, 6]));
        assert!(cpu_list("2-1").is_err() && cpu_list("x").is_err() && cpu_list("0-99999999").is_err());
    }
}
