//! An etcd of one member on loopback, for tests.

use etcd::{Client, Limits, Trust};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
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
    /// The certificates and the password of clients; with a CA, etcd speaks TLS.
    trust: Trust,
    process: Option<Child>,
}

impl Etcd {
    pub fn start(more: &[&str]) -> Self {
        Self::trusting(more, Trust::default())
    }
    /// An etcd that speaks TLS if the settings of its clients have a CA.
    pub fn trusting(more: &[&str], trust: Trust) -> Self {
        let more = more.iter().map(|s| (*s).to_owned()).collect();
        let dir = tempfile::tempdir().unwrap();
        let mut this = Self { dir, port: free_port(), peer: free_port(), more, trust, process: None };
        // Between looking for a free port and listening on it, another process may have taken it.
        for _ in 0..3 {
            match this.try_up_at(this.port) {
                Ok(()) => return this,
                Err(_) => (this.port, this.peer) = (free_port(), free_port()),
            }
        }
        this.up();
        this
    }
    pub fn up(&mut self) {
        self.up_at(self.port);
    }
    pub fn up_at(&mut self, port: u16) {
        self.try_up_at(port).unwrap();
    }
    /// Starts it; fails if it ends before it answers.
    fn try_up_at(&mut self, port: u16) -> Result<(), String> {
        self.spawn_at(port);
        let client = Client::trusting(&[self.url_at(port)], limits(), self.trust.clone()).unwrap();
        let end = Instant::now() + PATIENCE;
        while let Err(e) = client.get("/") {
            assert!(Instant::now() < end, "etcd does not come up: {e}");
            if let Some(status) = self.process.as_mut().and_then(|child| child.try_wait().unwrap()) {
                return Err(format!("etcd ends, {status}: {e}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
    /// Starts it without waiting for it to answer.
    pub fn spawn(&mut self) {
        self.spawn_at(self.port);
    }
    fn spawn_at(&mut self, port: u16) {
        let (client, peer) = (self.url_at(port), format!("http://127.0.0.1:{}", self.peer));
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
        // Debian's etcd requires this on processors that it was not tested on.
        command.env("ETCD_UNSUPPORTED_ARCH", std::env::consts::ARCH);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.process =
            Some(child.unwrap_or_else(|e| panic!("etcd: {e}; scripts/bootstrap installs etcd-server")));
    }
    pub fn url(&self) -> String {
        self.url_at(self.port)
    }
    /// The lines of a cluster file that name this etcd.
    pub fn settings(&self) -> String {
        let mut text = format!("endpoints = [\"{}\"]\n", self.url());
        let Trust { ca_file, cert_file, key_file, .. } = &self.trust;
        for (name, path) in [("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)] {
            text.extend(path.iter().map(|path| format!("{name} = \"{}\"\n", path.display())));
        }
        text
    }
    fn url_at(&self, port: u16) -> String {
        format!("{}://127.0.0.1:{port}", if self.trust.ca_file.is_some() { "https" } else { "http" })
    }
    pub fn client(&self) -> Arc<Client> {
        Arc::new(Client::trusting(&[self.url()], limits(), self.trust.clone()).unwrap())
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
        // On busy processors, etcd needs a long time for passwords and certificates.
        connect: Duration::from_secs(5),
        request: Duration::from_secs(10),
        watch: Duration::from_secs(1),
        backoff: (Duration::from_millis(20), Duration::from_millis(200)),
    }
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A directory of certificates, which `openssl` makes.
pub struct Certificates {
    dir: tempfile::TempDir,
}

impl Certificates {
    pub fn new() -> Self {
        let this = Self { dir: tempfile::tempdir().unwrap() };
        let usage = |name: &str, more: &str| {
            format!(
                "[{name}]\nbasicConstraints = CA:FALSE\nsubjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n{more}\n"
            )
        };
        let config = "[req]\ndistinguished_name = dn\n[dn]\n[ca]\nbasicConstraints = critical,CA:TRUE\n\
                      subjectKeyIdentifier = hash\nkeyUsage = keyCertSign,cRLSign\n"
            .to_owned()
            + &usage(
                "here",
                "subjectAltName = IP:127.0.0.1,DNS:localhost\nextendedKeyUsage = serverAuth,clientAuth",
            )
            + &usage(
                "elsewhere",
                "subjectAltName = DNS:etcd.example\nextendedKeyUsage = serverAuth,clientAuth",
            )
            + &usage("server", "subjectAltName = IP:127.0.0.1\nextendedKeyUsage = serverAuth")
            + &usage("client", "extendedKeyUsage = clientAuth");
        std::fs::write(this.path("openssl.cnf"), config).unwrap();
        this
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let out =
            command.current_dir(self.dir.path()).args(arguments.split(' ')).stdin(Stdio::null()).output();
        let out = out.unwrap_or_else(|e| panic!("openssl: {e}; scripts/bootstrap installs it"));
        assert!(out.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&out.stderr));
    }
    /// A CA: NAME.pem and NAME.key.
    pub fn authority(&self, name: &str) {
        self.openssl(&format!(
            "req -config openssl.cnf -x509 -extensions ca -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
             -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
    }
    /// A certificate of a kind, a section of the configuration, signed by a CA: NAME.pem and NAME.key. It is
    /// valid for days from now on, or was until so long ago.
    pub fn sign(&self, authority: &str, name: &str, kind: &str, days: i32) {
        self.openssl(&format!(
            "req -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key \
             -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days {days} \
             -extfile openssl.cnf -extensions {kind} -out {name}.pem"
        ));
    }
    /// What an etcd with this certificate is started with.
    pub fn server(&self, name: &str) -> Vec<String> {
        let path = |kind| self.path(&format!("{name}.{kind}"));
        vec![
            format!("--cert-file={}", path("pem").display()),
            format!("--key-file={}", path("key").display()),
        ]
    }
    /// The same, and a CA that must have signed its clients' certificates.
    pub fn strict_server(&self, name: &str, authority: &str) -> Vec<String> {
        let mut all = self.server(name);
        let ca = self.path(&format!("{authority}.pem"));
        all.extend(["--client-cert-auth".to_owned(), format!("--trusted-ca-file={}", ca.display())]);
        all
    }
    /// The settings of a client: a CA, and a certificate of its own if it has one.
    pub fn trust(&self, authority: &str, name: Option<&str>) -> Trust {
        let path = |name: &str, kind: &str| Some(self.path(&format!("{name}.{kind}")));
        Trust {
            ca_file: path(authority, "pem"),
            cert_file: name.and_then(|name| path(name, "pem")),
            key_file: name.and_then(|name| path(name, "key")),
            ..Trust::default()
        }
    }
}

/// Copies a certificate and its key over others.
pub fn replace(from: &Path, to: &Path) {
    for kind in ["pem", "key"] {
        std::fs::copy(from.with_extension(kind), to.with_extension(kind)).unwrap();
    }
}
