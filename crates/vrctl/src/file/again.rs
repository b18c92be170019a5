//! A host file of which only a part is read: what has changed in it since it was read before, or where the
//! host is. With a thousand routers, reading all of it takes longer than starting one.
//!
//! Only the headers of tables are looked at, where they are written as usual. In any other case, and if
//! anything is wrong, all of the file is read.

use super::model::{HostFile, VirtualRouter};
use super::raw::{HELP, RawFile, RawHost};
use super::reader::Reader;
use lang::{Diagnostics, Source, Span};
use launch::settings;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use toml::de::DeTable;

const BLANKS: &str = "                                                                ";

/// What tables that follow each other are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About<'a> {
    Host,
    Router(&'a str),
    /// Ports, links, and what is before the first table.
    Rest,
}

/// What the header in a line says; `None`: it is no header in a usual form.
fn header(line: &str) -> Option<About<'_>> {
    let of_list = line.starts_with("[[");
    let inner = line.get(1 + usize::from(of_list)..)?;
    let (path, after) = inner.split_once(']')?;
    let after = if of_list { after.strip_prefix(']')? } else { after }.trim();
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    if !path.bytes().all(plain) || !(after.is_empty() || after.starts_with('#')) {
        return None;
    }
    let mut words = path.split('.');
    match (words.next()?, words.next()) {
        ("host", None) => Some(About::Host),
        ("router", Some(name)) => Some(About::Router(name)),
        ("port" | "link", _) => Some(About::Rest),
        _ => None,
    }
}

type Parts<'a> = Vec<(About<'a>, Range<usize>)>;

/// The parts of a text without [long strings](has_long_strings); `None`: they cannot be told by its lines, or
/// a router's entry is in two parts.
fn parts(text: &str) -> Option<Parts<'_>> {
    let mut parts = vec![(About::Rest, 0..0)];
    let mut routers = HashSet::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start_matches([' ', '\t']);
        let (last, place) = parts.last_mut()?;
        match start.starts_with('[').then(|| header(start)) {
            Some(None) => return None,
            Some(Some(about)) if about != *last => {
                if let About::Router(name) = about
                    && !routers.insert(name)
                {
                    return None;
                }
                parts.push((about, at..at + line.len()));
            }
            _ => place.end = at + line.len(),
        }
        at += line.len();
    }
    Some(parts)
}

/// Whether there may be a string of several lines, with lines in it that look like headers.
fn has_long_strings(text: &str) -> bool {
    text.as_bytes().windows(3).any(|three| three == b"\"\"\"" || three == b"'''")
}

/// Whether a part of a text is one: no list and no string is continued after it. What is kept has no long
/// strings either: see [`place_entries`].
fn stands_alone(text: &str) -> bool {
    !has_long_strings(text) && DeTable::parse_recoverable(text).1.is_empty()
}

/// Gives the routers of a text the places of their entries. Those that [`Reader`] has found to depend on more
/// than their entry have none.
pub(super) fn place_entries(host: &mut HostFile, text: &str) {
    place((!has_long_strings(text)).then(|| parts(text)).flatten().unwrap_or_default(), host);
}

fn place(parts: Parts<'_>, host: &mut HostFile) {
    let entries: HashMap<&str, Range<usize>> = (parts.into_iter())
        .filter_map(|(about, place)| match about {
            About::Router(name) => Some((name, place)),
            About::Host | About::Rest => None,
        })
        .collect();
    for router in &mut host.routers {
        let place = entries.get(router.name.as_str());
        let place = place.filter(|place| place.contains(&(router.span.start as usize)));
        router.entry = router.entry.and(place).map(|place| Span::new(0, place.start, place.end));
    }
}

/// Reads a text of which routers' entries are in `before` as well; only the others are read. `None`: there
/// is something wrong in it, or all must be read for another reason.
pub(super) fn read_again(
    source: &Source,
    dir: &Path,
    stem: &str,
    before: &HostFile,
) -> Option<(HostFile, Diagnostics)> {
    let (text, old) = (&source.text, before.sources.text(0));
    let known: HashMap<&str, (&VirtualRouter, &str)> = (before.routers.iter())
        .filter_map(|router| {
            let entry = router.entry?;
            Some((router.name.as_str(), (router, old.get(entry.start as usize..entry.end as usize)?)))
        })
        .collect();
    let mut kept = Vec::new();
    // With blanks in place of what is known, places stay what they are.
    let mut rest = String::with_capacity(text.len());
    let mut whole_from = 0;
    let parts = parts(text)?;
    for (about, place) in &parts {
        let same = match about {
            About::Router(name) => {
                known.get(name).filter(|(_, entry)| text.get(place.clone()) == Some(*entry))
            }
            About::Host | About::Rest => None,
        };
        let Some((router, _)) = same else {
            rest.push_str(text.get(place.clone())?);
            continue;
        };
        if !stands_alone(rest.get(whole_from..)?) {
            return None;
        }
        let by = place.start as i64 - i64::from(router.entry?.start);
        kept.push(router.moved(by));
        for from in (0..place.len()).step_by(BLANKS.len()) {
            rest.push_str(BLANKS.get(..place.len() - from).unwrap_or(BLANKS));
        }
        whole_from = rest.len();
    }
    if kept.is_empty() || !stands_alone(rest.get(whole_from..)?) {
        return None;
    }
    for interface in kept.iter_mut().flat_map(|router| &mut router.interfaces) {
        interface.link = None;
    }
    let mut reader = Reader::new(dir, stem);
    let raw: RawFile = settings::read(&rest, HELP, &mut reader.diags)?;
    let mut host = reader.host(raw, kept);
    // What the entries that were kept depend on.
    let ports = |host: &HostFile| host.ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
    let names: HashSet<&str> = host.routers.iter().map(|router| router.name.as_str()).collect();
    let same = host.name == before.name
        && host.dir == before.dir
        && ports(&host) == ports(before)
        && !reader.other_addresses
        && names.len() == host.routers.len();
    place(parts, &mut host);
    (same && !reader.diags.has_errors()).then_some((host, reader.diags))
}

/// What the beginning of a text says of the host; `None`: all must be read.
pub(super) fn host_alone(text: &str) -> Option<RawHost> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        host: RawHost,
    }
    // In a text without errors there is one such table, and it ends where the next one begins.
    let (mut at, mut inside) = (0, false);
    for line in text.split_inclusive('\n') {
        let start = line.trim_start_matches([' ', '\t']);
        if start.starts_with('[') {
            if inside {
                break;
            }
            inside = header(start)? == About::Host;
        }
        at += line.len();
    }
    let own = text.get(..at).filter(|own| inside && own.len() < text.len())?;
    if has_long_strings(own) {
        return None;
    }
    let mut diags = Diagnostics::new();
    let part: Part = settings::read(own, HELP, &mut diags)?;
    diags.is_empty().then_some(part.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lang::SourceMap;

    const FILE: &str = r#"# a comment
[host]
name = "edge"

[port.wan]
device = "eth0"
default = "red.DEV0"
[port.lan]
device = "net_null0"

[router.red]
program = "red.click"
share = 2
[router.red.limits]
routes = 1000
[[router.red.interface]]
port = "wan"
vlan = 10
[[router.red.interface]]
name = "INSIDE"
[[link]]
ends = ["red.INSIDE", "blue.DEV1"]

[router.blue]   # its owner is a group
program = "blue.click"
owner = "@netops"
[router.blue.control]
interfaces = ["DEV0"]
[[router.blue.interface]]
port = "lan"
addresses = ["192.0.2.1/24"]
[[router.blue.interface]]
"#;

    const GREEN: &str =
        "[router.green]\nprogram = \"green.click\"\n[[router.green.interface]]\nport = \"lan\"\n";

    fn whole(text: &str) -> (Option<HostFile>, Diagnostics) {
        let source = Source::new("t.toml", text);
        HostFile::read_text(&source, Path::new("/conf"))
    }

    /// The same text read again after `FILE`; `None`: all of it must be read.
    fn again(text: &str) -> Option<(HostFile, Diagnostics)> {
        let before = whole(FILE).0.unwrap();
        read_again(&Source::new("t.toml", text), Path::new("/conf"), "t", &before)
    }

    fn all_of(host: HostFile, diags: &Diagnostics) -> String {
        format!("{:?}\n{diags:?}", HostFile { sources: SourceMap::new(), ..host })
    }

    #[test]
    fn what_is_read_again_is_as_if_all_was_read() {
        let moved = FILE.replace("# a comment\n", "");
        let (head, blue) = FILE.split_at(FILE.find("[router.blue]").unwrap());
        let red = head.find("[router.red]").unwrap();
        for text in [
            FILE.to_owned(),
            format!("{FILE}{GREEN}"),
            format!("{GREEN}\n{FILE}"),
            FILE.replace("[router.red]", &format!("{GREEN}[router.red]")),
            moved,
            // Nobody is on the port `wan`.
            format!("{}{}", &head[..red], blue)
                .replace("[[link]]", "")
                .replace("default = \"red.DEV0\"\n", ""),
            FILE.replace("routes = 1000", "routes = 1001"),
            FILE.replace("ends = [\"red.INSIDE\", \"blue.DEV1\"]", "ends = [\"blue.DEV1\", \"red.INSIDE\"]"),
            FILE.replace("[[link]]\nends = [\"red.INSIDE\", \"blue.DEV1\"]\n", ""),
            format!("router.green.program = \"x\"\nrouter.green.interface = [{{ port = \"wan\" }}]\n{FILE}"),
        ] {
            let (host, diags) = again(&text).unwrap_or_else(|| panic!("not read again:\n{text}"));
            let (expected, messages) = whole(&text);
            let (mut diags, mut messages) = (diags, messages);
            diags.sort();
            messages.sort();
            messages.set_sources(SourceMap::new());
            let host = HostFile { warnings: Diagnostics::new(), ..host };
            assert_eq!(all_of(host, &diags), all_of(expected.unwrap(), &messages), "{text}");
        }
    }

    /// Errors, and what the entries that did not change depend on.
    #[test]
    fn in_doubt_all_is_read() {
        let red = whole(FILE).0.unwrap().routers[0].clone();
        let (address, entry) = (red.interfaces[1].address(), red.entry.unwrap());
        let entry = &FILE[entry.start as usize..entry.end as usize];
        for text in [
            format!("{FILE}{GREEN}speed = 1\n"),
            format!("{FILE}[router.green]\n"),
            format!("{FILE}[router.red]\n"),
            format!("{FILE}{}", GREEN.replace("[router.green]", "[router.\"green\"]")),
            format!(
                "{FILE}{}",
                GREEN.replace("\"lan\"", "\"wan\"\nvlan = 10\nmac = \"02:00:00:00:00:07\"\nvlan = 11")
            ),
            format!("{FILE}{}mac = \"{address}\"\n", GREEN),
            format!("{FILE}[router.green.variables]\nA = \"\"\"\n[router.red]\n\"\"\"\n{GREEN}"),
            format!("router.red.share = 3\n{FILE}"),
            // Wrong, although every entry is as it was.
            FILE.replace(entry, &format!("[host.x]\na = [\n{entry}]\n")),
            FILE.replace(entry, &format!("[router.green]\nfilter = [\n{entry}]\n")),
            FILE.replace("edge", "core"),
            FILE.replace("[port.wan]", "[port.dmz]\ndevice = \"eth7\"\n[port.wan]"),
            FILE.replace("default = \"red.DEV0\"", "default = \"red.DEV7\""),
            "[host]\nname = \"edge\"\n".to_owned(),
        ] {
            assert!(again(&text).is_none(), "{text}");
        }
        // A second router that has the same frames.
        let twice = GREEN.replace("\"lan\"", "\"wan\"\nvlan = 10\nmac = \"02:00:00:00:00:07\"");
        let both = format!("{FILE}{twice}{}", twice.replace("green", "gray"));
        assert!(again(&format!("{FILE}{twice}")).is_some() && again(&both).is_none());
        assert!(whole(&both).1.has_errors());
    }

    #[test]
    fn the_host_is_found_without_the_rest() {
        let name = |text: &str| host_alone(text).map(|raw| raw.name.map(|name| name.into_inner()));
        assert_eq!(name(FILE), Some(Some("edge".into())));
        assert_eq!(
            name(&FILE.replace("[router.blue]", "[router.blue]\nspeed = 7\nx = [")),
            Some(Some("edge".into()))
        );
        assert_eq!(name("[port.p]\n[host]\n[router.r]\n"), Some(None));
        for text in
            ["[host]\nnam = 1\n", "[\"host\"]\n", "[host]\nname = \"\"\"a\"\"\"\n", "[host]\nname = \n", ""]
        {
            assert_eq!(name(&format!("{text}[port.p]\n")), None, "{text}");
        }
    }
}
