//! Nothing outside the process changes before the new configuration takes effect. For every element class, a
//! hot swap that fails at the last moment leaves files, sockets, signals and interfaces unchanged, and has
//! not changed any of them in between.

use locks::IgnorePoison;
use runtime::{ArgError, Args, ConfigCx, Cx, Element, Options, Registry, Router, inert};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What a configuration might change outside the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outside {
    /// Name, inode, mode, and contents of the files in the directory.
    files: BTreeMap<String, (u64, u32, Vec<u8>)>,
    /// The mask of signals that the process handles (proc(5)).
    signals: String,
    /// Listening sockets of this process.
    listening: BTreeSet<String>,
    /// Name, link address, MTU, and whether the interface is up.
    interfaces: BTreeSet<(String, [u8; 6], u32, bool)>,
    /// The interfaces' addresses, as text.
    addresses: BTreeSet<String>,
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Outside {
    fn now(dir: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            let bytes = if meta.is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
            files.insert(entry.file_name().to_string_lossy().into_owned(), (meta.ino(), meta.mode(), bytes));
        }
        let mine: BTreeSet<String> = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok())
            .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
            .collect();
        // State 0A is LISTEN; the inode is the tenth word.
        let tcp = text("/proc/self/net/tcp");
        let listening = tcp.lines().map(|l| l.split_whitespace().collect::<Vec<_>>());
        let listening = listening
            .filter(|w| w.get(3) == Some(&"0A") && w.get(9).is_some_and(|inode| mine.contains(*inode)))
            .map(|w| w[1].to_owned())
            .collect();
        let signals = text("/proc/self/status");
        let signals = signals.lines().find(|l| l.starts_with("SigCgt")).unwrap_or_default().to_owned();
        let interfaces = dpdk::interfaces().into_iter().map(|i| (i.name, i.mac, i.mtu, i.up)).collect();
        let addresses = text("/proc/self/net/fib_trie");
        let addresses =
            addresses.lines().filter(|l| l.contains("|-- ")).map(|l| l.trim().to_owned()).collect();
        Self { files, signals, listening, interfaces, addresses }
    }

    /// What has changed since `before`, or is missing. Files that are new, or only renamed, do not count.
    fn touched(&self, before: &Self) -> Vec<String> {
        let mut wrong: Vec<String> = before
            .files
            .iter()
            .filter(|(name, was)| {
                self.files.get(*name) != Some(was) && self.files.values().all(|f| f != *was)
            })
            .map(|(name, _)| format!("file {name}"))
            .collect();
        if self.signals != before.signals {
            wrong.push(format!("signals {} -> {}", before.signals, self.signals));
        }
        wrong.extend(before.listening.difference(&self.listening).map(|s| format!("socket {s}")));
        wrong.extend(before.interfaces.difference(&self.interfaces).map(|i| format!("interface {}", i.0)));
        wrong.extend(before.addresses.symmetric_difference(&self.addresses).map(|a| format!("address {a}")));
        wrong
    }
}

/// The state at the moment when the last element was initialized.
static SEEN: Mutex<Option<Outside>> = Mutex::new(None);

fn seen() -> std::sync::MutexGuard<'static, Option<Outside>> {
    SEEN.lock().ignore_poison()
}

/// Records the state outside the process when all others are initialized, and then fails.
struct Last;

impl Element for Last {
    const CLASS: &'static str = "Last";
    const PORTS: &'static str = "0/0";
    const MANUAL: &'static str = "";
    fn configure(_: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        Ok(Self)
    }
    fn initialize(&mut self, _: &mut Cx<'_>) -> Result<(), String> {
        *seen() = Some(Outside::now(Path::new(".")));
        Err("the last one fails".to_owned())
    }
}

/// The `click` blocks of a manual.
fn examples(manual: &str) -> Vec<String> {
    let blocks = manual.split("```click\n").skip(1);
    blocks.filter_map(|b| Some(b.split_once("```")?.0.to_owned())).collect()
}

/// Configurations that would change something if they took effect.
const CASES: &[&str] = &[
    "Idle -> ToDump(precious)",
    "Idle -> ToDump(link)",
    "Idle -> ToDump(precious.gz)",
    "Idle -> ToDump(new.pcap)",
    "Idle -> ToDump(new.pcap.gz)",
    // A file of the running router: used by the same element, and by another one.
    "Idle -> d :: ToDump(running.pcap, NANO false)",
    "Idle -> e :: ToDump(running.pcap)",
    "Idle -> ToIPSummaryDump(precious, CONTENTS ip_src)",
    "Idle -> ToIPSummaryDump(new.txt, CONTENTS ip_src)",
    "Idle -> IPPrint(OUTFILE precious) -> Discard",
    "Idle -> IPPrint(OUTFILE new.txt) -> Discard",
    "Idle -> ARPPrint(OUTFILE precious) -> Discard",
    "ControlSocket(UNIX, new.sock)",
    "ControlSocket(UNIX, stale.sock)",
    "ControlSocket(TCP, 0)",
    "ChatterSocket(UNIX, new.sock)",
    "ChatterSocket(UNIX, stale.sock)",
    "ChatterSocket(TCP, 0)",
    "Script(TYPE SIGNAL USR1 USR2, print hello)",
    "Script(TYPE SIGNAL HUP, end)",
    "Idle -> ToDPDKDevice(\"net_pcap7,tx_pcap=precious\")",
    "Idle -> ToDPDKDevice(\"net_pcap8,tx_pcap=new.pcap\")",
];

/// The same, with interfaces.
const INTERFACES: &[&str] = &[
    "Idle -> KernelTap(10.203.17.1/24, DEVNAME vunch0) -> Discard",
    "Idle -> KernelTun(10.203.18.1/24, DEVNAME vunch1, MTU 1400) -> Discard",
    "FromHost(vunch2, 10.203.19.1/24) -> ToHost(vunch2)",
];

#[test]
fn a_hot_swap_that_fails_changes_nothing() {
    let dir = std::env::temp_dir().join(format!("valiant-unchanged-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::env::set_current_dir(&dir).unwrap();
    let precious = b"not to be lost".repeat(100);
    for name in ["precious", "precious.gz", "linked"] {
        std::fs::write(name, &precious).unwrap();
    }
    symlink("linked", "link").unwrap();
    drop(UnixListener::bind("stale.sock").unwrap());
    assert!(std::fs::metadata("stale.sock").unwrap().file_type().is_socket());
    // The files that the examples in manuals read.
    std::fs::write("in.pcap", [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 12], &[1, 0, 0, 0]].concat())
        .unwrap();
    std::fs::write("in.dump", "!IPSummaryDump 1.3\n!data ip_src\n1.0.0.1\n").unwrap();

    let mut registry: Registry = elements::registry();
    registry.add(inert::<Last>());
    let registry = Arc::new(registry);
    let options = Options { hotswap: true, simulated_time: true, ..Options::default() };
    let source = lang::Source::new("test", "Idle -> d :: ToDump(running.pcap, UNBUFFERED true)");
    let mut router = Router::new(&[source], lang::LoadOptions::default(), Arc::clone(&registry), options)
        .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
    router.start();
    router.inject("d", 0, dpdk::Packet::from_bytes(b"captured").into_iter().collect());
    assert_eq!(std::fs::metadata("running.pcap").unwrap().len(), 24 + 16 + 8);

    let interfaces_allowed =
        dpdk::probe::Machine::probe().rights.net_admin && Path::new("/dev/net/tun").exists();
    let makes_interface =
        |text: &str| ["KernelTap", "KernelTun", "FromHost", "ToHost"].iter().any(|c| text.contains(c));
    let shown: Vec<String> = registry.iter().flat_map(|class| examples(&class.manual())).collect();
    let all = CASES.iter().chain(INTERFACES).map(|case| (*case).to_owned()).chain(shown);
    let all: Vec<String> = all.filter(|case| interfaces_allowed || !makes_interface(case)).collect();
    if !interfaces_allowed {
        eprintln!("without interfaces: making one needs CAP_NET_ADMIN and /dev/net/tun");
    }
    let mut wrong = Vec::new();
    for case in &all {
        let before = Outside::now(&dir);
        *seen() = None;
        let config = format!("{case};\nLast;\n");
        let Err(diags) = router.hotswap(lang::Source::new("case", config)) else {
            panic!("{case}: no error")
        };
        let messages = diags.render_plain(diags.sources());
        // The kernel removes an interface with a delay.
        let mut after = Outside::now(&dir);
        for _ in 0..200 {
            if after == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            after = Outside::now(&dir);
        }
        match &*seen() {
            None => wrong.push(format!("{case}: failed too early: {messages}")),
            Some(seen) => wrong
                .extend(seen.touched(&before).iter().map(|w| format!("{case}: before the change-over: {w}"))),
        }
        if after != before {
            let mut what = after.touched(&before);
            what.extend(
                after
                    .files
                    .keys()
                    .filter(|f| !before.files.contains_key(*f))
                    .map(|f| format!("new file {f}")),
            );
            what.extend(after.listening.difference(&before.listening).map(|s| format!("listens on {s}")));
            what.extend(
                after.interfaces.difference(&before.interfaces).map(|i| format!("new interface {}", i.0)),
            );
            wrong.extend(what.iter().map(|w| format!("{case}: after the failure: {w}")));
        }
    }
    std::env::set_current_dir("/").unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(wrong.is_empty(), "{} of {} configurations:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    assert!(all.len() > registry.iter().count());
}
