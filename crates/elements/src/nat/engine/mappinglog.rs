//! The log of mappings that the NAT classes keep (`LOG`): who had which address and port outside, and when
//! (RFC 6888 REQ-12, RFC 7422).
//!
//! Workers put a record of fixed size into memory that was allocated before, and do nothing else. A thread
//! takes the records from there ten times a second, and writes them. Records for which there is no room, and
//! lines that cannot be written, are counted as lost, and the log says how many.

use crate::plumbing::engine::text::utc;
use crate::prelude::*;
use lang::args::Filename;
use locks::IgnorePoison;
use nix::fcntl::OFlag;
use runtime::Hub;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How many records may wait.
const ROOM: usize = 1 << 16;
/// How often they are written, and how long a line waits for the syslog daemon.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long all that is left waits for it when the log ends: what ends the log waits so long.
const LAST: Duration = Duration::from_millis(50);
/// How long one attempt takes.
const ATTEMPT: Duration = Duration::from_millis(10);
/// How many lines are written at a time.
const LINES: usize = 256;
/// Where the local syslog listens, and the priority of the messages: local0.info (RFC 3164).
const SYSLOG: &str = "/dev/log";
const PRIORITY: u32 = 16 * 8 + 6;
/// Units of the flows' time in nanoseconds.
const UNIT_NS: u64 = 250_000_000;

/// An address, and a port if the protocol has some.
pub(crate) type End = (IpAddr, Option<u16>);

/// A mapping that begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) begins: bool,
    /// The flows' time.
    pub(crate) time: u32,
    pub(crate) protocol: &'static str,
    pub(crate) inside: End,
    pub(crate) outside: End,
    /// The other side as the inside addresses it, and as packets outside do, of a mapping that is for one.
    pub(crate) remote: Option<[End; 2]>,
}

fn write_end(text: &mut String, (address, port): End) {
    let _ = match (address, port) {
        (address, None) => write!(text, "{address}"),
        (IpAddr::V4(address), Some(port)) => write!(text, "{address}:{port}"),
        (IpAddr::V6(address), Some(port)) => write!(text, "[{address}]:{port}"),
    };
}

impl Record {
    fn write(&self, text: &mut String) {
        let _ = write!(text, "{} {} ", if self.begins { "created" } else { "deleted" }, self.protocol);
        write_end(text, self.inside);
        text.push_str(" => ");
        write_end(text, self.outside);
        if let Some([before, after]) = self.remote {
            text.push_str(" to ");
            write_end(text, before);
            if before != after {
                text.push_str(" => ");
                write_end(text, after);
            }
        }
    }
}

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    File(String),
    Syslog(String),
}

enum Open {
    /// With whether its last line is not whole.
    File(File, bool),
    Syslog(UnixDatagram),
}

impl Target {
    fn open(&self, hub: &Hub) -> Result<Open, String> {
        let failed = |path: &str, error: io::Error| format!("{path}: {error}");
        match self {
            // A pipe that nobody reads must not hold up anything.
            Self::File(path) => hub
                .open(path, OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NONBLOCK)
                .map(|file| Open::File(file, false))
                .map_err(|error| failed(path, error)),
            Self::Syslog(path) => {
                let open = || {
                    let socket = UnixDatagram::unbound()?;
                    // The daemon takes few messages at a time, and the thread may wait for it.
                    socket.set_write_timeout(Some(ATTEMPT))?;
                    socket.connect(path)?;
                    Ok(Open::Syslog(socket))
                };
                open().map_err(|error| failed(path, error))
            }
        }
    }
}

impl Open {
    /// Writes lines; how many could not be written. `stop` says since when the log has been ending.
    fn write(&mut self, lines: &str, stop: &Mutex<Option<Instant>>) -> u64 {
        match self {
            Self::File(file, broken) => {
                // The next line begins on a line of its own.
                if *broken && file.write(b"\n").is_ok_and(|n| n == 1) {
                    *broken = false;
                }
                if *broken {
                    return lines.lines().count() as u64;
                }
                let mut rest = lines.as_bytes();
                while !rest.is_empty() {
                    match file.write(rest) {
                        Ok(0) => break,
                        Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                let done = lines.len() - rest.len();
                *broken = done > 0 && lines.as_bytes().get(done - 1) != Some(&b'\n');
                rest.iter().filter(|byte| **byte == b'\n').count() as u64
            }
            Self::Syslog(socket) => {
                // Who takes none does not take the next one either.
                let mut rest = lines.lines();
                let is_sent = |line: &str| {
                    let message = format!("<{PRIORITY}>valiant: {line}");
                    let began = Instant::now();
                    loop {
                        let stopped = *stop.lock().ignore_poison();
                        if stopped.map_or(began.elapsed() > INTERVAL, |at| at.elapsed() > LAST) {
                            return false;
                        }
                        match socket.send(message.as_bytes()).map_err(|e| e.kind()) {
                            Ok(_) => return true,
                            Err(io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                            Err(_) => return false,
                        }
                    }
                };
                if rest.all(is_sent) { 0 } else { rest.count() as u64 + 1 }
            }
        }
    }
}

/// What workers and the thread share.
struct Inner {
    name: String,
    target: Target,
    records: Mutex<Vec<Record>>,
    /// Since when it has been ending.
    stop: Mutex<Option<Instant>>,
    bell: Condvar,
    reopen: AtomicBool,
    /// The latest time of the router, in units that do not wrap.
    time: AtomicU64,
    written: AtomicU64,
    lost: AtomicU64,
}

/// The log of one element.
pub(crate) struct MappingLog {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl MappingLog {
    /// Reads the `LOG` argument.
    pub(crate) fn from_args(
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<Option<Arc<Self>>, ArgError> {
        let Some(Filename(path)) = args.k::<Filename>("LOG")? else { return Ok(None) };
        let target =
            if path == "syslog" { Target::Syslog(SYSLOG.to_owned()) } else { Target::File(path.clone()) };
        cx.permits(Outside::Write(if path == "syslog" { SYSLOG } else { &path }), args)?;
        let name = cx.name().to_owned();
        let log = cx.shared(|| Self::new(name, target));
        let (hub, starting) = (Arc::clone(cx.hub()), Arc::clone(&log));
        cx.at_change_over(move || starting.start(&hub));
        Ok(Some(log))
    }

    fn new(name: String, target: Target) -> Self {
        let inner = Inner {
            name,
            target,
            records: Mutex::new(Vec::with_capacity(ROOM)),
            stop: Mutex::new(None),
            bell: Condvar::new(),
            reopen: AtomicBool::new(false),
            time: AtomicU64::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner), thread: Mutex::default() }
    }

    /// Opens the log and begins to write, unless it has done so before.
    fn start(&self, hub: &Arc<Hub>) -> Result<(), String> {
        let mut thread = self.thread.lock().ignore_poison();
        if thread.is_some() {
            return Ok(());
        }
        let open = self.inner.target.open(hub)?;
        let (inner, hub, account) = (Arc::clone(&self.inner), Arc::clone(hub), accounts::inherit());
        let run = move || {
            let _account = account.enter();
            inner.run(open, &hub);
        };
        *thread = Some(Builder::new().name("nat-log".to_owned()).spawn(run).map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Tells what the time is, in nanoseconds.
    pub(crate) fn note_time(&self, now_ns: u64) {
        self.inner.time.fetch_max(now_ns / UNIT_NS, Relaxed);
    }

    /// Notes a mapping that begins or ends.
    pub(crate) fn note(&self, record: Record) {
        let mut records = self.inner.records.lock().ignore_poison();
        if records.len() < ROOM {
            records.push(record);
        } else {
            self.inner.lost.fetch_add(1, Relaxed);
        }
    }

    /// Opens the file anew before the next lines: it has been moved away.
    pub(crate) fn reopen(&self) {
        self.inner.reopen.store(true, Release);
    }

    /// Lines that have been written, and those that have not.
    pub(crate) fn written(&self) -> u64 {
        self.inner.written.load(Relaxed)
    }
    pub(crate) fn lost(&self) -> u64 {
        self.inner.lost.load(Relaxed)
    }
}

impl Drop for MappingLog {
    fn drop(&mut self) {
        *self.inner.stop.lock().ignore_poison() = Some(Instant::now());
        self.inner.bell.notify_all();
        if let Some(thread) = self.thread.lock().ignore_poison().take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn run(&self, mut open: Open, hub: &Hub) {
        let (mut records, mut text, mut told) = (Vec::with_capacity(ROOM), String::new(), 0);
        loop {
            let stopping = {
                let stop = self.stop.lock().ignore_poison();
                self.bell
                    .wait_timeout_while(stop, INTERVAL, |stop| stop.is_none())
                    .ignore_poison()
                    .0
                    .is_some()
            };
            if self.reopen.swap(false, Acquire) {
                match self.target.open(hub) {
                    Ok(new) => open = new,
                    Err(error) => hub.log(Level::WARN, &self.name, &format!("{}: LOG: {error}", self.name)),
                }
            }
            std::mem::swap(&mut records, &mut *self.records.lock().ignore_poison());
            for some in records.chunks(LINES) {
                self.write(some, &mut text, &mut open);
            }
            records.clear();
            self.tell(&mut told, &mut text, &mut open);
            if stopping {
                return;
            }
        }
    }

    /// Writes records.
    fn write(&self, records: &[Record], text: &mut String, open: &mut Open) {
        text.clear();
        let mut time = self.time.load(Relaxed);
        for record in records {
            // Records have the last 32 bits of the time.
            let since = record.time.wrapping_sub(time as u32).cast_signed();
            let at = time.saturating_add_signed(since.into());
            time = time.max(at);
            self.begin_line(text, at);
            record.write(text);
            text.push('\n');
        }
        self.time.fetch_max(time, Relaxed);
        let failed = open.write(text, &self.stop);
        self.written.fetch_add(records.len() as u64 - failed, Relaxed);
        self.lost.fetch_add(failed, Relaxed);
    }

    /// Writes how many have been lost since that was `told`.
    fn tell(&self, told: &mut u64, text: &mut String, open: &mut Open) {
        let lost = self.lost.load(Relaxed);
        if lost > *told {
            text.clear();
            self.begin_line(text, self.time.load(Relaxed));
            let _ = writeln!(text, "lost {}", lost - *told);
            if open.write(text, &self.stop) == 0 {
                *told = lost;
            }
        }
    }

    fn begin_line(&self, text: &mut String, at: u64) {
        let _ = write!(text, "{} {} ", utc(at.saturating_mul(UNIT_NS)), self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of a second after 1,700,000,000 seconds.
    const TIME: u32 = (1_700_000_000u64 * 4 + 1) as u32;

    fn record(begins: bool, time: u32) -> Record {
        Record {
            begins,
            time,
            protocol: "TCP",
            inside: ([10, 0, 0, 2].into(), Some(700)),
            outside: ([198, 51, 100, 7].into(), Some(4000)),
            remote: Some([([192, 0, 2, 9].into(), Some(80)); 2]),
        }
    }

    #[test]
    fn the_file_is_appended_to_and_opened_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log").to_string_lossy().into_owned();
        std::fs::write(&path, "before\n").unwrap();
        let hub = Arc::new(Hub::default());
        let log = MappingLog::new("nat".to_owned(), Target::File(path.clone()));
        // The time of records has 32 bits.
        log.note_time(1_700_000_000 * 1_000_000_000);
        log.start(&hub).unwrap();
        log.note(record(true, TIME));
        let dropped = record(false, TIME + 40);
        log.note(Record { remote: Some([dropped.outside, dropped.inside]), ..dropped });
        drop(log);
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "before\n\
             2023-11-14T22:13:20.25Z nat created TCP 10.0.0.2:700 => 198.51.100.7:4000 to 192.0.2.9:80\n\
             2023-11-14T22:13:30.25Z nat deleted TCP 10.0.0.2:700 => 198.51.100.7:4000 to 198.51.100.7:4000 => 10.0.0.2:700\n"
        );
        let log = MappingLog::new("nat".to_owned(), Target::File(path.clone()));
        log.start(&hub).unwrap();
        std::fs::rename(&path, path.clone() + ".1").unwrap();
        log.reopen();
        log.note(Record {
            remote: None,
            inside: ("2001:db8::7".parse().unwrap(), Some(5)),
            ..record(true, 0)
        });
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with(" nat created TCP [2001:db8::7]:5 => 198.51.100.7:4000\n"), "{text}");
    }

    #[test]
    fn what_has_no_room_is_counted_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log").to_string_lossy().into_owned();
        let log = MappingLog::new("nat".to_owned(), Target::File(path.clone()));
        // Nothing is written yet.
        for _ in 0..ROOM + 3 {
            log.note(record(true, 0));
        }
        assert_eq!((log.lost(), log.written()), (3, 0));
        log.start(&Arc::new(Hub::default())).unwrap();
        let inner = Arc::clone(&log.inner);
        drop(log);
        assert_eq!((inner.written.load(Relaxed), inner.lost.load(Relaxed)), (ROOM as u64, 3));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), ROOM + 1);
        assert!(text.ends_with(" nat lost 3\n"));
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let log = MappingLog::new("nat".to_owned(), Target::File("/dev/full".to_owned()));
        log.start(&Arc::new(Hub::default())).unwrap();
        (0..5).for_each(|_| log.note(record(true, 0)));
        let inner = Arc::clone(&log.inner);
        drop(log);
        assert_eq!((inner.written.load(Relaxed), inner.lost.load(Relaxed)), (0, 5));
    }

    #[test]
    fn syslog_gets_a_message_for_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let server = UnixDatagram::bind(&path).unwrap();
        let target = Target::Syslog(path.to_string_lossy().into_owned());
        let log = MappingLog::new("nat".to_owned(), target);
        log.start(&Arc::new(Hub::default())).unwrap();
        log.note(record(true, 0));
        drop(log);
        let mut bytes = [0; 256];
        let n = server.recv(&mut bytes).unwrap();
        assert_eq!(
            std::str::from_utf8(&bytes[..n]).unwrap(),
            "<134>valiant: 1970-01-01T00:00:00Z nat created TCP 10.0.0.2:700 => 198.51.100.7:4000 to 192.0.2.9:80"
        );
    }

    #[test]
    fn the_end_does_not_wait_for_a_slow_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let server = UnixDatagram::bind(&path).unwrap();
        // Twenty seconds for all.
        let slow = std::thread::spawn(move || {
            let mut taken = 0u64;
            while server.recv(&mut [0; 256]).is_ok_and(|n| n > 3) {
                taken += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            taken
        });
        let log = MappingLog::new("nat".to_owned(), Target::Syslog(path.to_string_lossy().into_owned()));
        log.start(&Arc::new(Hub::default())).unwrap();
        (0..400).for_each(|_| log.note(record(true, 0)));
        let inner = Arc::clone(&log.inner);
        drop(log);
        let (written, lost) = (inner.written.load(Relaxed), inner.lost.load(Relaxed));
        assert_eq!(written + lost, 400);
        assert!(lost > 0, "it has waited for all");
        UnixDatagram::unbound().unwrap().send_to(b"end", &path).unwrap();
        assert_eq!(slow.join().unwrap(), written);
    }

    #[test]
    fn a_log_that_cannot_be_opened_is_an_error() {
        let log = MappingLog::new("nat".to_owned(), Target::File("/nowhere/log".to_owned()));
        let error = log.start(&Arc::new(Hub::default())).unwrap_err();
        assert!(error.starts_with("/nowhere/log: "), "{error}");
    }
}
