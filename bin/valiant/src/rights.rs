//! What a router may do once its ports are open, and what those that run may do.

use crate::cli::RunArgs;
use dpdk::helper::{self, Helper};
use dpdk::rights::{self, Capability, User};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// What a router is to give up: made before it opens anything, carried out when its ports are open.
pub(crate) struct Plan {
    user: Option<User>,
    keep: Vec<Capability>,
    helper: Option<Helper>,
}

impl Plan {
    /// What the arguments ask for; nothing, unless they do or a service manager has started this process.
    ///
    /// # Errors
    /// A message for the user.
    pub(crate) fn of(args: &RunArgs, program: &str) -> Result<Option<Self>, String> {
        let asked = args.user.is_some() || !args.keep_capability.is_empty();
        if !asked && (program == "click" || !is_service()) {
            return Ok(None);
        }
        let all = args.keep_capability.iter().any(|name| name == "all");
        if all && args.user.is_none() {
            return Ok(None);
        }
        let keep: Result<Vec<Capability>, String> = match all {
            true => Ok(Capability::of_mask(u64::MAX)),
            false => args.keep_capability.iter().map(|name| name.parse()).collect(),
        };
        let keep = keep.map_err(|e| format!("--keep-capability: {e}"))?;
        let user = args.user.as_deref().map(User::find).transpose().map_err(|e| format!("--user: {e}"))?;
        if user.is_some() && !dpdk::probe::Rights::probe().root {
            return Err("--user: becoming another user takes root".to_owned());
        }
        // Devices are opened later only if the configuration can be replaced.
        let helper = match args.allow_reconfigure.then(Helper::start).transpose() {
            Ok(helper) => helper,
            Err(e) => {
                let reason = crate::load::reason(&e);
                eprintln!("warning: the helper that opens devices for hot swaps does not start: {reason}");
                None
            }
        };
        Ok(Some(Self { user, keep, helper }))
    }

    /// Gives up what is not needed any more. Returns a line about it.
    ///
    /// # Errors
    /// It cannot be done; the process must not go on.
    pub(crate) fn carry_out(self) -> Result<String, String> {
        let mut kept: BTreeMap<Capability, String> = dpdk::capabilities_in_use().into_iter().collect();
        let used: Vec<String> = kept.iter().map(|(c, why)| format!("{c} ({why})")).collect();
        kept.extend(self.keep.iter().map(|c| (*c, String::new())));
        rights::give_up(self.user.as_ref(), &kept.into_keys().collect::<Vec<_>>())?;
        if let Some(helper) = self.helper {
            helper.employ();
        }
        let asked: Vec<String> = self.keep.iter().map(Capability::to_string).collect();
        let kept = [used.join(", "), asked.join(", ")].into_iter().filter(|t| !t.is_empty());
        let kept = kept.collect::<Vec<_>>().join(", ");
        let user = self.user.map_or_else(String::new, |user| format!("runs as {} and ", user.name));
        Ok(format!("{user}keeps {} of its capabilities", if kept.is_empty() { "none" } else { &kept }))
    }
}

/// Whether the system's service manager has started this process, as root. Others that run below a service have its variables
/// too, and another parent.
fn is_service() -> bool {
    std::os::unix::process::parent_id() == 1
        && std::env::var_os("INVOCATION_ID").is_some()
        && dpdk::probe::Rights::probe().root
}

/// The helper's `main`.
pub(crate) fn helper() -> ExitCode {
    match helper::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}: {e}", helper::NAME);
            ExitCode::FAILURE
        }
    }
}

/// A process that runs a configuration.
pub(crate) struct Running {
    process: u32,
    user: String,
    capabilities: Vec<Capability>,
    /// As many as there are.
    all: bool,
    no_new_privileges: bool,
    helper: Option<u32>,
}

/// The routers of this machine, as far as this process sees them.
pub(crate) fn running() -> Vec<Running> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes: Vec<(u32, Vec<String>, String)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .filter_map(|(process, path): (u32, _)| {
            let words = std::fs::read_to_string(path.join("cmdline")).ok()?;
            let words = words.split('\0').map(str::to_owned).collect();
            Some((process, words, std::fs::read_to_string(path.join("status")).ok()?))
        })
        .collect();
    let is_router = |words: &[String]| {
        let name = words.first().and_then(|w| Path::new(w).file_name()).and_then(|n| n.to_str());
        let second = words.get(1).map(String::as_str);
        name == Some("valiant") && matches!(second, Some("run" | "gen" | "sink"))
            || name == Some("valiant")
                && second == Some("cluster")
                && words.get(2).is_some_and(|w| w == "run")
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let all = mask(&std::fs::read_to_string("/proc/1/status").unwrap_or_default(), "CapPrm:");
    let mut found: Vec<Running> = (processes.iter())
        .filter(|(_, words, _)| is_router(words))
        .map(|(process, _, status)| {
            let parent = |status: &str| field(status, "PPid:").parse() == Ok(*process);
            let helper = processes.iter().find(|(_, words, status)| {
                words.first().is_some_and(|w| w == helper::NAME) && parent(status)
            });
            let uid = field(status, "Uid:").split_whitespace().nth(1).unwrap_or("?").to_owned();
            let user = users.lines().find_map(|line| {
                let mut fields = line.split(':');
                let name = fields.next()?;
                (fields.nth(1) == Some(&uid)).then(|| name.to_owned())
            });
            let effective = mask(status, "CapEff:");
            Running {
                process: *process,
                user: user.unwrap_or(uid),
                capabilities: Capability::of_mask(effective),
                all: effective != 0 && effective == all,
                no_new_privileges: field(status, "NoNewPrivs:") == "1",
                helper: helper.map(|(process, ..)| *process),
            }
        })
        .collect();
    found.sort_by_key(|running| running.process);
    found
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim()
}

fn mask(status: &str, name: &str) -> u64 {
    u64::from_str_radix(field(status, name), 16).unwrap_or(0)
}

/// What the routers that run may do, a line each.
pub(crate) fn text(routers: &[Running]) -> String {
    routers.iter().fold(String::new(), |mut text, r| {
        let names: Vec<String> = r.capabilities.iter().map(Capability::to_string).collect();
        let capabilities = match &names[..] {
            _ if r.all => "all capabilities".to_owned(),
            [] => "no capabilities".to_owned(),
            names => format!("capabilities {}", names.join(" ")),
        };
        let privileges = if r.no_new_privileges { ", no new privileges" } else { "" };
        let helper = r.helper.map_or_else(String::new, |h| format!(", devices opened by process {h}"));
        let _ = writeln!(
            text,
            "router      process {} runs as {}, {capabilities}{privileges}{helper}",
            r.process, r.user
        );
        text
    })
}

/// The same as JSON.
pub(crate) fn json(routers: &[Running]) -> Value {
    let one = |r: &Running| {
        let names: Vec<String> = r.capabilities.iter().map(Capability::to_string).collect();
        json!({"process": r.process, "user": r.user, "capabilities": names, "all": r.all,
            "no_new_privileges": r.no_new_privileges, "helper": r.helper})
    };
    routers.iter().map(one).collect()
}
