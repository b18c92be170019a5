//! What a host file names and this machine does not have. That is no error of the file, which may be written
//! elsewhere, but the host cannot run here.

use crate::file::{HostFile, Owner, usable};
use lang::{Diagnostic, Diagnostics};
use nix::unistd::{Group, User};

/// Warnings about processors that this process may not use, and about owners that are not known here.
#[must_use]
pub fn lacking(host: &HostFile) -> Diagnostics {
    let mut diags = Diagnostics::new();
    let usable = usable();
    let cores = host.cores.iter().zip(&host.core_spans);
    let cores = cores.chain(host.router_core_spans.iter().map(|(core, span)| (core, span)));
    for (core, span) in cores.filter(|(core, _)| !usable.contains(core)) {
        let all: Vec<String> = usable.iter().map(usize::to_string).collect();
        diags.push(
            Diagnostic::warning(*span, format!("this process may not use processor {core}"))
                .with_help(format!("it may use {}", all.join(", "))),
        );
    }
    for router in &host.routers {
        let Some(owner) = &router.owner else { continue };
        // An error of the look-up does not say that there is none.
        let (unknown, what) = match owner {
            Owner::User(name) => (User::from_name(name).is_ok_and(|user| user.is_none()), "user"),
            Owner::Group(name) => (Group::from_name(name).is_ok_and(|group| group.is_none()), "group"),
        };
        if unknown {
            let (Owner::User(name) | Owner::Group(name)) = owner;
            let message = format!("this machine has no {what} '{name}', the owner of {}", router.name);
            diags.push(
                Diagnostic::warning(router.owner_span, message)
                    .with_help("a user is written as in \"alice\", a group as in \"@netops\""),
            );
        }
    }
    diags.set_sources(host.sources.clone());
    diags
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn unknown_processors_and_owners_are_named_with_their_places() {
        let text = |cores: &str, one: &str, other: &str| {
            let mut text = format!("[host]\ncores = [{cores}]\n[port.p]\ndevice = \"eth0\"\n");
            for (router, owner) in [("a", one), ("b", other)] {
                text += &format!(
                    "[router.{router}]\nprogram = \"p.click\"\nowner = \"{owner}\"\n[[router.{router}.interface]]\nport = \"p\"\n"
                );
            }
            text
        };
        let lacks = |text: &str| {
            let host = HostFile::parse("edge.toml", text, Path::new("/conf"))
                .unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
            lacking(&host)
        };
        let here = usable()[0];
        assert!(lacks(&text(&here.to_string(), "root", "@root")).is_empty());
        let all = lacks(&text(&format!("{here}, 8191"), "no-such-user", "@no-such-group"));
        let lines = all.render_plain(all.sources());
        for line in [
            "edge.toml:2: warning: this process may not use processor 8191",
            "edge.toml:7: warning: this machine has no user 'no-such-user', the owner of a",
            "edge.toml:12: warning: this machine has no group 'no-such-group', the owner of b",
        ] {
            assert!(lines.contains(line), "{line} is not in\n{lines}");
        }
        assert!(!all.has_errors() && all.len() == 3);
    }
}
