//! What `valiant vr status` and `valiant vr top` show: rates, and why a router does not get more.

use serde_json::{Value, json};
use std::fmt::Write;

/// A part of all time from which on the processors count as busy.
const BUSY: f64 = 0.9;
/// A part of its share from which on a router counts as using it.
const USED: f64 = 0.95;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The sum of a number of all interfaces of a router.
fn sum(router: &Value, key: &str) -> f64 {
    list(&router["interfaces"]).map(|interface| number(&interface[key])).sum()
}

/// Adds to each router its packets a second, its part of the processors' time, and why it does not get more,
/// by the change since `before`.
pub(crate) fn add_rates(before: &Value, now: &mut Value) {
    let seconds = number(&now["seconds"]) - number(&before["seconds"]);
    let cycles = (number(&now["cycles"]) - number(&before["cycles"])) * number(&now["threads"]);
    if seconds <= 0.0 || cycles <= 0.0 {
        return;
    }
    let shares: f64 = list(&now["routers"]).map(|router| number(&router["share"])).sum();
    let rate = |now: f64, before: f64| ((now - before).max(0.0) / seconds).round();
    for port in now["ports"].as_array_mut().into_iter().flatten() {
        let Some(old) = list(&before["ports"]).find(|old| old["name"] == port["name"]) else { continue };
        for (key, name) in [("missed", "missed_pps"), ("lost_transmit_queue_full", "lost_transmit_pps")] {
            port[name] = rate(number(&port[key]), number(&old[key])).into();
        }
    }
    let find = |name: &Value| list(&before["routers"]).find(|old| old["name"] == *name);
    let idle = (number(&now["idle_cycles"]) - number(&before["idle_cycles"])).max(0.0) / cycles;
    let busy = (1.0 - idle).max(0.0);
    now["busy"] = busy.into();
    for router in now["routers"].as_array_mut().into_iter().flatten() {
        let Some(old) = find(&router["name"]) else { continue };
        for (key, name) in
            [("received", "received_pps"), ("lost_queue_full", "lost_pps"), ("not_sent", "not_sent_pps")]
        {
            router[name] = rate(sum(router, key), sum(old, key)).into();
        }
        // Some of it may have gone nowhere.
        let sent = |router: &Value| sum(router, "sent") - sum(router, "not_sent");
        router["sent_pps"] = rate(sent(router), sent(old)).into();
        router["waiting"] = sum(router, "waiting").into();
        router["dropped"] = most_dropped(old, router, rate);
        let time = (number(&router["cycles"]) - number(&old["cycles"])).max(0.0) / cycles;
        router["time"] = time.into();
        router["time_due"] = (number(&router["share"]) / shares.max(1.0)).into();
    }
    let host = now.clone();
    for router in now["routers"].as_array_mut().into_iter().flatten() {
        router["why"] = why(find(&router["name"]).unwrap_or(&Value::Null), router, &host, busy).into();
    }
}

/// For what reason most packets were dropped since `old`, where, and how many in a second.
fn most_dropped(old: &Value, router: &Value, rate: impl Fn(f64, f64) -> f64) -> Value {
    let before = |drop: &Value| {
        let same = |one: &&Value| one["element"] == drop["element"] && one["reason"] == drop["reason"];
        list(&old["drops"]).find(same).map_or(0.0, |one| number(&one["packets"]))
    };
    let rates = list(&router["drops"]).map(|drop| (rate(number(&drop["packets"]), before(drop)), drop));
    let most = rates.max_by(|(one, _), (other, _)| one.total_cmp(other)).filter(|(rate, _)| *rate > 0.0);
    most.map_or(
        Value::Null,
        |(rate, drop)| json!({"element": drop["element"], "reason": drop["reason"], "pps": rate}),
    )
}

/// Packets a second that a port counts as missed and of which it is known whose they were: those lost in the
/// queues of single routers.
fn lost_in_own_queues(host: &Value, port: &Value) -> f64 {
    let own = |router: &&Value| {
        list(&router["interfaces"]).any(|one| one["port"] == *port && one["own_queue"] == true)
    };
    list(&host["routers"]).filter(own).map(|router| number(&router["lost_pps"])).sum()
}

/// The limits of a router that were reached since `old`.
fn reached(old: &Value, router: &Value) -> Vec<String> {
    let refused = |router: &Value, limit: &str| number(&router["refused"][limit]);
    let all = router["refused"].as_object().into_iter().flatten().map(|(limit, _)| limit);
    all.filter(|limit| refused(router, limit) > refused(old, limit)).cloned().collect()
}

/// Why a router does not get more, in a sentence; `busy`: the part of all time in which the common processors
/// had work.
fn why(old: &Value, router: &Value, host: &Value, busy: f64) -> String {
    let part = |part: f64| format!("{:.0} %", part * 100.0);
    let (time, due) = (number(&router["time"]), number(&router["time_due"]));
    let received = number(&router["received_pps"]);
    let common = list(&host["routers"]).filter(|router| router["scheme"] == "shared");
    let all: f64 = common.map(|router| number(&router["time"])).sum();
    let ports = || {
        let names = || list(&router["interfaces"]).filter_map(|interface| interface["port"].as_str());
        list(&host["ports"]).filter(move |port| names().any(|name| port["name"] == name))
    };
    if router["ended"] == true {
        return "its program has ended by itself".to_owned();
    }
    if router["running"] != true {
        return match number(&router["failures"]) {
            0.0 => "it starts".to_owned(),
            failures => {
                let reason =
                    router["failure"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
                format!("it has failed {failures} times{reason}, and starts again after a pause: see the log")
            }
        };
    }
    if let Some(element) = router["stalled_in"].as_str()
        && number(&router["stalls"]) > number(&old["stalls"])
    {
        return format!("it has held a worker in {element}: give it scheme = \"direct\"");
    }
    if number(&router["lost_pps"]) > 0.0 {
        if router["scheme"] != "shared" {
            return "its process is slower than what comes: give it more cores".to_owned();
        }
        return if busy < BUSY {
            "its queue is full for moments, while there is time left: raise limits.queue".to_owned()
        } else if host["fair"] == true && time >= USED * due {
            format!(
                "it uses its share, {} of the time ({} due), and others want theirs: raise share",
                part(time),
                part(due)
            )
        } else if host["fair"] == true {
            format!(
                "the processors are busy, {} of the time with receiving: use more cores, or sharing = \"hardware\"",
                part((busy - all).max(0.0))
            )
        } else {
            "the processors are busy, and nobody has a share with sharing = \"software\": use \"software-queued\""
                .to_owned()
        };
    }
    let unseen = |port: &&Value| number(&port["missed_pps"]) > 1.01 * lost_in_own_queues(host, &port["name"]);
    if let Some(port) = ports().filter(|_| router["scheme"] != "direct").find(unseen) {
        let name = port["name"].as_str().unwrap_or_default();
        return format!(
            "the port {name} loses packets before it is seen whose they are: the processors are busy"
        );
    }
    if number(&router["not_sent_pps"]) > 0.0 {
        return "it sends more than its rate, or than its port or its link takes".to_owned();
    }
    if let [first, ..] = &reached(old, router)[..] {
        return format!("it has reached its limit {first}");
    }
    let dropped = &router["dropped"];
    if number(&dropped["pps"]) > 0.0 && 2.0 * number(&dropped["pps"]) > received {
        let text = |key: &str| dropped[key].as_str().unwrap_or_default();
        return format!("its program drops most packets: {}, in {}", text("reason"), text("element"));
    }
    match received {
        0.0 => NOTHING_COMES.to_owned(),
        _ => GETS_ALL.to_owned(),
    }
}

/// What is said of routers that lack nothing.
const NOTHING_COMES: &str = "nothing comes for it";
const GETS_ALL: &str = "it gets all that comes for it";

/// The limits that a router has reached, its runs that did not end in time, and what it lacks.
fn troubles(router: &Value) -> String {
    let mut text = String::new();
    for (limit, times) in router["refused"].as_object().into_iter().flatten() {
        if let Some(times @ 1..) = times.as_u64() {
            // Writing to a string cannot fail.
            let _ = write!(text, "; limit {limit}: {times} refused");
        }
    }
    if let Some(element) = router["stalled_in"].as_str() {
        let ms = number(&router["longest_stall_ms"]);
        let _ = write!(text, "; has held a worker for {ms} ms in {element}: give it scheme = \"direct\"");
    }
    let said = |why: &&str| ![NOTHING_COMES, GETS_ALL].contains(why) && router["running"] == true;
    if let Some(why) = router["why"].as_str().filter(said) {
        let _ = write!(text, "; {why}");
    }
    text
}

/// So many bytes, with a unit.
fn size(bytes: f64) -> String {
    match bytes {
        1e9.. => format!("{:.1} GB", bytes / 1e9),
        1e6.. => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{:.0} kB", bytes / 1e3),
    }
}

/// What `valiant vr top` shows: the routers, those that use most time first, in at most so many lines.
pub(crate) fn top(status: &Value, lines: usize) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut routers: Vec<&Value> = list(&status["routers"]).collect();
    let order = |router: &Value| (number(&router["time"]), number(&router["received_pps"]));
    routers.sort_by(|one, other| order(other).partial_cmp(&order(one)).unwrap_or(std::cmp::Ordering::Equal));
    let total = |key: &str| routers.iter().map(|router| number(&router[key])).sum::<f64>();
    let mut out = format!(
        "{}: {} routers, {:.0} packets/s received, {:.0} sent, {:.0} lost; {:.0} % of {} worker{} busy; {} of memory\n\n",
        text(&status["host"]),
        routers.len(),
        total("received_pps"),
        total("sent_pps"),
        total("lost_pps"),
        number(&status["busy"]) * 100.0,
        status["threads"],
        if status["threads"] == 1 { "" } else { "s" },
        size(number(&status["memory_bytes"]))
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<16} {:<8} {:>12} {:>12} {:>10} {:>10} {:>7} {:>7} {:>7} {:>8}  why not more",
        "router", "scheme", "received/s", "sent/s", "lost/s", "dropped/s", "time", "due", "waiting", "memory"
    );
    let shown = lines.saturating_sub(4).max(1);
    for router in routers.iter().take(shown) {
        let memory = router["memory_bytes"].as_f64().map_or_else(|| "-".to_owned(), size);
        let _ = writeln!(
            out,
            "{:<16} {:<8} {:>12} {:>12} {:>10} {:>10} {:>6.1}% {:>6.1}% {:>7} {:>8}  {}",
            text(&router["name"]),
            text(&router["scheme"]),
            number(&router["received_pps"]),
            number(&router["sent_pps"]),
            number(&router["lost_pps"]),
            number(&router["dropped"]["pps"]),
            number(&router["time"]) * 100.0,
            number(&router["time_due"]) * 100.0,
            number(&router["waiting"]),
            memory,
            text(&router["why"]),
        );
    }
    if routers.len() > shown {
        let _ = writeln!(out, "and {} more", routers.len() - shown);
    }
    out
}

/// The routers and the ports as a table.
pub(crate) fn table(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<16} {:<8} {:>5} {:>12} {:>12} {:>10} {:>7} {:>7}  state",
        "router", "scheme", "share", "received/s", "sent/s", "lost/s", "time", "due"
    );
    for router in status["routers"].as_array().into_iter().flatten() {
        let failures = number(&router["failures"]);
        let own = router["process"].as_u64().filter(|_| router["scheme"] == "direct");
        let process = own.map_or_else(String::new, |process| format!(" in process {process}"));
        let times = if failures == 1.0 { "once".to_owned() } else { format!("{failures} times") };
        let state = match (router["running"].as_bool(), failures > 0.0) {
            _ if router["ended"] == true => "has ended".to_owned(),
            (Some(true), false) => format!("runs{process}"),
            (Some(true), true) => format!("runs{process}, has failed {times}"),
            (_, false) => "starts".to_owned(),
            _ => match router["failure"].as_str() {
                Some(failure) => format!("waits after failure {failures}: {failure}"),
                None => format!("waits after failure {failures}"),
            },
        };
        let state = state + &troubles(router);
        let _ = writeln!(
            out,
            "{:<16} {:<8} {:>5} {:>12} {:>12} {:>10} {:>6.1}% {:>6.1}%  {state}",
            text(&router["name"]),
            text(&router["scheme"]),
            number(&router["share"]),
            number(&router["received_pps"]),
            number(&router["sent_pps"]),
            number(&router["lost_pps"]),
            number(&router["time"]) * 100.0,
            number(&router["time_due"]) * 100.0,
        );
    }
    let _ = writeln!(
        out,
        "\n{:<16} {:<16} {:>14} {:>14} {:>10} {:>16} {:>10}",
        "port", "device", "received", "sent", "missed", "for nobody", "malformed"
    );
    for port in status["ports"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "{:<16} {:<16} {:>14} {:>14} {:>10} {:>16} {:>10}",
            text(&port["name"]),
            text(&port["device"]),
            number(&port["received"]),
            number(&port["sent"]),
            number(&port["missed"]),
            number(&port["nobody_has_the_tag"]) + number(&port["nobody_has_the_address"]),
            number(&port["malformed"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_stretch_between_two_looks() {
        let look = |cycles: u64, received: u64, used: u64| {
            json!({"cycles": cycles, "seconds": cycles as f64 / 1000.0, "threads": 2, "ports": [], "routers": [
                {"name": "a", "scheme": "shared", "share": 3, "cycles": used, "running": true, "failures": 0,
                 "interfaces": [{"received": received, "sent": 0, "lost_queue_full": 1}]},
                {"name": "b", "scheme": "shared", "share": 1, "cycles": 0, "running": false, "failures": 2, "interfaces": []},
            ]})
        };
        let (before, mut now) = (look(1000, 50, 100), look(3000, 450, 1100));
        add_rates(&before, &mut now);
        let a = &now["routers"][0];
        assert_eq!((number(&a["received_pps"]), number(&a["lost_pps"])), (200.0, 0.0));
        assert_eq!((number(&a["time"]), number(&a["time_due"])), (0.25, 0.75));
        let text = table(&now);
        assert!(text.contains("25.0%") && text.contains("waits after failure 2"), "{text}");
        let a = &mut now["routers"][0];
        (a["stalled_in"], a["longest_stall_ms"]) = ("'f :: Fault'".into(), 1500.into());
        a["refused"] = json!({"routes": 3, "log_lines": 0});
        let text = table(&now);
        assert!(
            text.contains("runs; limit routes: 3 refused; has held a worker for 1500 ms in 'f :: Fault'"),
            "{text}"
        );
        now["routers"][0]["scheme"] = "direct".into();
        now["routers"][0]["process"] = 77.into();
        now["routers"][1]["ended"] = true.into();
        let text = table(&now);
        assert!(text.contains("runs in process 77;") && text.contains("has ended\n"), "{text}");
    }

    /// What is said of a router `r` on a busy host; `change` changes what the second look shows.
    fn said(change: impl Fn(&mut Value)) -> String {
        let look = |n: u64| {
            json!({"cycles": n * 1000, "seconds": n, "threads": 1, "idle_cycles": 0, "fair": true,
                "ports": [{"name": "wan", "missed": 0, "lost_transmit_queue_full": 0}],
                "routers": [
                    {"name": "r", "scheme": "shared", "share": 1, "cycles": 500 * n, "running": true, "failures": 0,
                     "refused": {"routes": 0}, "stalls": 0, "drops": [],
                     "interfaces": [{"port": "wan", "received": 10 * n, "sent": 10 * n, "lost_queue_full": 0, "not_sent": 0}]},
                    {"name": "s", "scheme": "shared", "share": 1, "cycles": 450 * n, "running": true, "failures": 0}]})
        };
        let (before, mut now) = (look(1), look(2));
        change(&mut now);
        add_rates(&before, &mut now);
        now["routers"][0]["why"].as_str().unwrap().to_owned()
    }

    #[test]
    fn why_a_router_does_not_get_more() {
        let interface = |key: &'static str, n: u64| {
            move |now: &mut Value| now["routers"][0]["interfaces"][0][key] = n.into()
        };
        let lost = interface("lost_queue_full", 5);
        for (expected, said) in [
            (GETS_ALL, said(|_| {})),
            (NOTHING_COMES, said(interface("received", 10))),
            ("it uses its share, 50 % of the time (50 % due)", said(lost)),
            ("nobody has a share", said(|now| (lost(now), now["fair"] = false.into()).0)),
            (
                "while there is time left: raise limits.queue",
                said(|now| (lost(now), now["idle_cycles"] = 400.into()).0),
            ),
            (
                "35 % of the time with receiving",
                said(|now| (lost(now), now["routers"][0]["cycles"] = 700.into()).0),
            ),
            (
                "its process is slower",
                said(|now| (lost(now), now["routers"][0]["scheme"] = "hybrid".into()).0),
            ),
            ("the port wan loses packets", said(|now| now["ports"][0]["missed"] = 7.into())),
            (
                GETS_ALL,
                said(|now| {
                    now["ports"][0]["missed"] = 7.into();
                    now["routers"][1]["interfaces"] = json!([{"port": "wan", "own_queue": true, "lost_queue_full": 7, "received": 1, "sent": 1, "not_sent": 0}]);
                }),
            ),
            ("it sends more than its rate", said(interface("not_sent", 3))),
            ("its limit routes", said(|now| now["routers"][0]["refused"]["routes"] = 1.into())),
            (
                "held a worker in f :: Fault",
                said(|now| {
                    now["routers"][0]["stalls"] = 1.into();
                    now["routers"][0]["stalled_in"] = "f :: Fault".into();
                }),
            ),
            (
                "no route, in rt",
                said(|now| {
                    now["routers"][0]["drops"] = json!([{"element": "c", "reason": "short", "packets": 1},
                    {"element": "rt", "reason": "no route", "packets": 9}]);
                }),
            ),
            (
                "failed 3 times",
                said(|now| {
                    now["routers"][0]["running"] = false.into();
                    now["routers"][0]["failures"] = 3.into();
                }),
            ),
            ("ended by itself", said(|now| now["routers"][0]["ended"] = true.into())),
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }

    #[test]
    fn the_most_busy_routers_come_first_and_the_rest_is_counted() {
        let routers: Vec<_> =
            (0..9).map(|n| json!({"name": format!("r{n}"), "time": f64::from(n) / 10.0})).collect();
        let text = top(
            &json!({"host": "h", "threads": 2, "busy": 0.5, "memory_bytes": 2_500_000, "routers": routers}),
            8,
        );
        let names: Vec<&str> = text.lines().skip(3).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["r8", "r7", "r6", "r5", "and"], "{text}");
        assert!(
            text.starts_with("h: 9 routers, ") && text.contains("50 % of 2 workers busy; 2 MB"),
            "{text}"
        );
        assert!(text.ends_with("and 5 more\n"), "{text}");
    }
}
