//! `[router.NAME.allow]`: what a router's program may name outside the router.

use super::model::{Scheme, VirtualRouter};
use super::raw::RawAllow;
use super::reader::Reader;
use lang::Diagnostic;
use launch::settings::at;
use runtime::{Allow, Socket, whole};
use std::path::PathBuf;
use toml::Spanned;

/// The namespace of the host itself, which has no name.
const OWN: &str = ".";

/// An address to listen at, with a path that is as written.
fn socket(text: &str) -> Option<Socket> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| Socket::Unix(PathBuf::from(path)));
    }
    let rest = text.strip_prefix("tcp:")?;
    let (all, port) = rest.strip_prefix("*:").map_or((false, rest), |port| (true, port));
    let port = port.bytes().all(|c| c.is_ascii_digit()).then(|| port.parse().ok())?;
    port.filter(|port| *port != 0).map(|port| Socket::Tcp { port, all })
}

impl Reader<'_> {
    /// What the program of a router may name.
    pub(super) fn allow(&mut self, router: &str, raw: &RawAllow, scheme: Scheme) -> Allow {
        let mut allow = Allow { router: router.to_owned(), ..Allow::default() };
        for (list, paths) in [(&raw.read, &mut allow.read), (&raw.write, &mut allow.write)] {
            let given = list.iter().flatten();
            paths.extend(given.filter_map(|path| self.allowed_path(path)));
        }
        for text in raw.sockets.iter().flatten() {
            match socket(text.get_ref()) {
                Some(Socket::Unix(path)) => allow.sockets.push(Socket::Unix(whole(&self.dir.join(path)))),
                Some(tcp) => allow.sockets.push(tcp),
                None => {
                    let message = format!("'{}' is not an address to listen at", text.get_ref());
                    let help = "as in \"tcp:7777\" (this host alone), \"tcp:*:7777\" (all hosts) or \"unix:/run/blue.chat\"";
                    self.diags.error_with_help(at(text), message, help);
                }
            }
        }
        for name in raw.devices.iter().flatten() {
            let text = name.get_ref();
            if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '/') {
                let help = "a device is a network interface as in \"tun0\", or a crypto device";
                self.diags.error_with_help(at(name), format!("'{text}' is not a device"), help);
                continue;
            }
            allow.devices.push(text.clone());
        }
        if let Some(first) = raw.devices.iter().flatten().next().filter(|_| scheme != Scheme::Shared) {
            let message = format!("`devices` is without effect in the scheme {scheme}");
            let warning = Diagnostic::warning(at(first), message);
            self.diags
                .push(warning.with_help("its process makes no devices; [router.NAME.control] gives it TAPs"));
        }
        for name in raw.namespaces.iter().flatten() {
            let text = name.get_ref();
            if text != OWN && netlink::Namespace::named(text).is_err() {
                let help = "as `ip netns list` shows them; \".\" is that of the host itself";
                let message = format!("'{text}' is not a valid name for a network namespace");
                self.diags.error_with_help(at(name), message, help);
                continue;
            }
            allow.namespaces.push((text != OWN).then(|| text.clone()));
        }
        allow
    }

    fn allowed_path(&mut self, path: &Spanned<String>) -> Option<PathBuf> {
        let text = path.get_ref();
        if text == "-" {
            return Some(PathBuf::from(text));
        }
        let wrong = if text.is_empty() {
            Some("an empty path")
        } else if text.contains(['*', '?', '~', '\0']) {
            Some("a pattern in place of a path")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let help = "name a file, or a directory: what is below it is allowed too";
            self.diags.error_with_help(at(path), format!("'{text}': {wrong}"), help);
            return None;
        }
        let whole = whole(&self.dir.join(text));
        if whole.parent().is_none() {
            let warning = Diagnostic::warning(at(path), "this allows all files of the host");
            self.diags.push(warning.with_help("name the directory that the router needs"));
        }
        Some(whole)
    }

    /// No address to listen at is that of two routers.
    pub(super) fn listening(&mut self, routers: &[VirtualRouter]) {
        let mut used: Vec<(&Socket, &VirtualRouter)> = Vec::new();
        for router in routers {
            for socket in &router.allow.sockets {
                let same = |other: &Socket| match (other, socket) {
                    (Socket::Tcp { port, .. }, Socket::Tcp { port: other, .. }) => port == other,
                    (one, other) => one == other,
                };
                match used.iter().find(|(other, first)| first.name != router.name && same(other)) {
                    Some((_, first)) => {
                        let message = format!(
                            "{} and {} are both allowed to listen at {socket}",
                            first.name, router.name
                        );
                        self.diags.push(
                            Diagnostic::error(router.span, message)
                                .with_note(first.span, "the other one is here")
                                .with_help("give each router an address of its own in `sockets`"),
                        );
                    }
                    None => used.push((socket, router)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::HostFile;
    use std::path::Path;

    fn parse(scheme: &str, allow: &str, other: &str) -> Result<HostFile, String> {
        let text = format!(
            "[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\nscheme = \"{scheme}\"\n[router.blue.allow]\n{allow}\n\
             [[router.blue.interface]]\nport = \"p\"\n[router.red]\nprogram = \"p.click\"\n{other}\n\
             [[router.red.interface]]\nport = \"p\"\nvlan = 7\n"
        );
        HostFile::parse("edge.toml", &text, Path::new("/conf")).map_err(|d| d.render(d.sources(), false))
    }

    #[test]
    fn what_is_allowed_is_read() {
        let host = parse(
            "shared",
            "read = [\"/etc/blue/\", \"keys/../blue.key\", \"-\"]\nwrite = [\"out\"]\nsockets = [\"tcp:7\", \"tcp:*:8\", \"unix:chat\"]\n\
             devices = [\"tun0\"]\nnamespaces = [\"lab\", \".\"]",
            "",
        );
        let host = host.unwrap();
        let allow = &host.routers[0].allow;
        assert_eq!(allow.read, [Path::new("/etc/blue"), Path::new("/conf/blue.key"), Path::new("-")]);
        assert_eq!(allow.write, [Path::new("/conf/out")]);
        let sockets: Vec<String> = allow.sockets.iter().map(ToString::to_string).collect();
        assert_eq!(sockets, ["tcp:7", "tcp:*:8", "unix:/conf/chat"]);
        assert_eq!(allow.namespaces, [Some("lab".to_owned()), None]);
        assert_eq!(host.routers[1].allow, Allow { router: "red".into(), ..Allow::default() });
        assert_eq!(host.warnings.render_plain(host.warnings.sources()), "");
    }

    #[test]
    fn errors_have_places_and_say_what_to_do() {
        for (allow, other, message, help) in [
            ("read = [\"\"]", "", "an empty path", "name a file"),
            ("write = [\"/tmp/*\"]", "", "a pattern in place of a path", "a directory"),
            ("read = \"/tmp\"", "", "expected a list", ""),
            ("reads = []", "", "unknown field `reads`", "read"),
            ("sockets = [\"7\"]", "", "'7' is not an address to listen at", "tcp:7777"),
            ("sockets = [\"tcp:0\"]", "", "'tcp:0' is not an address", "tcp:7777"),
            ("sockets = [\"tcp:65536\"]", "", "'tcp:65536' is not", "tcp:7777"),
            ("sockets = [\"tcp:+7\"]", "", "'tcp:+7' is not", "tcp:7777"),
            ("sockets = [\"unix:\"]", "", "'unix:' is not", "unix:/run"),
            ("devices = [\"a/b\"]", "", "'a/b' is not a device", "tun0"),
            ("namespaces = [\"../x\"]", "", "'../x' is not a valid name", "ip netns list"),
            (
                "sockets = [\"tcp:7\"]",
                "[router.red.allow]\nsockets = [\"tcp:*:7\"]",
                "blue and red are both allowed to listen at tcp:*:7",
                "of its own",
            ),
        ] {
            let told = parse("shared", allow, other).map(drop).unwrap_err();
            assert!(told.contains(message) && told.contains(help) && told.contains("edge.toml:"), "{told}");
        }
        let host = parse("hybrid", "devices = [\"tun0\"]\nread = [\"/\"]", "").unwrap();
        let told = host.warnings.render_plain(host.warnings.sources());
        assert!(told.contains("without effect in the scheme hybrid") && told.contains("all files"), "{told}");
    }
}
