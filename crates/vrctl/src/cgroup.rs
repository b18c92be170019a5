//! Control groups of Linux: which processors a process may use, its weight when they are short, its memory.
//! Version 2, and version 1 for controllers that are there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a router's process may have at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Processors.
    pub(crate) cores: Vec<usize>,
    /// A weight among the host's routers, from 1.
    pub(crate) share: u32,
    /// Memory, in bytes.
    pub(crate) memory_bytes: Option<u64>,
}

/// The controllers, and what is not limited without them.
const CONTROLLERS: [(&str, &str); 3] = [
    ("cpuset", "which processors a router may use"),
    ("cpu", "processor time by `share`"),
    ("memory", "memory by `limits.memory`"),
];
/// The most that the kernel takes as a weight in version 2.
const MAX_WEIGHT: u32 = 10_000;
/// How long the processes of a group may take to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the groups of one controller are made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    version: u8,
    /// The group of the whole host, in which those of the routers are.
    group: PathBuf,
}

/// The groups of a host.
#[derive(Debug)]
pub(crate) struct Groups {
    places: BTreeMap<&'static str, Place>,
    /// What cannot be limited here, and why.
    pub(crate) lacks: Vec<String>,
}

/// A controller's directories that may be parents of the host's group: the group of this process, and the
/// root.
fn parents(controller: &str, mounts: &str, groups: &str) -> Option<(u8, Vec<PathBuf>)> {
    let own = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (names, path) = (fields.next()?, fields.next()?);
            names.split(',').any(|name| name == wanted).then(|| path.to_owned())
        })
    };
    // proc_pid_mountinfo(5): the root within the file system, the mount point; behind " - " the type, the
    // source and the options.
    let mounted = |good: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            let mut front = front.split(' ').skip(3);
            let (root, point) = (front.next()?, front.next()?);
            let mut back = back.split(' ');
            let (kind, options) = (back.next()?, back.nth(1)?);
            good(kind, options).then(|| (root.to_owned(), PathBuf::from(point)))
        })
    };
    let version_1 =
        mounted(&|kind, options| kind == "cgroup" && options.split(',').any(|option| option == controller));
    let (version, (root, point), path) = match version_1 {
        Some(found) => (1, found, own(controller)),
        None => (2, mounted(&|kind, _| kind == "cgroup2")?, own("")),
    };
    let mut all = Vec::new();
    // Of a mount that shows a part only (a container), paths start there.
    if let Some(path) = path.as_deref().and_then(|path| path.strip_prefix(root.trim_end_matches('/'))) {
        all.push(point.join(path.trim_start_matches('/')));
    }
    if !all.contains(&point) {
        all.push(point);
    }
    Some((version, all))
}

/// Makes the host's group below a parent.
fn host_group(controller: &str, version: u8, parent: &Path, name: &str) -> io::Result<PathBuf> {
    let group = parent.join(name);
    if version == 2 {
        allow(controller, parent)?;
    }
    match fs::create_dir(&group) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let made = match (version, controller) {
        (2, _) => allow(controller, &group),
        // A group of version 1 without them takes no process.
        (_, "cpuset") => inherit(parent, &group),
        _ => Ok(()),
    };
    if made.is_err() {
        let _ = fs::remove_dir(&group);
    }
    made.map(|()| group)
}

/// Has the groups below one of version 2 have a controller.
fn allow(controller: &str, group: &Path) -> io::Result<()> {
    let words = |file: &str| {
        fs::read_to_string(group.join(file))
            .map(|text| text.split_whitespace().any(|word| word == controller))
    };
    if words("cgroup.subtree_control")? {
        return Ok(());
    }
    if !words("cgroup.controllers")? {
        return Err(io::Error::other("the kernel does not offer it there"));
    }
    fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"))
}

/// Gives a group of version 1 the processors and the memory nodes of another one.
fn inherit(from: &Path, to: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        fs::write(to.join(file), fs::read_to_string(from.join(file))?.trim())?;
    }
    Ok(())
}

/// The files of a controller and what is written to them.
fn settings(controller: &str, version: u8, allowance: &Allowance) -> Vec<(&'static str, String)> {
    match (controller, version) {
        ("cpuset", _) => {
            let cores: Vec<String> = allowance.cores.iter().map(usize::to_string).collect();
            vec![("cpuset.cpus", cores.join(","))]
        }
        // The kernel takes 2 to 262144.
        ("cpu", 1) => vec![("cpu.shares", (4 * u64::from(allowance.share)).to_string())],
        ("cpu", _) => vec![("cpu.weight", allowance.share.clamp(1, MAX_WEIGHT).to_string())],
        ("memory", 1) => allowance
            .memory_bytes
            .map(|bytes| ("memory.limit_in_bytes", bytes.to_string()))
            .into_iter()
            .collect(),
        _ => allowance.memory_bytes.map(|bytes| ("memory.max", bytes.to_string())).into_iter().collect(),
    }
}

impl Groups {
    /// Finds out where groups can be made; `name` is that of the host's own.
    pub(crate) fn find(name: &str) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::find_in(name, &read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    fn find_in(name: &str, mounts: &str, groups: &str) -> Self {
        let (mut places, mut lacks) = (BTreeMap::new(), Vec::new());
        for (controller, what) in CONTROLLERS {
            let Some((version, parents)) = parents(controller, mounts, groups) else {
                lacks.push(format!("{what} is not limited: no control groups are mounted for {controller}"));
                continue;
            };
            let mut reason = String::new();
            let made = parents.iter().find_map(|parent| {
                host_group(controller, version, parent, name)
                    .inspect_err(|e| reason = format!("{}: {}", parent.display(), launch::reason(e)))
                    .ok()
            });
            match made {
                Some(group) => drop(places.insert(controller, Place { version, group })),
                None => {
                    lacks.push(format!("{what} is not limited: no control group for {controller}: {reason}"))
                }
            }
        }
        Self { places, lacks }
    }

    /// The directories of all groups, those of routers first.
    pub(crate) fn directories<'a>(&self, routers: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = routers
            .flat_map(|router| self.places.values().map(move |place| place.group.join(router)))
            .collect();
        all.extend(self.places.values().map(|place| place.group.clone()));
        all.dedup();
        all
    }

    /// Makes the groups of a router. Returns those that it is to be in, and what could not be set.
    pub(crate) fn make(&self, router: &str, allowance: &Allowance) -> (Vec<PathBuf>, Vec<String>) {
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for (controller, what) in CONTROLLERS {
            let Some(place) = self.places.get(controller) else { continue };
            let group = place.group.join(router);
            let made = match fs::create_dir(&group) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
                _ if controller == "cpuset" && place.version == 1 => inherit(&place.group, &group),
                _ => Ok(()),
            };
            let made = made.and_then(|()| {
                settings(controller, place.version, allowance)
                    .iter()
                    .try_for_each(|(file, value)| fs::write(group.join(file), value))
            });
            match made {
                Err(e) => {
                    failed.push(format!("{what} is not limited: {}: {}", group.display(), launch::reason(&e)))
                }
                Ok(()) if !all.contains(&group) => all.push(group),
                Ok(()) => {}
            }
        }
        (all, failed)
    }

    /// Weights the routers in processes of their own against the common process, which is a group of its own
    /// or one of many processes: its weight is that of one process.
    pub(crate) fn weigh(&self, direct: u32, shared: u32) {
        let Some(place) = self.places.get("cpu") else { return };
        let part = |one: u64, most: u64| {
            let weight = if shared == 0 { one } else { one * u64::from(direct.max(1)) / u64::from(shared) };
            weight.clamp(2, most).to_string()
        };
        let (file, value) = match place.version {
            1 => ("cpu.shares", part(1024, 262_144)),
            _ => ("cpu.weight", part(100, MAX_WEIGHT.into())),
        };
        // A weight that is not set is that of any other process.
        let _ = fs::write(place.group.join(file), value);
    }

    /// Whether a router has been refused memory for its limit.
    pub(crate) fn out_of_memory(&self, router: &str) -> bool {
        let Some(place) = self.places.get("memory") else { return false };
        let (file, key) = match place.version {
            1 => ("memory.oom_control", "oom_kill "),
            _ => ("memory.events", "oom_kill "),
        };
        let text = fs::read_to_string(place.group.join(router).join(file)).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(key)).is_some_and(|count| count.trim() != "0")
    }

    /// Removes the groups of a router, whose process has ended.
    pub(crate) fn remove(&self, router: &str) {
        self.places.values().for_each(|place| remove(&place.group.join(router)));
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.places.values().for_each(|place| remove(&place.group));
    }
}

/// Puts a process into groups.
pub(crate) fn enter(groups: &[PathBuf], process: u32) -> io::Result<()> {
    groups.iter().try_for_each(|group| fs::write(group.join("cgroup.procs"), process.to_string()))
}

/// Removes a group; its last process may just be ending.
fn remove(group: &Path) {
    let began = Instant::now();
    while let Err(e) = fs::remove_dir(group) {
        if e.kind() == io::ErrorKind::NotFound || began.elapsed() > PATIENCE / 4 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends whatever runs in a group, and removes it.
pub(crate) fn clear(group: &Path) {
    let began = Instant::now();
    while group.exists() && began.elapsed() < PATIENCE {
        for process in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
            if let Ok(process) = process.parse() {
                let process = nix::unistd::Pid::from_raw(process);
                let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL);
            }
        }
        if fs::remove_dir(group).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V1_OWN: &str = "5:memory:/box/a\n4:cpu,cpuacct:/\n0::/x\n";

    #[test]
    fn controllers_are_found_where_they_are_mounted() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(parents("cpu", V1, V1_OWN), Some((1, paths(&["/sys/fs/cgroup/cpu,cpuacct/"]))));
        let memory = paths(&["/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"]);
        assert_eq!(parents("memory", V1, V1_OWN), Some((1, memory)));
        // Those that version 1 does not have are of version 2.
        let unified = paths(&["/sys/fs/cgroup/unified/x", "/sys/fs/cgroup/unified"]);
        assert_eq!(parents("cpuset", V1, V1_OWN), Some((2, unified)));
        assert_eq!(parents("cpu", "", ""), None);
    }

    #[test]
    fn weights_and_limits_are_what_the_kernel_takes() {
        let allowance = Allowance { cores: vec![0, 3], share: 65_535, memory_bytes: Some(64 << 20) };
        let one = |controller, version| settings(controller, version, &allowance);
        assert_eq!(one("cpuset", 2), [("cpuset.cpus", "0,3".to_owned())]);
        assert_eq!(one("cpu", 1), [("cpu.shares", "262140".to_owned())]);
        assert_eq!(one("cpu", 2), [("cpu.weight", "10000".to_owned())]);
        assert_eq!(one("memory", 1), [("memory.limit_in_bytes", "67108864".to_owned())]);
        assert_eq!(one("memory", 2), [("memory.max", "67108864".to_owned())]);
        let without = Allowance { memory_bytes: None, ..allowance };
        assert!(settings("memory", 2, &without).is_empty());
    }

    /// Version 2 as files: what the kernel would do by itself is prepared.
    #[test]
    fn a_group_of_version_2_is_made_with_all_controllers() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let own = root.join("service");
        for group in [root.to_path_buf(), own.clone(), own.join("valiant-edge")] {
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.controllers"), "cpuset cpu memory\n").unwrap();
            fs::write(group.join("cgroup.subtree_control"), "cpuset cpu memory\n").unwrap();
        }
        let mounts = format!("33 30 0:29 / {} rw - cgroup2 cgroup2 rw\n", root.display());
        let groups = Groups::find_in("valiant-edge", &mounts, "0::/service\n");
        assert!(groups.lacks.is_empty(), "{:?}", groups.lacks);
        let allowance = Allowance { cores: vec![1], share: 3, memory_bytes: Some(1 << 20) };
        let (made, failed) = groups.make("blue", &allowance);
        let group = own.join("valiant-edge/blue");
        assert_eq!((made, failed), (vec![group.clone()], vec![]));
        let text = |file: &str| fs::read_to_string(group.join(file)).unwrap();
        assert_eq!((text("cpu.weight"), text("cpuset.cpus")), ("3".to_owned(), "1".to_owned()));
        assert_eq!(text("memory.max"), "1048576");
        assert!(!groups.out_of_memory("blue"));
        fs::write(group.join("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
        assert!(groups.out_of_memory("blue"));
        // Two routers on their own against one that is shared: twice the weight of a process.
        groups.weigh(2, 1);
        assert_eq!(fs::read_to_string(own.join("valiant-edge/cpu.weight")).unwrap(), "200");
        assert_eq!(groups.directories(["blue"].into_iter()), [group, own.join("valiant-edge")]);
    }

    #[test]
    fn what_is_not_limited_is_said() {
        let groups = Groups::find_in("valiant-edge", "", "");
        assert_eq!(groups.lacks.len(), 3);
        assert!(groups.lacks[2].contains("memory by `limits.memory` is not limited"), "{:?}", groups.lacks);
        assert_eq!(groups.make("blue", &Allowance::default()), (vec![], vec![]));
    }
}
