//! Counters of the processor, for the threads of other processes: instructions, cycles, misses of the last
//! cache (perf_event_open(2)).

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;

const TYPE_HARDWARE: u32 = 0;
/// The number of each event, in the order of [`Counts`].
const EVENTS: [u64; 3] = [INSTRUCTIONS, CYCLES, LLC_MISSES];
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const LLC_MISSES: u64 = 3;
/// Threads that are started later are counted too.
const INHERIT: u64 = 1 << 1;
/// Beside the count: for how long it was wanted, and for how long the processor had a register for it.
const READ_TIMES: u64 = 1 | 2;
/// PERF_FLAG_FD_CLOEXEC.
const CLOSE_ON_EXEC: u64 = 1 << 3;

/// The first version of `struct perf_event_attr`, which every kernel knows.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions that were completed, those of the kernel for these threads included.
    pub instructions: u64,
    /// Cycles of the processor's own clock, which is not that of the time-stamp counter.
    pub cycles: u64,
    /// Accesses that the last cache did not have.
    pub llc_misses: u64,
}

/// Counters that run.
#[derive(Debug)]
pub struct Counters([Vec<File>; EVENTS.len()]);

fn open(kind: u32, config: u64, thread: i32) -> std::io::Result<File> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: READ_TIMES,
        flags: INHERIT,
        ..Attributes::default()
    };
    // SAFETY: the kernel reads as many bytes as `size` says, which are all of a structure of plain numbers.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, -1, -1, CLOSE_ON_EXEC)
    };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just opened it, and nobody else knows it.
        Ok(descriptor @ 0..) => Ok(unsafe { File::from_raw_fd(descriptor) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The count of one event on one thread, as it would be had it been counted all the time.
fn read(mut counter: &File) -> std::io::Result<u64> {
    let mut bytes = [0; 24];
    counter.read_exact(&mut bytes)?;
    let [count, wanted, counted] = [0, 8, 16]
        .map(|at| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes));
    Ok(if counted == 0 { 0 } else { (u128::from(count) * u128::from(wanted) / u128::from(counted)) as u64 })
}

impl Counters {
    /// Begins to count for these threads, and for those that they start. Threads that have ended are left
    /// out.
    ///
    /// # Errors
    /// Why nothing can be counted here.
    pub fn of(threads: &[i32]) -> Result<Self, String> {
        let mut all = Self(Default::default());
        for thread in threads {
            for (event, counters) in EVENTS.iter().zip(&mut all.0) {
                match open(TYPE_HARDWARE, *event, *thread) {
                    Ok(counter) => counters.push(counter),
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(e) => return Err(reason(&e)),
                }
            }
        }
        if all.0.iter().all(Vec::is_empty) {
            Err("there is no thread to count for".to_owned())
        } else {
            Ok(all)
        }
    }

    /// What was counted since the beginning.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn read(&self) -> Result<Counts, String> {
        let sum = |counters: &Vec<File>| counters.iter().map(read).sum::<std::io::Result<u64>>();
        let [instructions, cycles, llc_misses] = &self.0;
        let all = (|| {
            Ok(Counts {
                instructions: sum(instructions)?,
                cycles: sum(cycles)?,
                llc_misses: sum(llc_misses)?,
            })
        })();
        all.map_err(|e: std::io::Error| reason(&e))
    }
}

/// Why there are no counters, in words that say what would help.
fn reason(e: &std::io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "this processor, or this virtual machine, has no such counters".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "not permitted: run as root, or set kernel.perf_event_paranoid to 0 or less".to_owned()
        }
        Some(libc::ENOSYS) => "this kernel has no perf_event_open".to_owned(),
        Some(libc::EMFILE) => "too many open files for a counter of each thread (ulimit -n)".to_owned(),
        _ => e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE_SOFTWARE: u32 = 1;
    const TASK_CLOCK: u64 = 1;

    /// The events of software are on all machines where the call is permitted.
    #[test]
    fn what_a_thread_does_is_counted() {
        assert_eq!(size_of::<Attributes>(), 64, "PERF_ATTR_SIZE_VER0");
        let counter = match open(TYPE_SOFTWARE, TASK_CLOCK, 0) {
            Ok(counter) => counter,
            Err(e) => {
                assert!(!reason(&e).is_empty());
                return;
            }
        };
        let before = read(&counter).unwrap();
        let mut sum = 0u64;
        while read(&counter).unwrap() < before + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(read(&counter).unwrap() >= before + 1_000_000);
    }

    #[test]
    fn where_there_are_none_it_says_why() {
        match Counters::of(&[std::process::id().cast_signed()]) {
            Ok(counters) => assert!(counters.read().unwrap().instructions > 0),
            Err(why) => assert!(!why.is_empty()),
        }
        assert!(Counters::of(&[]).is_err());
        for code in [libc::ENOENT, libc::EACCES, libc::ENOSYS, libc::EMFILE, libc::EINVAL] {
            assert!(!reason(&std::io::Error::from_raw_os_error(code)).is_empty());
        }
    }
}
