//! Work in another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Does some work in the network namespace that `ip netns` knows by a name, on a thread of its own, so that
/// no other one is ever there; without a name, here and now.
pub(crate) fn inside<T: Send>(name: Option<&str>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let Some(name) = name else { return Ok(work()) };
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let file = File::open(Path::new("/run/netns").join(name))?;
    let there = || {
        // SAFETY: a descriptor that is open; the call changes this thread alone.
        if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).spawn_scoped(scope, there)?;
        thread.join().map_err(|_| io::Error::other("it panicked"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces() {
        assert_eq!(inside(None, || 7).unwrap(), 7);
        for bad in ["", ".", "..", "a/b", "a\0b"] {
            assert_eq!(inside(Some(bad), || ()).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{bad:?}");
        }
        let none = inside(Some("valiant-no-such-namespace"), || ()).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}
