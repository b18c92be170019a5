//! Errors at start-up and of control operations, and what to do about them.

use std::io;

/// An error of the environment, a pool, a port or a tunnel device. The data path has none of these.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The DPDK environment does not start.
    #[error("DPDK does not start: {reason}{}", advice(.fix))]
    Eal {
        /// DPDK's message.
        reason: String,
        /// The command that helps, or empty.
        fix: String,
    },
    /// No memory for packet buffers.
    #[error("no memory for {buffers} packet buffers of {buffer_len} bytes: {reason}{}", advice(.fix))]
    Pool {
        /// How many.
        buffers: usize,
        /// How large, in bytes.
        buffer_len: usize,
        /// DPDK's message.
        reason: String,
        /// The command that helps, or empty.
        fix: String,
    },
    /// A text that does not name a port.
    #[error("`{spec}` is not a port: {reason}")]
    PortSpec {
        /// The text.
        spec: String,
        /// Why.
        reason: String,
    },
    /// A port that cannot be opened or changed.
    #[error("port {port}: {doing}: {reason}{}", advice(.fix))]
    Port {
        /// The port's name in the request.
        port: String,
        /// The operation that failed.
        doing: &'static str,
        /// The message of DPDK or the kernel.
        reason: String,
        /// The command that helps, or empty.
        fix: String,
    },
    /// A queue that is not available.
    #[error("port {port}: {kind} queue {queue} {reason}")]
    Queue {
        /// The port's name in the request.
        port: String,
        /// `receive` or `transmit`.
        kind: &'static str,
        /// Its number.
        queue: u16,
        /// Why not.
        reason: String,
    },
    /// A crypto device that is not available or does not support the requested algorithm.
    #[error("crypto device {device}: {doing}: {reason}{}", advice(.fix))]
    Crypto {
        /// The device's name in the request.
        device: String,
        /// The operation that failed.
        doing: &'static str,
        /// DPDK's message.
        reason: String,
        /// What to do, or empty.
        fix: String,
    },
    /// A TUN or TAP device, or the settings of a Linux interface.
    #[error("{name}: {doing}: {reason}{}", advice(.fix))]
    Interface {
        /// Its name.
        name: String,
        /// The operation that failed.
        doing: &'static str,
        /// The kernel's message.
        reason: String,
        /// The command that helps, or empty.
        fix: String,
    },
}

fn advice(fix: &str) -> String {
    if fix.is_empty() { String::new() } else { format!("; try: {fix}") }
}

impl Error {
    pub(crate) fn interface(name: &str, doing: &'static str, source: &io::Error) -> Error {
        let fix = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => "run it as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
            Some(libc::ENOENT) => "modprobe tun",
            _ => "",
        };
        Error::Interface { name: name.to_owned(), doing, reason: reason(source), fix: fix.to_owned() }
    }

    pub(crate) fn port(port: &str, doing: &'static str, reason: impl Into<String>) -> Error {
        Error::Port { port: port.to_owned(), doing, reason: reason.into(), fix: String::new() }
    }

    pub(crate) fn crypto(device: &str, doing: &'static str, reason: impl Into<String>) -> Error {
        Error::Crypto { device: device.to_owned(), doing, reason: reason.into(), fix: String::new() }
    }

    pub(crate) fn with_fix(mut self, advice: impl Into<String>) -> Error {
        match &mut self {
            Error::Eal { fix, .. }
            | Error::Pool { fix, .. }
            | Error::Port { fix, .. }
            | Error::Crypto { fix, .. }
            | Error::Interface { fix, .. } => *fix = advice.into(),
            Error::PortSpec { .. } | Error::Queue { .. } => {}
        }
        self
    }
}

/// An I/O error without Rust's `(os error N)`.
pub(crate) fn reason(source: &io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The text for a positive or negative errno.
pub(crate) fn errno_text(errno: i32) -> String {
    reason(&io::Error::from_raw_os_error(errno.abs()))
}
