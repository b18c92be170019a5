//! Golden tests: every `tests/click/**/*.clicktest` is a configuration, its input and its expected output in
//! one file, in the format of Click's own tests.
//!
//! Sections begin with a line `%name`:
//! - `%info`: what is tested.
//! - `%script`: shell commands; `click` and `valiant` are on the path. Its standard output and error are
//!   checked.
//! - `%file NAME...`: a file (or the same contents under several names) that the script finds in its
//!   directory.
//! - `%expect stdout|stderr|NAME`: what must come out. `{{...}}` is a regular expression; white space at the
//!   ends of lines does not count. A stream without a section must stay empty.
//! - `%status N`: the exit status of the script, which is that of its last command; 0 without a section.
//! - `%ignore PATTERN` or a section `%ignore`: lines matching a regular expression do not count.
//! - `%require`: a shell command; if it fails the test is skipped, visibly.
//!
//! Every element class has a file of its own, `SECTION/CLASS.clicktest` with its name in lower case, whose
//! script uses it.
//!
//! `VALIANT_BLESS=1 cargo test -p valiant --test golden [NAME]` writes what came out into the files.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use regex::Regex;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a script may take; far more than it needs, as machines are busy.
const LIMIT: Duration = Duration::from_secs(180);

/// A section: its heading's words and its text.
struct Section {
    words: Vec<String>,
    text: String,
}

fn sections(text: &str) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix('%').filter(|l| l.starts_with(|c: char| c.is_ascii_alphabetic())) {
            Some(heading) => {
                let words: Vec<String> = heading.split_whitespace().map(str::to_owned).collect();
                if words[0] == "end" || words[0] == "eot" || words[0] == "eof" {
                    all.push(Section { words: vec!["end".into()], text: String::new() });
                } else {
                    all.push(Section { words, text: String::new() });
                }
            }
            None => {
                if let Some(section) = all.last_mut() {
                    section.text += line;
                    section.text.push('\n');
                }
            }
        }
    }
    all
}

/// One line of the expected output: literal except for `{{...}}`.
fn line_matches(expected: &str, got: &str) -> bool {
    let (expected, got) = (expected.trim_end(), got.trim_end());
    if !expected.contains("{{") {
        return expected == got;
    }
    let mut pattern = String::from("^");
    let mut rest = expected;
    while let Some((literal, after)) = rest.split_once("{{") {
        pattern += &regex::escape(literal);
        let (inside, after) = after.split_once("}}").unwrap_or((after, ""));
        pattern += &format!("(?:{inside})");
        rest = after;
    }
    pattern += &regex::escape(rest);
    pattern.push('$');
    Regex::new(&pattern).is_ok_and(|r| r.is_match(got))
}

fn compare(what: &str, expected: &str, got: &str, ignored: &[Regex]) -> Result<(), String> {
    let keep = |text: &str| -> Vec<String> {
        let lines =
            text.lines().filter(|l| !ignored.iter().any(|r| r.is_match(l))).map(|l| l.trim_end().to_owned());
        let mut lines: Vec<String> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    };
    let (want, have) = (keep(expected), keep(got));
    let wrong = (0..want.len().max(have.len())).find(|&i| match (want.get(i), have.get(i)) {
        (Some(w), Some(h)) => !line_matches(w, h),
        _ => true,
    });
    match wrong {
        None => Ok(()),
        Some(i) => {
            let show = |l: Option<&String>| l.map_or("(end)".to_owned(), |l| format!("'{l}'"));
            Err(format!(
                "{what} line {}:\n  expected {}\n  got      {}\nwhole {what}:\n{got}",
                i + 1,
                show(want.get(i)),
                show(have.get(i))
            ))
        }
    }
}

/// The results of a script: its exit status (128 and the number of the signal that ended it), standard output
/// and error.
struct Done {
    status: i32,
    stdout: String,
    stderr: String,
}

fn shell(script: &str, dir: &Path, path: &str) -> Result<Done, Failed> {
    let io = |e: std::io::Error| Failed::from(e.to_string());
    let (out, err) = (dir.join(".stdout"), dir.join(".stderr"));
    let mut child = Command::new("bash")
        .args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .env("LANG", "C")
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).map_err(io)?)
        .stderr(fs::File::create(&err).map_err(io)?)
        .process_group(0)
        .spawn()
        .map_err(io)?;
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break Some(status);
        }
        if start.elapsed() > LIMIT {
            break None;
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    if ended.is_none() {
        // The whole process group: the script and every process that it started.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
        let _ = child.wait();
    }
    let read = |p: &Path| fs::read(p).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
    let (stdout, stderr) = (read(&out), read(&err));
    match ended {
        None => Err(format!("still running after {LIMIT:?}\nstdout:\n{stdout}\nstderr:\n{stderr}").into()),
        Some(ended) => {
            let status = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or_default());
            Ok(Done { status, stdout, stderr })
        }
    }
}

fn run(file: &Path, bin: &Path) -> Result<Completion, Failed> {
    let io = |e: std::io::Error| Failed::from(e.to_string());
    let text = fs::read_to_string(file).map_err(io)?;
    let parts = sections(&text);
    let dir = tempfile::tempdir().map_err(io)?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let (mut script, mut ignored) = (String::new(), Vec::new());
    let mut expectations: Vec<(usize, String)> = Vec::new();
    let mut status = 0;
    for (index, part) in parts.iter().enumerate() {
        let words: Vec<&str> =
            part.words.iter().map(String::as_str).filter(|w| !w.starts_with('-')).collect();
        match words[0] {
            "script" => script += &part.text,
            "file" => {
                for name in &words[1..] {
                    fs::write(dir.path().join(name), &part.text).map_err(io)?;
                }
            }
            "require" => {
                if shell(&part.text, dir.path(), &path)?.status != 0 {
                    let all: Vec<&str> = part.text.split_whitespace().collect();
                    return Ok(Completion::ignored_with(format!("it requires: {}", all.join(" "))));
                }
            }
            "status" => {
                let number = words.get(1).and_then(|n| n.parse().ok());
                status = number.ok_or("%status is followed by a number")?;
            }
            "expect" | "expectv" => expectations.push((index, words.get(1).unwrap_or(&"stdout").to_string())),
            "ignore" | "ignorex" => {
                let patterns = part.text.lines().map(str::to_owned).chain(Some(words[1..].join(" ")));
                for pattern in patterns.filter(|p| !p.trim().is_empty()) {
                    ignored.push(Regex::new(&pattern).map_err(|e| Failed::from(e.to_string()))?);
                }
            }
            "info" | "desc" | "cut" | "end" => {}
            other => return Err(format!("unknown section %{other}").into()),
        }
    }
    if script.is_empty() || expectations.is_empty() {
        return Err("a golden test needs %script and %expect".into());
    }
    let done = shell(&script, dir.path(), &path)?;
    let actual = |name: &str| match name {
        "stdout" => done.stdout.clone(),
        "stderr" => done.stderr.clone(),
        name => fs::read(dir.path().join(name))
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default(),
    };
    if std::env::var_os("VALIANT_BLESS").is_some() {
        bless(file, &parts, done.status, |index, text| {
            let name = expectations.iter().find(|(i, _)| *i == index).map(|(_, name)| name)?;
            let got = actual(name);
            compare(name, text, &got, &ignored).is_err().then(|| blessed(text, &got, &ignored))
        })
        .map_err(io)?;
        return Ok(Completion::Completed);
    }
    let with_errors = |e: String| Failed::from(format!("{e}\nstderr:\n{}", done.stderr));
    for (index, name) in &expectations {
        compare(name, &parts[*index].text, &actual(name), &ignored).map_err(with_errors)?;
    }
    for stream in ["stdout", "stderr"] {
        if !expectations.iter().any(|(_, name)| name == stream) {
            compare(&format!("{stream} (no section %expect {stream})"), "", &actual(stream), &ignored)?;
        }
    }
    if done.status != status {
        return Err(with_errors(format!("exit status {} of the script, expected {status}", done.status)));
    }
    Ok(Completion::Completed)
}

/// What came out, without the lines that do not count; where a regular expression matched a line, it stays.
fn blessed(expected: &str, got: &str, ignored: &[Regex]) -> String {
    let counted = got.lines().filter(|line| !ignored.iter().any(|r| r.is_match(line)));
    let lines = counted.map(|line| {
        let pattern = expected.lines().find(|old| old.contains("{{") && line_matches(old, line));
        format!("{}\n", pattern.unwrap_or(line))
    });
    lines.collect()
}

/// Rewrites the test, with the text from `changed` in place of that of a section.
fn bless(
    file: &Path,
    parts: &[Section],
    status: i32,
    changed: impl Fn(usize, &str) -> Option<String>,
) -> std::io::Result<()> {
    let mut blessed = String::new();
    let mut expected_any = false;
    for (index, part) in parts.iter().enumerate() {
        let has_status = parts.iter().any(|part| part.words[0] == "status");
        if part.words[0].starts_with("expect")
            && !std::mem::replace(&mut expected_any, true)
            && status != 0
            && !has_status
        {
            blessed += &format!("%status {status}\n\n");
        }
        match part.words[0].as_str() {
            "status" => blessed += &format!("%status {status}\n\n"),
            "end" => blessed += "%end\n",
            _ => {
                blessed += &format!("%{}\n", part.words.join(" "));
                match changed(index, &part.text) {
                    None => blessed += &part.text,
                    Some(got) => {
                        blessed += &got;
                        if !got.is_empty() && !got.ends_with('\n') {
                            blessed.push('\n');
                        }
                    }
                }
            }
        }
    }
    fs::write(file, blessed)
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "clicktest") {
            files.push(path);
        }
    }
}

/// Reports the classes that have no golden test of their name, or one whose script does not use them.
fn every_class_is_shown(files: &[PathBuf]) -> Result<(), Failed> {
    let mut wrong = Vec::new();
    for class in elements::registry().iter() {
        let name = class.name.to_lowercase();
        let Some(file) = files.iter().find(|f| f.file_stem().is_some_and(|stem| stem == name.as_str()))
        else {
            wrong.push(format!("{}: no tests/click/SECTION/{name}.clicktest", class.name));
            continue;
        };
        let text = fs::read_to_string(file).map_err(|e| Failed::from(e.to_string()))?;
        let used = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.eq_ignore_ascii_case(&name))
        };
        if !sections(&text).iter().any(|s| ["script", "file"].contains(&s.words[0].as_str()) && used(&s.text))
        {
            wrong.push(format!("{}: not used in {}", class.name, file.display()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn main() {
    let args = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/click");
    let bin = tempfile::tempdir().expect("a directory for the commands");
    for name in ["click", "valiant"] {
        symlink(env!("CARGO_BIN_EXE_valiant"), bin.path().join(name)).expect("a link to the command");
    }
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no golden tests under {}", root.display());
    let shown = files.clone();
    let completeness =
        Trial::test("every class has a golden test of its own", move || every_class_is_shown(&shown));
    let trials = files
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(&root).unwrap_or(&file).with_extension("").display().to_string();
            let bin = bin.path().to_owned();
            Trial::ignorable_test(name, move || run(&file, &bin))
        })
        .chain([completeness])
        .collect();
    let conclusion = libtest_mimic::run(&args, trials);
    drop(bin);
    conclusion.exit();
}
