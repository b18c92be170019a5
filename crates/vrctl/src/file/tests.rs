//! Host files, on text.

use super::{HostFile, InterfaceId, Limits, Owner, Scheme, Sharing, Tag};
use dpdk::PortSpec;
use std::path::Path;

const CONF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conf");

/// A file that is good, and that has something of everything.
const GOOD: &str = r#"
[host]
name = "edge"
cores = [0, 1]

[port.wan]
device = "eth0"
default = "red.DEV0"

[port.lan]
device = "net_null0,size=60"
sharing = "software-queued"

[port.dmz]
device = "0000:03:00.0"
sharing = "hardware"

[router.red]
program = "red.click"
scheme = "hybrid"
share = 2
owner = "alice"
limits = { routes = 1000, neighbors = 9, memory = "64 MB" }

[router.red.variables]
GW = "10.0.0.1"

[[router.red.interface]]
port = "wan"
vlan = 10
mac = "02:00:00:00:00:01"

[[router.red.interface]]
port = "lan"
qinq = [100, 7]

[[router.red.interface]]
name = "INSIDE"

[router.blue]
program = "blue.click"
owner = "@netops"

[[router.blue.interface]]
port = "wan"
vlan = 10

[[router.blue.interface]]
port = "dmz"
whole = true

[[router.blue.interface]]

[[link]]
ends = ["red.INSIDE", "blue.DEV2"]
"#;

fn parse(text: &str) -> Result<HostFile, String> {
    HostFile::parse("t.toml", text, Path::new("/conf")).map_err(|d| d.render(d.sources(), false))
}

fn good(text: &str) -> HostFile {
    parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// The errors in a text.
fn refused(text: &str) -> String {
    parse(text).map(drop).expect_err(text)
}

/// The number of the line that a part of a text begins in.
fn line_of(text: &str, part: &str) -> usize {
    let at = text.find(part).unwrap_or_else(|| panic!("{part} is not in\n{text}"));
    text[..at].matches('\n').count() + 1
}

/// Whether there is a message about a line, or a hint below one.
fn says(errors: &str, line: usize, message: &str) -> bool {
    let place = format!("t.toml:{line}: ");
    errors.contains(&place)
        && errors.lines().any(|l| l.contains(message) && (l.starts_with(&place) || l.starts_with("  help: ")))
}

#[test]
fn everything_that_a_file_says_is_read() {
    let host = good(GOOD);
    assert_eq!((host.name.as_str(), &host.cores[..]), ("edge", &[0, 1][..]));
    assert_eq!(host.directory, Path::new("/run/valiant/edge"));
    let ports: Vec<_> = host.ports.iter().map(|p| (p.name.as_str(), p.sharing, p.default)).collect();
    let red0 = InterfaceId { router: 0, interface: 0 };
    assert_eq!(
        ports,
        [
            ("wan", Sharing::Software, Some(red0)),
            ("lan", Sharing::SoftwareQueued, None),
            ("dmz", Sharing::Hardware, None)
        ]
    );
    assert_eq!(host.ports[1].device, PortSpec::Vdev("net_null0,size=60".into()));
    let [red, blue] = &host.routers[..] else { panic!("{:?}", host.routers) };
    assert_eq!((red.name.as_str(), red.scheme, red.share), ("red", Scheme::Hybrid, 2));
    assert_eq!((blue.name.as_str(), blue.scheme, blue.share), ("blue", Scheme::Shared, 1));
    assert_eq!(red.program.as_deref(), Some(Path::new("/conf/red.click")));
    assert_eq!(red.owner, Some(Owner::User("alice".into())));
    assert_eq!(blue.owner, Some(Owner::Group("netops".into())));
    let limits = Limits {
        routes: Some(1000),
        neighbors: Some(9),
        memory_bytes: Some(64_000_000),
        ..Limits::default()
    };
    assert_eq!((red.limits, blue.limits), (limits, Limits::default()));
    assert_eq!(host.socket(red), Path::new("/run/valiant/edge/red.sock"));
    let interfaces: Vec<_> =
        host.interfaces().map(|(id, i)| (host.name_of(id), i.port, i.tag, i.link)).collect();
    let expected = [
        ("red.DEV0", Some(0), Tag::Vlan(10), None),
        ("red.DEV1", Some(1), Tag::Qinq(100, 7), None),
        ("red.INSIDE", None, Tag::Mac, Some(0)),
        ("blue.DEV0", Some(0), Tag::Vlan(10), None),
        ("blue.DEV1", Some(2), Tag::Whole, None),
        ("blue.DEV2", None, Tag::Mac, Some(0)),
    ];
    let named = interfaces.iter().map(|(name, port, tag, link)| (name.as_str(), *port, *tag, *link));
    assert_eq!(named.collect::<Vec<_>>(), expected);
    let inside = InterfaceId { router: 0, interface: 2 };
    assert_eq!(host.peer(inside), Some(InterfaceId { router: 1, interface: 2 }));
    assert_eq!(host.peer(red0), None);
    assert!(host.warnings.is_empty(), "{:?}", host.warnings);
    // The variables of the program.
    let defines = red.defines();
    let value = |name: &str| defines.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(value("GW"), Some("10.0.0.1"));
    assert_eq!((value("DEV0"), value("MAC0")), (Some("virtual:red/DEV0"), Some("02:00:00:00:00:01")));
    assert_eq!((value("INSIDE"), defines.len()), (Some("virtual:red/INSIDE"), 7));
    assert_eq!(value("INSIDE_MAC").map(str::len), Some(17));
    // Every name of a device in a program is one that an element takes.
    assert_eq!(PortSpec::parse("virtual:red/DEV0").ok(), Some(red.device(&red.interfaces[0])));
}

#[test]
fn all_kinds_of_tags_are_read() {
    let with_tunnel = GOOD.replace("[port.dmz]", &format!("{TUNNEL}[port.dmz]"));
    let tag = |key: &str| good(&with_tunnel.replace("qinq = [100, 7]", key)).routers[0].interfaces[1].tag;
    for (key, expected) in [
        ("", Tag::Mac),
        ("whole = false", Tag::Mac),
        ("whole = true", Tag::Whole),
        ("vlan = 1", Tag::Vlan(1)),
        ("vlan = 4094", Tag::Vlan(4094)),
        ("mpls = 16", Tag::Mpls(16)),
        ("mpls = 1048575", Tag::Mpls(1_048_575)),
        ("vni = 1", Tag::Vni(1)),
        ("vni = 16777215", Tag::Vni(16_777_215)),
        ("queue = 0", Tag::Queue(0)),
        ("qinq = [1, 4094]", Tag::Qinq(1, 4094)),
    ] {
        assert_eq!(tag(key), expected, "{key}");
    }
}

/// A change of the good file, the message that it causes, and a part of the line that the message is about.
type Case = (&'static str, &'static str, &'static str, &'static str);

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let cases: &[Case] = &[
        // Names.
        ("\"edge\"", "\"the edge\"", "'the edge' is not a valid name for a host", "name = "),
        ("[port.dmz]", "[port.\"d m\"]", "'d m' is not a valid name for a port", "[port.\"d m\"]"),
        (
            "name = \"INSIDE\"",
            "name = \"IN-SIDE\"",
            "'IN-SIDE' is not a valid name for an interface",
            "name = \"IN-",
        ),
        ("name = \"INSIDE\"", "name = \"DEV0\"", "a second interface DEV0 of router red", "name = \"DEV0\""),
        (
            "name = \"INSIDE\"",
            "name = \"MAC0\"",
            "$MAC0 would be this device and the address of DEV0",
            "name = \"MAC0\"",
        ),
        // The host.
        ("cores = [0, 1]", "cores = []", "no processor for the host", "cores = "),
        ("cores = [0, 1]", "cores = [0, 0]", "processor 0 is named twice", "cores = "),
        ("cores = [0, 1]", "cores = [0, -1]", "cores = -1 is out of range", "cores = "),
        // Ports.
        ("\"eth0\"", "\"eth0,x=1\"", "only PCI addresses and DPDK's virtual devices", "device = \"eth0,x"),
        (
            "\"eth0\"",
            "\"virtual:a/b\"",
            "is an interface of a virtual router, not a physical port",
            "device = \"virtual",
        ),
        ("\"eth0\"", "\"3:00.0\"", "is not a port", "device = \"3"),
        (
            "\"eth0\"",
            "\"03:00.0\"",
            "0000:03:00.0 is the device of two ports, wan and dmz",
            "device = \"0000",
        ),
        (
            "\"eth0\"",
            "\"net_null0\"",
            "net_null0 is the device of two ports, wan and lan",
            "device = \"net_null0,",
        ),
        ("\"hardware\"", "\"hardware\"\nqueues = 0", "queues = 0 is out of range", "queues = "),
        (
            "\"software-queued\"",
            "\"software-queued\"\nqueues = 4",
            "queues are for the sharing \"hardware\"",
            "queues = ",
        ),
        ("\"hardware\"", "\"hard\"", "'hard' is not a way to share a port", "sharing = \"hard\""),
        ("\"red.DEV0\"", "\"red.DEV9\"", "the router red has no interface 'DEV9'", "default = "),
        ("\"red.DEV0\"", "\"reed.DEV0\"", "the router 'red' has a similar name", "default = "),
        ("\"red.DEV0\"", "\"red\"", "'red' is not an interface of a router", "default = "),
        ("\"red.DEV0\"", "\"red.DEV1\"", "red.DEV1 is not on the port wan", "default = "),
        // Routers.
        ("scheme = \"hybrid\"", "scheme = \"own\"", "'own' is not a scheme", "scheme = "),
        ("share = 2", "share = 0", "share = 0 is out of range", "share = "),
        ("share = 2", "share = -2", "share = -2 is out of range", "share = "),
        ("share = 2", "share = 65536", "a share is a weight: 1 to 65535", "share = "),
        ("\"alice\"", "\"@\"", "'@' is not a user or a group", "owner = "),
        ("\"alice\"", "\"al ice\"", "'al ice' is not a user or a group", "owner = "),
        ("\"64 MB\"", "\"64\"", "'64' is not an amount of memory", "limits = "),
        ("routes = 1000", "routes = 0", "routes = 0 is out of range", "limits = "),
        ("GW = ", "DEV0 = ", "$DEV0 is the device of an interface", "DEV0 = "),
        ("GW = ", "MAC0 = ", "$MAC0 is the address of an interface", "MAC0 = "),
        ("GW = ", "\"G W\" = ", "'G W' is not the name of a variable", "\"G W\" = "),
        // Tags and addresses.
        ("qinq = [100, 7]", "vlan = 0", "vlan = 0 is out of range", "vlan = 0"),
        ("qinq = [100, 7]", "vlan = 4095", "a VLAN id: 1 to 4094", "vlan = 4095"),
        ("qinq = [100, 7]", "qinq = [100, 4095]", "qinq = 4095 is out of range", "qinq = "),
        ("qinq = [100, 7]", "qinq = [100]", "qinq is not a pair of VLAN ids", "qinq = "),
        ("qinq = [100, 7]", "mpls = 15", "mpls = 15 is out of range", "mpls = "),
        ("qinq = [100, 7]", "mpls = 1048576", "16 to 1048575", "mpls = "),
        ("qinq = [100, 7]", "vni = 0", "vni = 0 is out of range", "vni = "),
        ("qinq = [100, 7]", "vni = 16777216", "1 to 16777215", "vni = "),
        ("qinq = [100, 7]", "queue = -1", "queue = -1 is out of range", "queue = "),
        ("qinq = [100, 7]", "qinq = [1, 2]\nvni = 7", "an interface with `qinq` and `vni`", "vni = 7"),
        ("02:00:00:00:00:01", "02:00:00:00:00", "is not an Ethernet address", "mac = "),
        ("02:00:00:00:00:01", "03:00:00:00:00:01", "cannot be a multicast address", "mac = "),
        ("port = \"lan\"", "port = \"lam\"", "the port 'lan' has a similar name", "port = \"lam\""),
        (
            "port = \"lan\"",
            "port = \"dmz\"",
            "red.DEV1 is on the port dmz, which blue.DEV1 has as a whole",
            "[[router.red.interface]]\nport = \"dmz\"",
        ),
        (
            "name = \"INSIDE\"",
            "name = \"INSIDE\"\nvlan = 7",
            "`vlan` of an interface without a port",
            "vlan = 7",
        ),
        // Links.
        ("\"blue.DEV2\"", "\"blue.DEV7\"", "the router blue has no interface 'DEV7'", "ends = "),
        ("\"blue.DEV2\"", "\"blu.DEV2\"", "there is no router 'blu'", "ends = "),
        ("\"blue.DEV2\"", "\"blue.DEV0\"", "blue.DEV0 is an end of a link and on the port wan", "ends = "),
        ("\"blue.DEV2\"", "\"red.INSIDE\"", "a link from red.INSIDE to itself", "ends = "),
        ("[\"red.INSIDE\", \"blue.DEV2\"]", "[\"red.INSIDE\"]", "a link with 1 ends", "ends = "),
        (
            "[[link]]",
            "[[link]]\nends = [\"blue.DEV2\", \"red.INSIDE\"]\n[[link]]",
            "red.INSIDE is an end of two links",
            "ends = [\"red",
        ),
    ];
    for (from, to, message, place) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let (errors, line) = (refused(&text), line_of(&text, place));
        assert!(says(&errors, line, message), "{to}: {message}\nat line {line} is not in\n{errors}");
    }
}

/// Two interfaces may have one tag or one address, but not both on one port.
#[test]
fn no_frame_is_for_two_interfaces() {
    let add = |interface: &str| {
        let text = format!("[[router.blue.interface]]\nname = \"MORE\"\n{interface}\n[[link]]");
        GOOD.replacen("[[link]]", &text, 1)
    };
    let mac = "mac = \"02:00:00:00:00:01\"";
    for (interface, message) in [
        ("port = \"wan\"\nvlan = 10\nMAC", "the port wan: VLAN 10 and the address 02:00:00:00:00:01"),
        ("port = \"dmz\"\nwhole = true", "blue.MORE is on the port dmz, which blue.DEV1 has as a whole"),
        ("port = \"dmz\"\nmpls = 17", "blue.MORE is on the port dmz, which blue.DEV1 has as a whole"),
    ] {
        let text = add(&interface.replace("MAC", mac));
        let (errors, line) = (refused(&text), line_of(&text, "name = \"MORE\""));
        assert!(says(&errors, line, message), "{message}\nat line {line} is not in\n{errors}");
        assert_eq!(errors.matches("error").count() + errors.matches("t.toml").count(), 4, "{errors}");
    }
    for interface in [
        "port = \"wan\"\nvlan = 10",
        "port = \"wan\"\nvlan = 11\nMAC",
        "port = \"wan\"\nMAC",
        "port = \"wan\"\nqinq = [10, 10]\nMAC",
        "port = \"lan\"\nvlan = 10\nMAC",
    ] {
        good(&add(&interface.replace("MAC", mac)));
    }
    let twice =
        GOOD.replace("qinq = [100, 7]", &format!("{mac}\n[[router.red.interface]]\nport = \"lan\"\n{mac}"));
    let errors = refused(&twice);
    assert!(
        errors.contains("red.DEV1 and red.DEV2 have the same frames of the port lan: the address 02:"),
        "{errors}"
    );
}

#[test]
fn addresses_are_made_and_differ() {
    // As many interfaces as it takes to see a mistake, all of which have no address.
    let mut text = String::from("[host]\nname = \"edge\"\n[port.wan]\ndevice = \"eth0\"\n");
    for router in 0..200 {
        text += &format!("[router.r{router}]\nprogram = \"p.click\"\n");
        text += &"[[router.rN.interface]]\nport = \"wan\"\n".replace("rN", &format!("r{router}")).repeat(5);
    }
    let host = good(&text);
    let all: std::collections::BTreeSet<_> = host.interfaces().map(|(_, i)| i.mac).collect();
    assert_eq!(all.len(), 1000);
    assert!(all.iter().all(|mac| mac[0] & 3 == 2), "locally administered, unicast");
    // They stay when the file changes elsewhere, and move when one is given to somebody else.
    let (first, second) = (&host.routers[7].interfaces[0], &host.routers[7].interfaces[1]);
    let moved = text.replace("[router.r3]", "[router.r300]").replace("router.r3.", "router.r300.");
    assert_eq!(good(&moved).routers[7].interfaces[0].mac, first.mac);
    let given = format!(
        "[[router.r9.interface]]\nport = \"wan\"\nvlan = 5\nmac = \"{}\"\n[router.r10]",
        first.address()
    );
    let host = good(&text.replace("[router.r10]", &given));
    assert_ne!(host.routers[7].interfaces[0].mac, first.mac);
    assert_eq!(host.routers[7].interfaces[1].mac, second.mac);
    // Another host has others.
    let other = good(&text.replace("\"edge\"", "\"core\""));
    assert!(other.interfaces().all(|(_, i)| !all.contains(&i.mac)));
}

/// Unknown keys, missing values and values of a wrong type, everywhere in the file: all errors at once.
#[test]
fn keys_and_types_are_checked_at_once_with_their_places() {
    let text = "[host]\nnam = \"x\"\ncores = [\"a\"]\n[port.wan]\nsharing = 7\n[ports.lan]\n\
                [router.red]\nprogramm = \"a\"\nlimits = { route = 5, memory = 64 }\n\
                [[router.red.interface]]\nvlan = \"10\"\nwhole = 1\n[[router.blue.interface]]\nname = 5\n[[link]]\n";
    let errors = refused(text);
    for (line, what) in [
        (2, "unknown field `nam`"),
        (3, "expected a whole number, found the string \"a\""),
        (4, "missing field `device`"),
        (5, "expected a string, found the number 7"),
        (6, "unknown field `ports`"),
        (8, "unknown field `programm`"),
        (9, "unknown field `route`"),
        (9, "expected a string, found the number 64"),
        (11, "expected a whole number, found the string \"10\""),
        (12, "expected true or false, found the number 1"),
        (14, "expected a string, found the number 5"),
        (15, "missing field `ends`"),
    ] {
        let place = format!("t.toml:{line}: {what}");
        assert!(errors.contains(&place), "{place}\nis not in\n{errors}");
    }
    for near in ["'name' has", "'port' has", "'program' has", "'routes' has"] {
        assert!(errors.contains(near), "{near}\nis not in\n{errors}");
    }
    assert!(errors.contains("doc/virtual-routers.md has all keys"), "{errors}");
    let errors = refused(&GOOD.replace("share = 2", "share =").replace("[link]", "[link"));
    assert_eq!(errors.matches("t.toml:").count(), 4, "{errors}");
    // The same key twice.
    let errors = refused(&GOOD.replace("[router.blue]", "[router.red]"));
    assert!(errors.contains("duplicate key"), "{errors}");
}

const TUNNEL: &str =
    "[port.lan.tunnel]\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\nremote_mac = \"02:00:00:00:00:09\"\n";

#[test]
fn interfaces_with_a_vni_use_the_tunnel_of_their_port() {
    let with = |tunnel: &str, tag: &str| {
        GOOD.replacen("[port.dmz]", &format!("{tunnel}[port.dmz]"), 1).replacen("qinq = [100, 7]", tag, 1)
    };
    let host = good(&with(TUNNEL, "vni = 7"));
    let tunnel = host.ports[1].tunnel.unwrap();
    assert_eq!(tunnel.addresses(), ([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), [2, 0, 0, 0, 0, 9]));
    assert!(host.warnings.is_empty());
    let text = with("", "vni = 7");
    assert!(
        refused(&text).contains("red.DEV1 has a VNI, and the port lan has no tunnel"),
        "{}",
        refused(&text)
    );
    let warnings = good(&with(TUNNEL, "vlan = 7")).warnings;
    assert!(
        warnings.render_plain(warnings.sources()).contains("no interface uses the tunnel of the port lan")
    );
    for (from, to, message) in [
        ("192.0.2.1", "192.0.2", "local = '192.0.2' is not the IPv4 address of an end"),
        ("192.0.2.2", "224.0.0.5", "remote = '224.0.0.5' is not the IPv4 address of an end"),
        ("192.0.2.2", "192.0.2.1", "both ends of the tunnel are 192.0.2.1"),
        ("02:00:00:00:00:09", "02:00", "'02:00' is not an Ethernet address"),
        ("remote_mac", "mac", "unknown field `mac`"),
    ] {
        let errors = refused(&with(&TUNNEL.replacen(from, to, 1), "vni = 7"));
        assert!(errors.contains(message), "{message} is not in\n{errors}");
    }
}

#[test]
fn an_interface_sends_at_a_rate() {
    let with = |key: &str| GOOD.replacen("qinq = [100, 7]", &format!("qinq = [100, 7]\n{key}"), 1);
    let rate = |host: &HostFile| host.routers[0].interfaces.iter().map(|i| i.rate_bps).collect::<Vec<_>>();
    assert_eq!(rate(&good(GOOD)), [None, None, None]);
    assert_eq!(rate(&good(&with("rate = \"2.5Gbps\""))), [None, Some(2_500_000_000), None]);
    for (key, message) in [
        ("rate = \"fast\"", "'fast' is not a rate"),
        ("rate = \"100bps\"", "at least 8000 bits a second"),
        ("rate = 100", "expected a string, found the number 100"),
    ] {
        let text = with(key);
        assert!(says(&refused(&text), line_of(&text, "rate ="), message), "{}", refused(&text));
    }
    let text = GOOD.replacen("name = \"INSIDE\"", "name = \"INSIDE\"\nrate = \"1M\"", 1);
    assert!(says(&refused(&text), line_of(&text, "rate ="), "`rate` of an interface without a port"));
    let text = GOOD.replacen("whole = true", "whole = true\nrate = \"1M\"", 1);
    let text = text.replacen("owner = \"@netops\"", "scheme = \"direct\"", 1);
    assert!(
        refused(&text).contains("blue.DEV1 has a rate: a router with the scheme direct"),
        "{}",
        refused(&text)
    );
}

#[test]
fn a_virtual_machine_has_no_program() {
    let machine = |keys: &str, scheme: &str| {
        let text = format!(
            "[port.p]\ndevice = \"eth0\"\n[router.lab]\nscheme = \"{scheme}\"\n{keys}\n\
             [[router.lab.interface]]\nport = \"p\"\nvlan = 7\n[[router.lab.interface]]\nname = \"LAN\"\nport = \"p\"\n"
        );
        HostFile::parse("t.toml", &text, Path::new("/conf")).map_err(|d| d.render_plain(d.sources()))
    };
    let host = machine("machine = true\nfilter = [\"allow tcp\"]", "hybrid").unwrap();
    let lab = &host.routers[0];
    assert_eq!((lab.program.as_deref(), lab.filter.len(), lab.scheme), (None, 1, Scheme::Hybrid));
    assert!(host.vhost_socket(lab, &lab.interfaces[1]).ends_with("lab.LAN.vhost"));
    for (keys, scheme, line, what) in [
        ("", "shared", 3, "the router lab has no program"),
        ("machine = false", "hybrid", 3, "the router lab has no program"),
        ("machine = true", "shared", 5, "a virtual machine with the scheme shared"),
        (
            "machine = true\nprogram = \"p.click\"",
            "hybrid",
            6,
            "the router lab is a virtual machine, and has a program",
        ),
        ("machine = true\ncores = [0]", "hybrid", 6, "cores of a virtual machine"),
        ("machine = true\nowner = \"root\"", "hybrid", 6, "an owner of a virtual machine"),
        ("machine = true\nvariables = { A = \"1\" }", "hybrid", 6, "variables of a virtual machine"),
        ("machine = true\n[router.lab.control]", "hybrid", 6, "a control plane of a virtual machine"),
    ] {
        let told = machine(keys, scheme).unwrap_err();
        assert!(told.contains(&format!("t.toml:{line}: {what}")), "{keys}: {told}");
        assert_eq!(told.matches("t.toml:").count() - told.matches("it is a").count(), 1, "{keys}: {told}");
    }
}

/// One wrong thing causes one message.
#[test]
fn errors_cause_no_others() {
    for (from, to) in [
        ("port = \"wan\"\nvlan = 10\nmac", "port = \"wann\"\nvlan = 10\nmac"),
        ("\"blue.DEV2\"", "\"blue.DEV9\""),
        ("scheme = \"hybrid\"", "scheme = \"own\""),
        ("vlan = 10\nmac", "vlan = 9999\nmac"),
        ("device = \"eth0\"", "device = \"eth 0\""),
    ] {
        let text = GOOD.replacen(from, to, 1);
        let errors = refused(&text);
        let warned = errors.matches("warning").count();
        assert_eq!(errors.lines().filter(|l| l.starts_with("t.toml:")).count() - warned, 1, "{errors}");
    }
}

#[test]
fn what_is_of_no_use_is_a_warning() {
    let warnings = |text: &str| {
        let host = good(text);
        host.warnings.render(host.warnings.sources(), false)
    };
    let alone = warnings(&GOOD[..GOOD.find("[[link]]").unwrap()]);
    assert!(
        says(&alone, line_of(GOOD, "name = \"INSIDE\""), "red.INSIDE has neither a port nor a link"),
        "{alone}"
    );
    assert_eq!(alone.matches("nothing reaches it").count(), 2, "{alone}");
    let unused = warnings(&format!("{GOOD}[port.spare]\ndevice = \"eth7\"\n"));
    assert!(unused.contains("the port spare has no interface: its frames are dropped"), "{unused}");
    assert!(warnings("").contains("the host t has no router"));
}

#[test]
fn names_and_paths_have_defaults() {
    let named = GOOD.replace("name = \"edge\"", "");
    assert_eq!(good(&named).name, "t");
    let text = HostFile::parse("a b.toml", &named, Path::new("/conf")).map(drop).unwrap_err();
    let text = text.render(text.sources(), false);
    assert!(text.contains("'a b' is not a valid name for a host") && text.contains("set name = "), "{text}");
    let directory = |to: &str| GOOD.replace("cores = [0, 1]", &format!("directory = \"{to}\""));
    assert_eq!(good(&directory("run")).directory, Path::new("/conf/run"));
    assert_eq!(good(&directory("/var/run/x")).directory, Path::new("/var/run/x"));
    assert!(good(&directory("run")).cores.is_empty() && !good(&directory("run")).processors().is_empty());
    let errors = refused(&directory(&"x".repeat(100)));
    assert!(errors.contains("control socket is longer than 107 bytes"), "{errors}");
    let lonely = refused("[router.r]\nprogram = \"a.click\"\n");
    assert!(says(&lonely, 1, "the router r has no interface"), "{lonely}");
}

#[test]
fn programs_must_be_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("edge.toml");
    std::fs::write(&file, GOOD).unwrap();
    std::fs::create_dir(dir.path().join("blue.click")).unwrap();
    let errors = HostFile::load(&file).map(drop).unwrap_err();
    let errors = errors.render(errors.sources(), false);
    let line = |part| format!("edge.toml:{}: the program ", line_of(GOOD, part));
    for (part, reason) in
        [("program = \"red", "No such file or directory"), ("program = \"blue", "it is not a file")]
    {
        assert!(errors.lines().any(|l| l.contains(&line(part)) && l.ends_with(reason)), "{errors}");
    }
    std::fs::remove_dir(dir.path().join("blue.click")).unwrap();
    for program in ["red.click", "blue.click"] {
        std::fs::write(dir.path().join(program), "Idle -> Discard;").unwrap();
    }
    assert_eq!(HostFile::load(&file).unwrap().routers.len(), 2);
    let errors = HostFile::load(&dir.path().join("none.toml")).map(drop).unwrap_err();
    assert!(errors.render(errors.sources(), false).contains("none.toml: No such file or directory"));
}

#[test]
fn broken_files_are_errors_and_nothing_worse() {
    for at in 0..GOOD.len() {
        for with in ["", "9", "\"", "[", "\n", "\u{e9}"] {
            // Some are valid files; none may cause a panic.
            let _ = parse(&format!("{}{with}{}", &GOOD[..at], &GOOD[at + 1..]));
        }
    }
}

/// The guide shows everything that a file may contain, and its file is good.
#[test]
fn the_file_in_the_guide_is_good() {
    let guide = std::fs::read_to_string(format!("{CONF}/../doc/virtual-routers.md")).unwrap();
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(good(text).routers.len(), 2);
    let keys: Vec<&str> = include_str!("raw.rs")
        .lines()
        .filter(|line| line.contains("Option<") || line.contains("Spanned<"))
        .filter_map(|line| line.trim().strip_prefix("pub(super) ")?.split(':').next())
        .filter(|key| {
            !["port", "router", "variables", "control", "allow", "tcp", "interface", "tunnel"].contains(key)
        })
        .collect();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(guide.contains(&format!("{key} = ")), "{key} is not in doc/virtual-routers.md");
    }
    let host = HostFile::load(Path::new(&format!("{CONF}/virtual-routers.toml")))
        .unwrap_or_else(|e| panic!("{e:?}"));
    assert!(host.warnings.is_empty() && host.routers.len() == 3);
}

/// What a router in a process of its own cannot share.
#[test]
fn direct_routers_have_ports_and_links_alone() {
    let read = |blue: &str, more: &str| {
        let text = format!(
            "[host]\ncores = [0]\n[port.wan]\ndevice = \"eth0\"\n[port.lan]\ndevice = \"eth1\"\n\
             [router.blue]\nprogram = \"p.click\"\nscheme = \"direct\"\n{blue}\
             [[router.blue.interface]]\nport = \"wan\"\nvlan = 7\n[[router.blue.interface]]\nport = \"wan\"\nvlan = 8\n\
             [[router.blue.interface]]\n[[router.blue.interface]]\n\
             [router.red]\nprogram = \"p.click\"\n[[router.red.interface]]\n{more}"
        );
        HostFile::parse("edge.toml", &text, Path::new("/conf"))
            .map_err(|diags| diags.render(diags.sources(), false))
    };
    let alone = "port = \"lan\"\n[[link]]\nends = [\"blue.DEV2\", \"blue.DEV3\"]\n";
    let host = read("cores = [2, 3]\n", alone).unwrap();
    assert_eq!((host.processors(), host.processors_of(&host.routers[0])), (vec![0], vec![2, 3]));
    assert_eq!(host.processors_of(&host.routers[1]), [0]);
    assert!(host.warnings.is_empty());
    let shared = alone.replace("lan", "wan");
    let errors = read("", &shared).unwrap_err();
    for text in [
        "edge.toml:10: blue.DEV0 shares the port wan with red.DEV0: a router with the scheme direct has its ports alone",
        "blue.DEV1 shares the port wan with red.DEV0",
        "give blue the whole port and red another one, or use the scheme hybrid",
    ] {
        assert!(errors.contains(text), "{text} is not in\n{errors}");
    }
    let linked = "port = \"lan\"\n[[router.red.interface]]\n[[link]]\nends = [\"blue.DEV2\", \"red.DEV1\"]\n";
    let errors = read("", linked).unwrap_err();
    let text = "blue.DEV2 is linked with red.DEV1: a link of a router with the scheme direct leads to the router itself";
    assert!(errors.contains(text), "{errors}");
    let errors = read("cores = [2, 2]\n", alone).unwrap_err();
    assert!(errors.contains("processor 2 is named twice"), "{errors}");
    // With the other scheme the same entry is good: one word changes.
    let text = "[port.wan]\ndevice = \"eth0\"\n[router.blue]\nprogram = \"p.click\"\ncores = [1]\n[[router.blue.interface]]\nport = \"wan\"\n";
    let host = HostFile::parse("edge.toml", text, Path::new("/conf")).unwrap();
    let warnings = host.warnings.render_plain(host.warnings.sources());
    assert!(
        warnings.contains("edge.toml:5: warning: `cores` is without effect in the scheme shared"),
        "{warnings}"
    );
}

#[test]
fn a_receive_queue_is_for_one_interface() {
    let text = |sharing: &str, first: &str, second: &str| {
        format!(
            "[port.p]\ndevice = \"eth0\"\nsharing = \"{sharing}\"\n[router.blue]\nprogram = \"b.click\"\n[[router.blue.interface]]\n\
             port = \"p\"\n{first}\n[router.red]\nprogram = \"r.click\"\n[[router.red.interface]]\nport = \"p\"\n{second}\n"
        )
    };
    for sharing in ["software", "software-queued"] {
        for second in ["queue = 0", "vlan = 7", ""] {
            good(&text(sharing, "queue = 1", second));
        }
        // Other addresses do not help.
        let twice = refused(&text(sharing, "queue = 1", "queue = 1\nmac = \"02:00:00:00:00:07\""));
        assert!(
            says(&twice, 11, "blue.DEV0 and red.DEV0 have the same frames of the port p: queue 1"),
            "{twice}"
        );
        assert!(twice.contains("give it another queue"), "{twice}");
    }
    let hardware = refused(&text("hardware", "queue = 1", "vlan = 7"));
    assert!(
        says(&hardware, 6, "blue.DEV0 has queue 1 of the port p, and sharing = \"hardware\""),
        "{hardware}"
    );
    assert!(hardware.contains("use sharing = \"software\""), "{hardware}");
}
