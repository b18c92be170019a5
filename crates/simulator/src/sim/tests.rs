//! The results of runs that take a fraction of a second.

use super::*;
use crate::config::{Failure, SinglePath};
use crate::report::Report;
use cluster::{Mode, Rng};
use measure::matrix::{Matrix, Named};
use proptest::prelude::*;

const GBPS: u64 = 1_000_000_000;

fn named(kind: Named, ports: u16, load: f64) -> Config {
    let mut config = Config::new(ports, 10 * GBPS, Matrix::named(kind, ports, 1).unwrap(), load);
    config.last(60_000.0);
    config
}

fn run(config: Config) -> Report {
    let mut sim = Sim::new(config).unwrap();
    while sim.run(1 << 16) {}
    assert_eq!(sim.size(), (0, 0), "everything has left or was lost");
    assert_eq!((sim.flows.len() <= sim.places.len(), sim.progress()), (true, 1.0));
    let report = sim.report();
    let lost: u64 = report.lost.iter().map(|l| l.1).sum();
    assert!(report.left.0 + lost == report.offered.0, "{report:?}");
    report
}

#[test]
fn uniform_goes_direct_and_c_is_two() {
    for ports in [4, 16] {
        let r = run(named(Named::Uniform, ports, 0.9));
        assert!(r.direct() > 0.97 && (2.0..2.06).contains(&r.c), "{ports}: {} {}", r.direct(), r.c);
        assert!(r.loss() < 1e-9 && r.nodes.most() < 2.1 && r.links.most() < 1.0, "{ports}: {r:?}");
        // Two servers, an output line at 90 %: a little more than 48 us.
        let p50 = r.latency.quantile_ns(0.5);
        assert!((48_000..60_000).contains(&p50), "{p50}");
    }
}

#[test]
fn a_permutation_works_three_and_fills_no_link() {
    let r = run(named(Named::Permutation, 8, 0.95));
    assert!((2.5..3.0).contains(&r.c) && r.nodes.most() < 3.0, "{} {:?}", r.c, r.nodes);
    assert!(r.loss() < 0.001 && r.links.most() < r.links_by_chance, "{r:?}");
    // As RouteBricks describes it, Direct leaves the direct link half empty and overloads the others.
    let direct = run(Config { mode: Mode::Direct, ..named(Named::Permutation, 8, 0.95) });
    assert!(direct.links.most() > 1.05 && direct.c > r.c, "{} {}", direct.links.most(), direct.c);
}

/// RouteBricks, section 3.2: a static path needs links that are N/2 times as fast, unless traffic is uniform.
#[test]
fn single_paths_need_faster_links() {
    let single = |kind, link_bps| {
        run(Config { single_path: Some(SinglePath::Static), link_bps, ..named(kind, 8, 0.95) })
    };
    let uniform = single(Named::Uniform, None);
    assert!(uniform.loss() < 1e-9 && uniform.direct() > 0.999, "{uniform:?}");
    // A link carries 2R/8 of the 0.95R that come for it.
    let permutation = single(Named::Permutation, None);
    let carried = 1.0 - permutation.loss();
    assert!(
        (carried / (2.0 / 8.0 / 0.95) - 1.0).abs() < 0.1 && permutation.direct() > 0.999,
        "{permutation:?}"
    );
    let fast = single(Named::Permutation, Some(10 * GBPS));
    assert!(fast.loss() < 1e-9 && fast.c < 2.01, "{fast:?}");
}

/// RouteBricks, section 3.2: who sees all links needs no faster ones, and has to decide for each flow of all
/// ports.
#[test]
fn a_central_scheduler_needs_no_faster_links_and_decides_for_all_ports() {
    let with = |ports| {
        let mut config =
            Config { single_path: Some(SinglePath::Adaptive), ..named(Named::Permutation, ports, 0.8) };
        // For as long with any number of ports.
        (config.time_ns, config.warm_ns) = (4_000_000, 1_000_000);
        run(config)
    };
    let (four, eight) = (with(4), with(8));
    assert!(four.loss() < 0.01 && eight.loss() < 0.01, "{} {}", four.loss(), eight.loss());
    // Packets of a flow stay in order, whatever the path.
    assert!(eight.reordered_packets() < 1e-9, "{eight:?}");
    let more = eight.scheduled as f64 / four.scheduled as f64;
    assert!((1.8..2.2).contains(&more), "{more}");
    assert!(eight.direct() < 0.5, "{}", eight.direct());
}

/// Paths are not chosen at random: the loads of links differ by a few frames only, with full lines and with
/// many ports.
#[test]
fn links_are_even_to_a_few_frames() {
    for (kind, ports, load, packets) in [
        (Named::Permutation, 8, 1.0, 60_000.0),
        (Named::Permutation, 64, 0.9, 200_000.0),
        (Named::HotSpot, 16, 0.9, 300_000.0),
    ] {
        // The limit allows no bursts, so the length of the warm-up has no effect.
        let mut config = Config { delta_ns: None, burst_ns: Some(0), ..named(kind, ports, load) };
        config.last(packets);
        let r = run(config);
        assert!(r.links_above_frames < 3.0 && r.c < 3.0, "{kind:?} {ports}: {r:?}");
        let chance = 1.0 + (r.links_by_chance - 1.0) / 4.0;
        assert!(r.links.most() < chance * r.links.mean.max(1.0), "{kind:?} {ports}: {:?}", r.links.most());
    }
}

/// Flowlets that never pause, at nearly the rate that may go directly: all of them take the direct path, also
/// with the paper's rule.
#[test]
fn uniform_flowlets_stay_direct() {
    for mode in [Mode::Direct, Mode::Adaptive] {
        let mut config = Config { mode, ..named(Named::Uniform, 4, 0.95) };
        config.last(300_000.0);
        let r = run(config);
        assert!(r.direct() > 0.99, "{mode:?}: {} {:?}", r.direct(), r.flowlets);
    }
}

/// With full lines, some links have no free capacity: flowlets must leave capacity for transit packets.
#[test]
fn flowlets_do_not_cost_throughput() {
    for mode in [Mode::Adaptive, Mode::Valiant] {
        let mut config = named(Named::HotSpot, 4, 1.0);
        config.mode = mode;
        config.last(400_000.0);
        let r = run(config);
        assert!(r.loss() < 0.01 && r.below_offered() < 0.01, "{mode:?}: {} {}", r.loss(), r.below_offered());
    }
}

#[test]
fn an_oversubscribed_output_is_shared() {
    for (ports, packets) in [(4, 100_000.0), (16, 300_000.0)] {
        let mut config = named(Named::Overload, ports, 1.0);
        config.last(packets);
        let r = run(config.clone());
        let jain = r.oversubscribed_jain().unwrap();
        let hot = r.fair.iter().find(|f| f.output == 0).unwrap();
        assert!(jain > 0.99 && hot.carried > 0.98, "{ports}: {jain} {hot:?}");
        // With FIFO queues, an input that sends more gets more.
        let fifo = run(Config { fair: false, ..config }).oversubscribed_jain().unwrap();
        assert!(fifo < jain, "{ports}: {fifo} {jain}");
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let config = Config { jitter_ns: 5000, skew_ns: 9000, ..named(Named::HotSpot, 5, 0.9) };
    let text = |config: &Config| {
        let r = run(config.clone());
        format!("{:?} {:?} {:?} {:?} {:?}", r.offered, r.left, r.order, r.latency.text(), r.links)
    };
    assert_eq!(text(&config), text(&config));
    assert_ne!(text(&config), text(&Config { seed: 2, ..config.clone() }));
    // The traffic does not depend on the policy.
    let offered = |mode| run(Config { mode, ..config.clone() }).offered;
    assert_eq!(offered(Mode::Direct), offered(Mode::Valiant));
}

#[test]
fn flowlets_keep_order_and_no_skew_shows_nothing() {
    let pair = |mode, delta_ns, skew_ns| {
        let config = named(Named::Pair, 4, 1.0);
        run(Config { mode, delta_ns, skew_ns, flows: 300, train: 2.0, ..config })
    };
    let plain = pair(Mode::Direct, None, 20_000);
    let kept = pair(Mode::Direct, Some(100_000_000), 20_000);
    assert!(plain.reordered_sequences() > 0.02, "{:?}", plain.order);
    assert!(plain.skew.quantile_ns(0.5) > 1000 && plain.reordered_packets() >= plain.reordered_sequences());
    assert!(
        kept.reordered_sequences() * 10.0 < plain.reordered_sequences(),
        "{:?} {:?}",
        kept.order,
        plain.order
    );
    assert!(kept.flowlets.kept > 40_000, "{:?}", kept.flowlets);
}

#[test]
fn what_dies_costs_packets_until_it_is_known() {
    let config = named(Named::Uniform, 4, 0.5);
    let (half, detection_ns) = (config.warm_ns + config.time_ns / 4, config.time_ns / 10);
    let fail = |part, until_ns| {
        let failures = vec![Failure { part, at_ns: half, until_ns }];
        run(Config { failures, detection_ns, ..config.clone() })
    };
    let lost = |r: &Report, why: Loss| r.lost[why as usize].1;
    let link = fail(Part::Link(0, 1), None);
    assert!(lost(&link, Loss::DeadLink) > 100 && lost(&link, Loss::Unreachable) == 0, "{:?}", link.lost);
    // A sixteenth of the traffic, for a tenth of the time.
    assert!(link.loss() < 0.02, "{}", link.loss());
    let node = fail(Part::Node(2), None);
    assert!(lost(&node, Loss::DeadNode) > 100 && lost(&node, Loss::Unreachable) > 1000, "{:?}", node.lost);
    let back = fail(Part::Node(2), Some(half + 3 * detection_ns));
    assert!(back.loss() < node.loss(), "{} {}", back.loss(), node.loss());
}

#[test]
fn a_fly_carries_what_a_mesh_does() {
    let fly = |kind, mode| {
        let mut config = named(kind, 16, 0.9);
        (config.k, config.mode) = (Some(4), mode);
        config.last(150_000.0);
        run(config)
    };
    let r = fly(Named::Uniform, Mode::Adaptive);
    assert!(r.loss() < 1e-3 && r.servers == 48 && (1.8..1.9).contains(&r.nodes.most()), "{r:?}");
    assert!(r.direct() > 0.95 && r.inner_nodes.most() < 1.2, "{} {:?}", r.direct(), r.inner_nodes);
    // Four servers.
    let p50 = r.latency.quantile_ns(0.5);
    assert!((96_000..120_000).contains(&p50), "{p50}");
    for kind in [Named::Permutation, Named::Transpose] {
        let r = fly(kind, Mode::Adaptive);
        assert!(r.loss() < 1e-3 && r.links.most() < 1.2 && r.nodes.most() < 3.0, "{kind:?} {r:?}");
        assert!(r.inner_nodes.most() < 2.05, "{kind:?} {:?}", r.inner_nodes);
    }
}

#[test]
fn a_hot_spot_loads_the_links_of_a_fly_evenly() {
    let mut config = named(Named::HotSpot, 64, 0.9);
    config.k = Some(8);
    config.last(500_000.0);
    let r = run(config);
    // Distributed by the hashes of flows, the busiest link has 1.41 of its share, and a thousandth is lost.
    assert!(r.links.most() < 1.2 && r.loss() == 0.0, "{} {}", r.links.most(), r.loss());
}

#[test]
fn a_fly_goes_round_what_died() {
    let mut config = named(Named::Uniform, 9, 0.5);
    config.k = Some(3);
    let (half, detection_ns) = (config.warm_ns + config.time_ns / 4, config.time_ns / 10);
    // A server of the first stage.
    let failures = vec![Failure { part: Part::Node(10), at_ns: half, until_ns: None }];
    let r = run(Config { failures, detection_ns, ..config });
    let lost = |why: Loss| r.lost[why as usize].1;
    assert!(lost(Loss::DeadNode) > 50 && lost(Loss::Unreachable) == 0 && r.loss() < 0.05, "{:?}", r.lost);
}

#[test]
fn a_server_that_is_too_slow_loses() {
    let with = |rate| run(Config { server_bps: Some(rate), ..named(Named::Permutation, 4, 0.9) });
    let (enough, short) = (with(30 * GBPS), with(20 * GBPS));
    assert!(enough.loss() < 1e-6, "{:?}", enough.lost);
    assert!(short.loss() > 0.05 && short.lost[Loss::ServerFull as usize].1 > 0, "{:?}", short.lost);
}

#[test]
fn an_interrupted_run_says_what_there_is() {
    let mut sim = Sim::new(named(Named::Uniform, 4, 0.9)).unwrap();
    assert!(sim.run(100_000) && sim.progress() > 0.1 && sim.size().0 > 0);
    let r = sim.report();
    assert!(r.offered.0 > 1000 && r.left.0 > 1000 && r.offered_bps > 30e9, "{r:?}");
    // The run has not begun.
    let r = Sim::new(named(Named::Uniform, 4, 0.9)).unwrap().report();
    assert_eq!((r.offered, r.loss(), r.fair.len()), ((0, 0), 0.0, 0));
}

#[test]
fn what_cannot_be_is_refused() {
    let good = named(Named::Uniform, 4, 0.9);
    let why = |config| Sim::new(config).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(why(good.clone()), "");
    for (config, part) in [
        (Config { ports: 8, ..good.clone() }, "a matrix of 4 ports for a cluster of 8"),
        (Config { load: 1.5, ..good.clone() }, "input 0 would send 1.500"),
        (Config { load: f64::NAN, ..good.clone() }, "input 0"),
        (Config { train: 0.5, ..good.clone() }, "trains"),
        (Config { time_ns: 0, ..good.clone() }, "a time"),
        (Config { buffer: 100, ..good.clone() }, "a buffer"),
        (Config { rate_bps: 5, ..good.clone() }, "ports of 5"),
        (Config { jitter_ns: 1 << 40, ..good.clone() }, "delays"),
        (Config { delta_ns: Some(0), ..good.clone() }, "delta"),
        (Config { k: Some(1), ..good.clone() }, "a fly's k of 1"),
    ] {
        let message = why(config);
        assert!(message.contains(part), "{part}: {message}");
    }
    let fail = |part| {
        let failures = vec![Failure { part, at_ns: 5, until_ns: None }];
        why(Config { failures, ..good.clone() })
    };
    assert!(fail(Part::Node(4)).contains("node 4") && fail(Part::Link(1, 1)).contains("no link"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// All traffic that overloads no port is carried: sums of random permutations, some of them with entries
    /// left out.
    #[test]
    fn admissible_matrices_are_carried(
        ports in 4_usize..9, weights in prop::collection::vec(0.01_f64..1.0, 1..6), left in 0.3_f64..1.0, seed: u64, delta: bool,
    ) {
        let mut rng = Rng::new(seed);
        let sum: f64 = weights.iter().sum();
        let mut parts = vec![vec![0.0; ports]; ports];
        for weight in weights {
            let mut order: Vec<usize> = (0..ports).collect();
            (1..ports).rev().for_each(|at| order.swap(at, rng.below(at as u64 + 1) as usize));
            order.into_iter().enumerate().for_each(|(s, d)| parts[s][d] += weight / sum);
        }
        let spared = rng.below(ports as u64) as usize;
        parts[spared].iter_mut().for_each(|p| *p *= left);
        let matrix = Matrix::new(&parts).unwrap();
        prop_assert!(matrix.admissible());
        let mut config = Config::new(ports as u16, 10 * GBPS, matrix, 0.98);
        config.delta_ns = delta.then_some(100_000_000);
        config.seed = seed;
        // In a shorter time, a burst of one input can be more than a hundredth of the traffic.
        config.last(100_000.0);
        let r = run(config);
        // Packet by packet, no node carries more than 3R: in, through, out. Flowlets that do not end stay on
        // their way, and some ways have more of them than others: of 600 drawn cases, half of them with such
        // flowlets, one loses more than 1 % (2.1 %), and the busiest node of one carries 3.02R. Tests have
        // drawn 3.05R since.
        let (lost, carried) = if delta { (0.04, 3.3) } else { (0.01, 3.0) };
        prop_assert!(r.loss() < lost, "{} lost, links {:?}", r.loss(), r.links.most());
        prop_assert!(r.nodes.most() <= carried && r.c <= 3.0, "{:?} {}", r.nodes.most(), r.c);
    }
}
