//! Crash reports: a file that shows what the process did when it crashed.
//!
//! The handler of the signals SEGV, BUS, ABRT, ILL and FPE may call nothing that allocates or takes a lock
//! (signal-safety(7)), so everything it writes is prepared in static memory: texts of a bounded length, which
//! the control thread keeps up to date, and a [`Seat`] for each worker, which has the element that it runs.
//! These are read by atomic loads only, so a handler that runs in the middle of a change reads a mixture at
//! worst.

use std::ffi::{c_char, c_int, c_void};
use std::fs;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

mod out;
mod seat;

use out::{Out, put_frames, put_module, write_number};
use seat::{INSTALLED, STANDING, Stack, TABLE, my_seat, thread};

pub use seat::{Seat, Seated};

/// Signals that a bug raises.
const SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];
/// The most bytes of a configuration in a report.
const CONFIGURATION: usize = 96 << 10;
/// The most bytes of its elements' names.
const NAMES: usize = 64 << 10;
/// How many handler calls are remembered, and the bytes of each.
const CALLS: usize = 16;
const CALL: usize = 120;
/// The most frames of a backtrace.
const FRAMES: usize = 64;
/// The time, in seconds, after which the process ends even if its report is not finished.
const LIMIT: u32 = 10;
/// The most reports that one process writes: panics can follow each other.
const REPORTS: u32 = 4;
/// How many reports are kept in a directory.
const KEPT: usize = 20;
/// The beginning of the names of reports.
const PREFIX: &str = "valiant-crash-";

/// A text that is changed while the process runs and can be read by a signal handler.
struct Text<const N: usize> {
    /// The copy that is read; the other one is being written.
    current: AtomicUsize,
    lengths: [AtomicUsize; 2],
    bytes: [[AtomicU8; N]; 2],
}

impl<const N: usize> Text<N> {
    const fn new() -> Self {
        Self {
            current: AtomicUsize::new(0),
            lengths: [const { AtomicUsize::new(0) }; 2],
            bytes: [const { [const { AtomicU8::new(0) }; N] }; 2],
        }
    }

    /// Replaces the text; a part that does not fit is left out.
    fn set(&self, text: &[u8]) {
        let next = 1 - self.current.load(Ordering::Relaxed) % 2;
        for (to, from) in self.bytes[next].iter().zip(text) {
            to.store(*from, Ordering::Relaxed);
        }
        self.lengths[next].store(text.len().min(N), Ordering::Relaxed);
        self.current.store(next, Ordering::Release);
    }

    fn get(&self) -> &[AtomicU8] {
        let current = self.current.load(Ordering::Acquire) % 2;
        let length = self.lengths[current].load(Ordering::Relaxed).min(N);
        self.bytes[current].get(..length).unwrap_or_default()
    }

    fn is_cut(&self) -> bool {
        self.get().len() == N
    }
}

static DESCRIPTION: Text<CONFIGURATION> = Text::new();
static ELEMENTS: Text<NAMES> = Text::new();
static HANDLERS: [Text<CALL>; CALLS] = [const { Text::new() }; CALLS];
static CALLED: AtomicUsize = AtomicUsize::new(0);
/// Directories for the report, in the order in which they are tried.
static DIRECTORIES: [Text<400>; 3] = [const { Text::new() }; 3];
/// The thread that writes a report.
static WRITER: AtomicI32 = AtomicI32::new(0);
static WRITTEN: AtomicU32 = AtomicU32::new(0);
/// The previous actions on these signals.
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// Has the process write a report when it crashes: into the first of these directories that is writable. Of
/// existing reports, the newest are kept.
///
/// # Errors
/// The kernel refuses a handler.
pub fn install(directories: &[PathBuf]) -> io::Result<()> {
    place(directories);
    for directory in directories.iter().take(DIRECTORIES.len()) {
        prune(directory);
    }
    if INSTALLED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    // The main thread ends with the process, and its stack with it.
    mem::forget(Stack::new());
    // The function that finds the frames loads its library when it is first called.
    let mut frames = [ptr::null_mut(); 2];
    // SAFETY: the function writes at most so many addresses.
    unsafe { backtrace(frames.as_mut_ptr(), 2) };
    for ((signal, _), before) in SIGNALS.iter().zip(&BEFORE) {
        // SAFETY: `sigaction` is plain data; the handler keeps to what signal-safety(7) allows.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            let mut old: libc::sigaction = mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_signal;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&mut action.sa_mask);
            if libc::sigaction(*signal, &action, &mut old) != 0 {
                return Err(io::Error::last_os_error());
            }
            let _ = before.set(old);
        }
    }
    Ok(())
}

/// Changes the directories of reports, for a process that may no longer write to the earlier ones.
pub fn place(directories: &[PathBuf]) {
    for (text, directory) in
        DIRECTORIES.iter().zip(directories.iter().map(Some).chain(std::iter::repeat(None)))
    {
        text.set(directory.map_or(b"", |d| d.as_os_str().as_bytes()));
    }
}

/// Removes all reports but the newest ones.
fn prune(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut reports: Vec<(SystemTime, PathBuf)> = entries
        .filter(|e| e.file_name().as_bytes().starts_with(PREFIX.as_bytes()))
        .filter_map(|e| Some((e.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?, e.path())))
        .collect();
    reports.sort();
    for (_, path) in reports.iter().rev().skip(KEPT) {
        // Reports of other users stay.
        let _ = fs::remove_file(path);
    }
}

/// Sets the description of the router in reports: its configuration, without secrets, and its elements in the
/// order of their numbers.
pub fn describe<'a>(configuration: &str, elements: impl Iterator<Item = &'a str>) {
    DESCRIPTION.set(configuration.as_bytes());
    let mut names = Vec::new();
    for name in elements {
        names.extend(name.bytes().filter(|b| *b != b'\n'));
        names.push(b'\n');
    }
    ELEMENTS.set(&names);
}

/// Whether reports are written, so that it is useful to set their contents.
pub fn installed() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// Records that a handler is called, but never its parameter.
pub fn called(what: &str, handler: &str, bytes: usize) {
    if !installed() {
        return;
    }
    let n = CALLED.fetch_add(1, Ordering::Relaxed) % CALLS;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let handler: String = handler.chars().filter(|c| !c.is_control()).take(64).collect();
    HANDLERS[n].set(format!("{now} {what} {handler} ({bytes} bytes)\n").as_bytes());
}

/// Writes a report of a panic, with the text `what` and a backtrace. Returns its path.
pub fn panicked(what: &str, frames: &str) -> Option<PathBuf> {
    if !installed() || WRITTEN.fetch_add(1, Ordering::Relaxed) >= REPORTS {
        return None;
    }
    let (mut out, path) = report(|out| {
        out.text(b"a panic: ");
        out.text(what.get(..4096).unwrap_or(what).as_bytes());
        out.text(b"\n");
        body(out);
    })?;
    let mut end = frames.len().min(32 << 10);
    while !frames.is_char_boundary(end) {
        end -= 1;
    }
    out.text(frames.get(..end).unwrap_or_default().as_bytes());
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(out.fd) };
    let length = path.iter().position(|b| *b == 0).unwrap_or(0);
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path.get(..length).unwrap_or_default())))
}

// ---- the following is called by the signal handler: no allocation, no lock, no panic ----

unsafe extern "C" {
    /// backtrace(3).
    fn backtrace(frames: *mut *mut c_void, size: c_int) -> c_int;
}

type PathBytes = [u8; 512];

/// Writes a new report into the first directory that has space for it, without its frames. A report that is
/// cut short because the disk is full is removed.
fn report(write: impl Fn(&mut Out)) -> Option<(Out, PathBytes)> {
    for directory in &DIRECTORIES {
        let Some((fd, path)) = open(directory.get()) else {
            continue;
        };
        let mut out = Out::new(fd);
        write(&mut out);
        if !out.failed {
            return Some((out, path));
        }
        // SAFETY: the descriptor is ours, and the path is a C string.
        unsafe {
            libc::close(fd);
            libc::unlink(path.as_ptr().cast::<c_char>());
        }
    }
    None
}

/// Opens a new file for the report in this directory, which only its owner may read.
fn open(directory: &[AtomicU8]) -> Option<(c_int, PathBytes)> {
    if directory.is_empty() {
        return None;
    }
    let mut path: PathBytes = [0; 512];
    let mut at = 0;
    let mut put = |byte: u8| {
        if let Some(place) = path.get_mut(at) {
            *place = byte;
            at += 1;
        }
    };
    directory.iter().for_each(|b| put(b.load(Ordering::Relaxed)));
    put(0);
    // SAFETY: a C string. That the directory is there, or cannot be made, shows in the next step.
    unsafe { libc::mkdir(path.as_ptr().cast::<c_char>(), 0o700) };
    let mut at = directory.len();
    let mut put = |bytes: &[u8]| {
        for byte in bytes {
            if let Some(place) = path.get_mut(at) {
                *place = *byte;
                at += 1;
            }
        }
    };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the place; the others cannot fail.
    let process = unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        libc::getpid() as u64
    };
    put(b"/");
    put(PREFIX.as_bytes());
    let milliseconds = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
    for (number, after) in [(milliseconds, "-"), (process, ".txt\0")] {
        let mut digits = [0; 20];
        let first = write_number(&mut digits, number, 10);
        put(digits.get(first..).unwrap_or_default());
        put(after.as_bytes());
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a C string: names of directories are at most 400 bytes long. A new descriptor is ours.
    let fd = unsafe { libc::open(path.as_ptr().cast::<c_char>(), flags, 0o600) };
    (fd >= 0).then_some((fd, path))
}

/// The name of an element.
fn element(slot: u32) -> &'static [AtomicU8] {
    let is_end = |b: &AtomicU8| b.load(Ordering::Relaxed) == b'\n';
    ELEMENTS.get().split(is_end).nth(slot as usize).unwrap_or_default()
}

fn put_element(out: &mut Out, seat: &Seat) {
    match seat.slot() {
        None => out.text(b"no element yet"),
        Some(slot) => {
            let name = element(slot);
            out.text(b"element ");
            if name.is_empty() {
                out.number(slot.into(), 10);
            } else {
                out.atomic(name);
            }
        }
    }
}

/// Writes the part of every report before the frames of the crashed thread. The frames come last: if the
/// stack is corrupt, finding them ends the process.
fn body(out: &mut Out) {
    out.text(b"valiant ");
    out.text(env!("CARGO_PKG_VERSION").as_bytes());
    out.text(b", process ");
    // SAFETY: cannot fail.
    out.number(unsafe { libc::getpid() } as u64, 10);
    out.text(b", thread ");
    out.number(thread() as u64, 10);
    out.text(b"\n\nWorkers, and the element that each one runs or has run last:\n");
    let me = thread();
    for seat in &TABLE {
        let whose = seat.thread.load(Ordering::Acquire);
        if whose == 0 {
            continue;
        }
        out.text(b"worker ");
        out.number(seat.worker.load(Ordering::Relaxed).into(), 10);
        out.text(b", thread ");
        out.number(whose as u64, 10);
        out.text(b": ");
        put_element(out, seat);
        out.text(if whose == me { b" <- here\n" } else { b"\n" });
    }
    if STANDING.slot().is_some() {
        out.text(b"workers without threads of their own: ");
        put_element(out, &STANDING);
        out.text(b"\n");
    }
    out.text(b"\nThe last handlers, each with the second since 1970:\n");
    let n = CALLED.load(Ordering::Relaxed);
    for i in 0..CALLS {
        out.atomic(HANDLERS[n.wrapping_add(i) % CALLS].get());
    }
    out.text(b"\nThe configuration (what may be a key is left out):\n");
    out.atomic(DESCRIPTION.get());
    if DESCRIPTION.is_cut() {
        out.text(b"\n(cut here)\n");
    }
    out.text(b"\nBacktrace:\n");
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what is called here is on the list of signal-safety(7), or, for backtrace(3), has loaded what
    // it needs in `install` and finds frames without a lock (glibc 2.35 and later).
    unsafe {
        let me = thread();
        match WRITER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            // Writing the report has crashed itself.
            Err(writer) if writer == me => return die(signal),
            // Another thread has crashed too, and ends the process.
            Err(_) => loop {
                libc::pause();
            },
        }
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(LIMIT);
        let name = SIGNALS.iter().find(|(n, _)| *n == signal).map_or("a signal", |(_, name)| name);
        let (code, address) =
            if info.is_null() { (0, 0) } else { ((*info).si_code, (*info).si_addr().addr() as u64) };
        let mut errors = Out::errors();
        errors.text(b"valiant has crashed (");
        errors.text(name.as_bytes());
        if let Some(seat) = my_seat() {
            errors.text(b", worker ");
            errors.number(seat.worker.load(Ordering::Relaxed).into(), 10);
            errors.text(b" in ");
            put_element(&mut errors, seat);
        }
        errors.text(b"); ");
        if WRITTEN.fetch_add(1, Ordering::Relaxed) < REPORTS
            && let Some((mut out, path)) = report(|out| {
                put_signal(out, name.as_bytes(), code, address, context);
                body(out);
            })
        {
            errors.text(b"crash report: ");
            let length = path.iter().position(|b| *b == 0).unwrap_or(0);
            errors.text(path.get(..length).unwrap_or_default());
            errors.text(b"\n");
            // The frames may be missing: the stack of handlers is small in threads that do not sit
            // (`Seated`).
            let mut frames = [ptr::null_mut(); FRAMES];
            let n = backtrace(frames.as_mut_ptr(), FRAMES as c_int);
            put_frames(&mut out, frames.get(..usize::try_from(n).unwrap_or(0)).unwrap_or_default());
            libc::close(out.fd);
        } else {
            errors.text(b"no directory for the crash report can be written\n");
        }
        if code > 0 {
            // When this returns, the thread executes the same instruction again, and the previous handler of
            // the signal is called.
            let before =
                SIGNALS.iter().zip(&BEFORE).find(|((n, _), _)| *n == signal).and_then(|(_, b)| b.get());
            match before {
                Some(before) if libc::sigaction(signal, before, ptr::null_mut()) == 0 => {
                    WRITER.store(0, Ordering::Release);
                }
                _ => die(signal),
            }
        } else {
            die(signal);
        }
    }
}

/// The signal, and what the thread was executing.
///
/// # Safety
/// As for [`instruction`].
unsafe fn put_signal(out: &mut Out, name: &[u8], code: c_int, address: u64, context: *const c_void) {
    out.text(name);
    out.text(b", code ");
    // Negative: sent by a process, not caused by an instruction of the thread.
    if code < 0 {
        out.text(b"-");
    }
    out.number(code.unsigned_abs().into(), 10);
    if code > 0 {
        out.text(b", address 0x");
        out.number(address, 16);
    }
    out.text(b"\n");
    // SAFETY: the contract of this function.
    if let Some(address) = unsafe { instruction(context) } {
        out.text(b"instruction 0x");
        out.number(address, 16);
        out.text(b" ");
        put_module(out, address);
        out.text(b"\n");
    }
}

/// The address of what the thread was executing.
///
/// # Safety
/// `context` is null or what the kernel has given to the handler.
unsafe fn instruction(context: *const c_void) -> Option<u64> {
    // SAFETY: the contract of this function.
    let context = unsafe { context.cast::<libc::ucontext_t>().as_ref() }?;
    #[cfg(target_arch = "x86_64")]
    return Some(context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64);
    #[cfg(target_arch = "aarch64")]
    return Some(context.uc_mcontext.pc);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return {
        let _ = context;
        None
    };
}

/// Ends the process by this signal as soon as the handler returns.
fn die(signal: c_int) {
    // SAFETY: both are on the list of signal-safety(7).
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(bytes: &[AtomicU8]) -> String {
        String::from_utf8(bytes.iter().map(|b| b.load(Ordering::Relaxed)).collect()).unwrap()
    }

    #[test]
    fn texts_are_replaced_and_cut() {
        let text = Text::<8>::new();
        assert!(text.get().is_empty());
        for (given, kept) in [("one", "one"), ("", ""), ("123456789", "12345678"), ("ab", "ab")] {
            text.set(given.as_bytes());
            assert_eq!(string(text.get()), kept);
            assert_eq!(text.is_cut(), kept.len() == 8);
        }
    }
}
