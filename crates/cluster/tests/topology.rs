//! What a fly guarantees: every pair is reached, loads are even, everything dead is avoided; the same in a
//! cluster of balancers around one.

use cluster::topology::{Carried, NextLinks, Onward, Reach, Topology};
use cluster::{Balancer, Choice, Config, Failures, MacCode, Mode, NodeId, Outgoing, Phase, Rng};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn next_links(topology: &Topology, failures: &Failures) -> Vec<NextLinks> {
    (0..topology.nodes()).map(|n| NextLinks::with(topology, NodeId(n), failures).unwrap()).collect()
}

fn alive(topology: &Topology) -> Failures {
    Failures::none(topology.nodes()).unwrap()
}

fn pairs(topology: &Topology) -> impl Iterator<Item = (NodeId, NodeId)> + use<> {
    let m = topology.externals();
    (0..m).flat_map(move |a| (0..m).map(move |b| (NodeId(a), NodeId(b)))).filter(|(a, b)| a != b)
}

/// All flies of up to this many nodes with external ports.
fn flies(most: u16) -> impl Iterator<Item = Topology> {
    (2..=most).flat_map(|m| (2..=m).filter_map(move |k| Topology::fly(m, k).ok()))
}

/// The load of each link if every pair sends one unit, and each server distributes as its links are listed.
fn loads(topology: &Topology, next_links: &[NextLinks]) -> BTreeMap<(NodeId, NodeId), f64> {
    let mut loads = BTreeMap::new();
    for (from, to) in pairs(topology) {
        let mut here = BTreeMap::from([(from, 1.0)]);
        for _ in 0..=topology.stages() {
            let mut there = BTreeMap::new();
            for (node, amount) in here {
                let links = next_links[node.index()].links(to);
                for link in links {
                    let part = amount / links.len() as f64;
                    *loads.entry((node, *link)).or_insert(0.0) += part;
                    *there.entry(*link).or_insert(0.0) += part;
                }
            }
            here = there;
        }
        assert!((here[&to] - 1.0).abs() < 1e-9 && here.len() == 1, "{topology}: {from} to {to}: {here:?}");
    }
    loads
}

#[test]
fn every_pair_is_reached_and_loads_are_even() {
    for t in flies(17) {
        let (m, k) = (f64::from(t.externals()), f64::from(t.fan_out()));
        let loads = loads(&t, &next_links(&t, &alive(&t)));
        let most = loads.values().copied().fold(0.0, f64::max);
        // Each pair sends once: M units into each column, over k links.
        let exact = m == k.powi(t.stages().into());
        let bound = if exact { m / k } else { m / k * (1.0 + 1.0 / k) };
        assert!(most <= bound + 1e-9, "{t}: {most} on a link, {bound} at most");
        assert!(loads.keys().all(|(a, b)| t.joins(*a, *b)), "{t}");
    }
}

#[test]
fn every_server_has_k_links_in_and_k_out() {
    for t in flies(14) {
        for node in (0..t.nodes()).map(NodeId) {
            let (next, previous): (BTreeSet<_>, BTreeSet<_>) =
                (t.next(node).collect(), t.previous(node).collect());
            assert_eq!((next.len(), previous.len()), (t.fan_out().into(), t.fan_out().into()), "{t}: {node}");
            assert!((0..t.nodes()).map(NodeId).all(|n| t.joins(node, n) == next.contains(&n)));
            assert!(previous.iter().all(|p| t.joins(*p, node)));
        }
    }
}

#[test]
fn any_one_server_or_link_may_die_and_k_less_one_servers_in_a_full_fly() {
    for t in flies(10).filter(|t| t.fan_out() > 1) {
        for dead in (t.externals()..t.nodes()).map(NodeId) {
            let mut failures = alive(&t);
            failures.set_node(dead, false).unwrap();
            assert_eq!(t.between(&failures).unwrap().dead_links().count(), 0, "{t} without {dead}");
        }
        for from in (0..t.nodes()).map(NodeId) {
            for to in t.next(from) {
                let mut failures = alive(&t);
                failures.set_link(from, to, false).unwrap();
                assert_eq!(
                    t.between(&failures).unwrap().dead_links().count(),
                    0,
                    "{t} without {from} to {to}"
                );
            }
        }
    }
    let mut rng = Rng::new(5);
    for (m, k) in [(9, 3), (27, 3), (16, 4), (25, 5)] {
        let t = Topology::fly(m, k).unwrap();
        for _ in 0..200 {
            let mut failures = alive(&t);
            for _ in 1..k {
                let dead = m + rng.below((t.nodes() - m).into()) as u16;
                failures.set_node(NodeId(dead), false).unwrap();
            }
            assert_eq!(t.between(&failures).unwrap().dead_links().count(), 0, "{t}: {failures:?}");
        }
    }
}

/// The nodes that a packet passes from its input node to its output node, via an intermediate node if there
/// is one.
fn walk(
    next_links: &[NextLinks],
    from: NodeId,
    to: NodeId,
    via: Option<NodeId>,
    flow: u16,
) -> Option<Vec<NodeId>> {
    let phase = if via.is_some() { Phase::First } else { Phase::Direct };
    let mut code = MacCode { node: to, port: 0, next_hop: 0, phase };
    let carried = Carried { via: via.unwrap_or_default(), flow };
    let mut passed = vec![from, next_links[from.index()].toward(via.unwrap_or(to), phase, flow)?];
    loop {
        match next_links[passed.last()?.index()].onward(code, carried) {
            Onward::Here => return Some(passed),
            Onward::To(link, phase) => {
                code.phase = phase;
                passed.push(link);
            }
            Onward::Unreachable => return None,
            Onward::Astray => panic!("astray after {passed:?} to {to} via {via:?}"),
        }
        assert!(passed.len() < 40, "{passed:?}");
    }
}

#[test]
fn packets_for_nobody_go_astray() {
    let t = Topology::fly(4, 2).unwrap();
    let next_links = next_links(&t, &alive(&t));
    let code = |node: u16, phase| MacCode { node: NodeId(node), port: 0, next_hop: 0, phase };
    let via = |via: u16| Carried { via: NodeId(via), flow: 7 };
    for (at, code, carried) in [
        // At a node with external ports: a packet for another node, or with another intermediate node.
        (1, code(2, Phase::Direct), via(1)),
        (1, code(2, Phase::Second), via(1)),
        (1, code(2, Phase::First), via(3)),
    ] {
        assert_eq!(next_links[at].onward(code, carried), Onward::Astray);
    }
    // A server between the nodes is neither output nor intermediate node, and column 2 of the last stage does
    // not lead to node 3.
    assert_eq!(next_links[4].onward(code(5, Phase::Direct), via(0)), Onward::Unreachable);
    assert_eq!(next_links[4].onward(code(0, Phase::First), via(5)), Onward::Unreachable);
    assert_eq!(next_links[10].onward(code(3, Phase::Second), via(0)), Onward::Unreachable);
    assert_eq!(next_links[10].onward(code(1, Phase::Second), via(0)), Onward::To(NodeId(1), Phase::Second));
    assert_eq!(next_links[1].onward(code(1, Phase::First), via(3)), Onward::Here);
}

fn fly(most: u16) -> impl Strategy<Value = Topology> {
    (2..=most).prop_flat_map(|m| (Just(m), 2..=m)).prop_map(|(m, k)| Topology::fly(m, k).unwrap())
}

/// A fly, and which of its nodes and links are dead.
fn damaged() -> impl Strategy<Value = (Topology, Failures)> {
    (fly(12), proptest::collection::vec((any::<u16>(), any::<u16>(), any::<bool>()), 0..12)).prop_map(
        |(t, dead)| {
            let mut failures = alive(&t);
            for (a, b, node) in dead {
                let from = NodeId(a % t.nodes());
                if node {
                    failures.set_node(from, false).unwrap();
                } else {
                    let to: Vec<NodeId> = t.next(from).collect();
                    failures.set_link(from, to[usize::from(b) % to.len()], false).unwrap();
                }
            }
            (t, failures)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_arrive_over_the_stages_only(t in fly(60), a: u16, b: u16, c: u16, flow: u16) {
        let next_links = next_links(&t, &alive(&t));
        let m = t.externals();
        let (from, to, via) = (NodeId(a % m), NodeId(b % m), NodeId(c % m));
        prop_assume!(from != to && via != from && via != to);
        let (direct_length, via_length) = t.path_lengths();
        let direct = walk(&next_links, from, to, None, flow).unwrap();
        prop_assert_eq!(direct.len(), usize::from(direct_length));
        let over = walk(&next_links, from, to, Some(via), flow).unwrap();
        prop_assert_eq!(over.len(), usize::from(via_length));
        prop_assert_eq!(over[usize::from(t.stages()) + 1], via);
        prop_assert!(over.windows(2).all(|w| t.joins(w[0], w[1])));
        // The packets of a flow keep their path.
        prop_assert_eq!(walk(&next_links, from, to, Some(via), flow).unwrap(), over);
    }

    #[test]
    fn what_is_dead_is_avoided_as_long_as_there_is_a_way((t, failures) in damaged(), flow: u16) {
        let next_links = next_links(&t, &failures);
        let reach = Reach::new(&t, &failures).unwrap();
        let between = t.between(&failures).unwrap();
        for (from, to) in pairs(&t).filter(|(a, b)| failures.node_up(*a) && failures.node_up(*b)) {
            // By an exhaustive search.
            let mut here = BTreeSet::from([from]);
            for _ in 0..=t.stages() {
                here = here.iter().flat_map(|n| t.next(*n).filter(|l| failures.link_up(*n, *l))).collect();
            }
            let there = here.contains(&to);
            prop_assert_eq!(reach.leads(from, to), there);
            prop_assert_eq!(between.link_up(from, to), there);
            prop_assert_eq!(next_links[from.index()].leads(to), there);
            let path = walk(&next_links, from, to, None, flow);
            prop_assert_eq!(path.is_some(), there);
            for w in path.iter().flat_map(|w| w.windows(2)) {
                prop_assert!(failures.link_up(w[0], w[1]));
            }
        }
    }

    #[test]
    fn flows_are_spread_as_links_are_listed(t in fly(60), a: u16, b: u16) {
        let (from, to) = (NodeId(a % t.externals()), NodeId(b % t.externals()));
        prop_assume!(from != to);
        let next_links = NextLinks::with(&t, from, &alive(&t)).unwrap();
        let links = next_links.links(to);
        let mut counts: BTreeMap<NodeId, f64> = BTreeMap::new();
        for flow in 0..=u16::MAX {
            *counts.entry(next_links.toward(to, Phase::Direct, flow).unwrap()).or_default() += 1.0 / 65536.0;
        }
        for (link, share) in counts {
            let listed = links.iter().filter(|l| **l == link).count() as f64 / links.len() as f64;
            prop_assert!((share - listed).abs() < 0.2 * listed, "{share} of the flows, {listed} listed");
        }
    }
}

/// Nine nodes around a 3-ary 2-fly: every input at full rate by `matrix`, in packets of always new flows.
struct Cluster {
    topology: Topology,
    next_links: Vec<NextLinks>,
    balancers: Vec<Balancer>,
    links: BTreeMap<(NodeId, NodeId), u64>,
    work: Vec<u64>,
    packets: u64,
}

const RATE: u64 = 10_000_000_000;
const BYTES: u32 = 500;

impl Cluster {
    fn run(mode: Mode, steps: u64, matrix: impl Fn(u16, u64) -> u16) -> Self {
        let topology = Topology::fly(9, 3).unwrap();
        let config = |me| Config { mode, delta_ns: None, ..Config::new(NodeId(me), 9, RATE) };
        let mut this = Self {
            topology,
            next_links: next_links(&topology, &alive(&topology)),
            balancers: (0..9).map(|me| Balancer::new(config(me), 0).unwrap()).collect(),
            links: BTreeMap::new(),
            work: vec![0; topology.nodes().into()],
            packets: steps,
        };
        let mut rng = Rng::new(3);
        let packet_ns = u64::from(BYTES) * 8 * 1_000_000_000 / RATE;
        for step in 0..steps {
            for from in 0..9 {
                this.packet(step * packet_ns, &mut rng, NodeId(from), NodeId(matrix(from, step)));
            }
        }
        this
    }
    fn packet(&mut self, now: u64, rng: &mut Rng, from: NodeId, to: NodeId) {
        let flow = rng.number() as u32;
        let mut choice = [Choice::default()];
        let packet = Outgoing { flow, bytes: BYTES, output: to };
        self.balancers[from.index()].decide(now, &[packet], &mut choice);
        let via = match choice[0] {
            Choice::Local => {
                self.work[from.index()] += 1;
                return;
            }
            Choice::Direct => None,
            Choice::Via(via) => Some(via),
            Choice::Unreachable => panic!("everything is alive"),
        };
        let passed = walk(&self.next_links, from, to, via, Carried::of(NodeId(0), flow).flow).unwrap();
        if let Some(via) = via {
            self.balancers[via.index()].carry(now, to, BYTES.into());
        }
        passed.iter().for_each(|n| self.work[n.index()] += 1);
        passed.windows(2).for_each(|w| *self.links.entry((w[0], w[1])).or_default() += 1);
    }
    /// The busiest link relative to 2R/k; the busiest node of each kind relative to R.
    fn worst(&self) -> (f64, f64, f64) {
        let relative = |n: Option<&u64>| *n.unwrap() as f64 / self.packets as f64;
        let (external, between) = self.work.split_at(self.topology.externals().into());
        let link = relative(self.links.values().max()) * f64::from(self.topology.fan_out()) / 2.0;
        (link, relative(external.iter().max()), relative(between.iter().max()))
    }
}

#[test]
fn no_node_works_more_than_3r_and_no_server_in_between_more_than_2r() {
    // In this permutation, everything that the sources of one column send directly goes over one link.
    let permutations: [fn(u16, u64) -> u16; 3] =
        [|from, _| (from + 1) % 9, |from, _| from % 3 * 3 + from / 3, |from, _| (from * 2 + 1) % 9];
    for mode in [Mode::Valiant, Mode::Adaptive] {
        for matrix in permutations {
            let (link, external, between) = Cluster::run(mode, 20_000, matrix).worst();
            assert!(link < 1.05, "{mode:?}: {link} of 2R/k on a link");
            assert!(external < 3.05 && between < 2.05, "{mode:?}: {external} R and {between} R");
        }
    }
}

#[test]
fn uniform_traffic_goes_directly_and_passes_the_stages_once() {
    // Each output in turn, in a different order for each input.
    let (link, external, between) =
        Cluster::run(Mode::Adaptive, 20_000, |from, step| ((step + u64::from(from) * 5) % 9) as u16).worst();
    assert!(link < 0.55 && external < 2.1 && between < 1.1, "{link} of 2R/k, {external} R, {between} R");
}
