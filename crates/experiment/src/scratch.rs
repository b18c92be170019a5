//! Directories that do not outlast the process that makes them, or not for long.

use launch::reason;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// How their names begin.
const PREFIX: &str = "valiant-agent-";
/// Only whoever makes one may enter it.
const MODE: u32 = 0o700;
/// So often another name is tried.
const TRIES: u32 = 100;
/// The number of the next one that this process makes.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed when this is dropped; if the process was killed, by the next one that makes
/// such a directory beside it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Whose lock shows that somebody has it.
    _locked: File,
}

impl Scratch {
    /// Makes one.
    pub(crate) fn new() -> Result<Self, String> {
        Self::in_dir(&std::env::temp_dir())
    }

    fn in_dir(parent: &Path) -> Result<Self, String> {
        let cannot =
            |e: &std::io::Error| format!("cannot make a directory in {}: {}", parent.display(), reason(e));
        // What is started elsewhere needs the whole path.
        let parent = &parent.canonicalize().map_err(|e| cannot(&e))?;
        for _ in 0..TRIES {
            // No name comes twice: whoever cleans up may take what now has it for what had it before.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(MODE).create(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(|e| cannot(&e))?,
            }
            // Whoever cleans up may come first, until it is locked.
            let locked = match File::open(&path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.map_err(|e| cannot(&e))?,
            };
            if locked.try_lock().is_ok() && path.exists() {
                let scratch = Self { path, _locked: locked };
                scratch.sweep(parent);
                return Ok(scratch);
            }
        }
        Err(format!("cannot make a directory in {}: each name is taken", parent.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes those whose processes have been killed, of this one's user.
    fn sweep(&self, parent: &Path) {
        let Ok(own) = std::fs::symlink_metadata(&self.path) else { return };
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let path = entry.path();
            let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
            let same = |found: std::fs::Metadata| found.is_dir() && found.uid() == own.uid();
            if !named || path == self.path || !std::fs::symlink_metadata(&path).is_ok_and(same) {
                continue;
            }
            if let Ok(dir) = File::open(&path)
                && dir.try_lock().is_ok()
            {
                // What cannot be removed stays.
                let _ = std::fs::remove_dir_all(&path);
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_path_is_absolute() {
        let parent = tempfile::tempdir_in(".").unwrap();
        let relative = Path::new(parent.path().file_name().unwrap());
        let scratch = Scratch::in_dir(relative).unwrap();
        assert!(scratch.path().is_absolute() && scratch.path().exists(), "{scratch:?}");
    }

    #[test]
    fn many_at_once_do_not_take_each_others() {
        let parent = tempfile::tempdir().unwrap();
        let make = || {
            for _ in 0..200 {
                let scratch = Scratch::in_dir(parent.path()).unwrap();
                assert!(scratch.path().exists());
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(make))));
    }

    #[test]
    fn a_directory_goes_with_its_process_or_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(parent.path()).unwrap().count();
        let one = Scratch::in_dir(parent.path()).unwrap();
        std::fs::write(one.path().join("file"), "text").unwrap();
        assert_eq!(std::fs::metadata(one.path()).unwrap().mode() & 0o777, MODE);
        // What a process that was killed has left, and what is somebody else's matter.
        let left = parent.path().join(format!("{PREFIX}1-0"));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("file"), "text").unwrap();
        std::fs::create_dir(parent.path().join("other")).unwrap();
        std::os::unix::fs::symlink(parent.path().join("other"), parent.path().join(format!("{PREFIX}link")))
            .unwrap();
        let two = Scratch::in_dir(parent.path()).unwrap();
        assert!(one.path().join("file").exists() && !left.exists() && one.path() != two.path());
        assert!(parent.path().join("other").exists());
        drop((one, two));
        assert_eq!(count(), 2, "the other directory and the link to it");
    }
}
