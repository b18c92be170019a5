use crate::file::{Cluster, Topology};
use crate::testing::{CONF, element, file, load, node, parse, reads, refused, router};
use std::path::Path;

#[test]
fn the_example_is_split_into_four_routers() {
    let path = format!("{CONF}/rb4.toml");
    let cluster =
        Cluster::load(Path::new(&path)).unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
    assert_eq!((cluster.name.as_str(), cluster.size(), cluster.rate_bps), ("rb4", 4, 1_000_000_000));
    assert_eq!(cluster.topology, Topology::Mesh);
    assert_eq!(cluster.link_rate(&cluster.nodes[0].links[0]), 500_000_000);
    let registry = elements::registry();
    let loaded =
        crate::program::program(&registry, &cluster).unwrap_or_else(|_| panic!("the program is refused"));
    for me in 0..4 {
        let text = node(&loaded, &cluster, me);
        for port in 0..4u16 {
            let querier = element(&text, &format!("arpq{port}"));
            if port == me {
                assert_eq!(querier, format!("ARPQuerier(10.0.{0}.1, 02:00:00:00:00:0{0})", port + 1));
                assert!(text.contains(&format!("cluster_out[0] -> [0]arpq{port};")), "{text}");
            } else {
                assert_eq!(
                    querier,
                    format!("ClusterEncap(cluster, NODE {port}, PORT 0, NET 10.0.{}.0/24)", port + 1)
                );
                assert!(text.contains(&format!("arpq{port} -> [0]vlb;")), "{text}");
            }
        }
        assert_eq!(text.matches("FromDevice(eth0)").count(), 1);
        assert_eq!(text.matches("ToDevice(eth0)").count(), 1);
        assert!(
            text.contains(&format!("cluster_out :: ClusterDecap(cluster, 10.0.{}.0/24);", me + 1)),
            "{text}"
        );
        assert!(
            text.contains(&format!(
                "ClusterInfo(NODE {me}, NODES 4, RATE 1000000000bps, MODE adaptive, DELTA 0.1s"
            )),
            "{text}"
        );
        assert!(text.contains(&format!("ControlSocket(UNIX, /run/valiant/rb4-{me}.sock)")), "{text}");
        assert!(!text.contains("CLUSTER_PORT"), "{text}");
        // The output can be parsed again, and has no unconnected element.
        reads(&text);
    }
}

#[test]
fn every_node_of_the_example_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["rb4.toml", "ip-router-4.click"] {
        std::fs::copy(format!("{CONF}/{name}"), dir.path().join(name)).unwrap();
    }
    crate::key::key(Some(&dir.path().join("rb4.key"))).unwrap();
    assert!(crate::key::key(Some(&dir.path().join("rb4.key"))).is_err(), "a key is overwritten");
    let cluster = Cluster::load(&dir.path().join("rb4.toml")).unwrap();
    crate::key::key_is_good(&cluster).unwrap();
    let registry = std::sync::Arc::new(elements::registry());
    let loaded = crate::program::program(&registry, &cluster).unwrap();
    for node in cluster.present() {
        let (elements, warnings) = crate::program::check_node(&registry, &cluster, &loaded, node).unwrap();
        assert!(elements > 90 && warnings.is_empty(), "{}", warnings.render_plain(warnings.sources()));
    }
    std::fs::write(dir.path().join("rb4.key"), "00ff").unwrap();
    assert!(crate::key::key_is_good(&cluster).is_err(), "a key of two bytes");
}

#[test]
fn compound_elements_are_split_too() {
    let program = std::fs::read_to_string(format!("{CONF}/ip-router.click")).unwrap();
    let cluster = parse(&file(3, |t| t)).unwrap();
    let text = node(&load(&cluster, &program).unwrap(), &cluster, 1);
    assert!(element(&text, "if0/arp").starts_with("ClusterEncap(cluster, NODE 0, PORT 0"), "{text}");
    assert!(element(&text, "if1/arp").starts_with("ARPQuerier(10.0.2.1"), "{text}");
    reads(&text);
}

#[test]
fn a_node_may_have_several_ports_and_another_none() {
    let text = "name = \"t\"\ninsecure = true\nrate = \"1G\"\nprogram = \"p.click\"\n\
        [[node]]\nid = 0\n[[node.link]]\nto = 1\ndevice = \"l\"\n\
        [[node]]\nid = 1\n[[node.link]]\nto = 0\ndevice = \"l\"\n\
        [[node.port]]\ndevice = \"a\"\nnetwork = \"10.1.0.1/16\"\n[[node.port]]\ndevice = \"b\"\nnetwork = \"10.2.0.1/16\"\n";
    let cluster = parse(text).unwrap();
    assert_eq!(
        cluster.ports().map(|(n, i, p)| (n.id, i, p.number)).collect::<Vec<_>>(),
        [(1, 0, 0), (1, 1, 1)]
    );
    let loaded = load(&cluster, &router(2)).unwrap();
    let (zero, one) = (node(&loaded, &cluster, 0), node(&loaded, &cluster, 1));
    assert_eq!(element(&zero, "arpq1"), "ClusterEncap(cluster, NODE 1, PORT 1, NET 10.2.0.0/16)");
    assert!(zero.contains("vlb[0] -> cluster_none :: Discard;"), "{zero}");
    // Hosts get ICMP errors from the node at which their packets entered.
    assert!(!zero.contains("vlb[2]"), "{zero}");
    assert_eq!(element(&one, "cluster_unreachable"), "ICMPError(10.1.0.1, unreachable, net)");
    let answers =
        "vlb[2] -> Strip(14) -> cluster_answered :: RatedSplitter(1000) -> cluster_unreachable -> [0]rt;";
    assert!(one.contains(answers), "{one}");
    assert!(
        one.contains("ClusterDecap(cluster, 10.1.0.0/16, 10.2.0.0/16)")
            && one.contains("cluster_out[1] -> [0]arpq1;")
    );
    assert!(one.contains("cluster_here :: Idle -> [0]vlb;"), "{one}");
    // Without a `mac`, the program's own address is used.
    assert_eq!(element(&one, "arpq0"), "ARPQuerier(10.1.0.1, 02:00:00:00:00:01)");
}

#[test]
fn removed_nodes_leave_their_numbers() {
    let gone = |t: String| t.replace("id = 1\n", "id = 1\nremoved = true\n");
    let cluster = parse(&file(3, gone)).unwrap();
    assert_eq!((cluster.size(), cluster.present().count()), (3, 2));
    let program = std::fs::read_to_string(format!("{CONF}/ip-router-3.click")).unwrap();
    let text = node(&load(&cluster, &program).unwrap(), &cluster, 0);
    assert_eq!(element(&text, "arpq1"), "ClusterEncap(cluster, NODE 1, PORT 0, NET 10.0.2.0/24)");
    assert_eq!(element(&text, "arpq2"), "ClusterEncap(cluster, NODE 2, PORT 0, NET 10.0.3.0/24)");
    assert!(text.contains("vlb[1] -> cluster_unlinked1 :: Discard;") && !text.contains("n0l1"), "{text}");
    // A number without a node counts too; ports are numbered without it.
    let sparse = file(3, |t| t.replace("id = 2\n", "id = 5\n").replace("to = 2\n", "to = 5\n"));
    let cluster = parse(&sparse).unwrap();
    assert_eq!(cluster.size(), 6);
    let text = node(&load(&cluster, &program).unwrap(), &cluster, 5);
    assert!(text.contains("NODE 5, NODES 6") && element(&text, "arpq2").starts_with("ARPQuerier"), "{text}");
}

#[test]
fn routes_of_the_file_lead_to_the_right_output() {
    let route = |t: String| t + "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"10.0.3.9\"\n";
    let cluster = parse(&file(4, route)).unwrap();
    let loaded = load(&cluster, &router(4)).unwrap();
    for id in 0..4 {
        let text = node(&loaded, &cluster, id);
        // The route comes first, so that it has priority over the program's own.
        assert!(element(&text, "rt").starts_with("RadixIPLookup(0.0.0.0/0 10.0.3.9 3,"), "{text}");
        // Other routes can be added at run time.
        assert_eq!(element(&text, "cluster_routes"), "ClusterRoutes(cluster, TABLE rt)");
    }
}

#[test]
fn watched_links() {
    let hello = |t: String| t + "[hello]\nevery = \"20ms\"\ndead = \"60ms\"\n";
    let cluster = parse(&file(4, |t| hello(t).replace("\"eth3\"", "\"eth3\"\nmtu = 1400"))).unwrap();
    let text = node(&load(&cluster, &router(4)).unwrap(), &cluster, 0);
    assert_eq!(element(&text, "link2"), "ClusterLink(cluster, PEER 2, MTU 1500, HELLO 0.02s, DEAD 0.06s)");
    for line in [
        "-> [0]link2[0] -> [1]vlb;",
        "vlb[2] -> [1]link2;",
        "link2[1] -> link2_queue",
        "link2[2] -> link2_hellos",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_resequencer_in_place_of_flowlets() {
    let text = |policy: &str| {
        let cluster = parse(&file(4, |t| format!("{t}[policy]\n{policy}"))).unwrap();
        node(&load(&cluster, &router(4)).unwrap(), &cluster, 0)
    };
    let plain = text("resequence = true\n");
    assert!(plain.contains("DELTA 0s, RESEQUENCE true"), "{plain}");
    assert!(plain.contains("vlb[0] -> cluster_order :: Resequencer(cluster) -> cluster_out ::"), "{plain}");
    let both = text("resequence = true\ndelta = \"1ms\"\n");
    assert!(both.contains("DELTA 0.001s, RESEQUENCE true"), "{both}");
}

#[test]
fn shaped_links() {
    let cluster =
        parse(&file(4, |t| t.replace("rate =", "shape = true\nlink_rate = \"300M\"\nrate ="))).unwrap();
    let text = node(&load(&cluster, &router(4)).unwrap(), &cluster, 0);
    assert!(
        text.contains("BandwidthShaper(300000000bps)") && text.contains("LINK_RATE 300000000bps"),
        "{text}"
    );
}

#[test]
fn fair_queues() {
    let program = router(4);
    let text = |change: &dyn Fn(String) -> String| {
        let cluster = parse(&file(4, change)).unwrap();
        let text = node(&load(&cluster, &program).unwrap(), &cluster, 2);
        reads(&text);
        text
    };
    let fair = text(&|t| t);
    // For links and for the node's own port; the others have no queue in this configuration.
    assert!(fair.contains("link3_queue :: ClusterQueue(cluster, 1000) ->"), "{fair}");
    assert_eq!(fair.matches("ClusterQueue(cluster, 1000, PORT 0)").count(), 1, "{fair}");
    assert_eq!(fair.matches(" Queue(1000)").count(), 3, "{fair}");
    assert!(!fair.contains("cluster_shaper"), "{fair}");
    // Without this setting, the program's own queues stay.
    let fifo = text(&|t| t.replace("rate =", "fair = false\nrate ="));
    assert!(fifo.contains("link3_queue :: Queue(1000) ->") && !fifo.contains("ClusterQueue"), "{fifo}");
    // Frames of a tunnel wait in the queue with its headers.
    let cluster = parse(&tunnelled(3, |t| t)).unwrap();
    let tunnels = node(&load(&cluster, &router(3)).unwrap(), &cluster, 1);
    assert!(
        tunnels.contains("cluster_fabric0_queue :: ClusterQueue(cluster, 1000, OFFSET 50) ->"),
        "{tunnels}"
    );
    // Other names of the class, and other classes.
    for (queue, wanted) in
        [("FullNoteQueue", "ClusterQueue(cluster, PORT 0)"), ("MixedQueue(9)", "MixedQueue(9)")]
    {
        let program = program.replace("out2 :: Queue(1000)", &format!("out2 :: {queue}"));
        let cluster = parse(&file(4, |t| t)).unwrap();
        let text = node(&load(&cluster, &program).unwrap(), &cluster, 2);
        assert!(element(&text, "out2").starts_with(wanted), "{text}");
    }
}

#[test]
fn a_port_with_a_rate() {
    let rated = |more: &str| {
        parse(&file(2, |t| {
            t.replace("device = \"eth1\"", "device = \"eth1\"\nrate = \"40M\"")
                .replace("rate = \"1G", &format!("{more}rate = \"1G"))
        }))
        .unwrap()
    };
    let program = router(2);
    for (more, wanted) in [
        ("", "-> cluster_shaper1 :: BandwidthShaper(40000000bps) -> [0]"),
        (
            "measure = true\n",
            "-> cluster_shaper1 :: BandwidthShaper(40000000bps) -> cluster_hop_out1 :: MeasureHop(STAMP true) -> [0]",
        ),
        ("fair = false\n", "-> cluster_shaper1 :: BandwidthShaper(40000000bps) -> [0]"),
    ] {
        let cluster = rated(more);
        let loaded = load(&cluster, &program).unwrap();
        let text = node(&loaded, &cluster, 1);
        reads(&text);
        assert!(text.contains(wanted), "{wanted}\nis not in\n{text}");
        assert!(!node(&loaded, &cluster, 0).contains("BandwidthShaper"));
    }
    let message =
        load(&rated(""), &program.replace("Queue(1000)", "MixedQueue(1000)")).map(drop).unwrap_err();
    assert!(
        message.contains("port 1 (eth1 of node 1) has a rate, but no Queue before its ToDevice"),
        "{message}"
    );
    assert!(
        refused(&file(2, |t| t.replace("device = \"eth1\"", "device = \"eth1\"\nrate = \"fast\"")))
            .contains("'fast' is not a rate")
    );
}

#[test]
fn measured_hops() {
    let hops = |text: &str| parse(&file(2, |t| t.replace("rate =", &format!("{text}rate =")))).unwrap();
    let (plain, measured) = (hops(""), hops("measure = true\n"));
    let program = router(2);
    let text = node(&load(&measured, &program).unwrap(), &measured, 1);
    reads(&text);
    for part in [
        "-> cluster_hop_in1 :: MeasureHop(STAMP true) ->",
        "-> cluster_hop_out1 :: MeasureHop(STAMP true) ->",
        "-> link0_hop :: MeasureHop(STAMP true) -> [0]link0[0] -> [1]vlb;",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}\nis not in\n{text}");
    }
    // Nodes that measure and nodes that do not can be mixed; and nodes that do not measure read nothing after
    // the Ethernet header.
    let without = load(&plain, &program).unwrap();
    assert_eq!(load(&measured, &program).unwrap().digest(), without.digest());
    assert!(!node(&without, &plain, 1).contains("MeasureHop"));
}

#[test]
fn packets_cannot_leave_past_the_querier_of_another_nodes_port() {
    let cluster = parse(&file(2, |t| t)).unwrap();
    let leak = router(2) + "\nInfiniteSource -> leak :: Null -> out1;\n";
    let loaded = load(&cluster, &leak).unwrap();
    let diags = loaded.node(&cluster, cluster.node(0).unwrap()).map(drop).unwrap_err();
    let message = diags.render(diags.sources(), false);
    assert!(message.contains("would leave by eth1 of node 1 past its ARPQuerier"), "{message}");
    assert!(loaded.node(&cluster, cluster.node(1).unwrap()).is_ok());
}

/// Links in a mesh as tunnels through one fabric: node N has 192.168.0.N+1.
fn tunnelled(nodes: u16, change: impl Fn(String) -> String) -> String {
    file(nodes, |mut t| {
        for a in 0..nodes {
            for b in (0..nodes).filter(|b| *b != a) {
                let tunnel = format!(
                    "vxlan = {{ vni = 7, device = \"fab0\", local = \"192.168.0.{}/24\", remote = \"192.168.0.{}\" }}",
                    a + 1,
                    b + 1
                );
                t = t.replace(&format!("device = \"n{a}l{b}\""), &tunnel);
            }
        }
        change(t)
    })
}

#[test]
fn tunnels_share_a_device() {
    let cluster = parse(&tunnelled(3, |t| t)).unwrap();
    let text = node(&load(&cluster, &router(3)).unwrap(), &cluster, 1);
    reads(&text);
    assert_eq!(text.matches("FromDevice(fab0").count(), 1, "{text}");
    assert_eq!(
        element(&text, "cluster_fabric0_arp").split(" ->").next(),
        Some("ARPQuerier(192.168.0.2, 02:56:c0:a8:00:02)")
    );
    for line in [
        "-> cluster_fabric0_tunnels :: VXLANDecap(7 192.168.0.1, 7 192.168.0.3);",
        "-> IPClassifier(dst host 192.168.0.2)",
        "link2_tunnel :: VXLANEncap(7, 192.168.0.2, 192.168.0.3, MTU 1550) -> [0]cluster_fabric0_arp;",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let shaped = parse(&tunnelled(3, |t| t.replace("rate =", "shape = true\nrate ="))).unwrap();
    let text = node(&load(&shaped, &router(3)).unwrap(), &shaped, 1);
    reads(&text);
    assert!(
        text.contains("BandwidthShaper(666666666bps) -> link0_unqueue :: Unqueue -> link0_tunnel"),
        "{text}"
    );
    // Through a router of the fabric, and with the device's own address.
    let far = tunnelled(2, |t| {
        t.replacen(
            "remote = \"192.168.0.2\"",
            "remote = \"192.168.9.2\", gateway = \"192.168.0.9\", mac = \"02:00:00:00:00:09\"",
            1,
        )
        .replace("local = \"192.168.0.2/24\"", "local = \"192.168.9.2/24\"")
        .replacen(
            "remote = \"192.168.0.1\"",
            "remote = \"192.168.0.1\", gateway = \"192.168.9.9\"",
            1,
        )
    });
    let cluster = parse(&far).unwrap();
    let text = node(&load(&cluster, &router(2)).unwrap(), &cluster, 0);
    reads(&text);
    assert!(text.contains("MTU 1550) -> SetIPAddress(192.168.0.9) -> [0]cluster_fabric0_arp;"), "{text}");
    assert!(text.contains("ARPResponder(192.168.0.1 02:00:00:00:00:09)"), "{text}");
    for (from, to, says) in [
        ("192.168.0.3\" }", "192.168.0.2\" }", "two tunnels with the same VNI and the same other end"),
        (
            "local = \"192.168.0.1/24\", remote = \"192.168.0.3",
            "local = \"192.168.0.9/24\", remote = \"192.168.0.3",
            "two addresses",
        ),
        (
            "remote = \"192.168.0.2\" }",
            "remote = \"10.0.0.2\" }",
            "10.0.0.2 is not in the network of 192.168.0.1",
        ),
        (
            "remote = \"192.168.0.2\" }",
            "remote = \"10.0.0.2\", gateway = \"10.0.0.1\" }",
            "the gateway 10.0.0.1",
        ),
        ("device = \"eth0\"", "device = \"fab0\"", "fab0 is used twice"),
    ] {
        let errors = refused(&tunnelled(3, |t| t.replacen(from, to, 1)));
        assert!(errors.contains(says), "{says}\nis not in\n{errors}");
    }
}

/// A 2-ary 2-fly of four nodes with a port each and eight without.
fn fly(change: impl Fn(String) -> String) -> String {
    let joined = cluster::Topology::fly(4, 2).unwrap();
    let mut text = String::from(
        "name = \"t\"\nkey_file = \"t.key\"\nrate = \"1Gbps\"\nprogram = \"p.click\"\n[topology]\nkind = \"fly\"\nk = 2\n",
    );
    for id in 0..joined.nodes() {
        text += &format!("[[node]]\nid = {id}\n");
        if id < 4 {
            text += &format!("[[node.port]]\ndevice = \"eth{id}\"\nnetwork = \"10.0.{}.1/24\"\n", id + 1);
        }
        for to in joined.neighbors(cluster::NodeId(id)) {
            text += &format!("[[node.link]]\nto = {to}\ndevice = \"n{id}l{to}\"\n");
        }
    }
    change(text)
}

#[test]
fn a_fly_is_split_too() {
    let cluster = parse(&fly(|t| t)).unwrap();
    assert_eq!((cluster.size(), cluster.topology), (12, Topology::Fly { k: 2 }));
    // 2R/k.
    assert_eq!(cluster.link_rate(&cluster.nodes[0].links[0]), 1_000_000_000);
    let loaded = load(&cluster, &router(4)).unwrap();
    for me in 0..12 {
        let text = node(&loaded, &cluster, me);
        reads(&text);
        assert!(
            element(&text, "cluster").starts_with(&format!("ClusterInfo(NODE {me}, NODES 12, ")),
            "{text}"
        );
        assert!(text.contains("TOPOLOGY fly 2 4"), "{text}");
        assert_eq!(text.matches(":: ClusterLink(").count(), 4, "{text}");
        assert_eq!(
            text.contains("vlb[4] -> cluster_unlinked4"),
            ![0, 2, 4, 8, 9].contains(&me),
            "{me} {text}"
        );
        assert_eq!(text.contains(":: ClusterDecap("), me < 4);
        assert_eq!(text.matches("ClusterEncap(").count(), if me < 4 { 3 } else { 4 });
    }
    let example = Cluster::load(Path::new(&format!("{CONF}/fly.toml")));
    let example = example.unwrap_or_else(|d| panic!("{}", d.render_plain(d.sources())));
    for id in 0..12 {
        let peers =
            |cluster: &Cluster| cluster.node(id).unwrap().links.iter().map(|l| l.to).collect::<Vec<_>>();
        assert_eq!(peers(&example), peers(&cluster));
        reads(&node(&load(&example, &router(4)).unwrap(), &example, id));
    }
    let cases: [(&str, &str, &str); 6] = [
        ("k = 2", "k = 3", "in this 3-ary 2-fly of 4 nodes and 8 servers in between"),
        ("k = 2", "k = 5", "no fly with k = 5 for 4 nodes"),
        ("rate =", "policy = { resequence = true }\nrate =", "resequence = true in a fly"),
        ("[[node]]\nid = 11\n", "[[node]]\nid = 12\n", "has 12 nodes, not 13"),
        ("[[node.link]]\nto = 5\ndevice = \"n0l5\"\n", "", "no link from node 0 to node 5"),
        ("to = 5\ndevice = \"n0l5\"", "to = 6\ndevice = \"n0l5\"", "a link between nodes 0 and 6"),
    ];
    for (from, to, says) in cases {
        let errors = refused(&fly(|t| t.replacen(from, to, 1)));
        assert!(errors.contains(says), "{says}\nis not in\n{errors}");
    }
}
