//! DPDK's runtime directory: each process has a folder there, which DPDK makes as it starts and never
//! removes.
//!
//! A router's folder is empty, and is removed as soon as DPDK has started. A router that is killed while it
//! starts leaves its folder; the next start removes it. A lock on the folder shows whether its owner is
//! alive: the kernel releases it with the process, it works across containers that share the folder, and
//! process numbers that are reused do not matter.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The beginning of the names of our folders; the number of the process follows.
const PREFIX: &str = "valiant-";
/// How often a folder without another owner is tried.
const TRIES: usize = 16;

/// This process' folder. It is removed when dropped, unless something is in it.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    prefix: String,
    path: PathBuf,
    /// The folder, locked; `None` if it cannot be created; then DPDK reports the error.
    lock: Option<File>,
}

impl RunDirectory {
    /// DPDK's file prefix for it.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // No process takes it for the folder of a dead process before it is removed: the lock is held until
        // then.
        let _ = remove_empty(&self.path);
        drop(self.lock.take());
    }
}

/// Where DPDK keeps its runtime directories.
fn base() -> PathBuf {
    // As `eal_create_runtime_dir` has it: first what a service manager says (RuntimeDirectory= in
    // systemd.exec(5)).
    if let Some(given) = std::env::var_os("RUNTIME_DIRECTORY") {
        return PathBuf::from(given).join("dpdk");
    }
    // SAFETY: `getuid` cannot fail.
    let base = if unsafe { libc::getuid() } == 0 {
        PathBuf::from("/var/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    };
    base.join("dpdk")
}

/// Removes the folders of dead routers, and makes this one's folder.
pub(crate) fn claim() -> RunDirectory {
    claim_in(&base())
}

fn claim_in(base: &Path) -> RunDirectory {
    clean(base);
    let mut prefix = String::new();
    for n in 0..TRIES {
        // Another process has this number only in another container that has the same directory.
        prefix =
            format!("{PREFIX}{}{}", std::process::id(), if n == 0 { String::new() } else { format!("-{n}") });
        let path = base.join(&prefix);
        if make(base, &path).is_err() {
            break;
        }
        if let Ok(Some(lock)) = lock(&path) {
            return RunDirectory { prefix, path, lock: Some(lock) };
        }
    }
    let path = base.join(&prefix);
    RunDirectory { prefix, path, lock: None }
}

fn make(base: &Path, path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700);
    for directory in [base, path] {
        match builder.create(directory) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Locks a folder, if no other process has, and if it still has this name.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let folder = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // SAFETY: a descriptor that is open.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Ok(None);
    }
    let (here, there) = (folder.metadata()?, fs::symlink_metadata(path)?);
    Ok((here.ino() == there.ino() && here.dev() == there.dev()).then_some(folder))
}

fn remove_empty(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a C string. The kernel refuses what is not empty.
    if unsafe { libc::rmdir(name.as_ptr()) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Removes the empty folders of processes that no longer run.
fn clean(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(process) else { continue };
        if Path::new("/proc").join(process.to_string()).exists() && process != std::process::id() {
            continue;
        }
        // A process that has just made it, and not locked it yet, makes another one.
        if let Ok(Some(lock)) = lock(&entry.path()) {
            let _ = remove_empty(&entry.path());
            drop(lock);
        }
    }
}

/// The process whose folder has this name.
fn process(name: &str) -> Option<u32> {
    let number = name.strip_prefix(PREFIX)?;
    let (number, rest) = number.split_once('-').unwrap_or((number, "0"));
    rest.parse::<u32>().ok()?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(base: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(base)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn names_say_whose_a_folder_is() {
        assert_eq!(process("valiant-17"), Some(17));
        assert_eq!(process("valiant-17-2"), Some(17));
        for other in ["valiant-", "valiant-x", "valiant-1-x", "rte", "valiant-1-2-3", "valiant--1"] {
            assert_eq!(process(other), None, "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "locks directories")]
    fn folders_of_dead_processes_go_and_others_stay() {
        let base = std::env::temp_dir().join(format!("valiant-rundir-{}", std::process::id()));
        let me = std::process::id();
        // Numbers above any that the kernel gives (PID_MAX_LIMIT), so these live no more; process 1 does.
        let (dead, full, locked) = ("valiant-99999999", "valiant-99999998", "valiant-99999997");
        for name in [dead, full, locked, "valiant-1", "rte", "valiant-x"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join(full).join("file"), "").unwrap();
        // A router in another container, whose number says nothing here.
        let other = lock(&base.join(locked)).unwrap().unwrap();
        let mine = claim_in(&base);
        assert_eq!(mine.prefix(), format!("valiant-{me}"));
        assert_eq!(folders(&base), {
            let mut left = vec![
                full.to_owned(),
                locked.into(),
                "valiant-1".into(),
                "rte".into(),
                "valiant-x".into(),
                mine.prefix().into(),
            ];
            left.sort();
            left
        });
        // Another process with the same number in another container.
        let second = claim_in(&base);
        assert_eq!(second.prefix(), format!("valiant-{me}-1"));
        drop(mine);
        assert!(folders(&base).iter().all(|name| name != &format!("valiant-{me}")));
        drop(second);
        drop(other);
        drop(claim_in(&base));
        assert_eq!(folders(&base), ["rte", "valiant-1", full, "valiant-x"]);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses files")]
    fn where_nothing_can_be_made_dpdk_gets_its_prefix_all_the_same() {
        let mine = claim_in(Path::new("/proc/no such directory"));
        assert_eq!(mine.prefix(), format!("valiant-{}", std::process::id()));
        assert!(mine.lock.is_none());
    }
}
