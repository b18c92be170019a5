//! A command whose figures are read: one run of it.

use crate::child::{Child, End};
use crate::log::tail;
use crate::model::{Device, Experiment, Figure, Settings};
use crate::trial::{Failed, Trial};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command that takes longer is ended.
const LONGEST: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(5);
/// How much of what is no JSON a message has.
const SHOWN: usize = 200;
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
        number.ok_or_else(|| format!("{} is no number in what the command prints: {at}", self.path.join(".")))
    }
}

/// Runs the command. `log` gets its messages; `program` is what it finds as `$VALIANT`.
pub(crate) fn run(
    experiment: &Experiment,
    settings: &Settings,
    (program, log): (&Path, &Path),
    stop: &dyn Fn() -> bool,
) -> Result<Trial, Failed> {
    let because = |text: String| Failed::Because(text);
    let Device::Command(text) = &experiment.device else {
        return Err(because("there is no command".to_owned()));
    };
    let mut environment: Vec<(String, String)> = settings
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix('$')?.to_owned(), value.clone())))
        .collect();
    environment.push((PROGRAM.to_owned(), program.display().to_string()));
    let errors = std::fs::File::create(log)
        .map_err(|e| because(format!("cannot write {}: {}", log.display(), launch::reason(&e))))?;
    let words: [OsString; 2] = ["-c".into(), text.into()];
    let output = (Stdio::piped(), errors.into());
    let mut child = Child::start(OsStr::new("/bin/sh"), &words, &experiment.dir, &environment, output)
        .map_err(because)?;
    let (printed, began) = (child.text(), Instant::now());
    let end = loop {
        if let Some(end) = child.ended() {
            break end;
        }
        if stop() {
            return Err(Failed::Stopped);
        }
        if began.elapsed() > LONGEST {
            return Err(because(format!("the command has not ended after {} s", LONGEST.as_secs())));
        }
        std::thread::sleep(POLL);
    };
    // By the signal that ends the whole.
    if stop() {
        return Err(Failed::Stopped);
    }
    if end != End::Code(0) {
        return Err(because(format!("the command has failed ({end}): {}", tail(log))));
    }
    let text = printed.join().unwrap_or_default();
    let printed: Value = serde_json::from_str(&text).map_err(|e| {
        let shown: String = text.chars().take(SHOWN).collect();
        because(format!("the command prints no JSON ({e}): {shown}"))
    })?;
    let number = |figure: &Figure| Ok((figure.name.clone(), figure.of(&printed)?));
    let figures = experiment.figures.iter().map(number).collect::<Result<_, String>>().map_err(because)?;
    Ok(Trial { seconds: began.elapsed().as_secs_f64(), figures, ..Trial::default() })
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
        let file = dir.path().join("e.toml");
        let run = |command: &str| {
            let text =
                format!("[device]\ncommand = '''{command}'''\n[figures]\nx = \"x\"\n[vary]\n\"$A\" = [3]\n");
            std::fs::write(&file, text).unwrap();
            let experiment = Experiment::load(&file).unwrap();
            let (program, log) = (dir.path().join("valiant"), dir.path().join("log"));
            let settings = experiment.settings(&experiment.points()[0]);
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
        assert!(run("yes").unwrap_err().contains("signal"), "a text without end");
    }
}
