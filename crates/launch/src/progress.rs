//! The progress of operations that take several seconds: a progress bar if standard error is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use locks::IgnorePoison;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time after which progress is shown,
const PATIENCE: Duration = Duration::from_secs(2);
/// and the interval between lines if there is no terminal.
const LINE: Duration = Duration::from_secs(10);
/// For operations of unknown length: the interval between steps of the spinner.
const TURN: Duration = Duration::from_millis(100);
/// The number of parts of a whole bar.
const PARTS: u64 = 1000;

/// The bar that is drawn, if there is one.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);
static NEVER: AtomicBool = AtomicBool::new(false);

/// Nothing is drawn after this.
pub(crate) fn never() {
    NEVER.store(true, Ordering::Relaxed);
}

fn terminal() -> bool {
    !NEVER.load(Ordering::Relaxed) && std::io::stderr().is_terminal()
}

/// Calls a function that writes to standard error, so that its output appears above the bar if there is one.
pub fn aside<R>(write: impl FnOnce() -> R) -> R {
    // A thread that panics while it holds the lock must be able to print its message.
    let bar = match BAR.try_lock() {
        Ok(bar) => bar.clone(),
        Err(TryLockError::Poisoned(bar)) => bar.into_inner().clone(),
        Err(TryLockError::WouldBlock) => None,
    };
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

fn begin(style: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr_with_hz(5));
    // The templates are constants, and a test draws both, so they are valid.
    let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Not every terminal has more than ASCII.
    bar.set_style(style.progress_chars("#.").tick_chars("|/-\\ "));
    *BAR.lock().ignore_poison() = Some(bar.clone());
    bar
}

fn end(bar: &ProgressBar) {
    bar.finish_and_clear();
    *BAR.lock().ignore_poison() = None;
}

const MEASURED: &str = "{prefix}[{bar:30}] {percent:>3} %  {wide_msg}";
const UNMEASURED: &str = "{spinner} {wide_msg}  {elapsed}";

/// An operation whose progress is known.
pub struct Progress {
    began: Instant,
    /// When a line was last printed.
    shown: Option<Instant>,
    bar: Option<ProgressBar>,
    name: String,
    wanted: bool,
    lines: bool,
}

impl Progress {
    /// Begins; nothing is shown before two seconds are over, and nothing at all if `quiet`. With `lines`, a
    /// line is printed every ten seconds where there is no terminal.
    #[must_use]
    pub fn new(quiet: bool, name: &str, lines: bool) -> Self {
        let terminal = terminal();
        Self {
            began: Instant::now(),
            shown: None,
            bar: None,
            name: name.to_owned(),
            wanted: !quiet && (terminal || lines),
            lines: !terminal,
        }
    }
    /// Sets the progress, from 0 to 1, and a message about it.
    pub fn update(&mut self, done: f64, about: impl FnOnce() -> String) {
        if !self.wanted || self.began.elapsed() < PATIENCE {
            return;
        }
        if self.lines {
            if self.shown.is_none_or(|at| at.elapsed() >= LINE) {
                self.shown = Some(Instant::now());
                let full = (done.clamp(0.0, 1.0) * 30.0) as usize;
                let (bar, rest) = ("#".repeat(full), ".".repeat(30 - full));
                let line = format!("{}[{bar}{rest}] {:3.0} %  {}\n", self.name, done * 100.0, about());
                // If standard error is gone, the line is lost.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            return;
        }
        if self.bar.is_none() {
            let bar = begin(MEASURED);
            bar.set_prefix(self.name.clone());
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar
            && self.shown.is_none_or(|at| at.elapsed() >= TURN)
        {
            self.shown = Some(Instant::now());
            bar.set_message(about());
            bar.set_position((done.clamp(0.0, 1.0) * PARTS as f64) as u64);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(end);
    }
}

/// Calls a function that takes an unknown time, such as opening devices. A terminal shows `what` it does and
/// the time that has passed, unless `quiet`.
pub fn waiting<R>(quiet: bool, what: &str, work: impl FnOnce() -> R) -> R {
    let wait = Wait::new(quiet, what);
    let result = work();
    drop(wait);
    result
}

/// The spinner that is shown during an operation of unknown length.
struct Wait(Option<(SyncSender<()>, JoinHandle<()>)>);

impl Wait {
    fn new(quiet: bool, what: &str) -> Self {
        if quiet || !terminal() {
            return Self(None);
        }
        let (done, wait) = sync_channel::<()>(0);
        let what = what.to_owned();
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            if wait.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = begin(UNMEASURED);
            bar.set_message(what);
            while wait.recv_timeout(TURN) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            end(&bar);
        });
        Self(thread.ok().map(|thread| (done, thread)))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            // It cannot fail, and nothing depends on it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_can_be_read() {
        for template in [MEASURED, UNMEASURED] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn what_takes_no_time_shows_nothing() {
        let mut progress = Progress::new(false, "", true);
        progress.update(0.5, || panic!("it was shown"));
        drop(progress);
        assert_eq!(waiting(false, "nothing", || aside(|| 7)), 7);
    }
}
