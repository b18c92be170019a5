//! A cluster whose configuration is in etcd: two running nodes, on devices that are connected to nothing, and
//! an etcd that is killed.

#[path = "../../../crates/etcd/tests/server/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod server;

use serde_json::Value;
use server::{Certificates, Etcd, eventually};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Three nodes with a port each, two of which are run.
fn program() -> String {
    let port = |n: u16| {
        format!(
            "FromDevice($DEV{n}) -> c{n} :: Classifier(12/0806 20/0002, 12/0800);\n\
             c{n}[1] -> Strip(14) -> CheckIPHeader -> [0]rt;\n\
             rt[{n}] -> a{n} :: ARPQuerier($IP{n}, $MAC{n}) -> Queue -> ToDevice($DEV{n});\n\
             c{n}[0] -> [1]a{n};\n"
        )
    };
    let ports: String = (0..3).map(port).collect();
    format!("rt :: RadixIPLookup($NET0 0, $NET1 1, $NET2 2);\n{ports}")
}

fn file(dir: &Path, etcd: &str, delta: &str) -> String {
    let link = |to: u16| format!("[[node.link]]\nto = {to}\ndevice = \"net_null{},no-rx=1\"\n", to + 1);
    let node = |id: u16| {
        let links: String = (0..3).filter(|to| *to != id).map(link).collect();
        let socket = dir.join(format!("n{id}.sock"));
        format!(
            "[[node]]\nid = {id}\nsocket = \"{}\"\n[[node.port]]\ndevice = \"net_null0,no-rx=1\"\nnetwork = \"10.0.{}.1/24\"\n\
             mac = \"02:00:00:00:00:0{id}\"\n{links}",
            socket.display(),
            id + 1
        )
    };
    let nodes: String = (0..3).map(node).collect();
    format!(
        "name = \"three\"\nkey_file = \"three.key\"\nrate = \"1Gbps\"\nprogram = \"three.click\"\n\
         [policy]\ndelta = \"{delta}\"\n[etcd]\n{etcd}prefix = \"/test/three\"\nttl = \"2s\"\n{nodes}"
    )
}

/// A directory with a user's copy of the cluster's files.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new(sockets: &Path, etcd: &str) -> Self {
        let this = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::write(this.dir.path().join("three.key"), "00112233445566778899aabbccddeeff\n").unwrap();
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(this.dir.path().join("three.key"), owner).unwrap();
        std::fs::write(this.dir.path().join("three.click"), program()).unwrap();
        this.edit(sockets, etcd, "100ms");
        this
    }
    fn edit(&self, sockets: &Path, etcd: &str, delta: &str) {
        std::fs::write(self.file(), file(sockets, etcd, delta)).unwrap();
    }
    fn file(&self) -> PathBuf {
        self.dir.path().join("three.toml")
    }
    fn cluster(&self, what: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valiant"));
        command.args(["cluster", what]).arg(self.file()).args(more).stdin(Stdio::null()).output().unwrap()
    }
    /// The output of a command, which must succeed.
    fn does(&self, what: &str, more: &[&str]) -> String {
        let out = self.cluster(what, more);
        assert!(out.status.success(), "{what} {more:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
    /// The error message of a command, which must fail.
    fn refuses(&self, what: &str, more: &[&str]) -> String {
        let out = self.cluster(what, more);
        assert_eq!(out.status.code(), Some(1), "{what} {more:?}: {}", String::from_utf8_lossy(&out.stdout));
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
    fn status(&self) -> Value {
        let out = self.cluster("status", &["--json", "--interval", "10ms"]);
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"))
    }
}

/// A running node; killed at the end.
struct Node {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
}

impl Node {
    fn start(desk: &Desk, sockets: &Path, id: u16) -> Self {
        let log = sockets.join(format!("{id}.txt"));
        let socket = sockets.join(format!("n{id}.sock"));
        let child = Command::new(env!("CARGO_BIN_EXE_valiant"))
            .args(["cluster", "run"])
            .arg(desk.file())
            .args(["--node", &id.to_string(), "--no-huge", "--memory=64"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut this = Self { child, log, socket };
        eventually("the node runs", || {
            assert!(this.child.try_wait().unwrap().is_none(), "{}", this.log());
            this.read("hotconfig").is_some()
        });
        this
    }
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
    fn printed(&self, what: &str) -> usize {
        self.log().matches(what).count()
    }
    fn read(&self, handler: &str) -> Option<String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valiant"));
        let out = command.args(["read", "--socket"]).arg(&self.socket).arg(handler).output().unwrap();
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }
    fn has(&self, handler: &str, what: &str) -> bool {
        self.read(handler).is_some_and(|text| text.contains(what))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_writers_of_the_configuration_do_not_overwrite_each_other() {
    let etcd = Etcd::start(&[]);
    let sockets = tempfile::tempdir().unwrap();
    let sockets = sockets.path();
    let (ann, ben) = (Desk::new(sockets, &etcd.settings()), Desk::new(sockets, &etcd.settings()));
    assert!(ann.refuses("pull", &[]).contains("no configuration of three yet"));
    let first = ann.does("push", &["--json"]);
    assert_eq!(ann.does("push", &["--json"]), first);

    // The second user has not seen the configuration that the first one wrote.
    ben.edit(sockets, &etcd.settings(), "50ms");
    let words = ben.refuses("push", &[]);
    assert!(
        words.contains("another configuration has been pushed to etcd meanwhile") && words.contains("pull"),
        "{words}"
    );
    assert!(ben.refuses("pull", &[]).contains("changes that were never pushed"));
    ben.does("pull", &["--force"]);
    assert_eq!(std::fs::read(ben.file()).unwrap(), std::fs::read(ann.file()).unwrap());
    ben.edit(sockets, &etcd.settings(), "50ms");
    ben.does("push", &[]);

    // Now the first user has an outdated one.
    ann.edit(sockets, &etcd.settings(), "70ms");
    assert!(ann.refuses("push", &[]).contains("yours is based on revision"));
    ann.does("push", &["--force"]);
    ben.does("pull", &[]);
    assert!(std::fs::read_to_string(ben.file()).unwrap().contains("70ms"));

    // A wrong configuration is not written to etcd.
    std::fs::write(ann.dir.path().join("three.click"), program().replace("RadixIPLookup", "RadixIpLookup"))
        .unwrap();
    assert!(ann.refuses("push", &[]).contains("RadixIpLookup"));
    let at = ben.status()["etcd"]["revision"].clone();
    ben.does("push", &[]);
    assert_eq!(ben.status()["etcd"]["revision"], at);

    // A user with another key cannot read the configuration, and nodes do not accept a configuration from
    // this user.
    std::fs::write(ben.dir.path().join("three.key"), "ffeeddccbbaa99887766554433221100\n").unwrap();
    assert!(ben.refuses("pull", &[]).contains("not written with this cluster's key"));
}

#[test]
fn nodes_follow_etcd_and_go_on_without_it() {
    // Both ends have certificates: all of this uses TLS.
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.sign("ca", "etcd", "here", 2);
    certificates.sign("ca", "node", "client", 2);
    let strict = certificates.strict_server("etcd", "ca");
    let strict: Vec<&str> = strict.iter().map(String::as_str).collect();
    let mut etcd = Etcd::trusting(&strict, certificates.trust("ca", Some("node")));
    let sockets = tempfile::tempdir().unwrap();
    let sockets = sockets.path();
    let desk = Desk::new(sockets, &etcd.settings());
    desk.does("push", &[]);
    let mut nodes = [Node::start(&desk, sockets, 0), Node::start(&desk, sockets, 1)];
    let present = |n: usize| desk.status()["etcd"]["members"].as_array().map(Vec::len) == Some(n);
    eventually("both are present", || present(2));

    // A new configuration reaches both.
    desk.edit(sockets, &etcd.settings(), "30ms");
    desk.does("push", &[]);
    let changed = |nodes: &[Node; 2], what: &str| {
        eventually("both change over", || nodes.iter().all(|n| n.has("hotconfig", what)));
    };
    changed(&nodes, "DELTA 0.03");

    // So do routes.
    desk.cluster("route", &["add", "10.9.0.0/16", "10.0.2.2"]);
    let routed = |nodes: &[Node; 2], there: bool| {
        eventually("routes spread", || {
            nodes.iter().all(|n| n.has("cluster_routes.table", "10.9.0.0/16") == there)
        });
    };
    routed(&nodes, true);
    let words = desk.refuses("route", &["add", "10.9.0.0/16", "10.0.1.2"]);
    assert!(words.contains("a route to 10.9.0.0/16 already, by 10.0.2.2"), "{words}");

    // Without etcd the nodes run, print one message, and keep what they have; commands that need etcd report
    // that it is missing.
    etcd.kill();
    eventually("it is printed", || nodes.iter().all(|n| n.printed("does not answer") == 1));
    let words = desk.refuses("route", &["add", "10.8.0.0/16", "10.0.2.2"]);
    assert!(words.contains("does not answer: connection refused"), "{words}");
    assert!(desk.refuses("push", &[]).contains("does not answer"));
    let status = desk.status();
    assert_eq!(status["nodes"][1]["up"], Value::Bool(true));
    assert!(status["etcd"]["problem"].as_str().unwrap().contains("does not answer"));
    // A node that starts now uses the configuration that it had, not an old file.
    nodes[1].child.kill().unwrap();
    nodes[1].child.wait().unwrap();
    desk.edit(sockets, &etcd.settings(), "100ms");
    nodes[1] = Node::start(&desk, sockets, 1);
    assert!(nodes[1].has("hotconfig", "DELTA 0.03"), "{}", nodes[1].log());

    // etcd comes back, and the nodes take over what changed meanwhile.
    etcd.up();
    desk.edit(sockets, &etcd.settings(), "40ms");
    desk.does("push", &[]);
    changed(&nodes, "DELTA 0.04");
    routed(&nodes, true);
    desk.cluster("route", &["remove", "10.9.0.0/16"]);
    routed(&nodes, false);
    assert!(
        nodes[0].printed("etcd answers again") == 1 && nodes[0].printed("does not answer") == 1,
        "{}",
        nodes[0].log()
    );

    // Only a user with the key can configure the cluster, and an emptied etcd changes nothing.
    let client = etcd.client();
    let entry = client.get("/test/three/config").unwrap().unwrap();
    let forged = String::from_utf8(entry.value).unwrap().replace("40ms", "45ms");
    client.put("/test/three/config", forged.as_bytes(), None).unwrap();
    eventually("the forgery is named", || {
        nodes.iter().all(|n| n.printed("not written with this cluster's key") == 1)
    });
    client.delete("/test/three/config").unwrap();
    desk.does("push", &[]);
    changed(&nodes, "DELTA 0.04");

    // A node that is removed from the configuration stops.
    let alone = file(sockets, &etcd.settings(), "40ms")
        .replace("[[node]]\nid = 1\n", "[[node]]\nid = 1\nremoved = true\n");
    std::fs::write(desk.file(), alone).unwrap();
    desk.does("push", &[]);
    eventually("node 1 stops", || nodes[1].child.try_wait().unwrap().is_some());
    eventually("and is absent", || present(1));
}

/// An attacker who can write to etcd, but does not have the key, restores an older configuration or removes
/// it, before a node starts and while it runs: the node uses the latest configuration that it has ever had.
#[test]
fn the_latest_configuration_wins_in_whatever_order_things_start() {
    const KEY: &str = "/test/three/config";
    let etcd = Etcd::start(&[]);
    let sockets = tempfile::tempdir().unwrap();
    let sockets = sockets.path();
    let desk = Desk::new(sockets, &etcd.settings());
    let client = etcd.client();
    desk.does("push", &[]);
    let old = client.get(KEY).unwrap().unwrap().value;
    desk.edit(sockets, &etcd.settings(), "30ms");
    desk.does("push", &[]);
    let bring_back = || assert!(client.put(KEY, &old, None).is_ok());
    let runs = |what: &str| {
        let node = Node::start(&desk, sockets, 0);
        assert!(node.has("hotconfig", what), "{what}: {}", node.log());
        node
    };

    drop(runs("DELTA 0.03"));
    // No cluster file has the running configuration.
    desk.edit(sockets, &etcd.settings(), "70ms");
    bring_back();
    let node = runs("DELTA 0.03");
    assert_eq!(node.printed("is an older one"), 1, "{}", node.log());
    drop(node);
    client.delete(KEY).unwrap();
    let node = runs("DELTA 0.03");
    assert_eq!(node.printed("was removed there"), 1, "{}", node.log());
    // The older configuration is restored while the node runs.
    bring_back();
    eventually("it is named", || node.printed("is older than an earlier one") == 1);
    assert!(node.has("hotconfig", "DELTA 0.03"));
    drop(node);
    // The machine was restarted: the files below /run are gone.
    std::fs::remove_file(sockets.join("n0.etcd")).unwrap();
    std::fs::remove_file(desk.file().with_added_extension("etcd")).unwrap();
    let node = runs("DELTA 0.03");

    // `pull` reports it, and a new configuration replaces it.
    assert!(desk.refuses("pull", &["--force"]).contains("push --force"));
    desk.does("push", &["--force"]);
    eventually("it changes over", || node.has("hotconfig", "DELTA 0.07"));
    desk.does("pull", &[]);
    // A new configuration that cannot run here still counts as the latest.
    let new = client.get(KEY).unwrap().unwrap().value;
    assert_ne!(new, old);
}
