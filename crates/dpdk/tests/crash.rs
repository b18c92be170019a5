//! The report of a crash. This test starts its own program as a child process, which crashes.

#[path = "../../../tests/skip.rs"]
mod skip;

use dpdk::crash::{self, Seated};
use skip::skip;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOW: &str = "VALIANT_TEST_CRASH";
const WHERE: &str = "VALIANT_TEST_CRASH_DIRECTORY";

/// Overflows the stack.
#[expect(unconditional_recursion, reason = "that is the bug")]
fn deep(n: u64) -> u64 {
    let here = std::hint::black_box([n; 64]);
    deep(here[3] + 1) + std::hint::black_box(here)[5]
}

/// The process that crashes: in a worker's thread, which has entered element 1.
fn crash_here(how: &str) {
    let directories: Vec<PathBuf> = std::env::var(WHERE).unwrap().split(':').map(PathBuf::from).collect();
    crash::install(&directories).unwrap();
    crash::describe("q :: Queue(17);\n", ["first :: Idle", "q :: Queue", "last :: Discard"].into_iter());
    for n in 0..20 {
        crash::called("write", &format!("q.handler{n}"), 4);
    }
    let how = how.to_owned();
    let worker = std::thread::spawn(move || {
        let seated = Seated::new(5);
        seated.seat().enter(1);
        match how.as_str() {
            // SAFETY: this is not safe, so that the process crashes.
            "segv" => unsafe { std::ptr::without_provenance_mut::<u64>(0x18).write_volatile(1) },
            "abort" => std::process::abort(),
            "deep" => drop(std::hint::black_box(deep(1))),
            "panic" => {
                let path = crash::panicked("it went wrong", "0: somewhere\n").unwrap();
                println!("{}", path.display());
                std::process::exit(3);
            }
            _ => unreachable!(),
        }
    });
    drop(worker.join());
}

fn child(how: &str, directories: &str) -> std::process::Output {
    let me = std::env::current_exe().unwrap();
    let name = "a_crash_leaves_a_report";
    Command::new(me)
        .args([name, "--exact", "--nocapture"])
        .env(HOW, how)
        .env(WHERE, directories)
        .output()
        .unwrap()
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("valiant-crash-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn reports(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect()
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn a_crash_leaves_a_report() {
    if let Ok(how) = std::env::var(HOW) {
        return crash_here(&how);
    }
    for (how, signal, name) in [
        ("segv", Some(libc::SIGSEGV), "SIGSEGV"),
        ("abort", Some(libc::SIGABRT), "SIGABRT"),
        // Rust's own handler, which runs after this one, prints the reason and aborts.
        ("deep", Some(libc::SIGABRT), "SIGSEGV"),
        ("panic", None, "a panic: it went wrong"),
    ] {
        let directory = directory(how);
        // The first directory cannot be written to.
        let output = child(how, &format!("/proc/valiant:{}", directory.display()));
        assert_eq!(output.status.signal(), signal, "{how}: {output:?}");
        let (printed, shown) =
            (String::from_utf8_lossy(&output.stderr).into_owned(), String::from_utf8_lossy(&output.stdout));
        let mut all = reports(&directory);
        all.sort();
        let report = all.first().unwrap_or_else(|| panic!("{how}: no report; {printed}"));
        assert!(
            printed.contains(&report.display().to_string()) || shown.contains(&report.display().to_string()),
            "{printed}"
        );
        let text = std::fs::read_to_string(report).unwrap();
        let mode = std::fs::metadata(report).unwrap().permissions().mode();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(mode & 0o7777, 0o600);
        for wanted in [name, "element q :: Queue <- here", "write q.handler19 (4 bytes)", "q :: Queue(17);"] {
            assert!(text.contains(wanted), "{how}: no `{wanted}` in\n{text}");
        }
        assert!(!text.contains("handler3 "), "only the last ones: {text}");
        if signal.is_some() {
            assert!(printed.contains("worker 5 in element q :: Queue"), "{printed}");
            let module = std::env::current_exe().unwrap();
            assert!(text.contains(&format!("{}+0x", module.display())), "{text}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn without_a_place_for_it_a_crash_is_one_all_the_same() {
    let output = child("segv", "/proc/valiant:/dev/null");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no directory for the crash report"),
        "{output:?}"
    );
}

/// In a file system without space for a report, no empty file is left behind, and no report is announced.
#[test]
#[cfg_attr(miri, ignore = "starts processes")]
fn a_full_disk_is_passed_over() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip("it needs root, to mount a file system");
        return;
    }
    let (full, free) = (directory("full"), directory("free"));
    // One page, in a mount namespace of its own, which ends with the process.
    let mount = format!(
        "mount -t tmpfs -o size=4k valiant-test {0} && head -c 4096 /dev/zero > {0}/x",
        full.display()
    );
    for (how, name) in [("segv", "SIGSEGV"), ("panic", "a panic: it went wrong")] {
        let run = format!("{mount} && {{ \"$@\"; echo status $?; ls {}; }}", full.display());
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &run, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["a_crash_leaves_a_report", "--exact", "--nocapture"])
            .env(HOW, how)
            .env(WHERE, format!("{}:{}", full.display(), free.display()))
            .output()
            .unwrap();
        let all = reports(&free);
        let (printed, shown) =
            (String::from_utf8_lossy(&output.stderr).into_owned(), String::from_utf8_lossy(&output.stdout));
        assert_eq!(all.len(), 1, "{how}: {printed} {shown}");
        let text = std::fs::read_to_string(&all[0]).unwrap();
        std::fs::remove_file(&all[0]).unwrap();
        assert!(text.starts_with(name) && text.contains("q :: Queue(17);"), "{how}: {text}");
        let announced = all[0].display().to_string();
        assert!(printed.contains(&announced) || shown.contains(&announced), "{how}: {printed} {shown}");
        assert!(shown.ends_with("\nx\n"), "{how}: only what was there lies on the full disk: {shown}");
    }
    std::fs::remove_dir_all(&full).unwrap();
    std::fs::remove_dir_all(&free).unwrap();
}
