//! `[router.NAME.tcp]`: where a router's owner reaches it over TCP.

use super::model::{Tcp, VirtualRouter};
use super::raw::RawTcp;
use super::reader::Reader;
use lang::{Diagnostic, Span};
use launch::settings::at;
use runtime::Socket;
use std::net::{IpAddr, SocketAddr};
use toml::Spanned;

/// Whether two sockets cannot both listen.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // An IPv4 address in the form of an IPv6 one is the same address.
    let (one_ip, other_ip) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (one_ip == other_ip || one_ip.is_unspecified() || other_ip.is_unspecified())
}

impl Reader<'_> {
    /// Where the owner of a router reaches it.
    pub(super) fn tcp(&mut self, raw: &Spanned<RawTcp>) -> Option<Tcp> {
        let RawTcp { listen, token_file } = raw.get_ref();
        let text = listen.get_ref();
        let address = match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Some(address),
            Ok(_) => {
                let help = "choose a port, 1 to 65535: clients have to know it";
                self.diags.error_with_help(at(listen), format!("listen = '{text}': the port 0 is any"), help);
                None
            }
            Err(_) => {
                let bare = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
                let message = match bare {
                    Ok(_) => format!("listen = '{text}': an address without a port"),
                    Err(_) => format!("listen = '{text}' is not an IP address and a port"),
                };
                let help = "as in \"127.0.0.1:7001\" (this host alone), \"192.0.2.1:7001\" or \"[2001:db8::1]:7001\"";
                self.diags.error_with_help(at(listen), message, help);
                None
            }
        };
        if token_file.get_ref().is_empty() {
            let help = "name a file with one word in it, that its owner alone can read";
            self.diags.error_with_help(at(token_file), "token_file = ''", help);
            return None;
        }
        Some(Tcp {
            listen: address?,
            token_file: self.dir.join(token_file.get_ref()),
            span: at(listen),
            token_span: at(token_file),
        })
    }

    /// Nobody else listens where the owner of a router reaches it.
    pub(super) fn owners_listening(&mut self, routers: &[VirtualRouter]) {
        let all = || routers.iter().filter_map(|router| Some((router, router.tcp.as_ref()?)));
        for (at, (router, tcp)) in all().enumerate() {
            let taken = |message: String, note: Span| {
                Diagnostic::error(tcp.span, message)
                    .with_note(note, "the other one is here")
                    .with_help("choose another port in `listen`")
            };
            if let Some((other, first)) = all().take(at).find(|(_, other)| overlap(other.listen, tcp.listen))
            {
                let message = match other.tcp.as_ref().is_some_and(|other| other.listen == tcp.listen) {
                    true => format!("{} and {} both listen at {}", other.name, router.name, tcp.listen),
                    false => format!(
                        "{} listens at {}, and {} at {}: they cannot both",
                        other.name, first.listen, router.name, tcp.listen
                    ),
                };
                self.diags.push(taken(message, first.span));
            }
            let port = tcp.listen.port();
            let allows = |one: &&VirtualRouter| {
                let same =
                    |socket: &Socket| matches!(socket, Socket::Tcp { port: other, .. } if *other == port);
                one.allow.sockets.iter().any(same)
            };
            if let Some(other) = routers.iter().find(allows) {
                let message = format!(
                    "{} listens at {} for its owner, and the program of {} may listen at the port {port}",
                    router.name, tcp.listen, other.name
                );
                self.diags.push(taken(message, other.span));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::HostFile;
    use std::path::Path;

    fn parse(blue: &str, red: &str) -> Result<HostFile, String> {
        let text = format!(
            "[port.p]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\n{blue}\n[[router.blue.interface]]\nport = \"p\"\n\
             [router.red]\nprogram = \"p.click\"\n{red}\n[[router.red.interface]]\nport = \"p\"\nvlan = 7\n"
        );
        HostFile::parse("edge.toml", &text, Path::new("/conf")).map_err(|d| d.render(d.sources(), false))
    }

    fn listens(router: &str, listen: &str) -> String {
        format!("[router.{router}.tcp]\nlisten = \"{listen}\"\ntoken_file = \"{router}.token\"")
    }

    #[test]
    fn an_address_and_a_file_are_read() {
        let host = parse(&listens("blue", "127.0.0.1:7001"), &listens("red", "[::1]:7001")).unwrap();
        let tcp = host.routers[0].tcp.as_ref().unwrap();
        assert_eq!(
            (tcp.listen, tcp.token_file.as_path()),
            ("127.0.0.1:7001".parse().unwrap(), Path::new("/conf/blue.token"))
        );
        assert_eq!(host.routers[1].tcp.as_ref().unwrap().listen, "[::1]:7001".parse().unwrap());
        assert!(parse("", "").unwrap().routers[0].tcp.is_none());
    }

    #[test]
    fn errors_have_places_and_say_what_to_do() {
        let allow = "[router.red.allow]\nsockets = [\"tcp:*:7001\"]";
        for (blue, red, message, help) in [
            (listens("blue", "127.0.0.1"), "", "an address without a port", "\"127.0.0.1:7001\""),
            (listens("blue", "[::1]"), "", "an address without a port", "\"127.0.0.1:7001\""),
            (listens("blue", "7001"), "", "'7001' is not an IP address and a port", "\"127.0.0.1:7001\""),
            (listens("blue", "localhost:7001"), "", "is not an IP address and a port", ""),
            (listens("blue", "127.0.0.1:65536"), "", "is not an IP address and a port", ""),
            (listens("blue", "127.0.0.1:0"), "", "the port 0 is any", "1 to 65535"),
            (listens("blue", "127.0.0.1:1").replace("blue.token", ""), "", "token_file = ''", "name a file"),
            ("[router.blue.tcp]\nlisten = \"127.0.0.1:1\"".to_owned(), "", "missing field `token_file`", ""),
            ("[router.blue.tcp]\ntoken_file = \"x\"".to_owned(), "", "missing field `listen`", ""),
            (
                listens("blue", "127.0.0.1:7001"),
                &listens("red", "127.0.0.1:7001"),
                "blue and red both listen at 127.0.0.1:7001",
                "another port",
            ),
            (
                listens("blue", "127.0.0.1:7001"),
                &listens("red", "0.0.0.0:7001"),
                "blue listens at 127.0.0.1:7001, and red at 0.0.0.0:7001",
                "another port",
            ),
            (
                listens("blue", "127.0.0.1:7001"),
                &listens("red", "[::ffff:127.0.0.1]:7001"),
                "blue listens at 127.0.0.1:7001, and red at [::ffff:127.0.0.1]:7001",
                "another port",
            ),
            (
                listens("blue", "192.0.2.1:7001"),
                allow,
                "blue listens at 192.0.2.1:7001 for its owner, and the program of red may listen at the port 7001",
                "another port",
            ),
        ] {
            let told = parse(&blue, red).map(drop).unwrap_err();
            assert!(
                told.contains(message) && told.contains(help) && told.contains("edge.toml:"),
                "{message}: {told}"
            );
        }
        // Its own program, and a virtual machine.
        let own =
            format!("{}\n[router.blue.allow]\nsockets = [\"tcp:7001\"]", listens("blue", "127.0.0.1:7001"));
        assert!(parse(&own, "").unwrap_err().contains("the program of blue may listen at the port 7001"));
        let machine = "[port.p]\ndevice = \"eth0\"\n[router.lab]\nmachine = true\nscheme = \"hybrid\"\n\
                       [router.lab.tcp]\nlisten = \"127.0.0.1:1\"\ntoken_file = \"x\"\n[[router.lab.interface]]\nport = \"p\"\n";
        let told = HostFile::parse("edge.toml", machine, Path::new("/conf")).unwrap_err();
        assert!(told.render_plain(told.sources()).contains("`tcp` of a virtual machine"));
    }
}
