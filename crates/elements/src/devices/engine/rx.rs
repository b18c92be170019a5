//! The receiving side of a port: the engine of `FromDevice` and `FromDPDKDevice`.

use super::batches::{Batches, Sizes};
use super::devicecontrol;
use super::devicemoves::{self, Follower};
use super::doze::Doze;
use super::exchange::{Exchange, Inlet, forget_done, inherit};
use super::handover::HOLD;
use super::history::History;
use super::indirection::Indirection;
use super::line::RING;
use super::packettype::packet_type;
use super::parker::Parker;
use super::parkstate::{NOT_WITH_RULES, ParkState};
use super::pause::Pause;
use super::portrules::PortRules;
use super::prefixsteer::{self, Divider, Steer};
use super::queues::Queues;
use super::rebalancer::Rebalancer;
use super::rss::Rss;
use super::screen::Screen;
use super::spread::Spreader;
use super::watch::Watch;
use crate::prelude::*;
use dpdk::{Port, PortConfig, PortSpec, PortState, RxQueue};
use rebalance::Limits;
use runtime::{Facts, Lanes, PortSlot, Spread};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Drop reasons of receivers, including those of packets that the device has lost.
pub(in crate::devices) const DROPS: &[DropCase] = &[
    drops::NO_BUFFER_FOR_PIECES
        .when("a packet came in several pieces, and there was no buffer to put them together in"),
    drops::RECEIVE_RING_FULL.when(
        "lost by the kernel because nobody took packets in time, where AF_XDP or AF_PACKET is the way to the \
         interface; what a NIC loses is in `kernel_drops` only",
    ),
    drops::RULE_SAYS.when("the action of its flow rule is `drop`"),
    drops::WORKER_RING_FULL.when("the worker that has the flow has not kept up with them for 5 ms"),
];

/// The annotations that the receiving side can set.
const ANNOTATED: Fields = Fields::MAC_HEADER.with(Fields::PACKET_TYPE).with(Fields::TIMESTAMP);

/// The receiving side of a port on one worker: the queues that it polls, and the rings from workers that poll
/// for it.
pub(crate) struct Receiver {
    port: PortSlot,
    worker: usize,
    exchange: Arc<Exchange>,
    rss: Rss,
    queues: Vec<(u16, Option<RxQueue>)>,
    next: usize,
    spreader: Option<Spreader>,
    /// Packets that have waited while their bucket moved to this worker.
    arrived: VecDeque<Packet>,
    /// Whether flows are spread over workers, not only packets that rules give to others.
    spreads: bool,
    rules: Option<PortRules>,
    steer: Option<Steer>,
    inlets: Vec<Inlet>,
    /// The place of this worker in the indirection table.
    seat: Option<(Arc<Indirection>, usize)>,
    /// Its part where the device spreads flows by a table that changes.
    follower: Option<Follower>,
    /// Wakes parked workers, if this one polls.
    watch: Option<Watch>,
    /// When the last run of the task began, by the time stamp counter; 0: it has found no packets.
    busy_since: u64,
    /// File descriptors that are readable while packets wait in the queues, and whether all queues have them;
    /// `None`: not known yet.
    sockets: Vec<RawFd>,
    has_sockets: Option<bool>,
    /// What the queues' interrupts are used for.
    doze: Doze,
    /// Largest poll, in packets (kp in RouteBricks section 4.2).
    pub(crate) burst: usize,
    pub(crate) active: bool,
    /// The `ACTIVE` argument.
    configured: bool,
    pub(crate) timestamp: bool,
    /// Whether the aggregate annotation becomes the hash that the device has computed.
    pub(crate) hash_aggregate: bool,
    /// Whether packets are painted with the number of the queue that they come from.
    pub(crate) paint_queue: bool,
    /// What it does with packets beside that, if anything.
    pub(in crate::devices) screen: Option<Screen>,
    /// Whether packets get the annotations that a Linux device gives: MAC header, packet type.
    annotate: bool,
    /// Whether it is a link between nodes of a cluster.
    internal: bool,
    mac: [u8; 6],
    gone: bool,
    pause: Pause,
    pub(crate) count: Counter,
    batches: Arc<Sizes>,
    lost: u64,
    /// Polls that brought packets since losses in the device were last counted.
    unchecked: u32,
}

impl Receiver {
    /// Requests the port and its queues.
    pub(in crate::devices) fn new(
        spec: &PortSpec,
        needs: PortConfig,
        queues: &Queues,
        rss: Rss,
        burst: usize,
        cx: &mut ConfigCx<'_>,
    ) -> Self {
        let burst_needed = burst.min(cx.batch_size());
        let mut needs = PortConfig { rss_key: rss.key(), burst: burst_needed, ..needs };
        (needs.rx_queues, needs.rx_numbers) = queues.requested(cx.workers());
        if needs.rx_queues > 0 && rss != Rss::None {
            // Packets wait in the rings if there are fewer queues than workers. If the reason is that the
            // device has no more queues, the buffers of the missing ones are available for the rings.
            // And some wait while a part of the flows moves to another worker.
            let missing = cx.workers().saturating_sub(needs.rx_queues.into());
            needs.extra_buffers += (RING + HOLD) * missing;
            if missing == 0 && needs.rx_queues > 1 && matches!(spec, PortSpec::Pci { .. }) {
                needs.extra_buffers += devicemoves::HOLD * usize::from(needs.rx_queues);
            }
        }
        let spread = if rss == Rss::None { Spread::Never } else { Spread::Flows };
        // Annotating a packet touches two more cache lines; this is done only if an element reads the
        // annotations.
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
            arrived: VecDeque::new(),
            spreads: false,
            rules: None,
            steer: None,
            inlets: Vec::new(),
            seat: None,
            follower: None,
            watch: None,
            busy_since: 0,
            sockets: Vec::new(),
            has_sockets: None,
            doze: Doze::default(),
            burst,
            active: true,
            configured: true,
            timestamp: false,
            screen: None,
            hash_aggregate: false,
            paint_queue: false,
            annotate,
            internal,
            mac: [0; 6],
            gone: false,
            pause: Pause::default(),
            count: Counter::new(),
            batches: Batches::of(cx).of_worker(cx.worker().0),
            lost: 0,
            unchecked: 0,
        }
    }

    /// Balances the load of the workers where flows are spread, if it is `on`, the `REBALANCE` argument.
    pub(in crate::devices) fn configure_rebalancer(&self, on: bool, cx: &mut ConfigCx<'_>) {
        let history = cx.shared(|| History::new(on));
        let history = self.exchange.history(|| history);
        if cx.workers() > 1 && self.rss != Rss::None {
            let task = Rebalancer::new(cx.name(), &self.exchange, &history);
            cx.control(Box::new(task));
        }
    }
    /// Parks workers at low load where flows are spread in software, if it is `on`, the `PARK` argument.
    /// # Errors
    /// There are rules, which may give packets to any worker.
    pub(in crate::devices) fn configure_parking(
        &self,
        (on, limits): (bool, Limits),
        has_rules: bool,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ArgError> {
        if on && has_rules {
            return Err(ArgError::new(NOT_WITH_RULES));
        }
        let state = cx.shared(|| ParkState::new(on, limits, has_rules));
        let state = self.exchange.park_state(|| state);
        if cx.workers() > 1 && self.rss != Rss::None {
            let task = Parker::new(cx.name(), &self.exchange, &state);
            cx.control(Box::new(task));
        }
        Ok(())
    }
    /// Sets the `POLL_INTERVAL` argument.
    pub(crate) fn configure_interval(&mut self, ns: u64) {
        self.pause.interval_ns = ns;
    }
    /// Sets the `ACTIVE` argument.
    pub(crate) fn configure_active(&mut self, active: bool) {
        (self.active, self.configured) = (active, active);
    }

    /// Sets the rules in front of the port.
    pub(in crate::devices) fn configure_rules(&mut self, rules: Option<PortRules>) {
        self.rules = rules;
    }

    /// Has packets go by the prefixes of their destinations, if there is a `STEER` argument.
    pub(in crate::devices) fn configure_steering(&mut self, steer: Option<Steer>, cx: &mut ConfigCx<'_>) {
        if steer.is_some() && cx.workers() > 1 && !self.internal {
            let task = Divider::new(cx.name(), &self.exchange);
            cx.control(Box::new(task));
            self.steer = steer;
        }
    }

    pub(crate) fn start(&mut self, cx: &mut Cx<'_>) {
        let (Some(port), Some(lanes)) = (self.port.get(), self.port.lanes()) else { return };
        self.mac = port.mac();
        self.exchange.at_port(port);
        self.doze = Doze::new(matches!(port.spec(), PortSpec::Pci { .. }));
        let port = Arc::clone(port);
        let mut lanes = Lanes::clone(lanes);
        if self.steer.is_some() && lanes.spread.is_empty() && lanes.pollers().count() > 1 {
            // Each worker polls its queue, and gives packets to each other one.
            lanes.spread = lanes.pollers().collect();
        }
        self.spreads = !lanes.spread.is_empty();
        if let Some(rules) = &mut self.rules {
            // Rules give packets from each worker to each other one.
            lanes.spread = rules.start(&lanes, &port, cx);
        }
        self.queues = lanes.poll.get(self.worker).into_iter().flatten().map(|&q| (q, None)).collect();
        if lanes.spread.contains(&self.worker) {
            let others = lanes.pollers().filter(|&from| from != self.worker);
            self.inlets = others.map(|from| Inlet::new(&self.exchange, from, self.worker)).collect();
        }
        if !lanes.spread.is_empty() {
            let key = (!self.internal).then(|| self.rss.software_key());
            let (steer, exchange) = (&self.steer, &self.exchange);
            let make = || {
                let indirection = Indirection::new(&lanes, key.as_ref().map(|key| &key[..]));
                if let Some(table) = steer.as_ref().map(Steer::table) {
                    indirection.divide(prefixsteer::division(&table));
                    exchange.steer_by(&table);
                }
                indirection
            };
            let table = self.exchange.indirection(make);
            if !self.queues.is_empty() {
                let burst = self.most(cx);
                self.spreader = Some(Spreader::new(self.worker, &table, &self.exchange, burst));
                let state = self.exchange.known_park_state().filter(|_| self.spreads);
                self.watch = state.map(|state| Watch::new(state, &table, self.worker));
            }
            self.seat = table.seat_of(self.worker).map(|place| (table, place));
        }
        if self.rss != Rss::None && !self.queues.is_empty() {
            let (exchange, rules) = (&self.exchange, self.rules.is_some());
            self.follower = devicecontrol::follower((&port, &lanes), exchange, self.worker, rules, cx);
        }
        self.say_what_is_not_parked(&lanes, cx);
        if lanes.receives(self.worker) {
            cx.reschedule();
        }
    }
    /// Says that no worker is parked where the device distributes flows.
    fn say_what_is_not_parked(&self, lanes: &Lanes, cx: &Cx<'_>) {
        let on = self.exchange.known_park_state().is_some_and(|state| state.is_on());
        let first = lanes.pollers().next() == Some(self.worker);
        if on && first && !self.spreads && lanes.pollers().count() > 1 {
            cx.log(
                Level::INFO,
                &format!(
                    "{}: PARK: each worker has a receive queue of its own, so none is parked",
                    cx.name()
                ),
            );
        }
    }

    /// Whether the rules fit the workers that process the port's packets, once it has started.
    pub(in crate::devices) fn check_rules(&self) -> Result<(), String> {
        self.rules.as_ref().map_or(Ok(()), PortRules::check)
    }

    /// See [`Element::prefetch`].
    pub(crate) fn prefetch(&self, step: usize) {
        if step > 0 {
            return self.queues.iter().filter_map(|(_, rx)| rx.as_ref()).for_each(RxQueue::prefetch);
        }
        dpdk::prefetch(self.queues.as_slice(), 2);
        dpdk::prefetch(&*self.batches, 1);
        self.count.prefetch();
    }

    /// Polls once and emits the packets for this worker.
    pub(crate) fn poll(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some((table, place)) = &self.seat else { return self.poll_and_follow(cx) };
        let now = dpdk::cycles();
        if self.busy_since != 0 {
            table.seat(*place).add_busy(now.saturating_sub(self.busy_since));
        }
        if cx.downstream_empty(0) {
            self.inlets.iter_mut().for_each(Inlet::say_left);
        }
        if let Some(watch) = &mut self.watch
            && watch.look(table, now)
        {
            watch.woke(cx.now_ns());
        }
        if !table.seat(*place).has_begun() {
            return self.poll_after_waking(*place, now, cx);
        }
        let moved = self.poll_and_emit(cx);
        self.busy_since = if moved { now } else { 0 };
        moved
    }

    /// The same where the device spreads flows.
    #[inline]
    fn poll_and_follow(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(follower) = self.follower.as_mut().filter(|f| f.is_on()) else {
            return self.poll_and_emit(cx);
        };
        let now = dpdk::cycles();
        follower.begins(now);
        if follower.is_moving() {
            follower.look(cx.downstream_empty(0), cx.now_ns(), &mut self.arrived);
        }
        let moved = self.poll_and_emit(cx);
        if let Some(follower) = &mut self.follower {
            follower.ran(now, moved);
        }
        moved
    }

    /// The same for a worker that has had no packets since it was woken.
    #[cold]
    fn poll_after_waking(&mut self, place: usize, cycles: u64, cx: &mut Cx<'_>) -> bool {
        let now = cx.now_ns();
        let moved = self.poll_and_emit(cx);
        self.busy_since = if moved { cycles } else { 0 };
        if let Some((table, _)) = self.seat.as_ref().filter(|_| moved) {
            table.seat(place).begins(now);
        }
        moved
    }

    fn poll_and_emit(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.active && self.is_drained() && self.inlets.is_empty() && self.finds_sockets() {
            cx.reschedule();
            cx.idle_until_readable(&self.sockets);
            return false;
        }
        if !cx.downstream_room(0) {
            // Packets that would be dropped stay in the device. When a queue has space again, the task is
            // woken on the worker where it belongs.
            if !cx.runs_here() {
                cx.reschedule();
            }
            return false;
        }
        let (mut moved, pauses) = (false, self.pause.pauses(cx));
        if !pauses {
            moved = self.take_in(cx);
            // A worker that others poll for has no queues. A worker whose neighbor's ring is full leaves
            // packets in the device.
            let held_up = self.spreader.as_mut().is_some_and(|s| {
                s.look(&mut self.arrived, cx);
                s.give(cx)
            });
            moved |= self.emit_arrived(cx);
            if self.active && !self.queues.is_empty() && !held_up {
                moved |= self.poll_queues(cx);
            }
        }
        // Packets that have been polled are passed to their worker, also if no more are polled.
        let polls = self.active && !self.gone && !self.queues.is_empty();
        if polls || !self.inlets.is_empty() || self.owes() {
            cx.reschedule_with_room(0);
            // A worker that puts packets into an inlet wakes this worker, and so do the sockets.
            if !pauses && (!moved || self.is_drained()) && self.finds_sockets() {
                cx.idle_until_readable(&self.sockets);
            } else if self.dozes(moved || pauses, cx) {
                cx.idle_until_readable(self.doze.interrupts());
            }
        }
        moved
    }

    /// Whether it is certain that nothing waits in the queues.
    #[inline]
    fn is_drained(&self) -> bool {
        self.queues.iter().all(|(_, rx)| rx.as_ref().is_some_and(RxQueue::is_drained))
            && !self.queues.is_empty()
    }

    /// Whether only sockets and other workers can bring more work.
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

    /// Whether the device says when packets come, and none has come since it was asked to.
    #[inline]
    fn dozes(&mut self, busy: bool, cx: &mut Cx<'_>) -> bool {
        if busy {
            self.doze.wake(&mut self.queues);
            return false;
        }
        self.has_sockets == Some(false) && !self.owes() && self.doze.lie_down(&mut self.queues, cx.now_ns())
    }

    /// Whether packets that have been polled wait here, or flows change workers.
    fn owes(&self) -> bool {
        !self.arrived.is_empty()
            || self.spreader.as_ref().is_some_and(Spreader::owes)
            || self.follower.as_ref().is_some_and(Follower::owes)
    }

    /// Emits packets that other workers have polled for this one.
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
                cx.count_changed_workers(n);
                self.emit(batch, None, cx);
            } else {
                cx.recycle(batch);
            }
        }
        if room == 0 {
            // The next run begins with another worker, so that no worker has to wait for a busy one.
            self.inlets.rotate_left(1);
        } else if room == self.most(cx) {
            forget_done(&mut self.inlets, |i| i, |_| true);
        }
        room < self.most(cx)
    }

    /// Emits packets that have waited while their bucket moved here.
    #[inline]
    fn emit_arrived(&mut self, cx: &mut Cx<'_>) -> bool {
        let any = !self.arrived.is_empty();
        while !self.arrived.is_empty() {
            let mut batch = cx.spare_batch();
            let n = self.arrived.len().min(self.most(cx));
            batch.packets_mut().extend(self.arrived.drain(..n));
            self.emit(batch, None, cx);
        }
        any
    }

    fn most(&self, cx: &Cx<'_>) -> usize {
        self.burst.min(cx.batch_size().max(1))
    }

    /// Counts packets that were lost before they reached the queues: whenever a poll is empty, and from time
    /// to time while none is.
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
                // During a hot swap, the queue becomes free when the element that used it is dropped.
                *rx = self.port.get().and_then(|port| port.rx_queue(*number).ok());
            }
            let Some(rx) = rx else { continue };
            let (lost, segments, before) = (rx.lost(), rx.segments(), batch.len());
            rx.rx_burst(most - before, &mut batch);
            if self.paint_queue {
                batch.iter_mut().skip(before).for_each(|packet| packet.set_paint(*number as u8));
            }
            if rx.segments() != segments {
                cx.expect_segments();
            }
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
        if let Some(follower) = &mut self.follower {
            follower.polled(&mut batch, n < most, self.annotate && self.timestamp, cx);
        }
        if n == 0 {
            cx.recycle(batch);
            if !self.gone && self.port.get().is_some_and(|port| port.state() == PortState::Gone) {
                self.gone = true;
                let name = self.port.get().map_or("", |port| port.name());
                cx.log(Level::ERROR, &format!("{}: port {name} has disappeared", cx.name()));
            }
            return false;
        }
        self.count.add(n as u64);
        cx.count_arrivals(n);
        self.batches.count(n);
        let now = (self.annotate && self.timestamp).then(|| cx.now_ns());
        let mut ruled = self.rules.as_ref().map(|_| cx.spare_batch());
        if let (Some(rules), Some(own)) = (&mut self.rules, &mut ruled) {
            if let (Some(now), Some(_)) = (now, &self.spreader) {
                batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(now));
            }
            rules.apply(&mut batch, own, self.spreader.as_mut(), cx);
        }
        if let Some(spreader) = &mut self.spreader {
            if let Some(now) = now {
                batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(now));
            }
            if self.spreads {
                spreader.spread(&mut batch, cx);
            } else {
                spreader.give(cx);
            }
            if let Some(mut own) = ruled {
                batch.append(&mut own);
                cx.recycle(own);
            }
            self.emit(batch, None, cx);
        } else {
            if let Some(mut own) = ruled {
                batch.append(&mut own);
                cx.recycle(own);
            }
            self.emit(batch, now, cx);
        }
        true
    }

    /// Annotates packets and emits them; packets that another worker has polled have their timestamp already.
    fn emit(&mut self, mut batch: Batch, now: Option<u64>, cx: &mut Cx<'_>) {
        if self.annotate {
            for packet in &mut *batch {
                let kind = packet_type(packet.data(), self.mac);
                packet.mark_received(kind);
                if let Some(now) = now {
                    packet.set_timestamp_ns(now);
                }
            }
        }
        if self.hash_aggregate {
            batch.iter_mut().for_each(|packet| packet.set_aggregate(packet.rss_hash().unwrap_or(0)));
        }
        if let Some((table, place)) = &self.seat {
            table.seat(*place).count(batch.len());
        }
        self.pause.emitted(batch.len());
        if let Some(screen) = &self.screen {
            screen.apply(&mut batch, cx);
        }
        cx.output_batch(0, batch);
    }

    pub(crate) fn take_state(&mut self, old: &mut Self, cx: &mut Cx<'_>) {
        self.count.set(old.count.get());
        // A value that a handler has set is kept, unless the new configuration's argument differs from the
        // old one's.
        if self.configured == old.configured {
            self.active = old.active;
        }
        self.lost = old.lost;
        // The same port is shared over the swap; a different port has its own queues.
        if let (Some(ours), Some(theirs)) = (self.port.get(), old.port.get())
            && Arc::ptr_eq(ours, theirs)
        {
            for (number, rx) in &mut self.queues {
                let had = old.queues.iter_mut().find(|(queue, rx)| queue == number && rx.is_some());
                *rx = had.and_then(|(_, rx)| rx.take()).or_else(|| rx.take());
            }
        }
        // Packets that other workers have polled for this one come first; those workers use the old rings
        // until they swap too.
        inherit(&mut self.inlets, std::mem::take(&mut old.inlets), |i| i);
        self.arrived.append(&mut old.arrived);
        if let Some(before) = &mut old.spreader {
            match &mut self.spreader {
                Some(spreader) => spreader.take_over(before, &mut self.arrived, cx),
                None => before.end(&mut self.arrived, cx),
            }
        }
        if let Some(before) = &mut old.follower {
            match &mut self.follower {
                Some(follower) => follower.take_over(before, &mut self.arrived),
                None => before.end(&mut self.arrived),
            }
        }
        if !self.inlets.is_empty() || !self.arrived.is_empty() {
            // This holds also if the element is now bound to another worker: this worker must still take the
            // packets in its rings.
            cx.reschedule_here();
        }
    }

    /// The port, once it is open.
    pub(crate) fn port(&self) -> Option<&Arc<Port>> {
        self.port.get()
    }
    /// Packets in the rings to other workers.
    pub(crate) fn handed(&self) -> usize {
        self.arrived.len()
            + self.spreader.as_ref().map_or(0, Spreader::handed)
            + self.follower.as_ref().map_or(0, Follower::len)
    }
    /// The queues that this worker polls, and the workers it polls for: a line, or nothing.
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
