//! Sockets that were opened for this process before it gave up its rights: those that it could not make
//! itself any more.

use crate::allow::Socket;
use locks::IgnorePoison;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Mutex;

/// A socket that listens.
#[derive(Debug)]
pub enum Inherited {
    /// A Unix socket. The element does not remove it from the file system: whoever made it does.
    Unix(UnixListener),
    /// A TCP port.
    Tcp(TcpListener),
}

static LISTENERS: Mutex<Vec<(Socket, Inherited)>> = Mutex::new(Vec::new());

/// An element that is to listen at this address will use this socket.
pub fn bequeath(address: Socket, listener: Inherited) {
    LISTENERS.lock().ignore_poison().push((address, listener));
}

/// The socket for this address, once.
pub fn inherited(address: &Socket) -> Option<Inherited> {
    let mut all = LISTENERS.lock().ignore_poison();
    let at = all.iter().position(|(known, _)| known == address)?;
    Some(all.swap_remove(at).1)
}
