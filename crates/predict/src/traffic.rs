//! Ports that a prediction can have: devices that nobody else uses, in place of a configuration's own; and
//! nothing else outside the process that would be changed.

use crate::text::declarations;
use dpdk::PortSpec;
use lang::{Config, quote, split_args, unquote};
use runtime::{Opens, Registry, Role};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

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
        let named = text.split_once('=').filter(|(device, file)| !device.contains('/') && !file.is_empty());
        // A device with arguments has such signs itself.
        let named =
            named.and_then(|named| if named.0.contains(',') { text.rsplit_once('=') } else { Some(named) });
        match named {
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
    let left_out = without_outside(&mut changed, registry, &mut notes);
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
                check(&file)?;
                let queues = format!(",rx_pcap={}", file.display()).repeat(queues(config, &name));
                format!("net_pcap_predict{number}{queues},infinite_rx=1")
            }
            (true, None) => {
                missing.push(name.clone());
                continue;
            }
        };
        let other = replaced.entry(name.clone()).or_insert(other).clone();
        let args = split_args(&config.elements[index].config);
        let args = args.iter().enumerate().map(|(n, arg)| {
            if n == at { with_value(&arg.text, "DEVNAME", &other) } else { arg.text.clone() }
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
    let mut text = declarations(&changed, |index| !left_out.contains(&index));
    for c in &config.connections {
        let (from, to) = (&config.elements[c.from.element].name, &config.elements[c.to.element].name);
        let _ = writeln!(text, "{from} [{}] -> [{}] {to};", c.from.port, c.to.port);
    }
    Ok((text, notes))
}

/// Keeps elements from what others would notice: they write no files and make no interfaces. Returns those
/// that only listen at a socket: a prediction has none.
fn without_outside(config: &mut Config, registry: &Registry, notes: &mut Vec<String>) -> Vec<usize> {
    let mut left_out = Vec::new();
    for (index, e) in config.elements.iter_mut().enumerate() {
        let opens = registry.get(&e.class).and_then(|class| class.opens);
        match opens {
            Some(Opens::Interface) => {
                notes.push(format!("{} :: {} makes no interface here: Idle has its place", e.name, e.class));
                (e.class, e.config) = ("Idle".to_owned(), String::new());
            }
            Some(Opens::Socket) => left_out.push(index),
            _ => {
                let writes = opens == Some(Opens::WrittenFile);
                let keyword = if writes { "FILENAME" } else { "OUTFILE" };
                let mut args: Vec<String> = split_args(&e.config).into_iter().map(|arg| arg.text).collect();
                let named = args.iter().position(|arg| value(arg, keyword).is_some());
                if let Some(at) = named.or(writes.then_some(0)).filter(|at| *at < args.len()) {
                    args[at] = with_value(&args[at], keyword, "/dev/null");
                    e.config = args.join(", ");
                    notes.push(format!("{} :: {} writes to /dev/null here", e.name, e.class));
                }
            }
        }
    }
    left_out
}

/// What follows a keyword.
fn value<'a>(arg: &'a str, keyword: &str) -> Option<&'a str> {
    arg.trim().strip_prefix(keyword).filter(|rest| rest.starts_with(char::is_whitespace)).map(str::trim)
}

/// An argument with another value; it keeps its keyword.
fn with_value(arg: &str, keyword: &str, other: &str) -> String {
    if value(arg, keyword).is_some() { format!("{keyword} {}", quote(other)) } else { quote(other) }
}

/// The argument that names the device, and the device.
fn device(config: &str) -> Option<(usize, String)> {
    let args = split_args(config);
    let named = args.iter().position(|arg| value(&arg.text, "DEVNAME").is_some());
    let at = named.unwrap_or(0);
    let text = args.get(at)?.text.trim();
    Some((at, unquote(value(text, "DEVNAME").unwrap_or(text))))
}

/// How many receive queues a device has to have, because elements name them.
fn queues(config: &Config, name: &str) -> usize {
    let of = config.elements.iter().filter(|e| device(&e.config).is_some_and(|(_, device)| device == name));
    let named = of.filter_map(|e| {
        split_args(&e.config).iter().find_map(|arg| value(&arg.text, "QUEUE")?.parse::<usize>().ok())
    });
    named.max().map_or(1, |last| last.saturating_add(1)).min(MOST_QUEUES)
}

/// The most queues of a port that plays a file: the driver has no more.
const MOST_QUEUES: usize = 16;

/// Whether opening a device disturbs nobody: it is made for this process, and neither writes a file nor uses
/// an interface of the kernel.
fn is_own(device: &str) -> bool {
    const OWN: [&str; 3] = ["net_null", "net_ring", "net_pcap"];
    const OUTSIDE: [&str; 5] = ["iface", "rx_iface", "rx_iface_in", "tx_iface", "tx_pcap"];
    let Ok(PortSpec::Vdev(text)) = PortSpec::parse(device) else { return false };
    let outside = |arg: &str| arg.split_once('=').is_some_and(|(key, _)| OUTSIDE.contains(&key.trim()));
    OWN.iter().any(|own| text.starts_with(own)) && !text.split(',').any(outside)
}

fn file(traffic: &Traffic, device: &str) -> Option<PathBuf> {
    let own = traffic.of_devices.iter().find(|(name, _)| name == device).map(|(_, file)| file.clone());
    own.or_else(|| traffic.of_others.clone())
}

/// Whether a file can be the packets that come in.
fn check(file: &Path) -> Result<(), String> {
    /// The header of a capture file.
    const HEADER: usize = 24;
    /// Its first bytes: with microseconds or nanoseconds, in either order of bytes, and pcapng.
    const KINDS: [[u8; 4]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let wrong = |what: &dyn Display| Err(format!("--traffic {}: {what}", file.display()));
    // A pipe could be read only once.
    match std::fs::metadata(file) {
        Err(e) => return wrong(&e),
        Ok(there) if !there.is_file() => return wrong(&"it is no file"),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    match File::open(file).and_then(|file| file.take(HEADER as u64 + 1).read_to_end(&mut bytes)) {
        Err(e) => wrong(&e),
        Ok(_) if !KINDS.iter().any(|kind| bytes.starts_with(kind)) => wrong(&"it is no capture file (pcap)"),
        Ok(n) if n <= HEADER => wrong(&"there are no packets in it"),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::{LoadOptions, Source};

    #[test]
    fn devices_that_others_have_are_not_opened() {
        for own in ["net_null0", "net_ring0", "net_pcap0,rx_pcap=/tmp/a,infinite_rx=1"] {
            assert!(is_own(own), "{own}");
        }
        let others = [
            "eth0",
            "0000:03:00.0",
            "net_af_packet0,iface=a",
            "net_memif0",
            "net_tap0",
            "net_pcap0,iface=a",
            "net_pcap0,rx_iface_in=a",
            "net_pcap0,rx_pcap=a,tx_pcap=b",
        ];
        assert_eq!(others.into_iter().find(|device| is_own(device)), None);
    }

    #[test]
    fn traffic_is_of_a_device_or_of_all() {
        let mut traffic = Traffic::default();
        for text in ["eth0=a=b.pcap", "net_pcap0,rx_iface=x=c.pcap", "/a=b/d.pcap"] {
            traffic.add(text);
        }
        let named = [("eth0", "a=b.pcap"), ("net_pcap0,rx_iface=x", "c.pcap")];
        assert_eq!(traffic.of_devices, named.map(|(device, file)| (device.to_owned(), file.into())));
        assert_eq!(traffic.of_others, Some("/a=b/d.pcap".into()));
    }

    #[test]
    fn arguments_keep_their_keywords() {
        assert_eq!(device("0, DEVNAME\t\"et h\"").unwrap(), (1, "et h".to_owned()));
        assert_eq!(device("DEVNAMES").unwrap(), (0, "DEVNAMES".to_owned()));
        assert_eq!(with_value("FILENAME a", "FILENAME", "b"), "FILENAME \"b\"");
        assert_eq!(with_value("a", "FILENAME", "b"), "\"b\"");
    }

    #[test]
    fn files_without_packets_are_refused() {
        let path = std::env::temp_dir().join(format!("valiant-predict-{}", std::process::id()));
        let said = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path).err().unwrap_or_default()
        };
        assert!(said(b"rubbish").ends_with("it is no capture file (pcap)"));
        let mut pcap = vec![0; 24];
        pcap[..4].copy_from_slice(&[0xd4, 0xc3, 0xb2, 0xa1]);
        assert!(said(&pcap).ends_with("there are no packets in it"));
        pcap.push(0);
        assert_eq!(said(&pcap), "");
        std::fs::remove_file(&path).unwrap();
        assert!(check(&path).unwrap_err().contains("No such file"));
        assert!(check(&std::env::temp_dir()).unwrap_err().ends_with("it is no file"));
    }
    fn ports(text: &str, traffic: &[&str]) -> Result<(String, Vec<String>), String> {
        let registry = elements::registry();
        let config = lang::load(&[Source::new("test", text)], &LoadOptions::default(), &registry).unwrap();
        let mut all = Traffic::default();
        traffic.iter().for_each(|text| all.add(text));
        with_ports(&config, &registry, &all)
    }

    /// A file that looks as if packets were in it.
    fn capture(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("valiant-ports-{}-{name}", std::process::id()));
        std::fs::write(&path, [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0; 40]].concat()).unwrap();
        path.display().to_string()
    }

    const TWO: &str = "FromDevice(eth0, PROMISC true) -> Queue -> ToDevice(eth1); \
                       FromDevice(DEVNAME eth1) -> Queue -> ToDevice(DEVNAME \"eth0\");";

    #[test]
    fn interfaces_are_replaced_each_by_one_device() {
        let (a, b) = (capture("a"), capture("b"));
        let (text, notes) = ports(TWO, &[&a, &format!("eth1={b}")]).unwrap();
        [&a, &b].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let first = format!("\"net_pcap_predict0,rx_pcap={a},infinite_rx=1\"");
        let second = format!("\"net_pcap_predict1,rx_pcap={b},infinite_rx=1\"");
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
        let (one, comma) = (capture("one"), capture("a,b"));
        let error = ports(TWO, &[&format!("eth0={one}")]).unwrap_err();
        assert!(
            error.contains("which packets come from eth1?") && error.contains("--traffic eth1=FILE.pcap"),
            "{error}"
        );
        let error = ports(TWO, &[&one, &format!("eth7={one}")]).unwrap_err();
        assert!(
            error.contains("nothing receives from eth7; the configuration receives from eth0, eth1"),
            "{error}"
        );
        let error = ports(TWO, &[&comma]).unwrap_err();
        assert!(error.contains("comma"), "{error}");
        [&one, &comma].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
