//! The bench's end of a connection to an agent.

use crate::child::{Child, End};
use crate::local::NotStarted;
use crate::log::Log;
use crate::protocol::{Ask, BEAT, Hello, Say, line, meaning, next, readable};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long an agent may take to be there.
const REACH: Duration = Duration::from_secs(20);
/// So many beats may be without an answer.
const MOST_BEATS: u64 = 10;
/// How often it is looked whether the whole is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long the process that reaches the host may take to end when its output has.
const ENDING: Duration = Duration::from_secs(1);
/// A shell's exit status for a command that it does not find.
const NOT_FOUND: i32 = 127;

/// What the threads of a connection know.
#[derive(Debug, Default)]
struct Shared {
    /// Beats since something was heard.
    beats: AtomicU64,
    /// How the device has ended.
    ended: OnceLock<String>,
    /// That nothing can be heard any more, and why; empty: the other end is closed.
    broken: OnceLock<String>,
}

/// A connection to an agent. When it is dropped, the agent ends, and its device with it.
pub(crate) struct Connection {
    /// Lines to be sent. They are closed before the process is waited for.
    lines: Sender<String>,
    answers: Receiver<Say>,
    shared: Arc<Shared>,
    child: Child,
    /// What the agent, and what reaches it, say beside.
    errors: Log,
    /// The command that reaches the agent.
    command: String,
}

impl Connection {
    /// Runs the command that reaches an agent, and waits until that says who it is. `output` gets what the
    /// device says, the file `errors` what the agent and the command say beside.
    pub(crate) fn open(
        (words, dir): (&[String], &Path),
        output: PipeWriter,
        errors: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Self, Hello), String> {
        let (program, rest) = words.split_first().ok_or("no command reaches the device's host")?;
        let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
        let (errors, error_output) = Log::create(errors)?;
        let child = Child::converse(program.as_ref(), &rest, dir, Stdio::from(error_output));
        let (child, input, replies) = child.map_err(|e| format!("{e} (`host` in [device])"))?;
        let ((greet, greeting), (answer, answers), (lines, to_send)) = (channel(), channel(), channel());
        let shared = Arc::new(Shared::default());
        let cannot = |e: std::io::Error| format!("cannot start a thread: {}", launch::reason(&e));
        let own = Arc::clone(&shared);
        let send = move || send(input, &to_send, &own);
        std::thread::Builder::new().name("agent-send".to_owned()).spawn(send).map_err(cannot)?;
        let mut ear = Ear { shared: Arc::clone(&shared), output: Some(output), answer };
        let hear = move || ear.listen(BufReader::new(replies), greet);
        std::thread::Builder::new().name("agent-hear".to_owned()).spawn(hear).map_err(cannot)?;
        let mut connection = Self { lines, answers, shared, child, errors, command: words.join(" ") };
        let hello = connection.greeted(&greeting, stop)?;
        Ok((connection, hello))
    }

    fn greeted(
        &mut self,
        greeting: &Receiver<Result<Hello, String>>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Hello, String> {
        let began = Instant::now();
        loop {
            match greeting.recv_timeout(LOOK) {
                Ok(hello) => return hello.map_err(|why| format!("`{}`: {why}", self.command)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.broken()),
                Err(RecvTimeoutError::Timeout) if stop() => return Err("interrupted".to_owned()),
                Err(RecvTimeoutError::Timeout) if began.elapsed() > REACH => {
                    return Err(format!(
                        "`{}`: no agent has answered within {} s: {}. It must reach the host without a question: with ssh, by \
                         a key, and with the option BatchMode=yes, which makes it say what is wrong",
                        self.command,
                        REACH.as_secs(),
                        self.errors.words()
                    ));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(
        &mut self,
        ask: &Ask,
        within: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Say, String> {
        if self.lines.send(line(ask)?).is_err() {
            return Err(self.broken());
        }
        let began = Instant::now();
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(Say::Cannot(why)) => {
                    return Err(format!("the agent on the device's host: {}", readable(&why)));
                }
                Ok(Say::NotStarted(why)) => return Ok(Say::NotStarted(not_started(why))),
                Ok(say) => return Ok(say),
                Err(RecvTimeoutError::Disconnected) => return Err(self.broken()),
                Err(RecvTimeoutError::Timeout) if stop() => return Err("interrupted".to_owned()),
                Err(RecvTimeoutError::Timeout) if began.elapsed() > within => {
                    return Err(self.silent(within.as_secs()));
                }
                // It answers beats while it does what it was asked.
                Err(RecvTimeoutError::Timeout) => match self.lost() {
                    None => {}
                    Some(why) => return Err(why),
                },
            }
        }
    }

    fn silent(&self, seconds: u64) -> String {
        format!("the agent on the device's host (`{}`) has not answered for {seconds} s", self.command)
    }

    /// How the device has ended, if it has.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.shared.ended.get().map(String::as_str)
    }

    /// Why the agent cannot be asked any more, if so.
    pub(crate) fn lost(&mut self) -> Option<String> {
        if self.shared.broken.get().is_some() {
            return Some(self.broken());
        }
        let beats = self.shared.beats.load(Ordering::Relaxed);
        (beats > MOST_BEATS).then(|| self.silent(beats * BEAT.as_secs()))
    }

    /// Why nothing can be heard any more.
    fn broken(&mut self) -> String {
        let began = Instant::now();
        // Whoever hears the agent says it when there is nothing more to hear.
        while self.shared.broken.get().is_none() && began.elapsed() < ENDING {
            std::thread::sleep(LOOK);
        }
        if let Some(why) = self.shared.broken.get().filter(|why| !why.is_empty()) {
            return format!("the agent on the device's host (`{}`): {why}", self.command);
        }
        let end = loop {
            match self.child.ended() {
                None if began.elapsed() < ENDING => std::thread::sleep(LOOK),
                end => break end,
            }
        };
        let how = end.map_or_else(|| "its output is closed".to_owned(), |end| end.to_string());
        let hint = if end == Some(End::Code(NOT_FOUND)) {
            " (is Valiant installed there? `valiant` in [device] is its path)"
        } else {
            ""
        };
        let words = self.errors.last_words();
        format!("the connection to the device's host has ended: `{}` ({how}): {words}{hint}", self.command)
    }
}

/// Why a device has not started, as an agent says it.
fn not_started(why: NotStarted) -> NotStarted {
    match why {
        NotStarted::Ended(how) => NotStarted::Ended(readable(&how)),
        NotStarted::Because(why) => NotStarted::Because(readable(&why)),
        NotStarted::Late(ready) => NotStarted::Late(ready),
    }
}

/// Sends what is to be sent, and beats.
fn send(mut input: ChildStdin, lines: &Receiver<String>, shared: &Shared) {
    let mut last = Instant::now();
    loop {
        let text = match lines.recv_timeout(BEAT.saturating_sub(last.elapsed())) {
            Ok(text) => text,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                last = Instant::now();
                shared.beats.fetch_add(1, Ordering::Relaxed);
                line(&Ask::Beat).unwrap_or_default()
            }
        };
        if input.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Hears the agent.
struct Ear {
    shared: Arc<Shared>,
    /// Where what the device says goes; closed when it has said all.
    output: Option<PipeWriter>,
    answer: Sender<Say>,
}

impl Ear {
    fn listen(&mut self, replies: impl BufRead, greet: Sender<Result<Hello, String>>) {
        let why = self.hear(replies, greet).err().unwrap_or_default();
        self.output = None;
        // Set once: by this thread alone.
        let _ = self.shared.broken.set(why);
    }

    fn hear(
        &mut self,
        mut replies: impl BufRead,
        greet: Sender<Result<Hello, String>>,
    ) -> Result<(), String> {
        let Some(first) = next(&mut replies)? else { return Ok(()) };
        let hello = Hello::read(&first);
        let good = hello.is_ok();
        // Nobody waits for it who has lost patience.
        let _ = greet.send(hello);
        while let Some(line) = next(&mut replies)?.filter(|_| good) {
            self.shared.beats.store(0, Ordering::Relaxed);
            match meaning(&line)? {
                Say::Beat => {}
                Say::Log(text) => {
                    // A log that cannot be written is no reason to end.
                    self.output.as_mut().map(|output| output.write_all(text.as_bytes()));
                }
                Say::Ended(how) => {
                    self.output = None;
                    let _ = self.shared.ended.set(readable(&how));
                }
                answer => {
                    if matches!(answer, Say::NotStarted(_)) {
                        self.output = None;
                    }
                    // Whoever has asked may have lost patience.
                    let _ = self.answer.send(answer);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FORM;
    use serde_json::Value;

    /// A connection to what a shell's command does.
    fn open(dir: &Path, command: &str) -> Result<Connection, String> {
        let words = ["/bin/sh", "-c", command].map(str::to_owned);
        let (_, output) = Log::create(&dir.join("device.log")).unwrap();
        Connection::open((&words, dir), output, &dir.join("agent.log"), &|| false)
            .map(|(connection, _)| connection)
    }

    /// What an agent says first.
    fn hello() -> String {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Hello { form: FORM, version, machine: Value::Null, boot: String::new() };
        format!("echo '{}'; ", line(&Say::Hello(Box::new(hello))).unwrap().trim_end())
    }

    #[test]
    fn what_does_not_reach_an_agent_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let failed = |command: &str| open(dir.path(), command).err().unwrap();
        let error = failed("echo 'Permission denied (publickey).' >&2; exit 255");
        assert!(error.contains("(exit status 255): Permission denied (publickey)."), "{error}");
        let error = failed("none-of-this-name");
        assert!(
            error.contains("exit status 127") && error.contains("is Valiant installed there?"),
            "{error}"
        );
        let error = failed("echo Welcome; cat");
        assert!(error.contains("begins with 'Welcome'"), "{error}");
        let error = failed("printf '{\"hello\":{\"form\":1,\"ver'");
        assert!(error.contains("the last line is cut"), "{error}");
        let error = failed("echo '{\"hello\":{\"form\":1,\"version\":\"0.0.1\"}}'; cat");
        assert!(error.contains("is Valiant 0.0.1"), "{error}");
        let words = [dir.path().join("none").display().to_string()];
        let (_, output) = Log::create(&dir.path().join("log")).unwrap();
        let error =
            Connection::open((&words, dir.path()), output, &dir.path().join("e"), &|| false).err().unwrap();
        assert!(error.starts_with("cannot run ") && error.contains("`host` in [device]"), "{error}");
    }

    #[test]
    fn reasons_of_an_agent_have_a_bound_and_no_control_characters() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(100_000);
        let say = |say: &Say| format!("echo '{}'; ", line(say).unwrap().trim_end().replace('\\', "\\\\"));
        let why = format!("no `x` there\u{1b}[2J{long}");
        let asked = |what: &Say| {
            let mut connection = open(dir.path(), &(hello() + &say(what) + "cat >/dev/null")).unwrap();
            let answer = connection.ask(&Ask::Waited, REACH, &|| false);
            (answer, connection)
        };
        let (answer, _) = asked(&Say::Cannot(why));
        let error = answer.unwrap_err();
        assert!(error.contains("no `x` there\\u{1b}[2Jxxx") && error.len() < 1000, "{error}");
        let (answer, _) = asked(&Say::NotStarted(NotStarted::Because("y\u{7}".to_owned() + &long)));
        let Ok(Say::NotStarted(not)) = answer else { panic!("{answer:?}") };
        let message = not.message("");
        assert!(message.starts_with("y\\u{7}xxx") && message.len() < 1000, "{message}");
        let ended = format!("so\u{7}{long}");
        let mut connection = open(dir.path(), &(hello() + &say(&Say::Ended(ended)) + "exit 0")).unwrap();
        while connection.lost().is_none() {
            std::thread::sleep(LOOK);
        }
        let how = connection.ended().unwrap();
        assert!(how.starts_with("so\\u{7}xxx") && how.len() < 1000, "{how}");
    }

    #[test]
    fn a_connection_that_breaks_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let lost = |connection: &mut Connection| loop {
            match connection.lost() {
                Some(why) => return why,
                None => std::thread::sleep(LOOK),
            }
        };
        let mut connection = open(dir.path(), &(hello() + "read line; echo broken >&2; kill -9 $$")).unwrap();
        assert_eq!(connection.ended(), None);
        assert_eq!(connection.lost(), None);
        let error = connection.ask(&Ask::Waited, REACH, &|| false).unwrap_err();
        assert!(error.contains("(SIGKILL): broken"), "{error}");
        assert!(lost(&mut connection).contains("(SIGKILL): broken"));
        let mut connection =
            open(dir.path(), &(hello() + "echo '{\"ended\":\"so\"}'; echo '{\"waited\":'; cat")).unwrap();
        let error = lost(&mut connection);
        assert!(error.contains("this is no message") && error.contains("{\\\"waited\\\":"), "{error}");
        assert_eq!(connection.ended(), Some("so"));
        let mut silent = open(dir.path(), &(hello() + "cat >/dev/null")).unwrap();
        let error = silent.ask(&Ask::Waited, Duration::from_millis(50), &|| false).unwrap_err();
        assert!(error.contains("has not answered for 0 s"), "{error}");
        assert_eq!(silent.ask(&Ask::Waited, REACH, &|| true).unwrap_err(), "interrupted");
        // While it is asked something too.
        silent.shared.beats.store(MOST_BEATS + 1, Ordering::Relaxed);
        let error = silent.ask(&Ask::Waited, Duration::from_secs(2), &|| false).unwrap_err();
        assert!(error.contains("has not answered for 11 s"), "{error}");
        // Beats without an answer.
        silent.shared.beats.store(MOST_BEATS + 1, Ordering::Relaxed);
        assert!(lost(&mut silent).contains("has not answered for 11 s"));
    }
}
