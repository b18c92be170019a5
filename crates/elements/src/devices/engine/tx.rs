//! The sending side of a port: the engine of `ToDevice` and `ToDPDKDevice`.

use super::batches::{Batches, Sizes};
use super::exchange::{Exchange, Inlet, RING, forget_done, inherit};
use super::port;
use super::queues::Queues;
use crate::prelude::*;
use dpdk::{Port, PortConfig, PortKind, PortSpec, PortState, TxQueue};
use runtime::{Lane, PortSlot, Spread, WorkerId};
use std::collections::VecDeque;
use std::sync::Arc;
use tables::ring::Producer;

/// Drop reasons of senders.
pub(in crate::devices) const DROPS: &[DropCase] = &[
    drops::TRANSMIT_QUEUE_FULL.when("packets came faster than the port sends them (push input only)"),
    drops::LONGER_THAN_BUFFERS.when("the packet had to be copied to one, and did not fit"),
    drops::NO_SEND_BUFFER.when("the packet has no buffer of the port's pool, and there was none for a copy"),
    drops::REFUSED_BY_THE_INTERFACE.when(
        "the packet is longer than the MTU, or the interface is down, where AF_PACKET is the way to it",
    ),
    drops::PORT_GONE.when("the device has disappeared"),
    drops::PORT_REPLACED.when("a hot swap gave the element another port"),
];
/// How often a blocking sender tries again before it drops the packets: a device that has stopped must not
/// stop the worker.
const TRIES: usize = 1000;
/// Packets of which fewer come in the timeout do not wait for others.
const FEW: u64 = 4;
/// The bytes that a worker may send more than another before it has to wait: a full Ethernet frame.
const QUANTUM_BYTES: usize = 1518;

/// The unit in which workers that share a transmit queue get equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::devices) enum Fair {
    /// Packets: round robin.
    Packets,
    /// Bytes: deficit round robin (Shreedhar and Varghese 1995).
    Bytes,
}

/// Packets of one worker that wait for a queue that several workers use.
struct Source {
    inlet: Inlet,
    /// Packets that were taken from it, so that their lengths are known before they are sent.
    held: VecDeque<Packet>,
    deficit: usize,
}

impl Source {
    /// Moves its packets for one round to `out`.
    fn serve(&mut self, fair: Fair, burst: usize, out: &mut Batch) {
        match fair {
            Fair::Packets => {
                let n = burst.min(self.held.len());
                out.packets_mut().extend(self.held.drain(..n));
                self.inlet.pop_many(burst - n, out.packets_mut());
            }
            Fair::Bytes => {
                let mut more = Vec::new();
                self.inlet.pop_many(burst.saturating_sub(self.held.len()), &mut more);
                self.held.extend(more);
                take_bytes(&mut self.held, &mut self.deficit, burst, out);
            }
        }
    }
}

/// One round of deficit round-robin.
fn take_bytes(from: &mut VecDeque<Packet>, deficit: &mut usize, burst: usize, out: &mut Batch) {
    *deficit += QUANTUM_BYTES * burst;
    while let Some(first) = from.front().filter(|p| p.len() <= *deficit) {
        *deficit -= first.len();
        out.packets_mut().extend(from.pop_front());
    }
    if from.is_empty() {
        *deficit = 0;
    }
}

/// How many batches make a full burst where packets are gathered into large segments.
const BATCHES_OF_SEGMENTS: usize = 4;

/// Sends packets of one worker to a port, with a queue for packets that the device does not take at once.
pub(crate) struct Sender {
    port: PortSlot,
    worker: usize,
    exchange: Arc<Exchange>,
    fair: Fair,
    tx: Option<TxQueue>,
    /// The ring to the worker that has the queue, if this worker has none.
    ring: Option<(WorkerId, Producer<Packet>)>,
    /// Workers without a queue, which are served in turn with this worker's own packets.
    sources: Vec<Source>,
    /// The next to be served: the index of a source, or after the sources this worker itself.
    turn: usize,
    deficit: usize,
    /// The packets to be sent next: chosen from the sources and from the waiting packets.
    chosen: Batch,
    /// Packets that wait for space in the device or in the ring.
    waiting: Batch,
    /// How many packets may wait.
    pub(crate) room: usize,
    /// The number of packets that make a full burst; fewer wait for more (kn in RouteBricks section 4.2).
    /// Also the most packets in one pull.
    burst: usize,
    /// Whether the kind of the port may change that.
    pub(in crate::devices) default_burst: bool,
    /// The longest time that they wait.
    timeout_ns: u64,
    /// Since when packets wait for a full burst; 0: none do.
    held_ns: u64,
    /// When packets last came that were too few to be sent at once; `u64::MAX`: never, or a whole burst came
    /// since.
    came_ns: u64,
    /// How many packets waited when the task last checked.
    seen: usize,
    /// Whether to wait for the device rather than drop.
    pub(crate) blocking: bool,
    /// The device has taken nothing in all attempts of a blocking sender; until it does, the sender does not
    /// try as often.
    stuck: bool,
    pub(crate) count: Counter,
    batches: Arc<Sizes>,
    pub(crate) dropped: Counter,
    /// The queue's counts of lost packets at the last check: too long, without a buffer for a copy, refused.
    given_up: [u64; 3],
}

impl Sender {
    /// Requests the port and its queues.
    pub(in crate::devices) fn new(
        spec: &PortSpec,
        needs: PortConfig,
        queues: &Queues,
        fair: Fair,
        burst: usize,
        timeout_ns: u64,
        cx: &mut ConfigCx<'_>,
    ) -> Self {
        let mut needs = needs;
        (needs.tx_queues, needs.tx_numbers) = queues.requested(cx.workers());
        // Packets wait in the rings if there are fewer queues than workers. If the reason is that the device
        // has no more queues, the buffers of the missing ones are available for the rings.
        let asked = usize::from(needs.tx_queues) + needs.tx_numbers.len();
        needs.extra_buffers += RING * cx.workers().saturating_sub(asked);
        Self {
            port: cx.port(spec, &needs, Spread::Never),
            worker: cx.worker().0,
            exchange: Exchange::of(cx),
            fair,
            tx: None,
            ring: None,
            sources: Vec::new(),
            turn: 0,
            deficit: 0,
            chosen: Batch::with_capacity(burst),
            waiting: Batch::with_capacity(burst),
            room: 1024,
            burst,
            default_burst: false,
            timeout_ns,
            held_ns: 0,
            came_ns: u64::MAX,
            seen: 0,
            blocking: false,
            stuck: false,
            count: Counter::new(),
            batches: Batches::of(cx).of_worker(cx.worker().0),
            dropped: Counter::new(),
            given_up: [0; 3],
        }
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        if self.port.get().is_some_and(|port| port.kind() == PortKind::Virtual) {
            // Whoever takes the packets gathers those of several routers.
            self.timeout_ns = 0;
        }
        if self.default_burst && self.port.get().is_some_and(|port| port.kind() == PortKind::AfPacket) {
            // Large segments, of up to 45 packets, are sent whole and several in a row: when the second
            // comes, the receiving host is still awake.
            self.burst = self.burst.saturating_mul(BATCHES_OF_SEGMENTS);
        }
        if let Some(lanes) = self.port.lanes().cloned() {
            if let Some(&Lane::Ring { to }) = lanes.send.get(self.worker) {
                self.ring = Some((WorkerId(to), self.exchange.producer(self.worker, to)));
            }
            let inlets =
                lanes.senders_by(self.worker).map(|from| Inlet::new(&self.exchange, from, self.worker));
            self.sources = inlets.map(|inlet| Source { inlet, held: VecDeque::new(), deficit: 0 }).collect();
        }
        if cx.input_is_pull(0) || !self.sources.is_empty() {
            cx.reschedule();
        }
    }

    /// See [`Element::prefetch`].
    pub(crate) fn prefetch(&self, step: usize) {
        if step > 0 {
            return;
        }
        self.tx.iter().for_each(TxQueue::prefetch);
        dpdk::prefetch(&*self.batches, 1);
        self.count.prefetch();
    }

    /// The queue; during a hot swap it becomes free when the element that used it is dropped.
    fn take_queue(&mut self) {
        if let (Some(port), Some(lanes)) = (self.port.get(), self.port.lanes())
            && let Some(&Lane::Queue { queue, locked }) = lanes.send.get(self.worker)
        {
            self.tx = if locked { port.share_tx_queue(queue) } else { port.tx_queue(queue) }.ok();
        }
    }

    /// Sends from the front of `batch`.
    fn transmit(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) -> usize {
        if let Some((owner, ring)) = &mut self.ring {
            let given = ring.push_many(batch.packets_mut());
            if given > 0 {
                cx.wake(*owner);
            }
            return given;
        }
        if self.tx.is_none() {
            self.take_queue();
        }
        let Some(tx) = self.tx.as_mut() else { return 0 };
        let sent = tx.tx_burst(batch);
        let given_up = [tx.lost(), tx.starved(), tx.refused()];
        if given_up != self.given_up {
            let reasons =
                [drops::LONGER_THAN_BUFFERS, drops::NO_SEND_BUFFER, drops::REFUSED_BY_THE_INTERFACE];
            for ((now, before), reason) in given_up.into_iter().zip(self.given_up).zip(reasons) {
                self.dropped.add(now - before);
                cx.count_drops(now - before, reason);
            }
            self.given_up = given_up;
        }
        if sent > 0 {
            self.count.add(sent as u64);
            self.batches.count(sent);
        }
        sent
    }

    /// Whether the waiting packets should wait for more: they are fewer than a burst, they come quickly, and
    /// the timeout has not passed.
    #[inline]
    fn holds(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waiting.len() >= self.burst || self.timeout_ns == 0 || !self.chosen.is_empty() {
            (self.held_ns, self.seen, self.came_ns) = (0, 0, u64::MAX);
            return false;
        }
        let now = cx.run_ns();
        let since = now.saturating_sub(std::mem::replace(&mut self.came_ns, now));
        if self.held_ns == 0 {
            if since > (self.timeout_ns / FEW).saturating_mul(self.waiting.len() as u64) {
                return false;
            }
            self.held_ns = now;
        }
        if now.saturating_sub(self.held_ns) < self.timeout_ns {
            return true;
        }
        (self.held_ns, self.seen) = (0, 0);
        false
    }

    /// The same when the task runs: packets wait for more only if more have come since it last ran.
    fn still_holds(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.held_ns == 0 {
            return false;
        }
        let grown = self.waiting.len() > self.seen;
        self.seen = self.waiting.len();
        if grown {
            return self.holds(cx);
        }
        (self.held_ns, self.seen) = (0, 0);
        false
    }

    /// Sends waiting packets, as far as the device takes them; packets of several workers are sent in turn.
    fn send(&mut self, cx: &mut Cx<'_>) -> usize {
        if self.sources.is_empty() && self.chosen.is_empty() {
            let mut waiting = self.waiting.take();
            let sent = self.transmit(&mut waiting, cx);
            self.waiting = waiting;
            return sent;
        }
        let mut sent = 0;
        let mut idle = 0;
        let mut chosen = self.chosen.take();
        // The number of rounds is limited, so that other workers cannot keep this one from its other tasks.
        for _ in 0..=2 * self.sources.len() {
            if chosen.is_empty() {
                self.choose(&mut chosen);
            }
            if chosen.is_empty() {
                idle += 1;
                if idle > self.sources.len() {
                    break;
                }
                continue;
            }
            idle = 0;
            sent += self.transmit(&mut chosen, cx);
            if !chosen.is_empty() {
                break;
            }
        }
        self.chosen = chosen;
        sent
    }

    /// Chooses the packets of the worker that is next in turn.
    fn choose(&mut self, chosen: &mut Batch) {
        let turn = self.turn;
        self.turn = if turn >= self.sources.len() { 0 } else { turn + 1 };
        match self.sources.get_mut(turn) {
            Some(source) => source.serve(self.fair, self.burst, chosen),
            None if self.fair == Fair::Packets => {
                let n = self.burst.min(self.waiting.len());
                chosen.packets_mut().extend(self.waiting.drain(..n));
            }
            None => {
                let n = (2 * self.burst).min(self.waiting.len());
                let mut first: VecDeque<Packet> = self.waiting.drain(..n).collect();
                take_bytes(&mut first, &mut self.deficit, self.burst, chosen);
                if !self.waiting.is_empty() || !first.is_empty() {
                    first.extend(self.waiting.drain(..));
                }
                self.waiting.packets_mut().extend(first);
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.port.get().is_none_or(|port| port.state() == PortState::Gone)
    }

    /// Whether packets remain for a later run.
    fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.chosen.is_empty() || !self.sources.is_empty()
    }

    /// Whether no packets wait here, so that only other workers, which wake this one, can bring work.
    fn only_others_bring_work(&self, cx: &Cx<'_>) -> bool {
        self.waiting.is_empty()
            && self.chosen.is_empty()
            && self.sources.iter().all(|s| s.held.is_empty() && s.inlet.len() == 0)
            && !(cx.input_is_pull(0) && cx.upstream_active(0))
    }

    /// Notifies sources when more than half of the space for waiting packets is used, so that they leave
    /// packets where they are.
    fn report_full(&self, cx: &mut Cx<'_>) {
        cx.set_full(2 * self.waiting.len() > self.room);
    }

    /// Sends a batch. Packets that the device does not take wait; packets above the limit are dropped.
    pub(crate) fn push(&mut self, mut batch: Batch, cx: &mut Cx<'_>) {
        let mut sent = 0;
        // Most batches are a whole burst, or are not to wait for one, and find nothing waiting: they are
        // taken whole.
        if (batch.len() >= self.burst || self.timeout_ns == 0) && !self.has_work() && !self.stuck {
            (self.held_ns, self.seen, self.came_ns) = (0, 0, u64::MAX);
            sent = self.transmit(&mut batch, cx);
            if batch.is_empty() {
                cx.recycle(batch);
                return self.report_full(cx);
            }
        }
        if self.waiting.is_empty() {
            std::mem::swap(&mut self.waiting, &mut batch);
        } else {
            self.waiting.append(&mut batch);
        }
        cx.recycle(batch);
        if sent == 0 && self.holds(cx) {
            cx.reschedule();
            return;
        }
        sent += self.send(cx);
        if self.waiting.is_empty() && self.chosen.is_empty() {
            self.stuck = false;
            self.report_full(cx);
            return;
        }
        let tries = if self.blocking && self.waiting.len() > self.room && !self.stuck { TRIES } else { 0 };
        for _ in 0..tries {
            std::hint::spin_loop();
            sent += self.send(cx);
            if self.waiting.len() <= self.room {
                break;
            }
        }
        self.stuck = sent == 0 && (self.stuck || tries > 0);
        let gone = self.is_gone();
        let keep = if gone { 0 } else { self.room };
        if self.waiting.len() > keep {
            let excess = self.waiting.split_off(keep);
            self.dropped.add(excess.len() as u64);
            cx.count_overflow(excess.len());
            cx.drop_batch(excess, if gone { drops::PORT_GONE } else { drops::TRANSMIT_QUEUE_FULL });
        }
        self.report_full(cx);
        if self.has_work() {
            cx.reschedule();
        }
    }

    /// Pulls and sends once.
    pub(crate) fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut moved = 0;
        let pulls = cx.input_is_pull(0);
        let here = cx.runs_here();
        if pulls && here && self.held_ns > 0 {
            moved += self.pull(cx);
        }
        if self.still_holds(cx) {
            cx.reschedule();
            // An idle worker would pause, and the packets would wait for that too.
            return true;
        }
        if self.has_work() {
            moved += self.send(cx);
            if self.is_gone() {
                self.give_up(cx);
            }
            if !self.sources.is_empty() && moved == 0 {
                forget_done(&mut self.sources, |s| &s.inlet, |s| s.held.is_empty());
            }
        }
        if !pulls {
            self.report_full(cx);
        }
        let mut again = self.has_work();
        if pulls && here && self.waiting.is_empty() {
            let pulled = self.pull(cx);
            moved += pulled;
            if pulled > 0 && !self.holds(cx) {
                self.send(cx);
            }
            again |= pulled > 0 || cx.upstream_active(0);
        }
        if pulls {
            // Nobody asks, but it is known for how long the device does not take all.
            cx.set_full(!self.waiting.is_empty() && self.held_ns == 0);
        }
        if again {
            cx.reschedule();
            if moved == 0 && self.only_others_bring_work(cx) {
                cx.idle_until_readable(&[]);
            }
        }
        moved > 0
    }

    /// Pulls the packets that are missing for a full burst.
    fn pull(&mut self, cx: &mut Cx<'_>) -> usize {
        let mut batch = self.waiting.take();
        let room = self.burst.saturating_sub(batch.len());
        let pulled = cx.pull(0, room, &mut batch);
        self.waiting = batch;
        pulled
    }

    /// Drops all packets: the port no longer exists.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        let mut all = self.chosen.take();
        all.append(&mut self.waiting);
        for source in &mut self.sources {
            all.packets_mut().extend(source.held.drain(..));
            while source.inlet.pop_many(RING, all.packets_mut()) > 0 {}
        }
        if !all.is_empty() {
            self.dropped.add(all.len() as u64);
            cx.drop_batch(all, drops::PORT_GONE);
        }
    }

    pub(crate) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.dropped.set(old.dropped.get());
        let same = self.port.get().zip(old.port.get()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        let lane = |s: &Self| s.port.lanes().and_then(|lanes| lanes.send.get(s.worker).copied());
        if same && lane(self) == lane(old) {
            self.tx = old.tx.take();
            self.given_up = old.given_up;
        }
        if same {
            self.chosen.append(&mut old.chosen);
            self.waiting.append(&mut old.waiting);
            // Packets chosen before are sent before those that still arrive.
            for source in &mut old.sources {
                self.chosen.packets_mut().extend(source.held.drain(..));
            }
            inherit(&mut self.sources, std::mem::take(&mut old.sources), |s| &mut s.inlet);
        } else {
            // They were for another port.
            old.chosen.append(&mut old.waiting);
            for source in &mut old.sources {
                old.chosen.packets_mut().extend(source.held.drain(..));
                while source.inlet.pop_many(RING, old.chosen.packets_mut()) > 0 {}
            }
            cx.drop_batch(old.chosen.take(), drops::PORT_REPLACED);
        }
        // This holds also if the element is now bound to another worker: this worker must still send the
        // packets that wait here.
        cx.reschedule_here();
    }

    /// The port, once it is open.
    pub(crate) fn port(&self) -> Option<&Arc<Port>> {
        self.port.get()
    }
    /// Packets that wait to be sent, on this worker and in the rings from others.
    pub(crate) fn waiting(&self) -> usize {
        let sources: usize = self.sources.iter().map(|s| s.held.len() + s.inlet.len()).sum();
        self.waiting.len() + self.chosen.len() + sources
    }
    /// How this worker sends: a line, or nothing.
    pub(crate) fn lanes(&self) -> String {
        let lane = self.port.lanes().and_then(|lanes| lanes.send.get(self.worker));
        let Some(lane) = lane else { return String::new() };
        let from: Vec<usize> = self.port.lanes().iter().flat_map(|l| l.senders_by(self.worker)).collect();
        let mut text = format!("worker {}: ", self.worker);
        text += &match lane {
            Lane::Queue { queue, locked: false } => format!("sends by queue {queue}"),
            Lane::Queue { queue, locked: true } => format!("sends by queue {queue}, which it locks"),
            Lane::Ring { to } => format!("gives packets to worker {to}"),
        };
        if !from.is_empty() {
            text += &format!(", in turn with worker {}", runtime::placement::listed(&from));
        }
        text + "\n"
    }
}

/// An element that sends to a port.
pub(in crate::devices) trait Sends: Element {
    fn sender(&self) -> &Sender;
}

/// The handlers that all of these elements have.
pub(in crate::devices) fn handlers<E: Sends>(h: &mut Handlers<E>) {
    h.counter("count", |e| &e.sender().count);
    h.write("reset_counts", |e, _, _| {
        e.sender().count.set(0);
        e.sender().dropped.set(0);
        Ok(())
    });
    h.sum("waiting", |e| e.sender().waiting() as u64);
    h.list("lanes", |e| e.sender().lanes());
    h.shared_read::<Batches>("batches", |b, _| Ok(b.table()));
    h.read("port", |e| e.sender().port().map_or_else(String::new, port::describe));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: usize, len: usize) -> VecDeque<Packet> {
        (0..n).map(|_| Packet::from_bytes(&vec![0; len]).unwrap()).collect()
    }

    #[test]
    fn shares_by_bytes_are_equal_whatever_the_sizes() {
        let (mut long, mut short) = (packets(1000, 1500), packets(20_000, 60));
        let (mut a, mut b) = (0, 0);
        let (mut sent_long, mut sent_short) = (0, 0);
        for _ in 0..50 {
            let mut out = Batch::new();
            take_bytes(&mut long, &mut a, 8, &mut out);
            sent_long += out.iter().map(Packet::len).sum::<usize>();
            out.clear();
            take_bytes(&mut short, &mut b, 8, &mut out);
            sent_short += out.iter().map(Packet::len).sum::<usize>();
        }
        assert!(sent_long.abs_diff(sent_short) <= 1518, "{sent_long} {sent_short}");
        let mut last = packets(1, 60);
        take_bytes(&mut last, &mut a, 8, &mut Batch::new());
        assert_eq!(a, 0, "who has nothing to send saves nothing up");
    }
}
