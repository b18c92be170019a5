//! Errors of this client.

use std::path::PathBuf;

/// Why a request failed. Messages name the endpoint and, if the user can fix the cause, how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an address of an etcd.
    #[error("'{text}' is no etcd endpoint: {why}")]
    Endpoint {
        /// What was given.
        text: String,
        /// The error, and what would be right.
        why: &'static str,
    },
    /// A setting is missing, or has no effect.
    #[error("{what}: {why}")]
    Setting {
        /// Its name, a field of [`Trust`](crate::Trust).
        what: &'static str,
        /// The error, and what would be right.
        why: &'static str,
    },
    /// A file cannot be used.
    #[error("etcd's {what} {}: {why}", path.display())]
    File {
        /// The setting that names it, a field of [`Trust`](crate::Trust).
        what: &'static str,
        /// Where it is looked for.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The server at the endpoint does not prove that it is the right etcd.
    #[error("etcd at {endpoint} cannot be trusted: {why}")]
    Untrusted {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with its certificate, and what to do.
        why: String,
    },
    /// etcd does not authenticate this client.
    #[error("etcd at {endpoint} does not let this client in: {why}")]
    Unwelcome {
        /// The endpoint.
        endpoint: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// No server listens there, or the connection broke.
    #[error("etcd at {endpoint} does not answer: {why}")]
    Unreachable {
        /// All endpoints that were tried.
        endpoint: String,
        /// The error of the operating system.
        why: String,
    },
    /// No answer arrived in time. It is not known whether etcd has executed the request.
    #[error("etcd at {endpoint} is too slow: no answer within {limit_ms} ms")]
    Slow {
        /// All endpoints that were tried.
        endpoint: String,
        /// The limit that passed.
        limit_ms: u64,
    },
    /// etcd has no leader: there is no majority of its members.
    #[error("etcd at {endpoint} has no leader: {message}")]
    NoLeader {
        /// The endpoint that reported it.
        endpoint: String,
        /// etcd's message.
        message: String,
    },
    /// The store has reached its size limit. It can be read, but not written.
    #[error(
        "etcd at {endpoint} is full and accepts no writes as long as its alarm NOSPACE is active: make room with \
         'etcdctl compact REVISION' and 'etcdctl defrag', or raise its --quota-backend-bytes, then 'etcdctl alarm disarm'"
    )]
    Full {
        /// The endpoint that reported it.
        endpoint: String,
    },
    /// Revisions before this one have been discarded; read everything again.
    #[error("etcd has forgotten what changed before revision {revision}")]
    Compacted {
        /// The first revision that is left.
        revision: i64,
    },
    /// The store is at an earlier revision than was seen: it was restored or emptied. Read everything again.
    #[error("etcd is at revision {now}, where it was at {seen}: it was restored from a backup, or emptied")]
    Rewound {
        /// The revision that was seen.
        seen: i64,
        /// The present revision.
        now: i64,
    },
    /// The lease ran out or was revoked.
    #[error("the lease is gone")]
    LeaseGone,
    /// etcd refuses the request.
    #[error("etcd at {endpoint} refuses: {message}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// etcd's message.
        message: String,
        /// The gRPC status.
        code: i32,
    },
    /// The server at the endpoint is not an etcd of version 3.4 or later.
    #[error("what answers at {endpoint} is no etcd 3.4 or later: {why}")]
    Foreign {
        /// Where.
        endpoint: String,
        /// What was wrong with its answer.
        why: String,
    },
}

impl Error {
    /// Whether the request may succeed at another member.
    #[must_use]
    pub const fn elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Slow { .. }
                | Self::NoLeader { .. }
                | Self::Foreign { .. }
                | Self::Untrusted { .. }
                | Self::Unwelcome { .. }
        )
    }
    /// Whether the request may succeed after a new login: etcd no longer knows the user's token, or the
    /// user's permissions have changed. A watch is refused with the same message whatever is wrong with the
    /// token.
    pub(crate) fn stale(&self) -> bool {
        match self {
            Self::Unwelcome { .. } => true,
            Self::Refused { message, .. } => {
                ["invalid auth token", "revision of auth store is old", "permission denied"]
                    .iter()
                    .any(|words| message.contains(words))
            }
            _ => false,
        }
    }
    /// The error for a server that closes a connection before TLS has begun.
    pub(crate) fn hangs_up(endpoint: String) -> Self {
        let why = "it closes the connection when TLS begins: an etcd without TLS, whose endpoint begins with http://, or a proxy with \
                   no etcd behind it";
        Self::Untrusted { endpoint, why: why.to_owned() }
    }
    /// Whether two errors are of the same variant, so that only the first one is reported.
    #[must_use]
    pub fn same_trouble(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The text of an I/O error, without its number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
