//! Notifications to the service manager: one datagram for each change, to the socket in `NOTIFY_SOCKET`
//! (sd_notify(3), `Type=notify` in a unit). Without the variable nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The configuration runs: its ports are open, and the process has given up its other rights.
pub fn ready() {
    notify("READY=1");
}

/// The router shuts down.
pub fn stopping() {
    notify("STOPPING=1");
}

fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(e) = send(&name, state) {
        // Without the notification, the manager would wait for its timeout, and then stop the router.
        let reason = crate::reason(&e);
        let socket = name.display();
        tracing::warn!(target: "router", "cannot send {state} to the service manager ({socket}): {reason}");
    }
}

/// Sends to a Unix socket: a path, or `@` and a name in the abstract namespace.
fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "not a Unix socket")),
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<u8> {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    #[test]
    fn a_socket_in_the_file_system_gets_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        send(path.as_os_str(), "STOPPING=1").unwrap();
        assert_eq!((received(&socket), received(&socket)), (b"READY=1".to_vec(), b"STOPPING=1".to_vec()));
    }

    #[test]
    fn a_socket_in_the_abstract_namespace_is_found() {
        let name = format!("valiant-notify-{}", std::process::id());
        let socket =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes()).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        assert_eq!(received(&socket), b"READY=1");
    }

    #[test]
    fn what_is_no_unix_socket_is_refused() {
        assert!(send(OsStr::new("vsock:2:1234"), "READY=1").is_err());
        assert!(send(OsStr::new("/nobody/is/here"), "READY=1").is_err());
    }
}
