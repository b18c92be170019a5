//! Files that trace elements write. A file that cannot be written is reported once, and lost records are
//! counted.

use crate::outfile::{FileId, NewFile};
use locks::IgnorePoison;
use runtime::reason;
use runtime::{Hub, Level, Outside};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// How many bytes are buffered before they are written.
const BUFFER: usize = 1 << 16;

enum Raw {
    /// Not begun yet.
    Nothing,
    File(File),
    Stdout(io::Stdout),
    Pipe(Child),
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Nothing => Err(io::ErrorKind::BrokenPipe.into()),
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

/// Describes a type of file.
#[derive(Clone, Copy)]
pub(crate) struct Framing {
    /// The element class, for messages.
    pub(crate) class: &'static str,
    /// The length of the record that begins with these bytes; `None` if they do not contain it.
    pub(crate) record_len: fn(&[u8]) -> Option<usize>,
    /// Whether every record is written at once.
    pub(crate) unbuffered: bool,
    /// What the file ends with, behind the last record.
    pub(crate) end: &'static [u8],
}

/// The files that are being written: each with a flag that ends the writing.
#[derive(Default)]
struct Written(Mutex<Vec<(FileId, Weak<AtomicBool>)>>);

impl Written {
    fn of(hub: &Hub) -> Result<Arc<Self>, String> {
        hub.resource("files that are written", || Ok(Self::default()))
    }
}

/// An output that all workers use, and that is kept over a hot swap.
pub(crate) struct Dump(Mutex<Output>);

impl Dump {
    /// The output that is open under a key, or a new one of an element; see [`Output::prepare`].
    pub(crate) fn open(
        key: &str,
        element: &str,
        name: &str,
        header: Vec<u8>,
        framing: Framing,
        hub: &Arc<Hub>,
    ) -> Result<Arc<Self>, String> {
        let written = Written::of(hub)?;
        hub.resource(key, || {
            Output::prepare(element, name, header, framing, hub, written)
                .map(|output| Self(Mutex::new(output)))
        })
    }
    /// See [`Output::begin`].
    pub(crate) fn begin(&self) -> Result<(), String> {
        self.lock().begin()
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().ignore_poison()
    }
}

/// A file of records.
pub(crate) struct Output {
    /// The element that writes it.
    element: String,
    name: String,
    /// The file's header and the file, until the output has begun.
    header: Vec<u8>,
    new: Option<NewFile>,
    begun: bool,
    id: Option<FileId>,
    written: Arc<Written>,
    /// The outputs that write the same file until the new configuration takes effect.
    replaces: Vec<Arc<AtomicBool>>,
    /// Set when another output writes the file instead.
    ended: Arc<AtomicBool>,
    framing: Framing,
    hub: Arc<Hub>,
    raw: Raw,
    buffer: Vec<u8>,
    /// The position in a regular file at which the last whole record ends.
    good: u64,
    failed: bool,
    count: u64,
    lost: u64,
}

impl Output {
    /// The name of a file in messages.
    pub(crate) fn display(name: &str) -> &str {
        if name == "-" { "<stdout>" } else { name }
    }

    /// Checks whether a file that begins with `header` can be written; `-` is standard output. The file is
    /// not changed before [`Output::begin`].
    fn prepare(
        element: &str,
        name: &str,
        header: Vec<u8>,
        framing: Framing,
        hub: &Arc<Hub>,
        written: Arc<Written>,
    ) -> Result<Self, String> {
        let shown = Self::display(name).to_owned();
        let wrong = |e: io::Error| format!("{}: {}", Self::display(name), reason(&e));
        let packer =
            [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz")].iter().find(|(end, _)| name.ends_with(end));
        let (mut raw, mut new, mut id) = (Raw::Stdout(io::stdout()), None, None);
        if name == "-" {
            hub.permits(Outside::Write(name)).map_err(|refused| refused.to_string())?;
        } else {
            let file = NewFile::open(hub, name).map_err(wrong)?;
            id = Some(file.id().map_err(wrong)?);
            raw = match packer {
                None => Raw::Nothing,
                // The program writes nothing before it has read its first input.
                Some((_, program)) => Raw::Pipe(
                    Command::new(program)
                        .arg("-c")
                        .stdin(Stdio::piped())
                        .stdout(file.another().map_err(wrong)?)
                        .spawn()
                        .map_err(|e| format!("{shown}: cannot run '{program}': {}", reason(&e)))?,
                ),
            };
            new = Some(file);
        }
        let replaces = {
            let mut all = written.0.lock().ignore_poison();
            all.retain(|(_, ended)| ended.strong_count() > 0);
            all.iter().filter(|(of, _)| Some(*of) == id).filter_map(|(_, ended)| ended.upgrade()).collect()
        };
        Ok(Self {
            element: element.to_owned(),
            name: shown,
            header,
            new,
            begun: false,
            id,
            written,
            replaces,
            ended: Arc::default(),
            framing,
            hub: Arc::clone(hub),
            raw,
            buffer: Vec::with_capacity(BUFFER + 4096),
            good: 0,
            failed: false,
            count: 0,
            lost: 0,
        })
    }

    /// Empties the file and writes its header; has an effect only once. An output that wrote the same file
    /// before a hot swap stops writing.
    ///
    /// # Errors
    /// The reason why that is not possible; all packets are then lost.
    fn begin(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        self.replaces.drain(..).for_each(|ended| ended.store(true, Ordering::Release));
        let header = std::mem::take(&mut self.header);
        let result = (|| {
            if let Some(new) = self.new.take() {
                let file = new.begin()?;
                if matches!(self.raw, Raw::Nothing) {
                    self.raw = Raw::File(file);
                }
            }
            self.raw.write_all(&header).and_then(|()| self.raw.flush())
        })();
        self.good = header.len() as u64;
        self.failed = result.is_err();
        if let Some(id) = self.id {
            let mut all = self.written.0.lock().ignore_poison();
            all.push((id, Arc::downgrade(&self.ended)));
        }
        result.map_err(|e| format!("{}: unable to write file header: {}", self.name, reason(&e)))
    }

    /// Records written.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
    /// Records lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
    pub(crate) fn reset_counts(&mut self) {
        (self.count, self.lost) = (0, 0);
    }

    /// Adds a record, which `make` appends to the buffer. Returns false if the record is lost.
    pub(crate) fn record(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> bool {
        if !self.failed {
            make(&mut self.buffer);
            self.count += 1;
            if self.framing.unbuffered || self.buffer.len() >= BUFFER {
                // A failure has been reported; the counters show whether this record was lost.
                let _ = self.flush();
            }
            return !self.failed;
        }
        self.lost += 1;
        false
    }

    /// Writes the buffer to the file.
    ///
    /// # Errors
    /// The reason why that is not possible; it has been printed.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
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
                self.hub.log(Level::ERROR, &self.element, &message);
                Err(message)
            }
        }
    }

    /// Only the first `done` bytes of the buffer could be written: the file is truncated so that it ends with
    /// a whole record.
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
            // A file that cannot be truncated (a device, a pipe) stays as it is.
            let _ = file.set_len(self.good);
            let _ = file.seek(SeekFrom::Start(self.good));
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.begun || self.ended.load(Ordering::Acquire) {
            // The file belongs to another output.
            if let Raw::Pipe(child) = &mut self.raw {
                // The program may have ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
            return;
        }
        if !self.failed {
            self.buffer.extend_from_slice(self.framing.end);
            // A failure has been reported.
            let _ = self.flush();
        }
        if let Raw::Pipe(child) = &mut self.raw {
            child.stdin = None;
            if !child.wait().is_ok_and(|status| status.success()) && !self.failed {
                let class = self.framing.class;
                let message = format!("{class}({}): compression failed", self.name);
                self.hub.log(Level::ERROR, &self.element, &message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// The disk becomes full in the middle of the second of three records.
    #[test]
    fn a_file_that_fills_up_ends_with_a_whole_record() {
        let hub = Arc::clone(Bench::with_config("e :: Idle -> Discard;", 0, 0).router().hub());
        let path = std::env::temp_dir().join(format!("valiant-output-{}", std::process::id()));
        let framing = Framing { class: "T", record_len: |_| Some(4), unbuffered: false, end: b"" };
        let (name, written) = (path.display().to_string(), Written::of(&hub).unwrap());
        let mut o = Output::prepare("t", &name, b"head".to_vec(), framing, &hub, written).unwrap();
        o.begin().unwrap();
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
        let framing = Framing { class: "T", record_len: |_| None, unbuffered: true, end: b"" };
        let written = Written::of(&hub).unwrap();
        let mut o = Output::prepare("t", "/dev/full", Vec::new(), framing, &hub, written).unwrap();
        o.begin().unwrap();
        for _ in 0..3 {
            assert!(!o.record(|b| b.push(b'x')));
        }
        drop(o);
        assert_eq!(*lines.lock().unwrap(), ["T(/dev/full): No space left on device"]);
    }
}
