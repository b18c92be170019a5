//! The finding that counts, and the others.

use crate::finding::{Finding, Kind};
use crate::interval::Interval;
use crate::losses::{self, FEW};
use crate::words::{percent, rate};
use crate::{busy, waiting, workers};

/// What limits a router.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    pub(crate) interval: Interval,
    /// What limits it.
    pub verdict: Finding,
    /// What was noticed beside that.
    pub others: Vec<Finding>,
}

impl Diagnosis {
    /// What limits a router in some time.
    ///
    /// The rules are asked in an order in which a cause comes before its effects: what waits for a port or a
    /// rate makes queues and rings full; a worker without its processor, or that waits for locks, looks busy;
    /// a busy worker makes rings full.
    #[must_use]
    pub fn of(interval: Interval) -> Self {
        let causes: [fn(&Interval) -> Option<Finding>; 12] = [
            workers::stuck,
            waiting::transmit,
            waiting::rate_limit,
            waiting::delay,
            losses::buffers,
            workers::processor,
            workers::lock,
            workers::blocked,
            busy::busy,
            workers::share,
            waiting::stopped,
            losses::mostly_by_rule,
        ];
        let mut found: Vec<Finding> = causes.iter().filter_map(|rule| rule(&interval)).collect();
        if found.is_empty() {
            found.extend(waiting::queue(&interval).into_iter().chain(waiting::receive_ring(&interval)));
        }
        if found.iter().any(|finding| finding.kind != Kind::Processor) {
            found.extend(workers::processor_a_little(&interval));
        }
        let told = |found: &[Finding]| found.iter().any(|finding| finding.kind == Kind::Drops);
        if !told(&found) {
            found.extend(losses::by_rule(&interval, if found.is_empty() { FEW } else { 0.0 }));
        } else if let Some(at) = found.iter().position(|finding| finding.kind == Kind::Drops) {
            // Nothing else counts as long as most packets are dropped.
            found[..=at].rotate_right(1);
        }
        let mut port = losses::ports(&interval);
        if let Some(port) = port.take_if(|port| port.is_gone || interval.entered() == 0) {
            // Nothing comes because of it, or what comes is lost there.
            found.insert(0, port.finding);
        }
        if found.is_empty() {
            found.push(nothing(&interval));
            found.extend(losses::by_rule(&interval, 0.0));
        }
        found.extend(port.map(|port| port.finding));
        let verdict = found.remove(0);
        Self { interval, verdict, others: found }
    }
}

/// There is no limit.
fn nothing(interval: &Interval) -> Finding {
    let entered = interval.entered();
    let busy = interval.workers.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
    let (busiest, share) = busy.map_or((0, 0.0), |worker| (worker.number, worker.busy));
    if entered == 0 {
        return Finding::new(Kind::Idle, None, "nothing is wrong: no packets come")
            .shown_by(format!("no packet entered the router in {:.1} s", interval.seconds))
            .advise("if packets should come: `valiant read NAME.port` of the element that receives shows the port, its link and its addresses");
    }
    Finding::new(Kind::Traffic, None, "nothing limits the router: it forwards all that comes")
        .shown_by(format!("{} entered, and none was lost for lack of room", rate(entered, interval.seconds)))
        .shown_by(format!("worker {busiest}, the busiest, is busy in {} of the time", percent(share)))
        .advise("if you expect more: what sends, and the way to here, is the limit")
}
