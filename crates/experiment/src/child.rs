//! Processes that end with this one.

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a process has to end after it was told to. What reaches another host has longer: what it has
/// started there has to end first.
const GRACE: Duration = Duration::from_secs(5);
const GRACE_OF_OTHERS: Duration = Duration::from_secs(8);
/// The longest text that is read of a process, in bytes.
pub(crate) const MOST_TEXT: u64 = 64 << 20;
const POLL: Duration = Duration::from_millis(10);

/// Runs a command, and ends it and all that it has started when standard input ends: with whoever has the
/// other end. Nothing is ever written there.
const WITH_PARENT: &str = r#"exec 3<&0
"$@" <&3 &
child=$!
( trap '' TERM INT HUP; read -r _ <&3; kill -TERM 0; sleep 4; kill -KILL 0 ) >&- 2>&- &
watch=$!
trap '' TERM INT HUP
exec 3<&-
wait $child
status=$?
kill -KILL $watch
exit $status"#;

fn spawn(command: &mut Command, program: &OsStr) -> Result<std::process::Child, String> {
    command.spawn().map_err(|e| format!("cannot run {}: {}", program.display(), launch::reason(&e)))
}

/// A process that ends with this one, however this one ends.
pub(crate) struct Child {
    process: std::process::Child,
    /// When it is closed, the process is told to end.
    alive: Option<ChildStdin>,
    grace: Duration,
}

impl Child {
    /// Starts a program in a process group of its own.
    pub(crate) fn start(
        program: &OsStr,
        words: &[OsString],
        dir: &Path,
        environment: &[(String, String)],
        (output, errors): (Stdio, Stdio),
    ) -> Result<Self, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WITH_PARENT, "sh"]).arg(program).args(words);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(dir).process_group(0);
        command.stdin(Stdio::piped()).stdout(output).stderr(errors);
        let mut process = spawn(&mut command, program)?;
        let alive = process.stdin.take();
        Ok(Self { process, alive, grace: GRACE })
    }

    /// Starts a program in a process group of its own that ends when its standard input does. Whoever closes
    /// that, which is returned with its standard output, tells it to end.
    pub(crate) fn converse(
        program: &OsStr,
        words: &[OsString],
        dir: &Path,
        errors: Stdio,
    ) -> Result<(Self, ChildStdin, ChildStdout), String> {
        let mut command = Command::new(program);
        command.args(words).current_dir(dir).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut process = spawn(&mut command, program)?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let child = Self { process, alive: None, grace: GRACE_OF_OTHERS };
        let (input, output) = ends.ok_or_else(|| format!("{} has no pipes", program.display()))?;
        Ok((child, input, output))
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        // Its number stays its own until it is dropped, and with it that of the group.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.group()), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(End::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(End::Signal(signal)),
            _ => None,
        }
    }

    fn group(&self) -> Pid {
        // Numbers of processes are positive.
        Pid::from_raw(self.process.id().cast_signed())
    }

    /// It, what it has started, and what those have.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let own = self.process.id().to_string();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of_group = processes.filter(|process| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            // The name may have any character: behind it are state, parent and group.
            stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(2)) == Some(own.as_str())
        });
        of_group.collect()
    }

    /// What it writes, read as it comes: a pipe holds less than a long text. Of more than [`MOST_TEXT`] it is
    /// the beginning, a byte longer than that, and who writes gets SIGPIPE. It has ended when all who could
    /// write have: who waits for that looks whether it is to end meanwhile.
    pub(crate) fn text(&mut self) -> JoinHandle<Vec<u8>> {
        let output = self.output();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What cannot be read is missing at the end.
            output.map(|output| output.take(MOST_TEXT + 1).read_to_end(&mut text));
            text
        })
    }

    /// What it has written, to be read once it has ended.
    fn output(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(Signal),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // As the shell gives a signal on; ssh has 255 for errors of its own.
            Self::Code(code @ 129..=192) => write!(f, "signal {}", code - 128),
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "{signal}"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.alive.take());
        let began = Instant::now();
        while self.ended().is_none() && began.elapsed() < self.grace {
            std::thread::sleep(POLL);
        }
        // What is left of it, and what it has started and left behind.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tail;
    use std::fs::File;

    fn start(dir: &Path, text: &str) -> Child {
        let errors = File::create(dir.join("errors")).unwrap();
        let words = ["-c".into(), text.into()];
        Child::start(
            OsStr::new("/bin/sh"),
            &words,
            dir,
            &[("A".into(), "b c".into())],
            (Stdio::piped(), errors.into()),
        )
        .unwrap()
    }

    fn wait(child: &mut Child) -> End {
        loop {
            if let Some(status) = child.ended() {
                return status;
            }
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_process_says_how_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = start(dir.path(), "echo \"$A\"; echo bad >&2; exit 7");
        assert_eq!(wait(&mut child), End::Code(7));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.output().unwrap(), &mut text).unwrap();
        assert_eq!((text.as_str(), tail(&dir.path().join("errors")).as_str()), ("b c\n", "bad"));
    }

    #[test]
    fn what_it_has_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let errors = dir.path().join("errors");
        // One that ignores the request, in the background and in a pipe; and one whose starter has ended.
        for text in
            ["trap '' TERM; sleep 1234 & echo $! >&2; cat | sleep 1234", "sleep 1234 & echo $! >&2; exit 3"]
        {
            let mut child = start(dir.path(), text);
            while tail(&errors) == "it has said nothing" {
                std::thread::sleep(POLL);
            }
            let started = tail(&errors);
            assert!(Path::new("/proc").join(&started).exists(), "{started}");
            if text.ends_with('3') {
                assert_eq!(wait(&mut child), End::Code(3));
            }
            drop(child);
            let stat = || std::fs::read_to_string(format!("/proc/{started}/stat")).unwrap_or_default();
            // Whoever adopts it sees it as a zombie for a moment.
            while !stat().is_empty() && !stat().contains(") Z ") {
                std::thread::sleep(POLL);
            }
        }
    }

    #[test]
    fn a_process_ends_when_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let child = start(
            dir.path(),
            "trap 'echo ended >&2; exit' TERM; echo ready >&2; while :; do sleep 0.05; done",
        );
        let errors = dir.path().join("errors");
        while tail(&errors) != "ready" {
            std::thread::sleep(POLL);
        }
        drop(child);
        // A shell may tell of its `sleep` too, which gets the signal as well.
        assert!(tail(&errors).ends_with("ended"), "{}", tail(&errors));
    }
}
