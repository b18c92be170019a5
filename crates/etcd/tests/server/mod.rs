//! An etcd of one member on loopback, for tests.

use etcd::{Client, Limits};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything here may take before it counts as hanging. Nothing is measured.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An etcd of one member.
pub struct Etcd {
    dir: tempfile::TempDir,
    port: u16,
    peer: u16,
    more: Vec<String>,
    process: Option<Child>,
}

impl Etcd {
    pub fn start(more: &[&str]) -> Self {
        let more = more.iter().map(|s| (*s).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut this = Self { dir, port: free_port(), peer: free_port(), more, process: None };
        this.up();
        this
    }
    pub fn up(&mut self) {
        self.up_at(self.port);
    }
    pub fn up_at(&mut self, port: u16) {
        let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", self.peer));
        let mut command = Command::new("etcd");
        command.args([
            "--name=one",
            "--log-level=error",
            "--heartbeat-interval=20",
            "--election-timeout=200",
        ]);
        command.arg(format!("--data-dir={}", self.dir.path().join("data").display()));
        command
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"));
        command
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--initial-cluster=one={peer}")).args(&self.more);
        // Debian's etcd asks for this on processors that it was not tested on.
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.process =
            Some(child.unwrap_or_else(|e| panic!("etcd: {e}; scripts/bootstrap installs etcd-server")));
        let client = Client::new(&[client], limits()).unwrap();
        eventually("etcd comes up", || client.get("/").is_ok());
    }
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    pub fn client(&self) -> Arc<Client> {
        Arc::new(Client::new(&[self.url()], limits()).unwrap())
    }
    pub fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    pub fn signal(&self, name: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
    pub fn wipe(&self) {
        std::fs::remove_dir_all(self.dir.path().join("data")).unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn limits() -> Limits {
    Limits {
        connect: Duration::from_millis(500),
        request: Duration::from_secs(1),
        watch: Duration::from_secs(1),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
