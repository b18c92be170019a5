//! The handler `load.json`: what each worker, element and port does, for whoever looks for what limits the
//! router (`valiant why`). Counters grow from the start; two readings make a rate.

use super::Router;
use crate::facts::Role;
use crate::info::ElementInfo;
use crate::placement::Lanes;
use crate::stats::StatsSnapshot;
use crate::worker::Mailbox;
use dpdk::{Mempool, Port, PortState};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, atomic::Ordering};
use std::time::Instant;

/// The version of the format; it grows when a field changes its meaning or goes.
const FORMAT: u32 = 1;
/// Handlers of some classes that are part of the reading, by the same names: packets in a queue and the most
/// of them, bytes of a table, the most packets that are taken from a port at once.
const NUMBERS: [&str; 4] = ["length", "capacity", "working_set", "burst"];
/// The time against which readings are ordered, whatever happens to the clock.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The whole reading.
pub(super) fn json(router: &mut Router) -> String {
    let elements = (0..router.elements().len()).map(|index| element(router, index)).collect::<Vec<_>>();
    let text = json!({
        "format": FORMAT,
        "version": env!("CARGO_PKG_VERSION"),
        "time_ns": BEGAN.elapsed().as_nanos() as u64,
        "cycles": dpdk::cycles(),
        "generation": router.generation(),
        "batch": router.options().batch_size,
        "changed_workers": router.changed_workers(),
        "shares_threads": router.team.is_hosted(),
        "workers": workers(router),
        "elements": elements,
        "ports": ports(router),
        "pools": Mempool::all().iter().map(pool).collect::<Vec<_>>(),
    });
    format!("{text}\n")
}

fn pool(pool: &Mempool) -> Value {
    json!({"buffers": pool.capacity(), "free": pool.available(), "buffer_bytes": pool.buffer_len()})
}

fn workers(router: &Router) -> Vec<Value> {
    let stuck = router.hub().stuck();
    let mut all: Vec<Value> =
        router.team.mailboxes().enumerate().map(|(n, mailbox)| worker(router, n, mailbox)).collect();
    if all.is_empty() {
        // The thread that answers runs the workers too.
        let one = |number| thread(number, std::process::id() as i32);
        all = (0..router.options().workers.max(1)).map(one).map(Value::from).collect();
    }
    for s in stuck {
        if let Some(worker) = all.get_mut(s.worker) {
            worker["stuck"] = json!({"element": s.element, "seconds": s.time.as_secs()});
        }
    }
    all
}

fn worker(router: &Router, number: usize, mailbox: &Mailbox) -> Value {
    let awake = || (!router.hub().is_asleep(number)).then(|| mailbox.rounds.load(Ordering::Relaxed));
    let before = awake();
    let seat = mailbox.seat.get().and_then(|seat| seat.thread());
    let of_worker = || Map::from_iter([("worker".to_owned(), number.into())]);
    let mut all = seat.map_or_else(of_worker, |seat| thread(number, seat));
    let sleeps = matches!(all.get("state").and_then(Value::as_str), Some("S" | "D"));
    if sleeps && before.is_some() && before == awake() {
        // In the middle of a batch: an element waits for something outside.
        all.insert("blocked_in".to_owned(), router.hub().element_of(mailbox).into());
    }
    for (name, counter) in [("rounds", &mailbox.rounds), ("taskless_cycles", &mailbox.taskless_cycles)] {
        all.insert(name.to_owned(), counter.load(Ordering::Relaxed).into());
    }
    if let Some(thread) = mailbox.thread.get() {
        let (times, waited) = locks::waited(thread.id());
        all.insert("lock_waits".to_owned(), times.into());
        all.insert("lock_ns".to_owned(), (waited.as_nanos() as u64).into());
    }
    all.into()
}

/// What the kernel knows of a thread of this process.
fn thread(worker: usize, thread: i32) -> Map<String, Value> {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).unwrap_or_default();
    let mut all =
        Map::from_iter([("worker".to_owned(), worker.into()), ("thread".to_owned(), thread.into())]);
    // Nanoseconds on a processor, nanoseconds ready and without one, turns.
    let sched = read("schedstat");
    for (name, value) in ["ran_ns", "waited_ns"].into_iter().zip(sched.split_whitespace()) {
        all.insert(name.to_owned(), value.parse::<u64>().unwrap_or(0).into());
    }
    // proc(5): the name, in parentheses, may have blanks; `processor` is field 39.
    let stat = read("stat");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    if let Some(state) = after_name.split_whitespace().next() {
        all.insert("state".to_owned(), state.into());
    }
    if let Some(cpu) = after_name.split_whitespace().nth(39 - 3).and_then(|cpu| cpu.parse::<usize>().ok()) {
        all.insert("cpu".to_owned(), cpu.into());
        all.insert("cpu_stolen_ticks".to_owned(), stolen(cpu).into());
        all.insert("cache_bytes".to_owned(), last_level_cache(cpu).into());
    }
    let status = read("status");
    if let Some(list) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) {
        all.insert("may_use_cpus".to_owned(), list.trim().into());
    }
    all
}

/// Hundredths of a second for which a hypervisor has given a processor to others.
fn stolen(cpu: usize) -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{cpu} ");
    let line = stat.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|line| line.split_whitespace().nth(7)).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The bytes of the largest cache of a processor; none if that is not known.
fn last_level_cache(cpu: usize) -> Option<u64> {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/size");
        std::fs::read_to_string(path).ok()?.trim().strip_suffix('K')?.parse::<u64>().ok()
    };
    (0..8).map_while(size).max().map(|kilobytes| kilobytes << 10)
}

fn element(router: &mut Router, index: usize) -> Value {
    let own = NUMBERS.map(|name| handler::<u64>(router, index, name));
    let active: Option<bool> = handler(router, index, "active");
    let e = &router.elements()[index];
    let config = router.config();
    let to: Vec<Value> = (config.connections.iter())
        .filter(|c| c.from.element == index)
        .map(|c| json!([c.to.element, router.port_kind(crate::ElementId(index as u32), false, c.from.port)]))
        .collect();
    let role = match router.registry().get(e.class).map_or(Role::Ordinary, |class| class.role) {
        Role::DeviceSource => "source",
        Role::DeviceSink => "sink",
        Role::RateLimit => "rate limit",
        Role::Delay => "delay",
        _ => "ordinary",
    };
    let lanes = lanes_of(router, index);
    let stats = e.stats.iter().map(|stats| stats.snapshot()).enumerate();
    let stats: Vec<Value> = stats.filter_map(|(worker, s)| counters(worker, &s)).collect();
    let mut all = json!({"name": e.name, "class": e.class, "role": role, "to": to, "workers": stats});
    for (name, value) in NUMBERS.into_iter().zip(own) {
        if let Some(value) = value {
            all[name] = value.into();
        }
    }
    if let Some(active) = active {
        all["active"] = active.into();
    }
    if let Some((port, lanes)) = lanes {
        all["port"] = port.into();
        all["polls"] = lanes.poll.iter().map(Vec::len).collect();
    }
    all
}

/// The port of a device element, and what each worker does there.
fn lanes_of(router: &Router, index: usize) -> Option<(String, Arc<Lanes>)> {
    let (used, lanes) = router.ports().iter().find(|(used, _)| used.element == index)?;
    Some((used.spec.to_string(), Arc::clone(lanes.as_ref()?)))
}

/// What a handler of the class gives; a worker that is stuck is not asked.
fn handler<T: FromStr>(router: &mut Router, index: usize, handler: &str) -> Option<T> {
    let e: &ElementInfo = &router.elements()[index];
    if e.handlers.iter().all(|h| h.name != handler) || !router.hub().stuck().is_empty() {
        return None;
    }
    let name = format!("{}.{handler}", e.name);
    router.read(&name, "").ok()?.trim().parse().ok()
}

/// The counters of an element on a worker, unless nothing has happened there.
fn counters(worker: usize, s: &StatsSnapshot) -> Option<Value> {
    if *s == (StatsSnapshot { rejected: s.rejected.clone(), ..StatsSnapshot::default() }) {
        return None;
    }
    let mut all = s.json();
    all["worker"] = worker.into();
    Some(all)
}

/// The ports that the router's elements use.
fn ports(router: &Router) -> Vec<Value> {
    let names: BTreeSet<String> = router.ports().iter().map(|(used, _)| used.spec.to_string()).collect();
    let open = dpdk::all_ports();
    let find = |name: &String| open.iter().find(|port| port.spec().to_string() == *name);
    names.iter().filter_map(|name| find(name).map(|open| port(name, open))).collect()
}

fn port(name: &str, port: &Port) -> Value {
    let (stats, link) = (port.stats(), port.link());
    let state = match port.state() {
        // Not every driver tells that its link has changed.
        PortState::Up if link.up => "up",
        PortState::Up | PortState::Down => "down",
        PortState::Gone => "gone",
    };
    json!({
        "name": name, "driver": port.driver(), "state": state, "link_up": link.up, "link_mbps": link.speed_mbps,
        "rx_queues": port.rx_queues(), "tx_queues": port.tx_queues(),
        "rx_packets": stats.rx_packets, "rx_bytes": stats.rx_bytes, "rx_missed": stats.rx_missed,
        "rx_errors": stats.rx_errors, "rx_no_buffer": stats.rx_no_buffer,
        "tx_packets": stats.tx_packets, "tx_bytes": stats.tx_bytes, "tx_errors": stats.tx_errors,
    })
}
