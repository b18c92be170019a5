//! The text form of routes and of changes of routes, in Click's syntax.

use super::hops::NextHop;
use lang::args::{FromArg, IpPrefix, NameDb};
use std::fmt::Write;
use std::net::Ipv4Addr;
use tables::Prefix;

/// A route as text: `ADDR/MASK [GATEWAY] OUTPUT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lookup) struct Route {
    pub(in crate::lookup) prefix: Prefix,
    pub(super) gateway: Option<Ipv4Addr>,
    /// `None` in a removal without an output: any route for the prefix is meant.
    pub(super) output: Option<i32>,
}

impl Route {
    /// Parses a route. Without `removing` the output must be there.
    pub(in crate::lookup) fn parse(text: &str, names: &NameDb, removing: bool) -> Option<Self> {
        if let Some(route) = plain(text.as_bytes()) {
            return Some(route);
        }
        let mut words = text.split_ascii_whitespace();
        let prefix = prefix(words.next()?, names)?;
        let mut word = words.next();
        let mut gateway = None;
        match word {
            Some("-") => word = words.next(),
            Some(w) => {
                if let Some(address) = address(w, names) {
                    gateway = Some(address).filter(|a| !a.is_unspecified());
                    word = words.next();
                }
            }
            None => {}
        }
        let output = match word {
            Some(w) => Some(integer(w)?),
            None if removing => None,
            None => return None,
        };
        words.next().is_none().then_some(Self { prefix, gateway, output })
    }

    /// Parses the most common form quickly; `None` does not mean that [`Route::parse`] cannot read it.
    pub(in crate::lookup) fn parse_plain(text: &str) -> Option<Self> {
        plain(text.as_bytes())
    }

    /// The route's next hop, if its output is one of `outputs`.
    pub(in crate::lookup) fn next_hop(&self, outputs: u32) -> Option<NextHop> {
        let port = u32::try_from(self.output?).ok().filter(|p| *p < outputs)?;
        Some(NextHop { gateway: self.gateway, port })
    }

    pub(super) fn show(&self) -> String {
        line(self.prefix, self.gateway, self.output.unwrap_or(-1), ' ')
    }
}

/// Reads the most common form, only numbers with spaces between; `None` if the text is not of this form; it
/// is then read word by word. Large tables are read several times as fast.
fn plain(text: &[u8]) -> Option<Route> {
    /// Reads a number of at most `digits` digits without leading zero; returns it and the rest.
    #[inline(always)]
    fn number(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
        let (mut value, mut rest) = (0, text);
        while let Some((digit @ b'0'..=b'9', behind)) = rest.split_first() {
            if text.len() - rest.len() == digits {
                return None;
            }
            (value, rest) = (value * 10 + u32::from(digit - b'0'), behind);
        }
        let length = text.len() - rest.len();
        (length == 1 || length > 1 && text.first() != Some(&b'0')).then_some((value, rest))
    }
    #[inline(always)]
    fn quad(mut text: &[u8]) -> Option<(u32, &[u8])> {
        let mut address = 0;
        for i in 0..4 {
            if i > 0 {
                text = text.strip_prefix(b".")?;
            }
            let (byte, rest) = number(text, 3).filter(|(n, _)| *n <= 255)?;
            (address, text) = (address << 8 | byte, rest);
        }
        Some((address, text))
    }
    let (address, rest) = quad(text)?;
    let (length, rest) = number(rest.strip_prefix(b"/")?, 2)?;
    let prefix = Prefix::new(address, u8::try_from(length).ok()?)?;
    let rest = rest.strip_prefix(b" ")?;
    let (gateway, rest) = match quad(rest) {
        Some((gateway, rest)) => (gateway, rest.strip_prefix(b" ")?),
        None => (0, rest.strip_prefix(b"- ").unwrap_or(rest)),
    };
    let (output, rest) = number(rest, 9)?;
    let gateway = (gateway != 0).then(|| Ipv4Addr::from_bits(gateway));
    rest.is_empty().then_some(Route { prefix, gateway, output: Some(output as i32) })
}

fn prefix(word: &str, names: &NameDb) -> Option<Prefix> {
    if let Ok(prefix) = word.parse() {
        return Some(prefix);
    }
    let p = IpPrefix::parse(word, names, true).ok()?;
    Prefix::new(p.addr.to_bits(), p.prefix_len()?)
}

pub(super) fn address(word: &str, names: &NameDb) -> Option<Ipv4Addr> {
    word.parse().ok().or_else(|| Ipv4Addr::from_arg(word, names).ok())
}

fn integer(word: &str) -> Option<i32> {
    word.parse().ok().or_else(|| lang::args::parse(word).ok())
}

/// A route in Click's listing; with tabs it is padded to columns.
pub(super) fn line(prefix: Prefix, gateway: Option<Ipv4Addr>, port: i32, separator: char) -> String {
    let mut text = prefix.to_string();
    let column = |text: &mut String, start: usize, width: usize| {
        text.push(separator);
        if separator == '\t' && text.len() < start + width {
            text.push('\t');
        }
    };
    column(&mut text, 0, 17);
    let start = text.len();
    match gateway {
        Some(g) => {
            let _ = write!(text, "{g}");
        }
        None => text.push('-'),
    }
    column(&mut text, start, 9);
    let _ = write!(text, "{port}");
    text
}

/// A change that a handler requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lookup) enum Command {
    /// Adds a new route, which must not exist.
    Add,
    /// Adds or replaces a route.
    Set,
    /// Removes a route, which must exist.
    Remove,
}

impl Command {
    /// The change that a handler's value or a transaction line requests.
    pub(super) fn parse(self, text: &str, outputs: u32) -> Result<(Self, Route), String> {
        let removing = self == Self::Remove;
        let Some(route) = Route::parse(text, &runtime::handler_names(), removing) else {
            let tail = if removing { " OUTPUT]" } else { "] OUTPUT" };
            return Err(format!("expected 'ADDR/MASK [GATEWAY{tail}'"));
        };
        match route.output {
            None | Some(-1) if removing => {}
            _ if route.next_hop(outputs).is_some() => {}
            _ => return Err("bad OUTPUT".into()),
        }
        Ok((self, route))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Route> {
        Route::parse(text, &NameDb::new(), false)
    }

    #[test]
    fn reads_routes_as_click_writes_them() {
        for (text, want) in [
            ("10.1.2.3/8 1", "10.0.0.0/8 - 1"),
            ("10.0.0.1 2", "10.0.0.1/32 - 2"),
            ("0/0 18.26.4.1 1", "0.0.0.0/0 18.26.4.1 1"),
            ("18.26.4/255.255.255.0 - 0", "18.26.4.0/24 - 0"),
            ("1.0.0.0/8 0.0.0.0 0x3", "1.0.0.0/8 - 3"),
            ("  1.0.0.0/8\t-1 ", "1.0.0.0/8 - -1"),
        ] {
            assert_eq!(parse(text).map(|r| r.show()).as_deref(), Some(want), "{text}");
        }
        for bad in [
            "",
            "1.0.0.0/8",
            "1.0.0.0/33 1",
            "x 1",
            "1.0.0.0/8 1 2",
            "1.0.0.0/8 1.1.1.1",
            "1.0.0.0/8 - - 1",
            "1.0.0.0/255.0.255.0 1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert!(Route::parse("1.0.0.0/8", &NameDb::new(), true).is_some());
    }

    /// Text that the fast reader accepts is read in the same way by the other one; other text is left to
    /// that.
    #[test]
    fn the_quick_reader_agrees() {
        for text in
            ["10.1.2.3/8 1", "0.0.0.0/0 10.0.0.1 0", "255.255.255.255/32 - 999999999", "1.2.3.0/24 0.0.0.0 7"]
        {
            // The fast reader does not accept tabs.
            let slow = text.replacen(' ', "\t", 1);
            assert!(plain(text.as_bytes()).is_some() && plain(slow.as_bytes()).is_none(), "{text}");
            assert_eq!(plain(text.as_bytes()), parse(&slow), "{text}");
        }
        for text in [
            "",
            "1",
            "1.2.3/8 1",
            "1.2.3.4 1",
            "1.2.3.4/33 1",
            "1.2.3.256/8 1",
            "1.2.3.04/8 1",
            "1.2.3.4/8",
            "1.2.3.4/8 ",
            "1.2.3.4/8 1 ",
            "1.2.3.4/8 1.1.1.1",
            "1.2.3.4/8 1.1.1.1 ",
            "1.2.3.4/8 0x3",
            "1.2.3.4/8 -1",
            "1.2.3.4/8 - - 1",
            "1.2.3.4/8 1234567890",
            "1.2.3.4/255.0.0.0 1",
            "1.2.3.4567/8 1",
            "1.2.3.4/8  1",
            "1.2.3.4/8 -",
        ] {
            assert_eq!(plain(text.as_bytes()), None, "{text}");
        }
    }
}
