//! Stride-scheduled tasks and the timer queue of one worker.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Click's stride of a task with one ticket.
const STRIDE1: u32 = 1 << 16;
/// Click's default number of tickets.
pub const DEFAULT_TICKETS: u32 = 1024;
/// Click's largest number of tickets.
pub const MAX_TICKETS: u32 = 1 << 15;

#[derive(Clone, Copy, Debug)]
struct Task {
    pass: u64,
    /// What `pass` grows by: [`STRIDE1`] divided by the tickets.
    stride: u32,
    tickets: u32,
    queued: bool,
    /// When it has its turn among those that wait for the same, in the time of [`Turns`].
    turn: u64,
}

/// Who is first each time when there is room again for which tasks wait: the tasks in turn, in proportion to
/// their tickets, and those that do not wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    now: u64,
    /// The turn of those that do not wait.
    others: u64,
    /// Who was first; none: those that do not wait.
    first: Option<u32>,
    /// The task that has taken the last room.
    pub(crate) filler: Option<u32>,
}

/// When a task is due: its pass, its place among equals, its slot.
type Due = (u64, u64, u32);

/// The run queue: each element has at most one task, known by its slot.
///
/// Stride scheduling (Waldspurger and Weihl): a task with twice the tickets runs twice as often. Equal
/// tickets give round robin in the order of scheduling.
#[derive(Debug, Default)]
pub struct RunQueue {
    tasks: Vec<Task>,
    /// The task to run next, so that a worker with one task never uses the heap.
    first: Option<Due>,
    /// The others.
    heap: BinaryHeap<Reverse<Due>>,
    seq: u64,
    now: u64,
}

impl RunQueue {
    /// A queue for `slots` elements.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        let stride = STRIDE1 / DEFAULT_TICKETS;
        let task = Task { pass: 0, stride, tickets: DEFAULT_TICKETS, queued: false, turn: 0 };
        Self { tasks: vec![task; slots], ..Self::default() }
    }
    /// Sets a task's share.
    pub fn set_tickets(&mut self, slot: u32, tickets: u32) {
        let task = &mut self.tasks[slot as usize];
        task.tickets = tickets.clamp(1, MAX_TICKETS);
        task.stride = STRIDE1 / task.tickets;
    }
    /// A task's share.
    #[must_use]
    pub fn tickets(&self, slot: u32) -> u32 {
        self.tasks[slot as usize].tickets
    }
    /// Puts a task into the queue unless it is there.
    pub fn schedule(&mut self, slot: u32) {
        let task = &mut self.tasks[slot as usize];
        if !task.queued {
            task.queued = true;
            // A task that slept must not catch up on the time it missed.
            task.pass = task.pass.max(self.now) + u64::from(task.stride);
            let due = (task.pass, self.seq, slot);
            self.seq += 1;
            self.insert(due);
        }
    }
    fn insert(&mut self, due: Due) {
        match &mut self.first {
            None => self.first = Some(due),
            Some(first) if due < *first => self.heap.push(Reverse(std::mem::replace(first, due))),
            Some(_) => self.heap.push(Reverse(due)),
        }
    }
    /// Puts tasks into the queue that have waited for room. Whoever comes first may take all of it: who that
    /// is changes from time to time.
    pub(crate) fn wake(&mut self, tasks: &[u32], turns: &mut Turns, running: Option<u32>) {
        if tasks.is_empty() {
            return;
        }
        let waits = |all: &[Task], slot: u32| !all[slot as usize].queued && running != Some(slot);
        let filler = turns.filler.filter(|slot| tasks.contains(slot) && waits(&self.tasks, *slot));
        if filler != turns.first {
            self.charge(filler, turns);
        }
        let mut first = (turns.others.max(turns.now), None);
        for &slot in tasks.iter().filter(|slot| waits(&self.tasks, **slot)) {
            let turn = self.tasks[slot as usize].turn.max(turns.now);
            if turn < first.0 {
                first = (turn, Some(slot));
            }
        }
        (turns.now, turns.first) = first;
        self.charge(turns.first, turns);
        if let Some(slot) = turns.first {
            // What it was put into the queue for last, it did not get.
            self.tasks[slot as usize].queued = true;
            self.insert((self.now, 0, slot));
        }
        tasks.iter().for_each(|slot| self.schedule(*slot));
    }
    /// Counts a turn of a task, or of those that do not wait.
    fn charge(&mut self, who: Option<u32>, turns: &mut Turns) {
        let (turn, stride) = match who {
            Some(slot) => {
                let task = &mut self.tasks[slot as usize];
                (&mut task.turn, task.stride)
            }
            None => (&mut turns.others, STRIDE1 / DEFAULT_TICKETS),
        };
        *turn = (*turn).max(turns.now) + u64::from(stride);
    }
    /// Takes a task out of the queue.
    pub fn unschedule(&mut self, slot: u32) {
        if self.tasks[slot as usize].queued {
            self.tasks[slot as usize].queued = false;
            if self.first.is_some_and(|(_, _, first)| first == slot) {
                self.first = self.heap.pop().map(|Reverse(due)| due);
            } else {
                self.heap.retain(|Reverse((_, _, s))| *s != slot);
            }
        }
    }
    /// Whether a task is queued.
    #[must_use]
    pub fn scheduled(&self, slot: u32) -> bool {
        self.tasks[slot as usize].queued
    }
    /// The next task to run; it leaves the queue.
    pub fn next(&mut self) -> Option<u32> {
        let (pass, _, slot) = self.first?;
        self.first = if self.heap.is_empty() { None } else { self.heap.pop().map(|Reverse(due)| due) };
        self.now = pass;
        self.tasks[slot as usize].queued = false;
        Some(slot)
    }
    /// The tasks in the queue, in no particular order.
    pub fn queued(&self) -> impl Iterator<Item = u32> + '_ {
        self.first.iter().chain(self.heap.iter().map(|Reverse(due)| due)).map(|(_, _, slot)| *slot)
    }
    /// Asks the processor to fetch what [`RunQueue::next`] and [`RunQueue::schedule`] use.
    pub(crate) fn prefetch(&self) {
        dpdk::prefetch(self.tasks.as_slice(), 8);
        self.heap.iter().take(1).for_each(|due| dpdk::prefetch(due, 1));
    }
    /// How many tasks wait.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.heap.len()
    }
    /// Whether no task waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// When a timer is due: its time, in nanoseconds of the worker's clock, and what decides between timers that
/// are due at the same time: the clock's stamp, and then which was set first.
type Expiry = (u64, u64, u64);

/// Timers by expiry, each known by (slot, id).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Timers {
    /// The earliest expiry.
    next: Option<u64>,
    queue: BTreeMap<Expiry, (u32, u32)>,
    keys: HashMap<(u32, u32), Expiry>,
    seq: u64,
    /// The stamp of the timer that has expired last.
    pub(crate) stamp: u64,
}

impl Timers {
    /// Sets a timer, replacing its earlier expiry.
    pub fn set(&mut self, slot: u32, id: u32, at_ns: u64, stamp: u64) {
        self.cancel(slot, id);
        let key = (at_ns, stamp, self.seq);
        self.seq += 1;
        self.queue.insert(key, (slot, id));
        self.keys.insert((slot, id), key);
        self.next = Some(self.next.map_or(at_ns, |next| next.min(at_ns)));
    }
    /// Cancels a timer.
    pub fn cancel(&mut self, slot: u32, id: u32) {
        if let Some(key) = self.keys.remove(&(slot, id)) {
            self.queue.remove(&key);
            self.look();
        }
    }
    fn look(&mut self) {
        self.next = self.queue.keys().next().map(|key| key.0);
    }
    /// Whether a timer is set, and for when.
    #[must_use]
    pub fn expiry(&self, slot: u32, id: u32) -> Option<u64> {
        self.keys.get(&(slot, id)).map(|k| k.0)
    }
    /// The timers of an element and when they expire, the first to expire first.
    pub(crate) fn of(&self, slot: u32) -> Vec<(u32, u64)> {
        let own = self.queue.iter().filter(|(_, (of, _))| *of == slot);
        own.map(|(key, (_, id))| (*id, key.0)).collect()
    }
    /// How many timers are set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.queue.len()
    }
    /// The earliest expiry.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        self.next
    }
    /// The earliest expiry, with its stamp.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.queue.keys().next().map(|key| (key.0, key.1))
    }
    /// Takes the earliest timer that has expired at `now_ns`.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<(u32, u32)> {
        if self.next? > now_ns {
            return None;
        }
        let (key, who) = self.queue.pop_first()?;
        self.stamp = key.1;
        self.keys.remove(&who);
        self.look();
        Some(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(q: &mut RunQueue, n: usize) -> Vec<u32> {
        (0..n)
            .map(|_| {
                let t = q.next().unwrap();
                q.schedule(t);
                t
            })
            .collect()
    }

    #[test]
    fn equal_tickets_take_turns_in_order() {
        let mut q = RunQueue::new(3);
        [2, 0, 1].into_iter().for_each(|t| q.schedule(t));
        assert_eq!(run(&mut q, 6), [2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn all_who_want_room_in_a_queue_get_some() {
        // Task 0 makes room in two queues in turn. Tasks fill one queue or either of both; they wait while
        // all of theirs are full, or are always there. Some that could wait have nothing to send.
        for seed in 1..500u64 {
            let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |n: u64| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                (x >> 20) % n
            };
            let n = 2 + random(5) as usize;
            let mut q = RunQueue::new(n);
            let kinds: Vec<(u64, u64, bool)> =
                (0..n).map(|_| (random(3), random(3), random(5) == 0)).collect();
            let of = |queue: u64, task: usize| task > 0 && (kinds[task].0 == queue || kinds[task].0 == 2);
            let waits = |task: usize| kinds[task].1 != 0;
            let listeners = [0, 1].map(|queue| {
                (1..n).filter(|t| of(queue, *t) && waits(*t)).map(|t| t as u32).collect::<Vec<_>>()
            });
            for task in 1..n as u32 {
                q.set_tickets(task, 1024 * (1 + random(4) as u32));
            }
            (0..n as u32).for_each(|task| q.schedule(task));
            let (mut full, mut turns) = ([false; 2], [Turns::default(); 2]);
            let (mut served, mut emptied) = (vec![0u64; n], 0usize);
            for _ in 0..30_000 {
                let task = q.next().unwrap();
                let t = task as usize;
                if t == 0 {
                    let at = emptied % 2;
                    emptied += 1;
                    if std::mem::take(&mut full[at]) {
                        q.wake(&listeners[at], &mut turns[at], Some(0));
                    }
                    q.schedule(0);
                    continue;
                }
                let room = |full: &[bool; 2]| (0..2).any(|at| of(at as u64, t) && !full[at]);
                let at = if kinds[t].0 == 2 { random(2) } else { kinds[t].0 } as usize;
                if (room(&full) || !waits(t)) && !kinds[t].2 && !full[at] {
                    full[at] = true;
                    turns[at].filler = Some(task);
                    served[t] += 1;
                }
                if room(&full) || !waits(t) {
                    q.schedule(task);
                }
            }
            for t in (1..n).filter(|t| !kinds[*t].2 && kinds[*t].0 < 2) {
                let rivals = (1..n).filter(|other| of(kinds[t].0, *other));
                let (all, tickets) = rivals.fold((0, 0), |(all, tickets), r| {
                    (all + served[r], tickets + u64::from(q.tickets(r as u32)))
                });
                // Those that do not wait have one turn together.
                let fair = all * u64::from(q.tickets(t as u32)) / tickets;
                assert!(
                    !waits(t) || served[t] * 4 > fair,
                    "seed {seed}, task {t}: {served:?} of {kinds:?}, {fair} is fair"
                );
            }
        }
    }

    #[test]
    fn tickets_are_shares_of_the_room_in_a_queue() {
        let mut q = RunQueue::new(4);
        q.set_tickets(1, 2048);
        (0..3).for_each(|task| q.schedule(task));
        let (mut full, mut turns, mut served) = (false, Turns::default(), [0u32; 3]);
        for _ in 0..30_000 {
            let task = q.next().unwrap();
            if task == 0 {
                if std::mem::take(&mut full) {
                    q.wake(&[1, 2], &mut turns, Some(0));
                }
                q.schedule(0);
            } else if !full {
                (full, turns.filler) = (true, Some(task));
                served[task as usize] += 1;
            }
        }
        let (twice, once) = (served[1], served[2]);
        assert!(once > 1000 && twice.abs_diff(2 * once) < twice / 20, "{served:?}");
    }

    #[test]
    fn tickets_are_shares() {
        let mut q = RunQueue::new(2);
        q.set_tickets(0, 3072);
        q.schedule(0);
        q.schedule(1);
        let runs = run(&mut q, 4000);
        let first = runs.iter().filter(|t| **t == 0).count();
        assert!((2980..=3020).contains(&first), "{first}");
    }

    #[test]
    fn a_share_is_read_as_it_was_set() {
        let mut q = RunQueue::new(1);
        q.set_tickets(0, 3000);
        assert_eq!(q.tickets(0), 3000);
    }

    #[test]
    fn a_sleeper_does_not_catch_up() {
        let mut q = RunQueue::new(2);
        q.schedule(0);
        run(&mut q, 1000);
        q.schedule(1);
        let runs = run(&mut q, 10);
        assert_eq!(runs.iter().filter(|t| **t == 1).count(), 5);
    }

    #[test]
    fn timers_fire_in_order_once() {
        let mut t = Timers::default();
        t.set(1, 0, 50, 0);
        t.set(2, 0, 20, 1);
        t.set(1, 0, 10, 2);
        assert_eq!(t.pop_due(9), None);
        assert_eq!(t.pop_due(100), Some((1, 0)));
        assert_eq!(t.pop_due(100), Some((2, 0)));
        assert_eq!(t.pop_due(100), None);
        // At the same time, the stamp decides.
        t.set(1, 0, 10, 9);
        t.set(2, 0, 10, 3);
        t.set(3, 0, 10, 9);
        assert_eq!(t.first(), Some((10, 3)));
        assert_eq!([2, 1, 3].map(|slot| t.pop_due(10) == Some((slot, 0))), [true; 3]);
    }
}
