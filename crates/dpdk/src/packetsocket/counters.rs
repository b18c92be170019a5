//! What a packet socket counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::descriptor::Descriptor;
use crate::status::PortStats;

#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Whether the kernel has lost frames since it was last asked how many.
    pub(super) losing: AtomicBool,
    pub(super) rx_packets: AtomicU64,
    pub(super) rx_bytes: AtomicU64,
    pub(super) rx_missed: AtomicU64,
    pub(super) rx_errors: AtomicU64,
    pub(super) rx_no_buffer: AtomicU64,
    pub(super) rx_segments: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) tx_packets: AtomicU64,
    pub(super) tx_bytes: AtomicU64,
    pub(super) tx_errors: AtomicU64,
    pub(super) tx_segments: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Counters {
    /// Asks the kernel how many frames it has lost.
    pub(super) fn look_for_losses(&self, socket: &Descriptor) {
        if let Some(lost) = socket.losses() {
            add(&self.rx_missed, lost.into());
        }
    }

    /// Adds its counters to those of the port.
    pub(super) fn add_stats(&self, sum: &mut PortStats) {
        let places = [
            (&mut sum.rx_packets, &self.rx_packets),
            (&mut sum.rx_bytes, &self.rx_bytes),
            (&mut sum.rx_missed, &self.rx_missed),
            (&mut sum.rx_errors, &self.rx_errors),
            (&mut sum.rx_no_buffer, &self.rx_no_buffer),
            (&mut sum.tx_packets, &self.tx_packets),
            (&mut sum.tx_bytes, &self.tx_bytes),
            (&mut sum.tx_errors, &self.tx_errors),
        ];
        for (to, from) in places {
            *to += from.load(Ordering::Relaxed);
        }
    }

    /// All counters, by the names that DPDK's drivers have for them where they have one.
    pub(super) fn xstats(&self) -> [(&'static str, u64); 11] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("rx_good_packets", get(&self.rx_packets)),
            ("tx_good_packets", get(&self.tx_packets)),
            ("rx_good_bytes", get(&self.rx_bytes)),
            ("tx_good_bytes", get(&self.tx_bytes)),
            ("rx_missed_errors", get(&self.rx_missed)),
            ("rx_errors", get(&self.rx_errors)),
            ("tx_errors", get(&self.tx_errors)),
            ("rx_mbuf_allocation_errors", get(&self.rx_no_buffer)),
            ("rx_large_segments", get(&self.rx_segments)),
            ("tx_large_segments", get(&self.tx_segments)),
            ("rx_partial_checksums", get(&self.completed)),
        ]
    }
}
