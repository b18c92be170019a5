//! All threads give up their rights, also those that start meanwhile: in a process of its own, which this
//! test starts.
//!
//! It needs root; without, it prints that it is skipped.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::rights::{self, Capability, User};
use skip::skip;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CHILD: &str = "VALIANT_TEST_RIGHTS";

fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

fn child() {
    let stop = Arc::new(AtomicBool::new(false));
    let restless: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_micros(300)))
                        .join()
                        .unwrap();
                }
            })
        })
        .collect();
    let quiet = Arc::clone(&stop);
    let quiet = std::thread::spawn(move || {
        while !quiet.load(Ordering::Relaxed) {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    });
    let nobody = User::find("nobody").unwrap();
    assert!(!rights::given_up());
    rights::give_up(Some(&nobody), &[Capability::NET_RAW]).unwrap();
    assert!(rights::given_up() && Capability::NET_RAW.is_here() && !Capability::NET_ADMIN.is_here());
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        // A thread may have ended since.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        assert_ne!(field(&status, "Uid:"), "0", "{status}");
        assert_eq!(field(&status, "NoNewPrivs:"), "1");
        for name in ["CapEff:", "CapPrm:"] {
            assert_eq!(field(&status, name), "0000000000002000", "{status}");
        }
    }
    // What has been given up does not come back.
    // SAFETY: the arguments are numbers.
    assert_ne!(unsafe { libc::setuid(0) }, 0);
    assert!(std::fs::File::open("/etc/shadow").is_err());
    // The second time there is less to give up.
    rights::give_up(Some(&nobody), &[]).unwrap();
    assert!(!Capability::NET_RAW.is_here());
    assert!(rights::give_up(Some(&User::find("root").unwrap()), &[]).is_err());
    stop.store(true, Ordering::Relaxed);
    for thread in restless.into_iter().chain([quiet]) {
        thread.join().unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn all_threads_give_up_their_rights() {
    let name = "all_threads_give_up_their_rights";
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root");
        return;
    }
    for _ in 0..5 {
        let me = std::env::current_exe().unwrap();
        let output =
            Command::new(me).args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
