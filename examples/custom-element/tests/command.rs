//! The built command knows the element.

use std::process::{Command, Output};

fn valiant(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant-ttl")).args(args).output().expect("the command runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const PACKET: &str = "\\<4500001c 00000000 01110000 0a000001 0a000002 0000000000000000>";

#[test]
fn runs_a_configuration_with_the_element() {
    let config = format!(
        "InfiniteSource(DATA {PACKET}, LIMIT 3, STOP true) -> MarkIPHeader -> ttl :: CountTtl(LIMIT 5) -> Discard;"
    );
    let out = stdout(&valiant(&["run", "-e", &config, "-h", "ttl.low", "-h", "ttl.lowest"]));
    assert_eq!(out, "ttl.low:\n3\n\nttl.lowest:\n1\n\n");
}

#[test]
fn the_example_in_the_manual_runs() {
    let manual = stdout(&valiant(&["element", "CountTtl"]));
    let example =
        manual.split("```click\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert_eq!(stdout(&valiant(&["run", "-e", example, "-h", "ttl.count"])), "3\n");
}

#[test]
fn a_wrong_argument_is_shown_in_its_place() {
    let wrong = valiant(&["check", "-e", "Idle -> CountTtl(LIMIT x) -> Discard"]);
    assert!(!wrong.status.success());
    let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(message.contains("LIMIT") && message.contains('^'), "{message}");
}

#[test]
fn the_library_is_there_too() {
    assert!(stdout(&valiant(&["elements", "Queue"])).contains("ThreadSafeQueue"));
}
