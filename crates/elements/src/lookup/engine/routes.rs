//! The routing table behind every lookup element: Click's transactions and listings over
//! [`tables::Lpm`].

use super::fold::Fold;
use super::hops::{DISCARD, Hops, NextHop, Numbers};
use super::text::{Command, Route, address, line};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use locks::IgnorePoison;
use runtime::{Budget, Held};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};
use std::thread;
use tables::lpm::MAX_HOP;
use tables::{Kernel, Lpm, LpmError, LpmReader, Prefix};

mod learned;

pub(in crate::lookup) use learned::{Outcome, Way};

/// The position of a new route in the listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lookup) enum Order {
    /// The first free position; a changed route keeps its position.
    FirstFree,
    /// The position that became free last; a changed route moves.
    LastFreed,
}

enum Free {
    First(BinaryHeap<Reverse<u32>>),
    Last(Vec<u32>),
}

/// Who learns. A table has one learner at a time; what an earlier one says does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lookup) struct Learner(u64);

impl Learner {
    /// A new one.
    pub(in crate::lookup) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Where a route comes from. Of two for one prefix, the earlier origin stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Origin {
    Configured,
    /// From a handler.
    Added,
    /// From an element that keeps the table in step with something else.
    Learned,
}

#[derive(Clone, Copy)]
struct Slot {
    prefix: Prefix,
    hop: u32,
    origin: Origin,
}

/// The number of lengths of a prefix.
const LENGTHS: u64 = 33;

/// A position of the listing in 8 bytes: address (32 bits), length and origin as one number below 99 (7), and
/// next hop (25). All ones is an empty position.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position(u64);

impl Position {
    const EMPTY: Self = Self(u64::MAX);

    fn new(slot: Slot) -> Self {
        let Slot { prefix, hop, origin } = slot;
        let kind = u64::from(prefix.len()) + LENGTHS * origin as u64;
        Self(u64::from(prefix.first()) << 32 | kind << 25 | u64::from(hop & MAX_HOP))
    }
    fn slot(self) -> Option<Slot> {
        let kind = self.0 >> 25 & 127;
        let origin = match kind / LENGTHS {
            0 => Origin::Configured,
            1 => Origin::Added,
            2 => Origin::Learned,
            _ => return None,
        };
        let prefix = Prefix::new((self.0 >> 32) as u32, (kind % LENGTHS) as u8)?;
        Some(Slot { prefix, hop: self.0 as u32 & MAX_HOP, origin })
    }
    /// What identifies the route: address and length. That of an empty position is no route's.
    fn key(self) -> u64 {
        let kind = self.0 >> 25 & 127;
        if kind == 127 { u64::MAX } else { ((self.0 >> 32) << 6) | (kind % LENGTHS) }
    }
}

fn key(prefix: Prefix) -> u64 {
    u64::from(prefix.first()) << 6 | u64::from(prefix.len())
}

/// State that only the writers use.
struct Control {
    positions: Vec<Position>,
    free: Free,
    /// The positions of the routes, by prefix.
    by_prefix: HashTable<u32>,
    fold: Fold,
    numbers: Numbers,
    /// Who may change learned routes now.
    learner: Option<Learner>,
}

impl Control {
    fn key_at(positions: &[Position], place: u32) -> u64 {
        positions.get(place as usize).map_or(u64::MAX, |p| p.key())
    }
    fn place(&self, prefix: Prefix) -> Option<u32> {
        let key = key(prefix);
        self.by_prefix.find(self.fold.hash(key), |&p| Self::key_at(&self.positions, p) == key).copied()
    }
    fn slot(&self, prefix: Prefix) -> Option<Slot> {
        self.positions.get(self.place(prefix)? as usize)?.slot()
    }
    /// The routes in the order of the listing.
    fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.positions.iter().filter_map(|p| p.slot())
    }
    fn vacate(&mut self, place: u32) {
        if let Some(position) = self.positions.get_mut(place as usize) {
            if let Some(slot) = position.slot() {
                self.numbers.release(slot.hop);
            }
            *position = Position::EMPTY;
        }
        match &mut self.free {
            Free::First(heap) => heap.push(Reverse(place)),
            Free::Last(stack) => stack.push(place),
        }
    }
    /// The position of the next new route.
    fn next_place(&self) -> u32 {
        let free = match &self.free {
            Free::First(heap) => heap.peek().map(|r| r.0),
            Free::Last(stack) => stack.last().copied(),
        };
        free.unwrap_or(self.positions.len() as u32)
    }
    /// Fills the position that `next_place` returned.
    fn fill(&mut self, place: u32, slot: Slot) {
        match self.positions.get_mut(place as usize) {
            Some(empty) => {
                *empty = Position::new(slot);
                match &mut self.free {
                    Free::First(heap) => drop(heap.pop()),
                    Free::Last(stack) => drop(stack.pop()),
                }
            }
            None => self.positions.push(Position::new(slot)),
        }
    }
    /// The entry of a prefix among the positions of all routes.
    fn entry(&mut self, prefix: Prefix) -> Entry<'_, u32> {
        let (key, fold, positions) = (key(prefix), &self.fold, &self.positions);
        let same = |&place: &u32| Self::key_at(positions, place) == key;
        self.by_prefix.entry(fold.hash(key), same, |&p| fold.hash(Self::key_at(positions, p)))
    }
    fn put(&mut self, slot: Slot) {
        self.numbers.hold(slot.hop);
        let old = self.place(slot.prefix);
        if let (Free::First(_), Some(place)) = (&self.free, old) {
            if let Some(there) = self.positions.get_mut(place as usize) {
                let before = std::mem::replace(there, Position::new(slot)).slot();
                before.into_iter().for_each(|before| self.numbers.release(before.hop));
            }
            return;
        }
        let place = self.next_place();
        match self.entry(slot.prefix) {
            Entry::Occupied(mut there) => *there.get_mut() = place,
            Entry::Vacant(vacant) => {
                vacant.insert(place);
            }
        }
        self.fill(place, slot);
        if let Some(old) = old {
            self.vacate(old);
        }
    }
    fn take_out(&mut self, prefix: Prefix) {
        if let Entry::Occupied(there) = self.entry(prefix) {
            let (place, _) = there.remove();
            self.vacate(place);
        }
    }
}

/// A routing table that all workers look up while handlers change it.
///
/// Lookups take no lock. Changes take one, write the lookup table in place and disturb no worker.
pub(in crate::lookup) struct Routes {
    lpm: Lpm,
    hops: Hops,
    outputs: AtomicU32,
    control: Mutex<Control>,
    adopted: Once,
    /// Whether an element of this configuration keeps it in step with something else.
    learns: AtomicBool,
    complaints: AtomicU32,
    /// Its part of the routes that the router may have.
    held: Option<Held>,
}

/// A table of so many routes is filled by two threads.
const MANY: usize = 1 << 14;

/// The table that the replicas of an element share; the first one fills it.
#[derive(Default)]
pub(crate) struct Table(OnceLock<Arc<Routes>>);

impl Table {
    /// The prefixes of the routes, in order of address and then of length.
    pub(crate) fn prefixes(&self) -> Vec<Prefix> {
        let routes = self.0.get().map(|routes| routes.lpm.routes()).unwrap_or_default();
        routes.into_iter().map(|(prefix, _)| prefix).collect()
    }
    /// How many routes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.get().map_or(0, |routes| routes.lpm.len())
    }
    /// Whether there is a route for an address.
    pub(crate) fn covers(&self, address: std::net::Ipv4Addr) -> bool {
        let found = self.0.get().and_then(|r| r.lpm.route(address.to_bits()).and_then(|(_, hop)| r.hop(hop)));
        found.is_some_and(|hop| hop.port != DISCARD)
    }
    /// The table, once it is filled.
    pub(in crate::lookup) fn get(&self) -> Option<&Arc<Routes>> {
        self.0.get()
    }
    /// Fills it.
    pub(in crate::lookup) fn fill(&self, routes: Routes) -> Arc<Routes> {
        Arc::clone(self.0.get_or_init(|| Arc::new(routes)))
    }
    /// The table, for a handler.
    pub(in crate::lookup) fn routes(&self) -> Result<&Routes, String> {
        self.0.get().map(|r| &**r).ok_or_else(|| "no table".to_owned())
    }
}

/// About what a route takes in the list and in the record of the lookup table, at the most, in bytes.
const ROUTE_BYTES: usize = 160;

/// Whether the router may have memory for so many routes more.
fn has_room(routes: usize) -> Result<(), String> {
    match accounts::inherit().would_exceed(routes * ROUTE_BYTES) {
        Some(exceeded) => Err(format!("no memory for {routes} routes: {exceeded}")),
        None => Ok(()),
    }
}

const TOO_MANY: &str = "too many different next hops (pairs of gateway and output), at most 33554432";

/// The SIMD instructions for lookups: the best ones between other work, but no gathers on processors where
/// microcode delays each gather to prevent a leak (Gather Data Sampling, CVE-2022-40982; Linux reports it in
/// this file).
fn kernel() -> Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    *KERNEL.get_or_init(|| {
        let mitigation =
            std::fs::read_to_string("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling");
        if mitigation.is_ok_and(|s| s.starts_with("Mitigation")) {
            Kernel::SCALAR
        } else {
            Kernel::between_other_work()
        }
    })
}

impl Routes {
    /// An empty table whose routes can use `outputs` outputs.
    pub(in crate::lookup) fn new(order: Order, outputs: u32) -> Result<Self, LpmError> {
        let free = match order {
            Order::FirstFree => Free::First(BinaryHeap::new()),
            Order::LastFreed => Free::Last(Vec::new()),
        };
        let control = Control {
            positions: Vec::new(),
            free,
            by_prefix: HashTable::new(),
            fold: Fold::default(),
            numbers: Numbers::default(),
            learner: None,
        };
        Ok(Self {
            lpm: Lpm::new()?,
            hops: Hops::new(),
            outputs: AtomicU32::new(outputs),
            control: Mutex::new(control),
            adopted: Once::new(),
            learns: AtomicBool::new(false),
            complaints: AtomicU32::new(0),
            held: None,
        })
    }
    /// Has its routes count for a limit of all the router's tables.
    pub(in crate::lookup) fn limit(&mut self, budget: &Arc<Budget>) {
        self.held = Some(Held::new(budget));
    }
    /// Counts the routes that there are now.
    fn count(&self, control: &Control) -> Result<(), String> {
        let counted = self.held.as_ref().map_or(Ok(()), |held| held.set(control.by_prefix.len()));
        counted.map_err(|most| format!("too many routes: the limit routes is {most}"))
    }
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().ignore_poison()
    }
    /// The number of outputs that routes can use.
    pub(in crate::lookup) fn outputs(&self) -> u32 {
        self.outputs.load(Ordering::Relaxed)
    }
    /// One worker's view for lookups.
    pub(in crate::lookup) fn reader(&self) -> LpmReader {
        self.lpm.reader_with(kernel())
    }
    /// The next hop with a number from the table, for control.
    fn hop(&self, number: u32) -> Option<NextHop> {
        self.hops.get(number)
    }
    /// The next hops with the numbers that [`LpmReader`] has given before; `None` for [`tables::NO_ROUTE`].
    #[inline]
    pub(in crate::lookup) fn hops(&self) -> impl Fn(u32) -> Option<NextHop> + '_ {
        fence(Ordering::Acquire);
        let first = self.hops.first();
        move |number| self.hops.get_after(first, number)
    }
    /// The next hop that an address takes of a group, whose output this is; `None` if it is none.
    pub(in crate::lookup) fn member(&self, port: u32, address: u32) -> Option<NextHop> {
        self.hops.member(port, address)
    }
    /// Whether a message about one more packet without a route is to be printed: five are.
    pub(in crate::lookup) fn complain(&self) -> bool {
        self.complaints.load(Ordering::Relaxed) < 5 && self.complaints.fetch_add(1, Ordering::Relaxed) < 5
    }

    /// Adds the routes of a configuration, many at once. Of several for one prefix, the first counts; returns
    /// how many others there were.
    pub(in crate::lookup) fn configure(&self, routes: &[(Prefix, NextHop)]) -> Result<usize, String> {
        self.bulk(routes, Origin::Configured)
    }

    fn bulk(&self, routes: &[(Prefix, NextHop)], origin: Origin) -> Result<usize, String> {
        let control = &mut *self.control();
        has_room(routes.len())?;
        let (fold, positions) = (&control.fold, &control.positions);
        control.by_prefix.reserve(routes.len(), |&p| fold.hash(Control::key_at(positions, p)));
        control.positions.reserve(routes.len());
        if control.positions.is_empty() && routes.len() >= MANY && routes.len() <= MAX_HOP as usize {
            return self.fill(control, routes, origin);
        }
        let mut numbered = Vec::with_capacity(routes.len());
        let mut done = Ok(0);
        for &(prefix, hop) in routes {
            let place = control.next_place();
            let Entry::Vacant(vacant) = control.entry(prefix) else {
                done = done.map(|twice| twice + 1);
                continue;
            };
            vacant.insert(place);
            let Some(hop) = control.numbers.number(&self.hops, hop) else {
                // The place is not filled yet, so its entry is found by number.
                let hash = control.fold.hash(key(prefix));
                if let Ok(there) = control.by_prefix.find_entry(hash, |&p| p == place) {
                    there.remove();
                }
                done = Err(TOO_MANY.to_owned());
                break;
            };
            control.numbers.hold(hop);
            control.fill(place, Slot { prefix, hop, origin });
            numbered.push((prefix, hop));
        }
        fence(Ordering::Release);
        let done = done.and_then(|twice| {
            self.count(control)?;
            self.lpm.load(numbered.iter().copied()).map_err(|e| e.to_string())?;
            Ok(twice)
        });
        if done.is_err() {
            for &(prefix, _) in &numbered {
                control.take_out(prefix);
            }
            self.restore(control, numbered.iter().map(|(prefix, _)| *prefix));
            self.count(control)?;
        }
        done
    }

    /// The same for many routes and a table without any: a thread fills the lookup table while this one fills
    /// the list.
    fn fill(
        &self,
        control: &mut Control,
        routes: &[(Prefix, NextHop)],
        origin: Origin,
    ) -> Result<usize, String> {
        let mut numbered = Vec::with_capacity(routes.len());
        for &(prefix, hop) in routes {
            let Some(hop) = control.numbers.number(&self.hops, hop) else {
                numbered.iter().for_each(|&(_, hop)| control.numbers.release(hop));
                return Err(TOO_MANY.to_owned());
            };
            control.numbers.hold(hop);
            numbered.push((prefix, hop));
        }
        fence(Ordering::Release);
        let mut twice = 0;
        let account = accounts::inherit();
        let loaded = thread::scope(|scope| {
            // Of several for one prefix, the lookup table takes the last.
            let load = || {
                let _account = account.enter();
                self.lpm.load(numbered.iter().rev().copied())
            };
            let loading = thread::Builder::new().name("valiant-table".to_owned()).spawn_scoped(scope, load);
            for &(prefix, hop) in &numbered {
                let place = control.next_place();
                if let Entry::Vacant(vacant) = control.entry(prefix) {
                    vacant.insert(place);
                    control.fill(place, Slot { prefix, hop, origin });
                } else {
                    control.numbers.release(hop);
                    twice += 1;
                }
            }
            match loading {
                Ok(loading) => loading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => load(),
            }
        });
        let done = loaded.map_err(|e| e.to_string()).and_then(|_| self.count(control));
        if let Err(error) = done {
            numbered.iter().for_each(|&(prefix, _)| {
                self.lpm.remove(prefix);
                control.take_out(prefix);
            });
            return Err(error);
        }
        Ok(twice)
    }

    /// Takes over the routes that handlers have added to `old`, and those that it has learned if this table
    /// learns too, unless there is a route for the prefix already or the route's output no longer exists.
    /// This is done only once, by the first caller; the others wait.
    pub(in crate::lookup) fn adopt(&self, old: &Self) {
        self.adopted.call_once(|| {
            let outputs = self.outputs();
            let mut of = [Vec::new(), Vec::new()];
            {
                let control = old.control();
                for slot in control.slots() {
                    if let (Some(kind), Some(hop)) =
                        (of.get_mut((slot.origin as usize).wrapping_sub(1)), old.hop(slot.hop))
                        && control.numbers.fits(hop, outputs)
                    {
                        kind.push((slot.prefix, hop, control.numbers.members(hop)));
                    }
                }
            }
            let [added, learned] = of.map(|routes| {
                // The groups have other numbers here.
                let numbers = &mut self.control().numbers;
                let here = |(prefix, hop, members): (_, _, Vec<_>)| match members[..] {
                    [] => Some((prefix, hop)),
                    _ => Some((prefix, numbers.group(&self.hops, &members)?)),
                };
                routes.into_iter().filter_map(here).collect::<Vec<_>>()
            });
            {
                // What has been learned meanwhile does not stand in the way.
                let control = &mut *self.control();
                for (prefix, _) in &added {
                    if control.slot(*prefix).is_some_and(|s| s.origin == Origin::Learned) {
                        control.take_out(*prefix);
                    }
                }
            }
            // It cannot fail if the old table did not; if it does, the configured routes are kept.
            let _ = self.bulk(&added, Origin::Added);
            if self.learns.load(Ordering::Relaxed) {
                // They are compared with what there is to learn as soon as the new configuration runs.
                let _ = self.bulk(&learned, Origin::Learned);
            }
        });
    }
    /// Whether the output of every configured route is one of this many.
    pub(in crate::lookup) fn configured_fit(&self, outputs: u32) -> bool {
        let control = self.control();
        control
            .slots()
            .all(|s| s.origin != Origin::Configured || self.hop(s.hop).is_some_and(|h| h.port < outputs))
    }
    /// Sets another number of outputs: routes to outputs that no longer exist are removed.
    pub(in crate::lookup) fn set_outputs(&self, outputs: u32) {
        if self.outputs.swap(outputs, Ordering::Relaxed) <= outputs {
            return;
        }
        let control = &mut *self.control();
        let gone: Vec<_> = control
            .slots()
            .filter(|s| self.hop(s.hop).is_none_or(|h| !control.numbers.fits(h, outputs)))
            .map(|s| s.prefix)
            .collect();
        for prefix in gone {
            self.lpm.remove(prefix);
            control.take_out(prefix);
        }
        // Fewer always fit.
        let _ = self.count(control);
    }

    /// One change, as the handlers `add`, `set` and `remove` make it.
    pub(in crate::lookup) fn command(&self, command: Command, text: &str) -> Result<(), String> {
        self.change([command.parse(text, self.outputs())])
    }

    /// Has the lookup table agree with the list on these, after only some could be put into it.
    fn restore(&self, control: &Control, prefixes: impl Iterator<Item = Prefix>) {
        for prefix in prefixes {
            match control.slot(prefix) {
                None => drop(self.lpm.remove(prefix)),
                // It is there, so it takes no more memory.
                Some(slot) => drop(self.lpm.insert(prefix, slot.hop)),
            }
        }
    }

    /// Changes, one a line, as the handler `ctrl` makes them: all or none.
    pub(in crate::lookup) fn transaction(&self, text: &str) -> Result<(), String> {
        let outputs = self.outputs();
        self.change(text.lines().filter_map(|line| {
            let line = line.trim();
            let (word, rest) = line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
            let command = match word {
                "" => return None,
                "add" => Command::Add,
                "set" => Command::Set,
                "remove" => Command::Remove,
                _ => return Some(Err(format!("bad command '{word}'"))),
            };
            Some(command.parse(rest, outputs))
        }))
    }

    /// Makes all the changes or, if one of them is wrong, none; no worker ever sees a state between a route
    /// and its replacement.
    fn change(
        &self,
        changes: impl IntoIterator<Item = Result<(Command, Route), String>>,
    ) -> Result<(), String> {
        let control = &mut *self.control();
        let outputs = self.outputs();
        // First the result is computed, each change checked against those before it; nothing is modified yet.
        let mut after: HashMap<Prefix, Option<NextHop>> = HashMap::new();
        let mut steps: Vec<(Prefix, Option<NextHop>)> = Vec::new();
        for change in changes {
            let (command, route) = change?;
            let prefix = route.prefix;
            let now = match after.get(&prefix) {
                Some(hop) => *hop,
                // A learned route makes room for the user's, and only its learner removes it.
                None => {
                    control.slot(prefix).filter(|s| s.origin != Origin::Learned).and_then(|s| self.hop(s.hop))
                }
            };
            let step = match (command, now) {
                (Command::Add, Some(there)) => {
                    let there = line(prefix, there.gateway, there.port as i32, ' ');
                    return Err(format!("conflict with existing route '{there}'"));
                }
                (Command::Remove, _) => {
                    let any = route.output.is_none_or(|o| o < 0);
                    if now.is_none() || !(any || now == route.next_hop(outputs)) {
                        return Err(format!("route '{}' not found", route.show()));
                    }
                    None
                }
                _ => Some(route.next_hop(outputs).ok_or("bad OUTPUT")?),
            };
            after.insert(prefix, step);
            steps.push((prefix, step));
        }
        self.carry_out(control, &steps, Origin::Added)
    }

    /// Puts in and removes routes, all or none. Of several steps for one prefix, the last counts.
    fn carry_out(
        &self,
        control: &mut Control,
        steps: &[(Prefix, Option<NextHop>)],
        origin: Origin,
    ) -> Result<(), String> {
        // The listing, which holds the next hops' numbers; then the lookup table, in which new routes are
        // inserted before old ones are removed.
        has_room(steps.iter().filter(|(_, step)| step.is_some()).count())?;
        let mut undo = Vec::with_capacity(steps.len());
        let mut failed = None;
        for &(prefix, step) in steps {
            undo.push((prefix, control.slot(prefix)));
            match step {
                None => control.take_out(prefix),
                Some(hop) => match control.numbers.number(&self.hops, hop) {
                    Some(hop) => control.put(Slot { prefix, hop, origin }),
                    None => {
                        failed = Some(TOO_MANY.to_owned());
                        break;
                    }
                },
            }
        }
        fence(Ordering::Release);
        let failed = failed.or_else(|| self.count(control).err()).or_else(|| {
            let inserts = steps.iter().filter_map(|(p, _)| control.slot(*p)).map(|s| (s.prefix, s.hop));
            let done = match steps.len() {
                0..64 => self.insert_each(inserts),
                _ => self.lpm.load(inserts),
            };
            done.err().map(|e| e.to_string())
        });
        if let Some(message) = failed {
            for (prefix, before) in undo.into_iter().rev() {
                match before {
                    Some(slot) => control.put(slot),
                    None => control.take_out(prefix),
                }
            }
            self.restore(control, steps.iter().map(|(prefix, _)| *prefix));
            // What was there before fits.
            let _ = self.count(control);
            return Err(message);
        }
        for (prefix, _) in steps.iter().filter(|(prefix, _)| control.place(*prefix).is_none()) {
            self.lpm.remove(*prefix);
        }
        Ok(())
    }

    /// Inserts routes one by one; if one fails, those before it are removed again.
    fn insert_each(&self, routes: impl Iterator<Item = (Prefix, u32)>) -> Result<(), LpmError> {
        let mut done = Vec::new();
        for (prefix, hop) in routes {
            match self.lpm.insert(prefix, hop) {
                Ok(old) => done.push((prefix, old)),
                Err(e) => {
                    for (prefix, old) in done.into_iter().rev() {
                        match old {
                            // The memory is allocated already: this cannot fail.
                            Some(hop) => drop(self.lpm.insert(prefix, hop)),
                            None => drop(self.lpm.remove(prefix)),
                        }
                    }
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// Removes every route.
    pub(in crate::lookup) fn flush(&self) {
        let control = &mut *self.control();
        self.lpm.clear();
        for place in std::mem::take(&mut control.by_prefix) {
            control.vacate(place);
        }
        control.positions.clear();
        match &mut control.free {
            Free::First(heap) => heap.clear(),
            Free::Last(stack) => stack.clear(),
        }
    }

    /// Every route on a line, in columns.
    pub(in crate::lookup) fn table(&self) -> String {
        let control = self.control();
        let mut text = String::new();
        for slot in control.slots() {
            let Some(hop) = self.hop(slot.hop) else { continue };
            let members = control.numbers.members(hop);
            let several = members.iter().map(|(member, _)| *member);
            for hop in several.chain(members.is_empty().then_some(hop)) {
                text += &line(slot.prefix, hop.gateway, hop.shown(), '\t');
                text.push('\n');
            }
        }
        text
    }

    /// See [`Lpm::working_set`].
    pub(in crate::lookup) fn working_set(&self) -> usize {
        self.lpm.working_set()
    }

    /// `OUTPUT [GATEWAY]` for an address, or `-1`.
    pub(in crate::lookup) fn lookup(&self, text: &str) -> Result<String, String> {
        let address = address(text.trim(), &runtime::handler_names()).ok_or("expected IP address")?;
        let hop = self.lpm.route(address.to_bits()).and_then(|(_, number)| self.hop(number));
        let hop = hop.map(|h| self.hops.member(h.port, address.to_bits()).unwrap_or(h));
        Ok(match hop {
            Some(NextHop { port: DISCARD, .. }) | None => "-1".into(),
            Some(NextHop { gateway: Some(g), port }) => format!("{port} {g}"),
            Some(NextHop { port, .. }) => port.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(order: Order) -> Routes {
        Routes::new(order, 4).unwrap()
    }

    /// Whether one route too many comes alone or among good ones: there is an error, and no route of the file
    /// is added.
    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let t = table(Order::FirstFree);
        t.transaction("add 1.0.0.0/8 0\nadd 2.0.0.0/8 9.9.9.9 1\nremove 1.0.0.0/8").unwrap();
        let before = t.table();
        let route = |i: u32| (Prefix::host(1 << 31 | i << 8), NextHop { gateway: None, port: i & 1 });
        let many: Vec<_> = (0..=tables::lpm::MAX_GROUPS as u32).map(route).collect();
        let error = t.configure(&many).unwrap_err();
        assert_eq!(error, "routes longer than /24 in too many different /24s, at most 2031616");
        assert_eq!(t.table(), before);
        assert_eq!(
            (t.lookup("128.0.0.0").unwrap(), t.lookup("2.0.0.0").unwrap()),
            ("-1".into(), "1 9.9.9.9".into())
        );
        t.configure(&many[..10]).unwrap();
        assert_eq!((t.table().lines().count(), t.lookup("128.0.1.0").unwrap()), (11, "1".into()));
    }

    #[test]
    fn listing_has_columns() {
        let t = table(Order::FirstFree);
        t.transaction(
            "add 1.0.0.0/8 1\nadd 100.100.100.0/24 2.2.2.2 2\n\nadd 200.200.200.0/24 200.200.200.200 3",
        )
        .unwrap();
        assert_eq!(
            t.table(),
            "1.0.0.0/8\t\t-\t\t1\n100.100.100.0/24\t2.2.2.2\t\t2\n200.200.200.0/24\t200.200.200.200\t3\n"
        );
        t.command(Command::Add, "100.100.100.128/25 1").unwrap();
        assert!(t.table().contains("100.100.100.128/25\t-\t\t1\n"));
    }

    #[test]
    fn places_are_reused_as_in_click() {
        let first = |t: &Routes| {
            t.table().lines().map(|l| l.split('.').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let changes = "add 1.0.0.0/8 0\nadd 2.0.0.0/8 0\nadd 3.0.0.0/8 0\nremove 1.0.0.0/8\nremove 2.0.0.0/8\nadd 4.0.0.0/8 0";
        let linear = table(Order::FirstFree);
        linear.transaction(changes).unwrap();
        assert_eq!(first(&linear), "4 3");
        linear.command(Command::Set, "3.0.0.0/8 1").unwrap();
        assert_eq!(first(&linear), "4 3");
        let radix = table(Order::LastFreed);
        radix.transaction(changes).unwrap();
        assert_eq!(first(&radix), "4 3");
        radix.command(Command::Set, "4.0.0.0/8 1").unwrap();
        assert_eq!(first(&radix), "4 3");
        radix.command(Command::Add, "5.0.0.0/8 1").unwrap();
        assert_eq!(first(&radix), "4 5 3");
    }

    #[test]
    fn refuses_in_clicks_words() {
        let t = table(Order::FirstFree);
        t.command(Command::Add, "1.0.0.0/8 9.9.9.9 1").unwrap();
        let err = |c, text| t.command(c, text).unwrap_err();
        assert_eq!(err(Command::Add, "1.0.0.0/8 2"), "conflict with existing route '1.0.0.0/8 9.9.9.9 1'");
        assert_eq!(err(Command::Add, "1.0.0.0/8 4"), "bad OUTPUT");
        assert_eq!(err(Command::Set, "1.0.0.0/8 -1"), "bad OUTPUT");
        assert_eq!(err(Command::Add, "1.0.0.0/8"), "expected 'ADDR/MASK [GATEWAY] OUTPUT'");
        assert_eq!(err(Command::Remove, ""), "expected 'ADDR/MASK [GATEWAY OUTPUT]'");
        assert_eq!(err(Command::Remove, "2.0.0.0/8"), "route '2.0.0.0/8 - -1' not found");
        assert_eq!(err(Command::Remove, "1.0.0.0/8 1"), "route '1.0.0.0/8 - 1' not found");
        assert_eq!(t.transaction("zap 1.0.0.0/8").unwrap_err(), "bad command 'zap'");
        assert_eq!(t.lookup("1.1.1.1").unwrap(), "1 9.9.9.9");
        t.command(Command::Remove, "1.0.0.0/8 9.9.9.9 1").unwrap();
        assert_eq!(t.lookup("1.1.1.1").unwrap(), "-1");
        assert_eq!(t.lookup("one").unwrap_err(), "expected IP address");
    }

    #[test]
    fn transactions_are_all_or_nothing() {
        let t = table(Order::LastFreed);
        t.transaction("add 1.0.0.0/8 0\nadd 2.0.0.0/8 1").unwrap();
        let before = t.table();
        for bad in [
            "remove 1.0.0.0/8\nadd 3.0.0.0/8 1\nadd 3.0.0.0/8 2",
            "set 1.0.0.0/8 3\nremove 4.0.0.0/8",
            "add 5.0.0.0/8 2\nfoo",
        ] {
            assert!(t.transaction(bad).is_err());
            assert_eq!(t.table(), before);
            assert_eq!(
                (t.lookup("1.1.1.1").unwrap(), t.lookup("3.0.0.0").unwrap()),
                ("0".into(), "-1".into())
            );
        }
        t.transaction("remove 1.0.0.0/8\nadd 1.0.0.0/8 3\nset 1.0.0.0/8 2\nremove 2.0.0.0/8").unwrap();
        assert_eq!((t.lookup("1.1.1.1").unwrap(), t.lookup("2.0.0.0").unwrap()), ("2".into(), "-1".into()));
        t.flush();
        assert_eq!((t.table(), t.lookup("1.1.1.1").unwrap()), (String::new(), "-1".into()));
        t.command(Command::Add, "1.0.0.0/8 1").unwrap();
        assert_eq!(t.lookup("1.1.1.1").unwrap(), "1");
    }

    #[test]
    fn large_transactions_load_at_once() {
        let t = table(Order::FirstFree);
        let text: String =
            (0..5000).map(|i| format!("add 10.{}.{}.0/24 {}\n", i / 256, i % 256, i % 4)).collect();
        t.transaction(&text).unwrap();
        assert_eq!(t.table().lines().count(), 5000);
        assert_eq!(t.lookup("10.1.1.9").unwrap(), "1");
        t.transaction(&text.replace("add", "remove")).unwrap();
        assert_eq!((t.table(), t.lookup("10.1.1.9").unwrap()), (String::new(), "-1".into()));
    }
    #[test]
    fn of_many_routes_for_one_prefix_the_first_counts() {
        let hop = |port| NextHop { gateway: None, port };
        let prefix = |i: u32| Prefix::new(10 << 24 | i << 8, 24).unwrap();
        let len = MANY as u32;
        let mut routes: Vec<_> = (0..len).rev().map(|i| (prefix(i), hop(i % 3))).collect();
        routes.extend((0..3).map(|i| (prefix(i), hop(3))));
        let t = table(Order::FirstFree);
        assert_eq!(t.configure(&routes), Ok(3));
        assert_eq!(t.table().lines().count(), MANY);
        assert!(t.table().starts_with(&format!("10.{}.255.0/24\t", (len >> 8) - 1)));
        for (i, port) in [(0, "0"), (1, "1"), (2, "2"), (len - 1, "0")] {
            assert_eq!(t.lookup(&format!("10.{}.{}.1", i >> 8, i & 255)).unwrap(), port, "{i}");
        }
        t.command(Command::Remove, "10.0.1.0/24").unwrap();
        assert_eq!(t.lookup("10.0.1.1").unwrap(), "-1");
        t.flush();
        assert_eq!(t.configure(&routes[..MANY]), Ok(0));
        assert_eq!(t.lookup("10.0.2.1").unwrap(), "2");
    }
}
