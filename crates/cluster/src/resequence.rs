//! Restores the order of packets at the output node: the alternative to flowlets that RouteBricks leaves for
//! later (§6.1).
//!
//! The input node numbers the packets of each *stream*: those that enter at it and leave by one port of the
//! output node. Packets that have overtaken others wait here for those. The limits are:
//!
//! * a packet waits at most for the timeout; then the missing ones count as lost, and all packets up to it
//!   leave in order;
//! * at most `capacity` numbers of a stream wait for others; then the first missing ones count as lost.
//!
//! No packet is ever dropped. A packet that comes too late, or a second time, passes at once, out of order.
//! If a stream's numbers jump by more than four times the capacity (its input node has been restarted, or
//! there was a long outage), the stream continues at the new number when [`RESTART`] packets in a row have
//! come from there. It also does so if the numbers jump back by less, as after an early restart of the input
//! node: then numbers repeat that had been received before. To recognize that, a bit for each number within
//! the same distance records whether it was given up and never arrived.
//!
//! This module knows neither packets nor clocks: items have any type, and times are arguments.

use crate::NodeId;
use std::collections::VecDeque;

/// The highest number. Numbers count from 1, as 0 says that a packet is not numbered, and 1 follows the
/// highest.
pub const LAST: u32 = (1 << 28) - 1;
/// Ports that a node can have.
const PORTS: usize = 256;
/// How many packets in a row that are out of reach restart a stream.
pub const RESTART: u32 = 8;
/// A number this many times the capacity ahead of the next is out of reach.
const REACH: u32 = 4;
const NONE: u32 = u32::MAX;

/// The number that follows another; 1 follows 0, "not numbered".
#[inline]
#[must_use]
pub const fn after(number: u32) -> u32 {
    if number >= LAST { 1 } else { number + 1 }
}

/// How far `number` is ahead of `other`, from -2^27 to 2^27.
#[inline]
const fn ahead(number: u32, other: u32) -> i64 {
    let modulus = LAST as i64;
    let forward = (number as i64 - other as i64).rem_euclid(modulus);
    if forward > modulus / 2 { forward - modulus } else { forward }
}

/// Counters of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arrived in order.
    pub in_order: u64,
    /// Waited for others, and left in order.
    pub restored: u64,
    /// Arrived after later ones had left, or a second time: left at once, out of order.
    pub late: u64,
    /// Numbers that were given up, because later packets had waited too long or were too many.
    pub given_up: u64,
    /// How often packets had waited for the timeout.
    pub timeouts: u64,
    /// How often the capacity was exceeded.
    pub overflows: u64,
    /// Streams that continued at another number.
    pub restarts: u64,
    /// Had no number, or came from a node that does not exist: left at once.
    pub unnumbered: u64,
    /// Waiting now.
    pub waiting: u64,
}

impl Counts {
    /// One that has waited leaves.
    #[inline]
    fn leaves(&mut self) {
        self.restored += 1;
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The longest time that a packet waits for others.
    pub timeout_ns: u64,
    /// The capacity: how many numbers of a stream, from the first missing one on, can wait; at least 2.
    pub capacity: u32,
}

impl Config {
    /// A number that is further away than this, in either direction, is out of the stream's reach.
    const fn reach(&self) -> u32 {
        self.capacity.saturating_mul(REACH)
    }
}

#[derive(Debug)]
struct Stream<T> {
    /// The number that is next.
    next: u32,
    /// Items with numbers from `next` on. The first is missing, if there is any.
    waiting: VecDeque<Option<T>>,
    /// The arrival times and numbers of items. All waiting items are here, in the order of their arrival.
    arrivals: VecDeque<(u64, u32)>,
    /// The highest number in the last run of packets that were out of reach or had been received before, and
    /// the length of that run.
    stray: (u32, u32),
    /// The numbers up to `next` that were given up and have not come since; empty while there were none.
    gaps: Gaps,
}

/// A set of the numbers that were passed last, a bit for each.
#[derive(Debug, Default)]
struct Gaps(Box<[u64]>);

impl Gaps {
    /// Whether a number is in it; the number is removed.
    #[inline]
    fn take(&mut self, number: u32) -> bool {
        let bit = 1 << (number % 64);
        // The number of words is a power of two, or there are none.
        let word = (number as usize / 64) & self.0.len().wrapping_sub(1);
        self.0.get_mut(word).is_some_and(|w| {
            let was = *w & bit != 0;
            *w &= !bit;
            was
        })
    }
    /// Adds a number. The last `reach` numbers are kept.
    fn add(&mut self, number: u32, reach: u32) {
        let words = (reach as usize).div_ceil(64).next_power_of_two();
        if self.0.len() != words {
            self.0 = vec![0; words].into();
        }
        if let Some(w) = self.0.get_mut(number as usize / 64 % words) {
            *w |= 1 << (number % 64);
        }
    }
}

impl<T> Stream<T> {
    /// The next item in order, if it has arrived.
    fn pop_ready(&mut self) -> Option<T> {
        if !matches!(self.waiting.front(), Some(Some(_))) {
            return None;
        }
        self.pass(None);
        self.waiting.pop_front().flatten()
    }
    /// Advances to the following number; a number that was given up is remembered within this reach.
    #[inline]
    fn pass(&mut self, given_up: Option<u32>) {
        match given_up {
            Some(reach) => self.gaps.add(self.next, reach),
            None => drop(self.gaps.take(self.next)),
        }
        self.next = after(self.next);
    }
    /// The stream continues at another number.
    fn move_to(&mut self, next: u32) {
        (self.next, self.stray.1, self.gaps) = (next, 0, Gaps::default());
    }
    /// Releases all items that are next in order.
    fn release(&mut self, counts: &mut Counts, out: &mut impl FnMut(T)) {
        while let Some(item) = self.pop_ready() {
            counts.leaves();
            out(item);
        }
        while self.arrivals.front().is_some_and(|(_, number)| ahead(*number, self.next) < 0) {
            self.arrivals.pop_front();
        }
    }
    /// Advances past the next number: its item leaves if it has arrived, else the number is given up.
    fn advance(&mut self, reach: u32, counts: &mut Counts, out: &mut impl FnMut(T)) {
        match self.waiting.pop_front().flatten() {
            Some(item) => {
                counts.leaves();
                out(item);
                self.pass(None);
            }
            None => {
                counts.given_up += 1;
                self.pass(Some(reach));
            }
        }
    }
    /// Whether an item that arrived at `then` has waited for the timeout. If the clock has been set back, it
    /// has.
    fn is_over(then: u64, now_ns: u64, timeout_ns: u64) -> bool {
        now_ns.wrapping_sub(then) >= timeout_ns
    }
    /// Items that have waited for the timeout leave, and all before them.
    fn expire(&mut self, now_ns: u64, config: Config, counts: &mut Counts, out: &mut impl FnMut(T)) {
        while let Some(&(then, number)) = self.arrivals.front()
            && Self::is_over(then, now_ns, config.timeout_ns)
        {
            counts.timeouts += 1;
            while ahead(number, self.next) >= 0 {
                self.advance(config.reach(), counts, out);
            }
            self.release(counts, out);
        }
    }
    /// All waiting items leave, in order; the missing ones among them are given up.
    fn flush(&mut self, reach: u32, counts: &mut Counts, out: &mut impl FnMut(T)) {
        while !self.waiting.is_empty() {
            self.advance(reach, counts, out);
        }
        self.arrivals.clear();
    }
}

/// Restores the order of all streams that arrive at a node.
#[derive(Debug)]
pub struct Resequencer<T> {
    config: Config,
    /// The stream of a node and port.
    places: Box<[u32]>,
    streams: Vec<Stream<T>>,
    counts: Counts,
}

impl<T> Resequencer<T> {
    /// For a cluster of `nodes` nodes: 1 KB for each.
    #[must_use]
    pub fn new(nodes: u16, config: Config) -> Self {
        Self {
            config: Config { capacity: config.capacity.clamp(2, LAST / 16), ..config },
            places: vec![NONE; usize::from(nodes) * PORTS].into(),
            streams: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Item `number` of the stream from `node` to `port` arrives. `out` gets the items that may leave, in
    /// order.
    #[inline]
    pub fn arrive(
        &mut self,
        now_ns: u64,
        node: NodeId,
        port: u8,
        number: u32,
        item: T,
        out: &mut impl FnMut(T),
    ) {
        let place = self.places.get_mut(node.index() * PORTS + usize::from(port));
        let Some(place) = place.filter(|_| (1..=LAST).contains(&number)) else {
            self.counts.unnumbered += 1;
            return out(item);
        };
        let (config, capacity) = (self.config, self.config.capacity);
        if *place == NONE {
            *place = self.streams.len() as u32;
            // A new stream is expected from its first number; an existing one continues at its number.
            let next = if number < capacity { 1 } else { number };
            let (waiting, arrivals) = (VecDeque::new(), VecDeque::new());
            self.streams.push(Stream { next, waiting, arrivals, stray: (0, 0), gaps: Gaps::default() });
        }
        let Some(stream) = self.streams.get_mut(*place as usize) else {
            return out(item);
        };
        let counts = &mut self.counts;
        if ahead(number, stream.next) == 0 && stream.waiting.is_empty() {
            stream.pass(None);
            stream.stray.1 = 0;
            counts.in_order += 1;
            return out(item);
        }
        stream.expire(now_ns, config, counts, out);
        let mut distance = ahead(number, stream.next);
        let reach = i64::from(config.reach());
        let came_before = (-reach..0).contains(&distance) && !stream.gaps.take(number);
        if came_before || !(-reach..reach).contains(&distance) {
            let (highest, row) = stream.stray;
            let apart = ahead(number, highest);
            stream.stray = match row > 0 && (-reach..reach).contains(&apart) {
                true => (if apart > 0 { number } else { highest }, row + 1),
                false => (number, 1),
            };
            counts.late += 1;
            if stream.stray.1 >= RESTART {
                stream.flush(config.reach(), counts, out);
                stream.move_to(after(stream.stray.0));
                counts.restarts += 1;
            }
            return out(item);
        }
        stream.stray.1 = 0;
        if distance < 0 {
            counts.late += 1;
            return out(item);
        }
        if distance >= i64::from(capacity) {
            counts.overflows += 1;
            while ahead(number, stream.next) >= i64::from(capacity) {
                stream.advance(config.reach(), counts, out);
            }
            stream.release(counts, out);
            distance = ahead(number, stream.next);
        }
        if distance == 0 {
            stream.waiting.pop_front();
            stream.pass(None);
            counts.in_order += 1;
            out(item);
            return stream.release(counts, out);
        }
        let index = distance as usize;
        if stream.waiting.len() <= index {
            stream.waiting.resize_with(index + 1, || None);
        }
        match stream.waiting.get_mut(index) {
            Some(place) if place.is_none() => {
                *place = Some(item);
                counts.waiting += 1;
                stream.arrivals.push_back((now_ns, number));
            }
            _ => {
                counts.late += 1;
                out(item);
            }
        }
    }

    /// Items that have waited for the timeout leave.
    pub fn expire(&mut self, now_ns: u64, out: &mut impl FnMut(T)) {
        for stream in &mut self.streams {
            stream.expire(now_ns, self.config, &mut self.counts, out);
        }
    }
    /// All items leave.
    pub fn flush(&mut self, out: &mut impl FnMut(T)) {
        let reach = self.config.reach();
        self.streams.iter_mut().for_each(|s| s.flush(reach, &mut self.counts, out));
    }
    /// When [`Self::expire`] has to be called; `None`: no items wait.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let first =
            |s: &Stream<T>| s.arrivals.front().map(|(then, _)| then.saturating_add(self.config.timeout_ns));
        self.streams.iter().filter_map(first).min()
    }
    /// Streams that have been seen.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }
    /// The counters.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }
    /// The limits.
    #[must_use]
    pub const fn config(&self) -> Config {
        self.config
    }
    /// Sets the counters to zero, except that of waiting items.
    pub fn reset_counts(&mut self) {
        self.counts = Counts { waiting: self.counts.waiting, ..Counts::default() };
    }
    /// Sets other limits and another number of nodes, for items that arrive from now on.
    pub fn set(&mut self, nodes: u16, config: Config) {
        self.config = Config { capacity: config.capacity.clamp(2, LAST / 16), ..config };
        let mut places = std::mem::take(&mut self.places).into_vec();
        // Waiting items of nodes that no longer exist leave when their timeout ends.
        places.resize(usize::from(nodes) * PORTS, NONE);
        self.places = places.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const CONFIG: Config = Config { timeout_ns: 1000, capacity: 16 };
    const NODE: NodeId = NodeId(1);

    /// A resequencer of one stream, and what has left.
    struct Run {
        resequencer: Resequencer<u32>,
        left: Vec<u32>,
    }

    impl Run {
        fn new(config: Config) -> Self {
            Self { resequencer: Resequencer::new(4, config), left: Vec::new() }
        }
        /// Item and number are the same.
        fn arrive(&mut self, now: u64, number: u32) {
            self.resequencer.arrive(now, NODE, 0, number, number, &mut |n| self.left.push(n));
        }
        fn expire(&mut self, now: u64) {
            self.resequencer.expire(now, &mut |n| self.left.push(n));
        }
        fn counts(&self) -> Counts {
            self.resequencer.counts()
        }
    }

    fn numbered(count: u32, first: u32) -> Vec<u32> {
        std::iter::successors(Some(first), |n| Some(after(*n))).take(count as usize).collect()
    }

    /// The number that comes `by` before 1.
    fn before_first(by: u32) -> u32 {
        LAST - by + 1
    }

    #[test]
    fn restores_and_waits_no_longer_than_it_may() {
        let mut run = Run::new(CONFIG);
        for (now, number) in [(0, 1), (10, 4), (20, 2), (30, 3), (40, 6)] {
            run.arrive(now, number);
        }
        assert_eq!(run.left, [1, 2, 3, 4]);
        assert_eq!((run.resequencer.counts().waiting, run.resequencer.deadline_ns()), (1, Some(1040)));
        run.expire(1039);
        assert_eq!(run.left.len(), 4);
        run.expire(1040);
        assert_eq!(run.left, [1, 2, 3, 4, 6]);
        run.arrive(1041, 5);
        run.arrive(1042, 7);
        assert_eq!(run.left, [1, 2, 3, 4, 6, 5, 7]);
        let expected =
            Counts { in_order: 4, restored: 2, late: 1, given_up: 1, timeouts: 1, ..Counts::default() };
        assert_eq!((run.counts(), run.resequencer.deadline_ns()), (expected, None));
    }

    #[test]
    fn bounds_and_nodes_may_change() {
        let mut run = Run::new(CONFIG);
        run.arrive(0, 3);
        run.resequencer.set(1, Config { timeout_ns: 100, capacity: 4 });
        // Node 1 is removed: items that come from it pass, and waiting ones leave when their timeout ends.
        run.arrive(10, 1);
        run.resequencer.set(2, Config { timeout_ns: 100, capacity: 4 });
        assert_eq!((run.left.clone(), run.resequencer.deadline_ns()), (vec![1], Some(100)));
        run.expire(100);
        assert_eq!((run.left, run.resequencer.streams()), (vec![1, 3], 1));
    }

    #[test]
    fn too_many_push_the_first_out() {
        let mut run = Run::new(CONFIG);
        (2..=16).for_each(|n| run.arrive(0, n));
        assert!(run.left.is_empty());
        run.arrive(0, 17);
        assert_eq!(run.left, (2..=17).collect::<Vec<_>>());
        assert_eq!((run.counts().given_up, run.counts().overflows, run.counts().in_order), (1, 1, 1));
        // Far ahead, but within reach: waiting items leave first.
        run.arrive(0, 20);
        run.arrive(0, 60);
        assert_eq!(run.left[16..], [20]);
        run.resequencer.flush(&mut |n| run.left.push(n));
        assert_eq!((run.left[16..].to_vec(), run.resequencer.counts().waiting), (vec![20, 60], 0));
    }

    #[test]
    fn streams_are_apart_and_others_pass() {
        let mut r = Resequencer::new(4, CONFIG);
        let mut left = Vec::new();
        let mut out = |x: &'static str| left.push(x);
        r.arrive(0, NodeId(0), 0, 2, "waits", &mut out);
        r.arrive(0, NodeId(0), 1, 1, "other port", &mut out);
        r.arrive(0, NodeId(3), 0, 1, "other node", &mut out);
        r.arrive(0, NodeId(0), 0, 0, "no number", &mut out);
        r.arrive(0, NodeId(4), 0, 5, "no such node", &mut out);
        assert_eq!((r.streams(), r.counts().waiting, r.counts().unnumbered), (3, 1, 2));
        assert_eq!(left, ["other port", "other node", "no number", "no such node"]);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nothing_up() {
        let mut run = Run::new(CONFIG);
        run.arrive(1_000_000, 2);
        run.expire(5);
        assert_eq!(run.left, [2]);
    }

    #[test]
    fn an_input_node_that_starts_anew() {
        let mut run = Run::new(CONFIG);
        numbered(5000, 1).into_iter().for_each(|n| run.arrive(0, n));
        run.arrive(0, 5002);
        run.left.clear();
        numbered(100, 1).into_iter().for_each(|n| run.arrive(1, n));
        // Waiting items leave when the new number is known.
        let expected: Vec<u32> = (1..RESTART).chain([5002]).chain(RESTART..=100).collect();
        assert_eq!((run.left, run.resequencer.counts().restarts), (expected, 1));
    }

    /// Fewer packets than are within reach have been numbered.
    #[test]
    fn an_input_node_that_starts_anew_early() {
        for before in [9, 20, 60] {
            let mut run = Run::new(CONFIG);
            numbered(before, 1).into_iter().for_each(|n| run.arrive(0, n));
            run.left.clear();
            // First packets in order, then some out of order: these leave in order.
            numbered(RESTART, 1).into_iter().chain([10, 9, 12, 11, 14, 13]).for_each(|n| run.arrive(1, n));
            assert_eq!((run.left.clone(), run.counts().restarts), ((1..=14).collect(), 1), "{before}");
        }
    }

    /// A path that is slower than the timeout: late packets in a row do not restart the stream.
    #[test]
    fn numbers_that_were_given_up_come_late_and_move_nothing() {
        let mut run = Run::new(CONFIG);
        // All even numbers arrive later, in groups.
        for n in 0..200u32 {
            let now = u64::from(n) * 100;
            run.expire(now);
            run.arrive(now, 2 * n + 1);
            if n % 20 == 0 {
                (n.saturating_sub(20)..n).filter(|e| *e > 0).for_each(|e| run.arrive(now, 2 * e));
            }
        }
        run.expire(1_000_000);
        let odd: Vec<u32> = run.left.iter().copied().filter(|n| n % 2 == 1).collect();
        assert!(odd.is_sorted() && odd.len() == 200);
        assert_eq!((run.counts().restarts, run.counts().waiting), (0, 0));
        assert!(run.counts().late > 80, "{:?}", run.counts());
    }

    #[test]
    fn one_stray_packet_moves_nothing() {
        let mut run = Run::new(CONFIG);
        numbered(500, 1_000_000).into_iter().for_each(|n| run.arrive(0, n));
        run.arrive(0, 7);
        for n in [1_000_501, 1_000_500] {
            run.arrive(0, n);
        }
        assert_eq!(run.left[500..], [7, 1_000_500, 1_000_501]);
        assert_eq!(run.counts().restarts, 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Each packet has a delay of its own: as long as no packet waits for the timeout and the capacity is
        /// not exceeded, all leave in order, also where the numbers wrap.
        #[test]
        fn order_is_restored(skews in prop::collection::vec(0u64..1000, 1..300), gap in 100u64..200, from_end in 0u32..300) {
            // The first packet arrives first, because a stream begins at the first number that arrives.
            let first = if from_end == 0 { 1 } else { before_first(from_end) };
            let sent = numbered(skews.len() as u32, first);
            let mut arrivals: Vec<(u64, u32)> = sent.iter().zip(&skews).enumerate()
                .map(|(i, (n, skew))| (i as u64 * gap + if i == 0 { 0 } else { *skew }, *n)).collect();
            arrivals.sort_by_key(|(at, _)| *at);
            let mut run = Run::new(CONFIG);
            for (now, number) in arrivals {
                run.expire(now);
                run.arrive(now, number);
            }
            prop_assert_eq!(&run.left, &sent);
            prop_assert_eq!((run.counts().late, run.counts().given_up, run.resequencer.counts().waiting), (0, 0, 0));
        }

        /// Lost packets delay the others, but at most for the timeout, and these stay in order.
        #[test]
        fn loss_holds_up_for_the_timeout_at_most(kept in prop::collection::vec(any::<bool>(), 1..150), gap in 1u64..150) {
            let mut run = Run::new(CONFIG);
            let (mut sent, mut looked) = (HashMap::new(), 0);
            let mut numbers = kept.iter().enumerate().filter(|(_, k)| **k).map(|(i, _)| i as u32 + 1).peekable();
            for now in 0..=kept.len() as u64 * gap + 1000 {
                run.expire(now);
                while let Some(number) = numbers.next_if(|n| u64::from(*n) * gap <= now) {
                    sent.insert(number, now);
                    run.arrive(now, number);
                }
                for number in &run.left[looked..] {
                    prop_assert!(now - sent[number] <= 1000, "{} waited for {}", number, now - sent[number]);
                }
                looked = run.left.len();
            }
            prop_assert!(run.left.is_sorted());
            prop_assert_eq!(run.left.len(), sent.len());
        }

        /// Whatever items arrive, with any numbers, repeated, at any time: each item leaves once, and the
        /// number and the time of waiting items are limited.
        #[test]
        fn nothing_is_lost_or_held(
            steps in prop::collection::vec((prop_oneof![
                4 => 1u32..60,
                2 => 1u32..2000,
                1 => (LAST - 30)..=LAST,
                1 => 0u32..=u32::MAX,
            ], 0u64..400), 1..400),
            capacity in 0u32..40,
        ) {
            let config = Config { capacity, ..CONFIG };
            let mut r = Resequencer::new(4, config);
            let (mut left, mut now) = (Vec::new(), 0);
            let mut came = HashMap::new();
            for (item, (number, pause)) in steps.iter().enumerate() {
                now += pause;
                r.expire(now, &mut |i| left.push(i));
                came.insert(item, now);
                r.arrive(now, NODE, 0, *number, item, &mut |i| left.push(i));
                let held = r.streams.iter().flat_map(|s| &s.waiting).flatten().count();
                prop_assert_eq!(r.counts().waiting, held as u64);
                prop_assert!(held < capacity.max(2) as usize);
                for s in &r.streams {
                    prop_assert!(s.waiting.len() <= capacity.max(2) as usize && s.arrivals.len() <= 2 * capacity.max(2) as usize);
                    prop_assert!(!matches!(s.waiting.front(), Some(Some(_))) && !matches!(s.waiting.back(), Some(None)));
                    for item in s.waiting.iter().flatten() {
                        prop_assert!(now - came[item] < 1000);
                    }
                }
                prop_assert_eq!(r.deadline_ns().is_some(), r.counts().waiting > 0);
            }
            r.expire(now + 1000, &mut |i| left.push(i));
            prop_assert_eq!((r.counts().waiting, r.deadline_ns()), (0, None));
            let c = r.counts();
            prop_assert_eq!(c.in_order + c.restored + c.late + c.unnumbered, steps.len() as u64);
            left.sort_unstable();
            prop_assert_eq!(left, (0..steps.len()).collect::<Vec<_>>());
        }

        /// The input node restarts at any time, with packets out of order: a few pass as they arrive, then
        /// the order is kept.
        #[test]
        fn after_a_restart_order_is_kept(
            first_life in prop_oneof![20u32..200, 200u32..5000],
            first_number in prop_oneof![Just(1u32), Just(1_000_000)],
            swaps in prop::collection::vec(any::<bool>(), 150..300),
        ) {
            let mut run = Run::new(CONFIG);
            numbered(first_life, first_number).into_iter().for_each(|n| run.arrive(0, n));
            run.left.clear();
            let mut second = numbered(swaps.len() as u32, 1);
            for (i, _) in swaps.iter().enumerate().filter(|(i, s)| **s && i % 2 == 1) {
                second.swap(i - 1, i);
            }
            second.iter().for_each(|n| run.arrive(0, *n));
            run.expire(5000);
            prop_assert_eq!(run.left.len(), swaps.len());
            prop_assert_eq!(run.counts().restarts, 1);
            let settled = 4 * RESTART as usize;
            prop_assert!(run.left[settled..].is_sorted(), "{:?}", run.left);
        }
    }

    #[test]
    fn numbers_go_round() {
        assert_eq!((after(0), after(1), after(LAST - 1), after(LAST)), (1, 2, LAST, 1));
        assert_eq!((ahead(1, LAST), ahead(LAST, 1), ahead(7, 7), ahead(5, 9)), (1, -1, 0, -4));
    }
}
