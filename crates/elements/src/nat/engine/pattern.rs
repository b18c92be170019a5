//! Patterns: which addresses and ports the packets of a new flow get.

use super::headers::FlowId;
use lang::args::{FromArg, IpPrefix, NameDb};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// From how many addresses or ports one is chosen, less one, how, and which was chosen last.
#[derive(Debug)]
struct Range {
    top: u32,
    /// Whether they are taken one after the other, not at random.
    sequential: bool,
    /// Whether that of the packet itself is tried first.
    same_first: bool,
    next: AtomicU32,
}

/// A pattern: what is set, and what is left as it is.
#[derive(Debug)]
pub(crate) struct Pattern {
    src: Option<Ipv4Addr>,
    sport: Option<u16>,
    dst: Option<Ipv4Addr>,
    dport: Option<u16>,
    /// Whether it has ports; a pattern of two words has none.
    ports: bool,
    range: Option<Range>,
}

/// How many of a large range are tried for a new flow, one after the other. An attacker who takes all ports
/// toward a host must not make each further packet search all of them.
const MOST_TRIED: u32 = 512;

/// The marks at the end of a range.
fn marks(text: &str) -> (&str, bool, bool) {
    match (text.strip_suffix('#'), text.strip_suffix('?')) {
        (Some(rest), _) => (rest, true, false),
        (_, Some(rest)) => (rest, false, false),
        _ => (text, false, true),
    }
}

fn range(top: u32, (sequential, same_first): (bool, bool)) -> Option<Range> {
    (top > 0).then(|| Range { top, sequential, same_first, next: AtomicU32::new(0) })
}

fn port_range(text: &str) -> Option<(u16, Option<Range>)> {
    let (range_text, sequential, same_first) = marks(text);
    let (low, high) = range_text.split_once('-')?;
    let (low, high): (u16, u16) = (low.parse().ok()?, high.parse().ok()?);
    let top = high.checked_sub(low)?;
    Some((low, range(top.into(), (sequential, same_first))))
}

fn address_range(text: &str, names: &NameDb) -> Option<(Ipv4Addr, Option<Range>)> {
    let (text, sequential, same_first) = marks(text);
    let how = (sequential, same_first);
    if let Some((low, high)) = text.split_once('-') {
        let low = Ipv4Addr::from_arg(low, names).ok()?;
        let high = Ipv4Addr::from_arg(high, names).ok()?;
        let top = u32::from(high).checked_sub(low.into())?;
        return Some((low, range(top, how)));
    }
    let prefix = IpPrefix::parse(text, names, true).ok()?;
    let length = prefix.prefix_len().filter(|length| *length > 0 && !prefix.addr.is_unspecified())?;
    let first = u32::from(prefix.network());
    Some(match length {
        32 => (prefix.addr, None),
        31 => (first.into(), range(1, how)),
        // Without the network's own address and the broadcast.
        _ => ((first + 1).into(), range((u32::MAX >> length) - 2, how)),
    })
}

fn dash_or<T>(word: &str, parse: impl FnOnce(&str) -> Option<T>, wrong: &str) -> Result<Option<T>, String> {
    if word == "-" { Ok(None) } else { parse(word).map(Some).ok_or_else(|| wrong.to_owned()) }
}

fn port(word: &str) -> Option<u16> {
    word.parse().ok().filter(|port| *port > 0)
}

impl Pattern {
    /// Reads `SADDR [SPORT] DADDR [DPORT]`.
    ///
    /// # Errors
    /// Says which word is wrong.
    pub(crate) fn parse(words: &[&str], names: &NameDb) -> Result<Self, String> {
        let (src, sport, dst, dport) = match *words {
            [src, dst] => (src, "-", dst, "-"),
            [src, dst, sport] => (src, sport, dst, "-"),
            [src, sport, dst, dport] => (src, sport, dst, dport),
            _ => return Err("syntax error".into()),
        };
        let one = |word: &str| Ipv4Addr::from_arg(word, names).ok();
        let source = |word: &str| one(word).map(|a| (a, None)).or_else(|| address_range(word, names));
        let (src, addresses) = dash_or(src, source, "bad source address")?.unzip();
        let (sport, ports) =
            dash_or(sport, |w| port(w).map(|p| (p, None)).or_else(|| port_range(w)), "bad source port")?
                .unzip();
        let dst = dash_or(dst, one, "bad destination address")?;
        let dport = dash_or(dport, port, "bad destination port")?;
        // Of ranges of both, only the ports vary, as in Click.
        let range = ports.flatten().or(addresses.flatten());
        // As there, a source port 0 alone is that of the packet.
        let sport = sport.filter(|port| *port > 0 || range.is_some());
        Ok(Self { src, sport, dst, dport, ports: words.len() > 2, range })
    }

    /// One that sends packets to a host.
    pub(crate) fn to(dst: Ipv4Addr, dport: Option<u16>) -> Self {
        Self { src: None, sport: None, dst: Some(dst), dport, ports: true, range: None }
    }

    /// Whether there is something to be chosen.
    pub(crate) fn chooses(&self) -> bool {
        self.range.is_some()
    }

    /// What is probably offered first.
    pub(crate) fn first(&self, flow: FlowId, random: u64) -> FlowId {
        let first = self.each((flow, random), false, Err::<Option<()>, FlowId>);
        first.err().unwrap_or(flow)
    }

    /// Offers what packets of a flow may have instead, one after the other, until `take` accepts one. Ends
    /// with `None` if it accepts none, or returns an error.
    ///
    /// # Errors
    /// The first error of `take`.
    pub(crate) fn offer<T, E>(
        &self,
        flow: FlowId,
        random: u64,
        take: impl FnMut(FlowId) -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        self.each((flow, random), true, take)
    }

    /// [`Pattern::offer`]; a sequential pattern goes on behind what was accepted only if it `advances`.
    fn each<T, E>(
        &self,
        (flow, random): (FlowId, u64),
        advances: bool,
        mut take: impl FnMut(FlowId) -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        let FlowId { src, sport, dst, dport } = flow;
        let fixed = FlowId {
            src: self.src.unwrap_or(src),
            sport: self.sport.unwrap_or(sport),
            dst: self.dst.unwrap_or(dst),
            dport: self.dport.unwrap_or(dport),
        };
        let Some(Range { top, sequential, same_first, next }) = &self.range else { return take(fixed) };
        let with = |value: u32| match self.sport {
            Some(base) => FlowId { sport: base.wrapping_add(value as u16), ..fixed },
            None => FlowId { src: u32::from(fixed.src).wrapping_add(value).into(), ..fixed },
        };
        let mut offer = |value: u32| {
            let taken = take(with(value));
            // Also if it was free and there is no room for another flow, as in Click.
            if advances && *sequential && !matches!(taken, Ok(None)) {
                next.store(value.wrapping_add(1), Relaxed);
            }
            taken
        };
        let own = match self.sport {
            Some(base) => sport.checked_sub(base).map(u32::from),
            None => u32::from(src).checked_sub(fixed.src.into()),
        };
        if let Some(own) = own.filter(|own| *same_first && own <= top)
            && let Some(taken) = offer(own)?
        {
            return Ok(Some(taken));
        }
        let first = if *sequential {
            Some(next.load(Relaxed)).filter(|next| next <= top).unwrap_or(0)
        } else {
            (random % (u64::from(*top) + 1)) as u32
        };
        let mut value = first;
        for _ in 0..MOST_TRIED.min(top.saturating_add(1)) {
            if let Some(taken) = offer(value)? {
                return Ok(Some(taken));
            }
            value = if value == *top { 0 } else { value + 1 };
        }
        Ok(None)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let top = self.range.as_ref().map_or(0, |range| range.top);
        let of_ports = self.sport.is_some();
        match self.src {
            Some(src) if top > 0 && !of_ports => {
                write!(f, "{src}-{}", Ipv4Addr::from(u32::from(src).wrapping_add(top)))?;
            }
            Some(src) => write!(f, "{src}")?,
            None => f.write_str("-")?,
        }
        match self.sport {
            _ if !self.ports => {}
            // Click shows a range that begins with 0 so.
            Some(0) => f.write_str(" -")?,
            Some(sport) if top > 0 => write!(f, " {sport}-{}", u32::from(sport) + top)?,
            Some(sport) => write!(f, " {sport}")?,
            None => f.write_str(" -")?,
        }
        match self.dst {
            Some(dst) => write!(f, " {dst}")?,
            None => f.write_str(" -")?,
        }
        match self.dport {
            _ if !self.ports => Ok(()),
            Some(dport) => write!(f, " {dport}"),
            None => f.write_str(" -"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Result<Pattern, String> {
        let words: Vec<&str> = text.split(' ').collect();
        Pattern::parse(&words, &NameDb::new())
    }
    fn flow(src: [u8; 4], sport: u16) -> FlowId {
        FlowId { src: src.into(), sport, dst: [9, 9, 9, 9].into(), dport: 80 }
    }
    /// All that a pattern offers.
    fn offered(pattern: &Pattern, flow: FlowId, random: u64) -> Vec<FlowId> {
        let mut all = Vec::new();
        let none = pattern.offer(flow, random, |id| {
            all.push(id);
            Ok::<Option<()>, ()>(None)
        });
        assert_eq!(none, Ok(None));
        all
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["1.0.0.1 20 - -", "- - 2.0.0.2 80", "1.0.0.1 1024-65535 - -", "1.0.0.1-1.0.0.9 -"] {
            assert_eq!(pattern(text).unwrap().to_string(), text);
        }
        for (text, written) in [
            ("1.0.0.1 1024-65535# - -", "1.0.0.1 1024-65535 - -"),
            ("1.0.0.0/24 - - -", "1.0.0.1-1.0.0.254 - - -"),
            ("1.0.0.0/31 -", "1.0.0.0-1.0.0.1 -"),
            ("1.0.0.5/32 -", "1.0.0.5 -"),
            ("1.0.0.1-1.0.0.2 1-2 - -", "1.0.0.1 1-2 - -"),
            ("1.0.0.1 0-65535 - -", "1.0.0.1 - - -"),
            ("1.0.0.1 0-0 - -", "1.0.0.1 - - -"),
            ("1.0.0.1 - 5-9?", "1.0.0.1 5-9 - -"),
        ] {
            assert_eq!(pattern(text).unwrap().to_string(), written);
        }
        for (text, wrong) in [
            ("x - - -", "bad source address"),
            ("- 0 - -", "bad source port"),
            ("- 9-3 - -", "bad source port"),
            ("- 1-70000 - -", "bad source port"),
            ("- - 1.0.0.0/24 -", "bad destination address"),
            ("- - - 1-2", "bad destination port"),
            ("-", "syntax error"),
            ("- - - - -", "syntax error"),
        ] {
            assert_eq!(pattern(text).unwrap_err(), wrong, "{text}");
        }
    }

    #[test]
    fn the_packets_own_port_comes_first_and_then_all_others() {
        let p = pattern("1.0.0.1 100-103 - -").unwrap();
        let ports = |sport, random| {
            let offered = offered(&p, flow([10, 0, 0, 1], sport), random);
            offered.iter().map(|id| id.sport).collect::<Vec<_>>()
        };
        assert_eq!(ports(102, 3), [102, 103, 100, 101, 102]);
        assert_eq!(ports(99, 1), [101, 102, 103, 100]);
        let p = pattern("1.0.0.1 100-103? - -").unwrap();
        assert_eq!(offered(&p, flow([10, 0, 0, 1], 102), 0).first().unwrap().sport, 100);
    }

    #[test]
    fn one_after_the_other() {
        let p = pattern("1.0.0.1-1.0.0.3# -").unwrap();
        let take = |id: FlowId| Ok::<_, ()>(Some(id.src));
        let taken: Vec<_> =
            (0..4).map(|_| p.offer(flow([1, 0, 0, 3], 5), 2, take).unwrap().unwrap()).collect();
        assert_eq!(taken, [[1, 0, 0, 1], [1, 0, 0, 2], [1, 0, 0, 3], [1, 0, 0, 1]].map(Ipv4Addr::from));
    }

    #[test]
    fn not_all_of_a_large_range_are_tried() {
        let p = pattern("1.0.0.1 1024-65535 - -").unwrap();
        assert_eq!(offered(&p, flow([10, 0, 0, 1], 80), 7).len(), MOST_TRIED as usize);
        let error = p.offer(flow([10, 0, 0, 1], 80), 7, |_| Err::<Option<()>, _>("full"));
        assert_eq!(error, Err("full"));
    }
}
