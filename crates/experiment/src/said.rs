//! What a device says, kept until it can be sent.

use std::io::{PipeReader, PipeWriter, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Of what cannot be sent yet, so many bytes are kept: the last ones.
const KEPT: usize = 32 << 10;

/// What has been said and not been taken yet.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Bytes that were left out before these.
    left_out: usize,
    /// All who could say something have ended.
    ended: bool,
}

impl Kept {
    fn add(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
        let Some(over) = self.bytes.len().checked_sub(KEPT).filter(|over| *over > 0) else { return };
        // Up to the end of a line, if one ends.
        let line = self.bytes.get(over..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
        let over = line.map_or(over, |at| over + at + 1);
        self.bytes.drain(..over);
        self.left_out += over;
    }

    fn take(&mut self, most: usize, whole: bool) -> String {
        let end = if whole {
            self.bytes.len()
        } else {
            let part = self.bytes.get(..most.min(self.bytes.len())).unwrap_or_default();
            let line = part.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            // A line that is longer than what may be sent is cut.
            line.unwrap_or(if part.len() == most { most } else { 0 })
        };
        if end == 0 {
            return String::new();
        }
        let text: Vec<u8> = self.bytes.drain(..end).collect();
        let note = match std::mem::take(&mut self.left_out) {
            0 => String::new(),
            n => format!("[{n} bytes were left out here: more than can be sent]\n"),
        };
        note + &String::from_utf8_lossy(&text)
    }
}

/// What a device says.
#[derive(Clone, Debug)]
pub(crate) struct Said(Arc<Mutex<Kept>>);

impl Said {
    /// Begins to keep what is written to the pipe.
    pub(crate) fn listen() -> Result<(Self, PipeWriter), String> {
        let cannot = |e: std::io::Error| format!("cannot listen to the device: {}", launch::reason(&e));
        let (reader, writer) = std::io::pipe().map_err(cannot)?;
        let said = Self(Arc::default());
        let own = said.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || own.keep(reader)).map_err(cannot)?;
        Ok((said, writer))
    }

    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, mut from: PipeReader) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            self.with(|kept| kept.add(bytes.get(..n).unwrap_or_default()));
        }
        self.with(|kept| kept.ended = true);
    }

    /// What has come since, of at most so many bytes: whole lines. Empty: nothing.
    pub(crate) fn take(&self, most: usize) -> String {
        self.with(|kept| kept.take(most, false))
    }

    /// All that has come since.
    pub(crate) fn rest(&self) -> String {
        self.with(|kept| kept.take(0, true))
    }

    /// Whether nothing more can come.
    pub(crate) fn ended(&self) -> bool {
        self.with(|kept| kept.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_whole_and_a_flood_keeps_its_end() {
        let mut kept = Kept::default();
        kept.add(b"one\ntwo\nthr");
        assert_eq!((kept.take(5, false).as_str(), kept.take(100, false).as_str()), ("one\n", "two\n"));
        kept.add(b"ee\n");
        assert_eq!((kept.take(6, false).as_str(), kept.take(9, true).as_str()), ("three\n", ""));
        assert_eq!((kept.take(6, false).as_str(), kept.take(6, true).as_str()), ("", ""));
        for number in 0..100_000 {
            kept.add(format!("line {number}\n").as_bytes());
            assert!(kept.bytes.len() <= KEPT);
        }
        let text = kept.take(0, true);
        assert!(text.starts_with('[') && text.contains("bytes were left out here"), "{text}");
        assert!(
            text.ends_with("line 99998\nline 99999\n") && text.lines().nth(1).unwrap().starts_with("line ")
        );
        // A line without an end is cut.
        kept.add(&[b'x'; 2 * KEPT]);
        assert!(kept.take(1000, false).ends_with("xxx"));
        assert_eq!(kept.take(1000, false).len(), 1000);
        kept.add(b"\xff\xfe");
        assert!(kept.take(0, true).ends_with('\u{fffd}'));
    }

    #[test]
    fn what_is_said_last_comes_through() {
        let (said, mut pipe) = Said::listen().unwrap();
        pipe.write_all(b"good").unwrap();
        pipe.write_all(b" bye").unwrap();
        assert!(!said.ended());
        drop(pipe);
        while !said.ended() {
            std::thread::yield_now();
        }
        assert_eq!((said.take(100).as_str(), said.rest().as_str()), ("", "good bye"));
    }
}
