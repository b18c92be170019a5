//! Which worker has which transmit queue, where a port has fewer queues than workers that send to it: the
//! worker that sends most, so that the fewest packets change workers (Virtual routers, CoNEXT 2008, section
//! 2.5: outgoing interfaces are mapped dynamically to the core that sends them most traffic).

/// A worker takes a queue over only if it sends so many times as much as the one that has it.
const CLEARLY: f64 = 1.25;
/// ... and that in so many intervals in a row.
const IN_A_ROW: u32 = 3;
/// ... and so many packets in each of them at least: of a few packets it does not matter where they go.
const LEAST: u64 = 64;

/// A queue as it is when a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    /// The worker that has it; `None`: nobody sends by it.
    pub(super) owner: Option<usize>,
    /// Whether the device takes packets from it.
    pub(super) usable: bool,
}

/// A worker is to have another worker's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The worker that takes over.
    pub(super) worker: usize,
    /// The index of the queue.
    pub(super) queue: usize,
    /// Why: how much it sends, and how much the worker that had the queue.
    pub(super) reason: String,
}

/// What has been measured up to now.
#[derive(Debug, Default)]
pub(super) struct Decider {
    /// The packets of each worker at the end of the last interval.
    counted: Vec<u64>,
    /// The worker and the queue that would change, and for how many intervals that has been so.
    candidate: Option<(usize, usize)>,
    intervals: u32,
}

impl Decider {
    /// Begins with an interval, before which each worker has had so many packets.
    pub(super) fn beginning_at(counted: &[u64]) -> Self {
        Self { counted: counted.to_vec(), ..Self::default() }
    }

    /// Ends an interval. `counted` has the packets that each worker has had for the port since the start,
    /// `sends_by` the queue of each worker, `may_own` the workers that may have a queue. Returns what is to
    /// change.
    pub(super) fn decide(
        &mut self,
        counted: &[u64],
        queues: &[Queue],
        sends_by: &[usize],
        may_own: &[usize],
    ) -> Option<Change> {
        let sent: Vec<u64> = counted
            .iter()
            .enumerate()
            .map(|(worker, n)| n.saturating_sub(self.counted.get(worker).copied().unwrap_or(0)))
            .collect();
        self.counted = counted.to_vec();
        let best = best(&sent, queues, sends_by, may_own);
        let found = best.map(|(worker, queue, _)| (worker, queue));
        self.intervals = if found.is_some() && found == self.candidate { self.intervals + 1 } else { 1 };
        self.candidate = found;
        let (worker, queue, owned) = best.filter(|_| self.intervals >= IN_A_ROW)?;
        (self.candidate, self.intervals) = (None, 0);
        let had = match queues[queue].owner {
            Some(owner) => format!("{owned} of worker {owner}, which had the queue"),
            None => "a queue that nobody used".to_owned(),
        };
        Some(Change { worker, queue, reason: format!("{} packets of worker {worker}, {had}", sent[worker]) })
    }
}

/// The worker without a queue and the queue that it should have: those for which most packets would be spared
/// the change of workers. Also what the owner of that queue has sent.
fn best(
    sent: &[u64],
    queues: &[Queue],
    sends_by: &[usize],
    may_own: &[usize],
) -> Option<(usize, usize, u64)> {
    let by_owner = |queue: usize| queues[queue].owner.map_or(0, |owner| sent[owner]);
    let usable = || (0..queues.len()).filter(|&queue| queues[queue].usable);
    let least = usable().min_by_key(|&queue| (by_owner(queue), queue))?;
    let owns = |worker: usize| queues.iter().any(|queue| queue.owner == Some(worker));
    let candidates = may_own.iter().copied().filter(|&worker| !owns(worker) && sent[worker] >= LEAST);
    let clearly = |worker: usize, queue: usize| sent[worker] as f64 > CLEARLY * by_owner(queue) as f64;
    let gains = candidates.filter_map(|worker| {
        // The queue by which its packets go already is the better one, unless another one gains clearly more:
        // then they need not be held back until those before them have gone.
        let mine = sends_by[worker];
        let gain = |queue: usize| sent[worker] - by_owner(queue).min(sent[worker]);
        let stays = queues[mine].usable && clearly(worker, mine);
        let queue = if stays && gain(least) as f64 <= CLEARLY * gain(mine) as f64 { mine } else { least };
        clearly(worker, queue).then(|| (worker, queue, gain(queue)))
    });
    let (worker, queue, _) = gains.max_by_key(|&(worker, _, gain)| (gain, std::cmp::Reverse(worker)))?;
    Some((worker, queue, by_owner(queue)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(owners: &[usize]) -> Vec<Queue> {
        owners.iter().map(|&owner| Queue { owner: Some(owner), usable: true }).collect()
    }

    /// What is decided after each interval of these packets of each worker.
    fn decisions(
        intervals: &[&[u64]],
        queues: &[Queue],
        sends_by: &[usize],
        may_own: &[usize],
    ) -> Vec<Option<(usize, usize)>> {
        let mut decider = Decider::default();
        let mut counted = vec![0; sends_by.len()];
        let decide = |sent: &&[u64]| {
            counted.iter_mut().zip(*sent).for_each(|(sum, n)| *sum += n);
            decider.decide(&counted, queues, sends_by, may_own).map(|change| (change.worker, change.queue))
        };
        intervals.iter().map(decide).collect()
    }

    #[test]
    fn a_queue_goes_to_the_worker_that_sends_clearly_more_for_some_time() {
        let one = queues(&[0]);
        let same = |sent: &[u64; 2]| decisions(&[sent, sent, sent], &one, &[0, 0], &[0, 1]);
        assert_eq!(same(&[1000, 1300]), [None, None, Some((1, 0))]);
        assert_eq!(same(&[1000, 1250]), [None; 3], "not clearly more");
        assert_eq!(same(&[0, 63]), [None; 3], "too few to matter");
        let with_a_pause: [&[u64]; 5] = [&[0, 1000], &[0, 1000], &[900, 1000], &[0, 1000], &[0, 1000]];
        assert_eq!(decisions(&with_a_pause, &one, &[0, 0], &[0, 1]), [None; 5]);
    }

    #[test]
    fn the_workers_that_send_most_have_the_queues() {
        let two = queues(&[0, 1]);
        let after =
            |sent: &[u64; 4]| decisions(&[sent; 3].map(|s| &s[..]), &two, &[0, 1, 0, 1], &[0, 1, 2, 3])[2];
        assert_eq!(after(&[1000, 1000, 500, 500]), None);
        assert_eq!(after(&[1000, 1000, 2000, 5000]), Some((3, 1)), "who sends most, by its own queue");
        assert_eq!(after(&[9000, 0, 5000, 0]), Some((2, 1)), "a queue whose worker sends nothing is free");
        assert_eq!(after(&[9000, 100, 8000, 0]), Some((2, 1)), "by another queue than before");
        assert_eq!(after(&[1000, 900, 8000, 0]), Some((2, 0)), "as good as another queue");
    }

    #[test]
    fn a_queue_that_is_not_served_or_not_for_all_is_left_alone() {
        let mut two = queues(&[0, 1]);
        two[1] = Queue { owner: None, usable: false };
        let sent: [&[u64]; 3] = [&[900, 1000, 0]; 3];
        assert_eq!(decisions(&sent, &two, &[0, 0, 0], &[0, 1, 2])[2], None);
        two[1].usable = true;
        assert_eq!(decisions(&sent, &two, &[0, 0, 0], &[0, 1, 2])[2], Some((1, 1)));
        assert_eq!(decisions(&sent, &two, &[0, 0, 0], &[0])[2], None, "worker 1 may not have a queue");
    }
}
