//! DPDK's EAL, started once and only when the first port needs it.
//!
//! Where the start-up time goes (DPDK 22.11 of Debian 12, no hugepages): 100 ms are a sleep in which DPDK
//! measures the clock, unless CPUID leaf 0x15 or `/dev/cpu/0/msr` tells its frequency (in virtual machines
//! neither does); 35 to 45 ms load the 128 driver libraries in an unoptimized build: a DPDK of shared
//! libraries loads all of its directory whatever the arguments are, one by one, for drivers register
//! themselves in lists without locks (optimized builds have the drivers in the binary); 7 ms look for each of
//! 128 processors on each of 32 NUMA nodes; about 20 ms go to each GB of 4 KB pages promised by `-m` (one
//! record per page); the rest is a few ms. The pages of the first pool take 20 to 40 ms more, but are made
//! during the sleep (`prefault`).

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use dpdk_sys::RTE_VERSION_NUMBER;
use locks::IgnorePoison;

use crate::buffer::{ANNO_VALID_BIT, FIRST_LINE_BIT, FIRST_POOL, TRACED_BIT};
use crate::error::{Error, errno_text};
use crate::log::{self, LogLevel, Mark};
use crate::prefault::Prefault;
use crate::rundir;

/// Whether to use hugepages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hugepages {
    /// When enough are free.
    #[default]
    Auto,
    /// No.
    Never,
    /// Yes, or fail.
    Require,
}

/// How to start the DPDK environment.
#[derive(Clone, Debug, Default)]
pub struct EalOptions {
    /// The most memory for packet buffers, in MB; without it 512 MB of 4 KB pages (touched only when used),
    /// or as many hugepages as are free.
    pub memory_mb: Option<usize>,
    /// Whether to use hugepages.
    pub hugepages: Hugepages,
    /// PCI addresses that the configuration names. If there are none, PCI is not probed before a port needs
    /// it.
    pub pci: Vec<String>,
    /// Buffers and queues are on any NUMA node and not on their port's, for measuring the effect of that.
    pub numa_off: bool,
    /// Log types, or patterns such as `pmd.*`, and from which level on DPDK logs what they are about; its own
    /// defaults for all others.
    pub log_levels: Vec<(String, LogLevel)>,
    /// Further EAL arguments, as DPDK's manual has them.
    pub extra: Vec<String>,
}

/// The running DPDK environment.
#[derive(Debug)]
pub struct Eal {
    hugepages: bool,
    numa: bool,
    startup: Duration,
    notes: Vec<String>,
}

/// The arguments that DPDK was started with.
static ARGUMENTS: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());
static EAL: OnceLock<Result<Eal, Error>> = OnceLock::new();

/// The least free hugepage memory that is used.
const HUGE_MIN_MB: usize = 128;
/// The default limit of memory in 4 KB pages.
const SMALL_PAGES_MB: usize = 512;

impl Eal {
    /// Starts the environment, once in a process; later calls return what the first one made, whatever their
    /// options.
    pub fn init(options: &EalOptions) -> Result<&'static Eal, Error> {
        let started = EAL.get_or_init(|| {
            // DPDK binds the thread that starts it to a core, so that is one of its own.
            let options = options.clone();
            let starter = thread::Builder::new().name("valiant-eal".to_owned());
            match starter.spawn(move || start(&options)).map(thread::JoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(eal_error("its start panicked")),
                Err(error) => Err(eal_error(&error.to_string())),
            }
        });
        started.as_ref().map_err(Clone::clone)
    }

    /// The environment, if it has been started.
    #[inline]
    pub fn get() -> Option<&'static Eal> {
        EAL.get()?.as_ref().ok()
    }

    /// Whether buffers and queues lie on their port's NUMA node.
    pub(crate) fn numa(&self) -> bool {
        self.numa
    }

    /// Whether packet buffers lie in hugepages.
    pub fn hugepages(&self) -> bool {
        self.hugepages
    }

    /// How long the start took.
    pub fn startup(&self) -> Duration {
        self.startup
    }

    /// Messages for the user, such as the cost of missing hugepages.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

pub(crate) fn eal_error(reason: &str) -> Error {
    Error::Eal { reason: reason.to_owned(), fix: String::new() }
}

/// The DPDK that this was built against, such as `22.11.11`.
pub fn dpdk_version() -> String {
    // The release part is 99 in a final release, so it is left out.
    let part = |shift: u32| RTE_VERSION_NUMBER >> shift & 0xff;
    format!("{}.{:02}.{}", part(24), part(16), part(8))
}

/// The hugepages of one size on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugepageSize {
    /// Bytes in a page.
    pub page_bytes: usize,
    /// Pages there are.
    pub total: usize,
    /// Free pages.
    pub free: usize,
}

/// The hugepages of this machine, over all NUMA nodes.
pub fn hugepage_sizes() -> Vec<HugepageSize> {
    hugepage_sizes_in(&PathBuf::from("/sys/kernel/mm/hugepages"))
}

pub(crate) fn hugepage_sizes_in(directory: &std::path::Path) -> Vec<HugepageSize> {
    let mut sizes = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kilobytes =
            name.strip_prefix("hugepages-").and_then(|size| size.strip_suffix("kB")?.parse::<usize>().ok());
        let Some(kilobytes) = kilobytes else { continue };
        let number = |file: &str| {
            fs::read_to_string(entry.path().join(file))
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0)
        };
        sizes.push(HugepageSize {
            page_bytes: kilobytes << 10,
            total: number("nr_hugepages"),
            free: number("free_hugepages"),
        });
    }
    sizes.sort_by_key(|size| size.page_bytes);
    sizes
}

/// Whether this process can map one free page of this size (permissions and control groups may prevent it).
fn can_map(page_bytes: usize) -> bool {
    let flags = libc::MAP_PRIVATE
        | libc::MAP_ANONYMOUS
        | libc::MAP_HUGETLB
        | ((page_bytes.trailing_zeros() as c_int) << libc::MAP_HUGE_SHIFT);
    // SAFETY: an anonymous mapping at an address of the kernel's choice, unmapped at once.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), page_bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        page != libc::MAP_FAILED && libc::munmap(page, page_bytes) == 0
    }
}

/// The `sysctl` command that reserves `megabytes` of 2 MB pages in addition to the existing ones.
pub(crate) fn hugepage_fix(megabytes: usize) -> String {
    let total = hugepage_sizes().iter().find(|size| size.page_bytes == 2 << 20).map_or(0, |size| size.total);
    format!("sysctl -w vm.nr_hugepages={}", total + megabytes.div_ceil(2))
}

/// The processors that this process may run on, wherever its threads are bound later.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();
    ALLOWED.get_or_init(usable_cpus).clone()
}

/// The processors that the calling thread may run on.
fn usable_cpus() -> Vec<usize> {
    // SAFETY: `cpu_set_t` is plain data and the kernel fills it.
    let set = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &mut set) != 0 {
            return vec![0];
        }
        set
    };
    // SAFETY: the index stays below the set's size.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Reads a list such as `0-3,8`.
#[must_use]
pub fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last.min(first.saturating_add(65535)));
        }
    }
    cpus
}

/// The processors that the workers are bound to, if they are.
static WORKERS: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Tells the processors that the workers are going to be bound to; none: they run wherever this process may.
pub fn set_worker_cpus(cpus: &[usize]) {
    *WORKERS.lock().ignore_poison() = cpus.to_vec();
}

/// The processors of the machine that no worker of this process uses.
pub(crate) fn other_cpus() -> Vec<usize> {
    let bound = WORKERS.lock().ignore_poison().clone();
    let ours = if bound.is_empty() { allowed_cpus() } else { bound };
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    cpu_list(&online).into_iter().filter(|cpu| !ours.contains(cpu)).collect()
}

/// Binds the calling thread to these processors.
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    // Those of the process are noted first.
    allowed_cpus();
    // SAFETY: `cpu_set_t` is plain data; indices beyond its size are left out; the kernel only reads it.
    let status = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the calling thread run before all ordinary ones on its processor, for a short measurement that they
/// would disturb (`SCHED_FIFO`, sched(7)): the kernel leaves them 50 ms of each second.
///
/// # Errors
/// The process has no right to that.
pub fn run_before_others() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: a system call that only reads `lowest`.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// While it lives, the calling thread gets memory of one NUMA node, as long as there is some.
#[derive(Debug)]
pub struct OnNode(bool);

impl OnNode {
    /// Prefers a node; `None`, and a node that the kernel does not know, change nothing.
    #[must_use]
    pub fn new(node: Option<usize>) -> OnNode {
        // MPOL_PREFERRED, with a mask of one bit (set_mempolicy(2)); DPDK has at most 32 nodes.
        let mask = node.filter(|node| *node < 64).map_or(0, |node| 1u64 << node);
        OnNode(mask != 0 && Self::set(libc::MPOL_PREFERRED, mask))
    }
    fn set(mode: c_int, mask: u64) -> bool {
        // SAFETY: the kernel reads 64 bits of the mask.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, &raw const mask, 65usize) == 0 }
    }
}

impl Drop for OnNode {
    fn drop(&mut self) {
        if self.0 {
            Self::set(libc::MPOL_DEFAULT, 0);
        }
    }
}

/// The kind of memory to use.
struct Memory {
    arguments: Vec<String>,
    hugepages: bool,
    note: Option<String>,
}

fn choose_memory(options: &EalOptions) -> Result<Memory, Error> {
    let wanted = options.memory_mb.unwrap_or(HUGE_MIN_MB);
    let sizes = hugepage_sizes();
    let free_mb: usize = sizes.iter().map(|size| (size.free * (size.page_bytes >> 10)) >> 10).sum();
    let usable = free_mb >= wanted && sizes.iter().any(|size| size.free > 0 && can_map(size.page_bytes));
    match options.hugepages {
        Hugepages::Require if !usable => {
            return Err(eal_error(&format!("{free_mb} MB of free hugepages, {wanted} MB wanted"))
                .with_fix(hugepage_fix(wanted)));
        }
        Hugepages::Auto | Hugepages::Require if usable => {
            // `--in-memory` leaves no files, so instances never meet.
            let mut arguments = vec!["--in-memory".to_owned()];
            if let Some(limit) = options.memory_mb {
                let nodes = numa_nodes().len().max(1);
                arguments.push(format!(
                    "--socket-limit={}",
                    vec![limit.div_ceil(nodes).to_string(); nodes].join(",")
                ));
            }
            return Ok(Memory { arguments, hugepages: true, note: None });
        }
        _ => {}
    }
    let megabytes = options.memory_mb.unwrap_or(SMALL_PAGES_MB);
    let arguments = vec!["--no-huge".to_owned(), "--no-shconf".to_owned(), format!("-m{megabytes}")];
    let note = (options.hugepages == Hugepages::Auto).then(|| {
        format!(
            "{free_mb} MB of hugepages are free, {wanted} MB would be used: packet buffers (at most {megabytes} MB) are in \
             4 KB pages, which costs TLB misses on every packet (`{}` makes hugepages)",
            hugepage_fix(wanted.max(2 * HUGE_MIN_MB) - free_mb.min(wanted))
        )
    });
    Ok(Memory { arguments, hugepages: false, note })
}

/// The numbers of the NUMA nodes that are online.
pub(crate) fn numa_nodes() -> Vec<usize> {
    let mut nodes: Vec<usize> = (fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().to_string_lossy().strip_prefix("node")?.parse().ok())
        .collect();
    nodes.sort_unstable();
    nodes
}

fn start(options: &EalOptions) -> Result<Eal, Error> {
    let begin = Instant::now();
    // SAFETY: the callback takes any text from any thread.
    if unsafe { dpdk_sys::valiant_log_capture(Some(log::capture)) } != 0 {
        return Err(eal_error("its log cannot be captured"));
    }
    let memory = choose_memory(options)?;
    let directory = rundir::claim();
    let cpus = allowed_cpus().iter().map(usize::to_string).collect::<Vec<_>>().join(",");

    let mut arguments = vec!["valiant".to_owned(), "--no-telemetry".to_owned()];
    arguments.push(format!("--file-prefix={}", directory.prefix()));
    // One lcore, DPDK's own thread, anywhere: workers are our threads and register themselves.
    arguments.push(format!("--lcores=0@({cpus})"));
    arguments.extend(memory.arguments);
    if !options.pci.is_empty() {
        arguments.extend(options.pci.iter().map(|address| format!("--allow={address}")));
    } else if fs::read_dir("/sys/bus/pci/devices").is_ok_and(|mut devices| devices.next().is_some()) {
        // Allowing only what is no NIC probes nothing now and lets a port be plugged in later, which
        // `--no-pci` forbids.
        arguments.push("--allow=0000:00:00.0".to_owned());
    } else {
        arguments.push("--no-pci".to_owned());
    }
    if options.pci.is_empty() {
        // Without hardware that wants physical addresses (uio) virtual ones serve best: see `mempool`.
        arguments.push("--iova-mode=va".to_owned());
    }
    arguments
        .extend(options.log_levels.iter().map(|(of, level)| format!("--log-level={of}:{}", level.name())));
    arguments.extend(options.extra.iter().cloned());

    let mark = Mark::now();
    let arguments: Result<Vec<CString>, _> = arguments.into_iter().map(CString::new).collect();
    let arguments = arguments.map_err(|_| eal_error("an argument has a zero byte"))?;
    // DPDK keeps pointers to its arguments, so they live as long as the process. It writes into the list, so
    // behind the list's end stands what was in it: leak checkers see that nothing is lost.
    let pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
    let argv = [&pointers[..], &[ptr::null_mut()], &pointers[..]].concat().leak();
    // They look from statics; the compiler would leave out one that nobody reads.
    ARGUMENTS.store(argv.as_mut_ptr(), Ordering::Relaxed);
    std::hint::black_box(&ARGUMENTS);
    let prefault = (!memory.hugepages).then(|| Prefault::new(FIRST_POOL));
    // SAFETY: a null-terminated array of C strings, all of which live and stay writable as long as the
    // process.
    let status = unsafe { dpdk_sys::rte_eal_init(pointers.len() as c_int, argv.as_mut_ptr()) };
    drop(prefault);
    if status < 0 {
        // SAFETY: reads the calling thread's error number.
        let errno = unsafe { dpdk_sys::valiant_errno() };
        let fix = match errno {
            libc::EACCES | libc::EPERM => "run it as root".to_owned(),
            libc::ENOMEM => hugepage_fix(2 * HUGE_MIN_MB),
            _ => String::new(),
        };
        return Err(eal_error(&mark.quote_or(|| errno_text(errno))).with_fix(fix));
    }
    // Nothing is in it, since this process shares nothing.
    drop(directory);
    // SAFETY: the environment runs; the callback takes any text from any thread.
    unsafe { dpdk_sys::valiant_log_capture_bpf() };
    let flags = [
        (c"valiant_anno", ANNO_VALID_BIT),
        (c"valiant_first_line", FIRST_LINE_BIT),
        (c"valiant_traced", TRACED_BIT),
    ];
    for (name, bit) in flags {
        // SAFETY: the name is a C string, the bit is one that DPDK leaves to dynamic flags.
        if unsafe { dpdk_sys::valiant_reserve_mbuf_flag(name.as_ptr(), bit) } != bit as c_int {
            return Err(eal_error("an mbuf flag for annotations is taken"));
        }
    }
    Ok(Eal {
        hugepages: memory.hugepages,
        numa: !options.numa_off,
        startup: begin.elapsed(),
        notes: memory.note.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn memory_of_a_node_is_preferred_for_a_while() {
        let mode = || {
            let mut mode: c_int = -1;
            let none = ptr::null_mut::<u64>();
            // SAFETY: the kernel writes the mode; no mask and no address are given.
            let status =
                unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0usize, none, 0usize) };
            (status == 0).then_some(mode)
        };
        let Some(before) = mode() else {
            return crate::skip::skip(
                "the kernel has no memory policies, or does not let this process have one",
            );
        };
        {
            let there = OnNode::new(Some(0));
            assert_eq!(mode(), Some(if there.0 { libc::MPOL_PREFERRED } else { before }));
        }
        assert_eq!(mode(), Some(before));
        drop(OnNode::new(None));
        drop(OnNode::new(Some(63)));
        assert_eq!(mode(), Some(before));
    }

    #[test]
    #[cfg_attr(miri, ignore = "uses files")]
    fn hugepage_sizes_are_read() {
        let directory = std::env::temp_dir().join(format!("valiant-hugepages-{}", std::process::id()));
        for (size, total, free) in [("2048kB", "1024\n", "1000\n"), ("1048576kB", "1\n", "0\n")] {
            let size = directory.join(format!("hugepages-{size}"));
            fs::create_dir_all(&size).unwrap();
            fs::write(size.join("nr_hugepages"), total).unwrap();
            fs::write(size.join("free_hugepages"), free).unwrap();
        }
        fs::create_dir_all(directory.join("something-else")).unwrap();
        let sizes = hugepage_sizes_in(&directory);
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(sizes[0], HugepageSize { page_bytes: 2 << 20, total: 1024, free: 1000 });
        assert_eq!(sizes[1], HugepageSize { page_bytes: 1 << 30, total: 1, free: 0 });
    }

    #[test]
    fn the_version_is_that_of_the_headers() {
        assert!(dpdk_version().starts_with('2'), "{}", dpdk_version());
    }
}
