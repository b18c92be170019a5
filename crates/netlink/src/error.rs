//! Why a namespace cannot be followed.

use std::io;

/// Why a namespace cannot be followed. The texts state what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was given as the name of a namespace cannot be one.
    #[error("'{0}' is not a name of a network namespace, as 'ip netns list' shows them")]
    BadName(String),
    /// There is no namespace of that name.
    #[error("there is no network namespace '{0}' (no /run/netns/{0}); make it with 'ip netns add {0}'")]
    NoNamespace(String),
    /// The namespace is there and cannot be entered.
    #[error("cannot enter network namespace '{name}': {cause}{}", advice(.cause))]
    Enter {
        /// Its name.
        name: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// The namespace is not there and cannot be made.
    #[error("cannot make network namespace '{name}': {cause}")]
    Make {
        /// Its name.
        name: String,
        /// The system's reason.
        cause: io::Error,
    },
    /// The kernel refuses a setting.
    #[error("cannot set {what}: {cause}")]
    Set {
        /// What was to be set.
        what: String,
        /// The kernel's reason.
        cause: io::Error,
    },
    /// A netlink socket cannot be opened.
    #[error("cannot open a netlink socket: {0}")]
    Socket(io::Error),
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The kernel refuses to list what it has.
    #[error("the kernel does not list its {what}: {cause}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The kernel's reason.
        cause: io::Error,
    },
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it needs the capability CAP_SYS_ADMIN (run as root, or start the router in the namespace with \
             'ip netns exec' and leave NETNS out)"
        }
        _ => "",
    }
}
