//! `valiant bench run`, as a user calls it, without ports: the file and the plan.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    assert!(told.starts_with("experiment: 3 points, one round of each"), "{told}");
    assert!(told.contains("\n  size 60\n  size 508\n  size 1514\n"), "{told}");
    let done = bench(&[example.to_str().unwrap(), "--plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((plan["points"].as_array().unwrap().len(), plan["rounds"].as_u64()), (3, Some(1)), "{plan}");
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
fn the_plan_warns_of_factors_that_cannot_be_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e.toml");
    let ports = "[traffic]\nto = \"a\"\nsink = \"b\"\n";
    std::fs::write(
        &file,
        format!("{ports}[[point]]\nsize = 60\nflows = 1\n[[point]]\nsize = 508\nflows = 9\n"),
    )
    .unwrap();
    let done = bench(&[file.to_str().unwrap(), "--plan"]);
    let told = text(&done.stdout);
    assert!(told.contains("  size 508, flows 9\nwarning: size and flows change together"), "{told}");
    let done = bench(&[file.to_str().unwrap(), "--plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(plan["warnings"].as_array().unwrap().len(), 1, "{plan}");
    // What the generator would refuse is seen too.
    std::fs::write(&file, format!("{ports}src = \"10.0.0\"\nsize = 20\n")).unwrap();
    let done = bench(&[file.to_str().unwrap(), "--plan"]);
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(
        told.contains("e.toml:4:7")
            && told.contains("src: '10.0.0'")
            && told.contains("size: frames of 20 bytes"),
        "{told}"
    );
}

#[test]
fn reports_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let report = |rates: [f64; 4]| {
        let rounds: Vec<_> = rates.iter().map(|pps| serde_json::json!({"pps": pps})).collect();
        serde_json::json!({"results": [{"point": {}, "loss_allowed": 0.0, "rounds": rounds}]}).to_string()
    };
    std::fs::write(path("a"), report([1e6, 1.01e6, 1.02e6, 1.03e6])).unwrap();
    std::fs::write(path("b"), report([2e6, 2.01e6, 2.02e6, 2.03e6])).unwrap();
    std::fs::write(path("c"), "no report").unwrap();
    let compare = |a: &str, b: &str| {
        let words = ["bench", "compare", &path(a), &path(b)].map(str::to_owned);
        Command::new(env!("CARGO_BIN_EXE_valiant")).args(words).output().unwrap()
    };
    let told = text(&compare("a", "b").stdout);
    assert!(told.contains("loss up to 0 %") && told.contains("faster"), "{told}");
    let wrong = compare("a", "c");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("this is no JSON"), "{wrong:?}");
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

#[test]
fn points_whose_rounds_differ_too_much_are_measured_again_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("e.toml");
    // Each run of the command takes the next number of its point. The second of `settles` is off, the
    // fourth brings the quartiles together; `restless` never settles.
    let numbers =
        [("steady", "10 10 10 50 50"), ("settles", "10 13 10 10 50"), ("restless", "10 50 90 10 90")];
    for (name, numbers) in numbers {
        std::fs::write(dir.path().join(name), numbers.replace(' ', "\n")).unwrap();
    }
    let command = r#"echo run >>"$WHAT.runs"; sed -n "$(wc -l <"$WHAT.runs")s/.*/{\"x\": &}/p" "$WHAT""#;
    let experiment = |more: &str| {
        format!(
            "[experiment]\nrounds = 3\n{more}[device]\ncommand = '{command}'\n[figures]\nx = \"x\"\n\
             [vary]\n\"$WHAT\" = [\"steady\", \"settles\", \"restless\"]\n"
        )
    };
    std::fs::write(&file, experiment("")).unwrap();
    let runs = |name: &str| {
        std::fs::read_to_string(dir.path().join(format!("{name}.runs"))).unwrap().lines().count()
    };
    let done = bench(&[file.to_str().unwrap(), "--json", "--quiet"]);
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(["steady", "settles", "restless"].map(runs), [3, 4, 5], "{report}");
    let of = |row: usize, key: &str| report["results"][row][key].clone();
    assert_eq!(
        [0, 1, 2].map(|row| of(row, "spread_too_wide").as_bool()),
        [Some(false), Some(false), Some(true)]
    );
    assert_eq!(of(0, "spread").as_f64(), Some(0.0));
    assert_eq!(of(2, "rounds").as_array().unwrap().len(), 5);
    // What is complete is not measured again.
    let table = text(&bench(&[file.to_str().unwrap(), "--quiet"]).stdout);
    assert_eq!(["steady", "settles", "restless"].map(runs), [3, 4, 5], "{table}");
    assert!(
        table.contains("2 of 3 results were measured more often") && table.contains("160.0 % !"),
        "{table}"
    );
    // Another limit is another experiment.
    std::fs::write(&file, experiment("spread = 0.99\n")).unwrap();
    numbers
        .iter()
        .for_each(|(name, _)| std::fs::remove_file(dir.path().join(format!("{name}.runs"))).unwrap());
    let done = bench(&[file.to_str().unwrap(), "--restart", "--quiet"]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(["steady", "settles", "restless"].map(runs), [3, 3, 3]);
    let few = experiment("spread = 2\n").replace("rounds = 3", "rounds = 2");
    std::fs::write(&file, few).unwrap();
    let told = text(&bench(&[file.to_str().unwrap(), "--plan"]).stderr);
    assert!(told.contains("e.toml:3:10") && told.contains("spread = 2"), "{told}");
}

#[test]
fn the_experiments_of_papers_have_no_mistakes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let names = |end: &str| {
        let entries = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|its| its == end)).collect::<Vec<_>>()
    };
    let (files, programs) = (names("toml"), names("click"));
    assert!(files.len() >= 6 && programs.len() >= 4, "{files:?} {programs:?}");
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    for path in files {
        let done = bench(&[path.to_str().unwrap(), "--plan"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let file = std::fs::read_to_string(&path).unwrap();
        let parts = ["\n[paper]\n", "\n[[expect]]\n", "What is the same", "What this does not show"];
        parts.iter().for_each(|part| assert!(file.contains(part), "{}: no {part}", path.display()));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in README.md");
    }
    for path in programs {
        // Names of files in a program start at its directory, as when an experiment runs it.
        let mut check = Command::new(env!("CARGO_BIN_EXE_valiant"));
        let done = check.current_dir(&dir).arg("check").arg(path.file_name().unwrap()).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stdout) + &text(&done.stderr));
    }
}

#[test]
fn an_agent_says_who_it_is_and_refuses_what_is_no_request() {
    let agent = |input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valiant"));
        command.args(["bench", "agent"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let done = agent("");
    assert!(done.status.success(), "{done:?}");
    let hello: serde_json::Value =
        serde_json::from_str(&text(&done.stdout)).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    assert_eq!(hello["hello"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(hello["hello"]["machine"]["host"].is_string(), "{hello}");
    let done = agent("hello\n");
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(
        text(&done.stderr).contains("this is no message") && text(&done.stderr).contains("'hello'"),
        "{done:?}"
    );
}
