//! The receiving side of a port, which `FromDevice` and `FromDPDKDevice` are two names for.

use super::batches::Batches;
use super::exchange::{Exchange, Inlet, RING, forget_done, inherit};
use super::rss::{Rss, address_hash, flow_hash, share_of};
use crate::prelude::*;
use dpdk::{PacketType, Port, PortConfig, PortSpec, PortState, RxQueue};
use runtime::{Facts, Lanes, PortSlot, Spread, WorkerId};
use std::os::fd::RawFd;
use std::sync::Arc;
use tables::ring::Producer;
use tables::toeplitz::Toeplitz;

/// What the receive side can say of a packet.
const ANNOTATED: Fields = Fields::MAC_HEADER.with(Fields::PACKET_TYPE).with(Fields::TIMESTAMP);

/// How long a worker that does not take its packets holds up those who poll for it; after that they drop
/// them. Longer than a time slice of Linux (about 3 ms), so that sharing a core costs no packets while the
/// device's queue has room.
const STALL_NS: u64 = 5_000_000;
/// The shortest and the longest time for which packets are left in the device because the last ones found no
/// room further on. In the longest, 10 Gb/s of the smallest packets fill a third of a receive queue.
const PAUSE_NS: std::ops::RangeInclusive<u64> = 1_000..=50_000;

/// A worker that gets its share of the flows from this one.
struct Neighbour {
    worker: WorkerId,
    ring: Producer<Packet>,
    /// What found no room.
    waiting: Vec<Packet>,
    /// Since when something waits; 0: nothing does.
    since_ns: u64,
    /// It has not taken anything for so long that nobody waits for it any more.
    stalled: bool,
}

impl Neighbour {
    /// Gives what waits, as far as there is room. Returns whether the worker holds this one up.
    fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.ring.push_many(&mut self.waiting) > 0 {
            cx.wake(self.worker);
        }
        if self.waiting.is_empty() {
            (self.since_ns, self.stalled) = (0, false);
            return false;
        }
        let now = cx.now_ns();
        if self.since_ns == 0 {
            self.since_ns = now;
        }
        self.stalled |= now.saturating_sub(self.since_ns) >= STALL_NS;
        if self.stalled {
            cx.drop_batch(self.waiting.drain(..).collect(), drops::WORKER_RING_FULL);
        }
        !self.stalled
    }
}

/// By what flows are told apart.
enum Telling {
    /// Addresses and ports of IP.
    Ip(Toeplitz),
    /// The Ethernet addresses of frames between the nodes of a cluster, behind which their next nodes read
    /// nothing.
    Internal,
}

impl Telling {
    #[inline]
    fn hash(&self, frame: &[u8]) -> u32 {
        match self {
            Self::Ip(hash) => flow_hash(hash, frame),
            Self::Internal => frame.first_chunk().map_or(0, |addresses| address_hash(*addresses, true)),
        }
    }
}

/// What spreads flows over workers.
struct Spreader {
    telling: Telling,
    /// For each worker that processes: this one (`None`) or the number of a neighbour.
    shares: Vec<Option<usize>>,
    neighbours: Vec<Neighbour>,
}

impl Spreader {
    /// Keeps this worker's own packets in the batch and gives the others away. The order of each flow stays.
    fn spread(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) {
        let mut own = cx.spare_batch();
        for packet in batch.drain(..) {
            match self.shares[share_of(self.telling.hash(packet.data()), self.shares.len())] {
                None => own.push(packet),
                Some(n) => self.neighbours[n].waiting.push(packet),
            }
        }
        std::mem::swap(batch, &mut own);
        cx.recycle(own);
        self.give(cx);
    }
    fn give(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut held_up = false;
        for neighbour in &mut self.neighbours {
            held_up |= neighbour.give(cx);
        }
        held_up
    }
}

/// One worker's side of the receiving of a port: the queues that it polls, and the rings from workers that
/// poll for it.
pub(crate) struct Receiver {
    port: PortSlot,
    worker: usize,
    exchange: Arc<Exchange>,
    rss: Rss,
    queues: Vec<(u16, Option<RxQueue>)>,
    next: usize,
    spreader: Option<Spreader>,
    inlets: Vec<Inlet>,
    /// What is readable while packets wait in the queues, and whether that goes for all of them; `None`: not
    /// known yet.
    sockets: Vec<RawFd>,
    has_sockets: Option<bool>,
    /// Largest poll, in packets (kp in RouteBricks section 4.2).
    pub(crate) burst: usize,
    pub(crate) active: bool,
    /// The `ACTIVE` argument.
    configured: bool,
    pub(crate) timestamp: bool,
    /// Whether packets get the annotations that a Linux device gives: MAC header, packet type.
    annotate: bool,
    /// Whether it is a link between nodes of a cluster.
    internal: bool,
    mac: [u8; 6],
    gone: bool,
    /// Packets that found no room further on, and how many this element has emitted, when last looked at.
    overflowed: u64,
    emitted: u64,
    /// How long to leave packets in the device, and until when.
    pause_ns: u64,
    resume_ns: u64,
    pub(crate) count: Counter,
    batches: Arc<Batches>,
    lost: u64,
    /// Polls with packets since anybody looked for losses in front of the queues.
    unchecked: u32,
}

/// Which queues an element polls.
pub(crate) enum Queues {
    /// One for each worker, but no more than this.
    Any(u16),
    /// So many from a first one on.
    From(u16, u16),
}

impl Receiver {
    /// Asks for the port and its queues.
    pub(crate) fn new(
        spec: &PortSpec,
        needs: PortConfig,
        queues: &Queues,
        rss: Rss,
        burst: usize,
        cx: &mut ConfigCx<'_>,
    ) -> Self {
        let mut needs = PortConfig { rss_key: rss.key(), ..needs };
        match *queues {
            Queues::Any(most) => {
                needs.rx_queues = most.clamp(1, cx.workers().min(usize::from(u16::MAX)) as u16);
                // Packets wait in the rings if there are fewer queues than workers. If that is because the
                // device has no more, the buffers of the missing queues serve.
                let missing = cx.workers().saturating_sub(needs.rx_queues.into());
                needs.extra_buffers += if rss == Rss::None { 0 } else { RING * missing };
            }
            Queues::From(first, n) => {
                needs.rx_numbers = (0..n).map_while(|i| first.checked_add(i)).collect();
            }
        }
        let spread = if rss == Rss::None { Spread::Never } else { Spread::Flows };
        // Marking a packet touches two more cache lines; where nobody reads the marks, nobody pays for them.
        let foreign = |class: &Facts, input| class.role == Role::ClusterSwitch && input > 0;
        let annotate =
            cx.downstream(|class, input| !foreign(class, input)).iter().any(|c| c.reads.meets(ANNOTATED));
        let passes = |class: &Facts, _| class.reads.is_empty() && class.writes.is_empty();
        let ends = [Role::ClusterLink, Role::ClusterSwitch];
        let internal = cx.downstream(passes).iter().any(|class| ends.contains(&class.role));
        Self {
            port: cx.port(spec, &needs, spread),
            worker: cx.worker().0,
            exchange: Exchange::of(cx),
            rss,
            queues: Vec::new(),
            next: 0,
            spreader: None,
            inlets: Vec::new(),
            sockets: Vec::new(),
            has_sockets: None,
            burst,
            active: true,
            configured: true,
            timestamp: false,
            annotate,
            internal,
            mac: [0; 6],
            gone: false,
            overflowed: 0,
            emitted: 0,
            pause_ns: 0,
            resume_ns: 0,
            count: Counter::new(),
            batches: Batches::of(cx),
            lost: 0,
            unchecked: 0,
        }
    }

    /// Sets the `ACTIVE` argument.
    pub(crate) fn configure_active(&mut self, active: bool) {
        (self.active, self.configured) = (active, active);
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        let (Some(port), Some(lanes)) = (self.port.get(), self.port.lanes()) else { return };
        self.mac = port.mac();
        let lanes = Arc::clone(lanes);
        self.queues = lanes.poll.get(self.worker).into_iter().flatten().map(|&q| (q, None)).collect();
        if lanes.spread.contains(&self.worker) {
            let others = lanes.pollers().filter(|&from| from != self.worker);
            self.inlets = others.map(|from| Inlet::new(&self.exchange, from, self.worker)).collect();
        }
        if !lanes.spread.is_empty() && !self.queues.is_empty() {
            self.spreader = Some(self.spreader_of(&lanes));
        }
        if lanes.receives(self.worker) {
            cx.reschedule();
        }
    }

    fn spreader_of(&self, lanes: &Lanes) -> Spreader {
        let mut neighbours = Vec::new();
        let shares = (lanes.spread.iter())
            .map(|&to| {
                (to != self.worker).then(|| {
                    neighbours.push(Neighbour {
                        worker: WorkerId(to),
                        ring: self.exchange.producer(self.worker, to),
                        waiting: Vec::new(),
                        since_ns: 0,
                        stalled: false,
                    });
                    neighbours.len() - 1
                })
            })
            .collect();
        let telling = if self.internal { Telling::Internal } else { Telling::Ip(self.rss.hash()) };
        Spreader { telling, shares, neighbours }
    }

    /// Polls once and emits what has come for this worker.
    pub(crate) fn poll(&mut self, cx: &mut Cx<'_>) -> bool {
        if !cx.downstream_room(0) {
            // Packets that would be dropped stay in the device; room wakes the task where it belongs.
            if !cx.runs_here() {
                cx.reschedule();
            }
            return false;
        }
        let (mut moved, pauses) = (false, self.pauses(cx));
        if !pauses {
            moved = self.take_in(cx);
            // A worker that others poll for has no queues; one that is held up leaves packets in the device.
            let held_up = self.spreader.as_mut().is_some_and(|s| s.give(cx));
            if self.active && !self.queues.is_empty() && !held_up {
                moved |= self.poll_queues(cx);
            }
        }
        // What has been polled reaches its worker, also when nothing more is to be.
        let polls = self.active && !self.gone && !self.queues.is_empty();
        if polls || !self.inlets.is_empty() || self.owes() {
            cx.reschedule();
            // Who puts something into an inlet wakes this worker, and so do the sockets.
            if !moved && !pauses && self.finds_sockets() {
                cx.idle_until_readable(&self.sockets);
            }
        }
        moved
    }

    /// Whether nothing but sockets, and other workers, can bring something to do.
    fn finds_sockets(&mut self) -> bool {
        if self.has_sockets.is_none() && self.queues.iter().all(|(_, rx)| rx.is_some()) {
            let queues = self.queues.iter().filter_map(|(_, rx)| rx.as_ref());
            let sockets = queues.map(|rx| rx.has_sockets().then(|| rx.wake_fds()).flatten());
            let sockets: Option<Vec<Vec<RawFd>>> = sockets.collect();
            self.has_sockets = Some(sockets.is_some());
            self.sockets = sockets.unwrap_or_default().concat();
        }
        self.has_sockets == Some(true) && !self.owes()
    }

    /// Whether packets for other workers wait here.
    fn owes(&self) -> bool {
        self.spreader.iter().flat_map(|s| &s.neighbours).any(|n| !n.waiting.is_empty())
    }

    /// Whether packets are to be left in the device for now, because most of the last ones found no room
    /// further on.
    fn pauses(&mut self, cx: &mut Cx<'_>) -> bool {
        let (lost, emitted) = (cx.overflowed() - self.overflowed, self.emitted);
        if lost > 0 || emitted > 0 {
            (self.overflowed, self.emitted) = (cx.overflowed(), 0);
            if lost * 2 > emitted {
                self.pause_ns = (self.pause_ns * 2).clamp(*PAUSE_NS.start(), *PAUSE_NS.end());
                self.resume_ns = cx.now_ns() + self.pause_ns;
            } else {
                self.pause_ns /= 2;
            }
        }
        if self.resume_ns > 0 {
            if cx.now_ns() < self.resume_ns {
                return true;
            }
            self.resume_ns = 0;
        }
        false
    }

    /// Emits what other workers have polled for this one.
    fn take_in(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.inlets.is_empty() {
            return false;
        }
        let mut room = self.most(cx);
        for i in 0..self.inlets.len() {
            let mut batch = cx.spare_batch();
            let n = self.inlets[i].pop_many(room, batch.packets_mut());
            room -= n;
            if n > 0 {
                self.emit(batch, None, cx);
            } else {
                cx.recycle(batch);
            }
        }
        if room == 0 {
            // The next turn begins with another worker, so that none waits behind a busy one.
            self.inlets.rotate_left(1);
        } else if room == self.most(cx) {
            forget_done(&mut self.inlets, |i| i, |_| true);
        }
        room < self.most(cx)
    }

    fn most(&self, cx: &Cx<'_>) -> usize {
        self.burst.min(cx.vector().max(1))
    }

    /// Counts what was lost in front of the queues: when there is a pause, and now and then while there is
    /// none.
    fn look_for_losses(&mut self, polled: usize, cx: &mut Cx<'_>) {
        const OFTEN: u32 = 4096;
        self.unchecked = if polled > 0 { self.unchecked + 1 } else { self.unchecked };
        if self.unchecked == 0 || (polled > 0 && self.unchecked < OFTEN) {
            return;
        }
        self.unchecked = 0;
        let lost: u64 = self.queues.iter().filter_map(|(_, rx)| rx.as_ref()).map(RxQueue::newly_lost).sum();
        if lost > 0 {
            cx.count_drops(lost, drops::RECEIVE_RING_FULL);
        }
    }

    fn poll_queues(&mut self, cx: &mut Cx<'_>) -> bool {
        let most = self.most(cx);
        let mut batch = cx.spare_batch();
        for _ in 0..self.queues.len() {
            let at = self.next;
            self.next = if at + 1 == self.queues.len() { 0 } else { at + 1 };
            let (number, rx) = &mut self.queues[at];
            if rx.is_none() {
                // During a hot swap the queue becomes free when the element that had it goes away.
                *rx = self.port.get().and_then(|port| port.rx_queue(*number).ok());
            }
            let Some(rx) = rx else { continue };
            let lost = rx.lost();
            rx.rx_burst(most - batch.len(), &mut batch);
            if rx.lost() != lost {
                self.lost += rx.lost() - lost;
                let reason = drops::NO_BUFFER_FOR_PIECES;
                cx.count_drops(rx.lost() - lost, reason);
            }
            if batch.len() >= most {
                break;
            }
        }
        let n = batch.len();
        self.look_for_losses(n, cx);
        if n == 0 {
            cx.recycle(batch);
            if !self.gone && self.port.get().is_some_and(|port| port.state() == PortState::Gone) {
                self.gone = true;
                let name = self.port.get().map_or("", |port| port.name());
                cx.chatter(&format!("{}: port {name} has disappeared", cx.name()));
            }
            return false;
        }
        self.count.add(n as u64);
        self.batches.count(self.worker, n);
        let now = (self.annotate && self.timestamp).then(|| cx.now_ns());
        if let Some(spreader) = &mut self.spreader {
            if let Some(now) = now {
                batch.iter_mut().for_each(|packet| packet.anno_mut().timestamp_ns = now);
            }
            spreader.spread(&mut batch, cx);
            self.emit(batch, None, cx);
        } else {
            self.emit(batch, now, cx);
        }
        true
    }

    /// Marks packets and emits them; those that another worker has polled have their time already.
    fn emit(&mut self, mut batch: Batch, now: Option<u64>, cx: &mut Cx<'_>) {
        if self.annotate {
            for packet in &mut *batch {
                let kind = packet_type(packet.data(), self.mac);
                packet.set_mac_header(0);
                let anno = packet.anno_mut();
                anno.set_packet_type(kind);
                if let Some(now) = now {
                    anno.timestamp_ns = now;
                }
            }
        }
        self.emitted += batch.len() as u64;
        cx.output_batch(0, batch);
    }

    pub(crate) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        // What a handler has set stays, unless the new configuration says something else than the old one
        // did.
        if self.configured == old.configured {
            self.active = old.active;
        }
        self.lost = old.lost;
        // The same port is shared over the swap; another one has its own queues.
        if let (Some(ours), Some(theirs)) = (self.port.get(), old.port.get())
            && Arc::ptr_eq(ours, theirs)
        {
            for (number, rx) in &mut self.queues {
                let had = old.queues.iter_mut().find(|(queue, rx)| queue == number && rx.is_some());
                *rx = had.and_then(|(_, rx)| rx.take()).or_else(|| rx.take());
            }
        }
        // What other workers have polled for this one comes first; they go on using the old rings until they
        // swap too.
        inherit(&mut self.inlets, std::mem::take(&mut old.inlets), |i| i);
        for neighbour in old.spreader.iter_mut().flat_map(|s| &mut s.neighbours) {
            neighbour.ring.push_many(&mut neighbour.waiting);
            let rest: Batch = neighbour.waiting.drain(..).collect();
            if !rest.is_empty() {
                cx.drop_batch(rest, drops::WORKER_RING_FULL);
            }
        }
        if !self.inlets.is_empty() {
            // Also if the element is bound to another worker now: what is on the way to this one is still to
            // be taken.
            cx.reschedule_here();
        }
    }

    /// The port, once it is open.
    pub(crate) fn port(&self) -> Option<&Arc<Port>> {
        self.port.get()
    }
    /// Packets on the way to other workers.
    pub(crate) fn handed(&self) -> usize {
        let neighbours = self.spreader.iter().flat_map(|s| &s.neighbours);
        neighbours.map(|n| n.ring.len() + n.waiting.len()).sum()
    }
    /// What this worker polls, and whom it polls for: a line, or nothing.
    pub(crate) fn lanes(&self) -> String {
        let queues: Vec<u16> = self.queues.iter().map(|(queue, _)| *queue).collect();
        let Some(lanes) = self.port.lanes().filter(|lanes| lanes.receives(self.worker)) else {
            return String::new();
        };
        let mut text = format!("worker {}:", self.worker);
        if !queues.is_empty() {
            text += &format!(" polls queue {}", runtime::placement::listed(&queues));
            if !lanes.spread.is_empty() {
                text += &format!(", spreads flows over worker {}", runtime::placement::listed(&lanes.spread));
            }
        } else {
            let pollers: Vec<usize> = lanes.pollers().collect();
            text += &format!(" gets flows from worker {}", runtime::placement::listed(&pollers));
        }
        text + "\n"
    }
}

/// An element that receives from a port.
pub(super) trait Receives: Element {
    fn receiver(&self) -> &Receiver;
    fn receiver_mut(&mut self) -> &mut Receiver;
}

/// The handlers that all of them have.
pub(super) fn handlers<E: Receives>(h: &mut Handlers<E>) {
    h.counter("count", |e| &e.receiver().count);
    h.shared_read::<Batches>("batches", |b, _| Ok(b.table()));
    h.write("reset_counts", |e, _, _| {
        e.receiver().count.set(0);
        Ok(())
    });
    h.read("active", |e| e.receiver().active.to_string());
    h.write("active", |e, v, cx| {
        e.receiver_mut().active = v.trim().parse().map_err(|_| "syntax error".to_owned())?;
        cx.reschedule();
        Ok(())
    });
    h.sum("handed", |e| e.receiver().handed() as u64);
    h.list("lanes", |e| e.receiver().lanes());
    h.read("mac", |e| {
        e.receiver().port().map_or_else(String::new, |p| lang::args::EtherAddr(p.mac()).to_string())
    });
    h.read("port", |e| e.receiver().port().map_or_else(String::new, super::describe));
    h.read("xstats", |e| e.receiver().port().map_or_else(String::new, super::xstats));
}

/// Who a frame is for, by its destination address.
#[inline]
fn packet_type(frame: &[u8], mac: [u8; 6]) -> PacketType {
    // As one number: nearly every frame is told by one comparison.
    let number = |[a, b, c, d, e, f]: [u8; 6]| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    match frame.first_chunk::<6>() {
        Some(to) if *to == mac && mac[0] & 1 == 0 => PacketType::Host,
        Some(to) if number(*to) == number([0xff; 6]) => PacketType::Broadcast,
        Some(to) if to[0] & 1 == 1 => PacketType::Multicast,
        _ => PacketType::OtherHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_internal_links_flows_are_told_apart_by_addresses_alone() {
        let telling = Telling::Internal;
        let frame = |next_hop: u8, from: u8, number: u8| {
            let addresses = [0xc2, 0x10, 2, 0, 0, next_hop, 0xc6, 0, from << 4, 0, 0, number];
            // A byte behind the addresses that is read ends the test.
            Packet::guarded(&addresses, 60).unwrap()
        };
        let hash = |next_hop, from, number| telling.hash(frame(next_hop, from, number).data());
        assert_eq!(hash(9, 1, 0), hash(9, 1, 77), "the number within a stream");
        assert_ne!(hash(9, 1, 0), hash(9, 3, 0), "the input node");
        assert_eq!(telling.hash(&[0xc2; 11]), 0);
        let mut shares = [0; 4];
        (0..=255).for_each(|next_hop| shares[share_of(hash(next_hop, 1, 0), 4)] += 1);
        assert!(shares.iter().all(|n| (32..=96).contains(n)), "{shares:?}");
    }

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
