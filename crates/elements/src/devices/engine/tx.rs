//! The sending side of a port: the engine of `ToDevice` and `ToDPDKDevice`.

use super::batches::{Batches, Sizes};
use super::exchange::Exchange;
use super::line::{Fair, Line, RING, Trust, take_bytes};
use super::member::Member;
use super::port;
use super::queues::Queues;
use super::sharing::Shares;
use crate::prelude::*;
use dpdk::{Port, PortConfig, PortKind, PortSpec, PortState, Returned, TxQueue};
use runtime::{Lane, PortSlot, Spread, WorkerId};
use std::collections::VecDeque;
use std::sync::Arc;

/// Drop reasons of senders.
pub(in crate::devices) const DROPS: &[DropCase] = &[
    drops::TRANSMIT_QUEUE_FULL.when("packets came faster than the port sends them (push input only)"),
    drops::TRANSMIT_QUEUE_NOT_SERVED.when(
        "the other side of the port does not take packets from the queue (memif: the peer has opened fewer queues), \
         and no other queue could be used instead",
    ),
    drops::LONGER_THAN_BUFFERS.when("the packet had to be copied to one, and did not fit"),
    drops::NO_SEND_BUFFER.when("the packet has no buffer of the port's pool, and there was none for a copy"),
    drops::REFUSED_BY_THE_INTERFACE.when(
        "the packet is longer than the MTU, or the interface is down, where AF_PACKET is the way to it",
    ),
    drops::PORT_GONE.when("the device has disappeared"),
    drops::PORT_REPLACED.when("a hot swap gave the element another port"),
    drops::OUT_OF_MEMORY.when("output 0 has no copy of a packet that was sent"),
];
/// How often a blocking sender tries again before it drops the packets: a device that has stopped must not
/// stop the worker.
const TRIES: usize = 1000;
/// Packets of which fewer come in the timeout do not wait for others.
const FEW: u64 = 4;
/// How many batches make a full burst where packets are gathered into large segments.
const BATCHES_OF_SEGMENTS: usize = 4;

/// Sends packets of one worker to a port, with a queue for packets that the device does not take at once.
pub(crate) struct Sender {
    port: PortSlot,
    worker: usize,
    exchange: Arc<Exchange>,
    fair: Fair,
    /// This worker's queue, if it has one.
    line: Line,
    /// Its part in sharing the queues, if there are fewer than workers. Not in here: what each batch needs
    /// stays in few cache lines.
    member: Option<Box<Member>>,
    deficit: usize,
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
    /// What comes back, if the element has outputs.
    outputs: Option<Box<Returned>>,
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
            line: Line::default(),
            member: None,
            deficit: 0,
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
            outputs: None,
        }
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        self.outputs =
            (cx.n_outputs() > 0).then(|| Box::new(Returned { wants_sent: true, ..Returned::default() }));
        if self.port.get().is_some_and(|port| port.kind() == PortKind::Virtual) {
            // Whoever takes the packets gathers those of several routers.
            self.timeout_ns = 0;
        }
        if self.default_burst && self.port.get().is_some_and(|port| port.kind() == PortKind::AfPacket) {
            // Large segments, of up to 45 packets, are sent whole and several in a row: when the second
            // comes, the receiving host is still awake.
            self.burst = self.burst.saturating_mul(BATCHES_OF_SEGMENTS);
        }
        if let (Some(port), Some(lanes)) = (self.port.get(), self.port.lanes())
            && Shares::are_in(lanes, port)
            && let Some((member, line)) = Member::new(&self.exchange.shares(lanes, port), self.worker)
        {
            (self.member, self.line) = (Some(Box::new(member)), line);
        }
        if cx.input_is_pull(0) || self.has_work() {
            cx.reschedule();
        }
    }

    /// See [`Element::prefetch`].
    pub(crate) fn prefetch(&self, step: usize) {
        if step > 0 {
            return;
        }
        self.line.tx.iter().for_each(TxQueue::prefetch);
        dpdk::prefetch(&*self.batches, 1);
        self.count.prefetch();
    }

    /// The queue; during a hot swap it becomes free when the element that used it is dropped.
    fn take_queue(&mut self) {
        let Some(port) = self.port.get() else { return };
        let lane = self.port.lanes().and_then(|lanes| lanes.send.get(self.worker));
        let (queue, locked) = match (&self.member, lane) {
            (Some(member), _) => member.queue(),
            (None, Some(&Lane::Queue { queue, locked })) => (queue, locked),
            (None, _) => return,
        };
        self.line.tx = if locked { port.share_tx_queue(queue) } else { port.tx_queue(queue) }.ok();
    }

    /// Sends from the front of `batch`.
    fn transmit(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) -> usize {
        if let Some(member) = self.member.as_mut().filter(|member| !member.owns) {
            let hurry = 2 * (self.waiting.len() + batch.len()) > self.room;
            let (given, wake) = member.give(batch, cx.run_ns(), hurry);
            wake.into_iter().for_each(|worker| cx.wake(WorkerId(worker)));
            return given;
        }
        if self.line.tx.is_none() {
            self.take_queue();
        }
        let Some(tx) = self.line.tx.as_mut() else { return 0 };
        let sent = if self.line.trust == Trust::Served {
            give(tx, batch, &mut self.outputs)
        } else {
            self.try_one(batch, cx)
        };
        if sent == 0 && !batch.is_empty() {
            self.ask_peer();
        }
        if self.outputs.is_some() {
            self.output(cx);
        }
        self.count_lost(cx);
        if sent > 0 {
            self.count.add(sent as u64);
            self.batches.count(sent);
        }
        sent
    }

    /// Emits what has come back.
    #[cold]
    fn output(&mut self, cx: &mut Cx<'_>) {
        let Some(back) = &mut self.outputs else { return };
        if !back.sent.is_empty() {
            cx.output_batch(0, back.sent.take());
        }
        let not_copied = std::mem::take(&mut back.not_copied);
        cx.count_drops(not_copied, drops::OUT_OF_MEMORY);
        let unsent = back.unsent.take();
        if cx.n_outputs() > 1 && !unsent.is_empty() {
            cx.output_batch(1, unsent);
            // They are not lost.
            self.line.given_up = self.line.tx.as_ref().map_or(self.line.given_up, given_up);
        }
    }

    /// Packets that are not going to be sent.
    fn reject(&mut self, packets: Batch, reason: DropReason, cx: &mut Cx<'_>) {
        if cx.n_outputs() > 1 {
            return cx.output_batch(1, packets);
        }
        self.dropped.add(packets.len() as u64);
        cx.drop_batch(packets, reason);
    }

    /// Counts the packets that the queue could not send.
    #[inline]
    fn count_lost(&mut self, cx: &mut Cx<'_>) {
        let Some(tx) = &self.line.tx else { return };
        let given_up = given_up(tx);
        if given_up != self.line.given_up {
            let reasons =
                [drops::LONGER_THAN_BUFFERS, drops::NO_SEND_BUFFER, drops::REFUSED_BY_THE_INTERFACE];
            for ((now, before), reason) in given_up.into_iter().zip(self.line.given_up).zip(reasons) {
                self.dropped.add(now - before);
                cx.count_drops(now - before, reason);
            }
            self.line.given_up = given_up;
        }
    }

    /// A queue has taken nothing: perhaps nobody is connected any more.
    #[cold]
    fn ask_peer(&mut self) {
        if let (Some(member), Some(port)) = (&self.member, self.port.get())
            && member.shares.by_peer
            && !port.link().up
        {
            member.doubt(&mut self.line);
        }
    }

    /// Sends the first packet by a queue that the other side may not serve.
    #[cold]
    fn try_one(&mut self, batch: &mut Batch, cx: &mut Cx<'_>) -> usize {
        if batch.is_empty() || self.line.trust == Trust::Refused {
            return 0;
        }
        let (Some(member), Some(port)) = (&mut self.member, self.port.get()) else { return 0 };
        if !member.may_try(&mut self.line) {
            return 0;
        }
        let Some(tx) = &mut self.line.tx else { return 0 };
        if self.line.trust == Trust::Served {
            return give(tx, batch, &mut self.outputs);
        }
        let mut first: Batch = batch.drain(..1).collect();
        let sent = give(tx, &mut first, &mut self.outputs);
        if sent == 0 {
            first.append(batch);
            std::mem::swap(batch, &mut first);
        }
        if !member.prove(&mut self.line, sent, port, cx.run_ns()) {
            return sent;
        }
        self.dropped.add(1);
        cx.count_drops(1, drops::TRANSMIT_QUEUE_NOT_SERVED);
        0
    }

    /// Does this worker's part of what has changed among the workers that share queues.
    #[inline]
    fn settle(&mut self, cx: &mut Cx<'_>) {
        if let Some(member) = &self.member
            && !member.is_settled(cx.run_ns())
        {
            self.settle_now(cx);
        }
    }

    #[cold]
    fn settle_now(&mut self, cx: &mut Cx<'_>) {
        let (Some(member), Some(port)) = (&mut self.member, self.port.get()) else { return };
        let wake = member.settle(&mut self.line, &mut self.waiting, port, cx.run_ns());
        wake.into_iter().for_each(|worker| cx.wake(WorkerId(worker)));
    }

    /// Whether the waiting packets should wait for more: they are fewer than a burst, they come quickly, and
    /// the timeout has not passed.
    #[inline]
    fn holds(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.waiting.len() >= self.burst || self.timeout_ns == 0 || !self.line.chosen.is_empty() {
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
        let alone = self.member.as_ref().is_none_or(|member| !member.serves);
        if alone && self.line.chosen.is_empty() {
            let mut waiting = self.waiting.take();
            let sent = self.transmit(&mut waiting, cx);
            self.waiting = waiting;
            return sent;
        }
        let mut sent = 0;
        let mut idle = 0;
        let mut chosen = self.line.chosen.take();
        // The number of rounds is limited, so that other workers cannot keep this one from its other tasks.
        for _ in 0..=2 * self.line.sources.len() {
            if chosen.is_empty() {
                self.choose(&mut chosen, cx);
            }
            if chosen.is_empty() {
                idle += 1;
                if idle > self.line.sources.len() {
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
        self.line.chosen = chosen;
        sent
    }

    /// Chooses the packets of the worker that is next in turn.
    fn choose(&mut self, chosen: &mut Batch, cx: &mut Cx<'_>) {
        let (turn, me) = (self.line.turn, self.worker);
        self.line.turn = if turn >= self.line.sources.len() { 0 } else { turn + 1 };
        if let Some(source) = self.line.sources.get_mut(turn) {
            // This worker's own ring has its turn with what waits here, before that.
            if source.from != me {
                let served = source.serve(self.fair, self.burst, chosen);
                self.line.chosen_from = Some(source.from);
                cx.count_changed_workers(served);
            }
            return;
        }
        self.line.chosen_from = Some(me);
        let before = self.line.source(me).filter(|source| !source.is_empty());
        if let Some(source) = before {
            source.serve(self.fair, self.burst, chosen);
            return;
        }
        match self.fair {
            Fair::Packets => {
                let n = self.burst.min(self.waiting.len());
                chosen.packets_mut().extend(self.waiting.drain(..n));
            }
            Fair::Bytes => {
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

    /// Whether packets wait here, or other workers' packets may.
    #[inline]
    fn has_packets(&self) -> bool {
        !self.waiting.is_empty()
            || !self.line.chosen.is_empty()
            || self.member.as_ref().is_some_and(|member| member.serves || member.unsettled)
    }

    /// Whether the task has to run again.
    fn has_work(&self) -> bool {
        self.has_packets() || self.member.as_ref().is_some_and(|member| member.must_look())
    }

    /// Whether no packets wait here, so that only other workers, which wake this one, can bring work.
    fn only_others_bring_work(&self, cx: &Cx<'_>) -> bool {
        self.waiting.is_empty()
            && self.line.is_empty()
            && self.member.as_ref().is_none_or(|member| !member.unsettled)
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
        if let Some(member) = &self.member {
            member.count(batch.len());
            self.settle(cx);
        }
        // Most batches are a whole burst, or are not to wait for one, and find nothing waiting: they are
        // taken whole.
        if (batch.len() >= self.burst || self.timeout_ns == 0) && !self.has_packets() && !self.stuck {
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
        if self.waiting.is_empty() && self.line.chosen.is_empty() {
            self.stuck = false;
            self.report_full(cx);
            return self.look_again(cx);
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
            if cx.n_outputs() < 2 {
                cx.count_overflow(excess.len());
            }
            let refused = self.member.as_ref().is_some_and(|member| member.refused);
            let reason = match (gone, refused) {
                (true, _) => drops::PORT_GONE,
                (false, true) => drops::TRANSMIT_QUEUE_NOT_SERVED,
                (false, false) => drops::TRANSMIT_QUEUE_FULL,
            };
            self.reject(excess, reason, cx);
        }
        self.report_full(cx);
        self.look_again(cx);
    }

    /// Has the task run again if there is work.
    fn look_again(&self, cx: &mut Cx<'_>) {
        if self.has_work() {
            cx.reschedule();
        }
    }

    /// Pulls and sends once.
    pub(crate) fn run(&mut self, cx: &mut Cx<'_>) -> bool {
        let mut moved = 0;
        let pulls = cx.input_is_pull(0);
        let here = cx.runs_here();
        self.settle(cx);
        if pulls && here && self.held_ns > 0 {
            moved += self.pull(cx);
        }
        if self.still_holds(cx) {
            cx.reschedule();
            // An idle worker would pause, and the packets would wait for that too.
            return true;
        }
        if self.has_packets() {
            moved += self.send(cx);
            if self.is_gone() {
                self.give_up(cx);
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
        if let Some(member) = &self.member {
            member.count(pulled);
        }
        pulled
    }

    /// Drops all packets: the port no longer exists.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        let mut all = Batch::new();
        self.line.empty(&mut all);
        all.append(&mut self.waiting);
        if !all.is_empty() {
            self.reject(all, drops::PORT_GONE, cx);
        }
    }

    pub(crate) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        self.dropped.set(old.dropped.get());
        let same = self.port.get().zip(old.port.get()).is_some_and(|(a, b)| Arc::ptr_eq(a, b));
        // All workers are stopped, and find the same.
        let alike = same && self.port.lanes().zip(old.port.lanes()).is_some_and(|(a, b)| a.sends_as(b));
        if alike && self.member.is_some() == old.member.is_some() {
            // Rings, and queues wherever they are by now, stay what they are.
            self.member = old.member.take();
            self.line = std::mem::take(&mut old.line);
            self.waiting.append(&mut old.waiting);
        } else {
            let mut packets = Batch::new();
            old.line.empty(&mut packets);
            old.member.iter().for_each(|member| member.shares.empty(&mut packets));
            packets.append(&mut old.waiting);
            if same {
                // Packets chosen before are sent before those that still arrive.
                self.line.chosen.append(&mut packets);
                self.line.chosen_from = None;
            } else {
                // They were for another port.
                self.dropped.add(packets.len() as u64);
                cx.drop_batch(packets, drops::PORT_REPLACED);
            }
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
        self.waiting.len() + self.line.len()
    }
    /// How this worker sends: a line, or nothing.
    pub(crate) fn lanes(&self) -> String {
        let lane = self.port.lanes().and_then(|lanes| lanes.send.get(self.worker));
        let how = match (&self.member, lane) {
            (Some(member), _) => member.describe(&self.line),
            (None, Some(Lane::Queue { queue, locked: false })) => format!("sends by queue {queue}"),
            (None, Some(Lane::Queue { queue, .. })) => format!("sends by queue {queue}, which it locks"),
            (None, _) => return String::new(),
        };
        format!("worker {}: {how}\n", self.worker)
    }
    /// Which worker has which queue, if workers share them.
    pub(crate) fn owners(&self) -> String {
        self.member.as_ref().map_or_else(String::new, |member| member.shares.describe())
    }
}

/// Gives packets to a queue; what comes back goes to `outputs`, if there are any.
#[inline]
fn give(tx: &mut TxQueue, batch: &mut Batch, outputs: &mut Option<Box<Returned>>) -> usize {
    match outputs {
        None => tx.tx_burst(batch),
        Some(back) => tx.tx_burst_returning(batch, back),
    }
}

/// How many packets a queue could not send, by reason.
#[inline]
fn given_up(tx: &TxQueue) -> [u64; 3] {
    [tx.lost(), tx.starved(), tx.refused()]
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
    h.read("owners", |e| e.sender().owners());
    h.shared_read::<Batches>("batches", |b, _| Ok(b.table()));
    h.read("port", |e| e.sender().port().map_or_else(String::new, port::describe));
}
