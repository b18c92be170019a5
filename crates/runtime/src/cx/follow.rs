//! Following single packets: what a worker that traces does where packets are delivered, pulled and dropped.

use super::core::{Core, Staged};
use super::graph::Graph;
use super::trace::What;
use dpdk::Packet;
use std::time::Instant;

impl Core {
    /// A batch is about to be delivered, in a run that is timed.
    #[cold]
    pub(super) fn arrives(&mut self, graph: &Graph, s: &mut Staged) {
        let Some(mut trace) = self.trace.take() else { return };
        // Before the first delivery of a run, that is the element whose task or timer runs.
        let source = Some(self.current).filter(|slot| graph.slots[*slot as usize].inputs.is_empty());
        let begins = match trace.wanted.at {
            Some(at) => (s.to == at).then_some(at),
            // What a source emits first in a run.
            None => source.filter(|_| self.deliveries <= 1),
        };
        if begins.is_some() && Instant::now() > trace.wanted.until {
            // Whoever wanted this has gone.
            return;
        }
        let burst = s.batch.len();
        if let Some(slot) = begins {
            trace.begin(slot, &mut s.batch);
        }
        for packet in s.batch.iter().filter(|packet| packet.is_traced()) {
            trace.note(packet, s.to, burst, What::Enters(s.port));
        }
        self.trace = Some(trace);
    }

    /// Packets have been pulled from one element by another.
    #[cold]
    pub(super) fn pulled(&mut self, graph: &Graph, from: u32, by: u32, packets: &mut [Packet]) {
        let Some(trace) = &mut self.trace else { return };
        // A source that makes packets when it is pulled.
        if trace.wanted.at.is_none() && graph.slots[from as usize].inputs.is_empty() {
            if Instant::now() > trace.wanted.until {
                self.trace = None;
                return;
            }
            trace.begin(from, packets);
        }
        for packet in packets.iter().filter(|packet| packet.is_traced()) {
            trace.note(packet, from, packets.len(), What::PulledBy(by));
        }
    }

    /// A packet is about to be dropped.
    #[cold]
    pub(super) fn dropped(&mut self, slot: u32, packet: &Packet, reason: &'static str) {
        if let Some(trace) = &mut self.trace
            && packet.is_traced()
        {
            trace.note(packet, slot, 1, What::Dropped(reason));
        }
    }
}
