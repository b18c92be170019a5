//! How long threads have waited for a processor although they had work: what others have used.

use std::time::Duration;

/// The names of threads that process packets begin so; DPDK's programs have the second.
const WORKERS: [&str; 2] = ["worker-", "dpdk-worker"];

/// How long the threads of a process that process packets (all, if none is named so) have waited for a
/// processor since they began. Of what is not known, nothing.
#[must_use]
pub fn kept_waiting(process: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let (mut of_workers, mut of_all, mut any) = (0, 0, false);
    for task in tasks {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        // Time on a processor, time waiting for one, turns.
        let waited: u64 =
            read("schedstat").split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0);
        let name = read("comm");
        if WORKERS.iter().any(|worker| name.starts_with(worker)) {
            (of_workers, any) = (of_workers + waited, true);
        }
        of_all += waited;
    }
    Duration::from_nanos(if any { of_workers } else { of_all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_has_not_waited() {
        assert_eq!(kept_waiting(u32::MAX), Duration::ZERO);
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
