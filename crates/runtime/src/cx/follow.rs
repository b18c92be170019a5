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
        if Instant::now() > trace.wanted.until {
            // Whoever wanted this has gone.
            return;
        }
        // What a source emits first in a run: before its first delivery, that is the element whose task or
        // timer runs.
        let source = Some(self.current)
            .filter(|slot| self.deliveries <= 1 && graph.slots[*slot as usize].inputs.is_empty());
        let burst = s.batch.len();
        if let Some(slot) = trace.wanted.first_of([source, Some(s.to)]) {
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
        if Instant::now() > trace.wanted.until {
            self.trace = None;
            return;
        }
        // A source that makes packets when it is pulled.
        let source = Some(from).filter(|slot| graph.slots[*slot as usize].inputs.is_empty());
        if let Some(slot) = trace.wanted.first_of([source, Some(by)]) {
            trace.begin(slot, packets);
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
