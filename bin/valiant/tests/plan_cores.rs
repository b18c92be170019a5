//! `valiant plan-cores` on simulated machines: a directory takes the place of /sys.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

#[path = "../../../crates/dpdk/tests/machine/mod.rs"]
mod machine;

use machine::Machine;

impl Machine {
    fn plan(&self, config: &str, arguments: &[&str]) -> Output {
        run(&self.root, config, arguments)
    }
    fn json(&self, config: &str, arguments: &[&str]) -> Value {
        let done = self.plan(config, &[arguments, &["--json"]].concat());
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"))
    }
}

fn run(sysfs: &Path, config: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant"))
        .args(["plan-cores", "--sysfs"])
        .arg(sysfs)
        .args(["-e", config])
        .args(arguments)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// For each worker, one of its fields.
fn field(plan: &Value, name: &str) -> Vec<Value> {
    plan["workers"].as_array().unwrap().iter().map(|worker| worker[name].clone()).collect()
}

fn rules(plan: &Value) -> Vec<String> {
    plan["breaks"].as_array().unwrap().iter().map(|b| b["rule"].as_str().unwrap().to_owned()).collect()
}

const NIC: &str = "in :: FromDPDKDevice(0000:81:00.0) -> out :: ToDPDKDevice(0000:81:00.0)";

#[test]
fn workers_are_near_their_port_and_nothing_is_broken() {
    let machine = Machine::new("plan-near", "");
    let plan = machine.json(NIC, &["-j", "2"]);
    assert_eq!(field(&plan, "cpu"), [2, 3]);
    assert_eq!(field(&plan, "node"), [1, 1]);
    assert_eq!(rules(&plan), Vec::<String>::new());
    assert_eq!(plan["ports"][0]["node"], 1);
    assert_eq!(plan["ports"][0]["queues_known"], false);
    let queues: Vec<Value> = field(&plan, "receives").iter().map(|r| r[0]["queues"][0].clone()).collect();
    assert_eq!(queues, [0, 1]);
    let text = text(&machine.plan(NIC, &["-j", "2"]));
    assert!(text.contains("worker 0 on CPU 2, node 1: near 0000:81:00.0"), "{text}");
    assert!(text.contains("every queue is polled by one core"), "{text}");
    assert!(text.contains("the number of queues of 0000:81:00.0 is known only when it is opened"), "{text}");
}

#[test]
fn far_nodes_siblings_and_shared_processors_are_named() {
    let machine = Machine::new("plan-far", "");
    let far = text(&machine.plan(NIC, &["-j", "3"]));
    assert!(far.contains("worker 2 on CPU 1, node 0: far from 0000:81:00.0 on node 1: distance 32"), "{far}");
    let six = machine.json(NIC, &["-j", "6"]);
    assert_eq!(field(&six, "cpu"), [2, 3, 1, 0, 6, 7]);
    assert_eq!(six["workers"][4]["sibling_workers"][0], 0);
    let ten = machine.json(NIC, &["-j", "10"]);
    assert_eq!(rules(&ten), ["one core for each queue", "one core for each queue"]);
    assert!(ten["breaks"][0]["what"].as_str().unwrap().contains("more workers than processors"));
    let chosen = machine.json(NIC, &["-j", "2", "--cpus", "6,2"]);
    assert_eq!(field(&chosen, "cpu"), [6, 2]);
    let few = machine.plan(NIC, &["-j", "2", "--cpus", "6"]);
    assert!(!few.status.success() && text(&few).contains("--cpus names 1 processors for 2 workers"));
}

#[test]
fn isolated_processors_are_taken_first() {
    let plan = Machine::new("plan-isolated", "1,5").json(NIC, &["-j", "2"]);
    assert_eq!(field(&plan, "cpu"), [1, 5]);
    assert_eq!(field(&plan, "isolated"), [true, true]);
}

#[test]
fn what_is_not_parallel_is_named_with_its_element() {
    let machine = Machine::new("plan-broken", "");
    let config = "in :: FromDevice(eth0) -> Queue -> one :: LinkUnqueue(0, 1GBps) -> out :: ToDevice(eth0)";
    let plan = machine.json(config, &["-j", "2"]);
    assert_eq!(plan["workers"][0]["receives"][0]["spreads_over"], serde_json::json!([0, 1]));
    assert_eq!(plan["workers"][1]["receives"][0]["from_workers"], serde_json::json!([0]));
    assert_eq!(plan["workers"][1]["sends"][0]["through_worker"], 0);
    let text = text(&machine.plan(config, &["-j", "2"]));
    for line in [
        "breaks \"one core for each packet\": in :: FromDevice: worker 0 receives for worker 0 and 1",
        "breaks \"one core for each queue\": out :: ToDevice: packets from worker 1 are sent by worker 0",
        "not parallel: one :: LinkUnqueue: it has one instance, on worker 0",
        "breaks \"one core for each packet\": Queue@2 :: Queue: packets enter it on one worker",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // With one worker, no rule is broken.
    assert_eq!(rules(&machine.json(config, &[])), Vec::<String>::new());
}

#[test]
fn placements_and_mistakes() {
    let machine = Machine::new("plan-roles", "");
    let serial = machine.json(NIC, &["-j", "4", "--placement", "serial"]);
    assert_eq!(serial["placement"], "serial");
    assert_eq!(serial["workers"][0]["receives"][0]["spreads_over"], serde_json::json!([1, 2]));
    assert_eq!(serial["workers"][3]["sends"][0]["for_workers"], serde_json::json!([0, 1, 2]));
    let few = machine.plan(NIC, &["-j", "2", "--placement", "serial"]);
    assert!(!few.status.success() && text(&few).contains("at least 3 workers (-j 3)"), "{}", text(&few));
    let none = machine.json("FromDevice(eth0, RSS NONE) -> Discard", &["-j", "2"]);
    assert_eq!(rules(&none), ["idle"]);
    let high = machine
        .plan("FromDevice(eth0, QUEUE 0) -> Discard; FromDevice(eth0, QUEUE 1) -> Discard", &["-j", "2"]);
    assert!(!high.status.success());
    assert!(
        text(&high).contains("receive queue 1 was asked for, and eth0 has 1 (only 0)"),
        "{}",
        text(&high)
    );
    let missing = run(Path::new("/nonexistent"), NIC, &[]);
    assert!(!missing.status.success() && text(&missing).contains("names no processor"));
}

#[test]
fn more_workers_than_processors_are_warned_of() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let run = |workers: usize, more: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_valiant"))
            .args(["run", "-q", "-j", &workers.to_string(), "-e", "Idle -> Discard"])
            .args(more)
            .output()
            .unwrap();
        text(&done)
    };
    let warning = format!("{} workers share {processors} processors", processors + 1);
    assert!(run(processors + 1, &[]).contains(&warning));
    assert!(!run(processors, &[]).contains("share"));
    assert!(run(processors.max(2), &["--cpus", "0"]).contains("--cpus names 1 processors for"));
    assert!(run(2, &["--placement", "fast"]).contains("parallel, pipeline, serial and single"));
    assert!(run(2, &["--placement", "single"]).contains("single has one worker, 2 were asked for"));
}
