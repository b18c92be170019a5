//! A command that runs in the background: a process of this program that outlives the one that starts it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether it runs.
const LOOK: Duration = Duration::from_millis(20);
/// How many lines of its log an error shows.
const LAST_WORDS: usize = 15;

/// A process that has been started, and that may not do its work yet.
pub struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Starts this program with other arguments; what it prints goes to the file `log`, which is made anew.
    ///
    /// # Errors
    /// A message: the file cannot be made, or the process cannot be started.
    pub fn start(arguments: &[&dyn AsRef<std::ffi::OsStr>], log: PathBuf) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        let reason = |e: &io::Error| format!("{}: {}", log.display(), crate::reason(e));
        let out = File::create(&log).map_err(|e| reason(&e))?;
        let err = out.try_clone().map_err(|e| reason(&e))?;
        let child = Command::new(program)
            .args(arguments)
            .envs(crate::logging::environment())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            // Ctrl-C at the terminal must not reach it.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start it: {}", crate::reason(&e)))?;
        Ok(Self { child, log })
    }

    /// The number of the process.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `runs` says so; that may take until a time.
    ///
    /// # Errors
    /// A message with the end of its log: it has ended, or it does not run in time.
    pub fn wait(mut self, until: Instant, runs: impl Fn() -> bool) -> Result<(), String> {
        loop {
            if runs() {
                return Ok(());
            }
            let ended = match self.child.try_wait() {
                Ok(Some(status)) => format!("it exited ({status})"),
                Ok(None) if Instant::now() < until => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                Ok(None) => "it does not answer on its socket in time".to_owned(),
                Err(e) => e.to_string(),
            };
            return Err(format!("{ended}\n{}", last_words(&self.log)));
        }
    }
}

/// The end of a log.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    if text.is_empty() {
        return why_empty(log);
    }
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_WORDS);
    format!("end of {}:\n  {}", log.display(), lines[from..].join("\n  "))
}

/// Why nothing is in a log: on a full disk nothing was written.
fn why_empty(log: &Path) -> String {
    let written = OpenOptions::new().append(true).open(log).and_then(|mut file| file.write_all(b"\n"));
    let why = written.map_or_else(
        |e| format!("nothing can be written there: {}", crate::reason(&e)),
        |()| "it is empty".to_owned(),
    );
    format!("{}: {why}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_say_where_and_why_there_are_none() {
        // Every write to it fails for want of room.
        let full = why_empty(Path::new("/dev/full"));
        assert!(full.starts_with("/dev/full: nothing can be written there: "), "{full}");
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "").unwrap();
        assert_eq!(last_words(&log), format!("{}: it is empty", log.display()));
        std::fs::write(&log, "one\ntwo\n").unwrap();
        assert_eq!(last_words(&log), format!("end of {}:\n  one\n  two", log.display()));
    }
}
