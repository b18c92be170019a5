//! The rebalancer of an element that spreads flows over workers in software: on the control thread it reads
//! what the workers have counted, asks the policy (crate `rebalance`), and changes the indirection table.

use super::exchange::Exchange;
use super::history::History;
use super::indirection::{Indirection, Readings};
use crate::prelude::*;
use rebalance::{Interval, Policy, Round, Settings, Stay, Verdict, imbalance};
use runtime::{Control, ControlTask};
use std::any::Any;
use std::sync::Arc;

/// How often it looks. What the policy decides on lasts for two intervals.
const INTERVAL_NS: u64 = 50_000_000;
/// How often while no packets come.
const QUIET_NS: u64 = 200_000_000;
/// The part on the control thread.
pub(super) struct Rebalancer {
    element: String,
    exchange: Arc<Exchange>,
    history: Arc<History>,
    policy: Policy,
    /// What was read at the end of the last interval, with the time stamp counter.
    before: Option<(Readings, u64)>,
    key_version: u64,
    next_ns: u64,
}

impl Rebalancer {
    /// Rebalances the table of the element that is being configured.
    pub(super) fn new(element: &str, exchange: &Arc<Exchange>, history: &Arc<History>) -> Self {
        Self {
            element: element.to_owned(),
            exchange: Arc::clone(exchange),
            history: Arc::clone(history),
            policy: Policy::new(Settings::default()),
            before: None,
            key_version: 0,
            next_ns: 0,
        }
    }

    /// Ends an interval. Returns what is to be logged, and whether packets have come.
    fn look(&mut self, table: &Indirection, now_ns: u64, cycles: u64) -> (Option<String>, bool) {
        let readings = table.readings();
        let Some((before, began)) = self.before.replace((readings.clone(), cycles)) else {
            return (None, false);
        };
        let differences = |now: &[u64], before: &[u64]| -> Vec<u64> {
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        let packets = differences(&readings.packets, &before.packets);
        let any = packets.iter().any(|n| *n > 0);
        let elapsed = cycles.saturating_sub(began).max(1) as f64;
        let busy = differences(&readings.busy_cycles, &before.busy_cycles);
        let busy: Vec<f64> = busy.into_iter().map(|busy| (busy as f64 / elapsed).min(1.0)).collect();
        let mut loads = vec![0u64; table.workers().len()];
        for (packets, place) in packets.iter().zip(&readings.table) {
            loads[usize::from(*place)] += packets;
        }
        self.history.measured(imbalance(&loads));
        if table.key_version() != self.key_version {
            // Each bucket has other flows now.
            self.key_version = table.key_version();
            self.policy.forget();
        }
        let parked = table.workers().len() - readings.awake;
        if parked > 0 {
            // Workers that wake get their buckets back.
            self.policy.forget();
            self.history.stays(Stay::Parked(parked));
            return (None, any);
        }
        let interval =
            Interval { packets: &packets, table: &readings.table, busy: &busy, moving: readings.moving };
        let verdict = self.policy.decide(&interval);
        if !self.history.is_on() {
            self.policy.forget();
            return (None, any);
        }
        match verdict {
            Verdict::Stay(stay) => {
                self.history.stays(stay);
                (None, any)
            }
            Verdict::Move(round) => {
                let changes: Vec<(usize, u16)> =
                    round.moves.iter().map(|one| (one.bucket, one.to as u16)).collect();
                table.set(&changes);
                let reason = reason(&round, table.workers());
                self.history.moved(lines(&round, table.workers(), &reason, now_ns));
                let plural = if changes.len() == 1 { "bucket goes" } else { "buckets go" };
                let text = format!("{}: {} {plural} to other workers: {reason}", self.element, changes.len());
                (Some(text), any)
            }
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What the moves of a round are for.
fn reason(round: &Round, workers: &[usize]) -> String {
    let shares = workers.iter().zip(&round.shares);
    let shares: Vec<String> =
        shares.map(|(worker, share)| format!("worker {worker} {}", percent(*share))).collect();
    let ms = round.intervals as u64 * INTERVAL_NS / 1_000_000;
    let (before, after) = (percent(round.before), percent(round.after));
    format!("of the packets of {ms} ms {}; imbalance {before}, with the new table {after}", shares.join(", "))
}

/// A line for each move.
fn lines(round: &Round, workers: &[usize], reason: &str, now_ns: u64) -> Vec<String> {
    let name = |place: usize| workers.get(place).map_or_else(|| "?".to_owned(), usize::to_string);
    let line = |one: &rebalance::Move| {
        format!(
            "{}.{:03} bucket {} ({}) from worker {} to worker {}: {reason}",
            now_ns / 1_000_000_000,
            now_ns / 1_000_000 % 1000,
            one.bucket,
            percent(one.share),
            name(one.from),
            name(one.to)
        )
    };
    round.moves.iter().map(line).collect()
}

impl ControlTask for Rebalancer {
    fn poll(&mut self, router: &mut dyn Control) -> Option<u64> {
        let exchange = Arc::clone(&self.exchange);
        // Only where flows are spread in software is there a table.
        let table = exchange.known_indirection()?;
        let now = router.now_ns();
        if now < self.next_ns {
            return Some(self.next_ns);
        }
        let (text, any) = self.look(table, now, dpdk::cycles());
        if let Some(text) = text {
            router.hub().log(Level::INFO, &self.element, &text);
        }
        self.next_ns = now + if any { INTERVAL_NS } else { QUIET_NS };
        Some(self.next_ns)
    }
    fn take_over(&mut self, old: &mut dyn Any) {
        if let Some(old) = old.downcast_mut::<Self>() {
            std::mem::swap(&mut self.policy, &mut old.policy);
            self.before = old.before.take();
            self.policy.forget();
        }
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::Lanes;

    fn table() -> Indirection {
        let lanes = Lanes { poll: vec![vec![0], vec![]], spread: vec![0, 1], ..Lanes::default() };
        Indirection::new(&lanes, Some(&[1; 40]))
    }

    /// Intervals in which the buckets of worker 0 get twice the packets of others; how many rounds of moves
    /// come of it.
    fn run(rebalancer: &mut Rebalancer, table: &Indirection, intervals: u64) -> usize {
        let poller = table.poller(0);
        let mut rounds = 0;
        for n in 0..intervals {
            for bucket in 0..table.buckets() {
                (0..if bucket % 2 == 0 { 40 } else { 20 }).for_each(|_| poller.count(bucket));
            }
            [0, 1].iter().for_each(|place| table.seat(*place).add_busy(900));
            let (text, any) = rebalancer.look(table, n * INTERVAL_NS, (n + 1) * 1000);
            rounds += usize::from(text.is_some());
            assert!(any || n == 0);
            // The worker that polls has moved them.
            poller.say(table.version(), 0, poller.moved());
        }
        rounds
    }

    #[test]
    fn buckets_move_once_and_the_log_says_why() {
        let (table, history) = (table(), Arc::new(History::new(true)));
        let mut rebalancer = Rebalancer::new("in", &Arc::default(), &history);
        assert_eq!(run(&mut rebalancer, &table, 30), 2, "64 buckets have to move, 32 at a time");
        let log = history.log();
        let first = log.lines().next().unwrap();
        assert!(
            first.contains("from worker 0 to worker 1: of the packets of 100 ms worker 0 66.7 %"),
            "{first}"
        );
        assert!(
            history.status().contains("state\tthe workers have as many packets, but for"),
            "{}",
            history.status()
        );
        let moves = format!("moves\t{}\n", log.lines().count());
        assert!(history.status().contains(&moves), "{}", history.status());
    }

    #[test]
    fn nothing_moves_while_it_is_off() {
        let (table, history) = (table(), Arc::new(History::new(false)));
        let mut rebalancer = Rebalancer::new("in", &Arc::default(), &history);
        assert_eq!(run(&mut rebalancer, &table, 10), 0);
        assert_eq!((table.version(), history.log().as_str()), (0, ""));
        let status = history.status();
        assert!(status.starts_with("on\tfalse\nimbalance\t0.3333\n"), "{status}");
        assert!(status.ends_with("state\tit is off\n"), "{status}");
        history.switch(true);
        assert!(run(&mut rebalancer, &table, 10) > 0);
    }
}
