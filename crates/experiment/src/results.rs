//! The results of an experiment, in a file that they are added to as they come.

use crate::model::{Device, Experiment, Point};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The number of this form of the file.
const FORMAT: u32 = 1;

/// How the file begins.
const BEGINNING: &str = "{\"line\":\"experiment\"";

/// What to do about results that cannot be gone on with.
const ELSEWHERE: &str = "choose another directory (--results), or start again (--restart)";

/// The lines that are whole: the last one may be in the middle of being written.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or_default()
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
enum Line {
    /// The first: the form, who has measured, where, and the texts of the experiment file and of the device's
    /// program.
    Experiment {
        format: u32,
        version: String,
        text: String,
        program: Option<String>,
        #[serde(default)]
        machine: Value,
    },
    /// The machine on which the device runs from here on, if that is another host.
    Device { machine: Value },
    /// A trial.
    Trial { point: Vec<(String, String)>, round: u32, trial: Box<Trial> },
    /// All trials of a point in a round are there; or why there are no more.
    Ended { point: Vec<(String, String)>, round: u32, failed: Option<String> },
}

/// What is known of a point in a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Its trials.
    pub trials: Vec<Trial>,
    /// Whether no more are made.
    pub ended: bool,
    /// Why there are no more.
    pub failed: Option<String>,
}

/// The results of an experiment.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    shown: BTreeMap<(u32, Point), Shown>,
    version: String,
    machine: Value,
    /// The machines of the device, if that runs on another host: the last one is the present one.
    devices: Vec<Value>,
    /// They are another experiment's.
    other: bool,
}

/// The text of the device's program, or of all programs that it has; with the checksums of the files that it
/// needs on another host.
fn program_of(experiment: &Experiment) -> Option<String> {
    let checksum =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = |path: &PathBuf| {
        let text = String::from_utf8(std::fs::read(path).ok()?);
        Some(text.unwrap_or_else(|e| {
            // Other bytes may look the same.
            let (text, sum) = (String::from_utf8_lossy(e.as_bytes()), checksum(e.as_bytes()));
            format!("{text}\nSHA-256 {sum}")
        }))
    };
    let programs = experiment.programs().iter().map(text).collect::<Option<Vec<_>>>();
    let programs =
        programs.map(|all| all.concat()).filter(|_| matches!(experiment.device, Device::Program(_)));
    let mut files = experiment.host.as_ref().map_or_else(Vec::new, |host| host.files.clone());
    // Matrices and lists of addresses that are in files of their own.
    files.extend(experiment.files_of_traffic());
    if files.is_empty() {
        return programs;
    }
    let sum = |name: &String| {
        let bytes = std::fs::read(experiment.dir.join(name)).unwrap_or_default();
        format!("\n{name} SHA-256 {}", checksum(&bytes))
    };
    Some(programs.unwrap_or_default() + &files.iter().map(sum).collect::<String>())
}

impl Results {
    /// The results in a directory, which is made if there is none. What is there of this experiment is kept,
    /// unless it is to be measured `again` from the beginning; `machine` is what is measured on.
    ///
    /// # Errors
    /// A message: they are another experiment's or another program's, or cannot be read or written.
    pub fn open(dir: &Path, experiment: &Experiment, machine: &Value, again: bool) -> Result<Self, String> {
        let path = dir.join("results.jsonl");
        let name = path.display().to_string();
        let bad = |what: &str, e: &std::io::Error| format!("cannot {what} {name}: {}", launch::reason(e));
        std::fs::create_dir_all(dir).map_err(|e| bad("make the directory of", &e))?;
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|e| bad("open", &e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!("{}: another process measures this", path.display()));
            }
            Err(TryLockError::Error(e)) => return Err(bad("lock", &e)),
        }
        if again {
            file.set_len(0).map_err(|e| bad("empty", &e))?;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| bad("read", &e))?;
        let whole = whole_lines(&bytes);
        // A first line that was being written when everything ended.
        let begins = bytes.iter().zip(BEGINNING.as_bytes()).all(|(byte, is)| byte == is);
        if whole.is_empty() && !begins {
            return Err(format!("{name}: these are no results: choose another directory (--results)"));
        }
        file.set_len(whole.len() as u64)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|e| bad("write", &e))?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let mut results = Self {
            path,
            file,
            shown: BTreeMap::new(),
            version,
            machine: machine.clone(),
            devices: Vec::new(),
            other: false,
        };
        let program = program_of(experiment);
        let mut begun = results.take_all(whole, experiment)?;
        // Where all points have failed, nothing is lost.
        if results.other && results.shown.values().all(|shown| shown.failed.is_some()) {
            results.file.set_len(0).and_then(|()| results.file.rewind()).map_err(|e| bad("empty", &e))?;
            results.shown.clear();
            results.devices.clear();
            (begun, results.other) = (false, false);
        }
        if results.other {
            return Err(
                results.strange("results of another experiment, or its file or program has changed since")
            );
        }
        if !begun {
            let (version, text) = (env!("CARGO_PKG_VERSION").to_owned(), experiment.text.clone());
            results.write(&Line::Experiment {
                format: FORMAT,
                version,
                text,
                program,
                machine: machine.clone(),
            })?;
        }
        Ok(results)
    }

    /// The results in a directory as they are now, to look at: another process may be measuring. None: there
    /// are none yet, or they are of this experiment as it was before it was changed.
    ///
    /// # Errors
    /// A message: they cannot be read.
    pub fn read(dir: &Path, experiment: &Experiment) -> Result<Option<Self>, String> {
        let path = dir.join("results.jsonl");
        let bad = |e: &std::io::Error| format!("cannot read {}: {}", path.display(), launch::reason(e));
        let mut file = match File::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|e| bad(&e))?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| bad(&e))?;
        let mut results = Self {
            path,
            file,
            shown: BTreeMap::new(),
            version: String::new(),
            machine: Value::Null,
            devices: Vec::new(),
            other: false,
        };
        let begun = results.take_all(whole_lines(&bytes), experiment)?;
        Ok((begun && !results.other).then_some(results))
    }

    /// Takes all lines. Returns whether there are any.
    fn take_all(&mut self, lines: &[u8], experiment: &Experiment) -> Result<bool, String> {
        let program = program_of(experiment);
        let mut any = false;
        for (number, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line: Line = serde_json::from_slice(line).map_err(|e| {
                format!(
                    "{}:{}: this is no line of results ({e}): {ELSEWHERE}",
                    self.path.display(),
                    number + 1
                )
            })?;
            self.take(line, number == 0, (&experiment.text, program.as_ref()))?;
            any = true;
        }
        Ok(any)
    }

    fn strange(&self, what: &str) -> String {
        let path = self.path.display();
        format!("{path}: {what}: {ELSEWHERE}")
    }

    fn take(&mut self, line: Line, first: bool, is: (&String, Option<&String>)) -> Result<(), String> {
        match line {
            Line::Experiment { format, .. } if format != FORMAT => {
                Err(self.strange("results of another version of Valiant"))
            }
            Line::Experiment { text, version, program, machine, .. } if first => {
                (self.version, self.machine) = (version, machine);
                self.other = (&text, program.as_ref()) != is;
                Ok(())
            }
            _ if first => Err(self.strange("there is something else")),
            Line::Experiment { .. } => Err(self.strange("it has two beginnings")),
            Line::Device { machine } => {
                self.devices.push(machine);
                Ok(())
            }
            Line::Trial { point, round, trial } => {
                self.entry(&Point(point), round).trials.push(*trial);
                Ok(())
            }
            Line::Ended { point, round, failed } => {
                let shown = self.entry(&Point(point), round);
                (shown.ended, shown.failed) = (true, failed);
                Ok(())
            }
        }
    }

    /// What is known of a point in a round; what has failed is forgotten when it is measured again.
    fn entry(&mut self, point: &Point, round: u32) -> &mut Shown {
        let shown = self.shown.entry((round, point.clone())).or_default();
        if shown.failed.is_some() {
            *shown = Shown::default();
        }
        shown
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of Valiant that began them.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The machine on which they began.
    #[must_use]
    pub fn machine(&self) -> &Value {
        &self.machine
    }

    /// The machines on which the device has run, if that is on another host.
    #[must_use]
    pub fn devices(&self) -> &[Value] {
        &self.devices
    }

    /// Keeps on which machine the device runs from here on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn found(&mut self, machine: &Value) -> Result<(), String> {
        // How much memory is free differs each time.
        let what = |machine: &Value| ["host", "model", "kernel"].map(|key| machine.get(key).cloned());
        if self.devices.last().is_some_and(|last| what(last) == what(machine)) {
            return Ok(());
        }
        self.write(&Line::Device { machine: machine.clone() })?;
        self.devices.push(machine.clone());
        Ok(())
    }

    /// What is known of a point in a round.
    #[must_use]
    pub fn of(&self, point: &Point, round: u32) -> Shown {
        self.shown.get(&(round, point.clone())).cloned().unwrap_or_default()
    }

    /// Keeps a trial.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, point: &Point, round: u32, trial: &Trial) -> Result<(), String> {
        self.write(&Line::Trial { point: point.0.clone(), round, trial: Box::new(trial.clone()) })?;
        self.entry(point, round).trials.push(trial.clone());
        Ok(())
    }

    /// Keeps that a point has no more trials in a round.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self, point: &Point, round: u32, failed: Option<String>) -> Result<(), String> {
        self.write(&Line::Ended { point: point.0.clone(), round, failed: failed.clone() })?;
        let shown = self.entry(point, round);
        (shown.ended, shown.failed) = (true, failed);
        Ok(())
    }

    /// Remembers, until these results are opened again, why a point cannot be gone on with now. Its trials
    /// stay in the file, and so does that it has not ended.
    pub(crate) fn cannot_go_on(&mut self, point: &Point, round: u32, reason: String) {
        let shown = self.entry(point, round);
        (shown.ended, shown.failed) = (true, Some(reason));
    }

    fn write(&mut self, line: &Line) -> Result<(), String> {
        let mut text = serde_json::to_string(line).map_err(|e| e.to_string())?;
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|e| {
            format!("cannot write {}: {}: what is in it stays", self.path.display(), launch::reason(&e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(dir: &Path, more: &str) -> Experiment {
        let path = dir.join("e.toml");
        let text = format!("[traffic]\nto = \"a\"\nsink = \"b\"\n[vary]\nsize = [60, 64]\n{more}");
        std::fs::write(&path, text).unwrap();
        Experiment::load(&path).unwrap()
    }

    #[test]
    fn a_program_that_has_changed_is_noticed_whatever_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let (program, table) = (dir.path().join("p.click"), dir.path().join("table"));
        let path = dir.path().join("e.toml");
        let device = "[device]\nprogram = \"p.click\"\nhost = \"./reach\"\nfiles = \"table\"\n";
        std::fs::write(&path, format!("{device}[traffic]\nto = \"a\"\nsink = \"b\"\n")).unwrap();
        let text = |bytes: &[u8], of_table: &[u8]| {
            std::fs::write(&program, bytes).unwrap();
            std::fs::write(&table, of_table).unwrap();
            program_of(&Experiment::load(&path).unwrap()).unwrap_or_default()
        };
        let plain = text(b"Idle;", b"1");
        assert!(plain.starts_with("Idle;\ntable SHA-256 "), "{plain}");
        let latin = text(b"// caf\xe9\n", b"1");
        assert_ne!(latin, text(b"// caf\xe8\n", b"1"));
        assert_ne!(latin, text(b"// caf\xe9\n", b"2"));
        assert_eq!(latin, text(b"// caf\xe9\n", b"1"));
    }

    #[test]
    fn results_are_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let e = experiment(dir.path(), "");
        let (one, two) = (&e.points()[0], &e.points()[1]);
        let at = dir.path().join("r");
        let trial = |rate| Trial { rate, seconds: 0.1, intended: 7, arrived: 6, ..Trial::default() };
        let mut results = Results::open(&at, &e, &Value::Null, false).unwrap();
        results.add(one, 1, &trial(5)).unwrap();
        results.end(one, 1, None).unwrap();
        results.add(two, 1, &trial(6)).unwrap();
        results.add(one, 2, &trial(7)).unwrap();
        results.end(one, 2, Some("broken".into())).unwrap();
        assert!(Results::open(&at, &e, &Value::Null, false).unwrap_err().contains("another process"));
        let path = results.path().to_owned();
        drop(results);
        // Killed while it wrote.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        // In the middle of a letter.
        file.write_all(b"{\"line\":\"trial\",\"point\":[[\"$A\",\"\xc3").unwrap();
        drop(file);
        let mut results = Results::open(&at, &e, &Value::Null, false).unwrap();
        assert_eq!(results.of(one, 1), Shown { trials: vec![trial(5)], ended: true, failed: None });
        assert_eq!(results.of(two, 1), Shown { trials: vec![trial(6)], ended: false, failed: None });
        assert_eq!(results.of(one, 2).failed.as_deref(), Some("broken"));
        assert_eq!(results.of(two, 2), Shown::default());
        results.add(two, 1, &trial(8)).unwrap();
        drop(results);
        assert_eq!(
            Results::open(&at, &e, &Value::Null, false).unwrap().of(two, 1).trials,
            [trial(6), trial(8)]
        );

        let other = experiment(dir.path(), "ttl = [1]\n");
        assert!(Results::open(&at, &other, &Value::Null, false).unwrap_err().contains("another experiment"));
        assert_eq!(Results::open(&at, &other, &Value::Null, true).unwrap().of(two, 1), Shown::default());
        std::fs::write(&path, "{\"line").unwrap();
        assert!(Results::read(&at, &e).unwrap().is_none());
        drop(Results::open(&at, &e, &Value::Null, false).unwrap());
        std::fs::write(&path, "notes").unwrap();
        assert!(Results::open(&at, &e, &Value::Null, false).unwrap_err().contains("no results"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(
            Results::open(&at, &e, &Value::Null, false)
                .unwrap_err()
                .contains(":1: this is no line of results")
        );
    }
}
