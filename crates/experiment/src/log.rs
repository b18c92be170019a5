//! The messages of a process, in files that do not grow without bound.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A file is at most about so long. The first one is kept, and the last two.
const LONGEST: u64 = 1 << 20;
/// The end of the messages is at most so long.
const TAIL: u64 = 2000;
/// How long what a process has said last may be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(2);

/// Writes what comes in by a pipe to a file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    writer: Option<JoinHandle<()>>,
}

/// Where a log goes on: with `first` its beginning, with `before` what came before the present file.
fn beside(path: &Path, word: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(word);
    name.into()
}

/// Begins the next file. The first one is kept beside it, of the others the last one.
fn next(path: &Path) -> std::io::Result<(File, u64)> {
    let first = beside(path, "first");
    let before = if first.exists() { beside(path, "before") } else { first };
    std::fs::rename(path, before)?;
    let note = format!(
        "[{} has the beginning, {} what came before this, if that is not the beginning; what was between them is gone]\n",
        beside(path, "first").display(),
        beside(path, "before").display()
    );
    let mut file = File::create(path)?;
    file.write_all(note.as_bytes())?;
    Ok((file, note.len() as u64))
}

/// Copies until all writers have closed the pipe. What cannot be written is forgotten: the process must not
/// wait for a full disk.
fn copy(mut from: PipeReader, mut file: File, path: &Path, longest: u64) {
    let (mut bytes, mut long) = (vec![0; 1 << 16], 0);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if long >= longest
            && let Ok(begun) = next(path)
        {
            (file, long) = begun;
        }
        if long < 2 * longest {
            let _ = file.write_all(bytes.get(..n).unwrap_or_default());
        }
        long += n as u64;
    }
}

impl Log {
    /// A log at a path, and where to write what is to be in it.
    pub(crate) fn create(path: &Path) -> Result<(Self, PipeWriter), String> {
        Self::with_longest(path, LONGEST)
    }

    fn with_longest(path: &Path, longest: u64) -> Result<(Self, PipeWriter), String> {
        let cannot = |e: &std::io::Error| format!("cannot write {}: {}", path.display(), launch::reason(e));
        for word in ["first", "before"] {
            // There may be none.
            let _ = std::fs::remove_file(beside(path, word));
        }
        let file = File::create(path).map_err(|e| cannot(&e))?;
        let (reader, writer) = std::io::pipe().map_err(|e| cannot(&e))?;
        let at = path.to_owned();
        let run = move || copy(reader, file, &at, longest);
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(run).map_err(|e| cannot(&e))?;
        Ok((Self { path: path.to_owned(), writer: Some(thread) }, writer))
    }

    /// The last words of a process that has ended.
    pub(crate) fn last_words(&self) -> String {
        // What it has started may still have the pipe open.
        let began = Instant::now();
        while self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) && began.elapsed() < LAST_WORDS
        {
            std::thread::sleep(POLL);
        }
        tail(&self.path)
    }

    /// The last words of a process until now.
    pub(crate) fn words(&self) -> String {
        tail(&self.path)
    }
}

/// The end of a file of messages, with that of the file before it if it has just begun.
pub(crate) fn tail(path: &Path) -> String {
    let mut text = end(path);
    if (text.len() as u64) < TAIL / 2 {
        let earlier = [beside(path, "before"), beside(path, "first")].into_iter().find(|path| path.exists());
        text = earlier.map_or(String::new(), |path| end(&path)) + &text;
    }
    let text = text.trim();
    if text.is_empty() { "it has said nothing".to_owned() } else { text.to_owned() }
}

fn end(path: &Path) -> String {
    use std::io::{Seek, SeekFrom};
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let long = file.metadata().map_or(0, |found| found.len());
        let read = file
            .seek(SeekFrom::Start(long.saturating_sub(TAIL)))
            .and_then(|_| file.take(TAIL).read_to_end(&mut bytes));
        // What cannot be read says nothing.
        read.unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_keeps_its_beginning_and_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device.log");
        let (log, mut pipe) = Log::with_longest(&path, 2000).unwrap();
        for number in 0..10_000 {
            writeln!(pipe, "line {number}").unwrap();
        }
        drop(pipe);
        assert!(log.last_words().ends_with("line 9998\nline 9999"), "{}", log.last_words());
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap()).collect();
        let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
        // A file ends with the block in which it became too long, of 64 KiB at most.
        assert!(files.len() == 3 && bytes < 3 * (2000 + (1 << 16) + 500), "{bytes} bytes in {files:?}");
        assert!(std::fs::read_to_string(beside(&path, "first")).unwrap().starts_with("line 0\n"));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with('['), "it says where the rest is");
    }

    #[test]
    fn a_short_log_is_one_file_and_the_next_run_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(beside(&path, "first"), "of an earlier run").unwrap();
        let (log, mut pipe) = Log::create(&path).unwrap();
        pipe.write_all(b"hello\n").unwrap();
        drop(pipe);
        assert_eq!(log.last_words(), "hello");
        assert!(!beside(&path, "first").exists());
        assert_eq!(tail(&dir.path().join("none")), "it has said nothing");
        std::fs::write(&path, format!("{}\nlast words\n", "x".repeat(1 << 20))).unwrap();
        assert!(tail(&path).ends_with("x\nlast words") && tail(&path).len() as u64 <= TAIL);
    }
}
