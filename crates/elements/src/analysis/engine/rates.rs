//! Packet rates of addresses, byte by byte: an address whose rate is high is looked at more closely.

use crate::plumbing::engine::text;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

const NONE: u32 = u32::MAX;
/// Averages are in events per epoch, with ten bits of fraction; the last epoch has a weight of 1/32.
const SCALE: u32 = 10;
const STABILITY: u32 = 5;
/// An epoch has 8 ms.
const EPOCHS_PER_SECOND: u32 = 125;
/// After so many epochs without packets the average is zero.
const FORGOTTEN: u32 = 100;
/// What Click takes for a counter and for a table of 256 of them, in bytes.
const COUNTER_BYTES: usize = 40;
const LEVEL_BYTES: usize = 2080;

/// The epoch of a time in nanoseconds.
pub(in crate::analysis) fn epoch(now_ns: u64) -> u32 {
    (now_ns / 1_000_000) as u32 >> 3
}

/// The rates to and from an address.
#[derive(Clone, Copy, Default)]
struct Rates {
    epoch: u32,
    total: [u32; 2],
    average: [i64; 2],
}

impl Rates {
    fn sample(average: &mut i64, n: u32) {
        *average += ((i64::from(n) << SCALE) - *average + (1 << (STABILITY - 1))) >> STABILITY;
    }
    fn turn(&mut self, now: u32) {
        // The workers' clocks differ a little: one may be behind.
        if self.epoch.wrapping_sub(now) < FORGOTTEN {
            return;
        }
        let silent = now.wrapping_sub(self.epoch).wrapping_sub(1);
        for (average, total) in self.average.iter_mut().zip(&mut self.total) {
            Self::sample(average, std::mem::take(total));
            if silent >= FORGOTTEN {
                *average = 0;
            } else {
                (0..silent).for_each(|_| Self::sample(average, 0));
            }
        }
        self.epoch = now;
    }
    fn add(&mut self, n: u32, which: usize, now: u32) {
        self.turn(now);
        self.total[which] = self.total[which].wrapping_add(n);
    }
    fn per_second(&self, which: usize) -> i64 {
        (self.average[which] * i64::from(EPOCHS_PER_SECOND)) >> SCALE
    }
    fn text(&self, which: usize) -> String {
        let scaled = self.average[which].max(0).cast_unsigned();
        text::real2(scaled * u64::from(EPOCHS_PER_SECOND), SCALE)
    }
}

/// One value of a byte of addresses.
#[derive(Clone, Copy)]
struct Counter {
    rates: Rates,
    /// The level for the next byte.
    below: u32,
    /// Until this epoch no level is added below.
    settled: u32,
}

impl Counter {
    fn new(rates: Rates) -> Box<Self> {
        Box::new(Self { rates, below: NONE, settled: 0 })
    }
}

/// The counters of one byte of addresses.
struct Level {
    /// The counter above: level and byte.
    parent: Option<(u32, u8)>,
    counters: Vec<Option<Box<Counter>>>,
    /// Neighbors in the list by age.
    older: u32,
    newer: u32,
}

impl Level {
    fn new(parent: Option<(u32, u8)>) -> Self {
        Self { parent, counters: (0..256).map(|_| None).collect(), older: NONE, newer: NONE }
    }
}

/// What [`RateTree`] needs to know of the element.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Settings {
    /// Above this rate an address is looked at more closely.
    pub(in crate::analysis) threshold: i64,
    /// The most bytes of memory; 0 is none of Click's.
    pub(in crate::analysis) memory: usize,
}

/// Rates of addresses. Level 0 is for the first byte and stays.
pub(in crate::analysis) struct RateTree {
    pub(in crate::analysis) settings: Settings,
    levels: Vec<Option<Level>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    bytes: usize,
    reset: u32,
    folded: u32,
}

impl RateTree {
    /// The most bytes if no limit was given.
    const MOST: usize = 64 << 20;

    pub(in crate::analysis) fn new(settings: Settings, now: u32) -> Self {
        let levels = vec![Some(Level::new(None))];
        let free = Vec::new();
        Self { settings, levels, free, oldest: 0, newest: 0, bytes: LEVEL_BYTES, reset: now, folded: now }
    }

    pub(in crate::analysis) fn bytes(&self) -> usize {
        self.bytes
    }

    fn most(&self) -> usize {
        if self.settings.memory == 0 { Self::MOST } else { self.settings.memory }
    }

    fn counter(&mut self, level: u32, byte: u8) -> Option<&mut Counter> {
        self.levels.get_mut(level as usize)?.as_mut()?.counters.get_mut(usize::from(byte))?.as_deref_mut()
    }

    /// Puts a counter into a level, if there is memory.
    fn put(&mut self, level: u32, byte: u8, rates: Rates) -> bool {
        if self.bytes + COUNTER_BYTES > self.most() {
            return false;
        }
        let Some(Some(level)) = self.levels.get_mut(level as usize) else { return false };
        level.counters[usize::from(byte)] = Some(Counter::new(rates));
        self.bytes += COUNTER_BYTES;
        true
    }

    /// Counts `n` events of an address, unless `n` is 0, and returns its rates per second: those of the
    /// longest part of it that has a counter.
    pub(in crate::analysis) fn add(
        &mut self,
        address: Ipv4Addr,
        n: u32,
        which: usize,
        counts: bool,
        now: u32,
        coin: bool,
    ) -> Option<[i64; 2]> {
        let (octets, mut level, mut depth) = (address.octets(), 0, 0);
        let counter = loop {
            let byte = octets[depth];
            if self.counter(level, byte).is_none() {
                let fresh = Rates { epoch: now, ..Rates::default() };
                if !self.put(level, byte, fresh) {
                    return None;
                }
            }
            let counter = self.counter(level, byte)?;
            if counts {
                counter.rates.add(n, which, now);
            }
            if counter.below == NONE {
                break *counter;
            }
            (level, depth) = (counter.below, depth + 1);
        };
        let rates = [0, 1].map(|which| counter.rates.per_second(which));
        let high = rates.iter().any(|rate| *rate >= self.settings.threshold);
        if counter.settled < now && high && depth < 3 && self.room() {
            self.split(level, octets[depth], octets[depth + 1], counter.rates);
        }
        if now.wrapping_sub(self.folded) >= EPOCHS_PER_SECOND
            && self.folded.wrapping_sub(now) >= EPOCHS_PER_SECOND
        {
            self.fold(self.settings.threshold, now, coin);
            self.folded = now;
        }
        Some(rates)
    }

    /// Whether there is memory for one more level.
    fn room(&self) -> bool {
        self.bytes + COUNTER_BYTES + LEVEL_BYTES <= self.most()
    }

    /// Adds a level below a counter, with one counter that has its rates.
    fn split(&mut self, level: u32, byte: u8, next: u8, rates: Rates) {
        let new = Level { older: self.newest, ..Level::new(Some((level, byte))) };
        let at = self.free.pop().unwrap_or(self.levels.len() as u32);
        match self.levels.get_mut(at as usize) {
            Some(free) => *free = Some(new),
            None => self.levels.push(Some(new)),
        }
        self.bytes += LEVEL_BYTES;
        if let Some(Some(newest)) = self.levels.get_mut(self.newest as usize) {
            newest.newer = at;
        }
        self.newest = at;
        if let Some(counter) = self.counter(level, byte) {
            counter.below = at;
        }
        self.put(at, next, rates);
    }

    /// Removes a level and all below it. Returns its neighbors in the list by age.
    fn remove(&mut self, at: u32) -> (u32, u32) {
        let below: Vec<u32> = match self.levels.get(at as usize) {
            Some(Some(level)) => {
                level.counters.iter().flatten().map(|c| c.below).filter(|b| *b != NONE).collect()
            }
            _ => return (NONE, NONE),
        };
        // There are four levels at most.
        for child in below {
            self.remove(child);
        }
        let Some(level) = self.levels[at as usize].take() else { return (NONE, NONE) };
        self.free.push(at);
        self.bytes -= LEVEL_BYTES + COUNTER_BYTES * level.counters.iter().flatten().count();
        match self.levels.get_mut(level.older as usize) {
            Some(Some(older)) => older.newer = level.newer,
            _ => self.oldest = level.newer,
        }
        match self.levels.get_mut(level.newer as usize) {
            Some(Some(newer)) => newer.older = level.older,
            _ => self.newest = level.older,
        }
        if let Some((parent, byte)) = level.parent
            && let Some(counter) = self.counter(parent, byte)
        {
            counter.below = NONE;
        }
        (level.older, level.newer)
    }

    /// Removes levels of addresses whose rates are low, until enough memory is free; from one end of the list
    /// by age or the other.
    fn fold(&mut self, threshold: i64, now: u32, from_oldest: bool) {
        let enough = if self.settings.memory == 0 { self.bytes / 10 * 9 } else { self.settings.memory };
        let mut at = if from_oldest { self.oldest } else { self.newest };
        while let Some(Some(level)) = self.levels.get(at as usize) {
            let (parent, next) = (level.parent, if from_oldest { level.newer } else { level.older });
            let low = match parent.and_then(|(above, byte)| self.counter(above, byte)) {
                Some(counter) => {
                    counter.rates.turn(now);
                    counter.rates.average.iter().all(|average| *average < threshold)
                }
                None => false,
            };
            if !low {
                at = next;
                continue;
            }
            let (older, newer) = self.remove(at);
            if self.bytes < enough {
                return;
            }
            at = if from_oldest { newer } else { older };
        }
    }

    /// Changes the most bytes of memory, and removes levels until they suffice.
    pub(in crate::analysis) fn set_memory(&mut self, memory: usize, now: u32) {
        self.settings.memory = memory;
        let (mut threshold, mut step) = (self.settings.threshold, self.settings.threshold / 5);
        while memory > 0 && self.bytes > memory && self.newest != 0 {
            self.fold(threshold, now, true);
            step = (step * 2).max(1);
            threshold = threshold.saturating_add(step);
        }
    }

    /// Removes what is below a part of an address, `depth` bytes after the first, and keeps it so until an
    /// epoch.
    pub(in crate::analysis) fn settle(&mut self, address: Ipv4Addr, depth: usize, until: u32) {
        let (octets, mut level) = (address.octets(), 0);
        for byte in octets.iter().take(depth) {
            match self.counter(level, *byte) {
                Some(counter) if counter.below != NONE => level = counter.below,
                _ => return,
            }
        }
        let Some(counter) = octets.get(depth).and_then(|byte| self.counter(level, *byte)) else { return };
        counter.settled = until;
        let below = counter.below;
        self.remove(below);
    }

    /// Forgets everything.
    pub(in crate::analysis) fn reset(&mut self, now: u32) {
        *self = Self::new(self.settings, now);
    }

    /// The epochs since the last reset, and a line for each counter.
    pub(in crate::analysis) fn look(&mut self, now: u32) -> String {
        let mut text = format!("{}\n", now.wrapping_sub(self.reset));
        self.print(0, "", now, &mut text);
        text
    }

    fn print(&mut self, level: u32, front: &str, now: u32, text: &mut String) {
        for byte in 0..=255 {
            let Some(counter) = self.counter(level, byte) else { continue };
            if counter.rates.average.iter().all(|average| *average <= 0) {
                continue;
            }
            counter.rates.turn(now);
            let (rates, below) = (counter.rates, counter.below);
            let name = if front.is_empty() { byte.to_string() } else { format!("{front}.{byte}") };
            let _ = writeln!(text, "{name}\t{}\t{}", rates.text(0), rates.text(1));
            if below != NONE {
                self.print(below, &format!("\t{name}"), now, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(threshold: i64, memory: usize) -> RateTree {
        RateTree::new(Settings { threshold, memory }, 1000)
    }

    /// The levels in the list by age, and the bytes that they take.
    fn check(tree: &RateTree) -> usize {
        let (mut at, mut before, mut bytes, mut n) = (tree.oldest, NONE, 0, 0);
        while let Some(Some(level)) = tree.levels.get(at as usize) {
            assert_eq!(level.older, before);
            bytes += LEVEL_BYTES + COUNTER_BYTES * level.counters.iter().flatten().count();
            (before, at, n) = (at, level.newer, n + 1);
        }
        assert_eq!((before, bytes), (tree.newest, tree.bytes));
        assert_eq!(n, tree.levels.iter().flatten().count());
        n
    }

    #[test]
    fn looks_closer_where_the_rate_is_high() {
        let mut tree = tree(1000, 0);
        let (busy, quiet) = (Ipv4Addr::new(18, 26, 4, 9), Ipv4Addr::new(7, 7, 7, 7));
        for epoch in 1001..1200 {
            tree.add(busy, 100, 0, true, epoch, true);
            tree.add(quiet, 1, 1, true, epoch, true);
        }
        assert_eq!(check(&tree), 4);
        let text = tree.look(1200);
        let lines: Vec<&str> = text.lines().map(|line| line.rsplitn(3, '\t').last().unwrap()).collect();
        assert_eq!(lines, ["200", "7", "18", "\t18.26", "\t\t18.26.4", "\t\t\t18.26.4.9"]);
        assert!(text.starts_with("200\n7\t0\t"), "{text}");
        // A second later it is quiet.
        tree.add(quiet, 1, 1, true, 1500, true);
        assert_eq!(check(&tree), 1);
        tree.reset(1500);
        assert_eq!((tree.look(1500), check(&tree)), ("0\n".to_owned(), 1));
    }

    #[test]
    fn a_steady_stream_settles_at_its_rate() {
        let mut tree = tree(i64::MAX, 0);
        let mut rates = [0; 2];
        for epoch in 1001..2000 {
            rates = tree.add(Ipv4Addr::new(1, 2, 3, 4), 8, 1, true, epoch, true).unwrap();
        }
        assert_eq!(rates[0], 0);
        assert!((990..=1000).contains(&rates[1]), "{rates:?}");
    }

    #[test]
    fn memory_is_limited() {
        let mut tree = tree(0, 100 << 10);
        let mut x = 1u32;
        for n in 0..200_000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            tree.add(Ipv4Addr::from(x), 1, 0, true, 1001 + n / 100, x & 1 == 0);
            assert!(tree.bytes <= 100 << 10);
        }
        check(&tree);
        let before = tree.bytes;
        tree.set_memory(20 << 10, 3001);
        assert!(tree.bytes <= 20 << 10 && before > 20 << 10, "{before}");
        check(&tree);
    }

    #[test]
    fn an_address_can_be_settled() {
        let mut tree = tree(0, 0);
        let address = Ipv4Addr::new(18, 26, 4, 9);
        for _ in 0..4 {
            tree.add(address, 1, 0, true, 1001, true);
        }
        assert_eq!(check(&tree), 4);
        tree.settle(address, 1, 1100);
        assert_eq!(check(&tree), 2);
        tree.add(address, 1, 0, true, 1100, true);
        assert_eq!(check(&tree), 2);
        tree.add(address, 1, 0, true, 1101, true);
        assert_eq!(check(&tree), 3);
        tree.settle(Ipv4Addr::new(1, 1, 1, 1), 3, 2000);
    }
}
