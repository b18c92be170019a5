//! The rate limit of messages: a token bucket for each kind of message, in a table of a fixed size. There is
//! no lock, because workers log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The number of messages of one kind that may be logged at once,
const BURST: u64 = 100;
/// and the number a second after that.
pub(crate) const PER_SECOND: u64 = 10;
/// The time in which a bucket gets a token, in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000 / PER_SECOND;

/// A kind has its bucket in one of this many groups,
const GROUPS: usize = 64;
/// which have this many buckets each.
const BUCKETS: usize = 16;

/// The token buckets.
pub(crate) struct Limit {
    groups: Box<[[Bucket; BUCKETS]]>,
    began: Instant,
    /// Messages that were left out, and whose bucket has been given to another kind.
    left_out: AtomicU64,
}

#[derive(Default)]
struct Bucket {
    /// The kind of message; 0: none yet.
    kind: AtomicU64,
    /// When it will be full again, in nanoseconds since the limit began. From this follows how many tokens
    /// there are (the generic cell rate algorithm).
    full_at_ns: AtomicU64,
    /// Messages left out since the last one that was not.
    left_out: AtomicU64,
}

impl Limit {
    pub(crate) fn new(now: Instant) -> Self {
        let groups = (0..GROUPS).map(|_| std::array::from_fn(|_| Bucket::default())).collect();
        Self { groups, began: now, left_out: AtomicU64::new(0) }
    }
    /// Whether a message may be logged, and how many of its kind were left out since the last one that was.
    /// Kinds are hashes: two kinds must not have the same one.
    pub(crate) fn pass(&self, kind: u64, now: Instant) -> Option<u64> {
        let now_ns = now.saturating_duration_since(self.began).as_nanos() as u64;
        let bucket = self.bucket(kind, now_ns);
        let take = |full_at_ns: u64| {
            let from_ns = full_at_ns.max(now_ns);
            (from_ns - now_ns <= (BURST - 1) * INTERVAL_NS).then_some(from_ns + INTERVAL_NS)
        };
        if bucket.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            bucket.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(bucket.left_out.swap(0, Ordering::Relaxed))
    }
    /// Messages that were left out, and have not been reported as left out yet.
    pub(crate) fn left_out(&self) -> u64 {
        let buckets = self.groups.iter().flatten();
        let now: u64 = buckets.map(|bucket| bucket.left_out.load(Ordering::Relaxed)).sum();
        now + self.left_out.load(Ordering::Relaxed)
    }
    /// The bucket of a kind. Two threads that log the first message of a kind at the same time may use two
    /// buckets, and a kind may lose its bucket while a message takes a token: then a few messages too many,
    /// or too few, are logged.
    fn bucket(&self, kind: u64, now_ns: u64) -> &Bucket {
        let kind = kind.max(1);
        let group = &self.groups[kind as usize % GROUPS];
        loop {
            if let Some(own) = group.iter().find(|bucket| bucket.kind.load(Ordering::Relaxed) == kind) {
                return own;
            }
            // A full bucket is as good as a new one.
            let full = group.iter().find(|bucket| bucket.full_at_ns.load(Ordering::Relaxed) <= now_ns);
            let Some(bucket) = full else {
                // So many kinds are being limited that this one has to share.
                return &group[(kind >> 32) as usize % BUCKETS];
            };
            let before = bucket.kind.load(Ordering::Relaxed);
            if bucket.kind.compare_exchange(before, kind, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                let left_out = bucket.left_out.swap(0, Ordering::Relaxed);
                self.left_out.fetch_add(left_out, Ordering::Relaxed);
                return bucket;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{BuildHasher, RandomState};
    use std::time::Duration;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let limit = Limit::new(start);
        let passed = |kind, at_ms| {
            let now = start + Duration::from_millis(at_ms);
            (0..1000).filter_map(|_| limit.pass(kind, now)).collect::<Vec<_>>()
        };
        assert_eq!(passed(7, 0), vec![0; 100]);
        // Another kind has its own limit.
        assert_eq!(passed(8, 0), vec![0; 100]);
        // Ten more after a second; the first of them reports how many were left out.
        let next = passed(7, 1000);
        assert_eq!((next.len(), next[0], next[1]), (10, 900, 0));
        assert_eq!(limit.left_out(), 900 + 990);
        // The burst never grows.
        assert_eq!(passed(7, 1_000_000).len(), 100);
    }

    #[test]
    fn floods_of_many_kinds_do_not_suppress_each_other() {
        let start = Instant::now();
        let limit = Limit::new(start);
        let (hashes, kinds) = (RandomState::new(), 200_u64);
        for kind in (0..kinds).map(|n| hashes.hash_one(n)) {
            let passed = (0..150).filter(|_| limit.pass(kind, start).is_some()).count();
            assert_eq!(passed, 100);
        }
        assert_eq!(limit.left_out(), kinds * 50);
    }

    #[test]
    fn kinds_that_are_over_make_way_for_others_and_stay_counted() {
        let start = Instant::now();
        let limit = Limit::new(start);
        let hashes = RandomState::new();
        // More kinds than there are buckets, each when those before it are over.
        for n in 0..2000_u64 {
            let (kind, now) = (hashes.hash_one(n), start + Duration::from_secs(n * 11));
            let passed = (0..101).filter(|_| limit.pass(kind, now).is_some()).count();
            assert_eq!(passed, 100, "{n}");
        }
        assert_eq!(limit.left_out(), 2000);
        // All at once: they share, and the table does not grow.
        let (end, limit) = (start + Duration::from_secs(1), Limit::new(start));
        let messages = (0..400_000_u64).map(|n| hashes.hash_one(n / 20));
        let passed = messages.filter(|kind| limit.pass(*kind, end).is_some()).count();
        assert!(passed <= GROUPS * BUCKETS * 100, "{passed}");
        assert_eq!(limit.left_out(), 400_000 - passed as u64);
    }

    #[test]
    fn workers_that_log_at_once_share_a_limit() {
        let start = Instant::now();
        let limit = Limit::new(start);
        // The kind is known before the others begin.
        assert_eq!(limit.pass(7, start), Some(0));
        let flood = || (0..1000).filter(|_| limit.pass(7, start).is_some()).count();
        let passed: usize = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(flood)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!((passed, limit.left_out()), (99, 4000 - 99));
    }
}
