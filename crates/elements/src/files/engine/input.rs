//! Files that trace elements read: plain, compressed, or standard input.

use super::binary;
use crate::infile::refuse_to_wait;
use nix::fcntl::OFlag;
use runtime::reason;
use runtime::{Hub, Outside};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::process::{Child, ChildStdout, Command, Stdio};

enum Raw {
    File(File),
    Pipe(ChildStdout),
    Stdin(io::Stdin),
    Text(Cursor<Vec<u8>>),
}

impl Read for Raw {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(f) => f.read(to),
            Self::Pipe(p) => p.read(to),
            Self::Stdin(s) => s.read(to),
            Self::Text(t) => t.read(to),
        }
    }
}

/// A file that is read from the beginning to the end, with positions counted in uncompressed bytes.
pub(in crate::files) struct Input {
    name: String,
    from: BufReader<Raw>,
    child: Option<Child>,
    position: u64,
    size: Option<u64>,
    lines: u64,
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The program that decompresses data with this beginning.
fn unpacker(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [b'B', b'Z', b'h', ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        _ => None,
    }
}

impl Input {
    /// The name of a file in messages.
    pub(in crate::files) fn display(name: &str) -> &str {
        if name == "-" { "<stdin>" } else { name }
    }

    /// Opens a file; `-` is standard input.
    pub(in crate::files) fn open(hub: &Hub, name: &str) -> Result<Self, String> {
        let shown = Self::display(name).to_owned();
        let wrong = |e: io::Error| format!("{shown}: {}", reason(&e));
        if name == "-" {
            hub.permits(Outside::Read(name)).map_err(|refused| refused.to_string())?;
            return Ok(Self::new(shown, Raw::Stdin(io::stdin()), None, None));
        }
        refuse_to_wait(name).map_err(wrong)?;
        let mut file = hub.open(name, OFlag::O_RDONLY).map_err(wrong)?;
        let meta = file.metadata().map_err(wrong)?;
        if meta.is_dir() {
            return Err(format!("{shown}: Is a directory"));
        }
        if !meta.is_file() {
            return Ok(Self::new(shown, Raw::File(file), None, None));
        }
        let mut start = [0; 6];
        let n = file.read(&mut start).map_err(wrong)?;
        file.rewind().map_err(wrong)?;
        let Some(program) = unpacker(start.get(..n).unwrap_or(&[])) else {
            return Ok(Self::new(shown, Raw::File(file), None, Some(meta.len())));
        };
        let mut child = Command::new(program)
            .arg("-dc")
            .stdin(file)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{shown}: cannot run '{program}': {}", reason(&e)))?;
        match child.stdout.take() {
            Some(pipe) => Ok(Self::new(shown, Raw::Pipe(pipe), Some(child), None)),
            None => Err(format!("{shown}: cannot read from '{program}'")),
        }
    }

    /// Bytes that are read instead of a file.
    pub(in crate::files) fn bytes(name: &str, bytes: &[u8]) -> Self {
        let size = Some(bytes.len() as u64);
        Self::new(name.to_owned(), Raw::Text(Cursor::new(bytes.to_vec())), None, size)
    }

    fn new(name: String, raw: Raw, child: Option<Child>, size: Option<u64>) -> Self {
        Self { name, from: BufReader::with_capacity(1 << 16, raw), child, position: 0, size, lines: 0 }
    }

    pub(in crate::files) fn name(&self) -> &str {
        &self.name
    }
    pub(in crate::files) fn position(&self) -> u64 {
        self.position
    }
    /// The length in bytes, if it is known.
    pub(in crate::files) fn size(&self) -> Option<u64> {
        self.size
    }
    /// How many lines, or binary records, have been read.
    pub(in crate::files) fn lines(&self) -> u64 {
        self.lines
    }

    /// Fills `to` as far as the file's data reaches. Returns how many bytes were read.
    pub(in crate::files) fn read(&mut self, to: &mut [u8]) -> Result<usize, String> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|r| !r.is_empty()) {
            match self.from.read(rest) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(reason(&e)),
            }
        }
        self.position += done as u64;
        Ok(done)
    }

    /// Reads a line without its end; `None` at the end of the file. Bytes that are not UTF-8 are replaced.
    pub(in crate::files) fn line(&mut self) -> Result<Option<String>, String> {
        let mut bytes = Vec::new();
        // A line that never ends must not fill the memory.
        let n = (&mut self.from)
            .take(1 << 20)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| format!("{}: {}", self.name, reason(&e)))?;
        self.position += n as u64;
        if n == 0 {
            return Ok(None);
        }
        self.lines += 1;
        while bytes.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            bytes.pop();
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads a binary record of an IP summary dump without its length, and whether it is a line of text;
    /// `None` at the end of the file, and if the last record is not complete.
    pub(in crate::files) fn record(&mut self) -> Result<Option<(Vec<u8>, bool)>, String> {
        let wrong = |e: String, name: &str, lines: u64| format!("{name}:record {lines}: {e}");
        let mut word = [0; binary::WORD];
        if self.read(&mut word).map_err(|e| wrong(e, &self.name, self.lines))? < word.len() {
            return Ok(None);
        }
        self.lines += 1;
        let (len, is_line) = binary::head(word).map_err(|e| wrong(e, &self.name, self.lines))?;
        let mut record = vec![0; len - word.len()];
        let n = self.read(&mut record).map_err(|e| wrong(e, &self.name, self.lines))?;
        Ok((n == record.len()).then_some((record, is_line)))
    }
    /// The next line or record is the first.
    pub(in crate::files) fn count_anew(&mut self) {
        self.lines = 0;
    }

    /// Skips `n` bytes; false if the file ends before.
    pub(in crate::files) fn skip(&mut self, n: u64) -> Result<bool, String> {
        let skipped = io::copy(&mut (&mut self.from).take(n), &mut io::sink()).map_err(|e| reason(&e))?;
        self.position += skipped;
        Ok(skipped == n)
    }

    /// Moves to a position. In a pipe, only forwards.
    pub(in crate::files) fn seek(&mut self, to: u64) -> Result<(), String> {
        if self.size.is_some_and(|size| to > size) {
            return Err("FILEPOS out of range".to_owned());
        }
        let buffered = self.from.buffer().len();
        let result = match self.from.get_mut() {
            Raw::File(f) => f.seek(SeekFrom::Start(to)),
            Raw::Text(t) => t.seek(SeekFrom::Start(to)),
            Raw::Pipe(_) | Raw::Stdin(_) => match to.checked_sub(self.position).map(|n| self.skip(n)) {
                Some(Ok(true)) => return Ok(()),
                Some(Ok(false)) => return Err("FILEPOS out of range".to_owned()),
                Some(Err(e)) => return Err(e),
                None => return Err("cannot go back in a pipe".to_owned()),
            },
        };
        result.map_err(|e| reason(&e))?;
        self.from.consume(buffered);
        self.position = to;
        Ok(())
    }

    /// At the end of a compressed file: whether the decompression succeeded.
    pub(in crate::files) fn finish(&mut self) -> Result<(), String> {
        match self.child.take().map(|mut c| c.wait()) {
            Some(Ok(status)) if !status.success() => Err("compressed file is damaged or cut off".to_owned()),
            Some(Err(e)) => Err(reason(&e)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_seeks_and_counts() {
        let mut i = Input::bytes("t", b"one\r\ntwo\nthree");
        assert_eq!(i.line().unwrap().as_deref(), Some("one"));
        assert_eq!((i.position(), i.lines()), (5, 1));
        i.seek(0).unwrap();
        assert!(i.skip(5).unwrap());
        assert_eq!(i.line().unwrap().as_deref(), Some("two"));
        assert_eq!(i.line().unwrap().as_deref(), Some("three"));
        assert_eq!(i.line().unwrap(), None);
        assert!(!i.skip(1).unwrap());
        assert!(i.seek(15).is_err());
        assert!(
            Input::open(&Hub::default(), "/nonexistent")
                .err()
                .unwrap()
                .ends_with("No such file or directory")
        );
        assert!(Input::open(&Hub::default(), "/").err().unwrap().contains("Is a directory"));
    }
}
