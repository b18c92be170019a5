//! The routers that run on this machine, and their rights.

use dpdk::helper;
use dpdk::rights::Capability;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

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

/// The routers of this machine that this process can see.
pub(crate) fn routers() -> Vec<Running> {
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

/// The rights of the running routers, a line each.
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
