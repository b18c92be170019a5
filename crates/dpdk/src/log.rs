//! DPDK's log, kept instead of printed: error messages quote its last lines.

use locks::IgnorePoison;
use std::collections::VecDeque;
use std::ffi::c_char;
use std::slice;
use std::sync::{Mutex, MutexGuard};

/// Lines kept.
const KEEP: usize = 256;

struct Log {
    lines: VecDeque<String>,
    /// Lines ever seen.
    seen: usize,
    partial: String,
    sink: Option<fn(&str)>,
}

static LOG: Mutex<Log> =
    Mutex::new(Log { lines: VecDeque::new(), seen: 0, partial: String::new(), sink: None });

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().ignore_poison()
}

/// Hands every further line of DPDK's log to `sink`, which must not log itself; `None` ends that.
pub fn set_log_sink(sink: Option<fn(&str)>) {
    log().sink = sink;
}

/// The last lines of DPDK's log, oldest first; at most 256.
pub fn recent_log() -> Vec<String> {
    log().lines.iter().cloned().collect()
}

/// What C calls with DPDK's log.
pub(crate) extern "C" fn capture(text: *const c_char, len: usize) {
    // SAFETY: the shim passes `len` bytes that stay as they are during the call.
    let text = String::from_utf8_lossy(unsafe { slice::from_raw_parts(text.cast::<u8>(), len) });
    let mut log = log();
    for piece in text.split_inclusive('\n') {
        log.partial.push_str(piece);
        if piece.ends_with('\n') {
            let line = std::mem::take(&mut log.partial);
            let line = line.trim().to_owned();
            if line.is_empty() {
                continue;
            }
            if let Some(sink) = log.sink {
                sink(&line);
            }
            if log.lines.len() == KEEP {
                log.lines.pop_front();
            }
            log.lines.push_back(line);
            log.seen += 1;
        }
    }
}

/// A place in the log, to quote what came after it.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize);

impl Mark {
    pub(crate) fn now() -> Mark {
        Mark(log().seen)
    }

    /// The lines since, without DPDK's prefixes, joined; `otherwise` when there are none.
    pub(crate) fn quote_or(self, otherwise: impl FnOnce() -> String) -> String {
        let log = log();
        let new = log.seen.saturating_sub(self.0).min(log.lines.len());
        let mut quoted: Vec<&str> = Vec::new();
        for line in log.lines.iter().skip(log.lines.len() - new) {
            let line = line.rsplit_once("(): ").map_or(line.as_str(), |(_, text)| text);
            let line = line.strip_prefix("EAL: ").or(line.strip_prefix("ETHDEV: ")).unwrap_or(line);
            if !quoted.contains(&line) {
                quoted.push(line);
            }
        }
        if quoted.is_empty() { otherwise() } else { quoted.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_and_quoted() {
        let mark = Mark::now();
        for text in ["EAL: one", " line\n\neth_dev_create(): it ", "broke\n"] {
            capture(text.as_ptr().cast(), text.len());
        }
        assert_eq!(mark.quote_or(String::new), "one line; it broke");
        assert_eq!(Mark::now().quote_or(|| "nothing".to_owned()), "nothing");
        assert!(recent_log().contains(&"EAL: one line".to_owned()));
    }
}
