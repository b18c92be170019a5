//! Cluster files, on text.

use super::LinkKind;
use crate::testing::{CONF, file, load, node, parse, reads, refused};

#[test]
fn the_file_in_the_guide_is_good() {
    let guide = std::fs::read_to_string(format!("{CONF}/../doc/cluster.md")).unwrap();
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let cluster = parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((cluster.size(), cluster.present().count(), cluster.routes.len()), (3, 2, 1));
    // Everything that a file may contain, except etcd, which has a guide of its own.
    let keys_of = |text: &'static str| {
        text.lines()
            .filter(|line| line.contains("Option<") || line.contains("Spanned<") || line.contains(": bool"))
            .filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next())
            .filter(|key| !["etcd", "gateway"].contains(key))
            .collect::<Vec<&str>>()
    };
    let (before, rest) = include_str!("raw.rs").split_once("struct RawEtcd {").unwrap();
    let (of_etcd, after) = rest.split_once("\n}").unwrap();
    let (rest, of_etcd) = ([keys_of(before), keys_of(after)].concat(), keys_of(of_etcd));
    assert!(rest.len() > 25 && of_etcd.len() > 7);
    for key in rest {
        assert!(guide.contains(&format!("{key} = ")), "{key} is not in doc/cluster.md");
    }
    let guide = std::fs::read_to_string(format!("{CONF}/../doc/etcd.md")).unwrap();
    for key in of_etcd {
        assert!(guide.contains(&format!("\n{key} = ")), "{key} is not in doc/etcd.md");
    }
    let program = std::fs::read_to_string(format!("{CONF}/ip-router-3.click")).unwrap();
    reads(&node(&load(&cluster, &program).unwrap(), &cluster, 1));
}

#[test]
fn broken_files_are_errors_and_nothing_worse() {
    for (from, to) in [
        ("id = 1", "id = 65535"),
        ("id = 1", "id = -1"),
        ("device = \"eth1\"", "device = \"eth1\"\nmtu = 4294967295"),
        ("device = \"n1l0\"", "device = \"n1l0\"\nmtu = 4294967295"),
        ("10.0.2.1/24", "255.255.255.255/32"),
        ("10.0.2.1/24", "0.0.0.0/0"),
        ("\"1Gbps\"", "\"1e300Gbps\""),
        ("[[node]]\nid = 0", "[hello]\nevery = \"1e12s\"\ndead = \"1e12s\"\n[[node]]\nid = 0"),
        ("[[node]]\nid = 0", "[topology]\nkind = \"fly\"\nk = 4294967295\n[[node]]\nid = 0"),
    ] {
        let text = file(2, |t| t.replacen(from, to, 1));
        assert_ne!(text, file(2, |t| t), "{from}");
        refused(&text);
    }
    let whole = file(2, |t| t);
    for at in 0..whole.len() {
        for with in ["", "9", "\"", "[", "\n", "\u{e9}"] {
            let text = format!("{}{with}{}", &whole[..at], &whole[at + 1..]);
            // Some are valid files; none may cause a panic.
            let _ = parse(&text);
        }
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let cases: &[(&str, &str, &str)] = &[
        ("name = \"t\"", "name = \"t/../x\"", "t.toml:1: 't/../x' is not a valid cluster name"),
        ("key_file = \"t.key\"\n", "", "the cluster has no key"),
        ("rate = \"1Gbps\"", "rate = \"fast\"", "t.toml:3: 'fast' is not a rate"),
        ("rate = \"1Gbps\"", "speed = 1", "unknown field `speed`"),
        ("rate = \"1Gbps\"", "rate = 1", "expected a string, found the number 1"),
        ("rate = \"1Gbps\"", "rate = ", "t.toml:3:"),
        ("id = 1\n", "id = 0\n", "a second node 0"),
        ("id = 1\n", "id = 4096\n", "at most 4096 nodes"),
        ("network = \"10.0.2.1/24\"", "network = \"10.0.2.1/15\"", "/16 or longer, not /15"),
        ("network = \"10.0.2.1/24\"", "network = \"10.0.2.1/31\"", "has no room for hosts"),
        (
            "network = \"10.0.2.1/24\"",
            "network = \"10.0.2.0/24\"",
            "10.0.2.0 is the network's own or its broadcast address",
        ),
        ("network = \"10.0.2.1/24\"", "network = \"10.0.2.1\"", "is not an address with a prefix length"),
        ("network = \"10.0.2.1/24\"", "network = \"10.0.0.1/20\"", "overlaps"),
        ("mac = \"02:00:00:00:00:01\"", "mac = \"02:00:00:00:00\"", "is not an Ethernet address"),
        ("mac = \"02:00:00:00:00:01\"", "mac = \"03:00:00:00:00:01\"", "cannot be a multicast address"),
        (
            "device = \"n1l0\"",
            "device = \"eth1\"",
            "eth1 is used twice: an external port of node 1, and node 1's link to node 0",
        ),
        (
            "[[node.link]]\nto = 0\ndevice = \"n1l0\"\n",
            "",
            "node 0 has a link to node 1, but not the other way round",
        ),
        (
            "to = 0\ndevice = \"n1l0\"",
            "to = 7\ndevice = \"n1l0\"",
            "a link to node 7, which is not in the file",
        ),
        ("to = 0\ndevice = \"n1l0\"", "to = 1\ndevice = \"n1l0\"", "node 1 has a link to itself"),
        ("to = 0\ndevice = \"n1l0\"", "to = 0", "the link to node 0 needs either a device or a tunnel"),
        (
            "device = \"n1l0\"",
            "device = \"n1l0\"\nmtu = 1499",
            "carries frames of at most 1513 bytes; a packet of an external port needs 1514",
        ),
        (
            "device = \"eth1\"",
            "device = \"eth1\"\nmtu = 9000",
            "carries frames of at most 1514 bytes; a packet of an external port needs 9014",
        ),
        ("device = \"eth1\"", "device = \"eth1\"\nmtu = 67", "an MTU of 67 bytes"),
        ("id = 1\n", "id = 1\nremoved = true\n", "a cluster of 1 nodes"),
        ("id = 1\n", "id = 1\ncpus = \"x\"\n", "'x' is not a list of CPUs"),
    ];
    // Before the nodes.
    let sections = [
        ("[policy]\nmode = \"fair\"", "'fair' is not a policy"),
        ("[policy]\ndelta = \"soon\"", "'soon' is not a time"),
        ("[hello]\nevery = \"10ms\"\ndead = \"15ms\"", "dead before a second hello"),
        ("[hello]\ndead = \"15ms\"", "dead before a second hello"),
        ("[hello]\nevery = \"0.1ms\"", "every = \"0.1ms\" is out of range"),
        ("[hello]\ndead = \"90s\"", "the range is 2ms to 60s"),
        ("[topology]\nkind = \"ring\"", "'ring' is not a topology"),
        ("[topology]\nkind = \"fly\"", "needs k"),
        ("[define]\nMTU3 = \"9\"", "the variable MTU3 is set by the cluster file for a port"),
        (
            "[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.7.0.1\"",
            "10.7.0.1 is in the network of no external port",
        ),
        ("[[route]]\nprefix = \"10.9.0.0/16\"\nvia = \"10.0.1.1\"", "10.0.1.1 is not a neighbor"),
        ("[[route]]\nprefix = \"10.9.1.0/16\"\nvia = \"10.0.1.2\"", "write 10.9.0.0/16"),
    ];
    let node = "[[node]]\nid = 0";
    let sections = sections.map(|(section, message)| (node, format!("{section}\n{node}"), message));
    let cases = cases.iter().map(|(from, to, message)| (*from, (*to).to_owned(), *message));
    for (from, to, message) in cases.chain(sections) {
        let text = file(2, |t| t.replacen(from, &to, 1));
        assert_ne!(text, file(2, |t| t), "{from}");
        let errors = refused(&text);
        assert!(errors.contains(message), "{to}: {message}\nis not in\n{errors}");
        assert!(errors.contains("t.toml:"), "{errors}");
    }
    let three = file(3, |t| {
        t.replace("[[node.link]]\nto = 2\ndevice = \"n1l2\"\n", "")
            .replace("[[node.link]]\nto = 1\ndevice = \"n2l1\"\n", "")
    });
    assert!(refused(&three).contains("no link between node 1 and node 2"), "{}", refused(&three));
    // All errors at once, also unknown keys, with the known keys that are similar.
    let text = file(2, |t| {
        t.replace("rate = \"1Gbps\"", "rate = \"fast\"\nlinkrate = \"1Gbps\"")
            .replace("to = 0\n", "too = 1\nto = 0\n")
    });
    let errors = refused(&text);
    for part in ["'fast' is not a rate", "`linkrate`", "'link_rate' has a similar name", "`too`", "'to' has"]
    {
        assert!(errors.contains(part), "{part}\nis not in\n{errors}");
    }
    let errors = refused(&file(2, |t| t.replace("rate = \"1Gbps\"\n", "")));
    assert!(
        errors.contains("missing field `rate`") && errors.contains("doc/cluster.md has all keys"),
        "{errors}"
    );
    let errors = refused(&file(2, |t| t.replace("id = 0", "id =").replace("id = 1", "= 1")));
    assert_eq!(errors.matches("t.toml:").count(), 4, "{errors}");
    let text = file(2, |t| {
        t.replace("rate = \"1Gbps\"", "rate = \"fast\"").replace("id = 1\n", "id = 1\nworkers = 0\n")
    });
    let errors = refused(&text);
    assert!(errors.contains("'fast' is not a rate") && errors.contains("workers = 0"), "{errors}");
}

/// Values that are missing or of a wrong type, everywhere in the file: all errors at once, each at its place.
#[test]
fn all_missing_values_are_said_at_once_with_their_places() {
    let text = "name = \"t\"\nkey_file = 7\nrate = \"1Gbps\"\nshape = \"yes\"\nlinkrate = 1\n[etcd]\nttl = 5\n[hello]\nevery = 3\n\
                [[node]]\nhost = \"a\"\n[[node.port]]\nmtu = \"big\"\n[[node.port]]\nnetwork = \"10.0.1.1/24\"\n[[node.link]]\n\
                vxlan = { vni = 1, local = \"10.0.0.1/24\" }\n[[node]]\nid = -1\n[[node.link]]\ndevice = \"x\"\n\
                [[route]]\nvia = \"10.0.1.2\"\n[[route]]\nprefix = \"10.9.0.0/16\"\n";
    let errors = refused(text);
    for (line, what) in [
        (1, "missing field `program`"),
        (2, "expected a string, found the number 7"),
        (4, "expected true or false, found the string \"yes\""),
        (5, "unknown field `linkrate`"),
        (6, "missing field `endpoints`"),
        (7, "expected a string, found the number 5"),
        (9, "expected a string, found the number 3"),
        (10, "missing field `id`"),
        (12, "missing field `device`"),
        (12, "missing field `network`"),
        (13, "expected a whole number, found the string \"big\""),
        (14, "missing field `device`"),
        (16, "missing field `to`"),
        (17, "missing field `device`"),
        (17, "missing field `remote`"),
        (19, "the number -1 is out of range"),
        (20, "missing field `to`"),
        (22, "missing field `prefix`"),
        (24, "missing field `via`"),
    ] {
        let place = format!("t.toml:{line}: {what}");
        assert!(errors.contains(&place), "{place}\nis not in\n{errors}");
    }
    let count = |what: &str| errors.matches(what).count();
    assert_eq!(
        (count("missing field"), count(", found ") + count("out of range"), count("unknown field")),
        (12, 6, 1),
        "{errors}"
    );
    assert_eq!(refused("").matches("missing field").count(), 3);
}

#[test]
fn tunnels_have_two_ends_that_fit() {
    let tunnel = |vni: u32, a: u8, b: u8| {
        format!(
            "vxlan = {{ vni = {vni}, device = \"f\", local = \"192.168.0.{a}/24\", remote = \"192.168.0.{b}\" }}"
        )
    };
    let text = |one: String, other: String| {
        file(2, |t| t.replace("device = \"n0l1\"", &one).replace("device = \"n1l0\"", &other))
    };
    let cluster = parse(&text(tunnel(7, 1, 2), tunnel(7, 2, 1))).unwrap();
    let LinkKind::Vxlan(end) = &cluster.nodes[0].links[0].kind else { panic!("no tunnel") };
    assert_eq!((end.vni, end.mac().0), (7, [2, b'V', 192, 168, 0, 1]));
    assert!(
        refused(&text(tunnel(7, 1, 2), tunnel(8, 2, 1)))
            .contains("the ends of the tunnel between nodes 0 and 1 differ")
    );
    assert!(refused(&text(tunnel(7, 1, 2), tunnel(7, 2, 3))).contains("differ"));
    assert!(
        refused(&text(tunnel(7, 1, 2), "device = \"x\"".to_owned())).contains("a tunnel at one end only")
    );
    let small = tunnel(7, 1, 2) + "\nmtu = 1500";
    assert!(
        refused(&text(small, tunnel(7, 2, 1)))
            .contains("carries frames of at most 1514 bytes; a packet of an external port needs 1564")
    );
}

/// Settings for the connection to etcd are read with the file; certificates are checked when they are used.
#[test]
fn etcd_has_certificates_and_users() {
    let with = |lines: &str| file(2, |t| t.replacen("[[node]]", &format!("[etcd]\n{lines}\n[[node]]"), 1));
    let tls =
        "endpoints = [\"https://e:1\"]\nca_file = \"ca.pem\"\ncert_file = \"/c.pem\"\nkey_file = \"k.pem\"";
    let login = "\nuser = \"rb4\"\npassword_file = \"word\"";
    let cluster = parse(&with(&format!("{tls}{login}"))).unwrap_or_else(|e| panic!("{e}"));
    let trust = cluster.etcd.unwrap().trust;
    assert!(trust.ca_file.as_ref().is_some_and(|p| p.is_absolute() && p.ends_with("ca.pem")), "{trust:?}");
    assert_eq!(trust.cert_file.as_deref(), Some(std::path::Path::new("/c.pem")));
    assert_eq!((trust.user.as_deref(), cluster.warnings.len()), (Some("rb4"), 0));
    for (lines, says) in [
        ("endpoints = [\"https://e:1\"]", "ca_file: an https:// endpoint needs it"),
        ("endpoints = [\"http://e:1\"]\nca_file = \"ca.pem\"", "and there is none"),
        (&tls.replace("key_file", "password_file"), "it needs key_file"),
        (&format!("{tls}\nuser = \"rb4\""), "it needs password_file"),
        ("endpoints = [\"e:1\"]", "https://127.0.0.1:2379"),
    ] {
        let text = refused(&with(lines));
        assert!(text.contains(says), "{text}");
    }
    // A password that is sent in clear text is worth a warning, unless it is sent only within this machine.
    let warnings = |endpoint: &str| {
        let text = with(&format!("endpoints = [\"{endpoint}\"]{login}"));
        parse(&text).unwrap_or_else(|e| panic!("{e}")).warnings.len()
    };
    assert_eq!((warnings("http://e:1"), warnings("http://127.0.0.1:1")), (1, 0));
}
