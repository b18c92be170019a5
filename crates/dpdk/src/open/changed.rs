//! Changes outside the process that opening a port has made, and how they are undone: interfaces, and files
//! that a driver empties.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use locks::IgnorePoison;

use crate::netdev::Control;

/// Changes outside the process that opening a port has made: undone when this is dropped, unless the port is
/// kept.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// The interface, its MTU before, and whether it was switched off.
    interface: Option<(String, Option<u32>, bool)>,
    /// Files that a driver has written anew, and where their old contents are, if there were any.
    files: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Changed {
    /// Records the state of an interface before it is changed.
    pub(super) fn interface(&mut self) -> &mut (String, Option<u32>, bool) {
        self.interface.get_or_insert_default()
    }

    /// Moves aside the files that a device of DPDK's driver for capture files is going to write: the driver
    /// empties them when it is plugged in.
    pub(super) fn put_aside(&mut self, devargs: &str) {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !devargs.starts_with("net_pcap") || !self.files.is_empty() {
            return;
        }
        for path in devargs.split(',').filter_map(|argument| argument.strip_prefix("tx_pcap=")) {
            // A symbolic link without a target: its target is created, and stays.
            let Some(path) = written(Path::new(path)) else { continue };
            let mut aside = aside();
            if aside.contains(&path) {
                continue;
            }
            let Ok(meta) = fs::metadata(&path) else {
                aside.push(path.clone());
                self.files.push((path, None));
                continue;
            };
            if !meta.is_file() {
                continue;
            }
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let kept = path.with_added_extension(format!("kept-{}-{number}", std::process::id()));
            // Where the directory cannot be written the driver may still write the file: that is then as it
            // is.
            if fs::rename(&path, &kept).is_ok() {
                // If that fails, the driver makes the file.
                let _ = make_like(&path, &meta);
                aside.push(path.clone());
                self.files.push((path, Some(kept)));
            }
        }
    }

    /// Declares that the changes stay.
    pub(crate) fn keep(&mut self) {
        self.interface = None;
        for (path, kept) in self.files.drain(..) {
            // Another process may have removed it.
            let _ = kept.map(fs::remove_file);
            aside().retain(|other| *other != path);
        }
    }
}

impl Drop for Changed {
    /// As far as possible: usually, a process that could open the port can also do this.
    fn drop(&mut self) {
        if let Some((name, mtu, down)) = self.interface.take()
            && let Ok(control) = Control::open()
        {
            if let Some(mtu) = mtu {
                let _ = control.set_mtu(&name, mtu);
            }
            if down {
                let _ = control.set_up(&name, false);
            }
        }
        for (path, kept) in self.files.drain(..) {
            let _ = match kept {
                Some(kept) => fs::rename(kept, &path),
                None => fs::remove_file(&path),
            };
            aside().retain(|other| *other != path);
        }
    }
}

/// The files of all ports that may get their old contents back. What another device finds there in the
/// meantime is not worth keeping, and must not take their place.
fn aside() -> MutexGuard<'static, Vec<PathBuf>> {
    static ASIDE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    ASIDE.lock().ignore_poison()
}

/// The file that is written under this name: the target of a symbolic link. `None` if that cannot be
/// determined.
fn written(path: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(path).is_ok() {
        return fs::canonicalize(path).ok();
    }
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(fs::canonicalize(directory).ok()?.join(path.file_name()?))
}

/// Makes an empty file with the same permissions as another one.
fn make_like(path: &Path, meta: &fs::Metadata) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()))?;
    file.set_permissions(meta.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the files of devices emptied as the driver does it, in a directory of its own.
    fn with_devices(name: &str, test: impl Fn(&Path, &dyn Fn(&str) -> Changed)) {
        let dir = std::env::temp_dir().join(format!("valiant-open-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let plug = |files: &str| {
            let mut changed = Changed::default();
            let files: Vec<_> = files.split(' ').map(|f| dir.join(f)).collect();
            let arguments = files.iter().map(|f| format!(",tx_pcap={}", f.display()));
            changed.put_aside(&format!("net_pcap0{}", arguments.collect::<String>()));
            for file in &files {
                fs::write(file, "new").unwrap();
            }
            changed
        };
        test(&dir, &plug);
        assert!(aside().iter().all(|path| !path.starts_with(&dir)), "all are done with");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_capture_file_comes_back_whoever_wrote_it_too() {
        with_devices("twice", |dir, plug| {
            let names = || fs::read_dir(dir).unwrap().count();
            let old = || fs::read_to_string(dir.join("old")).unwrap();
            fs::write(dir.join("old"), "precious").unwrap();
            drop(plug("old ./old old"));
            assert_eq!((old(), names()), ("precious".into(), 1), "one device, several queues");
            for first in [true, false] {
                let (one, other) = (plug("old new"), plug("./old ./new"));
                let (one, other) = if first { (one, other) } else { (other, one) };
                drop(one);
                drop(other);
                assert_eq!((old(), names()), ("precious".into(), 1), "two devices");
            }
            std::os::unix::fs::symlink("nothing", dir.join("link")).unwrap();
            drop(plug("link"));
            assert!(fs::symlink_metadata(dir.join("link")).is_ok(), "a link that leads to nothing stays");
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn who_may_read_a_capture_file_does_not_change() {
        use std::os::unix::fs::PermissionsExt;
        with_devices("mode", |dir, plug| {
            let path = dir.join("old");
            fs::write(&path, "precious").unwrap();
            for mode in [0o600, 0o640, 0o666] {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                plug("old").keep();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, mode);
                assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            }
            assert_eq!(fs::read_dir(dir).unwrap().count(), 1);
        });
    }
}
