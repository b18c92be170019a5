//! `valiant vr check`.

use crate::division;
use crate::file::{HostFile, InterfaceId, Tag, VirtualInterface, VirtualRouter};
use crate::hybrid::check_filter;
use crate::machine::lacking;
use crate::program::{CheckedProgram, check_program, source};
use crate::token::access;
use lang::{Diagnostic, Diagnostics};
use launch::output::print;
use launch::shortest;
use runtime::Registry;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// A host file, checked together with its programs.
pub(crate) struct Checked {
    host: Option<HostFile>,
    /// Messages about the file itself.
    about_file: Diagnostics,
    /// What this machine does not have.
    lacking: Diagnostics,
    /// For each router of the file; none if the program was not there.
    programs: Vec<Option<Result<CheckedProgram, Diagnostics>>>,
}

impl Checked {
    pub(crate) fn new(registry: &Arc<Registry>, file: &Path) -> Self {
        let (host, mut about_file) = HostFile::read(file);
        let workers = host.as_ref().map_or(1, |host| host.processors().len());
        let fair = host.as_ref().is_some_and(HostFile::fair);
        let mut programs = Vec::new();
        for (index, router) in host.iter().flat_map(|host| &host.routers).enumerate() {
            // A program that is not a file was reported with the host file.
            let program = router.program.as_deref().filter(|program| program.is_file());
            let text = program.map(source).transpose();
            let text = text.unwrap_or_else(|message| {
                about_file.error(router.program_span, message);
                None
            });
            let checked = text.map(|text| check_program(registry, router, text, workers, fair));
            for unused in checked.iter().flatten().flat_map(|program| &program.unused) {
                let interface = InterfaceId { router: index, interface: *unused };
                let name = host.as_ref().map(|host| host.name_of(interface)).unwrap_or_default();
                let span = router.interfaces[*unused].span;
                about_file.warning(span, format!("the program does not use the interface {name}"));
            }
            programs.push(checked);
            about_file.append(host.as_ref().and_then(|host| access(host, router).err()).unwrap_or_default());
            about_file.append(host.as_ref().map(|host| division::check(host, router)).unwrap_or_default());
            about_file
                .append(host.as_ref().map(|host| check_filter(registry, host, router)).unwrap_or_default());
        }
        about_file.sort();
        let lacking = host.as_ref().map(lacking).unwrap_or_default();
        Self { host, about_file, lacking, programs }
    }

    /// The host, if nothing is wrong with the file and the programs.
    pub(crate) fn good(&self) -> Option<&HostFile> {
        let failed = self.about_file.has_errors() || self.programs.iter().flatten().any(Result::is_err);
        self.host.as_ref().filter(|_| !failed)
    }

    /// Prints the result. Returns the exit status.
    pub(crate) fn show(&self, as_json: bool) -> ExitCode {
        let whole = self.good();
        if as_json {
            let value = whole.map_or_else(|| self.errors(), |host| self.value(host));
            print(&format!("{value}\n"));
        } else {
            self.report();
            if let Some(host) = whole {
                print(&self.table(host));
            }
        }
        if whole.is_none() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn routers(
        &self,
    ) -> impl Iterator<Item = (&VirtualRouter, &Option<Result<CheckedProgram, Diagnostics>>)> {
        self.host.iter().flat_map(|host| &host.routers).zip(&self.programs)
    }

    /// The messages about each program, by its router.
    fn about_programs(&self) -> impl Iterator<Item = (&VirtualRouter, &Diagnostics)> {
        self.routers().filter_map(|(router, checked)| match checked.as_ref()? {
            Ok(program) => Some((router, &program.warnings)),
            Err(errors) => Some((router, errors)),
        })
    }

    fn report(&self) {
        launch::report(&self.about_file);
        launch::report(&self.lacking);
        for (router, diags) in self.about_programs() {
            let mut named = Diagnostics::new();
            for d in diags {
                let message = format!("router {}: {}", router.name, d.message);
                named.push(Diagnostic { message, ..d.clone() });
            }
            named.set_sources(diags.sources().clone());
            launch::report(&named);
        }
    }

    /// All messages, those about a program with the name of the router.
    fn messages(&self) -> Vec<Value> {
        let list = |diags: &Diagnostics| match diags.to_json(diags.sources()) {
            Value::Array(list) => list,
            other => vec![other],
        };
        let mut all = list(&self.about_file);
        all.extend(list(&self.lacking));
        for (router, diags) in self.about_programs() {
            all.extend(list(diags).into_iter().map(|mut message| {
                message["router"] = router.name.as_str().into();
                message
            }));
        }
        all
    }

    fn errors(&self) -> Value {
        json!({"ok": false, "diagnostics": self.messages()})
    }

    fn value(&self, host: &HostFile) -> Value {
        let ports: Vec<Value> = (host.ports.iter())
            .map(|port| {
                json!({"name": port.name, "device": port.device.to_string(), "sharing": port.sharing.to_string(),
                    "default": port.default.map(|id| host.name_of(id))})
            })
            .collect();
        let routers: Vec<Value> = (host.routers.iter().zip(&self.programs).enumerate())
            .map(|(index, (router, checked))| {
                let interfaces: Vec<Value> = (router.interfaces.iter().enumerate())
                    .map(|(interface, i)| {
                        let peer = host.peer(InterfaceId { router: index, interface });
                        json!({"name": i.name, "device": router.device(i).to_string(),
                            "port": i.port.map(|port| &host.ports[port].name),
                            "link": peer.map(|id| host.name_of(id)),
                            "tag": tag_value(i.tag), "mac": i.address()})
                    })
                    .collect();
                let elements = checked.iter().flatten().next().map(|program| program.elements);
                json!({"name": router.name, "program": router.program.as_deref().map(shortest),
                    "scheme": router.scheme.to_string(), "share": router.share,
                    "owner": router.owner.as_ref().map(ToString::to_string),
                    "limits": router.limits.set().collect::<std::collections::BTreeMap<_, _>>(),
"socket": host.socket(router), "tcp": router.tcp.as_ref().map(|tcp| tcp.listen.to_string()),
                    "elements": elements, "interfaces": interfaces})
            })
            .collect();
        let links: Vec<_> = host.links.iter().map(|link| link.ends.map(|id| host.name_of(id))).collect();
        json!({"ok": true, "name": host.name, "cores": host.processors(), "directory": host.directory,
            "ports": ports, "routers": routers, "links": links, "warnings": self.messages()})
    }

    /// The routers and their interfaces, a line each.
    fn table(&self, host: &HostFile) -> String {
        let heading =
            ["router", "scheme", "share", "owner", "elements", "interface", "connected to", "tag", "address"];
        let mut rows: Vec<Vec<String>> = vec![heading.map(str::to_owned).to_vec()];
        for (index, (router, checked)) in host.routers.iter().zip(&self.programs).enumerate() {
            let elements = checked.iter().flatten().next().map_or(0, |program| program.elements);
            let owner = router.owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            let first = [
                router.name.clone(),
                router.scheme.to_string(),
                router.share.to_string(),
                owner,
                elements.to_string(),
            ];
            for (number, interface) in router.interfaces.iter().enumerate() {
                // The router's own columns are filled in its first line alone.
                let mut row = if number == 0 { first.to_vec() } else { vec![String::new(); first.len()] };
                let id = InterfaceId { router: index, interface: number };
                row.extend(interface_columns(host, id, interface));
                rows.push(row);
            }
        }
        let widths: Vec<usize> = (0..heading.len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut text = format!(
            "{}: {}, {}, {}, {}, no errors\n",
            host.name,
            count(host.ports.len(), "port"),
            count(host.routers.len(), "router"),
            count(host.interfaces().count(), "interface"),
            count(host.links.len(), "link")
        );
        for row in rows.iter().filter(|_| !host.routers.is_empty()) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a String cannot fail.
                let _ = write!(line, "{cell:width$}  ");
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

fn interface_columns(host: &HostFile, id: InterfaceId, interface: &VirtualInterface) -> [String; 4] {
    let to = match (interface.port, host.peer(id)) {
        (Some(port), _) => format!("port {}", host.ports[port].name),
        (None, Some(peer)) => host.name_of(peer),
        (None, None) => "-".to_owned(),
    };
    let tag = if interface.tag == Tag::Mac { "-".to_owned() } else { interface.tag.to_string() };
    [interface.name.clone(), to, tag, interface.address()]
}

/// A tag as the file has it; null without one.
fn tag_value(tag: Tag) -> Value {
    match tag {
        Tag::Mac => Value::Null,
        Tag::Vlan(id) => json!({"vlan": id}),
        Tag::Qinq(outer, inner) => json!({"qinq": [outer, inner]}),
        Tag::Mpls(label) => json!({"mpls": label}),
        Tag::Vni(vni) => json!({"vni": vni}),
        Tag::Queue(queue) => json!({"queue": queue}),
        Tag::Whole => json!({"whole": true}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_divided_is_said_with_both_places() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("p.click"), "FromDevice($DEV0) -> Discard;").unwrap();
        let check = |device: &str, blue: &str, red: &str| {
            let text = format!(
                "[port.p]\ndevice = \"{device}\"\nsharing = \"hardware\"\n[router.blue]\nprogram = \"p.click\"\nscheme = \"direct\"\n\
                 [[router.blue.interface]]\nport = \"p\"\n{blue}\n[router.red]\nprogram = \"p.click\"\n[[router.red.interface]]\n\
                 port = \"p\"\n{red}\n"
            );
            let file = dir.path().join("edge.toml");
            std::fs::write(&file, text).unwrap();
            let checked = Checked::new(&Arc::new(elements::registry()), &file);
            checked.about_file.render(checked.about_file.sources(), false)
        };
        for (blue, red, message) in [
            (
                "vlan = 7",
                "vlan = 7",
                "blue.DEV0 is to have all frames with VLAN 7 of the port p, and red.DEV0 has VLAN 7 there",
            ),
            ("vlan = 7", "qinq = [7, 8]", "and red.DEV0 has QinQ 7, 8 there"),
            ("qinq = [7, 8]", "vlan = 9", "blue.DEV0 has QinQ 7, 8: the kernel gives"),
            ("mpls = 17", "vlan = 9", "blue.DEV0 has MPLS"),
        ] {
            let told = check("eth0", blue, red);
            assert!(told.contains("edge.toml:7: ") && told.contains(message), "{message}: {told}");
            assert!(!blue.contains("vlan") || told.contains("edge.toml:12: "), "{told}");
        }
        for (blue, red) in
            [("vlan = 7", "vlan = 8"), ("", "vlan = 8"), ("vlan = 7", "qinq = [8, 7]"), ("", "")]
        {
            assert_eq!(check("eth0", blue, red), "", "{blue} {red}");
            // A router that starts is a copy of that of the file.
            let file = HostFile::read(&dir.path().join("edge.toml")).0.unwrap();
            assert!(!division::check(&file, &file.routers[0].clone()).has_errors(), "{blue} {red}");
        }
        assert!(check("0000:03:00.0", "vlan = 7", "vlan = 8").contains("runs on Linux interfaces so far"));
    }

    #[test]
    fn a_program_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        // A file whose first byte cannot be read, not by root either.
        let text = "[port.p]\ndevice = \"eth0\"\n[router.r]\nprogram = \"/proc/self/mem\"\n[[router.r.interface]]\nport = \"p\"\n";
        std::fs::write(&file, text).unwrap();
        let checked = Checked::new(&Arc::new(elements::registry()), &file);
        let errors = checked.about_file.render_plain(checked.about_file.sources());
        assert!(errors.contains("edge.toml:4: the program /proc/self/mem: "), "{errors}");
        assert_eq!(checked.show(true), ExitCode::FAILURE);
    }
}
