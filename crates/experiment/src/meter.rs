//! Measures what a trial costs the device under test.

use crate::cost::{Cost, Stats};
use crate::local::Local;
use bench::{Counters, Energy};
use std::time::{Duration, Instant};

/// A trial that is being measured.
pub(crate) struct Meter {
    began: Instant,
    used: Duration,
    stats: Option<Stats>,
    counters: Result<Counters, String>,
    energy: Result<Energy, String>,
}

/// The threads of some processes.
fn threads(processes: &[u32]) -> Vec<i32> {
    let of =
        |process: &u32| std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let all = processes.iter().flat_map(of);
    all.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect()
}

/// The processor time of some processes.
fn used(processes: &[u32]) -> Duration {
    processes.iter().map(|process| launch::processor_time(*process)).sum()
}

/// The most memory that the largest of some processes has had.
fn most_memory(processes: &[u32]) -> Option<u64> {
    let of = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
    };
    processes.iter().filter_map(of).max()
}

impl Meter {
    /// Begins, before there is traffic.
    pub(crate) fn begin(device: &mut Local) -> Self {
        let processes = device.processes();
        Self {
            began: Instant::now(),
            used: used(&processes),
            stats: device.stats(),
            counters: Counters::of(&threads(&processes)),
            energy: Energy::begin(),
        }
    }

    /// What it has cost, when the traffic has ended.
    pub(crate) fn end(self, device: &mut Local) -> Cost {
        let processes = device.processes();
        let counted = self.counters.and_then(|counters| counters.read());
        let router = self.stats.and_then(|before| Some(device.stats()?.since(&before)));
        Cost {
            seconds: self.began.elapsed().as_secs_f64(),
            processor_seconds: used(&processes).saturating_sub(self.used).as_secs_f64(),
            memory_bytes: most_memory(&processes),
            router,
            counted: counted.into(),
            joules: self.energy.and_then(|energy| energy.joules()).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_threads_memory_and_processor_time() {
        let own = [std::process::id()];
        assert!(threads(&own).len() >= 2, "this test runs on a thread of its own");
        assert!(most_memory(&own).unwrap() > 100_000);
        assert!(used(&own) > Duration::ZERO);
        assert_eq!((threads(&[u32::MAX]), most_memory(&[u32::MAX])), (Vec::new(), None));
    }
}
