//! The flows that all workers of a translator share, and how a new one is made.

use super::finds::Finds;
use super::headers::{FlowId, Segment, TCP};
use super::input::{Input, Mapped, Names};
use super::lengths::Lengths;
use super::mappinglog::{MappingLog, Record};
use crate::prelude::Packet;
use locks::IgnorePoison;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tables::flows::{Both, Cursor, Flows, Found, Key, LONGEST, MOST_FLOWS, New, Refused, Tuple};
use wire::tcp;

/// Units of the flows' time in a second.
const PER_SECOND: u64 = 4;
/// The longest time in seconds: 47 days, and still less than an entry's age can be when it is looked at.
const LONGEST_SECONDS: u64 = LONGEST as u64 / PER_SECOND - 120;

/// There has been data.
const DATA: u8 = 1;
/// The sender has ended the connection.
pub(crate) const DONE: u8 = 2;
/// One packet of a protocol without connections; they are counted up to 3.
const PACKET: u8 = 8;
const PACKETS: u8 = 3 * PACKET;

/// The time of the flows at a time in nanoseconds.
#[inline(always)]
pub(crate) fn time(now_ns: u64) -> u32 {
    (now_ns / (1_000_000_000 / PER_SECOND)) as u32
}

/// How long flows are kept, in units of their time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) tcp: u32,
    pub(crate) tcp_done: u32,
    pub(crate) tcp_no_data: u32,
    pub(crate) tcp_guarantee: u32,
    pub(crate) udp: u32,
    pub(crate) udp_streaming: u32,
    pub(crate) udp_guarantee: u32,
    /// How often all flows are looked over, at least.
    pub(crate) reap: u32,
    /// Whether times are as precise as can be; else they are stored less often.
    pub(crate) precise: bool,
}

/// A duration in units of the flows' time.
pub(crate) fn units(duration: Duration) -> u32 {
    (duration.as_secs().min(LONGEST_SECONDS - 1) * PER_SECOND) as u32
        + duration.subsec_nanos() / (1_000_000_000 / PER_SECOND as u32)
}

impl Timeouts {
    /// How long a flow is kept after its last packet.
    fn of(&self, kind: u8, forward: u8, reply: u8) -> u32 {
        self.after(kind, forward, reply).max(self.guarantee(kind))
    }
    fn after(&self, kind: u8, forward: u8, reply: u8) -> u32 {
        if kind != TCP {
            let packets = (forward & PACKETS) / PACKET + (reply & PACKETS) / PACKET;
            let streaming = packets >= 3 && reply & PACKETS != 0;
            return if streaming { self.udp_streaming } else { self.udp };
        }
        match () {
            () if forward & reply & DONE != 0 => self.tcp_done,
            () if forward & reply & DATA != 0 => self.tcp,
            () => self.tcp_no_data,
        }
    }
    fn guarantee(&self, kind: u8) -> u32 {
        if kind == TCP { self.tcp_guarantee } else { self.udp_guarantee }
    }
    /// After how long a flow may be removed.
    pub(crate) fn least(&self) -> u32 {
        let tcp = self.tcp.min(self.tcp_done).min(self.tcp_no_data).max(self.tcp_guarantee);
        tcp.min(self.udp.min(self.udp_streaming).max(self.udp_guarantee))
    }
    /// By how much the time of an entry must have changed to be stored.
    pub(crate) fn coarse(&self) -> u32 {
        let guarantees = [self.tcp_guarantee, self.udp_guarantee].into_iter().filter(|units| *units > 0);
        let least = guarantees.chain([self.least()]).min().unwrap_or(0);
        if self.precise { 1 } else { (least / 4).clamp(1, PER_SECOND as u32) }
    }
    /// How old an entry's time must be for its last packet to be that long ago: it may have come when the
    /// stored time was nearly `coarse` old.
    fn stale(&self, idle: u32) -> u32 {
        if idle == 0 { 0 } else { idle + self.coarse() }
    }
    /// In which time all flows are looked over: so that none stays for much longer than it should.
    fn round(&self) -> Duration {
        let units = (self.least() / 4).clamp(1, 60 * PER_SECOND as u32).min(self.reap.max(1));
        Duration::from_millis(u64::from(units) * (1000 / PER_SECOND))
    }
}

/// The flags of an entry after a packet of TCP.
#[inline(always)]
pub(crate) fn tcp_flags(flags: u8, segment: Segment) -> u8 {
    let flags = if segment.data { flags | DATA } else { flags };
    match segment.flags {
        is if is & (tcp::RST | tcp::FIN) != 0 => flags | DONE,
        is if is & tcp::SYN != 0 || segment.data => flags & !DONE,
        _ => flags,
    }
}

/// The flags of an entry after another packet of a protocol without connections.
#[inline(always)]
pub(crate) fn counted(flags: u8) -> u8 {
    if flags & PACKETS == PACKETS { flags } else { flags + PACKET }
}

/// Whether a key is that of a reply to a ping: its identifier is the destination port.
pub(crate) fn is_ping_reply(key: &Key) -> bool {
    let [_, _, reply @ ..] = key.tuple.ports.to_ne_bytes();
    reply != [0, 0]
}

/// What becomes of a packet of no flow.
pub(crate) enum Admitted {
    Flow(Found),
    Output(u8),
    Dropped(Why),
}

/// Why a packet has been dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Its input makes no flows.
    NoMapping,
    /// All addresses and ports of the pattern are in use.
    NoPort,
    /// There are as many flows as there may be.
    Full,
}

/// Translators that have one limit together.
struct Group {
    limit: AtomicUsize,
    members: Mutex<Vec<Weak<Translator>>>,
}

impl Group {
    fn members(&self) -> Vec<Arc<Translator>> {
        self.members.lock().ignore_poison().iter().filter_map(Weak::upgrade).collect()
    }
    /// How many flows all have.
    fn len(&self) -> usize {
        self.members().iter().map(|member| member.flows().len()).sum()
    }
}

/// What all workers share.
pub(crate) struct Translator {
    flows: Mutex<Arc<Flows>>,
    inputs: Mutex<Arc<[Input]>>,
    /// Changes whenever one of these two does.
    version: AtomicU32,
    /// What a new specification of an input may name.
    names: Names,
    finds: Finds,
    lengths: Lengths,
    group: OnceLock<Arc<Group>>,
    /// For each input, how many of its flows there are, and how many could not be made.
    counts: Vec<(AtomicUsize, AtomicU64)>,
    timeouts: Timeouts,
    /// The time as a worker has seen it last.
    now: AtomicU32,
    /// Where to look next for a flow that can make room, and from when on that is worth it again.
    eviction: Mutex<Cursor>,
    full_until: AtomicU32,
    /// When a new flow without a guarantee was refused, and how long it would have lasted.
    refused: AtomicU64,
    exhausted: Exhausted,
    log: Option<Arc<MappingLog>>,
}

/// A translator, or one that has not been made yet.
#[derive(Default)]
pub(crate) struct Shared(OnceLock<Arc<Translator>>);

impl Shared {
    pub(crate) fn get(&self) -> Option<&Arc<Translator>> {
        self.0.get()
    }
    pub(crate) fn fill(&self, made: Translator) -> Arc<Translator> {
        Arc::clone(self.0.get_or_init(|| Arc::new(made)))
    }
    /// For handlers.
    pub(crate) fn made(&self) -> Result<&Translator, String> {
        self.0.get().map(|t| &**t).ok_or_else(|| "not configured".to_owned())
    }
}

/// How many lines of the table are searched at a time for a flow that can make room, and how often.
const LINES_SEARCHED: usize = 2;
const SEARCHES: usize = 256;
/// So many flows that can make room are enough.
const CANDIDATES: usize = 48;

/// Where a pattern had nothing left a moment ago: toward the same address and port. A flood of new flows must
/// not make each of its packets search.
struct Exhausted([AtomicU64; 64]);

impl Exhausted {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
    /// The place of what was tried, and what is stored there.
    fn place(&self, mapped: &Mapped, key: &Key, now: u32) -> Option<(&AtomicU64, u64)> {
        let pattern = Arc::as_ptr(&mapped.pattern) as usize as u64;
        let [_, _, c, d] = key.tuple.ports.to_ne_bytes();
        let what = u64::from(key.tuple.dst) << 16 | u64::from(u16::from_ne_bytes([c, d]));
        let hash =
            (what ^ pattern.rotate_left(20) ^ u64::from(key.kind) << 60).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let value = hash << 16 >> 16 | u64::from(now as u16) << 48;
        self.0.get((hash >> 58) as usize).map(|place| (place, value))
    }
    fn is(&self, mapped: &Mapped, key: &Key, now: u32) -> bool {
        self.place(mapped, key, now).is_some_and(|(place, value)| place.load(Relaxed) == value)
    }
    fn note(&self, mapped: &Mapped, key: &Key, now: u32) {
        if let Some((place, value)) = self.place(mapped, key, now) {
            place.store(value, Relaxed);
        }
    }
}

impl Translator {
    pub(crate) fn new(
        finds: Finds,
        (inputs, names): (Vec<Input>, Names),
        timeouts: Timeouts,
        flows: Flows,
    ) -> Self {
        Self {
            flows: Mutex::new(Arc::new(flows)),
            counts: inputs.iter().map(|_| Default::default()).collect(),
            inputs: Mutex::new(inputs.into()),
            version: AtomicU32::new(0),
            names,
            finds,
            lengths: Lengths::default(),
            group: OnceLock::new(),
            timeouts,
            now: AtomicU32::new(0),
            eviction: Mutex::default(),
            full_until: AtomicU32::new(u32::MAX),
            refused: AtomicU64::new(u64::MAX),
            exhausted: Exhausted::new(),
            log: None,
        }
    }

    /// Logs flows that begin or end.
    pub(crate) fn logging(self, log: Option<Arc<MappingLog>>) -> Self {
        Self { log, ..self }
    }
    pub(crate) fn log(&self) -> Option<&MappingLog> {
        self.log.as_deref()
    }

    pub(crate) fn flows(&self) -> Arc<Flows> {
        Arc::clone(&self.flows.lock().ignore_poison())
    }

    pub(crate) fn inputs(&self) -> Arc<[Input]> {
        Arc::clone(&self.inputs.lock().ignore_poison())
    }
    #[inline(always)]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }
    pub(crate) fn finds(&self) -> Finds {
        self.finds
    }

    /// Continues with the flows of another one.
    pub(crate) fn adopt(&self, old: &Self) {
        let flows = old.flows();
        flows.set_limit(self.flows().limit());
        *self.flows.lock().ignore_poison() = flows;
        self.lengths.adopt(&old.lengths);
        self.version.fetch_add(1, Release);
        for (new, old) in self.counts.iter().zip(&old.counts) {
            new.0.store(old.0.load(Relaxed), Relaxed);
            new.1.store(old.1.load(Relaxed), Relaxed);
        }
    }

    /// Tells what the time is, for what has no clock.
    #[inline(always)]
    pub(crate) fn note_time(&self, now: u32) {
        if self.now.load(Relaxed) != now {
            self.now.store(now, Relaxed);
        }
    }

    /// By what replies to the first packet of a flow will probably be found, if its input makes one.
    pub(crate) fn expected_reply(&self, input: &Input, key: &Key, random: u64) -> Option<Key> {
        let to = match input {
            Input::Drop | Input::Pass(_) => return None,
            Input::Pattern(mapped) => {
                self.finds.fitting(key, mapped.pattern.first(FlowId::of(key.tuple), random).to_tuple())?
            }
            Input::Keep(_) | Input::Mapper(_) => key.tuple,
        };
        Some(Key { tuple: to.reversed(), kind: key.kind })
    }

    /// Decides about a packet of no flow that has come in at an input.
    #[cold]
    pub(crate) fn admit(
        &self,
        flows: &Flows,
        inputs: &[Input],
        input: usize,
        key: &Key,
        (now, random, mark): (u32, u64, u8),
    ) -> Admitted {
        // Another packet of the batch, or another worker, may have made it.
        if let Some(found) = flows.get(key) {
            return Admitted::Flow(found);
        }
        let Some(what) = inputs.get(input) else { return Admitted::Dropped(Why::NoMapping) };
        match self.begin_flow(flows, (what, input), key, (now, random, mark)) {
            Admitted::Flow(found) => Admitted::Flow(found),
            // It may be there, and was just being moved.
            other => flows.find_surely(key).map_or(other, Admitted::Flow),
        }
    }

    /// Makes a flow that does not seem to be there, if the input makes one.
    fn begin_flow(
        &self,
        flows: &Flows,
        (what, input): (&Input, usize),
        key: &Key,
        (now, random, mark): (u32, u64, u8),
    ) -> Admitted {
        // A reply to no request makes no flow.
        if self.finds == Finds::Ping && is_ping_reply(key) {
            return match what {
                Input::Pass(output) => Admitted::Output(*output),
                _ => Admitted::Dropped(Why::NoMapping),
            };
        }
        let owner = (input as u8, mark);
        let keep = |outputs: [u8; 2]| self.add(flows, owner, key, (key.tuple, outputs), now, false);
        let pattern = |mapped: &Mapped| {
            if self.exhausted.is(mapped, key, now) {
                return Ok(None);
            }
            let found = mapped.pattern.offer(FlowId::of(key.tuple), random, |id| {
                let Some(to) = self.finds.fitting(key, id.to_tuple()) else { return Ok(None) };
                // Most of what is taken is seen without a lock.
                let reply = Key { tuple: to.reversed(), kind: key.kind };
                if mapped.pattern.chooses() && flows.get(&reply).is_some() {
                    return Ok(None);
                }
                self.add(flows, owner, key, (to, mapped.outputs), now, mapped.pattern.chooses())
            });
            if matches!(found, Ok(None)) {
                self.exhausted.note(mapped, key, now);
            }
            found
        };
        let found = match what {
            Input::Drop => return Admitted::Dropped(Why::NoMapping),
            Input::Pass(output) => return Admitted::Output(*output),
            Input::Keep(outputs) => keep(*outputs),
            Input::Pattern(mapped) => pattern(mapped),
            Input::Mapper(mapper) => {
                let mut result = Ok(None);
                mapper.offer(FlowId::of(key.tuple), &mut |mapped| {
                    result = pattern(mapped);
                    if matches!(result, Ok(None)) {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                result
            }
        };
        let why = match found {
            Ok(Some(found)) => return Admitted::Flow(found),
            Ok(None) => Why::NoPort,
            Err(_) => Why::Full,
        };
        if let Some((_, failures)) = self.counts.get(input) {
            failures.fetch_add(1, Relaxed);
        }
        Admitted::Dropped(why)
    }

    /// Adds a flow. `None` if its replies would be another one's, and there is a `choice` of others.
    fn add(
        &self,
        flows: &Flows,
        (owner, mark): (u8, u8),
        key: &Key,
        (to, outputs): (Tuple, [u8; 2]),
        now: u32,
        choice: bool,
    ) -> Result<Option<Found>, Refused> {
        let new = New { key: *key, to, outputs, owner, mark };
        // Without a guarantee, it has to last longer than another one to take its place.
        let lasts = (self.timeouts.guarantee(key.kind) == 0).then(|| self.timeouts.of(key.kind, 0, 0));
        if !self.has_room(flows, (now, lasts)) {
            return Err(Refused::Full);
        }
        loop {
            match flows.add(&new, now) {
                Ok(found) => {
                    if let Some((flows, _)) = self.counts.get(usize::from(owner)) {
                        flows.fetch_add(1, Relaxed);
                    }
                    self.note_mapping(true, (key.kind, new.key.tuple, to), now);
                    return Ok(Some(found));
                }
                // Another worker was faster, or it was just being moved.
                Err(Refused::Exists) => return Ok(flows.find_surely(key)),
                Err(Refused::ReplyTaken) if choice => return Ok(None),
                Err(Refused::ReplyTaken) => {
                    if !self.remove(flows, &new.reply_key()) {
                        return Err(Refused::ReplyTaken);
                    }
                }
                Err(Refused::Full | Refused::NoMemory) if self.make_room(flows, (now, lasts)) => {}
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Removes a flow; whether there was one.
    fn remove(&self, flows: &Flows, key: &Key) -> bool {
        let removed = flows.remove(key);
        removed.iter().for_each(|removed| self.uncount(key, removed));
        removed.is_some()
    }

    /// Removes a flow that has been seen to be idle for so long, if it still is.
    fn remove_idle(&self, flows: &Flows, both: &Both, now: u32, idle: u32) -> bool {
        let removed = flows.remove_seen(both, |both| both.idle(now) >= idle);
        if removed {
            self.uncount(&both.key, &both.forward);
        }
        removed
    }

    /// Logs a flow that begins or ends: what its first packets have, and what they get.
    fn note_mapping(&self, begins: bool, (kind, from, to): (u8, Tuple, Tuple), time: u32) {
        if let Some(log) = &self.log {
            let protocol = self.finds.protocol(kind);
            let ((inside, before), (outside, after)) = (self.finds.ends(from), self.finds.ends(to));
            let remote = before.zip(after).map(|(before, after)| [before, after]);
            log.note(Record { begins, time, protocol, inside, outside, remote });
        }
    }

    fn uncount(&self, key: &Key, removed: &Found) {
        let (from, to) = if removed.is_reply() {
            (removed.to.reversed(), key.tuple.reversed())
        } else {
            (key.tuple, removed.to)
        };
        self.note_mapping(false, (key.kind, from, to), self.now.load(Relaxed));
        if removed.is_noted() {
            self.lengths.forget(key, removed);
        }
        if let Some((flows, _)) = self.counts.get(usize::from(removed.owner())) {
            // A hot swap may have changed which inputs there are.
            let _ = flows.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
        }
    }

    /// After how long without packets a flow ends.
    fn timeout(&self, both: &Both) -> u32 {
        let reply = both.reply.map_or(0, |reply| reply.flags());
        self.timeouts.of(both.key.kind, both.forward.flags(), reply)
    }

    /// Removes a flow that has the least time left of some that are not guaranteed any more; if the new flow
    /// has no guarantee and only `lasts` so long, only one that has no more time left.
    fn make_room(&self, flows: &Flows, (now, lasts): (u32, Option<u32>)) -> bool {
        if self.full_until.load(Relaxed) == now {
            return false;
        }
        let refused = |lasts| u64::from(now) << 32 | u64::from(lasts);
        let before = self.refused.load(Relaxed);
        if lasts.is_some_and(|lasts| before >= refused(lasts) && before >> 32 == u64::from(now)) {
            return false;
        }
        let mut cursor = self.eviction.lock().ignore_poison();
        let guarantee = self.timeouts.tcp_guarantee.min(self.timeouts.udp_guarantee);
        let mut candidates: Vec<(u32, Both, u32)> = Vec::with_capacity(CANDIDATES + 32);
        for _ in 0..SEARCHES {
            flows.look_over(
                &mut cursor,
                LINES_SEARCHED,
                (now, self.timeouts.stale(guarantee)),
                |_| true,
                |both| {
                    let guarantee = self.timeouts.stale(self.timeouts.guarantee(both.key.kind));
                    let idle = both.idle(now);
                    if idle >= guarantee {
                        candidates.push((self.timeout(both).saturating_sub(idle), *both, guarantee));
                    }
                },
            );
            if candidates.len() >= CANDIDATES {
                break;
            }
        }
        candidates.sort_unstable_by_key(|candidate| candidate.0);
        let shorter = |left: u32| lasts.is_none_or(|lasts| left <= lasts);
        let mut ending = candidates.iter().take_while(|(left, ..)| shorter(*left));
        if ending.any(|(_, both, guarantee)| self.remove_idle(flows, both, now, *guarantee)) {
            return true;
        }
        // A flood of new flows must not make each of its packets search.
        match lasts {
            Some(lasts) if !candidates.is_empty() => self.refused.store(refused(lasts), Relaxed),
            _ => self.full_until.store(now, Relaxed),
        }
        false
    }

    /// Removes flows whose time is over, from a cursor on, in the parts of the table that are a worker's.
    /// Returns after how long to go on.
    pub(crate) fn reap(
        &self,
        flows: &Flows,
        cursor: &mut Cursor,
        now: u32,
        (worker, workers): (usize, usize),
    ) -> Duration {
        self.note_time(now);
        let round = self.timeouts.round();
        if flows.is_empty() {
            return round;
        }
        let total = flows.lines() / workers + 1;
        let slices = total.min(round.as_millis() as usize).max(1);
        let mine = |part| part % workers == worker % workers;
        flows.look_over(
            cursor,
            total.div_ceil(slices),
            (now, self.timeouts.stale(self.timeouts.least())),
            mine,
            |both| {
                let timeout = self.timeouts.stale(self.timeout(both));
                if both.idle(now) >= timeout {
                    self.remove_idle(flows, both, now, timeout);
                }
            },
        );
        round / slices as u32
    }

    /// Removes all flows, also those of the others that share its limit.
    pub(crate) fn clear(&self) {
        match self.group.get() {
            Some(group) => group.members().iter().for_each(|member| member.remove_all(|_| true)),
            None => self.remove_all(|_| true),
        }
    }

    fn remove_all(&self, which: impl Fn(&Found) -> bool) {
        let (flows, mut all) = (self.flows(), Vec::new());
        flows.for_each(|key, found| {
            if which(found) {
                all.push(*key);
            }
        });
        for key in &all {
            self.remove(&flows, key);
        }
    }

    /// Shares the limit of another translator, before there are packets.
    pub(crate) fn join(self: &Arc<Self>, other: &Arc<Self>) {
        let group = other.group.get_or_init(|| {
            let limit = AtomicUsize::new(other.flows().limit());
            Arc::new(Group { limit, members: Mutex::new(vec![Arc::downgrade(other)]) })
        });
        if !Arc::ptr_eq(self, other) && self.group.set(Arc::clone(group)).is_ok() {
            group.members.lock().ignore_poison().push(Arc::downgrade(self));
        }
        for member in [self, other] {
            member.flows().set_limit(MOST_FLOWS);
        }
    }

    /// How many flows there are, and may be, of all that share the limit.
    pub(crate) fn size(&self) -> usize {
        self.group.get().map_or_else(|| self.flows().len(), |group| group.len())
    }
    pub(crate) fn limit(&self) -> usize {
        self.group.get().map_or_else(|| self.flows().limit(), |group| group.limit.load(Relaxed))
    }

    /// Whether there is room for a flow in what is shared, after removing one if needed.
    fn has_room(&self, flows: &Flows, new: (u32, Option<u32>)) -> bool {
        let Some(group) = self.group.get() else { return true };
        group.len() < group.limit.load(Relaxed)
            || self.make_room(flows, new)
            || group.members().iter().any(|member| member.make_room(&member.flows(), new))
    }

    /// Changes how many flows there may be. Of those that are too many, the ones with the least time left
    /// end.
    pub(crate) fn set_limit(&self, limit: u32) {
        let (flows, now) = (self.flows(), self.now.load(Relaxed));
        match self.group.get() {
            Some(group) => group.limit.store(limit as usize, Relaxed),
            None => flows.set_limit(limit as usize),
        }
        let too_many = self.size().saturating_sub(limit as usize);
        if too_many == 0 {
            return;
        }
        let mut all = Vec::with_capacity(flows.len());
        flows.for_each(|key, found| {
            if !found.is_reply() {
                let reply = flows.get(&found.other_key(key));
                let timeout =
                    self.timeouts.of(key.kind, found.flags(), reply.map_or(0, |reply| reply.flags()));
                let idle = reply.map_or(u32::MAX, |reply| reply.idle(now)).min(found.idle(now));
                all.push((timeout.saturating_sub(idle), *key));
            }
        });
        all.sort_unstable_by_key(|one| one.0);
        for (_, key) in all.iter().take(too_many) {
            self.remove(&flows, key);
        }
    }

    /// Gives an input another specification; the flows that it has made end.
    ///
    /// # Errors
    /// The text is none.
    pub(crate) fn set_input(&self, input: usize, text: &str) -> Result<(), String> {
        let new = self.names.parse(text).map_err(|wrong| format!("input spec {input}: {wrong}"))?;
        {
            let mut inputs = self.inputs.lock().ignore_poison();
            let mut changed: Vec<Input> = inputs.to_vec();
            *changed.get_mut(input).ok_or("no such input")? = new;
            *inputs = changed.into();
        }
        self.version.fetch_add(1, Release);
        self.remove_all(|found| usize::from(found.owner()) == input);
        Ok(())
    }

    /// From a sequence number on, the TCP packets of an entry are longer by `more` bytes. Whether that can be
    /// remembered.
    pub(crate) fn lengthen(&self, key: &Key, found: &Found, from: u32, more: u32) -> bool {
        let flows = self.flows();
        if !self.lengths.add(key, found, from, more) {
            return false;
        }
        if flows.note(key) {
            return true;
        }
        // It has just ended.
        self.lengths.forget(key, found);
        false
    }

    /// Changes the sequence numbers of a packet whose entry is noted, and was found by a key.
    #[cold]
    pub(crate) fn renumber(&self, packet: &mut Packet, key: &Key, found: &Found) {
        let _ = self.lengths.apply(packet, key, found);
    }

    /// Flows made by this element's inputs, and failures to make one.
    pub(crate) fn made(&self) -> usize {
        self.counts.iter().map(|count| count.0.load(Relaxed)).sum()
    }
    pub(crate) fn failures(&self) -> u64 {
        self.counts.iter().map(|count| count.1.load(Relaxed)).sum()
    }

    /// What an input does, and how many of its flows there are; an empty text if there is no such input.
    pub(crate) fn pattern(&self, input: usize) -> String {
        let (inputs, count) =
            (self.inputs(), self.counts.get(input).map_or(0, |count| count.0.load(Relaxed)));
        match (inputs.get(input), count) {
            (None, _) => String::new(),
            (Some(input), 0) => format!("{}\n", input.text()),
            (Some(input), n) => format!("{} [{n}]\n", input.text()),
        }
    }

    /// The same for all inputs.
    pub(crate) fn patterns(&self) -> String {
        (0..self.counts.len()).map(|input| self.pattern(input)).collect()
    }
    pub(crate) fn n_inputs(&self) -> usize {
        self.counts.len()
    }

    /// All entries of these kinds, one on a line.
    pub(crate) fn table(&self, wanted: impl Fn(u8) -> bool) -> String {
        let (flows, now, mut text) = (self.flows(), self.now.load(Relaxed), String::new());
        flows.for_each(|key, found| {
            if !wanted(key.kind) {
                return;
            }
            let other = flows.get(&found.other_key(key));
            let Some(other) = other else { return };
            let (forward, reply) = if found.is_reply() { (&other, found) } else { (found, &other) };
            let timeout = self.timeouts.of(key.kind, forward.flags(), reply.flags());
            let idle = found.idle(now).min(other.idle(now));
            let left =
                (i64::from(timeout) - i64::from(idle) + PER_SECOND as i64 / 2).div_euclid(PER_SECOND as i64);
            let [f, r] = if found.is_reply() { ["", "*"] } else { ["*", ""] };
            self.finds.show(key, found, &mut text);
            let more = if found.is_noted() { self.lengths.newest(key, found) } else { 0 };
            if more != 0 {
                let _ = write!(text, " seq {more:+}");
            }
            let (forward, reply) = (forward.output(), reply.output());
            let _ = writeln!(text, " [{f}{forward} {r}{reply}] i{} exp{left}", found.owner());
        });
        text
    }

    /// What packets of a flow of protocol `number` have after this element: `SADDR SPORT DADDR DPORT`, as the
    /// argument. Empty for an unknown flow.
    pub(crate) fn look_up(&self, text: &str, number: u8) -> Result<String, String> {
        let (flows, keys) = (self.flows(), self.finds().keys(number, FlowId::parse(text)?.to_tuple()));
        let found = keys.into_iter().flatten().find_map(|key| flows.get(&key));
        Ok(found.map_or_else(String::new, |found| {
            let FlowId { src, sport, dst, dport } = FlowId::of(found.to);
            format!("{src} {sport} {dst} {dport}")
        }))
    }
}
