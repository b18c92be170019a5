//! Tests with a real etcd with certificates and users, which each test starts and creates for itself.

use etcd::{Client, Error, Follower, News, Trust};
use std::path::PathBuf;
use std::sync::mpsc::channel;

#[allow(dead_code, reason = "shared with the other tests")]
mod server;
use server::{Certificates, Etcd, PATIENCE, eventually, free_port, limits, replace};

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Makes etcd require users: `node`, with a password, may do everything below `/v/`.
fn demand_users(url: &str, tls: Option<etcd_client::TlsOptions>) {
    use etcd_client::{ConnectOptions, Permission};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = tls.map(|tls| ConnectOptions::new().with_tls(tls));
        let mut etcd = etcd_client::Client::connect([url], options).await.unwrap();
        etcd.user_add("root", "root", None).await.unwrap();
        etcd.role_add("root").await.unwrap();
        etcd.user_grant_role("root", "root").await.unwrap();
        etcd.user_add("node", "secret and long", None).await.unwrap();
        etcd.role_add("valiant").await.unwrap();
        let below = Permission::read_write("/v/").with_prefix();
        etcd.role_grant_permission("valiant", below).await.unwrap();
        etcd.user_grant_role("node", "valiant").await.unwrap();
        etcd.auth_enable().await.unwrap();
    });
}

/// The error that a client of this endpoint with these settings gets.
fn refused(url: &str, trust: Trust) -> Error {
    let client = Client::trusting(&[url], limits(), trust).unwrap();
    let error = client.get("/v/a").unwrap_err();
    // The same for a watch, which is another type of request.
    let watch = client.watch("/v/", 1).unwrap_err();
    assert!(watch.same_trouble(&error), "{watch} where a request says {error}");
    error
}

#[test]
fn certificates_of_both_ends_are_looked_at() {
    let certificates = Certificates::new();
    for authority in ["ca", "other"] {
        certificates.authority(authority);
    }
    certificates.sign("ca", "etcd", "here", 2);
    certificates.sign("ca", "node", "client", 2);
    certificates.sign("ca", "old", "client", -1);
    certificates.sign("other", "stranger", "client", 2);
    let good = certificates.trust("ca", Some("node"));
    let etcd = Etcd::trusting(&words(&certificates.strict_server("etcd", "ca")), good.clone());
    let client = etcd.client();
    client.put("/v/a", b"1", None).unwrap();
    assert_eq!(client.get("/v/a").unwrap().unwrap().value, b"1");

    // Changes are received over TLS, too. A file may contain other certificates beside that of the CA or of
    // the client.
    let (sender, news) = channel();
    let _follower = Follower::start(etcd.client(), "/v/".into(), sender);
    let next = || news.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(next(), News::All { entries, .. } if entries.len() == 1));
    client.put("/v/a", b"2", None).unwrap();
    assert!(matches!(next(), News::Changes { .. }));
    let both = certificates.path("both.pem");
    let texts = ["other.pem", "ca.pem"].map(|name| std::fs::read_to_string(certificates.path(name)).unwrap());
    std::fs::write(&both, texts.concat()).unwrap();
    let trust = Trust { ca_file: Some(both), ..good.clone() };
    assert!(Client::trusting(&[etcd.url()], limits(), trust).unwrap().get("/v/a").is_ok());

    // Servers that this client does not trust.
    let wrong = refused(&etcd.url(), certificates.trust("other", Some("node")));
    let text = wrong.to_string();
    assert!(
        matches!(wrong, Error::Untrusted { .. }) && text.contains("not signed by a certificate in ca_file"),
        "{text}"
    );
    assert!(text.contains("other.pem") && text.contains(&etcd.url()), "{text}");

    // Clients that etcd does not trust.
    let none = refused(&etcd.url(), certificates.trust("ca", None));
    let text = none.to_string();
    assert!(
        matches!(none, Error::Unwelcome { .. }) && text.contains("give cert_file and key_file"),
        "{text}"
    );
    for name in ["stranger", "old"] {
        let error = refused(&etcd.url(), certificates.trust("ca", Some(name)));
        let text = error.to_string();
        assert!(matches!(error, Error::Unwelcome { .. }) && text.contains("openssl x509"), "{text}");
        assert!(text.contains(&format!("{name}.pem")), "{text}");
    }
    let plain = Client::new(&[etcd.url().replace("https", "http")], limits()).unwrap();
    let text = plain.get("/v/a").unwrap_err().to_string();
    assert!(text.contains("an https:// endpoint"), "{text}");

    // A renewed certificate is used from then on, without a new client. As long as only one of the two files
    // is new, the old certificate is used.
    let mine = certificates.path("mine.pem");
    replace(&certificates.path("old.pem"), &mine);
    let client = Client::trusting(&[etcd.url()], limits(), certificates.trust("ca", Some("mine"))).unwrap();
    assert!(matches!(client.get("/v/a"), Err(Error::Unwelcome { .. })));
    std::fs::copy(certificates.path("node.pem"), &mine).unwrap();
    let half = client.get("/v/a").unwrap_err().to_string();
    assert!(half.contains("is not the key of the certificate in"), "{half}");
    replace(&certificates.path("node.pem"), &mine);
    assert_eq!(client.get("/v/a").unwrap().unwrap().value, b"2");
}

#[test]
fn what_is_wrong_with_etcds_certificate_is_named() {
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.sign("ca", "good", "here", 2);
    certificates.sign("ca", "old", "here", -1);
    certificates.sign("ca", "other", "elsewhere", 2);
    certificates.sign("ca", "client", "client", 2);
    let used = certificates.path("etcd.pem");
    replace(&certificates.path("good.pem"), &used);
    let trust = certificates.trust("ca", None);
    let etcd = Etcd::trusting(&words(&certificates.server("etcd")), trust.clone());
    // Etcd reads it again for each connection.
    for (name, says) in [
        ("old", "expired"),
        ("other", "is not for 127.0.0.1 but for"),
        ("client", "serverAuth"),
        ("ca", "is that of a CA"),
    ] {
        replace(&certificates.path(&format!("{name}.pem")), &used);
        let error = refused(&etcd.url(), trust.clone());
        let text = error.to_string();
        assert!(matches!(error, Error::Untrusted { .. }) && text.contains(says), "{name}: {text}");
    }
    replace(&certificates.path("good.pem"), &used);
    assert!(etcd.client().get("/v/a").is_ok());

    // A server without TLS at an address with https://.
    let plain = Etcd::start(&[]);
    let text = refused(&plain.url().replace("http", "https"), trust).to_string();
    assert!(text.contains("begins with http://"), "{text}");
}

/// A certificate for servers alone is enough for etcd: clients connect to it directly, not to its JSON
/// gateway, which would itself be a client of etcd.
#[test]
fn a_certificate_for_servers_is_enough() {
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.sign("ca", "server", "server", 2);
    certificates.sign("ca", "node", "client", 2);
    let trust = certificates.trust("ca", Some("node"));
    let etcd = Etcd::trusting(&words(&certificates.strict_server("server", "ca")), trust);
    etcd.client().put("/v/a", b"1", None).unwrap();
}

/// Etcd takes the user from the common name of a client's certificate where the client names none.
#[test]
fn a_certificate_is_a_user() {
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.sign("ca", "etcd", "here", 2);
    certificates.sign("ca", "node", "client", 2);
    certificates.sign("ca", "stranger", "client", 2);
    let node = certificates.trust("ca", Some("node"));
    let etcd = Etcd::trusting(&words(&certificates.strict_server("etcd", "ca")), node.clone());
    let tls = |trust: &Trust| {
        let read = |path: &Option<PathBuf>| std::fs::read(path.as_ref().unwrap()).unwrap();
        etcd_client::TlsOptions::new()
            .ca_certificate(etcd_client::Certificate::from_pem(read(&trust.ca_file)))
            .identity(etcd_client::Identity::from_pem(read(&trust.cert_file), read(&trust.key_file)))
    };
    demand_users(&etcd.url(), Some(tls(&node)));
    let client = etcd.client();
    client.put("/v/a", b"1", None).unwrap();
    assert!(client.watch("/v/", 1).unwrap().next_changes().unwrap().is_some());
    let elsewhere = client.get("/other").unwrap_err();
    assert!(matches!(&elsewhere, Error::Refused { message, .. } if message.contains("permission denied")));
    let stranger = certificates.trust("ca", Some("stranger"));
    let error = Client::trusting(&[etcd.url()], limits(), stranger).unwrap().get("/v/a").unwrap_err();
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("permission denied")));
}

#[test]
fn another_member_is_asked_where_one_is_gone_or_not_to_be_trusted() {
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.authority("other");
    certificates.sign("ca", "etcd", "here", 2);
    certificates.sign("other", "fake", "here", 2);
    let trust = certificates.trust("ca", None);
    let mut first = Etcd::trusting(&words(&certificates.server("etcd")), trust.clone());
    let second = Etcd::trusting(&words(&certificates.server("etcd")), trust.clone());
    let fake = Etcd::trusting(&words(&certificates.server("fake")), certificates.trust("other", None));
    first.client().put("/v/a", b"first", None).unwrap();
    second.client().put("/v/a", b"second", None).unwrap();
    fake.client().put("/v/a", b"fake", None).unwrap();
    let dead = format!("https://127.0.0.1:{}", free_port());
    let urls = [dead, fake.url(), first.url(), second.url()];
    let client = Client::trusting(&urls, limits(), trust.clone()).unwrap();
    let value = || String::from_utf8(client.get("/v/a").unwrap().unwrap().value).unwrap();
    assert_eq!(value(), "first");
    first.kill();
    assert_eq!(value(), "second");
    // If none answers, the error of the first one is reported.
    let none = Client::trusting(&urls[1..3], limits(), trust).unwrap();
    assert!(matches!(none.get("/v/a"), Err(Error::Untrusted { .. })));
}

#[test]
fn users_log_in_and_stay_in() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("password");
    std::fs::write(&file, "secret and long\n").unwrap();
    let user = Trust { user: Some("node".into()), password_file: Some(file.clone()), ..Trust::default() };
    let mut etcd = Etcd::start(&[]);
    let url = etcd.url();
    let client = Client::trusting(&[&url], limits(), user.clone()).unwrap();
    // An etcd without users accepts every client.
    client.put("/v/a", b"1", None).unwrap();
    demand_users(&url, None);
    // The same client continues when it has logged in.
    client.put("/v/a", b"2", None).unwrap();
    eventually("what happened is watched", || {
        let changes = client.watch("/v/", 1).and_then(|mut watch| watch.next_changes());
        changes.is_ok_and(|changes| changes.is_some())
    });
    let elsewhere = client.get("/other").unwrap_err();
    assert!(matches!(&elsewhere, Error::Refused { message, .. } if message.contains("permission denied")));

    let text = Client::new(&[&url], limits()).unwrap().get("/v/a").unwrap_err().to_string();
    assert!(text.contains("give user and password_file"), "{text}");
    let other = files.path().join("other");
    std::fs::write(&other, "guessed").unwrap();
    let wrong = Trust { password_file: Some(other), ..user.clone() };
    let text = refused(&url, wrong).to_string();
    assert!(text.contains("user node") && text.contains("authentication failed"), "{text}");

    // A restart of etcd makes the tokens of users invalid.
    etcd.kill();
    etcd.spawn();
    eventually("it is back", || client.get("/v/a").is_ok());
    etcd.kill();
    etcd.spawn();
    eventually("a watch comes back", || client.watch("/v/", 1).is_ok());
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let certificates = Certificates::new();
    certificates.authority("ca");
    certificates.sign("ca", "one", "client", 2);
    certificates.sign("ca", "two", "client", 2);
    let trust = certificates.trust("ca", Some("one"));
    let says = |trust: Trust, what: &str, word: &str| {
        let error = Client::trusting(&["https://127.0.0.1:1"], limits(), trust).unwrap_err();
        let text = error.to_string();
        let named = text.starts_with(&format!("etcd's {what} "))
            && text.contains(&certificates.path("").display().to_string());
        assert!(matches!(error, Error::File { .. }) && named && text.contains(word), "{text}");
    };
    let path = |name: &str| Some(certificates.path(name));
    let write = |name: &str, text: &str| std::fs::write(certificates.path(name), text).unwrap();
    says(Trust { ca_file: path("none.pem"), ..trust.clone() }, "ca_file", "no such file or directory");
    says(Trust { cert_file: path("none.pem"), ..trust.clone() }, "cert_file", "no such file or directory");
    says(Trust { key_file: path("none.pem"), ..trust.clone() }, "key_file", "no such file or directory");
    says(Trust { ca_file: path("one.key"), ..trust.clone() }, "ca_file", "no certificate in it");
    says(Trust { key_file: path("one.pem"), ..trust.clone() }, "key_file", "openssl pkey");
    says(Trust { key_file: path("two.key"), ..trust.clone() }, "key_file", "is not the key of");
    write("torn", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    says(Trust { ca_file: path("torn"), ..trust.clone() }, "ca_file", "not PEM");
    write("odd", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    says(Trust { ca_file: path("odd"), ..trust.clone() }, "ca_file", "cannot be read");
    write("empty", "\n");
    let login = |file: &str| Trust { user: Some("u".into()), password_file: path(file), ..trust.clone() };
    says(login("none"), "password_file", "no such file or directory");
    says(login("empty"), "password_file", "it is empty");
}
