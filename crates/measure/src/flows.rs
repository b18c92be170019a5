//! Flows: which addresses and ports frames carry.

use crate::permute::Permutation;
use crate::rng::Rng;
use crate::tag::MAX_FLOWS;
use crate::{Bad, bad};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An IP address of one version, as a number and as text.
pub trait Address: Copy + Send + std::fmt::Display + 'static {
    /// Bits in an address.
    const BITS: u32;
    /// The name of an address of this version, for messages.
    const WHAT: &'static str;
    /// Reads one.
    fn parse(text: &str) -> Option<Self>;
    /// As a number.
    fn number(self) -> u128;
    /// From a number; higher bits are ignored.
    fn from_number(n: u128) -> Self;
}

impl Address for Ipv4Addr {
    const BITS: u32 = 32;
    const WHAT: &'static str = "IPv4 address";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn number(self) -> u128 {
        self.to_bits().into()
    }
    fn from_number(n: u128) -> Self {
        Self::from_bits(n as u32)
    }
}

impl Address for Ipv6Addr {
    const BITS: u32 = 128;
    const WHAT: &'static str = "IPv6 address";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn number(self) -> u128 {
        self.to_bits()
    }
    fn from_number(n: u128) -> Self {
        Self::from_bits(n)
    }
}

/// Numbers (addresses or ports) in an order: ranges one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// First number of each range, and how many numbers lie in the ranges before it.
    ranges: Vec<(u128, u128)>,
    len: u128,
}

impl Set {
    fn add(&mut self, first: u128, last: u128) {
        self.ranges.push((first, self.len));
        // The number of all IPv6 addresses is one more than the largest number that can be counted.
        self.len = self.len.saturating_add((last - first).saturating_add(1));
    }
    /// How many numbers; not 0 in a set that was read from a text.
    #[must_use]
    pub fn len(&self) -> u128 {
        self.len
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// First and last number of each range.
    fn bounds(&self) -> impl Iterator<Item = (u128, u128)> + '_ {
        let ends = self.ranges.iter().skip(1).map(|(_, before)| *before).chain([self.len]);
        self.ranges
            .iter()
            .zip(ends)
            .map(|((first, before), end)| (*first, first + ((end - before).max(1) - 1)))
    }
    /// Number `index` of the set, modulo its size.
    #[must_use]
    pub fn get(&self, index: u128) -> u128 {
        let index = index % self.len.max(1);
        let after = self.ranges.partition_point(|(_, before)| *before <= index);
        let (first, before) = self.ranges.get(after.wrapping_sub(1)).copied().unwrap_or((0, 0));
        first + (index - before)
    }

    /// Reads addresses: single ones, prefixes (`10.0.0.0/8`) and ranges (`10.0.0.1-10.0.0.9`), separated by
    /// commas or white space; `#` begins a comment.
    ///
    /// # Errors
    /// A part of the text is not an address, or there is no address.
    pub fn addresses<A: Address>(text: &str) -> Result<Self, Bad> {
        Self::parse(text, A::WHAT, |part| {
            if let Some((address, length)) = part.split_once('/') {
                let (base, length) = (A::parse(address)?.number(), length.parse::<u32>().ok()?);
                let host = match A::BITS.checked_sub(length)? {
                    128 => u128::MAX,
                    bits => (1 << bits) - 1,
                };
                return Some((base & !host, base | host));
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((A::parse(first)?.number(), A::parse(last)?.number()))
        })
    }
    /// Reads ports: single ones and ranges (`1024-65535`), separated by commas or white space.
    ///
    /// # Errors
    /// A part of the text is not a port, or there is no port.
    pub fn ports(text: &str) -> Result<Self, Bad> {
        Self::parse(text, "port", |part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.parse::<u16>().ok()?.into(), last.parse::<u16>().ok()?.into()))
        })
    }
    fn parse(text: &str, what: &str, read: impl Fn(&str) -> Option<(u128, u128)>) -> Result<Self, Bad> {
        let mut set = Self::default();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            for part in line.split([',', ' ', '\t', '\r']).filter(|p| !p.is_empty()) {
                match read(part) {
                    Some((first, last)) if first <= last => set.add(first, last),
                    Some(_) => return bad(format!("'{part}' is no range: it ends before it begins")),
                    None => return bad(format!("'{part}' is no {what}, and no range of them")),
                }
            }
        }
        if set.is_empty() { bad(format!("there is no {what} in it")) } else { Ok(set) }
    }
}

/// Two of several sets, and a number that both have; `None` if no number is in two of them.
#[must_use]
pub fn shared(sets: &[Set]) -> Option<(usize, usize, u128)> {
    let mut ranges: Vec<(u128, u128, usize)> = (0..)
        .zip(sets)
        .flat_map(|(at, set)| set.bounds().map(move |(first, last)| (first, last, at)))
        .collect();
    ranges.sort_unstable();
    // Whatever of another set begins before this one's end is in both.
    let (mut end, mut of) = (0, None);
    for (first, last, at) in ranges {
        if let Some(of) = of.filter(|of| *of != at && first <= end) {
            return Some((of, at, first));
        }
        if of.is_none() || last > end {
            (end, of) = (last, Some(at));
        }
    }
    None
}

/// Reads source or destination addresses of one IP version.
///
/// # Errors
/// As [`Set::addresses`]; they are of the other version.
pub fn addresses(text: &str, six: bool) -> Result<Set, Bad> {
    match (six, Set::addresses::<Ipv4Addr>(text), Set::addresses::<Ipv6Addr>(text)) {
        (true, Ok(_), _) => bad("an IPv4 address with IPV6 true"),
        (false, _, Ok(_)) => bad("an IPv6 address without IPV6 true"),
        (true, _, of_six) => of_six,
        (false, of_four, _) => of_four,
    }
}

/// The source address and the destination address if none are given (RFC 2544, RFC 5180).
#[must_use]
pub fn default_addresses(six: bool) -> (&'static str, &'static str) {
    if six { ("2001:2::1", "2001:2:0:1::1") } else { ("198.18.0.1", "198.19.0.1") }
}

/// The flows to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Source addresses.
    pub src: Set,
    /// Destination addresses.
    pub dst: Set,
    /// Source ports; without them as many source ports are used as the number of flows requires.
    pub sport: Option<Set>,
    /// Destination ports; without them it is 9, the discard service (RFC 863).
    pub dport: Option<Set>,
    /// Whether each flow takes its addresses and ports at random rather than in order.
    pub random: bool,
    /// Whether no two flows have the same, at random too: then all combinations are taken in a pseudorandom
    /// order (RFC 4814, RFC 9693).
    pub unique: bool,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The number of flows; without it, one for each combination of addresses and ports, but not more than
    /// [`Self::DEFAULT_MOST`].
    pub flows: Option<u32>,
}

/// The addresses and ports of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple<A> {
    /// Source address.
    pub src: A,
    /// Destination address.
    pub dst: A,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

/// Source ports of flows if none are given: those that servers do not use.
const FREE_PORTS: (u128, u128) = (1024, 65535);
const DISCARD: u128 = 9;

impl FlowSpec {
    /// The most flows if their number is not given.
    pub const DEFAULT_MOST: u32 = 65_536;

    /// How many flows there are.
    ///
    /// # Errors
    /// There are fewer different flows than requested, or more than can be distinguished.
    pub fn count(&self) -> Result<u32, Bad> {
        let size = |set: &Option<Set>| set.as_ref().map_or(1, Set::len);
        let given = [self.src.len(), self.dst.len(), size(&self.sport), size(&self.dport)];
        let given = given.into_iter().fold(1u128, u128::saturating_mul);
        let Some(flows) = self.flows else {
            return Ok(u32::try_from(given).unwrap_or(u32::MAX).clamp(1, Self::DEFAULT_MOST));
        };
        let possible = match self.sport {
            Some(_) => given,
            None => given.saturating_mul(FREE_PORTS.1 - FREE_PORTS.0 + 1),
        };
        if flows == 0 || flows > MAX_FLOWS {
            return bad(format!("{flows} flows cannot be made: 1 to {MAX_FLOWS}"));
        }
        if possible < u128::from(flows) {
            return bad(format!(
                "only {possible} different flows can be made of these addresses and ports, not {flows}: give more of them"
            ));
        }
        Ok(flows)
    }

    /// The flows: number `first`, `first + step`, ... of `count`.
    ///
    /// In order, destination addresses change first, then source addresses, source ports, destination ports.
    /// At random, each flow draws its own independently of the others, unless they are to be unique; the same
    /// seed gives the same flows.
    pub fn tuples<A: Address>(
        &self,
        first: usize,
        step: usize,
        count: u32,
    ) -> impl Iterator<Item = (u32, Tuple<A>)> + '_ {
        let mut ports = Set::default();
        ports.add(FREE_PORTS.0, FREE_PORTS.1);
        let sport = self.sport.clone().unwrap_or(ports);
        let mut discard = Set::default();
        discard.add(DISCARD, DISCARD);
        let dport = self.dport.clone().unwrap_or(discard);
        let sizes = [self.dst.len(), self.src.len(), sport.len(), dport.len()];
        let all = sizes.into_iter().fold(1u128, u128::saturating_mul);
        let order = (self.random && self.unique).then(|| Permutation::new(all, self.seed));
        (0..count).skip(first).step_by(step.max(1)).map(move |index| {
            let sets = [&self.dst, &self.src, &sport, &dport];
            let mut rng = Rng::new(self.seed ^ (u64::from(index) << 20));
            let mut rest = u128::from(index);
            rest = order.as_ref().map_or(rest, |order| order.at(rest));
            let [dst, src, sport, dport] = sets.map(|set| {
                let n = set.len().max(1);
                let at = if self.random && !self.unique { rng.below_wide(n) } else { rest % n };
                rest /= n;
                set.get(at)
            });
            let tuple = Tuple {
                src: A::from_number(src),
                dst: A::from_number(dst),
                sport: sport as u16,
                dport: dport as u16,
            };
            (index, tuple)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn spec(src: &str, dst: &str) -> FlowSpec {
        FlowSpec {
            src: Set::addresses::<Ipv4Addr>(src).unwrap(),
            dst: Set::addresses::<Ipv4Addr>(dst).unwrap(),
            sport: None,
            dport: None,
            random: false,
            unique: false,
            seed: 1,
            flows: None,
        }
    }

    #[test]
    fn sets() {
        let set = Set::addresses::<Ipv4Addr>("10.0.0.254-10.0.1.1, 1.2.3.4 # last\n 192.168.7.9/30").unwrap();
        assert_eq!(set.len(), 9);
        let all: Vec<String> = (0..10).map(|i| Ipv4Addr::from_number(set.get(i)).to_string()).collect();
        assert_eq!(all[..5], ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1", "1.2.3.4"]);
        assert_eq!(all[5..], ["192.168.7.8", "192.168.7.9", "192.168.7.10", "192.168.7.11", "10.0.0.254"]);
        assert_eq!(Set::addresses::<Ipv4Addr>("0.0.0.0/0").unwrap().len(), 1 << 32);
        let six = Set::addresses::<Ipv6Addr>("::/0").unwrap();
        assert_eq!((six.len(), six.get(u128::MAX - 1)), (u128::MAX, u128::MAX - 1));
        assert_eq!(Set::ports("5,7-8").unwrap().len(), 3);
        for text in ["", "#", "10.0.0.1/33", "10.0.0.9-10.0.0.1", "::1", "x", "10.0.0.1-"] {
            assert!(Set::addresses::<Ipv4Addr>(text).is_err(), "{text}");
        }
        assert!(Set::ports("65536").is_err() && Set::ports("9-7").is_err());
    }

    #[test]
    fn a_number_in_two_sets_is_found() {
        let set = |text: &str| Set::addresses::<Ipv4Addr>(text).unwrap();
        let apart = [set("10.0.0.0/24,10.0.3.1"), set("10.0.1.0/24,10.0.1.7"), set("10.0.2.0-10.0.3.0")];
        assert_eq!(shared(&apart), None);
        let number = |text: &str| Ipv4Addr::parse(text).unwrap().number();
        let one = [set("10.0.0.0/8,10.0.0.1"), set("11.0.0.0"), set("9.0.0.0,10.200.0.9")];
        assert_eq!(shared(&one), Some((0, 2, number("10.200.0.9"))));
        assert_eq!(shared(&[set("10.0.0.5"), set("10.0.0.1-10.0.0.9")]), Some((1, 0, number("10.0.0.5"))));
        let all = Set::addresses::<Ipv6Addr>("::/0").unwrap();
        assert!(shared(&[all.clone(), all]).is_some() && shared(&[]).is_none());
    }

    #[test]
    fn flows_are_different_and_in_order() {
        let mut spec = spec("10.0.0.1,10.0.0.2", "10.1.0.0/30");
        assert_eq!(spec.count(), Ok(8));
        spec.flows = Some(1000);
        assert_eq!(spec.count(), Ok(1000));
        let all: Vec<_> = spec.tuples::<Ipv4Addr>(0, 1, 1000).map(|(_, t)| t).collect();
        assert_eq!((all[0].dst, all[1].dst), ([10, 1, 0, 0].into(), [10, 1, 0, 1].into()));
        assert_eq!(
            (all[3].src, all[4].src, all[8].sport),
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1025)
        );
        let different: HashSet<_> = all.iter().map(|t| (t.src, t.dst, t.sport, t.dport)).collect();
        assert_eq!(different.len(), 1000);
        // Two workers have the same flows between them.
        let mut shared: Vec<_> =
            (0..2).flat_map(|w| spec.tuples::<Ipv4Addr>(w, 2, 1000).collect::<Vec<_>>()).collect();
        shared.sort_by_key(|s| s.0);
        assert_eq!(shared.into_iter().map(|s| s.1).collect::<Vec<_>>(), all);
    }

    #[test]
    fn flows_at_random_stay_in_their_sets_and_repeat_with_their_seed() {
        let mut spec = spec("10.0.0.1", "20.0.0.0/8");
        spec.random = true;
        assert_eq!(spec.count(), Ok(FlowSpec::DEFAULT_MOST));
        let all: Vec<_> = spec.tuples::<Ipv4Addr>(0, 1, 1000).collect();
        assert!(all.iter().all(|(_, t)| t.dst.octets()[0] == 20 && t.sport >= 1024 && t.dport == 9));
        assert!(all.iter().map(|(_, t)| t.dst).collect::<HashSet<_>>().len() > 950);
        assert_eq!(all, spec.tuples::<Ipv4Addr>(0, 1, 1000).collect::<Vec<_>>());
        spec.seed = 2;
        assert_ne!(all, spec.tuples::<Ipv4Addr>(0, 1, 1000).collect::<Vec<_>>());
    }

    #[test]
    fn flows_at_random_are_different_if_they_are_to_be() {
        let mut spec = spec("10.0.0.1", "20.0.0.1-20.0.0.2");
        (spec.random, spec.unique, spec.flows) = (true, true, Some(1000));
        (spec.sport, spec.dport) = (Some(Set::ports("1-50").unwrap()), Some(Set::ports("1-10").unwrap()));
        let all: Vec<Tuple<Ipv4Addr>> = spec.tuples(0, 1, 1000).map(|(_, t)| t).collect();
        let different: HashSet<_> = all.iter().map(|t| (t.src, t.dst, t.sport, t.dport)).collect();
        assert_eq!(different.len(), 1000, "each combination once");
        assert!(all.windows(2).filter(|two| two[0].sport < two[1].sport).count() < 600, "in no order");
        spec.unique = false;
        let all: HashSet<_> =
            spec.tuples::<Ipv4Addr>(0, 1, 1000).map(|(_, t)| (t.dst, t.sport, t.dport)).collect();
        assert!(all.len() < 800, "drawn independently");
    }

    #[test]
    fn too_many_flows_are_refused() {
        let mut spec = spec("10.0.0.1", "10.0.0.2");
        spec.flows = Some(70_000);
        assert!(spec.count().unwrap_err().0.contains("only 64512 different flows"));
        spec.sport = Some(Set::ports("7").unwrap());
        spec.flows = Some(2);
        assert!(spec.count().is_err());
        for n in [0, MAX_FLOWS + 1] {
            spec.flows = Some(n);
            assert!(spec.count().is_err());
        }
    }
}
