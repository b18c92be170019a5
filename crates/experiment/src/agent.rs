//! The agent: it runs the device under test where it is started, for a bench that reaches it by its standard
//! input and output.

use crate::local::{Local, Place};
use crate::machine::{boot, machine_with_name};
use crate::meter::Meter;
use crate::protocol::{Ask, FORM, Hello, MOST_SAID, Say, line, meaning, next};
use crate::said::Said;
use crate::scratch::Scratch;
use crate::start::{Start, is_below};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it looks whether the device has ended or said something.
const LOOK: Duration = Duration::from_millis(50);
/// A bench that is not heard for so long is not there any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long what the device has said last may be on its way, and so may what is still to be sent at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Messages that wait to be sent. A bench asks one thing at a time.
const WAITING: usize = 1024;

/// What one thread knows and another must.
#[derive(Debug)]
struct Shared {
    /// Nothing more can come from the bench.
    gone: AtomicBool,
    /// Bytes of what the device says that may be sent until the next beat.
    credit: AtomicUsize,
    /// When the bench was heard last.
    heard: Mutex<Instant>,
}

impl Shared {
    fn heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silent_for(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// The way to the bench. It never waits.
#[derive(Clone)]
struct Out {
    lines: SyncSender<String>,
    shared: Arc<Shared>,
}

impl Out {
    /// Says something; if that is not possible, the bench is gone.
    fn say(&self, say: &Say) {
        let line = line(say).or_else(|why| line(&Say::Cannot(why)));
        if line.is_err() || line.is_ok_and(|line| self.lines.try_send(line).is_err()) {
            self.shared.gone.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs a device for a bench, until standard input ends or it is to stop. `valiant` is the program that runs
/// programs.
///
/// # Errors
/// A message: what came is no request, the bench is not heard any more, or nothing can be started here.
pub fn agent(valiant: &Path, stop: &dyn Fn() -> bool) -> Result<(), String> {
    serve(BufReader::new(std::io::stdin()), std::io::stdout(), valiant, stop)
}

/// The same on any two streams.
fn serve(
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    valiant: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot start a thread: {}", launch::reason(&e));
    let shared = Arc::new(Shared {
        gone: AtomicBool::new(false),
        credit: AtomicUsize::new(MOST_SAID),
        heard: Mutex::new(Instant::now()),
    });
    let (lines, to_send) = sync_channel(WAITING);
    let out = Out { lines, shared: Arc::clone(&shared) };
    let (done, sent) = sync_channel(1);
    let own = Arc::clone(&shared);
    let write = move || {
        send(output, &to_send, &own);
        // Whoever waits for it may have gone.
        let _ = done.send(());
    };
    std::thread::Builder::new().name("send".to_owned()).spawn(write).map_err(cannot)?;
    let hello = Hello {
        form: FORM,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine_with_name(),
        boot: boot(),
    };
    out.say(&Say::Hello(Box::new(hello)));
    let (asked, asks) = sync_channel(1);
    let own = out.clone();
    let read = move || hear(input, &own, &asked);
    std::thread::Builder::new().name("hear".to_owned()).spawn(read).map_err(cannot)?;

    let made = Scratch::new().and_then(|scratch| {
        let files = scratch.path().join("files");
        match std::fs::create_dir(&files) {
            Ok(()) => Ok((scratch, files)),
            Err(e) => Err(format!("cannot make {}: {}", files.display(), launch::reason(&e))),
        }
    });
    let (scratch, files) = match made {
        Ok(made) => made,
        Err(why) => {
            out.say(&Say::Cannot(why.clone()));
            drop((out, asks));
            let _ = sent.recv_timeout(LAST_WORDS);
            return Err(why);
        }
    };
    let stop = &|| stop() || shared.is_gone() || shared.silent_for() > PATIENCE;
    let mut agent = Agent { out, files, scratch, valiant, stop, device: None };
    let ended = agent.run(&asks);
    if let Err(why) = &ended {
        agent.out.say(&Say::Cannot(why.clone()));
    }
    let Agent { out, device, scratch, .. } = agent;
    drop((device, scratch, out, asks));
    // The thread that hears has the other way out, until it has heard the end; otherwise it may hear nothing
    // until this process ends.
    let has_words = ended.is_err() || shared.is_gone();
    let _ = sent.recv_timeout(if has_words { LAST_WORDS } else { Duration::ZERO });
    ended
}

/// Sends what is to be sent.
fn send(mut output: impl Write, lines: &Receiver<String>, shared: &Shared) {
    for line in lines {
        if output.write_all(line.as_bytes()).and_then(|()| output.flush()).is_err() {
            shared.gone.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// Hears the bench. Beats are answered at once, whatever the device does.
fn hear(mut input: impl BufRead, out: &Out, asked: &SyncSender<Result<Ask, String>>) {
    loop {
        let ask = match next(&mut input) {
            Ok(None) => break,
            Ok(Some(line)) => meaning(&line),
            Err(why) => Err(why),
        };
        out.shared.heard();
        match ask {
            Ok(Ask::Beat) => {
                out.shared.credit.store(MOST_SAID, Ordering::Relaxed);
                out.say(&Say::Beat);
            }
            ask => {
                let wrong = ask.is_err();
                if asked.send(ask).is_err() || wrong {
                    // It ends with what is wrong, not as if there had been an end.
                    return;
                }
            }
        }
    }
    out.shared.gone.store(true, Ordering::Relaxed);
}

/// A device, and what belongs to it.
struct Running {
    local: Local,
    said: Said,
    meter: Option<Meter>,
    /// Its end has been told.
    ended: bool,
}

struct Agent<'a> {
    out: Out,
    /// Where the files of the device are.
    files: PathBuf,
    scratch: Scratch,
    valiant: &'a Path,
    stop: &'a dyn Fn() -> bool,
    device: Option<Running>,
}

impl Agent<'_> {
    fn run(&mut self, asks: &Receiver<Result<Ask, String>>) -> Result<(), String> {
        while !(self.stop)() {
            match asks.recv_timeout(LOOK) {
                Ok(Ok(ask)) => {
                    let say = self.answer(ask).unwrap_or_else(Say::Cannot);
                    self.out.say(&say);
                }
                Ok(Err(wrong)) => return Err(wrong),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look();
        }
        if self.out.shared.silent_for() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(format!("nothing was heard of the bench for {seconds} s: the device is ended"));
        }
        Ok(())
    }

    /// Tells what the device has said, and that it has ended.
    fn look(&mut self) {
        let Some(device) = self.device.as_mut().filter(|device| !device.ended) else { return };
        match device.local.ended() {
            None => tell(&self.out, &device.said),
            Some(end) => {
                device.ended = true;
                tell_rest(&self.out, &device.said);
                self.out.say(&Say::Ended(end.to_string()));
            }
        }
    }

    fn answer(&mut self, ask: Ask) -> Result<Say, String> {
        let none = || "no device runs here".to_owned();
        match ask {
            Ask::Beat => return Ok(Say::Beat),
            Ask::Part { name, first, executable, bytes } => {
                self.keep(&name, (first, executable), &bytes.0)?;
                return Ok(Say::Done);
            }
            Ask::Start(start) => return self.start(&start),
            _ => {}
        }
        let device = self.device.as_mut().ok_or_else(none)?;
        Ok(match ask {
            Ask::Waited => Say::Waited(device.local.kept_waiting()),
            Ask::Stats => Say::Stats(device.local.stats()),
            Ask::Begin => {
                device.meter = Some(Meter::begin(&mut device.local));
                Say::Done
            }
            _ => {
                let meter = device.meter.take().ok_or("nothing is measured")?;
                Say::Cost(Box::new(meter.end(&mut device.local)))
            }
        })
    }

    /// Keeps a part of a file.
    fn keep(&self, name: &Path, (first, executable): (bool, bool), bytes: &[u8]) -> Result<(), String> {
        if !is_below(name) {
            return Err(format!("{}: the name of a file leads elsewhere", name.display()));
        }
        let path = self.files.join(name);
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(&self.files))?;
            let mut options = OpenOptions::new();
            options.create(first).append(true).mode(if executable { 0o700 } else { 0o600 });
            let mut file = options.open(&path)?;
            if first {
                file.set_len(0)?;
            }
            file.write_all(bytes)
        };
        write()
            .map_err(|e: std::io::Error| format!("cannot write {}: {}", path.display(), launch::reason(&e)))
    }

    fn start(&mut self, start: &Start) -> Result<Say, String> {
        if self.device.is_some() {
            return Err("a device runs here already".to_owned());
        }
        let (said, output) = Said::listen()?;
        let errors = output.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let log = self.scratch.path().join("device.log");
        let place = Place { valiant: self.valiant, dir: &self.files, log: &log };
        let (out, heard) = (self.out.clone(), said.clone());
        let stop = || {
            tell(&out, &heard);
            (self.stop)()
        };
        match Local::start(start, &place, (output.into(), errors), &stop) {
            Ok(local) => {
                self.device = Some(Running { local, said, meter: None, ended: false });
                Ok(Say::Done)
            }
            Err(why) => {
                tell_rest(&self.out, &said);
                Ok(Say::NotStarted(why))
            }
        }
    }
}

/// Tells what the device has said since, as far as that may be sent.
fn tell(out: &Out, said: &Said) {
    let credit = out.shared.credit.load(Ordering::Relaxed);
    let text = said.take(credit);
    if !text.is_empty() {
        // A beat in between gives a little more than it should.
        out.shared.credit.store(credit.saturating_sub(text.len()), Ordering::Relaxed);
        out.say(&Say::Log(text));
    }
}

/// Tells all that a device that has ended has said.
fn tell_rest(out: &Out, said: &Said) {
    // What it has started may still have the pipe open.
    let began = Instant::now();
    while !said.ended() && began.elapsed() < LAST_WORDS {
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = said.rest();
    if !text.is_empty() {
        out.say(&Say::Log(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::NotStarted;
    use crate::protocol::Bytes;
    use crate::start::What;
    use std::io::{PipeReader, PipeWriter};
    use std::thread::JoinHandle;

    /// An agent, and the bench's end of the connection.
    struct Bench {
        asks: Option<PipeWriter>,
        says: BufReader<PipeReader>,
        agent: JoinHandle<Result<(), String>>,
        /// What the device has said.
        log: String,
    }

    impl Bench {
        fn new() -> Self {
            let (input, asks) = std::io::pipe().unwrap();
            let (says, output) = std::io::pipe().unwrap();
            let run = move || serve(BufReader::new(input), output, Path::new("/none"), &|| false);
            let mut bench = Self {
                asks: Some(asks),
                says: BufReader::new(says),
                agent: std::thread::spawn(run),
                log: String::new(),
            };
            assert!(matches!(bench.hear(), Some(Say::Hello(hello)) if hello.form == FORM));
            bench
        }

        /// The next thing but what the device says.
        fn hear(&mut self) -> Option<Say> {
            loop {
                match meaning(&next(&mut self.says).unwrap()?).unwrap() {
                    Say::Log(text) => self.log += &text,
                    say => return Some(say),
                }
            }
        }

        fn ask(&mut self, ask: &Ask) -> Say {
            self.asks.as_mut().unwrap().write_all(line(ask).unwrap().as_bytes()).unwrap();
            self.hear().unwrap()
        }

        fn part(&mut self, name: &str, first: bool, text: &str) -> Say {
            let bytes = Bytes(text.as_bytes().to_vec());
            self.ask(&Ask::Part { name: name.into(), first, executable: true, bytes })
        }

        /// How the agent ends when it hears nothing more.
        fn end(mut self) -> Result<(), String> {
            drop(self.asks.take());
            while self.hear().is_some() {}
            self.agent.join().unwrap()
        }
    }

    fn command(text: &str) -> Ask {
        let (what, ready) = (What::Command(text.to_owned()), Duration::from_millis(50));
        let variables = vec![("WORD".to_owned(), "a b".to_owned())];
        Ask::Start(Start { what, variables, options: Vec::new(), cpus: None, processors: None, ready })
    }

    fn cannot(say: &Say) -> &str {
        let Say::Cannot(why) = say else { panic!("{say:?}") };
        why
    }

    #[test]
    fn a_device_is_started_measured_and_ended() {
        let mut bench = Bench::new();
        assert!(cannot(&bench.ask(&Ask::Waited)).contains("no device"));
        assert!(matches!(bench.part("d/dut", true, "an old text that is longer"), Say::Done));
        assert!(matches!(bench.part("d/dut", true, "#!/bin/sh\necho \"$WORD\"; pwd; "), Say::Done));
        assert!(matches!(
            bench.part("d/dut", false, "while [ ! -e end ]; do sleep 0.02; done\necho bye; exit 3\n"),
            Say::Done
        ));
        assert!(matches!(bench.ask(&command("exec d/dut")), Say::Done));
        assert!(cannot(&bench.ask(&command("true"))).contains("already"));
        assert!(matches!(bench.ask(&Ask::Beat), Say::Beat));
        assert!(matches!(bench.ask(&Ask::Stats), Say::Stats(None)), "it is no router");
        assert!(cannot(&bench.ask(&Ask::End)).contains("nothing is measured"));
        assert!(matches!(bench.ask(&Ask::Begin), Say::Done));
        assert!(matches!(bench.ask(&Ask::Waited), Say::Waited(_)));
        let Say::Cost(cost) = bench.ask(&Ask::End) else { panic!("no cost") };
        assert!(cost.memory_bytes.unwrap() > 0 && cost.seconds > 0.0, "{cost:?}");
        let files = PathBuf::from(bench.log.lines().nth(1).unwrap());
        assert!(bench.log.starts_with("a b\n") && files.join("d/dut").exists(), "{}", bench.log);
        assert!(matches!(bench.part("end", true, ""), Say::Done));
        assert!(matches!(bench.hear(), Some(Say::Ended(how)) if how == "exit status 3"));
        assert!(bench.log.ends_with("\nbye\n"), "{}", bench.log);
        bench.end().unwrap();
        assert!(!files.parent().unwrap().exists(), "{}", files.display());
    }

    #[test]
    fn a_device_that_cannot_start_says_why() {
        let mut bench = Bench::new();
        let Say::NotStarted(NotStarted::Ended(how)) = bench.ask(&command("echo what >&2; exit 4")) else {
            panic!("{}", bench.log)
        };
        assert_eq!((how.as_str(), bench.log.as_str()), ("exit status 4", "what\n"));
        let (what, ready) = (What::Program("p.click".into()), Duration::from_millis(50));
        let start = Start {
            what,
            variables: Vec::new(),
            options: Vec::new(),
            cpus: None,
            processors: Some(1),
            ready,
        };
        // There is no program that runs programs.
        assert!(
            matches!(bench.ask(&Ask::Start(start)), Say::NotStarted(NotStarted::Ended(how)) if how == "exit status 127")
        );
        bench.end().unwrap();
    }

    #[test]
    fn a_device_ends_with_the_connection() {
        let mut bench = Bench::new();
        assert!(matches!(bench.ask(&command("echo $$; trap '' TERM; sleep 1234 & sleep 1234")), Say::Done));
        assert!(matches!(bench.ask(&Ask::Waited), Say::Waited(_)));
        let process = Path::new("/proc").join(bench.log.trim());
        assert!(process.exists(), "{}", bench.log);
        bench.end().unwrap();
        let stat = || std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        // Whoever adopts it sees it as a zombie for a moment.
        while !stat().is_empty() && !stat().contains(") Z ") {
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn files_stay_in_their_directory() {
        let mut bench = Bench::new();
        for name in ["../up", "/etc/up", "a/../../up", "", "."] {
            assert!(cannot(&bench.part(name, true, "text")).contains("leads elsewhere"), "{name}");
        }
        assert!(cannot(&bench.part("new", false, "text")).contains("cannot write"), "it has not begun");
        bench.end().unwrap();
    }

    #[test]
    fn what_was_said_is_sent_when_the_bench_ends() {
        struct Slow(Arc<Mutex<Vec<u8>>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                std::thread::sleep(2 * LOOK);
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let sent = Arc::default();
        serve(&b""[..], Slow(Arc::clone(&sent)), Path::new("valiant"), &|| false).unwrap();
        assert!(sent.lock().unwrap().starts_with(b"{\"hello\":"), "{sent:?}");
    }

    #[test]
    fn what_is_no_request_ends_it() {
        for wrong in [&b"hello\n"[..], b"\n", b"{\"start\":7}\n", b"\"waited\"", b"\xff\n"] {
            let mut bench = Bench::new();
            bench.asks.as_mut().unwrap().write_all(wrong).unwrap();
            if !wrong.ends_with(b"\n") {
                bench.asks = None;
            }
            let why = cannot(&bench.hear().unwrap()).to_owned();
            assert!(why.starts_with("this is no message") || why.contains("is cut"), "{why}");
            assert_eq!(bench.agent.join().unwrap().unwrap_err(), why);
        }
    }
}
