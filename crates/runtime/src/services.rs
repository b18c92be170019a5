//! The machine's names of services: `/etc/services`, read when a name is not defined anywhere else.

use std::collections::HashMap;
use std::sync::OnceLock;
use wire::protocol::{TCP, UDP};

/// Ports by protocol and name.
type Services = HashMap<(u8, String), u16>;

static SERVICES: OnceLock<Services> = OnceLock::new();

/// The port of a service, by its name or an alias. A machine without the file has no such names.
pub(crate) fn port(protocol: u8, name: &str) -> Option<u16> {
    // A file that is not text is ignored.
    let all = SERVICES.get_or_init(|| parse(&std::fs::read_to_string("/etc/services").unwrap_or_default()));
    all.get(&(protocol, name.to_owned())).copied()
}

/// Reads lines of `NAME PORT/PROTOCOL [ALIAS]...`; the first definition of a name counts, and other lines are
/// ignored.
fn parse(text: &str) -> Services {
    let mut all = Services::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let (Some(name), Some((port, protocol))) =
            (words.next(), words.next().and_then(|w| w.split_once('/')))
        else {
            continue;
        };
        let protocol = match protocol {
            "tcp" => TCP,
            "udp" => UDP,
            _ => continue,
        };
        let Ok(port) = port.parse() else { continue };
        for name in std::iter::once(name).chain(words) {
            all.entry((protocol, name.to_owned())).or_insert(port);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let all = parse(
            "# comment\n\nldap 389/tcp # directory\nldap\t389/udp\nimap2 143/tcp imap imap-old\nimap 1/tcp\n\
             odd\nworse 70000/tcp\nsctp-only 9/sctp\nnone x/tcp\nlast 5/udp#6",
        );
        let get = |protocol, name: &str| all.get(&(protocol, name.to_owned())).copied();
        assert_eq!((get(TCP, "ldap"), get(UDP, "ldap")), (Some(389), Some(389)));
        assert_eq!(
            (get(TCP, "imap2"), get(TCP, "imap"), get(TCP, "imap-old")),
            (Some(143), Some(143), Some(143))
        );
        assert_eq!((get(UDP, "imap"), get(UDP, "last")), (None, Some(5)));
        assert_eq!(all.len(), 6);
    }
}
