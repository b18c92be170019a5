//! The device under test, and other processes that end with this one.

use crate::cost::Stats;
use crate::log::{Log, tail};
use crate::model::{self, Experiment, Settings};
use crate::place::{Places, places};
use launch::Client;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a process has to end after it was told to.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
/// Names of sockets are shorter.
const LONGEST_SOCKET: usize = 100;

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

/// A process that ends with this one, however this one ends.
pub(crate) struct Child {
    process: std::process::Child,
    /// When it is closed, the process is told to end.
    alive: Option<ChildStdin>,
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
        let mut process = command
            .spawn()
            .map_err(|e| format!("cannot run {}: {}", program.display(), launch::reason(&e)))?;
        let alive = process.stdin.take();
        Ok(Self { process, alive })
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
    fn processes(&self) -> Vec<u32> {
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

    /// What it writes, read as it comes: a pipe holds less than a long text.
    pub(crate) fn text(&mut self) -> JoinHandle<String> {
        let output = self.output();
        std::thread::spawn(move || {
            let mut text = String::new();
            // What is no text is of no use.
            output.map(|mut output| output.read_to_string(&mut text));
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
            // As the shell gives a signal on.
            Self::Code(code @ 129..) => write!(f, "signal {}", code - 128),
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "{signal}"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.alive.take());
        let began = Instant::now();
        while self.ended().is_none() && began.elapsed() < GRACE {
            std::thread::sleep(POLL);
        }
        // What is left of it, and what it has started and left behind.
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Where the generator and the device run: as the file says, or on different processors.
pub(crate) fn places_of(experiment: &Experiment, settings: &Settings) -> Places {
    let device = match &experiment.device {
        model::Device::Program(_) => settings.get("threads").and_then(|n| n.parse().ok()).unwrap_or(1),
        // Where a command runs is its own matter; the generator is bound to processors only if the file says
        // so.
        _ => return Places { generator: experiment.generator_cpus.clone(), device: None },
    };
    let given = settings.get("cpus");
    match (&experiment.generator_cpus, given) {
        // A device that makes its traffic itself is alone.
        (None, None) if !experiment.counted.is_empty() => places(0, device),
        (None, None) => places(experiment.generator_threads, device),
        (generator, device) => Places { generator: generator.clone(), device: device.cloned() },
    }
}

/// The control socket of a device: beside its log, or elsewhere if that is too long a name for a socket.
fn socket_of(log: &Path) -> PathBuf {
    let beside = log.with_extension("sock");
    if beside.as_os_str().len() < LONGEST_SOCKET {
        return beside;
    }
    std::env::temp_dir().join(format!("valiant-bench-{}.sock", std::process::id()))
}

/// The device under test.
pub(crate) struct Device {
    child: Option<Child>,
    log: Option<Log>,
    /// The control socket of a program.
    client: Option<Client>,
}

impl Device {
    /// What is between the ports, or nothing.
    pub(crate) fn none() -> Self {
        Self { child: None, log: None, client: None }
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn start(
        experiment: &Experiment,
        settings: &Settings,
        (program, log): (&Path, &Path),
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let mut device = Self::none();
        let (socket, path) = (socket_of(log), log.to_owned());
        let variables = settings.iter().filter_map(|(name, value)| Some((name.strip_prefix('$')?, value)));
        let (command, words, environment) = match &experiment.device {
            model::Device::Between => return Ok(device),
            model::Device::Program(file) => {
                let mut words: Vec<OsString> = vec!["run".into(), "-u".into(), socket.clone().into()];
                let cpus = places_of(experiment, settings).device;
                words.extend(cpus.map(|list| format!("--cpus={list}").into()));
                for name in ["threads", "burst", "memory", "placement"] {
                    words.extend(settings.get(name).map(|value| format!("--{name}={value}").into()));
                }
                words.push(experiment.program_at(settings).unwrap_or_else(|| file.clone()).into());
                words.extend(variables.map(|(name, value)| format!("{name}={value}").into()));
                (program.as_os_str(), words, Vec::new())
            }
            model::Device::Command(text) => {
                let environment = variables.map(|(name, value)| (name.to_owned(), value.clone())).collect();
                (OsStr::new("/bin/sh"), vec!["-c".into(), text.into()], environment)
            }
        };
        let (log, output) = Log::create(log)?;
        let errors = output.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        device.log = Some(log);
        // One that was killed may have left it.
        let _ = std::fs::remove_file(&socket);
        device.child =
            Some(Child::start(command, &words, &experiment.dir, &environment, (output.into(), errors))?);
        let began = Instant::now();
        while !stop() {
            if let Some(end) = device.ended() {
                return Err(end);
            }
            let waited = began.elapsed() >= experiment.ready;
            match &experiment.device {
                model::Device::Program(_) => {
                    let socket = socket.to_string_lossy();
                    if let Ok(client) = Client::connect_within(&socket, experiment.ready) {
                        device.client = Some(client);
                        return Ok(device);
                    }
                    if waited {
                        let log = tail(&path);
                        let seconds = experiment.ready.as_secs_f64();
                        return Err(format!(
                            "the device is not ready after {seconds} s (`ready` in [device]): {log}"
                        ));
                    }
                }
                _ if waited => return Ok(device),
                _ => {}
            }
            std::thread::sleep(POLL);
        }
        Ok(device)
    }

    /// How long its threads have waited for a processor since they began.
    pub(crate) fn kept_waiting(&self) -> Duration {
        self.processes().unwrap_or_default().into_iter().map(launch::kept_waiting).sum()
    }

    /// Its processes; none: it is what is between the ports.
    pub(crate) fn processes(&self) -> Option<Vec<u32>> {
        self.child.as_ref().map(Child::processes)
    }

    /// What its router has counted, if it is a program of Valiant's.
    pub(crate) fn stats(&mut self) -> Option<Stats> {
        // A router that does not answer has no cost; whether it has ended is asked anyway.
        self.client.as_mut()?.read("load.json", "").ok().and_then(|text| Stats::read(&text))
    }

    /// That it has ended, and its last words, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.ended()?;
        let words = self.log.as_ref().map_or_else(String::new, Log::last_words);
        Some(format!("the device has ended ({status}): {words}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn the_name_of_a_socket_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(socket_of(&log), dir.path().join("log.sock"));
        let deep = dir.path().join("d".repeat(120)).join("log");
        assert!(socket_of(&deep).as_os_str().len() < LONGEST_SOCKET);
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
