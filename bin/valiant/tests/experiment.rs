//! `valiant bench run`, as a user calls it, without ports: the file and the plan.

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_valiant")).args(["bench", "run"]).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_plan_of_the_example_names_all_points() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf/experiment.toml");
    let done = bench(&[example.to_str().unwrap(), "--plan"]);
    let told = text(&done.stdout);
    assert!(done.status.success(), "{done:?}");
    assert!(told.starts_with("experiment: 3 points, 3 rounds of each"), "{told}");
    assert!(told.contains("\n  size 60\n  size 508\n  size 1514\n"), "{told}");
    let done = bench(&[example.to_str().unwrap(), "--plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((plan["points"].as_array().unwrap().len(), plan["rounds"].as_u64()), (3, Some(3)), "{plan}");
}

#[test]
fn mistakes_in_a_file_are_told_with_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e.toml");
    std::fs::write(&file, "[traffic]\nto = \"a\"\nsink = \"b\"\nspeed = 1\n[vary]\nsize = []\n").unwrap();
    let done = bench(&[file.to_str().unwrap()]);
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("e.toml:4:1") && told.contains("traffic has no 'speed'"), "{told}");
    assert!(told.contains("e.toml:6:8") && told.contains("size has no value"), "{told}");
    assert!(!dir.path().join("e.results").exists(), "nothing was measured");
    let missing = bench(&[dir.path().join("none.toml").to_str().unwrap()]);
    assert!(!missing.status.success() && text(&missing.stderr).contains("none.toml"), "{missing:?}");
}

#[test]
fn results_that_cannot_be_kept_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e.toml");
    std::fs::write(&file, "[traffic]\nto = \"a\"\nsink = \"b\"\n").unwrap();
    std::fs::write(dir.path().join("e.results"), "a file in the way").unwrap();
    let done = bench(&[file.to_str().unwrap(), "--quiet"]);
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.contains("results.jsonl"), "{told}");
}
