//! `valiant plan-cores`, and the line that is printed at start: which worker does what on which processor,
//! why, and what does not run in parallel.

use crate::source::{self, FileArgs};
use clap::Args;
use dpdk::{PortSpec, Seat, Topology};
use launch::logging::error;
use launch::output::print;
use launch::progress::waiting;
use launch::{cpu_list, report};
use runtime::placement::{Problem, lay_out, listed};
use runtime::{Lane, Lanes, Options, Placement, PortUse, Registry, Router, Sharing};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
pub(crate) struct CoresArgs {
    #[command(flatten)]
    pub(crate) source: FileArgs,
    /// How many workers to plan for.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// How the work is distributed over workers; as for `valiant run`.
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) placement: runtime::Placement,
    /// CPUs for the workers, as in `0-3,6`; without, the best ones are chosen, as `valiant run --cpus auto`
    /// does.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<String>,
    /// Plan for the machine that a copy of /sys in this directory describes.
    #[arg(long, value_name = "DIR")]
    pub(crate) sysfs: Option<PathBuf>,
    /// Print the plan as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a configuration breaks the rules of parallel forwarding (RouteBricks section 4.2), or where only one
/// worker can run.
struct Break {
    rule: &'static str,
    what: String,
}

const QUEUE: &str = "one core for each queue";
const PACKET: &str = "one core for each packet";
const SERIAL: &str = "not parallel";
const IDLE: &str = "idle";

/// The properties of a port that are known before it is opened.
struct PortQueues {
    spec: PortSpec,
    node: Option<usize>,
    /// Receive and transmit queues that it will have; if `known` is not set, the requested numbers.
    queues: (u16, u16),
    known: bool,
}

/// Which worker does what on which processor.
struct Layout<'a> {
    router: &'a Router,
    topology: &'a Topology,
    placement: Placement,
    seats: Vec<Seat>,
    ports: Vec<PortQueues>,
    uses: Vec<(PortUse, Lanes)>,
    problems: Vec<Problem>,
}

/// Explains what `valiant run` would do.
pub(crate) fn plan_cores(registry: &Arc<Registry>, args: &CoresArgs) -> ExitCode {
    let wanted = match source::load(&args.source) {
        Ok(wanted) => wanted,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let options = Options {
        workers: args.threads.max(1),
        placement: args.placement,
        check_only: true,
        ..Options::default()
    };
    let router = match waiting(false, "checking the configuration", || {
        Router::new(&[wanted.source], wanted.options, Arc::clone(registry), options)
    }) {
        Ok(router) => router,
        Err(diags) => {
            if args.json {
                print(&format!("{}\n", json!({"ok": false, "diagnostics": diags.to_json(diags.sources())})));
            } else {
                report(&diags);
            }
            return ExitCode::FAILURE;
        }
    };
    let topology = args.sysfs.as_deref().map_or_else(Topology::here, Topology::at);
    if topology.cores().iter().all(|core| !core.allowed) {
        let place = args.sysfs.as_deref().map_or_else(|| "/sys".to_owned(), |dir| dir.display().to_string());
        error(&format!("{place}/devices/system/cpu/online names no processor"));
        return ExitCode::FAILURE;
    }
    let cpus = match args.cpus.as_deref().filter(|list| *list != "auto").map(cpu_list).transpose() {
        Ok(cpus) => cpus,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    let layout = match Layout::new(&router, &topology, args.placement, cpus) {
        Ok(layout) => layout,
        Err(message) => {
            error(&message);
            return ExitCode::FAILURE;
        }
    };
    if args.json {
        print(&format!("{}\n", layout.json()));
    } else {
        report(&router.config().warnings);
        report(router.warnings());
        print(&layout.text());
    }
    if layout.problems.iter().any(|problem| problem.fatal) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The line at start: what each worker polls, where, and how much of it is not parallel.
pub(crate) fn line(router: &Router, cpus: &[usize]) -> Option<String> {
    let workers = router.options().workers;
    if workers < 2 || router.ports().is_empty() {
        return None;
    }
    let uses: Vec<(PortUse, Lanes)> = (router.ports().iter())
        .map(|(one, lanes)| (one.clone(), lanes.as_deref().cloned().unwrap_or_default()))
        .collect();
    let words: Vec<String> = (0..workers)
        .map(|worker| {
            let cpu = cpus.get(worker).map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            let work = receives(router, &uses, worker);
            format!(
                "{worker}{cpu} {}",
                if work.is_empty() { "receives nothing".to_owned() } else { work.join(", ") }
            )
        })
        .collect();
    let broken = breaks(router, &uses, &[]).len();
    let rest = match broken {
        0 => String::new(),
        1 => " (1 thing is not parallel: valiant plan-cores names it)".to_owned(),
        n => format!(" ({n} things are not parallel: valiant plan-cores names them)"),
    };
    Some(format!("workers: {}{rest}", words.join("; ")))
}

fn named(router: &Router, one: &PortUse) -> String {
    let element = &router.elements()[one.element];
    format!("{} :: {}", element.name, element.class)
}

/// What a worker receives, a phrase for each port.
fn receives(router: &Router, uses: &[(PortUse, Lanes)], worker: usize) -> Vec<String> {
    let mut work = Vec::new();
    for (one, lanes) in uses.iter().filter(|(_, lanes)| lanes.receives(worker)) {
        let queues = &lanes.poll[worker];
        let name = &router.elements()[one.element].name;
        if queues.is_empty() {
            let from: Vec<usize> = lanes.pollers().collect();
            work.push(format!("gets flows of {} from worker {} ({name})", one.spec, listed(&from)));
        } else {
            work.push(format!("polls queue {} of {} ({name})", listed(queues), one.spec));
        }
    }
    work
}

fn breaks(router: &Router, uses: &[(PortUse, Lanes)], seats: &[Seat]) -> Vec<Break> {
    let workers = router.options().workers.max(1);
    let mut found = Vec::new();
    if workers < 2 {
        return found;
    }
    let mut add = |rule, what| found.push(Break { rule, what });
    for (worker, seat) in seats.iter().enumerate() {
        if seat.crowded.iter().all(|other| *other > worker) && !seat.crowded.is_empty() {
            let all: Vec<usize> = std::iter::once(worker).chain(seat.crowded.iter().copied()).collect();
            add(
                QUEUE,
                format!(
                    "workers {} share CPU {}: there are more workers than processors",
                    listed(&all),
                    seat.cpu
                ),
            );
        }
    }
    for (one, lanes) in uses {
        let name = named(router, one);
        if !lanes.spread.is_empty() {
            let pollers: Vec<usize> = lanes.pollers().collect();
            let queues: usize = lanes.poll.iter().map(Vec::len).sum();
            add(
                PACKET,
                format!(
                    "{name}: worker {} receives for worker {} ({queues} receive queue{}): each packet is hashed and may change workers",
                    listed(&pollers),
                    listed(&lanes.spread),
                    if queues == 1 { "" } else { "s" }
                ),
            );
        }
        for owner in 0..workers {
            let from: Vec<usize> = lanes.senders_by(owner).collect();
            if !from.is_empty() && one.bound.is_none() {
                add(
                    QUEUE,
                    format!(
                        "{name}: packets from worker {} are sent by worker {owner}, which serves the workers in turn",
                        listed(&from)
                    ),
                );
            } else if !from.is_empty() {
                add(
                    QUEUE,
                    format!(
                        "{name}: it is bound to worker {owner}, which sends for worker {}",
                        listed(&from)
                    ),
                );
            }
        }
        let locked = lanes.send.iter().any(|lane| matches!(lane, Lane::Queue { locked: true, .. }));
        if locked {
            add(
                QUEUE,
                format!(
                    "{name}: another element sends by the same transmit queue, so each batch takes a lock"
                ),
            );
        }
    }
    for element in router.elements() {
        let name = format!("{} :: {}", element.name, element.class);
        if element.sharing == Sharing::Single && element.n_inputs > 0 {
            add(
                SERIAL,
                format!(
                    "{name}: it has one instance, on worker {}; other workers hand their packets over to that worker",
                    element.home
                ),
            );
        }
        if element.crosses {
            add(PACKET, format!("{name}: packets enter it on one worker and leave it on another"));
        }
    }
    let receiving = |worker: usize| uses.iter().any(|(_, lanes)| lanes.receives(worker));
    let idle: Vec<usize> = (0..workers).filter(|w| !receiving(*w)).collect();
    let devices = uses.iter().any(|(_, lanes)| lanes.pollers().next().is_some());
    let sends = |worker: usize| uses.iter().any(|(_, lanes)| lanes.senders_by(worker).next().is_some());
    let idle: Vec<usize> = idle.into_iter().filter(|w| !sends(*w)).collect();
    if devices && !idle.is_empty() {
        add(IDLE, format!("worker {} gets no packets from any port", listed(&idle)));
    }
    found
}

impl<'a> Layout<'a> {
    fn new(
        router: &'a Router,
        topology: &'a Topology,
        placement: Placement,
        cpus: Option<Vec<usize>>,
    ) -> Result<Self, String> {
        let workers = router.options().workers.max(1);
        let roles = placement.roles(workers)?;
        let uses: Vec<PortUse> = router.ports().iter().map(|(one, _)| one.clone()).collect();
        let (lanes, problems) = lay_out(&uses, workers, &roles, |spec| topology.queues_of(spec));
        let mut ports: Vec<PortQueues> = Vec::new();
        for (one, lanes) in uses.iter().zip(&lanes) {
            let rx = lanes.poll.iter().map(Vec::len).sum::<usize>() as u16;
            let tx = lanes.send.iter().filter(|lane| matches!(lane, Lane::Queue { .. })).count() as u16;
            match ports.iter_mut().find(|port| port.spec == one.spec) {
                Some(port) => port.queues = (port.queues.0 + rx, port.queues.1 + tx),
                None => ports.push(PortQueues {
                    spec: one.spec.clone(),
                    node: topology.node_of(&one.spec),
                    queues: (rx, tx),
                    known: topology.queues_of(&one.spec).is_some(),
                }),
            }
        }
        let nodes: Vec<usize> = ports.iter().filter_map(|port| port.node).collect();
        let seats = match cpus {
            Some(cpus) if cpus.len() < workers => {
                return Err(format!("--cpus names {} processors for {workers} workers", cpus.len()));
            }
            Some(cpus) => topology.seated(&cpus[..workers]),
            None => topology.seats(workers, &nodes),
        };
        let uses = uses.into_iter().zip(lanes).collect();
        Ok(Self { router, topology, placement, seats, ports, uses, problems })
    }

    /// Why a worker runs on its processor.
    fn why(&self, seat: &Seat) -> Vec<String> {
        let mut why = Vec::new();
        if seat.isolated {
            why.push("isolated".to_owned());
        }
        for port in &self.ports {
            let distance =
                port.node.zip(seat.node).and_then(|(a, b)| Some((a, self.topology.distance(a, b)?)));
            match distance {
                Some((_, distance)) if distance <= 10 => why.push(format!("near {}", port.spec)),
                Some((node, distance)) => {
                    why.push(format!("far from {} on node {node}: distance {distance}", port.spec));
                }
                None => {}
            }
        }
        if !seat.siblings.is_empty() {
            why.push(format!("shares its core with worker {}", listed(&seat.siblings)));
        }
        why
    }

    fn sends(&self, worker: usize) -> Vec<String> {
        let mut work = Vec::new();
        for (one, lanes) in &self.uses {
            let name = &self.router.elements()[one.element].name;
            let from: Vec<usize> = lanes.senders_by(worker).collect();
            let also = if from.is_empty() {
                String::new()
            } else {
                format!(", in turn with worker {}", listed(&from))
            };
            match lanes.send.get(worker) {
                Some(Lane::Queue { queue, locked }) => {
                    let locked = if *locked { ", locked" } else { "" };
                    work.push(format!("sends by queue {queue} of {} ({name}{locked}){also}", one.spec));
                }
                Some(Lane::Ring { to }) => {
                    work.push(format!("sends to {} through worker {to} ({name})", one.spec))
                }
                None => {}
            }
        }
        work
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for port in self.ports.iter().filter(|port| !port.known) {
            notes.push(format!(
                "the number of queues of {} is known only when it is opened: this plan assumes {} to receive and {} to send",
                port.spec, port.queues.0, port.queues.1
            ));
        }
        if !self.seats.iter().any(|seat| seat.isolated) {
            notes.push(
                "no processor of this machine is isolated: other programs may delay workers (boot with isolcpus=LIST to prevent that)"
                    .to_owned(),
            );
        }
        if !self.topology.cores().iter().any(|core| core.isolated && core.allowed) {
            notes.push("the kernel chooses the processors of workers, unless --cpus binds them".to_owned());
        }
        for (one, lanes) in &self.uses {
            if let Some(worker) = one.bound.filter(|w| lanes.receives(*w)) {
                notes.push(format!("{} is bound to worker {worker}", named(self.router, one)));
            }
        }
        notes
    }

    fn text(&self) -> String {
        let mut t = format!("{} workers, placement {}\n", self.seats.len(), self.placement);
        for port in &self.ports {
            let node = port.node.map_or_else(String::new, |node| format!(", NUMA node {node}"));
            let (rx, tx) = port.queues;
            let known = if port.known { "" } else { " (as asked for)" };
            let _ = writeln!(t, "port {}: {rx} receive and {tx} transmit queues{known}{node}", port.spec);
        }
        for (worker, seat) in self.seats.iter().enumerate() {
            let node = seat.node.map_or_else(String::new, |node| format!(", node {node}"));
            let why = self.why(seat);
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(", ")) };
            let _ = writeln!(t, "worker {worker} on CPU {}{node}{why}", seat.cpu);
            let received = receives(self.router, &self.uses, worker);
            for line in received.into_iter().chain(self.sends(worker)) {
                let _ = writeln!(t, "  {line}");
            }
        }
        let breaks = breaks(self.router, &self.uses, &self.seats);
        for found in &breaks {
            let word = match found.rule {
                SERIAL | IDLE => found.rule.to_owned(),
                rule => format!("breaks \"{rule}\""),
            };
            let _ = writeln!(t, "{word}: {}", found.what);
        }
        if breaks.is_empty() {
            t += "every queue is polled by one core, every packet is processed by one core\n";
        }
        for note in self.notes() {
            let _ = writeln!(t, "note: {note}");
        }
        for problem in &self.problems {
            let word = if problem.fatal { "error" } else { "warning" };
            let _ = writeln!(t, "{word}: {}: {}", named(self.router, &self.uses[problem.of].0), problem.text);
        }
        t
    }

    fn json(&self) -> Value {
        let element = |one: &PortUse| {
            let element = &self.router.elements()[one.element];
            json!({"name": element.name, "class": element.class})
        };
        let workers: Vec<Value> = (self.seats.iter().enumerate())
            .map(|(worker, seat)| {
                let polls: Vec<Value> = (self.uses.iter())
                    .filter(|(_, lanes)| lanes.receives(worker))
                    .map(|(one, lanes)| {
                        let others = lanes.pollers().filter(|w| *w != worker && !lanes.spread.is_empty());
                        json!({"port": one.spec.to_string(), "element": element(one), "queues": lanes.poll[worker],
                            "from_workers": others.collect::<Vec<_>>(),
                            "spreads_over": if lanes.poll[worker].is_empty() { &[][..] } else { &lanes.spread[..] }})
                    })
                    .collect();
                let sends: Vec<Value> = (self.uses.iter())
                    .filter_map(|(one, lanes)| {
                        let (queue, locked, through) = match *lanes.send.get(worker)? {
                            Lane::Queue { queue, locked } => (Some(queue), locked, None),
                            Lane::Ring { to } => (None, false, Some(to)),
                        };
                        Some(json!({"port": one.spec.to_string(), "element": element(one), "queue": queue, "locked": locked,
                            "through_worker": through, "for_workers": lanes.senders_by(worker).collect::<Vec<_>>()}))
                    })
                    .collect();
                json!({"worker": worker, "cpu": seat.cpu, "node": seat.node, "isolated": seat.isolated,
                    "sibling_workers": seat.siblings, "same_cpu_workers": seat.crowded, "why": self.why(seat),
                    "receives": polls, "sends": sends})
            })
            .collect();
        let ports: Vec<Value> = (self.ports.iter())
            .map(|port| {
                json!({"port": port.spec.to_string(), "node": port.node, "rx_queues": port.queues.0,
                    "tx_queues": port.queues.1, "queues_known": port.known})
            })
            .collect();
        let breaks: Vec<Value> = breaks(self.router, &self.uses, &self.seats)
            .iter()
            .map(|found| json!({"rule": found.rule, "what": found.what}))
            .collect();
        let problems: Vec<Value> = (self.problems.iter())
            .map(|p| json!({"element": element(&self.uses[p.of].0), "fatal": p.fatal, "what": p.text}))
            .collect();
        json!({"ok": !self.problems.iter().any(|p| p.fatal), "placement": self.placement.to_string(), "workers": workers,
            "ports": ports, "breaks": breaks, "notes": self.notes(), "problems": problems})
    }
}
