//! DPDK's log: the last lines are kept to be quoted in errors, and every line is passed to a sink, if there
//! is one.

use locks::IgnorePoison;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_int};
use std::slice;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard};

/// Lines kept.
const KEEP: usize = 256;

/// The severity of a message of DPDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// DPDK's emergency, alert, critical and error.
    Error,
    /// Its warning.
    Warning,
    /// Its notice and info.
    Info,
    /// Its debug.
    Debug,
}

impl LogLevel {
    /// From DPDK's number (`RTE_LOG_ERR` is 4).
    fn of(number: c_int) -> Self {
        match number {
            ..=4 => Self::Error,
            5 => Self::Warning,
            6 | 7 => Self::Info,
            8.. => Self::Debug,
        }
    }
    /// The name by which DPDK's `--log-level` knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// A line of DPDK's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Its severity.
    pub level: LogLevel,
    /// What it is about: the name of DPDK's log type, such as `lib.eal` or `pmd.net.null`; `bpf` for a line
    /// of libbpf or libxdp.
    pub log_type: &'a str,
    /// Without the line's end.
    pub text: &'a str,
}

/// The function that every line is passed to.
type Sink = fn(&LogLine<'_>);

struct Log {
    lines: VecDeque<String>,
    /// Lines ever seen.
    seen: usize,
    partial: String,
    sink: Option<Sink>,
}

static LOG: Mutex<Log> =
    Mutex::new(Log { lines: VecDeque::new(), seen: 0, partial: String::new(), sink: None });

/// The names of DPDK's log types that have been looked up.
static TYPES: Mutex<Option<HashMap<c_int, Arc<str>>>> = Mutex::new(None);

/// The longest name of a log type.
const TYPE_NAME: usize = 64;

/// The name of a log type.
fn type_name(number: c_int) -> Arc<str> {
    let mut types = TYPES.lock().ignore_poison();
    let types = types.get_or_insert_with(HashMap::new);
    let name = types.entry(number).or_insert_with(|| {
        if number < 0 {
            return "bpf".into();
        }
        let mut name = [0_u8; TYPE_NAME];
        // SAFETY: the function writes a string of at most so many bytes, its zero included.
        unsafe { dpdk_sys::valiant_log_type_name(number, name.as_mut_ptr().cast(), name.len()) };
        let name = CStr::from_bytes_until_nul(&name).map_or(Cow::Borrowed(""), CStr::to_string_lossy);
        if name.is_empty() { "unknown".into() } else { (*name).into() }
    });
    Arc::clone(name)
}

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().ignore_poison()
}

/// Hands every further line of DPDK's log to `sink`, on the thread that logs it; `None` ends that. The sink
/// must not call DPDK. It runs with the lock of the C stream which DPDK logs to: while it does, other threads
/// that log through DPDK wait, so it should not write to anything that may be slow.
pub fn set_log_sink(sink: Option<fn(&LogLine<'_>)>) {
    log().sink = sink;
}

/// The last lines of DPDK's log, oldest first; at most 256.
pub fn recent_log() -> Vec<String> {
    log().lines.iter().cloned().collect()
}

/// The function that C code calls with DPDK's log.
pub(crate) extern "C" fn capture(text: *const c_char, len: usize, level: c_int, log_type: c_int) {
    // SAFETY: the shim passes `len` bytes that stay as they are during the call.
    let text = String::from_utf8_lossy(unsafe { slice::from_raw_parts(text.cast::<u8>(), len) });
    let level = LogLevel::of(level);
    for piece in text.split_inclusive('\n') {
        let mut log = log();
        log.partial.push_str(piece);
        if !piece.ends_with('\n') {
            continue;
        }
        let line = std::mem::take(&mut log.partial);
        let line = line.trim().to_owned();
        if line.is_empty() {
            continue;
        }
        let sink = log.sink;
        // Debug lines that the user has requested do not explain an error.
        if level != LogLevel::Debug {
            if log.lines.len() == KEEP {
                log.lines.pop_front();
            }
            log.lines.push_back(line.clone());
            log.seen += 1;
        }
        drop(log);
        if let Some(sink) = sink {
            sink(&LogLine { level, log_type: &type_name(log_type), text: &line });
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
            capture(text.as_ptr().cast(), text.len(), 5, -1);
        }
        let debug = "EAL: what only a developer wants to know\n";
        capture(debug.as_ptr().cast(), debug.len(), 8, -1);
        assert_eq!(mark.quote_or(String::new), "one line; it broke");
        assert_eq!(Mark::now().quote_or(|| "nothing".to_owned()), "nothing");
        assert!(recent_log().contains(&"EAL: one line".to_owned()));
    }
}
