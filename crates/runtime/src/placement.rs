//! Which worker polls which receive queue, which workers process the packets, and which ones send.
//!
//! The rules are RouteBricks' (section 4.2): one core for each queue, one core for each packet. If a device
//! has too few queues for that, packets change workers once, by their flow and over a ring, instead of
//! several workers sharing a queue under a lock.

use dpdk::{PortConfig, PortSpec};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How the work is distributed over the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Every worker receives, processes and sends its own packets.
    #[default]
    Parallel,
    /// The first half of the workers receives, the second half processes and sends.
    Pipeline,
    /// The first worker receives, the last one sends, the others process.
    Serial,
    /// There is one worker.
    Single,
}

/// The placements and their names.
const NAMES: [(Placement, &str); 4] = [
    (Placement::Parallel, "parallel"),
    (Placement::Pipeline, "pipeline"),
    (Placement::Serial, "serial"),
    (Placement::Single, "single"),
];

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(p, _)| p == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text).map(|(p, _)| *p);
        found.ok_or_else(|| "the placements are parallel, pipeline, serial and single".to_owned())
    }
}

/// The workers of each kind, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Those that poll receive queues.
    pub receive: Vec<usize>,
    /// Those that packets are given to.
    pub process: Vec<usize>,
    /// Those that use transmit queues.
    pub send: Vec<usize>,
}

impl Placement {
    /// The roles of `workers` workers.
    ///
    /// # Errors
    /// There are too few, or too many, for this placement.
    pub fn roles(self, workers: usize) -> Result<Roles, String> {
        let all: Vec<usize> = (0..workers).collect();
        let few = |least: usize| format!("the placement {self} takes at least {least} workers (-j {least})");
        match self {
            Placement::Parallel => Ok(Roles { receive: all.clone(), process: all.clone(), send: all }),
            Placement::Single if workers > 1 => {
                Err(format!("the placement single has one worker, {workers} were asked for"))
            }
            Placement::Single => Ok(Roles { receive: all.clone(), process: all.clone(), send: all }),
            Placement::Pipeline if workers < 2 => Err(few(2)),
            Placement::Pipeline => {
                let (receive, rest) = all.split_at(workers / 2);
                Ok(Roles { receive: receive.to_vec(), process: rest.to_vec(), send: rest.to_vec() })
            }
            Placement::Serial if workers < 3 => Err(few(3)),
            Placement::Serial => {
                Ok(Roles { receive: vec![0], process: (1..workers - 1).collect(), send: vec![workers - 1] })
            }
        }
    }
}

/// Where packets go if a port has fewer receive queues than there are workers to process them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The workers that poll give each packet to the worker of its flow, by hash.
    Flows,
    /// Packets stay with the worker that polled them.
    Never,
}

/// An element's use of a port.
#[derive(Clone, Debug)]
pub struct PortUse {
    /// The element's number in the configuration.
    pub element: usize,
    /// The port.
    pub spec: PortSpec,
    /// What the element needs of it.
    pub needs: PortConfig,
    /// What to do with too few receive queues.
    pub spread: Spread,
    /// The worker that the element is bound to.
    pub bound: Option<usize>,
}

/// How a worker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// By a transmit queue; `locked` if another element of the same worker has it too (or, when there are
    /// fewer queues than bound elements, another worker).
    Queue {
        /// Its number.
        queue: u16,
        /// Whether it is locked for each batch.
        locked: bool,
    },
    /// Over a ring to the worker that has the queue, which serves all its rings in turn.
    Ring {
        /// That worker.
        to: usize,
    },
}

/// What each worker does for an element at its port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// The receive queues that each worker polls.
    pub poll: Vec<Vec<u16>>,
    /// The workers among which flows are spread by hash; empty if packets stay with the worker that polled
    /// them.
    pub spread: Vec<usize>,
    /// How each worker sends when the router starts; empty if the element does not. Where workers have no
    /// queue of their own, queues go to those that send most while the router runs.
    pub send: Vec<Lane>,
    /// The workers that may have a transmit queue.
    pub may_send: Vec<usize>,
}

impl Lanes {
    /// Whether a worker does anything for the element: polls, or gets packets from those that do.
    #[must_use]
    pub fn receives(&self, worker: usize) -> bool {
        self.spread.contains(&worker) || self.poll.get(worker).is_some_and(|queues| !queues.is_empty())
    }
    /// The workers that poll a queue.
    pub fn pollers(&self) -> impl Iterator<Item = usize> {
        self.poll.iter().enumerate().filter(|(_, queues)| !queues.is_empty()).map(|(worker, _)| worker)
    }
    /// Whether packets are sent by the same queues on the same workers.
    #[must_use]
    pub fn sends_as(&self, other: &Self) -> bool {
        self.send == other.send && self.may_send == other.may_send
    }
    /// The workers that give a worker packets to send.
    pub fn senders_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        let lanes = self.send.iter().enumerate();
        lanes.filter(move |(_, lane)| **lane == Lane::Ring { to: worker }).map(|(from, _)| from)
    }
}

/// A problem of the use with this index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which use.
    pub of: usize,
    /// What is wrong.
    pub text: String,
    /// Whether the router cannot start with it.
    pub fatal: bool,
}

/// How many receive and transmit queues of each port the uses request together, and what each worker would do
/// if the ports had as many of them as `has` specifies.
pub fn lay_out(
    uses: &[PortUse],
    workers: usize,
    roles: &Roles,
    has: impl Fn(&PortSpec) -> Option<(u16, u16)>,
) -> (Vec<Lanes>, Vec<Problem>) {
    let mut lanes = vec![Lanes::default(); uses.len()];
    let mut problems = Vec::new();
    let specs: Vec<&PortSpec> = uses.iter().map(|one| &one.spec).collect();
    for (first, spec) in specs.iter().enumerate().filter(|(i, spec)| !specs[..*i].contains(*spec)) {
        let numbers: Vec<usize> = (first..uses.len()).filter(|n| uses[*n].spec == **spec).collect();
        let of: Vec<PortUse> = numbers.iter().map(|n| uses[*n].clone()).collect();
        let mut sum = PortConfig::default();
        of.iter().for_each(|one| sum.merge(&needs(one, roles)));
        let (rx, tx) = sum.queues();
        let (most_rx, most_tx) = has(spec).unwrap_or((rx, tx));
        let (assigned, found) = assign(&of, (rx.min(most_rx), tx.min(most_tx)), workers, roles);
        problems.extend(found.into_iter().map(|p| Problem { of: numbers[p.of], ..p }));
        numbers.iter().zip(assigned).for_each(|(n, assigned)| lanes[*n] = assigned);
    }
    (lanes, problems)
}

/// A list of numbers in words: `0`, `0 and 1`, `0, 1 and 2`.
pub fn listed<T: fmt::Display>(numbers: &[T]) -> String {
    let words: Vec<String> = numbers.iter().map(T::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// The workers that poll for an element without explicit queues.
fn pollers<'a>(one: &'a PortUse, roles: &'a Roles) -> &'a [usize] {
    match &one.bound {
        Some(worker) => std::slice::from_ref(worker),
        None => &roles.receive,
    }
}

fn owners<'a>(one: &'a PortUse, roles: &'a Roles) -> &'a [usize] {
    match &one.bound {
        Some(worker) => std::slice::from_ref(worker),
        None => &roles.send,
    }
}

/// The settings with which to open the port: a queue for each worker that is to have one.
pub(crate) fn needs(one: &PortUse, roles: &Roles) -> PortConfig {
    let (rx, tx) = (pollers(one, roles).len() as u16, owners(one, roles).len() as u16);
    PortConfig {
        rx_queues: one.needs.rx_queues.min(rx),
        tx_queues: one.needs.tx_queues.min(tx),
        ..one.needs.clone()
    }
}

/// Problems of the uses of one port that are known before it is opened.
pub(crate) fn contradictions(uses: &[PortUse]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen: BTreeSet<u16> = BTreeSet::new();
    for (of, one) in uses.iter().enumerate() {
        for &queue in &one.needs.rx_numbers {
            if !seen.insert(queue) {
                let text = format!(
                    "receive queue {queue} of {} is polled by another element too: give each its own QUEUE",
                    one.spec
                );
                problems.push(Problem { of, text, fatal: true });
            }
        }
    }
    let automatic: u16 = uses.iter().map(|one| one.needs.rx_queues).fold(0, u16::saturating_add);
    let gaps: Vec<u16> =
        (0..seen.last().copied().unwrap_or(0)).filter(|q| !seen.contains(q)).take(8).collect();
    if let Some(of) = uses.iter().position(|one| !one.needs.rx_numbers.is_empty())
        && gaps.len() > usize::from(automatic)
    {
        let text = format!(
            "no worker polls receive queue {} of {}, to which the device may give packets: number the queues from 0 \
             without gaps, or leave QUEUE out",
            listed(&gaps),
            uses[of].spec
        );
        problems.push(Problem { of, text, fatal: true });
    }
    problems
}

/// Assigns the queues of an open port to the workers, for each use of it.
pub(crate) fn assign(
    uses: &[PortUse],
    (rx_queues, tx_queues): (u16, u16),
    workers: usize,
    roles: &Roles,
) -> (Vec<Lanes>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut lanes: Vec<Lanes> =
        uses.iter().map(|_| Lanes { poll: vec![Vec::new(); workers], ..Lanes::default() }).collect();
    assign_receive(uses, rx_queues, roles, &mut lanes, &mut problems);
    assign_send(uses, tx_queues, workers, roles, &mut lanes, &mut problems);
    (lanes, problems)
}

fn too_high(one: &PortUse, of: usize, kind: &str, queue: u16, there: u16) -> Problem {
    let range = if there == 1 { "only 0".to_owned() } else { format!("0 to {}", there.saturating_sub(1)) };
    let text = format!("{kind} queue {queue} was asked for, and {} has {there} ({range})", one.spec);
    Problem { of, text, fatal: true }
}

fn assign_receive(
    uses: &[PortUse],
    there: u16,
    roles: &Roles,
    lanes: &mut [Lanes],
    problems: &mut Vec<Problem>,
) {
    let mut taken = BTreeSet::new();
    for (of, one) in uses.iter().enumerate() {
        for &queue in &one.needs.rx_numbers {
            if queue >= there {
                problems.push(too_high(one, of, "receive", queue, there));
                continue;
            }
            taken.insert(queue);
            // Worker N has queue N; further queues are assigned to the workers in turn.
            let worker = one.bound.unwrap_or(roles.receive[usize::from(queue) % roles.receive.len()]);
            lanes[of].poll[worker].push(queue);
        }
    }
    let left: Vec<u16> = (0..there).filter(|queue| !taken.contains(queue)).collect();
    let automatic: Vec<usize> = (0..uses.len()).filter(|&of| uses[of].needs.rx_queues > 0).collect();
    if automatic.is_empty() {
        if let Some(of) = uses.iter().position(|one| !one.needs.rx_numbers.is_empty())
            && !left.is_empty()
        {
            let text = format!(
                "no worker polls receive queue {} of {}, which is open with {there} queues: stop the router and start it again",
                listed(&left),
                uses[of].spec
            );
            problems.push(Problem { of, text, fatal: true });
        }
        return;
    }
    for (i, &queue) in left.iter().enumerate() {
        let of = automatic[i % automatic.len()];
        let pollers = pollers(&uses[of], roles);
        lanes[of].poll[pollers[i / automatic.len() % pollers.len()]].push(queue);
    }
    for of in automatic {
        let polling: BTreeSet<usize> = lanes[of].pollers().collect();
        if polling.is_empty() {
            let text = format!(
                "it receives nothing: {} has {there} receive queues, and other elements poll them",
                uses[of].spec
            );
            problems.push(Problem { of, text, fatal: false });
        } else if uses[of].bound.is_none()
            && uses[of].spread == Spread::Flows
            && !polling.iter().eq(&roles.process)
        {
            lanes[of].spread.clone_from(&roles.process);
        }
    }
}

fn assign_send(
    uses: &[PortUse],
    there: u16,
    workers: usize,
    roles: &Roles,
    lanes: &mut [Lanes],
    problems: &mut Vec<Problem>,
) {
    let sends = |one: &PortUse| one.needs.tx_queues > 0 || !one.needs.tx_numbers.is_empty();
    let asked: BTreeSet<u16> = uses.iter().flat_map(|one| one.needs.tx_numbers.iter().copied()).collect();
    // Queues that are not requested by number; if all are, they are for all uses.
    let mut open: Vec<u16> = (0..there).filter(|queue| !asked.contains(queue)).collect();
    if open.is_empty() {
        open = (0..there).collect();
    }
    let automatic: Vec<&PortUse> =
        uses.iter().filter(|one| sends(one) && one.needs.tx_numbers.is_empty()).collect();
    let wanted: usize = automatic.iter().map(|one| owners(one, roles).len()).sum();
    let everybody: BTreeSet<usize> = automatic.iter().flat_map(|one| owners(one, roles)).copied().collect();
    let active: Vec<usize> = everybody.iter().copied().take(open.len()).collect();
    let mut next = 0;
    let mut owned: Vec<(usize, usize, u16)> = Vec::new();
    for (of, one) in uses.iter().enumerate().filter(|(_, one)| sends(one)) {
        let before = owned.len();
        if !one.needs.tx_numbers.is_empty() {
            for (&queue, &worker) in one.needs.tx_numbers.iter().zip(owners(one, roles)) {
                if queue >= there {
                    problems.push(too_high(one, of, "transmit", queue, there));
                } else {
                    owned.push((of, worker, queue));
                }
            }
        } else if wanted <= open.len() {
            for &worker in owners(one, roles) {
                owned.push((of, worker, open[next]));
                next += 1;
            }
        } else if let Some(first) = open.first() {
            let mine = |worker: &&usize| owners(one, roles).contains(worker);
            for (&worker, &queue) in active.iter().zip(&open).filter(|(worker, _)| mine(worker)) {
                owned.push((of, worker, queue));
            }
            if owned.len() == before {
                owned.push((of, owners(one, roles)[0], *first));
            }
        }
        let mine: Vec<(usize, u16)> = owned[before..].iter().map(|&(_, worker, q)| (worker, q)).collect();
        if mine.is_empty() {
            continue;
        }
        lanes[of].may_send = owners(one, roles).to_vec();
        lanes[of].send = (0..workers)
            .map(|w| match mine.iter().find(|(worker, _)| *worker == w) {
                Some(&(_, queue)) => Lane::Queue { queue, locked: false },
                None => Lane::Ring { to: mine[w % mine.len()].0 },
            })
            .collect();
    }
    for &(of, worker, queue) in &owned {
        if owned.iter().filter(|(_, _, other)| *other == queue).count() > 1 {
            lanes[of].send[worker] = Lane::Queue { queue, locked: true };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(rx_queues: u16, numbers: &[u16]) -> PortUse {
        let needs = PortConfig { rx_queues, rx_numbers: numbers.to_vec(), ..PortConfig::default() };
        PortUse { element: 0, spec: PortSpec::Id(7), needs, spread: Spread::Flows, bound: None }
    }
    fn send(tx_queues: u16, numbers: &[u16]) -> PortUse {
        let needs = PortConfig { tx_queues, tx_numbers: numbers.to_vec(), ..PortConfig::default() };
        PortUse { element: 0, spec: PortSpec::Id(7), needs, spread: Spread::Flows, bound: None }
    }
    fn assigned(uses: &[PortUse], queues: (u16, u16), workers: usize, placement: Placement) -> Vec<Lanes> {
        let (lanes, problems) = assign(uses, queues, workers, &placement.roles(workers).unwrap());
        assert_eq!(problems, []);
        lanes
    }
    fn own(queue: u16) -> Lane {
        Lane::Queue { queue, locked: false }
    }
    fn locked(queue: u16) -> Lane {
        Lane::Queue { queue, locked: true }
    }
    fn ring(to: usize) -> Lane {
        Lane::Ring { to }
    }

    #[test]
    fn a_worker_has_the_queue_of_its_number() {
        let lanes = assigned(&[receive(3, &[]), send(3, &[])], (3, 3), 3, Placement::Parallel);
        assert_eq!(lanes[0].poll, [[0], [1], [2]]);
        assert_eq!(lanes[0].spread, Vec::<usize>::new());
        assert_eq!(lanes[1].send, [own(0), own(1), own(2)]);
    }

    #[test]
    fn too_few_queues_are_shared_out_by_flow_and_by_ring() {
        let lanes = assigned(&[receive(4, &[]), send(4, &[])], (2, 2), 4, Placement::Parallel);
        assert_eq!(lanes[0].poll, [vec![0], vec![1], vec![], vec![]]);
        assert_eq!(lanes[0].spread, [0, 1, 2, 3]);
        assert_eq!(lanes[1].send, [own(0), own(1), ring(0), ring(1)]);
        assert_eq!(lanes[1].senders_by(0).collect::<Vec<_>>(), [2]);
        assert_eq!((&*lanes[1].may_send, &*lanes[0].may_send), (&[0, 1, 2, 3][..], &[][..]));
        let never = PortUse { spread: Spread::Never, ..receive(4, &[]) };
        assert_eq!(assigned(&[never], (2, 0), 4, Placement::Parallel)[0].spread, Vec::<usize>::new());
    }

    #[test]
    fn more_queues_than_workers_are_all_polled() {
        let lanes = assigned(&[receive(2, &[])], (5, 1), 2, Placement::Parallel);
        assert_eq!(lanes[0].poll, [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(lanes[0].spread, Vec::<usize>::new());
    }

    #[test]
    fn explicit_queues_go_to_the_workers_of_their_numbers() {
        let uses = [receive(0, &[0]), receive(0, &[1])];
        assert_eq!(contradictions(&uses), []);
        let lanes = assigned(&uses, (2, 1), 2, Placement::Parallel);
        assert_eq!(
            (&lanes[0].poll[..], &lanes[1].poll[..]),
            (&[vec![0], vec![]][..], &[vec![], vec![1]][..])
        );
        // A range with more queues than there are workers is polled completely, and the queues of a bound
        // element are polled by its worker.
        let lanes = assigned(&[receive(0, &[0, 1, 2])], (3, 1), 2, Placement::Parallel);
        assert_eq!(lanes[0].poll, [vec![0, 2], vec![1]]);
        let bound = PortUse { bound: Some(1), ..receive(0, &[0, 1]) };
        assert_eq!(assigned(&[bound], (2, 1), 2, Placement::Parallel)[0].poll, [vec![], vec![0, 1]]);
    }

    #[test]
    fn explicit_and_automatic_queues_share_a_port() {
        let uses = [receive(2, &[]), receive(0, &[1])];
        assert_eq!(contradictions(&uses), []);
        let lanes = assigned(&uses, (3, 1), 2, Placement::Parallel);
        assert_eq!(lanes[0].poll, [[0], [2]]);
        assert_eq!(lanes[1].poll, [vec![], vec![1]]);
    }

    #[test]
    fn queues_that_nobody_polls_or_two_poll_are_errors() {
        let text = |uses: &[PortUse]| contradictions(uses).into_iter().map(|p| p.text).collect::<String>();
        assert!(text(&[receive(0, &[2])]).contains("no worker polls receive queue 0 and 1 of 7"));
        assert!(text(&[receive(0, &[0]), receive(0, &[0])]).contains("polled by another element"));
        let roles = Placement::Parallel.roles(2).unwrap();
        let problems = assign(&[receive(0, &[0]), receive(0, &[1])], (1, 1), 2, &roles).1;
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].text, "receive queue 1 was asked for, and 7 has 1 (only 0)");
        let problems = assign(&[receive(0, &[0])], (2, 1), 2, &roles).1;
        assert!(problems[0].fatal && problems[0].text.contains("no worker polls receive queue 1"));
        let problems = assign(&[send(0, &[4])], (1, 2), 2, &roles).1;
        assert_eq!(problems[0].text, "transmit queue 4 was asked for, and 7 has 2 (0 to 1)");
        let problems =
            assign(&[receive(1, &[]), receive(1, &[])], (1, 1), 1, &Placement::Single.roles(1).unwrap()).1;
        assert!(!problems[0].fatal && problems[0].of == 1, "{problems:?}");
    }

    #[test]
    fn elements_of_one_port_have_queues_of_their_own_or_lock_those_of_their_worker() {
        let lanes = assigned(&[send(2, &[]), send(2, &[])], (0, 4), 2, Placement::Parallel);
        assert_eq!((&lanes[0].send[..], &lanes[1].send[..]), (&[own(0), own(1)][..], &[own(2), own(3)][..]));
        let lanes = assigned(&[send(2, &[]), send(2, &[])], (0, 2), 2, Placement::Parallel);
        assert_eq!(lanes[0].send, [locked(0), locked(1)]);
        assert_eq!(lanes[1].send, [locked(0), locked(1)]);
        let lanes = assigned(&[send(2, &[]), send(2, &[])], (0, 1), 2, Placement::Parallel);
        assert_eq!(lanes[0].send, [locked(0), ring(0)]);
        assert_eq!(lanes[1].send, [locked(0), ring(0)]);
    }

    #[test]
    fn a_bound_sender_has_the_queue() {
        let bound = PortUse { bound: Some(1), ..send(2, &[]) };
        assert_eq!(
            assigned(std::slice::from_ref(&bound), (0, 1), 3, Placement::Parallel)[0].send,
            [ring(1), own(0), ring(1)]
        );
        let lanes = assigned(std::slice::from_ref(&bound), (0, 1), 3, Placement::Parallel);
        assert_eq!(lanes[0].may_send, [1], "its queue stays where the configuration has bound it");
        let other = PortUse { bound: Some(2), ..send(2, &[]) };
        let lanes = assigned(&[bound, other], (0, 1), 3, Placement::Parallel);
        assert_eq!(lanes[0].send[1], locked(0));
        assert_eq!(lanes[1].send, [ring(2), ring(2), locked(0)]);
        let lanes = assigned(&[send(0, &[3, 5])], (0, 6), 3, Placement::Parallel);
        assert_eq!(lanes[0].send, [own(3), own(5), ring(0)]);
    }

    #[test]
    fn placements_have_roles() {
        let uses = [receive(9, &[]), send(9, &[])];
        let lanes = assigned(&uses, (4, 4), 4, Placement::Serial);
        assert_eq!(lanes[0].poll[0], [0, 1, 2, 3]);
        assert_eq!(lanes[0].spread, [1, 2]);
        assert_eq!(lanes[1].send, [ring(3), ring(3), ring(3), own(0)]);
        let lanes = assigned(&uses, (2, 2), 4, Placement::Pipeline);
        assert_eq!(lanes[0].poll, [vec![0], vec![1], vec![], vec![]]);
        assert_eq!(lanes[0].spread, [2, 3]);
        assert_eq!(lanes[1].send, [ring(2), ring(3), own(0), own(1)]);
        assert!(Placement::Serial.roles(2).unwrap_err().contains("-j 3"));
        assert!(Placement::Pipeline.roles(1).is_err() && Placement::Single.roles(2).is_err());
        assert_eq!("serial".parse(), Ok(Placement::Serial));
        assert!("fast".parse::<Placement>().is_err());
        assert_eq!(Placement::Pipeline.to_string(), "pipeline");
    }

    #[test]
    fn ports_are_opened_with_a_queue_for_each_worker_that_is_to_have_one() {
        let roles = Placement::Serial.roles(4).unwrap();
        assert_eq!(needs(&receive(4, &[]), &roles).rx_queues, 1);
        assert_eq!(needs(&send(4, &[]), &Placement::Parallel.roles(4).unwrap()).tx_queues, 4);
    }

    #[test]
    fn numbers_are_listed() {
        assert_eq!(listed(&[1, 2, 3]), "1, 2 and 3");
        assert_eq!((listed(&[1]), listed::<u16>(&[])), ("1".to_owned(), String::new()));
    }
}
