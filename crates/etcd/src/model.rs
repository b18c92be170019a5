//! Parameters and results of requests.

use std::time::Duration;

/// Time limits, and waiting times between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For a request, connecting included; with several endpoints, for each of them. If a user has to log in
    /// for it, or the cause of a broken TLS connection is looked for, it may take that long again, plus the
    /// time for a connection.
    pub request: Duration,
    /// A watch is set up again after this time, so that a connection that died silently is noticed.
    pub watch: Duration,
    /// The first and the longest waiting time between attempts.
    pub backoff: (Duration, Duration),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            request: Duration::from_secs(3),
            watch: Duration::from_secs(30),
            backoff: (Duration::from_millis(100), Duration::from_secs(5)),
        }
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, with the prefix. Bytes that are no UTF-8 are replaced: Valiant writes no such keys.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision at which it was written.
    pub revision: i64,
    /// The lease that it is attached to.
    pub lease: Option<LeaseId>,
}

/// One change below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has a new value.
    Put(Entry),
    /// A key was removed.
    Delete(String),
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// The result of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key has the new value, written at this revision.
    Done(i64),
    /// The key was not at the expected revision; this is its present value.
    Conflict(Option<Entry>),
}
