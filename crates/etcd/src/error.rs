//! What can go wrong between here and etcd.

use std::path::PathBuf;

/// Why etcd did not do what was asked. Messages name the endpoint and, where there is something to be done,
/// what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not an address of an etcd.
    #[error("'{text}' is no etcd endpoint: {why}")]
    Endpoint {
        /// What was given.
        text: String,
        /// What is wrong, and what would be right.
        why: &'static str,
    },
    /// A setting is missing, or there for nothing.
    #[error("{what}: {why}")]
    Setting {
        /// Its name, a field of [`Trust`](crate::Trust).
        what: &'static str,
        /// What is wrong, and what would be right.
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
    /// Whoever answers cannot show that it is etcd.
    #[error("etcd at {endpoint} cannot be trusted: {why}")]
    Untrusted {
        /// Who.
        endpoint: String,
        /// What is wrong with its certificate, and what to do.
        why: String,
    },
    /// etcd does not believe that this client may speak to it.
    #[error("etcd at {endpoint} does not let this client in: {why}")]
    Unwelcome {
        /// Who.
        endpoint: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// Nobody there, or the connection broke.
    #[error("etcd at {endpoint} does not answer: {why}")]
    Unreachable {
        /// All endpoints that were tried.
        endpoint: String,
        /// What the system said.
        why: String,
    },
    /// There is somebody, but no answer came in time; whether the request was carried out is not known.
    #[error("etcd at {endpoint} is too slow: no answer within {limit_ms} ms")]
    Slow {
        /// All endpoints that were tried.
        endpoint: String,
        /// The limit that passed.
        limit_ms: u64,
    },
    /// The members of etcd are not enough to agree.
    #[error("etcd at {endpoint} has no leader: {message}")]
    NoLeader {
        /// Who said so.
        endpoint: String,
        /// In etcd's words.
        message: String,
    },
    /// The store is as large as it may be. What is in it can be read, nothing can be written.
    #[error(
        "etcd at {endpoint} is full and takes no writes until it is told to (its alarm NOSPACE): make room with \
         'etcdctl compact REVISION' and 'etcdctl defrag', or raise its --quota-backend-bytes, then 'etcdctl alarm disarm'"
    )]
    Full {
        /// Who said so.
        endpoint: String,
    },
    /// Revisions from before this one are no longer there; read everything again.
    #[error("etcd has forgotten what changed before revision {revision}")]
    Compacted {
        /// The first revision that is left.
        revision: i64,
    },
    /// The store is at an earlier revision than was seen: it was restored or emptied. Read everything again.
    #[error("etcd is at revision {now}, where it was at {seen}: it was restored from a backup, or emptied")]
    Rewound {
        /// Where it was.
        seen: i64,
        /// Where it is.
        now: i64,
    },
    /// The lease ran out or was revoked.
    #[error("the lease is gone")]
    LeaseGone,
    /// etcd says no.
    #[error("etcd at {endpoint} refuses: {message}")]
    Refused {
        /// Who.
        endpoint: String,
        /// In etcd's words.
        message: String,
        /// The gRPC status.
        code: i32,
    },
    /// Whoever answers is not an etcd of version 3.4 or later.
    #[error("what answers at {endpoint} is no etcd 3.4 or later: {why}")]
    Foreign {
        /// Where.
        endpoint: String,
        /// What it said.
        why: String,
    },
}

impl Error {
    /// Whether another member may do better.
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
    /// Whether a user who logs in anew may do better: etcd has forgotten his token, or what he may do has
    /// changed. A watch is refused with the same words whatever is wrong with the token.
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
    /// What is said of whoever ends a connection before TLS has begun.
    pub(crate) fn hangs_up(endpoint: String) -> Self {
        let why = "it hangs up when TLS begins: an etcd without TLS, whose endpoint begins with http://, or a proxy with \
                   no etcd behind it";
        Self::Untrusted { endpoint, why: why.to_owned() }
    }
    /// Whether two errors are the same trouble, however it is worded.
    #[must_use]
    pub fn same_trouble(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What an I/O error says, without the number.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
