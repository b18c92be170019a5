//! A command whose figures are read: one run of it.

use crate::child::{Child, End, MOST_TEXT};
use crate::log::Log;
use crate::model::{Device, Experiment, Figure, Settings};
use crate::protocol::shown;
use crate::trial::{Failed, Trial};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(5);
/// How long what a command that has failed has printed last may be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The variable with this program's own path.
const PROGRAM: &str = "VALIANT";

impl Figure {
    /// Its number in what a command has printed. True is 1, false 0.
    fn of(&self, printed: &Value) -> Result<f64, String> {
        let mut at = printed;
        for step in &self.path {
            let next = match at {
                Value::Array(all) => step.parse().ok().and_then(|number: usize| all.get(number)),
                other => other.get(step),
            };
            at = next.ok_or_else(|| {
                format!("what the command prints has no {} (no '{step}'): [figures]", self.path.join("."))
            })?;
        }
        let number = at.as_f64().or_else(|| at.as_bool().map(|is| f64::from(u8::from(is))));
        number.ok_or_else(|| {
            let shown = shown(at.to_string().as_bytes());
            format!("{} is no number in what the command prints: {shown}", self.path.join("."))
        })
    }
}

/// Runs the command. Of the files, the first is what it finds as `$VALIANT`; the second gets its messages.
pub(crate) fn run(
    experiment: &Experiment,
    settings: &Settings,
    files: (&Path, &Path),
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    let Device::Command(text) = &experiment.device else {
        return Err(Failed::Because("there is no command".to_owned()));
    };
    run_within(LONGEST, (experiment, text), settings, files, stop)
}

/// The same with another time that it has.
fn run_within(
    longest: Duration,
    (experiment, text): (&Experiment, &str),
    settings: &Settings,
    (program, log): (&Path, &Path),
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    let because = |text: String| Failed::Because(text);
    let mut environment: Vec<(String, String)> = settings
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix('$')?.to_owned(), value.clone())))
        .collect();
    if environment.iter().all(|(name, _)| name != PROGRAM) {
        environment.push((PROGRAM.to_owned(), program.display().to_string()));
    }
    let (log, errors) = Log::create(log).map_err(because)?;
    let words: [OsString; 2] = ["-c".into(), text.into()];
    let output = (Stdio::piped(), errors.into());
    let mut child = Child::start(OsStr::new("/bin/sh"), &words, &experiment.dir, &environment, output)
        .map_err(because)?;
    let (printed, began) = (child.text(), Instant::now());
    let end = loop {
        let ended = child.ended();
        // What it has started may have its output open.
        if let Some(end) = ended.filter(|end| *end != End::Code(0) || printed.is_finished()) {
            break end;
        }
        if stop() {
            return Err(Failed::Stopped);
        }
        if began.elapsed() > longest {
            let what = match ended {
                None => "the command has not ended",
                Some(_) => "what the command has started still has its standard output open",
            };
            return Err(because(format!("{what} after {} s", longest.as_secs())));
        }
        std::thread::sleep(POLL);
    };
    // By the signal that ends the whole.
    if stop() {
        return Err(Failed::Stopped);
    }
    let seconds = began.elapsed().as_secs_f64();
    let failed = Instant::now();
    while !printed.is_finished() && failed.elapsed() < LAST_WORDS {
        std::thread::sleep(POLL);
    }
    let bytes = if printed.is_finished() { printed.join().unwrap_or_default() } else { Vec::new() };
    if bytes.len() as u64 > MOST_TEXT {
        return Err(because(format!("the command prints more than {} MiB", MOST_TEXT >> 20)));
    }
    if end != End::Code(0) {
        return Err(because(format!("the command has failed ({end}): {}", log.last_words())));
    }
    let text = str::from_utf8(&bytes)
        .map_err(|_| because(format!("what the command prints is not UTF-8: {}", shown(&bytes))))?;
    let printed: Value = serde_json::from_str(text)
        .map_err(|e| because(format!("the command prints no JSON ({e}): {}", shown(&bytes))))?;
    let number = |figure: &Figure| Ok((figure.name.clone(), figure.of(&printed)?));
    let figures = experiment.figures.iter().map(number).collect::<Result<_, String>>().map_err(because)?;
    Ok(Trial { seconds, figures, ..Trial::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_is_found_by_keys_and_numbers() {
        let printed = json!({"a": [{"b.c": 1, "d": 2.5, "good": true, "word": "x"}]});
        let of = |path: &[&str]| {
            let path = path.iter().map(|step| (*step).to_owned()).collect();
            Figure { name: "f".into(), path }.of(&printed)
        };
        assert_eq!((of(&["a", "0", "d"]), of(&["a", "0", "good"])), (Ok(2.5), Ok(1.0)));
        assert!(of(&["a", "1", "d"]).unwrap_err().contains("no '1'"));
        assert!(of(&["a", "0", "word"]).unwrap_err().contains("is no number"));
        assert!(of(&["a"]).unwrap_err().contains("is no number"));
    }

    #[test]
    fn a_command_gives_figures_or_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let run = |command: &str| {
            let (experiment, settings) = commanded(dir.path(), command, "\"$A\" = [3]");
            let (program, log) = (dir.path().join("valiant"), dir.path().join("log"));
            match super::run(&experiment, &settings, (&program, &log), &|| false) {
                Ok(trial) => Ok(trial.figures["x"]),
                Err(Failed::Because(reason)) => Err(reason),
                Err(Failed::Stopped) => Err("stopped".to_owned()),
            }
        };
        assert_eq!(run(r#"echo "{\"x\": $A}""#), Ok(3.0));
        assert_eq!(run(r#"case $VALIANT in */valiant) echo '{"x": 1}';; esac"#), Ok(1.0));
        assert!(run("echo broken >&2; exit 3").unwrap_err().contains("(exit status 3): broken"));
        assert!(run("echo words").unwrap_err().contains("prints no JSON"));
        assert!(run("echo '{}'").unwrap_err().contains("no 'x'"));
        assert_eq!(run("yes").unwrap_err(), "the command prints more than 64 MiB");
        let latin = run(r#"printf '{"x": 3, "n": "\377"}'"#).unwrap_err();
        assert!(latin.starts_with("what the command prints is not UTF-8: {"), "{latin}");
        for long in ["yes | head -c 100000", "printf '\\033[2J\\n'", "printf '{\"x\": \"%9999d\"}' 1"] {
            let error = run(long).unwrap_err();
            assert!(error.len() < 500 && !error.contains(char::is_control), "{error}");
        }
        assert!(run("yes | head -c 9000000 >&2; echo bad >&2; exit 3").unwrap_err().ends_with("bad"));
        assert!(std::fs::metadata(dir.path().join("log")).unwrap().len() < 4 << 20);
    }

    /// An experiment with a command, and a point of it.
    fn commanded(dir: &Path, command: &str, vary: &str) -> (Experiment, Settings) {
        let file = dir.join("e.toml");
        let text = format!("[device]\ncommand = '''{command}'''\n[figures]\nx = \"x\"\n[vary]\n{vary}\n");
        std::fs::write(&file, text).unwrap();
        let experiment = Experiment::load(&file).unwrap();
        let settings = experiment.settings(&experiment.points()[0]);
        (experiment, settings)
    }

    #[test]
    fn what_holds_the_output_of_a_command_open_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        // One that does not end with the others.
        let command = r#"setsid sleep 20 & echo '{"x": 1}'"#;
        let (experiment, settings) = commanded(dir.path(), command, "\"$A\" = [1]");
        let log = dir.path().join("log");
        let files = (log.as_path(), log.as_path());
        let began = Instant::now();
        let run = |longest: u64, stop: &dyn Fn() -> bool| {
            run_within(Duration::from_millis(longest), (&experiment, command), &settings, files, stop)
        };
        let Err(Failed::Because(reason)) = run(300, &|| false) else { panic!("it has waited") };
        assert!(
            reason.starts_with("what the command has started still has its standard output open"),
            "{reason}"
        );
        let soon = || began.elapsed() > Duration::from_millis(900);
        assert!(matches!(run(60_000, &soon), Err(Failed::Stopped)));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    }

    #[test]
    fn a_variable_of_the_same_name_stays() {
        let dir = tempfile::tempdir().unwrap();
        let command = r#"echo "{\"x\": $VALIANT}""#;
        let (experiment, settings) = commanded(dir.path(), command, "\"$VALIANT\" = [7]");
        let log = dir.path().join("log");
        let trial = super::run(&experiment, &settings, (&log, &log), &|| false).unwrap();
        assert_eq!(trial.figures["x"], 7.0);
    }
}
