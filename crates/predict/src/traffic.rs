//! Ports that a prediction can have: devices that nobody else uses, in place of a configuration's own.

use crate::text::declarations;
use dpdk::PortSpec;
use lang::{Config, quote, split_args, unquote};
use runtime::{Registry, Role};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// The packets that come in.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Capture files of devices, by their names.
    pub of_devices: Vec<(String, PathBuf)>,
    /// The capture file of all others.
    pub of_others: Option<PathBuf>,
}

impl Traffic {
    /// `FILE`, or `DEVICE=FILE` for one device.
    pub fn add(&mut self, text: &str) {
        match text.split_once('=').filter(|(device, file)| !device.contains('/') && !file.is_empty()) {
            Some((device, file)) => self.of_devices.push((device.to_owned(), file.into())),
            None => self.of_others = Some(text.into()),
        }
    }
}

/// The configuration with other ports in place of interfaces and NICs, and what was replaced, for the user.
///
/// # Errors
/// A message: packets for a port are missing, or given for a port that is not there.
pub(crate) fn with_ports(
    config: &Config,
    registry: &Registry,
    traffic: &Traffic,
) -> Result<(String, Vec<String>), String> {
    let role = |index: usize| registry.get(&config.elements[index].class).map(|class| class.role);
    let ports: Vec<(usize, bool)> = (0..config.elements.len())
        .filter_map(|index| match role(index)? {
            Role::DeviceSource => Some((index, true)),
            Role::DeviceSink => Some((index, false)),
            _ => None,
        })
        .collect();
    let mut sources: Vec<String> = Vec::new();
    for (index, _) in ports.iter().filter(|(_, source)| *source) {
        sources.extend(device(&config.elements[*index].config).map(|(_, name)| name));
    }
    for (name, _) in &traffic.of_devices {
        if !sources.contains(name) {
            let known = sources.iter().filter(|name| !is_own(name)).cloned().collect::<Vec<_>>().join(", ");
            return Err(format!("nothing receives from {name}; the configuration receives from {known}"));
        }
    }
    let (mut changed, mut notes, mut missing) = (config.clone(), Vec::new(), Vec::new());
    let mut replaced: BTreeMap<String, String> = BTreeMap::new();
    for (index, _) in ports {
        let Some((at, name)) = device(&config.elements[index].config) else { continue };
        if is_own(&name) {
            continue;
        }
        let number = replaced.len();
        let other = match (sources.contains(&name), file(traffic, &name)) {
            (false, _) => format!("net_null_predict{number},no-rx=1"),
            (true, Some(file)) => {
                if file.to_string_lossy().contains(',') {
                    return Err(format!("{}: DPDK takes no file with a comma in its name", file.display()));
                }
                format!("net_pcap_predict{number},rx_pcap={},infinite_rx=1", file.display())
            }
            (true, None) => {
                missing.push(name.clone());
                continue;
            }
        };
        let other = replaced.entry(name.clone()).or_insert(other).clone();
        let args = split_args(&config.elements[index].config);
        let args = args.iter().enumerate().map(|(n, arg)| {
            let keyword = if arg.text.starts_with("DEVNAME ") { "DEVNAME " } else { "" };
            if n == at { format!("{keyword}{}", quote(&other)) } else { arg.text.clone() }
        });
        changed.elements[index].config = args.collect::<Vec<_>>().join(", ");
    }
    if !missing.is_empty() {
        missing.sort();
        missing.dedup();
        return Err(format!(
            "which packets come from {}? --traffic FILE.pcap says it, or --traffic {}=FILE.pcap for one port",
            missing.join(", "),
            missing[0]
        ));
    }
    for (name, other) in &replaced {
        let short = other.split(',').next().unwrap_or_default();
        notes.push(format!(
            "{name} is not opened: {short} has its place, what its own driver takes is not in the sum"
        ));
    }
    let mut text = declarations(&changed, |_| true);
    for c in &config.connections {
        let (from, to) = (&config.elements[c.from.element].name, &config.elements[c.to.element].name);
        let _ = writeln!(text, "{from} [{}] -> [{}] {to};", c.from.port, c.to.port);
    }
    Ok((text, notes))
}

/// The argument that names the device, and the device.
fn device(config: &str) -> Option<(usize, String)> {
    let args = split_args(config);
    let named = args.iter().position(|arg| arg.text.starts_with("DEVNAME "));
    let at = named.unwrap_or(0);
    let text = args.get(at)?.text.trim();
    Some((at, unquote(text.strip_prefix("DEVNAME ").unwrap_or(text).trim())))
}

/// Whether opening a device disturbs nobody: it is made for this process.
fn is_own(device: &str) -> bool {
    const OWN: [&str; 4] = ["net_null", "net_ring", "net_pcap", "net_memif"];
    matches!(PortSpec::parse(device), Ok(PortSpec::Vdev(text)) if OWN.iter().any(|own| text.starts_with(own)) && !text.contains("iface="))
}

fn file(traffic: &Traffic, device: &str) -> Option<PathBuf> {
    let own = traffic.of_devices.iter().find(|(name, _)| name == device).map(|(_, file)| file.clone());
    own.or_else(|| traffic.of_others.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::{LoadOptions, Source};

    fn ports(text: &str, traffic: &[&str]) -> Result<(String, Vec<String>), String> {
        let registry = elements::registry();
        let config = lang::load(&[Source::new("test", text)], &LoadOptions::default(), &registry).unwrap();
        let mut all = Traffic::default();
        traffic.iter().for_each(|text| all.add(text));
        with_ports(&config, &registry, &all)
    }

    const TWO: &str = "FromDevice(eth0, PROMISC true) -> Queue -> ToDevice(eth1); \
                       FromDevice(DEVNAME eth1) -> Queue -> ToDevice(DEVNAME \"eth0\");";

    #[test]
    fn interfaces_are_replaced_each_by_one_device() {
        let (text, notes) = ports(TWO, &["a.pcap", "eth1=/tmp/b.pcap"]).unwrap();
        let first = "\"net_pcap_predict0,rx_pcap=a.pcap,infinite_rx=1\"";
        let second = "\"net_pcap_predict1,rx_pcap=/tmp/b.pcap,infinite_rx=1\"";
        for part in [
            format!("FromDevice({first}, PROMISC true)"),
            format!("ToDevice({second})"),
            format!("FromDevice(DEVNAME {second})"),
            format!("ToDevice(DEVNAME {first})"),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
        assert!(
            !text.contains("eth") && notes.len() == 2 && notes[0].contains("eth0 is not opened"),
            "{notes:?}"
        );
    }

    #[test]
    fn devices_of_the_process_and_ports_that_only_send_need_no_packets() {
        let (text, notes) = ports("FromDevice(net_null0) -> Queue -> ToDevice(0000:03:00.0);", &[]).unwrap();
        assert!(
            text.contains("FromDevice(net_null0)") && text.contains("net_null_predict0,no-rx=1"),
            "{text}"
        );
        assert_eq!(notes.len(), 1);
        // Frames would go to a real interface.
        let error = ports("FromDevice(\"net_pcap0,iface=eth0\") -> Discard;", &[]).unwrap_err();
        assert!(error.contains("which packets come from net_pcap0,iface=eth0"), "{error}");
    }

    #[test]
    fn packets_that_are_missing_or_go_nowhere_are_errors() {
        let error = ports(TWO, &["eth0=a.pcap"]).unwrap_err();
        assert!(
            error.contains("which packets come from eth1?") && error.contains("--traffic eth1=FILE.pcap"),
            "{error}"
        );
        let error = ports(TWO, &["a.pcap", "eth7=b.pcap"]).unwrap_err();
        assert!(
            error.contains("nothing receives from eth7; the configuration receives from eth0, eth1"),
            "{error}"
        );
        let error = ports(TWO, &["a,b.pcap"]).unwrap_err();
        assert!(error.contains("comma"), "{error}");
    }
}
