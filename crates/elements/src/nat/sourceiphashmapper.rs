//! # SourceIPHashMapper
//! Chooses a pattern for each new flow of an IPRewriter by its source address, with consistent hashing.
//!
//! ## Synopsis
//! `SourceIPHashMapper(NNODES SEED, PATTERN1 FOUTPUT1 ROUTPUT1 ID1, ...)`
//!
//! ## Arguments
//! - `NNODES SEED` (*two ints in one argument*): how many points each server has on the circle of hashes, and
//!   what the points are made from. More points distribute hosts more evenly.
//! - `PATTERN FOUTPUT ROUTPUT ID` (*text*, any number): a pattern, or the name of one in an
//!   IPRewriterPatterns element, the outputs of the IPRewriter for packets and for replies, and the number of
//!   the server (0 to 65,535). Patterns belong to the numbers in ascending order: write them in that order.
//!
//! An IPRewriter that has this element's name in the place of an INPUTSPEC uses the pattern whose point is
//! the next one after the hash of the source address. The points of a server depend on the seed and its
//! number alone. So all connections of a host go to one server, and when a server comes or goes, the hosts of
//! the others stay where they are. Points and hashes are those of Click on Linux: the same seed gives the
//! same servers.
//!
//! ## Ports
//! None.
//!
//! ## Threads
//! Shared by all workers.
//!
//! ## Example
//! ```click
//! servers :: SourceIPHashMapper(50 0xbadbeef, - - 10.0.0.1 80 0 1 1, - - 10.0.0.2 80 0 1 2);
//! rewriter :: IPRewriter(servers, drop);
//! InfiniteSource(LIMIT 1, STOP true) -> UDPIPEncap(198.51.100.9, 5000, 192.0.2.1, 80) -> rewriter;
//! rewriter [0] -> IPPrint(to) -> IPMirror -> [1] rewriter;
//! rewriter [1] -> IPPrint(from) -> Discard;
//! ```
//!
//! ## See also
//! IPRewriter, MaglevIPMapper, RoundRobinIPMapper, IPRewriterPatterns

use super::engine::headers::FlowId;
use super::engine::input::{Known, Mapped, Mapper, SharedMapper, mapped, named};
use crate::prelude::*;
use lang::split_words;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The most points on a circle, with those of servers that are not there.
const MOST_POINTS: u64 = 1 << 22;

/// The `SourceIPHashMapper` element.
pub struct SourceIPHashMapper;

/// The numbers that `random` of the GNU C library returns after `srandom(seed)`: each is the sum of those 3
/// and 31 places before it, without its lowest bit.
struct Random(VecDeque<u32>);

impl Random {
    fn new(seed: i32) -> Self {
        let mut word = if seed == 0 { 1 } else { i64::from(seed) };
        let mut state = VecDeque::with_capacity(32);
        for _ in 0..31 {
            state.push_back(word as u32);
            // Park and Miller's generator; a negative seed is taken as it is.
            word = (16_807 * word) % 2_147_483_647;
            if word < 0 {
                word += 2_147_483_647;
            }
        }
        // The first three sums have one part only.
        state.rotate_left(3);
        let mut made = Self(state);
        for _ in 0..310 {
            made.next();
        }
        made
    }
    fn next(&mut self) -> u32 {
        let sum = self.0.front().copied().unwrap_or(0).wrapping_add(self.0.get(28).copied().unwrap_or(0));
        self.0.pop_front();
        self.0.push_back(sum);
        sum >> 1
    }
}

/// The points of all servers on the circle, in their order, each with the number of a pattern.
struct Circle(Vec<(u32, usize)>);

/// How many of `n` nodes of a complete binary tree are left of its root.
fn left_of_root(n: usize) -> usize {
    let Some(depth) = n.checked_ilog2() else { return 0 };
    let full = (1usize << depth) - 1;
    let last = n - full;
    // All levels but the last are full; half of the last one's places are left of the root.
    full / 2 + last.min(1 << depth >> 1)
}

impl Circle {
    /// With `nodes` points for each of these servers.
    fn new(ids: &[u16], nodes: u32, seed: i32) -> Self {
        let mut random = Random::new(seed);
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        let mut points = Vec::new();
        for id in 0..=sorted.last().copied().unwrap_or(0) {
            let pattern = sorted.binary_search(&id).ok();
            // Servers that are not there have points too, so that those of the others stay.
            for _ in 0..nodes {
                let point = random.next();
                points.extend(pattern.map(|pattern| (point, pattern)));
            }
        }
        points.sort_unstable();
        Self(points)
    }

    /// The pattern of the first point that is not before a hash. After the last one comes that in the root of
    /// the search tree that Click makes of the points, not the first one.
    fn find(&self, hash: u32) -> Option<usize> {
        let at = self.0.partition_point(|(point, _)| *point < hash);
        let beyond = left_of_root(self.0.len());
        self.0.get(at).or_else(|| self.0.get(beyond)).map(|(_, pattern)| *pattern)
    }
}

/// The hash of a source address: its last byte has the most influence in Click's order of bytes.
fn hash(address: Ipv4Addr) -> u32 {
    let [first, ..] = address.octets();
    let word = u32::from_le_bytes(address.octets());
    word.wrapping_mul(u32::from(first) << 24 | 1) % 0x7fff_ffff
}

struct ByHash {
    patterns: Vec<Mapped>,
    circle: Circle,
}

impl Mapper for ByHash {
    fn offer(&self, flow: FlowId, take: &mut dyn FnMut(&Mapped) -> ControlFlow<()>) {
        if let Some(pattern) = self.circle.find(hash(flow.src)).and_then(|n| self.patterns.get(n)) {
            let _ = take(pattern);
        }
    }
    fn fits(&self, outputs: usize) -> bool {
        self.patterns.iter().flat_map(|pattern| pattern.outputs).all(|output| usize::from(output) < outputs)
    }
}

/// A pattern with its outputs, and the number of its server.
fn server(text: &str, known: &Known<'_>) -> Result<(Mapped, u16), String> {
    let words = split_words(text);
    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let bad = || "bad server ID in pattern spec".to_owned();
    let (id, pattern) = words.split_last().filter(|(_, rest)| !rest.is_empty()).ok_or_else(bad)?;
    let id = lang::args::parse::<u16>(id).map_err(|_| bad())?;
    Ok((mapped(pattern, known)?, id))
}

/// How many points a server has, and the seed.
fn parameters(text: &str) -> Result<(u32, i32), &'static str> {
    let words = split_words(text);
    let [nodes, seed] = &words[..] else { return Err("requires 2 config params: numnodes seed") };
    let nodes = lang::args::parse::<u32>(&nodes.text).ok().filter(|nodes| *nodes > 0);
    let seed = lang::args::parse::<i32>(&seed.text);
    Ok((
        nodes.ok_or("number of nodes must be an integer")?,
        seed.map_err(|_| "hash seed must be an integer")?,
    ))
}

impl Element for SourceIPHashMapper {
    const CLASS: &'static str = "SourceIPHashMapper";
    const PORTS: &'static str = "0/0";
    const SHARING: Sharing = Sharing::Shared;
    const PHASE: Phase = Phase::Table;
    const READS: Fields = Fields::NONE;
    const WRITES: Fields = Fields::NONE;
    const MANUAL: &'static str = manual!("nat/sourceiphashmapper");

    fn configure(args: &mut Args<'_>, cx: &mut ConfigCx<'_>) -> Result<Self, ArgError> {
        let known = Known { names: &args.names().clone(), patterns: named(cx), outputs: usize::MAX };
        let all = args.rest_args();
        let Some((first, rest)) = all.split_first() else { return Err(args.error("no hash seed given")) };
        if rest.is_empty() {
            return Err(args.error("no patterns given"));
        }
        if rest.len() == 1 {
            cx.warn("only one pattern given");
        }
        let (nodes, seed) = parameters(&first.text).map_err(|wrong| args.error_at(first, wrong))?;
        let (mut patterns, mut ids, mut error) = (Vec::new(), Vec::new(), None);
        for arg in rest {
            let wrong = match server(&arg.text, &known) {
                Ok((_, id)) if ids.contains(&id) => format!("server ID {id} used twice"),
                Ok((pattern, id)) => {
                    patterns.push(pattern);
                    ids.push(id);
                    continue;
                }
                Err(wrong) => wrong,
            };
            let wrong = args.error_at(arg, wrong);
            error.get_or_insert(wrong);
        }
        let most = ids.iter().max().map_or(0, |id| u64::from(*id) + 1);
        if most * u64::from(nodes) > MOST_POINTS {
            let wrong =
                args.error_at(first, format!("more than {MOST_POINTS} points: nodes times server IDs"));
            error.get_or_insert(wrong);
        }
        if let Some(error) = error {
            return Err(error);
        }
        cx.shared(|| {
            let circle = Circle::new(&ids, nodes, seed);
            SharedMapper(Arc::new(ByHash { patterns, circle }))
        });
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn random_numbers_are_those_of_the_c_library() {
        // Known from its documentation and countless programs: the first numbers without a seed.
        let mut random = Random::new(1);
        let first: Vec<u32> = (0..4).map(|_| random.next()).collect();
        assert_eq!(first, [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915]);
    }

    #[test]
    fn roots_of_complete_trees() {
        let all = [0, 1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 7];
        for (n, left) in (1..).zip(all) {
            assert_eq!(left_of_root(n), left, "{n}");
        }
        assert_eq!(left_of_root(0), 0);
    }

    #[test]
    fn a_host_stays_where_it_is_when_another_server_leaves() {
        let with = Circle::new(&[1, 2, 3], 50, 7);
        let without = Circle::new(&[1, 3], 50, 7);
        assert_eq!((with.0.len(), without.0.len()), (150, 100));
        let hosts: Vec<u32> = (0..2000u32).map(|n| hash(Ipv4Addr::from(0x0a00_0000 + n * 7))).collect();
        let mut share = [0; 3];
        let last = with.0.last().unwrap().0.min(without.0.last().unwrap().0);
        for hash in hosts.into_iter().filter(|hash| *hash <= last) {
            let (before, after) = (with.find(hash).unwrap(), without.find(hash).unwrap());
            share[before] += 1;
            match before {
                0 => assert_eq!(after, 0),
                2 => assert_eq!(after, 1),
                _ => {}
            }
        }
        assert!(share.iter().all(|n| *n > 300), "{share:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (arguments, wrong) in [
            ("", "no hash seed given"),
            ("1 2", "no patterns given"),
            ("1, - - - - 0 0 1, - - - - 0 0 2", "requires 2 config params: numnodes seed"),
            ("0 2, - - - - 0 0 1, - - - - 0 0 2", "number of nodes must be an integer"),
            ("1 x, - - - - 0 0 1, - - - - 0 0 2", "hash seed must be an integer"),
            ("1 2, - - - - 0 0 1, x", "bad server ID in pattern spec"),
            ("1 2, - - - - 0 0 1, - - - - 0 0 -1", "bad server ID in pattern spec"),
            ("1 2, - - x - 0 0 1, - - - - 0 0 2", "bad destination address"),
            ("1 2, - - - - 0 0 1, - - - - 0 0 1", "server ID 1 used twice"),
            ("1000000 2, - - - - 0 0 1, - - - - 0 0 65535", "more than 4194304 points"),
        ] {
            let error = Bench::error(&format!("SourceIPHashMapper({arguments})"));
            assert!(error.contains(wrong), "{arguments}: {error}");
        }
    }
}
