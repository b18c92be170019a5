//! Flowlets: the last path of each flow, and when it was used (RouteBricks, §6.1).
//!
//! The table has a fixed number of entries, four in a cache line for all flows whose hashes select that line.
//! A new flowlet replaces the entry that has been idle longest; the flow that had the entry can be reordered
//! once, without further consequences.

use crate::NodeId;

const WAYS: usize = 4;
const FREE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Place {
    seen_ns: u64,
    /// The flow's hash (32 bits), its output node and the next node on its path (16 each), so that one
    /// comparison finds it.
    entry: u64,
}

impl Place {
    #[inline]
    const fn new(seen_ns: u64, flow: u32, output: u16, via: u16) -> Self {
        Self { seen_ns, entry: (flow as u64) << 32 | (output as u64) << 16 | via as u64 }
    }
    #[inline]
    const fn output(&self) -> u16 {
        (self.entry >> 16) as u16
    }
    #[inline]
    const fn via(&self) -> u16 {
        self.entry as u16
    }
}

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Line([Place; WAYS]);

/// The position of a flow in the table, until the next call.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    line: u32,
    way: u8,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Flowlets {
    lines: Box<[Line]>,
    delta_ns: u64,
}

/// The result of looking up a flow.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    /// Its last packet is within delta, and was sent via this node (the output node itself: it was sent
    /// directly).
    Alive(Position, NodeId),
    /// There is no entry, or it is too old: this is the position for the new flowlet.
    New(Position),
}

impl Flowlets {
    /// A table for at least `flows` flows at a time, rounded up to a power of two (4 to 2^26; 16 bytes each).
    #[must_use]
    pub fn new(flows: usize, delta_ns: u64) -> Self {
        let lines = flows.clamp(WAYS, 1 << 26).next_power_of_two() / WAYS;
        let free = Place::new(0, 0, FREE, FREE);
        Self { lines: vec![Line([free; WAYS]); lines].into_boxed_slice(), delta_ns }
    }
    /// Takes over the flows of another table, if it has the same size; delta stays.
    pub fn take_over(&mut self, old: &mut Self) {
        if old.lines.len() == self.lines.len() {
            std::mem::swap(&mut self.lines, &mut old.lines);
        }
    }
    /// How many flows it holds.
    #[must_use]
    pub fn places(&self) -> usize {
        self.lines.len() * WAYS
    }
    /// How many of them are within delta; reads the whole table.
    #[must_use]
    pub fn alive(&self, now_ns: u64) -> usize {
        let fresh = |p: &&Place| p.output() != FREE && now_ns.saturating_sub(p.seen_ns) < self.delta_ns;
        self.lines.iter().flat_map(|l| &l.0).filter(fresh).count()
    }
    #[inline]
    fn line(&self, flow: u32, output: NodeId) -> u32 {
        // RSS hashes leave patterns in their low bits; multiplication spreads them (Fibonacci hashing).
        let mixed = (flow ^ (u32::from(output.0) << 16)).wrapping_mul(0x9e37_79b1);
        ((u64::from(mixed) * self.lines.len() as u64) >> 32) as u32
    }
    /// Prefetches the lines of flows that are about to be looked up, all at once: a table is larger than the
    /// nearest caches, and a lookup that has to wait for its line costs more than all other work on the
    /// packet.
    #[inline]
    pub fn fetch(&self, flows: impl Iterator<Item = (u32, NodeId)>) {
        // Loads that do not depend on each other; none is waited for before the last has begun.
        let seen = flows.fold(0, |seen, (flow, output)| {
            let line = self.lines.get(self.line(flow, output) as usize);
            seen ^ line.map_or(0, |l| l.0[0].seen_ns)
        });
        std::hint::black_box(seen);
    }
    /// Looks up a flow, without changing anything.
    #[inline]
    #[must_use]
    pub fn find(&self, now_ns: u64, flow: u32, output: NodeId) -> Lookup {
        let line = self.line(flow, output);
        let places = &self.lines[line as usize].0;
        // Without a branch for each entry, because the entry's position in its line cannot be predicted.
        let wanted = Place::new(0, flow, output.0, 0).entry;
        let mut way = WAYS;
        for (i, place) in places.iter().enumerate().rev() {
            way = if place.entry ^ wanted <= u64::from(u16::MAX) { i } else { way };
        }
        let Some(place) = places.get(way) else {
            return Lookup::New(Position { line, way: idlest(places, now_ns) });
        };
        let at = Position { line, way: way as u8 };
        if now_ns.saturating_sub(place.seen_ns) < self.delta_ns {
            Lookup::Alive(at, NodeId(place.via()))
        } else {
            Lookup::New(at)
        }
    }
    /// A packet of the flow is sent via `via`, and so are those that follow it.
    #[inline]
    pub fn set(&mut self, at: Position, now_ns: u64, flow: u32, output: NodeId, via: NodeId) {
        self.lines[at.line as usize].0[at.way as usize % WAYS] = Place::new(now_ns, flow, output.0, via.0);
    }
    /// A packet of the flow was sent on another path, this once.
    #[inline]
    pub fn touch(&mut self, at: Position, now_ns: u64) {
        self.lines[at.line as usize].0[at.way as usize % WAYS].seen_ns = now_ns;
    }
}

/// The entry that a new flow takes.
fn idlest(places: &[Place; WAYS], now_ns: u64) -> u8 {
    let age = |p: &Place| if p.output() == FREE { u64::MAX } else { now_ns.saturating_sub(p.seen_ns) };
    let mut oldest = 0;
    for (way, place) in places.iter().enumerate() {
        if age(place) > age(&places[oldest]) {
            oldest = way;
        }
    }
    oldest as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_for_delta() {
        let mut table = Flowlets::new(1000, 100);
        assert_eq!(table.places(), 1024);
        let Lookup::New(at) = table.find(5, 0, NodeId(0)) else { panic!("nothing is there") };
        table.set(at, 5, 0, NodeId(0), NodeId(3));
        assert!(matches!(table.find(104, 0, NodeId(0)), Lookup::Alive(_, NodeId(3))));
        assert!(matches!(table.find(104, 0, NodeId(1)), Lookup::New(_)));
        assert!(matches!(table.find(105, 0, NodeId(0)), Lookup::New(_)));
        assert_eq!((table.alive(104), table.alive(105)), (1, 0));
    }

    #[test]
    fn fetching_changes_nothing_and_every_place_of_a_line_is_found() {
        let mut table = Flowlets::new(4, 1_000_000);
        let flows = [7, 0, u32::MAX, 9];
        table.fetch(flows.iter().map(|flow| (*flow, NodeId(3))));
        assert_eq!(table.alive(0), 0);
        for (n, flow) in flows.into_iter().enumerate() {
            let Lookup::New(at) = table.find(n as u64, flow, NodeId(3)) else { panic!("{flow} is new") };
            table.set(at, n as u64, flow, NodeId(3), NodeId(n as u16));
        }
        table.fetch([(1, NodeId(0)), (u32::MAX, NodeId(u16::MAX))].into_iter());
        for (n, flow) in flows.into_iter().enumerate() {
            let Lookup::Alive(_, via) = table.find(9, flow, NodeId(3)) else { panic!("{flow} is known") };
            assert_eq!(via, NodeId(n as u16));
        }
        // The same flow for another node is another one.
        assert!(matches!(table.find(9, 7, NodeId(2)), Lookup::New(_)));
    }

    #[test]
    fn the_idlest_leaves() {
        let mut table = Flowlets::new(4, 1_000_000);
        for flow in 0..5 {
            let Lookup::New(at) = table.find(u64::from(flow), flow, NodeId(1)) else {
                panic!("{flow} is new")
            };
            table.set(at, u64::from(flow), flow, NodeId(1), NodeId(2));
        }
        assert!(matches!(table.find(9, 0, NodeId(1)), Lookup::New(_)));
        (1..5).for_each(|f| assert!(matches!(table.find(9, f, NodeId(1)), Lookup::Alive(..)), "{f}"));
        assert_eq!((table.places(), table.alive(9)), (4, 4));
    }
}
