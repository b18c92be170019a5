//! Access to a router's control socket over TCP.

use runtime::{Access, Hub, Socket, Token};
use std::fmt;
use std::net::{SocketAddr, TcpListener};

/// Where clients reach a router's control socket over TCP, and the token that they have to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpAccess {
    /// The control socket of the router that has these clients too.
    pub control: Socket,
    /// Address and port.
    pub listen: SocketAddr,
    /// The token.
    pub token: Token,
}

impl fmt::Display for TcpAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tcp {}", self.listen)
    }
}

impl TcpAccess {
    /// A socket that listens there.
    ///
    /// # Errors
    /// The address is in use, or not one of this machine.
    pub fn listen(&self) -> Result<TcpListener, String> {
        TcpListener::bind(self.listen).map_err(|e| {
            format!(
                "cannot listen at {}: {}; choose another address in `listen`",
                self.listen,
                runtime::reason(&e)
            )
        })
    }

    /// Lets clients in to a router that runs.
    pub(crate) fn open(&self, hub: &Hub) -> Result<(), String> {
        let access = Access { listener: self.listen()?, token: self.token.clone() };
        if hub.set_access(&self.control, Some(access)) {
            return Ok(());
        }
        Err(format!("there is no control socket at {} for clients of {self}", self.control))
    }

    /// Lets no clients in any more; their sessions end.
    pub(crate) fn close(&self, hub: &Hub) {
        hub.set_access(&self.control, None);
    }
}
