//! Pages for packet buffers, made while DPDK starts: without hugepages, the kernel takes longer for the
//! thousands of pages of the first pool than everything else takes that is done between DPDK's start and the
//! first packet, and DPDK sleeps for 100 ms with its memory mapped.
//!
//! Only time depends on this. Pages that are made for nothing are zero and stay with DPDK, which uses them
//! later; pages that are not made here are made when they are first written.

use std::fs::File;
use std::io::Read;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The name of DPDK's memory without hugepages among the mappings of a process.
const MEMORY: &str = "/memfd:nohuge";
/// How often the mappings are read until DPDK's memory is there.
const PERIOD: Duration = Duration::from_millis(2);
/// Pages are made for so many bytes at a time: meanwhile no thread of the process can map memory.
const STEP: usize = 256 << 10;

/// Waits for DPDK's memory in a thread of its own, until it is dropped.
pub(crate) struct Prefault {
    over: Arc<AtomicBool>,
}

impl Prefault {
    /// Makes the last pages for so many bytes as soon as the memory is there: DPDK hands out memory from the
    /// end. They are the first pool's, apart from a few.
    pub(crate) fn new(bytes: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        // Without the thread pages are made when they are first written.
        let _ = thread::Builder::new().name("valiant-pages".to_owned()).spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                if let Some((start, end)) = memory() {
                    return populate(start.max(end.saturating_sub(bytes)), end);
                }
                thread::sleep(PERIOD);
            }
        });
        Self { over }
    }
}

impl Drop for Prefault {
    /// Ends the waiting. Pages are still made if some are left: whoever creates the pool meets fewer missing
    /// ones.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Where DPDK's memory begins and ends, once it is mapped.
fn memory() -> Option<(usize, usize)> {
    // Mappings come in order of address, and DPDK's memory is below programs and libraries; the kernel writes
    // no more lines than there is room for.
    let mut text = [0; 4096];
    let len = File::open("/proc/self/maps").ok()?.read(&mut text).ok()?;
    String::from_utf8_lossy(text.get(..len)?).lines().find_map(range)
}

/// The addresses of a line of `/proc/self/maps` that is about DPDK's memory.
fn range(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let writable = words.next()?.starts_with("rw");
    if !writable || words.nth(3)? != MEMORY {
        return None;
    }
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// Makes the missing pages from `start` to `end`, which are addresses of pages, until the kernel refuses.
fn populate(start: usize, end: usize) {
    for address in (start..end).step_by(STEP) {
        let len = STEP.min(end - address);
        // SAFETY: the kernel makes pages that are missing and changes no memory; where nothing is mapped, or
        // in a kernel before Linux 5.14, it refuses.
        let status =
            unsafe { libc::madvise(ptr::without_provenance_mut(address), len, libc::MADV_POPULATE_WRITE) };
        if status != 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_dpdk_is_found_among_the_mappings() {
        let line = "100633000-120633000 rw-s 00000000 00:01 1033                             /memfd:nohuge (deleted)";
        assert_eq!(range(line), Some((0x1_0063_3000, 0x1_2063_3000)));
        for other in [
            "100000000-10002e000 rw-p 00000000 00:00 0 ",
            "100633000-120633000 ---s 00000000 00:01 1033 /memfd:nohuge (deleted)",
            "100633000-120633000 rw-s 00000000 00:01 1033 /memfd:other (deleted)",
            "100633000-1206330",
            "",
        ] {
            assert_eq!(range(other), None, "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn pages_are_made_and_keep_what_they_hold() {
        let len = 3 * STEP / 2;
        // SAFETY: a new mapping at an address of the kernel's choice, used only here.
        let memory = unsafe {
            let base = libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            std::slice::from_raw_parts_mut(base.cast::<u8>(), len)
        };
        memory[5000] = 7;
        let start = memory.as_mut_ptr().expose_provenance();
        // SAFETY: a range without bytes: the kernel only says whether it knows the advice.
        let unknown = unsafe { libc::madvise(memory.as_mut_ptr().cast(), 0, libc::MADV_POPULATE_WRITE) };
        if unknown != 0 {
            return crate::skip::skip("the kernel has no MADV_POPULATE_WRITE (Linux 5.14)");
        }
        populate(start, start + len);
        let mut present = vec![0u8; len / 4096];
        // SAFETY: the range is mapped, and there is a byte for each of its pages (of 4 KB or larger ones).
        let status = unsafe { libc::mincore(memory.as_mut_ptr().cast(), len, present.as_mut_ptr()) };
        assert_eq!(status, 0);
        // SAFETY: asks for a number.
        let pages = len / unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        assert!(present[..pages].iter().all(|page| page & 1 == 1));
        assert_eq!((memory[5000], memory[len - 1]), (7, 0));
        // SAFETY: the mapping made above, of which nothing is used any more.
        unsafe { libc::munmap(memory.as_mut_ptr().cast(), len) };
    }
}
