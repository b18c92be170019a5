//! What a router's handler `load.json` says. Counters grow from the start of the router.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The format that this crate reads.
const FORMAT: u32 = 1;

/// One reading.
#[derive(Clone, Debug, Deserialize)]
pub struct Reading {
    /// Since any moment, of a clock that never jumps.
    pub(crate) time_ns: u64,
    /// The time stamp counter.
    pub(crate) cycles: u64,
    /// Grows with each hot swap.
    pub(crate) generation: u64,
    /// The workers run on threads that run those of other routers too.
    pub(crate) shares_threads: bool,
    pub(crate) workers: Vec<Worker>,
    pub(crate) elements: Vec<Element>,
    pub(crate) ports: Vec<Port>,
    pub(crate) pools: Vec<Pool>,
}

/// A worker, and what the kernel knows of its thread.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    pub(crate) worker: usize,
    pub(crate) ran_ns: Option<u64>,
    /// Ready to run, without a processor.
    pub(crate) waited_ns: u64,
    /// Looking for work while there was no task.
    pub(crate) taskless_cycles: u64,
    pub(crate) cpu: Option<usize>,
    /// Hundredths of a second that a hypervisor took from the processor.
    pub(crate) cpu_stolen_ticks: u64,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) may_use_cpus: String,
    pub(crate) lock_waits: u64,
    pub(crate) lock_ns: u64,
    pub(crate) stuck: Option<Stuck>,
    /// The element in which it sleeps.
    pub(crate) blocked_in: Option<String>,
}

/// A worker that does not finish a batch.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stuck {
    pub(crate) element: String,
    pub(crate) seconds: u64,
}

/// What an element is for the flow of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// It receives from a port.
    Source,
    /// It sends to a port.
    Sink,
    /// It holds packets back by a rate.
    #[serde(rename = "rate limit")]
    RateLimit,
    /// It keeps packets for a time.
    Delay,
    /// Anything else.
    #[default]
    #[serde(other)]
    Ordinary,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) class: String,
    #[serde(default)]
    pub(crate) role: Role,
    /// Where its outputs lead: the number of the element, and `pull` if that one pulls.
    pub(crate) to: Vec<(usize, String)>,
    /// Its counters on each worker where it did something.
    pub(crate) workers: Vec<Counters>,
    /// Packets in it, and how many there can be.
    pub(crate) length: Option<u64>,
    pub(crate) capacity: Option<u64>,
    /// The bytes that it reads at random places.
    pub(crate) working_set: Option<u64>,
    /// The most packets that it takes from its port at once.
    pub(crate) burst: Option<u64>,
    /// Whether it is switched on, if it can be switched off.
    pub(crate) active: Option<bool>,
    pub(crate) port: Option<String>,
    /// How many receive queues each worker polls.
    #[serde(default)]
    pub(crate) polls: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    pub(crate) worker: usize,
    pub(crate) packets: u64,
    pub(crate) batches: u64,
    pub(crate) emitted: u64,
    pub(crate) emissions: u64,
    pub(crate) cycles: u64,
    pub(crate) empty_polls: u64,
    pub(crate) empty_cycles: u64,
    pub(crate) wasted_packets: u64,
    pub(crate) wasted_cycles: u64,
    pub(crate) full_cycles: u64,
    pub(crate) drops: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) link_mbps: Option<u64>,
    pub(crate) rx_queues: u64,
    pub(crate) rx_packets: u64,
    pub(crate) rx_missed: u64,
    pub(crate) rx_no_buffer: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pool {
    pub(crate) buffers: u64,
    pub(crate) free: u64,
}

impl Reading {
    /// Reads the handler's value.
    ///
    /// # Errors
    /// It is of another version, or is not such a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
            #[serde(default)]
            version: String,
        }
        let bad = |e: serde_json::Error| format!("load.json: the router's answer cannot be read: {e}");
        let head: Format = serde_json::from_str(text).map_err(bad)?;
        if head.format != FORMAT {
            return Err(format!(
                "load.json: the router (version {}) answers in format {}, this program reads format {FORMAT}: use the `valiant` that the router runs",
                head.version, head.format
            ));
        }
        serde_json::from_str(text).map_err(bad)
    }
}
