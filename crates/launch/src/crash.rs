//! Crash reports: their contents, and where they are written.

use crate::logging;
use std::backtrace::Backtrace;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Once;

/// Makes the process write a report if a thread panics or a signal such as SEGV ends it.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(e) = dpdk::crash::install(&directories()) {
            tracing::warn!(target: "router", "crash reports are not possible: {}", crate::reason(&e));
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if logging::is_json() {
                tracing::error!(target: "router", "{info}");
            } else {
                before(info);
            }
            let frames = Backtrace::force_capture().to_string();
            if let Some(path) = dpdk::crash::panicked(&info.to_string(), &frames) {
                tracing::error!(target: "router", "crash report: {}", path.display());
            }
        }));
    });
}

/// The directory of reports: the service manager's state directory for this service, else the user's state
/// directory, else /tmp.
#[must_use]
pub fn directories() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // Several directories are separated by colons (systemd.exec(5)).
    let given = std::env::var("STATE_DIRECTORY").ok();
    let given = given.and_then(|d| Some(PathBuf::from(d.split(':').next().filter(|d| d.starts_with('/'))?)));
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let home = || Some(variable("HOME")?.join(".local/state"));
    let own = match root {
        true => Some(PathBuf::from("/var/lib/valiant")),
        false => variable("XDG_STATE_HOME").or_else(home).map(|d| d.join("valiant")),
    };
    given.into_iter().chain(own).chain([PathBuf::from("/tmp")]).collect()
}
