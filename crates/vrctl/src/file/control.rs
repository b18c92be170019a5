//! `[router.NAME.control]`: a network namespace whose kernel controls a router.

use super::model::{Control, VirtualInterface, VirtualRouter, tap_variable};
use super::raw::{RawControl, RawInterface, RawRouter};
use super::reader::Reader;
use lang::Diagnostic;
use launch::settings::at;
use std::collections::BTreeMap;
use std::net::IpAddr;
use toml::Spanned;

/// The most bytes of an interface's name in Linux.
const LONGEST_NAME: usize = 15;

/// An address and the length of its network.
fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (1..=longest).contains(&length).then_some((address, length))
}

impl Reader<'_> {
    /// The addresses of an interface.
    pub(super) fn addresses(&mut self, raw: &RawInterface) -> Vec<(IpAddr, u8)> {
        let mut all = Vec::new();
        for text in raw.addresses.iter().flatten() {
            match address(text.get_ref()) {
                Some(address) => all.push(address),
                None => {
                    let message =
                        format!("'{}' is not an address with the length of its network", text.get_ref());
                    self.diags.error_with_help(
                        at(text),
                        message,
                        "as in \"192.0.2.1/24\" or \"2001:db8::1/64\"",
                    );
                }
            }
        }
        all
    }

    /// The control plane of a router.
    pub(super) fn control(
        &mut self,
        name: &str,
        raw: &RawRouter,
        interfaces: &[VirtualInterface],
    ) -> Option<Control> {
        let Some(control) = &raw.control else {
            for entry in &raw.interface {
                if let Some(address) = entry.get_ref().addresses.iter().flatten().next() {
                    let message = "`addresses` of an interface without a control plane";
                    let help = format!(
                        "add [router.{name}.control]: addresses are those of the TAPs in its namespace"
                    );
                    self.diags.error_with_help(at(address), message, help);
                }
            }
            return None;
        };
        let RawControl { namespace, interfaces: listed } = control.get_ref();
        let space = namespace.as_ref().map_or(name, |given| given.get_ref());
        if netlink::Namespace::named(space).is_err() {
            let place = namespace.as_ref().map(at);
            let message = format!("'{space}' is not a valid name for a network namespace");
            self.diags.push(Diagnostic::error(place, message).with_help("as `ip netns list` shows them"));
        }
        let taps = match listed {
            None => (0..interfaces.len()).collect(),
            Some(list) => list.iter().filter_map(|wanted| self.tap(wanted, interfaces)).collect::<Vec<_>>(),
        };
        for interface in taps.iter().filter_map(|tap| interfaces.get(*tap)) {
            if interface.name.len() > LONGEST_NAME {
                let message = format!("the name {} is too long for a TAP", interface.name);
                let help = format!("Linux allows {LONGEST_NAME} characters");
                self.diags.error_with_help(interface.span, message, help);
            }
        }
        for (number, entry) in raw.interface.iter().enumerate().filter(|(n, _)| !taps.contains(n)) {
            if let Some(address) = entry.get_ref().addresses.iter().flatten().next() {
                let message = format!("`addresses` of {}, which has no TAP", interfaces[number].name);
                self.diags.error_with_help(
                    at(address),
                    message,
                    "name it in `interfaces` of the control plane",
                );
            }
        }
        let control = Control { namespace: space.to_owned(), taps, span: at(control) };
        self.variables_of_control(raw, interfaces, &control);
        Some(control)
    }

    fn tap(&mut self, wanted: &Spanned<String>, interfaces: &[VirtualInterface]) -> Option<usize> {
        let found = interfaces.iter().position(|i| i.name == *wanted.get_ref());
        if found.is_none() {
            let known = interfaces.iter().map(|i| i.name.as_str());
            let message = format!("the router has no interface '{}'", wanted.get_ref());
            self.diags.push(Diagnostic::error(at(wanted), message).with_nearest(
                wanted.get_ref(),
                "the interface",
                known,
            ));
        }
        found
    }

    /// Variables that the control plane defines are not those of something else.
    fn variables_of_control(&mut self, raw: &RawRouter, interfaces: &[VirtualInterface], control: &Control) {
        let taps = control.taps.iter().filter_map(|tap| interfaces.get(*tap));
        let defined: Vec<String> = taps.map(|i| tap_variable(&i.name)).chain(["NETNS".to_owned()]).collect();
        for variable in raw.variables.keys().filter(|variable| defined.contains(variable.get_ref())) {
            let message = format!("${} is defined by the control plane", variable.get_ref());
            self.diags.push(
                Diagnostic::error(at(variable), message)
                    .with_note(control.span, "which is here")
                    .with_help("remove the variable"),
            );
        }
        for interface in interfaces.iter().filter(|i| defined.contains(&i.name)) {
            let message =
                format!("${} would be this device, and is defined by the control plane", interface.name);
            self.diags.error_with_help(interface.span, message, "give the interface another name");
        }
    }

    /// No namespace is that of two routers: their TAPs could have the same names.
    pub(super) fn namespaces(&mut self, routers: &[VirtualRouter]) {
        let mut used: BTreeMap<&str, &VirtualRouter> = BTreeMap::new();
        for router in routers {
            let Some(control) = &router.control else { continue };
            if let Some(first) = used.get(control.namespace.as_str()) {
                let message = format!(
                    "{} and {} have the same network namespace '{}'",
                    first.name, router.name, control.namespace
                );
                let note = first.control.as_ref().map_or(first.span, |control| control.span);
                self.diags.push(
                    Diagnostic::error(control.span, message)
                        .with_note(note, "the other one is here")
                        .with_help("set namespace = \"...\": each router has its own"),
                );
            } else {
                used.insert(&control.namespace, router);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::HostFile;
    use std::path::Path;

    #[test]
    fn addresses_have_a_length() {
        for (text, good) in [
            ("10.0.0.1/24", true),
            ("10.0.0.1", false),
            ("10.0.0.1/33", false),
            ("10.0.0.1/0", false),
            ("2001:db8::1/64", true),
            ("2001:db8::1/129", false),
            ("/24", false),
        ] {
            assert_eq!(address(text).is_some(), good, "{text}");
        }
    }

    fn parse(control: &str, interface: &str, other: &str) -> Result<HostFile, String> {
        let text = format!(
            "[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\n[router.blue.variables]\nA = \"1\"\n{control}\n\
             [[router.blue.interface]]\nport = \"p\"\n{interface}\n[[router.blue.interface]]\nport = \"p\"\nname = \"LAN\"\n{other}"
        );
        HostFile::parse("edge.toml", &text, Path::new("/conf")).map_err(|d| d.render_plain(d.sources()))
    }

    #[test]
    fn a_control_plane_has_a_namespace_and_taps() {
        let none = parse("", "", "").unwrap();
        assert_eq!(none.routers[0].control, None);
        let all =
            parse("[router.blue.control]", "addresses = [\"10.0.0.1/24\", \"2001:db8::1/64\"]", "").unwrap();
        let blue = &all.routers[0];
        let control = blue.control.as_ref().unwrap();
        assert_eq!((control.namespace.as_str(), control.taps.as_slice()), ("blue", &[0, 1][..]));
        assert_eq!(blue.interfaces[0].addresses.len(), 2);
        let defines = blue.defines();
        for (variable, value) in [("NETNS", "blue"), ("TAP0", "DEV0"), ("LAN_TAP", "LAN")] {
            assert!(defines.contains(&(variable.into(), value.into())), "{defines:?}");
        }
        let one = parse("[router.blue.control]\nnamespace = \"b\"\ninterfaces = [\"LAN\"]", "", "").unwrap();
        assert_eq!(one.routers[0].control.as_ref().unwrap().taps, [1]);
    }

    #[test]
    fn errors_of_a_control_plane() {
        let second = "[router.red]\nprogram = \"p.click\"\n[router.red.control]\nnamespace = \"blue\"\n\
                      [[router.red.interface]]\nport = \"p\"\n";
        for (control, interface, other, message) in [
            ("", "addresses = [\"10.0.0.1/24\"]", "", "`addresses` of an interface without a control plane"),
            ("[router.blue.control]", "addresses = [\"10.0.0.1\"]", "", "'10.0.0.1' is not an address"),
            ("[router.blue.control]\nnamespace = \"a/b\"", "", "", "'a/b' is not a valid name"),
            ("[router.blue.control]\ninterfaces = [\"LAM\"]", "", "", "has no interface 'LAM'"),
            (
                "[router.blue.control]\ninterfaces = [\"LAN\"]",
                "addresses = [\"10.0.0.1/8\"]",
                "",
                "DEV0, which has no TAP",
            ),
            ("NETNS = \"x\"\n[router.blue.control]", "", "", "$NETNS is defined by the control plane"),
            ("[router.blue.control]", "name = \"TAP1\"", "name2 = 3", "name2"),
            ("[router.blue.control]", "", second, "blue and red have the same network namespace 'blue'"),
            ("[router.blue.control]", "name = \"A_LONG_NAME_1234\"", "", "too long for a TAP"),
            ("[router.blue.control]", "name = \"NETNS\"", "", "$NETNS would be this device"),
        ] {
            let errors = parse(control, interface, other).map(drop).unwrap_err();
            assert!(
                errors.contains(message) && errors.contains("edge.toml:"),
                "{message} is not in\n{errors}"
            );
        }
    }
}
