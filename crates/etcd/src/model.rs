//! What is asked of etcd, and what it answers.

use std::time::Duration;

/// What etcd may take before another attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For a request, connecting included; with several endpoints, for each of them. Where a user logs in for
    /// it, or a TLS connection broke and the cause is looked for, that much and a connection more.
    pub request: Duration,
    /// After so long a watch is set up anew, so that a connection that died silently is noticed.
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

/// A key and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, with the prefix. Bytes that are no UTF-8 are replaced: such keys are not ours.
    pub key: String,
    /// What it holds.
    pub value: Vec<u8>,
    /// The revision at which it was written.
    pub revision: i64,
    /// The lease that it goes with.
    pub lease: Option<LeaseId>,
}

/// One change below the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key has a new value.
    Put(Entry),
    /// A key is gone.
    Delete(String),
}

/// A lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// What became of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Swap {
    /// The key has the new value, written at this revision.
    Done(i64),
    /// It was not at the expected revision; this is what it holds instead.
    Conflict(Option<Entry>),
}
