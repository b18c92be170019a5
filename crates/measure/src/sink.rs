//! Results about the frames that arrive: not measured frames, damaged, lost, duplicate, reordered, latency.

use crate::classify::{Frame, classify};
use crate::jitter::Jitter;
use crate::latency::Latency;
use crate::learned::Learned;
use crate::order::{Arrival, FlowOrder, Reordering};
use crate::rate::Achieved;
use crate::tag::{self, Tag};
use crate::timeline::Timeline;
use crate::{Bad, bad};

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of a sink.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Name and value of each number.
            pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
            fn field(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

totals! {
    /// Frames of all kinds.
    frames,
    /// Their bytes.
    bytes,
    /// Measured frames, undamaged, duplicates included.
    ours,
    /// Their bytes.
    our_bytes,
    /// Frames that are not measured frames.
    foreign,
    /// Measured frames that were damaged. No other counter includes them.
    damaged,
    /// Frames that must have been sent: from the lowest to the highest number of each flow.
    sent,
    /// Measured frames without duplicates.
    received,
    /// Duplicates.
    duplicates,
    /// Reordered packets (RFC 4737).
    reordered,
    /// Reordered sequences (RouteBricks section 6.2).
    sequences,
    /// Measured frames of flows for which loss and order are not counted, because the sink already remembers
    /// its maximum of flows.
    untracked,
    /// The largest distance of a reordered packet from the next expected number, in packets of its flow.
    max_distance,
    /// Flows seen.
    flows,
    /// Flows of which a packet was reordered, counted once for each run of the sender.
    reordered_flows,
    /// Frames with a time in the future, because the clocks of two machines differ. Their latency is not
    /// counted.
    early,
    /// When the first measured frame arrived, in nanoseconds; 0: none has.
    first_ns,
    /// When the last one did.
    last_ns,
}

impl Totals {
    /// Frames that must have been sent and have not arrived.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
    /// The rate at which measured frames arrived, from the first to the last.
    #[must_use]
    pub fn rate(&self) -> Achieved {
        Achieved::between(self.ours, self.our_bytes, self.first_ns, self.last_ns)
    }
    /// Adds what another sink has seen of other flows.
    pub fn merge(&mut self, other: &Self) {
        let (first, last) = (self.first_ns, self.last_ns.max(other.last_ns));
        let distance = self.max_distance.max(other.max_distance);
        for (name, n) in other.fields() {
            if let Some(field) = self.field(name) {
                *field += n;
            }
        }
        self.first_ns = match (first, other.first_ns) {
            (0, n) | (n, 0) => n,
            (a, b) => a.min(b),
        };
        (self.last_ns, self.max_distance) = (last, distance);
    }
}

/// Frames that were sent longer ago are left out of the timeline, which would become coarse.
const OLDEST_NS: u64 = 10_000_000_000;
/// Flows in a page, which is made when the first of them arrives.
const PAGE: usize = 64;
/// Pages in a folder, which is made when the first of them is.
const FOLDER: usize = 64;
const FOLDERS: usize = (tag::MAX_FLOWS as usize * tag::MAX_STREAMS as usize) / (PAGE * FOLDER);

/// How many flows a sink remembers by default: as many as a generator makes by default
/// ([`FlowSpec::DEFAULT_MOST`]).
///
/// [`FlowSpec::DEFAULT_MOST`]: crate::flows::FlowSpec::DEFAULT_MOST
pub const DEFAULT_FLOWS: usize = crate::flows::FlowSpec::DEFAULT_MOST as usize;

type Page = Box<[FlowOrder; PAGE]>;
type Folder = Box<[Option<Page>; FOLDER]>;

/// The flows that are remembered, found by stream and number.
#[derive(Debug, Default)]
struct Flows {
    folders: Vec<Option<Folder>>,
    pages: usize,
}

impl Flows {
    /// The flow of a tag; its page is made if there is none yet, unless there are `most` already.
    #[inline]
    fn of(&mut self, tag: &Tag, most: usize) -> Option<&mut FlowOrder> {
        let index = usize::from(tag.stream) * tag::MAX_FLOWS as usize + tag.flow as usize;
        let folder = index / (PAGE * FOLDER);
        let full = self.pages >= most;
        if folder >= self.folders.len() && !full {
            self.folders.resize_with((folder + 1).min(FOLDERS), || None);
        }
        let folder = self.folders.get_mut(folder)?;
        if folder.is_none() && !full {
            *folder = Some(Box::new(std::array::from_fn(|_| None)));
        }
        let page = folder.as_mut()?.get_mut(index / PAGE % FOLDER)?;
        if page.is_none() && !full {
            *page = Some(Box::new(std::array::from_fn(|_| FlowOrder::default())));
            self.pages += 1;
        }
        page.as_mut()?.get_mut(index % PAGE)
    }
    /// Removes flows until there are no more than `most` pages.
    fn shorten(&mut self, most: usize) {
        while self.pages > most
            && let Some(folder) = self.folders.pop()
        {
            self.pages -= folder.iter().flat_map(|f| f.iter()).flatten().count();
        }
    }
    /// Each flow that was seen: its stream, its number, and its record.
    fn iter(&self) -> impl Iterator<Item = (u8, u32, &FlowOrder)> {
        let pages = self.folders.iter().enumerate().flat_map(|(folder, pages)| {
            let pages = pages.iter().flat_map(|f| f.iter()).enumerate();
            pages.flat_map(move |(i, page)| page.as_ref().map(|page| (folder * FOLDER + i, page)))
        });
        pages.flat_map(|(page, flows)| {
            flows.iter().enumerate().filter(|(_, f)| !f.is_new()).map(move |(i, f)| {
                let index = page * PAGE + i;
                ((index / tag::MAX_FLOWS as usize) as u8, index as u32 % tag::MAX_FLOWS, f)
            })
        })
    }
}

const PATHS: usize = tag::MAX_STREAMS as usize * tag::MAX_OUTPUTS;

/// Frames by sender and by the output that they are for.
#[derive(Debug)]
struct Paths {
    outputs: tag::Outputs,
    frames: [u64; PATHS],
}

impl Paths {
    #[inline]
    fn count(&mut self, tag: &Tag) {
        let at = usize::from(tag.stream) * tag::MAX_OUTPUTS + self.outputs.of(tag.flow);
        if let Some(n) = self.frames.get_mut(at) {
            *n += 1;
        }
    }
}

/// Receives frames and counts.
#[derive(Debug)]
pub struct Sink {
    /// The numbers.
    pub totals: Totals,
    /// Latencies of measured frames.
    pub latency: Latency,
    /// How latency differs from a frame to the next.
    pub jitter: Jitter,
    /// Arrivals over time.
    pub timeline: Timeline,
    /// How far reordered packets were displaced.
    pub reordering: Reordering,
    /// With which addresses and ports flows arrive, if that is to be known.
    pub learned: Option<Learned>,
    flows: Flows,
    /// The most pages.
    most: usize,
    check: bool,
    /// Where frames were sent from and to, if that is counted.
    paths: Option<Box<Paths>>,
    /// Frames that were sent at one time and arrived at one time are counted together.
    pending: (u64, u64),
}

impl Sink {
    /// A sink that has seen nothing; with `check` it verifies checksums. It remembers at most about `flows`
    /// flows: however many and whatever frames arrive, they take no more memory.
    #[must_use]
    pub fn new(check: bool, flows: usize) -> Self {
        Self {
            totals: Totals::default(),
            latency: Latency::default(),
            jitter: Jitter::default(),
            timeline: Timeline::default(),
            reordering: Reordering::default(),
            learned: None,
            flows: Flows::default(),
            most: flows.div_ceil(PAGE),
            check,
            paths: None,
            pending: (0, 0),
        }
    }
    /// Counts from which sender frames come, and for which of so many outputs of the device they are, as
    /// [`tag::Outputs`] tells.
    pub fn count_paths(&mut self, outputs: usize) {
        self.paths = Some(Box::new(Paths { outputs: tag::Outputs::new(outputs), frames: [0; PATHS] }));
    }
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.totals = Totals::default();
        self.latency.clear();
        self.jitter = Jitter::default();
        self.timeline = Timeline::default();
        self.reordering = Reordering::default();
        self.learned.iter_mut().for_each(Learned::clear);
        self.flows = Flows::default();
        self.pending = (0, 0);
        if let Some(paths) = &mut self.paths {
            paths.frames = [0; PATHS];
        }
    }

    /// Adds what another sink has counted by sender and output.
    pub fn take_paths(&mut self, other: &Self) {
        if let (Some(ours), Some(theirs)) = (&mut self.paths, &other.paths)
            && ours.outputs == theirs.outputs
        {
            ours.frames.iter_mut().zip(theirs.frames).for_each(|(n, more)| *n += more);
        }
    }
    /// Sender, output, and measured frames from the one for the other, without duplicates; those of which
    /// there were any.
    pub fn paths(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let frames = self.paths.iter().flat_map(|paths| paths.frames.iter().enumerate());
        frames.filter(|(_, n)| **n > 0).map(|(at, n)| (at / tag::MAX_OUTPUTS, at % tag::MAX_OUTPUTS, *n))
    }

    /// Takes over the flows of another sink, up to this one's maximum. The other sink loses them.
    pub fn take_flows(&mut self, other: &mut Self) {
        self.flows = std::mem::take(&mut other.flows);
        self.flows.shorten(self.most);
    }

    /// For how many flows memory is taken.
    #[must_use]
    pub fn room_taken(&self) -> usize {
        self.flows.pages * PAGE
    }

    /// Frames that arrive at `now_ns`, in order.
    pub fn arrive<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>, now_ns: u64) {
        let before = self.totals.ours;
        for frame in frames {
            self.totals.frames += 1;
            self.totals.bytes += frame.len() as u64;
            match classify(frame, self.check) {
                Frame::Foreign => self.totals.foreign += 1,
                Frame::Damaged => self.totals.damaged += 1,
                Frame::Ours(tag) => {
                    if let Some(learned) = &mut self.learned {
                        learned.arrive(&tag, frame);
                    }
                    self.take(&tag, frame.len(), now_ns);
                }
            }
        }
        self.flush(now_ns);
        if self.totals.ours != before {
            self.totals.last_ns = now_ns;
            if let Some(span) = self.timeline.at(now_ns) {
                span.came += self.totals.ours - before;
            }
            if self.totals.first_ns == 0 {
                self.totals.first_ns = now_ns;
            }
        }
    }

    #[inline]
    fn take(&mut self, tag: &Tag, len: usize, now_ns: u64) {
        self.totals.ours += 1;
        self.totals.our_bytes += len as u64;
        match tag.age_ns(now_ns) {
            Some(age) if age == self.pending.0 => self.pending.1 += 1,
            Some(age) => {
                self.flush(now_ns);
                self.pending = (age, 1);
            }
            None => self.totals.early += 1,
        }
        let Some(flow) = self.flows.of(tag, self.most) else {
            self.totals.untracked += 1;
            if let Some(paths) = &mut self.paths {
                paths.count(tag);
            }
            return;
        };
        if flow.is_new() || flow.run != tag.run {
            // A sender that was restarted begins its numbers again; the same flow counts once.
            self.totals.flows += u64::from(flow.is_new());
            *flow = FlowOrder::of_run(tag.run);
        }
        let totals = &mut self.totals;
        let arrival = flow.arrive(tag.seq);
        match arrival {
            Arrival::Ahead(skipped) => {
                totals.sent += skipped + 1;
                totals.received += 1;
            }
            Arrival::Late { distance, begins, before_first, .. } => {
                self.reordering.count(arrival);
                totals.sent += before_first;
                totals.received += 1;
                totals.reordered += 1;
                totals.reordered_flows += u64::from(flow.reordered == 1);
                totals.sequences += u64::from(begins);
                totals.max_distance = totals.max_distance.max(distance);
            }
            Arrival::Duplicate => {
                totals.duplicates += 1;
                return;
            }
        }
        if let Some(paths) = &mut self.paths {
            paths.count(tag);
        }
    }

    #[inline]
    fn flush(&mut self, now_ns: u64) {
        let (age, n) = self.pending;
        if n > 0 {
            self.latency.record(age, n);
            self.jitter.record(age, n);
            if age <= OLDEST_NS
                && let Some(span) = self.timeline.at(now_ns.saturating_sub(age))
            {
                span.arrived += n;
                span.latency_ns = span.latency_ns.max(age);
            }
            self.pending.1 = 0;
        }
    }

    /// Each flow that was seen: its stream, its number, and its record.
    pub fn flows(&self) -> impl Iterator<Item = (u8, u32, &FlowOrder)> {
        self.flows.iter()
    }

    /// A line for [`Snapshot::read`].
    #[must_use]
    pub fn snapshot(&self) -> String {
        let mut line: String = self.totals.fields().map(|(name, n)| format!("{name}={n} ")).collect();
        let (extents, degrees) = self.reordering.texts();
        line += &format!("extents={extents} degrees={degrees} latency={} ", self.latency.text());
        line += &format!("jitter={} timeline={}", self.jitter.text(), self.timeline.text());
        line
    }
}

/// The results of several sinks, added up.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The numbers.
    pub totals: Totals,
    /// Latencies.
    pub latency: Latency,
    /// How latency differs from a frame to the next.
    pub jitter: Jitter,
    /// Arrivals over time.
    pub timeline: Timeline,
    /// How far reordered packets were displaced.
    pub reordering: Reordering,
}

impl Snapshot {
    /// Adds the lines of [`Sink::snapshot`], one for each sink. A flow is expected at one sink only.
    ///
    /// # Errors
    /// The lines have another form.
    pub fn read(&mut self, lines: &str) -> Result<(), Bad> {
        for line in lines.lines().filter(|l| !l.trim().is_empty()) {
            let mut totals = Totals::default();
            for word in line.split_whitespace() {
                match word.split_once('=') {
                    Some(("latency", buckets)) => self.latency.add_text(buckets)?,
                    Some(("jitter", text)) => self.jitter.add_text(text)?,
                    Some(("timeline", text)) => self.timeline.add_text(text)?,
                    Some(("extents", counts)) => self.reordering.add_extents(counts)?,
                    Some(("degrees", counts)) => self.reordering.add_degrees(counts)?,
                    Some((name, n)) => match (totals.field(name), n.parse()) {
                        (Some(field), Ok(n)) => *field = n,
                        _ => return bad(format!("'{word}' is no number of a sink")),
                    },
                    None => return bad(format!("'{word}' is no number of a sink")),
                }
            }
            self.totals.merge(&totals);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Tuple;
    use crate::frame::{Family, Flow, Stamp, Template};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use wire::EtherAddr;

    /// Frame number `seq` of a flow, sent at `ns`.
    fn frame<A: Family>(src: A, dst: A, flow: u32, seq: u32, ns: u64, len: usize) -> Vec<u8> {
        let template = Template::<A>::new(EtherAddr([2; 6]), EtherAddr([4; 6]), 64, len);
        let mut flow = Flow::new(&Tuple { src, dst, sport: 5, dport: 9 }, tag::identity(3, 1, flow));
        flow.seq = seq;
        let mut bytes = template.bytes(len).to_vec();
        assert!(template.stamp(&mut bytes, &mut flow, Stamp::new(ns)));
        bytes
    }
    fn v4(flow: u32, seq: u32, ns: u64) -> Vec<u8> {
        frame(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), flow, seq, ns, 61)
    }
    fn arrive(sink: &mut Sink, frames: &[Vec<u8>], now: u64) {
        sink.arrive(frames.iter().map(Vec::as_slice), now);
    }

    #[test]
    fn crafted_frames_take_no_more_memory_than_is_allowed() {
        // One frame for each page of all streams.
        let tagged = |stream: u8, flow: u32| {
            let template = Template::<Ipv4Addr>::new(EtherAddr([2; 6]), EtherAddr([4; 6]), 64, 61);
            let tuple = Tuple {
                src: Ipv4Addr::new(10, 0, 0, 1),
                dst: Ipv4Addr::new(10, 0, 0, 2),
                sport: 5,
                dport: 9,
            };
            let mut bytes = template.bytes(61).to_vec();
            assert!(template.stamp(
                &mut bytes,
                &mut Flow::new(&tuple, tag::identity(3, stream, flow)),
                Stamp::new(1)
            ));
            bytes
        };
        let mut sink = Sink::new(true, 10 * PAGE);
        for stream in 0..tag::MAX_STREAMS {
            for flow in (0..tag::MAX_FLOWS).step_by(64 * PAGE) {
                arrive(&mut sink, &[tagged(stream, flow)], 5);
            }
        }
        let sent = u64::from(tag::MAX_STREAMS) * u64::from(tag::MAX_FLOWS) / (64 * PAGE as u64);
        assert_eq!((sink.totals.ours, sink.totals.received, sink.totals.flows), (sent, 10, 10));
        assert_eq!((sink.totals.untracked, sink.room_taken()), (sent - 10, 10 * PAGE));
        // Known flows stay known, and a sink that takes them over has reached its maximum.
        arrive(&mut sink, &[tagged(0, 0), tagged(0, 1)], 6);
        assert_eq!((sink.totals.received, sink.totals.duplicates), (11, 1));
        let mut next = Sink::new(true, 10 * PAGE);
        arrive(&mut next, &[tagged(3, 0)], 7);
        next.take_flows(&mut sink);
        arrive(&mut next, &[tagged(3, 64 * PAGE as u32)], 7);
        assert_eq!(next.totals.untracked, 1);
        next.clear();
        arrive(&mut next, &[tagged(3, 64 * PAGE as u32)], 7);
        assert_eq!((next.totals.untracked, next.totals.received, next.room_taken()), (0, 1, PAGE));
        // Flows beyond the maximum are removed.
        let mut small = Sink::new(true, 3 * PAGE);
        small.take_flows(&mut sink);
        assert!(sink.room_taken() == 0 && next.room_taken() > 0);
        let mut large = Sink::new(true, 100 * PAGE);
        for flow in 0..100 {
            arrive(&mut large, &[tagged(0, flow * PAGE as u32)], 5);
        }
        assert_eq!(large.room_taken(), 100 * PAGE);
        small.take_flows(&mut large);
        assert!(small.room_taken() <= 3 * PAGE);
        assert_eq!(small.flows().count() * PAGE, small.room_taken());
    }

    /// As many pages as crafted frames can ask for, and the folders that they lie in, are a few megabytes by
    /// default.
    #[test]
    fn strangers_frames_take_little_memory() {
        let mut sink = Sink::new(false, DEFAULT_FLOWS);
        for stream in 0..tag::MAX_STREAMS {
            for flow in (0..tag::MAX_FLOWS).step_by(tag::MAX_FLOWS as usize / 1024) {
                sink.take(&Tag { run: 1, stream, flow, seq: 1, time: 1 }, 60, 2);
                sink.take(&Tag { run: 1, stream, flow, seq: 0, time: 1 }, 60, 2);
            }
        }
        assert_eq!(sink.totals.ours, 32_768);
        assert!(sink.room_taken() <= DEFAULT_FLOWS && DEFAULT_FLOWS * size_of::<FlowOrder>() <= 6 << 20);
        let folders = sink.flows.folders.iter().flatten().count();
        assert!(folders <= DEFAULT_FLOWS / PAGE && sink.flows.folders.len() <= FOLDERS);
        // Using only the highest stream does not allocate memory for all streams below it.
        let mut sink = Sink::new(false, DEFAULT_FLOWS);
        sink.take(&Tag { run: 1, stream: 15, flow: tag::MAX_FLOWS - 1, seq: 1, time: 1 }, 60, 2);
        assert!(sink.flows.folders.len() * size_of::<Option<Folder>>() <= 32 << 10);
    }

    #[test]
    fn counts_loss_order_and_latency_over_flows() {
        let mut sink = Sink::new(true, 1000);
        arrive(&mut sink, &[v4(0, 0, 1000), v4(7, 0, 1000), v4(0, 3, 1000), v4(0, 2, 2000)], 5000);
        arrive(&mut sink, &[v4(0, 2, 2000), v4(0, 4, 9000), vec![0; 60]], 8000);
        let t = sink.totals;
        assert_eq!((t.frames, t.ours, t.foreign, t.received, t.duplicates, t.early), (7, 6, 1, 5, 1, 1));
        assert_eq!((t.sent, t.lost(), t.reordered, t.sequences, t.flows), (6, 1, 1, 1, 2));
        assert_eq!(
            (t.reordered_flows, sink.reordering.n_reordered(1), sink.reordering.n_reordered(2)),
            (1, 1, 0)
        );
        assert_eq!((t.first_ns, t.last_ns, t.our_bytes), (5000, 8000, 6 * 61));
        assert_eq!((sink.latency.count(), sink.latency.min_ns()), (5, 3000));
        let flows: Vec<_> = sink.flows().map(|(s, f, o)| (s, f, o.received, o.lost())).collect();
        assert_eq!(flows, [(1, 0, 4, 1), (1, 7, 1, 0)]);
        let mut snapshot = Snapshot::default();
        snapshot.read(&format!("{}\n", sink.snapshot())).unwrap();
        assert_eq!(snapshot.totals, sink.totals);
        assert_eq!(snapshot.latency.text(), sink.latency.text());
        assert_eq!(snapshot.reordering, sink.reordering);
        assert_eq!(snapshot.timeline, sink.timeline);
        // Latencies 4000, 4000, 4000, 3000, and 6000 of the second batch.
        assert_eq!((sink.jitter.pairs(), sink.jitter.max_ns()), (4, 3000));
        assert_eq!((sink.timeline.spans()[0].came, sink.timeline.spans()[0].arrived), (6, 5), "one is early");
        assert_eq!((sink.timeline.spans()[0].latency_ns, snapshot.jitter.pairs()), (6000, 4));
        assert!(snapshot.read("x=1").is_err() && snapshot.read("frames").is_err());
        sink.clear();
        assert_eq!((sink.totals, sink.latency.count()), (Totals::default(), 0));
    }

    #[test]
    fn frames_are_counted_by_sender_and_output() {
        let mut sink = Sink::new(true, 0);
        sink.count_paths(3);
        let other = tag::Outputs::new(3).first(2);
        // Flows that are not remembered count too; of those that are, duplicates do not.
        arrive(&mut sink, &[v4(0, 0, 0), v4(other, 0, 0), v4(other + 1, 0, 0)], 10);
        assert_eq!(sink.paths().collect::<Vec<_>>(), [(1, 0, 1), (1, 2, 2)]);
        let mut next = Sink::new(true, 1000);
        next.count_paths(3);
        arrive(&mut next, &[v4(0, 0, 0), v4(0, 0, 0), vec![0; 60]], 10);
        next.take_paths(&sink);
        assert_eq!(next.paths().collect::<Vec<_>>(), [(1, 0, 2), (1, 2, 2)]);
        next.clear();
        assert_eq!(next.paths().count() + Sink::new(true, 1).paths().count(), 0);
    }

    #[test]
    fn a_new_run_begins_anew() {
        let mut sink = Sink::new(true, 1000);
        arrive(&mut sink, &[v4(0, 1_000_000, 0)], 10);
        let mut again = v4(0, 0, 0);
        // The byte of the run, and the checksum that covers it.
        again[46] = 4;
        again[40] = again[40].wrapping_sub(1);
        arrive(&mut sink, &[again], 20);
        assert_eq!(
            (sink.totals.ours, sink.totals.reordered, sink.totals.flows, sink.totals.lost()),
            (2, 0, 1, 0)
        );
    }

    #[test]
    fn what_routers_do_to_frames_is_no_damage() {
        let mut bytes = v4(0, 0, 0);
        wire::Ipv4::new_mut(&mut bytes[14..]).unwrap().decrement_ttl();
        bytes[..12].fill(9);
        assert!(matches!(classify(&bytes, true), Frame::Ours(_)));
        // A VLAN tag, then another.
        for _ in 0..2 {
            bytes.splice(12..12, [0x81, 0, 0, 5]);
            assert!(matches!(classify(&bytes, true), Frame::Ours(_)));
        }
        // Padding at the end.
        bytes.extend([0; 9]);
        assert!(matches!(classify(&bytes, true), Frame::Ours(_)));
    }

    #[test]
    fn fragments_and_others_are_foreign() {
        let mut bytes = v4(0, 0, 0);
        wire::Ipv4::new_mut(&mut bytes[14..]).unwrap().update_flags_fragment(0x2000);
        assert_eq!(classify(&bytes, true), Frame::Foreign);
        let mut bytes = v4(0, 0, 0);
        bytes[42] = 0;
        assert_eq!(classify(&bytes, true), Frame::Foreign);
        assert_eq!(classify(&[], true), Frame::Foreign);
    }

    #[test]
    fn forged_tags_take_bounded_memory() {
        let mut sink = Sink::new(false, 1000);
        let tag = Tag { run: 0, stream: 15, flow: tag::MAX_FLOWS - 1, seq: 0, time: 0 };
        sink.take(&tag, 60, 0);
        assert_eq!((sink.flows.folders.len(), sink.room_taken()), (FOLDERS, PAGE));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any one bit that flips behind the link header is seen, or makes the frame foreign; with checks.
        #[test]
        fn damage_is_seen(bit in 0usize..8 * (61 - 14), six: bool, seq: u32, ns: u64) {
            let mut bytes = if six {
                frame(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 1, seq, ns, 61 + 20)
            } else {
                frame(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, 1, seq, ns, 61)
            };
            prop_assert!(matches!(classify(&bytes, true), Frame::Ours(tag) if tag.seq == seq));
            bytes[14 + bit / 8] ^= 1 << (bit % 8);
            // No checksum covers traffic class, flow label and hop limit of IPv6.
            let open = six && (bit < 32 && bit / 8 > 0 || bit < 4 || bit / 8 == 7);
            prop_assert!(open || !matches!(classify(&bytes, true), Frame::Ours(_)));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0usize..81, six: bool) {
            let mut sink = Sink::new(true, 1000);
            let good = if six {
                frame(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, 1, 2, 3, 81)
            } else {
                v4(1, 2, 3)
            };
            sink.arrive([&bytes[..], &good[..cut.min(good.len())]].into_iter(), 7);
            prop_assert_eq!(sink.totals.frames, 2);
        }
    }
}
