//! `valiant nic bench`, with so little measured that its figures mean nothing: what it says, keeps and draws.

mod browser;
#[path = "../../../tests/skip.rs"]
mod skip;

use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

const LOOK: &str = r##"<script>
const count = what => document.querySelectorAll(what).length;
const root = document.documentElement;
root.setAttribute("data-seen", encodeURIComponent(JSON.stringify({
  answers: count("li.good") + count("li.bad") + count("li.open"), open: count("li.open"), plots: count("figure svg"), links: count("h2 a"),
  text: document.body.innerText, wider: root.scrollWidth - root.clientWidth})));
</script>"##;

fn valiant(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant"))
        .current_dir(dir)
        .args(["nic", "bench", "--tiny", "--quiet", "--html", "pages"])
        .args(arguments)
        .output()
        .unwrap()
}

/// The answers of each target, when some questions may be failed.
fn answers(dir: &Path, arguments: &[&str]) -> Vec<Value> {
    let done = valiant(dir, &[arguments, &["--json"]].concat());
    assert!(matches!(done.status.code(), Some(0 | 4)), "{done:?}");
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    told["targets"].as_array().unwrap().clone()
}

fn verdicts(target: &Value) -> Vec<&str> {
    target["answers"].as_array().unwrap().iter().map(|answer| answer["verdict"].as_str().unwrap()).collect()
}

#[test]
fn the_classifier_in_software_has_eight_answers() {
    let dir = tempfile::tempdir().unwrap();
    let all = answers(dir.path(), &[]);
    let [software] = &all[..] else { panic!("{all:?}") };
    let told = verdicts(software);
    assert!(told.len() == 8 && told.iter().all(|word| ["pass", "fail"].contains(word)), "{software:#}");
    assert!(software["advice"].as_array().unwrap().len() >= 5, "{:#}", software["advice"]);
    assert!(software["experiments"]["chain"]["machine"]["dpdk"].is_string(), "{software:#}");
    // What is measured is kept.
    let file = dir.path().join("nic-bench.results/software.tiny/chain.results/results.jsonl");
    let kept = std::fs::read(&file).unwrap();
    assert_eq!((verdicts(&answers(dir.path(), &[])[0]), std::fs::read(&file).unwrap()), (told, kept));
    let page = std::fs::read_to_string(dir.path().join("pages/index.html")).unwrap();
    let Some(seen) = browser::seen(dir.path(), &page, LOOK, (1300, false)) else {
        skip::skip("chromium is not installed");
        return;
    };
    assert_eq!(
        (&seen["answers"], &seen["open"], &seen["links"]),
        (&json!(8), &json!(0), &json!(6)),
        "{seen:#}"
    );
    // The time series of batches, and the first plot of each experiment.
    assert!(seen["plots"].as_u64() >= Some(8), "{seen:#}");
    assert_eq!(seen["wider"], 0, "{seen:#}");
}

#[test]
fn a_port_without_rules_says_why() {
    // Who runs this owns it.
    if std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        skip::skip("it needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ports = ["net_null30", "net_failsafe31,fd(/dev/null)"];
    let all = answers(dir.path(), &ports);
    let [null, failsafe] = &all[..] else { panic!("{all:?}") };
    assert_eq!(verdicts(null), ["cannot be asked here"; 8], "{null:#}");
    let words = |answer: &Value| answer["answer"].as_str().unwrap().to_owned();
    let refused = null["answers"].as_array().unwrap().iter().map(words);
    assert!(refused.into_iter().all(|text| text.ends_with("Function not implemented")), "{null:#}");
    assert_eq!((&null["driver"], &failsafe["driver"]), (&json!("net_null"), &json!("net_failsafe")));
    // It takes all rules, but no packet comes.
    let told = verdicts(failsafe);
    assert_eq!(told[..5], ["cannot be asked here"; 5], "{failsafe:#}");
    assert!(told[5..7].iter().all(|word| ["pass", "fail"].contains(word)), "{failsafe:#}");
    assert!(words(&failsafe["answers"][0]).contains("--from"), "{failsafe:#}");
    assert!(words(&failsafe["answers"][7]).contains("delete-insert: "), "{failsafe:#}");
}

#[test]
fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (status, arguments, words) in [
        (2, &["--only", "9"][..], "'9' is no question: 1 to 8, or one of occupancy, chain"),
        (2, &["--engine", "hardware"], "which port?"),
        (2, &["--cores", "0,9999"], "--cores: processor 9999 is not there"),
        (1, &["net_nothing0"], "net_nothing0"),
    ] {
        let done = valiant(dir.path(), arguments);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(status) && told.contains(words), "{arguments:?}: {done:?}");
    }
    // Before anything is measured.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("pages"), "").unwrap();
    let done = valiant(dir.path(), &[]);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && told.contains("--html: pages/index.html: "), "{done:?}");
    assert!(!dir.path().join("nic-bench.results").exists());
}
