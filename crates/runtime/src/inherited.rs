//! Sockets that were opened for this process before it gave up its rights: a control socket that it could not
//! make itself any more.

use locks::IgnorePoison;
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

static LISTENERS: Mutex<BTreeMap<PathBuf, UnixListener>> = Mutex::new(BTreeMap::new());

/// An element that is to listen at this path will use this socket. The element does not remove it from the
/// file system: whoever made it does.
pub fn bequeath(path: PathBuf, listener: UnixListener) {
    LISTENERS.lock().ignore_poison().insert(path, listener);
}

/// The socket for this path, once.
pub fn inherited(path: &Path) -> Option<UnixListener> {
    LISTENERS.lock().ignore_poison().remove(path)
}
