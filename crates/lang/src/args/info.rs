//! The arguments of information elements: definitions of names.

use super::fromarg::FromArg;
use super::known::ANNOTATION_SIZE;
use super::named::AnnoOffset;
use super::names::NameDb;
use super::number::parse_unsigned;
use super::values::{EtherAddr, Ip6Prefix, IpPrefix};
use crate::quote::{Arg, split_words};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::protocol::{TCP, UDP};

/// The possible meanings of a word of an `AddressInfo` argument.
#[derive(Default)]
struct Kinds {
    ether: Option<EtherAddr>,
    ip: Option<Ipv4Addr>,
    net: Option<IpPrefix>,
    ip6: Option<Ipv6Addr>,
    net6: Option<Ip6Prefix>,
}

impl Kinds {
    fn of(text: &str, names: &NameDb) -> Kinds {
        let mut k = Kinds { ether: EtherAddr::from_arg(text, names).ok(), ..Kinds::default() };
        match Ipv4Addr::from_arg(text, names) {
            Ok(a) => k.ip = Some(a),
            Err(_) => {
                k.net = IpPrefix::parse(text, names, false).ok();
                k.ip = k.net.filter(|n| n.addr != n.network()).map(|n| n.addr);
            }
        }
        match Ipv6Addr::from_arg(text, names) {
            Ok(a) => k.ip6 = Some(a),
            Err(_) => {
                k.net6 = Ip6Prefix::parse(text, names, false).ok();
                let host = |n: &Ip6Prefix| n.addr.to_bits().checked_shl(u32::from(n.len)).unwrap_or(0) != 0;
                k.ip6 = k.net6.filter(host).map(|n| n.addr);
            }
        }
        k
    }

    fn count(&self) -> usize {
        usize::from(self.ether.is_some())
            + usize::from(self.ip.is_some())
            + usize::from(self.net.is_some())
            + usize::from(self.ip6.is_some())
            + usize::from(self.net6.is_some())
    }
}

/// Sets a slot, unless an earlier word with only this meaning has set it for the name.
fn put<T>(slot: &mut Option<T>, value: Option<T>, sure: bool, given: &mut bool) {
    if value.is_some() {
        if sure || !*given {
            *slot = value;
        }
        *given = true;
    }
}

impl NameDb {
    /// Defines the addresses of one `AddressInfo` argument, `NAME ADDRESS...`, in this place.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words; addresses that were understood are defined.
    pub fn define_address_info(&mut self, arg: &Arg) -> Result<(), Vec<String>> {
        let words: Vec<String> = split_words(&arg.text).into_iter().map(|w| w.text).collect();
        let [name, addresses @ ..] = words.as_slice() else { return Ok(()) };
        let mut errors = Vec::new();
        if addresses.is_empty() {
            errors.push("expected 'NAME [ADDRS]'".to_string());
        }
        let mut given = [false; 5];
        for word in addresses {
            let kinds = Kinds::of(word, self);
            let sure = kinds.count() == 1;
            if kinds.count() == 0 {
                errors.push(format!("'{word}' is not a recognizable address"));
                continue;
            }
            let a = self.addresses_mut(name);
            put(&mut a.ether, kinds.ether, sure, &mut given[0]);
            put(&mut a.ip, kinds.ip, sure, &mut given[1]);
            put(&mut a.net, kinds.net, sure, &mut given[2]);
            put(&mut a.ip6, kinds.ip6, sure, &mut given[3]);
            put(&mut a.net6, kinds.net6, sure, &mut given[4]);
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Defines the port of one `PortInfo` argument, `NAME PORT[/PROTO] [ALIAS...]`, in this place. A line of
    /// `/etc/services` has that form.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words.
    pub fn define_port_info(&mut self, arg: &Arg) -> Result<(), Vec<String>> {
        let words: Vec<String> = split_words(&arg.text).into_iter().map(|w| w.text).collect();
        let [name, rest @ ..] = words.as_slice() else { return Ok(()) };
        if name.starts_with('#') {
            return Ok(());
        }
        let bad = || vec!["expected 'NAME PORT/PROTO'".to_string()];
        let [spec, aliases @ ..] = rest else { return Err(bad()) };
        let (port, proto) = spec.split_once('/').map_or((spec.as_str(), None), |(p, q)| (p, Some(q)));
        let port = parse_unsigned(port, u64::from(u16::MAX)).map_err(|_| bad())? as u16;
        let protos: Vec<u8> = match proto {
            None | Some("tcpudp") => vec![TCP, UDP],
            Some(p) => match self.protocol(p).map(u64::from).or_else(|| parse_unsigned(p, 255).ok()) {
                Some(n) if n <= 255 => vec![n as u8],
                _ => return Ok(()),
            },
        };
        for name in std::iter::once(name).chain(aliases.iter().take_while(|a| !a.starts_with('#'))) {
            for p in &protos {
                self.define_port(*p, name, port);
            }
        }
        Ok(())
    }

    /// Defines the annotation of one `AnnotationInfo` argument, `NAME OFFSET [SIZE]`, in this place.
    /// Arguments that begin with `CHECK_OVERLAP` define nothing.
    ///
    /// # Errors
    /// What is wrong with it, in Click's words.
    pub fn define_annotation_info(&mut self, arg: &Arg) -> Result<(), Vec<String>> {
        let words: Vec<String> = split_words(&arg.text).into_iter().map(|w| w.text).collect();
        let [name, rest @ ..] = words.as_slice() else { return Ok(()) };
        if name.starts_with('#') || name == "CHECK_OVERLAP" {
            return Ok(());
        }
        if AnnoOffset::from_arg(name, &NameDb::new()).is_ok() {
            return Err(vec![format!("bad NAME '{name}'")]);
        }
        let bad = || vec![format!("bad entry for '{name}'")];
        let (at, size) = match rest {
            [at] => (at, 0),
            [at, size] => (at, parse_unsigned(size, u64::from(ANNOTATION_SIZE)).map_err(|_| bad())? as u16),
            _ => return Err(bad()),
        };
        let a = AnnoOffset::from_arg(at, self).map_err(|_| bad())?;
        if a.offset + size > ANNOTATION_SIZE || (size != 0 && a.size != 0 && size != a.size) {
            return Err(bad());
        }
        self.define_annotation(name, a.offset, if size == 0 { a.size } else { size });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::split_args;

    fn arg(text: &str) -> Arg {
        split_args(text).remove(0)
    }

    #[test]
    fn addresses() {
        let mut db = NameDb::new();
        db.define_address_info(&arg("mauer 10.0.0.1/8 00:50:BA:85:84:A9 fe80::1")).unwrap();
        assert_eq!(db.ip("mauer:ip").unwrap(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(db.ip_prefix("mauer:ipnet").unwrap().to_string(), "10.0.0.1/8");
        assert_eq!(db.ether("mauer").unwrap().to_string(), "00-50-BA-85-84-A9");
        assert_eq!(db.ip6("mauer").unwrap().to_string(), "fe80::1");
        db.define_address_info(&arg("net 10.0.0.0/8")).unwrap();
        assert_eq!(db.ip("net"), None);
        db.define_address_info(&arg("alias mauer:ip")).unwrap();
        assert_eq!(db.ip("alias"), db.ip("mauer"));
        assert_eq!(db.define_address_info(&arg("x")), Err(vec!["expected 'NAME [ADDRS]'".into()]));
        assert_eq!(
            db.define_address_info(&arg("x ?")),
            Err(vec!["'?' is not a recognizable address".into()])
        );
    }

    #[test]
    fn ports() {
        let mut db = NameDb::new();
        db.define_port_info(&arg("mine 99 alias # more")).unwrap();
        db.define_port_info(&arg("only 7/udp")).unwrap();
        assert_eq!((db.port(6, "mine"), db.port(17, "alias")), (Some(99), Some(99)));
        assert_eq!((db.port(6, "only"), db.port(17, "only")), (None, Some(7)));
        assert!(db.define_port_info(&arg("x")).is_err());
        assert!(db.define_port_info(&arg("x y/tcp")).is_err());
        assert_eq!(db.define_port_info(&arg("x 1/nothing")), Ok(()));
    }

    #[test]
    fn annotations() {
        let mut db = NameDb::new();
        db.define_annotation_info(&arg("A 4 2")).unwrap();
        assert_eq!(db.annotation("A"), Some((4, 2)));
        db.define_annotation_info(&arg("B PAINT")).unwrap();
        assert_eq!(db.annotation("B"), Some((16, 1)));
        assert!(db.define_annotation_info(&arg("PAINT 3")).is_err());
        assert!(db.define_annotation_info(&arg("C 47 4")).is_err());
        assert!(db.define_annotation_info(&arg("C")).is_err());
    }
}
