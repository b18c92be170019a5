//! A limit, its evidence, and what to change.

use serde::Serialize;

/// What limits a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A worker does not finish a batch.
    Stuck,
    /// A worker waits in an element for something outside.
    Blocked,
    /// Nobody takes packets from a queue or a port.
    Stopped,
    /// A port has gone, or has no link.
    Port,
    /// There are no free packet buffers.
    Buffers,
    /// A port does not send as fast as packets come for it.
    Transmit,
    /// An element that passes packets on at a rate, or after a time, that the configuration gives.
    RateLimit,
    /// Other programs, or other virtual machines, use the processor of a worker.
    Processor,
    /// The router's share of threads that run other routers too.
    Share,
    /// Workers wait for each other's locks.
    Lock,
    /// Bursts are so short that the work for each burst counts for most.
    Burst,
    /// A worker has more to do than others.
    Imbalance,
    /// A worker is busy all the time, and waits for memory.
    Memory,
    /// A worker is busy all the time.
    Core,
    /// A queue in the configuration is too short for the bursts that come.
    Queue,
    /// The receive ring of a port is too short for the bursts that come.
    ReceiveRing,
    /// Elements drop packets, for other reasons than a lack of room.
    Drops,
    /// Nothing: the router forwards what comes.
    Traffic,
    /// Nothing: no packets come.
    Idle,
}

/// A limit that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// The worker, element or port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// In one sentence.
    pub sentence: String,
    /// The numbers that show it.
    pub evidence: Vec<String>,
    /// What to change.
    pub advice: Vec<String>,
}

impl Finding {
    pub(crate) fn new(kind: Kind, at: impl Into<Option<String>>, sentence: impl Into<String>) -> Self {
        Self { kind, at: at.into(), sentence: sentence.into(), evidence: Vec::new(), advice: Vec::new() }
    }
    pub(crate) fn shown_by(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}
