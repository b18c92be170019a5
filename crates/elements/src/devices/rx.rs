//! The receiving side of a port, which `FromDevice` and `FromDPDKDevice` are two names for.

use crate::prelude::*;
use dpdk::{PacketType, PortState, RxQueue};
use runtime::PortSlot;

/// Classes that neither read a packet's annotations nor pass the packet to somebody outside the graph who does.
const BLIND: [&str; 23] = [
    "BandwidthShaper",
    "Counter",
    "Discard",
    "FrontDropQueue",
    "FullNoteQueue",
    "MeasureSink",
    "MixedQueue",
    "NotifierQueue",
    "Null",
    "PrioSched",
    "Queue",
    "QuickNoteQueue",
    "RED",
    "RoundRobinSched",
    "RoundRobinSwitch",
    "Shaper",
    "SimpleQueue",
    "StaticSwitch",
    "Tee",
    "ThreadSafeQueue",
    "ToDPDKDevice",
    "ToDevice",
    "Unqueue",
];

/// One worker's receive queue of a port.
pub(crate) struct Receiver {
    port: PortSlot,
    queue: u16,
    rx: Option<RxQueue>,
    /// Largest poll, in packets (kp in RouteBricks section 4.2).
    pub(crate) burst: usize,
    pub(crate) active: bool,
    /// The `ACTIVE` argument.
    configured: bool,
    /// Whether another queue will do when somebody has this one.
    pub(crate) any: bool,
    pub(crate) timestamp: bool,
    /// Whether packets get the annotations that a Linux device gives: MAC header, packet type.
    annotate: bool,
    mac: [u8; 6],
    gone: bool,
    pub(crate) count: Counter,
    lost: u64,
}

impl Receiver {
    pub(crate) fn new(port: PortSlot, queue: u16, burst: usize, cx: &ConfigCx<'_>) -> Self {
        // Marking a packet touches two more cache lines; where nobody reads the marks, nobody pays for them.
        let annotate = cx.downstream(|_| true).into_iter().any(|e| !BLIND.contains(&cx.class_of(e)));
        Self {
            port,
            queue,
            rx: None,
            burst,
            active: true,
            configured: true,
            any: false,
            timestamp: false,
            annotate,
            mac: [0; 6],
            gone: false,
            count: Counter::new(),
            lost: 0,
        }
    }

    /// Sets the `ACTIVE` argument.
    pub(crate) fn configure_active(&mut self, active: bool) {
        (self.active, self.configured) = (active, active);
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        if let Some(port) = self.port.get() {
            self.mac = port.mac();
            if self.queue < port.rx_queues() {
                cx.reschedule();
            }
        }
    }

    /// Polls the queue once and emits what has come.
    pub(crate) fn poll(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.active {
            return false;
        }
        let Some(rx) = self.rx.as_mut() else {
            // During a hot swap the queue becomes free when the element that had it goes away.
            // Several elements may receive from one port: it has as many queues as all of them want.
            let other = |port: &std::sync::Arc<dpdk::Port>| self.any.then(|| port.free_rx_queue()).flatten();
            self.rx = self.port.get().and_then(|port| port.rx_queue(self.queue).ok().or_else(|| other(port)));
            cx.reschedule();
            return false;
        };
        let mut batch = cx.spare_batch();
        let n = rx.rx_burst(self.burst.min(cx.vector().max(1)), &mut batch);
        if rx.lost() != self.lost {
            cx.count_drops(rx.lost() - self.lost, "receive: no buffer for a packet in several pieces");
            self.lost = rx.lost();
        }
        if n == 0 {
            cx.recycle(batch);
            if !self.gone && rx.port().state() == PortState::Gone {
                self.gone = true;
                cx.chatter(&format!("{}: port {} has disappeared", cx.name(), rx.port().name()));
            }
            if !self.gone {
                cx.reschedule();
            }
            return false;
        }
        self.count.add(n as u64);
        if self.annotate {
            let now = if self.timestamp { cx.now_ns() } else { 0 };
            for packet in &mut *batch {
                let kind = packet_type(packet.data(), self.mac);
                packet.set_mac_header(0);
                let anno = packet.anno_mut();
                anno.set_packet_type(kind);
                anno.timestamp_ns = now;
            }
        }
        cx.output_batch(0, batch);
        cx.reschedule();
        true
    }

    pub(crate) fn take_state(&mut self, old: &mut Self) {
        self.count.set(old.count.get());
        // What a handler has set stays, unless the new configuration says something else than the old one did.
        if self.configured == old.configured {
            self.active = old.active;
        }
        // The same port is shared over the swap; another one has its own queue.
        if let (Some(ours), Some(rx)) = (self.port.get(), &old.rx)
            && std::sync::Arc::ptr_eq(ours, rx.port())
            && old.queue == self.queue
        {
            self.rx = old.rx.take();
            self.lost = old.lost;
        }
    }

    /// The port, once it is open.
    pub(crate) fn port(&self) -> Option<&std::sync::Arc<dpdk::Port>> {
        self.port.get()
    }
}

/// Who a frame is for, by its destination address.
fn packet_type(frame: &[u8], mac: [u8; 6]) -> PacketType {
    match frame.first_chunk::<6>() {
        Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => PacketType::Broadcast,
        Some(to) if to[0] & 1 == 1 => PacketType::Multicast,
        Some(to) if *to == mac => PacketType::Host,
        _ => PacketType::OtherHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_sorted_by_destination() {
        let mac = [2, 0, 0, 0, 0, 1];
        assert_eq!(packet_type(&[0xff; 60], mac), PacketType::Broadcast);
        assert_eq!(packet_type(&[1, 0, 0x5e, 0, 0, 1, 0], mac), PacketType::Multicast);
        assert_eq!(packet_type(&[2, 0, 0, 0, 0, 1, 0], mac), PacketType::Host);
        assert_eq!(packet_type(&[2, 0, 0, 0, 0, 2, 0], mac), PacketType::OtherHost);
        assert_eq!(packet_type(&[2], mac), PacketType::OtherHost);
    }
}
