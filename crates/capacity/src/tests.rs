//! The plans of the paper, and properties of all plans.

use super::*;
use proptest::prelude::*;

const G: u64 = 1_000_000_000;

fn wanted(configuration: usize, ports: u64) -> Wanted {
    Wanted {
        ports,
        rate_bps: 10 * G,
        matrix: Matrix::Worst,
        server: CONFIGURATIONS[configuration].server(),
        switch: Switch::default(),
    }
}

fn planned(configuration: usize, ports: u64) -> Plan {
    plan(&wanted(configuration, ports)).unwrap()
}

#[test]
fn rb4_is_a_mesh_of_four() {
    let p = planned(0, 4);
    assert_eq!((p.topology, p.servers(), p.links, p.link_bps), (Topology::Mesh, 4, 6, 5 * G));
    // 2 to 3 servers on a path (§6.2), at 24 us each.
    assert_eq!((p.hops, p.latency_ns), ((2, 3), (48_000, 72_000)));
    assert_eq!((p.node_uniform_bps, p.node_worst_bps), (20 * G, 30 * G));
    assert_eq!((p.units, p.watts, p.c_permutation), (4.0, 2600.0, 2.75));
    assert_eq!((p.binding, p.ports_per_link), (Binding::Processing, 1));
}

#[test]
fn a_server_that_forwards_faster_than_it_routes_has_more_ports() {
    let mut server = CONFIGURATIONS[1].server();
    server.rate_bps = 30 * G;
    assert_eq!((server.processes(10 * G, 3), server.processes(G, 3)), (1, 10));
    // A port of 10 Gb/s takes a third of it to route, and a sixth of it to be forwarded twice.
    server.forward_bps = Some(120 * G);
    assert_eq!((server.processes(10 * G, 3), server.processes(10 * G, 2)), (2, 2));
    assert_eq!(server.processes(G, 3), 20);
    let mut w = wanted(1, 64);
    w.server = server;
    assert_eq!((plan(&w).unwrap().ports_per_server, plan(&w).unwrap().io_servers), (2, 32));
    // One that forwards slower than a port needs is too slow, whatever it routes.
    w.server.forward_bps = Some(15 * G);
    let error = plan(&w).unwrap_err();
    assert!(error.to_string().contains("and forwards 15 Gbps"), "{error}");
    w.server.forward_bps = Some(0);
    assert!(plan(&w).unwrap_err().to_string().contains("what a server can forward"));
}

#[test]
fn the_meshes_end_where_the_nic_ports_do() {
    // 4 x 8 + 1 = 33 links; 19 x 8 + 1 = 153; the NIC of two external ports has none free: 19 x 8 = 152.
    assert_eq!([0, 1, 2].map(|c| planned(c, 4).mesh_ports), [34, 154, 306]);
    for (configuration, last) in [(0, 34), (1, 154), (2, 306)] {
        assert_eq!(planned(configuration, last).topology, Topology::Mesh);
        let next = planned(configuration, last + 1);
        assert!(matches!(next.topology, Topology::Fly { n: 2, .. }), "{next:?}");
        assert_eq!(next.binding, Binding::FanOut);
    }
    // The paper's number of ports is a mesh for the first two, and is not for the third.
    assert_eq!([32, 128].map(|n| planned(0, n).topology == Topology::Mesh), [true, false]);
    assert_eq!(planned(1, 128).topology, Topology::Mesh);
    assert_eq!(planned(2, 2048).topology, Topology::Fly { k: 152, n: 2 });
}

#[test]
fn a_thousand_ports_take_two_intermediate_servers_each_and_96_us() {
    let p = planned(0, 1024);
    assert_eq!(p.topology, Topology::Fly { k: 33, n: 2 });
    assert_eq!((p.io_servers, p.intermediate_servers), (1024, 2048));
    assert_eq!((p.hops, p.latency_ns), ((4, 7), (96_000, 168_000)));
    // 3072 servers with 33 links each; 20 G over 33 links.
    assert_eq!((p.links, p.link_bps), (50_688, 606_060_607));
}

#[test]
fn two_ports_for_each_server_double_what_a_link_carries_four_times() {
    // 20 G of each of 64 servers over 64, twice: 2 s s R / N, not 2 s R / N.
    let p = planned(2, 128);
    assert_eq!((p.servers(), p.degree, p.link_bps), (64, 63, 625_000_000));
    assert_eq!(planned(1, 128).link_bps, 156_250_000);
}

#[test]
fn links_take_ports_side_by_side_and_a_server_is_added_where_that_does_not_suffice() {
    // 20 G / 18 needs two ports of 1 G: 32 / 2 links, and one more on the free port of 10 G.
    let p = planned(0, 18);
    assert_eq!((p.servers(), p.ports_per_link, p.fan_out), (18, 2, 17));
    // 20 G / 19 does too, and that makes 18 links; of 20 servers each has links of 1 G.
    let p = planned(0, 19);
    assert_eq!((p.io_servers, p.intermediate_servers, p.binding), (19, 1, Binding::LinkRate));
    assert_eq!((p.ports_per_link, p.link_bps), (1, G));
}

#[test]
fn clos_networks_by_hand() {
    assert_eq!(clos(48, 48), Some(1));
    // 4 leaves, 13 ports down and 25 up; 25 spines of 4 ports, 12 in a switch.
    assert_eq!(clos(49, 48), Some(4 + 3));
    // 4 leaves of 16, 31 spines of 4.
    assert_eq!(clos(64, 48), Some(4 + 3));
    // 48 leaves of 16, 31 spines.
    assert_eq!(clos(768, 48), Some(48 + 31));
    // 64 leaves, 31 networks of 64 ports.
    assert_eq!(clos(1024, 48), Some(64 + 31 * 7));
    assert_eq!(clos(5, 4), None);
    let other = planned(0, 48).switched.unwrap();
    // 48 ports at $500 are 12 servers at $2000.
    assert_eq!((other.servers, other.switches, other.server_equivalents), (48, 1, 60.0));
    assert_eq!(other.watts, None);
}

#[test]
fn a_uniform_matrix_asks_for_less() {
    let mut w = wanted(0, 4);
    w.server.rate_bps = 29 * G;
    let error = plan(&w).unwrap_err();
    assert_eq!(
        error,
        PlanError::ServerTooSlow { rate_bps: 10 * G, c: 3, server_bps: 29 * G, forward_bps: None }
    );
    assert!(error.to_string().contains("3 x 10 Gbps = 30 Gbps, the server processes 29 Gbps"), "{error}");
    w.matrix = Matrix::Uniform;
    assert_eq!(plan(&w).unwrap().servers(), 4);
}

#[test]
fn what_cannot_be_is_an_error() {
    let mut w = wanted(0, 0);
    assert!(matches!(plan(&w), Err(PlanError::Range { got: 0, .. })));
    w.ports = 4;
    w.server.nics.remove(0);
    assert_eq!(plan(&w), Err(PlanError::NicTooSlow { rate_bps: 10 * G, fastest_bps: G }));
    // One slot with two ports: a mesh of two, and no more.
    w.server = Server { slots: 1, nics: vec![Nic { ports: 2, port_bps: 10 * G }], ..wanted(0, 1).server };
    w.ports = 2;
    let p = plan(&w).unwrap();
    assert_eq!((p.topology, p.node_worst_bps, p.hops), (Topology::Mesh, 20 * G, (2, 2)));
    w.ports = 3;
    assert_eq!(plan(&w), Err(PlanError::NoFanOut { slots: 1, rate_bps: 10 * G, mesh_ports: 2 }));
}

#[test]
fn ports_give_way_to_links() {
    // Four ports could be processed, four fit, but then nothing joins the servers; with three a link of 30 G
    // does.
    let mut w = wanted(0, 6);
    w.server = Server {
        rate_bps: 120 * G,
        slots: 2,
        nics: vec![Nic { ports: 2, port_bps: 40 * G }],
        ..w.server.clone()
    };
    let p = plan(&w).unwrap();
    assert_eq!((p.ports_per_server, p.ports_processed, p.binding), (3, 4, Binding::FanOut));
    w.ports = 4;
    assert_eq!(plan(&w).unwrap().topology, Topology::Single);
}

#[test]
fn figure_3_has_its_shape() {
    let curves = figure3(&Switch::default()).unwrap();
    let at =
        |curve: usize, ports: u64| curves[curve].points.iter().find(|p| p.ports == ports).unwrap().servers;
    assert_eq!(curves.len(), 4);
    assert_eq!([0, 1, 2, 3].map(|c| at(c, 32)), [32.0, 32.0, 16.0, 44.0]);
    assert_eq!([0, 1, 2].map(|c| at(c, 1024)), [3072.0, 3072.0, 1536.0]);
    // "More expensive than the server-based clusters" holds wherever these are a mesh, and from 1024 ports
    // on, but not between: 64 ports take 192 of today's servers, or 64 and 7 switches at 12 servers each.
    for curve in curves.iter().take(3) {
        for point in &curve.points {
            if point.topology == Some(Topology::Mesh) || point.ports >= 1024 {
                assert!(point.servers < at(3, point.ports), "{point:?}");
            }
        }
    }
    assert_eq!([0, 3].map(|c| at(c, 64)), [192.0, 148.0]);
}

proptest! {
    #[test]
    fn more_ports_never_take_fewer_servers(
        configuration in 0_usize..3, ports in 1_u64..6000, more in 0_u64..6000,
    ) {
        let (few, many) = (planned(configuration, ports), planned(configuration, ports + more));
        prop_assert!(few.servers() <= many.servers());
        let (few, many) = (few.switched.unwrap(), many.switched.unwrap());
        prop_assert!(few.dollars <= many.dollars);
    }

    #[test]
    fn more_slots_never_take_more_servers(ports in 1_u64..6000, slots in 2_u32..40, more in 0_u32..40) {
        let mut w = wanted(0, ports);
        w.server.slots = slots;
        let few = plan(&w).unwrap();
        w.server.slots = slots + more;
        prop_assert!(plan(&w).unwrap().servers() <= few.servers());
    }

    #[test]
    fn no_server_and_no_link_is_above_its_capacity(
        ports in 1_u64..3000, rate in 1_u64..200, power in 20_u64..2000, slots in 1_u32..30,
        nics in proptest::collection::vec((1_u32..17, prop::sample::select(vec![1, 10, 25, 40, 100, 400])), 1..4),
    ) {
        let nics: Vec<Nic> = nics.into_iter().map(|(ports, g)| Nic { ports, port_bps: g * G }).collect();
        let server = Server { rate_bps: power * G, slots, nics, ..wanted(0, 1).server };
        let w = Wanted { ports, rate_bps: rate * G, matrix: Matrix::Worst, server, switch: Switch::default() };
        if let Ok(p) = plan(&w) {
            prop_assert!(p.node_worst_bps <= w.server.rate_bps);
            prop_assert!(p.io_servers * p.ports_per_server >= ports);
            prop_assert!(p.degree <= p.fan_out);
            let fastest = w.server.nics.iter().map(|nic| nic.port_bps).max().unwrap();
            prop_assert!(p.link_bps <= p.ports_per_link * fastest);
            if let Topology::Fly { k, n } = p.topology {
                prop_assert!(k.pow(n) >= p.io_servers && k.pow(n - 1) < p.io_servers);
            }
        }
    }
}

#[test]
fn flies_are_as_the_cluster_builds_them() {
    for ports in [64, 256, 1024] {
        let server = CONFIGURATIONS[0].server();
        let switch = Switch::default();
        let wanted = Wanted { ports, rate_bps: FIGURE_RATE_BPS, matrix: Matrix::Worst, server, switch };
        let planned = plan(&wanted).unwrap();
        let Topology::Fly { k, n } = planned.topology else { panic!("{planned:?}") };
        let t = cluster::Topology::fly(planned.io_servers as u16, k as u16).unwrap();
        assert_eq!((u64::from(t.nodes()), u32::from(t.stages())), (planned.servers(), n));
    }
}

#[test]
fn a_torus_takes_more_servers_than_the_fly_or_mesh() {
    // A packet crosses a quarter of each ring, twice, and each crossing is processed.
    let torus = planned(0, 1024).torus.unwrap();
    let needed = 1024.0 * (1.0 + 2.0 * torus.hops) / 3.0;
    assert!(torus.servers as f64 >= needed, "{torus:?}");
    assert_eq!(torus.servers, torus.k.pow(torus.n));
    assert!((torus.hops - f64::from(torus.n) * torus.k as f64 / 4.0).abs() < 0.2, "{torus:?}");
    for configuration in 0..3 {
        for ports in [8, 32, 128, 512, 2048] {
            let p = planned(configuration, ports);
            let torus = p.torus.unwrap();
            assert!(torus.servers >= p.servers(), "{configuration} {ports}: {torus:?}, {}", p.servers());
        }
    }
    assert_eq!(planned(2, 2).torus, None, "one server suffices");
}
