//! What the environment's start leaves behind, in a process of its own: no pool has been made.

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use dpdk::{Eal, EalOptions, Hugepages, Mempool};
use skip::skip;

/// The bytes of DPDK's memory that have pages.
fn present() -> Option<usize> {
    let maps = fs::read_to_string("/proc/self/smaps").ok()?;
    let memory = maps.split_once("/memfd:nohuge")?.1;
    let line = memory.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? << 10)
}

#[test]
fn pages_of_the_first_pool_are_there() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return skip("it needs root");
    }
    // SAFETY: a range without bytes: the kernel only says whether it knows the advice.
    if unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_POPULATE_WRITE) } != 0 {
        return skip("the kernel has no MADV_POPULATE_WRITE (Linux 5.14)");
    }
    let options = EalOptions { hugepages: Hugepages::Never, ..EalOptions::default() };
    let eal = Eal::init(&options).expect("DPDK starts");
    if eal.startup() < Duration::from_millis(100) {
        return skip("DPDK does not measure the clock here, so nothing is made meanwhile");
    }
    assert!(present().is_some(), "DPDK's memory has another name");
    let (begin, wanted) = (Instant::now(), 36 << 20);
    while present() < Some(wanted) && begin.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(present() >= Some(wanted), "{:?}", present());
    assert_eq!(Mempool::buffers(), 0);
}
