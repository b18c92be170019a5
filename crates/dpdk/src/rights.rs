//! Giving up rights: when its ports are open, a router needs few of those that it was started with.
//!
//! Linux keeps user, capabilities and no-new-privileges for each thread, and DPDK's threads and the workers
//! are there before the ports are open. So every thread gives up its own, in the handler of a signal that is
//! sent to all of them in turn, until all that there are have done so (as nptl(7) does for `setuid`).

use locks::IgnorePoison;
use std::collections::HashSet;
use std::ffi::{CString, c_int};
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::ptr;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A capability of Linux (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(u8);

/// Their names, in the order of their numbers (linux/capability.h).
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

impl Capability {
    /// To set interfaces up, and to attach and detach programs.
    pub const NET_ADMIN: Capability = Capability(12);
    /// To open packet sockets.
    pub const NET_RAW: Capability = Capability(13);
    /// To lock memory beyond the limit, which devices behind vfio want.
    pub const IPC_LOCK: Capability = Capability(14);
    /// To use the ports of processor and devices, as uio drivers do.
    pub const SYS_RAWIO: Capability = Capability(17);
    /// To load programs into the kernel.
    pub const BPF: Capability = Capability(39);

    /// Those of a mask, as /proc/PID/status has them.
    pub fn of_mask(mask: u64) -> Vec<Capability> {
        (0..NAMES.len() as u8).filter(|n| mask >> n & 1 == 1).map(Capability).collect()
    }
    /// The mask of these.
    pub fn mask(all: &[Capability]) -> u64 {
        all.iter().fold(0, |mask, c| mask | 1 << c.0)
    }
    /// Whether this process has it.
    pub fn is_here(self) -> bool {
        effective() >> self.0 & 1 == 1
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.get(usize::from(self.0)).unwrap_or(&"?"))
    }
}

impl FromStr for Capability {
    type Err = String;
    /// Takes `net_raw` and `CAP_NET_RAW`.
    fn from_str(text: &str) -> Result<Capability, String> {
        let name = text.to_ascii_lowercase();
        let name = name.strip_prefix("cap_").unwrap_or(&name);
        let at = NAMES.iter().position(|known| *known == name);
        at.map(|n| Capability(n as u8))
            .ok_or_else(|| format!("there is no capability '{text}'; there are {}", NAMES.join(", ")))
    }
}

/// The capabilities of the calling thread.
fn effective() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// A user to run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl User {
    /// Looks a user up, with all groups that it is in.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn find(name: &str) -> Result<User, String> {
        let unknown = || format!("there is no user '{name}'");
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let mut buffer = vec![0; 16 << 10];
        let mut found = ptr::null_mut();
        // SAFETY: `passwd` is plain data; the function fills it with pointers into the buffer, which is not
        // touched before they have been used.
        let (uid, gid) = unsafe {
            let mut entry: libc::passwd = mem::zeroed();
            libc::getpwnam_r(c_name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found);
            if found.is_null() {
                return Err(unknown());
            }
            (entry.pw_uid, entry.pw_gid)
        };
        let mut groups = vec![0; 256];
        let mut count = groups.len() as c_int;
        // SAFETY: the function writes at most `count` groups.
        let all = unsafe { libc::getgrouplist(c_name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        if all < 0 {
            return Err(format!("the user '{name}' is in more than {} groups", groups.len()));
        }
        groups.truncate(usize::try_from(count).unwrap_or(0));
        Ok(User { name: name.to_owned(), uid, gid, groups })
    }
}

/// The settings that every thread applies.
struct Order {
    user: Option<User>,
    keep: u64,
    /// The thread that is to apply them.
    thread: AtomicI32,
    done: AtomicUsize,
    /// The error, as errno.
    error: AtomicI32,
    /// The step that failed.
    step: AtomicU32,
}

/// The steps, in words.
const STEPS: [&str; 7] = [
    "nothing",
    "keeping capabilities while the user changes",
    "leaving its groups",
    "changing its group",
    "changing its user",
    "taking the possibility of new privileges away",
    "giving up capabilities",
];

static ORDER: AtomicPtr<Order> = AtomicPtr::new(ptr::null_mut());
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Whether this process has given up rights.
pub fn given_up() -> bool {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// How long a thread may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many lists of threads in a row have no new one when there is none.
const LISTS: usize = 3;

/// Gives up, in all threads and for good: every capability but these, new privileges by set-user-ID programs,
/// and, if there is a `user`, what root may do. Afterwards every thread has been looked at.
///
/// # Errors
/// What could not be done. Some threads may have given up theirs: the process must end.
pub fn give_up(user: Option<&User>, keep: &[Capability]) -> Result<(), String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().ignore_poison();
    let order = Order {
        user: user.cloned(),
        keep: Capability::mask(keep),
        thread: AtomicI32::new(0),
        done: AtomicUsize::new(0),
        error: AtomicI32::new(0),
        step: AtomicU32::new(0),
    };
    let signal = libc::SIGRTMAX();
    // The handler stays: a signal that has been sent may still be on its way, and would end the process.
    // SAFETY: `sigaction` is plain data; the handler makes system calls only.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let handler: extern "C" fn(c_int) = on_order;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        if libc::sigaction(signal, &action, ptr::null_mut()) != 0 {
            return Err(format!("giving up rights: {}", io::Error::last_os_error()));
        }
    }
    // Leaked: a thread may still be in the handler.
    let order: &'static Order = Box::leak(Box::new(order));
    ORDER.store(ptr::from_ref(order).cast_mut(), Ordering::Release);
    let result = everywhere(order, signal);
    if result.is_ok() {
        ORDER.store(ptr::null_mut(), Ordering::Release);
        verify(user, keep)?;
        GIVEN_UP.store(true, Ordering::Relaxed);
    }
    result
}

fn everywhere(order: &Order, signal: c_int) -> Result<(), String> {
    // SAFETY: cannot fail.
    let process = unsafe { libc::getpid() };
    let mut asked: HashSet<c_int> = HashSet::new();
    // A thread that has not given up its rights may start another one, which has the same: until there is no
    // new one, several times in a row, for a list may lack a thread while others come and go.
    let mut lists_without_new = 0;
    loop {
        let new: Vec<c_int> = threads().into_iter().filter(|thread| !asked.contains(thread)).collect();
        if new.is_empty() {
            lists_without_new += 1;
            if lists_without_new == LISTS {
                return Ok(());
            }
            continue;
        }
        lists_without_new = 0;
        for thread in new {
            asked.insert(thread);
            let done = order.done.load(Ordering::Acquire);
            order.thread.store(thread, Ordering::Release);
            // SAFETY: numbers; a thread that has ended is an error.
            if unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) } != 0 {
                continue;
            }
            let began = Instant::now();
            // Signal 0 only asks whether it is there. A list of threads may lack one while others come and
            // go. SAFETY: numbers.
            let is_there = || unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) } == 0;
            while order.done.load(Ordering::Acquire) == done && is_there() {
                if began.elapsed() > PATIENCE {
                    return Err(format!("giving up rights: thread {thread} does not answer"));
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            let error = order.error.load(Ordering::Acquire);
            if error != 0 {
                let step = STEPS.get(order.step.load(Ordering::Acquire) as usize).unwrap_or(&"");
                return Err(format!("giving up rights: {step}: {}", crate::error::errno_text(error)));
            }
        }
    }
}

fn threads() -> Vec<c_int> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Checks that every thread has given up its rights.
fn verify(user: Option<&User>, keep: &[Capability]) -> Result<(), String> {
    for thread in threads() {
        // A thread that has ended since has no file.
        let Ok(status) = fs::read_to_string(format!("/proc/self/task/{thread}/status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
        let more = |name: &str| {
            u64::from_str_radix(field(name), 16).is_ok_and(|mask| mask & !Capability::mask(keep) != 0)
        };
        let other = user.is_some_and(|user| {
            field("Uid:").split_whitespace().any(|uid| uid.parse() != Ok(user.uid))
                || field("Gid:").split_whitespace().any(|gid| gid.parse() != Ok(user.gid))
        });
        if more("CapEff:") || more("CapPrm:") || more("CapInh:") || other || field("NoNewPrivs:") != "1" {
            return Err(format!("giving up rights: thread {thread} still has some"));
        }
    }
    Ok(())
}

extern "C" fn on_order(_signal: c_int) {
    // SAFETY: reads this thread's error number, and puts it back.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: whoever sends the signal keeps the order until this thread has answered.
    let order = unsafe { ORDER.load(Ordering::Acquire).as_ref() };
    // SAFETY: cannot fail.
    let me = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    // Another process may send this signal; the settings are applied only once.
    if let Some(order) = order
        && order.thread.compare_exchange(me, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    {
        if let Err((step, error)) = obey(order) {
            order.step.store(step, Ordering::Relaxed);
            order.error.store(error, Ordering::Release);
        }
        order.done.fetch_add(1, Ordering::Release);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// `struct __user_cap_header_struct` and `__user_cap_data_struct` of linux/capability.h, version 3.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: c_int,
}
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}
const CAP_VERSION_3: u32 = 0x2008_0522;

/// Whether the calling thread runs as this user already: it has given up its rights, or one that has has
/// started it.
fn runs_as(user: &User) -> bool {
    let mut ids = [0u32; 3];
    // SAFETY: a system call with places of the size that it expects.
    let known = unsafe {
        let [real, effective, saved] = &mut ids;
        libc::syscall(
            libc::SYS_getresuid,
            ptr::from_mut(real),
            ptr::from_mut(effective),
            ptr::from_mut(saved),
        )
    };
    known == 0 && ids == [user.uid; 3]
}

/// Makes the calling thread give up its rights: system calls alone, each of which changes this thread only.
fn obey(order: &Order) -> Result<(), (u32, i32)> {
    let failed = |step: u32| {
        // SAFETY: reads this thread's error number.
        Err((step, unsafe { *libc::__errno_location() }))
    };
    // SAFETY: all are system calls with numbers, or with pointers to memory that lives and has the size that
    // they expect.
    unsafe {
        // What is not in the bounding set does not come back by any program. It takes CAP_SETPCAP; without,
        // no-new-privileges says the same.
        for n in 0..64 {
            if order.keep >> n & 1 == 0 {
                libc::syscall(libc::SYS_prctl, libc::PR_CAPBSET_DROP, n, 0, 0, 0);
            }
        }
        if let Some(user) = order.user.as_ref().filter(|user| !runs_as(user)) {
            if libc::syscall(libc::SYS_prctl, libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 {
                return failed(1);
            }
            if libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) != 0 {
                return failed(2);
            }
            if libc::syscall(libc::SYS_setresgid, user.gid, user.gid, user.gid) != 0 {
                return failed(3);
            }
            if libc::syscall(libc::SYS_setresuid, user.uid, user.uid, user.uid) != 0 {
                return failed(4);
            }
            libc::syscall(libc::SYS_prctl, libc::PR_SET_KEEPCAPS, 0, 0, 0, 0);
        }
        libc::syscall(libc::SYS_prctl, libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        if libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return failed(5);
        }
        let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
        let mut data = [CapData::default(); 2];
        if libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) != 0 {
            return failed(6);
        }
        for (half, data) in data.iter_mut().enumerate() {
            let kept = data.permitted & (order.keep >> (32 * half)) as u32;
            *data = CapData { effective: kept, permitted: kept, inheritable: 0 };
        }
        header = CapHeader { version: CAP_VERSION_3, pid: 0 };
        if libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) != 0 {
            return failed(6);
        }
    }
    Ok(())
}

/// The capabilities that DPDK's driver of such a port needs to open it.
pub(crate) fn needed_for(vdev: &str) -> &'static [Capability] {
    const XDP: &[Capability] = &[Capability::NET_ADMIN, Capability::NET_RAW, Capability::BPF];
    match vdev {
        _ if vdev.starts_with("net_af_xdp") => XDP,
        _ if vdev.starts_with("net_af_packet") => &XDP[1..2],
        _ if vdev.starts_with("net_tap") => &XDP[..1],
        _ if vdev.starts_with("net_pcap") && vdev.contains("iface") => &XDP[1..2],
        _ => &[],
    }
}

/// The error message, and what to do, if a router has given up a capability that it needs now.
pub(crate) fn missing(needed: &[Capability]) -> Option<(String, String)> {
    if !given_up() {
        return None;
    }
    let missing: Vec<&Capability> = needed.iter().filter(|c| !c.is_here()).collect();
    if missing.is_empty() {
        return None;
    }
    let list = |prefix: &str, between: &str| {
        let names = missing.iter().map(|c| c.to_string());
        let names =
            names.map(|n| if prefix.is_empty() { n } else { format!("{prefix}{}", n.to_ascii_uppercase()) });
        names.collect::<Vec<_>>().join(between)
    };
    let what =
        format!("the router has given up {}, without which it cannot be opened", list("CAP_", " and "));
    Some((what, format!("start the router with --keep-capability {}", list("", ","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_names() {
        assert_eq!("net_raw".parse(), Ok(Capability::NET_RAW));
        assert_eq!("CAP_NET_ADMIN".parse(), Ok(Capability::NET_ADMIN));
        assert_eq!("bpf".parse(), Ok(Capability::BPF));
        assert!("net_rwa".parse::<Capability>().unwrap_err().contains("net_raw"));
        assert_eq!(Capability::BPF.to_string(), "bpf");
        assert_eq!(Capability::of_mask(1 << 13 | 1 << 12), [Capability::NET_ADMIN, Capability::NET_RAW]);
        assert_eq!(Capability::mask(&[Capability::NET_ADMIN, Capability::NET_RAW]), 1 << 13 | 1 << 12);
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn users_are_found() {
        let root = User::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(User::find("no such user").unwrap_err().contains("no such user"));
        assert!(User::find("a\0b").is_err());
    }

    #[test]
    fn drivers_need_what_they_open() {
        assert_eq!(needed_for("net_af_packet0,iface=eth0"), [Capability::NET_RAW]);
        assert_eq!(needed_for("net_null0"), []);
        assert_eq!(needed_for("net_tap0"), [Capability::NET_ADMIN]);
    }
}
