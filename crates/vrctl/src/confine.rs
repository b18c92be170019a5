//! What the process of a router may not do.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// Gives the calling thread, and the processes that it starts, namespaces of their own for mounts, System V
/// IPC and the host's name; in them /proc shows a user only its own processes. Returns what did not work.
pub(crate) fn isolate() -> Vec<String> {
    let mut failed = Vec::new();
    let spaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if let Err(e) = unshare(spaces) {
        return vec![format!("no namespaces of its own: {}", e.desc())];
    }
    let none = None::<&str>;
    // What is mounted in it stays in it.
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let hidden = private.and_then(|()| mount(Some("proc"), "/proc", Some("proc"), flags, Some("hidepid=2")));
    failed.extend(hidden.err().map(|e| format!("it sees the processes of others: {}", e.desc())));
    failed
}

/// System calls that need no look at their arguments.
const ALLOWED: &[i64] = &[
    // Files, as far as the user may.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Sockets that are open. How packets are sent (sendmmsg) has an address within the message, which a
    // filter does not see.
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_mbind,
    // Threads and signals of its own.
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // What it is and how it does.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_capget,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sysinfo,
    libc::SYS_umask,
    libc::SYS_uname,
];

/// Those that only older processors' interfaces have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_time,
    libc::SYS_getrlimit,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Requests of ioctl(2) that neither change an interface nor a terminal: of terminals, of any descriptor, and
/// what netdevice(7) has to read.
const REQUESTS: [u64; 10] = [0x5401, 0x5413, 0x541b, 0x5421, 0x5451, 0x8913, 0x8921, 0x8927, 0x8933, 0x8946];
const PRCTL: [i32; 4] =
    [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_TIMERSLACK, libc::PR_SET_PDEATHSIG];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters: that clone3(2), whose flags a filter does not see, is not there, so that clone(2) takes its
/// place; and what may be called. Of several filters' answers, an error has priority.
fn filters(process: u32, hardware: bool) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let rule = |argument: u8, length: SeccompCmpArgLen, how: SeccompCmpOp, value: u64| {
        SeccompRule::new(vec![SeccompCondition::new(argument, length, how, value)?])
    };
    let (word, long) = (|| SeccompCmpArgLen::Dword, || SeccompCmpArgLen::Qword);
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    // Threads, no processes.
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![rule(0, long(), MaskedEq(thread), thread)?]);
    let mine = rule(0, word(), Eq, process.into())?;
    rules.insert(libc::SYS_kill, vec![mine.clone()]);
    rules.insert(libc::SYS_tgkill, vec![mine]);
    rules.insert(libc::SYS_sendto, vec![rule(4, long(), Eq, 0)?]);
    // Limits are read, not set.
    rules.insert(libc::SYS_prlimit64, vec![rule(2, long(), Eq, 0)?]);
    // No memory becomes a program.
    let data = rule(2, word(), MaskedEq(libc::PROT_EXEC as u64), 0)?;
    rules.insert(libc::SYS_mmap, vec![data.clone()]);
    rules.insert(libc::SYS_mprotect, vec![data]);
    let requests = REQUESTS.iter().map(|request| rule(1, word(), Eq, *request));
    // Drivers of PCI devices in this process talk to vfio or uio.
    let requests = if hardware { Vec::new() } else { requests.collect::<Result<_, _>>()? };
    rules.insert(libc::SYS_ioctl, requests);
    let options = PRCTL.iter().map(|option| rule(0, word(), Eq, *option as u64));
    rules.insert(libc::SYS_prctl, options.collect::<Result<_, _>>()?);
    let architecture: TargetArch = std::env::consts::ARCH.try_into()?;
    let refuse = |error: i32| SeccompAction::Errno(error as u32);
    let main = SeccompFilter::new(rules, refuse(libc::EPERM), SeccompAction::Allow, architecture)?;
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = SeccompFilter::new(absent, SeccompAction::Allow, refuse(libc::ENOSYS), architecture)?;
    Ok([absent.try_into()?, main.try_into()?])
}

/// From here on no thread of this process starts a program or a process, makes a socket, mounts, traces, or
/// makes memory executable: such system calls fail.
///
/// # Errors
/// The kernel has no filters for system calls.
pub(crate) fn filter_system_calls(hardware: bool) -> Result<(), String> {
    let told = |e: &dyn std::fmt::Display| format!("the filter for system calls: {e}");
    for filter in filters(std::process::id(), hardware).map_err(|e| told(&e))? {
        apply_filter_all_threads(&filter).map_err(|e| told(&e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own: a filter stays.
    #[test]
    fn what_is_not_allowed_fails() {
        const CHILD: &str = "VALIANT_TEST_FILTERED";
        if std::env::var_os(CHILD).is_none() {
            let me = std::env::current_exe().unwrap();
            let mut command = std::process::Command::new(me);
            let name = "confine::tests::what_is_not_allowed_fails";
            let done = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
            let text =
                String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{text}");
            return;
        }
        let before = std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::net::UdpSocket::bind("127.0.0.1:0").is_err()
        });
        filter_system_calls(false).unwrap();
        assert!(std::process::Command::new("/bin/true").status().is_err(), "a program");
        assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err(), "a socket");
        assert!(std::os::unix::net::UnixStream::connect("/none").is_err(), "a socket");
        assert!(unshare(CloneFlags::CLONE_NEWNS).is_err(), "a namespace");
        assert!(nix::sys::signal::kill(nix::unistd::getppid(), None).is_err(), "a signal");
        assert!(before.join().unwrap(), "a socket of a thread that was there before");
        // Threads, files and its own signals go on.
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        assert!(std::fs::read("/proc/self/status").is_ok());
        assert!(nix::sys::signal::kill(nix::unistd::getpid(), None).is_ok());
    }
}
