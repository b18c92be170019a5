//! How long threads have used a processor, and how long they have waited for one although they had work: what
//! others have used.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The names of threads that process packets begin so; DPDK's programs have the second.
const WORKERS: [&str; 2] = ["worker-", "dpdk-worker"];

/// How long the threads of a process that process packets (all, if none is named so) have waited for a
/// processor since they began. Of what is not known, nothing.
#[must_use]
pub fn kept_waiting(process: u32) -> Duration {
    let (mut of_workers, mut of_all, mut any) = (0, 0, false);
    for task in tasks(process) {
        let waited = scheduled(&task, 1);
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        if WORKERS.iter().any(|worker| name.starts_with(worker)) {
            (of_workers, any) = (of_workers + waited, true);
        }
        of_all += waited;
    }
    Duration::from_nanos(if any { of_workers } else { of_all })
}

/// How long the threads that a process has now have used a processor since they began.
#[must_use]
pub fn processor_time(process: u32) -> Duration {
    Duration::from_nanos(tasks(process).map(|task| scheduled(&task, 0)).sum())
}

/// The directories of a process's threads.
fn tasks(process: u32) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    all.map(|task| task.path())
}

/// A field of what the scheduler says of a thread: nanoseconds on a processor, nanoseconds waiting for one,
/// turns.
fn scheduled(task: &Path, field: usize) -> u64 {
    let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    text.split_whitespace().nth(field).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_has_not_waited() {
        assert_eq!((kept_waiting(u32::MAX), processor_time(u32::MAX)), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn what_a_process_has_used_grows_as_it_works() {
        let before = processor_time(std::process::id());
        // Without a bound: it gets a processor in the end.
        while processor_time(std::process::id()) < before + Duration::from_millis(2) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn more_threads_than_processors_wait() {
        let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let (before, stop) = (kept_waiting(std::process::id()), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..threads {
                let spin = || {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                std::thread::Builder::new()
                    .name(format!("worker-{number}"))
                    .spawn_scoped(scope, spin)
                    .unwrap();
            }
            // Without a bound: somebody waits in the end.
            while kept_waiting(std::process::id()) <= before + Duration::from_millis(1) {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
