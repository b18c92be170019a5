//! What a command prints on standard output, and what becomes of its exit status if that cannot be written.

use crate::{logging, progress, reason};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Nothing more is written: the reader has closed the pipe, or there was an error.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// There was an error, which has been reported.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output. If its reader has closed the pipe, the text is lost: it needs no more. Any
/// other error is reported once, and makes the command fail in the end; see [`conclude`].
pub fn print(text: &str) {
    if is_open() {
        let mut out = io::stdout();
        done(progress::aside(|| out.write_all(text.as_bytes()).and_then(|()| out.flush())));
    }
}

/// Whether standard output can still be written, as far as this is known.
#[must_use]
pub fn is_open() -> bool {
    !CLOSED.load(Ordering::Relaxed)
}

/// Takes note of the result of writing to standard output, for those who do not use [`print()`].
pub fn done(result: io::Result<()>) {
    let Err(e) = result else { return };
    CLOSED.store(true, Ordering::Relaxed);
    if e.kind() != ErrorKind::BrokenPipe && !FAILED.swap(true, Ordering::Relaxed) {
        logging::error(&format!("error: standard output: {}", reason(&e)));
    }
}

/// The exit status of a command: a failure if standard output could not be written.
#[must_use]
pub fn conclude(status: ExitCode) -> ExitCode {
    let failed = FAILED.load(Ordering::Relaxed) && status == ExitCode::SUCCESS;
    if failed { ExitCode::FAILURE } else { status }
}
