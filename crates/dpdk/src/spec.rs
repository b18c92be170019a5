//! The names of ports in configurations.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A port as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortSpec {
    /// A PCI address with its domain (`0000:03:00.0`), and devargs for its driver (`,key=value...`) or
    /// nothing.
    Pci {
        /// The address.
        address: String,
        /// The devargs, with the comma they begin with.
        devargs: String,
    },
    /// The devargs of a virtual device: `net_null0,size=60`.
    Vdev(String),
    /// The number of a port that DPDK already has.
    Id(u16),
    /// A Linux interface.
    Interface(String),
    /// An interface of a virtual router, `virtual:ROUTER/INTERFACE`, by what is behind the colon: a port
    /// without a device ([`crate::VirtualPort`]).
    Virtual(String),
}

impl PortSpec {
    /// Reads a port's name; see the variants. Nothing is opened, and nothing needs to exist.
    pub fn parse(text: &str) -> Result<PortSpec, Error> {
        let text = text.trim();
        let wrong = |reason: &str| Err(Error::PortSpec { spec: text.to_owned(), reason: reason.to_owned() });
        if text.is_empty() {
            return wrong("it is empty");
        }
        if text.bytes().any(|byte| byte == 0 || byte.is_ascii_control()) {
            return wrong("it has control characters");
        }
        if let Some(name) = text.strip_prefix("virtual:") {
            return if name.is_empty() || name.contains([' ', ',']) {
                wrong("an interface of a virtual router is virtual:ROUTER/INTERFACE")
            } else {
                Ok(PortSpec::Virtual(name.to_owned()))
            };
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return match text.parse() {
                Ok(id) => Ok(PortSpec::Id(id)),
                Err(_) => wrong("DPDK port numbers are below 65536"),
            };
        }
        let (name, devargs) = text.split_at(text.find(',').unwrap_or(text.len()));
        if let Some(address) = pci_address(name) {
            return Ok(PortSpec::Pci { address, devargs: devargs.to_owned() });
        }
        let name = name.strip_prefix("vdev:").unwrap_or(name);
        let driver = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
        if driver.starts_with("net_") || driver.starts_with("eth_") || driver.starts_with("virtio_user") {
            return Ok(PortSpec::Vdev(format!("{name}{devargs}")));
        }
        if !devargs.is_empty() {
            return wrong(
                "only PCI addresses and DPDK's virtual devices (`net_...`) take arguments after a comma",
            );
        }
        if name.len() >= libc::IFNAMSIZ || name.contains(['/', ' ', ':']) {
            return wrong(
                "it is not a PCI address (0000:03:00.0), a virtual device (net_...), a port number or an interface name",
            );
        }
        Ok(PortSpec::Interface(name.to_owned()))
    }

    /// The name of the DPDK device, without arguments; `None` for an interface or a number.
    pub(crate) fn device(&self) -> Option<&str> {
        match self {
            PortSpec::Pci { address, .. } => Some(address),
            PortSpec::Vdev(devargs) => devargs.split(',').next(),
            PortSpec::Id(_) | PortSpec::Interface(_) | PortSpec::Virtual(_) => None,
        }
    }
}

/// `[dddd:]bb:dd.f` in hexadecimal, completed and in lower case.
fn pci_address(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let mut parts = rest.rsplitn(3, ':');
    let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0000"));
    let hex =
        |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let valid =
        hex(domain, 4) && hex(bus, 2) && hex(device, 2) && matches!(function.as_bytes(), [b'0'..=b'7']);
    valid.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortSpec::Pci { address, devargs } => write!(f, "{address}{devargs}"),
            PortSpec::Vdev(text) | PortSpec::Interface(text) => f.write_str(text),
            PortSpec::Id(id) => id.fmt(f),
            PortSpec::Virtual(name) => write!(f, "virtual:{name}"),
        }
    }
}

impl FromStr for PortSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<PortSpec, Error> {
        PortSpec::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PortSpec {
        PortSpec::parse(text).unwrap()
    }

    #[test]
    fn every_kind() {
        let pci =
            |address: &str, devargs: &str| PortSpec::Pci { address: address.into(), devargs: devargs.into() };
        assert_eq!(parse("0000:03:00.0"), pci("0000:03:00.0", ""));
        assert_eq!(parse(" 3B:00.1,representor=0 "), pci("0000:3b:00.1", ",representor=0"));
        assert_eq!(parse("net_null0,size=60"), PortSpec::Vdev("net_null0,size=60".into()));
        assert_eq!(parse("vdev:net_ring0"), PortSpec::Vdev("net_ring0".into()));
        assert_eq!(parse("net_null0,size=60").device(), Some("net_null0"));
        assert_eq!(parse("0"), PortSpec::Id(0));
        assert_eq!(parse("eth0"), PortSpec::Interface("eth0".into()));
        assert_eq!(parse("br-lan.7"), PortSpec::Interface("br-lan.7".into()));
        assert_eq!(parse("net0"), PortSpec::Interface("net0".into()));
        assert_eq!(parse("virtual:blue/DEV0"), PortSpec::Virtual("blue/DEV0".into()));
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            " ",
            "65536",
            "eth0,x=1",
            "an interface",
            "a/b",
            "0000:03:00.8:",
            "0123456789abcdef",
            "a\0b",
            "virtual:",
            "virtual:a b",
        ] {
            assert!(PortSpec::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn text_and_back() {
        for text in ["0000:03:00.0,a=b", "net_pcap0,rx_pcap=/a,infinite_rx=1", "7", "eth0", "virtual:a/b"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }
}
