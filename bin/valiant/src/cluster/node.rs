//! One node of a cluster, in the foreground.

use super::args::RunNode;
use super::file::{Cluster, Node};
use super::{Failure, configuration, local};
use crate::cli::RunArgs;
use crate::client::Client;
use crate::driver::{self, StopSignals};
use dpdk::probe::Rights;
use lang::{LoadOptions, Source};
use runtime::{Registry, Router};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

/// How long another process may take to say that it serves a socket.
const PROBE: Duration = Duration::from_secs(1);

/// A file beside a node's control socket: `.pid`, `.log`.
pub(super) fn beside(node: &Node, extension: &str) -> PathBuf {
    node.socket.with_extension(extension)
}

/// Runs a node.
pub(super) fn run(registry: &Arc<Registry>, args: &RunNode) -> Result<ExitCode, Failure> {
    let (cluster, whole) = super::load(registry, &args.of.file)?;
    driver::report(&cluster.warnings);
    driver::report(whole.warnings());
    let node = super::node(&cluster, args.of.node)?;
    if let Some(host) = node.host.as_ref().filter(|_| !local(node)) {
        eprintln!("warning: the cluster file has node {} on {host}, not on this machine", node.id);
    }
    enter_namespace(node)?;
    super::key_is_good(&cluster)?;
    let name = format!("node {} of {}", node.id, cluster.name);
    if Client::connect_within(&node.socket.display().to_string(), PROBE).is_ok() {
        return Err(format!("{name} runs already: somebody serves {}", node.socket.display()).into());
    }
    if let Some(problem) = super::control::is_silent(node) {
        return Err(format!("{name} runs already: {problem}").into());
    }
    make_directory(&node.socket)?;
    let (cluster, whole, origin) =
        super::etcd::begin(registry, &args.of.file, args.of.node, (cluster, whole))?;
    let node = super::node(&cluster, args.of.node)?;
    let text = configuration(&cluster, &whole, node)?;
    let sources = [Source::new(name.as_str(), text)];
    let run = RunArgs {
        threads: args.machine.threads.unwrap_or(node.workers).into(),
        cpus: args.machine.cpus.clone().or_else(|| node.cpus.clone()),
        allow_reconfigure: true,
        ..RunArgs::from(&args.machine)
    };
    let cpus = driver::choose_cpus(registry, &run, &sources, &LoadOptions::default())?;
    let options = driver::options(&run, "valiant", &cpus)?;
    let stop = StopSignals::watch();
    dpdk::claim_interfaces(&name);
    // Whoever finds the control socket finds this too.
    let process = ProcessFile::write(beside(node, "pid"))?;
    let mut router = Router::new(&sources, LoadOptions::default(), Arc::clone(registry), options)?;
    stop.steer(router.hub());
    driver::report(router.warnings());
    driver::report(router.shortage());
    driver::describe_ports();
    links_fit(&cluster, node);
    eprintln!("{name} runs; its control socket is {}", node.socket.display());
    let agent = origin.map(|origin| origin.follow(registry, node));
    crate::service::ready();
    router.drive(|| stop.wanted());
    crate::service::stopping();
    drop((agent, process));
    Ok(if router.hub().failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Goes into the node's network namespace, if this process is not there: the process begins again in it.
fn enter_namespace(node: &Node) -> Result<(), Failure> {
    let Some(netns) = &node.netns else { return Ok(()) };
    let there = Path::new("/run/netns").join(netns);
    let identity = |path: &Path| std::fs::metadata(path).map(|m| (m.dev(), m.ino()));
    let wanted = identity(&there).map_err(|e| {
        format!(
            "node {}: there is no network namespace '{netns}' ({}): make it with `ip netns add {netns}`",
            node.id,
            crate::load::reason(&e)
        )
    })?;
    if identity(Path::new("/proc/self/ns/net")).is_ok_and(|here| here == wanted) {
        return Ok(());
    }
    if !Rights::probe().sys_admin {
        return Err(format!(
            "node {}: going into the network namespace '{netns}' takes root, or the capability SYS_ADMIN",
            node.id
        )
        .into());
    }
    let program = std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    let error = Command::new("ip")
        .args(["netns", "exec", netns])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .exec();
    Err(format!("node {}: ip netns exec {netns}: {}", node.id, crate::load::reason(&error)).into())
}

/// Makes the directory of a control socket; whoever can enter it controls the node.
pub(super) fn make_directory(socket: &Path) -> Result<(), Failure> {
    let Some(dir) = socket.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) else {
        return Ok(());
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::set_permissions(dir, Permissions::from_mode(0o700)))
        .map_err(|e| format!("{}: {}", dir.display(), crate::load::reason(&e)).into())
}

/// The devices of a node that somebody else has to himself, each with who that is.
pub(super) fn taken(cluster: &Cluster, node: &Node) -> Vec<(String, String)> {
    let namespace = node.netns.as_ref().map(|netns| Path::new("/run/netns").join(netns));
    let links = node.links.iter().map(|link| match &link.kind {
        super::file::LinkKind::Device(device) => device,
        super::file::LinkKind::Vxlan(tunnel) => &tunnel.device,
    });
    let mut devices: Vec<&String> = node.ports.iter().map(|port| &port.device).chain(links).collect();
    devices.sort_unstable();
    devices.dedup();
    let mine = format!("node {} of {},", node.id, cluster.name);
    let owner = |device: &String| dpdk::interface_owner(device, namespace.as_deref());
    let taken = devices.into_iter().filter_map(|device| Some((device.clone(), owner(device)?)));
    taken.filter(|(_, owner)| !owner.starts_with(&mine)).collect()
}

/// Warns where a device takes shorter frames than the cluster file says.
fn links_fit(cluster: &Cluster, node: &Node) {
    for link in &node.links {
        let device = match &link.kind {
            super::file::LinkKind::Device(device) => device,
            super::file::LinkKind::Vxlan(tunnel) => &tunnel.device,
        };
        let mtu = std::fs::read_to_string(Path::new("/sys/class/net").join(device).join("mtu"));
        if let Some(mtu) = mtu.ok().and_then(|t| t.trim().parse::<u32>().ok()).filter(|mtu| *mtu < link.mtu) {
            eprintln!(
                "warning: {device}, node {}'s link to node {} of {}, has an MTU of {mtu}, not {}: longer packets are lost there",
                node.id, link.to, cluster.name, link.mtu
            );
        }
    }
}

/// The number of this process in a file, as long as it lives.
struct ProcessFile(PathBuf);

impl ProcessFile {
    fn write(path: PathBuf) -> Result<Self, Failure> {
        std::fs::write(&path, format!("{}\n", std::process::id()))
            .map_err(|e| format!("{}: {}", path.display(), crate::load::reason(&e)))?;
        Ok(Self(path))
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        // It may have been removed already, by whoever owns the directory.
        let _ = std::fs::remove_file(&self.0);
    }
}
