//! Locks on interfaces for exclusive use: a lock for each, on a file below `/run/valiant/devices` that has
//! the owner's name.
//!
//! The kernel gives every packet of an interface to each packet socket on it. So two routers can open the
//! same interface by accident, and both forward its packets. A process that calls [`claim_interfaces`] cannot
//! open an interface that another such process has locked; other processes, such as a sniffer, neither lock
//! nor check locks. Interfaces are distinguished by network namespace and name. The kernel releases the lock
//! when the process ends for any reason; a file that is left behind means nothing.

use locks::IgnorePoison;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// Where the files are.
const DIRECTORY: &str = "/run/valiant/devices";
/// This process's network namespace.
const HERE: &str = "/proc/self/ns/net";

static OWNER: OnceLock<String> = OnceLock::new();
/// The interfaces that this process has locked. An interface may be opened again before its former port is
/// closed.
static CLAIMS: Mutex<BTreeMap<PathBuf, Weak<Claim>>> = Mutex::new(BTreeMap::new());

/// From now on this process locks the interfaces that it opens; `owner` is the name that others see.
pub fn claim_interfaces(owner: &str) {
    // The first name stays.
    let _ = OWNER.set(format!("{owner}, process {}", std::process::id()));
}

/// The owner of an interface that is locked in the network namespace of a path (such as `/run/netns/NAME`;
/// `None`: that of this process); `None` if it is not locked, or if that cannot be determined.
#[must_use]
pub fn interface_owner(name: &str, namespace: Option<&Path>) -> Option<String> {
    let path = path(Path::new(DIRECTORY), name, namespace.unwrap_or(Path::new(HERE)))?;
    let file = File::open(path).ok()?;
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| owner_of(&file))
}

/// An interface that this process has locked, until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    // It is closed after the path is removed.
    _lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A process that locks it from here on makes a new file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Why an interface could not be locked.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Another process has locked it.
    Taken(String),
    /// That could not be determined.
    Unknown(io::Error),
}

/// Locks an interface, if this process locks its interfaces.
pub(crate) fn take(name: &str) -> Result<Option<Arc<Claim>>, Refused> {
    let Some(owner) = OWNER.get() else { return Ok(None) };
    let Some(path) = path(Path::new(DIRECTORY), name, Path::new(HERE)) else { return Ok(None) };
    let mut claims = CLAIMS.lock().ignore_poison();
    if let Some(claim) = claims.get(&path).and_then(Weak::upgrade) {
        return Ok(Some(claim));
    }
    let claim = Arc::new(lock(&path, owner)?);
    claims.retain(|_, claim| claim.strong_count() > 0);
    claims.insert(path, Arc::downgrade(&claim));
    Ok(Some(claim))
}

/// The lock file of an interface; `None` if the text is not an interface name.
fn path(directory: &Path, name: &str, namespace: &Path) -> Option<PathBuf> {
    let namespace = fs::metadata(namespace).ok()?.ino();
    let good = !name.is_empty() && !name.contains('/');
    good.then(|| directory.join(format!("{namespace}-{name}")))
}

fn owner_of(mut file: &File) -> String {
    let mut text = String::new();
    // Another process has locked it, whichever that is.
    let _ = file.read_to_string(&mut text);
    let text = text.trim();
    if text.is_empty() { "another process".to_owned() } else { text.to_owned() }
}

/// How often a lock is tried: a process that only reads the owner ([`interface_owner`]) holds it for a
/// moment.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

fn lock(path: &Path, owner: &str) -> Result<Claim, Refused> {
    let mut tries = 0;
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(Refused::Unknown)?;
    }
    loop {
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let mut file = open.map_err(Refused::Unknown)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
                continue;
            }
            Err(TryLockError::WouldBlock) => return Err(Refused::Taken(owner_of(&file))),
            Err(TryLockError::Error(e)) => return Err(Refused::Unknown(e)),
        }
        // Its owner may have removed it meanwhile.
        let identity = |m: fs::Metadata| (m.dev(), m.ino());
        let mine = file.metadata().map(identity).map_err(Refused::Unknown)?;
        if fs::metadata(path).is_ok_and(|there| identity(there) == mine) {
            let written = file.set_len(0).and_then(|()| writeln!(file, "{owner}"));
            written.map_err(Refused::Unknown)?;
            return Ok(Claim { path: path.to_owned(), _lock: file });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_one_owners_until_he_is_gone() {
        let directory = std::env::temp_dir().join(format!("valiant-claim-{}", std::process::id()));
        let here = path(&directory, "eth0", Path::new(HERE)).unwrap();
        assert_eq!(path(&directory, "../eth0", Path::new(HERE)), None);
        assert_eq!(path(&directory, "eth0", Path::new("/nowhere")), None);
        let first = lock(&here, "node 0 of blue").unwrap();
        assert!(matches!(lock(&here, "node 1 of red"), Err(Refused::Taken(who)) if who == "node 0 of blue"));
        // Another interface, and a file left by a process that was killed.
        let there = path(&directory, "eth1", Path::new(HERE)).unwrap();
        fs::write(&there, "node 7 of green").unwrap();
        let second = lock(&there, "node 1 of red").unwrap();
        assert_eq!(fs::read_to_string(&there).unwrap(), "node 1 of red\n");
        drop(first);
        let third = lock(&here, "node 1 of red").unwrap();
        assert!(matches!(lock(&here, "node 0 of blue"), Err(Refused::Taken(who)) if who == "node 1 of red"));
        drop((second, third));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn who_only_asks_keeps_nobody_from_an_interface() {
        let directory = std::env::temp_dir().join(format!("valiant-asked-{}", std::process::id()));
        let path = path(&directory, "eth0", Path::new(HERE)).unwrap();
        fs::create_dir_all(&directory).unwrap();
        // A file left by a process that was killed, and a process that reads it.
        fs::write(&path, "node 7 of green").unwrap();
        let asks = File::open(&path).unwrap();
        asks.try_lock_shared().unwrap();
        let claim = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(PAUSE);
                drop(asks);
            });
            lock(&path, "node 1 of red")
        });
        drop(claim.unwrap());
        fs::remove_dir(&directory).unwrap();
    }
}
