//! `valiant doctor` and `valiant ports`: what this machine offers.

use crate::running;
use clap::Args;
use dpdk::probe::{Crypto, Machine, Node, Severity};
use dpdk::{Eal, EalOptions, Hugepages, PortKind};
use launch::output::print;
use launch::progress::waiting;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

#[derive(Args)]
pub(crate) struct JsonArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn yes(b: bool) -> &'static str {
    if b { "yes" } else { "no" }
}

fn kind(k: Option<PortKind>) -> &'static str {
    match k {
        Some(PortKind::AfXdp) => "AF_XDP",
        Some(PortKind::AfPacket) => "AF_PACKET",
        Some(PortKind::Device) => "DPDK",
        Some(PortKind::Virtual) => "virtual",
        None => "none",
    }
}

/// What this machine has, what is missing, and the command that fixes it. Fails if no router can run.
pub(crate) fn doctor(args: &JsonArgs) -> ExitCode {
    let machine = waiting(false, "examining this machine", || {
        let mut machine = Machine::probe();
        // The algorithms of crypto devices are known only when they are opened, which needs DPDK's EAL and
        // root.
        let can_start =
            machine.rights.root && !machine.findings.iter().any(|f| f.severity == Severity::Fatal);
        if can_start
            && Eal::init(&EalOptions { hugepages: Hugepages::Never, ..EalOptions::default() }).is_ok()
        {
            machine.try_crypto();
        }
        machine
    });
    let fatal = machine.findings.iter().any(|f| f.severity == Severity::Fatal);
    if args.json {
        print(&format!("{}\n", machine_json(&machine)));
    } else {
        print(&machine_text(&machine));
    }
    if fatal { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn machine_text(m: &Machine) -> String {
    let mut t = String::new();
    let features =
        |on: bool| m.cpu_features.iter().filter(|f| f.1 == on).map(|f| f.0).collect::<Vec<_>>().join(" ");
    let _ = writeln!(
        t,
        "DPDK        {}, {} drivers{}",
        m.dpdk_version,
        m.drivers.len(),
        m.driver_directory
            .as_ref()
            .map_or_else(|| " in this program".to_owned(), |d| format!(" in {}", d.display()))
    );
    let _ = writeln!(t, "kernel      {}", m.kernel);
    let _ = writeln!(t, "processor   {}", m.cpu_model);
    let _ = writeln!(t, "  has       {}", features(true));
    let missing = features(false);
    if !missing.is_empty() {
        let _ = writeln!(t, "  lacks     {missing}");
    }
    let isolated = m.cores.iter().filter(|c| c.isolated).count();
    let siblings = m.cores.iter().any(|c| c.siblings.len() > 1);
    let _ = writeln!(
        t,
        "cores       {} ({} usable, {isolated} isolated, SMT {})",
        m.cores.len(),
        m.cores.iter().filter(|c| c.allowed).count(),
        if siblings { "on" } else { "off" }
    );
    for node in &m.nodes {
        let pages: Vec<String> = node
            .hugepages
            .iter()
            .map(|h| format!("{} of {} x {} kB free", h.free, h.total, h.page_bytes / 1024))
            .collect();
        let pages = if pages.is_empty() {
            "no hugepages".to_owned()
        } else {
            format!("hugepages: {}", pages.join(", "))
        };
        let _ = writeln!(t, "NUMA node {} {} MB, {pages}", node.id, node.memory_mb);
    }
    let r = &m.rights;
    let _ = writeln!(
        t,
        "rights      root {}, net_admin {}, net_raw {}, ipc_lock {}, bpf {}, sys_nice {}",
        yes(r.root),
        yes(r.net_admin),
        yes(r.net_raw),
        yes(r.ipc_lock),
        yes(r.bpf),
        yes(r.sys_nice)
    );
    t += &running::text(&running::routers());
    let _ = writeln!(
        t,
        "AF_XDP      {}",
        m.af_xdp_missing.as_deref().map_or("yes".to_owned(), |why| format!("no: {why}"))
    );
    let _ = writeln!(t, "TUN/TAP     {}", yes(m.tun));
    let _ = writeln!(t, "VFIO        {}, {} IOMMU groups", yes(m.vfio), m.iommu_groups);
    t += &crypto_text(m);
    t += &ports_text(m);
    if m.findings.is_empty() {
        t += "\nnothing is missing\n";
    }
    for f in &m.findings {
        let word = match f.severity {
            Severity::Fatal => "cannot run",
            Severity::Missing => "missing",
            Severity::Slow => "slower",
        };
        let _ = write!(t, "\n{word}: {}\n", f.what);
        if !f.fix.is_empty() {
            let _ = writeln!(t, "  fix: {}", f.fix);
        }
    }
    t
}

/// The type and the algorithms of a crypto device, as text; `None` for hardware that is not present.
fn crypto_words(c: &Crypto) -> Option<String> {
    Some(match (&c.tried, c.installed) {
        (_, false) => format!("not installed; to install it: {}", c.fix),
        (None, _) if c.idle => return None,
        (None, _) => "installed; run as root to see its algorithms".to_owned(),
        (Some(Err(why)), _) => format!("does not work here: {why}"),
        (Some(Ok(able)), _) => {
            let algorithms: Vec<String> = (able.algorithms.iter())
                .map(|(a, long)| {
                    format!("{} {}", a.name(), if *long { "128 to 256 bits" } else { "128 bits" })
                })
                .collect();
            // A device in software has any number of queues.
            let how = match (able.info.hardware, able.info.synchronous) {
                (true, _) => format!("hardware, {}", count(able.info.max_queues, "queue")),
                (_, true) => "called directly".to_owned(),
                _ => "through queues".to_owned(),
            };
            let algorithms =
                if algorithms.is_empty() { "nothing for ESP".to_owned() } else { algorithms.join(", ") };
            format!("{algorithms}; {how}")
        }
    })
}

fn crypto_text(m: &Machine) -> String {
    let mut t = String::new();
    for c in &m.crypto {
        if let Some(words) = crypto_words(c) {
            let _ = writeln!(t, "crypto      {:17} {words}", c.name);
        }
    }
    let idle: Vec<&str> = m.crypto.iter().filter(|c| c.idle).map(|c| c.name.as_str()).collect();
    if !idle.is_empty() {
        let _ = writeln!(t, "crypto      DPDK drivers whose hardware is not present: {}", idle.join(" "));
    }
    t
}

fn crypto_json(m: &Machine) -> Value {
    let one = |c: &Crypto| {
        let mut value =
            json!({"name": c.name, "installed": c.installed, "works": null, "algorithms": [], "fix": c.fix});
        match &c.tried {
            Some(Ok(able)) => {
                value["works"] = json!(true);
                value["algorithms"] = (able.algorithms.iter())
                    .map(|(a, long)| json!({"name": a.name(), "key_bits": if *long { vec![128, 256] } else { vec![128] }}))
                    .collect();
                value["driver"] = json!(able.info.driver);
                value["queues"] = if able.info.hardware { json!(able.info.max_queues) } else { Value::Null };
                value["hardware"] = json!(able.info.hardware);
                value["synchronous"] = json!(able.info.synchronous);
            }
            Some(Err(why)) => {
                value["works"] = json!(false);
                value["reason"] = json!(why);
            }
            None if c.idle => value["hardware"] = json!(true),
            None => {}
        }
        value
    };
    m.crypto.iter().map(one).collect()
}

/// So many, with the word in the right form.
fn count(n: impl Into<u64>, one: &str) -> String {
    let n = n.into();
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

fn ports_text(m: &Machine) -> String {
    let mut t = String::new();
    for p in &m.interfaces {
        let i = &p.interface;
        let _ = writeln!(
            t,
            "port        {:15} {:9} {}, MTU {}, {}, driver {}{}",
            i.name,
            kind(p.kind),
            count(i.rx_queues, "queue"),
            i.mtu,
            if i.up { "up" } else { "down" },
            if i.driver.is_empty() { "-" } else { &i.driver },
            if p.reason.is_empty() { String::new() } else { format!(" ({})", p.reason) }
        );
    }
    for d in &m.pci {
        let _ = writeln!(
            t,
            "port        {:15} {:9} PCI {:04x}:{:04x}, driver {}{}",
            d.address,
            if d.ready { "DPDK" } else { "none" },
            d.id.0,
            d.id.1,
            d.driver.as_deref().unwrap_or("-"),
            if d.fix.is_empty() { String::new() } else { format!("; to use it: {}", d.fix) }
        );
    }
    t
}

fn ports_json(m: &Machine) -> Value {
    let interfaces = m.interfaces.iter().map(|p| {
        let i = &p.interface;
        json!({"name": i.name, "kind": kind(p.kind), "reason": p.reason, "driver": i.driver,
            "mac": lang::args::EtherAddr(i.mac).to_string(), "mtu": i.mtu, "rx_queues": i.rx_queues, "tx_queues": i.tx_queues, "up": i.up, "running": i.running})
    });
    let pci = m.pci.iter().map(|d| {
        json!({"name": d.address, "kind": if d.ready { "DPDK" } else { "none" }, "driver": d.driver, "node": d.node,
            "interfaces": d.interfaces, "fix": d.fix})
    });
    interfaces.chain(pci).collect()
}

fn machine_json(m: &Machine) -> Value {
    let features: serde_json::Map<_, _> =
        m.cpu_features.iter().map(|(name, on)| ((*name).to_owned(), json!(on))).collect();
    let cores: Value = (m.cores.iter())
        .map(|c| {
            json!({"id": c.id, "node": c.node, "siblings": c.siblings, "isolated": c.isolated, "usable": c.allowed})
        })
        .collect();
    let hugepages = |n: &Node| -> Value {
        n.hugepages.iter().map(|h| json!({"bytes": h.page_bytes, "total": h.total, "free": h.free})).collect()
    };
    let nodes: Value = (m.nodes.iter())
        .map(|n| json!({"id": n.id, "memory_mb": n.memory_mb, "hugepages": hugepages(n)}))
        .collect();
    let findings: Value = (m.findings.iter())
        .map(
            |f| json!({"severity": format!("{:?}", f.severity).to_lowercase(), "what": f.what, "fix": f.fix}),
        )
        .collect();
    json!({
        "dpdk": {"version": m.dpdk_version, "drivers": m.drivers},
        "kernel": m.kernel,
        "processor": {"model": m.cpu_model, "features": features},
        "cores": cores,
        "nodes": nodes,
        "rights": {"root": m.rights.root, "net_admin": m.rights.net_admin, "net_raw": m.rights.net_raw, "ipc_lock": m.rights.ipc_lock,
            "bpf": m.rights.bpf, "sys_nice": m.rights.sys_nice, "memlock_bytes": m.rights.memlock_bytes},
        "af_xdp": {"available": m.af_xdp_missing.is_none(), "reason": m.af_xdp_missing},
        "routers": running::json(&running::routers()),
        "tun": m.tun,
        "vfio": {"available": m.vfio, "iommu_groups": m.iommu_groups},
        "crypto": crypto_json(m),
        "ports": ports_json(m),
        "findings": findings,
    })
}

/// The ports that a configuration can use.
pub(crate) fn ports(args: &JsonArgs) -> ExitCode {
    let machine = Machine::probe();
    if args.json {
        print(&format!("{}\n", ports_json(&machine)));
        return ExitCode::SUCCESS;
    }
    let text = ports_text(&machine);
    if text.is_empty() {
        print("no interface and no PCI network device here\n");
    }
    print(&text);
    print(&format!("\nDPDK drivers for device arguments such as net_null0: {}\n", machine.drivers.join(" ")));
    ExitCode::SUCCESS
}
