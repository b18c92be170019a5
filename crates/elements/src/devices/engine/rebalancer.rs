//! The rebalancer of an element whose flows are spread over workers, in software or by the device: on the
//! control thread it reads what the workers have counted, asks the policy (crate `rebalance`), and changes
//! the indirection table.

use super::buckets::Buckets;
use super::devicecontrol::{OfDevice, learn};
use super::devicetable::DeviceTable;
use super::exchange::Exchange;
use super::history::History;
use super::indirection::Readings;
use crate::prelude::*;
use rebalance::{Interval, Policy, Round, Settings, Stay, Verdict, imbalance};
use runtime::{Control, ControlTask};
use std::any::Any;
use std::sync::Arc;

/// How often it looks. What the policy decides on lasts for two intervals.
const INTERVAL_NS: u64 = 50_000_000;
/// How often while no packets come.
const QUIET_NS: u64 = 200_000_000;
/// So long after a change of a device's table, a worker that has not seen it has no packets.
const OVERDUE_NS: u64 = 500_000_000;
/// The share of packets that may come to another worker than a device's table says.
const STRAYS: f64 = 0.1;

/// What is to be logged.
type Line = (Level, String);

/// The part on the control thread.
pub(super) struct Rebalancer {
    element: String,
    exchange: Arc<Exchange>,
    history: Arc<History>,
    policy: Policy,
    /// What was read at the end of the last interval, with the time stamp counter.
    before: Option<(Readings, u64)>,
    key_version: u64,
    /// Packets of the last intervals that came as the table says, and others; old ones count less.
    as_said: f64,
    strays: f64,
    /// When buckets last moved.
    moved_ns: u64,
    /// Whether the device's table is known, or cannot be used.
    device: Option<bool>,
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
            as_said: 0.0,
            strays: 0.0,
            moved_ns: 0,
            device: None,
            next_ns: 0,
        }
    }

    /// Ends an interval. Returns what is to be logged, and whether packets have come.
    fn look(&mut self, table: &dyn Buckets, now_ns: u64, cycles: u64) -> (Option<Line>, bool) {
        let readings = table.readings();
        let Some((before, began)) = self.before.replace((readings.clone(), cycles)) else {
            return (None, false);
        };
        let differences = |now: &[u64], before: &[u64]| -> Vec<u64> {
            now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
        };
        let packets = differences(&readings.packets, &before.packets);
        let counted: u64 = packets.iter().sum();
        let any = counted > 0;
        table.looked_at(readings.looked_at.saturating_sub(before.looked_at));
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
        if let Some(share) = self.stray(counted, readings.strays.saturating_sub(before.strays)) {
            self.policy.forget();
            self.history.stays(format!(
                "{} of the packets came to other workers than hash and table say: the device goes by other fields \
                 or by rules, or shows neither hash nor key",
                percent(share)
            ));
            return (None, any);
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
                if let Err(why) = table.give(&changes) {
                    let why = format!("buckets stay, because the device has refused a change: {why}");
                    self.device = Some(false);
                    self.history.cannot(why.clone());
                    return (Some((Level::WARN, format!("{}: {why}", self.element))), any);
                }
                self.moved_ns = now_ns;
                let reason = reason(&round, table.workers());
                self.history.moved(lines(&round, table.workers(), &reason, now_ns));
                let plural = if changes.len() == 1 { "bucket goes" } else { "buckets go" };
                let text = format!("{}: {} {plural} to other workers: {reason}", self.element, changes.len());
                (Some((Level::INFO, text)), any)
            }
        }
    }
}

impl Rebalancer {
    /// The share of strays in the last intervals, if it is too large.
    fn stray(&mut self, as_said: u64, strays: u64) -> Option<f64> {
        self.as_said = self.as_said * 0.75 + as_said as f64;
        self.strays = self.strays * 0.75 + strays as f64;
        let share = self.strays / (self.as_said + self.strays).max(1.0);
        (share > STRAYS).then_some(share)
    }

    /// Ends an interval where the device spreads flows.
    fn look_at_device(&mut self, table: &DeviceTable, now: u64) -> (Option<Line>, bool) {
        let Some(port) = self.exchange.port().filter(|_| self.history.is_on()) else {
            // When it is switched on again, the table may be another one.
            table.switch(false);
            self.device = None;
            return (None, false);
        };
        if self.device.is_none() {
            let learned = learn(table, &port);
            self.device = Some(learned.is_ok());
            self.before = None;
            self.policy.forget();
            table.switch(learned.is_ok());
            match learned {
                Ok(()) => self.history.can(),
                Err(why) => {
                    let text = format!("{}: REBALANCE: buckets stay: {why}", self.element);
                    self.history.cannot(why);
                    return (Some((Level::INFO, text)), false);
                }
            }
        }
        if self.device == Some(false) {
            table.switch(false);
            return (None, false);
        }
        let overdue = now.saturating_sub(self.moved_ns) >= OVERDUE_NS;
        self.look(&OfDevice { table, port: &port, overdue }, now, dpdk::cycles())
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
        let now = router.now_ns();
        if now < self.next_ns {
            return Some(self.next_ns);
        }
        let (line, any) = match (exchange.known_indirection(), exchange.known_device_table()) {
            (Some(table), _) => self.look(&**table, now, dpdk::cycles()),
            (None, Some(table)) => self.look_at_device(table, now),
            // Only where flows are spread is there a table.
            (None, None) => return None,
        };
        if let Some((level, text)) = line {
            router.hub().log(level, &self.element, &text);
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
    use super::super::indirection::Indirection;
    use super::*;
    use runtime::Lanes;
    use std::sync::atomic::Ordering;

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

    /// A device's table without the device, which takes changes or refuses them.
    struct Device(DeviceTable, bool);

    impl Buckets for Device {
        fn workers(&self) -> &[usize] {
            self.0.workers()
        }
        fn readings(&self) -> Readings {
            self.0.readings()
        }
        fn key_version(&self) -> u64 {
            self.0.key_version()
        }
        fn give(&self, changes: &[(usize, u16)]) -> Result<(), String> {
            let reta = self.0.announce(changes);
            if self.1 {
                self.0.done(reta);
                return Ok(());
            }
            self.0.withdraw();
            Err("Operation not supported".to_owned())
        }
    }

    /// Intervals in which the first of two queues has twice the packets of the other one, and `strays` come
    /// besides; what is logged.
    fn run_device(rebalancer: &mut Rebalancer, device: &Device, strays: usize) -> Vec<Line> {
        let table = &device.0;
        let mut lines = Vec::new();
        for n in 0..12 {
            for bucket in 0..table.buckets() {
                let says = table.says(usize::from(table.has(1, bucket)));
                (0..if bucket % 2 == 0 { 400 } else { 200 }).for_each(|_| says.count(bucket));
            }
            (0..strays).for_each(|_| table.says(0).stray());
            [0, 1].iter().for_each(|place| table.says(*place).add_busy(900));
            lines.extend(rebalancer.look(device, n * INTERVAL_NS, (n + 1) * 1000).0);
            let (change, _) = table.signal().change();
            [0, 1].iter().for_each(|place| table.says(*place).finished.store(change, Ordering::Release));
        }
        lines
    }
    fn device(takes: bool) -> (Device, Arc<History>, Rebalancer) {
        let lanes = Lanes { poll: vec![vec![0], vec![1]], ..Lanes::default() };
        let table = DeviceTable::new(&lanes, 16);
        table.learn((0..16).map(|bucket| bucket % 2).collect()).unwrap();
        let history = Arc::new(History::new(true));
        let rebalancer = Rebalancer::new("in", &Arc::default(), &history);
        (Device(table, takes), history, rebalancer)
    }

    #[test]
    fn buckets_of_a_device_move() {
        let (device, history, mut rebalancer) = device(true);
        let lines = run_device(&mut rebalancer, &device, 0);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].1.starts_with("in: 2 buckets go to other workers: of the packets"), "{lines:?}");
        assert!(history.status().contains("state\tthe workers have as many packets"), "{}", history.status());
    }

    #[test]
    fn buckets_stay_where_packets_come_otherwise_than_the_table_says() {
        let (device, history, mut rebalancer) = device(true);
        assert_eq!(run_device(&mut rebalancer, &device, 2000), []);
        let status = history.status();
        assert!(status.contains("state\t29.4 % of the packets came to other workers than hash"), "{status}");
        assert_eq!(run_device(&mut rebalancer, &device, 100).len(), 1, "strays are too few to matter");
    }

    #[test]
    fn buckets_stay_where_the_device_refuses() {
        let (device, history, mut rebalancer) = device(false);
        let lines = run_device(&mut rebalancer, &device, 0);
        let text = "in: buckets stay, because the device has refused a change: Operation not supported";
        assert_eq!(lines[0], (Level::WARN, text.to_owned()));
        assert!(history.status().contains("state\tbuckets stay, because"), "{}", history.status());
        assert_eq!((device.0.readings().table[0], history.summary()), (0, String::new()));
    }
}
