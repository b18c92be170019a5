//! One node of a cluster, in the foreground.

use crate::args::RunNode;
use crate::file::{Cluster, LinkKind, Node};
use crate::key::key_is_good;
use crate::process::{ProcessFile, beside, is_silent, local, make_directory};
use crate::program::{configuration, load};
use crate::{etcd, process};
use dpdk::probe::Rights;
use lang::{LoadOptions, Source};
use launch::progress::waiting;
use launch::{Client, Failure, Launch, StopSignals};
use runtime::{Registry, Router};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

/// How long another process may take to answer on a socket.
const PROBE: Duration = Duration::from_secs(1);

/// Runs a node.
pub(crate) fn run(registry: &Arc<Registry>, args: &RunNode) -> Result<ExitCode, Failure> {
    let (cluster, program) = load(registry, &args.of.file)?;
    launch::report(&cluster.warnings);
    launch::report(program.warnings());
    let node = process::node(&cluster, args.of.node)?;
    if let Some(host) = node.host.as_ref().filter(|_| !local(node)) {
        tracing::warn!(target: "cluster", "the cluster file has node {} on {host}, not on this machine", node.id);
    }
    enter_namespace(node)?;
    key_is_good(&cluster)?;
    let name = format!("node {} of {}", node.id, cluster.name);
    if Client::connect_within(&node.socket.display().to_string(), PROBE).is_ok() {
        return Err(format!(
            "{name} is already running: another process listens on {}",
            node.socket.display()
        )
        .into());
    }
    if let Some(problem) = is_silent(node) {
        return Err(format!("{name} is already running: {problem}").into());
    }
    make_directory(&node.socket)?;
    let (cluster, program, origin) = etcd::begin(registry, &args.of.file, args.of.node, (cluster, program))?;
    let node = process::node(&cluster, args.of.node)?;
    let text = configuration(&cluster, &program, node)?;
    let sources = [Source::new(name.as_str(), text)];
    let launch = Launch {
        workers: args.machine.threads.unwrap_or(node.workers).into(),
        cpus: args.machine.cpus.clone().or_else(|| node.cpus.clone()),
        hotswap: true,
        ..Launch::from(&args.machine)
    };
    let cpus = launch.choose_cpus(registry, &sources, &LoadOptions::default())?;
    let options = launch.options(&cpus);
    let stop = StopSignals::watch();
    dpdk::claim_interfaces(&name);
    // Where there is a control socket, there is this file too.
    let process = ProcessFile::write(beside(node, "pid"))?;
    let mut router = waiting(false, "setting up the configuration", || {
        Router::new(&sources, LoadOptions::default(), Arc::clone(registry), options)
    })?;
    stop.steer(router.hub());
    launch::report(router.warnings());
    launch::report(router.shortage());
    launch::describe_ports();
    links_fit(&cluster, node);
    tracing::info!(target: "cluster", "{name} is running; control socket {}", node.socket.display());
    let agent = origin.map(|origin| origin.follow(registry, node));
    launch::service::ready();
    router.drive(|| stop.wanted());
    launch::service::stopping();
    drop((agent, process));
    Ok(if router.hub().failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Enters the node's network namespace, if this process is not in it: the process starts itself again there.
fn enter_namespace(node: &Node) -> Result<(), Failure> {
    let Some(netns) = &node.netns else { return Ok(()) };
    let there = Path::new("/run/netns").join(netns);
    let identity = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    let wanted = identity(&there).map_err(|e| {
        format!(
            "node {}: network namespace '{netns}' not found ({}): create it with `ip netns add {netns}`",
            node.id,
            launch::reason(&e)
        )
    })?;
    if identity(Path::new("/proc/self/ns/net")).is_ok_and(|here| here == wanted) {
        return Ok(());
    }
    if !Rights::probe().sys_admin {
        return Err(format!(
            "node {}: entering the network namespace '{netns}' needs root or the capability SYS_ADMIN",
            node.id
        )
        .into());
    }
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let error = Command::new("ip")
        .args(["netns", "exec", netns])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(format!("node {}: ip netns exec {netns}: {}", node.id, launch::reason(&error)).into())
}

/// Warns if a device has a smaller MTU than the cluster file specifies.
fn links_fit(cluster: &Cluster, node: &Node) {
    for link in &node.links {
        let device = match &link.kind {
            LinkKind::Device(device) => device,
            LinkKind::Vxlan(tunnel) => &tunnel.device,
        };
        let mtu = std::fs::read_to_string(Path::new("/sys/class/net").join(device).join("mtu"));
        if let Some(mtu) = mtu.ok().and_then(|t| t.trim().parse::<u32>().ok()).filter(|mtu| *mtu < link.mtu) {
            tracing::warn!(
                target: "cluster",
                "{device}, node {}'s link to node {} of {}, has an MTU of {mtu}, not {}: longer packets will be lost",
                node.id, link.to, cluster.name, link.mtu
            );
        }
    }
}
