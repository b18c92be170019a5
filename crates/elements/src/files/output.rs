//! Files that trace elements write. A file that cannot be written is reported once, and what is lost is counted.

use super::input::reason;
use runtime::Hub;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// How much is kept before it is written.
const BUFFER: usize = 1 << 16;

enum Raw {
    File(File),
    Stdout(io::Stdout),
    Pipe(Child),
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(f) => f.write(bytes),
            Self::Stdout(s) => s.write(bytes),
            Self::Pipe(c) => match &mut c.stdin {
                Some(pipe) => pipe.write(bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        if let Self::Stdout(s) = self { s.flush() } else { Ok(()) }
    }
}

/// What a kind of file is made of.
#[derive(Clone, Copy)]
pub(super) struct Framing {
    /// The element class, for messages.
    pub(super) class: &'static str,
    /// The length of the record that these bytes begin with; `None` if they do not tell.
    pub(super) record_len: fn(&[u8]) -> Option<usize>,
    /// Whether every record is written at once.
    pub(super) unbuffered: bool,
}

/// A file of records.
pub(super) struct Output {
    name: String,
    framing: Framing,
    hub: Arc<Hub>,
    raw: Raw,
    buffer: Vec<u8>,
    /// Where in a regular file the last whole record ends.
    good: u64,
    failed: bool,
    count: u64,
    lost: u64,
}

impl Output {
    /// What messages call a file.
    pub(super) fn display(name: &str) -> &str {
        if name == "-" { "<stdout>" } else { name }
    }

    /// Makes a file that begins with `header`; `-` is standard output.
    pub(super) fn open(name: &str, header: &[u8], framing: Framing, hub: Arc<Hub>) -> Result<Self, String> {
        let shown = Self::display(name).to_owned();
        let packer =
            [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz")].iter().find(|(end, _)| name.ends_with(end));
        let raw = if name == "-" {
            Raw::Stdout(io::stdout())
        } else {
            let file = File::create(name).map_err(|e| format!("{shown}: {}", reason(&e)))?;
            match packer {
                None => Raw::File(file),
                Some((_, program)) => Raw::Pipe(
                    Command::new(program)
                        .arg("-c")
                        .stdin(Stdio::piped())
                        .stdout(file)
                        .spawn()
                        .map_err(|e| format!("{shown}: cannot run '{program}': {}", reason(&e)))?,
                ),
            }
        };
        let buffer = Vec::with_capacity(BUFFER + 4096);
        let mut it =
            Self { name: shown, framing, hub, raw, buffer, good: 0, failed: false, count: 0, lost: 0 };
        it.raw
            .write_all(header)
            .and_then(|()| it.raw.flush())
            .map_err(|e| format!("{}: unable to write file header: {}", it.name, reason(&e)))?;
        it.good = header.len() as u64;
        Ok(it)
    }

    /// Records written.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
    /// Records lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
    pub(super) fn reset_counts(&mut self) {
        (self.count, self.lost) = (0, 0);
    }

    /// Adds a record, which `make` appends to the buffer. False if it is lost.
    pub(super) fn record(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> bool {
        if !self.failed {
            make(&mut self.buffer);
            self.count += 1;
            if self.framing.unbuffered || self.buffer.len() >= BUFFER {
                // A failure has been reported; whether this very record was lost shows in the counts.
                let _ = self.flush();
            }
            return !self.failed;
        }
        self.lost += 1;
        false
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// Why that cannot be done; it has been printed.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        if self.failed {
            return Err(format!("{}: not written any more", self.name));
        }
        let mut done = 0;
        let result = loop {
            let Some(rest) = self.buffer.get(done..).filter(|r| !r.is_empty()) else {
                break self.raw.flush();
            };
            match self.raw.write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        match result {
            Ok(()) => {
                self.good += done as u64;
                self.buffer.clear();
                Ok(())
            }
            Err(e) => {
                self.fail(done);
                let message = format!("{}({}): {}", self.framing.class, self.name, reason(&e));
                self.hub.chatter(&message);
                Err(message)
            }
        }
    }

    /// After `done` bytes of the buffer nothing more could be written: the file shall end with a whole record.
    fn fail(&mut self, done: usize) {
        let (mut whole, mut at, mut lost) = (0, 0, 0);
        while let Some(rest) = self.buffer.get(at..).filter(|r| !r.is_empty()) {
            at += (self.framing.record_len)(rest).unwrap_or(rest.len()).max(1);
            if at <= done {
                whole = at;
            } else {
                lost += 1;
            }
        }
        self.failed = true;
        self.lost += lost;
        self.count = self.count.saturating_sub(lost);
        self.good += whole as u64;
        self.buffer = Vec::new();
        if let Raw::File(file) = &mut self.raw {
            // What cannot be cut (a device, a pipe) stays as it is.
            let _ = file.set_len(self.good);
            let _ = file.seek(SeekFrom::Start(self.good));
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.failed {
            // A failure has been reported.
            let _ = self.flush();
        }
        if let Raw::Pipe(child) = &mut self.raw {
            child.stdin = None;
            if !child.wait().is_ok_and(|status| status.success()) && !self.failed {
                self.hub.chatter(&format!("{}({}): compression failed", self.framing.class, self.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// A disk becomes full in the middle of the second of three records.
    #[test]
    fn a_file_that_fills_up_ends_with_a_whole_record() {
        let hub = Arc::clone(Bench::with_config("e :: Idle -> Discard;", 0, 0).router().hub());
        let path = std::env::temp_dir().join(format!("valiant-output-{}", std::process::id()));
        let framing = Framing { class: "T", record_len: |_| Some(4), unbuffered: false };
        let mut o = Output::open(&path.display().to_string(), b"head", framing, hub).unwrap();
        for record in [b"aaaa", b"bbbb", b"cccc"] {
            assert!(o.record(|b| b.extend(record)));
        }
        if let Raw::File(file) = &mut o.raw {
            file.write_all(&o.buffer[..6]).unwrap();
        }
        o.fail(6);
        assert_eq!((o.count(), o.lost()), (1, 2));
        assert_eq!(std::fs::read(&path).unwrap(), b"headaaaa");
        assert!(!o.record(|b| b.extend(b"dddd")));
        assert_eq!((o.count(), o.lost()), (1, 3));
        drop(o);
        assert_eq!(std::fs::read(&path).unwrap(), b"headaaaa");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_failure_is_printed_once() {
        let mut bench = Bench::with_config("e :: Idle -> Discard;", 0, 0);
        let lines = bench.listen();
        let hub = Arc::clone(bench.router().hub());
        let framing = Framing { class: "T", record_len: |_| None, unbuffered: true };
        let mut o = Output::open("/dev/full", b"", framing, hub).unwrap();
        for _ in 0..3 {
            assert!(!o.record(|b| b.push(b'x')));
        }
        drop(o);
        assert_eq!(*lines.lock().unwrap(), ["T(/dev/full): No space left on device"]);
    }
}
